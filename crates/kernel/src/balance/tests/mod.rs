//! Tests of balancing, by hand-computed answers and by small worlds.

mod bounds;
mod versions;
mod world;
