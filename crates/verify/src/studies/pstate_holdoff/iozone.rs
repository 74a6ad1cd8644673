//! iozone: one process that writes a file, writes it again, reads it, and so on, for 22 pairs of
//! sizes.
//!
//! Its clock sees only the calls. Before the first of them the CPU has slept, and for how long
//! decides which P-state they begin at. Worked example: the file before is gone, and the commit
//! that frees its blocks has taken 40 ms. The first sample is late for a hold-off of 30 ms, and
//! 200 MB are written while the P-state climbs from 11; with 120 ms it stays where reading had left
//! it. Before the second write the disk was busy for 2 s, which is late for both.
//!
//! Fitted to the unpatched rows: what a call and its bytes cost, the disk's rate (from how busy the
//! machine was), and how long the freeing commit takes.

use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::Scenario;
use schedcast_lab::outcome::Outcome;

use super::super::bench::{called, mean_gain_percent, running, seeded};
use super::super::published::{Kernel, Question};
use super::super::{Calibration, Given, nearest};
use super::percent;

const TABLE: &str = "iozone";
/// As mmtests starts it, with the sizes of the table.
const COMMAND: &str = "iozone -a -n 200704 -g 401408 -y 1 -q 1024 -i 0 -i 1 -i 2 -i 3";
const FILES: [u64; 2] = [200_704, 401_408];
const RECORDS: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
/// Where bytes decide: the mean over these records.
const LARGE: [u64; 6] = [32, 64, 128, 256, 512, 1024];
/// The two tests that were published.
const TESTS: [&str; 2] = ["SeqWrite", "Rewrite"];

/// Fitted prices.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Prices {
    call_ns: f64,
    page_ns: f64,
    /// Of the first write and of the second.
    byte_ps: [f64; 2],
    storage_byte_ps: f64,
    free_commit_ns: u64,
    memory_percent: u64,
}

/// Seconds that a pass took, by test, file and record.
struct Times(Vec<f64>);

impl Times {
    fn row(test: usize, file: usize, record: u64) -> usize {
        let position = RECORDS.iter().position(|&one| one == record).unwrap_or(0);
        (test * FILES.len() + file) * RECORDS.len() + position
    }

    fn of(&self, test: usize, file: usize, record: u64) -> f64 {
        self.0[Times::row(test, file, record)]
    }

    /// Both files together, mean of the large records.
    fn large(&self, test: usize) -> f64 {
        let files = 0..FILES.len();
        let times = files.flat_map(|file| LARGE.map(|record| self.of(test, file, record)));
        times.sum::<f64>() / LARGE.len() as f64
    }

    /// Both tests and files together, records of one size.
    fn all(&self, record: u64) -> f64 {
        let tests = 0..TESTS.len();
        let pairs = tests.flat_map(|test| (0..FILES.len()).map(move |file| (test, file)));
        pairs.map(|(test, file)| self.of(test, file, record)).sum()
    }

    /// Excess of the time of calls for whole pages over that of calls for large records.
    fn calls(&self) -> f64 {
        self.all(4) - self.large(0) - self.large(1)
    }

    /// Excess of the time of four calls for a page over that of one call.
    fn parts(&self) -> f64 {
        self.all(1) - self.all(4)
    }

    /// Times of every test, file and record, in the order of [`Times::row`].
    fn each(of: impl Fn(usize, u64, u64) -> Result<f64>) -> Result<Times> {
        let mut times = Vec::new();
        for test in 0..TESTS.len() {
            for file in FILES {
                for record in RECORDS {
                    times.push(of(test, file, record)?);
                }
            }
        }
        Ok(Times(times))
    }

    /// Harmonic mean of the rates over several runs: times are averaged.
    fn mean(runs: &[Outcome]) -> Result<Times> {
        Times::each(|test, file, record| {
            let test = ["write", "rewrite"][test];
            let name = format!("iozone/{test}_throughput.{file}-{record}");
            let time = |run: &Outcome| {
                let rate = run.metrics.get(&name).map(|rate| file as f64 / rate);
                rate.ok_or_else(|| Error::general(format!("a run has no {name}")))
            };
            let times = runs.iter().map(time).collect::<Result<Vec<f64>>>()?;
            Ok(times.iter().sum::<f64>() / runs.len() as f64)
        })
    }

    fn published(known: &Calibration) -> Result<Times> {
        Times::each(|test, file, record| {
            let point = format!("{}-{file}-{record}", TESTS[test]);
            let wanted = |asked: &Question| asked.table == TABLE && asked.point == point;
            Ok(file as f64 / known.mean(TABLE, wanted)?)
        })
    }

    /// Mean of the log-errors.
    fn miss(&self, published: &Times) -> f64 {
        let errors = self.0.iter().zip(&published.0);
        let errors = errors.map(|(ours, theirs)| (ours / theirs).ln().abs());
        errors.sum::<f64>() / self.0.len() as f64
    }
}

impl Prices {
    fn on(&self, scenario: &Scenario) -> Scenario {
        let mut scenario = called(running(scenario, COMMAND), "iozone");
        scenario.duration_ns = None;
        scenario.warmup_ns = 0;
        for program in &mut scenario.programs {
            let prices = &mut program.prices;
            // Reading is not in the table; what it takes beside writing is the programs' own
            // measurement.
            let part = |price: u64, whole: u64, fitted: f64| {
                (price as f64 / whole as f64 * fitted).round() as u64
            };
            let (read, write) = (prices.file_read_call_ns, prices.file_write_call_ns);
            prices.file_read_call_ns = part(read, write, self.call_ns);
            let (read, write) = (prices.file_read_byte_ps, prices.file_write_byte_ps);
            prices.file_read_byte_ps = part(read, write, self.byte_ps[1]);
            prices.file_write_call_ns = self.call_ns.round() as u64;
            prices.file_page_ns = self.page_ns.round() as u64;
            prices.file_extend_byte_ps = self.byte_ps[0].round() as u64;
            prices.file_write_byte_ps = self.byte_ps[1].round() as u64;
            prices.storage_byte_ps = self.storage_byte_ps.round() as u64;
            prices.file_free_commit_ns = self.free_commit_ns;
            prices.file_memory_percent = self.memory_percent;
        }
        scenario
    }
}

fn busy_question(asked: &Question) -> bool {
    asked.table == "iozone turbostat" && asked.metric == "Mean %Busy"
}

/// Corrects prices by what a run shows, a few times, for each time that the freeing commit may take
/// and each share of memory; those that come nearest to the 44 unpatched rows.
fn fit(base: &Scenario, given: &mut Given) -> Result<Prices> {
    let (known, bench, prediction) = given.parts();
    const COMMITS_MS: [u64; 7] = [0, 20, 40, 80, 160, 320, 640];
    const MEMORY_PERCENT: [u64; 4] = [0, 20, 40, 60];
    let published = Times::published(known)?;
    let busy = known.mean("iozone", busy_question)?;
    let commits = bench.pick(&COMMITS_MS[..], &COMMITS_MS[5..6]);
    let memory = bench.pick(&MEMORY_PERCENT[..], &MEMORY_PERCENT[2..3]);
    let all = commits.iter().flat_map(|commit_ms| {
        memory.iter().map(move |&memory_percent| Prices {
            call_ns: 340.0,
            page_ns: 400.0,
            byte_ps: [400.0, 200.0],
            storage_byte_ps: 10_000.0,
            free_commit_ns: commit_ms * 1_000_000,
            memory_percent,
        })
    });
    let mut all: Vec<Prices> = all.collect();
    let mut misses = Vec::new();
    let seeds = bench.pick(6, 3);
    for round in 0..=bench.pick(6, 5) {
        let scenarios: Vec<Scenario> = all.iter().map(|prices| prices.on(base)).collect();
        let outcomes = bench.run(&seeded(&scenarios, 0..seeds))?;
        let runs = outcomes.chunks(seeds as usize);
        misses.clear();
        for (prices, runs) in all.iter_mut().zip(runs) {
            let times = Times::mean(runs)?;
            misses.push(times.miss(&published));
            if round == bench.pick(6, 5) {
                continue;
            }
            for test in 0..TESTS.len() {
                prices.byte_ps[test] *= published.large(test) / times.large(test);
            }
            let ratio = |part: fn(&Times) -> f64| {
                (part(&published) / part(&times).max(1e-9)).clamp(0.5, 2.0)
            };
            prices.call_ns *= ratio(Times::calls);
            prices.page_ns *= ratio(Times::parts);
            let awake = runs
                .iter()
                .map(|run| 100.0 * run.value("machine/awake_ratio"));
            prices.storage_byte_ps *= awake.sum::<f64>() / runs.len() as f64 / busy;
        }
    }
    let prices = nearest(&all, misses.into_iter())?;
    let from = "iozone, all unpatched rows";
    prediction.constant("file_write_call_ns", prices.call_ns.round(), "ns", from);
    prediction.constant("file_page_ns", prices.page_ns.round(), "ns", from);
    prediction.constant("file_extend_byte_ps", prices.byte_ps[0].round(), "ps", from);
    prediction.constant("file_write_byte_ps", prices.byte_ps[1].round(), "ps", from);
    let commit = prices.free_commit_ns as f64;
    prediction.constant("file_free_commit_ns", commit, "ns", from);
    let memory = prices.memory_percent as f64;
    prediction.constant("file_memory_percent", memory, "%", from);
    let from = "iozone turbostat, Mean %Busy, unpatched";
    let storage = prices.storage_byte_ps.round();
    prediction.constant("storage_byte_ps", storage, "ps", from);
    Ok(prices)
}

/// Geometric mean of patched over base, in per cent, over the rows of a test with records from
/// `smallest`.
fn gain(times: &[Times; 2], test: usize, smallest: u64) -> f64 {
    let records = RECORDS.iter().filter(|&&record| record >= smallest);
    let rows = records.flat_map(|&record| (0..FILES.len()).map(move |file| (file, record)));
    mean_gain_percent(
        rows.map(|(file, record)| {
            times[0].of(test, file, record) / times[1].of(test, file, record)
        }),
    )
}

/// Fits to the unpatched column and answers the table.
pub(super) fn answer(pair: &[Scenario; 2], given: &mut Given) -> Result<()> {
    let prices = fit(&pair[0], given)?;
    let (known, bench, prediction) = given.parts();
    let seeds: u64 = bench.pick(20, 4);
    let pair = pair.each_ref().map(|scenario| prices.on(scenario));
    let outcomes = bench.run(&seeded(&pair, 100..100 + seeds))?;
    let columns: Vec<&[Outcome]> = outcomes.chunks(seeds as usize).collect();
    let times = [Times::mean(columns[0])?, Times::mean(columns[1])?];
    for question in known.of_table(TABLE) {
        let mut words = question.point.split('-');
        let name = words.next();
        let test = TESTS.iter().position(|test| Some(*test) == name);
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let (file, record) = (number(), number());
        let file = FILES.iter().position(|&one| Some(one) == file);
        let column = usize::from(question.kernel == Kernel::Patched);
        if let (Some(test), Some(file), Some(record)) = (test, file, record) {
            let rate = FILES[file] as f64 / times[column].of(test, file, record);
            prediction.answer(question, rate, None);
        }
    }
    prediction.figure("iozone_write_gain", gain(&times, 0, 2));
    prediction.figure("iozone_rewrite_gain", gain(&times, 1, 1));
    let watts = columns.iter().map(|runs| {
        let watts = runs.iter().map(|run| run.value("machine/package_watts"));
        watts.sum::<f64>() / runs.len() as f64
    });
    let watts: Vec<f64> = watts.collect();
    prediction.figure("iozone_package_power", percent(watts[1], watts[0]));
    Ok(())
}
