//! Settings, counters and member threads of cgroups, as `cgroups.json` has them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use schedcast_base::groups::is_within;

use crate::error::{Result, io_error};
use crate::hierarchy::{Beside, CgroupVersion, CpuHierarchy, USAGE, child_groups, is_gone};
use crate::stat;
use crate::sys;

/// Files that are kept where a group has them.
const FILES: [&str; 11] = [
    "cpu.shares",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpu.cfs_burst_us",
    "cpu.weight",
    "cpu.max",
    "cpu.max.burst",
    "cpu.idle",
    "cpu.stat",
    "cpuset.cpus",
    "cpuset.cpus.effective",
];

/// Files of a cpuset of version 1, which is a controller of its own.
const CPUSET_FILES: [&str; 2] = ["cpuset.cpus", "cpuset.effective_cpus"];

/// Those of them that say how much it may use.
const LIMIT: [&str; 3] = ["cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.max"];

/// Every group, or those around `scope`: its ancestors, itself, its descendants.
pub(super) fn read(hierarchy: &CpuHierarchy, scope: Option<&str>) -> Result<Map<String, Value>> {
    let mut groups = Map::new();
    visit(hierarchy, "", hierarchy.mount(), scope, &mut groups)?;
    if let Some(accounting) = hierarchy.accounting() {
        add_usage(&accounting, &mut groups);
    }
    if let Some(cpusets) = hierarchy.cpusets() {
        add_cpusets(&cpusets, &mut groups);
    }
    Ok(groups)
}

fn belongs(path: &str, scope: Option<&str>) -> bool {
    scope.is_none_or(|scope| {
        let scope = scope.trim_end_matches('/');
        is_within(path, scope) || is_within(scope, path)
    })
}

fn visit(
    hierarchy: &CpuHierarchy,
    path: &str,
    dir: &Path,
    scope: Option<&str>,
    groups: &mut Map<String, Value>,
) -> Result<()> {
    if !belongs(path, scope) {
        return Ok(());
    }
    let name = if path.is_empty() { "/" } else { path };
    let children = match child_groups(dir) {
        Ok(children) => children,
        // A group may go away while it is looked at; the mount itself may not.
        Err(error) if !path.is_empty() && is_gone(&error) => return Ok(()),
        Err(error) => return Err(io_error("listing", dir, error)),
    };
    match describe(hierarchy, dir)? {
        Some(group) => groups.insert(name.to_owned(), group),
        None if path.is_empty() => {
            let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(io_error("reading the limit of", dir, gone));
        }
        // Groups below it are gone too: a tree has no group without its parent.
        None => return Ok(()),
    };
    for child in children {
        let below = format!("{path}/{child}");
        visit(hierarchy, &below, &dir.join(&child), scope, groups)?;
    }
    Ok(())
}

/// CPU time used, which version 1 counts in a controller that may be mounted elsewhere. A group
/// that is not there has none, and neither has one above a group whose processes are counted
/// elsewhere.
fn add_usage(accounting: &Beside, groups: &mut Map<String, Value>) {
    let elsewhere: Vec<String> = groups
        .keys()
        .filter(|path| !accounting.counts(path))
        .cloned()
        .collect();
    for (path, group) in groups {
        let above = path.trim_end_matches('/');
        if !above.is_empty() && elsewhere.iter().any(|below| is_within(below, above)) {
            continue;
        }
        let text = accounting.usage_file(path).map(fs::read_to_string);
        if let (Value::Object(files), Some(Ok(text))) = (group, text) {
            files.insert(USAGE.to_owned(), text.trim_end().into());
        }
    }
}

/// CPUs that cpusets of version 1 leave to the groups whose processes they have.
fn add_cpusets(cpusets: &Beside, groups: &mut Map<String, Value>) {
    for (path, group) in groups {
        let Value::Object(files) = group else {
            continue;
        };
        for name in CPUSET_FILES {
            let text = cpusets.file(path, name).map(fs::read_to_string);
            if let Some(Ok(text)) = text {
                files.insert(name.to_owned(), text.trim_end().into());
            }
        }
    }
}

/// Files and threads of a group; `None` for one that went away meanwhile.
fn describe(hierarchy: &CpuHierarchy, dir: &Path) -> Result<Option<Value>> {
    let mut group = Map::new();
    for file in FILES {
        let path = dir.join(file);
        match fs::read_to_string(&path) {
            Ok(text) => {
                group.insert(file.to_owned(), text.trim_end().into());
            }
            // Without its limit a group would pass for one that has none.
            Err(error) if LIMIT.contains(&file) && !is_gone(&error) => {
                return Err(io_error("reading", &path, error));
            }
            Err(_) => {}
        }
    }
    // Version 1 has both of them or neither.
    let [quota, period] = ["cpu.cfs_quota_us", "cpu.cfs_period_us"];
    if group.contains_key(quota) != group.contains_key(period) {
        return Ok(None);
    }
    let members = match hierarchy.version() {
        CgroupVersion::V1 => "tasks",
        CgroupVersion::V2 => "cgroup.threads",
    };
    let text = fs::read_to_string(dir.join(members)).unwrap_or_default();
    let mut tasks: Vec<u64> = text.lines().filter_map(|line| line.parse().ok()).collect();
    tasks.sort_unstable();
    group.insert("tasks".to_owned(), tasks.into());
    Ok(Some(Value::Object(group)))
}

/// Most threads whose times are read: one takes some 20 µs, and the recording begins afterwards.
const TIMED_MAX: usize = 5_000;

/// CPU time that the threads of all groups but the root have used since they started, by thread id.
/// Nothing where there are more than [`TIMED_MAX`].
pub(super) fn thread_times(groups: &Map<String, Value>) -> Map<String, Value> {
    let below = groups.iter().filter(|(path, _)| *path != "/");
    let tasks = below.filter_map(|(_, group)| group["tasks"].as_array());
    let tids: Vec<u64> = tasks.flatten().filter_map(Value::as_u64).collect();
    let Some(uptime_s) = stat::uptime_s().filter(|_| tids.len() <= TIMED_MAX) else {
        return Map::new();
    };
    let times = |tid: u64| {
        let cpu_s = stat::cpu_ns_of(tid)? as f64 / 1e9;
        let (comm, age_s) = (stat::comm_of(tid)?, stat::age_s(tid, uptime_s)?);
        Some(serde_json::json!({"comm": comm, "cpu_s": cpu_s, "age_s": age_s}))
    };
    tids.into_iter()
        .filter_map(|tid| Some((tid.to_string(), times(tid)?)))
        .collect()
}

/// CPUs that the threads of all groups may run on, by thread id.
pub(super) fn allowed_cpus(groups: &Map<String, Value>) -> BTreeMap<u64, Vec<u32>> {
    let tasks = groups
        .values()
        .filter_map(|group| group["tasks"].as_array());
    let tids = tasks.flatten().filter_map(Value::as_u64);
    tids.filter_map(|tid| Some((tid, sys::affinity_of(i32::try_from(tid).ok()?)?)))
        .collect()
}

/// The threads that may not run on all of `cpus` CPUs, as `thread_cpus` of `recording.json` has
/// them: `[{"cpus": [0], "threads": [12, 14]}]`.
pub(super) fn bound_threads(allowed: &BTreeMap<u64, Vec<u32>>, cpus: usize) -> Vec<Value> {
    let mut bound: BTreeMap<&[u32], Vec<u64>> = BTreeMap::new();
    for (tid, own) in allowed.iter().filter(|(_, own)| own.len() < cpus) {
        bound.entry(own).or_default().push(*tid);
    }
    bound
        .into_iter()
        .map(|(cpus, threads)| serde_json::json!({"cpus": cpus, "threads": threads}))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_threads_are_listed_by_their_cpus() {
        let allowed = [(7, vec![1]), (8, vec![0, 1]), (9, vec![1]), (11, vec![0])];
        let bound = bound_threads(&allowed.into_iter().collect(), 2);
        let expected = serde_json::json!([
            {"cpus": [0], "threads": [11]},
            {"cpus": [1], "threads": [7, 9]},
        ]);
        assert_eq!(Value::from(bound), expected);
    }

    #[test]
    fn the_affinity_of_a_thread_is_what_it_was_pinned_to() {
        let pinned = std::thread::spawn(|| {
            let cpu = sys::affinity_of(0).unwrap()[0];
            sys::pin_thread(&[cpu as usize]).unwrap();
            (sys::affinity_of(0), cpu)
        });
        let (cpus, cpu) = pinned.join().unwrap();
        assert_eq!(cpus, Some(vec![cpu]));
        assert_eq!(sys::affinity_of(i32::MAX), None);
    }

    #[test]
    fn a_scope_has_its_ancestors_and_what_is_below() {
        let inside = ["", "/a", "/a/b", "/a/b/c"];
        for path in inside {
            assert!(belongs(path, Some("/a/b")), "{path}");
        }
        for path in ["/x", "/a/bc", "/ab"] {
            assert!(!belongs(path, Some("/a/b")), "{path}");
        }
        assert!(belongs("/x", None));
    }

    #[test]
    fn groups_are_described_by_files_and_threads() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("g");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("cpu.max"), "5000 100000\n").unwrap();
        fs::write(dir.join("cgroup.threads"), "12\n7\n").unwrap();
        let hierarchy = CpuHierarchy::at(CgroupVersion::V2, root.path());
        let groups = read(&hierarchy, None).unwrap();
        assert_eq!(
            groups["/g"],
            serde_json::json!({"cpu.max": "5000 100000", "tasks": [7, 12]})
        );
        assert!(groups.contains_key("/"));
    }

    #[test]
    fn threads_of_groups_have_their_times_but_none_of_the_root_or_gone() {
        let own = std::process::id();
        let group = |tasks: &[u32]| serde_json::json!({ "tasks": tasks });
        let groups = [("/", group(&[1])), ("/g", group(&[own, u32::MAX]))];
        let groups = groups.map(|(path, group)| (path.to_owned(), group));
        let times = thread_times(&groups.into_iter().collect());
        assert_eq!(times.keys().collect::<Vec<_>>(), [&own.to_string()]);
        let own = &times[&own.to_string()];
        assert!(own["cpu_s"].as_f64().unwrap() > 0.0 && own["age_s"].as_f64().is_some());
    }

    #[test]
    fn a_group_that_goes_away_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        let hierarchy = CpuHierarchy::at(CgroupVersion::V2, root.path());
        let mut groups = Map::new();
        let gone = root.path().join("g");
        visit(&hierarchy, "/g", &gone, None, &mut groups).unwrap();
        assert!(groups.is_empty(), "{groups:?}");
        let missing = CpuHierarchy::at(CgroupVersion::V2, root.path().join("no"));
        let refused = read(&missing, None).unwrap_err().to_string();
        assert!(refused.contains("listing"), "{refused}");
    }

    #[test]
    fn a_group_with_half_a_limit_went_away_and_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("g")).unwrap();
        let hierarchy = CpuHierarchy::at(CgroupVersion::V1, root.path());
        let write = |file: &str| fs::write(root.path().join("g").join(file), "50000\n").unwrap();
        write("cpu.cfs_quota_us");
        assert_eq!(read(&hierarchy, None).unwrap().get("/g"), None);
        write("cpu.cfs_period_us");
        assert_eq!(
            read(&hierarchy, None).unwrap()["/g"]["cpu.cfs_quota_us"],
            "50000"
        );
    }

    #[test]
    fn a_limit_that_cannot_be_read_is_an_error_and_no_group_without_limit() {
        let root = tempfile::tempdir().unwrap();
        // Reading a folder fails.
        fs::create_dir_all(root.path().join("g/cpu.max")).unwrap();
        let hierarchy = CpuHierarchy::at(CgroupVersion::V2, root.path());
        let refused = read(&hierarchy, None).unwrap_err().to_string();
        assert!(refused.contains("g/cpu.max"), "{refused}");
    }

    #[test]
    fn cpusets_come_from_the_group_that_has_the_same_processes() {
        let [cpu, sets] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let own = std::process::id().to_string();
        for (group, process) in [("a", own.as_str()), ("b", "1")] {
            for place in [&cpu, &sets] {
                fs::create_dir(place.path().join(group)).unwrap();
            }
            fs::write(cpu.path().join(group).join("cgroup.procs"), &own).unwrap();
            let set = sets.path().join(group);
            fs::write(set.join("cgroup.procs"), process).unwrap();
            fs::write(set.join("cpuset.cpus"), "0-1\n").unwrap();
            fs::write(set.join("cpuset.effective_cpus"), "0\n").unwrap();
        }
        let cpusets = Beside {
            mount: sets.path().to_owned(),
            cpu: cpu.path().to_owned(),
        };
        let mut groups = read(&CpuHierarchy::at(CgroupVersion::V1, cpu.path()), None).unwrap();
        add_cpusets(&cpusets, &mut groups);
        let files = |group: &str| CPUSET_FILES.map(|name| groups[group].get(name).cloned());
        assert_eq!(files("/a"), [Some("0-1".into()), Some("0".into())]);
        assert_eq!(files("/b"), [None, None], "another group of that name");
    }

    #[test]
    fn usage_comes_from_where_the_same_processes_are_accounted() {
        let [cpu, counted] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let own = std::process::id().to_string();
        // The processes of /b are not accounted, and those of /c in another group of that name.
        // Those of /d/e are accounted in its parent, /d.
        for group in ["d", "d/e"] {
            fs::create_dir(cpu.path().join(group)).unwrap();
            fs::create_dir(counted.path().join(group)).unwrap();
            fs::write(counted.path().join(group).join(USAGE), "7\n").unwrap();
        }
        fs::write(cpu.path().join("d/e/cgroup.procs"), &own).unwrap();
        for (group, accounted) in [("a", Some(own.as_str())), ("b", None), ("c", Some("1"))] {
            fs::create_dir(cpu.path().join(group)).unwrap();
            fs::write(cpu.path().join(group).join("cgroup.procs"), &own).unwrap();
            if let Some(process) = accounted {
                let dir = counted.path().join(group);
                fs::create_dir(&dir).unwrap();
                fs::write(dir.join("cgroup.procs"), process).unwrap();
                fs::write(dir.join(USAGE), "1234567\n").unwrap();
            }
        }
        let accounting = Beside {
            mount: counted.path().to_owned(),
            cpu: cpu.path().to_owned(),
        };
        let mut groups = read(&CpuHierarchy::at(CgroupVersion::V1, cpu.path()), None).unwrap();
        add_usage(&accounting, &mut groups);
        assert_eq!(groups["/a"][USAGE], "1234567");
        for group in ["/b", "/c", "/d", "/d/e"] {
            assert_eq!(groups[group].get(USAGE), None, "{group}");
        }
    }
}
