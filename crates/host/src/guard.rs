//! A watchman process that cleans up when the process that made a cgroup or a trace buffer dies,
//! however it dies.
//!
//! Destructors do not run on SIGKILL, on an abort or when a signal's default action ends the
//! process. So each created cgroup and trace instance has a forked child. The child itself makes
//! the directory and says so: whatever is there has a process that removes it. From then on it does
//! nothing but read a pipe. While the maker lives the pipe is silent. When the maker dies the
//! kernel closes its end; the watchman then kills the commands that ran in the group, moves
//! whatever is left into the group the maker came from, and removes the directory. When the maker
//! cleans up itself it dismisses the watchman first.
//!
//! Worked example: `record` dies by SIGKILL between two of its calls. The watchman reads the end of
//! the pipe and removes `instances/schedcast-record-4711-0`. It tries that up to 3,000 times at
//! 10 ms.
//!
//! Messages are four bytes: a positive number is a process group to kill on death, a negative one
//! takes it back, 0 dismisses.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
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
    /// Has a watchman make the cgroup directory `dir`; strays go to the cgroup directory `refuge`.
    pub(crate) fn for_cgroup(dir: &Path, refuge: &Path) -> io::Result<Self> {
        let charge = Charge {
            dir: c_path(dir)?,
            strays: Some((
                c_path(&dir.join("cgroup.procs"))?,
                c_path(&refuge.join("cgroup.procs"))?,
            )),
            root: None,
        };
        Self::start(dir, &charge)
    }

    /// Has a watchman make a trace instance below `root`, which stays open in it.
    pub(crate) fn for_trace(dir: &Path, root: Option<BorrowedFd>) -> io::Result<Self> {
        let charge = Charge {
            dir: c_path(dir)?,
            strays: None,
            root: root.map(|root| root.as_raw_fd()),
        };
        Self::start(dir, &charge)
    }

    fn start(dir: &Path, charge: &Charge) -> io::Result<Self> {
        // Not made here, so not to be removed here.
        if fs::symlink_metadata(dir).is_ok() {
            return Err(io::Error::from_raw_os_error(libc::EEXIST));
        }
        let (reader, pipe) = io::pipe()?;
        let (mut answers, answer) = io::pipe()?;
        let pid = sys::fork_child(|| watch(&reader, &answer, charge))?;
        // The watchman has its own copies of both.
        drop((reader, answer));
        let mut errno = [0u8; 4];
        let answered = answers.read_exact(&mut errno);
        if answered.is_ok() && errno == [0; 4] {
            return Ok(Self { pid, pipe });
        }
        drop(pipe);
        let _ = sys::reap(pid);
        if let Err(error) = answered {
            // Somebody killed it before it answered.
            clean_up(charge);
            return Err(error);
        }
        Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))
    }

    /// Asks that a process group be killed should the maker die.
    pub(crate) fn watch_group(&self, group: i32) {
        self.send(group);
    }

    /// Takes `watch_group` back.
    pub(crate) fn forget_group(&self, group: i32) {
        self.send(-group);
    }

    fn send(&self, message: i32) {
        // A watchman that was killed cannot be told anything; the maker still cleans up itself.
        let _ = (&self.pipe).write_all(&message.to_ne_bytes());
    }

    /// Ends the watchman without a clean-up.
    pub(crate) fn dismiss(self) {
        self.send(0);
        let _ = sys::reap(self.pid);
    }
}

/// Paths that a watchman makes and removes, as C strings made before the fork.
struct Charge {
    dir: CString,
    /// Where tasks left in a cgroup are listed, and where they are moved.
    strays: Option<(CString, CString)>,
    /// The open folder of a tracefs that `dir` is named by.
    root: Option<RawFd>,
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)
}

/// Body of the watchman. No allocation, no locks: see `sys::fork_child`.
fn watch(pipe: &PipeReader, answer: &PipeWriter, charge: &Charge) -> i32 {
    let fd = pipe.as_raw_fd();
    ignore_signals();
    let errno = make_dir(&charge.dir).map_or_else(|errno| errno, |()| 0);
    let _ = (&*answer).write_all(&errno.to_ne_bytes());
    if errno != 0 {
        return 0;
    }
    close_others(fd, charge.root);
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
    clean_up(charge);
    0
}

fn make_dir(dir: &CStr) -> Result<(), i32> {
    // SAFETY: `dir` is a valid string.
    let made = unsafe { libc::mkdir(dir.as_ptr(), 0o777) == 0 };
    made.then_some(()).ok_or_else(errno)
}

/// Removes the directory, as often as that takes.
fn clean_up(charge: &Charge) {
    for _ in 0..REMOVE_TRIES {
        if let Some((procs, refuge)) = &charge.strays {
            move_tasks(procs, refuge);
        }
        if remove_dir(&charge.dir) {
            return;
        }
        sys::sleep_until_ns(sys::monotonic_ns() + 10_000_000);
    }
}

fn remove_dir(dir: &CStr) -> bool {
    // SAFETY: `dir` is a valid string.
    unsafe { libc::rmdir(dir.as_ptr()) == 0 || errno() == libc::ENOENT }
}

/// Leaves the maker's process group and terminal signals behind.
fn ignore_signals() {
    // SAFETY: plain system calls.
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
    }
}

/// Leaves the maker's open files behind, but for two.
fn close_others(pipe: RawFd, root: Option<RawFd>) {
    let root = root.unwrap_or(pipe);
    let mut from = 0;
    for keep in [pipe.min(root), pipe.max(root)] {
        let keep = keep as u32;
        if keep > from {
            // SAFETY: closing every other descriptor is safe in this forked copy.
            unsafe { libc::syscall(libc::SYS_close_range, from, keep - 1, 0u32) };
        }
        from = keep + 1;
    }
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_close_range, from, u32::MAX, 0u32) };
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    /// Plain directories behave as those of cgroups do here.
    fn place() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn gone_within_10_s(path: &Path) -> bool {
        let is_there = || fs::symlink_metadata(path).is_ok();
        for _ in 0..1_000 {
            if !is_there() {
                return true;
            }
            sys::sleep_until_ns(sys::monotonic_ns() + 10_000_000);
        }
        false
    }

    #[test]
    fn a_watchman_makes_the_directory_and_removes_it_when_the_pipe_ends() {
        let place = place();
        let dir = place.path().join("group");
        let guard = Guard::for_cgroup(&dir, place.path()).unwrap();
        assert!(dir.is_dir());
        // The maker's death closes its end of the pipe.
        drop(guard);
        assert!(gone_within_10_s(&dir));
    }

    #[test]
    fn a_watchman_that_is_dismissed_removes_nothing() {
        let place = place();
        let dir = place.path().join("group");
        Guard::for_cgroup(&dir, place.path()).unwrap().dismiss();
        assert!(dir.is_dir());
    }

    #[test]
    fn a_directory_that_was_there_is_refused_and_stays() {
        let place = place();
        let error = Guard::for_cgroup(place.path(), place.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(place.path().is_dir());
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_told_with_the_kernels_answer() {
        let place = place();
        let dir = place.path().join("missing/group");
        let error = Guard::for_cgroup(&dir, place.path()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn a_watchman_keeps_the_folder_open_that_its_directory_is_named_by() {
        let place = place();
        let root = fs::File::open(place.path()).unwrap();
        let dir = Path::new("/proc/self/fd").join(root.as_raw_fd().to_string());
        let guard = Guard::for_trace(&dir.join("instance"), Some(root.as_fd())).unwrap();
        let there = place.path().join("instance");
        assert!(there.is_dir());
        drop(guard);
        assert!(gone_within_10_s(&there));
    }
}
