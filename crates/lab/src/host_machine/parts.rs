//! Sections of a machine description from this machine's sysfs.

use std::collections::BTreeMap;

use schedcast_host::{CpuFrequency, Topology};
use schedcast_sim::machine::PRESETS;
use toml::{Table, Value};

use super::parse;
use crate::error::Result;

/// Idle drivers whose tables say how long their states take to leave. Those of virtual machines do
/// not: what leaving takes there is measured as a whole.
const IDLE_DRIVERS: [&str; 2] = ["intel_idle", "acpi_idle"];
/// Clocks are rounded to this, MHz.
const STEP_MHZ: u64 = 100;

/// `[topology]`, `[idle]` and `[frequency]` as far as there are any.
pub(super) fn live(topology: &Topology) -> Result<Table> {
    let mut live = Table::new();
    live.insert("topology".into(), Value::Table(topology_section(topology)));
    if let Some(idle) = idle_section(topology) {
        live.insert("idle".into(), Value::Table(idle));
    }
    let clocks = CpuFrequency::read();
    if let Some(clocks) = clocks
        .as_ref()
        .and_then(|read| frequency_section(read).transpose())
    {
        live.insert("frequency".into(), Value::Table(clocks?));
    }
    Ok(live)
}

/// Numbers things in the order in which they are first seen.
struct Numbers<T>(BTreeMap<T, i64>);

impl<T: Ord> Numbers<T> {
    const fn new() -> Self {
        Self(BTreeMap::new())
    }

    fn of(&mut self, thing: T) -> i64 {
        let next = self.0.len() as i64;
        *self.0.entry(thing).or_insert(next)
    }
}

fn topology_section(topology: &Topology) -> Table {
    let (mut cores, mut llcs) = (Numbers::new(), Numbers::new());
    let (mut nodes, mut sockets) = (Numbers::new(), Numbers::new());
    let mut cpus = Vec::new();
    for cpu in &topology.cpus {
        let numbers = [
            ("core", cores.of((cpu.socket, cpu.siblings.clone()))),
            ("llc", llcs.of(cpu.llc.clone())),
            ("node", nodes.of(cpu.node)),
            ("socket", sockets.of(cpu.socket)),
        ];
        let row = numbers.map(|(key, number)| (key.to_owned(), Value::Integer(number)));
        cpus.push(Value::Table(row.into_iter().collect()));
    }
    let mut section = Table::new();
    section.insert("cpu".into(), Value::Array(cpus));
    // Offline CPUs have no row.
    let row_of = |cpu: &usize| topology.cpus.iter().position(|one| one.cpu == *cpu);
    let lists = [
        ("isolated", &topology.isolated),
        ("nohz_full", &topology.nohz_full),
    ];
    for (key, cpus) in lists {
        let rows = cpus.iter().filter_map(row_of);
        let rows: Vec<String> = rows.map(|row| row.to_string()).collect();
        if !rows.is_empty() {
            section.insert(key.into(), Value::String(rows.join(",")));
        }
    }
    let largest = topology.cpus.iter().map(|cpu| cpu.capacity).max();
    if topology
        .cpus
        .iter()
        .any(|cpu| Some(cpu.capacity) != largest)
    {
        let capacities = topology.cpus.iter();
        let capacities = capacities.map(|cpu| Value::Integer(i64::from(cpu.capacity)));
        section.insert(
            "capacities_1024ths".into(),
            Value::Array(capacities.collect()),
        );
    }
    section
}

fn idle_section(topology: &Topology) -> Option<Table> {
    let driver = topology.idle_driver.as_str();
    let governor = topology.idle_governor.as_str();
    let known = ["menu", "teo", "haltpoll"].contains(&governor);
    let states: Vec<_> = topology
        .idle_states
        .iter()
        .filter(|state| !state.disabled)
        .collect();
    if !IDLE_DRIVERS.contains(&driver) || !known || states.len() < 2 {
        return None;
    }
    let ns = |us: u64| Value::Integer(i64::try_from(us.saturating_mul(1000)).unwrap_or(i64::MAX));
    let rows = states.iter().map(|state| {
        let polls = state.name == "POLL";
        let wakes_by = if polls { "polling" } else { "monitor" };
        let mut row = Table::new();
        row.insert("name".into(), state.name.clone().into());
        row.insert("exit_latency_ns".into(), ns(state.exit_latency_us));
        row.insert("target_residency_ns".into(), ns(state.target_residency_us));
        row.insert("wakes_by".into(), wakes_by.into());
        Value::Table(row)
    });
    let mut section = Table::new();
    section.insert("governor".into(), governor.into());
    section.insert("state".into(), Value::Array(rows.collect()));
    Some(section)
}

/// `None`: a driver or governor that is not modelled.
fn frequency_section(read: &CpuFrequency) -> Result<Option<Table>> {
    let driver = read.driver.as_str();
    let active = driver == "intel_pstate";
    let drivers = [
        "intel_pstate",
        "intel_cpufreq",
        "acpi-cpufreq",
        "powernv-cpufreq",
    ];
    let governors: &[&str] = match active {
        true => &["performance", "powersave"],
        false => &["performance", "powersave", "schedutil", "ondemand"],
    };
    if !drivers.contains(&driver) || !governors.contains(&read.governor.as_str()) {
        return Ok(None);
    }
    let mhz = |khz: u64| (khz / 1000 / STEP_MHZ * STEP_MHZ).max(STEP_MHZ) as i64;
    let (min, turbo) = (mhz(read.min_khz), mhz(read.max_khz));
    let base = read.base_khz.map_or(turbo, mhz).clamp(min, turbo.max(min));
    let mut section = Table::new();
    for (key, value) in [
        // Prices were measured on a busy machine, at its highest clock.
        ("nominal_mhz", turbo),
        ("min_mhz", min),
        ("base_mhz", base),
        ("turbo_mhz", turbo.max(base)),
        ("step_mhz", STEP_MHZ as i64),
        ("transition_ns", 30_000),
        ("announced_latency_ns", read.transition_ns as i64),
    ] {
        section.insert(key.into(), Value::Integer(value));
    }
    let domain = if read.policy_cpus > 1 {
        "package"
    } else {
        "core"
    };
    section.insert("domain".into(), domain.into());
    section.insert("sleeping_cpus_vote".into(), false.into());
    section.insert("policy_per_domain".into(), (read.policy_cpus > 1).into());
    section.insert("aperf_mperf".into(), (driver != "powernv-cpufreq").into());
    section.insert("driver".into(), driver.into());
    section.insert("governor".into(), read.governor.as_str().into());
    if let (true, Some(preference)) = (active, &read.preference) {
        section.insert("hwp".into(), Value::Table(hwp_section(preference)?));
    }
    Ok(Some(section))
}

/// The hardware's own constants are not told; those of the preset of an HWP desktop stand in.
fn hwp_section(preference: &str) -> Result<Table> {
    const DESKTOP: &str = "hwp-desktop-8";
    let text = PRESETS.iter().find(|(name, _)| *name == DESKTOP);
    let desktop = parse(DESKTOP, text.map_or("", |(_, text)| text))?;
    let hwp = desktop.get("frequency").and_then(|part| part.get("hwp"));
    let mut section = hwp.and_then(Value::as_table).cloned().unwrap_or_default();
    let byte = match preference {
        "performance" => 0,
        "balance_power" => 192,
        "power" => 255,
        number => number.parse().unwrap_or(128),
    };
    section.insert("preference".into(), Value::Integer(byte));
    Ok(section)
}

#[cfg(test)]
mod tests {
    use schedcast_host::{CpuInfo, IdleState};
    use schedcast_sim::Machine;

    use super::*;

    fn machine(parts: Table) -> Machine {
        let mut table = parse("base", super::super::base()).unwrap();
        table.remove("topology");
        table.extend(parts);
        Machine::from_table("test", table).unwrap()
    }

    /// Two sockets of two cores of two threads, as sysfs numbers them.
    fn two_sockets() -> Topology {
        let cpu = |cpu: usize| {
            let first = cpu % 4;
            let socket = first / 2;
            CpuInfo {
                cpu,
                socket,
                core: first % 2,
                siblings: vec![first, first + 4],
                llc: vec![2 * socket, 2 * socket + 1, 2 * socket + 4, 2 * socket + 5],
                // Nodes need not be numbered without gaps.
                node: 2 * socket,
                capacity: 1024,
            }
        };
        let state = |name: &str, exit_latency_us, target_residency_us| IdleState {
            name: name.into(),
            exit_latency_us,
            target_residency_us,
            disabled: false,
        };
        Topology {
            cpus: (0..8).map(cpu).collect(),
            isolated: vec![3, 7],
            nohz_full: vec![2, 3],
            idle_driver: "intel_idle".into(),
            idle_governor: "menu".into(),
            idle_states: vec![
                state("POLL", 0, 0),
                state("C1", 2, 2),
                state("C6", 133, 600),
            ],
        }
    }

    #[test]
    fn places_follow_siblings_caches_and_nodes() {
        let machine = machine(live_without_clocks(&two_sockets()));
        let places = &machine.topology.places;
        assert_eq!(places.len(), 8);
        assert_eq!(places[0].core, places[4].core);
        assert_ne!(places[0].core, places[1].core);
        assert_eq!(places[1].llc, places[5].llc);
        assert_ne!(places[1].llc, places[2].llc);
        assert_eq!((places[2].node, places[3].socket), (1, 1));
        let isolated = machine.topology.isolated.iter();
        assert_eq!(isolated.map(|cpu| cpu.0).collect::<Vec<_>>(), [3, 7]);
        let without_tick = machine.topology.nohz_full.iter();
        assert_eq!(without_tick.map(|cpu| cpu.0).collect::<Vec<_>>(), [2, 3]);
        let idle = machine.idle.unwrap();
        assert_eq!(idle.state[2].exit_latency_ns, 133_000);
    }

    #[test]
    fn idle_states_of_virtual_machines_are_not_believed() {
        let mut topology = two_sockets();
        topology.idle_driver = "haltpoll".into();
        assert_eq!(machine(live_without_clocks(&topology)).idle, None);
    }

    #[test]
    fn clocks_of_hardware_that_chooses_p_states() {
        let read = CpuFrequency {
            driver: "intel_pstate".into(),
            governor: "powersave".into(),
            min_khz: 800_000,
            max_khz: 5_090_000,
            base_khz: Some(3_600_000),
            policy_cpus: 1,
            transition_ns: 0,
            preference: Some("power".into()),
        };
        let mut parts = live_without_clocks(&two_sockets());
        let section = frequency_section(&read).unwrap().unwrap();
        parts.insert("frequency".into(), Value::Table(section));
        let clocks = machine(parts).frequency.unwrap();
        assert_eq!(
            (clocks.min_mhz, clocks.base_mhz, clocks.turbo_mhz),
            (800, 3600, 5000)
        );
        assert_eq!(clocks.hwp.unwrap().preference, 255);
        let other = CpuFrequency {
            driver: "amd-pstate-epp".into(),
            ..read
        };
        assert_eq!(frequency_section(&other).unwrap(), None);
    }

    fn live_without_clocks(topology: &Topology) -> Table {
        let mut live = Table::new();
        live.insert("topology".into(), Value::Table(topology_section(topology)));
        if let Some(idle) = idle_section(topology) {
            live.insert("idle".into(), Value::Table(idle));
        }
        live
    }
}
