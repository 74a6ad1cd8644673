// SPDX-License-Identifier: GPL-2.0-only
/*
 * kernel/sched/core.c as it is, but that it tells the host of wakeups and migrations
 * (hooks.sed), and behind it what needs its static functions: the calls of the host.
 */
#include <arch/schedcast/core/host.h>
extern const struct sc_host *sc_host;
#define sc_woken(task) sc_host->woken(sc_host->world, (task)->pid, task_cpu(task))
#define sc_spend(operation, count) sc_host->spend(sc_host->world, operation, count)
#define sc_lock(queue) sc_host->lock(sc_host->world, SC_LOCK, cpu_of(queue), 0)
#define sc_unlock(queue) sc_host->lock(sc_host->world, SC_UNLOCK, cpu_of(queue), 0)
#define sc_leaving(task) sc_host->lock(sc_host->world, SC_LEAVING, task_cpu(task), (task)->pid)
#define sc_await(task) sc_host->lock(sc_host->world, SC_AWAIT, task_cpu(task), (task)->pid)
/* Classes whose tasks are queued by enqueue_task() alone. */
#define sc_real_time(task) ((task)->sched_class == &rt_sched_class || (task)->sched_class == &dl_sched_class)
/* Migration threads are woken with the lock of their queue at hand, and the price of a wakeup
 * has no end then. */
#define sc_stopper(task) ((task)->sched_class == &stop_sched_class)
#define sc_waking(task) do { if (sc_stopper(task)) sc_spend(SC_WAKEUP, 1); } while (0)
#define sc_lock_to_wake(queue, task) do { if (!sc_stopper(task)) sc_lock(queue); } while (0)
#define sc_unlock_woken(queue, task) do { if (!sc_stopper(task)) sc_unlock(queue); } while (0)
#define sc_wakeup_end(task) do { if (!sc_stopper(task)) sc_spend(SC_WAKEUP_END, 1); } while (0)
#define sc_placed(task, to) sc_host->placed(sc_host->world, (task)->pid, task_cpu(task), to)
#define sc_migrated(task, to) sc_host->migrated(sc_host->world, (task)->pid, task_cpu(task), to)
/* Behind the domains of a machine with isolated CPUs. */
#define sc_activate() cpumask_copy(&__cpu_active_mask, cpu_online_mask)
#include <core_hooked.c>
#include <arch/schedcast/core/internal.h>
#include <linux/clockchips.h>
#include <linux/cpuhotplug.h>
#if __has_include(<linux/hrtimer_bases.h>)
#include <linux/hrtimer_bases.h>
#endif
#include <linux/irq_work.h>
#include <linux/sched/clock.h>
#include <linux/sched/task.h>
#include <linux/smp.h>
#include <linux/task_work.h>

#define MAX_TASKS 8192
#define MAX_GROUPS 4096
static struct task_struct *tasks[MAX_TASKS];
static struct task_group *groups[MAX_GROUPS];
static struct css_set *sets[MAX_GROUPS];
static int nr_tasks, nr_groups;
static unsigned long start_jiffies;	/* since when tasks that nobody forked may have woken others */
static struct task_struct model;	/* what new tasks are copied from */
int sc_smt_threads = 1;	/* most threads of a core */
extern int sc_warned, sc_trapped, tick_nohz_active;
void sc_note_tick(void);

static struct css_set *set_for(struct task_group *group)
{
	struct css_set *set = sc_host->alloc(sc_host->world, sizeof(*set));

	set->subsys[cpu_cgrp_id] = &group->css;
	set->dfl_cgrp = sc_host->alloc(sc_host->world, sizeof(struct cgroup));
	return set;
}

/* Processes with live threads; a row without any is free. */
static struct process {
	unsigned number;
	struct mm_struct *mm;
	struct signal_struct signal;
} processes[MAX_TASKS];
static int process_rows;

static struct process *process_of(unsigned number)
{
	struct process *unused = NULL, *row;

	for (row = processes; row < processes + process_rows; row++) {
		if (row->signal.nr_threads && row->number == number)
			return row;
		if (!row->signal.nr_threads)
			unused = row;
	}
	row = unused ?: processes + process_rows++;
	if (!row->mm)
		row->mm = sc_host->alloc(sc_host->world, sizeof(*row->mm) + 1024);
	atomic_set(&row->mm->mm_count, 1 << 20);
	row->number = number;
	row->signal = *init_task.signal;
	row->signal.nr_threads = 0;
	INIT_LIST_HEAD(&row->signal.thread_head);
#ifdef SC_CACHE_GROUPS
	mm_alloc_sched(row->mm);
#endif
	return row;
}
/* A thread, which need not be the first, of a process: what copy_process() does for it. */
static void process_join(struct task_struct *task, struct process *process)
{
	task->mm = task->active_mm = process->mm;
	task->signal = &process->signal;
	if (process->signal.nr_threads++)
		task->group_leader = list_first_entry(&process->signal.thread_head, struct task_struct,
						      thread_node)->group_leader;
	task->tgid = task->group_leader->pid;
	list_add_tail_rcu(&task->thread_node, &process->signal.thread_head);
#ifdef SC_THREAD_GROUP
	if (task->group_leader != task)
		list_add_tail_rcu(&task->thread_group, &task->group_leader->thread_group);
#endif
#ifdef SC_CACHE_GROUPS
	sched_cache_fork(task);
#endif
}
/* What exit_mm() and release_task() do for the scheduler. A leader is released at once; in the
 * kernel it waits for its threads. */
static void process_leave(struct task_struct *task)
{
	if (!task->mm)
		return;
#ifdef SC_CACHE_GROUPS
	sched_cache_exit_mm(task);
#endif
	list_del_rcu(&task->thread_node);
#ifdef SC_THREAD_GROUP
	/* A leader's is the head of the list. */
	if (task->group_leader != task)
		list_del_rcu(&task->thread_group);
#endif
	if (--task->signal->nr_threads)
		return;
#ifdef SC_CACHE_GROUPS
	mm_destroy_sched(task->mm);
#endif
}

/* Remaining part of copy_process(). */
static struct task_struct *task_new(const struct sc_task *like, void (*entry)(void))
{
	struct task_struct *task = sc_host->alloc(sc_host->world, sizeof(*task)), *was;
#ifdef SC_CLONE_ARGS_CSET
	struct kernel_clone_args args = { .cset = sets[like->group] };
#endif
	int here = sc_cpu;

	if (nr_tasks == MAX_TASKS)
		sc_trap("more tasks than the object has room for");
	model.policy = like->policy;
	model.rt_priority = like->priority;
	model.static_prio = NICE_TO_PRIO(like->nice);
	model.normal_prio = rt_policy(like->policy) ? MAX_RT_PRIO - 1 - like->priority : model.static_prio;
	model.prio = model.normal_prio;
	*task = model;
	task->pid = task->tgid = nr_tasks;
	tasks[nr_tasks++] = task;
	task->thread.sp = sc_stack_for(entry);
	task->group_leader = task;
	task->real_parent = task->parent = &init_task;
	refcount_set(&task->usage, 2);
	refcount_set(&task->rcu_users, 1);
	INIT_LIST_HEAD(&task->tasks);
	INIT_LIST_HEAD(&task->children);
	INIT_LIST_HEAD(&task->sibling);
	INIT_LIST_HEAD(&task->thread_node);
#ifdef SC_THREAD_GROUP
	INIT_LIST_HEAD(&task->thread_group);
#endif
	strscpy(task->comm, like->name, sizeof(task->comm));
	raw_spin_lock_init(&task->pi_lock);
	spin_lock_init(&task->alloc_lock);
	task->flags = like->kthread ? PF_KTHREAD : 0;
	task->mm = task->active_mm = NULL;
	task->cpus_ptr = &task->cpus_mask;
	cpumask_clear(&task->cpus_mask);
	cpumask_bits(&task->cpus_mask)[0] = like->cpus & cpumask_bits(cpu_possible_mask)[0];
	task->nr_cpus_allowed = cpumask_weight(&task->cpus_mask);
	task->cgroups = sets[like->group];
#ifdef SC_CUSTOM_SLICE
	if (like->slice_ns) {
		task->se.custom_slice = 1;
		task->se.slice = like->slice_ns;
	}
#endif
#ifdef CONFIG_UCLAMP_TASK
	if (like->util_min >= 0)
		uclamp_se_set(&task->uclamp_req[UCLAMP_MIN], like->util_min, true);
	if (like->util_max >= 0)
		uclamp_se_set(&task->uclamp_req[UCLAMP_MAX], like->util_max, true);
	if (like->util_min >= 0 || like->util_max >= 0)
		static_branch_enable(&sched_uclamp_used);
#endif
#ifdef SC_LOAD_WEIGHT_UPDATES
	set_load_weight(task, false);
#else
	task->state = TASK_NEW;	/* or it takes the task for one of a queue */
	set_load_weight(task);
#endif
	sc_enter(like->cpu);	/* up to 5.14 the new task is put there before it is asked where to go */
	was = current;
	sc_current = &model;
	sched_fork(0, task);
	sc_current = was;
	if (!like->kthread)
		process_join(task, process_of(like->process));
	preempt_count_inc();	/* no call is under way in which it could be preempted */
#ifdef SC_CGROUP_FORK
	sched_cgroup_fork(task, &args);
	sched_post_fork(task);
#elif defined(SC_POST_FORK_ARGS)
	sched_post_fork(task, &args);
#else
	sched_post_fork(task);
#endif
	preempt_count_dec();
	if (like->parent >= 0) {
		task->wakee_flips = tasks[like->parent]->wakee_flips;
		task->wakee_flip_decay_ts = tasks[like->parent]->wakee_flip_decay_ts;
		task->last_wakee = tasks[like->parent]->last_wakee;
	} else {
		task->wakee_flip_decay_ts = start_jiffies;
	}
	if (like->asleep) {
		task->se.avg = (struct sched_avg) { };
#ifdef SC_STATE_UNDERSCORED
		task->__state = TASK_INTERRUPTIBLE;
#else
		task->state = TASK_INTERRUPTIBLE;
#endif
	}
	sc_enter(here);
	return task;
}
static void user_task(void);
int sc_task_new(const struct sc_task *like)
{
	/* Up to 6.11 the forking CPU's clock is brought up to date on the way. */
	sc_now(like->now);
	return task_new(like, user_task)->pid;
}
struct task_struct *sc_thread_new(void (*entry)(void), const char *name, int cpu)
{
	struct sc_task like = { .kthread = 1, .cpus = 1UL << cpu, .cpu = 0, .parent = -1,
		.util_min = -1, .util_max = -1 };

	snprintf(like.name, sizeof(like.name), "%s/%d", name, cpu);
	return task_new(&like, entry);
}

/* The call that the current task of the CPU being simulated is to execute. */
static struct { int call; const long *argument; long result; bool stays; } call;
/* CPUs whose interrupt is not over. */
static bool in_interrupt[NR_CPUS];

/* Whether the device of the CPU is programmed for the end of a slice. */
bool sc_hrtick_is_next(void)
{
#ifdef SC_LAZY_REARM
	struct hrtimer *timer = &this_rq()->hrtick_timer;

	return timer->base->cpu_base->next_timer == timer;
#else
	return false;
#endif
}

static struct clock_event_device event_device;
static void serve_interrupt(void)
{
	if (!in_interrupt[sc_cpu])
		irq_enter();
	in_interrupt[sc_cpu] = call.stays;
	switch (call.call) {
	case SC_IRQ_TICK:
		sc_note_tick();
#ifdef SC_SCHED_TICK
		sched_tick();
#else
		scheduler_tick();
#endif
		break;
	case SC_IRQ_TIMER:
		hrtimer_interrupt(&event_device);
		break;
	case SC_IRQ_RESCHED:
		scheduler_ipi();
		break;
	case SC_IRQ_FUNCTION:
		generic_smp_call_function_single_interrupt();
		break;
	case SC_IRQ_WORK:
		irq_work_run();
		break;
	case SC_IRQ_WAKE:
		try_to_wake_up(tasks[call.argument[0]], TASK_NORMAL, call.argument[1] ? WF_SYNC : 0);
		break;
	}
	if (!call.stays)
		irq_exit();
}
static void serve(void)
{
	int kind = call.call;

	if (kind == SC_NOTHING && in_interrupt[sc_cpu]) {
		in_interrupt[sc_cpu] = false;
		local_irq_disable();
		irq_exit();
		local_irq_enable();
		return;
	}
	if (kind >= SC_IRQ_ENTER && kind <= SC_IRQ_WAKE) {
		local_irq_disable();
		serve_interrupt();
		local_irq_enable();
		return;
	}
	/* The flag is one for all CPUs: an idle one may have left it set. */
	if (kind != SC_NOTHING)
		local_irq_enable();
	switch (kind) {
	case SC_WAKE:
		call.result = try_to_wake_up(tasks[call.argument[0]], TASK_NORMAL, call.argument[1] ? WF_SYNC : 0);
		break;
	case SC_BLOCK:
		set_current_state(TASK_INTERRUPTIBLE);
		schedule();
		break;
	case SC_YIELD:
		yield();
		break;
	case SC_EXEC:
		sched_exec();
		break;
	case SC_CPU_TIME:
		call.result = task_sched_runtime(current);
		break;
	case SC_START:
		wake_up_new_task(tasks[call.argument[0]]);
		break;
	case SC_EXIT:
		current->flags |= PF_EXITING;
		process_leave(current);
		preempt_disable();	/* as do_exit() does */
		do_task_dead();
	}
}

static int set_policy(struct task_struct *task, const long *to)
{
	struct sched_attr attr = { .size = sizeof(attr), .sched_policy = to[0], .sched_nice = to[1],
		.sched_priority = to[2], .sched_runtime = to[3] };

	if (dl_policy(to[0])) {
		attr.sched_deadline = to[4];
		attr.sched_period = to[5];
		attr.sched_flags = to[6] ? SCHED_FLAG_RECLAIM : 0;
	}

#ifdef SC_CUSTOM_SLICE
	/* As sched_setscheduler(2) does, which has no word for slices. */
	if (!attr.sched_runtime && task->se.custom_slice)
		attr.sched_runtime = task->se.slice;
#endif

	return sched_setattr_nocheck(task, &attr);
}
#ifdef CONFIG_UCLAMP_TASK
static int set_clamps(struct task_struct *task, const long *to)
{
	struct sched_attr attr = { .size = sizeof(attr), .sched_policy = task->policy, .sched_nice = task_nice(task),
		.sched_priority = task->rt_priority, .sched_flags = SCHED_FLAG_KEEP_ALL };

	if (to[0] != -2) {
		attr.sched_util_min = to[0];
		attr.sched_flags |= SCHED_FLAG_UTIL_CLAMP_MIN;
	}
	if (to[1] != -2) {
		attr.sched_util_max = to[1];
		attr.sched_flags |= SCHED_FLAG_UTIL_CLAMP_MAX;
	}
	return sched_setattr_nocheck(task, &attr);
}
#endif
#ifdef CONFIG_UCLAMP_TASK_GROUP
/* Walks over groups and their tasks, which control groups keep elsewhere. */
static struct cgroup_subsys_state *child_after(struct cgroup_subsys_state *parent, int id)
{
	while (++id < nr_groups)
		if (groups[id] && groups[id]->css.parent == parent)
			return &groups[id]->css;
	return NULL;
}
struct cgroup_subsys_state *css_next_descendant_pre(struct cgroup_subsys_state *at, struct cgroup_subsys_state *root)
{
	struct cgroup_subsys_state *next;

	if (!at)
		return root;
	next = child_after(at, 0);
	for (; !next && at != root; at = at->parent)
		next = child_after(at->parent, at->id);
	return next;
}
struct cgroup_subsys_state *css_rightmost_descendant(struct cgroup_subsys_state *at)
{
	struct cgroup_subsys_state *child, *next;

	while ((child = child_after(at, 0))) {
		while ((next = child_after(at, child->id)))
			child = next;
		at = child;
	}
	return at;
}
static struct cgroup_subsys_state *walked;
static int walked_to;
void css_task_iter_start(struct cgroup_subsys_state *css, unsigned int flags, struct css_task_iter *it)
{
	walked = css;
	walked_to = 0;
}
struct task_struct *css_task_iter_next(struct css_task_iter *it)
{
	while (walked_to < nr_tasks) {
		struct task_struct *task = tasks[walked_to++];

		if (&task_group(task)->css == walked)
			return task;
	}
	return NULL;
}
void css_task_iter_end(struct css_task_iter *it) { }
/* What the two files of a group do when they are written. */
static int group_clamps(struct task_group *group, const long *to)
{
	enum uclamp_id id;

	static_branch_enable(&sched_uclamp_used);
	for_each_clamp_id(id)
		uclamp_se_set(&group->uclamp_req[id], to[id], false);
	cpu_util_update_eff(&group->css);
	return 0;
}
#endif
static int group_new(struct task_group *parent)
{
	struct task_group *group = sched_create_group(parent);

	if (IS_ERR(group) || nr_groups == MAX_GROUPS)
		return -ENOMEM;
	groups[nr_groups] = group;
	group->css.parent = &parent->css;
	group->css.id = nr_groups;
	sets[nr_groups] = set_for(group);
	sched_online_group(group, parent);
#ifdef CONFIG_UCLAMP_TASK_GROUP
	cpu_util_update_eff(&group->css);
#endif
	return nr_groups++;
}
#ifndef SC_LIMIT_UNIT
#define SC_LIMIT_UNIT 1
#endif
static int group_limit(struct task_group *group, const long *limit)
{
	u64 period = limit[0] / SC_LIMIT_UNIT, burst = limit[2] / SC_LIMIT_UNIT;
	u64 quota = limit[1] < 0 ? RUNTIME_INF : limit[1] / SC_LIMIT_UNIT;

#ifdef SC_LIMIT_TAKES_BURST
	return tg_set_cfs_bandwidth(group, period, quota, burst);
#else
	return tg_set_cfs_bandwidth(group, period, quota);
#endif
}
static long serve_detached(void)
{
	const long *a = call.argument;
	struct cpumask mask;

	switch (call.call) {
	case SC_NICE:
		set_user_nice(tasks[a[0]], a[1]);
		return 0;
	case SC_POLICY:
		return set_policy(tasks[a[0]], a + 1);
	case SC_AFFINITY:
		cpumask_clear(&mask);
		cpumask_bits(&mask)[0] = a[1];
		return set_cpus_allowed_ptr(tasks[a[0]], &mask);
	case SC_MOVE:
		tasks[a[0]]->cgroups = sets[a[1]];
#ifdef SC_MOVE_TASK_AUTOGROUP
		sched_move_task(tasks[a[0]], false);
#else
		sched_move_task(tasks[a[0]]);
#endif
		return 0;
	case SC_GROUP_NEW:
		return group_new(groups[a[0]]);
	case SC_GROUP_RELEASE:
		groups[a[0]]->css.parent = NULL;
#ifdef SC_RELEASE_GROUP
		sched_release_group(groups[a[0]]);
#else
		sched_offline_group(groups[a[0]]);
#endif
		return 0;
	case SC_GROUP_FREE:
#ifdef SC_RELEASE_GROUP
		sched_unregister_group(groups[a[0]]);
#else
		sched_free_group(groups[a[0]]);
#endif
		groups[a[0]] = NULL;
		return 0;
	case SC_GROUP_WEIGHT:
		return sched_group_set_shares(groups[a[0]], scale_load(a[1]));
	case SC_GROUP_IDLE:
#ifdef SC_GROUP_IDLE_CALL
		return sched_group_set_idle(groups[a[0]], a[1]);
#else
		return -EOPNOTSUPP;
#endif
	case SC_GROUP_PHASE:
		hrtimer_set_expires(&groups[a[0]]->cfs_bandwidth.period_timer, a[1]);
		return 0;
#ifdef CONFIG_UCLAMP_TASK
	case SC_CLAMPS:
		return set_clamps(tasks[a[0]], a + 1);
#endif
#ifdef CONFIG_UCLAMP_TASK_GROUP
	case SC_GROUP_CLAMPS:
		return group_clamps(groups[a[0]], a + 1);
#endif
	case SC_GROUP_LIMIT:
		return group_limit(groups[a[0]], a + 1);
	}
	return -EINVAL;
}
/* A stack on which the current task executes a call that it does not wait for. */
static void *detached_sp;
static void detached(void)
{
	void *left;

	/* Counted even where the kernel does not count, or it would reschedule where it may
	 * sleep. */
	preempt_count_inc();
	call.result = serve_detached();
	preempt_count_dec();
	sc_detached = 0;
	sc_swap(&left, sc_host_sp);
}
long schedule_timeout(long timeout)
{
	if (sc_detached) {
		/* The caller stays where it is; the host asks again whether what it waits for
		 * has happened. */
		__set_current_state(TASK_RUNNING);
		preempt_count_dec();
		call.result = SC_WAITS;
		sc_detached = 0;
		sc_swap(&detached_sp, sc_host_sp);
		return timeout;
	}
	schedule();
	return timeout;
}

#ifndef SC_TASK_WORK_PENDING
#define task_work_pending(task) ((task)->task_works != NULL)
#endif
/* The way back to user mode, as in kernel/entry. */
static void to_user_mode(void)
{
	for (;;) {
		if (tif_need_resched()
#ifdef SC_LAZY
		    || test_thread_flag(TIF_NEED_RESCHED_LAZY)
#endif
		    ) {
			schedule();
		} else if (!(current->flags & PF_KTHREAD)
			   && (test_thread_flag(TIF_NOTIFY_RESUME) || task_work_pending(current))) {
			/* Work added while other work ran has run with it and left the flag. */
			clear_thread_flag(TIF_NOTIFY_RESUME);
			task_work_run();
		} else {
			return;
		}
	}
}
/* Executes calls until one leaves the kernel. Nobody is preempted in between, however
 * preemptible the kernel is. */
static void serve_until_out(void)
{
	do {
		sc_wait();
		if (call.stays)
			preempt_count_inc();
		serve();
		if (call.stays)
			preempt_count_dec();
	} while (call.stays);
}
static void user_task(void)
{
	schedule_tail(sc_switched_from);
	for (;;) {
		to_user_mode();
		serve_until_out();
	}
}
int sc_left(struct task_struct *task)
{
#ifdef SC_STATE_UNDERSCORED
	unsigned int state = task->__state;
#else
	unsigned int state = task->state;
#endif

#ifdef SC_TASK_THROTTLED
	if (task->throttled)
		return SC_LEFT_THROTTLED;
#endif
	return state & TASK_DEAD ? SC_LEFT_DEAD : state ? SC_LEFT_ASLEEP : SC_LEFT_RUNNABLE;
}
void arch_cpu_idle(void)
{
	serve_until_out();
	local_irq_enable();
}

long sc_run(int cpu, long long now, int kind, const long *arguments)
{
	sc_now(now);
	sc_enter(cpu);
	call.stays = kind & SC_STAYS;
	kind &= ~SC_STAYS;
	call.call = kind;
	call.argument = arguments;
	call.result = 0;
	if (kind >= SC_NICE) {
		static void *stack;

		if (!stack)
			stack = sc_stack_for(detached);
		sc_detached = 1;
		((unsigned long *)stack)[6] = (unsigned long)detached;
		sc_swap(&sc_host_sp, stack);
		if (call.result == SC_WAITS)
			stack = NULL;	/* in use until its wait is over, that is for good */
		call.call = SC_NOTHING;
		if (sc_trapped)
			return SC_TRAPPED;
		if (call.stays) {
			sc_deferred();
			return call.result;
		}
	}
	sc_swap(&sc_host_sp, current->thread.sp);
	if (sc_trapped)
		return SC_TRAPPED;
	sc_deferred();
	return call.result;
}

typedef int (*initcall)(void);
extern initcall_entry_t sc_initcalls_start[], sc_initcalls_0[], sc_initcalls_end[];
static void idle_cpu_thread(void) { cpu_startup_entry(CPUHP_ONLINE); }
static void boot(void);

/* Those before the other CPUs are there, or all levels of the rest in their order. */
static void run_initcalls(initcall_entry_t *entry, initcall_entry_t *end)
{
	for (; entry < end; entry++)
		((initcall)initcall_from_entry(entry))();
}

static void place_cpus(const struct sc_machine *machine)
{
	int cpu, other;

	for (cpu = 0; cpu < machine->cpus; cpu++) {
		const struct sc_where *at = &machine->where[cpu];

		sc_places[cpu] = (struct sc_place) { at->core, at->cluster, at->llc, at->package, at->node };
		sc_capacity[cpu] = machine->capacity[cpu];
		sc_frequency[cpu] = SCHED_CAPACITY_SCALE;
		set_cpu_possible(cpu, true);
		set_cpu_present(cpu, true);
		for (other = 0; other < machine->cpus; other++) {
			const struct sc_where *to = &machine->where[other];

			if (at->cluster == to->cluster)
				cpumask_set_cpu(other, &sc_cluster_mask[cpu]);
			/* x86 links no caches across nodes (topology_sane()) */
			if (at->llc == to->llc && at->node == to->node)
				cpumask_set_cpu(other, &sc_llc_mask[cpu]);
			if (at->package == to->package)
				cpumask_set_cpu(other, &sc_package_mask[cpu]);
		}
#ifdef CONFIG_NUMA
		cpumask_set_cpu(cpu, &sc_node_mask[at->node]);
		node_set_state(at->node, N_ONLINE);
		node_set_state(at->node, N_POSSIBLE);
		node_set_state(at->node, N_CPU);
#endif
	}
}

/* Threads of a core see those that are online, and each other. The scheduler counts cores with
 * threads when the second thread of one arrives. */
static void meet_siblings(int cpu)
{
	int other;

	for (other = 0; other <= cpu; other++)
		if (sc_places[other].core == sc_places[cpu].core) {
			cpumask_set_cpu(other, &sc_core_mask[cpu]);
			cpumask_set_cpu(cpu, &sc_core_mask[other]);
		}
	sc_smt_threads = max_t(int, sc_smt_threads, cpumask_weight(&sc_core_mask[cpu]));
}

/* Levels of a machine that prefers some CPUs, as x86 has them. */
static int priorities[NR_CPUS];
int arch_asym_cpu_priority(int cpu) { return priorities[cpu]; }
static int packed(void) { return SD_ASYM_PACKING; }
#ifdef SC_CLUSTERS
static int packed_cluster(void) { return cpu_cluster_flags() | SD_ASYM_PACKING; }
#endif
static int packed_cache(void) { return cpu_core_flags() | SD_ASYM_PACKING; }
static struct sched_domain_topology_level packed_levels[] = {
#ifdef SDTL_INIT
	SDTL_INIT(tl_smt_mask, cpu_smt_flags, SMT),
	SDTL_INIT(tl_cls_mask, packed_cluster, CLS),
	SDTL_INIT(tl_mc_mask, packed_cache, MC),
	SDTL_INIT(tl_pkg_mask, packed, PKG),
#else
	{ cpu_smt_mask, cpu_smt_flags, SD_INIT_NAME(SMT) },
#ifdef SC_CLUSTERS
	{ cpu_clustergroup_mask, packed_cluster, SD_INIT_NAME(CLS) },
#endif
	{ cpu_coregroup_mask, packed_cache, SD_INIT_NAME(MC) },
	{ cpu_cpu_mask, packed, SD_INIT_NAME(PKG) },
#endif
	{ NULL, },
};

/*
 * Energy models, which cpufreq drivers register elsewhere, for CPUs that run at their highest
 * frequency. Costs are computed as in kernel/power/energy_model.c.
 */
#if defined(CONFIG_ENERGY_MODEL) && defined(SC_ENERGY_TABLE)
#include <linux/cpufreq.h>
#include <linux/energy_model.h>
static struct em_perf_domain *perf_domains[NR_CPUS];
struct em_perf_domain *em_cpu_get(int cpu) { return perf_domains[cpu]; }
#ifdef SC_ENERGY_READY
bool cpufreq_ready_for_eas(const struct cpumask *cpus) { return true; }
#else
extern struct cpufreq_governor schedutil_gov;
static struct cpufreq_policy policy;
struct cpufreq_policy *cpufreq_cpu_get(unsigned int cpu)
{
	policy.governor = &schedutil_gov;
	return &policy;
}
void cpufreq_cpu_put(struct cpufreq_policy *policy) { }
#endif
static struct em_perf_domain *perf_domain(const struct sc_machine *machine, int domain)
{
	int size = sizeof(struct em_perf_table) + machine->nr_perf_states * sizeof(struct em_perf_state);
	struct em_perf_domain *pd = sc_host->alloc(sc_host->world, sizeof(*pd) + cpumask_size());
	struct em_perf_table *table = sc_host->alloc(sc_host->world, size);
	unsigned long cheapest = ULONG_MAX;
	int cpu, row, count = 0;

	for (row = 0; row < machine->nr_perf_states; row++) {
		if (machine->perf_state[row].domain != domain)
			continue;
		table->state[count].frequency = machine->perf_state[row].khz;
		table->state[count++].power = machine->perf_state[row].uw;
	}
	for (cpu = 0; cpu < machine->cpus; cpu++)
		if (machine->perf_domain[cpu] == domain)
			cpumask_set_cpu(cpu, to_cpumask(pd->cpus));
	cpu = cpumask_first(to_cpumask(pd->cpus));
	for (row = count - 1; row >= 0; row--) {
		struct em_perf_state *state = &table->state[row];

		state->performance = machine->capacity[cpu] * state->frequency / table->state[count - 1].frequency;
		state->cost = state->power * 10 / state->performance;
		if (state->cost >= cheapest)
			state->flags = EM_PERF_STATE_INEFFICIENT;
		else
			cheapest = state->cost;
	}
	pd->nr_perf_states = count;
	pd->flags = EM_PERF_DOMAIN_MICROWATTS | EM_PERF_DOMAIN_SKIP_INEFFICIENCIES;
#ifdef SC_ENERGY_LIMITS
	pd->max_perf_state = count - 1;
#endif
	rcu_assign_pointer(pd->em_table, table);
	return pd;
}
static void perf_domains_setup(const struct sc_machine *machine)
{
	int cpu, other;

	if (!machine->perf_domain)
		return;
	for (cpu = 0; cpu < machine->cpus; cpu++) {
		for (other = 0; other < cpu && machine->perf_domain[other] != machine->perf_domain[cpu]; other++)
			;
		perf_domains[cpu] = other < cpu ? perf_domains[other] : perf_domain(machine, machine->perf_domain[cpu]);
	}
	rebuild_sched_domains_energy();
}
#else
static void perf_domains_setup(const struct sc_machine *machine)
{
	if (machine->perf_domain)
		sc_trap("an energy model for a tree without one, or with one of before 6.9");
}
#endif

/* As isolcpus= does: domains are built of the other CPUs. */
static void build_domains(const struct sc_machine *machine)
{
	int cpu;

	for (cpu = 0; cpu < machine->cpus; cpu++)
		set_cpu_active(cpu, !(machine->isolated >> cpu & 1));
	sched_init_smp();
	sc_activate();
}

/* Configuration to boot; read on the stack of boot(), so that a trap there has a host to go back
 * to. */
static const struct sc_machine *booting;
int sc_boot(const struct sc_machine *machine, const struct sc_host *host, long long now)
{
	int cpu;

	sc_host = host;
	sc_cpus = machine->cpus;
	booting = machine;
	sc_now(now);
	sc_percpu_setup(machine->cpus);
	sc_curr[0] = &init_task;
	sc_enter(0);
	init_task.thread.sp = sc_stack_for(boot);
	sc_swap(&sc_host_sp, init_task.thread.sp);
	for (cpu = 1; cpu < sc_cpus && !sc_trapped; cpu++) {
		sc_enter(cpu);
		sc_swap(&sc_host_sp, current->thread.sp);
	}
	return sc_trapped ? SC_TRAPPED : sc_warned;
}
static void boot(void)
{
	struct sc_task plain = { .kthread = 1, .cpus = ~0UL, .parent = -1, .util_min = -1, .util_max = -1 };
	struct task_struct *booter;
	int cpu;

#ifdef SC_SET_NR_CPU_IDS
	set_nr_cpu_ids(booting->cpus);
#else
	nr_cpu_ids = booting->cpus;
#endif
	place_cpus(booting);
#ifdef CONFIG_NUMA
	{
		extern int sc_distance[], sc_nodes;

		sc_nodes = booting->nodes;
		memcpy(sc_distance, booting->distance, sizeof(int) * sc_nodes * sc_nodes);
		nr_node_ids = nr_online_nodes = booting->nodes;
		node_reclaim_distance = booting->reclaim_distance;
	}
#endif
	set_cpu_online(0, true);
	sched_clock_init();
	enable_sched_clock_irqtime();
	hrtimers_init();
	for (cpu = 1; cpu < sc_cpus; cpu++)
		hrtimers_prepare_cpu(cpu);
	model = init_task;
	groups[0] = &root_task_group;
	sets[0] = set_for(&root_task_group);
	nr_groups = 1;
	init_task.cgroups = model.cgroups = sets[0];
	tasks[0] = &init_task;
	nr_tasks = 1;
	sched_init();
#ifdef CONFIG_UCLAMP_TASK
	memcpy(model.uclamp_req, init_task.uclamp_req, sizeof(model.uclamp_req));
#endif
	for (cpu = 1; cpu < sc_cpus; cpu++) {
		struct task_struct *idle = sc_thread_new(idle_cpu_thread, "idle", cpu);

#ifdef SC_INIT_IDLE_HOTPLUG
		init_idle(idle, cpu, false);
#else
		init_idle(idle, cpu);
#endif
		sc_curr[cpu] = idle;
	}
	run_initcalls(sc_initcalls_start, sc_initcalls_0);
	for (cpu = 0; cpu < sc_cpus; cpu++) {
		sc_enter(cpu);
#ifdef SC_HRTIMERS_CPU_STARTING
		if (cpu)	/* hrtimers_init() has done it for the first */
			hrtimers_cpu_starting(cpu);
#endif
		meet_siblings(cpu);
		set_cpu_online(cpu, true);
		sched_cpu_starting(cpu);
		sched_cpu_activate(cpu);
		stop_machine_unpark(cpu);
	}
	sc_enter(0);
	sc_current = booter = task_new(&plain, user_task);	/* somebody who is not idle */
	if (booting->priority) {
		memcpy(priorities, booting->priority, sizeof(int) * sc_cpus);
		set_sched_topology(packed_levels);
	}
	build_domains(booting);
	perf_domains_setup(booting);
	for (cpu = 0; cpu < sc_cpus; cpu++) {
		sc_enter(cpu);
		hrtimer_run_queues();			/* changes to high resolution */
	}
	sc_enter(0);
	tick_nohz_active = 1;
	sc_current = booter;
	run_initcalls(sc_initcalls_0, sc_initcalls_end);
	sc_enter(0);
	cpu_startup_entry(CPUHP_ONLINE);
}

#include <arch/schedcast/core/readable.h>
int sc_current_task(int cpu) { return sc_curr[cpu]->pid; }
/* Resets the loads and times that earlier tasks left behind. All CPUs are idle. */
void sc_forget_past(long long now)
{
	int cpu;

	sc_now(now);
	for (cpu = 0; cpu < sc_cpus; cpu++) {
		struct rq *rq = cpu_rq(cpu);
		struct cfs_rq *queue = &rq->cfs;
		struct rq_flags flags;

		sc_enter(cpu);
		rq_lock_irqsave(rq, &flags);
		rq->lost_idle_time = 0;
		update_rq_clock(rq);
#ifdef SC_FAIR_SERVER
		/* Some releases let a server run on until its next timer. */
		dl_server_stop(&rq->fair_server);
		rq->fair_server.deadline = 0;
#endif
		rq_unlock_irqrestore(rq, &flags);
		rq->avg_rt = rq->avg_dl = (struct sched_avg) { };
#ifdef CONFIG_HAVE_SCHED_AVG_IRQ
		rq->avg_irq = (struct sched_avg) { };
#endif
		queue->avg = (struct sched_avg) { };
		queue->removed.nr = 0;
		queue->removed.load_avg = queue->removed.util_avg = queue->removed.runnable_avg = 0;
		queue->tg_load_avg_contrib = 0;
#ifdef SC_MIN_VRUNTIME
		queue->min_vruntime = -(1ULL << 20);	/* as in init_cfs_rq() */
#endif
#ifdef SC_ZERO_VRUNTIME
		queue->zero_vruntime = -(1ULL << 20);
#endif
		rq->idle_stamp = 1;	/* all equally long ago */
		/* as in sched_init() */
		rq->avg_idle = 2 * sysctl_sched_migration_cost;
		rq->max_idle_balance_cost = sysctl_sched_migration_cost;
#ifdef SC_WAKE_STAMP
		rq->wake_stamp = jiffies;
		rq->wake_avg_idle = rq->avg_idle;
#endif
		rq->next_balance = jiffies;
		rq->has_blocked_load = 0;
		rq->last_blocked_load_update_tick = jiffies;
#ifdef SC_CACHE_GROUPS
		rq->cpu_runtime = rq->cpu_epoch = 0;
		rq->cpu_epoch_next = jiffies;
#endif
	}
	sc_forget_balances();
	atomic_long_set(&root_task_group.load_avg, 0);
	start_jiffies = jiffies;
}
/* Time has passed within a call. */
void sc_set_now(long long now) { sc_now(now); }
int sc_warnings(void) { return sc_warned; }
/* Has the current task something to do on its way back to user mode? Another CPU may have asked
 * it, even without an interrupt. */
int sc_has_to_leave(int cpu)
{
	struct task_struct *task = sc_curr[cpu];

	return test_tsk_thread_flag(task, TIF_NEED_RESCHED)
#ifdef SC_LAZY
		|| test_tsk_thread_flag(task, TIF_NEED_RESCHED_LAZY)
#endif
		|| (!(task->flags & PF_KTHREAD) && task_work_pending(task));
}
int sc_tick_runs(int cpu) { return !sc_tick_stopped(cpu); }

#undef SCHED_FEAT
#define SCHED_FEAT(name, enabled) { #name, __SCHED_FEAT_##name },
static const struct { const char *name; int number; } features[] = {
#include "features.h"
};
/* As a write to sched/features does. */
void sc_set_feature(const char *name, int on)
{
	unsigned i;

	for (i = 0; i < ARRAY_SIZE(features); i++) {
		struct static_key *key = &sched_feat_keys[features[i].number];

		if (strcmp(features[i].name, name))
			continue;
		if (on) {
			sysctl_sched_features |= 1UL << features[i].number;
			static_key_enable(key);
		} else {
			sysctl_sched_features &= ~(1UL << features[i].number);
			static_key_disable(key);
		}
	}
}
