//! Check of the features that work on this host, and of what each missing permission would add.
//!
//! Nothing is changed and nothing is started: files are looked at and opened, never written. Worked
//! example: in an unprivileged container with cgroup v2 the cpu controller is there but its files
//! cannot be written, so `top` works and `apply` does not; tracefs is not mounted, so `record` has
//! no events and says which mount would give them.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::hierarchy::{CgroupVersion, CpuHierarchy};
use crate::record::{Rights, VMLINUX, lockdown};

schedcast_base::named! {
    /// How much of something there is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum State {
        /// All of it.
        Yes = "yes",
        /// Less than there could be.
        Partly = "partly",
        /// Nothing.
        No = "no",
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The facility, or the verb.
    pub what: &'static str,
    /// Whether it is there.
    pub state: State,
    /// The state in words.
    pub found: String,
    /// Remedy and its gain; empty where nothing is missing.
    pub missing: String,
}

impl Finding {
    fn new(what: &'static str, (state, found, missing): Look) -> Self {
        Self {
            what,
            state,
            found,
            missing,
        }
    }
}

/// State of a facility, in words, and what is missing.
type Look = (State, String, String);

fn yes(found: impl Into<String>) -> Look {
    (State::Yes, found.into(), String::new())
}

fn partly(found: impl Into<String>, missing: impl Into<String>) -> Look {
    (State::Partly, found.into(), missing.into())
}

fn no(found: impl Into<String>, missing: impl Into<String>) -> Look {
    (State::No, found.into(), missing.into())
}

/// Facilities of the host, then the verbs that need them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Facilities that the kernel and this process's permissions offer.
    pub facilities: Vec<Finding>,
    /// Which verbs work with that.
    pub verbs: Vec<Finding>,
}

/// Capabilities that make a difference: bit in `CapEff` and name
/// (`include/uapi/linux/capability.h`).
const CAPABILITIES: [(u32, &str); 6] = [
    (1, "CAP_DAC_OVERRIDE"),
    (19, "CAP_SYS_PTRACE"),
    (21, "CAP_SYS_ADMIN"),
    (23, "CAP_SYS_NICE"),
    (38, "CAP_PERFMON"),
    (39, "CAP_BPF"),
];

/// Folders that name containers and pods, below the root.
const NAMES: [&str; 5] = [
    "var/log/pods",
    "var/log/containers",
    "var/lib/docker/containers",
    "run/containerd/io.containerd.runtime.v2.task",
    "var/lib/containers/storage/overlay-containers",
];

/// Looks at the host whose files are below `root` (`/`, but for tests) and whose cpu controller is
/// `hierarchy`.
pub fn check(root: &Path, hierarchy: Option<&CpuHierarchy>) -> Checked {
    let host = Host { root };
    let facilities = [
        ("kernel", host.kernel()),
        (CONTROLLER, host.cgroups(hierarchy)),
        (BANDWIDTH, host.bandwidth(hierarchy)),
        (WRITABLE, host.limits_can_be_written(hierarchy)),
        (TRACEFS, host.tracefs()),
        ("bpf", host.bpf()),
        ("perf", host.perf()),
        ("capabilities", host.capabilities()),
        ("cpufreq", host.frequency()),
        ("pressure", host.pressure()),
        ("names", host.names()),
    ];
    let facilities = facilities.map(|(what, look)| Finding::new(what, look));
    Checked {
        verbs: verbs(&facilities, host.is_root()),
        facilities: facilities.into(),
    }
}

/// Facilities that verbs need.
const CONTROLLER: &str = "cpu controller";
const BANDWIDTH: &str = "bandwidth";
const WRITABLE: &str = "limits writable";
const TRACEFS: &str = "tracefs";

fn verbs(facilities: &[Finding], is_root: bool) -> Vec<Finding> {
    let has = |what: &str| {
        let mut found = facilities.iter().filter(|one| one.state != State::No);
        found.any(|one| one.what == what)
    };
    let needing = |needed: &[&'static str]| -> Look {
        let lacking: Vec<&str> = needed.iter().copied().filter(|one| !has(one)).collect();
        match lacking.is_empty() {
            true => yes(""),
            false => no("", format!("needs {}", lacking.join(", "))),
        }
    };
    let open: Vec<&str> = [TRACEFS, "bpf", "perf"]
        .into_iter()
        .filter(|one| has(one))
        .collect();
    let record = match (has(CONTROLLER), open.is_empty()) {
        (false, _) => no("", "needs the cpu controller"),
        (true, false) => yes(format!("by {}", open.join(", "))),
        (true, true) => no(
            "",
            "needs tracefs, bpf or perf; `record --unprivileged` and `schedcast counters` answer with ranges",
        ),
    };
    let calibrate = match is_root && has(TRACEFS) {
        true => yes(""),
        false => no("", "needs root and tracefs"),
    };
    let everywhere = yes("everywhere: they need a recording or an experiment, and no rights");
    let verbs = [
        ("what-if, advise, check, run, counters", everywhere),
        ("top", needing(&[CONTROLLER, BANDWIDTH])),
        ("apply, undo", needing(&[CONTROLLER, BANDWIDTH, WRITABLE])),
        ("record", record),
        ("calibrate", calibrate),
    ];
    verbs.map(|(what, look)| Finding::new(what, look)).into()
}

struct Host<'a> {
    root: &'a Path,
}

impl Host<'_> {
    fn text(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim_end().to_owned())
    }

    fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    fn kernel(&self) -> Look {
        match self.text("proc/sys/kernel/osrelease") {
            Some(release) => yes(release),
            None => no("", "mount /proc: nothing can be told without it"),
        }
    }

    /// Effective capabilities, as bits; none where they cannot be read.
    fn effective(&self) -> u64 {
        let status = self.text("proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
            .unwrap_or(0)
    }

    fn is_root(&self) -> bool {
        let status = self.text("proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let effective = line.and_then(|ids| ids.split_whitespace().nth(1).map(str::to_owned));
        effective.as_deref() == Some("0")
    }

    fn capabilities(&self) -> Look {
        let bits = self.effective();
        let names = |has: bool| {
            let chosen = CAPABILITIES
                .iter()
                .filter(|(bit, _)| (bits >> bit & 1 == 1) == has);
            chosen.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
        };
        let (have, lack) = (names(true), format!("without {}", names(false)));
        match (have.is_empty(), names(false).is_empty()) {
            (_, true) => yes(have),
            (true, _) => no(have, lack),
            _ => partly(have, lack),
        }
    }

    fn cgroups(&self, hierarchy: Option<&CpuHierarchy>) -> Look {
        match hierarchy {
            Some(tree) => {
                let both = tree.version() == CgroupVersion::V1 && self.has_second_tree();
                let hybrid = if both { ", hybrid" } else { "" };
                let at = tree.mount().display();
                let found = format!("cgroup {}{hybrid} at {at}", tree.version().name());
                yes(found)
            }
            None => no(
                "",
                "mount a cgroup file system that lists cpu: top, record and apply would work",
            ),
        }
    }

    fn has_second_tree(&self) -> bool {
        let mounts = self.text("proc/mounts").unwrap_or_default();
        mounts
            .lines()
            .any(|line| line.split(' ').nth(2) == Some("cgroup2"))
    }

    fn bandwidth(&self, hierarchy: Option<&CpuHierarchy>) -> Look {
        let Some(tree) = hierarchy else {
            return no("", "needs the cpu controller");
        };
        let (quota, burst) = limit_files(tree);
        let Some(dir) = group_with(tree.mount(), quota) else {
            return no(
                format!("no group has {quota}"),
                "a kernel with CONFIG_CFS_BANDWIDTH, and on v2 a group whose parent has +cpu in cgroup.subtree_control",
            );
        };
        match dir.join(burst).exists() {
            true => yes(format!("{quota}, {burst}")),
            false => partly(quota, "a kernel from 5.14 on would add burst"),
        }
    }

    fn limits_can_be_written(&self, hierarchy: Option<&CpuHierarchy>) -> Look {
        let file = hierarchy.and_then(|tree| {
            let (quota, _) = limit_files(tree);
            Some(group_with(tree.mount(), quota)?.join(quota))
        });
        match file {
            // Opening does not write.
            Some(file) => match OpenOptions::new().write(true).open(&file) {
                Ok(_) => yes(""),
                Err(error) => no(
                    format!("{}: {error}", file.display()),
                    "root, a delegated group, or a cgroup mount that is not read-only: apply would work",
                ),
            },
            None => no("", "needs a group with a limit's files"),
        }
    }

    fn tracefs(&self) -> Look {
        if let Some(why) = lockdown(self.root) {
            return no(why, "record would work");
        }
        let mut known = ["sys/kernel/tracing", "sys/kernel/debug/tracing"].into_iter();
        let Some(at) = known.find(|at| self.has(&format!("{at}/tracing_on"))) else {
            // The mount table names what only root may look into.
            let mounts = self.text("proc/self/mounts").unwrap_or_default();
            let mut mounted = mounts.lines().filter_map(|line| {
                let mut words = line.split_whitespace().skip(1);
                let at = words.next()?;
                (words.next()? == "tracefs").then_some(at)
            });
            if let (Some(at), false) = (mounted.next(), self.is_root()) {
                let found = format!("mounted at {at}, where only root may look");
                return no(found, "root: record would work");
            }
            if self.is_root() && self.effective() >> 21 & 1 == 1 {
                return yes("is mounted privately while recording");
            }
            let remedy =
                "mount it: mount -t tracefs tracefs /sys/kernel/tracing; record would work";
            return no("not mounted to be seen here", remedy);
        };
        if !self.has(&format!("{at}/events/sched/sched_switch")) {
            return no(
                format!("/{at} has no events/sched/sched_switch"),
                "a kernel with CONFIG_SCHED_TRACER or CONFIG_FTRACE: record would work",
            );
        }
        let switch = self.root.join(at).join("tracing_on");
        match OpenOptions::new().write(true).open(switch) {
            Ok(_) => yes(format!("/{at}")),
            Err(error) => no(format!("/{at}: {error}"), "root: record would work"),
        }
    }

    fn perf(&self) -> Look {
        let Some(level) = self.text("proc/sys/kernel/perf_event_paranoid") else {
            return no("this kernel has no perf events", "");
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders = std::env::split_paths(&path);
        let installed = folders.any(|folder| folder.join("perf").is_file());
        let bits = self.effective();
        let privileged = bits >> 38 & 1 == 1 || bits >> 21 & 1 == 1;
        let allowed = privileged || level.parse::<i32>().is_ok_and(|level| level <= -1);
        let found = format!("perf_event_paranoid {level}");
        match (installed, allowed) {
            (true, true) => yes(found),
            (false, _) => no(
                found + ", no program perf",
                "install perf: record would work where tracefs is closed",
            ),
            (true, false) => no(
                found,
                "CAP_PERFMON or kernel.perf_event_paranoid=-1, and tracefs' event files: record without root",
            ),
        }
    }

    fn bpf(&self) -> Look {
        match Rights::read(self.root).refusal() {
            None => yes(format!("types in {VMLINUX}")),
            Some(why) => no(
                why,
                "record would work without root and tracefs, and leave out what has nothing to do with the group",
            ),
        }
    }

    fn frequency(&self) -> Look {
        let cpu = "sys/devices/system/cpu/cpu0/cpufreq";
        let read = |file: &str| self.text(&format!("{cpu}/{file}"));
        match (read("scaling_driver"), read("scaling_governor")) {
            (Some(driver), governor) => {
                let governor = governor.unwrap_or_default();
                yes(format!("{driver} {governor}"))
            }
            _ => no(
                "",
                "on bare metal a driver would tell the clock's governor; virtual machines have none",
            ),
        }
    }

    fn pressure(&self) -> Look {
        match self.text("proc/pressure/cpu") {
            Some(_) => yes("/proc/pressure/cpu"),
            None => no("", "psi=1 at boot, with CONFIG_PSI"),
        }
    }

    fn names(&self) -> Look {
        let readable = |folder: &&&str| fs::read_dir(self.root.join(folder)).is_ok();
        let found = NAMES.iter().filter(readable);
        let found: Vec<String> = found.map(|at| format!("/{at}")).collect();
        match found.is_empty() {
            false => yes(found.join(", ")),
            true => partly(
                "units and ids, from the paths of groups",
                "readable files of kubelet or a container runtime would add names of pods and containers",
            ),
        }
    }
}

/// Files of quota and burst.
fn limit_files(tree: &CpuHierarchy) -> (&'static str, &'static str) {
    match tree.version() {
        CgroupVersion::V1 => ("cpu.cfs_quota_us", "cpu.cfs_burst_us"),
        CgroupVersion::V2 => ("cpu.max", "cpu.max.burst"),
    }
}

/// The first group in or below `dir` that has this file, a few levels deep.
fn group_with(dir: &Path, file: &str) -> Option<PathBuf> {
    let mut level = vec![dir.to_owned()];
    for _ in 0..4 {
        if let Some(found) = level.iter().find(|dir| dir.join(file).is_file()) {
            return Some(found.clone());
        }
        let below = level
            .iter()
            .flat_map(|dir| fs::read_dir(dir).into_iter().flatten());
        let mut next: Vec<PathBuf> = below
            .filter_map(|entry| entry.ok())
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.path())
            .collect();
        next.sort();
        level = next;
    }
    None
}

impl Checked {
    /// The findings for programs, `schedcast.self/1`.
    pub fn json(&self) -> Value {
        let list = |findings: &[Finding]| -> Vec<Value> {
            let one = |one: &Finding| {
                json!({
                    "what": one.what,
                    "state": one.state.name(),
                    "found": one.found,
                    "missing": one.missing,
                })
            };
            findings.iter().map(one).collect()
        };
        json!({
            "schema": "schedcast.self/1",
            "facilities": list(&self.facilities),
            "verbs": list(&self.verbs),
        })
    }

    /// The findings for people.
    pub fn text(&self) -> String {
        let all = || self.facilities.iter().chain(&self.verbs);
        let width = all().map(|one| one.what.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for (index, one) in all().enumerate() {
            if index == self.facilities.len() {
                text.push('\n');
            }
            let line = format!(
                "{:width$}  {:<6}  {}",
                one.what,
                one.state.name(),
                one.found
            );
            text += line.trim_end();
            text.push('\n');
            if !one.missing.is_empty() {
                text += &format!("{:width$}          {}\n", "", one.missing);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::write;
    use schedcast_base::assert_contains;

    fn state(checked: &Checked, what: &str) -> State {
        let mut all = checked.facilities.iter().chain(&checked.verbs);
        all.find(|one| one.what == what).unwrap().state
    }

    #[test]
    fn a_node_with_everything_needs_nothing() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path();
        write(at, "proc/sys/kernel/osrelease", "6.18.44\n");
        let status = "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n";
        write(at, "proc/self/status", status);
        write(at, "cgroup/system.slice/cpu.max", "max 100000\n");
        write(at, "cgroup/system.slice/cpu.max.burst", "0\n");
        write(at, "sys/kernel/tracing/tracing_on", "1\n");
        write(at, "sys/kernel/tracing/events/sched/sched_switch/id", "1\n");
        write(at, "var/log/pods/shop_web_1/x", "");
        let tree = CpuHierarchy::at(CgroupVersion::V2, at.join("cgroup"));
        let checked = check(at, Some(&tree));
        for what in [BANDWIDTH, WRITABLE, TRACEFS, "capabilities", "names"] {
            assert_eq!(state(&checked, what), State::Yes, "{what}: {checked:?}");
        }
        for what in ["top", "apply, undo", "record", "calibrate"] {
            assert_eq!(state(&checked, what), State::Yes, "{what}: {checked:?}");
        }
        assert_eq!(checked.json()["schema"], "schedcast.self/1");
    }

    /// The mount table tells everybody, and the folder nobody but root.
    #[test]
    fn tracefs_that_only_root_sees_is_mounted() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path();
        write(at, "proc/self/status", "Uid:\t7\t7\t7\t7\nCapEff:\t0\n");
        let told = || {
            let checked = check(at, None);
            let mut all = checked.facilities.into_iter();
            let found = all.find(|one| one.what == "tracefs").unwrap();
            format!("{}; {}", found.found, found.missing)
        };
        assert!(told().contains("mount it"), "{}", told());
        let mounts = "proc /proc proc rw 0 0\ntracefs /sys/kernel/tracing tracefs rw 0 0\n";
        write(at, "proc/self/mounts", mounts);
        assert_eq!(
            told(),
            "mounted at /sys/kernel/tracing, where only root may look; root: record would work"
        );
    }

    #[test]
    fn what_is_missing_says_what_it_would_add() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path();
        let status = "Uid:\t7\t7\t7\t7\nCapEff:\t0000004000000000\n";
        write(at, "proc/self/status", status);
        write(at, "cgroup/a/cpu.max", "max 100000\n");
        let lockdown = "none integrity [confidentiality]\n";
        write(at, "sys/kernel/security/lockdown", lockdown);
        let tree = CpuHierarchy::at(CgroupVersion::V2, at.join("cgroup"));
        let checked = check(at, Some(&tree));
        for (what, expected) in [
            // No burst before 5.14.
            (BANDWIDTH, State::Partly),
            // CAP_PERFMON alone.
            ("capabilities", State::Partly),
            (TRACEFS, State::No),
            ("record", State::No),
            ("top", State::Yes),
        ] {
            assert_eq!(state(&checked, what), expected, "{what}");
        }
        let text = checked.text();
        assert!(text.contains("lockdown=integrity"), "{text}");
        let without = check(at, None);
        assert_eq!(state(&without, "top"), State::No);
        assert_contains(without.text(), "needs cpu controller, bandwidth");
    }
}
