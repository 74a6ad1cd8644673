//! State of every thread, followed through a run.

use schedcast_kernel::platform::{Observation, PrevState};
use schedcast_kernel::task::Policy;
use schedcast_kernel::{Cpu, GroupId, Ns, TaskId};
use schedcast_sim::events::{TraceEvent, TraceKind};
use schedcast_sim::{Watch, World};
use schedcast_trace::perfetto::write::NORMAL_PRIORITY;

/// State of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Sleeps, or is gone.
    Asleep,
    /// Waits for a CPU that another thread has.
    Waiting,
    /// Waits because its group or one above it is throttled on its CPU.
    Throttled,
    /// Has this CPU.
    Running(Cpu),
}

/// A thread, from its start to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thread {
    /// Number of its own: rows of tasks are used again, these are not.
    pub tid: u64,
    /// Name.
    pub name: String,
    /// Group.
    pub group: GroupId,
    /// Priority as tracepoints print it (`task_struct.prio`), after the last step.
    pub prio: i32,
    /// It was forked and has not been runnable yet.
    pub is_new: bool,
    /// Present state.
    pub state: State,
    /// Since when, ns.
    pub since_ns: Ns,
    /// CPU it runs on, waits on or ran on last.
    pub cpu: Cpu,
    /// When it was last woken.
    pub active_since_ns: Ns,
    /// CPU time it has used since then, ns.
    pub active_used_ns: Ns,
    /// Up to when its CPU time is counted.
    counted_ns: Ns,
}

/// One expiry of a group's period timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Period {
    /// When.
    pub at_ns: Ns,
    /// Group.
    pub group: GroupId,
    /// Runtime that the pool still had, ns.
    pub pool_before_ns: i64,
    /// Runtime in the pool after the refill, ns.
    pub pool_after_ns: i64,
    /// CPU time the group used since the expiry before, children included, ns.
    pub used_ns: Ns,
    /// Time its queues were throttled since then, summed over CPUs, ns.
    pub throttled_ns: Ns,
}

/// Receiver of the events that are drawn of a run. All times in nanoseconds of virtual time.
pub trait Picture {
    /// The machine and its groups, before anything happens. Group `n` is row `n` of `paths`, the
    /// root included.
    fn begins(&mut self, _cpus: usize, _paths: &[String], _parents: &[Option<GroupId>]) {}
    /// A thread began to exist.
    fn starts(&mut self, _at: Ns, _thread: &Thread) {}
    /// A thread does something else; `thread` is as it was until now.
    fn changes(&mut self, _at: Ns, _thread: &Thread, _to: State) {}
    /// A thread that was woken is done; or, with `done` false, the run is over before it is.
    fn activation(&mut self, _at: Ns, _thread: &Thread, _done: bool) {}
    /// A CPU switches; `None` is its idle task or a kernel thread.
    fn switch(
        &mut self,
        _at: Ns,
        _cpu: Cpu,
        _prev: Option<&Thread>,
        _state: PrevState,
        _next: Option<&Thread>,
    ) {
    }
    /// A sleeping thread is woken on `cpu`, by another thread or by an interrupt (`None`).
    fn waking(&mut self, _at: Ns, _cpu: Cpu, _waker: Option<&Thread>, _thread: &Thread) {}
    /// A woken thread is on the queue of `target`.
    fn wakeup(&mut self, _at: Ns, _cpu: Cpu, _thread: &Thread, _target: Cpu) {}
    /// A thread is moved from one CPU to another, by `cpu`.
    fn migrate(&mut self, _at: Ns, _cpu: Cpu, _thread: &Thread, _cpus: [Cpu; 2]) {}
    /// The queue of a group on a CPU is throttled from now on, or no longer.
    fn throttle(&mut self, _at: Ns, _group: GroupId, _cpu: Cpu, _throttled: bool) {}
    /// A period of a group is over.
    fn period(&mut self, _period: &Period) {}
    /// The clock of a CPU changes.
    fn frequency(&mut self, _at: Ns, _cpu: Cpu, _mhz: u32) {}
    /// A CPU enters an idle state.
    fn idle(&mut self, _at: Ns, _cpu: Cpu, _state: usize) {}
    /// A step is over; `world` is as it is after it.
    fn step(&mut self, _world: &mut World) {}
    /// A step is over; row `n` of `threads` is the kernel's task `n`.
    fn threads(&mut self, _world: &World, _threads: &[Option<Thread>]) {}
}

/// Priority of a task as tracepoints print it.
fn prio(world: &World, task: TaskId) -> i32 {
    let Some(row) = world.kernel().tasks.get(task.index()) else {
        return NORMAL_PRIORITY;
    };
    match row.policy {
        Policy::Deadline => -1,
        policy if policy.is_rt() => 99 - i32::from(row.rt_priority),
        _ => NORMAL_PRIORITY + row.nice,
    }
}

/// Follows a run and tells a picture.
#[derive(Debug)]
pub struct Follow<P> {
    /// Receiver of the events.
    pub picture: P,
    begun: bool,
    closing: bool,
    cpus: usize,
    parents: Vec<Option<GroupId>>,
    threads: Vec<Option<Thread>>,
    next_tid: u64,
    current: Vec<Option<TaskId>>,
    /// Since when each (group, CPU) queue is throttled.
    throttled_since: Vec<Option<Ns>>,
    /// Per group since its last period.
    used_ns: Vec<Ns>,
    throttled_ns: Vec<Ns>,
}

/// The first thread's number; numbers below stand for groups.
pub(crate) const FIRST_TID: u64 = 10_000;

impl<P: Picture> Follow<P> {
    /// Nothing seen yet.
    pub fn new(picture: P) -> Self {
        Self {
            picture,
            begun: false,
            closing: false,
            cpus: 0,
            parents: Vec::new(),
            threads: Vec::new(),
            next_tid: FIRST_TID,
            current: Vec::new(),
            throttled_since: Vec::new(),
            used_ns: Vec::new(),
            throttled_ns: Vec::new(),
        }
    }

    fn begin(&mut self, world: &World) {
        self.begun = true;
        let kernel = world.kernel();
        self.cpus = kernel.cpus();
        let specs = &world.workload().groups;
        let mut paths = vec!["/".to_string()];
        paths.extend(specs.iter().map(|spec| spec.path.clone()));
        self.parents = vec![None];
        self.parents
            .extend(specs.iter().map(|spec| Some(spec.parent)));
        self.current = vec![None; self.cpus];
        self.throttled_since = vec![None; paths.len() * self.cpus];
        self.used_ns = vec![0; paths.len()];
        self.throttled_ns = vec![0; paths.len()];
        self.picture.begins(self.cpus, &paths, &self.parents);
    }

    /// The groups of a path to the root, from `group` up.
    fn ancestors(&self, group: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        std::iter::successors(Some(group), |group| self.parents[group.index()])
    }

    fn is_throttled(&self, group: GroupId, cpu: Cpu) -> bool {
        let on = |group: GroupId| self.throttled_since[group.index() * self.cpus + cpu.index()];
        self.ancestors(group).any(|group| on(group).is_some())
    }

    fn start(&mut self, world: &World, at: Ns, task: TaskId) {
        if task.index() >= self.threads.len() {
            self.threads.resize(task.index() + 1, None);
        }
        let group = world
            .kernel()
            .tasks
            .get(task.index())
            .map_or(GroupId::ROOT, |row| row.group);
        let thread = Thread {
            tid: self.next_tid,
            name: world.task_name(task).to_owned(),
            group,
            prio: prio(world, task),
            is_new: true,
            state: State::Asleep,
            since_ns: at,
            cpu: Cpu(0),
            active_since_ns: at,
            active_used_ns: 0,
            counted_ns: at,
        };
        self.next_tid += 1;
        self.picture.starts(at, &thread);
        self.threads[task.index()] = Some(thread);
    }

    /// A thread does something else. Observations of different CPUs may overlap by the length of an
    /// operation; time never runs backwards for a thread.
    fn change(&mut self, at: Ns, task: TaskId, to: State) {
        let Some(Some(thread)) = self.threads.get_mut(task.index()) else {
            return;
        };
        let at = at.max(thread.since_ns);
        if let (State::Running(_), group) = (thread.state, thread.group) {
            let ran = at.saturating_sub(thread.counted_ns);
            thread.active_used_ns += ran;
            let mut above = Some(group);
            while let Some(group) = above {
                self.used_ns[group.index()] += ran;
                above = self.parents[group.index()];
            }
        }
        thread.counted_ns = at.max(thread.counted_ns);
        if thread.state == to {
            return;
        }
        if thread.state == State::Asleep {
            thread.active_since_ns = at;
            thread.active_used_ns = 0;
        }
        if to == State::Asleep {
            self.picture.activation(at, thread, !self.closing);
        }
        self.picture.changes(at, thread, to);
        thread.state = to;
        thread.since_ns = at;
        if let State::Running(cpu) = to {
            thread.cpu = cpu;
        }
    }

    /// A runnable thread waits on `cpu`.
    fn wait(&mut self, at: Ns, task: TaskId, cpu: Cpu) {
        let Some(Some(thread)) = self.threads.get_mut(task.index()) else {
            return;
        };
        thread.cpu = cpu;
        let group = thread.group;
        let to = if self.is_throttled(group, cpu) {
            State::Throttled
        } else {
            State::Waiting
        };
        self.change(at, task, to);
    }

    fn is_waiting(&self, task: TaskId) -> bool {
        let state = self.thread(Some(task)).map(|thread| thread.state);
        matches!(state, Some(State::Waiting | State::Throttled))
    }

    fn thread(&self, task: Option<TaskId>) -> Option<&Thread> {
        self.threads.get(task?.index())?.as_ref()
    }

    fn switch(&mut self, at: Ns, cpu: Cpu, prev: TaskId, state: PrevState, next: TaskId) {
        let threads = &self.threads;
        let find = |task: TaskId| threads.get(task.index())?.as_ref();
        self.picture.switch(at, cpu, find(prev), state, find(next));
        match state {
            PrevState::Runnable | PrevState::Throttled => self.wait(at, prev, cpu),
            PrevState::Blocked | PrevState::Dead => self.change(at, prev, State::Asleep),
        }
        self.change(at, next, State::Running(cpu));
        self.current[cpu.index()] = Some(next);
    }

    fn throttle(&mut self, at: Ns, group: GroupId, cpu: Cpu, throttled: bool) {
        let row = group.index() * self.cpus + cpu.index();
        let since = self.throttled_since[row];
        if since.is_some() == throttled {
            return;
        }
        self.throttled_since[row] = throttled.then_some(at);
        if let Some(since) = since {
            self.throttled_ns[group.index()] += at.saturating_sub(since);
        }
        self.picture.throttle(at, group, cpu, throttled);
        for index in 0..self.threads.len() {
            let task = TaskId::from(index);
            let here = self.thread(Some(task)).is_some_and(|thread| {
                thread.cpu == cpu && self.ancestors(thread.group).any(|above| above == group)
            });
            if here && self.is_waiting(task) {
                self.wait(at, task, cpu);
            }
        }
    }

    /// The run is over at `at`: whatever threads do ends.
    pub(crate) fn close(&mut self, at: Ns) {
        self.closing = true;
        for row in 0..self.threads.len() {
            let task = TaskId::from(row);
            if self
                .thread(Some(task))
                .is_some_and(|thread| thread.state != State::Asleep)
            {
                self.change(at, task, State::Asleep);
            }
        }
    }

    /// Counts what runs and what is throttled up to now.
    fn settle(&mut self, at: Ns) {
        for cpu in 0..self.cpus {
            if let Some(task) = self.current[cpu]
                && let Some(state) = self.thread(Some(task)).map(|thread| thread.state)
            {
                self.change(at, task, state);
            }
        }
        for (row, since) in self.throttled_since.iter_mut().enumerate() {
            if let Some(since) = since {
                self.throttled_ns[row / self.cpus] += at.saturating_sub(*since);
                *since = at.max(*since);
            }
        }
    }

    fn period(&mut self, at: Ns, group: GroupId, pool_before_ns: i64, pool_after_ns: i64) {
        self.settle(at);
        let period = Period {
            at_ns: at,
            group,
            pool_before_ns,
            pool_after_ns,
            used_ns: std::mem::take(&mut self.used_ns[group.index()]),
            throttled_ns: std::mem::take(&mut self.throttled_ns[group.index()]),
        };
        self.picture.period(&period);
    }

    fn observation(&mut self, at: Ns, cpu: Cpu, observation: Observation) {
        match observation {
            Observation::Switch { prev, state, next } => self.switch(at, cpu, prev, state, next),
            Observation::Wakeup { task, cpu: target } => {
                if let Some(Some(thread)) = self.threads.get_mut(task.index()) {
                    self.picture.wakeup(at, cpu, thread, target);
                    thread.is_new = false;
                }
                self.wait(at, task, target);
            }
            Observation::Migrate { task, from, to } => {
                if let Some(Some(thread)) = self.threads.get(task.index()) {
                    self.picture.migrate(at, cpu, thread, [from, to]);
                }
                if self.is_waiting(task) {
                    self.wait(at, task, to);
                }
            }
            // Kernel trees have no pictures.
            Observation::Place { .. } => {}
            Observation::Throttle { group, cpu } => self.throttle(at, group, cpu, true),
            Observation::Unthrottle { group, cpu } => self.throttle(at, group, cpu, false),
            Observation::Period {
                group,
                pool_before_ns,
                pool_after_ns,
                ..
            } => self.period(at, group, pool_before_ns, pool_after_ns),
        }
    }
}

impl<P: Picture> Watch for Follow<P> {
    fn events(&mut self, world: &mut World, events: &[TraceEvent]) {
        if !self.begun {
            self.begin(world);
        }
        for (row, thread) in self.threads.iter_mut().enumerate() {
            if let Some(thread) = thread {
                thread.prio = prio(world, TaskId::from(row));
            }
        }
        for event in events {
            let (at, cpu) = (event.time, event.cpu);
            match event.event {
                TraceKind::Kernel(observation) => self.observation(at, cpu, observation),
                TraceKind::Waking { task, waker } => {
                    let threads = &self.threads;
                    let find = |task: TaskId| threads.get(task.index())?.as_ref();
                    if let Some(thread) = find(task) {
                        let waker = waker.and_then(find);
                        self.picture.waking(at, cpu, waker, thread);
                        let last_cpu = thread.cpu;
                        if let Some(Some(thread)) = self.threads.get_mut(task.index()) {
                            thread.is_new = false;
                        }
                        self.wait(at, task, last_cpu);
                    }
                }
                TraceKind::Start { task } => self.start(world, at, task),
                TraceKind::Frequency { mhz } => self.picture.frequency(at, cpu, mhz),
                TraceKind::Idle { state } => self.picture.idle(at, cpu, state),
            }
        }
        self.picture.threads(world, &self.threads);
        self.picture.step(world);
    }
}
