//! Tests of balancing, by hand-computed answers and by small worlds.

mod versions;
mod world;
