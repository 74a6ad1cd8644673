//! The settings of groups in which a column differs from the recording: how they are written, and
//! how they are told.
//!
//! Worked example: a column gives `/par/web` no limit and its parent `/par` 80 instead of 40 ms in
//! 100 ms. Both are one answer, and whoever writes one of them gets another:
//!
//! ```text
//! echo 80000 > /sys/fs/cgroup/cpu/par/cpu.cfs_quota_us; echo -1 > cpu.cfs_quota_us
//! ```
//!
//! Files without a folder are those of the target. Folders of other groups are where systemd and
//! the documentation of the kernel mount the hierarchies.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use schedcast_base::groups::is_within;
use schedcast_base::limits::weight_from_shares;

use crate::experiment::Scenario;
use crate::experiment::cgroup::{CgroupSettings, CgroupVersion, Weight, limit_commands};
use crate::experiment::units::quote_word;
use schedcast_base::limits::CpuLimits;

/// One group that a column changes.
pub(crate) struct Change<'a> {
    /// Its path.
    pub path: &'a str,
    before: CgroupSettings,
    after: &'a CgroupSettings,
}

/// The groups that `scenario` changes, in the order of their paths.
pub(crate) fn changes<'a>(recorded: &Scenario, scenario: &'a Scenario) -> Vec<Change<'a>> {
    let groups = scenario.cgroups.iter();
    let change = groups.filter_map(|(path, after)| {
        let mut before = recorded.cgroups.get(path).cloned().unwrap_or_default();
        // These place the periods of a run; nobody writes them to a group.
        before.any_phase = after.any_phase;
        before.period_phase_ns = after.period_phase_ns;
        (before != *after).then_some(Change {
            path,
            before,
            after,
        })
    });
    change.collect()
}

/// The groups other than `target` in which any of `scenarios` differs from the first.
pub(crate) fn changed_groups(scenarios: &[Scenario], target: &str) -> Vec<String> {
    let Some((recorded, others)) = scenarios.split_first() else {
        return Vec::new();
    };
    let changes = others.iter().flat_map(|other| changes(recorded, other));
    let paths = changes.map(|change| change.path.to_string());
    let paths: BTreeSet<String> = paths.filter(|path| path != target).collect();
    paths.into_iter().collect()
}

impl Change<'_> {
    pub(crate) fn limits(&self) -> [CpuLimits; 2] {
        [&self.before, self.after].map(|settings| settings.limits)
    }

    fn changes_limit(&self) -> bool {
        self.limits()[0] != self.limits()[1]
    }

    /// Files other than those of the limit, each with its new value, in an order that the kernel
    /// takes: a group whose `cpu.idle` is 1 refuses a weight.
    fn other_files(&self, scenario: &Scenario) -> Vec<(&'static str, String)> {
        let (before, after) = (&self.before, self.after);
        let mut files = Vec::new();
        if before.idle != after.idle {
            files.push(("cpu.idle", u8::from(after.idle).to_string()));
        }
        if before.weight != after.weight && !after.idle {
            files.push(weight_file(scenario.cgroup_version, after));
        }
        let clamps = [
            ("cpu.uclamp.min", before.clamps.min, after.clamps.min),
            ("cpu.uclamp.max", before.clamps.max, after.clamps.max),
        ];
        for (file, _, clamp) in clamps.into_iter().filter(|(_, old, new)| old != new) {
            files.push((file, CgroupSettings::clamp_percent(clamp)));
        }
        if before.cpus != after.cpus {
            files.push(("cpuset.cpus", cpus_of(scenario, self.path)));
        }
        files
    }

    /// The new settings in words: `80 ms in 100 ms = 0.8 CPU = 800m, cpu.weight 200`.
    fn in_words(&self, scenario: &Scenario) -> String {
        let is_bounded = || scenario.limits_above(self.path).is_some();
        let limit = self.changes_limit().then(|| match self.limits()[1] {
            after if after.quota_us.is_none() && is_bounded() => "no limit of its own".to_string(),
            after => after.in_words(),
        });
        let files = self.other_files(scenario).into_iter();
        let files = files.map(|(file, value)| format!("{file} {value}"));
        limit
            .into_iter()
            .chain(files)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Shell commands that make the change, for a shell in the directory of `target`.
    fn commands(&self, scenario: &Scenario, target: &str) -> Vec<String> {
        let version = scenario.cgroup_version;
        let limit = limit_commands(version, self.before.limits, self.after.limits);
        let others = self.other_files(scenario).into_iter();
        let others = others.map(|(file, value)| format!("echo {value} > {file}"));
        let at = |command: String| match command.split_once(" > ") {
            Some((echo, file)) if self.path != target || is_elsewhere(version, file) => {
                format!("{echo} > {}", quote_word(&full(version, self.path, file)))
            }
            _ => command,
        };
        limit.into_iter().chain(others).map(at).collect()
    }
}

/// Whether a file is in another directory than those of the cpu controller.
fn is_elsewhere(version: CgroupVersion, file: &str) -> bool {
    version == CgroupVersion::V1 && file.starts_with("cpuset.")
}

/// A file of a group where its hierarchy is usually mounted.
fn full(version: CgroupVersion, path: &str, file: &str) -> String {
    let hierarchy = match version {
        CgroupVersion::V2 => "",
        CgroupVersion::V1 if is_elsewhere(version, file) => "/cpuset",
        CgroupVersion::V1 => "/cpu",
    };
    format!("/sys/fs/cgroup{hierarchy}{path}/{file}")
}

/// The file of the weight and its value, in the words of `version`.
fn weight_file(version: CgroupVersion, settings: &CgroupSettings) -> (&'static str, String) {
    match (version, settings.weight) {
        (CgroupVersion::V1, _) => ("cpu.shares", settings.shares().to_string()),
        (CgroupVersion::V2, Weight::Weight(weight)) => ("cpu.weight", weight.to_string()),
        (CgroupVersion::V2, Weight::Nice(nice)) => ("cpu.weight.nice", nice.to_string()),
        (CgroupVersion::V2, Weight::Shares(shares)) => {
            ("cpu.weight", weight_from_shares(shares).to_string())
        }
    }
}

/// CPUs that the group may use: its own, else those of the nearest group above that names some.
fn cpus_of(scenario: &Scenario, path: &str) -> String {
    let named = scenario
        .cgroups
        .iter()
        .filter(|(at, _)| is_within(path, at));
    let named = named.filter_map(|(at, group)| Some((at.len(), group.cpus.as_ref()?)));
    let nearest = named.max_by_key(|(length, _)| *length);
    match (nearest, scenario.machine.cpus()) {
        (Some((_, cpus)), _) => cpus.to_string(),
        (None, 1) => "0".to_string(),
        (None, count) => format!("0-{}", count - 1),
    }
}

/// All commands that `scenario` takes, for a shell in the directory of `target`. Limits that grant
/// less are written first, those inside before those around; then the others, from the outside in:
/// so cgroup v1, which refuses a child that does not fit into its parent, takes them at every step.
pub(crate) fn commands(recorded: &Scenario, scenario: &Scenario, target: &str) -> Vec<String> {
    let (mut less, mut more): (Vec<_>, Vec<_>) = changes(recorded, scenario)
        .into_iter()
        .partition(|change| change.limits()[1].grants() < change.limits()[0].grants());
    less.sort_by_key(|change| Reverse(change.path.len()));
    more.sort_by_key(|change| change.path.len());
    let all = less.iter().chain(&more);
    all.flat_map(|change| change.commands(scenario, target))
        .collect()
}

/// Whether the limit of `target` is all that `scenario` changes of the groups.
pub(crate) fn is_limit_of(recorded: &Scenario, scenario: &Scenario, target: &str) -> bool {
    let changes = changes(recorded, scenario);
    let alone =
        |change: &Change<'_>| change.path == target && change.other_files(scenario).is_empty();
    !changes.is_empty() && changes.iter().all(alone)
}

/// The changes of `scenario` in words: of the target its settings alone, of other groups with the
/// name that `named` gives them.
pub(crate) fn in_words(
    recorded: &Scenario,
    scenario: &Scenario,
    target: &str,
    named: &dyn Fn(&str) -> String,
) -> String {
    let changes = changes(recorded, scenario);
    let (own, others): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.path == target);
    let own = own.into_iter().map(|change| change.in_words(scenario));
    let others = others
        .into_iter()
        .map(|change| format!("{} with {}", named(change.path), change.in_words(scenario)));
    own.chain(others).collect::<Vec<_>>().join(", and ")
}

/// CPU time, and burst, that the changed groups of `scenario` are granted in a million µs more
/// than in the recording. A group without a limit is granted what the limits above it leave, else
/// all CPUs. What a group beside the target is granted less is no gain: it pays for that.
pub(crate) fn cost(recorded: &Scenario, scenario: &Scenario, target: &str) -> (i64, i64) {
    let mut cost = (0, 0);
    for change in changes(recorded, scenario) {
        let [before, after] = [recorded, scenario].map(|one| granted(one, change.path));
        let on_the_way = is_within(target, change.path);
        let of = |more: i64| if on_the_way { more } else { more.max(0) };
        cost.0 += of(after.0 - before.0);
        cost.1 += of(after.1 - before.1);
    }
    cost
}

fn granted(scenario: &Scenario, path: &str) -> (i64, i64) {
    let own = scenario.limits_of(path);
    let all_cpus = scenario.machine.cpus() as i64 * 1_000_000;
    let quota = match own.quota_us {
        Some(_) => own.grants().0 as i64,
        None => scenario
            .limits_above(path)
            .map_or(all_cpus, |(_, limit)| limit.grants().0 as i64),
    };
    (quota, own.grants().1 as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment;

    const NESTED: &str = "[cgroup.\"/par\"]\n\"cpu.cfs_quota_us\" = 40000\n\
        [cgroup.\"/par/web\"]\n\"cpu.cfs_quota_us\" = 25000\n\
        [cgroup.\"/par/bat\"]\n";

    fn scenarios(variant: &str) -> Vec<Scenario> {
        let text =
            format!("{NESTED}[[variant]]\nname = \"now\"\n[[variant]]\nname = \"x\"\n{variant}");
        let experiment = experiment::read_text("t.toml", &text);
        experiment.unwrap().scenarios
    }

    fn applied(variant: &str) -> String {
        let scenarios = scenarios(variant);
        commands(&scenarios[0], &scenarios[1], "/par/web").join("; ")
    }

    #[test]
    fn every_group_that_a_column_changes_is_written() {
        let parent = "cgroup.\"/par\".\"cpu.cfs_quota_us\" = 80000\n";
        let own = "cgroup.\"/par/web\".\"cpu.cfs_quota_us\" = -1\n";
        let of_parent = "echo 80000 > /sys/fs/cgroup/cpu/par/cpu.cfs_quota_us";
        assert_eq!(applied(own), "echo -1 > cpu.cfs_quota_us");
        assert_eq!(applied(parent), of_parent);
        assert_eq!(
            applied(&format!("{parent}{own}")),
            format!("{of_parent}; echo -1 > cpu.cfs_quota_us")
        );
    }

    #[test]
    fn v1_takes_the_commands_in_their_order() {
        let less = "cgroup.\"/par\".\"cpu.cfs_quota_us\" = 20000\n\
            cgroup.\"/par/web\".\"cpu.cfs_quota_us\" = 10000\n";
        assert_eq!(
            applied(less),
            "echo 10000 > cpu.cfs_quota_us; \
             echo 20000 > /sys/fs/cgroup/cpu/par/cpu.cfs_quota_us"
        );
    }

    #[test]
    fn weights_and_cpus_are_written_too() {
        let other = "cgroup.\"/par/web\".\"cpu.shares\" = 2048\n\
            cgroup.\"/par/web\".\"cpuset.cpus\" = \"0\"\n\
            cgroup.\"/par/bat\".\"cpu.shares\" = 102\n";
        assert_eq!(
            applied(other),
            "echo 102 > /sys/fs/cgroup/cpu/par/bat/cpu.shares; echo 2048 > cpu.shares; \
             echo 0 > /sys/fs/cgroup/cpuset/par/web/cpuset.cpus"
        );
    }

    #[test]
    fn a_column_is_told_with_all_its_groups() {
        let parent = "cgroup.\"/par\".\"cpu.cfs_quota_us\" = 80000\n";
        let told = |variant: &str| {
            let scenarios = scenarios(variant);
            in_words(&scenarios[0], &scenarios[1], "/par/web", &str::to_string)
        };
        let of_parent = "/par with 80 ms in 100 ms = 0.8 CPU = 800m";
        assert_eq!(told(parent), of_parent);
        let own = "cgroup.\"/par/web\".\"cpu.cfs_quota_us\" = -1\n";
        assert_eq!(
            told(&format!("{parent}{own}")),
            format!("no limit of its own, and {of_parent}")
        );
    }

    /// A parent is no cheaper than its child; a limit taken away costs what
    /// the parent leaves.
    #[test]
    fn what_other_groups_get_is_counted() {
        let cost = |variant: &str| {
            let scenarios = scenarios(variant);
            cost(&scenarios[0], &scenarios[1], "/par/web").0
        };
        let parent = "cgroup.\"/par\".\"cpu.cfs_quota_us\" = 80000\n";
        let own = "cgroup.\"/par/web\".\"cpu.cfs_quota_us\" = -1\n";
        assert_eq!(cost(parent), 400_000);
        assert_eq!(cost(own), 150_000);
        assert_eq!(cost(&format!("{parent}{own}")), 950_000);
        assert_eq!(cost("cgroup.\"/par/bat\".\"cpu.shares\" = 102\n"), 0);
        let sibling = "cgroup.\"/par/bat\".\"cpu.cfs_quota_us\" = 10000\n";
        assert_eq!(cost(sibling), 0);
    }
}
