//! Throttling in the sentences of a verdict: what remains of it, and what it costs other groups.

use schedcast_base::groups::is_within;

use super::{Subject, mean};
use crate::change;
use crate::comparison::Variant;

/// Half a sentence on the throttling that remains after a change: of the group, on the way from
/// the target up, that is throttled most. Nothing where no limit holds. A column that changes other
/// groups names the one it is about.
pub(super) fn still(subject: &Subject<'_>, index: usize) -> String {
    let scenario = &subject.scenarios[index];
    let variant = &subject.comparison.variants[index];
    let changes_others = others_changed(subject, index).next().is_some();
    let share = |path: &str| {
        let share = periods_throttled(variant, path);
        [share, most_throttled(variant, path).unwrap_or(share)]
    };
    let mut worst = (subject.target, share(subject.target));
    let mut path = subject.target;
    while let Some((above, _)) = scenario.limits_above(path) {
        if share(above) > worst.1 {
            worst = (above, share(above));
        }
        path = above;
    }
    match worst {
        (path, [share, most]) if most > 0.0 => {
            let of = match path == subject.target && !changes_others {
                true => String::new(),
                false => format!(" of {}", subject.named(path)),
            };
            format!(
                "; {:.1} % of the periods{of} are still throttled{}",
                100.0 * share,
                throttled_at_most(variant, path)
            )
        }
        _ if !subject.is_limited(index) => String::new(),
        _ if changes_others => {
            let target = subject.named(subject.target);
            format!(
                "; no period of {target} is throttled, so that a larger limit of it would not help"
            )
        }
        _ => "; no period is throttled any more, so that a larger limit would not help".to_string(),
    }
}

/// Share of the wish to run that throttling denied to the threads of `members`.
pub fn time_lost(variant: &Variant, members: &[String]) -> f64 {
    let sum = |metric: &str| -> f64 {
        let values = members
            .iter()
            .map(|name| mean(variant, &format!("{name}/{metric}")));
        values.sum()
    };
    let lost = sum("wait.throttled");
    let wished = lost + sum("wait.contention") + sum("cpu_time");
    if wished > 0.0 { lost / wished } else { 0.0 }
}

/// Share of the active periods of `target` that ended throttled.
pub fn periods_throttled(variant: &Variant, target: &str) -> f64 {
    let periods = mean(variant, &format!("cgroup:{target}/nr_periods"));
    let throttled = mean(variant, &format!("cgroup:{target}/nr_throttled"));
    if periods > 0.0 {
        throttled / periods
    } else {
        0.0
    }
}

/// The worse end of the interval of one run of that share, from the number of these periods. `None`
/// where there is no interval.
fn most_throttled(variant: &Variant, target: &str) -> Option<f64> {
    let periods = mean(variant, &format!("cgroup:{target}/nr_periods"));
    let throttled = variant.get(&format!("cgroup:{target}/nr_throttled"))?;
    let [_, high] = throttled.one_run95?;
    Some((high / periods.max(1.0)).min(1.0))
}

/// That end in words, behind a share of throttled periods of `target`.
fn throttled_at_most(variant: &Variant, target: &str) -> String {
    let most = most_throttled(variant, target);
    most.map_or(String::new(), |most| {
        at_most_throttled(periods_throttled(variant, target), most)
    })
}

/// The worse end of the interval of a share of throttled periods in words, behind the share. An
/// end of all periods says nothing.
pub fn at_most_throttled(share: f64, most: f64) -> String {
    match most {
        _ if share >= 1.0 => String::new(),
        most if most >= 1.0 => ", and how many at most is not known".to_string(),
        most => format!(", at most {:.1} % in 95 of 100 runs", 100.0 * most),
    }
}

/// The groups that a column changes, other than the target and those around it.
fn others_changed<'a>(subject: &'a Subject<'_>, index: usize) -> impl Iterator<Item = &'a str> {
    let changes = change::changes(&subject.scenarios[0], &subject.scenarios[index]).into_iter();
    let paths = changes.map(|change| change.path);
    paths.filter(|path| !is_within(subject.target, path))
}

/// A sentence for each other group that a column changes and that gets less CPU time by it for
/// certain.
///
/// Worked example: a batch job has 50 instead of 150 ms in 100 ms, and the service beside it is
/// faster. “hog50” costs /hog: 6.0 s of CPU time instead of 17.3 s; 99.2 % of its periods are
/// throttled instead of 71.5 %.
pub(super) fn losses(subject: &Subject<'_>, index: usize) -> Vec<String> {
    let [now, then] = [0, index].map(|index| &subject.comparison.variants[index]);
    let loss = |path: &str| {
        let name = format!("cgroup:{path}/usage_usec");
        let (before, after) = (now.get(&name)?, then.get(&name)?);
        let is_certain = after.vs_baseline.as_ref()?.significant;
        let [had, has] = [before, after].map(|summary| summary.mean / 1e6);
        let [seldom, often] = [now, then].map(|variant| 100.0 * periods_throttled(variant, path));
        (is_certain && has < had).then(|| {
            format!(
                "“{}” costs {}: {has:.1} s of CPU time instead of {had:.1} s; {often:.1} % of its \
                 periods are throttled instead of {seldom:.1} %.",
                then.name,
                subject.named(path)
            )
        })
    };
    others_changed(subject, index).filter_map(loss).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Comparison;
    use crate::experiment;
    use crate::recording::Latency;
    use schedcast_base::{assert_contains, assert_starts};

    #[test]
    fn periods_that_are_still_throttled_are_told_with_the_worse_end_of_one_run() {
        let rows = [
            ("cgroup:/a/nr_periods", 80.0),
            ("cgroup:/a/nr_throttled", 5.0),
        ];
        let rows = rows.map(|(name, value)| (name.to_string(), [value; 4], [value; 4]));
        let mut variant = crate::samples::compared(&rows).variants.remove(1);
        assert_eq!(throttled_at_most(&variant, "/a"), "");
        assert_eq!(
            at_most_throttled(0.0, 1.0),
            ", and how many at most is not known"
        );
        assert_eq!(at_most_throttled(1.0, 1.0), "");
        for (name, summary) in &mut variant.metrics {
            summary.one_run95 = name.ends_with("throttled").then_some([0.0, 30.0]);
        }
        let told = throttled_at_most(&variant, "/a");
        assert_eq!(told, ", at most 37.5 % in 95 of 100 runs");
        let text = "[cgroup.\"/a\"]\n\"cpu.max\" = 50000\n[cgroup.\"/hog\"]\n\
            [[variant]]\nname = \"now\"\n\
            [[variant]]\nname = \"60\"\ncgroup.\"/a\".\"cpu.max\" = 60000\n\
            [[variant]]\nname = \"hog\"\ncgroup.\"/hog\".\"cpu.max\" = 60000\n";
        let scenarios = experiment::read_text("t.toml", text).unwrap().scenarios;
        let rows = [
            ("cgroup:/a/nr_periods", 100.0, 100.0),
            ("cgroup:/a/nr_throttled", 9.0, 0.0),
            ("cgroup:/hog/nr_periods", 100.0, 100.0),
            ("cgroup:/hog/nr_throttled", 20.0, 99.0),
            ("cgroup:/hog/usage_usec", 17.3e6, 6e6),
        ];
        let steady = |mean: f64| [mean, mean * 1.001, mean * 0.999, mean];
        let rows = rows.map(|(name, now, then)| (name.to_string(), steady(now), steady(then)));
        let mut comparison = crate::samples::compared(&rows);
        let then = comparison.variants[1].clone();
        comparison.variants.push(then);
        let told = |comparison: &Comparison, index: usize| {
            let latency = Latency::new("a", Latency::REQUEST);
            let subject = Subject::of_columns(comparison, &scenarios, "/a", &latency);
            (still(&subject, index), losses(&subject, index).join(" "))
        };
        for variant in &mut comparison.variants {
            for (_, summary) in &mut variant.metrics {
                summary.one_run95 = None;
            }
        }
        let (still, lost) = told(&comparison, 1);
        assert_starts(&still, "; no period is throttled any more");
        assert_eq!(lost, "");
        let (still, lost) = told(&comparison, 2);
        assert_starts(
            &still,
            "; no period of /a is throttled, so that a larger limit of it",
        );
        assert_contains(
            &lost,
            "costs /hog: 6.0 s of CPU time instead of 17.3 s; 99.0 % of its periods",
        );
        for (name, summary) in &mut comparison.variants[1].metrics {
            summary.one_run95 = name.ends_with("a/nr_throttled").then_some([0.0, 16.5]);
        }
        let (still, _) = told(&comparison, 1);
        let expected =
            "; 0.0 % of the periods are still throttled, at most 16.5 % in 95 of 100 runs";
        assert_eq!(still, expected);
    }
}
