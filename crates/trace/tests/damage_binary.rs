//! Damaged input of every binary format and of `perf script`: an error with its place, never a
//! panic.

mod common;

use common::{bytes, fixture, read_file, survive};
use proptest::prelude::*;
use schedcast_base::assert_contains;
use schedcast_trace::{ErrorKind, Recording, open_trace};

/// Changes four bytes, or cuts the rest off.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Bytes([u8; 4]),
    Flip(u8),
    Cut,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(Damage::Bytes),
        (0u8..8).prop_map(Damage::Flip),
        Just(Damage::Cut),
    ]
}

impl Damage {
    fn apply(self, bytes: &mut Vec<u8>, at: prop::sample::Index) {
        let at = at.index(bytes.len() - 4);
        match self {
            Damage::Bytes(with) => bytes[at..at + 4].copy_from_slice(&with),
            Damage::Flip(bit) => bytes[at] ^= 1 << bit,
            Damage::Cut => bytes.truncate(at),
        }
    }
}

/// A small Perfetto trace: a bundle with an event and compact columns.
fn perfetto() -> Vec<u8> {
    use schedcast_trace::perfetto::wire::{put_bytes, put_message, put_packed, put_uint};
    let mut trace = Vec::new();
    put_message(&mut trace, 1, |packet| {
        put_message(packet, 1, |bundle| {
            put_uint(bundle, 1, 3);
            put_message(bundle, 2, |event| {
                put_uint(event, 1, 1000);
                put_uint(event, 2, 7);
                put_message(event, 20, |waking| {
                    put_bytes(waking, 1, b"postgres");
                    put_uint(waking, 2, 9);
                    put_uint(waking, 5, 1);
                });
            });
            put_message(bundle, 4, |columns| {
                put_packed(columns, 1, [2000, 500]);
                put_packed(columns, 2, [1, 0]);
                put_packed(columns, 3, [9, 7]);
                put_packed(columns, 4, [120, 120]);
                put_bytes(columns, 5, b"postgres");
                put_packed(columns, 6, [0, 0]);
            });
        });
    });
    trace
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn perf_data_survives(what in damage(), at: prop::sample::Index) {
        let mut bytes = bytes("perf.data.gz");
        what.apply(&mut bytes, at);
        survive("t.data", &bytes).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn the_head_of_perf_data_survives(what in damage(), at in 0usize..2048) {
        let mut bytes = bytes("perf.data.gz");
        let at = at.min(bytes.len() - 4);
        if let Damage::Bytes(with) = what {
            bytes[at..at + 4].copy_from_slice(&with);
        } else {
            bytes.truncate(at);
        }
        survive("t.data", &bytes).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn perf_script_survives(what in damage(), at: prop::sample::Index) {
        let mut bytes = bytes("perf-script.txt.gz");
        bytes.truncate(20_000);
        what.apply(&mut bytes, at);
        survive("t.txt", &bytes).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn perfetto_survives(what in damage(), at: prop::sample::Index) {
        let mut bytes = perfetto();
        what.apply(&mut bytes, at);
        survive("t.pftrace", &bytes).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn garbage_behind_a_magic_survives(magic in 0usize..5, mut rest in prop::collection::vec(any::<u8>(), 0..300)) {
        let magics: [&[u8]; 5] = [b"PERFILE2", b"2ELIFREP", b"\x17\x08\x44tracing6\0\0\x08\0\x10\0\0", b"\x0a\x04", b"\x28\xb5\x2f\xfd"];
        let mut bytes = magics[magic].to_vec();
        bytes.append(&mut rest);
        survive("t.bin", &bytes).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn raw_pages_survive(what in damage(), at: prop::sample::Index, format in any::<bool>()) {
        let folder = raw_folder();
        let file = if format { "events/sched/sched_switch/format" } else { "per_cpu/cpu0/trace_pipe_raw" };
        let path = folder.path().join(file);
        let mut bytes = std::fs::read(&path).unwrap();
        what.apply(&mut bytes, at);
        std::fs::write(&path, bytes).unwrap();
        if let Err(error) = read_file(folder.path()) {
            prop_assert!(error.message.len() > 10, "{}", error);
        }
    }
}

/// A copy of the folder with raw pages.
fn raw_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&fixture("raw-pages"), folder.path());
    folder
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_folder_says_what_it_lacks() {
    let refused = |remove: &str| {
        let folder = raw_folder();
        let path = folder.path().join(remove);
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
        open_trace(folder.path()).err().unwrap().to_string()
    };
    assert!(refused("events/header_page").contains("recording.json"));
    assert!(refused("per_cpu").contains("trace_pipe_raw"));
    assert!(refused("events/sched").contains("sched_switch/format"));
    let folder = raw_folder();
    std::fs::write(folder.path().join("trace_clock"), "local [x86-tsc]\n").unwrap();
    let error = open_trace(folder.path()).err().unwrap();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.to_string().contains("x86-tsc"), "{error}");
}

#[test]
fn a_folder_of_raw_pages_is_a_recording() {
    let recording = Recording::open(&fixture("raw-pages")).unwrap();
    assert!(recording.events.len() > 200);
    assert_eq!(recording.meta.kernel, None);
}

#[test]
fn perf_data_without_what_is_needed_is_refused_by_name() {
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes("perf.data.gz");
        change(&mut bytes);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf.data");
        std::fs::write(&path, bytes).unwrap();
        read_file(&path).err().unwrap().to_string()
    };
    let pipe = refused(&|bytes| bytes[8..16].copy_from_slice(&16u64.to_le_bytes()));
    assert_contains(&pipe, ["pipe", "perf script"]);
    let ended = refused(&|bytes| bytes[48..56].fill(0));
    assert!(ended.contains("ended by force"), "{ended}");
    // The data's first record becomes a compressed one.
    let packed = refused(&|bytes| {
        let at = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
        bytes[at..at + 4].copy_from_slice(&81u32.to_le_bytes());
    });
    assert!(packed.contains("perf record -z"), "{packed}");
}

/// trace-cmd writes `local`, the clock of the machine's own buffer, beside an instance that counts
/// cycles.
#[test]
fn cycles_are_not_read_as_nanoseconds() {
    let folder = raw_folder();
    let stats =
        "entries: 9\noverrun: 0\noldest event ts: 126150902627033\nnow ts: 126151000000000\n";
    std::fs::write(folder.path().join("per_cpu/cpu0/stats"), stats).unwrap();
    let error = open_trace(folder.path()).err().unwrap();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.to_string().contains("cpu0/stats"), "{error}");
    let mut bytes = bytes("trace-v6.dat.gz");
    let seconds = b"now ts:";
    let at = bytes
        .windows(7)
        .position(|window| window == seconds)
        .unwrap();
    let point = at + bytes[at..].iter().position(|byte| *byte == b'.').unwrap();
    bytes[point] = b'0';
    let path = folder.path().join("t.dat");
    std::fs::write(&path, bytes).unwrap();
    let error = open_trace(&path).err().unwrap();
    assert!(error.to_string().contains("not seconds"), "{error}");
}

#[test]
fn a_recording_says_the_clock_of_its_trace() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("trace");
    copy(&fixture("raw-pages"), &pages);
    std::fs::write(pages.join("trace_clock"), "[local] mono boot\n").unwrap();
    let open = |clock: &str| {
        let meta = format!("{{\"trace\": \"trace\", \"trace_clock\": \"{clock}\"}}");
        std::fs::write(folder.path().join("recording.json"), meta).unwrap();
        Recording::open(folder.path())
    };
    assert!(open("local").is_ok());
    let error = open("mono").unwrap_err().to_string();
    assert!(error.contains("`local`, found `mono`"), "{error}");
}
