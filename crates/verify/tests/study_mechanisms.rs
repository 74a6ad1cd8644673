//! The mechanisms of the published studies, as their pages work them out by hand, in runs of a few
//! seconds of virtual time.

use std::path::Path;

use schedcast_base::assert_in;
use schedcast_lab::experiment::{self, Scenario, Surroundings};
use schedcast_lab::simulate::Simulate;
use schedcast_lab::simulator::Simulator;

/// The scenarios of `studies/NAME`.
fn scenarios(name: &str) -> Vec<Scenario> {
    let path = format!("../../studies/{name}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    experiment::load(&path, Surroundings::default())
        .unwrap()
        .scenarios
}

/// The same with another command line for every program.
fn with_command(scenario: &Scenario, command: &str) -> Scenario {
    let mut scenario = scenario.clone();
    for program in &mut scenario.programs {
        let words = command.split(' ').map(str::to_string).collect();
        program.action.value = experiment::program::Action::Run(words);
    }
    scenario
}

fn metric(scenario: &Scenario, seed: u64, name: &str) -> f64 {
    let outcome = Simulator::new().run(scenario, seed).unwrap();
    outcome.metrics[name]
}

#[test]
fn burst_requests_are_late_as_worked_out_by_hand() {
    let all = scenarios("burst/burst.toml");
    let command = "schbench-classic -m 1 -t 3 -r 2 -c 80000 -R 10";
    let [base, burst] = [&all[0], &all[1]].map(|scenario| with_command(scenario, command));
    // Requests come 200 ms after the start, drifting by less than 0.6 ms in two seconds. Unused
    // parts of slices move the pool by up to two slices in five milliseconds.
    for (start_ms, late_ms) in [(5, 15.0), (30, 0.0), (60, 0.0), (95, 25.0)] {
        let at = |scenario: &Scenario, name: &str| {
            let mut scenario = scenario.clone();
            scenario.programs[0].start_ns = start_ms * 1_000_000;
            metric(&scenario, 0, name)
        };
        let largest_ms = at(&base, "schbench-classic/request_latency.max") / 1000.0;
        assert!(
            (largest_ms - late_ms).abs() < 6.0 && (late_ms > 0.0 || largest_ms < 0.1),
            "{start_ms} ms: {largest_ms} for {late_ms}"
        );
        let throttled = at(&base, "cgroup:/test/nr_throttled");
        assert_eq!(
            throttled > 0.0,
            start_ms != 60,
            "{start_ms} ms: {throttled}"
        );
        assert_eq!(at(&burst, "cgroup:/test/nr_throttled"), 0.0);
        assert!(at(&burst, "schbench-classic/request_latency.max") < 100.0);
    }
}

#[test]
fn aligned_groups_crowd_the_threads_of_each_core() {
    let all = scenarios("timer-interleave/timer-interleave.toml");
    // A tenth of the study's work, 27.6 s / 10 for one group.
    let small = |index: usize| with_command(&all[index], "stress-ng --cpu=32 --cpu-ops=5000");
    let (one, two, patched) = (small(0), small(2), small(3));
    let alone_s = metric(&one, 0, "a/time");
    let aligned_s = metric(&two, 0, "a/time");
    let ratio = aligned_s / alone_s;
    assert_in!(ratio, 1.38..1.53, "{aligned_s} s over {alone_s} s");
    let draws: Vec<f64> = (0..6)
        .map(|seed| metric(&patched, seed, "a/time"))
        .collect();
    for draw_s in &draws {
        assert!(
            (0.97 * alone_s..1.06 * aligned_s).contains(draw_s),
            "{draws:?}"
        );
    }
    let mean_s = draws.iter().sum::<f64>() / 6.0;
    assert!(mean_s < 0.95 * aligned_s, "{mean_s} s of {aligned_s} s");
    assert_eq!(draws[3], metric(&patched, 3, "a/time"), "the same seed");
}
