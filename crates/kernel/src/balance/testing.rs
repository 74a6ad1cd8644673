//! A small world for tests: hogs and periodic tasks on a kernel, in virtual time, every cost 0 unless
//! a price is set.

use std::collections::BTreeMap;

use crate::cpuset::CpuSet;
use crate::ids::{Cpu, GroupId, Ns, TaskId};
use crate::kernel::{Context, Kernel, WakeFlags};
use crate::platform::{Access, Draw, Ipi, Line, Observation, Op, Platform, Timer};
use crate::rules::{Rules, Version};
use crate::task::{Policy, TaskAttributes, TaskState};
use crate::topology::Topology;

/// Time for an interrupt to arrive.
const IPI_NS: Ns = 1_000;

/// Clock, timers and interrupts.
#[derive(Clone, Default)]
pub(crate) struct TestPlatform {
    pub time: Ns,
    cursors: Vec<Ns>,
    pub prices: BTreeMap<u8, Ns>,
    pub spent: BTreeMap<u8, u32>,
    pub touched: Vec<(Line, Access)>,
    timers: Vec<(Timer, Cpu, Ns)>,
    ipis: Vec<(Ns, Cpu)>,
    pub migrations: Vec<(TaskId, Cpu, Cpu)>,
}

impl TestPlatform {
    pub fn new(cpus: usize) -> Self {
        Self {
            cursors: vec![0; cpus],
            ..Self::default()
        }
    }

    pub fn spent(&self, op: Op) -> u32 {
        self.spent.get(&(op as u8)).copied().unwrap_or(0)
    }
}

impl Platform for TestPlatform {
    fn now(&self, cpu: Cpu) -> Ns {
        self.time.max(self.cursors[cpu.index()])
    }
    fn spend(&mut self, cpu: Cpu, op: Op, count: u32) {
        let price = self.prices.get(&(op as u8)).copied().unwrap_or(0);
        self.cursors[cpu.index()] = self.now(cpu) + price * u64::from(count);
        *self.spent.entry(op as u8).or_default() += count;
    }
    fn touch(&mut self, _cpu: Cpu, line: Line, access: Access) {
        self.touched.push((line, access));
    }
    fn arm(&mut self, cpu: Cpu, timer: Timer, at: Ns) {
        self.cancel(timer);
        self.timers.push((timer, cpu, at));
    }
    fn cancel(&mut self, timer: Timer) {
        self.timers.retain(|(other, ..)| *other != timer);
    }
    fn send_ipi(&mut self, from: Cpu, to: Cpu, _ipi: Ipi, _polling: bool) {
        self.ipis.push((self.now(from) + IPI_NS, to));
    }
    fn random(&mut self, _draw: Draw) -> u64 {
        0
    }
    fn next_timer(&self, _cpu: Cpu) -> Ns {
        Ns::MAX
    }
    fn observe(&mut self, _cpu: Cpu, observation: Observation) {
        if let Observation::Migrate { task, from, to } = observation {
            self.migrations.push((task, from, to));
        }
    }
}

/// What a task does: runs, then sleeps, again and again. A hog never sleeps.
#[derive(Clone, Copy)]
struct Program {
    run_ns: Ns,
    sleep_ns: Ns,
    left_ns: Ns,
}

/// Kernel, platform and programs.
#[derive(Clone)]
pub(crate) struct World {
    pub kernel: Kernel,
    pub p: TestPlatform,
    programs: BTreeMap<TaskId, Program>,
    wakeups: Vec<(Ns, TaskId)>,
    since: Vec<Ns>,
    pub ran_ns: BTreeMap<TaskId, Ns>,
}

enum Event {
    Timer(Timer, Cpu),
    Ipi(Cpu),
    Done(Cpu),
    Wake(TaskId),
}

impl World {
    pub fn new(topology: Topology, version: Version, hz: u32) -> Self {
        let cpus = topology.cpus();
        let rules = Rules::of(version, cpus as u32, hz);
        Self {
            kernel: Kernel::new(topology, rules),
            p: TestPlatform::new(cpus),
            programs: BTreeMap::new(),
            wakeups: Vec::new(),
            since: vec![0; cpus],
            ran_ns: BTreeMap::new(),
        }
    }

    /// A task that exists and sleeps, without a program.
    pub fn sleeper(&mut self, cpu: u32) -> TaskId {
        let task = self.task(cpu, CpuSet::first(self.kernel.cpus()), Policy::Normal);
        self.kernel.tasks[task.index()].state = TaskState::Blocked;
        task
    }

    fn task(&mut self, cpu: u32, affinity: CpuSet, policy: Policy) -> TaskId {
        self.kernel.task_create(TaskAttributes {
            policy,
            nice: 0,
            rt_priority: 0,
            affinity,
            group: GroupId::ROOT,
            address_space: Some(1),
            custom_slice_ns: None,
            cpu: Cpu(cpu),
        })
    }

    /// Starts a task from CPU `cpu`; `sleep_ns` 0 makes a hog.
    pub fn start(&mut self, cpu: u32, affinity: CpuSet, run_ns: Ns, sleep_ns: Ns) -> TaskId {
        let task = self.task(cpu, affinity, Policy::Normal);
        self.programs.insert(
            task,
            Program {
                run_ns,
                sleep_ns,
                left_ns: run_ns,
            },
        );
        self.charge(Cpu(cpu));
        self.kernel.wake_up_new_task(&mut self.p, Cpu(cpu), task);
        self.kernel.leave_kernel(&mut self.p, Cpu(cpu));
        task
    }

    pub fn hog(&mut self, cpu: u32) -> TaskId {
        self.start(cpu, CpuSet::first(self.kernel.cpus()), Ns::MAX / 4, 0)
    }

    /// CPU a task is on.
    pub fn cpu_of(&self, task: TaskId) -> u32 {
        self.kernel.tasks[task.index()].cpu.0
    }

    fn charge(&mut self, cpu: Cpu) {
        let now = self.p.time;
        let ran = now - std::mem::replace(&mut self.since[cpu.index()], now);
        let curr = self.kernel.current(cpu);
        if let Some(program) = self.programs.get_mut(&curr) {
            program.left_ns = program.left_ns.saturating_sub(ran);
            *self.ran_ns.entry(curr).or_default() += ran;
        }
    }

    fn next_event(&self) -> (Ns, Event) {
        let mut next = (Ns::MAX, Event::Done(Cpu(0)));
        let mut offer = |at: Ns, event: Event| {
            if at < next.0 {
                next = (at, event);
            }
        };
        for &(timer, cpu, at) in &self.p.timers {
            offer(at, Event::Timer(timer, cpu));
        }
        for &(at, cpu) in &self.p.ipis {
            offer(at, Event::Ipi(cpu));
        }
        for &(at, task) in &self.wakeups {
            offer(at, Event::Wake(task));
        }
        for cpu in (0..self.kernel.cpus()).map(Cpu::from) {
            if let Some(program) = self.programs.get(&self.kernel.current(cpu)) {
                offer(
                    self.since[cpu.index()].saturating_add(program.left_ns),
                    Event::Done(cpu),
                );
            }
        }
        next
    }

    /// Runs until `end`; `check` sees the world after every event.
    pub fn run_until(&mut self, end: Ns, mut check: impl FnMut(&World)) {
        loop {
            let (at, event) = self.next_event();
            if at > end {
                break;
            }
            self.p.time = self.p.time.max(at);
            self.handle(at, event);
            check(self);
        }
        self.p.time = end;
        for cpu in 0..self.kernel.cpus() {
            self.charge(Cpu::from(cpu));
        }
    }

    fn handle(&mut self, at: Ns, event: Event) {
        let cpu = match event {
            Event::Timer(timer, cpu) => {
                self.p.cancel(timer);
                self.charge(cpu);
                if let Timer::Tick(_) = timer {
                    self.kernel.tick(&mut self.p, cpu);
                }
                cpu
            }
            Event::Ipi(cpu) => {
                let place = self.p.ipis.iter().position(|&ipi| ipi == (at, cpu));
                self.p.ipis.remove(place.unwrap());
                self.charge(cpu);
                self.kernel.ipi(&mut self.p, cpu);
                cpu
            }
            Event::Done(cpu) => {
                self.charge(cpu);
                let task = self.kernel.current(cpu);
                let program = self.programs.get_mut(&task).unwrap();
                program.left_ns = program.run_ns;
                self.wakeups.push((self.p.time + program.sleep_ns, task));
                self.kernel.block(&mut self.p, cpu);
                cpu
            }
            Event::Wake(task) => {
                self.wakeups.retain(|&(_, other)| other != task);
                let cpu = self.kernel.tasks[task.index()].cpu;
                self.charge(cpu);
                let flags = WakeFlags {
                    sync: false,
                    context: Context::HardIrq,
                };
                self.kernel.wake(&mut self.p, cpu, task, flags);
                cpu
            }
        };
        self.kernel.leave_kernel(&mut self.p, cpu);
        self.since[cpu.index()] = self.p.time;
    }

    /// Makes a CPU look busy with a task of its own, without going through a queue.
    pub fn set_busy(&mut self, cpu: u32) {
        let task = self.task(cpu, CpuSet::of(Cpu(cpu)), Policy::Normal);
        self.kernel.rqs[cpu as usize].curr = task;
        self.kernel.tasks[task.index()].on_cpu = true;
        self.kernel.add_nr_running(Cpu(cpu), 1);
    }

    /// Undoes [`World::set_busy`].
    pub fn set_idle(&mut self, cpu: u32) {
        let rq = &mut self.kernel.rqs[cpu as usize];
        rq.curr = rq.idle;
        self.kernel.sub_nr_running(Cpu(cpu), 1);
    }
}

/// A version by its numbers.
pub(crate) const fn v(major: u16, minor: u16) -> Version {
    Version::new(major, minor)
}
