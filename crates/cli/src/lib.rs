//! The command `schedcast`: arguments in, tables and JSON out.
//!
//! Nothing is decided here. [`arguments`] turns a command line into a question of the laboratory,
//! [`run`] has it answered and prints the answer: text on standard output, complaints on standard
//! error, exit code 0 for an answer, 1 for a broken promise, 2 for a command line that makes no
//! sense, 3 for bad input, 4 for a promise that is kept on average and not for certain.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use clap::Parser;
use schedcast_lab::context::Style;
use schedcast_lab::error::{Error, Result};
use schedcast_lab::simulate::Simulate;

pub mod arguments;
pub mod columns;
mod output;
pub mod paint;
mod tips;
mod verbs;

use arguments::{Cli, Verb};

/// A command line, and what answers it.
pub(crate) struct Call<'a, S> {
    pub(crate) cli: &'a Cli,
    /// Words of the command line, program name first.
    pub(crate) words: &'a [OsString],
    pub(crate) simulator: &'a S,
    pub(crate) out: &'a mut dyn Write,
    /// Notes on the answer.
    pub(crate) err: &'a mut dyn Write,
}

/// Runs one command line, program name first, and returns its exit code.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    simulator: &impl Simulate,
    out: &mut impl Write,
    err: &mut impl Write,
) -> u8 {
    run_in_style(Style::default(), arguments, simulator, out, err)
}

/// As [`run`], with tables set in `style`.
pub fn run_in_style(
    style: Style,
    arguments: impl IntoIterator<Item = OsString>,
    simulator: &impl Simulate,
    out: &mut impl Write,
    err: &mut impl Write,
) -> u8 {
    let words = help_as_flag(arguments.into_iter().collect());
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => Cli { style, ..cli },
        Err(mut error) => {
            let hint = tips::mend(&mut error, &words);
            let code = print_clap(&error, out, err);
            if let Some(hint) = hint {
                // Nothing can be done about a closed standard error.
                let _ = writeln!(err, "hint: {hint}");
            }
            return code;
        }
    };
    if let Some(root) = &cli.host_root
        && let Err(error) = enter(root)
    {
        let _ = err.write_all(error.render().as_bytes());
        return error.exit_code();
    }
    let call = &mut Call {
        cli: &cli,
        words: &words,
        simulator,
        out,
        err,
    };
    let result = match &cli.verb {
        Verb::Compare(arguments) => verbs::compare(arguments, call),
        Verb::Run(arguments) => verbs::run(arguments, call),
        Verb::WhatIf(arguments) => verbs::what_if(arguments, call),
        Verb::Upgrade(arguments) => verbs::upgrade(arguments, call),
        Verb::Sweep(arguments) => verbs::sweep(arguments, call),
        Verb::Reproduce(arguments) => {
            match verbs::reproduce::reproduce(arguments, &cli, &mut call.out) {
                Ok(verbs::reproduce::Conclusion::Missed) => return 1,
                other => other.map(drop),
            }
        }
        Verb::Live(verb) => match verbs::live::run(verb, call) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Verb::Explain(arguments) => verbs::explain::run(arguments, call),
        Verb::View(verb) => verbs::views::run(verb, call),
        Verb::Serve(arguments) => verbs::serve(arguments, call),
        Verb::Fleet(arguments) => verbs::fleet::run(arguments, &mut call.out),
        Verb::Tree(arguments) => verbs::tree::run(arguments, &mut call.out),
        Verb::Mcp(arguments) => verbs::mcp::mcp(arguments, &mut call.out),
        Verb::HelpFiles(arguments) => verbs::help_files(arguments),
        Verb::List(arguments) => verbs::list(arguments, &mut call.out),
    };
    match result {
        Ok(()) => 0,
        Err(error) => {
            // Nothing can be done about a closed standard error.
            let _ = call.err.write_all(error.render().as_bytes());
            error.exit_code()
        }
    }
}

/// Makes `root` the root of this process, so that every file is the host's. A static binary needs
/// nothing of the old root.
fn enter(root: &Path) -> Result<()> {
    let entered = std::os::unix::fs::chroot(root).and_then(|()| std::env::set_current_dir("/"));
    entered.map_err(|error| {
        Error::usage(format!("--host-root {}: {error}", root.display()))
            .hint("it needs root, as in kubectl debug node/NAME --profile=sysadmin")
    })
}

/// `schedcast help VERB`, as git and perf know it, is `schedcast VERB --help`. The flag stands
/// right behind the verb: behind the `--` of `help run -- hackbench` it would be hackbench's.
fn help_as_flag(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        let is_verb = |word: &OsString| !word.to_string_lossy().starts_with('-');
        let verb = words.iter().skip(1).position(is_verb);
        words.insert(verb.map_or(1, |verb| verb + 2), "--help".into());
    }
    words
}

/// Help and version go to standard output with 0, everything else is a usage error.
fn print_clap(error: &clap::Error, out: &mut impl Write, err: &mut impl Write) -> u8 {
    let text = error.render().to_string();
    let (written, code) = match error.use_stderr() {
        false => (out.write_all(text.as_bytes()), 0),
        true => (err.write_all(text.as_bytes()), 2),
    };
    drop(written);
    code
}

/// A failed write to standard output. A reader that went away (`schedcast … | head`) is no error.
fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::file("write", "standard output", &error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
