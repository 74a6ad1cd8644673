//! The command `schedcast`.

use std::process::ExitCode;

use schedcast_lab::simulator::Simulator;
use schedcast_names::harmless::HarmlessWriter;

fn main() -> ExitCode {
    let simulator = Simulator::new().drawing();
    // Not locked: the threads that simulate draw the progress bar on standard error.
    // What comes from files reaches a terminal through these two only, without its escape sequences.
    let mut out = HarmlessWriter::new(std::io::stdout());
    let mut err = HarmlessWriter::new(std::io::stderr());
    let code = schedcast_cli::run(std::env::args_os(), &simulator, &mut out, &mut err);
    ExitCode::from(code)
}
