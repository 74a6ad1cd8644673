//! Flags of `schedcast validate`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use schedcast_host::vm::KernelImage;
use schedcast_host::{HostError, KernelInfo};
use schedcast_verify::real::RealMachine;

/// Below the help.
pub(super) const HELP: &str = "\
schedcast validate exp.toml
schedcast validate validation/*.toml --results host.json --page host.md
schedcast validate --on vm:6.1 exp.toml
schedcast validate validation/*.toml --measured host.json --page host.md
Every variant is run for real, in real cgroups with the real programs, one run after the other, and
in simulation. On the host for root only; leave the machine alone meanwhile.";

/// Where the real runs happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// This machine and its kernel.
    Host,
    /// A virtual machine with the newest kernel of this series that is here.
    Vm(String),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        match text {
            "host" => Ok(Place::Host),
            _ => match series(text) {
                Some(series) => Ok(Place::Vm(series.to_owned())),
                None => Err("expected host or vm:VERSION, such as vm:6.12".to_owned()),
            },
        }
    }
}

impl Place {
    /// The machine at this place.
    ///
    /// # Errors
    /// A kernel that is not here.
    pub(crate) fn machine(&self) -> Result<RealMachine, HostError> {
        Ok(match self {
            Place::Host => RealMachine::Host(KernelInfo::read()?),
            Place::Vm(series) => RealMachine::Guest(KernelImage::find(series)?),
        })
    }
}

/// The kernel series in `vm:6.12`.
fn series(text: &str) -> Option<&str> {
    let series = text.strip_prefix("vm:")?;
    let (major, minor) = series.split_once('.')?;
    let is_number = |part: &str| part.parse::<u32>().is_ok();
    (is_number(major) && is_number(minor)).then_some(series)
}

/// `schedcast validate`
#[derive(Clone, Debug, Args)]
pub(crate) struct ValidateArguments {
    /// Experiment files (TOML)
    #[arg(value_name = "EXP.toml", required = true)]
    pub experiments: Vec<PathBuf>,
    /// Where the real runs happen: host, or vm:6.12 for a virtual machine with that kernel
    #[arg(long, default_value = "host", value_name = "WHERE")]
    pub on: Place,
    /// Inside the virtual machine: measure here and print JSON
    #[arg(long, hide = true)]
    pub guest: bool,
    /// Only this variant; may be given again
    #[arg(long = "variant", value_name = "NAME")]
    pub variants: Vec<String>,
    /// Real runs of each variant
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: u32,
    /// Simulations of each variant [default: what the file says, or 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub seeds: Option<u32>,
    /// Recording of this machine when idle: its threads run beside the simulated programs
    #[arg(long, value_name = "RECORDING", conflicts_with = "guest")]
    pub background: Option<String>,
    /// Keep the results in FILE; scenarios that are in it already are replaced
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
    /// Run nothing for real: simulate again beside what FILE, an earlier --results, says was
    /// measured
    #[arg(long, value_name = "FILE", conflicts_with_all = ["guest", "repeats"])]
    pub measured: Option<PathBuf>,
    /// Keep the recording of each repeat as DIR/VARIANT-1, DIR/VARIANT-2, …
    #[arg(long, value_name = "DIR", conflicts_with_all = ["guest", "measured"])]
    pub recordings: Option<PathBuf>,
    /// Why scenarios are far off, for the page: FILE has lines "FILE / VARIANT" = "why" (TOML)
    #[arg(long, value_name = "FILE", requires = "page")]
    pub reasons: Option<PathBuf>,
    /// Write the page of all results to FILE
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
}
