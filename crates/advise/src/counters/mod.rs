//! The *counters* tier: from `cpu.stat`, or the same counters in [Prometheus](prometheus), alone,
//! which demands are possible, and what they would make of other limits.
//!
//! Counters say how often a group was throttled, for how long, and (where known) how much it used.
//! Many demands count the same: short jobs in bunches, long ones now and then. A [family](shapes)
//! of them is run through a [`queue`] under the recorded limit; those that give the recorded
//! counters stay, and run again under the limits in question. The answer is the range over all that
//! stayed, never a point. Where the group's CPU time was [sampled](Samples) and no limit held it
//! back, its demand is known as it came, and the range is much narrower.
//!
//! Worked example. `recordings/postgres-quota` counted 295 periods of 100 ms with 50 ms each, 102
//! throttled, 5712 ms of throttled time. Of 15 264 demands some 270 count that within a tenth or
//! so. With 60 ms they are throttled in 7 to 38 % of the periods; on the real machine it was 11, 14
//! and 22 %.

mod ask;
mod containers;
mod prometheus;
mod queue;
mod samples;
mod shapes;
mod shown;

use std::ops::RangeInclusive;
use std::path::Path;

use schedcast_base::groups::{NamedGroup, Wanted, is_within, label_of};
use schedcast_kernel::group::BandwidthLimit;
use schedcast_sim::random::SplitMix;
use schedcast_trace::CgroupTree;
use schedcast_trace::recording::Snapshots;

pub use self::ask::{limits, settings};
pub use self::containers::{Container, Dump};
pub(crate) use self::containers::{Labels, quoted, selector};
pub use self::prometheus::Beyond;
pub(crate) use self::queue::Counted;
use self::queue::{Job, serve, serve_within};
pub use self::samples::Samples;
use self::shapes::{Shape, Stream, family};
use schedcast_lab::error::{Error, Result, hint_for};
use schedcast_lab::recording::found;
use schedcast_lab::simulator::{bad_input, bad_recording};

/// Counters of a group, with its limit and the window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// The group.
    pub cgroup: String,
    /// Name of the group, where one is known that is not its path.
    pub label: Option<String>,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Length of the window.
    pub window_ns: u64,
    /// The limit in it.
    pub limit: BandwidthLimit,
    /// Counters; usage may be unknown.
    pub nr_periods: u64,
    /// Periods in which the group was throttled.
    pub nr_throttled: u64,
    /// Throttled time, summed over CPUs; may be unknown.
    pub throttled_ns: Option<u64>,
    /// CPU time used; may be unknown.
    pub usage_ns: Option<u64>,
    /// How often a counter fell: the group began anew, and what it had counted since the look
    /// before is not known.
    pub restarts: u32,
    /// Usage of the group every few milliseconds, where that was recorded.
    pub samples: Option<Samples>,
    /// The nearest group above it that has a limit, and the CPUs that it grants.
    pub limited_parent: Option<(String, f64)>,
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

/// Forecast of the counters under a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    /// Name of the limit.
    pub name: String,
    /// The limit.
    pub limit: BandwidthLimit,
    /// Share of the periods that are throttled.
    pub throttled_ratio: Range,
    /// Throttled time over the window, in ms.
    pub throttled_ms: Range,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// Counters that the forecast starts from.
    pub known: Known,
    /// Demands that were simulated under the recorded limit.
    pub tried: u64,
    /// Of them those that give the recorded counters.
    pub matching: u64,
    /// How far from the counted values they may be: 1 is the usual tolerance.
    pub tolerance: f64,
    /// Whether they are the recorded samples, not members of the family.
    pub are_samples: bool,
    /// CPU time that they use in the window, in ms.
    pub usage_ms: Range,
    /// One for each limit.
    pub outlooks: Vec<Outlook>,
}

/// The nearest group above `cgroup` that has a limit, and the CPUs that it grants.
fn limited_parent(tree: &CgroupTree, cgroup: &str) -> Option<(String, f64)> {
    let above = tree
        .paths()
        .filter(|path| *path != cgroup && is_within(cgroup, path));
    let limited = above.filter_map(|path| {
        let bandwidth = tree.get(path)?.bandwidth().ok()??;
        let quota_us = bandwidth.quota_us?;
        let cpus = quota_us as f64 / bandwidth.period_us.max(1) as f64;
        Some((path.to_string(), cpus))
    });
    limited.max_by_key(|(path, _)| path.len())
}

impl Known {
    /// Counters in the recording in `folder` for the `wanted` group, else for the one that it was
    /// made for, else for the only group that was limited.
    ///
    /// # Errors
    /// If the folder cannot be read, has no such group, or its counters say too little.
    pub fn open(folder: &Path, wanted: Option<&Wanted>) -> Result<Known> {
        let snapshots = Snapshots::open(folder).map_err(|error| bad_recording(folder, error))?;
        let named = snapshots.meta.named_groups(&snapshots.before);
        let samples = Samples::open(folder)?;
        let asked = snapshots.meta.cgroup.as_deref();
        let cgroup = match (wanted, asked) {
            (Some(wanted), _) => found(wanted, &named)?,
            (None, Some(sampled)) if samples.is_some() => sampled.to_owned(),
            (None, asked) => in_question(&snapshots.before, asked, &named)?,
        };
        // Samples are of one group, that of the recording where it says which.
        let samples = samples.filter(|_| asked.is_none_or(|sampled| sampled == cgroup));
        let names: Vec<&str> = snapshots.before.paths().collect();
        let find = |tree: &CgroupTree| {
            let group = tree.get(&cgroup).cloned();
            group.ok_or_else(|| {
                Error::usage(format!("the recording has no group `{cgroup}`"))
                    .hint(hint_for(&cgroup, &names))
            })
        };
        let before = find(&snapshots.before)?;
        if snapshots.after.get(&cgroup).is_none() {
            let message = format!(
                "the group `{cgroup}` went away while it was recorded, and its counters with it"
            );
            let hint = "where events were recorded, `schedcast what-if` forecasts from them";
            return Err(Error::general(message).hint(hint));
        }
        let after = find(&snapshots.after)?;
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
        let limit = BandwidthLimit::from(bandwidth.unwrap_or_default());
        let nr_periods = grown.nr_periods.unwrap_or(0);
        let window_ns = match (snapshots.meta.start_ns, snapshots.meta.end_ns) {
            (Some(start), Some(end)) => end - start,
            _ => nr_periods.saturating_mul(limit.period_ns),
        };
        let known = Known {
            label: label_of(&cgroup, &named),
            limited_parent: limited_parent(&snapshots.before, &cgroup),
            cgroup,
            cpus: snapshots.meta.cpus.unwrap_or(1),
            window_ns,
            limit,
            nr_periods,
            nr_throttled: grown.nr_throttled.unwrap_or(0),
            throttled_ns: grown.throttled_ns,
            usage_ns: grown.usage_ns,
            restarts: u32::from(after.began_anew(&before)),
            samples,
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

    /// CPU time that all CPUs of the machine provide in the window, ns.
    fn all_cpus_ns(&self) -> u128 {
        u128::from(self.window_ns) * u128::from(self.cpus)
    }

    fn ratio(&self) -> f64 {
        self.nr_throttled as f64 / self.nr_periods.max(1) as f64
    }

    /// True if a demand that counts this could have been the recorded one.
    fn matches(&self, counted: &Counted, window_ns: u64, tolerance: f64) -> bool {
        let near = |found: f64, known: f64, share: f64, least: f64| {
            (found - known).abs() <= tolerance * (share * known).max(least)
        };
        let used = counted.usage_ns as f64 * self.scale(window_ns);
        let usage = self
            .usage_ns
            .is_none_or(|usage_ns| near(used, usage_ns as f64, USAGE_NEAR, 0.0));
        if self.limit.quota_ns.is_none() || !usage {
            return usage;
        }
        let ratio = self.per_active(counted);
        let each = |ns: u64, count: u64| ns as f64 / 1e6 / count.max(1) as f64;
        let found = each(counted.throttled_ns, counted.nr_throttled);
        let known = self.throttled_ns.map(|ns| each(ns, self.nr_throttled));
        near(ratio, self.ratio(), 0.0, RATIO_NEAR)
            && (self.nr_throttled == 0
                || known.is_none_or(|known| near(found, known, 0.2, SLICE_MS)))
    }

    /// Throttled periods of a window that may match.
    fn throttled_within(&self, window_ns: u64, tolerance: f64) -> RangeInclusive<u64> {
        let periods = window_ns.div_ceil(self.limit.period_ns);
        let reach = RATIO_NEAR * tolerance;
        let at = |ratio: f64| ratio * self.active() * periods as f64;
        let most = match self.ratio() + reach >= 1.0 {
            true => periods,
            false => at(self.ratio() + reach).ceil() as u64,
        };
        at((self.ratio() - reach).max(0.0)).floor() as u64..=most
    }

    /// Share of the window in which the group was active.
    fn active(&self) -> f64 {
        let elapsed = self.window_ns as f64 / self.limit.period_ns.max(1) as f64;
        match self.nr_periods {
            0 => 1.0,
            periods => (periods as f64 / elapsed).min(1.0),
        }
    }

    /// Share of the periods that were throttled. The kernel counts periods while a group is active
    /// only; a queue counts all, so that its throttled ones are taken of the same share of them.
    fn per_active(&self, counted: &Counted) -> f64 {
        let ratio = counted.nr_throttled as f64 / counted.nr_periods.max(1) as f64;
        (ratio / self.active()).min(1.0)
    }
}

/// Counters are read some seconds before or after the time they are noted with: in a short window
/// they may show more than it holds, not several times as much.
const USAGE_SLACK: u128 = 2;

/// The group that the recording was `asked` for, unless only groups below it are limited; without
/// one the only group that is.
fn in_question(tree: &CgroupTree, asked: Option<&str>, named: &[NamedGroup]) -> Result<String> {
    let is_limited = |group: &schedcast_trace::Cgroup| {
        let bandwidth = group.bandwidth().ok().flatten();
        bandwidth.is_some_and(|bandwidth| bandwidth.quota_us.is_some())
    };
    let asked = asked.filter(|asked| tree.get(asked).is_some());
    let limited: Vec<&str> = tree
        .iter()
        .filter(|(path, group)| {
            is_limited(group) && asked.is_none_or(|asked| is_within(path, asked))
        })
        .map(|(path, _)| path)
        .collect();
    if let Some(asked) = asked.filter(|asked| limited.is_empty() || limited.contains(asked)) {
        return Ok(asked.to_owned());
    }
    match limited[..] {
        [only] => Ok(only.to_owned()),
        _ => Err(Error::usage(format!(
            "the recording has {} groups with a limit",
            limited.len()
        ))
        .hint(match limited.is_empty() {
            true => "name a group with --cgroup PATH".to_string(),
            false => format!("name one: {}", flags(&limited, named)),
        })),
    }
}

/// Options that name the groups at `paths`, with the path of those that share a name.
fn flags(paths: &[&str], named: &[NamedGroup]) -> String {
    let flag = |path: &str| named.iter().find(|group| group.path == path)?.names.flag();
    let flags: Vec<Option<String>> = paths.iter().map(|path| flag(path)).collect();
    let shown = paths.iter().zip(&flags).map(|(path, flag)| {
        let alone = flag
            .as_ref()
            .filter(|_| flags.iter().filter(|one| *one == flag).count() == 1);
        alone.cloned().unwrap_or_else(|| format!("--cgroup {path}"))
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Levels of demand where usage is unknown, in twentieths of what the limit grants, up to 1.2 of
/// it.
const LEVELS: u64 = 24;
const LEVELS_FULL: u64 = 20;
/// Distance of two levels around a known usage, and how far the outermost lie beyond the tolerance,
/// in thousandths of it.
const STEP_PERMILLE: u64 = 40;
const MARGIN_PERMILLE: u64 = 80;
/// A window is cut to this many periods, and further where so many jobs come in it: more would only
/// cost time.
const PERIODS_MAX: u64 = 600;
const PERIODS_MIN: u64 = 100;
const JOBS_MAX: u64 = 4000;
/// The same load takes more or less CPU time in another run, because machines drift: in 24 runs of
/// five services that were hardly throttled (memcached, Redis, nginx, PostgreSQL, a Rust server:
/// `docs/validity/services-bench.md`) up to 5.4 % more or less than the middle of its service's
/// range. A limit is asked about for another run than the counted one.
const DRIFT_PERMILLE: u64 = 60;
/// How far CPU time of one run may be from that of another in nine of ten pairs. Runs of eight
/// services under one load deviate from their mean by 63 ‰ (69 degrees of freedom: five services of
/// the bench's seen half, three of `recordings/services`), so a run from another by √2 × 63 = 89 ‰,
/// and nine of ten pairs lie within 1.645 × 89. Demands of the family make wider ranges by their
/// number, and are held against what was measured with the constant above.
const SAMPLED_DRIFT_PERMILLE: u64 = 146;

/// One demand of the family, and what it counts under the recorded limit.
struct Demand {
    jobs: Vec<Job>,
    workers: usize,
    /// How long it was looked at.
    window_ns: u64,
    counted: Counted,
}

/// Demands that give the recorded counters, to be asked about one limit after another.
pub(crate) struct Matching<'a> {
    known: &'a Known,
    demands: Vec<Demand>,
    tried: u64,
    tolerance: f64,
    are_samples: bool,
}

/// Runs the family and keeps what matches; `limits` are what is asked about, with their names.
///
/// # Errors
/// If no demand of the family counts what was counted, even with a wide tolerance.
pub fn bounds(known: &Known, limits: &[(String, BandwidthLimit)]) -> Result<Bounds> {
    let matching = known.matching()?;
    let mut usage_ms = Range::NONE;
    for demand in &matching.demands {
        usage_ms.add(demand.counted.usage_ns as f64 / 1e6 * known.scale(demand.window_ns));
    }
    let outlooks = limits.iter();
    Ok(Bounds {
        known: known.clone(),
        tried: matching.tried,
        matching: matching.demands.len() as u64,
        tolerance: matching.tolerance,
        are_samples: matching.are_samples,
        usage_ms,
        outlooks: outlooks
            .map(|(name, limit)| matching.outlook(name, *limit))
            .collect(),
    })
}

/// Throttled periods more or less that are chance, as a share of all: three in a hundred.
const RATIO_NEAR: f64 = 0.03;
/// CPUs take runtime from the group's pool in slices of this length
/// (`sysctl_sched_cfs_bandwidth_slice`), which the queue does not have: a throttled period lasts so
/// much longer or shorter.
const SLICE_MS: f64 = 5.0;
/// Usage more or less that is chance, as a share of it.
const USAGE_NEAR: f64 = 0.05;
const TOLERANCES: [f64; 3] = [1.0, 2.0, 4.0];
/// Share of throttled periods up to which samples still show the demand: what `fleet` takes for
/// seldom unless `--throttled-below` says otherwise.
const SELDOM_THROTTLED: f64 = 0.05;
/// Fewer demands than this say too little about what else is possible.
const MATCHING_MIN: usize = 20;

impl Known {
    /// The demands that match, with the least tolerance that some do.
    ///
    /// # Errors
    /// As [`bounds`].
    pub(crate) fn matching(&self) -> Result<Matching<'_>> {
        if let Some(samples) = self.demand_as_it_came() {
            let demands = samples.demands(self);
            return Ok(Matching {
                known: self,
                tried: demands.len() as u64,
                demands,
                tolerance: 1.0,
                are_samples: true,
            });
        }
        let mut tried = 0;
        for tolerance in TOLERANCES {
            let (demands, ran) = self.demands(tolerance);
            tried += ran;
            if demands.len() >= MATCHING_MIN {
                return Ok(Matching {
                    known: self,
                    demands,
                    tried,
                    tolerance,
                    are_samples: false,
                });
            }
        }
        let cgroup = &self.cgroup;
        let too_much = self.usage_above_grant();
        let too_much = too_much.map_or(String::new(), |why| format!(": {why}"));
        Err(bad_input(format!(
            "no demand of the family counts what `{cgroup}` counted{too_much}; record its events with `schedcast record`"
        )))
    }

    /// CPUs that it used, in the mean over the window; `None` where usage is unknown.
    pub(crate) fn used_cpus(&self) -> Option<f64> {
        Some(self.usage_ns? as f64 / self.window_ns as f64)
    }

    /// The caveat of a group that used more than its limit grants.
    pub(crate) fn usage_above_grant(&self) -> Option<String> {
        let (quota_ns, used) = self.limit.quota_ns.zip(self.used_cpus())?;
        let granted = quota_ns as f64 / self.limit.period_ns as f64;
        (used > granted).then(|| {
            format!("it used {used:.2} CPUs, and its limit grants {granted:.2}, so that another limit or a burst was in force")
        })
    }

    /// The samples, where hardly any limit held the group back while they were taken: what it used
    /// is what it wanted then. In a throttled period it wanted more at once, and used it later; how
    /// much is not known, so such a period counts as one that any limit may throttle.
    ///
    /// Worked example: 1 of 93 periods was throttled, 1.1 %. Samples that say 0.8 to 2.1 % of a
    /// limit say 0.8 to 3.2 %.
    fn demand_as_it_came(&self) -> Option<&Samples> {
        let seldom = self.nr_throttled == 0 || self.ratio() <= SELDOM_THROTTLED;
        self.samples.as_ref().filter(|_| seldom)
    }

    /// How often a window of this length fits into the counted one.
    fn scale(&self, window_ns: u64) -> f64 {
        self.window_ns as f64 / window_ns as f64
    }

    /// Demands of the family that match within a tolerance, and how many ran.
    fn demands(&self, tolerance: f64) -> (Vec<Demand>, u64) {
        let (mut found, mut tried) = (Vec::new(), 0);
        for (index, shape) in family(self.cpus as usize).into_iter().enumerate() {
            let levels = self.levels_permille(tolerance, shape.workers);
            for (level, permille) in (1u64..).zip(levels) {
                let window_ns = self.window_ns_of(&shape, permille);
                for draw in 0..shape.draws() {
                    let seed = (index as u64) << 32 | level << 16 | draw;
                    let demand_ns = part(self.full_ns(window_ns), permille);
                    let jobs = shape.jobs(demand_ns, window_ns, &mut Stream(SplitMix(seed)));
                    let wanted = self.throttled_within(window_ns, tolerance);
                    let workers = shape.workers;
                    let counted = serve_within(&jobs, workers, self.limit, window_ns, wanted);
                    tried += 1;
                    let counted = counted.filter(|one| self.matches(one, window_ns, tolerance));
                    if let Some(counted) = counted {
                        found.push(Demand {
                            jobs,
                            workers,
                            window_ns,
                            counted,
                        });
                    }
                }
            }
        }
        (found, tried)
    }

    /// CPU time that levels are fractions of, ns: the usage, or the grant of the limit, in a
    /// window.
    fn full_ns(&self, window_ns: u64) -> u64 {
        let share = u128::from(window_ns);
        let full_ns = match (self.usage_ns, self.limit.quota_ns) {
            (Some(usage_ns), _) => share * u128::from(usage_ns) / u128::from(self.window_ns),
            // No limit grants more than the machine has.
            (None, Some(quota_ns)) => {
                let granted_ns = share * u128::from(quota_ns) / u128::from(self.limit.period_ns);
                granted_ns.min(share * u128::from(self.cpus))
            }
            (None, None) => share,
        };
        full_ns as u64
    }

    /// Levels of demand, in thousandths. Above the highest more are tried for a group that was
    /// throttled in nearly each of its periods, each half as large again as the one before, up to
    /// what keeps all workers busy: nothing told how much more it wants.
    fn levels_permille(&self, tolerance: f64, workers: usize) -> Vec<u64> {
        let mut levels: Vec<u64> = match self.usage_ns {
            Some(_) => {
                let reach = (1000.0 * USAGE_NEAR * tolerance) as u64 + MARGIN_PERMILLE;
                let lowest = 1000 - reach.min(900);
                (lowest..=1000 + reach)
                    .step_by(STEP_PERMILLE as usize)
                    .collect()
            }
            None => (1..=LEVELS)
                .map(|level| 1000 * level / LEVELS_FULL)
                .collect(),
        };
        let widest = TOLERANCES[TOLERANCES.len() - 1];
        if self.limit.quota_ns.is_some() && self.ratio() + widest * RATIO_NEAR >= 1.0 {
            let busy_ns = self.window_ns.saturating_mul(workers as u64);
            let full_ns = self.full_ns(self.window_ns).max(1);
            let mut level = levels[levels.len() - 1];
            while part(full_ns, level) < busy_ns {
                level = level.saturating_add(level.div_ceil(2));
                levels.push(level);
            }
        }
        levels
    }

    /// How long a demand of a shape is looked at.
    fn window_ns_of(&self, shape: &Shape, permille: u64) -> u64 {
        let period_ns = self.limit.period_ns;
        let demand_ns = part(self.full_ns(period_ns), permille).max(1);
        let jobs = (demand_ns / shape.mean_work_ns).max(1);
        let periods = (JOBS_MAX / jobs).clamp(PERIODS_MIN, PERIODS_MAX);
        self.window_ns.min(period_ns.saturating_mul(periods))
    }
}

/// A part in thousandths.
fn part(whole: u64, permille: u64) -> u64 {
    (u128::from(whole) * u128::from(permille) / 1000).min(u128::from(u64::MAX)) as u64
}

impl Demand {
    /// Counters under a limit in another run, in which the jobs take `work_permille` thousandths of
    /// their time.
    fn again(&self, limit: BandwidthLimit, work_permille: u64) -> Counted {
        let mut jobs = self.jobs.clone();
        for job in &mut jobs {
            job.work_ns = part(job.work_ns, work_permille);
        }
        serve(&jobs, self.workers, limit, self.window_ns)
    }
}

impl Matching<'_> {
    fn drift_permille(&self) -> u64 {
        match self.are_samples {
            true => SAMPLED_DRIFT_PERMILLE,
            false => DRIFT_PERMILLE,
        }
    }

    /// Forecast of a limit's counters over these demands in another run of theirs.
    pub(crate) fn outlook(&self, name: &str, limit: BandwidthLimit) -> Outlook {
        let drift = self.drift_permille();
        let (mut throttled_ratio, mut throttled_ms) = (Range::NONE, Range::NONE);
        for demand in &self.demands {
            for work_permille in [1000 - drift, 1000, 1000 + drift] {
                let counted = demand.again(limit, work_permille);
                throttled_ratio.add(self.known.per_active(&counted));
                let scale = self.known.scale(demand.window_ns);
                throttled_ms.add(counted.throttled_ns as f64 / 1e6 * scale);
            }
        }
        if self.are_samples && limit.quota_ns.is_some() {
            let hidden_ms = self.known.throttled_ns.unwrap_or(0) as f64 / 1e6;
            throttled_ratio.high = (throttled_ratio.high + self.known.ratio()).min(1.0);
            throttled_ms.high += hidden_ms;
        }
        Outlook {
            name: name.to_owned(),
            limit,
            throttled_ratio,
            throttled_ms,
        }
    }

    /// True if a limit throttles every demand in at most this share of the periods, also where its
    /// jobs take more time.
    pub(crate) fn all_below(&self, limit: BandwidthLimit, ratio: f64) -> bool {
        let throttled = |demand: &Demand, work| self.known.per_active(&demand.again(limit, work));
        let drift = self.drift_permille();
        let works = [1000 + drift, 1000, 1000 - drift];
        let mut runs = works
            .iter()
            .flat_map(|work| self.demands.iter().map(move |demand| (demand, *work)));
        runs.all(|(demand, work)| throttled(demand, work) <= ratio)
    }

    /// True if it throttles some demand no more than that.
    pub(crate) fn any_below(&self, limit: BandwidthLimit, ratio: f64) -> bool {
        let least = 1000 - self.drift_permille();
        let mut demands = self.demands.iter();
        demands.any(|one| self.known.per_active(&one.again(limit, least)) <= ratio)
    }
}

#[cfg(test)]
mod tests;
