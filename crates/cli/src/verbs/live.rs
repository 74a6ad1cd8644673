//! Verbs about a recording's promises and about the live host.

use schedcast_lab::error::Result;
use schedcast_lab::simulate::Simulate;

use super::{calibrate, here, host, promises, validate};
use crate::Call;
use crate::arguments::live::LiveVerb;

/// Runs one of them and returns its exit code.
pub(crate) fn run<S: Simulate>(verb: &LiveVerb, call: &mut Call<S>) -> Result<u8> {
    let out = &mut call.out;
    match verb {
        LiveVerb::Advise(arguments) => promises::advise(arguments, call),
        LiveVerb::Check(arguments) => promises::check(arguments, call),
        LiveVerb::Top(arguments) => here::top(arguments, out),
        LiveVerb::Own(arguments) => here::own(arguments, out),
        LiveVerb::Record(arguments) => host::record(arguments, out),
        LiveVerb::Apply(arguments) => host::apply(arguments, out),
        LiveVerb::Undo(arguments) => host::undo(arguments, out),
        LiveVerb::Calibrate(arguments) => match &arguments.figures {
            Some(figures) => calibrate::from_figures(figures, arguments, call.simulator, out),
            None => calibrate::calibrate(arguments, call.cli.quiet, out),
        },
        LiveVerb::Validate(arguments) => validate::validate(arguments, call.simulator, out),
    }
}
