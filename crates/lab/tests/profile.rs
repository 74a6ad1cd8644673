//! A recording distilled into an experiment file, run beside what was recorded and measured.

use std::path::Path;

use schedcast_base::assert_in;
use schedcast_lab::comparison::{Comparison, Tier};
use schedcast_lab::question::{AS_RECORDED, Columns, Question, Subject};
use schedcast_lab::simulator::Simulator;
use schedcast_lab::{profile, recording::Recorded};

fn folder(name: &str) -> std::path::PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings");
    root.join(name)
}

/// The distilled `postgres-quota` under further columns.
fn compared(columns: &[(&str, &str)]) -> Comparison {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pg.toml");
    std::fs::write(&path, profile::distil(&folder("postgres-quota")).unwrap()).unwrap();
    let question = Question {
        columns: Columns::set(columns),
        ..Question::of(Subject::Profile(path))
    };
    let answered = question.answer(&Simulator::new()).unwrap();
    assert_eq!(answered.comparison.tier, Some(Tier::Profile));
    answered.comparison
}

fn value(comparison: &Comparison, column: &str, metric: &str) -> f64 {
    let variant = comparison.variants.iter().find(|one| one.name == column);
    variant.unwrap().get(metric).unwrap().mean
}

#[test]
fn a_distilled_service_is_throttled_like_the_recorded_one() {
    let columns = [
        ("60 ms", "cpu.max=60000 100000"),
        ("no limit", "cpu.max=max 100000"),
        ("80 ms", "cpu.max=80000 100000"),
    ];
    let comparison = compared(&columns);
    let recorded = Recorded::open(&folder("postgres-quota")).unwrap();
    let group = &recorded.seen.figures.as_ref().unwrap().groups[0];
    let throttled = value(&comparison, AS_RECORDED, "cgroup:/pg/nr_throttled");
    let seen = group.nr_throttled.unwrap() as f64;
    assert_in!(throttled / seen, 0.75..1.25);
    // The simulated usage is the recorded usage.
    let usage = value(&comparison, "no limit", "cgroup:/pg/usage_usec");
    let used = group.usage_ns as f64 / 1000.0;
    assert!((usage / used - 1.0).abs() < 0.05, "{usage} of {used}");
    let measured = recorded.measured.unwrap();
    for (column, name) in [
        (AS_RECORDED, "recorded"),
        ("no limit", "no limit"),
        ("60 ms", "quota 60 ms"),
        ("80 ms", "quota 80 ms"),
    ] {
        let setting = measured.settings.iter().find(|one| one.name == name);
        let figure = &setting.unwrap().figures["request_p95_ms"];
        let p95_ms = value(&comparison, column, "postgres/request_latency.p95") / 1000.0;
        // Requests that cost more together are not in its numbers.
        let near = (p95_ms - figure.median).abs() <= 0.4 * figure.median;
        let inside = (figure.min..=figure.max).contains(&p95_ms);
        assert!(near || inside, "{column}: {p95_ms} ms, {figure:?}");
    }
}

#[test]
fn rate_work_and_threads_scale() {
    let columns = [
        ("half", "program.postgres.profile.rate=20"),
        ("cheap", "program.postgres.profile.work_scale=0.5"),
        ("one", "program.postgres.profile.threads=1"),
        ("closed", "program.postgres.profile.clients=1"),
    ];
    let comparison = compared(&columns);
    let of = |column: &str, metric: &str| value(&comparison, column, metric);
    let usage = |column: &str| {
        of(column, "cgroup:/pg/usage_usec") / of(AS_RECORDED, "cgroup:/pg/usage_usec")
    };
    assert!((0.45..0.56).contains(&usage("half")), "{}", usage("half"));
    assert!((0.45..0.56).contains(&usage("cheap")), "{}", usage("cheap"));
    let throttled = |column: &str| of(column, "cgroup:/pg/nr_throttled");
    assert!(throttled("half") < 0.2 * throttled(AS_RECORDED));
    // One worker cannot use two CPUs: throttled less, and requests wait for it.
    assert!(throttled("one") < throttled(AS_RECORDED));
    let p75 = |column: &str| of(column, "postgres/request_latency.p75");
    assert!(p75("one") > 1.3 * p75(AS_RECORDED), "{}", p75("one"));
    // A client that asks again at once keeps one CPU busy: 50 of every 100 ms are all it gets.
    let requests = of("closed", "postgres/request_latency.count");
    assert!((1500.0..1750.0).contains(&requests), "{requests}");
}

#[test]
fn a_profile_is_an_experiment_file_that_says_what_it_is_from() {
    let text = profile::distil(&folder("postgres-nolimit")).unwrap();
    assert!(text.starts_with("# A stationary workload, distilled by schedcast"));
    for line in [
        "cpus = 2",
        "version = \"6.18.44\"",
        "threads = 8",
        "arrivals = \"poisson\"",
        "client = \"pgbench\"",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    assert!(profile::distil(&folder("nothing")).is_err());
}
