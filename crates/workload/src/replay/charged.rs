//! Time that the kernel charges a thread before it is switched in, and time that it does not
//! charge.
//!
//! An interrupt that wakes a thread of its own, idle CPU reads the clock of the run queue for the
//! wakeup, be it a device's interrupt or the one by which another CPU hands the wakeup over. The
//! switch that follows does not read the clock again (`wakeup_preempt` asks for
//! `rq_clock_skip_update`, as the idle task is about to be rescheduled). The thread is charged from
//! its wakeup on: for the rest of the interrupt and for the way out of the idle loop. In a virtual
//! machine, where the next timer is programmed by a trap into the hypervisor, that is 10 µs.
//!
//! A trace shows how long that takes, but not how much of it is charged: with
//! `CONFIG_IRQ_TIME_ACCOUNTING` the rest of the interrupt is not. The counter of the group decides:
//! the time by which it grew beyond the runs of the trace is charged, at most all of the time
//! before switches. A group without such a counter is taken to be charged for nothing beyond the
//! trace.
//!
//! Where the counter grew by less than the trace shows, the rest is not charged: interrupts, where
//! the kernel accounts their time, and parts of runs whose missing switch was put back too early or
//! too late. The threads of the group have that much less work, each in proportion. A counter that
//! grew by less than half of what the trace shows counts other threads: with version 1 a process
//! may be in a limited group and have its time counted in another one.
//!
//! # Worked examples
//!
//! Three processes of gunicorn ran for 1350 ms in a trace that lacks 26,358 switches. Their group
//! was charged with 1307 ms, so each of their runs counts 1307/1350 of its time. With all of it,
//! the limit of 20.7 ms in 100 would throttle them for 2.5 s instead of 1.1.
//!
//! A `memcached` used 854 ms in 8 s by its trace. In 11,165 of 39,900 cases an interrupt woke one
//! of its threads on an idle CPU, 97.8 ms before their switches in altogether. Its group was
//! charged with 927 ms, 73 ms more than the trace shows. So a thread that was switched in 10.5 µs
//! after such a wakeup has 10.5 · 73 / 97.8 = 7.8 µs of work more.

use super::activity::Draft;
use super::groups::{self, Group, GroupIndex};
use super::model::Thread;

/// By how much the charges of a group exceed its runs in the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Excess {
    /// From wakeups on idle CPUs to the switches in, ns.
    approaches_ns: u64,
    /// The part of it that is charged, ns.
    charged_ns: u64,
    /// CPU time of the group by its trace and by its counter, ns.
    shown_ns: u64,
    counted_ns: u64,
}

/// Charges before the switch in of every thread's activations.
#[derive(Debug)]
pub(super) struct Charges {
    /// By group; `None` where the counters do not tell.
    of_group: Vec<Option<Excess>>,
}

impl Charges {
    /// `threads` know how long they ran in the trace.
    pub(super) fn of(groups: &[Group], threads: &[Thread], drafts: &[Draft]) -> Self {
        let mut approaches_ns = vec![0; threads.len()];
        for Draft {
            activation,
            approach_ns,
            ..
        } in drafts
        {
            approaches_ns[activation.thread.index()] += approach_ns;
        }
        let excess = |index: GroupIndex, group: &Group| {
            let counted_ns = group
                .grown()?
                .usage_ns
                .filter(|_| index != GroupIndex::ROOT)?;
            let members = groups::members_of(groups, threads.iter().map(|one| one.group), index);
            let sum = |of: &dyn Fn(usize) -> u64| -> u64 {
                members.iter().map(|thread| of(thread.index())).sum()
            };
            let executed_ns = sum(&|thread| threads[thread].executed_ns);
            let approaches_ns = sum(&|thread| approaches_ns[thread]);
            Some(Excess {
                approaches_ns,
                charged_ns: counted_ns.saturating_sub(executed_ns).min(approaches_ns),
                shown_ns: executed_ns,
                // A group that began anew counts a part of the recording only.
                counted_ns: match group.has_begun_anew() || counted_ns < executed_ns / 2 {
                    true => executed_ns,
                    false => counted_ns,
                },
            })
        };
        let indices = (0u32..).map(GroupIndex);
        Charges {
            of_group: indices
                .zip(groups)
                .map(|(index, group)| excess(index, group))
                .collect(),
        }
    }

    /// Facts of a group, or of the nearest group around it that tells.
    fn told(&self, groups: &[Group], group: GroupIndex) -> Option<Excess> {
        groups::lineage(groups, group).find_map(|up| self.of_group[up.index()])
    }

    /// How much of a run of `ran_ns` is not charged to a thread of `group`.
    pub(super) fn uncharged_of(&self, ran_ns: u64, groups: &[Group], group: GroupIndex) -> u64 {
        let told = self.told(groups, group);
        let Some(excess) = told.filter(|excess| excess.counted_ns < excess.shown_ns) else {
            return 0;
        };
        let less_ns = excess.shown_ns - excess.counted_ns;
        (u128::from(ran_ns) * u128::from(less_ns) / u128::from(excess.shown_ns)) as u64
    }

    /// How much of `approach_ns` a thread of `group` was charged with: as much as its group was
    /// altogether, or the nearest group around it that tells.
    pub(super) fn part_of(&self, approach_ns: u64, groups: &[Group], group: GroupIndex) -> u64 {
        let told = self.told(groups, group);
        let Some(excess) = told.filter(|excess| excess.approaches_ns > 0) else {
            return 0;
        };
        let product = u128::from(approach_ns) * u128::from(excess.charged_ns);
        (product / u128::from(excess.approaches_ns)) as u64
    }
}
