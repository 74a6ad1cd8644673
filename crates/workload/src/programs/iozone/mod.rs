//! `iozone`: processes that write and read files of their own, record by record.
//!
//! ```text
//! process   for write, rewrite, read, reread: [barrier] · open · a call for each record · [fsync with -e] · [close with -c]
//! ```
//!
//! Records go through the page cache: a call costs its own price and that of its bytes, so small records are
//! limited by calls and large ones by copying. Worked example: 200,704 KB in records of 64 KB are 3136 calls
//! of 0.9 µs and 205.5 MB at 79 ps a byte, 3 ms and 16 ms; the first write, which finds no pages, takes
//! 41 ms. With `-e` the file is on disk before the clock stops (see the storage module).

#[cfg(test)]
mod tests;

use schedcast_sim::workload::{BarrierId, MetricId, ProgramId};
use schedcast_sim::{ProgramBuilder, Reg};

use super::command::{CommandError, Effect, Flag, Given, Tool, Words, whole};
use super::prices::Prices;
use super::results::{MetricMap, Results};
use super::start::Compiler;
use super::storage::{FileSystem, Storage, reply_queues};

const PROCESSES_MAX: u64 = 1024;
const KB: u64 = 1024;
const RECORDS_MAX: u64 = 1 << 32;

const PROCESS: Reg = Reg(0);
const LEFT: Reg = Reg(1);
const CHILD: Reg = Reg(2);
const BEGIN: Reg = Reg(3);
const GROWN: Reg = Reg(4);

const NOT_MODELLED: Effect = Effect::Refused("this way of reading and writing is not modelled");

/// `iozone` 3.
pub static TOOL: Tool = Tool {
    words: &["iozone"],
    name: "iozone",
    about: "processes that write and read files, record by record",
    operands: "",
    flags: &[
        Flag::short('s', "SIZE")
            .default("512k")
            .says("of a file: KB, or with k, m or g behind"),
        Flag::short('r', "SIZE")
            .default("4k")
            .says("of a record: KB, or with k, m or g behind"),
        Flag::short('i', "TEST")
            .default("0 and 1")
            .says("0 = write and rewrite, 1 = read and reread; may be repeated"),
        Flag::short('t', "N").says("so many processes at the same time, each with its file"),
        Flag::short('e', "")
            .switch()
            .says("count the fsync after writing"),
        Flag::short('c', "")
            .switch()
            .says("count the close")
            .effect(Effect::Nothing("closing a file takes no time to speak of")),
        Flag::long("filesystem", "NAME")
            .default("ext4")
            .says("not a flag of the tool: ext4, xfs or tmpfs under the files"),
        Flag::short('f', "FILE")
            .says("name of the file")
            .effect(Effect::Nothing("--filesystem says what is there")),
        Flag::short('F', "FILE")
            .says("names of the files")
            .effect(Effect::Refused("give -t alone, names do not matter")),
        Flag::short('w', "")
            .switch()
            .says("leave the file")
            .effect(Effect::Nothing("removing it is not measured")),
        Flag::short('R', "")
            .switch()
            .says("a report for a spreadsheet")
            .effect(Effect::Refused("only the plain table is printed")),
        Flag::short('b', "FILE")
            .says("a report for a spreadsheet")
            .effect(Effect::Refused("only the plain table is printed")),
        Flag::short('a', "")
            .switch()
            .says("all sizes")
            .effect(Effect::Refused("give one size with -s and -r")),
        Flag::short('I', "")
            .switch()
            .says("O_DIRECT")
            .effect(NOT_MODELLED),
        Flag::short('o', "")
            .switch()
            .says("O_SYNC")
            .effect(NOT_MODELLED),
        Flag::short('B', "")
            .switch()
            .says("mmap")
            .effect(NOT_MODELLED),
    ],
};

/// One pass over the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Write,
    Rewrite,
    Read,
    Reread,
}

impl Pass {
    fn metric(self) -> &'static str {
        match self {
            Pass::Write => "write",
            Pass::Rewrite => "rewrite",
            Pass::Read => "read",
            Pass::Reread => "reread",
        }
    }

    /// As the tool calls its processes in throughput mode.
    fn title(self) -> &'static str {
        match self {
            Pass::Write => "initial writers",
            Pass::Rewrite => "rewriters",
            Pass::Read => "readers",
            Pass::Reread => "re-readers",
        }
    }

    fn writes(self) -> bool {
        matches!(self, Pass::Write | Pass::Rewrite)
    }

    /// One call.
    fn call_ns(self, prices: &Prices, bytes: u64) -> u64 {
        let (call_ns, byte_ps) = match self {
            Pass::Write => (prices.file_write_call_ns, prices.file_extend_byte_ps),
            Pass::Rewrite => (prices.file_write_call_ns, prices.file_write_byte_ps),
            Pass::Read | Pass::Reread => (prices.file_read_call_ns, prices.file_read_byte_ps),
        };
        call_ns + bytes.saturating_mul(byte_ps) / 1000
    }
}

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a file.
    pub file_bytes: u64,
    /// Bytes of a record.
    pub record_bytes: u64,
    /// Processes.
    pub processes: u64,
    /// Whether writing ends with an `fsync`.
    pub flushed: bool,
    /// Under the files.
    pub file_system: FileSystem,
    passes: Vec<Pass>,
    /// `-t` was given: the tool prints sums.
    throughput: bool,
}

impl Options {
    /// Reads a command line.
    ///
    /// # Errors
    /// Bad sizes, unknown tests, reading without writing first.
    pub fn read(words: &Words) -> Result<Self, CommandError> {
        let size = |key: &str, default: u64| words.last(key).map_or(Ok(default), read_size);
        let file_bytes = size("s", 512 * KB)?;
        let record_bytes = size("r", 4 * KB)?;
        if let Some(given) = words.last("r").or_else(|| words.last("s"))
            && (record_bytes > file_bytes || file_bytes / record_bytes > RECORDS_MAX)
        {
            return Err(given.error("a file needs at least one record, and 4 billion at most"));
        }
        let mut tests = Vec::new();
        for given in words.given.iter().filter(|given| given.flag.key() == "i") {
            tests.push(given.whole(0..=1).map_err(|_| {
                let text = given.text();
                given.error(format!("test `{text}` is not modelled, only 0 and 1 are"))
            })?);
        }
        if !tests.is_empty() && !tests.contains(&0) {
            return Err(words.error("test 0 makes the file, without it there is nothing to read"));
        }
        let mut passes = vec![Pass::Write, Pass::Rewrite];
        if tests.is_empty() || tests.contains(&1) {
            passes.extend([Pass::Read, Pass::Reread]);
        }
        Ok(Self {
            file_bytes,
            record_bytes,
            processes: words.whole("t", 1..=PROCESSES_MAX, 1)?,
            flushed: words.has("e"),
            file_system: FileSystem::read(words.last("filesystem"))?,
            passes,
            throughput: words.has("t"),
        })
    }

    pub(super) fn compile(&self, compiler: &mut Compiler) -> Result<(), CommandError> {
        let barrier = compiler.workload.add_barrier(self.processes as u32);
        let storage = match self.flushed {
            true => Storage::mount(compiler, self.file_system)?,
            // Nobody waits for the disk.
            false => Storage::mount(compiler, FileSystem::Tmpfs)?,
        };
        let process = self.process(compiler, &storage, barrier)?;
        let process = compiler.fork("", process, true);
        let mut b = ProgramBuilder::new("iozone-main");
        b.set(LEFT, self.processes);
        let top = b.here();
        b.fork(process, CHILD);
        b.add(PROCESS, 1);
        b.loop_back(LEFT, top);
        b.join_all();
        let main = compiler.program(b)?;
        compiler.main(main, Vec::new());
        Ok(())
    }

    fn process(
        &self,
        compiler: &mut Compiler,
        storage: &Storage,
        barrier: BarrierId,
    ) -> Result<ProgramId, CommandError> {
        let replies = reply_queues(compiler, self.processes);
        let prices = compiler.start.prices;
        let flush_ns = self.file_bytes.saturating_mul(prices.storage_byte_ps) / 1000;
        let mut b = ProgramBuilder::new("iozone");
        storage.begin(&mut b, replies, PROCESS);
        for pass in &self.passes {
            let metric: MetricId = compiler.metric(pass.metric());
            b.barrier(barrier);
            b.now(BEGIN);
            b.set(LEFT, self.file_bytes / self.record_bytes);
            let top = b.here();
            b.work(pass.call_ns(&prices, self.record_bytes));
            b.loop_back(LEFT, top);
            if pass.writes() && self.flushed && self.file_system != FileSystem::Tmpfs {
                // The data is on its way, then the file is made durable.
                b.io(flush_ns);
                b.set(GROWN, u64::from(*pass == Pass::Write));
                storage.fsync(&mut b, GROWN);
            }
            b.record_since(metric, BEGIN);
        }
        b.exit();
        compiler.program(b)
    }

    /// KB a second of all processes together.
    fn rate(&self, results: &Results, pass: Pass) -> Option<f64> {
        let values = results.values(pass.metric())?;
        let file_kb = self.file_bytes as f64 / KB as f64;
        let rates = values.iter().map(|(low, high, count)| {
            let time_s = (low as f64 + high as f64) / 2.0 / 1e9;
            count as f64 * file_kb / time_s
        });
        Some(rates.sum())
    }

    pub(super) fn metrics(&self, results: &Results, map: &mut MetricMap) {
        for pass in &self.passes {
            let name = format!("{}_throughput", pass.metric());
            results.put(map, &name, self.rate(results, *pass));
        }
    }

    /// The tool's table, or its sums with `-t`.
    pub(super) fn report(&self, results: &Results) -> String {
        let rate = |pass: &Pass| self.rate(results, *pass).unwrap_or(0.0);
        if self.throughput {
            let line = |pass: &Pass| {
                format!(
                    "\tChildren see throughput for {:>2} {:<16}= {:>12.2} kB/sec\n",
                    self.processes,
                    pass.title(),
                    rate(pass)
                )
            };
            return self.passes.iter().map(line).collect();
        }
        let mut text = format!("{:>16}  reclen", "kB");
        for pass in &self.passes {
            text += &format!("{:>10}", pass.metric());
        }
        text += &format!(
            "\n{:>16}{:>8}",
            self.file_bytes / KB,
            self.record_bytes / KB
        );
        for pass in &self.passes {
            text += &format!("{:>10.0}", rate(pass));
        }
        text + "\n"
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
