//! trace.dat in both versions, beside what `trace-cmd report -N -l -t` (3.1.6) says of the same
//! file.
//!
//! The recording is of threads with awkward names on Linux 6.18, the first three pages of each of
//! two CPUs. Version 6 is gzipped here, version 7 is compressed with zstd by trace-cmd itself.

mod common;

use common::{Read, bytes, fixture, read_file, survive};
use proptest::prelude::*;
use schedcast_trace::{Event, open_trace};

const FILES: [&str; 2] = ["trace-v6.dat.gz", "trace-v7.dat"];

fn read(name: &str) -> Read {
    read_file(&fixture(name)).unwrap_or_else(|error| panic!("{error}"))
}

/// Time, CPU, task and context of an event: everything besides the numbers of names.
fn place(event: &Event) -> (u64, u32, i32, schedcast_trace::Context) {
    (event.time_ns, event.cpu, event.task, event.context)
}

#[test]
fn both_versions_tell_what_trace_cmd_prints() {
    let report = read("trace-dat.report.txt.gz");
    let expected: Vec<_> = report.events().iter().map(place).collect();
    assert!(expected.len() > 300);
    for name in FILES {
        let read = read(name);
        assert_eq!(read.dump(), report.dump(), "{name}");
        let places: Vec<_> = read.events().iter().map(place).collect();
        assert_eq!(places, expected, "{name}");
        assert_eq!(read.counts.cpus_declared, Some(2), "{name}");
        assert_eq!(read.others(), report.others(), "{name}");
    }
}

#[test]
fn a_cut_head_is_an_error_with_its_offset() {
    let whole = bytes(FILES[0]);
    for cut in [11, 12, 17, 30, 200, 1000, 5000] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.dat");
        std::fs::write(&path, &whole[..cut]).unwrap();
        let error = open_trace(&path).err().unwrap();
        let offset = error.offset.unwrap_or_else(|| panic!("{cut}: {error}"));
        assert!(offset <= cut as u64, "{cut}: {error}");
        assert!(error.message.contains("cut off"), "{cut}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn damage_is_survived(file in 0usize..2, at: prop::sample::Index, with: [u8; 4]) {
        let mut bytes = bytes(FILES[file]);
        let at = at.index(bytes.len() - 4);
        bytes[at..at + 4].copy_from_slice(&with);
        survive("t.dat", &bytes).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn cuts_are_survived(file in 0usize..2, at: prop::sample::Index) {
        let bytes = bytes(FILES[file]);
        survive("t.dat", &bytes[..at.index(bytes.len())]).map_err(TestCaseError::fail)?;
    }
}
