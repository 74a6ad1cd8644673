// SPDX-License-Identifier: GPL-2.0-only
/* kernel/sched/build_policy.c as it is, but that rt.c and deadline.c tell the host of CPUs that
 * they look at (hooks.sed). */
#include <arch/schedcast/core/host.h>
extern const struct sc_host *sc_host;
#define sc_spend(operation, count) sc_host->spend(sc_host->world, operation, count)
#include <build_policy_hooked.c>
