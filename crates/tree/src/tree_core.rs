//! The C of a kernel tree as what decides in a simulated world.
//!
//! ```text
//! World ──doors of Core──► TreeCore ──calls──► kernel/sched/*.c
//!   ▲                         │  ▲                    │
//!   └──Platform: now, arm, ───┘  └── told: switches, ─┘
//!      send_ipi, observe             timers, interrupts
//! ```
//!
//! Worked example: a task on CPU 0 wakes one that sleeps. [`Core::wake`] lets CPU 0 execute
//! `try_to_wake_up` of the tree at the cursor of CPU 0, and the CPU stays in the kernel. The C
//! chooses CPU 1 and sends it an interrupt, which becomes [`Platform::send_ipi`] at once;
//! [`Core::leave_kernel`] lets CPU 0 go its way out. When the interrupt arrives, CPU 1 executes
//! `scheduler_ipi`, and its switch becomes an [`Observation`].
//!
//! Operations of the C take the time that the machine says: each is charged where the C does it,
//! told by hooks, and the clock that the C reads moves on with it. Waiting for the locks of queues
//! and for contended lines takes none.

use crate::calls::{COMM, comm};
use crate::ground::{machine, policy_number};
use crate::mirror::Mirror;
use crate::warm_up::warm_up;
use crate::world::{Call, Field, NewTask, Object, World, WorldError};
use schedcast_base::limits::LimitError;
use schedcast_kernel::bandwidth::limits::Hierarchy;
use schedcast_kernel::cpufreq::FrequencyDriver;
use schedcast_kernel::cpuidle::{GovernorKind, IdleState};
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::dl::Reservation;
use schedcast_kernel::dl::change::Refused;
use schedcast_kernel::group::{BandwidthLimit, BandwidthStat};
use schedcast_kernel::platform::{Access, Draw, Ipi, Line, Observation, Op, Platform, Timer};
use schedcast_kernel::rules::Rules;
use schedcast_kernel::task::{Policy, TaskAttributes, TaskState};
use schedcast_kernel::topology::Topology;
use schedcast_kernel::uclamp::{self, Clamps, Wish};
use schedcast_kernel::{Context, Cpu, GroupId, Kernel, Ns, TaskId, WakeFlags};
use schedcast_sim::{Core, RunError, World as Simulated};
use std::path::Path;

/// No task of the C.
const NONE: i32 = -1;

/// The C of a tree, and the tables that a world reads of it.
#[derive(Debug)]
pub struct TreeCore {
    tree: World,
    mirror: Mirror,
    /// Number that the C gave to each task; [`NONE`] before it starts.
    pids: Vec<i32>,
    /// Whose habit of waking others a task that has not started takes over, as a number of the C.
    parents: Vec<i32>,
    /// Name of each task, as its `comm`.
    names: Vec<[u8; COMM]>,
    /// Which CPUs have entered the kernel and not left it.
    inside: Vec<bool>,
    fault: Option<String>,
    /// When the C was last entered.
    now: Ns,
    charged: Option<Field>,
}

/// A platform for the tables alone: nothing that they set off takes place.
struct Nowhere(Ns);

impl Platform for Nowhere {
    fn now(&self, _: Cpu) -> Ns {
        self.0
    }
    fn spend(&mut self, _: Cpu, _: Op, _: u32) {}
    fn touch(&mut self, _: Cpu, _: Line, _: Access) {}
    fn arm(&mut self, _: Cpu, _: Timer, _: Ns) {}
    fn cancel(&mut self, _: Cpu, _: Timer) {}
    fn send_ipi(&mut self, _: Cpu, _: Cpu, _: Ipi, _: bool) {}
    fn random(&mut self, _: Draw) -> u64 {
        0
    }
    fn next_timer(&self, _: Cpu) -> Ns {
        Ns::MAX
    }
    fn observe(&mut self, _: Cpu, _: Observation) {}
}

impl TreeCore {
    /// Boots the scheduler of an object on a machine. `rules` say what the world has to know of the
    /// kernel: its tick and its version; `features` are turned as after a write to
    /// `sched/features`.
    ///
    /// # Errors
    /// When the tree's scheduler does not boot, or on a machine that is too large.
    pub fn boot(
        object: &Path,
        topology: &Topology,
        rules: Rules,
        features: &[(&str, bool)],
    ) -> Result<Self, WorldError> {
        let cpus = topology.cpus();
        let mut tree = World::boot(object, &machine(topology, None, 0))?;
        for &(name, on) in features {
            tree.set_feature(name, on);
        }
        let uptime_ns = warm_up(&mut tree, cpus, rules.tick_ns)?;
        let tables = Kernel::new(topology.clone(), rules);
        Ok(Self {
            pids: (0..2 * cpus as i32).collect(),
            parents: vec![NONE; 2 * cpus],
            names: vec![[0; COMM]; 2 * cpus],
            inside: vec![false; cpus],
            fault: None,
            now: 0,
            charged: tree.field(Object::TaskEntity(0), "sum_exec_runtime"),
            mirror: Mirror {
                tasks: (0..2 * cpus).map(TaskId::from).collect(),
                pending: vec![Vec::new(); cpus],
                phase_ns: 0,
                uptime_ns,
                tick_to_restart: false,
                tables,
            },
            tree,
        })
    }

    /// Lets a CPU execute a call and stay in the kernel.
    fn enter<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        call: Call,
        arguments: &[i64],
    ) -> Option<i64> {
        self.inside[cpu.index()] = true;
        self.execute(p, cpu, (call, true), arguments)
    }

    /// Lets a CPU execute a call and go its way out.
    fn pass<P: Platform>(&mut self, p: &mut P, cpu: Cpu, call: Call) {
        self.inside[cpu.index()] = false;
        self.execute(p, cpu, (call, false), &[]);
    }

    /// `None` once the C has stopped.
    fn execute<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        call: (Call, bool),
        arguments: &[i64],
    ) -> Option<i64> {
        if self.fault.is_some() {
            return None;
        }
        self.now = self.now.max(p.now(cpu));
        let now = p.now(cpu) + self.mirror.uptime_ns;
        let mirror = &mut self.mirror;
        let hear = &mut |told| mirror.hear(p, cpu, told);
        let result = self.tree.run_heard(cpu.index(), now, call, arguments, hear);
        self.mirror.restart_tick(p, cpu);
        result
            .map_err(|error| self.fault = Some(format!("{error}, {}", self.place(p.now(cpu), cpu))))
            .ok()
    }

    /// When and where the C stops, and which task runs there.
    fn place(&self, now: Ns, cpu: Cpu) -> String {
        let task = self.mirror.tables.current(cpu);
        let name = &self.names[task.index()];
        let end = name.iter().position(|byte| *byte == 0);
        let name = String::from_utf8_lossy(&name[..end.unwrap_or(COMM)]);
        let name = if name.is_empty() { "swapper" } else { &name };
        let seconds = now as f64 / 1e9;
        format!(
            "at {seconds:.9} s on CPU {}, where {name}:{} runs",
            cpu.0, task.0
        )
    }

    fn pid(&self, task: TaskId) -> i64 {
        i64::from(self.pids[task.index()])
    }

    /// Makes the task of a row in the C.
    fn make(&mut self, now: Ns, cpu: Cpu, task: TaskId, asleep: bool) {
        let record = &self.mirror.tables.tasks[task.index()];
        let entity = &self.mirror.tables.entities[record.se.index()];
        let pid = self.tree.task_new(&NewTask {
            group: record.group.0 as i32,
            kthread: i32::from(record.address_space.is_none()),
            policy: policy_number(record.policy),
            nice: record.nice,
            priority: i32::from(record.rt_priority),
            slice_ns: if entity.custom_slice { entity.slice } else { 0 },
            cpus: mask(&record.affinity),
            cpu: cpu.0 as i32,
            now: now + self.mirror.uptime_ns,
            parent: self.parents[task.index()],
            asleep: i32::from(asleep),
            process: record.address_space.unwrap_or(0),
            util_min: record.clamps_asked.min.map_or(-1, |asked| asked as i32),
            util_max: record.clamps_asked.max.map_or(-1, |asked| asked as i32),
            name: self.names[task.index()],
        });
        self.pids[task.index()] = pid;
        let tasks = &mut self.mirror.tasks;
        // The C makes a task of its own while it boots, between the migration threads and these.
        tasks.resize(tasks.len().max(pid as usize + 1), task);
        tasks[pid as usize] = task;
    }

    /// Reads what a task was charged with and passes what is new on to its group.
    fn read_charge(&mut self, task: TaskId) {
        let (Some(field), pid) = (self.charged, self.pids[task.index()]) else {
            return;
        };
        if pid == NONE {
            return;
        }
        let charged = self.tree.get(Object::TaskEntity(pid), field);
        let tables = &mut self.mirror.tables;
        let record = &tables.tasks[task.index()];
        let (se, group) = (record.se, record.group);
        let charged = charged.map_or(0, |ns| ns as Ns);
        let before = std::mem::replace(&mut tables.entities[se.index()].sum_exec_runtime, charged);
        // Idle tasks and migration threads come first, which the rules charge for nothing.
        if task.index() >= 2 * tables.cpus() {
            tables.groups[group.index()].usage_ns += charged.saturating_sub(before);
        }
    }

    fn set_policy_of<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId, slice_ns: Ns) {
        let record = &self.mirror.tables.tasks[task.index()];
        let (policy, nice) = (policy_number(record.policy).into(), record.nice.into());
        let (pid, priority) = (self.pid(task), record.rt_priority.into());
        let arguments = [pid, policy, nice, priority, slice_ns as i64];
        self.enter(p, cpu, Call::Policy, &arguments);
    }
}

impl Core for TreeCore {
    fn tables(&self) -> &Kernel {
        &self.mirror.tables
    }

    fn tables_mut(&mut self) -> &mut Kernel {
        &mut self.mirror.tables
    }

    fn fault(&self) -> Option<String> {
        self.fault.clone()
    }

    fn printed(&self) -> &[String] {
        self.tree.log()
    }

    fn settle(&mut self) {
        for row in 0..self.pids.len() {
            if self.mirror.tables.tasks[row].state != TaskState::Dead {
                self.read_charge(TaskId::from(row));
            }
        }
        for row in 0..self.mirror.tables.groups.len() {
            let read = |member: &str| {
                let member = format!("cfs_bandwidth.{member}");
                let value = self.tree.read(Object::Group(row as i32), &member);
                value.unwrap_or(0) as u64
            };
            self.mirror.tables.groups[row].bandwidth.stat = BandwidthStat {
                nr_periods: read("nr_periods"),
                nr_throttled: read("nr_throttled"),
                throttled_time_ns: read("throttled_time"),
                nr_bursts: read("nr_burst"),
                burst_time_ns: read("burst_time"),
            };
        }
    }

    fn run(world: &mut Simulated<false, Self>, until: Ns) -> Result<(), RunError> {
        world.advance(until)
    }

    fn run_on(world: &mut Simulated<false, Self>, until: Ns) -> Result<(), RunError> {
        world.handle_events(until)
    }

    fn set_period_phase(&mut self, group: GroupId, phase_ns: Ns) {
        let first = phase_ns + self.mirror.uptime_ns;
        let arguments = [i64::from(group.0), first as i64];
        let now = self.now + self.mirror.uptime_ns;
        let result = self.tree.run(0, now, Call::GroupPhase, &arguments);
        if let Err(error) = result {
            self.fault = Some(error.to_string());
        }
        self.mirror.tables.groups[group.index()]
            .bandwidth
            .expires_ns = phase_ns;
    }

    fn name_task(&mut self, task: TaskId, name: &str) {
        self.names[task.index()] = comm(name);
    }

    /// Timers that the C armed while it booted and warmed up go on in the run.
    fn begin<P: Platform>(&mut self, p: &mut P) {
        for cpu in 0..self.inside.len() {
            let at = self.tree.timer(cpu);
            if at != Ns::MAX {
                let cpu = Cpu::from(cpu);
                let at = at.saturating_sub(self.mirror.uptime_ns);
                p.arm(cpu, Timer::FairServer(cpu), at);
            }
        }
    }

    /// The prices of an interrupt before its first handler are the interrupt's. Where no time of
    /// interrupts is taken, the first handler enters it. The way out leaves it.
    fn irq_enter<P: Platform>(&mut self, p: &P, cpu: Cpu) {
        if self.fault.is_some() || !self.mirror.tables.rules.irq_time_accounting {
            return;
        }
        self.inside[cpu.index()] = true;
        let now = p.now(cpu) + self.mirror.uptime_ns;
        let call = (Call::IrqEnter, true);
        if let Err(error) = self.tree.run_call(cpu.index(), now, call, &[]) {
            self.fault = Some(error.to_string());
        }
    }

    fn tick<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        p.spend(cpu, Op::Tick, 1);
        self.enter(p, cpu, Call::Tick, &[]);
        if self.tree.tick_runs(cpu.index()) {
            let next = self.mirror.tables.next_tick(p.now(cpu));
            p.arm(cpu, Timer::Tick(cpu), next);
        }
    }

    fn ipi<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        p.spend(cpu, Op::IpiReceive, 1);
        for call in std::mem::take(&mut self.mirror.pending[cpu.index()]) {
            self.enter(p, cpu, call, &[]);
        }
    }

    /// The clock event device of a CPU, which stands for all timers of the C but that of a slice.
    fn fair_server_timer<P: Platform>(&mut self, p: &mut P, cpu: Cpu, _: Cpu) {
        self.tree.timer_fired(cpu.index());
        self.enter(p, cpu, Call::Timer, &[]);
    }

    fn fair_server_inactive_timer<P: Platform>(&mut self, _: &mut P, _: Cpu, _: Cpu) {}

    fn hrtick_timer<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        self.fair_server_timer(p, cpu, cpu);
    }

    fn dl_timer<P: Platform>(&mut self, _: &mut P, _: Cpu, _: TaskId) {}

    fn dl_inactive_timer<P: Platform>(&mut self, _: &mut P, _: Cpu, _: TaskId) {}

    fn rt_period_timer<P: Platform>(&mut self, _: &mut P, _: Cpu) {}

    fn period_timer<P: Platform>(&mut self, _: &mut P, _: Cpu, _: GroupId) {}

    fn slack_timer<P: Platform>(&mut self, _: &mut P, _: Cpu, _: GroupId) {}

    fn wake<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId, flags: WakeFlags) -> bool {
        let record = &mut self.mirror.tables.tasks[task.index()];
        if record.state != TaskState::Blocked {
            return false;
        }
        record.state = TaskState::Waking;
        p.spend(cpu, Op::Wakeup, 1);
        let call = match flags.context {
            Context::Task => Call::Wake,
            Context::HardIrq | Context::SoftIrq => Call::IrqWake,
        };
        let arguments = [self.pid(task), i64::from(flags.sync)];
        self.enter(p, cpu, call, &arguments);
        true
    }

    fn wake_up_new_task<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        self.make(p.now(cpu), cpu, task, false);
        self.enter(p, cpu, Call::Start, &[self.pid(task)]);
    }

    fn block<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let task = self.mirror.tables.current(cpu);
        self.mirror.tables.tasks[task.index()].state = TaskState::Blocked;
        p.spend(cpu, Op::Block, 1);
        self.pass(p, cpu, Call::Block);
    }

    fn yield_current<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        self.pass(p, cpu, Call::Yield);
    }

    fn exit<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        p.spend(cpu, Op::Exit, 1);
        let task = self.mirror.tables.current(cpu);
        self.mirror.tables.tasks[task.index()].state = TaskState::Dead;
        self.pass(p, cpu, Call::Exit);
        self.read_charge(task);
        self.pids[task.index()] = NONE;
    }

    fn leave_kernel<P: Platform>(&mut self, p: &mut P, cpu: Cpu) -> TaskId {
        loop {
            // Other CPUs may have asked for a switch since this one entered the kernel for
            // something else.
            if self.inside[cpu.index()] || self.tree.has_to_leave(cpu.index()) {
                self.pass(p, cpu, Call::Nothing);
            }
            // Interrupts that a CPU sends itself take place at once.
            let own = self.mirror.pending[cpu.index()]
                .iter()
                .position(|call| *call == Call::IrqWork);
            let Some(row) = own.filter(|_| self.fault.is_none()) else {
                break;
            };
            let call = self.mirror.pending[cpu.index()].remove(row);
            self.enter(p, cpu, call, &[]);
        }
        self.mirror.tables.current(cpu)
    }

    fn task_sched_runtime<P: Platform>(&mut self, p: &mut P, cpu: Cpu) -> Ns {
        let ns = self.enter(p, cpu, Call::CpuTime, &[]);
        ns.unwrap_or(0) as Ns
    }

    fn set_nice<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId, nice: i32) {
        self.mirror.tables.tasks[task.index()].nice = nice;
        let arguments = [self.pid(task), i64::from(nice)];
        self.enter(p, cpu, Call::Nice, &arguments);
    }

    fn set_policy<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        policy: Policy,
        nice: i32,
        rt_priority: u8,
    ) {
        let record = &mut self.mirror.tables.tasks[task.index()];
        (record.policy, record.nice, record.rt_priority) = (policy, nice, rt_priority);
        self.set_policy_of(p, cpu, task, 0);
    }

    fn set_deadline<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        asked: Reservation,
    ) -> Result<(), Refused> {
        let times = [asked.runtime_ns, asked.deadline_ns, asked.period_ns];
        let [runtime, deadline, period] = times.map(|ns| ns as i64);
        let (pid, reclaims) = (self.pid(task), i64::from(asked.reclaims));
        let number = i64::from(policy_number(Policy::Deadline));
        let arguments = [pid, number, 0, 0, runtime, deadline, period, reclaims];
        let set = self.enter(p, cpu, Call::Policy, &arguments);
        if let Some(code @ ..0) = set {
            self.fault = Some(format!("the tree refuses {asked:?}: error {code}"));
        }
        self.mirror.tables.tasks[task.index()].policy = Policy::Deadline;
        Ok(())
    }

    fn set_custom_slice<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        slice_ns: Option<Ns>,
    ) {
        if self.mirror.tables.rules.custom_slices {
            self.set_policy_of(p, cpu, task, slice_ns.unwrap_or(0));
        }
    }

    fn set_clamps<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        wish: Clamps<Wish>,
    ) -> Result<(), uclamp::Refused> {
        let asked = self.mirror.tables.check_clamps(task, wish)?;
        self.mirror.tables.tasks[task.index()].clamps_asked = asked;
        // The C of a deadline task has no use for them.
        if self.mirror.tables.tasks[task.index()].policy != Policy::Deadline {
            let Clamps { min, max } = wish.map(clamp_number);
            self.enter(p, cpu, Call::Clamps, &[self.pid(task), min, max]);
        }
        Ok(())
    }

    fn set_affinity<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId, affinity: CpuSet) {
        let arguments = [self.pid(task), mask(&affinity) as i64];
        let record = &mut self.mirror.tables.tasks[task.index()];
        record.nr_cpus_allowed = affinity.len() as u32;
        record.affinity = affinity;
        self.enter(p, cpu, Call::Affinity, &arguments);
    }

    fn set_group<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId, group: GroupId) {
        if self.mirror.tables.tasks[task.index()].group == group {
            return;
        }
        let arguments = [self.pid(task), i64::from(group.0)];
        self.enter(p, cpu, Call::Move, &arguments);
        self.read_charge(task);
        self.mirror.tables.tasks[task.index()].group = group;
    }

    fn set_latency_limit<P: Platform>(&mut self, _: &mut P, _: Cpu, _: TaskId, _: Option<Ns>) {}

    fn group_create<P: Platform>(&mut self, p: &mut P, parent: GroupId) -> GroupId {
        let group = self.mirror.tables.group_create(p, parent);
        self.mirror.phase_ns = self.mirror.tables.groups[group.index()]
            .bandwidth
            .expires_ns;
        let made = self.enter(p, Cpu(0), Call::GroupNew, &[i64::from(parent.0)]);
        if made.is_some_and(|made| made != i64::from(group.0)) {
            self.fault = Some(format!("the tree made no group below number {}", parent.0));
        }
        self.set_period_phase(group, self.mirror.phase_ns);
        group
    }

    fn group_set_bandwidth<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        group: GroupId,
        limit: BandwidthLimit,
        hierarchy: Hierarchy,
    ) -> Result<(), LimitError> {
        let tables = &mut self.mirror.tables;
        tables.group_set_bandwidth(&mut Nowhere(p.now(cpu)), cpu, group, limit, hierarchy)?;
        let quota = limit.quota_ns.map_or(-1, |quota| quota as i64);
        let (period, burst) = (limit.period_ns as i64, limit.burst_ns as i64);
        let arguments = [i64::from(group.0), period, quota, burst];
        let set = self.enter(p, cpu, Call::GroupLimit, &arguments);
        if let Some(code @ ..0) = set {
            self.fault = Some(format!(
                "the tree refuses the limit {limit:?}: error {code}"
            ));
        }
        Ok(())
    }

    fn group_set_shares<P: Platform>(&mut self, p: &mut P, cpu: Cpu, group: GroupId, shares: u64) {
        let arguments = [i64::from(group.0), shares as i64];
        self.enter(p, cpu, Call::GroupWeight, &arguments);
    }

    fn group_set_idle<P: Platform>(&mut self, p: &mut P, cpu: Cpu, group: GroupId, idle: bool) {
        self.mirror.tables.groups[group.index()].idle = idle;
        let arguments = [i64::from(group.0), i64::from(idle)];
        self.enter(p, cpu, Call::GroupIdle, &arguments);
    }

    fn group_set_clamps<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        group: GroupId,
        asked: Clamps<u32>,
    ) {
        if self.mirror.tables.rules.uclamp {
            let Clamps { min, max } = asked.map(i64::from);
            self.enter(p, cpu, Call::GroupClamps, &[i64::from(group.0), min, max]);
        }
    }

    fn register_frequency_driver<P: Platform>(&mut self, _: &mut P, _: FrequencyDriver) {}

    fn task_create(&mut self, attributes: TaskAttributes) -> TaskId {
        let task = self.mirror.tables.task_create(attributes);
        let rows = self.mirror.tables.tasks.len();
        self.pids.resize(rows, NONE);
        self.parents.resize(rows, NONE);
        self.names.resize(rows, [0; COMM]);
        self.pids[task.index()] = NONE;
        self.parents[task.index()] = NONE;
        task
    }

    fn task_reap(&mut self, task: TaskId) {
        self.mirror.tables.task_reap(task);
    }

    fn adopt_sleeper(&mut self, cpu: Cpu, task: TaskId) {
        self.make(0, cpu, task, true);
        self.mirror.tables.adopt_sleeper(cpu, task);
    }

    fn ask_clamps(&mut self, task: TaskId, asked: Clamps<Option<u32>>) {
        self.mirror.tables.ask_clamps(task, asked);
    }

    fn inherit_wakees(&mut self, parent: TaskId, child: TaskId) {
        self.parents[child.index()] = self.pids[parent.index()];
    }

    fn idle_woken(&mut self, _: Cpu, _: Ns, _: bool) {}

    fn steal(&mut self, cpu: Cpu, steal_ns: Ns) {
        self.tree.steal(cpu.index(), steal_ns);
    }

    fn register_idle_states(&mut self, _: Vec<IdleState>, _: GovernorKind) {}

    fn set_rules(&mut self, rules: Rules) {
        self.mirror.tables.set_rules(rules);
    }

    fn set_wakeup_mark(&mut self, _: Ns) {}

    fn set_newidle_ratio(&mut self, _: u32) {}
}

/// A wish as the C is told of it.
pub(crate) fn clamp_number(wish: Wish) -> i64 {
    match wish {
        Wish::Keep => -2,
        Wish::Reset => -1,
        Wish::Set(value) => value.into(),
    }
}

fn mask(set: &CpuSet) -> u64 {
    set.iter().fold(0, |bits, cpu| bits | 1 << cpu.0)
}
