//! Bounds of the real-time class and of the fair server, each at the rule itself.
//!
//! For example, the class may run again once its count is below 950 ms; at 950 ms exactly it stays
//! set aside. A history of whole ticks seldom meets that.

use super::world::*;
use crate::fair::{DequeueFlags, EnqueueFlags};
use crate::rt::Callbacks;
use crate::task::Policy;

const CPU: Cpu = Cpu(0);
const NEXT: Cpu = Cpu(1);
const LAST: Cpu = Cpu(2);

fn pinned(world: &mut World, cpu: Cpu, priority: u8) -> TaskId {
    world.spawn_fifo(cpu, priority, CpuSet::of(cpu))
}

fn movable(world: &mut World, cpu: Cpu, priority: u8, cpus: &[Cpu]) -> TaskId {
    world.spawn_fifo(cpu, priority, cpus.iter().copied().collect())
}

#[test]
fn at_boot_nothing_was_counted_and_no_push_is_asked_for() {
    let world = World::new("6.1", 1);
    let (rt, domain) = (&world.kernel.rqs[0].rt, &world.kernel.rt_domain.rounds[0]);
    assert_eq!((rt.rt_time_ns, rt.throttled), (0, false));
    assert_eq!(domain.rto_loop_next, domain.rto_loop);
    // `MAX_PRIO`: 100 real-time priorities and 40 nice values.
    assert_eq!(world.kernel.curr_prio(CPU), 140);
}

#[test]
fn pushes_and_pulls_are_told_apart() {
    let all = [
        Callbacks::RT_PUSH,
        Callbacks::RT_PULL,
        Callbacks::DL_PUSH,
        Callbacks::DL_PULL,
    ];
    for (row, one) in all.iter().enumerate() {
        let found = all.map(|other| one.has(other));
        assert_eq!(found, std::array::from_fn(|other| other == row));
    }
}

/// Count that the period timer at 1 s leaves on a CPU, whether the class is set aside then, and
/// whether the running task is asked to give way.
fn after_the_period(world: &mut World, counted_ns: Ns, throttled: bool) -> (Ns, bool, bool) {
    world.checked = false;
    let rq = &mut world.kernel.rqs[0];
    (rq.rt.rt_time_ns, rq.rt.throttled) = (counted_ns, throttled);
    rq.need_resched = false;
    world.kernel.count_rt_tasks(CPU);
    world.kernel.rt_domain.period_expires_ns = 1000 * MS;
    world.bench.now = 1000 * MS;
    world.kernel.rt_period_timer(&mut world.bench, CPU);
    let rq = &world.kernel.rqs[0];
    (rq.rt.rt_time_ns, rq.rt.throttled, rq.need_resched)
}

#[test]
fn the_period_timer_forgives_950_ms_and_lets_the_class_run_below_that() {
    for (counted_ms, throttled, expected) in [
        (100, false, (0, false, false)),
        (960, true, (10 * MS, false, true)),
        (1899, true, (949 * MS, false, true)),
        (1900, true, (950 * MS, true, false)),
    ] {
        let mut world = World::new("6.1", 1);
        pinned(&mut world, CPU, 50);
        let found = after_the_period(&mut world, counted_ms * MS, throttled);
        assert_eq!(found, expected, "{counted_ms}");
    }
}

#[test]
fn without_tasks_of_the_class_its_count_falls_and_nobody_gives_way() {
    for (counted_ns, throttled, expected) in [
        (1, false, (0, false, false)),
        (100 * MS, false, (0, false, false)),
        (960 * MS, true, (10 * MS, false, false)),
    ] {
        let mut world = World::new("6.1", 1);
        world.kernel.rqs[0].skip_clock_update = true;
        let found = after_the_period(&mut world, counted_ns, throttled);
        assert_eq!(found, expected, "{counted_ns}");
        // Only a waiting real-time task makes the clock of an idle CPU go on.
        assert!(world.kernel.rqs[0].skip_clock_update);
    }
}

/// CPU 0 used its 950 ms up. CPU 1 has 60 ms to spare, of which 3 CPUs borrow a third each; CPU 2
/// gives the other 30 ms that fill the period.
#[test]
fn up_to_5_9_runtime_is_borrowed_until_the_period_is_full() {
    let mut world = World::new("5.9", 3);
    for (cpu, used_ms) in [950, 890, 0].into_iter().enumerate() {
        world.kernel.rqs[cpu].rt.rt_time_ns = used_ms * MS;
    }
    world.kernel.charge_rt_runtime(&mut world.bench, CPU, MS);
    let runtimes = [0, 1, 2].map(|cpu: usize| world.kernel.rqs[cpu].rt.rt_runtime_ns);
    assert_eq!(runtimes, [1000, 930, 920].map(|ms| Some(ms * MS)));
    assert!(!world.kernel.rqs[0].rt.throttled);
}

#[test]
fn a_class_without_any_runtime_is_not_counted() {
    let mut world = World::with("6.1", 1, |rules| rules.rt_runtime_ns = Some(0));
    world.kernel.charge_rt_runtime(&mut world.bench, CPU, 5);
    let rt = &world.kernel.rqs[0].rt;
    assert_eq!((rt.rt_time_ns, rt.throttled), (0, false));
}

#[test]
fn each_nanosecond_of_a_real_time_task_is_charged_and_none_of_a_fair_one() {
    for (is_real_time, charged) in [(true, 1), (false, 0)] {
        let mut world = World::new("6.1", 1);
        let task = match is_real_time {
            true => pinned(&mut world, CPU, 50),
            false => world.spawn(CPU),
        };
        world.advance_to(MS);
        let se = world.kernel.tasks[task].se;
        let (rq, entity) = (&mut world.kernel.rqs[0], &world.kernel.entities[se]);
        rq.clock_task = entity.exec_start + 1;
        let before = (rq.rt.rt_time_ns, entity.sum_exec_runtime);
        world.kernel.update_curr_rt(&mut world.bench, CPU);
        let ran = world.kernel.entities[se].sum_exec_runtime - before.1;
        let counted = world.kernel.rqs[0].rt.rt_time_ns - before.0;
        assert_eq!((ran, counted), (charged, charged));
    }
}

/// The only real-time task of a CPU is saved and restored when its affinity changes, which takes
/// the CPU's place for deadline tasks from it (`dec_rt_prio` of 6.12.107: without tasks the
/// priority is the least one). With another one beside it the priority stays.
#[test]
fn an_only_task_that_is_saved_leaves_its_cpus_place_for_deadlines() {
    for priorities in [&[40][..], &[40, 50], &[50, 40]] {
        let mut world = World::new("6.12", 1);
        let tasks = priorities.iter().map(|&one| pinned(&mut world, CPU, one));
        let tasks: Vec<TaskId> = tasks.collect();
        world.kernel.rqs[0].rt.behind_deadlines = true;
        let kernel = &mut world.kernel;
        kernel.dequeue_task_rt(&mut world.bench, CPU, tasks[0], DequeueFlags::SAVE);
        kernel.enqueue_task_rt(&mut world.bench, CPU, tasks[0], EnqueueFlags::RESTORE);
        let stays_behind = priorities.len() > 1;
        assert_eq!(world.kernel.rqs[0].rt.behind_deadlines, stays_behind);
    }
}

/// The place of a CPU among the real-time ones is looked up anew once its most urgent priority is
/// another one.
#[test]
fn a_task_that_leaves_costs_one_level_and_matters_if_it_was_the_most_urgent() {
    for (leaves, stays_behind) in [(40, true), (50, false)] {
        let mut world = World::new("6.1", 1);
        let tasks = [40, 50].map(|priority| (priority, pinned(&mut world, CPU, priority)));
        let (_, task) = tasks[usize::from(leaves == 50)];
        world.kernel.rqs[0].rt.behind_deadlines = true;
        world.bench.prices = vec![(Op::DequeueLevel, 1000)];
        let kernel = &mut world.kernel;
        kernel.dequeue_task_rt(&mut world.bench, CPU, task, DequeueFlags::SLEEP);
        assert_eq!(world.bench.now, 1000);
        assert_eq!(world.kernel.rqs[0].rt.behind_deadlines, stays_behind);
    }
}

#[test]
fn who_waits_first_is_pushed_first_among_equals() {
    let mut world = World::new("6.1", 2);
    pinned(&mut world, CPU, 90);
    pinned(&mut world, NEXT, 90);
    let waiting = [50, 50, 60].map(|priority| movable(&mut world, CPU, priority, &[CPU, NEXT]));
    let [first, second, urgent] = waiting;
    assert_eq!(world.kernel.rqs[0].rt.pushable, [urgent, first, second]);
}

#[test]
fn tasks_that_may_run_nowhere_else_do_not_overload_a_cpu() {
    let mut world = World::new("6.1", 2);
    pinned(&mut world, CPU, 50);
    pinned(&mut world, CPU, 40);
    assert!(!world.kernel.rt_overloaded(CPU));
    pinned(&mut world, NEXT, 90);
    movable(&mut world, CPU, 30, &[CPU, NEXT]);
    assert!(world.kernel.rt_overloaded(CPU));
}

/// Two tasks of priority 50 that may use both CPUs: CPU 0 runs one, and the other waits there
/// although CPU 1 just became idle.
fn equals_beside_an_idle_cpu() -> (World, TaskId) {
    let mut world = World::new("6.1", 2);
    world.checked = false;
    pinned(&mut world, NEXT, 90);
    movable(&mut world, CPU, 50, &[CPU, NEXT]);
    let waiting = movable(&mut world, CPU, 50, &[CPU, NEXT]);
    world.kernel.rt_domain.overloaded.remove(CPU);
    world.block(NEXT);
    world.kernel.update_rt_overload(CPU);
    assert!(world.idle(NEXT));
    (world, waiting)
}

#[test]
fn a_woken_task_is_pushed_away_from_an_equal() {
    let (mut world, waiting) = equals_beside_an_idle_cpu();
    world.call(CPU, |kernel, bench| {
        kernel.here = CPU;
        kernel.task_woken_rt(bench, CPU, waiting);
    });
    assert_eq!(world.current(NEXT), waiting);
}

#[test]
fn an_equal_is_preempted_by_a_task_that_can_go_nowhere_else() {
    for (cpus, preempts) in [(CpuSet::first(2), false), (CpuSet::of(CPU), true)] {
        let (mut world, waiting) = equals_beside_an_idle_cpu();
        let record = &mut world.kernel.tasks[waiting];
        (record.affinity, record.nr_cpus_allowed) = (cpus, cpus.len() as u32);
        let kernel = &mut world.kernel;
        kernel.wakeup_preempt_rt(&mut world.bench, CPU, waiting);
        assert_eq!(world.kernel.rqs[0].need_resched, preempts);
    }
}

#[test]
fn a_pull_takes_nothing_that_may_not_run_there() {
    let mut world = World::with("6.1", 3, |rules| rules.features.rt_push_ipi = false);
    let sleeper = pinned(&mut world, NEXT, 60);
    world.block(NEXT);
    pinned(&mut world, CPU, 80);
    pinned(&mut world, LAST, 90);
    let waiting = movable(&mut world, CPU, 50, &[CPU, LAST]);
    world.bench.spent.clear();
    world.kernel.here = NEXT;
    let kernel = &mut world.kernel;
    kernel.balance_rt(&mut world.bench, NEXT, sleeper);
    assert_eq!(world.kernel.tasks[waiting].cpu, CPU);
    assert!(!world.kernel.rqs[1].need_resched);
    // `balance_cpu_ns` is a price of load balance, which this is not.
    assert_eq!(world.bench.spent, []);
}

#[test]
fn a_pull_takes_nothing_less_urgent_than_what_is_there() {
    let mut world = World::with("6.1", 2, |rules| rules.features.rt_push_ipi = false);
    pinned(&mut world, NEXT, 90);
    pinned(&mut world, CPU, 80);
    let left = pinned(&mut world, NEXT, 70);
    let waiting = movable(&mut world, CPU, 50, &[CPU, NEXT]);
    world.block(NEXT);
    assert_eq!(world.current(NEXT), left);
    assert_eq!(world.kernel.tasks[waiting].cpu, CPU);
}

#[test]
fn a_cpu_that_goes_on_with_an_equal_asks_nobody() {
    for (left, asked) in [(70, 0), (69, 1)] {
        let mut world = World::new("6.1", 2);
        pinned(&mut world, NEXT, 70);
        pinned(&mut world, NEXT, left);
        pinned(&mut world, CPU, 80);
        movable(&mut world, CPU, 50, &[CPU, NEXT]);
        world.block(NEXT);
        assert_eq!(world.kernel.rt_domain.rounds[0].rto_loop_next, asked);
    }
}

/// Both overloaded CPUs keep their waiting tasks. The request of CPU 2 is new to the first round,
/// which therefore is followed by another one, the last.
#[test]
fn a_request_to_push_goes_round_the_overloaded_cpus_twice_and_ends() {
    let mut world = World::new("6.1", 3);
    let sleeper = pinned(&mut world, LAST, 90);
    world.block(LAST);
    for cpu in [CPU, NEXT] {
        pinned(&mut world, cpu, 80);
    }
    for cpu in [CPU, NEXT] {
        movable(&mut world, cpu, 50, &[CPU, NEXT]);
    }
    world.kernel.here = LAST;
    let kernel = &mut world.kernel;
    kernel.balance_rt(&mut world.bench, LAST, sleeper);
    let mut asked = Vec::new();
    let is_asked = |world: &World| (0..3).find(|&cpu| world.kernel.rqs[cpu].rt.push_asked);
    while let Some(cpu) = is_asked(&world).filter(|_| asked.len() < 10) {
        asked.push(cpu);
        world.kernel.here = Cpu::from(cpu);
        let kernel = &mut world.kernel;
        kernel.rto_push(&mut world.bench, Cpu::from(cpu));
    }
    assert_eq!(asked, [0, 1, 0, 1]);
}

#[test]
fn a_cpu_asks_itself_to_push_up_to_6_19_3() {
    // CPU 0, whose waiting task may go to CPU 1, turns the last real-time task there into a fair
    // one.
    for (version, pushes) in releases([("5.10.223 6.12.74 6.19", true), ("6.12.75 7.0", false)]) {
        let mut world = World::new(version, 2);
        pinned(&mut world, CPU, 80);
        let becomes_fair = pinned(&mut world, NEXT, 70);
        let waits = movable(&mut world, CPU, 50, &[CPU, NEXT]);
        world.set_policy(CPU, becomes_fair, Policy::Normal, 0, 0);
        let found = world.kernel.tasks[waits].cpu;
        assert_eq!(found == NEXT, pushes, "{version}");
    }
}

#[test]
fn a_task_that_becomes_real_time_preempts_only_less_urgent_ones() {
    for (priority, preempts) in [(49, false), (50, false), (51, true)] {
        let mut world = World::new("6.1", 1);
        pinned(&mut world, CPU, 50);
        let waiting = pinned(&mut world, CPU, 40);
        world.kernel.tasks[waiting].rt_priority = priority;
        let kernel = &mut world.kernel;
        kernel.switched_to_rt(&mut world.bench, CPU, waiting);
        assert_eq!(world.kernel.rqs[0].need_resched, preempts, "{priority}");
    }
}

#[test]
fn a_task_that_becomes_real_time_is_pushed_if_it_may_go() {
    let mut world = World::new("6.12", 2);
    pinned(&mut world, CPU, 80);
    pinned(&mut world, NEXT, 90);
    let goes = movable(&mut world, CPU, 50, &[CPU, NEXT]);
    let stays = pinned(&mut world, CPU, 50);
    for (task, pushed) in [(stays, false), (goes, true)] {
        world.kernel.rqs[0].rt.callbacks = Callbacks::default();
        let kernel = &mut world.kernel;
        kernel.switched_to_rt(&mut world.bench, CPU, task);
        let callbacks = world.kernel.rqs[0].rt.callbacks;
        assert_eq!(callbacks.has(Callbacks::RT_PUSH), pushed);
    }
}

#[test]
fn a_cpu_pulls_when_its_last_real_time_task_becomes_a_fair_one() {
    for (left, pulls) in [(0, true), (1, false)] {
        let mut world = World::new("6.1", 1);
        let task = world.spawn(CPU);
        world.kernel.rqs[0].rt.nr_running = left;
        world.kernel.switched_from_rt(CPU, task);
        let callbacks = world.kernel.rqs[0].rt.callbacks;
        assert_eq!(callbacks.has(Callbacks::RT_PULL), pulls);
    }
}

#[test]
fn a_running_task_gives_way_when_it_becomes_less_urgent_than_another() {
    for (waiting, gives_way) in [(40, false), (50, false), (51, true)] {
        let mut world = World::new("6.1", 1);
        let task = pinned(&mut world, CPU, 60);
        pinned(&mut world, CPU, waiting);
        // From 60 to 50, its place in the lists included.
        let rt = &mut world.kernel.rqs[0].rt;
        rt.queues[39].clear();
        rt.queues[49].insert(0, task);
        rt.bitmap = rt.bitmap & !(1 << 39) | 1 << 49;
        world.kernel.tasks[task].rt_priority = 50;
        let kernel = &mut world.kernel;
        kernel.prio_changed_rt(&mut world.bench, CPU, task, 39);
        assert_eq!(world.kernel.rqs[0].need_resched, gives_way, "{waiting}");
    }
}

#[test]
fn a_server_that_ran_has_not_run_once_idle_time_is_more_than_its_budget() {
    for (idle_ns, has_run) in [(3, true), (4, true), (5, false)] {
        let mut world = World::new("6.12", 1);
        let idle = world.kernel.tasks[world.kernel.rqs[0].idle].se;
        let rq = &mut world.kernel.rqs[0];
        rq.clock_task = 100;
        (rq.fair_server.runtime_ns, rq.fair_server.defer_running) = (4, true);
        world.kernel.entities[idle].exec_start = 100 - idle_ns;
        world.kernel.fair_server_update_idle(CPU);
        assert_eq!(world.kernel.rqs[0].fair_server.defer_running, has_run);
    }
}

#[test]
fn a_long_idle_time_before_the_world_begins_uses_up_the_servers_budget() {
    let mut world = World::new("6.12", 1);
    world.kernel.has_been_idle();
    world.kernel.rqs[0].fair_server.runtime_ns = 50 * MS as i64;
    world.kernel.fair_server_update_idle(CPU);
    assert_eq!(world.kernel.rqs[0].fair_server.runtime_ns, 0);
}

#[test]
fn a_server_that_stopped_waits_for_no_timer() {
    let mut world = World::new("6.12", 1);
    world.spawn(CPU);
    world.advance_to(MS);
    assert!(world.kernel.rqs[0].fair_server.defer_armed);
    world.block(CPU);
    let server = &world.kernel.rqs[0].fair_server;
    assert_eq!(
        (server.active, server.throttled, server.defer_armed),
        (false, false, false)
    );
}

/// The server's budget is 10 ns, and the period goes on until they are used up.
#[test]
fn each_nanosecond_of_idle_time_is_charged_to_the_server_since_7_1() {
    for (idle_ns, left_ns) in [(0, 10), (1, 9), (9, 1)] {
        let mut world = World::with("7.1", 1, |rules| rules.features.hrtick = false);
        world.spawn(CPU);
        world.advance_to(MS);
        world.block(CPU);
        let rq = &mut world.kernel.rqs[0];
        let idle = world.kernel.tasks[rq.idle].se;
        rq.clock_task = world.kernel.entities[idle].exec_start + idle_ns;
        rq.fair_server.runtime_ns = 10;
        let deadline_ns = rq.fair_server.deadline_ns;
        let kernel = &mut world.kernel;
        kernel.update_curr_idle(&mut world.bench, CPU);
        let server = &world.kernel.rqs[0].fair_server;
        assert_eq!(
            (server.runtime_ns, server.deadline_ns),
            (left_ns, deadline_ns)
        );
    }
}
