use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::experiment::Scenario;
use crate::experiment::tests::read_text;

/// Counts runs and answers from HZ, CPUs and seed; refuses the given number of CPUs.
#[derive(Default)]
struct Toy {
    ran: AtomicUsize,
    refused_cpus: Option<usize>,
}

impl Simulate for Toy {
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        self.ran.fetch_add(1, Ordering::Relaxed);
        let (hz, cpus) = (scenario.kernel.hz, scenario.machine.cpus());
        if self.refused_cpus == Some(cpus) {
            return Err(Error::usage(format!("{hz} {cpus} {seed}")));
        }
        let wakeups = f64::from(hz) + cpus as f64 / 10.0 + seed as f64;
        let mut metrics = crate::outcome::MetricMap::new();
        metrics.insert("machine/wakeups".to_string(), wakeups);
        if cpus > 1 {
            metrics.insert(
                "schbench/request_latency.p99".to_string(),
                20_000.0 / wakeups,
            );
        }
        Ok(Outcome {
            event_hash: u64::from(hz) * 1000 + seed,
            metrics,
            ..Outcome::default()
        })
    }
}

const GRID: &str = "title = \"Ticks, \\\"exactly\\\"\"\n[sweep]\n\"kernel.hz\" = [100, 250, 1000]\n\
                    \"machine.cpus\" = [1, 2]\n[run]\nseeds = 3\n";

fn read(text: &str) -> Experiment {
    read_text(text).unwrap()
}

fn options(folder: Option<&Path>, workers: usize) -> Options {
    Options {
        folder: folder.map(Path::to_path_buf),
        workers: Some(workers),
        build: "test".to_string(),
    }
}

fn sweep(text: &str, toy: &Toy, options: Options) -> Result<Results> {
    Sweep::open(&read(text), options)?.run(toy, &|| {})
}

#[test]
fn results_do_not_depend_on_the_number_of_workers() {
    let one = sweep(GRID, &Toy::default(), options(None, 1)).unwrap();
    insta::assert_snapshot!("csv", one.to_csv());
    insta::assert_snapshot!("json", one.to_json());
    insta::assert_snapshot!("table", one.table(&one.metrics));
    for workers in [2, 3, 8] {
        let many = sweep(GRID, &Toy::default(), options(None, workers)).unwrap();
        assert_eq!(many.to_csv(), one.to_csv());
        assert_eq!(many.to_json(), one.to_json());
    }
    let json: serde_json::Value = serde_json::from_str(&one.to_json()).unwrap();
    assert_eq!(json["points"][3]["values"]["machine.cpus"], 2);
}

#[test]
fn a_stopped_sweep_continues_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let whole = sweep(GRID, &Toy::default(), options(None, 1)).unwrap();
    let first = Toy {
        refused_cpus: Some(2),
        ..Toy::default()
    };
    let error = sweep(GRID, &first, options(Some(folder.path()), 1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "100 2 0",
        "the second point, its first seed"
    );
    let experiment = read(GRID);
    let resumed = Sweep::open(&experiment, options(Some(folder.path()), 2)).unwrap();
    assert_eq!(
        (resumed.finished(), resumed.points(), resumed.damaged()),
        (1, 6, 0)
    );
    let second = Toy::default();
    let results = resumed.run(&second, &|| {}).unwrap();
    assert_eq!(results.to_json(), whole.to_json());
    assert_eq!(second.ran.into_inner(), 15, "five points of three seeds");
    let third = Toy::default();
    let again = sweep(GRID, &third, options(Some(folder.path()), 2)).unwrap();
    assert_eq!(
        (again.to_csv(), third.ran.into_inner()),
        (whole.to_csv(), 0)
    );
}

#[test]
fn a_grown_grid_runs_its_new_points_and_another_build_all() {
    let folder = tempfile::tempdir().unwrap();
    sweep(GRID, &Toy::default(), options(Some(folder.path()), 1)).unwrap();
    let finished = |text: &str, build: &str| {
        let mut options = options(Some(folder.path()), 1);
        options.build = build.to_string();
        let experiment = read(text);
        Sweep::open(&experiment, options).unwrap().finished()
    };
    assert_eq!(
        finished(&GRID.replace("100, 250", "100, 250, 300"), "test"),
        6
    );
    assert_eq!(
        finished(&GRID.replace("[100, 250, 1000]", "[250]"), "test"),
        2
    );
    assert_eq!(finished(&format!("# a remark\n{GRID}"), "test"), 6);
    assert_eq!(finished(&GRID.replace("seeds = 3", "seeds = 4"), "test"), 0);
    assert_eq!(finished(&format!("{GRID}duration = \"1s\"\n"), "test"), 0);
    assert_eq!(
        finished(
            &format!("{GRID}[cgroup.\"/a\"]\n\"cpu.max\" = 5000\n"),
            "test"
        ),
        0
    );
    assert_eq!(finished(GRID, "another"), 0);
}

#[test]
fn a_point_is_all_that_decides_its_results() {
    let fingerprint = |text: &str| {
        let experiment = read(text);
        let fingerprint = Fingerprints::new("test", 1).of(&experiment.scenarios[0]);
        fingerprint.unwrap()
    };
    let program = "[[program]]\nrun = \"hackbench -g 1\"\n";
    let texts = [
        program.to_string(),
        format!("{program}start = \"1s\"\n"),
        format!("{program}[program.price]\nfile_write_call_ns = 1234\n"),
        format!("{program}[run]\nduration = \"10s\"\n"),
        format!("{program}[run]\nduration = \"10s\"\nwarmup = \"1s\"\n"),
    ];
    let all: BTreeSet<u64> = texts.iter().map(|text| fingerprint(text)).collect();
    assert_eq!(all.len(), texts.len());
}

#[test]
fn a_changed_recording_is_another_point() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("pg");
    std::fs::create_dir(&recording).unwrap();
    std::fs::write(recording.join("trace.txt"), "one").unwrap();
    let text = format!("[[program]]\nreplay = \"{}\"\n", recording.display());
    let fingerprint = || {
        let experiment = read(&text);
        Fingerprints::new("test", 1).of(&experiment.scenarios[0])
    };
    let before = fingerprint().unwrap();
    assert_eq!(fingerprint().unwrap(), before);
    std::fs::write(recording.join("trace.txt"), "two").unwrap();
    assert_ne!(fingerprint().unwrap(), before);
    std::fs::remove_dir_all(&recording).unwrap();
    assert!(fingerprint().is_err());
}

#[test]
fn the_first_failure_by_point_and_seed_is_reported_whatever_the_workers() {
    for workers in [1, 2, 5] {
        let toy = Toy {
            refused_cpus: Some(1),
            ..Toy::default()
        };
        let error = sweep(GRID, &toy, options(None, workers)).unwrap_err();
        assert_eq!(error.to_string(), "100 1 0");
    }
}
