//! Services as programs, tasks and arrivals for the simulator.
//!
//! ```text
//!   client:  wait until the next request is due, or an answer comes
//!            due:     note when it was due, send its number to the pool, draw the next gap
//!            answer:  if it is the last piece: record the time since it was due
//!   thread:  take the oldest number of the pool, work what is drawn, wait for devices, send the number back
//! ```
//!
//! All threads of a service wait on one queue; the one that waited longest is woken first.
//! Unfinished requests are noted in rows of words by the number of the request modulo [`ROWS`], so
//! that far more may be under way than a machine could serve.

use super::{Arrivals, Client, Gaps, MILLION, Service};
use crate::registers::registers;
use schedcast_kernel::{Cpu, GroupId};
use schedcast_sim::workload::{
    Arrival, ArrivalAction, ArrivalContext, ArrivalSource, DistributionId, MetricId, ProgramId,
    QueueId, QueueSpec, TaskSpec,
};
use schedcast_sim::{
    Amount, Arithmetic, Compare, Distribution, ProgramBuilder, ProgramError, Workload,
};

/// Requests under way that are told apart.
const ROWS: u64 = 1 << 14;
/// Size of a message; queues are unbounded, so it says nothing.
const MESSAGE_BYTES: u64 = 1;

registers! { 0;
    /// Number of a request.
    NUMBER
    /// When the next request is due.
    DUE NOW
    /// Number of the next request.
    NEXT ROW VALUE WORK WAITS
}

/// Where a service runs, and what it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Name of the threads, and of the service in metrics.
    pub name: String,
    /// Group of the threads.
    pub group: GroupId,
    /// Group of the client.
    pub client_group: GroupId,
}

/// Queues, metric and words that client and threads share.
struct Shared {
    pool: QueueId,
    answers: QueueId,
    latency: MetricId,
    /// Rows of words: when requests were due, and how many pieces are missing.
    due: u64,
    missing: u64,
}

impl Service {
    /// Adds the service to a workload.
    ///
    /// Latency for clients, from the time a request is due to its last answer, goes to the metric
    /// `NAME/request_latency`.
    ///
    /// # Errors
    /// If a program breaks a limit of the simulator.
    pub fn compile(&self, placed: &Placed, workload: &mut Workload) -> Result<(), ProgramError> {
        let pool = workload.add_queue(QueueSpec::UNBOUNDED);
        let program = self.threads_program(placed, pool, workload)?;
        for _ in 0..self.threads {
            let mut task = task(&placed.name, program, placed.group, workload);
            task.nice = self.nice;
            if self.kernel {
                task.address_space = None;
            }
            workload.add_task(task);
        }
        match (&self.client, &self.arrivals) {
            (None, Arrivals::Open { mean_gap_ns, gaps }) => {
                let interval = workload.add_distribution(gaps.distribution(*mean_gap_ns));
                let source = ArrivalSource::Stream {
                    first: Arrival {
                        at_ns: *mean_gap_ns,
                        cpu: Cpu(0),
                        context: ArrivalContext::HardIrq,
                        sync: false,
                        action: ArrivalAction::Send {
                            queue: pool,
                            bytes: MESSAGE_BYTES,
                            value: NOBODY,
                        },
                    },
                    interval,
                };
                workload.add_arrivals(placed.name.clone(), source);
                Ok(())
            }
            (client, arrivals) => {
                let nobody = Client {
                    name: format!("{}-client", placed.name),
                    work_ns: 0,
                };
                let client = client.as_ref().unwrap_or(&nobody);
                self.add_clients(placed, client, arrivals, pool, workload)
            }
        }
    }

    /// Clients: one that keeps a timetable, or as many as ask in turn.
    fn add_clients(
        &self,
        placed: &Placed,
        client: &Client,
        arrivals: &Arrivals,
        pool: QueueId,
        workload: &mut Workload,
    ) -> Result<(), ProgramError> {
        let count = match arrivals {
            Arrivals::Open { .. } => 1,
            Arrivals::Closed { clients, .. } => *clients,
        };
        for _ in 0..count {
            let row = |workload: &mut Workload| {
                let first = workload.words.len() as u64;
                let length = workload.words.len() + ROWS as usize;
                workload.words.resize(length, 0);
                first
            };
            let shared = Shared {
                pool,
                answers: workload.add_queue(QueueSpec::UNBOUNDED),
                latency: workload.add_metric(&format!("{}/request_latency", placed.name)),
                due: row(workload),
                missing: row(workload),
            };
            let program = match arrivals {
                Arrivals::Open { mean_gap_ns, gaps } => {
                    let gap = workload.add_distribution(gaps.distribution(*mean_gap_ns));
                    self.timetable(client, &shared, gap)?
                }
                Arrivals::Closed { think_ns, .. } => {
                    let think = Distribution::Quantiles(think_ns.clone());
                    let think = workload.add_distribution(think);
                    self.in_turn(client, &shared, think)?
                }
            };
            let program = workload.add_program(program);
            let task = task(&client.name, program, placed.client_group, workload);
            workload.add_task(task);
        }
        Ok(())
    }

    /// The program of a thread: take a request, work, answer.
    fn threads_program(
        &self,
        placed: &Placed,
        pool: QueueId,
        workload: &mut Workload,
    ) -> Result<ProgramId, ProgramError> {
        let work = workload.add_distribution(Distribution::Quantiles(self.work_ns.clone()));
        let mut b = ProgramBuilder::new(placed.name.clone());
        let top = b.here();
        b.recv(pool, NUMBER);
        b.set(WORK, work);
        if let Some(io) = &self.io {
            let wait = workload.add_distribution(Distribution::Quantiles(io.wait_ns.clone()));
            let dice = workload.add_distribution(Distribution::uniform(0, MILLION - 1));
            let (pieces, drawn, done) = (b.label(), b.label(), b.label());
            b.set(WAITS, io.per_million / MILLION);
            b.set(VALUE, dice);
            b.jump_if(
                VALUE,
                Compare::GreaterOrEqual,
                io.per_million % MILLION,
                drawn,
            );
            b.add(WAITS, 1);
            b.bind(drawn);
            b.sum(VALUE, WAITS, 1);
            b.arithmetic(Arithmetic::Divide, WORK, VALUE);
            b.bind(pieces);
            b.jump_if(WAITS, Compare::Equal, 0, done);
            b.work(WORK);
            b.io(wait);
            b.subtract(WAITS, 1);
            b.jump(pieces);
            b.bind(done);
        }
        b.work(WORK);
        let closes = matches!(self.arrivals, Arrivals::Closed { .. });
        if self.client.is_some() || closes {
            // Number and queue of the client.
            b.set(VALUE, NUMBER);
            b.arithmetic(Arithmetic::Remainder, VALUE, QUEUES);
            b.arithmetic(Arithmetic::Divide, NUMBER, QUEUES);
            b.send(VALUE, MESSAGE_BYTES, NUMBER, true);
        }
        b.jump(top);
        Ok(workload.add_program(b.finish()?))
    }

    /// The program of a client that sends by its timetable.
    fn timetable(
        &self,
        client: &Client,
        shared: &Shared,
        gap: DistributionId,
    ) -> Result<schedcast_sim::Program, ProgramError> {
        let mut b = ProgramBuilder::new(client.name.clone());
        let (wait, answer) = (b.label(), b.label());
        b.now(DUE);
        b.set(VALUE, gap);
        b.add(DUE, VALUE);
        let top = b.here();
        b.now(NOW);
        b.jump_if(NOW, Compare::Less, DUE, wait);
        self.ask(&mut b, client, shared);
        b.set(VALUE, gap);
        b.add(DUE, VALUE);
        b.jump(top);
        b.bind(wait);
        b.difference(VALUE, DUE, NOW);
        b.recv_timeout(shared.answers, NUMBER, VALUE);
        // No run has as many requests: the time was up.
        b.jump_if(NUMBER, Compare::Less, Amount::FIXED_MAX, answer);
        b.jump(top);
        b.bind(answer);
        shared.answered(&mut b, client, top);
        b.jump(top);
        b.finish()
    }

    /// The program of a client that asks again after an answer.
    fn in_turn(
        &self,
        client: &Client,
        shared: &Shared,
        think: DistributionId,
    ) -> Result<schedcast_sim::Program, ProgramError> {
        let mut b = ProgramBuilder::new(client.name.clone());
        let top = b.here();
        b.set(VALUE, think);
        b.sleep(VALUE);
        b.now(DUE);
        self.ask(&mut b, client, shared);
        let more = b.here();
        b.recv(shared.answers, NUMBER);
        shared.answered(&mut b, client, more);
        b.jump(top);
        b.finish()
    }

    /// Sends all pieces of the next request.
    fn ask(&self, b: &mut ProgramBuilder, client: &Client, shared: &Shared) {
        if client.work_ns > 0 {
            b.work(client.work_ns / 2);
        }
        b.set(NUMBER, NEXT);
        b.add(NEXT, 1);
        shared.row(b, shared.due);
        b.word_store(ROW, DUE);
        shared.row(b, shared.missing);
        b.word_store(ROW, u64::from(self.fan_out));
        b.set(VALUE, NUMBER);
        b.arithmetic(Arithmetic::Multiply, VALUE, QUEUES);
        b.add(VALUE, u64::from(shared.answers.0));
        for _ in 0..self.fan_out {
            b.send(shared.pool, MESSAGE_BYTES, VALUE, true);
        }
    }
}

/// Messages to a pool are the number of the request times this, plus the queue that answers go to.
const QUEUES: u64 = 1 << 20;
/// Sender number of an interrupt, which waits for no answer.
const NOBODY: u64 = 0;

impl Shared {
    /// Sets [`ROW`] to the word of request [`NUMBER`] in a row.
    fn row(&self, b: &mut ProgramBuilder, first: u64) {
        b.set(ROW, NUMBER);
        b.arithmetic(Arithmetic::Remainder, ROW, ROWS);
        b.add(ROW, first);
    }

    /// A piece is answered; while others are missing, goes on at `more`.
    fn answered(
        &self,
        b: &mut ProgramBuilder,
        client: &Client,
        more: schedcast_sim::program::Label,
    ) {
        self.row(b, self.missing);
        b.word_load(ROW, VALUE);
        b.subtract(VALUE, 1);
        b.word_store(ROW, VALUE);
        b.jump_if(VALUE, Compare::NotEqual, 0, more);
        self.row(b, self.due);
        b.word_load(ROW, VALUE);
        b.record_since(self.latency, VALUE);
        if client.work_ns > 0 {
            b.work(client.work_ns - client.work_ns / 2);
        }
    }
}

impl Gaps {
    fn distribution(&self, mean_ns: u64) -> Distribution {
        let scaled = |millionths: &u64| {
            let ns = u128::from(*millionths) * u128::from(mean_ns) / u128::from(MILLION);
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        match self {
            Gaps::Poisson => Distribution::Exponential { mean: mean_ns },
            Gaps::Even => Distribution::Quantiles(vec![mean_ns]),
            Gaps::Quantiles(quantiles) => {
                Distribution::Quantiles(quantiles.iter().map(scaled).collect())
            }
        }
    }
}

/// A task with an address space of its own.
fn task(name: &str, program: ProgramId, group: GroupId, workload: &Workload) -> TaskSpec {
    let mut task = TaskSpec::new(name, program);
    task.group = group;
    let used = workload.tasks.iter().filter_map(|task| task.address_space);
    task.address_space = Some(used.max().map_or(0, |last| last + 1));
    task
}
