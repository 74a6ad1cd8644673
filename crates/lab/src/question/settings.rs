//! Settings as they are typed, and the columns they belong to.
//!
//! `--set kernel.hz=250 --variant more --kernel 6.12` is one leading setting, and the column `more`
//! with the setting `kernel.version = "6.12"`, for which `--kernel` is short. A column without a
//! name of its own is called by its settings: `version=6.12`.

use schedcast_kernel::rules::Version;

use crate::error::Result;
use crate::experiment::document::{self, CGROUP_FILE_PREFIXES};

/// The key that says when the clients of a recording ask.
pub const CLIENTS: &str = "program.recording.client";

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
            Setting::Set(argument) => document::parse_setting(argument, "--set", cgroup),
            Setting::Flag {
                flag,
                key,
                argument,
            } => Ok(document::flag_setting(flag, *key, argument)),
        }
    }

    /// Whether it says by a flag which kernel or tree is simulated.
    pub(super) fn names_kernel(&self) -> bool {
        matches!(self, Setting::Flag { key: ["kernel", key], .. } if ["version", "tree"].contains(key))
    }

    /// Whether it says when the clients of a recording ask.
    pub(super) fn names_clients(&self) -> bool {
        let key = |argument: &String| argument.split('=').next().map(str::trim) == Some(CLIENTS);
        matches!(self, Setting::Set(argument) if key(argument))
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

    /// A note on each kernel asked for by a flag that is a vendor's build of a release.
    pub fn builds_asked_for(&self) -> Vec<String> {
        let added = self.variants.iter().flat_map(|(_, settings)| settings);
        let notes = self.leading.iter().chain(added).filter_map(|setting| {
            let Setting::Flag {
                flag: "--kernel",
                argument,
                ..
            } = setting
            else {
                return None;
            };
            let (version, _) = Version::modelled(argument).ok()?;
            let of_release = |letter: char| "v.".contains(letter) || letter.is_ascii_digit();
            let is_build = argument.contains(|letter| !of_release(letter));
            is_build.then(|| {
                format!(
                    "{argument} is simulated as {version}: what its builder changed is not known"
                )
            })
        });
        notes.collect()
    }

    /// Whether there are further columns, each says by a flag which kernel or tree it is about, and
    /// nobody asks for the first column by naming its kernel.
    pub(super) fn all_name_a_kernel(&self) -> bool {
        let names_one = Setting::names_kernel;
        let mut columns = self.variants.iter();
        !self.variants.is_empty()
            && !self.leading.iter().any(names_one)
            && columns.all(|(_, settings)| settings.iter().any(names_one))
    }

    /// Whether any setting is one of a cgroup's files, so that its group must be known.
    pub(super) fn set_cgroup_files(&self) -> bool {
        let added = self.variants.iter().flat_map(|(_, settings)| settings);
        let mut all = self.leading.iter().chain(added);
        all.any(Setting::is_cgroup_file)
    }
}
