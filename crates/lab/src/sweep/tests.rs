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

fn options(folder: Option<&Path>, workers: usize) -> SweepOptions {
    SweepOptions {
        folder: folder.map(Path::to_path_buf),
        workers: Some(workers),
        build: "test".to_string(),
        ..SweepOptions::default()
    }
}

fn sweep(text: &str, toy: &Toy, options: SweepOptions) -> Result<Results> {
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
fn points_that_decide_alike_are_named_below_the_table() {
    let text = "[sweep]\n\"kernel.hz\" = [100, 250]\n\
                \"kernel.features\" = [[], [\"NO_RUN_TO_PARITY\"]]\n[run]\nseeds = 2\n";
    let results = sweep(text, &Toy::default(), options(None, 1)).unwrap();
    let table = results.table(&results.metrics);
    let expected =
        "points \"100 none\" and \"100 NO_RUN_TO_PARITY\" decide alike here, event by event\n";
    assert!(table.contains(expected), "{table}");
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
    let found = error.to_string();
    assert_eq!(found, "100 2 0", "the second point, its first seed");
    let experiment = read(GRID);
    let resumed = Sweep::open(&experiment, options(Some(folder.path()), 2)).unwrap();
    assert_eq!(
        (
            resumed.finished(),
            resumed.points(),
            resumed.damaged().count()
        ),
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
    for (text, points) in [
        (GRID.replace("100, 250", "100, 250, 300"), 6),
        (GRID.replace("[100, 250, 1000]", "[250]"), 2),
        (format!("# a remark\n{GRID}"), 6),
        (GRID.replace("seeds = 3", "seeds = 4"), 0),
        (format!("{GRID}duration = \"1s\"\n"), 0),
        (format!("{GRID}[cgroup.\"/a\"]\n\"cpu.max\" = 5000\n"), 0),
    ] {
        assert_eq!(finished(&text, "test"), points, "{text}");
    }
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

/// Runs part `number` of three.
fn part_of_three(number: usize, toy: &Toy, folder: &Path) {
    let part = Part::parse(&format!("{number}/3")).unwrap();
    let options = SweepOptions {
        part: Some(part),
        ..options(Some(&folder.join(part.folder())), 2)
    };
    sweep(GRID, toy, options).unwrap();
}

#[test]
fn parts_make_the_whole_and_what_is_in_none_of_them_runs() {
    let folder = tempfile::tempdir().unwrap();
    let whole = sweep(GRID, &Toy::default(), options(None, 1)).unwrap();
    let toy = Toy::default();
    for number in [1, 3] {
        part_of_three(number, &toy, folder.path());
    }
    assert_eq!(toy.ran.load(Ordering::Relaxed), 2 * 2 * 3);
    let merging = |toy: &Toy| {
        let options = SweepOptions {
            merged: ["part-1-of-3", "part-3-of-3"]
                .map(|part| folder.path().join(part))
                .to_vec(),
            ..options(Some(folder.path()), 2)
        };
        sweep(GRID, toy, options).unwrap()
    };
    let last = Toy::default();
    let merged = merging(&last);
    assert_eq!(
        last.ran.load(Ordering::Relaxed),
        2 * 3,
        "the second part alone"
    );
    assert_eq!(merged.to_csv(), whole.to_csv());
    assert_eq!(merged.to_json(), whole.to_json());
    let again = Toy::default();
    merging(&again);
    assert_eq!(
        again.ran.load(Ordering::Relaxed),
        0,
        "all of it is in its journal"
    );
}

#[test]
fn a_part_has_its_own_points_alone() {
    let part = Part::parse("2/4").unwrap();
    let options = SweepOptions {
        part: Some(part),
        ..options(None, 1)
    };
    let rows = sweep(GRID, &Toy::default(), options).unwrap().rows;
    let whole = sweep(GRID, &Toy::default(), super::tests::options(None, 1)).unwrap();
    assert_eq!(rows, [whole.rows[1].clone(), whole.rows[5].clone()]);
    for wrong in ["0/4", "5/4", "2", "a/b", "1/0", "-1/2", ""] {
        let said = Part::parse(wrong).unwrap_err();
        assert!(said.contains("expected K/N"), "{said}");
    }
}

#[test]
fn a_folder_without_a_journal_is_named() {
    let options = SweepOptions {
        merged: vec!["nowhere".into()],
        ..options(None, 1)
    };
    let error = sweep(GRID, &Toy::default(), options).unwrap_err();
    assert!(error.to_string().contains("nowhere/journal"), "{error}");
}

#[test]
fn a_part_of_another_sweep_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    sweep(GRID, &Toy::default(), options(Some(folder.path()), 1)).unwrap();
    let refused = |text: &str, build: &str| {
        let options = SweepOptions {
            merged: vec![folder.path().to_owned()],
            build: build.to_owned(),
            ..options(None, 1)
        };
        let toy = Toy::default();
        let refused = sweep(text, &toy, options).err().map(|error| error.render());
        assert_eq!(toy.ran.into_inner(), 0, "nothing runs");
        refused.unwrap_or_default()
    };
    let seeds = GRID.replace("seeds = 3", "seeds = 4");
    assert!(refused(&seeds, "test").contains("--seeds 3"));
    assert!(refused(GRID, "newer").contains("the build of schedcast"));
    assert_eq!(refused(GRID, "test"), "");
}

/// Points of a grid that a journal in `folder` knows before it has all of them.
fn known(text: &str, folder: &Path) -> usize {
    let experiment = read(text);
    let sweep = Sweep::open(&experiment, options(Some(folder), 1)).unwrap();
    let known = sweep.finished();
    sweep.run(&Toy::default(), &|| {}).unwrap();
    known
}

#[test]
fn a_recording_is_what_is_in_it_and_a_tree_what_its_scheduler_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let grid = |line: &str, section: &str| {
        let at = folder.path().display();
        format!(
            "{section}\n{line} = \"{at}/PLACE\"\n[sweep]\n\"kernel.hz\" = [100, 250]\n[run]\nseeds = 2\n"
        )
    };
    let journal = |name: &str| folder.path().join(name);
    for (place, text) in [("a", "same"), ("b", "same"), ("c", "other")] {
        file(&format!("{place}/pg/recording.json"), text);
        file(&format!("{place}/linux/kernel/sched/fair.c"), text);
        let release = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 0\n";
        file(&format!("{place}/linux/Makefile"), release);
    }
    for (text, ending, name) in [
        (grid("replay", "[[program]]"), "pg", "of recordings"),
        (grid("tree", "[kernel]"), "linux", "of trees"),
    ] {
        let found = ["a", "b", "c"].map(|place| {
            let text = text.replace("PLACE", &format!("{place}/{ending}"));
            known(&text, &journal(name))
        });
        assert_eq!(found, [0, 2, 0], "{name}");
    }
}

#[test]
fn an_interval_ends_where_what_runs_can_show_ends() {
    let run = |nr_throttled: f64| {
        let mut metrics = crate::outcome::MetricMap::new();
        metrics.insert("cgroup:/web/nr_periods".to_owned(), 100.0);
        metrics.insert("cgroup:/web/nr_throttled".to_owned(), nr_throttled);
        Outcome {
            metrics,
            ..Outcome::default()
        }
    };
    let row = row(&read(GRID), 0, &[run(6.0), run(43.0)]).unwrap();
    let brief = row.get("cgroup:/web/nr_throttled").unwrap();
    assert_eq!((brief.mean, brief.ci95), (24.5, Some([0.0, 100.0])));
}

#[test]
fn wide_intervals_show_their_upper_end_and_results_come_before_percentiles() {
    let mut results = sweep(GRID, &Toy::default(), options(None, 1)).unwrap();
    let percentiles = (1..=9).map(|row| format!("p{row}0/wakeup_latency.p99"));
    let mut names: Vec<String> = percentiles.collect();
    names.push("z/time".to_owned());
    for row in &mut results.rows {
        let brief = Brief {
            mean: 436.0,
            at_least: false,
            ci95: Some([-161.6, 1033.6]),
        };
        row.metrics = names.iter().map(|name| (name.clone(), brief)).collect();
    }
    let table = results.table(&names);
    let (shown, left_out) = table.split_once("not shown:").unwrap();
    assert!(
        shown.contains("z/") && !left_out.contains("z/time"),
        "{table}"
    );
    assert!(
        shown.contains("\u{2264}1033.6") && !shown.contains('\u{b1}'),
        "{table}"
    );
}
