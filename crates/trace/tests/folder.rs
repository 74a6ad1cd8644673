//! Folders in which one thing is wrong: the error says which file, where, and what could have stood
//! there.

mod common;

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
fn recording_json() {
    for (from, to, message) in [
        (
            r#""events""#,
            r#""evnts""#,
            "recording.json:10:8: unknown key `evnts`; did you mean `events`?",
        ),
        (
            r#""none""#,
            r#""ful""#,
            "recording.json:4:17: unknown preemption model `ful`; did you mean `full`?",
        ),
        (
            r#""mono""#,
            r#""counter""#,
            "recording.json:9:25: unknown trace clock `counter`; known: local, global, perf, mono, mono_raw, boot, tai",
        ),
        (
            r#""ftrace-text""#,
            r#""trace.dat""#,
            "recording.json:8:28: unknown trace format `trace.dat`; did you mean `trace-dat`?",
        ),
        (
            "250",
            "0",
            "recording.json:3:8: expected ticks per second from 1 to 10000, found 0",
        ),
        (
            "250",
            "\"250\"",
            "recording.json:3:12: invalid type: string \"250\", expected u32",
        ),
        (
            "\"cpus\": 2",
            "\"cpus\": 2, \"cpus\": 3",
            "recording.json:5:18: duplicate field `cpus`",
        ),
        (
            "\"cpus\": 2",
            "\"cpus\": 4000000000",
            "recording.json:5:19: expected a number of CPUs from 1 to 65536, found 4000000000",
        ),
        (
            "\"cpus\": 2",
            "\"cpus\": 1",
            "recording.json: `llc` names CPU 1, but `cpus` is 1",
        ),
        (
            "\"cpus\": 2",
            "\"cpus\": 2, \"isolated\": [1, 2]",
            "recording.json: `isolated` names CPU 2, but `cpus` is 2",
        ),
        (
            "[0, 1]",
            "[0, 0]",
            "recording.json: `llc` names CPU 0 twice",
        ),
        (
            "2.5",
            "0.5",
            "recording.json: expected `end_s` at or after `start_s`",
        ),
        (
            "2.5",
            "-1",
            "recording.json:12:12: expected seconds from 0 to 1000000000, found -1",
        ),
        (
            "\"trace.txt\"",
            "\"../trace.txt\"",
            "recording.json:7:24: expected the name of a file in this folder, found `../trace.txt`",
        ),
        (
            "\"trace.txt\"",
            "null",
            "recording.json: expected the key `trace`, the name of the trace file; of counters alone `schedcast counters` is asked",
        ),
        (
            "\"trace.txt\"",
            "\"gone.txt\"",
            "gone.txt: No such file or directory (os error 2)",
        ),
        (
            "\"requests.csv\"\n}",
            "",
            "recording.json:14:0: EOF while parsing a value",
        ),
    ] {
        assert_eq!(refusal("recording.json", from, to), message, "{to}");
    }
}

#[test]
fn cgroups_json() {
    for (from, to, message) in [
        (
            "before",
            "befor",
            "cgroups.json:2:8: unknown key `befor`; did you mean `before`?",
        ),
        (
            "cpu.max.burst",
            "cpu.max.brust",
            "cgroups.json:4:52: unknown cgroup file `cpu.max.brust`; did you mean `cpu.max.burst`?",
        ),
        (
            "50000 100000",
            "50000",
            "cgroups.json:4:28: `cpu.max`: expected `QUOTA PERIOD`, found `50000`",
        ),
        (
            "1024",
            "many",
            "cgroups.json:3:28: `cpu.shares`: expected a number, found `many`",
        ),
        (
            "\"/pg\"",
            "\"pg\"",
            "cgroups.json:4:6: expected a cgroup's path such as `/` or `/a/b`, found `pg`",
        ),
        (
            "\"/pg\"",
            "\"/a/pg\"",
            "cgroups.json:5:2: cgroup `/a/pg` is there, but not its parent `/a`",
        ),
        (
            "\"/pg\"",
            "\"/\"",
            "cgroups.json:4:5: cgroup `/` is there twice",
        ),
        (
            ", \"tasks\": [1]",
            "",
            "cgroups.json:3:29: missing field `tasks`",
        ),
    ] {
        assert_eq!(refusal("cgroups.json", from, to), message, "{to}");
    }
}

#[test]
fn measured_json() {
    for (from, to, message) in [
        (
            "nr_periods",
            "nr_period",
            "measured.json:7:14: unknown key `nr_period`; did you mean `nr_periods`?",
        ),
        (
            "burst_us",
            "brust_us",
            "measured.json:6:66: unknown key `brust_us`; did you mean `burst_us`?",
        ),
        (
            "\"min\": 1",
            "\"min\": 2",
            "measured.json:7:75: expected `min` and `max` to be those of the samples, and `median` between them",
        ),
        (
            "50000",
            "-7",
            "measured.json:6:30: expected a quota in µs, or -1 for none, found -7",
        ),
        (
            "\"name\": \"a\", ",
            "",
            "measured.json:7:75: missing field `name`",
        ),
    ] {
        assert_eq!(refusal("measured.json", from, to), message, "{to}");
    }
    let unlimited = open_with("measured.json", "50000", "-1")
        .unwrap()
        .measured
        .unwrap();
    assert_eq!(unlimited.settings[0].quota_us, None);
}

#[test]
fn requests_csv_and_trace() {
    assert_eq!(
        refusal("requests.csv", "1000200", "soon"),
        "requests.csv:2:19: expected a number, found `soon`"
    );
    let message = refusal("trace.txt", "pid=2", "ptd=2");
    assert_eq!(
        message,
        "trace.txt:1:48: expected the task's name, then ` pid=`, found `b ptd=2 prio=120 target_cpu=001`"
    );
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
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(error.file(), folder.path());
    assert!(
        error.to_string().ends_with("found no recording.json in it"),
        "{error}"
    );
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
