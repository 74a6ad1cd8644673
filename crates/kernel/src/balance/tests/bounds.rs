//! Comparisons at their bounds: one more on either side decides otherwise.

use crate::balance::busiest::{Candidate, DomainStats};
use crate::balance::{CpuIdle, Env, GroupStats, GroupType};
use crate::tests::world::*;

#[test]
fn an_overloaded_group_must_be_busier_by_the_percentage_of_the_domain() {
    // Two caches of two CPUs: their domain has 117 %. The local group has 1000 a CPU; both have
    // 100000 on a capacity of 80000 together, 1280 a CPU, so the average does not decide.
    let world = World::on(Topology::regular(1, 2, 2, 1), "6.12", |_| {});
    let domains = &world.kernel.domains;
    let row = domains.rows(Cpu(0)).last().unwrap();
    let pct = u64::from(domains.domain(row).imbalance_pct);
    assert_eq!(pct, 117);
    let env = Env::new(
        row,
        Cpu(0),
        CpuIdle::NotIdle,
        CpuSet::first(4),
        CpuSet::first(2),
    );
    let candidate = |place: u32, avg_load| Candidate {
        group: domains.group_row(row, place),
        stats: GroupStats {
            avg_load,
            group_type: GroupType::Overloaded,
            ..GroupStats::default()
        },
    };
    // 100 · 1170 = 117 · 1000 is not busier; 1171 is.
    for (busy, is_out) in [(1000, false), (1160, false), (1170, false), (1171, true)] {
        let busiest = candidate(1, busy);
        let mut stats = DomainStats {
            local: candidate(0, 1000),
            busiest: Some(busiest),
            total_load: 100_000,
            total_capacity: 80_000,
            ..DomainStats::default()
        };
        let found = world.kernel.is_out_of_balance(&env, &mut stats, &busiest);
        assert_eq!(found, is_out, "{busy}");
        assert_eq!(stats.avg_load, if busy > 1000 { 1280 } else { 0 });
    }
    // A local group at the average of the domain pulls nothing, however busy the other one is.
    for (total_load, is_out) in [(78_125, false), (78_204, true)] {
        // 78125 · 1024 / 80000 = 1000, 78204 · 1024 / 80000 = 1001.
        let busiest = candidate(1, 9000);
        let mut stats = DomainStats {
            local: candidate(0, 1000),
            busiest: Some(busiest),
            total_load,
            total_capacity: 80_000,
            ..DomainStats::default()
        };
        let found = world.kernel.is_out_of_balance(&env, &mut stats, &busiest);
        assert_eq!(found, is_out, "{total_load}");
    }
}

#[test]
fn a_cpu_that_stops_its_tick_asks_for_the_next_time_of_balancing_to_be_updated() {
    // `nohz.needs_update` (5.15): set when a CPU joins the tickless ones, and only then.
    let mut world = World::new("6.12", 2);
    assert!(!world.kernel.domains.nohz_needs_update);
    let task = world.spawn(Cpu(1));
    world.advance(3 * MS);
    assert!(
        !world.kernel.rqs[1].nohz_tick_stopped,
        "a busy tick ended it"
    );
    world.kernel.domains.nohz_needs_update = false;
    world.call(Cpu(1), |kernel, bench| {
        kernel.nohz_balance_enter_idle(bench, Cpu(1));
    });
    assert!(world.kernel.rqs[1].nohz_tick_stopped);
    assert!(world.kernel.nohz.idle_cpus.contains(Cpu(1)));
    assert!(world.kernel.domains.nohz_needs_update);
    // A second time changes nothing: it is among them already.
    world.kernel.domains.nohz_needs_update = false;
    world.call(Cpu(1), |kernel, bench| {
        kernel.nohz_balance_enter_idle(bench, Cpu(1));
    });
    assert!(!world.kernel.domains.nohz_needs_update);
    assert!(world.runtime(task) >= 3 * MS);
}

#[test]
fn the_average_idle_time_that_searches_age_is_half_of_the_average() {
    // A CPU that idled for long has the most that counts, twice the largest cost of balancing: 2 ·
    // 500 µs.
    let mut world = World::with("5.14", 2, |rules| rules.placement.sis_prop_ages = true);
    let task = world.spawn(Cpu(1));
    world.advance(3 * MS);
    world.block(Cpu(1));
    world.advance(100 * MS);
    world.wake(Cpu(1), task);
    let rq = &world.kernel.rqs[1];
    assert_eq!((rq.avg_idle, rq.wake_avg_idle), (1_000_000, 500_000));
    assert_eq!(rq.wake_stamp_jiffy, 103);
}
