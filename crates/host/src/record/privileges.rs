//! The capabilities that a recorder gives up once its trace is open.
//!
//! Root is needed to open a trace buffer or to load programs. From then on the recorder copies
//! bytes that anybody could have influenced, such as names of threads, so it goes on with what the
//! copying needs and nothing else. Its watchman, a process that only waits, and the recorded
//! command keep what they were started with.
//!
//! Worked example: `sudo schedcast record -o rec` begins with 41 capabilities. With tracefs it goes
//! on with `CAP_DAC_OVERRIDE` alone, because `rec` belongs to the user who called sudo; in root's
//! own folder it goes on with none, and `CapEff` of its `/proc/PID/status` is 0.

use std::fs;
use std::os::unix::fs::MetadataExt;

use caps::{CapSet, Capability, CapsHashSet};

use super::{Request, Way};
use crate::error::{HostError, Result, io_error};
use crate::sys;

/// Gives up every capability of the calling thread that the recording does not need from now on,
/// and the ways to get one back: by inheritance, and by a program that it would start. It is made
/// by `way`, after the events are on.
///
/// # Errors
/// The kernel refuses, or the folder cannot be looked at.
pub(super) fn give_up(way: Way, request: &Request) -> Result<()> {
    let failed = |error: caps::errors::CapsError| HostError::unavailable("giving up rights", error);
    let permitted = caps::read(None, CapSet::Permitted).map_err(failed)?;
    let kept = needed(way, request)?;
    let kept: CapsHashSet = permitted.intersection(&kept).copied().collect();
    sys::forbid_new_privileges()
        .map_err(|error| io_error("giving up rights for", &request.folder, error))?;
    // Before the permitted set, of which each of the other sets is a part.
    caps::clear(None, CapSet::Inheritable).map_err(failed)?;
    caps::set(None, CapSet::Effective, &kept).map_err(failed)?;
    caps::set(None, CapSet::Permitted, &kept).map_err(failed)
}

/// Capabilities that a recording needs until its end.
fn needed(way: Way, request: &Request) -> Result<CapsHashSet> {
    let folder = &request.folder;
    let mut needed = CapsHashSet::new();
    if !request.command.is_empty() {
        // The command may have become another user, and is ended when the time is over.
        needed.insert(Capability::CAP_KILL);
    }
    if way == Way::Bpf {
        // Up to 6.4 every bpf(2) asks for it where `kernel.unprivileged_bpf_disabled` is set, also
        // one that reads a counter of the process's own map (1d28635abcf1).
        needed.insert(Capability::CAP_BPF);
    }
    let there = fs::metadata(folder).map_err(|error| io_error("looking at", folder, error))?;
    if there.uid() != sys::user() {
        needed.insert(Capability::CAP_DAC_OVERRIDE);
    }
    Ok(needed)
}
