//! The `[kernel]` section: version, build options, patches, features and tunables.
//!
//! Kernel words are used unchanged. A tunable may be written by its debugfs name (`latency_ns`) or
//! by the sysctl name it had before 5.13 (`sched_latency_ns`); both mean the same setting. Worked
//! example: `version = "6.12"` with `latency_ns = 6000000` is refused, because EEVDF replaced that
//! tunable by `base_slice_ns` in 6.6.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::document::{Entry, Kind, Table, Value, unknown_key};
use crate::error::{Error, Located, Result};

/// A kernel release: `5.14` as tagged, `6.12.117` as that stable kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// First number.
    pub major: u16,
    /// Second number.
    pub minor: u16,
    /// Third number; 0 is the release as tagged.
    pub stable: u16,
}

/// The oldest release whose rules are known.
pub const OLDEST_VERSION: KernelVersion = KernelVersion::release(4, 5);
/// The newest release whose rules are known.
pub const NEWEST_VERSION: KernelVersion = KernelVersion::release(6, 18);

/// Last minor number of each finished major series.
const LAST_MINOR: [(u16, u16); 2] = [(4, 20), (5, 19)];

impl KernelVersion {
    /// The release `major.minor` as tagged.
    pub const fn release(major: u16, minor: u16) -> KernelVersion {
        KernelVersion {
            major,
            minor,
            stable: 0,
        }
    }

    /// Reads `5.14` or `6.12.117`.
    ///
    /// # Errors
    /// What is wrong with the text, to be completed by its place.
    pub fn parse(text: &str) -> std::result::Result<KernelVersion, String> {
        let numbers: Option<Vec<u16>> = text
            .split('.')
            .map(|part| part.parse::<u16>().ok())
            .collect();
        let (major, minor, stable) = match numbers.as_deref() {
            Some([major, minor]) => (*major, *minor, 0),
            Some([major, minor, stable]) => (*major, *minor, *stable),
            _ => {
                return Err(format!(
                    "`{text}` is not a kernel version such as 5.14 or 6.12.117"
                ));
            }
        };
        let version = KernelVersion {
            major,
            minor,
            stable,
        };
        let release = KernelVersion::release(major, minor);
        if !(OLDEST_VERSION..=NEWEST_VERSION).contains(&release) {
            return Err(format!(
                "kernel {text} is outside the known {OLDEST_VERSION} to {NEWEST_VERSION}"
            ));
        }
        let last = LAST_MINOR.iter().find(|(series, _)| *series == major);
        match last {
            Some((_, last)) if minor > *last => Err(format!(
                "there is no kernel {text}: {major}.{last} was the last {major}.x"
            )),
            _ => Ok(version),
        }
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)?;
        if self.stable > 0 {
            write!(formatter, ".{}", self.stable)
        } else {
            Ok(())
        }
    }
}

/// The preemption model of the build, or chosen at boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// `PREEMPT_NONE`.
    None,
    /// `PREEMPT_VOLUNTARY`.
    Voluntary,
    /// `PREEMPT`.
    Full,
    /// `PREEMPT_LAZY`, from 6.13.
    Lazy,
}

impl Preemption {
    const ALL: [(&'static str, Preemption); 4] = [
        ("none", Preemption::None),
        ("voluntary", Preemption::Voluntary),
        ("full", Preemption::Full),
        ("lazy", Preemption::Lazy),
    ];

    /// The word in experiment files and on the kernel's command line.
    pub fn name(self) -> &'static str {
        match self {
            Preemption::None => "none",
            Preemption::Voluntary => "voluntary",
            Preemption::Full => "full",
            Preemption::Lazy => "lazy",
        }
    }
}

/// The kernel of one variant.
///
/// As JSON: one object with the keys of the `[kernel]` section.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSettings {
    /// The release; default the newest known.
    pub version: KernelVersion,
    /// Ticks per second: 100, 250, 300 or 1000; default 250.
    pub hz: u32,
    /// Preemption model; default voluntary.
    pub preempt: Preemption,
    /// One group per session for tasks outside any cpu cgroup; default on, as upstream.
    pub autogroup: bool,
    /// Named patches, `-name` to take one away, in file order.
    pub patches: Vec<Located<String>>,
    /// Features as written to `sched/features`, `NO_…` to clear one, in file order.
    pub features: Vec<Located<String>>,
    /// Tunables that were set, by debugfs name.
    pub tunables: BTreeMap<&'static str, Located<i64>>,
}

impl Serialize for KernelSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let words = |words: &[Located<String>]| -> Vec<String> {
            words.iter().map(|word| word.value.clone()).collect()
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("version", &self.version.to_string())?;
        map.serialize_entry("hz", &self.hz)?;
        map.serialize_entry("preempt", self.preempt.name())?;
        map.serialize_entry("autogroup", &self.autogroup)?;
        map.serialize_entry("patches", &words(&self.patches))?;
        map.serialize_entry("features", &words(&self.features))?;
        for (name, value) in &self.tunables {
            map.serialize_entry(name, &value.value)?;
        }
        map.end()
    }
}

/// One tunable: its names, the releases that have it, and what the kernel accepts.
struct Tunable {
    name: &'static str,
    sysctl: &'static str,
    since: KernelVersion,
    until: KernelVersion,
    least: i64,
    most: i64,
}

impl Tunable {
    const fn new(name: &'static str, sysctl: &'static str, least: i64, most: i64) -> Tunable {
        Tunable {
            name,
            sysctl,
            since: OLDEST_VERSION,
            until: NEWEST_VERSION,
            least,
            most,
        }
    }

    const fn since(mut self, major: u16, minor: u16) -> Tunable {
        self.since = KernelVersion::release(major, minor);
        self
    }

    const fn until(mut self, major: u16, minor: u16) -> Tunable {
        self.until = KernelVersion::release(major, minor);
        self
    }
}

const SECOND_NS: i64 = 1_000_000_000;

/// Every tunable. The CFS ones left with EEVDF in 6.6.
const TUNABLES: [Tunable; 12] = [
    Tunable::new("base_slice_ns", "sched_base_slice_ns", 100_000, SECOND_NS).since(6, 6),
    Tunable::new("latency_ns", "sched_latency_ns", 100_000, SECOND_NS).until(6, 5),
    Tunable::new(
        "min_granularity_ns",
        "sched_min_granularity_ns",
        100_000,
        SECOND_NS,
    )
    .until(6, 5),
    Tunable::new(
        "idle_min_granularity_ns",
        "sched_idle_min_granularity_ns",
        100_000,
        SECOND_NS,
    )
    .since(5, 16)
    .until(6, 5),
    Tunable::new(
        "wakeup_granularity_ns",
        "sched_wakeup_granularity_ns",
        0,
        SECOND_NS,
    )
    .until(6, 5),
    Tunable::new("migration_cost_ns", "sched_migration_cost_ns", 0, i64::MAX),
    Tunable::new("nr_migrate", "sched_nr_migrate", 0, u32::MAX as i64),
    Tunable::new("tunable_scaling", "sched_tunable_scaling", 0, 2),
    Tunable::new(
        "sched_cfs_bandwidth_slice_us",
        "sched_cfs_bandwidth_slice_us",
        1,
        u32::MAX as i64,
    ),
    Tunable::new(
        "sched_rt_period_us",
        "sched_rt_period_us",
        1,
        u32::MAX as i64,
    ),
    Tunable::new(
        "sched_rt_runtime_us",
        "sched_rt_runtime_us",
        -1,
        u32::MAX as i64,
    ),
    Tunable::new(
        "sched_rr_timeslice_ms",
        "sched_rr_timeslice_ms",
        0,
        i32::MAX as i64,
    ),
];

/// Keys of `[kernel]` that are not tunables.
const PLAIN_KEYS: [&str; 6] = [
    "version",
    "hz",
    "patches",
    "features",
    "preempt",
    "autogroup",
];

/// Timer frequencies a kernel can be built with.
const HZ_CHOICES: [u32; 4] = [100, 250, 300, 1000];

fn valid_keys(plain: &[&'static str]) -> Vec<&'static str> {
    let mut keys = plain.to_vec();
    keys.extend(TUNABLES.iter().map(|tunable| tunable.name));
    let sysctls = TUNABLES.iter().map(|tunable| tunable.sysctl);
    keys.extend(sysctls.filter(|name| TUNABLES.iter().all(|tunable| tunable.name != *name)));
    keys
}

impl KernelSettings {
    /// Reads the `[kernel]` section; an absent one is the newest kernel with default settings.
    ///
    /// # Errors
    /// An unknown key, a value of the wrong type or out of the kernel's range, or a tunable that
    /// this version does not have — each with its place.
    pub fn read(section: Option<&Table>) -> Result<KernelSettings> {
        let mut settings = KernelSettings {
            version: NEWEST_VERSION,
            hz: 250,
            preempt: Preemption::Voluntary,
            autogroup: true,
            patches: Vec::new(),
            features: Vec::new(),
            tunables: BTreeMap::new(),
        };
        let Some(section) = section else {
            return Ok(settings);
        };
        if let Some(value) = section.get("version") {
            settings.version = read_version(value)?;
        }
        for entry in &section.entries {
            let value = &entry.value;
            match entry.key.as_str() {
                "version" => {}
                "hz" => settings.hz = read_hz(value)?,
                "preempt" => settings.preempt = read_preemption(value, settings.version)?,
                "autogroup" => settings.autogroup = value.boolean("true or false")?,
                "patches" => settings.patches = read_patches(value)?,
                "features" => settings.features = read_features(value)?,
                _ => settings.read_tunable(entry, &PLAIN_KEYS)?,
            }
        }
        Ok(settings)
    }

    /// Reads what `[at.kernel]` changes while the kernel runs: features and tunables.
    ///
    /// # Errors
    /// As [`KernelSettings::read`], and for keys that are fixed at boot.
    pub fn read_change(&self, section: &Table) -> Result<KernelSettings> {
        let mut settings = self.clone();
        for entry in &section.entries {
            match entry.key.as_str() {
                "features" => settings.features.extend(read_features(&entry.value)?),
                fixed if PLAIN_KEYS.contains(&fixed) => {
                    let message = format!("a running kernel cannot change its {fixed}");
                    return Err(Error::input(&entry.key_place, message));
                }
                _ => settings.read_tunable(entry, &["features"])?,
            }
        }
        Ok(settings)
    }

    fn read_tunable(&mut self, entry: &Entry, plain: &[&'static str]) -> Result<()> {
        let key = entry.key.as_str();
        let known = TUNABLES
            .iter()
            .find(|tunable| tunable.name == key || tunable.sysctl == key);
        let Some(tunable) = known else {
            return Err(unknown_key(entry, &valid_keys(plain), "[kernel]"));
        };
        let release = KernelVersion {
            stable: 0,
            ..self.version
        };
        if !(tunable.since..=tunable.until).contains(&release) {
            let message = format!("kernel {} has no tunable `{key}`", self.version);
            let hint = format!("it exists from {} to {}", tunable.since, tunable.until);
            return Err(Error::input(&entry.key_place, message).hint(hint));
        }
        let what = format!("`{key}`");
        let value = entry.value.integer_in(tunable.least, tunable.most, &what)?;
        let place = entry.value.place.clone();
        self.tunables.insert(tunable.name, Located { value, place });
        Ok(())
    }

    /// Whether groups may accumulate burst: 5.14 brought it, a patch may add it or take it away.
    pub fn has_burst(&self) -> bool {
        let merged = self.version >= KernelVersion::release(5, 14);
        self.patches
            .iter()
            .fold(merged, |has, patch| match patch.value.as_str() {
                "burst" => true,
                "-burst" => false,
                _ => has,
            })
    }
}

fn read_version(value: &Value) -> Result<KernelVersion> {
    if let Kind::Float(_) | Kind::Integer(_) = value.kind {
        return Err(value
            .expected("a kernel version as a string")
            .hint("write version = \"6.12\": as a number 6.10 would be 6.1"));
    }
    let text = value.text("a kernel version such as \"6.12\"")?;
    KernelVersion::parse(text).map_err(|message| Error::input(&value.place, message))
}

fn read_hz(value: &Value) -> Result<u32> {
    let hz = value.integer("a timer frequency")?;
    let choice = HZ_CHOICES
        .into_iter()
        .find(|choice| i64::from(*choice) == hz);
    choice.ok_or_else(|| {
        Error::input(&value.place, format!("no kernel is built with HZ={hz}"))
            .hint("hz is 100, 250, 300 or 1000")
    })
}

fn read_preemption(value: &Value, version: KernelVersion) -> Result<Preemption> {
    let text = value.text("a preemption model")?;
    let names = Preemption::ALL.map(|(name, _)| name);
    let Some((_, model)) = Preemption::ALL.iter().find(|(name, _)| *name == text) else {
        let message = format!("unknown preemption model `{text}`");
        return Err(Error::input(&value.place, message).hint(crate::error::hint_for(text, &names)));
    };
    if *model == Preemption::Lazy && version < KernelVersion::release(6, 13) {
        let message = format!("kernel {version} has no lazy preemption: 6.13 brought it");
        return Err(Error::input(&value.place, message));
    }
    Ok(*model)
}

fn read_words(value: &Value, what: &str) -> Result<Vec<Located<String>>> {
    let mut words = Vec::new();
    for value in value.array(&format!("an array of {what} names"))? {
        let text = value.text(&format!("a {what} name"))?;
        words.push(Located {
            value: text.to_string(),
            place: value.place.clone(),
        });
    }
    Ok(words)
}

fn read_patches(value: &Value) -> Result<Vec<Located<String>>> {
    let patches = read_words(value, "patch")?;
    for patch in &patches {
        let name = patch.value.strip_prefix('-').unwrap_or(&patch.value);
        let valid = |character: char| {
            character.is_ascii_lowercase() || character.is_ascii_digit() || "-_".contains(character)
        };
        if name.is_empty() || !name.chars().all(valid) {
            let message = format!("`{}` is not a patch name", patch.value);
            return Err(Error::input(&patch.place, message)
                .hint("\"tg-load-ratelimit\" adds a patch, \"-burst\" takes one away"));
        }
    }
    Ok(patches)
}

fn read_features(value: &Value) -> Result<Vec<Located<String>>> {
    let features = read_words(value, "feature")?;
    for feature in &features {
        let valid = |character: char| {
            character.is_ascii_uppercase() || character.is_ascii_digit() || character == '_'
        };
        if feature.value.is_empty() || !feature.value.chars().all(valid) {
            let message = format!("`{}` is not a feature name", feature.value);
            return Err(Error::input(&feature.place, message)
                .hint("features are written as to sched/features: \"SIS_UTIL\", \"NO_SIS_UTIL\""));
        }
    }
    Ok(features)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Source;
    use crate::experiment::document::parse;

    fn read(text: &str) -> Result<KernelSettings> {
        KernelSettings::read(Some(&parse(&Source::new("k.toml", text)).unwrap()))
    }

    fn refuse(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn the_section_reads_in_kernel_words() {
        let kernel = read(
            "hz = 1000\nversion = \"5.14\"\npreempt = \"none\"\nautogroup = false\n\
             patches = [\"tg-load-ratelimit\", \"-burst\"]\nfeatures = [\"NO_SIS_UTIL\"]\n\
             sched_cfs_bandwidth_slice_us = 3000\nsched_latency_ns = 6_000_000\n",
        );
        let json = serde_json::to_string(&kernel.unwrap()).unwrap();
        assert_eq!(
            json,
            r#"{"version":"5.14","hz":1000,"preempt":"none","autogroup":false,"patches":["tg-load-ratelimit","-burst"],"features":["NO_SIS_UTIL"],"latency_ns":6000000,"sched_cfs_bandwidth_slice_us":3000}"#
        );
    }

    #[test]
    fn versions_are_those_that_were_released() {
        let version = |text| KernelVersion::parse(text).map(|version| version.to_string());
        assert_eq!(version("6.12.117"), Ok("6.12.117".to_string()));
        assert_eq!(version("6.12.0"), Ok("6.12".to_string()));
        assert_eq!(version("4.5"), Ok("4.5".to_string()));
        assert_eq!(
            version("6.18.44"),
            Ok("6.18.44".to_string()),
            "a stable of the newest"
        );
        for text in [
            "4.4", "6.19", "7.0", "4.21", "5.20", "6", "6.1.2.3", "6.x", "", "v6.1",
        ] {
            assert!(version(text).is_err(), "{text}");
        }
        let (old, new) = (KernelVersion::parse("6.9"), KernelVersion::parse("6.10"));
        assert!(old.unwrap() < new.unwrap());
    }

    #[test]
    fn a_version_as_number_is_refused_with_the_reason() {
        assert_eq!(
            refuse("version = 6.10\n"),
            "k.toml:1:11: expected a kernel version as a string, found the number 6.1 \
             (write version = \"6.12\": as a number 6.10 would be 6.1)"
        );
    }

    #[test]
    fn what_the_kernel_would_refuse_is_refused() {
        assert!(refuse("hz = 500\n").contains("no kernel is built with HZ=500"));
        assert!(refuse("preempt = \"laszy\"\n").contains("nearest valid name is `lazy`"));
        assert!(refuse("version = \"6.12\"\npreempt = \"lazy\"\n").starts_with("k.toml:2:11: "));
        assert!(refuse("vresion = \"6.12\"\n").contains("nearest valid name is `version`"));
        assert!(refuse("sched_cfs_bandwidth_slice_us = 0\n").contains("must be 1 to 4294967295"));
        assert!(refuse("features = [\"sis_util\"]\n").starts_with("k.toml:1:13: "));
        assert!(refuse("patches = [\"burst\", \"--\", 3]\n").contains("expected a patch name"));
    }

    #[test]
    fn tunables_exist_in_their_versions_only() {
        assert_eq!(
            refuse("version = \"6.12\"\nlatency_ns = 6000000\n"),
            "k.toml:2:1: kernel 6.12 has no tunable `latency_ns` (it exists from 4.5 to 6.5)"
        );
        assert!(read("version = \"6.5.13\"\nlatency_ns = 6000000\n").is_ok());
        assert!(read("version = \"6.6\"\nbase_slice_ns = 3000000\n").is_ok());
        assert!(refuse("version = \"6.5\"\nbase_slice_ns = 3000000\n").contains("6.6 to 6.18"));
    }

    #[test]
    fn burst_follows_version_and_patches() {
        let has = |text: &str| read(text).unwrap().has_burst();
        assert!(has("version = \"5.14\"\n") && !has("version = \"5.13\"\n"));
        assert!(has("version = \"5.13\"\npatches = [\"burst\"]\n"));
        assert!(!has("version = \"6.1\"\npatches = [\"-burst\"]\n"));
    }

    #[test]
    fn only_features_and_tunables_change_in_a_running_kernel() {
        let kernel = read("version = \"6.12\"\nfeatures = [\"HRTICK\"]\n").unwrap();
        let change = |text: &str| kernel.read_change(&parse(&Source::new("k.toml", text)).unwrap());
        let changed = change("base_slice_ns = 1000000\nfeatures = [\"NO_HRTICK\"]\n").unwrap();
        assert_eq!(changed.tunables["base_slice_ns"].value, 1_000_000);
        assert_eq!(
            changed.features.len(),
            2,
            "written after the first, as to the file"
        );
        let error = change("version = \"6.13\"\n").unwrap_err().to_string();
        assert_eq!(
            error,
            "k.toml:1:1: a running kernel cannot change its version"
        );
    }
}
