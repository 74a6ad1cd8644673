//! Descriptions of machines as TOML.

use super::parts::{Frequency, History, Idle, Lines, Migration, Power, Smt, TimerInterrupt};
use super::{Machine, MachineError, SCHEMA};
use schedcast_kernel::Ns;
use schedcast_kernel::cpuset::MAX_CPUS;
use schedcast_kernel::platform::Op;
use schedcast_kernel::topology::{CpuPlace, Topology};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MachineFile {
    schema: String,
    title: String,
    topology: TopologyFile,
    cost: CostFile,
    latency: LatencyFile,
    smt: Option<Smt>,
    migration: Option<Migration>,
    history: Option<History>,
    frequency: Option<Frequency>,
    idle: Option<Idle>,
    power: Option<Power>,
    lines: Option<Lines>,
    timer_interrupt: Option<TimerInterrupt>,
    /// Prices of pieces of programs, by name.
    program_cost: Option<BTreeMap<String, u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TopologyFile {
    sockets: Option<usize>,
    llcs_per_socket: Option<usize>,
    cores_per_llc: Option<usize>,
    threads_per_core: Option<usize>,
    /// Cores that share a level 2 cache; 1 when missing.
    cores_per_cluster: Option<usize>,
    /// Threads of a core have consecutive numbers (POWER); otherwise the first threads of all cores
    /// come first (x86).
    consecutive_threads: Option<bool>,
    /// Every CPU by hand, instead of the counts.
    cpu: Option<Vec<CpuFile>>,
    /// Distances between the nodes (one per socket), as in the firmware's table; 10 = local.
    node_distances: Option<Vec<Vec<u32>>>,
    /// Relative speed of each CPU, 1024 = the fastest.
    capacities_1024ths: Option<Vec<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LatencyFile {
    ipi_delivery_ns: Ns,
    polling_wakeup_ns: Ns,
    idle_exit_ns: Ns,
    #[serde(default)]
    ipi_stall_ns: Ns,
    #[serde(default)]
    wakeup_mark_ns: Ns,
}

/// One key per operation: its name and `_ns`.
macro_rules! costs {
    ($($key:ident => $op:ident),* ; $($part:ident => $part_op:ident),* $(,)?) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct CostFile {
            $($key: Ns,)*
            // Parts that not every description tells from the others.
            $(#[serde(default)] $part: Ns,)*
            #[serde(default)]
            syscall_exit_ns: Ns,
            #[serde(default)]
            tlb_refill_ns: Ns,
            #[serde(default)]
            deadline_write_ns: Ns,
        }

        impl CostFile {
            fn prices(&self) -> [Ns; Op::COUNT] {
                let mut prices = [0; Op::COUNT];
                $(prices[Op::$op as usize] = self.$key;)*
                $(prices[Op::$part_op as usize] = self.$part;)*
                prices
            }
        }

        #[cfg(test)]
        pub(super) const COST_KEYS: &[(&str, Op)] =
            &[$((stringify!($key), Op::$op),)* $((stringify!($part), Op::$part_op),)*];
    };
}

costs! {
    context_switch_ns => ContextSwitch,
    context_switch_thread_ns => ContextSwitchThread,
    wakeup_ns => Wakeup,
    select_scan_cpu_ns => SelectScanCpu,
    enqueue_level_ns => EnqueueLevel,
    dequeue_level_ns => DequeueLevel,
    update_cfs_group_ns => UpdateCfsGroup,
    tick_ns => Tick,
    tick_level_ns => TickLevel,
    ipi_send_ns => IpiSend,
    ipi_receive_ns => IpiReceive,
    timer_interrupt_ns => TimerInterrupt,
    device_interrupt_ns => DeviceInterrupt,
    syscall_ns => Syscall,
    balance_cpu_ns => BalanceCpu,
    balance_move_task_ns => BalanceMoveTask,
    bandwidth_period_timer_ns => BandwidthPeriodTimer,
    unthrottle_ns => Unthrottle,
    fork_ns => Fork,
    exit_ns => Exit,
    tick_reprogram_ns => TickReprogram;
    wakeup_end_ns => WakeupEnd,
    block_ns => Block,
}

impl MachineFile {
    pub(super) fn into_machine(self, file: &str) -> Result<Machine, MachineError> {
        let wrong = |message: String| MachineError {
            file: file.to_owned(),
            place: None,
            message,
        };
        if self.schema != SCHEMA {
            let found = &self.schema;
            return Err(wrong(format!(
                "schema is \"{found}\", expected \"{SCHEMA}\""
            )));
        }
        let topology = self.topology.build().map_err(wrong)?;
        let machine = Machine {
            title: self.title,
            topology,
            cost_ns: self.cost.prices(),
            syscall_exit_ns: self.cost.syscall_exit_ns,
            tlb_refill_ns: self.cost.tlb_refill_ns,
            deadline_write_ns: self.cost.deadline_write_ns,
            ipi_delivery_ns: self.latency.ipi_delivery_ns,
            ipi_stall_ns: self.latency.ipi_stall_ns,
            polling_wakeup_ns: self.latency.polling_wakeup_ns,
            idle_exit_ns: self.latency.idle_exit_ns,
            wakeup_mark_ns: self.latency.wakeup_mark_ns,
            timer_offset_ns: 0,
            timer_interrupt: self.timer_interrupt,
            smt: self.smt,
            migration: self.migration,
            history: self.history,
            frequency: self.frequency,
            idle: self.idle,
            power: self.power,
            lines: self.lines,
            program_cost: self.program_cost.unwrap_or_default(),
        };
        machine.check().map_err(wrong)?;
        Ok(machine)
    }
}

/// A CPU by hand.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CpuFile {
    core: u32,
    cluster: Option<u32>,
    llc: u32,
    node: u32,
    socket: u32,
}

impl TopologyFile {
    fn build(mut self) -> Result<Topology, String> {
        let mut topology = match self.cpu.take() {
            Some(cpus) => self.by_hand(&cpus)?,
            None => self.regular()?,
        };
        let cpus = topology.cpus();
        let nodes = 1 + topology
            .places
            .iter()
            .map(|place| place.node as usize)
            .max()
            .unwrap_or(0);
        if let Some(distances) = self.node_distances {
            if distances.len() != nodes || distances.iter().any(|row| row.len() != nodes) {
                return Err(format!(
                    "topology.node_distances must have {nodes} rows of {nodes} numbers"
                ));
            }
            topology.distances = distances;
        }
        if let Some(capacities) = self.capacities_1024ths {
            let valid = capacities
                .iter()
                .all(|capacity| (1..=1024).contains(capacity));
            if capacities.len() != cpus || !valid {
                return Err(format!(
                    "topology.capacities_1024ths must have {cpus} numbers from 1 to 1024"
                ));
            }
            topology.capacities = capacities;
        }
        Ok(topology)
    }

    /// Numbers in a description need only be unique within their kind.
    fn by_hand(&self, cpus: &[CpuFile]) -> Result<Topology, String> {
        let counts = [
            ("sockets", self.sockets),
            ("llcs_per_socket", self.llcs_per_socket),
            ("cores_per_llc", self.cores_per_llc),
            ("threads_per_core", self.threads_per_core),
            ("cores_per_cluster", self.cores_per_cluster),
        ];
        if let Some((key, _)) = counts.iter().find(|(_, count)| count.is_some()) {
            return Err(format!(
                "topology.{key} and topology.cpu exclude each other"
            ));
        }
        if cpus.is_empty() || cpus.len() > MAX_CPUS {
            let count = cpus.len();
            return Err(format!(
                "topology.cpu lists {count} CPUs, expected 1 to {MAX_CPUS}"
            ));
        }
        if cpus.iter().any(|cpu| cpu.node as usize >= MAX_CPUS) {
            return Err(format!("topology.cpu.node must be below {MAX_CPUS}"));
        }
        let places = cpus.iter().map(|cpu| CpuPlace {
            core: cpu.core,
            cluster: cpu.cluster.unwrap_or(cpu.core),
            llc: cpu.llc,
            node: cpu.node,
            socket: cpu.socket,
        });
        Ok(Topology {
            places: places.collect(),
            distances: Vec::new(),
            capacities: Vec::new(),
        })
    }

    fn regular(&self) -> Result<Topology, String> {
        let counts = [
            ("sockets", self.sockets),
            ("llcs_per_socket", self.llcs_per_socket),
            ("cores_per_llc", self.cores_per_llc),
            ("threads_per_core", self.threads_per_core),
        ];
        let mut cpus = 1usize;
        let mut numbers = [0; 4];
        for (row, (key, count)) in counts.into_iter().enumerate() {
            let count = count.ok_or_else(|| format!("topology.{key} is missing"))?;
            cpus = cpus.saturating_mul(count);
            numbers[row] = count;
            if count == 0 {
                return Err(format!("topology.{key} is 0, expected at least 1"));
            }
        }
        if cpus > MAX_CPUS {
            return Err(format!("{cpus} CPUs, at most {MAX_CPUS} can be simulated"));
        }
        let [sockets, llcs, cores, threads] = numbers;
        let mut topology = Topology::regular(sockets, llcs, cores, threads);
        if self.consecutive_threads == Some(true) {
            let places = (0..cpus).map(|cpu| topology.places[cpu / threads]);
            topology.places = places.collect();
        }
        let per_cluster = self.cores_per_cluster.unwrap_or(1);
        if per_cluster == 0 || cores % per_cluster != 0 {
            return Err(format!(
                "topology.cores_per_cluster is {per_cluster}, expected a divisor of cores_per_llc = {cores}"
            ));
        }
        for place in &mut topology.places {
            place.cluster = place.core / per_cluster as u32;
        }
        Ok(topology)
    }
}
