//! Hardware in a run, as a page shows it: turbostat's columns and shares of idle states.

use std::collections::BTreeSet;

use schedcast_sim::World;
use schedcast_sim::hardware::HardwareReport;
use serde::Serialize;

use super::scene::Scene;

/// Prefix of turbostat's names of idle states: `CPU%C6`.
const STATE_COLUMN: &str = "CPU%";

/// Hardware over the whole run.
#[derive(Clone, Debug, Serialize)]
pub struct Hardware {
    /// turbostat's columns, of all CPUs together.
    pub columns: Vec<Column>,
    /// Idle states.
    pub idle_states: Vec<String>,
    /// Mean share of time in each of them.
    pub residency: Vec<f64>,
}

/// A column of turbostat.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Its name, the unit within.
    pub name: String,
    /// Over the whole run.
    pub mean: f64,
    /// In the interval with the most.
    pub most: f64,
}

/// Hardware over the run; `None` where the machine's model has no part of it.
pub(super) fn hardware(world: &mut World) -> Option<Hardware> {
    let report = world.hardware_report()?;
    let cpus = report.cpus.len().max(1) as f64;
    let residency = (0..report.idle_states.len()).map(|state| {
        let of = |cpu: &schedcast_sim::hardware::CpuReport| cpu.mean.residency.get(state).copied();
        report.cpus.iter().filter_map(of).sum::<f64>() / cpus
    });
    let residency: Vec<f64> = residency.collect();
    Some(Hardware {
        columns: columns(&report, &residency),
        residency,
        idle_states: report.idle_states,
    })
}

/// Leaves out idle states that no CPU of any scene entered: a machine may have more states than its
/// CPUs use.
pub(crate) fn leave_out_unused_states(scenes: &mut [Scene]) {
    let used: BTreeSet<String> = scenes
        .iter()
        .filter_map(|scene| scene.hardware.as_ref())
        .flat_map(|hardware| hardware.idle_states.iter().zip(&hardware.residency))
        .filter(|(_, share)| **share > 0.0)
        .map(|(name, _)| name.clone())
        .collect();
    for hardware in scenes
        .iter_mut()
        .filter_map(|scene| scene.hardware.as_mut())
    {
        let is_used = |column: &Column| {
            let state = column.name.strip_prefix(STATE_COLUMN);
            state.is_none_or(|name| used.contains(name))
        };
        hardware.columns.retain(is_used);
        let states = hardware.idle_states.iter().zip(&hardware.residency);
        let states = states.filter(|(name, _)| used.contains(*name));
        (hardware.idle_states, hardware.residency) =
            states.map(|(name, share)| (name.clone(), *share)).unzip();
    }
}

/// Columns of turbostat that the machine's model has.
fn columns(report: &HardwareReport, residency: &[f64]) -> Vec<Column> {
    let percent = |share: f64| 100.0 * share;
    let column = |name: &str, mean: f64, most: f64| Column {
        name: name.to_string(),
        mean,
        most,
    };
    let most = &report.max;
    let awake = report.cpus.iter().map(|cpu| cpu.mean.busy);
    let awake = awake.sum::<f64>() / report.cpus.len().max(1) as f64;
    let mut columns = vec![column("Busy%", percent(awake), percent(most.busy))];
    let clock = |mhz: f64| column("Bzy_MHz", mhz, most.busy_mhz);
    columns.extend(report.busy_mhz.map(clock));
    let states = report.idle_states.iter().zip(residency);
    for ((name, &mean), &most) in states.zip(&most.residency) {
        columns.push(column(
            &format!("{STATE_COLUMN}{name}"),
            percent(mean),
            percent(most),
        ));
    }
    let watts = [
        ("CorWatt", report.cores),
        ("PkgWatt", report.package),
        ("ModelWatt", report.model),
    ];
    for (name, watts) in watts {
        columns.extend(watts.map(|watts| column(name, watts.mean, watts.max)));
    }
    columns
}
