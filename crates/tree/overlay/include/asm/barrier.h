/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_BARRIER_H
#define _ASM_SCHEDCAST_BARRIER_H
/* One CPU executes at a time: it is enough that the compiler keeps the order. */
#define mb() barrier()
#define rmb() barrier()
#define wmb() barrier()
#define __smp_mb() barrier()
#define __smp_rmb() barrier()
#define __smp_wmb() barrier()
#include <asm-generic/barrier.h>
#endif
