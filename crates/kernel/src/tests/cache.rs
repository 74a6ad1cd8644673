//! Cache-aware scheduling (7.2), computed by hand.
//!
//! Two last level caches with 4 CPUs each, one thread a core. Ticks are 1 ms and epochs 10 ms long.

use super::world::*;

fn world(version: &str) -> World {
    with(version, |_| {})
}

fn with(version: &str, change: impl FnOnce(&mut Rules)) -> World {
    World::on(Topology::regular(1, 2, 4, 1), version, change)
}

/// A thread of process 1 that computes on one CPU.
fn thread(world: &mut World, cpu: u32) -> TaskId {
    world.spawn(Cpu(cpu))
}

fn allow(world: &mut World, task: TaskId, cpus: &[u32]) {
    let cpus: CpuSet = cpus.iter().map(|&cpu| Cpu(cpu)).collect();
    world.set_affinity(Cpu(7), task, cpus);
}

const ALL: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

/// LLC that the only process prefers.
fn preferred(world: &World) -> Option<u32> {
    let cache = &world.kernel.cache;
    let cpu = cache.processes[0].cpu?;
    Some(cpu.0 / 4)
}

fn llc_of(world: &World, task: TaskId) -> u32 {
    world.kernel.tasks[task].cpu.0 / 4
}

#[test]
fn a_process_prefers_the_cache_that_has_most_of_it_and_clings_to_it() {
    let mut world = world("7.2");
    let threads = [0, 1, 4].map(|cpu| thread(&mut world, cpu));
    world.advance(100 * MS);
    assert_eq!(preferred(&world), Some(0));
    // A half of 3, of 2, and of 1, each rounded down.
    assert_eq!(world.kernel.cache.processes[0].nr_running_avg, 2);
    for task in threads {
        let preferred = world.kernel.tasks[task].cache.preferred_llc;
        assert_eq!(preferred, Some(0));
    }
    // Two against two, as nothing else runs on CPU 1, then two against one.
    allow(&mut world, threads[1], &[5]);
    world.advance(500 * MS);
    assert_eq!(preferred(&world), Some(0));
    // Three against the one that is remembered.
    allow(&mut world, threads[0], &[6]);
    world.advance(20 * MS);
    assert_eq!(preferred(&world), Some(1));
}

#[test]
fn one_thread_prefers_nothing_and_neither_do_too_many() {
    let mut world = world("7.2");
    thread(&mut world, 0);
    world.advance(100 * MS);
    assert_eq!(preferred(&world), None);
    // The average of 4 goes to 2 and 3, and 3 · 1.25 < 4.
    for cpu in 1..4 {
        thread(&mut world, cpu);
    }
    world.advance(100 * MS);
    assert_eq!(preferred(&world), Some(0));
    // That of 5 goes to 4.
    thread(&mut world, 4);
    world.advance(100 * MS);
    assert_eq!(world.kernel.cache.processes[0].nr_running_avg, 4);
    assert_eq!(preferred(&world), None);
    // A thread less, and the average would have to fall: it stays at 4, as nothing is scanned.
    world.exit(Cpu(4));
    world.advance(100 * MS);
    assert_eq!(world.kernel.cache.processes[0].nr_running_avg, 4);
    assert_eq!(preferred(&world), None);
}

#[test]
fn twice_the_tolerance_lets_a_cache_be_asked_for_twice_its_cpus() {
    let mut world = with("7.2", |rules| rules.cache.aggr_tolerance = 2);
    for cpu in 0..5 {
        thread(&mut world, cpu);
    }
    world.advance(100 * MS);
    // 4 · 1.25 < 2 · 4.
    assert_eq!(preferred(&world), Some(0));
}

#[test]
fn a_process_that_sleeps_loses_its_preference_after_five_epochs() {
    for (asleep_ms, kept) in [(30, true), (80, false)] {
        let mut world = world("7.2");
        let threads = [0, 1].map(|cpu| thread(&mut world, cpu));
        world.advance(100 * MS);
        assert_eq!(preferred(&world), Some(0));
        for (cpu, task) in [0, 1].into_iter().zip(threads) {
            world.block(Cpu(cpu));
            assert!(world.asleep(task));
        }
        world.advance(asleep_ms * MS);
        world.wake(Cpu(0), threads[0]);
        // The tick charges it, and after that has it look anew, of which it hears when it is
        // charged once more.
        world.advance(MS + MS / 2);
        let preferred_llc = world.kernel.tasks[threads[0]].cache.preferred_llc;
        assert_eq!(preferred_llc.is_some(), kept, "{asleep_ms} ms");
        world.advance(MS);
        let preferred_llc = world.kernel.tasks[threads[0]].cache.preferred_llc;
        assert_eq!(preferred_llc, Some(0), "{asleep_ms} ms");
    }
}

#[test]
fn a_running_thread_is_pushed_to_its_cache() {
    for (version, comes) in [("7.1", false), ("7.2", true), ("7.3", true)] {
        let mut world = world(version);
        let [.., third] = [0, 1, 4].map(|cpu| thread(&mut world, cpu));
        allow(&mut world, third, &ALL);
        world.advance(500 * MS);
        assert_eq!(llc_of(&world, third) == 0, comes, "{version}");
    }
}

#[test]
fn the_only_task_of_a_cpu_is_not_pushed_out_of_its_cache() {
    for (version, stay) in [("7.1", false), ("7.2", true), ("7.3", true)] {
        let mut world = world(version);
        let threads = [0, 1, 2].map(|cpu| thread(&mut world, cpu));
        world.advance(50 * MS);
        for task in threads {
            allow(&mut world, task, &ALL);
        }
        world.advance(2000 * MS);
        let all = threads.iter().all(|&task| llc_of(&world, task) == 0);
        assert_eq!(all, stay, "{version}");
    }
}

#[test]
fn nothing_is_kept_where_it_cannot_matter() {
    let one = World::new("7.3", 8);
    assert!(one.kernel.cache.cpus.is_empty());
    assert!(world("7.1").kernel.cache.cpus.is_empty());
    let mut off = with("7.3", |rules| rules.cache.enabled = false);
    let [.., third] = [0, 1, 4].map(|cpu| thread(&mut off, cpu));
    allow(&mut off, third, &ALL);
    off.advance(500 * MS);
    assert_eq!((preferred(&off), llc_of(&off, third)), (None, 1));
}

#[test]
fn processes_end_with_their_last_threads_and_their_rows_are_used_again() {
    let mut world = world("7.2");
    let start = |world: &mut World, space: u32| {
        world.start(TaskAttributes {
            address_space: Some(space),
            ..TaskAttributes::on(Cpu(0))
        })
    };
    start(&mut world, 7);
    start(&mut world, 9);
    assert_eq!(world.kernel.cache.processes.len(), 2);
    world.advance(20 * MS);
    world.exit(Cpu(0));
    let third = start(&mut world, 11);
    assert_eq!(world.kernel.cache.processes.len(), 2);
    let row = world.kernel.tasks[third].cache.process.unwrap();
    let process = &world.kernel.cache.processes[row as usize];
    assert_eq!(process.nr_threads, 1);
    assert_eq!(process.times[0].runtime_ns, 0);
}
