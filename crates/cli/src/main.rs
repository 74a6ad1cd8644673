//! The command `schedcast`.

use std::process::ExitCode;

use schedcast_lab::simulator::Simulator;

fn main() -> ExitCode {
    let simulator = Simulator::new();
    let (mut out, mut err) = (std::io::stdout().lock(), std::io::stderr().lock());
    let code = schedcast_cli::run(std::env::args_os(), &simulator, &mut out, &mut err);
    ExitCode::from(code)
}
