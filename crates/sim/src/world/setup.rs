//! Building a world: groups, limits, tasks to come.

use super::hardware::{HardwareSlots, price_scale};
use super::interrupts::Callers;
use super::outside::{CpuState, CpuTime, Outside, Shared, Source, SourceState, class, per_cpu};
use super::platform::{ARRIVALS, NEWIDLE, TIMER_LATENESS, TIMER_OFFSET};
use super::script::Script;
use super::tasks::{Context, NO_TASK, Name, Resume, Tasks};
use super::{Core, World};
use crate::hardware::lateness::Lateness;
use crate::hardware::lines::LineTable;
use crate::hardware::{Baseline, Hardware};
use crate::machine::Machine;
use crate::probe::{NOBODY, Probes};
use crate::program::{Instruction, Program};
use crate::random;
use crate::segment::SPEED_NOMINAL;
use crate::timers::Timers;
use crate::wheel::{Key, Wheel};
use crate::workload::{
    ArrivalSource, ArrivalSpec, ForkSpec, GroupSetting, GroupSpec, TaskSpec, Workload,
};
use crate::workload_check::WorkloadError;
use schedcast_kernel::group::BandwidthLimit;
use schedcast_kernel::rules::Rules;
use schedcast_kernel::task::TaskAttributes;
use schedcast_kernel::{Cpu, GroupId, Kernel, Ns, TaskId};
use std::collections::BTreeMap;
use std::sync::Arc;

impl World {
    /// A machine at time 0 under these rules, with a workload that is about to start. All random
    /// draws follow from `seed`.
    ///
    /// # Errors
    /// A workload that refers to what does not exist, or a limit the kernel refuses.
    pub fn new(
        machine: Machine,
        rules: Rules,
        workload: impl Into<Arc<Workload>>,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        let kernel = Kernel::new(machine.topology.clone(), rules);
        Self::build(machine, kernel, workload.into(), seed)
    }
}

impl<K: Core> World<false, K> {
    /// The same with what decides already there, at time 0 on a machine of this topology.
    ///
    /// # Errors
    /// Those of [`World::new`].
    pub fn of_core(
        machine: Machine,
        kernel: K,
        workload: impl Into<Arc<Workload>>,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        Self::build(machine, kernel, workload.into(), seed)
    }
}

impl<const EXPLAIN: bool, K: Core> World<EXPLAIN, K> {
    pub(super) fn build(
        machine: Machine,
        mut kernel: K,
        workload: Arc<Workload>,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        workload.check(machine.topology.cpus())?;
        kernel.set_wakeup_mark(machine.wakeup_mark_ns);
        if let Some(history) = machine.history {
            kernel.set_newidle_ratio(history.newidle_ratio);
        }
        let tables = kernel.tables_mut();
        tables.has_been_idle();
        let mut started = workload.tasks.iter().map(|task| task.custom_slice_ns);
        let mut changed = workload.attributes.iter().map(|one| one.custom_slice_ns);
        if started.any(|slice| slice.is_some()) || changed.any(|slice| slice.is_some()) {
            tables.expect_custom_slices();
        }
        let out = Outside::new(machine, workload, seed);
        let mut world = Self { kernel, out };
        world.adopt_idle_tasks();
        world.create_groups()?;
        world.attach_hardware();
        world.adopt_sleepers();
        // The lines touched by the setup belong to the time before the run.
        world.out.lines = LineTable::new(&world.out.machine);
        world.kernel.begin(&mut world.out);
        world.arm_sources();
        Ok(world)
    }

    fn adopt_idle_tasks(&mut self) {
        self.grow(self.kernel.tables().tasks.len());
        for cpu in (0..self.out.cpus.len()).map(Cpu::from) {
            let idle = self.kernel.tables().current(cpu);
            self.out.probes.start_task(idle, NOBODY, GroupId::ROOT);
        }
    }

    fn create_groups(&mut self) -> Result<(), WorkloadError> {
        let shared = Arc::clone(&self.out.shared);
        for (row, spec) in shared.workload.groups.iter().enumerate() {
            let group = self.kernel.group_create(&mut self.out, spec.parent);
            debug_assert_eq!(group.index(), row + 1);
            if let Some(phase_ns) = spec.period_phase_ns {
                self.kernel.set_period_phase(group, phase_ns);
            }
            self.configure_group(group, spec)?;
        }
        // The costs of the setup belong to the time before the run.
        for cpu in &mut self.out.cpus {
            cpu.cursor = 0;
            cpu.time = CpuTime::default();
        }
        self.out.probes.reset(0);
        Ok(())
    }

    /// Puts the machine's own threads to sleep where their first message finds them.
    fn adopt_sleepers(&mut self) {
        let shared = Arc::clone(&self.out.shared);
        for (row, spec) in (0u32..).zip(&shared.workload.tasks) {
            let Some(queue) = spec.asleep_in else {
                continue;
            };
            let (affinity, cpu) = self.begins_on(spec);
            let task = self.create_from_spec(spec, row, affinity, cpu);
            self.kernel.adopt_sleeper(cpu, task);
            let tasks = &mut self.out.tasks;
            tasks.contexts[task].resume = Resume::Retry;
            let readers = tasks.reader_queue(queue.0 as usize);
            tasks.waiting.push(readers, task);
        }
    }

    fn configure_group(&mut self, group: GroupId, spec: &GroupSpec) -> Result<(), WorkloadError> {
        let mut settings = Vec::new();
        if spec.limit != BandwidthLimit::UNLIMITED {
            // A burst has a file of its own and is written after the quota. Each write refills the
            // group, so that one with a burst begins with both: quota 15 ms, burst 15 ms, 30 ms for
            // its first period.
            if spec.limit.burst_ns > 0 {
                settings.push(GroupSetting::Limit(BandwidthLimit {
                    burst_ns: 0,
                    ..spec.limit
                }));
            }
            settings.push(GroupSetting::Limit(spec.limit));
        }
        if spec.shares != 1024 {
            settings.push(GroupSetting::Shares(spec.shares));
        }
        if spec.idle {
            settings.push(GroupSetting::Idle(true));
        }
        settings.extend(spec.clamps.map(GroupSetting::Clamps));
        for setting in settings {
            self.set_group(Cpu(0), group, setting)
                .map_err(|error| WorkloadError {
                    place: format!("group {}", spec.path),
                    problem: error.to_string(),
                })?;
        }
        Ok(())
    }

    fn arm_sources(&mut self) {
        let shared = Arc::clone(&self.out.shared);
        let starts = self.out.add_source(Source::Starts);
        if let Some(&row) = shared.starts.first() {
            let at_ns = shared.workload.tasks[row as usize].start_ns;
            self.out.wheel.arm(starts, Key::new(at_ns, class::START));
        }
        let changes = self.out.add_source(Source::Changes);
        if let Some(change) = shared.workload.changes.first() {
            self.out
                .wheel
                .arm(changes, Key::new(change.at_ns, class::CHANGE));
        }
        for row in 0..shared.workload.arrivals.len() {
            let slot = self.out.add_source(Source::Arrivals(row as u32));
            if let Some(arrival) = self.next_arrival(row) {
                self.out
                    .wheel
                    .arm(slot, Key::new(arrival.at_ns, class::ARRIVAL));
            }
        }
        for cpu in (0..self.out.cpus.len()).map(Cpu::from) {
            let slot = self.out.add_source(Source::Callers(cpu));
            self.out.callers.push(Callers::new(slot));
        }
        self.out.begin_patience();
    }

    /// Makes rows `0..count` of all task tables usable.
    fn grow(&mut self, count: usize) {
        let out = &mut self.out;
        if count > out.tasks.contexts.len() {
            out.tasks.grow(count);
            let timer = out.task_timer(TaskId::from(count));
            out.timers.grow(timer.0 as usize);
        }
    }

    /// Creates a task that has not started yet. Registers, slack and parent are left to the caller.
    pub(super) fn create_task(
        &mut self,
        attributes: TaskAttributes,
        program: u32,
        name: Name,
        statistics: &str,
        entity: u64,
    ) -> TaskId {
        let group = attributes.group;
        let of_user_space = attributes.address_space.is_some();
        let task = self.kernel.task_create(attributes);
        self.grow(task.index() + 1);
        let out = &mut self.out;
        let entry = out.shared.entries[program as usize];
        let old = &mut out.tasks.contexts[task];
        *old = Context {
            pc: entry,
            program,
            generation: old.generation,
            parent: NO_TASK,
            name,
            joiners: old.joiners,
            io: old.io,
            ..Context::default()
        };
        self.kernel.name_task(task, name.of(&out.shared.workload));
        out.tasks.live += usize::from(of_user_space && !out.is_of_machine(name));
        let row = out.probes.row_of(statistics);
        out.probes.start_task(task, row, group);
        out.tasks.entities[task.index()] = (entity, 0);
        out.tasks.seed_streams(task, out.seed, entity);
        let started = crate::events::TraceKind::Start { task };
        out.probes.show(out.now, out.executing, started);
        task
    }
}

impl<const EXPLAIN: bool> Outside<EXPLAIN> {
    fn new(machine: Machine, workload: Arc<Workload>, seed: u64) -> Self {
        let cpus = machine.topology.cpus();
        let parents: Vec<Option<GroupId>> = std::iter::once(None)
            .chain(workload.groups.iter().map(|group| Some(group.parent)))
            .collect();
        let states = (0..cpus).map(|row| {
            let speed = machine.speed(row) * (SPEED_NOMINAL / 1024);
            CpuState {
                tick_at: Ns::MAX,
                stale_at: Ns::MAX,
                timer_offset_ns: timer_offset_ns(&machine, seed, row),
                warm_speed: speed,
                speed,
                price_scale: price_scale(speed),
                idle: true,
                ..CpuState::default()
            }
        });
        let is_awaited =
            |spec: &&TaskSpec| spec.address_space.is_some() && spec.asleep_in.is_none();
        let to_start = workload.tasks.iter().filter(is_awaited).count();
        let mut timers = Timers::new(cpus);
        timers.grow(2 * parents.len());
        let reserves = workload.attributes.iter().any(|set| set.deadline.is_some());
        let timer_shift = if reserves { 2 } else { 0 };
        let streams = |purpose| (0..cpus as u64).map(move |cpu| random::stream(seed, cpu, purpose));
        Self {
            now: 0,
            limit: 0,
            to_start,
            ends_with_programs: false,
            end_ns: Ns::MAX,
            executing: Cpu(0),
            cpus: states.collect(),
            hardware: Hardware::new(&machine),
            lines: None,
            scripts: vec![Script::default(); cpus].into(),
            hardware_slots: HardwareSlots::default(),
            hardware_baseline: Baseline::default(),
            load_avg_writes_before: Vec::new(),
            wheel: Wheel::new(cpus * per_cpu::COUNT as usize),
            sources: Vec::new(),
            timers,
            timer_shift,
            tasks: Tasks::new(&workload),
            probes: Probes::new(cpus, &parents, &workload.metrics),
            newidle_dice: streams(NEWIDLE).collect(),
            timer_lateness: streams(TIMER_LATENESS).map(Lateness::new).collect(),
            devices: super::devices::Devices::new(&workload.devices),
            patience: super::patience::Patience::default(),
            arrivals: (0..workload.arrivals.len())
                .map(|row| source_state(&workload, row, seed))
                .collect(),
            machine,
            shared: Arc::new(Shared::new(workload)),
            seed,
            callers: Vec::new(),
            next_start: 0,
            next_change: 0,
            steps: 0,
            steps_at: 0,
            decisions: Vec::new(),
        }
    }
}

/// How long after its time the timer of a CPU interrupts, the same in all of a run.
fn timer_offset_ns(machine: &Machine, seed: u64, cpu: usize) -> Ns {
    let mut stream = random::stream(seed, cpu as u64, TIMER_OFFSET);
    random::draw(&mut stream) % (machine.timer_offset_ns + 1)
}

fn source_state(workload: &Workload, row: usize, seed: u64) -> SourceState {
    let ArrivalSpec { name, source } = &workload.arrivals[row];
    let before = &workload.arrivals[..row];
    let ordinal = 1 + before.iter().filter(|other| other.name == *name).count() as u64;
    let mut state = SourceState {
        next: 0,
        at_ns: match source {
            ArrivalSource::List(_) | ArrivalSource::Rounds { .. } => 0,
            ArrivalSource::Stream { first, .. } => first.at_ns,
        },
        stream: random::stream(seed, random::entity(name, ordinal), ARRIVALS),
    };
    if let ArrivalSource::Rounds { arrivals, round_ns } = source {
        let entered_ns = random::draw(&mut state.stream) % round_ns;
        state.at_ns = entered_ns.wrapping_neg();
        state.next = arrivals.partition_point(|arrival| arrival.at_ns < entered_ns);
        state.begin_round(arrivals.len(), *round_ns);
    }
    state
}

impl Shared {
    fn new(workload: Arc<Workload>) -> Self {
        let programs = workload.programs.iter();
        let length = |program: &Program| program.instructions().len() + 1;
        let mut code = Vec::with_capacity(programs.clone().map(length).sum());
        let mut entries = Vec::with_capacity(programs.len());
        let mut tables = Vec::with_capacity(programs.map(|program| program.tables().len()).sum());
        for program in &workload.programs {
            let entry = code.len() as u32;
            entries.push(entry);
            let first_table = tables.len() as u32;
            let relocated = program
                .instructions()
                .iter()
                .map(|&instruction| relocate(instruction, entry, first_table));
            code.extend(relocated);
            code.push(Instruction::Exit);
            tables.extend(
                program
                    .tables()
                    .iter()
                    .map(|table| table.iter().map(|place| entry + place).collect()),
            );
        }
        let to_start = |row: &u32| workload.tasks[*row as usize].asleep_in.is_none();
        let rows = 0..workload.tasks.len() as u32;
        let mut starts: Vec<u32> = rows.filter(to_start).collect();
        starts.sort_by_key(|&row| workload.tasks[row as usize].start_ns);
        let fork_hash = |fork: &ForkSpec| random::name_hash(&fork.name);
        Self {
            task_entities: task_entities(&workload.tasks),
            fork_hashes: workload.forks.iter().map(fork_hash).collect(),
            workload,
            code,
            entries,
            tables,
            starts,
        }
    }
}

/// To which entity the draws of each task belong: to its name and the name of its statistics, and
/// to its place among the tasks that have both. A task that is added to a workload, or that starts
/// earlier, moves no other task's draws.
///
/// Worked example: programs `a` and `b` have two threads called `sender` each. These are (`sender`,
/// `a`) 1 and 2 and (`sender`, `b`) 1 and 2, whichever of them starts first.
fn task_entities(tasks: &[TaskSpec]) -> Vec<u64> {
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut entities = Vec::with_capacity(tasks.len());
    for task in tasks {
        let statistics = task.statistics.as_deref().unwrap_or(&task.name);
        let ordinal = counts.entry((&task.name, statistics)).or_insert(0);
        *ordinal += 1;
        let entity = random::entity(&task.name, *ordinal);
        entities.push(match statistics == task.name {
            true => entity,
            false => random::mix(entity ^ random::name_hash(statistics)),
        });
    }
    entities
}

/// An instruction with its jumps moved from the program's beginning to `entry`.
fn relocate(mut instruction: Instruction, entry: u32, first_table: u32) -> Instruction {
    match &mut instruction {
        Instruction::Jump(target)
        | Instruction::JumpIf { target, .. }
        | Instruction::Loop { target, .. }
        | Instruction::TryRecv { empty: target, .. } => *target += entry,
        Instruction::JumpIndexed { table, .. } => *table += first_table,
        _ => {}
    }
    instruction
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Arrival, ArrivalAction, ArrivalContext, ProgramId, SemaphoreId};

    fn stream(workload: &mut Workload, name: &str) {
        let interval = workload.add_distribution(crate::Distribution::Exponential { mean: 1000 });
        let first = Arrival {
            at_ns: 0,
            cpu: Cpu(0),
            context: ArrivalContext::HardIrq,
            sync: false,
            action: ArrivalAction::SemPost(SemaphoreId(0)),
        };
        workload.add_arrivals(name, ArrivalSource::Stream { first, interval });
    }

    #[test]
    fn another_source_moves_no_draws() {
        let draws = |names: &[&str], row| {
            let mut workload = Workload::default();
            names.iter().for_each(|name| stream(&mut workload, name));
            let mut state = source_state(&workload, row, 7);
            [(); 3].map(|()| random::draw(&mut state.stream))
        };
        let alone = draws(&["web"], 0);
        assert_eq!(draws(&["db", "web"], 1), alone);
        assert_eq!(draws(&["web", "web"], 0), alone);
        assert_ne!(draws(&["web", "web"], 1), alone, "the second of its name");
        assert_ne!(draws(&["db", "web"], 0), alone);
    }

    #[test]
    fn another_task_moves_no_draws() {
        let task = |(name, statistics): (&str, &str)| TaskSpec {
            statistics: Some(statistics.to_owned()),
            ..TaskSpec::new(name, ProgramId(0))
        };
        let entities = |names: &[(&str, &str)]| {
            let tasks: Vec<TaskSpec> = names.iter().copied().map(task).collect();
            task_entities(&tasks)
        };
        let alone = entities(&[("sender", "a"), ("sender", "a")]);
        assert_ne!(alone[0], alone[1]);
        let both = entities(&[
            ("sender", "b"),
            ("sender", "a"),
            ("sender", "b"),
            ("sender", "a"),
        ]);
        assert_eq!([both[1], both[3]], alone[..]);
    }
}
