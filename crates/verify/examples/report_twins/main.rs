//! Published figures beside forecasts for the same command.
//!
//! ```text
//! report_twins robot REPORTS PAGE      hackbench on large machines, as the kernel test robot reported it
//! report_twins upgrades REPORTS REASONS PAGE   what upgrades and commits did, as it was published
//! ```

#[path = "../../../host/examples/shared/command.rs"]
mod command;
mod robot;
mod run;
mod upgrades;

use std::error::Error;
use std::fs;
use std::process::ExitCode;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    command::run("report_twins", |words| match words {
        ["robot", reports, page] => {
            fs::write(page, robot::page(&fs::read_to_string(reports)?)?).map_err(Into::into)
        }
        ["upgrades", reports, reasons, page] => {
            let [reports, reasons] = [reports, reasons].map(fs::read_to_string);
            fs::write(page, upgrades::page(&reports?, &reasons?)?).map_err(Into::into)
        }
        _ => Err(Box::<dyn Error + Send + Sync>::from(
            "expected `robot REPORTS PAGE` or `upgrades REPORTS REASONS PAGE`",
        )),
    })
}
