//! Runs drawn histories on a tree and on the rules: `lockstep OBJECT VERSION SOCKETS LLCS CORES SMT
//! KINDS SEEDS STEPS [CAPACITY]…`, one capacity for each core or none, KINDS some of the letters of
//! `Kinds::of`, u and v if the object is built with them; p = the numbers behind are priorities;
//! n = the clocks have an energy model, if the object is built with it; d = ask for decisions only,
//! s = shrink, t = tell the trail of all steps, m = print the marks of rules reached.
//! `lockstep OBJECT VERSION world LETTERS SEEDS STEPS` draws machine and kinds from the seed;
//! `lockstep OBJECT VERSION shape ROW LETTERS SEEDS STEPS` takes the machine of that row of the
//! table that histories are drawn on, counted from 0.

#![expect(clippy::print_stdout, reason = "a program")]

use schedcast_tree::lockstep::{
    Difference, History, Kinds, Outcome, Pair, SHAPES, Shape, draw, draw_world, run, shrink,
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

/// Machine and kinds of steps by the words of the command line.
fn asked(counts: &[String], letters: &str, of_cores: &[String]) -> (Shape, Kinds) {
    let count = |row: usize| counts[row].parse().expect("a number");
    let has = |letter: char| letters.contains(letter);
    let numbers = of_cores.iter().map(|of| of.parse().expect("a number"));
    let of_cores: &[u32] = numbers.collect::<Vec<u32>>().leak();
    // Letter p: the numbers are priorities instead of capacities.
    let (capacities, priorities): (&[u32], &[u32]) = match has('p') {
        true => (&[], of_cores),
        false => (of_cores, &[]),
    };
    let shape = Shape {
        capacities,
        priorities,
        energy: has('n'),
        ..Shape::of(count(0), count(1), count(2), count(3))
    };
    (shape, Kinds::of(letters))
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (object, version) = (Path::new(&arguments[0]), &arguments[1]);
    let (letters, seeds, steps, of_cores) = match arguments[2].as_str() {
        "world" => (&arguments[3], &arguments[4], &arguments[5], &[][..]),
        "shape" => (&arguments[4], &arguments[5], &arguments[6], &[][..]),
        _ => (&arguments[6], &arguments[7], &arguments[8], &arguments[9..]),
    };
    let has = |letter: char| letters.contains(letter);
    let steps: usize = steps.parse().expect("a number of steps");
    let world = |seed: u64| match arguments[2].as_str() {
        "world" => draw_world(seed, version.parse().expect("a version")),
        "shape" => {
            let row: usize = arguments[3].parse().expect("a number");
            (SHAPES[row], Kinds::of(letters))
        }
        _ => asked(&arguments[2..6], letters, of_cores),
    };
    let parted = |outcome: &Outcome| -> Option<(usize, Vec<Difference>)> {
        match has('d') {
            true => outcome.decided.clone(),
            false => outcome.parted.clone(),
        }
    };
    let (mut equal, mut agreed, mut whole) = (0, 0, [0, 0]);
    let mut seeds = seeds
        .split('-')
        .map(|seed| seed.parse::<u64>().expect("a seed"));
    let first = seeds.next().expect("a seed");
    let last = seeds.next().unwrap_or(first);
    for seed in first..=last {
        let (shape, kinds) = world(seed);
        let history = draw(seed, shape, kinds, steps);
        let outcome = match run(object, version, &history) {
            Ok(outcome) => outcome,
            Err(error) => {
                println!("seed {seed}: {error}");
                continue;
            }
        };
        equal += outcome.equal;
        agreed += outcome.agreed;
        whole[0] += u64::from(outcome.is_equal_to_the_end());
        whole[1] += u64::from(outcome.decides_alike_to_the_end());
        if outcome.endless {
            println!("seed {seed}: interrupts without end on both sides");
        }
        let Some((row, differences)) = parted(&outcome) else {
            continue;
        };
        println!(
            "seed {seed}: {shape}: {} equal, {} agreed, then step {row} {:?}",
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
        "{version}, {}, {letters}: {equal} steps equal, {agreed} decided alike; histories {} and {} of {}",
        world(first).0,
        whole[0],
        whole[1],
        last - first + 1
    );
    if has('m') {
        println!("{:?}", schedcast_kernel::model::take_reached());
    }
}
