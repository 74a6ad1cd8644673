//! From a question to what is printed: the comparison and what a table says around it.

use schedcast_workload::replay::subject::is_recorder;
use schedcast_workload::replay::{Bound, ClientLoop, Dialogue, Kind};

use crate::change;
use crate::clients::{ClosedLoop, Waiting, client_loop, only_in_open_loop};
use crate::comparison::{Change, Comparison, MeasuredFigure, Variant};
use crate::context::{About, Context, RefitFigure};
use crate::drift::Drifting;
use crate::error::Result;
use crate::experiment::cgroup::CgroupSettings;
use crate::experiment::units::{format_duration_ns, quote_word};
use crate::experiment::{Experiment, Scenario};
use crate::metrics;
use crate::outcome::Outcome;
use crate::patches::patches;
use crate::question::{Question, Subject};
use crate::recording::{KeptOrder, Latency, Recorded};
use crate::resimulated::{bound_ns, is_partial, refit_around, simulated_ns, tell_fit};
use crate::simulate::{Simulate, run_all, run_seeds};
use crate::simulator::Simulator;
use crate::trust;
use crate::verdict;
use schedcast_base::groups::is_within;
use schedcast_base::limits::CpuLimits;

mod warnings;

/// An answered question.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The numbers.
    pub comparison: Comparison,
    /// Facts that stand around them.
    pub context: Context,
}

/// How many runs an answer takes: every variant, once more with drifting work and the recorded
/// limit once more where the question is about a recording.
///
/// # Errors
/// A question that does not say which group it is about.
pub fn runs(question: &Question, experiment: &Experiment) -> Result<u64> {
    let (variants, seeds) = (
        experiment.scenarios.len() as u64,
        u64::from(experiment.seeds),
    );
    let Some(to_come) = ToCome::of(question, experiment)? else {
        return Ok(variants * seeds);
    };
    Ok(variants * to_come.drifting(&()).runs_of_kinds() + seeds)
}

impl Question {
    /// The answer, where its experiment is of no other use and its runs need not be counted.
    ///
    /// # Errors
    /// Those of the experiment, and the first run's that fails.
    pub fn answer(&self, simulator: &impl Simulate) -> Result<Answer> {
        answer(self, &self.experiment()?, simulator, &|| {})
    }
}

/// Runs the question's `experiment` and compares its variants. `finished` is called after each run,
/// from any thread.
///
/// # Errors
/// The first run's that fails.
pub fn answer(
    question: &Question,
    experiment: &Experiment,
    simulator: &impl Simulate,
    finished: &(impl Fn() + Sync),
) -> Result<Answer> {
    let to_come = ToCome::of(question, experiment)?;
    let experiment_to_come = to_come.as_ref().map_or(experiment, |one| &one.experiment);
    let mut comparison = compare(question, experiment_to_come, simulator, finished)?;
    if let Subject::Profile(_) = &question.subject {
        comparison.tier = Some(crate::comparison::Tier::Profile);
    }
    let whole = |recorded| !is_partial(experiment, recorded);
    if let Subject::Recording(recorded) = &question.subject {
        comparison.tier = Some(recorded.tier);
        if let (true, Some(measured), Some(target)) =
            (whole(recorded), &recorded.measured, question.target()?)
        {
            let threads = recorded.seen.main_threads(&target);
            let scenarios = &experiment.scenarios;
            add_measured(&mut comparison, scenarios, measured, &target, threads);
        }
    }
    let mut context = context(question, experiment)?;
    let housekeeping = |scenario: &Scenario| {
        let simulator = simulator.simulator();
        simulator.is_some_and(|simulator| simulator.has_housekeeping(scenario))
    };
    if experiment.scenarios.iter().any(housekeeping) {
        context.machine += " with housekeeping";
    }
    context.about = about(question, experiment, &comparison)?;
    if let Subject::Recording(recorded) = &question.subject {
        let target = question.target()?;
        if let Some(to_come) = &to_come {
            context.fit = refit_around(recorded, &to_come.target, experiment, simulator, finished)?;
        }
        let drifting = to_come.as_ref().map(|one| one.drifting(simulator));
        let scenarios = &experiment_to_come.scenarios;
        let kinds = drifting.map(|drifting| drifting.run_kinds(scenarios, finished));
        comparison.add_intervals_of_one_run(&kinds.transpose()?.unwrap_or_default());
        comparison.widen_by(&context.fit);
        comparison.cut_to_possible(scenarios, bound_ns(experiment, recorded));
        let fit = (context.fit.as_slice(), whole(recorded));
        tell_fit(&mut comparison, fit, recorded, target.as_deref());
        let warnings = warnings::of(recorded, scenarios, target.as_deref());
        comparison.warnings.extend(warnings);
        if let Some(target) = &target
            && let Some(latency) = recorded.seen.latency(target)
        {
            let of_target = trust::on_the_way(&context.fit, target);
            let run_ns = simulated_ns(experiment, recorded);
            let keeps_order = recorded.seen.kept_order.contains_key(target);
            let mut subject = verdict::Subject {
                comparison: &comparison,
                scenarios: &experiment.scenarios,
                target,
                members: recorded.seen.members.get(target).map_or(&[], Vec::as_slice),
                latency: &latency,
                labels: &context.labels,
                run_ns,
                waiting: clients_that_wait(&experiment.scenarios, recorded, target, run_ns),
                doubt: doubt(&of_target, &latency, &comparison.variants[0])
                    .or_else(|| keeps_order.then(|| KeptOrder::IN_SHORT.to_string())),
                asked: recorded.seen.asked_at_any_time(target),
                misfit: trust::poor_fit(&of_target),
            };
            if let Some(column) = verdict::cheapest(&subject) {
                let pair = [0, column].map(|row| &experiment_to_come.scenarios[row]);
                let known = recorded.seen.closed_loops.get(target);
                let seeds = experiment.seeds;
                let why = only_in_open_loop(pair, (known, &latency), seeds, simulator)?;
                let which = "`--client open` or `closed` says which";
                subject.doubt = why.map(|why| format!("{why} ({which})"));
            }
            context.told = verdict::told_of(&comparison.variants[0], &latency);
            context.verdict = verdict::sentences(&subject);
            context.cheapest =
                verdict::cheapest(&subject).map(|column| comparison.variants[column].name.clone());
        }
    }
    Ok(Answer {
        comparison,
        context,
    })
}

/// Why no column may be recommended: what is unknown, or what the simulation of the recorded limit
/// misses of how much finishes, of throttling and of `latency`.
fn doubt(fit: &[RefitFigure], latency: &Latency, now: &Variant) -> Option<String> {
    let told = verdict::told_of(now, latency);
    let told: Vec<&str> = told.iter().map(String::as_str).collect();
    let decisive = trust::decisive(fit, &told);
    trust::saturated(fit, Some(latency)).or_else(|| {
        let missed = trust::poor_fit(&decisive)?;
        Some(format!(
            "the recorded limit, simulated, misses the recording: {missed}"
        ))
    })
}

/// Runs of a recording that are still to come: their periods fall anywhere, and requests take as
/// much more or less CPU time as they did at some time of the recording. The forecast is one of
/// these runs, not the recorded run again: the mean is that of runs whose work is as recorded, the
/// interval that of runs whose work drifts.
pub(crate) struct ToCome<'a> {
    /// The recording.
    pub recorded: &'a Recorded,
    /// The group that the question is about.
    pub target: String,
    /// The question's settings with periods that fall anywhere.
    pub experiment: Experiment,
}

impl<'a> ToCome<'a> {
    /// `None` where the question is about no recording or no group of one.
    pub(crate) fn of(
        question: &'a Question,
        experiment: &Experiment,
    ) -> Result<Option<ToCome<'a>>> {
        let (Subject::Recording(recorded), Some(target)) = (&question.subject, question.target()?)
        else {
            return Ok(None);
        };
        let mut experiment = experiment.clone();
        for scenario in &mut experiment.scenarios {
            *scenario = scenario.with_limits(&target, scenario.limits_of(&target), &scenario.name);
        }
        Ok(Some(ToCome {
            recorded,
            target,
            experiment,
        }))
    }

    /// Runs in which work drifts as it did in the recording.
    pub(crate) fn drifting<'b, S>(&self, simulator: &'b S) -> Drifting<'b, S> {
        Drifting::of(
            self.recorded,
            &self.target,
            simulator,
            self.experiment.seeds,
        )
    }
}

/// Most seeds that a comparison takes of itself.
const MOST_SEEDS: u32 = 40;
/// Seeds that it adds at a time.
const MORE_SEEDS: u32 = 10;
/// It adds seeds until what programs measure is compared to within so much of the baseline.
const PRECISION: f64 = 0.01;
/// Switches between tasks in all runs so far from which on further seeds are not added: some
/// seconds on one CPU.
const CHEAP_SWITCHES: f64 = 3e6;

/// Runs the experiment and compares its variants. Where the number of seeds is not given, it adds
/// some as long as that is cheap and the intervals are wider than [`PRECISION`]. The decision
/// depends on results only, never on a time, so that every machine takes the same seeds.
///
/// Worked example: two kernels that differ by 0.5 % where seeds spread by 4 %. With 10 seeds the
/// interval of the ratio is ±4 %, with 20 ±2.6 and with 40 ±1.8: it stays so.
fn compare(
    question: &Question,
    experiment: &Experiment,
    simulator: &impl Simulate,
    finished: &(impl Fn() + Sync),
) -> Result<Comparison> {
    let scenarios = &experiment.scenarios;
    let mut outcomes = run_all(simulator, scenarios, experiment.seeds, finished)?;
    let mut seeds = experiment.seeds;
    let draws = simulator.simulator().is_some_and(Simulator::draws);
    let recorded = matches!(question.subject, Subject::Recording(_));
    let may_add = draws && !recorded && experiment.seeds_are_default && scenarios.len() > 1;
    loop {
        let comparison = Comparison::new(&experiment.title, scenarios, &outcomes)?;
        if !may_add || seeds >= MOST_SEEDS || is_precise(&comparison) || !is_cheap(&outcomes) {
            return Ok(comparison);
        }
        let more = run_seeds(simulator, scenarios, seeds..seeds + MORE_SEEDS, finished)?;
        for (row, more) in outcomes.iter_mut().zip(more) {
            row.extend(more);
        }
        seeds += MORE_SEEDS;
    }
}

/// Whether the headline metrics of programs are compared as closely as wanted, or differ so much
/// that more seeds are not needed.
fn is_precise(comparison: &Comparison) -> bool {
    let others = comparison.variants.iter().skip(1);
    let mut metrics = others.flat_map(|variant| &variant.metrics);
    metrics.all(|(name, summary)| {
        let of_program = metrics::parse(name).is_some_and(|metric| {
            metric.headline() && metric.family.subject == metrics::Subject::Program
        });
        let change = summary.vs_baseline.as_ref();
        let interval = |change: &Change| change.ratio.zip(change.ci95.get());
        let Some((ratio, [low, high])) = change.filter(|_| of_program).and_then(interval) else {
            return true;
        };
        let half_width = (high - low) / 2.0;
        half_width <= PRECISION || half_width < (ratio - 1.0).abs() / 3.0
    })
}

fn is_cheap(outcomes: &[Vec<Outcome>]) -> bool {
    let runs = outcomes.iter().flatten();
    let switches = runs.filter_map(|run| run.metrics.get("machine/context_switches"));
    switches.sum::<f64>() < CHEAP_SWITCHES
}

/// Figures of `measured.json` that are metrics of the limited group: figure, metric, factor
/// between.
const GROUP_FIGURES: [(&str, &str, f64); 6] = [
    ("nr_periods", "nr_periods", 1.0),
    ("nr_throttled", "nr_throttled", 1.0),
    ("throttled_ms", "throttled_usec", 1000.0),
    ("nr_bursts", "nr_bursts", 1.0),
    ("burst_ms", "burst_usec", 1000.0),
    ("usage_ms", "usage_usec", 1000.0),
];

/// Times of `measured.json`: figure, the distribution it is a value of, and which value. From
/// sending to the reply a server handles a request; from the schedule to the reply is what the
/// client sees.
pub const LATENCY_FIGURES: [(&str, &str, &str); 10] = [
    ("p50_ms", "activation_latency", "p50"),
    ("p75_ms", "activation_latency", "p75"),
    ("p90_ms", "activation_latency", "p90"),
    ("p95_ms", "activation_latency", "p95"),
    ("p99_ms", "activation_latency", "p99"),
    ("request_p50_ms", "request_latency", "p50"),
    ("request_p75_ms", "request_latency", "p75"),
    ("request_p90_ms", "request_latency", "p90"),
    ("request_p95_ms", "request_latency", "p95"),
    ("request_p99_ms", "request_latency", "p99"),
];

/// Whom an answer from a recording or a profile is about: a group and all below it, or the whole
/// machine.
fn about(
    question: &Question,
    experiment: &Experiment,
    comparison: &Comparison,
) -> Result<Option<About>> {
    let target = question.target()?;
    let members = match (&question.subject, &target) {
        (Subject::Recording(recorded), Some(target)) => {
            let members = recorded.seen.members.get(target).cloned();
            members.unwrap_or_default()
        }
        (Subject::Recording(_), None) => busiest(comparison),
        (Subject::Profile(_), Some(target)) => {
            let programs = experiment.scenarios.first().map(|one| &one.programs);
            let inside = programs.into_iter().flatten();
            let inside = inside.filter(|program| is_within(&program.cgroup, target));
            inside.map(|program| program.name.clone()).collect()
        }
        _ => return Ok(None),
    };
    let label = match (&question.subject, &target) {
        (Subject::Recording(recorded), Some(target)) => recorded.label(target),
        (_, None) => Some("the whole machine".to_string()),
        _ => None,
    };
    let path = target.unwrap_or_else(|| "/".to_string());
    let mut members: Vec<String> = members;
    members.retain(|name| !is_recorder(name));
    let changed = change::changed_groups(&experiment.scenarios, &path);
    let changed_threads = match &question.subject {
        Subject::Recording(recorded) => recorded.seen.members_of(&changed),
        _ => Vec::new(),
    };
    Ok(Some(About {
        name: label.unwrap_or_else(|| path.clone()),
        changed,
        changed_threads,
        path,
        members,
    }))
}

/// Everything that used CPU time in the baseline, the busiest first.
fn busiest(comparison: &Comparison) -> Vec<String> {
    let baseline = comparison.variants.first();
    let metrics = baseline.into_iter().flat_map(|one| &one.metrics);
    let mut used: Vec<(&str, f64)> = metrics
        .filter_map(|(name, summary)| Some((name.strip_suffix("/cpu_time")?, summary.mean)))
        .collect();
    used.sort_by(|left, right| right.1.total_cmp(&left.1));
    used.into_iter().map(|(name, _)| name.to_string()).collect()
}

/// Puts what was really measured beside the variants that ask for exactly those limits and change
/// nothing else.
fn add_measured(
    comparison: &mut Comparison,
    scenarios: &[Scenario],
    measured: &schedcast_trace::MeasuredSettings,
    target: &str,
    threads: Option<&str>,
) {
    let Some(recorded) = scenarios.first() else {
        return;
    };
    for scenario in scenarios {
        let Some(limit) = limit_when_nothing_else_differs(recorded, scenario, target) else {
            continue;
        };
        let asked = |setting: &&schedcast_trace::Setting| setting.limits == limit;
        let Some(setting) = measured.settings.iter().find(asked) else {
            continue;
        };
        let mut put = |figure: &str, metric: &str, factor: f64| {
            let Some(figure) = setting.figures.get(figure) else {
                return;
            };
            let values = MeasuredFigure {
                median: figure.median * factor,
                min: figure.min * factor,
                max: figure.max * factor,
            };
            comparison.set_measured(&scenario.name, metric, values);
        };
        for (figure, metric, factor) in GROUP_FIGURES {
            put(figure, &format!("cgroup:{target}/{metric}"), factor);
        }
        for (figure, latency, suffix) in LATENCY_FIGURES {
            if let Some(threads) = threads {
                put(figure, &format!("{threads}/{latency}.{suffix}"), 1000.0);
            }
        }
    }
}

/// The limit of `target` in `scenario`, if that is all that differs from `recorded`.
fn limit_when_nothing_else_differs(
    recorded: &Scenario,
    scenario: &Scenario,
    target: &str,
) -> Option<CpuLimits> {
    let group = scenario.cgroups.get(target)?;
    let mut same = scenario.clone();
    same.name = recorded.name.clone();
    let mut base_group = recorded.cgroups.get(target)?.clone();
    base_group.limits = group.limits;
    let mut base = recorded.clone();
    base.cgroups.insert(target.to_string(), base_group);
    (same == base).then_some(group.limits)
}

/// Text around the numbers of a question, as far as it is known before there are any.
pub fn context(question: &Question, experiment: &Experiment) -> Result<Context> {
    let mut context = Context {
        source: source(&question.subject),
        machine: machine(&experiment.scenarios),
        ..Context::default()
    };
    let (Subject::Recording(recorded), Some(target)) = (&question.subject, question.target()?)
    else {
        return Ok(context);
    };
    let labels = recorded.named.iter();
    context.labels = labels
        .filter_map(|group| Some((group.path.clone(), recorded.label(&group.path)?)))
        .collect();
    context.part = is_partial(experiment, recorded).then(|| {
        let simulated = format_duration_ns(simulated_ns(experiment, recorded));
        let seconds = recorded.length_ns as f64 / 1e9;
        format!(
            "the first {simulated} of the recorded {seconds:.1}s; the fit is that of the whole, \
             counts in proportion"
        )
    });
    if let Some((first, others)) = experiment.scenarios.split_first()
        && let Some(before) = first.cgroups.get(&target)
    {
        let label = recorded.label(&target);
        let name = label.map_or(String::new(), |label| format!("{label} = "));
        let dialogue = recorded.seen.dialogues.get(&target);
        let clients = match recorded.seen.kinds.get(&target) {
            Some(kinds) => describe_kinds(first, kinds),
            None => [
                describe_clients(first, recorded.seen.closed_loops.get(&target)),
                describe_dialogue(dialogue.copied().unwrap_or_default()),
            ]
            .concat(),
        };
        context.target = Some(format!(
            "{name}{target}, recorded with {}{clients}",
            describe_limit(before),
        ));
        for scenario in others {
            let commands = change::commands(first, scenario, &target);
            if !commands.is_empty() {
                context.apply.push((scenario.name.clone(), commands));
            }
            if change::is_limit_of(first, scenario, &target) {
                let limits = [first, scenario].map(|one| one.limits_of(&target));
                let words = patches(&target, limits[0], limits[1], before.shares());
                context.patches.push((scenario.name.clone(), words));
            }
        }
    }
    Ok(context)
}

fn describe_limit(settings: &CgroupSettings) -> String {
    let limits = &settings.limits;
    format!(
        "cpu.max \"{}\", burst {}",
        limits.cpu_max(),
        limits.burst_us
    )
}

/// The clients of every column, if these, or some kind of them, ask again when they are answered
/// and nothing else of the replay differs between columns.
fn clients_that_wait(
    scenarios: &[Scenario],
    recorded: &Recorded,
    target: &str,
    run_ns: u64,
) -> Option<Waiting> {
    let [first, others @ ..] = scenarios else {
        return None;
    };
    if others.iter().any(|one| !one.adjusts().eq(first.adjusts())) {
        return None;
    }
    let kinds = recorded.seen.kinds.get(target).into_iter().flatten();
    let mut bounds = kinds.map(|kind| kind.bound);
    let some_wait = bounds.any(|bound| matches!(bound, Bound::Connections(_)));
    let asking = match (client_loop(first), recorded.seen.closed_loops.get(target)?) {
        (ClientLoop::Open, _) => return None,
        // How many more the others would send is not asked.
        (ClientLoop::AsRecorded, _) if some_wait => None,
        (ClientLoop::Bounded | ClientLoop::AsRecorded, ClosedLoop::Bounded(_)) => None,
        (ClientLoop::Bounded, _) => return None,
        (_, ClosedLoop::Yes(asking)) => Some(*asking),
        (ClientLoop::Closed, _) => None,
        (ClientLoop::AsRecorded, _) => return None,
    };
    Some(Waiting { asking, run_ns })
}

/// Clients of each of several kinds: how they decide when to ask, and what is one request.
fn describe_kinds(scenario: &Scenario, kinds: &[Kind]) -> String {
    let kinds = kinds.iter().map(|kind| {
        let who = format!("clients `{}`", kind.name);
        describe_loop(scenario, &who, kind.bound, ", assumed") + &describe_dialogue(kind.dialogue)
    });
    kinds.collect()
}

/// How the clients of a recorded service decide when to ask.
fn describe_clients(scenario: &Scenario, known: Option<&ClosedLoop>) -> String {
    let (bound, by) = match known {
        None => return String::new(),
        Some(ClosedLoop::Yes(asking)) => (Bound::Connections(asking.connections), ""),
        Some(ClosedLoop::Bounded(clients)) => (Bound::Clients(*clients), ""),
        Some(ClosedLoop::No) => (Bound::None, ""),
        Some(ClosedLoop::Unknown { coarse: false }) => (Bound::None, ", assumed"),
        Some(ClosedLoop::Unknown { coarse: true }) => {
            (Bound::None, ", assumed; they send up to 1 ms late")
        }
    };
    describe_loop(scenario, "clients", bound, by)
}

/// How clients with this bound in the recording decide when to ask: as the replay says it, or as
/// the user does. `by` stands behind an open loop that the recording has.
fn describe_loop(scenario: &Scenario, who: &str, bound: Bound, by: &str) -> String {
    let how = match (client_loop(scenario), bound) {
        (ClientLoop::Open, _) => "open loop, as set".to_owned(),
        (ClientLoop::Closed, _) => "closed loop, as set".to_owned(),
        (ClientLoop::AsRecorded | ClientLoop::Bounded, Bound::Clients(clients)) => {
            format!("{clients} with schedules, one request at a time each")
        }
        (ClientLoop::Bounded, _) => {
            "a schedule on each known connection, as set, one request at a time".to_owned()
        }
        (ClientLoop::AsRecorded, Bound::None) => format!("open loop{by}"),
        (ClientLoop::AsRecorded, Bound::Connections(1)) => "closed loop, 1 connection".to_owned(),
        (ClientLoop::AsRecorded, Bound::Connections(connections)) => {
            format!("closed loop, {connections} connections")
        }
    };
    format!("; {who}: {how}")
}

fn describe_dialogue(dialogue: Dialogue) -> String {
    match dialogue {
        Dialogue::None => String::new(),
        Dialogue::Connection => "; they connect anew for each request".to_owned(),
        Dialogue::Messages(number) => {
            format!("; {number} messages, one after the other, are a request")
        }
    }
}

fn source(subject: &Subject) -> String {
    match subject {
        Subject::File { path, .. } => path.display().to_string(),
        Subject::Profile(path) => format!("profile {}", path.display()),
        Subject::Text { name, .. } => name.clone(),
        Subject::Command(words) => words
            .iter()
            .map(|word| quote_word(word))
            .collect::<Vec<_>>()
            .join(" "),
        Subject::Recording(recorded) => {
            // A tenth of a second is enough to tell recordings apart that have one.
            let length_ns = match recorded.length_ns / 100_000_000 {
                0 => recorded.length_ns,
                tenths => tenths * 100_000_000,
            };
            format!(
                "recording {}, {}",
                recorded.folder,
                format_duration_ns(length_ns)
            )
        }
    }
}

fn machine(scenarios: &[Scenario]) -> String {
    let mut cpus: Vec<String> = scenarios
        .iter()
        .map(|scenario| scenario.machine.cpus().to_string())
        .collect();
    cpus.dedup();
    match cpus.as_slice() {
        [one] if one == "1" => "1 CPU".to_string(),
        _ => format!("{} CPUs", cpus.join(", ")),
    }
}
