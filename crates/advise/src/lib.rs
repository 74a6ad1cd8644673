//! Advice: the smallest limit under which a recorded service keeps its promises, and who pays for
//! it.
//!
//! ```text
//! recording, --slo ──► slo: what is promised
//!                          │
//!                      search: smallest quota · smallest burst · best period · no limit
//!                          │      each tried by simulation under the same seeds   judge: kept for sure?
//!                          ▼
//!                      price: the neighbour that loses most
//!                          ▼
//!                      Advice ──► ticket (tables::advice), patches for every tool, JSON
//! ```
//!
//! Worked example: `recordings/postgres-quota` has 50 ms in 100 ms and a p95 of 101 ms. For
//! `p95<40ms` 62 ms of quota suffice, or 37 ms of burst beside the recorded quota, or 230 ms in
//! every 500 ms. Burst is recommended: in the long run the group is granted no more CPU time than
//! before, and the period stays.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use schedcast_base::groups::is_within;
use schedcast_lab::answer;
use schedcast_lab::clients;
use schedcast_lab::comparison::Comparison;
use schedcast_lab::context::{Context, RefitFigure};
use schedcast_lab::error::{Error, Result, hint_for};
use schedcast_lab::experiment::Scenario;
use schedcast_lab::experiment::units::format_duration_ns;
use schedcast_lab::metrics;
use schedcast_lab::question::{AS_RECORDED, Question, Subject};
use schedcast_lab::recording::{Latency, Recorded};
use schedcast_lab::resimulated::{bound_ns, is_partial, refit, tell_fit};
use schedcast_lab::simulate::{Simulate, run_all};
use schedcast_lab::trust;
use schedcast_lab::verdict::{periods_throttled, time_lost};

mod conclusion;
pub mod counters;
pub mod fleet;
pub mod frontier;
pub mod gate;
pub mod judge;
pub mod pace;
pub mod price;
mod recommendation;
pub mod search;
pub mod slo;

pub use conclusion::{Conclusion, Doubt};
pub use recommendation::{Recommendation, read_recommendation};

use conclusion::{behind_without_limit, doubt, doubt_schedules, is_tighter, kept_on_average};
use judge::Forecast;
use price::Price;
use schedcast_base::limits::CpuLimits;
use schedcast_lab::drift::{self, Drifting};
use schedcast_lab::patches::{self, Patches};
use search::{Bench, PERIODS_US};
use slo::{Scope, Slo};

/// Name and version of the JSON form.
pub(crate) const SCHEMA: &str = "schedcast.advice/1";

/// Demands that a limit must meet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demands {
    /// Promises as typed: `p99<80ms`.
    pub slos: Vec<String>,
    /// How much worse a neighbour may become, as typed: `+5%`.
    pub max_neighbour: Option<String>,
    /// Whether to advise even if the recorded limit, simulated, misses the recording.
    pub force: bool,
}

/// One limit that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Name of its column.
    pub name: String,
    /// The limit.
    #[serde(flatten)]
    pub limit: CpuLimits,
    /// Whether it keeps every promise, the service keeps up, and its price can be paid.
    pub suits: bool,
    /// Why the service does not keep up with its requests; null where it does. Such a limit suits
    /// no promise.
    pub falls_behind: Option<String>,
    /// Why it does not suit although its own forecasts keep the promises.
    #[serde(skip)]
    pub doubt: Option<Doubt>,
    /// Requests that finish, or activations where no requests are known.
    pub finished: f64,
    /// One for each promise.
    pub forecasts: Vec<Forecast>,
    /// The neighbour that loses most; null for the recorded limit, or without neighbours.
    pub price: Option<Price>,
    /// Share of the wish to run that throttling denied to the group's threads.
    pub time_lost: f64,
    /// Share of the active periods that ended throttled.
    pub periods_throttled: f64,
    /// The most of it in 95 of 100 runs.
    #[serde(default)]
    pub periods_throttled_at_most: f64,
}

impl Candidate {
    /// Sort key of suitable limits, best first: before all others those that the owner of `target`
    /// can write; a changed period comes last, because in many places the period is a setting of
    /// the whole node; then CPU time granted in the long run, then burst.
    fn cost(&self, target: &str, recorded: CpuLimits) -> (bool, bool, (u64, u64)) {
        let limit = self.limit;
        let can_be_written = limit == recorded || patches::can_be_written(target, recorded, limit);
        (
            !can_be_written,
            self.limit.period_us != recorded.period_us,
            limit.grants(),
        )
    }
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Always `schedcast.advice/1`.
    pub schema: String,
    /// Version of the program that computed this.
    pub schedcast: String,
    /// Folder of the recording.
    pub recording: String,
    /// The group that is advised about.
    pub target: String,
    /// The promises in full.
    pub slos: Vec<String>,
    /// Unit of finished work: `requests`, `replies`, or `activations` where the recording shows
    /// neither.
    pub counted: &'static str,
    /// How much worse a neighbour may become, as a ratio − 1; null if that is no matter.
    pub max_neighbour: Option<f64>,
    /// Name of the recommended option; null if none suits.
    pub recommended: Option<String>,
    /// The answer in one word.
    pub conclusion: Conclusion,
    /// Candidates that were examined: first the recorded limit, last none at all.
    pub options: Vec<Candidate>,
    /// The recommended limit for every tool; null if none suits.
    pub patches: Option<Patches>,
    /// The options in full.
    pub comparison: Comparison,
    /// Facts that stand around the table.
    #[serde(skip)]
    pub context: Context,
    #[serde(skip)]
    /// Promises to keep.
    pub promises: Vec<Slo>,
    /// Groups around the target, by name or path, whose own limits stay, whatever limit the target
    /// has.
    #[serde(skip)]
    pub bounded_by: Vec<String>,
    /// There are neighbours, whether or not they can be judged.
    #[serde(skip)]
    pub has_neighbours: bool,
    /// Requests are answered in an order that the recorded limit made, which no other one changes.
    #[serde(skip)]
    pub keeps_order: bool,
    /// The nearest group above the target that has a limit, by name or path, and its limit.
    #[serde(skip)]
    pub parent: Option<(String, CpuLimits)>,
}

impl Advice {
    /// The recommended option.
    pub fn recommendation(&self) -> Option<&Candidate> {
        let name = self.recommended.as_ref()?;
        self.options.iter().find(|option| option.name == *name)
    }

    /// The option with the smallest limit, without one if none has any, whose means keep the
    /// promises; none that grants less than the recorded limit.
    pub fn kept_on_average(&self) -> Option<&Candidate> {
        kept_on_average(&self.options, &self.promises, &self.target)
    }

    /// Why the service does not keep up without a limit, where the promises are kept there on
    /// average.
    pub fn behind_without_limit(&self) -> Option<&str> {
        behind_without_limit(&self.options, &self.promises)
    }

    /// As indented JSON, ending in a newline.
    pub fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self);
        json.expect("keys are strings and numbers are finite or null") + "\n"
    }
}

/// A question about a recording, taken apart.
pub(crate) struct Case<'a> {
    pub recorded: &'a Recorded,
    pub target: String,
    pub promises: Vec<Slo>,
    /// The latency that the promises are about where they name none.
    pub latency: Option<Latency>,
    /// Warning that this is another one than the recording shows.
    pub note: Option<String>,
}

impl<'a> Case<'a> {
    pub(crate) fn of(
        question: &'a Question,
        slos: &[String],
        baseline: &Scenario,
    ) -> Result<Case<'a>> {
        let Subject::Recording(recorded) = &question.subject else {
            return Err(Error::usage("promises are about a recording"));
        };
        let Some(target) = question.target()? else {
            let groups: Vec<&str> = baseline.cgroups.keys().map(String::as_str).collect();
            return Err(
                Error::usage("it is not clear which group's limits are in question")
                    .hint(format!("name it with --cgroup: {}", groups.join(", "))),
            );
        };
        if !baseline.cgroups.contains_key(&target) {
            let groups: Vec<&str> = baseline.cgroups.keys().map(String::as_str).collect();
            let message = format!("the recording has no cgroup `{target}`");
            return Err(Error::general(message).hint(hint_for(&target, &groups)));
        }
        if let Some(why) = recorded.seen.idle(&target) {
            return Err(Error::general(why));
        }
        if recorded.seen.main_threads(&target).is_none() {
            let groups: Vec<&str> = recorded.seen.members.keys().map(String::as_str).collect();
            let message = format!("no thread of `{target}` ran in the recording");
            return Err(Error::general(message).hint(hint_for(&target, &groups)));
        }
        let latency = recorded.seen.latency(&target);
        if slos.iter().all(|text| text.trim().is_empty()) {
            let hint = how_to_promise(recorded, latency.as_ref());
            return Err(Error::usage("nothing is promised").hint(hint));
        }
        let job = latency.as_ref().filter(|latency| latency.is_job());
        let of_threads = recorded.seen.thread_latency(&target);
        // `time` is that of a job, everything else is about the threads that do its work.
        let scope = |text: &str| {
            let job = job.filter(|_| text.trim_start().starts_with(metrics::TIME));
            let kinds = recorded.seen.kinds.get(&target).into_iter().flatten();
            let mut subjects = kinds.map(|kind| kind.subject.as_str());
            let is_its = |subject: &&str| {
                let behind = text.trim_start().strip_prefix(subject);
                behind.is_some_and(|behind| behind.starts_with('/'))
            };
            Scope {
                threads: match (job, subjects.find(is_its)) {
                    (Some(job), _) => Some(job.threads.as_str()),
                    (None, Some(subject)) => Some(subject),
                    (None, None) => recorded.seen.main_threads(&target),
                },
                latency: of_threads.as_ref().map(|one| one.name),
                cgroup: Some(&target),
            }
        };
        let promises = slos.iter().map(|text| Slo::parse(text, scope(text)));
        let mut promises: Vec<Slo> = promises.collect::<Result<_>>()?;
        if let Some((latency, asked)) = of_threads.zip(recorded.seen.asked_at_any_time(&target)) {
            for slo in &mut promises {
                slo.is_about_clients(&latency, &asked);
            }
        }
        let finished = latency.as_ref().map_or(Latency::ACTIVATION, |one| one.name);
        promises
            .iter()
            .try_for_each(|slo| slo.refuse_rate(finished))?;
        let unused = recorded.seen.unused_log;
        let busy = latency
            .as_ref()
            .filter(|latency| latency.name != Latency::REQUEST && unused > 0);
        if let Some(busy) = busy
            && let Some(slo) = promises.iter().find(|slo| slo.is_taken_for(busy))
        {
            let message = format!(
                "the log beside the recording has {unused} requests, and `{target}` answers none \
                 of them itself: what their clients wait for is not forecast"
            );
            return Err(slo.error(message).hint(format!(
                "record the group that answers the clients, or promise what the threads need once \
                 they have the work: {}",
                slo.metric
            )));
        }
        let note = slo::about_all_clients(recorded, &target, latency.as_ref(), &promises);
        Ok(Case {
            recorded,
            promises,
            target,
            latency,
            note,
        })
    }

    /// Puts the recorded values beside `comparison`, with warnings about what is promised: where
    /// all promises are about groups, a poor fit of latencies and what clients wait for are beside
    /// it.
    pub(crate) fn tell_fit(
        &self,
        comparison: &mut Comparison,
        (fit, whole): (&[RefitFigure], bool),
    ) {
        let of_group = |metric: &str| metrics::group_of(metric).is_some();
        let all = !self.promises.iter().all(|slo| of_group(&slo.metric));
        let told = fit.iter().filter(|one| all || of_group(&one.metric));
        let told: Vec<RefitFigure> = told.cloned().collect();
        let target = all.then_some(self.target.as_str());
        tell_fit(comparison, (&told, whole), self.recorded, target);
    }

    /// Takes activations for replies where the recording shows replies and a run of `baseline`
    /// reports none: a replay loses those between threads that it does not bring together.
    ///
    /// # Errors
    /// Refusals by the simulation.
    pub(crate) fn settle(&mut self, baseline: &Scenario, simulator: &impl Simulate) -> Result<()> {
        let Some(latency) = self.latency.clone() else {
            return Ok(());
        };
        let taken = |slo: &Slo| slo.is_taken_for(&latency);
        if latency.name != Latency::REPLY || !self.promises.iter().any(taken) {
            return Ok(());
        }
        let runs = run_all(simulator, std::slice::from_ref(baseline), 1, &|| {})?;
        let counted = latency.metric(metrics::COUNT);
        if runs
            .iter()
            .flatten()
            .any(|run| run.metrics.contains_key(&counted))
        {
            return Ok(());
        }
        let activation = Latency::new(&latency.threads, Latency::ACTIVATION);
        for slo in self.promises.iter_mut().filter(|slo| taken(slo)) {
            slo.metric = slo.metric.replacen(latency.name, activation.name, 1);
        }
        self.note = Some(format!(
            "the recording shows replies of `{}`, and its simulation none: promises that name no \
             latency are about the time that these threads are busy, {}",
            latency.threads, activation.name
        ));
        self.latency = Some(activation);
        Ok(())
    }

    /// Refuses promises that runs cannot be held against, before any runs: about what none of them
    /// reports, or with one seed, which has no interval.
    pub(crate) fn refuse_unknown(
        &self,
        baseline: &Scenario,
        seeds: u32,
        simulator: &impl Simulate,
    ) -> Result<()> {
        judge::refuse_few(seeds as usize)?;
        let Some(simulator) = simulator.simulator() else {
            return Ok(());
        };
        let baseline = std::slice::from_ref(baseline);
        let mut promises = self.promises.iter();
        promises.try_for_each(|slo| slo.refuse_unknown(baseline, simulator))
    }
}

/// Refuses promises that cannot be read, before anything runs.
///
/// # Errors
/// No promise, no group that they are about, or a slip in one of them.
pub fn refuse_slips(question: &Question, slos: &[String]) -> Result<()> {
    let experiment = question.experiment()?;
    Case::of(question, slos, &experiment.scenarios[0]).map(drop)
}

/// A promise to begin with, and the figures of the recording that tell which one makes sense.
fn how_to_promise(recorded: &Recorded, latency: Option<&Latency>) -> String {
    if let Some(job) = latency.filter(|latency| latency.is_job()) {
        let took = recorded.seen.figures.iter().flat_map(|one| &one.jobs);
        let took = took.filter(|one| one.name == job.threads);
        let longest_ns = took.map(|one| one.length_ns).max().unwrap_or(0);
        let promise = round_promise(longest_ns);
        return format!(
            "say what must hold, such as --slo '{}<{promise}'; {} took {:.3} s in the recording",
            job.name,
            job.threads,
            longest_ns as f64 / 1e9
        );
    }
    let shown = latency.and_then(|latency| Some((latency, recorded.seen.quantiles(latency)?)));
    let Some((latency, shown)) = shown.filter(|(_, shown)| shown.count > 0) else {
        return "say what must hold, such as --slo 'p99<80ms'".to_string();
    };
    let values = [
        ("p50", shown.p50_ns),
        ("p95", shown.p95_ns),
        ("p99", shown.p99_ns),
    ];
    let values = values.map(|(name, ns)| format!("{name} {:.3} ms", ns as f64 / 1e6));
    let (threads, name) = (&latency.threads, latency.name);
    format!(
        "say what must hold, such as --slo 'p95<{}'; {threads}/{name} is recorded with {}, and \
         `schedcast what-if` with `--set cpu.max=max` tells what it would be without a limit",
        round_promise(shown.p95_ns),
        values.join(", ")
    )
}

/// The next number of one digit above what was recorded, as a promise: 113.303 ms is `200ms`, 1.9
/// ms is `2ms`.
fn round_promise(recorded_ns: u64) -> String {
    let digit = 10u64.pow(recorded_ns.max(1).ilog10());
    format_duration_ns((recorded_ns / digit + 1) * digit)
}

/// Searches for limits that keep the promises. `question` is about a recording and has no columns
/// of its own; `step` is called when a part of the search begins, `finished` after each run, from
/// any thread.
///
/// # Errors
/// Promises that cannot be read or are not about anything the simulation reports; what the
/// simulation refuses.
pub fn advise(
    question: &Question,
    demands: &Demands,
    simulator: &impl Simulate,
    (step, finished): (&dyn Fn(Step), &(impl Fn() + Sync)),
) -> Result<Advice> {
    let experiment = question.experiment()?;
    let baseline = &experiment.scenarios[0];
    let mut case = Case::of(question, &demands.slos, baseline)?;
    case.settle(baseline, simulator)?;
    case.refuse_unknown(baseline, experiment.seeds, simulator)?;
    let most = demands.max_neighbour.as_deref().map(price::read_most);
    let most = most.transpose()?;
    let (target, seeds) = (case.target.as_str(), experiment.seeds);
    let drifting = Drifting::of(case.recorded, target, simulator, seeds);
    let mut bench = Bench::new(drifting, finished, baseline, target, &case.promises);
    bench.run_ns = bound_ns(&experiment, case.recorded);
    let recorded = baseline.limits_of(target);
    step(Step {
        name: "the recorded limit",
        runs: bench.runs_of_a_limit() + u64::from(seeds),
        // Upper bound of the runs to come: so many for each of a quota, a burst and a period, and
        // once without a limit.
        total: bench.runs_of_a_limit() * (2 + search_limits(&bench, recorded)) + u64::from(seeds),
    });
    let runs = bench.runs(recorded)?.clone();
    for slo in &case.promises {
        judge::refuse_unreported(slo, &runs.plain)?;
        if !demands.force {
            let hint = "; --force advises all the same";
            judge::refuse_few_values(slo, &runs.plain, hint)?;
        }
    }
    let whole = !is_partial(&experiment, case.recorded);
    bench.need = case.need(runs.hardest(), recorded, whole);
    let fit = refit(case.recorded, target, &experiment, simulator, finished)?;
    bench.fit = judge::with_shares(fit, &case.promises);
    let misjudged = case.promises.iter();
    let misjudged: Vec<&str> = misjudged
        .filter(|slo| judge::is_misjudged(slo, &bench.fit))
        .map(|slo| slo.metric.as_str())
        .collect();
    if let Some(why) = case.saturated(&bench.fit).filter(|_| !demands.force) {
        let hint = format!("{}; --force advises all the same", trust::UNSATURATED);
        return Err(Error::general(format!("no advice: {why}")).hint(hint));
    }
    let decisive = trust::decisive(&bench.fit, &misjudged);
    if let Some(figures) = trust::poor_fit(&decisive).filter(|_| !demands.force) {
        let message =
            format!("no advice: the recorded limit, simulated, misses the recording: {figures}");
        let known = case.recorded.seen.closed_loops.get(target);
        let clients = match clients::are_assumed(&experiment.scenarios[0], known) {
            true => "; `--client closed` says that clients ask when they are answered",
            false => "",
        };
        let hint = "record the busiest half minute you can get; --force advises all the same";
        return Err(Error::general(message).hint(format!("{hint}{clients}")));
    }
    let limits = look_for(&mut bench, recorded, step)?;
    build(question, &case, &mut bench, &limits, most)
}

/// Part of a search that begins.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Goal of the search.
    pub name: &'static str,
    /// Most runs that it takes.
    pub runs: u64,
    /// Most runs of the whole search; nonzero in the first step only.
    pub total: u64,
}

/// Most bursts that a bisection over a hundred steps tries, and the next larger one.
const BURSTS_TRIED: u64 = 9;

/// Most limits that a search tries besides the recorded one.
fn search_limits<S: Simulate, F: Fn() + Sync>(bench: &Bench<'_, S, F>, recorded: CpuLimits) -> u64 {
    3 * bench.most_tried(recorded.period_us) + BURSTS_TRIED + PERIODS_US.len() as u64
}

/// Named limits worth a column; the recorded one is first.
fn look_for<S: Simulate, F: Fn() + Sync>(
    bench: &mut Bench<'_, S, F>,
    recorded: CpuLimits,
    step: &dyn Fn(Step),
) -> Result<Vec<(String, CpuLimits)>> {
    let runs_of_a_limit = bench.runs_of_a_limit();
    let tell = |name: &'static str, limits: u64| {
        step(Step {
            name,
            runs: limits * runs_of_a_limit,
            total: 0,
        });
    };
    let quotas = bench.most_tried(recorded.period_us);
    let ms = |us: u64| format_duration_ns(us * 1000);
    let mut limits = vec![(AS_RECORDED.to_string(), recorded)];
    let mut add = |name: String, limit: CpuLimits| {
        if !limits.iter().any(|(_, known)| *known == limit) {
            limits.push((name, limit));
        }
    };
    let none = CpuLimits {
        quota_us: None,
        ..recorded
    };
    // First, so that no limit is certain where not even its absence is.
    tell("no limit", 1);
    bench.runs(none)?;
    tell("the smallest quota", quotas);
    let quota = bench.smallest_quota(recorded.period_us, recorded.burst_us)?;
    if let Some(limit) = quota {
        add(format!("quota {}", ms(limit.quota_us.unwrap_or(0))), limit);
    }
    tell("the smallest burst", BURSTS_TRIED);
    let burst = bench.smallest_burst(recorded)?;
    // Where no burst suffices, the largest shows how far it goes.
    if let Some(limit) = burst.or(bench.largest_burst(recorded)) {
        add(format!("burst {}", ms(limit.burst_us)), limit);
    }
    let cpus = recorded.cpus().or(quota.and_then(|limit| limit.cpus()));
    tell("the best period", quotas + PERIODS_US.len() as u64);
    let period = cpus.map(|cpus| bench.best_period(cpus)).transpose()?;
    if let Some(limit) = period.flatten() {
        let (quota, period) = (ms(limit.quota_us.unwrap_or(0)), ms(limit.period_us));
        add(format!("{quota} in {period}"), limit);
    }
    // What keeps the promises on average only is worth a column where nothing keeps them for
    // certain.
    if quota.is_none() && !bench.keeps(none)? {
        bench.on_average = true;
        let quota = bench.smallest_quota(recorded.period_us, recorded.burst_us)?;
        bench.on_average = false;
        if let Some(limit) = quota.filter(|limit| !is_tighter(*limit, recorded)) {
            add(format!("quota {}", ms(limit.quota_us.unwrap_or(0))), limit);
        }
    }
    add("no limit".to_string(), none);
    Ok(limits)
}

fn build<S: Simulate, F: Fn() + Sync>(
    question: &Question,
    case: &Case<'_>,
    bench: &mut Bench<'_, S, F>,
    limits: &[(String, CpuLimits)],
    most: Option<f64>,
) -> Result<Advice> {
    let target = case.target.as_str();
    let mut scenarios = Vec::new();
    let mut runs = Vec::new();
    let mut judged = Vec::new();
    for (name, limit) in limits {
        scenarios.push(bench.baseline.with_limits(target, *limit, name));
        runs.push(bench.runs(*limit)?.clone());
        judged.push((bench.forecasts(*limit)?, bench.pace(*limit)?));
    }
    let mut comparison = drift::compared("", &scenarios, &runs)?;
    comparison.tier = Some(case.recorded.tier);
    comparison.cut_to_possible(&scenarios, bench.run_ns);
    let whole = bench.run_ns >= case.recorded.length_ns;
    case.tell_fit(&mut comparison, (&bench.fit, whole));
    comparison.warnings.extend(case.note.clone());
    let members = case.recorded.seen.members.get(target);
    let members = members.cloned().unwrap_or_default();
    let length_s = case.recorded.length_ns as f64 / 1e9;
    let brief = &case.recorded.seen.brief;
    let has_neighbours = price::has_neighbours(&comparison.variants[0], &members);
    let watched = price::watched(&comparison.variants[0], &members, brief, length_s);
    let mut options = Vec::new();
    for (index, ((name, limit), judged)) in limits.iter().zip(judged).enumerate() {
        let (forecasts, (requests, falls_behind)) = judged;
        let variant = &comparison.variants[index];
        let price = match index {
            0 => None,
            _ => price::highest(&comparison, variant, &watched),
        };
        let affordable = match (&price, most) {
            (Some(price), Some(most)) => price.growth <= most,
            _ => true,
        };
        options.push(Candidate {
            name: name.clone(),
            limit: *limit,
            suits: affordable && falls_behind.is_none() && forecasts.iter().all(|one| one.met),
            falls_behind,
            doubt: None,
            finished: requests.finished,
            forecasts,
            price,
            time_lost: time_lost(variant, &members),
            periods_throttled: periods_throttled(variant, target),
            periods_throttled_at_most: bench.throttled_at_most(*limit)?,
        });
    }
    doubt(&case.promises, &mut options);
    let only_in_open_loop = doubt_schedules(case, bench, &scenarios, &mut options)?;
    comparison.warnings.extend(only_in_open_loop);
    keep_told(&mut comparison, target, &members, &options);
    let recorded = limits[0].1;
    // To take a limit away is no advice about limits: the neighbours have no say in it.
    let suitable = options
        .iter()
        .enumerate()
        .filter(|(index, option)| option.suits && (*index == 0 || option.limit.quota_us.is_some()));
    let suitable = suitable.map(|(_, option)| option);
    let best = suitable.min_by_key(|option| option.cost(target, recorded));
    let is_own = |slo: &Slo| slo.is_about(target, &members);
    let mut context = answer::context(question, &question.experiment()?)?;
    context.fit = bench.fit.clone();
    context.names = case.names();
    let label = |path: String| case.recorded.label(&path).unwrap_or(path);
    Ok(Advice {
        schema: SCHEMA.to_string(),
        schedcast: env!("CARGO_PKG_VERSION").to_string(),
        recording: case.recorded.folder.clone(),
        target: target.to_string(),
        slos: case.promises.iter().map(Slo::describe).collect(),
        counted: bench
            .need
            .as_ref()
            .map_or("activations", |need| need.latency.counted()),
        max_neighbour: most,
        recommended: best.map(|option| option.name.clone()),
        conclusion: Conclusion::of(best.is_some(), &options, &case.promises, is_own),
        patches: best.map(|option| {
            let shares = bench.baseline.cgroups[target].shares();
            patches::patches(target, recorded, option.limit, shares)
        }),
        options,
        comparison,
        context,
        promises: case.promises.clone(),
        has_neighbours,
        keeps_order: case.recorded.seen.kept_order.contains_key(target),
        parent: bench
            .baseline
            .limits_above(target)
            .map(|(path, limit)| (label(path.to_string()), limit)),
        bounded_by: search::bounds_of(bench.baseline, target)
            .into_iter()
            .map(label)
            .collect(),
    })
}

/// Leaves of `comparison` the metrics of the target, of groups around it, of the machine and of the
/// threads that pay: a node has thousands of others, and none of them is told.
fn keep_told(comparison: &mut Comparison, target: &str, members: &[String], options: &[Candidate]) {
    let payers = options.iter().filter_map(|option| option.price.as_ref());
    let payers: BTreeSet<&str> = payers.map(|price| price.threads.as_str()).collect();
    let is_told = |subject: &str| match subject.strip_prefix(metrics::CGROUP) {
        Some(path) => is_within(path, target) || is_within(target, path),
        None => {
            subject == "machine"
                || payers.contains(subject)
                || members.iter().any(|member| member == subject)
        }
    };
    for variant in &mut comparison.variants {
        variant
            .metrics
            .retain(|(name, _)| metrics::parse(name).is_some_and(|metric| is_told(metric.subject)));
    }
}

#[cfg(test)]
mod tests;
