# What is written into the copies of core.c and fair.c that are compiled: the host is told where tasks are placed, queued and moved,
# where queues are throttled, where the lock of a queue may be waited for, and at the begin of functions whose work takes
# time on a machine. Every line stays one line: the compiler names it in its messages.
s/^\(\ttrace_sched_wakeup_new(p);\)$/\1 sc_woken(p);/
/^ttwu_do_activate(/,/^}/s/^\tactivate_task(rq, p, en_flags);$/& sc_woken(p);/
/^static int ttwu_runnable(/,/^}/{
s/^\(\t*\)update_rq_clock(rq);$/\1sc_lock(rq); update_rq_clock(rq);/
s/^\(\t*\)\(if (!task_on_cpu(rq, p)) {\)$/\1sc_woken(p); \2/
s/^\(\t*\)\(ttwu_do_wakeup(rq, p, .*);\)$/\1sc_woken(p); \2/
s/^\(\t*ttwu_do_wakeup(.*);\)$/\1 sc_unlock(rq); sc_wakeup_end(p);/
s/sc_woken(p); ttwu_do_wakeup(.*);$/& sc_unlock(rq); sc_wakeup_end(p);/
}
/^static void ttwu_queue(/,/^}/{
s/^\trq_lock(rq, &rf);$/& sc_lock_to_wake(rq, p);/
s/^\trq_unlock(rq, &rf);$/& sc_unlock_woken(rq, p); sc_wakeup_end(p);/
}
/^void sched_ttwu_pending(/,/^}/{
s/^\trq_lock_irqsave(rq, &rf);$/& sc_lock(rq);/
s/^\t\tttwu_do_activate(rq, p, .*);$/& sc_wakeup_end(p);/
s/^\trq_unlock_irqrestore(rq, &rf);$/& sc_unlock(rq);/
}
/^int select_task_rq(struct task_struct \*p,/,/^}/s/^\treturn cpu;$/\tsc_placed(p, cpu); &/
/^\(static int \|int \|\)try_to_wake_up(/,/^}/{
s/^\t*trace_sched_waking(p);$/& sc_waking(p);/
s/smp_load_acquire(&p->on_cpu) &&$/sc_leaving(p) \&\&/
s/^\t*smp_cond_load_acquire(&p->on_cpu, !VAL);$/& sc_await(p);/
}
/^static .*__schedule(.*)$/,/^}/{
s/^\trq_lock(rq, &rf);$/& sc_lock(rq);/
s/^\t\traw_spin_rq_unlock_irq(rq);$/& sc_unlock(rq);/
}
/^\(static inline void\|static void\|void\) enqueue_task(struct rq \*rq,.*[^;]$/,/^{/s/^{/{ if (sc_real_time(p)) sc_spend(SC_ENQUEUE_LEVEL, 1);/
/^\(static inline void\|static void\|inline bool\|static inline bool\|bool\) dequeue_task(struct rq \*rq,.*[^;]$/,/^{/s/^{/{ if (sc_real_time(p)) sc_spend(SC_DEQUEUE_LEVEL, 1);/
s/^\traw_spin_rq_lock(this_rq);$/& sc_relock(this_rq);/
s/^\(\ttrace_sched_migrate_task(p, new_cpu);\)$/\1 sc_migrated(p, new_cpu);/
s/^\tsched_init_dl_servers();$/\tsc_activate();&/
s/^\(\tcfs_rq->throttled = 1;\)$/\1 sc_throttled(cfs_rq, 1);/
s/^\(\tcfs_rq->throttled = 0;\)$/\1 sc_spend(SC_UNTHROTTLE, 1); sc_throttled(cfs_rq, 0);/
# A call that waited was executed before calls of other CPUs that begin earlier: time before the last update is none.
/^static inline void update_tg_load_avg(/,/^}/s/(now - cfs_rq->last_update_tg_load_avg < NSEC_PER_MSEC)/((s64)(now - cfs_rq->last_update_tg_load_avg) < (s64)NSEC_PER_MSEC)/
/^enqueue_entity(/,/^{/s/^{/{ sc_spend(SC_ENQUEUE_LEVEL, 1);/
/^dequeue_entity(/,/^{/s/^{/{ sc_spend(SC_DEQUEUE_LEVEL, 1);/
/^static long calc_group_shares(.*)$/,/^{/s/^{/{ sc_spend(SC_UPDATE_CFS_GROUP, 1);/
s/^\tshares = static_call(calc_group_shares)(gcfs_rq);$/\tsc_spend(SC_UPDATE_CFS_GROUP, 1);&/
/^entity_tick(/,/^{/s/^{/{ sc_spend(SC_TICK_LEVEL, 1);/
/^static inline int __select_idle_cpu(/,/^{/s/^{/{ sc_spend(SC_SCAN_CPU, 1);/
/^static void detach_task(/,/^{/s/^{/{ sc_spend(SC_BALANCE_MOVE_TASK, 1);/
/^static enum hrtimer_restart sched_cfs_period_timer(/,/^{/s/^{/{ sc_spend(SC_PERIOD_TIMER, 1);/
/^static inline void update_sg_lb_stats(/,/^{/s/^{/{ sc_spend(SC_BALANCE_CPU, sc_both(sched_group_span(group), env->cpus));/
/^static inline void update_sg_wakeup_stats(/,/^}/{
s/^\t\(for_each_cpu(i, sched_group_span(group)) {\)$/\tsc_spend(SC_SCAN_CPU, cpumask_weight(sched_group_span(group))); \1/
s/^\t\(for_each_cpu_and(i, sched_group_span(group), p->cpus_ptr) {\)$/\tsc_spend(SC_SCAN_CPU, sc_allowed(p, sched_group_span(group))); \1/
}
/^\(sched_balance_find_dst_group_cpu\|find_idlest_group_cpu\)(/,/^}/{
s/^\t\(for_each_cpu_and(i, sched_group_span(group), p->cpus_ptr) {\)$/\tsc_spend(SC_SCAN_CPU, sc_allowed(p, sched_group_span(group))); \1/
}
/^static int select_idle_smt(/,/^{/s/^{/{ sc_spend(SC_SCAN_CPU, sc_allowed(p, cpu_smt_mask(target)));/
/^static int select_idle_cpu(/,/^}/{
s/^\(\t*\)return i;$/\1{ sc_spend(SC_SCAN_CPU, sc_looks(p, sched_domain_span(sd), target + 1, i)); return i; }/
s/^\t\tset_idle_cores(target, false);$/{ sc_spend(SC_SCAN_CPU, sc_allowed(p, sched_domain_span(sd)));& }/
s/^\t\t\(if (available_idle_cpu(cpu) || sched_idle_cpu(cpu))\)$/\t\tsc_spend(SC_SCAN_CPU, 1); \1/
}
/^static int select_idle_core(/,/^}/{
s/^\t\t\treturn core;$/\t\t\t{ sc_spend(SC_SCAN_CPU, sc_looks(p, sched_domain_span(sd), target, core)); return core; }/
s/^\tset_idle_cores(target, 0);$/\tsc_spend(SC_SCAN_CPU, sc_allowed(p, sched_domain_span(sd)));&/
}
s/^\(\t\t      HRTIMER_MODE_REL_HARD\) | HRTIMER_MODE_LAZY_REARM);$/\1);/
