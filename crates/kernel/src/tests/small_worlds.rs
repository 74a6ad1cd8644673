//! Every history of a few steps in worlds of three tasks on one or two CPUs.
//!
//! Each world is walked depth first: a step is taken on a clone, all invariants are checked, and
//! the walk goes on from there. Five steps out of nine are 59,049 histories; they pass through
//! delayed dequeue, throttling, parking, release, migration and their first combinations.

use super::world::*;

/// One step of a small world; numbers are tasks 0..3.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Not a whole number of ticks.
    Advance(u64),
    Block(Cpu),
    Wake(usize),
    Yield(Cpu),
    /// Nice 5 and back.
    Nice(usize),
    /// To the limited group and back.
    Group(usize),
    /// To the other CPU only, and back to all.
    Affinity(usize),
    /// FIFO and back.
    Class(usize),
    /// The limited group's own quota: 3 ms of 10, 1 of 10 with a burst of 1, or none.
    Quota(Option<u64>, u64),
    /// To the group below the limited one and back.
    Deeper(usize),
    /// The group below weighs nothing much, and back.
    Light,
}

const ALPHABET: [Step; 9] = [
    Step::Advance(700 * US),
    Step::Advance(4300 * US),
    Step::Block(Cpu(0)),
    Step::Block(Cpu(1)),
    Step::Wake(0),
    Step::Wake(1),
    Step::Group(0),
    Step::Nice(1),
    Step::Affinity(2),
];
const OTHER_ALPHABET: [Step; 8] = [
    Step::Advance(1700 * US),
    Step::Block(Cpu(0)),
    Step::Wake(0),
    Step::Wake(2),
    Step::Yield(Cpu(0)),
    Step::Class(1),
    Step::Group(1),
    Step::Affinity(0),
];

const LIMITS: [Step; 9] = [
    Step::Advance(1300 * US),
    Step::Advance(8900 * US),
    Step::Block(Cpu(0)),
    Step::Wake(0),
    Step::Quota(Some(1000), 1000),
    Step::Quota(None, 0),
    Step::Deeper(0),
    Step::Deeper(2),
    Step::Light,
];

/// Three tasks: one in a group limited to 3 of 10 ms, one of nice 3, one on the last CPU. Below the
/// limited group is one with 2 of 10 ms.
fn start(version: &str, cpus: usize) -> (World, [TaskId; 3], GroupId) {
    let mut world = World::new(version, cpus);
    let group = world.limited(GroupId::ROOT, 3000, 10_000, 0);
    world.limited(group, 2000, 10_000, 0);
    let mut spawn = |group, nice, cpu| {
        world.start(TaskAttributes {
            nice,
            affinity: CpuSet::first(cpus),
            group,
            ..TaskAttributes::on(Cpu(cpu))
        })
    };
    let last = cpus as u32 - 1;
    let tasks = [
        spawn(group, 0, 0),
        spawn(GroupId::ROOT, 3, 0),
        spawn(GroupId::ROOT, 0, last),
    ];
    (world, tasks, group)
}

struct Walk {
    tasks: [TaskId; 3],
    group: GroupId,
    alphabet: &'static [Step],
    histories: u64,
}

impl Walk {
    fn visit(&mut self, world: &World, depth: u32, path: &mut Vec<Step>) {
        for &step in self.alphabet {
            let mut next = world.clone();
            if !self.take(&mut next, step) {
                continue;
            }
            path.push(step);
            self.judge(&next, path);
            self.histories += 1;
            if depth > 1 {
                self.visit(&next, depth - 1, path);
            }
            path.pop();
        }
    }

    /// Takes a step; `false` when it would change nothing.
    fn take(&self, world: &mut World, step: Step) -> bool {
        let cpus = world.kernel.cpus() as u32;
        let record = |world: &World, row: usize| {
            let record = &world.kernel.tasks[self.tasks[row]];
            (
                record.nice,
                record.group,
                record.policy,
                record.nr_cpus_allowed,
            )
        };
        match step {
            Step::Advance(span) => world.advance(span),
            Step::Block(cpu) | Step::Yield(cpu) if cpu.0 >= cpus || world.idle(cpu) => {
                return false;
            }
            Step::Block(cpu) => world.block(cpu),
            Step::Yield(cpu) => world.yield_current(cpu),
            Step::Wake(row) => return world.wake(Cpu(0), self.tasks[row]),
            Step::Nice(row) => {
                let nice = if record(world, row).0 == 5 { 0 } else { 5 };
                world.call(Cpu(0), |kernel, bench| {
                    kernel.set_nice(bench, Cpu(0), self.tasks[row], nice);
                });
            }
            Step::Group(row) => {
                let inside = record(world, row).1 == self.group;
                let group = if inside { GroupId::ROOT } else { self.group };
                world.set_group(Cpu(0), self.tasks[row], group);
            }
            Step::Deeper(row) => {
                let below = GroupId(self.group.0 + 1);
                let inside = record(world, row).1 == below;
                let group = if inside { GroupId::ROOT } else { below };
                world.set_group(Cpu(0), self.tasks[row], group);
            }
            Step::Quota(quota_us, burst_us) => {
                let limit = BandwidthLimit {
                    quota_ns: quota_us.map(|us| us * US),
                    period_ns: 10 * MS,
                    burst_ns: burst_us * US,
                };
                if world.kernel.groups[self.group].bandwidth.limit == limit {
                    return false;
                }
                let burst = world.kernel.rules.burst;
                if burst_us > 0 && !burst {
                    return false;
                }
                world.call(Cpu(0), |kernel, bench| {
                    kernel
                        .group_set_bandwidth(bench, Cpu(0), self.group, limit, Hierarchy::V2)
                        .unwrap();
                });
            }
            Step::Light => {
                let below = GroupId(self.group.0 + 1);
                let light = world.kernel.groups[below].shares == 2 << 10;
                world.call(Cpu(0), |kernel, bench| {
                    let shares = if light { 1024 } else { 2 };
                    kernel.group_set_shares(bench, Cpu(0), below, shares);
                });
            }
            Step::Affinity(_) if cpus == 1 => return false,
            Step::Affinity(row) => {
                let task = self.tasks[row];
                let other = Cpu(1 - world.kernel.tasks[task].cpu.0);
                let affinity = if record(world, row).3 == 1 {
                    CpuSet::first(2)
                } else {
                    CpuSet::of(other)
                };
                world.set_affinity(Cpu(0), task, affinity);
            }
            Step::Class(row) => {
                let (policy, prio) = match record(world, row).2 {
                    Policy::Fifo => (Policy::Normal, 0),
                    _ => (Policy::Fifo, 10),
                };
                world.set_policy(Cpu(0), self.tasks[row], policy, 0, prio);
            }
        }
        true
    }

    /// Checks besides the invariants: tasks run where they may, and no CPU idles beside a task of
    /// its own that could run.
    fn judge(&self, world: &World, path: &[Step]) {
        let kernel = &world.kernel;
        for &task in &self.tasks {
            let record = &kernel.tasks[task];
            if record.state == TaskState::Running {
                assert!(
                    record.affinity.contains(record.cpu),
                    "{path:?}: {task:?} strayed"
                );
            }
        }
        // `sched_move_task` does not tell an idle CPU that a parked task of its became runnable.
        let moved = path
            .iter()
            .any(|step| matches!(step, Step::Group(_) | Step::Deeper(_)));
        for cpu in (0..kernel.cpus()).map(Cpu::from) {
            if moved || !world.idle(cpu) {
                continue;
            }
            let waiting = self.tasks.iter().find(|task| {
                let record = &kernel.tasks[task];
                let q = kernel.entities[record.se].cfs_rq;
                record.cpu == cpu
                    && record.state == TaskState::Running
                    && kernel.cfs_rqs[q].throttle_count == 0
                    && !(record.policy.is_rt() && kernel.rqs[cpu].rt.throttled)
            });
            assert_eq!(waiting, None, "{path:?}: CPU {} idles", cpu.0);
        }
    }
}

fn walk(version: &str, cpus: usize, alphabet: &'static [Step], depth: u32) {
    let (world, tasks, group) = start(version, cpus);
    let mut walk = Walk {
        tasks,
        group,
        alphabet,
        histories: 0,
    };
    walk.visit(&world, depth, &mut Vec::new());
    assert!(walk.histories > 1000, "only {} histories", walk.histories);
}

macro_rules! walks {
    ($($name:ident $version:literal;)*) => {$(
        #[test]
        fn $name() {
            walk($version, 2, &ALPHABET, 5);
            walk($version, 2, &OTHER_ALPHABET, 5);
            walk($version, 1, &ALPHABET, 5);
            walk($version, 2, &LIMITS, 5);
            walk($version, 1, &LIMITS, 5);
        }
    )*};
}

walks! {
    every_history_of_4_15 "4.15";
    every_history_of_5_14 "5.14";
    every_history_of_6_1 "6.1";
    every_history_of_6_6 "6.6";
    every_history_of_6_12 "6.12";
    every_history_of_6_17 "6.17";
    every_history_of_6_18 "6.18";
    every_history_of_7_3 "7.3";
}

#[test]
fn clones_stay_equal() {
    for version in ["5.10", "6.12", "6.18"] {
        let (mut world, tasks, group) = start(version, 2);
        let walk = Walk {
            tasks,
            group,
            alphabet: &ALPHABET,
            histories: 0,
        };
        world.advance(3 * MS);
        let mut twin = world.clone();
        for round in 0..60 {
            let step = ALPHABET[(round * 7 + round / 9) % ALPHABET.len()];
            assert_eq!(walk.take(&mut world, step), walk.take(&mut twin, step));
        }
        assert_eq!(format!("{world:?}"), format!("{twin:?}"), "{version}");
    }
}

#[test]
fn hogs_spread_over_idle_cpus() {
    // All start on CPU 0 and may then run anywhere: each must have a CPU of its own soon.
    for version in ["4.15", "5.4", "5.10", "6.1", "6.6", "6.12", "6.18"] {
        let mut world = World::new(version, 4);
        let tasks: Vec<TaskId> = (0..4).map(|_| world.spawn(Cpu(0))).collect();
        world.advance(5 * MS);
        for &task in &tasks {
            world.set_affinity(Cpu(0), task, CpuSet::first(4));
        }
        world.advance(500 * MS);
        let mut cpus: Vec<u32> = (0..4).filter(|cpu| !world.idle(Cpu(*cpu))).collect();
        cpus.sort_unstable();
        assert_eq!(cpus, [0, 1, 2, 3], "{version}");
    }
}
