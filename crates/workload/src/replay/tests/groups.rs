//! Groups of a recording: their limits and periods, who is in them, what is charged to them.

use super::rules::example;
use super::*;

#[test]
fn groups_and_their_limits_come_from_the_files() {
    let mut mini = example();
    let files = [
        ("cpu.weight", "200"),
        ("cpu.max", "50000 100000"),
        ("cpu.max.burst", "20000"),
        ("cpu.idle", "0"),
    ];
    mini.group("/pg", &files, &[2]);
    mini.meta.autogroup = Some(true);
    let replay = inferred(mini, 10_000);
    let group = &replay.groups[replay.group("/pg").unwrap().index()];
    assert_eq!(group.shares, 2048);
    assert_eq!(group.limit.quota_ns, Some(50_000_000));
    assert_eq!(group.limit.burst_ns, 20_000_000);
    let paths: Vec<&str> = replay.groups.iter().map(|g| g.path.as_str()).collect();
    assert_eq!(
        paths,
        ["/", "/pg", "/autogroup/pgbench", "/autogroup/agentd"]
    );
}

#[test]
fn the_phase_of_the_period_shows_in_what_resumes() {
    let mut mini = Mini::new(&[(2, "postgres")]);
    mini.group("/pg", &[("cpu.max", "50000 100000")], &[2]);
    mini.hands_over([0, 10], 0, 0, HARD, 2);
    let mut expected = 0;
    for period in 0..4 {
        let refill = 37_000 + period * 100_000;
        mini.switch(refill - 20_000, 0, 2, "R", 0);
        mini.switch(refill + period, 0, 0, "R", 2);
        expected += 1;
    }
    mini.switch(400_000, 0, 2, "S", 0);
    let replay = inferred(mini, 500_000);
    let group = replay.group("/pg").unwrap();
    let phase = replay.groups[group.index()].phase.unwrap();
    assert_eq!((phase.agreeing, phase.seen), (expected, expected));
    assert_eq!(
        phase.offset_ns, 37_001_000,
        "the lower median of 37.000 to 37.003 ms"
    );
    assert_eq!(replay.period_phase_ns(group, 50_000_000), Some(37_001_000));
    assert_eq!(replay.period_phase_ns(group, 20_000_000), Some(17_001_000));
}

#[test]
fn a_part_of_a_recording_knows_who_was_in_which_group() {
    let mut mini = Mini::new(&[(1, "parent"), (2, "parent"), (3, "other")]);
    let stat = ("cpu.stat", "nr_periods 1\nnr_throttled 0\nthrottled_usec 0");
    mini.group("/pg", &[("cpu.max", "50000 100000"), stat], &[1]);
    mini.switch(0, 0, 0, "R", 1);
    mini.fork(100, 0, 1, 2);
    mini.switch(200, 0, 1, "S", 2);
    mini.switch(5100, 0, 2, "R", 3);
    mini.switch(5200, 0, 3, "S", 2);
    mini.switch(5300, 0, 2, "S", 0);
    let mut recording = mini.recording(6000);
    let after = serde_json::json!({
        "/": { "tasks": [3] },
        "/pg": { "cpu.max": "50000 100000", "cpu.stat": stat.1, "tasks": [1, 2] },
    });
    recording.cgroups_after = Some(serde_json::from_value(after).unwrap());
    // 2 was forked before the window, so only the list at the end has it.
    let window = Adjust {
        window_ns: Some((5_000_000, 6_000_000)),
        ..Adjust::default()
    };
    let replay = infer(&window.cut(&recording).unwrap(), &InferOptions::default()).unwrap();
    let pg = replay.group("/pg").unwrap();
    let thread = replay.threads.iter().find(|thread| thread.pid == 2);
    assert_eq!(thread.unwrap().group, pg);
    // Counters of the whole recording say nothing of a part.
    assert!(replay.measured().groups.is_empty());
}

#[test]
fn the_counters_say_what_is_charged_of_runs_and_of_wakeups_on_idle_cpus() {
    // Woken on the idle CPU by an interrupt 10 and 20 µs before the switch in, and by that of the
    // other CPU, which is seen 10 µs after its waking, 5 µs before it; over another thread that is
    // no matter.
    let recorded = |usage_usec: Option<u64>| {
        let mut mini = Mini::new(&[(1, "svc"), (2, "svc"), (3, "svc"), (4, "other")]);
        let stat = |usage_usec: u64| format!("usage_usec {usage_usec}\nnr_periods 1");
        mini.group("/svc", &[("cpu.stat", &stat(500))], &[1, 2, 3]);
        for (us, cpu, waking_cpu, pid) in [(100, 0, 0, 1), (300, 0, 0, 2), (500, 0, 1, 3)] {
            mini.waking(us, waking_cpu, 0, HARD, pid);
            let woken_us = us + u64::from(waking_cpu) * 10;
            mini.woken_on(woken_us, cpu, 0, HARD, (pid, cpu));
            let run_us = woken_us + [10, 20, 5][pid as usize - 1];
            mini.switch(run_us, cpu, 0, "R", pid);
            mini.switch(run_us + 30, cpu, pid, "S", 0);
        }
        mini.switch(700, 0, 0, "R", 4);
        mini.waking(710, 0, 4, HARD, 1);
        mini.woken_on(710, 0, 4, HARD, (1, 0));
        mini.switch(720, 0, 4, "R", 1);
        mini.switch(750, 0, 1, "S", 0);
        let mut recording = mini.recording(1000);
        let after = usage_usec.map(|usec| {
            serde_json::json!({
                "/": { "tasks": [4] },
                "/svc": { "cpu.stat": stat(500 + usec), "tasks": [1, 2, 3] },
            })
        });
        recording.cgroups_after = after.map(|after| serde_json::from_value(after).unwrap());
        let replay = infer(&recording, &InferOptions::default()).unwrap();
        assert_conserved(&replay);
        let of_services = replay
            .activations
            .iter()
            .filter(|one| replay.threads[one.thread.index()].name == "svc");
        of_services
            .map(|one| work_of(one) / 1000)
            .collect::<Vec<u64>>()
    };
    assert_eq!(recorded(None), [30, 30, 30, 30], "no counter, nothing more");
    // Charged with 116 of 120 µs that it ran.
    assert_eq!(recorded(Some(116)), [29, 29, 29, 29]);
    // Less than half: it counts others.
    assert_eq!(recorded(Some(50)), [30, 30, 30, 30]);
    // 21 of 35 µs: three fifths of 10, of 20 and of 5.
    assert_eq!(recorded(Some(141)), [36, 30, 42, 33]);
    // No more than all of it.
    assert_eq!(recorded(Some(999)), [40, 30, 50, 35]);
}

#[test]
fn a_thread_that_preempts_is_charged_from_its_wakeup_on() {
    // A client that runs for 120 µs wakes a service, which preempts it 8 µs later for 20 µs.
    let ran_us = |waking_cpu: u32, context: Context, second: bool, until_us: u64| {
        let mut mini = Mini::new(&[(1, "client"), (2, "svc"), (3, "other"), (4, "third")]);
        mini.hands_over([0, 0], 0, 0, HARD, 1);
        let waker = if waking_cpu == 0 { 1 } else { 3 };
        mini.waking(100, waking_cpu, waker, SOFT, 2);
        mini.woken_on(102, waking_cpu, waker, context, (2, 0));
        if second {
            mini.woken_on(106, 0, 1, context, (4, 0));
        }
        mini.switch(until_us, 0, 1, "R", 2);
        mini.switch(until_us + 20, 0, 2, "S", 1);
        mini.switch(until_us + 40, 0, 1, "S", 0);
        let replay = inferred(mini, 9000);
        assert_conserved(&replay);
        ["client", "svc"].map(|name| of(&replay, name)[0].1)
    };
    let preempts = SOFT.with_need_resched();
    assert_eq!(ran_us(0, preempts, false, 110), [122, 28]);
    // No reschedule is pending.
    assert_eq!(ran_us(0, SOFT, false, 110), [130, 20]);
    // The second wakeup reads the clock again.
    assert_eq!(ran_us(0, preempts, true, 110), [126, 24]);
    // Another CPU woke it: it read the clock at the waking.
    assert_eq!(ran_us(1, SOFT, false, 110), [120, 30]);
    // A slice may have ended.
    assert_eq!(ran_us(1, SOFT, false, 3110), [3130, 20]);
    // A source without flags.
    assert_eq!(ran_us(0, Context::UNKNOWN, false, 110), [122, 28]);
}

#[test]
fn a_reschedule_that_keeps_the_thread_ends_no_run() {
    // A tick at 100 µs wakes another thread and makes a reschedule pending, which takes the same
    // thread again; at 900 µs its slice ends.
    let ran_us = |shows_the_same: bool| {
        let mut mini = Mini::new(&[(1, "client"), (2, "svc"), (3, "kworker/0:0")]);
        mini.hands_over([0, 0], 0, 0, HARD, 1);
        mini.waking(100, 0, 1, SOFT, 3);
        mini.woken_on(102, 0, 1, SOFT.with_need_resched(), (3, 0));
        if shows_the_same {
            mini.waking(500, 0, 1, TASK, 2);
        }
        mini.switch(900, 0, 1, "R", 2);
        mini.switch(920, 0, 2, "S", 1);
        mini.switch(940, 0, 1, "S", 0);
        of(&inferred(mini, 9000), "client")[0].1
    };
    assert_eq!(ran_us(true), 900 + 20);
    assert_eq!(ran_us(false), 102 + 20, "no event shows that it went on");
}

/// Two services run `python3` beside each other, one of them with a pool of two workers.
///
/// ```text
///  µs    CPU 0                          CPU 1
///   0    python3 of /web    100 µs      python3 of /batch    9000 µs
///  100   worker-1, then worker-2
/// ```
fn two_services() -> schedcast_trace::Recording {
    let names = [
        (1, "python3"),
        (2, "python3"),
        (3, "worker-1"),
        (4, "worker-2"),
        (5, "worker-7"),
    ];
    let mut mini = Mini::new(&names);
    for (us, cpu, pid, for_us) in [
        (0, 0, 1, 100),
        (0, 1, 2, 9000),
        (200, 0, 3, 10),
        (300, 0, 4, 30),
        (400, 0, 5, 50),
    ] {
        mini.hands_over([us, us], cpu, 0, HARD, pid);
        mini.switch(us + for_us, cpu, pid, "S", 0);
    }
    mini.group("/web", &[], &[1, 3, 4]);
    mini.group("/batch", &[], &[2]);
    mini.recording(10_000)
}

#[test]
fn threads_of_one_name_in_two_groups_have_their_own_figures() {
    let replay = infer(&two_services(), &InferOptions::default()).unwrap();
    let subjects: Vec<&str> = replay.threads.iter().map(|t| t.subject.as_str()).collect();
    let expected = [
        "python3@/web",
        "python3@/batch",
        "worker-*",
        "worker-*",
        "worker-7",
    ];
    assert_eq!(subjects, expected);
    let measured = replay.measured();
    let p99_us = |subject: &str| {
        let threads = measured.threads.iter().find(|one| one.name == subject);
        let latency = threads.unwrap().activation_latency;
        (latency.count, latency.p99_ns / 1000)
    };
    assert_eq!(p99_us("python3@/web"), (1, 100));
    assert_eq!(p99_us("python3@/batch"), (1, 9000));
    assert_eq!(p99_us("worker-*"), (2, 30));
    assert_eq!(p99_us("worker-7"), (1, 50));
}

#[test]
fn threads_that_are_called_as_a_subject_of_the_machine_are_told_from_it() {
    let mut mini = Mini::new(&[(1, "machine"), (2, "cgroup::tests::"), (3, "cgroups")]);
    for (at, pid) in [(0, 1), (100, 2), (200, 3)] {
        mini.wakes_for_nothing(at, pid);
    }
    let replay = inferred(mini, 10_000);
    let subjects: Vec<&str> = replay.threads.iter().map(|t| t.subject.as_str()).collect();
    assert_eq!(
        subjects,
        ["thread:machine", "thread:cgroup::tests::", "cgroups"]
    );
}
