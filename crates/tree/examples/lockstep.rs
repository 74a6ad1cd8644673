//! Runs drawn histories on a tree and on the rules: `lockstep OBJECT VERSION SOCKETS LLCS CORES SMT
//! KINDS SEEDS STEPS [CAPACITY]…`, one capacity for each core or none, KINDS some of the letters g
//! (groups), l (limits), r (real-time), e (deadline), c (changes), f (switches of
//! `sched/features`), u (utilisation clamps, if the object is built with them); p = the numbers
//! behind are priorities; n = the clocks have an energy model, if the object is built with it; d =
//! ask for decisions only, s = shrink, t = tell the trail of all steps, m = print the marks of
//! rules reached.

#![expect(clippy::print_stdout, reason = "a program")]

use schedcast_tree::lockstep::{
    Difference, History, Kinds, Outcome, Pair, Shape, draw, run, shrink,
};
use std::path::Path;

/// Trail of both sides in the last steps.
fn trail(object: &Path, version: &str, history: &History, steps: usize) -> Vec<String> {
    let mut pair = Pair::boot(object, version, history).expect("a history that ran before");
    let last = history.steps.len().saturating_sub(steps);
    for (row, step) in history.steps.iter().enumerate() {
        if row == last {
            pair.trail();
        }
        if pair.step(step).is_err() {
            break;
        }
    }
    pair.trail()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |row: usize| arguments[row].parse::<usize>().expect("a number");
    let (object, version) = (Path::new(&arguments[0]), &arguments[1]);
    let capacities: Vec<u32> = arguments[9..]
        .iter()
        .map(|capacity| capacity.parse().expect("a capacity"))
        .collect();
    let of_cores: &[u32] = capacities.leak();
    // Letter p: the numbers are priorities instead of capacities.
    let ranks = arguments[6].contains('p');
    let has = |letter: char| arguments[6].contains(letter);
    let shape = Shape {
        sockets: number(2),
        llcs: number(3),
        cores: number(4),
        smt: number(5),
        capacities: if ranks { &[] } else { of_cores },
        priorities: if ranks { of_cores } else { &[] },
        energy: has('n'),
    };
    let kinds = Kinds {
        groups: has('g'),
        limits: has('l'),
        real_time: has('r'),
        deadline: has('e'),
        changes: has('c'),
        features: has('f'),
        clamps: has('u'),
    };
    let parted = |outcome: &Outcome| -> Option<(usize, Vec<Difference>)> {
        match has('d') {
            true => outcome.decided.clone(),
            false => outcome.parted.clone(),
        }
    };
    let (mut equal, mut agreed, mut whole) = (0, 0, [0, 0]);
    let mut seeds = arguments[7]
        .split('-')
        .map(|seed| seed.parse::<u64>().expect("a seed"));
    let first = seeds.next().expect("a seed");
    let last = seeds.next().unwrap_or(first);
    for seed in first..=last {
        let history = draw(seed, shape, kinds, number(8));
        let outcome = match run(object, version, &history) {
            Ok(outcome) => outcome,
            Err(error) => {
                println!("seed {seed}: {error}");
                continue;
            }
        };
        equal += outcome.equal;
        agreed += outcome.agreed;
        whole[0] += u64::from(outcome.parted.is_none());
        whole[1] += u64::from(outcome.decided.is_none());
        let Some((row, differences)) = parted(&outcome) else {
            continue;
        };
        println!(
            "seed {seed}: {} equal, {} agreed, then step {row} {:?}",
            outcome.equal, outcome.agreed, history.steps[row]
        );
        for difference in differences.iter().take(if last > first { 3 } else { 16 }) {
            println!("   {difference}");
        }
        if has('t') && !has('s') {
            for line in trail(object, version, &history, usize::MAX) {
                println!("   {line}");
            }
        }
        if has('s') {
            let wanted = differences[0].member.clone();
            let small = shrink(history, |history: &History| {
                let outcome = run(object, version, history).ok()?;
                let (row, differences) = parted(&outcome)?;
                (differences[0].member == wanted).then_some(row)
            });
            println!("shrunk: {:?} {:?}", small.shape, small.features);
            for step in &small.steps {
                println!("   {step:?}");
            }
            if let Ok(outcome) = run(object, version, &small) {
                for difference in parted(&outcome).iter().flat_map(|parted| &parted.1) {
                    println!("   {difference}");
                }
            }
            for line in trail(
                object,
                version,
                &small,
                if has('t') { usize::MAX } else { 2 },
            ) {
                println!("   {line}");
            }
        }
    }
    println!(
        "{version}, {shape}, {}: {equal} steps equal, {agreed} decided alike; histories {} and {} of {}",
        arguments[6],
        whole[0],
        whole[1],
        last - first + 1
    );
    if has('m') {
        println!("{:?}", schedcast_kernel::model::take_reached());
    }
}
