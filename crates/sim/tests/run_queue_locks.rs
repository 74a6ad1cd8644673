//! Waits for the lock of a run queue and for the end of a switch. Times are computed by hand.

mod common;

use common::{MS, Mark, Ran, free_machine, marks, pinned, program, task, world};
use schedcast_kernel::platform::Op;
use schedcast_kernel::task::Policy;
use schedcast_sim::workload::{QueueSpec, TaskSpec};
use schedcast_sim::{Machine, Reg, Workload};

/// Two CPUs that take 100 us for a switch and nothing for anything else.
fn slow_to_switch() -> Machine {
    let mut machine = free_machine(2);
    for switch in [Op::ContextSwitch, Op::ContextSwitchThread] {
        machine.cost_ns[switch as usize] = 100_000;
    }
    machine
}

#[test]
fn the_lock_of_a_queue_is_held_while_the_interrupt_is_sent() {
    let mut machine = free_machine(2);
    machine.cost_ns[Op::IpiSend as usize] = 100_000;
    let mut workload = Workload::default();
    let semaphore = workload.add_semaphore(0);
    let queue = workload.add_queue(QueueSpec::UNBOUNDED);
    task(&mut workload, "waker", 0, |b| {
        b.work(MS);
        b.sem_post(semaphore);
    });
    // In and out of the kernel every 10 us: it sees at once that it has to give way.
    let caller = program(&mut workload, |b| {
        b.set(Reg(0), 1000);
        let top = b.here();
        b.work(10_000);
        b.send(queue, 1, Reg(1), false);
        b.loop_back(Reg(0), top);
    });
    workload.add_task(pinned("caller", caller, 1));
    let urgent = program(&mut workload, |b| {
        b.sem_wait(semaphore);
        b.mark(1);
    });
    workload.add_task(TaskSpec {
        policy: Policy::Fifo,
        rt_priority: 1,
        ..pinned("urgent", urgent, 1)
    });
    let world = world((6, 18), machine, workload).ran_until(5 * MS);
    // The caller gets to `schedule` within 10 us of the wakeup and spins there until the waker has
    // sent the interrupt.
    assert_eq!(marks(&world), [(MS + 100_000, 1)]);
}

#[test]
fn a_waker_waits_for_the_lock_of_a_queue_whose_cpu_switches() {
    let mut workload = Workload::default();
    let semaphore = workload.add_semaphore(0);
    task(&mut workload, "sleeper", 1, |b| b.sem_wait(semaphore));
    let mut at = |name: &str, cpu, start_ns, work_ns, posts| {
        let program = program(&mut workload, |b| {
            b.work(work_ns);
            if posts {
                b.sem_post(semaphore);
                b.mark(1);
            }
        });
        workload.add_task(TaskSpec {
            start_ns,
            ..pinned(name, program, cpu)
        });
    };
    // CPU 1 switches to the first at 10 ms, until 10.1, and from the first to the second at 10.4,
    // until 10.5.
    at("first", 1, 10 * MS, 300_000, false);
    at("second", 1, 10 * MS + 200_000, 5 * MS, false);
    // Runs from 10.1 ms on.
    at("waker", 0, 10 * MS, 350_000, true);
    let world = world((6, 18), slow_to_switch(), workload).ran_until(20 * MS);
    // It wants the lock at 10.45 ms.
    assert_eq!(marks(&world), [(10 * MS + 500_000, 1)]);
}

#[test]
fn a_task_that_is_still_switched_away_from_is_handed_to_its_cpu() {
    // When the waker goes on, and when the sleeper does.
    let woken = |version: (u16, u16)| {
        let mut workload = Workload::default();
        let semaphore = workload.add_semaphore(0);
        task(&mut workload, "sleeper", 1, |b| {
            b.work(MS);
            b.sem_wait(semaphore);
            b.mark(2);
        });
        task(&mut workload, "waker", 0, |b| {
            b.work(MS + 50_000);
            b.sem_post(semaphore);
            b.mark(1);
        });
        let world = world(version, slow_to_switch(), workload).ran_until(5 * MS);
        marks(&world)
    };
    // Both begin at 0.1 ms. CPU 1 is in the switch to its idle task from 1.1 to 1.2 ms, the wakeup
    // comes at 1.15.
    let back = (1_300_000, 2);
    assert_eq!(woken((6, 18)), [(1_150_000, 1), back]);
    assert_eq!(woken((5, 8)), [(1_150_000, 1), back]);
    // Before, the waker waits until the switch is over.
    assert_eq!(woken((5, 7)), [(1_200_000, 1), back]);
}
