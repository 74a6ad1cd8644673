//! An ideal machine: every thread has a CPU of its own and nothing but work takes time. The run of
//! a program on it can be worked out by hand for the tests to compare with.

use std::collections::{BTreeMap, VecDeque};

use schedcast_sim::program::{
    Amount, AmountKind, Arithmetic, Compare, Instruction, ObjectId, Ref, RefKind, Reg,
};
use schedcast_sim::workload::{AttributesId, Workload};

/// Steps after which a run is taken for endless.
const STEPS_MAX: usize = 2_000_000;

#[derive(Clone)]
struct Thread {
    name: String,
    program: usize,
    at: usize,
    registers: [u64; 64],
}

/// Result of a run.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Log rows: time, registers.
    pub rows: Vec<(u64, Vec<u64>)>,
    /// Attribute changes: time, name of the thread, which.
    pub changes: Vec<(u64, String, AttributesId)>,
    /// Ends of threads: time, name.
    pub exits: Vec<(u64, String)>,
    /// Yields: time.
    pub yields: Vec<u64>,
    /// Counted metrics.
    pub counts: BTreeMap<u32, u64>,
}

struct Machine<'a> {
    workload: &'a Workload,
    now_ns: u64,
    threads: Vec<Thread>,
    /// Threads that go on at a time, in the order in which they were put there.
    queue: BTreeMap<(u64, usize), usize>,
    queued: usize,
    words: Vec<u64>,
    semaphores: Vec<u64>,
    semaphore_waiters: BTreeMap<u32, VecDeque<usize>>,
    mutexes: BTreeMap<u32, (Option<usize>, VecDeque<usize>)>,
    conditions: BTreeMap<u32, VecDeque<(usize, u32)>>,
    barriers: BTreeMap<u32, Vec<usize>>,
    outcome: Outcome,
}

/// Runs a workload up to a time, or until nothing moves any more.
pub(crate) fn run(workload: &Workload, end_ns: u64) -> Outcome {
    let mut machine = Machine {
        workload,
        now_ns: 0,
        threads: Vec::new(),
        queue: BTreeMap::new(),
        queued: 0,
        words: workload.words.clone(),
        semaphores: workload.semaphores.clone(),
        semaphore_waiters: BTreeMap::new(),
        mutexes: BTreeMap::new(),
        conditions: BTreeMap::new(),
        barriers: BTreeMap::new(),
        outcome: Outcome::default(),
    };
    for task in &workload.tasks {
        let mut registers = [0; 64];
        for (register, value) in &task.registers {
            registers[usize::from(register.0)] = *value;
        }
        let name = task.name.clone();
        let program = task.program.0 as usize;
        machine.threads.push(Thread {
            name,
            program,
            at: 0,
            registers,
        });
        machine.resume_at(machine.threads.len() - 1, task.start_ns);
    }
    let mut steps = 0;
    while let Some(((at_ns, _), thread)) = machine.queue.pop_first() {
        if at_ns > end_ns {
            break;
        }
        machine.now_ns = at_ns;
        while machine.step(thread) {
            steps += 1;
            assert!(steps < STEPS_MAX, "endless");
        }
        steps += 1;
        assert!(steps < STEPS_MAX, "endless");
    }
    machine.outcome
}

impl Machine<'_> {
    fn resume_at(&mut self, thread: usize, at_ns: u64) {
        self.queue.insert((at_ns, self.queued), thread);
        self.queued += 1;
    }

    fn amount(&self, thread: usize, amount: Amount) -> u64 {
        match amount.kind() {
            AmountKind::Fixed(value) => value,
            AmountKind::Reg(register) => self.get(thread, register),
            AmountKind::Draw { .. } => panic!("rt-app draws nothing"),
        }
    }

    fn get(&self, thread: usize, register: Reg) -> u64 {
        self.threads[thread].registers[usize::from(register.0)]
    }

    fn set(&mut self, thread: usize, register: Reg, value: u64) {
        self.threads[thread].registers[usize::from(register.0)] = value;
    }

    fn pass(&mut self, thread: usize, nanoseconds: u64) -> bool {
        self.resume_at(thread, self.now_ns + nanoseconds);
        false
    }

    /// Executes one instruction; says whether the thread goes on at once.
    fn step(&mut self, thread: usize) -> bool {
        let program = &self.workload.programs[self.threads[thread].program];
        let Some(&instruction) = program.instructions().get(self.threads[thread].at) else {
            return self.exit(thread);
        };
        self.threads[thread].at += 1;
        match instruction {
            Instruction::Work(amount) | Instruction::Sleep(amount) => {
                let nanoseconds = self.amount(thread, amount);
                self.pass(thread, nanoseconds)
            }
            Instruction::SleepUntil(register) => {
                let left = self.get(thread, register).saturating_sub(self.now_ns);
                self.pass(thread, left)
            }
            Instruction::Yield => {
                self.outcome.yields.push(self.now_ns);
                true
            }
            Instruction::Exit => self.exit(thread),
            Instruction::SetAttributes(change) => {
                let name = self.threads[thread].name.clone();
                self.outcome.changes.push((self.now_ns, name, change));
                true
            }
            Instruction::Log {
                channel: _,
                first,
                count,
            } => {
                let first = usize::from(first.0);
                let row = &self.threads[thread].registers[first..first + usize::from(count)];
                self.outcome.rows.push((self.now_ns, row.to_vec()));
                true
            }
            Instruction::Count { metric, amount } => {
                let amount = self.amount(thread, amount);
                *self.outcome.counts.entry(metric.0).or_default() += amount;
                true
            }
            Instruction::Fork { fork, child } => {
                let spec = &self.workload.forks[fork.0 as usize];
                let mut new = self.threads[thread].clone();
                (new.name, new.program, new.at) = (spec.name.clone(), spec.program.0 as usize, 0);
                self.threads.push(new);
                let number = self.threads.len() - 1;
                self.set(thread, child, number as u64);
                self.resume_at(number, self.now_ns);
                true
            }
            _ => self.step_object(thread, instruction) || self.step_register(thread, instruction),
        }
    }

    fn exit(&mut self, thread: usize) -> bool {
        let name = self.threads[thread].name.clone();
        self.outcome.exits.push((self.now_ns, name));
        false
    }

    /// Instructions on shared objects. Blocks by returning false after taking the thread away; for
    /// an instruction of another kind, `step_register` decides.
    fn step_object(&mut self, thread: usize, instruction: Instruction) -> bool {
        match instruction {
            Instruction::WordLoad { word, into } => {
                self.set(thread, into, self.words[number(word) as usize]);
            }
            Instruction::WordStore { word, value } => {
                self.words[number(word) as usize] = self.amount(thread, value);
            }
            Instruction::WordFetchAdd { word, value, old } => {
                let value = self.amount(thread, value);
                let word = &mut self.words[number(word) as usize];
                let before = *word;
                *word = word.wrapping_add(value);
                self.set(thread, old, before);
            }
            Instruction::WordCount(word) => self.words[number(word) as usize] += 1,
            Instruction::SemPost(semaphore) => self.post(number(semaphore)),
            Instruction::Unlock(mutex) => self.unlock(thread, number(mutex)),
            Instruction::Signal(condition) => self.wake(number(condition), 1),
            Instruction::Broadcast(condition) => self.wake(number(condition), usize::MAX),
            _ => return false,
        }
        true
    }

    fn step_register(&mut self, thread: usize, instruction: Instruction) -> bool {
        match instruction {
            Instruction::Set { reg, value } => {
                let value = self.amount(thread, value);
                self.set(thread, reg, value);
            }
            Instruction::Arithmetic { op, reg, operand } => {
                let left = self.get(thread, reg);
                let right = self.amount(thread, operand);
                let result = match op {
                    Arithmetic::Add => left.wrapping_add(right),
                    Arithmetic::SubtractToZero => left.saturating_sub(right),
                    Arithmetic::Multiply => left.wrapping_mul(right),
                    other => panic!("rt-app does not use {other:?}"),
                };
                self.set(thread, reg, result);
            }
            Instruction::Now(register) => self.set(thread, register, self.now_ns),
            Instruction::Jump(target) => self.threads[thread].at = target as usize,
            Instruction::JumpIf {
                compare,
                reg,
                operand,
                target,
            } => {
                let left = self.get(thread, reg);
                let right = self.amount(thread, operand);
                let holds = match compare {
                    Compare::Equal => left == right,
                    Compare::NotEqual => left != right,
                    Compare::Less => left < right,
                    Compare::LessOrEqual => left <= right,
                    Compare::Greater => left > right,
                    Compare::GreaterOrEqual => left >= right,
                };
                if holds {
                    self.threads[thread].at = target as usize;
                }
            }
            Instruction::Loop { reg, target } => {
                let left = self.get(thread, reg).saturating_sub(1);
                self.set(thread, reg, left);
                if left > 0 {
                    self.threads[thread].at = target as usize;
                }
            }
            other => return self.step_blocking(thread, other),
        }
        true
    }

    fn step_blocking(&mut self, thread: usize, instruction: Instruction) -> bool {
        match instruction {
            Instruction::Lock(mutex) => self.lock(thread, number(mutex)),
            Instruction::SemWait(semaphore) => {
                let semaphore = number(semaphore);
                let count = &mut self.semaphores[semaphore as usize];
                if *count > 0 {
                    *count -= 1;
                    return true;
                }
                self.semaphore_waiters
                    .entry(semaphore)
                    .or_default()
                    .push_back(thread);
                false
            }
            Instruction::ConditionWait { condition, mutex } => {
                let waiters = self.conditions.entry(number(condition)).or_default();
                waiters.push_back((thread, number(mutex)));
                self.unlock(thread, number(mutex));
                false
            }
            Instruction::Barrier(barrier) => {
                let barrier = number(barrier);
                let here = self.barriers.entry(barrier).or_default();
                here.push(thread);
                if here.len() == self.workload.barriers[barrier as usize] as usize {
                    for arrived in std::mem::take(here) {
                        self.resume_at(arrived, self.now_ns);
                    }
                }
                false
            }
            other => panic!("rt-app does not use {other:?}"),
        }
    }

    fn lock(&mut self, thread: usize, mutex: u32) -> bool {
        let (owner, waiters) = self.mutexes.entry(mutex).or_default();
        if owner.is_none() {
            *owner = Some(thread);
            return true;
        }
        waiters.push_back(thread);
        false
    }

    fn unlock(&mut self, thread: usize, mutex: u32) {
        let (owner, waiters) = self.mutexes.entry(mutex).or_default();
        if *owner != Some(thread) {
            return;
        }
        *owner = waiters.pop_front();
        if let Some(next) = *owner {
            self.resume_at(next, self.now_ns);
        }
    }

    fn wake(&mut self, condition: u32, count: usize) {
        for _ in 0..count {
            let waiter = self.conditions.entry(condition).or_default().pop_front();
            let Some((thread, mutex)) = waiter else {
                return;
            };
            if self.lock(thread, mutex) {
                self.resume_at(thread, self.now_ns);
            }
        }
    }

    fn post(&mut self, semaphore: u32) {
        match self
            .semaphore_waiters
            .entry(semaphore)
            .or_default()
            .pop_front()
        {
            Some(thread) => self.resume_at(thread, self.now_ns),
            None => self.semaphores[semaphore as usize] += 1,
        }
    }
}

fn number<K: ObjectId>(reference: Ref<K>) -> u32 {
    match reference.kind() {
        RefKind::Number(number) => number,
        RefKind::Reg(_) => panic!("rt-app names its objects directly"),
    }
}
