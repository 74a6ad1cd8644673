//! The commands that are tortured, the state before each, and what must hold after it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use schedcast_host::{CgroupVersion, CpuCgroup, CpuHierarchy, sys};
use schedcast_trace::Recording;

use crate::tracer::{self, Ending, Run};

/// Rooms that this process has made: each has a group of its own.
static ROOMS: AtomicU32 = AtomicU32::new(0);

/// The program under test: `FAULTS_PROGRAM`, such as a static one from a package, or the one just
/// built.
fn program() -> OsString {
    let built = env!("CARGO_BIN_EXE_schedcast").into();
    std::env::var_os("FAULTS_PROGRAM").unwrap_or(built)
}

/// Text of an output before.
const OLD: &str = "what was there before";
/// Files of version 1 that a limit is made of.
const FILES: [&str; 5] = [
    "cpu.cfs_period_us",
    "cpu.cfs_quota_us",
    "cpu.cfs_burst_us",
    "cpu.shares",
    "cpu.idle",
];
/// The limit before: 50 of 100 ms, no burst, weight 100.
const BEFORE: [&str; 5] = ["100000", "50000", "0", "1024", "0"];
/// The limit that is applied: 20 of 50 ms, 10 ms of burst, weight 50.
const AFTER: [&str; 5] = ["50000", "20000", "10000", "512", "0"];
const SETTINGS: [&str; 3] = [
    "cpu.max=20000 50000",
    "cpu.max.burst=10000",
    "cpu.shares=512",
];
/// One point of a few milliseconds.
const ONE: &str = r#"
[machine]
cpus = 1
[cgroup."/test"]
"cpu.max" = "50000 100000"
[[program]]
run = "cyclictest -t 1 -i 20000"
cgroup = "/test"
[run]
seeds = 1
duration = "100ms"
"#;
/// Four of it.
const GRID: &str = r#"
[sweep]
'cgroup."/test"."cpu.max"' = ["30000", "70000"]
"kernel.hz" = [250, 1000]
"#;
/// A result of another machine.
const FIGURES: &str = r#"
[machine]
preset = "generic-8"
[[figure]]
run = "perf bench sched pipe -T -l 200"
set = ["machine.cpus=1"]
metric = "perf-bench-pipe/time"
measured = [0.00212, 0.00208, 0.00215]
constant = "cost.context_switch_thread_ns"
"#;
const SIMULATED: &str = "--cpus 1 --seeds 1 --duration 20ms -- cyclictest -t1";

/// Where one command is tortured.
pub(crate) struct Room {
    _directory: tempfile::TempDir,
    pub folder: PathBuf,
    group: Option<CpuCgroup>,
    /// Client of a server; none where nothing is served.
    client: Mutex<Option<Client>>,
}

/// A command with what must hold before and after it.
pub(crate) struct Scenario {
    pub verb: &'static str,
    pub needs_group: bool,
    /// Signals that may end it; those without a handler act as SIGKILL does.
    pub signals: Vec<i32>,
    pub prepare: fn(&Room),
    pub command: fn(&Room) -> Command,
    pub check: fn(&Room, &Run) -> Result<(), String>,
}

impl Room {
    /// A folder, and a group where the command needs one; why it cannot be had otherwise.
    pub(crate) fn new(needs_group: bool) -> Result<Room, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let folder = directory
            .path()
            .canonicalize()
            .map_err(|error| error.to_string())?;
        let v1 = CpuHierarchy::detect().is_ok_and(|tree| tree.version() == CgroupVersion::V1);
        if needs_group && !(sys::is_root() && v1) {
            return Err("not root, or no cgroup v1 cpu controller".to_owned());
        }
        let number = ROOMS.fetch_add(1, Ordering::Relaxed);
        let name = format!("schedcast-faults-{}-{number}", std::process::id());
        let group = needs_group
            .then(|| CpuCgroup::create("/", &name))
            .transpose();
        for (name, text) in [
            ("grid.toml", &*format!("{ONE}{GRID}")),
            ("one.toml", ONE),
            ("figures.toml", FIGURES),
        ] {
            fs::write(folder.join(name), text).map_err(|error| error.to_string())?;
        }
        for name in ["mount", "tmp"] {
            fs::create_dir(folder.join(name)).map_err(|error| error.to_string())?;
        }
        Ok(Room {
            _directory: directory,
            folder,
            group: group.map_err(|error| error.to_string())?,
            client: Mutex::default(),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn group(&self) -> &CpuCgroup {
        self.group.as_ref().expect("the scenario needs one")
    }

    fn limit(&self) -> [String; 5] {
        FILES.map(|file| {
            let text = fs::read_to_string(self.group().dir().join(file));
            text.unwrap().trim().to_owned()
        })
    }

    /// Writes a limit without the code under test: no quota first, so that any order is allowed.
    fn set_limit(&self, limit: [&str; 5]) {
        let write = |file: &str, value: &str| {
            fs::write(self.group().dir().join(file), value).unwrap();
        };
        write(FILES[2], "0");
        write(FILES[1], "-1");
        for (file, value) in FILES.iter().zip(limit) {
            write(file, value);
        }
    }

    fn schedcast(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(words).current_dir(&self.folder);
        command
            .env("TMPDIR", self.path("tmp"))
            .env("RAYON_NUM_THREADS", "1");
        command
    }

    /// A command line of words without blanks.
    fn typed(&self, line: &str) -> Command {
        self.schedcast(&line.split(' ').collect::<Vec<_>>())
    }

    fn apply(&self) -> Command {
        let group = self.group().path();
        let mut command = self.typed(&format!("apply --cgroup {group} --journal undo"));
        for setting in SETTINGS {
            command.args(["--set", setting]);
        }
        command
    }

    fn undo(&self) -> Command {
        self.schedcast(&["undo", "--cgroup", self.group().path(), "--journal", "undo"])
    }

    fn journals(&self) -> usize {
        let names = names(&self.path("undo"));
        names.iter().filter(|name| name.ends_with(".json")).count()
    }

    /// Removes what a run made.
    fn clear(&self, names: &[&str]) {
        for name in names {
            let path = self.path(name);
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect()
}

fn must<T: Into<String>>(is: bool, or: impl FnOnce() -> T) -> Result<(), String> {
    if is { Ok(()) } else { Err(or().into()) }
}

fn succeeds(mut command: Command, what: &str) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    must(output.status.success(), || format!("{what} failed: {said}"))
}

/// The limit is the old one, or a journal leads back to it.
fn leads_back(room: &Room) -> Result<(), String> {
    let limit = room.limit();
    if room.journals() == 0 {
        return must(limit == BEFORE, || {
            format!("no journal leads back from {limit:?}")
        });
    }
    succeeds(room.undo(), "the undo after it")?;
    let back = room.limit();
    must(back == BEFORE, || format!("undo gave {back:?}"))
}

/// Old, or new with a journal, or whatever with a journal that leads back.
fn applied(room: &Room, run: &Run) -> Result<(), String> {
    let limit = room.limit();
    let said = run.stderr.trim();
    if run.ending == Ending::Exited(0) {
        must(limit == AFTER, || {
            format!("success was told, and the limit is {limit:?}")
        })?;
    }
    if matches!(run.ending, Ending::Exited(code) if code != 0) {
        must(limit == BEFORE || said.contains("undo"), || {
            format!("the error does not say that the limit is {limit:?}: {said}")
        })?;
    }
    leads_back(room)
}

/// Old, or a journal leads there.
fn undone(room: &Room, run: &Run) -> Result<(), String> {
    let limit = room.limit();
    if run.ending == Ending::Exited(0) {
        must(limit == BEFORE && room.journals() == 0, || {
            format!("success was told, and the limit is {limit:?}")
        })?;
    }
    leads_back(room)
}

fn recorded(room: &Room, run: &Run) -> Result<(), String> {
    let mine = format!("schedcast-record-{}-", run.process);
    let mut mounts = tracer::tracefs_mounts();
    // Where tracefs is closed `perf` records, and mounts a tracefs of its own for good.
    tracer::unmount_all(&mounts).map_err(|error| error.to_string())?;
    mounts.retain(|mount| Path::new(mount).starts_with(&room.folder));
    must(mounts.is_empty(), || format!("left the mount {mounts:?}"))?;
    let buffers = tracer::trace_buffers(&room.path("mount")).map_err(|error| error.to_string())?;
    let left = buffers.iter().find(|name| name.starts_with(&mine));
    must(left.is_none(), || format!("left the trace buffer {left:?}"))?;
    let files = names(&room.path("tmp"));
    must(files.is_empty(), || {
        format!("left {files:?} in the folder for temporary files")
    })?;
    let folder = room.path("recording");
    let whole = folder.join("recording.json").exists();
    if run.ending == Ending::Exited(0) {
        must(whole, || "success was told, and there is no recording")?;
    }
    match Recording::open(&folder) {
        Ok(_) => must(whole, || "half a recording was read"),
        Err(error) => must(!whole, || {
            format!("a recording that cannot be read: {error}")
        }),
    }
}

/// Every output is the old file or a whole new one, and the next run removes what a killed one
/// left.
fn written_whole(room: &Room, run: &Run, outputs: &[(&str, &str)]) -> Result<(), String> {
    let fresh = |name: &String| name.starts_with(".schedcast-");
    for (name, end) in outputs {
        let text = fs::read(room.path(name)).map_err(|error| format!("{name}: {error}"))?;
        let is_old = text == OLD.as_bytes();
        must(is_old || text.ends_with(end.as_bytes()), || {
            format!("half of {name}")
        })?;
        if run.ending == Ending::Exited(0) {
            must(!is_old, || {
                format!("success was told, and {name} is the old one")
            })?;
        }
    }
    if matches!(run.ending, Ending::Exited(_)) {
        // What may not be removed stays.
        let stays = run.calls.len() == 1 && run.calls[0].number == libc::SYS_unlink;
        let is_left = names(&room.folder).iter().any(fresh);
        return must(stays || !is_left, || "a file in the making is left");
    }
    if names(&room.folder).iter().any(fresh) {
        fs::write(room.path("other"), "").unwrap();
        schedcast_base::fresh::write(&room.path("other"), "x").unwrap();
    }
    Ok(())
}

const OUTPUTS: [(&str, &str); 3] = [
    ("out.json", "\n}\n"),
    ("out.html", "</html>\n"),
    ("out.trace", ""),
];

fn swept(room: &Room, run: &Run) -> Result<(), String> {
    let outputs = ["results.csv", "results.json"];
    let read = |folder: &str| outputs.map(|name| fs::read(room.path(folder).join(name)).ok());
    if run.ending == Ending::Exited(0) {
        must(
            read("sweep") == read("whole"),
            || "success was told, and results differ",
        )?;
    }
    for (half, whole) in read("sweep").into_iter().zip(read("whole")) {
        must(half.is_none() || half == whole, || "half of a result")?;
    }
    succeeds(sweep(room, "sweep"), "the sweep after it")?;
    must(
        read("sweep") == read("whole"),
        || "resumed, and results differ",
    )
}

fn sweep(room: &Room, folder: &str) -> Command {
    room.typed(&format!("sweep grid.toml --workers 1 -q -o {folder}"))
}

/// A client of `serve`: it asks until it is answered a second time, and then ends the server.
struct Client {
    /// The server has ended.
    is_over: Arc<AtomicBool>,
    /// Whether it was answered twice.
    asks: JoinHandle<bool>,
}

/// Waits between looks at what a server does.
const LOOK_EVERY: Duration = Duration::from_millis(2);

impl Client {
    /// Of a server that is about to start in `folder`, where its output names its address.
    fn start(folder: PathBuf) -> Client {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let asks = std::thread::spawn(move || {
            let mut answers = 0;
            while !over.load(Ordering::Relaxed) && answers < 2 {
                answers += usize::from(is_answered(&folder));
                std::thread::sleep(LOOK_EVERY);
            }
            end_all_in(&folder);
            answers == 2
        });
        Client { is_over, asks }
    }
}

/// Whether the server that prints its address into `folder` answers.
fn is_answered(folder: &Path) -> bool {
    let said = fs::read_to_string(folder.join(tracer::STDOUT)).unwrap_or_default();
    let address = said
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'));
    let Some((address, _)) = address else {
        return false;
    };
    let ask = || -> io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text)
    };
    ask().is_ok_and(|text| text.starts_with("HTTP/1.1 200 ") && text.ends_with("</html>\n"))
}

/// Asks every process that works in `folder` to end.
fn end_all_in(folder: &Path) {
    for pid in names(Path::new("/proc")) {
        let works_in = fs::read_link(format!("/proc/{pid}/cwd"));
        if works_in.is_ok_and(|place| place == folder) {
            let _ = Command::new("kill").args(["-TERM", &pid]).status();
        }
    }
}

/// The server answered although a call failed, or said why it ended.
fn served(room: &Room, run: &Run) -> Result<(), String> {
    let client = room
        .client
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let client = client.expect("there is a client of each server");
    client.is_over.store(true, Ordering::Relaxed);
    let is_answered = client.asks.join().map_err(|_| "the client panicked")?;
    must(
        is_answered || run.ending != Ending::Exited(0),
        || "it ended well without an answer",
    )
}

/// Every command, in the order of the page.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario = |verb, prepare, command, check| Scenario {
        verb,
        needs_group: false,
        signals: vec![libc::SIGKILL],
        prepare,
        command,
        check,
    };
    let in_group = |verb, prepare, command, check| Scenario {
        needs_group: true,
        ..scenario(verb, prepare, command, check)
    };
    vec![
        in_group("apply", unlimited, Room::apply, applied),
        in_group(
            "undo",
            |room| {
                unlimited(room);
                succeeds(room.apply(), "apply").unwrap();
            },
            Room::undo,
            undone,
        ),
        Scenario {
            signals: vec![libc::SIGKILL, libc::SIGTERM, libc::SIGHUP],
            ..in_group(
                "record",
                |room| room.clear(&["recording"]),
                |room| {
                    let group = room.group().path();
                    room.typed(&format!(
                        "record -o recording --cgroup {group} -- sleep 0.02"
                    ))
                },
                recorded,
            )
        },
        in_group(
            "run --on host",
            |_| {},
            |room| {
                let mut command = room.typed("run --on host --cgroup /few --seeds 1");
                command.args(["--set", "cpu.max=50000 100000", "--", "sh", "-c"]);
                command.arg("echo Time: 1");
                command
            },
            |_, run| {
                let path = format!("/schedcast-{}", run.process);
                let is_gone = CpuCgroup::open(&path).is_err();
                must(is_gone, || format!("left the group {path}"))
            },
        ),
        scenario(
            "sweep",
            |room| {
                room.clear(&["sweep"]);
                if !room.path("whole").exists() {
                    succeeds(sweep(room, "whole"), "sweep").unwrap();
                }
            },
            |room| sweep(room, "sweep"),
            swept,
        ),
        scenario(
            "run --json --report --trace",
            |room| {
                for (name, _) in OUTPUTS {
                    fs::write(room.path(name), OLD).unwrap();
                }
            },
            |room| {
                let outputs = "--json out.json --report out.html --trace out.trace";
                room.typed(&format!("run {outputs} {SIMULATED}"))
            },
            |room, run| written_whole(room, run, &OUTPUTS),
        ),
        scenario(
            "serve",
            |room| {
                room.clear(&[tracer::STDOUT]);
                let client = Client::start(room.folder.clone());
                *room.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client);
            },
            |room| room.typed("serve one.toml --port 0 --seeds 1 -q"),
            served,
        ),
        scenario(
            "calibrate --figures",
            |room| fs::write(room.path("machine.toml"), OLD).unwrap(),
            |room| room.typed("calibrate --figures figures.toml -o machine.toml -q"),
            |room, run| written_whole(room, run, &[("machine.toml", "\n")]),
        ),
    ]
}

/// The limit before, and no journal of another.
fn unlimited(room: &Room) {
    room.clear(&["undo"]);
    room.set_limit(BEFORE);
}
