//! `go-server`: goroutines on Ps and Ms, and the concurrent collector.
//!
//! ```text
//! arrival    ──► the M in epoll_wait takes an idle P, wakes another M (wakep), runs the request
//! M          stop? · mark as dedicated or fractional worker · run queue · network · mark because idle ·
//!            give the P back · epoll_wait if no other M is there, else park
//! request    piece of work · allocate · [start a cycle] · [assist] · stop? · 10 ms over? · ...
//! ```
//!
//! All parts have their names in Go's `runtime` (1.26: `proc.go`, `mgc.go`, `mgcpacer.go`).
//!
//! Worked example: with `GOMAXPROCS=4` one P marks and does nothing else during a cycle (25 %), and
//! every P without a goroutine marks, too. With 2 no P is dedicated; each marks for a quarter of
//! the time, between goroutines.

use std::sync::Arc;

use schedcast_sim::program::{Arithmetic, Compare, Label};
use schedcast_sim::workload::{ProgramId, QueueId, SemaphoreId, WordId};
use schedcast_sim::{ProgramBuilder, Reg};

use super::load::Load;
use super::{
    MEGABYTE, PROCESSORS_MAX, Scratch, Served, Shared, allocate, cpus, flag_or_variable,
    limit_permille, network, work_piece,
};
use crate::programs::command::{CommandError, Tool, Words as Line};
use crate::programs::start::Compiler;
use crate::registers::registers;

/// `go-server`.
pub(crate) static TOOL: Tool = Tool {
    words: &["go-server"],
    name: "go-server",
    about: "a server in Go: GOMAXPROCS, garbage collection (no real tool)",
    operands: "",
    compile: |words, compiler| {
        let server = Server::read(words, compiler)?;
        server.compile(compiler)?;
        Ok(Arc::new(Served {
            load: server.load,
            processors: server.gomaxprocs,
        }))
    },
};

/// `forcePreemptNS`: a goroutine that has run for so long goes to the end of the global queue.
const FORCE_PREEMPT_NS: u64 = 10_000_000;
/// `idleCheckThreshold`: marked bytes after which an idle worker looks for goroutines.
const IDLE_CHECK_BYTES: u64 = 100_000;
/// `gcBackgroundUtilization`, in thousandths of all Ps.
const BACKGROUND_PERMILLE: u64 = 250;
/// A fractional worker goes on until it has had 1.2 times its share (`pollFractionalWorkerExit`).
const FRACTION_EXCESS_PERMILLE: u64 = 1200;
/// A value of the run queue is the arrival in µs times this, and the work left in µs.
const LEFT: u64 = 1 << 22;
/// Places of the run queue; more preempted or taken requests than this wait in the network.
const RING: u64 = 1 << 12;
/// Requests that one `netpoll` takes at the most.
const BATCH: u64 = 128;
/// Tells an M in `epoll_wait` to end.
const GOOD_BYE: u64 = 0;

/// A command line.
#[derive(Debug)]
struct Server {
    load: Load,
    gomaxprocs: u64,
    /// Bytes allocated from the end of a collection to the begin of the next; `None` = never.
    trigger_bytes: Option<u64>,
    /// From there to the goal.
    runway_bytes: u64,
    /// Pieces of marking, and the CPU time of each.
    pieces: u64,
    piece_ns: u64,
    stw_ns: u64,
}

impl Server {
    fn read(words: &Line, compiler: &Compiler) -> Result<Self, CommandError> {
        let load = Load::read(words, compiler)?;
        let knows_limit = match words.last("go") {
            None => true,
            Some(given) => {
                let minor = given.text().strip_prefix("1.");
                let minor = minor.and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
                minor.ok_or_else(|| given.expected("a release such as `1.24`"))? >= 25
            }
        };
        let default = default_gomaxprocs(
            cpus(compiler),
            limit_permille(compiler.start.group, &compiler.workload.groups),
            knows_limit,
        );
        let live = words.whole("live", 1..=1 << 20, 4)? * MEGABYTE;
        let trigger = words.whole("trigger", 70..=95, 95)?;
        let variable = |name: &str| compiler.start.environment.get(name).map(String::as_str);
        let is_off = words
            .last("gogc")
            .is_some_and(|given| given.text() == "off");
        let growth = match (variable("GOGC"), is_off) {
            (Some("off"), _) | (None, true) => None,
            (gogc, _) => {
                let percent = flag_or_variable(words, "gogc", ("GOGC", gogc), 1..=10_000, 100)?;
                Some(live * percent / 100)
            }
        };
        let gomaxprocs = flag_or_variable(
            words,
            "gomaxprocs",
            ("GOMAXPROCS", variable("GOMAXPROCS")),
            1..=PROCESSORS_MAX,
            default,
        )?;
        let mark_ns = words.whole("mark", 0..=60_000_000, 0)? * 1000;
        let pieces = (live / IDLE_CHECK_BYTES).max(1);
        let trigger_bytes = growth
            .filter(|_| load.alloc_bytes > 0)
            .map(|growth| growth * trigger / 100);
        Ok(Self {
            gomaxprocs,
            runway_bytes: growth.unwrap_or(0) - trigger_bytes.unwrap_or(0).min(growth.unwrap_or(0)),
            trigger_bytes,
            pieces,
            piece_ns: mark_ns / pieces,
            stw_ns: words.whole("stw", 0..=60_000_000, 50)? * 1000,
            load,
        })
    }

    fn compile(&self, compiler: &mut Compiler) -> Result<(), CommandError> {
        let network = network(&self.load, compiler);
        let runtime = Runtime::new(self, compiler, network);
        let m = runtime.m(self, compiler)?;
        let m = compiler.fork("", m, false);
        let mut b = ProgramBuilder::new("go-server");
        SCRATCH.set(&mut b);
        // One M beyond the Ps sits in `epoll_wait`, without a P.
        let ms = self.gomaxprocs + 1;
        b.repeat(COUNT, ms, |b| {
            b.fork(m, CHILD);
        });
        // The process itself is `sysmon`.
        self.load
            .wait_for_end(&mut b, &runtime.shared.words, [START, NOW]);
        b.forever(|b, woken| {
            b.word_load(runtime.parked, VALUE);
            b.jump_if(VALUE, Compare::Equal, 0, woken);
            b.word_fetch_add(runtime.parked, SCRATCH.minus_one, VALUE);
            b.word_fetch_add(runtime.shared.words.busy, 1, VALUE);
            b.sem_post(runtime.park);
        });
        b.set(VALUE, GOOD_BYE);
        b.send(network, 1, VALUE, false);
        b.join_all();
        compiler.finish(b)
    }
}

/// Dedicated workers, and the share of each P that a fractional one may take in thousandths
/// (`startCycle`).
pub(super) fn workers(procs: u64) -> (u64, u64) {
    let goal = procs * BACKGROUND_PERMILLE;
    let mut dedicated = (goal + 500) / 1000;
    // Rounding by more than 30 % of the goal is made up for by fractional workers.
    if (dedicated * 1000).abs_diff(goal) * 10 <= goal * 3 {
        return (dedicated, 0);
    }
    if dedicated * 1000 > goal {
        dedicated -= 1;
    }
    (dedicated, (goal - dedicated * 1000) / procs)
}

/// GOMAXPROCS without a setting: the CPUs, and from 1.25 on no more than the limit in whole CPUs,
/// rounded up, but at least 2 (`adjustCgroupGOMAXPROCS`).
pub(super) fn default_gomaxprocs(cpus: u64, limit_permille: Option<u64>, knows_limit: bool) -> u64 {
    match limit_permille {
        Some(permille) if knows_limit => cpus.min(permille.div_ceil(1000).max(2)),
        _ => cpus,
    }
}

const SCRATCH: Scratch = Scratch {
    a: Reg(0),
    minus_one: Reg(1),
};
registers! { 2;
    CHILD COUNT VALUE NOW
    /// When the running goroutine, or the worker, began.
    START
    /// Arrival of the request.
    ARRIVED
    /// CPU time that it still needs, ns.
    REST PIECE
    /// 1 while this M looks for work after it was woken.
    SPINNING B STOPPED
}

/// State that Ms share.
struct Runtime {
    shared: Shared,
    park: SemaphoreId,
    idle_ps: WordId,
    parked: WordId,
    spinning: WordId,
    polling: WordId,
    /// Bytes since the last collection.
    allocated: WordId,
    marking: WordId,
    /// Pieces that nobody has begun, and those under way.
    left: WordId,
    active: WordId,
    dedicated: WordId,
    mark_start: WordId,
    /// Bytes allocated when it began.
    mark_bytes: WordId,
    /// Time of fractional workers.
    fractional: WordId,
    head: WordId,
    tail: WordId,
    ring: u64,
    /// First of the words of a batch.
    batch: WordId,
}

impl Runtime {
    fn new(server: &Server, compiler: &mut Compiler, network: QueueId) -> Self {
        let shared = Shared::new(&server.load, compiler, network);
        let ring = compiler.words(RING);
        let batch = WordId(compiler.words(BATCH) as u32);
        let workload = &mut compiler.workload;
        let park = workload.add_semaphore(0);
        let idle_ps = workload.add_word(server.gomaxprocs);
        let mut word = || workload.add_word(0);
        Self {
            shared,
            park,
            idle_ps,
            parked: word(),
            spinning: word(),
            polling: word(),
            allocated: word(),
            marking: word(),
            left: word(),
            active: word(),
            dedicated: word(),
            mark_start: word(),
            mark_bytes: word(),
            fractional: word(),
            head: word(),
            tail: word(),
            ring,
            batch,
        }
    }

    /// An M.
    fn m(&self, server: &Server, compiler: &mut Compiler) -> Result<ProgramId, CommandError> {
        let mut program = ProgramBuilder::new("go-server-m");
        let b = &mut program;
        let (find, run, go_on) = (b.label(), b.label(), b.label());
        let (idle, park, end) = (b.label(), b.label(), b.label());
        b.set(SPINNING, 0);
        b.jump(idle);

        // findRunnable.
        b.bind(find);
        let (leave, asleep) = (b.label(), b.label());
        self.shared.words.poll(b, &SCRATCH, 1);
        b.word_load(self.shared.words.ending, VALUE);
        b.jump_if(VALUE, Compare::NotEqual, 0, leave);
        let other = b.label();
        self.mark(server, b, find, other);
        b.bind(other);
        self.pop(b, go_on);
        b.set(COUNT, 0);
        self.netpoll(b);
        self.pop(b, go_on);
        // An idle worker, which looks for goroutines after each piece.
        b.word_load(self.left, VALUE);
        b.unless(VALUE, Compare::Equal, 0, |b| {
            self.found(b);
            self.piece(server, b, find);
            b.kernel_work(self.shared.poll_ns);
            b.jump(find);
        });
        b.unless(SPINNING, Compare::Equal, 0, |b| {
            b.set(SPINNING, 0);
            b.word_fetch_add(self.spinning, SCRATCH.minus_one, B);
        });
        b.word_fetch_add(self.idle_ps, 1, B);
        self.shared.words.leave(b, &SCRATCH, 1);
        b.jump(asleep);
        // At the end of the load.
        b.bind(leave);
        self.shared.words.leave(b, &SCRATCH, 1);
        b.jump(end);
        b.bind(asleep);

        // Without a P: in epoll_wait, or parked.
        b.bind(idle);
        b.word_load(self.polling, VALUE);
        b.jump_if(VALUE, Compare::NotEqual, 0, park);
        b.word_load(self.shared.words.ending, VALUE);
        b.jump_if(VALUE, Compare::NotEqual, 0, end);
        b.word_store(self.polling, 1);
        b.recv(self.shared.network, ARRIVED);
        b.word_store(self.polling, 0);
        b.jump_if(ARRIVED, Compare::Equal, GOOD_BYE, end);
        // Others may have come while it woke up.
        b.word_store(self.batch, ARRIVED);
        b.set(COUNT, 1);
        self.netpoll(b);
        let no_p = b.label();
        b.word_load(self.shared.words.stopping, VALUE);
        b.jump_if(VALUE, Compare::NotEqual, 0, no_p);
        b.word_load(self.idle_ps, VALUE);
        b.jump_if(VALUE, Compare::Equal, 0, no_p);
        b.word_fetch_add(self.idle_ps, SCRATCH.minus_one, B);
        b.word_fetch_add(self.shared.words.busy, 1, B);
        b.jump(find);
        b.bind(no_p);
        b.bind(park);
        b.word_load(self.shared.words.ending, VALUE);
        b.jump_if(VALUE, Compare::NotEqual, 0, end);
        b.word_fetch_add(self.parked, 1, B);
        b.sem_wait(self.park);
        // The waker took a P for it and counted it busy.
        b.set(SPINNING, 1);
        b.jump(find);

        // A request that was not begun, and one that was preempted.
        b.bind(run);
        b.set(REST, self.shared.work);
        self.found(b);
        self.wakep(b);
        b.kernel_work(self.shared.receive_ns);
        b.record_since(self.shared.metrics.queue, ARRIVED);
        let begun = b.label();
        b.jump(begun);
        b.bind(go_on);
        self.found(b);
        b.jump_if(REST, Compare::Equal, 0, run);
        b.bind(begun);
        b.now(START);
        self.request(server, b, find);
        b.kernel_work(self.shared.send_ns);
        b.record_since(self.shared.metrics.latency, ARRIVED);
        b.word_fetch_add(self.shared.words.answered, 1, B);
        b.jump(find);
        b.bind(end);
        b.exit();
        compiler.program(program)
    }

    /// Work, allocation and what follows from it, until the request is done or preempted.
    fn request(&self, server: &Server, b: &mut ProgramBuilder, find: Label) {
        let (top, done) = (b.here(), b.label());
        b.jump_if(REST, Compare::Equal, 0, done);
        work_piece(b, REST, PIECE);
        if let Some(trigger_bytes) = server.trigger_bytes {
            allocate(b, &server.load, self.allocated, PIECE, VALUE);
            b.add(VALUE, PIECE);
            let (marking, go_on) = (b.label(), b.label());
            b.word_load(self.marking, B);
            b.jump_if(B, Compare::NotEqual, 0, marking);
            b.jump_if(VALUE, Compare::Less, trigger_bytes, go_on);
            self.start_cycle(server, b);
            b.jump(go_on);
            b.bind(marking);
            self.assist(server, b, go_on);
            b.bind(go_on);
        }
        self.shared.words.poll(b, &SCRATCH, 1);
        // `sysmon` preempts by the clock, and polls the network when nobody else has.
        b.now(NOW);
        b.subtract(NOW, START);
        b.jump_if(NOW, Compare::Less, FORCE_PREEMPT_NS, top);
        b.now(START);
        b.set(PIECE, ARRIVED);
        b.set(CHILD, REST);
        b.set(COUNT, 0);
        self.netpoll(b);
        b.set(ARRIVED, PIECE);
        b.set(REST, CHILD);
        b.jump_if(REST, Compare::Less, 1000, top);
        self.push(b);
        self.wakep(b);
        b.jump(find);
        b.bind(done);
    }

    /// Takes what the network has, and behind the batch of which `COUNT` are there already puts it
    /// into the run queue, the newest first: a `gList` is a stack.
    fn netpoll(&self, b: &mut ProgramBuilder) {
        let (full, next) = (b.label(), b.here());
        b.jump_if(COUNT, Compare::GreaterOrEqual, BATCH, full);
        b.try_recv(self.shared.network, ARRIVED, full);
        b.sum(B, COUNT, u64::from(self.batch.0));
        b.word_store(B, ARRIVED);
        b.add(COUNT, 1);
        b.jump(next);
        b.bind(full);
        b.set(REST, 0);
        let (top, done) = (b.here(), b.label());
        b.jump_if(COUNT, Compare::Equal, 0, done);
        b.subtract(COUNT, 1);
        b.sum(B, COUNT, u64::from(self.batch.0));
        b.word_load(B, ARRIVED);
        self.push(b);
        b.jump(top);
        b.bind(done);
    }

    /// Puts `ARRIVED` and `REST` into the run queue.
    fn push(&self, b: &mut ProgramBuilder) {
        b.set(VALUE, ARRIVED);
        b.arithmetic(Arithmetic::Divide, VALUE, 1000);
        b.arithmetic(Arithmetic::Multiply, VALUE, LEFT);
        b.set(B, REST);
        b.arithmetic(Arithmetic::Divide, B, 1000);
        b.arithmetic(Arithmetic::Min, B, LEFT - 1);
        b.add(VALUE, B);
        b.word_fetch_add(self.tail, 1, B);
        b.arithmetic(Arithmetic::Remainder, B, RING);
        b.add(B, self.ring);
        b.word_store(B, VALUE);
    }

    /// Takes the oldest of the run queue and goes to `found`.
    fn pop(&self, b: &mut ProgramBuilder, found: Label) {
        b.word_load(self.head, B);
        b.word_load(self.tail, VALUE);
        b.unless(B, Compare::Equal, VALUE, |b| {
            b.word_fetch_add(self.head, 1, B);
            b.arithmetic(Arithmetic::Remainder, B, RING);
            b.add(B, self.ring);
            b.word_load(B, REST);
            b.set(ARRIVED, REST);
            b.arithmetic(Arithmetic::Divide, ARRIVED, LEFT);
            b.arithmetic(Arithmetic::Multiply, ARRIVED, 1000);
            b.arithmetic(Arithmetic::Remainder, REST, LEFT);
            b.arithmetic(Arithmetic::Multiply, REST, 1000);
            b.jump(found);
        });
    }

    /// Wakes an M for an idle P, unless one looks for work already.
    fn wakep(&self, b: &mut ProgramBuilder) {
        let done = b.label();
        b.word_load(self.spinning, B);
        b.jump_if(B, Compare::NotEqual, 0, done);
        for word in [self.idle_ps, self.parked] {
            b.word_load(word, B);
            b.jump_if(B, Compare::Equal, 0, done);
        }
        for word in [self.idle_ps, self.parked] {
            b.word_fetch_add(word, SCRATCH.minus_one, B);
        }
        b.word_store(self.spinning, 1);
        b.word_fetch_add(self.shared.words.busy, 1, B);
        b.sem_post(self.park);
        b.bind(done);
    }

    /// `resetspinning`: an M that was woken and found work wakes the next.
    fn found(&self, b: &mut ProgramBuilder) {
        b.unless(SPINNING, Compare::Equal, 0, |b| {
            b.set(SPINNING, 0);
            b.word_store(self.spinning, 0);
            self.wakep(b);
        });
    }

    /// `gcStart`.
    fn start_cycle(&self, server: &Server, b: &mut ProgramBuilder) {
        b.word_store(self.marking, 1);
        b.count(self.shared.metrics.collections, 1);
        self.stop_the_world(b, server.stw_ns);
        b.word_load(self.allocated, VALUE);
        b.word_store(self.mark_bytes, VALUE);
        b.word_store(self.dedicated, workers(server.gomaxprocs).0);
        b.word_store(self.fractional, 0);
        b.now(NOW);
        b.word_store(self.mark_start, NOW);
        b.word_store(self.left, server.pieces);
        self.start_the_world(b);
    }

    fn stop_the_world(&self, b: &mut ProgramBuilder, length_ns: u64) {
        b.now(STOPPED);
        self.shared.words.stop(b, &SCRATCH, 1);
        b.work(length_ns);
    }

    fn start_the_world(&self, b: &mut ProgramBuilder) {
        b.record_since(self.shared.metrics.pause, STOPPED);
        self.shared.words.start(b);
        self.wakep(b);
    }

    /// A piece of marking; the last one ends the cycle. Goes to `none` if there is none left.
    fn piece(&self, server: &Server, b: &mut ProgramBuilder, none: Label) {
        let done = b.label();
        b.word_load(self.left, B);
        b.jump_if(B, Compare::Equal, 0, none);
        b.word_fetch_add(self.left, SCRATCH.minus_one, B);
        b.word_fetch_add(self.active, 1, B);
        b.work(server.piece_ns);
        b.word_fetch_add(self.active, SCRATCH.minus_one, B);
        b.jump_if(B, Compare::NotEqual, 1, done);
        b.word_load(self.left, B);
        b.jump_if(B, Compare::NotEqual, 0, done);
        // `gcMarkTermination`.
        self.stop_the_world(b, TERMINATION_NS);
        b.word_store(self.allocated, 0);
        b.word_store(self.dedicated, 0);
        b.word_store(self.marking, 0);
        self.start_the_world(b);
        b.bind(done);
    }

    /// Dedicated and fractional workers (`findRunnableGCWorker`).
    fn mark(&self, server: &Server, b: &mut ProgramBuilder, find: Label, other: Label) {
        let (dedicated, share_permille) = workers(server.gomaxprocs);
        b.word_load(self.left, VALUE);
        b.jump_if(VALUE, Compare::Equal, 0, other);
        if dedicated > 0 {
            b.word_load(self.dedicated, VALUE);
            b.unless(VALUE, Compare::Equal, 0, |b| {
                b.word_fetch_add(self.dedicated, SCRATCH.minus_one, B);
                self.found(b);
                let top = b.here();
                self.piece(server, b, find);
                self.shared.words.poll(b, &SCRATCH, 1);
                b.jump(top);
            });
        }
        if share_permille > 0 {
            self.has_share(b, share_permille * server.gomaxprocs, other);
            self.found(b);
            let top = b.here();
            b.now(START);
            self.piece(server, b, find);
            b.now(NOW);
            b.subtract(NOW, START);
            b.word_fetch_add(self.fractional, NOW, B);
            self.shared.words.poll(b, &SCRATCH, 1);
            let limit = share_permille * FRACTION_EXCESS_PERMILLE / 1000;
            self.has_share(b, limit * server.gomaxprocs, other);
            b.jump(top);
        }
    }

    /// Goes to `over` if fractional workers have had this share of the time since marking began.
    fn has_share(&self, b: &mut ProgramBuilder, permille: u64, over: Label) {
        b.now(NOW);
        b.word_load(self.mark_start, B);
        b.subtract(NOW, B);
        b.arithmetic(Arithmetic::Multiply, NOW, permille);
        b.word_load(self.fractional, B);
        b.arithmetic(Arithmetic::Multiply, B, 1000);
        b.jump_if(B, Compare::Greater, NOW, over);
    }

    /// `gcAssistAlloc`: who allocates marks himself what workers are behind with, so that marking
    /// is over when the heap reaches its goal.
    fn assist(&self, server: &Server, b: &mut ProgramBuilder, go_on: Label) {
        let top = b.here();
        b.word_load(self.allocated, VALUE);
        b.word_load(self.mark_bytes, B);
        b.subtract(VALUE, B);
        b.arithmetic(Arithmetic::Multiply, VALUE, server.pieces);
        b.arithmetic(Arithmetic::Divide, VALUE, server.runway_bytes.max(1));
        b.word_load(self.left, B);
        b.add(VALUE, B);
        b.jump_if(VALUE, Compare::LessOrEqual, server.pieces, go_on);
        self.piece(server, b, go_on);
        b.jump(top);
    }
}

/// The world stands still at the end of marking, ns: 3 to 90 µs in gctrace's third number.
const TERMINATION_NS: u64 = 10_000;
