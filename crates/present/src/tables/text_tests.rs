//! Golden tables, and the bounds of their lines.

use std::collections::BTreeMap;

use super::*;
use crate::tables::rows::tests::{about_web, node};
use schedcast_base::assert_contains;
use schedcast_lab::comparison::{MeasuredFigure, Tier};
use schedcast_lab::late::LateInterval;
use schedcast_lab::samples::{compared, example};

fn context() -> Context {
    Context {
        source: "exp.toml".to_string(),
        machine: "8 CPUs".to_string(),
        reproduce: words("schedcast compare exp.toml --seeds 4"),
        ..Context::default()
    }
}

fn assert_fits(text: &str, columns: usize) {
    assert!(text.lines().all(|line| width(line) <= columns), "{text}");
}

fn wide() -> Comparison {
    let mut comparison = example();
    for copy in 0..4 {
        let mut variant = comparison.variants[1].clone();
        variant.name = format!("a rather long variant name, number {copy}");
        comparison.variants.push(variant);
    }
    comparison
}

#[test]
fn an_interval_that_says_nothing_is_unknown() {
    let told = |high: f64| {
        let rows = [("web/request_latency.p95".to_string(), [5e3; 4], [6e3; 4])];
        let mut comparison = compared(&rows);
        let (_, summary) = &mut comparison.variants[1].metrics[0];
        (summary.misfit, summary.one_run95) = (true, Some([0.0, high]));
        let text = render(&comparison, &context());
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_contains(told(6e5), "6000 0–600000");
    let unknown = told(7e5);
    assert_contains(&unknown, "6000 unknown");
    assert_contains(
        &unknown,
        "unknown: the misfit widens the interval to more than 100 times",
    );
}

#[test]
fn a_long_path_gives_way_to_what_its_group_is_called() {
    let id = "8d1a".repeat(16);
    let path = format!("/kubepods/burstable/pod3f09-6c1e-0d1b-4c57/{id}");
    let name = format!("cgroup:{path}/nr_throttled");
    let metric = schedcast_lab::metrics::parse(&name).unwrap();
    let scale = scale_for(&metric, 5.0);
    let labels = BTreeMap::from([(path, "shop/checkout/app".to_string())]);
    let labelled = Context {
        labels,
        ..Context::default()
    };
    let name = name.as_str();
    let label = row_label(&metric, &scale, &labelled);
    assert_eq!(label, "cgroup:shop/checkout/app/nr_throttled");
    assert!(row_label(&metric, &scale, &Context::default()).starts_with("…"));
    let threads = |name: &str, context: &Context| {
        let path = metric.subject.replace(CGROUP, "");
        let name = format!("{name}@{path}/wait.throttled");
        fitting(&metrics::parse(&name).unwrap(), 0, context)
    };
    let label = threads("ordersd", &labelled);
    assert_eq!(label, "ordersd@shop/checkout/app/wait.throttled");
    let cut = threads("ordersd", &Context::default());
    assert!(cut.starts_with("ordersd@…8d1a8d1a"), "{cut}");
    assert!(cut.ends_with("8d1a/wait.throttled"), "{cut}");
    assert_eq!(width(&cut), 52);
    // The label stays where it does not fit either, cut at its begin.
    let cut = threads("a-rather-long-name-of-threads", &labelled);
    assert_eq!(cut, "a-rather-long-name-of-threads@…ut/app/wait.throttled");
    let neighbour = format!("python3@{}", metric.subject.replace(CGROUP, ""));
    let fits = |taken: usize| fitting_threads(&neighbour, taken, &labelled);
    assert_eq!(fits(20), "python3@shop/checkout/app");
    assert_eq!(fits(30), "python3@…/checkout/app");
    let told = super::labelled(&format!("({name}, 3) of pod"), &labelled);
    let expected = ["(cgroup:shop/checkout/app/nr_throttled,", "3)", "of", "pod"];
    assert_eq!(told, expected);
    let told = Context {
        verdict: vec![format!("now: 5 ms: {name} is 3.")],
        ..labelled
    };
    let expected = "now: 5 ms: cgroup:shop/checkout/app/nr_throttled is 3.\n";
    assert_eq!(verdict(&told.verdict, &told), expected);
}

#[test]
fn columns_that_are_one_run_are_called_so() {
    let told = |comparison: &Comparison| {
        let text = render(comparison, &context());
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(!told(&example()).contains("decide alike"));
    let mut comparison = example();
    let mut copy = comparison.variants[0].clone();
    copy.name = "patched".to_string();
    comparison.variants.push(copy);
    let baseline = &comparison.variants[0].name;
    let expected = format!("\"{baseline}\" and \"patched\" decide alike here, event by event");
    assert_contains(told(&comparison), &expected);
}

#[test]
fn an_experiment() {
    insta::assert_snapshot!(render(&example(), &context()));
}

#[test]
fn a_recording_shows_its_fit_below_the_table() {
    let mut comparison = example();
    comparison.tier = Some(Tier::Trace);
    comparison.title.clear();
    let (throttled, p99) = ("cgroup:/test/nr_throttled", "schbench/request_latency.p99");
    for (variant, metric, [median, min, max]) in [
        ("no burst", throttled, [40.0, 39.0, 44.0]),
        ("no burst", p99, [209_000.0; 3]),
        ("burst 100 ms", throttled, [0.0; 3]),
    ] {
        comparison.set_measured(variant, metric, MeasuredFigure { median, min, max });
    }
    let context = Context {
        source: "recording pg, 29.5 s".to_string(),
        target: Some("/test   baseline cpu.max \"50000 100000\" burst 0".to_string()),
        apply: vec![(
            "burst 100 ms".to_string(),
            vec![
                "echo \"100000 100000\" > cpu.max".into(),
                "echo 100000 > cpu.max.burst".into(),
            ],
        )],
        fit: vec![
            RefitFigure::new("cgroup:/test/nr_throttled", 41.0, 40.0),
            RefitFigure::new("schbench/request_latency.p99", 212_100.0, 209_000.0),
        ],
        ..context()
    };
    insta::assert_snapshot!(render(&comparison, &context));
}

/// 16 times too little is farther off than twice as much.
#[test]
fn the_figure_that_is_farthest_off_is_told_in_either_direction() {
    let figures = [
        RefitFigure::new("cgroup:/test/throttled_usec", 195.0, 100.0),
        RefitFigure::new("a/activation_latency.p99", 1_000.0, 16_000.0),
        RefitFigure::new("cgroup:/test/nr_throttled", 41.0, 40.0),
    ];
    let context = Context {
        fit: figures.to_vec(),
        ..context()
    };
    let text = render(&example(), &context);
    let told =
        "farthest off: activation_latency.p99 1.00 re-simulated vs 16.00 ms recorded (÷16.0)";
    let told: String = told.split_whitespace().collect();
    let text: String = text.split_whitespace().collect();
    assert!(text.contains(&told), "{text}");
    // With requests known, activations are cut at replies and measure nothing.
    let mut cut = figures.to_vec();
    cut.push(RefitFigure::new("a/request_latency.p50", 10.0, 10.0));
    let context = Context {
        fit: cut,
        ..context
    };
    let text = render(&example(), &context);
    assert_contains(
        text.split_whitespace().collect::<String>(),
        "farthestoff:throttled_usec195",
    );
}

/// 12 activations have no p99; in an experiment all of them are known.
#[test]
fn percentiles_of_too_few_values_are_marked_in_answers_from_recordings() {
    let rows = [
        ("web/activation_latency.p50", 3e3),
        ("web/activation_latency.p99", 9e3),
        ("web/activation_latency.count", 12.0),
    ];
    let comparison =
        compared(&rows.map(|(name, value)| (name.to_string(), [value; 4], [value; 4])));
    let text = render(&comparison, &about_web());
    assert!(text.contains("web/activation_latency.p99 (us) †"), "{text}");
    assert!(text.contains("web/activation_latency.p50 (us)  "), "{text}");
    assert!(text.contains("† of too few values"), "{text}");
    assert!(!render(&comparison, &context()).contains('†'));
}

#[test]
fn many_variants_continue_in_further_blocks() {
    let text = render(&wide(), &context());
    assert_fits(&text, super::super::WIDTH);
    insta::assert_snapshot!(text);
}

#[test]
fn verbose_shows_every_metric_and_one_seed_has_no_interval() {
    let mut comparison = example();
    comparison.seeds = 1;
    for variant in &mut comparison.variants {
        for (_, summary) in &mut variant.metrics {
            summary.ci95 = LateInterval::none();
            if let Some(change) = &mut summary.vs_baseline {
                change.significant = false;
            }
        }
    }
    comparison.variants[1].metrics.remove(0);
    let mut context = context();
    context.verbose = true;
    insta::assert_snapshot!(render(&comparison, &context));
}

#[test]
fn long_paths_keep_their_end() {
    let mut comparison = example();
    for variant in &mut comparison.variants {
        for (name, _) in &mut variant.metrics {
            let long = "/kubepods/burstable/pod-0123456789/checkout-frontend";
            *name = name.replace("/test", long);
        }
    }
    let text = render(&comparison, &context());
    let end = "…table/pod-0123456789/checkout-frontend/nr_throttled";
    assert_contains(&text, end);
    assert_fits(&text, super::super::WIDTH);
}

/// Without the marks that a terminal's colours are made of.
fn without_paint(text: &str) -> String {
    let is_mark = |one: &char| super::super::paint::sequence(*one).is_some();
    text.chars().filter(|one| !is_mark(one)).collect()
}

#[test]
fn the_target_leads_at_80_100_and_160_columns() {
    for columns in [80, 100, 160] {
        let context = Context {
            source: "recording node, 30s".to_string(),
            style: Style::of_terminal(columns, false),
            reproduce: words("schedcast what-if node --cgroup /web --set cpu.max=90%"),
            ..about_web()
        };
        let text = render(&node(), &context);
        assert_fits(&text, columns);
        insta::assert_snapshot!(format!("the_target_at_{columns}"), text);
        let painted = Context {
            style: Style::of_terminal(columns, true),
            ..context
        };
        let painted = render(&node(), &painted);
        assert_eq!(without_paint(&painted), text);
        assert!(painted.contains(&Paint::Bold.mark("/web")), "{painted}");
    }
}

#[test]
fn many_variants_fill_the_line_at_80_and_160_columns() {
    for columns in [80, 160] {
        let context = Context {
            style: Style::of_terminal(columns, false),
            ..context()
        };
        let text = render(&wide(), &context);
        assert_fits(&text, columns);
        insta::assert_snapshot!(format!("many_variants_at_{columns}"), text);
    }
}

#[test]
fn a_terminal_of_any_size_has_60_to_200_columns() {
    let columns = |terminal| Style::of_terminal(terminal, false).columns;
    assert_eq!([1, 80, 132, 5000].map(columns), [60, 80, 132, 200]);
}

#[test]
fn the_first_column_decides_the_unit() {
    let values = |us: f64| [us, us + 1.0, us, us];
    let rows = [(
        "a/request_latency.p99".to_string(),
        values(3_200.0),
        values(3_968_000.0),
    )];
    let text = render(&compared(&rows), &context());
    assert!(text.contains("a/request_latency.p99 (us)"), "{text}");
}

/// A machine that is 98.6 % busy, at least 77.1 % in 95 of 100 runs, is not up to 110 % busy.
#[test]
fn no_spread_reaches_beyond_what_is_possible() {
    let cell = |metric: &str, mean: f64, ends: [f64; 2]| {
        let comparison = example();
        let mut summary = comparison.variants[0].metrics[0].1.clone();
        let metric = metrics::parse(metric).unwrap();
        summary.unit = metric.unit().to_string();
        summary.mean = mean;
        summary.one_run95 = Some(ends);
        summary.samples = vec![Some(mean), Some(mean * 0.99)];
        value_cell(Some(&summary), &scale_for(&metric, mean)).spread
    };
    assert_eq!(cell("machine/busy_ratio", 0.986, [0.771, 1.0]), "≥77.10");
    assert_eq!(cell("machine/busy_ratio", 0.5, [0.4, 0.6]), "±10.00");
    assert_eq!(cell("cgroup:/a/nr_throttled", 46.6, [0.2, 93.8]), "≤93.8");
}
