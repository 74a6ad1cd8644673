//! Perfetto traces: protocol buffers, read and written without a schema compiler.
//!
//! [`wire`] is the encoding itself, [`mod@write`] makes a trace that the Perfetto viewer opens.
//! Traces are read by [`open_trace`](crate::open_trace).

mod compact;
pub(crate) mod field;
pub(crate) mod read;
pub mod wire;
pub mod write;
