//! One rule at a time.

use super::*;
use schedcast_base::assert_starts;
use schedcast_kernel::platform::Op;
use schedcast_sim::workload::ArrivalContext;
use schedcast_trace::recording::TraceFormat;
use schedcast_trace::{EventKind, LostEvents};

/// The example of the module's documentation.
pub(super) fn example() -> Mini {
    let mut mini = Mini::new(&[(1, "pgbench"), (2, "postgres"), (3, "agentd")]);
    mini.group("/", &[], &[1, 2, 3]);
    mini.waking(0, 0, 0, HARD, 1);
    mini.woken(15, 0, 0, HARD, 1);
    mini.switch(33, 0, 0, "R", 1);
    mini.waking(103, 0, 1, TASK, 2);
    mini.woken(108, 0, 1, TASK, 2);
    mini.switch(130, 0, 1, "S", 2);
    mini.waking(3990, 0, 2, HARD, 3);
    mini.switch(4000, 0, 2, "R", 3);
    mini.switch(4100, 0, 3, "S", 2);
    mini.hands_over([9830, 9866], 0, 2, TASK, 1);
    mini.switch(9900, 0, 1, "S", 0);
    mini
}

#[test]
fn the_worked_example() {
    let replay = inferred(example(), 10_000);
    let postgres = replay.threads_named("postgres").unwrap()[0];
    let pgbench = replay.threads_named("pgbench").unwrap()[0];
    let [first, second] = [0, 1].map(|i| ActivationId(replay.threads[0].activations.start + i));
    let request = ActivationId(replay.threads[postgres.index()].activations.start);
    assert_eq!(pgbench, ThreadId(0));
    assert_eq!(
        of(&replay, "pgbench"),
        [
            (timer(0, 0), 97, vec![run(70), Step::Wake(request), run(27)]),
            (Trigger::Thread(postgres), 34, vec![run(34)]),
        ]
    );
    assert_eq!(
        of(&replay, "postgres"),
        [(
            Trigger::Thread(pgbench),
            9636, // 9736 on the clock, less 100 preempted
            vec![run(9600), Step::Wake(second), run(36)]
        )]
    );
    assert_eq!(
        replay.activations[request.index()].latency_ns(0),
        Some(9_763_000)
    );
    assert_eq!(
        replay.activations[first.index()].wakeup_latency_ns(),
        Some(33_000)
    );
    assert_conserved(&replay);
    assert_eq!(replay.report.notes(), Vec::<String>::new());
}

#[test]
fn costs_of_the_simulator_are_taken_off() {
    let mut price_ns = [0; Op::COUNT];
    price_ns[Op::ContextSwitch as usize] = 1_300;
    price_ns[Op::Wakeup as usize] = 700;
    price_ns[Op::Tick as usize] = 1_500;
    price_ns[Op::TimerInterrupt as usize] = 500;
    price_ns[Op::DeviceInterrupt as usize] = 600;
    let options = InferOptions {
        costs: Costs::new(price_ns, 250),
        ..InferOptions::default()
    };
    let replay = infer(&example().recording(10_000), &options).unwrap();
    let postgres = replay.threads_named("postgres").unwrap()[0];
    let [request] = replay.activations_of(postgres) else {
        panic!("one request");
    };
    // Two switches in, one wakeup, 9636/4000 ticks, one interrupt that wakes.
    let removed_ns = 2 * 1_300 + 700 + 9_636 * (500 + 1_500) / 4_000 + (600 + 700);
    assert_eq!(request.removed_ns, removed_ns);
    assert_eq!(work_of(request), 9_636_000 - removed_ns);
    assert_conserved(&replay);
}

#[test]
fn throttled_time_is_not_work() {
    let mut mini = Mini::new(&[(2, "postgres")]);
    mini.hands_over([0, 10], 0, 0, HARD, 2);
    mini.switch(5_010, 0, 2, "R+", 0); // throttled at its return to user mode
    mini.switch(60_010, 0, 0, "R", 2); // nobody woke it
    mini.switch(62_010, 0, 2, "S", 0);
    let replay = inferred(mini, 70_000);
    assert_eq!(
        of(&replay, "postgres"),
        [(timer(0, 0), 7_000, vec![run(7_000)])]
    );
    let measured = replay.measured();
    assert_eq!(measured.threads[0].activation_latency.p50_ns, 62_010_000);
}

#[test]
fn an_interrupt_of_another_cpu_is_no_timer_of_the_thread() {
    let mut mini = Mini::new(&[(2, "cp")]);
    for (us, cpu) in [(0, 0), (1_000, 1)] {
        let wakeup = mini.wakeup(2, 0);
        mini.push(us, cpu, 0, HARD, EventKind::Waking(wakeup));
        mini.switch(us + 10, 0, 0, "R", 2);
        mini.switch(us + 110, 0, 2, "S", 0);
    }
    let replay = inferred(mini, 2_000);
    let work = || vec![run(100)];
    assert_eq!(
        of(&replay, "cp"),
        [(timer(0, 0), 100, work()), (hard(1_000, 1), 100, work())]
    );
}

#[test]
fn a_device_wait_stays_inside_its_activation() {
    let mut mini = Mini::new(&[(2, "cp")]);
    mini.hands_over([0, 10], 0, 0, HARD, 2);
    mini.switch(110, 0, 2, "D", 0);
    mini.waking(900, 1, 0, HARD, 2);
    mini.switch(910, 0, 0, "R", 2);
    mini.switch(950, 0, 2, "S", 0);
    let replay = inferred(mini, 1_000);
    let io = Step::Io { delay_ns: 790_000 };
    assert_eq!(
        of(&replay, "cp"),
        [(timer(0, 0), 140, vec![run(100), io, run(40)])]
    );
    assert_eq!(replay.report.device_waits, 1);
}

#[test]
fn a_wait_that_a_thread_ends_waits_for_that_thread() {
    let mut mini = Mini::new(&[(2, "writer"), (3, "journal")]);
    mini.hands_over([0, 0], 0, 0, HARD, 2);
    mini.waking(50, 0, 2, TASK, 3);
    mini.switch(60, 0, 2, "D", 3);
    mini.hands_over([90, 100], 0, 3, TASK, 2);
    mini.switch(120, 0, 2, "S", 0);
    let replay = inferred(mini, 200);
    let journal = ActivationId(1);
    let handover = HandoverId(0);
    assert_eq!(
        of(&replay, "writer")[0].2,
        [
            run(50),
            Step::Wake(journal),
            run(10),
            Step::Wait(handover),
            run(20)
        ]
    );
    assert_eq!(
        of(&replay, "journal")[0].2,
        [run(30), Step::Post(handover), run(10)]
    );
}

/// A compiler sleeps on a lock in state `D`. How long, if it takes as long as recorded.
fn waits_for_a_lock(holder: &'static str, in_group: &[i32], asks: bool) -> Option<u64> {
    let mut mini = Mini::new(&[(2, "cc1"), (3, holder)]);
    mini.group("/job", &[("cpu.max", "50000 100000")], in_group);
    mini.hands_over([0, 0], 0, 0, HARD, 2);
    if asks {
        mini.waking(50, 0, 2, TASK, 3);
    }
    mini.switch(60, 0, 2, "D", 3);
    mini.hands_over([90, 100], 0, 3, TASK, 2);
    mini.switch(120, 0, 2, "S", 0);
    let replay = inferred(mini, 200);
    let steps = of(&replay, "cc1").swap_remove(0).2;
    steps.iter().find_map(|step| match step {
        Step::Io { delay_ns } => Some(*delay_ns),
        _ => None,
    })
}

#[test]
fn a_lock_that_a_stranger_holds_by_chance_takes_as_long_as_recorded() {
    assert_eq!(waits_for_a_lock("kswapd0", &[2], false), Some(30_000));
    assert_eq!(waits_for_a_lock("sh", &[2], false), Some(30_000));
    assert_eq!(waits_for_a_lock("cc1", &[2, 3], false), None, "one group");
    assert_eq!(waits_for_a_lock("sh", &[2], true), None, "it was asked");
}

#[test]
fn a_waking_while_it_runs_begins_the_next_activation() {
    let mut mini = Mini::new(&[(2, "loop"), (3, "client")]);
    mini.hands_over([0, 0], 0, 0, SOFT, 2);
    mini.switch(0, 1, 0, "R", 3);
    mini.waking(30, 1, 3, TASK, 2); // `loop` was about to sleep
    mini.woken(31, 1, 3, TASK, 2);
    mini.switch(50, 0, 2, "S", 0);
    mini.switch(60, 1, 3, "S", 0);
    let replay = inferred(mini, 100);
    let soft = Trigger::outside(0, 0, ArrivalContext::SoftIrq);
    let client = replay.threads_named("client").unwrap()[0];
    assert_eq!(
        of(&replay, "loop"),
        [
            (soft, 30, vec![run(30)]),
            (Trigger::Thread(client), 20, vec![run(20)])
        ]
    );
    assert_eq!(replay.report.incomplete.merged, 1);
    assert_conserved(&replay);
    let measured = replay.measured();
    let threads = &measured.threads;
    let turning = threads.iter().find(|one| one.name == "loop").unwrap();
    assert_eq!(turning.activation_latency.count, 2);
    let turn = &turning.turn_latency;
    let found = (turn.count, turn.max_ns);
    assert_eq!(found, (1, 50_000), "from the first wakeup to the sleep");
}

/// As `a_waking_while_it_runs_begins_the_next_activation`, but the sleeper is off its queue:
/// `sched_wakeup` comes after the switch out, and the sleep that it ends is that one.
#[test]
fn a_waking_on_the_way_to_sleep_ends_that_sleep() {
    for (state, sleeps_inside) in [("D", true), ("S", false)] {
        let mut mini = Mini::new(&[(2, "locker"), (3, "holder")]);
        mini.hands_over([0, 0], 0, 0, SOFT, 2);
        mini.switch(0, 1, 0, "R", 3);
        mini.waking(29, 1, 3, TASK, 2);
        mini.switch(30, 0, 2, state, 0);
        mini.woken(31, 1, 3, TASK, 2);
        mini.switch(40, 0, 0, "R", 2);
        mini.switch(50, 0, 2, "S", 0);
        mini.switch(60, 1, 3, "S", 0);
        let replay = inferred(mini, 100);
        let incomplete = replay.report.incomplete;
        assert_eq!((incomplete.merged, incomplete.unseen_wakeups), (0, 0));
        let holder = replay.threads_named("holder").unwrap()[0];
        let steps: Vec<Vec<Step>> = of(&replay, "locker").into_iter().map(|one| one.2).collect();
        if sleeps_inside {
            let [run_before, Step::Wait(handover), run_after] = steps[0][..] else {
                panic!("{steps:?}")
            };
            assert_eq!((run_before, run_after), (run(30), run(10)));
            let posts = &of(&replay, "holder")[0].2;
            assert!(posts.contains(&Step::Post(handover)), "{posts:?}");
        } else {
            assert_eq!(steps, [[run(30)], [run(10)]]);
            assert_eq!(of(&replay, "locker")[1].0, Trigger::Thread(holder));
        }
        assert_conserved(&replay);
    }
}

/// Two backends of one client; the first waits for a lock that the second holds, in each of 20
/// rounds.
#[test]
fn a_lock_inside_a_request_is_a_wait_and_no_message() {
    let mut mini = Mini::new(&[(2, "backend"), (3, "backend"), (4, "client")]);
    for round in 0..20 {
        let at = round * 1000;
        mini.hands_over([at, at], 0, 0, HARD, 4);
        mini.waking(at + 10, 0, 4, TASK, 2);
        mini.hands_over([at + 20, at + 30], 0, 4, TASK, 3);
        mini.switch(at + 30, 1, 0, "R", 2);
        mini.switch(at + 60, 1, 2, "S", 0); // waits for the lock
        mini.waking(at + 90, 0, 3, TASK, 2);
        mini.switch(at + 90, 1, 0, "R", 2);
        mini.hands_over([at + 100, at + 100], 0, 3, TASK, 4);
        mini.switch(at + 110, 0, 4, "S", 0);
        mini.waking(at + 130, 1, 2, TASK, 4);
        mini.switch(at + 130, 1, 2, "S", 0);
        mini.switch(at + 130, 0, 0, "R", 4);
        mini.switch(at + 140, 0, 4, "S", 0);
    }
    let replay = inferred(mini, 20_000);
    let client = replay.threads_named("client").unwrap()[0];
    let backends = replay.threads_named("backend").unwrap();
    let waits = backends[0];
    let requests = replay.activations_of(waits);
    assert_eq!(requests.len(), 20);
    for request in requests {
        assert_eq!(request.trigger, Trigger::Thread(client));
        let steps = replay.steps_of(request);
        let [before, Step::Wait(_), after, Step::Wake(_)] = steps else {
            panic!("{steps:?}")
        };
        assert_eq!((*before, *after), (run(30), run(40)));
        let replied_ns = request.replied_ns.unwrap() - request.woken_ns;
        assert_eq!(replied_ns, 120_000, "from asked to answered");
    }
    assert_conserved(&replay);
}

#[test]
fn forks_and_exits() {
    let mut mini = Mini::new(&[(2, "postmaster"), (9, "vacuum")]);
    mini.hands_over([0, 0], 0, 0, HARD, 2);
    mini.fork(20, 0, 2, 9);
    mini.switch(40, 0, 2, "S", 9);
    mini.switch(1_040, 0, 9, "Z", 0);
    // The pid comes again for another thread.
    mini.hands_over([2_000, 2_000], 0, 0, HARD, 2);
    mini.fork(2_010, 0, 2, 9);
    mini.switch(2_020, 0, 2, "S", 9);
    mini.switch(2_030, 0, 9, "S", 0);
    let replay = inferred(mini, 3_000);
    let children = replay.threads_named("vacuum").unwrap();
    let [first, second] = children[..] else {
        panic!("two children of one pid");
    };
    assert_eq!(
        replay.threads[first.index()].origin,
        Origin::Fork(ThreadId(0))
    );
    assert_eq!(
        of(&replay, "postmaster")[0].2,
        [run(20), Step::Fork(first), run(20)]
    );
    assert_eq!(
        of(&replay, "vacuum"),
        [
            (Trigger::Fork, 1_000, vec![run(1_000), Step::Exit]),
            (Trigger::Fork, 10, vec![run(10)]),
        ]
    );
    assert_eq!(replay.activations_of(second).len(), 1);
}

#[test]
fn what_was_under_way_at_start_and_end_is_cut() {
    let mut mini = Mini::new(&[(2, "hog"), (3, "late"), (4, "queued")]);
    mini.switch(500, 0, 2, "R", 4);
    mini.switch(700, 0, 4, "S", 2);
    mini.waking(900, 0, 2, HARD, 3);
    let replay = inferred(mini, 1_000);
    assert_eq!(
        of(&replay, "hog"),
        [(Trigger::Start, 800, vec![run(800)])],
        "500 µs before the first event, 300 µs after the last switch"
    );
    assert_eq!(of(&replay, "queued")[0].0, Trigger::Start);
    assert_eq!(of(&replay, "late"), [(timer(900, 0), 0, vec![])]);
    let incomplete = replay.report.incomplete;
    assert_eq!((incomplete.at_start, incomplete.at_end), (2, 2));
    assert_eq!(replay.measured().threads[0].activation_latency.count, 0);
    assert_conserved(&replay);
}

#[test]
fn a_thread_without_a_visible_wakeup_keeps_its_time() {
    let mut mini = Mini::new(&[(2, "ghost")]);
    mini.switch(5_000_000, 0, 0, "R", 2);
    mini.switch(5_000_100, 0, 2, "S", 0);
    let replay = inferred(mini, 6_000_000);
    assert_eq!(
        of(&replay, "ghost"),
        [(hard(5_000_000, 0), 100, vec![run(100)])]
    );
    assert_eq!(replay.report.incomplete.unseen_wakeups, 1);
}

#[test]
fn missing_switches_are_put_back() {
    let mut mini = Mini::new(&[(2, "seen"), (3, "pgbench")]);
    // Three visible idle exits of 28 µs on CPU 0 …
    for start in [1_000, 2_000, 3_000] {
        mini.waking(start, 0, 0, HARD, 2);
        mini.woken(start, 0, 0, HARD, 2);
        mini.switch(start + 28, 0, 0, "R", 2);
        mini.switch(start + 100, 0, 2, "S", 0);
    }
    // … and one on CPU 1 whose switch is missing: woken at 3500, seen at 3590, asleep at 3600.
    mini.switch(3_100, 1, 2, "S", 0);
    mini.waking(3_500, 1, 0, HARD, 3);
    mini.woken(3_500, 1, 0, HARD, 3);
    mini.waking(3_590, 1, 3, TASK, 2);
    mini.switch(3_600, 1, 3, "S", 0);
    let replay = inferred(mini, 4_000);
    assert_eq!(of(&replay, "pgbench")[0].1, 72, "3528 to 3600");
    assert_eq!(replay.report.repairs.switches, 1);
    assert_eq!(replay.report.repairs.doubt_ns, 90_000);
    assert_conserved(&replay);
}

#[test]
fn unseen_runs_get_the_time_they_agree_on() {
    let mut mini = Mini::new(&[(7, "hidden"), (8, "other")]);
    // `hidden` comes, but its switch out is never written; the next event of the CPU is idle's.
    for (start, next) in [(1_000, 1_300), (2_000, 2_120), (3_000, 5_000)] {
        mini.hands_over([start, start], 0, 0, HARD, 7);
        mini.waking(start + 100, 0, 7, HARD, 8); // still there after 100 µs
        mini.switch(next, 0, 0, "R", 8);
        mini.switch(next + 10, 0, 8, "S", 0);
    }
    let replay = inferred(mini, 6_000);
    let executed: Vec<u64> = of(&replay, "hidden").iter().map(|a| a.1).collect();
    assert_eq!(executed, [100, 100, 100]);
    assert_eq!(replay.report.repairs.switches, 3);
    assert_conserved(&replay);
}

#[test]
fn two_wakings_without_a_run_between_them() {
    let mut mini = Mini::new(&[(7, "hidden")]);
    mini.hands_over([1_000, 1_010], 0, 0, HARD, 7);
    mini.switch(1_210, 0, 7, "S", 0);
    mini.waking(2_000, 0, 0, HARD, 7);
    mini.hands_over([3_000, 3_010], 0, 0, HARD, 7);
    mini.switch(3_210, 0, 7, "S", 0);
    let replay = inferred(mini, 4_000);
    let work: Vec<Step> = of(&replay, "hidden")
        .iter()
        .flat_map(|a| a.2.clone())
        .collect();
    assert_eq!(work, [run(200), run(200), run(200)]);
    assert_eq!(replay.report.assumed_ns, 200_000);
    assert_eq!(replay.report.incomplete.unseen_runs, 1);
    assert_conserved(&replay);
}

#[test]
fn stoppers_are_left_out_and_what_they_wake_keeps_its_time() {
    let mut mini = Mini::new(&[(18, "migration/0"), (2, "waiter")]);
    mini.hands_over([0, 0], 0, 0, HARD, 18);
    for event in [0, 1] {
        mini.set_prio(event, 0);
    }
    mini.hands_over([10, 20], 0, 18, TASK, 2);
    mini.switch(30, 0, 2, "S", 0);
    let replay = inferred(mini, 100);
    assert!(replay.threads[0].left_out);
    assert_eq!(of(&replay, "migration/0"), []);
    assert_eq!(of(&replay, "waiter"), [(hard(10, 0), 10, vec![run(10)])]);
    assert_eq!(replay.report.left_out_ns, 20_000);
    assert_conserved(&replay);
}

#[test]
fn lost_events_are_refused_with_their_place() {
    let mut mini = example();
    mini.counts.lost.push(LostEvents {
        cpu: 1,
        events: Some(37),
        after_ns: None,
        line: 412,
    });
    let recording = mini.recording(10_000);
    let error = infer(&recording, &InferOptions::default()).unwrap_err();
    assert_starts(
        &error,
        "mini/trace.txt:412: 37 events were lost here (1 gaps in all)",
    );
    let options = InferOptions {
        allow_lost_events: true,
        ..InferOptions::default()
    };
    let replay = infer(&recording, &options).unwrap();
    assert!(replay.report.lost_events_allowed);
    assert!(!replay.report.notes().is_empty());
}

#[test]
fn what_the_recorder_lost_is_refused_too() {
    let mut mini = example();
    mini.meta.lost_events = Some(5);
    let error = infer(&mini.recording(10_000), &InferOptions::default()).unwrap_err();
    assert!(error.to_string().contains("lost 5 events"), "{error}");
}

#[test]
fn a_trace_with_fewer_events_than_the_recorder_counted_is_refused() {
    let pages = Some(TraceFormat::TracefsRaw);
    let recording = |told: u64, format: Option<TraceFormat>| {
        let mut mini = example();
        mini.counts.events = 41;
        mini.counts.overwritten = 5;
        mini.meta.events = Some(told);
        mini.meta.trace_format = format;
        mini.recording(10_000)
    };
    let error = infer(&recording(76, pages), &InferOptions::default()).unwrap_err();
    assert_starts(
        &error,
        "mini/trace.txt: the trace has 41 events, expected 76",
    );
    for (told, format) in [(40, pages), (41, pages), (46, pages), (76, None)] {
        assert!(infer(&recording(told, format), &InferOptions::default()).is_ok());
    }
}

#[test]
fn stolen_time_is_told() {
    let mut mini = example();
    mini.meta.steal_ratio = Some(0.0273);
    let notes = inferred(mini, 10_000).report.notes();
    let expected = "the hypervisor took 2.7 % of the machine's time during the recording; 0 ms of it were found in \
                    requests and are not charged to them, the rest counts as their work";
    assert_eq!(notes, [expected]);
    let mut mini = example();
    mini.meta.steal_ratio = Some(0.001);
    assert_eq!(inferred(mini, 10_000).report.notes(), Vec::<String>::new());
}

#[test]
fn an_empty_span_is_refused() {
    let mini = Mini::new(&[]);
    let error = infer(&mini.recording(0), &InferOptions::default()).unwrap_err();
    assert!(matches!(error, ReplayError::NoTime { .. }));
}

#[test]
fn unknown_names_get_the_nearest() {
    let mut mini = example();
    mini.group("/kubepods", &[("cpu.shares", "2048")], &[2]);
    mini.group("/kubepods/pg", &[("cpu.shares", "512")], &[]);
    let replay = inferred(mini, 10_000);
    assert_eq!(replay.group("/kubepods"), Ok(GroupIndex(1)));
    assert_eq!(replay.members(GroupIndex(1)), [ThreadId(1)]);
    let error = replay.group("/kubepods/pq").unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown cgroup `/kubepods/pq`; nearest valid name: `/kubepods/pg`"
    );
    let error = replay.threads_named("postgers").unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown thread name `postgers`; nearest valid name: `postgres`"
    );
}
