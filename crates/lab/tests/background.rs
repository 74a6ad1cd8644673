//! Programs on a machine that is not empty: `machine.background`.

use std::path::{Path, PathBuf};

use schedcast_base::assert_contains;
use schedcast_lab::comparison::Comparison;
use schedcast_lab::error::Error;
use schedcast_lab::experiment::Experiment;
use schedcast_lab::question::{Columns, Question, Subject};
use schedcast_lab::simulate::Simulate;
use schedcast_lab::simulator::Simulator;
use schedcast_sim::events::{TraceEvent, TraceKind};

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings")
}

/// An experiment written in `recordings/`, with these columns.
fn question(text: &str, columns: &[(&str, &str)]) -> Question {
    Question {
        columns: Columns::set(columns),
        seeds: Some(3),
        ..Question::of(Subject::text("exp.toml", text, recordings()))
    }
}

fn ask(question: &Question) -> Comparison {
    let answered = question.answer(&Simulator::new());
    answered.unwrap().comparison
}

const HOGS: &str = "
[machine]
preset = 'dev-vm'
background = 'dev-vm-idle'
[cgroup.'/t']
[[program]]
run = 'stress-ng --cpu 2 --cpu-ops 3000'
cgroup = '/t'
[[variant]]
name = 'idle'
[[variant]]
name = 'empty'
machine.background = 'none'
";

#[test]
fn a_machine_with_background_takes_the_cpu_away_more_often() {
    let comparison = ask(&question(HOGS, &[]));
    let names = |column: &str| -> Vec<&str> {
        let variant = comparison.variants.iter().find(|one| one.name == column);
        let metrics = variant.unwrap().metrics.iter();
        metrics.map(|(name, _)| name.as_str()).collect()
    };
    let value = |column: &str, metric: &str| {
        let variant = comparison.variants.iter().find(|one| one.name == column);
        variant.unwrap().get(metric).unwrap().mean
    };
    let switches = |column: &str| value(column, "stress-ng/switches");
    assert!(
        switches("idle") > 3.0 * switches("empty"),
        "{}",
        switches("idle")
    );
    // It runs until the hogs end, not until the background does, and they take the time that is
    // left.
    let time = value("idle", "stress-ng/time") / value("empty", "stress-ng/time");
    assert!((1.0..1.05).contains(&time), "{time}");
    let charged = |column: &str| value(column, "stress-ng/charged_time");
    assert!((charged("idle") / charged("empty") - 1.0).abs() < 0.01);
    // The background's activity is counted apart, and its groups belong to no program.
    assert!(value("idle", "background/wakeups") > 50.0);
    let foreign = |name: &&&str| name.contains("kworker") || name.starts_with("cgroup:background");
    assert_eq!(names("idle").iter().find(foreign), None);
    let extra: Vec<&str> = names("idle")
        .into_iter()
        .filter(|name| !names("empty").contains(name))
        .filter(|name| !name.starts_with("background/") && !name.starts_with("machine/"))
        .collect();
    assert_eq!(extra, Vec::<&str>::new());
}

#[test]
fn seeds_enter_the_recording_at_places_of_their_own() {
    let experiment = question(HOGS, &[]).experiment().unwrap();
    let simulator = Simulator::new();
    let run = |seed| {
        simulator
            .run(&experiment.scenarios[0], seed)
            .unwrap()
            .event_hash
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

fn refused(text: &str) -> Error {
    let question = question(text, &[]);
    let answered = question.answer(&Simulator::new());
    answered.err().unwrap()
}

#[test]
fn what_is_no_background_is_refused_at_its_place() {
    let hog = "[[program]]\nrun = 'stress-ng --cpu 1 -t 1'\n";
    let error = refused(&format!("{hog}[machine]\nbackground = 'gone'\n"));
    assert_eq!(error.exit_code(), 3);
    let text = error.to_string();
    assert!(text.starts_with("exp.toml:4:14: no background: "), "{text}");
    assert_contains(&text, ["gone", "schedcast record -o DIR"]);
    let text = refused(&format!("{hog}[machine]\nbackground = 'README.md'\n")).to_string();
    assert!(text.starts_with("exp.toml:4:14: no background: "), "{text}");
    let replay = "[[program]]\nreplay = 'postgres-quota'\n[machine]\nbackground = 'dev-vm-idle'\n";
    let text = refused(replay).to_string();
    assert!(text.contains("`postgres-quota` is a recording"), "{text}");
    let named = "[[program]]\nname = 'background'\nrun = 'stress-ng --cpu 1 -t 1'\n[machine]\nbackground = 'dev-vm-idle'\n";
    let text = refused(named).to_string();
    assert!(text.contains("another `name`"), "{text}");
}

fn read(text: &str) -> Experiment {
    let subject = Subject::text("exp.toml", text, recordings());
    Question::of(subject).experiment().unwrap()
}

#[test]
fn machines_of_other_sizes_are_told_what_is_missing() {
    let notes = |cpus: u32| {
        let text = format!("[machine]\ncpus = {cpus}\nbackground = 'dev-vm-idle'\n");
        Simulator::new()
            .background_notes(&read(&text).scenarios)
            .unwrap()
    };
    let about_cpus = |cpus: u32| -> Vec<String> {
        let notes = notes(cpus).into_iter();
        notes.filter(|note| note.contains("CPUs")).collect()
    };
    assert_eq!(about_cpus(2), Vec::<String>::new());
    let one = about_cpus(1);
    assert_contains(&one[0], ["kworker/1:0", "left out"]);
    let eight = about_cpus(8);
    assert!(
        eight[0].ends_with("recorded on 2 CPUs, so the other 6 have no threads of their own"),
        "{eight:?}"
    );
}

/// The names of all tasks that are said to begin.
#[derive(Default)]
struct Begun(Vec<String>);

impl schedcast_sim::Watch for Begun {
    fn events(&mut self, world: &mut schedcast_sim::World, events: &[TraceEvent]) {
        for event in events {
            if let TraceKind::Start { task } = event.event {
                self.0.push(world.task_name(task).to_string());
            }
        }
    }
}

#[test]
fn who_watches_is_told_of_threads_that_were_there_before() {
    let experiment = question(HOGS, &[]).experiment().unwrap();
    let mut begun = Begun::default();
    let simulator = Simulator::new();
    let scenario = &experiment.scenarios[0];
    simulator.watch(scenario, 0, 1_000_000, &mut begun).unwrap();
    let count = |name: &str| begun.0.iter().filter(|one| *one == name).count();
    assert_eq!((count("kcompactd0"), count("agent")), (1, 5));
    assert_eq!(count("schedcast"), 0);
}
