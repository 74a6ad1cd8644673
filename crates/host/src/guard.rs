//! A watchman process that cleans up when the process that made a cgroup or a trace buffer dies, however
//! it dies.
//!
//! Destructors do not run on SIGKILL, on an abort or when a signal's default action ends the process.
//! So each created cgroup and trace instance has a forked child that does nothing but read a pipe. While the maker lives
//! the pipe is silent. When the maker dies the kernel closes its end; the watchman then kills the
//! commands that ran in the group, moves whatever is left into the group the maker came from, and
//! removes the directory (and, for a trace instance on a tracefs of its own, that mount). When the maker cleans up itself it dismisses the watchman first.
//!
//! Messages are four bytes: a positive number is a process group to kill on death, a negative one
//! takes it back, 0 dismisses.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::sys;

/// Process groups a watchman can remember; more commands than this in one cgroup is unheard of.
const GROUPS_MAX: usize = 256;
/// Tries to remove the directory, 10 ms apart: a dying task may hold it for a while.
const REMOVE_TRIES: usize = 3_000;

/// The maker's handle on its watchman.
#[derive(Debug)]
pub(crate) struct Guard {
    pid: i32,
    pipe: PipeWriter,
}

impl Guard {
    /// Forks a watchman for the cgroup directory `dir`; strays go to the cgroup directory `refuge`.
    pub fn for_cgroup(dir: &Path, refuge: &Path) -> io::Result<Self> {
        Self::start(&Charge {
            dir: c_path(dir)?,
            strays: Some((
                c_path(&dir.join("cgroup.procs"))?,
                c_path(&refuge.join("cgroup.procs"))?,
            )),
            mount: None,
        })
    }

    /// Forks a watchman for a trace instance, and for the tracefs mounted for it if there is one.
    pub fn for_trace(dir: &Path, mount: Option<&Path>) -> io::Result<Self> {
        Self::start(&Charge {
            dir: c_path(dir)?,
            strays: None,
            mount: mount.map(c_path).transpose()?,
        })
    }

    fn start(charge: &Charge) -> io::Result<Self> {
        let (reader, pipe) = io::pipe()?;
        let pid = sys::fork_child(|| watch(&reader, charge))?;
        Ok(Self { pid, pipe })
    }

    /// Asks that a process group be killed should the maker die.
    pub fn watch_group(&self, group: i32) {
        self.send(group);
    }

    /// Takes `watch_group` back.
    pub fn forget_group(&self, group: i32) {
        self.send(-group);
    }

    fn send(&self, message: i32) {
        // A watchman that was killed cannot be told anything; the maker still cleans up itself.
        let _ = (&self.pipe).write_all(&message.to_ne_bytes());
    }

    /// Ends the watchman without a clean-up.
    pub fn dismiss(self) {
        self.send(0);
        let _ = sys::reap(self.pid);
    }
}

/// Paths that a watchman removes, as C strings made before the fork.
struct Charge {
    dir: CString,
    /// Where tasks left in a cgroup are listed, and where they are moved.
    strays: Option<(CString, CString)>,
    mount: Option<CString>,
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)
}

/// Body of the watchman. No allocation, no locks: see `sys::fork_child`.
fn watch(pipe: &PipeReader, charge: &Charge) -> i32 {
    let fd = pipe.as_raw_fd();
    detach(fd);
    let mut groups = [0i32; GROUPS_MAX];
    loop {
        match read_message(fd) {
            Some(0) => return 0,
            Some(group) => remember(&mut groups, group),
            None => break,
        }
    }
    for group in groups.into_iter().filter(|group| *group > 1) {
        sys::kill_process_group(group);
    }
    for _ in 0..REMOVE_TRIES {
        if let Some((procs, refuge)) = &charge.strays {
            move_tasks(procs, refuge);
        }
        if remove_dir(&charge.dir) {
            break;
        }
        sys::sleep_until_ns(sys::monotonic_ns() + 10_000_000);
    }
    if let Some(mount) = &charge.mount {
        let _ = sys::unmount(mount);
        remove_dir(mount);
    }
    0
}

fn remove_dir(dir: &CStr) -> bool {
    // SAFETY: `dir` is a valid string.
    unsafe { libc::rmdir(dir.as_ptr()) == 0 || errno() == libc::ENOENT }
}

/// Leaves the maker's process group, terminal signals and open files behind.
fn detach(keep: RawFd) {
    let keep = keep as u32;
    // SAFETY: plain system calls; closing every other descriptor is safe in this forked copy.
    unsafe {
        libc::setpgid(0, 0);
        for signal in [
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGQUIT,
            libc::SIGPIPE,
        ] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_NAME, c"schedcast-guard".as_ptr());
        if keep > 0 {
            libc::syscall(libc::SYS_close_range, 0u32, keep - 1, 0u32);
        }
        libc::syscall(libc::SYS_close_range, keep + 1, u32::MAX, 0u32);
    }
}

fn errno() -> i32 {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() }
}

/// The next message; `None` when the maker is gone.
fn read_message(fd: RawFd) -> Option<i32> {
    let mut bytes = [0u8; 4];
    loop {
        // SAFETY: the buffer is four bytes long.
        let got = unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), 4) };
        if got == 4 {
            return Some(i32::from_ne_bytes(bytes));
        }
        if got != -1 || errno() != libc::EINTR {
            return None;
        }
    }
}

fn remember(groups: &mut [i32; GROUPS_MAX], message: i32) {
    let (wanted, new) = if message > 0 {
        (0, message)
    } else {
        (-message, 0)
    };
    if let Some(slot) = groups.iter_mut().find(|slot| **slot == wanted) {
        *slot = new;
    }
}

/// Writes every process id of `procs` into `refuge`.
fn move_tasks(procs: &CStr, refuge: &CStr) {
    let mut text = [0u8; 4096];
    // SAFETY: valid strings, a buffer with its own length, descriptors closed once.
    unsafe {
        let from = libc::open(procs.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let to = libc::open(refuge.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if from >= 0 && to >= 0 {
            let got = libc::read(from, text.as_mut_ptr().cast(), text.len()).max(0) as usize;
            for pid in text[..got].split(|byte| *byte == b'\n') {
                if !pid.is_empty() {
                    libc::write(to, pid.as_ptr().cast(), pid.len());
                }
            }
        }
        for fd in [from, to] {
            if fd >= 0 {
                libc::close(fd);
            }
        }
    }
}
