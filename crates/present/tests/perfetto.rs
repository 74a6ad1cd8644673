//! Traces of whole runs, decoded by an independent implementation of protocol buffers.

#[path = "../../trace/tests/schema/mod.rs"]
mod schema;

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use schedcast_lab::experiment::{self, Scenario};
use schedcast_lab::simulator::Simulator;
use schedcast_present::watch::perfetto;
use schema::{Trace, TracePacket};

const EXPERIMENT: &str = r#"
[machine]
preset = "hwp-desktop-8"
[kernel]
version = "6.12"
[cgroup."/test"]
"cpu.max" = "30000 100000"
"cpu.max.burst" = 10000
[[program]]
run = "schbench-classic -m 1 -t 3 -r 1 -c 20000 -s 20000"
cgroup = "/test"
[run]
duration = "1s"
"#;

/// Two hogs that take turns on one CPU.
const HOGS: &str = r#"
[machine]
preset = "generic-8"
cpus = 1
[kernel]
version = "6.12"
[[program]]
run = "stress-ng --cpu 2 -t 2"
[run]
duration = "1s"
"#;

fn scenario() -> Scenario {
    scenario_of(EXPERIMENT)
}

fn scenario_of(text: &str) -> Scenario {
    let mut read = experiment::read_text("t.toml", text).unwrap();
    read.scenarios.remove(0)
}

fn packets() -> Vec<TracePacket> {
    packets_of(&scenario())
}

fn packets_of(scenario: &Scenario) -> Vec<TracePacket> {
    let bytes = perfetto::write(&Simulator::new(), scenario, 0, Vec::new()).unwrap();
    Trace::decode(bytes.as_slice()).unwrap().packet
}

/// Tracks of counters by name; names are unique.
fn counter_tracks(packets: &[TracePacket]) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    for packet in packets {
        if let Some(descriptor) = &packet.track_descriptor
            && descriptor.counter.is_some()
        {
            let name = descriptor.name.clone().unwrap();
            let before = counters.insert(name, descriptor.uuid.unwrap());
            assert!(before.is_none(), "{descriptor:?} is described twice");
        }
    }
    counters
}

/// Times and values of a counter.
fn counted(events: &[&TracePacket]) -> Vec<(u64, f64)> {
    let of = |packet: &&TracePacket| {
        let event = packet.track_event.as_ref().unwrap();
        let value = event.double_counter_value.unwrap();
        (packet.timestamp.unwrap(), value)
    };
    events.iter().map(of).collect()
}

/// Events of every track in the order of time, as a reader of the trace sorts them.
fn by_track(packets: &[TracePacket]) -> BTreeMap<u64, Vec<&TracePacket>> {
    let mut tracks: BTreeMap<u64, Vec<&TracePacket>> = BTreeMap::new();
    for packet in packets {
        if let Some(event) = &packet.track_event {
            let track = tracks.entry(event.track_uuid.unwrap()).or_default();
            track.push(packet);
        }
    }
    for events in tracks.values_mut() {
        events.sort_by_key(|packet| packet.timestamp);
    }
    tracks
}

fn names(packets: &[TracePacket]) -> BTreeMap<u64, String> {
    let data = packets.iter().flat_map(|packet| &packet.interned_data);
    let entries = data.flat_map(|data| &data.event_names);
    let named = entries.map(|entry| (entry.iid.unwrap(), entry.name.clone().unwrap()));
    named.collect()
}

#[test]
fn slices_nest_and_say_what_threads_did() {
    let packets = packets();
    let names = names(&packets);
    let mut depths_seen = BTreeSet::new();
    let mut running = 0;
    for events in by_track(&packets).values() {
        let mut open: Vec<&str> = Vec::new();
        for packet in events {
            let event = packet.track_event.as_ref().unwrap();
            let name = event.name_iid.map(|number| names[&number].as_str());
            match event.r#type {
                Some(1) => {
                    let name = name.unwrap();
                    if name.starts_with("on CPU") {
                        assert_eq!(open, ["active"]);
                        running += 1;
                    }
                    open.push(name);
                    depths_seen.insert(open.len());
                }
                Some(2) => {
                    open.pop().expect("an end without a begin");
                }
                _ => {}
            }
        }
        assert!(open.len() <= 2, "{open:?}");
    }
    assert_eq!(depths_seen, BTreeSet::from([1, 2]));
    assert!(running > 20, "{running}");
    for expected in ["waiting", "throttled", "active"] {
        let mut values = names.values();
        assert!(values.any(|name| name == expected), "{expected}: {names:?}");
    }
}

#[test]
fn every_arrow_has_two_ends() {
    let packets = packets();
    let mut from = BTreeMap::new();
    let mut to = BTreeMap::new();
    for packet in &packets {
        let Some(event) = &packet.track_event else {
            continue;
        };
        for flow in &event.flow_ids {
            assert!(from.insert(*flow, packet.timestamp).is_none());
        }
        for flow in &event.terminating_flow_ids {
            assert!(to.insert(*flow, packet.timestamp).is_none());
        }
    }
    assert!(from.len() > 10, "{}", from.len());
    for (flow, at) in &to {
        assert!(from[flow] <= *at, "flow {flow} goes back in time");
    }
    // The last wakeups may lead beyond the end.
    assert!(from.len() - to.len() <= 4);
}

#[test]
fn counters_follow_the_pool_and_power_is_there() {
    let packets = packets();
    let counters = counter_tracks(&packets);
    let tracks = by_track(&packets);
    let values = |name: &str| -> Vec<f64> {
        let counted = counted(&tracks[&counters[name]]);
        counted.into_iter().map(|(_, value)| value).collect()
    };
    // A quota of 30 ms and up to 10 ms more of what was left.
    for (name, range) in [
        ("granted per period", 30.0..=40.0),
        ("pool", 0.0..=40.0),
        ("package power", 0.1..=500.0),
    ] {
        let values = values(name);
        assert!(
            values.iter().all(|value| range.contains(value)),
            "{name}: {values:?}"
        );
    }
    let used = values("used per period");
    assert!(used.len() >= 8, "{used:?}");
    assert!(used[1..].iter().all(|ms| *ms < 46.0), "{used:?}");
    assert!(values("throttled per period").iter().any(|ms| *ms > 1.0));
}

/// The worked example of the module: vruntimes grow by half of the time, lags are opposite, and
/// each hog is half of the CPU's utilisation.
#[test]
fn vruntime_lag_and_utilisation_of_two_hogs() {
    let packets = packets_of(&scenario_of(HOGS));
    let (counters, tracks) = (counter_tracks(&packets), by_track(&packets));
    let of = |kind: &str| -> Vec<Vec<(u64, f64)>> {
        let begin = format!("{kind} of stress-ng");
        let named = counters.iter().filter(|(name, _)| name.starts_with(&begin));
        let all = named.map(|(_, track)| counted(&tracks[track]));
        // The program's first thread starts the hogs and waits for them.
        all.filter(|values| values.len() > 100).collect()
    };
    let vruntimes = of("vruntime");
    assert_eq!(vruntimes.len(), 2);
    for values in &vruntimes {
        let ((from, first), (to, last)) = (values[20], values[values.len() - 1]);
        let share = (last - first) / ((to - from) as f64 / 1e6);
        assert!((0.48..0.52).contains(&share), "{share}");
        assert!(values.windows(2).all(|pair| pair[0].1 < pair[1].1));
    }
    let lags = of("lag");
    assert_eq!(lags.len(), 2);
    let second: BTreeMap<u64, f64> = lags[1].iter().copied().collect();
    let mut together = 0;
    for (at, lag) in &lags[0] {
        assert!(lag.abs() < 20.0, "{lag}");
        if let Some(other) = second.get(at).filter(|_| *at > 100_000_000) {
            assert!((lag + other).abs() < 0.11, "{at}: {lag} {other}");
            together += 1;
        }
    }
    assert!(together > 50, "{together}");
    let last = |values: &[(u64, f64)]| values[values.len() - 1].1;
    for values in of("util") {
        assert!((400.0..640.0).contains(&last(&values)), "{values:?}");
    }
    let cpu = counted(&tracks[&counters["util of CPU 0"]]);
    assert!((950.0..=1024.0).contains(&last(&cpu)), "{}", last(&cpu));
}

#[test]
fn cpu_rows_come_from_scheduling_events() {
    let packets = packets();
    let mut current: BTreeMap<u32, i32> = BTreeMap::new();
    let (mut switches, mut clocks, mut sleeps) = (0, 0, 0);
    let mut last: BTreeMap<u32, u64> = BTreeMap::new();
    for bundle in packets.iter().flat_map(|packet| &packet.ftrace_events) {
        let cpu = bundle.cpu.unwrap();
        for event in &bundle.event {
            if let Some(switch) = &event.sched_switch {
                let before = current.insert(cpu, switch.next_pid.unwrap());
                assert_eq!(before.unwrap_or(0), switch.prev_pid.unwrap());
                assert!(last.insert(cpu, event.timestamp.unwrap()) <= event.timestamp);
                switches += 1;
            }
            clocks += u32::from(event.cpu_frequency.is_some());
            sleeps += u32::from(event.cpu_idle.is_some());
        }
    }
    let are_there = switches > 40 && clocks > 0 && sleeps > 40;
    assert!(are_there, "{switches} {clocks} {sleeps}");
}

/// Variants in one file are told apart: no track is described twice, no thread switches on a CPU of
/// the other variant, and the second one reads as the file of it alone does.
#[test]
fn several_variants_share_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut other = scenario();
    other.name = "burst/100 ms".to_string();
    let path = directory.path().join("out.pftrace");
    perfetto::write_file(&Simulator::new(), &[scenario(), other.clone()], &path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let both = Trace::decode(bytes.as_slice()).unwrap().packet;
    let alone = packets_of(&other);

    let tracks = described(&both);
    let unique: BTreeSet<u64> = tracks.iter().map(|(track, _)| *track).collect();
    assert_eq!(unique.len(), tracks.len());
    for part in ["/test", "machine"] {
        let name = format!("burst/100 ms · {part}");
        assert!(
            tracks.iter().any(|track| track.1 == name),
            "{name}: {tracks:?}"
        );
    }

    let mut threads: BTreeMap<i32, BTreeSet<bool>> = BTreeMap::new();
    for (cpu, _, tid) in switches(&both) {
        threads.entry(tid).or_default().insert(cpu >= CPUS);
    }
    assert_eq!(threads.remove(&0).map(|sides| sides.len()), Some(2));
    assert!(threads.values().all(|sides| sides.len() == 1));
    assert_eq!(tracks.len(), 2 * described(&alone).len());

    let second: Vec<_> = switches(&both)
        .into_iter()
        .filter(|(cpu, ..)| *cpu >= CPUS)
        .map(|(cpu, time, tid)| (cpu - CPUS, time, tid - i32::from(tid > 0) * (1 << 22)))
        .collect();
    assert!(second.len() > 40, "{}", second.len());
    assert_eq!(second, switches(&alone));
    let sequences = both.iter().map(|packet| packet.trusted_packet_sequence_id);
    assert_eq!(sequences.collect::<BTreeSet<_>>().len(), 2);
}

/// CPUs of the machine in the experiment.
const CPUS: u32 = 8;

/// Number and name of each track, in the order of their descriptions.
fn described(packets: &[TracePacket]) -> Vec<(u64, String)> {
    let descriptors = packets.iter().flat_map(|packet| &packet.track_descriptor);
    let of = |track: &schema::TrackDescriptor| {
        let process = track.process.as_ref();
        let name = process.and_then(|process| process.process_name.clone());
        (track.uuid.unwrap(), name.unwrap_or_default())
    };
    descriptors.map(of).collect()
}

/// CPU, time and next thread of every switch, in the order of the file.
fn switches(packets: &[TracePacket]) -> Vec<(u32, u64, i32)> {
    let mut all = Vec::new();
    for bundle in packets.iter().flat_map(|packet| &packet.ftrace_events) {
        for event in &bundle.event {
            if let Some(switch) = &event.sched_switch {
                let next = switch.next_pid.unwrap();
                all.push((bundle.cpu.unwrap(), event.timestamp.unwrap(), next));
            }
        }
    }
    all
}

/// Perfetto's own reader takes the file, and finds in it who ran when, the cgroups and the
/// throttled spans.
#[test]
fn the_trace_processor_of_perfetto_opens_it() {
    let is_there = |name: &&str| {
        let mut version = std::process::Command::new(name);
        version.arg("--version").output().is_ok()
    };
    let mut names = ["trace_processor_shell", "trace_processor"].into_iter();
    let Some(processor) = names.find(is_there) else {
        eprintln!("skipped: no trace_processor_shell of Perfetto on this machine");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.pftrace");
    let bytes = perfetto::write(&Simulator::new(), &scenario(), 0, Vec::new()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    let query = directory.path().join("q.sql");
    let text = "select (select count(*) from sched) > 100, \
                (select count(*) from process where name glob '* · /test'), \
                (select count(*) from slice where name = 'throttled') > 0, \
                (select count(*) from stats where severity = 'error' and value > 0);";
    std::fs::write(&query, text).unwrap();
    let mut ask = std::process::Command::new(processor);
    let answer = ask.arg("-q").arg(&query).arg(&path).output().unwrap();
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert_eq!(answer.lines().last(), Some("1,1,1,0"), "{answer}");
}

#[test]
fn scheduling_events_have_priorities_first_wakeups_and_migrations() {
    let text = EXPERIMENT.replace(
        "[run]",
        "[[program]]\nrun = \"cyclictest -p 80 -t 1\"\n\
         [[program]]\nrun = \"nice -n 19 hackbench -g 1 -l 50\"\n[run]",
    );
    let packets = packets_of(&scenario_of(&text));
    let bundles = packets.iter().flat_map(|packet| &packet.ftrace_events);
    let events: Vec<_> = bundles.flat_map(|bundle| &bundle.event).collect();
    let switches = events.iter().flat_map(|event| &event.sched_switch);
    let named =
        |switch: &&schema::SchedSwitch, name: &[u8]| switch.next_comm.as_deref() == Some(name);
    let prios = |name: &'static [u8]| -> BTreeSet<i32> {
        let of = switches.clone().filter(|switch| named(switch, name));
        of.filter_map(|switch| switch.next_prio).collect()
    };
    let all: BTreeSet<i32> = switches.clone().filter_map(|one| one.next_prio).collect();
    assert!(all.contains(&19) && all.contains(&139), "{all:?}");
    assert_eq!(prios(b"swapper/1"), [120].into());
    let mut migrations = events.iter().flat_map(|event| &event.sched_migrate_task);
    assert!(migrations.next().is_some());
    // Every thread is new once, and before all its other wakeups.
    let mut known = BTreeSet::new();
    for event in &events {
        if let Some(new) = &event.sched_wakeup_new {
            assert!(known.insert(new.pid), "{:?} is new again", new.pid);
        }
    }
    assert!(known.len() > 40, "{}", known.len());
}
