//! The real side under another kernel: this program in a virtual machine, and its words on a serial
//! line.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use schedcast_host::vm::{Accelerator, KernelImage};
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::{self, Scenario, Surroundings};
use schedcast_verify::validate::MeasuredRepeats;

use super::super::in_vm;
use super::real;
use crate::arguments::validate::ValidateArguments;
use crate::written;

/// A guest may take so much longer than its programs run: it is emulated, and disturbed repeats are
/// made again.
const SLOWNESS: u32 = 20;

/// A kernel still has things to do after it has booted: 6.12 a quarter of a second of CPU time.
const SETTLE: Duration = Duration::from_secs(3);

/// Inside the guest: measures every variant and prints a line of JSON for each.
pub(super) fn serve(arguments: &ValidateArguments, out: &mut impl Write) -> Result<u8> {
    let surroundings = Surroundings {
        settings: in_vm::guest_layers(),
        ..Surroundings::default()
    };
    std::thread::sleep(SETTLE);
    for path in &arguments.experiments {
        let mut experiment = experiment::load(path, surroundings.clone())?;
        super::select(&mut experiment, &arguments.variants);
        for scenario in &experiment.scenarios {
            let measured = match says_something(scenario) {
                true => real::measure(scenario, arguments.repeats, None)?,
                false => MeasuredRepeats::default(),
            };
            let line = serde_json::to_string(&measured).expect("numbers are finite");
            written(writeln!(out, "{line}"))?;
        }
    }
    Ok(0)
}

/// An emulator says nothing about programs that end with their work: when that is, is a matter of
/// its speed.
fn says_something(scenario: &Scenario) -> bool {
    scenario.duration_ns.is_some() || Accelerator::around() != Some(Accelerator::Emulation)
}

/// Outside: boots `image`, has the experiment at `path` measured in it, and says under what.
pub(super) fn measure(
    image: &KernelImage,
    path: &Path,
    scenarios: &[Scenario],
    arguments: &ValidateArguments,
) -> Result<(String, Vec<MeasuredRepeats>)> {
    let once: Duration = scenarios.iter().map(real::longest).sum();
    let mut words: Vec<OsString> = ["validate", "--guest", "--repeats"]
        .map(OsString::from)
        .to_vec();
    words.push(arguments.repeats.to_string().into());
    for variant in &arguments.variants {
        words.extend(["--variant".into(), variant.into()]);
    }
    words.push(path.into());
    let done = in_vm::run(
        image,
        scenarios,
        words,
        &[path],
        once * arguments.repeats * SLOWNESS,
    )?;
    let lines = done
        .stdout
        .lines()
        .map(serde_json::from_str::<MeasuredRepeats>);
    let measured = lines.collect::<std::result::Result<Vec<_>, _>>();
    let measured = measured.map_err(|error| {
        Error::general(format!(
            "the guest printed something else than results: {error}"
        ))
    })?;
    if measured.len() != scenarios.len() {
        let (got, wanted) = (measured.len(), scenarios.len());
        let message = format!("the guest measured {got} of {wanted} variants");
        return Err(Error::general(message));
    }
    let kernel = format!(
        "{} in a virtual machine ({})",
        image.version,
        done.accelerator.name()
    );
    Ok((kernel, measured))
}
