//! Promises of a service, as typed: `p99<80ms`.
//!
//! A promise is a metric, a comparison and a value with its unit. Over a recording whose service
//! runs in threads named `postgres` of the group `/pg`, and which shows what clients see, short
//! names are completed:
//!
//! | typed | metric | bound |
//! |---|---|---|
//! | `p99<80ms` | `postgres/request_latency.p99` | below 80,000 us |
//! | `reply_latency.p95 <= 20ms` | `postgres/reply_latency.p95` | 20,000 us at most |
//! | `client/p99<80ms` | `client/activation_latency.p99` | below 80,000 us |
//! | `nr_throttled<10` | `cgroup:/pg/nr_throttled` | below 10 |
//! | `throttled_ratio<5%` | `cgroup:/pg/throttled_ratio` | below 5 % of the periods |
//! | `pgbench/wakeup_latency.p99<1ms` | itself | below 1,000 us |

use std::sync::Arc;

use schedcast_base::groups::is_within;
use schedcast_lab::context::Names;
use schedcast_lab::error::{Error, Place, Result, Source, hint_for};
use schedcast_lab::experiment::Scenario;
use schedcast_lab::held_back::AskedAtAnyTime;
use schedcast_lab::metrics::{self, Better, Metric};
use schedcast_lab::outcome::Outcome;
use schedcast_lab::recording::{Latency, Recorded};
use schedcast_lab::simulator::Simulator;

use crate::Case;

schedcast_base::named! {
    /// Which values keep a promise, as it is typed; a sign that begins with another one is first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Bound {
        /// At most.
        AtMost = "<=",
        /// At least.
        AtLeast = ">=",
        /// Less.
        Below = "<",
        /// More.
        Above = ">",
    }
}

impl Bound {
    /// Whether the promise is about the upper end of an interval.
    pub fn from_above(self) -> bool {
        matches!(self, Bound::Below | Bound::AtMost)
    }
}

/// Subject that completes short names of metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scope<'a> {
    /// Name of the threads that do the work.
    pub threads: Option<&'a str>,
    /// Latency that `p99` stands for: `request_latency` or another one of these threads; `None` is
    /// `activation_latency`.
    pub latency: Option<&'a str>,
    /// The group whose limits are in question.
    pub cgroup: Option<&'a str>,
}

/// One promise.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo {
    /// Full name of the metric.
    pub metric: String,
    /// How it is compared.
    pub bound: Bound,
    /// With what, in the metric's unit.
    pub limit: f64,
    /// The value as typed: `80ms`.
    pub shown: String,
    /// Whether the latency was not named but taken of the scope: `p95`.
    is_short: bool,
    /// The threads that clients ask at any time, if it is about their activations and was not
    /// typed as that.
    asked: Option<AskedAtAnyTime>,
    place: Place,
}

impl Slo {
    /// Reads a promise as typed after `--slo`.
    ///
    /// # Errors
    /// Anything that is no metric, comparison and value, with its place.
    pub fn parse(text: &str, scope: Scope<'_>) -> Result<Slo> {
        let source = Source::of_command_line("--slo", text);
        let sign = text.char_indices().find_map(|(at, _)| {
            let mut bounds = Bound::ALL.into_iter();
            let bound = bounds.find(|bound| text[at..].starts_with(bound.name()))?;
            Some((at, bound.name().len(), bound))
        });
        let Some((at, length, bound)) = sign else {
            let whole = Place::new(&source, 0..text.len());
            return Err(
                Error::input(&whole, "a promise compares a metric with a value")
                    .hint("such as p99<80ms or nr_throttled<=10"),
            );
        };
        let place = trimmed(&source, 0..at);
        let metric = complete(&text[place.span.clone()], &place, scope)?;
        let parsed = metrics::parse(&metric).ok_or_else(|| unknown(&metric, &place))?;
        refuse_senseless(&parsed, bound, &Place::new(&source, at..at + length))?;
        let value_place = trimmed(&source, at + length..text.len());
        let shown = text[value_place.span.clone()].to_string();
        let limit = read_value(&shown, &parsed, &value_place)?;
        refuse_below_all(&parsed, bound, limit, &value_place)?;
        Ok(Slo {
            is_short: !text[place.span.clone()].contains("_latency"),
            asked: None,
            metric,
            bound,
            limit,
            shown,
            place,
        })
    }

    /// Whether the promise was not typed as one about `latency`, but taken for one.
    pub(crate) fn is_taken_for(&self, latency: &Latency) -> bool {
        let begin = format!("{}/{}.", latency.threads, latency.name);
        self.is_short && self.metric.starts_with(&begin)
    }

    /// Notes that clients ask the threads of `latency` at any time, if it is taken for one about
    /// it.
    pub(crate) fn is_about_clients(&mut self, latency: &Latency, asked: &AskedAtAnyTime) {
        if self.is_taken_for(latency) {
            self.asked = Some(asked.clone());
        }
    }

    /// The value of its metric in a run of `length_ns`: where that is of threads, not less than
    /// clients wait at least which ask at any time.
    pub(crate) fn value_in(&self, run: &Outcome, length_ns: u64) -> Option<f64> {
        let value = |name: &str| run.metrics.get(name).copied();
        let own = value(&self.metric)?;
        let least = self.asked.as_ref().zip(metrics::parse(&self.metric));
        let least = least.map_or(0.0, |(asked, metric)| {
            asked.least_us(&metric, length_ns, value)
        });
        Some(own.max(least))
    }

    /// Whether it is about the group `target`, or its threads: `members` are their names.
    pub(crate) fn is_about(&self, target: &str, members: &[String]) -> bool {
        let subject = self
            .metric
            .rsplit_once('/')
            .map_or("", |(subject, _)| subject);
        match subject.strip_prefix(metrics::CGROUP) {
            Some(path) => is_within(path, target),
            None => members.iter().any(|member| member == subject),
        }
    }

    /// Refuses, before anything runs, a promise about what no run of `scenarios` can report.
    ///
    /// # Errors
    /// The part of the metric that is wrong, with the nearest that is right; or a scenario cannot
    /// be built.
    pub(crate) fn refuse_unknown(
        &self,
        scenarios: &[Scenario],
        simulator: &Simulator,
    ) -> Result<()> {
        metrics::refuse_unknown(&self.metric)
            .and_then(|()| metrics::refuse_unknown_subject(&self.metric, scenarios, simulator))
            .map_err(|error| error.at(&self.place))
    }

    /// Refuses a rate, which benchmarks report of themselves and no recorded thread does:
    /// `finished` is the latency whose values count what they finish.
    pub(crate) fn refuse_rate(&self, finished: &str) -> Result<()> {
        let unit = metrics::parse(&self.metric).map_or("", |metric| metric.unit());
        if !unit.ends_with("/s") {
            return Ok(());
        }
        let message = format!("a recording reports no rates such as `{}`", self.metric);
        let hint = format!(
            "`{finished}.count` is how many finished, `{finished}.unfinished` how many did not"
        );
        Err(self.error(message).hint(hint))
    }

    /// Whether `value` keeps the promise.
    pub fn keeps(&self, value: f64) -> bool {
        match self.bound {
            Bound::Below => value < self.limit,
            Bound::AtMost => value <= self.limit,
            Bound::Above => value > self.limit,
            Bound::AtLeast => value >= self.limit,
        }
    }

    /// The promise in full: `postgres/activation_latency.p99 < 80ms`.
    pub fn describe(&self) -> String {
        format!("{} {} {}", self.metric, self.bound.name(), self.shown)
    }

    /// An error at the metric.
    pub(crate) fn error(&self, message: String) -> Error {
        Error::input(&self.place, message)
    }

    /// The error for a metric that a simulation does not report, with the nearest that it does.
    pub(crate) fn unreported(&self, reported: &[&str]) -> Error {
        let message = format!("the simulation reports no `{}`", self.metric);
        // The promise for a subject is compared with the reported value of the same subject.
        let (subject, metric) = self.metric.rsplit_once('/').unwrap_or(("", &self.metric));
        let split = reported.iter().filter_map(|name| name.rsplit_once('/'));
        let names: Vec<&str> = split
            .filter(|(of, _)| *of == subject)
            .map(|(_, name)| name)
            .collect();
        // `latency.p99` is the lateness of a timer's thread, and typed for what clients wait for.
        let of_clients = metric.strip_prefix("latency.").and_then(|suffix| {
            let order = [Latency::REQUEST, Latency::REPLY, Latency::ACTIVATION];
            let mut meant = order.iter().map(|name| format!("{name}.{suffix}"));
            meant.find(|name| names.contains(&name.as_str()))
        });
        self.error(message).hint(match of_clients {
            Some(meant) => format!("the nearest valid name is `{meant}`"),
            None => hint_for(metric, &names),
        })
    }
}

impl Case<'_> {
    /// How the answer names what is promised.
    pub(crate) fn names(&self) -> Names {
        let job = self.latency.as_ref().filter(|latency| latency.is_job());
        let threads = self.recorded.seen.main_threads(&self.target);
        let subjects = job.map(|job| job.threads.as_str()).into_iter();
        let group = format!("{}{}", metrics::CGROUP, self.target);
        Names {
            own: subjects
                .chain(threads)
                .map(str::to_string)
                .chain([group])
                .collect(),
            promised: self.promises.iter().map(|slo| slo.metric.clone()).collect(),
        }
    }
}

/// A promise that no change of limits can be held against is a slip.
fn refuse_senseless(metric: &Metric<'_>, bound: Bound, place: &Place) -> Result<()> {
    let wrong_way = match metric.better() {
        Better::Lower => !bound.from_above(),
        Better::Higher => bound.from_above(),
        Better::None => false,
    };
    if !wrong_way {
        return Ok(());
    }
    let (word, sign) = match metric.better() {
        Better::Lower => ("lower", "<"),
        _ => ("higher", ">"),
    };
    let message = format!("of `{}` {word} is better", metric.name);
    Err(Error::input(place, message).hint(format!("write {sign}")))
}

/// No figure is below zero, and no latency or time is zero: a promise of that is a slip.
fn refuse_below_all(metric: &Metric<'_>, bound: Bound, limit: f64, place: &Place) -> Result<()> {
    let latencies = [Latency::REQUEST, Latency::REPLY, Latency::ACTIVATION];
    let is_time = metric.name == metrics::TIME;
    let is_duration = is_time || metric.unit() == "us" && latencies.contains(&metric.family.name);
    let (message, hint) = match bound {
        Bound::Below | Bound::AtMost if limit > 0.0 => return Ok(()),
        _ if !bound.from_above() => return Ok(()),
        _ if is_duration => {
            let message = format!("`{}` is more than 0 in every run", metric.name);
            (
                message,
                "a promise names a time that can be kept, such as 80ms",
            )
        }
        Bound::AtMost => return Ok(()),
        _ => (format!("`{}` is never below 0", metric.name), "write <=0"),
    };
    Err(Error::input(place, message).hint(hint))
}

/// The place of a range without the blanks around it.
fn trimmed(source: &Arc<Source>, range: std::ops::Range<usize>) -> Place {
    let text = &source.text[range.clone()];
    let start = range.start + (text.len() - text.trim_start().len());
    Place::new(
        source,
        start..start.max(range.start + text.trim_end().len()),
    )
}

/// Says of a promise about the requests of all clients that it is, where those of `target` are of
/// several kinds: a few reports among many health checks may take any time and keep it.
pub(crate) fn about_all_clients(
    recorded: &Recorded,
    target: &str,
    latency: Option<&Latency>,
    promises: &[Slo],
) -> Option<String> {
    let kinds = recorded.seen.kinds.get(target)?;
    let latency = latency.filter(|latency| latency.name == Latency::REQUEST)?;
    let of_all = |slo: &&Slo| slo.metric.starts_with(&latency.metric(""));
    let slo = promises.iter().find(of_all)?;
    let (_, name) = slo.metric.rsplit_once('/')?;
    let of_kinds = kinds
        .iter()
        .map(|kind| format!("`{}/{name}`", kind.subject));
    Some(format!(
        "`{}` is about the requests of all clients together, of which there are several kinds; \
         promise {} for those of one kind",
        slo.metric,
        of_kinds.collect::<Vec<String>>().join(" or ")
    ))
}

/// `p99`, `activation_latency.p99` and `nr_throttled` to the full names of the scope.
fn complete(name: &str, place: &Place, scope: Scope<'_>) -> Result<String> {
    if let Some((subject, short)) = name.rsplit_once('/') {
        let own = scope.threads == Some(subject);
        let latency = scope.latency.filter(|_| own).unwrap_or(Latency::ACTIVATION);
        let activation = format!("{subject}/{latency}.{short}");
        let is_short = metrics::parse(name).is_none() && metrics::parse(&activation).is_some();
        return Ok(if is_short {
            activation
        } else {
            name.to_string()
        });
    }
    let threads = |metric: String| match scope.threads {
        Some(threads) => Ok(format!("{threads}/{metric}")),
        None => Err(
            Error::input(place, format!("whose `{metric}` is not known"))
                .hint(format!("write it in full: NAME/{metric}")),
        ),
    };
    let latency = scope.latency.unwrap_or(Latency::ACTIVATION);
    let activation = format!("{latency}.{name}");
    if metrics::parse(&format!("x/{activation}")).is_some() {
        return threads(activation);
    }
    if metrics::parse(&format!("x/{name}")).is_some() {
        return threads(name.to_string());
    }
    if metrics::parse(&format!("cgroup:/x/{name}")).is_some() {
        return match scope.cgroup {
            Some(cgroup) => Ok(format!("cgroup:{cgroup}/{name}")),
            None => Err(Error::input(place, format!("the `{name}` of which group?"))
                .hint(format!("write it in full: cgroup:/PATH/{name}"))),
        };
    }
    Err(unknown(name, place))
}

fn unknown(metric: &str, place: &Place) -> Error {
    let name = metric.rsplit_once('/').map_or(metric, |(_, name)| name);
    let mut known = vec!["p50".to_string(), "p95".to_string(), "p99".to_string()];
    known.extend(metrics::short_names());
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let error = Error::input(place, format!("there is no metric `{metric}`"));
    if let Some(told) = metrics::told_in_words(name) {
        return error.hint(format!("tables call `{told}` so"));
    }
    let near = match name == metrics::ANY_LATENCY {
        true => Some("p99"),
        false => schedcast_base::names::nearest(name, known.iter().copied()),
    };
    match near {
        Some(near) => error.hint(format!("the nearest valid name is `{near}`")),
        None => error.hint("`schedcast list metrics` shows all; p99 is short for the target's"),
    }
}

/// Units that values of a metric may be typed in, and what one of them is in the metric's own.
fn units(unit: &str) -> &'static [(&'static str, f64)] {
    match unit {
        "us" => &[("us", 1.0), ("ms", 1e3), ("s", 1e6)],
        "s" => &[("us", 1e-6), ("ms", 1e-3), ("s", 1.0)],
        "ratio" => &[("", 1.0), ("%", 0.01)],
        "W" => &[("W", 1.0), ("", 1.0)],
        "MHz" => &[("MHz", 1.0), ("", 1.0)],
        "MB/s" => &[("MB/s", 1.0), ("", 1.0)],
        "1/s" => &[("", 1.0), ("/s", 1.0)],
        _ => &[("", 1.0)],
    }
}

fn read_value(text: &str, metric: &Metric<'_>, place: &Place) -> Result<f64> {
    let unit = metric.unit();
    let digits_end = text
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(text.len());
    let (digits, typed_unit) = (&text[..digits_end], text[digits_end..].trim());
    let units = units(unit);
    let factor = units.iter().find(|(name, _)| *name == typed_unit);
    let number: Option<f64> = digits.parse().ok();
    match (number, factor) {
        (Some(number), Some((_, factor))) => Ok(number * factor),
        (None, _) => Err(
            Error::input(place, "a promise ends in a number and its unit")
                .hint(format!("such as 80{}", units[units.len() / 2].0)),
        ),
        (Some(_), None) => {
            let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
            let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
            let message = match typed_unit {
                "" => format!("`{text}` has no unit"),
                other => format!("`{other}` is no unit of this metric"),
            };
            if text.contains(',') {
                let hint = "each promise has a --slo of its own";
                return Err(Error::input(place, message).hint(hint));
            }
            Err(Error::input(place, message).hint(match names.as_slice() {
                [] if typed_unit == "%" && metric.name == "nr_throttled" => {
                    "it is a plain count; throttled_ratio is the share of periods".to_string()
                }
                [] => "it is a plain count".to_string(),
                names => format!("write one of {}", names.join(", ")),
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use schedcast_base::assert_contains;
    use schedcast_base::rows;

    use super::*;

    const SCOPE: Scope<'static> = Scope {
        threads: Some("postgres"),
        latency: None,
        cgroup: Some("/pg"),
    };

    fn parsed(text: &str) -> (String, Bound, f64) {
        let slo = Slo::parse(text, SCOPE).unwrap();
        (slo.metric, slo.bound, slo.limit)
    }

    #[test]
    fn short_names_are_completed_and_units_converted() {
        let cases = rows::sections(include_str!("slo.txt"));
        for case in &cases["promises: metric, bound and limit"] {
            let [text, metric, bound, limit] = rows::cells(case);
            let (found, side, value) = parsed(text);
            assert_eq!(
                (found.as_str(), format!("{side:?}").as_str()),
                (metric, bound),
                "{text}"
            );
            assert_eq!(value, limit.parse::<f64>().unwrap(), "{text}");
        }
    }

    /// A broker is held back for 473 ms of 8 s, in 16.8 periods, and is activated once for all that
    /// comes meanwhile.
    #[test]
    fn a_promise_that_names_no_latency_is_about_clients_that_ask_at_any_time() {
        let values = [
            ("postgres/activation_latency.p99", 2_237.0),
            ("postgres/wait.throttled", 0.473),
            ("cgroup:/pg/nr_throttled", 16.8),
        ];
        let run = Outcome {
            metrics: values.map(|(name, value)| (name.into(), value)).into(),
            ..Outcome::default()
        };
        let latency = Latency::new("postgres", Latency::ACTIVATION);
        let asked = AskedAtAnyTime::new("postgres", 1, "/pg");
        let value = |text: &str| {
            let mut slo = Slo::parse(text, SCOPE).unwrap();
            slo.is_about_clients(&latency, &asked);
            slo.value_in(&run, 8_000_000_000).unwrap()
        };
        assert!((value("p99<10ms") - 23_393.0).abs() < 1.0);
        assert_eq!(value("activation_latency.p99<10ms"), 2_237.0);
    }

    #[test]
    fn short_names_mean_what_clients_see_where_that_is_known() {
        let scope = Scope {
            latency: Some(Latency::REQUEST),
            ..SCOPE
        };
        let metric = |text: &str| Slo::parse(text, scope).unwrap().metric;
        assert_eq!(metric("p99<80ms"), "postgres/request_latency.p99");
        assert_eq!(metric("postgres/p99<80ms"), "postgres/request_latency.p99");
        assert_eq!(metric("client/p99<80ms"), "client/activation_latency.p99");
    }

    #[test]
    fn promises_are_kept_on_their_side_of_the_bound() {
        let keeps = |text: &str, value: f64| Slo::parse(text, SCOPE).unwrap().keeps(value);
        assert!(keeps("p99<80ms", 79_999.0) && !keeps("p99<80ms", 80_000.0));
        assert!(keeps("p99<=80ms", 80_000.0) && !keeps("p99<=80ms", 80_001.0));
        assert!(keeps("x/rps>10", 10.5) && !keeps("x/rps>10", 10.0));
        assert!(keeps("x/rps>=10", 10.0));
    }

    #[test]
    fn mistakes_are_shown_at_their_place() {
        let error = |text: &str| Slo::parse(text, SCOPE).unwrap_err().to_string();
        for case in &rows::sections(include_str!("slo.txt"))["mistakes"] {
            let [text, message] = rows::cells(case);
            assert_eq!(error(text), message, "{text}");
        }
        let nobody = Slo::parse("p99<80ms", Scope::default()).unwrap_err();
        assert_contains(&nobody, "NAME/activation_latency.p99");
    }

    #[test]
    fn metrics_that_are_not_reported_name_the_nearest_that_are() {
        let slo = Slo::parse("p98<80ms", SCOPE).unwrap();
        let reported = [
            "postgres/activation_latency.p95",
            "postgres/activation_latency.p99",
            "machine/wakeups",
        ];
        let error = slo.unreported(&reported).to_string();
        assert_eq!(
            error,
            "--slo:1:1: the simulation reports no `postgres/activation_latency.p98` \
             (the nearest valid name is `activation_latency.p95`)"
        );
    }

    #[test]
    fn a_rate_names_what_counts_instead() {
        let refuse = |text: &str| {
            Slo::parse(text, SCOPE)
                .unwrap()
                .refuse_rate("reply_latency")
        };
        for text in ["rps>30", "requests_per_s>=30/s", "web/tps>3"] {
            let error = refuse(text).unwrap_err().to_string();
            assert_contains(
                &error,
                [
                    "--slo:1:1: a recording reports no rates",
                    "`reply_latency.count`",
                ],
            );
        }
        assert!(refuse("p99<80ms").is_ok() && refuse("nr_throttled<=1").is_ok());
    }

    #[test]
    fn a_latency_without_its_kind_is_that_of_clients() {
        let slo = Slo::parse("latency.p99<80ms", SCOPE).unwrap();
        let reported = [
            "postgres/turn_latency.p99",
            "postgres/activation_latency.p99",
            "postgres/request_latency.p99",
        ];
        let hint = |reported: &[&str]| slo.unreported(reported).to_string();
        assert_contains(hint(&reported), "is `request_latency.p99`");
        assert_contains(hint(&reported[..2]), "is `activation_latency.p99`");
    }

    #[test]
    fn a_missing_number_is_shown_with_a_unit_of_the_metric() {
        for (text, shown) in [
            ("p99<fast", "such as 80ms"),
            ("nr_throttled<few", "such as 80"),
            ("requests_per_s>much", "such as 80/s"),
            ("machine/busy_ratio<half", "such as 80%"),
        ] {
            let error = Slo::parse(text, SCOPE).unwrap_err().render();
            let hint = error.lines().find(|line| line.contains("such as"));
            assert!(hint.is_some_and(|hint| hint.ends_with(shown)), "{error}");
        }
    }
}
