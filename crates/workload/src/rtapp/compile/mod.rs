//! From an rt-app file to what the simulator runs.
//!
//! Each task becomes one program, shared by its instances, plus one for each way it is forked. The
//! programs follow rt-app's own thread function, step by step, because its habits show in the
//! results: a `barrier` is a mutex, a condition and a count, not a real barrier; a `suspend` takes
//! and gives back a mutex; a late relative timer starts over from now.
//!
//! ```text
//! thread   meet the other threads · sleep until start + delay
//!          task loop:  phase:  set affinity, policy, taskgroup where they change
//!                              phase loop:  clock · events · clock · one log row
//! ```
//!
//! # What a `run` costs
//!
//! rt-app divides the microseconds by the cost of one loop, as calibrated, and runs that many loops
//! without looking at the clock. With a file that says `"calibration": 100` and a CPU that needs
//! 12 ns a loop, `"run": 1000` is 10 000 loops and takes 120 µs, not 1000. [`Prices::loop_ps`] is
//! what one loop takes on the machine at nominal speed; leave it out for a file calibrated there.

mod events;
mod thread;

use std::collections::BTreeMap;

use schedcast_kernel::cpuset::{CpuSet, MAX_CPUS};
use schedcast_kernel::uclamp::Wish;
use schedcast_kernel::{Cpu, GroupId};
use schedcast_sim::Workload;
use schedcast_sim::workload::{
    BarrierId, ConditionId, ForkId, ForkSpec, GroupSpec, MutexId, ProgramId, SemaphoreId, TaskSpec,
    WordId,
};

use super::ast::{Calibration, File, Located, Scheduling, Task};
use super::attributes::Attributes;
use super::error::{Error, Fault, quoted};
use thread::Role;

/// Threads a Linux of default settings can hold (`kernel.pid_max`).
const THREADS_MAX: u64 = 32_768;

/// Bounds that `sched_setattr` puts on the slice of a fair task, in nanoseconds
/// (`__setparam_fair`, since 6.12).
const SLICE_NS: (u64, u64) = (100_000, 100_000_000);

/// Prices of the parts of an rt-app thread, at the nominal speed of the machine. The defaults were
/// measured with rt-app 1.0 on a virtual x86-64 CPU of 2023 and are good to ±30 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prices {
    /// One loop of `run`, in picoseconds. `None`: what the file says, or what calibration finds.
    pub loop_ps: Option<u64>,
    /// Result of calibration on a CPU of nominal speed, in whole nanoseconds, where the file asks
    /// for it (`"CPU0"`).
    pub calibrated_loop_ns: u32,
    /// Duration of a loop then, in thousandths of that, where `loop_ps` is left out.
    pub calibrated_loop_permille: u64,
    /// One byte of `mem` (`memset`), in picoseconds.
    pub memset_byte_ps: u64,
    /// One byte of a `memrun` that reads or writes, in picoseconds.
    pub memory_byte_ps: u64,
    /// One `write` of `iorun` to a device that takes everything at once, in nanoseconds.
    pub write_ns: u64,
    /// One round of a phase besides its events: two looks at the clock, the bookkeeping.
    pub round_ns: u64,
    /// One row of the log.
    pub log_row_ns: u64,
}

impl Default for Prices {
    fn default() -> Self {
        Self {
            loop_ps: None,
            calibrated_loop_ns: 12,
            calibrated_loop_permille: 1000,
            memset_byte_ps: 10,
            memory_byte_ps: 400,
            write_ns: 100,
            round_ns: 100,
            log_row_ns: 570,
        }
    }
}

/// Where and how a file is to run.
#[derive(Clone, Debug, Default)]
pub struct RtAppOptions {
    /// CPUs of the machine.
    pub cpus: usize,
    /// Speed of each, 1024 = nominal; empty = all nominal.
    pub capacities: Vec<u32>,
    /// CPUs the whole program may use; `None` = all.
    pub affinity: Option<CpuSet>,
    /// Group the program is started in.
    pub group: GroupId,
    /// Number of the process.
    pub address_space: u32,
    /// Time of its start, ns.
    pub start_ns: u64,
    /// Whether the kernel is built with utilisation clamps.
    pub has_clamps: bool,
    /// Costs.
    pub prices: Prices,
    /// Channel of the log rows.
    pub log_channel: u16,
}

impl RtAppOptions {
    /// A program on its own on a machine of `cpus` CPUs.
    pub fn new(cpus: usize) -> Self {
        Self {
            cpus,
            group: GroupId::ROOT,
            ..Self::default()
        }
    }
}

/// Result of compiling a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Threads that exist from the start, in the order of their numbers.
    pub threads: Vec<Thread>,
    /// When the file's threads end, if it says so; else when their work is done.
    pub end_ns: Option<u64>,
}

/// A thread that exists from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its name, `TASK-NUMBER`, also that of its log.
    pub name: String,
    /// Its task, as an index into [`File::tasks`].
    pub task: usize,
}

/// Adds what a file does to a workload.
///
/// # Errors
///
/// Features that cannot run ([`File::unsupported`]), CPUs the machine does not have, more threads
/// than Linux can hold; always with the place.
pub fn compile(
    file: &File,
    options: &RtAppOptions,
    workload: &mut Workload,
) -> Result<Compiled, Error> {
    compile_file(file, options, workload).map_err(|fault| fault.in_file(&file.name))
}

fn compile_file(
    file: &File,
    options: &RtAppOptions,
    workload: &mut Workload,
) -> Result<Compiled, Fault> {
    let refusals = file.unsupported(options.has_clamps);
    if let Some(first) = refusals.first() {
        let more = match refusals.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        let message = format!("{} cannot run: {}{more}", first.what, first.why);
        return Err(Fault::new(first.span, message));
    }
    let threads = threads(file)?;
    let end = |seconds| options.start_ns + u64::from(seconds) * 1_000_000_000;
    let end_ns = file.global.duration_s.map(end);
    let mut compiler = Compiler {
        file,
        options,
        end_ns,
        workload,
        mutexes: BTreeMap::new(),
        conditions: BTreeMap::new(),
        semaphores: BTreeMap::new(),
        barriers: BTreeMap::new(),
        timers: BTreeMap::new(),
        forks: BTreeMap::new(),
        fork_counts: BTreeMap::new(),
        pending: Vec::new(),
        zero: WordId(0),
        thread_count: WordId(0),
        start: None,
    };
    compiler.zero = compiler.workload.add_word(0);
    compiler.thread_count = compiler.workload.add_word(threads.len() as u64);
    if threads.len() > 1 {
        compiler.start = Some(compiler.workload.add_barrier(threads.len() as u32));
    }
    compiler.add_threads(&threads)?;
    compiler.add_forked_programs()?;
    Ok(Compiled { threads, end_ns })
}

/// rt-app numbers its threads in the order of the file, instance by instance.
fn threads(file: &File) -> Result<Vec<Thread>, Fault> {
    let count: u64 = file
        .tasks
        .iter()
        .map(|task| u64::from(task.instances))
        .sum();
    if count > THREADS_MAX {
        let message = format!("{count} threads; Linux holds {THREADS_MAX} unless told otherwise");
        return Err(Fault::new(file.tasks_span, message));
    }
    if count == 0 {
        return Err(Fault::new(
            file.tasks_span,
            "no task has an instance, so nothing would run",
        ));
    }
    let mut threads = Vec::new();
    for (position, task) in file.tasks.iter().enumerate() {
        for _ in 0..task.instances {
            let name = format!("{}-{}", task.name, threads.len());
            threads.push(Thread {
                name,
                task: position,
            });
        }
    }
    Ok(threads)
}

/// A barrier as rt-app makes it.
#[derive(Clone, Copy)]
struct BarrierParts {
    mutex: MutexId,
    condition: ConditionId,
    /// How many are still to come, without the last.
    missing: WordId,
}

/// The number under this key, made when it is asked for first.
fn once<K: Ord, N: Copy>(known: &mut BTreeMap<K, N>, key: K, add: impl FnOnce() -> N) -> N {
    *known.entry(key).or_insert_with(add)
}

struct Compiler<'a> {
    file: &'a File,
    options: &'a RtAppOptions,
    /// When its threads end, if the file says so.
    end_ns: Option<u64>,
    workload: &'a mut Workload,
    mutexes: BTreeMap<&'a str, MutexId>,
    conditions: BTreeMap<&'a str, ConditionId>,
    semaphores: BTreeMap<&'a str, SemaphoreId>,
    barriers: BTreeMap<&'a str, BarrierParts>,
    /// Next point of each shared timer; 0 until its first use.
    timers: BTreeMap<&'a str, WordId>,
    /// Programs of forked threads by task and by the CPUs they inherit.
    forks: BTreeMap<(usize, Vec<u32>), ForkId>,
    /// How often each task has been forked.
    fork_counts: BTreeMap<usize, WordId>,
    /// Forked programs that are named but not made yet.
    pending: Vec<(usize, CpuSet, ForkId)>,
    /// When the first thread was ready, from which timers count.
    zero: WordId,
    /// Number of the next thread.
    thread_count: WordId,
    /// Where the first threads meet; none if there is only one.
    start: Option<BarrierId>,
}

impl<'a> Compiler<'a> {
    fn add_threads(&mut self, threads: &[Thread]) -> Result<(), Fault> {
        let everywhere = CpuSet::first(self.options.cpus.min(MAX_CPUS));
        let inherited = self.options.affinity.unwrap_or(everywhere);
        let mut programs: BTreeMap<usize, ProgramId> = BTreeMap::new();
        for (number, thread) in threads.iter().enumerate() {
            let task = &self.file.tasks[thread.task];
            let program = match programs.get(&thread.task) {
                Some(program) => *program,
                None => {
                    let program = self.program(thread.task, Role::First, inherited)?;
                    let program = self.workload.add_program(program);
                    programs.insert(thread.task, program);
                    program
                }
            };
            let spec = self.task_spec(task, thread, number, program, inherited)?;
            self.workload.add_task(spec);
        }
        Ok(())
    }

    fn task_spec(
        &mut self,
        task: &'a Task,
        thread: &Thread,
        number: usize,
        program: ProgramId,
        inherited: CpuSet,
    ) -> Result<TaskSpec, Fault> {
        let start = task.attributes(self.file.global.default_policy).start;
        let first_phase = task.phases().first().map(|phase| &phase.scheduling);
        let mut spec = TaskSpec::new(thread.name.clone(), program);
        spec.statistics = Some(task.name.clone());
        spec.registers = vec![(thread::INDEX, number as u64)];
        spec.policy = kernel_policy(&start);
        spec.nice = nice(&start).unwrap_or(0);
        spec.rt_priority = rt_priority(&start);
        spec.affinity = Some(self.cpus_in_force(task, first_phase, inherited)?);
        spec.group = self
            .group_in_force(&task.scheduling)
            .unwrap_or(self.options.group);
        spec.address_space = Some(self.options.address_space);
        spec.custom_slice_ns = slice_ns(&start);
        spec.clamps = start.clamps.map(|wish| match wish {
            Wish::Set(value) => Some(value),
            Wish::Keep | Wish::Reset => None,
        });
        spec.start_ns = self.options.start_ns;
        Ok(spec)
    }

    /// Forked programs may fork others, so this goes on until no new one turns up. There are only
    /// as many as tasks times sets of CPUs to inherit.
    fn add_forked_programs(&mut self) -> Result<(), Fault> {
        while let Some((task, inherited, fork)) = self.pending.pop() {
            let program = self.program(task, Role::Forked, inherited)?;
            let program = self.workload.add_program(program);
            self.workload.forks[fork.0 as usize].program = program;
        }
        Ok(())
    }

    /// The kind of child that a task becomes when forked by a thread that may use `inherited`.
    fn fork(&mut self, task: usize, inherited: CpuSet) -> ForkId {
        let key = (task, inherited.iter().map(|cpu| cpu.0).collect());
        if let Some(fork) = self.forks.get(&key) {
            return *fork;
        }
        let name = self.file.tasks[task].name.clone();
        // Its program comes later: a task may fork itself.
        let fork = self
            .workload
            .add_fork(ForkSpec::new(name, ProgramId(0), false));
        self.forks.insert(key, fork);
        self.pending.push((task, inherited, fork));
        fork
    }

    fn fork_count(&mut self, task: usize) -> WordId {
        once(&mut self.fork_counts, task, || self.workload.add_word(0))
    }

    fn mutex(&mut self, name: &'a str) -> MutexId {
        once(&mut self.mutexes, name, || self.workload.add_mutex())
    }

    fn condition(&mut self, name: &'a str) -> ConditionId {
        once(&mut self.conditions, name, || self.workload.add_condition())
    }

    fn semaphore(&mut self, name: &'a str) -> SemaphoreId {
        once(&mut self.semaphores, name, || {
            self.workload.add_semaphore(0)
        })
    }

    fn shared_timer(&mut self, name: &'a str) -> WordId {
        once(&mut self.timers, name, || self.workload.add_word(0))
    }

    fn barrier(&mut self, name: &'a str) -> BarrierParts {
        if let Some(barrier) = self.barriers.get(name) {
            return *barrier;
        }
        let barrier = BarrierParts {
            mutex: self.workload.add_mutex(),
            condition: self.workload.add_condition(),
            missing: self
                .workload
                .add_word(self.file.barrier_users(name).saturating_sub(1)),
        };
        self.barriers.insert(name, barrier);
        barrier
    }

    /// CPUs a thread may use in a phase: the phase's, else the task's, else those it was born with.
    fn cpus_in_force(
        &self,
        task: &Task,
        phase: Option<&Scheduling>,
        inherited: CpuSet,
    ) -> Result<CpuSet, Fault> {
        let said = phase
            .and_then(|phase| phase.cpus.as_ref())
            .or(task.scheduling.cpus.as_ref());
        said.map_or(Ok(inherited), |cpus| self.cpu_set(cpus))
    }

    fn cpu_set(&self, cpus: &Located<Vec<u32>>) -> Result<CpuSet, Fault> {
        let count = self.options.cpus.min(MAX_CPUS);
        if let Some(cpu) = cpus.value.iter().find(|cpu| **cpu as usize >= count) {
            let last = count.saturating_sub(1);
            let message = format!("CPU {cpu} does not exist; the machine has CPUs 0 to {last}");
            return Err(Fault::new(cpus.span, message));
        }
        Ok(cpus.value.iter().map(|cpu| Cpu(*cpu)).collect())
    }

    /// The group of a taskgroup, made with its parents if it is new. A taskgroup's path begins at
    /// the root, whatever group the program was started in.
    fn group_in_force(&mut self, said: &Scheduling) -> Option<GroupId> {
        let taskgroup = said.taskgroup.as_ref()?;
        let mut group = GroupId::ROOT;
        let mut path = String::new();
        for name in taskgroup.value.split('/').filter(|name| !name.is_empty()) {
            path.push('/');
            path.push_str(name);
            let known = self
                .workload
                .groups
                .iter()
                .position(|known| known.path == path);
            group = match known {
                Some(row) => GroupId(row as u32 + 1),
                None => self.workload.add_group(GroupSpec::new(path.clone(), group)),
            };
        }
        Some(group)
    }

    /// Cost of a loop by calibration, in whole nanoseconds of the CPU that the file names, by which
    /// rt-app divides.
    fn calibrated_ns(&self) -> u64 {
        let capacity = match self.file.global.calibration {
            Calibration::NanosecondsPerLoop(_) => None,
            Calibration::Cpu(cpu) => self.options.capacities.get(cpu as usize),
        };
        self.nominal_ns() * 1024 / u64::from(*capacity.unwrap_or(&1024)).max(1)
    }

    /// The same on a CPU of nominal speed.
    fn nominal_ns(&self) -> u64 {
        match self.file.global.calibration {
            Calibration::NanosecondsPerLoop(nanoseconds) => u64::from(nanoseconds),
            Calibration::Cpu(_) => u64::from(self.options.prices.calibrated_loop_ns.max(1)),
        }
    }

    /// Nominal time of so many microseconds of `run`. rt-app works in pieces of one second and
    /// rounds each down to whole loops.
    fn run_ns(&self, microseconds: u32) -> u64 {
        let loop_ns = self.calibrated_ns();
        let seconds = u64::from(microseconds) / 1_000_000;
        let rest = u64::from(microseconds) % 1_000_000;
        let loops = seconds * (1_000_000_000 / loop_ns) + rest * 1000 / loop_ns;
        let permille = match self.file.global.calibration {
            Calibration::NanosecondsPerLoop(_) => 1000,
            Calibration::Cpu(_) => self.options.prices.calibrated_loop_permille,
        };
        let nominal_ps = self.nominal_ns() * permille;
        let loop_ps = self.options.prices.loop_ps.unwrap_or(nominal_ps);
        loops.saturating_mul(loop_ps) / 1000
    }
}

/// The fault of a program that the builder refuses, which is a task too large for it.
fn too_large(task: &Task, error: impl std::fmt::Display) -> Fault {
    let message = format!(
        "task {} cannot be compiled: {error}",
        quoted(&task.written_name)
    );
    Fault::new(task.span, message)
}

fn kernel_policy(attributes: &Attributes) -> schedcast_kernel::task::Policy {
    use super::ast::Policy;
    use schedcast_kernel::task::Policy as Kernel;
    match attributes.policy {
        // The thread makes a deadline task of itself: clone(2) makes none.
        Policy::Other | Policy::Deadline => Kernel::Normal,
        Policy::Batch => Kernel::Batch,
        Policy::Idle => Kernel::Idle,
        Policy::RoundRobin => Kernel::RoundRobin,
        Policy::Fifo => Kernel::Fifo,
    }
}

fn rt_priority(attributes: &Attributes) -> u8 {
    if attributes.policy.is_real_time() {
        // Its range was checked when the file was read.
        u8::try_from(attributes.priority).unwrap_or(1)
    } else {
        0
    }
}

/// rt-app sets a nice value only for `SCHED_OTHER` and `SCHED_BATCH`.
fn nice(attributes: &Attributes) -> Option<i32> {
    use super::ast::Policy;
    matches!(attributes.policy, Policy::Other | Policy::Batch).then_some(attributes.priority)
}

fn slice_ns(attributes: &Attributes) -> Option<u64> {
    nice(attributes)?;
    let slice_ns = u64::from(attributes.runtime_us) * 1000;
    (slice_ns > 0).then(|| slice_ns.clamp(SLICE_NS.0, SLICE_NS.1))
}
