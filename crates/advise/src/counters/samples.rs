//! Usage of a group every few milliseconds, from `samples.csv` of `schedcast record
//! --unprivileged`: its demand over time.
//!
//! While no limit holds a group back, what it uses is what it wants. So what it used between two
//! samples is work that came with the first of them, and no demand has to be guessed. Three things
//! stay unknown and make the range: on how many CPUs at once the work can run (as few as what was
//! used shows, or all), the order of busy and quiet seconds in another run (seconds of the
//! recording are drawn again), and how much CPU time the same load takes then.
//!
//! Worked example. Samples every 10 ms show 0, 8, 10, 2 and 0 ms of use: 8 ms come at 10 ms, 10 ms
//! at 20 ms and 2 ms at 30 ms. Under 10 ms in 100 ms the group has used its quota up at 22 ms, and
//! is throttled until 100 ms.

use std::path::Path;

use schedcast_sim::random::SplitMix;

use super::queue::{Job, serve};
use super::shapes::Stream;
use super::{Demand, Known};
use schedcast_lab::error::{Error, Place, Result, Source};

const FILE: &str = "samples.csv";
/// The columns that are read; others may follow.
const COLUMNS: [&str; 2] = ["at_us", "usage_us"];
/// Time spent waiting for a CPU, summed over time in which any task did (`cpu.pressure`, `some`).
const PRESSURE: &str = "pressure_us";

/// Seconds that are drawn again as a whole: longer than what a limit's period remembers, and short
/// enough to be many.
const BLOCK_NS: u64 = 1_000_000_000;
/// Orders of these blocks beside the recorded one.
const DRAWN_ORDERS: u64 = 15;
/// Share of the time in which a task waited for a CPU that is told: then others held the group
/// back.
const PRESSURE_TOLD: f64 = 0.05;

/// CPU time that a group used, sample by sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    intervals: Vec<Interval>,
    /// Share of the time in which a task of the group waited for a CPU; `None` where that was not
    /// sampled.
    pressure: Option<f64>,
}

/// Usage from one sample to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Interval {
    /// Begin, from the first sample.
    at_ns: u64,
    length_ns: u64,
    used_ns: u64,
}

impl Samples {
    /// Those of the recording in `folder`, where it has some.
    ///
    /// # Errors
    /// If the file cannot be read, or a line is not one of growing counters.
    pub(crate) fn open(folder: &Path) -> Result<Option<Samples>> {
        let file = folder.join(FILE);
        match std::fs::read_to_string(&file) {
            Ok(text) => Samples::parse(&file.display().to_string(), &text).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(schedcast_lab::simulator::bad_input(format!(
                "reading {}: {error}",
                file.display()
            ))),
        }
    }

    fn parse(name: &str, text: &str) -> Result<Samples> {
        let source = Source::new(name, text);
        let refuse = |line: &str, message: String| -> Error {
            let begin = line.as_ptr() as usize - text.as_ptr() as usize;
            Error::input(&Place::new(&source, begin..begin + line.len()), message)
        };
        let mut lines = text.lines();
        let header = lines.next().unwrap_or_default();
        let names: Vec<&str> = header.split(',').collect();
        if names[..names.len().min(2)] != COLUMNS {
            let message = format!("expected the columns {}", COLUMNS.join(","));
            return Err(refuse(header, message));
        }
        let pressure = names.iter().position(|name| *name == PRESSURE);
        let mut intervals = Vec::new();
        let mut first: Option<Vec<u64>> = None;
        let mut last: Option<Vec<u64>> = None;
        for line in lines {
            let values: std::result::Result<Vec<u64>, _> =
                line.split(',').map(str::parse).collect();
            let values =
                values.map_err(|error| refuse(line, format!("not a whole number: {error}")))?;
            if values.len() != names.len() {
                let message = format!("{} values, expected {}", values.len(), names.len());
                return Err(refuse(line, message));
            }
            if let (Some(before), Some(first)) = (&last, &first) {
                let length_us = values[0].checked_sub(before[0]).filter(|us| *us > 0);
                let used_us = values[1].checked_sub(before[1]);
                let (Some(length_us), Some(used_us)) = (length_us, used_us) else {
                    let message =
                        "expected a later time and no smaller counter than in the line before";
                    return Err(refuse(line, message.to_owned()));
                };
                intervals.push(Interval {
                    at_ns: (before[0] - first[0]).saturating_mul(1000),
                    length_ns: length_us.saturating_mul(1000),
                    used_ns: used_us.saturating_mul(1000),
                });
            }
            first.get_or_insert_with(|| values.clone());
            last = Some(values);
        }
        let (Some(first), Some(last), false) = (first, last, intervals.is_empty()) else {
            return Err(refuse(header, "expected two samples or more".to_owned()));
        };
        let length_us = (last[0] - first[0]) as f64;
        Ok(Samples {
            intervals,
            pressure: pressure.map(|at| last[at].saturating_sub(first[at]) as f64 / length_us),
        })
    }

    fn window_ns(&self) -> u64 {
        self.intervals
            .last()
            .map_or(0, |last| last.at_ns + last.length_ns)
    }

    /// The recorded order of seconds and drawn ones, each for as few and for as many CPUs as
    /// possible, under the recorded limit.
    pub(super) fn demands(&self, known: &Known) -> Vec<Demand> {
        let window_ns = self.window_ns();
        let cpus = known.cpus.max(1) as usize;
        let busiest = self.intervals.iter();
        let busiest = busiest.map(|one| one.used_ns.div_ceil(one.length_ns) as usize);
        let fewest = busiest.max().unwrap_or(1).clamp(1, cpus);
        let mut worker_counts = vec![fewest, cpus];
        worker_counts.dedup();
        let mut demands = Vec::new();
        for order in 0..=DRAWN_ORDERS {
            let intervals = match order {
                0 => self.intervals.clone(),
                draw => self.drawn(&mut Stream(SplitMix(draw))),
            };
            for &workers in &worker_counts {
                let jobs = jobs(&intervals, workers);
                let counted = serve(&jobs, workers, known.limit, window_ns);
                demands.push(Demand {
                    jobs,
                    workers,
                    window_ns,
                    counted,
                });
            }
        }
        demands
    }

    /// As many seconds as were recorded, each drawn from all of them.
    fn drawn(&self, random: &mut Stream) -> Vec<Interval> {
        let blocks: Vec<&[Interval]> = self
            .intervals
            .chunk_by(|left, right| left.at_ns / BLOCK_NS == right.at_ns / BLOCK_NS)
            .collect();
        let mut intervals = Vec::with_capacity(self.intervals.len());
        let mut at_ns = 0;
        for _ in 0..blocks.len() {
            let block = blocks[random.below(blocks.len() as u64) as usize];
            for one in block {
                intervals.push(Interval { at_ns, ..*one });
                at_ns += one.length_ns;
            }
        }
        intervals
    }

    /// Note that a reader needs about the samples.
    pub(super) fn note(&self, known: &Known) -> String {
        let every_ms = self.window_ns() as f64 / 1e6 / self.intervals.len() as f64;
        let held = match known.nr_throttled {
            0 => "while no limit held the group back".to_owned(),
            throttled => format!(
                "while the limit held the group back in {throttled} of {} periods, which count as throttled under any limit",
                known.nr_periods
            ),
        };
        let mut text = format!(
            "Sampled every {every_ms:.0} ms {held}; the ranges are those of one more run under the same load.\n"
        );
        if let Some(share) = self.pressure.filter(|share| *share > PRESSURE_TOLD) {
            text += &format!(
                "Tasks of {} waited for a CPU in {:.0} % of the time: others held it back, and alone it wants more at once.\n",
                known.label.as_deref().unwrap_or(&known.cgroup),
                100.0 * share
            );
        }
        text
    }
}

/// Usage of each interval as one job a worker that arrives at its begin.
fn jobs(intervals: &[Interval], workers: usize) -> Vec<Job> {
    let mut jobs = Vec::new();
    for one in intervals.iter().filter(|one| one.used_ns > 0) {
        let work_ns = one.used_ns.div_ceil(workers as u64);
        let job = Job {
            at_ns: one.at_ns,
            work_ns,
        };
        jobs.extend(std::iter::repeat_n(job, workers));
    }
    jobs
}

#[cfg(test)]
mod tests {
    use schedcast_base::assert_contains;
    use schedcast_kernel::group::BandwidthLimit;

    use super::super::bounds;
    use super::*;

    const MS: u64 = 1_000_000;

    fn known(samples: &str, cpus: u32) -> Known {
        Known {
            cgroup: "/a".to_owned(),
            cpus,
            window_ns: 10_000 * MS,
            samples: Some(Samples::parse("samples.csv", samples).unwrap()),
            ..Known::default()
        }
    }

    fn limit(quota_ms: u64) -> BandwidthLimit {
        BandwidthLimit::of_ms(quota_ms, 100, 0)
    }

    /// 30 ms of work on one CPU at the begin of every period of 100 ms, for ten seconds.
    fn regular() -> String {
        let mut text = "at_us,usage_us\n".to_owned();
        for tick in 0..=1000u64 {
            let used_us = tick / 10 * 30_000 + (tick % 10).min(3) * 10_000;
            text += &format!("{},{used_us}\n", tick * 10_000);
        }
        text
    }

    #[test]
    fn the_example_of_the_module() {
        let text =
            "at_us,usage_us\n0,0\n10000,0\n20000,8000\n30000,18000\n40000,20000\n100000,20000\n";
        let samples = Samples::parse("samples.csv", text).unwrap();
        let counted = serve(&jobs(&samples.intervals, 1), 1, limit(10), 100 * MS);
        // From 22 ms, when the quota of 10 ms is used up, to the end of the period.
        assert_eq!((counted.nr_throttled, counted.throttled_ns), (1, 78 * MS));
    }

    #[test]
    fn work_that_fits_is_never_throttled_and_work_that_does_not_always_is() {
        let known = known(&regular(), 1);
        let limits = [20, 40].map(|ms| (ms.to_string(), limit(ms)));
        let bounds = bounds(&known, &limits).unwrap();
        let [tight, loose] = &bounds.outlooks[..] else {
            panic!("{bounds:?}")
        };
        assert_eq!(
            (loose.throttled_ratio.low, loose.throttled_ratio.high),
            (0.0, 0.0)
        );
        assert!(tight.throttled_ratio.low > 0.98, "{tight:?}");
        assert!(bounds.text("recording x").contains("Sampled every 10 ms"));
    }

    #[test]
    fn a_group_that_was_throttled_is_asked_of_the_family() {
        let known = Known {
            limit: limit(50),
            nr_periods: 100,
            nr_throttled: 50,
            ..known(&regular(), 1)
        };
        assert!(known.demand_as_it_came().is_none());
    }

    /// Of the thousand samples of `regular` one period in a hundred was throttled: they still show
    /// the demand, and that period may be throttled under any limit.
    #[test]
    fn one_throttled_period_leaves_the_samples_what_they_are() {
        let outlook = |nr_throttled: u64, quota_ms: u64| {
            let known = Known {
                limit: limit(50),
                nr_periods: 100,
                nr_throttled,
                throttled_ns: Some(nr_throttled * 10 * MS),
                ..known(&regular(), 1)
            };
            let limits = [("x".to_owned(), limit(quota_ms))];
            let bounds = bounds(&known, &limits).unwrap();
            let told = bounds.text("recording x");
            (bounds.are_samples, bounds.outlooks[0].throttled_ratio, told)
        };
        let (from_samples, loose, told) = outlook(1, 40);
        assert!(from_samples);
        assert_eq!((loose.low, loose.high), (0.0, 0.01));
        assert_contains(&told, "held the group back in 1 of 100 periods");
        let (_, tight, _) = outlook(1, 20);
        assert!(tight.low > 0.98 && tight.high <= 1.0, "{tight:?}");
        assert!(outlook(5, 40).0 && !outlook(6, 40).0, "5 % is seldom");
    }

    #[test]
    fn what_is_no_sample_is_refused_with_its_place() {
        for (text, wanted) in [
            ("time,usage\n", "expected the columns at_us,usage_us"),
            ("at_us,usage_us\n0,0\n", "two samples or more"),
            ("at_us,usage_us\n0,0\n10,x\n", "not a whole number"),
            ("at_us,usage_us\n0,0\n10\n", "1 values, expected 2"),
            ("at_us,usage_us\n0,9\n10,4\n", "no smaller counter"),
            ("at_us,usage_us\n0,0\n0,4\n", "a later time"),
        ] {
            let error = Samples::parse("samples.csv", text).unwrap_err();
            let said = error.to_string();
            assert!(said.contains(wanted), "{said}");
        }
    }

    #[test]
    fn waiting_for_a_cpu_is_told() {
        let text = "at_us,usage_us,pressure_us\n0,0,0\n100000,10000,20000\n";
        let known = known(text, 1);
        let note = known.samples.as_ref().unwrap().note(&known);
        assert_contains(&note, "waited for a CPU in 20 % of the time");
    }

    /// A busy second and an idle one, apart at exactly 1 s: each is drawn for itself, so that in
    /// some of 15 orders both are busy, and in some both are idle.
    #[test]
    fn whole_seconds_are_drawn_each_for_itself() {
        let text = "at_us,usage_us\n0,0\n1000000,900000\n2000000,900000\n";
        let samples = Samples::parse("samples.csv", text).unwrap();
        let used_ms = |draw| {
            let drawn = samples.drawn(&mut Stream(SplitMix(draw)));
            drawn.iter().map(|one| one.used_ns / MS).sum::<u64>()
        };
        let used: Vec<u64> = (1..=DRAWN_ORDERS).map(used_ms).collect();
        for wanted in [0, 900, 1800] {
            assert!(used.contains(&wanted), "{used:?}");
        }
    }
}
