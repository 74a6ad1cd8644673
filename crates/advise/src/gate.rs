//! The same promises as a gate: are they kept under these settings?
//!
//! `check` asks about the recorded limits, or about every column of settings that is given instead.
//! Worked example: `check pg --slo 'p99<80ms' --set cpu.max=60000` judges `cpu.max=60000` alone;
//! what was recorded is simulated for comparison but need not keep the promise.

use super::conclusion::refute_schedule;
use super::judge::{self, Forecast};
use super::{Case, Slo};
use schedcast_lab::answer;
use schedcast_lab::comparison::Comparison;
use schedcast_lab::context::Context;
use schedcast_lab::drift::{self, Drifting};
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::Scenario;
use schedcast_lab::possible::Run;
use schedcast_lab::question::Question;
use schedcast_lab::resimulated::{bound_ns, is_partial, refit};
use schedcast_lab::simulate::Simulate;
use schedcast_lab::trust;

/// One column under judgement.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Name of the column.
    pub name: String,
    /// One for each promise.
    pub forecasts: Vec<Forecast>,
    /// Why the service does not keep up with its requests.
    pub falls_behind: Option<String>,
}

/// Every promise under every column.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The numbers in full.
    pub comparison: Comparison,
    /// Facts that stand around the table.
    pub context: Context,
    /// The columns that were asked about.
    pub judged: Vec<Judged>,
    /// Promises to keep.
    pub promises: Vec<Slo>,
}

impl Gate {
    /// Whether every promise is kept, and the service keeps up, in every column that was asked
    /// about.
    pub fn passes(&self) -> bool {
        let kept = |one: &Judged| one.forecasts.iter().all(|forecast| forecast.met);
        let mut judged = self.judged.iter();
        judged.all(|one| kept(one) && one.falls_behind.is_none())
    }

    /// As indented JSON, ending in a newline.
    pub fn to_json(&self) -> String {
        let columns: Vec<serde_json::Value> = self
            .judged
            .iter()
            .map(|one| {
                serde_json::json!({
                    "name": one.name,
                    "forecasts": one.forecasts,
                    "falls_behind": one.falls_behind,
                })
            })
            .collect();
        let slos: Vec<String> = self.promises.iter().map(Slo::describe).collect();
        let json = serde_json::json!({
            "schema": "schedcast.check/1",
            "schedcast": env!("CARGO_PKG_VERSION"),
            "kernel": self.comparison.variants.first().map(|variant| &variant.kernel),
            "slos": slos,
            "passes": self.passes(),
            "columns": columns,
            "warnings": self.comparison.warnings,
        });
        format!("{json:#}\n")
    }
}

/// Judges the columns of `question`, which is about a recording.
///
/// # Errors
/// Promises that cannot be read or are not about anything the simulation reports; what the
/// simulation refuses.
pub fn check(
    question: &Question,
    slos: &[String],
    simulator: &impl Simulate,
    finished: &(impl Fn() + Sync),
) -> Result<Gate> {
    let experiment = question.experiment()?;
    let mut case = Case::of(question, slos, &experiment.scenarios[0])?;
    case.settle(&experiment.scenarios[0], simulator)?;
    case.refuse_unknown(&experiment.scenarios[0], experiment.seeds, simulator)?;
    let to_come: Vec<Scenario> = experiment
        .scenarios
        .iter()
        .map(|scenario| {
            scenario.with_limits(
                &case.target,
                scenario.limits_of(&case.target),
                &scenario.name,
            )
        })
        .collect();
    let drifting = Drifting::of(case.recorded, &case.target, simulator, experiment.seeds);
    let runs = drifting.run_both(&to_come, finished)?;
    for slo in &case.promises {
        judge::refuse_unreported(slo, &runs[0].plain)?;
        judge::refuse_few_values(slo, &runs[0].plain, "")?;
    }
    let mut comparison = drift::compared(&experiment.title, &to_come, &runs)?;
    comparison.tier = Some(case.recorded.tier);
    let run_ns = bound_ns(&experiment, case.recorded);
    comparison.cut_to_possible(&to_come, run_ns);
    let whole = !is_partial(&experiment, case.recorded);
    let need = case.need(runs[0].hardest(), to_come[0].limits_of(&case.target), whole);
    let fit = refit(
        case.recorded,
        &case.target,
        &experiment,
        simulator,
        finished,
    )?;
    let fit = judge::with_shares(fit, &case.promises);
    case.tell_fit(&mut comparison, (&fit, whole));
    comparison.warnings.extend(case.note.clone());
    let recorded = experiment.scenarios[0].limits_of(&case.target);
    let asks_for_another = |scenario: &Scenario| scenario.limits_of(&case.target) != recorded;
    if let Some(why) = case.saturated(&fit)
        && experiment.scenarios.iter().any(asks_for_another)
    {
        let message = format!("no verdict on another limit than the recorded one: {why}");
        return Err(Error::general(message).hint(trust::UNSATURATED));
    }
    let first = usize::from(experiment.scenarios.len() > 1);
    let kept = |forecasts: &[Forecast]| forecasts.iter().all(|one| one.met);
    let mut is_kept_now = false;
    let mut judged = Vec::new();
    for (index, (scenario, runs)) in experiment.scenarios.iter().zip(&runs).enumerate() {
        let limit = scenario.limits_of(&case.target);
        let run = Run::of(scenario, run_ns);
        let mut forecasts = judge::forecasts(&case.promises, runs, &fit, run, (recorded, limit))?;
        if index == 0 {
            is_kept_now = kept(&forecasts);
        }
        if index < first {
            continue;
        }
        let is_limit = limit != recorded && limit.quota_us.is_some();
        if is_limit && !is_kept_now && kept(&forecasts) {
            let pair = [&experiment.scenarios[0], scenario];
            if let Some(why) = refute_schedule(&case, &drifting, pair, &mut forecasts)? {
                let hint = "`--client open` or `closed` says which";
                comparison.warnings.push(format!("{why} ({hint})"));
            }
        }
        let falls_behind = need.as_ref();
        let falls_behind = falls_behind.and_then(|need| need.why_behind(limit, runs));
        judged.push(Judged {
            name: scenario.name.clone(),
            falls_behind,
            forecasts,
        });
    }
    let mut context = answer::context(question, &experiment)?;
    context.fit = fit;
    context.names = case.names();
    Ok(Gate {
        comparison,
        context,
        judged,
        promises: case.promises,
    })
}
