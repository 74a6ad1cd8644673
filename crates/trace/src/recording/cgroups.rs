//! `cgroups.json`: the cpu cgroups before and after the recording, with their files and their
//! member threads.
//!
//! Files are kept as the kernel prints them. [`Cgroup::bandwidth`], [`Cgroup::weight`] and
//! [`Cgroup::stat`] read both interfaces into one form:
//!
//! | | v1 | v2 |
//! |---|---|---|
//! | bandwidth | `cpu.cfs_quota_us` 50000, `cpu.cfs_period_us` 100000 | `cpu.max` `50000 100000` |
//! | no limit | `cpu.cfs_quota_us` -1 | `cpu.max` `max 100000` |
//! | burst | `cpu.cfs_burst_us` | `cpu.max.burst` |
//! | weight | `cpu.shares` 1024 | `cpu.weight` 100 |
//! | statistics | `throttled_time` in ns | `throttled_usec` in µs |

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use schedcast_base::cpu_list::{CpuList, NR_CPUS_MAX, Stride};
use schedcast_base::cpu_stat::{self, CpuStat, Refused};
use schedcast_base::limits::{CpuLimits, PERIOD_US, QUOTA_MAX_US};
use schedcast_base::rows;

use crate::error::unknown_name;
use crate::event::Pid;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CgroupsFile {
    pub(super) before: CgroupTree,
    pub(super) after: Option<CgroupTree>,
}

/// All cpu cgroups at one moment, by path (`/` is the root).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupTree {
    groups: BTreeMap<String, Cgroup>,
}

impl CgroupTree {
    /// The group at `path`.
    pub fn get(&self, path: &str) -> Option<&Cgroup> {
        self.groups.get(path)
    }

    /// All groups, parents before their children.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Cgroup)> {
        self.groups
            .iter()
            .map(|(path, group)| (path.as_str(), group))
    }

    /// All paths, parents before their children.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(String::as_str)
    }

    /// Leaves a file out of every group.
    pub fn forget(&mut self, file: &str) {
        for group in self.groups.values_mut() {
            group.files.remove(file);
        }
    }

    /// The group that a thread is in; of several (it moved while they were read) the last path.
    pub fn group_of(&self, pid: Pid) -> Option<&str> {
        self.iter()
            .filter(|(_, group)| group.tasks.contains(&pid))
            .last()
            .map(|(path, _)| path)
    }
}

/// One cgroup at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cgroup {
    /// Content of its files by name, without the last newline.
    pub files: BTreeMap<String, String>,
    /// Ids of its member threads.
    pub tasks: Vec<Pid>,
}

/// Share of a group among its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// `cpu.shares` of v1; 1024 is usual.
    Shares(u64),
    /// `cpu.weight` of v2; 100 is usual.
    Weight(u64),
}

impl Cgroup {
    /// The group's bandwidth; `None` if it has no such files (a root of v2).
    ///
    /// # Errors
    /// If a file does not hold what the kernel prints there; the message names file and content.
    pub fn bandwidth(&self) -> Result<Option<CpuLimits>, String> {
        let (quota_us, period_us, burst) = if let Some(text) = self.files.get("cpu.max") {
            let (quota_us, period_us) = cpu_max(text)?;
            (quota_us, period_us, "cpu.max.burst")
        } else if let Some(text) = self.files.get("cpu.cfs_quota_us") {
            let Some(period_us) = self.number("cpu.cfs_period_us")? else {
                return Err("`cpu.cfs_quota_us` is there, but not `cpu.cfs_period_us`".to_owned());
            };
            (cfs_quota(text)?, period_us, "cpu.cfs_burst_us")
        } else {
            return Ok(None);
        };
        let burst_us = self.number(burst)?.unwrap_or(0);
        if !PERIOD_US.contains(&period_us) {
            return Err(format!(
                "expected a period of 1000 to 1000000 µs, as the kernel allows, found {period_us}"
            ));
        }
        if let Some(far) = quota_us
            .into_iter()
            .chain([burst_us])
            .find(|us| *us > QUOTA_MAX_US)
        {
            return Err(format!(
                "expected a quota and a burst below 2^44 µs, as the kernel allows, found {far}"
            ));
        }
        Ok(Some(CpuLimits {
            quota_us,
            period_us,
            burst_us,
        }))
    }

    /// The group's weight; `None` if it has no such file.
    ///
    /// # Errors
    /// If the file does not hold a number.
    pub fn weight(&self) -> Result<Option<Weight>, String> {
        match self.number("cpu.weight")? {
            Some(weight) => Ok(Some(Weight::Weight(weight))),
            None => Ok(self.number("cpu.shares")?.map(Weight::Shares)),
        }
    }

    /// Whether the group is SCHED_IDLE (`cpu.idle`); `None` if it has no such file.
    ///
    /// # Errors
    /// If the file holds neither 0 nor 1.
    pub fn is_idle(&self) -> Result<Option<bool>, String> {
        self.files
            .get("cpu.idle")
            .map(|text| cpu_idle(text))
            .transpose()
    }

    /// The group's statistics; `None` if it has no `cpu.stat`. Version 1 has the CPU time in
    /// `cpuacct.usage`.
    ///
    /// # Errors
    /// If a line is not `NAME NUMBER` with a name that some kernel prints.
    pub fn stat(&self) -> Result<Option<CpuStat>, String> {
        let Some(text) = self.files.get("cpu.stat") else {
            return Ok(None);
        };
        let mut stat = cpu_stat(text)?;
        if stat.usage_ns.is_none() {
            stat.usage_ns = self.number("cpuacct.usage")?;
        }
        Ok(Some(stat))
    }

    /// CPUs that its cpuset leaves it; `None` where no file tells.
    ///
    /// # Errors
    /// If the file does not hold a list of CPUs.
    pub fn cpus(&self) -> Result<Option<CpuList>, String> {
        let names = [
            "cpuset.cpus.effective",
            "cpuset.effective_cpus",
            "cpuset.cpus",
        ];
        let files = names
            .into_iter()
            .filter_map(|name| Some((name, self.files.get(name)?)));
        // An empty one is that of the parent.
        let mut told = files.filter(|(_, text)| !text.trim().is_empty());
        told.next()
            .map(|(name, text)| cpu_list(name, text))
            .transpose()
    }

    fn number(&self, file: &str) -> Result<Option<u64>, String> {
        self.files
            .get(file)
            .map(|text| number(file, text))
            .transpose()
    }
}

/// Reads a file that has a typed form, for the error alone.
fn check_file(name: &str, text: &str) -> Result<(), String> {
    match name {
        "cpu.max" => cpu_max(text).map(drop),
        "cpu.stat" => cpu_stat(text).map(drop),
        "cpu.idle" => cpu_idle(text).map(drop),
        "cpu.cfs_quota_us" => cfs_quota(text).map(drop),
        "cpuset.cpus" | "cpuset.cpus.effective" | "cpuset.effective_cpus" => {
            let is_set = !text.trim().is_empty();
            is_set.then(|| cpu_list(name, text)).transpose().map(drop)
        }
        "cpu.shares" | "cpu.weight" | "cpu.cfs_period_us" | "cpu.cfs_burst_us"
        | "cpu.max.burst" | "cpuacct.usage" => number(name, text).map(drop),
        _ => Ok(()),
    }
}

/// `50000 100000` or `max 100000`, as quota and period.
fn cpu_max(text: &str) -> Result<(Option<u64>, u64), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [quota, period] = words[..] else {
        return Err(unexpected("cpu.max", "`QUOTA PERIOD`", text));
    };
    let quota_us = if quota == "max" {
        None
    } else {
        Some(number("cpu.max", quota)?)
    };
    Ok((quota_us, number("cpu.max", period)?))
}

fn cpu_list(file: &str, text: &str) -> Result<CpuList, String> {
    CpuList::parse(text.trim(), NR_CPUS_MAX, Stride::UsedOfGroup)
        .map_err(|_| unexpected(file, "CPUs such as `0-3,6`", text))
}

fn cfs_quota(text: &str) -> Result<Option<u64>, String> {
    if text.trim() == "-1" {
        Ok(None)
    } else {
        number("cpu.cfs_quota_us", text).map(Some)
    }
}

fn cpu_idle(text: &str) -> Result<bool, String> {
    match text.trim() {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(unexpected("cpu.idle", "0 or 1", text)),
    }
}

fn cpu_stat(text: &str) -> Result<CpuStat, String> {
    CpuStat::read(text, |_, line, why| {
        let name = line.split_once(' ').map_or(line, |(name, _)| name);
        Err(match why {
            Refused::NoCounter => unexpected("cpu.stat", "`NAME NUMBER`", line),
            Refused::TooLarge => unexpected("cpu.stat", "fewer µs", line),
            Refused::Unknown => {
                format!(
                    "`cpu.stat`: {}",
                    unknown_name("line", name, &cpu_stat::NAMES)
                )
            }
        })
    })
}

/// Files of a cgroup that may stand in `cgroups.json`, and the key of its members.
static KEYS: LazyLock<Vec<&str>> =
    LazyLock::new(|| rows::lines(include_str!("cgroup_files.txt")).collect());

fn number(file: &str, text: &str) -> Result<u64, String> {
    text.trim()
        .parse()
        .map_err(|_| unexpected(file, "a number", text))
}

fn unexpected(file: &str, expected: &str, found: &str) -> String {
    format!(
        "`{file}`: expected {expected}, found `{}`",
        found.escape_debug()
    )
}

impl<'de> Deserialize<'de> for CgroupTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CgroupTree, D::Error> {
        struct Tree;
        impl<'de> Visitor<'de> for Tree {
            type Value = CgroupTree;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("cgroups by path")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CgroupTree, A::Error> {
                let mut groups = BTreeMap::new();
                while let Some(path) = map.next_key::<String>()? {
                    check_path(&path).map_err(A::Error::custom)?;
                    if groups.contains_key(&path) {
                        return Err(A::Error::custom(format!("cgroup `{path}` is there twice")));
                    }
                    groups.insert(path, map.next_value::<Cgroup>()?);
                }
                if let Some(message) = orphan(&groups) {
                    return Err(A::Error::custom(message));
                }
                Ok(CgroupTree { groups })
            }
        }
        deserializer.deserialize_map(Tree)
    }
}

/// A group without its parent, if there is one.
fn orphan(groups: &BTreeMap<String, Cgroup>) -> Option<String> {
    groups.keys().find_map(|path| {
        let up = parent(path).filter(|up| !groups.contains_key(*up))?;
        Some(format!(
            "cgroup `{path}` is there, but not its parent `{up}`"
        ))
    })
}

fn check_path(path: &str) -> Result<(), String> {
    let is_plain = path == "/"
        || path
            .strip_prefix('/')
            .is_some_and(|rest| rest.split('/').all(|name| !matches!(name, "" | "." | "..")));
    if is_plain {
        Ok(())
    } else {
        Err(format!(
            "expected a cgroup's path such as `/` or `/a/b`, found `{path}`"
        ))
    }
}

fn parent(path: &str) -> Option<&str> {
    match path.rfind('/') {
        _ if path == "/" => None,
        Some(0) => Some("/"),
        Some(slash) => Some(&path[..slash]),
        None => None,
    }
}

impl<'de> Deserialize<'de> for Cgroup {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Cgroup, D::Error> {
        struct Files;
        impl<'de> Visitor<'de> for Files {
            type Value = Cgroup;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a cgroup's files by name, and its `tasks`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Cgroup, A::Error> {
                let mut files = BTreeMap::new();
                let mut tasks = None;
                while let Some(name) = map.next_key::<String>()? {
                    if !KEYS.contains(&name.as_str()) {
                        return Err(A::Error::custom(unknown_name("cgroup file", &name, &KEYS)));
                    }
                    let is_new = if name == "tasks" {
                        tasks.replace(map.next_value::<Vec<Pid>>()?).is_none()
                    } else {
                        let text = map.next_value::<String>()?;
                        check_file(&name, &text).map_err(A::Error::custom)?;
                        files.insert(name.clone(), text).is_none()
                    };
                    if !is_new {
                        return Err(A::Error::custom(format!("`{name}` is there twice")));
                    }
                }
                let tasks = tasks.ok_or_else(|| A::Error::missing_field("tasks"))?;
                let group = Cgroup { files, tasks };
                group.bandwidth().map_err(A::Error::custom)?;
                Ok(group)
            }
        }
        deserializer.deserialize_map(Files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(files: &[(&str, &str)]) -> Cgroup {
        let files = files
            .iter()
            .map(|(name, text)| (name.to_string(), text.to_string()))
            .collect();
        Cgroup {
            files,
            tasks: Vec::new(),
        }
    }

    #[test]
    fn counters_that_fall_have_begun_anew() {
        let stat = |text: &str| cpu_stat(text).unwrap();
        let before = stat("nr_periods 1000\nnr_throttled 10\nusage_usec 5");
        let after = stat("nr_periods 1295\nnr_throttled 112\nusage_usec 9");
        let grown = after.since(&before);
        let found = (grown.nr_periods, grown.nr_throttled, grown.usage_ns);
        assert_eq!(found, (Some(295), Some(102), Some(4000)));
        assert!(!after.began_anew(&before) && grown.burst_ns.is_none());
        // One that fell is enough: the others began at 0 as well.
        let after = stat("nr_periods 295\nnr_throttled 102\nnr_bursts 3");
        let grown = after.since(&before);
        assert!(after.began_anew(&before));
        let found = (grown.nr_periods, grown.nr_throttled);
        assert_eq!(found, (Some(295), Some(102)));
        let found = (grown.usage_ns, grown.nr_bursts);
        assert_eq!(found, (None, None), "not in both");
    }

    #[test]
    fn both_interfaces_give_the_same_bandwidth() {
        let expected = CpuLimits::new(50_000, 100_000, 20_000);
        let v1 = group(&[
            ("cpu.cfs_quota_us", "50000"),
            ("cpu.cfs_period_us", "100000"),
            ("cpu.cfs_burst_us", "20000"),
        ]);
        let v2 = group(&[("cpu.max", "50000 100000\n"), ("cpu.max.burst", "20000")]);
        assert_eq!(v1.bandwidth(), Ok(Some(expected)));
        assert_eq!(v2.bandwidth(), Ok(Some(expected)));
    }

    #[test]
    fn no_limit_and_no_files_differ() {
        let none = CpuLimits::default();
        let v1 = group(&[("cpu.cfs_quota_us", "-1"), ("cpu.cfs_period_us", "100000")]);
        assert_eq!(v1.bandwidth(), Ok(Some(none)));
        let v2 = group(&[("cpu.max", "max 100000")]);
        assert_eq!(v2.bandwidth(), Ok(Some(none)));
        assert_eq!(group(&[]).bandwidth(), Ok(None));
    }

    #[test]
    fn both_interfaces_give_the_same_statistics() {
        let v1 = group(&[(
            "cpu.stat",
            "nr_periods 5\nnr_throttled 2\nthrottled_time 7000\nnr_bursts 1\nburst_time 3000",
        )]);
        let v2 = group(&[(
            "cpu.stat",
            "usage_usec 9\nuser_usec 4\nnr_periods 5\nnr_throttled 2\nthrottled_usec 7\nnr_bursts 1\nburst_usec 3\n",
        )]);
        let expected = CpuStat {
            usage_ns: None,
            nr_periods: Some(5),
            nr_throttled: Some(2),
            throttled_ns: Some(7000),
            nr_bursts: Some(1),
            burst_ns: Some(3000),
        };
        assert_eq!(v1.stat(), Ok(Some(expected)));
        let accounted = group(&[("cpu.stat", "nr_periods 5"), ("cpuacct.usage", "9000")]);
        let usage = accounted.stat().unwrap().and_then(|stat| stat.usage_ns);
        assert_eq!(usage, Some(9000));
        let expected = CpuStat {
            usage_ns: usage,
            ..expected
        };
        assert_eq!(v2.stat(), Ok(Some(expected)));
    }

    #[test]
    fn the_cpus_in_force_come_before_those_asked_for() {
        let cpus = |files: &[(&str, &str)]| {
            let cpus = group(files).cpus().unwrap();
            cpus.map(|list| list.cpus().to_vec())
        };
        let asked = ("cpuset.cpus", "0-3");
        assert_eq!(cpus(&[asked]), Some(vec![0, 1, 2, 3]));
        let in_force = cpus(&[asked, ("cpuset.cpus.effective", "0-1")]);
        assert_eq!(in_force, Some(vec![0, 1]));
        let in_force = cpus(&[asked, ("cpuset.effective_cpus", "2")]);
        assert_eq!(in_force, Some(vec![2]));
        assert_eq!(cpus(&[("cpuset.cpus", "")]), None);
    }

    #[test]
    fn files_that_say_something_else() {
        for (file, text) in [
            ("cpu.max", "50000"),
            ("cpu.max", "max"),
            ("cpu.max", "x 100000"),
            ("cpu.cfs_quota_us", "-2"),
            ("cpu.shares", ""),
            ("cpu.idle", "2"),
            ("cpu.stat", "nr_periods"),
            ("cpu.stat", "nr_period 5"),
            ("cpu.stat", "usage_usec 99999999999999999"),
            ("cpuacct.usage", "9 ms"),
            ("cpuset.cpus", "0-"),
            ("cpuset.effective_cpus", "all"),
        ] {
            let message = check_file(file, text).unwrap_err();
            assert!(message.contains(file), "{file} `{text}`: {message}");
        }
        let message = check_file("cpu.stat", "nr_period 5").unwrap_err();
        let expected = "`cpu.stat`: unknown line `nr_period`; did you mean `nr_periods`?";
        assert_eq!(message, expected);
        let half = group(&[("cpu.cfs_quota_us", "50000")]);
        let expected = "`cpu.cfs_quota_us` is there, but not `cpu.cfs_period_us`";
        assert_eq!(half.bandwidth().unwrap_err(), expected);
    }

    #[test]
    fn parents_of_paths() {
        assert_eq!(parent("/"), None);
        assert_eq!(parent("/a"), Some("/"));
        assert_eq!(parent("/a/b"), Some("/a"));
        for path in ["", "a", "/a/", "//", "/a//b", "/../b", "/."] {
            assert!(check_path(path).is_err(), "{path}");
        }
        for path in ["/", "/a", "/a/b.slice"] {
            assert!(check_path(path).is_ok(), "{path}");
        }
    }
}
