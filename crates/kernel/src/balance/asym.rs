//! Domains whose CPUs have different capacities (`asym_cpu_capacity_classify`,
//! `asym_cpu_capacity_level`).
//!
//! Worked example: CPUs 0–3 of capacity 446 share a cache, CPUs 4–7 of 1024 another. From 5.14 on
//! the domains of the caches have one capacity each and get no flag; the package has both and gets
//! SD_ASYM_CPUCAPACITY and its FULL form. With a third capacity elsewhere in the machine it would
//! get the first only.

use super::Domains;
use super::build::{Proto, Stack};
use super::groups::capacity_orig;
use crate::cpuset::CpuSet;
use crate::ids::Cpu;
use crate::rules::Rules;
use crate::topology::Topology;

/// Marks the domains before their groups are built.
pub(super) fn mark(
    domains: &mut Domains,
    stacks: &mut [Stack],
    topology: &Topology,
    rules: &Rules,
) {
    let capacities: Vec<u64> = (0..stacks.len())
        .map(|cpu| capacity_orig(topology, rules, Cpu::from(cpu)))
        .collect();
    let all = distinct(&capacities, &CpuSet::first(stacks.len()));
    if !rules.balance.unequal_capacities || all < 2 {
        return;
    }
    let lowest = lowest_level(stacks, &capacities);
    for stack in stacks {
        for row in 0..stack.len() {
            let here = distinct(&capacities, &stack[row].span);
            let (some, full) = match rules.balance.asym_per_domain {
                true => (here > 1, here == all),
                false => (lowest.is_some_and(|lowest| row >= lowest), false),
            };
            let flags = &mut stack[row].flags;
            (flags.asym_cpucapacity, flags.asym_cpucapacity_full) = (some, full);
            domains.asym_active |= some;
            // Tasks are not spread over CPUs of different capacities.
            if some && row > 0 && !rules.balance.spreads_over_capacities {
                stack[row - 1].flags.prefer_sibling = false;
            }
        }
    }
}

/// How many different capacities some CPUs have.
fn distinct(capacities: &[u64], cpus: &CpuSet) -> usize {
    let mut found: Vec<u64> = cpus.iter().map(|cpu| capacities[cpu.index()]).collect();
    found.sort_unstable();
    found.dedup();
    found.len()
}

/// Up to 5.13: the lowest level at which every CPU sees one of the largest.
fn lowest_level(stacks: &[Stack], capacities: &[u64]) -> Option<usize> {
    let (mut level, mut found) = (0, None);
    for (cpu, stack) in stacks.iter().enumerate() {
        let mut largest = capacities[cpu];
        let above: &[Proto] = stack.get(level..).unwrap_or_default();
        for (row, proto) in (level..).zip(above) {
            let there = proto.span.iter().map(|cpu| capacities[cpu.index()]);
            let most = there.max().unwrap_or(0);
            if most > largest {
                (largest, level, found) = (most, row, Some(row));
            }
        }
    }
    found
}
