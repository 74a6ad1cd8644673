//! Where events come from: pages of tracefs, programs of BPF, or `perf`.
//!
//! Each of the three needs something else of the kernel and of this process's rights. Whoever asks
//! for none gets the first that is open, and is told why.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::bpf::{BpfTrace, lockdown};
use super::pages::Sink;
use super::{BUFFER_KB, EVENTS, LONG_RUN, LONG_RUN_NS, TRACE, Way};
use crate::error::{HostError, Result, io_error};
use crate::sys;
use crate::tracefs::TraceInstance;

/// The trace of `perf` in a recording.
pub(super) const PERF_DATA: &str = "perf.data";
/// How long `perf` may take to begin.
const PERF_BEGINS: Duration = Duration::from_secs(10);
/// How long it may take to write its end.
const PERF_ENDS: Duration = Duration::from_secs(30);

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
    pub fn open(
        folder: &Path,
        instance: &str,
        wanted: Option<Way>,
        group: Option<&Path>,
    ) -> Result<(Self, Way, String)> {
        if let Some(way) = wanted {
            let tracer = Self::by(way, folder, instance, group)?;
            return Ok((tracer, way, "it was asked for".to_owned()));
        }
        let mut closed: Vec<String> = Vec::new();
        for way in Way::IN_ORDER {
            match Self::by(way, folder, instance, group) {
                Ok(tracer) if closed.is_empty() => {
                    return Ok((tracer, way, way.merit().to_owned()));
                }
                Ok(tracer) => return Ok((tracer, way, closed.join("; "))),
                Err(error) if is_closed(&error) => closed.push(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        Err(HostError::Unavailable {
            what: "recording",
            why: format!(
                "{}: run it as root, or with CAP_BPF and CAP_PERFMON",
                closed.join("; and ")
            ),
        })
    }

    fn by(way: Way, folder: &Path, instance: &str, group: Option<&Path>) -> Result<Self> {
        match way {
            Way::Tracefs => match lockdown(Path::new("/")) {
                Some(why) => Err(HostError::Unavailable {
                    what: "tracefs",
                    why: why.to_owned(),
                }),
                None => Self::pages(folder, instance),
            },
            Way::Bpf => Ok(Tracer::Bpf(Box::new(BpfTrace::open(folder, group)?))),
            Way::Perf => {
                Perf::check().map_err(|why| HostError::Unavailable {
                    what: "recording with perf",
                    why,
                })?;
                Ok(Tracer::Perf(Perf {
                    file: folder.join(PERF_DATA),
                    running: None,
                }))
            }
        }
    }

    fn pages(folder: &Path, instance: &str) -> Result<Self> {
        let trace = TraceInstance::create(instance, BUFFER_KB, &EVENTS)?;
        trace.set(&format!("events/{LONG_RUN}/filter"), &long_run_filter())?;
        trace.set(&format!("events/{LONG_RUN}/enable"), "1")?;
        let wanted: Vec<&str> = EVENTS.into_iter().chain([LONG_RUN]).collect();
        let sink = Sink::create(&folder.join(TRACE), &trace, &wanted)?;
        Ok(Tracer::Pages { trace, sink })
    }

    pub fn start(&mut self) -> Result<()> {
        match self {
            Tracer::Pages { trace, .. } => trace.start(),
            Tracer::Bpf(trace) => trace.start(),
            Tracer::Perf(perf) => perf.start(),
        }
    }

    /// Saves what there is.
    pub fn drain(&mut self) -> Result<()> {
        match self {
            Tracer::Pages { sink, .. } => sink.drain(),
            Tracer::Bpf(trace) => trace.drain(),
            Tracer::Perf(perf) => perf.is_alive(),
        }
    }

    pub fn stop(&mut self) -> Result<()> {
        match self {
            Tracer::Pages { trace, .. } => trace.stop(),
            Tracer::Bpf(trace) => {
                trace.stop();
                Ok(())
            }
            Tracer::Perf(perf) => perf.stop(),
        }
    }

    pub fn finish(self) -> Result<Traced> {
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
    file: PathBuf,
    running: Option<(Child, File)>,
}

impl Perf {
    /// Whether `perf` may see the scheduler's events, by asking it.
    fn check() -> std::result::Result<(), String> {
        let mut command = Command::new("perf");
        command.args(["record", "-q", "-a", "-o", "/dev/null"]);
        command.args(["-e", &perf_name(EVENTS[0]), "--", "true"]);
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("perf cannot be started: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.success() {
            true => Ok(()),
            false => Err(format!(
                "perf refuses: {}",
                said.lines()
                    .map(str::trim)
                    .find(|line| !line.is_empty())
                    .unwrap_or("no reason given")
            )),
        }
    }

    fn start(&mut self) -> Result<()> {
        let fail = |error| io_error("starting perf for", &self.file, error);
        let words = sys::memory_file().map_err(fail)?;
        let mut command = Command::new("perf");
        command.args(["record", "-a", "-k", "CLOCK_MONOTONIC", "-o"]);
        command.arg(&self.file);
        for event in EVENTS {
            command.args(["-e", &perf_name(event)]);
        }
        command.args(["-e", &perf_name(LONG_RUN), "--filter", &long_run_filter()]);
        let said = words.try_clone().map_err(fail)?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said);
        // An earlier attempt's file would be taken for this one's beginning, and a link would be
        // followed.
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
        sys::end_with_parent(&mut command);
        let child = command.spawn().map_err(fail)?;
        self.running = Some((child, words));
        let deadline = Instant::now() + PERF_BEGINS;
        while fs::metadata(&self.file).map_or(0, |file| file.len()) == 0 {
            self.is_alive()?;
            if Instant::now() > deadline {
                return Err(self.gave_up("it does not begin"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn is_alive(&mut self) -> Result<()> {
        let ended = match &mut self.running {
            Some((child, _)) => child.try_wait().ok().flatten().is_some(),
            None => true,
        };
        match ended {
            true => Err(self.gave_up("it ended")),
            false => Ok(()),
        }
    }

    fn gave_up(&mut self, why: &str) -> HostError {
        let said = self.said();
        HostError::Unavailable {
            what: "recording with perf",
            why: format!("{why}: {}", said.trim()),
        }
    }

    /// Output that the tracer printed.
    fn said(&mut self) -> String {
        let mut text = String::new();
        if let Some((_, words)) = &mut self.running {
            use std::io::Seek;
            let _ = words.rewind();
            let _ = words.read_to_string(&mut text);
        }
        text
    }

    /// Asks it to end and waits until its file is whole.
    fn stop(&mut self) -> Result<()> {
        let Some((child, _)) = &mut self.running else {
            return Ok(());
        };
        sys::terminate(child.id() as i32);
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
        if let Some((child, _)) = &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
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

    #[test]
    fn perf_tells_how_many_events_it_wrote() {
        let said = "[ perf record: Woken up 1 times to write data ]\n\
                    [ perf record: Captured and wrote 1.5 MB x (12345 samples) ]\n";
        assert_eq!(samples(said), Some(12_345));
        assert_eq!(samples("nothing"), None);
        assert_eq!(perf_name("sched/sched_switch"), "sched:sched_switch");
    }
}
