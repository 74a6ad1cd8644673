//! The members that are compared after each step: their names in trees, and their values by the
//! rules.
//!
//! Worked example: a tree calls the CPU of a task `cpu` or `thread_info.cpu`. The row of the first
//! name that the tree has is compared with `task.cpu`.

use schedcast_kernel::Kernel;
use schedcast_kernel::balance::{Domain, GroupCapacity, Tickless};
use schedcast_kernel::cache::{CacheTime, CpuEpoch, LlcLoad, Process};
use schedcast_kernel::cfs_rq::CfsRq;
use schedcast_kernel::entity::Entity;
use schedcast_kernel::group::Group;
use schedcast_kernel::pelt::SchedAvg;
use schedcast_kernel::rq::Rq;
use schedcast_kernel::task::{Task, TaskState};

/// The task clock of the rules at time 0; the tree's begins at 0.
const CLOCK_AT_START_NS: i128 = 1 << 20;

/// A member under the names it has in different trees, and the same of the rules.
pub(super) type Row<T> = (&'static [&'static str], fn(&Kernel, &T) -> i128);

pub(super) const TASK: &[Row<Task>] = &[
    (&["cpu", "thread_info.cpu"], |_, task| task.cpu.0.into()),
    (&["on_cpu"], |_, task| task.on_cpu.into()),
    (&["recent_used_cpu"], |_, task| {
        task.recent_used_cpu.0.into()
    }),
    (&["wakee_flips"], |_, task| task.wakee_flips.into()),
    (&["nr_cpus_allowed"], |_, task| task.nr_cpus_allowed.into()),
    (&["rt.time_slice"], |_, task| task.rr_ticks.into()),
    (&["__state", "state"], |_, task| match task.state {
        TaskState::Running => 0,
        TaskState::Blocked => 1,
        TaskState::New => 0x800,
        TaskState::Waking => 0x200,
        TaskState::Dead => 0x80,
    }),
    (&["on_rq"], |_, task| task.on_rq.into()),
    (&["throttled"], |_, task| task.throttled.into()),
    (&["preferred_llc"], |_, task| {
        task.cache.preferred_llc.map_or(-1, i128::from)
    }),
    (&["pref_llc_queued"], |_, task| {
        task.cache.queued_there.into()
    }),
];

pub(super) const PROCESS: &[Row<Process>] = &[
    (&["cpu"], |_, mm| mm.cpu.map_or(-1, |cpu| i128::from(cpu.0))),
    (&["epoch"], |_, mm| mm.epoch.into()),
    (&["next_scan"], |kernel, mm| jiffy(kernel, mm.next_scan)),
    (&["nr_running_avg"], |_, mm| mm.nr_running_avg.into()),
];

pub(super) const CACHE_TIME: &[Row<CacheTime>] = &[
    (&["runtime"], |_, time| time.runtime_ns.into()),
    (&["epoch"], |_, time| time.epoch.into()),
];

/// Of a CPU, where the kernel is cache-aware and the machine has several caches.
pub(super) const CPU_EPOCH: &[Row<CpuEpoch>] = &[
    (&["cpu_runtime"], |_, cpu| cpu.runtime_ns.into()),
    (&["cpu_epoch"], |_, cpu| cpu.epoch.into()),
    (&["cpu_epoch_next"], |kernel, cpu| {
        jiffy(kernel, cpu.next_jiffy)
    }),
];

pub(super) const LLC: &[Row<LlcLoad>] = &[
    (&["util_avg"], |_, llc| llc.util.into()),
    (&["capacity"], |_, llc| llc.capacity.into()),
];

pub(super) const ENTITY: &[Row<Entity>] = &[
    (&["on_rq"], |_, se| se.on_rq.into()),
    (&["sched_delayed"], |_, se| se.sched_delayed.into()),
    (&["load.weight"], |_, se| se.load.weight.into()),
    (&["sum_exec_runtime"], |_, se| se.sum_exec_runtime.into()),
    (&["prev_sum_exec_runtime"], |_, se| {
        se.prev_sum_exec_runtime.into()
    }),
    (&["avg.load_avg"], |_, se| se.avg.load_avg.into()),
    (&["avg.runnable_avg"], |_, se| se.avg.runnable_avg.into()),
    (&["avg.util_avg"], |_, se| se.avg.util_avg.into()),
    (&["avg.load_sum"], |_, se| se.avg.load_sum.into()),
    (&["avg.runnable_sum"], |_, se| se.avg.runnable_sum.into()),
    (&["avg.util_sum"], |_, se| se.avg.util_sum.into()),
    (&["avg.last_update_time"], |_, se| last_update(&se.avg)),
];

pub(super) const CFS_RQ: &[Row<CfsRq>] = &[
    (&["load.weight"], |_, q| q.load.weight.into()),
    (&["nr_queued", "nr_running"], |_, q| q.nr_queued.into()),
    (&["h_nr_queued", "h_nr_running"], |_, q| {
        q.h_nr_queued.into()
    }),
    (&["h_nr_idle", "idle_h_nr_running"], |_, q| {
        q.h_nr_idle.into()
    }),
    (&["h_nr_runnable"], |_, q| q.h_nr_runnable.into()),
    (&["avg.load_avg"], |_, q| q.avg.load_avg.into()),
    (&["avg.runnable_avg"], |_, q| q.avg.runnable_avg.into()),
    (&["avg.util_avg"], |_, q| q.avg.util_avg.into()),
    (&["avg.load_sum"], |_, q| q.avg.load_sum.into()),
    (&["avg.runnable_sum"], |_, q| q.avg.runnable_sum.into()),
    (&["avg.util_sum"], |_, q| q.avg.util_sum.into()),
    (&["avg.last_update_time"], |_, q| last_update(&q.avg)),
    (&["avg.util_est", "avg.util_est.enqueued"], |_, q| {
        q.util_est_enqueued.into()
    }),
    (&["avg_load", "sum_weight"], |_, q| q.avg_load.into()),
    (&["removed.nr"], |_, q| q.removed.nr.into()),
    (&["removed.load_avg"], |_, q| q.removed.load_avg.into()),
    (&["removed.util_avg"], |_, q| q.removed.util_avg.into()),
    (&["removed.runnable_avg"], |_, q| {
        q.removed.runnable_avg.into()
    }),
];

/// Only of queues of groups.
pub(super) const GROUP_CFS_RQ: &[Row<CfsRq>] = &[
    (&["tg_load_avg_contrib"], |_, q| {
        q.tg_load_avg_contrib.into()
    }),
    (&["propagate"], |_, q| q.propagate.into()),
    (&["prop_runnable_sum"], |_, q| q.prop_runnable_sum.into()),
    (&["on_list"], |_, q| q.on_leaf_list.into()),
    (&["runtime_enabled"], |_, q| q.runtime_enabled.into()),
    (&["runtime_remaining"], |_, q| q.runtime_remaining_ns.into()),
    (&["throttled"], |_, q| q.throttled.into()),
    (&["throttle_count"], |_, q| q.throttle_count.into()),
    (&["throttled_clock_pelt_time"], |_, q| {
        q.throttled_clock_pelt_time_ns.into()
    }),
];

pub(super) const RQ: &[Row<Rq>] = &[
    (&["nr_running"], |_, rq| rq.nr_running.into()),
    (&["clock"], |_, rq| rq.clock.into()),
    (&["clock_task"], |_, rq| task_clock(rq.clock_task)),
    (&["clock_pelt"], |_, rq| task_clock(rq.clock_pelt)),
    (&["lost_idle_time"], |_, rq| rq.lost_idle_time_ns.into()),
    (&["ttwu_pending"], |_, rq| rq.ttwu_pending.into()),
    (&["nohz_tick_stopped"], |_, rq| rq.nohz_tick_stopped.into()),
    (&["cpu_capacity"], |_, rq| rq.cpu_capacity.into()),
    (&["misfit_task_load"], |_, rq| rq.misfit_task_load.into()),
    (&["uclamp[0].value"], |_, rq| rq.clamps.of.min.value.into()),
    (&["uclamp[1].value"], |_, rq| rq.clamps.of.max.value.into()),
    (&["uclamp_flags"], |_, rq| rq.clamps.idle.into()),
    (&["active_balance"], |_, rq| rq.active_balance.into()),
    (&["has_blocked_load"], |_, rq| rq.has_blocked_load.into()),
    (&["next_balance"], |kernel, rq| {
        jiffy(kernel, rq.next_balance)
    }),
    (&["idle_stamp"], |_, rq| rq.idle_stamp.into()),
    (&["avg_idle"], |_, rq| rq.avg_idle.into()),
    (&["last_blocked_load_update_tick"], |kernel, rq| {
        jiffy(kernel, rq.last_blocked_load_update_tick)
    }),
    (&["nohz_flags.counter"], |kernel, rq| {
        kernel.nohz_flags(rq.cpu).into()
    }),
    (&["max_idle_balance_cost"], |_, rq| {
        rq.max_idle_balance_cost_ns.into()
    }),
    (&["rt.rt_nr_running"], |_, rq| rq.rt.nr_running.into()),
    (&["avg_rt.util_avg"], |_, rq| rq.rt.avg.util_avg.into()),
    (&["avg_rt.util_sum"], |_, rq| rq.rt.avg.util_sum.into()),
    (&["avg_dl.util_avg"], |kernel, rq| {
        kernel.dl.rqs[rq.cpu.index()].avg.util_avg.into()
    }),
    (&["avg_dl.util_sum"], |kernel, rq| {
        kernel.dl.rqs[rq.cpu.index()].avg.util_sum.into()
    }),
    (&["avg_irq.util_avg"], |_, rq| rq.avg_irq.util_avg.into()),
    (&["avg_irq.util_sum"], |_, rq| rq.avg_irq.util_sum.into()),
    (&["dl.dl_nr_running"], |_, rq| rq.dl_nr_running.into()),
    (&["dl.extra_bw"], |kernel, rq| {
        kernel.dl.rqs[rq.cpu.index()].extra_bw.into()
    }),
    (&["dl.running_bw"], |kernel, rq| {
        kernel.dl.rqs[rq.cpu.index()].running_bw.into()
    }),
    (&["nr_pref_llc_running"], |_, rq| {
        rq.nr_pref_llc_running.into()
    }),
    (&["dl.this_bw"], |kernel, rq| {
        kernel.dl.rqs[rq.cpu.index()].this_bw.into()
    }),
];

pub(super) const DOMAIN: &[Row<Domain>] = &[
    (&["last_balance"], |kernel, sd| {
        jiffy(kernel, sd.last_balance)
    }),
    (&["balance_interval"], |_, sd| sd.balance_interval.into()),
    (&["nr_balance_failed"], |_, sd| sd.nr_balance_failed.into()),
    (&["max_newidle_lb_cost"], |_, sd| {
        sd.max_newidle_lb_cost_ns.into()
    }),
    (&["newidle_call"], |_, sd| sd.newidle_call().into()),
    (&["newidle_ratio"], |_, sd| sd.newidle_ratio().into()),
];

pub(super) const CAPACITY: &[Row<GroupCapacity>] = &[
    (&["capacity"], |_, group| group.capacity.into()),
    (&["min_capacity"], |_, group| group.min_capacity.into()),
    (&["max_capacity"], |_, group| group.max_capacity.into()),
    (&["imbalance"], |_, group| group.imbalance.into()),
];

/// Memory that balancing has of the machine; [`Tickless`] is a copy of it.
pub(super) const BALANCE: &[Row<Tickless>] = &[
    (&["next_balance"], |kernel, state| {
        jiffy(kernel, state.next_balance)
    }),
    (&["next_blocked"], |kernel, state| {
        jiffy(kernel, state.next_blocked)
    }),
    (&["has_blocked"], |_, state| state.has_blocked.into()),
    (&["needs_update"], |_, state| state.needs_update.into()),
    (&["overloaded"], |_, state| state.overloaded.into()),
    (&["idle_cpus"], |_, state| state.idle_cpus.into()),
];

pub(super) const GROUP: &[Row<Group>] = &[
    (&["shares"], |_, tg| tg.shares.into()),
    (&["load_avg.counter"], |_, tg| tg.load_avg.into()),
    (&["cfs_bandwidth.runtime"], |_, tg| {
        tg.bandwidth.runtime_ns.into()
    }),
    (&["cfs_bandwidth.idle"], |_, tg| tg.bandwidth.idle.into()),
    (&["cfs_bandwidth.period_active"], |_, tg| {
        tg.bandwidth.period_active.into()
    }),
    (&["cfs_bandwidth.slack_started"], |_, tg| {
        tg.bandwidth.slack_started.into()
    }),
    (&["cfs_bandwidth.nr_periods"], |_, tg| {
        tg.bandwidth.stat.nr_periods.into()
    }),
    (&["cfs_bandwidth.nr_throttled"], |_, tg| {
        tg.bandwidth.stat.nr_throttled.into()
    }),
    (&["cfs_bandwidth.throttled_time"], |_, tg| {
        tg.bandwidth.stat.throttled_time_ns.into()
    }),
    (&["cfs_bandwidth.nr_burst"], |_, tg| {
        tg.bandwidth.stat.nr_bursts.into()
    }),
    (&["cfs_bandwidth.burst_time"], |_, tg| {
        tg.bandwidth.stat.burst_time_ns.into()
    }),
];

/// Jiffies of the tree are counted from five minutes before their first wrap of 32 bits
/// (`INITIAL_JIFFIES`).
fn jiffy(kernel: &Kernel, since_boot: u64) -> i128 {
    (1 << 32) - 300 * i128::from(kernel.rules.hz) + i128::from(since_boot)
}

fn task_clock(ns: u64) -> i128 {
    i128::from(ns) - CLOCK_AT_START_NS
}

/// 0 marks what is to be attached, on both sides.
fn last_update(avg: &SchedAvg) -> i128 {
    match avg.last_update_time {
        0 => 0,
        time => task_clock(time),
    }
}
