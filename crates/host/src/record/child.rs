//! A command that is described before it does anything: it stops itself, inside its group.

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

/// A started command; it is ended on drop.
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
    fn drop(&mut self) {
        if !self.reaped && self.ended().is_none() {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}
