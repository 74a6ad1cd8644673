//! The worked example of `docs/own-patch.md`: a rule of one's own, compared with the stock kernel.

use std::path::Path;

use schedcast_lab::experiment::{self, Experiment, Surroundings};
use schedcast_lab::explain::{Kind, Wanted, explain, first_difference};
use schedcast_lab::simulate::run_all;
use schedcast_lab::simulator::Simulator;

fn example() -> Experiment {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/own-patch.toml");
    experiment::load(&file, Surroundings::default()).unwrap()
}

#[test]
fn the_patched_kernel_decides_differently_and_says_by_which_rule() {
    let (simulator, scenarios) = (Simulator::new(), example().scenarios);
    let text = first_difference(&simulator, &scenarios[0], &scenarios[1], 0).unwrap();
    let (stock, mine) = text.split_once("\nmine:\n").unwrap();
    assert!(stock.contains("place: "), "{text}");
    assert!(!stock.contains("OwnRule"), "{text}");
    assert!(mine.contains("a rule of your own\n"), "{text}");
    assert!(mine.contains("mark OwnRule"), "{text}");
}

/// Threads n and n + 4 are one core: with the patch the task goes to the other thread of its
/// waker's core, whenever that is idle.
#[test]
fn the_patched_rule_places_on_the_wakers_core() {
    let (simulator, scenarios) = (Simulator::new(), example().scenarios);
    let wanted = Wanted {
        at_ns: Some(10_000_000),
        task: None,
        kind: Some(Kind::Place),
        count: 20,
        of_replay: false,
    };
    let text = explain(&simulator, &scenarios[1], 0, &wanted).unwrap();
    let number = |line: &str, word: &str| -> u32 {
        let behind = line.split(word).nth(1).unwrap();
        let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap()
    };
    let lines: Vec<&str> = text.lines().collect();
    let mut placed = 0;
    for (at, line) in lines.iter().enumerate() {
        let own = lines
            .get(at + 2)
            .is_some_and(|rule| rule.contains("OwnRule"));
        if line.contains("  place: ") && own {
            let waker = lines[at..]
                .iter()
                .find(|line| line.contains("  waker "))
                .unwrap();
            let (chosen, waker) = (number(line, "on CPU "), number(waker, "on CPU "));
            assert_eq!(chosen % 4, waker % 4, "{text}");
            assert_ne!(chosen, waker, "{text}");
            placed += 1;
        }
    }
    assert!(placed > 0, "{text}");
}

#[test]
fn both_kernels_run_side_by_side() {
    let experiment = example();
    let outcomes = run_all(&Simulator::new(), &experiment.scenarios, 1, &|| {}).unwrap();
    let hash = |variant: usize| outcomes[variant][0].event_hash;
    assert_ne!(hash(0), hash(1));
    assert!(
        outcomes
            .iter()
            .all(|row| row[0].metrics["machine/wakeups"] > 20_000.0)
    );
}
