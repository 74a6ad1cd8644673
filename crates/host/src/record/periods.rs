//! Where the periods of limited groups end, from their own counters.
//!
//! Throttling depends on where the period timer expires between the bursts of work, and a trace has
//! no event for that. On an idle machine it shows when threads were resumed; on a busy one they
//! wait for a CPU first. The counter `nr_periods` of the group is exact on both: the timer expires
//! between the last look that shows the old count and the first that shows the new one.
//!
//! # Worked example
//!
//! `nr_periods` is 41 at 20.0 ms and 42 at 21.1 ms, so a period ends between them, and with periods
//! of 100 ms another one between 120.0 and 121.1 ms. Looks every 50 µs from 120.0 ms on find 42 at
//! 120.40 and 43 at 120.47 ms. That is close enough; together it took some forty reads of a file.
//!
//! The timer stops when a whole period passes without use. Then the counter stands still, and the
//! search tries again a second later.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use schedcast_base::cpu_stat::CpuStat;
use schedcast_trace::recording::Cgroup;
use serde_json::{Map, Value};

use crate::hierarchy::CpuHierarchy;
use crate::sys;

/// Time between looks while nothing is known of a group's periods.
const COARSE_NS: u64 = 1_000_000;
/// Time between looks where a period is known to end soon.
const FINE_NS: u64 = 50_000;
/// A period's end that is known this closely is not looked for any more.
const CLOSE_ENOUGH_NS: u64 = 200_000;
/// Time until the next try after the counter stood still for two periods.
const REST_NS: u64 = 1_000_000_000;
/// Groups that are searched at most: a look costs some 10 µs.
const GROUPS_MAX: usize = 8;

/// The span of time in which a period ended, ns on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    after_ns: u64,
    before_ns: u64,
}

impl Span {
    fn width_ns(self) -> u64 {
        self.before_ns - self.after_ns
    }
}

/// The last look at a group's counter.
#[derive(Clone, Copy)]
struct Look {
    /// Time just before the read.
    begin_ns: u64,
    nr_periods: u64,
}

/// The search for the ends of one group's periods.
struct Search {
    path: String,
    stat: PathBuf,
    period_ns: u64,
    last: Option<Look>,
    /// Time of the first look since the counter last moved or the search last rested.
    since_ns: u64,
    found: Option<Span>,
    next_ns: u64,
}

impl Search {
    fn is_over(&self) -> bool {
        self.found
            .is_some_and(|span| span.width_ns() <= CLOSE_ENOUGH_NS)
    }

    /// Takes the count that a read between `begin_ns` and `end_ns` gave, and says when to look
    /// next.
    fn take(&mut self, begin_ns: u64, nr_periods: u64, end_ns: u64) {
        let moved = self.last.filter(|last| last.nr_periods != nr_periods);
        if let Some(last) = moved {
            let span = Span {
                after_ns: last.begin_ns,
                before_ns: end_ns,
            };
            // Two ends in one span say nothing about either.
            let is_one = nr_periods == last.nr_periods + 1 && span.width_ns() < self.period_ns;
            if is_one
                && self
                    .found
                    .is_none_or(|found| span.width_ns() < found.width_ns())
            {
                self.found = Some(span);
            }
        }
        let stands_still = moved.is_none() && self.last.is_some();
        if !stands_still {
            self.since_ns = begin_ns;
        }
        self.last = Some(Look {
            begin_ns,
            nr_periods,
        });
        self.next_ns = if end_ns - self.since_ns.min(end_ns) > 2 * self.period_ns {
            self.last = None;
            end_ns + REST_NS
        } else {
            self.next_look_ns(end_ns)
        };
    }

    /// The next look after `now_ns`: soon if nothing is known, else when the period next ends.
    fn next_look_ns(&self, now_ns: u64) -> u64 {
        let Some(span) = self.found else {
            return now_ns + COARSE_NS;
        };
        let into_ns = (now_ns - span.after_ns.min(now_ns)) % self.period_ns;
        match into_ns <= span.width_ns() {
            true => now_ns + FINE_NS,
            false => now_ns + self.period_ns - into_ns,
        }
    }
}

/// The searches of a recording.
pub(super) struct PeriodEnds {
    searches: Vec<Search>,
}

impl PeriodEnds {
    /// Searches for the groups of `described` that have a limit.
    pub(super) fn of(hierarchy: &CpuHierarchy, described: &Map<String, Value>) -> PeriodEnds {
        let limited = described
            .iter()
            .filter_map(|(path, group)| Some((path, period_us(group)?)));
        let searches = limited.take(GROUPS_MAX).map(|(path, period_us)| Search {
            path: path.clone(),
            stat: hierarchy.dir(path).join("cpu.stat"),
            period_ns: period_us * 1000,
            last: None,
            since_ns: 0,
            found: None,
            next_ns: 0,
        });
        PeriodEnds {
            searches: searches.collect(),
        }
    }

    /// Makes the looks that are due, and gives the time until the next one, at most `most`.
    pub(super) fn look(&mut self, most: Duration) -> Duration {
        for search in &mut self.searches {
            let begin_ns = sys::monotonic_ns();
            if search.is_over() || search.next_ns > begin_ns {
                continue;
            }
            // A group that is gone has no periods any more.
            let text = fs::read_to_string(&search.stat).unwrap_or_default();
            match CpuStat::known(&text).nr_periods {
                Some(count) => search.take(begin_ns, count, sys::monotonic_ns()),
                None => search.next_ns = begin_ns + REST_NS,
            }
        }
        let open = self.searches.iter().filter(|search| !search.is_over());
        let next_ns = open.map(|search| search.next_ns).min().unwrap_or(u64::MAX);
        most.min(Duration::from_nanos(
            next_ns.saturating_sub(sys::monotonic_ns()),
        ))
    }

    /// The spans that were found, by group, as `recording.json` has them.
    pub(super) fn found(&self) -> Map<String, Value> {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let found = self.searches.iter().filter_map(|search| {
            let span = search.found?;
            let json = serde_json::json!({
                "after_s": seconds(span.after_ns),
                "before_s": seconds(span.before_ns),
            });
            Some((search.path.clone(), json))
        });
        found.collect()
    }
}

/// The period of a described group in µs, if it has a limit.
fn period_us(group: &Value) -> Option<u64> {
    let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    let described = Cgroup {
        files: group.as_object()?.iter().filter_map(text).collect(),
        tasks: Vec::new(),
    };
    let limit = described.bandwidth().ok()??;
    limit.quota_us.and(Some(limit.period_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn search() -> Search {
        Search {
            path: "/web".to_owned(),
            stat: PathBuf::new(),
            period_ns: 100 * MS,
            last: None,
            since_ns: 0,
            found: None,
            next_ns: 0,
        }
    }

    #[test]
    fn a_period_ends_between_the_looks_around_its_count() {
        let mut search = search();
        search.take(20 * MS, 41, 20 * MS + 10_000);
        assert_eq!(search.next_ns, 21 * MS + 10_000);
        search.take(21 * MS, 42, 21 * MS + 100_000);
        let expected = Span {
            after_ns: 20 * MS,
            before_ns: 21 * MS + 100_000,
        };
        assert_eq!(search.found, Some(expected));
        assert!(!search.is_over());
        // The next one ends between 120.0 and 121.1 ms, and is looked for with small steps.
        search.take(60 * MS, 42, 60 * MS);
        assert_eq!(search.next_ns, 120 * MS);
        search.take(120 * MS, 42, 120 * MS);
        assert_eq!(search.next_ns, 120 * MS + FINE_NS);
        search.take(120 * MS + 400_000, 42, 120 * MS + 400_000);
        search.take(120 * MS + 460_000, 43, 120 * MS + 470_000);
        assert!(search.is_over());
        assert_eq!(search.found.unwrap().width_ns(), 70_000);
    }

    #[test]
    fn two_ends_between_two_looks_say_nothing() {
        let mut search = search();
        search.take(0, 7, 1000);
        search.take(150 * MS, 9, 150 * MS);
        search.take(260 * MS, 10, 260 * MS);
        assert_eq!(search.found, None);
    }

    #[test]
    fn a_counter_that_stands_still_is_left_alone_for_a_second() {
        let mut search = search();
        search.take(MS, 7, MS);
        search.take(202 * MS, 7, 202 * MS);
        assert_eq!(search.next_ns, 202 * MS + REST_NS);
        // A change of the counter meanwhile gives no span.
        search.take(1202 * MS, 8, 1202 * MS);
        assert_eq!(search.found, None);
    }

    #[test]
    fn limits_of_both_versions_have_a_period() {
        let of = |json: Value| period_us(&json);
        assert_eq!(
            of(serde_json::json!({"cpu.max": "5000 20000"})),
            Some(20_000)
        );
        assert_eq!(of(serde_json::json!({"cpu.max": "max 100000"})), None);
        let v1 = |quota: &str| {
            of(serde_json::json!({"cpu.cfs_quota_us": quota, "cpu.cfs_period_us": "50000"}))
        };
        assert_eq!(v1("20000"), Some(50_000));
        assert_eq!(v1("-1"), None);
        assert_eq!(of(serde_json::json!({})), None);
    }
}
