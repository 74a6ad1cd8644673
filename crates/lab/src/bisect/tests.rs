//! Ways between kernels whose changes have a price.

use std::sync::atomic::{AtomicU32, Ordering};

use schedcast_base::assert_contains;
use schedcast_kernel::rules::Change as KernelChange;

use super::*;
use crate::experiment;
use crate::late::LateInterval;

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
    let experiment = experiment::read_text("kernels.toml", &text).unwrap();
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
    assert_contains(bisection.text(), "decide alike");
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

/// A wait of a thread that only `fork-no-preempt` moves; half of the seeds are alike on each side
/// of it, and the rest is noise.
struct Waits;

impl Simulate for Waits {
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        let rules = &scenario.kernel.rules;
        let change = KernelChange::named("fork-no-preempt").unwrap();
        let long = change.is_in(rules);
        // The newest release alone differs from seed to seed.
        let noise = if rules.version >= "7.0".parse().unwrap() {
            seed as f64
        } else {
            0.0
        };
        let wait = if long { 2_000_000.0 + noise } else { 4_000.0 };
        let time = 100.0 + seed as f64 / 1000.0 + f64::from(u8::from(long)) * 5.0;
        let metrics = [
            ("a/wakeup_latency.p99".to_owned(), wait),
            ("a/wakeup_latency.count".to_owned(), 1.0),
            ("hackbench/time".to_owned(), time),
        ];
        Ok(Outcome {
            event_hash: (wait + time) as u64,
            metrics: metrics.into(),
            at_least: std::collections::BTreeSet::new(),
        })
    }
}

fn waits(metric: Option<&str>) -> Bisection {
    let text = "[[program]]\nrun = \"hackbench -g 1\"\n\
        [[variant]]\nname = \"a\"\nkernel.version = \"6.12\"\n\
        [[variant]]\nname = \"b\"\nkernel.version = \"7.0\"\n";
    let experiment = experiment::read_text("kernels.toml", text).unwrap();
    let followed = (metric, None);
    bisect(&experiment.scenarios, 4, followed, &Waits, &|| {}).unwrap()
}

#[test]
fn the_percentile_of_one_wait_is_not_followed_of_itself() {
    assert_eq!(waits(None).metric, "hackbench/time");
}

#[test]
fn steps_that_too_few_seeds_cannot_tell_are_not_denied() {
    let bisection = waits(Some("a/wakeup_latency.p99"));
    assert!(bisection.change.significant && bisection.parts.is_empty());
    let text = bisection.text();
    assert_contains(&text, ["too few seeds", "comes with 6.19, +49900.0 %"]);
    assert!(!text.contains("do not move it"), "{text}");
    assert_contains(&text, "--seeds 10\n");
    let with_ten = Bisection {
        seeds: 10,
        ..bisection
    };
    assert_contains(with_ten.text(), "--seeds 20\n");
}

/// Text on a change of −10 % that consists of `changes`, releases with their ratios, of which no
/// one is beyond the noise of the seeds.
fn unsure(from: &str, to: &str, changes: &[(&str, f64)]) -> String {
    let steps = changes.iter().map(|(release, ratio)| {
        let newer = [from, to].map(|one| one.parse::<Version>().unwrap());
        let newer = newer.into_iter().max();
        Part {
            changes: vec![Link {
                patch: "-a".to_owned(),
                commit: None,
                release: Some((*release).to_owned()),
                description: String::new(),
                carried_by: newer
                    .filter(|newer| *newer < release.parse().unwrap())
                    .map(|newer| newer.to_string()),
                merged_in: None,
                mended_in: None,
            }],
            means: [1.0, *ratio],
            change: Change {
                ratio: Some(*ratio),
                ci95: LateInterval::none(),
                significant: false,
            },
        }
    });
    let whole = Change {
        ratio: Some(0.9),
        ci95: LateInterval::none(),
        significant: true,
    };
    let one = found(from, to, &[]);
    Bisection {
        unsure: largest_towards(&whole, steps),
        change: whole,
        same_events: false,
        ..one
    }
    .text()
}

#[test]
fn the_step_of_an_unsure_change_has_its_sign() {
    let text = unsure("6.12", "6.18", &[("6.13", 1.3), ("6.14", 0.92)]);
    assert_contains(&text, "most of it comes with 6.14, \u{2212}8.0 %");
    let text = unsure("6.12", "6.18", &[("6.13", 1.3), ("6.14", 0.98)]);
    assert_contains(&text, "the largest part of it comes with 6.14");
    let text = unsure("6.12", "6.18", &[("6.13", 1.3)]);
    assert!(!text.contains("comes with"), "{text}");
}

#[test]
fn a_way_back_does_not_come_with_releases_and_names_none_beyond_its_ends() {
    let text = unsure("6.18", "6.12", &[("6.14", 0.92)]);
    assert_contains(&text, "comes with what 6.14 changed and 6.12 lacks");
    let text = unsure("6.18.44", "6.12", &[("6.19", 0.92)]);
    assert_contains(
        &text,
        "comes with changes of 6.19 that 6.18.44 has and the other lacks",
    );
}

#[test]
fn what_a_stable_series_took_is_named_with_the_kernel_that_has_it() {
    let links = |bisection: Bisection| -> Vec<Link> {
        let parts = bisection.parts.into_iter();
        parts.flat_map(|part| part.changes).collect()
    };
    let text = "[[program]]\nrun = \"hackbench -g 1\"\n\
        [[variant]]\nname = \"a\"\nkernel.version = \"6.18.44\"\n\
        [[variant]]\nname = \"b\"\nkernel.version = \"6.12\"\n";
    let scenarios = experiment::read_text("kernels.toml", text)
        .unwrap()
        .scenarios;
    let points = points(&scenarios[0], &scenarios[1]);
    let carried = points.iter().filter_map(|point| point.link.as_ref());
    let carried: Vec<&Link> = carried.filter(|link| link.carried_by.is_some()).collect();
    assert!(
        !carried.is_empty(),
        "6.18.44 took changes of later releases"
    );
    assert_contains(carried[0].text(""), "6.18.44 has it of ");
    let links = links(found("6.12", "6.1", &[(&["eevdf"], 10.0)]));
    assert!(links.iter().all(|link| link.carried_by.is_none()));
}

#[test]
fn a_first_release_is_told_with_what_its_series_mended() {
    let price: &[(&[&str], f64)] = &[(&["tick-by-top-level"], 10.0)];
    let text = found("6.6.145", "6.12", price).text();
    assert_contains(
        &text,
        "tick-by-top-level  dated by its release  mended in 6.12.7\n",
    );
    assert_contains(
        &text,
        "6.12 is its first release; 6.12.111 (the newest known patch level)",
    );
    assert_contains(&text, "name 6.12.111 for those\n");
    assert!(!text.contains("6.6 is its"), "{text}");
    // The kernel that is left for another had it: its series is the one that mended it.
    let text = found("6.12", "6.18.44", price).text();
    assert!(
        text.contains("-tick-by-top-level") && text.contains("mended in 6.12.7"),
        "{text}"
    );
    let text = found("6.6.145", "6.12.7", price).text();
    assert!(
        !text.contains("mended") && !text.contains("first release"),
        "{text}"
    );
}

#[test]
fn a_size_is_not_certain_where_the_recording_is_missed() {
    let text = |misfit: Option<&str>| {
        let one = Bisection {
            misfit: misfit.map(str::to_owned),
            ..waits(None)
        };
        one.text()
    };
    let figures = "p95 79 simulated, 101 ms recorded";
    assert_contains(
        text(Some(figures)),
        "(p95 79 simulated, 101 ms recorded), so that none",
    );
    assert!(!text(None).contains("misses the recording"));
}

#[test]
fn one_seed_has_no_noise_to_speak_of() {
    let one = Bisection {
        seeds: 1,
        ..waits(None)
    };
    let text = one.text();
    assert_contains(&text, ["one seed shows no noise", "--seeds 10\n"]);
    assert!(!text.contains("within the noise"), "{text}");
}

#[test]
fn what_no_rule_has_is_named_with_its_published_size() {
    let text = found("5.8", "5.9", &[]).text();
    assert_contains(
        &text,
        ["decide alike", "62.4 % less throughput of hackbench"],
    );
    // What is known of 7.0 is about PostgreSQL.
    let text = found("6.19", "7.0", &[]).text();
    assert!(text.ends_with("is not modelled.\n"), "{text}");
}
