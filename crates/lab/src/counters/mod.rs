//! The *counters* tier: from `cpu.stat`, or the same counters in [Prometheus](prometheus), alone, which demands are possible, and what they would make of other limits.
//!
//! Counters say how often a group was throttled, for how long, and (where known) how much it used. Many demands count the
//! same: short jobs in bunches, long ones now and then. A [family](shapes) of them is run through a [`queue`] under
//! the recorded limit; those that give the recorded counters stay, and run again under the limits in question. The answer is
//! the range over all that stayed, never a point.
//!
//! Worked example. `recordings/postgres-quota` counted 295 periods of 100 ms with 50 ms each, 102 throttled, 5712 ms of
//! throttled time. Of 13 824 demands some 270 count that within a tenth or so. With 60 ms they are throttled in 7 to 38 %
//! of the periods; on the real machine it was 11, 14 and 22 %.

mod ask;
mod prometheus;
mod queue;
mod shapes;

use std::fmt::Write;
use std::path::Path;

use schedcast_names::groups::{Wanted, label_of};
use schedcast_sim::random::SplitMix;
use schedcast_trace::CgroupTree;
use schedcast_trace::recording::Snapshots;

pub use self::ask::{limits, settings};
pub use self::prometheus::Beyond;
pub use self::queue::{Counted, Limit};
use self::queue::{Job, serve};
use self::shapes::{Stream, family};
use crate::error::{Error, Result, hint_for};
use crate::recording::found;
use crate::simulator::bad_input;

/// What is known of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// The group.
    pub cgroup: String,
    /// What people call it, where that is known and not its path.
    pub label: Option<String>,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Length of the window.
    pub window_ns: u64,
    /// The limit in it.
    pub limit: Limit,
    /// What was counted; usage may be unknown.
    pub nr_periods: u64,
    /// Periods in which the group was throttled.
    pub nr_throttled: u64,
    /// Throttled time, summed over CPUs; may be unknown.
    pub throttled_ns: Option<u64>,
    /// CPU time used; may be unknown.
    pub usage_ns: Option<u64>,
    /// How often a counter fell: the group began anew, and what it had counted since the look before is not known.
    pub restarts: u32,
}

/// Lowest and highest value over all demands that match.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Lowest.
    pub low: f64,
    /// Highest.
    pub high: f64,
}

impl Range {
    const NONE: Range = Range {
        low: f64::INFINITY,
        high: f64::NEG_INFINITY,
    };

    fn add(&mut self, value: f64) {
        self.low = self.low.min(value);
        self.high = self.high.max(value);
    }
}

/// What a limit would count.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    /// What the limit is called.
    pub name: String,
    /// The limit.
    pub limit: Limit,
    /// Share of the periods that are throttled.
    pub throttled_ratio: Range,
    /// Throttled time over the window, in ms.
    pub throttled_ms: Range,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// What it starts from.
    pub known: Known,
    /// Demands that were simulated under the recorded limit.
    pub tried: u64,
    /// Of them those that give the recorded counters.
    pub matching: u64,
    /// How far from the counted values they may be: 1 is the usual tolerance.
    pub tolerance: f64,
    /// CPU time that they use in the window, in ms.
    pub usage_ms: Range,
    /// One for each limit.
    pub outlooks: Vec<Outlook>,
}

impl Known {
    /// What the recording in `folder` counted for `cgroup`, or for the only group that was limited.
    ///
    /// # Errors
    /// If the folder cannot be read, has no such group, or its counters say too little.
    pub fn open(folder: &Path, wanted: Option<&Wanted>) -> Result<Known> {
        let snapshots = Snapshots::open(folder).map_err(bad_input)?;
        let named = snapshots.meta.named_groups(&snapshots.before);
        let cgroup = match wanted {
            Some(wanted) => found(wanted, &named)?,
            None => only_limited(&snapshots.before)?,
        };
        let names: Vec<&str> = snapshots.before.paths().collect();
        let find = |tree: &CgroupTree| {
            let group = tree.get(&cgroup).cloned();
            group.ok_or_else(|| {
                Error::usage(format!("the recording has no group `{cgroup}`"))
                    .hint(hint_for(&cgroup, &names))
            })
        };
        let (before, after) = (find(&snapshots.before)?, find(&snapshots.after)?);
        let limit = |group: &schedcast_trace::Cgroup| group.bandwidth().map_err(bad_input);
        let bandwidth = limit(&before)?;
        if bandwidth != limit(&after)? {
            return Err(bad_input(format!(
                "the limit of `{cgroup}` changed while it was recorded: counters cannot be told apart"
            )));
        }
        let stat = |group: &schedcast_trace::Cgroup| {
            group
                .stat()
                .map(Option::unwrap_or_default)
                .map_err(bad_input)
        };
        let (before, after) = (stat(&before)?, stat(&after)?);
        let grown = after.since(&before);
        let limit = bandwidth.map_or(NO_LIMIT, |bandwidth| Limit {
            quota_ns: bandwidth.quota_us.map(|us| us * 1000),
            period_ns: bandwidth.period_us * 1000,
            burst_ns: bandwidth.burst_us * 1000,
        });
        let nr_periods = grown.nr_periods.unwrap_or(0);
        let window_ns = match (snapshots.meta.start_ns, snapshots.meta.end_ns) {
            (Some(start), Some(end)) => end - start,
            _ => nr_periods.saturating_mul(limit.period_ns),
        };
        let known = Known {
            label: label_of(&cgroup, &named),
            cgroup,
            cpus: snapshots.meta.cpus.unwrap_or(1),
            window_ns,
            limit,
            nr_periods,
            nr_throttled: grown.nr_throttled.unwrap_or(0),
            throttled_ns: grown.throttled_ns,
            usage_ns: grown.usage_ns,
            restarts: u32::from(after.began_anew(&before)),
        };
        known.refuse_silence()?;
        Ok(known)
    }

    fn refuse_silence(&self) -> Result<()> {
        let (throttled, periods) = (self.nr_throttled, self.nr_periods);
        if throttled > periods {
            return Err(bad_input(format!(
                "the counters of `{}` contradict each other: {throttled} of {periods} periods throttled",
                self.cgroup
            )));
        }
        if let Some(usage_ns) = self.usage_ns
            && u128::from(usage_ns) > self.all_cpus_ns() * USAGE_SLACK
        {
            return Err(bad_input(format!(
                "the counters of `{}` show {} s of CPU time in {:.1} s, more than {} CPUs give",
                self.cgroup,
                usage_ns / 1_000_000_000,
                self.window_ns as f64 / 1e9,
                self.cpus
            )));
        }
        let says_something = self.usage_ns.is_some() || self.limit.quota_ns.is_some();
        if says_something && self.window_ns > 0 {
            return Ok(());
        }
        let cgroup = &self.cgroup;
        Err(bad_input(format!(
            "the counters of `{cgroup}` say nothing about its demand: neither a limit nor `usage_usec`"
        )))
    }

    /// What all CPUs of the machine give in the window.
    fn all_cpus_ns(&self) -> u128 {
        u128::from(self.window_ns) * u128::from(self.cpus)
    }

    fn ratio(&self) -> f64 {
        self.nr_throttled as f64 / self.nr_periods.max(1) as f64
    }

    /// True if a demand that counts this could have been the recorded one.
    fn matches(&self, counted: &Counted, tolerance: f64) -> bool {
        let near = |found: f64, known: f64, share: f64, least: f64| {
            (found - known).abs() <= tolerance * (share * known).max(least)
        };
        let usage = self
            .usage_ns
            .is_none_or(|usage_ns| near(counted.usage_ns as f64, usage_ns as f64, 0.05, 0.0));
        if self.limit.quota_ns.is_none() || !usage {
            return usage;
        }
        let ratio = self.per_active(counted);
        let each = |ns: u64, count: u64| ns as f64 / 1e6 / count.max(1) as f64;
        let found = each(counted.throttled_ns, counted.nr_throttled);
        let known = self.throttled_ns.map(|ns| each(ns, self.nr_throttled));
        near(ratio, self.ratio(), 0.0, RATIO_NEAR)
            && (self.nr_throttled == 0 || known.is_none_or(|known| near(found, known, 0.2, 0.0)))
    }

    /// Share of the periods that were throttled. The kernel counts periods while a group is active only; a queue counts
    /// all, so that its throttled ones are taken of the same share of them.
    fn per_active(&self, counted: &Counted) -> f64 {
        let elapsed = self.window_ns as f64 / self.limit.period_ns.max(1) as f64;
        let active = match self.nr_periods {
            0 => 1.0,
            periods => (periods as f64 / elapsed).min(1.0),
        };
        let ratio = counted.nr_throttled as f64 / counted.nr_periods.max(1) as f64;
        (ratio / active).min(1.0)
    }
}

/// Counters are read some seconds before or after the time they are noted with: in a short window they may show more
/// than it holds, not several times as much.
const USAGE_SLACK: u128 = 2;

const NO_LIMIT: Limit = Limit {
    quota_ns: None,
    period_ns: 100_000_000,
    burst_ns: 0,
};

fn only_limited(tree: &CgroupTree) -> Result<String> {
    let is_limited = |group: &schedcast_trace::Cgroup| {
        let bandwidth = group.bandwidth().ok().flatten();
        bandwidth.is_some_and(|bandwidth| bandwidth.quota_us.is_some())
    };
    let limited: Vec<&str> = tree
        .iter()
        .filter(|(_, group)| is_limited(group))
        .map(|(path, _)| path)
        .collect();
    match limited[..] {
        [only] => Ok(only.to_owned()),
        _ => Err(Error::usage(format!(
            "the recording has {} groups with a limit",
            limited.len()
        ))
        .hint("name one with --cgroup")),
    }
}

/// Levels of demand that are tried, in twentieths of what the limit grants, up to 1.2 of it.
const LEVELS: u64 = 24;
const LEVELS_FULL: u64 = 20;
const DRAWS: u64 = 6;
/// A window is cut to this many periods: more would only cost time.
const PERIODS_MAX: u64 = 600;

/// One demand of the family, and what it counts under the recorded limit.
struct Demand {
    jobs: Vec<Job>,
    workers: usize,
    counted: Counted,
}

/// Runs the family and keeps what matches; `limits` are what is asked about, with their names.
///
/// # Errors
/// If no demand of the family counts what was counted, even with a wide tolerance.
pub fn bounds(known: &Known, limits: &[(String, Limit)]) -> Result<Bounds> {
    let window_ns = known
        .window_ns
        .min(known.limit.period_ns.saturating_mul(PERIODS_MAX));
    let scale = known.window_ns as f64 / window_ns as f64;
    let scaled = Known {
        usage_ns: known.usage_ns.map(|ns| (ns as f64 / scale) as u64),
        ..known.clone()
    };
    let (candidates, tried) = candidates(&scaled, window_ns);
    let (demands, tolerance) = TOLERANCES
        .into_iter()
        .map(|tolerance| (matching(&candidates, &scaled, tolerance), tolerance))
        .find(|(demands, _)| demands.len() >= MATCHING_MIN)
        .ok_or_else(|| {
            let cgroup = &known.cgroup;
            bad_input(format!(
                "no demand of the family counts what `{cgroup}` counted; record its events with `schedcast record`"
            ))
        })?;
    let mut usage_ms = Range::NONE;
    for demand in &demands {
        usage_ms.add(demand.counted.usage_ns as f64 / 1e6 * scale);
    }
    let outlooks = limits.iter().map(|(name, limit)| Outlook {
        name: name.clone(),
        limit: *limit,
        ..outlook(known, *limit, &demands, (window_ns, scale))
    });
    Ok(Bounds {
        known: known.clone(),
        tried,
        matching: demands.len() as u64,
        tolerance,
        usage_ms,
        outlooks: outlooks.collect(),
    })
}

/// Demands that match within the widest tolerance, and how many were tried.
fn candidates(known: &Known, window_ns: u64) -> (Vec<Demand>, u64) {
    let mut found = Vec::new();
    let mut tried = 0;
    for (index, shape) in family(known.cpus as usize).into_iter().enumerate() {
        let usual = (1..=LEVELS).map(|level| known.demand_ns(level, window_ns));
        let beyond = known.beyond(window_ns, shape.workers);
        for (level, demand_ns) in (1u64..).zip(usual.chain(beyond)) {
            for draw in 0..DRAWS {
                let seed = (index as u64) << 32 | level << 16 | draw;
                let jobs = shape.jobs(demand_ns, window_ns, &mut Stream(SplitMix(seed)));
                let counted = serve(&jobs, shape.workers, known.limit, window_ns);
                tried += 1;
                if known.matches(&counted, TOLERANCES[TOLERANCES.len() - 1]) {
                    found.push(Demand {
                        jobs,
                        workers: shape.workers,
                        counted,
                    });
                }
            }
        }
    }
    (found, tried)
}

fn matching<'a>(candidates: &'a [Demand], known: &Known, tolerance: f64) -> Vec<&'a Demand> {
    let all = candidates.iter();
    all.filter(|demand| known.matches(&demand.counted, tolerance))
        .collect()
}

/// Throttled periods more or less that are chance, as a share of all: three in a hundred.
const RATIO_NEAR: f64 = 0.03;
const TOLERANCES: [f64; 3] = [1.0, 2.0, 4.0];
/// Fewer demands than this say too little about what else is possible.
const MATCHING_MIN: usize = 20;

impl Known {
    /// Demand at a level: of the limit, or around what was used.
    fn demand_ns(&self, level: u64, window_ns: u64) -> u64 {
        let full_ns = match (self.usage_ns, self.limit.quota_ns) {
            // Finer around what is known: 0.8 to 1.2 of the usage.
            (Some(usage_ns), _) => return usage_ns / 60 * (47 + level),
            // No limit grants more than the machine has.
            (None, Some(quota_ns)) => {
                let window_ns = u128::from(window_ns);
                let granted_ns =
                    window_ns * u128::from(quota_ns) / u128::from(self.limit.period_ns);
                granted_ns.min(window_ns * u128::from(self.cpus)) as u64
            }
            (None, None) => window_ns,
        };
        full_ns / LEVELS_FULL * level
    }

    /// Demands above the highest level, each half as large again as the one before, up to what keeps all workers busy.
    /// Only a group that was throttled in nearly each of its periods may want so much: nothing told how much more.
    fn beyond(&self, window_ns: u64, workers: usize) -> Vec<u64> {
        let widest = TOLERANCES[TOLERANCES.len() - 1];
        let insatiable = self.limit.quota_ns.is_some() && self.ratio() + widest * RATIO_NEAR >= 1.0;
        if !insatiable {
            return Vec::new();
        }
        let highest_ns = self.demand_ns(LEVELS, window_ns).max(1);
        let busy_ns = window_ns.saturating_mul(workers as u64);
        let more = |demand_ns: &u64| {
            let next_ns = demand_ns.saturating_add(demand_ns.div_ceil(2));
            (*demand_ns < busy_ns).then_some(next_ns)
        };
        std::iter::successors(Some(highest_ns), more)
            .skip(1)
            .collect()
    }
}

/// What a limit counts over these demands; nameless yet.
fn outlook(
    known: &Known,
    limit: Limit,
    demands: &[&Demand],
    (window_ns, scale): (u64, f64),
) -> Outlook {
    let (mut throttled_ratio, mut throttled_ms) = (Range::NONE, Range::NONE);
    for demand in demands {
        let counted = serve(&demand.jobs, demand.workers, limit, window_ns);
        throttled_ratio.add(known.per_active(&counted));
        throttled_ms.add(counted.throttled_ns as f64 / 1e6 * scale);
    }
    Outlook {
        name: String::new(),
        limit,
        throttled_ratio,
        throttled_ms,
    }
}

impl Bounds {
    /// The answer for programs, `schedcast.counters/1`.
    pub fn json(&self) -> String {
        let range = |range: Range| serde_json::json!([range.low, range.high]);
        let known = &self.known;
        let outlooks = self.outlooks.iter().map(|outlook| {
            serde_json::json!({
                "name": outlook.name,
                "quota_us": outlook.limit.quota_ns.map(|ns| ns / 1000),
                "period_us": outlook.limit.period_ns / 1000,
                "burst_us": outlook.limit.burst_ns / 1000,
                "nr_throttled_ratio": range(outlook.throttled_ratio),
                "throttled_ms": range(outlook.throttled_ms),
            })
        });
        let value = serde_json::json!({
            "schema": "schedcast.counters/1",
            "tier": "counters",
            "cgroup": known.cgroup,
            "name": known.label,
            "recorded": {
                "nr_periods": known.nr_periods,
                "nr_throttled": known.nr_throttled,
                "throttled_ms": known.throttled_ns.map(|ns| ns as f64 / 1e6),
                "usage_ms": known.usage_ns.map(|ns| ns as f64 / 1e6),
                "restarts": known.restarts,
            },
            "demands": { "tried": self.tried, "matching": self.matching, "tolerance": self.tolerance },
            "usage_ms": range(self.usage_ms),
            "limits": outlooks.collect::<Vec<_>>(),
        });
        format!("{value:#}\n")
    }

    /// The answer for people; `source` is what it was read from: `recording pg`.
    pub fn text(&self, source: &str) -> String {
        let known = &self.known;
        let seconds = known.window_ns as f64 / 1e9;
        let mut text = format!(
            "schedcast {} · {source}, {seconds:.1} s · {} CPUs · tier counters\n",
            env!("CARGO_PKG_VERSION"),
            known.cpus
        );
        let _ = writeln!(
            text,
            "group {}: {} of {} simulated demands give{} the recorded counters; they use {:.0} to {:.0} ms of CPU time\n",
            known.label.as_deref().unwrap_or(&known.cgroup),
            self.matching,
            self.tried,
            if self.tolerance > 1.0 { " roughly" } else { "" },
            self.usage_ms.low,
            self.usage_ms.high
        );
        let names = self
            .outlooks
            .iter()
            .map(|outlook| outlook.name.chars().count());
        let width = names.max().unwrap_or(0).max("recorded".len());
        let _ = writeln!(
            text,
            "{:width$}  {:>24}  {:>20}",
            "", "throttled periods (%)", "throttled time (ms)"
        );
        let throttled_ms = known
            .throttled_ns
            .map(|ns| format!("{:.0}", ns as f64 / 1e6));
        let _ = writeln!(
            text,
            "{:width$}  {:>24.1}  {:>20}",
            "recorded",
            100.0 * known.ratio(),
            throttled_ms.as_deref().unwrap_or("unknown")
        );
        for outlook in &self.outlooks {
            let percent = format!(
                "{:.1} … {:.1}",
                100.0 * outlook.throttled_ratio.low,
                100.0 * outlook.throttled_ratio.high
            );
            let (low, high) = (outlook.throttled_ms.low, outlook.throttled_ms.high);
            let time = format!("{low:.0} … {high:.0}");
            let _ = writeln!(text, "{:width$}  {percent:>24}  {time:>20}", outlook.name);
        }
        text.push('\n');
        if known.restarts > 0 {
            let times = match known.restarts {
                1 => "once".to_owned(),
                many => format!("{many} times"),
            };
            let _ = writeln!(
                text,
                "Counters fell {times}: the group began anew, and what it counted just before that is not known."
            );
        }
        if known.usage_ns.is_none() {
            text +=
                "`usage_usec` (v1: cpuacct.usage) of the same window would narrow the ranges.\n";
        }
        if known.throttled_ns.is_none() {
            text += "Throttled time of the same window would narrow the ranges.\n";
        }
        text += "The events of the scheduler (`schedcast record`) would give a point for each.\n";
        text
    }
}

#[cfg(test)]
mod tests;
