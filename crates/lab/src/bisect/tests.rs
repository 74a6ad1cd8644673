//! Ways between kernels whose changes have a price.

use std::sync::atomic::{AtomicU32, Ordering};

use schedcast_kernel::rules::Change as KernelChange;

use super::*;
use crate::error::Source;
use crate::experiment::{self, Surroundings, document};

/// Takes 100 ms, and so much more for each of its changes that the kernel has; each seed moves
/// that by up to a hundredth.
struct Priced {
    prices: &'static [(&'static [&'static str], f64)],
    runs: AtomicU32,
}

impl Simulate for Priced {
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let has = |name: &&str| {
            let change = KernelChange::named(name).unwrap();
            change.is_in(&scenario.kernel.rules)
        };
        let paid = self
            .prices
            .iter()
            .filter(|(names, _)| names.iter().all(&has));
        let ms = 100.0 + paid.map(|(_, price)| price).sum::<f64>();
        let time = ms * (1.0 + seed as f64 / 1000.0);
        Ok(Outcome {
            event_hash: (time * 1e6) as u64,
            metrics: [("hackbench/time".to_string(), time)].into(),
            at_least: std::collections::BTreeSet::new(),
        })
    }
}

/// Between each of the `kernels` and the next.
fn chained(kernels: &[&str], prices: &'static [(&'static [&'static str], f64)]) -> Vec<Bisection> {
    let mut text = "[[program]]\nrun = \"hackbench -g 1\"\n".to_owned();
    for kernel in kernels {
        text += &format!("[[variant]]\nname = \"{kernel}\"\nkernel.version = \"{kernel}\"\n");
    }
    let document = document::parse(&Source::new("kernels.toml", &text)).unwrap();
    let experiment = experiment::read(&document, &Surroundings::default()).unwrap();
    let runs = AtomicU32::new(0);
    let simulator = Priced { prices, runs };
    let columns = (experiment.scenarios.as_slice(), kernels.len() - 1);
    chain(columns, 10, (None, None), &simulator, &|| {}).unwrap()
}

fn found(from: &str, to: &str, prices: &'static [(&'static [&'static str], f64)]) -> Bisection {
    chained(&[from, to], prices).remove(0)
}

fn patches(bisection: &Bisection) -> Vec<Vec<&str>> {
    let parts = bisection.parts.iter();
    let links = |part: &Part| part.changes.len();
    parts
        .map(|part| {
            (0..links(part))
                .map(|at| part.changes[at].patch.as_str())
                .collect()
        })
        .collect()
}

#[test]
fn two_changes_of_different_releases_are_both_found_though_they_cancel_each_other() {
    let prices: &[(&[&str], f64)] = &[(&["eevdf"], 10.0), (&["tg-load-ratelimit"], -9.99)];
    let bisection = found("6.1", "6.12", prices);
    assert_eq!(patches(&bisection), [["eevdf"], ["tg-load-ratelimit"]]);
    let ratios: Vec<f64> = bisection
        .parts
        .iter()
        .filter_map(|part| part.change.ratio)
        .collect();
    assert!((ratios[0] - 1.1).abs() < 1e-9 && (ratios[1] - 100.01 / 110.0).abs() < 1e-9);
    assert!(
        bisection.points < bisection.changes,
        "not every change is run"
    );
}

#[test]
fn the_way_back_takes_the_change_away() {
    let bisection = found("6.12", "6.1", &[(&["eevdf"], 10.0)]);
    assert_eq!(patches(&bisection), [["-eevdf"]]);
    assert!(bisection.change.ratio.is_some_and(|ratio| ratio < 1.0));
}

#[test]
fn kernels_that_decide_alike_have_no_change_to_name() {
    let bisection = found("6.1", "6.12", &[]);
    assert!(bisection.same_events && bisection.parts.is_empty());
    assert!(
        bisection.text().contains("decide alike"),
        "{}",
        bisection.text()
    );
}

#[test]
fn what_only_two_changes_do_together_is_named_by_the_one_that_comes_last() {
    let prices: &[(&[&str], f64)] = &[(&["eevdf", "reweight-vruntime"], 10.0)];
    assert_eq!(
        patches(&found("6.5", "6.8", prices)),
        [["reweight-vruntime"]]
    );
}

#[test]
fn three_kernels_are_two_ways_each_with_its_own_reason() {
    let prices: &[(&[&str], f64)] = &[(&["hrtick"], 10.0), (&["flat-pick"], 5.0)];
    let [first, second] = chained(&["6.18", "7.1", "7.3"], prices).try_into().unwrap();
    assert_eq!((first.from.as_str(), first.to.as_str()), ("6.18", "7.1"));
    assert_eq!(patches(&first), [["hrtick"]]);
    assert_eq!((second.from.as_str(), second.to.as_str()), ("7.1", "7.3"));
    assert_eq!(patches(&second), [["flat-pick"]]);
}

#[test]
fn what_no_rule_has_is_named_with_its_published_size() {
    let text = found("6.19", "7.0", &[]).text();
    assert!(text.contains("decide alike"), "{text}");
    assert!(text.contains("48.5 % fewer transactions"), "{text}");
    let text = found("7.1", "7.2", &[]).text();
    assert!(text.ends_with("is not modelled.\n"), "{text}");
}
