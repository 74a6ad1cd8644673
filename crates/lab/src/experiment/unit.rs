//! Groups that command lines make by themselves: `run = "systemd-run -p CPUQuota=50% hackbench"`.
//!
//! They are the lowest layer of `[cgroup]`: what a file, a variant or `--set` writes to the same
//! path comes over it.

use schedcast_workload::programs::{Unit, prefix};

use super::document::{Entry, Kind, Table, Value};
use super::program::{command_words, name_of};
use crate::error::Result;

/// The unit of a `[[program]]` section, if its command makes one, and its path.
///
/// # Errors
/// A command that cannot be split, a program without a name.
pub fn of(program: &Value, cpus: usize) -> Result<Option<(String, Unit)>> {
    let table = program.table("a [[program]] section")?;
    let Some(run) = table.get("run") else {
        return Ok(None);
    };
    let Some(unit) = prefix::unit(&command_words(run)?, cpus) else {
        return Ok(None);
    };
    Ok(Some((unit.path(&name_of(program)?.value), unit)))
}

/// The `[cgroup]` section of all units of some programs.
///
/// # Errors
/// As [`of`].
pub fn groups(programs: &[Value], cpus: usize) -> Result<Table> {
    let mut groups = Table::default();
    for program in programs {
        let Some((path, unit)) = of(program, cpus)? else {
            continue;
        };
        let place = &program
            .table("a [[program]] section")?
            .get("run")
            .map_or(&program.place, |run| &run.place);
        let file = |(name, text): (&str, String)| {
            Entry::new(
                name,
                (*place).clone(),
                Value::new(Kind::Text(text), (*place).clone()),
            )
        };
        let files = Table {
            entries: unit.files.into_iter().map(file).collect(),
        };
        groups.entries.push(Entry::new(
            path,
            (*place).clone(),
            Value::new(Kind::Table(files), (*place).clone()),
        ));
    }
    Ok(groups)
}
