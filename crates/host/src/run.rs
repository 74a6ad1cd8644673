//! Run commands inside cgroups and report how long they took and what they used and said.
//!
//! Each command is a forked child that joins its group, sets its affinity, and then waits at a
//! line; when all have reached it they are let go together and exec. So two hogs that share a CPU
//! start within microseconds of each other:
//!
//! ```text
//!   caller   fork a   fork b   wait for both   clock   go          … both ended
//!   child a  join cgroup, affinity, ready ────────────► exec …
//!   child b           join cgroup, affinity, ready ───► exec …
//! ```
//!
//! A command that outlives the time limit is killed with its whole process group. If this process
//! dies first, the parent-death signal and the group's watchman end the commands.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read, Seek, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::cgroup::CpuCgroup;
use crate::error::{HostError, Result, io_error};
use crate::stat::CpuTimes;
use crate::sys::{self, Ending, Usage};

/// A command and how it is started. Its standard error is the caller's.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    program: OsString,
    arguments: Vec<OsString>,
    cpus: Option<Vec<usize>>,
}

impl CommandSpec {
    /// A program, found as a shell would find it.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            cpus: None,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    pub fn args<I: IntoIterator<Item: Into<OsString>>>(mut self, arguments: I) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Allows it these CPUs only.
    pub fn cpus(mut self, cpus: &[usize]) -> Self {
        self.cpus = Some(cpus.to_vec());
        self
    }

    /// The command as it would be typed.
    pub(crate) fn typed(&self) -> String {
        let mut words = vec![self.program.to_string_lossy()];
        words.extend(self.arguments.iter().map(|a| a.to_string_lossy()));
        words.join(" ")
    }
}

/// Result of one command.
#[derive(Debug, Clone)]
pub struct CommandReport {
    /// The command as typed.
    pub command: String,
    /// How it ended.
    pub ending: Ending,
    /// From the common start to its end, ns.
    pub wall_ns: u64,
    /// CPU time and switches of it and the children it waited for.
    pub usage: Usage,
    /// Its standard output. The kernel keeps it in memory meanwhile, so no reader competes for the
    /// CPU.
    pub stdout: Vec<u8>,
}

impl CommandReport {
    /// User and system time together, ns.
    pub fn cpu_ns(&self) -> u64 {
        self.usage.user_ns + self.usage.system_ns
    }
}

/// A finished run.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// Whether the time limit ended it.
    pub timed_out: bool,
    /// Share of the machine's time that the hypervisor took, 0 … 1 (10 ms steps per CPU).
    pub steal_ratio: f64,
    /// One entry for each command, in the order given.
    pub commands: Vec<CommandReport>,
}

impl RunReport {
    /// User and system time of all commands together, ns.
    pub fn cpu_ns(&self) -> u64 {
        self.commands.iter().map(CommandReport::cpu_ns).sum()
    }
}

/// Runs commands together, each in its own group, at most for `timeout`.
pub fn run_placed(placed: &[(&CpuCgroup, &CommandSpec)], timeout: Duration) -> Result<RunReport> {
    let mut prepared = Vec::new();
    for (group, spec) in placed {
        prepared.push(Prepared::new(group, spec)?);
    }
    thread::scope(|scope| {
        let pipes = Pipes::new()?;
        let (ended, endings) = mpsc::channel();
        for (index, child) in prepared.into_iter().enumerate() {
            let (gates, sender) = (pipes.gates(), ended.clone());
            let typed = child.typed.clone();
            let attendant = move || attend(index, child, gates, &sender);
            if let Err(source) = thread::Builder::new().spawn_scoped(scope, attendant) {
                let _ = ended.send(Ended::Failed(not_started(gates, typed, source)));
            }
        }
        drop(ended);
        Conductor::new(placed, endings).conduct(pipes, timeout)
    })
}

/// A command with everything opened that the child needs between fork and exec.
struct Prepared {
    command: Command,
    typed: String,
    procs: File,
    cpus: Option<libc::cpu_set_t>,
    stdout: File,
}

impl Prepared {
    fn new(group: &CpuCgroup, spec: &CommandSpec) -> Result<Self> {
        let start_error = |source| HostError::start(spec.typed(), source);
        let path = group.dir().join("cgroup.procs");
        let procs = OpenOptions::new()
            .write(true)
            .open(&path)
            .map_err(|error| io_error("opening", &path, error))?;
        let cpus = spec.cpus.as_deref().map(sys::cpu_set).transpose();
        let mut command = Command::new(&spec.program);
        command.args(&spec.arguments).stdin(Stdio::null());
        let stdout = sys::memory_file().map_err(start_error)?;
        command.stdout(stdout.try_clone().map_err(start_error)?);
        Ok(Self {
            command,
            typed: spec.typed(),
            procs,
            cpus: cpus.map_err(start_error)?,
            stdout,
        })
    }
}

/// Children report on one pipe that they are ready and wait on the other to be let go.
struct Pipes {
    ready: (PipeReader, PipeWriter),
    go: (PipeReader, PipeWriter),
}

/// The children's ends, and the end of the other side that each child must close in its own copy:
/// while a child holds the writing end itself, it would never see that the conductor has let go of
/// it.
#[derive(Clone, Copy)]
struct Gates {
    ready: RawFd,
    go: RawFd,
    go_writer: RawFd,
}

impl Pipes {
    fn new() -> Result<Self> {
        let open = || io::pipe().map_err(|error| HostError::unavailable("a pipe", error));
        Ok(Self {
            ready: open()?,
            go: open()?,
        })
    }

    fn gates(&self) -> Gates {
        Gates {
            ready: self.ready.1.as_raw_fd(),
            go: self.go.0.as_raw_fd(),
            go_writer: self.go.1.as_raw_fd(),
        }
    }
}

/// Message of an attendant to the conductor.
enum Ended {
    Failed(HostError),
    Finished(usize, Box<CommandReport>, u64),
}

/// Body of the thread that starts one command and waits for it. One thread a command, because the
/// parent-death signal is bound to the thread that forked.
fn attend(index: usize, mut child: Prepared, gates: Gates, ended: &Sender<Ended>) {
    // SAFETY: the closure only makes async-signal-safe system calls on values made before the fork;
    // the pipes outlive it because the conductor waits for every attendant.
    unsafe {
        let (procs, cpus) = (child.procs.as_raw_fd(), child.cpus);
        let parent = libc::getpid();
        let prepare = move || between_fork_and_exec(procs, cpus.as_ref(), gates, parent);
        child.command.pre_exec(prepare);
    }
    let outcome = match child.command.spawn() {
        Ok(process) => {
            let outcome = finish(index, process.id() as i32, &mut child);
            // A child that was killed before its `exec` has told nothing.
            tell_conductor(gates);
            outcome
        }
        Err(source) => Err(not_started(gates, child.typed, source)),
    };
    let _ = ended.send(outcome.unwrap_or_else(Ended::Failed));
}

fn not_started(gates: Gates, command: String, source: io::Error) -> HostError {
    tell_conductor(gates);
    HostError::start(command, source)
}

/// Tells a conductor that still waits for this child; a late message does no harm.
fn tell_conductor(gates: Gates) {
    // SAFETY: four bytes of a local array; the pipe is open.
    unsafe { libc::write(gates.ready, [0u8; 4].as_ptr().cast(), 4) };
}

fn between_fork_and_exec(
    procs: RawFd,
    cpus: Option<&libc::cpu_set_t>,
    gates: Gates,
    parent: i32,
) -> io::Result<()> {
    // SAFETY: system calls on open descriptors and local buffers.
    unsafe {
        sys::check(libc::setpgid(0, 0).into())?;
        sys::check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL).into())?;
        if libc::getppid() != parent {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        sys::check(libc::write(procs, b"0".as_ptr().cast(), 1) as libc::c_long)?;
    }
    if let Some(set) = cpus {
        sys::set_affinity(set)?;
    }
    // SAFETY: as above.
    unsafe {
        libc::close(gates.go_writer);
        let pid = libc::getpid().to_ne_bytes();
        sys::check(libc::write(gates.ready, pid.as_ptr().cast(), 4) as libc::c_long)?;
        let mut go = 0u8;
        match libc::read(gates.go, (&raw mut go).cast(), 1) {
            1 => Ok(()),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

fn finish(index: usize, pid: i32, child: &mut Prepared) -> Result<Ended> {
    let typed = child.typed.clone();
    let failed = |source| HostError::start(typed.clone(), source);
    sys::wait_for_zombie(pid).map_err(failed)?;
    let end_ns = sys::monotonic_ns();
    // While the zombie holds the group's number no other process can have got it.
    sys::kill_process_group(pid);
    let (ending, usage) = sys::reap(pid).map_err(failed)?;
    let mut stdout = Vec::new();
    child.stdout.rewind().map_err(failed)?;
    child.stdout.read_to_end(&mut stdout).map_err(failed)?;
    let report = CommandReport {
        command: typed.clone(),
        ending,
        wall_ns: 0,
        usage,
        stdout,
    };
    Ok(Ended::Finished(index, Box::new(report), end_ns))
}

/// Lets the children go together and gathers the results.
struct Conductor<'a> {
    placed: &'a [(&'a CpuCgroup, &'a CommandSpec)],
    /// The different groups in order of first use.
    groups: Vec<&'a CpuCgroup>,
    endings: Receiver<Ended>,
    pids: Vec<i32>,
}

impl<'a> Conductor<'a> {
    fn new(placed: &'a [(&'a CpuCgroup, &'a CommandSpec)], endings: Receiver<Ended>) -> Self {
        let mut groups: Vec<&CpuCgroup> = Vec::new();
        for (group, _) in placed {
            if !groups.iter().any(|known| known.path() == group.path()) {
                groups.push(group);
            }
        }
        Self {
            placed,
            groups,
            endings,
            pids: Vec::new(),
        }
    }

    fn conduct(mut self, mut pipes: Pipes, timeout: Duration) -> Result<RunReport> {
        let result = self.start_and_wait(&mut pipes, timeout);
        // Children still at the line see the end of the pipe and give up.
        drop(pipes.go.1);
        if result.is_err() {
            self.kill_all();
        }
        // Attendants use the other pipe ends; they end once their children have.
        while self.endings.recv().is_ok() {}
        for group in &self.groups {
            for pid in &self.pids {
                group.forget_group(*pid);
            }
        }
        result
    }

    fn start_and_wait(&mut self, pipes: &mut Pipes, timeout: Duration) -> Result<RunReport> {
        self.wait_until_ready(&mut pipes.ready.0)?;
        let times = CpuTimes::read()?;
        let start = Instant::now();
        let start_ns = sys::monotonic_ns();
        let go = pipes.go.1.write_all(&vec![1u8; self.placed.len()]);
        go.map_err(|source| HostError::start(self.placed[0].1.typed(), source))?;
        let mut done: Vec<Option<CommandReport>> = vec![None; self.placed.len()];
        let timed_out = !self.gather(&mut done, start_ns, Some(start + timeout))?;
        let steal_ratio = CpuTimes::read()?.steal_ratio_since(&times);
        if timed_out {
            self.kill_all();
            self.gather(&mut done, start_ns, None)?;
        }
        Ok(RunReport {
            timed_out,
            steal_ratio,
            commands: done.into_iter().flatten().collect(),
        })
    }

    /// Waits until each child is at the line; a zero instead of a process id means it failed to get
    /// there.
    fn wait_until_ready(&mut self, ready: &mut PipeReader) -> Result<()> {
        for _ in self.placed {
            let mut bytes = [0u8; 4];
            let got = ready.read_exact(&mut bytes);
            let pid = i32::from_ne_bytes(bytes);
            if got.is_err() || pid == 0 {
                return Err(self.first_failure());
            }
            self.pids.push(pid);
            for group in &self.groups {
                group.watch_group(pid);
            }
        }
        Ok(())
    }

    fn first_failure(&self) -> HostError {
        self.kill_all();
        if let Ok(ended) = self.endings.recv() {
            return match ended {
                Ended::Failed(error) => error,
                // No command was let go yet.
                Ended::Finished(_, report, _) => {
                    let why = format!("it ended before it began: {:?}", report.ending);
                    HostError::start(report.command, io::Error::other(why))
                }
            };
        }
        HostError::start(self.placed[0].1.typed(), io::ErrorKind::Interrupted.into())
    }

    /// Takes endings until all commands are done (true) or the deadline passes (false).
    fn gather(
        &self,
        done: &mut [Option<CommandReport>],
        start_ns: u64,
        deadline: Option<Instant>,
    ) -> Result<bool> {
        while done.iter().any(Option::is_none) {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let next = match left {
                None => self
                    .endings
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected),
                Some(left) => self.endings.recv_timeout(left),
            };
            match next {
                Ok(Ended::Finished(index, mut report, end_ns)) => {
                    report.wall_ns = end_ns.saturating_sub(start_ns);
                    done[index] = Some(*report);
                }
                Ok(Ended::Failed(error)) => return Err(error),
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                Err(RecvTimeoutError::Disconnected) => return Err(self.first_failure()),
            }
        }
        Ok(true)
    }

    fn kill_all(&self) {
        for pid in &self.pids {
            sys::kill_process_group(*pid);
        }
    }
}
