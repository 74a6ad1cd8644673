//! The command `schedcast`.

use std::process::ExitCode;

use schedcast_lab::simulator::Simulator;

fn main() -> ExitCode {
    let simulator = Simulator::new();
    // Not locked: the threads that simulate draw the progress bar on standard error.
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    let code = schedcast_cli::run(std::env::args_os(), &simulator, &mut out, &mut err);
    ExitCode::from(code)
}
