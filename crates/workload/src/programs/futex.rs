//! Common parts of both generations of schbench: words that threads post and wait on, and the list
//! of workers that wait for their message thread.
//!
//! A post sets a word from 0 to 1 and only then enters the kernel to wake a waiter; a wait
//! takes the 1 back. So a post to a thread that does not wait yet costs a system call but is not
//! lost, and a second one costs nothing. The list is last in, first out.
//!
//! Worked example, three workers behind one message thread: they finish in the order 1, 2, 3 and
//! put themselves before the head, so the list is 3, 2, 1; the first to finish also wakes the
//! message thread, which takes the whole list, stamps each worker with one time and wakes 3, then
//! 2, then 1.

use schedcast_sim::program::{Arithmetic, Compare};
use schedcast_sim::workload::WordId;
use schedcast_sim::{ProgramBuilder, Reg};

use super::start::Compiler;

/// Registers that threads of both tools share; a child finds its parent's in its own.
pub(super) mod reg {

    use crate::registers::registers;

    registers! { 0 => pub(crate),
        /// Message thread, from 0.
        GROUP
        /// Worker, from 1 over all groups.
        WORKER CHILD LEFT NOW BEGIN VALUE
        /// Word of the message thread, and head of its list.
        GROUP_WORD HEAD
        /// Words of the worker.
        WORKER_WORD WAKE_TIME NEXT POSTED PENDING QUEUE
        /// Requests a worker has taken, and those it had when it looked last.
        TAKEN SEEN
        /// Worker that a list or a round is at.
        AT FOLLOWING ADDRESS DELTA REQUEST LENGTH ROUND FIRST
    }
    /// From here on for one program's own use.
    pub(crate) const OWN: u8 = 25;
}
use reg::*;

/// Where the words of all threads lie. Worker words are indexed from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub stopping: WordId,
    group_words: u64,
    heads: u64,
    worker_words: u64,
    wake_times: u64,
    nexts: u64,
    posted: u64,
    pending: u64,
    queues: u64,
    pub groups: u64,
    pub workers: u64,
    /// Bytes each side writes before it wakes the other (`-p`), as work.
    pub pipe_ns: u64,
}

impl Layout {
    pub(super) fn new(compiler: &mut Compiler, groups: u64, workers: u64, pipe_ns: u64) -> Self {
        let all = groups * workers + 1;
        let layout = Self {
            stopping: compiler.workload.add_word(0),
            group_words: compiler.words(groups),
            heads: compiler.words(groups),
            worker_words: compiler.words(all),
            wake_times: compiler.words(all),
            nexts: compiler.words(all),
            posted: compiler.words(all),
            pending: compiler.words(all),
            queues: compiler.workload.queues.len() as u64,
            groups,
            workers,
            pipe_ns,
        };
        for _ in 1..all {
            let list = schedcast_sim::workload::QueueSpec::UNBOUNDED;
            compiler.workload.add_queue(list);
        }
        layout
    }

    /// Addresses of a message thread, which its workers inherit.
    pub(crate) fn group_addresses(&self, b: &mut ProgramBuilder) {
        b.sum(GROUP_WORD, GROUP, self.group_words);
        b.sum(HEAD, GROUP, self.heads);
        b.set(FIRST, GROUP);
        b.arithmetic(Arithmetic::Multiply, FIRST, self.workers);
        b.add(FIRST, 1);
    }

    /// Addresses of a worker.
    pub(crate) fn worker_addresses(&self, b: &mut ProgramBuilder) {
        let words = [
            (WORKER_WORD, self.worker_words),
            (WAKE_TIME, self.wake_times),
            (NEXT, self.nexts),
            (POSTED, self.posted),
            (PENDING, self.pending),
            (QUEUE, self.queues.wrapping_sub(1)),
        ];
        for (register, base) in words {
            b.set(register, WORKER);
            if base != u64::MAX {
                b.add(register, base);
            } else {
                b.subtract(register, 1);
            }
        }
    }

    /// Forks the workers of a message thread, numbered from [`FIRST`].
    pub(crate) fn fork_workers(
        &self,
        b: &mut ProgramBuilder,
        worker: schedcast_sim::workload::ForkId,
    ) {
        b.set(WORKER, FIRST);
        b.repeat(LEFT, self.workers, |b| {
            b.fork(worker, CHILD);
            b.add(WORKER, 1);
        });
    }

    /// `address = base + number`, for the words of worker [`AT`].
    fn address(&self, b: &mut ProgramBuilder, base: u64) {
        b.sum(ADDRESS, AT, base);
    }

    /// Takes the whole list and wakes all threads on it.
    pub(super) fn wake_list(&self, b: &mut ProgramBuilder) {
        b.word_load(HEAD, AT);
        b.word_store(HEAD, 0);
        b.now(NOW);
        b.forever(|b, done| {
            b.jump_if(AT, Compare::Equal, 0, done);
            self.address(b, self.nexts);
            b.word_load(ADDRESS, FOLLOWING);
            b.word_store(ADDRESS, 0);
            if self.pipe_ns > 0 {
                // In pipe mode every worker has a time of its own.
                b.work(self.pipe_ns);
                b.now(NOW);
            }
            self.address(b, self.wake_times);
            b.word_store(ADDRESS, NOW);
            self.address(b, self.worker_words);
            post(b, ADDRESS);
            b.set(AT, FOLLOWING);
        });
    }

    /// Gives worker [`AT`] a request that began at the time in [`REQUEST`], and wakes it with the
    /// time in [`NOW`]. Making the request costs about what a system call does, and is charged so.
    pub(crate) fn give_request(&self, b: &mut ProgramBuilder) {
        self.address(b, self.queues);
        b.subtract(ADDRESS, 1);
        b.send(ADDRESS, 1, REQUEST, false);
        self.address(b, self.posted);
        b.word_fetch_add(ADDRESS, 1, VALUE);
        self.address(b, self.wake_times);
        b.word_store(ADDRESS, NOW);
        self.address(b, self.worker_words);
        post(b, ADDRESS);
    }

    /// Reads how many requests wait for worker [`AT`], as it is known to the message thread.
    pub(super) fn load_pending(&self, b: &mut ProgramBuilder) {
        self.address(b, self.pending);
        b.word_load(ADDRESS, VALUE);
    }

    /// Adds one to what [`Layout::load_pending`] reads.
    pub(crate) fn add_pending(&self, b: &mut ProgramBuilder) {
        self.address(b, self.pending);
        b.word_fetch_add(ADDRESS, 1, VALUE);
    }

    /// Posts every worker of the message thread.
    pub(crate) fn post_workers(&self, b: &mut ProgramBuilder) {
        b.set(AT, FIRST);
        b.repeat(LEFT, self.workers, |b| {
            self.address(b, self.worker_words);
            post(b, ADDRESS);
            b.add(AT, 1);
        });
    }

    /// Main's end: tells all to stop, posts the message threads and waits for them.
    pub(super) fn stop(&self, b: &mut ProgramBuilder) {
        b.word_store(self.stopping, 1);
        b.set(ADDRESS, self.group_words);
        b.repeat(LEFT, self.groups, |b| {
            post(b, ADDRESS);
            b.add(ADDRESS, 1);
        });
        b.join_all();
    }

    /// Main's begin: forks the message threads.
    pub(crate) fn fork_groups(
        &self,
        b: &mut ProgramBuilder,
        group: schedcast_sim::workload::ForkId,
    ) {
        b.set(GROUP, 0);
        b.repeat(LEFT, self.groups, |b| {
            b.fork(group, CHILD);
            b.add(GROUP, 1);
        });
    }

    /// A worker's side of a message: it puts itself on the list, or takes requests that wait for
    /// it; wakes the message thread; and waits. Goes to `taken` when there were requests.
    pub(crate) fn message_and_wait(
        &self,
        b: &mut ProgramBuilder,
        requests: bool,
        taken: schedcast_sim::program::Label,
    ) {
        if self.pipe_ns > 0 {
            b.work(self.pipe_ns);
        }
        b.word_store(WORKER_WORD, 0);
        b.now(NOW);
        b.word_store(WAKE_TIME, NOW);
        if requests {
            b.word_store(PENDING, 0);
            b.word_load(POSTED, SEEN);
            b.unless(SEEN, Compare::LessOrEqual, TAKEN, |b| {
                b.word_store(WORKER_WORD, 1);
                b.jump(taken);
            });
        } else {
            b.word_load(HEAD, VALUE);
            b.word_store(NEXT, VALUE);
            b.word_store(HEAD, WORKER);
        }
        post(b, GROUP_WORD);
        b.word_load(self.stopping, VALUE);
        b.unless(VALUE, Compare::NotEqual, 0, |b| {
            wait(b, WORKER_WORD);
        });
    }
}

/// Sets a word from 0 to 1 and wakes a thread that waits for that.
pub(super) fn post(b: &mut ProgramBuilder, word: Reg) {
    b.word_load(word, VALUE);
    b.unless(VALUE, Compare::NotEqual, 0, |b| {
        b.word_store(word, 1);
        b.word_wake(word, 1);
    });
}

/// Waits until a word is 1, and takes the 1.
pub(super) fn wait(b: &mut ProgramBuilder, word: Reg) {
    b.forever(|b, got| {
        b.word_load(word, VALUE);
        b.jump_if(VALUE, Compare::Equal, 1, got);
        b.word_wait(word, 0);
    });
    b.word_store(word, 0);
}

/// Goes to `target` once main has said stop.
pub(super) fn stop_to(
    b: &mut ProgramBuilder,
    stopping: WordId,
    target: schedcast_sim::program::Label,
) {
    b.word_load(stopping, VALUE);
    b.jump_if(VALUE, Compare::NotEqual, 0, target);
}

/// `into` = whole microseconds from the time in `since` to now, both cut to microseconds as
/// `gettimeofday` cuts them.
pub(super) fn microseconds_since(b: &mut ProgramBuilder, since: Reg, into: Reg) {
    b.now(into);
    b.arithmetic(Arithmetic::Divide, into, 1000);
    b.set(VALUE, since);
    b.arithmetic(Arithmetic::Divide, VALUE, 1000);
    b.subtract(into, VALUE);
}
