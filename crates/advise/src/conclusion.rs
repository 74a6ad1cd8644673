//! The conclusion of an advice in one word.
//!
//! Worked example: a service without a limit keeps `p95<80ms` at 39 ms on average, and at 104 ms in
//! one run of twenty. No option suits for certain and one does on average, which is
//! [`Conclusion::NotCertain`]. At 82 ms on average it is [`Conclusion::NotKept`], also where some
//! limit has 79 ms: more CPU time slows no service down, so these 3 ms are noise of the seeds, and
//! the limit is not what breaks the promise. Of a promise about others that says nothing.

use serde::Serialize;

use schedcast_base::limits::CpuLimits;
use schedcast_lab::clients::{self, ClosedLoop};
use schedcast_lab::context::RefitFigure;
use schedcast_lab::drift::Drifting;
use schedcast_lab::error::Result;
use schedcast_lab::experiment::Scenario;
use schedcast_lab::metrics;
use schedcast_lab::recording::Latency;
use schedcast_lab::simulate::Simulate;
use schedcast_lab::trust;

use crate::judge::{self, Forecast};
use crate::search::Bench;
use crate::slo::Slo;
use crate::{Candidate, Case};

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// A limit is recommended.
    Recommended,
    /// Limits that keep the promises cost the neighbours more than allowed.
    TooDear,
    /// The promises are kept without a limit, and under none.
    OnlyWithoutLimit,
    /// No limit, or its absence, keeps the promises for certain; some keep them on average, in some
    /// runs, or if clients keep a schedule.
    NotCertain,
    /// Not even without a limit of its own does the group keep its promises on average.
    NotKept,
}

/// Why a limit does not suit although its own forecasts keep the promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The option of this name grants at least as much, and is not certain to keep them.
    By(String),
    /// It helps only clients that keep a schedule, and the recording does not show whether they do.
    Schedule,
}

impl Candidate {
    /// Whether it keeps the promises only if clients keep a schedule, and nothing tells.
    pub fn needs_schedule(&self) -> bool {
        self.doubt == Some(Doubt::Schedule)
    }
}

impl Conclusion {
    /// The conclusion from `options` for `promises`, of which `is_own` are about the group itself.
    pub(crate) fn of(
        recommended: bool,
        options: &[Candidate],
        promises: &[Slo],
        is_own: impl Fn(&Slo) -> bool,
    ) -> Conclusion {
        let keeps_up = || {
            options
                .iter()
                .filter(|option| option.falls_behind.is_none())
        };
        let met = |option: &Candidate| option.forecasts.iter().all(|forecast| forecast.met);
        let on_average =
            |option: &Candidate| judge::are_kept_on_average(promises, &option.forecasts);
        let maybe = |option: &Candidate| judge::may_be_kept(promises, &option.forecasts);
        // More CPU time slows no group down: what is broken without a limit is not broken by one.
        let breaks_unlimited = |option: &Candidate| {
            let mut pairs = promises.iter().zip(&option.forecasts);
            let is_broken = |slo: &Slo, one: &Forecast| is_own(slo) && !one.is_kept_on_average(slo);
            option.limit.quota_us.is_none() && pairs.any(|(slo, one)| is_broken(slo, one))
        };
        if recommended {
            Conclusion::Recommended
        } else if keeps_up().any(|option| met(option) && !option.suits) {
            Conclusion::TooDear
        } else if options.iter().any(|option| option.suits) {
            match options.iter().any(Candidate::needs_schedule) {
                true => Conclusion::NotCertain,
                false => Conclusion::OnlyWithoutLimit,
            }
        } else if options.iter().any(breaks_unlimited) {
            Conclusion::NotKept
        } else if keeps_up().any(|option| on_average(option) || maybe(option)) {
            Conclusion::NotCertain
        } else {
            Conclusion::NotKept
        }
    }
}

impl Case<'_> {
    /// Why the recording does not tell what the group would do under another limit. Known requests
    /// do not tell it where throttling is promised and clients ask when they are answered: under a
    /// wider limit they ask more often, and the recorded requests are over before the run ends.
    ///
    /// Worked example: four connections filled 20 ms in 100. Under 52 ms the recorded requests are
    /// throttled in no period of a replay; measured were 40 and 49 % of the periods.
    pub(crate) fn saturated(&self, fit: &[RefitFigure]) -> Option<String> {
        let known = self.recorded.seen.closed_loops.get(&self.target);
        let throttling = |slo: &Slo| metrics::group_of(&slo.metric).is_some();
        let asks_more = matches!(known, Some(ClosedLoop::Yes(_)));
        let is_open = !asks_more || !self.promises.iter().any(throttling);
        trust::saturated(fit, self.latency.as_ref().filter(|_| is_open))
    }
}

/// Whether `limit` grants less than the recorded one in the long run. Where nothing is certain, no
/// such limit is named: who follows it makes worse what is not kept for certain now.
pub(crate) fn is_tighter(limit: CpuLimits, recorded: CpuLimits) -> bool {
    recorded.quota_us.is_some() && limit.grants() < recorded.grants()
}

/// The smallest of `options`, whose first is the recorded limit, that keeps `promises` on average
/// and is not tighter than that; one that the owner of `target` can write before all others.
pub(crate) fn kept_on_average<'a>(
    options: &'a [Candidate],
    promises: &[Slo],
    target: &str,
) -> Option<&'a Candidate> {
    let recorded = options.first()?.limit;
    let kept = options.iter().filter(|option| {
        let is_kept = judge::are_kept_on_average(promises, &option.forecasts);
        is_kept && option.falls_behind.is_none() && !is_tighter(option.limit, recorded)
    });
    kept.min_by_key(|option| {
        (
            option.limit.quota_us.is_none(),
            option.cost(target, recorded),
        )
    })
}

/// Why the service does not keep up without a limit, where the means of all promises keep them
/// there: then that decided, and no value of the table.
pub(crate) fn behind_without_limit<'a>(
    options: &'a [Candidate],
    promises: &[Slo],
) -> Option<&'a str> {
    let mut options = options.iter();
    let unlimited = options.find(|option| option.limit.quota_us.is_none())?;
    let why = unlimited.falls_behind.as_deref()?;
    judge::are_kept_on_average(promises, &unlimited.forecasts).then_some(why)
}

/// Makes an option certain no more where another one that grants at least as much, such as no
/// limit, is not, but keeps the promises on average: what little lies between them is noise of the
/// seeds. One that breaks them on average differs for a reason, such as a promise of others.
///
/// Worked example: of a p95 below 156 ms a burst of 18 ms was certain with 155.2 ms in 95 of 100
/// runs, and no limit was not with 158.5 ms.
pub(crate) fn doubt(promises: &[Slo], options: &mut [Candidate]) {
    let is_weak = |option: &&Candidate| {
        let is_certain = option.forecasts.iter().all(|one| one.met);
        !is_certain && judge::are_kept_on_average(promises, &option.forecasts)
    };
    let weak: Vec<Candidate> = options.iter().filter(is_weak).cloned().collect();
    for option in options.iter_mut().filter(|option| option.suits) {
        let covers = |weak: &&Candidate| weak.limit.covers(option.limit);
        let Some(weak) = weak.iter().find(covers) else {
            continue;
        };
        option.suits = false;
        option.doubt = Some(Doubt::By(weak.name.clone()));
        for (own, theirs) in option.forecasts.iter_mut().zip(&weak.forecasts) {
            own.met &= theirs.met;
        }
    }
}

/// Makes limits suit no more that grant more than the recorded one, which breaks a promise about
/// what clients wait for, and help only clients that keep a schedule, where the recording does not
/// tell whether they do. `scenarios` are those of the `options`. Returns why, a sentence on each.
///
/// # Errors
/// Refusals by the simulation.
pub(crate) fn doubt_schedules<S: Simulate, F: Fn() + Sync>(
    case: &Case<'_>,
    bench: &Bench<'_, S, F>,
    scenarios: &[Scenario],
    options: &mut [Candidate],
) -> Result<Vec<String>> {
    let Some((recorded, others)) = options.split_first_mut() else {
        return Ok(Vec::new());
    };
    if recorded.suits {
        return Ok(Vec::new());
    }
    let mut told = Vec::new();
    for (option, scenario) in others.iter_mut().zip(&scenarios[1..]) {
        if !option.suits || option.limit.quota_us.is_none() {
            continue;
        }
        let pair = [&scenarios[0], scenario];
        if let Some(why) = refute_schedule(case, &bench.drifting, pair, &mut option.forecasts)? {
            option.suits = false;
            option.doubt = Some(Doubt::Schedule);
            told.push(format!("{why} (`--client open` or `closed` says which)"));
        }
    }
    Ok(told)
}

/// Latencies that may rest on a schedule of clients: that of all clients, and that of each kind
/// without a bound of the requests under way.
fn scheduled(case: &Case<'_>) -> Vec<Latency> {
    let kinds = case.recorded.seen.kinds.get(&case.target);
    let kinds = kinds.into_iter().flatten();
    let kinds = kinds.filter(|kind| kind.is_unbound());
    let of_kinds = kinds.map(|kind| Latency::new(&kind.subject, Latency::REQUEST));
    case.latency.iter().cloned().chain(of_kinds).collect()
}

/// Refutes the forecasts of what clients wait for under the limit of the second of two scenarios,
/// where it helps only clients that keep a schedule and nothing tells whether they do. Returns why.
///
/// # Errors
/// Refusals by the simulation.
pub(crate) fn refute_schedule(
    case: &Case<'_>,
    drifting: &Drifting<'_, impl Simulate>,
    pair: [&Scenario; 2],
    forecasts: &mut [Forecast],
) -> Result<Option<String>> {
    let known = case.recorded.seen.closed_loops.get(&case.target);
    let (seeds, simulator) = (drifting.seeds, drifting.simulator);
    let mut told = None;
    for latency in scheduled(case) {
        let begin = format!("{}/{}.", latency.threads, latency.name);
        let is_about_it = |slo: &Slo| slo.metric.starts_with(&begin);
        if !case.promises.iter().any(is_about_it) {
            continue;
        }
        let Some(why) = clients::only_in_open_loop(pair, (known, &latency), seeds, simulator)?
        else {
            continue;
        };
        let pairs = case.promises.iter().zip(forecasts.iter_mut());
        for (_, forecast) in pairs.filter(|(slo, _)| is_about_it(slo)) {
            (forecast.met, forecast.refuted) = (false, true);
        }
        told.get_or_insert(why);
    }
    Ok(told)
}
