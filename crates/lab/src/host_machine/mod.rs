//! `preset = "host"`: this machine.
//!
//! Topology, idle states and clocks are read from sysfs. Prices are those that
//! `schedcast calibrate` measured and kept in [`CALIBRATED`], as long as the machine still has as
//! many CPUs, otherwise those of `generic-8`. Worked example: on a virtual machine of two CPUs that
//! was calibrated, `preset = "host"` is two CPUs with the prices of that file; before, two CPUs
//! with the prices of `generic-8`.

mod parts;
mod write;

use std::path::Path;

use schedcast_host::Topology;
use schedcast_sim::Machine;
use schedcast_sim::machine::PRESETS;

pub use self::write::calibrated;
use crate::error::{Error, Result};
use crate::experiment::machine::MachineSettings;

/// Where `schedcast calibrate` keeps what it measured.
pub const CALIBRATED: &str = "/var/lib/schedcast/host.toml";
/// The name of the preset.
pub(crate) const PRESET: &str = "host";

/// End of the title of a machine of which nothing was measured.
const NOT_CALIBRATED: &str = ": not calibrated";

/// Prices come from here where nothing was measured.
const BASE: &str = "generic-8";

/// Sections that sysfs tells; all others are measured.
const LIVE: [&str; 3] = ["topology", "idle", "frequency"];

/// The description of this machine: its name in errors, and its text.
///
/// # Errors
/// A machine that sysfs does not describe, or a calibration that is no machine description.
pub(crate) fn description() -> Result<(String, String)> {
    let topology = Topology::read().map_err(|error| Error::general(error.to_string()))?;
    let live = parts::live(&topology)?;
    let file = Path::new(CALIBRATED);
    let kept = match std::fs::read_to_string(file) {
        Ok(text) => {
            let machine = Machine::parse(CALIBRATED, &text);
            let machine = machine.map_err(|error| Error::general(error.to_string()))?;
            (machine.topology.cpus() == topology.cpus.len()).then_some(text)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(Error::file("read", CALIBRATED, &error)),
    };
    let (name, text) = match &kept {
        Some(text) => (CALIBRATED, text.as_str()),
        None => (PRESET, base()),
    };
    let mut table = parse(name, text)?;
    if kept.is_none() {
        let cpus = topology.cpus.len();
        let title = format!("this machine, {cpus} CPUs, prices of {BASE}{NOT_CALIBRATED}");
        table.insert("title".into(), title.into());
    }
    for section in LIVE {
        table.remove(section);
    }
    table.extend(live);
    let text = toml::to_string(&table).map_err(|error| Error::general(error.to_string()))?;
    Ok((name.to_owned(), text))
}

/// A note on `machine`, if it is this machine with the prices of another one.
pub fn note(machine: &MachineSettings) -> Option<String> {
    let title = &machine.machine.title;
    (machine.preset == PRESET && title.ends_with(NOT_CALIBRATED)).then(|| {
        format!("machine `{PRESET}` is {title}; `schedcast calibrate` measures its own prices")
    })
}

/// The text of the preset that stands in for what was not measured.
fn base() -> &'static str {
    let found = PRESETS.iter().find(|(name, _)| *name == BASE);
    found.map_or("", |(_, text)| text)
}

fn parse(name: &str, text: &str) -> Result<toml::Table> {
    let table: std::result::Result<toml::Table, _> = toml::from_str(text);
    table.map_err(|error| Error::general(format!("{name}: {}", error.message())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_a_machine() {
        let Ok(topology) = Topology::read() else {
            return;
        };
        let (name, text) = description().unwrap();
        let machine = Machine::parse(&name, &text).unwrap();
        assert_eq!(machine.topology.cpus(), topology.cpus.len());
    }

    #[test]
    fn prices_of_another_machine_are_told() {
        let experiment = crate::experiment::read_text("t.toml", "[machine]\ncpus = 2\n").unwrap();
        let mut settings = experiment.scenarios[0].machine.clone();
        assert_eq!(note(&settings), None, "asked for");
        settings.preset = PRESET.to_string();
        assert_eq!(note(&settings), None, "calibrated");
        settings.machine.title = format!("this machine, 2 CPUs, prices of {BASE}{NOT_CALIBRATED}");
        assert_eq!(
            note(&settings).unwrap(),
            "machine `host` is this machine, 2 CPUs, prices of generic-8: not calibrated; \
             `schedcast calibrate` measures its own prices"
        );
    }
}
