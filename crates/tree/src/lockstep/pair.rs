//! The two sides of a history and what they are told.

use super::bench::Bench;
use super::groups::Group;
use super::{Action, Class, History, Step};
use crate::calls::comm;
use crate::config::Config;
use crate::ground::{machine, policy_number, policy_of, rules_as_built};
use crate::tree_core::clamp_number;
use crate::world::{Call, Event, NewTask, Object, World, WorldError};
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::platform::Timer;
use schedcast_kernel::rules::{Feature, Preemption, Version};
use schedcast_kernel::task::{Policy, TaskAttributes, TaskState};
use schedcast_kernel::uclamp::Clamps;
use schedcast_kernel::{Context, Cpu, GroupId, Kernel, Ns, TaskId, WakeFlags};
use schedcast_sim::random::SplitMix;
use std::collections::VecDeque;
use std::path::Path;

/// So many interrupts of one instant do not end: with work that takes no time, two tasks that
/// migration threads push around three CPUs would go on for good, by the rules and by the C.
const ENDLESS: u32 = 10_000;

/// Both sides.
pub struct Pair {
    pub(super) rust: Kernel,
    pub(super) bench: Bench,
    pub(super) tree: World,
    /// Numbers of each task on both sides.
    pub(super) tasks: Vec<(TaskId, i32)>,
    /// Bits of the CPUs that each task asked for.
    pub(super) wishes: Vec<u64>,
    /// Numbers of each group on both sides.
    pub(super) groups: Vec<Group>,
    /// Next tick of each CPU of the tree.
    ticks: Vec<Ns>,
    tick_ns: Ns,
    interrupted: VecDeque<(usize, Vec<Call>)>,
    pub(super) members: super::compare::Members,
    /// One side refused a reservation that the other one accepted.
    pub(super) refusals_differ: bool,
    /// Whether interrupts of one instant did not end, on both sides.
    pub(super) endless: [bool; 2],
    /// CPU time of a task as it read it last, on both sides.
    pub(super) read: (Ns, Ns),
    /// Processes that tasks are threads of, in turn by chance.
    processes: u32,
}

impl Pair {
    /// Boots both sides at time 0 and lets them come to rest.
    ///
    /// # Errors
    /// When the tree's scheduler does not boot.
    ///
    /// # Panics
    /// When `version` is no version.
    pub fn boot(object: &Path, version: &str, history: &History) -> Result<Self, WorldError> {
        let (topology, cpus) = (history.shape.topology(), history.shape.cpus());
        let release: Version = version.parse().expect("a version");
        let mut rules = rules_as_built(release, cpus, Preemption::Voluntary, Config::hz_of(object));
        let switches = history.features.iter().filter_map(|&(name, on)| {
            let switch = Feature::named(name).filter(|switch| switch.exists(release))?;
            Some((switch, on))
        });
        for (switch, on) in switches.clone() {
            switch.set(&mut rules.features, on);
        }
        let driver = history.shape.driver();
        let mut tree = World::boot(object, &machine(&topology, driver.as_ref(), history.seed))?;
        for (switch, on) in switches {
            tree.set_feature(switch.name, on);
        }
        rules.irq_time_accounting = tree.field(Object::Rq(0), "prev_irq_time").is_some();
        rules.uclamp = tree.field(Object::Rq(0), "uclamp_flags").is_some();
        let tick_ns = rules.tick_ns;
        let mut rust = Kernel::new(topology, rules);
        rust.expect_custom_slices();
        if let Some(driver) = driver {
            rust.hold_frequency(driver);
        }
        rust.domains.forget_idle_scans();
        let mut pair = Self {
            rust,
            bench: Bench {
                seed: history.seed,
                ..Bench::default()
            },
            ticks: vec![Ns::MAX; cpus],
            members: super::compare::Members::of(&tree),
            tree,
            tasks: Vec::new(),
            wishes: Vec::new(),
            groups: vec![Group::new((GroupId::ROOT, 0), 0)],
            tick_ns,
            interrupted: VecDeque::new(),
            refusals_differ: false,
            endless: [false; 2],
            read: (0, 0),
            processes: history.processes,
        };
        // The rules begin with ticks that are stopped; some trees stop them after a first one.
        for cpu in 0..cpus {
            if pair.tree.tick_runs(cpu) {
                pair.tree(cpu, Call::Tick, &[])?;
            }
        }
        pair.warm_up()?;
        Ok(pair)
    }

    /// Every CPU runs something and one runs on until the load of the others has decayed, so that
    /// nothing is left of the different ways in which the two sides boot. The first round brings
    /// the kicks of idle CPUs into step, the second one forgets what was left when they were not.
    /// Tasks of this time are forgotten.
    fn warm_up(&mut self) -> Result<(), WorldError> {
        let cpus = self.rust.cpus();
        let turns = (0..cpus).map(|cpu| (cpu, 2)).chain([(0, 1500)]);
        for (cpu, ticks) in turns.clone().chain(turns) {
            let (span_ns, rest_ns) = (ticks * self.tick_ns, self.tick_ns + self.tick_ns / 3);
            for (after_ns, action) in [
                (rest_ns, Action::Fork(0, Class::PLAIN, 0, 1 << cpu)),
                (span_ns, Action::Exit),
            ] {
                self.step(&Step {
                    after_ns,
                    cpu,
                    action,
                })?;
            }
        }
        self.tasks.clear();
        self.wishes.clear();
        self.advance(self.bench.now + 5 * self.tick_ns)
    }

    /// One step on both sides; `false` when it does not apply, after its time has passed.
    ///
    /// # Errors
    /// When the tree's scheduler stops.
    pub fn step(&mut self, step: &Step) -> Result<bool, WorldError> {
        self.advance(self.bench.now + step.after_ns)?;
        if self.endless != [false; 2] {
            return Ok(true);
        }
        if self.runs_rust(step.cpu) != self.runs_tree(step.cpu) {
            // They have parted already: what one task does on one side, another would do on the
            // other.
            return Ok(true);
        }
        let done = self.act(step.cpu, step.action).transpose()?.is_some();
        if done {
            self.settle(step.cpu)?;
        }
        Ok(done)
    }

    /// Trail of both sides since the last call of this, which is kept from the first call on.
    pub fn trail(&mut self) -> Vec<String> {
        self.bench.trail.replace(Vec::new()).unwrap_or_default()
    }

    /// Number of the task that a CPU of the rules executes.
    pub(super) fn runs_rust(&self, cpu: usize) -> Option<usize> {
        let current = self.rust.current(Cpu::from(cpu));
        self.tasks.iter().position(|task| task.0 == current)
    }

    /// The same of the tree.
    pub(super) fn runs_tree(&self, cpu: usize) -> Option<usize> {
        let current = self.tree.current(cpu);
        self.tasks.iter().position(|task| task.1 == current)
    }

    /// True if the tree's CPU executes its idle task now.
    fn idles(&self, cpu: usize) -> bool {
        self.rust.is_idle_task(self.rust.current(Cpu::from(cpu)))
    }

    pub(super) fn tree(
        &mut self,
        cpu: usize,
        call: Call,
        arguments: &[i64],
    ) -> Result<i64, WorldError> {
        self.enter_tree(cpu, (call, false), arguments)
    }

    /// The same of a call that `stays` in the kernel until the next one ends.
    pub(super) fn enter_tree(
        &mut self,
        cpu: usize,
        (call, stays): (Call, bool),
        arguments: &[i64],
    ) -> Result<i64, WorldError> {
        self.bench
            .note(|| format!("tree: CPU {cpu} executes {call:?}"));
        let timers = |tree: &World| (0..self.ticks.len()).map(|cpu| tree.timer(cpu)).collect();
        let before: Vec<Ns> = match self.bench.trail {
            Some(_) => timers(&self.tree),
            None => Vec::new(),
        };
        let result = self
            .tree
            .run_call(cpu, self.bench.now, (call, stays), arguments)?;
        for (cpu, before) in before.into_iter().enumerate() {
            let at = self.tree.timer(cpu);
            if at != before && at != Ns::MAX {
                let what = format!("tree: CPU {cpu} fires its next timer at {at}");
                self.bench.note(|| what);
            }
        }
        for event in self.tree.events() {
            self.bench.note(|| format!("tree: {event:?}"));
            match event {
                Event::Interrupt(cpu, call) => {
                    let pending = self.interrupted.iter_mut().find(|(other, _)| *other == cpu);
                    match pending {
                        Some((_, calls)) if calls.contains(&call) => {}
                        Some((_, calls)) => calls.push(call),
                        None => self.interrupted.push_back((cpu, vec![call])),
                    }
                }
                Event::Tick(cpu, true) => {
                    self.ticks[cpu] = (self.bench.now / self.tick_ns + 1) * self.tick_ns;
                }
                Event::Tick(cpu, false) => self.ticks[cpu] = Ns::MAX,
                _ => {}
            }
        }
        Ok(result)
    }

    /// The way out of the kernel on the CPU that did something, then the interrupts it sent.
    pub(super) fn settle(&mut self, cpu: usize) -> Result<(), WorldError> {
        self.rust.leave_kernel(&mut self.bench, Cpu::from(cpu));
        for _ in 0..ENDLESS {
            let Some(cpu) = self.bench.interrupted.pop_front() else {
                return self.settle_tree();
            };
            self.rust.ipi(&mut self.bench, cpu);
            self.rust.leave_kernel(&mut self.bench, cpu);
        }
        self.endless[0] = true;
        self.settle_tree()
    }

    fn wake(&mut self, here: Cpu, task: TaskId, sync: bool, context: Context) {
        let flags = WakeFlags { sync, context };
        self.rust.wake(&mut self.bench, here, task, flags);
    }

    /// An interrupt comes to a CPU of the rules and wakes a task.
    fn interrupt_wakes(&mut self, here: Cpu, task: TaskId) {
        self.rust.irq_enter(&self.bench, here);
        self.wake(here, task, false, Context::HardIrq);
    }

    /// An interrupt that wakes a task takes time, up to the next event.
    fn long_interrupt(
        &mut self,
        cpu: usize,
        (rust, tree): (TaskId, i32),
        ns: Ns,
    ) -> Result<i64, WorldError> {
        let here = Cpu::from(cpu);
        self.interrupt_wakes(here, rust);
        self.enter_tree(cpu, (Call::IrqWake, true), &[tree.into()])?;
        let before_next = self.next_event().map_or(Ns::MAX, |(at, ..)| at - 1);
        self.bench.now = (self.bench.now + ns).min(before_next.max(self.bench.now));
        self.rust.leave_kernel(&mut self.bench, here);
        self.tree(cpu, Call::Nothing, &[])
    }

    /// The next timer or tick of either side: when, on which CPU, whether it is a tick.
    fn next_event(&self) -> Option<(Ns, usize, bool)> {
        let rust = self
            .bench
            .timers
            .iter()
            .map(|(timer, cpu, at)| (*at, cpu.index(), matches!(timer, Timer::Tick(_))));
        let devices = (0..self.ticks.len()).map(|cpu| (self.tree.timer(cpu), cpu, false));
        let ticks = self
            .ticks
            .iter()
            .enumerate()
            .map(|(cpu, at)| (*at, cpu, true));
        rust.chain(devices).chain(ticks).min()
    }

    /// Lets time pass: timers and ticks of both sides fire, those of one instant by CPU, ticks
    /// last.
    fn advance(&mut self, end: Ns) -> Result<(), WorldError> {
        while let Some((at, cpu, tick)) = self.next_event().filter(|(at, ..)| *at <= end) {
            if self.endless != [false; 2] {
                break;
            }
            self.bench.now = self.bench.now.max(at);
            if tick {
                self.fire_tick(cpu)?;
            } else {
                self.fire_timers(cpu)?;
            }
        }
        self.bench.now = end;
        Ok(())
    }

    fn take_timer(&mut self, cpu: usize, tick: bool) -> Option<Timer> {
        let now = self.bench.now;
        let due = |row: &usize| {
            let (timer, on, at) = &self.bench.timers[*row];
            *at <= now && on.index() == cpu && matches!(timer, Timer::Tick(_)) == tick
        };
        let row = (0..self.bench.timers.len())
            .filter(due)
            .min_by_key(|&row| self.bench.timers[row].2)?;
        Some(self.bench.timers.remove(row).0)
    }

    fn fire_tick(&mut self, cpu: usize) -> Result<(), WorldError> {
        let here = Cpu::from(cpu);
        let rust = self.take_timer(cpu, true).is_some();
        if rust {
            self.rust.irq_enter(&self.bench, here);
            self.rust.tick(&mut self.bench, here);
        }
        if self.ticks[cpu] <= self.bench.now {
            self.ticks[cpu] += self.tick_ns;
            self.tree(cpu, Call::Tick, &[])?;
        }
        if rust {
            self.settle(cpu)
        } else {
            self.settle_tree()
        }
    }

    /// Interrupts of one instant: the tree's CPU leaves the kernel behind the last one, as the
    /// rules do.
    fn interrupts(&mut self, cpu: usize, calls: &[Call]) -> Result<(), WorldError> {
        let Some((last, others)) = calls.split_last() else {
            return Ok(());
        };
        for &call in others {
            self.enter_tree(cpu, (call, true), &[])?;
        }
        self.tree(cpu, *last, &[]).map(drop)
    }

    fn settle_tree(&mut self) -> Result<(), WorldError> {
        for _ in 0..ENDLESS {
            let Some((cpu, calls)) = self.interrupted.pop_front() else {
                return Ok(());
            };
            self.interrupts(cpu, &calls)?;
        }
        self.endless[1] = true;
        Ok(())
    }

    fn fire_timers(&mut self, cpu: usize) -> Result<(), WorldError> {
        let here = Cpu::from(cpu);
        let mut rust = false;
        while let Some(timer) = self.take_timer(cpu, false) {
            if !std::mem::replace(&mut rust, true) {
                self.rust.irq_enter(&self.bench, here);
            }
            let bench = &mut self.bench;
            match timer {
                Timer::Tick(_) => self.rust.tick(bench, here),
                Timer::BandwidthPeriod(group) => self.rust.period_timer(bench, here, group),
                Timer::BandwidthSlack(group) => self.rust.slack_timer(bench, here, group),
                Timer::RtPeriod => self.rust.rt_period_timer(bench, here),
                Timer::FairServer(cpu) => self.rust.fair_server_timer(bench, here, cpu),
                Timer::FairServerInactive(cpu) => {
                    self.rust.fair_server_inactive_timer(bench, here, cpu);
                }
                Timer::Deadline(task) => self.rust.dl_timer(bench, here, task),
                Timer::Inactive(task) => self.rust.dl_inactive_timer(bench, here, task),
                Timer::Hrtick(cpu) => self.rust.hrtick_timer(bench, cpu),
            }
        }
        self.bench.program(here);
        if self.tree.timer(cpu) <= self.bench.now {
            self.tree.timer_fired(cpu);
            self.tree(cpu, Call::Timer, &[])?;
        }
        if rust {
            self.settle(cpu)
        } else {
            self.settle_tree()
        }
    }

    /// A task that exists and has not ended.
    pub(super) fn living(&self, task: usize) -> Option<(TaskId, i32)> {
        let pair = *self.tasks.get(task)?;
        (self.rust.tasks[pair.0.index()].state != TaskState::Dead).then_some(pair)
    }

    fn sleeping(&self, task: usize) -> Option<(TaskId, i32)> {
        self.living(task)
            .filter(|(task, _)| self.rust.tasks[task.index()].state == TaskState::Blocked)
    }

    pub(super) fn mask(&self, bits: u64) -> (CpuSet, u64) {
        let cpus = self.rust.cpus();
        let all = if cpus == 64 {
            u64::MAX
        } else {
            (1 << cpus) - 1
        };
        let bits = if bits & all == 0 { all } else { bits & all };
        (
            (0..cpus)
                .filter(|cpu| bits >> cpu & 1 == 1)
                .map(Cpu::from)
                .collect(),
            bits,
        )
    }

    /// Does an action on both sides, with the result of the tree's last call; `None` when it does
    /// not apply.
    fn act(&mut self, cpu: usize, action: Action) -> Option<Result<i64, WorldError>> {
        let here = Cpu::from(cpu);
        let bench = &mut self.bench;
        let result = match action {
            Action::Rest => Ok(0),
            Action::Steal(ns) => {
                self.rust.steal(here, ns);
                self.tree.steal(cpu, ns);
                Ok(0)
            }
            Action::Fork(group, class, slice_ns, bits) => {
                return self.fork(cpu, group, class, slice_ns, bits);
            }
            Action::Wake(task, sync) => {
                let (rust, tree) = self.sleeping(task).filter(|_| !self.idles(cpu))?;
                self.wake(here, rust, sync, Context::Task);
                self.tree(cpu, Call::Wake, &[tree.into(), sync.into()])
            }
            Action::IrqWake(task) => {
                let (rust, tree) = self.sleeping(task)?;
                self.interrupt_wakes(here, rust);
                self.tree(cpu, Call::IrqWake, &[tree.into()])
            }
            Action::LongIrq(task, ns) => {
                let pair = self.sleeping(task)?;
                self.long_interrupt(cpu, pair, ns)
            }
            Action::Block | Action::Yield | Action::Exit | Action::Exec | Action::ReadTime
                if self.rust.is_idle_task(self.rust.current(here)) =>
            {
                return None;
            }
            Action::Block => {
                self.rust.block(bench, here);
                self.tree(cpu, Call::Block, &[])
            }
            Action::Yield => {
                self.rust.yield_current(bench, here);
                self.tree(cpu, Call::Yield, &[])
            }
            Action::Exit => {
                self.rust.exit(bench, here);
                self.tree(cpu, Call::Exit, &[])
            }
            Action::Exec => {
                self.rust.exec(bench, here);
                self.tree(cpu, Call::Exec, &[])
            }
            Action::ReadTime => {
                let rust = self.rust.task_sched_runtime(bench, here);
                let tree = self.tree(cpu, Call::CpuTime, &[]);
                tree.inspect(|&tree| self.read = (rust, tree as u64))
            }
            Action::Slice(task, _)
            | Action::Nice(task, _)
            | Action::Policy(task, _)
            | Action::Deadline(task, _)
            | Action::Clamps(task, _)
            | Action::Affinity(task, _)
            | Action::Move(task, _) => {
                let pair = self.living(task)?;
                return self.change(cpu, pair, action);
            }
            Action::Group(_)
            | Action::Release(_)
            | Action::Free(_)
            | Action::Cpuset(..)
            | Action::GroupClamps(..)
            | Action::Shares(..)
            | Action::Idle(..)
            | Action::Limit(..) => return self.act_on_group(cpu, action),
        };
        Some(result)
    }

    /// Changes a task that has not ended.
    fn change(
        &mut self,
        cpu: usize,
        (rust, tree): (TaskId, i32),
        action: Action,
    ) -> Option<Result<i64, WorldError>> {
        let here = Cpu::from(cpu);
        let bench = &mut self.bench;
        let task = &self.rust.tasks[rust.index()];
        Some(match action {
            Action::Slice(_, slice_ns) => {
                if !self.rust.rules.custom_slices || !task.policy.is_fair() {
                    return None;
                }
                let (policy, nice) = (policy_number(task.policy), task.nice);
                self.rust
                    .set_custom_slice(bench, here, rust, Some(slice_ns));
                let [task, policy, nice] = [tree, policy, nice].map(i64::from);
                self.tree(cpu, Call::Policy, &[task, policy, nice, 0, slice_ns as i64])
            }
            Action::Nice(_, nice) => {
                self.rust.set_nice(bench, here, rust, nice);
                self.tree(cpu, Call::Nice, &[tree.into(), nice.into()])
            }
            Action::Policy(_, class) => {
                let to = policy_of(class.policy);
                // With SCHED_IDLE a task keeps its nice value.
                let nice = match to {
                    Policy::Idle => task.nice,
                    _ => class.nice,
                };
                self.rust
                    .set_policy(bench, here, rust, to, nice, class.priority as u8);
                let arguments = [tree, class.policy, nice, class.priority, 0].map(i64::from);
                self.tree(cpu, Call::Policy, &arguments)
            }
            Action::Deadline(_, asked) => {
                let set = self.rust.set_deadline_nocheck(bench, here, rust, asked);
                let times = [asked.runtime_ns, asked.deadline_ns, asked.period_ns];
                let [runtime, deadline, period] = times.map(|ns| ns as i64);
                let (task, reclaims) = (tree.into(), asked.reclaims.into());
                let arguments = [task, 6, 0, 0, runtime, deadline, period, reclaims];
                let result = self.tree(cpu, Call::Policy, &arguments);
                self.both_refuse(set.is_err(), result)
            }
            Action::Clamps(_, wish) => {
                if task.policy == Policy::Deadline {
                    return None;
                }
                let set = self.rust.set_clamps(bench, here, rust, wish);
                let Clamps { min, max } = wish.map(clamp_number);
                let result = self.tree(cpu, Call::Clamps, &[tree.into(), min, max]);
                self.both_refuse(set.is_err(), result)
            }
            Action::Affinity(number, bits) => {
                let group = self.number_of(task.group)?;
                let (_, wish) = self.mask(bits);
                // No CPU of its cpuset is refused before the scheduler is asked.
                let left = Some(wish & self.effective_cpus(group)).filter(|&left| left > 0)?;
                self.wishes[number] = wish;
                let (set, bits) = self.mask(left);
                self.rust.set_affinity(&mut self.bench, here, rust, set);
                self.tree(cpu, Call::Affinity, &[tree.into(), bits as i64])
            }
            Action::Move(number, to) => {
                let group = self.group(to)?;
                // Control groups do not ask the scheduler to move a task to where it is.
                if task.group == group.0 {
                    return None;
                }
                if let Err(error) = self.attach_to_cpuset(cpu, number, to) {
                    return Some(Err(error));
                }
                self.rust.set_group(&mut self.bench, here, rust, group.0);
                self.tree(cpu, Call::Move, &[tree.into(), group.1.into()])
            }
            _ => return None,
        })
    }

    /// Notes whether the tree refused what the rules refused, by the result of its call.
    pub(super) fn both_refuse(
        &mut self,
        refused: bool,
        result: Result<i64, WorldError>,
    ) -> Result<i64, WorldError> {
        result.inspect(|&result| self.refusals_differ = refused != (result != 0))
    }

    fn fork(
        &mut self,
        cpu: usize,
        group: usize,
        class: Class,
        slice_ns: u64,
        bits: u64,
    ) -> Option<Result<i64, WorldError>> {
        let (here, left) = (Cpu::from(cpu), self.effective_cpus(group));
        let group = self.group(group)?;
        let (_, wish) = self.mask(bits);
        let (affinity, bits) = self.mask(if wish & left == 0 { left } else { wish & left });
        let mut dice = SplitMix(self.tasks.len() as u64);
        let process = (dice.next() % u64::from(self.processes)) as u32;
        let is_kthread = dice.next().is_multiple_of(8);
        let rust = self.rust.task_create(TaskAttributes {
            policy: policy_of(class.policy),
            nice: class.nice,
            rt_priority: class.priority as u8,
            affinity,
            group: group.0,
            address_space: (!is_kthread).then_some(process),
            custom_slice_ns: (slice_ns > 0).then_some(slice_ns),
            cpu: here,
        });
        let tree = self.tree.task_new(&NewTask {
            group: group.1,
            kthread: i32::from(is_kthread),
            policy: class.policy,
            nice: class.nice,
            priority: class.priority,
            slice_ns,
            cpus: bits,
            cpu: cpu as i32,
            now: self.bench.now,
            parent: -1,
            asleep: 0,
            process,
            util_min: -1,
            util_max: -1,
            name: comm("drawn"),
        });
        self.tasks.push((rust, tree));
        self.wishes.push(wish);
        self.rust.wake_up_new_task(&mut self.bench, here, rust);
        Some(self.tree(cpu, Call::Start, &[tree.into()]))
    }
}
