//! EEVDF (6.6 on) by hand: requests, lag, placement, protection, short slices, delayed dequeue.

use super::world::*;
use crate::platform::PrevState;

const CPU: Cpu = Cpu(0);
const QUEUE: CfsRqId = CfsRqId(0);
const VERSIONS: [&str; 6] = ["6.6", "6.8", "6.12", "6.13", "6.17", "6.18"];

/// A task with a slice of its own that may run everywhere.
fn with_slice(world: &mut World, cpu: Cpu, slice_ns: Option<Ns>) -> TaskId {
    let cpus = world.kernel.cpus();
    world.start(TaskAttributes {
        affinity: CpuSet::first(cpus),
        custom_slice_ns: slice_ns,
        ..TaskAttributes::on(cpu)
    })
}

fn lag(world: &World, task: TaskId) -> i64 {
    let se = world.kernel.tasks[task].se;
    let average = world.kernel.avg_vruntime(QUEUE);
    world.kernel.entity_lag(QUEUE, se, average)
}

#[test]
fn requests_end_at_ticks() {
    // Requests are 3.0 ms (2.8 from 6.15) on 8 CPUs and 0.75 (0.7) on one; the first is half as
    // long from 6.12 on. A turn ends at the first tick at or after the deadline: 2 ms for the
    // first, then 3, or 4 at 250 Hz.
    for (version, (cpus, hz, first, turn)) in releases([
        ("6.6 6.11", (8, 1000, 3, 3)),
        ("6.12 6.14 6.18", (8, 1000, 2, 3)),
        ("6.12 6.18", (1, 1000, 1, 1)),
        ("6.12", (4, 1000, 2, 3)),
        ("6.12", (2, 1000, 1, 2)),
        ("6.6 6.18", (8, 250, 4, 4)),
    ]) {
        let mut world = World::at_hz(version, cpus, hz);
        let (a, b) = (world.spawn(CPU), world.spawn(CPU));
        world.advance_to(100 * MS);
        let mut at = 0;
        let mut expected = vec![(0, Some(a))];
        for (length, task) in [(first, b), (first, a), (turn, b), (turn, a), (turn, b)] {
            at += length * MS;
            expected.push((at, Some(task)));
        }
        assert_eq!(
            world.switches(CPU)[..6],
            expected,
            "{version}, {cpus} CPUs, {hz} Hz"
        );
    }
}

#[test]
fn runtime_follows_weights() {
    // Weights 1024 and 335: of 1359 ms the first gets 1024.
    for version in VERSIONS {
        let mut world = World::new(version, 8);
        let heavy = world.spawn(CPU);
        let light = world.spawn_in(GroupId::ROOT, CPU, Policy::Normal, 5);
        world.advance_to(13_590 * MS);
        assert_in!(world.runtime(heavy), 10_228 * MS..=10_252 * MS, "{version}");
        assert_in!(world.runtime(light), 3_338 * MS..=3_362 * MS, "{version}");
    }
}

#[test]
fn the_owed_one_runs_although_its_deadline_is_later() {
    // The worked example of the room: v 10 and 14 ms, deadlines 13 and 12 ms, V = 12 ms.
    for version in VERSIONS {
        let mut world = World::new(version, 1);
        world.checked = false;
        let (a, b) = (world.spawn(CPU), world.spawn(CPU));
        let kernel = &mut world.kernel;
        let origin = kernel.cfs_rqs[0].min_vruntime;
        let (a, b) = (kernel.tasks[a].se, kernel.tasks[b].se);
        kernel.timeline_remove(QUEUE, b);
        for (se, vruntime, deadline) in [(a, 10 * MS, 13 * MS), (b, 14 * MS, 12 * MS)] {
            let entity = &mut kernel.entities[se];
            entity.vruntime = origin.wrapping_add(vruntime);
            entity.deadline = origin.wrapping_add(deadline);
            // No entity is protected.
            entity.vprot = origin;
        }
        kernel.timeline_insert(QUEUE, b);
        assert_eq!(kernel.avg_vruntime(QUEUE), origin.wrapping_add(12 * MS));
        assert!(kernel.entity_eligible(QUEUE, a) && !kernel.entity_eligible(QUEUE, b));
        assert_eq!(kernel.pick_eevdf(QUEUE, true), Some(a), "{version}");
    }
}

#[test]
fn v_is_rounded_down() {
    // Weights 1024 and 335, vruntimes +1 and −4 ns: V = (1024 − 1340) / 1359, just below 0, is −1.
    let mut world = World::new("6.12", 1);
    world.checked = false;
    let a = world.spawn(CPU);
    let b = world.spawn_in(GroupId::ROOT, CPU, Policy::Normal, 5);
    let kernel = &mut world.kernel;
    let origin = kernel.cfs_rqs[0].min_vruntime;
    let (a, b) = (kernel.tasks[a].se, kernel.tasks[b].se);
    kernel.timeline_remove(QUEUE, b);
    kernel.entities[a].vruntime = origin.wrapping_add(1);
    kernel.entities[b].vruntime = origin.wrapping_sub(4);
    kernel.timeline_insert(QUEUE, b);
    assert_eq!(kernel.avg_vruntime(QUEUE), origin.wrapping_sub(1));
    // Eligibility does not round: −1 is owed nothing only at or before the true average.
    assert!(kernel.vruntime_eligible(QUEUE, origin.wrapping_sub(1)));
    assert!(!kernel.vruntime_eligible(QUEUE, origin));
}

#[test]
fn a_sleeper_keeps_the_lag_it_left_with() {
    // Before delayed dequeue, negative lag too. Three equal tasks; the one that sleeps has run
    // 0.5 ms more than the others: V = v − 1/3 ms, so its lag is −1/3 ms, and placing it anew
    // inflates that by 3/2 so that 1/3 is left.
    for version in ["6.6", "6.11"] {
        let mut world = World::new(version, 8);
        let a = world.spawn(CPU);
        let (b, c) = (world.spawn(CPU), world.spawn(CPU));
        world.advance(500 * US);
        world.block(CPU);
        let found = world.entity(a).vlag;
        assert_eq!(found, -333_334, "{version}: rounded away from V");
        world.advance(100 * MS);
        world.wake(CPU, a);
        assert_in!(lag(&world, a), -333_336..=-333_332, "{version}");
        for task in [b, c] {
            assert!(world.runtime(task) > 40 * MS);
        }
    }
}

#[test]
fn lag_is_bounded_by_two_requests() {
    // 1 CPU: 2 · 0.75 = 1.5 ms, at 100 Hz one tick, 10 ms. Later stable kernels: 0.7 ms and a tick.
    for (version, hz, bound) in [
        ("6.6", 1000, 1_500_000),
        ("6.6", 100, 10_000_000),
        ("6.18", 1000, 1_400_000),
        ("6.18.44", 1000, 1_700_000),
        ("6.18.44", 100, 10_700_000),
    ] {
        let mut world = World::at_hz(version, 1, hz);
        let a = world.spawn(CPU);
        let _b = world.spawn(CPU);
        let se = world.kernel.tasks[a].se;
        world.checked = false;
        let entity = &mut world.kernel.entities[se];
        entity.vruntime = entity.vruntime.wrapping_add(100 * MS);
        assert_eq!(lag(&world, a), -bound);
    }
}

#[test]
fn long_sleepers_have_no_credit() {
    for version in VERSIONS {
        let mut world = World::new(version, 8);
        let sleeper = world.spawn(CPU);
        world.block(CPU);
        let hog = world.spawn(CPU);
        world.advance(1000 * MS + 200 * US);
        world.wake(CPU, sleeper);
        let found = world.current(CPU);
        assert_eq!(found, hog, "{version}: protected until its request ends");
        assert_eq!(lag(&world, sleeper), 0, "{version}");
        world.advance(3 * MS);
        assert!(world.runtime(sleeper) > 0, "{version}: its turn came");
    }
}

#[test]
fn a_task_that_blocks_early_stays_until_its_debt_is_paid() {
    // One CPU, equal tasks, requests 0.75 ms. A runs 0.5 ms and blocks: V = 0.25 ms, so it owes and
    // stays queued. B runs; at the tick at 1 ms it has 0.5 ms too, V = 0.5, and A is due: it
    // leaves.
    for version in ["6.12.7", "6.14"] {
        let mut world = World::new(version, 1);
        let (a, b) = (world.spawn(CPU), world.spawn(CPU));
        world.advance(500 * US);
        world.block(CPU);
        let counts = |world: &World| {
            let root = &world.kernel.cfs_rqs[0];
            (root.nr_queued, root.h_nr_queued, root.h_nr_runnable)
        };
        assert_eq!(world.current(CPU), b);
        assert!(
            world.entity(a).sched_delayed && world.asleep(a),
            "{version}"
        );
        assert_eq!(counts(&world), (2, 2, 1), "{version}");
        assert_eq!(world.kernel.rqs[0].nr_running, 2, "it still counts");

        let mut woken = world.clone();
        woken.advance_to(700 * US);
        assert!(woken.wake(CPU, a));
        assert!(!woken.entity(a).sched_delayed && !woken.asleep(a));
        assert_eq!(counts(&woken), (2, 2, 2), "{version}");

        world.advance_to(MS);
        assert_eq!(world.current(CPU), b);
        assert!(!world.entity(a).on_rq && !world.entity(a).sched_delayed);
        let found = world.entity(a).vlag;
        assert_eq!(found, 0, "{version}: what it gained is dropped");
        assert_eq!(counts(&world), (1, 1, 1), "{version}");
    }
    // Before 6.12, and with NO_DELAY_DEQUEUE, it leaves at once with its debt.
    for (version, delay) in [("6.11", true), ("6.12", false)] {
        let mut world = World::with(version, 1, |rules| rules.features.delay_dequeue &= delay);
        let (a, _b) = (world.spawn(CPU), world.spawn(CPU));
        world.advance(500 * US);
        world.block(CPU);
        assert!(!world.entity(a).on_rq, "{version}");
        assert_eq!(world.entity(a).vlag, -250_000, "{version}");
    }
}

#[test]
fn a_delayed_task_wakes_where_it_is() {
    // Its CPU is busy and CPU 1 idle, but a task that never left is not placed anew.
    for (version, stays) in [("6.11", false), ("6.12", true), ("6.18", true)] {
        let mut world = World::new(version, 2);
        let sleeper = with_slice(&mut world, CPU, None);
        let hog = world.spawn(CPU);
        world.advance(500 * US);
        assert_eq!(world.current(CPU), sleeper);
        world.block(CPU);
        world.advance(100 * US);
        world.wake(CPU, sleeper);
        let cpu = world.kernel.tasks[sleeper].cpu;
        assert_eq!(cpu == CPU, stays, "{version}");
        assert_eq!(world.current(CPU), hog);
    }
}

#[test]
fn short_requests_preempt_from_6_12_on() {
    // 8 CPUs: two hogs, one in the middle of its request, and a wakee that asks for 0.1 ms. It is
    // placed at V, so it is eligible and its deadline comes first; only protection can stop it.
    for (version, (slice, preempts)) in releases([
        ("6.6", (Some(100_000), false)),
        ("6.12 6.14 6.18", (Some(100_000), true)),
        ("6.12 6.18", (None, false)),
    ]) {
        let mut world = World::new(version, 8);
        let sleeper = world.start(TaskAttributes {
            custom_slice_ns: slice,
            ..TaskAttributes::on(CPU)
        });
        world.block(CPU);
        let hog = running_hog(&mut world);
        world.wake(CPU, sleeper);
        let expected = if preempts { sleeper } else { hog };
        assert_eq!(world.current(CPU), expected, "{version}, slice {slice:?}");
    }
    let mut world = World::with("6.12", 8, |rules| rules.features.preempt_short = false);
    let sleeper = with_slice(&mut world, CPU, Some(100_000));
    world.set_affinity(CPU, sleeper, CpuSet::of(CPU));
    world.block(CPU);
    let hog = running_hog(&mut world);
    world.wake(CPU, sleeper);
    assert_eq!(world.current(CPU), hog);
}

/// Two hogs on CPU 0; the one that runs, half a millisecond into its turn.
fn running_hog(world: &mut World) -> TaskId {
    let (hog, _) = (world.spawn(CPU), world.spawn(CPU));
    world.advance(100 * MS);
    while world.current(CPU) == hog {
        world.advance(100 * US);
    }
    world.advance(500 * US);
    world.current(CPU)
}

#[test]
fn a_queued_short_request_bounds_protection_from_6_17_on() {
    // 8 CPUs. A (base slice 2.8 ms) and B (1 ms). While B waits, A is protected for 1 ms only; then
    // it gives way, or goes on if its deadline comes first, and so runs 1 and 2 ms in turn. Up to
    // 6.16 it is protected for its whole request, 3 ms in ticks.
    for (version, turns) in [("6.16", [3, 3]), ("6.17", [1, 2])] {
        let mut world = World::new(version, 8);
        let a = world.spawn(CPU);
        let b = world.start(TaskAttributes {
            custom_slice_ns: Some(MS),
            ..TaskAttributes::on(CPU)
        });
        world.advance_to(300 * MS);
        let switches = world.switches(CPU);
        let own: Vec<Ns> = switches[20..]
            .windows(2)
            .filter(|pair| pair[0].1 == Some(a))
            .map(|pair| (pair[1].0 - pair[0].0) / MS)
            .collect();
        let extremes = [own.iter().min().unwrap(), own.iter().max().unwrap()];
        assert_eq!(extremes, [&turns[0], &turns[1]], "{version}: {own:?}");
        assert!(world.runtime(a).abs_diff(world.runtime(b)) <= 4 * MS);
    }
}

#[test]
fn yielding_gives_up_a_request() {
    // Up to 6.18 only the deadline moves: with 8 CPUs from 3.0 to 6.0 ms, from 6.12 on from 1.5 to
    // 4.5 ms since the first request is half as long. Later versions and stable kernels move the
    // vruntime to the deadline, too.
    for (version, forfeits) in [("6.6", false), ("6.12", false), ("6.12.117", true)] {
        let mut world = World::new(version, 8);
        let (a, b) = (world.spawn(CPU), world.spawn(CPU));
        let start = world.entity(a).vruntime;
        let slice = world.kernel.rules.base_slice_ns;
        let first = if version == "6.6" { slice } else { slice / 2 };
        world.yield_current(CPU);
        let found = world.current(CPU);
        assert_eq!(found, b, "{version}: its deadline comes first now");
        let entity = world.entity(a);
        let moved = (
            entity.vruntime.wrapping_sub(start),
            entity.deadline.wrapping_sub(start),
        );
        let expected = if forfeits {
            (first, first + slice)
        } else {
            (0, first + slice)
        };
        assert_eq!(moved, expected, "{version}");
    }
}

#[test]
fn the_switch_behind_a_yield_reads_no_clock() {
    // The switch waits 1 µs for the lock of its queue, and the task that is picked starts at the
    // time of the yield.
    for version in ["6.1", "6.12", "6.18", "7.1"] {
        let mut world = World::new(version, 1);
        let (a, b) = (world.spawn(CPU), world.spawn(CPU));
        assert_eq!(world.current(CPU), a, "{version}");
        world.advance_to(MS / 2);
        world.kernel.here = CPU;
        world.kernel.yield_task_fair(&mut world.bench, CPU, a);
        world.bench.now += US;
        world
            .kernel
            .schedule(&mut world.bench, CPU, PrevState::Runnable);
        assert_eq!(world.kernel.rqs[0].clock, MS / 2, "{version}");
        assert_eq!(world.current(CPU), b, "{version}");
    }
}

#[test]
fn a_new_weight_rescales_lag_and_deadline_by_version() {
    // One CPU, two equal tasks; after 0.5 ms of A, V lies 0.25 ms above B. B (v = 0, d = 0.75 ms,
    // 0.375 from 6.12 on) becomes nice 5: times over 1024 / 335 = 3.0567. 6.6: v stays, d − v =
    // 0.75 · 3.0567 = 2.293 ms. 6.7: v = V − 0.25 · 3.0567, d = V + (0.75 − 0.25) · 3.0567; so do
    // later stable kernels of 6.6. 6.12: v = V − 0.25 · 3.0567, d = V + (0.375 − 0.25) · 3.0567.
    // 6.13: as 6.12 in lag, with the inflation of a new placement: 1024 A remain beside 335 B, so
    // 0.764 · 1359 / 1024 = 1.014 below A's v of 0.5; d − v = 1.146 ms. 6.18.45: as 6.12, and
    // requests are 0.7 ms: d = V + (0.35 − 0.25) · 3.0567.
    let scale = |ns: i64| ns * 1024 / 335;
    for (version, vruntime, deadline) in [
        ("6.6", 0, scale(750_000)),
        ("6.6.30", 250_000 - scale(250_000), 250_000 + scale(500_000)),
        ("6.7", 250_000 - scale(250_000), 250_000 + scale(500_000)),
        ("6.12", 250_000 - scale(250_000), 250_000 + scale(125_000)),
        (
            "6.13",
            500_000 - scale(250_000) * 1359 / 1024,
            500_000 - scale(250_000) * 1359 / 1024 + scale(375_000),
        ),
        (
            "6.18.45",
            250_000 - scale(250_000),
            250_000 + scale(100_000),
        ),
    ] {
        let mut world = World::new(version, 1);
        let (_a, b) = (world.spawn(CPU), world.spawn(CPU));
        let origin = world.entity(b).vruntime;
        world.advance(500 * US);
        let q = QUEUE;
        let load = crate::weight::LoadWeight::from_nice(5);
        let se = world.kernel.tasks[b].se;
        world.kernel.update_rq_clock(&world.bench, CPU);
        world.kernel.reweight_entity(&mut world.bench, q, se, load);
        crate::invariants::check(&world.kernel);
        let entity = world.entity(b);
        let at = |time: u64| time.wrapping_sub(origin) as i64;
        let (v, d) = (at(entity.vruntime), at(entity.deadline));
        assert_in!(v - vruntime, -2..=2, "{version}: v {v}");
        assert_in!(d - deadline, -2..=2, "{version}: d {d}");
    }
}

#[test]
fn a_new_weight_keeps_the_rest_of_a_request_whatever_the_feature() {
    // As above under 6.18, with requests of 0.7 ms: B's first one, 0.35 ms ahead of it, is
    // stretched to 0.35 · 1024 / 335 = 1.069850 ms whether or not PLACE_REL_DEADLINE is on.
    for place_rel_deadline in [true, false] {
        let mut world = World::with("6.18", 1, |rules| {
            rules.features.place_rel_deadline = place_rel_deadline;
        });
        let (_a, b) = (world.spawn(CPU), world.spawn(CPU));
        let to_deadline = |world: &World| {
            let entity = world.entity(b);
            entity.deadline.wrapping_sub(entity.vruntime)
        };
        assert_eq!(to_deadline(&world), 350_000);
        let load = crate::weight::LoadWeight::from_nice(5);
        let se = world.kernel.tasks[b].se;
        world
            .kernel
            .reweight_entity(&mut world.bench, QUEUE, se, load);
        assert_eq!(to_deadline(&world), 350_000 * 1024 / 335);
        assert!(!world.entity(b).rel_deadline);
    }
}

#[test]
fn a_new_weight_ends_protection_except_in_later_stable_kernels() {
    // The running task, 0.5 ms into its first turn, becomes nice 5. Up to 6.18.44 its protection is
    // lost: `vprot` has its place where the lag is written. From 6.18.45 on the time it is
    // protected for is stretched by 1024 / 335 like all of its virtual time.
    for (version, scales) in releases([("6.17 6.18 6.18.44", false), ("6.18.45", true)]) {
        let mut world = World::new(version, 8);
        let (a, _b) = (world.spawn(CPU), world.spawn(CPU));
        world.advance(500 * US);
        let left = |world: &World| {
            let entity = world.entity(a);
            entity.vprot.wrapping_sub(entity.vruntime) as i64
        };
        world.kernel.update_rq_clock(&world.bench, CPU);
        world.kernel.update_curr(&mut world.bench, QUEUE);
        // The first request is half a slice, 1.4 ms.
        assert_eq!(left(&world), 900_000, "{version}");
        let load = crate::weight::LoadWeight::from_nice(5);
        let se = world.kernel.tasks[a].se;
        world
            .kernel
            .reweight_entity(&mut world.bench, QUEUE, se, load);
        let stretched = 900_000 * 1024 / 335;
        assert_eq!(left(&world) == stretched, scales, "{version}");
        assert_eq!(world.kernel.protect_slice(se), scales, "{version}");
    }
}

#[test]
fn idle_policy_gives_way_at_once_from_6_15_on() {
    // Before, the reschedule is asked for, but the idle task still is protected for its request.
    for (version, at_once) in releases([("6.6 6.12", false), ("6.12.117 6.15 6.18", true)]) {
        let mut world = World::new(version, 8);
        let normal = world.spawn(CPU);
        world.block(CPU);
        let idle = world.spawn_in(GroupId::ROOT, CPU, Policy::Idle, 0);
        world.advance(200 * US);
        assert_eq!(world.current(CPU), idle);
        world.wake(CPU, normal);
        assert_eq!(world.current(CPU) == normal, at_once, "{version}");
        // Weight 3 of 1027.
        world.advance(10_000 * MS);
        let share = world.runtime(idle) * 100_000 / (10_000 * MS);
        assert!((200..=400).contains(&share), "{version}: {share} of 100000");
    }
}

#[test]
fn a_migrated_task_keeps_the_rest_of_its_request() {
    // PLACE_REL_DEADLINE: 1 ms into a request of 3 ms, 2 are left wherever it goes.
    let mut world = World::new("6.12", 8);
    let hog = world.spawn(Cpu(1));
    let mover = with_slice(&mut world, CPU, None);
    world.advance_to(20 * MS);
    let left = |world: &World| {
        let entity = world.entity(mover);
        entity.deadline.wrapping_sub(entity.vruntime) as i64
    };
    world.call(CPU, |kernel, bench| {
        kernel.update_rq_clock(bench, CPU);
        kernel.update_curr(bench, QUEUE);
    });
    let before = left(&world);
    assert!((0..=3_000_000).contains(&before));
    world.set_affinity(CPU, mover, CpuSet::of(Cpu(1)));
    assert_eq!(left(&world), before);
    assert_eq!(world.kernel.tasks[mover].cpu, Cpu(1));
    assert!(world.runtime(hog) > 0);
}
