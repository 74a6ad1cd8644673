# What is written into the copies of core.c and fair.c that are compiled: the host is told where tasks are queued and moved,
# as trace points are, where queues are throttled, and at the begin of functions whose work takes time on a machine.
s/^\(\ttrace_sched_wakeup\(_new\)\{0,1\}(p);\)$/\1 sc_woken(p);/
s/^\(\ttrace_sched_migrate_task(p, new_cpu);\)$/\1 sc_migrated(p, new_cpu);/
s/^\(\tcfs_rq->throttled = 1;\)$/\1 sc_throttled(cfs_rq, 1);/
s/^\(\tcfs_rq->throttled = 0;\)$/\1 sc_spend(SC_UNTHROTTLE, 1); sc_throttled(cfs_rq, 0);/
/^enqueue_entity(/,/^{/s/^{/{ sc_spend(SC_ENQUEUE_LEVEL, 1);/
/^dequeue_entity(/,/^{/s/^{/{ sc_spend(SC_DEQUEUE_LEVEL, 1);/
/^static long calc_group_shares(.*)$/,/^{/s/^{/{ sc_spend(SC_UPDATE_CFS_GROUP, 1);/
/^entity_tick(/,/^{/s/^{/{ sc_spend(SC_TICK_LEVEL, 1);/
/^static inline int __select_idle_cpu(/,/^{/s/^{/{ sc_spend(SC_SCAN_CPU, 1);/
/^static void detach_task(/,/^{/s/^{/{ sc_spend(SC_BALANCE_MOVE_TASK, 1);/
/^static enum hrtimer_restart sched_cfs_period_timer(/,/^{/s/^{/{ sc_spend(SC_PERIOD_TIMER, 1);/
/^static inline void update_sg_lb_stats(/,/^{/s/^{/{ sc_spend(SC_BALANCE_CPU, cpumask_weight_and(sched_group_span(group), env->cpus));/
