//! The kernel's own scheduler, compiled from a tree of sources and run in virtual time.
//!
//! `kernel/sched` of an unmodified tree, with the timers and the interprocessor calls it stands on,
//! is built by the tree's own makefiles as one more architecture. The result is a shared object
//! that knows no hardware: a host program says which CPU executes what and when, and is told of
//! timers, interrupts and switches.
//!
//! Worked example: [`build::Builder`] makes the object of `linux-6.12.107` in half a minute, once;
//! [`World::boot`] starts its scheduler on two CPUs in a few milliseconds. A task that is
//! [started](World::run) on CPU 0 at 5 ms runs when the call returns, and
//! `world.read(Object::TaskEntity(task), "vruntime")` is what the C code holds.
//!
//! The project has no kernel source: trees are fetched by the script `validation/trees` or are the
//! user's own.

pub mod build;
mod callbacks;
mod calls;
pub mod config;
pub mod ground;
mod guard;
mod lists;
pub mod lockstep;
mod mirror;
pub mod overlay;
mod stacks;
pub mod tree_core;
pub mod trees;
mod warm_up;
pub mod world;

pub use build::{BuildError, Builder};
pub use tree_core::TreeCore;
pub use world::{Call, World, WorldError};
