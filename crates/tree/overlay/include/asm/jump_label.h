/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SC_ASM_JUMP_LABEL_H
#define SC_ASM_JUMP_LABEL_H
/*
 * Static keys are read where other architectures change the code: nothing is patched, and no
 * table of places exists.
 */
#ifndef __ASSEMBLY__
typedef unsigned long jump_label_t;
struct jump_entry { jump_label_t code, target, key; };
#define JUMP_LABEL_NOP_SIZE 1
/* Is the other way taken than the one that the code is laid out for? */
static __always_inline bool arch_static_branch(struct static_key *key, bool branch)
{
	return (*(volatile int *)&key->enabled != 0) ^ branch;
}
#define arch_static_branch_jump arch_static_branch
#endif
#endif
