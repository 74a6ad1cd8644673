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
    (&["cpu", "thread_info.cpu"], |_, task| {
        i128::from(task.cpu.0)
    }),
    (&["on_cpu"], |_, task| i128::from(task.on_cpu)),
    (&["recent_used_cpu"], |_, task| {
        i128::from(task.recent_used_cpu.0)
    }),
    (&["wakee_flips"], |_, task| i128::from(task.wakee_flips)),
    (&["nr_cpus_allowed"], |_, task| {
        i128::from(task.nr_cpus_allowed)
    }),
    (&["rt.time_slice"], |_, task| i128::from(task.rr_ticks)),
    (&["__state", "state"], |_, task| match task.state {
        TaskState::Running => 0,
        TaskState::Blocked => 1,
        TaskState::New => 0x800,
        TaskState::Waking => 0x200,
        TaskState::Dead => 0x80,
    }),
    (&["on_rq"], |_, task| i128::from(task.on_rq)),
    (&["throttled"], |_, task| i128::from(task.throttled)),
    (&["preferred_llc"], |_, task| {
        task.cache.preferred_llc.map_or(-1, i128::from)
    }),
    (&["pref_llc_queued"], |_, task| {
        i128::from(task.cache.queued_there)
    }),
];

pub(super) const PROCESS: &[Row<Process>] = &[
    (&["cpu"], |_, process| {
        process.cpu.map_or(-1, |cpu| i128::from(cpu.0))
    }),
    (&["epoch"], |_, process| i128::from(process.epoch)),
    (&["next_scan"], |kernel, process| {
        i128::from(process.next_scan) + jiffies_at_boot(kernel)
    }),
    (&["nr_running_avg"], |_, process| {
        i128::from(process.nr_running_avg)
    }),
];

pub(super) const CACHE_TIME: &[Row<CacheTime>] = &[
    (&["runtime"], |_, time| i128::from(time.runtime_ns)),
    (&["epoch"], |_, time| i128::from(time.epoch)),
];

/// Of a CPU, where the kernel is cache-aware and the machine has several caches.
pub(super) const CPU_EPOCH: &[Row<CpuEpoch>] = &[
    (&["cpu_runtime"], |_, cpu| i128::from(cpu.runtime_ns)),
    (&["cpu_epoch"], |_, cpu| i128::from(cpu.epoch)),
    (&["cpu_epoch_next"], |kernel, cpu| {
        i128::from(cpu.next_jiffy) + jiffies_at_boot(kernel)
    }),
];

pub(super) const LLC: &[Row<LlcLoad>] = &[
    (&["util_avg"], |_, llc| i128::from(llc.util)),
    (&["capacity"], |_, llc| i128::from(llc.capacity)),
];

pub(super) const ENTITY: &[Row<Entity>] = &[
    (&["on_rq"], |_, se| i128::from(se.on_rq)),
    (&["sched_delayed"], |_, se| i128::from(se.sched_delayed)),
    (&["load.weight"], |_, se| i128::from(se.load.weight)),
    (&["sum_exec_runtime"], |_, se| {
        i128::from(se.sum_exec_runtime)
    }),
    (&["prev_sum_exec_runtime"], |_, se| {
        i128::from(se.prev_sum_exec_runtime)
    }),
    (&["avg.load_avg"], |_, se| i128::from(se.avg.load_avg)),
    (&["avg.runnable_avg"], |_, se| {
        i128::from(se.avg.runnable_avg)
    }),
    (&["avg.util_avg"], |_, se| i128::from(se.avg.util_avg)),
    (&["avg.load_sum"], |_, se| i128::from(se.avg.load_sum)),
    (&["avg.runnable_sum"], |_, se| {
        i128::from(se.avg.runnable_sum)
    }),
    (&["avg.util_sum"], |_, se| i128::from(se.avg.util_sum)),
    (&["avg.last_update_time"], |_, se| last_update(&se.avg)),
];

pub(super) const CFS_RQ: &[Row<CfsRq>] = &[
    (&["load.weight"], |_, q| i128::from(q.load.weight)),
    (&["nr_queued", "nr_running"], |_, q| i128::from(q.nr_queued)),
    (&["h_nr_queued", "h_nr_running"], |_, q| {
        i128::from(q.h_nr_queued)
    }),
    (&["h_nr_idle", "idle_h_nr_running"], |_, q| {
        i128::from(q.h_nr_idle)
    }),
    (&["h_nr_runnable"], |_, q| i128::from(q.h_nr_runnable)),
    (&["avg.load_avg"], |_, q| i128::from(q.avg.load_avg)),
    (&["avg.runnable_avg"], |_, q| i128::from(q.avg.runnable_avg)),
    (&["avg.util_avg"], |_, q| i128::from(q.avg.util_avg)),
    (&["avg.load_sum"], |_, q| i128::from(q.avg.load_sum)),
    (&["avg.runnable_sum"], |_, q| i128::from(q.avg.runnable_sum)),
    (&["avg.util_sum"], |_, q| i128::from(q.avg.util_sum)),
    (&["avg.last_update_time"], |_, q| last_update(&q.avg)),
    (&["avg.util_est", "avg.util_est.enqueued"], |_, q| {
        i128::from(q.util_est_enqueued)
    }),
    (&["avg_load", "sum_weight"], |_, q| i128::from(q.avg_load)),
    (&["removed.nr"], |_, q| i128::from(q.removed.nr)),
    (&["removed.load_avg"], |_, q| i128::from(q.removed.load_avg)),
    (&["removed.util_avg"], |_, q| i128::from(q.removed.util_avg)),
    (&["removed.runnable_avg"], |_, q| {
        i128::from(q.removed.runnable_avg)
    }),
];

/// Only of queues of groups.
pub(super) const GROUP_CFS_RQ: &[Row<CfsRq>] = &[
    (&["tg_load_avg_contrib"], |_, q| {
        i128::from(q.tg_load_avg_contrib)
    }),
    (&["propagate"], |_, q| i128::from(q.propagate)),
    (&["prop_runnable_sum"], |_, q| {
        i128::from(q.prop_runnable_sum)
    }),
    (&["on_list"], |_, q| i128::from(q.on_leaf_list)),
    (&["runtime_enabled"], |_, q| i128::from(q.runtime_enabled)),
    (&["runtime_remaining"], |_, q| {
        i128::from(q.runtime_remaining_ns)
    }),
    (&["throttled"], |_, q| i128::from(q.throttled)),
    (&["throttle_count"], |_, q| i128::from(q.throttle_count)),
    (&["throttled_clock_pelt_time"], |_, q| {
        i128::from(q.throttled_clock_pelt_time_ns)
    }),
];

pub(super) const RQ: &[Row<Rq>] = &[
    (&["nr_running"], |_, rq| i128::from(rq.nr_running)),
    (&["clock"], |_, rq| i128::from(rq.clock)),
    (&["clock_task"], |_, rq| {
        i128::from(rq.clock_task) - CLOCK_AT_START_NS
    }),
    (&["clock_pelt"], |_, rq| {
        i128::from(rq.clock_pelt) - CLOCK_AT_START_NS
    }),
    (&["lost_idle_time"], |_, rq| {
        i128::from(rq.lost_idle_time_ns)
    }),
    (&["ttwu_pending"], |_, rq| i128::from(rq.ttwu_pending)),
    (&["nohz_tick_stopped"], |_, rq| {
        i128::from(rq.nohz_tick_stopped)
    }),
    (&["cpu_capacity"], |_, rq| i128::from(rq.cpu_capacity)),
    (&["misfit_task_load"], |_, rq| {
        i128::from(rq.misfit_task_load)
    }),
    (&["uclamp[0].value"], |_, rq| {
        i128::from(rq.clamps.of.min.value)
    }),
    (&["uclamp[1].value"], |_, rq| {
        i128::from(rq.clamps.of.max.value)
    }),
    (&["uclamp_flags"], |_, rq| i128::from(rq.clamps.idle)),
    (&["active_balance"], |_, rq| i128::from(rq.active_balance)),
    (&["has_blocked_load"], |_, rq| {
        i128::from(rq.has_blocked_load)
    }),
    (&["next_balance"], |kernel, rq| {
        i128::from(rq.next_balance) + jiffies_at_boot(kernel)
    }),
    (&["idle_stamp"], |_, rq| i128::from(rq.idle_stamp)),
    (&["avg_idle"], |_, rq| i128::from(rq.avg_idle)),
    (&["last_blocked_load_update_tick"], |kernel, rq| {
        i128::from(rq.last_blocked_load_update_tick) + jiffies_at_boot(kernel)
    }),
    (&["nohz_flags.counter"], |kernel, rq| {
        i128::from(kernel.nohz_flags(rq.cpu))
    }),
    (&["max_idle_balance_cost"], |_, rq| {
        i128::from(rq.max_idle_balance_cost_ns)
    }),
    (&["rt.rt_nr_running"], |_, rq| i128::from(rq.rt.nr_running)),
    (&["avg_rt.util_avg"], |_, rq| i128::from(rq.rt.avg.util_avg)),
    (&["avg_rt.util_sum"], |_, rq| i128::from(rq.rt.avg.util_sum)),
    (&["avg_dl.util_avg"], |kernel, rq| {
        i128::from(kernel.dl.rqs[rq.cpu.index()].avg.util_avg)
    }),
    (&["avg_dl.util_sum"], |kernel, rq| {
        i128::from(kernel.dl.rqs[rq.cpu.index()].avg.util_sum)
    }),
    (&["avg_irq.util_avg"], |_, rq| {
        i128::from(rq.avg_irq.util_avg)
    }),
    (&["avg_irq.util_sum"], |_, rq| {
        i128::from(rq.avg_irq.util_sum)
    }),
    (&["dl.dl_nr_running"], |_, rq| i128::from(rq.dl_nr_running)),
    (&["dl.extra_bw"], |kernel, rq| {
        i128::from(kernel.dl.rqs[rq.cpu.index()].extra_bw)
    }),
    (&["nr_pref_llc_running"], |_, rq| {
        i128::from(rq.nr_pref_llc_running)
    }),
    (&["dl.this_bw"], |kernel, rq| {
        i128::from(kernel.dl.rqs[rq.cpu.index()].this_bw)
    }),
];

pub(super) const DOMAIN: &[Row<Domain>] = &[
    (&["last_balance"], |kernel, domain| {
        i128::from(domain.last_balance) + jiffies_at_boot(kernel)
    }),
    (&["balance_interval"], |_, domain| {
        i128::from(domain.balance_interval)
    }),
    (&["nr_balance_failed"], |_, domain| {
        i128::from(domain.nr_balance_failed)
    }),
    (&["max_newidle_lb_cost"], |_, domain| {
        i128::from(domain.max_newidle_lb_cost_ns)
    }),
    (&["newidle_call"], |_, domain| {
        i128::from(domain.newidle_call())
    }),
    (&["newidle_ratio"], |_, domain| {
        i128::from(domain.newidle_ratio())
    }),
];

pub(super) const CAPACITY: &[Row<GroupCapacity>] = &[
    (&["capacity"], |_, group| i128::from(group.capacity)),
    (&["min_capacity"], |_, group| i128::from(group.min_capacity)),
    (&["max_capacity"], |_, group| i128::from(group.max_capacity)),
    (&["imbalance"], |_, group| i128::from(group.imbalance)),
];

/// Memory that balancing has of the machine; [`Tickless`] is a copy of it.
pub(super) const BALANCE: &[Row<Tickless>] = &[
    (&["next_balance"], |kernel, state| {
        i128::from(state.next_balance) + jiffies_at_boot(kernel)
    }),
    (&["next_blocked"], |kernel, state| {
        i128::from(state.next_blocked) + jiffies_at_boot(kernel)
    }),
    (&["has_blocked"], |_, state| i128::from(state.has_blocked)),
    (&["needs_update"], |_, state| i128::from(state.needs_update)),
    (&["overloaded"], |_, state| i128::from(state.overloaded)),
    (&["idle_cpus"], |_, state| i128::from(state.idle_cpus)),
];

pub(super) const GROUP: &[Row<Group>] = &[
    (&["shares"], |_, group| i128::from(group.shares)),
    (&["load_avg.counter"], |_, group| i128::from(group.load_avg)),
    (&["cfs_bandwidth.runtime"], |_, group| {
        i128::from(group.bandwidth.runtime_ns)
    }),
    (&["cfs_bandwidth.idle"], |_, group| {
        i128::from(group.bandwidth.idle)
    }),
    (&["cfs_bandwidth.period_active"], |_, group| {
        i128::from(group.bandwidth.period_active)
    }),
    (&["cfs_bandwidth.slack_started"], |_, group| {
        i128::from(group.bandwidth.slack_started)
    }),
    (&["cfs_bandwidth.nr_periods"], |_, group| {
        i128::from(group.bandwidth.stat.nr_periods)
    }),
    (&["cfs_bandwidth.nr_throttled"], |_, group| {
        i128::from(group.bandwidth.stat.nr_throttled)
    }),
    (&["cfs_bandwidth.throttled_time"], |_, group| {
        i128::from(group.bandwidth.stat.throttled_time_ns)
    }),
    (&["cfs_bandwidth.nr_burst"], |_, group| {
        i128::from(group.bandwidth.stat.nr_bursts)
    }),
    (&["cfs_bandwidth.burst_time"], |_, group| {
        i128::from(group.bandwidth.stat.burst_time_ns)
    }),
];

/// Jiffies are counted from five minutes before their first wrap of 32 bits (`INITIAL_JIFFIES`).
fn jiffies_at_boot(kernel: &Kernel) -> i128 {
    (1 << 32) - 300 * i128::from(kernel.rules.hz)
}

/// 0 marks what is to be attached, on both sides.
fn last_update(avg: &SchedAvg) -> i128 {
    match i128::from(avg.last_update_time) {
        0 => 0,
        time => time - CLOCK_AT_START_NS,
    }
}
