//! Settings written to a real cgroup so that they can be taken back.
//!
//! ```text
//! wish ──► plan: which files, in which order ──► journal on disk ──► write ──► read back
//!                                                    │                 │ refused: back to the saved values
//!                                                  undo ◄──────────────┘
//! ```
//!
//! Worked example: a v1 group has 50 000 us in 100 000 us and is to get 20 000 us in 50 000 us with
//! 10 000 us of burst. The journal keeps the text of all five files. Then the period is written
//! (50/50), the quota (20/50), the burst (20 ≥ 10). Whatever ends the process in between, `undo`
//! finds the journal and writes from whatever stands there now back to the saved values, in an
//! order of its own.
//!
//! Groups that kubelet or systemd keep are refused: they would write their own values again.

use std::path::{Path, PathBuf};

use crate::cgroup::CpuCgroup;
use crate::error::{HostError, Result, io_error, unexpected};
use crate::files::CpuFile;
use crate::hierarchy::CgroupVersion;
use crate::sys;
use schedcast_base::cpu_max::{CpuMax, Quota, parse_burst_us};
use schedcast_base::limits::{self, CpuLimits};

mod journal;
#[cfg(test)]
mod tests;

pub use journal::Journal;
use journal::Lock;
pub(crate) use journal::Saved;

/// Where journals are kept unless told otherwise.
pub const JOURNALS: &str = "/var/lib/schedcast/undo";

/// Settings that a group should have; `None` leaves a setting as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// CPU time a period.
    pub quota: Option<Quota>,
    /// Length of a period, µs.
    pub period_us: Option<u64>,
    /// Quota that may be kept for later periods, µs.
    pub burst_us: Option<u64>,
    /// v2 `cpu.weight`; on v1 the `cpu.shares` of equal weight.
    pub weight: Option<u64>,
    /// v1 `cpu.shares`; on v2 the `cpu.weight` nearest to it.
    pub shares: Option<u64>,
    /// `cpu.idle`.
    pub idle: Option<bool>,
}

impl Wish {
    /// Adds a setting as typed: a cpu file of either version and its value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let file = CpuFile::from_name(key)?;
        let refuse = |rule| HostError::Refused {
            path: PathBuf::from(key),
            value: value.to_owned(),
            rule,
            parent: None,
        };
        match file {
            CpuFile::Max => {
                let written = CpuMax::parse(value).map_err(refuse)?;
                self.quota = Some(written.quota);
                self.period_us = written.period_us.or(self.period_us);
            }
            CpuFile::CfsQuotaUs => {
                let quota_us = limits::parse_cfs_quota_us(value).map_err(refuse)?;
                self.quota = Some(Quota::from(quota_us));
            }
            CpuFile::CfsPeriodUs => {
                self.period_us = Some(limits::parse_u64(file.name(), value).map_err(refuse)?);
            }
            CpuFile::MaxBurst => self.burst_us = Some(parse_burst_us(value).map_err(refuse)?),
            CpuFile::CfsBurstUs => {
                self.burst_us = Some(limits::parse_u64(file.name(), value).map_err(refuse)?);
            }
            CpuFile::Weight => self.weight = Some(limits::parse_weight(value).map_err(refuse)?),
            CpuFile::Shares => self.shares = Some(limits::parse_shares(value).map_err(refuse)?),
            CpuFile::Idle => self.idle = Some(limits::parse_idle(value).map_err(refuse)?),
        }
        Ok(())
    }

    fn limits(&self, current: CpuLimits) -> CpuLimits {
        let period_us = self.period_us.unwrap_or(current.period_us);
        let quota = self.quota.map(|quota| quota.of_period_us(period_us));
        CpuLimits {
            quota_us: quota.unwrap_or(current.quota_us),
            period_us,
            burst_us: self.burst_us.unwrap_or(current.burst_us),
        }
    }

    /// The file and value of the weight, in the words of `version`.
    fn weight(&self, version: CgroupVersion) -> Option<(CpuFile, String)> {
        match (version, self.weight, self.shares) {
            (CgroupVersion::V1, Some(weight), _) => {
                let shares = limits::shares_from_weight(weight);
                Some((CpuFile::Shares, shares.to_string()))
            }
            (CgroupVersion::V1, None, Some(shares)) => Some((CpuFile::Shares, shares.to_string())),
            (CgroupVersion::V2, Some(weight), _) => Some((CpuFile::Weight, weight.to_string())),
            (CgroupVersion::V2, None, Some(shares)) => {
                let weight = limits::weight_from_shares(shares);
                let weight = weight.clamp(limits::WEIGHT_MIN, limits::WEIGHT_MAX);
                Some((CpuFile::Weight, weight.to_string()))
            }
            (_, None, None) => None,
        }
    }
}

/// One write of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The file.
    pub file: CpuFile,
    /// Text to write to the file.
    pub value: String,
}

/// Events of an apply or undo, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The previous values are safe on disk.
    Saved(PathBuf),
    /// A write was made.
    Wrote(Write),
}

/// The writes that bring `group` to `wish`, in an order that the kernel accepts at every step.
/// Files that have their value already are left out.
pub fn plan(group: &CpuCgroup, wish: &Wish) -> Result<Vec<Write>> {
    let mut writes = Vec::new();
    let mut push = |file: CpuFile, value: String| writes.push(Write { file, value });
    let idle_now = group.read(CpuFile::Idle).is_ok_and(|text| text == "1");
    // A group with cpu.idle 1 refuses a weight.
    if idle_now && wish.idle == Some(false) {
        push(CpuFile::Idle, "0".to_owned());
    }
    for (file, value) in group.limit_writes(&wish.limits(group.limits()?))? {
        push(file, value);
    }
    if let Some((file, value)) = wish.weight(group.version())
        && ((idle_now && wish.idle == Some(false)) || group.read(file)? != value)
    {
        push(file, value);
    }
    if !idle_now && wish.idle == Some(true) {
        push(CpuFile::Idle, "1".to_owned());
    }
    Ok(writes)
}

/// The writes of [`apply`], which would be refused where this one is.
///
/// # Errors
/// As [`apply`]; a file of the group, or a folder of journals, that this user cannot write.
pub fn rehearse(group: &CpuCgroup, wish: &Wish, journals: &Path) -> Result<Vec<Write>> {
    let writes = plan(group, wish)?;
    for write in &writes {
        let path = group.dir().join(write.file.name());
        sys::refuse_unwritable(&path).map_err(|error| io_error("writing", &path, error))?;
    }
    // A relative folder lies in the working directory.
    let mut above = journals
        .ancestors()
        .map(|folder| match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        });
    let there = above.find(|folder| folder.exists());
    if let Some(folder) = there.filter(|_| !writes.is_empty()) {
        sys::refuse_unwritable(folder)
            .map_err(|error| io_error("keeping journals in", journals, error))?;
    }
    Ok(writes)
}

/// Brings `group` to `wish`, or leaves it as it was. The previous values are on disk below
/// `journals` before the first write; a journal that is there already, of an earlier apply, is
/// kept, so that an undo goes back to the very beginning. `notice` is told every step.
///
/// # Errors
/// Refusals by the kernel or the rules; nothing is changed then.
pub fn apply(
    group: &CpuCgroup,
    wish: &Wish,
    journals: &Path,
    notice: &mut dyn FnMut(&Step),
) -> Result<Vec<Write>> {
    let _lock = Lock::take(journals)?;
    let writes = plan(group, wish)?;
    if writes.is_empty() {
        return Ok(writes);
    }
    let now = Saved::read(group)?;
    now.refuse_without(group, &writes)?;
    let (journal, fresh) = Journal::open_or_save(journals, group, &now, &writes)?;
    notice(&Step::Saved(journal.path().to_owned()));
    if let Err(error) = make(group, &writes, notice) {
        // Back to what stood there a moment ago; the journal of an earlier apply stays.
        restore(group, &now, notice)?;
        if fresh {
            journal.remove()?;
        }
        return Err(error);
    }
    Ok(writes)
}

/// Writes and reads back.
fn make(group: &CpuCgroup, writes: &[Write], notice: &mut dyn FnMut(&Step)) -> Result<()> {
    for write in writes {
        group.write(write.file, &write.value)?;
        notice(&Step::Wrote(write.clone()));
    }
    let last_of = |file: CpuFile| writes.iter().rev().find(|write| write.file == file);
    for write in writes {
        let found = group.read(write.file)?;
        let wanted = last_of(write.file).map_or("", |last| last.value.as_str());
        // The kernel shows any negative quota as -1, and nothing else differs from what is written.
        if found != wanted {
            return Err(unexpected(
                group.dir().join(write.file.name()),
                1,
                "the value just written",
                found,
            ));
        }
    }
    Ok(())
}

/// Writes `saved` back, from whatever stands there, and makes sure of every byte.
fn restore(group: &CpuCgroup, saved: &Saved, notice: &mut dyn FnMut(&Step)) -> Result<Vec<Write>> {
    let writes = plan(group, &saved.wish()?)?;
    make(group, &writes, notice)?;
    for (file, text) in &saved.files {
        let found = group.read(*file)?;
        if found != *text {
            return Err(unexpected(
                group.dir().join(file.name()),
                1,
                "the value from before the apply",
                found,
            ));
        }
    }
    Ok(writes)
}

/// Forgets the journal of a group that is gone, and with it what was written.
///
/// # Errors
/// A journal that is not there, or that this user cannot remove.
pub fn forget(path: &str, journals: &Path) -> Result<()> {
    let _lock = Lock::take(journals)?;
    Journal::of_path(journals, path).remove()
}

/// Takes back what `apply` wrote to `group`, and forgets the journal. What somebody else set since
/// is overwritten where `is_forced` only.
///
/// # Errors
/// No journal of this group; a value that somebody else set; what the kernel refuses. The journal
/// stays then. A journal of a group
/// that is gone, and with it what was written: nothing is touched, and the journal is forgotten.
pub fn undo(
    group: &CpuCgroup,
    journals: &Path,
    is_forced: bool,
    notice: &mut dyn FnMut(&Step),
) -> Result<Vec<Write>> {
    // Without a journal nothing is made, not even the lock.
    Journal::open(journals, group)?;
    let _lock = Lock::take(journals)?;
    let found = Journal::open(journals, group)?;
    if !found.of_this_group {
        found.journal.remove()?;
        return Err(HostError::Told(format!(
            "nothing to undo for {}: the group that was changed is gone, and this one was made \
             later; it stays as it is",
            group.path()
        )));
    }
    if !is_forced {
        found.refuse_foreign(group)?;
    }
    let writes = restore(group, &found.saved, notice)?;
    found.journal.remove()?;
    Ok(writes)
}
