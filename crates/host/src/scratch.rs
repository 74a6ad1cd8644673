//! Folders for temporary files.
//!
//! Every user may write to `/tmp`. A name that can be guessed, such as one made of a process
//! number, can be prepared: as a folder of another user, or as a link to a file that root may
//! write. So the kernel makes the folder, under a random name, and only its owner may enter it.

use std::path::{Path, PathBuf};

use crate::error::{Result, io_error};
use crate::sys;

/// A folder of its own, removed with all that is in it when it is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// One in the folder for temporary files; its name begins with `begin`.
    ///
    /// # Errors
    /// A folder for temporary files that takes none.
    pub fn new(begin: &str) -> Result<Scratch> {
        Scratch::below(&std::env::temp_dir(), begin)
    }

    /// One in `place`.
    ///
    /// # Errors
    /// As [`Scratch::new`].
    pub(crate) fn below(place: &Path, begin: &str) -> Result<Scratch> {
        let path = sys::make_folder(place, begin);
        Ok(Scratch(path.map_err(|error| {
            io_error("creating a folder in", place, error)
        })?))
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that cannot be removed stays as one more temporary file.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn each_folder_is_new_and_its_owners_only() {
        let place = tempfile::tempdir().unwrap();
        let [first, second] = [(); 2].map(|()| Scratch::below(place.path(), "one-").unwrap());
        assert_ne!(first.path(), second.path());
        let name = first.path().file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("one-") && name.len() == 10, "{name}");
        let there = std::fs::metadata(first.path()).unwrap();
        assert_eq!((there.mode() & 0o777, there.uid()), (0o700, sys::user()));
        std::fs::write(first.path().join("file"), "").unwrap();
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists() && second.path().exists());
    }
}
