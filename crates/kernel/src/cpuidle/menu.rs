//! `menu`: the smaller of two guesses, one from the timers and one from repetition.
//!
//! The first guess is the distance to the next timer times a factor learned for distances of that
//! size: if the CPU usually wakes after a quarter of the time, the factor tends to ¼. The second
//! is the typical one of the last eight idle periods, when they resemble each other once outliers
//! are left out. Worked example (6.1): next timer 1.2 ms away, factor of the bucket 1–10 ms at
//! 4096 of 8192 = ½, so the timer guess is 600 µs; the last periods were
//! 100, 104, 98, 100, 101, 5000, 99, 102 µs. Without the outlier their mean is 100 µs and their
//! variance 3 µs², so the typical interval is 100 µs, and that is the prediction.

use super::intervals::{INTERVALS, Intervals};
use super::{Choice, FAR_AWAY_NS, IdleState, MenuPolling, Question, RESIDENCY_THRESHOLD_NS, Wake};
use super::{IdleRules, shallower};
use crate::ids::Ns;

const BUCKETS: usize = 12;
const RESOLUTION: u64 = 1024;
const DECAY: u64 = 8;
/// A sleep of this length is as good as predicted.
const MAX_INTERESTING_NS: Ns = 50_000_000;
/// "No idea", in µs.
const UNKNOWN_US: u32 = u32::MAX;

/// State of one CPU in `menu`.
#[derive(Clone, Debug)]
pub struct Menu {
    next_timer_ns: Ns,
    bucket: usize,
    factors: [u64; BUCKETS],
    intervals: Intervals,
}

impl Default for Menu {
    fn default() -> Self {
        Self {
            next_timer_ns: 0,
            bucket: 0,
            factors: [RESOLUTION * DECAY; BUCKETS],
            intervals: Intervals::default(),
        }
    }
}

/// `which_bucket`: by decades from 10 µs to 100 ms, again while tasks wait for I/O.
fn bucket(duration_ns: Ns, question: &Question) -> usize {
    // Distances come as chance has it: counted, not looked for.
    let decades = [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    let row = decades.map(|limit_ns| usize::from(duration_ns >= limit_ns));
    let row: usize = row.iter().sum();
    let waiting = question.rules.menu_iowait && question.nr_iowait > 0;
    row + if waiting { BUCKETS / 2 } else { 0 }
}

impl Menu {
    /// `get_typical_interval`: µs, [`UNKNOWN_US`] when nothing repeats. `timer_us` is the guess
    /// from the timers.
    fn typical_interval_us(&self, rules: &IdleRules, timer_us: u32) -> u32 {
        let mut samples = self.intervals.samples();
        loop {
            let (least, most) = (samples.least(), samples.most());
            if rules.menu_typical_below_timer && least >= timer_us {
                return UNKNOWN_US;
            }
            if rules.menu_typical_first && most == 0 {
                return UNKNOWN_US;
            }
            let mean = samples.mean();
            if samples.are_alike(mean, rules.menu_mean_square) {
                return mean as u32;
            }
            if samples.count() * 4 <= INTERVALS as u64 * 3 {
                let fallback = rules.menu_longest_sample && samples.count() >= INTERVALS as u64 / 2;
                return if fallback { most } else { UNKNOWN_US };
            }
            let low = mean - u64::from(least) > u64::from(most) - mean;
            samples.leave_out(rules.menu_outliers_both_ends & low);
        }
    }

    /// Timer distance times the learned factor, µs, rounded to the nearest.
    fn timer_guess_us(&mut self, question: &Question) -> u32 {
        self.next_timer_ns = question.sleep.timer_ns.min(FAR_AWAY_NS);
        self.bucket = bucket(self.next_timer_ns, question);
        let unit = RESOLUTION * DECAY * 1000;
        // 50 bits times 13.
        let product = self.next_timer_ns * self.factors[self.bucket];
        u32::try_from((product + unit / 2) / unit).unwrap_or(u32::MAX)
    }

    /// `menu_select`.
    pub(crate) fn select(&mut self, question: &Question) -> Choice {
        match question.rules.menu_polling {
            MenuPolling::TimerWithin5us | MenuPolling::TimerWithin20us => {
                self.select_before_4_20(question)
            }
            _ => self.select_since_4_20(question),
        }
    }

    fn select_before_4_20(&mut self, question: &Question) -> Choice {
        if question.latency_limit_ns == 0 {
            return Choice::new(0, !question.rules.governor_stops_tick);
        }
        let states = question.states;
        let timer_us = self.timer_guess_us(question);
        let typical_us = self.typical_interval_us(question.rules, timer_us);
        let next_timer_us = self.next_timer_ns / 1000;
        let predicted_us = u64::from(typical_us.min(timer_us)).min(next_timer_us);
        let mut predicted_ns = predicted_us * 1000;
        let (mut latency_ns, tick_ns) = (question.latency_limit_ns, question.tick_period_ns);
        if question.tick_stopped && question.rules.governor_stops_tick {
            if predicted_ns < tick_ns {
                predicted_ns = question.sleep.tick_ns;
            }
        } else {
            latency_ns = latency_ns.min(interactivity_ns(predicted_ns, question));
        }
        let first = usize::from(states[0].polling && poll_avoided(next_timer_us, question));
        let (state, expected_ns, done) =
            scan_before_4_20(question, first, predicted_ns, latency_ns);
        if done {
            return Choice::new(state, true);
        }
        tick_decision(question, state, expected_ns, question.sleep.tick_ns)
    }

    fn select_since_4_20(&mut self, question: &Question) -> Choice {
        let states = question.states;
        let rules = question.rules;
        let mut delta_tick_ns = question.sleep.tick_ns;
        let mut predicted_ns;
        if rules.menu_typical_first {
            predicted_ns = u64::from(self.typical_interval_us(rules, 0)) * 1000;
            let look_anyway = question.tick_stopped && rules.menu_timers_when_stopped;
            if predicted_ns > RESIDENCY_THRESHOLD_NS || look_anyway {
                let timer_ns = u64::from(self.timer_guess_us(question)) * 1000;
                predicted_ns = predicted_ns.min(timer_ns);
            } else {
                // The timers were not looked at: far away, the tick half way.
                self.next_timer_ns = u64::MAX;
                self.bucket = bucket(u64::MAX, question);
                delta_tick_ns = question.tick_period_ns / 2;
            }
        } else {
            let timer_us = self.timer_guess_us(question);
            predicted_ns =
                u64::from(timer_us.min(self.typical_interval_us(rules, timer_us))) * 1000;
        }
        let no_choice = question.latency_limit_ns == 0
            || self.next_timer_ns < states[1].target_residency_ns
            || question.latency_limit_ns < states[1].exit_latency_ns;
        if no_choice {
            return Choice::new(0, !states[0].polling);
        }
        let mut latency_ns = question.latency_limit_ns;
        if question.tick_stopped {
            // A short guess gone wrong would leave the CPU in a shallow state for long.
            if predicted_ns < question.tick_period_ns {
                predicted_ns = self.next_timer_ns;
            }
        } else if rules.menu_iowait {
            latency_ns = latency_ns.min(interactivity_ns(predicted_ns, question));
        }
        let timers = (self.next_timer_ns, delta_tick_ns);
        let (state, expected_ns, done) = scan(question, predicted_ns, latency_ns, timers);
        if done {
            return Choice::new(state, true);
        }
        tick_decision(question, state, expected_ns, delta_tick_ns)
    }

    /// `menu_reflect` and `menu_update`.
    pub(crate) fn reflect(&mut self, states: &[IdleState], tick_period_ns: Ns, wake: Wake) {
        let state = &states[wake.state];
        let measured_ns = if wake.by_tick && self.next_timer_ns > tick_period_ns {
            // The tick was kept although nothing else was due: it could have been a long sleep.
            9 * MAX_INTERESTING_NS / 10
        } else if state.polling && wake.poll_limit {
            self.next_timer_ns
        } else if wake.residency_ns > 2 * state.exit_latency_ns {
            wake.residency_ns - state.exit_latency_ns
        } else {
            wake.residency_ns / 2
        };
        let measured_ns = measured_ns.min(self.next_timer_ns);
        let factor = &mut self.factors[self.bucket];
        *factor -= *factor / DECAY;
        *factor += if self.next_timer_ns > 0 && measured_ns < MAX_INTERESTING_NS {
            RESOLUTION * measured_ns / self.next_timer_ns
        } else {
            RESOLUTION
        };
        self.intervals
            .note(u32::try_from(measured_ns / 1000).unwrap_or(UNKNOWN_US));
    }
}

/// The more tasks wait for I/O, the shorter the exit may take (`performance_multiplier`).
fn interactivity_ns(predicted_ns: Ns, question: &Question) -> Ns {
    predicted_ns / (1 + 10 * u64::from(question.nr_iowait))
}

/// Up to 4.19: whether the scan starts behind the polling state.
fn poll_avoided(next_timer_us: u64, question: &Question) -> bool {
    let first = &question.states[1];
    if question.rules.menu_polling == MenuPolling::TimerWithin5us {
        return next_timer_us > 5;
    }
    let threshold_us = (first.target_residency_ns / 1000).max(20);
    next_timer_us > threshold_us && question.latency_limit_ns > first.exit_latency_ns
}

/// State, expected sleep, and whether the tick is to be stopped without further thought.
type Scan = (usize, Ns, bool);

fn scan_before_4_20(question: &Question, first: usize, predicted_ns: Ns, latency_ns: Ns) -> Scan {
    let states = question.states;
    let rows = first..states.len();
    let mut chosen = first;
    for row in rows {
        let state = &states[row];
        if state.target_residency_ns > predicted_ns {
            return too_deep(question, chosen, row, predicted_ns, question.sleep.tick_ns);
        }
        if state.exit_latency_ns > latency_ns {
            return (chosen, states[chosen].target_residency_ns, false);
        }
        chosen = row;
    }
    (chosen, predicted_ns, false)
}

fn scan(question: &Question, predicted_ns: Ns, latency_ns: Ns, timers: (Ns, Ns)) -> Scan {
    let states = question.states;
    let latency_first = question.rules.menu_latency_first;
    // How many in a row will do is a matter of chance: counted, not looked for.
    let (mut fit, mut all_fit) = (0, true);
    for state in states {
        all_fit &=
            (state.target_residency_ns <= predicted_ns) & (state.exit_latency_ns <= latency_ns);
        fit += usize::from(all_fit);
    }
    let chosen = fit.saturating_sub(1);
    let Some(state) = states.get(fit) else {
        return (chosen, predicted_ns, false);
    };
    let too_slow = state.exit_latency_ns > latency_ns;
    if state.target_residency_ns <= predicted_ns || (latency_first && too_slow) {
        return (chosen, predicted_ns, false);
    }
    let times = (predicted_ns, latency_ns, timers.0);
    if states[chosen].polling && better_than_polling(question, state, times) {
        return (fit, state.target_residency_ns, false);
    }
    too_deep(question, chosen, fit, predicted_ns, timers.1)
}

/// Whether a physical state is entered although the prediction says polling.
fn better_than_polling(question: &Question, state: &IdleState, times: (Ns, Ns, Ns)) -> bool {
    let (predicted_ns, latency_ns, next_timer_ns) = times;
    let before_timer = state.target_residency_ns <= next_timer_ns;
    let allowed = state.exit_latency_ns <= latency_ns;
    let short = state.target_residency_ns < RESIDENCY_THRESHOLD_NS;
    let exits_in_time = state.exit_latency_ns <= predicted_ns;
    before_timer
        && match question.rules.menu_polling {
            MenuPolling::ExitWithinPrediction => allowed && exits_in_time,
            MenuPolling::ShortResidencyAndExit => allowed && exits_in_time && short,
            _ => allowed,
        }
}

/// The state in `row` does not pay off within the prediction; `chosen` does.
fn too_deep(question: &Question, chosen: usize, row: usize, predicted_ns: Ns, tick_ns: Ns) -> Scan {
    let states = question.states;
    let period_ns = question.tick_period_ns;
    if predicted_ns < period_ns || !question.rules.governor_stops_tick {
        return (chosen, predicted_ns, false);
    }
    if !question.tick_stopped {
        // Waking early in a shallow state does no harm: keep the tick.
        return (chosen, states[chosen].target_residency_ns, false);
    }
    let shallow = states[chosen].target_residency_ns < period_ns;
    let deeper = shallow && states[row].target_residency_ns <= tick_ns;
    (if deeper { row } else { chosen }, predicted_ns, true)
}

/// The tick goes on while polling and during what looks like a short sleep; then the state must pay
/// off before the tick.
fn tick_decision(question: &Question, state: usize, expected_ns: Ns, tick_ns: Ns) -> Choice {
    let states = question.states;
    let stop = Choice::new(state, true);
    if !question.rules.governor_stops_tick || question.tick_stopped {
        return stop;
    }
    if !states[state].polling && expected_ns >= question.tick_period_ns {
        return stop;
    }
    let state = if state > 0 && states[state].target_residency_ns > tick_ns {
        shallower(states, state, tick_ns)
    } else {
        state
    };
    Choice::new(state, false)
}

#[cfg(test)]
mod tests {
    use super::super::test_states::{IVB, SKX, TICK_NS, question, woken};
    use super::*;
    use crate::rules::{Rules, Version};

    fn rules(major: u16, minor: u16) -> IdleRules {
        Rules::of_one_cpu(Version::new(major, minor)).idle
    }

    fn remembering(intervals_us: [u32; 8]) -> Menu {
        let mut menu = Menu::default();
        for us in intervals_us {
            menu.intervals.note(us);
        }
        menu
    }

    #[test]
    fn typical_intervals_leave_out_long_ones() {
        let rules = rules(6, 1);
        let typical = |intervals, timer| remembering(intervals).typical_interval_us(&rules, timer);
        assert_eq!(typical([100, 104, 98, 100, 101, 5000, 99, 102], 600), 100);
        // Nothing repeats: 6 samples are left when it gives up.
        assert_eq!(
            typical([10, 900, 50, 4000, 200, 7, 1500, 90], 9000),
            UNKNOWN_US
        );
        // No sample is below the timer estimate.
        assert_eq!(typical([100; 8], 100), UNKNOWN_US);
        assert_eq!(typical([100; 8], 101), 100);
    }

    #[test]
    fn short_outliers_are_left_out_since_6_15() {
        let intervals = [1, 1000, 1003, 998, 1001, 2, 1000, 999];
        let typical = |minor| remembering(intervals).typical_interval_us(&rules(6, minor), 0);
        assert_eq!(typical(14), UNKNOWN_US);
        assert_eq!(typical(15), 1000);
        let scattered = remembering([10, 900, 50, 4000, 200, 7, 1500, 90]);
        // 4000 and 1500 go; the longest of the six others is 900.
        assert_eq!(scattered.typical_interval_us(&rules(6, 15), 0), 900);
        assert_eq!(scattered.typical_interval_us(&rules(6, 17), 0), 900);
        assert_eq!(scattered.typical_interval_us(&rules(6, 18), 0), UNKNOWN_US);
    }

    #[test]
    fn a_mean_that_is_rounded_down_makes_five_samples_differ_since_6_15() {
        // 9000 goes three times at once. Of the five others the mean is 1000.8; see
        // `Samples::are_alike`.
        let five = remembering([9000, 1001, 1001, 9000, 1000, 1001, 9000, 1001]);
        assert_eq!(five.typical_interval_us(&rules(6, 14), 0), 1000);
        assert_eq!(five.typical_interval_us(&rules(6, 15), 0), 1001);
        assert_eq!(five.typical_interval_us(&rules(6, 18), 0), UNKNOWN_US);
    }

    #[test]
    fn a_short_interval_with_the_tick_stopped_hides_the_timers() {
        // 10 us are typical, the next timer is 100 us away. Looking at it says C1E (80 us); not
        // looking, that nothing is due.
        let choose = |version: Version| {
            let rules = Rules::of_one_cpu(version).idle;
            let mut asked = question(&IVB, &rules, 100);
            asked.tick_stopped = true;
            remembering([10; 8]).select(&asked).state
        };
        assert_eq!(choose(Version::new(6, 1)), 2);
        assert_eq!(choose(Version::new(6, 6)), 4);
        assert_eq!(choose(Version::new(6, 18)), 4);
        assert_eq!(choose(Version::stable(6, 18, 13)), 4);
        assert_eq!(choose(Version::stable(6, 18, 14)), 2);
        assert_eq!(choose(Version::stable(6, 12, 117)), 2);
    }

    #[test]
    fn a_state_of_long_residency_is_better_than_polling_up_to_6_18() {
        // As on PowerVM: 50 us are typical, CEDE needs 120 us and takes 10 us to leave, the next
        // timer is far.
        let states = [
            SKX[0],
            IdleState {
                exit_latency_ns: 10_000,
                target_residency_ns: 120_000,
                ..SKX[1]
            },
        ];
        let choose = |version: Version| {
            let rules = Rules::of_one_cpu(version).idle;
            remembering([50; 8])
                .select(&question(&states, &rules, 5000))
                .state
        };
        for minor in [1, 6, 12, 17, 18] {
            assert_eq!(choose(Version::new(6, minor)), 1, "6.{minor}");
        }
        for (minor, patch) in [(6, 120), (12, 64), (18, 3)] {
            assert_eq!(choose(Version::stable(6, minor, patch - 1)), 1, "6.{minor}");
            assert_eq!(choose(Version::stable(6, minor, patch)), 0, "6.{minor}");
        }
    }

    #[test]
    fn repetition_beats_a_distant_timer() {
        for (major, minor) in [(4, 17), (5, 10), (6, 1), (6, 12), (6, 18)] {
            let rules = rules(major, minor);
            let choice = remembering([100; 8]).select(&question(&IVB, &rules, 5000));
            let expected = Choice {
                state: 2, // C1E: 80 us
                stop_tick: false,
            };
            assert_eq!(choice, expected, "{major}.{minor}");
        }
    }

    #[test]
    fn a_long_sleep_stops_the_tick_and_goes_deep() {
        let rules = rules(6, 1);
        let mut menu = remembering([50_000; 8]);
        let choice = menu.select(&question(&IVB, &rules, 100_000));
        assert_eq!((choice.state, choice.stop_tick), (4, true));
        // 10 iowaiters: 50 ms / 101 = 495 us still allow 82 us of exit latency; 1000 do not.
        let mut asked = question(&IVB, &rules, 100_000);
        asked.nr_iowait = 10;
        assert_eq!(remembering([50_000; 8]).select(&asked).state, 4);
        asked.nr_iowait = 100;
        assert_eq!(remembering([50_000; 8]).select(&asked).state, 2);
    }

    #[test]
    fn before_4_17_the_tick_is_stopped_whatever_the_state() {
        let rules = rules(4, 16);
        let choice = remembering([100; 8]).select(&question(&IVB, &rules, 5000));
        assert_eq!((choice.state, choice.stop_tick), (2, true));
        let mut asked = question(&IVB, &rules, 5000);
        asked.latency_limit_ns = 0;
        let choice = Menu::default().select(&asked);
        assert_eq!((choice.state, choice.stop_tick), (0, true));
    }

    #[test]
    fn no_latency_allowed_means_polling_with_the_tick() {
        for (major, minor) in [(4, 17), (4, 20), (6, 12)] {
            let rules = rules(major, minor);
            let mut asked = question(&SKX, &rules, 100_000);
            asked.latency_limit_ns = 0;
            let choice = remembering([50_000; 8]).select(&asked);
            assert_eq!((choice.state, choice.stop_tick), (0, false));
        }
    }

    #[test]
    fn polling_or_the_first_state_by_version() {
        // 5 us typically, next timer 100 us away, C1E needs 20 us.
        let choose = |major, minor, states: &[IdleState]| {
            let rules = rules(major, minor);
            remembering([5; 8])
                .select(&question(states, &rules, 100))
                .state
        };
        assert_eq!(choose(4, 5, &SKX), 1);
        assert_eq!(choose(6, 1, &SKX), 1); // 2 us pay off within 5
        // States that need 10 us: polling is predicted, but the timer is far.
        let slow = [
            SKX[0],
            IdleState {
                exit_latency_ns: 9_000,
                target_residency_ns: 10_000,
                ..SKX[1]
            },
        ];
        // 4.16 starts behind POLL, whatever the prediction; the others go by their own rules.
        assert_eq!(choose(4, 16, &slow), 1);
        // Up to 6.11 9 us of latency are allowed only if the prediction does: 5 us do not.
        assert_eq!(choose(6, 1, &slow), 0);
        assert_eq!(choose(6, 6, &slow), 0);
        assert_eq!(choose(6, 12, &slow), 1);
        assert_eq!(choose(6, 18, &slow), 0);
    }

    #[test]
    fn the_factor_moves_an_eighth_towards_what_was_measured() {
        let rules = rules(6, 1);
        let mut menu = Menu::default();
        menu.select(&question(&IVB, &rules, 1200));
        menu.reflect(&IVB, TICK_NS, woken(3, 359)); // 359 - 59 exit = 300 of 1200 us
        assert_eq!(menu.factors[3], 8192 - 1024 + 256);
        assert_eq!(menu.intervals.by_age[0], 300);
        // Woken by a tick that was kept although the timer was far: 45 ms.
        menu.select(&question(&IVB, &rules, 60_000));
        let wake = Wake {
            by_tick: true,
            ..woken(1, 3000)
        };
        menu.reflect(&IVB, TICK_NS, wake);
        assert_eq!(menu.intervals.by_age[1], 45_000);
        assert_eq!(menu.factors[4], 8192 - 1024 + 1024 * 45 / 60);
    }
}
