//! Contended cache lines.

use schedcast_base::assert_in;
use schedcast_kernel::Cpu;
use schedcast_sim::{Workload, World};

use super::common::{MS, Ran, US, task, world};
use super::machine;

fn lines(transfer_ns: u64) -> String {
    format!(
        "[lines]\nsame_core_transfer_ns = {transfer_ns}\nsame_llc_transfer_ns = {transfer_ns}\n\
         other_llc_transfer_ns = {transfer_ns}\nother_node_transfer_ns = {transfer_ns}\n\
         read_service_percent = 100\ntg_load_avg = true\nrq_lock = false\nllc_idle_hints = false\n"
    )
}

/// `tasks` tasks of one group, each of which moves between two CPUs of its own as often as it can,
/// for 200 ms.
fn contended(tasks: usize, parts: &str) -> World {
    use schedcast_sim::workload::{AttributesSpec, GroupSpec, MetricId};
    let mut workload = Workload::default();
    let group = workload.add_group(GroupSpec::new("/g", schedcast_kernel::GroupId::ROOT));
    for row in 0..tasks as u32 {
        let place = |workload: &mut Workload, cpu| {
            workload.add_attributes(AttributesSpec {
                affinity: Some(schedcast_kernel::cpuset::CpuSet::of(Cpu(cpu))),
                ..AttributesSpec::default()
            })
        };
        let there = place(&mut workload, 2 * row + 1);
        let back = place(&mut workload, 2 * row);
        task(&mut workload, "t", 2 * row, |b| {
            let top = b.here();
            b.work(5 * US);
            b.set_attributes(there);
            b.work(5 * US);
            b.set_attributes(back);
            b.count(MetricId(0), 1);
            b.jump(top);
        });
        workload.tasks[row as usize].group = group;
    }
    workload.add_metric("rounds");
    let mut world =
        world((6, 5), machine([1, 1, 2 * tasks, 1], parts), workload).ran_until(50 * MS);
    world.reset_statistics();
    world.run_until(250 * MS).unwrap();
    world
}

#[test]
fn a_saturated_line_serves_one_cpu_after_the_other() {
    use schedcast_kernel::platform::Access;
    use schedcast_sim::hardware::LineKind;
    let transfer_ns = 2_000;
    let measure = |cpus| {
        let world = contended(cpus, &lines(transfer_ns));
        let of = |access| world.line_statistics(LineKind::TgLoadAvg, access).unwrap();
        let (reads, writes) = (of(Access::Read), of(Access::Write));
        let transfers = reads.transfers + writes.transfers;
        let per_s = transfers as f64 * 5.0;
        let wait_ns = (reads.waited_ns + writes.waited_ns) as f64 / transfers as f64;
        (per_s, wait_ns, world.probes().metrics[0].count as f64 * 5.0)
    };
    let (one, eight, sixteen) = (measure(1), measure(8), measure(16));
    // 2 us a transfer: 500,000 per second is all there is.
    for saturated in [eight, sixteen] {
        assert_in!(saturated.0, 495_000.0..=500_000.0, "{saturated:?}");
    }
    assert!(one.0 < 300_000.0, "{one:?}");
    // Twice the CPUs get no more done; each waits for all others: 7 and 15 transfers, less what it
    // does meanwhile.
    assert_in!(sixteen.2 / eight.2, 0.9..1.1);
    let longer = sixteen.1 - eight.1;
    assert_in!(longer / (8.0 * transfer_ns as f64), 0.9..1.1);
    let free = contended(16, "");
    assert!(free.probes().metrics[0].count as f64 * 5.0 > 4.0 * sixteen.2);
}

#[test]
fn waiting_for_lines_is_overhead_and_time_is_conserved() {
    let world = contended(8, &lines(2_000));
    let mut all = 0;
    for cpu in 0..16 {
        let time = world.cpu_time(Cpu(cpu));
        all += time.user_ns + time.overhead_ns + time.idle_ns;
    }
    // To the cursors: CPUs in the middle of an operation may be ahead or behind by one.
    let expected = 16 * 200 * MS;
    assert!(all.abs_diff(expected) < 16 * 100 * US, "{all} {expected}");
    let time = world.cpu_time(Cpu(3));
    assert!(time.overhead_ns > 10 * time.user_ns, "{time:?}");
}

#[test]
fn contention_is_deterministic_and_copies_in_mid_operation_go_the_same_way() {
    let run = || contended(8, &lines(700));
    let (mut first, second) = (run(), run());
    assert_eq!(first.event_hash(), second.event_hash());
    for step in 1..50 {
        let mut copy = first.clone();
        let until = 250 * MS + step * 333;
        copy.run_until(until + 10_000).unwrap();
        first.run_until(until).unwrap();
        let mut again = first.clone();
        again.run_until(until + 10_000).unwrap();
        assert_eq!(copy.event_hash(), again.event_hash());
    }
}
