//! Figures that the recording itself shows, which a re-simulation of it must meet.

use schedcast_base::quantile::nearest_rank;

use super::Replay;
use super::groups::Group;
use super::model::{Activation, Trigger};
use super::threads::ThreadId;
use std::collections::BTreeMap;

/// Quantiles of a set of durations, ns. The q-quantile of n values is the ⌈q·n⌉-th smallest.
/// Unfinished ones are included with their age at the end of the recording: without them a service
/// that starves would look fast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// Number of durations that ended. All other fields are 0 when there are no values.
    pub count: u64,
    /// Number of those without an end.
    pub unfinished: u64,
    /// Sum of the values.
    pub sum_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 95 %.
    pub p95_ns: u64,
    /// 99 %.
    pub p99_ns: u64,
    /// Largest.
    pub max_ns: u64,
}

impl Quantiles {
    /// Of these values, in any order.
    pub fn of(values: Vec<u64>) -> Self {
        Self::with_unfinished(values, &[])
    }

    /// Of these values and of the ages of what has not ended.
    pub(crate) fn with_unfinished(mut values: Vec<u64>, ages: &[u64]) -> Self {
        let count = values.len() as u64;
        values.extend(ages);
        values.sort_unstable();
        let Some(&max_ns) = values.last() else {
            return Self::default();
        };
        let at = |percent: u32| nearest_rank(&values, percent * 10_000).unwrap_or(max_ns);
        Self {
            count,
            unfinished: ages.len() as u64,
            sum_ns: values.iter().sum(),
            p50_ns: at(50),
            p95_ns: at(95),
            p99_ns: at(99),
            max_ns,
        }
    }
}

/// Figures of all threads of one subject, or of the requests of one [kind](super::service::Kind) of
/// clients, which has no threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredThreads {
    /// The subject: see [`super::Thread::subject`].
    pub name: String,
    /// Number of threads.
    pub threads: u32,
    /// From wakeup to sleep; for a message that was there already when the activation before ended,
    /// from that end.
    pub activation_latency: Quantiles,
    /// From wakeup to sleep, over all messages that were there before it slept.
    pub turn_latency: Quantiles,
    /// From wakeup to the reply, of activations that woke the thread which had begun them.
    pub reply_latency: Quantiles,
    /// From when a request was due to when its client had the answer, for servers of exchanges;
    /// what the client logged where it did.
    pub request_latency: Quantiles,
    /// The threads serve requests together, each of which is known from its arrival to its reply:
    /// see [`super::Service`].
    pub serves: bool,
    /// From wakeup to the first run.
    pub wakeup_latency: Quantiles,
    /// CPU time executed, ns.
    pub executed_ns: u64,
}

/// Growth of a group's `cpu.stat` over the recording, or since the group began anew in it; `None`
/// where it lacks the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredGroup {
    /// Path.
    pub path: String,
    /// Periods in which the group was active.
    pub nr_periods: Option<u64>,
    /// Periods in which it was throttled.
    pub nr_throttled: Option<u64>,
    /// Throttled time summed over CPUs, ns.
    pub throttled_ns: Option<u64>,
    /// Periods in which it used more than its quota.
    pub nr_bursts: Option<u64>,
    /// Time it used beyond its quota, ns.
    pub burst_ns: Option<u64>,
    /// CPU time used, ns; where `cpu.stat` lacks it, what the trace shows of its threads.
    pub usage_ns: u64,
}

/// A job and how long it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredJob {
    /// Path of its group.
    pub path: String,
    /// Subject of its first thread.
    pub name: String,
    /// From its first thread's start, or the beginning of the recording, to its last exit, ns.
    pub length_ns: u64,
    /// Whether the recording shows its start.
    pub is_whole: bool,
}

/// Figures that the recording itself shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedFigures {
    /// By subject, sorted.
    pub threads: Vec<MeasuredThreads>,
    /// Cgroups that have statistics at both ends, in the order of [`Replay::groups`].
    pub groups: Vec<MeasuredGroup>,
    /// Groups whose threads all end.
    pub jobs: Vec<MeasuredJob>,
}

impl Replay {
    /// Figures that the recording itself shows, over its whole length. An activation counts if its
    /// begin and its end are visible, a group if the recording has its `cpu.stat` at both ends.
    pub fn measured(&self) -> RecordedFigures {
        let mut by_subject: BTreeMap<&str, Collected> = BTreeMap::new();
        for thread in &self.threads {
            let collected = by_subject.entry(&thread.subject).or_default();
            collected.threads += 1;
            collected.executed_ns += thread.executed_ns;
        }
        for (id, thread) in (0u32..).map(ThreadId).zip(&self.threads) {
            let Some(collected) = by_subject.get_mut(thread.subject.as_str()) else {
                continue;
            };
            let mut previous_end_ns = 0;
            let mut turn = Turn::default();
            for activation in self.recorded_of(id) {
                collected.see(activation, previous_end_ns, self.duration_ns);
                collected.turn_ns.extend(turn.go_on(activation));
                previous_end_ns = activation.end_ns.unwrap_or(previous_end_ns);
            }
        }
        for exchange in &self.exchanges {
            let server = &self.threads[exchange.servers[0].index()].subject;
            let latencies = exchange.requests.iter().filter_map(|one| one.latency_ns);
            if let Some(collected) = by_subject.get_mut(server.as_str()) {
                collected.request_ns.extend(latencies);
                let last = exchange.requests.iter().filter(|one| !one.goes_on);
                let waiting = last.filter(|one| one.answer.is_none());
                let ages = waiting.filter_map(|one| self.age_ns(one));
                collected.request_ages_ns.extend(ages);
            }
        }
        for served in self.whole_requests() {
            let service = &self.services[served.service as usize];
            let kind = service.kinds.get(served.kind as usize);
            for subject in [Some(&service.subject), kind.map(|kind| &kind.subject)] {
                let of = subject.map(|subject| by_subject.entry(subject).or_default());
                of.into_iter()
                    .for_each(|of| of.request_ns.push(served.latency_ns));
            }
        }
        let threads = by_subject
            .into_iter()
            .map(|(name, collected)| MeasuredThreads {
                name: name.to_owned(),
                threads: collected.threads,
                activation_latency: Quantiles::with_unfinished(
                    collected.activation_ns,
                    &collected.activation_ages_ns,
                ),
                turn_latency: Quantiles::of(collected.turn_ns),
                reply_latency: Quantiles::of(collected.reply_ns),
                serves: self.services.iter().any(|one| one.subject == name),
                request_latency: Quantiles::with_unfinished(
                    collected.request_ns,
                    &collected.request_ages_ns,
                ),
                wakeup_latency: Quantiles::of(collected.wakeup_ns),
                executed_ns: collected.executed_ns,
            });
        let groups = (0u32..)
            .map(super::GroupIndex)
            .zip(&self.groups)
            .filter_map(|(index, group)| self.measured_group(index, group));
        let jobs = self.jobs.iter().map(|job| MeasuredJob {
            path: self.groups[job.group.index()].path.clone(),
            name: job.subject.clone(),
            length_ns: job.ends_ns.saturating_sub(job.begins_ns),
            is_whole: job.is_whole,
        });
        RecordedFigures {
            threads: threads.collect(),
            groups: groups.collect(),
            jobs: jobs.collect(),
        }
    }

    /// Age, at the end of the recording, of a request whose answer it does not show.
    fn age_ns(&self, exchanged: &super::Exchanged) -> Option<u64> {
        let sent_ns = || self.activations[exchanged.request.index()].woken_ns as i64;
        let due_ns = exchanged.due_ns.unwrap_or_else(sent_ns);
        u64::try_from(self.duration_ns as i64 - due_ns).ok()
    }

    fn measured_group(&self, index: super::GroupIndex, group: &Group) -> Option<MeasuredGroup> {
        let grown = group.grown()?;
        let seen_ns = || {
            let members = self.members(index);
            let executed = members
                .iter()
                .map(|id| self.threads[id.index()].executed_ns);
            executed.sum()
        };
        Some(MeasuredGroup {
            path: group.path.clone(),
            nr_periods: grown.nr_periods,
            nr_throttled: grown.nr_throttled,
            throttled_ns: grown.throttled_ns,
            nr_bursts: grown.nr_bursts,
            burst_ns: grown.burst_ns,
            usage_ns: grown.usage_ns.unwrap_or_else(seen_ns),
        })
    }
}

/// Activity of a thread between two sleeps.
#[derive(Default)]
struct Turn {
    /// Whether an activation of it has been seen.
    begun: bool,
    /// When it was woken, where that is visible.
    woken_ns: Option<u64>,
}

impl Turn {
    /// Takes the next activation. Returns the time from wakeup to sleep, ns, if the thread slept
    /// after it.
    fn go_on(&mut self, activation: &Activation) -> Option<u64> {
        if !self.begun {
            self.begun = true;
            let visible = activation.trigger != Trigger::Start;
            self.woken_ns = visible.then_some(activation.woken_ns);
        }
        if !activation.slept {
            return None;
        }
        self.begun = false;
        let woken_ns = self.woken_ns.take()?;
        Some(activation.end_ns?.saturating_sub(woken_ns))
    }
}

#[derive(Default)]
struct Collected {
    threads: u32,
    executed_ns: u64,
    activation_ns: Vec<u64>,
    activation_ages_ns: Vec<u64>,
    turn_ns: Vec<u64>,
    reply_ns: Vec<u64>,
    request_ns: Vec<u64>,
    request_ages_ns: Vec<u64>,
    wakeup_ns: Vec<u64>,
}

impl Collected {
    /// Takes in an activation of a recording that ends at `end_ns`.
    fn see(&mut self, activation: &Activation, previous_end_ns: u64, end_ns: u64) {
        self.activation_ns
            .extend(activation.latency_ns(previous_end_ns));
        if activation.end_ns.is_none() && activation.trigger != Trigger::Start {
            let since_ns = activation.woken_ns.max(previous_end_ns);
            self.activation_ages_ns
                .push(end_ns.saturating_sub(since_ns));
        }
        self.reply_ns.extend(activation.reply_latency_ns());
        self.wakeup_ns.extend(activation.wakeup_latency_ns());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        assert_eq!(Quantiles::of(Vec::new()), Quantiles::default());
        let quantiles = Quantiles::of((1..=20).rev().collect());
        assert_eq!(quantiles.count, 20);
        assert_eq!(quantiles.sum_ns, 210);
        let Quantiles {
            p50_ns,
            p95_ns,
            p99_ns,
            ..
        } = quantiles;
        assert_eq!([p50_ns, p95_ns, p99_ns], [10, 19, 20]);
        assert_eq!(Quantiles::of(vec![7]).p50_ns, 7);
    }

    #[test]
    fn what_has_not_ended_counts_with_its_age() {
        let starving = Quantiles::with_unfinished(vec![1; 60], &[500; 40]);
        assert_eq!((starving.count, starving.unfinished), (60, 40));
        assert_eq!((starving.p50_ns, starving.p95_ns), (1, 500));
    }
}
