//! A machine for tests: manual time, no costs, interrupts that arrive at once.
//!
//! Worked example: `world.spawn(Cpu(0), nice 0)` twice and `world.advance_to(12 * MS)`: the timers
//! of the kernel fire in time order, every interrupt is handled before time goes on, and
//! `world.runtime(task)` says how long each one ran.
//!
//! With it come the types that tests of every rule name.

pub(crate) use crate::bandwidth::limits::Hierarchy;
pub(crate) use crate::cpuset::CpuSet;
pub(crate) use crate::group::BandwidthLimit;
pub(crate) use crate::ids::{CfsRqId, Cpu, EntityId, GroupId, Ns, TaskId};
pub(crate) use crate::kernel::{Context, WakeFlags};
pub(crate) use crate::platform::{Access, Line, Observation, Op, Timer};
pub(crate) use crate::rules::{KernelChoice, Rules};
pub(crate) use crate::task::{Policy, TaskAttributes, TaskState};
pub(crate) use crate::topology::Topology;
pub(crate) use schedcast_base::assert_in;

use crate::kernel::Kernel;
use crate::platform::{Draw, Ipi, Platform};
use schedcast_base::limits::CpuLimits;

pub(crate) const US: Ns = 1_000;
pub(crate) const MS: Ns = 1_000_000;

/// The platform: a clock, armed timers, interrupts under way, what was observed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bench {
    pub now: Ns,
    timers: Vec<(Timer, Cpu, Ns)>,
    ipis: Vec<(Cpu, Ipi)>,
    pub observed: Vec<(Ns, Cpu, Observation)>,
    /// Results of the next draws; 0 when used up.
    pub draws: Vec<u64>,
    pub spent: Vec<(Cpu, Op, u32)>,
    /// Lines touched.
    pub touched: Vec<(Line, Access)>,
    /// Operations that take time; the others take none.
    pub prices: Vec<(Op, Ns)>,
    /// When a high-resolution timer of the world's own is due.
    pub high_resolution_timer: Option<Ns>,
}

impl Platform for Bench {
    fn now(&self, _cpu: Cpu) -> Ns {
        self.now
    }
    fn spend(&mut self, cpu: Cpu, op: Op, count: u32) {
        if matches!(
            op,
            Op::ContextSwitch | Op::ContextSwitchThread | Op::SelectScanCpu | Op::BalanceCpu
        ) {
            self.spent.push((cpu, op, count));
        }
        let price = self.prices.iter().find(|(priced, _)| *priced == op);
        self.now += price.map_or(0, |(_, price)| price * u64::from(count));
    }
    fn touch(&mut self, _cpu: Cpu, line: Line, access: Access) {
        self.touched.push((line, access));
    }
    fn arm(&mut self, cpu: Cpu, timer: Timer, at: Ns) {
        self.cancel(cpu, timer);
        self.timers.push((timer, cpu, at));
    }
    fn cancel(&mut self, _: Cpu, timer: Timer) {
        self.timers.retain(|(other, ..)| *other != timer);
    }
    fn send_ipi(&mut self, _from: Cpu, to: Cpu, ipi: Ipi, _polling: bool) {
        self.ipis.push((to, ipi));
    }
    fn random(&mut self, _draw: Draw) -> u64 {
        self.draws.pop().unwrap_or(0)
    }
    fn next_timer(&self, _cpu: Cpu) -> Ns {
        self.high_resolution_timer.unwrap_or(Ns::MAX)
    }
    fn observe(&mut self, cpu: Cpu, observation: Observation) {
        self.observed.push((self.now, cpu, observation));
    }
}

impl Bench {
    /// Number of interrupts under way.
    pub(crate) fn ipis_sent(&self) -> usize {
        self.ipis.len()
    }
}

/// A kernel on that platform.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub kernel: Kernel,
    pub bench: Bench,
    /// Check every invariant after every step.
    pub checked: bool,
}

/// Every release of the rows, with what holds in those of its row.
pub(crate) fn releases<T: Copy>(
    rows: impl IntoIterator<Item = (&'static str, T)>,
) -> impl Iterator<Item = (&'static str, T)> {
    let of_row = |(releases, holds): (&'static str, T)| {
        releases.split(' ').map(move |release| (release, holds))
    };
    rows.into_iter().flat_map(of_row)
}

impl TaskAttributes {
    /// A user task of SCHED_NORMAL in the root group that starts on `cpu` and stays there.
    pub(crate) fn on(cpu: Cpu) -> Self {
        Self {
            affinity: CpuSet::of(cpu),
            address_space: Some(1),
            cpu,
            ..Self::default()
        }
    }
}

impl World {
    /// `cpus` CPUs on one LLC under a released kernel at 1000 Hz.
    pub(crate) fn new(version: &str, cpus: usize) -> Self {
        Self::with(version, cpus, |_| {})
    }

    /// The same with rules of one's own.
    pub(crate) fn with(version: &str, cpus: usize, change: impl FnOnce(&mut Rules)) -> Self {
        Self::on(Topology::flat(cpus), version, change)
    }

    /// A release with another tick.
    pub(crate) fn at_hz(version: &str, cpus: usize, hz: u32) -> Self {
        Self::with(version, cpus, |rules| {
            rules.hz = hz;
            rules.tick_ns = 1_000_000_000 / u64::from(hz);
        })
    }

    /// Any machine.
    pub(crate) fn on(topology: Topology, version: &str, change: impl FnOnce(&mut Rules)) -> Self {
        let choice = KernelChoice {
            hz: 1000,
            ..KernelChoice::released(version.parse().unwrap(), topology.cpus() as u32)
        };
        let mut rules = Rules::resolve(&choice).unwrap();
        change(&mut rules);
        Self {
            kernel: Kernel::new(topology, rules),
            bench: Bench::default(),
            checked: true,
        }
    }

    /// Everything set off by an operation on `cpu`: its return, then the interrupts it sent.
    fn settle(&mut self, cpu: Cpu) {
        self.kernel.leave_kernel(&mut self.bench, cpu);
        while !self.bench.ipis.is_empty() {
            let (cpu, _) = self.bench.ipis.remove(0);
            self.kernel.ipi(&mut self.bench, cpu);
            self.kernel.leave_kernel(&mut self.bench, cpu);
        }
        if self.checked {
            crate::invariants::check(&self.kernel);
            let mut cpus = (0..self.kernel.cpus()).map(Cpu::from);
            let works = |cpu| {
                let thread = self.kernel.migration_thread(cpu);
                self.kernel.tasks[thread].on_rq
            };
            assert!(!cpus.any(works), "migration threads finish their work");
        }
    }

    /// Time passes; timers fire in order of time, then of arming.
    pub(crate) fn advance_to(&mut self, end: Ns) {
        assert!(end >= self.bench.now, "time does not go back");
        while let Some(row) = self.next_timer(end) {
            let (timer, cpu, at) = self.bench.timers.remove(row);
            self.bench.now = self.bench.now.max(at);
            self.kernel.irq_enter(&self.bench, cpu);
            match timer {
                Timer::Tick(_) => self.kernel.tick(&mut self.bench, cpu),
                Timer::BandwidthPeriod(group) => {
                    self.kernel.period_timer(&mut self.bench, cpu, group);
                }
                Timer::BandwidthSlack(group) => {
                    self.kernel.slack_timer(&mut self.bench, cpu, group);
                }
                Timer::RtPeriod => self.kernel.rt_period_timer(&mut self.bench, cpu),
                Timer::FairServer(of) => {
                    self.kernel.fair_server_timer(&mut self.bench, cpu, of);
                }
                Timer::FairServerInactive(of) => {
                    let bench = &mut self.bench;
                    self.kernel.fair_server_inactive_timer(bench, cpu, of);
                }
                Timer::Hrtick(cpu) => self.kernel.hrtick_timer(&mut self.bench, cpu),
                Timer::Deadline(task) => self.kernel.dl_timer(&mut self.bench, cpu, task),
                Timer::Inactive(task) => self.kernel.dl_inactive_timer(&mut self.bench, cpu, task),
            }
            self.settle(cpu);
        }
        self.bench.now = end;
    }

    /// Lets `span` pass.
    pub(crate) fn advance(&mut self, span: Ns) {
        self.advance_to(self.bench.now + span);
    }

    fn next_timer(&self, end: Ns) -> Option<usize> {
        let due = |row: &usize| self.bench.timers[*row].2;
        (0..self.bench.timers.len())
            .filter(|row| due(row) <= end)
            .min_by_key(due)
    }

    /// When the next timer fires.
    pub(crate) fn next_due(&self) -> Option<Ns> {
        let row = self.next_timer(Ns::MAX)?;
        Some(self.bench.timers[row].2)
    }

    /// A group below the root, or below `parent`.
    pub(crate) fn group(&mut self, parent: GroupId) -> GroupId {
        self.kernel.group_create(&mut self.bench, parent)
    }

    /// A group below `parent` with such a limit, in us.
    pub(crate) fn limited(
        &mut self,
        parent: GroupId,
        quota: u64,
        period: u64,
        burst: u64,
    ) -> GroupId {
        let group = self.group(parent);
        self.limit(group, quota, period, burst);
        group
    }

    /// Sets `cpu.max` and `cpu.max.burst`, in µs.
    pub(crate) fn limit(&mut self, group: GroupId, quota_us: u64, period_us: u64, burst_us: u64) {
        let limit = CpuLimits::new(quota_us, period_us, burst_us).into();
        self.kernel
            .group_set_bandwidth(&mut self.bench, Cpu(0), group, limit, Default::default())
            .unwrap();
        self.settle(Cpu(0));
    }

    pub(crate) fn set_shares(&mut self, group: GroupId, shares: u64) {
        self.call(Cpu(0), |kernel, bench| {
            kernel.group_set_shares(bench, Cpu(0), group, shares);
        });
    }

    /// `sched_setaffinity`, called on `cpu`.
    pub(crate) fn set_affinity(&mut self, cpu: Cpu, task: TaskId, affinity: CpuSet) {
        self.call(cpu, |kernel, bench| {
            kernel.set_affinity(bench, cpu, task, affinity);
        });
    }

    /// `sched_setscheduler`, called on `cpu`.
    pub(crate) fn set_policy(
        &mut self,
        cpu: Cpu,
        task: TaskId,
        policy: Policy,
        nice: i32,
        rt_priority: u8,
    ) {
        self.call(cpu, |kernel, bench| {
            kernel.set_policy(bench, cpu, task, policy, nice, rt_priority);
        });
    }

    /// A task moves to another group, by a write on `cpu`.
    pub(crate) fn set_group(&mut self, cpu: Cpu, task: TaskId, group: GroupId) {
        self.call(cpu, |kernel, bench| {
            kernel.set_group(bench, cpu, task, group);
        });
    }

    /// Writes `cpu.idle` on `cpu`.
    pub(crate) fn set_idle(&mut self, cpu: Cpu, group: GroupId, idle: bool) {
        self.call(cpu, |kernel, bench| {
            kernel.group_set_idle(bench, cpu, group, idle);
        });
    }

    /// Starts a user task on `cpu` (only), from that CPU.
    pub(crate) fn spawn_in(
        &mut self,
        group: GroupId,
        cpu: Cpu,
        policy: Policy,
        nice: i32,
    ) -> TaskId {
        self.start(TaskAttributes {
            policy,
            nice,
            group,
            ..TaskAttributes::on(cpu)
        })
    }

    /// Starts a task.
    pub(crate) fn start(&mut self, attributes: TaskAttributes) -> TaskId {
        let cpu = attributes.cpu;
        let task = self.kernel.task_create(attributes);
        self.kernel.wake_up_new_task(&mut self.bench, cpu, task);
        self.settle(cpu);
        task
    }

    /// Starts a nice-0 task in the root group.
    pub(crate) fn spawn(&mut self, cpu: Cpu) -> TaskId {
        self.spawn_in(GroupId::ROOT, cpu, Policy::Normal, 0)
    }

    /// Starts a nice-0 task in the root group that may run anywhere; the kernel places it.
    pub(crate) fn spawn_anywhere(&mut self, cpu: Cpu) -> TaskId {
        self.start(TaskAttributes {
            affinity: CpuSet::first(self.kernel.cpus()),
            ..TaskAttributes::on(cpu)
        })
    }

    /// Starts a SCHED_FIFO task that may run on `affinity`.
    pub(crate) fn spawn_fifo(&mut self, cpu: Cpu, rt_priority: u8, affinity: CpuSet) -> TaskId {
        self.start(TaskAttributes {
            policy: Policy::Fifo,
            rt_priority,
            affinity,
            address_space: Some(2),
            ..TaskAttributes::on(cpu)
        })
    }

    /// The current task of a CPU blocks.
    pub(crate) fn block(&mut self, cpu: Cpu) {
        assert!(!self.idle(cpu), "an idle CPU has nobody to block");
        self.kernel.block(&mut self.bench, cpu);
        self.settle(cpu);
    }

    /// The current task of a CPU yields.
    pub(crate) fn yield_current(&mut self, cpu: Cpu) {
        self.kernel.yield_current(&mut self.bench, cpu);
        self.settle(cpu);
    }

    /// The current task of a CPU ends.
    pub(crate) fn exit(&mut self, cpu: Cpu) {
        let task = self.current(cpu);
        self.kernel.exit(&mut self.bench, cpu);
        self.settle(cpu);
        self.kernel.task_reap(task);
    }

    /// A task is woken from `cpu`, not in sync.
    pub(crate) fn wake(&mut self, cpu: Cpu, task: TaskId) -> bool {
        let flags = WakeFlags::new(false, Context::HardIrq);
        let woken = self.kernel.wake(&mut self.bench, cpu, task, flags);
        self.settle(cpu);
        woken
    }

    /// Any door of the kernel, entered from `cpu`.
    pub(crate) fn call(&mut self, cpu: Cpu, door: impl FnOnce(&mut Kernel, &mut Bench)) {
        door(&mut self.kernel, &mut self.bench);
        self.settle(cpu);
    }

    /// Task a CPU executes.
    pub(crate) fn current(&self, cpu: Cpu) -> TaskId {
        self.kernel.current(cpu)
    }

    /// Whether a CPU executes its idle task.
    pub(crate) fn idle(&self, cpu: Cpu) -> bool {
        self.kernel.is_idle_task(self.current(cpu))
    }

    /// Whether a task sleeps.
    pub(crate) fn asleep(&self, task: TaskId) -> bool {
        self.kernel.tasks[task].state == TaskState::Blocked
    }

    /// How long a fair task ran so far, the part not yet charged included.
    pub(crate) fn runtime(&self, task: TaskId) -> Ns {
        let record = &self.kernel.tasks[task];
        let entity = &self.kernel.entities[record.se];
        let rq = &self.kernel.rqs[record.cpu];
        let running = rq.curr == task;
        // The task clock started a little before time 0 of the bench.
        let clock_task = rq.clock_task + (self.bench.now - rq.clock);
        entity.sum_exec_runtime
            + if running {
                clock_task - entity.exec_start
            } else {
                0
            }
    }

    /// Entity of a task.
    pub(crate) fn entity(&self, task: TaskId) -> &crate::entity::Entity {
        &self.kernel.entities[self.kernel.tasks[task].se]
    }

    /// Times and tasks of the switches of a CPU, idle tasks as `None`.
    pub(crate) fn switches(&self, cpu: Cpu) -> Vec<(Ns, Option<TaskId>)> {
        let mut switches = Vec::new();
        for (at, on, observation) in &self.bench.observed {
            if let (true, Observation::Switch { next, .. }) = (*on == cpu, observation) {
                switches.push((
                    *at,
                    Some(*next).filter(|task| !self.kernel.is_idle_task(*task)),
                ));
            }
        }
        switches
    }
}
