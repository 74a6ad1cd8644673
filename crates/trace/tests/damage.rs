//! Input that is cut, damaged or something else altogether: an error with its place, never a panic.

mod common;

use std::io::Write;
use std::path::Path;

use common::{fixture, read_file, read_text};
use flate2::write::GzEncoder;
use proptest::prelude::*;
use schedcast_base::rows;
use schedcast_base::{assert_in, assert_starts};
use schedcast_trace::{ErrorKind, Recording};

/// Some lines of a real trace, among them names that span lines.
fn small() -> Vec<u8> {
    let whole = std::fs::read(fixture("tracefs.txt")).unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let split_name = lines
        .iter()
        .position(|line| line.ends_with(b"comm=line\n"))
        .unwrap();
    [&lines[..14], &lines[split_name - 8..split_name + 12]]
        .concat()
        .concat()
}

fn gzipped(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn text_cut_at_every_byte() {
    let text = small();
    let whole = read_text(&text).unwrap().items;
    for cut in 0..text.len() {
        let lines_before = memchr::memchr_iter(b'\n', &text[..cut]).count() as u64;
        match read_text(&text[..cut]) {
            Ok(read) => {
                assert!(
                    cut == 0 || text[cut - 1] == b'\n',
                    "cut at {cut} is inside a line, but was read"
                );
                assert_eq!(read.items, whole[..read.items.len()], "cut at {cut}");
            }
            Err(error) => {
                let line = error.line.expect("the error names its line");
                // A name over two lines is cut, twice in one event: the error is about the first of
                // them.
                assert!(
                    (lines_before.saturating_sub(1)..=lines_before + 1).contains(&line),
                    "cut at {cut}: {error}"
                );
                assert_starts(&error, &format!("t:{line}"));
            }
        }
    }
}

#[test]
fn a_cut_inside_a_plain_line_says_so() {
    let text = small();
    let lines_before = memchr::memchr_iter(b'\n', &text).count() as u64 - 1;
    let error = read_text(&text[..text.len() - 5]).err().unwrap();
    assert_eq!(
        (error.kind, error.line),
        (ErrorKind::Truncated, Some(lines_before + 1))
    );
    assert_starts(
        &error.message,
        "the file is cut off inside this line: no newline behind",
    );
}

#[test]
fn gzip_cut_at_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.txt.gz");
    let packed = gzipped(&small());
    for cut in 0..packed.len() {
        std::fs::write(&path, &packed[..cut]).unwrap();
        let error = Recording::open(&path)
            .err()
            .unwrap_or_else(|| panic!("cut at {cut} was read"));
        // Two bytes make a gzip file, fewer are a short text.
        if cut >= 2 {
            assert_eq!(error.kind, ErrorKind::Truncated, "cut at {cut}: {error}");
        }
        if cut >= 1 {
            assert!(error.line.is_some(), "cut at {cut}: {error}");
        }
    }
}

#[test]
fn gzip_with_any_one_byte_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.txt.gz");
    let text = small();
    let whole = read_text(&text).unwrap().items;
    let packed = gzipped(&text);
    for changed in 0..packed.len() {
        let mut damaged = packed.clone();
        damaged[changed] ^= 0x20;
        std::fs::write(&path, &damaged).unwrap();
        // A few bits mean nothing: the header's time, the padding behind the last block.
        match read_file(&path) {
            Ok(read) => assert!(read.items == whole, "byte {changed} changes what is read"),
            Err(error) => assert!(error.to_string().contains("trace.txt.gz"), "{error}"),
        }
    }
}

/// Text that `{LINE}` stands for in `corpus.txt`.
const LINE: &str = "expected an event line, `TASK-PID [CPU] FLAGS TIME: EVENT` \
    (trace options raw, hex, bin and verbose must be off), found ";

#[test]
fn every_file_of_the_corpus_is_refused_in_the_expected_words() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let found: Vec<(String, String)> = names
        .into_iter()
        .map(|name| {
            let error = Recording::open(&folder.join(&name))
                .err()
                .unwrap_or_else(|| panic!("{name} was read"));
            assert!(error.file.ends_with(&name));
            let place = match (error.line, error.column) {
                (Some(line), Some(column)) => format!("{line}:{column}: "),
                (Some(line), None) => format!("{line}: "),
                _ => String::new(),
            };
            (name, format!("{place}{}", error.message))
        })
        .collect();
    let expected: Vec<(String, String)> = rows::lines(include_str!("corpus.txt"))
        .map(|row| {
            let [name, message] = rows::cells(row);
            (name.to_owned(), message.replace("{LINE}", LINE))
        })
        .collect();
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn missing_files_and_folders() {
    for path in ["/nonexistent/trace.txt", "/nonexistent/recording.json"] {
        let error = Recording::open(Path::new(path)).err().unwrap();
        assert_eq!(error.kind, ErrorKind::Io);
        assert!(error.to_string().starts_with(path), "{error}");
    }
}

#[test]
fn a_line_without_end_is_refused() {
    let text = vec![b'a'; 1 << 20];
    let error = read_text(&text).err().unwrap();
    assert_eq!((error.kind, error.line), (ErrorKind::Malformed, Some(1)));
}

/// Pieces from which lines that nearly fit are made.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::sample::select(vec![
            "  bash-12 [001] d..2. 1.000000: ",
            "sched_switch: ",
            "sched_wakeup: ",
            "prev_comm=a prev_pid=1 prev_prio=120 ",
            "prev_state=S ==> ",
            "next_comm=b next_pid=2 next_prio=120",
            "comm=a pid=5 prio=120 ",
            "target_cpu=001",
            "a:1 [120] S ==> b:2 [120]",
            "CPU:1 [LOST 5 EVENTS]",
            "# _-----=> irqs-off",
            "##### CPU 0 buffer started ####",
            "-1 [0] ",
            "1.000000: ",
            "0d..2. 5us+: ",
            " pid=",
            "(123) ",
            " => f",
            "\n",
            "\r\n",
            "ARRAY[61, 00]",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 0..12),
    ]
}

/// Reads it, and checks what holds for any input.
fn check(text: &[u8]) {
    let lines = memchr::memchr_iter(b'\n', text).count() as u64;
    match read_text(text) {
        Ok(read) => {
            assert!(text.is_empty() || text.ends_with(b"\n"));
            assert_eq!(read.counts.lines, lines);
            assert_eq!(read.counts.events as usize, read.events().len());
        }
        Err(error) => {
            assert_in!(error.line.unwrap(), 1..=lines + 1, "{error}");
        }
    }
}

/// A name as the kernel can hold it: up to 15 bytes, no zero, and no newline, which splits lines.
fn comm() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        any::<u8>(),
        proptest::sample::select(b" =:-[]()=>1p".to_vec()),
    ];
    proptest::collection::vec(byte, 0..=15).prop_map(|mut comm| {
        comm.retain(|byte| *byte != 0 && *byte != b'\n');
        comm
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(text in proptest::collection::vec(any::<u8>(), 0..600)) {
        check(&text);
    }

    #[test]
    fn arbitrary_arrangements_never_panic(pieces in proptest::collection::vec(piece(), 0..40)) {
        check(&pieces.concat());
    }

    #[test]
    fn a_real_trace_with_bytes_changed_never_panics(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut text = small();
        for (place, byte) in changes {
            let place = place.index(text.len());
            text[place] = byte;
        }
        check(&text);
    }

    #[test]
    fn any_name_is_read_back(
        task in comm(), prev in comm(), next in comm(),
        pid in 0..=i32::MAX, prio in -1..140i32, cpu in 0..4096u32, time_us in 0..1u64 << 50,
    ) {
        let (seconds, micros) = (time_us / 1_000_000, time_us % 1_000_000);
        let mut text = vec![b' '; 16usize.saturating_sub(task.len())];
        text.extend_from_slice(&task);
        let head = format!("-{pid:<7} [{cpu:03}] d..2. {seconds:5}.{micros:06}: sched_switch: prev_comm=");
        text.extend_from_slice(head.as_bytes());
        text.extend_from_slice(&prev);
        text.extend_from_slice(format!(" prev_pid={pid} prev_prio={prio} prev_state=S ==> next_comm=").as_bytes());
        text.extend_from_slice(&next);
        text.extend_from_slice(format!(" next_pid={pid} next_prio={prio}\n").as_bytes());
        let read = read_text(&text).unwrap();
        let event = read.events()[0];
        prop_assert_eq!((event.task, event.cpu, event.time_ns), (pid, cpu, time_us * 1000));
        let expected = format!(
            "cpu {cpu} task {pid} sched_switch \"{}\":{pid}:{prio} S -> \"{}\":{pid}:{prio}",
            prev.escape_ascii(), next.escape_ascii()
        );
        prop_assert_eq!(read.dump(), vec![expected]);
    }
}
