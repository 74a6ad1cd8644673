//! `schedcast validate`: the same experiment for real and in simulation.
//!
//! On this host the real side is measured here. Under another kernel this same program is run in a virtual
//! machine with `--guest`: it measures what it finds there and prints a line of JSON for each variant.

use std::io::Write;
use std::path::Path;

use schedcast_host::vm::KernelImage;
use schedcast_host::{KernelInfo, sys};
use schedcast_lab::error::{Diagnostic, Error, Result};
use schedcast_lab::experiment::{self, Experiment, Scenario, Surroundings};
use schedcast_lab::simulate::{Simulate, run_all};
use schedcast_lab::validate::{self, Measured, Twin};

use super::host::host_error;
use super::in_vm;
use crate::arguments::validate::{Place, ValidateArguments};
use crate::written;

mod guest;
mod real;

/// Where the real side runs.
enum Real {
    Host(KernelInfo),
    Guest(KernelImage),
}

impl Real {
    fn at(place: &Place) -> Result<Real> {
        Ok(match place {
            Place::Host => {
                refuse_users()?;
                Real::Host(KernelInfo::read().map_err(host_error)?)
            }
            Place::Vm(series) => Real::Guest(KernelImage::find(series).map_err(host_error)?),
        })
    }

    /// The experiment as it is simulated: a guest's kernel replaces the one that the file names.
    fn load(&self, path: &Path) -> Result<Experiment> {
        let mut surroundings = Surroundings::default();
        let Real::Guest(image) = self else {
            return experiment::load(path, surroundings);
        };
        surroundings.settings = in_vm::layers(image);
        let experiment = experiment::load(path, surroundings)?;
        in_vm::refuse_other_kernels(image, &experiment.scenarios)?;
        Ok(experiment)
    }

    /// One variant after the other; `each` gets what was measured of a variant and on what.
    fn measure(
        &self,
        path: &Path,
        scenarios: &[Scenario],
        repeats: u32,
        mut each: impl FnMut(usize, &str, &Measured) -> Result<()>,
    ) -> Result<()> {
        match self {
            Real::Host(kernel) => {
                for (index, scenario) in scenarios.iter().enumerate() {
                    each(index, &kernel.release, &real::measure(scenario, repeats)?)?;
                }
            }
            Real::Guest(image) => {
                let (kernel, all) = guest::measure(image, path, scenarios, repeats)?;
                for (index, measured) in all.iter().enumerate() {
                    each(index, &kernel, measured)?;
                }
            }
        }
        Ok(())
    }
}

fn refuse_users() -> Result<()> {
    if sys::is_root() {
        return Ok(());
    }
    let error = Error::usage("real cgroups and recordings are for root");
    Err(error.hint("run it with sudo"))
}

/// Runs everything and prints the table.
pub fn validate(
    arguments: &ValidateArguments,
    simulator: &impl Simulate,
    out: &mut impl Write,
) -> Result<u8> {
    if arguments.guest {
        return guest::serve(arguments, out);
    }
    let real = Real::at(&arguments.on)?;
    let mut twins = Vec::new();
    for path in &arguments.experiments {
        let experiment = real.load(path)?;
        let seeds = arguments.seeds.unwrap_or(experiment.seeds);
        let scenarios = &experiment.scenarios;
        let simulated = run_all(simulator, scenarios, seeds, &|| {})?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        real.measure(
            path,
            scenarios,
            arguments.repeats,
            |index, kernel, measured| {
                if measured.samples.is_empty() {
                    return Ok(());
                }
                let name = format!("{stem} / {}", scenarios[index].name);
                let measured_on = (today(), kernel.to_owned());
                let simulated = (&scenarios[index], simulated[index].as_slice());
                twins.push(Twin::of(name, measured_on, measured, simulated));
                // What was measured stays measured, whatever happens to the next.
                keep(arguments, &twins)
            },
        )?;
    }
    written(out.write_all(validate::render_text(&twins).as_bytes()))?;
    Ok(0)
}

/// Writes results and page.
fn keep(arguments: &ValidateArguments, new: &[Twin]) -> Result<()> {
    let mut all = match &arguments.results {
        Some(path) => validate::read_results(path)?,
        None => Vec::new(),
    };
    validate::replace(&mut all, new.to_vec());
    if let Some(path) = &arguments.results {
        validate::write_results(path, &all)?;
    }
    match &arguments.page {
        Some(path) => std::fs::write(path, validate::render_page(&all))
            .map_err(|error| Error::file("write", path.display().to_string(), &error)),
        None => Ok(()),
    }
}

fn bad_input(message: String) -> Error {
    Error::Input(Box::new(Diagnostic::general(message)))
}

/// The day, UTC, as 2026-11-21.
fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let days = since.map_or(0, |since| since.as_secs() / 86_400) as i64;
    // Days of the Gregorian calendar, counted in eras of 400 years that begin in March.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_written_as_dates() {
        assert_eq!(today().len(), 10);
        assert!(today().as_str() > "2026-");
    }
}
