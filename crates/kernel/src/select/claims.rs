//! Idle CPUs that a wakeup has chosen and that do not show it yet.
//!
//! A waker looks at a CPU, finds it idle, takes the task's load from its old CPU
//! (`migrate_task_rq_fair`, under a lock of that queue), asks about the new one and only then marks
//! it (`rq->ttwu_pending`, or `nr_running` where it enqueues itself). A waker that looks in between
//! finds the CPU idle as well, and two tasks end up on it while another CPU stays without one. All
//! of that touches lines of other CPUs, so on a large machine it takes a microsecond and more.
//!
//! Worked example, 250 ns from choice to mark: CPU 0 chooses idle CPU 5 at 1000 ns and marks it
//! at 1250. A search that begins on CPU 3 at 1100 chooses CPU 5 too; one that begins at 1300 does
//! not.

use crate::cpuset::CpuSet;
use crate::ids::{Cpu, Ns};
use crate::table::Table;

/// Searches on other CPUs begin at most so much earlier than those that were simulated before.
const DISORDER_NS: Ns = 100_000;
/// Claims that are over, kept at most: it is cheaper to forget many at once.
const OVER_MAX: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Claim {
    cpu: Cpu,
    /// The choice was [`Claims::mark_ns`] before.
    marked_ns: Ns,
}

/// The choices of the last microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    /// In the order of choice; the first `over` are forgotten.
    latest: Vec<Claim>,
    over: usize,
    /// By CPU, when the last of its claims is marked; 0 = it has none. Most searches ask about two
    /// or three CPUs.
    of_cpu: Table<Ns>,
    /// From the choice to the mark; 0 = at once.
    pub(crate) mark_ns: Ns,
    /// When the search under way began.
    search_ns: Option<Ns>,
}

impl Claims {
    /// Whether it takes a while until a choice shows.
    #[inline]
    pub(crate) fn take_time(&self) -> bool {
        self.mark_ns > 0
    }

    /// A search begins.
    #[inline(always)]
    pub(crate) fn begin(&mut self, now: Ns) {
        while let Some(&Claim { cpu, marked_ns }) = self.latest.get(self.over)
            && marked_ns + DISORDER_NS < now
        {
            self.over += 1;
            if self.of_cpu[cpu] == marked_ns {
                self.of_cpu[cpu] = 0;
            }
        }
        if self.over > OVER_MAX {
            self.latest.drain(..self.over);
            self.over = 0;
        }
        self.search_ns = Some(now);
    }

    /// Whether the search under way takes a CPU for idle although it was chosen.
    #[inline(always)]
    pub(crate) fn is_unseen(&self, cpu: Cpu) -> bool {
        let (Some(now), Some(&marked_ns)) = (self.search_ns, self.of_cpu.get(cpu.index())) else {
            return false;
        };
        if marked_ns <= now {
            return false;
        }
        // A search that began later may have been simulated before, and have chosen it.
        marked_ns <= now + self.mark_ns || self.under_way(now).iter().any(|claim| claim.cpu == cpu)
    }

    /// All CPUs that the search under way takes for idle although they were chosen.
    pub(crate) fn unseen(&self) -> CpuSet {
        let mut unseen = CpuSet::EMPTY;
        if let Some(now) = self.search_ns {
            for claim in self.under_way(now) {
                unseen.insert(claim.cpu);
            }
        }
        unseen
    }

    /// Claims under way at `now`. A large machine chooses a thousand times within the disorder;
    /// they are among the last.
    fn under_way(&self, now: Ns) -> &[Claim] {
        let known = &self.latest[self.over..];
        let last = known
            .iter()
            .rposition(|claim| claim.marked_ns <= now + self.mark_ns);
        let chosen = &known[..last.map_or(0, |last| last + 1)];
        let seen = chosen.iter().rposition(|claim| claim.marked_ns <= now);
        &chosen[seen.map_or(0, |seen| seen + 1)..]
    }

    /// It is over; `chosen` is the idle CPU that it took, if it is another one than the waker's.
    #[inline(always)]
    pub(crate) fn end(&mut self, chosen: Option<Cpu>, chosen_ns: Ns) {
        self.search_ns = None;
        if let Some(cpu) = chosen {
            let marked_ns = chosen_ns + self.mark_ns;
            self.add(Claim { cpu, marked_ns });
        }
    }

    fn add(&mut self, claim: Claim) {
        let row = claim.cpu.index();
        if row >= self.of_cpu.len() {
            self.of_cpu.grow(row + 1, 0);
        }
        let of_cpu = &mut self.of_cpu[row];
        *of_cpu = claim.marked_ns.max(*of_cpu);
        // Most are the latest, or nearly so.
        self.latest.push(claim);
        let others = self.latest.len() - 1;
        let known = &mut self.latest[self.over..];
        let mut place = others - self.over;
        while place > 0 && known[place - 1].marked_ns > claim.marked_ns {
            known[place] = known[place - 1];
            place -= 1;
        }
        known[place] = claim;
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
            let unseen = claims.is_unseen(Cpu(5));
            assert_eq!(claims.unseen().contains(Cpu(5)), unseen);
            claims.end(None, now);
            unseen
        };
        assert_eq!(
            [999, 1100, 1249, 1250].map(&mut seen_idle),
            [false, true, true, false]
        );
        assert!(!seen_idle(1_000_000));
        assert_eq!(claims.over, claims.latest.len());
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
            let unseen = [5, 6, 7].map(|cpu| claims.is_unseen(Cpu(cpu)));
            let set = claims.unseen();
            assert_eq!([5, 6, 7].map(|cpu| set.contains(Cpu(cpu))), unseen);
            claims.end(None, now);
            unseen
        };
        assert_eq!(unseen_at(1299), [false, true, false]);
        assert_eq!(unseen_at(1100), [true, true, false]);
        assert_eq!(unseen_at(1349), [false, true, true]);
    }

    fn claims() -> Claims {
        Claims {
            mark_ns: 250,
            ..Claims::default()
        }
    }

    #[test]
    fn the_first_cpu_may_be_the_first_that_is_chosen() {
        let mut claims = claims();
        claims.end(Some(Cpu(0)), 1000);
        claims.begin(1100);
        assert!(claims.is_unseen(Cpu(0)));
    }

    #[test]
    fn a_choice_that_is_forgotten_leaves_a_later_one_of_its_cpu() {
        let mut claims = claims();
        claims.end(Some(Cpu(5)), 1000);
        claims.end(Some(Cpu(5)), 101_500);
        // 1250 ns and the disorder of 100 us are over at 101,251.
        claims.begin(101_600);
        assert_eq!(claims.over, 1);
        assert!(claims.is_unseen(Cpu(5)));
    }

    #[test]
    fn at_most_4096_forgotten_choices_are_kept() {
        for (count, kept) in [(4096, 4096), (4097, 0)] {
            let mut claims = claims();
            for choice in 0..count {
                claims.end(Some(Cpu(5)), choice);
            }
            claims.begin(1_000_000);
            assert_eq!((claims.over, claims.latest.len()), (kept, kept));
        }
    }
}
