/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_PROCESSOR_H
#define _ASM_SCHEDCAST_PROCESSOR_H
#include <linux/types.h>
#define TASK_SIZE (1UL << 46)
#define TASK_UNMAPPED_BASE 0
#define STACK_TOP TASK_SIZE
#define STACK_TOP_MAX TASK_SIZE
struct task_struct;
struct thread_struct {
	void *sp;		/* where a task that is not running left off */
};
#define INIT_THREAD { }
#define cpu_relax() barrier()
#define task_pt_regs(task) ((struct pt_regs *)0)
#define KSTK_EIP(task) 0UL
#define KSTK_ESP(task) 0UL
static inline unsigned long __get_wchan(struct task_struct *task) { return 0; }
/* Up to 5.15 each architecture declares it; only sleep profiles, which nobody asks for, call it. */
struct task_struct;
unsigned long get_wchan(struct task_struct *task);
#endif
