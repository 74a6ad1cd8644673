//! Comparison after each step: everything that both sides keep.
//!
//! Virtual runtimes are compared as distances: where the virtual time of an empty queue stands is
//! of no consequence, so those of one queue may all differ by the same amount.

use super::Pair;
use super::members::{
    BALANCE, CACHE_TIME, CAPACITY, CFS_RQ, CPU_EPOCH, DOMAIN, ENTITY, GROUP, GROUP_CFS_RQ, LLC,
    PROCESS, RQ, Row, TASK,
};
use crate::lists::list;
use crate::world::{Field, Object, World};
use schedcast_kernel::balance::{Domain, GroupCapacity, Tickless};
use schedcast_kernel::cache::{CacheTime, CpuEpoch, LlcLoad, Process};
use schedcast_kernel::cfs_rq::CfsRq;
use schedcast_kernel::entity::Entity;
use schedcast_kernel::group::Group;
use schedcast_kernel::rq::Rq;
use schedcast_kernel::task::{Policy, Task, TaskState};
use schedcast_kernel::{Cpu, Kernel};
use std::collections::BTreeMap;
use std::fmt;

/// One number that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Member of the tree's structure.
    pub member: String,
    /// Whose.
    pub whose: String,
    /// Value in the rules.
    pub rust: i128,
    /// Value in the tree.
    pub tree: i128,
}

impl Difference {
    /// Whether a task runs, waits or is throttled on one side and not on the other. Everything else
    /// is what later decisions are made from.
    pub(crate) fn is_decision(&self) -> bool {
        list("decisions").contains(&self.member.as_str())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (member, whose) = (&self.member, &self.whose);
        write!(
            f,
            "{member} of {whose}: {}, the tree has {}",
            self.rust, self.tree
        )
    }
}

/// Members that a tree has, with what the rules have for each.
type Found<T> = Vec<(&'static str, Field, fn(&Kernel, &T) -> i128)>;

/// Members that can be compared with a tree.
pub(super) struct Members {
    task: Found<Task>,
    entity: Found<Entity>,
    cfs_rq: Found<CfsRq>,
    group_cfs_rq: Found<CfsRq>,
    rq: Found<Rq>,
    group: Found<Group>,
    process: Found<Process>,
    cache_time: Found<CacheTime>,
    cpu_epoch: Found<CpuEpoch>,
    llc: Found<LlcLoad>,
    llc_count: Option<Field>,
    busy_cpus: Option<Field>,
    domain: Found<Domain>,
    capacity: Found<GroupCapacity>,
    balance: Found<Tickless>,
    next_class: Option<Field>,
    vruntime: Option<Field>,
    deadline: Option<Field>,
    vlag: Option<Field>,
    vprot: Option<Field>,
    delayed: Option<Field>,
    slice: Option<Field>,
    sum: Option<Field>,
    origin: Option<Field>,
}

impl Members {
    pub(super) fn of(tree: &World) -> Self {
        let entity = Object::TaskEntity(0);
        Self {
            task: found(tree, Object::Task(0), TASK),
            entity: found(tree, entity, ENTITY),
            cfs_rq: found(tree, Object::CfsRq(0, 0), CFS_RQ),
            group_cfs_rq: found(tree, Object::CfsRq(0, 0), GROUP_CFS_RQ),
            rq: found(tree, Object::Rq(0), RQ),
            group: found(tree, Object::Group(0), GROUP),
            process: found(tree, Object::Process(0), PROCESS),
            cache_time: found(tree, Object::CacheTime(0, 0), CACHE_TIME),
            cpu_epoch: found(tree, Object::Rq(0), CPU_EPOCH),
            llc: found(tree, Object::Llc(0), LLC),
            llc_count: tree.field(Object::LlcCount(0, 0), "count"),
            busy_cpus: tree.field(Object::Llc(0), "nr_busy_cpus.counter"),
            domain: found(tree, Object::Domain(0, 0), DOMAIN),
            capacity: found(tree, Object::Capacity(0, 0), CAPACITY),
            balance: found(tree, Object::Balance, BALANCE),
            next_class: tree.field(Object::Class(0), "next"),
            vruntime: tree.field(entity, "vruntime"),
            deadline: tree.field(entity, "deadline"),
            vlag: tree.field(entity, "vlag"),
            vprot: tree.field(entity, "vprot"),
            delayed: tree.field(entity, "sched_delayed"),
            slice: tree.field(entity, "slice"),
            sum: any(tree, &["sum_w_vruntime", "avg_vruntime"]),
            origin: any(tree, &["zero_vruntime", "min_vruntime"]),
        }
    }
}

/// A member of queues under the names it has in different trees.
fn any(tree: &World, names: &[&str]) -> Option<Field> {
    let queue = Object::CfsRq(0, 0);
    names.iter().find_map(|name| tree.field(queue, name))
}

fn found<T>(tree: &World, object: Object, rows: &[Row<T>]) -> Found<T> {
    let find = |(names, of): &Row<T>| {
        let named = names
            .iter()
            .find_map(|name| Some((*name, tree.field(object, name)?)));
        named.map(|(name, field)| (name, field, *of))
    };
    rows.iter().filter_map(find).collect()
}

impl Pair {
    /// All that differs now.
    pub(crate) fn compare(&self) -> Vec<Difference> {
        let mut seen = Differences {
            pair: self,
            found: Vec::new(),
            origins: BTreeMap::new(),
        };
        if self.refusals_differ {
            seen.note("refused", || "what was asked".into(), 0, 1);
        }
        let [rust, tree] = self.endless.map(i128::from);
        seen.note("endless", || "interrupts of one instant".into(), rust, tree);
        let (rust, tree) = self.read;
        let whose = || "the last task that asked".into();
        seen.note("task_sched_runtime", whose, rust, tree);
        for cpu in 0..self.rust.cpus() {
            let (rust, tree) = (self.runs_rust(cpu), self.runs_tree(cpu));
            let number = |task: Option<usize>| task.map_or(-1, |task| task as i128);
            let whose = || format!("CPU {cpu}");
            seen.note("current task", whose, number(rust), number(tree));
        }
        for (number, &(rust, tree)) in self.tasks.iter().enumerate() {
            let task = &self.rust.tasks[rust.index()];
            let whose = || format!("task {number}");
            seen.rows(&self.members.task, Object::Task(tree), task, whose);
            if task.policy == Policy::Deadline && task.state != TaskState::Dead {
                let entity = self.rust.dl.of(rust);
                let kept = [
                    ("dl.runtime", i128::from(entity.runtime_ns)),
                    ("dl.deadline", i128::from(entity.deadline_ns)),
                    ("dl.dl_bw", i128::from(entity.bw)),
                ];
                for (member, rust) in kept {
                    if let Some(tree) = self.tree.read(Object::Task(tree), member) {
                        seen.note(member, whose, rust, tree);
                    }
                }
            }
            if task.policy.is_fair() && task.state != TaskState::Dead {
                let entity = &self.rust.entities[task.se.index()];
                seen.entity(Object::TaskEntity(tree), entity, whose);
            }
        }
        for (number, (rust, tree)) in self.groups_left() {
            if number > 0 {
                let (group, whose) = (&self.rust.groups[rust.index()], || {
                    format!("group {number}")
                });
                seen.rows(&self.members.group, Object::Group(tree), group, whose);
            }
            for cpu in 0..self.rust.cpus() {
                let queue = &self.rust.cfs_rqs[self.rust.cfs_rq_of(rust, Cpu::from(cpu)).index()];
                let whose = || format!("group {number} on CPU {cpu}");
                let object = Object::CfsRq(tree, cpu);
                seen.rows(&self.members.cfs_rq, object, queue, whose);
                if let Some(se) = queue.se {
                    seen.rows(&self.members.group_cfs_rq, object, queue, whose);
                    let (object, se) = (
                        Object::GroupEntity(tree, cpu),
                        &self.rust.entities[se.index()],
                    );
                    seen.entity(object, se, || format!("entity of {}", whose()));
                }
            }
        }
        for (number, (rust, tree)) in self.groups_left() {
            for cpu in 0..self.rust.cpus() {
                let q = self.rust.cfs_rq_of(rust, Cpu::from(cpu)).index();
                seen.sum(q, Object::CfsRq(tree, cpu), || {
                    format!("group {number} on CPU {cpu}")
                });
            }
        }
        for cpu in 0..self.rust.cpus() {
            let whose = || format!("CPU {cpu}");
            seen.rows(
                &self.members.rq,
                Object::Rq(cpu),
                &self.rust.rqs[cpu],
                whose,
            );
            if let Some(next) = self.tree.get(Object::Class(cpu), self.members.next_class) {
                seen.note("next_class", whose, self.rust.rqs[cpu].next_rank, next);
            }
        }
        seen.balancing();
        seen.caches();
        seen.found
    }
}

struct Differences<'a> {
    pair: &'a Pair,
    found: Vec<Difference>,
    /// By how much the vruntimes of a queue differ.
    origins: BTreeMap<usize, i128>,
}

impl Differences<'_> {
    fn note(
        &mut self,
        member: &str,
        whose: impl Fn() -> String,
        rust: impl Into<i128>,
        tree: impl Into<i128>,
    ) {
        let (rust, tree) = (rust.into(), tree.into());
        if rust != tree {
            self.found.push(Difference {
                member: member.to_string(),
                whose: whose(),
                rust,
                tree,
            });
        }
    }

    /// Memory of balancing.
    fn balancing(&mut self) {
        let pair = self.pair;
        let members = &pair.members;
        for cpu in (0..pair.rust.cpus()).map(Cpu::from) {
            for (level, domain) in pair.rust.domains.of(cpu).iter().enumerate() {
                let object = Object::Domain(cpu.index(), level);
                let whose = || format!("domain {level} of CPU {}", cpu.0);
                self.rows(&members.domain, object, domain, whose);
                let object = Object::Capacity(cpu.index(), level);
                let group = pair.rust.domains.capacity_of_group(domain);
                self.rows(&members.capacity, object, group, whose);
            }
            let tree = pair.tree.get(Object::Llc(cpu.index()), members.busy_cpus);
            if let (Some(rust), Some(tree)) = (pair.rust.nr_busy_cpus(cpu), tree) {
                let whose = || format!("CPU {}", cpu.0);
                self.note("nr_busy_cpus", whose, rust, tree);
            }
        }
        let state = pair.rust.tickless();
        let whose = || "the machine".into();
        self.rows(&members.balance, Object::Balance, &state, whose);
    }

    /// Preferences of processes for caches.
    fn caches(&mut self) {
        let pair = self.pair;
        let (cache, members) = (&pair.rust.cache, &pair.members);
        for (number, &(rust, tree)) in pair.tasks.iter().enumerate() {
            let Some(row) = pair.rust.tasks[rust.index()].cache.process else {
                continue;
            };
            let process = &cache.processes[row as usize];
            let whose = || format!("the process of task {number}");
            self.rows(&members.process, Object::Process(tree), process, whose);
            for (cpu, time) in process.times.iter().enumerate() {
                let whose = || format!("the process of task {number} on CPU {cpu}");
                let object = Object::CacheTime(tree, cpu);
                self.rows(&members.cache_time, object, time, whose);
            }
        }
        for (cpu, epoch) in cache.cpus.iter().enumerate() {
            let whose = || format!("CPU {cpu}");
            self.rows(&members.cpu_epoch, Object::Rq(cpu), epoch, whose);
            if let Some(load) = cache.load_of(Cpu::from(cpu)) {
                self.rows(&members.llc, Object::Llc(cpu), &load, whose);
            }
            for llc in 0..cache.llcs() {
                let object = Object::LlcCount(cpu, llc as usize);
                if let Some(tree) = pair.tree.get(object, members.llc_count) {
                    let rust = cache.count(Cpu::from(cpu), llc);
                    self.note("llc_counts", whose, rust, tree);
                }
            }
        }
    }

    fn rows<T>(
        &mut self,
        rows: &Found<T>,
        object: Object,
        rust: &T,
        whose: impl Fn() -> String + Copy,
    ) {
        for (name, field, of) in rows {
            if let Some(tree) = self.pair.tree.get(object, *field) {
                self.note(name, whose, of(&self.pair.rust, rust), tree);
            }
        }
    }

    /// Σ w·v of a queue, which V is computed from; the origin that it is kept against may differ.
    fn sum(&mut self, q: usize, object: Object, whose: impl Fn() -> String) {
        let pair = self.pair;
        let get = |field: Option<Field>| pair.tree.get(object, field);
        let (Some(offset), Some(sum), Some(origin)) = (
            self.origins.get(&q),
            get(pair.members.sum),
            get(pair.members.origin),
        ) else {
            return;
        };
        let queue = &pair.rust.cfs_rqs[q];
        let load = queue.avg_load as i64;
        let whole = |sum: i64, origin: i64| sum.wrapping_add(origin.wrapping_mul(load));
        let rust = whole(queue.avg_vruntime, queue.min_vruntime as i64);
        let tree = whole(sum as i64, (origin + offset) as i64);
        self.note("sum of vruntimes", whose, rust, tree);
    }

    fn entity(&mut self, object: Object, rust: &Entity, whose: impl Fn() -> String + Copy) {
        let pair = self.pair;
        self.rows(&pair.members.entity, object, rust, whose);
        let members = &pair.members;
        let get = |field: Option<Field>| pair.tree.get(object, field);
        let Some(vruntime) = get(members.vruntime) else {
            return;
        };
        if !rust.on_rq {
            let delayed = get(members.delayed);
            if let Some(vlag) = get(members.vlag).filter(|_| delayed.is_some()) {
                self.note("vlag", whose, rust.vlag, vlag);
            }
            return;
        }
        let offset = i128::from(rust.vruntime.wrapping_sub(vruntime as u64) as i64);
        let origin = *self.origins.entry(rust.cfs_rq.index()).or_insert(offset);
        let member = "vruntime against others of its queue";
        self.note(member, whose, offset, origin);
        // Entities of groups have requests only where they are picked.
        let asks = rust.task().is_some() || !pair.rust.rules.flat_pick;
        if let Some(slice) = get(members.slice).filter(|_| asks) {
            self.note("slice", whose, rust.slice, slice);
        }
        let queue = &pair.rust.cfs_rqs[rust.cfs_rq.index()];
        let running = queue
            .curr
            .filter(|se| std::ptr::eq(&raw const pair.rust.entities[se.index()], rust));
        if let (Some(deadline), Some(vlag), Some(se)) =
            (get(members.deadline), get(members.vlag), running)
        {
            // Up to 6.16 an entity is protected while its deadline is what it was at its pick.
            let tree = match get(members.vprot) {
                Some(vprot) => (vprot as u64).wrapping_sub(vruntime as u64) as i64 > 0,
                None => vlag as u64 == deadline as u64,
            };
            self.note("protection", whose, pair.rust.is_protected(se), tree);
        }
        if let Some(deadline) = get(members.deadline) {
            let left = |deadline: u64, vruntime: u64| deadline.wrapping_sub(vruntime) as i64;
            let rust = left(rust.deadline, rust.vruntime);
            let tree = left(deadline as u64, vruntime as u64);
            self.note("deadline after vruntime", whose, rust, tree);
        }
    }
}
