//! Recordings of the running kernel, read back. Skips, saying why, where the host cannot do it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schedcast_base::assert_contains;
use schedcast_host::CpuCgroup;
use schedcast_host::record::{Request, Way, has_begun, record};
use schedcast_host::testing::group;
use schedcast_trace::{Event, EventKind, Recording, Switch};

const HOG: &str = env!("CARGO_BIN_EXE_schedcast-hog");

/// One recording at a time, so that what is left behind is known to be of the test that looks.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_throttled_job_is_recorded_and_read_back() {
    let _turn = turn();
    let Some(group) = group("job") else { return };
    group.apply("cpu.max", "20000 100000").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("job");
    let request = Request {
        folder: folder.clone(),
        cgroup: Some(group.path().to_owned()),
        duration: Some(Duration::from_secs(20)),
        command: words(&format!("{HOG} job --cpu-ms 12 --every-ms 50 --count 20")),
        ..Request::default()
    };
    let report = record(&request, &AtomicBool::new(false)).unwrap();
    assert_eq!(report.exit_code, Some(0));
    let lost: u64 = report.lost.iter().sum();
    assert!(report.events > 100 && lost == 0, "{report:?}");
    assert!(report.own_cpu_ns > 0 && report.trace_bytes > 0);
    let recording = Recording::open(&folder).unwrap();
    let notes = recording.notes();
    assert_eq!(recording.counts.events, report.events, "{notes:?}");
    let before = recording.cgroups_before.as_ref().unwrap();
    let described = before.get(group.path()).unwrap();
    assert_eq!(described.files["cpu.cfs_quota_us"].trim(), "20000");
    // The stopped command is there from the beginning.
    assert_eq!(described.tasks.len(), 1);
    let again = record(&request, &AtomicBool::new(false)).unwrap_err();
    assert_contains(&again, "there is a recording already");
}

#[test]
fn a_stop_ends_it_and_nothing_is_left_behind() {
    let _turn = turn();
    let Some(_group) = group("stop") else { return };
    let directory = tempfile::tempdir().unwrap();
    let request = Request {
        folder: directory.path().join("all"),
        command: words("sleep 60"),
        ..Request::default()
    };
    let report = record(&request, &AtomicBool::new(true)).unwrap();
    assert_eq!(report.exit_code, None);
    assert!(report.duration < Duration::from_secs(30));
    let instances = std::fs::read_dir("/sys/kernel/tracing/instances");
    let left = instances.into_iter().flatten().flatten();
    let own = format!("schedcast-record-{}-", std::process::id());
    let mut names = left.map(|entry| entry.file_name().to_string_lossy().into_owned());
    assert_eq!(names.find(|name| name.starts_with(&own)), None);
}

#[test]
fn perf_records_where_tracefs_is_closed() {
    let _turn = turn();
    let Some(_group) = group("perf") else { return };
    let perf = std::process::Command::new("perf").arg("--version").output();
    if perf.is_err() {
        eprintln!("skipped: no perf");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let request = Request {
        folder: directory.path().join("all"),
        command: words("sleep 0.2"),
        way: Some(Way::Perf),
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

/// Waits until a recorder takes events.
fn wait_for_begin(folder: &Path, has_ended: impl Fn() -> bool) {
    while !has_begun(folder) && !has_ended() {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Between the begin of the files and that of the trace.
    std::thread::sleep(Duration::from_millis(800));
}

/// Recording by BPF, or `None` where BPF is not available here.
fn by_bpf(request: &Request) -> Option<Recording> {
    match record(request, &AtomicBool::new(false)) {
        Err(error) if error.to_string().contains("BPF is not available") => {
            eprintln!("skipped: {error}");
            None
        }
        report => {
            let report = report.unwrap();
            assert_eq!(report.way, Way::Bpf);
            assert_eq!(report.lost.iter().sum::<u64>() + report.lost_elsewhere, 0);
            let recording = Recording::open(&request.folder).unwrap();
            assert_eq!(recording.counts.events, report.events);
            Some(recording)
        }
    }
}

fn job(cpu_ms: &str, count: &str) -> Vec<String> {
    words(&format!(
        "{HOG} job --cpu-ms {cpu_ms} --every-ms 20 --count {count}"
    ))
}

/// Words of a command line without blanks in them.
fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// The thread that executed the hog.
fn hog(recording: &Recording) -> i32 {
    let name = &HOG.as_bytes()[..HOG.len().min(63)];
    let file = recording.comms.find(name).unwrap();
    let executed = recording.events.iter().find_map(|event| match event.kind {
        EventKind::Exec(exec) if exec.filename == file => Some(exec.pid),
        _ => None,
    });
    executed.unwrap()
}

/// Every event about this thread since it executed its program, without its time.
fn about(recording: &Recording, thread: i32) -> Vec<String> {
    let name = |comm| recording.comms.display(comm).into_owned();
    let told = |event: &Event| {
        let (cpu, level) = (event.cpu, event.context.level());
        Some(match event.kind {
            EventKind::Switch(Switch {
                prev,
                prev_state,
                next,
            }) if prev.pid == thread || next.pid == thread => {
                let (left, came) = (prev.pid, next.pid);
                format!("{cpu} switch {left} {prev_state:?} {came} {}", next.prio)
            }
            EventKind::Waking(woken) if woken.task.pid == thread => {
                format!("{cpu} {level:?} waking on {}", woken.target_cpu)
            }
            EventKind::Wakeup(woken) if woken.task.pid == thread => {
                format!(
                    "{cpu} {level:?} wakeup {} {}, pending: {}",
                    name(woken.task.comm),
                    woken.target_cpu,
                    event.context.need_resched()
                )
            }
            EventKind::Migrate(moves) if moves.task.pid == thread => {
                format!("{cpu} migrate to {}", moves.dest_cpu)
            }
            EventKind::Exit(task) if task.pid == thread => format!("exit {}", name(task.comm)),
            _ => return None,
        })
    };
    let is_exec = |kind: &EventKind| matches!(kind, EventKind::Exec(exec) if exec.pid == thread);
    let executed = recording
        .events
        .iter()
        .rposition(|event| is_exec(&event.kind));
    let behind = &recording.events[executed.unwrap()..];
    behind.iter().filter_map(told).collect()
}

/// The CPUs of which a recording has at least one switch from the idle task.
fn cpus_that_leave_idle(recording: &Recording) -> Vec<String> {
    let from_idle =
        |event: &&Event| matches!(event.kind, EventKind::Switch(switch) if switch.prev.pid == 0);
    let events = recording.events.iter().filter(from_idle);
    let mut cpus: Vec<String> = events.map(|event| event.cpu.to_string()).collect();
    cpus.sort();
    cpus.dedup();
    cpus
}

#[test]
fn bpf_records_of_a_job_what_tracefs_records() {
    let _turn = turn();
    let Some(_group) = group("both") else { return };
    let directory = tempfile::tempdir().unwrap();
    let request = |name: &str, way: Way| Request {
        folder: directory.path().join(name),
        way: Some(way),
        ..Request::default()
    };
    let (around, stop) = (request("tracefs", Way::Tracefs), AtomicBool::new(false));
    let inside = Request {
        command: job("4", "20"),
        ..request("bpf", Way::Bpf)
    };
    let (traced, bpf) = std::thread::scope(|scope| {
        let traced = scope.spawn(|| record(&around, &stop));
        wait_for_begin(&around.folder, || traced.is_finished());
        let bpf = by_bpf(&inside);
        stop.store(true, Ordering::Relaxed);
        (traced.join().unwrap(), bpf)
    });
    let Some(bpf) = bpf else { return };
    assert!(traced.unwrap().lost.iter().all(|lost| *lost == 0));
    let traced = Recording::open(&around.folder).unwrap();
    let thread = hog(&bpf);
    let told = about(&bpf, thread);
    assert!(told.len() > 40, "20 sleeps and wakeups: {told:#?}");
    let by_tracefs = about(&traced, thread);
    // What tells of a thread while a guest's own agent runs may be missing: some hide their context
    // from BPF. A guest that was copied while a CPU idled may hide that CPU's idle task from
    // tracefs for good.
    let shown = cpus_that_leave_idle(&traced);
    let mut rest = by_tracefs.iter();
    let unknown: Vec<_> = told
        .iter()
        .filter(|one| {
            let hidden = one.split_once(" switch 0 ").map(|(cpu, _)| cpu);
            hidden.is_none_or(|cpu| shown.iter().any(|other| other == cpu))
        })
        .filter(|one| !rest.any(|other| other == *one))
        .collect();
    assert_eq!(unknown, [""; 0], "{told:#?} in {by_tracefs:#?}");
    let (bpf, tracefs) = (told.len(), by_tracefs.len());
    assert!(bpf * 20 >= tracefs * 19, "{bpf} of {tracefs}");
}

/// How often a job in the group was woken, and how often a stranger beside it was run and woken, by
/// what BPF kept.
fn member_and_stranger(group: &CpuCgroup) -> Option<(usize, usize, usize)> {
    let directory = tempfile::tempdir().unwrap();
    let mut stranger = std::process::Command::new(HOG)
        .args(&job("1", "10000")[1..])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // Started by the test itself, before the recording.
    std::thread::sleep(Duration::from_millis(50));
    let recording = by_bpf(&Request {
        folder: directory.path().join("only"),
        cgroup: Some(group.path().to_owned()),
        command: job("2", "20"),
        way: Some(Way::Bpf),
        ..Request::default()
    });
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    let recording = recording?;
    let count = |wanted: &dyn Fn(&EventKind) -> bool| {
        let events = recording.events.iter();
        events.filter(|event| wanted(&event.kind)).count()
    };
    let woken = |thread: i32| {
        count(&|kind| matches!(kind, EventKind::Waking(woken) if woken.task.pid == thread))
    };
    let (member, stranger) = (hog(&recording), stranger.id() as i32);
    let run =
        count(&|kind| matches!(kind, EventKind::Switch(switch) if switch.next.pid == stranger));
    Some((woken(member), run, woken(stranger)))
}

#[test]
fn bpf_leaves_out_the_wakeups_of_threads_that_have_nothing_to_do_with_the_group() {
    let _turn = turn();
    let Some(group) = group("only") else { return };
    // A soft interrupt that wakes somebody while the stranger runs makes it a partner, so that more
    // is kept: on a busy host that comes now and then.
    let mut kept = Vec::new();
    for _ in 0..5 {
        let Some((member, run, stranger)) = member_and_stranger(&group) else {
            return;
        };
        assert!(member >= 1, "{member} wakings of the member");
        kept.push((run, stranger));
        if run > 2 && stranger == 0 {
            return;
        }
    }
    panic!("runs and kept wakings of a stranger: {kept:?}");
}

#[test]
fn a_group_that_goes_away_ends_the_recording() {
    let _turn = turn();
    let Some(group) = group("gone") else { return };
    let directory = tempfile::tempdir().unwrap();
    let request = Request {
        folder: directory.path().join("gone"),
        cgroup: Some(group.path().to_owned()),
        duration: Some(Duration::from_secs(20)),
        ..Request::default()
    };
    let path = group.path().to_owned();
    let report = std::thread::scope(|scope| {
        let recorder = scope.spawn(|| record(&request, &AtomicBool::new(false)));
        wait_for_begin(&request.folder, || recorder.is_finished());
        drop(group);
        recorder.join().unwrap().unwrap()
    });
    assert!(report.is_group_gone && report.duration < Duration::from_secs(15));
    let recording = Recording::open(&request.folder).unwrap();
    let before = recording.cgroups_before.unwrap();
    assert!(before.get(&path).is_some());
}
