//! Known answers, worked out by hand, and invariants over random and exhaustive histories.

mod invariants;
mod properties;
mod rt;
mod world;
