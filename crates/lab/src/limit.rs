//! The bandwidth limit of one group, as it stands in a scenario and as people say it.
//!
//! Worked example: 67 000 µs in 100 000 µs are `67 ms in 100 ms = 0.67 CPU = 670m`.

use schedcast_base::groups::is_within;

use crate::experiment::Scenario;
use crate::experiment::cgroup::CgroupSettings;

/// Bandwidth limit of one group, µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Limit {
    /// CPU time per period; `None` is no limit.
    pub quota_us: Option<u64>,
    /// The period.
    pub period_us: u64,
    /// Burst: unused runtime that may be carried over, µs.
    pub burst_us: u64,
}

impl Limit {
    /// The limit of `target` in `scenario`.
    pub fn of(scenario: &Scenario, target: &str) -> Limit {
        let settings = scenario.cgroups.get(target).cloned().unwrap_or_default();
        Limit::from(&settings)
    }

    /// The nearest group above `target` that has a limit, and that limit.
    pub fn above<'a>(scenario: &'a Scenario, target: &str) -> Option<(&'a str, Limit)> {
        let groups = scenario.cgroups.iter();
        let above = groups.filter(|(path, group)| {
            group.quota_us.is_some() && *path != target && is_within(target, path)
        });
        let nearest = above.max_by_key(|(path, _)| path.len());
        nearest.map(|(path, group)| (path.as_str(), Limit::from(group)))
    }

    /// Whether `target` or a group above it has a limit.
    pub fn holds(scenario: &Scenario, target: &str) -> bool {
        let own = Limit::of(scenario, target).quota_us;
        own.is_some() || Limit::above(scenario, target).is_some()
    }

    /// `scenario` under the name `name`, with this limit on `target` and its periods where the seed
    /// puts them: what is advised will meet other work than what was recorded.
    pub fn applied(&self, scenario: &Scenario, target: &str, name: &str) -> Scenario {
        let mut scenario = scenario.clone();
        scenario.name = name.to_string();
        if let Some(group) = scenario.cgroups.get_mut(target) {
            group.quota_us = self.quota_us;
            group.period_us = self.period_us;
            group.burst_us = self.burst_us;
            group.any_phase = true;
        }
        scenario
    }

    /// CPU time and burst that it grants in a million µs: what orders limits by how generous they
    /// are.
    pub fn grants(&self) -> (u64, u64) {
        let per_second = |part_us: u64| part_us * 1_000_000 / self.period_us.max(1);
        (
            self.quota_us.map_or(u64::MAX, per_second),
            per_second(self.burst_us),
        )
    }

    /// Whether it grants at any time what `other`, of the same period, grants: it has as much quota
    /// and as much burst, or no quota at all.
    pub fn covers(&self, other: Limit) -> bool {
        let as_much_quota = match (self.quota_us, other.quota_us) {
            (None, _) => return true,
            (Some(mine), Some(others)) => mine >= others,
            (Some(_), None) => false,
        };
        self.period_us == other.period_us && as_much_quota && self.burst_us >= other.burst_us
    }

    /// CPUs' worth of time that it grants at most in the long run.
    pub fn cpus(&self) -> Option<f64> {
        self.quota_us
            .map(|quota_us| quota_us as f64 / self.period_us as f64)
    }

    /// The limit in the units that people type: `67 ms in 100 ms = 0.67 CPU = 670m`.
    pub fn in_words(&self) -> String {
        let Some(quota_us) = self.quota_us else {
            return "no limit".to_string();
        };
        let ms = |us: u64| format!("{} ms", us as f64 / 1000.0);
        let (quota, period) = (ms(quota_us), ms(self.period_us));
        let milli = (quota_us * 1000).div_ceil(self.period_us.max(1));
        let cpus = (quota_us as f64 * 1000.0 / self.period_us.max(1) as f64).round() / 1000.0;
        let burst = match self.burst_us {
            0 => String::new(),
            burst_us => format!(", burst {}", ms(burst_us)),
        };
        format!("{quota} in {period} = {cpus} CPU = {milli}m{burst}")
    }
}

impl From<&CgroupSettings> for Limit {
    fn from(settings: &CgroupSettings) -> Limit {
        Limit {
            quota_us: settings.quota_us,
            period_us: settings.period_us,
            burst_us: settings.burst_us,
        }
    }
}
