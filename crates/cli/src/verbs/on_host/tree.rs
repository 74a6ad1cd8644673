//! The groups of a variant on this host.

use std::collections::BTreeMap;

use schedcast_base::cpu_stat::CpuStat;
use schedcast_base::limits::{self, CpuLimits};
use schedcast_host::{CpuCgroup, siblings};
use schedcast_lab::error::Result;
use schedcast_lab::experiment::Scenario;
use schedcast_lab::experiment::cgroup::CgroupSettings;
use schedcast_lab::outcome::MetricMap;

/// A fresh group and the variant's groups below it.
pub(super) struct Tree {
    /// By path in the variant; `/` is the fresh group itself.
    groups: BTreeMap<String, CpuCgroup>,
    /// Counters of each group when the programs began, by path.
    before: BTreeMap<String, CpuStat>,
}

impl Tree {
    /// Makes all groups and sets their limits.
    pub(super) fn create(scenario: &Scenario) -> Result<Tree> {
        let name = format!("schedcast-{}", std::process::id());
        let root = CpuCgroup::create("/", &name)?;
        let mut tree = Tree {
            groups: BTreeMap::from([("/".to_owned(), root)]),
            before: BTreeMap::new(),
        };
        // Parents sort before their children.
        for (path, settings) in &scenario.cgroups {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            let parent = if parent.is_empty() { "/" } else { parent };
            let group = tree.groups[parent].create_child(name)?;
            set(&group, settings)?;
            tree.groups.insert(path.clone(), group);
        }
        // Parents have to have a budget before their children.
        for (path, group) in &tree.groups {
            let siblings = match path.as_str() {
                "/" => 1,
                path => siblings(path, scenario.cgroups.keys().map(String::as_str)),
            };
            group.allow_real_time(siblings)?;
        }
        Ok(tree)
    }

    /// The group of a path of the variant.
    pub(super) fn group(&self, path: &str) -> &CpuCgroup {
        self.groups.get(path).unwrap_or(&self.groups["/"])
    }

    /// Starts the window of the counters: what servers used while they started is subtracted later.
    pub(super) fn begin(&mut self) -> Result<()> {
        for (path, group) in &self.groups {
            let stat = group.stat()?;
            self.before.insert(path.clone(), stat);
        }
        Ok(())
    }

    /// Counters of the kernel since [`Tree::begin`], under the groups' paths in the variant.
    pub(super) fn metrics(&self) -> Result<MetricMap> {
        let mut map = MetricMap::new();
        for (path, group) in self.groups.iter().filter(|(path, _)| *path != "/") {
            let stat = group.stat()?;
            let stat = match self.before.get(path) {
                Some(before) => stat.since(before),
                None => stat,
            };
            let counts = [
                ("nr_periods", stat.nr_periods.map(|count| count as f64)),
                ("nr_throttled", stat.nr_throttled.map(|count| count as f64)),
                (
                    "throttled_usec",
                    stat.throttled_ns.map(|ns| ns as f64 / 1e3),
                ),
                ("nr_bursts", stat.nr_bursts.map(|count| count as f64)),
                ("burst_usec", stat.burst_ns.map(|ns| ns as f64 / 1e3)),
                ("usage_usec", stat.usage_ns.map(|ns| ns as f64 / 1e3)),
            ];
            for (file, value) in counts {
                map.extend(value.map(|value| (format!("cgroup:{path}/{file}"), value)));
            }
        }
        Ok(map)
    }

    /// Removes all groups, children first.
    pub(super) fn close(mut self) -> Result<()> {
        while let Some((_, group)) = self.groups.pop_last() {
            group.close()?;
        }
        Ok(())
    }
}

impl Drop for Tree {
    /// Children first here too: a map drops its smallest key first, and a parent with children is
    /// busy.
    fn drop(&mut self) {
        while self.groups.pop_last().is_some() {}
    }
}

fn set(group: &CpuCgroup, settings: &CgroupSettings) -> schedcast_host::Result<()> {
    let limits = CpuLimits {
        quota_us: settings.quota_us,
        period_us: settings.period_us,
        burst_us: settings.burst_us,
    };
    if limits != CpuLimits::default() {
        group.set_limits(&limits)?;
    }
    let plain = CgroupSettings::default();
    if settings.weight != plain.weight {
        let unweighted = CgroupSettings {
            idle: false,
            ..settings.clone()
        };
        let weight = limits::weight_from_shares(unweighted.shares());
        group.apply("cpu.weight", &weight.to_string())?;
    }
    if settings.idle {
        group.apply("cpu.idle", "1")?;
    }
    for (file, value) in settings.clamp_files() {
        group.apply(file, &value)?;
    }
    Ok(())
}
