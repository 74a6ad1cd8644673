//! Comparisons whose numbers are given, and recordings that are changed: what tests of tables,
//! pages and advice set.
//!
//! Worked example: in [`example`] the p99 of `schbench` falls from 212.4, 208.9, 216.0 and 211.1 ms
//! to 71.0, 70.2 and 73.5 ms.
#![allow(clippy::missing_panics_doc)] // the texts are constant, and tests read them

use std::collections::BTreeSet;

use schedcast_workload::replay::{Bound, Dialogue, Kind, MeasuredJob};

use crate::comparison::Comparison;
use crate::experiment;
use crate::outcome::{MetricMap, Outcome};
use crate::recording::Recorded;

/// `recorded` as if the threads of the group at `path` had all ended after `length_ns`.
pub fn with_job(mut recorded: Recorded, path: &str, name: &str, length_ns: u64) -> Recorded {
    let figures = recorded.seen.figures.as_mut().unwrap();
    figures.jobs.retain(|job| job.path != path);
    figures.jobs.push(MeasuredJob {
        path: path.to_string(),
        name: name.to_string(),
        length_ns,
        is_whole: true,
    });
    recorded
}

/// `recorded` as if clients of two kinds asked `server` of the group at `path`, those called `open`
/// by a schedule, and those called `closed` again when each of three has its reply.
pub fn with_kinds(mut recorded: Recorded, path: &str, server: &str) -> Recorded {
    let kinds = [("open", Bound::None), ("closed", Bound::Connections(3))];
    let kinds = kinds.map(|(name, bound)| Kind {
        subject: format!("{server} from {name}"),
        name: name.to_string(),
        bound,
        dialogue: Dialogue::None,
    });
    recorded.seen.kinds.insert(path.to_string(), kinds.into());
    recorded
}

/// Two variants of four seeds with one metric of every kind; seed 3 of the second has no p99.
pub fn example() -> Comparison {
    let rows = [
        (
            "no burst",
            [212.4, 208.9, 216.0, 211.1],
            [9.9, 9.8, 9.9, 9.7],
            [40.0, 41.0, 39.0, 44.0],
        ),
        (
            "burst 100 ms",
            [71.0, 70.2, 73.5, 69.9],
            [9.9, 9.9, 9.9, 9.8],
            [0.0; 4],
        ),
    ];
    let text = "title = \"t\"\n[kernel]\nversion = \"5.14\"\n\
                [[variant]]\nname = \"no burst\"\n[[variant]]\nname = \"burst 100 ms\"\n";
    let experiment = experiment::read_text("t.toml", text).unwrap();
    let outcomes: Vec<Vec<Outcome>> = rows
        .iter()
        .map(|(name, p99, rps, throttled)| {
            (0..4)
                .map(|seed| {
                    let mut metrics = MetricMap::new();
                    metrics.insert("machine/busy_ratio".into(), 0.1125 + 0.0005 * seed as f64);
                    metrics.insert("cgroup:/test/nr_throttled".into(), throttled[seed]);
                    metrics.insert("schbench/rps".into(), rps[seed]);
                    if (*name, seed) != ("burst 100 ms", 3) {
                        let p99_us = p99[seed] * 1000.0;
                        metrics.insert("schbench/request_latency.p99".into(), p99_us);
                    }
                    Outcome {
                        event_hash: seed as u64,
                        metrics,
                        ..Outcome::default()
                    }
                })
                .collect()
        })
        .collect();
    Comparison::new("Burst and \"schbench\"", &experiment.scenarios, &outcomes).unwrap()
}

/// Two variants of four seeds with these metrics: name, values of the first, values of the second.
pub fn compared(rows: &[(String, [f64; 4], [f64; 4])]) -> Comparison {
    let text = "[[variant]]\nname = \"before\"\n[[variant]]\nname = \"after\"\n";
    let experiment = experiment::read_text("t.toml", text).unwrap();
    let outcomes = [0, 1].map(|variant| {
        let outcome = |seed: usize| Outcome {
            event_hash: seed as u64,
            metrics: rows
                .iter()
                .map(|(name, before, after)| (name.clone(), [before, after][variant][seed]))
                .collect(),
            at_least: BTreeSet::new(),
        };
        (0..4).map(outcome).collect()
    });
    Comparison::new("", &experiment.scenarios, &outcomes).unwrap()
}
