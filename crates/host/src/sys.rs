//! The few system calls that the standard library does not offer, each behind a safe function.
//!
//! All `unsafe` of the crate is here and in `guard` and `run` (code between fork and exec).
#![allow(unsafe_code)]

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Turns the −1 convention into a `Result`.
pub(crate) fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = timespec(0);
    // SAFETY: `time` is a valid timespec; both clocks used here exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// `CLOCK_MONOTONIC` in ns: the clock of hrtimers, of bandwidth periods and of trace clock `mono`.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// The same by a system call, where [`monotonic_ns`] reads it in user mode.
pub(crate) fn monotonic_call_ns() -> u64 {
    let mut time = timespec(0);
    // SAFETY: `time` is a valid timespec.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// By how much `CLOCK_REALTIME` is ahead of `CLOCK_MONOTONIC`, in ns: of three looks the one whose
/// readings of the monotonic clock before and behind are nearest to each other.
pub(crate) fn realtime_offset_ns() -> i64 {
    let look = |_| {
        let before = monotonic_ns();
        let realtime = clock_ns(libc::CLOCK_REALTIME);
        let length = monotonic_ns() - before;
        (length, realtime as i64 - (before + length / 2) as i64)
    };
    (0..3).map(look).min().map_or(0, |(_, offset)| offset)
}

/// By how much local time is ahead of UTC now, in seconds.
pub(crate) fn utc_offset_s() -> i64 {
    let now = (clock_ns(libc::CLOCK_REALTIME) / 1_000_000_000) as libc::time_t;
    // SAFETY: all fields of a `tm` may be zero.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both point to valid values.
    unsafe { libc::localtime_r(&now, &mut local) };
    local.tm_gmtoff as i64
}

/// Number of the calling thread.
pub(crate) fn thread_number() -> i32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::gettid() }
}

/// CPU time of a thread of this process in ns; 0 when it has ended.
pub(crate) fn cpu_ns_of_thread(thread: i32) -> u64 {
    // The kernel's clock of one thread's scheduled time: its number inverted, then 4 for "thread"
    // and 2 for that clock.
    clock_ns((!thread << 3) | 4 | 2)
}

/// CPU time of the calling thread in ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

const fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as _,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

/// Sleeps until a point of `CLOCK_MONOTONIC`; continues after signals.
pub(crate) fn sleep_until_ns(at_ns: u64) {
    let at = timespec(at_ns);
    // SAFETY: `at` is a valid absolute time, no remainder is asked for.
    while unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &at,
            std::ptr::null_mut(),
        )
    } == libc::EINTR
    {}
}

/// Ends what `command` starts when the thread that starts it ends, whatever ends that.
pub(crate) fn end_with_parent(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    let parent = std::process::id() as i32;
    // SAFETY: system calls that are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL).into())?;
            // A parent that ended before the request was made sends nothing any more.
            match libc::getppid() == parent {
                true => Ok(()),
                false => Err(io::ErrorKind::BrokenPipe.into()),
            }
        });
    }
}

/// Makes a folder of its own, which no other user may enter, below `place`; its name begins with
/// `begin`.
pub(crate) fn make_folder(place: &Path, begin: &str) -> io::Result<PathBuf> {
    let pattern = place.join(format!("{begin}XXXXXX")).into_os_string();
    let mut pattern = CString::new(pattern.into_vec())?.into_bytes_with_nul();
    // SAFETY: the pattern ends in NUL and has room for the name, which replaces its last six
    // letters.
    if unsafe { libc::mkdtemp(pattern.as_mut_ptr().cast()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    pattern.pop();
    Ok(OsString::from_vec(pattern).into())
}

/// The user whose rights this process has.
pub(crate) fn user() -> u32 {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() }
}

/// Whether nobody can read standard output any more: it is a pipe whose other end is closed.
pub fn is_output_closed() -> bool {
    let mut output = libc::pollfd {
        fd: libc::STDOUT_FILENO,
        events: 0,
        revents: 0,
    };
    // SAFETY: one valid structure, and no time to wait.
    let ready = unsafe { libc::poll(&mut output, 1, 0) };
    ready > 0 && output.revents & libc::POLLERR != 0
}

/// Columns of the terminal that standard output is, if it is one.
pub fn terminal_columns() -> Option<usize> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the call fills the structure it is given, of the type that TIOCGWINSZ asks for.
    let result = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) };
    // A terminal that does not know its size says 0.
    (result == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Whether this process has root's rights.
pub fn is_root() -> bool {
    user() == 0
}

/// Refuses a file or folder that this process's rights do not let it write.
pub(crate) fn refuse_unwritable(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is a string that ends with a zero and lives during the call.
    let result =
        unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK, libc::AT_EACCESS) };
    check(result.into()).map(drop)
}

/// Takes the chance to gain privileges by starting a program away from this thread and what it
/// starts, for good.
pub(crate) fn forbid_new_privileges() -> io::Result<()> {
    // SAFETY: PR_SET_NO_NEW_PRIVS takes numbers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into()).map(drop)
}

/// Parent process id by a real system call: the cheapest one, used as the measure of a call's cost.
#[inline]
pub(crate) fn getppid() -> i32 {
    // SAFETY: getppid has no preconditions.
    unsafe { libc::syscall(libc::SYS_getppid) as i32 }
}

/// `sched_yield`.
pub(crate) fn yield_cpu() {
    // SAFETY: sched_yield has no preconditions.
    unsafe { libc::sched_yield() };
}

/// A CPU set for `sched_setaffinity`; CPUs beyond the set's size are an error.
pub(crate) fn cpu_set(cpus: &[usize]) -> io::Result<libc::cpu_set_t> {
    // SAFETY: cpu_set_t is plain bits; all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus {
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("CPU {cpu} is beyond the {} of a CPU set", libc::CPU_SETSIZE),
            ));
        }
        // SAFETY: `cpu` was checked against the size of the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    Ok(set)
}

/// Applies a CPU set to the calling thread. Async-signal-safe.
pub(crate) fn set_affinity(set: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: `set` is a valid cpu_set_t and its size is passed along.
    let result = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) };
    check(result.into()).map(drop)
}

/// CPUs that a thread may run on, by its affinity and its cpuset; `None` if it is gone, or where a
/// CPU set is too small for the machine.
pub(crate) fn affinity_of(tid: i32) -> Option<Vec<u32>> {
    // SAFETY: cpu_set_t is plain bits; all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a cpu_set_t to write to and its size is passed along.
    let result = unsafe { libc::sched_getaffinity(tid, size_of::<libc::cpu_set_t>(), &mut set) };
    let size = u32::try_from(libc::CPU_SETSIZE).unwrap_or(0);
    // SAFETY: the numbers are below the size of the set.
    let is_in = |cpu: &u32| unsafe { libc::CPU_ISSET(*cpu as usize, &set) };
    (result == 0).then(|| (0..size).filter(is_in).collect())
}

/// Pins the calling thread to CPUs.
pub(crate) fn pin_thread(cpus: &[usize]) -> io::Result<()> {
    set_affinity(&cpu_set(cpus)?)
}

/// Puts the calling thread under `SCHED_IDLE`: it keeps its CPU out of idle and yields to any
/// other.
pub(crate) fn set_policy_idle() -> io::Result<()> {
    // The kernel's structure is this one number. Not through the C library: musl's function
    // refuses, because POSIX wants the policy of a whole process.
    let priority: libc::c_int = 0;
    // SAFETY: `priority` is valid and outlives the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_IDLE,
            std::ptr::from_ref(&priority),
        )
    };
    check(done).map(drop)
}

/// Context switches of the calling thread so far: (voluntary, involuntary).
pub(crate) fn thread_switches() -> (u64, u64) {
    // SAFETY: rusage is plain numbers, and getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    (usage.ru_nvcsw as u64, usage.ru_nivcsw as u64)
}

fn timeval_ns(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000
}

/// Waits while `word` is `expected`, within this process.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32) {
    // SAFETY: the futex word lives as long as the reference; no timeout.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            std::ptr::null::<libc::timespec>(),
        )
    };
}

/// Wakes one waiter of `word`; tells how many were woken.
pub(crate) fn futex_wake(word: &AtomicU32) -> i64 {
    // SAFETY: the futex word lives as long as the reference.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        )
    }
}

/// Allows this process to use [`membarrier`]. Fails where the kernel has none.
pub(crate) fn register_membarrier() -> io::Result<()> {
    membarrier_command(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
}

/// Interrupts every other CPU that runs a thread of this process, and waits until they have handled
/// it.
pub(crate) fn membarrier() -> io::Result<()> {
    membarrier_command(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
}

fn membarrier_command(command: libc::c_int) -> io::Result<()> {
    // SAFETY: membarrier takes numbers only.
    check(unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }).map(drop)
}

/// A timer of `CLOCK_MONOTONIC`, disarmed.
pub(crate) fn timer_file() -> io::Result<File> {
    // SAFETY: timerfd_create takes numbers only.
    let fd =
        check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) }.into())?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { File::from_raw_fd(fd as i32) })
}

/// Arms such a timer for once, `due_ns` from now; 0 disarms it.
pub(crate) fn set_timer(timer: &File, due_ns: u64) -> io::Result<()> {
    let due = libc::itimerspec {
        it_interval: timespec(0),
        it_value: timespec(due_ns),
    };
    // SAFETY: the descriptor is open, `due` is valid, the old setting is not asked for.
    let done = unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &due, std::ptr::null_mut()) };
    check(done.into()).map(drop)
}

/// A file that lives in memory only, to gather a command's output without a reader beside it.
pub(crate) fn memory_file() -> io::Result<File> {
    // SAFETY: the name is a valid C string.
    let fd = check(
        unsafe { libc::memfd_create(c"schedcast-output".as_ptr(), libc::MFD_CLOEXEC) }.into(),
    )?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { File::from_raw_fd(fd as i32) })
}

/// Moves up to `bytes` from one descriptor to another, one of them a pipe, without waiting for the
/// source.
pub(crate) fn splice(from: &impl AsRawFd, to: &impl AsRawFd, bytes: usize) -> io::Result<usize> {
    let (nowhere, flags) = (
        std::ptr::null_mut(),
        libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK,
    );
    // SAFETY: both descriptors are open; no offsets are passed.
    let moved = unsafe {
        libc::splice(
            from.as_raw_fd(),
            nowhere,
            to.as_raw_fd(),
            nowhere,
            bytes,
            flags,
        )
    };
    check(moved as libc::c_long).map(|bytes| bytes as usize)
}

/// Sends SIGKILL to a process group; one that is gone already is fine.
pub(crate) fn kill_process_group(group: i32) {
    // SAFETY: kill has no memory preconditions. Groups 0 and 1 are never passed.
    unsafe { libc::kill(-group, libc::SIGKILL) };
}

/// Asks every process of a group to end, also one that is stopped.
pub(crate) fn terminate_process_group(group: i32) {
    for signal in [libc::SIGTERM, libc::SIGCONT] {
        // SAFETY: kill has no memory preconditions. Groups 0 and 1 are never passed.
        unsafe { libc::kill(-group, signal) };
    }
}

/// Whether a process group has a process.
pub(crate) fn has_process_group(group: i32) -> bool {
    // SAFETY: kill has no memory preconditions, and signal 0 is none.
    unsafe { libc::kill(-group, 0) == 0 }
}

/// Asks a process to end.
pub(crate) fn terminate(pid: i32) {
    // SAFETY: kill has no memory preconditions. The process is a child that has not been waited
    // for.
    unsafe { libc::kill(pid, libc::SIGTERM) };
}

/// Lets a stopped process go on.
pub(crate) fn send_continue(pid: i32) {
    // SAFETY: kill has no memory preconditions; `pid` is a child that has not been reaped.
    unsafe { libc::kill(pid, libc::SIGCONT) };
}

/// Ends this process at once, as a stranger's `kill -9` would.
#[cfg(test)]
pub(crate) fn kill_self() {
    // SAFETY: kill and getpid have no memory preconditions.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn remember_stop(_signal: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// From now on SIGINT, SIGTERM and SIGHUP (a terminal or a remote login that went away) set the
/// returned flag and do nothing else. Those that were ignored, as `nohup` has it, stay ignored.
pub fn stop_flag() -> &'static AtomicBool {
    let handler: extern "C" fn(libc::c_int) = remember_stop;
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only stores to an atomic.
        unsafe {
            if libc::signal(signal, handler as libc::sighandler_t) == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
    }
    &STOP
}

/// CPU time of this process alone, ns.
pub(crate) fn own_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It returned this exit code.
    Exited(i32),
    /// A signal ended it.
    Killed(i32),
}

/// Resource usage that the kernel accounted to a process and its waited-for children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Time in user mode, ns (counted in µs).
    pub user_ns: u64,
    /// Time in the kernel, ns (counted in µs).
    pub system_ns: u64,
    /// Switches because it blocked.
    pub voluntary_switches: u64,
    /// Switches because something else was picked.
    pub involuntary_switches: u64,
}

/// Waits until a child has ended but leaves it a zombie, so that its id and its `/proc` stay valid.
pub(crate) fn wait_for_zombie(pid: i32) -> io::Result<()> {
    loop {
        // SAFETY: siginfo is plain data that waitid fills.
        let result = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(
                libc::P_PID,
                pid as libc::id_t,
                &mut info,
                libc::WEXITED | libc::WNOWAIT,
            )
        };
        match check(result.into()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(drop),
        }
    }
}

/// Reaps a child.
pub(crate) fn reap(pid: i32) -> io::Result<(Ending, Usage)> {
    let mut status = 0;
    // SAFETY: status and rusage are plain data that wait4 fills.
    let (result, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(pid, &mut status, 0, &mut usage), usage)
    };
    check(result.into())?;
    let ending = if libc::WIFSIGNALED(status) {
        Ending::Killed(libc::WTERMSIG(status))
    } else {
        Ending::Exited(libc::WEXITSTATUS(status))
    };
    let usage = Usage {
        user_ns: timeval_ns(usage.ru_utime),
        system_ns: timeval_ns(usage.ru_stime),
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
    };
    Ok((ending, usage))
}

/// Runs `body` in a forked child and exits with what it returns. The child must confine itself to
/// system calls: another thread may have held the allocator's lock when the fork happened.
pub(crate) fn fork_child(body: impl FnOnce() -> i32) -> io::Result<i32> {
    // SAFETY: the child only runs `body`, which keeps to system calls, and leaves by _exit.
    unsafe {
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => libc::_exit(body()),
            pid => Ok(pid),
        }
    }
}

/// Writes one byte.
pub(crate) fn write_byte(to: BorrowedFd) -> io::Result<()> {
    // SAFETY: the byte lives until the call is over.
    let written = unsafe { libc::write(to.as_raw_fd(), [1u8].as_ptr().cast(), 1) };
    one_byte(written)
}

/// Reads one byte.
pub(crate) fn read_byte(from: BorrowedFd) -> io::Result<()> {
    let mut byte = [0u8];
    // SAFETY: there is room for the byte.
    let read = unsafe { libc::read(from.as_raw_fd(), byte.as_mut_ptr().cast(), 1) };
    one_byte(read)
}

fn one_byte(moved: isize) -> io::Result<()> {
    match moved {
        1 => Ok(()),
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A tracefs that is mounted nowhere: it is there as long as the descriptor is open, and named by
/// `/proc/self/fd/NUMBER`. Linux 5.2 or later.
pub(crate) fn open_tracefs() -> io::Result<OwnedFd> {
    let owned = |fd: libc::c_long| {
        // SAFETY: the call has just given this descriptor, which nobody else has.
        check(fd).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
    };
    // SAFETY: the strings are valid; the other arguments are numbers (`linux/mount.h`).
    unsafe {
        const CLOSE_ON_EXEC: u32 = 1;
        const CREATE: u32 = 6;
        let name = c"tracefs".as_ptr();
        let context = owned(libc::syscall(libc::SYS_fsopen, name, CLOSE_ON_EXEC))?;
        let nothing = std::ptr::null::<libc::c_char>();
        let fd = context.as_raw_fd();
        check(libc::syscall(
            libc::SYS_fsconfig,
            fd,
            CREATE,
            nothing,
            nothing,
            0,
        ))?;
        let attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC;
        owned(libc::syscall(
            libc::SYS_fsmount,
            fd,
            CLOSE_ON_EXEC,
            attributes,
        ))
    }
}
