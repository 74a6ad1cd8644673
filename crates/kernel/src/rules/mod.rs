//! The rules of one kernel: version, patches, features and tunables, resolved once.
//!
//! Hot code reads plain fields of [`Rules`]; nothing compares versions while it simulates. Worked
//! example: kernel 6.18 on 8 CPUs at HZ=250. The base slice is normalised to 0.70 ms (since 6.15)
//! and scaled by 1 + ⌊log2 8⌋ = 4, so `base_slice_ns` is 2,800,000; the tick is 4,000,000 ns, so a
//! CPU-bound task really runs 4 ms at a time.
//!
//! | room | what |
//! |---|---|
//! | `version` | releases, and from which of them on something holds |
//! | `changes` | the differences between releases: defaults by version, named patches |
//! | `features`, `tunables` | the other names that change a kernel |
//! | `resolve` | [`Rules::resolve`]: from names to fields |
//!
//! A rule of your own is a function and a row in [`own::OWN`], both in `own.rs`.

use crate::balance::BalanceRules;
use crate::cache::CacheRules;
use crate::energy::EnergyRules;
use crate::ids::Ns;
use crate::select::PlacementRules;
use crate::uclamp::ClampTunables;
use crate::weight::{LoadWeight, VirtualWeight};

pub mod changes;
mod domains;
pub mod features;
pub mod hooks;
mod kinds;
pub mod own;
pub mod resolve;
mod sums;
pub mod tunables;
pub mod version;

pub use changes::{Change, Origin};
pub use domains::DOMAIN_TUNABLES;
pub use features::{FEATURES, Feature, Features};
pub(crate) use kinds::{
    CgroupMode, IdleAverage, IdlePeltSync, Protection, Reweight, ServerOverflow, ThrottleModel,
};
pub use kinds::{FairClass, Preemption};
pub use resolve::{KernelChoice, Problem, RulesError};
pub(crate) use sums::{QueueSums, SumChange};
pub use tunables::{TUNABLES, Tunable};
#[cfg(test)]
pub(crate) use version::VersionError;
pub use version::{DEFAULT, NEWEST, OLDEST, Version};

/// A structure of rules of one kernel. Each field stands with its value in the oldest release, 4.5;
/// later differences are in the table of changes.
macro_rules! rules {
    ($(#[$attribute:meta])* $seen:vis struct $name:ident of ($($given:ident: $kind:ty),*);
        $($(#[$doc:meta])* $visible:vis $field:ident: $type:ty = $oldest:expr,)*) => {
        $(#[$attribute])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        $seen struct $name {
            $($(#[$doc])* $visible $field: $type,)*
        }

        impl $name {
            /// The rules of the oldest release.
            pub(crate) fn oldest($($given: $kind),*) -> Self {
                Self { $($field: $oldest,)* }
            }
        }
    };
}
pub(crate) use rules;

rules! {
    /// Everything about one kernel that decisions depend on. Times in nanoseconds.
    pub struct Rules of (cpus: u32, hz: u32);

    /// The release these rules are of.
    pub version: Version = OLDEST,
    /// Tick frequency, Hz.
    pub hz: u32 = hz,
    /// Tick length, 10^9 / hz.
    pub tick_ns: Ns = 1_000_000_000 / u64::from(hz),
    /// Time of the ticks within the tick grid: they fire at k · tick_ns + tick_phase_ns.
    pub tick_phase_ns: Ns = 0,
    /// Factor by which slices grow with the number of CPUs (`get_update_sysctl_factor`).
    pub(crate) scaling_factor: u64 = tunable_scaling_factor(cpus),
    /// Number of CPUs that factor counts.
    pub cpus: u32 = cpus,
    /// CFS or EEVDF.
    pub fair: FairClass = FairClass::Cfs,
    /// Feature switches.
    pub features: Features = Features::oldest(),
    /// Preemption model.
    pub preemption: Preemption = Preemption::None,
    /// Kernels for x86 are built with full or lazy preemption only (7.0).
    pub preempts_at_least_lazily: bool = false,
    /// Built with CONFIG_PREEMPTION: for full and lazy preemption, and for PREEMPT_DYNAMIC whatever
    /// the model (the default on x86 from 5.16).
    pub config_preemption: bool = false,
    /// Built with CONFIG_IRQ_TIME_ACCOUNTING: no task is charged for interrupts.
    pub irq_time_accounting: bool = false,
    /// A fair server that uses its budget up behind its deadline begins a new period.
    pub(crate) late_server_renews: bool = false,
    /// Stolen time beyond an advance of the clock is dropped.
    pub(crate) drops_excess_steal: bool = false,
    /// Built with CONFIG_UCLAMP_TASK and CONFIG_UCLAMP_TASK_GROUP: tasks and groups may clamp their
    /// utilisation.
    pub uclamp: bool = false,
    /// Bounds of all clamps.
    pub(crate) clamps: ClampTunables = ClampTunables::default(),
    /// Clamps are counted when the class has queued a task, not before (6.12 to 6.16).
    pub(crate) clamps_counted_late: bool = false,
    /// Whether sessions get groups of their own.
    pub autogroup: bool = true,
    /// EEVDF: request size, scaled by CPUs.
    pub base_slice_ns: Ns = 750_000 * tunable_scaling_factor(cpus),
    /// EEVDF: request size before scaling (the least protection from 6.17).
    pub(crate) normalized_base_slice_ns: Ns = 750_000,
    /// CFS: targeted latency, scaled by CPUs.
    pub latency_ns: Ns = 6_000_000 * tunable_scaling_factor(cpus),
    /// CFS: minimum granularity, scaled by CPUs.
    pub(crate) min_granularity_ns: Ns = 750_000 * tunable_scaling_factor(cpus),
    /// CFS: wakeup granularity, scaled by CPUs.
    pub(crate) wakeup_granularity_ns: Ns = 1_000_000 * tunable_scaling_factor(cpus),
    /// CFS: minimum granularity of SCHED_IDLE entities, not scaled.
    pub(crate) idle_min_granularity_ns: Ns = 750_000 * tunable_scaling_factor(cpus),
    /// Tasks that ran less than this ago are cache hot.
    pub(crate) migration_cost_ns: Ns = 500_000,
    /// Most tasks moved by one balance pass.
    pub(crate) nr_migrate: u32 = 32,
    /// `sched_cfs_bandwidth_slice_us` in ns.
    pub bandwidth_slice_ns: Ns = 5_000_000,
    /// How EEVDF reweights queued entities.
    pub(crate) reweight: Reweight = Reweight::KeepVruntime,
    /// How long a pick is protected.
    pub(crate) protection: Protection = Protection::UntilDeadline,
    /// A task that is moved takes its averages away while it is dequeued (6.1), before its group
    /// is weighed anew, or after that.
    pub(crate) dequeue_detaches: bool = false,
    /// A fork reads the clock of its CPU and charges the forking task (`task_fork_fair`, up to
    /// 6.11).
    pub(crate) fork_charges_parent: bool = true,
    /// The queues of a group that is removed leave when it is freed (5.16), before when it leaves
    /// its parent.
    pub(crate) queues_outlive_release: bool = false,
    /// A new task's averages join its queue before it is enqueued; they are guessed for tasks of
    /// other classes, too (up to 6.0).
    pub(crate) fork_attaches: bool = true,
    /// The load average of a fair task follows when its policy becomes SCHED_IDLE (6.11), as for
    /// any other weight.
    pub(crate) idle_policy_reweights: bool = false,
    /// Hints at an entity end whenever it is picked, even where it goes on running, and not where
    /// it is set without a pick (up to 5.13, CFS).
    pub(crate) pick_clears_buddies: bool = true,
    /// The tick check caps the ideal slice at the latency (6.3–6.5).
    pub(crate) slice_capped_by_latency: bool = false,
    /// A very long sleeper's vruntime is reset on placement (6.3).
    pub(crate) long_sleeper_reset: bool = false,
    /// Waking SCHED_IDLE entities get half the minimum granularity as credit, not half the latency
    /// (5.16, CFS).
    pub(crate) idle_sleeper_credit_is_granularity: bool = false,
    /// Queues count tasks whose dequeue is delayed as runnable (6.12 to 6.12.6); the tasks
    /// themselves do not.
    pub(crate) delayed_count_as_runnable: bool = true,
    /// `update_cfs_group` does nothing for an empty queue (6.13).
    pub(crate) skip_empty_group_reweight: bool = false,
    /// Group entities are reweighted only when the weight changed (6.9).
    pub(crate) reweight_only_on_change: bool = false,
    /// A non-idle entity that preempts an idle one ends its protection (6.15).
    pub(crate) idle_preemption_cancels_protection: bool = false,
    /// A task that yields gives up the rest of its request (6.19).
    pub(crate) yield_forfeits: bool = false,
    /// Unused quota may be carried over (5.14).
    pub burst: bool = false,
    /// `cpu.stat` counts bursts (5.16).
    pub(crate) burst_statistics: bool = false,
    /// Refill happens before the throttled list is looked at (5.14).
    pub(crate) refill_first: bool = false,
    /// Period timers start at a random offset (6.4).
    pub timer_interleave: bool = false,
    /// Other CPUs' queues are unthrottled by those CPUs (6.3).
    pub(crate) async_unthrottle: bool = false,
    /// Such a round reads the queue's clock once, before the first (6.5).
    pub(crate) unthrottles_at_one_clock: bool = false,
    /// Empty throttled queues do not add to throttled time (6.6).
    pub(crate) throttled_clock_only_when_queued: bool = false,
    /// A queue that is throttled becomes the first of the list that refills are handed out by (up
    /// to 4.19; from then to 5.7 while a distribution runs).
    pub(crate) throttled_first_in_line: bool = true,
    /// A task that is still being switched away from is handed to its CPU (`WF_ON_CPU`, 5.8),
    /// before waited for.
    pub(crate) switching_cpu_takes_wakeup: bool = false,
    /// Wakeups, kicks and other calls of a CPU wait in one queue: one interrupt is sent for all,
    /// and a CPU that leaves idle takes all; before, it took wakeups only (5.8).
    pub(crate) calls_share_a_queue: bool = false,
    /// A CPU without tasks does its wakeups itself, whichever cache it shares (6.0 and the stable
    /// 5.15.61). Before, only one that is still in the switch away from the wakee does (5.8), and
    /// that as well with one task.
    pub(crate) idle_cpu_wakes_itself: bool = false,
    /// The migration thread of a CPU is queued by its waker (6.16 and the stable 6.12.39). Before,
    /// the CPU does that itself as for any task, later: a balance pass that pushes a running task
    /// goes on to the domain above without counting the thread.
    pub(crate) stopper_wakes_at_once: bool = false,
    /// A queue about to be throttled asks for one more nanosecond (5.8).
    pub(crate) throttle_asks_again: bool = false,
    /// Local runtime expires with its period (4.18–5.3).
    pub(crate) slice_expiry: bool = false,
    /// Only local runtime of the present refill goes back to the pool (up to 5.3); older is lost.
    pub(crate) returns_need_same_refill: bool = true,
    /// A pick asks for runtime for all queues that it comes by, and throttles those that get none
    /// (6.12); before, only those of the task that ran last.
    pub(crate) picks_ask_for_runtime: bool = false,
    /// Queue or task throttling.
    pub(crate) throttle_model: ThrottleModel = ThrottleModel::Queue,
    /// `tg->load_avg` is written at most once per this time per queue; 0 = no limit (6.7: 1 ms).
    pub(crate) tg_load_avg_interval_ns: Ns = 0,
    /// That time is measured on the clock of the CPU's queue (7.2), which stands still between
    /// updates, before on the time of day.
    pub(crate) tg_load_avg_by_queue_clock: bool = false,
    /// Queues are put on the leaf list even where they or those above are throttled (up to 5.19).
    pub(crate) throttled_leaves: bool = true,
    /// A queue stays on the leaf list as long as one below it does (5.14).
    pub(crate) leaf_until_children: bool = false,
    /// An unthrottled queue is a leaf again if anything is left of its averages (5.13), before only
    /// if it has tasks.
    pub(crate) unthrottled_leaf_decays: bool = false,
    /// A queue stays on the leaf list until its group has heard that nothing is left of its load
    /// (6.19 and stable series). Before, what `tg_load_avg_interval_ns` kept it from telling stays
    /// in `tg->load_avg` until a task of the group comes back to the CPU.
    pub(crate) leaf_until_group_knows: bool = false,
    /// A task that leaves an idle CPU is aged for the time its PELT clock stood still
    /// (`migrate_se_pelt_lag`, 6.0).
    pub(crate) migrated_sleepers_age: bool = false,
    /// Shares are computed from max(weight, load_avg) (4.15), else from the weight alone.
    pub(crate) shares_from_load_avg: bool = false,
    /// `select_idle_sibling` tries the recently used CPU (4.16).
    pub(crate) recent_used_cpu: bool = false,
    /// Placement at wakeup, fork and exec.
    pub(crate) placement: PlacementRules = PlacementRules::oldest(),
    /// Placement by energy.
    pub energy: EnergyRules = EnergyRules::oldest(),
    /// Load balancing.
    pub balance: BalanceRules = BalanceRules::oldest(),
    /// Cache-aware scheduling (7.2).
    pub(crate) cache: CacheRules = CacheRules::oldest(hz),
    /// Tasks whose affinity changes are spread over the new set (5.7).
    pub(crate) affinity_distributes: bool = false,
    /// The slack timer moves with every return of runtime (up to 5.2), later it stays once armed.
    pub(crate) slack_timer_is_pushed: bool = true,
    /// When the PELT clock of a CPU that goes idle catches up.
    pub(crate) idle_pelt_sync: IdlePeltSync = IdlePeltSync::FairOnly,
    /// Utilisation is estimated by one value (6.8), before by two.
    pub(crate) util_est_single_value: bool = false,
    /// That is done before the averages of a task that goes to sleep are brought up to date (6.12),
    /// so that what it ran last is missing; before 6.12 after that.
    pub(crate) util_est_before_dequeue: bool = false,
    /// The estimate of a sleeper whose dequeue is delayed leaves its queue once more when its class
    /// changes (6.12 to 6.17).
    pub(crate) delayed_estimate_leaves_twice: bool = true,
    /// Utilisation above the CPU's capacity is no sample for the estimate to come down to (up to
    /// 6.15).
    pub(crate) util_est_within_capacity: bool = true,
    /// The first `util_avg` of a task uses its weight without fraction bits (6.10); with them the
    /// result always was the upper limit.
    pub(crate) initial_util_unscaled: bool = false,
    /// PLACE_DEADLINE_INITIAL halves the first request of a new task (6.12); before, the first
    /// enqueue did not know that the task was new and placed it once more, with a whole request.
    pub(crate) first_request_halved: bool = false,
    /// SCHED_IDLE tasks give way to others, and only SCHED_NORMAL ones preempt, whatever their
    /// groups (up to 6.11); later that is judged among siblings.
    pub(crate) idle_policy_gives_way: bool = true,
    /// `sched_setattr` sets the length of requests, and groups ask for the shortest among theirs
    /// (6.12).
    pub custom_slices: bool = false,
    /// Lag is bounded by the longest request queued and a tick, instead of two own requests or a
    /// tick (7.0 and stable 6.18).
    pub(crate) lag_limit_by_longest: bool = false,
    /// A new weight rescales what is left of the running entity's protection (7.0 and 6.18.45).
    /// 6.18.17 has the lines for it, but up to 6.18.44 `vprot` shares its memory with `vlag`, which
    /// is written first.
    pub(crate) reweight_scales_protection: bool = false,
    /// Protection is set at picks only, not when the running task is changed (7.0 and stable 6.18).
    pub(crate) protection_at_pick_only: bool = false,
    /// The origin of sums of virtual time follows the average where an entity enters or leaves the
    /// order of a queue (6.19 and stable series).
    pub(crate) origin_follows_order: bool = false,
    /// The origin of sums of virtual time follows the average (7.0); before, it was the vruntime of
    /// the task picked last.
    pub(crate) origin_follows_average: bool = false,
    /// Real time becomes virtual by a division by all of the weight (7.1), before by the inverse of
    /// its whole part.
    pub(crate) divides_by_full_weight: bool = false,
    /// Weights count with their fraction bits in sums of virtual time (7.1).
    pub(crate) full_weight_in_sums: bool = false,
    /// The lag of an entity whose dequeue is delayed never falls (7.1); before, only what it gains
    /// above zero was dropped.
    pub(crate) delayed_lag_never_falls: bool = false,
    /// The running task is charged before a task whose dequeue is delayed is placed again (7.2).
    pub(crate) requeue_charges_running: bool = false,
    /// A forked task, or one whose dequeue is delayed, preempts by a shorter request only (6.19).
    pub(crate) forks_do_not_preempt: bool = false,
    /// Whether a wakeup preempts is asked with buddies, and a wakeup that does not preempt shortens
    /// protection whatever it asks for (6.19).
    pub(crate) wakeups_heed_buddies: bool = false,
    /// Buddies do not stand in the way of a shorter request, which ends them (7.1).
    pub(crate) short_requests_pass_buddies: bool = false,
    /// Delayed entities that a pick for a wakeup would take are taken off (7.1).
    pub(crate) wakeup_asks_pick: bool = false,
    /// How the sums of a queue's averages follow what leaves it.
    pub(crate) queue_sums: QueueSums = QueueSums::default(),
    /// A task that leaves the fair class takes its load along before it gets the weight of its nice
    /// value (6.19), after that before.
    pub(crate) class_change_detaches_first: bool = false,
    /// A task that was moved to another group may preempt, as after a wakeup (7.1).
    pub(crate) moved_task_preempts: bool = false,
    /// Where the tree of a queue is rotated, what it says of requests stays behind (6.12 to 7.2.6).
    pub(crate) rotations_lose_slices: bool = true,
    /// A new affinity, or nice value of a real-time task, brings the clock of its CPU up to date
    /// even where nothing changes (up to 6.18).
    pub(crate) changes_read_clock_first: bool = true,
    /// Behind a real-time or migration thread a CPU balances before it picks, if no fair task is
    /// queued, not even one whose dequeue is delayed (5.4 to 6.18); else when the pick finds
    /// nothing.
    pub(crate) balances_before_picking: bool = false,
    /// A fair task that blocks without others of its class looks for some, whoever waits.
    pub(crate) balances_without_fair: bool = false,
    /// A request to skip an update of the clock that comes up during a pick is left for the next
    /// switch (6.7); before, the switch at hand dropped it.
    pub(crate) clock_skip_stays: bool = false,
    /// When the average idle time of a CPU follows.
    pub(crate) idle_average: IdleAverage = IdleAverage::Wakeups,
    /// One order for all tasks of a CPU, each with its part of the CPU over all levels as its
    /// weight (7.3); before, one order for each group's queue.
    pub flat_pick: bool = false,
    /// How many times its shares a group's entities weigh together (7.3).
    pub cgroup_mode: CgroupMode = CgroupMode::Smp,
    /// A switch between fair tasks asks for runtime on the levels that differ (7.2), before not at
    /// all.
    pub(crate) switches_ask_for_runtime: bool = false,
    /// A queue is throttled when it is charged (7.2), before when its running task is put or a task
    /// is picked.
    pub(crate) throttles_when_charged: bool = false,
    /// Shorter requests in the queue end protection at the vruntime from which the running task is
    /// not eligible, and a shorter request preempts whenever it is eligible (7.3); before,
    /// protection ended after the length of the shortest.
    pub(crate) protects_until_ineligible: bool = false,
    /// An arrival is held against the class that its CPU is about to choose, which arrivals raise
    /// and a search for tasks lowers (`rq->next_class`, 7.0); before, against the running task's.
    pub(crate) arrivals_meet_next_class: bool = false,
    /// It may preempt a running task of its own class only (7.2). Before, a fair task that a CPU
    /// pulls was looked at even if a real-time or deadline task has just blocked there.
    pub(crate) preempts_own_class_only: bool = false,
    /// A task that changes its class is looked at as after a wakeup.
    pub(crate) changed_class_preempts: bool = false,
    /// A lag is inflated by adding to it, and not by a product with all weights.
    pub(crate) lag_inflated_in_parts: bool = false,
    /// Picks honour any buddy (6.14), before only those of wakeups with NEXT_BUDDY (EEVDF).
    pub(crate) picks_any_buddy: bool = false,
    /// A forked task runs before its parent (`sched_child_runs_first`, CFS).
    pub(crate) child_runs_first: bool = false,
    /// Period of real-time throttling.
    pub(crate) rt_period_ns: Ns = 1_000_000_000,
    /// Real-time runtime of a CPU per period; `None` = unlimited.
    pub(crate) rt_runtime_ns: Option<Ns> = Some(950_000_000),
    /// Real-time tasks are throttled per CPU (≤ 6.11).
    pub rt_throttling: bool = true,
    /// Fair tasks have a reservation under real-time load (6.12).
    pub(crate) fair_server: bool = false,
    /// It stops when the last fair task goes to sleep (6.12 to 6.16); from 6.17 when it finds
    /// nothing to run.
    pub(crate) fair_server_stops_when_empty: bool = true,
    /// A server that ran, stopped and starts in a later period runs at once (6.12 to 6.18.8),
    /// instead of waiting for zero laxity.
    pub(crate) fair_server_starts_running: bool = true,
    /// Budget of a server that starts with more than fits before its deadline.
    pub(crate) server_overflow: ServerOverflow = ServerOverflow::NewPeriod,
    /// Idle time uses its budget up as it passes, and a period that begins in idle ends it (7.1);
    /// before, idle time was taken off when idle ended.
    pub(crate) fair_server_waits_out_idle: bool = false,
    /// A running task whose class becomes a lower one makes its CPU reschedule (7.1, maybe 7.0).
    pub(crate) lower_class_reschedules: bool = false,
    /// A timer that was set on a CPU before is set there again, even if the CPU idles, as long as
    /// its tick runs (7.1).
    pub(crate) timers_stay_local: bool = false,
    /// Runtime of the fair servers in each of their periods, 0 = none (6.12).
    pub(crate) fair_server_runtime_ns: Ns = 50_000_000,
    /// Their period.
    pub(crate) fair_server_period_ns: Ns = 1_000_000_000,
    /// They count among the runnable tasks of their CPU while they run (6.12 to 6.17).
    pub(crate) fair_server_counts: bool = true,
    /// A task that is pushed or pulled may preempt, as after a wakeup (7.1).
    pub(crate) moved_locked_preempts: bool = false,
    /// A task that is picked once more is put and set again, if it is of a class above the fair
    /// one, else noted as picked last (up to 6.11).
    pub(crate) puts_before_picking: bool = true,
    /// Deadline tasks are none of the real-time ones where a real-time task looks for a CPU (6.12).
    pub(crate) rt_is_not_deadline: bool = false,
    /// A CPU with deadline tasks is none that real-time tasks are sent to (`CPUPRI_HIGHER`).
    pub(crate) rt_avoids_deadlines: bool = false,
    /// A CPU counts as overloaded with deadline tasks when one waits that may go (6.7), before when
    /// there are two of which one may go.
    pub(crate) dl_overload_by_pushable: bool = false,
    /// Reclaiming is scaled by what may be reserved (6.5); before, tasks below their reservation
    /// were charged too much.
    pub(crate) grub_of_max_bw: bool = false,
    /// Another reservation of a waiting task reschedules if its deadline is before that of the
    /// running one (6.3); before, if it was not the earliest of its CPU.
    pub(crate) dl_change_asks_running: bool = false,
    /// Another reservation pulls and reschedules only if the deadline changed (6.19).
    pub(crate) dl_change_compares: bool = false,
    /// A deadline that has passed is renewed by changes that move the task (6.19), before by all.
    pub(crate) dl_moved_renews: bool = false,
    /// Pushes pass over a task that still runs (7.1).
    pub(crate) dl_pushes_waiting_only: bool = false,
    /// An idle CPU that is asked to reschedule for nothing looks for no tasks elsewhere (`SM_IDLE`,
    /// 6.12).
    pub(crate) idle_reenters: bool = false,
    /// A CPU counts as overloaded with real-time tasks when one waits that may go (6.7), before
    /// when there are two of which one may go.
    pub(crate) rt_overload_by_pushable: bool = false,
    /// A round of requests to push leaves out the CPU that asks (7.0).
    pub(crate) push_round_skips_here: bool = false,
    /// Searches for a CPU with less urgent work take equals in turn (5.11).
    pub(crate) rt_distributes: bool = false,
    /// SCHED_RR slice in ticks.
    pub(crate) rr_timeslice_ticks: u32 = hz * RR_TIMESLICE_MS / 1000,
    /// Frequency drivers and governors.
    pub(crate) frequency: crate::cpufreq::FrequencyRules = crate::cpufreq::FrequencyRules::oldest(),
    /// Idle loop and governors.
    pub idle: crate::cpuidle::IdleRules = crate::cpuidle::IdleRules::oldest(),
    /// Patches of your own.
    pub(crate) own: own::Own = own::Own::default(),
    /// intel_pstate's PID forgets the P-state after an idle time of this many sample periods.
    pub(crate) pstate_holdoff_samples: u32 = 3,
}

impl Rules {
    /// Whether lag and protection of an entity share their memory, as up to 6.18.44: whichever is
    /// written overwrites the other.
    #[inline(always)]
    pub(crate) fn lag_overwrites_protection(&self) -> bool {
        !self.reweight_scales_protection
    }

    /// The rules of `version` with one CPU and 250 Hz.
    #[cfg(test)]
    pub(crate) fn of_one_cpu(version: Version) -> Self {
        Self::of(version, 1, 250)
    }

    /// The rules of `version` as released, for `cpus` online CPUs and a tick of `hz`: those of the
    /// oldest release with every change since.
    pub fn of(version: Version, cpus: u32, hz: u32) -> Self {
        let mut rules = Self::oldest(cpus, hz);
        rules.version = version;
        changes::bring_to(&mut rules, version);
        rules
    }
}

impl Rules {
    /// Weight in the form that virtual time uses.
    pub(crate) fn virtual_weight(&self, load: &LoadWeight) -> VirtualWeight {
        VirtualWeight::new(load, self.divides_by_full_weight, self.full_weight_in_sums)
    }

    /// The same of a scaled weight.
    pub(crate) fn virtual_weight_of(&self, weight: u64) -> VirtualWeight {
        if self.divides_by_full_weight && self.full_weight_in_sums {
            return VirtualWeight::full(weight);
        }
        self.virtual_weight(&LoadWeight::from_scaled(weight))
    }

    /// Sets the base slice before scaling.
    pub(crate) fn set_normalized_base_slice(&mut self, slice_ns: Ns) {
        self.normalized_base_slice_ns = slice_ns;
        self.base_slice_ns = slice_ns * self.scaling_factor;
    }

    /// Changes how slices grow with CPUs (`sched_update_scaling`): 0 not, 1 logarithmically, 2
    /// linearly.
    pub(crate) fn rescale(&mut self, scaling: i64) {
        let old = self.scaling_factor;
        self.scaling_factor = match scaling {
            0 => 1,
            1 => tunable_scaling_factor(self.cpus),
            _ => u64::from(self.cpus.min(8)),
        };
        let new = self.scaling_factor;
        self.base_slice_ns = self.normalized_base_slice_ns * new;
        for slice_ns in [
            &mut self.latency_ns,
            &mut self.min_granularity_ns,
            &mut self.wakeup_granularity_ns,
        ] {
            *slice_ns = *slice_ns / old * new;
        }
    }
}

/// SCHED_RR slice, ms (`RR_TIMESLICE`).
const RR_TIMESLICE_MS: u32 = 100;

/// Factor of the LOG tunable scaling: 1 + ⌊log2(min(cpus, 8))⌋.
pub(crate) const fn tunable_scaling_factor(cpus: u32) -> u64 {
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
