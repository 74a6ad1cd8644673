//! `teo`: how often was the timer right, and how much earlier did other things come?
//!
//! Each state has two counters: *hits*, when the CPU slept about as long as the timers said, and
//! *intercepts*, when something woke it after a time for which this state would have been the right
//! one. Both lose an eighth with every wakeup and gain 1024. Worked example with POLL 0, C1 2,
//! C1E 20, C6 600 µs: ten wakeups after 100 µs each, while the next timer was 5 ms away, are
//! intercepts of C1E (100 is between 20 and 600), whose counter climbs towards 8192. They are
//! more than half of everything, so the deepest state below which half of the intercepts lie is
//! chosen instead of C6: C1E.
//!
//! | release | what is special |
//! |---|---|
//! | up to 6.5 | the timers first, and nine recent wakeups beside the counters |
//! | 6.6 | the timers last, and only for states of 15 µs or more |
//! | 6.14 | the timers unless most idle periods were shorter than 15 µs; what comes early no longer keeps the tick |

use super::{Choice, IdleRules, IdleState, Question, RESIDENCY_THRESHOLD_NS, Wake, shallower};
use crate::ids::Ns;

const PULSE: u32 = 1024;
const DECAY_SHIFT: u32 = 3;
const NR_RECENT: usize = 9;
/// An allowed exit latency below which the timers are not worth looking at (6.14).
const LATENCY_THRESHOLD_NS: Ns = RESIDENCY_THRESHOLD_NS / 2;
/// Most states a driver can have (`CPUIDLE_STATE_MAX`).
const MAX_STATES: usize = 10;

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    intercepts: u32,
    hits: u32,
    recent: u32,
}

/// State of one CPU in `teo`.
#[derive(Clone, Debug, Default)]
pub struct Teo {
    sleep_length_ns: Ns,
    bins: [Bin; MAX_STATES],
    total: u32,
    tick_hits: u32,
    /// Idle periods of less than 15 µs (6.14).
    short_idles: u32,
    /// Wakeups that came early, but not before a tick had passed (6.14).
    tick_intercepts: u32,
    recent_rows: [Option<usize>; NR_RECENT],
    next_recent: usize,
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
    pub(crate) fn select(&mut self, question: &Question) -> Choice {
        assert!(question.states.len() <= MAX_STATES, "too many idle states");
        if question.rules.teo_short_idles {
            self.select_since_6_14(question)
        } else if question.rules.teo_timer_last {
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
        // The total of 6.14 fades on its own; when it is behind the hits, the kernel's difference
        // wraps, too.
        let often = 2 * sums.intercepts > self.total.wrapping_sub(sums.hits);
        let recently = rules.teo_recent && sums.recent > NR_RECENT as u32 / 2;
        (often, recently)
    }

    /// The state below the candidate under which more than half of the intercepts lie.
    /// `deep_enough` tells whether a state may be entered with the tick stopped.
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
        let mut row = self.below_intercepts(question, &candidate);
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
        row = before_timer(question, row);
        if states[row].target_residency_ns < question.tick_period_ns && self.most(all_intercepts) {
            span_ns = question.tick_period_ns / 2;
        }
        let keep = states[row].polling || span_ns < question.tick_period_ns;
        tick_decision(question, row, keep, question.sleep.tick_ns)
    }

    fn select_since_6_14(&mut self, question: &Question) -> Choice {
        let states = question.states;
        self.sleep_length_ns = Ns::MAX;
        let candidate = self.candidate(question, Ns::MAX);
        let mut row = self
            .below_intercepts(question, &candidate)
            .min(candidate.allowed);
        let mostly_short = 2 * self.short_idles >= self.total;
        let no_latency = question.latency_limit_ns < LATENCY_THRESHOLD_NS;
        let shallow = row == 0 || states[row].target_residency_ns < RESIDENCY_THRESHOLD_NS;
        if shallow && (mostly_short || no_latency) {
            return keep_tick(row);
        }
        let mut span_ns = question.sleep.timer_ns;
        self.sleep_length_ns = span_ns;
        if row == 0 {
            return keep_tick(0);
        }
        row = before_timer(question, row);
        let early = self.most(self.tick_intercepts);
        if states[row].target_residency_ns < question.tick_period_ns && early {
            span_ns = question.tick_period_ns / 2;
        }
        let keep = states[row].polling || span_ns < question.tick_period_ns;
        tick_decision(question, row, keep, question.sleep.tick_ns)
    }

    /// The candidate, or the state that what came early speaks for; with the tick stopped one that
    /// needs a tick.
    fn below_intercepts(&self, question: &Question, candidate: &Candidate) -> usize {
        let early = self.early(&candidate.sums, question.rules);
        if !early.0 && !early.1 {
            return candidate.row;
        }
        self.step_down(candidate, early, |row| deep_enough(question, row))
    }

    /// More than five eighths of all.
    fn most(&self, count: u32) -> bool {
        count > self.total / 2 + self.total / 8
    }

    /// `teo_reflect` and `teo_update`.
    pub(crate) fn reflect(
        &mut self,
        states: &[IdleState],
        rules: &IdleRules,
        tick_period_ns: Ns,
        wake: Wake,
    ) {
        let safety_net = wake.poll_limit || (wake.by_tick && self.sleep_length_ns > tick_period_ns);
        if rules.teo_short_idles {
            return self.update_since_6_14(states, tick_period_ns, wake, safety_net);
        }
        let as_expected = safety_net || wake.span_ns >= self.sleep_length_ns;
        let latency_ns = states[wake.state].exit_latency_ns;
        let measured_ns = match wake.residency_ns {
            _ if as_expected => Ns::MAX,
            residency_ns if residency_ns >= latency_ns => residency_ns - latency_ns / 2,
            residency_ns => residency_ns / 2,
        };
        let (timer_row, measured_row) = self.fade_bins(states, measured_ns);
        let bins = &self.bins[..states.len()];
        self.total = PULSE
            + bins
                .iter()
                .map(|bin| bin.hits + bin.intercepts)
                .sum::<u32>();
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

    /// All counters lose an eighth. Returns the states whose bins the timers and the sleep fall
    /// into.
    fn fade_bins(&mut self, states: &[IdleState], measured_ns: Ns) -> (usize, usize) {
        let (mut timer_row, mut measured_row) = (0, 0);
        for (row, state) in states.iter().enumerate() {
            fade(&mut self.bins[row].hits);
            fade(&mut self.bins[row].intercepts);
            if state.target_residency_ns <= self.sleep_length_ns {
                timer_row = row;
                if state.target_residency_ns <= measured_ns {
                    measured_row = row;
                }
            }
        }
        (timer_row, measured_row)
    }

    /// `teo_update` of 6.14 to 6.18. A sleep that a safety net ended counts as one that the timers
    /// told. Which early wakeups count as before the tick is upside down, as in the kernel up to
    /// 6.18: those that were not. On machines whose deepest state pays off within a tick there are
    /// none.
    fn update_since_6_14(
        &mut self,
        states: &[IdleState],
        tick_ns: Ns,
        wake: Wake,
        safety_net: bool,
    ) {
        fade(&mut self.short_idles);
        let latency_ns = states[wake.state].exit_latency_ns;
        let reached = wake.residency_ns >= latency_ns;
        let measured_ns = match wake.residency_ns {
            _ if safety_net => Ns::MAX,
            residency_ns if reached => residency_ns - latency_ns / 2,
            residency_ns => residency_ns / 2,
        };
        if !safety_net && (!reached || measured_ns < RESIDENCY_THRESHOLD_NS) {
            self.short_idles += PULSE;
        }
        let (timer_row, measured_row) = self.fade_bins(states, measured_ns);
        fade(&mut self.tick_intercepts);
        if timer_row == measured_row {
            self.bins[timer_row].hits += PULSE;
        } else {
            self.bins[measured_row].intercepts += PULSE;
            if tick_ns <= measured_ns {
                self.tick_intercepts += PULSE;
            }
        }
        fade(&mut self.total);
        self.total += PULSE;
    }

    /// Counts a sleep of more than a tick, when no state needs that long. The kernel's extra bin of
    /// hits (6.6).
    fn count_tick_hit(&mut self, states: &[IdleState], tick_ns: Ns, measured_ns: Ns) -> bool {
        if states[states.len() - 1].target_residency_ns >= tick_ns {
            return false;
        }
        fade(&mut self.tick_hits);
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

/// A counter loses an eighth.
fn fade(counter: &mut u32) {
    *counter -= *counter >> DECAY_SHIFT;
}

fn keep_tick(state: usize) -> Choice {
    Choice::new(state, false)
}

/// Whether a state may be entered by a guess with the tick stopped (`teo_state_ok`).
fn deep_enough(question: &Question, row: usize) -> bool {
    !question.tick_stopped || question.states[row].target_residency_ns >= question.tick_period_ns
}

/// The state, or a shallower one when the next timer comes before it pays off.
fn before_timer(question: &Question, row: usize) -> usize {
    let span_ns = question.sleep.timer_ns;
    if question.states[row].target_residency_ns <= span_ns {
        return row;
    }
    let other = shallower(question.states, row, span_ns);
    if question.rules.teo_ignores_near_timer && !deep_enough(question, other) {
        row
    } else {
        other
    }
}

fn tick_decision(question: &Question, row: usize, keep: bool, tick_ns: Ns) -> Choice {
    if !keep || question.tick_stopped {
        return Choice::new(row, true);
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
    use super::super::test_states::{SKX, TICK_NS, question, woken};
    use super::*;
    use crate::rules::{Rules, Version};

    fn run(teo: &mut Teo, rules: &IdleRules, timer_us: u64, slept_us: u64) -> Choice {
        run_limited(teo, rules, (timer_us, slept_us), u64::MAX)
    }

    /// One sleep, the next timer and how long it took in us.
    fn run_limited(
        teo: &mut Teo,
        rules: &IdleRules,
        (timer_us, slept_us): (u64, u64),
        latency_limit_ns: Ns,
    ) -> Choice {
        let choice = teo.select(&Question {
            latency_limit_ns,
            ..question(&SKX, rules, timer_us)
        });
        teo.reflect(&SKX, rules, TICK_NS, woken(choice.state, slept_us));
        choice
    }

    #[test]
    fn interrupted_sleeps_lead_to_the_state_they_would_have_paid_for() {
        for version in [Version::new(6, 1), Version::new(6, 12)] {
            let rules = Rules::of_one_cpu(version).idle;
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
        let rules = Rules::of_one_cpu(Version::new(6, 12)).idle;
        let mut teo = Teo::default();
        for _ in 0..4 {
            run(&mut teo, &rules, 5000, 100);
        }
        // Sleeps up to a timer in 5 ms are hits beyond the tick. The intercepts (3390) fade with
        // each by an eighth; at the fourth decision they are 2273 of 4977, less than half.
        let states: Vec<usize> = (0..8)
            .map(|_| run(&mut teo, &rules, 5000, 5000).state)
            .collect();
        assert_eq!(states, [2, 2, 2, 3, 3, 3, 3, 3]);
        assert!(teo.tick_hits > 0);
    }

    #[test]
    fn nine_recent_wakeups_counted_up_to_6_11() {
        let rules = Rules::of_one_cpu(Version::new(6, 1)).idle;
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
    fn early_wakeups_no_longer_keep_the_tick_since_6_14() {
        let rules = Rules::of_one_cpu(Version::new(6, 14)).idle;
        let mut teo = Teo::default();
        let first = run(&mut teo, &rules, 5000, 100);
        assert_eq!((first.state, first.stop_tick), (3, true));
        // 100 us in C6 are less than its exit latency of 133: they count as 50, an intercept of C1E
        // and a short period.
        assert_eq!((teo.bins[2].intercepts, teo.short_idles), (1024, 1024));
        let second = run(&mut teo, &rules, 5000, 100);
        assert_eq!((second.state, second.stop_tick), (2, true));
        // In C1E they count as 95: no longer short. Everything has faded by an eighth.
        assert_eq!((teo.bins[2].intercepts, teo.short_idles), (1920, 896));
        assert_eq!((teo.total, teo.tick_intercepts), (1920, 0));
    }

    #[test]
    fn timers_are_looked_at_for_a_shallow_state_since_6_14_unless_most_periods_are_short() {
        let chosen = |minor, slept_us, latency_limit_ns| -> Vec<(usize, bool)> {
            let rules = Rules::of_one_cpu(Version::new(6, minor)).idle;
            let mut teo = Teo::default();
            let run = |_| {
                let choice = run_limited(&mut teo, &rules, (5000, slept_us), latency_limit_ns);
                (choice.state, choice.stop_tick)
            };
            (0..3).map(run).collect()
        };
        // The first time 18 us count as 9 and are short, in C1 as 17 and are not: 896 of 1920 are
        // less than half.
        let short_first = [(3, true), (1, false), (1, true)];
        assert_eq!(chosen(14, 18, u64::MAX), short_first);
        assert_eq!(chosen(13, 18, u64::MAX)[1..], [(1, false), (1, false)]);
        // 12 us count as 11 in C1: always short.
        assert_eq!(chosen(14, 12, u64::MAX)[1..], [(1, false), (1, false)]);
        // C1 is all that 5 us of latency allow; the timers are not asked.
        assert_eq!(chosen(14, 100, 5_000), [(1, false); 3]);
    }

    #[test]
    fn with_the_tick_stopped_a_near_timer_is_ignored_up_to_6_18_2() {
        let choose = |version: Version| {
            let rules = Rules::of_one_cpu(version).idle;
            let question = Question {
                tick_stopped: true,
                ..question(&SKX, &rules, 30)
            };
            Teo::default().select(&question).state
        };
        // C6 takes 600 us to pay off, the timer is due in 30.
        assert_eq!(choose(Version::new(6, 1)), 2);
        for (minor, patch) in [(6, 119), (12, 63), (14, 0), (18, 2)] {
            assert_eq!(choose(Version::stable(6, minor, patch)), 3, "6.{minor}");
        }
        for (minor, patch) in [(6, 120), (12, 64), (18, 3)] {
            assert_eq!(choose(Version::stable(6, minor, patch)), 2, "6.{minor}");
        }
    }

    #[test]
    fn a_close_timer_bounds_the_state() {
        for version in [Version::new(6, 1), Version::new(6, 12), Version::new(6, 18)] {
            let rules = Rules::of_one_cpu(version).idle;
            let choice = run(&mut Teo::default(), &rules, 30, 30);
            assert_eq!((choice.state, choice.stop_tick), (2, false), "{version}");
        }
    }
}
