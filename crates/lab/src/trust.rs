//! Whether an answer from a recording deserves trust: how well the recorded limit, simulated, fits
//! the recording.
//!
//! The bands are those of "How far to trust a forecast" (`docs/validity.md`), in which forecasts of
//! recorded services were found. A figure that misses them even for the recorded limit is a poor
//! fit: other limits will not be forecast better.
//!
//! Worked example: the recording shows 102 throttled periods and a p95 of 100 ms. 80 periods
//! (−22 %) and 129 ms (+29 %) are within the bands of 25 and 30 %; 131 ms are a poor fit.

use crate::context::{RefitFigure, moved_apart_by};
use crate::experiment::units::format_duration_ns;
use crate::metrics;
use crate::metrics::scale::scale_for;
use crate::recording::Latency;
use schedcast_base::groups::is_within;
use schedcast_workload::replay::Rare;

/// How far a figure may be off.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Band {
    /// As a share of what was recorded.
    share: f64,
    /// Or by so much, whatever the share; for throttled time by so many throttled periods of
    /// average length.
    count: f64,
}

impl Band {
    /// Band of a metric by its name without the subject. `docs/validity.md` has the numbers.
    fn of(name: &str) -> Band {
        let (share, count) = match name.rsplit('.').next().unwrap_or(name) {
            "p50" | metrics::COUNT => (0.10, 3.0),
            "nr_periods" | "nr_throttled" | "throttled_usec" => (0.25, 3.0),
            "p95" => (0.30, 0.0),
            _ => (0.50, 0.0),
        };
        Band { share, count }
    }
}

/// Whether a figure of the re-simulated recording misses its band. `all` are the figures of that
/// recording.
fn is_poor(fit: &RefitFigure, all: &[RefitFigure]) -> bool {
    let name = fit.metric.rsplit('/').next().unwrap_or("");
    let counts = metrics::parse(&fit.metric).is_some_and(|metric| metric.unit() == "count");
    let band = Band::of(name);
    let missed = (fit.judged() - fit.seen).abs();
    let one = match throttled_period(fit, all) {
        Some(usec) => usec,
        None => f64::from(u8::from(counts)),
    };
    missed > band.share * fit.seen && missed > band.count * one
}

/// How long a throttled period was throttled on average, if `fit` is a group's throttled time: in
/// the simulation where that has more, else in the recording.
///
/// Three periods more or fewer are within the band, so their time must be, too: that of simulated
/// periods where they come on top, that of recorded ones where they are missing. Worked example:
/// 5 ms in 3 throttled periods were recorded, 12 ms in 2.5 simulated. Three periods of 4.8 ms more
/// are 14.4 ms, so that these 7 ms are no poor fit.
fn throttled_period(fit: &RefitFigure, all: &[RefitFigure]) -> Option<f64> {
    let group = fit.metric.strip_suffix("throttled_usec")?;
    let periods = all
        .iter()
        .find(|one| one.metric.strip_suffix("nr_throttled") == Some(group))?;
    let (usec, number) = match fit.judged() > fit.seen {
        true => (fit.judged(), periods.judged()),
        false => (fit.seen, periods.seen),
    };
    (number > 0.0).then(|| usec / number)
}

/// Whether a figure is of activations of threads whose requests are known. The replay cuts an
/// activation that sends several replies at these replies, so that its activations are shorter than
/// the recorded ones, and no measure of the fit.
fn is_cut(one: &RefitFigure, fit: &[RefitFigure]) -> bool {
    let (threads, metric) = one.metric.rsplit_once('/').unwrap_or_default();
    let p50 = format!("{threads}/{}.p50", Latency::REQUEST);
    metric.starts_with(Latency::ACTIVATION) && fit.iter().any(|one| one.metric == p50)
}

/// Whether a figure of `fit` measures it, and its row is a forecast: activations that the replay
/// cuts do not.
pub fn measures_fit(one: &RefitFigure, fit: &[RefitFigure]) -> bool {
    !is_cut(one, fit)
}

/// The figures that measure the fit.
fn comparable(fit: &[RefitFigure]) -> impl Iterator<Item = &RefitFigure> {
    fit.iter().filter(|one| measures_fit(one, fit))
}

/// The figures that miss their bands and are no measure of the fit, although their rows are shown.
pub(crate) fn poor_beside(fit: &[RefitFigure]) -> Vec<&RefitFigure> {
    let cut = fit.iter().filter(|one| is_cut(one, fit));
    cut.filter(|one| is_poor(one, fit)).collect()
}

/// The figures that miss their bands.
pub(crate) fn poor(fit: &[RefitFigure]) -> Vec<&RefitFigure> {
    comparable(fit).filter(|one| is_poor(one, fit)).collect()
}

/// By which factor the worst of them is off; 1 where there are none.
fn worst<'a>(figures: impl IntoIterator<Item = &'a RefitFigure>) -> f64 {
    let ratios = figures.into_iter().filter_map(RefitFigure::ratio);
    ratios.fold(1.0, f64::max)
}

/// Threads or group of a metric.
fn subject(metric: &str) -> Option<&str> {
    metric.rsplit_once('/').map(|(subject, _)| subject)
}

/// Figures of the recorded run that are missed when it is simulated again.
pub struct Misses<'a> {
    fit: &'a [RefitFigure],
    poor: Vec<&'a RefitFigure>,
}

impl<'a> Misses<'a> {
    /// Those of `fit`.
    pub fn of(fit: &'a [RefitFigure]) -> Self {
        let poor = poor(fit);
        Self { fit, poor }
    }

    /// Whether the row of `metric` is a forecast: recorded activations that the replay cuts, and
    /// misses, are none.
    pub(crate) fn is_forecast(&self, metric: &str) -> bool {
        let own = self.own(metric);
        own.is_none_or(|own| !(is_cut(own, self.fit) && is_poor(own, self.fit)))
    }

    /// The interval of one run of `metric`, moved apart by what is missed of it, for under another
    /// limit that may be the other way, and at least by the worst miss of a figure
    /// [outside its band](poor) of the same threads or group and the same unit.
    ///
    /// Worked example: a p95 of 102 ms was recorded and 17.8 ms simulated, 5.7 times less. Then a
    /// p95 of 17.7 ms, 12.4 to 23.1, under another limit may as well be 2.2 to 132 ms.
    pub(crate) fn moved_apart(&self, interval: [f64; 2], metric: &str) -> [f64; 2] {
        self.moved_apart_at_least(interval, metric, worst(self.poor_like(metric)))
    }

    /// The same for a promise, which must hold: at least by the worst miss of any figure outside
    /// its band that is not about another kind of clients.
    pub fn moved_apart_by_any(&self, interval: [f64; 2], metric: &str) -> [f64; 2] {
        self.moved_apart_at_least(interval, metric, self.poorest_factor(metric))
    }

    fn moved_apart_at_least(&self, interval: [f64; 2], metric: &str, least: f64) -> [f64; 2] {
        match self.own(metric) {
            Some(own) => own.moved_apart(interval, least),
            None => moved_apart_by(interval, least),
        }
    }

    /// Whether `metric` misses its band, or another one of the same threads or group and the same
    /// unit does.
    pub(crate) fn are_of(&self, metric: &str) -> bool {
        let own = self.own(metric);
        own.is_some_and(|own| is_poor(own, self.fit)) || self.poor_like(metric).next().is_some()
    }

    /// By which factor the worst of the figures that miss their bands is off, without those of
    /// other kinds of clients than that of `metric`; 1 where none does.
    fn poorest_factor(&self, metric: &str) -> f64 {
        let poor = self.poor.iter().copied();
        worst(poor.filter(|one| !one.is_of_kind() || subject(&one.metric) == subject(metric)))
    }

    fn own(&self, metric: &str) -> Option<&'a RefitFigure> {
        self.fit.iter().find(|one| one.metric == metric)
    }

    /// The figures outside their bands that are of the same threads or group as `metric` and have
    /// its unit: how many requests finish is no less sure for their latencies.
    fn poor_like(&self, metric: &str) -> impl Iterator<Item = &'a RefitFigure> {
        let unit = |name: &str| metrics::parse(name).map(|metric| metric.unit());
        self.poor.iter().copied().filter(move |one| {
            let [one_subject, subject] = [&one.metric, metric].map(subject);
            one_subject == subject && unit(&one.metric) == unit(metric)
        })
    }
}

/// The figures that refuse an advice if they miss their bands: how much finishes, how often and for
/// how long the limit stops it, and of what is promised the `misjudged`. A miss of any other figure
/// is told and widens the promises, but refuses no advice; one of the number of activations
/// neither, because where threads wait for each other one request is several of them, now more and
/// now fewer; nor one of what a kind of clients is answered, of which all are the sum.
pub fn decisive(fit: &[RefitFigure], misjudged: &[&str]) -> Vec<RefitFigure> {
    let stops = |name: &str| {
        let finished = name.ends_with(metrics::COUNT) && !name.contains(Latency::ACTIVATION);
        finished || name.ends_with("nr_throttled") || name.ends_with("throttled_usec")
    };
    let decisive = fit.iter().filter(|one| {
        !one.is_of_kind() && stops(&one.metric) || misjudged.contains(&one.metric.as_str())
    });
    decisive.cloned().collect()
}

/// The figures without those of groups that `target` is not in: what an advice about it stands on.
pub(crate) fn on_the_way(fit: &[RefitFigure], target: &str) -> Vec<RefitFigure> {
    let is_on_it = |one: &&RefitFigure| {
        let group = metrics::group_of(&one.metric);
        group.is_none_or(|path| is_within(target, path))
    };
    fit.iter().filter(is_on_it).cloned().collect()
}

/// So many periods tell whether a limit was always used up.
const PERIODS_MIN: f64 = 10.0;
/// Share of the recorded periods in which the limit stopped a group that it never lets catch up.
const SATURATED: f64 = 0.95;

/// Why a recording does not tell what its group would do with more CPU time: the limit stopped it
/// in nearly every period, and `latency` is not that of requests, which arrive whatever the limit
/// is. What its threads did not get to is not in the recording.
///
/// Worked example: two endless loops under 30 ms in 100 ms were stopped in 50 of 50 periods and
/// used 1.5 s. Without the limit they use 10 s, of which the recording shows nothing.
pub fn saturated(fit: &[RefitFigure], latency: Option<&Latency>) -> Option<String> {
    // The target's figures stand first.
    let counts = fit.iter().find_map(|one| {
        let group = one.metric.strip_suffix("nr_throttled")?;
        Some((group, one.seen)).filter(|_| group.starts_with(metrics::CGROUP))
    });
    let (group, stopped) = counts?;
    let periods = fit
        .iter()
        .find(|one| one.metric.strip_suffix("nr_periods") == Some(group));
    let periods = periods?.seen;
    let requests_are_known = latency.is_some_and(Latency::is_seen_by_clients);
    let always = periods >= PERIODS_MIN && stopped >= SATURATED * periods;
    (always && !requests_are_known).then(|| {
        format!(
            "the limit stopped the group in {stopped:.0} of {periods:.0} periods, so that the \
             recording does not show how much it would do with more CPU time"
        )
    })
}

/// The recordings that would show it.
pub const UNSATURATED: &str = "record it without a limit, or under one that it does not fill";

/// The figures that miss their bands, in words; `None` where all are within.
pub fn poor_fit(fit: &[RefitFigure]) -> Option<String> {
    in_words(&poor(fit), fit)
}

/// `figures` of `fit` in words; `None` where there are none.
fn in_words(figures: &[&RefitFigure], fit: &[RefitFigure]) -> Option<String> {
    let part = |one: &RefitFigure| {
        let metric = metrics::parse(&one.metric)?;
        let scale = scale_for(&metric, one.predicted.abs().max(one.seen.abs()));
        let unit = if scale.unit.is_empty() { "" } else { " " };
        Some(format!(
            "{} {} simulated, {}{unit}{} {}",
            one.shown_among(fit, &metric),
            scale.small_number(one.predicted),
            scale.small_number(one.seen),
            scale.unit,
            one.source()
        ))
    };
    let parts: Vec<String> = figures.iter().copied().filter_map(part).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Warnings that a reader needs before the numbers, a sentence each. `logged`: requests in the log
/// beside the trace.
pub(crate) fn warnings(
    fit: &[RefitFigure],
    latency: Option<&Latency>,
    logged: usize,
) -> Vec<String> {
    let poor = poor_fit(fit).map(|figures| {
        format!(
            "the simulation of the recorded limit misses the recording ({figures}), so that other limits are not forecast \
             better"
        )
    });
    let beside = in_words(&poor_beside(fit), fit).map(|figures| {
        format!(
            "the simulation of the recorded limit misses the recorded activations ({figures}): a replay \
             ends them at replies, so that these rows are no forecast of them"
        )
    });
    let filled = saturated(fit, latency).map(|why| {
        format!(
            "{why}: under another limit its work, throttling and latencies may be several times \
             larger or smaller than forecast; {UNSATURATED}"
        )
    });
    let server = latency.filter(|one| matches!(one.name, Latency::REPLY | Latency::ACTIVATION));
    let server = server.map(|latency| {
        let threads = &latency.threads;
        let log = match logged {
            0 => "a log of the requests beside it would (docs/formats/requests.md)".to_string(),
            _ => format!(
                "the log of {logged} requests beside it is not used: fewer than four in five of its \
                 answers come when these threads have run and slept again, because it is of another \
                 service or because they hardly ever sleep"
            ),
        };
        let what = match latency.is_seen_by_clients() {
            true => format!(
                "latencies are those from a message to `{threads}` until they reply, without network, \
                 retries and queues before them, such as that of a broker which hands them jobs"
            ),
            false => format!(
                "latencies are those of the threads `{threads}` on the CPU of the server, without \
                 network, queues before it and retries. All that comes while a limit holds them back \
                 counts once; a promise of a percentile assumes that clients ask at any time"
            ),
        };
        format!("the recording does not show all that clients wait for: {what}; {log}")
    });
    let all = filled.into_iter().chain(poor).chain(beside);
    all.chain(server).collect()
}

/// Warning about rare work: who does it, how much there was, and how much may come.
pub(crate) fn told(rare: &Rare) -> String {
    let ms = |ns: u64| format_duration_ns(ns / 100_000 * 100_000);
    let (one, more) = (rare.threads.iter().take(NAMED), rare.threads.len());
    let mut names: Vec<String> = one.map(|name| format!("`{name}`")).collect();
    if more > NAMED {
        names.push(format!("{} others", more - NAMED));
    }
    format!(
        "threads that take no part in most requests ({}) used {} of CPU time in the {} from their start to the recording, and {} \
         in it; intervals of runs to come, and limits that are advised, leave room for {} more in one piece. If that was the \
         start of a process, record again when it has run for longer",
        names.join(", "),
        ms(rare.used_ns),
        format_duration_ns(rare.age_ns / 100_000_000 * 100_000_000),
        ms(rare.shown_ns),
        ms(rare.piece_ns)
    )
}

/// So many threads are named.
const NAMED: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_are_those_of_the_page() {
        let page = include_str!("../../../docs/validity.md");
        assert!(page.contains("throttled periods (±25 %), p50 (±10 %) and p95 (±30 %)"));
        let poor = |metric: &str, predicted, seen| {
            is_poor(&RefitFigure::new(metric, predicted, seen), &[])
        };
        assert!(!poor("cgroup:/pg/nr_throttled", 80.0, 102.0));
        assert!(poor("cgroup:/pg/nr_throttled", 70.0, 102.0));
        assert!(
            !poor("cgroup:/pg/nr_throttled", 4.0, 2.0),
            "two periods more"
        );
        assert!(!poor("pg/request_latency.p95", 129e3, 100e3));
        assert!(poor("pg/request_latency.p95", 131e3, 100e3));
        assert!(poor("pg/request_latency.p50", 11.2, 10.0));
        assert!(poor("pg/request_latency.count", 900.0, 1100.0));
    }

    #[test]
    fn where_chance_decides_when_periods_end_the_recorded_run_is_one_of_the_draws() {
        let drawn = |seen| RefitFigure {
            chance: Some([40.0, 120.0]),
            ..RefitFigure::new("cgroup:/pg/nr_throttled", 80.0, seen)
        };
        assert!(!is_poor(&drawn(115.0), &[]), "80 would miss 115 by 30 %");
        assert!(!is_poor(&drawn(150.0), &[]), "120 is 20 % below");
        assert!(is_poor(&drawn(200.0), &[]));
        assert_eq!(
            Misses::of(&[drawn(240.0)]).poorest_factor("pg/request_latency.p95"),
            2.0
        );
    }

    #[test]
    fn throttled_time_may_be_off_by_as_many_periods_as_their_number() {
        let poor = |periods: [f64; 2], usec: [f64; 2]| {
            let [number, time] = [("nr_throttled", periods), ("throttled_usec", usec)].map(
                |(name, [predicted, seen])| {
                    RefitFigure::new(format!("cgroup:/pg/{name}"), predicted, seen)
                },
            );
            is_poor(&time.clone(), &[number, time])
        };
        assert!(!poor([5.0, 3.0], [27e3, 13e3]), "2.6 of 5.4 ms more");
        assert!(poor([5.0, 3.0], [40e3, 13e3]), "3.4 of 8 ms more");
        assert!(!poor([2.5, 3.0], [12e3, 5e3]), "1.5 of 4.8 ms more");
        assert!(poor([2.5, 30.0], [12e3, 50e3]), "22.8 of 1.7 ms fewer");
        assert!(poor([100.0, 100.0], [130e3, 100e3]), "30 % more");
        assert!(!poor([2.0, 0.0], [9e3, 0.0]), "two periods where none was");
        assert!(poor([4.0, 0.0], [9e3, 0.0]), "four periods where none was");
    }

    #[test]
    fn a_poor_fit_is_told_with_its_figures_and_widens_by_the_worst() {
        let good = RefitFigure::new("pg/request_latency.p50", 10.0, 10.0);
        let bad = RefitFigure::new("pg/request_latency.p95", 40_000.0, 100_000.0);
        assert_eq!(poor_fit(std::slice::from_ref(&good)), None);
        assert_eq!(
            Misses::of(std::slice::from_ref(&good)).poorest_factor("pg/request_latency.p95"),
            1.0
        );
        let both = [good, bad];
        assert_eq!(
            Misses::of(&both).poorest_factor("pg/request_latency.p95"),
            2.5
        );
        assert_eq!(
            poor_fit(&both).unwrap(),
            "request_latency.p95 40.0 simulated, 100.0 ms recorded"
        );
        assert_eq!(warnings(&both, None, 0).len(), 1);
    }

    #[test]
    fn a_poor_fit_widens_what_is_told_of_the_same_threads() {
        let off = [
            RefitFigure::new("pg/request_latency.p95", 20.0, 100.0),
            RefitFigure::new("pg/request_latency.p50", 10.0, 10.0),
            RefitFigure::new("cgroup:/pg/nr_throttled", 0.0, 8.0),
        ];
        let moved = |metric: &str| Misses::of(&off).moved_apart([10.0, 30.0], metric);
        assert_eq!(moved("pg/request_latency.p95"), [2.0, 150.0]);
        assert_eq!(moved("pg/request_latency.p50"), [2.0, 150.0]);
        assert_eq!(moved("cgroup:/pg/nr_throttled"), [2.0, 38.0]);
        for other in [
            "other/request_latency.p95",
            "pg/request_latency.count",
            "machine/busy_ratio",
        ] {
            assert_eq!(moved(other), [10.0, 30.0]);
        }
    }

    /// 80 ms were recorded and 100 simulated, which is within the band of a p95.
    #[test]
    fn a_miss_inside_its_band_moves_the_ends_of_its_own_figure() {
        let fit = [RefitFigure::new("pg/request_latency.p95", 100.0, 80.0)];
        let moved = |metric: &str| Misses::of(&fit).moved_apart([10.0, 30.0], metric);
        assert_eq!(moved("pg/request_latency.p95"), [8.0, 37.5]);
        assert_eq!(moved("pg/request_latency.p50"), [10.0, 30.0]);
    }

    #[test]
    fn activations_that_the_replay_cuts_at_replies_say_nothing_about_the_fit() {
        let cut = RefitFigure::new("/a:nginx/activation_latency.p95", 283.0, 1782.0);
        let of_others = RefitFigure::new("/a:nginx/request_latency.p50", 10.0, 10.0);
        let requests = [cut.clone(), of_others];
        assert_eq!(
            Misses::of(&requests).poorest_factor("pg/request_latency.p95"),
            1.0
        );
        assert_eq!(poor_fit(&requests), None);
        let told = warnings(&requests, None, 0);
        assert!(
            told.len() == 1
                && told[0].contains("misses the recorded activations (activation_latency.p95 "),
            "the row is shown all the same: {told:?}"
        );
        let misses = Misses::of(&requests);
        assert!(!misses.is_forecast("/a:nginx/activation_latency.p95"));
        assert!(
            misses.is_forecast("/a:nginx/activation_latency.p50"),
            "not missed"
        );
        assert!(misses.is_forecast("/a:nginx/request_latency.p50"));
        let elsewhere = [
            cut,
            RefitFigure::new("/b:nginx/request_latency.p50", 10.0, 10.0),
        ];
        assert!(Misses::of(&elsewhere).poorest_factor("pg/request_latency.p95") > 6.0);
        assert!(poor_fit(&elsewhere).is_some());
    }

    #[test]
    fn an_advice_stands_on_what_is_promised_and_on_how_often_the_limit_stops() {
        let all = [
            "pg/request_latency.p50",
            "pg/request_latency.p95",
            "pg/request_latency.count",
            "pg/activation_latency.count",
            "cgroup:/pg/nr_throttled",
            "cgroup:/pg/throttled_usec",
        ]
        .map(|metric| RefitFigure::new(metric, 1.0, 1.0));
        let decisive = decisive(&all, &["pg/request_latency.p95"]);
        let names: Vec<&str> = decisive.iter().map(|one| one.metric.as_str()).collect();
        let (left_out_p50, left_out_activations) = (&all[0].metric, &all[3].metric);
        assert_eq!(names.len(), 4, "{names:?}");
        assert!(!names.contains(&left_out_p50.as_str()));
        assert!(!names.contains(&left_out_activations.as_str()));
    }

    /// A parent that is off and a sibling that is: both are named, and the sibling decides nothing.
    #[test]
    fn groups_around_are_named_and_only_those_above_decide() {
        let all = [
            RefitFigure::new("cgroup:/a/web/nr_throttled", 80.0, 80.0),
            RefitFigure::new("cgroup:/a/nr_throttled", 80.0, 40.0),
            RefitFigure::new("cgroup:/a/bat/nr_throttled", 10.0, 90.0),
        ];
        let told = poor_fit(&all).unwrap();
        assert_eq!(
            told,
            "cgroup:/a/nr_throttled 80.0 simulated, 40.0 recorded; \
             cgroup:/a/bat/nr_throttled 10.0 simulated, 90.0 recorded"
        );
        let way = on_the_way(&all, "/a/web");
        assert_eq!(way, all[..2]);
        assert_eq!(poor(&way).len(), 1);
    }

    #[test]
    fn a_limit_that_always_stops_hides_what_the_group_would_do() {
        let saturated = |stopped, periods, name| {
            let of_group = [("nr_throttled", stopped), ("nr_periods", periods)];
            let fit = of_group
                .map(|(name, seen)| RefitFigure::new(format!("cgroup:/b/{name}"), seen, seen));
            saturated(&fit, Some(&Latency::new("stress-ng-cpu", name))).is_some()
        };
        assert!(saturated(50.0, 50.0, Latency::ACTIVATION));
        assert!(saturated(48.0, 50.0, Latency::ACTIVATION));
        assert!(!saturated(47.0, 50.0, Latency::ACTIVATION), "it caught up");
        assert!(
            !saturated(9.0, 9.0, Latency::ACTIVATION),
            "too short to tell"
        );
        assert!(
            !saturated(50.0, 50.0, Latency::REQUEST),
            "they arrive anyway"
        );
    }

    /// One of few values of a kind of clients says nothing of the requests of another.
    #[test]
    fn a_kind_of_clients_moves_no_promise_about_others() {
        let of_kind = RefitFigure::new("pg from psql/request_latency.p99", 260_000.0, 14_000.0);
        let misses = [of_kind];
        let factor = |metric: &str| Misses::of(&misses).poorest_factor(metric);
        assert_eq!(factor("pg from pgbench/request_latency.p95"), 1.0);
        assert_eq!(factor("pg/request_latency.p95"), 1.0);
        assert!(factor("pg from psql/request_latency.p95") > 18.0);
        let counted = RefitFigure::new("pg from psql/request_latency.count", 10.0, 30.0);
        assert!(decisive(&[counted], &[]).is_empty());
    }

    #[test]
    fn time_on_the_server_alone_is_said_to_be_that() {
        let told = |name, logged| warnings(&[], Some(&Latency::new("redis", name)), logged);
        let without = &told(Latency::ACTIVATION, 0)[0];
        assert!(without.contains("`redis`") && without.contains("a log of the requests"));
        assert!(told(Latency::ACTIVATION, 812)[0].contains("the log of 812 requests"));
        assert!(told(Latency::REPLY, 0)[0].contains("broker"));
        assert!(told(Latency::REQUEST, 0).is_empty());
    }
}
