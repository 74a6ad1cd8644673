//! Common ground of a tree and the rules of its release: the machine, numbers of policies, build
//! options.

use crate::calls::{Machine, PerfState, Place};
use crate::config::Config;
use schedcast_kernel::cpufreq::FrequencyDriver;
use schedcast_kernel::rules::{KernelChoice, Preemption, Rules, Version};
use schedcast_kernel::task::Policy;
use schedcast_kernel::topology::Topology;

/// Policies by their numbers in `uapi/linux/sched.h`.
const POLICIES: [(i32, Policy); 6] = [
    (0, Policy::Normal),
    (1, Policy::Fifo),
    (2, Policy::RoundRobin),
    (3, Policy::Batch),
    (5, Policy::Idle),
    (6, Policy::Deadline),
];

/// Number of a policy; that of `SCHED_NORMAL` where the C is not to know it.
pub(crate) fn policy_number(policy: Policy) -> i32 {
    let row = POLICIES.iter().find(|(_, of)| *of == policy);
    row.map_or(0, |(number, _)| *number)
}

/// Policy of a number.
pub(crate) fn policy_of(number: i32) -> Policy {
    let row = POLICIES.iter().find(|(of, _)| *of == number);
    row.map_or(Policy::Normal, |(_, policy)| *policy)
}

/// A machine as the C is told of it, with the driver that makes its energy model.
pub(crate) fn machine(topology: &Topology, driver: Option<&FrequencyDriver>, seed: u64) -> Machine {
    let places = topology.places.iter().map(|place| Place {
        core: place.core as i32,
        cluster: place.cluster as i32,
        llc: place.llc as i32,
        package: place.socket as i32,
        node: place.node as i32,
    });
    let places: Vec<Place> = places.collect();
    let nodes = places.iter().map(|place| place.node as usize + 1).max();
    let nodes = nodes.unwrap_or(1);
    let distance = |row: usize| {
        let (from, to) = (row / nodes, row % nodes);
        let given = topology.distances.get(from).and_then(|row| row.get(to));
        given.map_or(if from == to { 10 } else { 20 }, |&given| given as i32)
    };
    let tables = driver.map_or(&[][..], |driver| &driver.tables);
    let states = tables.iter().enumerate().flat_map(|(domain, table)| {
        table.iter().map(move |point| PerfState {
            domain: domain as i32,
            khz: point.khz,
            uw: point.uw,
        })
    });
    let domains = driver.map_or(&[][..], |driver| &driver.policy_of);
    Machine {
        perf_domains: domains.iter().map(|&it| it as i32).collect(),
        perf_states: states.collect(),
        capacities: (0..places.len())
            .map(|row| topology.capacities.get(row).map_or(1024, |&it| it.into()))
            .collect(),
        priorities: topology.priorities.iter().map(|&it| it as i32).collect(),
        distances: (0..nodes * nodes).map(distance).collect(),
        isolated: topology
            .isolated
            .iter()
            .fold(0, |bits, cpu| bits | 1 << cpu.index()),
        reclaim_distance: topology.reclaim_distance as i32,
        places,
        seed,
    }
}

/// The option that builds a preemption model.
pub fn preemption_option(model: Preemption) -> &'static str {
    match model {
        Preemption::None => "PREEMPT_NONE",
        Preemption::Voluntary => "PREEMPT_VOLUNTARY",
        Preemption::Full => "PREEMPT",
        Preemption::Lazy => "PREEMPT_LAZY",
    }
}

/// The defaults of [`Config`] with a preemption model.
pub fn config_with(model: Preemption) -> Config {
    let mut config = Config::default();
    config.set(preemption_option(model), "y");
    config
}

/// Rules of a release as [`config_with`] builds its tree, at `hz` ticks a second: the overlay is an
/// architecture that has lazy preemption only where it is chosen, so trees from 7.0 on can have
/// voluntary preemption, too. It has no timer that ends requests.
///
/// # Panics
/// When the release has no such preemption model.
pub fn rules_as_built(version: Version, cpus: usize, model: Preemption, hz: u32) -> Rules {
    let choice = KernelChoice {
        hz,
        autogroup: false,
        preemption: model,
        preempt_dynamic: Some(false),
        ..KernelChoice::released(version, cpus as u32)
    };
    let mut rules = Rules::resolve(&choice).expect("a released kernel");
    rules.preemption = model;
    rules.config_preemption = matches!(model, Preemption::Full | Preemption::Lazy);
    rules.features.hrtick = false;
    rules.features.hrtick_dl = false;
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_the_numbers_of_the_system_call() {
        let numbers = [0, 1, 2, 3, 5, 6];
        assert_eq!(numbers.map(policy_of).map(policy_number), numbers);
        assert_eq!(policy_of(3), Policy::Batch);
    }
}
