//! Threads that may run on some CPUs only, and threads that were moved to a group.

use super::services::played_under;
use super::*;
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::ids::Cpu;
use schedcast_sim::Workload;
use schedcast_trace::BoundThreads;

#[test]
fn threads_stay_on_the_cpus_that_the_recorder_saw_them_restricted_to() {
    let mut mini = Mini::new(&[(1, "bound"), (2, "child"), (3, "free")]);
    mini.group("/svc", &[], &[1, 3]);
    mini.meta.thread_cpus = vec![BoundThreads {
        cpus: vec![1],
        threads: vec![1],
    }];
    mini.hands_over([0, 10], 1, 0, HARD, 1);
    mini.fork(20, 1, 1, 2);
    mini.switch(30, 1, 1, "S", 2);
    mini.switch(40, 1, 2, "S", 0);
    mini.hands_over([50, 60], 0, 0, HARD, 3);
    mini.switch(70, 0, 3, "S", 0);
    let replay = inferred(mini, 100);
    let mut workload = Workload::default();
    let options = CompileOptions::default();
    replay.compile(&mut workload, options).unwrap();
    let affinity = |name: &str| {
        let task = workload.tasks.iter().find(|task| task.name == name);
        task.unwrap().affinity
    };
    let bound = Some(CpuSet::of(Cpu(1)));
    assert_eq!(affinity("bound"), bound);
    // No list has the child, so it has its parent's CPUs.
    let child = replay.threads_named("child").unwrap()[0];
    assert_eq!(replay.threads[child.index()].cpus, bound);
    assert_eq!(affinity("free"), None);
}

/// `sh` forks 2 outside `/svc` at 20 µs; it is moved there and bound, works 30 ms, forks 3, which
/// works 25 ms, and sleeps.
fn started_outside() -> Mini {
    let mut mini = Mini::new(&[(1, "sh"), (2, "server"), (3, "worker")]);
    mini.group("/svc", &[("cpu.max", "10000 100000")], &[]);
    mini.members_after("/svc", &[2]);
    mini.meta.thread_cpus = vec![BoundThreads {
        cpus: vec![0],
        threads: vec![2],
    }];
    mini.hands_over([0, 10], 0, 0, HARD, 1);
    mini.fork(20, 0, 1, 2);
    mini.switch(30, 0, 1, "S", 2);
    mini.fork(30_020, 0, 2, 3);
    mini.switch(30_030, 0, 2, "S", 3);
    mini.switch(55_030, 0, 3, "X", 0);
    mini
}

#[test]
fn a_service_that_starts_while_recording_runs_in_the_group_that_it_was_moved_to() {
    let replay = inferred(started_outside(), 1_000_000);
    let svc = replay.group("/svc").unwrap();
    // No list has the worker any more: it has its parent's group.
    let groups = replay.threads.iter().map(|thread| thread.group);
    assert_eq!(groups.collect::<Vec<_>>(), [GroupIndex::ROOT, svc, svc]);
    let world = played_under(&replay, Some(10_000_000));
    let stat = world.kernel().groups[1].bandwidth.stat;
    assert!(stat.nr_throttled >= 5, "55 ms of work: {stat:?}");
}

#[test]
fn a_service_that_starts_while_recording_has_its_own_cpus() {
    let replay = inferred(started_outside(), 1_000_000);
    let mut workload = Workload::default();
    let options = CompileOptions::default();
    replay.compile(&mut workload, options).unwrap();
    let cpus = workload.forks.iter().map(|fork| fork.affinity);
    // The worker inherits them.
    assert_eq!(cpus.collect::<Vec<_>>(), [Some(CpuSet::of(Cpu(0))), None]);
}

#[test]
fn the_cpus_of_a_cpuset_bind_no_thread_by_themselves() {
    let mut mini = Mini::new(&[(1, "of cpuset"), (2, "bound"), (3, "outside")]);
    let files = [("cpuset.cpus", "0-1"), ("cpuset.effective_cpus", "0-1")];
    mini.group("/svc", &files, &[1, 2]);
    let bound = |cpus: &[u32], threads: &[i32]| BoundThreads {
        cpus: cpus.to_vec(),
        threads: threads.to_vec(),
    };
    mini.meta.thread_cpus = vec![bound(&[0, 1], &[1, 3]), bound(&[1], &[2])];
    for (at, pid) in [(0, 1), (100, 2), (200, 3)] {
        mini.wakes_for_nothing(at, pid);
    }
    let replay = inferred(mini, 300);
    let two: CpuSet = [Cpu(0), Cpu(1)].into_iter().collect();
    let cpus = replay.threads.iter().map(|thread| thread.cpus);
    let expected = [None, Some(CpuSet::of(Cpu(1))), Some(two)];
    assert_eq!(cpus.collect::<Vec<_>>(), expected);
    let mut workload = Workload::default();
    let options = CompileOptions::default();
    replay.compile(&mut workload, options).unwrap();
    assert_eq!(workload.groups[0].cpus, Some(two));
}

#[test]
fn a_limit_that_changed_while_recording_is_named() {
    let noted = |after: &'static str| {
        let mut mini = Mini::new(&[(1, "server")]);
        mini.group("/svc", &[("cpu.max", "30000 100000")], &[1]);
        mini.file_after("/svc", "cpu.max", after);
        mini.wakes_for_nothing(0, 1);
        let notes = inferred(mini, 100).report.notes();
        notes
            .iter()
            .any(|note| note.starts_with("the limit of /svc changed"))
    };
    assert!(noted("60000 100000") && !noted("30000 100000"));
}
