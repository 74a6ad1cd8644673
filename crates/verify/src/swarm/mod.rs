//! Worlds drawn to be tortured: each seed draws another machine, kernel and load, and no rule may
//! break.
//!
//! A seed first draws which [features](draw::Feature) its world uses, so that rare ones meet often
//! enough (swarm testing, Groce et al. 2012), then what they are. The world runs in one go, again,
//! [checked](schedcast_sim::World::run_checked) after every event, looked at, and watched; all have
//! to come to the same. One that breaks is [shrunk](shrink) to the shortest experiment that still
//! does.
//!
//! # Worked example
//!
//! Seed 507 draws `hwp-desktop-8`, kernel 6.8, and two programs that start 60 ns apart. A CPU that
//! wakes for the first start at 18,000 ns once took the world back to 60 ns for the second: "seed
//! 507: a run that is checked: time went back". Shrinking left two programs on a machine of which
//! nothing is changed, and 20 µs of time.

pub mod draw;
mod page;
pub mod run;
pub mod shrink;
mod tally;

pub use page::page;
pub use tally::{Kind, Tally};
