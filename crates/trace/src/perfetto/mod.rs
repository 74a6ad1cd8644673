//! Perfetto traces: protocol buffers, read and written without a schema compiler.
//!
//! [`wire`] is the encoding itself.

pub mod wire;
