//! Groups whose threads all end.

use super::services::played_until;
use super::*;
use schedcast_base::assert_in;

/// `make` (2) is released at 1 ms, calls `exec` and starts compilers 3 and 4. When 3 has ended it
/// starts 5, and ends when 4 has. On the recorded CPU 3 works 10 ms, 5 works 1 ms, sleeps 2 ms and
/// works 2 ms, and 4 works 1 ms behind them.
fn build(executes: bool) -> Mini {
    let mut mini = started(executes);
    ends(&mut mini, 16_500);
    mini
}

/// The same, and `sh` asks `make` twenty times meanwhile.
fn asked() -> Mini {
    let mut mini = started(true);
    for at in (16_500..20_500).step_by(200) {
        mini.switch(at, 0, 2, "S", 1);
        mini.hands_over([at + 100, at + 100], 0, 1, TASK, 2);
    }
    ends(&mut mini, 20_500);
    mini
}

/// `make` waits for 4, which works 1 ms.
fn ends(mini: &mut Mini, at: u64) {
    mini.switch(at, 0, 2, "S", 4);
    mini.waking(at + 1_000, 0, 4, TASK, 2);
    mini.switch(at + 1_000, 0, 4, "X", 2);
    mini.switch(at + 1_100, 0, 2, "X", 0);
}

/// Until 4 is the only one that is left.
fn started(executes: bool) -> Mini {
    let mut mini = Mini::new(&[(1, "sh"), (2, "make"), (3, "cc"), (4, "cc"), (5, "cc")]);
    mini.group("/svc", &[("cpu.max", "max 100000")], &[2]);
    mini.members_after("/svc", &[]);
    mini.switch(900, 0, 0, "R", 1);
    mini.hands_over([1_000, 1_000], 0, 1, TASK, 2);
    if executes {
        mini.exec(1_050, 0, 2);
    }
    mini.fork(1_100, 0, 2, 3);
    mini.fork(1_150, 0, 2, 4);
    mini.switch(1_200, 0, 2, "S", 3);
    mini.waking(11_200, 0, 3, TASK, 2);
    mini.switch(11_200, 0, 3, "X", 2);
    mini.fork(11_300, 0, 2, 5);
    mini.switch(11_400, 0, 2, "S", 5);
    mini.switch(12_400, 0, 5, "S", 0);
    mini.hands_over([14_400, 14_400], 0, 0, HARD, 5);
    mini.waking(16_400, 0, 5, TASK, 2);
    mini.switch(16_400, 0, 5, "X", 2);
    mini
}

/// How long the job took, µs; `None` if it did not end within a second.
fn took_us(replay: &Replay, quota_ns: Option<u64>) -> Option<u64> {
    let world = played_until(replay, quota_ns, 1_000_000_000);
    let mut metrics = world.probes().metrics.iter();
    let time = metrics.find(|metric| metric.name == "make/time")?;
    Some(time.values.max()? / 1000)
}

#[test]
fn a_group_whose_threads_all_end_is_a_job() {
    let replay = inferred(build(true), 20_000);
    assert_conserved(&replay);
    let [job] = &replay.jobs[..] else {
        panic!("{:?}", replay.jobs)
    };
    assert_eq!((job.subject.as_str(), job.threads.len()), ("make", 4));
    assert!(job.is_whole && job.is_alone);
    assert_eq!((job.begins_ns, job.ends_ns), (1_000_000, 17_600_000));
    let under_way = &inferred(build(false), 20_000).jobs[0];
    assert!(!under_way.is_whole);
    assert_eq!((under_way.begins_ns, under_way.ends_ns), (0, 17_600_000));
}

#[test]
fn a_group_with_a_thread_that_stays_is_none() {
    let mut listed = build(true);
    listed.members_after("/svc", &[9]);
    assert_eq!(inferred(listed, 20_000).jobs, []);
    let mut seen = build(true);
    seen.fork(17_550, 0, 2, 6);
    assert_eq!(inferred(seen, 20_000).jobs, []);
}

/// Compilers share the CPU in the simulation, so that 4 ends before 3. If its message began the
/// exit, as recorded, 5 would never be started.
#[test]
fn a_job_ends_whichever_of_its_threads_is_first() {
    let replay = inferred(build(true), 20_000);
    // 14.5 ms of work in all; 3 works while 5 sleeps, as the end of 4 starts it.
    assert_in!(took_us(&replay, None).unwrap(), 14_500..16_000);
    // 5 ms at once, and the rest at the next two beginnings of periods of 100 ms.
    assert_in!(took_us(&replay, Some(5_000_000)).unwrap(), 100_000..210_000);
    assert_eq!(took_us(&replay, Some(1_000_000)), None);
}

#[test]
fn a_sleep_in_a_job_begins_when_the_job_gets_there() {
    let slept = |replay: &Replay| -> Vec<u64> {
        let compilers = replay.threads_named("cc").unwrap();
        let of = compilers.iter().flat_map(|id| replay.activations_of(*id));
        of.filter_map(|one| one.slept_before_ns).collect()
    };
    assert_eq!(slept(&inferred(build(true), 20_000)), [2_000_000]);
    // A thread outside the group asks twenty times: the timer may be that of a schedule.
    let replay = inferred(asked(), 26_000);
    assert!(!replay.jobs[0].is_alone);
    assert!(slept(&replay).is_empty());
}
