//! Changes of a release that are known to move figures and are not modelled.
//!
//! schedcast compares decisions of the scheduler. Code that became dearer or cheaper, and locks
//! that others hold, are outside; where somebody published how much they make, the answer to a
//! question about two kernels says so.
//!
//! Worked example: between 6.18 and 7.1 lies 7.0, and of 7.0 one row is known: lock holders
//! preempted in page faults, 48.5 % fewer transactions of a PostgreSQL with 1024 clients. Between
//! 7.1 and 7.3 nothing is known.

use schedcast_kernel::rules::Version;
use serde::Serialize;

/// A published effect that no rule of the model has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outside {
    /// Release that brought it.
    pub release: String,
    /// The change, with its commit.
    pub what: String,
    /// How much it was where it was measured, and that a way back has the opposite.
    pub size: String,
    /// Where that was published.
    pub source: String,
}

/// Release, what it is, its published size, where, and the programs that it is about.
type Row = (
    (u16, u16),
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

/// Every program: all of more than one thread wait by futex calls.
const ANY: &[&str] = &[];

const KNOWN: [Row; 4] = [
    (
        (5, 9),
        "memory accounting of small objects moved to one set of caches (10befea91b61): each message through a socket costs more",
        "62.4 % less throughput of hackbench in one report of the kernel test robot",
        "https://lore.kernel.org/lkml/20210114025151.GA22932@xsang-OptiPlex-9020",
        &["hackbench"],
    ),
    (
        (5, 16),
        "no counting of kernel memory apart (58056f7750): each message through a socket costs less",
        "10.3 % more throughput of hackbench in one report of the kernel test robot",
        "https://lore.kernel.org/lkml/20211126031748.GA11450@xsang-OptiPlex-9020",
        &["hackbench"],
    ),
    (
        (6, 10),
        "looking up pages of user space (f002882ca369): futex calls cost more",
        "2 % fewer futex calls a second on arm64",
        "a report of 2024-09-03 to the kernel's list on f002882ca369",
        ANY,
    ),
    (
        (7, 0),
        "lazy preemption where there was none or voluntary (7dadeaa6e851): who holds a spinlock of user space may lose the CPU in a page fault, while all others spin",
        "48.5 % fewer transactions of a PostgreSQL with 1024 clients on 96 CPUs, none with huge pages",
        "https://thebuild.com/blog/2026/04/23/preempt_none-is-dead-your-postgres-probably-doesnt-care/",
        &["postgres", "pgbench"],
    ),
];

/// Known changes on the way from one kernel to the other, that are about one of the programs, which
/// are known by how their names begin. A way to an older kernel takes them back.
pub(crate) fn between(one: Version, other: Version, programs: &[&str]) -> Vec<Outside> {
    let (older, newer) = if one <= other {
        (one, other)
    } else {
        (other, one)
    };
    let lies_between = |row: &&Row| {
        let (major, minor) = row.0;
        !older.has(major, minor, &[]) && newer.has(major, minor, &[])
    };
    let is_about = |row: &&Row| {
        let is_named = |of: &&str| programs.iter().any(|program| program.starts_with(of));
        row.4.is_empty() || row.4.iter().any(is_named)
    };
    let rows = KNOWN.iter().filter(lies_between).filter(is_about);
    let taken_back = match one <= other {
        true => "",
        false => "which this way takes back; with it: ",
    };
    rows.map(|((major, minor), what, size, source, _)| Outside {
        release: format!("{major}.{minor}"),
        what: (*what).to_owned(),
        size: format!("{taken_back}{size}"),
        source: (*source).to_owned(),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_with_a_release_lies_between_those_before_and_those_from_it_on() {
        let releases = |one: (u16, u16), other: (u16, u16)| -> Vec<String> {
            let [one, other] = [one, other].map(|(major, minor)| Version::new(major, minor));
            let found = between(one, other, &["hackbench", "postgres: walwriter"]);
            found.into_iter().map(|outside| outside.release).collect()
        };
        assert_eq!(releases((6, 18), (7, 1)), ["7.0"]);
        assert_eq!(releases((7, 1), (6, 18)), ["7.0"], "the way back, too");
        assert_eq!(releases((6, 19), (7, 0)), ["7.0"]);
        assert!(releases((7, 0), (7, 3)).is_empty());
        assert_eq!(releases((5, 8), (6, 12)), ["5.9", "5.16", "6.10"]);
    }

    #[test]
    fn a_way_back_does_not_claim_the_effect_of_the_way_there() {
        let size = |one: (u16, u16), other: (u16, u16)| {
            let [one, other] = [one, other].map(|(major, minor)| Version::new(major, minor));
            between(one, other, &["web"]).remove(0).size
        };
        let fewer = "2 % fewer futex calls a second on arm64";
        assert_eq!(size((6, 1), (6, 18)), fewer);
        let back = format!("which this way takes back; with it: {fewer}");
        assert_eq!(size((6, 18), (6, 1)), back);
    }

    #[test]
    fn what_is_about_other_programs_is_left_out() {
        let (old, new) = (Version::new(5, 8), Version::new(7, 3));
        let releases = |program: &str| -> Vec<String> {
            let found = between(old, new, &[program]).into_iter();
            found.map(|outside| outside.release).collect()
        };
        assert_eq!(releases("rt-app"), ["6.10"]);
        assert_eq!(releases("hackbench"), ["5.9", "5.16", "6.10"]);
        assert_eq!(releases("pgbench"), ["6.10", "7.0"]);
    }
}
