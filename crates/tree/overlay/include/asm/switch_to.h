/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_SWITCH_TO_H
#define _ASM_SCHEDCAST_SWITCH_TO_H
struct task_struct;
/* Saves the stack of prev and continues on that of next; returns whom this CPU ran before. */
struct task_struct *sc_switch_to(struct task_struct *prev, struct task_struct *next);
#define switch_to(prev, next, last) do { (last) = sc_switch_to(prev, next); } while (0)
#endif
