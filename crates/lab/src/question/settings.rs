//! Settings as they are typed, and the columns they belong to.
//!
//! `--set kernel.hz=250 --variant more --kernel 6.12` is one leading setting, and the column `more`
//! with the setting `kernel.version = "6.12"`, for which `--kernel` is short. A column without a
//! name of its own is called by its settings: `version=6.12`.

use schedcast_workload::replay::ClientLoop;

use crate::error::{Result, Source};
use crate::experiment::document::{self, CGROUP_FILE_PREFIXES};
use crate::experiment::kernel::names::note_of_build;

/// The key that says when the clients of a recording ask.
pub const CLIENTS: &str = "program.recording.client";

/// The values of that key.
pub fn client_loops() -> [&'static str; 3] {
    ClientLoop::NAMED.map(|(name, _)| name)
}

/// One setting as typed: a `--set KEY=VALUE` or a flag that is short for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// `--set KEY=VALUE`.
    Set(String),
    /// A flag, the key it sets and its argument: `--kernel`, `kernel.version`, `6.12`.
    Flag {
        /// The flag with its dashes.
        flag: &'static str,
        /// Section and key.
        key: [&'static str; 2],
        /// Argument as typed.
        argument: String,
    },
}

impl Setting {
    /// The setting as a layer over an experiment; `cgroup` is the group that `cpu.*` files belong
    /// to.
    ///
    /// # Errors
    /// Description of the mistake in the argument, at its place.
    pub(super) fn layer(&self, cgroup: Option<&str>) -> Result<document::Table> {
        match self {
            Setting::Set(argument) => {
                document::parse_setting(&Source::of_command_line("--set", argument), cgroup)
            }
            Setting::Flag {
                flag,
                key,
                argument,
            } => Ok(document::flag_setting(flag, *key, argument)),
        }
    }

    /// The key that it sets, as typed.
    pub fn key(&self) -> String {
        match self {
            Setting::Set(argument) => {
                let key = argument.split('=').next();
                key.unwrap_or_default().trim().to_owned()
            }
            Setting::Flag { key, .. } => key.join("."),
        }
    }

    /// Whether it says which kernel or tree is simulated.
    pub fn names_kernel(&self) -> bool {
        ["kernel.version", "kernel.tree"].contains(&self.key().as_str())
    }

    /// Whether it says when the clients of a recording ask.
    pub fn names_clients(&self) -> bool {
        matches!(self, Setting::Set(_)) && self.key() == CLIENTS
    }

    /// Whether it says on which machine it runs.
    fn names_machine(&self) -> bool {
        self.key() == "machine.preset"
    }

    /// The flag, where it is not a `--set`.
    pub fn flag(&self) -> Option<&'static str> {
        match self {
            Setting::Flag { flag, .. } => Some(flag),
            Setting::Set(_) => None,
        }
    }

    fn is_cgroup_file(&self) -> bool {
        let Setting::Set(argument) = self else {
            return false;
        };
        CGROUP_FILE_PREFIXES
            .iter()
            .any(|prefix| argument.trim_start().starts_with(prefix))
    }

    /// The setting in a column's name.
    pub(super) fn label(&self) -> String {
        match self {
            Setting::Set(argument) => argument.trim().to_string(),
            Setting::Flag {
                key: [_, name],
                argument,
                ..
            } => format!("{name}={argument}"),
        }
    }
}

/// Settings in the order they were typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// Before the first `--variant`.
    pub leading: Vec<Setting>,
    /// Every `--variant` with the settings behind it.
    pub variants: Vec<(String, Vec<Setting>)>,
}

impl Columns {
    /// A column for each name, with one setting.
    pub fn set(columns: &[(&str, &str)]) -> Self {
        let column = |&(name, setting): &(&str, &str)| {
            (name.to_string(), vec![Setting::Set(setting.to_string())])
        };
        Self {
            leading: Vec::new(),
            variants: columns.iter().map(column).collect(),
        }
    }

    /// Notes on kernels asked for by a flag that are a vendor's build of a release, and on flags of
    /// the machine that hold for the last of several variants only.
    pub fn notes(&self) -> Vec<String> {
        let builds = self.builds_asked_for();
        builds.into_iter().chain(self.flags_of_the_last()).collect()
    }

    /// Flags such as `--cpus` at the end of a command line are often meant for all columns.
    fn flags_of_the_last(&self) -> Vec<String> {
        let Some(((name, settings), others @ [_, ..])) = self.variants.split_last() else {
            return Vec::new();
        };
        let notes = settings.iter().filter_map(|setting| {
            let Setting::Flag { flag, key, .. } = setting else {
                return None;
            };
            let is_own =
                |one: &Setting| matches!(one, Setting::Flag { key: own, .. } if own == key);
            let mut others = others.iter().flat_map(|(_, settings)| settings);
            let is_of_machine = key[0] == "machine" || *flag == "--hz";
            (is_of_machine && !others.any(is_own)).then(|| {
                format!(
                    "`{flag}` behind `--variant {name}` holds for that column only, and in front \
                     of the first `--variant` for all"
                )
            })
        });
        notes.collect()
    }

    fn builds_asked_for(&self) -> Vec<String> {
        let added = self.variants.iter().flat_map(|(_, settings)| settings);
        let notes = self.leading.iter().chain(added).filter_map(|setting| {
            let Setting::Flag {
                key: ["kernel", "version"],
                argument,
                ..
            } = setting
            else {
                return None;
            };
            note_of_build(argument)
        });
        notes.collect()
    }

    /// Whether there are further columns, each says which kernel or tree it is about, or each on
    /// which machine it runs, and nobody asks for the first column by naming its own.
    pub(super) fn replace_the_default(&self) -> bool {
        let all = |names_one: fn(&Setting) -> bool| {
            let mut columns = self.variants.iter();
            !self.leading.iter().any(names_one)
                && columns.all(|(_, settings)| settings.iter().any(names_one))
        };
        !self.variants.is_empty() && (all(Setting::names_kernel) || all(Setting::names_machine))
    }

    /// Whether any setting is one of a cgroup's files, so that its group must be known.
    pub(super) fn set_cgroup_files(&self) -> bool {
        let added = self.variants.iter().flat_map(|(_, settings)| settings);
        let mut all = self.leading.iter().chain(added);
        all.any(Setting::is_cgroup_file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_all_name_a_machine_need_no_default_one() {
        let column = |key: [&'static str; 2], argument: &str| {
            let setting = Setting::Flag {
                flag: "--flag",
                key,
                argument: argument.to_string(),
            };
            (argument.to_string(), vec![setting])
        };
        let (machine, kernel) = (["machine", "preset"], ["kernel", "version"]);
        let replace = |variants: &[(String, Vec<Setting>)]| {
            let columns = Columns {
                variants: variants.to_vec(),
                ..Columns::default()
            };
            columns.replace_the_default()
        };
        let machines = ["hybrid-24", "generic-8"].map(|name| column(machine, name));
        assert!(replace(&machines) && !replace(&[]));
        let kernels = ["6.1", "6.12"].map(|name| column(kernel, name));
        assert!(replace(&kernels));
        let mixed = [machines[0].clone(), kernels[0].clone()];
        assert!(!replace(&mixed), "neither is held against the other");
    }

    #[test]
    fn a_flag_of_the_machine_behind_the_last_of_several_variants_is_told() {
        let flag = |flag: &'static str, key| Setting::Flag {
            flag,
            key,
            argument: "2".to_owned(),
        };
        let cpus = || flag("--cpus", ["machine", "cpus"]);
        let notes = |variants: &[Vec<Setting>]| {
            let named = |settings: &Vec<Setting>| ("off".to_owned(), settings.clone());
            let columns = Columns {
                variants: variants.iter().map(named).collect(),
                ..Columns::default()
            };
            columns.notes()
        };
        let told = "`--cpus` behind `--variant off` holds for that column only, and in front of \
                    the first `--variant` for all";
        assert_eq!(notes(&[vec![], vec![cpus()]]), [told]);
        let tree = flag("--tree", ["kernel", "tree"]);
        for meant in [
            vec![vec![cpus()]],
            vec![vec![cpus()]; 2],
            vec![vec![], vec![tree]],
        ] {
            assert!(notes(&meant).is_empty(), "{meant:?}");
        }
    }
}
