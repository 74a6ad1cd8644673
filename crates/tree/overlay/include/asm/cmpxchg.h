/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_CMPXCHG_H
#define _ASM_SCHEDCAST_CMPXCHG_H
#define arch_xchg(at, new) ({				\
	__auto_type _at = (at);				\
	typeof(*_at) _old = *_at;			\
	*_at = (new);					\
	_old; })
#define arch_cmpxchg(at, old, new) ({			\
	__auto_type _at = (at);				\
	typeof(*_at) _seen = *_at;			\
	if (_seen == (typeof(*_at))(old))		\
		*_at = (typeof(*_at))(new);		\
	_seen; })
#define arch_cmpxchg_local arch_cmpxchg
#define arch_cmpxchg64 arch_cmpxchg
#define arch_cmpxchg64_local arch_cmpxchg
#endif
