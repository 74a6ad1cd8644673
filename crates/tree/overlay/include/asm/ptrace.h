/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_PTRACE_H
#define _ASM_SCHEDCAST_PTRACE_H
struct pt_regs { unsigned long ip, sp; };
#define user_mode(regs) 1
#define instruction_pointer(regs) ((regs)->ip)
#define user_stack_pointer(regs) ((regs)->sp)
#define profile_pc(regs) ((regs)->ip)
#endif
