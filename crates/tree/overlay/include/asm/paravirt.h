/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_PARAVIRT_H
#define _ASM_SCHEDCAST_PARAVIRT_H
#include <linux/jump_label.h>
#include <linux/threads.h>
#include <linux/types.h>
extern struct static_key paravirt_steal_enabled, paravirt_steal_rq_enabled;
/* Time that the host took from each CPU so far, in ns. */
extern u64 sc_stolen[NR_CPUS];
static inline u64 paravirt_steal_clock(int cpu) { return sc_stolen[cpu]; }
#endif
