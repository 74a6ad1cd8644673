//! Written recordings read back unchanged, in every format that is written.

mod common;

use common::{Read, fixture, read_file};
use schedcast_trace::write::{WriteFormat, sink};
use schedcast_trace::{Event, EventKind, Item, LostEvents};

fn read(name: &str) -> Read {
    read_file(&fixture(name)).unwrap_or_else(|error| panic!("{error}"))
}

fn through(format: WriteFormat, from: &Read) -> Read {
    let mut bytes = Vec::new();
    let mut out = sink(format, &mut bytes, from.counts.cpus_declared);
    for item in &from.items {
        out.item(item, &from.comms).unwrap();
    }
    out.finish().unwrap();
    drop(out);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    read_file(file.path()).unwrap_or_else(|error| panic!("{format:?}: {error}"))
}

fn decoded(read: &Read, format: WriteFormat) -> Vec<Event> {
    let events = read.events().into_iter();
    events
        .filter(|event| has_words(&event.kind, format))
        .collect()
}

fn has_words(kind: &EventKind, format: WriteFormat) -> bool {
    match kind {
        EventKind::Socket { .. } | EventKind::Other => false,
        EventKind::Runtime(_) => format != WriteFormat::Perfetto,
        _ => true,
    }
}

#[test]
fn events_survive_every_format() {
    for fixture in ["trace-v7.dat", "perf.data.gz", "tracefs.txt"] {
        let from = read(fixture);
        for format in [WriteFormat::FtraceText, WriteFormat::Perfetto] {
            let back = through(format, &from);
            let lines = |read: &Read| {
                let all = read.lines().into_iter();
                // Perfetto has no message for it.
                let keeps = |line: &String| {
                    format != WriteFormat::Perfetto || !line.contains("sched_stat_runtime")
                };
                all.filter(keeps).collect::<Vec<_>>()
            };
            assert_eq!(lines(&back), lines(&from), "{fixture} {format:?}");
            let contexts = |read: &Read| {
                decoded(read, format)
                    .iter()
                    .map(|e| e.context)
                    .collect::<Vec<_>>()
            };
            assert_eq!(contexts(&back), contexts(&from), "{fixture} {format:?}");
        }
        let back = through(WriteFormat::PerfScript, &from);
        assert_eq!(back.lines(), from.lines(), "{fixture} as perf script");
    }
}

#[test]
fn gaps_survive_every_format() {
    let from = read("trace-pipe-lost.txt");
    let gap = |read: &Read| -> Vec<(u32, Option<u64>)> {
        let gaps = read.items.iter().filter_map(|item| match item {
            Item::Lost(LostEvents { cpu, events, .. }) => Some((*cpu, *events)),
            Item::Event(_) => None,
        });
        gaps.collect()
    };
    assert!(!gap(&from).is_empty());
    for format in [WriteFormat::FtraceText, WriteFormat::PerfScript] {
        assert_eq!(gap(&through(format, &from)), gap(&from), "{format:?}");
    }
    let cpus = |read: &Read| gap(read).iter().map(|(cpu, _)| *cpu).collect::<Vec<_>>();
    let back = through(WriteFormat::Perfetto, &from);
    assert_eq!(cpus(&back), cpus(&from), "the number has no place there");
}

#[test]
fn the_number_of_cpus_is_kept_by_text() {
    let from = read("trace-v7.dat");
    let back = through(WriteFormat::FtraceText, &from);
    assert_eq!(back.counts.cpus_declared, Some(2));
}
