//! Price of a limit: its effect on threads outside the group.
//!
//! A neighbour with requests pays in latency, one that only computes in CPU time it no longer gets.
//! Worked example: pgbench outside the limited group has a p99 from wakeup to block of 3.4 ms as
//! recorded and 3.5 ms with more quota for the servers: a price of +2.9 %. A batch job that had
//! 12.0 s of CPU time and gets 11.5 s pays 12.0/11.5 − 1 = +4.3 %.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use schedcast_lab::comparison::{Comparison, Summary, Variant};
use schedcast_lab::error::{Error, Place, Result, Source};
use schedcast_lab::recording::is_recorder;

/// Neighbours that are watched: those that used most CPU time.
const WATCHED: usize = 3;
/// Activations from which on a 99th percentile means something.
const ACTIVATIONS_MIN: f64 = 100.0;
/// Share of one CPU from which on a thread without that many is worth watching.
const CPU_SHARE_MIN: f64 = 0.01;

/// The neighbour that pays most for a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Name of the threads.
    pub threads: String,
    /// Metric of the price: `activation_latency.p99` or `cpu_time`.
    pub metric: String,
    /// As recorded, in the metric's unit.
    pub recorded: f64,
    /// Under the limit.
    pub now: f64,
    /// How much worse, as a ratio − 1; negative is better.
    pub growth: f64,
    /// Upper end of the growth's 95 % interval over seeds.
    pub growth_at_most: f64,
    /// Whether it is more than what seeds alone may make.
    pub certain: bool,
}

/// CPU time of threads that are neither `members` of the target nor the recorder, which is there
/// for the recording only: the metric and its values, by name of the threads.
fn neighbours<'a>(
    baseline: &'a Variant,
    members: &'a [String],
) -> impl Iterator<Item = (&'a str, &'a (String, Summary))> {
    let threads = |row: &'a (String, Summary)| Some((row.0.strip_suffix("/cpu_time")?, row));
    let all = baseline.metrics.iter().filter_map(threads);
    let is_other = |name: &str| !members.iter().any(|member| member == name) && !is_recorder(name);
    all.filter(move |(name, _)| is_other(name))
}

/// Whether there are neighbours, watched or not.
pub(crate) fn has_neighbours(baseline: &Variant, members: &[String]) -> bool {
    neighbours(baseline, members).next().is_some()
}

/// Metrics watched of each neighbour, by full name.
///
/// Threads that were there for a part of the recording only, `brief`, are none: another run has
/// others.
pub(crate) fn watched(
    baseline: &Variant,
    members: &[String],
    brief: &BTreeSet<String>,
    length_s: f64,
) -> Vec<String> {
    let value = |metric: &str| baseline.get(metric).map_or(0.0, |summary| summary.mean);
    let mut watched: Vec<(f64, String)> = Vec::new();
    for (threads, (name, summary)) in neighbours(baseline, members) {
        if brief.contains(threads) {
            continue;
        }
        let busy = summary.mean >= CPU_SHARE_MIN * length_s;
        if value(&format!("{threads}/activation_latency.count")) >= ACTIVATIONS_MIN {
            let latency = format!("{threads}/activation_latency.p99");
            watched.push((summary.mean, latency));
        } else if busy {
            watched.push((summary.mean, name.clone()));
        }
    }
    watched.sort_by(|left, right| right.0.total_cmp(&left.0));
    watched.truncate(WATCHED);
    watched.into_iter().map(|(_, metric)| metric).collect()
}

/// The largest price that any watched neighbour pays in `variant`, of those that are certain where
/// there are any.
pub(crate) fn highest(
    comparison: &Comparison,
    variant: &Variant,
    watched: &[String],
) -> Option<Price> {
    let baseline = comparison.variants.first()?;
    let price = |metric: &String| {
        let (recorded, now) = (baseline.get(metric)?, variant.get(metric)?);
        let change = now.vs_baseline.as_ref()?;
        let [low, high] = change.ci95.get().unwrap_or([change.ratio?; 2]);
        let (threads, name) = metric.rsplit_once('/')?;
        let (growth, most) = match name {
            // Less CPU time than before: the ratio turned round.
            "cpu_time" => (1.0 / change.ratio?, 1.0 / low),
            _ => (change.ratio?, high),
        };
        Some(Price {
            threads: threads.to_string(),
            metric: name.to_string(),
            recorded: recorded.mean,
            now: now.mean,
            growth: growth - 1.0,
            growth_at_most: most - 1.0,
            certain: change.significant,
        })
    };
    let prices = watched.iter().filter_map(price);
    prices.max_by(|left, right| {
        // Who gains for certain does not pay.
        let pays = |price: &Price| price.certain && price.growth > 0.0;
        let certain = pays(left).cmp(&pays(right));
        certain.then(left.growth.total_cmp(&right.growth))
    })
}

/// Reads `+5%`: how much worse a neighbour may become.
///
/// # Errors
/// Anything else, with its place.
pub(crate) fn read_most(text: &str) -> Result<f64> {
    let source = Source::of_command_line("--max-neighbour", text);
    let number = text.trim().strip_suffix('%').map(str::trim_end);
    let number = number.map(|number| number.strip_prefix('+').unwrap_or(number));
    let percent: Option<f64> = number.and_then(|number| number.parse().ok());
    match percent.filter(|percent: &f64| percent.is_finite() && *percent >= 0.0) {
        Some(percent) => Ok(percent / 100.0),
        None => {
            let place = Place::new(&source, 0..text.len());
            Err(Error::input(&place, format!("`{text}` is no growth")).hint("such as +5%"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 200 activations of each, and only `db` changes beyond what seeds make.
    #[test]
    fn neither_noise_nor_the_steps_of_a_build_are_certain_to_pay() {
        let mut rows = Vec::new();
        for name in ["db", "calm", "cc1", "schedcast"] {
            rows.push((format!("{name}/cpu_time"), [3.0; 4], [3.0; 4]));
            rows.push((
                format!("{name}/activation_latency.count"),
                [200.0; 4],
                [200.0; 4],
            ));
        }
        let p99 = |name: &str| format!("{name}/activation_latency.p99");
        rows.push((p99("db"), [10.0, 10.1, 9.9, 10.0], [13.0, 13.1, 12.9, 13.0]));
        rows.push((
            p99("calm"),
            [10.0, 19.0, 4.0, 12.0],
            [14.0, 3.0, 24.0, 11.0],
        ));
        rows.push((
            p99("cc1"),
            [10.0, 10.1, 9.9, 10.0],
            [90.0, 90.1, 89.9, 90.0],
        ));
        let comparison = schedcast_lab::samples::compared(&rows);
        let brief = BTreeSet::from(["cc1".to_string()]);
        let watched = watched(&comparison.variants[0], &[], &brief, 30.0);
        assert_eq!(watched.len(), 2, "{watched:?}");
        let price = |watched: &[String]| highest(&comparison, &comparison.variants[1], watched);
        let paid = price(&watched).unwrap();
        assert_eq!((paid.threads.as_str(), paid.certain), ("db", true));
        assert!(!price(&[p99("calm")]).unwrap().certain);
        let gains = schedcast_lab::samples::compared(&[
            (p99("calm"), [3.0, 3.9, 3.1, 3.6], [3.1, 3.7, 3.2, 3.7]),
            (p99("glad"), [9.0, 9.1, 8.9, 9.0], [4.0, 4.1, 3.9, 4.0]),
        ]);
        let watched = [p99("calm"), p99("glad")];
        let paid = highest(&gains, &gains.variants[1], &watched).unwrap();
        assert_eq!(paid.threads, "calm", "who gains for certain does not pay");
    }

    #[test]
    fn growth_is_read_in_per_cent() {
        assert_eq!(read_most("+5%"), Ok(0.05));
        assert_eq!(read_most("+0%"), Ok(0.0), "no neighbour may lose anything");
        assert_eq!(read_most(" 12.5 % "), Ok(0.125));
        for wrong in ["5", "+%", "-5%", "5ms", "", "inf%"] {
            let error = read_most(wrong).unwrap_err().to_string();
            assert!(error.contains("--max-neighbour:1:1: "), "{error}");
        }
    }
}
