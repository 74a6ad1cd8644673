//! `schedcast help-files`: man pages and shell completions, from the definitions of the flags.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use schedcast_base::fresh;
use schedcast_lab::error::{Error, Result};

use crate::arguments::{Cli, HelpFilesArguments};

/// `schedcast help-files`
pub(crate) fn help_files(arguments: &HelpFilesArguments) -> Result<()> {
    let folder = &arguments.folder;
    let fails = |error: io::Error| Error::file("write", folder.display(), &error);
    let (pages, completions) = (folder.join("man1"), folder.join("completions"));
    for folder in [&pages, &completions] {
        fs::create_dir_all(folder).map_err(fails)?;
    }
    let mut command = Cli::command();
    for (shell, name) in [
        (Shell::Bash, "schedcast.bash"),
        (Shell::Zsh, "_schedcast"),
        (Shell::Fish, "schedcast.fish"),
    ] {
        // Written to memory first: the generator panics where a disk is full.
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, "schedcast", &mut text);
        fresh::write(&completions.join(name), text).map_err(fails)?;
    }
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_pages(&command, &pages).map_err(fails)
}

/// A page for the command and one for each verb: `schedcast.1`, `schedcast-compare.1` and so on.
fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    let man = Man::new(command.clone());
    let mut text = Vec::new();
    man.render(&mut text)?;
    fresh::write(&folder.join(man.get_filename()), text)?;
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    for verb in shown {
        write_pages(verb, folder)?;
    }
    Ok(())
}
