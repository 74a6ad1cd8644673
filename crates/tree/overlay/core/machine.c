// SPDX-License-Identifier: GPL-2.0-only
/* The machine: CPUs and their memory, interrupts between them, the clock event device, the tick,
 * stacks. */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/cgroup.h>
#include <linux/hrtimer.h>
#if __has_include(<linux/hrtimer_bases.h>)
#include <linux/hrtimer_bases.h>
#endif
#include <linux/interrupt.h>
#include <linux/jiffies.h>
#include <linux/jump_label.h>
#include <linux/kthread.h>
#include <linux/nodemask.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/nohz.h>
#include <linux/sched/task.h>
#include <linux/smp.h>
#include <linux/topology.h>
#include <linux/workqueue.h>
#include <arch/schedcast/core/internal.h>

const struct sc_host *sc_host;
s64 sc_time;
int sc_cpu, sc_cpus, sc_detached;
unsigned long sc_my_cpu_offset, sc_irqs_off;
void *sc_host_sp;
struct task_struct *sc_current = &init_task, *sc_switched_from;
struct task_struct *sc_curr[NR_CPUS];

/* Where CPUs sit. */
struct sc_place sc_places[NR_CPUS];
struct cpumask sc_core_mask[NR_CPUS], sc_cluster_mask[NR_CPUS], sc_llc_mask[NR_CPUS], sc_package_mask[NR_CPUS];
unsigned long sc_capacity[NR_CPUS], sc_frequency[NR_CPUS];
const struct cpumask *cpu_coregroup_mask(int cpu) { return &sc_llc_mask[cpu]; }
const struct cpumask *cpu_clustergroup_mask(int cpu) { return &sc_cluster_mask[cpu]; }
#ifdef CONFIG_NUMA
struct cpumask sc_node_mask[MAX_NUMNODES];
int sc_distance[MAX_NUMNODES * MAX_NUMNODES], sc_nodes;
int sc_node_distance(int from, int to) { return sc_distance[from * sc_nodes + to]; }
nodemask_t node_states[NR_NODE_STATES];
unsigned int nr_node_ids = 1, nr_online_nodes = 1;
int __weak node_reclaim_distance;	/* up to 5.12 of sched/topology.c */
struct pglist_data *node_data[MAX_NUMNODES];
#endif

/* Masks of CPUs, as far as the scheduler reads them. */
#define BIT_1(x) [(x) + 1][0] = 1UL << (x)
#define BIT_4(x) BIT_1(x), BIT_1((x) + 1), BIT_1((x) + 2), BIT_1((x) + 3)
#define BIT_16(x) BIT_4(x), BIT_4((x) + 4), BIT_4((x) + 8), BIT_4((x) + 12)
const unsigned long cpu_bit_bitmap[BITS_PER_LONG + 1][BITS_TO_LONGS(NR_CPUS)] = {
	BIT_16(0), BIT_16(16), BIT_16(32), BIT_16(48),
};
const DECLARE_BITMAP(cpu_all_bits, NR_CPUS) = CPU_BITS_ALL;
struct cpumask __cpu_possible_mask, __cpu_online_mask, __cpu_present_mask, __cpu_active_mask, __cpu_dying_mask;
struct cpumask __cpu_enabled_mask;
atomic_t __num_online_cpus;
#undef set_cpu_online
void set_cpu_online(unsigned int cpu, bool on)
{
	assign_bit(cpu, cpumask_bits(&__cpu_online_mask), on);
	atomic_set(&__num_online_cpus, cpumask_weight(&__cpu_online_mask));
}

/* A function where possible CPUs are counted. */
#ifdef SC_NUM_POSSIBLE
unsigned int __num_possible_cpus;
#undef set_cpu_possible
void set_cpu_possible(unsigned int cpu, bool possible)
{
	assign_bit(cpu, cpumask_bits(&__cpu_possible_mask), possible);
	__num_possible_cpus = cpumask_weight(&__cpu_possible_mask);
}
#endif

/* Per-CPU memory: the section of the shared object once for each CPU, and room for what is
 * allocated later. */
#define LATER (1 << 20)
extern char sc_percpu_start[], sc_percpu_end[];
static unsigned long percpu_used, percpu_size;
unsigned long __per_cpu_offset[NR_CPUS];
void sc_percpu_setup(int cpus)
{
	unsigned long size = sc_percpu_end - sc_percpu_start;
	char *areas;
	int cpu;

	percpu_size = ALIGN(size, 4096) + LATER;
	areas = (char *)ALIGN((unsigned long)sc_host->alloc(sc_host->world, percpu_size * cpus + 4096), 4096);
	for (cpu = 0; cpu < cpus; cpu++) {
		memcpy(areas + cpu * percpu_size, sc_percpu_start, size);
		__per_cpu_offset[cpu] = areas + cpu * percpu_size - sc_percpu_start;
	}
	percpu_used = ALIGN(size, 64);
}
static void __percpu *percpu_new(size_t size, size_t align)
{
	unsigned long at = ALIGN(percpu_used, max_t(size_t, align, 8));

	if (at + size > percpu_size)
		sc_trap("no room left in the per-CPU areas");
	percpu_used = at + size;
	return (void __percpu *)(sc_percpu_start + at);
}
#ifdef SC_PCPU_ALLOC
void __percpu *pcpu_alloc_noprof(size_t size, size_t align, bool reserved, gfp_t gfp) { return percpu_new(size, align); }
#else
void __percpu *__alloc_percpu(size_t size, size_t align) { return percpu_new(size, align); }
void __percpu *__alloc_percpu_gfp(size_t size, size_t align, gfp_t gfp) { return percpu_new(size, align); }
#endif
void free_percpu(void __percpu *memory) { }

/* Interrupts between CPUs, and of a CPU by itself. */
static void interrupt(int cpu, int kind) { sc_host->interrupt(sc_host->world, cpu, kind); }
void arch_smp_send_reschedule(int cpu) { interrupt(cpu, SC_IRQ_RESCHED); }
#ifndef smp_send_reschedule
void smp_send_reschedule(int cpu) { interrupt(cpu, SC_IRQ_RESCHED); }
#endif
void arch_send_call_function_single_ipi(int cpu) { interrupt(cpu, SC_IRQ_FUNCTION); }
void arch_send_call_function_ipi_mask(const struct cpumask *mask)
{
	int cpu;

	for_each_cpu(cpu, mask)
		interrupt(cpu, SC_IRQ_FUNCTION);
}
void arch_irq_work_raise(void) { interrupt(sc_cpu, SC_IRQ_WORK); }

/* Timers of idle CPUs are set near them, as wherever the tick of idle CPUs is stopped: timer.c,
 * which is not compiled, turns this on at boot. */
struct static_key timers_migration_enabled = STATIC_KEY_INIT_TRUE;

/* The clock event device in its one-shot mode. The host leaves it programmed where HRTICK moves
 * (HRTIMER_MODE_LAZY_REARM), because its ticks are timers like others there. */
int tick_program_event(ktime_t expires, int force)
{
	sc_host->timer(sc_host->world, sc_cpu, expires, sc_hrtick_is_next());
	return 0;
}

/* Time that a hypervisor takes. Some trees have the keys. */
u64 sc_stolen[NR_CPUS];
__weak struct static_key paravirt_steal_enabled, paravirt_steal_rq_enabled;
void sc_steal(int cpu, long long ns)
{
	sc_stolen[cpu] += ns;
	if (!static_key_enabled(&paravirt_steal_rq_enabled))
		static_key_slow_inc(&paravirt_steal_rq_enabled);
}

/*
 * A timer that was the next one of another CPU was cancelled. The kernel leaves that CPU's device
 * as it is, where its tick is nearly always earlier; here ticks are the host's.
 */
int __real_hrtimer_try_to_cancel(struct hrtimer *timer);
int __wrap_hrtimer_try_to_cancel(struct hrtimer *timer)
{
	struct hrtimer_cpu_base *base = timer->base->cpu_base;
	int here = sc_cpu, cancelled = __real_hrtimer_try_to_cancel(timer);

	if (cancelled > 0 && base->cpu != here) {
		sc_enter(base->cpu);
		base->expires_next = hrtimer_next_event_without(NULL);
		tick_program_event(base->expires_next, 1);
		sc_enter(here);
	}
	return cancelled;
}

/* The tick of an idle CPU, without the rest of tick-sched.c: the host keeps the timer. */
static bool tick_stopped[NR_CPUS];
bool sc_tick_stopped(int cpu) { return tick_stopped[cpu]; }
void tick_nohz_idle_enter(void) { }
void tick_nohz_idle_stop_tick(void)
{
	if (tick_stopped[sc_cpu])
		return;
	tick_stopped[sc_cpu] = true;
	sc_host->tick(sc_host->world, sc_cpu, 0);
	nohz_balance_enter_idle(sc_cpu);
}
void tick_nohz_idle_retain_tick(void) { }
void tick_nohz_idle_restart_tick(void)
{
	if (!tick_stopped[sc_cpu])
		return;
	tick_stopped[sc_cpu] = false;
	sc_host->tick(sc_host->world, sc_cpu, 1);
}
void tick_nohz_idle_exit(void) { tick_nohz_idle_restart_tick(); }
/* bool in the kernel, whose header has another declaration in some configurations */
static bool idle_tick[NR_CPUS];
void sc_note_tick(void) { idle_tick[sc_cpu] = is_idle_task(current); }
bool tick_nohz_idle_got_tick(void)
{
	bool got = idle_tick[sc_cpu];

	idle_tick[sc_cpu] = false;
	return got;
}
#undef tick_nohz_tick_stopped
bool tick_nohz_tick_stopped(void) { return tick_stopped[sc_cpu]; }
bool tick_nohz_tick_stopped_cpu(int cpu) { return tick_stopped[cpu]; }

/* Stacks: swap saves the registers that a call keeps, and the stack pointer in *from. */
asm(".text\n.globl sc_swap\n.hidden sc_swap\n.type sc_swap, @function\nsc_swap:\n"
    "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
    "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
    "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n"
    ".size sc_swap, . - sc_swap\n");
void *sc_stack_for(void (*entry)(void))
{
	unsigned long *top = (unsigned long *)((char *)sc_host->stack(sc_host->world, THREAD_SIZE) + THREAD_SIZE);

	*--top = 0;			/* the entry never returns */
	*--top = (unsigned long)entry;
	return top - 6;
}
/* The current task gives the CPU being simulated back to the host until the next call on it. */
void sc_wait(void)
{
	struct task_struct *task = current;

	sc_swap(&task->thread.sp, sc_host_sp);
}
struct task_struct *sc_switch_to(struct task_struct *prev, struct task_struct *next)
{
	if (sc_detached)
		sc_trap("a call that must not sleep on its own stack did");
	sc_host->switched(sc_host->world, sc_cpu, prev->pid, next->pid, sc_left(prev));
	sc_current = sc_curr[sc_cpu] = next;
	sc_switched_from = prev;
	sc_swap(&prev->thread.sp, next->thread.sp);
	return sc_switched_from;
}
void sc_enter(int cpu)
{
	sc_cpu = cpu;
	sc_my_cpu_offset = __per_cpu_offset[cpu];
	sc_current = sc_curr[cpu];
}
u64 jiffies_64;
asm(".globl jiffies\n.hidden jiffies\n.set jiffies, jiffies_64");
void sc_now(s64 now)
{
	sc_time = now;
	jiffies_64 = INITIAL_JIFFIES + now / (NSEC_PER_SEC / HZ);
}

/* Threads that exist once for each CPU: the migration threads. */
static struct smp_hotplug_thread *percpu_threads;
int smpboot_register_percpu_thread(struct smp_hotplug_thread *kind)
{
	int cpu;

	if (strcmp(kind->thread_comm, "migration/%u"))
		return 0;
	percpu_threads = kind;
	for_each_possible_cpu(cpu) {
		*per_cpu_ptr(kind->store, cpu) = sc_thread_new(sc_percpu_thread, "migration", cpu);
		if (kind->create)
			kind->create(cpu);
	}
	return 0;
}
void sc_percpu_thread(void)
{
	schedule_tail(sc_switched_from);
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		preempt_disable();
		if (percpu_threads->thread_should_run(sc_cpu)) {
			__set_current_state(TASK_RUNNING);
			preempt_enable();
			percpu_threads->thread_fn(sc_cpu);
		} else {
			preempt_enable_no_resched();
			schedule();
		}
	}
}
bool kthread_is_per_cpu(struct task_struct *task) { return (task->flags & PF_KTHREAD) && task->nr_cpus_allowed == 1; }
int kthread_park(struct task_struct *task) { return 0; }
/* The migration threads wait here to be started. */
void kthread_unpark(struct task_struct *task)
{
#ifdef SC_STATE_UNDERSCORED
	bool is_new = task->__state == TASK_NEW;
#else
	bool is_new = task->state == TASK_NEW;
#endif

	if (is_new)
		wake_up_new_task(task);
	else
		wake_up_process(task);
}

/* Work for work queues and for after a grace period is done when the operation is over. */
static struct work_struct *works[256];
static int nr_works;
bool queue_work_on(int cpu, struct workqueue_struct *queue, struct work_struct *work)
{
	int i;

	for (i = 0; i < nr_works; i++)
		if (works[i] == work)
			return false;
	if (nr_works == ARRAY_SIZE(works))
		sc_trap("too much work for work queues");
	works[nr_works++] = work;
	return true;
}
void sc_rcu_callbacks(void);
void sc_deferred(void)
{
	int i;

	for (i = 0; i < nr_works; i++)
		works[i]->func(works[i]);
	nr_works = 0;
	sc_rcu_callbacks();
}

/* State that belongs to files that are not built. */
enum system_states system_state = SYSTEM_RUNNING;
bool static_key_initialized = true;
bool cpuhp_tasks_frozen;
DEFINE_STATIC_KEY_TRUE(cpu_cgrp_subsys_on_dfl_key);
DEFINE_STATIC_KEY_TRUE(cpu_cgrp_subsys_enabled_key);
DEFINE_PER_CPU(unsigned long, cpufreq_pressure);
DEFINE_PER_CPU(struct pt_regs *, __irq_regs);
