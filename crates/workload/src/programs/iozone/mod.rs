//! `iozone`: processes that write and read files of their own, record by record.
//!
//! ```text
//! process   for each pass: [barrier] · open · a call for each record · [fsync with -e] ── the clock stops here
//!           fsync · close                       (without -t)
//! ```
//!
//! Records go through the page cache: a call costs its own price and that of its bytes, so small
//! records are limited by calls and large ones by copying. Worked example: 200,704 KB in records of
//! 64 KB are 3136 calls of 0.9 µs and 205.5 MB at 79 ps a byte, 3 ms and 16 ms; the first write,
//! which finds no pages, takes 41 ms. With `-e` the file is on disk before the clock stops (see the
//! storage module).
//!
//! Actions outside the measured time still happen: every pass ends with an `fsync`, and before the
//! first write that of the file just created puts on disk what freeing the file before it changed.
//! So passes begin after the CPU has slept, which governors of its clock do not forget.

#[cfg(test)]
mod tests;

use schedcast_sim::workload::{BarrierId, DeviceId, ProgramId};
use schedcast_sim::{Distribution, ProgramBuilder};

use super::command::{CommandError, Given, Tool, Words, compiled, whole};
use super::model::Model;
use super::prices::Prices;
use super::results::{MetricMap, Results};
use super::start::Compiler;
use super::storage::{FileSystem, Storage, reply_queues};
use crate::registers::registers;

const PROCESSES_MAX: u64 = 1024;
const KB: u64 = 1024;
const RECORDS_MAX: u64 = 1 << 32;

/// Auto mode's files and records without flags: 64 KB to 512 MB, 4 KB to 16 MB.
const AUTO_FILES: [u64; 2] = [64 * KB, 512 * 1024 * KB];
const AUTO_RECORDS: [u64; 2] = [4 * KB, 16 * 1024 * KB];
/// Sizes of files and records that auto mode may run together.
const POINTS_MAX: usize = 1000;
/// Records smaller than this are computed several at a time; nothing can tell.
const CHUNK_BYTES: u64 = 64 * KB;
const PAGE_BYTES: u64 = 4 * KB;
/// Precision of waiting for memory.
const MEMORY_STEP_NS: u32 = 20;

registers! { 0; PROCESS LEFT CHILD BEGIN GROWN }

/// `iozone` 3.
pub(crate) static TOOL: Tool = Tool {
    words: &["iozone"],
    name: "iozone",
    about: "processes that write and read files, record by record",
    operands: "",
    compile: compiled!(Options),
};

schedcast_base::named! {
    /// One pass over the file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Pass {
        Write = "write",
        Rewrite = "rewrite",
        Read = "read",
        Reread = "reread",
        RandomRead = "random_read",
        RandomWrite = "random_write",
        /// Executed twice, of which the tool prints the first.
        BackwardRead = "backward_read",
    }
}

impl Pass {
    /// Those of a test of `-i`.
    fn of_test(test: u64) -> &'static [Pass] {
        match test {
            0 => &[Pass::Write, Pass::Rewrite],
            1 => &[Pass::Read, Pass::Reread],
            2 => &[Pass::RandomRead, Pass::RandomWrite],
            _ => &[Pass::BackwardRead],
        }
    }

    /// As the tool calls its processes in throughput mode.
    fn title(self) -> &'static str {
        match self {
            Pass::Write => "initial writers",
            Pass::Rewrite => "rewriters",
            Pass::Read => "readers",
            Pass::Reread => "re-readers",
            Pass::RandomRead => "random readers",
            Pass::RandomWrite => "random writers",
            Pass::BackwardRead => "reverse readers",
        }
    }

    /// Its column in the table, two lines.
    fn heading(self) -> (&'static str, &'static str) {
        match self {
            Pass::RandomRead => ("random", "read"),
            Pass::RandomWrite => ("random", "write"),
            Pass::BackwardRead => ("bkwd", "read"),
            _ => ("", self.name()),
        }
    }

    fn writes(self) -> bool {
        matches!(self, Pass::Write | Pass::Rewrite | Pass::RandomWrite)
    }

    /// How often the tool executes it.
    fn times(self) -> u64 {
        1 + u64::from(self == Pass::BackwardRead)
    }

    /// One call: what the CPU does, and what it waits for memory, whatever its clock is.
    fn call_ns(self, prices: &Prices, bytes: u64) -> (u64, u64) {
        let (call_ns, byte_ps) = match self {
            Pass::Write => (prices.file_write_call_ns, prices.file_extend_byte_ps),
            Pass::Rewrite | Pass::RandomWrite => {
                (prices.file_write_call_ns, prices.file_write_byte_ps)
            }
            _ => (prices.file_read_call_ns, prices.file_read_byte_ps),
        };
        let bytes_ns = bytes.saturating_mul(byte_ps) / 1000;
        let memory_ns = bytes_ns.saturating_mul(prices.file_memory_percent.min(100)) / 100;
        // Pages are looked up one by one; what that takes is part of a whole page's bytes.
        let missing = PAGE_BYTES.saturating_sub(bytes);
        let page_ns = prices.file_page_ns.saturating_mul(missing) / PAGE_BYTES;
        (call_ns + page_ns + bytes_ns - memory_ns, memory_ns)
    }
}

/// Sizes of one row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    file_bytes: u64,
    record_bytes: u64,
}

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Processes.
    pub processes: u64,
    /// Whether writing ends with an `fsync` that counts.
    pub flushed: bool,
    /// Under the files.
    pub file_system: FileSystem,
    passes: Vec<Pass>,
    points: Vec<Point>,
    /// `-a` was given: metrics carry their sizes.
    auto: bool,
    /// `-t` was given: the tool prints sums.
    throughput: bool,
}

impl Options {
    /// Reads a command line.
    ///
    /// # Errors
    /// Bad sizes, unknown tests, reading without writing first.
    pub(crate) fn read(words: &Words) -> Result<Self, CommandError> {
        let mut tests = Vec::new();
        for given in words.given.iter().filter(|given| given.flag.key() == "i") {
            tests.push(given.whole(0..=3).map_err(|_| {
                let text = given.text();
                given.error(format!("test `{text}` is not modelled, only 0 to 3 are"))
            })?);
        }
        if !tests.is_empty() && !tests.contains(&0) {
            return Err(words.error("test 0 makes the file, without it there is nothing to read"));
        }
        if tests.is_empty() {
            tests = vec![0, 1];
        }
        // The tool has an order of its own.
        let passes = (0..=3).filter(|test| tests.contains(test));
        let passes = passes.flat_map(Pass::of_test).copied().collect();
        let (auto, throughput) = (words.has("a"), words.has("t"));
        if let (true, Some(given)) = (auto, words.last("t")) {
            return Err(given.error("takes one size of file and record, -a takes many"));
        }
        Ok(Self {
            processes: words.whole("t", 1..=PROCESSES_MAX, 1)?,
            flushed: words.has("e"),
            file_system: FileSystem::read(words.last("filesystem"))?,
            passes,
            points: match auto {
                true => auto_points(words)?,
                false => vec![one_point(words)?],
            },
            auto,
            throughput,
        })
    }

    pub(super) fn compile(&self, compiler: &mut Compiler) -> Result<(), CommandError> {
        let barrier = compiler.workload.add_barrier(self.processes as u32);
        let storage = match self.waits_for_disk() {
            true => Storage::mount(compiler, self.file_system)?,
            false => Storage::mount(compiler, FileSystem::Tmpfs)?,
        };
        let process = self.process(compiler, &storage, barrier)?;
        let process = compiler.fork("", process, true);
        let mut b = ProgramBuilder::new("iozone-main");
        b.repeat(LEFT, self.processes, |b| {
            b.fork(process, CHILD);
            b.add(PROCESS, 1);
        });
        b.join_all();
        compiler.finish(b)
    }

    /// Whether anything goes to the disk: without `-t` at the end of each pass, with it as part of
    /// a pass.
    fn waits_for_disk(&self) -> bool {
        self.file_system != FileSystem::Tmpfs && (self.flushed || !self.throughput)
    }

    fn process(
        &self,
        compiler: &mut Compiler,
        storage: &Storage,
        barrier: BarrierId,
    ) -> Result<ProgramId, CommandError> {
        let replies = reply_queues(compiler, self.processes);
        let prices = compiler.start.prices;
        let disk = (storage, Storage::stream(compiler));
        // Nothing is known of a disk's long waits but their mean.
        let free_commit = compiler
            .workload
            .add_distribution(Distribution::Exponential {
                mean: prices.file_free_commit_ns,
            });
        let mut b = ProgramBuilder::new("iozone");
        storage.begin(&mut b, replies, PROCESS);
        let mut before: Option<Point> = None;
        for point in &self.points {
            if let Some(before) = before.replace(*point) {
                b.kernel_work(before.file_bytes.saturating_mul(prices.file_free_byte_ps) / 1000);
                if self.waits_for_disk() {
                    // The new file is made durable, and with it that the old one is gone.
                    b.io(free_commit);
                    b.set(GROWN, 1);
                    storage.fsync(&mut b, GROWN);
                }
            }
            for &pass in &self.passes {
                let metric = compiler.metric(&self.metric(pass, *point));
                for again in 0..pass.times() {
                    b.barrier(barrier);
                    b.now(BEGIN);
                    records(&mut b, pass, *point, &prices);
                    let dirty = pass.writes() && self.waits_for_disk();
                    if dirty && self.flushed {
                        flush(&mut b, disk, pass, *point);
                    }
                    if again == 0 {
                        b.record_since(metric, BEGIN);
                    }
                    if dirty && !self.flushed {
                        flush(&mut b, disk, pass, *point);
                    }
                }
            }
        }
        b.exit();
        compiler.program(b)
    }

    /// Name of what a pass records.
    fn metric(&self, pass: Pass, point: Point) -> String {
        match self.auto {
            true => {
                let (file, record) = (point.file_bytes / KB, point.record_bytes / KB);
                format!("{}.{file}-{record}", pass.name())
            }
            false => pass.name().to_owned(),
        }
    }

    /// KB a second of all processes together.
    fn rate(&self, results: &Results, pass: Pass, point: Point) -> Option<f64> {
        let time_s = results.values(&self.metric(pass, point))?.mean()? / 1e9;
        let file_kb = point.file_bytes as f64 / KB as f64;
        Some(self.processes as f64 * file_kb / time_s)
    }
}

impl Model for Options {
    fn metrics(&self, results: &Results, map: &mut MetricMap) {
        for &point in &self.points {
            for &pass in &self.passes {
                let sizes = self.metric(pass, point);
                let sizes = sizes.strip_prefix(pass.name()).unwrap_or_default();
                let name = format!("{}_throughput{sizes}", pass.name());
                results.put(map, &name, self.rate(results, pass, point));
            }
        }
    }

    /// The tool's table, or its sums with `-t`.
    fn report(&self, results: &Results) -> String {
        let rate = |pass: &Pass, point| self.rate(results, *pass, point).unwrap_or(0.0);
        if self.throughput {
            let line = |pass: &Pass| {
                format!(
                    "\tChildren see throughput for {:>2} {:<16}= {:>12.2} kB/sec\n",
                    self.processes,
                    pass.title(),
                    rate(pass, self.points[0])
                )
            };
            return self.passes.iter().map(line).collect();
        }
        let mut text = String::new();
        if self.passes.iter().any(|pass| !pass.heading().0.is_empty()) {
            let above = self.passes.iter().map(|pass| pass.heading().0);
            let above: String = above.map(|word| format!("{word:>10}")).collect();
            text += &format!("{:>24}{above}\n", "");
        }
        text += &format!("{:>16}  reclen", "kB");
        for pass in &self.passes {
            text += &format!("{:>10}", pass.heading().1);
        }
        for &point in &self.points {
            text += &format!(
                "\n{:>16}{:>8}",
                point.file_bytes / KB,
                point.record_bytes / KB
            );
            for pass in &self.passes {
                text += &format!("{:>10.0}", rate(pass, point));
            }
        }
        text + "\n"
    }
}

/// A call for each record.
fn records(b: &mut ProgramBuilder, pass: Pass, point: Point, prices: &Prices) {
    let (cpu_ns, memory_ns) = pass.call_ns(prices, point.record_bytes);
    let records = point.file_bytes / point.record_bytes;
    let together = (CHUNK_BYTES / point.record_bytes).clamp(1, records);
    let calls = |b: &mut ProgramBuilder, count: u64| {
        b.work(cpu_ns * count);
        if memory_ns > 0 {
            b.spin(memory_ns * count, MEMORY_STEP_NS);
        }
    };
    b.repeat(LEFT, records / together, |b| {
        calls(b, together);
    });
    if !records.is_multiple_of(together) {
        calls(b, records % together);
    }
}

/// `fsync` of what a pass wrote: the data is on its way, then the file is made durable.
fn flush(b: &mut ProgramBuilder, disk: (&Storage, DeviceId), pass: Pass, point: Point) {
    let (storage, stream) = disk;
    storage.write_back(b, stream, point.file_bytes, LEFT);
    b.set(GROWN, u64::from(pass == Pass::Write));
    storage.fsync(b, GROWN);
}

/// The sizes of `-s` and `-r`.
fn one_point(words: &Words) -> Result<Point, CommandError> {
    if let Some(given) = ["n", "g", "y", "q"].iter().find_map(|key| words.last(key)) {
        return Err(given.error("says something with -a only"));
    }
    let size = |key: &str, default: u64| words.last(key).map_or(Ok(default), read_size);
    let point = Point {
        file_bytes: size("s", 512 * KB)?,
        record_bytes: size("r", 4 * KB)?,
    };
    let Point {
        file_bytes,
        record_bytes,
    } = point;
    match words.last("r").or_else(|| words.last("s")) {
        Some(given) if record_bytes > file_bytes || file_bytes / record_bytes > RECORDS_MAX => {
            Err(given.error("a file needs at least one record, and 4 billion at most"))
        }
        _ => Ok(point),
    }
}

/// Every file of `-a` with every record that fits into it.
fn auto_points(words: &Words) -> Result<Vec<Point>, CommandError> {
    if let Some(given) = words.last("s").or_else(|| words.last("r")) {
        return Err(given.error("-a has -n and -g for files, -y and -q for records"));
    }
    let size = |key: &str, default: u64| words.last(key).map_or(Ok(default), read_size);
    let doubled = |[low, high]: [u64; 2]| {
        std::iter::successors(Some(low), |size| size.checked_mul(2))
            .take_while(move |&size| size <= high)
    };
    let files = [size("n", AUTO_FILES[0])?, size("g", AUTO_FILES[1])?];
    let records = [size("y", AUTO_RECORDS[0])?, size("q", AUTO_RECORDS[1])?];
    let points: Vec<Point> = doubled(files)
        .flat_map(|file_bytes| {
            let fit = doubled(records).filter(move |&record_bytes| record_bytes <= file_bytes);
            fit.map(move |record_bytes| Point {
                file_bytes,
                record_bytes,
            })
        })
        .take(POINTS_MAX + 1)
        .collect();
    match points.len() {
        1..=POINTS_MAX => Ok(points),
        0 => Err(words.error("-n, -g, -y and -q leave no file with a record that fits")),
        _ => Err(words.error("-n, -g, -y and -q leave more than 1000 pairs of sizes")),
    }
}

/// KB, or with a unit behind.
fn read_size(given: &Given) -> Result<u64, CommandError> {
    let text = given.text();
    let (digits, unit) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], KB),
        Some('m' | 'M') => (&text[..text.len() - 1], KB * KB),
        Some('g' | 'G') => (&text[..text.len() - 1], KB * KB * KB),
        _ => (text, KB),
    };
    whole(digits, &(1..=1 << 30))
        .map(|number| number * unit)
        .map_err(|_| {
            let typed = &given.typed;
            given.error(format!(
                "flag `{typed}` needs a size such as `64`, `64k` or `1m`, found `{text}`"
            ))
        })
}
