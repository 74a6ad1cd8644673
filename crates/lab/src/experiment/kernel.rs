//! The `[kernel]` section: version, build options, patches, features and tunables.
//!
//! Kernel words are used unchanged. Which of them a version knows and what they do is decided by
//! [`Rules::resolve`] of the kernel crate; here they get their types and their places. Worked
//! example: `version = "6.12"` with `latency_ns = 6000000` in line 3 is refused at line 3, because
//! EEVDF replaced that tunable by `base_slice_ns` in 6.6.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schedcast_base::names::nearest;
use schedcast_host::KernelInfo;
use schedcast_kernel::balance::level_names;
use schedcast_kernel::rules::{
    DEFAULT, DOMAIN_TUNABLES, Feature, KernelChoice, Preemption, Problem, Rules, RulesError,
    TUNABLES, Tunable, Version,
};
use schedcast_kernel::topology::Topology;
use schedcast_tree::trees;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::document::{Entry, Kind, Table, Value, unknown_key};
use super::keys::{Key, SWITCH, Takes, keys, names};
use crate::error::{Error, Located, Place, Result, hint_for};

pub mod names;

/// `version` of the running kernel.
const HOST: &str = "host";

/// Words for preemption models, in experiment files and on the kernel's command line.
const PREEMPTION: [(&str, Preemption); 4] = [
    ("none", Preemption::None),
    ("voluntary", Preemption::Voluntary),
    ("full", Preemption::Full),
    ("lazy", Preemption::Lazy),
];

/// Words of `sched/cgroup_mode`, by number.
const CGROUP_MODES: [&str; 5] = ["up", "smp", "concur", "max", "tasks"];

/// The kernel of one variant.
///
/// As JSON: one object with the keys of the `[kernel]` section, and `stands_for` where that is
/// known.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSettings {
    /// The release whose rules are used; default the newest one that was held against measurements.
    pub version: Version,
    /// The release that was named, where it is newer than the newest known: `version` stands in for
    /// it.
    pub stands_for: Option<Version>,
    /// Ticks per second: 100, 250, 300 or 1000; default 250.
    pub hz: u32,
    /// Preemption model; default voluntary, lazy from 7.0 on.
    pub preempt: Preemption,
    /// The model that the experiment asks for, if it does.
    pub preempt_written: Option<Located<Preemption>>,
    /// Whether that was chosen at boot (PREEMPT_DYNAMIC); default: yes from 5.16, as on x86.
    pub preempt_dynamic: Option<bool>,
    /// CONFIG_IRQ_TIME_ACCOUNTING, whether tasks are not charged for interrupts; default off, as in
    /// Debian's kernels.
    pub irq_time_accounting: bool,
    /// CONFIG_UCLAMP_TASK and CONFIG_UCLAMP_TASK_GROUP, whether tasks and groups may clamp their
    /// utilisation; default off, as without a word in a kernel's configuration.
    pub uclamp: bool,
    /// One group per session for tasks outside any cpu cgroup; default on, as upstream.
    pub autogroup: bool,
    /// Named patches, `-name` to take one away, in file order.
    pub patches: Vec<Located<String>>,
    /// Features as written to `sched/features`, `NO_…` to clear one, in file order.
    pub features: Vec<Located<String>>,
    /// Tunables that were set, by debugfs name.
    pub tunables: BTreeMap<&'static str, Located<i64>>,
    /// Kernel tree whose C decides instead of the rules; its makefile says the version.
    pub tree: Option<Located<PathBuf>>,
    /// Rules that result on the variant's machine.
    pub rules: Rules,
}

impl Serialize for KernelSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let preempt = PREEMPTION.iter().find(|(_, model)| *model == self.preempt);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("version", &self.version.to_string())?;
        if let Some(newer) = self.stands_for {
            map.serialize_entry("stands_for", &newer.to_string())?;
        }
        if let Some(tree) = &self.tree {
            map.serialize_entry("tree", &tree.value)?;
        }
        map.serialize_entry("hz", &self.hz)?;
        map.serialize_entry("preempt", preempt.map_or("", |(name, _)| name))?;
        if let Some(dynamic) = self.preempt_dynamic {
            map.serialize_entry("preempt_dynamic", &dynamic)?;
        }
        if self.irq_time_accounting {
            map.serialize_entry("irq_time_accounting", &true)?;
        }
        if self.uclamp {
            map.serialize_entry("uclamp", &true)?;
        }
        map.serialize_entry("autogroup", &self.autogroup)?;
        map.serialize_entry("patches", &words(&self.patches))?;
        map.serialize_entry("features", &words(&self.features))?;
        for (name, value) in &self.tunables {
            map.serialize_entry(name, &value.value)?;
        }
        map.end()
    }
}

fn words(words: &[Located<String>]) -> Vec<&str> {
    words.iter().map(|word| word.value.as_str()).collect()
}

/// Keys of `[kernel]` that are not tunables.
pub(crate) const KEYS: [Key; 12] = keys! {
    "version" => Takes::Words("a release such as `\"6.12\"` or `\"6.1.140\"`, or `host`"),
        "the newest that was held against measurements",
        "The release. One that is newer than the newest known has the rules of that. `host` takes the other keys from the running kernel, too.";
    "tree" => Takes::Words("path of a folder with kernel sources, or `\"\"`"),
        "`\"\"`: the rules of the release",
        "A kernel tree whose own C decides, compiled and run in virtual time. Its makefile says the version.";
    "hz" => Takes::Words("100, 250, 300 or 1000 ticks a second"), "250", "`CONFIG_HZ`.";
    "patches" => Takes::Words("array of names; `-NAME` takes one away"), "those of the release",
        "Changes of the kernel: `schedcast list patches`.";
    "recorded_patches" => Takes::Words("array of names"), "none",
        "Changes that a recording shows; they count where neither `patches` nor a `tree` is given.";
    "features" => Takes::Words("array of names, `NO_` in front to clear"), "those of the release",
        "As written to `sched/features`.";
    "preempt" => Takes::Words("`none`, `voluntary`, `full` or `lazy`"),
        "`voluntary`; `lazy` from 7.0 on", "Preemption model.";
    "preempt_dynamic" => SWITCH, "`true` from 5.16 on",
        "Whether the model was chosen at boot (`PREEMPT_DYNAMIC`).";
    "irq_time_accounting" => SWITCH, "`false`",
        "Whether tasks are not charged for interrupts (`CONFIG_IRQ_TIME_ACCOUNTING`).";
    "uclamp" => SWITCH, "`false`",
        "Whether tasks and groups may clamp their utilisation (`CONFIG_UCLAMP_TASK`, `CONFIG_UCLAMP_TASK_GROUP`); from 6.1 on.";
    "autogroup" => SWITCH, "`true`",
        "Whether each session has a group of its own outside any cpu cgroup.";
    DOMAINS => Takes::Words("a table for each level: `SMT`, `CLS`, `MC`, `PKG`, `NODE`, `NUMA`"), "",
        "Numbers of that level's domains on every CPU, see below; `--set kernel.domains.MC.busy_factor=4`.";
};

/// The key whose tables hold tunables of domains.
const DOMAINS: &str = "domains";

fn valid_keys(plain: &[&'static str]) -> Vec<&'static str> {
    let mut keys = plain.to_vec();
    keys.extend(
        TUNABLES
            .iter()
            .flat_map(|tunable| [tunable.name, tunable.sysctl]),
    );
    keys.dedup();
    keys
}

/// Places of words that have no place of their own in [`KernelSettings`].
#[derive(Default)]
struct Places {
    hz: Option<Place>,
    preempt: Option<Place>,
    uclamp: Option<Place>,
    /// Keys of tunables as written.
    tunables: Vec<(&'static str, Place)>,
}

impl KernelSettings {
    /// Reads the `[kernel]` section for a machine of `cpus`; an absent one is the default kernel
    /// with default settings. The path of a tree is relative to `directory`.
    ///
    /// # Errors
    /// An unknown word, a value of the wrong type or out of the kernel's range, or something this
    /// version does not have — each with its place.
    pub(crate) fn read(
        section: Option<&Table>,
        cpus: usize,
        directory: &Path,
    ) -> Result<KernelSettings> {
        let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
        let mut settings = KernelSettings {
            version: DEFAULT,
            stands_for: None,
            hz: 250,
            preempt: Preemption::Voluntary,
            preempt_written: None,
            preempt_dynamic: None,
            irq_time_accounting: false,
            uclamp: false,
            autogroup: true,
            patches: Vec::new(),
            features: Vec::new(),
            tunables: BTreeMap::new(),
            tree: None,
            rules: Rules::of(DEFAULT, cpus, 250),
        };
        let empty = Table::default();
        let mut places = Places::default();
        let section = section.unwrap_or(&empty);
        // First, because all other keys of the section override what the host has.
        if let Some(value) = section.get("version") {
            match value.text("") {
                Ok(HOST) => settings.read_host(&value.place)?,
                _ => (settings.version, settings.stands_for) = read_version(value)?,
            }
        }
        if let Some(value) = section.get("tree") {
            settings.read_tree(value, directory)?;
        }
        for entry in &section.entries {
            let value = &entry.value;
            match entry.key.as_str() {
                "version" | "tree" => {}
                "hz" => {
                    settings.hz = read_hz(value)?;
                    places.hz = Some(value.place.clone());
                }
                "preempt" => {
                    settings.preempt = read_preemption(value)?;
                    places.preempt = Some(value.place.clone());
                    settings.preempt_written =
                        Some(Located::new(settings.preempt, value.place.clone()));
                }
                "preempt_dynamic" => {
                    settings.preempt_dynamic = Some(value.boolean("true or false")?);
                }
                "irq_time_accounting" => {
                    settings.irq_time_accounting = value.boolean("true or false")?;
                }
                "uclamp" => {
                    settings.uclamp = value.boolean("true or false")?;
                    places.uclamp = Some(value.place.clone());
                }
                "autogroup" => settings.autogroup = value.boolean("true or false")?,
                "patches" => settings.patches = read_words(value, "patch")?,
                "recorded_patches" => {
                    if settings.tree.is_none() && section.get("patches").is_none() {
                        settings.patches = read_words(value, "patch")?;
                    }
                }
                "features" => settings.features = read_words(value, "feature")?,
                DOMAINS => settings.read_domains(value, &mut places)?,
                _ => settings.read_tunable(entry, &names(&KEYS), &mut places)?,
            }
        }
        settings.resolve(cpus, &places)?;
        settings.check_tree(&places)?;
        Ok(settings)
    }

    /// Path and release of a kernel tree.
    fn read_tree(&mut self, value: &Value, directory: &Path) -> Result<()> {
        let text = value.text("the folder of a kernel tree")?;
        if text.is_empty() {
            return Ok(());
        }
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?));
        let tree = match text
            .strip_prefix("~/")
            .and_then(|rest| Some(home()?.join(rest)))
        {
            Some(tree) => tree,
            None => directory.join(text),
        };
        let refuse = |message: String| Error::input(&value.place, message);
        let Some(release) = trees::version_of(&tree) else {
            let message = format!(
                "{} is no kernel tree: there is no Makefile that says its VERSION",
                tree.display()
            );
            return Err(
                refuse(message).hint("give the folder that holds the kernel's top Makefile")
            );
        };
        let modelled = Version::modelled(&release);
        (self.version, self.stands_for) =
            modelled.map_err(|error| refuse(format!("{}: {error}", tree.display())))?;
        self.tree = Some(Located::new(tree, value.place.clone()));
        Ok(())
    }

    /// Refuses what changes rules where a tree decides.
    fn check_tree(&self, places: &Places) -> Result<()> {
        let Some(tree) = &self.tree else {
            return Ok(());
        };
        let known = trees::features(&tree.value);
        for word in &self.features {
            let name = feature_name(&word.value);
            if !known.iter().any(|feature| feature == name) {
                let message = format!(
                    "{} has no feature `{name}` in kernel/sched/features.h",
                    tree.value.display()
                );
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                return Err(Error::input(&word.place, message).hint(hint_for(name, &known)));
            }
        }
        if let Some(patch) = self.patches.first() {
            let message = format!(
                "`{}` changes the rules, and here a kernel tree decides",
                patch.value
            );
            return Err(Error::input(&patch.place, message).hint("patch a copy of the tree"));
        }
        if let Some((name, place)) = places.tunables.first() {
            let message = format!("`{name}` of a kernel tree cannot be set yet");
            return Err(
                Error::input(place, message).hint("change its default in a copy of the tree")
            );
        }
        Ok(())
    }

    /// Refuses numbers of domains that a machine does not have: they would change nothing.
    ///
    /// # Errors
    /// The first such number, with its place and the levels that there are.
    pub(crate) fn check_domains(&self, topology: &Topology) -> Result<()> {
        let of_level =
            |name: &&'static str| Some(name.strip_prefix("domains.")?.split_once('.')?.0);
        let mut set = self
            .tunables
            .keys()
            .filter_map(|name| Some((name, of_level(name)?)));
        let Some(first) = set.next() else {
            return Ok(());
        };
        let levels = level_names(topology, &self.rules);
        let missing = std::iter::once(first)
            .chain(set)
            .find(|(_, level)| !levels.contains(level));
        missing.map_or(Ok(()), |(name, level)| {
            let message = format!("`{name}`: this machine has no domains of the level {level}");
            let has = match levels.is_empty() {
                true => "a single CPU has none".to_owned(),
                false => format!("it has {}", levels.join(", ")),
            };
            Err(Error::input(&self.tunables[name].place, message).hint(has))
        })
    }

    /// The release that was named, known or not.
    pub fn release(&self) -> Version {
        self.stands_for.unwrap_or(self.version)
    }

    /// Names the release that really ran; the rules stay. A release before the oldest known changes
    /// nothing.
    pub fn name_release(&mut self, release: &str) {
        if let Ok(modelled) = Version::modelled(release) {
            (self.version, self.stands_for) = modelled;
        }
    }

    /// The release for a reader: `6.12.31`, or `7.9.2 (with the rules of 7.3)`.
    pub fn shown(&self) -> String {
        match self.stands_for {
            Some(newer) => format!("{newer} (with the rules of {})", self.version),
            None => self.version.to_string(),
        }
    }

    /// The running kernel: release, build options, and features that are not at their defaults.
    fn read_host(&mut self, place: &Place) -> Result<()> {
        let host = KernelInfo::read().map_err(|error| Error::input(place, error.to_string()))?;
        let modelled = Version::modelled(&host.release);
        (self.version, self.stands_for) =
            modelled.map_err(|error| Error::input(place, format!("this host: {error}")))?;
        self.hz = host.hz.unwrap_or(self.hz);
        self.autogroup = host.autogroup.unwrap_or(self.autogroup);
        let model = PREEMPTION
            .iter()
            .find(|(name, _)| Some(*name) == host.preempt);
        self.preempt = model.map_or(self.preempt, |(_, model)| *model);
        self.preempt_dynamic = host.preempt_dynamic;
        self.irq_time_accounting = host.irq_time_accounting.unwrap_or_default();
        let known = self.version >= schedcast_kernel::uclamp::OLDEST;
        self.uclamp = known && host.uclamp.unwrap_or_default();
        // Not readable everywhere, not even for root.
        let features = std::fs::read_to_string("/sys/kernel/debug/sched/features");
        let words = changed_features(features.as_deref().unwrap_or_default(), self.version);
        self.features = words
            .into_iter()
            .map(|value| Located::new(value, place.clone()))
            .collect();
        Ok(())
    }

    /// Reads what `[at.kernel]` changes while the kernel runs on `cpus`: features and tunables.
    ///
    /// # Errors
    /// As [`KernelSettings::read`], and for keys that are fixed at boot.
    pub(crate) fn read_change(&self, section: &Table, cpus: usize) -> Result<KernelSettings> {
        let mut settings = self.clone();
        let mut places = Places::default();
        if let (Some(_), Some(first)) = (&self.tree, section.entries.first()) {
            let message = format!(
                "`{}` of a kernel tree cannot change during a run",
                first.key
            );
            return Err(Error::input(&first.key_place, message)
                .hint("features hold from the start: `features` of [kernel] or of a variant"));
        }
        for entry in &section.entries {
            match entry.key.as_str() {
                "features" => settings
                    .features
                    .extend(read_words(&entry.value, "feature")?),
                DOMAINS => settings.read_domains(&entry.value, &mut places)?,
                fixed if KEYS.iter().any(|key| key.name == fixed) => {
                    let message = format!("a running kernel cannot change its {fixed}");
                    return Err(Error::input(&entry.key_place, message));
                }
                _ => settings.read_tunable(entry, &["features", DOMAINS], &mut places)?,
            }
        }
        settings.resolve(u32::try_from(cpus).unwrap_or(u32::MAX), &places)?;
        Ok(settings)
    }

    fn read_tunable(
        &mut self,
        entry: &Entry,
        plain: &[&'static str],
        places: &mut Places,
    ) -> Result<()> {
        let Some(tunable) = Tunable::named(&entry.key) else {
            return Err(unknown_key(entry, &valid_keys(plain), "[kernel]"));
        };
        self.set_tunable(tunable, entry, places)
    }

    /// Reads tables of levels, each with the numbers of its domains.
    fn read_domains(&mut self, value: &Value, places: &mut Places) -> Result<()> {
        for level in &value.table("a table for each level of domains")?.entries {
            let start = format!("{DOMAINS}.{}.", level.key);
            let known: Vec<_> = DOMAIN_TUNABLES
                .iter()
                .filter_map(|one| Some((one.name.strip_prefix(&start)?, one)))
                .collect();
            if known.is_empty() {
                let levels = DOMAIN_TUNABLES
                    .iter()
                    .filter_map(|one| one.name.split('.').nth(1));
                let mut levels: Vec<_> = levels.collect();
                levels.dedup();
                return Err(unknown_key(level, &levels, "[kernel.domains]"));
            }
            for entry in &level
                .value
                .table("the numbers of a level's domains")?
                .entries
            {
                match known.iter().find(|(knob, _)| *knob == entry.key) {
                    Some((_, tunable)) => self.set_tunable(tunable, entry, places)?,
                    None => {
                        let knobs: Vec<_> = known.iter().map(|(knob, _)| *knob).collect();
                        let section = format!("[kernel.{}]", start.trim_end_matches('.'));
                        return Err(unknown_key(entry, &knobs, &section));
                    }
                }
            }
        }
        Ok(())
    }

    fn set_tunable(
        &mut self,
        tunable: &'static Tunable,
        entry: &Entry,
        places: &mut Places,
    ) -> Result<()> {
        let value = match &entry.value.kind {
            Kind::Text(word) if tunable.name == "cgroup_mode" => {
                let number = CGROUP_MODES.iter().position(|mode| mode == word);
                let number = number.ok_or_else(|| {
                    let message = format!("unknown mode of groups `{word}`");
                    Error::input(&entry.value.place, message).hint(hint_for(word, &CGROUP_MODES))
                })?;
                number as i64
            }
            _ => entry.value.integer("an integer")?,
        };
        let place = entry.value.place.clone();
        self.tunables.insert(tunable.name, Located { value, place });
        places
            .tunables
            .push((tunable.name, entry.key_place.clone()));
        Ok(())
    }

    /// Turns the words into rules, or finds the place of the word that is wrong.
    fn resolve(&mut self, cpus: u32, places: &Places) -> Result<()> {
        let tunables: Vec<(&str, i64)> = self
            .tunables
            .iter()
            .map(|(name, value)| (*name, value.value))
            .collect();
        let mut features = words(&self.features);
        // Of a tree's own features, which it checks itself, the rules have some.
        features.retain(|word| self.tree.is_none() || is_followed(word, self.version));
        let choice = KernelChoice {
            version: self.version,
            cpus,
            hz: self.hz,
            preemption: self.preempt,
            preempt_dynamic: self.preempt_dynamic,
            irq_time_accounting: self.irq_time_accounting,
            uclamp: self.uclamp,
            autogroup: self.autogroup,
            patches: &words(&self.patches),
            features: &features,
            tunables: &tunables,
        };
        let resolved = Rules::resolve(&choice);
        self.rules = resolved.map_err(|error| self.locate(&error, places))?;
        self.preempt = self.rules.preemption;
        Ok(())
    }

    fn locate(&self, error: &RulesError, places: &Places) -> Error {
        let word = error.word.as_str();
        let listed = self.patches.iter().chain(&self.features);
        let tunable_key = || {
            let found = places.tunables.iter().find(|(name, _)| *name == word);
            found.map(|(_, place)| place.clone())
        };
        let tunable_value = || self.tunables.get(word).map(|value| value.place.clone());
        let place = match error.problem {
            Problem::Hz => places.hz.clone(),
            Problem::NoLazyPreemption => places.preempt.clone(),
            Problem::ClampsUnknown => places.uclamp.clone(),
            Problem::Range { .. } | Problem::AboveOther(_) | Problem::ServersReserveTooMuch => {
                tunable_value()
            }
            // The last of equal words: the first was fine.
            _ => listed
                .rev()
                .find(|listed| listed.value == word)
                .map(|word| word.place.clone()),
        };
        let refused = match place.or_else(tunable_key).or_else(tunable_value) {
            Some(place) => Error::input(&place, error.to_string()),
            None => Error::general(error.to_string()),
        };
        match error.problem {
            Problem::Unknown {
                what: "patch",
                nearest: None,
            } => refused.hint("`schedcast list patches` shows all"),
            _ => refused,
        }
    }
}

/// The feature that a word switches: `LB_MIN` of `NO_LB_MIN`.
pub(crate) fn feature_name(word: &str) -> &str {
    word.strip_prefix("NO_").unwrap_or(word)
}

/// Whether the rules of a version have the feature that a word switches.
fn is_followed(word: &str, version: Version) -> bool {
    Feature::named(feature_name(word))
        .is_some_and(|feature| feature.is_modelled(version) && feature.exists(version))
}

/// Of the words in `sched/features`, those that are not a version's default and change a
/// simulation.
fn changed_features(text: &str, version: Version) -> Vec<String> {
    let changed = |word: &&str| {
        let name = feature_name(word);
        is_followed(word, version)
            && Feature::named(name)
                .is_some_and(|feature| feature.default_in(version) != (name == *word))
    };
    let words = text.split_whitespace().filter(changed);
    words.map(str::to_owned).collect()
}

/// The release to model, and the named one where that is newer than the newest known.
fn read_version(value: &Value) -> Result<(Version, Option<Version>)> {
    if let Kind::Float(_) | Kind::Integer(_) = value.kind {
        return Err(value
            .expected("a kernel version as a string")
            .hint("write version = \"6.12\": as a number 6.10 would be 6.1"));
    }
    let text = value.text("a kernel version such as \"6.12\"")?;
    if let Ok((version, None)) = Version::modelled(text)
        && is_candidate(text)
    {
        let before = Version::releases()
            .filter(|release| *release < version)
            .last();
        let message = format!(
            "`{text}` comes before the release {version}: which changes of it are in is not known"
        );
        let hint = before.map_or(String::new(), |before| {
            format!("`{before}` has none of them, ")
        });
        return Err(Error::input(&value.place, message).hint(format!("{hint}`{version}` all")));
    }
    Version::modelled(text).map_err(|error| {
        let refused = Error::input(&value.place, error.to_string());
        let near = match error.nearest() {
            Some(near) => Some(near.to_string()),
            None => near_release(text),
        };
        if let Some([oldest, newest]) = releases_of_major(text) {
            return refused.hint(format!("releases of {text} are `{oldest}` to `{newest}`"));
        }
        match near {
            Some(near) => refused.hint(format!("the nearest is `{near}`")),
            None => refused.hint("`schedcast list kernels` has all of them"),
        }
    })
}

/// Whether a version names a release candidate: `6.18-rc3`.
fn is_candidate(text: &str) -> bool {
    let number = text.split_once("-rc").map(|(_, number)| number);
    number.is_some_and(|number| number.starts_with(|digit: char| digit.is_ascii_digit()))
}

/// The release that a text of another form is a slip of.
fn near_release(text: &str) -> Option<String> {
    let releases: Vec<String> = Version::releases()
        .map(|release| release.to_string())
        .collect();
    nearest(text, releases.iter().map(String::as_str)).map(str::to_owned)
}

/// The first and the last known release of a major number that is typed alone.
fn releases_of_major(text: &str) -> Option<[Version; 2]> {
    let begin = format!("{}.", text.parse::<u16>().ok()?);
    let is_of_it = |release: &Version| release.to_string().starts_with(&begin);
    let first = Version::releases().find(is_of_it)?;
    Some([first, Version::releases().filter(is_of_it).last()?])
}

fn read_hz(value: &Value) -> Result<u32> {
    let hz = value.integer("a timer frequency")?;
    u32::try_from(hz).map_err(|_| value.expected("a timer frequency"))
}

fn read_preemption(value: &Value) -> Result<Preemption> {
    let text = value.text("a preemption model")?;
    let found = PREEMPTION.iter().find(|(name, _)| *name == text);
    found.map(|(_, model)| *model).ok_or_else(|| {
        let names = PREEMPTION.map(|(name, _)| name);
        Error::input(&value.place, format!("unknown preemption model `{text}`"))
            .hint(hint_for(text, &names))
    })
}

/// An array of words, or one word alone.
fn read_words(value: &Value, what: &str) -> Result<Vec<Located<String>>> {
    if let Kind::Text(word) | Kind::Bare(word) = &value.kind
        && !word.is_empty()
    {
        return Ok(vec![Located::new(word.clone(), value.place.clone())]);
    }
    let mut words = Vec::new();
    for value in value.array(&format!("an array of {what} names"))? {
        let text = value.text(&format!("a {what} name"))?;
        words.push(Located::new(text.to_string(), value.place.clone()));
    }
    Ok(words)
}

#[cfg(test)]
mod tests;
