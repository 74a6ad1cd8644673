//! Writing a Perfetto trace, packet by packet, as things happen.
//!
//! A trace is a row of packets, each with a time. Two kinds of content go in:
//!
//! * *Scheduling events* per CPU, in the form ftrace delivers them: switches, wakeups, clocks, idle
//!   states. The viewer draws its CPU and thread-state rows from them.
//! * *Track events* on tracks of our own: slices (a begin and an end), instants, counters. Slices
//!   of a track nest: an end closes the slice that began last. A *flow* is a number that two events
//!   carry; the viewer draws an arrow between them.
//!
//! Worked example, a thread that is woken at 10 µs by another, waits 5 µs and runs 20 µs on CPU 3:
//!
//! ```text
//! 10  begin "active"    terminates flow 7       15  begin "CPU 3"      35  end
//! 10  begin "waiting"                           15  (end of waiting before it)   35  end
//! ```
//!
//! A trace may hold several *worlds*, runs of machines that know nothing of each other;
//! [`PerfettoWriter::world`] begins the next. Each numbers its CPUs, threads, tracks and flows as
//! it likes. In the file they have ranges of their own: beside a world of 4 CPUs, CPU 1 of the next
//! one is CPU 5, its thread 10,000 is 4,204,304 and its track 7 is 7 + 2^40.
//!
//! Names are written once and referred to by number after that. Nothing is kept but those names and
//! the events of the present piece, so memory does not grow with the trace. The first error of the
//! output is kept and returned by [`PerfettoWriter::finish`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use super::field;
use super::wire::{put_bytes, put_double, put_fixed64, put_int, put_message, put_uint};

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// All packets of a world are of one sequence, of this number and up: names hold from the first on.
const FIRST_SEQUENCE: u64 = 1;
/// Numbers of tracks and of flows in a world.
const TRACKS_OF_A_WORLD: u64 = 1 << 40;
/// Numbers of processes and threads in a world: `PID_MAX_LIMIT` of the kernel. A file's are 32 bits
/// wide.
const TIDS_OF_A_WORLD: u64 = 1 << 22;
/// Worlds that a trace has numbers for.
pub const MOST_WORLDS: usize = (i32::MAX as u64 / TIDS_OF_A_WORLD) as usize;
const INCREMENTAL_STATE_CLEARED: u64 = 1;
const NEEDS_INCREMENTAL_STATE: u64 = 2;
/// State number in `cpu_idle` when the CPU leaves its idle state.
const NO_IDLE_STATE: u64 = 0xffff_ffff;
/// Priority of `SCHED_OTHER` at nice 0 and of idle tasks as tracepoints print it.
pub const NORMAL_PRIORITY: i32 = 120;

/// A track, by its number in the trace. Numbers are the caller's choice, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Track(pub u64);

/// How an event takes part in a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Not at all.
    None,
    /// The arrow of this number begins here.
    From(u64),
    /// The arrow of this number ends here.
    To(u64),
}

/// A thread as scheduling events name it.
#[derive(Clone, Copy, Debug)]
pub struct Thread<'a> {
    /// Number, 0 for idle tasks.
    pub tid: u64,
    /// Name.
    pub comm: &'a str,
    /// Priority as tracepoints print it: 100 to 139 of fair classes, 0 to 98 of real-time ones, −1
    /// of `SCHED_DEADLINE`.
    pub prio: i32,
}

/// Name of a thread in a switch on a CPU as the file numbers it. The idle task of each has its own,
/// `swapper/3`.
fn comm_on(cpu: u64, thread: Thread<'_>) -> Cow<'_, [u8]> {
    match thread.tid {
        0 => format!("swapper/{cpu}").into_bytes().into(),
        _ => thread.comm.as_bytes().into(),
    }
}

/// Writes a trace into `out`.
#[derive(Debug)]
pub struct PerfettoWriter<W: Write> {
    out: W,
    error: Option<io::Error>,
    names: BTreeMap<String, u64>,
    begun: bool,
    packet: Vec<u8>,
    /// The present world, from 0.
    world: u64,
    /// CPU 0 of the present world, and of the next one.
    first_cpu: usize,
    next_first_cpu: usize,
    /// Scheduling events of each CPU that are not written yet.
    cpus: Vec<Vec<u8>>,
}

impl<W: Write> PerfettoWriter<W> {
    /// A trace without any packet.
    pub fn new(out: W) -> Self {
        Self {
            out,
            error: None,
            names: BTreeMap::new(),
            begun: false,
            packet: Vec::new(),
            world: 0,
            first_cpu: 0,
            next_first_cpu: 0,
            cpus: Vec::new(),
        }
    }

    /// Begins a world of so many CPUs: numbers of the one before it are free again. A trace of one
    /// world needs no call.
    pub fn world(&mut self, cpus: usize) {
        self.flush_cpus();
        if self.next_first_cpu > 0 {
            self.world += 1;
            self.names.clear();
            self.begun = false;
        }
        self.first_cpu = self.next_first_cpu;
        self.next_first_cpu += cpus;
    }

    /// A CPU of the present world as the file numbers it.
    fn cpu_number(&self, cpu: usize) -> u64 {
        (self.first_cpu + cpu) as u64
    }

    /// A process or thread as the file numbers it. Idle tasks are thread 0 on every CPU.
    fn tid_number(&self, tid: u64) -> u64 {
        match tid {
            0 => 0,
            _ => self.world * TIDS_OF_A_WORLD + tid,
        }
    }

    /// A track or a flow as the file numbers it.
    fn track_number(&self, track: u64) -> u64 {
        self.world * TRACKS_OF_A_WORLD + track
    }

    /// Writes what is left and hands the output back.
    ///
    /// # Errors
    /// The first error of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush_cpus();
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.out.flush()?;
        Ok(self.out)
    }

    fn packet(&mut self, time_ns: Option<u64>, fill: impl FnOnce(&mut Vec<u8>)) {
        if self.error.is_some() {
            return;
        }
        let mut flags = NEEDS_INCREMENTAL_STATE;
        if !self.begun {
            flags |= INCREMENTAL_STATE_CLEARED;
            self.begun = true;
        }
        let sequence = FIRST_SEQUENCE + self.world;
        let mut packet = std::mem::take(&mut self.packet);
        packet.clear();
        put_message(&mut packet, field::trace::PACKET, |packet| {
            if let Some(time_ns) = time_ns {
                put_uint(packet, field::packet::TIMESTAMP, time_ns);
            }
            put_uint(packet, field::packet::SEQUENCE_ID, sequence);
            put_uint(packet, field::packet::SEQUENCE_FLAGS, flags);
            fill(packet);
        });
        self.error = self.out.write_all(&packet).err();
        self.packet = packet;
    }

    fn describe(&mut self, track: Track, fill: impl FnOnce(&mut Vec<u8>)) {
        let number = self.track_number(track.0);
        self.packet(None, |packet| {
            put_message(packet, field::packet::TRACK_DESCRIPTOR, |descriptor| {
                put_uint(descriptor, field::descriptor::UUID, number);
                fill(descriptor);
            });
        });
    }

    /// A process: what its threads and tracks are shown under.
    pub fn process(&mut self, track: Track, pid: u64, name: &str) {
        let pid = self.tid_number(pid);
        self.describe(track, |descriptor| {
            put_message(descriptor, field::descriptor::PROCESS, |process| {
                put_uint(process, field::process::PID, pid);
                put_bytes(process, field::process::NAME, name.as_bytes());
            });
        });
    }

    /// A thread of the process `pid`.
    pub fn thread(&mut self, track: Track, pid: u64, thread: Thread<'_>) {
        let (pid, tid) = (self.tid_number(pid), self.tid_number(thread.tid));
        self.describe(track, |descriptor| {
            put_message(descriptor, field::descriptor::THREAD, |message| {
                put_uint(message, field::thread::PID, pid);
                put_uint(message, field::thread::TID, tid);
                put_bytes(message, field::thread::NAME, thread.comm.as_bytes());
            });
        });
    }

    /// A track for slices below another track.
    pub fn track(&mut self, track: Track, parent: Track, name: &str) {
        let parent = self.track_number(parent.0);
        self.describe(track, |descriptor| {
            put_uint(descriptor, field::descriptor::PARENT_UUID, parent);
            put_bytes(descriptor, field::descriptor::NAME, name.as_bytes());
        });
    }

    /// A track for a counter below another track.
    pub fn counter(&mut self, track: Track, parent: Track, name: &str, unit: &str) {
        let parent = self.track_number(parent.0);
        self.describe(track, |descriptor| {
            put_uint(descriptor, field::descriptor::PARENT_UUID, parent);
            put_bytes(descriptor, field::descriptor::NAME, name.as_bytes());
            put_message(descriptor, field::descriptor::COUNTER, |counter| {
                put_bytes(counter, field::counter::UNIT_NAME, unit.as_bytes());
            });
        });
    }

    /// Number of a name, and whether it is new.
    fn name(&mut self, name: &str) -> (u64, bool) {
        if let Some(&number) = self.names.get(name) {
            return (number, false);
        }
        let number = self.names.len() as u64 + 1;
        self.names.insert(name.to_owned(), number);
        (number, true)
    }

    fn event(&mut self, time_ns: u64, track: Track, kind: u64, fill: impl FnOnce(&mut Vec<u8>)) {
        let track = self.track_number(track.0);
        self.packet(Some(time_ns), |packet| {
            put_event(packet, track, kind, fill);
        });
    }

    fn named_event(&mut self, time_ns: u64, track: Track, kind: u64, name: &str, flow: Flow) {
        let (number, is_new) = self.name(name);
        let track = self.track_number(track.0);
        let flow = match flow {
            Flow::None => Flow::None,
            Flow::From(flow) => Flow::From(self.track_number(flow)),
            Flow::To(flow) => Flow::To(self.track_number(flow)),
        };
        self.packet(Some(time_ns), |packet| {
            if is_new {
                put_message(packet, field::packet::INTERNED_DATA, |data| {
                    put_message(data, field::interned::EVENT_NAMES, |entry| {
                        put_uint(entry, field::name::IID, number);
                        put_bytes(entry, field::name::NAME, name.as_bytes());
                    });
                });
            }
            put_event(packet, track, kind, |event| {
                put_uint(event, field::event::NAME_IID, number);
                match flow {
                    Flow::None => {}
                    Flow::From(flow) => put_fixed64(event, field::event::FLOW_IDS, flow),
                    Flow::To(flow) => {
                        put_fixed64(event, field::event::TERMINATING_FLOW_IDS, flow);
                    }
                }
            });
        });
    }

    /// A slice begins.
    pub fn begin(&mut self, time_ns: u64, track: Track, name: &str, flow: Flow) {
        self.named_event(time_ns, track, SLICE_BEGIN, name, flow);
    }

    /// The slice of the track that began last ends.
    pub fn end(&mut self, time_ns: u64, track: Track) {
        self.event(time_ns, track, SLICE_END, |_| {});
    }

    /// Something happens that has no length.
    pub fn instant(&mut self, time_ns: u64, track: Track, name: &str, flow: Flow) {
        self.named_event(time_ns, track, INSTANT, name, flow);
    }

    /// A counter has a new value.
    pub fn value(&mut self, time_ns: u64, track: Track, value: i64) {
        self.event(time_ns, track, COUNTER, |event| {
            put_int(event, field::event::COUNTER_VALUE, value);
        });
    }

    /// A counter has a new value that is no whole number.
    pub fn fraction(&mut self, time_ns: u64, track: Track, value: f64) {
        self.event(time_ns, track, COUNTER, |event| {
            put_double(event, field::event::DOUBLE_COUNTER_VALUE, value);
        });
    }

    fn on_cpu(
        &mut self,
        cpu: usize,
        time_ns: u64,
        tid: u64,
        kind: u32,
        fill: impl FnOnce(&mut Vec<u8>),
    ) {
        let tid = self.tid_number(tid);
        if cpu >= self.cpus.len() {
            self.cpus.resize(cpu + 1, Vec::new());
        }
        put_message(&mut self.cpus[cpu], field::bundle::EVENT, |event| {
            put_uint(event, field::ftrace::TIMESTAMP, time_ns);
            put_uint(event, field::ftrace::PID, tid);
            put_message(event, kind, fill);
        });
    }

    /// A CPU switches from one thread to another; `state` is 0 for one that stays runnable, 1 for
    /// one that sleeps, 16 for one that is dead.
    pub fn switch(
        &mut self,
        cpu: usize,
        time_ns: u64,
        prev: Thread<'_>,
        state: u64,
        next: Thread<'_>,
    ) {
        let (prev_tid, next_tid) = (self.tid_number(prev.tid), self.tid_number(next.tid));
        let number = self.cpu_number(cpu);
        self.on_cpu(
            cpu,
            time_ns,
            prev.tid,
            field::ftrace::SCHED_SWITCH,
            |event| {
                put_bytes(event, 1, &comm_on(number, prev));
                put_uint(event, 2, prev_tid);
                put_int(event, 3, i64::from(prev.prio));
                put_uint(event, 4, state);
                put_bytes(event, 5, &comm_on(number, next));
                put_uint(event, 6, next_tid);
                put_int(event, 7, i64::from(next.prio));
            },
        );
    }

    fn wake(
        &mut self,
        kind: u32,
        (cpu, waker): (usize, u64),
        time_ns: u64,
        thread: Thread<'_>,
        target: usize,
    ) {
        let (tid, target) = (self.tid_number(thread.tid), self.cpu_number(target));
        self.on_cpu(cpu, time_ns, waker, kind, |event| {
            put_bytes(event, 1, thread.comm.as_bytes());
            put_uint(event, 2, tid);
            put_int(event, 3, i64::from(thread.prio));
            put_uint(event, 4, 1);
            put_uint(event, 5, target);
        });
    }

    /// The thread `waker` on a CPU begins to wake another that last ran on `last_cpu`.
    pub fn waking(&mut self, on: (usize, u64), time_ns: u64, thread: Thread<'_>, last_cpu: usize) {
        self.wake(field::ftrace::SCHED_WAKING, on, time_ns, thread, last_cpu);
    }

    /// The thread is runnable on the CPU `target`.
    pub fn wakeup(&mut self, on: (usize, u64), time_ns: u64, thread: Thread<'_>, target: usize) {
        self.wake(field::ftrace::SCHED_WAKEUP, on, time_ns, thread, target);
    }

    /// A thread that was forked is runnable on the CPU `target` for the first time.
    pub fn wakeup_new(
        &mut self,
        on: (usize, u64),
        time_ns: u64,
        thread: Thread<'_>,
        target: usize,
    ) {
        self.wake(field::ftrace::SCHED_WAKEUP_NEW, on, time_ns, thread, target);
    }

    /// The thread `on.1` on the CPU `on.0` moves another from one CPU to another.
    pub fn migrate(
        &mut self,
        on: (usize, u64),
        time_ns: u64,
        thread: Thread<'_>,
        [from, to]: [usize; 2],
    ) {
        let tid = self.tid_number(thread.tid);
        let [from, to] = [from, to].map(|cpu| self.cpu_number(cpu));
        let kind = field::ftrace::SCHED_MIGRATE_TASK;
        self.on_cpu(on.0, time_ns, on.1, kind, |event| {
            put_bytes(event, 1, thread.comm.as_bytes());
            put_uint(event, 2, tid);
            put_int(event, 3, i64::from(thread.prio));
            put_uint(event, 4, from);
            put_uint(event, 5, to);
        });
    }

    /// The clock of a CPU changes.
    pub fn frequency(&mut self, cpu: usize, time_ns: u64, khz: u64) {
        let number = self.cpu_number(cpu);
        self.on_cpu(cpu, time_ns, 0, field::ftrace::CPU_FREQUENCY, |event| {
            put_uint(event, 1, khz);
            put_uint(event, 2, number);
        });
    }

    /// A CPU enters an idle state, or leaves it with `None`.
    pub fn idle(&mut self, cpu: usize, time_ns: u64, state: Option<u64>) {
        let number = self.cpu_number(cpu);
        self.on_cpu(cpu, time_ns, 0, field::ftrace::CPU_IDLE, |event| {
            put_uint(event, 1, state.unwrap_or(NO_IDLE_STATE));
            put_uint(event, 2, number);
        });
    }

    /// Writes the scheduling events that came so far, one packet a CPU.
    pub fn flush_cpus(&mut self) {
        let mut cpus = std::mem::take(&mut self.cpus);
        for (cpu, events) in cpus.iter_mut().enumerate() {
            if events.is_empty() {
                continue;
            }
            let number = self.cpu_number(cpu);
            self.packet(None, |packet| {
                put_message(packet, field::packet::FTRACE_EVENTS, |bundle| {
                    put_uint(bundle, field::bundle::CPU, number);
                    bundle.extend_from_slice(events);
                });
            });
            events.clear();
        }
        self.cpus = cpus;
    }
}

fn put_event(packet: &mut Vec<u8>, track: u64, kind: u64, fill: impl FnOnce(&mut Vec<u8>)) {
    put_message(packet, field::packet::TRACK_EVENT, |event| {
        put_uint(event, field::event::TYPE, kind);
        put_uint(event, field::event::TRACK_UUID, track);
        fill(event);
    });
}
