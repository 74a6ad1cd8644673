/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_SMP_H
#define _ASM_SCHEDCAST_SMP_H
struct cpumask;
extern int sc_cpu;
#define raw_smp_processor_id() sc_cpu
void arch_send_call_function_single_ipi(int cpu);
void arch_send_call_function_ipi_mask(const struct cpumask *mask);
void arch_smp_send_reschedule(int cpu);
static inline void smp_send_stop(void) { }
#endif
