// SPDX-License-Identifier: GPL-2.0-only
/* Compiled for its errors: each line of the two lists that is refused is something that this
 * tree has otherwise. */
#include <kernel/sched/core.c>
#include "host.h"
#include <linux/cpufreq.h>
#include <linux/energy_model.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/smp.h>
#include <linux/task_work.h>
#define SC_NAME_(line) sc_probe_##line
#define SC_NAME(line) SC_NAME_(line)
#define SC_ASK(name, expression) static inline void SC_NAME(__LINE__)(void) { (void)(expression); }
#include "asks.h"
#undef SC_NAME_
#define SC_NAME_(line) sc_field_##line
#define SC_FIELD(kind, type, member) static inline void SC_NAME(__LINE__)(void) \
	{ (void)&((type *)0)->member; (void)(long)((type *)0)->member; }
#define SC_BIT(kind, type, member) \
	static inline void SC_NAME(__LINE__)(void) { (void)(long)((type *)0)->member; }
#include "fields.h"
