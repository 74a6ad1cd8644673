//! `schedcast help-files`: man pages and shell completions, from the definitions of the flags.

use std::fs;

use clap::CommandFactory;
use clap_complete::{Shell, generate_to};
use schedcast_lab::error::{Error, Result};

use crate::arguments::{Cli, HelpFilesArguments};

/// `schedcast help-files`
pub fn help_files(arguments: &HelpFilesArguments) -> Result<()> {
    let folder = &arguments.folder;
    let fails = |error: std::io::Error| Error::file("write", folder.display(), &error);
    let (pages, completions) = (folder.join("man1"), folder.join("completions"));
    for folder in [&pages, &completions] {
        fs::create_dir_all(folder).map_err(fails)?;
    }
    let mut command = Cli::command();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut command, "schedcast", &completions).map_err(fails)?;
    }
    // A page of its own for each verb: schedcast-compare.1 and so on.
    clap_mangen::generate_to(command, &pages).map_err(fails)
}
