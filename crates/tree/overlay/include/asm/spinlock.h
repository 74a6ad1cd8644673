/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_SPINLOCK_H
#define _ASM_SCHEDCAST_SPINLOCK_H
/*
 * Operations are atomic in virtual time, so a lock is free whenever it is asked for. One that is
 * not is a bug: of the host program, or of the scheduler under test.
 */
void sc_deadlock(void);
#define arch_spin_is_locked(lock) ((lock)->taken != 0)
#define arch_spin_is_contended(lock) 0
#define arch_spin_value_unlocked(lock) ((lock).taken == 0)
static inline void arch_spin_lock(arch_spinlock_t *lock)
{
	if (unlikely(lock->taken))
		sc_deadlock();
	lock->taken = 1;
	barrier();
}
static inline int arch_spin_trylock(arch_spinlock_t *lock)
{
	if (lock->taken)
		return 0;
	lock->taken = 1;
	barrier();
	return 1;
}
static inline void arch_spin_unlock(arch_spinlock_t *lock)
{
	barrier();
	lock->taken = 0;
}
#define arch_read_lock(lock) ((void)(lock)->taken++)
#define arch_read_trylock(lock) ({ (lock)->taken++; 1; })
#define arch_read_unlock(lock) ((void)(lock)->taken--)
#define arch_write_lock(lock) ((void)((lock)->taken = 1U << 31))
#define arch_write_trylock(lock) ({ (lock)->taken = 1U << 31; 1; })
#define arch_write_unlock(lock) ((void)((lock)->taken = 0))
#endif
