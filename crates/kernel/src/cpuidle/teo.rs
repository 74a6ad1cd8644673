//! `teo`: how often was the timer right, and how much earlier did other things come?
//!
//! Each state has two counters: *hits*, when the CPU slept about as long as the timers said, and
//! *intercepts*, when something woke it after a time for which this state would have been the right
//! one. Both lose an eighth with every wakeup and gain 1024. Worked example with POLL 0, C1 2,
//! C1E 20, C6 600 µs: ten wakeups after 100 µs each, while the next timer was 5 ms away, are
//! intercepts of C1E (100 is between 20 and 600), whose counter climbs towards 8192. They are
//! more than half of everything, so the deepest state below which half of the intercepts lie is
//! chosen instead of C6: C1E.

use super::{Choice, IdleRules, IdleState, Question, RESIDENCY_THRESHOLD_NS, Wake, shallower};
use crate::ids::Ns;

const PULSE: u32 = 1024;
const DECAY_SHIFT: u32 = 3;
const NR_RECENT: usize = 9;
/// Most states a driver can have (`CPUIDLE_STATE_MAX`).
const MAX_STATES: usize = 10;

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    intercepts: u32,
    hits: u32,
    recent: u32,
}

/// What `teo` remembers of one CPU.
#[derive(Clone, Debug)]
pub struct Teo {
    sleep_length_ns: Ns,
    bins: [Bin; MAX_STATES],
    total: u32,
    tick_hits: u32,
    recent_rows: [Option<usize>; NR_RECENT],
    next_recent: usize,
}

impl Default for Teo {
    fn default() -> Self {
        Self {
            sleep_length_ns: 0,
            bins: [Bin::default(); MAX_STATES],
            total: 0,
            tick_hits: 0,
            recent_rows: [None; NR_RECENT],
            next_recent: 0,
        }
    }
}

/// Counters of all states shallower than a candidate.
#[derive(Clone, Copy, Default)]
struct Sums {
    intercepts: u32,
    hits: u32,
    recent: u32,
}

/// A candidate, and what is known about it.
struct Candidate {
    row: usize,
    sums: Sums,
    /// Deepest state whose exit latency is allowed.
    allowed: usize,
}

impl Teo {
    /// `teo_select`.
    ///
    /// # Panics
    /// With more than ten states.
    pub fn select(&mut self, question: &Question) -> Choice {
        assert!(question.states.len() <= MAX_STATES, "too many idle states");
        if question.rules.teo_timer_last {
            self.select_timer_last(question)
        } else {
            self.select_timer_first(question)
        }
    }

    /// The deepest state that pays off within `span_ns`, with the sums below it.
    fn candidate(&self, question: &Question, span_ns: Ns) -> Candidate {
        let mut sums = Sums::default();
        let mut found = Candidate {
            row: 0,
            sums,
            allowed: 0,
        };
        for (row, state) in question.states.iter().enumerate().skip(1) {
            let below = &self.bins[row - 1];
            sums.intercepts += below.intercepts;
            sums.hits += below.hits;
            sums.recent += below.recent;
            if state.target_residency_ns > span_ns {
                break;
            }
            found.row = row;
            found.sums = sums;
            if state.exit_latency_ns <= question.latency_limit_ns {
                found.allowed = row;
            }
        }
        found
    }

    /// Whether the CPU is likely to wake too early for the candidate; by all and by recent counts.
    fn early(&self, sums: &Sums, rules: &IdleRules) -> (bool, bool) {
        let often = 2 * sums.intercepts > self.total.saturating_sub(sums.hits);
        let recently = rules.teo_recent && sums.recent > NR_RECENT as u32 / 2;
        (often, recently)
    }

    /// The state below the candidate under which more than half of the intercepts lie. `deep_enough`
    /// tells whether a state may be entered with the tick stopped.
    fn step_down(
        &self,
        candidate: &Candidate,
        early: (bool, bool),
        deep_enough: impl Fn(usize) -> bool,
    ) -> usize {
        let (often, recently) = early;
        let (mut intercepts, mut recent) = (0, 0);
        let mut first_suitable = candidate.row;
        for row in (0..candidate.row).rev() {
            intercepts += self.bins[row].intercepts;
            recent += self.bins[row].recent;
            let enough_often = !often || 2 * intercepts > candidate.sums.intercepts;
            let enough_recently = !recently || 2 * recent > candidate.sums.recent;
            if enough_often && enough_recently {
                return if deep_enough(row) {
                    row
                } else {
                    first_suitable
                };
            }
            if deep_enough(row) {
                first_suitable = row;
            } else if first_suitable == candidate.row {
                return candidate.row;
            }
        }
        candidate.row
    }

    fn select_timer_first(&mut self, question: &Question) -> Choice {
        let states = question.states;
        let mut span_ns = question.sleep.timer_ns;
        self.sleep_length_ns = span_ns;
        let candidate = self.candidate(question, span_ns);
        let mut row = candidate.row;
        if row > 0 {
            let early = self.early(&candidate.sums, question.rules);
            if early.0 || early.1 {
                let middle = |row: usize| {
                    (states[row].target_residency_ns + states[row + 1].target_residency_ns) / 2
                };
                let long_enough =
                    |row| !question.tick_stopped || middle(row) >= question.tick_period_ns;
                row = self.step_down(&candidate, early, long_enough);
                if row != candidate.row {
                    span_ns = middle(row);
                }
            }
            row = row.min(candidate.allowed);
        }
        let keep = states[row].polling || span_ns < question.tick_period_ns;
        tick_decision(question, row, keep, question.sleep.tick_ns)
    }

    fn select_timer_last(&mut self, question: &Question) -> Choice {
        let states = question.states;
        self.sleep_length_ns = Ns::MAX;
        let candidate = self.candidate(question, Ns::MAX);
        let all_intercepts: u32 = self.bins[..states.len()]
            .iter()
            .map(|bin| bin.intercepts)
            .sum();
        let mut row = candidate.row;
        let early = self.early(&candidate.sums, question.rules);
        if early.0 || early.1 {
            let long_enough = |row: usize| {
                !question.tick_stopped || states[row].target_residency_ns >= question.tick_period_ns
            };
            row = self.step_down(&candidate, early, long_enough);
        }
        let keep_tick = |state| Choice {
            state,
            stop_tick: false,
        };
        if row == 0 {
            // Asked only to learn afterwards whether the guess was right.
            self.sleep_length_ns = question.sleep.timer_ns;
            return keep_tick(0);
        }
        row = row.min(candidate.allowed);
        if row == 0 {
            return keep_tick(0);
        }
        if states[0].polling && states[row].target_residency_ns < RESIDENCY_THRESHOLD_NS {
            return keep_tick(row);
        }
        let mut span_ns = question.sleep.timer_ns;
        self.sleep_length_ns = span_ns;
        if states[row].target_residency_ns > span_ns {
            row = shallower(states, row, span_ns);
        }
        let mostly_early = all_intercepts > self.total / 2 + self.total / 8;
        if states[row].target_residency_ns < question.tick_period_ns && mostly_early {
            span_ns = question.tick_period_ns / 2;
        }
        let keep = states[row].polling || span_ns < question.tick_period_ns;
        tick_decision(question, row, keep, question.sleep.tick_ns)
    }

    /// `teo_reflect` and `teo_update`.
    pub fn reflect(
        &mut self,
        states: &[IdleState],
        rules: &IdleRules,
        tick_period_ns: Ns,
        wake: Wake,
    ) {
        let net_ns = wake.by_tick && self.sleep_length_ns > tick_period_ns;
        let as_expected = wake.poll_limit || net_ns || wake.span_ns >= self.sleep_length_ns;
        let latency_ns = states[wake.state].exit_latency_ns;
        let measured_ns = match wake.residency_ns {
            _ if as_expected => Ns::MAX,
            residency_ns if residency_ns >= latency_ns => residency_ns - latency_ns / 2,
            residency_ns => residency_ns / 2,
        };
        self.total = 0;
        let (mut timer_row, mut measured_row) = (0, 0);
        for (row, state) in states.iter().enumerate() {
            let bin = &mut self.bins[row];
            bin.hits -= bin.hits >> DECAY_SHIFT;
            bin.intercepts -= bin.intercepts >> DECAY_SHIFT;
            self.total += bin.hits + bin.intercepts;
            if state.target_residency_ns <= self.sleep_length_ns {
                timer_row = row;
                if state.target_residency_ns <= measured_ns {
                    measured_row = row;
                }
            }
        }
        self.total += PULSE;
        if rules.teo_timer_last && self.count_tick_hit(states, tick_period_ns, measured_ns) {
            return;
        }
        // With the extra bin behind the last state, a timer beyond the tick is no hit of a state.
        let beyond_tick = rules.teo_timer_last
            && states[states.len() - 1].target_residency_ns < tick_period_ns
            && tick_period_ns <= self.sleep_length_ns;
        if timer_row == measured_row && !beyond_tick {
            self.bins[timer_row].hits += PULSE;
            self.remember(None);
        } else {
            self.bins[measured_row].intercepts += PULSE;
            self.remember(Some(measured_row));
        }
    }

    /// Counts a sleep of more than a tick, when no state needs that long. The kernel's extra bin of
    /// hits (6.6).
    fn count_tick_hit(&mut self, states: &[IdleState], tick_ns: Ns, measured_ns: Ns) -> bool {
        if states[states.len() - 1].target_residency_ns >= tick_ns {
            return false;
        }
        self.tick_hits -= self.tick_hits >> DECAY_SHIFT;
        self.total += self.tick_hits;
        let hit = tick_ns <= self.sleep_length_ns && tick_ns <= measured_ns;
        if hit {
            self.tick_hits += PULSE;
        }
        hit
    }

    fn remember(&mut self, row: Option<usize>) {
        let oldest = std::mem::replace(&mut self.recent_rows[self.next_recent], row);
        self.next_recent = (self.next_recent + 1) % NR_RECENT;
        if let Some(oldest) = oldest {
            self.bins[oldest].recent -= 1;
        }
        if let Some(row) = row {
            self.bins[row].recent += 1;
        }
    }
}

fn tick_decision(question: &Question, row: usize, keep: bool, tick_ns: Ns) -> Choice {
    if !keep || question.tick_stopped {
        return Choice {
            state: row,
            stop_tick: true,
        };
    }
    let too_deep = row > 0 && question.states[row].target_residency_ns > tick_ns;
    Choice {
        state: if too_deep {
            shallower(question.states, row, tick_ns)
        } else {
            row
        },
        stop_tick: false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::SleepLength;
    use super::super::test_states::SKX;
    use super::*;
    use crate::rules::Version;

    const TICK_NS: Ns = 4_000_000;

    fn run(teo: &mut Teo, rules: &IdleRules, timer_us: u64, slept_us: u64) -> Choice {
        let question = Question {
            states: &SKX,
            latency_limit_ns: u64::MAX,
            sleep: SleepLength {
                timer_ns: timer_us * 1000,
                tick_ns: 3_000_000.min(timer_us * 1000),
            },
            tick_stopped: false,
            nr_iowait: 0,
            tick_period_ns: TICK_NS,
            rules,
        };
        let choice = teo.select(&question);
        let wake = Wake {
            state: choice.state,
            residency_ns: slept_us * 1000,
            span_ns: slept_us * 1000,
            by_tick: false,
            poll_limit: false,
        };
        teo.reflect(&SKX, rules, TICK_NS, wake);
        choice
    }

    #[test]
    fn interrupted_sleeps_lead_to_the_state_they_would_have_paid_for() {
        for version in [Version::new(6, 1), Version::new(6, 12)] {
            let rules = IdleRules::of(version);
            let mut teo = Teo::default();
            // Nothing known yet: the timers count.
            let first = run(&mut teo, &rules, 5000, 100);
            assert_eq!((first.state, first.stop_tick), (3, true), "{version}");
            // One intercept of C1E (100 - 133/2 = 34 us) is more than half of everything.
            let second = run(&mut teo, &rules, 5000, 100);
            assert_eq!((second.state, second.stop_tick), (2, false), "{version}");
            assert_eq!(teo.bins[2].intercepts, 1024 - 128 + 1024);
        }
    }

    #[test]
    fn timers_that_were_right_win_again() {
        let rules = IdleRules::of(Version::new(6, 12));
        let mut teo = Teo::default();
        for _ in 0..4 {
            run(&mut teo, &rules, 5000, 100);
        }
        // Sleeps up to a timer in 5 ms are hits beyond the tick. The intercepts (3390) fade with each
        // by an eighth; at the fourth decision they are 2273 of 4977, less than half.
        let states: Vec<usize> = (0..8)
            .map(|_| run(&mut teo, &rules, 5000, 5000).state)
            .collect();
        assert_eq!(states, [2, 2, 2, 3, 3, 3, 3, 3]);
        assert!(teo.tick_hits > 0);
    }

    #[test]
    fn nine_recent_wakeups_counted_up_to_6_11() {
        let rules = IdleRules::of(Version::new(6, 1));
        let mut teo = Teo::default();
        for _ in 0..20 {
            run(&mut teo, &rules, 5000, 5000);
        }
        assert_eq!(run(&mut teo, &rules, 5000, 5000).state, 3);
        for _ in 0..5 {
            assert_eq!(run(&mut teo, &rules, 5000, 100).state, 3);
        }
        // Intercepts are 1024 (1 + 7/8 + …) = 3.9 pulses of about 8, but five of nine.
        assert_eq!(teo.bins[2].recent, 5);
        assert_eq!(run(&mut teo, &rules, 5000, 100).state, 2);
    }

    #[test]
    fn a_close_timer_bounds_the_state() {
        for version in [Version::new(6, 1), Version::new(6, 12)] {
            let rules = IdleRules::of(version);
            let choice = run(&mut Teo::default(), &rules, 30, 30);
            assert_eq!((choice.state, choice.stop_tick), (2, false), "{version}");
        }
    }
}
