//! Flags of `tree`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Below the help of `tree build`.
pub(crate) const BUILD_HELP: &str = "\
schedcast tree build ~/linux
schedcast compare --tree ~/linux --tree ~/linux-patched -- hackbench -g 4 -l 1000
What is built is kept in the cache folder, and built anew when a file of the tree has changed.";

/// `schedcast tree`
#[derive(Debug, Args)]
pub(crate) struct TreeArguments {
    /// Verb of `schedcast tree` to run
    #[command(subcommand)]
    pub what: TreeVerb,
}

/// Verbs of `tree`.
#[derive(Debug, Subcommand)]
pub(crate) enum TreeVerb {
    /// Compile kernel/sched of a tree and boot it once
    #[command(after_help = BUILD_HELP)]
    Build(BuildArguments),
}

/// `schedcast tree build`
#[derive(Debug, Args)]
pub(crate) struct BuildArguments {
    /// Folder that holds the kernel's top Makefile
    #[arg(value_name = "PATH")]
    pub tree: PathBuf,
    /// Timer frequency: 100, 250, 300 or 1000
    #[arg(long, value_name = "N", default_value_t = 250)]
    pub hz: u32,
    /// Preemption model: none, voluntary, full or lazy [default: that of the release]
    #[arg(long, value_name = "MODEL")]
    pub preempt: Option<String>,
}
