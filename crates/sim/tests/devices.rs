//! I/O devices: order of service, who is interrupted, what waiting for them counts as.

mod common;

use common::*;
use schedcast_kernel::Cpu;
use schedcast_kernel::platform::Op;
use schedcast_sim::workload::{
    Arrival, ArrivalAction, ArrivalContext, ArrivalSource, DeviceSpec, Interrupts, QueueSpec,
    TaskSpec,
};
use schedcast_sim::{Reg, Workload, World};

const VALUE: Reg = Reg(0);

fn device(channels: u32, interrupts: Interrupts) -> DeviceSpec {
    DeviceSpec::new("disk", channels, interrupts)
}

/// Three tasks, each on a CPU of its own, submit 80 µs at 0, 30 and 60 µs and note when it is done.
fn three_requests(channels: u32) -> Vec<(u64, u16)> {
    let mut workload = Workload::default();
    let disk = workload.add_device(device(channels, Interrupts::Submitter));
    for row in 0..3u64 {
        let queue = workload.add_queue(QueueSpec::UNBOUNDED);
        task(&mut workload, "t", row as u32, |b| {
            b.work(1 + row * 30_000);
            b.set(VALUE, row);
            b.submit(disk, 80_000, queue, VALUE);
            b.recv_io(queue, VALUE);
            b.mark(row as u16);
        });
    }
    let world = free_world(3, workload).ran_until(MS);
    marks(&world)
}

#[test]
fn one_channel_serves_one_request_after_the_other() {
    assert_eq!(three_requests(1), [(80_001, 0), (160_001, 1), (240_001, 2)]);
}

#[test]
fn two_channels_serve_two_at_a_time() {
    assert_eq!(three_requests(2), [(80_001, 0), (110_001, 1), (160_001, 2)]);
}

#[test]
fn without_channels_any_number_is_served() {
    assert_eq!(three_requests(0), [(80_001, 0), (110_001, 1), (140_001, 2)]);
}

/// CPU that handles the interrupt of a request submitted on CPU 1, for which a task sleeps on
/// CPU 3.
fn interrupted_cpu(interrupts: Interrupts) -> Option<u32> {
    let mut workload = Workload::default();
    let disk = workload.add_device(device(1, interrupts));
    let queue = workload.add_queue(QueueSpec::UNBOUNDED);
    task(&mut workload, "client", 1, |b| {
        b.work(1000);
        b.submit(disk, 80_000, queue, VALUE);
    });
    task(&mut workload, "server", 3, |b| b.recv(queue, VALUE));
    interrupted_in(workload)
}

/// CPU that takes what arrives on CPU 0 for a task that sleeps on CPU 3.
fn arrives_on(context: ArrivalContext) -> Option<u32> {
    let mut workload = Workload::default();
    let queue = workload.add_queue(QueueSpec::UNBOUNDED);
    task(&mut workload, "server", 3, |b| b.recv(queue, VALUE));
    let action = ArrivalAction::Send {
        queue,
        bytes: 1,
        value: 7,
    };
    let arrival = Arrival {
        at_ns: 50_000,
        cpu: Cpu(0),
        context,
        sync: false,
        action,
    };
    workload.add_arrivals("timer", ArrivalSource::List(vec![arrival]));
    interrupted_in(workload)
}

/// The CPU that a device interrupts, if one does.
fn interrupted_in(workload: Workload) -> Option<u32> {
    let mut machine = free_machine(4);
    machine.cost_ns[Op::DeviceInterrupt as usize] = 777;
    let mut world = World::new(machine, rules(4), workload, 1).unwrap();
    world.run_until(MS).unwrap();
    (0..4).find(|&cpu| world.cpu_time(Cpu(cpu)).overhead_ns == 777)
}

#[test]
fn the_interrupt_comes_where_the_device_says() {
    assert_eq!(interrupted_cpu(Interrupts::Submitter), Some(1));
    assert_eq!(interrupted_cpu(Interrupts::Fixed(Cpu(2))), Some(2));
    assert_eq!(interrupted_cpu(Interrupts::Receiver), Some(3));
}

#[test]
fn a_timer_expires_where_its_task_went_to_sleep() {
    assert_eq!(arrives_on(ArrivalContext::HardIrq), Some(0));
    assert_eq!(arrives_on(ArrivalContext::OwnTimer), Some(3));
}

#[test]
fn a_run_does_not_wait_for_kernel_threads() {
    let mut workload = Workload::default();
    let queue = workload.add_queue(QueueSpec::UNBOUNDED);
    let worker = program(&mut workload, |b| {
        let top = b.here();
        b.recv(queue, VALUE);
        b.jump(top);
    });
    let mut spec = TaskSpec::new("kworker/0", worker);
    spec.address_space = None;
    workload.add_task(spec);
    task(&mut workload, "t", 0, |b| b.work(MS));
    let mut world = free_world(1, workload).ran_until(MS / 2);
    assert_eq!(world.live_tasks(), 1);
    world.run_until(3 * MS).unwrap();
    assert_eq!(world.live_tasks(), 0);
}

#[test]
fn requests_name_devices_that_exist() {
    let mut workload = Workload::default();
    let queue = workload.add_queue(QueueSpec::UNBOUNDED);
    let other = Workload::default().add_device(device(1, Interrupts::Submitter));
    task(&mut workload, "t", 0, |b| b.submit(other, 1, queue, VALUE));
    let error = workload.check(1).unwrap_err().to_string();
    assert!(error.contains("device 0 does not exist"), "{error}");
}
