/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_SCHEDCAST_TOPOLOGY_H
#define _ASM_SCHEDCAST_TOPOLOGY_H
/* Where each CPU sits; the host says so before the scheduler boots. */
#include <linux/types.h>
struct cpumask;
struct sc_place { int core, cluster, llc, package, node; };
extern struct sc_place sc_places[];
extern struct cpumask sc_core_mask[], sc_cluster_mask[], sc_llc_mask[], sc_package_mask[], sc_node_mask[];
extern unsigned long sc_capacity[], sc_frequency[];
int sc_node_distance(int from, int to);
const struct cpumask *cpu_coregroup_mask(int cpu);
const struct cpumask *cpu_clustergroup_mask(int cpu);
#define topology_physical_package_id(cpu) (sc_places[cpu].package)
#define topology_cluster_id(cpu) (sc_places[cpu].cluster)
#define topology_core_id(cpu) (sc_places[cpu].core)
#define topology_sibling_cpumask(cpu) (&sc_core_mask[cpu])
#define topology_cluster_cpumask(cpu) (&sc_cluster_mask[cpu])
#define topology_core_cpumask(cpu) (&sc_package_mask[cpu])
#define arch_scale_cpu_capacity(cpu) (sc_capacity[cpu])
#define arch_scale_freq_capacity(cpu) (sc_frequency[cpu])
#ifdef CONFIG_NUMA
#define cpu_to_node(cpu) (sc_places[cpu].node)
#define cpumask_of_node(node) (&sc_node_mask[node])
#define node_distance(from, to) sc_node_distance(from, to)
#define cpu_to_mem(cpu) (sc_places[cpu].node)
#define numa_node_id() (sc_places[raw_smp_processor_id()].node)
#define numa_mem_id() numa_node_id()
#endif
#include <asm-generic/topology.h>
#endif
