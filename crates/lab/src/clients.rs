//! Requests a second of clients that ask again when they are answered.
//!
//! A replay has the recorded requests and no others. Clients of a closed loop send fewer of them
//! when they wait longer, which the simulation counts. When they wait less they would send more, so
//! that the recorded requests are over before the run ends. How many more follows from Little's
//! law: each of n connections waits for a reply or thinks, so n = rate × (mean latency + mean time
//! to think). Nor can they send more than their own CPU time and the service's allow
//! ([`Asking::most_per_s`]). The mean latency leaves out the slowest thousandth: when most
//! connections have no request left, the last ones wait for messages that no longer come.
//!
//! # Worked example
//!
//! 16 connections sent 105,000 requests in 4.8 s, 21,875 a second, and waited 0.5 ms in the mean.
//! 16 / 21,875 s = 0.73 ms are 0.5 of waiting and 0.23 of thinking. In a column in which they wait
//! 0.2 ms they send 16 / (0.2 + 0.23 ms) = 37,100 a second, and the 105,000 are over after 2.8 s.

use crate::comparison::{Comparison, Variant};
use crate::error::Result;
use crate::experiment::Scenario;
use crate::metrics;
use crate::recording::Latency;
use crate::simulate::{Simulate, run_all};
use crate::verdict;
use schedcast_workload::programs::PERCENTILES;
use schedcast_workload::replay::{ClientLoop, Replay, ThreadId};

/// Rates that differ by less than this share are not told apart.
const DIFFERS: f64 = 0.02;

/// Whether clients ask again when the last reply has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosedLoop {
    /// Nothing tells that they do, and no log in microseconds that they do not.
    Unknown {
        /// Neither is known when requests were due within a millisecond: clients' timers are no
        /// finer.
        coarse: bool,
    },
    /// They keep a schedule.
    No,
    /// They do.
    Yes(Asking),
    /// So many keep a schedule each, with one request at a time under way.
    Bounded(u32),
}

/// How clients ask that ask again when the last reply has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking {
    /// On so many connections.
    pub connections: u32,
    /// As many requests a second as the CPU time of clients and service allows.
    pub most_per_s: u64,
}

impl Asking {
    /// Clients of the service of this number. They send no more than all CPUs can do at the
    /// recorded CPU time of a request, and no more than a client that is one thread can.
    ///
    /// Worked example: 35,000 requests cost their client 2.1 s of CPU time and the service 2.2 s,
    /// on two CPUs. Both have time for 35,000 / (4.3 / 2 s) = 16,300 a second, the client alone for
    /// 35,000 / 2.1 s = 16,700.
    pub(crate) fn of(replay: &Replay, number: usize, connections: u32) -> Self {
        let service = &replay.services[number];
        let executed_ns = |thread: ThreadId| {
            let activations = replay.activations_of(thread).iter();
            activations.map(|one| one.executed_ns).sum::<u64>()
        };
        let members = replay.members(service.group).into_iter();
        let threads = members.chain(service.clients.iter().copied());
        let of_a_cpu_ns = threads.map(executed_ns).sum::<u64>() / u64::from(replay.cpus);
        let client_ns = match service.clients[..] {
            [client] => executed_ns(client),
            _ => 0,
        };
        let requests = replay.whole_requests();
        let requests = requests.filter(|one| one.service as usize == number);
        let in_ns = of_a_cpu_ns.max(client_ns).max(1);
        Self {
            connections,
            most_per_s: (requests.count() as u128 * 1_000_000_000 / u128::from(in_ns)) as u64,
        }
    }
}

/// How the user says that clients decide when to ask.
pub(crate) fn client_loop(scenario: &Scenario) -> ClientLoop {
    let set = scenario.adjusts().next();
    set.map_or_else(ClientLoop::default, |adjust| adjust.client_loop)
}

/// Whether neither the recording nor the user says when clients ask.
pub fn are_assumed(scenario: &Scenario, known: Option<&ClosedLoop>) -> bool {
    client_loop(scenario) == ClientLoop::AsRecorded
        && matches!(known, Some(ClosedLoop::Unknown { .. }))
}

/// The same as a scenario, of clients that ask again when they have their reply.
fn with_closed_loop(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    for adjust in scenario.adjusts_mut() {
        adjust.client_loop = ClientLoop::Closed;
    }
    scenario
}

/// Why the second of two scenarios may not be recommended instead of the first, where nothing says
/// when clients ask: it helps only if they keep a schedule.
///
/// # Errors
/// Refusals by the simulation.
pub fn only_in_open_loop(
    pair: [&Scenario; 2],
    (known, latency): (Option<&ClosedLoop>, &Latency),
    seeds: u32,
    simulator: &impl Simulate,
) -> Result<Option<String>> {
    if !are_assumed(pair[0], known) {
        return Ok(None);
    }
    let pair = pair.map(with_closed_loop);
    let outcomes = run_all(simulator, &pair, seeds, &|| {})?;
    let closed = Comparison::new("", &pair, &outcomes)?;
    Ok(verdict::only_in_open_loop(&closed, latency))
}

/// Clients of which each sends again when it has been answered.
pub struct Waiting {
    /// How they ask, where that is known.
    pub asking: Option<Asking>,
    /// Length of a run in ns.
    pub run_ns: u64,
}

/// Requests of one column.
struct Requests {
    /// How many were sent.
    sent: f64,
    /// How long they took in the mean, in µs, without the slowest thousandth.
    mean_us: f64,
}

impl Requests {
    fn of(variant: &Variant, latency: &Latency) -> Option<Self> {
        let mean = |suffix: &str| Some(variant.get(&latency.metric(suffix))?.mean);
        Some(Self {
            sent: mean(metrics::COUNT)? + mean(metrics::UNFINISHED).unwrap_or(0.0),
            mean_us: mean_of_most(mean)?,
        })
    }

    fn are_fewer(&self, now: &Requests) -> bool {
        self.sent < now.sent * (1.0 - DIFFERS)
    }
}

/// The mean up to the highest percentile of [`PERCENTILES`], along straight lines between them.
///
/// Worked example: half of the values lie between 0 and 2, and the rest up to the 99.9th percentile
/// between 2 and 4. Their mean is (0.5 × 1 + 0.499 × 3) / 0.999 = 2.
fn mean_of_most(of: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let (mut below, mut value) = (0.0, of("min")?);
    let mut sum = 0.0;
    for (suffix, per_million) in PERCENTILES {
        let Some(next) = of(suffix) else { continue };
        let share = f64::from(per_million) / 1e6;
        sum += (share - below) * (value + next) / 2.0;
        (below, value) = (share, next);
    }
    (below > 0.0).then(|| sum / below)
}

/// Requests a second in a column, and in the first one.
#[derive(Debug, PartialEq)]
enum Pace {
    /// So many are sent.
    Slower { now: f64, then: f64 },
    /// The recorded ones are over after `over_s`; so many would be sent.
    Faster {
        now: f64,
        then: f64,
        over_s: f64,
        /// CPU time allows no more.
        is_most: bool,
    },
}

impl Waiting {
    /// A sentence on each column in which the clients ask more or less often than in the first.
    pub(crate) fn sentences(&self, variants: &[Variant], latency: &Latency) -> Vec<String> {
        let [now, others @ ..] = variants else {
            return Vec::new();
        };
        let Some(now) = Requests::of(now, latency) else {
            return Vec::new();
        };
        let told = others.iter().filter_map(|variant| {
            let pace = self.pace(&now, &Requests::of(variant, latency)?)?;
            Some(self.sentence(&variant.name, latency.counted(), &pace))
        });
        told.collect()
    }

    /// Whether the clients ask less often in the second column.
    pub(crate) fn are_slower(&self, now: &Variant, then: &Variant, latency: &Latency) -> bool {
        let of = |variant: &Variant| Requests::of(variant, latency);
        of(now)
            .zip(of(then))
            .is_some_and(|(now, then)| then.are_fewer(&now))
    }

    fn run_s(&self) -> f64 {
        self.run_ns as f64 / 1e9
    }

    /// The pace of a column; none if it is that of `now`.
    fn pace(&self, now: &Requests, then: &Requests) -> Option<Pace> {
        let run_s = self.run_s();
        let rate = now.sent / run_s;
        if then.are_fewer(now) {
            return Some(Pace::Slower {
                now: rate,
                then: then.sent / run_s,
            });
        }
        let asking = self.asking?;
        let connections_us = f64::from(asking.connections) * 1e6;
        let thinks_us = (connections_us / rate - now.mean_us).max(0.0);
        let wanted = connections_us / (then.mean_us + thinks_us);
        // What runs now fits, whatever the prices of operations that are in it.
        let most = (asking.most_per_s as f64).max(rate);
        let faster = wanted.min(most);
        let over_s = then.sent / faster;
        let is_over = over_s < run_s * (1.0 - DIFFERS) && faster > rate * (1.0 + DIFFERS);
        is_over.then_some(Pace::Faster {
            now: rate,
            then: faster,
            over_s,
            is_most: wanted > most,
        })
    }

    fn sentence(&self, column: &str, what: &str, pace: &Pace) -> String {
        let on = self.asking.map_or(String::new(), |asking| {
            format!(" on {} connections", asking.connections)
        });
        match pace {
            Pace::Slower { now, then } => format!(
                "“{column}”: {then:.0} {what}/s instead of {now:.0}, as clients{on} wait for a \
                 reply before they ask again."
            ),
            Pace::Faster {
                now,
                then,
                over_s,
                is_most,
            } => {
                let (how, why) = match is_most {
                    true => (
                        "at most",
                        ": CPU time of clients and service allows no more",
                    ),
                    false => ("about", ""),
                };
                format!(
                    "“{column}”: {how} {then:.0} {what}/s instead of {now:.0}, if clients{on} ask \
                     again as soon as now{why}; the recorded ones are over after {over_s:.1} s of \
                     {:.1}, and CPU time and throttling are of these.",
                    self.run_s()
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENTS: Waiting = Waiting {
        asking: Some(Asking {
            connections: 16,
            most_per_s: 50_000,
        }),
        run_ns: 4_800_000_000,
    };
    const NOW: Requests = Requests {
        sent: 105_000.0,
        mean_us: 500.0,
    };

    fn pace(sent: f64, mean_us: f64) -> Option<Pace> {
        CLIENTS.pace(&NOW, &Requests { sent, mean_us })
    }

    #[test]
    fn the_slowest_thousandth_is_not_in_the_mean() {
        let known = [("min", 0.0), ("p50", 2.0), ("p99.9", 4.0), ("max", 1e6)];
        let of = |suffix: &str| Some(known.iter().find(|(name, _)| *name == suffix)?.1);
        let mean = mean_of_most(of).unwrap();
        assert!((mean - (0.5 + 0.499 * 3.0) / 0.999).abs() < 1e-9, "{mean}");
        assert_eq!(mean_of_most(|_| None), None);
    }

    #[test]
    fn clients_that_wait_longer_send_what_the_column_counts() {
        let slower = pace(52_500.0, 1_200.0).unwrap();
        let (now, then) = (21_875.0, 10_937.5);
        assert_eq!(slower, Pace::Slower { now, then });
        assert_eq!(
            CLIENTS.sentence("a", "requests", &slower),
            "“a”: 10938 requests/s instead of 21875, as clients on 16 connections wait for \
             a reply before they ask again."
        );
        assert_eq!(pace(104_900.0, 495.0), None);
    }

    #[test]
    fn clients_that_wait_less_would_send_more_than_was_recorded() {
        let faster = pace(105_000.0, 200.0).unwrap();
        assert_eq!(
            CLIENTS.sentence("no limit", "requests", &faster),
            "“no limit”: about 37086 requests/s instead of 21875, if clients on 16 connections \
             ask again as soon as now; the recorded ones are over after 2.8 s of 4.8, and CPU time \
             and throttling are of these."
        );
        let most = pace(105_000.0, 20.0).unwrap();
        assert_eq!(
            CLIENTS.sentence("no limit", "requests", &most),
            "“no limit”: at most 50000 requests/s instead of 21875, if clients on 16 connections \
             ask again as soon as now: CPU time of clients and service allows no more; the \
             recorded ones are over after 2.1 s of 4.8, and CPU time and throttling are of these."
        );
    }
}
