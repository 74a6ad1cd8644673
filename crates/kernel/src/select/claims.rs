//! Idle CPUs that a wakeup has chosen and that do not show it yet.
//!
//! A waker looks at a CPU, finds it idle, takes the task's load from its old CPU (`migrate_task_rq_fair`, under a lock
//! of that queue), asks about the new one and only then marks it (`rq->ttwu_pending`, or `nr_running` where it enqueues
//! itself). Whoever looks in between finds the CPU idle as well, and two tasks end up on it while another CPU stays
//! without one. All of that touches lines of other CPUs, so on a large machine it takes a microsecond and more.
//!
//! Worked example, 250 ns from choice to mark: CPU 0 chooses idle CPU 5 at 1000 ns and marks it at 1250. A search that
//! begins on CPU 3 at 1100 chooses CPU 5 too; one that begins at 1300 does not.

use std::collections::VecDeque;

use crate::cpuset::CpuSet;
use crate::ids::{Cpu, Ns};

/// Searches on other CPUs begin at most so much earlier than those that were simulated before.
const DISORDER_NS: Ns = 100_000;

#[derive(Clone, Copy, Debug)]
struct Claim {
    cpu: Cpu,
    chosen_ns: Ns,
    marked_ns: Ns,
}

/// The choices of the last microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Claims {
    /// In the order of choice.
    latest: VecDeque<Claim>,
    /// From the choice to the mark; 0 = at once.
    pub(crate) mark_ns: Ns,
    /// CPUs that the search under way takes for idle although they were chosen.
    pub(crate) unseen: CpuSet,
}

impl Default for Claims {
    fn default() -> Self {
        Claims {
            latest: VecDeque::new(),
            mark_ns: 0,
            unseen: CpuSet::EMPTY,
        }
    }
}

impl Claims {
    /// Whether it takes a while until a choice shows.
    #[inline]
    pub(crate) fn take_time(&self) -> bool {
        self.mark_ns > 0
    }

    /// A search begins.
    #[inline(never)]
    pub(crate) fn begin(&mut self, now: Ns) {
        while self
            .latest
            .front()
            .is_some_and(|claim| claim.marked_ns + DISORDER_NS < now)
        {
            self.latest.pop_front();
        }
        self.unseen = CpuSet::EMPTY;
        // A large machine chooses a thousand times within the disorder; those under way are among the last.
        let chosen = self.latest.iter().rev();
        let chosen = chosen.skip_while(|claim| claim.chosen_ns > now);
        for claim in chosen.take_while(|claim| claim.marked_ns > now) {
            self.unseen.insert(claim.cpu);
        }
    }

    /// It is over; `chosen` is the idle CPU that it took, if it is another one than the waker's.
    pub(crate) fn end(&mut self, chosen: Option<Cpu>, chosen_ns: Ns) {
        self.unseen = CpuSet::EMPTY;
        if let Some(cpu) = chosen {
            let later = self.latest.iter().rev();
            let later = later.take_while(|claim| claim.chosen_ns > chosen_ns);
            let place = self.latest.len() - later.count();
            let claim = Claim {
                cpu,
                chosen_ns,
                marked_ns: chosen_ns + self.mark_ns,
            };
            self.latest.insert(place, claim);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example_of_the_module_docs() {
        let mut claims = Claims {
            mark_ns: 250,
            ..Claims::default()
        };
        claims.begin(1000);
        claims.end(Some(Cpu(5)), 1000);
        let mut seen_idle = |now| {
            claims.begin(now);
            let unseen = claims.unseen.contains(Cpu(5));
            claims.end(None, now);
            unseen
        };
        assert_eq!(
            [999, 1100, 1249, 1250].map(&mut seen_idle),
            [false, true, true, false]
        );
        assert!(!seen_idle(1_000_000));
        assert!(claims.latest.is_empty());
    }

    #[test]
    fn searches_that_are_simulated_out_of_order_see_what_was_chosen_by_then() {
        let mut claims = Claims {
            mark_ns: 250,
            ..Claims::default()
        };
        for (cpu, chosen_ns) in [(5, 1000), (7, 1300), (6, 1100)] {
            claims.end(Some(Cpu(cpu)), chosen_ns);
        }
        let mut unseen_at = |now| {
            claims.begin(now);
            let unseen = [5, 6, 7].map(|cpu| claims.unseen.contains(Cpu(cpu)));
            claims.end(None, now);
            unseen
        };
        assert_eq!(unseen_at(1299), [false, true, false]);
        assert_eq!(unseen_at(1100), [true, true, false]);
        assert_eq!(unseen_at(1349), [false, true, true]);
    }
}
