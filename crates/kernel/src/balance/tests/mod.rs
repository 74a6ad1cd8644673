//! Tests of balancing, by hand-computed answers and by small worlds.

mod bounds;
pub(crate) mod capacity;
mod prefer;
pub(crate) mod versions;
mod world;
