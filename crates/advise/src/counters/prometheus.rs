//! Counters of a container as Prometheus keeps them: the answer of its `query_range` to the
//! cAdvisor counters.
//!
//! ```text
//! {"status":"success","data":{"resultType":"matrix","result":[
//!   {"metric":{"__name__":"container_cpu_cfs_periods_total","container":"pg"},
//!    "values":[[1763719200,"1000"],[1763719230,"1295"]]}, …]}}
//! ```
//!
//! says that 295 periods passed in 30 s. A file may hold several answers, one behind the other.
//! Each counter must be that of one container; a counter that falls has begun anew, and what it
//! shows since then is added, as `increase()` does; the answer says how often. The window is the
//! time that all counters cover.
//!
//! `container_spec_cpu_quota` and `_period` tell the limit and `machine_cpu_cores` the CPUs, where
//! they were asked for too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use schedcast_base::limits::PERIOD_US;
use serde::Deserialize;

use super::Known;
use schedcast_kernel::group::BandwidthLimit;
use schedcast_lab::error::{Result, hint_for};
use schedcast_lab::simulator::bad_input;

/// Facts that the user knows beyond the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beyond {
    /// Labels and values that the series must have.
    pub labels: Vec<(String, String)>,
    /// The limit that was in force; otherwise the file must tell it.
    pub limit: Option<BandwidthLimit>,
    /// CPUs of the machine; otherwise the file must tell them.
    pub cpus: Option<u32>,
}

/// The files that are read here, in an error.
pub(super) const ANSWERS: &str = "expected the JSON of answers of Prometheus' query_range";

pub(super) const USAGE: &str = "container_cpu_usage_seconds_total";
pub(super) const PERIODS: &str = "container_cpu_cfs_periods_total";
pub(super) const THROTTLED: &str = "container_cpu_cfs_throttled_periods_total";
const THROTTLED_SECONDS: &str = "container_cpu_cfs_throttled_seconds_total";
const SPEC_QUOTA: &str = "container_spec_cpu_quota";
const SPEC_PERIOD: &str = "container_spec_cpu_period";
pub(super) const CORES: &str = "machine_cpu_cores";

/// All that may be in a file; those behind `machine_cpu_cores` are left aside.
const NAMES: [&str; 12] = [
    USAGE,
    PERIODS,
    THROTTLED,
    THROTTLED_SECONDS,
    SPEC_QUOTA,
    SPEC_PERIOD,
    CORES,
    "container_cpu_cfs_burst_periods_total",
    "container_cpu_cfs_burst_seconds_total",
    "container_cpu_system_seconds_total",
    "container_cpu_user_seconds_total",
    "container_spec_cpu_shares",
];

/// A query that asks for everything at once.
pub(crate) const QUERY: &str = "{__name__=~\"container_cpu_(usage|cfs).*_total|container_spec_cpu_(quota|period)\", container=\"NAME\"}";

/// Later than any clock stands: the year 2286, in ms and ns still a number of 64 bits.
const LAST_SECOND: f64 = 1e10;

#[derive(Deserialize)]
struct Answer {
    status: String,
    error: Option<String>,
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    result_type: String,
    result: serde_json::Value,
}

#[derive(Deserialize)]
struct Series {
    metric: BTreeMap<String, String>,
    values: Vec<(f64, String)>,
}

/// One series: its labels without the name, and its points in order of time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Points {
    pub(super) labels: BTreeMap<String, String>,
    /// Milliseconds of the server's clock, and values.
    pub(super) points: Vec<(u64, f64)>,
    /// Why the container of the series has no answer: a value or a time that is none.
    pub(super) wrong: Option<String>,
}

impl Points {
    fn inside(&self, (from_ms, to_ms): (u64, u64)) -> impl Iterator<Item = (u64, f64)> {
        let all = self.points.iter().copied();
        all.filter(move |(at_ms, _)| (from_ms..=to_ms).contains(at_ms))
    }
}

impl Known {
    /// Counters of the range in the file at `path`.
    ///
    /// # Errors
    /// A file that cannot be read or is no range of counters, series of several containers, a limit
    /// or CPUs that nobody tells, counters that say too little.
    pub fn from_range(path: &Path, beyond: &Beyond) -> Result<Known> {
        let text = schedcast_base::whole::expected_text(path, ANSWERS)?;
        let wrong = |message: String| bad_input(format!("{}: {message}", path.display()));
        let mut all = series(&text).map_err(wrong)?;
        select(&mut all, &beyond.labels).map_err(wrong)?;
        let range = Range { all };
        let known = range.known(beyond).map_err(wrong)?;
        known.refuse_silence()?;
        Ok(known)
    }
}

/// The series of all answers in `text`, by name.
pub(super) fn series(text: &str) -> std::result::Result<BTreeMap<String, Vec<Points>>, String> {
    let mut all: BTreeMap<String, Vec<Points>> = BTreeMap::new();
    let answers = serde_json::Deserializer::from_str(text).into_iter::<Answer>();
    for answer in answers {
        let answer =
            answer.map_err(|error| format!("expected an answer of query_range: {error}"))?;
        let data = match (answer.status.as_str(), answer.data) {
            ("success", Some(data)) => data,
            (status, _) => {
                let error = answer.error.unwrap_or_default();
                return Err(format!("the answer is `{status}`, not `success`: {error}"));
            }
        };
        if data.result_type != "matrix" {
            let found = data.result_type;
            return Err(format!(
                "expected the result type `matrix`, found `{found}`: ask query_range, not query"
            ));
        }
        let result: Vec<Series> =
            serde_json::from_value(data.result).map_err(|error| format!("data.result: {error}"))?;
        for one in result {
            let (name, points) = points(one)?;
            all.entry(name).or_default().push(points);
        }
    }
    Ok(all)
}

fn points(series: Series) -> std::result::Result<(String, Points), String> {
    let mut labels = series.metric;
    let name = labels.remove("__name__").ok_or(
        "a series without `__name__`: ask for the counters themselves, not for rate() or sum() of them",
    )?;
    if !NAMES.contains(&name.as_str()) {
        let hint = hint_for(&name, &NAMES);
        return Err(format!("unknown metric `{name}` ({hint})"));
    }
    let mut points = Vec::with_capacity(series.values.len());
    let mut wrong = None;
    for (seconds, text) in series.values {
        match point(&name, seconds, &text, points.last().copied()) {
            Ok(point) => points.push(point),
            Err(why) => wrong = wrong.or(Some(why)),
        }
    }
    let points = Points {
        labels,
        points,
        wrong,
    };
    Ok((name, points))
}

/// A point of the series `name`, behind the one `before`.
fn point(
    name: &str,
    seconds: f64,
    text: &str,
    before: Option<(u64, f64)>,
) -> std::result::Result<(u64, f64), String> {
    let number = text.parse::<f64>().ok();
    let value = number
        .filter(|value| value.is_finite() && value.abs() < 1e15)
        .ok_or_else(|| format!("{name}: expected a number, found `{text}`"))?;
    if value < 0.0 && name != SPEC_QUOTA {
        return Err(format!("{name}: expected at least 0, found `{text}`"));
    }
    if !(0.0..LAST_SECOND).contains(&seconds) {
        return Err(format!(
            "{name}: expected a time in seconds, found {seconds}"
        ));
    }
    let at_ms = (seconds * 1000.0).round() as u64;
    if before.is_some_and(|(before_ms, _)| before_ms >= at_ms) {
        return Err(format!("{name}: times must ascend, at {seconds}"));
    }
    Ok((at_ms, value))
}

/// Keeps the series with these labels.
fn select(
    all: &mut BTreeMap<String, Vec<Points>>,
    wanted: &[(String, String)],
) -> std::result::Result<(), String> {
    for (label, value) in wanted {
        let mut values: Vec<String> = Vec::new();
        for points in all.values().flatten() {
            values.extend(points.labels.get(label).cloned());
        }
        values.sort_unstable();
        values.dedup();
        if values.is_empty() {
            let labels: BTreeSet<&str> = all
                .values()
                .flatten()
                .flat_map(|points| points.labels.keys().map(String::as_str))
                .collect();
            let labels: Vec<&str> = labels.into_iter().collect();
            let hint = hint_for(label, &labels);
            return Err(format!("no series has a label `{label}` ({hint})"));
        }
        if !values.contains(value) {
            let known: Vec<&str> = values.iter().map(String::as_str).collect();
            let hint = hint_for(value, &known);
            return Err(format!("no series has {label}=\"{value}\" ({hint})"));
        }
        for (name, series) in all.iter_mut() {
            // The machine's own series know no containers.
            if name != CORES {
                series.retain(|points| points.labels.get(label) == Some(value));
            }
        }
    }
    Ok(())
}

pub(super) struct Range {
    pub(super) all: BTreeMap<String, Vec<Points>>,
}

impl Range {
    pub(super) fn known(&self, beyond: &Beyond) -> std::result::Result<Known, String> {
        if let Some(why) = self
            .all
            .values()
            .flatten()
            .find_map(|one| one.wrong.as_ref())
        {
            return Err(why.clone());
        }
        for name in [USAGE, PERIODS, THROTTLED, THROTTLED_SECONDS] {
            self.refuse_several(name)?;
        }
        let window = self.window_ms()?;
        let count = |name: &str| self.growth(name, window).map(|count| count.round() as u64);
        let time_ns = |name: &str| {
            let seconds = self.growth(name, window);
            seconds.map(|seconds| (seconds * 1e9).round() as u64)
        };
        let limit = match beyond.limit {
            Some(limit) => limit,
            None => self.limit(window)?,
        };
        for name in [PERIODS, THROTTLED] {
            // Counters that were not asked for are not counters that stood still.
            if limit.quota_ns.is_some() && self.of(name).is_empty() {
                return Err(format!(
                    "there is a limit, but no {name} to tell how often it was met: add it to the query"
                ));
            }
        }
        Ok(Known {
            cgroup: self.name(),
            label: None,
            cpus: match beyond.cpus {
                Some(cpus) => cpus,
                None => self.cpus(window)?,
            },
            window_ns: (window.1 - window.0) * 1_000_000,
            limit,
            nr_periods: count(PERIODS).unwrap_or(0),
            nr_throttled: count(THROTTLED).unwrap_or(0),
            throttled_ns: time_ns(THROTTLED_SECONDS),
            usage_ns: time_ns(USAGE),
            restarts: self.restarts(window),
            samples: None,
            limited_parent: None,
        })
    }

    fn of(&self, name: &str) -> &[Points] {
        self.all.get(name).map_or(&[], Vec::as_slice)
    }

    /// Several series of a counter are several containers, unless they are its CPUs.
    fn refuse_several(&self, name: &str) -> std::result::Result<(), String> {
        let without_cpu = |points: &Points| {
            let mut labels = points.labels.clone();
            labels.remove("cpu");
            labels
        };
        let series = self.of(name);
        let Some((first, others)) = series.split_first() else {
            return Ok(());
        };
        let labels = without_cpu(first);
        for other in others.iter().map(without_cpu) {
            let differing = labels
                .iter()
                .find(|(label, value)| other.get(*label) != Some(value));
            let (label, value) = match differing {
                Some((label, value)) => (label.as_str(), value.as_str()),
                None if other.len() == labels.len() => continue,
                None => ("", ""),
            };
            let count = series.len();
            return Err(format!(
                "{count} series of {name}: choose one, such as --select '{label}={value}'"
            ));
        }
        Ok(())
    }

    /// Name of the container: the most specific of its labels.
    fn name(&self) -> String {
        let labels = [PERIODS, USAGE]
            .into_iter()
            .find_map(|name| self.of(name).first().map(|points| &points.labels));
        let telling = ["container", "name", "pod", "id"];
        let found = telling
            .iter()
            .find_map(|label| labels?.get(*label).filter(|value| !value.is_empty()));
        found.cloned().unwrap_or_else(|| "container".to_string())
    }

    /// The time that all counters cover.
    fn window_ms(&self) -> std::result::Result<(u64, u64), String> {
        let mut window = (0, u64::MAX);
        let mut most_points = 0;
        for name in [USAGE, PERIODS, THROTTLED, THROTTLED_SECONDS] {
            for points in self.of(name) {
                let ends = (points.points.first(), points.points.last());
                if let (Some(first), Some(last)) = ends {
                    window = (window.0.max(first.0), window.1.min(last.0));
                    most_points = most_points.max(points.points.len());
                }
            }
        }
        let why = match most_points {
            0 => "the answer has no counters",
            1 => "each counter has one point, which shows no growth",
            _ if window.0 < window.1 => return Ok(window),
            _ => "the counters cover no time together",
        };
        Err(format!("{why}; ask for a range of {QUERY}"))
    }

    /// How much a counter grew in the window; `None` without the counter.
    fn growth(&self, name: &str, (from_ms, to_ms): (u64, u64)) -> Option<f64> {
        let series = self.of(name);
        let total = series
            .iter()
            .find(|points| points.labels.get("cpu").is_some_and(|cpu| cpu == "total"));
        let grown = |points: &Points| {
            let inside = points.inside((from_ms, to_ms));
            let values: Vec<f64> = inside.map(|(_, value)| value).collect();
            let step = |pair: &[f64]| match pair[1] >= pair[0] {
                true => pair[1] - pair[0],
                false => pair[1],
            };
            values.windows(2).map(step).sum::<f64>()
        };
        match total {
            Some(points) => Some(grown(points)),
            None if series.is_empty() => None,
            None => Some(series.iter().map(grown).sum()),
        }
    }

    /// At how many times a counter was lower than at its point before. All of a container begin
    /// anew together.
    fn restarts(&self, window: (u64, u64)) -> u32 {
        let mut times = BTreeSet::new();
        for name in [USAGE, PERIODS, THROTTLED, THROTTLED_SECONDS] {
            for series in self.of(name) {
                let inside: Vec<(u64, f64)> = series.inside(window).collect();
                let fell = inside.windows(2).filter(|pair| pair[1].1 < pair[0].1);
                times.extend(fell.map(|pair| pair[1].0));
            }
        }
        times.len() as u32
    }

    /// The value of a setting, which must stay the same.
    fn setting(
        &self,
        name: &str,
        (from_ms, to_ms): (u64, u64),
    ) -> std::result::Result<Option<f64>, String> {
        let points = self.of(name).iter().flat_map(|series| &series.points);
        let inside = points.filter(|(at_ms, _)| (from_ms..=to_ms).contains(at_ms));
        let mut values: Vec<f64> = inside.map(|&(_, value)| value).collect();
        values.dedup();
        match values[..] {
            [] => Ok(None),
            [value] => Ok(Some(value)),
            _ => Err(format!("{name} changed: ask for a range with one limit")),
        }
    }

    fn limit(&self, window: (u64, u64)) -> std::result::Result<BandwidthLimit, String> {
        let told = self.setting(SPEC_QUOTA, window)?;
        let microseconds =
            |value: Option<f64>| value.filter(|us| *us > 0.0).map(|us| us as u64 * 1000);
        let quota_ns = microseconds(told);
        let period_ns = microseconds(self.setting(SPEC_PERIOD, window)?);
        // Periods are counted under a limit only.
        let grown = self.growth(PERIODS, window).filter(|grown| *grown > 0.0);
        if let (Some(quota), None, Some(grown)) = (told, quota_ns, grown) {
            return Err(format!(
                "{SPEC_QUOTA} is {quota}, which is no limit, and {PERIODS} grew by {grown}, as under a limit only: name it with --limit cpu.max='QUOTA PERIOD'"
            ));
        }
        if told.is_none() && !self.of(PERIODS).is_empty() {
            return Err(format!(
                "which limit was in force? Add {SPEC_QUOTA} and {SPEC_PERIOD} to the query, or --limit cpu.max='QUOTA PERIOD'"
            ));
        }
        let period_ns = period_ns.unwrap_or(BandwidthLimit::default().period_ns);
        if !PERIOD_US.contains(&(period_ns / 1000)) {
            return Err(format!(
                "{SPEC_PERIOD}: expected 1000 to 1000000 µs, as the kernel allows, found {}",
                period_ns / 1000
            ));
        }
        Ok(BandwidthLimit {
            quota_ns,
            period_ns,
            burst_ns: 0,
        })
    }

    fn cpus(&self, window: (u64, u64)) -> std::result::Result<u32, String> {
        let cores = self.setting(CORES, window)?;
        let cores = cores.map(|cores| cores as u32).filter(|cores| *cores > 0);
        cores.ok_or_else(|| {
            format!("how many CPUs has the machine? --cpus N, or {CORES} in the file")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::{assert_contains, assert_in};

    const LIMIT: BandwidthLimit = BandwidthLimit::of_ms(50, 100, 0);

    fn one(name: &str, labels: &str, values: &str) -> String {
        format!("{{\"metric\":{{\"__name__\":\"{name}\"{labels}}},\"values\":[{values}]}}")
    }

    fn answer(series: &[String]) -> String {
        let all = series.join(",");
        format!(
            "{{\"status\":\"success\",\"data\":{{\"resultType\":\"matrix\",\"result\":[{all}]}}}}\n"
        )
    }

    fn read(text: &str, beyond: &Beyond) -> std::result::Result<Known, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.json");
        std::fs::write(&path, text).unwrap();
        Known::from_range(&path, beyond).map_err(|error| error.to_string())
    }

    fn given() -> Beyond {
        Beyond {
            limit: Some(LIMIT),
            cpus: Some(2),
            ..Beyond::default()
        }
    }

    /// 30 s of which the counters show 295 periods, 102 throttled, 5.712 s of throttled time and
    /// 9.87 s of use, in which the periods began anew once.
    fn range() -> String {
        let pg = ",\"container\":\"pg\"";
        answer(&[
            one(PERIODS, pg, "[100,\"1000\"],[115,\"1145\"],[130,\"150\"]"),
            one(THROTTLED, pg, "[100,\"7\"],[115,\"60\"],[130,\"109\"]"),
            one(THROTTLED_SECONDS, pg, "[100,\"1.5\"],[130,\"7.212\"]"),
        ]) + &answer(&[one(USAGE, pg, "[85,\"3\"],[100,\"5\"],[130,\"14.87\"]")])
    }

    #[test]
    fn growth_over_the_common_window_counts() {
        let known = read(&range(), &given()).unwrap();
        let expected = Known {
            cgroup: "pg".to_string(),
            cpus: 2,
            window_ns: 30_000_000_000,
            limit: LIMIT,
            nr_periods: 295,
            nr_throttled: 102,
            throttled_ns: Some(5_712_000_000),
            usage_ns: Some(9_870_000_000),
            restarts: 1,
            ..Known::default()
        };
        assert_eq!(known, expected);
    }

    #[test]
    fn limit_and_cpus_may_stand_in_the_file() {
        let settings = answer(&[
            one(SPEC_QUOTA, "", "[100,\"50000\"],[130,\"50000\"]"),
            one(SPEC_PERIOD, "", "[100,\"100000\"]"),
            one(CORES, "", "[100,\"2\"]"),
        ]);
        let text = range() + &settings;
        let known = read(&text, &Beyond::default()).unwrap();
        assert_eq!((known.limit, known.cpus), (LIMIT, 2));
        let changed = text.replace("[130,\"50000\"]", "[130,\"60000\"]");
        assert_contains(read(&changed, &Beyond::default()).unwrap_err(), "changed");
        let error = read(&range(), &Beyond::default()).unwrap_err();
        assert!(error.contains("--limit"), "{error}");
    }

    #[test]
    fn one_container_is_chosen_and_cpus_are_added() {
        let values = "[100,\"1\"],[130,\"4\"]";
        let two = answer(&[
            one(USAGE, ",\"pod\":\"a\",\"cpu\":\"cpu00\"", values),
            one(USAGE, ",\"pod\":\"a\",\"cpu\":\"cpu01\"", values),
            one(USAGE, ",\"pod\":\"b\",\"cpu\":\"total\"", values),
        ]);
        let error = read(&two, &given()).unwrap_err();
        assert!(error.contains("--select 'pod=a'"), "{error}");
        let unlimited = || Beyond {
            limit: None,
            ..given()
        };
        let select = |pod: &str| Beyond {
            labels: vec![("pod".to_string(), pod.to_string())],
            ..unlimited()
        };
        let usage = |pod: &str| read(&two, &select(pod)).map(|known| known.usage_ns);
        assert_eq!(usage("a"), Ok(Some(6_000_000_000)));
        assert_eq!(usage("b"), Ok(Some(3_000_000_000)));
        assert!(usage("c").unwrap_err().contains("no series has pod=\"c\""));
        let mistyped = Beyond {
            labels: vec![("pdo".to_string(), "a".to_string())],
            ..given()
        };
        let error = read(&two, &mistyped).unwrap_err();
        assert_contains(&error, "label `pdo` (the nearest valid name is `pod`)");
    }

    #[test]
    fn a_limit_without_its_counters_says_nothing() {
        let usage = answer(&[one(USAGE, "", "[100,\"5\"],[130,\"14.87\"]")]);
        let error = read(&usage, &given()).unwrap_err();
        assert!(error.contains(PERIODS), "{error}");
        let periods = one(PERIODS, "", "[100,\"5\"],[130,\"300\"]");
        let error = read(&(usage + &answer(&[periods])), &given()).unwrap_err();
        assert!(error.contains(THROTTLED), "{error}");
    }

    #[test]
    fn what_is_no_range_of_counters_is_refused() {
        let cases = [
            ("{", "expected an answer of query_range: EOF"),
            (
                "{\"status\":\"error\",\"error\":\"bad query\"}",
                "bad query",
            ),
            (
                "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[]}}",
                "query_range, not query",
            ),
            ("", "the answer has no counters"),
        ];
        for (text, says) in cases {
            let error = read(text, &given()).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        let with = |series: String| read(&answer(&[series]), &given()).unwrap_err();
        let rate = "{\"metric\":{},\"values\":[[1,\"2\"]]}".to_string();
        assert!(with(rate).contains("not for rate()"));
        let typo = with(one("container_cpu_usage_second_total", "", "[1,\"2\"]"));
        assert!(typo.contains(USAGE), "{typo}");
        assert!(with(one(USAGE, "", "[1,\"x\"]")).contains("found `x`"));
        assert!(with(one(USAGE, "", "[1,\"NaN\"]")).contains("found `NaN`"));
        assert!(with(one(USAGE, "", "[2,\"1\"],[1,\"2\"]")).contains("ascend"));
        assert!(with(one(USAGE, "", "[1,\"-2\"]")).contains("found `-2`"));
        assert!(with(one(USAGE, "", "[1,\"2\"]")).contains("has one point"));
    }

    #[test]
    fn more_than_all_cpus_give_is_refused() {
        let text = range().replace("14.87", "4294967296");
        let error = read(&text, &given()).unwrap_err();
        assert!(error.contains("more than 2 CPUs give"), "{error}");
        let limited = Beyond {
            limit: None,
            ..given()
        };
        for (period_us, found) in [("0.5", "found 0"), ("2000000", "found 2000000")] {
            let period = one(SPEC_PERIOD, "", &format!("[100,\"{period_us}\"]"));
            let quota = one(SPEC_QUOTA, "", "[100,\"50000\"]");
            let text = range() + &answer(&[period, quota]);
            let error = read(&text, &limited).unwrap_err();
            assert!(error.contains(SPEC_PERIOD), "{error}");
            assert!(error.ends_with(found), "{error}");
        }
    }

    #[test]
    fn a_quota_of_minus_one_is_no_limit_under_which_no_periods_are_counted() {
        let told = |periods: &str| {
            let quota = one(SPEC_QUOTA, "", "[100,\"-1\"],[130,\"-1\"]");
            let periods = one(PERIODS, "", periods);
            let usage = one(USAGE, "", "[100,\"5\"],[130,\"14.87\"]");
            let beyond = Beyond {
                limit: None,
                ..given()
            };
            read(&answer(&[quota, periods, usage]), &beyond)
        };
        let known = told("[100,\"9\"],[130,\"9\"]").unwrap();
        assert_eq!(known.limit.quota_ns, None);
        let error = told("[100,\"9\"],[130,\"300\"]").unwrap_err();
        assert_contains(&error, "is -1, which is no limit");
        assert_contains(&error, "grew by 291");
    }

    /// Cut anywhere, or with any number another: what is read can be reckoned with, what is not is
    /// told.
    #[test]
    fn damage_is_told() {
        let settings = answer(&[
            one(SPEC_QUOTA, "", "[100,\"50000\"]"),
            one(SPEC_PERIOD, "", "[100,\"100000\"]"),
            one(CORES, "", "[100,\"2\"]"),
        ]);
        let whole = range() + &settings;
        let cuts = (0..whole.len()).map(|at| whole[..at].to_string());
        let is_digit = |at: &usize| whole.as_bytes()[*at].is_ascii_digit();
        let numbers = (0..whole.len()).filter(is_digit).flat_map(|at| {
            ["0", "-1", "1e308", "99999999999", "18446744073709551615"]
                .map(|number| format!("{}{number}{}", &whole[..at], &whole[at + 1..]))
        });
        for text in cuts.chain(numbers) {
            match read(&text, &Beyond::default()) {
                Ok(known) => {
                    assert!(known.window_ns > 0 && known.cpus > 0, "{text}");
                    assert_in!(known.limit.period_ns, 1_000_000..=1_000_000_000, "{text}");
                    let usage_ns = u128::from(known.usage_ns.unwrap_or(0));
                    assert!(usage_ns <= 2 * known.all_cpus_ns(), "{text}");
                }
                Err(error) => assert!(error.len() > 20, "{text}: {error}"),
            }
        }
    }

    #[test]
    fn a_counter_that_stands_still_has_not_grown() {
        let still = answer(&[
            one(PERIODS, "", "[100,\"1000\"],[115,\"1145\"],[130,\"1295\"]"),
            one(THROTTLED, "", "[100,\"7\"],[115,\"7\"],[130,\"7\"]"),
        ]);
        let known = read(&still, &given()).unwrap();
        assert_eq!((known.nr_periods, known.nr_throttled), (295, 0));
    }
}
