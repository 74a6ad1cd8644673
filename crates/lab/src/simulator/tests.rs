//! Scenarios on the simulator, seen from their metrics.

use super::*;
use crate::experiment;
use schedcast_base::{assert_contains, assert_in};

fn scenario(text: &str) -> Scenario {
    let text = format!("[machine]\npreset = \"generic-8\"\n{text}");
    let experiment = experiment::read_text("a.toml", text).unwrap();
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
        "stress-ng --cpu 8 -t 1",
    ] {
        let busy = metrics(&format!("[[program]]\nrun = \"{run}\"\n"))["machine/busy_ratio"];
        assert!(busy > 0.99, "{run}: {busy}");
    }
}

#[test]
fn a_run_that_ends_with_its_programs_stays_at_their_end() {
    let scenario = scenario("[[program]]\nrun = \"stress-ng --cpu 1 -t 1\"\n");
    let mut finished = Simulator::new().finish(&scenario, 0).unwrap();
    let ended = finished.world.now();
    assert!((1_000_000_000..1_050_000_000).contains(&ended), "{ended}");
    assert!(finished.world.is_over());
    let hash = finished.world.event_hash();
    finished.world.run_until(3_000_000_000).unwrap();
    assert_eq!(
        (finished.world.now(), finished.world.event_hash()),
        (ended, hash)
    );
}

#[test]
fn a_run_waits_for_programs_that_start_after_others_have_ended() {
    let scenario = scenario(
        "[[program]]\nrun = \"perf bench sched pipe -l 10\"\n\
         [[program]]\nname = \"late\"\nrun = \"stress-ng --cpu 1 -t 1\"\nstart = \"500ms\"\n",
    );
    let finished = Simulator::new().finish(&scenario, 0).unwrap();
    assert_in!(finished.world.now(), 1_500_000_000..1_550_000_000);
}

/// `cpuset.cpus = 0-1` of `/a`, in which a program runs on eight CPUs.
fn in_cpuset(run: &str) -> Scenario {
    scenario(&format!(
        "[cgroup.\"/a\"]\n\"cpuset.cpus\" = \"0-1\"\n\
         [[program]]\nrun = \"{run}\"\ncgroup = \"/a\"\n"
    ))
}

#[test]
fn cpus_that_a_program_asks_for_are_those_of_its_cpuset() {
    let folder = tempfile::tempdir().unwrap();
    let file = |cpus: &str| {
        let path = folder.path().join(format!("{}.json", cpus.len()));
        let text =
            format!(r#"{{"tasks": {{"a": {{"loop": 5, "instance": 3, "run": 20000 {cpus}}}}}}}"#);
        std::fs::write(&path, text).unwrap();
        format!("rt-app {}", path.display())
    };
    for (run, programs) in [
        ("stress-ng --cpu 4 -t 1 --taskset 1-5".to_owned(), 1),
        ("taskset -c 1-5 stress-ng --cpu 4 -t 1".to_owned(), 1),
        (file(r#", "cpus": [1, 6]"#), 1),
        (file(""), 2),
    ] {
        let outcome = Simulator::new().run(&in_cpuset(&run), 0).unwrap();
        let busy = outcome.metrics["machine/busy_ratio"] * 8.0;
        let most = f64::from(programs) + 0.1;
        assert!((0.8..most).contains(&busy), "{run}: {busy} CPUs");
    }
    for run in [
        "stress-ng --cpu 4 -t 1 --taskset 5".to_owned(),
        "taskset -c 5 stress-ng --cpu 4 -t 1".to_owned(),
        file(r#", "cpus": [6]"#),
    ] {
        let error = Simulator::new().run(&in_cpuset(&run), 0).unwrap_err();
        let text = error.to_string();
        assert_contains(&text, ["EINVAL", "the cpuset of `/a` has 0-1"]);
        assert!(text.contains("a.toml:"), "{text}");
    }
}
