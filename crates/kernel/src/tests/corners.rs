//! Rules that only special settings or rare moments reach.

use super::world::*;
use crate::rules::Preemption;
use schedcast_base::limits::{CpuLimits, LimitError};

const CPU: Cpu = Cpu(0);

fn limit(quota_us: u64, period_us: u64) -> BandwidthLimit {
    CpuLimits::new(quota_us, period_us, 0).into()
}

#[test]
fn limits_out_of_range_or_above_the_parent_change_nothing() {
    let mut world = World::new("6.18", 2);
    let parent = world.group(GroupId::ROOT);
    let child = world.group(parent);
    let set = |world: &mut World, group, limit| {
        let World { kernel, bench, .. } = world;
        kernel.group_set_bandwidth(bench, CPU, group, limit, Hierarchy::V1)
    };
    // Less than 1 ms.
    assert!(set(&mut world, parent, limit(999, 100_000)).is_err());
    set(&mut world, parent, limit(50_000, 100_000)).unwrap();
    // 100001/200000 is more than 50000/100000, 100000/200000 is not.
    let refused: Result<(), LimitError> = set(&mut world, child, limit(100_001, 200_000));
    assert!(refused.is_err());
    assert_eq!(
        world.kernel.groups[child].bandwidth.limit,
        BandwidthLimit::UNLIMITED
    );
    set(&mut world, child, limit(100_000, 200_000)).unwrap();
}

#[test]
fn a_timer_that_is_late_doubles_its_period_up_to_a_second() {
    let mut world = World::new("6.18", 1);
    let group = world.limited(GroupId::ROOT, 10_000, 200_000, 1_000);
    for expected_ms in [400, 800, 800] {
        world.kernel.scale_period(group);
        let now = world.kernel.groups[group].bandwidth.limit;
        // Quota and burst grow with it: the share stays 1/20.
        assert_eq!(now.period_ns, expected_ms * MS);
        assert_eq!(now.quota_ns, Some(expected_ms * MS / 20));
        assert_eq!(now.burst_ns, expected_ms * MS / 200);
    }
}

#[test]
fn a_queue_without_runtime_stays_throttled() {
    // 10 of 100 ms: at 50 ms the hog has long been parked, with a debt.
    let mut world = World::new("6.18", 1);
    let group = world.limited(GroupId::ROOT, 10_000, 100_000, 0);
    world.spawn_in(group, CPU, Policy::Normal, 0);
    world.advance_to(50 * MS);
    let q = world.kernel.cfs_rq_of(group, CPU);
    assert!(world.kernel.cfs_rqs[q].throttled && world.idle(CPU));
    world.call(CPU, |kernel, bench| kernel.unthrottle_cfs_rq(bench, q));
    assert!(world.kernel.cfs_rqs[q].throttled && world.idle(CPU));
}

#[test]
fn a_task_does_not_preempt_itself() {
    let mut world = World::new("6.18", 1);
    let task = world.spawn(CPU);
    world.call(CPU, |kernel, bench| {
        kernel.check_preempt_wakeup_fair(bench, CPU, task, crate::kernel::Arrival::Other);
        assert!(!kernel.rqs[0].need_resched);
    });
}

/// A sleeper is owed time by a hog that ran 100 ms: it preempts, unless it is told not to.
fn sleeper_preempts(version: &str, change: impl FnOnce(&mut Rules)) -> bool {
    let mut world = World::with(version, 1, change);
    let sleeper = world.spawn(CPU);
    world.block(CPU);
    world.spawn(CPU);
    world.advance(100 * MS);
    world.wake(CPU, sleeper);
    world.current(CPU) == sleeper
}

#[test]
fn wakeup_preemption_can_be_switched_off() {
    assert!(sleeper_preempts("6.1", |_| {}));
    assert!(!sleeper_preempts("6.1", |rules| rules
        .features
        .wakeup_preemption =
        false));
}

#[test]
fn a_rule_of_ones_own_decides_before_the_kernel() {
    // CPUs 0 and 1 are one core. The task last ran on CPU 2, which is idle: there it goes, or with
    // the patch to the idle thread of its waker's core.
    let wakes_on = |patches: &[&str]| {
        let choice = KernelChoice {
            hz: 1000,
            patches,
            ..KernelChoice::released("6.12".parse().unwrap(), 4)
        };
        let own = Rules::resolve(&choice).unwrap().own;
        let mut world = World::on(Topology::regular(1, 1, 2, 2), "6.12", |rules| {
            rules.own = own
        });
        let core: Vec<u32> = world.kernel.domains.cpus[0]
            .smt
            .iter()
            .map(|cpu| cpu.0)
            .collect();
        world.spawn(CPU);
        let away = Cpu((0..4).find(|cpu| !core.contains(cpu)).unwrap());
        let task = world.spawn_anywhere(away);
        let ran_on = world.kernel.tasks[task].cpu;
        world.block(ran_on);
        world.wake(CPU, task);
        (core, ran_on.0, world.kernel.tasks[task].cpu.0)
    };
    let (_, ran_on, stock) = wakes_on(&[]);
    assert_eq!(stock, ran_on);
    let (core, _, mine) = wakes_on(&["waker-sibling"]);
    assert!(core.contains(&mine) && mine != 0);
}

#[test]
fn lazy_preemption_waits_for_the_tick_or_user_mode() {
    // 6.13: the end of a request asks lazily; the way back to user mode honours it.
    let mut world = World::with("6.13", 1, |rules| rules.preemption = Preemption::Lazy);
    let tasks = [world.spawn(CPU), world.spawn(CPU)];
    world.advance(20 * MS);
    let [one, other] = tasks.map(|task| world.runtime(task));
    assert!(one.abs_diff(other) <= 2 * MS, "{one} {other}");
}

#[test]
fn a_lazy_request_of_another_cpu_waits_for_the_tick() {
    // CPU 1 wakes a task for CPU 0, where a SCHED_IDLE task gives way: by an interrupt at once, or,
    // when preemption is lazy, without one. The tick at 31 ms makes the request a firm one.
    for (preemption, at_once) in [(Preemption::Full, true), (Preemption::Lazy, false)] {
        let mut world = World::with("6.18", 2, |rules| rules.preemption = preemption);
        let normal = world.spawn(CPU);
        world.block(CPU);
        let idle = world.spawn_in(GroupId::ROOT, CPU, Policy::Idle, 0);
        world.advance_to(30 * MS + 200 * US);
        world.wake(Cpu(1), normal);
        assert_eq!(world.current(CPU) == normal, at_once, "{preemption:?}");
        assert_eq!(world.current(CPU) == idle, !at_once, "{preemption:?}");
        world.advance_to(31 * MS);
        assert_eq!(world.current(CPU), normal, "{preemption:?}");
    }
}

#[test]
fn a_cpu_without_idle_states_counts_its_idle_calls() {
    // schedutil takes a CPU whose count stands still for busy, and keeps its frequency up.
    let mut world = World::new("6.1", 1);
    world.spawn(CPU);
    world.advance_to(10 * MS);
    let before = world.kernel.rqs[0].idle_calls;
    world.block(CPU);
    assert_eq!(world.kernel.rqs[0].idle_calls, before + 1);
    world.advance_to(50 * MS);
    assert!(!world.kernel.rqs[0].tick_running);
}

#[test]
fn a_domain_that_costs_more_than_the_idle_time_is_not_searched() {
    // Two nodes of two CPUs. CPU 2 has a waiting task, CPU 0 goes idle: the search of both nodes is
    // taken to cost ten seconds, so CPU 0 stays with its own node.
    let far_task_is_pulled = |cost_ns: u64| {
        let mut world = World::on(Topology::regular(2, 1, 2, 1), "6.12", |_| {});
        world.spawn(CPU);
        world.spawn(Cpu(1));
        for _ in 0..3 {
            world.spawn_in(GroupId::ROOT, Cpu(2), Policy::Normal, 0);
        }
        world.advance(20 * MS);
        let rows: Vec<u32> = world.kernel.domains.rows(CPU).collect();
        let top = *rows.last().unwrap();
        world.kernel.domains.domain_mut(top).max_newidle_lb_cost_ns = cost_ns;
        world.kernel.domains.overloaded = true;
        world.kernel.rqs[0].avg_idle = 5_000_000;
        for task in 0..world.kernel.tasks.len() {
            if world.kernel.tasks[task].cpu == Cpu(2) && world.kernel.tasks[task].policy.is_fair() {
                let all = crate::cpuset::CpuSet::first(4);
                world.kernel.tasks[task].affinity = all;
                world.kernel.tasks[task].nr_cpus_allowed = 4;
            }
        }
        world.block(CPU);
        !world.idle(CPU)
    };
    assert!(!far_task_is_pulled(10_000_000_000));
}

#[test]
fn a_node_of_one_cpu_beyond_the_reclaim_distance_keeps_its_children() {
    // One CPU a node, distance above 30: no domain balances at fork.
    let mut topology = Topology::regular(2, 1, 1, 1);
    topology.distances = vec![vec![10, 40], vec![40, 10]];
    let mut world = World::on(topology, "6.12", |_| {});
    world.spawn(CPU);
    let task = world.spawn_anywhere(CPU);
    assert_eq!(world.kernel.tasks[task].cpu, CPU);
}

#[test]
fn nodes_at_distance_32_take_tasks_at_fork_where_the_machine_says_so_from_5_4_on() {
    for (version, reclaim_distance, expected) in [
        ("6.12", 30, CPU),
        ("6.12", 32, Cpu(1)),
        ("5.4", 32, Cpu(1)),
        ("5.3", 32, CPU),
    ] {
        let mut topology = Topology::regular(2, 1, 1, 1);
        topology.distances = vec![vec![10, 32], vec![32, 10]];
        topology.reclaim_distance = reclaim_distance;
        let mut world = World::on(topology, version, |_| {});
        world.spawn(CPU);
        let task = world.spawn_anywhere(CPU);
        let cpu = world.kernel.tasks[task].cpu;
        assert_eq!(cpu, expected, "{version}, {reclaim_distance}");
    }
}

#[test]
fn a_wakee_is_charged_from_its_wakeup_on() {
    // CPU 1 wakes a task of CPU 0, where a SCHED_IDLE hog runs. The interrupt takes 700 ns to send;
    // the switch it brings about does not read the clock again, so the 700 ns belong to the wakee,
    // not to the hog.
    for version in ["4.5", "5.10", "6.1", "6.6", "6.12", "6.18"] {
        let mut world = World::new(version, 2);
        let sleeper = world.spawn(CPU);
        world.block(CPU);
        let hog = world.spawn_in(GroupId::ROOT, CPU, Policy::Idle, 0);
        world.advance(10 * MS);
        world.bench.prices = vec![(Op::IpiSend, 700)];
        let before = [hog, sleeper].map(|task| world.runtime(task));
        world.wake(Cpu(1), sleeper);
        assert_eq!(world.current(CPU), sleeper, "{version}");
        let after = [hog, sleeper].map(|task| world.runtime(task));
        assert_eq!(
            [after[0] - before[0], after[1] - before[1]],
            [0, 700],
            "{version}"
        );
        // Without a wakeup the switch reads the clock: what it finds belongs to who ran.
        world.advance(300);
        world.block(CPU);
        assert_eq!(world.runtime(sleeper) - before[1], 1000, "{version}");
        assert_eq!(world.runtime(hog), after[0], "{version}");
    }
}

/// Two tasks of CPU 1 sleep. CPU 0 wakes the first one, by an interrupt that takes a while; until
/// it arrives a device wakes the second one on CPU 1. Returns how many tasks CPU 1 then has.
fn tasks_before_the_interrupt(version: &str, kicked: bool) -> (u32, usize) {
    let mut world = World::new(version, 2);
    world.spawn(CPU);
    let tasks = [Cpu(1), Cpu(1)].map(|cpu| {
        let task = world.spawn(cpu);
        world.block(cpu);
        task
    });
    world.advance(5 * MS);
    world.kernel.rqs[1].nohz_kick = kicked;
    let World { kernel, bench, .. } = &mut world;
    let from = |context| WakeFlags::new(false, context);
    kernel.wake(bench, CPU, tasks[0], from(Context::Task));
    let interrupts = bench.ipis_sent();
    kernel.wake(bench, Cpu(1), tasks[1], from(Context::HardIrq));
    kernel.leave_kernel(bench, Cpu(1));
    (kernel.rqs[1].nr_running, interrupts)
}

#[test]
fn a_cpu_that_leaves_idle_takes_wakeups_before_their_interrupt() {
    assert_eq!(tasks_before_the_interrupt("6.12", false), (2, 1));
}

#[test]
fn calls_of_all_kinds_share_an_interrupt_from_5_8_on() {
    // On 5.7 CPU 0 enqueues the task itself, and asks CPU 1 to reschedule.
    for (version, interrupts) in [("5.7", 1), ("6.12", 0)] {
        let found = tasks_before_the_interrupt(version, true);
        assert_eq!(found, (2, interrupts), "{version}");
    }
}
