//! The switches of `sched/features`: which versions have them, and how they are set there.
//!
//! Worked example: SIS_PROP came with 4.13 and was on; 6.0 turned it off in favour of SIS_UTIL; 6.7
//! removed it. So `NO_SIS_PROP` is a change on 5.15, the default on 6.1 and unknown on 6.12.

use super::Rules;
use super::version::{OLDEST, Version};

/// A switch of `sched/features`.
#[derive(Debug)]
pub struct Feature {
    /// The kernel's name.
    pub name: &'static str,
    /// First release that has it.
    pub since: Version,
    /// Last release that has it; `None` = it still exists.
    pub until: Option<Version>,
    /// Stable series that got it too: series and first patch level.
    pub(crate) backports: &'static [(u16, u16, u16)],
    /// First release in which turning it changes a simulation. A switch that is not modelled can
    /// only be left at its default.
    pub(crate) modelled: Option<Version>,
    field: fn(&mut Features) -> &mut bool,
}

impl Feature {
    /// Whether a version has the switch.
    pub fn exists(&self, version: Version) -> bool {
        let release = Version::new(version.major, version.minor);
        version.has(self.since.major, self.since.minor, self.backports)
            && self.until.is_none_or(|until| release <= until)
    }

    /// Whether it is on by default; a version that does not have it counts as one where it is off.
    pub fn default_in(&self, version: Version) -> bool {
        *(self.field)(&mut Rules::of(version, 1, 250).features)
    }

    /// Whether turning it changes a simulation of this version.
    pub fn is_modelled(&self, version: Version) -> bool {
        self.modelled.is_some_and(|first| version >= first)
    }

    /// Sets the switch.
    pub fn set(&self, features: &mut Features, on: bool) {
        *(self.field)(features) = on;
    }

    /// The switch called `name`.
    pub fn named(name: &str) -> Option<&'static Feature> {
        FEATURES.iter().find(|feature| feature.name == name)
    }
}

macro_rules! features {
    ($($field:ident $name:literal $since:tt $(..= $until:tt)? $(also $backports:tt)?
        : $modelled:ident, $description:literal;)*) => {
        /// Switches of `sched/features` by their kernel names. Switches that a version does not
        /// have are `false`.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Features {
            $(#[doc = $description] pub $field: bool,)*
        }

        /// Every switch of any version.
        pub static FEATURES: &[Feature] = &[$(Feature {
            name: $name,
            since: features!(@version $since),
            until: features!(@until $($until)?),
            backports: features!(@backports $($backports)?),
            modelled: features!(@$modelled),
            field: |features| &mut features.$field,
        },)*];
    };
    (@version ($major:literal, $minor:literal)) => { Version::new($major, $minor) };
    (@until) => { None };
    (@until $until:tt) => { Some(features!(@version $until)) };
    (@backports) => { &[] };
    (@backports $backports:tt) => { &$backports };
    (@modelled) => { Some(OLDEST) };
    (@modelled_from_7_1) => { Some(Version::new(7, 1)) };
    (@diagnostic) => { Some(OLDEST) };
    (@unmodelled) => { None };
}

features! {
    gentle_fair_sleepers "GENTLE_FAIR_SLEEPERS" (4, 5) ..= (6, 5): modelled,
        "Sleepers get half the latency as credit instead of all of it.";
    start_debit "START_DEBIT" (4, 5) ..= (6, 5): modelled,
        "New tasks start one slice late.";
    next_buddy "NEXT_BUDDY" (4, 5): modelled,
        "The task woken last is preferred at the next pick.";
    last_buddy "LAST_BUDDY" (4, 5) ..= (6, 5): modelled,
        "The task preempted last is preferred at the next pick.";
    pick_buddy "PICK_BUDDY" (6, 14) also [(6, 12, 13)]: modelled,
        "Picks honour buddies while they are eligible.";
    cache_hot_buddy "CACHE_HOT_BUDDY" (4, 5): modelled,
        "Buddies count as cache hot in load balance.";
    wakeup_preemption "WAKEUP_PREEMPTION" (4, 5): modelled,
        "Woken tasks may preempt.";
    alt_period "ALT_PERIOD" (5, 13) ..= (6, 5) also [(5, 10, 36)]: modelled,
        "The period depends on all tasks of the CPU, not on those of the queue.";
    base_slice "BASE_SLICE" (5, 13) ..= (6, 5) also [(5, 10, 36)]: modelled,
        "No slice is shorter than the minimum granularity.";
    place_lag "PLACE_LAG" (6, 6): modelled,
        "Lag is kept over sleep and migration.";
    place_deadline_initial "PLACE_DEADLINE_INITIAL" (6, 6): modelled,
        "New tasks get half a slice first (from 6.12 on; before, their first enqueue does not ask).";
    place_rel_deadline "PLACE_REL_DEADLINE" (6, 12): modelled,
        "Migrated and changed tasks keep the rest of their request.";
    run_to_parity "RUN_TO_PARITY" (6, 6): modelled,
        "A picked task is protected from preemption for its slice.";
    preempt_short "PREEMPT_SHORT" (6, 12): modelled,
        "A woken task with a shorter slice may break that protection.";
    delay_dequeue "DELAY_DEQUEUE" (6, 12): modelled,
        "A task that sleeps with negative lag stays queued until it is eligible.";
    delay_zero "DELAY_ZERO" (6, 12): modelled,
        "Positive lag gained by delayed dequeue is dropped.";
    paranoid_avg "PARANOID_AVG" (7, 1): unmodelled,
        "A sum of lags that overflows is computed anew with smaller weights.";
    ttwu_queue "TTWU_QUEUE" (4, 5): modelled,
        "Wakeups for another CPU are handed over to it.";
    sis_avg_cpu "SIS_AVG_CPU" (4, 11) ..= (5, 11): modelled,
        "No scan for idle CPUs when the CPU is idle only briefly on average.";
    sis_prop "SIS_PROP" (4, 13) ..= (6, 6): modelled,
        "The scan for idle CPUs is limited in proportion to the average idle time.";
    sis_util "SIS_UTIL" (6, 0): modelled,
        "The scan for idle CPUs is limited by the utilisation of the LLC.";
    wa_idle "WA_IDLE" (4, 14): modelled,
        "Affine wakeups prefer idle CPUs.";
    wa_weight "WA_WEIGHT" (4, 14): modelled,
        "Affine wakeups compare loads.";
    wa_bias "WA_BIAS" (4, 14): modelled,
        "That comparison favours the previous CPU.";
    lb_bias "LB_BIAS" (4, 5) ..= (5, 2): modelled,
        "Loads of the past bias load balance.";
    lb_min "LB_MIN" (4, 5): unmodelled,
        "Load balance leaves small loads alone.";
    ni_random "NI_RANDOM" (6, 19) also [(6, 18, 5), (6, 12, 65), (6, 6, 120), (6, 1, 160)]: modelled,
        "Newly idle balance runs in proportion to its success.";
    ni_rate "NI_RATE" (7, 1): modelled,
        "Newly idle balance that is rare runs more often than its success alone would let it.";
    nontask_capacity "NONTASK_CAPACITY" (4, 5): modelled,
        "Interrupts and stolen time reduce the capacity of a CPU.";
    util_est "UTIL_EST" (4, 17): modelled,
        "Utilisation at the last sleep is remembered.";
    util_est_fastup "UTIL_EST_FASTUP" (5, 5) ..= (6, 7): modelled,
        "That estimate follows increases at once.";
    attach_age_load "ATTACH_AGE_LOAD" (4, 5): modelled,
        "Load is aged before it is attached.";
    rt_push_ipi "RT_PUSH_IPI" (4, 5): modelled,
        "Pulling real-time tasks is done by asking their CPUs to push.";
    rt_runtime_share "RT_RUNTIME_SHARE" (4, 5): modelled,
        "A CPU borrows real-time runtime that others do not use (up to 6.11, or groups of RT tasks).";
    hrtick "HRTICK" (4, 5): modelled_from_7_1,
        "A timer ends slices of the fair class exactly.";
    hrtick_dl "HRTICK_DL" (5, 12): unmodelled,
        "A timer ends slices of the deadline class exactly.";
    // In 6.12.117 and not in 6.16.12; which release between took it away is not known.
    double_tick "DOUBLE_TICK" (4, 5) ..= (6, 15): unmodelled,
        "The tick ends slices even with HRTICK.";
    warn_double_clock "WARN_DOUBLE_CLOCK" (4, 12): diagnostic,
        "Warns of clocks updated twice; changes nothing else.";
    latency_warn "LATENCY_WARN" (5, 13): diagnostic,
        "Warns of long waits for a reschedule; changes nothing else.";
}

impl Features {
    /// Those that are on in the oldest release; what came later is in the table of changes.
    pub(super) fn oldest() -> Self {
        Self {
            gentle_fair_sleepers: true,
            start_debit: true,
            last_buddy: true,
            cache_hot_buddy: true,
            wakeup_preemption: true,
            ttwu_queue: true,
            lb_bias: true,
            nontask_capacity: true,
            attach_age_load: true,
            rt_push_ipi: true,
            rt_runtime_share: true,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn enabled(text: &str) -> Vec<&'static str> {
        let mut features = Rules::of(text.parse().unwrap(), 1, 250).features;
        FEATURES
            .iter()
            .filter(|feature| *(feature.field)(&mut features))
            .map(|feature| feature.name)
            .collect()
    }

    #[test]
    fn defaults_of_6_1_as_released() {
        let expected = "GENTLE_FAIR_SLEEPERS START_DEBIT LAST_BUDDY CACHE_HOT_BUDDY WAKEUP_PREEMPTION \
             ALT_PERIOD BASE_SLICE TTWU_QUEUE SIS_UTIL WA_IDLE WA_WEIGHT WA_BIAS \
             NONTASK_CAPACITY UTIL_EST UTIL_EST_FASTUP ATTACH_AGE_LOAD RT_PUSH_IPI";
        assert_eq!(enabled("6.1").join(" "), expected);
    }

    #[test]
    fn defaults_of_stable_6_12() {
        let expected = "PICK_BUDDY CACHE_HOT_BUDDY WAKEUP_PREEMPTION PLACE_LAG PLACE_DEADLINE_INITIAL \
             PLACE_REL_DEADLINE RUN_TO_PARITY PREEMPT_SHORT DELAY_DEQUEUE DELAY_ZERO \
             TTWU_QUEUE SIS_UTIL WA_IDLE WA_WEIGHT WA_BIAS NI_RANDOM NONTASK_CAPACITY \
             UTIL_EST ATTACH_AGE_LOAD";
        assert_eq!(enabled("6.12.117").join(" "), expected);
        assert!(!enabled("6.12").contains(&"NI_RANDOM"));
        // Off without PREEMPT_RT in later stable releases.
        assert!(
            enabled("6.12").contains(&"RT_PUSH_IPI") && enabled("6.1").contains(&"RT_PUSH_IPI")
        );
        for (last, first) in [("6.18.38", "6.18.39"), ("6.1.177", "6.1.192")] {
            assert!(enabled(last).contains(&"RT_PUSH_IPI"), "{last}");
            assert!(!enabled(first).contains(&"RT_PUSH_IPI"), "{first}");
        }
    }

    #[test]
    fn no_version_has_a_switch_on_that_it_does_not_have() {
        for feature in FEATURES {
            for version in Version::releases() {
                let on = feature.default_in(version);
                assert!(
                    !on || feature.exists(version),
                    "{} in {version}",
                    feature.name
                );
            }
        }
    }

    #[test]
    fn switches_are_those_of_the_releases_that_have_them() {
        let exists = |name: &str, version: &str| {
            Feature::named(name)
                .unwrap()
                .exists(version.parse().unwrap())
        };
        for name in ["ALT_PERIOD", "BASE_SLICE"] {
            assert!(!exists(name, "5.10.35") && exists(name, "5.10.223") && !exists(name, "5.12"));
        }
        assert!(exists("RT_RUNTIME_SHARE", "7.3.4"));
        assert!(exists("PARANOID_AVG", "7.1") && !exists("PARANOID_AVG", "6.18"));
    }

    /// Skipped, saying so, where there are no trees.
    #[test]
    fn every_switch_of_a_tree_is_known_for_its_release() {
        let Some(folder) = std::env::var_os("SCHEDCAST_TREES") else {
            eprintln!("skipped: SCHEDCAST_TREES names no folder of trees");
            return;
        };
        for tree in std::fs::read_dir(folder).unwrap().flatten() {
            let name = tree.file_name().to_string_lossy().into_owned();
            let Some(Ok(version)) = name.strip_prefix("linux-").map(str::parse::<Version>) else {
                continue;
            };
            let file = tree.path().join("kernel/sched/features.h");
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let there = |line: &str| {
                let (name, _) = line.strip_prefix("SCHED_FEAT(")?.split_once(',')?;
                Some(name.to_owned())
            };
            let there: BTreeSet<String> = text.lines().filter_map(there).collect();
            let known = FEATURES.iter().filter(|feature| feature.exists(version));
            let known: BTreeSet<String> = known.map(|feature| feature.name.to_owned()).collect();
            assert_eq!(known, there, "{name}");
        }
    }

    #[test]
    fn switches_come_and_go() {
        let sis_prop = Feature::named("SIS_PROP").unwrap();
        let exists = |text: &str| sis_prop.exists(text.parse().unwrap());
        assert!(!exists("4.12") && exists("4.13") && exists("6.6.90") && !exists("6.7"));
        assert!(enabled("5.19").contains(&"SIS_PROP") && !enabled("6.0").contains(&"SIS_PROP"));
        assert!(enabled("4.19").contains(&"LB_BIAS") && !enabled("4.20").contains(&"LB_BIAS"));
    }
}
