//! Timer interrupts that come late, by a fixed time and by a distribution.

mod common;

use common::{MS, Mark, Ran, US, free_machine, marks, seeded, task};
use schedcast_kernel::Cpu;
use schedcast_kernel::platform::Op;
use schedcast_kernel::rules::{Rules, Version};
use schedcast_sim::machine::parts::TimerInterrupt;
use schedcast_sim::{Machine, Workload, World};

/// Two CPUs without prices whose timer interrupts come this late.
fn world(late_ns: &[u64], workload: Workload, seed: u64) -> World {
    let mut machine = free_machine(2);
    if !late_ns.is_empty() {
        machine.timer_interrupt = Some(TimerInterrupt {
            late_quantiles_ns: late_ns.to_vec(),
            late_kept_percent: 0,
        });
    }
    seeded(machine, workload, seed)
}

fn hogs() -> Workload {
    let mut workload = Workload::default();
    for cpu in 0..2 {
        task(&mut workload, "hog", cpu, |b| {
            b.work(100_000 * MS);
        });
    }
    workload
}

#[test]
fn a_sleeper_wakes_late_and_a_tick_takes_its_lateness_from_whom_it_interrupts() {
    let mut workload = Workload::default();
    task(&mut workload, "sleeper", 0, |b| {
        b.sleep(10 * MS);
        b.mark(0);
    });
    task(&mut workload, "worker", 1, |b| {
        b.work(10 * MS);
        b.mark(1);
    });
    let world = world(&[15 * US], workload, 1).ran_until(50 * MS);
    // The worker's ticks at 4 and 8 ms cost it 15 us each.
    assert_eq!(marks(&world), [(10_015 * US, 0), (10_030 * US, 1)]);
    let time = world.cpu_time(Cpu(1));
    assert_eq!(time.user_ns, 10 * MS);
}

#[test]
fn time_is_conserved_and_lateness_is_overhead() {
    // From 10 to 30 us, 20 on average: of 1 s with a tick every 4 ms 250 · 20 us = 5 ms are lost.
    let world = world(&[10 * US, 30 * US], hogs(), 3).ran_until(1000 * MS);
    for cpu in 0..2 {
        let time = world.cpu_time(Cpu(cpu));
        let sum = time.user_ns + time.overhead_ns + time.idle_ns;
        assert!(sum.abs_diff(1000 * MS) <= 30 * US, "{time:?}");
        assert!(time.overhead_ns.abs_diff(5 * MS) < 300 * US, "{time:?}");
    }
}

#[test]
fn the_last_runtime_of_a_pool_goes_to_either_cpu() {
    use schedcast_kernel::group::BandwidthLimit;
    use schedcast_sim::workload::GroupSpec;
    // Two hogs of one group with 58 of 100 ms: at 250 Hz both are charged at the same ticks. Each
    // round of slices ends with one left for two: whose tick comes first gets it.
    let shares = |late_ns: &[u64], seed| {
        let mut workload = Workload::default();
        let group = GroupSpec::new("/g", schedcast_kernel::GroupId::ROOT);
        let group = workload.add_group(GroupSpec {
            limit: BandwidthLimit::of_ms(58, 100, 0),
            ..group
        });
        for cpu in 0..2 {
            task(&mut workload, "hog", cpu, |b| {
                b.work(100_000 * MS);
            });
            workload.tasks[cpu as usize].group = group;
        }
        let world = world(late_ns, workload, seed).ran_until(20_000 * MS);
        [0, 1].map(|cpu| world.cpu_time(Cpu(cpu)).user_ns)
    };
    let [first, second] = shares(&[], 1);
    assert!(first > second + second / 50, "{first} {second}");
    let runs: Vec<[u64; 2]> = (1..=8)
        .map(|seed| shares(&[10 * US, 30 * US], seed))
        .collect();
    let [first, second] = [0, 1].map(|cpu| runs.iter().map(|run| run[cpu]).sum::<u64>());
    assert!(first.abs_diff(second) < second / 50, "{runs:?}");
    let won = runs.iter().filter(|[first, second]| first > second).count();
    assert!((1..8).contains(&won), "{runs:?}");
}

#[test]
fn copies_and_equal_seeds_go_the_same_way_and_others_do_not() {
    let run = |seed| world(&[8 * US, 15 * US, 33 * US], hogs(), seed);
    let (mut first, mut second, mut other) = (run(1), run(1), run(2));
    // In the middle of an interrupt on its way: ticks are at multiples of 4 ms.
    first.run_until(400 * MS + 5 * US).unwrap();
    let mut copy = first.clone();
    for world in [&mut first, &mut copy, &mut second, &mut other] {
        world.run_until(800 * MS).unwrap();
    }
    assert_eq!(first.event_hash(), copy.event_hash());
    assert_eq!(first.event_hash(), second.event_hash());
    assert_eq!(first.cpu_time(Cpu(1)), second.cpu_time(Cpu(1)));
    assert_ne!(first.cpu_time(Cpu(1)), other.cpu_time(Cpu(1)));
}

#[test]
fn quantiles_must_ascend() {
    let text = schedcast_sim::machine::PRESETS[0].1;
    let part = "\n[timer_interrupt]\nlate_quantiles_ns = [9, 8]\n";
    let error = Machine::parse("m.toml", &(text.to_owned() + part)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "m.toml: timer_interrupt.late_quantiles_ns must have values, ascending"
    );
}

#[test]
fn a_timer_wakes_its_cpu_sooner_beside_one_that_executes() {
    use schedcast_sim::machine::parts::{Idle, IdleGovernor, IdleStatePart, WakesBy};
    // When a sleeper of 10 ms goes on whose CPU takes 40 us to wake, half of that beside a CPU that
    // works from `from_us` on.
    let goes_on = |from_us: u64| {
        let mut workload = Workload::default();
        task(&mut workload, "sleeper", 0, |b| {
            b.sleep(10 * MS);
            b.mark(0);
        });
        task(&mut workload, "other", 1, |b| {
            b.sleep(from_us * US);
            b.work(20 * MS);
        });
        let mut machine = free_machine(2);
        machine.idle = Some(Idle {
            governor: IdleGovernor::Menu,
            guest_halt_poll_ns: None,
            state: vec![IdleStatePart {
                name: "halt".to_owned(),
                exit_latency_ns: 1000,
                target_residency_ns: 1000,
                hardware_exit_ns: None,
                exit_after_stay_ns: vec![[0, 40 * US]],
                timer_exit_beside_busy_percent: Some(50),
                wakes_by: WakesBy::Interrupt,
                core_mw: None,
                core_percent_of_active: None,
                uncore_mw: None,
            }],
        });
        let world = seeded(machine, workload, 1).ran_until(40 * MS);
        marks(&world)[0].0
    };
    // Both begin 40 us late, too: CPUs idle at first. The sleeper's timer fires at 10,040 us; the
    // other executes from 5080, 10,060 or 15,080 on.
    assert_eq!(goes_on(5000), 10_060 * US);
    assert_eq!(goes_on(9980), 10_080 * US);
    assert_eq!(goes_on(15_000), 10_080 * US);
}

#[test]
fn an_idle_cpu_is_interrupted_for_the_slice_that_it_stopped_waiting_for() {
    // Two tasks that work 0.1 ms each: the first one's slice would end at 0.35 ms. The CPU idles
    // from 0.2 ms on and leaves its hardware programmed (HRTIMER_MODE_LAZY_REARM).
    let overhead_ns = |hrtick: bool| {
        let mut workload = Workload::default();
        for _ in 0..2 {
            task(&mut workload, "t", 0, |b| {
                b.work(100 * US);
            });
        }
        let mut machine = free_machine(1);
        machine.cost_ns[Op::TimerInterrupt as usize] = 1000;
        let mut rules = Rules::of(Version::new(7, 1), 1, 250);
        rules.features.hrtick = hrtick;
        let mut world = World::new(machine, rules, workload, 1).unwrap();
        let at = |world: &mut World, until| {
            world.run_until(until).unwrap();
            world.cpu_time(Cpu(0)).overhead_ns
        };
        [at(&mut world, 349 * US), at(&mut world, 3 * MS)]
    };
    assert_eq!(overhead_ns(true), [0, 1000]);
    assert_eq!(overhead_ns(false), [0, 0]);
}
