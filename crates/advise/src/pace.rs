//! Whether the service keeps up under a limit, whatever is promised.
//!
//! A limit that starves the service finishes few requests, and those may well be fast. So a limit
//! suits only if
//!
//! * it grants at least the CPU time that the service used on average while it was recorded;
//! * as many requests finish as were recorded, or as finish when the recorded limit is simulated if
//!   those are fewer;
//! * the number of requests that wait does not grow from the begin to half of the run and from
//!   there to its end.
//!
//! Numbers of requests are compared as counts are: two of them, a and b, differ by chance by 1.96 ·
//! √(a + b) at most, in 95 of 100 cases (the standard deviation of a Poisson count is its root).
//! Worked example: 1168 requests were recorded, 2 of them wait at the end. Under a tighter limit
//! 1161 finish and 9 wait: 7 fewer, allowed are 1.96 · √(2 + 9) = 6.5, so the limit does not suit.
//! The difference between seeds under the recorded limit is allowed too.
//!
//! Of a job only the first of these is asked, and not even that where its time is promised: how
//! long it may take is then said by the promise.

use super::Case;
use schedcast_base::groups::is_within;
use schedcast_base::limits::CpuLimits;
use schedcast_lab::backlog::Backlog;
use schedcast_lab::drift::Runs;
use schedcast_lab::metrics;
use schedcast_lab::outcome::Outcome;
use schedcast_lab::recording::Latency;
use schedcast_lab::statistics::{NORMAL_QUANTILE, standard_deviation};

/// Requests of the service under one limit, means over seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Requests {
    /// Finished.
    pub finished: f64,
    /// Standard deviation of that over seeds.
    pub deviation: f64,
    /// Not finished at the end.
    pub unfinished: f64,
    /// Not finished at half the time.
    pub halfway: f64,
}

impl Requests {
    /// Requests timed by `latency` in `outcomes`.
    pub fn of(outcomes: &[Outcome], latency: &Latency) -> Requests {
        let values = |suffix: &str| -> Vec<f64> {
            let metric = latency.metric(suffix);
            let value = |run: &Outcome| run.metrics.get(&metric).copied().unwrap_or(0.0);
            outcomes.iter().map(value).collect()
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let finished = values(metrics::COUNT);
        Requests {
            finished: mean(&finished),
            deviation: standard_deviation(&finished),
            unfinished: mean(&values(metrics::UNFINISHED)),
            halfway: mean(&values(metrics::HALFWAY)),
        }
    }
}

/// Need of the service.
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    /// The latency that clients see, or what comes nearest to it.
    pub latency: Latency,
    /// CPUs' worth of time that it used on average.
    pub cpus: f64,
    /// Requests under the recorded limit: those recorded, or those simulated if they are fewer;
    /// `None` of a job, which may be late.
    pub recorded: Option<Requests>,
}

/// Words behind what only runs with drift show.
const WITH_DRIFT: &str = ", where work drifts as it did in the recording";

impl Need {
    /// Why the service does not keep up under `limit` in the hardest of `runs`; said of those with
    /// drift where it does keep up without.
    pub(crate) fn why_behind(&self, limit: CpuLimits, runs: &Runs) -> Option<String> {
        let behind = |runs: &[Outcome]| {
            let requests = Requests::of(runs, &self.latency);
            self.falls_behind(limit, &requests)
        };
        let why = behind(runs.hardest())?;
        let only_with_drift = !runs.drifted.is_empty() && behind(&runs.plain).is_none();
        Some(if only_with_drift {
            why + WITH_DRIFT
        } else {
            why
        })
    }

    /// Why the service does not keep up under `limit`, as a part of a sentence; `None` if it does.
    pub(crate) fn falls_behind(&self, limit: CpuLimits, requests: &Requests) -> Option<String> {
        let what = self.latency.counted();
        if let Some(cpus) = limit.cpus()
            && cpus < self.cpus
        {
            let used = self.cpus;
            let who = match self.recorded {
                Some(_) => "service",
                None => "job",
            };
            return Some(format!(
                "it grants {cpus:.2} CPU, the {who} used {used:.2} on average"
            ));
        }
        let recorded = self.recorded.as_ref()?;
        let missing = recorded.finished - requests.finished;
        let chance = recorded.unfinished + requests.unfinished + recorded.deviation.powi(2);
        if missing > NORMAL_QUANTILE * chance.sqrt() {
            return Some(format!(
                "{:.0} of {:.0} {what} finish",
                requests.finished, recorded.finished
            ));
        }
        let backlog = Backlog {
            halfway: requests.halfway,
            end: requests.unfinished,
        };
        if backlog.grows() {
            let Backlog { halfway, end } = backlog;
            return Some(format!(
                "the backlog grows: {halfway:.0} {what} wait at half the time, {end:.0} at the end"
            ));
        }
        None
    }
}

impl Case<'_> {
    /// Need of the service, from the recording and from `outcomes` under the recorded `limit`,
    /// which cover the `whole` of it or a part. `None` where the service has no threads.
    pub(crate) fn need(&self, outcomes: &[Outcome], limit: CpuLimits, whole: bool) -> Option<Need> {
        let seen = &self.recorded.seen;
        let latency = self.latency.clone()?;
        // The ends of a recording may cut one period more than fits, so it can show a little more
        // than was granted.
        let used = seen.mean_cpus(&self.target, self.working_ns());
        let cpus = used.min(limit.cpus().unwrap_or(f64::INFINITY));
        if latency.is_job() {
            // A job that takes longer is late, and not behind. How late it may be is said by a
            // promise of its time, or else nowhere.
            let time = latency.metric("p50");
            let may_be_late = self.promises.iter().any(|slo| slo.metric == time);
            return Some(Need {
                cpus: if may_be_late { 0.0 } else { cpus },
                latency: seen.thread_latency(&self.target)?,
                recorded: None,
            });
        }
        let mut recorded = Requests::of(outcomes, &latency);
        if let Some(count) = seen.finished(&latency).filter(|_| whole) {
            recorded.finished = recorded.finished.min(count as f64);
        }
        Some(Need {
            cpus,
            latency,
            recorded: Some(recorded),
        })
    }

    /// Time in which the group did its work, ns: that of its job where it has one alone, else the
    /// whole recording.
    fn working_ns(&self) -> u64 {
        let jobs = self.recorded.seen.figures.iter().flat_map(|all| &all.jobs);
        let own = jobs.filter(|job| is_within(&job.path, &self.target));
        let lengths: Vec<u64> = own.map(|job| job.length_ns).collect();
        let is_job = self.latency.as_ref().is_some_and(Latency::is_job);
        match lengths[..] {
            [only] if is_job => only,
            _ => self.recorded.length_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need() -> Need {
        Need {
            latency: Latency::new("pg", Latency::REQUEST),
            cpus: 0.4,
            recorded: Some(Requests {
                finished: 1168.0,
                unfinished: 2.0,
                ..Requests::default()
            }),
        }
    }

    fn quota(quota_us: u64) -> CpuLimits {
        CpuLimits::new(quota_us, 100_000, 0)
    }

    fn requests(finished: f64, unfinished: f64, halfway: f64) -> Requests {
        Requests {
            finished,
            deviation: 0.0,
            unfinished,
            halfway,
        }
    }

    #[test]
    fn a_limit_below_the_mean_demand_never_keeps_up() {
        let all = requests(1168.0, 2.0, 2.0);
        let why = need().falls_behind(quota(39_000), &all).unwrap();
        assert_eq!(why, "it grants 0.39 CPU, the service used 0.40 on average");
        assert_eq!(need().falls_behind(quota(40_000), &all), None);
    }

    #[test]
    fn fewer_requests_than_recorded_are_allowed_as_far_as_counts_vary() {
        let why = |finished, unfinished| {
            need().falls_behind(quota(50_000), &requests(finished, unfinished, 2.0))
        };
        assert_eq!(why(1162.0, 9.0), None);
        assert_eq!(why(1161.0, 9.0).unwrap(), "1161 of 1168 requests finish");
        let mut drifting = need();
        drifting.recorded.as_mut().unwrap().deviation = 10.0;
        let fewer = requests(1161.0, 9.0, 2.0);
        assert_eq!(drifting.falls_behind(quota(50_000), &fewer), None);
    }

    /// A stranger's `xz` used 0.6 CPU for 3.7 s; under the 0.05 CPU that it was advised to it took
    /// 55 s.
    #[test]
    fn a_job_may_be_late_and_not_starve() {
        let job = Need {
            latency: Latency::new("xz", Latency::ACTIVATION),
            cpus: 0.6,
            recorded: None,
        };
        let none = requests(0.0, 9.0, 3.0);
        let why = job.falls_behind(quota(5_000), &none).unwrap();
        assert_eq!(why, "it grants 0.05 CPU, the job used 0.60 on average");
        assert_eq!(job.falls_behind(quota(60_000), &none), None);
    }

    /// All 1168 requests finish where no work drifts, and the table shows that.
    #[test]
    fn what_only_drift_brings_is_said_to_be_that() {
        let runs = |finished: f64| {
            let metric = |suffix: &str| need().latency.metric(suffix);
            let metrics = [(metric("count"), finished), (metric("unfinished"), 0.0)];
            vec![Outcome {
                metrics: metrics.into(),
                ..Outcome::default()
            }]
        };
        let why = |plain: f64, drifted: f64| {
            let runs = Runs {
                plain: runs(plain),
                drifted: runs(drifted),
            };
            need().why_behind(quota(50_000), &runs)
        };
        let told = why(1168.0, 900.0).unwrap();
        assert_eq!(told, format!("900 of 1168 requests finish{WITH_DRIFT}"));
        assert_eq!(why(900.0, 900.0).unwrap(), "900 of 1168 requests finish");
        assert_eq!(why(1168.0, 1168.0), None);
    }

    #[test]
    fn a_backlog_that_grows_through_the_whole_run_does_not_suit() {
        let why =
            |halfway, end| need().falls_behind(quota(50_000), &requests(1168.0, end, halfway));
        assert!(why(30.0, 60.0).unwrap().contains("backlog grows: 30"));
        assert_eq!(why(0.0, 60.0), None, "a burst at the end is no trend");
        assert_eq!(why(60.0, 62.0), None);
    }
}
