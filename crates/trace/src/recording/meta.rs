//! `recording.json`: the machine, the kernel and the trace.
//!
//! Every field may be missing; `None` means "unknown", never a default. A bare trace file has no
//! `recording.json` at all, so everything in its [`Meta`] is unknown but the name of the trace.

use std::collections::BTreeMap;

use schedcast_base::groups::{GroupNames, NamedGroup};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::cgroups::CgroupTree;
use crate::clock::TraceClock;
use crate::event::Pid;
use crate::json;

/// Facts about the machine and the trace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Meta {
    /// One line about what was recorded.
    pub title: Option<String>,
    /// Kernel release as `uname -r` gives it, e.g. `6.18.44`.
    pub kernel: Option<String>,
    /// Ticks per second (`CONFIG_HZ`).
    #[serde(default, deserialize_with = "hz")]
    pub hz: Option<u32>,
    /// Preemption model.
    pub preempt: Option<Preempt>,
    /// Whether sessions get their own group (`sched_autogroup_enabled`).
    pub autogroup: Option<bool>,
    /// Number of CPUs.
    #[serde(default, deserialize_with = "cpus")]
    pub cpus: Option<u32>,
    /// Hardware threads per core.
    pub smt: Option<u32>,
    /// Number of sockets.
    pub sockets: Option<u32>,
    /// CPUs that share a last-level cache, one list per cache.
    pub llc: Option<Vec<Vec<u32>>>,
    /// Path of the group that was recorded, if one was named.
    pub cgroup: Option<String>,
    /// CPUs without scheduling domains (`isolcpus`).
    #[serde(default)]
    pub isolated: Vec<u32>,
    /// CPUs without a tick while one task runs (`nohz_full`).
    #[serde(default)]
    pub nohz_full: Vec<u32>,
    /// Whether the machine is a virtual one (key `virtual`).
    #[serde(rename = "virtual")]
    pub is_virtual: Option<bool>,
    /// Version of the cgroup interface, 1 or 2.
    #[serde(default, deserialize_with = "cgroup_version")]
    pub cgroup_version: Option<u32>,
    /// Name of the trace file in the folder.
    #[serde(default, deserialize_with = "file_name")]
    pub trace: Option<String>,
    /// Format of the trace file.
    pub trace_format: Option<TraceFormat>,
    /// Clock of the trace.
    pub trace_clock: Option<TraceClock>,
    /// Number of events, as the recorder counted them. Some recorders count the trace's lines.
    pub events: Option<u64>,
    /// Number of events that the recorder lost.
    pub lost_events: Option<u64>,
    /// Start of the recording on the trace's clock, in ns (key `start_s`, in seconds).
    #[serde(default, rename = "start_s", deserialize_with = "seconds_as_ns")]
    pub start_ns: Option<u64>,
    /// End of the recording on the trace's clock, in ns (key `end_s`, in seconds).
    #[serde(default, rename = "end_s", deserialize_with = "seconds_as_ns")]
    pub end_ns: Option<u64>,
    /// Share of the CPUs' time that the hypervisor took, 0 to 1.
    #[serde(default, deserialize_with = "ratio")]
    pub steal_ratio: Option<f64>,
    /// Names of the recorded groups, by path: units, containers, pods.
    #[serde(default)]
    pub names: BTreeMap<String, GroupNames>,
    /// A span of time in which a period of each limited group ended, by path, where the recorder
    /// saw one.
    #[serde(default)]
    pub period_ends: BTreeMap<String, PeriodEnd>,
    /// By thread of a recorded group: CPU time from its start to the begin of the recording.
    #[serde(default)]
    pub thread_times: BTreeMap<Pid, ThreadTimes>,
    /// Threads that may run on some CPUs only, by their affinity or their cpuset, as they were when
    /// they were last seen.
    #[serde(default)]
    pub thread_cpus: Vec<BoundThreads>,
    /// By how much the wall clock (`CLOCK_REALTIME`) is ahead of the trace's, in ns. Logs of
    /// servers are on the wall clock.
    pub realtime_offset_ns: Option<i64>,
    /// By how much local time is ahead of UTC, in seconds. Some logs have local times.
    pub utc_offset_s: Option<i32>,
    /// Name of the file with the application's requests.
    #[serde(default, deserialize_with = "file_name")]
    pub requests: Option<String>,
}

/// A span of time in which a period of a group ended, on the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeriodEnd {
    /// Time at which the period still lasted, in ns (key `after_s`, in seconds).
    #[serde(rename = "after_s", deserialize_with = "known_seconds_as_ns")]
    pub after_ns: u64,
    /// Time at which it was over, in ns (key `before_s`, in seconds).
    #[serde(rename = "before_s", deserialize_with = "known_seconds_as_ns")]
    pub before_ns: u64,
}

/// CPU time that a thread had used when the recording began.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadTimes {
    /// Its name then.
    pub comm: String,
    /// CPU time since its start, in ns (key `cpu_s`, in seconds).
    #[serde(rename = "cpu_s", deserialize_with = "known_seconds_as_ns")]
    pub cpu_ns: u64,
    /// Time since its start, in ns (key `age_s`, in seconds).
    #[serde(rename = "age_s", deserialize_with = "known_seconds_as_ns")]
    pub age_ns: u64,
}

/// Threads that may run on the same CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundThreads {
    /// The CPUs.
    pub cpus: Vec<u32>,
    /// The threads.
    pub threads: Vec<Pid>,
}

impl Meta {
    /// Whether two CPUs share a last-level cache. All do where that was not recorded.
    pub fn share_cache(&self, one: u32, other: u32) -> bool {
        let of = |cpu: u32| {
            self.llc
                .iter()
                .flatten()
                .position(|cache| cache.contains(&cpu))
        };
        of(one) == of(other)
    }

    /// The keys of `recording.json` that are unknown, in the file's order.
    pub fn unknown(&self) -> Vec<&'static str> {
        let known = [
            ("title", self.title.is_some()),
            ("kernel", self.kernel.is_some()),
            ("hz", self.hz.is_some()),
            ("preempt", self.preempt.is_some()),
            ("autogroup", self.autogroup.is_some()),
            ("cpus", self.cpus.is_some()),
            ("smt", self.smt.is_some()),
            ("sockets", self.sockets.is_some()),
            ("llc", self.llc.is_some()),
            ("virtual", self.is_virtual.is_some()),
            ("cgroup_version", self.cgroup_version.is_some()),
            ("trace", self.trace.is_some()),
            ("trace_format", self.trace_format.is_some()),
            ("trace_clock", self.trace_clock.is_some()),
            ("events", self.events.is_some()),
            ("lost_events", self.lost_events.is_some()),
            ("start_s", self.start_ns.is_some()),
            ("end_s", self.end_ns.is_some()),
            ("steal_ratio", self.steal_ratio.is_some()),
            ("requests", self.requests.is_some()),
        ];
        known
            .into_iter()
            .filter(|(_, is_known)| !is_known)
            .map(|(key, _)| key)
            .collect()
    }

    /// The groups of `tree` with what they are called. Of a recording that keeps no names, paths
    /// tell what they do.
    pub fn named_groups(&self, tree: &CgroupTree) -> Vec<NamedGroup> {
        let named = |(path, group): (&str, &super::Cgroup)| NamedGroup {
            path: path.to_owned(),
            names: match self.names.get(path) {
                Some(names) => names.clone(),
                None => GroupNames::of_path(path),
            },
            tasks: group.tasks.clone(),
        };
        tree.iter().map(named).collect()
    }

    /// Contradiction between fields, if there is one.
    pub(super) fn contradiction(&self) -> Option<String> {
        if let (Some(start), Some(end)) = (self.start_ns, self.end_ns)
            && end < start
        {
            return Some("expected `end_s` at or after `start_s`".to_owned());
        }
        let reversed = |end: &PeriodEnd| end.before_ns < end.after_ns;
        if let Some((path, _)) = self.period_ends.iter().find(|(_, end)| reversed(end)) {
            return Some(format!(
                "expected `before_s` at or after `after_s` in `period_ends` of `{path}`"
            ));
        }
        let bound = self.thread_cpus.iter();
        let bound = bound.map(|bound| ("thread_cpus", &bound.cpus));
        let lists = [("isolated", &self.isolated), ("nohz_full", &self.nohz_full)];
        for (key, list) in lists.into_iter().chain(bound) {
            if let (Some(cpu), Some(cpus)) = (list.iter().max(), self.cpus)
                && *cpu >= cpus
            {
                return Some(format!("`{key}` names CPU {cpu}, but `cpus` is {cpus}"));
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        for cpu in self.llc.iter().flatten().flatten() {
            if self.cpus.is_some_and(|cpus| *cpu >= cpus) {
                return Some(format!(
                    "`llc` names CPU {cpu}, but `cpus` is {}",
                    self.cpus.unwrap_or(0)
                ));
            }
            if !seen.insert(cpu) {
                return Some(format!("`llc` names CPU {cpu} twice"));
            }
        }
        None
    }
}

/// Preemption model of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preempt {
    /// `PREEMPT_NONE`
    None,
    /// `PREEMPT_VOLUNTARY`
    Voluntary,
    /// `PREEMPT`
    Full,
    /// `PREEMPT_LAZY`
    Lazy,
    /// `PREEMPT_RT`
    Rt,
}

impl<'de> Deserialize<'de> for Preempt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Preempt, D::Error> {
        let known = [
            ("none", Preempt::None),
            ("voluntary", Preempt::Voluntary),
            ("full", Preempt::Full),
            ("lazy", Preempt::Lazy),
            ("rt", Preempt::Rt),
        ];
        json::word(deserializer, "preemption model", &known)
    }
}

/// Format of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// `ftrace-text`: tracefs' `trace` file or `trace-cmd report`.
    FtraceText,
    /// `trace-dat`: the file of trace-cmd.
    TraceDat,
    /// `perf-data`: the file of perf.
    PerfData,
    /// `perf-script`: the text of `perf script`.
    PerfScript,
    /// `tracefs-raw`: a folder with raw pages.
    TracefsRaw,
    /// `perfetto`: a Perfetto trace.
    Perfetto,
}

impl<'de> Deserialize<'de> for TraceFormat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TraceFormat, D::Error> {
        json::word(
            deserializer,
            "trace format",
            &[
                ("ftrace-text", TraceFormat::FtraceText),
                ("trace-dat", TraceFormat::TraceDat),
                ("perf-data", TraceFormat::PerfData),
                ("perf-script", TraceFormat::PerfScript),
                ("tracefs-raw", TraceFormat::TracefsRaw),
                ("perfetto", TraceFormat::Perfetto),
            ],
        )
    }
}

impl<'de> Deserialize<'de> for TraceClock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TraceClock, D::Error> {
        let clocks = TraceClock::ALL.map(|clock| (clock.name(), clock));
        json::word(deserializer, "trace clock", &clocks)
    }
}

/// A number within bounds, or `null`.
fn within<'de, D: Deserializer<'de>>(
    deserializer: D,
    bounds: std::ops::RangeInclusive<u32>,
    what: &str,
) -> Result<Option<u32>, D::Error> {
    match Option::<u32>::deserialize(deserializer)? {
        Some(value) if !bounds.contains(&value) => {
            let (low, high) = (bounds.start(), bounds.end());
            Err(D::Error::custom(format!(
                "expected {what} from {low} to {high}, found {value}"
            )))
        }
        value => Ok(value),
    }
}

fn hz<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    within(deserializer, 1..=10_000, "ticks per second")
}

fn cpus<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    within(deserializer, 1..=65_536, "a number of CPUs")
}

fn cgroup_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    within(deserializer, 1..=2, "a cgroup version")
}

fn ratio<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    match Option::<f64>::deserialize(deserializer)? {
        Some(value) if !(0.0..=1.0).contains(&value) => Err(D::Error::custom(format!(
            "expected a ratio from 0 to 1, found {value}"
        ))),
        value => Ok(value),
    }
}

/// Seconds with a fraction, to the nearest microsecond: a double holds no more of a machine's
/// uptime with certainty.
fn seconds_as_ns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    const SECONDS_MAX: f64 = 1e9; // 31 years of uptime
    match Option::<f64>::deserialize(deserializer)? {
        Some(value) if !(0.0..=SECONDS_MAX).contains(&value) => Err(D::Error::custom(format!(
            "expected seconds from 0 to {SECONDS_MAX}, found {value}"
        ))),
        value => Ok(value.map(|seconds| (seconds * 1e6).round() as u64 * 1000)),
    }
}

fn known_seconds_as_ns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    seconds_as_ns(deserializer)?.ok_or_else(|| D::Error::custom("expected seconds, found null"))
}

/// The name of a file in the same folder.
fn file_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Option::<String>::deserialize(deserializer)? {
        Some(name)
            if name.is_empty() || name.contains(['/', '\\']) || name == ".." || name == "." =>
        {
            Err(D::Error::custom(format!(
                "expected the name of a file in this folder, found `{name}`"
            )))
        }
        name => Ok(name),
    }
}
