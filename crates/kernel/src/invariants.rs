//! Invariants that hold between any two operations, counted anew from the entities.
//!
//! A run does not ask; tests do, and worlds that are drawn to be tortured. Worked example: a queue
//! says that two tasks of weight 1024 are in it, so its load has to be 2048, its timeline has to
//! hold the one that does not run, and the counters of the queues above have to say two.

use crate::cfs_rq::CfsRq;
use crate::entity::Owner;
use crate::ids::{CfsRqId, Cpu, EntityId, GroupId};
use crate::kernel::Kernel;
use crate::rules::FairClass;
use crate::task::{Policy, TaskState};

/// Counts everything anew: work that grows with the square of tasks and queues.
///
/// # Panics
/// With the first invariant that does not hold.
pub fn check(kernel: &Kernel) {
    for row in 0..kernel.cfs_rqs.len() {
        check_queue(kernel, CfsRqId::from(row));
    }
    for cpu in (0..kernel.cpus()).map(Cpu::from) {
        check_cpu(kernel, cpu);
    }
    for row in 0..kernel.groups.len() {
        check_group(kernel, GroupId::from(row));
    }
    check_tasks(kernel);
}

fn children(kernel: &Kernel, q: CfsRqId) -> Vec<EntityId> {
    let mut tasks = kernel
        .tasks
        .iter()
        .enumerate()
        // Rows of reaped tasks may hold stale entities, but those are never queued.
        .filter(|(row, task)| *row >= kernel.cpus() && task.policy.is_fair())
        .map(|(_, task)| task.se)
        .collect::<Vec<_>>();
    tasks.extend(kernel.cfs_rqs.iter().filter_map(|cfs_rq| cfs_rq.se));
    tasks.retain(|se| {
        let entity = &kernel.entities[se];
        entity.on_rq && entity.cfs_rq == q
    });
    tasks
}

fn check_queue(kernel: &Kernel, q: CfsRqId) {
    let cfs_rq = &kernel.cfs_rqs[q];
    let children = children(kernel, q);
    let name = format!("group {} CPU {}", cfs_rq.group.0, cfs_rq.cpu.0);
    let found = cfs_rq.nr_queued as usize;
    assert_eq!(found, children.len(), "{name}: nr_queued");
    let weight: u64 = children
        .iter()
        .map(|se| kernel.entities[se].load.weight)
        .sum();
    assert_eq!(cfs_rq.load.weight, weight, "{name}: load");
    check_timeline(kernel, cfs_rq, &children, &name);
    check_counts(kernel, cfs_rq, &children, &name);
    for se in &children {
        let entity = &kernel.entities[se];
        if let Some(child) = entity.my_q() {
            let empty = kernel.cfs_rqs[child].nr_queued == 0;
            assert_eq!(
                entity.sched_delayed, empty,
                "{name}: empty groups are delayed"
            );
        }
    }
    // Limits above do not reach a group that was released.
    let parent = kernel.groups[cfs_rq.group].parent;
    if parent.is_some_and(|parent| !kernel.groups[parent].children.contains(&cfs_rq.group)) {
        return;
    }
    let mut throttled = u32::from(cfs_rq.throttled);
    let mut level = cfs_rq.se;
    while let Some(se) = level {
        let parent = &kernel.cfs_rqs[kernel.entities[se].cfs_rq];
        throttled += u32::from(parent.throttled);
        level = kernel.entities[se].parent;
    }
    assert_eq!(cfs_rq.throttle_count, throttled, "{name}: throttle_count");
}

fn check_timeline(kernel: &Kernel, cfs_rq: &CfsRq, children: &[EntityId], name: &str) {
    let mut queued: Vec<EntityId> = children.to_vec();
    if kernel.rules.flat_pick {
        // All tasks of the CPU are in the order of its root queue, none in any other.
        let tasks = kernel
            .tasks
            .iter()
            .filter(|task| cfs_rq.se.is_none() && task.policy.is_fair() && task.cpu == cfs_rq.cpu);
        queued = tasks.map(|task| task.se).collect();
        queued.retain(|se| kernel.entities[se].on_rq);
    }
    queued.retain(|se| cfs_rq.curr != Some(*se));
    let nodes = cfs_rq.timeline.nodes();
    let mut timeline: Vec<EntityId> = nodes.iter().map(|node| node.entity).collect();
    assert!(
        nodes.is_sorted_by(|a, b| (a.key.wrapping_sub(b.key) as i64) <= 0),
        "{name}: order"
    );
    for node in nodes {
        let entity = &kernel.entities[node.entity];
        assert_eq!(node.vruntime, entity.vruntime, "{name}: cached vruntime");
        let key = match kernel.rules.fair {
            FairClass::Cfs => entity.vruntime,
            FairClass::Eevdf => entity.deadline,
        };
        assert_eq!(node.key, key, "{name}: cached key");
    }
    queued.sort();
    timeline.sort();
    assert_eq!(timeline, queued, "{name}: timeline");
    if kernel.rules.fair == FairClass::Eevdf {
        let entities = queued.iter().map(|se| &kernel.entities[se]);
        let load: u64 = entities
            .clone()
            .map(|entity| entity.h_load.in_sums() as u64)
            .sum();
        let sum: i64 = entities
            .map(|entity| {
                let key = entity.vruntime.wrapping_sub(cfs_rq.min_vruntime) as i64;
                key * entity.h_load.in_sums()
            })
            .sum();
        assert_eq!(cfs_rq.avg_load, load, "{name}: avg_load");
        assert_eq!(cfs_rq.avg_vruntime, sum, "{name}: avg_vruntime");
    }
}

fn check_counts(kernel: &Kernel, cfs_rq: &CfsRq, children: &[EntityId], name: &str) {
    let (mut queued, mut runnable, mut idle) = (0, 0, 0);
    for se in children {
        let entity = &kernel.entities[se];
        match entity.owner {
            Owner::Task(task) => {
                queued += 1;
                let counts = kernel.rules.delayed_count_as_runnable || !entity.sched_delayed;
                runnable += u32::from(counts);
                idle += u32::from(kernel.tasks[task].policy == Policy::Idle);
            }
            Owner::Group(group, child) => {
                let child = &kernel.cfs_rqs[child];
                queued += child.h_nr_queued;
                runnable += child.h_nr_runnable;
                idle += if kernel.groups[group].idle {
                    child.h_nr_queued
                } else {
                    child.h_nr_idle
                };
            }
        }
    }
    assert_eq!(cfs_rq.h_nr_queued, queued, "{name}: h_nr_queued");
    assert_eq!(cfs_rq.h_nr_runnable, runnable, "{name}: h_nr_runnable");
    assert_eq!(cfs_rq.h_nr_idle, idle, "{name}: h_nr_idle");
}

fn check_cpu(kernel: &Kernel, cpu: Cpu) {
    let rq = &kernel.rqs[cpu];
    let root = kernel.root_cfs_rq(cpu);
    let stop = u32::from(kernel.tasks[kernel.migration_thread(cpu)].on_rq);
    assert_eq!(
        rq.nr_running,
        root.h_nr_queued + rq.rt.counted + stop + kernel.dl.counted(&kernel.rules, cpu),
        "CPU {}: nr_running",
        cpu.0
    );
    let in_lists: usize = rq.rt.queues.iter().map(Vec::len).sum();
    assert_eq!(
        rq.rt.nr_running as usize, in_lists,
        "CPU {}: rt lists",
        cpu.0
    );
    for (prio, list) in rq.rt.queues.iter().enumerate() {
        let found = rq.rt.bitmap >> prio & 1 == 1;
        assert_eq!(found, !list.is_empty(), "bit of {prio}");
        for task in list {
            let record = &kernel.tasks[task];
            assert!(record.rt_on_rq && record.on_rq && record.cpu == cpu);
            assert_eq!(kernel.prio(*task), prio as i32);
        }
    }
    check_curr(kernel, cpu);
    check_idle_sets(kernel, cpu);
    let mut listed = rq.cfs_tasks.clone();
    listed.sort();
    let queued: Vec<_> = (0..kernel.tasks.len())
        .map(crate::ids::TaskId::from)
        .filter(|task| {
            let record = &kernel.tasks[task];
            record.policy.is_fair() && record.cpu == cpu && kernel.entities[record.se].on_rq
        })
        .collect();
    assert_eq!(listed, queued, "CPU {}: cfs_tasks", cpu.0);
    for q in &rq.leaf_cfs_rqs {
        let cfs_rq = &kernel.cfs_rqs[q];
        assert!(cfs_rq.on_leaf_list && cfs_rq.cpu == cpu, "leaf list");
    }
}

/// The bit sets that searches for idle CPUs rely on agree with the queues.
fn check_idle_sets(kernel: &Kernel, cpu: Cpu) {
    let domains = &kernel.domains;
    assert_eq!(
        domains.idle.contains(cpu),
        kernel.available_idle_cpu(cpu),
        "CPU {}: idle",
        cpu.0
    );
    assert_eq!(
        domains.sched_idle.contains(cpu),
        kernel.sched_idle_cpu(cpu),
        "CPU {}: nothing but SCHED_IDLE",
        cpu.0
    );
    if !domains.smt_active {
        return;
    }
    let siblings = &domains.cpus[cpu].smt;
    assert_eq!(
        domains.idle_cores.contains(cpu),
        siblings.iter().all(|cpu| kernel.available_idle_cpu(cpu)),
        "CPU {}: idle core",
        cpu.0
    );
}

/// The running fair task and its groups are the current entities of their queues, and no others.
fn check_curr(kernel: &Kernel, cpu: Cpu) {
    let rq = &kernel.rqs[cpu];
    let task = &kernel.tasks[rq.curr];
    let mut current = Vec::new();
    if !rq.curr_is_idle() && task.policy.is_fair() {
        let mut level = Some(task.se);
        while let Some(se) = level {
            current.push((kernel.entities[se].cfs_rq, se));
            level = kernel.entities[se].parent;
        }
    }
    for (row, cfs_rq) in kernel.cfs_rqs.iter().enumerate() {
        if cfs_rq.cpu == cpu {
            let expected = current.iter().find(|(q, _)| q.index() == row);
            let expected = expected.map(|(_, se)| *se);
            assert_eq!(cfs_rq.h_curr, expected, "queue {row}: h_curr");
            let competes = match kernel.rules.flat_pick {
                true if cfs_rq.se.is_none() => current.first().map(|(_, se)| *se),
                true => None,
                false => expected,
            };
            assert_eq!(cfs_rq.curr, competes, "queue {row}: curr");
        }
    }
    assert!(task.on_cpu && task.cpu == cpu);
}

fn check_group(kernel: &Kernel, group: GroupId) {
    let queues = (0..kernel.cpus())
        .map(Cpu::from)
        .map(|cpu| kernel.cfs_rq_of(group, cpu));
    let record = &kernel.groups[group];
    let contributions: u64 = queues
        .clone()
        .map(|q| kernel.cfs_rqs[q].tg_load_avg_contrib)
        .sum();
    assert_eq!(
        record.load_avg, contributions,
        "group {}: load_avg",
        group.0
    );
    let mut listed = record.bandwidth.throttled.clone();
    listed.sort();
    let throttled: Vec<CfsRqId> = queues.filter(|q| kernel.cfs_rqs[q].throttled).collect();
    assert_eq!(listed, throttled, "group {}: throttled list", group.0);
    let limit = &record.bandwidth.limit;
    if let Some(quota_ns) = limit.quota_ns {
        // The runtime that CPUs return may exceed the cap until the next refill, never by more
        // than they drew: what the pool held once, or, of what others had returned, a slice. With
        // 3 ms a period a CPU returns 2, draws 5 of these and the next 3, and returns 4 of them.
        let once = (quota_ns + limit.burst_ns).max(kernel.rules.bandwidth_slice_ns);
        let drawn = kernel.cpus() as u64 * once;
        assert!(
            record.bandwidth.runtime_ns <= quota_ns + limit.burst_ns + drawn,
            "group {}: pool",
            group.0
        );
    }
}

fn check_tasks(kernel: &Kernel) {
    for (row, task) in kernel.tasks.iter().enumerate() {
        let entity = &kernel.entities[task.se];
        if row < 2 * kernel.cpus() || task.state == TaskState::Dead {
            assert!(!entity.on_rq, "task {row} is never queued");
            continue;
        }
        if task.policy.is_fair() {
            let queued = task.on_rq && !task.throttled;
            assert_eq!(entity.on_rq, queued, "task {row}: on_rq");
        } else {
            assert!(!entity.on_rq, "task {row} left the fair class");
        }
        if entity.sched_delayed {
            assert_eq!(task.state, TaskState::Blocked, "task {row}: delayed");
        } else {
            let found = task.on_rq;
            assert_eq!(found, task.state == TaskState::Running, "task {row}: state");
        }
        let q = kernel.cfs_rq_of(task.group, task.cpu);
        assert_eq!(entity.cfs_rq, q, "task {row}: queue");
        let limbo = &kernel.cfs_rqs[q].limbo;
        let parked = limbo.contains(&crate::ids::TaskId::from(row));
        if task.policy.is_fair() {
            assert_eq!(task.throttled && task.on_rq, parked, "task {row}: limbo");
        }
        assert!(!task.migrating, "task {row} arrived");
    }
}
