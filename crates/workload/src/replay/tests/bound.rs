//! Threads that may run on some CPUs only.

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
    mini.waking(0, 1, 0, HARD, 1);
    mini.switch(10, 1, 0, "R", 1);
    mini.fork(20, 1, 1, 2);
    mini.switch(30, 1, 1, "S", 2);
    mini.switch(40, 1, 2, "S", 0);
    mini.waking(50, 0, 0, HARD, 3);
    mini.switch(60, 0, 0, "R", 3);
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
