//! Burns CPU in exactly known ways; see `schedcast_host::hog`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match schedcast_host::hog::main(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("schedcast-hog: {message}");
            ExitCode::from(2)
        }
    }
}
