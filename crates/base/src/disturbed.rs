//! Limits beyond which a measurement says more about its neighbours than about what it measured.
//!
//! Worked example: on 2 CPUs a repeat of 5 s has 1000 ticks of 10 ms. A hypervisor that took 11 of
//! them took 1.1 %, more than [`STEAL_MAX`], and the repeat does not count.

/// Share of the machine's time that the hypervisor may take in a repeat that counts.
pub const STEAL_MAX: f64 = 0.01;

/// Share that other programs may take: kernel threads and a system's agents alone need 1 to 2 %.
pub const OTHERS_MAX: f64 = 0.03;
