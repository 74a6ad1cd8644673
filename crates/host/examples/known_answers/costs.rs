//! The machine's constants: system calls, switches, wakeups, timers.

use std::fmt::Write as _;
use std::io;

use schedcast_host::measure::{
    Channel, Lateness, Partner, RemoteWake, Spread, fork_exit, futex_wake_nobody, getppid,
    read_clock, remote_wakes, round_trips, wake_lateness, yield_switches,
};

use crate::{Outcome, page, quiet};

const REPEATS: usize = 7;

/// Rows of one table: each measurement repeated, with the medians of the repeats below.
struct Table {
    rows: String,
    lines: Vec<String>,
}

impl Table {
    fn new() -> Self {
        Self {
            rows: "| ns | median | p10 | p90 | repeats' medians from – to | samples |\n|---|---|---|---|---|---|\n".into(),
            lines: Vec::new(),
        }
    }

    fn add(
        &mut self,
        what: &str,
        mut measure: impl FnMut() -> io::Result<Vec<f64>>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let repeats = quiet::repeat(REPEATS, quiet::Others::Matter, || Ok(measure()?))?;
        self.add_row(what, &repeats.kept, repeats.disturbed)
    }

    fn add_row(
        &mut self,
        what: &str,
        repeats: &[Vec<f64>],
        disturbed: usize,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let medians: Vec<f64> = repeats
            .iter()
            .filter_map(|samples| Some(Spread::of(samples)?.median))
            .collect();
        let (Some(spread), Some(between)) = (Spread::of(&repeats.concat()), Spread::of(&medians))
        else {
            return Err(format!("{what}: no samples").into());
        };
        writeln!(
            self.rows,
            "| {what} | {:.0} | {:.0} | {:.0} | {:.0} – {:.0} | {} |",
            spread.median, spread.p10, spread.p90, between.min, between.max, spread.count
        )?;
        self.lines.push(format!(
            "{what}: {} ({disturbed} repeats disturbed)",
            page::list(medians, 1)
        ));
        Ok(())
    }

    fn finish(self) -> String {
        self.rows + &page::raw("median of each repeat, ns", &self.lines)
    }
}

pub(crate) fn quick() -> Outcome {
    let mut table = Table::new();
    table.add("reading the clock", || read_clock(1, 200, 1_000))?;
    table.add("system call (getppid)", || getppid(1, 200, 1_000))?;
    table.add("futex wake, nobody waits", || {
        futex_wake_nobody(1, 200, 1_000)
    })?;
    table.add("switch by sched_yield between two threads, one CPU", || {
        yield_switches(1, 200, 500)
    })?;
    for (what, channel, partner) in [
        (
            "futex round trip, two threads, one CPU",
            Channel::Futex,
            Partner::Thread,
        ),
        (
            "pipe round trip, two threads, one CPU",
            Channel::Pipe,
            Partner::Thread,
        ),
        (
            "pipe round trip, two processes, one CPU",
            Channel::Pipe,
            Partner::Process,
        ),
    ] {
        table.add(what, || round_trips(channel, partner, (1, 1), 200, 64))?;
    }
    for (what, channel) in [
        (
            "futex round trip, two threads, CPUs 0 and 1",
            Channel::Futex,
        ),
        ("pipe round trip, two threads, CPUs 0 and 1", Channel::Pipe),
    ] {
        table.add(what, || {
            round_trips(channel, Partner::Thread, (0, 1), 100, 64)
        })?;
    }
    table.add("fork + exit + wait, one CPU", || fork_exit(1, 20, 20))?;
    Ok(format!(
        "Up to {REPEATS} repeats each. A round trip is two wakeups, two switches and four system calls; on two CPUs each \
         side goes idle while the other runs. Samples are means of batches (500 – 1,000 calls, 64 round trips, 20 forks).\n\n{}",
        table.finish()
    ))
}

pub(crate) fn remote() -> Outcome {
    let mut table = Table::new();
    for (rest_us, wakes, never_idle) in [
        (20u64, 1_500u32, false),
        (200, 1_000, false),
        (2_000, 250, false),
        (10_000, 60, false),
        (200, 1_000, true),
    ] {
        let rest_ns = rest_us * 1_000;
        let repeats = quiet::repeat(REPEATS, quiet::Others::Matter, || {
            Ok(remote_wakes((0, 1), wakes, rest_ns, never_idle)?)
        })?;
        let column = |pick: fn(&RemoteWake) -> f64| -> Vec<Vec<f64>> {
            repeats
                .kept
                .iter()
                .map(|samples| samples.iter().map(pick).collect())
                .collect()
        };
        let target = if never_idle {
            "target CPU beside a SCHED_IDLE spinner".to_owned()
        } else {
            format!("target CPU idle for {rest_us} µs")
        };
        table.add_row(
            &format!("waker's call, {target}"),
            &column(|s| s.waker_ns),
            repeats.disturbed,
        )?;
        let latencies = column(|s| s.latency_ns);
        table.add_row(
            &format!("call to wakee in user mode, {target}"),
            &latencies,
            repeats.disturbed,
        )?;
    }
    let idle = idle_states()?;
    Ok(format!(
        "A thread on CPU 0 wakes one on CPU 1 through a futex. {idle}Up to {REPEATS} repeats each.\n\n{}",
        table.finish()
    ))
}

fn idle_states() -> Outcome {
    let topology = schedcast_host::Topology::read()?;
    let states: Vec<String> = topology
        .idle_states
        .iter()
        .map(|state| {
            let (name, exit_us) = (&state.name, state.exit_latency_us);
            format!(
                "{name} (exit {exit_us} µs, residency {} µs)",
                state.target_residency_us
            )
        })
        .collect();
    let (driver, governor) = (&topology.idle_driver, &topology.idle_governor);
    Ok(format!(
        "Idle driver {driver}, governor {governor}, states: {}. ",
        states.join(", ")
    ))
}

pub(crate) fn timers() -> Outcome {
    let mut table = Table::new();
    for (what, slack_ns, never_idle) in [
        ("slack 50 µs, CPU idle", 50_000, false),
        ("slack 1 ns, CPU idle", 1, false),
        ("slack 50 µs, beside a SCHED_IDLE spinner", 50_000, true),
        ("slack 1 ns, beside a SCHED_IDLE spinner", 1, true),
    ] {
        table.add(what, || {
            wake_lateness(Lateness {
                cpu: 1,
                period_ns: 1_000_000,
                wakes: 1_000,
                slack_ns,
                never_idle,
            })
        })?;
    }
    table.add("slack 1 ns, CPU idle, sleeps of 20 ms", || {
        wake_lateness(Lateness {
            cpu: 1,
            period_ns: 20_000_000,
            wakes: 50,
            slack_ns: 1,
            never_idle: false,
        })
    })?;
    Ok(format!(
        "Absolute clock_nanosleep every 1 ms on CPU 1; from the time asked for to the clock read after it. Up to {REPEATS} repeats.\n\n{}",
        table.finish()
    ))
}
