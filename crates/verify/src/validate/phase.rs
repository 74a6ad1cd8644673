//! A simulation begins and ends as a real run does: with ticks that strike at any time, and with
//! its last program.
//!
//! A simulation begins with a tick, a real run anywhere between two. Where threads wake by timers
//! beside others that compute, this decides for the whole run who is preempted when: rt-app's
//! `runtime` events of 1.5, 6 and 4 ms beside two hogs used 1.22 s of CPU time in every run that
//! began with a tick, and 1.03 to 1.19 s in three real ones. So each seed has its ticks elsewhere.
//! Worked example at 250 Hz: seeds 0, 1, 2 and 3 have their first ticks 0, 2.47, 0.94 and 3.42 ms
//! after the start.
//!
//! A program of 4 s that is throttled when they are over ends in its group's next period, and what
//! is counted of real groups is counted until then. Four hogs with 300 of every 400 ms are
//! throttled from 3.96 s on, so that they see at 4.00 s that their time is over: 11 periods and
//! not 10.
//!
//! Where periods end has as little to do with the start of the programs. A window from 0.5 to 4 s
//! has the ends of 8 periods of 400 ms or of 9, and loads of 30 ms that find their group's period
//! just begun are throttled less than those that find it half used.

use schedcast_kernel::Ns;
use schedcast_lab::error::Result;
use schedcast_lab::experiment::Scenario;
use schedcast_lab::experiment::program::Action;
use schedcast_lab::outcome::Outcome;
use schedcast_lab::simulate::Simulate;
use schedcast_workload::programs;

/// The fractional part of the golden ratio, in millionths: multiples of it fill an interval evenly.
const GOLDEN: u64 = 618_034;

/// When the ticks of `seed` strike, ns after a multiple of their distance `tick_ns`.
pub(crate) fn tick_phase_ns(seed: u64, tick_ns: Ns) -> Ns {
    tick_ns * (seed % 1_000_000 * GOLDEN % 1_000_000) / 1_000_000
}

/// Programs that have not ended so long after a scenario's duration are ended, on both sides.
pub(crate) const GRACE_NS: Ns = 3_000_000_000;

/// Whether a real run of `scenario` is measured until its programs end. rt-app's threads end with
/// the time its file gives them, which is the scenario's, and in a window (after a warm-up) nothing
/// needs to end.
fn ends_with_programs(scenario: &Scenario) -> bool {
    let endless = scenario.programs.iter().any(|program| {
        let Action::Run(words) = &program.action.value else {
            return true;
        };
        programs::tool(words).is_ok_and(|tool| tool.name == "rt-app")
    });
    scenario.warmup_ns == 0 && !endless
}

/// The fractional part of the square root of 2, in millionths: seeds fill periods as evenly as
/// ticks, at other places.
const ROOT_OF_TWO: u64 = 414_214;
/// That of the square root of 3, for groups that have phases of their own.
const ROOT_OF_THREE: u64 = 732_051;

/// Real groups are limited long after their machine has booted, so their periods end at any time
/// after programs start: together before 6.4, where they end at multiples of the period since the
/// boot, and each group for itself from then on.
fn set_period_phases(scenario: &mut Scenario, seed: u64) {
    let own = scenario.kernel.rules.timer_interleave;
    let longest_us = scenario
        .cgroups
        .values()
        .map(|group| group.limits.period_us)
        .max();
    let longest_ns = longest_us.unwrap_or(0) * 1000;
    for (number, group) in (0..).zip(scenario.cgroups.values_mut()) {
        let number = if own { number } else { 0 };
        let millionths = (seed % 1_000_000 * ROOT_OF_TWO + number * ROOT_OF_THREE) % 1_000_000;
        group.period_phase_ns =
            Some(longest_ns * millionths / 1_000_000 % (group.limits.period_us * 1000));
    }
}

/// A simulator as a real run: each seed has ticks of its own, and programs that end by themselves
/// do.
pub struct AsReal<'a, S>(pub &'a S);

impl<S: Simulate> Simulate for AsReal<'_, S> {
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        let mut scenario = scenario.clone();
        let rules = &mut scenario.kernel.rules;
        rules.tick_phase_ns = tick_phase_ns(seed, rules.tick_ns);
        set_period_phases(&mut scenario, seed);
        match self.0.simulator() {
            Some(simulator) if ends_with_programs(&scenario) => {
                let mut finished = simulator.finish_with_programs(&scenario, seed, GRACE_NS)?;
                Ok(finished.outcome())
            }
            Some(simulator) => Ok(simulator.finish_as_given(&scenario, seed)?.outcome()),
            None => self.0.run(&scenario, seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use schedcast_lab::experiment;
    use schedcast_lab::simulator::Simulator;

    use super::*;

    const BESIDE_HOGS: &str = r#"
[machine]
preset = "dev-vm"
cpus = 1
[kernel]
version = "6.18"
hz = 250
[[program]]
name = "hog"
run = "stress-ng --cpu 1 -t 2"
[[program]]
name = "beat"
run = "cyclictest -i 5300 -l 300 -q"
[run]
duration = "1s"
"#;

    #[test]
    fn ticks_fill_their_interval() {
        let phases: Vec<Ns> = (0..4).map(|seed| tick_phase_ns(seed, 4_000_000)).collect();
        assert_eq!(phases, [0, 2_472_136, 944_272, 3_416_408]);
        assert!((0..1000).all(|seed| tick_phase_ns(seed, 4_000_000) < 4_000_000));
    }

    const LATE: &str = r#"
[machine]
preset = "dev-vm"
cpus = 1
[kernel]
version = "6.18"
hz = 250
[cgroup."/pg"]
"cpu.max" = "50000 400000"
[[program]]
run = "stress-ng --cpu 2 -t 1"
cgroup = "/pg"
[run]
duration = "1s"
"#;

    #[test]
    fn a_throttled_program_ends_with_the_throttling() {
        let experiment = experiment::read_text("exp.toml", LATE).unwrap();
        let scenario = &experiment.scenarios[0];
        let simulator = Simulator::new();
        let periods = |outcome: &Outcome| outcome.metrics["cgroup:/pg/nr_periods"];
        // Throttled when its time is over, which it sees in the next period.
        let cut = simulator.run(scenario, 0).unwrap();
        let whole = simulator.finish_with_programs(scenario, 0, GRACE_NS);
        let whole = whole.unwrap().outcome();
        assert_eq!((periods(&cut), periods(&whole)), (3.0, 4.0));
    }

    #[test]
    fn periods_end_anywhere_and_before_6_4_together() {
        let mut experiment = experiment::read_text("exp.toml", LATE).unwrap();
        let scenario = &mut experiment.scenarios[0];
        let mut second = scenario.cgroups["/pg"].clone();
        second.limits.period_us = 100_000;
        scenario.cgroups.insert("/short".to_string(), second);
        let phases = |scenario: &mut Scenario, seed| {
            set_period_phases(scenario, seed);
            ["/pg", "/short"].map(|path| scenario.cgroups[path].period_phase_ns.unwrap())
        };
        // Of 400 ms: 0.414 and 0.732 + 0.414 less 1.
        assert_eq!(phases(scenario, 1), [165_685_600, 58_506_000]);
        scenario.kernel.rules.timer_interleave = false;
        assert_eq!(phases(scenario, 1), [165_685_600, 65_685_600]);
        assert_eq!(phases(scenario, 0), [0, 0]);
    }

    #[test]
    fn each_seed_begins_elsewhere() {
        let mut experiment = experiment::read_text("exp.toml", BESIDE_HOGS).unwrap();
        let scenario = &mut experiment.scenarios[0];
        // Measured in a window, and so ended where it always is.
        scenario.warmup_ns = 1_000_000;
        let scenario = &*scenario;
        let simulator = Simulator::new();
        let (plain, anywhere) = (&simulator, AsReal(&simulator));
        let hash = |outcome: Result<Outcome>| outcome.unwrap().event_hash;
        assert_eq!(
            hash(plain.run(scenario, 0)),
            hash(anywhere.run(scenario, 0))
        );
        assert_ne!(
            hash(plain.run(scenario, 1)),
            hash(anywhere.run(scenario, 1))
        );
    }
}
