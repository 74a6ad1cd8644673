//! Question of a user before it is an experiment: a file, a command or a recording, and settings.
//!
//! Settings are grouped into columns as they are typed. For
//!
//! ```text
//! what-if pg --set cpu.max=60000 --variant more --set cpu.max=90000 --set cpu.max.burst=50000
//! ```
//!
//! the columns are `recorded`, `cpu.max=60000` and `more`: settings before the first `--variant`
//! are a column of their own where a recording is the subject, and hold for every column where a
//! file or a command is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::{Error, Place, Result, Source, hint_for};
use crate::experiment::program::Action;
use crate::experiment::{self, Experiment, ExtraVariant, Scenario, Surroundings, document};
use crate::recording::{Recorded, refused_kernel};

mod settings;
#[cfg(test)]
mod tests;

pub use settings::{CLIENTS, Columns, Setting, client_loops};

/// Subject of the question.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// An experiment file; all its variants, or the named one alone.
    File {
        /// The file.
        path: PathBuf,
        /// Only this variant.
        only: Option<String>,
    },
    /// The text of an experiment file that is not a file; all its variants, or the named one alone.
    Text {
        /// Name of the subject in messages.
        name: String,
        /// The text (TOML).
        text: String,
        /// Directory that its relative paths start from.
        directory: PathBuf,
        /// Only this variant.
        only: Option<String>,
    },
    /// A command line as typed in a shell.
    Command(Vec<String>),
    /// A recording, replayed as it was and under other settings.
    Recording(Recorded),
    /// An experiment file that a recording was distilled into, as it is and under other settings.
    Profile(PathBuf),
}

impl Subject {
    /// All variants of an experiment file.
    pub fn file(path: &Path) -> Self {
        Subject::File {
            path: path.to_owned(),
            only: None,
        }
    }

    /// All variants of an experiment's text, of which relative paths start from `directory`.
    pub fn text(
        name: impl Into<String>,
        text: impl Into<String>,
        directory: impl Into<PathBuf>,
    ) -> Self {
        Self::Text {
            name: name.into(),
            text: text.into(),
            directory: directory.into(),
            only: None,
        }
    }
}

/// Name of the first column of a what-if, which is a simulation like the others.
pub const AS_RECORDED: &str = "as recorded, simulated";
/// Name of the recorded setting in `measured.json`.
const RECORDED: &str = "recorded";

/// A whole question.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Subject of the question.
    pub subject: Subject,
    /// The group that `cpu.*` settings belong to; a command also starts in it.
    pub cgroup: Option<String>,
    /// Settings by column.
    pub columns: Columns,
    /// Runs of each variant, over what the file says.
    pub seeds: Option<u32>,
    /// Simulated time of each run, over what the file says.
    pub duration: Option<String>,
    /// A recording: a further column for every limit that was really measured.
    pub measured: bool,
}

impl Question {
    /// A question about a subject as it is.
    pub fn of(subject: Subject) -> Self {
        Self {
            subject,
            cgroup: None,
            columns: Columns::default(),
            seeds: None,
            duration: None,
            measured: false,
        }
    }

    /// The experiment that answers the question.
    ///
    /// # Errors
    /// Anything wrong in the file or in a setting, at its place.
    pub fn experiment(&self) -> Result<Experiment> {
        self.refuse_unknown_group()?;
        self.read()
    }

    fn read(&self) -> Result<Experiment> {
        let surroundings = self.surroundings()?;
        match &self.subject {
            Subject::File { path, only } => {
                let mut experiment = experiment::load(path, surroundings)?;
                if self.columns.replace_the_default() {
                    drop_equal_of(&mut experiment, self.columns.variants.len());
                }
                select(experiment, only.as_deref())
            }
            Subject::Text {
                name,
                text,
                directory,
                only,
            } => {
                let document = document::parse(&Source::new(name, text))?;
                let surroundings = Surroundings {
                    directory: directory.clone(),
                    ..surroundings
                };
                select(experiment::read(&document, &surroundings)?, only.as_deref())
            }
            Subject::Profile(path) => {
                let experiment = experiment::load(path, surroundings)?;
                refuse_undistilled(path, &experiment)?;
                Ok(experiment)
            }
            Subject::Command(words) => {
                let document = experiment::command_document(words, self.cgroup.as_deref());
                let mut experiment = experiment::read(&document, &surroundings)?;
                if self.columns.replace_the_default() {
                    // The default kernel or machine was not asked for.
                    experiment.scenarios.remove(0);
                }
                Ok(experiment)
            }
            Subject::Recording(recorded) => {
                let document = experiment::replay_document(&recorded.folder);
                let mut experiment = experiment::read(&document, &surroundings)?;
                end_with(recorded, self.target()?, &mut experiment);
                Ok(experiment)
            }
        }
    }

    /// Refuses a `--cgroup` that neither the recording nor the file has: nothing would run in it,
    /// and its settings would change nothing, in silence. A command starts in it, whatever it is.
    fn refuse_unknown_group(&self) -> Result<()> {
        let Some(path) = self.cgroup.as_deref().filter(|path| *path != "/") else {
            return Ok(());
        };
        let (what, names) = match &self.subject {
            Subject::Command(_) => return Ok(()),
            Subject::Recording(recorded) => {
                let groups = recorded.groups().map(|entry| entry.key.clone());
                ("recording", groups.collect::<BTreeSet<String>>())
            }
            Subject::File { .. } | Subject::Text { .. } | Subject::Profile(_) => {
                let as_it_is = Question {
                    cgroup: None,
                    columns: Columns::default(),
                    ..self.clone()
                };
                let scenarios = as_it_is.read()?.scenarios;
                let groups = scenarios.iter().flat_map(|one| one.cgroups.keys());
                ("experiment", groups.cloned().collect())
            }
        };
        if names.contains(path) {
            return Ok(());
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let source = Source::of_command_line("--cgroup", path);
        let place = Place::new(&source, 0..path.len());
        let error = Error::input(&place, format!("the {what} has no cgroup `{path}`"));
        Err(error.hint(match names.is_empty() {
            true => "it has none but the root".to_string(),
            false => hint_for(path, &names),
        }))
    }

    /// The group that `cpu.*` settings belong to: `--cgroup`, or the only limited one, or of a
    /// recording without limits the only one.
    ///
    /// # Errors
    /// A recording with several limited groups, if any setting needs to know which is meant.
    pub fn target(&self) -> Result<Option<String>> {
        if self.cgroup.is_some() {
            return Ok(self.cgroup.clone());
        }
        let limited = match &self.subject {
            Subject::Recording(recorded) => recorded.groups_in_question()?,
            Subject::Profile(path) => {
                experiment::load(path, Surroundings::default())?.limited_groups()
            }
            _ => return Ok(None),
        };
        match limited.as_slice() {
            [only] => Ok(Some(only.clone())),
            [] => Ok(None),
            _ if !self.columns.set_cgroup_files() => Ok(None),
            several => Err(Error::usage("several groups of the recording are limited")
                .hint(format!("name one with --cgroup: {}", several.join(", ")))),
        }
    }

    fn surroundings(&self) -> Result<Surroundings> {
        let target = self.target()?;
        let cgroup = target.as_deref();
        let layer = |setting: &Setting| -> Result<document::Table> {
            let layer = setting.layer(cgroup)?;
            if let Subject::Recording(recorded) = &self.subject {
                recorded.refuse_unknown_groups(&layer)?;
            }
            Ok(layer)
        };
        let layers = |settings: &[Setting]| -> Result<Vec<document::Table>> {
            settings.iter().map(layer).collect()
        };
        let only = match &self.subject {
            Subject::File { only, .. } | Subject::Text { only, .. } => only.as_ref(),
            _ => None,
        };
        let mut surroundings = Surroundings {
            run: self.run_layers(),
            for_one_variant: only.is_some(),
            ..Surroundings::default()
        };
        let mut leading_settings = self.columns.leading.clone();
        let mut leading = layers(&leading_settings)?;
        if let Subject::Recording(recorded) = &self.subject {
            surroundings.below = vec![recorded.layer.clone()];
            if let Some(refusal) = refused_kernel(&recorded.layer) {
                let mut typed = leading_settings.iter();
                let Some(kernel) = typed.position(Setting::names_kernel) else {
                    return Err(refusal);
                };
                // The recorded settings are simulated on it, too.
                leading_settings.remove(kernel);
                surroundings.settings.insert(0, leading.remove(kernel));
            }
            // How clients ask is no change of theirs, but what the recording does not show.
            let typed = leading_settings.iter().enumerate();
            let told: Vec<usize> = typed
                .filter_map(|(place, setting)| setting.names_clients().then_some(place))
                .collect();
            if let [place] = told[..] {
                leading_settings.remove(place);
                surroundings.settings.insert(0, leading.remove(place));
            }
        }
        if let Subject::Recording(_) | Subject::Profile(_) = &self.subject {
            surroundings.plain_variant = AS_RECORDED.to_string();
            if !leading.is_empty() {
                let labels: Vec<String> = leading_settings.iter().map(Setting::label).collect();
                let first = ExtraVariant {
                    name: labels.join(" "),
                    layers: std::mem::take(&mut leading),
                };
                surroundings.variants.push(first);
            }
        }
        if self.measured {
            surroundings.variants.extend(self.measured_columns()?);
        }
        surroundings.settings.extend(leading);
        for (name, settings) in &self.columns.variants {
            let variant = ExtraVariant {
                name: name.clone(),
                layers: layers(settings)?,
            };
            surroundings.variants.push(variant);
        }
        Ok(surroundings)
    }

    /// A column for every setting of `measured.json` but the recorded one.
    fn measured_columns(&self) -> Result<Vec<ExtraVariant>> {
        let Subject::Recording(recorded) = &self.subject else {
            return Ok(Vec::new());
        };
        let Some(measured) = &recorded.measured else {
            return Err(Error::usage(format!(
                "{} has no measured.json: nothing was measured under other settings",
                recorded.folder
            )));
        };
        let Some(target) = self.target()? else {
            return Err(
                Error::usage("which group was measured is not known").hint("name it with --cgroup")
            );
        };
        let others = measured.settings.iter().filter(|one| one.name != RECORDED);
        let column = |setting: &schedcast_trace::Setting| {
            let writes = [
                format!("cpu.max={}", setting.limits.cpu_max()),
                format!("cpu.max.burst={}", setting.limits.burst_us),
            ];
            let layer = |write: &String| {
                document::parse_setting(&Source::new("measured.json", write), Some(&target))
            };
            Ok(ExtraVariant {
                name: setting.name.clone(),
                layers: writes.iter().map(layer).collect::<Result<_>>()?,
            })
        };
        others.map(column).collect()
    }

    /// `--seeds` and `--duration` hold for every column.
    fn run_layers(&self) -> Vec<document::Table> {
        let mut layers = Vec::new();
        if let Some(seeds) = self.seeds {
            layers.push(document::flag_setting(
                "--seeds",
                ["run", "seeds"],
                &seeds.to_string(),
            ));
        }
        if let Some(duration) = &self.duration {
            layers.push(document::flag_setting(
                "--duration",
                ["run", "duration"],
                duration,
            ));
        }
        layers
    }
}

/// Refuses an experiment of several variants where one is to run.
///
/// # Errors
/// A usage error that names the variants.
pub fn refuse_several(experiment: &Experiment) -> Result<()> {
    let scenarios = experiment.scenarios.iter();
    let names: Vec<&str> = scenarios.map(|scenario| scenario.name.as_str()).collect();
    if names.len() <= 1 {
        return Ok(());
    }
    Err(
        Error::usage(format!("this is an experiment of {} variants", names.len()))
            .hint(format!("choose one with --variant: {}", names.join(", "))),
    )
}

/// Refuses an experiment in which nothing was distilled from a recording: its answers would carry
/// the wrong tier.
fn refuse_undistilled(path: &Path, experiment: &Experiment) -> Result<()> {
    let mut programs = experiment.scenarios.iter().flat_map(|one| &one.programs);
    if programs.any(|program| matches!(program.action.value, Action::Profile(_))) {
        return Ok(());
    }
    let path = path.display();
    Err(
        Error::usage(format!("{path} is an experiment, not a profile"))
            .hint(format!("type: schedcast compare {path}")),
    )
}

/// A replay ends with its recording: nothing is known of what came then, and idle CPUs would count
/// as if they were. Only of a job of the `target` everything is known, so it may end later.
fn end_with(recorded: &Recorded, target: Option<String>, experiment: &mut Experiment) {
    let is_job = |path: &String| !recorded.seen.jobs_of(path).is_empty();
    let awaits = target.filter(is_job);
    for scenario in &mut experiment.scenarios {
        let asked_ns = scenario.duration_ns;
        scenario.duration_ns = asked_ns.filter(|asked_ns| *asked_ns < recorded.length_ns);
        scenario.awaits.clone_from(&awaits);
    }
}

/// Leaves the own column of a file without variants out where one of the `added` is the same.
fn drop_equal_of(experiment: &mut Experiment, added: usize) {
    let [own, columns @ ..] = &experiment.scenarios[..] else {
        return;
    };
    let is_own = |column: &Scenario| {
        let name = own.name.clone();
        *own == Scenario {
            name,
            ..column.clone()
        }
    };
    if columns.len() == added && columns.iter().any(is_own) {
        experiment.scenarios.remove(0);
    }
}

/// The experiment with the variant `only` alone, if one is named.
fn select(mut experiment: Experiment, only: Option<&str>) -> Result<Experiment> {
    let Some(name) = only else {
        return Ok(experiment);
    };
    let names: Vec<String> = experiment
        .scenarios
        .iter()
        .map(|scenario| scenario.name.clone())
        .collect();
    let kept = |scenario: &Scenario| scenario.name == name;
    let mut keep = experiment.scenarios.iter().map(kept);
    // One cell for each scenario, so that the iterator lasts.
    experiment.cells.retain(|_| keep.next().unwrap_or(false));
    experiment.scenarios.retain(kept);
    if experiment.scenarios.is_empty() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let error = Error::usage(format!("the experiment has no variant `{name}`"));
        return Err(error.hint(hint_for(name, &names)));
    }
    Ok(experiment)
}
