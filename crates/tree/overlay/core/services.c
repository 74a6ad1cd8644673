// SPDX-License-Identifier: GPL-2.0-only
/*
 * Services of the rest of the kernel that the scheduler needs, by name. No kernel header is
 * included, so nothing here depends on the version; a name that a tree does not have is never
 * asked for.
 */
#include <arch/schedcast/core/host.h>

typedef unsigned long ul;
typedef unsigned long long u64;
typedef long long s64;
extern const struct sc_host *sc_host;
extern s64 sc_time;
extern void *sc_host_sp;
void sc_swap(void **from, void *to);
int sc_warned, sc_trapped;

static void say(const char *text) { sc_host->log(sc_host->world, text); }

/* The world is over: its operation never returns, the host sees why. */
void sc_trap(const char *name)
{
	void *left;

	say(name);
	sc_trapped = 1;
	sc_swap(&left, sc_host_sp);
	__builtin_unreachable();
}
/* A function that nobody defines was called. */
static const void *missing_caller;
const void *sc_missing_caller(void) { return missing_caller; }
void sc_missing(const char *name, const void *caller)
{
	missing_caller = caller;
	sc_trap(name);
}
void sc_deadlock(void) { sc_trap("a spinlock was taken twice"); }

/* Memory */
struct cache { ul size; };
static void *get(ul size) { return sc_host->alloc(sc_host->world, size); }
static void put(const void *memory)
{
	if ((ul)memory > 16)
		sc_host->free(sc_host->world, (void *)memory);
}
static void *cache_new(ul size)
{
	struct cache *cache = get(sizeof(*cache));

	cache->size = size;
	return cache;
}
#define BY_SIZE(name, ...) void *name(ul size, ##__VA_ARGS__) { return get(size); }
BY_SIZE(__kmalloc, unsigned flags)
BY_SIZE(__kmalloc_noprof, unsigned flags)
BY_SIZE(__kmalloc_node, unsigned flags, int node)
BY_SIZE(__kmalloc_node_noprof, unsigned flags, int node)
BY_SIZE(kmalloc_order, unsigned flags, unsigned order)
#define SIZE_LAST(name, ...) void *name(void *cache, ##__VA_ARGS__, ul size) { return get(size); }
SIZE_LAST(__kmalloc_cache_noprof, unsigned flags)
SIZE_LAST(__kmalloc_cache_node_noprof, unsigned flags, int node)
SIZE_LAST(kmalloc_trace, unsigned flags)
SIZE_LAST(kmalloc_node_trace, unsigned flags, int node)
SIZE_LAST(kmem_cache_alloc_trace, unsigned flags)
void *__kvmalloc_node_noprof(ul size, ul align, unsigned flags, int node) { return get(size); }
/* Up to 5.19 kmalloc() of a size that is known takes one of its caches, which are not made here:
 * room for the largest. */
#define KMALLOC_MAX 8192
#define FROM_CACHE(name, ...) \
	void *name(struct cache *cache, ##__VA_ARGS__) { return get(cache ? cache->size : KMALLOC_MAX); }
FROM_CACHE(kmem_cache_alloc, unsigned flags)
FROM_CACHE(kmem_cache_alloc_noprof, unsigned flags)
FROM_CACHE(kmem_cache_alloc_node, unsigned flags, int node)
FROM_CACHE(kmem_cache_alloc_node_noprof, unsigned flags, int node)
void *kmem_cache_create(const char *name, unsigned size, unsigned align, unsigned flags, void *setup) { return cache_new(size); }
void *__kmem_cache_create_args(const char *name, unsigned size, void *args, unsigned flags) { return cache_new(size); }
void kmem_cache_free(void *cache, void *memory) { put(memory); }
void kmem_cache_destroy(void *cache) { }
void kfree(const void *memory) { put(memory); }
void kvfree(const void *memory) { put(memory); }
void *kmalloc_caches[64 * 32];

/* Messages */
int vsnprintf(char *to, ul size, const char *format, __builtin_va_list arguments);
static char line[1024];
#define SAY(format) do {						\
	__builtin_va_list arguments;					\
	__builtin_va_start(arguments, format);				\
	vsnprintf(line, sizeof(line), format, arguments);		\
	__builtin_va_end(arguments);					\
	say(line[0] == 1 ? line + 2 : line); } while (0)
int _printk(const char *format, ...) { SAY(format); return 0; }
int printk(const char *format, ...) { SAY(format); return 0; }
int _printk_deferred(const char *format, ...) { SAY(format); return 0; }
int printk_deferred(const char *format, ...) { SAY(format); return 0; }
void __warn_printk(const char *format, ...) { sc_warned++; SAY(format); }
void warn_slowpath_fmt(const char *file, int number, unsigned taint, const char *format, ...)
{
	sc_warned++;
	_printk("WARNING at %s:%d", file, number);
	if (format)
		SAY(format);
}
void check_panic_on_warn(const char *origin) { }
void panic(const char *format, ...) { SAY(format); sc_trap("panic"); }
void refcount_warn_saturate(void *counter, int kind) { sc_warned++; say("a reference count is saturated"); }
void dump_stack(void) { }
void add_taint(unsigned flag, int lockdep) { }
int ___ratelimit(void *state, const char *function) { return 1; }
int __printk_ratelimit(const char *function) { return 1; }
int oops_in_progress;

/* RCU: nobody reads while somebody writes; callbacks are called when the operation is over. */
struct callback { struct callback *next; void (*call)(struct callback *); };
static struct callback *later;
void call_rcu(struct callback *callback, void (*call)(struct callback *))
{
	callback->call = call;
	callback->next = later;
	later = callback;
}
void call_rcu_hurry(struct callback *callback, void (*call)(struct callback *)) { call_rcu(callback, call); }
void sc_rcu_callbacks(void)
{
	while (later) {
		struct callback *callback = later;

		later = callback->next;
		callback->call(callback);
	}
}
void kvfree_call_rcu(struct callback *callback, void *memory)
{
	put((ul)memory < 4096 ? (char *)callback - (ul)memory : memory);
}
void synchronize_rcu(void) { }
void synchronize_rcu_expedited(void) { }
void rcu_all_qs(void) { }
void rcu_note_context_switch(int preempt) { }
void rcu_momentary_eqs(void) { }
void rcu_momentary_dyntick_idle(void) { }
void rcu_barrier(void) { }
void __rcu_read_lock(void) { }
void __rcu_read_unlock(void) { }
void rcu_read_unlock_strict(void) { }
void rcu_irq_enter(void) { }
void rcu_irq_exit(void) { }
void rcu_idle_enter(void) { }
void rcu_idle_exit(void) { }
void rcu_sched_clock_irq(int user) { }

/* Time */
u64 sched_clock(void) { return sc_time; }
u64 sched_clock_noinstr(void) { return sc_time; }
s64 ktime_get(void) { return sc_time; }
s64 ktime_get_with_offset(int offset) { return sc_time; }
s64 ktime_get_update_offsets_now(unsigned *sequence, s64 *real, s64 *boot, s64 *tai)
{
	*real = *boot = *tai = 0;
	return sc_time;
}
u64 ktime_get_mono_fast_ns(void) { return sc_time; }
int tick_check_oneshot_change(int allowed) { return 1; }
int tick_init_highres(void) { return 0; }
void tick_setup_sched_timer(int highres) { }
int tick_nohz_active;
_Bool tick_nohz_is_active(void) { return tick_nohz_active; }
void tick_irq_enter(void) { }
void tick_nohz_irq_exit(void) { }

/* Locks that sleep are never contended: operations are atomic. */
#define LOCK(name) void name(void *lock) { }
LOCK(mutex_lock) LOCK(mutex_unlock) LOCK(down_read) LOCK(up_read) LOCK(down_write) LOCK(up_write)
LOCK(percpu_down_write) LOCK(percpu_up_write)
int mutex_trylock(void *lock) { return 1; }
int mutex_is_locked(void *lock) { return 1; }
void __mutex_init(void *lock, const char *name, void *key) { }
void mutex_init_generic(void *lock) { }
void __init_rwsem(void *lock, const char *name, void *key) { }
void cpus_read_lock(void) { }
void cpus_read_unlock(void) { }
int cpus_read_trylock(void) { return 1; }
void cpus_write_lock(void) { }
void cpus_write_unlock(void) { }
void lockdep_assert_cpus_held(void) { }
int in_lock_functions(ul address) { return 0; }

/* Static keys: counts that the code reads. */
int static_key_count(int *key) { return *key; }
_Bool static_key_slow_inc(int *key) { ++*key; return 1; }
_Bool static_key_slow_inc_cpuslocked(int *key) { ++*key; return 1; }
_Bool static_key_fast_inc_not_disabled(int *key) { return *key > 0 && ++*key; }
void static_key_slow_dec(int *key) { --*key; }
void static_key_slow_dec_cpuslocked(int *key) { --*key; }
void static_key_enable(int *key) { *key = 1; }
void static_key_enable_cpuslocked(int *key) { *key = 1; }
void static_key_disable(int *key) { *key = 0; }
void static_key_disable_cpuslocked(int *key) { *key = 0; }

/* Control groups, rights, accounting */
void __cgroup_account_cputime(void *group, u64 delta) { }
void __cgroup_account_cputime_field(void *group, int index, u64 delta) { }
int capable(int right) { return 1; }
int ns_capable(void *space, int right) { return 1; }
int security_task_setscheduler(void *task) { return 0; }
int cap_task_setscheduler(void *task) { return 0; }
void acct_account_cputime(void *task) { }
void acct_update_integrals(void *task) { }
void cgroup_task_dead(void *task) { }
void cgroup_threadgroup_change_begin(void *task) { }
void cpuset_cpus_allowed_fallback(void *task) { }

/* Frequencies are nobody's: the governor is compiled, and no policy has it. */
int cpufreq_register_governor(void *governor) { return 0; }

/* Files */
void register_sysctl_init(const char *path, void *table) { }
void __register_sysctl_init(const char *path, void *table, const char *name, ul size) { }
void *debugfs_create_dir(const char *name, void *parent) { return 0; }
void *debugfs_create_file(const char *name, int mode, void *parent, void *data, void *operations) { return 0; }
void *debugfs_create_file_unsafe(const char *name, int mode, void *parent, void *data, void *operations) { return 0; }
void *debugfs_create_file_full(const char *name, int mode, void *parent, void *data, void *aux, void *operations) { return 0; }
void debugfs_create_u32(const char *name, int mode, void *parent, void *value) { }
void debugfs_create_u64(const char *name, int mode, void *parent, void *value) { }
void debugfs_create_ulong(const char *name, int mode, void *parent, void *value) { }
void debugfs_create_bool(const char *name, int mode, void *parent, void *value) { }
void debugfs_create_str(const char *name, int mode, void *parent, void *value) { }
void *debugfs_lookup(const char *name, void *parent) { return 0; }
void debugfs_lookup_and_remove(const char *name, void *parent) { }
void debugfs_remove(void *entry) { }
void debugfs_remove_recursive(void *entry) { }
void *proc_mkdir(const char *name, void *parent) { return 0; }
void *proc_create(const char *name, int mode, void *parent, void *operations) { return 0; }
void *proc_create_data(const char *name, int mode, void *parent, void *operations, void *data) { return 0; }
void *proc_create_seq_private(const char *name, int mode, void *parent, void *operations, unsigned size, void *data) { return 0; }
void *proc_create_single_data(const char *name, int mode, void *parent, void *show, void *data) { return 0; }
void *kobject_create_and_add(const char *name, void *parent) { return 0; }
int sysfs_create_group(void *object, const void *group) { return 0; }
int sysfs_create_file_ns(void *object, const void *attribute, const void *space) { return 0; }
void *kernel_kobj;

/* Tasks */
void ct_idle_enter(void) { }
void ct_idle_exit(void) { }
void ct_irq_enter(void) { }
void ct_irq_exit(void) { }
void calculate_sigpending(void) { }
void wq_worker_running(void *task) { }
void wq_worker_sleeping(void *task) { }
void wq_worker_tick(void *task) { }
void __put_task_struct(void *task) { }
void put_task_struct_rcu_user(void *task) { }
void put_task_stack(void *task) { }
void __mmdrop(void *space) { }
void *get_cpu_cacheinfo_llc(unsigned cpu) { return 0; }	/* as early at boot: its size is not known */
void ftrace_graph_init_idle_task(void *task, int cpu) { }
int set_kthread_struct(void *task) { return 1; }
void kthread_set_per_cpu(void *task, int cpu) { }
void cpuhp_online_idle(int state) { }
int __cpuhp_setup_state(int state, const char *name, int invoke, void *start, void *stop, int multi) { return 0; }
void profile_tick(int kind) { }
void membarrier_update_current_mm(void *space) { }
void *init_stack[2048];

/* Chance */
static unsigned draw(int kind) { return sc_host->random(sc_host->world, kind); }
unsigned __get_random_u32_below(unsigned ceiling) { return draw(SC_RANDOM_PERIOD) % ceiling; }
unsigned get_random_u32_below(unsigned ceiling) { return draw(SC_RANDOM_PERIOD) % ceiling; }
unsigned prandom_u32_state(void *state) { return draw(SC_RANDOM_DICE); }
unsigned char get_random_u8(void) { return draw(SC_RANDOM_OTHER); }
unsigned short get_random_u16(void) { return draw(SC_RANDOM_OTHER); }
unsigned get_random_u32(void) { return draw(SC_RANDOM_OTHER); }
u64 get_random_u64(void) { return (u64)draw(SC_RANDOM_OTHER) << 32 | draw(SC_RANDOM_OTHER); }
void get_random_bytes(void *to, ul size)
{
	unsigned char *byte;

	for (byte = to; size; size--)
		*byte++ = draw(SC_RANDOM_OTHER);
}
int get_random_bytes_arch(void *to, int size) { return size; }	/* for printed addresses only */
void prandom_seed_full_state(void *state) { }
int execute_with_initialized_rng(void *block) { return 0; }	/* it never is: printed addresses have no key */
int __do_once_start(unsigned char *done, ul *flags)
{
	int first = !*done;

	*done = 1;
	return first;
}
void __do_once_done(unsigned char *done, void *key, ul *flags, void *module) { }
