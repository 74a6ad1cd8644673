//! Readers and verbs as functions of bytes, for fuzzing and for replaying what fuzzing found.
//!
//! ```text
//! bytes ──► target ──► an answer or an error; a panic, an abort, 10 s or 2 GB are a finding
//! ```
//!
//! libFuzzer (`engine`, built by `make fuzz`) draws the bytes by coverage; `tests/corpus.rs`
//! replays the committed inputs of each target, and variations of them, in every `cargo test`. Both
//! call [`TARGETS`], so that a finding needs nothing but its file in `corpus/TARGET` to become a
//! test.
//!
//! Worked example: the target `command` gets the bytes `hackbench -g 99999999999`. It runs
//! `schedcast run --seeds 1 --duration 2ms -- hackbench -g 99999999999`, which ends with exit code
//! 3 and an error that names the number. Had it panicked, the fuzzer would have kept the input.

#![allow(clippy::missing_panics_doc)] // A panic is what a target is for.

mod mutate;
mod targets;

pub use mutate::mutate;
pub use targets::{TARGETS, Target, target};
