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

use crate::ids::Cpu;
use crate::kernel::Kernel;
use crate::platform::Platform;

impl Kernel {
    pub(crate) fn sched_balance_newidle<P: Platform>(&mut self, _p: &mut P, _cpu: Cpu) -> i32 {
        0
    }
    pub(crate) fn sched_balance_softirq<P: Platform>(&mut self, _p: &mut P, _cpu: Cpu) {}
    pub(crate) fn sched_balance_trigger<P: Platform>(&mut self, _p: &mut P, _cpu: Cpu) {}
    pub(crate) fn nohz_balance_enter_idle(&mut self, _cpu: Cpu) {}
    pub(crate) fn note_idle(&mut self, _cpu: Cpu) {}
    pub(crate) fn note_busy(&mut self, _cpu: Cpu) {}
}
