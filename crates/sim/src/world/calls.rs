//! Instructions that enter the kernel: sleeping, waiting, waking, messages.
//!
//! Locks, semaphores and barriers are built on futexes as in user space: without contention they
//! cost nothing, a waiter is woken and tries again, and the first to run gets it. Waiters of a
//! futex are woken by real-time priority, those of one priority and all fair ones in order of
//! arrival. Queues are sockets or pipes: every operation is a system call, and waiters are woken in
//! order of arrival.

use super::engine::Run;
use super::interpret::{ENTERED, Next};
use super::outside::{Outside, Source, class};
use super::tasks::{Message, Resume};
use super::{Core, World};
use crate::program::{Amount, Ref, Reg, TIMED_OUT};
use crate::waiting::QueueNumber;
use crate::wheel::Key;
use crate::workload::{BarrierId, ConditionId, MutexId, QueueId, SemaphoreId, WordId};
use schedcast_kernel::platform::{Access, Line, Op};
use schedcast_kernel::task::Policy;
use schedcast_kernel::{Context as WakeContext, Cpu, Ns, TaskId};

impl<const EXPLAIN: bool> Outside<EXPLAIN> {
    /// A CPU works for its task in kernel mode.
    #[inline]
    fn busy(&mut self, cpu: Cpu, wall_ns: Ns) {
        let at = self.clock(cpu);
        let state = &mut self.cpus[cpu];
        state.cursor = at + wall_ns;
        state.time.user_ns += wall_ns;
    }
}

impl<const EXPLAIN: bool, K: Core> World<EXPLAIN, K> {
    /// The running task enters the kernel. The way back has a price of its own where the machine
    /// tells it apart, and is paid when the task leaves the kernel.
    pub(super) fn syscall(&mut self, cpu: Cpu) {
        let exit_ns = self.out.machine.syscall_exit_ns;
        let entry_ns = self.out.machine.price_ns(Op::Syscall) - exit_ns;
        if exit_ns > 0
            && let Some(task) = self.out.cpus[cpu].running
        {
            self.out.leave_call(cpu, task);
            self.out.tasks.contexts[task].in_call = true;
        }
        self.out.charge(cpu, Op::Syscall, entry_ns, 1);
    }

    /// The running task goes to sleep until it is woken.
    fn block(&mut self, cpu: Cpu) -> Next {
        self.kernel.block(&mut self.out, cpu);
        ENTERED
    }

    /// It goes to sleep at the end of a wait queue.
    fn block_on(&mut self, cpu: Cpu, task: TaskId, queue: QueueNumber) -> Next {
        self.out.tasks.waiting.push(queue, task);
        self.block(cpu)
    }

    /// It goes to sleep on a futex, before those of less real-time priority (`futex_queue`).
    fn block_on_futex(&mut self, cpu: Cpu, task: TaskId, queue: QueueNumber) -> Next {
        let tasks = &self.kernel.tables().tasks;
        let urgency = |task: TaskId| {
            let record = &tasks[task];
            if record.policy.is_rt() {
                record.rt_priority
            } else {
                0
            }
        };
        let own = urgency(task);
        let waiting = &mut self.out.tasks.waiting;
        waiting.insert(queue, task, |other| urgency(other) < own);
        self.block(cpu)
    }

    fn wake_from_task(&mut self, cpu: Cpu, task: TaskId, sync: bool) {
        self.wake(cpu, task, sync, WakeContext::Task);
    }

    /// Wakes up to `count` waiters, first come first. Returns how many.
    fn wake_waiters(&mut self, cpu: Cpu, queue: QueueNumber, count: u64) -> u64 {
        let mut woken = 0;
        while woken < count {
            let Some(task) = self.out.tasks.waiting.pop(queue) else {
                break;
            };
            self.wake_from_task(cpu, task, false);
            woken += 1;
        }
        woken
    }

    /// The CPU is busy as in [`crate::Instruction::KernelWork`], and its run queue is not charged
    /// for it.
    pub(super) fn stolen(&mut self, cpu: Cpu, task: TaskId, amount: Amount) -> Next {
        let wall_ns = self.amount(task, amount);
        let at = self.out.clock(cpu);
        let state = &mut self.out.cpus[cpu];
        state.cursor = at + wall_ns;
        state.time.overhead_ns += wall_ns;
        self.kernel.steal(cpu, wall_ns);
        self.skip(task);
        Next::Leave(super::engine::Flow::Segment)
    }

    /// How much later than asked the task's timers may be (`hrtimer_set_expires_range_ns`).
    fn slack_ns(&self, task: TaskId) -> Ns {
        if self.kernel.tables().tasks[task].policy.rank() > Policy::Normal.rank() {
            return 0;
        }
        self.out.tasks.contexts[task].slack_ns
    }

    pub(super) fn sleep(&mut self, cpu: Cpu, task: TaskId, amount: Amount) -> Next {
        let amount = self.amount(task, amount);
        self.syscall(cpu);
        let until = self.out.clock(cpu).saturating_add(amount);
        self.sleep_to(cpu, task, until)
    }

    pub(super) fn sleep_until(&mut self, cpu: Cpu, task: TaskId, reg: Reg) -> Next {
        let until = self.out.tasks.register(task, reg.0);
        self.syscall(cpu);
        // A sleep that is late by less than the slack still waits for the hardware, which is
        // programmed for its end.
        if until.saturating_add(self.slack_ns(task)) <= self.out.clock(cpu) {
            self.skip(task);
            return ENTERED;
        }
        self.sleep_to(cpu, task, until)
    }

    #[inline(always)]
    fn sleep_to(&mut self, cpu: Cpu, task: TaskId, until: Ns) -> Next {
        let slack = self.slack_ns(task);
        let timer = self.out.task_timer(task);
        self.out.arm_sleep_timer(cpu, timer, until, slack);
        self.skip(task);
        self.block(cpu)
    }

    pub(super) fn io(&mut self, cpu: Cpu, task: TaskId, amount: Amount) -> Next {
        if self.out.tasks.contexts[task].resume == Resume::Retry {
            // Completed and running again.
            self.kernel.tables_mut().tasks[task].in_iowait = false;
            self.out.tasks.contexts[task].resume = Resume::Afresh;
            return self.done(task);
        }
        let amount = self.amount(task, amount);
        self.syscall(cpu);
        let slot = match self.out.tasks.contexts[task].io {
            Some(slot) => slot,
            None => self.out.add_source(Source::Io(task)),
        };
        let context = &mut self.out.tasks.contexts[task];
        context.io = Some(slot);
        context.resume = Resume::Retry;
        let done = self.out.clock(cpu).saturating_add(amount);
        self.out.wheel.arm(slot, Key::new(done, class::ARRIVAL));
        self.kernel.tables_mut().tasks[task].in_iowait = true;
        self.block(cpu)
    }

    pub(super) fn sem_post(
        &mut self,
        cpu: Cpu,
        task: TaskId,
        semaphore: Ref<SemaphoreId>,
    ) -> Run<Next> {
        let row = self.resolve(task, semaphore)?;
        self.out.tasks.semaphores[row] += 1;
        self.skip(task);
        let queue = self.out.tasks.semaphore_queue(row);
        let Some(waiter) = self.out.tasks.waiting.pop(queue) else {
            return Ok(Next::Instruction);
        };
        self.syscall(cpu);
        self.wake_from_task(cpu, waiter, false);
        Ok(ENTERED)
    }

    pub(super) fn sem_wait(
        &mut self,
        cpu: Cpu,
        task: TaskId,
        semaphore: Ref<SemaphoreId>,
    ) -> Run<Next> {
        let row = self.resolve(task, semaphore)?;
        let count = &mut self.out.tasks.semaphores[row];
        if *count > 0 {
            *count -= 1;
            return Ok(self.done(task));
        }
        self.syscall(cpu);
        let queue = self.out.tasks.semaphore_queue(row);
        Ok(self.block_on_futex(cpu, task, queue))
    }

    pub(super) fn send(
        &mut self,
        cpu: Cpu,
        task: TaskId,
        queue: Ref<QueueId>,
        bytes: Amount,
        value: Reg,
        sync: bool,
    ) -> Run<Next> {
        let row = self.resolve(task, queue)?;
        let waited = self.out.tasks.contexts[task].resume == Resume::Retry;
        if !waited {
            self.syscall(cpu);
        }
        let costs = &self.out.shared.workload.queues[row].costs;
        let extra_ns = self.out.tasks.send_extra_ns(costs, cpu, row);
        self.out.busy(cpu, extra_ns);
        let bytes = self.amount(task, bytes);
        let spec = &self.out.shared.workload.queues[row];
        let room = bytes.saturating_add(spec.overhead_bytes);
        if !spec.takes(self.out.tasks.queues[row].used, room, waited) {
            self.out.tasks.contexts[task].resume = Resume::Retry;
            let queue = self.out.tasks.writer_queue(row);
            return Ok(self.block_on(cpu, task, queue));
        }
        let value = self.out.tasks.register(task, value.0);
        self.out.tasks.queues[row].last_sender = Some(cpu);
        let message = Message { value, room, cpu };
        self.deliver(cpu, row, message, sync, WakeContext::Task);
        let spec = &self.out.shared.workload.queues[row];
        if waited && spec.passes_on(self.out.tasks.queues[row].used) {
            // Senders are woken one at a time: this one passes the turn on while there is room.
            let queue = self.out.tasks.writer_queue(row);
            self.wake_waiters(cpu, queue, 1);
        }
        self.out.tasks.contexts[task].resume = Resume::Afresh;
        self.skip(task);
        Ok(ENTERED)
    }

    /// Puts a message into a queue and wakes the first receiver.
    pub(super) fn deliver(
        &mut self,
        cpu: Cpu,
        row: usize,
        message: Message,
        sync: bool,
        context: WakeContext,
    ) {
        let costs = &self.out.shared.workload.queues[row].costs;
        self.out.tasks.put(costs, row, message);
        let readers = self.out.tasks.reader_queue(row);
        if let Some(reader) = self.out.tasks.waiting.pop(readers) {
            self.wake(cpu, reader, sync, context);
        }
    }

    /// CPU where the first task that waits for messages of a queue went to sleep.
    pub(super) fn receiver_cpu(&self, row: usize) -> Option<Cpu> {
        let readers = self.out.tasks.reader_queue(row);
        let reader = self.out.tasks.waiting.first(readers)?;
        Some(self.kernel.tables().tasks[reader].cpu)
    }

    /// Takes the oldest message and wakes senders when there is room again. The flag tells whether
    /// a task was woken.
    fn take_message(&mut self, cpu: Cpu, row: usize) -> Option<(u64, bool)> {
        if self.out.tasks.queues[row].messages.is_empty() {
            return None;
        }
        let before = self.out.tasks.queues[row].used;
        let spec = &self.out.shared.workload.queues[row];
        let message = self.out.tasks.take(&spec.costs, row)?;
        let used = self.out.tasks.queues[row].used;
        let (sync, count) = (spec.wake_sender_sync, spec.wakes(before, used));
        let writers = self.out.tasks.writer_queue(row);
        let mut woken = 0;
        while woken < count
            && let Some(writer) = self.out.tasks.waiting.pop(writers)
        {
            self.wake_from_task(cpu, writer, sync);
            woken += 1;
        }
        Some((message.value, woken > 0))
    }

    pub(super) fn recv(
        &mut self,
        cpu: Cpu,
        task: TaskId,
        queue: Ref<QueueId>,
        value: Reg,
        timeout: Amount,
        iowait: bool,
    ) -> Run<Next> {
        let row = self.resolve(task, queue)?;
        let waited = self.out.tasks.contexts[task].resume == Resume::Retry;
        if waited {
            self.kernel.tables_mut().tasks[task].in_iowait = false;
        } else {
            self.syscall(cpu);
        }
        let costs = &self.out.shared.workload.queues[row].costs;
        let extra_ns = self.out.tasks.receive_extra_ns(costs, cpu, row);
        self.out.busy(cpu, extra_ns);
        if let Some((message, _)) = self.take_message(cpu, row) {
            if waited {
                let timer = self.out.task_timer(task);
                self.out.cancel_timer(timer);
            } else {
                let at = self.out.clock(cpu);
                self.out.probes.next_activation(at, task);
            }
            return Ok(self.received(task, value, message));
        }
        if waited {
            if self.out.tasks.contexts[task].timed_out {
                return Ok(self.received(task, value, TIMED_OUT));
            }
        } else if timeout != Amount::FOREVER {
            let limit = self.amount(task, timeout);
            if limit == 0 {
                return Ok(self.received(task, value, TIMED_OUT));
            }
            let slack = self.slack_ns(task);
            let timer = self.out.task_timer(task);
            let until = self.out.clock(cpu).saturating_add(limit);
            self.out.arm_sleep_timer(cpu, timer, until, slack);
        }
        self.out.tasks.contexts[task].resume = Resume::Retry;
        self.kernel.tables_mut().tasks[task].in_iowait = iowait;
        let readers = self.out.tasks.reader_queue(row);
        Ok(self.block_on(cpu, task, readers))
    }

    fn received(&mut self, task: TaskId, value: Reg, message: u64) -> Next {
        let context = &mut self.out.tasks.contexts[task];
        context.resume = Resume::Afresh;
        context.timed_out = false;
        self.set(task, value, message);
        ENTERED
    }

    pub(super) fn try_recv(
        &mut self,
        cpu: Cpu,
        task: TaskId,
        queue: Ref<QueueId>,
        value: Reg,
        empty: u32,
    ) -> Run<Next> {
        let row = self.resolve(task, queue)?;
        let Some((message, woken)) = self.take_message(cpu, row) else {
            return Ok(self.jump(task, empty));
        };
        self.set(task, value, message);
        Ok(if woken { ENTERED } else { Next::Instruction })
    }

    /// The CPU waits for the word's cache line, if that is not at hand.
    pub(super) fn word_count(&mut self, cpu: Cpu, task: TaskId, word: Ref<WordId>) -> Run<Next> {
        let row = self.resolve(task, word)?;
        let value = &mut self.out.tasks.words[row];
        *value = value.wrapping_add(1);
        self.skip(task);
        let line = Line::Word(row as u32);
        Ok(match self.out.take_line(cpu, line, Access::Write) {
            true => ENTERED,
            false => Next::Instruction,
        })
    }

    pub(super) fn word_wait(
        &mut self,
        cpu: Cpu,
        task: TaskId,
        word: Ref<WordId>,
        expected: Amount,
    ) -> Run<Next> {
        let row = self.resolve(task, word)?;
        let expected = self.amount(task, expected);
        self.syscall(cpu);
        self.skip(task);
        if self.out.tasks.words[row] != expected {
            return Ok(ENTERED);
        }
        let queue = self.out.tasks.word_queue(row);
        Ok(self.block_on_futex(cpu, task, queue))
    }

    pub(super) fn word_wake(
        &mut self,
        cpu: Cpu,
        task: TaskId,
        word: Ref<WordId>,
        count: Amount,
    ) -> Run<Next> {
        let row = self.resolve(task, word)?;
        let count = self.amount(task, count);
        self.syscall(cpu);
        self.skip(task);
        let queue = self.out.tasks.word_queue(row);
        self.wake_waiters(cpu, queue, count);
        Ok(ENTERED)
    }

    pub(super) fn lock(&mut self, cpu: Cpu, task: TaskId, mutex: Ref<MutexId>) -> Run<Next> {
        let row = self.resolve(task, mutex)?;
        let owner = &mut self.out.tasks.mutexes[row];
        if owner.is_none() {
            *owner = Some(task);
            self.out.tasks.contexts[task].resume = Resume::Afresh;
            return Ok(self.done(task));
        }
        self.syscall(cpu);
        let queue = self.out.tasks.mutex_queue(row);
        Ok(self.block_on_futex(cpu, task, queue))
    }

    pub(super) fn unlock(&mut self, cpu: Cpu, task: TaskId, mutex: Ref<MutexId>) -> Run<Next> {
        let row = self.resolve(task, mutex)?;
        self.skip(task);
        if self.release(cpu, task, row) {
            return Ok(ENTERED);
        }
        Ok(Next::Instruction)
    }

    /// Gives up a mutex the task owns. `true` when a waiter was woken.
    fn release(&mut self, cpu: Cpu, task: TaskId, row: usize) -> bool {
        if self.out.tasks.mutexes[row] != Some(task) {
            return false;
        }
        self.out.tasks.mutexes[row] = None;
        let queue = self.out.tasks.mutex_queue(row);
        let Some(waiter) = self.out.tasks.waiting.pop(queue) else {
            return false;
        };
        self.syscall(cpu);
        self.wake_from_task(cpu, waiter, false);
        true
    }

    pub(super) fn condition_wait(
        &mut self,
        cpu: Cpu,
        task: TaskId,
        condition: Ref<ConditionId>,
        mutex: Ref<MutexId>,
    ) -> Run<Next> {
        if self.out.tasks.contexts[task].resume == Resume::Relock {
            return self.lock(cpu, task, mutex);
        }
        let condition = self.resolve(task, condition)?;
        let mutex = self.resolve(task, mutex)?;
        self.release(cpu, task, mutex);
        self.syscall(cpu);
        self.out.tasks.contexts[task].resume = Resume::Relock;
        let queue = self.out.tasks.condition_queue(condition);
        Ok(self.block_on_futex(cpu, task, queue))
    }

    pub(super) fn signal(
        &mut self,
        cpu: Cpu,
        task: TaskId,
        condition: Ref<ConditionId>,
        count: usize,
    ) -> Run<Next> {
        let row = self.resolve(task, condition)?;
        self.skip(task);
        let queue = self.out.tasks.condition_queue(row);
        if self.out.tasks.waiting.first(queue).is_none() {
            return Ok(Next::Instruction);
        }
        self.syscall(cpu);
        self.wake_waiters(cpu, queue, count as u64);
        Ok(ENTERED)
    }

    pub(super) fn barrier(&mut self, cpu: Cpu, task: TaskId, barrier: Ref<BarrierId>) -> Run<Next> {
        let row = self.resolve(task, barrier)?;
        self.skip(task);
        let needed = self.out.shared.workload.barriers[row];
        let arrived = &mut self.out.tasks.barriers[row];
        *arrived += 1;
        let queue = self.out.tasks.barrier_queue(row);
        if self.out.tasks.barriers[row] < needed {
            self.syscall(cpu);
            return Ok(self.block_on_futex(cpu, task, queue));
        }
        self.out.tasks.barriers[row] = 0;
        if needed == 1 {
            return Ok(Next::Instruction);
        }
        self.syscall(cpu);
        self.wake_waiters(cpu, queue, u64::MAX);
        Ok(ENTERED)
    }
}
