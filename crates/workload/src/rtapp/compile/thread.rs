//! One program: the life of a thread, phase by phase.

use schedcast_kernel::cpuset::CpuSet;
use schedcast_sim::program::{Arithmetic, Compare, Label, Program, ProgramBuilder, Reg};
use schedcast_sim::workload::AttributesSpec;

use super::super::ast::{Action, Phase, Repeat, Task, TimerUse};
use super::super::attributes::Attributes;
use super::super::error::{Fault, quoted};
use super::super::log;
use super::{Compiler, kernel_policy, nice, rt_priority, too_large};
use crate::registers::registers;

registers! { 0 => pub(super),
    /// When the thread's timers count from.
    FIRST
    /// Number of the thread; first of the registers of a log row.
    INDEX PERF RUN START END SLACK CONFIGURED_DURATION CONFIGURED_PERIOD WAKEUP_LATENCY
    /// Last reading of the clock.
    NOW
    /// Beginning of the event, where that matters.
    BEGIN SCRATCH
    /// Next point of the shared timer in use.
    SHARED_TIMER PHASE_ROUNDS TASK_ROUNDS
    /// Which attributes, CPUs and group were set last, so that they are set only where they change.
    ATTRIBUTES CPUS GROUP
    /// All bits set, to subtract below zero: slack may be negative.
    MINUS_ONE CHILD
    /// Number handed to a child; it finds it in its copy of the registers.
    CHILD_INDEX
}
/// Timers of the thread's own, one register each.
const UNIQUE_TIMERS: u8 = 22;
const UNIQUE_TIMERS_MAX: usize = schedcast_sim::program::REGISTERS_MAX - UNIQUE_TIMERS as usize;

/// How a thread comes into being.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// At the beginning, together with others.
    First,
    /// By a `fork` event.
    Forked,
}

/// A program in the making.
pub(super) struct Body<'a> {
    pub builder: ProgramBuilder,
    pub task: &'a Task,
    /// Names of the thread's own timers, in the order of their registers.
    pub unique_timers: Vec<&'a str>,
    /// CPUs the thread was born with.
    pub inherited: CpuSet,
    /// CPUs it may use in the phase being compiled.
    pub cpus: CpuSet,
    /// Sets of CPUs of this program; register `CPUS` holds one's position plus one.
    cpu_sets: Vec<CpuSet>,
    /// Where the thread ends.
    end: Label,
    /// Locks that it holds at the event being compiled.
    locks: usize,
}

impl<'a> Compiler<'a> {
    pub(super) fn program(
        &mut self,
        task: usize,
        role: Role,
        inherited: CpuSet,
    ) -> Result<Program, Fault> {
        let task = &self.file.tasks[task];
        let mut builder = ProgramBuilder::new(task.name.clone());
        let mut body = Body {
            end: builder.label(),
            locks: 0,
            builder,
            task,
            unique_timers: unique_timers(task)?,
            inherited,
            cpus: inherited,
            cpu_sets: Vec::new(),
        };
        self.prologue(&mut body, role)?;
        let top = repeat_begin(&mut body.builder, task.repeat, TASK_ROUNDS, body.end);
        let changes = task.attributes(self.file.global.default_policy).phases;
        for (number, (phase, change)) in task.phases().iter().zip(changes).enumerate() {
            self.phase_begin(&mut body, number, phase, change)?;
            self.phase(&mut body, phase)?;
        }
        repeat_end(&mut body.builder, task.repeat, TASK_ROUNDS, top);
        body.builder.bind(body.end);
        body.builder.exit();
        body.builder
            .finish()
            .map_err(|error| too_large(task, error))
    }

    /// Up to the first phase. The first threads wait for one another before they look at the
    /// common clock; a forked one does not.
    fn prologue(&mut self, body: &mut Body<'a>, role: Role) -> Result<(), Fault> {
        let builder = &mut body.builder;
        // (2³² − 1)(2³² + 1) = 2⁶⁴ − 1
        builder.set(MINUS_ONE, u64::from(u32::MAX));
        builder.arithmetic(Arithmetic::Multiply, MINUS_ONE, (1 << 32) + 1);
        let start = body.task.attributes(self.file.global.default_policy).start;
        if role == Role::First && start.reservation().is_some() {
            self.set_attributes(body, &start);
        }
        let builder = &mut body.builder;
        match role {
            Role::First => {
                let others = builder.label();
                builder.jump_if(INDEX, Compare::NotEqual, 0, others);
                builder.now(NOW);
                builder.word_store(self.zero, NOW);
                builder.bind(others);
                if let Some(start) = self.start {
                    builder.barrier(start);
                }
            }
            Role::Forked => {
                builder.set(INDEX, CHILD_INDEX);
                for register in [ATTRIBUTES, GROUP] {
                    builder.set(register, 0);
                }
            }
        }
        builder.word_load(self.zero, FIRST);
        if body.task.delay_us > 0 {
            builder.add(FIRST, u64::from(body.task.delay_us) * 1000);
            builder.sleep_until(FIRST);
        }
        for position in 0..body.unique_timers.len() {
            builder.set(unique_timer_register(position), FIRST);
        }
        self.birth(body, role)
    }

    /// Registers say what holds at birth; a forked thread first sets what its task says.
    fn birth(&mut self, body: &mut Body<'a>, role: Role) -> Result<(), Fault> {
        let task = body.task;
        let group = self.group_in_force(&task.scheduling);
        let first_phase = task.phases().first().map(|phase| &phase.scheduling);
        let born_with = match role {
            Role::First => self.cpus_in_force(task, first_phase, body.inherited)?,
            Role::Forked => body.inherited,
        };
        let born_with = body.cpu_set_number(born_with);
        body.builder.set(CPUS, born_with);
        if role == Role::Forked {
            let start = task.attributes(self.file.global.default_policy).start;
            self.set_attributes(body, &start);
            if group.is_some() {
                let change = AttributesSpec {
                    group,
                    ..AttributesSpec::default()
                };
                let change = self.workload.add_attributes(change);
                body.builder.set_attributes(change);
            }
        }
        if let Some(group) = group {
            body.builder.set(GROUP, u64::from(group.0) + 1);
        }
        Ok(())
    }

    fn set_attributes(&mut self, body: &mut Body<'a>, attributes: &Attributes) {
        let clamps = attributes.clamps;
        let change = match attributes.only_clamps {
            true => AttributesSpec {
                clamps,
                ..AttributesSpec::default()
            },
            false => AttributesSpec {
                policy: Some((kernel_policy(attributes), rt_priority(attributes))),
                deadline: attributes.reservation(),
                nice: nice(attributes),
                clamps,
                ..AttributesSpec::default()
            },
        };
        let change = self.workload.add_attributes(change);
        body.builder.set_attributes(change);
    }

    /// Emits the changes of a phase, in rt-app's order.
    fn phase_begin(
        &mut self,
        body: &mut Body<'a>,
        number: usize,
        phase: &'a Phase,
        change: Option<Attributes>,
    ) -> Result<(), Fault> {
        body.cpus = self.cpus_in_force(body.task, Some(&phase.scheduling), body.inherited)?;
        let affinity = AttributesSpec {
            affinity: Some(body.cpus),
            ..AttributesSpec::default()
        };
        let cpu_set = body.cpu_set_number(body.cpus);
        let skip = unless_already(&mut body.builder, CPUS, cpu_set);
        let affinity = self.workload.add_attributes(affinity);
        body.builder.set_attributes(affinity);
        body.builder.bind(skip);
        if let Some(attributes) = change {
            let skip = unless_already(&mut body.builder, ATTRIBUTES, number as u64 + 1);
            self.set_attributes(body, &attributes);
            body.builder.bind(skip);
        }
        if let Some(group) = self.group_in_force(&phase.scheduling) {
            let change = AttributesSpec {
                group: Some(group),
                ..AttributesSpec::default()
            };
            let change = self.workload.add_attributes(change);
            let skip = unless_already(&mut body.builder, GROUP, u64::from(group.0) + 1);
            body.builder.set_attributes(change);
            body.builder.bind(skip);
        }
        Ok(())
    }

    fn phase(&mut self, body: &mut Body<'a>, phase: &'a Phase) -> Result<(), Fault> {
        let after = body.builder.label();
        let top = repeat_begin(&mut body.builder, phase.repeat, PHASE_ROUNDS, after);
        for register in [PERF, RUN, SLACK, WAKEUP_LATENCY] {
            body.builder.set(register, 0);
        }
        body.builder.now(START);
        if phase.events.is_empty() {
            self.end_if_over(body);
        }
        for event in &phase.events {
            self.end_if_over(body);
            self.event(body, event)?;
            match event.action {
                Action::Lock(_) => body.locks += 1,
                Action::Unlock(_) => body.locks = body.locks.saturating_sub(1),
                _ => {}
            }
        }
        body.builder.now(END);
        self.end_of_round(body, phase);
        repeat_end(&mut body.builder, phase.repeat, PHASE_ROUNDS, top);
        body.builder.bind(after);
        Ok(())
    }

    /// Ends the thread if the `duration` of its file is over. rt-app looks between events, and only
    /// while the thread holds no lock.
    fn end_if_over(&self, body: &mut Body<'a>) {
        if let (Some(end_ns), 0) = (self.end_ns, body.locks) {
            body.builder.now(NOW);
            let end = body.end;
            body.builder
                .jump_if(NOW, Compare::GreaterOrEqual, end_ns, end);
        }
    }

    /// Hands on the log row. The price of the round is what keeps a phase of events that take no
    /// time from going round forever at one instant.
    fn end_of_round(&mut self, body: &mut Body<'a>, phase: &Phase) {
        let configured = log::Configured::of(phase);
        let prices = &self.options.prices;
        let mut round_ns = prices.round_ns.max(1);
        if self.file.global.is_logged {
            body.builder
                .set(CONFIGURED_DURATION, configured.duration_us * 1000);
            body.builder
                .set(CONFIGURED_PERIOD, configured.period_us * 1000);
            body.builder
                .log(self.options.log_channel, INDEX, log::REGISTERS);
            round_ns += prices.log_row_ns;
        }
        body.builder.work(round_ns);
    }
}

impl Body<'_> {
    fn cpu_set_number(&mut self, cpus: CpuSet) -> u64 {
        let known = self.cpu_sets.iter().position(|known| *known == cpus);
        let position = known.unwrap_or_else(|| {
            self.cpu_sets.push(cpus);
            self.cpu_sets.len() - 1
        });
        position as u64 + 1
    }

    /// The register of one of the thread's own timers.
    pub(super) fn unique_timer(&self, timer: &TimerUse) -> Reg {
        let position = self
            .unique_timers
            .iter()
            .position(|name| *name == timer.timer);
        // Every unique timer of the task was collected before.
        unique_timer_register(position.unwrap_or_default())
    }
}

fn unique_timer_register(position: usize) -> Reg {
    Reg(UNIQUE_TIMERS + position as u8)
}

fn unique_timers(task: &Task) -> Result<Vec<&str>, Fault> {
    let mut names: Vec<&str> = Vec::new();
    for event in task.events() {
        let Action::Timer(timer) = &event.action else {
            continue;
        };
        if !timer.unique || names.contains(&timer.timer.as_str()) {
            continue;
        }
        if names.len() == UNIQUE_TIMERS_MAX {
            let message = format!(
                "timer {} is the thread's number {}; a task may have {UNIQUE_TIMERS_MAX} of its own",
                quoted(&timer.timer),
                names.len() + 1
            );
            return Err(Fault::new(event.span, message));
        }
        names.push(&timer.timer);
    }
    Ok(names)
}

/// Begins a loop; `none` is where to go when there is not even one round.
fn repeat_begin(builder: &mut ProgramBuilder, repeat: Repeat, rounds: Reg, none: Label) -> Label {
    match repeat {
        Repeat::Forever => {}
        Repeat::Times(0) => builder.jump(none),
        Repeat::Times(times) => builder.set(rounds, u64::from(times)),
    }
    builder.here()
}

fn repeat_end(builder: &mut ProgramBuilder, repeat: Repeat, rounds: Reg, top: Label) {
    match repeat {
        Repeat::Forever => builder.jump(top),
        Repeat::Times(1) => {}
        Repeat::Times(_) => builder.loop_back(rounds, top),
    }
}

/// Skips what comes next if the register says that it was done last; else notes that it was.
fn unless_already(builder: &mut ProgramBuilder, register: Reg, number: u64) -> Label {
    let skip = builder.label();
    builder.jump_if(register, Compare::Equal, number, skip);
    builder.set(register, number);
    skip
}
