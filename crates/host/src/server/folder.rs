//! A folder that goes with its value, and with this process.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::error::{HostError, Result, io_error};
use crate::sys;

/// A folder, and a shell that removes it when this process dies: it waits for the end of a pipe
/// that closes with the process.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    watchman: Child,
}

impl Folder {
    /// Makes one below `place`.
    pub(super) fn create(place: &Path) -> Result<Folder> {
        let path = sys::make_folder(place, "schedcast-server-")
            .map_err(|source| io_error("creating a folder in", place, source))?;
        // The server that ends with this process gets a moment to do so.
        let watchman = Command::new("sh")
            .args(["-c", "cat > /dev/null; sleep 1; rm -rf -- \"$0\""])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C ends the others.
            .process_group(0)
            .spawn()
            .map_err(|source| HostError::start("sh".to_owned(), source))?;
        Ok(Folder { path, watchman })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing more can be done about it, and the name says what it was.
        drop(std::fs::remove_dir_all(&self.path));
        drop(self.watchman.kill());
        drop(self.watchman.wait());
    }
}
