//! Tortures drawn worlds.
//!
//! ```text
//! swarm run WORLDS FIRST_SEED RESULTS.json    judges worlds, shrinks what breaks beside RESULTS.json
//! swarm show SEED                             prints the world of a seed, an experiment
//! swarm page PAGE.md RESULTS.json…            writes the page
//! ```
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use schedcast_verify::swarm::draw::draw;
use schedcast_verify::swarm::run::keep_panics;
use schedcast_verify::swarm::{Tally, page};

/// Worlds between two lines of progress.
const CHUNK: u64 = 1000;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["run", worlds, first, results] => run(worlds.parse()?, first.parse()?, Path::new(results)),
        ["show", seed] => {
            print!("{}", draw(seed.parse()?).0.text());
            Ok(ExitCode::SUCCESS)
        }
        ["page", to, ref results @ ..] => {
            let read = |path: &&str| Ok(serde_json::from_str(&fs::read_to_string(path)?)?);
            let tallies: Result<Vec<Tally>, Box<dyn std::error::Error>> =
                results.iter().map(read).collect();
            fs::write(to, page(&tallies?))?;
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(
            "swarm run WORLDS FIRST_SEED RESULTS.json, swarm show SEED, or swarm page PAGE.md \
             RESULTS.json…"
                .into(),
        ),
    }
}

fn run(worlds: u64, first: u64, results: &Path) -> Result<ExitCode, Box<dyn std::error::Error>> {
    keep_panics();
    let folder = results.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut tally: Option<Tally> = None;
    let mut seed = first;
    while seed < first + worlds {
        let end = (seed + CHUNK).min(first + worlds);
        let next = Tally::of(seed..end);
        for kind in &next.broken {
            println!(
                "seed {}: {} ({} worlds)",
                kind.seed, kind.words, kind.worlds
            );
            let least = kind.shrunk();
            let file = folder.join(format!("seed-{}.toml", kind.seed));
            let drawn = if least.chance {
                ""
            } else {
                ", nothing drawn by its seed"
            };
            let head = format!("# {}\n# run under seed {}{drawn}\n", kind.words, kind.seed);
            fs::write(&file, head + &least.text())?;
            println!("    shrunk to {}", file.display());
        }
        match &mut tally {
            Some(all) => all.add(next),
            None => tally = Some(next),
        }
        if let Some(tally) = &tally {
            println!(
                "{} worlds, {} held, {} refused, hash {}",
                tally.worlds, tally.held, tally.refused, tally.hash
            );
            fs::write(results, serde_json::to_string_pretty(tally)?)?;
        }
        seed = end;
    }
    let broken = tally.is_some_and(|tally| !tally.broken.is_empty());
    Ok(if broken {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
