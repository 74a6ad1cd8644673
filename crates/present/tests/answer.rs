//! Answers about a recording, and what their table says of it.

use std::path::Path;

use schedcast_lab::answer::Answer;
use schedcast_lab::error::Result;
use schedcast_lab::experiment::Scenario;
use schedcast_lab::outcome::Outcome;
use schedcast_lab::question::{Columns, Question, Setting, Subject};
use schedcast_lab::recording::Recorded;
use schedcast_lab::simulate::Simulate;
use schedcast_present::tables::{Layout, table};

/// Throttles once for every millisecond that the quota is below 100 ms.
struct Toy;

impl Simulate for Toy {
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        let quota_us = scenario.cgroups["/pg"].limits.quota_us.unwrap_or(100_000);
        let throttled = (100_000 - quota_us) as f64 / 1000.0;
        let metrics = [(
            "cgroup:/pg/nr_throttled".to_string(),
            throttled + seed as f64,
        )]
        .into();
        Ok(Outcome {
            event_hash: seed,
            metrics,
            ..Outcome::default()
        })
    }
}

fn what_if(columns: Columns) -> Question {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/postgres-quota");
    let mut recorded = Recorded::open(&folder).unwrap();
    recorded.folder = "recordings/postgres-quota".to_string();
    let subject = Subject::Recording(recorded);
    Question {
        columns,
        seeds: Some(5),
        ..Question::of(subject)
    }
}

fn set(argument: &str) -> Setting {
    Setting::Set(argument.to_string())
}

#[test]
fn a_what_if_says_what_was_recorded_and_how_to_apply_the_rest() {
    let question = what_if(Columns {
        leading: vec![set("cpu.max=90000 100000"), set("cpu.max.burst=50000")],
        variants: vec![("no limit".to_string(), vec![set("cpu.max=max")])],
    });
    let mut answer = question.answer(&Toy).unwrap();
    answer.context.reproduce = vec!["schedcast what-if recordings/postgres-quota …".to_string()];
    insta::assert_snapshot!(table(&answer, Layout::Text));
}

#[test]
fn measured_values_stand_beside_equal_settings_only() {
    let kernel = Setting::Flag {
        flag: "--kernel",
        key: ["kernel", "version"],
        argument: "6.12".to_string(),
    };
    let question = what_if(Columns {
        leading: vec![set("cpu.max=max")],
        variants: vec![
            ("never measured".to_string(), vec![set("cpu.max=51000")]),
            ("other kernel".to_string(), vec![set("cpu.max=max"), kernel]),
        ],
    });
    let answer = question.answer(&Toy).unwrap();
    let medians: Vec<Option<f64>> = answer
        .comparison
        .variants
        .iter()
        .map(|variant| {
            variant
                .get("cgroup:/pg/nr_throttled")?
                .measured
                .map(|value| value.median)
        })
        .collect();
    assert_eq!(medians, [Some(92.0), Some(0.0), None, None]);
}

#[test]
fn a_part_of_a_recording_is_as_far_off_as_the_whole() {
    let ask = |duration: &str| {
        let question = Question {
            duration: Some(duration.to_string()),
            ..what_if(Columns::default())
        };
        question.answer(&Toy).unwrap()
    };
    let whole = ask("29.5s");
    assert!(!whole.context.fit.is_empty());
    assert_eq!(whole.context.part, None);
    let part = ask("2s");
    // A count is in proportion: 102 of 29.5 s are 6.9 of 2 s. The factor is the same.
    let [of_part, of_whole] = [&part, &whole].map(|answer| &answer.context.fit[0]);
    assert!((of_part.seen - of_whole.seen * 2.0 / 29.5).abs() < 0.01);
    assert!((of_part.factor() - of_whole.factor()).abs() < 1e-9);
    let misses = |warning: &String| warning.contains("misses the recording");
    for answer in [&part, &whole] {
        assert!(answer.comparison.warnings.iter().any(misses));
    }
    let [of_part, of_whole] = [&part, &whole].map(|answer| answer.comparison.warnings.len());
    assert_eq!(of_part, of_whole);
    let text = table(&part, Layout::Text);
    let expected = "simulated: the first 2s of the recorded 29.5s; the fit is that of the whole,";
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("measured"), "{text}");
    let shows = |answer: &Answer| {
        let metrics = answer.comparison.variants[0].metrics.iter();
        metrics.filter(|(_, one)| one.recorded.is_some()).count()
    };
    assert!(shows(&whole) > 0);
    assert_eq!(shows(&part), 0, "those are of the whole");
}

/// Below 40 ms of quota, 109 requests wait at half the time and 209 at the end.
struct Starving;

impl Simulate for Starving {
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        let is_short = scenario.cgroups["/pg"].limits.quota_us < Some(40_000);
        let [halfway, unfinished] = if is_short { [109.0, 209.0] } else { [2.0, 1.0] };
        let metric = |name: &str, value: f64| (format!("postgres/request_latency.{name}"), value);
        let metrics = [
            metric("p99", 100.0 + seed as f64),
            metric("halfway", halfway),
            metric("unfinished", unfinished),
        ];
        Ok(Outcome {
            event_hash: seed,
            metrics: metrics.into(),
            ..Outcome::default()
        })
    }
}

#[test]
fn a_column_whose_backlog_grows_says_how_fast_it_falls_behind() {
    let question = what_if(Columns {
        leading: Vec::new(),
        variants: vec![
            ("45 ms".to_string(), vec![set("cpu.max=45000 100000")]),
            ("30 ms".to_string(), vec![set("cpu.max=30000 100000")]),
        ],
    });
    let answer = question.answer(&Starving).unwrap();
    let told: Vec<_> = answer
        .context
        .verdict
        .iter()
        .filter(|sentence| sentence.contains("falls behind"))
        .collect();
    // 100 more in half of 29.5 s.
    let expected =
        "“30 ms” falls behind by 6.8 requests/s: 109 wait at half the time, 209 at the end.";
    assert_eq!(told, [expected]);
}
