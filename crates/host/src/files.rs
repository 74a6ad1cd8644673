//! The names of the cpu controller's files and which cgroup version has which.

use crate::error::{HostError, Result};
use crate::hierarchy::CgroupVersion;

/// A writable file of the cpu controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuFile {
    /// v1 `cpu.shares`: 1024 is a normal group.
    Shares,
    /// v1 `cpu.cfs_quota_us`.
    CfsQuotaUs,
    /// v1 `cpu.cfs_period_us`.
    CfsPeriodUs,
    /// v1 `cpu.cfs_burst_us`.
    CfsBurstUs,
    /// v2 `cpu.weight`: 100 is a normal group.
    Weight,
    /// v2 `cpu.max`: quota and period.
    Max,
    /// v2 `cpu.max.burst`.
    MaxBurst,
    /// `cpu.idle`, in both versions: 1 makes the group run only when nothing else wants to.
    Idle,
}

/// One row a file: the file, its name, the version that has it (none: both), its counterpart.
const TABLE: [(CpuFile, &str, Option<CgroupVersion>, Option<&str>); 8] = {
    use CgroupVersion::{V1, V2};
    [
        (CpuFile::Shares, "cpu.shares", Some(V1), Some("cpu.weight")),
        (
            CpuFile::CfsQuotaUs,
            "cpu.cfs_quota_us",
            Some(V1),
            Some("cpu.max"),
        ),
        (
            CpuFile::CfsPeriodUs,
            "cpu.cfs_period_us",
            Some(V1),
            Some("cpu.max"),
        ),
        (
            CpuFile::CfsBurstUs,
            "cpu.cfs_burst_us",
            Some(V1),
            Some("cpu.max.burst"),
        ),
        (CpuFile::Weight, "cpu.weight", Some(V2), Some("cpu.shares")),
        (CpuFile::Max, "cpu.max", Some(V2), Some("cpu.cfs_quota_us")),
        (
            CpuFile::MaxBurst,
            "cpu.max.burst",
            Some(V2),
            Some("cpu.cfs_burst_us"),
        ),
        (CpuFile::Idle, "cpu.idle", None, None),
    ]
};

impl CpuFile {
    fn row(
        self,
    ) -> &'static (
        CpuFile,
        &'static str,
        Option<CgroupVersion>,
        Option<&'static str>,
    ) {
        TABLE
            .iter()
            .find(|row| row.0 == self)
            .expect("every file has a row")
    }

    /// The file's name.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The file of a name, whatever the version.
    pub(crate) fn from_name(name: &str) -> Result<Self> {
        TABLE
            .iter()
            .find(|row| row.1 == name)
            .map(|row| row.0)
            .ok_or_else(|| HostError::UnknownFile {
                name: name.to_owned(),
            })
    }

    /// Refuses the file when the host's version does not have it, naming the one that does the
    /// same.
    pub(crate) fn check_version(self, here: CgroupVersion) -> Result<()> {
        let (_, file, version, instead) = *self.row();
        match version {
            Some(belongs) if belongs != here => Err(HostError::OtherVersion {
                file,
                belongs: belongs.name(),
                here: here.name(),
                instead,
            }),
            _ => Ok(()),
        }
    }
}

/// The cpu files of both versions, for messages.
pub fn names() -> [&'static str; 8] {
    TABLE.map(|row| row.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_files_and_back() {
        for (file, name, _, _) in TABLE {
            assert_eq!(file.name(), name);
            assert_eq!(CpuFile::from_name(name).unwrap(), file);
        }
    }

    #[test]
    fn unknown_names_get_the_nearest() {
        let error = CpuFile::from_name("cpu.max.brust").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no cpu file `cpu.max.brust`; nearest valid name: `cpu.max.burst`"
        );
        let error = CpuFile::from_name("memory.high").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no cpu file `memory.high`; valid names: `cpu.shares`, `cpu.cfs_quota_us`, `cpu.cfs_period_us`, \
             `cpu.cfs_burst_us`, `cpu.weight`, `cpu.max`, `cpu.max.burst`, `cpu.idle`"
        );
    }

    #[test]
    fn files_of_the_other_version_are_refused() {
        assert!(CpuFile::Idle.check_version(CgroupVersion::V1).is_ok());
        assert!(CpuFile::Max.check_version(CgroupVersion::V2).is_ok());
        let error = CpuFile::Max.check_version(CgroupVersion::V1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cpu.max is a cgroup v2 file, and the cpu controller here is cgroup v1; \
             use cpu.cfs_quota_us"
        );
    }
}
