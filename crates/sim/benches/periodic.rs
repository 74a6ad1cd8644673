//! How fast worlds run: `cargo bench -p schedcast-sim`. One element is one dispatch, so criterion's
//! throughput reads as dispatches per second of one core, statistics on.
#![allow(missing_docs)] // criterion's macros generate public functions

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use schedcast_kernel::rules::{Rules, Version};
use schedcast_kernel::topology::Topology;
use schedcast_sim::{Machine, World, bench_workloads};
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;

/// (name, machine with clocks, idle states and power, CPUs, cgroup levels, simulated seconds of one
/// measurement)
const WORLDS: [(&str, Option<&str>, usize, usize, u64); 7] = [
    ("W1", None, 10, 1, 10),
    ("W1, two levels", None, 10, 2, 10),
    ("W1, four levels", None, 10, 4, 10),
    ("W1, two levels, machine", Some("hwp-desktop-8"), 10, 2, 10),
    ("W2", None, 64, 1, 2),
    ("W3", None, 128, 1, 1),
    ("512 CPUs", None, 512, 1, 1),
];

/// A world that has settled in for a second.
fn warm(preset: Option<&str>, cpus: usize, levels: usize) -> World {
    let rules = Rules::of(Version::new(6, 18), cpus as u32, 250);
    let machine = match preset {
        None => bench_workloads::machine(cpus),
        Some(preset) => Machine::preset(preset).map(|one| one.with_topology(Topology::flat(cpus))),
    };
    let machine = machine.expect("the preset is valid");
    let workload = bench_workloads::periodic(cpus * 10, levels).expect("the program is valid");
    let mut world = World::new(machine, rules, workload, 1).expect("the workload is valid");
    world.run_until(SECOND_NS).expect("the program runs");
    world.reset_statistics();
    world
}

fn periodic(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dispatches");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(4));
    for (name, preset, cpus, levels, seconds) in WORLDS {
        let world = warm(preset, cpus, levels);
        let run = |mut world: World| {
            world
                .run_until((1 + seconds) * SECOND_NS)
                .expect("the program runs");
            world
        };
        let dispatches = run(world.clone()).probes().machine.dispatches;
        group.throughput(Throughput::Elements(dispatches));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(|| world.clone(), run, BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, periodic);
criterion_main!(benches);
