//! From a question to what is printed: the comparison and what a table says around it.

use crate::comparison::Comparison;
use crate::error::Result;
use crate::experiment::cgroup::{CgroupSettings, limit_commands};
use crate::experiment::units::{format_duration_ns, quote_word};
use crate::experiment::{Experiment, Scenario};
use crate::question::{Question, Subject};
use crate::simulate::{Simulate, run_all};
use crate::tables::{self, Context};

/// A layout of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// For people.
    Text,
    /// For people, in Markdown.
    Markdown,
    /// As mmtests prints comparisons.
    Mmtests,
    /// As lkp-tests prints comparisons.
    Lkp,
}

/// An answered question.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The numbers.
    pub comparison: Comparison,
    /// What stands around them.
    pub context: Context,
}

impl Answer {
    /// The table.
    pub fn table(&self, layout: Layout) -> String {
        let (comparison, context) = (&self.comparison, &self.context);
        match layout {
            Layout::Text => tables::text::render(comparison, context),
            Layout::Markdown => tables::markdown::render(comparison, context),
            Layout::Mmtests => tables::mmtests::render(comparison, context),
            Layout::Lkp => tables::lkp::render(comparison, context),
        }
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
    let outcomes = run_all(simulator, &experiment.scenarios, experiment.seeds, finished)?;
    let mut comparison = Comparison::new(&experiment.title, &experiment.scenarios, &outcomes)?;
    if let Subject::Recording(recorded) = &question.subject {
        comparison.tier = Some(recorded.tier);
    }
    Ok(Answer {
        comparison,
        context: context(question, experiment)?,
    })
}

fn context(question: &Question, experiment: &Experiment) -> Result<Context> {
    let mut context = Context {
        source: source(&question.subject),
        machine: machine(&experiment.scenarios),
        ..Context::default()
    };
    let (Subject::Recording(_), Some(target)) = (&question.subject, question.target()?) else {
        return Ok(context);
    };
    if let Some((first, others)) = experiment.scenarios.split_first()
        && let Some(before) = first.cgroups.get(&target)
    {
        context.target = Some(format!(
            "{target}, recorded with {}",
            describe_limit(before)
        ));
        for scenario in others {
            let Some(after) = scenario.cgroups.get(&target) else {
                continue;
            };
            let commands = limit_commands(scenario.cgroup_version, before, after);
            if !commands.is_empty() {
                context.apply.push((scenario.name.clone(), commands));
            }
        }
    }
    Ok(context)
}

fn describe_limit(settings: &CgroupSettings) -> String {
    let quota = settings
        .quota_us
        .map_or("max".to_string(), |quota| quota.to_string());
    format!(
        "cpu.max \"{quota} {}\", burst {}",
        settings.period_us, settings.burst_us
    )
}

fn source(subject: &Subject) -> String {
    match subject {
        Subject::File { path, .. } => path.display().to_string(),
        Subject::Command(words) => words
            .iter()
            .map(|word| quote_word(word))
            .collect::<Vec<_>>()
            .join(" "),
        Subject::Recording(recorded) => {
            let length = recorded.length_ns.map(|length_ns| {
                // A tenth of a second is enough to tell recordings apart.
                format!(
                    ", {}",
                    format_duration_ns(length_ns / 100_000_000 * 100_000_000)
                )
            });
            format!(
                "recording {}{}",
                recorded.folder,
                length.unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Tier;
    use crate::error::Source;
    use crate::experiment::document;
    use crate::outcome::Outcome;
    use crate::question::{Columns, Recorded, Setting};

    /// Throttles once for every millisecond that the quota is below 100 ms.
    struct Toy;

    impl Simulate for Toy {
        fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
            let quota_us = scenario.cgroups["/pg"].quota_us.unwrap_or(100_000);
            let throttled = (100_000 - quota_us) as f64 / 1000.0;
            let metrics = [(
                "cgroup:/pg/nr_throttled".to_string(),
                throttled + seed as f64,
            )]
            .into();
            Ok(Outcome {
                event_hash: seed,
                metrics,
            })
        }
    }

    #[test]
    fn a_what_if_says_what_was_recorded_and_how_to_apply_the_rest() {
        let layer = "[machine]\ncpus = 2\n[kernel]\nversion = \"6.18.44\"\n\
                     [cgroup.\"/pg\"]\n\"cpu.cfs_quota_us\" = \"50000\"\n";
        let recorded = Recorded {
            folder: "recordings/pg".to_string(),
            layer: document::parse(&Source::new("cgroups.json", layer)).unwrap(),
            length_ns: Some(29_500_792_000),
            tier: Tier::Trace,
        };
        let settings = ["cpu.max=90000 100000", "cpu.max.burst=50000"];
        let question = Question {
            subject: Subject::Recording(recorded),
            cgroup: None,
            columns: Columns {
                leading: settings.map(|text| Setting::Set(text.to_string())).to_vec(),
                variants: vec![(
                    "no limit".to_string(),
                    vec![Setting::Set("cpu.max=max".to_string())],
                )],
            },
            seeds: Some(5),
            duration: None,
        };
        let experiment = question.experiment().unwrap();
        let mut answer = answer(&question, &experiment, &Toy, &|| {}).unwrap();
        answer.context.reproduce = "schedcast what-if recordings/pg …".to_string();
        insta::assert_snapshot!(answer.table(Layout::Text));
    }
}
