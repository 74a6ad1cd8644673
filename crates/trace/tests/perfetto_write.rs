//! Written traces, decoded by an independent implementation of protocol buffers.

mod schema;

use prost::Message;
use schedcast_trace::perfetto::write::{Flow, PerfettoWriter, Thread, Track};
use schema::{FtraceEventBundle, Trace, TracePacket, TrackDescriptor};

fn decode(fill: impl FnOnce(&mut PerfettoWriter<Vec<u8>>)) -> Vec<TracePacket> {
    let mut writer = PerfettoWriter::new(Vec::new());
    fill(&mut writer);
    let bytes = writer.finish().unwrap();
    Trace::decode(bytes.as_slice()).unwrap().packet
}

const SIDE: Track = Track(5);

#[test]
fn tracks_are_described() {
    let packets = decode(|writer| {
        writer.process(Track(1), 100, "/pg");
        let thread = Thread {
            tid: 101,
            comm: "postgres",
            prio: 120,
        };
        writer.thread(Track(2), 100, thread);
        writer.track(Track(3), Track(1), "throttled on CPU 0");
        writer.counter(Track(4), Track(1), "pool", "us");
    });
    assert_eq!(packets[0].sequence_flags, Some(3), "names start afresh");
    assert!(
        packets[1..]
            .iter()
            .all(|packet| packet.sequence_flags == Some(2))
    );
    let tracks: Vec<TrackDescriptor> = packets
        .into_iter()
        .filter_map(|packet| packet.track_descriptor)
        .collect();
    let process = tracks[0].process.as_ref().unwrap();
    assert_eq!(
        (process.pid, process.process_name.as_deref()),
        (Some(100), Some("/pg"))
    );
    let thread = tracks[1].thread.as_ref().unwrap();
    assert_eq!((thread.pid, thread.tid), (Some(100), Some(101)));
    assert_eq!(thread.thread_name.as_deref(), Some("postgres"));
    assert_eq!((tracks[2].uuid, tracks[2].parent_uuid), (Some(3), Some(1)));
    let unit = tracks[3].counter.as_ref().unwrap().unit_name.as_deref();
    assert_eq!(
        (tracks[3].name.as_deref(), unit),
        (Some("pool"), Some("us"))
    );
}

#[test]
fn names_are_written_once_and_flows_connect() {
    let packets = decode(|writer| {
        writer.begin(10, SIDE, "active", Flow::To(7));
        writer.begin(11, SIDE, "waiting", Flow::None);
        writer.end(15, SIDE);
        writer.end(35, SIDE);
        writer.instant(40, SIDE, "wakes", Flow::From(u64::MAX));
        writer.begin(50, SIDE, "active", Flow::None);
    });
    let names: Vec<(u64, String)> = packets
        .iter()
        .filter_map(|packet| packet.interned_data.as_ref())
        .flat_map(|data| &data.event_names)
        .map(|entry| (entry.iid.unwrap(), entry.name.clone().unwrap()))
        .collect();
    let expected = [(1, "active"), (2, "waiting"), (3, "wakes")];
    assert_eq!(
        names,
        expected.map(|(number, name)| (number, name.to_owned()))
    );
    let events: Vec<(u64, i32, Option<u64>)> = packets
        .iter()
        .map(|packet| {
            let event = packet.track_event.as_ref().unwrap();
            assert_eq!(event.track_uuid, Some(5));
            (
                packet.timestamp.unwrap(),
                event.r#type.unwrap(),
                event.name_iid,
            )
        })
        .collect();
    let expected = [
        (10, 1, Some(1)),
        (11, 1, Some(2)),
        (15, 2, None),
        (35, 2, None),
        (40, 3, Some(3)),
        (50, 1, Some(1)),
    ];
    assert_eq!(events, expected);
    let flows = |row: usize| packets[row].track_event.clone().unwrap();
    assert_eq!(flows(0).terminating_flow_ids, [7]);
    assert_eq!(flows(4).flow_ids, [u64::MAX]);
}

#[test]
fn counters_may_be_negative_or_fractions() {
    let packets = decode(|writer| {
        writer.value(1, SIDE, -3);
        writer.fraction(2, SIDE, 11.25);
    });
    let event = |row: usize| packets[row].track_event.clone().unwrap();
    assert_eq!(
        (event(0).r#type, event(0).counter_value),
        (Some(4), Some(-3))
    );
    assert_eq!(event(1).double_counter_value, Some(11.25));
}

#[test]
fn scheduling_events_are_bundled_by_cpu() {
    let a = Thread {
        tid: 11,
        comm: "a",
        prio: -1,
    };
    let idle = Thread {
        tid: 0,
        comm: "swapper",
        prio: 120,
    };
    let packets = decode(|writer| {
        writer.waking((1, 0), 5, a, 0);
        writer.wakeup((1, 0), 6, a, 0);
        writer.wakeup_new((1, 0), 7, a, 0);
        writer.migrate((1, 0), 8, a, [0, 1]);
        writer.idle(0, 8, None);
        writer.switch(0, 9, idle, 0, a);
        writer.frequency(0, 10, 2_400_000);
        writer.flush_cpus();
        writer.switch(0, 20, a, 1, idle);
    });
    let bundles: Vec<FtraceEventBundle> = packets
        .into_iter()
        .map(|packet| packet.ftrace_events.unwrap())
        .collect();
    let cpus: Vec<_> = bundles.iter().map(|bundle| bundle.cpu.unwrap()).collect();
    assert_eq!(cpus, [0, 1, 0]);
    let first = &bundles[0].event;
    assert_eq!(first[0].cpu_idle.as_ref().unwrap().state, Some(u32::MAX));
    let switch = first[1].sched_switch.as_ref().unwrap();
    assert_eq!(
        (first[1].timestamp, switch.prev_pid, switch.next_pid),
        (Some(9), Some(0), Some(11))
    );
    assert_eq!(
        first[2].cpu_frequency.as_ref().unwrap().state,
        Some(2_400_000)
    );
    let waking = bundles[1].event[0].sched_waking.as_ref().unwrap();
    assert_eq!(
        (waking.comm.as_deref(), waking.pid, waking.target_cpu),
        (Some(&b"a"[..]), Some(11), Some(0))
    );
    assert!(bundles[1].event[1].sched_wakeup.is_some());
    assert!(bundles[1].event[2].sched_wakeup_new.is_some());
    let migrate = bundles[1].event[3].sched_migrate_task.as_ref().unwrap();
    assert_eq!(
        (migrate.prio, migrate.orig_cpu, migrate.dest_cpu),
        (Some(-1), Some(0), Some(1))
    );
    assert_eq!((switch.prev_prio, switch.next_prio), (Some(120), Some(-1)));
    let last = bundles[2].event[0].sched_switch.as_ref().unwrap();
    assert_eq!(
        (last.prev_state, last.next_comm.as_deref()),
        (Some(1), Some(&b"swapper/0"[..]))
    );
}

/// Takes two packets and breaks.
struct Full(u32);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self
            .0
            .checked_sub(1)
            .ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_first_error_of_the_output_is_returned() {
    let mut writer = PerfettoWriter::new(Full(2));
    for time in 0..5 {
        writer.value(time, SIDE, 1);
    }
    let error = writer.finish().map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}
