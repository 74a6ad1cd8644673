//! Compiled rt-app files run on an ideal machine as worked out by hand.
//!
//! Prices are set so that numbers stay round: one nanosecond for a round of a phase, which shows as
//! the last digit, and nothing for the log.

use schedcast_base::rows;
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::task::Policy;
use schedcast_kernel::uclamp::{Clamps, Wish};
use schedcast_kernel::{Cpu, GroupId};
use schedcast_sim::Workload;
use schedcast_sim::workload::AttributesSpec;
use schedcast_workload::rtapp::compile::{Compiled, Prices, RtAppOptions, compile};
use schedcast_workload::rtapp::log::{self, Row};

use crate::ideal::{self, Outcome};
use crate::{EVERY_EVENT, read};

const MS: u64 = 1_000_000;

fn options() -> RtAppOptions {
    let prices = Prices {
        round_ns: 1,
        log_row_ns: 0,
        ..Prices::default()
    };
    RtAppOptions {
        prices,
        ..RtAppOptions::new(4)
    }
}

fn compiled(text: &str, options: &RtAppOptions) -> (Workload, Compiled) {
    let file = read(text);
    let mut workload = Workload::default();
    let compiled = compile(&file, options, &mut workload).unwrap_or_else(|error| panic!("{error}"));
    workload
        .check(options.cpus)
        .unwrap_or_else(|error| panic!("{error}"));
    (workload, compiled)
}

/// Adds a `global` with a log and loops of 10 ns.
fn with_global(tasks: &str, more: &str) -> String {
    format!("{{'tasks':{{{tasks}}},'global':{{'calibration':10,{more}}}}}")
}

fn run(tasks: &str, end_ns: u64) -> Outcome {
    let (workload, _) = compiled(&with_global(tasks, ""), &options());
    ideal::run(&workload, end_ns)
}

/// Log rows of one thread.
fn rows_of(outcome: &Outcome, index: u64) -> Vec<Row> {
    let rows = outcome
        .rows
        .iter()
        .map(|(_, registers)| Row::from_registers(registers, 0));
    rows.map(|row| row.expect("a row"))
        .filter(|row| row.index == index)
        .collect()
}

fn rows(tasks: &str, end_ns: u64) -> Vec<Row> {
    rows_of(&run(tasks, end_ns), 0)
}

fn starts(outcome: &Outcome, index: u64) -> Vec<u64> {
    rows_of(outcome, index)
        .iter()
        .map(|row| row.start_us)
        .collect()
}

fn refusal(text: &str) -> String {
    let file = read(text);
    match compile(&file, &options(), &mut Workload::default()) {
        Ok(_) => panic!("compiled: {text}"),
        Err(error) => error.to_string(),
    }
}

/// 1 ms of work on a timer of 5 ms, three rounds: the first point is 5 ms after the start.
#[test]
fn a_row_has_every_column() {
    let rows = rows(
        "'a':{'loop':3,'run':1000,'timer':{'ref':'unique','period':5000}}",
        50 * MS,
    );
    let expected = Row {
        index: 0,
        perf: 100,
        run_us: 1000,
        period_us: 5000,
        start_us: 0,
        end_us: 5000,
        relative_start_us: 0,
        slack_us: 4000,
        configured_duration_us: 1000,
        configured_period_us: 5000,
        wakeup_latency_us: 0,
    };
    let later = |start_us| Row {
        start_us,
        end_us: start_us + 5000,
        relative_start_us: start_us,
        ..expected
    };
    assert_eq!(rows, [expected, later(5000), later(10_000)]);
    let heading = log::HEADER.split_whitespace().count();
    assert_eq!(rows[0].to_string().split_whitespace().count(), heading);
}

#[test]
fn work_is_whole_loops_of_what_one_takes_here() {
    let work_ns = |calibration: &str, prices: Prices| {
        let text = format!(
            "{{'tasks':{{'a':{{'loop':1,'run':1500007}}}},'global':{{'calibration':{calibration}}}}}"
        );
        let options = RtAppOptions {
            prices,
            ..options()
        };
        let (workload, _) = compiled(&text, &options);
        let outcome = ideal::run(&workload, u64::MAX);
        outcome.rows[0].1[2]
    };
    // Each second and the rest for itself: 66 666 666 + 33 333 800 loops of 15 ns.
    assert_eq!(
        work_ns("15", Prices::default()),
        (66_666_666 + 33_333_800) * 15
    );
    // A loop takes 12.1 ns on this machine, whatever the file says.
    let machine = Prices {
        loop_ps: Some(12_100),
        ..Prices::default()
    };
    assert_eq!(
        work_ns("15", machine),
        (66_666_666 + 33_333_800) * 12_100 / 1000
    );
    let calibrated = Prices {
        calibrated_loop_ns: 20,
        ..Prices::default()
    };
    assert_eq!(work_ns("'CPU0'", calibrated), 1_500_007_000 / 20 * 20);
}

/// Pieces of 32 µs until at least 100 µs have passed: four.
#[test]
fn runtime_looks_at_the_clock_after_each_piece() {
    let row = rows("'a':{'loop':1,'runtime':100}", MS)[0];
    assert_eq!(
        (row.run_us, row.perf, row.configured_duration_us),
        (128, 4 * 3, 100)
    );
    let row = rows("'a':{'loop':1,'runtime':0}", MS)[0];
    assert_eq!(row.run_us, 32);
}

#[test]
fn events_that_take_time_without_running() {
    let row = rows(
        "'a':{'loop':1,'sleep':700,'mem':1000000,'iorun':9000000}",
        50 * MS,
    )[0];
    // 10 ps a byte; 9 MB are three writes of at most 4 MiB at 100 ns.
    assert_eq!((row.run_us, row.period_us), (0, 700 + 10));
    let text = with_global("'a':{'loop':1,'iorun':1000}", "'mem_buffer_size':100");
    let (workload, _) = compiled(&text, &options());
    assert_eq!(ideal::run(&workload, MS).rows[0].1[4], 10 * 100);
    let walk = "'a':{'loop':1,'memrun':{'type':'read','size':64,'count':5000}}";
    assert_eq!(rows(walk, MS)[0].period_us, 2);
}

/// 7 ms of work on a timer of 5 ms: late each time. A relative timer starts over from then, an
/// absolute one catches up with its grid of 5, 10, 15 ms.
#[test]
fn a_late_relative_timer_starts_over_and_an_absolute_one_keeps_its_grid() {
    for (mode, second, third) in [
        ("", (7000, 4000), (12_000, 4000)),
        (",'mode':'absolute'", (7000, 2000), (10_000, 4000)),
    ] {
        let tasks = format!(
            "'a':{{'phases':{{
            'long':{{'run':7000,'timer':{{'ref':'unique','period':5000{mode}}}}},
            'short':{{'loop':2,'run':1000,'timer':{{'ref':'unique','period':5000}}}}}},'loop':1}}"
        );
        let rows = rows(&tasks, 50 * MS);
        let columns: Vec<_> = rows
            .iter()
            .map(|row| (row.start_us, row.slack_us))
            .collect();
        assert_eq!(columns, [(0, -2000), second, third], "{mode}");
    }
}

/// Each thread moves a shared timer on, so two threads of one task are woken in turn.
#[test]
fn a_shared_timer_is_moved_on_by_every_thread() {
    let outcome = run(
        "'a':{'instance':2,'loop':2,'timer':{'ref':'tick','period':5000}}",
        50 * MS,
    );
    assert_eq!(starts(&outcome, 0), [0, 5000]);
    assert_eq!(starts(&outcome, 1), [0, 10_000]);
    let ends: Vec<u64> = rows_of(&outcome, 1).iter().map(|row| row.end_us).collect();
    assert_eq!(ends, [10_000, 20_000]);
}

#[test]
fn unique_timers_are_one_for_each_thread() {
    let tasks = "'a':{'instance':2,'loop':2,'timer':{'ref':'unique','period':5000}}";
    let outcome = run(tasks, 50 * MS);
    assert_eq!(starts(&outcome, 0), [0, 5000]);
    assert_eq!(starts(&outcome, 1), [0, 5000]);
}

#[test]
fn slack_is_of_the_last_timer_or_of_all() {
    let tasks = "'a':{'loop':1,'run':1000,'timer':{'ref':'unique0','period':5000},
        'run':2000,'timer':{'ref':'unique0','period':5000}}";
    let slack = |more: &str| {
        let (workload, _) = compiled(&with_global(tasks, more), &options());
        let row = rows_of(&ideal::run(&workload, 50 * MS), 0)[0];
        (
            row.slack_us,
            row.configured_period_us,
            row.configured_duration_us,
        )
    };
    assert_eq!(slack(""), (3000, 10_000, 3000));
    assert_eq!(slack("'cumulative_slack':true"), (7000, 10_000, 3000));
}

#[test]
fn a_delay_moves_the_start_and_the_timers() {
    let tasks = "'a':{'delay':3000,'loop':1,'run':1000,'timer':{'ref':'unique','period':5000}}";
    let row = rows(tasks, 50 * MS)[0];
    assert_eq!((row.start_us, row.end_us, row.slack_us), (3000, 8000, 4000));
}

/// Two rounds of the task, in each the first phase twice and the second once.
#[test]
fn loops_of_tasks_and_phases() {
    let outcome = run(
        "'a':{'loop':2,'phases':{'p':{'loop':2,'run':100},'q':{'run':300}}}",
        50 * MS,
    );
    assert_eq!(starts(&outcome, 0), [0, 100, 200, 500, 600, 700]);
    assert_eq!(outcome.exits.len(), 1);
    let never = run("'a':{'loop':0,'phases':{'p':{'run':100}}}", 50 * MS);
    assert!(never.rows.is_empty() && never.exits.len() == 1);
    let forever = run("'a':{'run':1000}", 10 * MS);
    assert_eq!((forever.rows.len(), forever.exits.len()), (9, 0));
}

#[test]
fn a_phase_that_takes_no_time_still_ends() {
    assert_eq!(
        run("'a':{'loop':1000,'run':0,'mem':1}", MS).rows.len(),
        1000
    );
}

#[test]
fn mutexes_exclude() {
    let one = "'loop':1,'lock':'m','run':1000,'unlock':'m'";
    let outcome = run(&format!("'a':{{{one}}},'b':{{{one}}}"), 50 * MS);
    assert_eq!(rows_of(&outcome, 0)[0].end_us, 1000);
    assert_eq!(rows_of(&outcome, 1)[0].end_us, 2000);
}

#[test]
fn signals_wake_one_and_broadcasts_all() {
    let waiter = "'loop':1,'lock':'m','wait':{'ref':'c','mutex':'m'},'unlock':'m'";
    let ended = |waker: &str| {
        let tasks = format!("'w':{{'instance':3,{waiter}}},'b':{{'loop':1,'sleep':1000,{waker}}}");
        run(&tasks, 50 * MS).exits.len() - 1
    };
    assert_eq!(ended("'signal':'c'"), 1);
    assert_eq!(ended("'broad':'c'"), 3);
    assert_eq!(ended("'run':1"), 0);
}

/// `sync` wakes the other and then waits itself, until it is woken in turn.
#[test]
fn sync_wakes_and_waits() {
    let outcome = run(
        "'a':{'loop':1,'lock':'m','wait':{'ref':'c','mutex':'m'},'unlock':'m','run':500,'signal':'c'},
         'b':{'loop':1,'sleep':1000,'lock':'m','sync':{'ref':'c','mutex':'m'},'unlock':'m'}",
        50 * MS,
    );
    assert_eq!(rows_of(&outcome, 0)[0].end_us, 1500);
    assert_eq!(rows_of(&outcome, 1)[0].end_us, 1500);
}

/// Measured with rt-app 1.0 too: the resume at 100 ms finds no thread, since it names a task whose
/// thread waits under another name.
#[test]
fn suspended_threads_wait_for_their_name() {
    let outcome = run(
        "'A':{'loop':2,'suspend':'X','run':10},
         'B':{'loop':1,'sleep':50000,'resume':'X','sleep':50000,'resume':'A','sleep':50000,'resume':'X'}",
        500 * MS,
    );
    let ends: Vec<u64> = rows_of(&outcome, 0).iter().map(|row| row.end_us).collect();
    assert_eq!(ends, [50_010, 150_010]);
}

#[test]
fn a_resume_is_lost_if_nobody_waits_but_a_post_is_not() {
    let late = |wait: &str, wake: &str| {
        let tasks = format!("'a':{{'loop':1,'sleep':2000,{wait}}},'b':{{'loop':1,{wake}}}");
        run(&tasks, 50 * MS).exits.len()
    };
    assert_eq!(late("'suspend'", "'resume':'a'"), 1);
    assert_eq!(late("'sem_wait':'s'", "'sem_post':'s'"), 2);
}

/// Three users: two instances and another task. All go on when the last comes.
#[test]
fn barriers_wait_for_all_users() {
    let outcome = run(
        "'a':{'instance':2,'loop':1,'sleep':1000,'barrier':'B','run':10},
         'b':{'loop':1,'sleep':4000,'barrier':'B','run':10}",
        50 * MS,
    );
    for index in 0..3 {
        assert_eq!(rows_of(&outcome, index)[0].end_us, 4010);
    }
}

#[test]
fn a_barrier_can_be_used_again() {
    let outcome = run(
        "'a':{'loop':3,'sleep':1000,'barrier':'B'},'b':{'loop':3,'sleep':4000,'barrier':'B'}",
        50 * MS,
    );
    assert_eq!(starts(&outcome, 0), [0, 4000, 8000]);
    assert_eq!(starts(&outcome, 1), [0, 4000, 8000]);
}

#[test]
fn yields() {
    assert_eq!(
        run("'a':{'loop':3,'run':100,'yield'}", 50 * MS)
            .yields
            .len(),
        3
    );
}

#[test]
fn forked_threads_get_numbers_and_timers_of_their_own() {
    let outcome = run(
        "'a':{'loop':2,'sleep':1000,'fork':'child'},'b':{'instance':2,'loop':1,'run':5},
         'child':{'instance':0,'delay':500,'loop':1,'run':100,
            'timer':{'ref':'unique','period':4000}}",
        50 * MS,
    );
    // Threads 0 to 2 exist from the start. Timers count from the common start, not from the fork.
    let first = rows_of(&outcome, 3)[0];
    assert_eq!(
        (first.start_us, first.end_us, first.slack_us),
        (1000, 4500, 3400)
    );
    assert_eq!(starts(&outcome, 4), [2000]);
    assert_eq!(outcome.exits.len(), 5);
}

#[test]
fn a_task_may_fork_itself_up_to_a_limit() {
    let (workload, _) = compiled(
        &with_global("'a':{'loop':1,'run':1,'fork':'a'}", ""),
        &options(),
    );
    let outcome = ideal::run(&workload, 1000 * MS);
    // The first thread and 1024 children; the last finds the limit.
    assert_eq!(outcome.exits.len(), 1025);
    assert_eq!(workload.metrics, ["rt-app/fork_limit_reached"]);
    assert_eq!(outcome.counts[&0], 1);
}

#[test]
fn threads_begin_as_their_tasks_say() {
    let text = with_global(
        "'fair':{'run':1,'cpus':[1,3],'priority':-5,'dl-runtime':1},
         'real':{'run':1,'policy':'SCHED_RR','priority':7,'instance':2},
         'idle':{'run':1,'policy':'SCHED_IDLE','taskgroup':'/x/y'},
         'none':{'run':1,'instance':0}",
        "'duration':2,'default_policy':'SCHED_BATCH'",
    );
    let (workload, compiled) = compiled(&text, &options());
    let names: Vec<&str> = compiled
        .threads
        .iter()
        .map(|thread| thread.name.as_str())
        .collect();
    assert_eq!(names, ["fair-0", "real-1", "real-2", "idle-3"]);
    assert_eq!(compiled.end_ns, Some(2_000 * MS));
    let [fair, real, real2, idle] = &workload.tasks[..] else {
        panic!("four threads")
    };
    assert_eq!(
        (fair.policy, fair.nice, fair.rt_priority),
        (Policy::Batch, -5, 0)
    );
    assert_eq!(fair.affinity, Some([Cpu(1), Cpu(3)].into_iter().collect()));
    // The kernel does not go below 0.1 ms.
    assert_eq!(fair.custom_slice_ns, Some(100_000));
    assert_eq!(
        (real.policy, real.nice, real.rt_priority),
        (Policy::RoundRobin, 0, 7)
    );
    assert_eq!(
        (real.program, real.statistics.as_deref()),
        (real2.program, Some("real"))
    );
    assert_eq!(real.affinity, Some(CpuSet::first(4)));
    assert_eq!((idle.policy, idle.nice), (Policy::Idle, 0));
    let paths: Vec<(&str, GroupId)> = workload
        .groups
        .iter()
        .map(|group| (group.path.as_str(), group.parent))
        .collect();
    assert_eq!(paths, [("/x", GroupId::ROOT), ("/x/y", GroupId(1))]);
    assert_eq!((idle.group, fair.group), (GroupId(2), GroupId::ROOT));
}

#[test]
fn a_file_without_global_logs_nothing() {
    let (workload, compiled) = compiled("{'tasks':{'a':{'loop':1,'run':1}}}", &options());
    assert!(compiled.end_ns.is_none());
    assert!(ideal::run(&workload, MS).rows.is_empty());
}

/// Changes of one thread in order: when, and which attributes.
fn changes(tasks: &str, thread: &str) -> Vec<(u64, AttributesSpec)> {
    let options = RtAppOptions {
        has_clamps: true,
        ..options()
    };
    let (workload, _) = compiled(&with_global(tasks, ""), &options);
    let outcome = ideal::run(&workload, 20 * MS);
    let of_thread = outcome.changes.iter().filter(|(_, name, _)| name == thread);
    of_thread
        .map(|(at, _, id)| (at / 1000, workload.attributes[id.0 as usize].clone()))
        .collect()
}

fn policy(policy: Policy, rt_priority: u8, nice: Option<i32>) -> AttributesSpec {
    AttributesSpec {
        policy: Some((policy, rt_priority)),
        nice,
        ..AttributesSpec::default()
    }
}

fn affinity(cpus: &[u32]) -> AttributesSpec {
    let affinity = Some(cpus.iter().map(|cpu| Cpu(*cpu)).collect());
    AttributesSpec {
        affinity,
        ..AttributesSpec::default()
    }
}

#[test]
fn clamps_are_set_at_the_start_and_by_phases_that_say_one() {
    let tasks = "'a':{'cpus':[0],'util_min':100,'util_max':-1,'loop':1,'phases':{
            'p':{'run':1000},
            'q':{'run':1000,'util_max':700},
            'r':{'run':1000,'policy':'SCHED_FIFO','util_min':-1}}}";
    let options = RtAppOptions {
        has_clamps: true,
        ..options()
    };
    let (workload, _) = compiled(&with_global(tasks, ""), &options);
    let clamps = workload.tasks[0].clamps;
    assert_eq!((clamps.min, clamps.max), (Some(100), None));
    let found: Vec<_> = changes(tasks, "a-0")
        .into_iter()
        .filter(|(_, change)| change.affinity.is_none())
        .collect();
    let clamped = |min, max, change: AttributesSpec| AttributesSpec {
        clamps: Clamps { min, max },
        ..change
    };
    let expected = [
        (
            1000,
            clamped(Wish::Keep, Wish::Set(700), AttributesSpec::default()),
        ),
        (
            2000,
            clamped(Wish::Reset, Wish::Keep, policy(Policy::Fifo, 10, None)),
        ),
    ];
    assert_eq!(found, expected);
}

/// Each phase is entered twice, but what is in force already is not set again.
#[test]
fn phases_set_what_changes() {
    let found = changes(
        "'a':{'cpus':[0],'loop':2,'phases':{
            'p':{'run':1000},
            'q':{'run':1000,'cpus':[1],'policy':'SCHED_FIFO'},
            'r':{'run':1000,'cpus':[1],'policy':'SCHED_OTHER'}}}",
        "a-0",
    );
    let expected = [
        (1000, affinity(&[1])),
        (1000, policy(Policy::Fifo, 10, None)),
        (2000, policy(Policy::Normal, 0, Some(0))),
        (3000, affinity(&[0])),
        (4000, affinity(&[1])),
        (4000, policy(Policy::Fifo, 10, None)),
        (5000, policy(Policy::Normal, 0, Some(0))),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_phase_alone_in_changing_sets_it_once() {
    let found = changes(
        "'a':{'loop':3,'phases':{'p':{'run':1000},'q':{'run':1000,'priority':5,'taskgroup':'/g'}}}",
        "a-0",
    );
    let group = AttributesSpec {
        group: Some(GroupId(1)),
        ..AttributesSpec::default()
    };
    assert_eq!(
        found,
        [(1000, policy(Policy::Normal, 0, Some(5))), (1000, group)]
    );
}

/// A forked thread sets its own policy, and keeps its parent's CPUs unless told otherwise.
#[test]
fn forked_threads_set_their_own_attributes() {
    let tasks = "'a':{'loop':1,'phases':{
            'p':{'cpus':[2],'run':1000,'fork':'plain'},
            'q':{'cpus':[3],'run':1000,'fork':'placed','sleep':1}}},
        'plain':{'instance':0,'loop':2,'phases':{
            'x':{'run':100},'y':{'cpus':[0],'run':100}}},
        'placed':{'instance':0,'loop':1,'cpus':[1],'policy':'SCHED_RR','taskgroup':'','run':100}";
    let other = policy(Policy::Normal, 0, Some(0));
    let expected = [
        (1000, other),
        (1100, affinity(&[0])),
        (1200, affinity(&[2])),
        (1300, affinity(&[0])),
    ];
    assert_eq!(changes(tasks, "plain"), expected);
    let expected = [
        (2000, policy(Policy::RoundRobin, 10, None)),
        (2000, affinity(&[1])),
    ];
    assert_eq!(changes(tasks, "placed"), expected);
}

#[test]
fn every_event_of_the_fixture_compiles() {
    let text = EVERY_EVENT
        .replace("\"pi_enabled\" : TRUE", "\"pi_enabled\" : false")
        .replace("\"nodes_membind\" : [ 0 ],", "")
        .replace("\"type\" : \"chase\"", "\"type\" : \"write\"");
    let options = RtAppOptions {
        has_clamps: true,
        ..options()
    };
    let (workload, compiled) = compiled(&text, &options);
    assert_eq!(compiled.threads.len(), 3);
    assert!(!ideal::run(&workload, 100 * MS).rows.is_empty());
}

#[test]
fn several_files_share_a_workload() {
    let mut workload = Workload::default();
    for start_ns in [0, 7 * MS] {
        let text = with_global(
            "'a':{'loop':1,'taskgroup':'/g','run':1000,'sem_post':'s'}",
            "",
        );
        let file = read(&text);
        let options = RtAppOptions {
            start_ns,
            address_space: 9,
            ..options()
        };
        compile(&file, &options, &mut workload).expect("compiles");
    }
    assert_eq!((workload.groups.len(), workload.semaphores.len()), (1, 2));
    assert!(
        workload
            .tasks
            .iter()
            .all(|task| task.address_space == Some(9))
    );
    let outcome = ideal::run(&workload, 50 * MS);
    let starts: Vec<u64> = outcome
        .rows
        .iter()
        .map(|(_, registers)| registers[3])
        .collect();
    assert_eq!(starts, [0, 7 * MS]);
    let row = Row::from_registers(&outcome.rows[1].1, 7 * MS).expect("a row");
    assert_eq!((row.start_us, row.relative_start_us), (7000, 0));
}

#[test]
fn what_cannot_run_is_refused_with_its_place() {
    let timers: String = (0..43)
        .map(|number| format!("'timer':{{'ref':'unique{number}','period':1}},\n"))
        .collect();
    for case in rows::lines(include_str!("cannot_run.txt")) {
        let [text, expected] = rows::cells(case);
        assert_eq!(refusal(text), format!("w.json:{expected}"), "{text}");
    }
    assert_eq!(
        refusal(&format!("{{'tasks':{{'a':{{{timers}}}}}}}")),
        "w.json:43:1: timer \"unique42\" is the thread's number 43; a task may have 42 of its own",
    );
}

/// CPU 0 has half of the nominal speed. A loop takes 12 ns at that, so calibration finds 24 on
/// CPU 0, and 1 ms of `run` is half as much work as where it is calibrated on CPU 1.
#[test]
fn run_is_time_on_the_cpu_that_calibration_names() {
    for (calibration, us) in [("'CPU0'", 500), ("'CPU1'", 1000), ("'CPU9'", 1000)] {
        let text = format!(
            "{{'tasks':{{'a':{{'loop':1,'run':1000}}}},'global':{{'calibration':{calibration},
             'logdir':'/tmp'}}}}"
        );
        let options = RtAppOptions {
            capacities: vec![512, 1024, 1024, 1024],
            ..options()
        };
        let (workload, _) = compiled(&text, &options);
        let row = &rows_of(&ideal::run(&workload, 20 * MS), 0)[0];
        assert_eq!(row.run_us, us, "{calibration}");
    }
}
