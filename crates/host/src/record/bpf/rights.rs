//! Whether recording with BPF can work here, and what would help where it cannot.
//!
//! Worked example: a pod with `CAP_BPF` and without `CAP_PERFMON` may make maps and may not load
//! programs that read the kernel's memory. It is told "needs CAP_PERFMON" before anything is made.

use std::fs;
use std::io;
use std::path::Path;

/// Where the kernel describes its types.
pub(crate) const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

// Bits of capabilities (`include/uapi/linux/capability.h`).
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// The oldest kernel that has what the programs use: the current task with its type
/// (`bpf_get_current_task_btf`, Linux 5.11). Ring buffers and the two capabilities came with 5.8.
const OLDEST: (u32, u32) = (5, 11);

/// Why a kernel that is locked down as far as possible shows no events, if it is; `root` as for
/// [`Rights::read`].
#[must_use]
pub(crate) fn lockdown(root: &Path) -> Option<&'static str> {
    let levels = fs::read_to_string(root.join("sys/kernel/security/lockdown"));
    let is_on = levels.is_ok_and(|levels| levels.contains("[confidentiality]"));
    is_on.then_some(
        "kernel lockdown is at confidentiality, which hides the kernel's memory and events; lockdown=integrity at boot would allow it",
    )
}

/// Facts about kernel and process that decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    effective: u64,
    /// Version, and the release as the kernel calls itself.
    version: Option<(u32, u32)>,
    release: String,
    has_btf: bool,
    lockdown: Option<&'static str>,
}

impl Rights {
    /// Reads them from the files below `root`, `/` but for tests.
    #[must_use]
    pub(crate) fn read(root: &Path) -> Rights {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let status = text("proc/self/status");
        let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let release = text("proc/sys/kernel/osrelease").trim().to_owned();
        let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
        let mut number = || numbers.next()?.parse().ok();
        Rights {
            effective: hex.map_or(0, |hex| u64::from_str_radix(hex.trim(), 16).unwrap_or(0)),
            version: number().zip(number()),
            release,
            has_btf: root.join(VMLINUX.trim_start_matches('/')).exists(),
            lockdown: lockdown(root),
        }
    }

    /// Why it cannot work, with what would help; `None` if nothing is known against it.
    #[must_use]
    pub(crate) fn refusal(&self) -> Option<String> {
        if cfg!(target_endian = "big") {
            return Some("it is for little-endian machines".to_owned());
        }
        if self.version.is_some_and(|version| version < OLDEST) {
            let (major, minor) = OLDEST;
            let release = &self.release;
            return Some(format!(
                "it needs Linux {major}.{minor} or later, and this is {release}"
            ));
        }
        if !self.has_btf {
            return Some(format!(
                "there is no {VMLINUX}; a kernel with CONFIG_DEBUG_INFO_BTF=y has it, and a container needs /sys mounted"
            ));
        }
        if let Some(why) = self.lockdown {
            return Some(why.to_owned());
        }
        let lacks = self.missing();
        if !lacks.is_empty() {
            let lacks = lacks.join(" and ");
            return Some(format!(
                "it needs {lacks}, which this process does not have"
            ));
        }
        None
    }

    /// The capabilities that it lacks.
    #[must_use]
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let has = |bit: u32| self.effective >> bit & 1 == 1;
        let needed = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")];
        let lacking = needed
            .iter()
            .filter(|(bit, _)| !has(CAP_SYS_ADMIN) && !has(*bit));
        lacking.map(|(_, name)| *name).collect()
    }

    /// Meaning of an error of `bpf(2)` for a process that has the capabilities.
    pub(super) fn explain(&self, doing: &str, error: &io::Error) -> String {
        let means = match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                "; a security policy forbids bpf(2): a seccomp profile, a user namespace or an LSM"
            }
            Some(libc::ENOSYS) => "; the kernel was built without CONFIG_BPF_SYSCALL",
            Some(libc::EINVAL) => "; this kernel does not know what was asked for",
            Some(libc::ENOMEM) => "; there is not enough memory for rings of 8 MB a CPU",
            _ => "",
        };
        format!("{doing} fails: {error}{means}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::assert_contains;

    fn rights(effective: u64, release: &str, files: &[(&str, &str)]) -> Rights {
        let root = tempfile::tempdir().unwrap();
        let status = format!("Name:\tx\nCapEff:\t{effective:016x}\n");
        let known = [
            ("proc/self/status", status.as_str()),
            ("proc/sys/kernel/osrelease", release),
        ];
        for (path, text) in known.iter().chain(files) {
            crate::fake::write(root.path(), path, text);
        }
        Rights::read(root.path())
    }

    const BTF: (&str, &str) = ("sys/kernel/btf/vmlinux", "");
    const BOTH: u64 = 1 << CAP_BPF | 1 << CAP_PERFMON;

    #[test]
    fn two_capabilities_are_enough() {
        assert_eq!(rights(BOTH, "6.18.44-1\n", &[BTF]).refusal(), None);
        assert_eq!(rights(1 << CAP_SYS_ADMIN, "5.11\n", &[BTF]).refusal(), None);
    }

    #[test]
    fn each_thing_that_is_missing_has_a_sentence() {
        for (effective, release, files, missing) in [
            (
                1 << CAP_BPF,
                "6.1.0",
                &[BTF][..],
                "it needs CAP_PERFMON, which this process does not have",
            ),
            (
                0,
                "6.1.0",
                &[BTF],
                "it needs CAP_BPF and CAP_PERFMON, which this process does not have",
            ),
            (
                BOTH,
                "5.4.0-200-generic",
                &[BTF],
                "it needs Linux 5.11 or later, and this is 5.4.0-200-generic",
            ),
            (BOTH, "6.1.0", &[], "CONFIG_DEBUG_INFO_BTF"),
        ] {
            let why = rights(effective, &format!("{release}\n"), files).refusal();
            assert_contains(why.unwrap(), missing);
        }
    }

    #[test]
    fn lockdown_is_named_and_a_refused_call_explained() {
        let levels = "none integrity [confidentiality]\n";
        let files = [BTF, ("sys/kernel/security/lockdown", levels)];
        let locked = rights(BOTH, "6.1.0\n", &files);
        assert!(locked.refusal().unwrap().contains("lockdown=integrity"));
        let denied = io::Error::from_raw_os_error(libc::EPERM);
        let said = rights(BOTH, "6.1.0\n", &[BTF]).explain("making a map", &denied);
        assert_contains(&said, ["making a map fails: ", "seccomp"]);
    }
}
