//! Meaning of an rt-app file beyond its keys: attributes in force, shared names, notes, refusals.

use schedcast_base::rows;
use schedcast_kernel::uclamp::Clamps;
use schedcast_workload::rtapp::{Action, Attributes, File, Policy, Task, TimerMode, parse};

fn read(text: &str) -> File {
    parse("test.json", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

/// A file with one task whose members are given.
fn task(members: &str) -> Task {
    let file = read(&format!("{{'tasks':{{'a':{{{members}}}}}}}"));
    file.tasks.into_iter().next().expect("one task")
}

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
    assert_eq!(
        start("'run':1", Policy::Other),
        attributes(Policy::Other, 0)
    );
    assert_eq!(
        start("'run':1", Policy::Batch),
        attributes(Policy::Batch, 0)
    );
    assert_eq!(start("'run':1", Policy::Idle), attributes(Policy::Idle, 0));
    assert_eq!(start("'run':1", Policy::Fifo), attributes(Policy::Fifo, 10));
    assert_eq!(
        start("'run':1", Policy::RoundRobin),
        attributes(Policy::RoundRobin, 10)
    );
    assert_eq!(
        start("'run':1", Policy::Deadline),
        attributes(Policy::Deadline, 0)
    );
    assert_eq!(
        start("'priority':7,'run':1", Policy::Fifo),
        attributes(Policy::Fifo, 7)
    );
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

fn refusals(text: &str) -> Vec<String> {
    let refusals = read(text).unsupported(false);
    refusals
        .iter()
        .map(|one| format!("{}: {}: {}", one.span, one.what, one.why))
        .collect()
}

#[test]
fn what_cannot_run_loads_and_is_refused_with_its_place() {
    let deadline = |runtime_us: u32, period_us: u32| {
        format!(
            "SCHED_DEADLINE with a runtime of {runtime_us} us, a deadline of {period_us} us and a period of \
             {period_us} us: the kernel refuses it: expected 2 us <= dl-runtime <= dl-deadline <= dl-period, and a \
             period from 100 us to 4194304 us"
        )
    };
    assert_eq!(
        refusals(
            "{'tasks':{'a':{'policy':'SCHED_DEADLINE','dl-runtime':10,'dl-period':100,'run':1}}}"
        ),
        [""; 0]
    );
    let clamp = "this kernel is built without utilisation clamps; `uclamp = true` in [kernel] \
                 builds it with them";
    assert_eq!(refusals("{'tasks':{'a':{'run':1}}}"), [""; 0]);
    assert_eq!(
        refusals("{'tasks':{'a':{'policy':'SCHED_DEADLINE','dl-runtime':1,'run':1}}}"),
        [format!("1:25: {}", deadline(1, 1))]
    );
    // By default policy there is no better place than the task.
    assert_eq!(
        refusals("{'tasks':{'a':{'run':1}},'global':{'default_policy':'SCHED_DEADLINE'}}"),
        [format!("1:11: {}", deadline(0, 0))]
    );
    assert_eq!(
        refusals(
            "{'tasks':{'a':{'phases':{'p':{'run':1},'q':{'policy':'SCHED_DEADLINE','run':1}}}}}"
        ),
        [format!("1:54: {}", deadline(0, 0))]
    );
    assert_eq!(
        refusals(
            "{'tasks':{'a':{'util_max':9,'util_min':-1,'phases':{'p':{'util_min':0,'run':1}}}}}"
        ),
        [
            format!("1:27: util_max: {clamp}"),
            format!("1:69: util_min: {clamp}")
        ]
    );
    let bad = "a utilisation of at least 1024 and at most 9: the kernel refuses a least utilisation above \
               the most; a real-time thread without `util_min` has 1024";
    let real_time = "{'tasks':{'a':{'policy':'SCHED_FIFO','util_max':9,'run':1}}}";
    let clamped: Vec<String> = (read(real_time).unsupported(true).iter())
        .map(|one| format!("{}: {}: {}", one.span, one.what, one.why))
        .collect();
    assert_eq!(clamped, [format!("1:49: {bad}")]);
    assert_eq!(
        refusals("{'tasks':{'a':{'nodes_membind':[0],'run':1}}}"),
        [
            "1:32: nodes_membind: memory has no place in the model, so that binding it would \
             change nothing"
        ]
    );
    assert_eq!(
        refusals("{'tasks':{}}"),
        [
            "1:2: a file without tasks: there is nothing to run; this looks like a piece for merge.py"
        ]
    );
    assert_eq!(refusals("{'resources':{}}").len(), 1);
}

#[test]
fn the_grammar_of_before_2014_loads_and_is_refused() {
    let file = parse(
        "obsolete.json",
        include_bytes!("fixtures/rtapp/obsolete.json"),
    )
    .unwrap_or_else(|error| panic!("{error}"));
    let places: Vec<String> = file
        .unsupported(true)
        .iter()
        .map(|one| format!("{} {}", one.span, one.what))
        .collect();
    assert_eq!(places, ["4:4 `exec`", "17:17 `exec`"]);
    assert!(file.tasks[0].phases().is_empty());
    assert_eq!(file.tasks[2].phases().len(), 1);
}

#[test]
fn slices_of_fair_tasks_hold_from_the_start_or_not_at_all() {
    let why = "`dl-runtime`: the slice of a fair task can only be given to a task that is not \
               forked, from its start on";
    assert_eq!(
        refusals("{'tasks':{'a':{'dl-runtime':3000,'run':1}}}"),
        [""; 0]
    );
    assert_eq!(
        refusals("{'tasks':{'a':{'phases':{'p':{'priority':1,'dl-runtime':3000,'run':1}}}}}"),
        [format!("1:57: {why}")]
    );
    assert_eq!(
        refusals("{'tasks':{'a':{'fork':'b'},'b':{'dl-runtime':3000,'run':1}}}"),
        [format!("1:46: {why}")]
    );
    // Nothing is set here, so there is nothing to refuse.
    assert_eq!(
        refusals("{'tasks':{'a':{'phases':{'p':{'dl-runtime':3000,'run':1}}}}}"),
        [""; 0]
    );
}

#[test]
fn only_sinks_can_be_written_to() {
    let device = |device: &str| {
        refusals(&format!(
            "{{'tasks':{{'a':{{'iorun':1}}}},'global':{{'io_device':'{device}'}}}}"
        ))
    };
    assert_eq!(device("/dev/zero"), [""; 0]);
    assert_eq!(
        device("/dev/sda"),
        [
            "1:16: event \"iorun\": only /dev/null and /dev/zero are modelled, which take \
             everything at once"
        ]
    );
}
