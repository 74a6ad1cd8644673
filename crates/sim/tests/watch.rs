//! Events that an observer of a run receives.

mod common;

use common::*;
use schedcast_kernel::group::BandwidthLimit;
use schedcast_kernel::platform::Observation;
use schedcast_kernel::{Cpu, GroupId, Ns, TaskId};
use schedcast_sim::events::{TraceEvent, TraceKind};
use schedcast_sim::workload::{GroupSpec, TaskSpec};
use schedcast_sim::{Distribution, Machine, Watch, Workload, World, bench_workloads};

/// Keeps everything, and checks that no step holds more than its share.
#[derive(Default)]
struct Everything {
    events: Vec<TraceEvent>,
    steps: Vec<Ns>,
}

impl Watch for Everything {
    fn events(&mut self, world: &mut World, events: &[TraceEvent]) {
        self.steps.push(world.now());
        self.events.extend_from_slice(events);
    }
}

/// Two CPUs, a pair that wakes one another in a group of 20 ms every 50 ms with 10 ms of burst.
fn workload() -> Workload {
    let mut workload = Workload::default();
    let group = workload.add_group(GroupSpec {
        limit: BandwidthLimit::of_ms(20, 50, 10),
        ..GroupSpec::new("/g", GroupId::ROOT)
    });
    let draw = workload.add_distribution(Distribution::Exponential { mean: MS });
    let ping = workload.add_semaphore(1);
    let pong = workload.add_semaphore(0);
    for (own, other) in [(ping, pong), (pong, ping)] {
        let side = program(&mut workload, |b| {
            let top = b.here();
            b.sem_wait(own);
            b.work(draw);
            b.sem_post(other);
            b.jump(top);
        });
        workload.add_task(TaskSpec {
            group,
            ..TaskSpec::new("side", side)
        });
    }
    workload
}

fn watched(machine: Machine, step_ns: Ns) -> (World, Everything) {
    let cpus = machine.topology.cpus();
    let mut world = World::new(machine, rules(cpus), workload(), 7).unwrap();
    let mut everything = Everything::default();
    world
        .run_watched(500 * MS, step_ns, &mut everything)
        .unwrap();
    (world, everything)
}

fn machine() -> Machine {
    bench_workloads::machine(2).unwrap()
}

#[test]
fn watching_changes_nothing() {
    let mut plain = World::new(machine(), rules(2), workload(), 7).unwrap();
    plain.run_until(500 * MS).unwrap();
    for step_ns in [MS / 7, MS, 1000 * MS] {
        let (watched, everything) = watched(machine(), step_ns);
        assert_eq!(watched.event_hash(), plain.event_hash(), "{step_ns}");
        assert_eq!(watched.cpu_time(Cpu(1)), plain.cpu_time(Cpu(1)));
        assert_eq!(everything.steps.last(), Some(&(500 * MS)));
        assert_eq!(everything.steps.len() as u64, (500 * MS).div_ceil(step_ns));
    }
}

#[test]
fn switches_follow_one_another_on_every_cpu() {
    let (world, everything) = watched(machine(), MS);
    let mut current = [TaskId(0), TaskId(1)];
    let mut last = [0; 2];
    let mut wakers = 0;
    for event in &everything.events {
        let cpu = event.cpu.index();
        match event.event {
            TraceKind::Kernel(Observation::Switch { prev, next, .. }) => {
                assert_eq!(current[cpu], prev, "at {}", event.time);
                assert!(last[cpu] <= event.time);
                current[cpu] = next;
                last[cpu] = event.time;
            }
            TraceKind::Waking { task, waker } => {
                assert_ne!(Some(task), waker);
                assert_eq!(
                    waker,
                    Some(current[cpu]),
                    "only tasks wake in this workload"
                );
                wakers += 1;
            }
            _ => {}
        }
    }
    assert_eq!(wakers, world.probes().machine.wakeups);
    assert!(wakers > 50);
}

#[test]
fn periods_tell_the_pool_on_both_sides_of_the_refill() {
    let (_, everything) = watched(machine(), MS);
    let mut carried = false;
    let mut periods = 0;
    for event in &everything.events {
        let TraceKind::Kernel(Observation::Period {
            pool_before_ns,
            pool_after_ns,
            overrun,
            ..
        }) = event.event
        else {
            continue;
        };
        let quota_ns = 20 * MS as i64;
        assert_eq!(overrun, 1);
        assert_eq!(
            pool_after_ns,
            (pool_before_ns + quota_ns).min(30 * MS as i64)
        );
        carried |= pool_before_ns > 0;
        periods += 1;
    }
    assert!(periods >= 8, "{periods}");
    assert!(carried, "some period left something");
}

#[test]
fn clocks_and_idle_states_are_shown_where_they_are_modelled() {
    let count = |everything: &Everything| {
        let mut counts = (0, 0);
        for event in &everything.events {
            match event.event {
                TraceKind::Frequency { mhz } => {
                    assert!(mhz >= 400, "{mhz}");
                    counts.0 += 1;
                }
                TraceKind::Idle { .. } => counts.1 += 1,
                _ => {}
            }
        }
        counts
    };
    let (mut world, plain) = watched(machine(), MS);
    assert_eq!(count(&plain), (0, 0));
    assert_eq!(world.package_joules(), None);
    let (mut world, full) = watched(Machine::preset("hwp-desktop-8").unwrap(), MS);
    let (clocks, sleeps) = count(&full);
    assert!(clocks > 5 && sleeps > 50, "{clocks} {sleeps}");
    assert!(world.package_joules().is_some_and(|joules| joules > 1.0));
}
