//! Drawing histories: a seed says which kinds of steps are used, on which machine, and how often.

use super::{Action, Class, History, Step};
use crate::config::Config;
use crate::lists::list;
use schedcast_kernel::Cpu;
use schedcast_kernel::cpufreq::{FrequencyDriver, FrequencyGovernor, OperatingPoint};
use schedcast_kernel::dl::Reservation;
use schedcast_kernel::rules::Version;
use schedcast_kernel::topology::{CpuPlace, Topology};
use schedcast_kernel::uclamp::{Clamps, Wish};
use schedcast_sim::random::SplitMix;

/// A machine of equal sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sockets, each a memory node.
    pub sockets: usize,
    /// Last level caches of a socket.
    pub llcs: usize,
    /// Cores of a cache.
    pub cores: usize,
    /// Threads of a core.
    pub smt: usize,
    /// Capacity of each core in turn, 1024 = the fastest; empty = all 1024.
    pub capacities: &'static [u32],
    /// Priority of each core in turn; empty = none is preferred.
    pub priorities: &'static [u32],
    /// Cores in turn that share a cache below the last one; 1 = none do.
    pub cluster: usize,
    /// Distances of the nodes, row by row; empty = 10 within and 20 between nodes.
    pub distances: &'static [u32],
    /// CPUs of one capacity in turn share a clock with an energy model.
    pub energy: bool,
    /// The last CPUs, so many, are out of balancing.
    pub isolated: usize,
}

impl Shape {
    /// A CPU alone.
    pub const ONE_CPU: Shape = Shape::of(1, 1, 1, 1);

    /// So many sockets, caches of a socket, cores of a cache and threads of a core.
    pub const fn of(sockets: usize, llcs: usize, cores: usize, smt: usize) -> Shape {
        Shape {
            sockets,
            llcs,
            cores,
            smt,
            capacities: &[],
            priorities: &[],
            cluster: 1,
            distances: &[],
            energy: false,
            isolated: 0,
        }
    }

    /// The same with capacities of the cores.
    pub const fn with_capacities(self, capacities: &'static [u32]) -> Shape {
        Shape { capacities, ..self }
    }

    /// The same with a clock and an energy model for CPUs of one capacity in turn.
    pub const fn with_energy(self) -> Shape {
        let energy = true;
        Shape { energy, ..self }
    }

    /// As the rules in Rust see it.
    pub(crate) fn topology(&self) -> Topology {
        let mut regular = Topology::regular(self.sockets, self.llcs, self.cores, self.smt);
        if self.cluster > 1 {
            for place in &mut regular.places {
                place.cluster = place.core / self.cluster as u32;
            }
        }
        let of_cpus = |of_cores: &[u32]| -> Vec<u32> {
            let of_cpu = |place: &CpuPlace| of_cores.get(place.core as usize).copied();
            regular.places.iter().filter_map(of_cpu).collect()
        };
        let (capacities, priorities) = (of_cpus(self.capacities), of_cpus(self.priorities));
        let distances = self.distances.chunks(self.sockets).map(<[u32]>::to_vec);
        Topology {
            capacities,
            priorities,
            isolated: (self.cpus() - self.isolated..self.cpus())
                .map(Cpu::from)
                .collect(),
            distances: distances.collect(),
            ..regular
        }
    }

    /// Whether the rules of a release and the overlay can have such a machine: preferred CPUs from
    /// 6.6, clusters from 5.16, and energy models, as far as the overlay can make them, from 6.9.
    pub fn is_known_to(&self, release: Version) -> bool {
        (self.priorities.is_empty() || release.since(6, 6))
            && (self.cluster == 1 || release.since(5, 16))
            && (!self.energy || release.since(6, 9))
    }

    /// The driver of its clocks: three frequencies, at which a CPU draws a tenth, four tenths and
    /// all of its power, which grows with the square of its capacity up to 1.5 W.
    pub(crate) fn driver(&self) -> Option<FrequencyDriver> {
        let clusters = || self.capacities.chunk_by(|a, b| a == b);
        let table = |cores: &[u32]| {
            let capacity = u64::from(cores[0]);
            let uw = 1_500_000 * capacity * capacity / (1024 * 1024);
            let point = |(percent, share)| OperatingPoint {
                khz: 20 * capacity * percent,
                uw: uw * share / 10,
            };
            [(40, 1), (70, 4), (100, 10)].map(point).to_vec()
        };
        let policies = clusters().zip(0u32..);
        let policy_of = policies.flat_map(|(cores, policy)| cores.iter().map(move |_| policy));
        self.energy.then(|| FrequencyDriver {
            governor: FrequencyGovernor::Schedutil,
            policy_of: policy_of.collect(),
            tables: clusters().map(table).collect(),
            ..FrequencyDriver::default()
        })
    }

    /// Number of CPUs.
    pub fn cpus(&self) -> usize {
        self.sockets * self.llcs * self.cores * self.smt
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} CPU", self.cpus())?;
        if self.cpus() > 1 {
            f.write_str("s")?;
        }
        let parts = [
            (self.smt, "threads a core"),
            (self.cluster, "cores a cluster"),
            (self.sockets * self.llcs, "caches"),
            (self.sockets, "nodes"),
        ];
        for (count, what) in parts {
            if count > 1 {
                write!(f, ", {count} {what}")?;
            }
        }
        let in_turn = |of_cores: &[u32]| {
            let steps = of_cores.chunk_by(|a, b| a == b);
            let text = steps.map(|cores| format!("{} of {}", cores.len(), cores[0]));
            text.collect::<Vec<_>>().join(" and ")
        };
        if !self.capacities.is_empty() {
            write!(f, ", {} capacity", in_turn(self.capacities))?;
        }
        if self.isolated > 0 {
            write!(f, ", {} isolated", self.isolated)?;
        }
        if self.energy {
            f.write_str(", energy model")?;
        }
        if let Some(most) = self.distances.iter().max() {
            write!(f, ", distances up to {most}")?;
        }
        if !self.priorities.is_empty() {
            write!(f, ", {} priority", in_turn(self.priorities))?;
        }
        Ok(())
    }
}

/// Machines that histories are drawn on, small ones first.
pub const SHAPES: &[Shape] = &[
    Shape::ONE_CPU,
    Shape::of(1, 1, 2, 1),
    Shape::of(1, 1, 2, 2),
    Shape::of(1, 2, 4, 1),
    Shape::of(2, 1, 16, 2),
    BIG_LITTLE,
    Shape::of(1, 1, 4, 1).with_capacities(&[512, 512, 1024, 1024]),
    Shape::of(1, 1, 4, 2).with_capacities(&[640, 640, 1024, 1024]),
    PREFERRED,
    BIG_LITTLE.with_energy(),
    THREE_CLUSTERS,
    Shape {
        cluster: 4,
        ..Shape::of(1, 1, 8, 1)
    },
    // A ring of four nodes: those that are not neighbours are two steps away.
    Shape {
        distances: &[
            10, 16, 22, 16, //
            16, 10, 16, 22, //
            22, 16, 10, 16, //
            16, 22, 16, 10,
        ],
        ..Shape::of(4, 1, 2, 1)
    },
    Shape {
        isolated: 2,
        ..Shape::of(1, 1, 2, 2)
    },
    Shape {
        isolated: 3,
        ..Shape::of(1, 2, 4, 1)
    },
];

/// Four CPUs of capacity 446 and four of 1024, a cache for each four.
pub const BIG_LITTLE: Shape =
    Shape::of(1, 2, 4, 1).with_capacities(&[446, 446, 446, 446, 1024, 1024, 1024, 1024]);

/// Three clusters with clocks of their own and an energy model.
pub const THREE_CLUSTERS: Shape = Shape::of(1, 1, 6, 1)
    .with_capacities(&[320, 320, 700, 700, 1024, 1024])
    .with_energy();

/// Four cores of two threads, of which the first two are preferred.
pub const PREFERRED: Shape = Shape {
    priorities: &[45, 40, 30, 30],
    ..Shape::of(1, 1, 4, 2)
};

/// All that the overlay can build of a release and the rules follow.
pub fn full_config(release: Version) -> Config {
    let mut config = Config::default();
    config.set("PARAVIRT_TIME_ACCOUNTING", "y");
    config.set("IRQ_TIME_ACCOUNTING", "y");
    if release.since(6, 1) {
        config.set("UCLAMP_TASK", "y");
    }
    if release.since(6, 9) {
        config.set("ENERGY_MODEL", "y");
    }
    config
}

/// Which kinds of steps a history may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds {
    /// Groups.
    pub groups: bool,
    /// Limits of groups.
    pub limits: bool,
    /// Groups that their tasks leave and that are removed then.
    pub removals: bool,
    /// Cpusets of groups that change, with the tasks in them and those that come and go.
    pub cpusets: bool,
    /// SCHED_FIFO and SCHED_RR.
    pub real_time: bool,
    /// SCHED_DEADLINE.
    pub deadline: bool,
    /// Deadline tasks that reclaim (`SCHED_FLAG_RECLAIM`).
    pub reclaims: bool,
    /// Everything that changes a task while it exists, SCHED_BATCH, SCHED_IDLE and idle groups.
    pub changes: bool,
    /// Switches of `sched/features`.
    pub features: bool,
    /// Utilisation clamps of tasks and groups; only with a tree that is built with them.
    pub clamps: bool,
    /// Time that a hypervisor takes, and interrupts that take time.
    pub nontask: bool,
}

impl Kinds {
    /// Tasks of the fair class alone.
    pub const TASKS: Kinds = Kinds::of("");
    /// Those in groups with limits.
    pub const LIMITED: Kinds = Kinds::of("gl");
    /// Real-time tasks and changes besides: all that every tree knows and every build allows.
    pub const ALL: Kinds = Kinds::of("glrc");

    /// Kinds by their letters: g (groups), l (limits), x (removals), q (cpusets), r (real-time), e
    /// (deadline), b (of which some reclaim), c (changes), f (switches of `sched/features`), u
    /// (utilisation clamps), v (time of a hypervisor and of interrupts).
    pub const fn of(letters: &str) -> Kinds {
        const fn has(letters: &str, letter: u8) -> bool {
            let mut left = letters.as_bytes();
            while let [first, rest @ ..] = left {
                if *first == letter {
                    return true;
                }
                left = rest;
            }
            false
        }
        Kinds {
            groups: has(letters, b'g'),
            limits: has(letters, b'l'),
            removals: has(letters, b'x'),
            cpusets: has(letters, b'q'),
            real_time: has(letters, b'r'),
            deadline: has(letters, b'e'),
            reclaims: has(letters, b'b'),
            changes: has(letters, b'c'),
            features: has(letters, b'f'),
            clamps: has(letters, b'u'),
            nontask: has(letters, b'v'),
        }
    }
}

/// A machine that a release knows, and kinds of steps. One CPU and two come as often as all others
/// together, which take longer.
pub fn draw_world(seed: u64, release: Version) -> (Shape, Kinds) {
    let mut dice = SplitMix(seed.rotate_left(16));
    let known = SHAPES.iter().filter(|shape| shape.is_known_to(release));
    let (few, many): (Vec<&Shape>, Vec<&Shape>) = known.partition(|shape| shape.cpus() <= 2);
    let mut shape = match dice.one_in(2) {
        true => dice.pick(&few),
        false => dice.pick(&many),
    };
    if shape.cpus() > 8 && !dice.one_in(4) {
        shape = dice.pick(&few);
    }
    let groups = !dice.one_in(3);
    let kinds = Kinds {
        groups,
        limits: groups && !dice.one_in(3),
        // By dice of their own, so that all else is as without them.
        removals: groups && SplitMix(seed.rotate_left(48)).one_in(2),
        cpusets: groups && SplitMix(seed.rotate_left(56)).one_in(3),
        real_time: dice.one_in(3),
        deadline: dice.one_in(4),
        reclaims: SplitMix(seed.rotate_left(40)).one_in(2),
        changes: dice.one_in(2),
        features: dice.one_in(3),
        // Rules from 6.1 on.
        clamps: release.since(6, 1) && (shape.energy || dice.one_in(4)),
        nontask: dice.one_in(3),
    };
    (*shape, kinds)
}

/// A history of `length` steps with some of `kinds`.
pub fn draw(seed: u64, shape: Shape, kinds: Kinds, length: usize) -> History {
    let mut dice = SplitMix(seed);
    let mut drawn = Drawn {
        cpus: shape.cpus(),
        homes: Vec::new(),
        parents: vec![0],
        removed: Vec::new(),
        // Of the kinds that are allowed each seed uses some.
        execs: kinds.changes && dice.one_in(2),
        reads: dice.one_in(3),
        nice: dice.one_in(2),
        pinned: !dice.one_in(3),
        slices: dice.one_in(3),
        policies: kinds.changes && dice.one_in(2),
        affinity: kinds.changes && shape.cpus() > 1 && dice.one_in(2),
        moves: kinds.changes && dice.one_in(2),
        idle_groups: kinds.changes && dice.one_in(3),
        exits: dice.one_in(2),
        yields: dice.one_in(2),
        sync: dice.one_in(2),
        busy: dice.below(3),
        kinds,
    };
    let mut steps = Vec::with_capacity(length);
    if kinds.groups {
        for _ in 0..=dice.below(4) {
            steps.push(drawn.place(&mut dice, |drawn, dice| drawn.group(dice)));
            if kinds.limits && dice.one_in(2) {
                steps.push(drawn.place(&mut dice, |drawn, dice| drawn.limit(dice)));
            }
        }
    }
    while steps.len() < length {
        if kinds.removals && dice.one_in(16) {
            drawn.removal(&mut dice, &mut steps);
        }
        steps.push(drawn.place(&mut dice, |drawn, dice| drawn.action(dice)));
    }
    steps.truncate(length);
    let features = match kinds.features {
        true => switches(seed),
        false => Vec::new(),
    };
    History {
        shape,
        seed,
        processes: 1 + SplitMix(seed.rotate_left(32)).below(8) as u32,
        features,
        steps,
    }
}

/// A third of the switches, each turned one way or the other.
fn switches(seed: u64) -> Vec<(&'static str, bool)> {
    let mut dice = SplitMix(!seed);
    let turned = list("switches").iter().filter_map(|&name| {
        let (turned, on) = (dice.one_in(3), dice.one_in(2));
        turned.then_some((name, on))
    });
    turned.collect()
}

struct Drawn {
    cpus: usize,
    /// Group of each task.
    homes: Vec<usize>,
    /// Parent of each group.
    parents: Vec<usize>,
    /// Groups that were removed.
    removed: Vec<usize>,
    execs: bool,
    reads: bool,
    nice: bool,
    pinned: bool,
    slices: bool,
    policies: bool,
    affinity: bool,
    moves: bool,
    idle_groups: bool,
    exits: bool,
    yields: bool,
    sync: bool,
    busy: u64,
    kinds: Kinds,
}

impl Drawn {
    fn place(
        &mut self,
        dice: &mut SplitMix,
        action: impl FnOnce(&mut Self, &mut SplitMix) -> Action,
    ) -> Step {
        let most = dice.pick(&[2_000, 20_000, 300_000, 2_000_000, 7_000_000]);
        Step {
            after_ns: 1 + dice.below(most),
            cpu: dice.index(self.cpus),
            action: action(self, dice),
        }
    }

    fn action(&mut self, dice: &mut SplitMix) -> Action {
        let most_tasks = (self.cpus as u64 * (2 + 2 * self.busy) + 2) as usize;
        match dice.below(40) {
            14 if self.kinds.nontask => {
                let most = dice.pick(&[2_000, 50_000, 1_000_000, 20_000_000]);
                Action::Steal(1 + dice.below(most))
            }
            15 if self.kinds.nontask => {
                let most = dice.pick(&[2_000, 50_000, 1_000_000]);
                Action::LongIrq(self.task(dice), 1 + dice.below(most))
            }
            16 | 17 if self.kinds.clamps => self.clamps(dice),
            0..=3 if self.homes.len() < most_tasks => self.fork(dice),
            4..=13 if self.sync || dice.one_in(2) => {
                Action::Wake(self.task(dice), self.sync && dice.one_in(3))
            }
            4..=17 => Action::IrqWake(self.task(dice)),
            18 if self.execs => Action::Exec,
            19 if self.reads => Action::ReadTime,
            20 if self.slices && self.kinds.changes => {
                Action::Slice(self.task(dice), self.slice(dice))
            }
            21 if self.kinds.cpusets => Action::Cpuset(self.inner(dice), self.mask(dice)),
            18..=29 => Action::Block,
            30 | 31 if self.yields => Action::Yield,
            32 if self.exits && self.homes.len() > 2 => Action::Exit,
            33 if self.nice => Action::Nice(self.task(dice), dice.below(40) as i32 - 20),
            35 | 39 if self.kinds.deadline => self.reservation(dice),
            34 if self.policies => Action::Policy(self.task(dice), self.class(dice)),
            35 if self.affinity => Action::Affinity(self.task(dice), self.mask(dice)),
            36 if self.moves => {
                let task = self.task(dice);
                let to = self.any_group(dice);
                self.moved(task, to)
            }
            37 if self.kinds.groups => match dice.below(3) {
                0 if self.parents.len() < 8 + self.removed.len() => self.group(dice),
                1 if self.idle_groups => Action::Idle(self.inner(dice), dice.one_in(2)),
                _ => {
                    let least = 2 << dice.below(14);
                    Action::Shares(self.inner(dice), least + dice.below(least))
                }
            },
            38 if self.kinds.limits => self.limit(dice),
            _ => Action::Rest,
        }
    }

    fn task(&self, dice: &mut SplitMix) -> usize {
        dice.index(self.homes.len())
    }

    /// A group that is not the root.
    fn inner(&self, dice: &mut SplitMix) -> usize {
        1 + dice.index(self.parents.len().max(2) - 1)
    }

    fn fork(&mut self, dice: &mut SplitMix) -> Action {
        let slice_ns = match self.slices && dice.one_in(2) {
            // The kernel sets a new task's slice from its parent's, within the bounds.
            true => self.slice(dice).clamp(100_000, 100_000_000),
            false => 0,
        };
        let mask = if self.pinned && dice.one_in(4) {
            self.mask(dice)
        } else {
            u64::MAX
        };
        let home = self.any_group(dice);
        self.homes.push(home);
        Action::Fork(home, self.class(dice), slice_ns, mask)
    }

    /// 0.1 to 10 ms, and what the kernel cuts to its bounds of 0.1 and 100 ms.
    fn slice(&self, dice: &mut SplitMix) -> u64 {
        match dice.one_in(8) {
            true => dice.pick(&[1_000, 200_000_000]),
            false => 100_000 * (1 + dice.below(100)),
        }
    }

    fn class(&self, dice: &mut SplitMix) -> Class {
        let mut class = Class::PLAIN;
        if self.nice {
            class.nice = dice.below(40) as i32 - 20;
        }
        if self.kinds.real_time && dice.one_in(5) {
            class.policy = dice.pick(&[1, 2]);
            class.priority = 1 + dice.below(3) as i32 * 10;
        } else if self.policies && dice.one_in(3) {
            class.policy = dice.pick(&[3, 5]);
        }
        class
    }

    /// Deadline and period of some are the same; a runtime of a twentieth to a half.
    fn reservation(&self, dice: &mut SplitMix) -> Action {
        let period_ns = dice.pick(&[1_000_000, 5_000_000, 10_000_000, 33_000_000, 100_000_000]);
        let deadline_ns = match dice.one_in(3) {
            true => period_ns / 10 * (5 + dice.below(5)),
            false => period_ns,
        };
        let runtime_ns = deadline_ns / 100 * (5 + dice.below(45));
        let reservation = Reservation {
            runtime_ns,
            deadline_ns,
            period_ns,
            reclaims: self.kinds.reclaims && dice.one_in(2),
        };
        Action::Deadline(self.task(dice), reservation)
    }

    fn clamps(&self, dice: &mut SplitMix) -> Action {
        if self.kinds.groups && dice.one_in(3) {
            let clamps = Clamps {
                min: self.clamp(dice),
                max: self.clamp(dice),
            };
            return Action::GroupClamps(self.inner(dice), clamps);
        }
        let wish = |dice: &mut SplitMix| match dice.one_in(4) {
            true => Wish::Reset,
            false => Wish::Set(self.clamp(dice)),
        };
        let mut clamps = Clamps {
            min: wish(dice),
            max: wish(dice),
        };
        match dice.below(3) {
            0 => clamps.min = Wish::Keep,
            1 => clamps.max = Wish::Keep,
            _ => {}
        }
        Action::Clamps(self.task(dice), clamps)
    }

    fn clamp(&self, dice: &mut SplitMix) -> u32 {
        match dice.one_in(2) {
            true => dice.pick(&[0, 205, 446, 512, 640, 1024]),
            false => dice.below(1025) as u32,
        }
    }

    fn mask(&self, dice: &mut SplitMix) -> u64 {
        let all = if self.cpus == 64 {
            u64::MAX
        } else {
            (1 << self.cpus) - 1
        };
        match dice.below(3) {
            0 => 1 << dice.index(self.cpus),
            1 => all,
            _ => match dice.next() & all {
                0 => all,
                mask => mask,
            },
        }
    }

    fn group(&mut self, dice: &mut SplitMix) -> Action {
        let parent = self.any_group(dice);
        self.parents.push(parent);
        Action::Group(parent)
    }

    /// Any group; the root where the one drawn was removed.
    fn any_group(&self, dice: &mut SplitMix) -> usize {
        let group = dice.index(self.parents.len());
        match self.removed.contains(&group) {
            true => 0,
            false => group,
        }
    }

    fn moved(&mut self, task: usize, to: usize) -> Action {
        if let Some(home) = self.homes.get_mut(task) {
            *home = to;
        }
        Action::Move(task, to)
    }

    /// The tasks of a group without groups below it leave, it is released, and freed after up to
    /// five other steps.
    fn removal(&mut self, dice: &mut SplitMix, steps: &mut Vec<Step>) {
        let group = self.inner(dice);
        let is_parent = |(child, &parent): (usize, &usize)| {
            parent == group && child > 0 && !self.removed.contains(&child)
        };
        let kept = self.parents.iter().enumerate().any(is_parent);
        if kept || group >= self.parents.len() || self.removed.contains(&group) {
            return;
        }
        self.removed.push(group);
        let tasks = (0..self.homes.len()).filter(|&task| self.homes[task] == group);
        for task in tasks.collect::<Vec<usize>>() {
            let to = self.any_group(dice);
            steps.push(self.place(dice, |drawn, _| drawn.moved(task, to)));
        }
        steps.push(self.place(dice, |_, _| Action::Release(group)));
        for _ in 0..dice.below(6) {
            steps.push(self.place(dice, |drawn, dice| drawn.action(dice)));
        }
        steps.push(self.place(dice, |_, _| Action::Free(group)));
    }

    fn limit(&self, dice: &mut SplitMix) -> Action {
        let period_ns = dice.pick(&[100_000_000, 100_000_000, 10_000_000, 35_000_000, 3_000_000]);
        let quota_ns = period_ns / 100 * (2 + dice.below(60) * self.cpus as u64);
        let quota_ns = match dice.one_in(16) {
            true => dice.pick(&[999_000, 1_000_000, 1_001_000]),
            false => quota_ns.max(1_000_000),
        };
        let quota = (!dice.one_in(4)).then_some(quota_ns);
        let burst_us = match dice.below(4) {
            0 => dice.pick(&[1, 2, 4]) * quota_ns / 4 / 1000,
            1 => dice.below(quota_ns / 1000),
            // The kernel refuses bursts that are larger than the quota.
            2 if dice.one_in(4) => quota_ns / 1000 + dice.below(3),
            _ => 0,
        };
        Action::Limit(self.inner(dice), period_ns, quota, burst_us * 1000)
    }
}
