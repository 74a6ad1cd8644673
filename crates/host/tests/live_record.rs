//! Recordings of the running kernel, read back. Skips, saying why, where the host cannot do it.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schedcast_host::record::{Request, record};
use schedcast_host::{CgroupVersion, CpuCgroup, CpuHierarchy, sys};
use schedcast_trace::Recording;

const HOG: &str = env!("CARGO_BIN_EXE_schedcast-hog");

/// One recording at a time, so that what is left behind is known to be of the test that looks.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn group(name: &str) -> Option<CpuCgroup> {
    let v1 = CpuHierarchy::detect().is_ok_and(|tree| tree.version() == CgroupVersion::V1);
    if !sys::is_root() || !v1 {
        eprintln!("skipped: not root, or no cgroup v1 cpu controller");
        return None;
    }
    let name = format!("schedcast-record-{name}-{}", std::process::id());
    Some(CpuCgroup::create("/", &name).unwrap())
}

#[test]
fn a_throttled_job_is_recorded_and_read_back() {
    let _turn = turn();
    let Some(group) = group("job") else { return };
    group.apply("cpu.max", "20000 100000").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("job");
    let words = [
        HOG,
        "job",
        "--cpu-ms",
        "12",
        "--every-ms",
        "50",
        "--count",
        "20",
    ];
    let request = Request {
        folder: folder.clone(),
        cgroup: Some(group.path().to_owned()),
        duration: Some(Duration::from_secs(20)),
        command: words.map(str::to_owned).to_vec(),
        perf: false,
    };
    let report = record(&request, &AtomicBool::new(false)).unwrap();
    assert_eq!(report.exit_code, Some(0));
    assert!(
        report.events > 100 && report.lost.iter().sum::<u64>() == 0,
        "{report:?}"
    );
    assert!(report.own_cpu_ns > 0 && report.trace_bytes > 0);
    let recording = Recording::open(&folder).unwrap();
    assert_eq!(
        recording.counts.events,
        report.events,
        "{:?}",
        recording.notes()
    );
    let before = recording.cgroups_before.as_ref().unwrap();
    let (_, described) = before
        .iter()
        .find(|(path, _)| *path == group.path())
        .unwrap();
    assert_eq!(described.files["cpu.cfs_quota_us"].trim(), "20000");
    assert_eq!(
        described.tasks.len(),
        1,
        "the stopped command is there from the beginning"
    );
    let again = record(&request, &AtomicBool::new(false)).unwrap_err();
    assert!(
        again.to_string().contains("there is a recording already"),
        "{again}"
    );
}

#[test]
fn a_stop_ends_it_and_nothing_is_left_behind() {
    let _turn = turn();
    let Some(_group) = group("stop") else { return };
    let directory = tempfile::tempdir().unwrap();
    let request = Request {
        folder: directory.path().join("all"),
        command: ["sleep".to_owned(), "60".to_owned()].to_vec(),
        ..Request::default()
    };
    let report = record(&request, &AtomicBool::new(true)).unwrap();
    assert_eq!(report.exit_code, None);
    assert!(report.duration < Duration::from_secs(30));
    let instances = std::fs::read_dir("/sys/kernel/tracing/instances");
    let left = instances
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok());
    let own = format!("schedcast-record-{}-", std::process::id());
    let mine = |name: &str| name.starts_with(&own);
    let count = left
        .filter(|entry| mine(&entry.file_name().to_string_lossy()))
        .count();
    assert_eq!(count, 0, "trace buffers are left");
}

#[test]
fn perf_records_where_tracefs_is_closed() {
    let _turn = turn();
    let Some(_group) = group("perf") else { return };
    if std::process::Command::new("perf")
        .arg("--version")
        .output()
        .is_err()
    {
        eprintln!("skipped: no perf");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let request = Request {
        folder: directory.path().join("all"),
        command: ["sleep".to_owned(), "0.2".to_owned()].to_vec(),
        perf: true,
        ..Request::default()
    };
    let report = match record(&request, &AtomicBool::new(false)) {
        Err(error) if error.to_string().contains("perf refuses") => {
            eprintln!("skipped: {error}");
            return;
        }
        report => report.unwrap(),
    };
    assert_eq!(report.exit_code, Some(0));
    let recording = Recording::open(&request.folder).unwrap();
    assert_eq!(recording.counts.events, report.events);
    assert!(recording.comms.find(b"sleep").is_some(), "{report:?}");
}
