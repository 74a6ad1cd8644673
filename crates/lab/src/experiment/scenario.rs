//! One variant, fully typed: what a simulator needs to know to build a world.

use std::collections::BTreeMap;
use std::path::Path;

use super::cgroup::{CgroupSettings, CgroupTree, CgroupVersion};
use super::document::{Kind, Table, Value};
use super::kernel::KernelSettings;
use super::keys::{Key, TIME, Takes, keys, names};
use super::machine::MachineSettings;
use super::program::{self, Action, Program};
use super::unit;
use super::units::parse_duration_ns;
use crate::error::{Error, Place, Result};
use schedcast_workload::replay::Adjust;

/// Everything about one variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The variant's name.
    pub name: String,
    /// The hardware.
    pub machine: MachineSettings,
    /// The kernel.
    pub kernel: KernelSettings,
    /// Which cgroup hierarchy the limits were written in.
    pub cgroup_version: CgroupVersion,
    /// Every cgroup but the root, by path; ancestors of a named group are present.
    pub cgroups: BTreeMap<String, CgroupSettings>,
    /// The programs, in file order.
    pub programs: Vec<Program>,
    /// Changes of settings during the run, in time order.
    pub changes: Vec<TimedChange>,
    /// How long to simulate; `None` until the programs end.
    pub duration_ns: Option<u64>,
    /// Group whose recorded jobs a run without a duration waits for beyond the recorded end.
    pub awaits: Option<String>,
    /// When statistics begin.
    pub warmup_ns: u64,
}

impl Scenario {
    /// Adjustments of the recordings that its programs replay.
    pub(crate) fn adjusts(&self) -> impl Iterator<Item = &Adjust> {
        let programs = self.programs.iter();
        programs.filter_map(|program| match &program.action.value {
            Action::Replay(_, adjust) => Some(adjust),
            _ => None,
        })
    }

    /// The same, to change them.
    pub(crate) fn adjusts_mut(&mut self) -> impl Iterator<Item = &mut Adjust> {
        let programs = self.programs.iter_mut();
        programs.filter_map(|program| match &mut program.action.value {
            Action::Replay(_, adjust) => Some(adjust),
            _ => None,
        })
    }
}

/// Settings that change at one moment of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedChange {
    /// Time since the start.
    pub time_ns: u64,
    /// The whole new settings of every group that changes, by path.
    pub cgroups: BTreeMap<String, CgroupSettings>,
    /// The whole new kernel settings, where features or tunables change.
    pub kernel: Option<KernelSettings>,
}

/// Keys of an `[[at]]` section.
pub(crate) const AT_KEYS: [Key; 3] = keys! {
    "time" => TIME, "required", "When the change happens, from the start of the run.";
    "cgroup" => Takes::Words("tables by path"), "", "Files of groups that exist.";
    "kernel" => Takes::Words("table"), "", "Features and tunables.";
};

/// Keys of a variant that `[[at]]` cannot change, with the reason.
const FIXED_KEYS: [(&str, &str); 3] = [
    ("machine", "a running machine keeps its hardware"),
    ("program", "programs start at the beginning"),
    ("run", "it describes the whole run"),
];

/// Keys of `[run]`.
pub(crate) const RUN_KEYS: [Key; 3] = keys! {
    "seeds" => Takes::Whole(1, 100_000, ""), "10, or more where effects are small",
        "Runs of each column, under the seeds 0 to `seeds` − 1. A `compare` without the key adds seeds, up to 40, until headline metrics are known to 1 %.";
    "duration" => TIME, "until the programs end", "Virtual time that is simulated, above 0.";
    "warmup" => TIME, "`0s`",
        "Time at the begin that statistics leave out; a part of the duration, and shorter.";
};

/// Builds the scenario `name` from its layers, lowest first: what a recording says, the document,
/// the variant, a grid point, the command line. Paths are relative to `directory`.
///
/// # Errors
/// The first setting that is wrong, with its place.
pub fn build(name: &str, layers: &[Table], directory: &Path) -> Result<Scenario> {
    let merged = merge_layers(layers)?;
    let machine = MachineSettings::read(section(&merged, "machine")?, directory)?;
    let kernel = KernelSettings::read(section(&merged, "kernel")?, machine.cpus(), directory)?;
    kernel.check_domains(&machine.machine.topology)?;
    let mut cgroups = CgroupTree::default();
    let sections = match merged.get("program") {
        None => &[][..],
        Some(value) => value.array("[[program]] sections")?,
    };
    cgroups.write(&unit::groups(sections, machine.cpus())?, &kernel)?;
    for layer in layers {
        if let Some(groups) = section(layer, "cgroup")? {
            cgroups.write(groups, &kernel)?;
        }
    }
    cgroups.check()?;
    let settings = cgroups.settings();
    check_cpus(&settings, &machine, &merged)?;
    let programs = sections
        .iter()
        .map(|value| Program::read(value, directory, &cgroups, machine.cpus()))
        .collect::<Result<_>>()?;
    Ok(Scenario {
        name: name.to_string(),
        cgroup_version: cgroups.version(),
        changes: read_changes(&merged, cgroups, &kernel, &machine)?,
        machine,
        kernel,
        cgroups: settings,
        programs,
        duration_ns: read_duration(&merged)?,
        awaits: None,
        warmup_ns: read_warmup(&merged)?,
    })
}

/// The sub-table `key`, if it is there.
pub(crate) fn section<'a>(table: &'a Table, key: &str) -> Result<Option<&'a Table>> {
    table
        .get(key)
        .map(|value| value.table(&format!("the section [{key}]")))
        .transpose()
}

/// Merges layers into one document; programs by their name.
fn merge_layers(layers: &[Table]) -> Result<Table> {
    let mut merged = Table::default();
    let mut programs: Vec<Value> = Vec::new();
    let mut program_entry = None;
    for layer in layers {
        let mut layer = layer.clone();
        if let Some(entry) = layer.take("program") {
            if programs.is_empty()
                && let Kind::Array(sections) = &entry.value.kind
            {
                programs = sections.clone();
                program::name_all(&mut programs)?;
            } else {
                program::merge_programs(&mut programs, &entry.value)?;
            }
            program_entry = Some(entry);
        }
        chooses_a_release(&layer, &mut merged)?;
        merged.merge(&layer);
    }
    if let Some(mut entry) = program_entry {
        // A variant's `name` may have made two programs equal.
        program::name_all(&mut programs)?;
        entry.value.kind = Kind::Array(programs);
        merged.entries.push(entry);
    }
    Ok(merged)
}

/// A release that a layer names takes the place of a tree of the layers below, as a tree takes that
/// of their release.
fn chooses_a_release(layer: &Table, below: &mut Table) -> Result<()> {
    let Some(kernel) = section(layer, "kernel")? else {
        return Ok(());
    };
    if kernel.get("version").is_none() || kernel.get("tree").is_some() {
        return Ok(());
    }
    let below = below.entries.iter_mut().find(|entry| entry.key == "kernel");
    if let Some(entry) = below
        && let Kind::Table(kernel) = &mut entry.value.kind
    {
        kernel.take("tree");
    }
    Ok(())
}

/// Every CPU of a cpuset must exist.
fn check_cpus(
    cgroups: &BTreeMap<String, CgroupSettings>,
    machine: &MachineSettings,
    merged: &Table,
) -> Result<()> {
    let cpus = machine.cpus();
    for (path, settings) in cgroups {
        let Some(last) = settings.cpus.as_ref().and_then(|list| list.last()) else {
            continue;
        };
        if last as usize >= cpus {
            let written = section(merged, "cgroup")?
                .and_then(|groups| groups.get(path))
                .and_then(|group| group.table("").ok()?.get("cpuset.cpus").cloned());
            let message =
                format!("EINVAL: `{path}` may use CPU {last}, but the machine has {cpus}");
            return Err(match written {
                Some(value) => Error::input(&value.place, message),
                None => Error::general(message),
            });
        }
    }
    Ok(())
}

/// How long to simulate before statistics count; the warm-up is part of the duration.
fn read_warmup(merged: &Table) -> Result<u64> {
    let run = section(merged, "run")?;
    let Some(value) = run.and_then(|run| run.get("warmup")) else {
        return Ok(0);
    };
    let warmup_ns = read_time(value)?;
    if read_duration(merged)?.is_some_and(|duration_ns| warmup_ns >= duration_ns) {
        let message = "the warm-up is part of the duration and must be shorter";
        return Err(Error::input(&value.place, message));
    }
    Ok(warmup_ns)
}

fn read_duration(merged: &Table) -> Result<Option<u64>> {
    let run = section(merged, "run")?;
    let Some(value) = run.and_then(|run| run.get("duration")) else {
        return Ok(None);
    };
    let duration_ns = read_time(value)?;
    if duration_ns == 0 {
        return Err(Error::input(
            &value.place,
            "a run of no duration shows nothing",
        ));
    }
    Ok(Some(duration_ns))
}

/// A duration with its unit, ns.
pub(super) fn read_time(value: &Value) -> Result<u64> {
    if let Kind::Integer(_) | Kind::Float(_) = value.kind {
        return Err(value
            .expected("a duration with its unit")
            .hint("write \"20s\" or \"5ms\""));
    }
    let text = value.text("a duration such as \"20s\"")?;
    parse_duration_ns(text).map_err(|why| Error::input(&value.place, why))
}

/// Reads `[[at]]` into changes in time order; sections of one moment apply in file order.
fn read_changes(
    merged: &Table,
    mut cgroups: CgroupTree,
    kernel: &KernelSettings,
    machine: &MachineSettings,
) -> Result<Vec<TimedChange>> {
    let Some(value) = merged.get("at") else {
        return Ok(Vec::new());
    };
    let mut sections: Vec<(u64, &Table)> = Vec::new();
    for value in value.array("[[at]] sections")? {
        let table = value.table("an [[at]] section")?;
        sections.push((read_at_time(table, &value.place)?, table));
    }
    sections.sort_by_key(|(time_ns, _)| *time_ns);
    let mut kernel = kernel.clone();
    let mut changes = Vec::new();
    for (time_ns, table) in sections {
        let changed_kernel = section(table, "kernel")?;
        let changed_kernel = changed_kernel.map(|keys| kernel.read_change(keys, machine.cpus()));
        let changed_kernel = changed_kernel.transpose()?;
        if let Some(changed) = &changed_kernel {
            changed.check_domains(&machine.machine.topology)?;
            kernel = changed.clone();
        }
        let mut changed = BTreeMap::new();
        if let Some(groups) = section(table, "cgroup")? {
            refuse_cpuset_changes(groups)?;
            cgroups.write_existing(groups, &kernel)?;
            cgroups.check()?;
            let settings = cgroups.settings();
            let paths = groups.entries.iter().map(|entry| entry.key.clone());
            changed = paths
                .filter_map(|path| settings.get_key_value(&path))
                .map(clone_pair)
                .collect();
        }
        changes.push(TimedChange {
            time_ns,
            cgroups: changed,
            kernel: changed_kernel,
        });
    }
    Ok(changes)
}

/// Refuses a cpuset that changes during a run: `update_tasks_cpumask` is not simulated.
fn refuse_cpuset_changes(groups: &Table) -> Result<()> {
    for group in &groups.entries {
        let files = group.value.table("the files of a cgroup")?;
        if let Some(entry) = files.entry("cpuset.cpus") {
            let message = "[[at]] cannot change `cpuset.cpus`: a cpuset is fixed during a run";
            return Err(Error::input(&entry.key_place, message)
                .hint("compare two cpusets with `[[variant]]` or `[sweep]`"));
        }
    }
    Ok(())
}

fn clone_pair((path, settings): (&String, &CgroupSettings)) -> (String, CgroupSettings) {
    (path.clone(), settings.clone())
}

fn read_at_time(table: &Table, place: &Place) -> Result<u64> {
    for (key, reason) in FIXED_KEYS {
        if let Some(entry) = table.entry(key) {
            let message = format!("[[at]] cannot change `{key}`: {reason}");
            return Err(Error::input(&entry.key_place, message));
        }
    }
    table.refuse_unknown(&names(&AT_KEYS), "[[at]]")?;
    match table.get("time") {
        Some(value) => read_time(value),
        None => Err(Error::input(place, "[[at]] needs its `time`").hint("time = \"5s\"")),
    }
}
