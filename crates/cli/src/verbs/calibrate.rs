//! `calibrate`: what this machine's constants are.

use std::io::Write;
use std::path::Path;

use indicatif::ProgressBar;
use schedcast_base::date::today;
use schedcast_base::disturbed::STEAL_MAX;
use schedcast_base::fresh;
use schedcast_host::calibrate::derive::figures;
use schedcast_host::calibrate::{CalibrationRun, Figure, measure};
use schedcast_host::{KernelInfo, Topology};
use schedcast_lab::error::{Error, Result};
use schedcast_lab::host_machine;
use schedcast_lab::simulate::Simulate;
use schedcast_lab::simulator::Simulator;
use schedcast_verify::fit::{self, FittedConstant};
use schedcast_verify::real::guest;

use crate::arguments::live::CalibrateArguments;
use crate::arguments::validate::Place;
use crate::{output, written};

/// Longest name of a figure, and a blank.
const WIDEST: usize = 37;

/// `schedcast calibrate`
pub(super) fn calibrate(
    arguments: &CalibrateArguments,
    quiet: bool,
    out: &mut impl Write,
) -> Result<u8> {
    // Told before the machine is measured for a minute.
    let folder = arguments.output.as_deref().and_then(Path::parent);
    let is_made = folder.is_some_and(|folder| folder != Path::new("") && !folder.exists());
    if !is_made {
        output::refuse_unwritable([arguments.output.as_ref()])?;
    }
    let topology = Topology::read()?;
    if let Place::Vm(series) = &arguments.on {
        let text = guest::calibrated(series, topology.cpus.len())?;
        return keep(output_of(arguments), &text, "", out);
    }
    let kernel = KernelInfo::read()?;
    let progress = match quiet {
        true => ProgressBar::hidden(),
        false => ProgressBar::new_spinner(),
    };
    let step = |what: &str| progress.set_message(format!("measuring {what}"));
    let measured = measure(&step).map_err(Error::from);
    progress.finish_and_clear();
    let measured = measured?;
    let figures = figures(&measured);
    let when = format!("{}, Linux {}", today(), kernel.release);
    let text = host_machine::calibrated(&topology, &measured, &figures, &when)?;
    let output = output_of(arguments);
    let table = table(&figures, &measured) + "\n";
    keep(output, &text, &table, out)?;
    if output == Path::new(host_machine::CALIBRATED) {
        written(writeln!(out, "preset = \"host\" uses it from now on"))?;
    }
    Ok(0)
}

fn output_of(arguments: &CalibrateArguments) -> &Path {
    let output = arguments.output.as_deref();
    output.unwrap_or(Path::new(host_machine::CALIBRATED))
}

/// `schedcast calibrate --figures`: constants from results of a machine that is somewhere else.
pub(crate) fn from_figures(
    figures: &Path,
    arguments: &CalibrateArguments,
    simulator: &impl Simulate,
    out: &mut impl Write,
) -> Result<u8> {
    // Prices are looked for where nothing but them differs from run to run.
    let (fitted, text) = match simulator.simulator() {
        Some(_) => fit::from_file(figures, &Simulator::new())?,
        None => fit::from_file(figures, simulator)?,
    };
    let table = fitted_table(&fitted) + "\n";
    keep(output_of(arguments), &text, &table, out)
}

/// Constants with their spread, and the results they were fitted to.
fn fitted_table(fitted: &[FittedConstant]) -> String {
    let mut text = format!(
        "{:<WIDEST$}{:>9}{:>20}  {}\n",
        "FIGURE", "VALUE", "SMALLEST - LARGEST", "SOURCE"
    );
    for one in fitted {
        let (low, high) = one.spread;
        let spread = format!("{low} - {high}");
        text += &format!(
            "{:<WIDEST$}{:>9}{spread:>20}  {}: {} given, {:.6} simulated\n",
            one.constant, one.value, one.source, one.measured, one.simulated
        );
    }
    text
}

/// Writes a machine description and prints the table of its figures; with `-` standard output is
/// the description alone.
fn keep(file: &Path, text: &str, table: &str, out: &mut impl Write) -> Result<u8> {
    if file == Path::new("-") {
        return written(out.write_all(text.as_bytes())).map(|()| 0);
    }
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|error| Error::file("create", folder.display(), &error))?;
    }
    fresh::save(file, text)?;
    written(writeln!(out, "{table}written to {}", file.display())).map(|()| 0)
}

/// Figures with their spread, in columns.
fn table(figures: &[Figure], measured: &CalibrationRun) -> String {
    let mut text = format!("{:<WIDEST$}{:>9}{:>20}\n", "FIGURE", "VALUE", "P10 - P90");
    for figure in figures {
        let (low, high) = figure.spread;
        let spread = format!("{low} - {high}");
        text += &format!("{:<WIDEST$}{:>9}{spread:>20}\n", figure.key, figure.value);
    }
    for (threads, speed) in (2..).zip(&measured.smt) {
        let spread = format!("{:.0} - {:.0}", speed.p10, speed.p90);
        let key = format!("smt.thread_speed_1000ths[{threads}]");
        text += &format!("{key:<WIDEST$}{:>9.0}{spread:>20}\n", speed.median);
    }
    if let Some(late) = &measured.lateness {
        let spread = format!("{:.0} - {:.0}", late.spread.p10, late.spread.p90);
        let key = "timer_interrupt.late_ns";
        text += &format!("{key:<WIDEST$}{:>9.0}{spread:>20}\n", late.spread.median);
    }
    let clock = &measured.clock_mhz;
    let spread = format!("{:.0} - {:.0}", clock.p10, clock.p90);
    text += &format!(
        "{:<WIDEST$}{:>9.0}{spread:>20}\n",
        "clock of a busy CPU, MHz", clock.median
    );
    let steal = measured.steal_ratio;
    if steal >= STEAL_MAX {
        let percent = steal * 100.0;
        text +=
            &format!("note: the hypervisor took {percent:.1} % of the machine's time meanwhile\n");
    }
    text
}
