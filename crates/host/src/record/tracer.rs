//! Where events come from: pages of tracefs, programs of BPF, or `perf`.
//!
//! Each of the three needs something else of the kernel and of this process's rights. Whoever asks
//! for none gets the first that is open, and is told why.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::bpf::{BpfTrace, lockdown};
use super::pages::Sink;
use super::{BUFFER_KB, EVENTS, LONG_RUN, LONG_RUN_NS, TRACE, Way};
use crate::error::{HostError, Result, io_error};
use crate::sys;
use crate::tracefs::TraceInstance;
use schedcast_trace::SocketEvent;

/// The trace of `perf` in a recording.
pub(super) const PERF_DATA: &str = "perf.data";
/// How long `perf` may take to answer a command, its start included.
const PERF_ANSWERS: Duration = Duration::from_secs(10);
/// How long it may take to write its end.
const PERF_ENDS: Duration = Duration::from_secs(30);

/// Starts with its events disabled and takes commands: read from standard input, answered on
/// standard output.
const BY_COMMAND: [&str; 4] = ["--control", "fd:0,1", "--delay", "-1"];
/// The complaint of a `perf` that is older than commands.
const UNKNOWN_OPTION: &str = "unknown option `control'";
/// The caveat of recordings by such a `perf`.
const UNSAID_BEGIN: &str = "this perf is too old to say when it begins (before 5.9), so that \
    events of the first milliseconds may be missing";

/// A trace while it is made.
pub(super) enum Tracer {
    Bpf(Box<BpfTrace>),
    /// The sink has files of the instance open and so ends first: a busy instance cannot be
    /// removed.
    Pages {
        sink: Sink,
        trace: TraceInstance,
    },
    Perf(Perf),
}

/// Summary of the trace.
pub(super) struct Traced {
    pub events: u64,
    pub bytes: u64,
    /// By CPU; empty where only the file tells.
    pub lost: Vec<u64>,
    /// Lost on a CPU that is not known.
    pub lost_elsewhere: u64,
    /// Name of the trace in the recording, and its format.
    pub name: &'static str,
    pub format: &'static str,
}

impl Traced {
    fn of_pages(events: u64, bytes: u64, lost: Vec<u64>, lost_elsewhere: u64) -> Traced {
        Traced {
            events,
            bytes,
            lost,
            lost_elsewhere,
            name: TRACE,
            format: "tracefs-raw",
        }
    }
}

impl Tracer {
    /// By the `wanted` way, else by the first that is open. Tells which it is, and why.
    pub(super) fn open(
        folder: &Path,
        instance: &str,
        wanted: Option<Way>,
        group: Option<&Path>,
    ) -> Result<(Self, Way, String)> {
        if let Some(way) = wanted {
            let tracer = Self::by(way, folder, instance, group)?;
            let why = tracer.with_caveat("it was asked for".to_owned());
            return Ok((tracer, way, why));
        }
        let mut closed: Vec<String> = Vec::new();
        for way in Way::ALL {
            match Self::by(way, folder, instance, group) {
                Ok(tracer) => {
                    let why = match closed.as_slice() {
                        [] => way.merit().to_owned(),
                        closed => closed.join("; "),
                    };
                    let why = tracer.with_caveat(why);
                    return Ok((tracer, way, why));
                }
                Err(error) if is_closed(&error) => closed.push(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        Err(HostError::unavailable(
            "recording",
            format!(
                "{}: run it as root, or with CAP_BPF and CAP_PERFMON",
                closed.join("; and ")
            ),
        ))
    }

    fn by(way: Way, folder: &Path, instance: &str, group: Option<&Path>) -> Result<Self> {
        match way {
            Way::Tracefs => match lockdown(Path::new("/")) {
                Some(why) => Err(HostError::unavailable("tracefs", why)),
                None => Self::pages(folder, instance),
            },
            Way::Bpf => Ok(Tracer::Bpf(Box::new(BpfTrace::open(folder, group)?))),
            Way::Perf => Ok(Tracer::Perf(Perf::find("perf".into(), folder)?)),
        }
    }

    /// The reason to record this way, with what a reader must know about its beginning.
    fn with_caveat(&self, why: String) -> String {
        match self {
            Tracer::Perf(perf) if !perf.acknowledges => format!("{why}; {UNSAID_BEGIN}"),
            _ => why,
        }
    }

    fn pages(folder: &Path, instance: &str) -> Result<Self> {
        let trace = TraceInstance::create(instance, BUFFER_KB, &EVENTS)?;
        trace.set(&format!("events/{LONG_RUN}/filter"), &long_run_filter())?;
        trace.set(&format!("events/{LONG_RUN}/enable"), "1")?;
        let sockets = of_sockets(&trace)?;
        let wanted = EVENTS.into_iter().chain([LONG_RUN]);
        let wanted: Vec<&str> = wanted.chain(sockets.iter().map(String::as_str)).collect();
        let sink = Sink::create(&folder.join(TRACE), &trace, &wanted)?;
        Ok(Tracer::Pages { trace, sink })
    }

    /// Starts what takes long to start, so that nothing lies between a look at the groups and the
    /// first event.
    pub(super) fn prepare(&mut self) -> Result<()> {
        match self {
            Tracer::Perf(perf) => perf.prepare(),
            Tracer::Pages { .. } | Tracer::Bpf(_) => Ok(()),
        }
    }

    pub(super) fn start(&mut self) -> Result<()> {
        match self {
            Tracer::Pages { trace, .. } => trace.start(),
            Tracer::Bpf(trace) => trace.start(),
            Tracer::Perf(perf) => perf.start(),
        }
    }

    /// Saves what there is.
    pub(super) fn drain(&mut self) -> Result<()> {
        match self {
            Tracer::Pages { sink, .. } => sink.drain(),
            Tracer::Bpf(trace) => trace.drain(),
            Tracer::Perf(perf) => perf.is_alive(),
        }
    }

    pub(super) fn stop(&mut self) -> Result<()> {
        match self {
            Tracer::Pages { trace, .. } => trace.stop(),
            Tracer::Bpf(trace) => {
                trace.stop();
                Ok(())
            }
            Tracer::Perf(perf) => perf.stop(),
        }
    }

    pub(super) fn finish(self) -> Result<Traced> {
        match self {
            Tracer::Pages { trace, sink } => {
                let lost = trace.lost_by_cpu()?;
                let (events, bytes) = sink.finish(&trace)?;
                Ok(Traced::of_pages(events, bytes, lost, 0))
            }
            Tracer::Bpf(trace) => {
                let all = trace.finish()?;
                Ok(Traced::of_pages(
                    all.events, all.bytes, all.lost, all.missed,
                ))
            }
            Tracer::Perf(perf) => perf.finish(),
        }
    }
}

/// Errors that another way of tracing may not have.
fn is_closed(error: &HostError) -> bool {
    matches!(
        error,
        HostError::NotPermitted { .. } | HostError::Unavailable { .. }
    )
}

/// `perf record` over all CPUs. It ends with this value.
pub(super) struct Perf {
    program: PathBuf,
    file: PathBuf,
    /// It takes the command to enable its events, and says when that is done (Linux 5.9).
    acknowledges: bool,
    running: Option<Running>,
}

/// A `perf` that runs.
struct Running {
    /// Its standard input takes commands, and stays open as long as it runs.
    child: Child,
    /// Its messages.
    words: File,
    /// Its answers to commands.
    answers: File,
}

impl Perf {
    /// Asks `program` whether it may see the scheduler's events, and whether it takes commands.
    fn find(program: PathBuf, folder: &Path) -> Result<Perf> {
        let tried = |more: &[&str]| -> std::result::Result<(), String> {
            let mut command = Command::new(&program);
            command
                .args(["record", "-q", "-a", "-o", "/dev/null"])
                .args(more);
            command.args(["-e", &perf_name(EVENTS[0]), "--", "true"]);
            let output = command.stdin(Stdio::null()).output();
            let output = output.map_err(|error| format!("perf cannot be started: {error}"))?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let mut lines = said.lines().map(str::trim);
            match output.status.success() {
                true => Ok(()),
                // `perf` looks for events in tracefs, and calls one that it may not see no event.
                false if said.contains("event syntax error") => Err(format!(
                    "perf finds no event {}: tracefs is not mounted, or only root may look into it",
                    EVENTS[0]
                )),
                false => Err(match lines.find(|line| !line.is_empty()) {
                    Some(reason) => format!("perf refuses: {reason}"),
                    None => "perf refuses: no reason given".to_owned(),
                }),
            }
        };
        let acknowledges = match tried(&BY_COMMAND) {
            Err(why) if why.contains(UNKNOWN_OPTION) => tried(&[]).map(|()| false),
            done => done.map(|()| true),
        };
        Ok(Perf {
            file: folder.join(PERF_DATA),
            acknowledges: acknowledges
                .map_err(|why| HostError::unavailable("recording with perf", why))?,
            program,
            running: None,
        })
    }

    /// Starts it where it takes commands, and waits until it does: its own start takes as long as
    /// several periods of a limit, which are not recorded.
    fn prepare(&mut self) -> Result<()> {
        match self.acknowledges {
            true => self.spawn().and_then(|()| self.command("disable")),
            false => Ok(()),
        }
    }

    /// Has its events enabled, and waits until they are.
    fn start(&mut self) -> Result<()> {
        if self.acknowledges {
            return self.command("enable");
        }
        self.spawn()?;
        let file = self.file.clone();
        self.wait_until(|| fs::metadata(&file).is_ok_and(|file| file.len() > 0))
    }

    fn spawn(&mut self) -> Result<()> {
        let fail = |error| io_error("starting perf for", &self.file, error);
        let [words, answers] = [sys::memory_file(), sys::memory_file()];
        let (words, answers) = (words.map_err(fail)?, answers.map_err(fail)?);
        let mut command = Command::new(&self.program);
        command.args(["record", "-a", "-k", "CLOCK_MONOTONIC", "-o"]);
        command.arg(&self.file);
        for event in EVENTS {
            command.args(["-e", &perf_name(event)]);
        }
        command.args(["-e", &perf_name(LONG_RUN), "--filter", &long_run_filter()]);
        if self.acknowledges {
            command.args(BY_COMMAND);
        }
        command
            .stdin(Stdio::piped())
            .stdout(answers.try_clone().map_err(fail)?)
            .stderr(words.try_clone().map_err(fail)?);
        // An earlier attempt's file would be taken for this one's beginning, and a link would be
        // followed.
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
        sys::end_with_parent(&mut command);
        let child = command.spawn().map_err(fail)?;
        self.running = Some(Running {
            child,
            words,
            answers,
        });
        Ok(())
    }

    /// Gives it a command and waits for the answer.
    fn command(&mut self, word: &str) -> Result<()> {
        let Some(Running { child, answers, .. }) = &mut self.running else {
            return Ok(());
        };
        let fail = |error| io_error("asking perf for", &self.file, error);
        let answers = answers.try_clone().map_err(fail)?;
        let length = move || answers.metadata().map_or(0, |file| file.len());
        let answered = length();
        if let Some(commands) = &mut child.stdin {
            let told = commands.write_all(format!("{word}\n").as_bytes());
            // One that has ended says why.
            told.or_else(|error| match error.kind() {
                io::ErrorKind::BrokenPipe => Ok(()),
                _ => Err(fail(error)),
            })?;
        }
        self.wait_until(|| length() > answered)
    }

    fn wait_until(&mut self, is_done: impl Fn() -> bool) -> Result<()> {
        let deadline = Instant::now() + PERF_ANSWERS;
        while !is_done() {
            self.is_alive()?;
            if Instant::now() > deadline {
                return Err(self.gave_up("it does not answer"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn is_alive(&mut self) -> Result<()> {
        let ended = match &mut self.running {
            Some(Running { child, .. }) => child.try_wait().ok().flatten().is_some(),
            None => true,
        };
        match ended {
            true => Err(self.gave_up("it ended")),
            false => Ok(()),
        }
    }

    fn gave_up(&mut self, why: &str) -> HostError {
        let said = self.said();
        HostError::unavailable("recording with perf", format!("{why}: {}", said.trim()))
    }

    /// Output that the tracer printed.
    fn said(&mut self) -> String {
        let mut text = String::new();
        if let Some(Running { words, .. }) = &mut self.running {
            let _ = words.rewind();
            let _ = words.read_to_string(&mut text);
        }
        text
    }

    /// Has its events disabled. One that takes no commands is asked to end, which disables them
    /// first; so is one that does not answer.
    fn stop(&mut self) -> Result<()> {
        if !self.acknowledges || self.command("disable").is_err() {
            self.end();
        }
        Ok(())
    }

    /// Asks it to end. The number of one that has ended may be another process's.
    fn end(&mut self) {
        if self.is_alive().is_ok()
            && let Some(Running { child, .. }) = &self.running
        {
            sys::terminate(child.id() as i32);
        }
    }

    /// Waits until its file is whole.
    fn wait(&mut self) -> Result<()> {
        self.end();
        let Some(Running { child, .. }) = &mut self.running else {
            return Ok(());
        };
        let deadline = Instant::now() + PERF_ENDS;
        while child.try_wait().ok().flatten().is_none() {
            if Instant::now() > deadline {
                return Err(self.gave_up("it does not end"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Traced> {
        self.wait()?;
        let events = samples(&self.said()).unwrap_or(0);
        let file = fs::metadata(&self.file);
        let file = file.map_err(|error| io_error("reading", &self.file, error))?;
        Ok(Traced {
            events,
            bytes: file.len(),
            lost: Vec::new(),
            lost_elsewhere: 0,
            name: PERF_DATA,
            format: "perf-data",
        })
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        if let Some(Running { child, .. }) = &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Switches on the events of sockets, as far as they are of use, if this kernel has all of them
/// (Linux 6.3).
fn of_sockets(trace: &TraceInstance) -> Result<Vec<String>> {
    let all = SocketEvent::ALL.map(|event| (event, event.place()));
    let is_there = |place: &String| trace.file(&format!("events/{place}")).exists();
    if !all.iter().all(|(_, place)| is_there(place)) {
        return Ok(Vec::new());
    }
    for (event, place) in &all {
        if let Some(filter) = event.filter() {
            trace.set(&format!("events/{place}/filter"), &filter)?;
        }
        trace.set(&format!("events/{place}/enable"), "1")?;
    }
    Ok(all.map(|(_, place)| place).into())
}

fn long_run_filter() -> String {
    format!("runtime > {LONG_RUN_NS}")
}

fn perf_name(event: &str) -> String {
    event.replace('/', ":")
}

/// The number in `[ perf record: Captured and wrote 1.5 MB perf.data (12345 samples) ]`.
fn samples(said: &str) -> Option<u64> {
    let (before, _) = said.split_once(" samples)")?;
    before.rsplit_once('(')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::assert_starts;

    #[test]
    fn perf_tells_how_many_events_it_wrote() {
        let said = "[ perf record: Woken up 1 times to write data ]\n\
                    [ perf record: Captured and wrote 1.5 MB x (12345 samples) ]\n";
        assert_eq!(samples(said), Some(12_345));
        assert_eq!(samples("nothing"), None);
        assert_eq!(perf_name("sched/sched_switch"), "sched:sched_switch");
    }

    /// A program in `folder` that does as this `perf` would, without looking at events.
    ///
    /// Another process writes it: a child that a test beside this one starts could hold the file
    /// open, and what is open for writing cannot be executed.
    fn pretended(folder: &Path, script: &str) -> PathBuf {
        let program = folder.join("perf");
        let write = "printf '#!/bin/sh\\ncd %s\\n%s\\n' \"$1\" \"$2\" > \"$0\" && chmod 755 \"$0\"";
        let written = Command::new("/bin/sh")
            .args(["-c", write])
            .args([program.as_os_str(), folder.as_os_str(), script.as_ref()])
            .status();
        assert!(written.unwrap().success());
        program
    }

    #[test]
    fn perf_has_begun_when_it_says_that_events_are_enabled() {
        let folder = tempfile::tempdir().unwrap();
        // Its file has bytes long before it takes the command.
        let program = pretended(
            folder.path(),
            "case \"$*\" in *true) exit;; esac\necho head > perf.data\nsleep 0.2\n\
             read command && echo \"ack of $command\"\n\
             read command && touch \"$command\" && echo \"ack of $command\"\nexec sleep 20",
        );
        let mut perf = Perf::find(program, folder.path()).unwrap();
        assert!(perf.acknowledges);
        perf.prepare().unwrap();
        assert!(!folder.path().join("enable").exists());
        perf.start().unwrap();
        assert!(folder.path().join("enable").exists());
    }

    #[test]
    fn a_perf_without_commands_begins_with_its_file_and_that_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let program = pretended(
            folder.path(),
            "case \"$*\" in *--control*) echo \"  Error: unknown option \\`control'\" >&2; exit 129;;\n\
             *true) exit;; esac\necho head > perf.data\nexec sleep 20",
        );
        let mut perf = Perf::find(program, folder.path()).unwrap();
        perf.prepare().unwrap();
        perf.start().unwrap();
        assert!(folder.path().join(PERF_DATA).exists());
        let why = Tracer::Perf(perf).with_caveat("it was asked for".to_owned());
        assert_starts(&why, "it was asked for; this perf is too old");
    }
}
