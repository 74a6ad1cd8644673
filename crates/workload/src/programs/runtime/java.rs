//! `java-server`: a pool of threads on HotSpot, and young collections that stop the world.
//!
//! ```text
//! arrival     ──► dispatcher: epoll_wait · hands the connection to the pool
//! worker      piece of work · allocate · [eden full: ask for a collection] · safepoint? · ... · reply ·
//!             wake the dispatcher, which waits for the connection again
//! VM thread   wait until all threads are at a safepoint · collect, or let the GC workers do so · go on
//! GC worker   a piece of the collection after the other · the last one tells the VM thread
//! ```
//!
//! All parts have their names in HotSpot (17). Worked example: with `-Xmn32m` the serial collector
//! has an eden of 8/10 of it (`SurvivorRatio=8`), 25.6 MB, and requests of 2.5 MB fill that after
//! ten. G1 lets eden have all but the regions of survivors.

use std::sync::Arc;

use schedcast_base::names::suggestion;
use schedcast_sim::program::Compare;
use schedcast_sim::workload::{ProgramId, QueueId, SemaphoreId, WordId};
use schedcast_sim::{ProgramBuilder, Reg};

use super::load::Load;
use super::{
    MEGABYTE, PROCESSORS_MAX, Scratch, Served, Shared, allocate, cpus, flag_or_variable,
    limit_permille, network, work_piece,
};
use crate::programs::command::{CommandError, Tool, Words as Line};
use crate::programs::postgres::queues;
use crate::programs::start::Compiler;
use crate::registers::registers;

/// `java-server`.
pub(crate) static TOOL: Tool = Tool {
    words: &["java-server"],
    name: "java-server",
    about: "a server in Java: processors, pool, garbage collection (no real tool)",
    operands: "",
    compile: |words, compiler| {
        let server = Server::read(words, compiler)?;
        server.compile(compiler)?;
        Ok(Arc::new(Served {
            load: server.load,
            processors: server.processors,
        }))
    },
};

/// Pieces that GC workers take in turn: a task queue is stolen from far more often than that, so
/// that workers end at about the same time.
const PIECES: u64 = 64;
/// How often the end of the workers is looked for, ns.
const ENDING_NS: u64 = 1_000_000;
/// Tells a thread to end.
const GOOD_BYE: u64 = 0;
/// A worker tells the dispatcher that a connection waits for its next request.
const AGAIN: u64 = 1;

/// A garbage collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Collector {
    Chosen,
    Serial,
    Parallel,
    G1,
}

const COLLECTORS: [(&str, Collector); 4] = [
    ("chosen", Collector::Chosen),
    ("serial", Collector::Serial),
    ("parallel", Collector::Parallel),
    ("g1", Collector::G1),
];

/// A command line.
#[derive(Debug)]
struct Server {
    load: Load,
    processors: u64,
    threads: u64,
    gc_threads: u64,
    /// Bytes between collections; `None` = none.
    eden_bytes: Option<u64>,
    collect_ns: u64,
}

impl Server {
    fn read(words: &Line, compiler: &Compiler) -> Result<Self, CommandError> {
        let load = Load::read(words, compiler)?;
        let limit = limit_permille(compiler.start.group, &compiler.workload.groups);
        let default = active_processors(cpus(compiler), limit);
        let options = Options::read(words, compiler)?;
        let processors = flag_or_variable(
            words,
            "processors",
            ("-XX:ActiveProcessorCount", options.processors),
            1..=PROCESSORS_MAX,
            default,
        )?;
        let collector = match words.one_of("collector", &COLLECTORS)? {
            Collector::Chosen if options.collector != Collector::Chosen => options.collector,
            // `is_server_machine`: two processors, and memory, which a server has.
            Collector::Chosen if processors < 2 => Collector::Serial,
            Collector::Chosen => Collector::G1,
            given => given,
        };
        let young = words.whole("young", 1..=1 << 20, 32)? * MEGABYTE;
        let regions = words.whole("survivors", 0..=young / MEGABYTE - 1, 0)? * MEGABYTE;
        let survivors = match collector {
            Collector::G1 => regions,
            // `SurvivorRatio=8`: two spaces of a tenth each, of which objects move from one to the
            // other.
            _ => young / 5,
        };
        let collect = words.whole("collect", 0..=60_000_000, 0)?;
        let serial = words.whole("collect-serial", 0..=60_000_000, collect)?;
        let (gc_threads, collect) = match collector {
            Collector::Serial => (1, serial),
            _ => (parallel_gc_threads(processors), collect),
        };
        Ok(Self {
            processors,
            threads: words.whole("threads", 1..=4096, processors)?,
            gc_threads,
            eden_bytes: (load.alloc_bytes > 0).then_some(young - survivors),
            collect_ns: collect * 1000,
            load,
        })
    }

    fn compile(&self, compiler: &mut Compiler) -> Result<(), CommandError> {
        let network = network(&self.load, compiler);
        let jvm = Jvm::new(self, compiler, network);
        let worker = jvm.worker(self, compiler)?;
        let worker = compiler.fork("", worker, false);
        let dispatcher = jvm.dispatcher(compiler)?;
        let dispatcher = compiler.fork("", dispatcher, false);
        let vm_thread = jvm.vm_thread(self, compiler)?;
        let vm_thread = compiler.fork("", vm_thread, false);
        let gc_worker = jvm.gc_worker(self, compiler)?;
        let gc_worker = compiler.fork("", gc_worker, false);
        let mut b = ProgramBuilder::new("java-server");
        SCRATCH.set(&mut b);
        b.fork(dispatcher, CHILD);
        b.fork(vm_thread, CHILD);
        for (count, thread) in [(self.threads, worker), (self.gc_threads, gc_worker)] {
            b.repeat(COUNT, count, |b| {
                b.fork(thread, CHILD);
            });
        }
        self.load
            .wait_for_end(&mut b, &jvm.shared.words, [COUNT, VALUE]);
        b.set(VALUE, GOOD_BYE);
        b.repeat(COUNT, self.threads, |b| {
            b.send(jvm.pool, 1, VALUE, false);
        });
        // A collection may be under way until the last worker has ended.
        let top = b.here();
        b.sleep(ENDING_NS);
        b.word_load(jvm.gone, VALUE);
        b.jump_if(VALUE, Compare::Less, self.threads, top);
        b.set(VALUE, GOOD_BYE);
        b.send(network, 1, VALUE, false);
        b.sem_post(jvm.vm);
        b.repeat(COUNT, self.gc_threads, |b| {
            b.sem_post(jvm.gang);
        });
        b.join_all();
        compiler.finish(b)
    }
}

/// Settings in `JAVA_TOOL_OPTIONS`.
struct Options<'a> {
    processors: Option<&'a str>,
    collector: Collector,
}

impl<'a> Options<'a> {
    fn read(words: &Line, compiler: &'a Compiler) -> Result<Self, CommandError> {
        const PROCESSORS: &str = "-XX:ActiveProcessorCount=";
        const COLLECTORS: [(&str, Collector); 3] = [
            ("-XX:+UseSerialGC", Collector::Serial),
            ("-XX:+UseParallelGC", Collector::Parallel),
            ("-XX:+UseG1GC", Collector::G1),
        ];
        let mut options = Self {
            processors: None,
            collector: Collector::Chosen,
        };
        let text = compiler.start.environment.get("JAVA_TOOL_OPTIONS");
        for word in text.map_or("", String::as_str).split_whitespace() {
            let collector = COLLECTORS.iter().find(|(name, _)| *name == word);
            if let Some(number) = word.strip_prefix(PROCESSORS) {
                options.processors = Some(number);
            } else if let Some((_, collector)) = collector {
                options.collector = *collector;
            } else {
                let names: Vec<&str> = COLLECTORS.iter().map(|(name, _)| *name).collect();
                let known = [&[PROCESSORS], names.as_slice()].concat();
                let message = format!(
                    "unknown word `{word}` in `JAVA_TOOL_OPTIONS`; {}",
                    suggestion(word, &known)
                );
                return Err(words.error(message));
            }
        }
        Ok(options)
    }
}

/// Processors without `-XX:ActiveProcessorCount`: the CPUs, or the limit in whole CPUs, rounded up,
/// if that is less (`CgroupUtil::processor_count`).
fn active_processors(cpus: u64, limit_permille: Option<u64>) -> u64 {
    limit_permille.map_or(cpus, |permille| cpus.min(permille.div_ceil(1000).max(1)))
}

/// `ParallelGCThreads`: all processors up to 8, five in eight of those beyond
/// (`nof_parallel_worker_threads`).
fn parallel_gc_threads(processors: u64) -> u64 {
    match processors {
        0..=8 => processors,
        _ => 8 + (processors - 8) * 5 / 8,
    }
}

const SCRATCH: Scratch = Scratch {
    a: Reg(0),
    minus_one: Reg(1),
};
registers! { 2; CHILD COUNT VALUE ARRIVED REST PIECE STOPPED }

/// State that the threads share.
struct Jvm {
    shared: Shared,
    pool: QueueId,
    /// Posted when eden is full.
    vm: SemaphoreId,
    /// Posted for each GC worker.
    gang: SemaphoreId,
    collected: SemaphoreId,
    allocated: WordId,
    /// Pieces of a collection that nobody has begun, and workers that are at it.
    left: WordId,
    active: WordId,
    /// Workers that have ended.
    gone: WordId,
}

impl Jvm {
    fn new(server: &Server, compiler: &mut Compiler, network: QueueId) -> Self {
        let pool = queues(compiler, 1);
        Self {
            shared: Shared::new(&server.load, compiler, network),
            pool,
            vm: compiler.workload.add_semaphore(0),
            gang: compiler.workload.add_semaphore(0),
            collected: compiler.workload.add_semaphore(0),
            allocated: compiler.workload.add_word(0),
            left: compiler.workload.add_word(0),
            active: compiler.workload.add_word(0),
            gone: compiler.workload.add_word(0),
        }
    }

    fn dispatcher(&self, compiler: &mut Compiler) -> Result<ProgramId, CommandError> {
        let mut b = ProgramBuilder::new("java-server-dispatcher");
        let (top, end) = (b.here(), b.label());
        b.recv(self.shared.network, ARRIVED);
        b.jump_if(ARRIVED, Compare::Equal, GOOD_BYE, end);
        b.kernel_work(self.shared.poll_ns);
        b.jump_if(ARRIVED, Compare::Equal, AGAIN, top);
        b.send(self.pool, 1, ARRIVED, false);
        b.jump(top);
        b.bind(end);
        compiler.program(b)
    }

    fn worker(&self, server: &Server, compiler: &mut Compiler) -> Result<ProgramId, CommandError> {
        let mut program = ProgramBuilder::new("java-server-worker");
        let b = &mut program;
        b.forever(|b, end| {
            b.recv(self.pool, ARRIVED);
            b.jump_if(ARRIVED, Compare::Equal, GOOD_BYE, end);
            b.word_fetch_add(self.shared.words.busy, 1, VALUE);
            self.shared.words.poll(b, &SCRATCH, 0);
            b.record_since(self.shared.metrics.queue, ARRIVED);
            b.kernel_work(self.shared.receive_ns);
            b.set(REST, self.shared.work);
            let (top, done) = (b.here(), b.label());
            b.jump_if(REST, Compare::Equal, 0, done);
            work_piece(b, REST, PIECE);
            if let Some(eden_bytes) = server.eden_bytes {
                allocate(b, &server.load, self.allocated, PIECE, VALUE);
                b.jump_if(VALUE, Compare::GreaterOrEqual, eden_bytes, top);
                b.add(VALUE, PIECE);
                b.unless(VALUE, Compare::Less, eden_bytes, |b| {
                    // The first whose allocation fails asks for a collection.
                    b.word_store(self.shared.words.stopping, 1);
                    b.sem_post(self.vm);
                });
                self.shared.words.poll(b, &SCRATCH, 0);
            }
            b.jump(top);
            b.bind(done);
            b.kernel_work(self.shared.send_ns);
            b.record_since(self.shared.metrics.latency, ARRIVED);
            b.word_fetch_add(self.shared.words.answered, 1, VALUE);
            self.shared.words.leave(b, &SCRATCH, 0);
            b.set(VALUE, AGAIN);
            b.send(self.shared.network, 1, VALUE, false);
        });
        b.word_fetch_add(self.gone, 1, VALUE);
        compiler.program(program)
    }

    fn vm_thread(
        &self,
        server: &Server,
        compiler: &mut Compiler,
    ) -> Result<ProgramId, CommandError> {
        let mut program = ProgramBuilder::new("java-server-vm-thread");
        let b = &mut program;
        b.forever(|b, end| {
            b.sem_wait(self.vm);
            b.word_load(self.gone, VALUE);
            b.jump_if(VALUE, Compare::GreaterOrEqual, server.threads, end);
            b.now(STOPPED);
            self.shared.words.stop(b, &SCRATCH, 0);
            b.count(self.shared.metrics.collections, 1);
            if server.gc_threads == 1 {
                b.work(server.collect_ns);
            } else {
                b.word_store(self.left, PIECES);
                b.word_store(self.active, server.gc_threads);
                b.repeat(COUNT, server.gc_threads, |b| {
                    b.sem_post(self.gang);
                });
                b.sem_wait(self.collected);
            }
            b.word_store(self.allocated, 0);
            b.record_since(self.shared.metrics.pause, STOPPED);
            self.shared.words.start(b);
        });
        compiler.program(program)
    }

    fn gc_worker(
        &self,
        server: &Server,
        compiler: &mut Compiler,
    ) -> Result<ProgramId, CommandError> {
        let mut b = ProgramBuilder::new("java-server-gc-worker");
        let (next, end) = (b.here(), b.label());
        b.sem_wait(self.gang);
        b.word_load(self.gone, VALUE);
        b.jump_if(VALUE, Compare::GreaterOrEqual, server.threads, end);
        b.forever(|b, empty| {
            b.word_load(self.left, VALUE);
            b.jump_if(VALUE, Compare::Equal, 0, empty);
            b.word_fetch_add(self.left, SCRATCH.minus_one, VALUE);
            b.work(server.collect_ns / PIECES);
        });
        b.word_fetch_add(self.active, SCRATCH.minus_one, VALUE);
        b.jump_if(VALUE, Compare::NotEqual, 1, next);
        b.sem_post(self.collected);
        b.jump(next);
        b.bind(end);
        compiler.program(b)
    }
}
