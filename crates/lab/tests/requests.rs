//! Latency of whole requests: what a what-if says against what pgbench saw.

use std::path::Path;

use schedcast_lab::answer::Answer;
use schedcast_lab::comparison::Comparison;
use schedcast_lab::question::{Question, Subject};
use schedcast_lab::recording::Recorded;
use schedcast_lab::simulator::Simulator;

/// Every limit that was really measured, predicted from the recording of this name.
fn predicted(name: &str) -> Answer {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings");
    let question = Question {
        cgroup: Some("/pg".to_string()),
        measured: true,
        ..Question::of(Subject::Recording(
            Recorded::open(&folder.join(name)).unwrap(),
        ))
    };
    question.answer(&Simulator::new()).unwrap()
}

/// Names of the limits whose 95 % quantile misses the band: a quarter of the median of the real
/// repeats, or inside their range.
fn misses(comparison: &Comparison) -> Vec<&str> {
    assert_eq!(comparison.variants.len(), 7);
    let variants = comparison.variants.iter();
    let misses = variants.filter(|variant| {
        let summary = variant.get("postgres/request_latency.p95").unwrap();
        let measured = summary.measured.unwrap();
        let near = (summary.mean - measured.median).abs() <= 0.25 * measured.median;
        let inside = (measured.min..=measured.max).contains(&summary.mean);
        !near && !inside
    });
    misses.map(|variant| variant.name.as_str()).collect()
}

#[test]
fn whole_requests_are_predicted_from_the_recording_under_a_limit() {
    let answered = predicted("postgres-quota");
    // 14.3 ms, and the fastest of the real repeats had 14.6.
    assert_eq!(misses(&answered.comparison), ["no limit"]);
    // The recorded run itself, simulated again.
    let value = |metric: &str| {
        let mut fit = answered.context.fit.iter();
        fit.find(|one| one.metric == metric).unwrap().predicted
    };
    // Requests that wait for a connection wait before the server has them.
    let part = value("postgres/activation_latency.p95");
    assert!(value("postgres/request_latency.p95") > 1.03 * part);
    assert_eq!(value("postgres/request_latency.count"), 1170.0);
}

#[test]
fn whole_requests_are_predicted_from_the_recording_without_a_limit() {
    let comparison = predicted("postgres-nolimit").comparison;
    assert_eq!(misses(&comparison), [""; 0]);
    // Charged with what was stolen from it, the group would be throttled in half as many periods
    // again.
    let limited = comparison
        .variants
        .iter()
        .find(|one| one.name == "quota 50 ms");
    let throttled = limited
        .unwrap()
        .get("cgroup:/pg/nr_throttled")
        .unwrap()
        .mean;
    assert!((90.0..120.0).contains(&throttled), "{throttled}");
}
