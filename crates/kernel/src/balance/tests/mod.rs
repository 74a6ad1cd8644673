//! Tests of balancing, by hand-computed answers and by small worlds.

mod bounds;
pub(crate) mod capacity;
mod prefer;
mod versions;
mod world;
