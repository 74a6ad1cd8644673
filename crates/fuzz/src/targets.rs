//! Readers and verbs that the fuzzer feeds.

use std::ffi::OsString;
use std::io::sink;
use std::path::Path;

use schedcast_advise::slo;
use schedcast_base::cpu_max::{CpuMax, parse_burst_us};
use schedcast_base::error::Source;
use schedcast_base::limits;
use schedcast_lab::experiment::{self, document};
use schedcast_lab::simulator::Simulator;
use schedcast_present::serve::Choice;
use schedcast_sim::machine::Machine;
use schedcast_trace::{EventSource, FtraceTextReader, Recording, open_trace};
use schedcast_workload::{replay, rtapp};

/// A function of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name on the command line, and of its folder of inputs.
    pub name: &'static str,
    /// Function that gets the drawn bytes.
    pub run: fn(&[u8]),
    /// Whether inputs are text, of which lines and numbers are varied.
    pub text: bool,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    text("trace-text", trace_text),
    binary("trace-file", trace_file),
    text("recording", recording),
    text("experiment", experiment),
    text("machine", machine),
    text("verb", verb),
    text("command", command),
    text("setting", setting),
    text("promise", promise),
    text("rt-app", rt_app),
    text("counters", counters),
    text("limits", limit_files),
    text("choice", choice),
];

const fn text(name: &'static str, run: fn(&[u8])) -> Target {
    Target {
        name,
        run,
        text: true,
    }
}

const fn binary(name: &'static str, run: fn(&[u8])) -> Target {
    Target {
        name,
        run,
        text: false,
    }
}

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Separates the files of an input that has several.
const NEXT_FILE: &str = "\n=== next file ===\n";

/// Reads everything that a source has.
fn drain(source: &mut dyn EventSource) {
    while let Ok(Some(_)) = source.next_item() {}
}

fn trace_text(bytes: &[u8]) {
    drain(&mut FtraceTextReader::new(Path::new("t"), bytes));
}

/// A file in memory, where the machine has one.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

fn trace_file(bytes: &[u8]) {
    let folder = scratch();
    let path = folder.path().join("trace");
    std::fs::write(&path, bytes).unwrap();
    if let Ok(mut source) = open_trace(&path) {
        drain(&mut *source);
    }
}

/// Text of which what is not UTF-8 is replaced.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A recording's folder: `recording.json`, `cgroups.json`, the trace, `requests.csv` and
/// `measured.json`, each left out where it is empty. Its activity is inferred.
fn recording(bytes: &[u8]) {
    let text = lossy(bytes);
    let names = [
        "recording.json",
        "cgroups.json",
        "trace",
        "requests.csv",
        "measured.json",
    ];
    let folder = scratch();
    for (name, part) in names.iter().zip(text.split(NEXT_FILE)) {
        if !part.is_empty() {
            std::fs::write(folder.path().join(name), part).unwrap();
        }
    }
    if let Ok(recording) = Recording::open(folder.path()) {
        let _ = recording.notes();
        let options = replay::InferOptions {
            allow_lost_events: true,
            ..replay::InferOptions::default()
        };
        let _ = replay::infer(&recording, &options);
    }
}

fn experiment(bytes: &[u8]) {
    let _ = experiment::read_text("exp.toml", lossy(bytes));
}

fn machine(bytes: &[u8]) {
    let _ = Machine::parse("machine.toml", &lossy(bytes));
}

/// Runs a command line of the program in this process. Nothing here writes a file or leaves the
/// simulator.
fn schedcast(words: &[&str]) -> u8 {
    let words = std::iter::once("schedcast").chain(words.iter().copied());
    let words = words.map(OsString::from);
    schedcast_cli::run(words, &Simulator::new(), &mut sink(), &mut sink())
}

/// How long a fuzzed world runs: long enough for a limit's first period to end, short enough for
/// many.
const LENGTH: &str = "--duration=2ms";

/// The whole way of `compare`: an experiment is read, built, simulated and printed.
fn verb(bytes: &[u8]) {
    let folder = scratch();
    let path = folder.path().join("exp.toml");
    std::fs::write(&path, bytes).unwrap();
    let path = path.to_str().unwrap();
    schedcast(&["compare", path, "--seeds=1", LENGTH, "--format=json"]);
}

/// A benchmark's command line.
fn command(bytes: &[u8]) {
    let text = lossy(bytes);
    let text = text.replace('\0', " ");
    let mut words = vec!["run", "--seeds=1", LENGTH, "--"];
    words.extend(text.split_whitespace());
    schedcast(&words);
}

/// A setting of a variant.
fn setting(bytes: &[u8]) {
    let text = lossy(bytes);
    let _ = document::parse_setting(&Source::of_command_line("--set", text.as_str()), Some("/a"));
    let _ = document::parse_setting(&Source::of_command_line("--set", text.as_str()), None);
}

/// A promise.
fn promise(bytes: &[u8]) {
    let scope = slo::Scope {
        threads: Some("server"),
        latency: Some("request_latency"),
        cgroup: Some("/a"),
    };
    let _ = slo::Slo::parse(&lossy(bytes), scope);
}

fn rt_app(bytes: &[u8]) {
    let _ = rtapp::parse("rt-app.json", bytes);
}

/// Counters as a file.
fn counters(bytes: &[u8]) {
    let folder = scratch();
    let path = folder.path().join("counters.json");
    std::fs::write(&path, bytes).unwrap();
    let path = path.to_str().unwrap();
    schedcast(&["counters", path, "--limit", "cpu.max=50000 100000"]);
}

fn limit_files(bytes: &[u8]) {
    let text = lossy(bytes);
    let _ = CpuMax::parse(&text);
    let _ = parse_burst_us(&text);
    let _ = limits::parse_cfs_quota_us(&text);
    let _ = limits::parse_weight(&text);
    let _ = limits::parse_shares(&text);
    let _ = limits::parse_idle(&text);
}

fn choice(bytes: &[u8]) {
    let _ = Choice::parse(&lossy(bytes));
}
