//! The real-time class: order of lists, where tasks go, throttling, the fair server.

use super::world::*;

const CPU: Cpu = Cpu(0);
const BOTH: fn() -> CpuSet = || CpuSet::first(2);

fn names(world: &World, cpu: Cpu) -> Vec<Option<TaskId>> {
    world.switches(cpu).iter().map(|(_, task)| *task).collect()
}

#[test]
fn a_preempted_task_stays_first_in_its_list() {
    let mut world = World::new("6.1", 1);
    let low = world.spawn_fifo(CPU, 50, CpuSet::of(CPU));
    world.advance(MS);
    let high = world.spawn_fifo(CPU, 60, CpuSet::of(CPU));
    let equal = world.spawn_fifo(CPU, 50, CpuSet::of(CPU));
    assert_eq!(world.current(CPU), high);
    world.block(CPU);
    assert_eq!(world.current(CPU), low);
    world.yield_current(CPU);
    assert_eq!(world.current(CPU), equal, "who yields goes to the end");
    world.block(CPU);
    world.wake(CPU, equal);
    assert_eq!(world.current(CPU), low, "equals do not preempt");
}

#[test]
fn round_robin_shares_in_quanta_of_100_ms() {
    for (hz, version) in [(1000, "4.15"), (250, "6.1"), (100, "6.18")] {
        let mut world = World::with(version, 1, |rules| {
            rules.hz = hz;
            rules.tick_ns = 1_000_000_000 / u64::from(hz);
            rules.rr_timeslice_ticks = hz / 10;
        });
        let spawn = |world: &mut World| {
            world.start(TaskAttributes {
                policy: Policy::RoundRobin,
                rt_priority: 10,
                ..TaskAttributes::on(CPU)
            })
        };
        let (a, b) = (spawn(&mut world), spawn(&mut world));
        world.advance_to(350 * MS);
        let expected = [(0, a), (100 * MS, b), (200 * MS, a), (300 * MS, b)];
        assert_eq!(
            world.switches(CPU),
            expected.map(|(at, task)| (at, Some(task))),
            "{version} at {hz} Hz"
        );
    }
}

#[test]
fn a_new_priority_means_a_new_place_in_line() {
    let mut world = World::new("6.12", 1);
    let first = world.spawn_fifo(CPU, 50, CpuSet::of(CPU));
    let second = world.spawn_fifo(CPU, 40, CpuSet::of(CPU));
    let third = world.spawn_fifo(CPU, 30, CpuSet::of(CPU));
    let set = |world: &mut World, task, prio| {
        world.set_policy(CPU, task, Policy::Fifo, 0, prio);
    };
    // Raised to 40: behind the one that is there. Raised above all: runs at once.
    set(&mut world, third, 40);
    assert_eq!(world.kernel.rqs[0].rt.queues[59], [second, third]);
    set(&mut world, third, 60);
    assert_eq!(world.current(CPU), third);
    // Lowered to 40: before the one that is there, and runs on while no task is more urgent.
    set(&mut world, third, 40);
    assert_eq!(world.kernel.rqs[0].rt.queues[59], [third, second]);
    assert_eq!(world.current(CPU), first);
    // Nice changes are remembered and change nothing.
    world.call(CPU, |kernel, bench| kernel.set_nice(bench, CPU, first, 7));
    assert_eq!(world.current(CPU), first);
    world.set_policy(CPU, first, Policy::Normal, 7, 0);
    assert_eq!(world.current(CPU), third);
}

/// One CPU, a FIFO hog and a fair task: what the fair task got after 1, 2 and 3 s.
fn fair_beside_hog(world: &mut World) -> [u64; 3] {
    let fair = world.spawn(CPU);
    world.spawn_fifo(CPU, 1, CpuSet::of(CPU));
    [1000, 2000, 3000].map(|ms| {
        world.advance_to(ms * MS);
        world.runtime(fair) / MS
    })
}

#[test]
fn throttling_leaves_50_ms_a_second() {
    // The tick at 951 ms finds more than 950. After the refill 1 ms is left on the count, so
    // from then on 950 ms later 951 are on it.
    assert_eq!(fair_beside_hog(&mut World::new("6.1", 1)), [49, 99, 149]);
    assert_eq!(fair_beside_hog(&mut World::new("4.5", 1)), [49, 99, 149]);
    let mut unlimited = World::with("6.1", 1, |rules| rules.rt_runtime_ns = None);
    assert_eq!(fair_beside_hog(&mut unlimited), [0, 0, 0]);
}

#[test]
fn the_throttling_timer_is_active_while_there_is_something_to_count() {
    let mut world = World::new("6.1", 1);
    assert!(!world.kernel.rt_domain.period_active);
    world.spawn_fifo(CPU, 1, CpuSet::of(CPU));
    // Its first round is due a nanosecond later, the others every second; a second task changes
    // nothing.
    assert!(world.kernel.rt_domain.period_active);
    assert_eq!(world.kernel.rt_domain.period_expires_ns, 1);
    world.advance_to(10 * MS);
    assert_eq!(world.kernel.rt_domain.period_expires_ns, 1000 * MS + 1);
    world.spawn_fifo(CPU, 1, CpuSet::of(CPU));
    assert!(world.kernel.rt_domain.period_active);
    assert_eq!(world.kernel.rt_domain.period_expires_ns, 1000 * MS + 1);
    world.exit(CPU);
    world.exit(CPU);
    // The round at 1 s forgives what was counted, the one at 2 s finds nothing.
    world.advance_to(2000 * MS + 1);
    assert!(!world.kernel.rt_domain.period_active);
}

#[test]
fn the_throttling_timer_keeps_its_phase_over_a_short_stop() {
    // The round at 0 (all a nanosecond later) finds a task, that at 1000 ms none and stops. A hog
    // that comes at 1500 ms starts it for 2000 ms, where it was due anyway: what was charged by
    // the tick before, 500 ms, is forgiven, and the tick at 2951 ms finds 951. One that comes after
    // the next expiry, at 2500 ms, has a round at once and is set aside by the tick 951 ms later.
    for (start_ms, throttled_ms) in [(1500, 2951), (2500, 3451)] {
        let mut world = World::new("6.1", 1);
        world.spawn_fifo(CPU, 1, CpuSet::of(CPU));
        world.advance(10 * MS);
        world.exit(CPU);
        let fair = world.spawn(CPU);
        world.advance_to(start_ms * MS);
        let before = world.runtime(fair);
        world.spawn_fifo(CPU, 1, CpuSet::of(CPU));
        world.advance_to(throttled_ms * MS - 1);
        assert_eq!(world.runtime(fair), before, "{start_ms}");
        world.advance_to(throttled_ms * MS + 40 * MS);
        assert_eq!(world.runtime(fair), before + 40 * MS, "{start_ms}");
    }
}

#[test]
fn up_to_5_9_runtime_is_borrowed_from_idle_cpus() {
    // The other CPU has 950 ms to spare, half of which may be borrowed; 50 ms fill the period.
    assert_eq!(fair_beside_hog(&mut World::new("5.9", 2)), [0, 0, 0]);
    assert_eq!(fair_beside_hog(&mut World::new("5.10", 2)), [49, 99, 149]);
}

#[test]
fn the_fair_server_runs_50_ms_a_second() {
    // Zero laxity at 950 ms; the server that starts then has its deadline a second later.
    for version in ["6.12", "6.18"] {
        let mut world = World::new(version, 1);
        let fair = world.spawn(CPU);
        world.spawn_fifo(CPU, 1, CpuSet::of(CPU));
        for (ms, runtime) in [
            (950, 0),
            (975, 25),
            (1000, 50),
            (1950, 50),
            (2000, 100),
            (2950, 100),
            (3100, 150),
        ] {
            world.advance_to(ms * MS);
            assert_eq!(world.runtime(fair), runtime * MS, "{version} at {ms} ms");
        }
    }
}

#[test]
fn fair_servers_run_for_what_they_are_given_or_not_at_all() {
    // 100 ms in 500: zero laxity at 400, deadlines at 900 and 1400 from then on.
    let mut given = World::with("6.12", 1, |rules| {
        rules.fair_server_runtime_ns = 100 * MS;
        rules.fair_server_period_ns = 500 * MS;
    });
    assert_eq!(fair_beside_hog(&mut given), [200, 400, 600]);
    let mut none = World::with("6.12", 1, |rules| rules.fair_server_runtime_ns = 0);
    assert_eq!(fair_beside_hog(&mut none), [0, 0, 0]);
}

#[test]
fn the_fair_server_counts_what_ran_without_it() {
    let mut world = World::new("6.12", 1);
    let fair = world.spawn(CPU);
    // 60 ms on its own: after 50 a new period began, with zero laxity at 50 + 950 ms; the further
    // 10 leave 40 ms for it.
    world.advance_to(60 * MS);
    world.spawn_fifo(CPU, 1, CpuSet::of(CPU));
    world.advance_to(1009 * MS);
    assert_eq!(world.runtime(fair), 60 * MS);
    world.advance_to(1050 * MS);
    assert_eq!(world.runtime(fair), 100 * MS);
}

/// A fair task beside a FIFO hog that leaves it the CPU from 500 to 501 ms, no longer.
fn one_ms_beside_a_hog(version: &str) -> (World, TaskId) {
    let mut world = World::new(version, 1);
    let fair = world.spawn(CPU);
    let hog = world.spawn_fifo(CPU, 1, CpuSet::of(CPU));
    world.advance_to(500 * MS);
    world.block(CPU);
    world.advance_to(501 * MS);
    world.block(CPU);
    world.wake(CPU, hog);
    assert_eq!(world.runtime(fair), MS);
    (world, fair)
}

#[test]
fn a_server_that_found_nothing_to_run_serves_at_once_since_6_17() {
    let served = |version| {
        let (mut world, fair) = one_ms_beside_a_hog(version);
        world.advance_to(980 * MS);
        world.wake(CPU, fair);
        [990, 1100, 1931].map(|ms| {
            world.advance_to(ms * MS);
            world.runtime(fair) / MS
        })
    };
    for version in ["6.12", "6.16"] {
        assert_eq!(served(version), [1, 1, 2], "{version}");
    }
    for version in ["6.17", "6.18.8"] {
        // A new period, and the whole budget at once.
        assert_eq!(served(version), [11, 51, 51], "{version}");
    }
    for version in ["6.18.9", "6.18.23", "6.19.13"] {
        // A new period, which waits for zero laxity at 1930 ms.
        assert_eq!(served(version), [1, 1, 2], "{version}");
    }
    for version in ["6.12.92", "6.12.117", "6.18.24", "7.0"] {
        // 48.5 ms, a twentieth of the 970 to the deadline; the tick of 1029 ms finds them used up.
        assert_eq!(served(version), [11, 50, 50], "{version}");
    }
}

#[test]
fn a_server_that_ran_waits_again_in_a_later_period_since_6_18_9() {
    for (version, at_3010_ms) in releases([("6.12.68 6.18.8", 25), ("6.12.69 6.18.9", 15)]) {
        let mut world = World::new(version, 1);
        let fair = world.spawn(CPU);
        world.spawn_fifo(CPU, 1, CpuSet::of(CPU));
        world.advance_to(965 * MS);
        assert_eq!(world.current(CPU), fair, "zero laxity was at 950 ms");
        world.block(CPU);
        world.advance_to(3000 * MS);
        world.wake(CPU, fair);
        world.advance_to(3010 * MS);
        assert_eq!(world.runtime(fair), at_3010_ms * MS, "{version}");
        if at_3010_ms == 15 {
            // It is served at zero laxity, 3950 ms.
            world.advance_to(3960 * MS);
            assert_eq!(world.runtime(fair), 25 * MS, "{version}");
        }
    }
}

#[test]
fn a_server_whose_period_went_by_in_idle_stops_since_7_1() {
    // 10 ms of a fair task, then idle. The timer at 950 ms finds the budget of 50 used up by idle
    // time and stops the server. It begins anew with the fair task at 980, beside a FIFO hog, and
    // its zero laxity is at 1930 ms. Up to 7.0 it is still there at 970 ms, waiting to be picked.
    for (version, stops) in [("7.0", false), ("7.1.8", true), ("7.3", true)] {
        let mut world = World::with(version, 1, |rules| rules.features.hrtick = false);
        let fair = world.spawn(CPU);
        world.advance_to(10 * MS);
        world.block(CPU);
        world.advance_to(970 * MS);
        let active = world.kernel.rqs[CPU].fair_server.active;
        assert_eq!(active, !stops, "{version}");
        if stops {
            world.spawn_fifo(CPU, 1, CpuSet::of(CPU));
            world.advance_to(980 * MS);
            world.wake(CPU, fair);
            for (ms, runtime) in [(1930, 10), (1940, 20), (1980, 60), (2500, 60)] {
                world.advance_to(ms * MS);
                assert_eq!(world.runtime(fair), runtime * MS, "{version} at {ms} ms");
            }
        }
    }
}

#[test]
fn a_server_that_did_not_run_is_queued_before_its_deadline_up_to_7_1_7() {
    // The same server, for which idle time began a second period before it stopped. It starts at
    // 980 ms with a twentieth of what is left of that, 49 ms by the tick.
    for (version, runtime) in [("7.1", 59), ("7.1.7", 59), ("7.1.8", 10), ("7.2", 10)] {
        let mut world = World::with(version, 1, |rules| rules.features.hrtick = false);
        let fair = world.spawn(CPU);
        world.advance_to(10 * MS);
        world.block(CPU);
        world.advance_to(970 * MS);
        world.spawn_fifo(CPU, 1, CpuSet::of(CPU));
        world.advance_to(980 * MS);
        world.wake(CPU, fair);
        world.advance_to(1100 * MS);
        assert_eq!(world.runtime(fair), runtime * MS, "{version}");
    }
}

#[test]
fn an_idle_period_of_a_server_ends_with_its_timer_since_7_1() {
    // A fair task wakes for 1 ms at 900 ms. Idle time has used the first period up then, so the
    // second one begins, with its timer at 900 + 1000 - 50 = 1850 ms. That finds it used up by idle
    // time again.
    let mut world = World::with("7.1", 1, |rules| rules.features.hrtick = false);
    let fair = world.spawn(CPU);
    world.advance_to(10 * MS);
    world.block(CPU);
    world.advance_to(900 * MS);
    world.wake(CPU, fair);
    let server = |world: &World| world.kernel.rqs[CPU].fair_server.clone();
    assert!(!server(&world).defer_idle, "a fair task starts it");
    assert_eq!(
        server(&world).deadline_ns,
        world.kernel.rqs[0].clock + 1000 * MS
    );
    world.advance_to(901 * MS);
    world.block(CPU);
    world.advance_to(1849 * MS);
    assert!(server(&world).active);
    world.advance_to(1850 * MS);
    assert!(!server(&world).active);
}

#[test]
fn woken_tasks_avoid_more_urgent_ones() {
    let mut world = World::new("6.1", 2);
    let sleeper = world.spawn_fifo(CPU, 50, BOTH());
    world.block(CPU);
    let high = world.spawn_fifo(CPU, 60, BOTH());
    world.wake(CPU, sleeper);
    assert_eq!(world.current(CPU), high);
    assert_eq!(world.current(Cpu(1)), sleeper);
}

#[test]
fn woken_tasks_push_less_urgent_ones_away() {
    let mut world = World::new("6.1", 2);
    let sleeper = world.spawn_fifo(CPU, 60, BOTH());
    world.block(CPU);
    let low = world.spawn_fifo(CPU, 50, BOTH());
    assert_eq!(world.current(CPU), low);
    world.wake(Cpu(1), sleeper);
    assert_eq!(world.current(CPU), sleeper, "it stays where it was");
    assert_eq!(world.current(Cpu(1)), low, "the preempted one is pushed");
}

#[test]
fn a_pinned_task_is_not_preempted_by_an_equal_that_can_go_elsewhere() {
    let mut world = World::new("6.1", 2);
    let movable = world.spawn_fifo(CPU, 50, BOTH());
    world.block(CPU);
    let pinned = world.spawn_fifo(CPU, 50, CpuSet::of(CPU));
    world.wake(CPU, movable);
    assert_eq!(world.current(CPU), pinned);
    assert_eq!(world.current(Cpu(1)), movable);
    // The other way round the movable one makes room.
    world.block(Cpu(1));
    world.block(CPU);
    world.set_affinity(CPU, movable, CpuSet::of(CPU));
    world.wake(CPU, movable);
    world.set_affinity(CPU, movable, BOTH());
    assert_eq!(world.current(CPU), movable);
    world.wake(CPU, pinned);
    assert_eq!(world.current(CPU), pinned);
    assert_eq!(world.current(Cpu(1)), movable);
}

#[test]
fn a_cpu_that_drops_priority_pulls() {
    for push_ipi in [true, false] {
        for version in ["5.4", "6.1", "6.12"] {
            let mut world = World::with(version, 2, |rules| rules.features.rt_push_ipi = push_ipi);
            let high = world.spawn_fifo(CPU, 60, CpuSet::of(CPU));
            let highest = world.spawn_fifo(Cpu(1), 70, CpuSet::of(Cpu(1)));
            let waiting = world.spawn_fifo(CPU, 50, BOTH());
            assert_eq!(world.current(CPU), high);
            assert_eq!(world.current(Cpu(1)), highest);
            world.block(Cpu(1));
            let found = world.current(Cpu(1));
            assert_eq!(found, waiting, "{version}, push IPI {push_ipi}");
            assert_eq!(world.current(CPU), high);
        }
    }
}

#[test]
fn a_running_task_is_moved_by_the_migration_thread() {
    for version in ["4.15", "6.1", "6.18"] {
        let mut world = World::new(version, 2);
        let hog = world.spawn(CPU);
        world.advance(MS);
        world.bench.spent.clear();
        world.set_affinity(CPU, hog, CpuSet::of(Cpu(1)));
        let stopper = world.kernel.migration_thread(CPU);
        assert_eq!(
            names(&world, CPU)[1..],
            [Some(stopper), None],
            "{version}: two switches on the old CPU"
        );
        assert_eq!(world.current(Cpu(1)), hog);
        let switches = |cpu| {
            let spent = world.bench.spent.iter();
            spent
                .filter(|(on, op, _)| *on == cpu && *op == Op::ContextSwitchThread)
                .count()
        };
        assert_eq!(switches(CPU), 2, "{version}: both are paid for");
    }
}

#[test]
fn a_tick_that_meets_a_migration_thread_is_no_real_time_load() {
    // Taken for a real-time task it would have used the CPU since the class was last looked at.
    let mut world = World::new("6.12", 1);
    world.spawn(CPU);
    world.advance(100 * MS + 500 * US);
    world.kernel.rqs[0].curr = world.kernel.migration_thread(CPU);
    world.bench.now = 101 * MS;
    world.kernel.tick(&mut world.bench, CPU);
    assert_eq!(world.kernel.rqs[0].rt.avg.util_avg, 0);
    assert_eq!(world.kernel.rqs[0].rt.avg.util_sum, 0);
}

#[test]
fn a_queued_task_is_moved_at_once_and_a_sleeper_when_it_wakes() {
    let mut world = World::new("6.12", 2);
    let runs = world.spawn(CPU);
    let waits = world.spawn(CPU);
    let one = CpuSet::of(Cpu(1));
    world.set_affinity(CPU, waits, one);
    assert_eq!((world.current(CPU), world.current(Cpu(1))), (runs, waits));
    world.block(CPU);
    world.set_affinity(CPU, runs, one);
    assert_eq!(world.kernel.tasks[runs].cpu, CPU);
    world.block(Cpu(1));
    world.wake(CPU, runs);
    assert_eq!(world.current(Cpu(1)), runs);
}

#[test]
fn a_slow_cpu_that_goes_idle_counts_real_time_work_once() {
    // 10.5 ms on a CPU of half the speed are 5.25 ms of load tracking: 1024 · (1 − y^5.25) = 110.
    // Where the clock of the CPU catches up before the task is put they count twice: 1024 · (1 −
    // y^10.5) = 208.
    for (version, expected) in releases([
        ("5.1 5.3 6.12.55 6.17.5 6.18", 208_u64),
        ("5.0 5.4 6.1 6.12 6.12.68 6.17 6.18.8", 110),
    ]) {
        let mut topology = crate::topology::Topology::flat(1);
        topology.capacities = vec![512];
        let mut world = World::on(topology, version, |_| {});
        world.spawn_fifo(CPU, 10, CpuSet::of(CPU));
        world.advance(10 * MS + MS / 2);
        world.block(CPU);
        assert!(world.idle(CPU), "{version}");
        let util = world.kernel.rqs[0].rt.avg.util_avg;
        assert!(util.abs_diff(expected) <= 12, "{version}: {util}");
    }
}

#[test]
fn real_time_tracking_follows_its_share_of_time() {
    // 4 ms of every 8 with HZ 1000: util hovers around half.
    let mut world = World::new("6.1", 1);
    let task = world.spawn_fifo(CPU, 10, CpuSet::of(CPU));
    for _ in 0..50 {
        world.advance(4 * MS);
        world.block(CPU);
        world.advance(4 * MS);
        world.wake(CPU, task);
    }
    let util = world.kernel.rqs[0].rt.avg.util_avg;
    assert!((440..=560).contains(&util), "{util}");
    assert_eq!(world.runtime(task), 200 * MS);
    assert_eq!(
        world.kernel.group_usage_ns(crate::ids::GroupId::ROOT),
        200 * MS
    );
}
