//! Preferred CPUs, by answers worked out on paper.

use crate::tests::world::*;

/// Two cores of two threads (CPUs 0 and 2, 1 and 3) of priorities 40 and 45.
fn two_cores(priorities: [u32; 4]) -> Topology {
    Topology {
        priorities: priorities.to_vec(),
        ..Topology::regular(1, 1, 2, 2)
    }
}

fn hog(world: &mut World, cpu: u32, cpus: CpuSet) -> TaskId {
    let hog = world.spawn(Cpu(cpu));
    let record = &mut world.kernel.tasks[hog];
    (record.affinity, record.nr_cpus_allowed) = (cpus, cpus.len() as u32);
    hog
}

fn cpu_of(world: &World, task: TaskId) -> Cpu {
    world.kernel.tasks[task].cpu
}

#[test]
fn levels_above_a_core_are_marked_and_groups_know_their_preferred_cpu() {
    let world = World::on(two_cores([40, 45, 40, 45]), "6.12", |_| {});
    let [core, cache] = world.kernel.domains.of(Cpu(0)) else {
        panic!("a core and a cache");
    };
    assert!(!core.flags.asym_packing && cache.flags.asym_packing);
    let preferred = |row: &super::super::Domain| -> Vec<Cpu> {
        let groups = world.kernel.domains.groups_of(row);
        groups.map(|group| group.prefer_cpu).collect()
    };
    // The first of equals.
    assert_eq!(preferred(cache), [Cpu(0), Cpu(1)]);
    for (version, priorities) in [("6.12", vec![]), ("6.5", vec![40, 45, 40, 45])] {
        let topology = Topology {
            priorities,
            ..Topology::regular(1, 1, 2, 2)
        };
        let world = World::on(topology, version, |_| {});
        let marked = world.kernel.domains.of(Cpu(0)).iter();
        assert!(
            marked.clone().all(|row| !row.flags.asym_packing),
            "{version}"
        );
    }
}

#[test]
fn a_hog_goes_to_the_preferred_core_and_never_back() {
    for version in ["6.6", "6.12", "6.18", "7.3"] {
        let mut world = World::on(two_cores([40, 45, 40, 45]), version, |_| {});
        let there = hog(&mut world, 0, CpuSet::first(4));
        world.advance(100 * MS);
        assert!(
            [Cpu(1), Cpu(3)].contains(&cpu_of(&world, there)),
            "{version}"
        );
        let stayed = cpu_of(&world, there);
        world.advance(500 * MS);
        assert_eq!(cpu_of(&world, there), stayed, "{version}");
    }
    // Without priorities it stays where it is.
    let mut world = World::on(Topology::regular(1, 1, 2, 2), "6.12", |_| {});
    let stays = hog(&mut world, 0, CpuSet::first(4));
    world.advance(500 * MS);
    assert_eq!(cpu_of(&world, stays), Cpu(0));
}

#[test]
fn a_preferred_core_with_a_busy_thread_takes_no_second_task() {
    let mut world = World::on(two_cores([40, 45, 40, 45]), "6.12", |_| {});
    world.spawn(Cpu(3));
    let other = hog(&mut world, 0, CpuSet::first(4));
    world.advance(500 * MS);
    assert_eq!(cpu_of(&world, other), Cpu(0));
}

#[test]
fn a_core_of_lower_priority_helps_one_that_runs_two() {
    let mut world = World::on(two_cores([40, 45, 40, 45]), "6.12", |_| {});
    let one = hog(&mut world, 1, CpuSet::first(4));
    let two = hog(&mut world, 3, CpuSet::first(4));
    world.advance(500 * MS);
    let core = |cpu: Cpu| cpu.0 % 2;
    assert_ne!(core(cpu_of(&world, one)), core(cpu_of(&world, two)));
}
