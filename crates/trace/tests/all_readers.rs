//! The same trace through every reader gives the same events, held against what other programs
//! print of it: the kernel itself, `trace-cmd report -R` and `perf script`.
//!
//! All recordings are of threads with awkward names on two CPUs of Linux 6.18.

mod common;
mod schema;

use std::io::Write;

use common::{Read, bytes, fixture, read_file};
use prost::Message;
use schedcast_trace::{CommId, Event, EventKind, Item, LostEvents, PrevState, Wakeup};
use schema::{
    CompactSched, FtraceEvent, FtraceEventBundle, SchedMigrateTask, SchedProcessExec,
    SchedProcessExit, SchedProcessFork, SchedSwitch, SchedWakeup, Trace, TracePacket,
};

fn read(name: &str) -> Read {
    read_file(&fixture(name)).unwrap_or_else(|error| panic!("{error}"))
}

/// Reads bytes as a file of its own.
fn read_bytes(bytes: &[u8]) -> Read {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    read_file(file.path()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn trace_dat_tells_what_trace_cmd_prints_raw() {
    let report = read("trace-dat.report-R.txt.gz");
    assert!(report.lines().len() > 300);
    for name in ["trace-v6.dat.gz", "trace-v7.dat"] {
        let read = read(name);
        assert_eq!(read.lines(), report.lines(), "{name}");
        assert_eq!(read.others(), report.others(), "{name}");
    }
}

#[test]
fn perf_data_tells_what_perf_script_prints() {
    let script = read("perf-script.txt.gz");
    let data = read("perf.data.gz");
    assert!(data.lines().len() > 500);
    let what = |line: &str| line.split_once(" sched_").unwrap().1.to_owned();
    for (data, script) in data.lines().iter().zip(script.lines()) {
        // perf no longer knows the number of a task that is gone.
        let gone = script.contains(" task -1 sched_stat_runtime ");
        assert!(
            *data == script || gone && what(data) == what(&script),
            "{data}: {script}"
        );
    }
    assert_eq!(data.lines().len(), script.lines().len());
    assert_eq!(data.others(), script.others());
    assert_eq!(data.counts.backwards.count, 0);
    assert_eq!(data.counts.cpus_declared, Some(2));
    assert_eq!(
        data.counts.without_context, 0,
        "perf.data has the flags that its text leaves out"
    );
}

#[test]
fn raw_pages_tell_what_the_kernel_prints() {
    let pages = read("raw-pages");
    let text = read("raw-pages.tracefs.txt.gz");
    // The pages were cut after the third of each CPU, the text after 260 events: one is the
    // beginning of the other.
    for cpu in 0..2 {
        let of = |read: &Read| {
            let events = read.events().into_iter().filter(|event| event.cpu == cpu);
            let place = |event: Event| {
                // The kernel prints whole microseconds, rounded.
                let what = common::dump(&event, &read.comms);
                (
                    (event.time_ns + 500) / 1000,
                    event.task,
                    event.context,
                    what,
                )
            };
            events.map(place).collect::<Vec<_>>()
        };
        let (pages, text) = (of(&pages), of(&text));
        let both = pages.len().min(text.len());
        assert!(both > 150, "{both}");
        assert_eq!(pages[..both], text[..both], "CPU {cpu}");
    }
}

/// Scheduling events in Perfetto's messages, one bundle a CPU, later CPUs first.
fn perfetto(read: &Read, compact: bool) -> Vec<u8> {
    let cpus = read.counts.events_per_cpu.len() as u32;
    let bundle = |cpu: u32| {
        let events = read.events();
        let mine = events
            .iter()
            .filter(|event| event.cpu == cpu && has_message(event));
        let mut bundle = FtraceEventBundle {
            cpu: Some(cpu),
            ..FtraceEventBundle::default()
        };
        if compact {
            let mut columns = Columns::default();
            for event in mine {
                if !columns.take(event, read) {
                    bundle.event.push(message(event, read));
                }
            }
            bundle.compact_sched = Some(columns.sched);
        } else {
            bundle.event = mine.map(|event| message(event, read)).collect();
        }
        bundle
    };
    let packets = (0..cpus).rev().map(|cpu| TracePacket {
        ftrace_events: Some(bundle(cpu)),
        ..TracePacket::default()
    });
    Trace {
        packet: packets.collect(),
    }
    .encode_to_vec()
}

/// Perfetto has no decoded message for the others.
fn has_message(event: &Event) -> bool {
    !matches!(event.kind, EventKind::Other | EventKind::Runtime(_))
}

/// The lines of events that Perfetto has messages for.
fn with_message(read: &Read) -> Vec<String> {
    let mut lines = read.lines();
    lines.retain(|line| !line.contains(" sched_stat_runtime "));
    lines
}

fn bits(state: PrevState) -> i64 {
    let text = ["R", "S", "D", "T", "t", "X", "Z", "P", "I", "R+"];
    match text.iter().position(|text| *text == state.name()) {
        Some(0) => 0,
        Some(index) => 1 << (index - 1),
        None => panic!("no such state"),
    }
}

fn flags(event: &Event) -> u32 {
    use schedcast_trace::Level;
    let context = event.context;
    let level = match context.level() {
        Some(Level::SoftIrq) => 0x10,
        Some(Level::HardIrq) if context.in_softirq() => 0x18,
        Some(Level::HardIrq) => 0x08,
        Some(Level::Nmi) => 0x40,
        _ => 0,
    };
    let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
    level
        | bit(context.irqs_off(), 0x01)
        | bit(context.need_resched_lazy(), 0x02)
        | bit(context.need_resched(), 0x04)
        | bit(context.bh_off(), 0x80)
}

fn message(event: &Event, read: &Read) -> FtraceEvent {
    let name = |id: CommId| Some(read.comms.get(id).unwrap().to_vec());
    let wakeup = |w: Wakeup| {
        Some(SchedWakeup {
            comm: name(w.task.comm),
            pid: Some(w.task.pid),
            prio: Some(w.task.prio),
            target_cpu: Some(w.target_cpu as i32),
        })
    };
    let mut message = FtraceEvent {
        timestamp: Some(event.time_ns),
        pid: Some(event.task as u32),
        common_flags: Some(flags(event)),
        ..FtraceEvent::default()
    };
    match event.kind {
        EventKind::Switch(switch) => {
            let (prev, next) = (switch.prev, switch.next);
            message.sched_switch = Some(SchedSwitch {
                prev_comm: name(prev.comm),
                prev_pid: Some(prev.pid),
                prev_prio: Some(prev.prio),
                prev_state: Some(bits(switch.prev_state)),
                next_comm: name(next.comm),
                next_pid: Some(next.pid),
                next_prio: Some(next.prio),
            });
        }
        EventKind::Waking(w) => message.sched_waking = wakeup(w),
        EventKind::Wakeup(w) => message.sched_wakeup = wakeup(w),
        EventKind::WakeupNew(w) => message.sched_wakeup_new = wakeup(w),
        EventKind::Migrate(moves) => {
            message.sched_migrate_task = Some(SchedMigrateTask {
                comm: name(moves.task.comm),
                pid: Some(moves.task.pid),
                prio: Some(moves.task.prio),
                orig_cpu: Some(moves.orig_cpu as i32),
                dest_cpu: Some(moves.dest_cpu as i32),
            });
        }
        EventKind::Fork(fork) => {
            message.sched_process_fork = Some(SchedProcessFork {
                parent_comm: name(fork.parent_comm),
                parent_pid: Some(fork.parent_pid),
                child_comm: name(fork.child_comm),
                child_pid: Some(fork.child_pid),
            });
        }
        EventKind::Exec(exec) => {
            message.sched_process_exec = Some(SchedProcessExec {
                filename: name(exec.filename),
                pid: Some(exec.pid),
                old_pid: Some(exec.old_pid),
            });
        }
        EventKind::Exit(task) => {
            message.sched_process_exit = Some(SchedProcessExit {
                comm: name(task.comm),
                pid: Some(task.pid),
                prio: Some(task.prio),
            });
        }
        EventKind::Runtime(_) | EventKind::Socket { .. } | EventKind::Other => {
            panic!("only decoded events are written")
        }
    }
    message
}

/// The compact form while it is filled.
#[derive(Default)]
struct Columns {
    sched: CompactSched,
    last_switch_ns: u64,
    last_waking_ns: u64,
}

impl Columns {
    fn intern(&mut self, name: &[u8]) -> u32 {
        let table = &mut self.sched.intern_table;
        let known = table.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            table.push(name.to_vec());
            table.len() - 1
        }) as u32
    }

    /// Takes a switch or a waking in; false for other events.
    fn take(&mut self, event: &Event, read: &Read) -> bool {
        match event.kind {
            EventKind::Switch(switch) => {
                let next = switch.next;
                let comm = self.intern(read.comms.get(next.comm).unwrap());
                let sched = &mut self.sched;
                sched
                    .switch_timestamp
                    .push(event.time_ns - self.last_switch_ns);
                self.last_switch_ns = event.time_ns;
                sched.switch_prev_state.push(bits(switch.prev_state));
                sched.switch_next_pid.push(next.pid);
                sched.switch_next_prio.push(next.prio);
                sched.switch_next_comm_index.push(comm);
            }
            EventKind::Waking(w) => {
                let comm = self.intern(read.comms.get(w.task.comm).unwrap());
                let sched = &mut self.sched;
                sched
                    .waking_timestamp
                    .push(event.time_ns - self.last_waking_ns);
                self.last_waking_ns = event.time_ns;
                sched.waking_pid.push(w.task.pid);
                sched.waking_prio.push(w.task.prio);
                sched.waking_target_cpu.push(w.target_cpu as i32);
                sched.waking_comm_index.push(comm);
                sched.waking_common_flags.push(flags(event));
            }
            _ => return false,
        }
        true
    }
}

#[test]
fn perfetto_tells_what_was_put_into_its_messages() {
    let dat = read("trace-v7.dat");
    let plain = read_bytes(&perfetto(&dat, false));
    assert_eq!(plain.lines(), with_message(&dat));
    let contexts = |read: &Read| {
        let known = read.events().into_iter();
        let decoded = known.filter(has_message);
        decoded.map(|event| event.context).collect::<Vec<_>>()
    };
    assert_eq!(contexts(&plain), contexts(&dat));
}

#[test]
fn perfettos_compact_form_lacks_only_what_leaves_first_or_under_a_new_name() {
    let dat = read("trace-v7.dat");
    let compact = read_bytes(&perfetto(&dat, true));
    let (compact, dat) = (compact.lines(), with_message(&dat));
    assert_eq!(compact.len(), dat.len());
    let different: Vec<_> = compact.iter().zip(&dat).filter(|(a, b)| a != b).collect();
    let first = |line: &str| line.contains("task -1 sched_switch \"<...>\":-1:0");
    assert_eq!(different.iter().filter(|(line, _)| first(line)).count(), 2);
    // A task that ran another program since it came leaves under its old name.
    let ran_another = |line: &str| {
        let pid = line.split(' ').nth(4).unwrap();
        let exec = format!("sched_process_exec {pid} was");
        dat.iter().any(|line| line.contains(&exec))
    };
    for (compact, dat) in different {
        assert!(first(compact) || ran_another(dat), "{compact}: {dat}");
    }
}

#[test]
fn packed_packets_and_gaps_of_perfetto() {
    let dat = read("trace-v7.dat");
    let plain = perfetto(&dat, false);
    let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(&plain).unwrap();
    let gap = FtraceEventBundle {
        cpu: Some(1),
        lost_events: Some(true),
        event: vec![FtraceEvent {
            timestamp: Some(5),
            ..FtraceEvent::default()
        }],
        ..FtraceEventBundle::default()
    };
    let packets = [
        TracePacket {
            compressed_packets: Some(packer.finish().unwrap()),
            ..TracePacket::default()
        },
        TracePacket {
            ftrace_events: Some(gap),
            ..TracePacket::default()
        },
    ];
    let packed = Trace {
        packet: packets.to_vec(),
    };
    let packed = read_bytes(&packed.encode_to_vec());
    assert_eq!(packed.lines(), with_message(&dat));
    let gap = LostEvents {
        cpu: 1,
        events: None,
        after_ns: None,
        line: 0,
    };
    assert_eq!(packed.items[0], Item::Lost(gap));
    assert_eq!(packed.others(), [("(event)".to_owned(), 1)]);
}

/// A record of perf.data turned into one that says 431 events were lost: the first of a mapped file
/// that fits.
fn with_a_gap() -> Vec<u8> {
    const MMAP2: u32 = 10;
    const LOST: u32 = 2;
    let mut data = bytes("perf.data.gz");
    let word = |data: &[u8], at: usize| u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
    let mut at = word(&data, 40) as usize;
    loop {
        let kind = u32::from_le_bytes(data[at..at + 4].try_into().unwrap());
        let size = u16::from_le_bytes(data[at + 6..at + 8].try_into().unwrap());
        if kind == MMAP2 {
            data[at..at + 4].copy_from_slice(&LOST.to_le_bytes());
            data[at + 16..at + 24].copy_from_slice(&431u64.to_le_bytes());
            return data;
        }
        at += usize::from(size);
    }
}

#[test]
fn gaps_of_perf_are_told() {
    let data = read_bytes(&with_a_gap());
    assert_eq!(data.counts.lost_events(), Some(431));
    let text = b"       perf  1395 [001] 26532.930609260: sched:sched_process_exit: comm=a b pid=7 prio=120\n\
        \tffffffff813ad48a [unknown] ([unknown])\n\t           ee137 main+0x7 (/usr/bin/a)\n\n\
        swapper     0 [000] 26533.258275998: PERF_RECORD_LOST lost 10\n";
    let text = common::read_text(text).unwrap();
    let gap = LostEvents {
        cpu: 0,
        events: Some(10),
        after_ns: Some(26_532_930_609_260),
        line: 5,
    };
    assert_eq!(text.items[1], Item::Lost(gap));
    assert_eq!(text.counts.continuation_lines, 2);
}

#[test]
fn files_packed_with_zstd_are_read() {
    // Two frames one behind the other, as parallel packers write them, of stored blocks: head,
    // size, block, bytes.
    let text = bytes("tracefs.txt");
    let mut packed = Vec::new();
    for half in [&text[..text.len() / 2], &text[text.len() / 2..]] {
        packed.extend_from_slice(&[0x28, 0xb5, 0x2f, 0xfd, 0xa0]);
        packed.extend_from_slice(&(half.len() as u32).to_le_bytes());
        let block = (half.len() as u32) << 3 | 1;
        packed.extend_from_slice(&block.to_le_bytes()[..3]);
        packed.extend_from_slice(half);
    }
    assert_eq!(read_bytes(&packed).lines(), read("tracefs.txt").lines());
}
