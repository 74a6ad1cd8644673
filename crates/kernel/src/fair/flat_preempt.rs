//! Whether a task that wakes takes the CPU from the one that runs, with one order for all tasks of
//! the CPU (7.3).
//!
//! Groups play no part: `cpu.idle` counts by the weight it gives only, the policy SCHED_IDLE for
//! tasks that have it. Every wakeup that does not preempt shortens the protection of the running
//! task to the shortest request that waits.
//!
//! Worked example: A (request 3 ms) runs and is protected; B with a request of 0.5 ms wakes and is
//! eligible, but C, asleep no more either, has an earlier deadline still. Up to 7.2 B does not
//! preempt, because C would be picked. From 7.3 on B becomes the next buddy and A is rescheduled.

use super::preempt::{Buddy, Unprotected};
use crate::ids::{CfsRqId, Cpu, TaskId};
use crate::kernel::{Arrival, Kernel};
use crate::model::{Mark, reached};
use crate::platform::Platform;
use crate::task::Policy;

impl Kernel {
    /// `wakeup_preempt_fair`, of a wakee that is not throttled.
    pub(super) fn check_preempt_flat<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        wakee: TaskId,
        arrival: Arrival,
    ) -> Mark {
        let root = CfsRqId(cpu.0);
        let curr = self.rqs[cpu].curr;
        let se = self.tasks[curr].se;
        let pse = self.tasks[wakee].se;
        if !self.rules.features.preempt_short && self.rqs[cpu].need_resched {
            return Mark::ReschedPending;
        }
        if self.own_rule_decides(p, cpu, [wakee, curr]) {
            return Mark::OwnPreempt;
        }
        if !self.rules.features.wakeup_preemption {
            return Mark::NoWakeupPreemption;
        }
        let idle = |task: TaskId| self.tasks[task].policy == Policy::Idle;
        let (curr_idle, wakee_idle) = (idle(curr), idle(wakee));
        if curr_idle && !wakee_idle {
            return self.preempt_flat(p, cpu, Unprotected::Plain, Mark::IdleGroupGivesWay);
        }
        self.update_curr_fair(p, cpu);
        self.note_siblings::<P>(se, pse);
        let shorter =
            self.rules.features.preempt_short && self.entities[pse].slice < self.entities[se].slice;
        let stays = match () {
            () if wakee_idle && !curr_idle => Some(Mark::IdleGroupDoesNotPreempt),
            () if self.tasks[wakee].policy != Policy::Normal => Some(Mark::BatchDoesNotPreempt),
            () if self.entities[pse].sched_delayed => Some(Mark::ForkDoesNotPreempt),
            () if arrival == Arrival::Fork && !shorter => Some(Mark::ForkDoesNotPreempt),
            () => None,
        };
        let rule = match stays {
            Some(rule) => rule,
            None => {
                if !shorter {
                    match self.set_preempt_buddy(root, pse, arrival) {
                        Buddy::Waits => return Mark::SyncDoesNotPreempt,
                        Buddy::Preempts => {
                            let rule = Mark::WakeeWouldBePicked;
                            return self.preempt_flat(p, cpu, Unprotected::Plain, rule);
                        }
                        Buddy::AskPick => {}
                    }
                }
                let by = match shorter {
                    true => Unprotected::ByShorter(pse),
                    false => Unprotected::Plain,
                };
                if self.would_pick(p, root, pse, !shorter) {
                    return self.preempt_flat(p, cpu, by, Mark::WakeeWouldBePicked);
                }
                if shorter && self.entity_eligible(root, pse) {
                    return self.preempt_flat(p, cpu, by, Mark::ShortEligible);
                }
                Mark::WakeeWouldNotBePicked
            }
        };
        if self.rules.features.run_to_parity {
            self.update_protect_slice(root, se);
        }
        rule
    }

    /// The running task loses its protection and is rescheduled; a shorter request becomes the
    /// buddy unless there is one that is shorter still (`set_short_buddy`).
    fn preempt_flat<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        by: Unprotected,
        rule: Mark,
    ) -> Mark {
        let curr = self.rqs[cpu].curr;
        self.cancel_protect_slice(self.tasks[curr].se);
        if let Unprotected::ByShorter(pse) = by {
            reached(Mark::ShortPreempts);
            let slice = self.entities[pse].slice;
            let next = self.cfs_rqs[cpu].next;
            if next.is_none_or(|next| self.entities[next].slice >= slice) {
                self.set_next_buddy(pse);
            }
        }
        self.resched_curr_lazy(p, cpu);
        rule
    }
}
