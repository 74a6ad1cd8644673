//! Requests still unfinished when a run ends.
//!
//! A latency is recorded when something finishes. Statistics of finished things alone look best
//! where a service starves: what waits for ever is never recorded. So a workload may say where its
//! messages and requests stand ([`MessageSpec`], [`RequestSpec`]), and [`World::unfinished`] tells
//! the age of each one that has no end yet.
//!
//! Worked example: a server has answered 600 requests in 10 ms each, and 400 wait for it at the
//! end, since 1 to 400 ms. The median of all 1000 is 10 ms or so; the 95th percentile falls among
//! those that wait: it is at least 350 ms.

use super::tasks::Name;
use super::{Core, World};
use crate::program::{Amount, Reg};
use crate::workload::{MetricId, ProgramId, QueueId, WordId};
use schedcast_kernel::{Ns, TaskId};
use std::collections::BTreeMap;

/// Messages that begin the activations of tasks with one program.
///
/// The value of a message is the time it was sent, multiplied by the number of its kinds, plus its
/// kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageSpec {
    /// The program that receives them.
    pub program: ProgramId,
    /// Name that the tasks' statistics go to.
    pub statistics: String,
    /// Queues that they wait in.
    pub queues: Vec<QueueId>,
    /// For each kind that begins an activation: the metric of the time to its reply, if it has one.
    pub replies: Vec<Option<MetricId>>,
    /// Number of kinds; those beyond `replies` begin nothing that is timed.
    pub kinds: u64,
    /// Where a task keeps the kind of the message that it handles, when that was sent, and when it
    /// last replied.
    pub registers: [Reg; 3],
}

/// A request that a metric times from when it is due to its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestSpec {
    /// The metric.
    pub metric: MetricId,
    /// Metric that times it, too: that of requests of its kind.
    pub also: Option<MetricId>,
    /// When it is due, where that is fixed; negative before the run.
    pub due_ns: Option<i64>,
    /// When it became due, else; [`NOT_DUE`] until then and [`ANSWERED`] from the answer on.
    pub state: WordId,
}

impl RequestSpec {
    /// All metrics that time it.
    pub(super) fn metrics(&self) -> impl Iterator<Item = MetricId> {
        std::iter::once(self.metric).chain(self.also)
    }
}

/// State of a request that is not due by anything but its due time.
pub const NOT_DUE: u64 = Amount::FIXED_MAX;
/// State of a request whose answer has come.
pub const ANSWERED: u64 = Amount::FIXED_MAX - 1;

/// Ages of what has no end yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Activations under way and messages that wait for one, by the name of their statistics.
    pub activations: BTreeMap<String, Vec<Ns>>,
    /// Replies and requests, by metric.
    pub metrics: BTreeMap<u32, Vec<Ns>>,
}

impl<const EXPLAIN: bool, K: Core> World<EXPLAIN, K> {
    /// The age of everything that the workload's [`MessageSpec`]s and [`RequestSpec`]s tell of and
    /// that is under way now.
    pub fn unfinished(&self) -> Unfinished {
        let now = self.now();
        let workload = self.workload();
        let mut all = Unfinished::default();
        for spec in &workload.messages {
            // An entry without ages says that everything has finished.
            all.activations.entry(spec.statistics.clone()).or_default();
            for metric in spec.replies.iter().flatten() {
                all.metrics.entry(metric.0).or_default();
            }
            let waiting = spec
                .queues
                .iter()
                .flat_map(|queue| self.waiting_values(*queue));
            for value in waiting {
                let kinds = spec.kinds.max(1);
                let (sent_ns, kind) = (value / kinds, value % kinds);
                let Some(reply) = spec.replies.get(kind as usize) else {
                    continue;
                };
                all.add(&spec.statistics, *reply, now.saturating_sub(sent_ns));
            }
            for task in self.tasks_of(spec.program) {
                let Some(begun_ns) = self.probes().activated_at(task) else {
                    continue;
                };
                let [kind, sent_ns, replied_ns] =
                    spec.registers.map(|reg| self.register(task, reg));
                let reply = spec.replies.get(kind as usize).copied().flatten();
                let ages = all.activations.entry(spec.statistics.clone()).or_default();
                ages.push(now.saturating_sub(begun_ns));
                if let Some(reply) = reply.filter(|_| replied_ns <= begun_ns) {
                    let since_ns = sent_ns.max(replied_ns);
                    let ages = all.metrics.entry(reply.0).or_default();
                    ages.push(now.saturating_sub(since_ns));
                }
            }
        }
        for spec in &workload.requests {
            let due_ns = match (self.word(spec.state), spec.due_ns) {
                (ANSWERED, _) | (NOT_DUE, None) => None,
                (_, Some(due_ns)) => Some(due_ns),
                (due_ns, None) => Some(due_ns as i64),
            };
            let age = due_ns.map(|due_ns| i128::from(now) - i128::from(due_ns));
            let age = age.and_then(|age| Ns::try_from(age).ok());
            for metric in spec.metrics() {
                all.metrics.entry(metric.0).or_default().extend(age);
            }
        }
        all
    }
}

impl Unfinished {
    /// A message that waits, with the metric of its reply.
    fn add(&mut self, statistics: &str, reply: Option<MetricId>, age: Ns) {
        let ages = self.activations.entry(statistics.to_owned()).or_default();
        ages.push(age);
        if let Some(metric) = reply {
            self.metrics.entry(metric.0).or_default().push(age);
        }
    }
}

impl<const EXPLAIN: bool, K: Core> World<EXPLAIN, K> {
    fn waiting_values(&self, queue: QueueId) -> impl Iterator<Item = u64> + '_ {
        let queue = self.out.tasks.queues.get(queue.0 as usize);
        let messages = queue.into_iter().flat_map(|queue| &queue.messages);
        messages.map(|message| message.value)
    }

    /// Live tasks with a program, in the order of their rows.
    fn tasks_of(&self, program: ProgramId) -> impl Iterator<Item = TaskId> + '_ {
        let contexts = self.out.tasks.contexts.iter().enumerate();
        contexts
            .filter(move |(_, one)| one.program == program.0 && one.name != Name::Kernel)
            .map(|(row, _)| TaskId::from(row))
    }

    /// A register that no program uses is 0.
    fn register(&self, task: TaskId, register: Reg) -> u64 {
        let registers = self.out.tasks.registers(task);
        registers.get(usize::from(register.0)).copied().unwrap_or(0)
    }

    fn word(&self, word: WordId) -> u64 {
        self.out.tasks.words[word.0 as usize]
    }
}
