//! The names of the cpu controller's files and which cgroup version has which.

use crate::error::{HostError, Result};
use crate::hierarchy::CgroupVersion;

schedcast_base::named! {
    /// A writable file of the cpu controller.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum CpuFile {
        /// v1: 1024 is a normal group.
        Shares = "cpu.shares",
        /// v1: microseconds of a period.
        CfsQuotaUs = "cpu.cfs_quota_us",
        /// v1: length of a period.
        CfsPeriodUs = "cpu.cfs_period_us",
        /// v1: microseconds that may be carried over.
        CfsBurstUs = "cpu.cfs_burst_us",
        /// v2: 100 is a normal group.
        Weight = "cpu.weight",
        /// v2: quota and period.
        Max = "cpu.max",
        /// v2: microseconds that may be carried over.
        MaxBurst = "cpu.max.burst",
        /// Both versions: 1 makes the group run only when nothing else wants to.
        Idle = "cpu.idle",
    }
}

impl CpuFile {
    /// The version that has the file, and the file of the other version with the same effect;
    /// `None` where both have it.
    fn counterpart(self) -> Option<(CgroupVersion, CpuFile)> {
        use CgroupVersion::{V1, V2};
        Some(match self {
            CpuFile::Shares => (V1, CpuFile::Weight),
            CpuFile::CfsQuotaUs | CpuFile::CfsPeriodUs => (V1, CpuFile::Max),
            CpuFile::CfsBurstUs => (V1, CpuFile::MaxBurst),
            CpuFile::Weight => (V2, CpuFile::Shares),
            CpuFile::Max => (V2, CpuFile::CfsQuotaUs),
            CpuFile::MaxBurst => (V2, CpuFile::CfsBurstUs),
            CpuFile::Idle => return None,
        })
    }

    /// Whether one version's file sets what the other version's file sets.
    pub fn has_same_effect(self, other: CpuFile) -> bool {
        let instead = |file: CpuFile| file.counterpart().map(|(_, instead)| instead);
        instead(self) == Some(other) || instead(other) == Some(self)
    }

    /// The file of a name, whatever the version.
    pub(crate) fn from_name(name: &str) -> Result<Self> {
        let unknown = || HostError::UnknownFile { name: name.into() };
        CpuFile::named(name).ok_or_else(unknown)
    }

    /// Refuses the file when the host's version does not have it, naming the one that does the
    /// same.
    pub(crate) fn check_version(self, here: CgroupVersion) -> Result<()> {
        match self.counterpart() {
            Some((belongs, instead)) if belongs != here => Err(HostError::Told(format!(
                "{} is a cgroup {} file, and the cpu controller here is cgroup {}; use {}",
                self.name(),
                belongs.name(),
                here.name(),
                instead.name()
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
