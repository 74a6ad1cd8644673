//! Load of both servers: when requests come, and the work and allocation of one.

use schedcast_kernel::Cpu;
use schedcast_sim::workload::{
    ARRIVAL_TIME, Arrival, ArrivalAction, ArrivalContext, ArrivalSource, DistributionId, MetricId,
    QueueId,
};
use schedcast_sim::{Distribution, ProgramBuilder, Reg};
use schedcast_trace::recording::Request;

use crate::programs::command::{CommandError, Words};
use crate::programs::postgres::epoll_is_sync;
use crate::programs::results::{MetricMap, Results};
use crate::programs::service::{ARRIVALS, DEMANDS, Demand};
use crate::programs::start::Compiler;

const SECOND_NS: u64 = 1_000_000_000;
/// Size of a request and of a reply, bytes.
pub(super) const MESSAGE_BYTES: u64 = 512;
/// Time from the start of the server to the first request of a log, ns.
const FIRST_NS: u64 = 1_000_000;
/// How often the end of the load is looked for, ns; Go's `sysmon` sleeps so long at the most.
const LOOK_NS: u64 = 10_000_000;

/// Times of requests, and the work and allocation of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Load {
    rate: u64,
    random: bool,
    /// Times from the start of the program, ns.
    schedule: Option<Vec<u64>>,
    pub duration_ns: u64,
    pub work_ns: u64,
    demand: Demand,
    pub alloc_bytes: u64,
}

impl Load {
    pub(super) fn read(words: &Words, compiler: &Compiler) -> Result<Self, CommandError> {
        let schedule: Option<Vec<u64>> = match words.last("schedule") {
            None => None,
            Some(given) => {
                if let Some(other) = ["rate", "arrivals", "duration"]
                    .iter()
                    .find_map(|key| words.last(key))
                {
                    let message = format!("`{}` is what `--schedule` says", other.typed);
                    return Err(other.error(message));
                }
                let path = compiler.start.directory.join(given.text());
                let requests =
                    Request::read_csv(&path).map_err(|error| given.error(error.to_string()))?;
                let mut times: Vec<u64> = requests
                    .iter()
                    .map(|request| request.scheduled_us * 1000)
                    .collect();
                times.sort_unstable();
                let Some(&first) = times.first() else {
                    return Err(given.error(format!("{} has no request", path.display())));
                };
                Some(times.iter().map(|time| time - first + FIRST_NS).collect())
            }
        };
        let duration_ns = match &schedule {
            Some(times) => times.last().map_or(0, |last| last + FIRST_NS),
            None => words.length_ns("duration", 10 * SECOND_NS)?,
        };
        Ok(Self {
            rate: words.whole("rate", 1..=10_000_000, 100)?,
            random: words.one_of("arrivals", &ARRIVALS)?,
            schedule,
            duration_ns,
            work_ns: words.whole("work", 1..=60_000_000, 1000)? * 1000,
            demand: words.one_of("demand", &DEMANDS)?,
            alloc_bytes: words.whole("alloc", 0..=10_000_000, 0)? * super::KILOBYTE,
        })
    }

    /// Adds the arrivals of requests at a queue.
    pub(super) fn add(&self, compiler: &mut Compiler, queue: QueueId) {
        let start_ns = compiler.start.start_ns;
        let sync = epoll_is_sync(compiler);
        let arrival = |at_ns: u64| Arrival {
            at_ns,
            cpu: Cpu(0),
            context: ArrivalContext::SoftIrq,
            sync,
            action: ArrivalAction::Send {
                queue,
                bytes: MESSAGE_BYTES,
                value: ARRIVAL_TIME,
            },
        };
        let mean = SECOND_NS / self.rate;
        let source = match &self.schedule {
            Some(times) => {
                ArrivalSource::List(times.iter().map(|time| arrival(start_ns + time)).collect())
            }
            None => {
                let interval = match self.random {
                    true => Distribution::Exponential { mean },
                    false => Distribution::uniform(mean, mean),
                };
                ArrivalSource::Stream {
                    first: arrival(start_ns + mean),
                    interval: compiler.workload.add_distribution(interval),
                }
            }
        };
        let name = compiler.start.name.clone();
        compiler.workload.add_arrivals(name, source);
    }

    /// CPU time of a request, ns.
    pub(super) fn demand(&self, compiler: &mut Compiler) -> DistributionId {
        self.demand.add(compiler, self.work_ns)
    }

    /// Waits until the load is over and, of a log, everything is answered.
    pub(super) fn wait_for_end(
        &self,
        b: &mut ProgramBuilder,
        words: &super::Words,
        free: [Reg; 2],
    ) {
        use schedcast_sim::program::Compare;
        let [end, now] = free;
        b.now(end);
        b.add(end, self.duration_ns);
        let top = b.here();
        b.sleep(LOOK_NS);
        b.now(now);
        b.jump_if(now, Compare::Less, end, top);
        if let Some(times) = &self.schedule {
            b.word_load(words.answered, now);
            b.jump_if(now, Compare::Less, times.len() as u64, top);
        }
        b.word_store(words.ending, 1);
    }

    pub(super) fn metrics(&self, results: &Results, map: &mut MetricMap) {
        results.put(
            map,
            "requests_per_s",
            results.answered_per_s(self.duration_ns),
        );
        results.put_latency(map, "latency");
        results.put_latency(map, "queue");
        results.put_latency(map, "pause");
        results.put(
            map,
            "collections",
            Some(results.count("collections") as f64),
        );
    }

    pub(super) fn report(&self, results: &Results, processors: u64) -> String {
        let mut text = format!(
            "requests  {:.1} a second answered, {processors} processors, {} collections\n",
            results.answered_per_s(self.duration_ns).unwrap_or(0.0),
            results.count("collections"),
        );
        for metric in ["latency", "queue", "pause"] {
            text += &crate::programs::service::summary(results, metric);
        }
        text
    }
}

/// Metrics of a server.
pub(super) struct Metrics {
    pub latency: MetricId,
    pub queue: MetricId,
    pub pause: MetricId,
    pub collections: MetricId,
}

impl Metrics {
    pub(super) fn new(compiler: &mut Compiler) -> Self {
        Self {
            latency: compiler.metric("latency"),
            queue: compiler.metric("queue"),
            pause: compiler.metric("pause"),
            collections: compiler.metric("collections"),
        }
    }
}
