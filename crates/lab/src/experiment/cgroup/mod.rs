//! The `[cgroup."/path"]` sections: what is written to the files of a cpu cgroup.
//!
//! Values are read as the kernel reads them, for both cgroup versions, and what the kernel would
//! refuse is refused here with the errno that a shell would have shown. Settings arrive in layers
//! (recording, file, variant, command line) and each layer is a write to the group as the layer
//! before left it. Worked example: over the layer `cpu.max = "50000 20000"` the write
//! `cpu.max = "30000"` leaves 30,000 us in every 20,000 us, because the kernel keeps the period
//! when none is given; a `cpu.max.burst = 40000` on top is EINVAL, because burst may not exceed
//! quota. Limits may also be written as people say them, `50%` or `50ms/100ms`: see
//! [`schedcast_base::cpu_max::CpuMax`].

use std::collections::BTreeMap;

use schedcast_base::cpu_list::{CpuList, NR_CPUS_MAX, Stride};
use schedcast_base::limits::{self, CpuLimits, LimitError, shares_from_weight};
use schedcast_base::names::nearest;
use schedcast_kernel::uclamp::{self, Clamps};
use schedcast_kernel::weight::{WEIGHT_IDLE, nice_weight};

use self::files::{
    check_limit, file_text, read_burst, read_clamp, read_cpu_max, read_quota_v1, read_unsigned,
    read_weight, refused,
};
use super::document::{Entry, Table, Value, unknown_key};
use super::kernel::KernelSettings;
use super::keys::{Key, Takes, keys, names};
use crate::error::{Error, Place, Result, hint_for};

mod files;
#[cfg(test)]
mod tests;

/// The hierarchy the names belong to; it decides whether a child may exceed its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// `cpu.cfs_quota_us`, `cpu.shares`: a child's share of CPU time must fit into its parent's.
    V1,
    /// `cpu.max`, `cpu.weight`: any value is accepted, the smallest on the path counts.
    V2,
}

/// How much a group weighs against its siblings, as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// v1 `cpu.shares`, already clamped to 2…262144 as the kernel does.
    Shares(u64),
    /// v2 `cpu.weight`, 1…10000.
    Weight(u64),
    /// v2 `cpu.weight.nice`, −20…19.
    Nice(i8),
}

/// Everything set in one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupSettings {
    /// Its bandwidth limit.
    pub limits: CpuLimits,
    /// Weight against siblings.
    pub weight: Weight,
    /// `cpu.idle`: the whole group runs as `SCHED_IDLE`.
    pub idle: bool,
    /// `cpu.uclamp.min` and `cpu.uclamp.max`, 0 to 1024 of the fastest CPU.
    pub clamps: Clamps<u32>,
    /// `cpuset.cpus`; `None` is all of the parent's.
    pub cpus: Option<CpuList>,
    /// Whether a replay forgets when the group's period timer fired and lets the seed choose: for
    /// runs that are still to come, since it is unknown how their work will fall into the periods.
    pub any_phase: bool,
    /// When its period timer expires first, ns; `None` = as recorded, or as the kernel sets it when
    /// the run begins.
    pub period_phase_ns: Option<u64>,
}

impl CgroupSettings {
    /// The group's `tg->shares`, unscaled: 1024 is usual, 3 while `cpu.idle` is 1.
    pub fn shares(&self) -> u64 {
        match self.weight {
            _ if self.idle => WEIGHT_IDLE,
            Weight::Shares(shares) => shares,
            Weight::Weight(weight) => shares_from_weight(weight),
            Weight::Nice(nice) => nice_weight(i32::from(nice)),
        }
    }

    /// Files of utilisation clamps that are not as in a new group, with what is in them: percent.
    pub fn clamp_files(&self) -> Vec<(&'static str, String)> {
        let Clamps { min, max } = self.clamps;
        let least = (min != uclamp::NONE.min).then_some(("cpu.uclamp.min", min));
        let most = (max != uclamp::NONE.max).then_some(("cpu.uclamp.max", max));
        let files = least.into_iter().chain(most);
        files
            .map(|(file, clamp)| (file, CgroupSettings::clamp_percent(clamp)))
            .collect()
    }

    /// A clamp as its file has it: percent of the fastest CPU.
    pub(crate) fn clamp_percent(clamp: u32) -> String {
        let percent = f64::from(clamp) * 100.0 / f64::from(uclamp::LARGEST);
        format!("{percent:.2}")
    }
}

impl Default for CgroupSettings {
    /// A freshly made group: no limit, 100 ms period, shares 1024.
    fn default() -> CgroupSettings {
        CgroupSettings {
            limits: CpuLimits::default(),
            weight: Weight::Shares(1024),
            idle: false,
            clamps: uclamp::NONE,
            cpus: None,
            any_phase: false,
            period_phase_ns: None,
        }
    }
}

/// Files of cgroup v2.
const V2_FILES: [Key; 4] = keys! {
    "cpu.max" => Takes::Words("`QUOTA PERIOD` in µs, `max`, or a limit as people say it: `50%`, `0.5`, `500m`, `50ms/100ms`"),
        "`max 100000`",
        "CPU time in each period. Quota 1000 µs or more, period 1000 to 1000000 µs. Without a period the old one stays.";
    "cpu.max.burst" => Takes::Words("µs, or a time with its unit"), "0",
        "CPU time that may be carried over from earlier periods, at most the quota; from 5.14 on.";
    "cpu.weight" => Takes::Whole(1, 10_000, ""), "100", "Weight against siblings.";
    "cpu.weight.nice" => Takes::Whole(-20, 19, ""), "0",
        "The same as a nice value; excludes `cpu.weight`.";
};
const CLAMP: Takes = Takes::Words("0 to 100 % with up to two decimals, or `max`");
/// Files of both versions.
const COMMON_FILES: [Key; 4] = keys! {
    "cpu.idle" => Takes::Words("0 or 1"), "0",
        "Whether the whole group runs as `SCHED_IDLE`; from 5.15 on.";
    "cpu.uclamp.min" => CLAMP, "0",
        "How large the group's tasks are to be taken for at least, in % of the fastest CPU; with `kernel.uclamp`.";
    "cpu.uclamp.max" => CLAMP, "`max`", "How large at most.";
    "cpuset.cpus" => Takes::Words("a list: `0-3,6`"), "all of the group above",
        "CPUs that the group may use.";
};
/// Files of cgroup v1.
const V1_FILES: [Key; 4] = keys! {
    "cpu.cfs_quota_us" => Takes::Words("µs, or negative for no limit"), "-1",
        "Quota of cgroup v1, 1000 or more. A child's share must fit into its parent's.";
    "cpu.cfs_period_us" => Takes::Words("1000 to 1000000 µs"), "100000", "Period of cgroup v1.";
    "cpu.cfs_burst_us" => Takes::Words("µs"), "0", "Burst of cgroup v1.";
    "cpu.shares" => Takes::Words("2 to 262144; other values are clamped"), "1024",
        "Weight of cgroup v1.";
};

/// All files of a group.
pub(crate) fn keys() -> Vec<Key> {
    let all = V2_FILES.into_iter().chain(COMMON_FILES).chain(V1_FILES);
    all.collect()
}

/// Files that exist but that no simulation honours, with the reason.
const REFUSED_FILES: [(&str, &str); 4] = [
    ("cpu.rt_runtime_us", "real-time groups are not modelled"),
    ("cpu.rt_period_us", "real-time groups are not modelled"),
    ("cpu.stat", "it is read-only"),
    ("cpu.pressure", "pressure triggers are not modelled"),
];

/// One group while layers are written to it.
#[derive(Clone, Debug, Default)]
struct Group {
    settings: CgroupSettings,
    /// Where quota and burst were last written, for errors about both together.
    quota_place: Option<Place>,
    burst_place: Option<Place>,
}

/// All groups while layers are written to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct CgroupTree {
    groups: BTreeMap<String, Group>,
    version: Option<CgroupVersion>,
}

impl CgroupTree {
    /// Writes one `[cgroup]` section, making the groups it names.
    ///
    /// # Errors
    /// Unknown files, values the kernel refuses, files this kernel does not have.
    pub(crate) fn write(&mut self, section: &Table, kernel: &KernelSettings) -> Result<()> {
        for entry in &section.entries {
            check_path(&entry.key, &entry.key_place)?;
            let files = entry.value.table("a table of cgroup files")?;
            if entry.key == "/" {
                refuse_in_root(files)?;
                continue;
            }
            self.make(&entry.key);
            self.write_group(&entry.key, files, kernel)?;
        }
        Ok(())
    }

    /// As [`CgroupTree::write`], but every group must exist: a change while programs run.
    ///
    /// # Errors
    /// As [`CgroupTree::write`], and for an unknown group.
    pub(crate) fn write_existing(
        &mut self,
        section: &Table,
        kernel: &KernelSettings,
    ) -> Result<()> {
        for entry in &section.entries {
            self.refuse_unknown(&entry.key, &entry.key_place)?;
        }
        self.write(section, kernel)
    }

    /// Refuses a group that no layer made (`/` always exists).
    ///
    /// # Errors
    /// The unknown path, with the nearest one.
    pub(crate) fn refuse_unknown(&self, path: &str, place: &Place) -> Result<()> {
        check_path(path, place)?;
        if path == "/" || self.groups.contains_key(path) {
            return Ok(());
        }
        let known: Vec<&str> = self.groups.keys().map(String::as_str).collect();
        let error = Error::input(place, format!("unknown cgroup `{path}`"));
        Err(error.hint(
            match (nearest(path, known.iter().copied()), known.is_empty()) {
                (Some(near), _) => format!("the nearest cgroup is `{near}`"),
                (None, true) => format!("declare it: [cgroup.\"{path}\"]"),
                (None, false) => hint_for(path, &known).replace("valid names", "the cgroups"),
            },
        ))
    }

    /// Makes the group and its ancestors.
    fn make(&mut self, path: &str) {
        for (end, _) in path.match_indices('/').skip(1) {
            self.groups.entry(path[..end].to_string()).or_default();
        }
        self.groups.entry(path.to_string()).or_default();
    }

    fn write_group(&mut self, path: &str, files: &Table, kernel: &KernelSettings) -> Result<()> {
        for entry in &files.entries {
            check_file(entry, kernel)?;
        }
        let version = one_vocabulary(files)?;
        // The lowest layer that says which hierarchy this is decides; later layers may use either
        // vocabulary for the same settings.
        self.version = self.version.or(version);
        let group = self.groups.entry(path.to_string()).or_default();
        group.write_limits(files)?;
        group.write_weight(files)?;
        if let Some(value) = files.get("cpu.uclamp.min") {
            group.settings.clamps.min = read_clamp(value)?;
        }
        if let Some(value) = files.get("cpu.uclamp.max") {
            group.settings.clamps.max = read_clamp(value)?;
        }
        if let Some(value) = files.get("cpuset.cpus") {
            let text = file_text(value)?;
            let cpus = CpuList::parse(&text, NR_CPUS_MAX, Stride::UsedOfGroup);
            let cpus = cpus.map_err(|why| refused(value, "EINVAL", &why))?;
            group.settings.cpus = Some(cpus);
        }
        Ok(())
    }

    /// Checks what only holds once all layers are written: burst against quota and, in a v1
    /// hierarchy, children against parents.
    ///
    /// # Errors
    /// EINVAL, at the value that is too large.
    pub(crate) fn check(&self) -> Result<()> {
        for group in self.groups.values() {
            group.check_burst()?;
        }
        if self.version == Some(CgroupVersion::V1) {
            for path in self.groups.keys() {
                self.check_ratio(path)?;
            }
        }
        Ok(())
    }

    /// `__cfs_schedulable`: in v1 a limited child may not get a larger share than the nearest
    /// limited ancestor.
    fn check_ratio(&self, path: &str) -> Result<()> {
        let group = &self.groups[path];
        let (Some(ratio), Some(place)) = (group.settings.limits.ratio(), &group.quota_place) else {
            return Ok(());
        };
        let mut ancestor = path;
        while let Some((parent, _)) = ancestor.rsplit_once('/').filter(|(up, _)| !up.is_empty()) {
            ancestor = parent;
            let Some(limit) = self.groups[parent].settings.limits.ratio() else {
                continue;
            };
            if ratio > limit {
                let why = format!(
                    "`{path}` may use a larger share of CPU time than its ancestor `{parent}`"
                );
                return Err(Error::input(place, format!("EINVAL: {why}"))
                    .hint("cgroup v1 checks this; v2 lets the smaller limit count"));
            }
            return Ok(());
        }
        Ok(())
    }

    /// The settings of every group, by path.
    pub(crate) fn settings(&self) -> BTreeMap<String, CgroupSettings> {
        let pairs = self.groups.iter();
        pairs
            .map(|(path, group)| (path.clone(), group.settings.clone()))
            .collect()
    }

    /// The hierarchy's version; v2 where nothing says otherwise.
    pub(crate) fn version(&self) -> CgroupVersion {
        self.version.unwrap_or(CgroupVersion::V2)
    }
}

impl Group {
    fn write_limits(&mut self, files: &Table) -> Result<()> {
        let limits = &mut self.settings.limits;
        if let Some(value) = files.get("cpu.max") {
            (limits.quota_us, limits.period_us) = read_cpu_max(value, limits.period_us)?;
            self.quota_place = Some(value.place.clone());
        }
        if let Some(value) = files.get("cpu.cfs_period_us") {
            let period = read_unsigned(value)?;
            check_limit(value, None, period)?;
            limits.period_us = period;
        }
        if let Some(value) = files.get("cpu.cfs_quota_us") {
            limits.quota_us = read_quota_v1(value)?;
            check_limit(value, limits.quota_us, limits.period_us)?;
            self.quota_place = Some(value.place.clone());
        }
        for (name, read) in [
            ("cpu.max.burst", read_burst as fn(&Value) -> Result<u64>),
            ("cpu.cfs_burst_us", read_unsigned),
        ] {
            if let Some(value) = files.get(name) {
                limits.burst_us = read(value)?;
                self.burst_place = Some(value.place.clone());
            }
        }
        Ok(())
    }

    fn write_weight(&mut self, files: &Table) -> Result<()> {
        if let Some(value) = files.get("cpu.idle") {
            let idle = match file_text(value)?.as_str() {
                "0" => false,
                "1" => true,
                other => {
                    return Err(refused(
                        value,
                        "EINVAL",
                        &format!("cpu.idle is 0 or 1, not {other}"),
                    ));
                }
            };
            if self.settings.idle && !idle {
                self.settings.weight = CgroupSettings::default().weight;
            }
            self.settings.idle = idle;
        }
        for name in ["cpu.shares", "cpu.weight", "cpu.weight.nice"] {
            let Some(value) = files.get(name) else {
                continue;
            };
            if self.settings.idle {
                let why = format!("{name} cannot be set while cpu.idle is 1");
                return Err(refused(value, "EINVAL", &why));
            }
            self.settings.weight = read_weight(name, value)?;
        }
        Ok(())
    }

    /// The kernel's checks of quota and burst together, with or without a finite quota.
    fn check_burst(&self) -> Result<()> {
        // Blame the value that was written last; without a burst file it can only be the quota.
        let Some(place) = self.burst_place.as_ref().or(self.quota_place.as_ref()) else {
            return Ok(());
        };
        let refused = |rule: LimitError| Error::input(place, format!("{}: {rule}", rule.errno()));
        limits::validate(&self.settings.limits).map_err(refused)
    }
}

/// Most levels of a hierarchy. Every level is a group of its own with a name as long as its path;
/// Kubernetes nests five.
const LEVELS_MAX: usize = 100;
/// Longest path, bytes: the kernel's own bound (`PATH_MAX`).
const PATH_MAX_BYTES: usize = 4096;

fn check_path(path: &str, place: &Place) -> Result<()> {
    let levels = path.matches('/').count();
    if path.len() > PATH_MAX_BYTES || levels > LEVELS_MAX {
        let message = format!(
            "a cgroup path of {levels} levels and {} bytes; at most {LEVELS_MAX} levels and \
             {PATH_MAX_BYTES} bytes",
            path.len()
        );
        return Err(Error::input(place, message));
    }
    let parts_fine = path == "/"
        || path.strip_prefix('/').is_some_and(|rest| {
            rest.split('/')
                .all(|part| !part.is_empty() && part != "." && part != "..")
        });
    if parts_fine {
        return Ok(());
    }
    Err(
        Error::input(place, format!("`{path}` is not a cgroup path"))
            .hint("paths start at the root of the hierarchy: \"/test\", \"/kubepods/pod1\""),
    )
}

fn refuse_in_root(files: &Table) -> Result<()> {
    match files.entries.first() {
        None => Ok(()),
        Some(entry) => {
            let message = format!("the root cgroup has no `{}` to set", entry.key);
            Err(Error::input(&entry.key_place, message))
        }
    }
}

fn check_file(entry: &Entry, kernel: &KernelSettings) -> Result<()> {
    let key = entry.key.as_str();
    if let Some((_, reason)) = REFUSED_FILES.iter().find(|(name, _)| *name == key) {
        return Err(Error::input(
            &entry.key_place,
            format!("`{key}` cannot be set: {reason}"),
        ));
    }
    let valid = names(&keys());
    if !valid.contains(&key) {
        return Err(unknown_key(entry, &valid, "a cgroup"));
    }
    let zero = file_text(&entry.value).is_ok_and(|text| text == "0");
    let burst = key == "cpu.max.burst" || key == "cpu.cfs_burst_us";
    let missing =
        (burst && !kernel.rules.burst) || (key == "cpu.idle" && !kernel.version.since(5, 15));
    let clamp = |name, none| key == name && read_clamp(&entry.value).is_ok_and(|it| it != none);
    let (least, most) = (uclamp::NONE.min, uclamp::NONE.max);
    if !kernel.rules.uclamp && (clamp("cpu.uclamp.min", least) || clamp("cpu.uclamp.max", most)) {
        let message =
            format!("ENOENT: this kernel is built without utilisation clamps and has no `{key}`");
        return Err(Error::input(&entry.key_place, message)
            .hint("`uclamp = true` in [kernel] builds it with them"));
    }
    // Zero is what a kernel without the file does anyway, so versions can be compared.
    if missing && !zero {
        let version = kernel.version;
        let message = match burst {
            true if version.since(5, 14) => {
                format!("ENOENT: kernel {version} without its patch `burst` has no `{key}`")
            }
            true => format!("ENOENT: kernel {version} has no `{key}`: 5.14 brought it"),
            false => format!("ENOENT: kernel {version} has no `{key}`: 5.15 brought it"),
        };
        return Err(Error::input(&entry.key_place, message));
    }
    Ok(())
}

/// The vocabulary of one layer: never both in one group, never one setting by two names.
fn one_vocabulary(files: &Table) -> Result<Option<CgroupVersion>> {
    let first = |keys: &[Key]| {
        let mut entries = files.entries.iter();
        entries.find(|entry| keys.iter().any(|key| key.name == entry.key))
    };
    let (v1, v2) = (first(&V1_FILES), first(&V2_FILES));
    if let (Some(v1), Some(v2)) = (v1, v2) {
        let later = if v1.key_place.span.start > v2.key_place.span.start {
            v1
        } else {
            v2
        };
        let message = format!("`{}` is a file of cgroup v1 and `{}` of v2", v1.key, v2.key);
        return Err(Error::input(&later.key_place, message).hint("use the names of one version"));
    }
    if let (Some(_), Some(nice)) = (files.get("cpu.weight"), files.entry("cpu.weight.nice")) {
        let message = "`cpu.weight` and `cpu.weight.nice` set the same weight";
        return Err(Error::input(&nice.key_place, message));
    }
    Ok(v1
        .map(|_| CgroupVersion::V1)
        .or(v2.map(|_| CgroupVersion::V2)))
}

/// The shell commands that take a group from one limit to another, in an order the kernel accepts
/// at every step: burst may never exceed quota, so a shrinking burst goes first and a growing one
/// last.
///
/// From `50000 100000` without burst to `100000 100000` with 50,000 us of burst:
///
/// ```text
/// echo "100000 100000" > cpu.max
/// echo 50000 > cpu.max.burst
/// ```
pub(crate) fn limit_commands(
    version: CgroupVersion,
    before: CpuLimits,
    after: CpuLimits,
) -> Vec<String> {
    let mut commands = Vec::new();
    if (after.quota_us, after.period_us) != (before.quota_us, before.period_us) {
        match version {
            CgroupVersion::V2 => {
                commands.push(format!("echo \"{}\" > cpu.max", after.cpu_max()));
            }
            CgroupVersion::V1 => {
                if after.period_us != before.period_us {
                    commands.push(format!("echo {} > cpu.cfs_period_us", after.period_us));
                }
                if after.quota_us != before.quota_us {
                    let quota = after
                        .quota_us
                        .map_or("-1".to_string(), |quota| quota.to_string());
                    commands.push(format!("echo {quota} > cpu.cfs_quota_us"));
                }
            }
        }
    }
    if after.burst_us != before.burst_us {
        let file = match version {
            CgroupVersion::V1 => "cpu.cfs_burst_us",
            CgroupVersion::V2 => "cpu.max.burst",
        };
        let command = format!("echo {} > {file}", after.burst_us);
        let old_burst_fits = after.quota_us.is_none_or(|quota| before.burst_us <= quota);
        commands.insert(if old_burst_fits { commands.len() } else { 0 }, command);
    }
    commands
}
