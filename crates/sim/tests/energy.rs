//! A board with an energy model: clocks with tables of frequencies, and where tasks go. Times are
//! computed by hand.

mod common;

use common::{MS, Mark, Ran, US, marks, task, world};
use schedcast_base::rows;
use schedcast_kernel::Cpu;
use schedcast_sim::{Machine, Workload, machine};

fn board() -> Machine {
    Machine::preset("hikey960").unwrap().free_of_charge()
}

fn text() -> String {
    let mut presets = machine::PRESETS.iter();
    let preset = presets.find(|(name, _)| *name == "hikey960").unwrap();
    preset.1.to_owned()
}

fn with(changes: &[(&str, &str)]) -> Result<Machine, String> {
    let mut text = text();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    Machine::parse("m", &text).map_err(|error| error.message)
}

#[test]
fn work_is_meant_at_the_highest_clock_of_a_table() {
    for (governor, little_us, big_us) in [
        // In whole microseconds: 462 of 1024, and all of it.
        ("performance", 2216, 1000),
        // At 533 of 1844 MHz, and at 903 of 2362.
        ("powersave", 7668, 2615),
    ] {
        let governor = format!("governor = \"{governor}\"");
        let machine = with(&[("governor = \"schedutil\"", &governor)]).unwrap();
        let mut workload = Workload::default();
        for (channel, cpu) in [(0, 0), (1, 4)] {
            task(&mut workload, "t", cpu, |b| {
                b.work(MS);
                b.mark(channel);
            });
        }
        let world = world((6, 18), machine.free_of_charge(), workload).ran_until(50 * MS);
        let ends = marks(&world);
        let end = |channel: u16| {
            let mark = ends.iter().find(|(_, found)| *found == channel);
            mark.unwrap().0 / US
        };
        assert_eq!((end(0), end(1)), (little_us, big_us), "{governor}");
    }
}

#[test]
fn schedutil_raises_the_clock_of_the_busy_cluster_only() {
    let mut workload = Workload::default();
    task(&mut workload, "hog", 5, |b| b.work(1000 * MS));
    let world = world((6, 12), board(), workload).ran_until(500 * MS);
    let state = |cpu| world.kernel().requested_pstate(Cpu(cpu));
    assert_eq!([0, 4, 7].map(state), [Some(0), Some(4), Some(4)]);
}

#[test]
fn small_periodic_tasks_end_up_on_little_cpus_unless_it_is_switched_off() {
    // Each works for 0.2 ms at the highest clock of a big CPU every 10 ms.
    let utilization = |aware: bool| {
        let mut workload = Workload::default();
        let program = common::program(&mut workload, |b| {
            for _ in 0..100 {
                b.work(MS / 5);
                b.sleep(10 * MS);
            }
        });
        for cpu in 4..8 {
            let mut spec = common::pinned("periodic", program, cpu);
            spec.affinity = None;
            workload.add_task(spec);
        }
        let machine = board();
        let mut rules = schedcast_kernel::rules::Rules::of(
            schedcast_kernel::rules::Version::new(6, 12),
            8,
            250,
        );
        rules.energy.aware = aware;
        let mut world = schedcast_sim::World::new(machine, rules, workload, 1).unwrap();
        world.run_until(1000 * MS).unwrap();
        let kernel = world.kernel();
        let busy = |cpu: u32| kernel.root_cfs_rq(Cpu(cpu)).avg.util_avg;
        let of = |cpus: std::ops::Range<u32>| cpus.map(busy).sum::<u64>();
        (of(0..4), of(4..8))
    };
    let (little, big) = utilization(true);
    assert!(little > 0 && big == 0, "{little} {big}");
    let (_, big) = utilization(false);
    assert!(big > 0);
}

#[test]
fn tables_that_do_not_fit_the_machine_are_refused() {
    for case in rows::lines(include_str!("energy.txt")) {
        let [from, to, expected] = rows::cells(case);
        assert_eq!(
            with(&[(from, &to.replace("\\n", "\n"))]).unwrap_err(),
            expected
        );
    }
    let swapped = with(&[
        ("\"0-3\"", "\"x\""),
        ("\"4-7\"", "\"0-3\""),
        ("\"x\"", "\"4-7\""),
    ]);
    assert_eq!(
        swapped.unwrap_err(),
        "frequency.table: the tables must be in the order of their first CPUs"
    );
}
