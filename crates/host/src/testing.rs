//! Groups for tests on the running kernel.

use crate::cgroup::CpuCgroup;
use crate::hierarchy::{CgroupVersion, CpuHierarchy};
use crate::sys;

/// Whether groups of version 1 can be made here. The reason why not is printed.
pub fn has_groups() -> bool {
    let v1 = CpuHierarchy::detect().is_ok_and(|tree| tree.version() == CgroupVersion::V1);
    let can = sys::is_root() && v1;
    if !can {
        eprintln!("skipped: not root, or no cgroup v1 cpu controller");
    }
    can
}

/// A new group, where there can be one.
///
/// # Panics
/// When it cannot be made for another reason.
pub fn group(name: &str) -> Option<CpuCgroup> {
    let name = format!("schedcast-{name}-{}", std::process::id());
    has_groups().then(|| CpuCgroup::create("/", &name).unwrap())
}
