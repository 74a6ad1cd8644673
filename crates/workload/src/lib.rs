//! Everything that compiles to what tasks do: rt-app files, benchmark models, recordings.

pub mod nearest;
pub mod programs;
pub mod replay;
pub mod rtapp;
