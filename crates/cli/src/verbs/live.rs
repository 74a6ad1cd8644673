//! Verbs about a recording's promises and about the live host.

use std::ffi::OsString;
use std::io::Write;

use schedcast_lab::error::Result;
use schedcast_lab::simulate::Simulate;

use super::{calibrate, here, host, promises, validate};
use crate::arguments::Cli;
use crate::arguments::live::LiveVerb;

/// Runs one of them and returns its exit code.
pub(crate) fn run(
    verb: &LiveVerb,
    cli: &Cli,
    words: &[OsString],
    simulator: &impl Simulate,
    (out, err): (&mut impl Write, &mut impl Write),
) -> Result<u8> {
    match verb {
        LiveVerb::Advise(arguments) => {
            promises::advise(arguments, cli, words, simulator, (out, err))
        }
        LiveVerb::Check(arguments) => promises::check(arguments, cli, words, simulator, (out, err)),
        LiveVerb::Top(arguments) => here::top(arguments, out),
        LiveVerb::Own(arguments) => here::own(arguments, out),
        LiveVerb::Record(arguments) => host::record(arguments, out),
        LiveVerb::Apply(arguments) => host::apply(arguments, out),
        LiveVerb::Undo(arguments) => host::undo(arguments, out),
        LiveVerb::Calibrate(arguments) => match &arguments.figures {
            Some(figures) => calibrate::from_figures(figures, arguments, simulator, out),
            None => calibrate::calibrate(arguments, cli.quiet, out),
        },
        LiveVerb::Validate(arguments) => validate::validate(arguments, simulator, out),
    }
}
