//! Settings of the controls of a served page, and the range of each.

use schedcast_kernel::rules::Version;
use serde::{Deserialize, Serialize};

use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::Experiment;
use schedcast_lab::question::{Question, Setting, Subject};

/// Name of the column that shows what was set.
const CHOSEN: &str = "what you set";
/// Most CPUs the controls offer beside those of the experiment.
const MOST_CPUS: usize = 256;
/// Most seeds of one request.
const MOST_SEEDS: u32 = 50;
/// Most columns that are kept beside the first and what is set: the page has ten colours.
const MOST_PINNED: usize = 6;

/// Settings of the controls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The group that is limited; `None` when there are no groups.
    pub cgroup: Option<String>,
    /// CPU time per period in us; `None` is no limit.
    pub quota_us: Option<u64>,
    /// The period in us.
    pub period_us: u64,
    /// CPU time that may be carried over in us.
    pub burst_us: u64,
    /// `cpu.weight`; `None` leaves it as it was.
    pub weight: Option<u64>,
    /// Kernel release.
    pub kernel: String,
    /// CPUs; `None` leaves them as they were.
    pub cpus: Option<usize>,
    /// Runs of each variant.
    pub seeds: u32,
    /// Earlier settings kept as columns; their own seeds and pins do not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<Choice>,
}

/// Values that the controls offer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Controls {
    kernels: Vec<String>,
    groups: Vec<String>,
    most_cpus: usize,
    /// A recording's threads are bound to the machine it was made on.
    fixed_cpus: bool,
    seeds: u32,
    start: Choice,
}

impl Controls {
    /// Controls of the settings that can be changed in an experiment.
    ///
    /// # Errors
    /// A question that does not say which group it is about.
    pub(crate) fn new(
        question: &Question,
        experiment: &Experiment,
        seeds: u32,
    ) -> Result<Controls> {
        let Some(first) = experiment.scenarios.first() else {
            return Err(Error::usage("the experiment has no variant"));
        };
        let groups: Vec<String> = first.cgroups.keys().cloned().collect();
        let limited = first
            .cgroups
            .iter()
            .find(|(_, settings)| settings.limits.quota_us.is_some())
            .map(|(path, _)| path.clone());
        let cgroup = question.target()?.or(limited).or(groups.first().cloned());
        let limits = first.limits_of(cgroup.as_deref().unwrap_or(""));
        let kernel = first.kernel.release().to_string();
        let mut kernels: Vec<String> = Version::releases()
            .map(|version| version.to_string())
            .collect();
        if !kernels.contains(&kernel) {
            kernels.push(kernel.clone());
        }
        let cpus = first.machine.cpus();
        Ok(Controls {
            kernels,
            groups,
            most_cpus: cpus.clamp(1, MOST_CPUS),
            fixed_cpus: matches!(question.subject, Subject::Recording(_)),
            seeds,
            start: Choice {
                quota_us: limits.quota_us,
                period_us: limits.period_us,
                burst_us: limits.burst_us,
                weight: None,
                kernel,
                cpus: Some(cpus),
                seeds,
                cgroup,
                pinned: Vec::new(),
            },
        })
    }

    /// Settings before any change.
    pub(crate) fn start(&self) -> &Choice {
        &self.start
    }

    /// As the page reads it.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Choice {
    /// Reads a request.
    ///
    /// # Errors
    /// JSON that is not a choice, with line and column.
    pub fn parse(text: &str) -> Result<Choice> {
        serde_json::from_str(text).map_err(|error| Error::usage(error.to_string()))
    }

    /// The question with a column for each pinned choice, and one for this, unless it is pinned
    /// itself.
    ///
    /// # Errors
    /// No seeds, more seeds or pinned columns than one request may ask for, other CPUs than those
    /// of a recording.
    pub fn question(&self, base: &Question, start: &Choice) -> Result<Question> {
        if !(1..=MOST_SEEDS).contains(&self.seeds) {
            let seeds = self.seeds;
            let message = format!("expected 1 to {MOST_SEEDS} seeds, found {seeds}");
            return Err(Error::usage(message));
        }
        if matches!(base.subject, Subject::Recording(_)) {
            let mut columns = std::iter::once(self).chain(&self.pinned);
            columns.try_for_each(|one| one.refuse_other_cpus(start))?;
        }
        if self.pinned.len() > MOST_PINNED {
            return Err(Error::usage(format!(
                "at most {MOST_PINNED} pinned columns"
            )));
        }
        let mut question = base.clone();
        question.measured = false;
        question.seeds = Some(self.seeds);
        question.cgroup.clone_from(&self.cgroup);
        let variants = &mut question.columns.variants;
        for one in &self.pinned {
            variants.push((one.name(start), one.settings(base)));
        }
        if !self.pinned.iter().any(|one| one.sets_the_same(self)) {
            variants.push((CHOSEN.to_string(), self.settings(base)));
        }
        Ok(question)
    }

    /// Refuses CPUs that a recording does not have, as its threads were recorded on that machine.
    fn refuse_other_cpus(&self, start: &Choice) -> Result<()> {
        match (self.cpus, start.cpus) {
            (Some(asked), Some(had)) if asked != had => Err(Error::usage(format!(
                "a recording keeps its CPUs: expected {had} or null, found {asked}"
            ))),
            _ => Ok(()),
        }
    }

    /// How many columns it adds.
    pub(crate) fn columns(&self) -> usize {
        let is_pinned = self.pinned.iter().any(|one| one.sets_the_same(self));
        self.pinned.len() + usize::from(!is_pinned)
    }

    fn sets_the_same(&self, other: &Choice) -> bool {
        let alone = |one: &Choice| Choice {
            seeds: 0,
            pinned: Vec::new(),
            ..one.clone()
        };
        alone(self) == alone(other)
    }

    /// Difference from the start as the heading of a column: `67 ms in 100 ms, burst 20 ms, kernel
    /// 6.5`.
    fn name(&self, start: &Choice) -> String {
        let ms = |us: u64| format!("{} ms", us as f64 / 1e3);
        let mut name = match self.quota_us {
            Some(quota_us) => format!("{} in {}", ms(quota_us), ms(self.period_us)),
            None => "no limit".to_string(),
        };
        if self.burst_us > 0 {
            name += &format!(", burst {}", ms(self.burst_us));
        }
        if let Some(weight) = self.weight.filter(|_| self.weight != start.weight) {
            name += &format!(", weight {weight}");
        }
        if self.kernel != start.kernel {
            name += &format!(", kernel {}", self.kernel);
        }
        if let Some(cpus) = self.cpus.filter(|_| self.cpus != start.cpus) {
            name += &format!(", {cpus} CPUs");
        }
        name
    }

    fn settings(&self, base: &Question) -> Vec<Setting> {
        let mut settings = vec![Setting::Flag {
            flag: "kernel",
            key: ["kernel", "version"],
            argument: self.kernel.clone(),
        }];
        if self.cgroup.is_some() {
            let quota = self
                .quota_us
                .map_or("max".to_string(), |quota_us| quota_us.to_string());
            // A burst may not exceed the quota at any time, so it goes first and comes last.
            settings.push(Setting::Set("cpu.max.burst=0".to_string()));
            settings.push(Setting::Set(format!("cpu.max={quota} {}", self.period_us)));
            if self.burst_us > 0 {
                settings.push(Setting::Set(format!("cpu.max.burst={}", self.burst_us)));
            }
            if let Some(weight) = self.weight {
                settings.push(Setting::Set(format!("cpu.weight={weight}")));
            }
        }
        if let (Some(cpus), false) = (self.cpus, matches!(base.subject, Subject::Recording(_))) {
            settings.push(Setting::Set(format!("machine.cpus={cpus}")));
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_lab::recording::Recorded;
    use std::path::Path;

    #[test]
    fn a_recording_keeps_its_cpus() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/postgres-quota");
        let base = Question::of(Subject::Recording(Recorded::open(&folder).unwrap()));
        let choice = |cpus: &str| {
            let text = format!(
                r#"{{"cgroup":"/pg","quota_us":50000,"period_us":100000,"burst_us":0,
                    "weight":null,"kernel":"6.18","cpus":{cpus},"seeds":1}}"#
            );
            Choice::parse(&text).unwrap()
        };
        let start = choice("2");
        let refused = |choice: Choice| choice.question(&base, &start).unwrap_err().to_string();
        let expected = "a recording keeps its CPUs: expected 2 or null, found 64";
        assert_eq!(refused(choice("64")), expected);
        let pinned = Choice {
            pinned: vec![choice("64")],
            ..choice("2")
        };
        assert_eq!(refused(pinned), expected);
        for cpus in ["2", "null"] {
            assert!(choice(cpus).question(&base, &start).is_ok(), "{cpus}");
        }
    }
}
