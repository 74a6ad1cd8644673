//! Meaning of an rt-app file beyond its keys: attributes in force, shared names, notes, refusals.

use schedcast_base::rows;
use schedcast_kernel::uclamp::Clamps;
use schedcast_workload::rtapp::{Action, Attributes, Policy, TimerMode};

use crate::{OBSOLETE, read, task};

fn notes(text: &str) -> Vec<String> {
    read(text)
        .notes
        .iter()
        .map(|note| format!("{}: {}", note.span, note.message))
        .collect()
}

fn attributes(policy: Policy, priority: i32) -> Attributes {
    Attributes {
        policy,
        priority,
        runtime_us: 0,
        period_us: 0,
        deadline_us: 0,
        clamps: Clamps::default(),
        only_clamps: false,
    }
}

#[test]
fn attributes_at_the_start_have_the_default_of_their_policy() {
    let start = |members: &str, default| task(members).attributes(default).start;
    for (members, policy, priority) in [
        ("'run':1", Policy::Other, 0),
        ("'run':1", Policy::Batch, 0),
        ("'run':1", Policy::Idle, 0),
        ("'run':1", Policy::Fifo, 10),
        ("'run':1", Policy::RoundRobin, 10),
        ("'run':1", Policy::Deadline, 0),
        ("'priority':7,'run':1", Policy::Fifo, 7),
    ] {
        assert_eq!(start(members, policy), attributes(policy, priority));
    }
    let slice = Attributes {
        runtime_us: 3000,
        period_us: 3000,
        deadline_us: 3000,
        ..attributes(Policy::Other, 0)
    };
    assert_eq!(start("'dl-runtime':3000,'run':1", Policy::Other), slice);
    let deadline = Attributes {
        runtime_us: 1,
        period_us: 9,
        deadline_us: 9,
        ..attributes(Policy::Deadline, 0)
    };
    let members = "'policy':'SCHED_DEADLINE','dl-runtime':1,'dl-period':9,'run':1";
    assert_eq!(start(members, Policy::Other), deadline);
}

#[test]
fn phases_change_only_what_they_say() {
    let task = task(
        "'policy':'SCHED_FIFO','phases':{
            'same':{'run':1},
            'higher':{'priority':20,'run':1},
            'fair':{'policy':'SCHED_OTHER','run':1},
            'nice':{'priority':5,'run':1},
            'slice-alone':{'dl-runtime':3000,'run':1},
            'slice':{'priority':5,'dl-runtime':3000,'run':1}}",
    );
    let sliced = Attributes {
        runtime_us: 3000,
        period_us: 3000,
        deadline_us: 3000,
        ..attributes(Policy::Other, 5)
    };
    assert_eq!(
        task.attributes(Policy::Other).phases,
        [
            None,
            Some(attributes(Policy::Fifo, 20)),
            Some(attributes(Policy::Other, 0)),
            Some(attributes(Policy::Other, 5)),
            None,
            Some(sliced),
        ]
    );
}

#[test]
fn barriers_count_each_use_once_for_each_instance() {
    let file = read(
        "{'tasks':{'a':{'instance':3,'barrier':'B','run':1},
            'b':{'barrier':'B','run':1,'barrier':'B'},
            'c':{'instance':0,'barrier':'B'}, 'd':{'barrier':'other'}}}",
    );
    assert_eq!(file.barrier_users("B"), 5);
    assert_eq!(file.barrier_users("other"), 1);
    assert_eq!(file.barrier_users("none"), 0);
}

#[test]
fn one_absolute_use_makes_a_timer_absolute() {
    let file = read(
        "{'tasks':{
            'a':{'timer':{'ref':'t','period':1},'timer':{'ref':'unique','period':1}},
            'b':{'timer':{'ref':'t','period':1,'mode':'absolute'},
                 'timer':{'ref':'unique','period':1,'mode':'absolute'}}}}",
    );
    let mode = |task: usize, event: usize| {
        let task = &file.tasks[task];
        match &task.phases()[0].events[event].action {
            Action::Timer(timer) => file.timer_mode(task, timer),
            other => panic!("{other:?}"),
        }
    };
    // Shared between tasks, so absolute in both; a unique timer is each thread's own.
    assert_eq!(mode(0, 0), TimerMode::Absolute);
    assert_eq!(mode(1, 0), TimerMode::Absolute);
    assert_eq!(mode(0, 1), TimerMode::Relative);
    assert_eq!(mode(1, 1), TimerMode::Absolute);
}

#[test]
fn notes_tell_what_rt_app_does_in_silence() {
    for case in rows::lines(include_str!("notes.txt")) {
        let [text, expected] = rows::cells(case);
        assert_eq!(notes(text), [expected], "{text}");
    }
    // A misspelt name shows on both sides.
    assert_eq!(
        notes("{'tasks':{'a':{'signal':'queue'},'b':{'wait':{'ref':'qeue','mutex':'m'}}}}"),
        [
            "1:16: nothing waits on \"queue\"; nearest name: \"qeue\"",
            "1:39: nothing wakes those who wait on \"qeue\"; nearest name: \"queue\"",
        ]
    );
    // Waiting and suspending share their conditions, so this is complete.
    assert_eq!(
        notes("{'tasks':{'a':{'suspend'},'b':{'signal':'a'}}}"),
        [""; 0]
    );
    assert_eq!(notes("{'tasks':{'a':{'run':1}}}"), [""; 0]);
}

#[test]
fn more_taskgroups_than_rt_app_is_built_for_are_noted() {
    let tasks: String = (0..33)
        .map(|number| format!("'t{number}':{{'taskgroup':'/g{number}','run':1}},"))
        .collect();
    assert_eq!(
        notes(&format!("{{'tasks':{{{tasks}}}}}")),
        ["1:2: 33 taskgroups; rt-app as it is usually built stops at 32"]
    );
}

#[test]
fn what_cannot_run_loads_and_is_refused_with_its_place() {
    for (clamps, cases) in rows::sections(include_str!("unsupported.txt")) {
        for case in cases {
            let [text, expected] = rows::cells(case);
            let refused = read(text).unsupported(clamps == "with clamps");
            let told = refused
                .iter()
                .map(|one| format!("{}: {}: {}", one.span, one.what, one.why));
            let told = told.collect::<Vec<_>>().join("; ");
            let found = if told.is_empty() { "nothing" } else { &told };
            assert_eq!(found, expected, "{text}");
        }
    }
}

#[test]
fn the_grammar_of_before_2014_loads_and_is_refused() {
    let file = read(OBSOLETE);
    let places: Vec<String> = file
        .unsupported(true)
        .iter()
        .map(|one| format!("{} {}", one.span, one.what))
        .collect();
    assert_eq!(places, ["4:4 `exec`", "17:17 `exec`"]);
    assert!(file.tasks[0].phases().is_empty());
    assert_eq!(file.tasks[2].phases().len(), 1);
}
