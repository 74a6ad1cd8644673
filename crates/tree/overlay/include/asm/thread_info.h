/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_THREAD_INFO_H
#define _ASM_SCHEDCAST_THREAD_INFO_H
#define THREAD_SIZE_ORDER 4
#define THREAD_SIZE (4096UL << THREAD_SIZE_ORDER)
#ifndef __ASSEMBLY__
struct thread_info {
	unsigned long flags;
	unsigned long syscall_work;
	int preempt_count;
	u32 cpu;
};
#define INIT_THREAD_INFO(task) { .preempt_count = INIT_PREEMPT_COUNT }
#endif
#define TIF_SIGPENDING 0
#define TIF_NEED_RESCHED 1
#define TIF_NEED_RESCHED_LAZY 2
#define TIF_NOTIFY_RESUME 3
#define TIF_NOTIFY_SIGNAL 4
#define TIF_POLLING_NRFLAG 5
#define TIF_MEMDIE 6
#define TIF_RESTORE_SIGMASK 7
#define _TIF_SIGPENDING (1 << TIF_SIGPENDING)
#define _TIF_NEED_RESCHED (1 << TIF_NEED_RESCHED)
#define _TIF_NEED_RESCHED_LAZY (1 << TIF_NEED_RESCHED_LAZY)
#define _TIF_NOTIFY_RESUME (1 << TIF_NOTIFY_RESUME)
#define _TIF_NOTIFY_SIGNAL (1 << TIF_NOTIFY_SIGNAL)
#define _TIF_POLLING_NRFLAG (1 << TIF_POLLING_NRFLAG)
#endif
