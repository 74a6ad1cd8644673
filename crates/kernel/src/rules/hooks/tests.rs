//! Every hook: without a patch it is not asked, with one its answer decides.

use super::*;
use crate::cpuset::CpuSet;
use crate::platform::Observation;
use crate::rules::{KernelChoice, Rules, Version, changes};
use crate::select::tests::{SYNC, allow, busy, sleeper, wakeup};
use crate::task::Policy;
use crate::tests::world::{MS, World};
use crate::topology::Topology;
use schedcast_base::assert_in;
use std::cell::Cell;

thread_local! {
    /// The one hook that has an answer.
    static ASKED: Cell<&'static str> = const { Cell::new("") };
}

/// The answer, where this hook is the one that is tested.
fn only<T>(hook: &str, answer: T) -> Option<T> {
    (ASKED.get() == hook).then_some(answer)
}

fn last_queued(kernel: &Kernel, at: &Picking) -> Option<EntityId> {
    let nodes = kernel.cfs_rqs[at.queue].timeline.nodes();
    only("pick", nodes.iter().map(|node| node.entity).max()?)
}

/// A patch with a rule at each place.
pub(in crate::rules) const EVERYWHERE: OwnPatch = OwnPatch {
    name: "test-everywhere",
    description: "For tests.",
    hooks: Hooks {
        select_idle_sibling: Some(|_, at| only("select_idle_sibling", at.waker_cpu)),
        wake_affine: Some(|_, _| only("wake_affine", false)),
        scan_limit: Some(|_, _| only("scan_limit", 1)),
        wakeup_preempt: Some(|_, _| only("wakeup_preempt", false)),
        place_entity: Some(|_, _| only("place_entity", -5_000_000)),
        slice: Some(|_, _| only("slice", 700_000)),
        pick: Some(last_queued),
        group_weight: Some(|_, _| only("group_weight", 3 << 20)),
        busiest_group: Some(|_, at| {
            only("busiest_group", at.group.nr_running < at.busiest.nr_running)
        }),
        can_migrate: Some(|_, _| only("can_migrate", false)),
        newidle: Some(|_, _| only("newidle", false)),
        nohz_kick: Some(|_, _| only("nohz_kick", false)),
    },
};

/// A world with the patch, where one hook answers.
fn world(topology: Topology, version: &str, hook: &'static str) -> World {
    ASKED.set(hook);
    World::on(topology, version, |rules| {
        assert_eq!(rules.own.set(EVERYWHERE.name, true), Some(true));
        assert!(own!(rules, "test-everywhere") && !own!(rules, "waker-sibling"));
    })
}

#[test]
fn the_slice_of_a_rule_is_requested() {
    for version in ["6.5", "6.12", "7.3"] {
        let mut world = world(Topology::flat(1), version, "slice");
        let tasks = [0; 2].map(|_| world.spawn(Cpu(0)));
        world.advance(20 * MS);
        let se = world.kernel.tasks[tasks[0]].se;
        let slice = match version {
            "6.5" => world.kernel.sched_slice(CfsRqId(0), se),
            _ => world.entity(tasks[0]).slice,
        };
        assert_eq!(slice, 700_000, "{version}");
    }
}

#[test]
fn a_rule_says_how_far_behind_an_entity_is_placed() {
    for version in ["6.5", "6.12", "7.3"] {
        let mut world = world(Topology::flat(1), version, "place_entity");
        let first = world.spawn(Cpu(0));
        world.advance(2 * MS);
        let second = world.spawn(Cpu(0));
        let ahead = |task| world.entity(task).vruntime as i64;
        assert_eq!(ahead(second) - ahead(first), 5_000_000, "{version}");
    }
}

#[test]
fn a_rule_picks_the_next_entity() {
    for version in ["6.5", "6.12", "7.3"] {
        let mut world = world(Topology::flat(1), version, "pick");
        let tasks = [0; 3].map(|_| world.spawn(Cpu(0)));
        world.advance(100 * MS);
        // The last two take turns; the first one would be next in the kernel's order.
        let ran = tasks.map(|task| world.runtime(task));
        assert!(ran[1] > 40 * MS && ran[2] > 40 * MS, "{version}: {ran:?}");
        assert!(ran[0] < 10 * MS, "{version}: {ran:?}");
    }
}

#[test]
fn a_rule_weighs_a_group() {
    for version in ["6.5", "6.12", "7.3"] {
        let mut world = world(Topology::flat(2), version, "group_weight");
        let group = world.group(GroupId::ROOT);
        let inside = world.spawn_in(group, Cpu(0), Policy::Normal, 0);
        let beside = world.spawn(Cpu(0));
        world.advance(400 * MS);
        // One task on each side, weights 3 to 1, on the CPU to which both are bound.
        let [inside, beside] = [inside, beside].map(|task| world.runtime(task) / MS);
        assert_in!(inside, 290..=310, "{version}: {inside} {beside} ms");
    }
}

#[test]
fn a_rule_keeps_a_wakeup_at_the_previous_cpu() {
    for (hook, expected) in [("", 1), ("wake_affine", 4)] {
        // Two caches of four CPUs: the waker on CPU 0 will sleep, the wakee ran on CPU 4.
        let mut world = world(Topology::regular(1, 2, 4, 1), "6.12", hook);
        let task = sleeper(&mut world, 4);
        busy(&mut world, [0, 4]);
        let (cpu, _) = wakeup(&mut world, 0, task, SYNC);
        let expected = if hook.is_empty() { 0..4 } else { expected..8 };
        assert!(expected.contains(&cpu), "{hook}: {cpu}");
    }
}

#[test]
fn a_rule_limits_a_scan() {
    for (hook, expected) in [("", (6, 4)), ("scan_limit", (2, 1))] {
        let mut world = world(Topology::flat(8), "6.12", hook);
        let task = sleeper(&mut world, 2);
        busy(&mut world, [0, 1, 2, 3, 4, 5, 7]);
        world.kernel.domains.shared[0].nr_idle_scan = 8;
        assert_eq!(wakeup(&mut world, 2, task, SYNC), expected, "{hook}");
    }
}

#[test]
fn a_rule_keeps_a_wakee_waiting() {
    for (hook, preempted) in [("", true), ("wakeup_preempt", false)] {
        let mut world = world(Topology::flat(1), "6.5", hook);
        let task = sleeper(&mut world, 0);
        let hog = world.spawn(Cpu(0));
        world.advance(50 * MS + 1);
        assert_eq!(world.current(Cpu(0)), hog);
        world.wake(Cpu(0), task);
        world.advance(1);
        assert_eq!(world.current(Cpu(0)) == task, preempted, "{hook}");
    }
}

/// Of four CPUs those that have a task some time after six on CPU 0 were allowed everywhere.
fn spread(hook: &'static str) -> usize {
    let mut world = world(Topology::flat(4), "6.12", hook);
    let tasks = [0; 6].map(|_| world.spawn(Cpu(0)));
    world.advance(100 * MS);
    for task in tasks {
        allow(&mut world, task, CpuSet::first(4));
    }
    world.advance(400 * MS);
    let cpus = tasks.iter().map(|task| world.kernel.tasks[task].cpu);
    cpus.collect::<CpuSet>().len()
}

#[test]
fn rules_of_balancing_keep_tasks_where_they_are() {
    assert_eq!(spread(""), 4);
    assert_eq!(spread("can_migrate"), 1);
    assert_eq!(spread("nohz_kick"), 1);
}

/// Of CPU 1 with two tasks and CPU 2 with three, the one that CPU 0 pulls from when it runs out.
fn pulls_from(hook: &'static str) -> Option<Cpu> {
    let mut world = world(Topology::flat(3), "6.12", hook);
    let last = world.spawn(Cpu(0));
    for cpu in [1, 1, 2, 2, 2] {
        let task = world.spawn(Cpu(cpu));
        allow(&mut world, task, CpuSet::first(3));
    }
    assert_eq!(world.current(Cpu(0)), last);
    world.kernel.domains.overloaded = true;
    world.bench.observed.clear();
    world.block(Cpu(0));
    world
        .bench
        .observed
        .iter()
        .find_map(|(.., seen)| match seen {
            Observation::Migrate { from, .. } => Some(*from),
            _ => None,
        })
}

#[test]
fn rules_say_whether_a_cpu_that_runs_out_pulls_and_from_where() {
    assert_eq!(pulls_from(""), Some(Cpu(2)));
    assert_eq!(pulls_from("busiest_group"), Some(Cpu(1)));
    assert_eq!(pulls_from("newidle"), None);
}

#[test]
fn without_a_patch_nobody_is_asked() {
    ASKED.set("newidle");
    let world = World::new("6.12", 2);
    let asked = world
        .kernel
        .rules
        .own
        .newidle(&world.kernel, || panic!("asked"));
    assert_eq!(asked, None);
}

fn resolve(patches: &[&str]) -> Result<Rules, String> {
    let choice = KernelChoice {
        patches,
        ..KernelChoice::released(Version::new(6, 12), 8)
    };
    Rules::resolve(&choice).map_err(|error| error.to_string())
}

#[test]
fn names_are_new_and_fit_the_bits() {
    assert!(OWN.len() <= 32);
    for (row, patch) in OWN.iter().enumerate() {
        assert_eq!(
            Row::named(patch.name),
            Row(row),
            "{} is there twice",
            patch.name
        );
        assert!(changes::all().all(|stock| stock.name != patch.name));
    }
}

#[test]
fn they_are_added_by_name() {
    assert!(own!(resolve(&["waker-sibling"]).unwrap(), "waker-sibling"));
    assert!(!own!(resolve(&[]).unwrap(), "waker-sibling"));
    assert_eq!(
        resolve(&["-waker-sibling"]).unwrap_err(),
        "kernel 6.12 has no `waker-sibling` to take away"
    );
    assert_eq!(
        resolve(&["waker-siblings"]).unwrap_err(),
        "unknown patch `waker-siblings` (the nearest valid name is `waker-sibling`)"
    );
}
