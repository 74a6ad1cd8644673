//! A job that was recorded takes its time under other limits, beyond the recorded end.

use std::path::Path;

use schedcast_lab::answer::Answer;
use schedcast_lab::question::{Columns, Question, Setting, Subject};
use schedcast_lab::recording::Recorded;
use schedcast_lab::simulator::Simulator;

/// `tar` is let go at 10 ms, works for 100 ms and ends; the recording ends at 120 ms. `executes`:
/// the first thing that it does is to call `exec`. `stays`: a second thread is left in its group.
fn record(folder: &Path, executes: bool, stays: bool) {
    let line = |us: u64, task: &str, event: &str| {
        let seconds = 1000.0 + us as f64 / 1e6;
        format!("{task:>16} [000] d..2. {seconds:>12.6}: {event}\n")
    };
    let switch = |us: u64, from: (&str, u32, &str), to: (&str, u32)| {
        let ((prev, prev_pid, state), (next, next_pid)) = (from, to);
        let event = format!(
            "sched_switch: prev_comm={prev} prev_pid={prev_pid} prev_prio=120 prev_state={state} \
             ==> next_comm={next} next_pid={next_pid} next_prio=120"
        );
        line(us, &format!("{prev}-{prev_pid}"), &event)
    };
    let idle = ("swapper/0", 0, "R");
    let mut trace = String::from("# tracer: nop\n#\n");
    trace += &switch(9_000, idle, ("sh", 6));
    let waking = "sched_waking: comm=tar pid=7 prio=120 target_cpu=000";
    trace += &line(10_000, "sh-6", waking);
    trace += &switch(10_000, ("sh", 6, "S"), ("tar", 7));
    if executes {
        let event = "sched_process_exec: filename=/bin/tar pid=7 old_pid=7";
        trace += &line(10_100, "tar-7", event);
    }
    trace += &switch(110_000, ("tar", 7, "X"), ("swapper/0", 0));
    trace += &switch(119_900, idle, ("sh", 6));
    trace += &switch(120_000, ("sh", 6, "S"), ("swapper/0", 0));
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("trace.txt", &trace);
    write(
        "recording.json",
        r#"{"trace": "trace.txt", "kernel": "6.12.1", "hz": 250, "cpus": 1, "cgroup_version": 2,
            "cgroup": "/job"}"#,
    );
    let groups = |tasks: &str| {
        format!(
            r#"{{"/": {{"tasks": []}}, "/job": {{"cpu.max": "max 100000", "cpu.weight": "100",
                "tasks": [{tasks}]}}}}"#
        )
    };
    let after = if stays { "8" } else { "" };
    let (before, after) = (groups("7"), groups(after));
    write(
        "cgroups.json",
        &format!(r#"{{"before": {before}, "after": {after}}}"#),
    );
}

fn asked(executes: bool, stays: bool, setting: &str) -> (Recorded, Answer) {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), executes, stays);
    let recorded = Recorded::open(folder.path()).unwrap();
    let question = Question {
        columns: Columns {
            leading: vec![Setting::Set(setting.to_string())],
            ..Columns::default()
        },
        seeds: Some(3),
        ..Question::of(Subject::Recording(recorded.clone()))
    };
    let answered = question.answer(&Simulator::new()).unwrap();
    (recorded, answered)
}

/// Means of the baseline and of the setting, in seconds.
fn times(answered: &Answer) -> Option<[f64; 2]> {
    let [now, then] = &answered.comparison.variants[..] else {
        panic!("two columns");
    };
    let time = |variant: &schedcast_lab::comparison::Variant| Some(variant.get("tar/time")?.mean);
    Some([time(now)?, time(then)?])
}

#[test]
fn a_run_goes_on_until_the_job_has_ended() {
    let (recorded, answered) = asked(true, false, "cpu.max=20000 100000");
    assert!(recorded.notes.iter().all(|note| !note.contains("`tar`")));
    let [now, limited] = times(&answered).unwrap();
    assert!((now - 0.1).abs() < 0.002, "{now}");
    // 20 ms at once, and 20 ms at each of the next four beginnings of periods of 100 ms: the first
    // one falls anywhere.
    assert!((0.31..0.43).contains(&limited), "{limited}");
    let fit = &answered.context.fit;
    let time = fit.iter().find(|one| one.metric == "tar/time").unwrap();
    assert!((time.seen - 0.1).abs() < 1e-6, "{time:?}");
    assert!(
        answered.comparison.warnings.is_empty(),
        "{:?}",
        answered.comparison.warnings
    );
    let verdict = &answered.context.verdict[0];
    assert!(verdict.contains("tar/time is 0.0999"), "{verdict}");
}

#[test]
fn a_job_that_does_not_end_is_a_lower_bound_and_says_so() {
    // A thousandth of a CPU takes 100 s, and a hundred recordings are 11.1 s.
    let (_, answered) = asked(true, false, "cpu.max=1000 1000000");
    let time = answered.comparison.variants[1].get("tar/time").unwrap();
    assert!(time.at_least && time.mean > 11.0, "{time:?}");
    let warning = &answered.comparison.warnings[0];
    let told = "“cpu.max=1000 1000000”: tar did not end within 11.1 s in every run";
    assert!(warning.starts_with(told), "{warning}");
}

#[test]
fn a_job_that_was_running_already_counts_from_the_begin_of_the_recording() {
    let (recorded, answered) = asked(false, false, "cpu.max=20000 100000");
    let told = |note: &String| note.starts_with("`tar` of /job was running when the recording");
    assert!(recorded.notes.iter().any(told), "{:?}", recorded.notes);
    let [now, _] = times(&answered).unwrap();
    // The first event is at 9 ms.
    assert!((now - 0.101).abs() < 0.002, "{now}");
}

#[test]
fn what_stays_has_no_time() {
    let (_, answered) = asked(true, true, "cpu.max=20000 100000");
    assert_eq!(times(&answered), None);
}
