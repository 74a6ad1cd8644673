//! Everything that compiles to what tasks do: rt-app files, benchmark models, recordings, and
//! services distilled from them.

pub mod housekeeping;
pub mod profile;
pub mod programs;
mod registers;
pub mod replay;
pub mod rtapp;
