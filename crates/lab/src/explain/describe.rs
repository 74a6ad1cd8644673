//! A decision in words and numbers.

use schedcast_base::cpu_list::CpuList;
use schedcast_kernel::balance::{CpuIdle, Migration};
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::entity::Owner;
use schedcast_kernel::explain::{
    Balancing, Candidate, Decision, GroupState, PickLevel, Placement, Siblings, Throttling,
};
use schedcast_kernel::model::Mark;
use schedcast_kernel::rules::{FairClass, Rules};
use schedcast_kernel::select::WakeKind;
use schedcast_kernel::{GroupId, TaskId};
use schedcast_sim::{Explained, World};

/// The decision, several lines, the last one ended.
pub(super) fn describe(world: &World<true>, one: &Explained) -> String {
    let writer = Writer { world };
    let head = writer.head(&one.decision);
    let body = writer.body(one.cpu, &one.decision);
    let seconds = one.time_ns as f64 / 1e9;
    format!("{seconds:.9} s  CPU {}  {head}\n{body}", one.cpu.0)
}

fn ms(ns: i64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

fn signed_ms(ns: i64) -> String {
    format!("{:+.3}", ns as f64 / 1e6)
}

/// CPUs as in a cpuset file, or "none".
pub(crate) fn cpu_list(set: &CpuSet) -> String {
    match CpuList::from_iter(set.iter().map(|cpu| cpu.0)).to_string() {
        none if none.is_empty() => "none".to_string(),
        list => list,
    }
}

/// Occasion of a placement, in words.
pub(super) fn kind_of(kind: WakeKind) -> &'static str {
    match kind {
        WakeKind::Wakeup => "wakeup",
        WakeKind::Fork => "fork",
        WakeKind::Exec => "exec",
    }
}

/// Whether a CPU was sought near another one, which only wakeups do, and not by energy.
pub(super) fn near_a_target(one: &Placement) -> bool {
    one.kind == WakeKind::Wakeup && !one.rule.is_by_energy()
}

/// State of a CPU that pulls, in words.
pub(super) fn pulling_cpu(idle: CpuIdle) -> &'static str {
    match idle {
        CpuIdle::NotIdle => "busy",
        CpuIdle::Idle => "idle",
        CpuIdle::NewlyIdle => "about to idle",
    }
}

/// Unit in which an imbalance is moved, in words.
pub(super) fn unit_of(migration: Migration) -> &'static str {
    match migration {
        Migration::Load => "load",
        Migration::Util => "utilisation",
        Migration::Task => "tasks",
        Migration::Misfit => "a task too large for its CPU",
        Migration::LlcTask => "a task that prefers this cache",
    }
}

/// Knows names.
pub(super) struct Writer<'a> {
    pub(super) world: &'a World<true>,
}

impl Writer<'_> {
    pub(super) fn rules(&self) -> &Rules {
        &self.world.kernel().rules
    }

    /// The kernel function that the rule mirrors, as the simulated release calls it.
    pub(super) fn function(&self, mark: Mark) -> &'static str {
        mark.about().function_in(self.rules().version)
    }

    /// The rule with its kernel function and the versions it holds in.
    fn rule(&self, mark: Mark) -> String {
        format!("  rule     {}\n", self.mirrored(mark))
    }

    /// Statement of a rule and, below it, its place in the kernel.
    fn mirrored(&self, mark: Mark) -> String {
        let about = mark.about();
        format!(
            "{}\n           {} ({}), mark {}",
            about.says,
            self.function(mark),
            about.versions(),
            about.name
        )
    }

    pub(super) fn task(&self, task: TaskId) -> String {
        format!("{}:{}", self.world.task_name(task), task.0)
    }

    pub(super) fn group(&self, group: GroupId) -> &str {
        let specs = &self.world.workload().groups;
        match group.index().checked_sub(1) {
            None => "/",
            Some(row) => specs.get(row).map_or("?", |spec| spec.path.as_str()),
        }
    }

    pub(super) fn owner(&self, owner: Owner) -> String {
        match owner {
            Owner::Task(task) => self.task(task),
            Owner::Group(group, _) => self.group(group).to_string(),
        }
    }

    fn head(&self, decision: &Decision) -> String {
        match decision {
            Decision::Pick { task, .. } => format!("pick: {}", self.task(*task)),
            Decision::Preempt {
                wakee,
                curr,
                preempts,
                ..
            } => {
                let verb = if *preempts {
                    "preempts"
                } else {
                    "does not preempt"
                };
                format!("preempt: {} {verb} {}", self.task(*wakee), self.task(*curr))
            }
            Decision::Place(one) => {
                let (task, kind) = (self.task(one.task), kind_of(one.kind));
                format!("place: {task} on CPU {} at {kind}", one.cpu.0)
            }
            Decision::Throttle(one) => format!("throttle: {}", self.group(one.group)),
            Decision::Balance(one) => {
                let from = one
                    .src
                    .map_or(String::new(), |src| format!(" from CPU {}", src.0));
                let tasks = if one.moved == 1 { "task" } else { "tasks" };
                format!("balance: {} {tasks} to CPU {}{from}", one.moved, one.dst.0)
            }
        }
    }

    fn body(&self, cpu: schedcast_kernel::Cpu, decision: &Decision) -> String {
        match decision {
            Decision::Pick { levels, .. } => levels.iter().map(|level| self.level(level)).collect(),
            Decision::Preempt {
                rule: mark,
                siblings,
                ..
            } => {
                let compared = siblings.as_deref().map(|pair| self.siblings(pair));
                self.rule(*mark) + &compared.unwrap_or_default()
            }
            Decision::Place(one) => self.place(one),
            Decision::Throttle(one) => self.throttle(cpu, one),
            Decision::Balance(one) => self.balance(one),
        }
    }

    fn level(&self, level: &PickLevel) -> String {
        let mut text = self.rule(level.rule);
        let origin = self.origin();
        text += &format!(
            "  queue    {}, ms, virtual times from {origin}\n",
            self.group(level.group)
        );
        text += &self.table(&level.candidates, Some(level.picked));
        text
    }

    fn siblings(&self, pair: &Siblings) -> String {
        let origin = self.origin();
        let mut compared = vec![pair.curr.clone(), pair.wakee.clone()];
        let picked = pair.picked.as_ref();
        let is_third = |one: &&Candidate| compared.iter().all(|two| two.owner != one.owner);
        compared.extend(picked.filter(is_third).cloned());
        format!(
            "  queue    {}, ms, virtual times from {origin}\n{}",
            self.group(pair.group),
            self.table(&compared, picked.map(|one| one.owner))
        )
    }

    pub(super) fn origin(&self) -> &'static str {
        match self.rules().fair {
            FairClass::Cfs => "min_vruntime",
            FairClass::Eevdf => "V",
        }
    }

    fn table(&self, candidates: &[Candidate], picked: Option<Owner>) -> String {
        let eevdf = self.rules().fair == FairClass::Eevdf;
        let names: Vec<String> = candidates.iter().map(|one| self.owner(one.owner)).collect();
        let width = names.iter().map(String::len).max().unwrap_or(0).max(6);
        let mut text = format!("    {:width$}  weight   vruntime", "entity");
        text += if eevdf {
            "        lag   deadline    slice  state\n"
        } else {
            "    slice  state\n"
        };
        for (one, name) in candidates.iter().zip(&names) {
            let mark = if picked == Some(one.owner) { '*' } else { ' ' };
            text += &format!(
                "  {mark} {name:width$}  {:6} {:>10}",
                one.weight,
                signed_ms(one.vruntime_ns)
            );
            if eevdf {
                text += &format!(
                    " {:>10} {:>10}",
                    signed_ms(-one.vruntime_ns),
                    signed_ms(one.deadline_ns)
                );
            }
            text += &format!(" {:>8}  {}\n", ms(one.slice_ns as i64), state(one, eevdf));
        }
        text
    }

    fn place(&self, one: &Placement) -> String {
        let mut text = self.rule(one.rule);
        let sync = if one.sync { ", sync" } else { "" };
        text += &format!(
            "  waker    {} on CPU {}{sync}; previous CPU {}\n",
            self.task(one.waker),
            one.waker_cpu.0,
            one.prev_cpu.0
        );
        if one.rule.is_by_energy() && !one.energies.is_empty() {
            let prices = one.energies.iter();
            let prices = prices.map(|of| format!("CPU {}: {}", of.cpu.0, of.energy));
            let prices: Vec<String> = prices.collect();
            text += &format!("  energy   {}\n", prices.join(", "));
        } else if near_a_target(one) {
            let rule = self.mirrored(one.target_rule);
            text += &format!("  target   CPU {}: {rule}\n", one.target.0);
        }
        if let Some(near) = &one.near_first {
            let rule = self.mirrored(Mark::ClusterFirst);
            text += &format!("  scan     CPUs {} first: {rule}\n", cpu_list(near));
        }
        let limit = one.scan_limit.map(|limit| format!(", scan limit {limit}"));
        text += &format!(
            "  state    idle CPUs {}; CPUs looked at {}{}\n",
            cpu_list(&one.idle),
            one.examined,
            limit.unwrap_or_default()
        );
        text
    }

    fn balance(&self, one: &Balancing) -> String {
        let mut text = self.rule(one.rule);
        text += &format!(
            "  domain   {}, the pulling CPU is {}; left to move: {} ({})\n",
            one.domain,
            pulling_cpu(one.idle),
            one.imbalance,
            unit_of(one.migration)
        );
        if let Some((local, busiest)) = &one.groups {
            text += &format!("  local    {}\n", group_state(local));
            text += &format!("  busiest  {}\n", group_state(busiest));
        }
        text
    }

    fn throttle(&self, cpu: schedcast_kernel::Cpu, one: &Throttling) -> String {
        let quota = one.limit.quota_ns;
        format!(
            "{}  limit    quota {} ms, period {} ms, burst {} ms\n  \
             state    CPU {}: runtime_remaining {} ms, pool {} ms, tasks {}; refill at {:.9} s\n",
            self.rule(one.rule),
            quota.map_or("max".to_string(), |ns| ms(ns as i64)),
            ms(one.limit.period_ns as i64),
            ms(one.limit.burst_ns as i64),
            cpu.0,
            ms(one.runtime_remaining_ns),
            ms(one.pool_ns as i64),
            one.tasks,
            one.refill_at_ns as f64 / 1e9
        )
    }
}

fn state(one: &Candidate, eevdf: bool) -> String {
    let mut words = Vec::new();
    if one.running {
        words.push("running");
    }
    if !one.queued {
        words.push("no longer queued");
    }
    if eevdf {
        words.push(if one.eligible {
            "eligible"
        } else {
            "not eligible"
        });
    }
    if one.protected {
        words.push("protected");
    }
    if one.delayed {
        words.push("asleep, delayed");
    }
    if words.is_empty() {
        words.push("queued");
    }
    words.join(", ")
}

fn group_state(group: &GroupState) -> String {
    format!(
        "CPUs {}: {}, {} running, {} idle CPUs, load {}, util {}, capacity {}",
        cpu_list(&group.cpus),
        group.kind,
        group.nr_running,
        group.idle_cpus,
        group.load,
        group.util,
        group.capacity
    )
}
