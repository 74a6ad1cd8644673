//! Jobs of a recording: a run goes on beyond the recorded end until those of the group in question
//! have ended.
//!
//! Worked example: a build took 2.5 s without a limit, and 10.6 s under half a CPU. Its recording
//! is 2.6 s long; the run under half a CPU goes on until the build has ended. Nothing but the
//! recorded threads runs then, and nothing comes from outside.

use schedcast_base::groups::is_within;
use schedcast_kernel::Ns;
use schedcast_sim::workload::JobSpec;
use schedcast_sim::{Core, RunError, World};

use super::{Advance, LOOK_EVERY_NS};

/// A job is waited for until its run is so many times as long as its recording: longer than under a
/// limit of a hundredth of what it used.
const TIMES_MAX: u64 = 100;
/// A job stands still if nothing uses CPU time for as long as the recording, in which all of its
/// sleeps have room, and for this long: sixty of the longest periods (`max_bw_quota_period_us` is
/// one second). A group that overran a quota of 1 ms in each of them by a tick of 10 ms waits ten.
const STANDS_STILL_NS: Ns = 60_000_000_000;

/// Whether a job of `group` and those below it has not ended.
fn are_under_way<K: Core>(world: &World<false, K>, group: &str) -> bool {
    let metrics = &world.probes().metrics;
    let workload = world.workload();
    let path = |job: &JobSpec| workload.groups[job.group.index() - 1].path.as_str();
    let mut jobs = workload
        .jobs
        .iter()
        .filter(|job| is_within(path(job), group));
    jobs.any(|job| metrics[job.metric.0 as usize].values.count() == 0)
}

/// Runs on from `end_ns`, the recorded end, until all jobs of `group` have ended or stand still.
pub(super) fn finish<K: Core>(
    world: &mut World<false, K>,
    group: &str,
    end_ns: Ns,
    run: Advance<'_, K>,
) -> Result<(), RunError> {
    let used = |world: &World<false, K>| -> Ns {
        let names = world.probes().names.iter();
        names.map(|name| name.all_charged_ns()).sum()
    };
    let (mut last, mut since_ns) = (used(world), world.now());
    while are_under_way(world, group) && world.now() < end_ns.saturating_mul(TIMES_MAX) {
        run(world, world.now() + LOOK_EVERY_NS)?;
        let now = used(world);
        if now != last {
            (last, since_ns) = (now, world.now());
        } else if world.now() - since_ns > end_ns.max(STANDS_STILL_NS) {
            break;
        }
    }
    Ok(())
}
