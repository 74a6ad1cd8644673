//! One run of a command under `ptrace`, with one fault at one system call.
//!
//! The driver sees each system call of the command twice, before and after. It counts them and, at
//! the one that it was told, kills the process, sends it a signal, or replaces the number of the
//! call by −1, which the kernel answers with an error, and that error by the one wanted. Worked
//! example: `At { task: 0, call: 41 }` with `Fault::Fail(ENOSPC)` makes the 42nd call of the first
//! thread fail as on a full disk.
//!
//! Tasks are numbered as they are made. Threads, and forked copies such as the watchman, are
//! followed. A copy that becomes another program is let go, and seen to have ended afterwards.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use crate::errors::{self, Object};

/// A command that is still there then hangs: twice the 10 s after which the recorder gives up by
/// itself, because the driver may share its CPUs.
const HANGS: Duration = Duration::from_secs(20);
/// A program that was started may take as long to go away behind the recorder.
const ENDS: Duration = Duration::from_secs(5);
/// Longest path that is read.
const PATH_MAX: usize = 4096;

/// Where standard output and standard error of a command go, in its room.
pub(crate) const STDOUT: &str = "driver.stdout";
pub(crate) const STDERR: &str = "driver.stderr";

/// A system call of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct At {
    /// Number of the task, in the order in which they were made.
    pub task: usize,
    /// Number of its call, from 0. Those before `main` belong to the loader and are not counted.
    pub call: usize,
}

/// Where a fault strikes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// At this call, whatever it is.
    At(At),
    /// At the n-th call that is meant, from 0.
    Meant(fn(&Call) -> bool, usize),
}

/// A disturbance of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The whole process gets this signal before the call.
    Signal(i32),
    /// The call fails.
    Fail(i32),
    /// Half of what should be written is written.
    Short,
}

/// A call that was seen.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub at: At,
    pub number: i64,
    /// Path that the call is about, or nothing.
    pub object: String,
    /// The third argument: bytes that a `write` offers, flags of an `openat`.
    pub length: u64,
    /// Whether it is the `close` of a directory.
    pub closes_a_folder: bool,
}

impl Call {
    /// Its name and object.
    pub(crate) fn shown(&self) -> String {
        let known = errors::known(self.number);
        let name = known.map_or(format!("call {}", self.number), |it| it.name.to_owned());
        format!("{name} {}", self.object).trim_end().to_owned()
    }
}

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Exited(i32),
    Killed(i32),
}

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub process: i32,
    pub ending: Ending,
    /// All calls with their objects, if there was no fault; else the one that it struck, if it was
    /// reached.
    pub calls: Vec<Call>,
    pub stderr: String,
    /// Whether somebody had to end it.
    pub hung: bool,
    /// Programs that it started and that did not end with it, with their states.
    pub left: Vec<String>,
}

struct Task {
    number: usize,
    calls: usize,
    /// Between the two stops of a call; the answer to give at the second.
    inside: bool,
    answer: Option<i64>,
    /// The first stop of a new task is no signal of its own.
    new: bool,
}

fn ptrace(request: libc::c_uint, pid: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: each caller passes what the request asks for: addresses of live variables, or
    // numbers.
    match unsafe { libc::ptrace(request, pid, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn registers(pid: i32) -> io::Result<libc::user_regs_struct> {
    // SAFETY: plain numbers, which the call fills.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    ptrace(libc::PTRACE_GETREGS, pid, 0, &raw mut registers as usize)?;
    Ok(registers)
}

fn set_registers(pid: i32, registers: &libc::user_regs_struct) -> io::Result<()> {
    ptrace(libc::PTRACE_SETREGS, pid, 0, &raw const *registers as usize)
}

fn text_at(pid: i32, address: u64) -> String {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; PATH_MAX];
    let memory = fs::File::open(format!("/proc/{pid}/mem"));
    let read = memory.and_then(|memory| memory.read_at(&mut bytes, address));
    let end = bytes[..read.unwrap_or(0)]
        .iter()
        .position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(0)]).into_owned()
}

fn object(pid: i32, registers: &libc::user_regs_struct) -> String {
    let arguments = [registers.rdi, registers.rsi, registers.rdx, registers.r10];
    match errors::known(registers.orig_rax as i64).map_or(Object::None, |known| known.object) {
        Object::None => String::new(),
        Object::Path(index) => match text_at(pid, arguments[index]) {
            // The descriptor itself is meant.
            empty if empty.is_empty() => descriptor(pid, arguments[0]),
            text => text,
        },
        Object::Descriptor(index) => descriptor(pid, arguments[index]),
    }
}

fn descriptor(pid: i32, number: u64) -> String {
    let link = fs::read_link(format!("/proc/{pid}/fd/{number}"));
    link.map_or(String::new(), |path| path.display().to_string())
}

/// Ends what hangs: first the process, then everything that it left.
fn watch(process: i32, tasks: &Mutex<Vec<i32>>, over: &mpsc::Receiver<()>) -> bool {
    for round in 0..2 {
        if over.recv_timeout(HANGS) != Err(mpsc::RecvTimeoutError::Timeout) {
            return round > 0;
        }
        let tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let first = [process];
        for pid in if round == 0 { &first[..] } else { &tasks[..] } {
            // SAFETY: kill has no memory preconditions; the tasks are traced, so their numbers are
            // not used anew.
            unsafe { libc::kill(*pid, libc::SIGKILL) };
        }
    }
    true
}

/// State letter and time of start of a process that is not a zombie.
fn state(pid: i32) -> Option<(char, String)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    let words: Vec<&str> = rest.split(' ').collect();
    let letter = words.first()?.chars().next()?;
    (!matches!(letter, 'Z' | 'X')).then(|| (letter, words[19].to_owned()))
}

struct Tracer {
    process: i32,
    fault: Option<(Place, Fault)>,
    tasks: HashMap<i32, Task>,
    alive: Arc<Mutex<Vec<i32>>>,
    made: usize,
    calls: Vec<Call>,
    /// Calls so far that a place means.
    met: usize,
    /// Programs that were let go, with the time of their start.
    programs: Vec<(i32, String)>,
    ending: Option<Ending>,
}

/// Runs `command` to its end. What it prints goes to files in `room`.
pub(crate) fn run(
    command: &mut Command,
    room: &Path,
    fault: Option<(Place, Fault)>,
) -> io::Result<Run> {
    let [out, err] = [STDOUT, STDERR].map(|name| room.join(name));
    command.stdin(Stdio::null());
    command.stdout(fs::File::create(out)?);
    command.stderr(fs::File::create(&err)?);
    // SAFETY: one system call, which is async-signal-safe.
    unsafe { command.pre_exec(|| ptrace(libc::PTRACE_TRACEME, 0, 0, 0)) };
    let process = command.spawn()?.id() as i32;
    let alive = Arc::new(Mutex::new(vec![process]));
    let (over, is_over) = mpsc::channel();
    let watched = Arc::clone(&alive);
    let watchdog = std::thread::spawn(move || watch(process, &watched, &is_over));
    let mut tracer = Tracer {
        process,
        fault,
        tasks: HashMap::new(),
        alive,
        made: 0,
        calls: Vec::new(),
        met: 0,
        programs: Vec::new(),
        ending: None,
    };
    tracer.begin()?;
    tracer.follow()?;
    drop(over);
    let hung = watchdog.join().unwrap_or(true);
    let left = tracer.left();
    Ok(Run {
        process,
        ending: tracer.ending.unwrap_or(Ending::Killed(0)),
        calls: tracer.calls,
        stderr: fs::read(err).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())?,
        hung,
        left,
    })
}

impl Tracer {
    /// The stop behind the first `execve`.
    fn begin(&mut self) -> io::Result<()> {
        let mut status = 0;
        // SAFETY: the status is filled; the process is a child of this thread.
        unsafe { libc::waitpid(self.process, &mut status, libc::__WALL) };
        let options = libc::PTRACE_O_TRACESYSGOOD
            | libc::PTRACE_O_TRACECLONE
            | libc::PTRACE_O_TRACEFORK
            | libc::PTRACE_O_TRACEVFORK
            | libc::PTRACE_O_TRACEEXEC
            | libc::PTRACE_O_EXITKILL;
        ptrace(libc::PTRACE_SETOPTIONS, self.process, 0, options as usize)?;
        self.add(self.process, false);
        self.go_on(self.process, 0);
        Ok(())
    }

    fn add(&mut self, pid: i32, new: bool) {
        let number = self.made;
        self.tasks.entry(pid).or_insert_with(|| {
            self.made += 1;
            let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
            alive.push(pid);
            Task {
                number,
                calls: 0,
                inside: false,
                answer: None,
                new,
            }
        });
    }

    fn forget(&mut self, pid: i32) {
        self.tasks.remove(&pid);
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        alive.retain(|known| *known != pid);
    }

    /// To the next call; a task that was killed meanwhile tells so by itself.
    fn go_on(&self, pid: i32, signal: i32) {
        let _ = ptrace(libc::PTRACE_SYSCALL, pid, 0, signal as usize);
    }

    fn follow(&mut self) -> io::Result<()> {
        while !self.tasks.is_empty() {
            let mut status = 0;
            // SAFETY: the status is filled. Only what this thread traces is waited for.
            let pid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD) };
            if pid < 0 {
                let error = io::Error::last_os_error();
                match error.kind() {
                    io::ErrorKind::Interrupted => continue,
                    // Tasks that became another's through an `execve` of a thread.
                    _ => return Ok(()),
                }
            }
            self.event(pid, status);
        }
        Ok(())
    }

    fn event(&mut self, pid: i32, status: i32) {
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            if pid == self.process {
                self.ending = Some(match libc::WIFSIGNALED(status) {
                    true => Ending::Killed(libc::WTERMSIG(status)),
                    false => Ending::Exited(libc::WEXITSTATUS(status)),
                });
            }
            self.forget(pid);
            return;
        }
        self.add(pid, true);
        let signal = libc::WSTOPSIG(status);
        let event = status >> 16;
        if signal == libc::SIGTRAP | 0x80 {
            self.system_call(pid);
        } else if event == libc::PTRACE_EVENT_EXEC && pid != self.process {
            if let Some((_, start)) = state(pid) {
                self.programs.push((pid, start));
            }
            let _ = ptrace(libc::PTRACE_DETACH, pid, 0, 0);
            self.forget(pid);
        } else if event != 0 {
            let mut made: libc::c_ulong = 0;
            if event != libc::PTRACE_EVENT_EXEC {
                let _ = ptrace(libc::PTRACE_GETEVENTMSG, pid, 0, &raw mut made as usize);
                // A child that was killed at once is gone before it is told.
                if state(made as i32).is_some() {
                    self.add(made as i32, true);
                }
            }
            self.go_on(pid, 0);
        } else {
            let task = self.tasks.get_mut(&pid).expect("added above");
            let own = !(std::mem::take(&mut task.new) && signal == libc::SIGSTOP);
            self.go_on(pid, if own { signal } else { 0 });
        }
    }

    fn system_call(&mut self, pid: i32) {
        let task = self.tasks.get_mut(&pid).expect("added before");
        task.new = false;
        task.inside = !task.inside;
        if !task.inside {
            if let Some(answer) = task.answer.take()
                && let Ok(mut registers) = registers(pid)
            {
                registers.rax = answer as u64;
                let _ = set_registers(pid, &registers);
            }
            self.go_on(pid, 0);
            return;
        }
        let Ok(mut found) = registers(pid) else {
            return self.go_on(pid, 0);
        };
        let number = found.orig_rax as i64;
        // The first thing that the standard library does.
        if task.number == 0 && task.calls == 0 && number != libc::SYS_poll {
            return self.go_on(pid, 0);
        }
        let at = At {
            task: task.number,
            call: task.calls,
        };
        task.calls += 1;
        let closes_a_folder = number == libc::SYS_close
            && fs::metadata(format!("/proc/{pid}/fd/{}", found.rdi)).is_ok_and(|it| it.is_dir());
        let call = |object| Call {
            at,
            number,
            object,
            length: found.rdx,
            closes_a_folder,
        };
        let strikes = match self.fault {
            None => {
                self.calls.push(call(object(pid, &found)));
                None
            }
            Some((place, fault)) => {
                let strikes = match place {
                    Place::At(wanted) => wanted == at,
                    Place::Meant(is_meant, wanted) => {
                        let meant = is_meant(&call(object(pid, &found)));
                        self.met += usize::from(meant);
                        meant && self.met == wanted + 1
                    }
                };
                if strikes {
                    self.calls.push(call(object(pid, &found)));
                }
                strikes.then_some(fault)
            }
        };
        match strikes {
            Some(Fault::Signal(signal)) => {
                let group = thread_group(pid).unwrap_or(pid);
                // SAFETY: kill has no memory preconditions; the process is traced, so it is not
                // another.
                unsafe { libc::kill(group, signal) };
            }
            // Threads may come in another order than in the run that was counted.
            Some(Fault::Fail(errno))
                if errors::are_plausible(number, errno) && !closes_a_folder =>
            {
                task.answer = Some(-i64::from(errno));
                // A descriptor is closed whatever the kernel answers.
                if number != libc::SYS_close {
                    found.orig_rax = u64::MAX;
                    let _ = set_registers(pid, &found);
                }
            }
            Some(Fault::Short) if number == libc::SYS_write => {
                found.rdx = (found.rdx / 2).max(1);
                let _ = set_registers(pid, &found);
            }
            _ => {}
        }
        self.go_on(pid, 0);
    }

    /// Programs that outlive the command.
    fn left(&self) -> Vec<String> {
        let deadline = Instant::now() + ENDS;
        let mut left = Vec::new();
        for (pid, start) in &self.programs {
            loop {
                match state(*pid) {
                    Some((letter, since)) if since == *start => {
                        if Instant::now() < deadline {
                            std::thread::sleep(Duration::from_millis(2));
                            continue;
                        }
                        left.push(format!("process {pid} in state {letter}"));
                        // SAFETY: kill has no memory preconditions; the start shows that it is the
                        // one we started.
                        unsafe { libc::kill(*pid, libc::SIGKILL) };
                    }
                    _ => {}
                }
                break;
            }
        }
        left
    }
}

fn thread_group(pid: i32) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}

/// A mount namespace for this thread and what it starts, without tracefs: nobody else's is used,
/// and nobody sees ours.
pub(crate) fn own_mounts() -> io::Result<()> {
    // SAFETY: strings are constants, and the thread shares nothing that it needs afterwards.
    unsafe {
        if libc::unshare(libc::CLONE_NEWNS) != 0 {
            return Err(io::Error::last_os_error());
        }
        let private = libc::MS_REC | libc::MS_PRIVATE;
        let root = c"/".as_ptr();
        libc::mount(
            c"none".as_ptr(),
            root,
            std::ptr::null(),
            private,
            std::ptr::null(),
        );
    }
    unmount_all(&tracefs_mounts())
}

/// Takes these mounts out of the namespace of this thread.
pub(crate) fn unmount_all(places: &[String]) -> io::Result<()> {
    for place in places {
        let place = std::ffi::CString::new(place.as_str())?;
        // SAFETY: a valid string.
        unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) };
    }
    Ok(())
}

/// Where tracefs is mounted for this thread.
pub(crate) fn tracefs_mounts() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap_or_default();
    let place = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        (words.get(2) == Some(&"tracefs")).then(|| words[1].to_owned())
    };
    mounts.lines().filter_map(place).collect()
}

/// The trace buffers that processes made; tracefs is mounted at `place` meanwhile.
pub(crate) fn trace_buffers(place: &Path) -> io::Result<Vec<String>> {
    use std::os::unix::ffi::OsStrExt;
    let at = std::ffi::CString::new(place.as_os_str().as_bytes())?;
    let kind = c"tracefs".as_ptr();
    // SAFETY: valid strings; tracefs takes no data.
    if unsafe { libc::mount(kind, at.as_ptr(), kind, 0, std::ptr::null()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let entries = fs::read_dir(place.join("instances"));
    let names = entries.map(|entries| {
        let name = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
        entries.filter_map(name).collect()
    });
    // SAFETY: as above.
    unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
    names
}
