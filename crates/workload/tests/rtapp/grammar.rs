//! Meaning of each key of an rt-app file, and the default where a key is missing.

use schedcast_base::rows;
use schedcast_workload::rtapp::{
    Action, Body, Calibration, EVENT_KINDS, Global, Policy, Repeat, Scheduling, Span, Task,
    event_kind,
};

use crate::{EVERY_EVENT, read, task};

fn global(members: &str) -> Global {
    read(&format!("{{'tasks':{{}},'global':{{{members}}}}}")).global
}

/// The action of a single event in a task; `child` and `a` can be forked and resumed.
fn action(event: &str) -> Action {
    let text = format!("{{'tasks':{{'a':{{{event}}},'child':{{'run':1}}}}}}");
    read(&text).tasks[0].phases()[0].events[0].action.clone()
}

#[test]
fn defaults_of_a_file_without_global() {
    let global = read("{'tasks':{}}").global;
    assert_eq!(global.duration_s, None);
    assert_eq!(global.calibration, Calibration::Cpu(0));
    assert_eq!(global.default_policy, Policy::Other);
    assert!(!global.pi_enabled.value);
    assert!(!global.is_logged);
    assert_eq!(global.io_device, "/dev/null");
    assert_eq!(global.mem_buffer_bytes, 4_194_304);
    assert!(!global.cumulative_slack);
}

#[test]
fn an_empty_global_differs_only_in_writing_a_log() {
    let mut absent = read("{'tasks':{}}").global;
    let empty = global("");
    absent.is_logged = true;
    absent.pi_enabled.span = empty.pi_enabled.span;
    assert_eq!(absent, empty);
    let nulls = "'duration':null,'calibration':null,'default_policy':null,'pi_enabled':null,
        'lock_pages':null,'logdir':null,'log_basename':null,'log_size':null,'ftrace':null,
        'gnuplot':null,'io_device':null,'mem_buffer_size':null,'cumulative_slack':null";
    assert_eq!(global(nulls), empty);
}

#[test]
fn every_key_of_global() {
    assert_eq!(global("'duration':7").duration_s, Some(7));
    assert_eq!(global("'duration':0").duration_s, None);
    assert_eq!(global("'duration':-1").duration_s, None);
    assert_eq!(
        global("'calibration':'CPU12'").calibration,
        Calibration::Cpu(12)
    );
    assert_eq!(
        global("'calibration':17").calibration,
        Calibration::NanosecondsPerLoop(17)
    );
    assert_eq!(global("'calibration':0").calibration, Calibration::Cpu(0));
    assert!(global("'pi_enabled':true").pi_enabled.value);
    let is_logged = |size: &str| global(&format!("'log_size':{size}")).is_logged;
    assert!(["2", "'file'", "'auto'"].into_iter().all(is_logged));
    assert!(!["0", "'disable'"].into_iter().any(is_logged));
    assert_eq!(global("'io_device':'/dev/zero'").io_device, "/dev/zero");
    assert_eq!(global("'mem_buffer_size':512").mem_buffer_bytes, 512);
    assert!(global("'cumulative_slack':true").cumulative_slack);
    for policy in Policy::ALL {
        let name = policy.name();
        assert_eq!(
            global(&format!("'default_policy':'{name}'")).default_policy,
            policy
        );
        assert_eq!(policy.name(), name);
    }
}

#[test]
fn keys_without_effect_are_read() {
    let keys = "'lock_pages':false,'logdir':'/tmp','log_basename':'x','gnuplot':true";
    assert_eq!(global(keys), global(&" ".repeat(keys.len())));
    for ftrace in ["'stats, main,,loop,main'", "'none'", "false", "true"] {
        global(&format!("'ftrace':{ftrace}"));
    }
    global("'ftrace':'main,task,run,loop,stats,event,attrs'");
}

#[test]
fn defaults_of_a_task() {
    let task = task("'run':10");
    assert_eq!((task.name.as_str(), task.written_name.as_str()), ("a", "a"));
    assert_eq!(
        task.span,
        Span {
            line: 1,
            column: 11
        }
    );
    assert_eq!((task.instances, task.delay_us), (1, 0));
    assert_eq!(task.repeat, Repeat::Forever);
    assert_eq!(task.scheduling, Scheduling::default());
    let Body::Phases(phases) = &task.body else {
        panic!("phases")
    };
    assert_eq!(phases.len(), 1);
    assert_eq!(
        (phases[0].name.as_ref(), phases[0].repeat),
        (None, Repeat::Times(1))
    );
    assert_eq!(phases[0].scheduling, Scheduling::default());
}

/// The table of the grammar: what `loop` counts depends on where the events stand.
#[test]
fn loop_counts_phases_of_a_task_but_events_where_there_are_no_phases() {
    let inline = task("'loop':3,'run':10");
    assert_eq!(
        (inline.repeat, inline.phases()[0].repeat),
        (Repeat::Times(1), Repeat::Times(3))
    );
    let forever = task("'loop':-1,'run':10");
    assert_eq!(
        (forever.repeat, forever.phases()[0].repeat),
        (Repeat::Times(1), Repeat::Forever)
    );
    let phases = task("'loop':3,'phases':{'p':{'run':10},'q':{'loop':5,'run':1}}");
    assert_eq!(phases.repeat, Repeat::Times(3));
    assert_eq!(phases.phases()[0].repeat, Repeat::Times(1));
    assert_eq!(phases.phases()[1].repeat, Repeat::Times(5));
    assert_eq!(task("'phases':{'p':{'run':10}}").repeat, Repeat::Forever);
}

/// Measured with rt-app 1.0: a phase checks its count after its events, a task before them.
#[test]
fn loop_zero_is_never_for_a_task_and_forever_for_a_phase() {
    let never = task("'loop':0,'phases':{'p':{'loop':0,'run':10}}");
    assert_eq!(
        (never.repeat, never.phases()[0].repeat),
        (Repeat::Times(0), Repeat::Forever)
    );
    assert_eq!(
        task("'loop':0,'run':10").phases()[0].repeat,
        Repeat::Forever
    );
}

#[test]
fn every_property_of_a_task_and_of_a_phase() {
    let keys = "'policy':'SCHED_IDLE','priority':1,'dl-runtime':1,'dl-period':2,'dl-deadline':3,
         'util_min':-1,'util_max':1024,'cpus':[3,1],'nodes_membind':[0,2],'taskgroup':'/g','run':1";
    let whole = task(&format!("'instance':4,'delay':1500,{keys}"));
    assert_eq!((whole.instances, whole.delay_us), (4, 1500));
    let phased = task(&format!("'phases':{{'p':{{'loop':2,{keys}}}}}"));
    let phase = &phased.phases()[0];
    assert_eq!(phase.name.as_deref(), Some("p"));
    assert_eq!(phase.repeat, Repeat::Times(2));
    for (said, column) in [(&whole.scheduling, 75), (&phase.scheduling, 73)] {
        let priority = said.priority.as_ref().expect("priority");
        assert_eq!((priority.value, priority.span.column), (1, column));
        let policy = said.policy.as_ref().expect("policy");
        assert_eq!(policy.value, Policy::Idle);
        assert_eq!(said.dl_runtime_us.as_ref().expect("runtime").value, 1);
        assert_eq!(said.dl_period_us.as_ref().expect("period").value, 2);
        assert_eq!(said.dl_deadline_us.as_ref().expect("deadline").value, 3);
        assert_eq!(said.util_min.as_ref().expect("util_min").value, -1);
        assert_eq!(said.util_max.as_ref().expect("util_max").value, 1024);
        assert_eq!(said.cpus.as_ref().expect("cpus").value, [3, 1]);
        assert_eq!(said.nodes_membind.as_ref().expect("nodes").value, [0, 2]);
        assert_eq!(said.taskgroup.as_ref().expect("taskgroup").value, "/g");
    }
}

#[test]
fn an_empty_taskgroup_is_none() {
    assert_eq!(task("'taskgroup':'','run':1").scheduling.taskgroup, None);
}

#[test]
fn old_spellings_of_the_deadline_keys() {
    let numbers = |members: &str| {
        let said = task(members).scheduling;
        [said.dl_runtime_us, said.dl_period_us, said.dl_deadline_us]
            .map(|number| number.map(|number| number.value))
    };
    let phases = "'phases':{'p':{'run':1}}";
    assert_eq!(
        numbers(&format!("'runtime':1,'period':2,'deadline':3,{phases}")),
        [Some(1), Some(2), Some(3)]
    );
    // The new spelling wins, unless it says 0.
    assert_eq!(
        numbers(&format!(
            "'runtime':1,'dl-runtime':9,'period':2,'dl-period':0,{phases}"
        )),
        [Some(9), Some(2), None]
    );
    // Where events stand in the task, `runtime` is an event, and a budget only if one is needed.
    assert_eq!(numbers("'runtime':5"), [None, None, None]);
    assert_eq!(
        numbers("'policy':'SCHED_DEADLINE','runtime':5"),
        [Some(5), None, None]
    );
    assert_eq!(
        numbers("'policy':'SCHED_DEADLINE','runtime2':5"),
        [None, None, None]
    );
}

#[test]
fn every_kind_of_event() {
    for case in rows::lines(include_str!("events.txt")) {
        let [event, expected] = rows::cells(case);
        assert_eq!(format!("{:?}", action(event)), expected, "{event}");
    }
}

/// Kinds are matched by prefix, in the listed order, so each kind must win over those behind it.
#[test]
fn keys_match_kinds_by_prefix_in_order() {
    for (position, kind) in EVENT_KINDS.into_iter().enumerate() {
        for suffix in ["", "0", "12", "_a", "-x", " b", "A"] {
            assert_eq!(event_kind(&format!("{kind}{suffix}")), Some(kind));
        }
        for earlier in &EVENT_KINDS[..position] {
            assert!(
                !kind.starts_with(earlier),
                "`{earlier}` would hide `{kind}`"
            );
        }
    }
    assert_eq!(event_kind("runtime2"), Some("runtime"));
    assert_eq!(event_kind("runtim"), Some("run"));
    assert_eq!(event_kind("memrun1"), Some("memrun"));
    assert_eq!(event_kind("memrum"), Some("mem"));
    assert_eq!(event_kind("unlocked"), Some("unlock"));
    for none in ["", "ru", "Run", "sem", "0run", "loop", "resum"] {
        assert_eq!(event_kind(none), None, "{none}");
    }
}

#[test]
fn repeated_events_stay_in_order() {
    let task = task("'run':1,'sleep':2,'run':3,'loop':1,'run0':4,'sleep':5");
    let events = &task.phases()[0].events;
    let keys: Vec<&str> = events.iter().map(|event| event.key.as_str()).collect();
    assert_eq!(keys, ["run", "sleep", "run", "run0", "sleep"]);
    assert_eq!(events[2].action, Action::Run(3));
    assert_eq!(
        events[2].span,
        Span {
            line: 1,
            column: 34
        }
    );
}

#[test]
fn repeated_phases_are_phases_of_their_own() {
    let task = task("'phases':{'p':{'run':1},'q':{'run':2},'p':{'run':3}}");
    let works: Vec<&Action> = task.events().map(|event| &event.action).collect();
    assert_eq!(works, [&Action::Run(1), &Action::Run(2), &Action::Run(3)]);
}

/// As the script `workgen` does it: one counter for the object, moved on only when taken.
#[test]
fn repeated_tasks_get_numbered_names() {
    let one = "{'run':1}";
    let file = read(&format!(
        "{{'tasks':{{'a':{one},'a':{one},'a1':{one},'b':{one},'a':{one},'b':{one}}}}}"
    ));
    let names: Vec<&str> = file.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["a", "a1", "a11", "b", "a2", "b2"]);
    assert_eq!(file.tasks[1].written_name, "a");
}

#[test]
fn a_repeated_task_suspends_on_the_name_as_written() {
    let file = read("{'tasks':{'a':{'suspend','run':1},'a':{'suspend'},'b':{'resume':'a'}}}");
    let suspended = &file.tasks[1].phases()[0].events[0].action;
    assert_eq!(*suspended, Action::Suspend("a".to_owned()));
}

#[test]
fn old_resources_need_not_be_there() {
    read(
        "{'tasks':{},'resources':{'m':{'type':'mutex'},'d':{},'s':{'type':'signal','target':'w'}}}",
    );
}

#[test]
fn the_fixture_of_every_event_reads_whole() {
    let file = read(EVERY_EVENT);
    let mut kinds: Vec<&str> = file
        .tasks
        .iter()
        .flat_map(Task::events)
        .map(|event| event_kind(&event.key).expect("an event"))
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut every = EVENT_KINDS.to_vec();
    every.sort_unstable();
    assert_eq!(kinds, every);
    assert_eq!(file.tasks[0].phases()[0].repeat, Repeat::Times(10));
    assert_eq!(file.tasks[0].events().count(), 16);
    assert_eq!(file.barrier_users("meet"), 3);
}
