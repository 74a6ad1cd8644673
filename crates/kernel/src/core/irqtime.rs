//! Time that is no task's: of interrupts and of the hypervisor.
//!
//! A kernel with CONFIG_IRQ_TIME_ACCOUNTING (Red Hat's, the kernel test robot's; not Debian's)
//! takes the time of interrupts and soft interrupts out of the clock that tasks are charged by, as
//! every kernel with CONFIG_PARAVIRT_TIME_ACCOUNTING does with stolen time. It is known once the
//! interrupt is over, and comes off the next advance of that clock.
//!
//! Worked example: HZ = 1000, a request of 3 ms, ticks whose interrupt takes 2 µs. The tick at 0 ms
//! brings a task to the CPU. When the tick at 3 ms looks, the task has run 3 ms less the interrupts
//! of the ticks at 1 and 2 ms, 2.996 ms: the request is not used up, and the tick at 4 ms ends the
//! slice. With a request of 2.8 ms (6.15) the tick at 3 ms does.

use crate::ids::{Cpu, Ns};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::pelt::Inputs;
use crate::platform::Platform;

impl Kernel {
    /// An interrupt that counts begins on a CPU (`account_hardirq_enter`). It ends when the kernel
    /// is [left](Kernel::leave_kernel).
    #[inline]
    pub fn irq_enter<P: Platform>(&mut self, p: &P, cpu: Cpu) {
        if self.rules.irq_time_accounting {
            self.rqs[cpu].irq_start_ns.get_or_insert(p.now(cpu));
        }
        if self.nohz.has_full {
            self.rqs[cpu].in_interrupt = true;
        }
    }

    /// It is over (`irqtime_account_irq`).
    #[inline]
    pub(crate) fn irq_exit<P: Platform>(&mut self, p: &P, cpu: Cpu) {
        let rq = &mut self.rqs[cpu];
        if let Some(start_ns) = rq.irq_start_ns.take() {
            rq.nontask_ns += p.now(cpu).saturating_sub(start_ns);
        }
    }

    /// The hypervisor takes a CPU for `steal_ns` from now on (`paravirt_steal_clock`). The clock
    /// that tasks are charged by stands still meanwhile (`update_rq_clock_task`), as with
    /// `CONFIG_PARAVIRT_TIME_ACCOUNTING`.
    pub fn steal(&mut self, cpu: Cpu, steal_ns: Ns) {
        let rq = &mut self.rqs[cpu];
        rq.nontask_ns += steal_ns;
        rq.stolen_ns += steal_ns;
    }

    /// Part of an advance of the clock that remains for tasks, ns (`update_rq_clock_task`).
    /// Interrupt time beyond `delta` stays for the next advance; stolen time did so before 6.14.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_nontask_time(&mut self, cpu: Cpu, delta: Ns) -> Ns {
        let rq = &mut self.rqs[cpu];
        let interrupts_ns = (rq.nontask_ns - rq.stolen_ns).min(delta);
        let stolen_ns = rq.stolen_ns.min(delta - interrupts_ns);
        let taken_ns = interrupts_ns + stolen_ns;
        reached(Mark::NontaskTime);
        rq.nontask_ns -= taken_ns;
        rq.stolen_ns -= stolen_ns;
        if self.rules.drops_excess_steal {
            rq.nontask_ns -= std::mem::take(&mut rq.stolen_ns);
        }
        if taken_ns > 0 && self.rules.features.nontask_capacity {
            self.update_irq_load_avg(cpu, taken_ns);
        }
        delta - taken_ns
    }

    /// Load tracking of such time by the clock of the queue: as if it had all been just now
    /// (`update_irq_load_avg`, 4.19). Returns whether the average moved.
    pub(crate) fn update_irq_load_avg(&mut self, cpu: Cpu, running_ns: Ns) -> bool {
        let rq = &mut self.rqs[cpu];
        let running_ns = (running_ns * rq.freq_scale) >> 10;
        let running_ns = (running_ns * rq.cpu_capacity_orig) >> 10;
        let before = rq.clock - running_ns;
        let moved = rq.avg_irq.update(before, Inputs::of_class(false), 1);
        let moved_again = rq.avg_irq.update(rq.clock, Inputs::of_class(true), 1);
        if moved && !moved_again {
            rq.avg_irq.update_avg(1);
        }
        moved || moved_again
    }
}

/// Part of `util` that interrupts leave on a CPU whose capacity is `max` (`scale_irq_capacity`).
pub(crate) const fn scale_irq_capacity(util: u64, irq: u64, max: u64) -> u64 {
    util * (max - irq) / max
}

#[cfg(test)]
mod tests {
    use super::scale_irq_capacity;

    #[test]
    fn interrupts_scale_what_is_left() {
        assert_eq!(scale_irq_capacity(512, 256, 1024), 384);
        assert_eq!(scale_irq_capacity(1024, 0, 1024), 1024);
    }
}
