//! `schedcast help-files`: man pages and shell completions, from the definitions of the flags.

use std::fs;
use std::io;
use std::path::Path;

use clap::builder::Resettable;
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
    let notes = command.get_after_help().map(ToString::to_string);
    // The generator would run its lines together.
    let man = Man::new(command.clone().after_help(Resettable::Reset));
    let mut text = Vec::new();
    man.render(&mut text)?;
    text.extend(
        notes
            .iter()
            .flat_map(|notes| notes_section(notes).into_bytes()),
    );
    fresh::write(&folder.join(man.get_filename()), text)?;
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    for verb in shown {
        write_pages(verb, folder)?;
    }
    Ok(())
}

/// The section with what stands below the help of a verb, line by line as it stands there.
fn notes_section(notes: &str) -> String {
    let mut section = String::from(".SH NOTES\n.nf\n");
    for line in notes.lines() {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        // A line that begins with one of these would be a request.
        if line.starts_with(['.', '\'']) {
            section += "\\&";
        }
        section += &line;
        section.push('\n');
    }
    section + ".fi\n"
}
