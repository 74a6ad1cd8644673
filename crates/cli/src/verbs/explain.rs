//! `schedcast explain`: single decisions, and the first one in which two kernels differ.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use schedcast_base::names::nearest;
use schedcast_lab::error::{Error, Place, Result, Source, hint_for};
use schedcast_lab::experiment::Scenario;
use schedcast_lab::experiment::units::parse_duration_ns;
use schedcast_lab::explain::{
    Compared, Kind, Wanted, decisions, decisions_json, difference, difference_json, difference_text,
};
use schedcast_lab::question::{Question, Subject};
use schedcast_lab::simulator::Simulator;

use super::{recording, say, say_backgrounds, say_oddities, target};
use crate::arguments::target::Target;
use crate::arguments::{Length, one_of};
use crate::columns::ColumnArguments;
use crate::{Call, output};

/// `schedcast explain`
#[derive(Debug, Args)]
#[command(mut_arg("cgroup", |arg| arg.help("Group whose cpu.* files --set changes")))]
pub(crate) struct ExplainArguments {
    /// Experiment file (TOML), or the folder of a recording
    #[arg(
        value_name = "EXP.toml|RECORDING",
        required_unless_present = "command",
        conflicts_with = "command"
    )]
    pub subject: Option<PathBuf>,
    #[command(flatten)]
    pub columns: ColumnArguments,
    #[command(flatten)]
    pub target: Target,
    /// Seed of the run
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    #[command(flatten)]
    pub length: Length,
    /// From this simulated time on, such as 1.5s or 250ms
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// Decisions about threads of this name
    #[arg(long, value_name = "NAME")]
    pub task: Option<String>,
    /// Decisions of this kind
    #[arg(long, value_parser = one_of::<Kind>())]
    pub kind: Option<Kind>,
    /// How many decisions
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// The first decision in which two variants differ, from both sides
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["at", "task", "kind", "count"])]
    pub diff: Option<Vec<String>>,
    /// With --diff: the first decision that was made from something else, whatever was decided
    #[arg(long, requires = "diff")]
    pub inputs: bool,
    /// Write the decisions as JSON to FILE, or to standard output with - instead of the text
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Command to explain, as typed in a shell
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Runs the verb.
pub(crate) fn run<S>(arguments: &ExplainArguments, call: &mut Call<S>) -> Result<()> {
    output::refuse_unwritable([arguments.json.as_ref()])?;
    let at_ns = arguments.at.as_deref().map(time).transpose()?;
    let simulator = Simulator::new().drawing();
    let scenarios = scenarios(arguments, &simulator, &mut call.err)?;
    say_backgrounds(&scenarios, &simulator)?;
    let (text, json) = match &arguments.diff {
        Some(names) => {
            let asked = [names[0].as_str(), &names[1]];
            let [a, b] = asked.map(|name| named(&scenarios, name, &asked));
            let (a, b) = (a?, b?);
            let compared = match arguments.inputs {
                true => Compared::Inputs,
                false => Compared::Answers,
            };
            let found = difference(&simulator, a, b, arguments.seed, compared)?;
            let text = difference_text(found.as_ref(), a, b, arguments.seed);
            let json = difference_json(found.as_ref(), a, b, arguments.seed);
            (text, json)
        }
        None => {
            let wanted = Wanted {
                at_ns,
                task: arguments.task.clone(),
                kind: arguments.kind,
                count: arguments.count as usize,
                of_replay: arguments.subject.as_deref().is_some_and(Path::is_dir),
            };
            let scenario = chosen(arguments, &scenarios)?;
            let told = decisions(&simulator, scenario, arguments.seed, &wanted)?;
            let texts: Vec<&str> = told.iter().map(|one| one.text.as_str()).collect();
            let json = decisions_json(&told, scenario, arguments.seed);
            (texts.join("\n"), json)
        }
    };
    output::give(&text, || Ok(json), arguments.json.as_deref(), &mut call.out)
}

/// The time behind `--at`.
fn time(text: &str) -> Result<u64> {
    let source = Source::of_command_line("--at", text);
    let place = Place::new(&source, 0..text.len());
    parse_duration_ns(text).map_err(|why| Error::input(&place, why))
}

/// All variants; one that `--variant` names and that is there is not opened a second time: the
/// settings behind its name are for it, as `run` takes them.
fn scenarios(
    arguments: &ExplainArguments,
    simulator: &Simulator,
    err: &mut impl Write,
) -> Result<Vec<Scenario>> {
    let subject = match &arguments.subject {
        None => Subject::Command(arguments.command.clone()),
        Some(path) if path.is_dir() => recording(path, simulator)?,
        Some(path) => Subject::file(path),
    };
    let cgroup = target::in_subject(&arguments.target, &subject)?;
    let mut columns = arguments.columns.0.clone();
    let asked = std::mem::take(&mut columns.variants);
    let mut question = Question {
        cgroup,
        columns,
        duration: arguments.length.time(),
        ..Question::of(subject)
    };
    let opens_some = asked.iter().any(|(_, settings)| !settings.is_empty());
    let there = match (opens_some, &question.subject) {
        (true, Subject::File { .. }) => {
            // Settings for all columns may be refused in another variant than the named one.
            let as_it_is = Question::of(question.subject.clone());
            as_it_is.experiment()?.scenarios
        }
        (true, _) => question.experiment()?.scenarios,
        (false, _) => Vec::new(),
    };
    let is_there = |name: &str| there.iter().any(|scenario| scenario.name == name);
    if let (Subject::File { only, .. }, [(name, settings)]) = (&mut question.subject, &asked[..])
        && arguments.diff.is_none()
        && (settings.is_empty() || is_there(name))
    {
        // Only this variant is explained.
        *only = Some(name.clone());
    }
    for (name, settings) in asked {
        if !is_there(&name) {
            question.columns.variants.push((name, settings));
        } else if arguments.diff.is_none() {
            question.columns.leading.extend(settings);
        } else {
            let message = format!("`{name}` is there, and --diff compares variants as they are");
            return Err(Error::usage(message).hint("open one of another name for its settings"));
        }
    }
    if !opens_some {
        // All are names of what is there.
        question.columns.variants.clear();
    }
    say_oddities(&question, err)?;
    say(&question.columns.notes(), err);
    Ok(question.experiment()?.scenarios)
}

/// The variant called `name`; `asked` are all that are asked for.
fn named<'a>(scenarios: &'a [Scenario], name: &str, asked: &[&str]) -> Result<&'a Scenario> {
    let found = scenarios.iter().find(|scenario| scenario.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = scenarios.iter().map(|one| one.name.as_str()).collect();
        let is_kernel = |name: &&&str| name.starts_with(|letter: char| letter.is_ascii_digit());
        let missing = asked.iter().filter(|name| !names.contains(*name));
        let kernels: Vec<String> = missing
            .filter(is_kernel)
            .map(|name| format!("--kernel {name}"))
            .collect();
        let hint = match nearest(name, names.iter().copied()) {
            None if is_kernel(&&name) => match &kernels[..] {
                [one] => format!("{one} opens a variant of that name"),
                several => format!("{} open variants of those names", several.join(" ")),
            },
            _ => hint_for(name, &names),
        };
        Error::usage(format!("there is no variant `{name}`")).hint(hint)
    })
}

/// The variant that the command line names or opens, or the only one.
fn chosen<'a>(arguments: &ExplainArguments, scenarios: &'a [Scenario]) -> Result<&'a Scenario> {
    let names = |names: Vec<&str>| names.join(", ");
    match (&arguments.columns.0.variants[..], scenarios) {
        ([(name, _)], _) => named(scenarios, name, &[name]),
        ([], [only]) => Ok(only),
        ([], several) => {
            let error = Error::usage(format!("there are {} variants", several.len()));
            let several = names(several.iter().map(|one| one.name.as_str()).collect());
            Err(error.hint(format!("choose one with --variant: {several}")))
        }
        (several, _) => {
            let several: Vec<&str> = several.iter().map(|(name, _)| name.as_str()).collect();
            let message = format!(
                "{} variants are asked for: {}",
                several.len(),
                names(several)
            );
            Err(Error::usage(message).hint("explain one of them, or two with --diff A B"))
        }
    }
}
