/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_PERCPU_H
#define _ASM_SCHEDCAST_PERCPU_H
extern unsigned long sc_my_cpu_offset;
#define __my_cpu_offset sc_my_cpu_offset
#include <asm-generic/percpu.h>
#endif
