//! Measures on the running kernel what a simulation of it must reproduce, and writes it down.
//!
//! ```text
//! known_answers SECTION [--into FILE]
//! ```
//!
//! Each section takes 10–60 s and wants the machine to itself. With `--into` the section of that
//! name in the Markdown file is replaced (or added), so the page can be renewed piece by piece;
//! without, it is printed.

#[path = "../shared/command.rs"]
mod command;
mod costs;
mod jobs;
mod page;
mod quiet;
mod shares;
mod slices;
mod throttling;
mod ticks;
mod traced;
mod unthrottle;

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use schedcast_host::{CgroupVersion, CommandSpec, CpuCgroup, CpuFile, CpuTimes, hog};

type Outcome = Result<String, Box<dyn Error>>;

/// A section: its name and title, and what measures it.
struct Section {
    name: &'static str,
    title: &'static str,
    measure: fn() -> Outcome,
}

const SECTIONS: [Section; 14] = [
    Section {
        name: "jobs",
        title: "A 30 ms job a second under 13 ms/100 ms",
        measure: jobs::without_burst,
    },
    Section {
        name: "jobs-burst",
        title: "The same job with 13 ms of burst",
        measure: jobs::with_burst,
    },
    Section {
        name: "jobs-asking",
        title: "The job without burst, charged all the time",
        measure: jobs::asking_without_burst,
    },
    Section {
        name: "jobs-burst-asking",
        title: "The job with burst, charged all the time",
        measure: jobs::asking_with_burst,
    },
    Section {
        name: "shares",
        title: "Shares 100 against 300 on one CPU",
        measure: shares::by_shares,
    },
    Section {
        name: "nice",
        title: "Nice 0 against nice 5 on one CPU",
        measure: shares::by_nice,
    },
    Section {
        name: "throttling",
        title: "Two hogs on two CPUs under 50 ms/100 ms",
        measure: throttling::section,
    },
    Section {
        name: "costs",
        title: "What kernel paths cost here",
        measure: costs::quick,
    },
    Section {
        name: "wakes",
        title: "Waking another CPU",
        measure: costs::remote,
    },
    Section {
        name: "timers",
        title: "How late a sleeper wakes",
        measure: costs::timers,
    },
    Section {
        name: "slices",
        title: "Slices of two hogs on one CPU",
        measure: slices::hogs,
    },
    Section {
        name: "sleeper",
        title: "A short sleeper beside one hog",
        measure: slices::sleeper,
    },
    Section {
        name: "ticks",
        title: "Tick phase and cost",
        measure: ticks::section,
    },
    Section {
        name: "unthrottle",
        title: "Throttled tasks in the trace",
        measure: unthrottle::section,
    },
];

fn main() -> ExitCode {
    command::run("known_answers", |words| match words {
        ["hog", rest @ ..] => hog::main(rest).map_err(Into::into),
        _ => measure(words),
    })
}

fn measure(words: &[&str]) -> Result<(), Box<dyn Error>> {
    let names: Vec<&str> = SECTIONS.iter().map(|section| section.name).collect();
    let (name, file) = match *words {
        [name] => (name, None),
        [name, "--into", file] => (name, Some(file)),
        _ => return Err(format!("expected SECTION [--into FILE]; sections: {names:?}").into()),
    };
    let section = SECTIONS
        .iter()
        .find(|section| section.name == name)
        .ok_or_else(|| format!("no section {name:?}; sections: {names:?}"))?;
    let before = CpuTimes::read()?;
    let own_group = join_heavy_group()?;
    let body = (section.measure)()?;
    own_group.close()?;
    let steal_ratio = CpuTimes::read()?.steal_ratio_since(&before);
    let text = page::section(section.title, steal_ratio, &body)?;
    match file {
        Some(file) => page::replace(Path::new(file), section.name, &names, &text)?,
        None => std::io::stdout().write_all(text.as_bytes())?,
    }
    Ok(())
}

/// This program itself as a command that burns CPU.
fn hog_command(words: &str) -> Result<CommandSpec, Box<dyn Error>> {
    let command = CommandSpec::new(std::env::current_exe()?).arg("hog");
    Ok(command.args(words.split(' ')))
}

/// A group for one measurement. It outweighs every other group on the host, so that a program that
/// starts in the midst of it gets less than 1 % of the CPU instead of half.
fn new_group() -> Result<CpuCgroup, Box<dyn Error>> {
    let name = format!("schedcast-known-{}", std::process::id());
    heavy_group(&name)
}

fn heavy_group(name: &str) -> Result<CpuCgroup, Box<dyn Error>> {
    let group = CpuCgroup::create("/", name)?;
    match group.version() {
        CgroupVersion::V1 => group.write(CpuFile::Shares, "262144")?,
        CgroupVersion::V2 => group.write(CpuFile::Weight, "10000")?,
    }
    Ok(group)
}

/// Puts this process itself into a heavy group while it measures with its own threads.
fn join_heavy_group() -> Result<CpuCgroup, Box<dyn Error>> {
    let group = heavy_group(&format!("schedcast-known-{}-self", std::process::id()))?;
    std::fs::write(group.dir().join("cgroup.procs"), "0")?;
    Ok(group)
}
