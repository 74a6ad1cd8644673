//! From measurements to the constants of a machine description.
//!
//! Some constants cannot be measured alone: a round trip through futexes is two times two system calls, a switch,
//! a wakeup and the way of an entity onto its queue and off it. What is left when the measured parts are taken off is split in
//! the proportions of the preset `generic-8`; the source of such a figure says so.

use super::{Figure, IDLE_RESTS_NS, Measured};
use crate::measure::Spread;

/// A quantity at its 10 % quantile, its median and its 90 % quantile.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range([f64; 3]);

impl Range {
    fn of(spread: &Spread) -> Self {
        Self([spread.p10, spread.median, spread.p90])
    }

    /// Less what is known at its median.
    fn less(self, known_ns: f64) -> Self {
        Self(self.0.map(|ns| (ns - known_ns).max(0.0)))
    }

    fn times(self, factor: f64) -> Self {
        Self(self.0.map(|ns| ns * factor))
    }

    const fn median(self) -> f64 {
        self.0[1]
    }

    fn figure(self, key: &'static str, source: &'static str) -> Figure {
        let [low, value, high] = self.0.map(|ns| ns.round() as u64);
        Figure {
            key,
            value,
            spread: (low, high),
            source,
        }
    }
}

/// Parts of a wakeup besides the switch in `generic-8`: the wakeup itself, a level in, a level out.
const WAKEUP_PARTS: [f64; 3] = [500.0 / 900.0, 200.0 / 900.0, 200.0 / 900.0];
/// Parts of a tick there: interrupt, tick, one level, programming the next.
const TICK_PARTS: [f64; 4] = [
    700.0 / 1900.0,
    800.0 / 1900.0,
    150.0 / 1900.0,
    250.0 / 1900.0,
];

/// The constants that these measurements tell, in the order of a description.
pub fn figures(measured: &Measured) -> Vec<Figure> {
    let syscall = Range::of(&measured.syscall);
    let call_ns = syscall.median();
    let thread = Range::of(&measured.yield_switch).less(call_ns);
    let further_ns = (measured.process_trip.median - measured.pipe_trip.median).max(0.0) / 2.0;
    let process = Range(thread.0.map(|ns| ns + further_ns));
    let half_trip = Range::of(&measured.futex_trip).times(0.5);
    let wakeup = half_trip.less(2.0 * call_ns + thread.median());
    let mut figures = vec![
        process.figure(
            "cost.context_switch_ns",
            "that between threads, and half of what pipe round trips of processes take longer",
        ),
        thread.figure(
            "cost.context_switch_thread_ns",
            "sched_yield of two threads on one CPU, less a system call",
        ),
    ];
    let keys = [
        "cost.wakeup_ns",
        "cost.enqueue_level_ns",
        "cost.dequeue_level_ns",
    ];
    for (key, part) in keys.into_iter().zip(WAKEUP_PARTS) {
        figures.push(wakeup.times(part).figure(
            key,
            "half a futex round trip on one CPU less two system calls and a switch, split as in generic-8",
        ));
    }
    figures.push(syscall.figure("cost.syscall_ns", "getppid"));
    let fork = Range::of(&measured.fork_exit);
    let source = "fork + exit + wait of a small process, split as in generic-8";
    figures.push(fork.times(0.625).figure("cost.fork_ns", source));
    figures.push(fork.times(0.375).figure("cost.exit_ns", source));
    add_ticks(measured, &mut figures);
    add_remote(
        measured,
        call_ns,
        wakeup.median(),
        thread.median(),
        &mut figures,
    );
    add_cold_speed(measured, &mut figures);
    add_refills(measured, &mut figures);
    let pipe = Range::of(&measured.pipe_alone).times(0.5).less(call_ns);
    let source = "a byte through a pipe and back in one thread, less the system calls, half each";
    figures.push(pipe.figure("program_cost.pipe_write_ns", source));
    figures.push(pipe.figure("program_cost.pipe_read_ns", source));
    figures
}

fn add_ticks(measured: &Measured, figures: &mut Vec<Figure>) {
    let Some(tick) = &measured.tick else { return };
    let late = measured
        .lateness
        .as_ref()
        .map_or(0.0, |late| late.spread.median);
    let rest = Range::of(tick).less(late);
    let source = "what a tick takes from a spinning task less the median lateness of its handler, split as in generic-8";
    let keys = [
        "cost.timer_interrupt_ns",
        "cost.tick_ns",
        "cost.tick_level_ns",
        "cost.tick_reprogram_ns",
    ];
    for (key, part) in keys.into_iter().zip(TICK_PARTS) {
        figures.push(rest.times(part).figure(key, source));
    }
    let interrupt = Range(rest.times(TICK_PARTS[0]).0.map(|ns| ns + late));
    figures.push(interrupt.figure(
        "cost.device_interrupt_ns",
        "as the timer's with its median lateness; not measured",
    ));
}

fn add_remote(
    measured: &Measured,
    call_ns: f64,
    wakeup_ns: f64,
    switch_ns: f64,
    figures: &mut Vec<Figure>,
) {
    let (Some((call, idle)), Some((busy_call, busy))) = (&measured.idle_wake, &measured.busy_wake)
    else {
        return;
    };
    let [wakeup_ns, enqueue_ns, _] = WAKEUP_PARTS.map(|part| part * wakeup_ns);
    let send = Range::of(call).less(call_ns + wakeup_ns);
    figures.push(send.figure(
        "cost.ipi_send_ns",
        "a futex call that wakes a task on a CPU idle for 200 us, less call and wakeup",
    ));
    // The call as it was with that target.
    let way = Range::of(busy).less(busy_call.median + enqueue_ns + switch_ns);
    let source = "from that call's end to a wakee on a CPU kept busy, less its switch; 7 : 3";
    figures.push(way.times(0.3).figure("cost.ipi_receive_ns", source));
    figures.push(way.times(0.7).figure("latency.ipi_delivery_ns", source));
    let after_call = |(call, latency): (&Spread, &Spread)| latency.median - call.median;
    let exit_ns = after_call((call, idle)) - after_call((busy_call, busy));
    let exit = Range::of(idle).less((idle.median - exit_ns).max(0.0));
    figures.push(exit.figure(
        "latency.idle_exit_ns",
        "from call to wakee on a CPU idle for 200 us, less the same on a CPU kept busy",
    ));
    let busy_ns = after_call((busy_call, busy));
    for (key, exit) in IDLE_EXITS.into_iter().zip(&measured.idle_exits) {
        let source = "from the end of the call to the wakee, less the same on a CPU kept busy";
        figures.push(Range::of(exit).less(busy_ns).figure(key, source));
    }
}

/// Names of the ways out of idling, by how long a CPU idled.
const IDLE_EXITS: [&str; IDLE_RESTS_NS.len()] = [
    "idle.exit_after_20us_ns",
    "idle.exit_after_80us_ns",
    "idle.exit_after_200us_ns",
    "idle.exit_after_1ms_ns",
    "idle.exit_after_5ms_ns",
];

/// A task whose caches are cold works at the speed at which it refills them: a hot pass over its data by a cold one, of
/// the farthest move this machine has.
fn add_cold_speed(measured: &Measured, figures: &mut Vec<Figure>) {
    let farthest = measured.refills.iter().rev().flatten().next();
    let (Some(refill), Some(hot)) = (farthest, &measured.hot_pass) else {
        return;
    };
    let percent = |refill_ns: f64| 100.0 * hot.median / (hot.median + refill_ns);
    let slow_to_fast = [refill.p90, refill.median, refill.p10].map(percent);
    let source = "a hot pass over 256 KiB by the first one after a move";
    figures.push(
        Range(slow_to_fast.map(|part| part.clamp(1.0, 99.0)))
            .figure("migration.cold_speed_percent", source),
    );
}

fn add_refills(measured: &Measured, figures: &mut Vec<Figure>) {
    let keys = [
        "migration.same_core_refill_ns",
        "migration.same_llc_refill_ns",
        "migration.other_llc_refill_ns",
        "migration.other_node_refill_ns",
    ];
    // Distances that this machine does not have are never asked for; the nearest known stands in.
    let known = |row: usize| {
        let near = measured.refills[..=row].iter().rev().flatten().next();
        near.or_else(|| measured.refills.iter().flatten().next())
    };
    for (row, key) in keys.into_iter().enumerate() {
        let Some(refill) = known(row) else { return };
        let source = match measured.refills[row] {
            Some(_) => "first pass over 256 KiB after a move less a hot pass",
            None => "no two CPUs of this machine are so; as the nearest distance",
        };
        figures.push(Range::of(refill).figure(key, source));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(median: f64) -> Spread {
        Spread {
            count: 100,
            min: median * 0.8,
            p10: median * 0.9,
            median,
            p90: median * 1.2,
            max: median * 3.0,
        }
    }

    fn measured() -> Measured {
        Measured {
            syscall: spread(150.0),
            yield_switch: spread(1470.0),
            futex_trip: spread(5040.0),
            pipe_trip: spread(5400.0),
            process_trip: spread(5800.0),
            pipe_alone: spread(500.0),
            fork_exit: spread(80_000.0),
            idle_wake: Some((spread(3000.0), spread(13_000.0))),
            busy_wake: Some((spread(2500.0), spread(6020.0))),
            idle_exits: [9_520.0, 10_000.0, 11_000.0, 12_000.0, 20_000.0]
                .map(spread)
                .to_vec(),
            tick: Some(spread(2900.0)),
            lateness: None,
            refills: [None, Some(spread(12_000.0)), None, None],
            hot_pass: Some(spread(8_000.0)),
            smt: Vec::new(),
            clock_mhz: spread(3000.0),
            steal_ratio: 0.0,
        }
    }

    #[test]
    fn parts_add_up_to_what_was_measured() {
        let figures = figures(&measured());
        let value = |key: &str| {
            let found = figures.iter().find(|figure| figure.key == key);
            found.unwrap_or_else(|| panic!("no {key}")).value
        };
        assert_eq!(value("cost.context_switch_thread_ns"), 1320);
        // Processes: (5800 − 5400) / 2 more.
        assert_eq!(value("cost.context_switch_ns"), 1520);
        // 5040 / 2 − 300 − 1320 = 900 = 500 + 200 + 200.
        assert_eq!(value("cost.wakeup_ns"), 500);
        assert_eq!(value("cost.enqueue_level_ns"), 200);
        assert_eq!(value("cost.fork_ns") + value("cost.exit_ns"), 80_000);
        // 3000 − 150 − 500.
        assert_eq!(value("cost.ipi_send_ns"), 2350);
        // 6020 − 2500 − 200 − 1320 = 2000.
        assert_eq!(value("latency.ipi_delivery_ns"), 1400);
        assert_eq!(value("cost.ipi_receive_ns"), 600);
        // (13000 − 3000) − (6020 − 2500).
        assert_eq!(value("latency.idle_exit_ns"), 6480);
        let tick = ["timer_interrupt", "tick", "tick_level", "tick_reprogram"]
            .map(|part| value(&format!("cost.{part}_ns")));
        assert!(tick.iter().sum::<u64>().abs_diff(2900) <= 2, "{tick:?}");
        assert_eq!(value("program_cost.pipe_write_ns"), 100);
        // 9520 − (6020 − 2500), and the same of 20 000.
        assert_eq!(value("idle.exit_after_20us_ns"), 6000);
        assert_eq!(value("idle.exit_after_5ms_ns"), 16_480);
        // 8 of 20 µs.
        assert_eq!(value("migration.cold_speed_percent"), 40);
        // One distance stands for all.
        assert_eq!(value("migration.other_node_refill_ns"), 12_000);
        assert_eq!(value("migration.same_core_refill_ns"), 12_000);
    }

    #[test]
    fn spreads_follow_the_quantiles() {
        let figures = figures(&measured());
        let call = figures
            .iter()
            .find(|figure| figure.key == "cost.syscall_ns");
        assert_eq!(call.unwrap().spread, (135, 180));
    }

    #[test]
    fn a_machine_of_one_cpu_has_fewer_figures() {
        let mut measured = measured();
        (measured.idle_wake, measured.busy_wake) = (None, None);
        measured.refills = [None; 4];
        let figures = figures(&measured);
        assert!(figures.iter().all(|figure| !figure.key.contains("ipi")));
        assert!(figures.iter().all(|figure| !figure.key.contains("refill")));
    }
}
