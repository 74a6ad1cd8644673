//! Runs drawn histories on a tree and on the rules: `lockstep OBJECT VERSION SOCKETS LLCS CORES SMT KINDS SEEDS STEPS`,
//! KINDS some of the letters g (groups), l (limits), r (real-time), c (changes).

#![expect(clippy::print_stdout, reason = "a program")]

use schedcast_tree::lockstep::{Kinds, Shape, draw, run, shrink};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |row: usize| arguments[row].parse::<usize>().expect("a number");
    let (object, version) = (std::path::Path::new(&arguments[0]), &arguments[1]);
    let shape = Shape {
        sockets: number(2),
        llcs: number(3),
        cores: number(4),
        smt: number(5),
    };
    let has = |letter: char| arguments[6].contains(letter);
    let kinds = Kinds {
        groups: has('g'),
        limits: has('l'),
        real_time: has('r'),
        changes: has('c'),
    };
    let (mut equal, mut done) = (0, 0);
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
        done += outcome.equal + usize::from(outcome.parted.is_some());
        let Some((row, differences)) = &outcome.parted else {
            continue;
        };
        println!(
            "seed {seed}: {} equal, then step {row} {:?}",
            outcome.equal, history.steps[*row]
        );
        for difference in differences.iter().take(if last > first { 3 } else { 16 }) {
            println!("   {difference}");
        }
        if has('s') {
            let wanted = differences[0].member.clone();
            let small = shrink(history, |history| {
                run(object, version, history).ok().filter(|outcome| {
                    outcome
                        .parted
                        .as_ref()
                        .is_some_and(|parted| parted.1[0].member == wanted)
                })
            });
            println!("shrunk: {small:#?}");
            if let Ok(outcome) = run(object, version, &small) {
                for difference in outcome.parted.iter().flat_map(|parted| &parted.1) {
                    println!("   {difference}");
                }
            }
        }
    }
    println!(
        "{version}, {shape}, {}: {equal} of {done} steps equal",
        arguments[6]
    );
}
