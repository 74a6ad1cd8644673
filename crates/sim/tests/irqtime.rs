//! Interrupts of a kernel with CONFIG_IRQ_TIME_ACCOUNTING are no task's runtime.

mod common;

use common::{MS, US, free_machine, rules, task};
use schedcast_kernel::platform::Op;
use schedcast_kernel::{Cpu, GroupId, Ns};
use schedcast_sim::workload::{DeviceSpec, Interrupts, QueueSpec};
use schedcast_sim::{Reg, Workload, World};

const VALUE: Reg = Reg(0);

/// Time charged to the root group in 101 ms, of which a task on CPU 0 computed all it could, and
/// the rest of CPU 0's busy time, ns.
fn usage(accounting: bool) -> (Ns, Ns) {
    let mut workload = Workload::default();
    let disk = workload.add_device(DeviceSpec::new("disk", 0, Interrupts::Fixed(Cpu(0))));
    let queue = workload.add_queue(QueueSpec::UNBOUNDED);
    task(&mut workload, "t", 0, |b| {
        b.work(1000);
        b.submit(disk, 50 * MS, queue, VALUE);
        b.work(200 * MS);
    });
    let mut machine = free_machine(1);
    machine.cost_ns[Op::TimerInterrupt as usize] = 10_000;
    machine.cost_ns[Op::Tick as usize] = 5_000;
    machine.cost_ns[Op::DeviceInterrupt as usize] = 40_000;
    let mut rules = rules(1);
    rules.irq_time_accounting = accounting;
    let mut world = World::new(machine, rules, workload, 1).unwrap();
    world.run_until(101 * MS).unwrap();
    let overhead_ns = world.cpu_time(Cpu(0)).overhead_ns;
    (world.kernel().group_usage_ns(GroupId::ROOT), overhead_ns)
}

#[test]
fn timer_and_device_interrupts_are_taken_off() {
    // 25 ticks of 15 us at 250 Hz, and one completion of 40.
    let expected_overhead = 25 * 15 * US + 40 * US;
    let (charged, overhead) = usage(false);
    assert_eq!(overhead, expected_overhead);
    let (less, overhead) = usage(true);
    assert_eq!(overhead, expected_overhead);
    // The last tick is known to be over when the next one looks.
    assert_eq!(charged - less, expected_overhead - 15 * US);
}
