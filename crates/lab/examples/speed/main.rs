//! How fast simulations run on this machine, as a page with date and spread.
//!
//! ```text
//! speed page FILE FAST [PYTHON]   every load five times, alone on the machine, by this program and by FAST, which is
//!                                 the same built by `make fast`; SimSo with this interpreter that has it
//! speed one NAME                  one load; prints a line of JSON
//! ```

#[path = "../../../host/examples/shared/command.rs"]
mod command;
mod loads;
mod page;

use std::error::Error;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use serde::{Deserialize, Serialize};

type Outcome<T> = Result<T, Box<dyn Error>>;

const REPEATS: usize = 5;
/// Simulated seconds SimSo is given of W1: it needs about half a second for each hundredth.
const SIMSO_SECONDS: u64 = 1;

/// One run of a load.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Of real time.
    pub seconds: f64,
    /// Number of units done in them.
    pub count: u64,
    /// Largest size of the process.
    pub memory_kib: u64,
}

impl Measured {
    fn since(begin: std::time::Instant, count: u64) -> Self {
        Self {
            seconds: begin.elapsed().as_secs_f64(),
            count,
            memory_kib: 0,
        }
    }
}

/// A load and its runs.
pub struct Row {
    /// Load to run.
    pub load: &'static loads::Load,
    /// By the program as `cargo build --release` makes it.
    pub plain: Vec<Measured>,
    /// By the program as `make fast` makes it.
    pub fast: Vec<Measured>,
}

fn main() -> ExitCode {
    command::run("speed", |words| match words {
        ["one", name] => one(name),
        ["page", file, fast] => measure(Path::new(file), Path::new(fast), None),
        ["page", file, fast, python] => measure(Path::new(file), Path::new(fast), Some(python)),
        _ => Err("expected `page FILE FAST [PYTHON]` or `one NAME`".into()),
    })
}

#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn one(name: &str) -> Outcome<()> {
    let mut measured = loads::run(name)?;
    measured.memory_kib = largest_size_kib()?;
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

/// `VmHWM` of this process.
fn largest_size_kib() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no VmHWM in /proc/self/status")?.parse()?)
}

/// Writes the page. Both builds take turns, so that both find the machine as fast as it is at the
/// time.
fn measure(page: &Path, fast: &Path, python: Option<&str>) -> Outcome<()> {
    let own = std::env::current_exe()?;
    let mut rows = Vec::new();
    for load in &loads::LOADS {
        eprintln!("{}", load.text);
        let mut row = Row {
            load,
            plain: Vec::new(),
            fast: Vec::new(),
        };
        for _ in 0..REPEATS {
            row.plain.push(run(&own, load.name)?);
            row.fast.push(run(fast, load.name)?);
        }
        rows.push(row);
    }
    let simso = python.map(simso).transpose()?;
    std::fs::write(page, page::render(&rows, simso)?)?;
    Ok(())
}

/// One load in a process of its own.
fn run(program: &Path, load: &str) -> Outcome<Measured> {
    let output = Command::new(program)
        .args(["one", load])
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Seconds SimSo needs for a simulated second of W1.
fn simso(python: &str) -> Outcome<f64> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/speed/simso_w1.py");
    eprintln!("SimSo on W1, {SIMSO_SECONDS} simulated second");
    let begin = Instant::now();
    let output = Command::new(python)
        .arg(script)
        .arg(SIMSO_SECONDS.to_string())
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(begin.elapsed().as_secs_f64() / SIMSO_SECONDS as f64)
}
