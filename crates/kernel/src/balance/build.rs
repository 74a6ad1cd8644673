//! Building domains from a topology (`build_sched_domains`, `sd_init`).
//!
//! Worked example: 16 CPUs on two nodes, 8 CPUs per LLC, two threads per core, kernel 6.12. The
//! level list is SMT, Cluster, Cache, Package, Node, Numa(20); CPU 0 gets spans {0,8} {0,8}
//! {0–3,8–11} twice more the same, and {0–15}. Cluster, Package and Node add nothing and go; three
//! domains stay, with balance intervals of 2–4, 8–16 and 16–32 ms.

use super::groups::{self, Links};
use super::{CpuView, Domain, DomainFlags, Domains, Level, LlcShared, NumaAllowance};
use super::{asym, prefer};
use crate::cpuset::CpuSet;
use crate::ids::Cpu;
use crate::rules::Rules;
use crate::topology::{RECLAIM_DISTANCE, Topology};

/// A domain before degenerate ones are removed: row `level` of the stack of a CPU.
#[derive(Clone, Debug)]
pub(super) struct Proto {
    /// Level.
    pub(crate) level: Level,
    /// CPUs in it.
    pub(crate) span: CpuSet,
    /// CPUs that its numbers are made of, isolated ones of the level perhaps included.
    pub(crate) level_weight: u32,
    /// Flags.
    pub(crate) flags: DomainFlags,
    /// See [`Domain::imb_numa_nr`].
    pub(crate) imb_numa_nr: u32,
    /// First row in the group lists, and number of groups.
    pub(crate) groups: (u32, u32),
}

/// Stack of a CPU, bottom-up.
pub(super) type Stack = Vec<Proto>;

/// Builds the domains of a machine.
pub(super) fn build(topology: &Topology, rules: &Rules) -> Domains {
    let cpus = topology.cpus();
    let (nodes, node_of) = nodes(topology);
    let levels = levels(topology, rules);
    let all = CpuSet::first(cpus);
    let balanced = topology.housekeeping();
    let mut stacks: Vec<Stack> = (0..cpus)
        .map(|cpu| stack(topology, rules, &levels, &balanced, Cpu::from(cpu)))
        .collect();
    let mut domains = Domains {
        nodes,
        node_of,
        idle: all,
        idle_cores: all,
        max_interval_jiffies: (u64::from(rules.hz) * cpus as u64 / 10).max(1),
        ..Domains::default()
    };
    asym::mark(&mut domains, &mut stacks, topology, rules);
    prefer::mark(&mut stacks, topology, rules);
    groups::build_groups(&mut domains, &mut stacks, topology, rules);
    for stack in &mut stacks {
        imbalance_allowance(stack, rules);
    }
    for (cpu, stack) in stacks.iter().enumerate() {
        let cpu = Cpu::from(cpu);
        let links = groups::attach(&mut domains.groups, &domains.group_lists, stack);
        let view = attach_cpu(&mut domains, topology, rules, stack, &links, cpu);
        domains.cpus.push(view);
    }
    domains.set_knobs(&rules.balance);
    share_llc(&mut domains);
    share_asym(&mut domains, rules);
    count_cores(&mut domains, topology);
    domains
}

fn nodes(topology: &Topology) -> (Vec<CpuSet>, Vec<u32>) {
    let mut numbers: Vec<u32> = topology.places.iter().map(|place| place.node).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut nodes = vec![CpuSet::EMPTY; numbers.len()];
    let node_of = (0..topology.cpus())
        .map(|cpu| {
            let node = topology.places[cpu].node;
            let row = numbers.partition_point(|&other| other < node);
            nodes[row].insert(Cpu::from(cpu));
            row as u32
        })
        .collect();
    (nodes, node_of)
}

/// Levels bottom-up, as far as the kernel has them.
fn levels(topology: &Topology, rules: &Rules) -> Vec<Level> {
    let rules = &rules.balance;
    let mut levels = vec![Level::Smt];
    if rules.cluster_level {
        levels.push(Level::Cluster);
    }
    levels.push(Level::Cache);
    // x86 leaves the package out when it consists of several nodes.
    if !numa_in_package(topology) {
        levels.push(Level::Package);
    }
    if rules.node_level {
        levels.push(Level::Node);
    }
    let mut distances: Vec<u32> = topology
        .places
        .iter()
        .flat_map(|a| {
            topology
                .places
                .iter()
                .filter(move |b| b.node != a.node)
                .map(move |b| topology.distance(a.node, b.node))
        })
        .collect();
    distances.sort_unstable();
    distances.dedup();
    levels.extend(distances.into_iter().map(Level::Numa));
    levels
}

fn numa_in_package(topology: &Topology) -> bool {
    let first_of = |socket: u32| {
        let mut places = topology.places.iter();
        places.find(|place| place.socket == socket)
    };
    topology
        .places
        .iter()
        .any(|place| first_of(place.socket).is_some_and(|first| first.node != place.node))
}

fn span(topology: &Topology, level: Level, cpu: Cpu) -> CpuSet {
    match level {
        Level::Smt => topology.siblings(cpu),
        Level::Cluster => topology.sharing(cpu, |a, b| a.cluster == b.cluster && a.llc == b.llc),
        // Firmware may split a cache into nodes; the scheduler follows the nodes.
        Level::Cache => topology.sharing(cpu, |a, b| a.llc == b.llc && a.node == b.node),
        Level::Package | Level::Node => topology.sharing(cpu, |a, b| a.node == b.node),
        Level::Numa(distance) => topology.sharing(cpu, |a, b| {
            a.node == b.node || topology.distance(a.node, b.node) <= distance
        }),
    }
}

/// The stack of a CPU on a machine whose `balanced` CPUs have domains; those of others are empty.
fn stack(
    topology: &Topology,
    rules: &Rules,
    levels: &[Level],
    balanced: &CpuSet,
    cpu: Cpu,
) -> Stack {
    let mut stack: Stack = Vec::with_capacity(levels.len());
    if !balanced.contains(cpu) {
        return stack;
    }
    for &level in levels {
        let of_level = span(topology, level, cpu);
        let mut span = of_level.and(balanced);
        if let Some(child) = stack.last() {
            // A level never loses CPUs of the one below, whatever the firmware says.
            span = span.or(&child.span);
        }
        let whole = span == *balanced;
        let isolated = match rules.balance.weight_counts_isolated {
            true => of_level.and_not(balanced).len(),
            false => 0,
        };
        stack.push(Proto {
            level,
            span,
            level_weight: (span.len() + isolated) as u32,
            flags: flags(topology, rules, level),
            imb_numa_nr: 0,
            groups: (0, 0),
        });
        if whole {
            break;
        }
    }
    stack
}

/// Flags of a level (`sd_init`).
fn flags(topology: &Topology, rules: &Rules, level: Level) -> DomainFlags {
    let rules = &rules.balance;
    let reclaim_distance = match rules.machine_reclaim_distance {
        true => topology.reclaim_distance,
        false => topology.reclaim_distance.min(RECLAIM_DISTANCE),
    };
    let near = !matches!(level, Level::Numa(distance) if distance > reclaim_distance);
    let numa = matches!(level, Level::Numa(_));
    DomainFlags {
        balance_newidle: true,
        balance_exec: near,
        balance_fork: near,
        wake_affine: near,
        share_cpucapacity: level == Level::Smt,
        cluster: level == Level::Cluster && rules.cluster_flag,
        share_llc: matches!(level, Level::Smt | Level::Cluster | Level::Cache),
        asym_cpucapacity: false,
        asym_cpucapacity_full: false,
        asym_packing: false,
        serialize: numa,
        prefer_sibling: match level {
            Level::Numa(_) => false,
            Level::Cluster | Level::Cache => rules.prefer_sibling_in_llc,
            _ => true,
        },
        overlap: numa,
        numa,
    }
}

/// NUMA imbalance allowed at each level: an eighth (before 6.0 a quarter) of a node with one LLC,
/// else one task per LLC.
pub(super) fn imbalance_allowance(stack: &mut [Proto], rules: &Rules) {
    let quarter = rules.balance.numa_allowance == NumaAllowance::PerLlc;
    let mut allowed = 0;
    let mut allowed_span = 1;
    for row in 0..stack.len() {
        let weight = stack[row].span.len() as u32;
        let above_llc = row > 0 && !stack[row].flags.share_llc && stack[row - 1].flags.share_llc;
        stack[row].imb_numa_nr = if above_llc {
            let llcs = weight / stack[row - 1].span.len() as u32;
            allowed = match llcs {
                1 if quarter => weight >> 2,
                1 => (weight >> 3).max(1),
                _ => llcs,
            };
            let first_numa = stack[row + 1..].iter().find(|above| above.flags.numa);
            allowed_span = first_numa.map_or(weight, |above| above.span.len() as u32);
            allowed
        } else {
            allowed * (weight / allowed_span).max(1)
        };
    }
}

fn attach_cpu(
    domains: &mut Domains,
    topology: &Topology,
    rules: &Rules,
    stack: &[Proto],
    links: &Links,
    cpu: Cpu,
) -> CpuView {
    let first = domains.domains.len() as u32;
    let count = links.kept.len() as u32;
    for (place, &row) in links.kept.iter().enumerate() {
        let place = place as u32;
        let mut domain = domain(&stack[row]);
        domain.flags = links.flags[place as usize];
        domain.child = (place > 0).then(|| first + place - 1);
        domain.parent = (place + 1 < count).then_some(first + place + 1);
        domains.domains.push(domain);
    }
    let own = &domains.domains[first as usize..];
    let highest = own.iter().rposition(|domain| domain.flags.share_llc);
    let llc = highest.map(|place| &own[place]);
    let isolated = topology.isolated.contains(cpu);
    let llc_id = match llc.and_then(|llc| llc.span.lowest()) {
        Some(first) => first,
        // Those that never had domains count as of one cache.
        None if isolated => match rules.balance.isolated_share_first_cache {
            true => Cpu(0),
            false => topology.isolated.lowest().unwrap_or(cpu),
        },
        None => cpu,
    };
    let asym = own
        .iter()
        .position(|domain| match rules.balance.asym_per_domain {
            true => domain.flags.asym_cpucapacity_full,
            false => domain.flags.asym_cpucapacity,
        });
    let packing = own.iter().rposition(|domain| domain.flags.asym_packing);
    let cluster = own.iter().find(|domain| domain.flags.cluster);
    domains.cluster_active |= cluster.is_some();
    let share_id = cluster.and_then(|domain| domain.span.lowest());
    CpuView {
        first,
        count,
        llc: highest.map(|place| first + place as u32),
        llc_size: llc.map_or(u32::from(!isolated), |llc| llc.span_weight),
        llc_id,
        asym: asym.map(|place| first + place as u32),
        packing: packing.map(|place| first + place as u32),
        share_id: share_id.unwrap_or(llc_id),
        shared: None,
        balance_shared: None,
        core: 0,
        smt: topology.siblings(cpu),
        capacity_orig: groups::capacity_orig(topology, rules, cpu),
        nohz_idle: true,
        nohz_flags: 0,
        nohz_idle_balance: 0,
        idle_balance: true,
        idle_exit_latency_ns: None,
        cpu_load: [0; 5],
        cpu_load_jiffy: 0,
    }
}

fn domain(proto: &Proto) -> Domain {
    let weight = proto.span.len() as u32;
    let flags = proto.flags;
    let load_index = match () {
        () if flags.share_cpucapacity => (0, 0),
        () if flags.share_llc => (2, 0),
        () if flags.numa => (3, 2),
        () => (2, 1),
    };
    Domain {
        level: proto.level,
        span: proto.span,
        span_weight: weight,
        level_weight: proto.level_weight,
        flags,
        imb_numa_nr: proto.imb_numa_nr,
        first_group: proto.groups.0,
        nr_groups: proto.groups.1,
        load_index,
        balance_interval: proto.level_weight,
        newidle_call: 512,
        newidle_success: 256,
        newidle_ratio: 512,
        ..Domain::default()
    }
}

/// Connects the CPUs of each LLC to one shared state.
fn share_llc(domains: &mut Domains) {
    let mut rows: Vec<(Cpu, u32)> = Vec::new();
    for cpu in 0..domains.cpus.len() {
        let view = &domains.cpus[cpu];
        let Some(llc) = view.llc.map(|row| domains.domain(row)) else {
            continue;
        };
        // All CPUs idle, and isolated ones never say so.
        let nr_busy_cpus = llc.level_weight - llc.span_weight;
        let (id, size) = (view.llc_id, view.llc_size);
        let known = rows.iter().find(|&&(other, _)| other == id);
        let row = known.map_or(domains.shared.len() as u32, |&(_, row)| row);
        if known.is_none() {
            rows.push((id, row));
            domains.shared.push(LlcShared {
                id,
                nr_busy_cpus,
                has_idle_cores: true,
                nr_idle_scan: size,
            });
        }
        domains.cpus[cpu].shared = Some(row);
    }
}

/// Connects the CPUs of each domain that has all capacities to one more such state, from 7.2 on and
/// except between nodes (`claim_asym_sched_domain_shared`); searches use it instead of the LLC's.
fn share_asym(domains: &mut Domains, rules: &Rules) {
    for cpu in 0..domains.cpus.len() {
        let view = &domains.cpus[cpu];
        let claims = |row: &u32| {
            let flags = &domains.domain(*row).flags;
            rules.balance.asym_scan_is_limited && !flags.numa && Some(*row) != view.llc
        };
        let Some(row) = view.asym.filter(claims) else {
            domains.cpus[cpu].balance_shared = view.shared;
            continue;
        };
        let (span, size) = (domains.domain(row).span, domains.domain(row).span_weight);
        let first = span.lowest().unwrap_or(Cpu::from(cpu));
        let known = domains.cpus[first].balance_shared;
        let row = known
            .filter(|_| first.index() < cpu)
            .unwrap_or(domains.shared.len() as u32);
        if row as usize == domains.shared.len() {
            domains.shared.push(LlcShared {
                id: first,
                nr_busy_cpus: 0,
                has_idle_cores: true,
                nr_idle_scan: size,
            });
        }
        domains.cpus[cpu].balance_shared = Some(row);
    }
}

fn count_cores(domains: &mut Domains, topology: &Topology) {
    let mut numbers: Vec<u32> = topology.places.iter().map(|place| place.core).collect();
    numbers.sort_unstable();
    numbers.dedup();
    domains.core_idle = vec![(0, 0); numbers.len()].into();
    for cpu in 0..topology.cpus() {
        let core = topology.places[cpu].core;
        let row = numbers.partition_point(|&other| other < core);
        domains.cpus[cpu].core = row as u32;
        let (idle, threads) = &mut domains.core_idle[row];
        *idle += 1;
        *threads += 1;
        domains.smt_active |= *threads > 1;
    }
}
