//! Every container of a dump of counters: which limits hold back, what would be enough, what to
//! record next.
//!
//! Each container goes through the [counters](crate::counters) tier: all demands of a family that
//! would have counted what it counted are asked which limit they are content with, that is,
//! throttled in at most [`Question::throttled_below`] of their periods. Where even the most
//! demanding of them is content, a limit is *enough*; where none is, it is *too little*. Between
//! the two counters cannot tell.
//!
//! Worked example. A container may use 500m and was throttled in 34 % of its periods. Of the
//! demands that count the same the easiest is content with 610m and the hardest with 850m. So 850m
//! is enough, and the raise is said. If the hardest wanted more than twice the easiest, 1300m say,
//! the answer would be to record this container, which gives a point instead of a range.

mod ask;
mod budget;
mod files;

use rayon::prelude::*;
use schedcast_kernel::group::BandwidthLimit;

pub use self::ask::Server;
pub use self::budget::Given;
pub use self::files::{Column, HEADER};
use crate::counters::{Container, Dump, Known, Labels, Matching, Range};

/// Question that is asked of all containers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// Share of its periods in which a container may be throttled.
    pub throttled_below: f64,
    /// CPUs of limits that may be given away in all.
    pub budget_cpus: Option<f64>,
}

/// A limit at which all matching demands are content, and what they count there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Enough {
    /// The limit.
    pub limit: BandwidthLimit,
    /// Share of the periods that are throttled.
    pub throttled_ratio: Range,
}

schedcast_base::named! {
    /// Verdict on a container.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Verdict {
        /// It is throttled too often, and what is enough is known.
        Raise = "raise",
        /// It is throttled too often, and counters cannot tell how much is enough.
        Record = "record",
        /// It is throttled so rarely as is asked for.
        Fine = "fine",
    }
}

/// One container's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// `namespace/pod/container`.
    pub name: String,
    /// Labels of its series.
    pub labels: Labels,
    /// Counters of the container.
    pub known: Known,
    /// The least limit that is not certainly too little.
    pub least: Option<BandwidthLimit>,
    /// The least limit that is enough.
    pub enough: Option<Enough>,
    /// Verdict on the container.
    pub verdict: Verdict,
    /// Its part of the budget.
    pub given: Option<Given>,
}

impl Row {
    /// Whether it is throttled seldom enough under its limit, and what no demand is throttled more
    /// under is more than that.
    pub(crate) fn is_enough_as_counted(&self) -> bool {
        let quota = |limit: BandwidthLimit| limit.quota_ns.unwrap_or(u64::MAX);
        let enough = self.enough;
        self.verdict == Verdict::Fine
            && enough.is_some_and(|enough| quota(enough.limit) > quota(self.known.limit))
    }

    /// Share of the periods that were throttled.
    pub(crate) fn throttled_ratio(&self) -> f64 {
        self.known.nr_throttled as f64 / self.known.nr_periods.max(1) as f64
    }

    /// CPUs that throttling kept it from using, in the mean over the window; `None` where throttled
    /// time is unknown.
    pub(crate) fn lost_cpus(&self) -> Option<f64> {
        let lost_ns = self.known.throttled_ns?;
        Some(lost_ns as f64 / self.known.window_ns as f64)
    }

    /// CPUs that it used, in the mean over the window; `None` where usage is unknown.
    pub(crate) fn used_cpus(&self) -> Option<f64> {
        self.known.used_cpus()
    }
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// Question that was asked.
    pub question: Question,
    /// Limited containers, those that are throttled most often first.
    pub rows: Vec<Row>,
    /// Containers without a limit, and the CPUs that they used, where that is known.
    pub unlimited: Vec<(String, Option<f64>)>,
    /// Containers whose counters say nothing, with the reason.
    pub silent: Vec<(String, String)>,
    /// Sums over containers that the dump holds too, left aside.
    pub sums: usize,
}

/// An answer that is so much larger than the least possible one is no answer.
const WIDEST: f64 = 2.0;

impl Fleet {
    /// Answers for all containers of a dump, on all CPUs. The same dump gives the same answer,
    /// however many there are.
    pub fn new(dump: &Dump, question: Question) -> Fleet {
        let answered: Vec<Answer> = dump
            .containers
            .par_iter()
            .map(|container| answer(container, question))
            .collect();
        let mut fleet = Fleet {
            question,
            rows: Vec::new(),
            unlimited: Vec::new(),
            silent: Vec::new(),
            sums: dump.sums,
        };
        let mut steps = Vec::new();
        for one in answered {
            match one {
                Answer::Row(row, ladder) => {
                    steps.push(ladder);
                    fleet.rows.push(*row);
                }
                Answer::Unlimited(name, used_cpus) => fleet.unlimited.push((name, used_cpus)),
                Answer::Silent(name, why) => fleet.silent.push((name, why)),
            }
        }
        if let Some(cpus) = question.budget_cpus {
            budget::give(&mut fleet.rows, &steps, cpus);
        }
        let order = |row: &Row| std::cmp::Reverse((row.throttled_ratio() * 1e9) as u64);
        fleet.rows.sort_by_key(order);
        fleet
    }

    /// Rows with this verdict.
    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        let rows = self.rows.iter();
        rows.filter(|row| row.verdict == verdict).count()
    }
}

enum Answer {
    Row(Box<Row>, Vec<budget::Step>),
    Unlimited(String, Option<f64>),
    Silent(String, String),
}

fn answer(container: &Container, question: Question) -> Answer {
    let known = match &container.known {
        Ok(known) => known,
        Err(why) => return Answer::Silent(container.name.clone(), why.clone()),
    };
    if known.limit.quota_ns.is_none() {
        return Answer::Unlimited(container.name.clone(), known.used_cpus());
    }
    let all = Quotas::of(known);
    let mut row = Row {
        name: container.name.clone(),
        labels: container.labels.clone(),
        known: known.clone(),
        least: None,
        enough: None,
        verdict: Verdict::Fine,
        given: None,
    };
    // Where no demand of the family matches, its rows say nothing of other limits, and only events
    // can.
    let matching = known.matching().ok();
    let contradicts = known.usage_above_grant().filter(|_| matching.is_none());
    if let Some(why) = contradicts {
        return Answer::Silent(container.name.clone(), why);
    }
    if let Some(matching) = &matching {
        let below = question.throttled_below;
        let content = |quota: u64| matching.all_below(all.limit(quota), below);
        row.enough = all.first(&content).map(|quota| Enough {
            limit: all.limit(quota),
            throttled_ratio: matching.outlook("", all.limit(quota)).throttled_ratio,
        });
        let possible = |quota: u64| matching.any_below(all.limit(quota), below);
        row.least = all.first(&possible).map(|quota| all.limit(quota));
    }
    if row.throttled_ratio() > question.throttled_below {
        row.verdict = raise_or_record(&row);
    }
    let is_asked = question.budget_cpus.is_some() && row.verdict == Verdict::Raise;
    let steps = match matching {
        Some(matching) if is_asked => steps(&row, &matching, &all),
        _ => Vec::new(),
    };
    Answer::Row(Box::new(row), steps)
}

fn raise_or_record(row: &Row) -> Verdict {
    let quota = |limit: BandwidthLimit| limit.quota_ns.map(|ns| ns as f64);
    let enough = row.enough.and_then(|enough| quota(enough.limit));
    match (row.least.and_then(quota), enough) {
        (Some(least), Some(enough)) if enough <= WIDEST * least => Verdict::Raise,
        _ => Verdict::Record,
    }
}

/// Steps of a raise, each with a lower bound of what it saves.
fn steps(row: &Row, matching: &Matching<'_>, all: &Quotas) -> Vec<budget::Step> {
    let (Some(now_ns), Some(enough)) = (row.known.limit.quota_ns, row.enough) else {
        return Vec::new();
    };
    let enough_ns = enough.limit.quota_ns.unwrap_or(now_ns);
    let lost_ms = row.known.throttled_ns.unwrap_or(0) as f64 / 1e6;
    let at = |step: u64| {
        let quota_ns = all.rounded(now_ns + (enough_ns.saturating_sub(now_ns)) * step / STEPS);
        let limit = all.limit(quota_ns);
        let left_ms = matching.outlook("", limit).throttled_ms.high;
        budget::Step {
            limit,
            cpus: quota_ns.saturating_sub(now_ns) as f64 / limit.period_ns as f64,
            saved_cpus: (lost_ms - left_ms).max(0.0) * 1e6 / row.known.window_ns as f64,
        }
    };
    (1..=STEPS).map(at).collect()
}

/// Steps of a raise that the budget may stop at.
const STEPS: u64 = 4;

/// The quotas that are tried: each a twentieth larger than the one before, in whole hundredths of a
/// CPU, from what was used (less would fall behind) to all CPUs of the machine.
struct Quotas {
    known: BandwidthLimit,
    ladder: Vec<u64>,
}

impl Quotas {
    fn of(known: &Known) -> Quotas {
        let period_ns = known.limit.period_ns;
        let most_ns = period_ns * u64::from(known.cpus);
        let used_ns = match known.usage_ns {
            Some(usage_ns) => {
                u128::from(usage_ns) * u128::from(period_ns) / u128::from(known.window_ns)
            }
            None => 0,
        };
        let mut quotas = Quotas {
            known: known.limit,
            ladder: Vec::new(),
        };
        let mut quota_ns = quotas.rounded(used_ns.min(u128::from(most_ns)) as u64);
        while quota_ns < most_ns {
            quotas.ladder.push(quota_ns);
            quota_ns = quotas.rounded(quota_ns + quota_ns / 20 + 1);
        }
        quotas.ladder.push(most_ns);
        quotas
    }

    /// Up to the next hundredth of a CPU, and to what the kernel allows.
    fn rounded(&self, quota_ns: u64) -> u64 {
        let hundredth_ns = (self.known.period_ns / 100).max(1);
        let least_ns = 1000 * schedcast_base::limits::QUOTA_MIN_US;
        (quota_ns.div_ceil(hundredth_ns) * hundredth_ns).max(least_ns)
    }

    fn limit(&self, quota_ns: u64) -> BandwidthLimit {
        BandwidthLimit {
            quota_ns: Some(quota_ns),
            ..self.known
        }
    }

    /// The first quota for which it holds; it holds for those above, too.
    fn first(&self, holds: &dyn Fn(u64) -> bool) -> Option<u64> {
        let at = self.ladder.partition_point(|quota| !holds(*quota));
        self.ladder.get(at).copied()
    }
}

#[cfg(test)]
mod tests;
