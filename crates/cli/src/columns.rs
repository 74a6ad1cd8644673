//! Flags whose order matters: each `--variant` opens a column for the settings behind it.
//!
//! The derive form of the argument parser keeps one list for each flag and loses their order, so
//! these flags are read by their positions.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use schedcast_lab::question::{Columns, Setting};

/// The flag for another kernel.
const KERNEL: &str = "--kernel";
const KERNEL_KEY: [&str; 2] = ["kernel", "version"];
/// The flag for a kernel tree.
const TREE: &str = "--tree";

/// Rows of flag, key, placeholder and help.
macro_rules! shorthands {
    ($($flag:expr, $key:expr, $placeholder:literal: $help:literal;)*) => {
        [$(($flag, $key, $placeholder, $help)),*]
    };
}

/// Flags that are short for one setting.
const SHORTHANDS: [(&str, [&str; 2], &str, &str); 6] = shorthands! {
    "--machine", ["machine", "preset"], "PRESET": "Machine: a preset or a file";
    "--cpus", ["machine", "cpus"], "N": "Number of CPUs of the machine";
    "--background", ["machine", "background"], "RECORDING":
        "Recording of an idle machine to run beside the programs, or none";
    KERNEL, KERNEL_KEY, "V": "Kernel version, such as 5.14 or 6.12.117";
    TREE, ["kernel", "tree"], "PATH": "Kernel tree whose own C decides instead of the rules";
    "--hz", ["kernel", "hz"], "N": "Timer frequency: 100, 250, 300 or 1000";
};

/// The settings of a command line, by column.
#[derive(Clone, Debug, Default)]
pub(crate) struct ColumnArguments(pub Columns);

fn argument(flag: &'static str, placeholder: &'static str, help: &'static str) -> Arg {
    let name = flag.trim_start_matches('-');
    Arg::new(name)
        .long(name)
        .value_name(placeholder)
        .help(help)
        .allow_negative_numbers(true)
        .action(ArgAction::Append)
}

impl Args for ColumnArguments {
    fn augment_args(command: Command) -> Command {
        let command = command
            .arg(argument(
                "--set",
                "KEY=VALUE",
                "Change one setting; may be repeated: of one key, each value is a column",
            ))
            .arg(argument(
                "--variant",
                "NAME",
                "Open a column for the settings that follow",
            ));
        SHORTHANDS
            .iter()
            .fold(command, |command, (flag, _, placeholder, help)| {
                command.arg(argument(flag, placeholder, help))
            })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Effect of one occurrence of a flag: it opens a column or changes a setting of the open one.
enum Step {
    Open(String),
    Change(Setting),
}

/// Key of a setting: two of them in one column contradict each other. Kernels and trees are of one
/// kind.
fn subject(setting: &Setting) -> String {
    match setting.names_kernel() {
        true => "kernel".to_owned(),
        false => setting.key(),
    }
}

/// Keys that are set more than once, in the order of their first settings.
fn repeated(settings: &[Setting]) -> Vec<String> {
    let keys: Vec<String> = settings.iter().map(subject).collect();
    let is_repeated = |at: &usize| {
        let count = keys.iter().filter(|key| **key == keys[*at]).count();
        count > 1 && !keys[..*at].contains(&keys[*at])
    };
    (0..keys.len())
        .filter(is_repeated)
        .map(|at| keys[at].clone())
        .collect()
}

/// Several values of one key in front of all columns are meant to be compared: a column for each.
/// One value holds for all columns.
fn one_each(mut columns: Columns) -> Result<Columns, clap::Error> {
    let refuse = |text: String| clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, text);
    for (name, settings) in &columns.variants {
        if let Some(key) = repeated(settings).first() {
            return Err(refuse(format!(
                "the column {name:?} sets {key} twice\nhint: --variant NAME opens a column for each value\n"
            )));
        }
    }
    let keys = repeated(&columns.leading);
    let key = match &keys[..] {
        [] => return Ok(columns),
        [key] => key,
        [one, other, ..] => {
            return Err(refuse(format!(
                "{one} and {other} are both set more than once\nhint: --variant NAME opens a column for the settings behind it\n"
            )));
        }
    };
    let leading = std::mem::take(&mut columns.leading);
    let (values, others) = leading
        .into_iter()
        .partition::<Vec<_>, _>(|setting| subject(setting) == *key);
    columns.leading = others;
    let name = |setting: &Setting| match setting {
        Setting::Flag { argument, .. } => argument.clone(),
        Setting::Set(argument) => argument.trim().to_owned(),
    };
    let whole: Vec<String> = values.iter().map(name).collect();
    let opened = values.into_iter().enumerate().map(|(row, setting)| {
        let name = match setting {
            Setting::Flag { .. } => column_name(&whole, row),
            Setting::Set(_) => whole[row].clone(),
        };
        (name, vec![setting])
    });
    columns.variants.splice(0..0, opened);
    Ok(columns)
}

/// A tree is known by its folder, `linux-6.12` for `../linux-6.12/`, and by those above it as far
/// as another tree of the command line has the same: `a/linux` and `b/linux`.
fn column_name(arguments: &[String], row: usize) -> String {
    let parts = |argument: &str| -> Vec<String> {
        let parts = argument.trim_end_matches('/').rsplit('/');
        parts.map(str::to_owned).collect()
    };
    let own = parts(&arguments[row]);
    let others = arguments.iter().enumerate();
    let others = others.filter(|(other, argument)| *other != row && parts(argument) != own);
    let in_common = others.map(|(_, argument)| {
        let pairs = parts(argument).into_iter().zip(&own);
        pairs.take_while(|(other, own)| other == *own).count()
    });
    let used = in_common.max().unwrap_or(0) + 1;
    let mut used: Vec<String> = own.into_iter().take(used).collect();
    used.reverse();
    used.join("/")
}

/// The column of another kernel that stands behind `flag`, named by its version.
pub(crate) fn kernel_column(flag: &'static str, version: &str) -> (String, Vec<Setting>) {
    let setting = Setting::Flag {
        flag,
        key: KERNEL_KEY,
        argument: version.to_string(),
    };
    (version.to_string(), vec![setting])
}

impl FromArgMatches for ColumnArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ColumnArguments, clap::Error> {
        let mut steps: Vec<(usize, Step)> = Vec::new();
        let mut collect = |name: &str, step: &dyn Fn(String) -> Step| {
            let positions = matches.indices_of(name).into_iter().flatten();
            let values = matches.get_many::<String>(name).into_iter().flatten();
            steps.extend(
                positions
                    .zip(values)
                    .map(|(position, value)| (position, step(value.clone()))),
            );
        };
        collect("set", &|value| Step::Change(Setting::Set(value)));
        collect("variant", &Step::Open);
        for (flag, key, ..) in SHORTHANDS {
            collect(flag.trim_start_matches('-'), &|mut argument| {
                // The shell's folder, not that of the experiment file.
                if flag == TREE
                    && let Ok(path) = std::path::absolute(&argument)
                {
                    argument = path.display().to_string();
                }
                Step::Change(Setting::Flag {
                    flag,
                    key,
                    argument,
                })
            });
        }
        steps.sort_by_key(|(position, _)| *position);
        let mut columns = Columns::default();
        for (_, step) in steps {
            match (step, columns.variants.last_mut()) {
                (Step::Open(name), _) => columns.variants.push((name, Vec::new())),
                (Step::Change(setting), Some((_, settings))) => settings.push(setting),
                (Step::Change(setting), None) => columns.leading.push(setting),
            }
        }
        one_each(columns).map(ColumnArguments)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::column_name;

    #[test]
    fn a_tree_is_named_by_as_many_folders_as_tell_it_from_others() {
        let names = |paths: &[&str]| -> Vec<String> {
            let paths: Vec<String> = paths.iter().map(|path| path.to_string()).collect();
            (0..paths.len())
                .map(|row| column_name(&paths, row))
                .collect()
        };
        assert_eq!(names(&["/src/linux-6.12/", "/src/b"]), ["linux-6.12", "b"]);
        assert_eq!(names(&["/a/linux", "/b/linux"]), ["a/linux", "b/linux"]);
        assert_eq!(
            names(&["/a/x/linux", "/b/x/linux/", "/c/linux", "6.12"]),
            ["a/x/linux", "b/x/linux", "c/linux", "6.12"]
        );
        // The same one twice stays the same, and is refused by its name.
        assert_eq!(names(&["/a/linux", "/a/linux"]), ["linux", "linux"]);
    }
}
