//! Reading of recordings: format-neutral scheduling events, and what lies beside them in a
//! recording's folder.
//!
//! [`Recording::open`] reads a folder (`recording.json`, the trace, `cgroups.json`, `requests.csv`,
//! `measured.json`) or a bare trace file into memory. [`open_trace`] gives the events of a trace
//! one by one, in constant memory where the format allows it. [`mod@write`] writes them in other
//! formats. Nothing here interprets what it reads.

mod binary;
mod clock;
pub mod error;
pub mod event;
mod event_format;
pub mod ftrace_text;
mod input;
mod json;
mod merge;
pub mod names;
mod ordered;
mod perf_data;
pub mod perfetto;
mod raw_pages;
pub mod recording;
mod ring_buffer;
pub mod source;
mod trace_dat;
mod tracepoint;
pub mod write;

pub use error::{ErrorKind, ReadError};
pub use event::{
    AtSocket, Context, Event, EventKind, Exec, Fork, Level, Migrate, Pid, PrevState, Runtime,
    Socket, SocketEvent, Switch, Task, Wakeup,
};
pub use ftrace_text::FtraceTextReader;
pub use input::open_trace;
pub use names::{CommId, CommTable};
pub use recording::{
    BoundThreads, Cgroup, CgroupTree, Figure, MeasuredSettings, Meta, Recording, Request, Setting,
    ThreadTimes, Weight,
};
pub use recording::{note_of_hidden_idle, trace_of};
pub use source::{
    Backwards, BufferStart, Counts, EventSource, IdleSwitches, Item, LostEvents, OtherEvent,
};
pub use tracepoint::Tracepoint;
