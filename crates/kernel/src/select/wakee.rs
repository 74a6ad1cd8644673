//! How many different tasks a task wakes (`record_wakee`, `wake_wide`).
//!
//! Worked example: a dispatcher wakes 20 workers in turn, each worker always the dispatcher. The
//! dispatcher's flips grow by 20 a round, the workers' stay at 0 or 1. Against an LLC of 8 CPUs the
//! workers' count is below 8, so wakeups stay affine. With 20 dispatchers sharing the workers both
//! counts grow; once the smaller is ≥ 8 and the larger ≥ 8 times the smaller, the partners no
//! longer fit one cache and the wakeup is wide.

use crate::ids::{Cpu, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::Platform;

/// Whether waker and wakee have so many partners that one LLC of `llc_size` CPUs cannot hold them.
pub(crate) const fn wake_wide(waker_flips: u32, wakee_flips: u32, llc_size: u32) -> bool {
    let (more, fewer) = if waker_flips < wakee_flips {
        (wakee_flips, waker_flips)
    } else {
        (waker_flips, wakee_flips)
    };
    fewer >= llc_size && more as u64 >= fewer as u64 * llc_size as u64
}

impl Kernel {
    /// Counts a change of wakee; counts are halved at the first wakeup after a second
    /// (`record_wakee`).
    pub(super) fn record_wakee<P: Platform>(&mut self, p: &P, waker: TaskId, wakee: TaskId) {
        let now = p.now(self.here);
        let tick_ns = self.rules.tick_ns;
        let hz = u64::from(self.rules.hz);
        let decayed_ns = self.tasks[waker].wakee_flip_decay_ns;
        // More than HZ jiffies lie more than HZ ticks apart: nearly always there is nothing to
        // divide.
        if now > decayed_ns + hz * tick_ns {
            let jiffy = self.jiffies(now);
            if jiffy > self.jiffies(decayed_ns) + hz {
                let record = &mut self.tasks[waker];
                reached(Mark::FlipsHalved);
                record.wakee_flips >>= 1;
                record.wakee_flip_decay_ns = jiffy * tick_ns;
            }
        }
        let record = &mut self.tasks[waker];
        if record.last_wakee != Some(wakee) {
            record.last_wakee = Some(wakee);
            record.wakee_flips += 1;
        }
    }

    /// A forked task begins with its parent's record: `dup_task_struct` copies the task as it is
    /// and nothing clears these fields. The workers of a program that a busy shell started have
    /// flips before they wake a task.
    pub fn inherit_wakees(&mut self, parent: TaskId, child: TaskId) {
        let parent = &self.tasks[parent];
        let (flips, decay_ns, last) = (
            parent.wakee_flips,
            parent.wakee_flip_decay_ns,
            parent.last_wakee,
        );
        let child = &mut self.tasks[child];
        child.wakee_flips = flips;
        child.wakee_flip_decay_ns = decay_ns;
        child.last_wakee = last;
    }

    /// `wake_wide` for a wakeup from this CPU.
    #[inline]
    pub(super) fn wakes_wide(&self, cpu: Cpu, waker: TaskId, wakee: TaskId) -> bool {
        wake_wide(
            self.tasks[waker].wakee_flips,
            self.tasks[wakee].wakee_flips,
            self.domains.cpus[cpu].llc_size,
        )
    }
}
