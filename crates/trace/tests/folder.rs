//! Folders in which one thing is wrong: the error says which file, where, and what could have stood
//! there.

mod common;

use schedcast_base::rows;
use schedcast_base::{assert_contains, assert_ends};
use schedcast_trace::{ErrorKind, Recording};

const META: &str = r#"{
 "kernel": "6.18.44",
 "hz": 250,
 "preempt": "none",
 "cpus": 2,
 "llc": [[0, 1]],
 "trace": "trace.txt",
 "trace_format": "ftrace-text",
 "trace_clock": "mono",
 "events": 2,
 "start_s": 1.0,
 "end_s": 2.5,
 "requests": "requests.csv"
}
"#;

const TRACE: &str = "  a-1 [000] d..2. 1.000000: sched_wakeup: comm=b pid=2 prio=120 target_cpu=001\n  \
                     a-1 [001] d..2. 1.500000: sched_wakeup: comm=b pid=2 prio=120 target_cpu=001\n";

const CGROUPS: &str = r#"{
 "before": {
  "/": {"cpu.shares": "1024", "tasks": [1]},
  "/pg": {"cpu.max": "50000 100000", "cpu.max.burst": "0", "tasks": [2, 3]}
 }
}
"#;

const REQUESTS: &str = "client,scheduled_us,sent_us,replied_us\n0,1000000,1000100,1000200\n";

const MEASURED: &str = r#"{
 "kernel": "6.18.44",
 "seconds": 29.5,
 "how": "three times",
 "settings": [
  {"name": "a", "quota_us": 50000, "period_us": 100000, "burst_us": 0,
   "nr_periods": {"median": 2.0, "min": 1, "max": 3, "samples": [1, 2, 3]}}
 ]
}
"#;

/// The files of a folder in which nothing is wrong.
const FILES: [(&str, &str); 5] = [
    ("recording.json", META),
    ("trace.txt", TRACE),
    ("cgroups.json", CGROUPS),
    ("requests.csv", REQUESTS),
    ("measured.json", MEASURED),
];

/// Opens a folder in which `file` has `from` replaced by `to`.
fn open_with(file: &str, from: &str, to: &str) -> Result<Recording, String> {
    let text = FILES.iter().find(|(name, _)| *name == file);
    let text = text.map_or("", |(_, text)| text);
    assert!(text.contains(from), "{file} has no {from}");
    open_as(file, text.replacen(from, to, 1).as_bytes())
}

/// Opens a folder in which `file` is `bytes`.
fn open_as(file: &str, bytes: &[u8]) -> Result<Recording, String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in FILES {
        let content = if name == file { bytes } else { text.as_bytes() };
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    Recording::open(folder.path()).map_err(|error| {
        error
            .to_string()
            .replace(&format!("{}/", folder.path().display()), "")
    })
}

fn refusal(file: &str, from: &str, to: &str) -> String {
    open_with(file, from, to)
        .err()
        .unwrap_or_else(|| panic!("{file} with `{to}` was read"))
}

#[test]
fn the_folder_is_fine_as_it_is() {
    let recording = open_with("", "", "").unwrap();
    assert_eq!(recording.events.len(), 2);
    assert_eq!(
        recording.meta.unknown(),
        [
            "title",
            "autogroup",
            "smt",
            "sockets",
            "virtual",
            "cgroup_version",
            "lost_events",
            "steal_ratio"
        ]
    );
    assert_eq!(
        recording.cgroups_before.unwrap().get("/pg").unwrap().tasks,
        [2, 3]
    );
    assert!(recording.cgroups_after.is_none());
    assert_eq!(recording.requests.unwrap().len(), 1);
    assert_eq!(
        recording.measured.unwrap().settings[0].figures["nr_periods"].median,
        2.0
    );
}

#[test]
fn a_span_in_which_a_period_ended_is_read_to_the_microsecond() {
    let with = |end: &str| {
        let line = format!(r#""period_ends": {{"/pg": {end}}}, "events""#);
        open_with("recording.json", r#""events""#, &line)
    };
    let meta = with(r#"{"after_s": 1.25, "before_s": 1.2500004}"#)
        .unwrap()
        .meta;
    let end = meta.period_ends["/pg"];
    assert_eq!(
        (end.after_ns, end.before_ns),
        (1_250_000_000, 1_250_000_000)
    );
    let refusal = |end: &str| with(end).err().unwrap();
    let reversed = refusal(r#"{"after_s": 2.0, "before_s": 1.0}"#);
    let expected = "expected `before_s` at or after `after_s` in `period_ends` of `/pg`";
    assert!(reversed.contains(expected), "{reversed}");
    let missing = refusal(r#"{"after_s": 2.0}"#);
    assert!(missing.contains("missing field `before_s`"), "{missing}");
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (file, cases) in rows::sections(include_str!("refusals.txt")) {
        for case in cases {
            let [from, to, message] = rows::cells(case);
            let from = from.replace("\\n", "\n");
            assert_eq!(refusal(file, &from, to), message, "{to}");
        }
    }
    let unlimited = open_with("measured.json", "50000", "-1")
        .unwrap()
        .measured
        .unwrap();
    assert_eq!(unlimited.settings[0].limits.quota_us, None);
}

#[test]
fn oddities_across_files_become_notes() {
    let notes = |file, from, to| open_with(file, from, to).unwrap().notes();
    assert_eq!(notes("", "", ""), Vec::<String>::new());
    assert_eq!(
        notes("recording.json", "\"events\": 2", "\"events\": 9"),
        ["`recording.json` tells of 9 events, the trace has 2"]
    );
    assert_eq!(
        notes("recording.json", "\"events\": 2", "\"lost_events\": 7"),
        ["`recording.json` tells of 7 lost events"]
    );
    for format in ["perf-data", "tracefs-raw"] {
        let notes = notes("recording.json", "ftrace-text", format);
        assert_contains(&notes[0], "no events of sockets: requests that wake nobody");
    }
    assert_eq!(
        notes("trace.txt", "[001]", "[002]"),
        ["CPU 2 has events, but the machine is said to have 2 CPUs"]
    );
}

#[test]
fn concatenated_per_cpu_files_are_put_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.txt");
    let line = |cpu: u32, millis: u32| {
        format!(
            "  a-1 [{cpu:03}] d..2. 1.{millis:03}000: sched_wakeup: comm=b pid={millis} prio=120 target_cpu=001\n"
        )
    };
    let text = [
        line(0, 1),
        line(0, 3),
        line(0, 5),
        line(1, 2),
        line(1, 3),
        line(1, 4),
    ]
    .concat();
    std::fs::write(&path, text).unwrap();
    let recording = Recording::open(&path).unwrap();
    let order: Vec<_> = recording
        .events
        .iter()
        .map(|event| (event.time_ns / 1_000_000 - 1000, event.cpu))
        .collect();
    assert_eq!(
        order,
        [(1, 0), (2, 1), (3, 0), (3, 1), (4, 1), (5, 0)],
        "ties stay in the file's order"
    );
    assert_eq!(recording.counts.backwards.count, 1);
    assert!(
        recording
            .notes()
            .contains(&"events were put in order of time".to_owned())
    );
}

#[test]
fn a_folder_without_recording_json() {
    let folder = tempfile::tempdir().unwrap();
    let error = Recording::open(folder.path()).err().unwrap();
    assert_eq!(error.kind, ErrorKind::Io);
    assert_eq!(error.file, folder.path());
    assert_ends(&error, "found no recording.json in it");
}

/// As nobody a folder of mode 700 is such a case; root may look into all, but not along a loop.
#[test]
fn a_folder_that_hides_its_files_is_not_said_to_lack_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording.json");
    std::os::unix::fs::symlink("recording.json", &path).unwrap();
    let error = Recording::open(folder.path()).err().unwrap();
    assert_eq!(
        (error.kind, error.file.as_path()),
        (ErrorKind::Io, path.as_path())
    );
    assert!(!error.to_string().contains("found no"), "{error}");
}

/// Cut anywhere, or with a bit or a number that is another: an error that says something, or a
/// recording that can be used.
#[test]
fn damage_is_told() {
    for (file, text) in FILES {
        let bytes = text.as_bytes();
        let cuts = (0..bytes.len()).step_by(5).map(|at| bytes[..at].to_vec());
        let flips = (0..bytes.len()).step_by(5).map(|at| {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= 1 << (at % 8);
            bytes
        });
        let digits = (0..bytes.len())
            .step_by(3)
            .filter(|at| bytes[*at].is_ascii_digit());
        let numbers = digits.flat_map(|at| {
            ["-1", "1e308", "18446744073709551615", "1e-9"]
                .map(|number| [&bytes[..at], number.as_bytes(), &bytes[at + 1..]].concat())
        });
        for bytes in cuts.chain(flips).chain(numbers) {
            match open_as(file, &bytes) {
                Ok(recording) => {
                    let (start_ns, end_ns) = recording.span_ns();
                    assert!(start_ns <= end_ns && recording.cpus() > 0);
                    let _ = recording.notes();
                    for (_, group) in recording.cgroups_before.iter().flat_map(|tree| tree.iter()) {
                        let _ = (group.bandwidth(), group.stat(), group.weight());
                    }
                }
                Err(error) => assert!(error.len() > 20 && !error.contains("panic"), "{error}"),
            }
        }
    }
}
