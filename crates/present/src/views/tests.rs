//! A trace of eight events by hand, and what the views make of it.

use schedcast_base::assert_ends;
use std::io::Write;

use super::map::letters;
use super::*;

/// Task 9 sleeps at 1.0 ms, is woken at 5.0 ms by 7, comes at 5.2 ms, leaves at 7.0 ms still
/// runnable, comes again at 7.5 ms and dies at 8.0 ms; CPU 1 idles but for task 7.
const TRACE: &str = "\
cpus=2
     b-9  [000] d..2. 0.001000000: sched_switch: prev_comm=b prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
  <idle>-0  [001] d..2. 0.004000000: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=7 next_prio=120
     a-7  [001] d..2. 0.005000000: sched_waking: comm=b pid=9 prio=120 target_cpu=000
  <idle>-0  [000] d.h2. 0.005100000: sched_wakeup: comm=b pid=9 prio=120 target_cpu=000
  <idle>-0  [000] d..2. 0.005200000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=9 next_prio=120
     b-9  [000] d..2. 0.007000000: sched_switch: prev_comm=b prev_pid=9 prev_prio=120 prev_state=R ==> next_comm=c next_pid=11 next_prio=120
     c-11 [000] d..2. 0.007500000: sched_switch: prev_comm=c prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=b next_pid=9 next_prio=120
     b-9  [000] d..2. 0.008000000: sched_switch: prev_comm=b prev_pid=9 prev_prio=120 prev_state=Z ==> next_comm=swapper/0 next_pid=0 next_prio=120
";

fn recording() -> Recording {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(TRACE.as_bytes()).unwrap();
    Recording::open(file.path()).unwrap()
}

fn rows(text: &str, of: &str) -> Vec<String> {
    let rows = text.lines().filter(|line| line.contains(of));
    rows.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn timehist_by_hand() {
    let columns = Columns {
        state: true,
        next: true,
        ..Columns::default()
    };
    let text = timehist(&recording(), &Selection::default(), columns, Parts::Rows);
    let expected = [
        "0.001000 [0000] b[9] 0.000 0.000 0.000 S next: <idle>",
        "0.007000 [0000] b[9] 4.200 0.200 1.800 R next: c[11]",
        "0.008000 [0000] b[9] 0.500 0.500 0.500 Z next: <idle>",
    ];
    assert_eq!(rows(&text, " b[9] "), expected);
    let idle = rows(&text, "]  <idle> ");
    assert_eq!(
        idle[1],
        "0.005200 [0000] <idle> 0.000 0.000 4.200 R next: b[9]"
    );
}

#[test]
fn what_the_trace_does_not_have_is_said_or_refused() {
    let recording = recording();
    let here = Selection {
        cpus: [1].into(),
        task: Some("b".to_owned()),
        tids: [9].into(),
        between_ns: (Some(2_000_000), None),
    };
    assert_eq!(absent(&recording, &here).unwrap(), [""; 0]);
    let elsewhere = Selection {
        cpus: [1, 2].into(),
        tids: [8, 9].into(),
        between_ns: (Some(9_000_000), None),
        ..Selection::default()
    };
    let expected = [
        "the trace has no task 8",
        "the trace has no CPU 2, but 0 to 1",
        "the trace is from 0.001000 to 0.008000 s",
    ];
    assert_eq!(absent(&recording, &elsewhere).unwrap(), expected);
    let refused = |selection: Selection| absent(&recording, &selection).unwrap_err().render();
    let named = refused(Selection {
        task: Some("swapper/2".to_owned()),
        ..Selection::default()
    });
    assert!(
        named.contains("no task of the trace is called `swapper/2`"),
        "{named}"
    );
    assert!(
        named.contains("the nearest valid name is `swapper/0`"),
        "{named}"
    );
    let tids = refused(Selection {
        tids: [8].into(),
        ..Selection::default()
    });
    assert!(tids.contains("the trace has no task 8"), "{tids}");
    let cpus = refused(Selection {
        cpus: [2].into(),
        ..Selection::default()
    });
    assert!(
        cpus.contains("the trace has no CPU 2, but 0 to 1"),
        "{cpus}"
    );
}

#[test]
fn timehist_selects_and_sums_up() {
    let selection = Selection {
        task: Some("b".to_owned()),
        between_ns: (Some(2_000_000), None),
        ..Selection::default()
    };
    let both = timehist(&recording(), &selection, Columns::default(), Parts::Both);
    assert_eq!(rows(&both, "[0000]").len(), 2);
    assert!(both.contains("Terminated tasks:"));
    // Two stays of 1.8 and 0.5 ms: mean 1.15, standard error 0.65 = 56.52 %.
    assert_eq!(
        rows(&both, "b[9]").last().unwrap(),
        "b[9] -1 2 2.300 0.500 1.150 1.800 56.52 0"
    );
    assert!(both.contains("Total number of context switches: 2\n"));
}

#[test]
fn wakeups_and_migrations_get_rows() {
    let columns = Columns {
        wakeups: true,
        ..Columns::default()
    };
    let text = timehist(&recording(), &Selection::default(), columns, Parts::Rows);
    assert_eq!(
        rows(&text, "awakened"),
        ["0.005000 [0001] [7] awakened: b[9]"]
    );
}

#[test]
fn latency_by_hand() {
    let text = latency(&recording(), &Selection::default(), Sort::Average, true);
    assert_eq!(
        rows(&text, "b:9"),
        [
            "b:9 | 2.300 ms | 2 | avg: 0.350 ms | max: 0.500 ms | max start: 0.007000 s | max end: 0.007500 s"
        ]
    );
    assert_eq!(rows(&text, "TOTAL"), ["TOTAL: | 2.300 ms | 2 |"]);
    assert_eq!(
        latency(&recording(), &Selection::default(), Sort::Max, false)
            .lines()
            .count(),
        text.lines().count()
    );
}

#[test]
fn missing_switches_are_told() {
    assert!(!latency(&recording(), &Selection::default(), Sort::Max, false).contains("INFO"));
    let mut recording = recording();
    // Without the switch at 5.2 ms the arrival of task 9 is unknown.
    recording.events.remove(4);
    let text = latency(&recording, &Selection::default(), Sort::Max, true);
    assert_ends(&text, "  INFO: 20.000% context switch bugs (1 out of 5)\n");
    assert_eq!(rows(&text, "b:9")[0].split(" | ").nth(1), Some("0.500 ms"));
}

#[test]
fn the_map_by_hand() {
    let text = map(&recording(), &Selection::default());
    let expected = [
        "*. 0.001000 secs . => swapper:0",
        ". *A0 0.004000 secs A0 => a:7",
        "*B0 A0 0.005200 secs B0 => b:9",
        "*C0 A0 0.007000 secs C0 => c:11",
        "*B0 A0 0.007500 secs",
        "*. A0 0.008000 secs",
    ];
    assert_eq!(rows(&text, "secs"), expected);
    let one = Selection {
        cpus: [1].into(),
        ..Selection::default()
    };
    assert_eq!(map(&recording(), &one).lines().count(), 1);
    assert_eq!(letters(27), "B1");
}
