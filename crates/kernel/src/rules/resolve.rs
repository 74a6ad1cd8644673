//! From a kernel as an experiment names it to [`Rules`].
//!
//! Order: the version as released (or that stable kernel), then patches, then features, then
//! tunables; later words win. Worked example: version 6.1, patches `-timer-interleave` is refused,
//! because 6.1 starts its period timers aligned anyway; 6.4 is the first that does not.

use super::changes::{self, Change};
use super::features::{FEATURES, Feature};
use super::tunables::Tunable;
use super::{FairClass, Preemption, Rules, ThrottleModel, Version, own};
use crate::dl::to_ratio;
use crate::uclamp;
use std::fmt;

/// Tick frequencies a kernel can be built with.
pub(crate) const HZ_CHOICES: [u32; 4] = [100, 250, 300, 1000];

/// A kernel as an experiment describes it.
#[derive(Clone, Debug)]
pub struct KernelChoice<'a> {
    /// The release.
    pub version: Version,
    /// Online CPUs; slices are scaled by them.
    pub cpus: u32,
    /// Tick frequency, Hz.
    pub hz: u32,
    /// Preemption model. Where a kernel has no other than full and lazy (7.0), none and voluntary
    /// stand for lazy.
    pub preemption: Preemption,
    /// PREEMPT_DYNAMIC; `None` = as x86 has it by default.
    pub preempt_dynamic: Option<bool>,
    /// CONFIG_IRQ_TIME_ACCOUNTING.
    pub irq_time_accounting: bool,
    /// CONFIG_UCLAMP_TASK and CONFIG_UCLAMP_TASK_GROUP.
    pub uclamp: bool,
    /// Whether sessions get groups of their own.
    pub autogroup: bool,
    /// Named patches, `-name` to take one away.
    pub patches: &'a [&'a str],
    /// Features as written to `sched/features`, `NO_…` to clear one.
    pub features: &'a [&'a str],
    /// Tunables by debugfs or sysctl name.
    pub tunables: &'a [(&'a str, i64)],
}

impl KernelChoice<'_> {
    /// `version` as released on `cpus` CPUs: 250 Hz, voluntary preemption, autogroups on.
    pub fn released(version: Version, cpus: u32) -> Self {
        Self {
            version,
            cpus,
            hz: 250,
            preemption: Preemption::Voluntary,
            preempt_dynamic: None,
            irq_time_accounting: false,
            uclamp: false,
            autogroup: true,
            patches: &[],
            features: &[],
            tunables: &[],
        }
    }
}

/// Mistake in a word of a [`KernelChoice`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// No such name; the nearest valid one, if one is near.
    Unknown {
        /// "patch", "feature" or "tunable".
        what: &'static str,
        /// The name probably meant.
        nearest: Option<&'static str>,
    },
    /// The version has the patch already.
    PatchPresent,
    /// The version does not have the patch that is to be taken away.
    PatchAbsent,
    /// The patch or tunable changes the other fair class.
    PatchNeeds(FairClass),
    /// The patch builds on another one, which this kernel is left without.
    PatchBuildsOn(&'static str),
    /// The version has no such feature or tunable; first and last release that have it.
    NotInVersion {
        /// "feature" or "tunable".
        what: &'static str,
        /// First release that has it.
        since: Version,
        /// Last release that has it.
        until: Option<Version>,
    },
    /// The feature exists but its effect is not modelled, so it stays as it is.
    NotModelled,
    /// The value is out of the kernel's range.
    Range {
        /// Smallest value.
        least: i64,
        /// Largest value.
        most: i64,
    },
    /// Above this other tunable, such as a runtime above its period.
    AboveOther(&'static str),
    /// Fair servers that would reserve more of a CPU than `sched_rt_runtime_us` lets.
    ServersReserveTooMuch,
    /// Tick frequency that no kernel can be built with.
    Hz,
    /// Lazy preemption before 6.13.
    NoLazyPreemption,
    /// Utilisation clamps before the first release whose rules are known.
    ClampsUnknown,
    /// A tunable of clamps, and the kernel is built without.
    NoClamps,
}

/// Why a [`KernelChoice`] is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RulesError {
    /// The offending word, as written.
    pub word: String,
    /// The version it was asked of.
    pub(crate) version: Version,
    /// Mistake in the word.
    pub problem: Problem,
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, version) = (&self.word, self.version);
        let text = match &self.problem {
            Problem::Unknown { what, nearest } => {
                let nearest = nearest.map(|name| format!(" (the nearest valid name is `{name}`)"));
                format!("unknown {what} `{word}`{}", nearest.unwrap_or_default())
            }
            Problem::PatchPresent => format!("kernel {version} has `{word}` already"),
            Problem::PatchAbsent => {
                let name = word.trim_start_matches('-');
                format!("kernel {version} has no `{name}` to take away")
            }
            Problem::PatchNeeds(class) => {
                let class = match class {
                    FairClass::Cfs => "CFS (up to 6.5)",
                    FairClass::Eevdf => "EEVDF (from 6.6)",
                };
                format!("`{word}` changes {class}, which kernel {version} does not have")
            }
            Problem::PatchBuildsOn(other) => {
                format!("`{word}` needs `{other}`, which this kernel {version} does not have")
            }
            Problem::NotInVersion { what, since, until } => {
                let until = until
                    .map(|until| format!(" to {until}"))
                    .unwrap_or_default();
                format!("kernel {version} has no {what} `{word}` (it exists from {since}{until})")
            }
            Problem::NotModelled => {
                format!("`{word}` is not modelled: leave that feature at its default")
            }
            Problem::Range { least, most } => format!("`{word}` must be {least} to {most}"),
            Problem::AboveOther(other) => format!("`{word}` must not be above {other}"),
            Problem::ServersReserveTooMuch => format!(
                "`{word}`: EBUSY: the fair server would reserve more of its CPU than \
                 sched_rt_runtime_us of sched_rt_period_us"
            ),
            Problem::Hz => format!("no kernel is built with HZ={word}: 100, 250, 300 or 1000"),
            Problem::ClampsUnknown => format!(
                "utilisation clamps (`{word}`) are modelled from {} on, this is {version}",
                uclamp::OLDEST
            ),
            Problem::NoClamps => format!(
                "`{word}` bounds utilisation clamps, and this kernel is built without (`uclamp`)"
            ),
            Problem::NoLazyPreemption => {
                format!("kernel {version} has no `{word}` preemption: 6.13 brought it")
            }
        };
        f.write_str(&text)
    }
}

impl std::error::Error for RulesError {}

impl Rules {
    /// The rules of a kernel as an experiment describes it.
    ///
    /// # Errors
    /// An unknown name, a patch without effect, a feature or tunable the version does not have, or
    /// a value out of range: the word, what is wrong with it, and the nearest valid name.
    pub fn resolve(choice: &KernelChoice<'_>) -> Result<Rules, RulesError> {
        let version = choice.version;
        let refuse = |word: &str, problem| RulesError {
            word: word.to_string(),
            version,
            problem,
        };
        if !HZ_CHOICES.contains(&choice.hz) {
            return Err(refuse(&choice.hz.to_string(), Problem::Hz));
        }
        if choice.preemption == Preemption::Lazy && !version.since(6, 13) {
            return Err(refuse("lazy", Problem::NoLazyPreemption));
        }
        let mut rules = Rules::of(version, choice.cpus, choice.hz);
        rules.preemption = match choice.preemption {
            Preemption::None | Preemption::Voluntary if rules.preempts_at_least_lazily => {
                Preemption::Lazy
            }
            chosen => chosen,
        };
        rules.config_preemption = matches!(rules.preemption, Preemption::Full | Preemption::Lazy)
            || choice.preempt_dynamic.unwrap_or(rules.config_preemption);
        rules.irq_time_accounting = choice.irq_time_accounting;
        if choice.uclamp && !version.since(uclamp::OLDEST.major, uclamp::OLDEST.minor) {
            return Err(refuse("uclamp", Problem::ClampsUnknown));
        }
        rules.uclamp = choice.uclamp;
        rules.autogroup = choice.autogroup;
        for &word in choice.patches {
            apply_patch(&mut rules, word).map_err(|problem| refuse(word, problem))?;
        }
        // A queue that is throttled leaves the order of its parent's entities; of tasks in one
        // order there is none to leave. A queue of groups counts as runnable what is in that order,
        // where no task has two counts. A queue that is throttled when it is charged would leave
        // while a pick walks down to it; a single task leaves later. Picks do not look at the
        // runtime of queues then, so that the switch has to.
        let by_task = rules.throttle_model != ThrottleModel::Queue;
        let without_delayed = !rules.delayed_count_as_runnable;
        let charged = rules.throttles_when_charged;
        let switch_asks = rules.switches_ask_for_runtime || rules.flat_pick;
        for (patch, is_in, other, there) in [
            ("flat-pick", rules.flat_pick, "task-throttle", by_task),
            (
                "flat-pick",
                rules.flat_pick,
                "runnable-without-delayed",
                without_delayed,
            ),
            ("throttle-when-charged", charged, "task-throttle", by_task),
            (
                "throttle-when-charged",
                charged,
                "switch-asks-for-runtime",
                switch_asks,
            ),
        ] {
            if is_in && !there {
                return Err(refuse(patch, Problem::PatchBuildsOn(other)));
            }
        }
        for &word in choice.features {
            apply_feature(&mut rules, word).map_err(|problem| refuse(word, problem))?;
        }
        // The scaling comes first, whatever the order: other values are values in force.
        let (scaling, plain): (Vec<_>, Vec<_>) = choice
            .tunables
            .iter()
            .partition(|(name, _)| name.ends_with("tunable_scaling"));
        for &(name, value) in scaling.iter().chain(&plain) {
            apply_tunable(&mut rules, name, value).map_err(|problem| refuse(name, problem))?;
        }
        if rules
            .rt_runtime_ns
            .is_some_and(|runtime| runtime > rules.rt_period_ns)
        {
            let problem = Problem::AboveOther("sched_rt_period_us");
            return Err(refuse("sched_rt_runtime_us", problem));
        }
        if rules.fair_server_runtime_ns > rules.fair_server_period_ns {
            let problem = Problem::AboveOther("fair_server_period_ns");
            return Err(refuse("fair_server_runtime_ns", problem));
        }
        // `dl_server_apply_params` with `__dl_overflow`: the last CPU that is written to is
        // refused.
        let most = rules
            .rt_runtime_ns
            .map(|runtime| to_ratio(rules.rt_period_ns, runtime));
        let of_servers = |name: &str| name.starts_with("fair_server_");
        let server = choice.tunables.iter().find(|(name, _)| of_servers(name));
        if let Some((name, _)) = server.filter(|_| most.is_some_and(|m| rules.fair_server_bw() > m))
        {
            return Err(refuse(name, Problem::ServersReserveTooMuch));
        }
        let of_clamps = |name: &str| name.starts_with("sched_util_clamp_");
        let clamps = choice.tunables.iter().find(|(name, _)| of_clamps(name));
        if let Some((name, _)) = clamps.filter(|_| !rules.uclamp) {
            return Err(refuse(name, Problem::NoClamps));
        }
        if rules.clamps.most.min > rules.clamps.most.max {
            let problem = Problem::AboveOther("sched_util_clamp_max");
            return Err(refuse("sched_util_clamp_min", problem));
        }
        Ok(rules)
    }
}

/// `name` adds a patch, `-name` takes it away.
fn apply_patch(rules: &mut Rules, word: &str) -> Result<(), Problem> {
    let name = word.strip_prefix('-').unwrap_or(word);
    let on = name == word;
    let Some(patch) = Change::named(name) else {
        return apply_own_patch(rules, name, on);
    };
    if patch.needs.is_some_and(|class| class != rules.fair) {
        return Err(Problem::PatchNeeds(patch.needs.unwrap_or(rules.fair)));
    }
    match (on, patch.is_in(rules)) {
        (true, true) => Err(Problem::PatchPresent),
        (false, false) => Err(Problem::PatchAbsent),
        _ => {
            patch.apply(rules, on);
            Ok(())
        }
    }
}

/// Same for a patch of [`own::OWN`].
fn apply_own_patch(rules: &mut Rules, name: &str, on: bool) -> Result<(), Problem> {
    match rules.own.set(name, on) {
        Some(true) => Ok(()),
        Some(false) if on => Err(Problem::PatchPresent),
        Some(false) => Err(Problem::PatchAbsent),
        None => {
            let stock = changes::all().map(|patch| patch.name);
            let names = stock.chain(own::OWN.iter().map(|patch| patch.name));
            Err(unknown("patch", name, names))
        }
    }
}

/// `NAME` sets a feature, `NO_NAME` clears it (`sched_feat_set`).
fn apply_feature(rules: &mut Rules, word: &str) -> Result<(), Problem> {
    let name = word.strip_prefix("NO_").unwrap_or(word);
    let on = name == word;
    let Some(feature) = Feature::named(name) else {
        let valid = FEATURES
            .iter()
            .filter(|feature| feature.exists(rules.version));
        return Err(unknown("feature", name, valid.map(|feature| feature.name)));
    };
    if !feature.exists(rules.version) {
        return Err(Problem::NotInVersion {
            what: "feature",
            since: feature.since,
            until: feature.until,
        });
    }
    if !feature.is_modelled(rules.version) && on != feature.default_in(rules.version) {
        return Err(Problem::NotModelled);
    }
    feature.set(&mut rules.features, on);
    Ok(())
}

fn apply_tunable(rules: &mut Rules, name: &str, value: i64) -> Result<(), Problem> {
    let Some(tunable) = Tunable::named(name) else {
        let valid = Tunable::all().filter(|tunable| tunable.exists(rules.version));
        return Err(unknown("tunable", name, valid.map(|tunable| tunable.name)));
    };
    // A patch may have brought the other fair class, with its tunables.
    let is_read = tunable.class().map(|class| class == rules.fair);
    if is_read == Some(false) && tunable.exists(rules.version) {
        return Err(Problem::PatchNeeds(tunable.class().unwrap_or(rules.fair)));
    }
    if is_read != Some(true) && !tunable.exists(rules.version) {
        return Err(Problem::NotInVersion {
            what: "tunable",
            since: tunable.since,
            until: tunable.until,
        });
    }
    if !(tunable.least..=tunable.most).contains(&value) {
        return Err(Problem::Range {
            least: tunable.least,
            most: tunable.most,
        });
    }
    tunable.set(rules, value);
    Ok(())
}

/// The refusal of a name, with the valid one it probably was meant to be.
fn unknown(what: &'static str, word: &str, valid: impl Iterator<Item = &'static str>) -> Problem {
    let nearest = schedcast_base::names::nearest(word, valid);
    Problem::Unknown { what, nearest }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    /// The rules of a release with patches, features (in capitals) and tunables (with `=`).
    fn resolve(text: &str, words: &str) -> Result<Rules, String> {
        let (mut patches, mut features, mut tunables) = (Vec::new(), Vec::new(), Vec::new());
        for word in words.split_whitespace() {
            match word.split_once('=') {
                Some((name, value)) => tunables.push((name, value.parse().unwrap())),
                None if word.starts_with(char::is_uppercase) => features.push(word),
                None => patches.push(word),
            }
        }
        let choice = KernelChoice {
            patches: &patches,
            features: &features,
            tunables: &tunables,
            ..KernelChoice::released(version(text), 8)
        };
        Rules::resolve(&choice).map_err(|error| error.to_string())
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_the_reason() {
        for row in schedcast_base::rows::lines(include_str!("refusals.txt")) {
            let [text, words, expected] = schedcast_base::rows::cells(row);
            let said = resolve(text, words).err().unwrap_or("taken".to_owned());
            assert_eq!(said, expected, "{words} on {text}");
        }
    }

    #[test]
    fn preemption_is_built_in_from_5_16_unless_told() {
        let built = |text: &str, preemption, preempt_dynamic| {
            let choice = KernelChoice {
                preemption,
                preempt_dynamic,
                ..KernelChoice::released(version(text), 8)
            };
            Rules::resolve(&choice).unwrap().config_preemption
        };
        assert!(!built("5.15", Preemption::Voluntary, None));
        assert!(built("5.16", Preemption::None, None));
        assert!(built("5.15", Preemption::None, Some(true)));
        assert!(!built("6.2", Preemption::Voluntary, Some(false)));
        assert!(built("6.2", Preemption::Full, Some(false)));
    }

    #[test]
    fn a_patch_changes_one_mechanism() {
        let plain = resolve("5.13", "").unwrap();
        let patched = resolve("5.13", "burst").unwrap();
        assert!(!plain.burst && patched.burst);
        // The commit moves the refill, too.
        let unpatched = Rules {
            burst: false,
            refill_first: false,
            ..patched
        };
        assert_eq!(unpatched, plain);
        let rules = resolve("6.4", "-timer-interleave").unwrap();
        assert!(!rules.timer_interleave);
        let rules = resolve("6.6", "base-slice-700us reweight-place").unwrap();
        assert_eq!(rules.base_slice_ns, 2_800_000);
        assert_eq!(rules.reweight, super::super::Reweight::PlaceAgain);
    }

    #[test]
    fn stable_releases_are_told_apart() {
        let wakes_itself = |version: &str| {
            let rules = resolve(version, "").unwrap();
            rules.idle_cpu_wakes_itself
        };
        assert!(!wakes_itself("5.15.60") && !wakes_itself("5.19"));
        assert!(wakes_itself("5.15.61") && wakes_itself("6.0"));
    }

    #[test]
    fn adding_and_taking_away_are_inverse() {
        for patch in changes::all() {
            for release in ["5.10", "6.5", "6.11", "6.18"].map(version) {
                let plain = Rules::of(release, 8, 250);
                if patch.needs.is_some_and(|class| class != plain.fair) {
                    continue;
                }
                let mut rules = plain.clone();
                let had = patch.is_in(&plain);
                patch.apply(&mut rules, !had);
                assert_eq!(patch.is_in(&rules), !had, "{} on {release}", patch.name);
                assert_ne!(rules, plain, "{} on {release}", patch.name);
            }
        }
    }

    #[test]
    fn without_eevdf_no_pick_is_flat() {
        let rules = resolve("7.3", "-eevdf").unwrap();
        assert!(resolve("7.3", "").unwrap().flat_pick);
        assert!(!rules.flat_pick);
        assert_eq!(rules.fair, FairClass::Cfs);
    }

    #[test]
    fn features_are_written_as_in_debugfs() {
        let rules = resolve("6.1", "NO_SIS_UTIL SIS_PROP").unwrap();
        assert!(!rules.features.sis_util && rules.features.sis_prop);
    }

    #[test]
    fn tunables_are_values_in_force() {
        let rules = resolve("6.12", "base_slice_ns=1400000").unwrap();
        assert_eq!(rules.base_slice_ns, 1_400_000);
        assert_eq!(rules.normalized_base_slice_ns, 350_000);
        let rules = resolve("5.10", "sched_latency_ns=10000000 tunable_scaling=0").unwrap();
        assert_eq!(rules.latency_ns, 10_000_000);
        assert_eq!(rules.min_granularity_ns, 750_000);
        let rules = resolve("6.1", "sched_cfs_bandwidth_slice_us=3000").unwrap();
        assert_eq!(rules.bandwidth_slice_ns, 3_000_000);
        let rules = resolve("6.1", "sched_rt_runtime_us=-1").unwrap();
        assert_eq!(rules.rt_runtime_ns, None);
        let rules = resolve("6.1", "sched_rr_timeslice_ms=30").unwrap();
        assert_eq!(rules.rr_timeslice_ticks, 8, "30 ms are 7.5 ticks of 4 ms");
    }

    #[test]
    fn tunables_go_with_the_fair_class_that_a_patch_brings() {
        let rules = resolve("7.3", "-eevdf latency_ns=6000000").unwrap();
        assert_eq!(rules.latency_ns, 6_000_000);
        let rules = resolve("6.1", "eevdf base_slice_ns=6000000").unwrap();
        assert_eq!(rules.base_slice_ns, 6_000_000);
    }

    #[test]
    fn the_bandwidth_of_a_fair_server_follows_its_runtime() {
        let rules = resolve("6.12", "fair_server_runtime_ns=100000000").unwrap();
        // A tenth of a CPU: 2^20 / 10.
        assert_eq!(rules.fair_server_bw(), 104_857);
    }

    #[test]
    fn ticks_and_preemption_are_those_kernels_have() {
        let mut choice = KernelChoice::released(version("6.12"), 4);
        choice.hz = 500;
        assert_eq!(
            Rules::resolve(&choice).unwrap_err().to_string(),
            "no kernel is built with HZ=500: 100, 250, 300 or 1000"
        );
        choice.hz = 300;
        assert_eq!(Rules::resolve(&choice).unwrap().tick_ns, 3_333_333);
        choice.preemption = Preemption::Lazy;
        assert_eq!(
            Rules::resolve(&choice).unwrap_err().to_string(),
            "kernel 6.12 has no `lazy` preemption: 6.13 brought it"
        );
    }
}
