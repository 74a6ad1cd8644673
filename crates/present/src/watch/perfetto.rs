//! A run as a Perfetto trace.
//!
//! Every group is a process: its threads are below it, and beside them a row of throttled spans for
//! each CPU, and counters of its pool. A thread's row has a slice from each wakeup to the next
//! block, and inside it what it did meanwhile: `waiting`, `throttled`, `on CPU 3`. An arrow leads
//! from the thread that woke it to that slice. CPU rows, thread states, clocks and idle states come
//! from scheduling events as ftrace writes them.
//!
//! Several variants stand in one trace, from the same time 0 on: the names of a variant's groups
//! begin with its own name, as in `burst 50 ms · /pg`, and its CPUs have the numbers behind those
//! of the variant before it.
//!
//! How threads and CPUs stand is sampled after every simulated millisecond: what changed less than
//! can be seen is not written again. Worked example: two threads of equal weight that take turns on
//! one CPU have vruntimes that grow by half a millisecond each millisecond, lags around zero of
//! opposite sign, and, after a while, a utilisation of 512 of 1024 each.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use schedcast_base::fresh::Fresh;
use schedcast_kernel::platform::PrevState;
use schedcast_kernel::{Cpu, GroupId, Ns, TaskId};
use schedcast_sim::World;
use schedcast_trace::perfetto::write::{self, Flow, MOST_WORLDS, PerfettoWriter, Track};

use super::follow::{FIRST_TID, Follow, Period, Picture, State, Thread};
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::Scenario;
use schedcast_lab::simulator::Simulator;

/// How much of a run is held back before it is written.
const STEP_NS: Ns = 1_000_000;

/// The counters of a limited group.
const COUNTERS: [(&str, &str); 5] = [
    ("pool", "ms"),
    ("burst balance", "ms"),
    ("granted per period", "ms"),
    ("used per period", "ms"),
    ("throttled per period", "ms"),
];

/// The counters of a thread in a fair class.
const THREAD_COUNTERS: [(&str, &str); 3] = [("vruntime", "ms"), ("lag", "ms"), ("util", "of 1024")];
/// How far each must have moved to be written again.
const MOVED: [f64; 3] = [0.05, 0.05, 1.0];

/// Tracks of groups, throttled rows, counters and threads have ranges of their own.
const THROTTLED: u64 = 1 << 33;
const COUNTER: u64 = 1 << 34;
const THREAD: u64 = 1 << 35;
const THREAD_COUNTER: u64 = 1 << 37;
const MACHINE: Track = Track(1 << 36);
const POWER: Track = Track((1 << 36) + 1);
const CPU_UTIL: u64 = (1 << 36) + 2;

fn process_of(group: GroupId) -> Track {
    Track(1 + group.index() as u64)
}

fn counter_of(group: GroupId, row: usize) -> Track {
    Track(COUNTER + (group.index() * COUNTERS.len() + row) as u64)
}

fn thread_track(thread: &Thread) -> Track {
    Track(THREAD + thread.tid)
}

fn thread_counter(thread: &Thread, row: usize) -> Track {
    Track(THREAD_COUNTER + thread.tid * THREAD_COUNTERS.len() as u64 + row as u64)
}

const IDLE: write::Thread<'static> = write::Thread {
    tid: 0,
    comm: "swapper",
    prio: write::NORMAL_PRIORITY,
};

fn named<'a>(thread: Option<&'a Thread>) -> write::Thread<'a> {
    thread.map_or(IDLE, |thread| write::Thread {
        tid: thread.tid,
        comm: &thread.name,
        prio: thread.prio,
    })
}

/// Draws a run into a trace.
struct Drawing<W: Write> {
    trace: PerfettoWriter<W>,
    title: String,
    cpus: usize,
    paths: Vec<String>,
    /// Rows of throttled spans that are described.
    throttled_rows: Vec<bool>,
    limited: Vec<bool>,
    pools_ns: Vec<u64>,
    next_flow: u64,
    /// Flow of the wakeup that leads to a thread's next slice.
    flows: BTreeMap<u64, u64>,
    /// Last clock of each CPU.
    clocks_mhz: Vec<u32>,
    asleep: Vec<bool>,
    energy_j: Option<(Ns, f64)>,
    /// Last written values of each thread's counters, by its number.
    standings: BTreeMap<u64, [Option<f64>; 3]>,
    /// Last written utilisation of each CPU.
    cpu_utils: Vec<Option<u64>>,
}

impl<W: Write> Drawing<W> {
    fn new(trace: PerfettoWriter<W>, title: &str) -> Self {
        Self {
            trace,
            title: title.to_string(),
            cpus: 0,
            paths: Vec::new(),
            throttled_rows: Vec::new(),
            limited: Vec::new(),
            pools_ns: Vec::new(),
            next_flow: 1,
            flows: BTreeMap::new(),
            clocks_mhz: Vec::new(),
            asleep: Vec::new(),
            energy_j: None,
            standings: BTreeMap::new(),
            cpu_utils: Vec::new(),
        }
    }

    /// Writes what a thread's counters have become.
    fn sample_thread(&mut self, now: Ns, world: &World, task: TaskId, thread: &Thread) {
        let kernel = world.kernel();
        if !kernel.tasks[task.index()].policy.is_fair() {
            return;
        }
        let standing = kernel.standing(task);
        let values = [
            Some(standing.vruntime_ns as f64 / 1e6),
            standing.lag_ns.map(|ns| ns as f64 / 1e6),
            Some(standing.util as f64),
        ];
        let written = self.standings.entry(thread.tid).or_default();
        for (row, value) in values.into_iter().enumerate() {
            let Some(value) = value else { continue };
            let track = thread_counter(thread, row);
            match written[row] {
                Some(before) if (value - before).abs() < MOVED[row] => continue,
                Some(_) => {}
                None => {
                    let (name, unit) = THREAD_COUNTERS[row];
                    let name = format!("{name} of {} {}", thread.name, thread.tid);
                    let parent = process_of(thread.group);
                    self.trace.counter(track, parent, &name, unit);
                }
            }
            written[row] = Some(value);
            self.trace.fraction(now, track, value);
        }
    }

    fn sample_cpus(&mut self, world: &World) {
        for (index, written) in self.cpu_utils.iter_mut().enumerate() {
            let util = world.kernel().root_cfs_rq(Cpu::from(index)).avg.util_avg;
            let track = Track(CPU_UTIL + index as u64);
            if written.is_none() {
                let name = format!("util of CPU {index}");
                self.trace.counter(track, MACHINE, &name, "of 1024");
            }
            if written.replace(util) != Some(util) {
                self.trace.fraction(world.now(), track, util as f64);
            }
        }
    }

    /// Counters appear when a group is limited for the first time.
    fn describe_counters(&mut self, group: GroupId) {
        if std::mem::replace(&mut self.limited[group.index()], true) {
            return;
        }
        for (row, (name, unit)) in COUNTERS.into_iter().enumerate() {
            let parent = process_of(group);
            self.trace
                .counter(counter_of(group, row), parent, name, unit);
        }
    }

    fn milliseconds(&mut self, at: Ns, group: GroupId, row: usize, ns: f64) {
        self.trace
            .fraction(at, counter_of(group, row), ns.max(0.0) / 1e6);
    }

    fn sample_power(&mut self, world: &mut World) {
        let now = world.now();
        let Some(joules) = world.package_joules() else {
            return;
        };
        match self.energy_j {
            None => self.trace.counter(POWER, MACHINE, "package power", "W"),
            Some((since, before)) if now > since => {
                let watts = (joules - before) / ((now - since) as f64 / 1e9);
                self.trace.fraction(since, POWER, watts);
            }
            Some(_) => {}
        }
        self.energy_j = Some((now, joules));
    }
}

impl<W: Write> Picture for Drawing<W> {
    fn begins(&mut self, cpus: usize, paths: &[String], _parents: &[Option<GroupId>]) {
        self.cpus = cpus;
        self.paths = paths.to_vec();
        self.throttled_rows = vec![false; paths.len() * cpus];
        self.limited = vec![false; paths.len()];
        self.pools_ns = vec![u64::MAX; paths.len()];
        self.clocks_mhz = vec![0; cpus];
        self.asleep = vec![false; cpus];
        self.cpu_utils = vec![None; cpus];
        self.trace.world(cpus);
        let machine = format!("{} · machine", self.title);
        self.trace.process(MACHINE, FIRST_TID - 1, &machine);
        for (row, path) in paths.iter().enumerate() {
            let name = format!("{} · {path}", self.title);
            self.trace
                .process(process_of(GroupId::from(row)), row as u64 + 1, &name);
        }
    }

    fn starts(&mut self, _at: Ns, thread: &Thread) {
        let pid = thread.group.index() as u64 + 1;
        self.trace
            .thread(thread_track(thread), pid, named(Some(thread)));
    }

    fn changes(&mut self, at: Ns, thread: &Thread, to: State) {
        let track = thread_track(thread);
        match thread.state {
            State::Asleep => {
                let flow = self.flows.remove(&thread.tid).map_or(Flow::None, Flow::To);
                self.trace.begin(at, track, "active", flow);
            }
            _ => self.trace.end(at, track),
        }
        match to {
            State::Asleep => self.trace.end(at, track),
            State::Waiting => self.trace.begin(at, track, "waiting", Flow::None),
            State::Throttled => self.trace.begin(at, track, "throttled", Flow::None),
            State::Running(cpu) => {
                let name = format!("on CPU {}", cpu.0);
                self.trace.begin(at, track, &name, Flow::None);
            }
        }
    }

    fn switch(
        &mut self,
        at: Ns,
        cpu: Cpu,
        prev: Option<&Thread>,
        state: PrevState,
        next: Option<&Thread>,
    ) {
        let state = match state {
            PrevState::Runnable | PrevState::Throttled => 0,
            PrevState::Blocked => 1,
            PrevState::Dead => 16,
        };
        if std::mem::replace(&mut self.asleep[cpu.index()], false) {
            self.trace.idle(cpu.index(), at, None);
        }
        self.trace
            .switch(cpu.index(), at, named(prev), state, named(next));
    }

    fn waking(&mut self, at: Ns, cpu: Cpu, waker: Option<&Thread>, thread: &Thread) {
        let on = (cpu.index(), named(waker).tid);
        self.trace
            .waking(on, at, named(Some(thread)), thread.cpu.index());
        if let Some(waker) = waker {
            let flow = self.next_flow;
            self.next_flow += 1;
            self.flows.insert(thread.tid, flow);
            let at = at.max(waker.since_ns);
            self.trace
                .instant(at, thread_track(waker), "wakes", Flow::From(flow));
        }
    }

    fn wakeup(&mut self, at: Ns, cpu: Cpu, thread: &Thread, target: Cpu) {
        let (on, named) = ((cpu.index(), 0), named(Some(thread)));
        match thread.is_new {
            true => self.trace.wakeup_new(on, at, named, target.index()),
            false => self.trace.wakeup(on, at, named, target.index()),
        }
    }

    fn migrate(&mut self, at: Ns, cpu: Cpu, thread: &Thread, [from, to]: [Cpu; 2]) {
        let (on, cpus) = ((cpu.index(), 0), [from.index(), to.index()]);
        self.trace.migrate(on, at, named(Some(thread)), cpus);
    }

    fn throttle(&mut self, at: Ns, group: GroupId, cpu: Cpu, throttled: bool) {
        let row = group.index() * self.cpus + cpu.index();
        let track = Track(THROTTLED + row as u64);
        if !std::mem::replace(&mut self.throttled_rows[row], true) {
            let name = format!("throttled on CPU {}", cpu.0);
            self.trace.track(track, process_of(group), &name);
        }
        if throttled {
            self.trace.begin(at, track, "throttled", Flow::None);
        } else {
            self.trace.end(at, track);
        }
    }

    fn period(&mut self, period: &Period) {
        let (at, group) = (period.at_ns, period.group);
        self.describe_counters(group);
        self.milliseconds(at, group, 0, period.pool_after_ns as f64);
        self.milliseconds(at, group, 1, period.pool_before_ns as f64);
        self.milliseconds(at, group, 2, period.pool_after_ns as f64);
        self.milliseconds(at, group, 3, period.used_ns as f64);
        self.milliseconds(at, group, 4, period.throttled_ns as f64);
    }

    fn frequency(&mut self, at: Ns, cpu: Cpu, mhz: u32) {
        let known = &mut self.clocks_mhz[cpu.index()];
        if std::mem::replace(known, mhz) != mhz {
            self.trace.frequency(cpu.index(), at, u64::from(mhz) * 1000);
        }
    }

    fn idle(&mut self, at: Ns, cpu: Cpu, state: usize) {
        self.asleep[cpu.index()] = true;
        self.trace.idle(cpu.index(), at, Some(state as u64));
    }

    fn threads(&mut self, world: &World, threads: &[Option<Thread>]) {
        for (row, thread) in threads.iter().enumerate() {
            if let Some(thread) = thread
                && thread.state != State::Asleep
            {
                self.sample_thread(world.now(), world, TaskId::from(row), thread);
            }
        }
        self.sample_cpus(world);
    }

    fn step(&mut self, world: &mut World) {
        self.trace.flush_cpus();
        let now = world.now();
        for row in 1..self.paths.len() {
            let group = GroupId::from(row);
            let bandwidth = &world.kernel().groups[row].bandwidth;
            let pool_ns = bandwidth.runtime_ns;
            if bandwidth.limit.quota_ns.is_none() || self.pools_ns[row] == pool_ns {
                continue;
            }
            self.pools_ns[row] = pool_ns;
            self.describe_counters(group);
            self.milliseconds(now, group, 0, pool_ns as f64);
        }
        self.sample_power(world);
    }
}

/// Runs `scenario` under `seed` and writes what happens into `out`.
///
/// # Errors
/// A run that fails, an output that does.
pub fn write<W: Write>(simulator: &Simulator, scenario: &Scenario, seed: u64, out: W) -> Result<W> {
    let trace = draw(simulator, scenario, seed, PerfettoWriter::new(out))?;
    trace
        .finish()
        .map_err(|error| Error::file("write", "the trace", &error))
}

/// Draws a run into a trace, as its next world.
fn draw<W: Write>(
    simulator: &Simulator,
    scenario: &Scenario,
    seed: u64,
    trace: PerfettoWriter<W>,
) -> Result<PerfettoWriter<W>> {
    let mut follow = Follow::new(Drawing::new(trace, &scenario.name));
    let finished = simulator.watch(scenario, seed, STEP_NS, &mut follow)?;
    follow.close(finished.world.now());
    Ok(follow.picture.trace)
}

/// Writes what happens under the first seed of every variant into one trace.
///
/// # Errors
/// More variants than a trace has numbers for, a run that fails, a file that cannot be written.
pub fn write_file(simulator: &Simulator, scenarios: &[Scenario], path: &Path) -> Result<()> {
    if scenarios.len() > MOST_WORLDS {
        return Err(Error::usage(format!(
            "--trace: {} variants, a trace has numbers for at most {MOST_WORLDS}",
            scenarios.len()
        )));
    }
    let fails = |error: std::io::Error| Error::file("write", path.display(), &error);
    let file = BufWriter::new(Fresh::create(path).map_err(fails)?);
    let mut trace = PerfettoWriter::new(file);
    for scenario in scenarios {
        trace = draw(simulator, scenario, 0, trace)?;
    }
    let file = trace.finish().map_err(fails)?;
    let file = file
        .into_inner()
        .map_err(|error| fails(error.into_error()))?;
    file.keep().map_err(fails)?;
    Ok(())
}
