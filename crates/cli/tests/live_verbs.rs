//! `record`, `apply` and `undo` on the running kernel. Skips, saying why, where the host cannot do
//! it.

mod command;

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use command::{answer, schedcast, text};
use schedcast_base::assert_contains;
use schedcast_host::testing::group;
use schedcast_host::{CpuCgroup, CpuFile};

fn limits(group: &CpuCgroup) -> [String; 4] {
    use CpuFile::{CfsBurstUs, CfsPeriodUs, CfsQuotaUs, Shares};
    [CfsQuotaUs, CfsPeriodUs, CfsBurstUs, Shares].map(|file| group.read(file).unwrap())
}

#[test]
fn what_apply_writes_undo_takes_back() {
    let Some(group) = group("apply") else { return };
    group.apply("cpu.max", "50000 100000").unwrap();
    group.apply("cpu.max.burst", "10000").unwrap();
    let before = limits(&group);
    let journal = tempfile::tempdir().unwrap();
    let journal = journal.path().to_str().unwrap();
    let apply = |setting: &str, more: &[&str]| {
        let words = ["apply", "--cgroup", group.path(), "--journal", journal];
        schedcast(&[&words[..], &["--set", setting], more].concat())
    };
    let dry = apply("cpu.max=60000 100000", &["--dry-run"]);
    assert!(dry.status.success(), "{}", text(&dry.stderr));
    assert_eq!(limits(&group), before, "a dry run writes nothing");

    // The burst of 10 ms does not fit beside a quota of 8 ms: refused as a whole.
    let refused = apply("cpu.max=8000 40000", &[]);
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused.stdout));
    assert_eq!(limits(&group), before, "all or nothing");

    let applied = apply("cpu.max=8000 40000", &["--set", "cpu.max.burst=4000"]);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    assert!(text(&applied.stdout).contains("read back and verified"));
    assert_eq!(limits(&group)[..3], ["8000", "40000", "4000"]);
    let dry = apply("cpu.max=8000 40000", &["--dry-run"]);
    assert!(text(&dry.stdout).contains("has these settings already"));
    let again = apply("cpu.weight=300", &[]);
    assert!(again.status.success(), "{}", text(&again.stderr));

    let undone = schedcast(&["undo", "--cgroup", group.path(), "--journal", journal]);
    assert!(undone.status.success(), "{}", text(&undone.stderr));
    assert_eq!(limits(&group), before, "as before the first apply");
}

/// A group that was removed has nothing to be taken back; the other one needs no name.
#[test]
fn groups_that_are_gone_do_not_count_for_undo() {
    let (Some(here), Some(gone)) = (group("here"), group("gone")) else {
        return;
    };
    let journal = tempfile::tempdir().unwrap();
    let journal = journal.path().to_str().unwrap();
    for group in [&here, &gone] {
        let words = ["apply", "--cgroup", group.path(), "--journal", journal];
        let applied = schedcast(&[&words[..], &["--set", "cpu.max=60000"]].concat());
        assert!(applied.status.success(), "{}", text(&applied.stderr));
    }
    let path = gone.path().to_owned();
    drop(gone);
    let undone = schedcast(&["undo", "--journal", journal]);
    assert!(undone.status.success(), "{}", text(&undone.stderr));
    assert_contains(text(&undone.stdout), here.path());
    let refused = schedcast(&["undo", "--journal", journal]);
    assert_contains(text(&refused.stderr), &format!("what was written: {path}"));
    let forgotten = schedcast(&["undo", "--cgroup", &path, "--journal", journal]);
    assert_contains(text(&forgotten.stdout), "its journal is forgotten");
    let none = schedcast(&["undo", "--journal", journal]);
    assert_contains(text(&none.stderr), "nothing was applied");
}

#[test]
fn a_dry_run_is_refused_where_the_real_one_would_be() {
    let Some(group) = group("unentitled") else {
        return;
    };
    let apply = |more: &[&str]| {
        let words = ["apply", "--cgroup", group.path(), "--set", "cpu.max=60000"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedcast"));
        // The user nobody.
        command.args(words).args(more).uid(65534).output()
    };
    let (Ok(dry), Ok(real)) = (apply(&["--dry-run"]), apply(&[])) else {
        eprintln!("skipped: no other user can start the command here");
        return;
    };
    assert_contains(text(&dry.stderr), "needs root");
    assert_eq!(dry, real);
}

/// `kthreadd`, which no group but the root can have.
#[test]
fn a_process_of_the_root_group_is_no_target_of_a_recording() {
    let name = std::fs::read_to_string("/proc/2/comm").unwrap_or_default();
    if name != "kthreadd\n" || group("root").is_none() {
        eprintln!("skipped: the kernel's threads are not to be seen here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("r");
    let words = ["record", "--pid", "2", "--output", place.to_str().unwrap()];
    let refused = schedcast(&words);
    assert_eq!(refused.status.code(), Some(3));
    assert_contains(text(&refused.stderr), "process 2 is in the root group");
    assert!(!place.exists());
}

/// The advice began with 40 ms in 100 ms; the group has 150 ms now.
#[test]
fn an_advice_for_a_limit_that_was_changed_is_refused() {
    let Some(group) = group("changed") else {
        return;
    };
    group.apply("cpu.max", "150000 100000").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("advice.json");
    let option = |name: &str, quota_us: u64| serde_json::json!({"name": name, "quota_us": quota_us, "period_us": 100_000, "burst_us": 0});
    let advice = serde_json::json!({
        "schema": "schedcast.advice/1",
        "target": group.path(),
        "recommended": "quota 55ms",
        "options": [option("as recorded", 40_000), option("quota 55ms", 55_000)],
    });
    std::fs::write(&file, advice.to_string()).unwrap();
    let journal = folder.path().join("undo");
    let apply = |more: &[&str]| {
        let (file, journal) = (file.to_str().unwrap(), journal.to_str().unwrap());
        schedcast(&[&["apply", file, "--journal", journal][..], more].concat())
    };
    let refused = apply(&[]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert_contains(
        &said,
        ["150 ms in 100 ms", "40 ms in 100 ms", "--force-limit"],
    );
    assert_eq!(limits(&group)[0], "150000");
    let forced = apply(&["--force-limit"]);
    assert!(forced.status.success(), "{}", text(&forced.stderr));
    assert_eq!(limits(&group)[0], "55000");
    let twice = ["--set", "cpu.max=60000", "--set", "cpu.max=70000"];
    let twice = schedcast(&[&["apply", "--cgroup", group.path()][..], &twice].concat());
    assert_contains(text(&twice.stderr), "has `cpu.max` twice");
    let nothing = schedcast(&["apply"]);
    assert_contains(text(&nothing.stderr), "--set");
}

/// A folder with a blank is quoted in the next command.
#[test]
fn record_ends_with_the_exit_code_of_its_command() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("a b");
    let words = ["record", "-o", at.to_str().unwrap(), "--unprivileged", "--"];
    let recorded = schedcast(&[&words[..], &["sh", "-c", "exit 7"]].concat());
    let said = text(&recorded.stderr);
    if said.contains("cpuacct.usage") || said.contains("no cpu controller") {
        eprintln!("skipped: {said}");
        return;
    }
    assert_eq!(recorded.status.code(), Some(7), "{said}");
    let quoted = format!("schedcast counters '{}'", at.display());
    assert_contains(text(&recorded.stdout), &quoted);
}

#[test]
fn what_nobody_can_apply_is_refused_with_a_hint() {
    let Some(group) = group("wrong") else { return };
    let near = format!("{}x", group.path());
    let unknown = schedcast(&["apply", "--cgroup", &near, "--set", "cpu.max=5000"]);
    assert_eq!(unknown.status.code(), Some(3));
    assert!(
        text(&unknown.stderr).contains(group.path()),
        "{}",
        text(&unknown.stderr)
    );
    let key = schedcast(&["apply", "--cgroup", group.path(), "--set", "cpu.maxx=5000"]);
    assert_contains(text(&key.stderr), "cpu.max");
    assert_ne!(key.status.code(), Some(0));
}

#[test]
fn a_recorded_command_can_be_replayed() {
    let Some(group) = group("record") else { return };
    group.apply("cpu.max", "20000 100000").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("recording");
    let at = folder.to_str().unwrap();
    // A fifth of a second of computing in a shell: at a fifth of a CPU it is throttled in each of
    // ten periods.
    let job = "n=0; while [ $n -lt 300000 ]; do n=$((n+1)); done";
    let record = |at: &str| {
        let words = ["record", "-o", at, "--cgroup", group.path()];
        schedcast(&[&words[..], &["--", "sh", "-c", job]].concat())
    };
    let left_before = traces_without_recorder();
    let recorded = record(at);
    if text(&recorded.stderr).contains("tracing") {
        eprintln!("skipped: {}", text(&recorded.stderr));
        return;
    }
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let said = text(&recorded.stdout);
    for word in "events|overhead: |lost events: CPU 0: |next: schedcast what-if".split('|') {
        assert_contains(&said, word);
    }
    let left = traces_left_since(&left_before);
    assert_eq!(left, [""; 0], "trace buffers of this recorder");
    let over = record(at).status.code();
    assert_eq!(over, Some(3), "a recording is not written over");

    let line = format!("what-if {at} --seeds 2 --set cpu.max=max --json -");
    let json: serde_json::Value = serde_json::from_str(&answer(&line, &[])).unwrap();
    let throttled = |variant: usize| {
        let metric = format!("cgroup:{}/nr_throttled", group.path());
        let mean = &json["variants"][variant]["metrics"][&metric]["mean"];
        mean.as_f64().unwrap()
    };
    assert!(throttled(0) >= 1.0, "the recorded limit throttles");
    assert_eq!(throttled(1), 0.0, "no limit does not");
}

/// An event loop that takes 0.1 ms for a request.
const ECHO: &str = "
import selectors, socket, sys
ready = selectors.DefaultSelector()
for _ in (server := socket.create_server(('127.0.0.1', int(sys.argv[1])))), 0:
    ready.register(server.accept()[0], selectors.EVENT_READ)
while True:
    for key, _ in ready.select():
        if not (data := key.fileobj.recv(64)):
            sys.exit()
        sum(range(4000))
        key.fileobj.send(data)
";

/// Two requests are sent one behind the other: the second finds the service awake and wakes nobody.
#[test]
fn sockets_tell_requests_that_wake_nobody() {
    let Some(group) = group("sockets") else {
        return;
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let client = std::thread::spawn(move || {
        let connect = || loop {
            if let Ok(stream) = std::net::TcpStream::connect(("127.0.0.1", port)) {
                stream.set_nodelay(true).unwrap();
                return stream;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        let mut streams = [connect(), connect()];
        let mut turns = 0;
        let turn = |streams: &mut [std::net::TcpStream]| -> std::io::Result<()> {
            let mut reply = [0; 8];
            let mut all = streams.iter_mut();
            all.try_for_each(|one| one.write_all(b"question"))?;
            let mut all = streams.iter_mut();
            all.try_for_each(|one| one.read_exact(&mut reply))
        };
        while turn(&mut streams).is_ok() {
            turns += 1;
            std::thread::sleep(std::time::Duration::from_millis(4));
        }
        turns
    });
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("recording");
    let at = folder.to_str().unwrap();
    let (cgroup, port) = (group.path(), port.to_string());
    let line = format!("record -o {at} --cgroup {cgroup} --duration 2s --by tracefs -- python3");
    let words: Vec<&str> = line.split(' ').chain(["-c", ECHO, &port]).collect();
    let recorded = schedcast(&words);
    if !recorded.status.success() {
        eprintln!("skipped: {}", text(&recorded.stderr));
        return;
    }
    let turns = client.join().unwrap();
    if !folder.join("trace/events/sock").exists() {
        eprintln!("skipped: this kernel has no events of sockets (Linux 6.3 has)");
        return;
    }
    let json = answer(&format!("what-if {at} --seeds 2 --json -"), &[]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let metrics = &json["variants"][0]["metrics"];
    // Where another python3 runs, the name has the group behind it.
    let is_wanted = |(name, _): &(&String, &serde_json::Value)| {
        name.starts_with("python3") && name.ends_with("/request_latency.count")
    };
    let figure = metrics.as_object().unwrap().iter().find(is_wanted);
    let finished = figure.and_then(|(_, figure)| figure["mean"].as_f64());
    let finished = finished.unwrap_or_else(|| panic!("no requests are known: {metrics}"));
    // Some turns are before the recording began.
    assert!(
        turns > 100 && (1.7..=2.0).contains(&(finished / f64::from(turns))),
        "{finished} of {turns} turns"
    );
}

/// Trace buffers whose recorder is gone: of a machine that was switched off in a recording, for
/// instance.
fn traces_without_recorder() -> Vec<String> {
    let instances = Path::new("/sys/kernel/tracing/instances");
    let entries = std::fs::read_dir(instances).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter(|name| {
            // Others on this machine may record too: only those whose recorder is gone count.
            let rest = name.strip_prefix("schedcast-record-");
            let pid = rest.and_then(|rest| rest.split('-').next());
            pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
        })
        .collect()
}

/// Those that were not there `before`.
fn traces_left_since(before: &[String]) -> Vec<String> {
    let mut left = traces_without_recorder();
    left.retain(|name| !before.contains(name));
    left
}

#[test]
fn a_login_that_is_cut_off_ends_the_recording_and_keeps_it() {
    let Some(group) = group("hangup") else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("recording");
    let at = folder.to_str().unwrap();
    let line = format!("record -o {at} --cgroup {} -- sleep 60", group.path());
    // A recorder that is started by `nohup` goes on; these tests may have been started by it.
    let mut recorder = Command::new("env")
        .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_schedcast")])
        .args(line.split(' '))
        .spawn()
        .unwrap();
    let runs = || {
        let procs = std::fs::read_to_string(group.dir().join("cgroup.procs")).unwrap();
        let name = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/comm"));
        procs
            .lines()
            .any(|pid| name(pid).is_ok_and(|name| name == "sleep\n"))
    };
    let begin = std::time::Instant::now();
    while !runs() {
        if let Some(status) = recorder.try_wait().unwrap() {
            eprintln!("skipped: nothing can be recorded here ({status})");
            return;
        }
        assert!(begin.elapsed().as_secs() < 60);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = recorder.id().to_string();
    let mut kill = Command::new("sh");
    let sent = kill.args(["-c", "kill -HUP $0", &pid]).status();
    assert!(sent.unwrap().success());
    assert!(recorder.wait().unwrap().success());
    assert!(folder.join("recording.json").exists());
    assert!(!runs(), "the command ends with the recorder");
}

/// `CAP_BPF`, by its bit.
const BPF: u64 = 1 << 39;

#[test]
fn a_recorder_goes_on_without_the_rights_that_opened_its_trace() {
    let Some(_root) = group("rights") else { return };
    let own_tracefs = "umount -l /sys/kernel/tracing 2> /dev/null; umount -l /sys/kernel/debug; ";
    for (way, before, kept) in [
        ("tracefs", "", 0),
        ("tracefs", own_tracefs, 0),
        ("bpf", "", BPF),
    ] {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("recording");
        let left_before = traces_without_recorder();
        let script = format!("{before}exec \"$0\" record --by {way} --duration 2s -o \"$1\"");
        let mut recorder = Command::new("unshare")
            .args(["--mount", "sh", "-c", &script])
            .arg(env!("CARGO_BIN_EXE_schedcast"))
            .arg(&folder)
            .env("TMPDIR", place.path())
            .spawn()
            .unwrap();
        let status = format!("/proc/{}/status", recorder.id());
        let mut last = String::new();
        let ended = loop {
            last = std::fs::read_to_string(&status).unwrap_or(last);
            let field = |name: &str| last.lines().find_map(|line| line.strip_prefix(name));
            let has = |name, rights: u64| {
                field(name).map(str::trim) == Some(format!("{rights:016x}").as_str())
            };
            let given_up = has("CapEff:", kept) && has("CapPrm:", kept) && has("CapInh:", 0);
            if given_up && field("NoNewPrivs:").map(str::trim) == Some("1") {
                break None;
            }
            if let Some(status) = recorder.try_wait().unwrap() {
                break Some(status);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        match ended {
            Some(status) if !status.success() => {
                eprintln!("skipped: {way} cannot record here");
                continue;
            }
            Some(_) => panic!("{way}: rights were kept to the end: {last}"),
            None => assert!(recorder.wait().unwrap().success(), "{way}"),
        }
        assert!(folder.join("recording.json").exists(), "{way}");
        let left = std::fs::read_dir(place.path()).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["recording"], "{way}");
        assert_eq!(traces_left_since(&left_before), [""; 0], "{way}");
    }
}
