//! Ticks that strike at any time after programs start.
//!
//! A simulation begins with a tick, a real run anywhere between two. Where threads wake by timers beside others that compute,
//! this decides for the whole run who is preempted when: rt-app's `runtime` events of 1.5, 6 and 4 ms beside two hogs used 1.22 s
//! of CPU time in every run that began with a tick, and 1.03 to 1.19 s in three real ones. So each seed has its ticks elsewhere.
//! Worked example at 250 Hz: seeds 0, 1, 2 and 3 have their first ticks 0, 2.47, 0.94 and 3.42 ms after the start.

use schedcast_kernel::Ns;

use crate::error::Result;
use crate::experiment::Scenario;
use crate::outcome::Outcome;
use crate::simulate::Simulate;

/// The fractional part of the golden ratio, in millionths: multiples of it fill an interval evenly.
const GOLDEN: u64 = 618_034;

/// When the ticks of `seed` strike, ns after a multiple of their distance `tick_ns`.
pub fn tick_phase_ns(seed: u64, tick_ns: Ns) -> Ns {
    tick_ns * (seed % 1_000_000 * GOLDEN % 1_000_000) / 1_000_000
}

/// A simulator whose ticks strike elsewhere for each seed.
pub struct AnyPhase<'a, S>(pub &'a S);

impl<S: Simulate> Simulate for AnyPhase<'_, S> {
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        let mut scenario = scenario.clone();
        let rules = &mut scenario.kernel.rules;
        rules.tick_phase_ns = tick_phase_ns(seed, rules.tick_ns);
        self.0.run(&scenario, seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::read_text;
    use crate::simulator::Simulator;

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

    #[test]
    fn each_seed_begins_elsewhere() {
        let experiment = read_text(BESIDE_HOGS).unwrap();
        let scenario = &experiment.scenarios[0];
        let simulator = Simulator::new();
        let (plain, anywhere) = (&simulator, AnyPhase(&simulator));
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
