//! Descriptions of machines as TOML.

use super::parts::{
    Frequency, History, Idle, Lines, Migration, Power, SharedCache, Smt, TimerInterrupt,
};
use super::{Machine, MachineError, SCHEMA};
use schedcast_base::cpu_list::{CpuList, Stride};
use schedcast_kernel::cpuset::{CpuSet, MAX_CPUS};
use schedcast_kernel::platform::Op;
use schedcast_kernel::topology::{CpuPlace, Topology};
use schedcast_kernel::{Cpu, Ns};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A machine's file.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct MachineFile {
    /// Name and version of the form: `schedcast.machine/1`.
    schema: String,
    /// One line about the machine.
    title: String,
    /// The CPUs and what they share: either counts, or every CPU by hand.
    topology: TopologyFile,
    /// CPU time that operations take on the CPU that executes them.
    cost: CostFile,
    /// Time that passes while no CPU executes.
    latency: LatencyFile,
    /// Speed of hardware threads that share a core; without it each is as fast as alone.
    smt: Option<Smt>,
    /// Speed of cores that share a level 2 cache; without it each is as fast as alone.
    cluster: Option<SharedCache>,
    /// Speed of cores that share a last level cache; without it each is as fast as alone.
    llc: Option<SharedCache>,
    /// Time that a task loses when it continues on another CPU; without it none.
    migration: Option<Migration>,
    /// State of a kernel that has run for long; without it the kernel is freshly booted.
    history: Option<History>,
    /// Clocks of the CPUs; without it they run at nominal speed.
    frequency: Option<Frequency>,
    /// Idle states; without it there is one, which is left in `latency.idle_exit_ns`.
    idle: Option<Idle>,
    /// Power of the package, which needs idle states; without it power is not reported.
    power: Option<Power>,
    /// Cache lines that many CPUs write; without it they are part of the costs.
    lines: Option<Lines>,
    /// How late timer interrupts come; without it they are punctual.
    timer_interrupt: Option<TimerInterrupt>,
    /// Prices of pieces of programs, by name, that differ from the usual ones.
    program_cost: Option<BTreeMap<String, u64>>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct TopologyFile {
    /// Packages. The four counts `sockets`, `llcs_per_socket`, `cores_per_llc` and
    /// `threads_per_core` are all needed where no `cpu` is given; their product is the number of
    /// CPUs, 512 at most.
    #[cfg_attr(test, schemars(range(min = 1, max = 512)))]
    sockets: Option<usize>,
    /// Last level caches of a package.
    #[cfg_attr(test, schemars(range(min = 1, max = 512)))]
    llcs_per_socket: Option<usize>,
    /// Cores of a last level cache.
    #[cfg_attr(test, schemars(range(min = 1, max = 512)))]
    cores_per_llc: Option<usize>,
    /// Hardware threads of a core.
    #[cfg_attr(test, schemars(range(min = 1, max = 512)))]
    threads_per_core: Option<usize>,
    /// Cores that share a level 2 cache, a divisor of `cores_per_llc`; 1 when missing.
    #[cfg_attr(test, schemars(range(min = 1, max = 512)))]
    cores_per_cluster: Option<usize>,
    /// Threads of a core have consecutive numbers (POWER); otherwise the first threads of all cores
    /// come first (x86).
    consecutive_threads: Option<bool>,
    /// Every CPU by hand, in the order of their numbers, instead of the counts: 1 to 512 tables.
    cpu: Option<Vec<CpuFile>>,
    /// Distances between the nodes (one per socket), as in the firmware's table; 10 = local.
    node_distances: Option<Vec<Vec<u32>>>,
    /// Nodes farther apart than this (`node_reclaim_distance`) take no tasks of each other at fork
    /// and exec and no affine wakeups: 32 on AMD processors from Zen on and kernels from 5.4 on, 10
    /// on POWER, 30 elsewhere and when missing.
    #[cfg_attr(test, schemars(range(min = 10, max = 254)))]
    node_reclaim_distance: Option<u32>,
    /// Relative speed of each CPU, 1 to 1024 = the fastest.
    capacities_1024ths: Option<Vec<u32>>,
    /// The same where the scheduler does not know it and takes all CPUs for equally fast, as on x86
    /// processors of unequal cores with threads; excludes `capacities_1024ths`.
    speeds_1024ths: Option<Vec<u32>>,
    /// Priority of each CPU for the platform (ITMT), 1 to 1000000: tasks go to those with larger
    /// ones, from 6.6 on.
    priorities: Option<Vec<u32>>,
    /// CPUs without scheduling domains (`isolcpus`), as the kernel writes lists: `"2-3,6"`. Tasks
    /// run there only if their affinity says so.
    isolated: Option<String>,
    /// CPUs that stop their tick while they run one task (`nohz_full`), as the kernel writes lists;
    /// from 4.17 on. CPU 0 keeps the time and is not one of them.
    nohz_full: Option<String>,
}

/// Most that an operation or a latency may take. Programs that pay more get nowhere: ticks alone
/// take several times the time between two of them.
const MOST_NS: Ns = 100_000_000;

/// Time of one operation, or latency, up to [`MOST_NS`].
#[derive(Clone, Copy, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(try_from = "Ns")]
pub(super) struct Price(Ns);

#[cfg(test)]
impl schemars::JsonSchema for Price {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Price".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "minimum": 0, "maximum": MOST_NS })
    }
}

impl TryFrom<Ns> for Price {
    type Error = String;

    fn try_from(ns: Ns) -> Result<Self, String> {
        match ns <= MOST_NS {
            true => Ok(Self(ns)),
            false => Err(format!(
                "{ns} ns is more than {MOST_NS} ns, the most that is taken"
            )),
        }
    }
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct LatencyFile {
    /// From the sender of an interprocessor interrupt to the receiver's handler.
    ipi_delivery_ns: Price,
    /// From a store to the flag word of a polling idle CPU to its leaving the loop.
    polling_wakeup_ns: Price,
    /// From an interrupt to the first instruction of an idle CPU.
    idle_exit_ns: Price,
    /// How long a CPU that runs a task stands still until it handles an interprocessor interrupt:
    /// in a virtual machine the way out of the guest and back.
    #[serde(default)]
    ipi_stall_ns: Price,
    /// How much longer an interprocessor interrupt takes to an idle CPU: in a virtual machine the
    /// host has to run the CPU first.
    #[serde(default)]
    ipi_to_idle_ns: Price,
    /// From a wakeup's choice of an idle CPU until other wakeups see it taken.
    #[serde(default)]
    wakeup_mark_ns: Price,
}

/// One key per operation: its name and `_ns`.
macro_rules! costs {
    ($($(#[$about:meta])* $key:ident => $op:ident),* ; $($(#[$part_about:meta])* $part:ident => $part_op:ident),* $(,)?) => {
        #[derive(Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        pub(super) struct CostFile {
            $($(#[$about])* $key: Price,)*
            // Parts that not every description tells from the others.
            $($(#[$part_about])* #[serde(default)] $part: Price,)*
            /// The part of `syscall_ns` that comes at the end of a call, on the way back to user
            /// mode: at most `syscall_ns`.
            #[serde(default)]
            syscall_exit_ns: Price,
            /// Extra time of a switch to an address space of which the CPU holds no translations
            /// any more.
            #[serde(default)]
            tlb_refill_ns: Price,
            /// Writing the timer's next deadline, where that is not a part of other costs.
            #[serde(default)]
            deadline_write_ns: Price,
        }

        impl CostFile {
            fn prices(&self) -> [Ns; Op::COUNT] {
                let mut prices = [0; Op::COUNT];
                $(prices[Op::$op as usize] = self.$key.0;)*
                $(prices[Op::$part_op as usize] = self.$part.0;)*
                prices
            }
        }

        #[cfg(test)]
        pub(super) const COST_KEYS: &[(&str, Op)] =
            &[$((stringify!($key), Op::$op),)* $((stringify!($part), Op::$part_op),)*];
    };
}

costs! {
    /// `context_switch` between tasks of different address spaces.
    context_switch_ns => ContextSwitch,
    /// `context_switch` between threads of one process, or to and from the idle task.
    context_switch_thread_ns => ContextSwitchThread,
    /// `try_to_wake_up` until the clock of the run queue is read, without placement scan.
    wakeup_ns => Wakeup,
    /// One CPU examined by a placement scan (`select_idle_cpu`, `select_idle_core`).
    select_scan_cpu_ns => SelectScanCpu,
    /// Enqueue at one level of the group hierarchy.
    enqueue_level_ns => EnqueueLevel,
    /// Dequeue at one level of the group hierarchy.
    dequeue_level_ns => DequeueLevel,
    /// `update_cfs_group` at one level.
    update_cfs_group_ns => UpdateCfsGroup,
    /// Timer tick, without the per-level part.
    tick_ns => Tick,
    /// Tick work at one level of the hierarchy.
    tick_level_ns => TickLevel,
    /// Sending an interprocessor interrupt, on the sender; and on who waits for the lock of a queue
    /// held meanwhile.
    ipi_send_ns => IpiSend,
    /// Handling an interprocessor interrupt, on the receiver.
    ipi_receive_ns => IpiReceive,
    /// Interrupt entry and exit of a timer (hrtimer) interrupt. Charged by the platform: one
    /// interrupt may run several timers.
    timer_interrupt_ns => TimerInterrupt,
    /// Interrupt entry and exit of a device interrupt.
    device_interrupt_ns => DeviceInterrupt,
    /// A system call's entry and exit.
    syscall_ns => Syscall,
    /// Load balance of one domain, per CPU looked at.
    balance_cpu_ns => BalanceCpu,
    /// Moving one task between run queues in load balance.
    balance_move_task_ns => BalanceMoveTask,
    /// Period timer handler, without distribution.
    bandwidth_period_timer_ns => BandwidthPeriodTimer,
    /// Unthrottling one queue.
    unthrottle_ns => Unthrottle,
    /// `fork`.
    fork_ns => Fork,
    /// `exit`.
    exit_ns => Exit,
    /// Programming the clock event device when the tick is stopped or restarted.
    tick_reprogram_ns => TickReprogram;
    /// The rest of a wakeup after that, without the enqueue: on the CPU that enqueues.
    wakeup_end_ns => WakeupEnd,
    /// Path of a call that sleeps until `__schedule` reads the clock of the run queue.
    block_ns => Block,
}

impl MachineFile {
    pub(super) fn into_machine(mut self, file: &str) -> Result<Machine, MachineError> {
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
        let speeds = self.topology.speeds_1024ths.take().unwrap_or_default();
        let topology = self.topology.build(&speeds).map_err(wrong)?;
        let machine = Machine {
            title: self.title,
            topology,
            speeds,
            cost_ns: self.cost.prices(),
            syscall_exit_ns: self.cost.syscall_exit_ns.0,
            tlb_refill_ns: self.cost.tlb_refill_ns.0,
            deadline_write_ns: self.cost.deadline_write_ns.0,
            ipi_delivery_ns: self.latency.ipi_delivery_ns.0,
            ipi_stall_ns: self.latency.ipi_stall_ns.0,
            ipi_to_idle_ns: self.latency.ipi_to_idle_ns.0,
            polling_wakeup_ns: self.latency.polling_wakeup_ns.0,
            idle_exit_ns: self.latency.idle_exit_ns.0,
            wakeup_mark_ns: self.latency.wakeup_mark_ns.0,
            timer_offset_ns: 0,
            timer_interrupt: self.timer_interrupt,
            smt: self.smt,
            cluster: self.cluster,
            llc: self.llc,
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

/// A CPU by hand. Numbers need only be unique within their kind.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct CpuFile {
    /// Its core.
    core: u32,
    /// Its group of cores with a common level 2 cache; the core when missing.
    cluster: Option<u32>,
    /// Its last level cache.
    llc: u32,
    /// Its NUMA node.
    #[cfg_attr(test, schemars(range(min = 0, max = 511)))]
    node: u32,
    /// Its package.
    socket: u32,
}

/// Some CPUs of a machine of so many, the value of `key`; at least one is not among them.
fn some_cpus(key: &str, text: &str, cpus: usize) -> Result<CpuSet, String> {
    let wrong = |why: String| format!("topology.{key} is \"{text}\": {why}");
    let list = CpuList::parse(text, cpus as u32, Stride::UsedOfGroup).map_err(wrong)?;
    if list.cpus().len() >= cpus {
        return Err(wrong("which leaves no CPU for everything else".to_owned()));
    }
    Ok(list.cpus().iter().copied().map(Cpu).collect())
}

impl TopologyFile {
    fn build(mut self, speeds: &[u32]) -> Result<Topology, String> {
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
        if let Some(distance) = self.node_reclaim_distance {
            if !(10..=254).contains(&distance) {
                return Err(format!(
                    "topology.node_reclaim_distance is {distance}, expected 10 to 254"
                ));
            }
            topology.reclaim_distance = distance;
        }
        let check = |key: &str, numbers: &[u32], most: u32| {
            let valid = numbers.iter().all(|number| (1..=most).contains(number));
            match numbers.len() == cpus && valid {
                true => Ok(()),
                false => Err(format!(
                    "topology.{key} must have {cpus} numbers from 1 to {most}"
                )),
            }
        };
        if !speeds.is_empty() {
            check("speeds_1024ths", speeds, 1024)?;
            if self.capacities_1024ths.is_some() {
                return Err(
                    "topology.speeds_1024ths and topology.capacities_1024ths exclude each other"
                        .into(),
                );
            }
        }
        if let Some(capacities) = self.capacities_1024ths {
            check("capacities_1024ths", &capacities, 1024)?;
            topology.capacities = capacities;
        }
        if let Some(priorities) = self.priorities {
            check("priorities", &priorities, 1_000_000)?;
            topology.priorities = priorities;
        }
        if let Some(text) = self.isolated {
            topology.isolated = some_cpus("isolated", &text, cpus)?;
        }
        if let Some(text) = self.nohz_full {
            topology.nohz_full = some_cpus("nohz_full", &text, cpus)?;
            if topology.nohz_full.contains(Cpu(0)) {
                return Err(format!(
                    "topology.nohz_full is \"{text}\": CPU 0 keeps the time and needs its tick"
                ));
            }
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
        let places: Vec<CpuPlace> = places.collect();
        for (cpu, place) in places.iter().enumerate() {
            let first = places.iter().position(|other| other.core == place.core);
            if let Some(first) = first.filter(|&first| places[first] != *place) {
                return Err(format!(
                    "topology.cpu has CPUs {first} and {cpu} on core {}, \
                     expected one cluster, llc, node and socket for both",
                    place.core
                ));
            }
        }
        Ok(Topology::of(places))
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
