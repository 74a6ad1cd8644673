/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_IRQ_WORK_H
#define _ASM_SCHEDCAST_IRQ_WORK_H
static inline bool arch_irq_work_has_interrupt(void) { return true; }
void arch_irq_work_raise(void);
#endif
