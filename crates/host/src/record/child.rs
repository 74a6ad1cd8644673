//! A command that is described before it does anything: it stops itself, inside its group.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{HostError, Result};
use crate::{sys, vm};

/// Joins the groups whose files `$0` names, a line each, stops, and becomes the command once it is
/// let go on.
const SCRIPT: &str = "IFS='
'; for file in $0; do echo 0 > \"$file\" || exit 126; done; kill -STOP $$; exec \"$@\"";
/// How long a shell may take to stop itself.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a command may take to end after SIGTERM, as with `docker stop`.
const GRACE: Duration = Duration::from_secs(10);
/// How often it is looked whether the command has ended meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(10);

fn failed(command: &[String], source: std::io::Error) -> HostError {
    HostError::start(command.join(" "), source)
}

/// Refuses a command whose program does not exist, before anything is made for its recording.
///
/// # Errors
/// No such file, or none of that name in the folders of `PATH`.
pub(super) fn refuse_missing(command: &[String]) -> Result<()> {
    match command.first() {
        Some(program) if vm::find_program(program).is_none() => {
            let missing = std::io::Error::other("there is no such program");
            Err(failed(command, missing))
        }
        _ => Ok(()),
    }
}

/// A started command, which leads a process group of its own; the group is ended on drop.
#[derive(Debug)]
pub(super) struct Child {
    process: std::process::Child,
    reaped: bool,
}

impl Child {
    /// Starts `command` in the group at these folders, one for each controller, and waits until it
    /// has stopped itself; `None` without one.
    pub(super) fn start_stopped(command: &[String], folders: &[PathBuf]) -> Result<Option<Child>> {
        if command.is_empty() {
            return Ok(None);
        }
        let procs = folders.iter().map(|folder| folder.join("cgroup.procs"));
        let procs: Vec<String> = procs.map(|file| file.display().to_string()).collect();
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", SCRIPT, &procs.join("\n")])
            .args(command)
            .process_group(0)
            .stdin(Stdio::null());
        // A recorder that is killed cannot let it go on.
        sys::end_with_parent(&mut shell);
        let process = shell.spawn().map_err(|source| failed(command, source))?;
        let mut child = Child {
            process,
            reaped: false,
        };
        let deadline = Instant::now() + PATIENCE;
        while !child.stopped() {
            if child.ended().is_some() || Instant::now() > deadline {
                let late = std::io::Error::other("it could not join its group");
                return Err(failed(command, late));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Some(child))
    }

    /// State `T` in `/proc/PID/stat`, behind the name in brackets.
    fn stopped(&self) -> bool {
        let path = format!("/proc/{}/stat", self.process.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('T'))
    }

    /// Lets it become the command.
    pub(super) fn go_on(&self) {
        sys::send_continue(self.process.id() as i32);
    }

    /// Its exit code once it has ended; −1 if a signal ended it.
    pub(super) fn ended(&mut self) -> Option<i32> {
        let status = self.process.try_wait().ok()??;
        self.reaped = true;
        Some(status.code().unwrap_or(-1))
    }
}

impl Drop for Child {
    /// Asks every process of the command's group to end, waits, and kills those that are left. A
    /// command that ended by itself keeps what it left running.
    fn drop(&mut self) {
        if self.reaped || self.ended().is_some() {
            return;
        }
        let group = self.process.id() as i32;
        let deadline = Instant::now() + GRACE;
        sys::terminate_process_group(group);
        while self.ended().is_none() || sys::has_process_group(group) {
            if Instant::now() > deadline {
                sys::kill_process_group(group);
                let _ = self.process.wait();
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a script until it has written its first line, ends it, and returns what it wrote and
    /// how long its end took.
    fn ended(script: &str) -> (String, Duration) {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("written");
        let script = format!("exec >> {}; {script}", file.display());
        let command = ["sh", "-c", &script].map(str::to_owned);
        let child = Child::start_stopped(&command, &[]).unwrap().unwrap();
        child.go_on();
        let written = || std::fs::read_to_string(&file).unwrap_or_default();
        while !written().ends_with('\n') {
            std::thread::sleep(LOOK_EVERY);
        }
        let begun = Instant::now();
        drop(child);
        (written(), begun.elapsed())
    }

    #[test]
    fn a_command_that_is_ended_cleans_up_and_leaves_no_process() {
        let (written, took) = ended(
            "work() { for _ in $(seq 300); do sleep 0.01; done; }; \
             trap 'echo cleaned; exit' TERM; (trap 'echo child; exit' TERM; echo; work) & work",
        );
        assert!(took < GRACE, "{took:?}");
        let mut lines: Vec<&str> = written.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["", "child", "cleaned"]);
    }

    #[test]
    fn a_command_that_never_went_on_is_ended_at_once() {
        let child = Child::start_stopped(&["true".to_owned()], &[]).unwrap();
        let begun = Instant::now();
        drop(child);
        assert!(begun.elapsed() < GRACE);
    }
}
