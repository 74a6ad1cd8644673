//! Every instruction, in worlds where nothing but work takes time.

mod common;

use common::*;
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::task::Policy;
use schedcast_kernel::task::TaskState;
use schedcast_kernel::uclamp::{Clamps, Wish};
use schedcast_kernel::{Cpu, GroupId, TaskId};
use schedcast_sim::workload::{
    Arrival, ArrivalAction, ArrivalContext, ArrivalSource, AttributesSpec, ForkSpec, GroupChange,
    GroupSetting, GroupSpec, QueueSpec, TaskSpec,
};
use schedcast_sim::{Arithmetic, Compare, Distribution, Reg, RunError, Workload, World};

const A: Reg = Reg(0);
const B: Reg = Reg(1);
const C: Reg = Reg(2);

/// Runs one task on one CPU for 100 ms.
fn run_alone(build: impl FnOnce(&mut schedcast_sim::ProgramBuilder)) -> schedcast_sim::World {
    let mut workload = Workload::default();
    task(&mut workload, "t", 0, build);
    free_world(1, workload).ran_until(100 * MS)
}

#[test]
fn work_takes_its_time_and_ends_the_program() {
    let world = run_alone(|b| {
        b.work(3 * MS);
        b.mark(1);
        b.set(A, 2 * MS);
        b.work(A);
        b.mark(2);
    });
    assert_eq!(marks(&world), [(3 * MS, 1), (5 * MS, 2)]);
    assert_eq!(world.live_tasks(), 0);
    assert_eq!(world.cpu_time(Cpu(0)).user_ns, 5 * MS);
}

#[test]
fn registers_calculate() {
    let cases = [
        (Arithmetic::Add, 7, 3, 10),
        (Arithmetic::SubtractToZero, 7, 3, 4),
        (Arithmetic::SubtractToZero, 3, 7, 0),
        (Arithmetic::Multiply, 7, 3, 21),
        (Arithmetic::Divide, 7, 3, 2),
        (Arithmetic::Divide, 7, 0, 7),
        (Arithmetic::Remainder, 7, 3, 1),
        (Arithmetic::Remainder, 7, 0, 7),
        (Arithmetic::Min, 7, 3, 3),
        (Arithmetic::Max, 7, 3, 7),
    ];
    let world = run_alone(|b| {
        for (op, left, right, _) in cases {
            b.set(A, left);
            b.set(B, right);
            b.arithmetic(op, A, B);
            b.log(1, A, 1);
        }
    });
    let expected: Vec<Vec<u64>> = cases.iter().map(|case| vec![case.3]).collect();
    assert_eq!(values(&world, 1), expected);
}

#[test]
fn loops_and_jumps() {
    let world = run_alone(|b| {
        b.repeat(A, 3, |b| {
            b.log(1, A, 1);
        });
        let (zero, one, end) = (b.label(), b.label(), b.label());
        b.set(A, 1);
        b.jump_indexed(A, &[zero, one]);
        b.bind(zero);
        b.mark(10);
        b.bind(one);
        b.mark(11);
        b.set(A, 2); // no such entry: goes on
        b.jump_indexed(A, &[zero, one]);
        b.mark(12);
        b.jump(end);
        b.mark(13);
        b.bind(end);
        b.set(A, 0);
        let again = b.here();
        b.mark(14);
        b.loop_back(A, again); // counts from 0: once through
    });
    assert_eq!(values(&world, 1), [[3], [2], [1]]);
    let channels: Vec<u16> = marks(&world)
        .into_iter()
        .skip(3)
        .map(|mark| mark.1)
        .collect();
    assert_eq!(channels, [11, 12, 14]);
}

#[test]
fn comparisons() {
    let all = [
        (Compare::Equal, [false, true, false]),
        (Compare::NotEqual, [true, false, true]),
        (Compare::Less, [true, false, false]),
        (Compare::LessOrEqual, [true, true, false]),
        (Compare::Greater, [false, false, true]),
        (Compare::GreaterOrEqual, [false, true, true]),
    ];
    let world = run_alone(|b| {
        for (compare, _) in all {
            for left in [4, 5, 6] {
                let skip = b.label();
                b.set(A, left);
                b.set(B, 1);
                b.jump_if(A, compare, 5, skip);
                b.set(B, 0);
                b.bind(skip);
                b.log(1, B, 1);
            }
        }
    });
    let expected: Vec<Vec<u64>> = all
        .iter()
        .flat_map(|(_, holds)| holds.iter().map(|&holds| vec![u64::from(holds)]))
        .collect();
    assert_eq!(values(&world, 1), expected);
}

#[test]
fn sleeps_add_slack_unless_another_timer_interrupts() {
    let mut workload = Workload::default();
    let sleeper = program(&mut workload, |b| {
        b.sleep(100 * US);
        b.mark(1);
        b.sleep(500 * US); // until 650, may be as late as 700
        b.mark(2);
    });
    workload.add_task(TaskSpec {
        timer_slack_ns: None,
        ..pinned("sleeper", sleeper, 0)
    });
    task(&mut workload, "other", 0, |b| b.sleep(680 * US));
    let world = free_world(1, workload).ran_until(MS);
    assert_eq!(marks(&world), [(150 * US, 1), (680 * US, 2)]);
}

#[test]
fn absolute_sleeps_in_the_past_return_at_once() {
    let world = run_alone(|b| {
        b.work(2 * MS);
        b.set(A, MS);
        b.sleep_until(A);
        b.mark(1);
        b.set(A, 5 * MS);
        b.sleep_until(A);
        b.mark(2);
    });
    assert_eq!(marks(&world), [(2 * MS, 1), (5 * MS, 2)]);
}

#[test]
fn an_absolute_sleep_that_is_late_by_less_than_its_slack_lasts_until_that_is_over() {
    // 20 us late, the slack is 50: the hardware is programmed for 30 us from now. 60 us late:
    // nothing is left to wait for.
    for (late_us, woken_us) in [(20, 2030), (60, 2000)] {
        let mut workload = Workload::default();
        let sleeper = program(&mut workload, |b| {
            b.work(2 * MS);
            b.set(A, 2 * MS - late_us * US);
            b.sleep_until(A);
            b.mark(1);
        });
        workload.add_task(TaskSpec {
            timer_slack_ns: None,
            ..pinned("sleeper", sleeper, 0)
        });
        let world = free_world(1, workload).ran_until(5 * MS);
        assert_eq!(marks(&world), [(woken_us * US, 1)]);
    }
}

#[test]
fn a_spin_counts_the_time_it_does_not_run() {
    let mut workload = Workload::default();
    task(&mut workload, "spinner", 0, |b| {
        b.sleep(0);
        b.now(A);
        b.spin(20 * MS, 100);
        b.now(B);
        b.subtract(B, A);
        b.log(1, B, 1);
    });
    task(&mut workload, "worker", 0, |b| {
        b.work(20 * MS);
        b.now(A);
        b.log(2, A, 1);
    });
    let world = free_world(1, workload).ran_until(100 * MS);
    let wall = values(&world, 1)[0][0];
    assert!((20 * MS..24 * MS + 100).contains(&wall), "{wall}"); // at most a tick off the CPU
    let worker_end = values(&world, 2)[0][0];
    assert!(worker_end < 36 * MS, "{worker_end}"); // the spinner used about half of its 20 ms
}

#[test]
fn io_counts_as_iowait_and_completes_in_time() {
    let mut workload = Workload::default();
    task(&mut workload, "t", 0, |b| {
        b.io(3 * MS);
        b.mark(1);
    });
    let mut world = free_world(1, workload).ran_until(MS);
    assert_eq!(world.kernel().rqs[0].nr_iowait, 1);
    world.run_until(10 * MS).unwrap();
    assert_eq!(world.kernel().rqs[0].nr_iowait, 0);
    assert_eq!(marks(&world), [(3 * MS, 1)]);
}

#[test]
fn children_inherit_registers_and_can_be_joined() {
    let mut workload = Workload::default();
    let child = program(&mut workload, |b| {
        b.work(A);
        b.log(2, A, 2);
    });
    let fork = workload.add_fork(ForkSpec::new("child", child, false));
    task(&mut workload, "parent", 0, |b| {
        b.set(A, 2 * MS);
        b.set(B, 77);
        b.fork(fork, C);
        b.set(A, 6 * MS);
        b.fork(fork, B);
        b.join(C);
        b.mark(1);
        b.join_all();
        b.mark(3);
        b.join(C); // long gone
        b.join_all(); // none left
        b.mark(4);
    });
    let world = free_world(1, workload).ran_until(50 * MS);
    let channels: Vec<u16> = marks(&world).iter().map(|mark| mark.1).collect();
    assert_eq!(channels, [2, 1, 2, 3, 4]);
    let children = values(&world, 2);
    assert_eq!(children[0], [2 * MS, 77]);
    assert_eq!(children[1][0], 6 * MS);
    assert_eq!(marks(&world)[4].0, 8 * MS);
    assert_eq!(world.live_tasks(), 0);
    assert_eq!(world.probes().of("child").unwrap().switches, 2 + 1); // one preemption by the tick
}

#[test]
fn yielding_lets_the_other_one_run() {
    let mut workload = Workload::default();
    for name in ["a", "b"] {
        task(&mut workload, name, 0, |b| {
            b.work(10 * US);
            b.yield_now();
            b.mark(1);
        });
    }
    let world = free_world(1, workload).ran_until(MS);
    let times: Vec<u64> = marks(&world).into_iter().map(|mark| mark.0).collect();
    assert_eq!(times, [20 * US, 20 * US]);
}

/// Two tasks share a CPU by turns, and a sleep does not count.
#[test]
fn cpu_time_is_what_the_task_ran() {
    let mut workload = Workload::default();
    for name in ["a", "b"] {
        task(&mut workload, name, 0, |b| {
            b.work(20 * MS);
            b.cpu_time(A);
            b.sleep(50 * MS);
            b.work(3 * MS);
            b.cpu_time(B);
            b.now(C);
            b.log(1, A, 3);
        });
    }
    let world = free_world(1, workload).ran_until(200 * MS);
    let rows = values(&world, 1);
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row[..2], [20 * MS, 23 * MS]);
        assert!(row[2] >= 90 * MS, "{row:?}");
    }
}

#[test]
fn metrics_are_durations_values_and_counts() {
    let mut workload = Workload::default();
    let latency = workload.add_metric("latency");
    let rounds = workload.add_metric("rounds");
    task(&mut workload, "t", 0, |b| {
        b.now(A);
        b.work(2 * MS);
        b.record_since(latency, A);
        b.record(latency, 500);
        b.count(rounds, 3);
        b.count(rounds, 4);
    });
    let world = free_world(1, workload).ran_until(10 * MS);
    let probes = world.probes();
    let latency = &probes.metric("latency").unwrap().values;
    assert_eq!(
        (latency.min(), latency.max(), latency.count()),
        (Some(500), Some(2 * MS), 2)
    );
    let rounds = probes.metric("rounds").unwrap();
    assert_eq!((rounds.count, rounds.values.count()), (7, 0));
}

#[test]
fn draws_do_not_depend_on_other_tasks() {
    let draws = |others: usize, seed: u64| {
        let mut workload = Workload::default();
        let dice = workload.add_distribution(Distribution::Uniform { low: 0, high: 999 });
        let body = program(&mut workload, |b| {
            for _ in 0..5 {
                b.set(A, dice);
                b.log(1, A, 1);
            }
        });
        for other in 0..others {
            workload.add_task(pinned(&format!("other{other}"), body, 0));
        }
        workload.add_task(pinned("me", body, 0));
        let world = seeded(free_machine(1), workload, seed).ran_until(MS);
        let mine = rows(&world).into_iter().filter(|row| row.1 == "me");
        mine.map(|row| row.3[0]).collect::<Vec<u64>>()
    };
    assert_eq!(draws(0, 1), draws(3, 1));
    assert_ne!(draws(0, 1), draws(0, 2));
}

#[test]
fn objects_can_be_named_by_registers_and_wrong_numbers_are_told() {
    let mut workload = Workload::default();
    let semaphores = [workload.add_semaphore(0), workload.add_semaphore(0)];
    task(&mut workload, "t", 0, |b| {
        b.set(A, u64::from(semaphores[1].0));
        b.sem_post(A);
        b.sem_wait(semaphores[1]);
        b.mark(1);
        b.set(A, 2);
        b.sem_post(A);
    });
    let mut world = free_world(1, workload);
    let error = world.run_until(MS).unwrap_err();
    assert_eq!(marks(&world), [(0, 1)]);
    assert_eq!(
        error.to_string(),
        "task t, program p0, instruction 5: register 0 names semaphore 2, the workload has 2"
    );
}

#[test]
fn a_loop_without_time_is_an_error() {
    let mut workload = Workload::default();
    task(&mut workload, "t", 0, |b| {
        b.work(MS);
        let top = b.here();
        b.jump(top);
    });
    let mut world = free_world(1, workload);
    let error = world.run_until(10 * MS).unwrap_err();
    assert!(
        matches!(
            error,
            RunError::NoProgress {
                time_ns: MS,
                instruction: 1,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn arrivals_come_at_their_absolute_times() {
    let mut workload = Workload::default();
    let queue = workload.add_queue(QueueSpec::UNBOUNDED);
    let semaphore = workload.add_semaphore(0);
    let interval = workload.add_distribution(Distribution::Empirical(vec![4 * MS]));
    task(&mut workload, "receiver", 0, |b| {
        let top = b.here();
        b.recv(queue, A);
        b.log(1, A, 1);
        b.work(MS);
        b.jump(top);
    });
    task(&mut workload, "waiter", 1, |b| {
        let top = b.here();
        b.sem_wait(semaphore);
        b.mark(2);
        b.jump(top);
    });
    let arrival = |at_ns, action| Arrival {
        at_ns,
        cpu: Cpu(1),
        context: ArrivalContext::SoftIrq,
        sync: false,
        action,
    };
    let send = |value| ArrivalAction::Send {
        queue,
        bytes: 1,
        value,
    };
    let list = vec![
        arrival(2 * MS, send(20)),
        arrival(2 * MS, send(21)),
        arrival(9 * MS, send(22)),
    ];
    workload.add_arrivals("list", ArrivalSource::List(list));
    workload.add_arrivals(
        "stream",
        ArrivalSource::Stream {
            first: arrival(MS, ArrivalAction::SemPost(semaphore)),
            interval,
        },
    );
    let world = free_world(2, workload).ran_until(10 * MS);
    assert_eq!(
        marks_in(MS, &world),
        [(1, 2), (2, 1), (3, 1), (5, 2), (9, 2), (9, 1)]
    );
    // The second message waited for the first: its activation began when the first one's ended.
    let receiver = world.probes().of("receiver").unwrap();
    assert_eq!(receiver.activation_latency.count(), 3);
    assert_eq!(receiver.activation_latency.max(), Some(MS));
    assert_eq!(receiver.wakeups, 2);
}

#[test]
fn rows_of_dead_tasks_are_used_again() {
    let mut workload = Workload::default();
    let child = program(&mut workload, |b| b.work(10 * US));
    let fork = workload.add_fork(ForkSpec::new("child", child, true));
    task(&mut workload, "parent", 0, |b| {
        b.repeat(A, 500, |b| {
            b.fork(fork, B);
            b.join(B);
        });
        b.mark(1);
    });
    let world = free_world(1, workload).ran_until(50 * MS);
    assert_eq!(marks(&world), [(5 * MS, 1)]);
    // Besides the idle and the migration thread.
    assert!(world.kernel().tasks.len() <= 2 + 3);
    let dead = world
        .kernel()
        .tasks
        .iter()
        .filter(|task| task.state == TaskState::Dead);
    assert_eq!(dead.count(), world.kernel().tasks.len() - 2);
}

#[test]
fn attributes_change_while_running() {
    let mut workload = Workload::default();
    let group = workload.add_group(GroupSpec::new("/g", GroupId::ROOT));
    let changed = workload.add_attributes(AttributesSpec {
        policy: Some((Policy::RoundRobin, 7)),
        affinity: Some(CpuSet::of(Cpu(1))),
        ..AttributesSpec::default()
    });
    let back = workload.add_attributes(AttributesSpec {
        policy: Some((Policy::Batch, 0)),
        nice: Some(5),
        group: Some(group),
        timer_slack_ns: Some(200 * US),
        custom_slice_ns: Some(MS),
        ..AttributesSpec::default()
    });
    let body = program(&mut workload, |b| {
        b.set_attributes(changed);
        b.work(MS);
        b.get_cpu(A);
        b.log(1, A, 1);
        b.sleep(MS); // real-time: no slack
        b.mark(2);
        b.set_attributes(back);
        b.sleep(MS);
        b.mark(3);
        b.sleep(MS);
    });
    workload.add_task(TaskSpec {
        timer_slack_ns: None,
        ..pinned("t", body, 0)
    });
    let world = free_world(2, workload).ran_until(4 * MS);
    assert_eq!(marks(&world), [(MS, 1), (2 * MS, 2), (3200 * US, 3)]);
    assert_eq!(values(&world, 1), [[1]]);
    let rows = 0..world.kernel().tasks.len();
    let row = rows
        .map(TaskId::from)
        .find(|&row| world.task_name(row) == "t");
    let task = &world.kernel().tasks[row.unwrap()];
    assert_eq!(
        (task.policy, task.nice, task.group),
        (Policy::Batch, 5, group)
    );
    let entity = &world.kernel().entities[task.se];
    assert_eq!((entity.slice, entity.custom_slice), (MS, true));
}

#[test]
fn clamps_are_set_inherited_and_bounded_by_groups() {
    let mut workload = Workload::default();
    let group = workload.add_group(GroupSpec {
        clamps: Some(Clamps { min: 0, max: 600 }),
        ..GroupSpec::new("/g", GroupId::ROOT)
    });
    let child = program(&mut workload, |b| {
        b.work(10 * MS);
    });
    let child = workload.add_fork(ForkSpec::new("child", child, true));
    let change = workload.add_attributes(AttributesSpec {
        clamps: Clamps::new(Wish::Set(300), Wish::Keep),
        ..AttributesSpec::default()
    });
    let body = program(&mut workload, |b| {
        b.set_attributes(change);
        b.fork(child, A);
        b.work(10 * MS);
    });
    workload.add_task(TaskSpec {
        group,
        clamps: Clamps::new(None, Some(900)),
        ..pinned("t", body, 0)
    });
    workload.changes = vec![GroupChange {
        at_ns: 2 * MS,
        group,
        setting: GroupSetting::Clamps(Clamps::new(400, 1024)),
    }];
    let on_kernel = |uclamp, workload| {
        let mut rules = rules(1);
        rules.uclamp = uclamp;
        World::new(free_machine(1), rules, workload, 1).unwrap()
    };
    let mut world = on_kernel(true, workload.clone());
    let clamps = |world: &World| {
        let of = |name: &str| {
            let mut rows = (0..world.kernel().tasks.len()).map(TaskId::from);
            let row = rows.find(|&row| world.task_name(row) == name).unwrap();
            let clamps = world.kernel().clamps_of(row);
            (clamps.min, clamps.max)
        };
        [of("t"), of("child")]
    };
    world.run_until(MS).unwrap();
    assert_eq!(clamps(&world), [(300, 600); 2]);
    world.run_until(3 * MS).unwrap();
    assert_eq!(clamps(&world), [(400, 900); 2]);
    let mut without = on_kernel(false, workload);
    let error = without.run_until(MS).unwrap_err().to_string();
    assert_eq!(
        error,
        "task t at 0 ns: this kernel is built without utilisation clamps"
    );
}
