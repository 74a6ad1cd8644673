/* SPDX-License-Identifier: GPL-2.0-only */
/* A part of sched_core.c: members of structures, for the host to read. */
/* Values that the host may read: one table of members for each structure. */
#define NONE(...)
#define SC_BIT NONE
#define SC_FIELD(list, type, member) SC_FIELD_##list(type, member)
#define MEMBER(type, member) { #member, offsetof(type, member), sizeof(((type *)0)->member),	\
	(typeof(((type *)0)->member))-1 < (typeof(((type *)0)->member))1 },
#define SC_FIELD_task MEMBER
#define SC_FIELD_entity NONE
#define SC_FIELD_cfs_rq NONE
#define SC_FIELD_rq NONE
#define SC_FIELD_group NONE
#define SC_FIELD_domain NONE
#define SC_FIELD_process NONE
#define SC_FIELD_cache_time NONE
#define SC_FIELD_llc NONE
#define SC_FIELD_llc_count NONE
#define SC_FIELD_capacity NONE
#define SC_FIELD_balance NONE
#define SC_FIELD_class NONE
static const struct sc_field task_fields[] = {
#include <probed.h>
};
#undef SC_FIELD_task
#undef SC_FIELD_entity
#define SC_FIELD_task NONE
#define SC_FIELD_entity MEMBER
static const struct sc_field entity_fields[] = {
#include <probed.h>
};
#undef SC_FIELD_entity
#undef SC_FIELD_cfs_rq
#define SC_FIELD_entity NONE
#define SC_FIELD_cfs_rq MEMBER
static const struct sc_field cfs_rq_fields[] = {
#include <probed.h>
};
#undef SC_FIELD_cfs_rq
#undef SC_FIELD_rq
#define SC_FIELD_cfs_rq NONE
#define SC_FIELD_rq MEMBER
static const struct sc_field rq_fields[] = {
#include <probed.h>
};
#undef SC_FIELD_rq
#undef SC_FIELD_group
#define SC_FIELD_rq NONE
#define SC_FIELD_group MEMBER
static const struct sc_field group_fields[] = {
#include <probed.h>
};
#undef SC_FIELD_group
#undef SC_FIELD_domain
#define SC_FIELD_group NONE
#define SC_FIELD_domain MEMBER
static const struct sc_field domain_fields[] = {
#include <probed.h>
};
#undef SC_FIELD_domain
#undef SC_FIELD_process
#define SC_FIELD_domain NONE
#define SC_FIELD_process MEMBER
static const struct sc_field process_fields[] = {
#include <probed.h>
};
#undef SC_FIELD_process
#undef SC_FIELD_cache_time
#define SC_FIELD_process NONE
#define SC_FIELD_cache_time MEMBER
static const struct sc_field cache_time_fields[] = {
#include <probed.h>
};
#undef SC_FIELD_cache_time
#undef SC_FIELD_llc
#define SC_FIELD_cache_time NONE
#define SC_FIELD_llc MEMBER
static const struct sc_field llc_fields[] = {
#include <probed.h>
};
#undef SC_FIELD_llc
#undef SC_FIELD_llc_count
#define SC_FIELD_llc NONE
#define SC_FIELD_llc_count MEMBER
static const struct sc_field llc_count_fields[] = {
#include <probed.h>
};
#undef SC_FIELD_llc_count
#undef SC_FIELD_capacity
#define SC_FIELD_llc_count NONE
#define SC_FIELD_capacity MEMBER
static const struct sc_field capacity_fields[] = {
#include <probed.h>
};
#undef SC_FIELD_capacity
#undef SC_FIELD_balance
#define SC_FIELD_capacity NONE
#define SC_FIELD_balance MEMBER
static const struct sc_field balance_fields[] = {
#include <probed.h>
};
#undef SC_FIELD_balance
#undef SC_FIELD_class
#define SC_FIELD_balance NONE
#define SC_FIELD_class MEMBER
static const struct sc_field class_fields[] = {
#include <probed.h>
};
const struct sc_field *sc_fields(int kind, int *count)
{
#define TABLE(kind, list) case kind: *count = ARRAY_SIZE(list##_fields); return list##_fields
	switch (kind) {
	TABLE(SC_TASK, task);
	TABLE(SC_TASK_ENTITY, entity);
	TABLE(SC_GROUP_ENTITY, entity);
	TABLE(SC_CFS_RQ, cfs_rq);
	TABLE(SC_RQ, rq);
	TABLE(SC_GROUP, group);
	TABLE(SC_DOMAIN, domain);
	TABLE(SC_PROCESS, process);
	TABLE(SC_CACHE_TIME, cache_time);
	TABLE(SC_LLC, llc);
	TABLE(SC_LLC_COUNT, llc_count);
	TABLE(SC_CAPACITY, capacity);
	TABLE(SC_BALANCE, balance);
	TABLE(SC_CLASS, class);
	}
	*count = 0;
	return NULL;
}

/* Members of one bit have no address: each is set in an empty structure and looked for. */
#undef SC_FIELD
#undef SC_BIT
#define SC_FIELD NONE
#define SC_BIT(list, type, member) \
	static void set_##list##_##member(void *object) { ((type *)object)->member = 1; }
#include <probed.h>
#undef SC_BIT
#define SC_BIT(list, type, member) { #list, #member, sizeof(type), set_##list##_##member },
static const struct { const char *list, *member; int size; void (*set)(void *object); } bits[] = {
#include <probed.h>
};
const struct sc_field *sc_bits(int kind, int *count)
{
	static const char * const lists[SC_KINDS] = { "task", "entity", "entity", "cfs_rq", "rq", "group", "domain",
		"process", "cache_time", "llc", "llc_count", "capacity", "balance", "class" };
	static struct sc_field found[ARRAY_SIZE(bits) + 1];
	unsigned i, at;

	*count = 0;
	for (i = 0; i < ARRAY_SIZE(bits); i++) {
		unsigned char *empty;

		if (strcmp(bits[i].list, lists[kind]))
			continue;
		empty = sc_host->alloc(sc_host->world, bits[i].size);
		bits[i].set(empty);
		for (at = 0; at < bits[i].size; at++)
			if (empty[at])
				found[(*count)++] = (struct sc_field) { bits[i].member, at, 1, 0, empty[at] };
		sc_host->free(sc_host->world, empty);
	}
	return found;
}
static const void *domain(int cpu, int level)
{
	struct sched_domain *domain = cpu_rq(cpu)->sd;

	while (domain && level--)
		domain = domain->parent;
	return domain;
}
#ifdef SC_NEXT_CLASS
static const struct sc_class *class_of(int cpu)
{
	static struct sc_class found;
	const struct sched_class *next = cpu_rq(cpu)->next_class;

	found.next = sched_class_above(next, &dl_sched_class) ? 4
		: sched_class_above(next, &rt_sched_class) ? 3
		: sched_class_above(next, &fair_sched_class) ? 2
		: sched_class_above(next, &idle_sched_class);
	return &found;
}
#endif
const void *sc_object(int kind, int a, int b)
{
	switch (kind) {
	case SC_TASK:
		return tasks[a];
	case SC_TASK_ENTITY:
		return &tasks[a]->se;
	case SC_GROUP_ENTITY:
#ifdef SC_GROUP_ENTITIES
		return groups[a]->se[b];
#else
		return NULL;
#endif
	case SC_CFS_RQ:
#ifdef SC_GROUP_QUEUE_POINTERS
		return groups[a]->cfs_rq[b];
#else
		return a ? tg_cfs_rq(groups[a], b) : &cpu_rq(b)->cfs;
#endif
	case SC_RQ:
		return cpu_rq(a);
	case SC_GROUP:
		return groups[a];
	case SC_DOMAIN:
		return domain(a, b);
	case SC_CAPACITY:
		return domain(a, b) ? ((const struct sched_domain *)domain(a, b))->groups->sgc : NULL;
	case SC_BALANCE:
		return sc_balance();
#ifdef SC_NEXT_CLASS
	case SC_CLASS:
		return class_of(a);
#endif
	case SC_LLC:
		return per_cpu(sd_llc_shared, a);
#ifdef SC_CACHE_GROUPS
	case SC_PROCESS:
		return tasks[a]->sched_cache_grp;
	case SC_CACHE_TIME:
		return tasks[a]->sched_cache_grp ? per_cpu_ptr(tasks[a]->sched_cache_grp->pcpu_sched, b) : NULL;
	case SC_LLC_COUNT:
		return cpu_rq(a)->sd && b < cpu_rq(a)->sd->llc_max ? cpu_rq(a)->sd->llc_counts + b : NULL;
#endif
	}
	return NULL;
}
