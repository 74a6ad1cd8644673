//! The flat pick and the weights of groups (7.3), by hand.

use super::world::*;
use crate::group::Group;
use crate::rules::CgroupMode;
use crate::weight::NICE_0_LOAD;

const CPU: Cpu = Cpu(0);
const ROOT: CfsRqId = CfsRqId(0);

const MODES: [CgroupMode; 5] = [
    CgroupMode::Up,
    CgroupMode::Smp,
    CgroupMode::Concur,
    CgroupMode::Max,
    CgroupMode::Tasks,
];

/// 7.3 with exact arithmetic to follow: no timer of its own, no lag that is kept.
fn world(cpus: usize, mode: CgroupMode) -> World {
    World::with("7.3", cpus, |rules| {
        rules.cgroup_mode = mode;
    })
}

fn in_group(world: &mut World, group: GroupId, cpu: u32) -> TaskId {
    world.spawn_in(group, Cpu(cpu), Policy::Normal, 0)
}

/// Weight of the group's entity on CPU 0 when the group has `load` of `all` its load there, and
/// `tasks` tasks in all.
fn weight(mode: CgroupMode, load: u64, all: u64, tasks: u64) -> u64 {
    let mut world = world(4, mode);
    let group = world.group(GroupId::ROOT);
    in_group(&mut world, group, 0);
    let q = world.kernel.cfs_rq_of(group, CPU);
    let cfs_rq = &mut world.kernel.cfs_rqs[q];
    cfs_rq.avg.load_avg = load;
    cfs_rq.tg_load_avg_contrib = load;
    let record: &mut Group = &mut world.kernel.groups[group];
    (record.load_avg, record.runnable_avg) = (all, tasks * 1024);
    world.kernel.calc_group_shares(q)
}

#[test]
fn groups_weigh_by_mode() {
    // Shares 1024 on 4 CPUs; on CPU 0 is 2048 of a load of 6144, a third. Of the weights 1024
    // (smp), 4 · 1024 (max), and for 6 tasks min(6, 4) · 1024 (concur) and 6 · 1024 (tasks), a
    // third; up takes no part of it.
    let scaled = |weight: u64| weight << 10;
    for (mode, expected) in [
        (CgroupMode::Up, scaled(1024)),
        (CgroupMode::Smp, scaled(1024) / 3),
        (CgroupMode::Concur, scaled(4 * 1024) / 3),
        (CgroupMode::Max, scaled(4 * 1024) / 3),
        (CgroupMode::Tasks, scaled(6 * 1024) / 3),
    ] {
        assert_eq!(weight(mode, 2048, 6144, 6), expected, "{mode:?}");
    }
    // With two tasks, concur counts those: 2 · 1024 / 3, as tasks does. A group without load counts
    // one task.
    for mode in [CgroupMode::Concur, CgroupMode::Tasks] {
        assert_eq!(weight(mode, 2048, 6144, 2), scaled(2 * 1024) / 3);
        assert_eq!(weight(mode, 2048, 6144, 0), scaled(1024) / 3);
    }
    // All load on one CPU: max is limited to the weight of nice -20, 88761, by far; here 4 · 1024.
    assert_eq!(weight(CgroupMode::Max, 6144, 6144, 1), scaled(4 * 1024));
}

#[test]
fn three_levels_multiply_in_every_mode() {
    // One CPU, on which every mode gives a group its shares but for the number of its tasks. A
    // (shares 2048) has one task and A/B (512), B has two tasks, and a task runs in the root group.
    for mode in MODES {
        let mut world = world(1, mode);
        let a = world.group(GroupId::ROOT);
        let b = world.group(a);
        world.set_shares(a, 2048);
        world.set_shares(b, 512);
        let in_root = in_group(&mut world, GroupId::ROOT, 0);
        let in_a = in_group(&mut world, a, 0);
        let in_b = [in_group(&mut world, b, 0), in_group(&mut world, b, 0)];
        let weight = |world: &World, task| world.kernel.flat_weight(task);
        // Averages of new groups are low, so they count as one task each.
        let a_weight: u64 = 2048 << 10;
        let of_a = NICE_0_LOAD * NICE_0_LOAD / ((1024 + 512) << 10);
        assert_eq!(weight(&world, in_root), NICE_0_LOAD, "{mode:?}");
        assert_eq!(weight(&world, in_a), of_a * a_weight / NICE_0_LOAD);
        for task in in_b {
            let of_b = NICE_0_LOAD / 2;
            let of_a = of_b * (512 << 10) / ((1024 + 512) << 10);
            assert_eq!(weight(&world, task), of_a * a_weight / NICE_0_LOAD);
        }
    }
}

#[test]
fn the_tick_gives_the_running_task_the_weight_of_the_day() {
    // Alone in its group, the hog has the group's 1024 against the root's 1024; when a sibling
    // comes, it has half of that from the next tick on, or from its next turn.
    let mut world = world(1, CgroupMode::Smp);
    let group = world.group(GroupId::ROOT);
    let hog = in_group(&mut world, group, 0);
    world.advance_to(2 * MS + 500 * US);
    assert_eq!(world.entity(hog).h_load.weight, NICE_0_LOAD);
    let sibling = in_group(&mut world, group, 0);
    assert_eq!(world.entity(sibling).h_load.weight, NICE_0_LOAD / 2);
    world.advance_to(10 * MS);
    assert_eq!(world.entity(hog).h_load.weight, NICE_0_LOAD / 2);
}

/// CPU time in percent of four hogs: one in the root group, three in a group of the same weight.
fn parts(version: &str, change: impl FnOnce(&mut Rules)) -> [Ns; 4] {
    let mut world = World::with(version, 1, change);
    let group = world.group(GroupId::ROOT);
    let tasks = [GroupId::ROOT, group, group, group].map(|group| in_group(&mut world, group, 0));
    world.advance_to(4000 * MS);
    tasks.map(|task| (world.runtime(task) + 20 * MS) / (40 * MS))
}

#[test]
fn in_smp_mode_a_cpu_is_shared_as_under_7_2() {
    // Half for the root's task, a sixth for each of the group's.
    assert_eq!(parts("7.2", |_| {}), [50, 17, 17, 17]);
    let by = |mode| parts("7.3", |rules| rules.cgroup_mode = mode);
    assert_eq!(by(CgroupMode::Smp), [50, 17, 17, 17]);
    // A group on one CPU weighs its shares once with concur, however many tasks it has. With
    // `tasks` it does so for each: the average of three that always wait or run stays just below 3
    // · 1024 and is rounded down to 2 tasks, so 2 of 3.
    assert_eq!(by(CgroupMode::Concur), [50, 17, 17, 17]);
    assert_eq!(by(CgroupMode::Tasks), [33, 22, 22, 22]);
}

#[test]
fn in_smp_mode_tasks_without_groups_change_as_under_7_2() {
    // Without groups there is one order anyway: the same switches at the same times, through
    // sleeps, short requests and nice.
    let history = |version: &str| {
        let mut world = World::with(version, 1, |rules| {
            rules.cgroup_mode = CgroupMode::Smp;
            rules.autogroup = false;
        });
        let tasks: Vec<TaskId> = [0, 5, -3, 0]
            .map(|nice| world.spawn_in(GroupId::ROOT, CPU, Policy::Normal, nice))
            .into();
        for step in 1..200u64 {
            world.advance(700 * US + step * 1_000);
            match step % 7 {
                0 if !world.idle(CPU) => world.block(CPU),
                3 => {
                    let asleep = tasks.iter().find(|task| world.asleep(**task));
                    if let Some(task) = asleep.copied() {
                        world.wake(CPU, task);
                    }
                }
                5 if !world.idle(CPU) => world.yield_current(CPU),
                _ => {}
            }
        }
        world.switches(CPU)
    };
    let before = history("7.2");
    assert!(before.len() > 60);
    assert_eq!(history("7.3"), before);
}

#[test]
fn concur_pays_a_group_for_each_cpu_it_uses() {
    // Two CPUs, on each a hog of the root group and two of a group with shares 1024. Up to 7.2 the
    // group has 512 on each CPU, a third of it, a sixth for each task; with concur it weighs 1024
    // on each, half, and a quarter for each. (Four tasks count as three, rounded down, and the
    // group has two CPUs.)
    for (mode, percent) in [(CgroupMode::Smp, 17), (CgroupMode::Concur, 25)] {
        let mut world = world(2, mode);
        let group = world.group(GroupId::ROOT);
        for cpu in [0, 1] {
            in_group(&mut world, GroupId::ROOT, cpu);
        }
        let inside = [0, 1, 0, 1].map(|cpu| in_group(&mut world, group, cpu));
        world.advance_to(1000 * MS);
        let start = inside.map(|task| world.runtime(task));
        world.advance_to(5000 * MS);
        for (task, start) in inside.into_iter().zip(start) {
            let part = (world.runtime(task) - start + 20 * MS) / (40 * MS);
            assert!(part.abs_diff(percent) <= 1, "{mode:?}: {part}");
        }
    }
}

#[test]
fn a_limit_is_enforced_where_it_is_charged() {
    // 20 ms of each 100 on one CPU: the hog gets 20 % under both, and 7.3 parks it at the charge
    // that finds the pool empty.
    for version in ["7.2", "7.3"] {
        let mut world = World::new(version, 1);
        let group = world.limited(GroupId::ROOT, 20_000, 100_000, 0);
        let hog = in_group(&mut world, group, 0);
        world.advance_to(2000 * MS);
        assert_in!(world.runtime(hog) / (20 * MS), 19..=21, "{version}");
        let stat = world.kernel.groups[group].bandwidth.stat;
        assert!(stat.nr_throttled >= 18, "{version}: {stat:?}");
    }
    assert_eq!(ROOT, CfsRqId(0));
}

#[test]
fn a_shorter_request_preempts_when_it_is_eligible() {
    // A runs, B and C wait; the shortest request ends A's protection where A is not eligible any
    // more: V of the others, and 1 ns.
    let mut world = world(1, CgroupMode::Smp);
    let (a, b) = (
        in_group(&mut world, GroupId::ROOT, 0),
        in_group(&mut world, GroupId::ROOT, 0),
    );
    let [a, b] = [a, b].map(|task| world.kernel.tasks[task].se);
    assert_eq!(world.kernel.cfs_rqs[ROOT].curr, Some(a));
    let of_b = world.kernel.entities[b].vruntime;
    assert_eq!(world.kernel.ineligible_vruntime(ROOT), of_b.wrapping_add(1));
    world.kernel.custom_slices = true;
    world.kernel.entities[b].slice = 100 * US;
    world.kernel.set_protect_slice(ROOT, a);
    assert_eq!(world.kernel.entities[a].vprot, of_b.wrapping_add(1));
}

#[test]
fn a_sleeper_that_wakes_before_it_left_ages_the_root_queue_not_its_own() {
    let mut world = world(1, CgroupMode::Smp);
    let group = world.group(GroupId::ROOT);
    let sleeper = in_group(&mut world, group, 0);
    in_group(&mut world, GroupId::ROOT, 0);
    let (q, se) = (world.entity(sleeper).cfs_rq, world.kernel.tasks[sleeper].se);
    while world.current(CPU) != sleeper || world.kernel.entity_eligible(ROOT, se) {
        world.advance(100 * US);
    }
    world.block(CPU);
    assert!(world.entity(sleeper).sched_delayed);
    let aged = |world: &World, q: CfsRqId| world.kernel.cfs_rqs[q].avg.last_update_time;
    let (root_at, own_at) = (aged(&world, ROOT), aged(&world, q));
    world.advance(50 * US);
    world.wake(CPU, sleeper);
    // 50 us are 48.8 units of 1024 ns.
    assert_in!((aged(&world, ROOT) - root_at) >> 10, 48..=49);
    assert_eq!(aged(&world, q), own_at);
    assert_eq!(
        world.entity(sleeper).avg.last_update_time,
        aged(&world, ROOT)
    );
}

#[test]
fn a_task_that_returns_to_the_fair_class_has_the_rest_of_its_request() {
    // SCHED_IDLE (weight 3), half a request of 0.7 ms: 119.467 ms of virtual time. After 0.25 ms,
    // 85.333 of it are used up. The remaining 34.133 ms are 0.1 ms at nice 0 (weight 1024).
    let mut world = world(1, CgroupMode::Smp);
    let task = world.spawn_in(GroupId::ROOT, CPU, Policy::Idle, 0);
    world.advance(250 * US);
    for (policy, priority) in [(Policy::Fifo, 1), (Policy::Normal, 0)] {
        world.set_policy(CPU, task, policy, 0, priority);
    }
    let entity = world.entity(task);
    assert_eq!(entity.deadline.wrapping_sub(entity.vruntime), 99_999);
}
