//! Helpers that the tests of the closed loop share.

use std::collections::BTreeMap;

use schedcast_host::{CpuCgroup, CpuFile, CpuTimes};

/// A tick of `/proc/stat`, ns.
const TICK_NS: u64 = 10_000_000;

/// Share of the machine that other programs and the hypervisor took since `before`, 0 to 1;
/// `own_ns` were ours.
pub(crate) fn others_ratio(before: &CpuTimes, own_ns: u64) -> f64 {
    let now = CpuTimes::read().unwrap();
    let busy = (now.busy_ticks - before.busy_ticks).saturating_sub(own_ns / TICK_NS);
    let total = (now.total_ticks - before.total_ticks).max(1);
    (busy + now.steal_ticks - before.steal_ticks) as f64 / total as f64
}

/// Contents of the files of a group that a limit is written to.
#[allow(dead_code, reason = "not every test of the loop restores files")]
pub(crate) fn files(group: &CpuCgroup) -> BTreeMap<&'static str, String> {
    let files = [
        CpuFile::CfsQuotaUs,
        CpuFile::CfsPeriodUs,
        CpuFile::CfsBurstUs,
        CpuFile::Shares,
    ];
    let read = |file: &CpuFile| (file.name(), group.read(*file).unwrap());
    files.iter().map(read).collect()
}
