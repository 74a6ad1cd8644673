//! A recording without its trace: the machine, and the cgroups before and after.

use std::path::Path;

use super::cgroups::{CgroupTree, CgroupsFile};
use super::meta::Meta;
use crate::error::{ErrorKind, ReadError};
use crate::json;

/// `recording.json` and both trees of `cgroups.json`. The folder may have no trace.
#[derive(Clone, Debug)]
pub struct Snapshots {
    /// Machine and kernel, as far as known.
    pub meta: Meta,
    /// The cgroups at the start.
    pub before: CgroupTree,
    /// The cgroups at the end.
    pub after: CgroupTree,
}

impl Snapshots {
    /// Reads the folder.
    ///
    /// # Errors
    /// If a file cannot be read, contradicts itself, or lacks the state at the end.
    pub fn open(folder: &Path) -> Result<Snapshots, ReadError> {
        let meta_path = folder.join("recording.json");
        let meta: Meta = json::read(&meta_path)?;
        if let Some(message) = meta.contradiction() {
            return Err(ReadError::new(ErrorKind::Malformed, &meta_path, message));
        }
        let cgroups = folder.join("cgroups.json");
        let file: CgroupsFile = json::read(&cgroups)?;
        let after = file.after.ok_or_else(|| {
            let message = "expected the key `after`: counters are told by their growth";
            ReadError::new(ErrorKind::Malformed, &cgroups, message)
        })?;
        Ok(Snapshots {
            meta,
            before: file.before,
            after,
        })
    }
}
