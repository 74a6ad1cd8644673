/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SC_INTERNAL_H
#define SC_INTERNAL_H
#include <linux/sched.h>
#include <linux/smpboot.h>
#include <arch/schedcast/core/host.h>
#include <probed.h>

extern const struct sc_host *sc_host;
extern s64 sc_time;
extern int sc_cpus, sc_warned, sc_detached;
extern void *sc_host_sp;
extern struct task_struct *sc_curr[NR_CPUS];

void sc_swap(void **from, void *to);
void *sc_stack_for(void (*entry)(void));
void sc_enter(int cpu);
void sc_now(s64 now);
void sc_wait(void);
void sc_percpu_setup(int cpus);
void sc_deferred(void);
void sc_trap(const char *name);
bool sc_tick_stopped(int cpu);
bool sc_hrtick_is_next(void);
int sc_left(struct task_struct *task);
struct task_struct *sc_thread_new(void (*entry)(void), const char *name, int cpu);
void sc_percpu_thread(void);
void sc_forget_balances(void);
const struct sc_balance *sc_balance(void);
extern struct task_struct *sc_switched_from;
#endif
