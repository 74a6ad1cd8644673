//! Groups of domains, and which domains are worth keeping (`build_sched_groups`,
//! `build_overlap_sched_groups`, `cpu_attach_domain`).

use super::build::{Proto, Stack};
use super::{DomainFlags, Domains, GroupCapacity, SchedGroup};
use crate::cpuset::CpuSet;
use crate::ids::Cpu;
use crate::rules::Rules;
use crate::topology::Topology;

/// Which domains of a stack stay, and with which flags.
pub(super) struct Links {
    /// Rows of the stack, bottom-up.
    pub(crate) kept: Vec<usize>,
    /// Flags of the kept ones.
    pub(crate) flags: Vec<DomainFlags>,
}

/// Rows already made: groups and capacities by level and first CPU.
struct Made {
    capacity_orig: Vec<u64>,
    groups: Vec<Option<u32>>,
    capacities: Vec<Option<u32>>,
    cpus: usize,
}

impl Made {
    fn place(&self, level: usize, cpu: Cpu) -> usize {
        level * self.cpus + cpu.index()
    }
}

/// Builds the groups of all stacks.
pub(super) fn build_groups(
    domains: &mut Domains,
    stacks: &mut [Stack],
    topology: &Topology,
    rules: &Rules,
) {
    let levels = stacks.iter().map(Vec::len).max().unwrap_or(0);
    let cpus = (0..stacks.len()).map(Cpu::from);
    let mut made = Made {
        capacity_orig: cpus
            .map(|cpu| capacity_orig(topology, rules, cpu))
            .collect(),
        groups: vec![None; levels * stacks.len()],
        capacities: vec![None; levels * stacks.len()],
        cpus: stacks.len(),
    };
    for cpu in (0..stacks.len()).map(Cpu::from) {
        for level in 0..stacks[cpu.index()].len() {
            let first = domains.group_lists.len();
            let proto = &stacks[cpu.index()][level];
            let (span, overlap) = (proto.span, proto.flags.overlap);
            let mut covered = CpuSet::EMPTY;
            for other in span.iter_wrap(cpu) {
                if covered.contains(other) {
                    continue;
                }
                let group = if overlap {
                    overlapping_group(domains, stacks, &mut made, topology, level, &span, other)
                } else {
                    Some(plain_group(
                        domains, stacks, &mut made, topology, level, other,
                    ))
                };
                if let Some(group) = group {
                    covered = covered.or(&domains.groups[group as usize].span);
                    domains.group_lists.push(group);
                }
            }
            let count = domains.group_lists.len() - first;
            stacks[cpu.index()][level].groups = (first as u32, count as u32);
        }
    }
}

/// The group of `cpu` in a level without overlaps, shared by all CPUs of the level (`get_group`).
fn plain_group(
    domains: &mut Domains,
    stacks: &[Stack],
    made: &mut Made,
    topology: &Topology,
    level: usize,
    cpu: Cpu,
) -> u32 {
    let child = (level > 0).then(|| &stacks[cpu.index()][level - 1]);
    let span = child.map_or(CpuSet::of(cpu), |child| child.span);
    let key = made.place(level, span.lowest().unwrap_or(cpu));
    if let Some(group) = made.groups[key] {
        return group;
    }
    let flags = child.map_or(DomainFlags::default(), |child| child.flags);
    let capacity = capacity(domains, made, key, &span);
    let group = push_group(domains, topology, span, span, flags, capacity);
    made.groups[key] = Some(group);
    group
}

/// The group of `cpu` in a NUMA level: the span of its own domain below, private to the domain
/// being built. `None` when that CPU's stack does not reach the level.
fn overlapping_group(
    domains: &mut Domains,
    stacks: &[Stack],
    made: &mut Made,
    topology: &Topology,
    level: usize,
    span: &CpuSet,
    cpu: Cpu,
) -> Option<u32> {
    let stack = &stacks[cpu.index()];
    stack.get(level)?;
    let level = descended(stack, level, span);
    let proto = if level > 0 {
        &stack[level - 1]
    } else {
        &stack[level]
    };
    let group_span = proto.span;
    let mask = balance_mask(stacks, level, &group_span);
    let key = made.place(level, mask.lowest().unwrap_or(cpu));
    let capacity = capacity(domains, made, key, &group_span);
    Some(push_group(
        domains,
        topology,
        group_span,
        mask,
        proto.flags,
        capacity,
    ))
}

/// `find_descended_sibling`: the level whose child does not reach beyond the domain being built.
fn descended(stack: &[Proto], mut level: usize, span: &CpuSet) -> usize {
    if level == 0 || stack[level - 1].span.is_subset(span) {
        return level;
    }
    while level > 0 && !stack[level - 1].span.is_subset(span) {
        level -= 1;
    }
    while level > 0 && stack[level - 1].span == stack[level].span {
        level -= 1;
    }
    level
}

/// CPUs of a group that arrive at it when they walk up their domains (`build_balance_mask`).
fn balance_mask(stacks: &[Stack], level: usize, span: &CpuSet) -> CpuSet {
    if level == 0 {
        return *span;
    }
    span.iter()
        .filter(|cpu| {
            let stack = &stacks[cpu.index()];
            stack.len() > level && stack[level - 1].span == *span
        })
        .collect()
}

fn capacity(domains: &mut Domains, made: &mut Made, key: usize, span: &CpuSet) -> u32 {
    let Made {
        capacity_orig,
        capacities,
        ..
    } = made;
    *capacities[key].get_or_insert_with(|| {
        let each = || span.iter().map(|cpu| capacity_orig[cpu.index()]);
        domains.capacities.push(GroupCapacity {
            capacity: each().sum(),
            min_capacity: each().min().unwrap_or(0),
            max_capacity: each().max().unwrap_or(0),
            next_update: 0,
            imbalance: false,
        });
        domains.capacities.len() as u32 - 1
    })
}

/// Capacity of a CPU; threads shared 115 % of a core up to 5.0.
pub(super) fn capacity_orig(topology: &Topology, rules: &Rules, cpu: Cpu) -> u64 {
    let threads = topology.siblings(cpu).len() as u64;
    let whole = topology
        .capacities
        .get(cpu.index())
        .copied()
        .unwrap_or(1024);
    match rules.balance.smt_gain {
        gain if gain > 0 && threads > 1 => u64::from(gain) / threads,
        _ => u64::from(whole),
    }
}

fn push_group(
    domains: &mut Domains,
    topology: &Topology,
    span: CpuSet,
    balance_mask: CpuSet,
    flags: DomainFlags,
    capacity: u32,
) -> u32 {
    let mut cores: Vec<u32> = span
        .iter()
        .map(|cpu| topology.places[cpu.index()].core)
        .collect();
    cores.sort_unstable();
    cores.dedup();
    domains.groups.push(SchedGroup {
        span,
        weight: span.len() as u32,
        cores: cores.len() as u32,
        balance_mask,
        prefer_cpu: super::prefer::most_preferred(&span, topology),
        flags,
        capacity,
    });
    domains.groups.len() as u32 - 1
}

/// Drops domains that do not contribute to scheduling (`cpu_attach_domain`). A dropped parent hands
/// its SD_PREFER_SIBLING down, and the local group above takes the flags of what is now below it.
pub(super) fn attach(groups: &mut [SchedGroup], lists: &[u32], stack: &[Proto]) -> Links {
    let mut kept: Vec<usize> = Vec::new();
    let mut flags: Vec<DomainFlags> = Vec::new();
    for (row, proto) in stack.iter().enumerate() {
        let Some((&below, below_flags)) = kept.last().zip(flags.last_mut()) else {
            kept.push(row);
            flags.push(proto.flags);
            continue;
        };
        if !parent_degenerate(&stack[below], proto) {
            kept.push(row);
            flags.push(proto.flags);
            continue;
        }
        if let Some(above) = stack.get(row + 1) {
            groups[lists[above.groups.0 as usize] as usize].flags = *below_flags;
        }
        below_flags.prefer_sibling |= proto.flags.prefer_sibling;
    }
    if kept.first().is_some_and(|&row| stack[row].span.len() == 1) {
        kept.remove(0);
        flags.remove(0);
        if let Some(&row) = kept.first() {
            groups[lists[stack[row].groups.0 as usize] as usize].flags = DomainFlags::default();
        }
    }
    Links { kept, flags }
}

/// `sd_parent_degenerate`. Domains of equal span have a single group, so nothing that needs groups
/// is lost; SD_WAKE_AFFINE alone could be.
fn parent_degenerate(child: &Proto, parent: &Proto) -> bool {
    if parent.span.len() == 1 {
        return true;
    }
    parent.span == child.span && (child.flags.wake_affine || !parent.flags.wake_affine)
}
