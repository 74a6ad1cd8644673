//! The table of rules.

use super::About;

macro_rules! model {
    ($($part:literal { $($mark:ident $function:literal $versions:literal $file:literal $says:literal;)* })*) => {
        /// A rule of the model.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
        pub enum Mark {
            $($(#[doc = $says] $mark,)*)*
        }

        impl Mark {
            /// All rules, part by part.
            pub const ALL: &'static [Mark] = &[$($(Mark::$mark,)*)*];

            /// Description of the rule.
            pub const fn about(self) -> &'static About {
                match self {
                    $($(Mark::$mark => &About {
                        part: $part,
                        name: stringify!($mark),
                        function: $function,
                        kernels: $versions,
                        file: $file,
                        says: $says,
                    },)*)*
                }
            }
        }
    };
}

model! {
"Picking" {
    OnlyEntity "pick_eevdf" "4.5 –" "fair/eevdf.rs" "the only entity queued";
    SmallestVruntime "pick_next_entity" "-eevdf" "fair/cfs.rs" "smallest vruntime";
    BuddyPicked "pick_next_entity" "-eevdf" "fair/cfs.rs" "a buddy within the wakeup granularity of the smallest vruntime";
    SkipBuddy "pick_next_entity" "-eevdf" "fair/cfs.rs" "the one with the smallest vruntime yielded, the second is close";
    NextBuddyEligible "pick_next_entity" "+eevdf" "fair/pick.rs" "the next buddy, which is eligible";
    ParityProtected "pick_eevdf" "+eevdf" "fair/eevdf.rs" "running and protected until its request is served (RUN_TO_PARITY)";
    EarliestDeadline "pick_eevdf" "+eevdf" "fair/eevdf.rs" "earliest eligible virtual deadline";
    CurrentEarlier "pick_eevdf" "+eevdf" "fair/eevdf.rs" "running, eligible, and its deadline is earlier than all queued eligible ones";
    OwnPick "pick_eevdf" "own patch" "fair/pick.rs" "a rule of your own about the next entity";
    FlatPick "pick_next_entity" "+flat-pick" "fair/flat.rs" "one order for all tasks of the CPU";
    DelayedTakenOff "pick_next_entity" "+delay-dequeue" "fair/pick.rs" "the choice was asleep already and only waited for its lag: taken off, pick again";
}
"Wakeup preemption" {
    WokeItself "check_preempt_wakeup_fair" "4.5 –" "fair/preempt.rs" "the running task woke itself";
    WakeeThrottled "check_preempt_wakeup_fair" "4.5 –" "fair/preempt.rs" "the wakee's group is throttled";
    OwnPreempt "check_preempt_wakeup_fair" "own patch" "fair/preempt.rs" "a rule of your own about preemption";
    ReschedPending "check_preempt_wakeup_fair" "4.5 –" "fair/preempt.rs" "a reschedule is pending already";
    IdlePolicyGivesWay "check_preempt_wakeup_fair" "-idle-among-siblings" "fair/preempt.rs" "a SCHED_IDLE task gives way";
    NoWakeupPreemption "check_preempt_wakeup_fair" "4.5 –" "fair/preempt.rs" "NO_WAKEUP_PREEMPTION is set";
    BatchDoesNotPreempt "check_preempt_wakeup_fair" "4.5 –" "fair/preempt.rs" "SCHED_BATCH and SCHED_IDLE tasks do not preempt";
    IdleGroupDoesNotPreempt "check_preempt_wakeup_fair" "5.15 –" "fair/preempt.rs" "an idle group or task does not preempt others";
    IdleGroupGivesWay "check_preempt_wakeup_fair" "5.15 –" "fair/preempt.rs" "an idle group or task gives way to others";
    WakeeLeads "wakeup_preempt_entity" "-eevdf" "fair/preempt.rs" "the wakee's vruntime is smaller by more than the wakeup granularity";
    WakeeDoesNotLead "wakeup_preempt_entity" "-eevdf" "fair/preempt.rs" "the wakee's vruntime is not smaller by the wakeup granularity";
    ForkDoesNotPreempt "check_preempt_wakeup_fair" "+fork-no-preempt" "fair/preempt.rs" "a forked task, or a sleeper that is still queued, does not preempt by an equal request";
    SyncDoesNotPreempt "preempt_sync" "+fork-no-preempt" "fair/preempt.rs" "a buddy that is woken by one about to sleep waits while that one was charged just now (NEXT_BUDDY)";
    WakeeWouldBePicked "check_preempt_wakeup_fair" "+eevdf" "fair/preempt.rs" "the wakee would be picked";
    WakeeWouldNotBePicked "check_preempt_wakeup_fair" "+eevdf" "fair/preempt.rs" "the wakee would not be picked";
    ShortPreempts "do_preempt_short" "+preempt-short" "fair/preempt.rs" "a shorter request ends the running one's protection (PREEMPT_SHORT)";
    ShortEligible "check_preempt_wakeup_fair" "+flat-pick" "fair/flat_preempt.rs" "a shorter request that is eligible preempts, though another would be picked";
    ShortShrinksProtection "update_protect_slice" "+vprot" "fair/preempt.rs" "a shorter request that does not preempt shortens the protection";
}
"Accounting and slices" {
    UpdateCurr "update_curr" "4.5 –" "fair/account.rs" "running time is charged to vruntime by weight";
    ClockUpdateSkipped "rq_clock_skip_update" "4.5 –" "core/schedule.rs" "after a wakeup that preempts, the switch does not read the clock: the wakee is charged from its wakeup on";
    RequestRenewed "update_deadline" "+eevdf" "fair/account.rs" "a request that is used up is renewed from the present vruntime";
    RequestOver "update_curr" "+eevdf" "fair/account.rs" "the request is used up or its protection over: reschedule when others are queued";
    PreemptShortOver "did_preempt_short" "+preempt-short -vprot" "fair/account.rs" "no longer protected and not eligible: reschedule";
    SliceUsedUp "check_preempt_tick" "-eevdf" "fair/cfs.rs" "the tick finds the ideal slice used up";
    SliceTooShort "check_preempt_tick" "-eevdf" "fair/cfs.rs" "less than the minimum granularity was run";
    SliceLead "check_preempt_tick" "-eevdf" "fair/cfs.rs" "the running one is a slice ahead of the leftmost";
    PeriodStretched "__sched_period" "-eevdf" "fair/cfs.rs" "more tasks than fit the latency: each has the minimum granularity";
    BaseSliceFloor "sched_slice" "+slice-floor" "fair/cfs.rs" "a slice is not below the minimum granularity (BASE_SLICE)";
    HrtickArmed "hrtick_start_fair" "+hrtick" "core/hrtick.rs" "a timer is set for the end of the request";
    HrtickFires "hrtick" "+hrtick" "core/hrtick.rs" "the timer reschedules";
    VprotByShortest "set_protect_slice" "+vprot" "fair/eevdf.rs" "a pick is protected for the shortest request queued";
    LagClamped "entity_lag" "+eevdf" "fair/eevdf.rs" "lag is bounded";
}
"Placement on the queue" {
    StartDebit "place_entity" "-eevdf" "fair/cfs.rs" "a new task starts one slice late (START_DEBIT)";
    SleeperCredit "place_entity" "-eevdf" "fair/cfs.rs" "a sleeper is placed before min_vruntime (GENTLE_FAIR_SLEEPERS: half a latency)";
    NeverMovedBack "place_entity" "-eevdf" "fair/cfs.rs" "a vruntime that is larger stays";
    PlaceLag "place_entity" "+eevdf" "fair/place.rs" "lag is kept over sleep, inflated for the entity's own weight (PLACE_LAG)";
    PlaceRelDeadline "place_entity" "+place-rel-deadline" "fair/place.rs" "an entity that did not sleep keeps its deadline (PLACE_REL_DEADLINE)";
    PlaceInitial "place_entity" "+first-request-halved" "fair/place.rs" "a new task's first request is half as long (PLACE_DEADLINE_INITIAL)";
    DelayDequeue "dequeue_entity" "+delay-dequeue" "fair/queue.rs" "a sleeper that owes stays queued until its lag is gone (DELAY_DEQUEUE)";
    DelayZero "finish_delayed_dequeue_entity" "+delay-zero" "fair/delayed.rs" "positive lag of a delayed sleeper is forgotten (DELAY_ZERO)";
    DelayedLagKept "update_entity_lag" "+delayed-lag" "fair/eevdf.rs" "the lag of a delayed sleeper never falls";
    RequeueDelayed "requeue_delayed_entity" "+delay-dequeue" "fair/delayed.rs" "a delayed sleeper that wakes stays where it is";
    SleeperMarksGroup "dequeue_task_fair" "-flat-pick" "fair/queue.rs" "the group of a task that sleeps becomes the next buddy";
    YieldSkips "yield_task_fair" "-eevdf" "fair/queue.rs" "a task that yields is marked to be skipped";
    YieldDeadline "yield_task_fair" "+eevdf -yield-forfeit" "fair/queue.rs" "a task that yields has its deadline moved by a request";
    YieldForfeits "yield_task_fair" "+yield-forfeit" "fair/queue.rs" "a task that yields gives up the rest of its request";
    GroupSlice "cfs_rq_min_slice" "+custom-slices -flat-pick" "fair/queue.rs" "a group asks for the shortest request among its entities";
}
"Weights and groups" {
    GroupShares "calc_group_shares" "4.5 –" "fair/group_weight.rs" "a group entity's weight is the group's shares by its CPU's part of the load";
    GroupMode "calc_group_shares" "+cgroup-concur" "fair/group_weight.rs" "a group weighs its shares several times, by its tasks and CPUs (cgroup_mode)";
    FlatWeight "__calc_prop_weight" "+flat-pick" "fair/flat.rs" "a task's weight is its part of the CPU over all levels";
    TgLoadRateLimit "update_tg_load_avg" "+tg-load-ratelimit" "fair/group_weight.rs" "a CPU writes the group's load at most once a millisecond";
    TgLoadSmallChange "update_tg_load_avg" "4.5 –" "fair/group_weight.rs" "changes up to a 64th are not written";
    TgLoadWritten "update_tg_load_avg" "4.5 –" "fair/group_weight.rs" "the change is added to the group's load";
    EmptyGroupKeepsWeight "update_cfs_group" "+empty-group-keeps-weight" "fair/group_weight.rs" "an empty queue's entity keeps its weight";
    ThrottledGroupKeepsWeight "update_cfs_group" "-task-throttle" "fair/group_weight.rs" "a throttled queue's entity keeps its weight";
    ReweightKeepVruntime "reweight_entity" "+eevdf -reweight-vruntime" "fair/group_weight.rs" "a new weight scales the distance to the deadline";
    ReweightScaleLag "reweight_entity" "+reweight-vruntime -reweight-place" "fair/group_weight.rs" "a new weight scales lag and distance to the deadline around V";
    ReweightPlaceAgain "reweight_entity" "+reweight-place" "fair/group_weight.rs" "a new weight scales lag, and the entity is placed again";
    ReweightScalesProtection "rescale_entity" "+reweight-vprot" "fair/group_weight.rs" "a new weight scales what is left of the protection";
    PropagateLoad "propagate_entity_load_avg" "4.10 –" "fair/load.rs" "a change below is carried to the parent's averages";
    HierarchicalLoad "task_h_load" "4.5 –" "fair/load.rs" "a task's load as the root sees it";
    IdleGroupWeight "sched_group_set_idle" "5.15 –" "core/life.rs" "cpu.idle gives a group the weight 3";
}
"PELT" {
    PeltPeriod "accumulate_sum" "4.5 –" "pelt.rs" "sums decay at every boundary of 1024 units, y^32 = 0.5";
    PeltWithinPeriod "accumulate_sum" "4.5 –" "pelt.rs" "within a period only the contribution grows";
    PeltClockIdle "update_rq_clock_pelt" "+pelt-clock-before-put.." "rq.rs" "an idle CPU's PELT clock follows its task clock";
    PeltClockScaled "update_rq_clock_pelt" "+pelt-clock-before-put.." "rq.rs" "a slow CPU's PELT clock runs slower";
    LostIdleTime "update_idle_rq_clock_pelt" "+pelt-clock-before-put.." "core/schedule.rs" "a CPU that was always busy loses the idle time its clock would jump";
    AttachLoad "attach_entity_load_avg" "4.5 –" "fair/load.rs" "a task that arrives brings its averages";
    DetachLoad "detach_entity_load_avg" "4.5 –" "fair/load.rs" "a task that is moved takes its averages away at once";
    RemovedLoad "remove_entity_load_avg" "4.5 –" "fair/load.rs" "what a sleeper leaves behind is subtracted at the next update";
    GroupUnregistered "unregister_fair_sched_group" "4.5 –" "core/life.rs" "what a group that goes left behind is subtracted like that of a sleeper, and its queues decay no more";
    MigratedSleeperLag "migrate_se_pelt_lag" "+migrated-sleeper-lag" "fair/load.rs" "time that an idle old CPU's clock missed is estimated";
    InitialUtil "post_init_entity_util_avg" "4.7 –" "core/life.rs" "a new task starts with a share of the CPU's utilisation";
    BlockedDecay "sched_balance_update_blocked_averages" "4.5 –" "balance/blocked.rs" "blocked load of a CPU's queues decays";
    UtilEstSleep "util_est_update" "+util-est" "fair/util_est.rs" "a task that sleeps leaves its utilisation as an estimate";
    UtilEstUnchanged "util_est_update" "+util-est" "fair/util_est.rs" "no estimate without a new average";
    UtilEstSmall "util_est_update" "+util-est" "fair/util_est.rs" "an estimate within 1 % is kept";
    UtilEstFastUp "util_est_update" "+util-est-fastup.." "fair/util_est.rs" "a larger utilisation is taken at once";
    UtilEstDecay "util_est_update" "+util-est" "fair/util_est.rs" "a smaller one pulls the estimate down by a quarter";
}
"Bandwidth" {
    ChargeLocal "__account_cfs_rq_runtime" "4.5 –" "bandwidth/charge.rs" "running is charged to the queue's local runtime";
    SliceGranted "__assign_cfs_rq_runtime" "4.5 –" "bandwidth/charge.rs" "a queue out of runtime draws its debt and a slice from the pool";
    PoolEmpty "__assign_cfs_rq_runtime" "4.5 –" "bandwidth/charge.rs" "the pool is empty";
    LocalExpires "expire_cfs_rq_runtime" "+slice-expiry" "bandwidth/charge.rs" "local runtime of an earlier period is lost";
    LocalExtended "expire_cfs_rq_runtime" "+slice-expiry" "bandwidth/charge.rs" "local runtime of this period is extended by a tick: clock drift";
    ThrottleAsksAgain "throttle_cfs_rq" "+throttle-asks-again" "bandwidth/throttle.rs" "a queue about to be throttled gets a last nanosecond";
    RuntimeUsedUp "throttle_cfs_rq" "4.5 –" "bandwidth/throttle.rs" "local runtime used up and nothing left in the pool";
    EnqueueThrottles "check_enqueue_throttle" "4.5 –" "bandwidth/charge.rs" "a queue that gets its first entity must find runtime";
    ThrottledWhenCharged "__account_cfs_rq_runtime" "+throttle-when-charged" "bandwidth/throttle.rs" "a queue is throttled when it is charged; its running task parks itself on its way to user mode";
    ThrottleDequeuesGroup "throttle_cfs_rq" "-task-throttle" "bandwidth/throttle.rs" "the group entity leaves its parents";
    ThrottleParksTask "throttle_cfs_rq_work" "+task-throttle" "bandwidth/throttle.rs" "a task is parked at its return to user mode";
    ThrottledEnqueueParks "enqueue_throttled_task" "+task-throttle" "bandwidth/throttle.rs" "a parked task that changes its queue goes to the other's limbo list";
    ThrottleFreezesPelt "tg_throttle_down" "4.5 –" "bandwidth/throttle.rs" "a throttled queue's averages stand still";
    HierarchyThrottled "tg_throttle_down" "4.5 –" "bandwidth/throttle.rs" "the queues below are throttled too";
    Unthrottled "unthrottle_cfs_rq" "4.5 –" "bandwidth/throttle.rs" "throttled time ends and is counted";
    UnthrottleTooEarly "unthrottle_cfs_rq" "+task-throttle" "bandwidth/throttle.rs" "without runtime it stays throttled";
    UnthrottleAsync "unthrottle_cfs_rq_async" "+async-unthrottle" "bandwidth/timers.rs" "another CPU unthrottles its own queues, by interrupt";
    TimerStarts "start_cfs_bandwidth" "4.5 –" "bandwidth/timers.rs" "the period timer starts, its phase stays";
    TimerStops "do_sched_cfs_period_timer" "4.5 –" "bandwidth/timers.rs" "a period without consumption stops the timer";
    TimerGoesIdle "do_sched_cfs_period_timer" "4.5 –" "bandwidth/timers.rs" "no queue was throttled: idle unless runtime is drawn";
    PeriodThrottled "do_sched_cfs_period_timer" "4.5 –" "bandwidth/timers.rs" "nr_throttled counts a period at whose end a queue is throttled";
    PeriodDoubles "sched_cfs_period_timer" "4.5 –" "bandwidth/timers.rs" "a timer that cannot keep up doubles its period";
    RefillReplaces "__refill_cfs_bandwidth_runtime" "-burst" "bandwidth/timers.rs" "the pool becomes the quota";
    RefillAdds "__refill_cfs_bandwidth_runtime" "+burst" "bandwidth/timers.rs" "the quota is added to the pool, up to quota and burst";
    BurstCounted "__refill_cfs_bandwidth_runtime" "+burst-statistics" "bandwidth/timers.rs" "what a period took beyond its quota is a burst";
    DebtPaid "distribute_cfs_runtime" "4.5 –" "bandwidth/timers.rs" "a throttled queue gets its debt and one nanosecond";
    DebtNotPaid "distribute_cfs_runtime" "4.5 –" "bandwidth/timers.rs" "the pool does not cover the debt";
    TimerRandomPhase "init_cfs_bandwidth" "+timer-interleave" "kernel.rs" "a period timer starts at a random offset";
    TimerAligned "init_cfs_bandwidth" "-timer-interleave" "kernel.rs" "period timers of equal periods fire together";
    SlackReturned "__return_cfs_rq_runtime" "4.5 –" "bandwidth/charge.rs" "the last entity that leaves returns all but 1 ms";
    SlackTimerArmed "start_cfs_slack_bandwidth" "4.5 –" "bandwidth/charge.rs" "returned runtime is handed out in 5 ms";
    SlackTooNear "start_cfs_slack_bandwidth" "4.5 –" "bandwidth/charge.rs" "a refill is near: no slack timer";
    SlackDistributed "do_sched_cfs_slack_timer" "4.5 –" "bandwidth/timers.rs" "the slack timer distributes more than a slice";
    LimitRefused "tg_set_cfs_bandwidth" "4.5 –" "bandwidth/limits.rs" "a limit out of the kernel's range is refused";
    LimitAboveParent "tg_cfs_schedulable_down" "4.5 –, cgroup v1" "bandwidth/limits.rs" "a limit above its parent's is refused";
    LimitChanged "tg_set_cfs_bandwidth" "4.5 –" "bandwidth/limits.rs" "a new limit refills and unthrottles";
}
"Waker or previous CPU" {
    NotAffine "select_task_rq_fair" "4.5 –" "select/mod.rs" "not affine: from the previous CPU";
    WakerIsPrev "select_task_rq_fair" "4.5 –" "select/mod.rs" "woken from the CPU it ran on last";
    WakeWide "wake_wide" "4.5 –" "select/mod.rs" "waker and wakee have too many partners for one cache";
    FlipsHalved "record_wakee" "4.5 –" "select/wakee.rs" "counts of partners are halved once a second";
    AffineThisIdle "wake_affine_idle" "+wake-affine-idle" "select/affine.rs" "the waking CPU is idle and shares the cache";
    AffineBothIdle "wake_affine_idle" "+wake-affine-cache" "select/affine.rs" "both CPUs are idle: the previous one";
    AffineSync "wake_affine_idle" "+wake-affine-idle" "select/affine.rs" "the waker is alone and will sleep: its CPU";
    AffinePrevIdle "wake_affine_idle" "+wake-affine-idle-prev" "select/affine.rs" "the previous CPU is idle";
    AffineWakerHeavy "wake_affine_weight" "+wake-affine-idle" "select/affine.rs" "a waker that will sleep is heavier than its CPU's load: its CPU";
    AffineWeightThis "wake_affine_weight" "+wake-affine-idle" "select/affine.rs" "the waking CPU would have the lighter load";
    AffineWeightPrev "wake_affine_weight" "+wake-affine-idle" "select/affine.rs" "the previous CPU has the lighter load";
    AffineNodes "numa_wake_affine" "+wake-affine-nodes" "select/affine.rs" "by the loads of the two nodes";
    AffineEffective "wake_affine" "-wake-affine-nodes" "select/affine.rs" "by effective loads";
    AffineOff "wake_affine" "+wake-affine-idle" "select/affine.rs" "undecided: the previous CPU";
}
"Idle CPU near the target" {
    TargetIdle "select_idle_sibling" "4.5 –" "select/sibling.rs" "the target is idle";
    PrevIdle "select_idle_sibling" "4.5 –" "select/sibling.rs" "the previous CPU is idle and shares the target's cache";
    KthreadStacking "select_idle_sibling" "+kthread-stacking" "select/sibling.rs" "the waker is a per-CPU kernel thread of the previous CPU, soon asleep";
    RecentCpuIdle "select_idle_sibling" "+recent-used-cpu" "select/sibling.rs" "the recently used CPU is idle and shares the target's cache";
    NothingIdle "select_idle_sibling" "4.5 –" "select/sibling.rs" "nothing idle found: the target";
    ScanFound "select_idle_cpu" "+idle-sibling-scan.." "select/scan.rs" "an idle CPU found by the scan";
    ScanSchedIdle "select_idle_cpu" "+sched-idle-last-resort.." "select/scan.rs" "a CPU with nothing but SCHED_IDLE tasks";
    ScanGaveUp "select_idle_cpu" "+sis-prop.." "select/scan.rs" "the scan reached its limit";
    IdleCore "select_idle_core" "+idle-sibling-scan.." "select/scan.rs" "an idle core";
    IdleThreadOfBusyCore "select_idle_core" "+one-scan" "select/scan.rs" "no idle core, an idle thread met on the way";
    IdleThreadOfCore "select_idle_smt" "+idle-sibling-scan.." "select/scan.rs" "an idle thread of the same core";
    IdleGroup "select_idle_sibling" "-idle-sibling-scan" "select/scan.rs" "a scheduling group all of whose CPUs are idle";
    SisPropLimit "select_idle_cpu" "+sis-prop" "select/scan.rs" "the scan is limited by average idle time over its cost (SIS_PROP)";
    SisUtilLimit "select_idle_cpu" "+sis-util" "select/scan.rs" "the scan is limited by the cache's utilisation (SIS_UTIL)";
    SisUtilNone "select_idle_cpu" "+sis-util" "select/scan.rs" "the cache is too busy to look at all (SIS_UTIL)";
    ScanNoIdleTime "select_idle_cpu" "4.9 – 5.11" "select/scan.rs" "a scan costs more than the CPU idles";
    ClusterFirst "select_idle_cpu" "+cluster-scan" "select/scan.rs" "CPUs that share the L2 cache are looked at first";
    IdleCoresCleared "select_idle_core" "+idle-sibling-scan.." "select/sibling.rs" "no idle core was found: the hint is cleared";
    CapacityFits "select_idle_capacity" "+asym-capacity" "select/capacity.rs" "the first idle CPU on which the task fits";
    CapacityLargest "select_idle_capacity" "+asym-capacity" "select/capacity.rs" "no idle CPU is large enough: the largest of them";
    NrIdleScan "update_idle_cpu_scan" "+sis-util" "balance/queue.rs" "a balance pass sets how many CPUs scans may look at";
    EnergyPrev "find_energy_efficient_cpu" "+energy-aware" "select/energy.rs" "no CPU saves enough energy over the previous one";
    EnergyLess "find_energy_efficient_cpu" "+energy-aware" "select/energy.rs" "the task costs less energy there, or fits better";
    EnergyNoUtil "find_energy_efficient_cpu" "+energy-aware" "select/energy.rs" "a task without utilisation costs nothing: the previous CPU";
    EnergyCompared "compute_energy" "+energy-aware" "select/energy.rs" "the energy of a performance domain with and without the task is the price of a CPU";
    OwnRule "select_idle_sibling" "own patch" "select/sibling.rs" "a rule of your own";
    OwnAffine "wake_affine" "own patch" "select/affine.rs" "a rule of your own about the side of a wakeup";
    VcpuPackRoom "vcpu_pack_room" "patch vcpu-pack" "select/mod.rs" "the waker's CPU has room for both (one provider's kernel)";
}
"Fork and exec" {
    ForkIdlest "select_task_rq_fair" "4.5 –" "select/mod.rs" "the idlest CPU at fork";
    ExecIdlest "select_task_rq_fair" "4.5 –" "select/mod.rs" "the idlest CPU at exec";
    NoForkDomain "select_task_rq_fair" "4.5 –" "select/mod.rs" "no domain balances here";
    IdlestByType "sched_balance_find_dst_group" "+idlest-rework" "select/idlest.rs" "groups are compared by type, then by load or idle CPUs";
    IdlestBySpare "find_idlest_group" "+idlest-by-spare" "select/idlest.rs" "groups are compared by spare capacity and load";
    IdlestByLoad "find_idlest_group" "-idlest-by-spare" "select/idlest.rs" "groups are compared by load";
    IdlestNumaStays "sched_balance_find_dst_group" "+idlest-rework" "select/idlest.rs" "a small imbalance between nodes stays";
    IdlestIdleCpu "sched_balance_find_dst_group_cpu" "4.5 –" "select/idlest.rs" "among idle CPUs the one with the shallowest state, then the last to idle";
    IdlestLeastLoaded "sched_balance_find_dst_group_cpu" "4.5 –" "select/idlest.rs" "no idle CPU: the least loaded";
}
"Waking" {
    WakeQueued "ttwu_runnable" "4.5 –" "core/wakeup.rs" "still queued: no CPU is sought";
    WakeRemoteQueue "ttwu_queue_wakelist" "4.5 –" "core/wakeup.rs" "enqueued by the target CPU itself";
    CallsFlushed "flush_smp_call_function_queue" "+calls-in-one-queue" "core/wakeup.rs" "a CPU that leaves idle takes what others handed over before their interrupt arrives";
    WakeListIdle "ttwu_queue_cond" "+idle-cpu-wakes-itself" "core/wakeup.rs" "an idle CPU of the same cache enqueues itself";
    WakeLocal "ttwu_queue" "4.5 –" "core/wakeup.rs" "enqueued by the waking CPU";
    AvgIdle "update_avg" "4.5 –" "core/wakeup.rs" "the average idle time follows by an eighth";
}
"Load balance: when" {
    PeriodicBalance "sched_balance_domains" "4.5 –" "balance/periodic.rs" "a domain's interval has passed";
    NotTheBalancer "should_we_balance" "4.5 –" "balance/pass.rs" "another CPU of the group balances";
    NewidleBalance "sched_balance_newidle" "4.5 –" "balance/newidle.rs" "a CPU about to idle looks for work";
    NewidleNotWorthwhile "sched_balance_newidle" "4.5 –" "balance/newidle.rs" "no CPU has two tasks, or idle times are too short: no search";
    NewidleTooDear "sched_balance_newidle" "4.5 –" "balance/newidle.rs" "the next domain costs more than the CPU idles";
    NohzKick "nohz_balancer_kick" "4.5 –" "balance/nohz.rs" "a busy CPU has an idle one balance for all idle ones";
    NohzBalance "_nohz_idle_balance" "4.5 –" "balance/nohz.rs" "an idle CPU balances for others";
    NohzStats "nohz_balancer_kick" "+nohz-blocked" "balance/nohz.rs" "blocked load of idle CPUs is due";
    ActiveBalance "need_active_balance" "4.5 –" "balance/pass.rs" "the migration thread is to push the running task";
    ActiveBalanceDone "active_load_balance_cpu_stop" "4.5 –" "balance/pass.rs" "the migration thread pushed it";
}
"Load balance: how much" {
    NoBusierGroup "sched_balance_find_src_group" "4.5 –" "balance/pass.rs" "no group is busier";
    EnergyStays "sched_balance_find_src_group" "+energy-aware" "balance/busiest.rs" "no CPU is overutilized: tasks stay where energy put them";
    BusierByType "sched_balance_find_src_group" "+balance-rework" "balance/busiest.rs" "the busiest group is of a busier type, or has more of it";
    BusierByLoad "find_busiest_group" "-balance-rework" "balance/averages.rs" "the busiest group has the higher average load";
    MoveLoad "calculate_imbalance" "4.5 –" "balance/env.rs" "load evened out";
    MoveUtil "calculate_imbalance" "+balance-rework" "balance/env.rs" "spare capacity filled by utilisation";
    Misfit "update_misfit_status" "+asym-capacity" "capacity.rs" "the running task is too large for its CPU and may use a larger one";
    ClampMisses "util_fits_cpu" "6.1 –" "uclamp.rs" "the task fits, but not the least utilisation that it asks for";
    MoveMisfit "calculate_imbalance" "+asym-capacity" "balance/busiest.rs" "a task that is too large for its CPU goes to a larger one";
    MoveToLlc "calculate_imbalance" "+cache-aware" "balance/busiest.rs" "a task goes to the cache that its process prefers";
    MovePreferred "calculate_imbalance" "+preferred-cpus" "balance/busiest.rs" "tasks go to an idle CPU that the platform prefers";
    MoveTasks "calculate_imbalance" "+balance-rework" "balance/env.rs" "numbers of tasks or idle CPUs evened out";
    NumaAllowed "adjust_numa_imbalance" "+numa-two-tasks.." "balance/busiest.rs" "a small imbalance between nodes is left";
    NothingFits "detach_tasks" "4.5 –" "balance/pass.rs" "no task fits: running, cache hot, pinned or too large";
    TaskMoved "detach_tasks" "4.5 –" "balance/migrate.rs" "a task moves";
    TaskTooLarge "detach_tasks" "4.5 –" "balance/migrate.rs" "a task larger than the imbalance stays";
    CacheHot "can_migrate_task" "4.5 –" "balance/migrate.rs" "a task that ran less than 0.5 ms ago stays";
    LlcStays "migrate_degrades_llc" "+cache-aware" "balance/llc.rs" "a task stays in the cache that its process prefers, or another one is wanted here";
    LlcActiveStays "alb_break_llc" "+cache-aware" "balance/llc.rs" "the running task stays in the cache that its process prefers";
    Pinned "can_migrate_task" "4.5 –" "balance/migrate.rs" "a task may not run on the destination";
    AllPinned "sched_balance_rq" "4.5 –" "balance/pass.rs" "all tasks are pinned";
    RunningPinned "sched_balance_rq" "4.5 –" "balance/pass.rs" "the running task is pinned";
    ThrottledStays "can_migrate_task" "4.5 –" "balance/migrate.rs" "a task of a throttled group stays";
}
"Caches of processes" {
    LlcScan "task_cache_work" "+cache-aware" "cache.rs" "a thread looks in which last level cache its process runs most";
    LlcPreferred "task_cache_work" "+cache-aware" "cache.rs" "a process has more than twice the part of another cache: it prefers that one";
    LlcForgotten "invalid_llc_nr" "+cache-aware" "cache.rs" "a process with one thread, or too many that run, prefers no cache";
}
"Real time" {
    RtPick "pick_next_rt_entity" "4.5 –" "rt/queue.rs" "the highest priority, first come";
    RtPreempts "wakeup_preempt_rt" "4.5 –" "rt/queue.rs" "a higher priority preempts";
    RrSlice "task_tick_rt" "4.5 –" "rt/queue.rs" "SCHED_RR moves on after 100 ms";
    RtCapacity "cpupri_find_fitness" "6.1 –" "rt/place.rs" "among CPUs that are large enough for its utilisation clamp";
    RtPlace "select_task_rq_rt" "4.5 –" "rt/place.rs" "a CPU with less urgent work";
    RtPush "push_rt_task" "4.5 –" "rt/push.rs" "a waiting task is pushed to a CPU with less urgent work";
    RtPull "pull_rt_task" "4.5 –" "rt/push.rs" "a CPU that drops in priority pulls";
    RtThrottled "sched_rt_runtime_exceeded" "-fair-server" "rt/throttle.rs" "real-time tasks used up their 950 ms";
    RtReplenished "do_sched_rt_period_timer" "-fair-server" "rt/throttle.rs" "a new period pays";
    FairServerIdles "dl_server_update_idle" "+fair-server-idle" "rt/fair_server.rs" "a fair server whose period went by in idle waits for its end and stops";
    FairServerRuns "dl_server_start" "+fair-server" "rt/fair_server.rs" "fair tasks have 50 ms a second under real-time load";
    StopFirst "pick_task_stop" "4.5 –" "core/stop.rs" "the migration thread runs before everything";
}
"Deadline" {
    DlPick "pick_task_dl" "6.1 –" "dl/queue.rs" "the earliest deadline";
    DlPreempts "wakeup_preempt_dl" "6.1 –" "dl/queue.rs" "an earlier deadline preempts";
    DlYields "yield_task_dl" "6.1 –" "dl/queue.rs" "a deadline task that yields waits for its next period";
    DlNewDeadline "update_dl_entity" "6.1 –" "dl/budget.rs" "a woken task begins a new period: its deadline has passed, or what is left is too much for the time to it";
    DlKeepsDeadline "update_dl_entity" "6.1 –" "dl/budget.rs" "a woken task keeps runtime and deadline";
    DlRevised "update_dl_revised_wakeup" "6.1 –" "dl/budget.rs" "a woken task with a deadline shorter than its period gets what fits until then";
    DlConstrained "dl_check_constrained_dl" "6.1 –" "dl/budget.rs" "a task whose deadline has passed waits for the end of its period";
    DlThrottled "update_curr_dl_se" "6.1 –" "dl/budget.rs" "a task that used its runtime up waits for its next period";
    DlReplenished "replenish_dl_entity" "6.1 –" "dl/budget.rs" "a new period pays, for as many as were overrun";
    DlReclaims "grub_reclaim" "6.1 –" "dl/bandwidth.rs" "runtime is used up more slowly while others leave theirs unused (SCHED_FLAG_RECLAIM)";
    DlZeroLag "task_non_contending" "6.1 –" "dl/bandwidth.rs" "a sleeper counts as active until its 0-lag time";
    DlRefused "sched_dl_overflow" "6.1 –" "dl/bandwidth.rs" "a reservation beyond what may be reserved is refused";
    DlPlace "select_task_rq_dl" "6.1 –" "dl/place.rs" "a CPU without deadline tasks, or that with the latest deadline";
    DlPush "push_dl_task" "6.1 –" "dl/push.rs" "a waiting task is pushed to a CPU where it has the earliest deadline";
    DlPull "pull_dl_task" "6.1 –" "dl/push.rs" "a CPU whose deadline task leaves pulls";
}
"Main sequence" {
    TickUpdates "sched_tick" "4.5 –" "core/tick.rs" "the tick charges, ages and checks";
    NontaskTime "update_rq_clock_task" "4.5 –" "core/irqtime.rs" "interrupts (irq_time_accounting) and stolen time are no task's";
    TickStopped "tick_nohz_stop_tick" "4.5 –" "cpuidle/device.rs" "an idle CPU stops its tick";
    FullTickStopped "tick_nohz_full_stop_tick" "+nohz-full" "core/nohz_full.rs" "a CPU of nohz_full that runs one task stops its tick";
    RemoteTick "sched_tick_remote" "+nohz-full" "core/nohz_full.rs" "once a second another CPU does the work of ticks that are stopped";
    LazyResched "resched_curr_lazy" "6.13 –" "core/schedule.rs" "lazy preemption waits for user mode or the tick";
    ForkPlaced "wake_up_new_task" "4.5 –" "core/life.rs" "a new task is placed and may preempt";
    ChildFirst "task_fork_fair" "-eevdf" "core/life.rs" "sched_child_runs_first: the child takes the parent's place";
    SwitchLevels "pick_next_task_fair" "4.5 –" "fair/pick.rs" "only levels that differ are put and set";
    CpuFallback "select_fallback_rq" "4.5 –" "core/wakeup.rs" "the chosen CPU is forbidden: an allowed one of the node";
}
}
