//! The `[machine]` section: a preset and what is changed in it.
//!
//! `preset` is the name of a shipped machine (`machines/generic-8.toml` is `generic-8`) or the path
//! of a file of the same form, or `host`, [this machine](crate::host_machine). Its tables —
//! `topology`, `cost`, `power`, `program_cost` … — may be written in `[machine]` too and are laid
//! over it. `cpus` is short for the `cores_per_llc` that gives this many CPUs. `background` is the
//! folder of a recording of a machine that has nothing else to do: its threads run beside the
//! programs. Without it every CPU has a kernel thread that works now and then;
//! `background = "none"` is an empty machine. A path in a file counts from the file, one on the
//! command line from where it is typed. Worked example: `preset = "generic-8"` with `cpus = 16` and
//! `topology.threads_per_core = 2` is a machine of eight cores with two threads each.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use schedcast_base::names::nearest;
use schedcast_kernel::Ns;
use schedcast_kernel::platform::Op;
use schedcast_sim::Machine;
use schedcast_sim::machine::PRESETS;

use super::document::{self, Kind, Table, Value};
use super::keys::{self, Key, Takes, keys, names};
use crate::error::{Error, Located, Place, Result, Source};
use crate::host_machine;

/// The preset of an experiment that names none.
pub(crate) const DEFAULT_PRESET: &str = "generic-8";

/// Keys of `[machine]`.
pub(crate) const KEYS: [Key; 19] = keys! {
    "preset" => Takes::Words("a name of `schedcast list machines`, a path, or `host`"), "`generic-8`",
        "The machine that everything else is laid over.";
    "cpus" => Takes::Whole(1, schedcast_kernel::cpuset::MAX_CPUS as i64, "CPUs"), "the preset's",
        "Number of CPUs, short for the `cores_per_llc` that gives it.";
    "background" => Takes::Words("the folder of a recording, or `none`"),
        "a kernel thread for each CPU that works now and then",
        "Threads of an otherwise idle machine that run beside the programs.";
    "title" => Takes::Words("text"), "the preset's", "One line about the machine.";
    "topology" => Takes::Words("table"), "the preset's", "CPUs and what they share.";
    "cost" => Takes::Words("table"), "the preset's", "CPU time of operations.";
    "latency" => Takes::Words("table"), "the preset's", "Times in which no CPU executes.";
    "recorded_idle_wakeup_ns" => Takes::Whole(0, 1_000_000_000, "ns"), "the preset's",
        "From a wakeup to an idle CPU that hears of it, as a recording shows it. Where no `preset` is named, `latency.ipi_to_idle_ns` follows from it.";
    "smt" => Takes::Words("table"), "the preset's", "Threads that share a core.";
    "cluster" => Takes::Words("table"), "the preset's", "Cores that share a level 2 cache.";
    "llc" => Takes::Words("table"), "the preset's", "Cores that share a last level cache.";
    "migration" => Takes::Words("table"), "the preset's",
        "Time that a task loses when it continues on another CPU.";
    "history" => Takes::Words("table"), "the preset's", "State of a kernel that has run for long.";
    "frequency" => Takes::Words("table"), "the preset's", "Clocks.";
    "idle" => Takes::Words("table"), "the preset's", "Idle states.";
    "power" => Takes::Words("table"), "the preset's", "Power of the package.";
    "lines" => Takes::Words("table"), "the preset's", "Contended cache lines.";
    "timer_interrupt" => Takes::Words("table"), "the preset's", "How late timer interrupts come.";
    "program_cost" => Takes::Words("table"), "the preset's", "Prices of pieces of programs.";
};

/// Topology counts that, with `cores_per_llc`, multiply to the number of CPUs.
const OTHER_COUNTS: [&str; 3] = ["sockets", "llcs_per_socket", "threads_per_core"];

/// The machine of one variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSettings {
    /// The preset's name or path as written.
    pub preset: String,
    /// The preset with everything laid over it.
    pub machine: Machine,
    /// Keys of the machine's file that the experiment writes itself, such as `frequency.governor`,
    /// and where.
    pub written: Vec<Located<String>>,
    /// The recording whose threads run beside the programs, and where it was named.
    pub background: Option<Located<PathBuf>>,
    /// Nothing is said about the background: the kernel's own
    /// [threads](schedcast_workload::housekeeping) run beside programs.
    pub housekeeping: bool,
}

/// The `background` that is none.
pub(crate) const NO_BACKGROUND: &str = "none";

impl MachineSettings {
    /// Number of logical CPUs.
    pub fn cpus(&self) -> usize {
        self.machine.topology.cpus()
    }

    /// Reads the `[machine]` section, laid over its preset. Paths are relative to `directory`.
    ///
    /// # Errors
    /// An unknown preset or key, a preset file that cannot be read, a machine that cannot be.
    pub(crate) fn read(section: Option<&Table>, directory: &Path) -> Result<MachineSettings> {
        let empty = Table::default();
        let section = section.unwrap_or(&empty);
        section.refuse_unknown(&names(&KEYS), "[machine]")?;
        let preset = match section.get("preset") {
            Some(value) => value.text("the name or the path of a machine preset")?,
            None => DEFAULT_PRESET,
        };
        let (file, mut table) = load_preset(preset, section.get("preset"), directory)?;
        let mut changes = section.clone();
        changes.take("preset");
        let cpus = changes.take("cpus");
        changes.take("background");
        let idle_wakeup = changes.take("recorded_idle_wakeup_ns");
        table.merge(&changes);
        if let Some(cpus) = &cpus {
            set_cpus(&mut table, section, &cpus.value)?;
        }
        let mut machine = Machine::from_table(&file, to_toml(&table)?)
            .map_err(|error| locate(&error.message, &file, section))?;
        if let (Some(recorded), None) = (idle_wakeup, section.get("preset")) {
            let way_ns = keys::whole(&KEYS, "recorded_idle_wakeup_ns", &recorded.value)?;
            delay_idle_wakeups(&mut machine, way_ns as Ns);
        }
        Ok(MachineSettings {
            preset: preset.to_string(),
            machine,
            written: written(&changes, ""),
            background: read_background(section, directory)?,
            housekeeping: section.get("background").is_none(),
        })
    }
}

/// Lets an idle CPU hear of a wakeup `way_ns` after it, if it would hear of it earlier.
fn delay_idle_wakeups(machine: &mut Machine, way_ns: Ns) {
    let own = [Op::Wakeup, Op::IpiSend, Op::IpiReceive];
    let own_ns: Ns = own.map(|op| machine.price_ns(op)).iter().sum();
    let own_ns = own_ns + machine.ipi_delivery_ns + machine.idle_exit_ns;
    machine.ipi_to_idle_ns = machine.ipi_to_idle_ns.max(way_ns.saturating_sub(own_ns));
}

/// Every key of a table and of those in it, joined by dots.
fn written(table: &Table, above: &str) -> Vec<Located<String>> {
    let mut keys = Vec::new();
    for entry in &table.entries {
        let key = format!("{above}{}", entry.key);
        match &entry.value.kind {
            Kind::Table(inner) => keys.extend(written(inner, &format!("{key}."))),
            _ => keys.push(Located::new(key, entry.key_place.clone())),
        }
    }
    keys
}

fn read_background(section: &Table, directory: &Path) -> Result<Option<Located<PathBuf>>> {
    let Some(value) = section.get("background") else {
        return Ok(None);
    };
    let text = value.text("the folder of a recording, or \"none\"")?;
    let typed = matches!(value.kind, Kind::Bare(_));
    let folder = match typed {
        true => PathBuf::from(text),
        false => directory.join(text),
    };
    Ok((text != NO_BACKGROUND).then(|| Located::new(folder, value.place.clone())))
}

/// Sets `topology.cores_per_llc` so that the machine has this many CPUs.
fn set_cpus(table: &mut Table, section: &Table, cpus: &Value) -> Result<()> {
    let most = i64::try_from(schedcast_kernel::cpuset::MAX_CPUS).unwrap_or(i64::MAX);
    let count = keys::whole(&KEYS, "cpus", cpus)?;
    let topology = |table: &Table, key: &str| -> Option<Value> {
        table.get("topology")?.table("").ok()?.get(key).cloned()
    };
    if let Some(cores) = topology(section, "cores_per_llc") {
        let message = "`cpus` and `topology.cores_per_llc` both say how many CPUs there are";
        let later = if cores.place.source == cpus.place.source {
            &cores.place
        } else {
            &cpus.place
        };
        return Err(Error::input(later, message));
    }
    let mut others = 1;
    for key in OTHER_COUNTS {
        if let Some(value) = topology(table, key) {
            others *= value.integer_in(1, most, key)?;
        }
    }
    if count % others != 0 {
        let message = format!(
            "{count} CPUs do not divide by sockets × llcs_per_socket × threads_per_core = {others}"
        );
        return Err(Error::input(&cpus.place, message));
    }
    let cores = Value::new(Kind::Integer(count / others), cpus.place.clone());
    let path = ["topology".to_string(), "cores_per_llc".to_string()];
    table.merge(&document::nest(&path, &cpus.place, cores));
    Ok(())
}

/// The tree as the machine's own reader takes it.
fn to_toml(table: &Table) -> Result<toml::Table> {
    let pairs = table.entries.iter();
    pairs
        .map(|entry| Ok((entry.key.clone(), to_toml_value(&entry.value)?)))
        .collect()
}

fn to_toml_value(value: &Value) -> Result<toml::Value> {
    Ok(match &value.kind {
        Kind::Text(text) => toml::Value::String(text.clone()),
        Kind::Integer(number) => toml::Value::Integer(*number),
        Kind::Float(number) => toml::Value::Float(*number),
        Kind::Boolean(value) => toml::Value::Boolean(*value),
        // From the command line: a number if it looks like one.
        Kind::Bare(text) => match value.integer("") {
            Ok(number) => toml::Value::Integer(number),
            Err(_) => toml::Value::String(text.clone()),
        },
        Kind::Array(values) => {
            toml::Value::Array(values.iter().map(to_toml_value).collect::<Result<_>>()?)
        }
        Kind::Table(table) => toml::Value::Table(to_toml(table)?),
    })
}

/// The machine reader's complaint, at the key of `[machine]` that it names, if it names one.
fn locate(message: &str, file: &str, section: &Table) -> Error {
    let named = message
        .split('`')
        .nth(1)
        .and_then(|key| find_key(section, key));
    let dotted = message.split_whitespace().find_map(|word| {
        find_key(
            section,
            word.trim_end_matches([',', ':'])
                .strip_prefix("topology.")?,
        )
    });
    // A value of the wrong type is the one that was written last.
    let only = section
        .entries
        .iter()
        .find(|entry| !["preset", "cpus", "background"].contains(&entry.key.as_str()));
    let place = named
        .or(dotted)
        .or_else(|| only.map(|entry| entry.key_place.clone()));
    match place {
        Some(place) => Error::input(&place, message.to_string()),
        None => Error::general(format!("{file}: {message}")),
    }
}

fn find_key(table: &Table, key: &str) -> Option<Place> {
    table
        .entries
        .iter()
        .find_map(|entry| match &entry.value.kind {
            _ if entry.key == key => Some(entry.key_place.clone()),
            Kind::Table(inner) => find_key(inner, key),
            _ => None,
        })
}

fn load_preset(name: &str, value: Option<&Value>, directory: &Path) -> Result<(String, Table)> {
    let source = preset_source(name, value, directory)?;
    Ok((source.name.clone(), document::parse(&source)?))
}

/// The text of the preset `name`, which was written as `value`: one that is shipped, `host`, or a
/// file.
///
/// # Errors
/// No such preset, a file that cannot be read or is no machine.
pub fn preset_source(name: &str, value: Option<&Value>, directory: &Path) -> Result<Arc<Source>> {
    let shipped = PRESETS.iter().find(|(shipped, _)| *shipped == name);
    Ok(match shipped {
        Some((name, text)) => Source::new(format!("machines/{name}.toml"), *text),
        None if name == host_machine::PRESET => {
            let (file, text) = host_machine::description()?;
            Source::new(file, text)
        }
        None if name.contains('/') || name.ends_with(".toml") => {
            let path = directory.join(name);
            let shown = path.display().to_string();
            let text = schedcast_base::whole::read_text(&path).map_err(|error| match value {
                Some(value) => Error::input(&value.place, format!("cannot read {shown}: {error}")),
                None => Error::file("read", &shown, &error),
            })?;
            // Read once on its own, so that its mistakes are reported at their places in it.
            Machine::parse(&shown, &text).map_err(|error| Error::general(error.to_string()))?;
            Source::new(shown, text)
        }
        None => return Err(unknown_preset(name, value)),
    })
}

fn unknown_preset(name: &str, value: Option<&Value>) -> Error {
    let message = format!("unknown machine preset `{name}`");
    let error = match value {
        Some(value) => Error::input(&value.place, message),
        None => Error::usage(message),
    };
    let shipped = PRESETS.iter().map(|(name, _)| *name);
    let presets = shipped.chain([host_machine::PRESET]);
    error.hint(match nearest(name, presets) {
        Some(near) => format!("the nearest preset is `{near}`"),
        None => "`schedcast list machines` shows them; a file needs its path".to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::assert_contains;

    fn read(text: &str) -> Result<MachineSettings> {
        let table = document::parse(&Source::new("m.toml", text)).unwrap();
        MachineSettings::read(Some(&table), Path::new("."))
    }

    #[test]
    fn a_recorded_wakeup_of_an_idle_cpu_yields_to_a_preset() {
        let way_ns = |text: &str| read(text).unwrap().machine.ipi_to_idle_ns;
        assert_eq!(way_ns("recorded_idle_wakeup_ns = 20000\n"), 20_000 - 4110);
        // The preset's own way is longer.
        assert_eq!(way_ns("recorded_idle_wakeup_ns = 3000\n"), 0);
        let named = "preset = \"generic-8\"\nrecorded_idle_wakeup_ns = 20000\n";
        assert_eq!(way_ns(named), 0);
    }

    #[test]
    fn a_preset_is_a_base_that_any_field_overrides() {
        let machine = MachineSettings::read(None, Path::new(".")).unwrap();
        assert_eq!(machine.machine, Machine::preset("generic-8").unwrap());
        let machine = read("preset = \"generic-8\"\ncpus = 16\ntopology.threads_per_core = 2\n");
        let machine = machine.unwrap();
        assert_eq!(machine.cpus(), 16);
        let siblings = machine
            .machine
            .topology
            .siblings(schedcast_kernel::Cpu::from(0));
        assert_eq!(siblings.iter().count(), 2);
        let machine = read("cost.wakeup_ns = 900\nlatency.idle_exit_ns = 1\n")
            .unwrap()
            .machine;
        assert_eq!(
            machine.price_ns(schedcast_kernel::platform::Op::Wakeup),
            900
        );
        assert_eq!(machine.idle_exit_ns, 1);
    }

    #[test]
    fn command_line_numbers_are_numbers() {
        let setting = document::parse_setting(
            &Source::of_command_line("--set", "machine.cost.wakeup_ns=900"),
            None,
        )
        .unwrap();
        let section = setting.get("machine").unwrap().table("").unwrap();
        let machine = MachineSettings::read(Some(section), Path::new("."))
            .unwrap()
            .machine;
        assert_eq!(
            machine.price_ns(schedcast_kernel::platform::Op::Wakeup),
            900
        );
    }

    #[test]
    fn a_preset_may_be_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let text = PRESETS[0]
            .1
            .replace("cores_per_llc = 8", "cores_per_llc = 3");
        std::fs::write(directory.path().join("m.toml"), &text).unwrap();
        let load = |preset: &str| {
            let text = format!("preset = \"{preset}\"\n");
            let table = document::parse(&Source::new("e.toml", text)).unwrap();
            MachineSettings::read(Some(&table), directory.path())
        };
        assert_eq!(load("m.toml").unwrap().cpus(), 3);
        assert_contains(load("./none.toml").unwrap_err(), "cannot read");
        std::fs::write(
            directory.path().join("m.toml"),
            text.replace("tick_ns", "tock_ns"),
        )
        .unwrap();
        let error = load("m.toml").unwrap_err().to_string();
        assert_contains(&error, ["m.toml:", "tock_ns"]);
    }
}
