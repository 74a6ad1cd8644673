//! Load balancing.

use crate::rules::Rules;
use crate::topology::Topology;

/// Scheduling domains of all CPUs and what balancing remembers about them.
#[derive(Clone, Debug, Default)]
pub struct Domains {}

impl Domains {
    /// Domains of a machine.
    pub fn new(_topology: &Topology, _rules: &Rules) -> Self {
        Self::default()
    }
}
