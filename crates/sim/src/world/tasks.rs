//! Activity of every task, and the objects tasks share.

use crate::program::ObjectId;
use crate::random::Stream;
use crate::segment::Segment;
use crate::waiting::{QueueNumber, Waiting};
use crate::wheel::Slot;
use crate::workload::{
    BarrierId, ConditionId, MutexId, QueueCosts, QueueId, SemaphoreId, WordId, Workload,
};
use schedcast_kernel::table::Table;
use schedcast_kernel::{Cpu, Ns, TaskId};
use std::collections::VecDeque;

/// Where a task's name is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Name {
    /// None of the workload: idle tasks and migration threads.
    #[default]
    Kernel,
    /// Row of `workload.tasks`.
    Spec(u32),
    /// Row of `workload.forks`.
    Fork(u32),
}

impl Name {
    /// As it is written in a workload.
    pub(crate) fn of(self, workload: &Workload) -> &str {
        match self {
            Self::Kernel => "migration",
            Self::Spec(row) => &workload.tasks[row as usize].name,
            Self::Fork(row) => &workload.forks[row as usize].name,
        }
    }
}

/// Where a task that blocked in the middle of an instruction goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Resume {
    /// With the next instruction, or at the beginning of this one.
    #[default]
    Afresh,
    /// It is inside this instruction: woken, it tries again.
    Retry,
    /// It was signalled and has to take the mutex again.
    Relock,
}

/// A task as the interpreter sees it. Rows are those of the kernel's task table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    /// Next (or current) instruction.
    pub pc: u32,
    pub resume: Resume,
    /// The time limit of its wait has passed.
    pub timed_out: bool,
    /// Waits until it has no children.
    pub joins_all: bool,
    /// It entered the kernel and has not come back.
    pub in_call: bool,
    /// Segment that the task executes.
    pub segment: Segment,
    pub slack_ns: Ns,
    pub program: u32,
    /// Counts the tasks that have used this row.
    pub generation: u32,
    /// Handle of the task that forked it.
    pub parent: u64,
    /// Live children.
    pub children: u32,
    pub name: Name,
    /// Tasks that wait for its end.
    pub joiners: QueueNumber,
    /// Event slot of its I/O, once it did any.
    pub io: Option<Slot>,
    /// Work to be done before its caches are warm, ns · 2¹⁶ at nominal speed.
    pub cold_left: u64,
    /// CPU it executed on last; only kept where migration costs.
    pub last_cpu: Option<Cpu>,
}

/// Handle of no task.
pub(crate) const NO_TASK: u64 = u64::MAX;

/// A message in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub value: u64,
    /// Room it takes, overhead included.
    pub room: u64,
    /// CPU that sent it.
    pub cpu: Cpu,
}

/// A queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct MessageQueue {
    pub messages: VecDeque<Message>,
    pub used: u64,
    /// CPU that touched it last.
    pub last_cpu: Option<Cpu>,
    /// CPU that sent last.
    pub last_sender: Option<Cpu>,
}

/// First wait queue of each kind of object.
#[derive(Clone, Copy, Debug, Default)]
struct Firsts {
    semaphore: u32,
    reader: u32,
    writer: u32,
    word: u32,
    mutex: u32,
    condition: u32,
    barrier: u32,
}

/// All tasks and all objects.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    pub contexts: Table<Context>,
    /// Registers of all rows, `register_stride` each.
    registers: Table<u64>,
    register_stride: usize,
    /// Random streams of all rows, `stream_stride` each.
    streams: Table<Stream>,
    stream_stride: usize,
    /// Live tasks.
    pub live: usize,
    /// To which entity the random draws of each row belong, and how many children that task has
    /// had.
    pub entities: Vec<(u64, u64)>,
    pub waiting: Waiting,
    pub semaphores: Vec<u64>,
    pub queues: Vec<MessageQueue>,
    /// Total size of the waiting messages in the queues that tell caches from memory.
    waiting_bytes: u64,
    pub words: Vec<u64>,
    /// Owner of each mutex.
    pub mutexes: Vec<Option<TaskId>>,
    /// Tasks that have reached each barrier.
    pub barriers: Vec<u32>,
    firsts: Firsts,
}

impl Tasks {
    pub(crate) fn new(workload: &Workload) -> Self {
        let mut waiting = Waiting::default();
        let firsts = Firsts {
            semaphore: waiting.add_queues(workload.semaphores.len()),
            reader: waiting.add_queues(workload.queues.len()),
            writer: waiting.add_queues(workload.queues.len()),
            word: waiting.add_queues(workload.words.len()),
            mutex: waiting.add_queues(workload.mutexes as usize),
            condition: waiting.add_queues(workload.conditions as usize),
            barrier: waiting.add_queues(workload.barriers.len()),
        };
        let programs = workload.programs.iter();
        let specified = workload
            .tasks
            .iter()
            .flat_map(|task| &task.registers)
            .map(|(reg, _)| usize::from(reg.0) + 1);
        Self {
            contexts: Table::new(),
            registers: Table::new(),
            register_stride: programs
                .clone()
                .map(|program| program.registers())
                .chain(specified)
                .max()
                .unwrap_or(0),
            streams: Table::new(),
            stream_stride: programs.map(|program| program.streams()).max().unwrap_or(0),
            live: 0,
            entities: Vec::new(),
            waiting,
            semaphores: workload.semaphores.clone(),
            queues: vec![MessageQueue::default(); workload.queues.len()],
            waiting_bytes: 0,
            words: workload.words.clone(),
            mutexes: vec![None; workload.mutexes as usize],
            barriers: vec![0; workload.barriers.len()],
            firsts,
        }
    }

    /// Appends a message to a queue.
    pub(crate) fn put(&mut self, costs: &QueueCosts, row: usize, message: Message) {
        let queue = &mut self.queues[row];
        queue.messages.push_back(message);
        queue.used = queue.used.saturating_add(message.room);
        if costs.cache_bytes > 0 {
            self.waiting_bytes = self.waiting_bytes.saturating_add(message.room);
        }
    }

    /// Takes the oldest message of a queue.
    pub(crate) fn take(&mut self, costs: &QueueCosts, row: usize) -> Option<Message> {
        let queue = &mut self.queues[row];
        let message = queue.messages.pop_front()?;
        queue.used = queue.used.saturating_sub(message.room);
        if costs.cache_bytes > 0 {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(message.room);
        }
        Some(message)
    }

    /// Extra time of a send on this CPU, ns, by who used the queue before and what is in it.
    pub(crate) fn send_extra_ns(&mut self, costs: &QueueCosts, cpu: Cpu, row: usize) -> Ns {
        let queue = &mut self.queues[row];
        let last = queue.last_cpu.replace(cpu);
        let elsewhere = |last: Option<Cpu>| last.is_some_and(|last| last != cpu);
        let mut extra_ns = costs.far_part(costs.send_far_ns, self.waiting_bytes);
        if elsewhere(queue.last_sender) {
            extra_ns += costs.send_contended_ns;
        } else if elsewhere(last) {
            extra_ns += costs.send_transfer_ns;
        }
        if queue.messages.is_empty() {
            extra_ns += costs.send_empty_ns;
        }
        extra_ns
    }

    /// The same of a receive; one that finds nothing pays for the lines of the queue alone.
    pub(crate) fn receive_extra_ns(&mut self, costs: &QueueCosts, cpu: Cpu, row: usize) -> Ns {
        let queue = &mut self.queues[row];
        let last = queue.last_cpu.replace(cpu);
        let transfer = last.is_some_and(|last| last != cpu);
        let mut extra_ns = if transfer {
            costs.receive_transfer_ns
        } else {
            0
        };
        let Some(message) = queue.messages.front() else {
            return extra_ns;
        };
        if !transfer && message.cpu != cpu {
            extra_ns += costs.receive_remote_ns;
        }
        if queue.messages.len() == 1 {
            extra_ns += costs.receive_last_ns;
        }
        extra_ns + costs.far_part(costs.receive_far_ns, self.waiting_bytes)
    }

    /// Makes task rows `0..count` usable.
    pub(crate) fn grow(&mut self, count: usize) {
        while self.contexts.len() < count {
            let joiners = QueueNumber(self.waiting.add_queues(1));
            self.contexts.push(Context {
                parent: NO_TASK,
                joiners,
                ..Context::default()
            });
        }
        self.registers.grow(count * self.register_stride, 0);
        let unused = crate::random::stream(0, 0, 0);
        self.streams.grow(count * self.stream_stride, unused);
        self.entities.resize(count, (0, 0));
        self.waiting.grow(count);
    }

    #[inline(always)]
    pub(crate) fn register(&self, task: TaskId, register: u8) -> u64 {
        self.registers[task.index() * self.register_stride + usize::from(register)]
    }

    #[inline(always)]
    pub(crate) fn set_register(&mut self, task: TaskId, register: u8, value: u64) {
        self.registers[task.index() * self.register_stride + usize::from(register)] = value;
    }

    /// All registers of a task.
    pub(crate) fn registers(&self, task: TaskId) -> &[u64] {
        let stride = self.register_stride;
        &self.registers[task.index() * stride..][..stride]
    }

    /// The same, to be changed.
    pub(crate) fn registers_mut(&mut self, task: TaskId) -> &mut [u64] {
        let start = task.index() * self.register_stride;
        &mut self.registers[start..start + self.register_stride]
    }

    /// Gives a task the registers of another.
    pub(crate) fn copy_registers(&mut self, from: TaskId, to: TaskId) {
        let stride = self.register_stride;
        let start = from.index() * stride;
        self.registers
            .copy_within(start..start + stride, to.index() * stride);
    }

    #[inline(always)]
    pub(crate) fn stream(&mut self, task: TaskId, number: u16) -> &mut Stream {
        &mut self.streams[task.index() * self.stream_stride + usize::from(number)]
    }

    /// Starts all random streams of a task.
    pub(crate) fn seed_streams(&mut self, task: TaskId, seed: u64, entity: u64) {
        for number in 0..self.stream_stride {
            *self.stream(task, number as u16) = crate::random::stream(seed, entity, number as u64);
        }
    }

    /// Names a live task so that a later task of the same row is not mistaken for it.
    pub(crate) fn handle(&self, task: TaskId) -> u64 {
        u64::from(self.contexts[task].generation) << 32 | u64::from(task.0)
    }

    /// The task of a handle, while it lives.
    pub(crate) fn of_handle(&self, handle: u64) -> Option<TaskId> {
        let task = TaskId(handle as u32);
        let context = self.contexts.get(task.index())?;
        (u64::from(context.generation) == handle >> 32 && context.name != Name::Kernel)
            .then_some(task)
    }
}

/// Objects that tasks wait for.
pub(super) trait Awaited: ObjectId {
    /// How many there are.
    fn count(tasks: &Tasks, workload: &Workload) -> usize;
}

macro_rules! awaited {
    ($id:ident, $count:expr) => {
        impl Awaited for $id {
            #[inline(always)]
            fn count(tasks: &Tasks, workload: &Workload) -> usize {
                let count: fn(&Tasks, &Workload) -> usize = $count;
                count(tasks, workload)
            }
        }
    };
}

awaited!(SemaphoreId, |tasks, _| tasks.semaphores.len());
awaited!(QueueId, |tasks, _| tasks.queues.len());
awaited!(WordId, |tasks, _| tasks.words.len());
awaited!(MutexId, |tasks, _| tasks.mutexes.len());
awaited!(ConditionId, |_, workload| workload.conditions as usize);
awaited!(BarrierId, |tasks, _| tasks.barriers.len());

/// Wait queues of the objects.
impl Tasks {
    pub(crate) fn semaphore_queue(&self, row: usize) -> QueueNumber {
        QueueNumber(self.firsts.semaphore + row as u32)
    }

    pub(crate) fn reader_queue(&self, row: usize) -> QueueNumber {
        QueueNumber(self.firsts.reader + row as u32)
    }

    pub(crate) fn writer_queue(&self, row: usize) -> QueueNumber {
        QueueNumber(self.firsts.writer + row as u32)
    }

    pub(crate) fn word_queue(&self, row: usize) -> QueueNumber {
        QueueNumber(self.firsts.word + row as u32)
    }

    pub(crate) fn mutex_queue(&self, row: usize) -> QueueNumber {
        QueueNumber(self.firsts.mutex + row as u32)
    }

    pub(crate) fn condition_queue(&self, row: usize) -> QueueNumber {
        QueueNumber(self.firsts.condition + row as u32)
    }

    pub(crate) fn barrier_queue(&self, row: usize) -> QueueNumber {
        QueueNumber(self.firsts.barrier + row as u32)
    }
}
