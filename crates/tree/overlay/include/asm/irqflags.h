/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_IRQFLAGS_H
#define _ASM_SCHEDCAST_IRQFLAGS_H
/* Nothing interrupts the code of an operation, so the flag only remembers what it was told. */
#define ARCH_IRQ_DISABLED 1
#define ARCH_IRQ_ENABLED 0
extern unsigned long sc_irqs_off;
static inline unsigned long arch_local_save_flags(void) { return sc_irqs_off; }
static inline void arch_local_irq_restore(unsigned long flags) { sc_irqs_off = flags; }
#include <asm-generic/irqflags.h>
#endif
