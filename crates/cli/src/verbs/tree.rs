//! `tree`, and the trees that other verbs name.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use schedcast_lab::error::Result;
use schedcast_lab::experiment::Scenario;
use schedcast_lab::simulator::{Simulator, tree};

use crate::arguments::tree::{TreeArguments, TreeVerb};
use crate::written;

/// `schedcast tree`
pub(crate) fn run(arguments: &TreeArguments, out: &mut impl Write) -> Result<()> {
    let TreeVerb::Build(build) = &arguments.what;
    say(&format!("compiling {} …", build.tree.display()));
    let built = tree::build(&build.tree, build.hz, build.preempt.as_deref())?;
    written(writeln!(out, "{built}"))
}

/// Builds the trees of scenarios, and says once what their runs leave out.
pub(crate) fn build_all(scenarios: &[Scenario], simulator: &Simulator) -> Result<()> {
    let trees = scenarios.iter().filter_map(|one| one.kernel.tree.as_ref());
    let trees: BTreeSet<&Path> = trees.map(|tree| tree.value.as_path()).collect();
    if trees.is_empty() {
        return Ok(());
    }
    let notes = simulator.build_trees(scenarios, &mut |tree| {
        say(&format!("compiling the scheduler of {} …", tree.display()));
    })?;
    notes.iter().for_each(|note| say(&format!("note: {note}")));
    say(&format!("note: {}", tree::LEFT_OUT));
    Ok(())
}

/// Nothing can be done about a closed standard error.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
