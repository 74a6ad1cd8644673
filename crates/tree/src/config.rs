//! Options of a kernel's configuration that matter to its scheduler, taken from a `.config` where
//! one is given.
//!
//! Worked example: of the several thousand lines of a distribution's configuration,
//! `CONFIG_HZ_250=y`, `CONFIG_PREEMPT_VOLUNTARY=y` and a dozen more are kept; drivers, file systems
//! and architectures are not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::lists::list;

/// Options of which one excludes the others.
const CHOICES: &[&[&str]] = &[
    &["HZ_100", "HZ_250", "HZ_300", "HZ_1000"],
    &[
        "PREEMPT_NONE",
        "PREEMPT_VOLUNTARY",
        "PREEMPT",
        "PREEMPT_LAZY",
    ],
    &["IRQ_TIME_ACCOUNTING", "TICK_CPU_ACCOUNTING"],
];

/// Options of a tree's own: on by default, in use in `kernel/sched`, and in no release. What is
/// configured asks nobody and would leave them off.
///
/// Worked example: a patch adds `config SCHED_KDEV` with `default y` to `init/Kconfig` and an
/// `#ifdef CONFIG_SCHED_KDEV` to `fair.c`.
pub(crate) fn own_options(tree: &Path) -> Vec<String> {
    let files = |folder: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(tree.join(folder));
        let entries = entries.into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let is_named = |path: &PathBuf, fits: fn(&str) -> bool| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        fits(&name)
    };
    let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let mut kconfigs: Vec<PathBuf> = ["init", "kernel", "kernel/sched"].map(files).concat();
    kconfigs.retain(|path| is_named(path, |name| name.starts_with("Kconfig")));
    let mut names: Vec<String> = kconfigs
        .iter()
        .flat_map(|path| on_by_default(&read(path)))
        .collect();
    names.retain(|name| !list("options of releases").contains(&name.as_str()));
    if names.is_empty() {
        return names;
    }
    let mut sources = files("kernel/sched");
    sources.retain(|path| is_named(path, |name| name.ends_with(".c") || name.ends_with(".h")));
    let sources: String = sources.iter().map(read).collect();
    let used: BTreeSet<&str> = sources
        .split(|byte: char| !byte.is_ascii_alphanumeric() && byte != '_')
        .filter_map(|word| word.strip_prefix("CONFIG_"))
        .collect();
    names.retain(|name| used.contains(name.as_str()));
    names.sort();
    names.dedup();
    names
}

/// Names of the options in the text of a Kconfig file that are `y` by default.
fn on_by_default(text: &str) -> Vec<String> {
    let (mut names, mut current) = (Vec::new(), None);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["config" | "menuconfig", name] => current = Some(name),
            ["default" | "def_bool", "y", ..] => names.extend(current.map(str::to_owned)),
            _ => {}
        }
    }
    names
}

/// Options of a kernel, without the prefix `CONFIG_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    options: BTreeMap<String, String>,
}

impl Default for Config {
    /// 1000 Hz, voluntary preemption, groups with limits, all levels of a machine.
    fn default() -> Self {
        let mut config = Self {
            options: BTreeMap::new(),
        };
        config.read(include_str!("../overlay/base.config"), |_| true);
        config
    }
}

impl Config {
    /// The defaults with what a kernel's `.config` says of the scheduler in their place.
    pub fn of(text: &str) -> Self {
        let mut config = Self::default();
        config.read(text, |name| list("options taken over").contains(&name));
        config
    }

    /// Sets one option of [`Config::of`]'s and clears those that it excludes.
    pub fn set(&mut self, name: &str, value: &str) {
        if value == "y" {
            let others = CHOICES.iter().filter(|choice| choice.contains(&name));
            for other in others.flat_map(|choice| choice.iter()) {
                self.options.remove(*other);
            }
        }
        if value == "n" {
            self.options.remove(name);
        } else {
            self.options.insert(name.to_string(), value.to_string());
        }
        // Clamps of groups need those of tasks, and these and energy models the governor that they
        // were made for.
        let (clamps, energy) = (self.has("UCLAMP_TASK"), self.has("ENERGY_MODEL"));
        for (needed, is_needed) in [
            ("UCLAMP_TASK_GROUP", clamps),
            ("CPU_FREQ", clamps || energy),
            ("CPU_FREQ_GOV_SCHEDUTIL", clamps || energy),
        ] {
            if is_needed {
                self.options.insert(needed.into(), "y".into());
            } else {
                self.options.remove(needed);
            }
        }
        // The architecture's part in lazy preemption, which the tree's own configuration asks for.
        if self.has("PREEMPT_LAZY") {
            self.options.insert("SCHEDCAST_LAZY".into(), "y".into());
        } else {
            self.options.remove("SCHEDCAST_LAZY");
        }
    }

    /// Ticks a second of an object, by the configuration beside it; 1000 where there is none.
    pub(crate) fn hz_of(object: &Path) -> u32 {
        let text = std::fs::read_to_string(object.with_file_name("config"));
        let config = Config::of(&text.unwrap_or_default());
        let has = |hz: &u32| config.has(&format!("HZ_{hz}"));
        [100, 250, 300].into_iter().find(has).unwrap_or(1000)
    }

    /// Whether an option is `y`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.options.get(name).is_some_and(|value| value == "y")
    }

    fn read(&mut self, text: &str, taken: impl Fn(&str) -> bool) {
        for line in text.lines() {
            if let Some((name, value)) = line
                .strip_prefix("CONFIG_")
                .and_then(|rest| rest.split_once('='))
            {
                if taken(name) {
                    self.set(name, value);
                }
            } else if let Some(name) = line
                .strip_prefix("# CONFIG_")
                .and_then(|rest| rest.strip_suffix(" is not set"))
                && taken(name)
            {
                self.set(name, "n");
            }
        }
    }

    /// As a file that the kernel's own configuration program reads.
    pub fn text(&self) -> String {
        let lines = self.options.iter();
        lines
            .map(|(name, value)| format!("CONFIG_{name}={value}\n"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_gives_the_scheduler_its_options_and_nothing_else() {
        let config = Config::of(
            "CONFIG_HZ_250=y\n# CONFIG_NUMA is not set\nCONFIG_EXT4_FS=y\nCONFIG_IRQ_TIME_ACCOUNTING=y\n",
        );
        assert!(
            config.has("HZ_250")
                && !config.has("HZ_1000")
                && !config.has("NUMA")
                && !config.has("EXT4_FS")
        );
        assert!(config.has("IRQ_TIME_ACCOUNTING") && !config.has("TICK_CPU_ACCOUNTING"));
        assert!(Config::default().has("HZ_1000"));
    }

    #[test]
    fn options_of_a_patch_are_those_of_no_release() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let kconfig = "config MEMBARRIER\n\tbool \"a\"\n\tdefault y\n\
                       config SCHED_KDEV\n\tbool \"b\"\n\tdefault y\n\
                       config SCHED_OFF\n\tbool \"c\"\n\
                       config ELSEWHERE\n\tbool \"d\"\n\tdefault y if SMP\n";
        write("init/Kconfig", kconfig);
        assert!(own_options(folder.path()).is_empty());
        let fair = "#ifdef CONFIG_SCHED_KDEV\n#ifdef CONFIG_SCHED_OFF\n#ifdef CONFIG_MEMBARRIER\n";
        write("kernel/sched/fair.c", fair);
        assert_eq!(own_options(folder.path()), ["SCHED_KDEV"]);
    }
}
