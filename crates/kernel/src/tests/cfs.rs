//! CFS (up to 6.5) by hand: slices, sleeper credit, granularity, buddies, yielding.

use super::world::*;

const CPU: Cpu = Cpu(0);
const VERSIONS: [&str; 4] = ["4.15", "5.10", "6.1", "6.5"];

fn spawn_many(world: &mut World, count: usize) -> Vec<TaskId> {
    (0..count).map(|_| world.spawn(CPU)).collect()
}

/// Time between the first switches of CPU 0, the first ones left out.
fn turns(world: &World, skip: usize, count: usize) -> Vec<Ns> {
    let switches = world.switches(CPU);
    switches[skip..]
        .windows(2)
        .take(count)
        .map(|pair| pair[1].0 - pair[0].0)
        .collect()
}

#[test]
fn two_hogs_share_the_latency_in_halves() {
    // Latency 6, 12, 18, 24 ms; a turn ends at the first tick at or after half of it.
    for version in VERSIONS {
        for (cpus, at_1000, at_250) in [
            (1, 3, 4),
            (2, 6, 8),
            (3, 6, 8),
            (4, 9, 12),
            (8, 12, 12),
            (16, 12, 12),
        ] {
            for (hz, turn) in [(1000, at_1000), (250, at_250)] {
                let mut world = World::at_hz(version, cpus, hz);
                spawn_many(&mut world, 2);
                world.advance_to(200 * MS);
                let found = turns(&world, 0, 6);
                assert_eq!(found, [turn * MS; 6], "{version}, {cpus} CPUs at {hz} Hz");
            }
        }
    }
}

#[test]
fn more_than_eight_hogs_get_the_minimum_granularity() {
    // 10 · 3 ms / 10, rounded down by the fixed point, is over at the tick at 3 ms. BASE_SLICE
    // (5.13) makes it 3 ms sharp, which only the next tick finds exceeded.
    for (version, turn) in [("4.15", 3), ("5.12", 3), ("5.13", 4), ("6.5", 4)] {
        let mut world = World::at_hz(version, 8, 1000);
        let hogs = spawn_many(&mut world, 10);
        world.advance_to(1200 * MS);
        assert_eq!(turns(&world, 10, 20), [turn * MS; 20], "{version}");
        for hog in hogs {
            assert_eq!(world.runtime(hog), 120 * MS, "{version}");
        }
    }
}

#[test]
fn slices_follow_weights_down_to_the_granularity() {
    // Nice 0 and nice 15 (weight 36) with 8 CPUs: 24 ms · 36 / 1060 = 0.8 ms. BASE_SLICE (5.13)
    // makes that 3 ms; before, the tick after 0.8 ms ends it.
    for (version, turn) in [("5.12", 1), ("5.13", 3), ("6.1", 3)] {
        let mut world = World::at_hz(version, 8, 1000);
        let heavy = world.spawn(CPU);
        let light = world.spawn_in(GroupId::ROOT, CPU, Policy::Normal, 15);
        world.advance_to(3000 * MS);
        let switches = world.switches(CPU);
        let own: Vec<Ns> = switches
            .windows(2)
            .filter(|pair| pair[0].1 == Some(light))
            .map(|pair| pair[1].0 - pair[0].0)
            .collect();
        assert!(
            own.len() > 5 && own.iter().all(|&ns| ns == turn * MS),
            "{version}: {own:?}"
        );
        // 36 / 1060 = 3.4 % of the time, in whole turns.
        let share = world.runtime(light) * 1000 / (world.runtime(light) + world.runtime(heavy));
        assert!((32..=36).contains(&share), "{version}: {share} ‰");
    }
}

/// A hog and a task that sleeps while the hog runs; the world at the moment of its wakeup.
fn sleeper(version: &str, sleep: Ns) -> (World, TaskId, TaskId) {
    let mut world = World::at_hz(version, 8, 1000);
    let hog = world.spawn(CPU);
    world.advance(MS);
    let sleeper = world.spawn(CPU);
    // The sleeper starts 12 ms behind the hog, which runs until it is ahead, then 3 of its own.
    world.advance_to(16 * MS);
    assert_eq!(world.current(CPU), sleeper);
    world.block(CPU);
    world.advance(sleep);
    assert_eq!(world.current(CPU), hog);
    world.wake(CPU, sleeper);
    (world, hog, sleeper)
}

#[test]
fn a_wakee_needs_a_lead_of_the_wakeup_granularity() {
    // When the sleeper slept at 16 ms the hog's vruntime was 13 ms and its own 13 + 3 = 16. The hog
    // passes it after 3 ms and is 4 ms ahead after 7.
    for version in VERSIONS {
        for (sleep_us, preempts) in [(1000, false), (6900, false), (7100, true), (9000, true)] {
            let (world, hog, sleeper) = sleeper(version, sleep_us * US);
            let expected = if preempts { sleeper } else { hog };
            let found = world.current(CPU);
            assert_eq!(found, expected, "{version} after {sleep_us} us");
        }
    }
}

#[test]
fn long_sleepers_get_half_a_latency_of_credit() {
    for version in VERSIONS {
        let (mut world, hog, sleeper) = sleeper(version, 1000 * MS);
        assert_eq!(world.current(CPU), sleeper);
        let lead = world.entity(hog).vruntime - world.entity(sleeper).vruntime;
        assert_eq!(lead, 12 * MS, "{version}");
        // That is one turn: at its end they are level.
        let woken_at = world.bench.now;
        world.advance(11 * MS);
        assert_eq!(world.current(CPU), sleeper, "{version}");
        world.advance(2 * MS);
        assert_eq!(world.current(CPU), hog, "{version}");
        let ran = world.runtime(sleeper) - 3 * MS;
        assert_eq!(ran, 12 * MS, "{version}: woken at {woken_at}");
    }
    // Without GENTLE_FAIR_SLEEPERS it is the whole latency.
    let mut world = World::with("6.1", 8, |rules| {
        rules.features.gentle_fair_sleepers = false
    });
    let hog = world.spawn(CPU);
    world.advance(MS);
    let sleeper = world.spawn(CPU);
    world.advance_to(14 * MS);
    world.block(CPU);
    world.advance(1000 * MS);
    world.wake(CPU, sleeper);
    let lead = world.entity(hog).vruntime - world.entity(sleeper).vruntime;
    assert_eq!(lead, 24 * MS);
}

#[test]
fn batch_tasks_never_preempt_and_idle_ones_always_give_way() {
    for version in VERSIONS {
        let mut world = World::at_hz(version, 8, 1000);
        let batch = world.spawn_in(GroupId::ROOT, CPU, Policy::Batch, 0);
        world.block(CPU);
        let hog = world.spawn(CPU);
        world.advance(50 * MS);
        world.wake(CPU, batch);
        assert_eq!(world.current(CPU), hog, "{version}");
        world.advance(12 * MS);
        let found = world.current(CPU);
        assert_eq!(found, batch, "{version}: its turn comes at the tick");

        let mut world = World::at_hz(version, 8, 1000);
        let normal = world.spawn(CPU);
        world.block(CPU);
        world.spawn_in(GroupId::ROOT, CPU, Policy::Idle, 0);
        world.advance(100 * US);
        world.wake(CPU, normal);
        assert_eq!(world.current(CPU), normal, "{version}");
    }
}

#[test]
fn the_preempted_task_is_resumed_among_many() {
    // Nine tasks (≥ 8). The one preempted by a short wakeup goes on after it, unless LAST_BUDDY is
    // off: then the smallest vruntime does.
    for (last_buddy, resumes) in [(true, true), (false, false)] {
        let mut world = World::with("6.1", 8, |rules| rules.features.last_buddy = last_buddy);
        let waker = world.spawn(CPU);
        world.block(CPU);
        spawn_many(&mut world, 9);
        // Well into the slice of a task, so that others have a smaller vruntime by now.
        world.advance_to(500 * MS);
        let turn = world.current(CPU);
        while world.current(CPU) == turn {
            world.advance(100 * US);
        }
        world.advance(3500 * US);
        let preempted = world.current(CPU);
        world.wake(CPU, waker);
        assert_eq!(world.current(CPU), waker, "credit of 12 ms");
        world.advance(100 * US);
        world.block(CPU);
        assert_eq!(world.current(CPU) == preempted, resumes);
    }
}

#[test]
fn yielding_skips_a_turn_only_when_that_is_fair() {
    for version in VERSIONS {
        let mut world = World::at_hz(version, 8, 1000);
        let first = world.spawn(CPU);
        world.advance(MS);
        let second = world.spawn(CPU);
        // The second one starts 12 ms later than the first; the granularity is 4 ms.
        world.advance_to(8 * MS);
        world.yield_current(CPU);
        assert_eq!(world.current(CPU), first, "{version}: 5 ms apart");
        world.advance_to(10 * MS);
        world.yield_current(CPU);
        assert_eq!(world.current(CPU), second, "{version}: 3 ms apart");
    }
}

#[test]
fn a_hint_at_what_runs_without_a_pick_lasts_up_to_5_13() {
    // As above, but the first task yields in a group. A real-time task of the group comes and
    // becomes a fair one while it runs: the group runs again without having been picked.
    for (version, skips) in [
        ("5.10", true),
        ("5.13", true),
        ("5.14", false),
        ("6.5", false),
    ] {
        let mut world = World::at_hz(version, 8, 1000);
        let group = world.group(GroupId::ROOT);
        world.spawn_in(group, CPU, Policy::Normal, 0);
        world.advance(MS);
        let second = world.spawn(CPU);
        world.advance_to(10 * MS);
        world.yield_current(CPU);
        assert_eq!(world.current(CPU), second, "{version}: 3 ms apart");
        let task = world.start(TaskAttributes {
            policy: Policy::Fifo,
            rt_priority: 1,
            group,
            ..TaskAttributes::on(CPU)
        });
        assert_eq!(world.current(CPU), task, "{version}");
        world.set_policy(CPU, task, Policy::Normal, 0, 0);
        assert_eq!(world.current(CPU) == second, skips, "{version}");
    }
}

#[test]
fn a_forked_child_starts_one_slice_after_its_parent() {
    for (child_first, version) in [(false, "5.10"), (true, "5.10"), (true, "6.5")] {
        let mut world = World::with(version, 8, |rules| rules.child_runs_first = child_first);
        let parent = world.spawn(CPU);
        world.advance_to(5 * MS);
        let child = world.spawn(CPU);
        let (parent_at, child_at) = (world.entity(parent).vruntime, world.entity(child).vruntime);
        let distance = parent_at.wrapping_sub(child_at) as i64;
        // 24 ms · ½ in the kernel's fixed point.
        let slice = 11_999_994;
        assert_eq!(
            distance,
            if child_first { slice } else { -slice },
            "{version}"
        );
        let first = if child_first { child } else { parent };
        assert_eq!(world.current(CPU), first, "{version}");
    }
}

#[test]
fn vruntime_travels_relative_to_its_queue() {
    // CPU 1 ran 100 ms, CPU 0 nothing: a task that moves over must be neither ahead nor behind.
    for version in VERSIONS {
        let mut world = World::at_hz(version, 2, 1000);
        let there = world.spawn(Cpu(1));
        world.advance_to(100 * MS);
        let mover = world.spawn(CPU);
        world.advance(MS);
        let origin = world.kernel.cfs_rqs[0].min_vruntime;
        let before = world.entity(mover).vruntime.wrapping_sub(origin) as i64;
        world.set_affinity(CPU, mover, CpuSet::of(Cpu(1)));
        let origin = world.kernel.cfs_rqs[1].min_vruntime;
        let after = world.entity(mover).vruntime.wrapping_sub(origin) as i64;
        assert_in!((after - before).abs(), 0..=2 * MS as i64, "{version}");
        world.advance(100 * MS);
        let (a, b) = (world.runtime(there) - 101 * MS, world.runtime(mover) - MS);
        assert!(a.abs_diff(b) <= 12 * MS, "{version}: {a} {b}");
    }
}
