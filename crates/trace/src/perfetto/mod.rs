//! Perfetto traces: protocol buffers, read and written without a schema compiler.
//!
//! [`wire`] is the encoding itself, [`write`] makes a trace that the Perfetto viewer opens.

pub mod wire;
pub mod write;
