//! Measurement: streaming statistics fed by observations of the kernel and by records of programs.
//!
//! Memory does not grow with simulated time: durations go into histograms, everything else into
//! counters. Tasks that share a statistics name share a row.
//!
//! ```text
//! wakeup            runs              preempted      runs      blocks
//!    |---------------|=================|..............|=========|
//!    wakeup latency                     wait
//!    |------------------ activation latency --------------------|
//! ```
//!
//! Waiting for the CPU (the two thin stretches) is split: the part during which the task's group or
//! an ancestor was throttled on that CPU is *throttled* time, the rest is *contention*. The split
//! uses one clock per (group, CPU) that runs while any queue from there to the root is throttled,
//! read when the wait begins, ends, or moves to another CPU. Worked example: a wait from 10 to
//! 60 ms on CPU 1, whose clock went from 3 to 33 ms meanwhile: 30 ms throttled, 20 ms contention.

use crate::events::{EventHash, LogRow, TraceEvent, TraceKind};
use crate::histogram::Histogram;
use late::Overtaken;
use schedcast_kernel::platform::{Observation, Op, PrevState};
use schedcast_kernel::table::Table;
use schedcast_kernel::{Cpu, GroupId, Ns, TaskId};

/// No such time.
const NEVER: Ns = Ns::MAX;
/// Statistics row of idle tasks and others that are not measured.
pub(crate) const NOBODY: u32 = u32::MAX;

/// Statistics of all tasks of one name. Times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct NameStatistics {
    /// The name.
    pub name: String,
    /// From the wakeup (`sched_waking`) to the switch to the task.
    pub wakeup_latency: Histogram,
    /// From the wakeup to the next time the task blocks; for a message that was waiting already
    /// when the previous activation ended, from that end.
    pub activation_latency: Histogram,
    /// From the wakeup to the next time the task blocks, over as many messages as it finds waiting,
    /// which is what a recording of a live kernel shows; `None` while every activation was such a
    /// turn.
    turns: Option<Box<Histogram>>,
    /// Time as a CPU's current task.
    pub run_ns: Ns,
    /// Time that the kernel charged to tasks that have ended, ns (`sum_exec_runtime`, as
    /// `getrusage` tells it): from a wakeup that preempts on, so with the rest of the waker's call
    /// or of the interrupt.
    pub charged_ns: Ns,
    /// The same of those that live, when accounting was last brought to the present.
    pub charged_alive_ns: Ns,
    /// Time spent waiting on a run queue for another reason than throttling.
    pub wait_contention_ns: Ns,
    /// Time spent waiting while throttled.
    pub wait_throttled_ns: Ns,
    /// Times switched to.
    pub switches: u64,
    /// Times woken.
    pub wakeups: u64,
    /// Times moved to another CPU.
    pub migrations: u64,
}

impl NameStatistics {
    /// From wakeups to the next time the task blocks, whatever it does in between.
    pub fn turn_latency(&self) -> &Histogram {
        self.turns.as_deref().unwrap_or(&self.activation_latency)
    }

    /// An activation and a turn that began then, if they did, end.
    #[inline(always)]
    fn end_activation(&mut self, now: Ns, activated_at: Ns, turned_at: Ns) {
        if activated_at != NEVER {
            self.activation_latency
                .record(now.saturating_sub(activated_at));
        }
        if let Some(turns) = &mut self.turns
            && turned_at != NEVER
        {
            turns.record(now.saturating_sub(turned_at));
        }
    }

    /// Time that the kernel charged to all tasks, ended or not, ns.
    pub fn all_charged_ns(&self) -> Ns {
        self.charged_ns + self.charged_alive_ns
    }
}

/// Statistics of the machine.
#[derive(Clone, Debug)]
pub struct MachineStatistics {
    /// Times a CPU's current task became a different task that is not idle.
    pub dispatches: u64,
    /// Times a CPU's current task became a different one, idle tasks included.
    pub context_switches: u64,
    /// Wakeups of sleeping tasks.
    pub wakeups: u64,
    /// Tasks moved between CPUs.
    pub migrations: u64,
    /// CPU time spent per operation, by `op as usize`.
    pub overhead_ns: [Ns; Op::COUNT],
    /// How often each operation was charged.
    pub operations: [u64; Op::COUNT],
}

impl Default for MachineStatistics {
    fn default() -> Self {
        Self {
            dispatches: 0,
            context_switches: 0,
            wakeups: 0,
            migrations: 0,
            overhead_ns: [0; Op::COUNT],
            operations: [0; Op::COUNT],
        }
    }
}

/// A metric that programs record into.
#[derive(Clone, Debug, Default)]
pub struct Metric {
    /// Name.
    pub name: String,
    /// Recorded values.
    pub values: Histogram,
    /// Sum of counts.
    pub count: u64,
    /// Time of the first and the last record or count.
    pub span: Option<(Ns, Ns)>,
}

/// State of each task between events.
#[derive(Clone, Copy, Debug, Default)]
struct TaskProbe {
    statistics: u32,
    group: GroupId,
    /// Wakeup that has not led to a switch yet.
    woken_at: Ns,
    /// Begin of the activation.
    activated_at: Ns,
    /// Begin of the turn: the wakeup before any message that was found waiting.
    turned_at: Ns,
    /// Time charged to the task when statistics began, ns.
    charged_before: Ns,
    /// Last switched to.
    switched_to_at: Ns,
    /// CPU that switched to it.
    runs_on: Cpu,
    /// Its wakeup was observed before the block that it ends.
    is_overtaken: bool,
    /// Its block was observed, and no wakeup since.
    sleeps: bool,
    /// Begin of the wait on a run queue.
    waiting_since: Ns,
    /// CPU it waits on.
    waiting_cpu: Cpu,
    /// Throttled clock there when the wait (on this CPU) began. A CPU whose kernel is busy is ahead
    /// of others, so this may be later than what another one reads when it ends the wait.
    throttled_mark: Ns,
    /// Throttled part of the wait on CPUs it has left.
    throttled_before: Ns,
}

/// Clock that runs while a queue of the group or an ancestor is throttled on a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct ThrottledClock {
    throttled_levels: u32,
    since: Ns,
    total: Ns,
}

/// Whom a CPU runs, as far as switches were observed.
#[derive(Clone, Copy, Debug)]
struct Current {
    task: TaskId,
    /// Up to then its runs are counted.
    counted_to: Ns,
}

/// All statistics of a run.
#[derive(Clone, Debug)]
pub struct Probes {
    /// Per statistics name.
    pub names: Table<NameStatistics>,
    /// Statistics of the machine.
    pub machine: MachineStatistics,
    /// Custom metrics, in the order of [`crate::Workload::metrics`].
    pub metrics: Vec<Metric>,
    /// Hash over every switch, wakeup, migration and throttling so far.
    pub event_hash: EventHash,
    /// Events since the caller last took them; `None` = not traced.
    pub trace: Option<Vec<TraceEvent>>,
    /// Log rows since the caller last took them; `None` = not kept.
    pub log: Option<Vec<LogRow>>,
    /// Since when statistics count.
    pub since: Ns,
    tasks: Table<TaskProbe>,
    /// One per (group, CPU), see [`Probes::throttled_ns`].
    clocks: Table<ThrottledClock>,
    /// Whether any clock has run: until then all of them are at 0.
    has_throttled: bool,
    /// Every group with all groups below it.
    subtrees: Vec<Vec<GroupId>>,
    /// By CPU, whom the last switch that was observed went to; its idle task before the first.
    current: Table<Current>,
    /// Activations whose end is still to be observed, of tasks that were woken since; few.
    overtaken: Vec<Overtaken>,
    cpus: usize,
}

impl Probes {
    /// Nothing measured yet. `parents` has the parent of every group, `None` for the root.
    pub(crate) fn new(cpus: usize, parents: &[Option<GroupId>], metrics: &[String]) -> Self {
        let mut subtrees: Vec<Vec<GroupId>> = vec![Vec::new(); parents.len()];
        for row in 0..parents.len() {
            let mut ancestor = Some(GroupId::from(row));
            while let Some(group) = ancestor {
                subtrees[group.index()].push(GroupId::from(row));
                ancestor = parents[group.index()];
            }
        }
        Self {
            names: Table::new(),
            machine: MachineStatistics::default(),
            metrics: metrics
                .iter()
                .map(|name| Metric {
                    name: name.clone(),
                    ..Metric::default()
                })
                .collect(),
            event_hash: EventHash::START,
            trace: None,
            log: None,
            since: 0,
            tasks: Table::new(),
            clocks: vec![ThrottledClock::default(); parents.len() * cpus].into(),
            has_throttled: false,
            subtrees,
            current: (0..cpus)
                .map(|cpu| Current {
                    task: TaskId::from(cpu),
                    counted_to: 0,
                })
                .collect(),
            overtaken: Vec::new(),
            cpus,
        }
    }

    /// Statistics of a name.
    pub fn of(&self, name: &str) -> Option<&NameStatistics> {
        self.names.iter().find(|statistics| statistics.name == name)
    }

    /// Metric of a name.
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// Throttled clock of a group on a CPU.
    #[inline(always)]
    fn throttled_ns(&self, now: Ns, group: GroupId, cpu: Cpu) -> Ns {
        match self.has_throttled {
            true => self.clocks[group.index() * self.cpus + cpu.index()].read(now),
            false => 0,
        }
    }

    /// Begin of the activation that a task is in, if it is in one.
    pub(crate) fn activated_at(&self, task: TaskId) -> Option<Ns> {
        let activated_at = self.tasks.get(task.index())?.activated_at;
        (activated_at != NEVER).then_some(activated_at)
    }

    /// Row of a statistics name, added if it is new.
    pub(crate) fn row_of(&mut self, name: &str) -> u32 {
        let known = self.names.iter().position(|other| other.name == name);
        known.unwrap_or_else(|| {
            self.names.push(NameStatistics {
                name: name.to_owned(),
                ..NameStatistics::default()
            });
            self.names.len() - 1
        }) as u32
    }

    /// A task row is (re)used for a task of these statistics in this group.
    pub(crate) fn start_task(&mut self, task: TaskId, statistics: u32, group: GroupId) {
        let probe = TaskProbe {
            statistics,
            group,
            woken_at: NEVER,
            activated_at: NEVER,
            turned_at: NEVER,
            waiting_since: NEVER,
            ..TaskProbe::default()
        };
        if task.index() >= self.tasks.len() {
            let idle = TaskProbe {
                statistics: NOBODY,
                ..probe
            };
            self.tasks.grow(task.index() + 1, idle);
        }
        self.tasks[task] = probe;
    }

    /// Forgets everything measured so far (a warm-up), but not what is under way and not the hash.
    pub fn reset(&mut self, now: Ns) {
        for statistics in &mut self.names {
            *statistics = NameStatistics {
                name: std::mem::take(&mut statistics.name),
                ..NameStatistics::default()
            };
        }
        for metric in &mut self.metrics {
            *metric = Metric {
                name: std::mem::take(&mut metric.name),
                ..Metric::default()
            };
        }
        self.machine = MachineStatistics::default();
        self.since = now;
        for current in &mut self.current {
            current.counted_to = current.counted_to.max(now);
        }
        for probe in &mut self.tasks {
            // The rest of a wait counts from here on.
            if probe.waiting_since != NEVER && probe.waiting_since < now {
                let clock =
                    &self.clocks[probe.group.index() * self.cpus + probe.waiting_cpu.index()];
                probe.throttled_mark = clock.read(now);
                probe.throttled_before = 0;
                probe.waiting_since = now;
            }
        }
    }

    /// Runs of tasks that are current on a CPU, as far as switches were observed, are counted up to
    /// `now`.
    pub(crate) fn settle(&mut self, now: Ns) {
        for current in &mut self.current {
            let statistics = self.tasks[current.task].statistics;
            if statistics != NOBODY {
                let ran = now.saturating_sub(current.counted_to);
                current.counted_to = current.counted_to.max(now);
                self.names[statistics as usize].run_ns += ran;
            }
        }
    }

    /// A task is gone, charged with `charged_ns` in all.
    pub(crate) fn ended(&mut self, task: TaskId, charged_ns: Ns) {
        let probe = &self.tasks[task];
        if probe.statistics != NOBODY {
            let charged_ns = charged_ns.saturating_sub(probe.charged_before);
            self.names[probe.statistics as usize].charged_ns += charged_ns;
        }
    }

    /// Counts anew what tasks that live are charged with, by task.
    pub(crate) fn charge_alive(&mut self, alive: impl Iterator<Item = (TaskId, Ns)>) {
        for statistics in &mut self.names {
            statistics.charged_alive_ns = 0;
        }
        for (task, charged_ns) in alive {
            // Rows beyond are tasks that have not started.
            let Some(probe) = self.tasks.get(task.index()) else {
                continue;
            };
            if probe.statistics != NOBODY {
                let charged_ns = charged_ns.saturating_sub(probe.charged_before);
                self.names[probe.statistics as usize].charged_alive_ns += charged_ns;
            }
        }
    }

    /// Starts the count of charges: earlier charges are subtracted.
    pub(crate) fn forget_charges(&mut self, alive: impl Iterator<Item = (TaskId, Ns)>) {
        for (task, charged_ns) in alive {
            if let Some(probe) = self.tasks.get_mut(task.index()) {
                probe.charged_before = charged_ns;
            }
        }
        self.charge_alive(std::iter::empty());
    }

    /// A wakeup of a sleeping task begins.
    #[inline]
    pub(crate) fn waking(&mut self, now: Ns, cpu: Cpu, task: TaskId, waker: Option<TaskId>) {
        self.machine.wakeups += 1;
        let statistics = self.tasks[task].statistics;
        if statistics != NOBODY {
            self.names[statistics as usize].wakeups += 1;
            if self.wakes_out_of_order(task) {
                self.wakes_late_or_early(now, task);
            } else {
                let probe = &mut self.tasks[task];
                probe.sleeps = false;
                probe.woken_at = now;
                probe.activated_at = now;
                probe.turned_at = now;
            }
        }
        self.show(now, cpu, TraceKind::Waking { task, waker });
    }

    /// Adds to the trace, if there is one.
    #[inline(always)]
    pub(crate) fn show(&mut self, time: Ns, cpu: Cpu, event: TraceKind) {
        if self.trace.is_some() {
            self.add_to_trace(TraceEvent { time, cpu, event });
        }
    }

    #[cold]
    #[inline(never)]
    fn add_to_trace(&mut self, event: TraceEvent) {
        if let Some(trace) = &mut self.trace {
            trace.push(event);
        }
    }

    /// A running task turns to a message that was waiting: one activation ends, the next begins.
    #[inline]
    pub(crate) fn next_activation(&mut self, now: Ns, task: TaskId) {
        let probe = &mut self.tasks[task];
        if probe.activated_at != NEVER && probe.statistics != NOBODY {
            let statistics = &mut self.names[probe.statistics as usize];
            // Until now every activation of the name was a turn.
            let activations = &statistics.activation_latency;
            statistics
                .turns
                .get_or_insert_with(|| Box::new(activations.clone()));
            statistics
                .activation_latency
                .record(now.saturating_sub(probe.activated_at));
        }
        probe.activated_at = now;
    }

    /// A task changes its group.
    pub(crate) fn change_group(&mut self, now: Ns, task: TaskId, group: GroupId) {
        let cpus = self.cpus;
        let probe = &mut self.tasks[task];
        if probe.waiting_since != NEVER {
            let row = probe.waiting_cpu.index();
            let old = self.clocks[probe.group.index() * cpus + row].read(now);
            probe.throttled_before += old.saturating_sub(probe.throttled_mark);
            probe.throttled_mark = self.clocks[group.index() * cpus + row].read(now);
        }
        probe.group = group;
    }

    /// Feeds one observation of the kernel.
    #[inline(always)]
    pub(crate) fn observe(&mut self, now: Ns, cpu: Cpu, observation: Observation) {
        match observation {
            Observation::Switch { prev, state, next } => {
                self.event_hash.event(now, cpu, 1, prev.0, next.0);
                self.switch(now, cpu, prev, state, next);
            }
            Observation::Wakeup { task, cpu: target } => {
                self.event_hash.event(now, cpu, 2, task.0, target.0);
                match self.runs_ahead(task) {
                    Some(since) => self.waited_until(now, since, task),
                    None => self.begin_wait(now, target, task),
                }
            }
            Observation::Migrate { task, from, to } => {
                self.event_hash
                    .event(now, cpu, 3, task.0, to.0 << 12 | from.0);
                self.migrate(now, task, to);
            }
            Observation::Throttle { group, cpu: queue } => {
                self.event_hash.event(now, cpu, 4, group.0, queue.0);
                self.throttle(now, group, queue);
            }
            Observation::Unthrottle { group, cpu: queue } => {
                self.event_hash.event(now, cpu, 5, group.0, queue.0);
                self.unthrottle(now, group, queue);
            }
            Observation::Place { .. } | Observation::Period { .. } => {}
        }
        self.show(now, cpu, TraceKind::Kernel(observation));
    }

    #[inline(always)]
    fn switch(&mut self, now: Ns, cpu: Cpu, prev: TaskId, state: PrevState, next: TaskId) {
        self.machine.context_switches += 1;
        let current = Current {
            task: next,
            counted_to: now,
        };
        let before = std::mem::replace(&mut self.current[cpu], current);
        let probe = &mut self.tasks[prev];
        if probe.statistics != NOBODY {
            let statistics = &mut self.names[probe.statistics as usize];
            statistics.run_ns += now.saturating_sub(before.counted_to);
            if probe.runs_on != cpu || probe.is_overtaken {
                self.leaves_late(now, cpu, prev, state);
            } else {
                match state {
                    PrevState::Runnable | PrevState::Throttled => self.begin_wait(now, cpu, prev),
                    PrevState::Blocked | PrevState::Dead => {
                        statistics.end_activation(now, probe.activated_at, probe.turned_at);
                        probe.activated_at = NEVER;
                        probe.turned_at = NEVER;
                        probe.sleeps = true;
                    }
                }
            }
        }
        // Rows below the number of CPUs are idle tasks.
        if next.index() >= self.cpus {
            self.machine.dispatches += 1;
        }
        let probe = &mut self.tasks[next];
        if probe.statistics == NOBODY {
            return;
        }
        let statistics = &mut self.names[probe.statistics as usize];
        statistics.switches += 1;
        probe.switched_to_at = now;
        probe.runs_on = cpu;
        if probe.woken_at != NEVER {
            statistics
                .wakeup_latency
                .record(now.saturating_sub(probe.woken_at));
            probe.woken_at = NEVER;
        }
        if probe.waiting_since != NEVER {
            let waited = now.saturating_sub(probe.waiting_since);
            let mut throttled = 0;
            if self.has_throttled {
                let row = probe.group.index() * self.cpus + probe.waiting_cpu.index();
                let clock = self.clocks[row].read(now);
                throttled = probe.throttled_before + clock.saturating_sub(probe.throttled_mark);
                throttled = throttled.min(waited);
                statistics.wait_throttled_ns += throttled;
            }
            statistics.wait_contention_ns += waited - throttled;
            probe.waiting_since = NEVER;
        }
    }

    #[inline]
    fn begin_wait(&mut self, now: Ns, cpu: Cpu, task: TaskId) {
        let mark = self.throttled_ns(now, self.tasks[task].group, cpu);
        let probe = &mut self.tasks[task];
        probe.waiting_since = now;
        probe.waiting_cpu = cpu;
        probe.throttled_mark = mark;
        probe.throttled_before = 0;
    }

    fn migrate(&mut self, now: Ns, task: TaskId, to: Cpu) {
        self.machine.migrations += 1;
        let probe = &mut self.tasks[task];
        if probe.statistics == NOBODY {
            return;
        }
        self.names[probe.statistics as usize].migrations += 1;
        if probe.waiting_since != NEVER {
            let row = probe.group.index() * self.cpus;
            let from = &self.clocks[row + probe.waiting_cpu.index()];
            probe.throttled_before += from.read(now).saturating_sub(probe.throttled_mark);
            probe.waiting_cpu = to;
            probe.throttled_mark = self.clocks[row + to.index()].read(now);
        }
    }

    fn throttle(&mut self, now: Ns, group: GroupId, cpu: Cpu) {
        self.has_throttled = true;
        for below in &self.subtrees[group.index()] {
            let clock = &mut self.clocks[below.index() * self.cpus + cpu.index()];
            if clock.throttled_levels == 0 {
                clock.since = now.max(clock.since);
            }
            clock.throttled_levels += 1;
        }
    }

    fn unthrottle(&mut self, now: Ns, group: GroupId, cpu: Cpu) {
        for below in &self.subtrees[group.index()] {
            let clock = &mut self.clocks[below.index() * self.cpus + cpu.index()];
            clock.throttled_levels = clock.throttled_levels.saturating_sub(1);
            if clock.throttled_levels == 0 {
                clock.total += now.saturating_sub(clock.since);
                // Observations of different CPUs may overlap by the length of an operation; the
                // clock never runs twice over the same time.
                clock.since = now.max(clock.since);
            }
        }
    }

    /// Records a value in a custom metric.
    #[inline]
    pub(crate) fn record(&mut self, now: Ns, metric: u32, value: u64) {
        let metric = &mut self.metrics[metric as usize];
        metric.values.record(value);
        metric.touch(now);
    }

    /// Adds to the count of a custom metric.
    #[inline]
    pub(crate) fn count(&mut self, now: Ns, metric: u32, amount: u64) {
        let metric = &mut self.metrics[metric as usize];
        metric.count += amount;
        metric.touch(now);
    }
}

impl Metric {
    #[inline]
    fn touch(&mut self, now: Ns) {
        let first = self.span.map_or(now, |(first, _)| first);
        self.span = Some((first, now));
    }
}

impl ThrottledClock {
    #[inline(always)]
    fn read(&self, now: Ns) -> Ns {
        if self.throttled_levels == 0 {
            self.total
        } else {
            self.total + now.saturating_sub(self.since)
        }
    }
}

mod late;
#[cfg(test)]
mod tests;
