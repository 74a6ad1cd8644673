//! Replays that differ from their recording, and cgroups of several levels.

use std::path::Path;

use schedcast_lab::comparison::Comparison;
use schedcast_lab::question::{AS_RECORDED, Columns, Question, Subject};
use schedcast_lab::recording::Recorded;
use schedcast_lab::simulator::Simulator;

fn ask(subject: Subject, columns: &[(&str, &str)], seeds: u32) -> Comparison {
    let question = Question {
        columns: Columns::set(columns),
        seeds: Some(seeds),
        ..Question::of(subject)
    };
    let answered = question.answer(&Simulator::new());
    answered.unwrap().comparison
}

fn value(comparison: &Comparison, column: &str, metric: &str) -> f64 {
    let variant = comparison.variants.iter().find(|one| one.name == column);
    variant.unwrap().get(metric).unwrap().mean
}

#[test]
fn rate_threads_window_and_foreground_change_a_replay() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/postgres-quota");
    let columns = [
        ("half", "program.recording.rate=0.5"),
        ("one", "program.recording.threads=1"),
        ("sixteen", "program.recording.threads=16"),
        ("part", "program.recording.window=[\"5s\", \"20s\"]"),
        ("front", "program.recording.foreground=/pg"),
    ];
    let subject = Subject::Recording(Recorded::open(&folder).unwrap());
    let comparison = ask(subject, &columns, 2);
    let of = |column: &str, metric: &str| value(&comparison, column, metric);
    let throttled = |column: &str| of(column, "cgroup:/pg/nr_throttled");
    let p95 = |column: &str| of(column, "postgres/request_latency.p95");
    let count = |column: &str| of(column, "postgres/request_latency.count");
    assert!(
        throttled("half") < 0.2 * throttled(AS_RECORDED),
        "{}",
        throttled("half")
    );
    assert!((580.0..600.0).contains(&count("half")), "{}", count("half"));
    // One thread takes the same requests one by one; with sixteen none waits for a thread.
    assert_eq!(count("one"), count(AS_RECORDED));
    let own = |column: &str| of(column, "postgres/activation_latency.p95");
    assert!(
        p95("one") > 1.5 * own("one"),
        "{} {}",
        p95("one"),
        own("one")
    );
    assert!(
        p95("sixteen") < 1.05 * own("sixteen"),
        "{} {}",
        p95("sixteen"),
        own("sixteen")
    );
    assert_eq!(of("part", "cgroup:/pg/nr_periods"), 150.0);
    // The threads behind use next to nothing here.
    assert!((throttled("front") / throttled(AS_RECORDED) - 1.0).abs() < 0.1);
}

#[test]
fn each_level_of_cgroups_has_its_own_weights() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("levels.toml");
    let mut text = "[machine]\ncpus = 1\n[run]\nduration = \"4s\"\n".to_string();
    for (group, weight) in [("/a", 300), ("/a/x", 100), ("/a/y", 300), ("/b", 100)] {
        text += &format!("[cgroup.\"{group}\"]\n\"cpu.weight\" = {weight}\n");
    }
    for (name, group) in [("x", "/a/x"), ("y", "/a/y"), ("b", "/b")] {
        text += &format!(
            "[[program]]\nname = \"{name}\"\nrun = \"stress-ng --cpu 1\"\ncgroup = \"{group}\"\n"
        );
    }
    std::fs::write(&path, text).unwrap();
    let columns = [("lighter", "cgroup.\"/a\".\"cpu.weight\"=100")];
    let comparison = ask(Subject::File { path, only: None }, &columns, 1);
    let share = |column: &str, group: &str| {
        let usage = |group: &str| value(&comparison, column, &format!("cgroup:{group}/usage_usec"));
        usage(group) / (usage("/a/x") + usage("/a/y") + usage("/b"))
    };
    // 3 : 1 between /a and /b, and 1 : 3 inside /a: 3/16, 9/16 and 4/16.
    for (column, group, expected) in [
        ("run", "/a/x", 0.1875),
        ("run", "/a/y", 0.5625),
        ("run", "/b", 0.25),
        ("lighter", "/a/x", 0.125),
        ("lighter", "/a/y", 0.375),
        ("lighter", "/b", 0.5),
    ] {
        let found = share(column, group);
        assert!((found - expected).abs() < 0.02, "{column} {group}: {found}");
    }
}

#[test]
fn a_recording_that_is_not_there_is_told_at_its_place() {
    let text = "[[program]]\nreplay = \"nowhere\"\n";
    let subject = Subject::text("exp.toml", text, "/there/is");
    let question = Question {
        seeds: Some(1),
        ..Question::of(subject)
    };
    let error = question.answer(&Simulator::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "exp.toml:2:10: there is no recording /there/is/nowhere"
    );
}
