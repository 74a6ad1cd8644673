//! Topology of this machine and facts about its kernel, from sysfs and the kernel's own
//! configuration.
//!
//! A two-socket machine with two cores of two threads each shows CPUs 0–7. CPU 0 has package 0,
//! core 0, siblings `0,4`; its largest cache is shared by `0-1,4-5`. That gives sockets {0,1}, SMT
//! width 2 and two last-level-cache groups: {0,1,4,5} and {2,3,6,7}.

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use schedcast_base::cpu_list::{CpuList, Stride};

use crate::error::{HostError, Result, io_error, is_there, read_text, unexpected};

/// One online CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuInfo {
    /// Its number.
    pub cpu: usize,
    /// Physical package.
    pub socket: usize,
    /// Core within the package.
    pub core: usize,
    /// CPUs of the same core, itself included.
    pub siblings: Vec<usize>,
    /// CPUs with which it shares its largest cache, itself included.
    pub llc: Vec<usize>,
    /// NUMA node, 0 where the kernel knows no nodes.
    pub node: usize,
    /// Capacity as the scheduler sees it, 1024 for the largest.
    pub capacity: u32,
}

/// The online CPUs and how they are arranged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Online CPUs in ascending order.
    pub cpus: Vec<CpuInfo>,
    /// CPUs without scheduling domains (`isolcpus`), ascending.
    pub isolated: Vec<usize>,
    /// CPUs without a tick while one task runs (`nohz_full`), ascending.
    pub nohz_full: Vec<usize>,
    /// The idle driver and governor, "none" where there is none.
    pub idle_driver: String,
    /// See `idle_driver`.
    pub idle_governor: String,
    /// Idle states of the first CPU.
    pub idle_states: Vec<IdleState>,
}

/// One idle state as `cpuidle` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleState {
    /// Its name.
    pub name: String,
    /// Worst-case wake-up latency, µs.
    pub exit_latency_us: u64,
    /// Shortest stay that pays, µs.
    pub target_residency_us: u64,
    /// Whether it is switched off.
    pub disabled: bool,
}

impl Topology {
    /// Reads this machine.
    pub fn read() -> Result<Self> {
        Self::read_from(Path::new("/sys/devices/system"))
    }

    /// Reads a tree laid out like `/sys/devices/system`.
    pub(crate) fn read_from(system: &Path) -> Result<Self> {
        let online = system.join("cpu/online");
        let text = read_text(&online)?;
        let numbers = parse_cpu_list(&text).ok_or_else(|| bad_list(&online, &text))?;
        let cpus = numbers.iter().map(|cpu| read_cpu(system, *cpu));
        let cpus = cpus.collect::<Result<Vec<_>>>()?;
        refuse_overlap(system, &cpus)?;
        let word = |name: &str| {
            let text = read_text(&system.join("cpu/cpuidle").join(name));
            text.map_or("none".to_owned(), |text| text.trim().to_owned())
        };
        let first = numbers.first().copied().unwrap_or(0);
        // The files are there from 4.2 on, and empty without such CPUs.
        let list = |name: &str| {
            let text = read_text(&system.join("cpu").join(name)).unwrap_or_default();
            parse_cpu_list(&text).unwrap_or_default()
        };
        Ok(Self {
            cpus,
            isolated: list("isolated"),
            nohz_full: list("nohz_full"),
            idle_driver: word("current_driver"),
            idle_governor: word("current_governor_ro"),
            idle_states: read_idle_states(&system.join(format!("cpu/cpu{first}/cpuidle"))),
        })
    }

    /// Longest that a CPU polls before it halts; 0 where the governor is another than haltpoll.
    pub fn guest_halt_poll_ns(&self) -> u64 {
        let parameter = Path::new("/sys/module/haltpoll/parameters/guest_halt_poll_ns");
        let read = (self.idle_governor == "haltpoll").then(|| read_text(parameter).ok());
        let text = read.flatten().unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    /// Number of packages.
    pub(crate) fn sockets(&self) -> usize {
        distinct(self.cpus.iter().map(|cpu| cpu.socket)).len()
    }

    /// Most threads a core has.
    pub(crate) fn smt(&self) -> usize {
        let threads = self.cpus.iter().map(|cpu| cpu.siblings.len());
        threads.max().unwrap_or(1)
    }

    /// Groups of CPUs that share a last-level cache, in order of their first CPU.
    pub(crate) fn llc_groups(&self) -> Vec<Vec<usize>> {
        distinct(self.cpus.iter().map(|cpu| cpu.llc.clone()))
    }
}

fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort();
    values.dedup();
    values
}

/// Refuses a CPU that came or went while its description was read: its caches are not those that
/// its neighbours tell of.
fn refuse_overlap(system: &Path, cpus: &[CpuInfo]) -> Result<()> {
    for one in cpus {
        let is_parted = |other: &&CpuInfo| other.llc != one.llc && other.llc.contains(&one.cpu);
        if let Some(other) = cpus.iter().find(is_parted) {
            // The one that lacks a description is taken to share with its core alone.
            let (one, other) = match one.llc.len() < other.llc.len() {
                true => (one, other),
                false => (other, one),
            };
            let cache = system.join(format!("cpu/cpu{}/cache", one.cpu));
            let expected = "the last-level cache that all CPUs of it name; try again";
            let found = format!(
                "CPUs {:?}, and {:?} of CPU {}",
                one.llc, other.llc, other.cpu
            );
            return Err(unexpected(cache, 0, expected, found));
        }
    }
    Ok(())
}

fn read_cpu(system: &Path, cpu: usize) -> Result<CpuInfo> {
    let dir = system.join(format!("cpu/cpu{cpu}"));
    let topology = dir.join("topology");
    let siblings = read_cpus(&topology.join("thread_siblings_list"))?;
    Ok(CpuInfo {
        cpu,
        socket: read_number(&topology.join("physical_package_id"))?,
        core: read_number(&topology.join("core_id"))?,
        llc: read_llc(&dir.join("cache"))?.unwrap_or_else(|| siblings.clone()),
        siblings,
        node: read_node(&dir),
        capacity: read_number(&dir.join("cpu_capacity")).map_or(1024, |value| value as u32),
    })
}

/// The CPUs of the cache of the highest level that holds data; `None` where caches are not
/// described.
fn read_llc(cache: &Path) -> Result<Option<Vec<usize>>> {
    let mut best: Option<(usize, PathBuf)> = None;
    for index in 0.. {
        let dir = cache.join(format!("index{index}"));
        if !is_there(&dir)? {
            break;
        }
        let level = read_number(&dir.join("level"))?;
        let holds_data = read_text(&dir.join("type"))?.trim() != "Instruction";
        if holds_data && best.as_ref().is_none_or(|(known, _)| level > *known) {
            best = Some((level, dir));
        }
    }
    let shared = best.map(|(_, dir)| read_cpus(&dir.join("shared_cpu_list")));
    shared.transpose()
}

/// A CPU's directory holds a link `nodeN`.
fn read_node(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .find_map(|name| name.strip_prefix("node")?.parse().ok())
        .unwrap_or(0)
}

fn read_idle_states(dir: &Path) -> Vec<IdleState> {
    let state = |index: usize| {
        let dir = dir.join(format!("state{index}"));
        Some(IdleState {
            name: read_text(&dir.join("name")).ok()?.trim().to_owned(),
            exit_latency_us: read_number(&dir.join("latency")).ok()? as u64,
            target_residency_us: read_number(&dir.join("residency")).ok()? as u64,
            disabled: read_number(&dir.join("disable")).ok()? != 0,
        })
    };
    (0..).map_while(state).collect()
}

fn read_number(path: &Path) -> Result<usize> {
    let text = read_text(path)?;
    let number = text.trim().parse();
    number.map_err(|_| unexpected(path, 1, "a number", text))
}

fn read_cpus(path: &Path) -> Result<Vec<usize>> {
    let text = read_text(path)?;
    parse_cpu_list(&text).ok_or_else(|| bad_list(path, &text))
}

fn bad_list(path: &Path, text: &str) -> HostError {
    unexpected(path, 1, "a list of CPUs such as 0-3,8", text)
}

/// Reads a list of CPUs as sysfs prints it; no CPU is an empty line.
pub(crate) fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    // More than any kernel is built for: a bound keeps a damaged file from filling memory.
    const CPUS: u32 = 1 << 16;
    if text.trim().is_empty() {
        return Some(Vec::new());
    }
    let list = CpuList::parse(text, CPUS, Stride::UsedOfGroup).ok()?;
    Some(list.cpus().iter().map(|cpu| *cpu as usize).collect())
}

/// Facts about the running kernel. Fields are `None` where the host does not tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelInfo {
    /// As `uname -r` prints it.
    pub release: String,
    /// Ticks a second.
    pub hz: Option<u32>,
    /// "none", "voluntary", "full" or "lazy": the boot parameter, else the configured default.
    pub preempt: Option<&'static str>,
    /// Whether that can be chosen at boot (PREEMPT_DYNAMIC).
    pub preempt_dynamic: Option<bool>,
    /// CONFIG_IRQ_TIME_ACCOUNTING.
    pub irq_time_accounting: Option<bool>,
    /// CONFIG_UCLAMP_TASK.
    pub uclamp: Option<bool>,
    /// Whether automatic groups are on.
    pub autogroup: Option<bool>,
}

impl KernelInfo {
    /// Reads the running kernel.
    pub fn read() -> Result<Self> {
        let release = read_text(Path::new("/proc/sys/kernel/osrelease"))?;
        let release = release.trim().to_owned();
        let config = read_config(&release)?;
        let has = |option: &str| {
            let config = config.as_deref()?;
            Some(config_value(config, option) == Some("y"))
        };
        let boot = read_text(Path::new("/proc/cmdline"))?;
        let autogroup = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").ok();
        Ok(Self {
            hz: config.as_deref().and_then(config_hz),
            preempt: preempt_from_boot(&boot)
                .or_else(|| config.as_deref().and_then(preempt_from_config)),
            preempt_dynamic: has("CONFIG_PREEMPT_DYNAMIC"),
            irq_time_accounting: has("CONFIG_IRQ_TIME_ACCOUNTING"),
            uclamp: has("CONFIG_UCLAMP_TASK"),
            autogroup: autogroup.map(|text| text.trim() == "1"),
            release,
        })
    }
}

/// The kernel's build configuration: `/proc/config.gz`, else the distribution's file in `/boot`.
fn read_config(release: &str) -> Result<Option<String>> {
    let packed = Path::new("/proc/config.gz");
    if let Ok(file) = std::fs::File::open(packed) {
        let mut text = String::new();
        GzDecoder::new(file)
            .read_to_string(&mut text)
            .map_err(|error| io_error("unpacking", packed, error))?;
        return Ok(Some(text));
    }
    Ok(std::fs::read_to_string(format!("/boot/config-{release}")).ok())
}

fn config_value<'a>(config: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = config.lines();
    lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
}

pub(crate) fn config_hz(config: &str) -> Option<u32> {
    config_value(config, "CONFIG_HZ")?.parse().ok()
}

/// The default model. Under PREEMPT_DYNAMIC the same options name the model chosen at boot.
pub(crate) fn preempt_from_config(config: &str) -> Option<&'static str> {
    [
        ("CONFIG_PREEMPT_NONE", "none"),
        ("CONFIG_PREEMPT_VOLUNTARY", "voluntary"),
        ("CONFIG_PREEMPT_LAZY", "lazy"),
        ("CONFIG_PREEMPT", "full"),
    ]
    .into_iter()
    .find(|(key, _)| config_value(config, key) == Some("y"))
    .map(|(_, model)| model)
}

fn preempt_from_boot(boot: &str) -> Option<&'static str> {
    let chosen = boot
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("preempt="))
        .next_back()?;
    ["none", "voluntary", "full", "lazy"]
        .into_iter()
        .find(|model| *model == chosen)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fake::write;
    use schedcast_base::assert_contains;

    /// The machine of the module's example: 2 sockets × 2 cores × 2 threads.
    fn example() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "cpu/online", "0-7\n");
        for cpu in 0..8usize {
            let put = |file: &str, text: &str| {
                write(root.path(), &format!("cpu/cpu{cpu}/{file}"), text);
            };
            let (core, socket) = (cpu % 4 % 2, cpu % 4 / 2);
            put("topology/physical_package_id", &format!("{socket}\n"));
            put("topology/core_id", &format!("{core}\n"));
            let siblings = format!("{},{}\n", cpu % 4, cpu % 4 + 4);
            put("topology/thread_siblings_list", &siblings);
            put("cache/index0/level", "1\n");
            put("cache/index0/type", "Data\n");
            put("cache/index0/shared_cpu_list", &siblings);
            put("cache/index1/level", "3\n");
            put("cache/index1/type", "Unified\n");
            let [a, b, c, d] = [0, 1, 4, 5].map(|cpu| 2 * socket + cpu);
            let llc = format!("{a}-{b},{c}-{d}\n");
            put("cache/index1/shared_cpu_list", &llc);
            put(&format!("node{socket}/x"), "");
        }
        for (file, text) in [
            ("name", "C1"),
            ("latency", "2"),
            ("residency", "3"),
            ("disable", "0"),
        ] {
            write(
                root.path(),
                &format!("cpu/cpu0/cpuidle/state0/{file}"),
                &format!("{text}\n"),
            );
        }
        write(root.path(), "cpu/cpuidle/current_driver", "intel_idle\n");
        root
    }

    #[test]
    fn a_two_socket_smt_machine_is_read() {
        let root = example();
        let topology = Topology::read_from(root.path()).unwrap();
        assert_eq!(topology.cpus.len(), 8);
        assert_eq!(topology.sockets(), 2);
        assert_eq!(topology.smt(), 2);
        assert_eq!(topology.llc_groups(), [vec![0, 1, 4, 5], vec![2, 3, 6, 7]]);
        assert_eq!(topology.cpus[6].node, 1);
        assert_eq!(topology.cpus[6].capacity, 1024);
        assert_eq!(topology.idle_driver, "intel_idle");
        assert_eq!(topology.idle_governor, "none");
        assert_eq!(topology.idle_states[0].target_residency_us, 3);
    }

    #[test]
    fn machines_without_cache_descriptions_share_by_core() {
        let root = example();
        for cpu in 0..8 {
            fs::remove_dir_all(root.path().join(format!("cpu/cpu{cpu}/cache"))).unwrap();
        }
        let topology = Topology::read_from(root.path()).unwrap();
        assert_eq!(topology.llc_groups().len(), 4);
    }

    #[test]
    fn a_cpu_whose_caches_are_gone_while_others_name_it_is_refused() {
        let root = example();
        fs::remove_dir_all(root.path().join("cpu/cpu5/cache")).unwrap();
        let error = Topology::read_from(root.path()).unwrap_err().to_string();
        let expected = "found \"CPUs [1, 5], and [0, 1, 4, 5] of CPU 1\"";
        assert_contains(&error, "cpu5/cache");
        assert_contains(&error, expected);
    }

    #[test]
    fn an_empty_line_lists_no_cpus() {
        assert_eq!(parse_cpu_list("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_cpu_list("\n"), Some(vec![]));
        assert_eq!(parse_cpu_list("0-70000"), None);
    }

    #[test]
    fn a_damaged_file_is_refused_with_its_path() {
        let root = example();
        write(root.path(), "cpu/cpu3/topology/core_id", "x\n");
        let error = Topology::read_from(root.path()).unwrap_err().to_string();
        assert_contains(&error, "cpu3/topology/core_id:1: expected a number");
    }

    #[test]
    fn kernel_configuration_names_hz_and_preemption() {
        let config = "# CONFIG_HZ_100 is not set\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n\
                      CONFIG_PREEMPT_BUILD=y\nCONFIG_PREEMPT_NONE=y\nCONFIG_PREEMPT_DYNAMIC=y\n";
        assert_eq!(config_hz(config), Some(250));
        assert_eq!(preempt_from_config(config), Some("none"));
        assert_eq!(preempt_from_config("CONFIG_PREEMPT=y\n"), Some("full"));
        assert_eq!(preempt_from_boot("quiet preempt=full x"), Some("full"));
        assert_eq!(preempt_from_boot("quiet"), None);
        assert_eq!(preempt_from_boot("preempt=odd"), None);
    }
}
