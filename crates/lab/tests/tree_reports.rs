//! The same report to the byte: the rules in Rust and the C of a tree of their release, on a
//! machine whose operations take time. Skipped, saying so, where there is no tree or no compiler.
//!
//! One metric is no part of it: a tree does not tell of writes of a group's load.
use schedcast_lab::experiment::{self, Scenario};
use schedcast_lab::simulate::Simulate;
use schedcast_lab::simulator::Simulator;
use schedcast_tree::{BuildError, Builder, config::Config, trees};
use std::path::{Path, PathBuf};

const RELEASES: [&str; 2] = ["6.12.107", "6.18.15"];
/// A replay of 5 s charges up to 2 µs of 1.8 s more or less under a tree, for a reason not found.
const NEAR: f64 = 1.2e-6;
/// Where Debian's package puts rt-app's examples.
const RT_APP: &str = "/usr/share/doc/rt-app/examples";

/// The trees of [`RELEASES`] that are at hand and can be built.
fn releases() -> Vec<(&'static str, PathBuf)> {
    let buildable = |version: &str| {
        let Some(tree) = trees::find(version) else {
            let folder = trees::folder();
            eprintln!("skipped: no tree of {version} in {}", folder.display());
            return None;
        };
        match Builder::new(&tree, Config::default()) {
            Err(error @ (BuildError::Machine(_) | BuildError::NoProgram(..))) => {
                eprintln!("skipped: {error}");
                None
            }
            built => built.map(|_| tree).ok(),
        }
    };
    let found = RELEASES.map(|version| Some((version, buildable(version)?)));
    found.into_iter().flatten().collect()
}

fn scenario(text: &str) -> Scenario {
    let read = experiment::read_text("a.toml", text);
    let experiment = read.unwrap_or_else(|error| panic!("{error}"));
    experiment.scenarios[0].clone()
}

/// Runs a program under both, once as given and once with what differs between two real runs drawn.
fn is_equal(program: &str, cpus: usize, rest: &str, near: &[&str]) {
    for (version, tree) in releases() {
        let text = |kernel: String| {
            format!(
                "[machine]\npreset = \"generic-8\"\ncpus = {cpus}\n[kernel]\n{kernel}\n\
                 [[program]]\n{program}\n{rest}"
            )
        };
        let rules = scenario(&text(format!("version = \"{version}\"")));
        let tree = scenario(&text(format!("tree = {:?}", tree.display().to_string())));
        for simulator in [Simulator::new(), Simulator::new().drawing()] {
            let report = |scenario: &Scenario| {
                let mut metrics = simulator.run(scenario, 1).unwrap().metrics;
                let writes = metrics.extract_if(.., |name, _| name.ends_with("/load_avg_writes"));
                let told = writes.count();
                assert!(scenario.kernel.tree.is_none() || told == 0);
                let is_near = |name: &str| near.iter().any(|end| name.ends_with(end));
                let nearly: Vec<_> = metrics.extract_if(.., |name, _| is_near(name)).collect();
                let values = metrics.iter();
                let text: String = values
                    .map(|(name, value)| format!("{name} {value:?}\n"))
                    .collect();
                (text, nearly)
            };
            let (expected, nearly) = report(&rules);
            let (found, nearly_of_tree) = report(&tree);
            let differs = expected.lines().zip(found.lines()).filter(|(a, b)| a != b);
            let differs: Vec<_> = differs.collect();
            let drawn = simulator.draws();
            assert!(
                expected == found,
                "{version}, {program}, drawn: {drawn}: {differs:?}"
            );
            assert_eq!(nearly.len(), nearly_of_tree.len());
            for ((name, value), (_, of_tree)) in nearly.iter().zip(&nearly_of_tree) {
                assert!(
                    (value - of_tree).abs() <= value * NEAR,
                    "{version}, {program}, drawn: {drawn}: {name} {value} and {of_tree}"
                );
            }
        }
    }
}

fn run_is_equal(command: &str, duration: &str) {
    let program = format!("run = {command:?}");
    is_equal(
        &program,
        8,
        &format!("[run]\nduration = {duration:?}\n"),
        &[],
    );
}

#[test]
fn hackbench() {
    run_is_equal("hackbench -g 2 -l 100", "2s");
}

#[test]
fn schbench() {
    run_is_equal("schbench -m 2 -t 4 -r 1", "2s");
}

#[test]
fn examples_of_rt_app() {
    let mut files = Vec::new();
    for folder in [
        Path::new(RT_APP).to_path_buf(),
        Path::new(RT_APP).join("tutorial"),
    ] {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            eprintln!("skipped: no {} (Debian package `rt-app`)", folder.display());
            return;
        };
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    files.retain(|path| path.extension().is_some_and(|word| word == "json"));
    files.sort();
    assert!(files.len() > 10, "{files:?}");
    for file in files {
        run_is_equal(&format!("rt-app {}", file.display()), "1s");
    }
}

/// A file of rt-app with these tasks, on some CPUs.
fn tasks_are_equal(cpus: usize, tasks: &str, duration: &str) {
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    let text = format!("{{\"tasks\": {{{tasks}}}, \"global\": {{\"duration\": 2}}}}");
    std::fs::write(&file, text).unwrap();
    let program = format!("run = \"rt-app {}\"", file.path().display());
    let rest = format!("[run]\nduration = {duration:?}\n");
    is_equal(&program, cpus, &rest, &[]);
}

/// Balance that ends later than another CPU's call begins reaches a queue's load before it.
#[test]
fn a_groups_load_is_written_once_a_millisecond_whatever_the_order_of_calls() {
    let tasks = r#""a": {"instance": 17, "loop": -1, "run": 1000},
        "b": {"instance": 4, "loop": -1, "taskgroup": "/a", "run": 100}"#;
    tasks_are_equal(6, tasks, "60ms");
}

#[test]
fn a_group_that_long_requests_join() {
    let tasks = r#""z": {"loop": -1, "taskgroup": "/a", "run": 3000, "sleep": 20000},
        "s": {"delay": 5000, "loop": -1, "dl-runtime": 20000, "taskgroup": "/a", "run": 1000},
        "h": {"loop": -1, "run": 1000}"#;
    tasks_are_equal(1, tasks, "1s");
}

#[test]
fn fair_tasks_beside_hogs_of_the_real_time_class() {
    let tasks = r#""f": {"instance": 3, "loop": -1, "policy": "SCHED_FIFO", "run": 100},
        "c": {"instance": 4, "loop": -1, "run": 5000}"#;
    tasks_are_equal(3, tasks, "1100ms");
}

/// A CPU that a real-time task leaves looks at those where others wait.
#[test]
fn real_time_tasks_that_sleep() {
    let tasks = r#""a": {"instance": 5, "loop": -1, "timer0": {"ref": "unique", "period": 16000},
            "run1": 9000, "yield2": "", "lock3": "m", "run4": 2000, "unlock5": "m", "run6": 100},
        "b": {"instance": 3, "loop": -1, "taskgroup": "/a", "yield0": "", "run1": 100},
        "c": {"instance": 2, "loop": -1, "policy": "SCHED_RR", "priority": 33, "cpus": [0, 2, 3],
            "sleep0": 1000, "sleep1": 1000, "run2": 700, "run3": 1000}"#;
    tasks_are_equal(4, tasks, "100ms");
}

#[test]
fn a_replay_of_postgresql_under_its_limit() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../recordings/postgres-quota"
    );
    let limit = "[cgroup.\"/pg\"]\n\"cpu.max\" = \"50000 100000\"\n[run]\nduration = \"5s\"\n";
    is_equal(
        &format!("replay = {folder:?}"),
        2,
        limit,
        &["/usage_usec", "/charged_time"],
    );
}
