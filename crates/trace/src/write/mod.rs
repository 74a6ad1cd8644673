//! Writing recordings: the events that were read from one format, in another.
//!
//! Three formats are written: ftrace text, text of `perf script`, and Perfetto. All keep
//! nanoseconds, names of any bytes that the format can hold, and gaps. Events that are not decoded
//! have no fields to write, and Perfetto has no message for `sched_stat_runtime`; those are left
//! out, and [`ItemSink::left_out`] says how many they are.
//!
//! Worked example. `sched_waking` of task 9 by task 7 on CPU 2 at 1.5 s:
//!
//! ```text
//!              a-7       [002] d..3. 1.500000000: sched_waking: comm=b pid=9 prio=120 target_cpu=001     ftrace text
//!                a     7 [002]     1.500000000:       sched:sched_waking: comm=b pid=9 …                 perf script
//! ```

mod fields;
mod perfetto;
mod text;

use std::io::{self, Write};

pub(crate) use self::perfetto::PerfettoSink;
pub(crate) use self::text::{Spelling, TextSink};

use crate::names::CommTable;
use crate::source::Item;

schedcast_base::named! {
    /// A format that can be written.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum WriteFormat {
        /// Text as tracefs prints it, with nanoseconds.
        FtraceText = "ftrace-text",
        /// Text as `perf script --ns` prints it.
        PerfScript = "perf-script",
        /// Perfetto.
        Perfetto = "perfetto",
    }
}

/// Takes items one by one.
pub trait ItemSink {
    /// Writes one item; `comms` are the names it refers to.
    ///
    /// # Errors
    /// The output's.
    fn item(&mut self, item: &Item, comms: &CommTable) -> io::Result<()>;

    /// Writes what is left.
    ///
    /// # Errors
    /// The output's.
    fn finish(&mut self) -> io::Result<()>;

    /// Events so far that the format has no words for.
    fn left_out(&self) -> u64;
}

/// A sink of this format; `cpus` is the number of CPUs where it is known.
pub fn sink<'a, W: Write + 'a>(
    format: WriteFormat,
    out: W,
    cpus: Option<u32>,
) -> Box<dyn ItemSink + 'a> {
    match format {
        WriteFormat::FtraceText => Box::new(TextSink::new(Spelling::Ftrace, out, cpus)),
        WriteFormat::PerfScript => Box::new(TextSink::new(Spelling::PerfScript, out, cpus)),
        WriteFormat::Perfetto => Box::new(PerfettoSink::new(out)),
    }
}
