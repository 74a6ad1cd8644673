/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_MMU_CONTEXT_H
#define _ASM_SCHEDCAST_MMU_CONTEXT_H
struct mm_struct;
struct task_struct;
/* Where there is such a file, the generic one leaves this to the architecture. */
#if __has_include(<asm-generic/nommu_context.h>)
static inline void switch_mm(struct mm_struct *prev, struct mm_struct *next, struct task_struct *task) { }
#endif
#include <asm-generic/mmu_context.h>
#endif
