//! The rules of one kernel: version, patches, features and tunables, resolved once.
//!
//! Hot code reads plain fields of [`Rules`]; nothing compares versions while it simulates. Worked
//! example: kernel 6.18 on 8 CPUs at HZ=250. The base slice is normalised to 0.70 ms (since 6.15)
//! and scaled by 1 + ⌊log2 8⌋ = 4, so `base_slice_ns` is 2,800,000; the tick is 4,000,000 ns, so a
//! CPU-bound task really runs 4 ms at a time.

use crate::ids::Ns;

/// A kernel release, e.g. 6.12 or the stable 6.12.117.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Version {
    /// First number.
    pub major: u16,
    /// Second number.
    pub minor: u16,
    /// Stable patch level; 0 is the release as tagged.
    pub patch: u16,
}

impl Version {
    /// The release `major.minor` as tagged.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self {
            major,
            minor,
            patch: 0,
        }
    }

    /// Whether this is `major.minor` or later.
    pub const fn since(self, major: u16, minor: u16) -> bool {
        self.major > major || (self.major == major && self.minor >= minor)
    }
}

/// Which algorithm the fair class uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum FairClass {
    /// Up to 6.5: smallest vruntime first, buddies, sleeper credit.
    Cfs,
    /// From 6.6: earliest eligible virtual deadline first.
    Eevdf,
}

/// How a queued entity's virtual times change with its weight (EEVDF).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Reweight {
    /// 6.6: vruntime kept, relative deadline scaled.
    KeepVruntime,
    /// 6.7–6.12: lag and relative deadline scaled around V.
    ScaleLag,
    /// 6.13 on: lag scaled, then placed again.
    PlaceAgain,
}

/// How long a picked entity is protected from preemption by `RUN_TO_PARITY`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Protection {
    /// Up to 6.16: until its deadline changes.
    UntilDeadline,
    /// From 6.17: until `vprot`, bounded by the shortest queued slice.
    Vprot,
}

/// What happens to the tasks of a throttled queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ThrottleModel {
    /// Up to 6.17: the group entity is dequeued.
    Queue,
    /// From 6.18: each task leaves at its return to user mode.
    Task,
}

/// When and where tasks can be preempted in kernel mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Preemption {
    /// PREEMPT_NONE.
    None,
    /// PREEMPT_VOLUNTARY.
    Voluntary,
    /// PREEMPT.
    Full,
    /// PREEMPT_LAZY (6.13).
    Lazy,
}

/// Switches of `sched/features` by their kernel names. What a version does not have is `false`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // the names are the kernel's
pub struct Features {
    pub gentle_fair_sleepers: bool,
    pub start_debit: bool,
    pub next_buddy: bool,
    pub last_buddy: bool,
    pub pick_buddy: bool,
    pub cache_hot_buddy: bool,
    pub wakeup_preemption: bool,
    pub alt_period: bool,
    pub base_slice: bool,
    pub place_lag: bool,
    pub place_deadline_initial: bool,
    pub place_rel_deadline: bool,
    pub run_to_parity: bool,
    pub preempt_short: bool,
    pub delay_dequeue: bool,
    pub delay_zero: bool,
    pub ttwu_queue: bool,
    pub sis_prop: bool,
    pub sis_util: bool,
    pub wa_idle: bool,
    pub wa_weight: bool,
    pub wa_bias: bool,
    pub ni_random: bool,
    pub nontask_capacity: bool,
    pub util_est: bool,
    pub attach_age_load: bool,
    pub hrtick: bool,
}

/// Everything about one kernel that decisions depend on. Times in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    /// The release these rules are of.
    pub version: Version,
    /// Tick frequency, Hz.
    pub hz: u32,
    /// Tick length, 10^9 / hz.
    pub tick_ns: Ns,
    /// Time of the ticks within the tick grid: they fire at k · tick_ns + tick_phase_ns.
    pub tick_phase_ns: Ns,
    /// CFS or EEVDF.
    pub fair: FairClass,
    /// Feature switches.
    pub features: Features,
    /// Preemption model.
    pub preemption: Preemption,
    /// Whether sessions get groups of their own.
    pub autogroup: bool,
    /// EEVDF: request size, scaled by CPUs.
    pub base_slice_ns: Ns,
    /// EEVDF: request size before scaling (the least protection from 6.17).
    pub normalized_base_slice_ns: Ns,
    /// CFS: targeted latency, scaled by CPUs.
    pub latency_ns: Ns,
    /// CFS: minimum granularity, scaled by CPUs.
    pub min_granularity_ns: Ns,
    /// CFS: wakeup granularity, scaled by CPUs.
    pub wakeup_granularity_ns: Ns,
    /// CFS: minimum granularity of SCHED_IDLE entities, not scaled.
    pub idle_min_granularity_ns: Ns,
    /// Tasks that ran less than this ago are cache hot.
    pub migration_cost_ns: Ns,
    /// Most tasks moved by one balance pass.
    pub nr_migrate: u32,
    /// `sched_cfs_bandwidth_slice_us` in ns.
    pub bandwidth_slice_ns: Ns,
    /// How EEVDF reweights queued entities.
    pub reweight: Reweight,
    /// How long a pick is protected.
    pub protection: Protection,
    /// The tick check caps the ideal slice at the latency (6.3–6.5).
    pub slice_capped_by_latency: bool,
    /// A very long sleeper's vruntime is reset on placement (6.3).
    pub long_sleeper_reset: bool,
    /// `update_cfs_group` does nothing for an empty queue (6.13).
    pub skip_empty_group_reweight: bool,
    /// Group entities are reweighted only when the weight changed (6.9).
    pub reweight_only_on_change: bool,
    /// A non-idle entity that preempts an idle one ends its protection (6.15).
    pub idle_preemption_cancels_protection: bool,
    /// A task that yields gives up the rest of its request (6.19).
    pub yield_forfeits: bool,
    /// Unused quota may be carried over (5.14).
    pub burst: bool,
    /// `cpu.stat` counts bursts (5.16).
    pub burst_statistics: bool,
    /// Refill happens before the throttled list is looked at (5.14).
    pub refill_first: bool,
    /// Period timers start at a random offset (6.4).
    pub timer_interleave: bool,
    /// Other CPUs' queues are unthrottled by those CPUs (6.3).
    pub async_unthrottle: bool,
    /// Empty throttled queues do not add to throttled time (6.6).
    pub throttled_clock_only_when_queued: bool,
    /// A queue about to be throttled asks for one more nanosecond (5.8).
    pub throttle_asks_again: bool,
    /// Local runtime expires with its period (4.18–5.3).
    pub slice_expiry: bool,
    /// Queue or task throttling.
    pub throttle_model: ThrottleModel,
    /// `tg->load_avg` is written at most once per this time per queue; 0 = no limit (6.7: 1 ms).
    pub tg_load_avg_interval_ns: Ns,
    /// Shares are computed from max(weight, load_avg) (4.15), else from the weight alone.
    pub shares_from_load_avg: bool,
    /// `select_idle_sibling` tries the recently used CPU (4.16).
    pub recent_used_cpu: bool,
    /// Tasks whose affinity changes are spread over the new set (5.7).
    pub affinity_distributes: bool,
}

impl Rules {
    /// The rules of `version` as released, for `cpus` online CPUs and a tick of `hz`.
    pub fn of(version: Version, cpus: u32, hz: u32) -> Self {
        let since = |major, minor| version.since(major, minor);
        let eevdf = since(6, 6);
        let factor = tunable_scaling_factor(cpus);
        let normalized_base_slice_ns = if since(6, 15) { 700_000 } else { 750_000 };
        Self {
            version,
            hz,
            tick_ns: 1_000_000_000 / u64::from(hz),
            tick_phase_ns: 0,
            fair: if eevdf {
                FairClass::Eevdf
            } else {
                FairClass::Cfs
            },
            features: Features::of(version),
            preemption: Preemption::None,
            autogroup: true,
            base_slice_ns: normalized_base_slice_ns * factor,
            normalized_base_slice_ns,
            latency_ns: 6_000_000 * factor,
            min_granularity_ns: 750_000 * factor,
            wakeup_granularity_ns: 1_000_000 * factor,
            idle_min_granularity_ns: 750_000,
            migration_cost_ns: 500_000,
            nr_migrate: 32,
            bandwidth_slice_ns: 5_000_000,
            reweight: match () {
                () if since(6, 13) => Reweight::PlaceAgain,
                () if since(6, 7) => Reweight::ScaleLag,
                () => Reweight::KeepVruntime,
            },
            protection: if since(6, 17) {
                Protection::Vprot
            } else {
                Protection::UntilDeadline
            },
            slice_capped_by_latency: since(6, 3) && !eevdf,
            long_sleeper_reset: since(6, 3),
            skip_empty_group_reweight: since(6, 13),
            reweight_only_on_change: since(6, 9),
            idle_preemption_cancels_protection: since(6, 15),
            yield_forfeits: since(6, 19),
            burst: since(5, 14),
            burst_statistics: since(5, 16),
            refill_first: since(5, 14),
            timer_interleave: since(6, 4),
            async_unthrottle: since(6, 3),
            throttled_clock_only_when_queued: since(6, 6),
            throttle_asks_again: since(5, 8),
            slice_expiry: since(4, 18) && !since(5, 4),
            throttle_model: if since(6, 18) {
                ThrottleModel::Task
            } else {
                ThrottleModel::Queue
            },
            tg_load_avg_interval_ns: if since(6, 7) { 1_000_000 } else { 0 },
            shares_from_load_avg: since(4, 15),
            recent_used_cpu: since(4, 16),
            affinity_distributes: since(5, 7),
        }
    }
}

impl Features {
    /// Defaults of `version`.
    pub fn of(version: Version) -> Self {
        let since = |major, minor| version.since(major, minor);
        let eevdf = since(6, 6);
        Self {
            gentle_fair_sleepers: !eevdf,
            start_debit: !eevdf,
            next_buddy: false,
            last_buddy: !eevdf,
            pick_buddy: since(6, 12),
            cache_hot_buddy: true,
            wakeup_preemption: true,
            alt_period: since(5, 13) && !eevdf,
            base_slice: since(5, 13) && !eevdf,
            place_lag: eevdf,
            place_deadline_initial: eevdf,
            place_rel_deadline: since(6, 12),
            run_to_parity: eevdf,
            preempt_short: since(6, 12),
            delay_dequeue: since(6, 12),
            delay_zero: since(6, 12),
            ttwu_queue: true,
            sis_prop: since(4, 13) && !since(6, 0),
            sis_util: since(6, 0),
            wa_idle: since(4, 14),
            wa_weight: since(4, 14),
            wa_bias: since(4, 14),
            ni_random: since(6, 19),
            nontask_capacity: true,
            util_est: since(4, 17),
            attach_age_load: true,
            hrtick: false,
        }
    }
}

/// Factor of the LOG tunable scaling: 1 + ⌊log2(min(cpus, 8))⌋.
pub const fn tunable_scaling_factor(cpus: u32) -> u64 {
    let capped = if cpus > 8 { 8 } else { cpus };
    1 + capped.ilog2() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_slice_scales_with_the_logarithm_of_cpus() {
        let slices = [1, 2, 3, 4, 7, 8, 64]
            .map(|cpus| Rules::of(Version::new(6, 18), cpus, 250).base_slice_ns);
        assert_eq!(
            slices,
            [
                700_000, 1_400_000, 1_400_000, 2_100_000, 2_100_000, 2_800_000, 2_800_000
            ]
        );
        assert_eq!(
            Rules::of(Version::new(6, 12), 8, 1000).base_slice_ns,
            3_000_000
        );
    }

    #[test]
    fn mechanisms_arrive_with_their_versions() {
        let old = Rules::of(Version::new(5, 13), 8, 250);
        let new = Rules::of(Version::new(5, 14), 8, 250);
        assert!(!old.burst && new.burst);
        assert!(!Rules::of(Version::new(6, 3), 8, 250).timer_interleave);
        assert!(Rules::of(Version::new(6, 4), 8, 250).timer_interleave);
        assert_eq!(
            Rules::of(Version::new(6, 17), 8, 250).throttle_model,
            ThrottleModel::Queue
        );
        assert_eq!(
            Rules::of(Version::new(6, 18), 8, 250).throttle_model,
            ThrottleModel::Task
        );
    }
}
