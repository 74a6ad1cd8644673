//! Model of the hardware and its prices.
//!
//! A machine is described by a small TOML file whose keys carry their units; unknown keys are
//! refused. Worked example: on `generic-8` a wakeup of a task for an idle CPU costs the waker a
//! system call (200 ns), the wakeup itself (500), one enqueue level (200) and the sending of an
//! interrupt (200); 1000 ns later the interrupt arrives, the CPU needs 2000 ns to leave its idle
//! state, 410 to handle the interrupt and 1300 to switch: the task runs 5.8 µs after the call.
//!
//! Prices are per [`Op`] and CPU time of the executing CPU; latencies are time in which no CPU
//! executes.

mod file;
pub mod parts;
#[cfg(test)]
mod reference;

use file::MachineFile;
use parts::{Frequency, History, Idle, Lines, Migration, Power, SharedCache, Smt, TimerInterrupt};
use schedcast_kernel::Ns;
use schedcast_kernel::platform::Op;
use schedcast_kernel::topology::{CpuPlace, Topology};
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// The text of a description in `machines/`.
macro_rules! preset {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../../machines/", $name, ".toml")),
        )
    };
}

/// Machines that come with the program: name and description file.
pub const PRESETS: &[(&str, &str)] = &[
    preset!("generic-8"),
    preset!("client-4"),
    preset!("hikey960"),
    preset!("hwp-desktop-8"),
    preset!("hybrid-24"),
    preset!("power10-8x8"),
    preset!("spr-2x56x2"),
    preset!("icl-2x32x2"),
    preset!("epyc-2x64x2"),
    preset!("dev-vm"),
];

const SCHEMA: &str = "schedcast.machine/1";

/// Hardware under the scheduler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// One line about it.
    pub title: String,
    /// Which CPUs share what.
    pub topology: Topology,
    /// Relative speed of each CPU, 1024 = the fastest, where it is not the capacity that the
    /// scheduler knows; empty = it is.
    pub speeds: Vec<u32>,
    /// Price of each operation, ns, by `op as usize`.
    pub cost_ns: [Ns; Op::COUNT],
    /// Part of a system call's price at its end, on the way back to user mode, ns: a task that is
    /// preempted there pays it when it runs again.
    pub syscall_exit_ns: Ns,
    /// Extra time of a switch to an address space of which the CPU holds no translations any more,
    /// ns: with more than six in turn, that is each switch. Counted as `context_switch`; 0 = part
    /// of the price of a switch.
    pub tlb_refill_ns: Ns,
    /// Writing the timer's next deadline, ns, where a sleep becomes the first timer of its CPU and
    /// where a timer interrupt ends; 0 = part of the other prices. Counted as `tick_reprogram`.
    pub deadline_write_ns: Ns,
    /// From the sender of an interprocessor interrupt to the receiver's handler, ns.
    pub ipi_delivery_ns: Ns,
    /// How long a CPU that runs a task stands still until it handles such an interrupt, ns: in a
    /// virtual machine the way out of the guest and back. The task pays; the handler begins as late
    /// as without, if the sending takes as long.
    pub ipi_stall_ns: Ns,
    /// How much longer such an interrupt takes to a CPU that idles, ns: in a virtual machine the
    /// host has to run it first.
    pub ipi_to_idle_ns: Ns,
    /// From a store to the flag word of a polling idle CPU to its leaving the loop, ns.
    pub polling_wakeup_ns: Ns,
    /// From an interrupt to the first instruction of a CPU that idles, ns.
    pub idle_exit_ns: Ns,
    /// From a wakeup's choice of an idle CPU until other wakeups see it taken, ns.
    pub wakeup_mark_ns: Ns,
    /// The timer of a CPU interrupts up to so much later than programmed, each CPU's by a part of
    /// its own that the seed draws, ns.
    pub timer_offset_ns: Ns,
    /// How late timer interrupts are; `None` = they are not.
    pub timer_interrupt: Option<TimerInterrupt>,
    /// Speed of threads that share a core; `None` = each as fast as alone.
    pub smt: Option<Smt>,
    /// Speed of cores that share a level 2 cache; `None` = each as fast as alone.
    pub cluster: Option<SharedCache>,
    /// Speed of cores that share a last level cache; `None` = each as fast as alone.
    pub llc: Option<SharedCache>,
    /// Time that tasks lose when they change CPUs; `None` = none.
    pub migration: Option<Migration>,
    /// State of its long-running kernel; `None` = freshly booted.
    pub history: Option<History>,
    /// Clocks; `None` = nominal speed.
    pub frequency: Option<Frequency>,
    /// Idle states; `None` = one, left in `idle_exit_ns`.
    pub idle: Option<Idle>,
    /// Power; `None` = not measured.
    pub power: Option<Power>,
    /// Contended cache lines; `None` = part of the price of operations.
    pub lines: Option<Lines>,
    /// Prices of pieces of programs that differ from the usual ones, by name; the programs know the
    /// names.
    pub program_cost: BTreeMap<String, u64>,
}

/// Why a description is not a machine. Prints as `file:line:column: message`.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct MachineError {
    /// File name, as the caller knows it.
    pub file: String,
    /// Line and column, from 1, when the problem has a place.
    pub place: Option<(usize, usize)>,
    /// Description of the mistake and of what was expected.
    pub message: String,
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl Machine {
    /// The preset of this name.
    ///
    /// # Errors
    /// When there is none; names the most similar one.
    pub fn preset(name: &str) -> Result<Self, MachineError> {
        if let Some((_, text)) = PRESETS.iter().find(|(known, _)| *known == name) {
            return Self::parse(name, text);
        }
        let known: Vec<&str> = PRESETS.iter().map(|(known, _)| *known).collect();
        Err(MachineError {
            file: name.to_owned(),
            place: None,
            message: format!(
                "no such machine preset; {}",
                schedcast_base::names::suggestion(name, &known)
            ),
        })
    }

    /// Reads a description. `file` is its name in errors.
    ///
    /// # Errors
    /// Anything that is not TOML of the expected shape, unknown and missing keys, impossible
    /// topologies.
    pub fn parse(file: &str, text: &str) -> Result<Self, MachineError> {
        let read: Result<MachineFile, _> = toml::from_str(text);
        read.map_err(|error| explain(file, Some(text), &error))?
            .into_machine(file)
    }

    /// Reads a description that was already read as a TOML table (a preset with overrides).
    ///
    /// # Errors
    /// As [`Machine::parse`], without places.
    pub fn from_table(file: &str, table: toml::Table) -> Result<Self, MachineError> {
        let read: Result<MachineFile, _> = table.try_into();
        read.map_err(|error| explain(file, None, &error))?
            .into_machine(file)
    }

    /// Price of an operation.
    #[inline(always)]
    pub const fn price_ns(&self, op: Op) -> Ns {
        self.cost_ns[op as usize]
    }

    /// Takes away what a world with a kernel's own C does not have: idle states, changing clocks.
    pub fn leave_out_what_trees_lack(&mut self) {
        self.idle = None;
        self.frequency = None;
    }

    /// This machine with all prices and latencies at 0, for tests of decisions alone.
    pub fn free_of_charge(mut self) -> Self {
        self.cost_ns = [0; Op::COUNT];
        self.syscall_exit_ns = 0;
        self.tlb_refill_ns = 0;
        self.deadline_write_ns = 0;
        self.ipi_delivery_ns = 0;
        self.ipi_stall_ns = 0;
        self.ipi_to_idle_ns = 0;
        self.polling_wakeup_ns = 0;
        self.idle_exit_ns = 0;
        self.wakeup_mark_ns = 0;
        self.timer_offset_ns = 0;
        self.timer_interrupt = None;
        self.migration = None;
        self.lines = None;
        self
    }

    /// Checks the conditions between the parts.
    fn check(&self) -> Result<(), String> {
        let call_ns = self.price_ns(Op::Syscall);
        if self.syscall_exit_ns > call_ns {
            return Err(format!(
                "cost.syscall_exit_ns is {}, expected at most the whole call's cost.syscall_ns = {call_ns}",
                self.syscall_exit_ns
            ));
        }
        let threads = self.threads_per_core();
        self.smt.as_ref().map_or(Ok(()), |smt| smt.check(threads))?;
        let sharing = [
            (
                "cluster",
                &self.cluster,
                self.most_cores(|place| place.cluster),
            ),
            ("llc", &self.llc, self.most_cores(|place| place.llc)),
        ];
        for (name, part, most) in sharing {
            part.as_ref()
                .map_or(Ok(()), |part| part.check(name, most))?;
        }
        self.migration.as_ref().map_or(Ok(()), Migration::check)?;
        self.history.as_ref().map_or(Ok(()), History::check)?;
        let speeds: Vec<u32> = (0..self.topology.cpus())
            .map(|row| self.speed(row))
            .collect();
        let frequency = self.frequency.as_ref();
        frequency.map_or(Ok(()), |part| part.check(&speeds))?;
        if frequency.is_some_and(|part| !part.table.is_empty()) && self.power.is_some() {
            return Err(
                "power is by clock for all cores alike, so it excludes frequency.table".to_owned(),
            );
        }
        self.idle.as_ref().map_or(Ok(()), Idle::check)?;
        self.lines.as_ref().map_or(Ok(()), Lines::check)?;
        let timer_interrupt = self.timer_interrupt.as_ref();
        timer_interrupt.map_or(Ok(()), TimerInterrupt::check)?;
        let idle = self.idle.as_ref();
        self.power
            .as_ref()
            .map_or(Ok(()), |power| power.check(idle))
    }

    /// Most threads a core has.
    pub fn threads_per_core(&self) -> usize {
        let places = &self.topology.places;
        let of_core = |core| places.iter().filter(|place| place.core == core).count();
        places
            .iter()
            .map(|place| of_core(place.core))
            .max()
            .unwrap_or(1)
    }

    /// Most cores that share something.
    pub fn most_cores(&self, shared: impl Fn(&CpuPlace) -> u32) -> usize {
        let mut cores: Vec<_> = self.topology.places.iter().collect();
        cores.sort_by_key(|place| (shared(place), place.core));
        cores.dedup_by_key(|place| place.core);
        let same = cores.chunk_by(|a, b| shared(a) == shared(b));
        same.map(<[_]>::len).max().unwrap_or(1)
    }

    /// Relative speed of a CPU, 1024 = the fastest.
    pub fn speed(&self, row: usize) -> u32 {
        let speeds = match self.speeds.is_empty() {
            true => &self.topology.capacities,
            false => &self.speeds,
        };
        speeds.get(row).copied().unwrap_or(1024)
    }

    /// The same hardware with another topology.
    pub fn with_topology(mut self, topology: Topology) -> Self {
        self.topology = topology;
        self.speeds.clear();
        self
    }
}

fn explain(file: &str, text: Option<&str>, error: &toml::de::Error) -> MachineError {
    let place = text.zip(error.span()).map(|(text, span)| {
        let before = &text[..span.start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    });
    let message = error.message();
    MachineError {
        file: file.to_owned(),
        place,
        message: schedcast_base::names::nearer(message).unwrap_or_else(|| message.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::{assert_contains, assert_ends};

    #[test]
    fn presets_are_machines() {
        for (name, _) in PRESETS {
            let machine = Machine::preset(name).unwrap();
            assert!(machine.topology.cpus() > 0);
        }
        let generic = Machine::preset("generic-8").unwrap();
        assert_eq!(generic.topology.cpus(), 8);
        assert_eq!(generic.price_ns(Op::Wakeup), 500);
    }

    #[test]
    fn every_operation_has_the_key_of_its_name() {
        assert_eq!(file::COST_KEYS.len(), Op::COUNT);
        for (key, op) in file::COST_KEYS {
            assert_eq!(*key, format!("{}_ns", op.name()));
        }
    }

    fn error(change: impl Fn(&str) -> String) -> String {
        let text = change(PRESETS[0].1);
        Machine::parse("m.toml", &text).unwrap_err().to_string()
    }

    #[test]
    fn unknown_keys_are_refused_with_place_and_nearest_name() {
        let message = error(|text| text.replace("wakeup_ns = 500 ", "wakup_ns = 500 "));
        let line = PRESETS[0]
            .1
            .lines()
            .position(|line| line.starts_with("wakeup_ns"));
        let place = format!("m.toml:{}:1: unknown field `wakup_ns`", line.unwrap() + 1);
        assert!(message.starts_with(&place), "{message}");
        assert_ends(&message, "; nearest valid name: `wakeup_ns`");
    }

    #[test]
    fn missing_and_impossible_values_are_refused() {
        let message = error(|text| text.replace("idle_exit_ns", "#"));
        assert_contains(&message, "missing field `idle_exit_ns`");
        let message = error(|text| text.replace("sockets = 1", "sockets = 0"));
        assert_eq!(
            message,
            "m.toml: topology.sockets is 0, expected at least 1"
        );
        let message = error(|text| text.replace("sockets = 1", "sockets = 100"));
        assert_eq!(message, "m.toml: 800 CPUs, at most 512 can be simulated");
        let message = error(|text| text.replace("syscall_ns = 200", "syscall_ns = -1"));
        assert!(message.starts_with("m.toml:3"), "{message}");
        let dear = |text: &str| text.replace("\nwakeup_ns = 500 ", "\nwakeup_ns = 100000001 ");
        let message = error(dear);
        let line = PRESETS[0]
            .1
            .lines()
            .position(|line| line.starts_with("wakeup_ns"));
        let expected = format!(
            "m.toml:{}:13: 100000001 ns is more than 100000000 ns, the most that is taken",
            line.unwrap() + 1
        );
        assert_eq!(message, expected);
        let message = error(|text| text.replace("machine/1", "machine/2"));
        assert_contains(&message, "expected \"schedcast.machine/1\"");
    }

    #[test]
    fn threads_of_a_core_are_in_one_place() {
        let (_, hybrid) = PRESETS
            .iter()
            .find(|(name, _)| *name == "hybrid-24")
            .unwrap();
        let two = "{ core = 0, llc = 0, node = 0, socket = 0 }";
        let apart = hybrid.replacen(two, &two.replace("socket = 0", "socket = 1"), 1);
        let refused = Machine::parse("test", &apart).unwrap_err().message;
        let expected = "topology.cpu has CPUs 0 and 1 on core 0, expected one cluster, llc, node and \
                        socket for both";
        assert!(refused.contains(expected), "{refused}");
    }

    #[test]
    fn an_unknown_preset_names_the_nearest() {
        let message = Machine::preset("generic8").unwrap_err().to_string();
        assert_ends(&message, "nearest valid name: `generic-8`");
    }
}
