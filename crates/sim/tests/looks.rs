//! A look at a run changes nothing, and time never goes back. Times are computed by hand.

mod common;

use common::*;
use schedcast_kernel::Cpu;
use schedcast_sim::workload::{
    Arrival, ArrivalAction, ArrivalContext, ArrivalSource, SemaphoreId, TaskSpec,
};
use schedcast_sim::{Machine, Workload, World};

/// CPUs that take 18 us to leave their idle loop and nothing for anything else.
fn slow_to_wake(cpus: usize) -> Machine {
    let mut machine = free_machine(cpus);
    machine.idle_exit_ns = 18 * US;
    machine
}

fn start(workload: &mut Workload, cpu: u32, start_ns: u64) {
    let program = program(workload, |b| b.mark(cpu as u16));
    workload.add_task(TaskSpec {
        start_ns,
        ..pinned("t", program, cpu)
    });
}

#[test]
fn a_start_waits_for_its_own_cpu_and_time_goes_on() {
    let mut workload = Workload::default();
    start(&mut workload, 0, 0);
    start(&mut workload, 1, 5 * US);
    start(&mut workload, 0, 7 * US);
    let mut world = world((6, 18), slow_to_wake(2), workload);
    world.run_checked(MS, 1).unwrap();
    let marks = marks(&world);
    assert_eq!(marks, [(18 * US, 0), (18 * US, 0), (23 * US, 1)]);
}

#[test]
fn an_interrupt_waits_for_its_own_cpu_and_time_goes_on() {
    let mut workload = Workload::default();
    let semaphores: Vec<SemaphoreId> = (0..2).map(|_| workload.add_semaphore(0)).collect();
    for cpu in 0..2 {
        let semaphore = semaphores[cpu as usize];
        task(&mut workload, "t", cpu, |b| {
            b.sem_wait(semaphore);
            b.mark(cpu as u16);
        });
    }
    let arrival = |at_ns, cpu: u32| Arrival {
        at_ns,
        cpu: Cpu(cpu),
        context: ArrivalContext::HardIrq,
        sync: false,
        action: ArrivalAction::SemPost(semaphores[cpu as usize]),
    };
    let list = vec![arrival(MS, 0), arrival(MS + 5 * US, 1)];
    workload.add_arrivals("card", ArrivalSource::List(list));
    let mut world = world((6, 18), slow_to_wake(2), workload);
    world.run_checked(2 * MS, 1).unwrap();
    let expected = [(MS + 18 * US, 0), (MS + 23 * US, 1)];
    assert_eq!(marks(&world), expected);
}

#[test]
fn an_interrupt_meets_looked_at_kernel_work_as_it_meets_any() {
    let end = |looks: bool| {
        let mut workload = Workload::default();
        task(&mut workload, "t", 0, |b| {
            b.kernel_work(10 * MS);
            b.mark(0);
        });
        let mut world = free_world(1, workload);
        for at_ns in (0..20 * MS).step_by(300_000) {
            if looks {
                world.run_until(at_ns).unwrap();
            }
        }
        world.run_until(20 * MS).unwrap();
        (marks(&world), world.cpu_time(Cpu(0)), world.event_hash())
    };
    // Ticks at 4 and 8 ms wait until the work is over.
    assert_eq!(end(true), end(false));
    assert_eq!(end(true).0, [(10 * MS, 0)]);
}

/// Ten tasks on two CPUs that move one another about.
fn busy() -> World {
    let mut workload = Workload::default();
    let semaphore = workload.add_semaphore(3);
    for row in 0..10 {
        let own = program(&mut workload, |b| {
            let top = b.here();
            b.sem_wait(semaphore);
            b.kernel_work(2 * US);
            b.work((10 + row) * US);
            b.sem_post(semaphore);
            b.sleep(50 * US);
            b.jump(top);
        });
        workload.add_task(TaskSpec::new("t", own));
    }
    let machine = Machine::preset("client-4").unwrap();
    World::new(machine, rules(4), workload, 3).unwrap()
}

#[test]
fn nothing_that_can_be_asked_in_between_changes_a_run() {
    let mut whole = busy();
    whole.run_until(30 * MS).unwrap();
    let mut looked_at = busy();
    for at_ns in (0..30 * MS).step_by(77_777) {
        looked_at.run_until(at_ns).unwrap();
        looked_at.hardware_report();
        looked_at.package_joules();
        looked_at.unfinished();
        looked_at = looked_at.clone();
    }
    looked_at.run_until(30 * MS).unwrap();
    assert_eq!(whole.event_hash(), looked_at.event_hash());
    for cpu in (0..4).map(Cpu) {
        assert_eq!(whole.cpu_time(cpu), looked_at.cpu_time(cpu));
    }
    let run_ns = |world: &World| world.probes().of("t").unwrap().run_ns;
    assert_eq!(run_ns(&whole), run_ns(&looked_at));
    let mut checked = busy();
    checked.run_checked(30 * MS, 10).unwrap();
    assert_eq!(checked.event_hash(), whole.event_hash());
}
