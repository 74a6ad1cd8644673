//! The table of changes: one row for each difference between two kernels.
//!
//! [`Rules::of`](super::Rules::of) starts with the rules of 4.5 and applies the rows that a version
//! has, in the order of the table. The same rows are the named patches of experiments
//! (`patches = ["burst"]`, `["-burst"]`), the dates of the page `docs/model.md`, and the steps of a
//! bisection between two releases.
//!
//! Worked example: the row `base-slice-700us` names commit 2ae891b82695, release 6.15 and the
//! stable kernels 6.12.31 and 6.14.9. So 6.12.30 has requests of 0.75 ms and 6.12.31 of 0.70;
//! `patches = ["base-slice-700us"]` on 6.12.30 is the one change between them, and on 6.12.31 it is
//! refused, because it would compare a kernel with itself.
//!
//! A row is written
//!
//! ```text
//! "name" "commit" (6, 15) also [(6, 12, 31), (6, 14, 9)] until (7, 0) and [(6, 18, 17)] for Eevdf: EFFECTS, "Sentence.";
//! ```
//!
//! `also` are stable series with the first patch level that has the change, `until` and `and` where
//! it was taken back or replaced, `for` the fair class it changes. Effects are `(on field)`,
//! `(off field)`, `(field: before => after)`, the same with `..` where later rows go on from there,
//! or two functions: whether a kernel has it, and how to set it.

mod balance;
mod bandwidth;
mod core;
mod fair;
pub mod path;
mod placement;
mod power;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use super::{FairClass, Rules, Version};

/// Where a change comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Abbreviated id of the commit that brought it.
    Commit(&'static str),
    /// Dated by the sources of the releases on both sides.
    Release,
    /// Posted to the mailing list, never merged.
    Posted,
    /// Never published: found by experiment on a kernel that has it.
    Unpublished,
}

/// Releases from one on, and stable series from a patch level on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct From {
    /// First release.
    pub release: Version,
    /// Stable series that got it too: series and first patch level.
    pub(crate) backports: &'static [(u16, u16, u16)],
}

impl From {
    fn holds_in(&self, version: Version) -> bool {
        version.has(self.release.major, self.release.minor, self.backports)
    }

    /// Patch levels of the series of `version` from which on it holds.
    fn levels_of(self, version: Version) -> impl Iterator<Item = Version> {
        let levels = self.backports.iter();
        let levels = levels.map(|&(major, minor, patch)| Version::stable(major, minor, patch));
        levels
            .filter(move |level| level.since(version.major, version.minor))
            .filter(move |level| version.since(level.major, level.minor))
    }
}

/// A difference between two kernels.
#[derive(Debug)]
pub struct Change {
    /// Name in experiment files.
    pub name: &'static str,
    /// Where it comes from.
    pub origin: Origin,
    /// The kernels that have it; `None` = it was never merged.
    pub since: Option<From>,
    /// The kernels that no longer have it; `None` = it still is there.
    pub(crate) until: Option<From>,
    /// The fair class it changes; `None` = either.
    pub needs: Option<FairClass>,
    /// Effect of the change, in a sentence.
    pub description: &'static str,
    has: fn(&Rules) -> bool,
    set: fn(&mut Rules, bool),
}

impl Change {
    /// The change called `name`.
    pub fn named(name: &str) -> Option<&'static Change> {
        all().find(|change| change.name == name)
    }

    /// Whether the rules have the change.
    pub fn is_in(&self, rules: &Rules) -> bool {
        (self.has)(rules)
    }

    /// Whether a released kernel has the change.
    pub(crate) fn holds_in(&self, version: Version) -> bool {
        self.since.is_some_and(|since| since.holds_in(version))
            && !self.until.is_some_and(|until| until.holds_in(version))
    }

    /// The last release that has it; `None` = it still is there, or never was.
    pub fn last(&self) -> Option<Version> {
        Some(self.until?.release.previous())
    }

    /// The patch level of the series of `version`, later than it, that no longer has the change: a
    /// stable series takes back what was a mistake.
    pub fn mended_behind(&self, version: Version) -> Option<Version> {
        let mut levels = self.until?.levels_of(version);
        levels.find(|level| *level > version)
    }

    /// Makes the change or takes it back.
    pub fn apply(&self, rules: &mut Rules, on: bool) {
        (self.set)(rules, on);
    }
}

/// The rows by subject, each subject in the order of time.
static SUBJECTS: [&[Change]; 6] = [
    core::CHANGES,
    fair::CHANGES,
    bandwidth::CHANGES,
    placement::CHANGES,
    balance::CHANGES,
    power::CHANGES,
];

/// Every change, oldest first; those never merged come last.
pub fn all() -> impl Iterator<Item = &'static Change> {
    static SORTED: LazyLock<Vec<&'static Change>> = LazyLock::new(|| {
        let mut changes: Vec<&Change> = SUBJECTS.into_iter().flatten().collect();
        changes.sort_by_key(|change| {
            (
                change.since.is_none(),
                change.since.map(|since| since.release),
            )
        });
        changes
    });
    SORTED.iter().copied()
}

/// Where `version` is a release as tagged whose stable series has changes of its own: the last
/// patch level that brought any, and how many changes lie between the two.
pub fn of_its_series(version: Version) -> Option<(Version, usize)> {
    let ends = all().flat_map(|change| [change.since, change.until]);
    let levels = ends.flatten().flat_map(|end| end.levels_of(version));
    let last = levels.max().filter(|_| version.patch == 0)?;
    let differs = |change: &&Change| change.holds_in(version) != change.holds_in(last);
    Some((last, all().filter(differs).count()))
}

/// Stable series whose changelogs were read, and the last release that they name (`stable.txt`).
const READ: [Version; 3] = [
    Version::stable(5, 10, 223),
    Version::stable(6, 1, 176),
    Version::stable(6, 12, 117),
];

/// The last release of the series of `version` whose fixes were looked at one by one; `None` where
/// that was not done for the series.
pub fn newest_read(version: Version) -> Option<Version> {
    let is_of_it = |last: &Version| (last.major, last.minor) == (version.major, version.minor);
    READ.into_iter().find(is_of_it)
}

/// Makes the changes of `version` in the rules of the oldest one.
pub(super) fn bring_to(rules: &mut Rules, version: Version) {
    make(SUBJECTS, rules, version);
}

fn make<const N: usize>(subjects: [&[Change]; N], rules: &mut Rules, version: Version) {
    let changes = subjects.into_iter().flatten();
    for change in changes.filter(|change| change.holds_in(version)) {
        change.apply(rules, true);
    }
}

macro_rules! changes {
    ($($name:literal $origin:tt $since:tt $(also $also:tt)? $(until $until:tt $(and $and:tt)?)? $(for $class:ident)?
        : $(($($effect:tt)+))+, $description:literal;)*) => {
        pub(super) static CHANGES: &[$crate::rules::changes::Change] = &[$($crate::rules::changes::Change {
            name: $name,
            origin: changes!(@origin $origin),
            since: changes!(@since $since $($also)?),
            until: changes!(@until $($until $($and)?)?),
            needs: changes!(@needs $($class)?),
            description: $description,
            has: |rules| { $(changes!(@has rules ($($effect)+)))&&+ },
            set: |rules, on| { $(changes!(@set rules, on, ($($effect)+));)+ },
        },)*];
    };
    (@origin posted) => { $crate::rules::changes::Origin::Posted };
    (@origin unpublished) => { $crate::rules::changes::Origin::Unpublished };
    (@origin release) => { $crate::rules::changes::Origin::Release };
    (@origin $commit:literal) => { $crate::rules::changes::Origin::Commit($commit) };
    (@since never) => { None };
    (@since $from:tt $($backports:tt)?) => { changes!(@until $from $($backports)?) };
    (@until) => { None };
    (@until ($major:literal, $minor:literal)) => { changes!(@until ($major, $minor) []) };
    (@until ($major:literal, $minor:literal) $backports:tt) => {
        Some($crate::rules::changes::From {
            release: $crate::rules::Version::new($major, $minor),
            backports: &$backports,
        })
    };
    (@needs) => { None };
    (@needs $class:ident) => { Some($crate::rules::FairClass::$class) };
    (@has $rules:ident (on $($field:ident).+)) => { $rules.$($field).+ };
    (@has $rules:ident (off $($field:ident).+)) => { !$rules.$($field).+ };
    (@has $rules:ident ($($field:ident).+ : $before:expr => $after:expr)) => { $rules.$($field).+ == $after };
    (@has $rules:ident ($($field:ident).+ : $before:expr => $after:expr, ..)) => { $rules.$($field).+ >= $after };
    (@has $rules:ident (has $has:expr, set $set:expr)) => { ($has as fn(&$crate::rules::Rules) -> bool)($rules) };
    (@set $rules:ident, $on:ident, (on $($field:ident).+)) => { $rules.$($field).+ = $on };
    (@set $rules:ident, $on:ident, (off $($field:ident).+)) => { $rules.$($field).+ = !$on };
    (@set $rules:ident, $on:ident, ($($field:ident).+ : $before:expr => $after:expr $(, ..)?)) => {
        $rules.$($field).+ = if $on { $after } else { $before }
    };
    (@set $rules:ident, $on:ident, (has $has:expr, set $set:expr)) => {
        ($set as fn(&mut $crate::rules::Rules, bool))($rules, $on)
    };
}
use changes;
