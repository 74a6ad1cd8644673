//! What a scenario does on the simulator, seen from its metrics.

use super::*;
use crate::error::Source;
use crate::experiment::{self, Surroundings, document};

fn scenario(text: &str) -> Scenario {
    let text = format!("[machine]\npreset = \"generic-8\"\n{text}");
    let document = document::parse(&Source::new("a.toml", text)).unwrap();
    let experiment = experiment::read(&document, &Surroundings::default()).unwrap();
    experiment.scenarios[0].clone()
}

fn metrics(text: &str) -> MetricMap {
    let outcome = Simulator::new().run(&scenario(text), 0).unwrap();
    outcome.metrics
}

#[test]
fn ratios_of_the_machine_are_cut_where_the_programs_end() {
    // Eight threads on eight CPUs: whatever comes after them is idle.
    for run in [
        "sysbench cpu --threads=8 --time=1 run",
        "stress-ng --cpu 8 -t 1001ms",
    ] {
        let busy = metrics(&format!("[[program]]\nrun = \"{run}\"\n"))["machine/busy_ratio"];
        assert!(busy > 0.998, "{run}: {busy}");
    }
}

#[test]
fn a_run_that_ends_with_its_programs_stays_at_their_end() {
    let scenario = scenario("[[program]]\nrun = \"stress-ng --cpu 1 -t 130ms\"\n");
    let mut finished = Simulator::new().finish(&scenario, 0).unwrap();
    let ended = finished.world.now();
    assert!((130_000_000..135_000_000).contains(&ended), "{ended}");
    assert!(finished.world.is_over());
    let hash = finished.world.event_hash();
    finished.world.run_until(900_000_000).unwrap();
    assert_eq!(
        (finished.world.now(), finished.world.event_hash()),
        (ended, hash)
    );
}
