//! Time of interrupts and of the hypervisor, by hand.

use super::world::*;

const CPU: Cpu = Cpu(0);

/// Ticks every millisecond that take `tick_ns`.
fn ticking(version: &str, accounting: bool, tick_ns: u64) -> World {
    let mut world = World::with(version, 8, |rules| rules.irq_time_accounting = accounting);
    world.bench.prices.push((Op::Tick, tick_ns));
    world
}

#[test]
fn ticks_are_no_runtime_where_they_are_counted() {
    // Ten ticks of 2 us from 1 to 10 ms; the one at 10 ms has taken its time when the clock is read
    // and is not known to be over.
    for (accounting, expected) in [
        (false, 10 * MS + 2 * US),
        (true, 10 * MS + 2 * US - 20 * US),
    ] {
        let mut world = ticking("6.18", accounting, 2 * US);
        let task = world.spawn(CPU);
        world.advance_to(10 * MS + 2 * US);
        world.call(CPU, |kernel, bench| kernel.yield_current(bench, CPU));
        world.advance_to(10 * MS + 50 * US);
        let expected = expected + 48 * US;
        let found = world.runtime(task) - world.kernel.rqs[0].nontask_ns;
        assert_eq!(found, expected, "{accounting}");
    }
}

#[test]
fn a_request_of_whole_ticks_takes_one_more_where_ticks_are_no_runtime() {
    // Requests of 3 ms and, from 6.15 on, of 2.8: after three ticks the task has run 3 ms less two
    // or three of their interrupts. The first request is half as long.
    for (version, accounting, turn) in [
        ("6.14", false, 3),
        ("6.14", true, 4),
        ("6.15", false, 3),
        ("6.15", true, 3),
    ] {
        let mut world = ticking(version, accounting, 2 * US);
        world.spawn(CPU);
        world.spawn(CPU);
        world.advance_to(60 * MS);
        let at: Vec<_> = world.switches(CPU).iter().map(|(at, _)| *at).collect();
        // The two have run equally long after the third turn.
        let turns: Vec<_> = at[4..].windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(
            turns.len() > 8 && turns.iter().all(|ns| *ns == turn * MS),
            "{version}, {accounting}: {turns:?}"
        );
    }
}

#[test]
fn stolen_time_beyond_an_advance_of_the_clock_stays_until_6_13() {
    for (version, second_ms) in
        releases([("5.10.234 6.13.2", 500 * US), ("5.10.235 6.13.3 6.14", MS)])
    {
        let mut world = World::new(version, 1);
        let task = world.spawn(CPU);
        world.kernel.steal(CPU, 1500 * US);
        world.advance_to(MS);
        assert_eq!(world.runtime(task), 0, "{version}");
        world.advance_to(2 * MS);
        assert_eq!(world.runtime(task), second_ms, "{version}");
    }
}

#[test]
fn stolen_time_is_dropped_by_an_update_at_the_same_instant() {
    for (version, runtime_ns) in [("6.13", 0), ("6.14", MS)] {
        let mut world = World::new(version, 1);
        let task = world.spawn(CPU);
        world.kernel.steal(CPU, MS);
        world.call(CPU, |kernel, bench| kernel.update_rq_clock(bench, CPU));
        world.advance_to(MS);
        assert_eq!(world.runtime(task), runtime_ns, "{version}");
    }
}

#[test]
fn its_average_ages_with_the_others_where_there_was_none() {
    let mut world = World::new("6.18", 2);
    world.spawn(CPU);
    world.advance_to(100 * MS);
    let last = world.kernel.rqs[0].avg_irq.last_update_time;
    assert!(last > 50 * MS, "{last}");
    assert_eq!(world.kernel.rqs[0].avg_irq.util_sum, 0);
}

#[test]
fn such_time_reduces_the_capacity_of_a_cpu() {
    // A tenth of every millisecond: the average swings around 102 of 1024, a tick after the last of
    // it.
    let mut world = ticking("6.18", true, 100 * US);
    world.spawn(CPU);
    world.advance_to(1000 * MS + 200 * US);
    assert_in!(world.kernel.rqs[0].avg_irq.util_avg, 95..=112);
    assert_in!(world.kernel.rqs[0].cpu_capacity, 1024 - 115..=1024 - 92);
    let mut without = ticking("6.18", true, 100 * US);
    without.kernel.rules.features.nontask_capacity = false;
    without.spawn(CPU);
    without.advance_to(1000 * MS);
    assert_eq!(without.kernel.rqs[0].cpu_capacity, 1024);
}
