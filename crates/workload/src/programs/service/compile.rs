//! Listener, workers and helpers.

use schedcast_kernel::Cpu;
use schedcast_sim::program::Compare;
use schedcast_sim::workload::{
    ARRIVAL_TIME, Arrival, ArrivalAction, ArrivalContext, ArrivalSource, DistributionId, ProgramId,
    QueueId,
};
use schedcast_sim::{Distribution, ProgramBuilder};

use super::{Demand, Options, SECOND_NS};
use crate::programs::command::CommandError;
use crate::programs::postgres::{epoll_is_sync, queues};
use crate::programs::start::Compiler;
use crate::registers::registers;

registers! { 0;
    /// A worker's queue for finished pieces.
    DONE ARRIVED END NOW LEFT CHILD VALUE PIECE
}

/// Between two looks at the clock of a loop with nothing else in it, ns: what `clock_gettime` takes
/// in user mode (vDSO).
const CLOCK_STEP_NS: u32 = 25;
/// Size of a request and of a reply, bytes.
const MESSAGE_BYTES: u64 = 512;
/// Tells a thread to end; no request arrives at this time, no queue has this number.
const GOOD_BYE: u64 = 0;

/// Where requests and pieces wait.
#[derive(Clone, Copy)]
struct Queues {
    /// The listener's sockets.
    network: QueueId,
    pool: QueueId,
    pieces: QueueId,
    /// Finished pieces of worker 0; the others follow.
    done: QueueId,
}

impl Demand {
    /// The distribution of a computation that takes `mean` ns on average.
    pub(in crate::programs) fn add(self, compiler: &mut Compiler, mean: u64) -> DistributionId {
        compiler.workload.add_distribution(match self {
            Demand::Exponential => Distribution::Exponential { mean },
            Demand::Uniform => Distribution::uniform(0, 2 * mean),
            Demand::Fixed => Distribution::uniform(mean, mean),
        })
    }
}

impl Options {
    pub(in crate::programs) fn compile(&self, compiler: &mut Compiler) -> Result<(), CommandError> {
        // Queue 0 belongs to no thread, so that its number can mean something else.
        queues(compiler, 1);
        let queues = Queues {
            network: queues(compiler, 1),
            pool: queues(compiler, 1),
            pieces: queues(compiler, 1),
            done: queues(compiler, self.threads),
        };
        self.arrivals(compiler, queues);
        let worker = self.worker(compiler, queues)?;
        let worker = compiler.fork("", worker, false);
        let helper = self.helper(compiler, queues)?;
        let helper = compiler.fork("", helper, false);
        let prices = compiler.start.prices;
        let mut b = ProgramBuilder::new("http-service");
        b.now(END);
        b.add(END, self.duration_ns);
        b.set(DONE, u64::from(queues.done.0));
        b.repeat(LEFT, self.threads, |b| {
            b.fork(worker, CHILD);
            b.add(DONE, 1);
        });
        for _ in 0..self.helpers {
            b.fork(helper, CHILD);
        }
        // The process itself is the listener.
        b.forever(|b, end| {
            b.now(NOW);
            b.jump_if(NOW, Compare::GreaterOrEqual, END, end);
            b.difference(VALUE, END, NOW);
            b.kernel_work(prices.poll_ns);
            b.recv_timeout(queues.network, ARRIVED, VALUE);
            b.now(NOW);
            b.jump_if(NOW, Compare::GreaterOrEqual, END, end);
            b.kernel_work(prices.tcp_receive(MESSAGE_BYTES));
            b.send(queues.pool, 1, ARRIVED, false);
        });
        b.set(VALUE, GOOD_BYE);
        for _ in 0..self.threads {
            b.send(queues.pool, 1, VALUE, false);
        }
        b.join_all();
        compiler.finish(b)
    }

    fn arrivals(&self, compiler: &mut Compiler, queues: Queues) {
        let mean = SECOND_NS / self.rate;
        let interval = match self.random {
            true => Distribution::Exponential { mean },
            false => Distribution::uniform(mean, mean),
        };
        let interval = compiler.workload.add_distribution(interval);
        let first = Arrival {
            at_ns: compiler.start.start_ns + mean,
            cpu: Cpu(self.interrupt_cpu),
            context: ArrivalContext::SoftIrq,
            sync: epoll_is_sync(compiler),
            action: ArrivalAction::Send {
                queue: queues.network,
                bytes: MESSAGE_BYTES,
                value: ARRIVAL_TIME,
            },
        };
        let source = ArrivalSource::Stream { first, interval };
        let name = compiler.start.name.clone();
        compiler.workload.add_arrivals(name, source);
    }

    fn worker(&self, compiler: &mut Compiler, queues: Queues) -> Result<ProgramId, CommandError> {
        let latency = compiler.metric("latency");
        let queue = compiler.metric("queue");
        let work = self.demand.add(compiler, self.work_ns);
        let locked = self.demand.add(compiler, self.lock_ns);
        let lock = compiler.workload.add_mutex();
        let reply_ns = compiler.start.prices.tcp_send(MESSAGE_BYTES);
        let mut b = ProgramBuilder::new("http-service-worker");
        b.forever(|b, end| {
            b.recv(queues.pool, ARRIVED);
            b.jump_if(ARRIVED, Compare::Equal, GOOD_BYE, end);
            b.record_since(queue, ARRIVED);
            if self.lock_ns > 0 {
                b.lock(lock);
                b.work(locked);
                b.unlock(lock);
            }
            self.compute(b, work);
            if self.fan_out > 0 {
                for _ in 0..self.fan_out {
                    b.send(queues.pieces, 1, DONE, false);
                }
                b.repeat(LEFT, self.fan_out, |b| {
                    b.recv(DONE, VALUE);
                });
            }
            b.kernel_work(reply_ns);
            b.record_since(latency, ARRIVED);
        });
        if self.fan_out > 0 {
            self.end_helpers(compiler, &mut b, queues);
        }
        b.exit();
        compiler.program(b)
    }

    /// Computes so long, or until so much time has passed.
    fn compute(&self, b: &mut ProgramBuilder, length: DistributionId) {
        match self.by_clock {
            true => b.spin(length, CLOCK_STEP_NS),
            false => b.work(length),
        };
    }

    /// The last worker to end sends the helpers home.
    fn end_helpers(&self, compiler: &mut Compiler, b: &mut ProgramBuilder, queues: Queues) {
        let ended = compiler.workload.add_word(0);
        b.word_fetch_add(ended, 1, VALUE);
        b.unless(VALUE, Compare::Less, self.threads - 1, |b| {
            b.set(VALUE, GOOD_BYE);
            for _ in 0..self.helpers {
                b.send(queues.pieces, 1, VALUE, false);
            }
        });
    }

    fn helper(&self, compiler: &mut Compiler, queues: Queues) -> Result<ProgramId, CommandError> {
        let work = self.demand.add(compiler, self.fan_work_ns);
        let mut b = ProgramBuilder::new("http-service-helper");
        b.forever(|b, end| {
            b.recv(queues.pieces, PIECE);
            b.jump_if(PIECE, Compare::Equal, GOOD_BYE, end);
            self.compute(b, work);
            b.send(PIECE, 1, PIECE, false);
        });
        b.exit();
        compiler.program(b)
    }
}
