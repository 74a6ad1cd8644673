//! Watching one run: from the simulator's events to pictures.
//!
//! ```text
//! World ──events──► Follow ──states of threads, throttling, periods──► Picture
//!                   who is where                       perfetto: a trace file
//!                                                      report: what a page shows
//! ```
//!
//! Worked example: a thread of `/pg` is woken at 10 ms on CPU 1, whose queue of `/pg` is throttled
//! until 30 ms, and runs from 32 to 35 ms. Its picture is told four changes: asleep → throttled at
//! 10, throttled → waiting at 30, waiting → running on CPU 1 at 32, running → asleep at 35.

mod follow;
pub mod perfetto;

pub use follow::{Follow, Period, Picture, State, Thread};
