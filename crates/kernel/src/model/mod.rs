//! The rules of the model by name: kernel function, versions, place in this crate.
//!
//! Every rule has a [`Mark`]. The code that applies the rule says so with `reached`, which
//! compiles to nothing in release builds; in all others a test can ask which rules its scenario
//! has reached. Decisions (see [`crate::explain`]) carry the mark of the rule that decided.
//!
//! Worked example: `Mark::TargetIdle` is the first rule of `select_idle_sibling` in every version,
//! and lives in `select/sibling.rs`. A test that wakes a task whose target CPU is idle and asks
//! [`take_reached`] afterwards finds it among the marks.

#[cfg(test)]
mod page;
mod renamed;
mod table;

use std::fmt;

use crate::rules::Version;
use crate::rules::changes::{Change, From};

pub use table::Mark;

/// Description of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct About {
    /// Part of the scheduler, as a heading.
    pub(crate) part: &'static str,
    /// Its mark, as a word.
    pub name: &'static str,
    /// The kernel function it mirrors, under its name in 6.18.
    pub(crate) function: &'static str,
    /// The kernels it holds in: `+row` from that row of the table of changes on (`+row..` even
    /// where the row itself was replaced), `-row` until that row; anything else as it stands.
    pub(crate) kernels: &'static str,
    /// File of `crates/kernel/src` it lives in.
    pub(crate) file: &'static str,
    /// Statement of the rule, in a line.
    pub says: &'static str,
}

impl About {
    /// The kernel function under the name that a release has for it.
    pub fn function_in(&self, version: Version) -> &'static str {
        renamed::name_in(self.function, version)
    }

    /// The kernels it holds in, for a reader: `6.6 – 6.18; stable before 6.18.2`.
    pub fn versions(&self) -> String {
        let mut first: Option<From> = None;
        let mut end: Option<From> = None;
        for word in self.kernels.split(' ') {
            let (row, replaced) = match word.strip_suffix("..") {
                Some(row) => (row, true),
                None => (word, false),
            };
            let change = row.get(1..).and_then(Change::named);
            match (row.chars().next(), change) {
                (Some('+'), Some(change)) => {
                    first = change.since;
                    end = change.until.filter(|_| !replaced);
                }
                (Some('-'), Some(change)) => end = change.since,
                _ => return self.kernels.to_string(),
            }
        }
        let last = end.map(|end| end.release.previous());
        let mut text = match (first.map(|first| first.release), last) {
            (Some(first), None) => format!("{first} –"),
            (Some(first), Some(last)) if first == last => first.to_string(),
            (Some(first), Some(last)) => format!("{first} – {last}"),
            (None, Some(last)) => format!("≤ {last}"),
            (None, None) => String::new(),
        };
        for (word, from) in [("from", first), ("before", end)] {
            let levels = from.map_or(&[][..], |from| from.backports);
            let levels = levels
                .iter()
                .map(|&(major, minor, level)| Version::stable(major, minor, level).to_string());
            let levels: Vec<String> = levels.collect();
            if !levels.is_empty() {
                text += &format!("; stable {word} {}", levels.join(", "));
            }
        }
        text
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.about().says)
    }
}

impl Mark {
    /// Whether a CPU was chosen by energy: near no other, and with no search for an idle one.
    pub fn is_by_energy(self) -> bool {
        matches!(
            self,
            Mark::EnergyPrev | Mark::EnergyLess | Mark::EnergyNoUtil
        )
    }
}

/// Notes that a rule was applied.
#[inline(always)]
pub(crate) fn reached(mark: Mark) {
    #[cfg(debug_assertions)]
    record::note(mark);
    #[cfg(not(debug_assertions))]
    let _ = mark;
}

/// Marks that this thread has reached since the last call, in the order of the table. Always empty
/// in release builds, which do not take notes.
pub fn take_reached() -> Vec<Mark> {
    #[cfg(debug_assertions)]
    return record::take();
    #[cfg(not(debug_assertions))]
    Vec::new()
}

#[cfg(debug_assertions)]
mod record {
    use super::Mark;
    use std::cell::Cell;

    const WORDS: usize = Mark::ALL.len().div_ceil(64);

    thread_local! {
        static REACHED: [Cell<u64>; WORDS] = const { [const { Cell::new(0) }; WORDS] };
    }

    /// Names a file to which marks are added as they are reached, for the test that collects them.
    pub(super) const FILE: &str = "SCHEDCAST_MARKS";

    pub(super) fn note(mark: Mark) {
        REACHED.with(|words| {
            let word = &words[mark as usize / 64];
            let bit = 1 << (mark as usize % 64);
            if word.get() & bit == 0 {
                word.set(word.get() | bit);
                tell(mark);
            }
        });
    }

    #[cold]
    fn tell(mark: Mark) {
        let Some(file) = std::env::var_os(FILE) else {
            return;
        };
        let file = std::fs::OpenOptions::new().append(true).open(file);
        if let Ok(mut file) = file {
            // A mark that cannot be written shows as one that no test reaches.
            let _ = std::io::Write::write_all(&mut file, format!("{mark:?}\n").as_bytes());
        }
    }

    pub(super) fn take() -> Vec<Mark> {
        REACHED.with(|words| {
            let bits: Vec<u64> = words.iter().map(Cell::take).collect();
            let is_set = |mark: &Mark| bits[*mark as usize / 64] >> (*mark as usize % 64) & 1 == 1;
            Mark::ALL.iter().copied().filter(is_set).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_rules_are_those_of_the_table_of_changes() {
        let rows = Mark::ALL
            .iter()
            .flat_map(|mark| mark.about().kernels.split(' '));
        for row in rows.filter_map(|word| word.strip_prefix(['+', '-'])) {
            let name = row.trim_end_matches("..");
            assert!(Change::named(name).is_some(), "there is no change `{name}`");
        }
        let versions = |mark: Mark| mark.about().versions();
        assert_eq!(versions(Mark::SmallestVruntime), "≤ 6.5");
        assert_eq!(versions(Mark::AffineNodes), "4.13");
        // One order for all tasks of a CPU has no entities of groups in it.
        assert_eq!(versions(Mark::GroupSlice), "6.12 – 7.2");
        assert_eq!(versions(Mark::SleeperMarksGroup), "≤ 7.2");
        assert_eq!(
            versions(Mark::YieldDeadline),
            "6.6 – 6.18; stable before 6.6.120, 6.12.63, 6.17.13, 6.18.2"
        );
        assert_eq!(versions(Mark::OwnRule), "own patch");
    }

    /// A command that runs this test program once more. A program of another processor does not
    /// start by itself: it needs the emulator that runs this one, which cargo was given as runner.
    #[cfg(debug_assertions)]
    fn again() -> std::process::Command {
        let architecture = std::env::consts::ARCH;
        let library = if cfg!(target_env = "musl") {
            "musl"
        } else {
            "gnu"
        };
        let name = format!("cargo_target_{architecture}_unknown_linux_{library}_runner");
        let runner = std::env::var(name.to_uppercase()).unwrap_or_default();
        let program = std::env::current_exe().unwrap();
        let mut words = runner.split_whitespace();
        match words.next() {
            Some(first) => {
                let mut command = std::process::Command::new(first);
                command.args(words).arg(program);
                command
            }
            None => std::process::Command::new(program),
        }
    }

    /// Runs the tests of this crate once more and collects the marks they reach.
    #[test]
    #[cfg(debug_assertions)]
    fn every_mark_is_reached_by_a_test() {
        let name = format!("schedcast-marks-{}", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, "").unwrap();
        let status = again()
            .args(["--skip", "every_mark_is_reached_by_a_test", "--quiet"])
            // Drawn worlds are the same in every run.
            .env("PROPTEST_RNG_SEED", "1")
            .env(record::FILE, &file)
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        let reached = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(status.success());
        let reached: std::collections::BTreeSet<&str> = reached.lines().collect();
        let missing: Vec<&Mark> = Mark::ALL
            .iter()
            .filter(|mark| !reached.contains(mark.about().name))
            .collect();
        assert!(missing.is_empty(), "no test reaches {missing:?}");
    }

    #[test]
    fn rules_live_where_the_table_says() {
        for mark in Mark::ALL {
            let about = mark.about();
            let file = format!("{}/src/{}", env!("CARGO_MANIFEST_DIR"), about.file);
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let name = format!("Mark::{}", about.name);
            assert!(text.contains(&name), "{file} has no {name}");
        }
    }
}
