/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_MMU_CONTEXT_H
#define _ASM_SCHEDCAST_MMU_CONTEXT_H
struct mm_struct;
struct task_struct;
static inline void switch_mm(struct mm_struct *prev, struct mm_struct *next, struct task_struct *task) { }
#include <asm-generic/mmu_context.h>
#endif
