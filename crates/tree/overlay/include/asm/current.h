/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_CURRENT_H
#define _ASM_SCHEDCAST_CURRENT_H
struct task_struct;
/* The task that the CPU being simulated executes; the host switches CPUs between operations
 * only. */
extern struct task_struct *sc_current;
#define get_current() sc_current
#define current get_current()
#endif
