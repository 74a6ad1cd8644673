//! Properties of whole worlds: time is conserved, runs repeat, memory is flat.

mod common;

use common::*;
use proptest::prelude::*;
use schedcast_base::assert_in;
use schedcast_kernel::group::BandwidthLimit;
use schedcast_kernel::platform::Op;
use schedcast_kernel::{Cpu, GroupId};
use schedcast_sim::workload::{
    ForkSpec, GroupChange, GroupSetting, GroupSpec, QueueSpec, SenderWakes, TaskSpec,
};
use schedcast_sim::{Distribution, Machine, Reg, RunError, Workload, World, bench_workloads};

const A: Reg = Reg(0);
const B: Reg = Reg(1);

fn priced(cpus: usize, workload: Workload, seed: u64) -> World {
    let machine = bench_workloads::machine(cpus).unwrap();
    World::new(machine, rules(cpus), workload, seed).unwrap()
}

fn limit(quota_ms: u64, period_ms: u64) -> BandwidthLimit {
    BandwidthLimit::of_ms(quota_ms, period_ms, 0)
}

/// A bit of everything: limits, messages, locks, sleeps, forks, draws.
fn mixture() -> Workload {
    let mut workload = Workload::default();
    let outer = workload.add_group(GroupSpec {
        limit: limit(120, 100),
        ..GroupSpec::new("/outer", GroupId::ROOT)
    });
    let inner = workload.add_group(GroupSpec {
        shares: 512,
        limit: limit(20, 40),
        ..GroupSpec::new("/outer/inner", outer)
    });
    let draw = workload.add_distribution(Distribution::Exponential { mean: MS });
    let queue = workload.add_queue(QueueSpec {
        capacity_bytes: 1000,
        overhead_bytes: 0,
        wake_sender_at_bytes: 500,
        wake_sender_sync: true,
        sender_wakes: SenderWakes::All,
        ..QueueSpec::UNBOUNDED
    });
    let mutex = workload.add_mutex();
    let sender = program(&mut workload, |b| {
        let top = b.here();
        b.work(draw);
        b.send(queue, 100, A, true);
        b.sleep(draw);
        b.jump(top);
    });
    let receiver = program(&mut workload, |b| {
        let top = b.here();
        b.recv_timeout(queue, A, 3 * MS);
        b.lock(mutex);
        b.work(draw);
        b.unlock(mutex);
        b.jump(top);
    });
    let child = program(&mut workload, |b| b.work(draw));
    let fork = workload.add_fork(ForkSpec::new("child", child, true));
    let forker = program(&mut workload, |b| {
        let top = b.here();
        b.sleep(10 * MS);
        b.fork(fork, A);
        b.fork(fork, B);
        b.join_all();
        b.jump(top);
    });
    for (name, program, group, count) in [
        ("sender", sender, outer, 3),
        ("receiver", receiver, inner, 4),
        ("forker", forker, GroupId::ROOT, 1),
    ] {
        for _ in 0..count {
            workload.add_task(TaskSpec {
                group,
                ..TaskSpec::new(name, program)
            });
        }
    }
    workload.changes = vec![GroupChange {
        at_ns: 300 * MS,
        group: outer,
        setting: GroupSetting::Limit(limit(60, 100)),
    }];
    workload
}

#[test]
fn cpu_time_is_conserved() {
    let mut world = priced(3, mixture(), 5);
    for step in 1..=20 {
        world.run_until(step * 50 * MS).unwrap();
        let mut overhead = 0;
        for cpu in (0..3).map(Cpu) {
            let time = world.cpu_time(cpu);
            let sum = time.user_ns + time.overhead_ns + time.idle_ns;
            // A CPU may be in the middle of an operation that is charged in advance.
            assert_in!(sum, world.now()..world.now() + 100 * US, "{cpu:?}");
            overhead += time.overhead_ns;
        }
        let named: u64 = world.probes().machine.overhead_ns.iter().sum();
        assert_eq!(overhead, named);
    }
}

#[test]
fn run_time_of_tasks_is_busy_time() {
    let mut world = priced(3, mixture(), 5);
    world.run_until(1000 * MS).unwrap();
    let run: u64 = world.probes().names.iter().map(|name| name.run_ns).sum();
    let busy: u64 = (0..3)
        .map(|cpu| world.cpu_time(Cpu(cpu)))
        .map(|time| time.user_ns + time.overhead_ns)
        .sum();
    // Interrupts of idle CPUs and the switches to tasks are no task's run time.
    assert!(run <= busy && busy < run + run / 20, "{run} of {busy}");
}

#[test]
fn work_is_conserved_on_slow_cpus() {
    let mut machine = free_machine(2);
    machine.topology.capacities = vec![1024, 341];
    let workload = works_on_both();
    let world = seeded(machine, workload, 1).ran_until(100 * MS);
    // 10 ms / (341 / 1024), and the ticks in between lose nothing.
    assert_eq!(marks(&world), [(10 * MS, 0), (30_029_326, 1)]);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut world = priced(2, mixture(), seed);
        world.run_until(500 * MS).unwrap();
        (world.event_hash(), world.probes().machine.dispatches)
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0);
}

#[test]
fn a_copy_goes_on_like_the_original() {
    let mut world = priced(2, mixture(), 7);
    world.run_until(123_456_789).unwrap();
    let mut copy = world.clone();
    world.run_until(500 * MS).unwrap();
    copy.run_until(500 * MS).unwrap();
    assert_eq!(world.event_hash(), copy.event_hash());
    assert_eq!(
        world.probes().machine.overhead_ns,
        copy.probes().machine.overhead_ns
    );
}

#[test]
fn looking_does_not_change_the_run() {
    let mut whole = priced(2, mixture(), 7);
    whole.run_until(500 * MS).unwrap();
    let mut steps = priced(2, mixture(), 7);
    for time in (0..=500 * MS).step_by(777_777) {
        steps.run_until(time).unwrap();
    }
    steps.run_until(500 * MS).unwrap();
    assert_eq!(whole.event_hash(), steps.event_hash());
    for cpu in (0..2).map(Cpu) {
        assert_eq!(whole.cpu_time(cpu), steps.cpu_time(cpu));
    }
}

#[test]
fn worlds_can_run_on_other_threads() {
    let world = priced(2, mixture(), 7);
    let hashes: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..2)
            .map(|_| {
                let mut copy = world.clone();
                scope.spawn(move || {
                    copy.run_until(300 * MS).unwrap();
                    copy.event_hash()
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert_eq!(hashes[0], hashes[1]);
}

#[test]
fn a_wakeup_takes_what_its_parts_cost() {
    let mut workload = Workload::default();
    let semaphore = workload.add_semaphore(0);
    task(&mut workload, "waker", 0, |b| {
        b.sleep(10 * MS);
        b.work(100 * US);
        b.now(A);
        b.log(1, A, 1);
        b.sem_post(semaphore);
        b.work(10 * MS);
    });
    task(&mut workload, "sleeper", 1, |b| {
        b.sem_wait(semaphore);
        b.now(A);
        b.log(2, A, 1);
    });
    let mut world = priced(2, workload, 1);
    world.probes_mut().log = Some(Vec::new());
    world.run_until(50 * MS).unwrap();
    let elapsed = values(&world, 2)[0][0] - values(&world, 1)[0][0];
    let machine = Machine::preset("generic-8").unwrap();
    let price = |op| machine.price_ns(op);
    let waker = price(Op::Syscall) + price(Op::Wakeup) + price(Op::IpiSend);
    let way = machine.ipi_delivery_ns + machine.idle_exit_ns;
    let sleeper = price(Op::IpiReceive) + price(Op::EnqueueLevel) + price(Op::ContextSwitch);
    // Leaving idle also restarts the tick.
    let least = waker + way + sleeper;
    assert!(elapsed >= least, "{elapsed} < {least}");
    assert!(elapsed <= least + 2 * price(Op::TickReprogram), "{elapsed}");
}

/// A sleeper of CPU 1 is woken once beside a hog: how long that takes, ns.
fn wakeup_beside_a_hog(ipi_stall_ns: u64) -> u64 {
    let mut workload = Workload::default();
    let semaphore = workload.add_semaphore(0);
    task(&mut workload, "waker", 0, |b| {
        b.sleep(10 * MS);
        b.now(A);
        b.log(1, A, 1);
        b.sem_post(semaphore);
    });
    task(&mut workload, "sleeper", 1, |b| {
        b.sem_wait(semaphore);
        b.now(A);
        b.log(2, A, 1);
    });
    task(&mut workload, "hog", 1, |b| b.work(100 * MS));
    let mut machine = Machine::preset("dev-vm").unwrap();
    machine.timer_interrupt = None;
    machine.ipi_stall_ns = ipi_stall_ns;
    let world = seeded(machine, workload, 1).ran_until(50 * MS);
    values(&world, 2)[0][0] - values(&world, 1)[0][0]
}

/// It takes 9 us to send the interrupt: of those the hog on the other CPU stands still for 8, and
/// the wakee starts when it would have started anyway.
#[test]
fn a_stall_begins_while_the_interrupt_is_sent() {
    let woken = wakeup_beside_a_hog(0);
    let woken_with_stall = wakeup_beside_a_hog(8 * US);
    assert_in!(woken.abs_diff(woken_with_stall), 0..=US);
    // One that takes longer than the way there does come late: 9 us to send, 3 on the way.
    let late = wakeup_beside_a_hog(30 * US);
    assert!(late >= woken + 30 * US - 12 * US - US, "{late} {woken}");
}

#[test]
fn interrupts_wait_for_the_operation_under_way() {
    let mut workload = Workload::default();
    task(&mut workload, "busy", 0, |b| {
        b.work(MS);
        b.kernel_work(100 * US);
        b.mark(1);
        b.work(100 * US);
        b.mark(2);
    });
    let sleeper = program(&mut workload, |b| {
        b.set(A, 1050 * US);
        b.sleep_until(A);
        b.mark(3);
    });
    workload.add_task(TaskSpec {
        policy: schedcast_kernel::task::Policy::Fifo,
        rt_priority: 1,
        ..pinned("sleeper", sleeper, 0)
    });
    let world = free_world(1, workload).ran_until(10 * MS);
    // The timer expires at 1.05 ms, in the middle of the kernel work.
    assert_eq!(marks_in(US, &world), [(1100, 3), (1100, 1), (1200, 2)]);
}

#[test]
fn changed_limits_take_effect_at_their_time() {
    let mut workload = Workload::default();
    let group = workload.add_group(GroupSpec {
        limit: limit(80, 100),
        period_phase_ns: Some(0),
        ..GroupSpec::new("/g", GroupId::ROOT)
    });
    let hog = program(&mut workload, |b| b.work(u64::MAX));
    workload.add_task(TaskSpec {
        group,
        ..pinned("hog", hog, 0)
    });
    workload.changes = vec![GroupChange {
        at_ns: 1000 * MS,
        group,
        setting: GroupSetting::Limit(limit(20, 100)),
    }];
    let mut world = free_world(1, workload).ran_until(1000 * MS);
    let before = world.cpu_time(Cpu(0)).user_ns;
    world.run_until(2000 * MS).unwrap();
    let after = world.cpu_time(Cpu(0)).user_ns - before;
    assert!(before.abs_diff(800 * MS) <= 20 * MS, "{before}");
    assert!(after.abs_diff(200 * MS) <= 24 * MS, "{after}");
    let hog = world.probes().of("hog").unwrap();
    let waited = hog.wait_throttled_ns + hog.wait_contention_ns;
    assert!(hog.wait_throttled_ns > waited * 9 / 10, "{hog:?}");
}

#[test]
fn waiting_is_split_into_contention_and_throttling() {
    let mut workload = Workload::default();
    let hog = program(&mut workload, |b| b.work(u64::MAX));
    for name in ["a", "b"] {
        workload.add_task(pinned(name, hog, 0));
    }
    let world = free_world(1, workload).ran_until(1000 * MS);
    for name in ["a", "b"] {
        let statistics = world.probes().of(name).unwrap();
        assert_eq!(statistics.wait_throttled_ns, 0);
        assert!(statistics.wait_contention_ns.abs_diff(500 * MS) < 10 * MS);
        assert!(statistics.run_ns.abs_diff(500 * MS) < 10 * MS);
    }
}

#[test]
fn refused_limits_are_told_with_their_group() {
    let mut workload = Workload::default();
    workload.add_group(GroupSpec {
        limit: limit(5, 2000),
        ..GroupSpec::new("/slow", GroupId::ROOT)
    });
    let Err(error) = World::new(free_machine(1), rules(1), workload, 1) else {
        panic!("a period of two seconds was accepted");
    };
    assert!(error.to_string().starts_with("group /slow: "), "{error}");

    let mut workload = Workload::default();
    let group = workload.add_group(GroupSpec::new("/g", GroupId::ROOT));
    workload.changes = vec![GroupChange {
        at_ns: 3 * MS,
        group,
        setting: GroupSetting::Limit(limit(5, 2000)),
    }];
    let mut world = free_world(1, workload);
    let error = world.run_until(5 * MS).unwrap_err();
    assert!(matches!(
        error,
        RunError::Change {
            at_ns: 3_000_000,
            ..
        }
    ));
}

#[test]
fn a_workload_for_a_larger_machine_is_refused() {
    let mut workload = Workload::default();
    task(&mut workload, "t", 4, |b| b.work(1));
    let error = World::new(free_machine(2), rules(2), workload, 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "task t: CPU 4 does not exist, the machine has CPUs 0 to 1"
    );
}

#[test]
fn a_warm_up_can_be_forgotten() {
    let mut world = priced(10, bench_workloads::periodic(100, 1).unwrap(), 1);
    world.run_until(1000 * MS).unwrap();
    let hash = world.event_hash();
    world.reset_statistics();
    assert_eq!(world.event_hash(), hash);
    assert_eq!(world.probes().machine.dispatches, 0);
    world.run_until(2000 * MS).unwrap();
    let periodic = world.probes().of("periodic").unwrap();
    assert_eq!(periodic.wakeups, 20_000);
    assert!((world.busy_ratio() - 0.67).abs() < 0.01);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Work asked for is work executed, whatever else happens.
    #[test]
    fn no_work_is_lost(
        tasks in prop::collection::vec((1..4000u64, 0..3000u64, 1..4u64), 1..8),
        cpus in 1..4usize,
        quota_ms in 2..60u64,
        seed in any::<u64>(),
    ) {
        let mut workload = Workload::default();
        let group = workload.add_group(GroupSpec {
            limit: limit(quota_ms, 50),
            ..GroupSpec::new("/g", GroupId::ROOT)
        });
        let mut asked = 0;
        for (row, &(work_us, sleep_us, rounds)) in tasks.iter().enumerate() {
            let body = program(&mut workload, |b| {
                b.repeat(A, rounds, |b| {
                    b.work(work_us * US);
                    b.sleep(sleep_us * US);
                });
            });
            asked += work_us * rounds * US;
            workload.add_task(TaskSpec {
                group: if row % 2 == 0 { group } else { GroupId::ROOT },
                ..TaskSpec::new(format!("t{row}"), body)
            });
        }
        let mut world = priced(cpus, workload, seed);
        world.run_until(5_000 * MS).unwrap();
        prop_assert_eq!(world.live_tasks(), 0);
        let user: u64 = (0..cpus as u32).map(|cpu| world.cpu_time(Cpu(cpu)).user_ns).sum();
        prop_assert_eq!(user, asked);
    }
}

#[test]
fn work_is_retimed_when_the_speed_changes() {
    let mut workload = Workload::default();
    task(&mut workload, "t", 0, |b| {
        b.work(10 * MS);
        b.mark(1);
    });
    let mut world = free_world(1, workload).ran_until(2 * MS);
    world.set_speed(Cpu(0), 65536 / 2);
    world.run_until(6 * MS).unwrap();
    world.set_speed(Cpu(0), 65536 * 2);
    world.run_until(20 * MS).unwrap();
    // 2 ms at nominal speed, 4 ms at half, then 6 ms of work are left and take 3.
    assert_eq!(marks(&world), [(9 * MS, 1)]);
}

#[test]
fn stolen_time_passes_and_is_not_charged() {
    let mut workload = Workload::default();
    let group = workload.add_group(GroupSpec {
        limit: limit(50, 100),
        ..GroupSpec::new("/limited", GroupId::ROOT)
    });
    let latency = workload.add_metric("job/latency");
    // 40 ms of work and 20 ms stolen fit into 50 ms of quota: the end comes after 60 ms.
    let job = program(&mut workload, |b| {
        b.now(A);
        b.work(20 * MS);
        b.stolen(20 * MS);
        b.work(20 * MS);
        b.record_since(latency, A);
    });
    workload.add_task(TaskSpec {
        group,
        ..TaskSpec::new("job", job)
    });
    let machine = bench_workloads::machine(1).unwrap().free_of_charge();
    let world = seeded(machine, workload, 1).ran_until(200 * MS);
    let took = world.probes().metrics[latency.0 as usize].values.max();
    assert_eq!(took, Some(60 * MS));
    assert_eq!(world.kernel().group_usage_ns(group), 40 * MS);
    let stat = &world.kernel().groups[group].bandwidth.stat;
    assert_eq!(stat.nr_throttled, 0);
    let time = world.cpu_time(Cpu(0));
    assert_eq!(time.overhead_ns, 20 * MS);
    assert_eq!(time.user_ns, 40 * MS);
}
