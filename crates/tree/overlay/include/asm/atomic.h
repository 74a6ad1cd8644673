/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_ATOMIC_H
#define _ASM_SCHEDCAST_ATOMIC_H
#include <linux/types.h>
#include <asm/cmpxchg.h>
/* Up to 5.12 architectures with arch_atomic_… say so. */
#define ARCH_ATOMIC
#define ATOMIC64_INIT(value) { (value) }
#define arch_atomic_read(v) READ_ONCE((v)->counter)
#define arch_atomic_set(v, i) WRITE_ONCE((v)->counter, (i))
#define arch_atomic64_read(v) READ_ONCE((v)->counter)
#define arch_atomic64_set(v, i) WRITE_ONCE((v)->counter, (i))
#define arch_atomic_xchg(v, new) arch_xchg(&(v)->counter, (new))
#define arch_atomic_cmpxchg(v, old, new) arch_cmpxchg(&(v)->counter, (old), (new))
#define arch_atomic64_xchg(v, new) arch_xchg(&(v)->counter, (new))
#define arch_atomic64_cmpxchg(v, old, new) arch_cmpxchg(&(v)->counter, (old), (new))
/* Each operation in the forms that return nothing, the old value and (sums only) the new one. */
#define SC_ATOMIC(kind, type, word, op, sign)						\
static __always_inline void arch_##kind##_##op(word i, type *v)			\
{ v->counter = v->counter sign i; }							\
static __always_inline word arch_##kind##_fetch_##op(word i, type *v)			\
{ word old = v->counter; v->counter = old sign i; return old; }
#define SC_ATOMIC_SUM(kind, type, word, op, sign)					\
SC_ATOMIC(kind, type, word, op, sign)							\
static __always_inline word arch_##kind##_##op##_return(word i, type *v)		\
{ return v->counter = v->counter sign i; }
#define SC_ATOMICS(kind, type, word)							\
SC_ATOMIC_SUM(kind, type, word, add, +) SC_ATOMIC_SUM(kind, type, word, sub, -)	\
SC_ATOMIC(kind, type, word, and, &) SC_ATOMIC(kind, type, word, or, |)			\
SC_ATOMIC(kind, type, word, xor, ^)
SC_ATOMICS(atomic, atomic_t, int)
SC_ATOMICS(atomic64, atomic64_t, s64)
#define arch_atomic_add_return arch_atomic_add_return
#define arch_atomic_sub_return arch_atomic_sub_return
#define arch_atomic_fetch_add arch_atomic_fetch_add
#define arch_atomic_fetch_sub arch_atomic_fetch_sub
#define arch_atomic_fetch_and arch_atomic_fetch_and
#define arch_atomic_fetch_or arch_atomic_fetch_or
#define arch_atomic_fetch_xor arch_atomic_fetch_xor
#define arch_atomic64_add_return arch_atomic64_add_return
#define arch_atomic64_sub_return arch_atomic64_sub_return
#define arch_atomic64_fetch_add arch_atomic64_fetch_add
#define arch_atomic64_fetch_sub arch_atomic64_fetch_sub
#define arch_atomic64_fetch_and arch_atomic64_fetch_and
#define arch_atomic64_fetch_or arch_atomic64_fetch_or
#define arch_atomic64_fetch_xor arch_atomic64_fetch_xor
#endif
