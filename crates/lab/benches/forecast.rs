//! How fast whole forecasts run: `cargo bench -p schedcast-lab`. For the first two one element is a
//! wakeup, for the last one a variant of the what-if.
#![allow(missing_docs)] // criterion's macros generate public functions

use std::path::Path;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use schedcast_lab::question::{Question, Subject};
use schedcast_lab::recording::Recorded;
use schedcast_lab::simulator::Simulator;
use schedcast_sim::World;

const WARM_NS: u64 = 50_000_000;
const COUNTED_NS: u64 = 50_000_000;

fn question(subject: Subject, measured: bool) -> Question {
    Question {
        seeds: Some(1),
        measured,
        ..Question::of(subject)
    }
}

fn warm(text: &str) -> World {
    let subject = Subject::text("bench", text, env!("CARGO_MANIFEST_DIR"));
    let experiment = question(subject, false)
        .experiment()
        .expect("the text is valid");
    let (mut world, _, _) = Simulator::new()
        .world(&experiment.scenarios[0], 1)
        .expect("the programs are valid");
    world.run_until(WARM_NS).expect("the programs run");
    world
}

fn wakeups(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("wakeups");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(4));
    for (name, text) in [
        ("hackbench, 16 groups", include_str!("hackbench.toml")),
        ("UDP_RR, 224 pairs", include_str!("udp-rr.toml")),
    ] {
        let world = warm(text);
        let run = |mut world: World| {
            world
                .run_until(WARM_NS + COUNTED_NS)
                .expect("the programs run");
            world
        };
        let before = world.probes().machine.wakeups;
        let after = run(world.clone()).probes().machine.wakeups;
        group.throughput(Throughput::Elements(after - before));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(|| world.clone(), run, BatchSize::PerIteration);
        });
    }
    group.finish();
}

fn what_if(criterion: &mut Criterion) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/postgres-quota");
    let recorded = Recorded::open(&folder).expect("the recording is there");
    let experiment = question(Subject::Recording(recorded), true)
        .experiment()
        .expect("the recording is valid");
    let mut group = criterion.benchmark_group("variants");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(4));
    group.throughput(Throughput::Elements(experiment.scenarios.len() as u64));
    group.bench_function("PostgreSQL what-if, reading included", |bencher| {
        bencher.iter(|| {
            let simulator = Simulator::new();
            for scenario in &experiment.scenarios {
                simulator.finish(scenario, 1).expect("the replay runs");
            }
        });
    });
    group.finish();
}

criterion_group!(benches, wakeups, what_if);
criterion_main!(benches);
