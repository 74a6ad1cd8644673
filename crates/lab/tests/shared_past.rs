//! Variants that part while they run: the same results whether they share what came before or not.

use schedcast_lab::outcome::Outcome;
use schedcast_lab::question::{Question, Subject};
use schedcast_lab::simulate::{Simulate, run_all};
use schedcast_lab::simulator::Simulator;

const PARTING: &str = r#"
[machine]
preset = "hwp-desktop-8"
[cgroup."/a"]
"cpu.max" = "60000 100000"
[[program]]
run = "schbench -m 1 -t 4 -r 2"
cgroup = "/a"
[[program]]
run = "stress-ng --cpu 2 --cpu-load 60"
[[variant]]
name = "never"
[[variant]]
name = "more at 0.6 s"
[[variant.at]]
time = "0.6s"
cgroup."/a"."cpu.max" = "90000 100000"
[[variant]]
name = "the same, and less at 0.9 s"
[[variant.at]]
time = "0.6s"
cgroup."/a"."cpu.max" = "90000 100000"
[[variant.at]]
time = "0.9s"
cgroup."/a"."cpu.max" = "40000 100000"
[[variant]]
name = "smaller slices of the quota at 0.2 s"
[[variant.at]]
time = "0.2s"
kernel.sched_cfs_bandwidth_slice_us = 1000
[[variant]]
name = "never, once more"
[run]
seeds = 2
duration = "1.2s"
warmup = "0.3s"
"#;

fn question(text: &str) -> Question {
    Question::of(Subject::text("parting.toml", text, ""))
}

/// Outcomes by variant and seed, together and each alone.
fn both(text: &str) -> [Vec<Vec<Outcome>>; 2] {
    let experiment = question(text).experiment().unwrap();
    let simulator = Simulator::new();
    let together = run_all(&simulator, &experiment.scenarios, 2, &|| {}).unwrap();
    let alone = |scenario| {
        (0..2)
            .map(|seed| simulator.run(scenario, seed).unwrap())
            .collect()
    };
    [together, experiment.scenarios.iter().map(alone).collect()]
}

#[test]
fn a_shared_past_changes_nothing() {
    let [together, alone] = both(PARTING);
    assert_eq!(together, alone);
    let hashes =
        |seed: usize| -> Vec<u64> { alone.iter().map(|row| row[seed].event_hash).collect() };
    for seed in 0..2 {
        let hashes = hashes(seed);
        assert_eq!(hashes[0], hashes[4], "variants without a difference");
        for later in 1..4 {
            let earlier = &hashes[..later];
            assert!(
                !earlier.contains(&hashes[later]),
                "variant {later} changes something"
            );
        }
    }
}

#[test]
fn programs_that_end_by_themselves_share_nothing() {
    let text = PARTING
        .replace("duration = \"1.2s\"\n", "")
        .replace("--cpu-load 60", "-t 2");
    let [together, alone] = both(&text);
    assert_eq!(together, alone);
}
