//! A cpu cgroup on the live host: make it, limit it, read it, and be sure it is gone afterwards.
//!
//! ```no_run
//! use schedcast_host::{CpuCgroup, CpuLimits};
//!
//! let group = CpuCgroup::create("/", "trial")?;
//! group.set_limits(&CpuLimits { quota_us: Some(13_000), ..CpuLimits::default() })?;
//! println!("{:?} periods", group.stat()?.nr_periods);
//! # Ok::<(), schedcast_host::HostError>(())
//! ```
//!
//! The same calls work on cgroup v1 and v2; `write` takes one version's file names, `apply` takes
//! v2 names and says the same thing in v1 files where needed.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::error::{HostError, Result, io_error, is_there, read_text, unexpected};
use crate::files::CpuFile;
use crate::guard::Guard;
use crate::hierarchy::{self, CgroupVersion, CpuHierarchy, child_groups, is_gone};
use crate::stat::read_cpu_stat;
use schedcast_base::cpu_max::{CpuMax, parse_burst_us};
use schedcast_base::cpu_stat::CpuStat;
use schedcast_base::limits::{self, CpuLimits, HierarchyBounds, LimitError, LimitWrite};

/// How often removal is tried, 10 ms apart, while dying tasks still hold the group; and how often a
/// budget is asked for.
const REMOVE_TRIES: usize = 500;
/// Real-time budget of a group that may have such tasks, us in each second: below the root's
/// 950,000.
const REAL_TIME_BUDGET_US: u32 = 900_000;

/// A cpu cgroup. One that was created here is removed on drop, and by a watchman process should
/// this process die before; one that was opened is left as it is.
#[derive(Debug)]
pub struct CpuCgroup {
    hierarchy: CpuHierarchy,
    path: String,
    dir: PathBuf,
    owned: Option<Owned>,
}

/// Cleanup of a group that was created here.
#[derive(Debug)]
struct Owned {
    guard: Guard,
    refuge: PathBuf,
    /// Parent whose `cgroup.subtree_control` got `+cpu` for this group (v2).
    enabled_in: Option<PathBuf>,
}

impl CpuCgroup {
    /// Creates `name` below the existing group `parent` (`/` is the root) on this host.
    pub fn create(parent: &str, name: &str) -> Result<Self> {
        Self::create_under(&CpuHierarchy::detect()?, parent, name)
    }

    /// Creates a group below this one.
    pub fn create_child(&self, name: &str) -> Result<Self> {
        Self::create_under(&self.hierarchy, &self.path, name)
    }

    fn create_under(hierarchy: &CpuHierarchy, parent: &str, name: &str) -> Result<Self> {
        check_name(name)?;
        let parent_dir = hierarchy.existing(parent)?;
        let refuge = hierarchy.dir(&hierarchy.own_group()?);
        let path = format!("{}/{name}", parent.trim_end_matches('/'));
        let dir = parent_dir.join(name);
        let enabled_in = match hierarchy.version() {
            CgroupVersion::V1 => None,
            CgroupVersion::V2 => enable_controller(&parent_dir)?,
        };
        let guard = Guard::for_cgroup(&dir, &refuge).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                HostError::Told(format!("cgroup {path} exists already"))
            }
            _ => io_error("creating", &dir, error),
        })?;
        let owned = Some(Owned {
            guard,
            refuge,
            enabled_in,
        });
        Ok(Self {
            hierarchy: hierarchy.clone(),
            path,
            dir,
            owned,
        })
    }

    /// Lets tasks of this group have real-time policies. A kernel with `CONFIG_RT_GROUP_SCHED`
    /// starts a group of version 1 with no real-time budget and refuses them with `EPERM`; others
    /// have no such file and need nothing.
    ///
    /// Budgets of siblings may not exceed their parent's in sum: each of `siblings` gets the same
    /// share of it. Two groups at the top get 450 ms of every second.
    pub(crate) fn allow_real_time(&self, siblings: usize) -> Result<()> {
        const FILE: &str = "cpu.rt_runtime_us";
        let path = self.dir.join(FILE);
        if !path.exists() {
            return Ok(());
        }
        let of_parent = self.dir.parent().and_then(|parent| {
            let text = read_text(&parent.join(FILE)).ok()?;
            text.trim().parse().ok()
        });
        let whole = of_parent.map_or(REAL_TIME_BUDGET_US, |us: u32| us.min(REAL_TIME_BUDGET_US));
        let budget = (whole / siblings.max(1) as u32).to_string();
        let mut outcome = write_file(&path, &budget);
        // A group that was just removed gives its budget back only after a grace period.
        for _ in 0..REMOVE_TRIES {
            match &outcome {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    thread::sleep(Duration::from_millis(10));
                    outcome = write_file(&path, &budget);
                }
                _ => break,
            }
        }
        outcome.map_err(|error| io_error("writing", &path, error))
    }

    /// Opens an existing group, to read it or change its limits.
    pub fn open(path: &str) -> Result<Self> {
        Self::open_under(CpuHierarchy::detect()?, path)
    }

    /// Opens an existing group of `hierarchy`.
    pub(crate) fn open_under(hierarchy: CpuHierarchy, path: &str) -> Result<Self> {
        let dir = hierarchy.existing(path)?;
        Ok(Self {
            hierarchy,
            path: hierarchy::canonical(path),
            dir,
            owned: None,
        })
    }

    /// Its path below the root group.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The cgroup version of its files.
    pub fn version(&self) -> CgroupVersion {
        self.hierarchy.version()
    }

    /// Its counters.
    pub fn stat(&self) -> Result<CpuStat> {
        let path = self.dir.join("cpu.stat");
        read_cpu_stat(&read_text(&path)?, &path)
    }

    /// The text of a file, without the newline.
    pub fn read(&self, file: CpuFile) -> Result<String> {
        file.check_version(self.version())?;
        let text = read_text(&self.dir.join(file.name()))?;
        Ok(text.trim_end().to_owned())
    }

    /// Writes one file. A value the kernel refuses is answered with the rule that it breaks.
    pub fn write(&self, file: CpuFile, value: &str) -> Result<()> {
        file.check_version(self.version())?;
        let path = self.dir.join(file.name());
        write_file(&path, value).map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL | libc::ERANGE) => self.explain(file, value, path, error),
            _ => io_error("writing", &path, error),
        })
    }

    /// Writes a setting by its v2 name (`cpu.max`, `cpu.max.burst`, `cpu.weight`, `cpu.idle`) or
    /// its v1 name; v2 names work on a v1 host too, with `cpu.weight` as the `cpu.shares` of equal
    /// weight. On a v2 host `cpu.shares` is the `cpu.weight` of equal weight where there is one,
    /// such as 200 for 2048.
    pub fn apply(&self, key: &str, value: &str) -> Result<()> {
        let file = CpuFile::from_name(key)?;
        let refuse = |rule| self.refused(self.dir.join(file.name()), value.to_owned(), rule);
        match file {
            CpuFile::Max => {
                let written = CpuMax::parse(value).map_err(refuse)?;
                let mut target = self.limits()?;
                (target.quota_us, target.period_us) = written.over(target.period_us);
                self.set_limits(&target)
            }
            CpuFile::MaxBurst => {
                let burst_us = parse_burst_us(value).map_err(refuse)?;
                let mut target = self.limits()?;
                target.burst_us = burst_us;
                self.set_limits(&target)
            }
            CpuFile::Weight if self.version() == CgroupVersion::V1 => {
                let weight = limits::parse_weight(value).map_err(refuse)?;
                let shares = limits::shares_from_weight(weight);
                self.write(CpuFile::Shares, &shares.to_string())
            }
            CpuFile::Shares if self.version() == CgroupVersion::V2 => {
                let shares = limits::parse_shares(value).map_err(refuse)?;
                let weight = limits::weight_from_shares(shares);
                match limits::shares_from_weight(weight) == shares {
                    true => self.write(CpuFile::Weight, &weight.to_string()),
                    false => self.write(file, value),
                }
            }
            _ => self.write(file, value),
        }
    }

    /// The bandwidth limit it has. On kernels before 5.14 there is no burst file, and no burst.
    pub fn limits(&self) -> Result<CpuLimits> {
        read_limits(self.version(), &self.dir)
    }

    /// Changes the bandwidth limit: checked first against the kernel's bounds, then written in an
    /// order that passes through no state the kernel refuses, then read back.
    pub fn set_limits(&self, target: &CpuLimits) -> Result<()> {
        for (file, value) in self.limit_writes(target)? {
            self.write(file, &value)?;
        }
        let now = self.limits()?;
        match now == *target {
            true => Ok(()),
            false => Err(unexpected(
                &self.dir,
                0,
                "the limits just written",
                now.to_string(),
            )),
        }
    }

    /// The writes that lead from the limit it has to `target`, checked against the kernel's bounds
    /// and in an order that it accepts at every step.
    pub(crate) fn limit_writes(&self, target: &CpuLimits) -> Result<Vec<(CpuFile, String)>> {
        let refuse = |rule| self.refused(self.dir.clone(), target.to_string(), rule);
        if self.is_root() && target.quota_us.is_some() {
            return Err(refuse(LimitError::RootGroup));
        }
        limits::validate(target).map_err(refuse)?;
        let current = self.limits()?;
        match self.version() {
            CgroupVersion::V1 => {
                let around = self.bounds_around()?;
                limits::validate_hierarchy(target, around).map_err(refuse)?;
                let plan = limits::plan_writes(&current, target, around);
                Ok(plan.into_iter().map(v1_write).collect())
            }
            CgroupVersion::V2 => Ok(v2_writes(&current, target)),
        }
    }

    fn is_root(&self) -> bool {
        self.dir == self.hierarchy.mount()
    }

    /// Whether a process is in the group or in one below it. A group below that goes away
    /// meanwhile has none.
    pub fn is_populated(&self) -> bool {
        let mut open = vec![self.dir.clone()];
        while let Some(dir) = open.pop() {
            if read_ids(&dir.join("cgroup.procs")).is_ok_and(|ids| !ids.is_empty()) {
                return true;
            }
            let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
            let paths = entries.map(|entry| entry.path());
            open.extend(paths.filter(|path| path.is_dir()));
        }
        false
    }

    /// Removes a created group now, with the error that a drop could only print. Tasks still in it
    /// are moved to the group this process is in.
    pub fn close(mut self) -> Result<()> {
        match self.owned.take() {
            Some(owned) => remove(&self.dir, owned),
            None => Ok(()),
        }
    }

    pub(crate) fn watch_group(&self, group: i32) {
        if let Some(owned) = &self.owned {
            owned.guard.watch_group(group);
        }
    }

    pub(crate) fn forget_group(&self, group: i32) {
        if let Some(owned) = &self.owned {
            owned.guard.forget_group(group);
        }
    }

    /// The nearest group above this one that has a limit, and its share (v1).
    fn limited_parent(&self) -> Result<Option<(&Path, u64)>> {
        let root = self.hierarchy.mount();
        let above = self.dir.ancestors().skip(1);
        for dir in above.take_while(|dir| dir.starts_with(root) && *dir != root) {
            if let Some(share) = read_limits(CgroupVersion::V1, dir)?.ratio() {
                return Ok(Some((dir, share)));
            }
        }
        Ok(None)
    }

    /// The path of the group above that `rule` is about.
    fn parent_of(&self, rule: &LimitError) -> Option<String> {
        if !matches!(rule, LimitError::AboveParent { .. }) {
            return None;
        }
        let (dir, _) = self.limited_parent().ok()??;
        let below = dir.strip_prefix(self.hierarchy.mount()).ok()?;
        Some(format!("/{}", below.display()))
    }

    /// The shares of the groups around this one (v1; version 2 has no such rule).
    fn bounds_around(&self) -> Result<HierarchyBounds> {
        Ok(HierarchyBounds {
            ceiling: self.limited_parent()?.map(|(_, share)| share),
            floor: largest_ratio_below(&self.dir)?,
        })
    }

    /// Finds the rule behind EINVAL or ERANGE by asking the pure rules about the same change.
    fn explain(&self, file: CpuFile, value: &str, path: PathBuf, source: io::Error) -> HostError {
        match self.broken_rule(file, value) {
            Ok(Some(rule)) => self.refused(path, value.to_owned(), rule),
            // None of the known rules is the reason.
            Ok(None) => HostError::Told(format!(
                "{}: the kernel refused {value:?}: {source}",
                path.display()
            )),
            Err(error) => error,
        }
    }

    fn broken_rule(&self, file: CpuFile, value: &str) -> Result<Option<LimitError>> {
        if self.is_root() {
            return Ok(Some(LimitError::RootGroup));
        }
        let mut wanted = self.limits()?;
        let number = || limits::parse_u64(file.name(), value);
        let parsed = match file {
            CpuFile::Shares => limits::parse_shares(value).map(drop),
            CpuFile::Weight => limits::parse_weight(value).map(drop),
            CpuFile::Idle => limits::parse_idle(value).map(drop),
            CpuFile::CfsQuotaUs => {
                limits::parse_cfs_quota_us(value).map(|quota_us| wanted.quota_us = quota_us)
            }
            CpuFile::CfsPeriodUs => number().map(|period_us| wanted.period_us = period_us),
            CpuFile::CfsBurstUs | CpuFile::MaxBurst => {
                number().map(|burst_us| wanted.burst_us = burst_us)
            }
            CpuFile::Max => CpuMax::parse(value).map(|written| {
                (wanted.quota_us, wanted.period_us) = written.over(wanted.period_us);
            }),
        };
        if let Err(rule) = parsed.and_then(|()| limits::validate(&wanted)) {
            return Ok(Some(rule));
        }
        let weighs = matches!(file, CpuFile::Shares | CpuFile::Weight);
        if weighs && self.read(CpuFile::Idle).is_ok_and(|idle| idle == "1") {
            return Ok(Some(LimitError::WeightOfIdleGroup));
        }
        if self.version() == CgroupVersion::V2 {
            return Ok(None);
        }
        Ok(limits::validate_hierarchy(&wanted, self.bounds_around()?).err())
    }

    fn refused(&self, path: PathBuf, value: String, rule: LimitError) -> HostError {
        HostError::Refused {
            path,
            value,
            parent: self.parent_of(&rule).map(String::into_boxed_str),
            rule,
        }
    }
}

impl Drop for CpuCgroup {
    fn drop(&mut self) {
        if let Some(owned) = self.owned.take()
            && let Err(error) = remove(&self.dir, owned)
        {
            eprintln!("schedcast: {error}");
        }
    }
}

fn check_name(name: &str) -> Result<()> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.contains('/') {
        "it contains a slash"
    } else if name.starts_with('.') {
        "it begins with a dot"
    } else if name.starts_with("cgroup.") || name.starts_with("cpu.") {
        "it looks like one of the kernel's files"
    } else {
        return Ok(());
    };
    Err(HostError::Told(format!(
        "{name:?} cannot be a cgroup's name: {reason}"
    )))
}

/// Path of a group's parent, and its own name.
pub(crate) fn parent_of(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// How many of `paths` have the parent of `path`, itself included: among `/a`, `/a/x` and `/b`,
/// `/a` is one of two.
pub(crate) fn siblings<'a>(path: &str, paths: impl Iterator<Item = &'a str>) -> usize {
    paths
        .filter(|other| parent_of(other).0 == parent_of(path).0)
        .count()
}

/// Opens without creating, as shell redirection would create nothing in a cgroup either.
fn write_file(path: &Path, value: &str) -> io::Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)?
        .write_all(value.as_bytes())
}

/// v2: a group has cpu files only when its parent lists `cpu` in `cgroup.subtree_control`.
fn enable_controller(parent: &Path) -> Result<Option<PathBuf>> {
    let control = parent.join("cgroup.subtree_control");
    let enabled = read_text(&control)?;
    if enabled.split_whitespace().any(|name| name == "cpu") {
        return Ok(None);
    }
    write_file(&control, "+cpu").map_err(|error| io_error("enabling cpu in", &control, error))?;
    Ok(Some(control))
}

fn read_ids(path: &Path) -> Result<Vec<i32>> {
    let text = read_text(path)?;
    let id = |(line, text): (usize, &str)| {
        let id = text.parse();
        id.map_err(|_| unexpected(path, line, "a process or thread id", text))
    };
    (1..).zip(text.lines()).map(id).collect()
}

pub(crate) fn read_limits(version: CgroupVersion, dir: &Path) -> Result<CpuLimits> {
    let read = |file: CpuFile| read_text(&dir.join(file.name()));
    let number = |file: CpuFile, text: &str| {
        limits::parse_u64(file.name(), text)
            .map_err(|_| unexpected(dir.join(file.name()), 1, "microseconds", text))
    };
    let bad_quota =
        |file: CpuFile, text: String| unexpected(dir.join(file.name()), 1, "a quota", text);
    let burst_file = match version {
        CgroupVersion::V1 => CpuFile::CfsBurstUs,
        CgroupVersion::V2 => CpuFile::MaxBurst,
    };
    let burst_us = match is_there(&dir.join(burst_file.name()))? {
        true => number(burst_file, &read(burst_file)?)?,
        false => 0,
    };
    let (quota_us, period_us) = match version {
        CgroupVersion::V1 => {
            let text = read(CpuFile::CfsQuotaUs)?;
            let quota_us = limits::parse_cfs_quota_us(&text)
                .map_err(|_| bad_quota(CpuFile::CfsQuotaUs, text))?;
            let period = read(CpuFile::CfsPeriodUs)?;
            (quota_us, number(CpuFile::CfsPeriodUs, &period)?)
        }
        CgroupVersion::V2 => {
            let text = read(CpuFile::Max)?;
            match CpuMax::parse(&text) {
                Ok(written) if written.period_us.is_some() => written.over(0),
                _ => return Err(bad_quota(CpuFile::Max, text)),
            }
        }
    };
    Ok(CpuLimits {
        quota_us,
        period_us,
        burst_us,
    })
}

/// The largest share among the limited groups below `dir`. Groups may go away meanwhile.
fn largest_ratio_below(dir: &Path) -> Result<Option<u64>> {
    let mut largest = None;
    let names = match child_groups(dir) {
        Err(error) if is_gone(&error) => Vec::new(),
        names => names.map_err(|error| io_error("listing", dir, error))?,
    };
    for child in names.iter().map(|name| dir.join(name)) {
        match read_limits(CgroupVersion::V1, &child) {
            Err(_) if !child.exists() => {}
            limits => largest = largest.max(limits?.ratio()),
        }
        largest = largest.max(largest_ratio_below(&child)?);
    }
    Ok(largest)
}

fn v1_write(write: LimitWrite) -> (CpuFile, String) {
    match write {
        LimitWrite::Quota(None) => (CpuFile::CfsQuotaUs, "-1".to_owned()),
        LimitWrite::Quota(Some(quota_us)) => (CpuFile::CfsQuotaUs, quota_us.to_string()),
        LimitWrite::Period(period_us) => (CpuFile::CfsPeriodUs, period_us.to_string()),
        LimitWrite::Burst(burst_us) => (CpuFile::CfsBurstUs, burst_us.to_string()),
    }
}

/// v2 sets quota and period together; burst shrinks before and grows after them.
fn v2_writes(current: &CpuLimits, target: &CpuLimits) -> Vec<(CpuFile, String)> {
    let burst = (CpuFile::MaxBurst, target.burst_us.to_string());
    let quota = target
        .quota_us
        .map_or("max".to_owned(), |us| us.to_string());
    let max = (CpuFile::Max, format!("{quota} {}", target.period_us));
    let mut writes = Vec::new();
    if target.burst_us < current.burst_us {
        writes.push(burst.clone());
    }
    if (target.quota_us, target.period_us) != (current.quota_us, current.period_us) {
        writes.push(max);
    }
    if target.burst_us > current.burst_us {
        writes.push(burst);
    }
    writes
}

fn remove(dir: &Path, owned: Owned) -> Result<()> {
    let mut last = None;
    for _ in 0..REMOVE_TRIES {
        move_tasks(dir, &owned.refuge);
        match fs::remove_dir(dir) {
            Ok(()) => last = None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => last = None,
            Err(error) => {
                last = Some(error);
                thread::sleep(Duration::from_millis(10));
                continue;
            }
        }
        break;
    }
    if let Some(error) = last {
        // The watchman is left in place: it goes on trying once this process has ended.
        return Err(io_error("removing", dir, error));
    }
    owned.guard.dismiss();
    if let Some(control) = owned.enabled_in {
        write_file(&control, "-cpu").map_err(|error| io_error("restoring", &control, error))?;
    }
    Ok(())
}

fn move_tasks(dir: &Path, refuge: &Path) {
    let to = refuge.join("cgroup.procs");
    for pid in read_ids(&dir.join("cgroup.procs")).unwrap_or_default() {
        // A task that has just ended cannot be moved and need not be.
        let _ = write_file(&to, &pid.to_string());
    }
}

#[cfg(test)]
#[path = "cgroup_tests.rs"]
mod tests;
