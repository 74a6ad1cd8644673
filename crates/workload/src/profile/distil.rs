//! From a replay to services: what stays of a recording when its events are forgotten.
//!
//! Servers of [exchanges](crate::replay::Exchange) become a service with their client. All other
//! threads of one name and group become one whose requests are their wakeups: who woke them is
//! forgotten, how often and for how much work is kept. Threads that use next to nothing are left
//! out.

use super::{Arrivals, Client, Gaps, Io, MILLION, Service};
use crate::replay::{
    Activation, ActivationId, Exchange, Exchanged, GroupIndex, Replay, Step, ThreadId, Trigger,
};
use std::collections::{BTreeMap, BTreeSet};

/// Steps of probability between two quantiles: 40 are steps of 2.5 %.
const STEPS: usize = 40;
/// Threads that use less of the machine's time than one part in this are left out.
const LEAST_SHARE: u64 = 1000;
/// Fewer than this many requests have no distribution.
const REQUESTS_MIN: usize = 10;
/// Gaps whose standard deviation is this share of their mean, in percent, are exponential.
const POISSON_PERCENT: std::ops::RangeInclusive<u64> = 80..=125;
/// Below this they are all the same.
const EVEN_PERCENT: u64 = 10;

/// A service of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distilled {
    /// Name of the threads; with `-other` behind it where the same threads serve requests, too.
    pub name: String,
    /// Path of their cgroup; autogroups are the root.
    pub cgroup: String,
    /// Path of the client's cgroup.
    pub client_cgroup: String,
    /// Service of the threads.
    pub service: Service,
    /// Requests it was made of.
    pub requests: u64,
    /// CPU time of these, ns.
    pub work_ns: u64,
}

/// All services of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Services with clients first, then the others, each by CPU time.
    pub services: Vec<Distilled>,
    /// Length of the recording.
    pub duration_ns: u64,
    /// Threads that were left out.
    pub left_out: u32,
    /// CPU time of these, ns.
    pub left_out_ns: u64,
}

/// One request or wakeup.
#[derive(Clone, Copy)]
struct Demand {
    due_ns: i64,
    work_ns: u64,
}

/// Name and group of threads that are alike.
type Kind = (String, GroupIndex);

impl Profile {
    /// Profile of `replay`.
    pub fn distil(replay: &Replay) -> Profile {
        let mut served: BTreeSet<ActivationId> = BTreeSet::new();
        let mut by_kind: BTreeMap<Kind, Vec<&Exchange>> = BTreeMap::new();
        for exchange in &replay.exchanges {
            served.extend(exchange.requests.iter().map(|one| one.request));
            let kind = kind_of(replay, exchange.servers[0]);
            by_kind.entry(kind).or_default().push(exchange);
        }
        let mut services: Vec<Distilled> = by_kind
            .iter()
            .filter_map(|(kind, exchanges)| with_client(replay, kind, exchanges))
            .collect();
        let clients: BTreeSet<ThreadId> = replay.exchanges.iter().map(|e| e.client).collect();
        let (others, left_out) = without_client(replay, &served, &clients, &by_kind);
        let by_work = |one: &Distilled| (std::cmp::Reverse(one.work_ns), one.name.clone());
        services.sort_by_key(by_work);
        services.extend(others);
        Profile {
            services,
            duration_ns: replay.duration_ns,
            left_out: left_out.0,
            left_out_ns: left_out.1,
        }
    }
}

fn kind_of(replay: &Replay, thread: ThreadId) -> Kind {
    let thread = &replay.threads[thread.index()];
    (thread.name.clone(), thread.group)
}

fn path_of(replay: &Replay, group: GroupIndex) -> String {
    let group = &replay.groups[group.index()];
    if group.autogroup {
        return "/".to_string();
    }
    group.path.clone()
}

fn work_of(replay: &Replay, activation: &Activation) -> u64 {
    let steps = replay.steps_of(activation).iter();
    steps
        .map(|step| match step {
            Step::Run { work_ns } => *work_ns,
            _ => 0,
        })
        .sum()
}

/// Delays of devices in these activations.
fn delays_of<'a>(
    replay: &'a Replay,
    activations: impl Iterator<Item = &'a Activation> + 'a,
) -> Vec<u64> {
    let steps = activations.flat_map(|activation| replay.steps_of(activation));
    steps
        .filter_map(|step| match step {
            Step::Io { delay_ns } => Some(*delay_ns),
            _ => None,
        })
        .collect()
}

/// Servers and the client that asks them.
fn with_client(replay: &Replay, kind: &Kind, exchanges: &[&Exchange]) -> Option<Distilled> {
    let requests: Vec<&Exchanged> = exchanges.iter().flat_map(|e| &e.requests).collect();
    let activation = |one: &Exchanged| &replay.activations[one.request.index()];
    let demands: Vec<Demand> = requests
        .iter()
        .map(|one| Demand {
            due_ns: one.due_ns.unwrap_or(activation(one).woken_ns as i64),
            work_ns: work_of(replay, activation(one)),
        })
        .collect();
    let threads: BTreeSet<ThreadId> = exchanges.iter().flat_map(|e| e.servers.clone()).collect();
    let asking: BTreeSet<ThreadId> = exchanges.iter().map(|e| e.client).collect();
    let client = *asking.first()?;
    let asked = asking.iter().flat_map(|id| replay.activations_of(*id));
    let client_work_ns: u64 = asked.map(|activation| work_of(replay, activation)).sum();
    let timed = requests.iter().filter(|one| one.due_ns.is_some()).count();
    let closed = timed * 2 < requests.len();
    let mut distilled = distilled(
        replay,
        kind,
        threads.len() as u32,
        &demands,
        delays_of(replay, requests.iter().map(|one| activation(one))),
        true,
    )?;
    if closed {
        distilled.service.fan_out = 1;
        distilled.service.arrivals = Arrivals::Closed {
            clients: exchanges.iter().map(|e| e.servers.len() as u32).sum(),
            think_ns: quantiles(pauses(replay, exchanges)),
        };
    }
    let asked = match closed {
        true => demands.len() as u64,
        false => demands.len() as u64 / u64::from(distilled.service.fan_out),
    };
    distilled.service.client = Some(Client {
        name: replay.threads[client.index()].name.clone(),
        work_ns: client_work_ns / asked.max(1),
    });
    distilled.client_cgroup = path_of(replay, replay.threads[client.index()].group);
    Some(distilled)
}

/// Times between an answer and the next request to the same server.
fn pauses(replay: &Replay, exchanges: &[&Exchange]) -> Vec<u64> {
    let mut answered_ns: BTreeMap<ThreadId, u64> = BTreeMap::new();
    let mut pauses = Vec::new();
    for one in exchanges.iter().flat_map(|exchange| &exchange.requests) {
        let request = &replay.activations[one.request.index()];
        if let Some(answered_ns) = answered_ns.get(&request.thread) {
            pauses.push(request.woken_ns.saturating_sub(*answered_ns));
        }
        if let Some(replied_ns) = request.replied_ns {
            answered_ns.insert(request.thread, replied_ns);
        }
    }
    pauses
}

/// All threads that no client asks, and what was too little of them: threads and CPU time.
fn without_client(
    replay: &Replay,
    served: &BTreeSet<ActivationId>,
    clients: &BTreeSet<ThreadId>,
    serving: &BTreeMap<Kind, Vec<&Exchange>>,
) -> (Vec<Distilled>, (u32, u64)) {
    let mut by_kind: BTreeMap<Kind, (u32, Vec<ActivationId>)> = BTreeMap::new();
    for (id, thread) in (0u32..).map(ThreadId).zip(&replay.threads) {
        let own = thread.activations.clone().map(ActivationId);
        let own: Vec<ActivationId> = own.filter(|id| !served.contains(id)).collect();
        if clients.contains(&id) || own.is_empty() {
            continue;
        }
        let (threads, activations) = by_kind.entry(kind_of(replay, id)).or_default();
        *threads += 1;
        activations.extend(own);
    }
    let least_ns = replay.duration_ns * u64::from(replay.cpus) / LEAST_SHARE;
    let mut found = Vec::new();
    let mut left_out = (0, 0);
    for (kind, (threads, ids)) in &by_kind {
        let activations = || ids.iter().map(|id| &replay.activations[id.index()]);
        let work_ns: u64 = activations().map(|one| work_of(replay, one)).sum();
        // The arrival of an activation that was under way at the start is not known.
        let demands: Vec<Demand> = activations()
            .filter(|one| one.trigger != Trigger::Start)
            .map(|one| Demand {
                due_ns: one.woken_ns as i64,
                work_ns: work_of(replay, one),
            })
            .collect();
        let delays_ns = delays_of(replay, activations());
        let enough = work_ns >= least_ns;
        let service = enough.then(|| distilled(replay, kind, *threads, &demands, delays_ns, false));
        match service.flatten() {
            Some(mut service) => {
                if serving.contains_key(kind) {
                    service.name += "-other";
                }
                found.push(service);
            }
            None => left_out = (left_out.0 + threads, left_out.1 + work_ns),
        }
    }
    found.sort_by_key(|one| (std::cmp::Reverse(one.work_ns), one.name.clone()));
    (found, left_out)
}

/// A service of these demands; `None` for too few. Messages that a client `asked` for at one time
/// are pieces of one request; wakeups without a waiting client stay apart.
fn distilled(
    replay: &Replay,
    kind: &Kind,
    threads: u32,
    demands: &[Demand],
    delays_ns: Vec<u64>,
    asked: bool,
) -> Option<Distilled> {
    if demands.len() < REQUESTS_MIN {
        return None;
    }
    let first = replay
        .threads
        .iter()
        .find(|one| (&one.name, one.group) == (&kind.0, kind.1))?;
    let mut due_ns: Vec<i64> = demands.iter().map(|one| one.due_ns).collect();
    due_ns.sort_unstable();
    if asked {
        due_ns.dedup();
    }
    let (fan_out, mean_gap_ns) = pace(replay.duration_ns, demands.len(), due_ns.len());
    let work_ns: Vec<u64> = demands.iter().map(|one| one.work_ns).collect();
    let io = (!delays_ns.is_empty()).then(|| Io {
        per_million: delays_ns.len() as u64 * MILLION / demands.len() as u64,
        wait_ns: quantiles(delays_ns),
    });
    Some(Distilled {
        name: kind.0.clone(),
        cgroup: path_of(replay, kind.1),
        client_cgroup: "/".to_string(),
        requests: demands.len() as u64,
        work_ns: work_ns.iter().sum(),
        service: Service {
            threads,
            arrivals: Arrivals::Open {
                mean_gap_ns,
                gaps: gaps(&due_ns),
            },
            fan_out,
            work_ns: quantiles(work_ns),
            io,
            client: None,
            nice: first.nice,
            kernel: first.kernel,
        },
    })
}

/// Pieces of a request, and the mean gap between two. Where the pieces do not divide evenly,
/// requests come as often as it takes to have all pieces: 130 of 100 requests in a second are one a
/// request, 130 times a second.
pub(super) fn pace(duration_ns: u64, pieces: usize, requests: usize) -> (u32, u64) {
    let fan_out = ((pieces + requests / 2) / requests.max(1)).max(1);
    let mean_gap_ns = u128::from(duration_ns) * fan_out as u128 / pieces.max(1) as u128;
    (fan_out as u32, mean_gap_ns as u64)
}

/// How the gaps between ascending times differ.
fn gaps(due_ns: &[i64]) -> Gaps {
    let gaps: Vec<u64> = due_ns
        .windows(2)
        .map(|pair| pair[0].abs_diff(pair[1]))
        .collect();
    let count = gaps.len().max(1) as u128;
    let mean = gaps.iter().map(|gap| u128::from(*gap)).sum::<u128>() / count;
    let squares = gaps
        .iter()
        .map(|gap| u128::from(*gap).abs_diff(mean).pow(2))
        .sum::<u128>();
    let deviation = (squares / count).isqrt();
    let percent = (deviation * 100 / mean.max(1)) as u64;
    if POISSON_PERCENT.contains(&percent) {
        return Gaps::Poisson;
    }
    if percent < EVEN_PERCENT {
        return Gaps::Even;
    }
    let share = |gap: u64| (u128::from(gap) * u128::from(MILLION) / mean.max(1)) as u64;
    Gaps::Quantiles(quantiles(gaps.into_iter().map(share).collect()))
}

/// Quantiles of these values at equal steps of probability, from the smallest to the largest. The
/// largest is moved such that the mean of what is drawn is the mean of the values: what a service
/// uses matters more than its very worst request.
pub(super) fn quantiles(mut values: Vec<u64>) -> Vec<u64> {
    values.sort_unstable();
    let Some(last) = values.len().checked_sub(1) else {
        return vec![0];
    };
    let at = |step: usize| {
        let (whole, part) = (step * last / STEPS, step * last % STEPS);
        let (low, high) = (values[whole], values[(whole + 1).min(last)]);
        low + (high - low) / STEPS as u64 * part as u64
    };
    let mut quantiles: Vec<u64> = (0..=STEPS).map(at).collect();
    let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
    // Drawn mean = (q0/2 + q1 + … + q39 + q40/2) / 40.
    let twice_wanted = 2 * sum * STEPS as u128 / values.len() as u128;
    let inner: u128 = quantiles[1..STEPS].iter().map(|q| u128::from(*q)).sum();
    let others = 2 * inner + u128::from(quantiles[0]);
    let top = u64::try_from(twice_wanted.saturating_sub(others)).unwrap_or(u64::MAX);
    quantiles[STEPS] = top.max(quantiles[STEPS - 1]);
    quantiles
}
