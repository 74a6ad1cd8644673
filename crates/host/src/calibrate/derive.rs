//! From measurements to the constants of a machine description.
//!
//! Some constants cannot be measured alone. A wakeup that preempts is a way into a call, the wakeup
//! until the clock of the run queue is read, an entity's way onto its queue, the wakeup's end, a
//! switch and a way out of a call; the sleep after it the same with the way off the queue. Each of
//! the four parts is what is left of its time when the parts known by then are taken off. A tick is
//! split in the proportions of the preset `generic-8`; the source of such a figure says so.

use super::{CalibrationRun, Figure, IDLE_RESTS_NS};
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

/// Parts of a tick there: interrupt, tick, one level.
const TICK_PARTS: [f64; 3] = [700.0 / 1650.0, 800.0 / 1650.0, 150.0 / 1650.0];

/// The constants that these measurements tell, in the order of a description.
pub fn figures(measured: &CalibrationRun) -> Vec<Figure> {
    let syscall = Range::of(&measured.syscall);
    let call_ns = syscall.median();
    let thread = Range::of(&measured.yield_switch).less(call_ns);
    let further_ns = (measured.process_trip.median - measured.pipe_trip.median).max(0.0) / 2.0;
    let process = Range(thread.0.map(|ns| ns + further_ns));
    let wake = Wake::of(measured, call_ns, thread.median());
    let mut figures = vec![
        process.figure(
            "cost.context_switch_ns",
            "cost.context_switch_thread_ns plus half of the time that a pipe round trip of two processes takes longer",
        ),
        thread.figure(
            "cost.context_switch_thread_ns",
            "time of sched_yield with two threads on one CPU, minus a system call",
        ),
    ];
    let (few, many) = &measured.ring_hops;
    figures.push(Range::of(many).less(few.median).figure(
        "cost.tlb_refill_ns",
        "time per hop of a token that 16 processes on one CPU pass around, minus the same with 4 processes",
    ));
    wake.add_to(&mut figures);
    figures.push(syscall.figure(
        "cost.syscall_ns",
        "time of getppid, which does nothing else",
    ));
    figures.push(wake.exit.figure(
        "cost.syscall_exit_ns",
        "share of a clock_gettime system call that comes after its reading of the clock, times cost.syscall_ns",
    ));
    let fork = Range::of(&measured.fork_exit);
    let source =
        "time of fork, exit and wait of a small process, divided in the proportion of generic-8";
    figures.push(fork.times(0.625).figure("cost.fork_ns", source));
    figures.push(fork.times(0.375).figure("cost.exit_ns", source));
    add_ticks(measured, &mut figures);
    add_remote(measured, call_ns, &wake, thread.median(), &mut figures);
    add_cold_speed(measured, &mut figures);
    add_refills(measured, &mut figures);
    add_messages(measured, call_ns, &mut figures);
    figures
}

/// Calls for pipes and sockets, a byte each.
fn add_messages(measured: &CalibrationRun, call_ns: f64, figures: &mut Vec<Figure>) {
    let messages = &measured.messages;
    let mut both = |keys: [&'static str; 2], each: Range, source| {
        figures.extend(keys.map(|key| each.figure(key, source)));
    };
    both(
        ["program_cost.pipe_write_ns", "program_cost.pipe_read_ns"],
        Range::of(&messages.pipe).times(0.5).less(call_ns),
        "time to write and read 16 bytes through a pipe in a process with one thread, minus the system calls; half for each",
    );
    both(
        [
            "program_cost.pipe_write_empty_ns",
            "program_cost.pipe_read_last_ns",
        ],
        Range::of(&messages.pipe_one)
            .less(messages.pipe.median)
            .times(0.5),
        "time that a write into an empty pipe and the read that empties it take longer; half for each",
    );
    both(
        ["program_cost.unix_send_ns", "program_cost.unix_receive_ns"],
        Range::of(&messages.unix).times(0.5).less(call_ns),
        "time to send and receive 16 bytes through stream sockets, minus the system calls; half for each",
    );
    let threads = Range::of(&measured.pipe_alone).less(messages.pipe_one.median);
    figures.push(threads.times(0.5).figure(
        "program_cost.shared_files_ns",
        "time that a byte through a pipe takes longer in a process with several threads; half for each",
    ));
    add_far(measured, figures);
    let Some([pipes, sockets]) = &messages.shared else {
        return;
    };
    let rows = [
        (
            "program_cost.pipe_write_contended_ns",
            &pipes.contended_write,
            &pipes.alone.0,
            "time of a write while two CPUs write to the same 8 pipes, minus that of one CPU alone",
        ),
        (
            "program_cost.pipe_read_remote_ns",
            &pipes.remote_read,
            &pipes.alone.1,
            "time to read bytes that another CPU wrote, minus that of bytes the same CPU wrote",
        ),
        (
            "program_cost.unix_send_contended_ns",
            &sockets.contended_write,
            &sockets.alone.0,
            "time of a send while two CPUs send to the same sockets, minus that of one CPU alone",
        ),
        (
            "program_cost.unix_receive_remote_ns",
            &sockets.remote_read,
            &sockets.alone.1,
            "time to receive bytes that another CPU sent, minus that of bytes the same CPU sent",
        ),
    ];
    for (key, shared, alone, source) in rows {
        figures.push(Range::of(shared).less(alone.median).figure(key, source));
    }
}

/// Sockets whose waiting messages are more than a CPU's own caches keep.
fn add_far(measured: &CalibrationRun, figures: &mut Vec<Figure>) {
    let Some(far) = &measured.messages.far else {
        return;
    };
    let beyond_kib = far.waiting_kib.saturating_sub(far.cache_kib);
    if beyond_kib == 0 {
        return;
    }
    let scale = far.waiting_kib as f64 / beyond_kib as f64;
    let sides = [
        ("program_cost.unix_send_far_ns", &far.far.0, &far.near.0),
        ("program_cost.unix_receive_far_ns", &far.far.1, &far.near.1),
    ];
    for (key, many, few) in sides {
        let more = Range::of(many).less(few.median).times(scale);
        let source = "time of a call while 8000 messages wait in sockets, minus that with 200, scaled to the messages beyond the second level cache";
        figures.push(more.figure(key, source));
    }
    figures.push(Range([far.cache_kib as f64; 3]).figure(
        "program_cost.message_cache_kib",
        "size of the second level cache in sysfs",
    ));
}

/// Parts of a wakeup on one CPU.
struct Wake {
    exit: Range,
    wakeup: Range,
    end: Range,
    level: Range,
    block: Range,
}

impl Wake {
    fn of(measured: &CalibrationRun, call_ns: f64, switch_ns: f64) -> Self {
        let (entry, exit) = &measured.call_halves;
        // The call that reads the clock takes longer than the bare one; both have the same way out
        // in proportion.
        let exit = Range::of(exit).times(call_ns / (entry.median + exit.median).max(1.0));
        let (exit_ns, entry_ns) = (exit.median(), call_ns - exit.median());
        let points = &measured.clock_points;
        // Between the reading of the clock in user mode and the call, or back, is half of what
        // reading it takes.
        let read_ns = measured.clock_read.median / 2.0;
        let level = Range::of(&points.waker).less(switch_ns + exit_ns + read_ns);
        Self {
            exit,
            wakeup: Range::of(&points.wake).less(entry_ns + read_ns),
            end: Range::of(&points.wakee).less(level.median() + switch_ns + exit_ns + read_ns),
            level,
            block: Range::of(&points.block).less(entry_ns + read_ns),
        }
    }

    fn add_to(&self, figures: &mut Vec<Figure>) {
        for (range, key, source) in [
            (
                self.wakeup,
                "cost.wakeup_ns",
                "time from a waking futex call to the reading of the run queue's clock, minus the entry of a system call",
            ),
            (
                self.end,
                "cost.wakeup_end_ns",
                "time from that clock to the woken task, which preempts, minus an enqueue level, a switch and the exit of a system call",
            ),
            (
                self.block,
                "cost.block_ns",
                "time from a sleeping futex call to the reading of the run queue's clock, minus the entry of a system call",
            ),
            (
                self.level,
                "cost.enqueue_level_ns",
                "taken to be equal to cost.dequeue_level_ns",
            ),
            (
                self.level,
                "cost.dequeue_level_ns",
                "time from that clock to the next task, minus a switch and the exit of a system call",
            ),
        ] {
            figures.push(range.figure(key, source));
        }
    }
}

/// The price of a deadline, which it returns, and of stopping or restarting a tick, which is no
/// more than that.
fn add_deadline_write(measured: &CalibrationRun, figures: &mut Vec<Figure>) -> f64 {
    let (near, far) = &measured.arming;
    let write = Range::of(near).less(far.median).times(0.5);
    figures.push(write.figure(
        "cost.deadline_write_ns",
        "half of the time that arming and disarming the first timer of a CPU takes longer than a later one",
    ));
    figures.push(write.figure(
        "cost.tick_reprogram_ns",
        "taken to be equal to cost.deadline_write_ns",
    ));
    write.median()
}

fn add_ticks(measured: &CalibrationRun, figures: &mut Vec<Figure>) {
    let write_ns = add_deadline_write(measured, figures);
    let Some(tick) = &measured.tick else { return };
    let late = measured
        .lateness
        .as_ref()
        .map_or(0.0, |late| late.spread.median);
    let rest = Range::of(tick).less(late + write_ns);
    let source = "time that a tick takes from a spinning task, minus its handler's median lateness and cost.deadline_write_ns, divided in the proportion of generic-8";
    let keys = [
        "cost.timer_interrupt_ns",
        "cost.tick_ns",
        "cost.tick_level_ns",
    ];
    for (key, part) in keys.into_iter().zip(TICK_PARTS) {
        figures.push(rest.times(part).figure(key, source));
    }
    let interrupt = Range(rest.times(TICK_PARTS[0]).0.map(|ns| ns + late));
    figures.push(interrupt.figure(
        "cost.device_interrupt_ns",
        "not measured: cost.timer_interrupt_ns plus the median lateness of timers",
    ));
}

fn add_remote(
    measured: &CalibrationRun,
    call_ns: f64,
    wake: &Wake,
    switch_ns: f64,
    figures: &mut Vec<Figure>,
) {
    let (Some((call, idle)), Some((busy_call, busy))) = (&measured.idle_wake, &measured.busy_wake)
    else {
        return;
    };
    let wakee_ns = wake.level.median() + wake.end.median() + switch_ns + wake.exit.median();
    let send = Range::of(call).less(call_ns + wake.wakeup.median());
    figures.push(send.figure(
        "cost.ipi_send_ns",
        "time of a futex call that wakes a task on a CPU idle for 200 us, minus cost.syscall_ns and cost.wakeup_ns",
    ));
    // The call as it was with that target.
    let way = Range::of(busy).less(busy_call.median + wakee_ns);
    let receive = way.times(0.3);
    let source = "time from the end of that call to the woken task on a CPU kept busy, minus the costs on that CPU; 7 parts delivery, 3 parts receipt";
    figures.push(receive.figure("cost.ipi_receive_ns", source));
    figures.push(way.times(0.7).figure("latency.ipi_delivery_ns", source));
    add_stall(measured, receive.median(), figures);
    let after_call = |(call, latency): (&Spread, &Spread)| latency.median - call.median;
    let exit_ns = after_call((call, idle)) - after_call((busy_call, busy));
    let exit = Range::of(idle).less((idle.median - exit_ns).max(0.0));
    figures.push(exit.figure(
        "latency.idle_exit_ns",
        "time from the call to the woken task on a CPU idle for 200 us, minus the same on a CPU kept busy",
    ));
    let exits = exits_less_busy(&measured.idle_exits, busy_call, busy);
    for (key, exit) in IDLE_EXITS.into_iter().zip(exits) {
        let source =
            "time from the end of the call to the woken task, minus the same on a CPU kept busy";
        figures.push(exit.figure(key, source));
    }
}

/// From the end of a waking call to the wakee, less the same on a CPU kept busy.
fn exits_less_busy(exits: &[Spread], busy_call: &Spread, busy: &Spread) -> Vec<Range> {
    let busy_ns = busy.median - busy_call.median;
    exits
        .iter()
        .map(|exit| Range::of(exit).less(busy_ns))
        .collect()
}

/// Time that an interrupt from another CPU takes from a task beyond its handler.
fn add_stall(measured: &CalibrationRun, receive_ns: f64, figures: &mut Vec<Figure>) {
    let Some((called, quiet)) = &measured.stalls else {
        return;
    };
    let stall = Range::of(called).less(quiet.median + receive_ns);
    figures.push(stall.figure(
        "latency.ipi_stall_ns",
        "time that membarrier takes from a task that spins on another CPU, minus its losses without membarrier and cost.ipi_receive_ns",
    ));
}

/// Names of the ways out of idling, by how long a CPU idled.
const IDLE_EXITS: [&str; IDLE_RESTS_NS.len()] = [
    "idle.exit_after_20us_ns",
    "idle.exit_after_80us_ns",
    "idle.exit_after_200us_ns",
    "idle.exit_after_1ms_ns",
    "idle.exit_after_5ms_ns",
    "idle.exit_after_20ms_ns",
    "idle.exit_after_80ms_ns",
];

/// A task whose caches are cold works at the speed at which it refills them: a hot pass over its
/// data by a cold one, of the farthest move this machine has.
fn add_cold_speed(measured: &CalibrationRun, figures: &mut Vec<Figure>) {
    let farthest = measured.refills.iter().rev().flatten().next();
    let (Some(refill), Some(hot)) = (farthest, &measured.hot_pass) else {
        return;
    };
    let percent = |refill_ns: f64| 100.0 * hot.median / (hot.median + refill_ns);
    let slow_to_fast = [refill.p90, refill.median, refill.p10].map(percent);
    let source = "time of a pass over 256 KiB with hot caches, divided by that of the first pass after a migration";
    figures.push(
        Range(slow_to_fast.map(|part| part.clamp(1.0, 99.0)))
            .figure("migration.cold_speed_percent", source),
    );
}

fn add_refills(measured: &CalibrationRun, figures: &mut Vec<Figure>) {
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
            Some(_) => {
                "time of the first pass over 256 KiB after a migration, minus that of a pass with hot caches"
            }
            None => {
                "this machine has no two CPUs at this distance; taken from the nearest distance it has"
            }
        };
        figures.push(Range::of(refill).figure(key, source));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::example::{example, spread};
    use crate::calibrate::{Far, Messages, Shared};

    fn messages() -> Messages {
        let shared = Shared {
            alone: (spread(250.0), spread(240.0)),
            remote_read: spread(260.0),
            contended_write: spread(300.0),
        };
        Messages {
            pipe: spread(440.0),
            pipe_one: spread(520.0),
            unix: spread(1300.0),
            far: Some(Far {
                near: (spread(700.0), spread(700.0)),
                far: (spread(775.0), spread(850.0)),
                cache_kib: 1024,
                waiting_kib: 4096,
            }),
            shared: Some([shared; 2]),
        }
    }

    fn measured() -> CalibrationRun {
        CalibrationRun {
            messages: messages(),
            ..example()
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
        // 120 of 200 of a call are behind the clock: 90 of 150. Half a reading of the clock is 15.
        assert_eq!(value("cost.syscall_exit_ns"), 90);
        assert_eq!(value("cost.wakeup_ns"), 375 - 60 - 15);
        assert_eq!(value("cost.tlb_refill_ns"), 400);
        assert_eq!(value("cost.block_ns"), 275 - 60 - 15);
        assert_eq!(value("cost.enqueue_level_ns"), 1575 - 1320 - 90 - 15);
        assert_eq!(value("cost.dequeue_level_ns"), 150);
        assert_eq!(value("cost.wakeup_end_ns"), 1825 - 150 - 1320 - 90 - 15);
        assert_eq!(value("cost.fork_ns") + value("cost.exit_ns"), 80_000);
        // 3000 − 150 − 300.
        assert_eq!(value("cost.ipi_send_ns"), 2550);
        // 6020 − 2500 − 150 − 250 − 1320 − 90 = 1710.
        assert_eq!(value("latency.ipi_delivery_ns"), 1197);
        assert_eq!(value("cost.ipi_receive_ns"), 513);
        // 11000 − 2300 − 513.
        assert_eq!(value("latency.ipi_stall_ns"), 8187);
        // (13000 − 3000) − (6020 − 2500).
        assert_eq!(value("latency.idle_exit_ns"), 6480);
        // Half of what a timer ahead of others takes longer.
        assert_eq!(value("cost.deadline_write_ns"), 100);
        let tick = ["timer_interrupt", "tick", "tick_level", "deadline_write"]
            .map(|part| value(&format!("cost.{part}_ns")));
        assert!(tick.iter().sum::<u64>().abs_diff(2900) <= 2, "{tick:?}");
        assert_eq!(value("program_cost.pipe_write_ns"), 70);
        assert_eq!(value("program_cost.pipe_write_empty_ns"), 40);
        assert_eq!(value("program_cost.shared_files_ns"), 40);
        // Three quarters of the messages are beyond the cache, which takes 75 and 150.
        assert_eq!(value("program_cost.unix_send_far_ns"), 100);
        assert_eq!(value("program_cost.unix_receive_far_ns"), 200);
        assert_eq!(value("program_cost.message_cache_kib"), 1024);
        assert_eq!(value("program_cost.pipe_write_contended_ns"), 50);
        assert_eq!(value("program_cost.unix_receive_remote_ns"), 20);
        assert_eq!(value("program_cost.unix_receive_ns"), 500);
        // 9520 − (6020 − 2500), and the same of 20 000.
        assert_eq!(value("idle.exit_after_20us_ns"), 6000);
        assert_eq!(value("idle.exit_after_5ms_ns"), 16_480);
        assert_eq!(value("idle.exit_after_80ms_ns"), 56_480);
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
    fn interrupts_that_cost_no_more_than_their_handler_stall_nobody() {
        let measured = CalibrationRun {
            stalls: Some((spread(2_700.0), spread(2_300.0))),
            ..measured()
        };
        let figures = figures(&measured);
        let stall = figures
            .iter()
            .find(|figure| figure.key == "latency.ipi_stall_ns");
        assert_eq!(stall.unwrap().value, 0);
    }

    #[test]
    fn a_machine_of_one_cpu_has_fewer_figures() {
        let mut measured = measured();
        (measured.idle_wake, measured.busy_wake) = (None, None);
        measured.stalls = None;
        measured.refills = [None; 4];
        let figures = figures(&measured);
        assert!(figures.iter().all(|figure| !figure.key.contains("ipi")));
        assert!(
            figures
                .iter()
                .all(|figure| !figure.key.starts_with("migration"))
        );
    }
}
