//! The bandwidth limits of a scenario's groups.

use schedcast_base::groups::is_within;
use schedcast_base::limits::CpuLimits;

use crate::experiment::Scenario;

impl Scenario {
    /// The limit of `target`; that of a new group if there is no such group.
    pub fn limits_of(&self, target: &str) -> CpuLimits {
        let settings = self.cgroups.get(target);
        settings.map_or_else(CpuLimits::default, |settings| settings.limits)
    }

    /// The nearest group above `target` that has a limit, and that limit.
    pub fn limits_above(&self, target: &str) -> Option<(&str, CpuLimits)> {
        let above = self.cgroups.iter().filter(|(path, group)| {
            group.limits.quota_us.is_some() && *path != target && is_within(target, path)
        });
        let nearest = above.max_by_key(|(path, _)| path.len());
        nearest.map(|(path, group)| (path.as_str(), group.limits))
    }

    /// Whether `target` or a group above it has a limit.
    pub(crate) fn is_limited(&self, target: &str) -> bool {
        self.limits_of(target).quota_us.is_some() || self.limits_above(target).is_some()
    }

    /// This scenario under the name `name`, with `limits` on `target` and its periods where the
    /// seed puts them: what is advised will meet other work than what was recorded.
    pub fn with_limits(&self, target: &str, limits: CpuLimits, name: &str) -> Scenario {
        let mut scenario = self.clone();
        scenario.name = name.to_string();
        if let Some(group) = scenario.cgroups.get_mut(target) {
            group.limits = limits;
            group.any_phase = true;
        }
        scenario
    }
}
