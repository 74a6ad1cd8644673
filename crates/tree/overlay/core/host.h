/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interface between the shared object and its host program, in plain C types that both sides
 * know.
 *
 * A CPU is entered with sc_run(): its current task executes one call (an interrupt, a system
 * call) on its own stack, and whatever that sets off on this CPU follows at once: soft
 * interrupts, switches, the work on the way back to user mode. sc_run() returns when the CPU
 * computes in user mode or waits in its idle loop. A call that sleeps in its middle continues
 * when its task is picked again.
 */
#ifndef SC_HOST_H
#define SC_HOST_H

struct sc_host {
	void *world;						/* first argument of each of these */
	void *(*alloc)(void *world, unsigned long size);	/* zeroed, on a 64 byte boundary */
	void (*free)(void *world, void *memory);
	void *(*stack)(void *world, unsigned long size);	/* for a task, zeroed */
	void (*log)(void *world, const char *text);
	void (*timer)(void *world, int cpu, long long at_ns, int hrtick);	/* clock event device of a CPU */
	void (*interrupt)(void *world, int cpu, int kind);	/* enum sc_call: RESCHED, FUNCTION or IRQ_WORK */
	void (*tick)(void *world, int cpu, int runs);		/* the idle loop stopped the tick, or it is back */
	void (*switched)(void *world, int cpu, int from, int to, int left);	/* enum sc_left */
	void (*woken)(void *world, int task, int cpu);		/* it was put on the queue of a CPU */
	void (*migrated)(void *world, int task, int from, int to);
	void (*placed)(void *world, int task, int from, int to);	/* a CPU was chosen for a task that wakes or starts */
	void (*throttled)(void *world, int group, int cpu, int on);	/* a group's queue on a CPU */
	unsigned (*random)(void *world, int kind);		/* enum sc_random */
	void (*spend)(void *world, int operation, int count);	/* enum sc_operation; time may pass */
	int (*lock)(void *world, int what, int cpu, int task);	/* enum sc_lock, of a CPU's queue; time may pass */
};

/* In which state a task is left: it could go on, it sleeps, it has ended, its group has no
 * runtime left. */
enum sc_left { SC_LEFT_RUNNABLE, SC_LEFT_ASLEEP, SC_LEFT_DEAD, SC_LEFT_THROTTLED };

/* Operations that take time on a machine, reported where the scheduler does them. */
enum sc_operation {
	SC_ENQUEUE_LEVEL, SC_DEQUEUE_LEVEL, SC_UPDATE_CFS_GROUP, SC_TICK_LEVEL, SC_SCAN_CPU, SC_BALANCE_CPU,
	SC_BALANCE_MOVE_TASK, SC_PERIOD_TIMER, SC_UNTHROTTLE, SC_WAKEUP, SC_WAKEUP_END,
};

/*
 * Operations on the lock of a queue, and on a task that its CPU may still switch away from: in a
 * simulated world it has left at once.
 */
enum sc_lock {
	SC_LOCK, SC_UNLOCK,
	SC_RELOCK,		/* taken again after it was given up: nobody is waited for */
	SC_LEAVING,		/* is the CPU still switching away from the task? */
	SC_AWAIT,		/* until it has */
};

enum sc_random { SC_RANDOM_PERIOD, SC_RANDOM_DICE, SC_RANDOM_OTHER };

enum sc_call {
	SC_NOTHING,		/* only the way out */
	/* interrupts */
	SC_IRQ_ENTER,		/* begins; the handlers follow */
	SC_IRQ_TICK,
	SC_IRQ_TIMER,
	SC_IRQ_RESCHED,
	SC_IRQ_FUNCTION,
	SC_IRQ_WORK,
	SC_IRQ_WAKE,		/* task, sync */
	/* system calls of the current task */
	SC_WAKE,		/* task, sync */
	SC_BLOCK,
	SC_YIELD,
	SC_EXIT,
	SC_EXEC,
	SC_CPU_TIME,		/* returns the CPU time of the current task, which is charged up to now */
	SC_START,		/* task: what is left of fork */
	/* calls whose caller does not wait for other CPUs: on a stack of their own */
	SC_NICE,		/* task, nice */
	SC_POLICY,		/* task, policy, nice, priority, slice or runtime, deadline, period, 1 = reclaims; 0 or an error */
	SC_AFFINITY,		/* task, bits of the CPUs */
	SC_MOVE,		/* task, group */
	SC_GROUP_NEW,		/* parent; returns its number */
	SC_GROUP_RELEASE,	/* group without tasks and groups: it leaves its parent */
	SC_GROUP_FREE,		/* released group, after a grace period */
	SC_GROUP_WEIGHT,	/* group, weight */
	SC_GROUP_IDLE,		/* group, on */
	SC_GROUP_LIMIT,		/* group, period, quota, burst in ns; quota -1: none */
	SC_GROUP_PHASE,		/* group, first expiry of its period timer */
	SC_CLAMPS,		/* task, least and most utilisation; -1: without a wish, -2: as it is */
	SC_GROUP_CLAMPS,	/* group, least and most */
};

/*
 * Added to a call that does not sleep: the CPU stays in the kernel behind it. Several system
 * calls and interrupts can so follow each other at one moment; SC_NOTHING is the way out then.
 */
#define SC_STAYS 0x100

/* Results of sc_run() besides the result of a call. */
#define SC_TRAPPED (-1000000)	/* the world is over; the log says why */
#define SC_WAITS (-1000001)	/* the caller would wait for another CPU */

struct sc_where { int core, cluster, llc, package, node; };

struct sc_machine {
	int cpus, nodes, reclaim_distance;
	const struct sc_where *where;
	const unsigned long *capacity;
	const int *distance;		/* nodes times nodes */
	const int *priority;		/* of each CPU, larger ones are preferred; NULL: none is */
	const int *perf_domain;		/* of each CPU, from 0 on; NULL: there is no energy model */
	int nr_perf_states;
	const struct sc_perf_state *perf_state;	/* by domain, then slow to fast */
	unsigned long isolated;		/* bits of the CPUs that are out of balancing */
};

struct sc_perf_state { int domain; unsigned long khz, uw; };

struct sc_task {
	int group, kthread, policy, nice, priority;
	unsigned long long slice_ns;
	unsigned long cpus;
	int cpu;
	long long now;
	int parent;		/* whose habit of waking it takes over; -1: nobody's */
	int asleep;		/* it sleeps since long ago and is never started */
	unsigned process;	/* whose thread it is, if it is no kernel thread */
	int util_min, util_max;	/* utilisation clamps; -1: none asked for */
	char name[16];		/* its comm */
};

/* Static state of fair.c, and of the only root domain. */
struct sc_balance {
	unsigned long next_balance, next_blocked, idle_cpus;
	int has_blocked, needs_update, overloaded, overutilized;
};

/* The class that a CPU is about to choose: 0 idle, 1 fair, 2 real-time, 3 deadline, 4 stop. */
struct sc_class {
	int next;
};

struct sc_field {
	const char *name;
	unsigned short offset;
	unsigned char size, is_signed;
	unsigned char bit;		/* of the byte at offset, where the member is one bit; else 0 */
};

enum sc_kind {
	SC_TASK, SC_TASK_ENTITY, SC_GROUP_ENTITY, SC_CFS_RQ, SC_RQ, SC_GROUP, SC_DOMAIN,
	SC_PROCESS,		/* of a task */
	SC_CACHE_TIME,		/* of a task's process on a CPU */
	SC_LLC,			/* of a CPU */
	SC_LLC_COUNT,		/* of a CPU: its tasks that prefer a last level cache */
	SC_CAPACITY,		/* of a CPU's group in one of its domains */
	SC_BALANCE,		/* what balancing remembers of the machine */
	SC_CLASS,		/* of a CPU */
	SC_KINDS
};

#define SC_API __attribute__((visibility("default")))
SC_API int sc_boot(const struct sc_machine *machine, const struct sc_host *host, long long now);
SC_API long sc_run(int cpu, long long now, int call, const long *arguments);
SC_API int sc_task_new(const struct sc_task *task);
SC_API int sc_current_task(int cpu);
SC_API int sc_warnings(void);
SC_API const struct sc_field *sc_fields(int kind, int *count);
SC_API const struct sc_field *sc_bits(int kind, int *count);
SC_API const void *sc_object(int kind, int a, int b);
SC_API void sc_set_feature(const char *name, int on);
SC_API int sc_tick_runs(int cpu);
SC_API int sc_has_to_leave(int cpu);
SC_API void sc_forget_past(long long now);
SC_API void sc_set_now(long long now);
SC_API void sc_steal(int cpu, long long ns);
/* Where the function that is not emulated would return to; NULL: another trap. */
SC_API const void *sc_missing_caller(void);
#endif
