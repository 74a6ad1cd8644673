//! Every metric there is: its unit, which way is better, how seeds are averaged, what it says.
//!
//! A metric's name is `SUBJECT/METRIC`. The subject is a program or thread name, `cgroup:PATH` or
//! `machine`. Worked example: `schbench/request_latency.p99` is the metric `request_latency` of the
//! program `schbench`, in us, lower is better, and `.p99` says which value of the distribution.

use std::cmp::Ordering;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::statistics::MeanKind;
use schedcast_base::columns::wrap;
use schedcast_base::rows;

mod refuse;
pub mod scale;
mod select;

use refuse::subjects_of;
pub use refuse::{ANY_LATENCY, refuse_unknown, refuse_unknown_subject, short_names};
pub use select::Selection;

/// Prefix of the subject of a group.
pub const CGROUP: &str = "cgroup:";

schedcast_base::named! {
    /// Which change is an improvement.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Better {
        /// Less is better: times, throttling, watts.
        Lower = "lower",
        /// More is better: rates.
        Higher = "higher",
        /// Neither: counts that describe.
        None = "none",
    }
}

schedcast_base::named! {
    /// Subject that a metric is measured on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Subject {
        /// A program, or the threads of one name.
        Program = "program",
        /// A cgroup, `cgroup:PATH`.
        Cgroup = "cgroup",
        /// The whole machine.
        Machine = "machine",
    }
}

schedcast_base::named! {
    /// Suffix after the metric's own name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Suffix {
        /// Nothing.
        Plain = "plain",
        /// `.p50`, `.p99.9`, `.min`, `.avg`, `.mean`, `.max` or `.count`: a value of a
        /// distribution.
        Distribution = "distribution",
        /// `.NAME`: one of several things of this kind.
        Named = "named",
        /// Nothing, or `.FILE-RECORD` where a program has several sizes of files.
        Sizes = "sizes",
    }
}

/// One family of metrics.
#[derive(Debug)]
pub struct Family {
    /// Subject that it is measured on.
    pub subject: Subject,
    /// The metric's own name, without subject and suffix.
    pub name: &'static str,
    suffix: Suffix,
    /// Unit of the values.
    pub unit: &'static str,
    /// Which change is an improvement.
    pub better: Better,
    /// Shown in tables that do not show everything.
    pub headline: bool,
    /// One line.
    pub description: &'static str,
}

impl Family {
    /// Rates average harmonically, everything else arithmetically.
    pub fn mean_kind(&self) -> MeanKind {
        match self.unit.ends_with("/s") {
            true => MeanKind::Harmonic,
            false => MeanKind::Arithmetic,
        }
    }

    /// The name with placeholders, as `list metrics` prints it.
    pub(crate) fn pattern(&self) -> String {
        let subject = match self.subject {
            Subject::Program => "PROGRAM",
            Subject::Cgroup => "cgroup:PATH",
            Subject::Machine => "machine",
        };
        let suffix = match self.suffix {
            Suffix::Plain | Suffix::Sizes => "",
            Suffix::Distribution => ".STAT",
            Suffix::Named => ".NAME",
        };
        format!("{subject}/{}{suffix}", self.name)
    }
}

/// All families, in the order tables print them.
pub(crate) static FAMILIES: LazyLock<Vec<Family>> = LazyLock::new(|| {
    rows::lines(include_str!("families.txt"))
        .map(family)
        .collect()
});

fn family(row: &'static str) -> Family {
    let [subject, name, suffix, unit, better, shown, description] = rows::cells(row);
    Family {
        subject: Subject::named(subject).expect("a subject"),
        name,
        suffix: Suffix::named(suffix).expect("a suffix"),
        unit,
        better: Better::named(better).expect("an improvement"),
        headline: shown == "headline",
        description,
    }
}

/// Words a distribution suffix may be, besides `pNN`.
const DISTRIBUTION_WORDS: [&str; 7] = ["min", "avg", "mean", "max", COUNT, UNFINISHED, HALFWAY];

/// Metrics that tables tell in words.
const IN_WORDS: [(&str, &str); 3] = [
    ("request_latency.count", "requests finished"),
    ("reply_latency.count", "replies finished"),
    ("activation_latency.count", "activations finished"),
];

/// The name of a metric that tables tell in these words, without its subject.
pub fn told_in_words(words: &str) -> Option<&'static str> {
    let mut in_words = IN_WORDS.iter();
    in_words
        .find(|(_, told)| *told == words)
        .map(|(name, _)| *name)
}

/// Name of how long a program took, or a job of a recording.
pub const TIME: &str = "time";
/// Suffix of how many durations ended.
pub const COUNT: &str = "count";
/// Suffix of how many had no end when the run ended. Percentiles count them with their age.
pub const UNFINISHED: &str = "unfinished";
/// Suffix of how many had no end at half of the run: fewer than at its end where a backlog grows.
pub const HALFWAY: &str = "halfway";

fn is_distribution_suffix(suffix: &str) -> bool {
    let percentile = suffix.strip_prefix('p').is_some_and(|digits| {
        digits
            .parse::<f64>()
            .is_ok_and(|value| (0.0..=100.0).contains(&value))
            && digits.starts_with(|first: char| first.is_ascii_digit())
    });
    percentile || DISTRIBUTION_WORDS.contains(&suffix)
}

/// Two sizes in KB, as `200704-64`.
fn are_sizes(suffix: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    suffix
        .split_once('-')
        .is_some_and(|(file, record)| number(file) && number(record))
}

/// A metric's name, taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Metric<'a> {
    /// The family.
    pub family: &'static Family,
    /// Position of the family in [`FAMILIES`].
    pub rank: usize,
    /// Subject of the metric: `schbench`, `cgroup:/test` or `machine`.
    pub subject: &'a str,
    /// Everything behind the subject: `request_latency.p99`.
    pub name: &'a str,
    /// Suffix after the family's name, without the point; empty if there is none.
    pub suffix: &'a str,
}

impl<'a> Metric<'a> {
    /// Some words behind a distribution are plain counts whatever the family's unit.
    fn is_count(&self) -> bool {
        let is_count = [COUNT, UNFINISHED, HALFWAY].contains(&self.suffix);
        self.family.suffix == Suffix::Distribution && is_count
    }

    /// Name of the metric in a table behind the subject: counts of finished requests and
    /// activations in words.
    pub fn shown(&self) -> &str {
        let mut in_words = IN_WORDS.iter();
        let found = in_words.find(|(name, _)| *name == self.name);
        found.map_or(self.name, |(_, words)| words)
    }

    /// Unit of the values.
    pub fn unit(&self) -> &'static str {
        if self.is_count() {
            "count"
        } else {
            self.family.unit
        }
    }

    /// Which change is an improvement.
    pub fn better(&self) -> Better {
        if self.is_count() {
            Better::None
        } else {
            self.family.better
        }
    }

    /// Values that a percentile needs before one lies above it: 100 for p99. 0 for what is no
    /// percentile.
    pub fn values_needed(&self) -> f64 {
        let percent = self.suffix.strip_prefix('p');
        let percent: Option<f64> = percent.and_then(|text| text.parse().ok());
        let percent = percent.filter(|_| self.family.suffix == Suffix::Distribution);
        percent.map_or(0.0, |percent| 100.0 / (100.0 - percent).clamp(1e-3, 50.0))
    }

    /// Metric of how many durations of the same kind there were, by `suffix`: [`COUNT`] or
    /// [`UNFINISHED`].
    pub fn beside(&self, suffix: &str) -> String {
        format!("{}/{}.{suffix}", self.subject, self.family.name)
    }

    /// Whether short tables show it: of distributions only p50, p95, p99 and avg.
    pub fn headline(&self) -> bool {
        let common = ["p50", "p95", "p99", "avg"].contains(&self.suffix);
        self.family.headline && (self.family.suffix != Suffix::Distribution || common)
    }

    /// Tables sort by this: programs, cgroups, machine; in each by name, then by family.
    fn sort_key(&self) -> (Subject, &'a str, usize, f64, &'a str) {
        let percent = self
            .suffix
            .strip_prefix('p')
            .and_then(|digits| digits.parse().ok());
        let percent = percent.unwrap_or(if self.suffix == "max" { 101.0 } else { -1.0 });
        (
            self.family.subject,
            self.subject,
            self.rank,
            percent,
            self.suffix,
        )
    }
}

/// Rows of metrics in the order of tables. A metric's key is made once.
pub(crate) fn in_table_order<'a, T>(rows: impl Iterator<Item = (Metric<'a>, T)>) -> Vec<T> {
    let mut rows: Vec<_> = rows.map(|(metric, row)| (metric.sort_key(), row)).collect();
    rows.sort_by(|(left, _), (right, _)| left.partial_cmp(right).unwrap_or(Ordering::Equal));
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Path of the group that a metric is of; `None` for metrics of threads and of the machine.
pub fn group_of(metric: &str) -> Option<&str> {
    let (path, _) = metric.strip_prefix(CGROUP)?.rsplit_once('/')?;
    Some(path)
}

/// Splits a metric's name and finds its family; `None` if there is no such metric.
pub fn parse(metric: &str) -> Option<Metric<'_>> {
    // Cgroup paths and kernel threads (`kworker/0:1`) have slashes: the last one ends the subject.
    let (subject, name) = metric.rsplit_once('/')?;
    let kind = match subject {
        "" => return None,
        "machine" => Subject::Machine,
        path if path.starts_with("cgroup:/") => Subject::Cgroup,
        path if path.starts_with("cgroup:") => return None,
        _ => Subject::Program,
    };
    let families = FAMILIES
        .iter()
        .enumerate()
        .filter(|(_, family)| family.subject == kind);
    for (rank, family) in families {
        let Some(rest) = name.strip_prefix(family.name) else {
            continue;
        };
        let suffix = rest.strip_prefix('.');
        let fits = match (family.suffix, suffix) {
            (Suffix::Plain, None) => rest.is_empty(),
            (Suffix::Distribution, Some(suffix)) => is_distribution_suffix(suffix),
            (Suffix::Named, Some(suffix)) => !suffix.is_empty(),
            (Suffix::Sizes, None) => rest.is_empty(),
            (Suffix::Sizes, Some(suffix)) => are_sizes(suffix),
            _ => false,
        };
        if fits {
            return Some(Metric {
                family,
                rank,
                subject,
                name,
                suffix: suffix.unwrap_or(""),
            });
        }
    }
    None
}

/// The table that `list metrics` prints, with a last line about the placeholders.
pub fn list() -> String {
    let mut text = format!(
        "{:<36}{:<7}{:<8}{}\n",
        "METRIC", "UNIT", "BETTER", "WHAT IT SAYS"
    );
    for family in FAMILIES.iter() {
        let better = match family.better {
            Better::None => "-",
            better => better.name(),
        };
        let (pattern, unit) = (family.pattern(), family.unit);
        let words = family.description.split_whitespace();
        let words: Vec<String> = words.map(str::to_string).collect();
        let begin = format!("{pattern:<36}{unit:<7}{better:<8}");
        text += &wrap(&begin, &words, begin.len());
    }
    text += "\nSTAT is p50, p99, p99.9, … or one of min, avg, mean, max, count. The percentiles\n\
             of a replayed recording include requests that have not finished, with their age so far. count is\n\
             the number that finished, unfinished the number that did not, halfway the number that had not\n\
             finished at half the time.\n";
    text += "Rates (…/s) are averaged harmonically over seeds, everything else arithmetically.\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(metric: &str) -> Option<(&'static str, Better, MeanKind)> {
        let metric = parse(metric)?;
        Some((metric.unit(), metric.better(), metric.family.mean_kind()))
    }

    #[test]
    fn names_find_their_family() {
        for row in rows::lines(include_str!("named.txt")) {
            let [name, unit, better, kind] = rows::cells(row);
            let found = describe(name).map(|(u, b, k)| (u, b.name(), format!("{k:?}")));
            let expected = (unit, better, kind.to_owned());
            assert_eq!(found, Some(expected), "{name}");
        }
    }

    #[test]
    fn other_names_are_no_metrics() {
        let others = "|rps|/rps|schbench/rpss|schbench/request_latency|schbench/rps.p50|\
            iozone/write_throughput.64|schbench/request_latency.p101|schbench/request_latency.p|\
            schbench/latency.+5|machine/rps|cgroup:/a/rps|cgroup:a/nr_periods|machine/cstate.|\
            schbench/request_latency.pNaN";
        for name in others.split('|') {
            assert!(parse(name).is_none(), "{name}");
        }
    }

    #[test]
    fn tables_sort_programs_then_groups_then_machine() {
        let names = "machine/busy_ratio cgroup:/a/throttled_usec b/request_latency.p99.9 \
            b/request_latency.p50 b/request_latency.max b/request_latency.min a/time \
            cgroup:/a/nr_periods b/request_latency.p99";
        let names = names.split(' ').map(|name| (parse(name).unwrap(), name));
        let sorted = "a/time b/request_latency.min b/request_latency.p50 b/request_latency.p99 \
            b/request_latency.p99.9 b/request_latency.max cgroup:/a/nr_periods \
            cgroup:/a/throttled_usec machine/busy_ratio";
        assert_eq!(in_table_order(names).join(" "), sorted);
    }

    #[test]
    fn the_list_fits_a_terminal_and_describes_everything() {
        let list = list();
        assert!(
            list.lines().all(|line| line.chars().count() <= 100),
            "{list}"
        );
        for family in FAMILIES.iter() {
            assert!(!family.description.is_empty(), "{}", family.name);
            let example = family
                .pattern()
                .replace("STAT", "p99")
                .replace("PATH", "/a");
            let found = parse(&example).unwrap();
            assert_eq!(
                found.family.name, family.name,
                "{example} finds its own family"
            );
        }
    }
}
