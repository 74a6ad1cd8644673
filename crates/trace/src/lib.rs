//! Reading of recordings: format-neutral scheduling events, one by one and in constant memory.
//!
//! Nothing here interprets what it reads.

pub mod error;
pub mod event;
pub mod ftrace_text;
pub mod names;
pub mod source;

pub use error::{ErrorKind, ReadError, nearest_name};
pub use event::{Context, Event, EventKind, Level, Pid, PrevState, Wakeup};
pub use ftrace_text::FtraceTextReader;
pub use names::{CommId, CommTable};
pub use source::{Backwards, BufferStart, Counts, EventSource, Item, LostEvents, OtherEvent};
