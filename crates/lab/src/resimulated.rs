//! The recorded run, simulated again: how near it comes to what the recording shows.
//!
//! Its periods begin where they began in the recording, unlike those of a forecast, whose periods
//! fall anywhere. A group was throttled in 102 of 295 periods, and in 98 of them when its recording
//! is simulated under the recorded limit: that is a fit of −3.5 %, printed above each answer, and a
//! poor one widens every promise.

use schedcast_base::groups::is_within;
use schedcast_workload::replay::Quantiles;

use crate::change;
use crate::comparison::Comparison;
use crate::context::RefitFigure;
use crate::error::Result;
use crate::experiment::units::parse_duration_ns;
use crate::experiment::{Experiment, Scenario};
use crate::metrics;
use crate::recording::{KeptOrder, Latency, Recorded};
use crate::simulate::{Simulate, run_all};
use crate::trust;

/// Shares of a recording above this are the whole of it: no user types its length to the
/// nanosecond.
const WHOLE_PERCENT: u64 = 99;

/// Whether only the beginning of the recording is simulated, beside which nothing that the whole of
/// it shows may stand.
pub fn is_partial(experiment: &Experiment, recorded: &Recorded) -> bool {
    simulated_ns(experiment, recorded) < recorded.length_ns
}

/// A note on a `duration` that is longer than a recording of `recorded_ns`, of which the whole is
/// simulated then. One that cannot be read is refused elsewhere.
pub fn note_of_longer(duration: &str, recorded_ns: u64) -> Option<String> {
    let asked_ns = parse_duration_ns(duration).ok()?;
    (asked_ns > recorded_ns).then(|| {
        let seconds = recorded_ns as f64 / 1e9;
        format!(
            "the recording has {seconds:.1}s, which are simulated instead of {duration}: what came then is not known"
        )
    })
}

/// How much of the recording is simulated, nanoseconds.
pub(crate) fn simulated_ns(experiment: &Experiment, recorded: &Recorded) -> u64 {
    let first = experiment.scenarios.first();
    let asked_ns = first.and_then(|scenario| scenario.duration_ns);
    match asked_ns {
        Some(asked_ns) if asked_ns < recorded.length_ns / 100 * WHOLE_PERCENT => asked_ns,
        _ => recorded.length_ns,
    }
}

/// Length that bounds what a run shows, nanoseconds; none where runs wait for a job.
pub fn bound_ns(experiment: &Experiment, recorded: &Recorded) -> u64 {
    let mut scenarios = experiment.scenarios.iter();
    match scenarios.any(|one| one.awaits.is_some() && one.duration_ns.is_none()) {
        true => u64::MAX,
        false => simulated_ns(experiment, recorded),
    }
}

/// How the recorded run comes out when the first scenario of `experiment` is simulated with its
/// periods where they were, over the whole recording even where the experiment is of a part: what
/// the recording shows is of the whole, and a shorter forecast is as far off. Counts are in
/// proportion then. Figures of `target`
/// stand before those of the groups above it whose limits hold.
///
/// # Errors
/// Refusals by the simulation.
pub fn refit(
    recorded: &Recorded,
    target: &str,
    experiment: &Experiment,
    simulator: &impl Simulate,
    finished: &(impl Fn() + Sync),
) -> Result<Vec<RefitFigure>> {
    let groups = on_the_way(&experiment.scenarios[0], target);
    refit_groups(recorded, target, &groups, experiment, simulator, finished)
}

/// The same with figures of the groups beside the target: those that were throttled, or could have
/// been, below the limits that they share with it, and those that a column changes.
pub(crate) fn refit_around(
    recorded: &Recorded,
    target: &str,
    experiment: &Experiment,
    simulator: &impl Simulate,
    finished: &(impl Fn() + Sync),
) -> Result<Vec<RefitFigure>> {
    let (first, others) = experiment.scenarios.split_first().expect("a baseline");
    let mut groups = on_the_way(first, target);
    let outermost = groups.last().copied().filter(|path| *path != target);
    let is_around = |path: &str| {
        let changes = |scenario: &Scenario| {
            let changes = change::changes(first, scenario);
            changes.iter().any(|change| change.path == path)
        };
        outermost.is_some_and(|outermost| is_within(path, outermost)) || others.iter().any(changes)
    };
    let figures = recorded.seen.figures.iter().flat_map(|one| &one.groups);
    let counted = figures.filter(|group| group.nr_periods.is_some_and(|periods| periods > 0));
    for group in counted {
        if !groups.contains(&group.path.as_str()) && is_around(&group.path) {
            groups.push(&group.path);
        }
    }
    refit_groups(recorded, target, &groups, experiment, simulator, finished)
}

/// `target`, and the groups above it that have limits, from the nearest to the outermost.
fn on_the_way<'a>(scenario: &'a Scenario, target: &'a str) -> Vec<&'a str> {
    let mut groups = vec![target];
    while let Some((above, _)) = scenario.limits_above(groups[groups.len() - 1]) {
        groups.push(above);
    }
    groups
}

fn refit_groups(
    recorded: &Recorded,
    target: &str,
    groups: &[&str],
    experiment: &Experiment,
    simulator: &impl Simulate,
    finished: &(impl Fn() + Sync),
) -> Result<Vec<RefitFigure>> {
    let only = [Scenario {
        name: "re-simulated".to_string(),
        duration_ns: None,
        ..experiment.scenarios[0].clone()
    }];
    let outcomes = run_all(simulator, &only, experiment.seeds, finished)?;
    let comparison = Comparison::new("", &only, &outcomes)?;
    let mut figures = fit(&comparison, recorded, target, groups);
    if is_partial(experiment, recorded) {
        let share = simulated_ns(experiment, recorded) as f64 / recorded.length_ns as f64;
        figures.iter_mut().for_each(|one| one.take_part(share));
    }
    Ok(figures)
}

/// How the re-simulated recording compares with the recorded run itself, of which it is the whole.
fn fit(
    comparison: &Comparison,
    recorded: &Recorded,
    target: &str,
    groups: &[&str],
) -> Vec<RefitFigure> {
    let (Some(baseline), Some(figures)) = (comparison.variants.first(), &recorded.seen.figures)
    else {
        return Vec::new();
    };
    let mut seen: Vec<(String, f64)> = Vec::new();
    let measured = |path: &&str| figures.groups.iter().find(|group| group.path == *path);
    for group in groups.iter().filter_map(measured) {
        let mut put = |metric: &str, value: Option<f64>| {
            let path = &group.path;
            seen.extend(value.map(|value| (format!("cgroup:{path}/{metric}"), value)));
        };
        put("nr_periods", group.nr_periods.map(|count| count as f64));
        put("nr_throttled", group.nr_throttled.map(|count| count as f64));
        put(
            "throttled_usec",
            group.throttled_ns.map(|ns| ns as f64 / 1000.0),
        );
    }
    let jobs = recorded.seen.jobs_of(target);
    let main = recorded
        .seen
        .main_threads(target)
        .filter(|_| jobs.is_empty());
    // Those of a kind of clients have no activations.
    let kinds = recorded.seen.kinds.get(target).into_iter().flatten();
    let kinds = kinds
        .filter(|_| main.is_some())
        .map(|kind| kind.subject.as_str());
    for threads in main
        .into_iter()
        .chain(kinds)
        .filter_map(|name| figures.threads.iter().find(|one| one.name == name))
    {
        let told = recorded.seen.latency(target).map(|latency| latency.name);
        let mut latencies = vec![
            (Latency::REQUEST, &threads.request_latency),
            (Latency::ACTIVATION, &threads.activation_latency),
        ];
        if told == Some(Latency::REPLY) {
            latencies.push((Latency::REPLY, &threads.reply_latency));
        }
        let known = |latency: &Quantiles| latency.count > 0;
        let counted = match known(&threads.request_latency) {
            true => Latency::REQUEST,
            false => Latency::ACTIVATION,
        };
        for (name, latency) in latencies.iter().filter(|(_, latency)| known(latency)) {
            if *name == counted {
                let metric = format!("{}/{name}.{}", threads.name, metrics::COUNT);
                seen.push((metric, latency.count as f64));
            }
            let values = [
                ("p50", latency.p50_ns),
                ("p95", latency.p95_ns),
                ("p99", latency.p99_ns),
            ];
            let values = values.map(|(suffix, ns)| {
                let metric = format!("{}/{name}.{suffix}", threads.name);
                (metric, ns as f64 / 1000.0)
            });
            // A kind of clients may have so few requests that a single one decides a percentile.
            let all = (latency.count + latency.unfinished) as f64;
            let tells = |metric: &str| {
                let needed = metrics::parse(metric).map_or(0.0, |metric| metric.values_needed());
                Some(threads.name.as_str()) == main || all >= needed
            };
            seen.extend(values.into_iter().filter(|(metric, _)| tells(metric)));
        }
    }
    for job in jobs {
        let seconds = job.length_ns as f64 / 1e9;
        seen.push((format!("{}/{}", job.name, metrics::TIME), seconds));
    }
    let is_timed = |metric: &str| {
        let group = metrics::group_of(metric).unwrap_or(target);
        recorded.seen.timed_periods.contains(group)
    };
    let fit = |(metric, seen): (String, f64)| {
        let summary = baseline.get(&metric)?;
        Some(RefitFigure {
            predicted: summary.mean,
            chance: (!is_timed(&metric))
                .then(|| range(&summary.samples))
                .flatten(),
            inferred: recorded.seen.requests_are_inferred() && is_about_requests(&metric),
            metric,
            seen,
        })
    };
    seen.into_iter().filter_map(fit).collect()
}

/// Whether `metric` is a latency or a number of requests.
fn is_about_requests(metric: &str) -> bool {
    metrics::parse(metric).is_some_and(|metric| metric.name.starts_with(Latency::REQUEST))
}

/// Least and most of the values; `None` if there are none.
fn range(samples: &[Option<f64>]) -> Option<[f64; 2]> {
    let values = || samples.iter().flatten().copied();
    let least = values().min_by(f64::total_cmp)?;
    Some([least, values().max_by(f64::total_cmp)?])
}

/// Puts what the recording shows beside the baseline of `comparison` where that covers the `whole`
/// of it, and in front of it what must be known before numbers from a recording: a poor fit, and
/// that it does not show what clients wait for.
pub fn tell_fit(
    comparison: &mut Comparison,
    (fit, whole): (&[RefitFigure], bool),
    recorded: &Recorded,
    target: Option<&str>,
) {
    for one in fit.iter().filter(|_| whole) {
        comparison.set_recorded(one);
    }
    let latency = target.and_then(|target| recorded.seen.latency(target));
    comparison.warnings = trust::warnings(fit, latency.as_ref(), recorded.seen.logged);
    let idle = target.and_then(|target| recorded.seen.idle(target));
    comparison.warnings.extend(idle);
    let rare = target.and_then(|target| recorded.seen.rare.get(target));
    let p99_ns = latency
        .and_then(|latency| Some(recorded.seen.quantiles(&latency)?.p99_ns))
        .unwrap_or(0);
    let rare = rare.filter(|rare| is_worth_a_warning(rare.piece_ns, p99_ns));
    comparison.warnings.extend(rare.map(trust::told));
    let order = target.and_then(|target| recorded.seen.kept_order.get(target));
    comparison.warnings.extend(order.map(KeptOrder::told));
    let jobs = target.map_or(Vec::new(), |target| recorded.seen.jobs_of(target));
    let late = jobs
        .iter()
        .flat_map(|job| unfinished(comparison, &job.name));
    let late: Vec<String> = late.collect();
    comparison.warnings.extend(late);
}

/// A sentence on each column in which a job did not end in all runs.
fn unfinished(comparison: &Comparison, job: &str) -> Vec<String> {
    let metric = format!("{job}/{}", metrics::TIME);
    let late = comparison.variants.iter().filter_map(|variant| {
        let summary = variant.get(&metric).filter(|summary| summary.at_least)?;
        let [_, longest] = range(&summary.samples)?;
        let name = &variant.name;
        Some(format!(
            "“{name}”: {job} did not end within {longest:.1} s in every run, so that its time is more"
        ))
    });
    late.collect()
}

/// Rare work that is less than a tenth of the told p99 is not warned of: forecasts of a p99 are not
/// that close. Intervals allow for it all the same.
fn is_worth_a_warning(piece_ns: u64, p99_ns: u64) -> bool {
    piece_ns > 0 && piece_ns.saturating_mul(10) >= p99_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment;

    #[test]
    fn limits_on_the_way_up_are_in_the_fit() {
        let text = "[cgroup.\"/a\"]\n\"cpu.max\" = 90000\n[cgroup.\"/a/b/c\"]\n\
            \"cpu.max\" = 50000\n[cgroup.\"/a/b/c/d\"]\n[cgroup.\"/e\"]\n\"cpu.max\" = 5000\n";
        let experiment = experiment::read_text("t.toml", text).unwrap();
        let way = on_the_way(&experiment.scenarios[0], "/a/b/c/d");
        assert_eq!(way, ["/a/b/c/d", "/a/b/c", "/a"]);
    }

    #[test]
    fn a_longer_duration_than_the_recording_is_told() {
        let note = |duration: &str| note_of_longer(duration, 29_500_000_000);
        assert_eq!(
            note("60s").unwrap(),
            "the recording has 29.5s, which are simulated instead of 60s: what came then is not known"
        );
        assert_eq!((note("29s"), note("60")), (None, None));
    }

    #[test]
    fn only_rare_work_that_a_p99_shows_is_warned_of() {
        assert!(is_worth_a_warning(1_500_000, 15_000_000));
        assert!(!is_worth_a_warning(1_500_000, 15_100_000));
        assert!(!is_worth_a_warning(0, 0));
    }
}
