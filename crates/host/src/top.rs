//! Which limited groups of this host are throttled, and how much.
//!
//! Two looks at every group's `cpu.stat` give rates. Worked example: in one second a group with
//! `cpu.max 20000 100000` counted 10 periods, 9 of them throttled, 0.8 s of throttled time and
//! 0.2 s of CPU time: 90 % of its periods are throttled, it uses 0.20 of the 0.20 CPUs that it may,
//! and 0.8 of its CPUs' seconds are lost each second.
//!
//! The kernel counts a period only while the group is active, so the share is one of active
//! periods, and a group that slept has none.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::cgroup::read_limits;
use crate::error::Result;
use crate::groups::{GroupNames, Groups};
use crate::hierarchy::{Beside, CgroupVersion, CpuHierarchy};
use crate::stat::read_cpu_stat;
use crate::sys;
use schedcast_base::cpu_stat::CpuStat;
use schedcast_base::limits::CpuLimits;

/// The counters of all groups at one moment.
#[derive(Clone, Debug)]
pub struct Look {
    at_ns: u64,
    groups: Groups,
    counted: BTreeMap<String, Counted>,
}

/// Limits and counters of one group.
#[derive(Clone, Debug)]
struct Counted {
    limits: CpuLimits,
    stat: CpuStat,
    usage_ns: Option<u64>,
}

/// Counters of one group between two looks.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its path.
    pub path: String,
    /// Names of the group.
    pub names: GroupNames,
    /// The name people know, or the path.
    pub label: String,
    /// The first process in it or below it.
    pub command: Option<String>,
    /// Its limit.
    pub limits: CpuLimits,
    /// Active periods.
    pub nr_periods: u64,
    /// Throttled ones of them.
    pub nr_throttled: u64,
    /// Throttled time, added up over CPUs.
    pub throttled_ns: u64,
    /// CPU time used, where it is counted.
    pub usage_ns: Option<u64>,
}

impl Row {
    /// Share of the active periods that were throttled; `None` where none was active.
    pub(crate) fn throttled_share(&self) -> Option<f64> {
        (self.nr_periods > 0).then(|| self.nr_throttled as f64 / self.nr_periods as f64)
    }

    /// CPUs that the limit grants; `None` without one.
    pub(crate) fn cpus_allowed(&self) -> Option<f64> {
        let quota_us = self.limits.quota_us?;
        Some(quota_us as f64 / self.limits.period_us as f64)
    }
}

/// Counters of all groups between two looks.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Time between the looks.
    pub interval_ns: u64,
    /// Version of the cgroup files.
    pub cgroup_version: u32,
    /// Groups, the one with the largest share of throttled periods first.
    pub rows: Vec<Row>,
}

impl Look {
    /// Reads all groups of this host; `root` is `/`, but for tests.
    ///
    /// # Errors
    /// The hierarchy cannot be listed.
    pub fn take(hierarchy: &CpuHierarchy, root: &Path) -> Result<Look> {
        let groups = Groups::read(hierarchy, root)?;
        let accounting = hierarchy.accounting();
        let mut counted = BTreeMap::new();
        for group in groups.all() {
            if let Some(one) = count(hierarchy, accounting.as_ref(), &group.path) {
                counted.insert(group.path.clone(), one);
            }
        }
        Ok(Look {
            at_ns: sys::monotonic_ns(),
            groups,
            counted,
        })
    }

    /// Counters since `earlier`: of groups with a limit, or of all groups if `all`. A group that is
    /// new counts from its beginning.
    pub fn since(&self, earlier: &Look, version: CgroupVersion, all: bool) -> Table {
        let mut rows: Vec<Row> = self
            .counted
            .iter()
            .filter(|(path, now)| now.limits.quota_us.is_some() || (all && *path != "/"))
            .map(|(path, now)| self.row(path, now, earlier.counted.get(path)))
            .collect();
        let rank = |row: &Row| (row.throttled_share().unwrap_or(-1.0), row.throttled_ns);
        rows.sort_by(|one, other| {
            let (one_rank, other_rank) = (rank(one), rank(other));
            other_rank
                .0
                .total_cmp(&one_rank.0)
                .then(other_rank.1.cmp(&one_rank.1))
                .then(other.usage_ns.cmp(&one.usage_ns))
                .then(one.path.cmp(&other.path))
        });
        Table {
            interval_ns: self.at_ns - earlier.at_ns,
            cgroup_version: match version {
                CgroupVersion::V1 => 1,
                CgroupVersion::V2 => 2,
            },
            rows,
        }
    }

    fn row(&self, path: &str, now: &Counted, then: Option<&Counted>) -> Row {
        let grown = match then {
            Some(then) => now.stat.since(&then.stat),
            None => now.stat,
        };
        let used_before_ns = then.map_or(Some(0), |then| then.usage_ns);
        let used_ns = now.usage_ns.zip(used_before_ns);
        let group = self.groups.all().iter().find(|group| group.path == path);
        Row {
            path: path.to_owned(),
            names: group.map(|group| group.names.clone()).unwrap_or_default(),
            label: self.groups.label(path).unwrap_or_else(|| path.to_owned()),
            command: self.groups.first_command(path),
            limits: now.limits,
            nr_periods: grown.nr_periods.unwrap_or(0),
            nr_throttled: grown.nr_throttled.unwrap_or(0),
            throttled_ns: grown.throttled_ns.unwrap_or(0),
            usage_ns: used_ns.map(|(now_ns, then_ns)| now_ns.saturating_sub(then_ns)),
        }
    }
}

/// `None` for a group without bandwidth control, such as the root of version 2, and for one that
/// went away.
fn count(hierarchy: &CpuHierarchy, accounting: Option<&Beside>, path: &str) -> Option<Counted> {
    let dir = hierarchy.dir(path);
    let limits = read_limits(hierarchy.version(), &dir).ok()?;
    let file = dir.join("cpu.stat");
    let text = std::fs::read_to_string(&file).ok()?;
    let stat = read_cpu_stat(&text, &file).ok()?;
    let accounted = || -> Option<u64> {
        let text = std::fs::read_to_string(accounting?.usage_file(path)?).ok()?;
        text.trim().parse().ok()
    };
    Some(Counted {
        limits,
        usage_ns: stat.usage_ns.or_else(accounted),
        stat,
    })
}

impl Table {
    /// The table for programs, `schedcast.top/1`.
    pub fn json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "name": row.label,
                "cgroup": row.path,
                "names": row.names,
                "command": row.command,
                "quota_us": row.limits.quota_us,
                "period_us": row.limits.period_us,
                "burst_us": row.limits.burst_us,
                "nr_periods": row.nr_periods,
                "nr_throttled": row.nr_throttled,
                "throttled_ratio": row.throttled_share(),
                "throttled_ms": row.throttled_ns as f64 / 1e6,
                "usage_ms": row.usage_ns.map(|ns| ns as f64 / 1e6),
            })
        };
        json!({
            "schema": "schedcast.top/1",
            "interval_s": self.interval_ns as f64 / 1e9,
            "cgroup_version": self.cgroup_version,
            "groups": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// The table for people, at most `most` groups of it.
    pub fn text(&self, most: usize) -> String {
        let seconds = self.interval_ns as f64 / 1e9;
        let mut text = format!(
            "{:>9}  {:>10}  {:>9}  {:>9}  {:<16}  GROUP\n",
            "THROTTLED", "LOST", "CPUS USED", "ALLOWED", "COMMAND"
        );
        for row in self.rows.iter().take(most) {
            let share = match row.throttled_share() {
                Some(share) => format!("{:.0} %", share * 100.0),
                None => "idle".to_owned(),
            };
            let per_second = |ns: u64| ns as f64 / 1e9 / seconds.max(1e-9);
            let lost = format!("{:.0} ms/s", per_second(row.throttled_ns) * 1000.0);
            let used = row.usage_ns.map(per_second);
            let cpus = |cpus: Option<f64>| cpus.map_or("-".to_owned(), |cpus| format!("{cpus:.2}"));
            text += &format!(
                "{share:>9}  {lost:>10}  {:>9}  {:>9}  {:<16}  {}\n",
                cpus(used),
                cpus(row.cpus_allowed()),
                row.command.as_deref().unwrap_or("-"),
                row.label
            );
        }
        match self.rows.len() {
            0 => text += "no group of this host has a CPU limit; --all shows the others\n",
            many if many > most => text += &format!("… and {} more\n", many - most),
            _ => {}
        }
        text
    }

    /// How the first throttled group is recorded, if one is throttled.
    pub fn next(&self) -> Option<String> {
        let first = self.rows.first().filter(|row| row.nr_throttled > 0)?;
        let names_alone = |flag: &String| {
            let same = self
                .rows
                .iter()
                .filter(|row| row.names.flag().as_ref() == Some(flag));
            same.count() == 1
        };
        let flag = first.names.flag().filter(names_alone);
        let flag = flag.unwrap_or_else(|| format!("--cgroup {}", first.path));
        Some(format!(
            "schedcast record -o recording {flag} --duration 30s"
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use schedcast_base::assert_contains;

    /// A group with this limit and these counters: periods, throttled ones, throttled and used time
    /// in µs.
    fn group(root: &Path, path: &str, max: &str, [periods, throttled, lost, used]: [u64; 4]) {
        let mut dir = root.to_owned();
        for part in path.split('/') {
            dir = dir.join(part);
            fs::create_dir_all(&dir).unwrap();
            if !dir.join("cgroup.procs").exists() {
                fs::write(dir.join("cgroup.procs"), "").unwrap();
            }
        }
        fs::write(dir.join("cpu.max"), max).unwrap();
        let periods = format!("nr_periods {periods}\nnr_throttled {throttled}");
        let stat = format!("usage_usec {used}\n{periods}\nthrottled_usec {lost}\n");
        fs::write(dir.join("cpu.stat"), stat).unwrap();
    }

    #[test]
    fn groups_with_limits_are_ordered_by_the_share_of_throttled_periods() {
        let root = tempfile::tempdir().unwrap();
        let cgroups = root.path().join("cgroup");
        let uid = "3f096c1e-0d1b-4c57-9a3f-5b1f0a6e2d11";
        let app = format!("kubepods/burstable/pod{uid}/{:0<64}", "aa");
        let write = |late: u64| {
            group(&cgroups, "free", "max 100000", [0, 0, 0, late * 700_000]);
            let busy = [7 + late * 10, late * 2, late * 9, 0];
            group(&cgroups, "busy", "50000 100000", busy);
            let held_back = [10, 9, 800_000, 200_000].map(|count| late * count);
            group(&cgroups, &app, "20000 100000", held_back);
            group(&cgroups, "asleep", "50000 100000", [5, 5, 5, 5]);
        };
        fs::create_dir_all(root.path().join(format!("var/log/pods/shop_web-0_{uid}"))).unwrap();
        let hierarchy = CpuHierarchy::at(CgroupVersion::V2, &cgroups);
        write(0);
        let mut earlier = Look::take(&hierarchy, root.path()).unwrap();
        write(1);
        let mut now = Look::take(&hierarchy, root.path()).unwrap();
        (earlier.at_ns, now.at_ns) = (5_000_000_000, 6_000_000_000);
        let table = now.since(&earlier, CgroupVersion::V2, false);
        let label = format!("shop/web-0/aa{}", "0".repeat(10));
        let expected = [(&*label, 10, 9), ("/busy", 10, 2), ("/asleep", 0, 0)];
        let rows = table.rows.iter();
        assert!(
            rows.map(|row| (&*row.label, row.nr_periods, row.nr_throttled))
                .eq(expected)
        );
        let text = table.text(2);
        let first: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(
            first.join(" "),
            format!("90 % 800 ms/s 0.20 0.20 - {label}")
        );
        assert!(text.ends_with("… and 1 more\n"), "{text}");
        let next = "schedcast record -o recording --container aa0000000000 --duration 30s";
        assert_eq!(table.next().unwrap(), next);
        let json = table.json();
        assert_eq!(json["groups"][0]["throttled_ratio"], 0.9);
        assert_eq!(json["groups"][0]["names"]["pod"], "shop/web-0");
        assert_eq!(json["groups"][2]["throttled_ratio"], Value::Null);
        let all = now.since(&earlier, CgroupVersion::V2, true);
        let free = all.rows.iter().find(|row| row.path == "/free");
        assert_eq!(free.unwrap().usage_ns, Some(700_000_000));
    }

    #[test]
    fn a_host_without_limits_says_so() {
        let root = tempfile::tempdir().unwrap();
        let cgroups = root.path().join("cgroup");
        group(&cgroups, "free", "max 100000", [0; 4]);
        let hierarchy = CpuHierarchy::at(CgroupVersion::V2, &cgroups);
        let look = Look::take(&hierarchy, root.path()).unwrap();
        let table = look.since(&look, CgroupVersion::V2, false);
        assert_contains(table.text(9), "no group of this host has a CPU limit");
        assert_eq!(table.next(), None);
    }
}
