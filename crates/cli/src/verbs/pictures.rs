//! What is written beside the table to be looked at.

use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::Experiment;
use schedcast_lab::simulate::Simulate;
use schedcast_lab::watch::perfetto;

use crate::arguments::Pictures;

/// Writes the pictures that were asked for.
pub fn write(
    experiment: &Experiment,
    simulator: &impl Simulate,
    pictures: &Pictures,
) -> Result<()> {
    let Some(path) = &pictures.trace else {
        return Ok(());
    };
    let Some(simulator) = simulator.simulator() else {
        return Err(Error::usage("only runs of the simulator can be traced"));
    };
    perfetto::write_files(simulator, &experiment.scenarios, path)?;
    Ok(())
}
