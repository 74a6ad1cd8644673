//! Changes of where tasks are placed at wakeup, fork and exec.

use super::changes;
use crate::select::{IdleScan, IdlestGroup, SchedIdleCpus, WakeAffine};

changes! {
    "idle-sibling-scan" "10e2f1acd010" (4, 9) until (5, 12):
        (placement.idle_scan: IdleScan::IdleGroups => IdleScan::ThreePasses),
        "Scans of the cache look for an idle core, then an idle CPU, instead of an idle group.";
    "scan-needs-idle-time" "10e2f1acd010" (4, 9) until (4, 11): (on placement.scan_needs_idle_time),
        "A short average idle time stops scans of the cache (later the feature SIS_AVG_CPU).";
    "idlest-by-spare" "6a0b19c0f39a" (4, 10) until (5, 5):
        (placement.idlest_group: IdlestGroup::LoadRatio => IdlestGroup::SpareCapacity),
        "Forked and executed tasks go to the group with spare capacity.";
    "sis-prop" "1ad3aaf3fcd2" (4, 13) until (6, 0): (on features.sis_prop),
        "Scans are limited in proportion to the average idle time (SIS_PROP).";
    "wake-affine-nodes" "3fed382b46ba" (4, 13) until (4, 14):
        (placement.wake_affine: WakeAffine::EffectiveLoad => WakeAffine::NodeLoad),
        "Affine wakeups compare the loads of two nodes.";
    "wake-affine-idle" "d153b153446f" (4, 14): (placement.wake_affine: WakeAffine::NodeLoad => WakeAffine::IdleThenWeight)
        (on features.wa_idle) (on features.wa_weight) (on features.wa_bias),
        "Affine wakeups prefer idle CPUs, then compare loads.";
    "recent-used-cpu" "32e839dda3ba" (4, 16): (on recent_used_cpu),
        "Wakeups try the CPU the task used before its last one, when that is idle.";
    "recent-cpu-of-waker" "32e839dda3ba" (4, 16) until (5, 15): (on placement.recent_used_cpu_of_waker),
        "The CPU remembered as recently used is the waker's at affine wakeups.";
    "wake-affine-cache" "7332dec055f2" (4, 16): (on placement.wa_idle_needs_cache),
        "An idle waking CPU attracts the task only if it shares the cache with the task's last CPU.";
    "wake-affine-equal" "082f764a2f3f" (4, 17): (on placement.wa_weight_keeps_equal),
        "Of two equally loaded CPUs the task's last one is taken.";
    "exit-not-sync" release (4, 17): (on placement.exit_is_not_sync),
        "The wakeup of a parent by a task that exits is not taken for one before a sleep.";
    "idlest-prefers-node" release (4, 17): (on placement.idlest_prefers_node),
        "Forked and executed tasks leave a node only for one with clearly less load.";
    "sched-idle-last-resort" "3c29e651e16d" (5, 4) until (5, 7):
        (placement.sched_idle_cpus: SchedIdleCpus::Busy => SchedIdleCpus::LastResort),
        "A CPU with nothing but SCHED_IDLE tasks is taken when no idle one is found.";
    "idlest-rework" "57abff067a08" (5, 5):
        (placement.idlest_group: IdlestGroup::SpareCapacity => IdlestGroup::GroupTypes),
        "Forked and executed tasks are placed by the group types of the load balancer.";
    "kthread-stacking" "52262ee567ad" (5, 6): (on placement.per_cpu_kthread_stacks),
        "A per-CPU kernel thread keeps the task it wakes on its CPU.";
    "energy-aware" release (5, 10): (on energy.known),
        "Woken tasks go where they cost least energy, if the machine has an energy model (in the kernel since 5.0).";
    "energy-task-apart" "0372e1cf70c2" (5, 13): (on energy.task_time_apart),
        "The utilisation of a task counts beside that of its CPU, and not in it, as what the CPU is busy for.";
    "energy-base" "8d4c97c105ca" (5, 14): (on energy.base_of_candidates),
        "The margin of 6 % counts only the energy of domains with a candidate.";
    "inefficient-states" "8354eb9eb3dd" (5, 16): (on energy.skips_inefficient),
        "Frequencies that cost more energy than a higher one are passed over.";
    "energy-microwatts" "ae6ccaa65038" (6, 0): (on energy.microwatts),
        "Energy models hold power in microwatts, not in milliwatts.";
    "energy-task-time" "3e8c6c9aac42" (6, 0): (on energy.one_task_time),
        "The task's busy time is the same on every candidate CPU.";
    "energy-no-margin" "b812fc9768e0" (6, 0): (off energy.margin),
        "Any energy saved moves a task, not only 6 % of all, and no task moves within a domain to a CPU with less to spare.";
    "energy-any-size" "5b77261c5510" (6, 7): (on energy.any_complexity),
        "Energy models may be of any size.";
    "energy-by-performance" "1b600da51073" (6, 9): (on energy.by_performance),
        "The state of an energy model is chosen by its performance, not by its frequency.";
    "energy-task-runnable" "29922fdfc2a4" (7, 2) also [(6, 12, 97), (7, 1, 8)]: (on energy.task_runnable_moves),
        "The runnable time of a task counts where it would go, and not where it was.";
    "scan-allowed-only" "60588bfa223f" (5, 6): (off placement.scan_counts_forbidden),
        "CPUs forbidden by affinity do not use up the limit of scans.";
    "sched-idle-as-idle" release (5, 7): (placement.sched_idle_cpus: SchedIdleCpus::LastResort => SchedIdleCpus::Idle),
        "A CPU with nothing but SCHED_IDLE tasks counts as idle.";
    "wake-affine-idle-prev" "d8fcb81f1acf" (5, 11): (on placement.wa_idle_prefers_prev),
        "An idle last CPU settles an affine wakeup.";
    "one-scan" "9fe1f127b913" (5, 12): (placement.idle_scan: IdleScan::ThreePasses => IdleScan::OnePass),
        "One pass over the cache's CPUs looks for an idle core or an idle CPU, instead of three.";
    "smt-of-prev" "c722f35b513f" (5, 13) also [(5, 12, 3)]: (on placement.scan_smt_of_prev),
        "Without an idle core, an idle sibling of the task's last CPU is tried first.";
    "age-average-idle" "94aafc3ee31d" (5, 14): (on placement.sis_prop_ages),
        "The average idle time that limits scans ages while the CPU is busy.";
    "scan-behind-target" "56498cfb045d" (5, 15): (on placement.scan_starts_after_target),
        "Scans start behind the target, which was looked at already.";
    "recent-cpu-of-wakee" "89aafd67f28c" (5, 15): (
            has |rules| rules.recent_used_cpu && !rules.placement.recent_used_cpu_of_waker,
            set |rules, on| rules.placement.recent_used_cpu_of_waker = !on
        ),
        "The CPU remembered as recently used is the woken task's last one, not the waker's.";
    "recent-cpu-affinity-of-prev" "89aafd67f28c" (5, 15) until (6, 5) and [(6, 1, 42), (6, 4, 7)]:
        (on placement.recent_used_cpu_tests_prev),
        "Affinity is tested for the CPU that was just remembered instead of the one to be taken.";
    "kthread-stacking-task" "8b4e74ccb582" (5, 17) also [(5, 10, 94), (5, 15, 17), (5, 16, 3)]:
        (on placement.per_cpu_kthread_in_task_only),
        "Interrupts that hit a per-CPU kernel thread do not keep the woken task there.";
    "idlest-allowed-only" "82d6e01a0699" (6, 19) also [(6, 1, 178), (6, 12, 97), (6, 18, 39)]: (on placement.idlest_allowed_only),
        "Groups are compared by the CPUs that the forked task may use.";
    "sis-util" "70fb5ccf2ebb" (6, 0): (on features.sis_util),
        "Scans are limited by the utilisation of the cache's CPUs (SIS_UTIL).";
    "idlest-numa-affinity" "f5b2eeb49991" (6, 0): (on placement.idlest_numa_within_affinity),
        "The imbalance between nodes allowed at fork is at most the number of allowed local CPUs.";
    "cluster-scan" "8881e1639f1f" (6, 8): (on placement.cluster_scan),
        "Wakeups look among the CPUs that share the L2 cache before the others.";
    "wake-sync-delayed" "aa3ee4f0b754" (6, 16) also [(6, 12, 37), (6, 15, 3)] for Eevdf: (on placement.wa_idle_ignores_delayed),
        "Sleeping tasks that still are queued do not keep a woken task away from its waker's CPU.";
    "sched-idle-for-others" "fd54d81c2c0e" (7, 1): (on placement.sched_idle_cpus_for_others),
        "A CPU with nothing but SCHED_IDLE tasks counts as idle for others only, not for a SCHED_IDLE task.";
    "vcpu-pack" unpublished never: (on placement.vcpu_pack),
        "Wakees go to the waker's CPU while it has room, and only then: a provider's `sched_vcpu_pack=15`.";
}
