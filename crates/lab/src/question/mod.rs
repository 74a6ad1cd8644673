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

pub use settings::{CLIENTS, Columns, Setting};

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
        let source = Source::new("--cgroup", path);
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
        let mut surroundings = Surroundings {
            settings: self.run_layers(),
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
        // Settings typed for every column lie below those of the run as a whole.
        surroundings.settings.splice(0..0, leading);
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
            let layer =
                |write: &String| document::parse_setting(write, "measured.json", Some(&target));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Tier;
    use crate::error::Source;
    use schedcast_base::assert_contains;
    use schedcast_workload::replay::ClientLoop;

    fn set(argument: &str) -> Setting {
        Setting::Set(argument.to_string())
    }

    fn question(subject: Subject) -> Question {
        Question::of(subject)
    }

    fn recorded(text: &str) -> Subject {
        Subject::Recording(Recorded {
            folder: "recordings/pg".to_string(),
            layer: document::parse(&Source::new("cgroups.json", text)).unwrap(),
            length_ns: 29_500_000_000,
            tier: Tier::Trace,
            measured: None,
            seen: Box::default(),
            named: Vec::new(),
            asked: None,
            notes: Vec::new(),
        })
    }

    const ONE_LIMITED: &str = "[machine]\ncpus = 2\n[kernel]\nversion = \"6.18.44\"\n\
        [cgroup.\"/pg\"]\n\"cpu.cfs_quota_us\" = \"50000\"\n[cgroup.\"/free\"]\n\"cpu.shares\" = \"1024\"\n";

    #[test]
    fn what_if_columns_start_with_what_was_recorded() {
        let mut question = question(recorded(ONE_LIMITED));
        question.columns = Columns {
            leading: vec![
                set("cpu.max=60000 100000"),
                Setting::Flag {
                    flag: "--kernel",
                    key: ["kernel", "version"],
                    argument: "6.12".into(),
                },
            ],
            variants: vec![("more".to_string(), vec![set("cpu.max.burst=50000")])],
        };
        question.duration = Some("5s".to_string());
        let experiment = question.experiment().unwrap();
        let columns: Vec<_> = experiment
            .scenarios
            .iter()
            .map(|scenario| {
                let group = &scenario.cgroups["/pg"];
                let version = scenario.kernel.version.to_string();
                (
                    scenario.name.as_str(),
                    version,
                    group.limits.quota_us.unwrap(),
                    group.limits.burst_us,
                )
            })
            .collect();
        assert_eq!(
            columns,
            [
                (AS_RECORDED, "6.18.44".to_string(), 50_000, 0),
                (
                    "cpu.max=60000 100000 version=6.12",
                    "6.12".to_string(),
                    60_000,
                    0
                ),
                ("more", "6.18.44".to_string(), 50_000, 50_000),
            ]
        );
        assert!(
            experiment
                .scenarios
                .iter()
                .all(|scenario| scenario.duration_ns == Some(5_000_000_000))
        );
        assert_eq!(question.target().unwrap().as_deref(), Some("/pg"));
    }

    #[test]
    fn how_clients_ask_holds_for_every_column() {
        let mut question = question(recorded(ONE_LIMITED));
        let client = |how: &str| set(&format!("{CLIENTS}={how}"));
        question.columns.leading = vec![client("closed"), set("cpu.max=60000 100000")];
        let experiment = question.experiment().unwrap();
        let columns: Vec<_> = experiment
            .scenarios
            .iter()
            .map(|one| (one.name.as_str(), one.adjusts().next().unwrap().client_loop))
            .collect();
        let closed = ClientLoop::Closed;
        assert_eq!(
            columns,
            [(AS_RECORDED, closed), ("cpu.max=60000 100000", closed)]
        );
    }

    #[test]
    fn a_replay_lasts_no_longer_than_its_recording() {
        let lasts = |duration: &str| {
            let mut question = question(recorded(ONE_LIMITED));
            question.duration = Some(duration.to_string());
            question.experiment().unwrap().scenarios[0].duration_ns
        };
        assert_eq!(lasts("29s"), Some(29_000_000_000));
        assert_eq!(lasts("500s"), None, "all of its 29.5 s");
    }

    #[test]
    fn of_several_limited_groups_one_must_be_named() {
        let text = format!("{ONE_LIMITED}[cgroup.\"/b\"]\n\"cpu.cfs_quota_us\" = 70000\n");
        let mut question = question(recorded(&text));
        let found = question.experiment().unwrap().scenarios.len();
        assert_eq!(found, 1, "nobody asked for one");
        question.columns.leading = vec![set("cpu.max=60000")];
        let error = question.experiment().unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("--cgroup: /b, /pg"), "{error}");
        question.cgroup = Some("/b".to_string());
        assert_eq!(
            question.experiment().unwrap().scenarios[1].cgroups["/b"]
                .limits
                .quota_us,
            Some(60_000)
        );
    }

    #[test]
    fn the_group_that_was_named_when_recording_is_meant() {
        let meant = |asked: &str| {
            let mut subject = recorded(ONE_LIMITED);
            if let Subject::Recording(recorded) = &mut subject {
                recorded.asked = Some(asked.to_string());
            }
            question(subject).target().unwrap()
        };
        assert_eq!(meant("/free").as_deref(), Some("/free"), "without a limit");
        assert_eq!(meant("/pg").as_deref(), Some("/pg"));
        assert_eq!(meant("/gone").as_deref(), Some("/pg"), "the limited one");
    }

    #[test]
    fn groups_that_were_not_recorded_are_refused() {
        let mut question = question(recorded(ONE_LIMITED));
        question.columns.leading = vec![set("cgroup.\"/pq\".\"cpu.max\"=60000")];
        let error = question.experiment().unwrap_err();
        assert_eq!(
            error.to_string(),
            "--set:1:1: the recording has no cgroup `/pq` (the nearest cgroup is `/pg`)"
        );
        question.columns.leading = vec![set("cpu.max=60000")];
        question.cgroup = Some("/other/group".to_string());
        let error = question.experiment().unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert_eq!(
            error.to_string(),
            "--cgroup:1:1: the recording has no cgroup `/other/group` (valid names are `/free`, `/pg`)"
        );
        question.columns.leading.clear();
        assert!(question.experiment().is_err(), "without a setting too");
    }

    #[test]
    fn groups_that_the_file_does_not_have_are_refused() {
        let text = "[cgroup.\"/web\"]\n\"cpu.max\" = \"50000 100000\"\n";
        let mut question = question(Subject::text("exp.toml", text, ""));
        question.columns.leading = vec![set("cpu.max=60000")];
        question.cgroup = Some("/wbe".to_string());
        assert_eq!(
            question.experiment().unwrap_err().to_string(),
            "--cgroup:1:1: the experiment has no cgroup `/wbe` (the nearest valid name is `/web`)"
        );
        question.cgroup = Some("/web".to_string());
        assert!(question.experiment().is_ok());
    }

    #[test]
    fn settings_of_a_command_hold_for_every_column() {
        let words = ["stress-ng", "--cpu", "2"].map(String::from).to_vec();
        let mut question = question(Subject::Command(words));
        question.cgroup = Some("/test".to_string());
        question.columns = Columns {
            leading: vec![set("cpu.max=50000")],
            variants: vec![("burst".to_string(), vec![set("cpu.max.burst=10000")])],
        };
        question.seeds = Some(3);
        let experiment = question.experiment().unwrap();
        assert_eq!(experiment.seeds, 3);
        let names: Vec<&str> = experiment
            .scenarios
            .iter()
            .map(|scenario| scenario.name.as_str())
            .collect();
        assert_eq!(names, ["run", "burst"]);
        let kernel = |name: &str| {
            let setting = Setting::Flag {
                flag: "--kernel",
                key: ["kernel", "version"],
                argument: name.to_string(),
            };
            (name.to_string(), vec![setting])
        };
        let mut of_kernels = question.clone();
        of_kernels.columns.variants = vec![kernel("6.1"), kernel("6.12")];
        let scenarios = of_kernels.experiment().unwrap().scenarios;
        let names: Vec<&str> = scenarios.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(
            names,
            ["6.1", "6.12"],
            "the default kernel is not asked for"
        );
        // `--kernel 6.1 --variant x --kernel 6.12`
        let (_, first) = of_kernels.columns.variants.remove(0);
        of_kernels.columns.leading.extend(first);
        let scenarios = of_kernels.experiment().unwrap().scenarios;
        let versions = scenarios.iter().map(|one| one.kernel.version.to_string());
        assert_eq!(versions.collect::<Vec<_>>(), ["6.1", "6.12"]);
        let limits: Vec<_> = experiment
            .scenarios
            .iter()
            .map(|scenario| {
                let limits = scenario.cgroups["/test"].limits;
                (limits.quota_us, limits.burst_us)
            })
            .collect();
        assert_eq!(limits, [(Some(50_000), 0), (Some(50_000), 10_000)]);
    }

    #[test]
    fn a_recording_of_an_unknown_kernel_is_simulated_on_the_one_that_is_named() {
        let old = ONE_LIMITED.replace("6.18.44", "3.10.0-1160.el7");
        let mut question = question(recorded(&old));
        let error = question.experiment().unwrap_err();
        assert_contains(&error, "recorded on kernel `3.10.0-1160.el7`");
        let flag = Setting::Flag {
            flag: "--kernel",
            key: ["kernel", "version"],
            argument: "5.10".to_string(),
        };
        question.columns.leading = vec![set("cpu.max=60000"), flag];
        let scenarios = question.experiment().unwrap().scenarios;
        let column = |one: &Scenario| (one.name.clone(), one.kernel.version.to_string());
        let columns: Vec<(String, String)> = scenarios.iter().map(column).collect();
        let names = [AS_RECORDED, "cpu.max=60000"].map(|name| (name.to_string(), "5.10".into()));
        assert_eq!(columns, names);
    }

    #[test]
    fn an_experiment_is_no_profile() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("exp.toml");
        std::fs::write(&path, "[[program]]\nrun = \"hackbench -g 1\"\n").unwrap();
        let error = question(Subject::Profile(path)).experiment().unwrap_err();
        assert!(error.to_string().contains("not a profile"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn one_variant_of_a_file_can_be_chosen() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("exp.toml");
        std::fs::write(
            &path,
            "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n",
        )
        .unwrap();
        let ask = |only: &str| {
            let only = Some(only.to_string());
            question(Subject::File {
                path: path.clone(),
                only,
            })
            .experiment()
        };
        assert_eq!(ask("b").unwrap().scenarios[0].name, "b");
        let error = ask("c").unwrap_err();
        assert_eq!(
            (error.exit_code(), error.to_string()),
            (
                2,
                "the experiment has no variant `c` (valid names are `a`, `b`)".to_string()
            )
        );
    }
}
