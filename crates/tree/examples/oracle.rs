//! Writes the table of `docs/validation/oracle.md`: the rules against every tree at hand, in drawn
//! worlds.
//!
//! `oracle SEEDS STEPS PAGE`: as many histories of that length for each tree and world of 8 CPUs,
//! more of them for smaller machines and fewer for larger ones, as [`histories`] says.

#![expect(clippy::print_stdout, reason = "a program")]

use schedcast_kernel::rules::Version;
use schedcast_tree::lockstep::{Kinds, SHAPES, Shape, draw, full_config, run};
use schedcast_tree::{Builder, trees};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Releases whose trees `validation/trees` fetches.
const VERSIONS: &[&str] = &[
    "5.10.223", "6.1.176", "6.12.107", "6.18.15", "7.1.13", "7.2.12", "7.3.4",
];

/// Mixes of steps by name.
const MIXES: [(&str, Kinds); 11] = [
    ("tasks", Kinds::TASKS),
    ("tasks in groups", Kinds::of("g")),
    ("groups with limits", Kinds::LIMITED),
    ("groups, switches turned", Kinds::of("glf")),
    ("all kinds", Kinds::ALL),
    ("deadlines", Kinds::of("e")),
    ("all kinds with deadlines", Kinds::of("glrce")),
    ("clamps", Kinds::of("gru")),
    ("all kinds with clamps", Kinds::of("glrcu")),
    (
        "all kinds with stolen time and long interrupts",
        Kinds::of("glrcv"),
    ),
    (
        "all kinds with deadlines, removals and changing cpusets",
        Kinds::of("glrecxq"),
    ),
];

/// Histories of a machine where one of 8 CPUs gets `seeds`: what they cost grows with its CPUs,
/// because all that both sides keep of each is compared after each step.
fn histories(seeds: u64, shape: Shape) -> u64 {
    match shape.cpus() {
        1 => seeds * 20,
        2 => seeds * 16,
        3..=4 => seeds * 3,
        5..=8 => seeds,
        _ => seeds.div_ceil(2),
    }
}

/// Where the table begins in the page; it goes on to the end.
const TABLE: &str = "## Steps equal\n";

#[derive(Default)]
struct Row {
    equal: usize,
    whole: u64,
    agreed: usize,
    alike: u64,
    first: BTreeMap<String, u32>,
}

fn row(
    object: &Path,
    version: &str,
    shape: Shape,
    kinds: Kinds,
    (seeds, steps): (u64, usize),
) -> Row {
    let mut row = Row::default();
    for seed in 1..=seeds {
        match run(object, version, &draw(seed, shape, kinds, steps)) {
            Ok(outcome) => {
                row.equal += outcome.equal;
                row.whole += u64::from(outcome.is_equal_to_the_end());
                row.agreed += outcome.agreed;
                row.alike += u64::from(outcome.decides_alike_to_the_end());
                if outcome.endless {
                    let given_up = "interrupts without end on both sides".to_owned();
                    *row.first.entry(given_up).or_default() += 1;
                }
                if let Some((_, differences)) = outcome.parted {
                    *row.first.entry(differences[0].member.clone()).or_default() += 1;
                }
            }
            Err(error) => {
                // The log's lines are parted by what parts the columns of a table.
                let error = error.to_string().replace(" | ", "; ");
                *row.first.entry(error).or_default() += 1;
            }
        }
    }
    row
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seeds, steps, page] = &arguments[..] else {
        return Err("usage: oracle SEEDS STEPS PAGE".into());
    };
    let (seeds, steps) = (seeds.parse::<u64>()?, steps.parse::<usize>()?);
    let mut table = String::from(
        "\n| tree | machine | steps of | steps equal | histories equal to the end | steps decided alike | histories to the end | parted first in |\n|---|---|---|---|---|---|---|---|\n",
    );
    let (mut total, mut whole) = ([0, 0], [0, 0, 0]);
    for version in VERSIONS {
        let Some(tree) = trees::find(version) else {
            println!("{version}: no tree in {}", trees::folder().display());
            continue;
        };
        let release: Version = version.parse()?;
        let built = Builder::new(&tree, full_config(release)).and_then(|builder| builder.object());
        let object = match built {
            Ok(object) => object,
            Err(error) => {
                println!("{version}: {error}");
                continue;
            }
        };
        for &shape in SHAPES {
            if !shape.is_known_to(release) {
                continue;
            }
            for (name, kinds) in MIXES {
                // Utilisation clamps are rules from 6.1 on.
                if kinds.clamps && !release.since(6, 1) {
                    continue;
                }
                let seeds = histories(seeds, shape);
                let row = row(&object, version, shape, kinds, (seeds, steps));
                let mut first: Vec<_> = row
                    .first
                    .iter()
                    .map(|(member, count)| (*count, member))
                    .collect();
                first.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
                let first: Vec<String> = first
                    .iter()
                    .take(3)
                    .map(|(count, member)| format!("{member} ({count})"))
                    .collect();
                total[0] += row.equal;
                total[1] += row.agreed;
                whole = [whole[0] + row.whole, whole[1] + row.alike, whole[2] + seeds];
                let line = format!(
                    "| {version} | {shape} | {name} | {} | {} of {} | {} | {} of {} | {} |\n",
                    row.equal,
                    row.whole,
                    seeds,
                    row.agreed,
                    row.alike,
                    seeds,
                    first.join(", ")
                );
                print!("{line}");
                table.push_str(&line);
            }
        }
    }
    writeln!(
        table,
        "\n{} steps were compared and equal in everything; {} were decided alike, with\nthose that follow a different number.\nOf {} histories {} were equal to the end and {} decided alike to the end.",
        total[0], total[1], whole[2], whole[0], whole[1]
    )?;
    let text = std::fs::read_to_string(page)?;
    let above = text.split(TABLE).next().unwrap_or_default();
    std::fs::write(page, format!("{above}{TABLE}{table}"))?;
    Ok(())
}
