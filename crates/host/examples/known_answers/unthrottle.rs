//! How throttling looks in a trace of this kernel, and how soon after the period timer a task runs
//! again.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use schedcast_host::{CommandSpec, CpuLimits, run_in};
use schedcast_trace::{Event, EventKind};

use crate::{Outcome, hog_command, new_group, page, quiet, traced};

const REPEATS: usize = 4;
const SECONDS: u64 = 2;
/// A hog that is off its CPU for longer was throttled.
const THROTTLED_MIN_NS: u64 = 5_000_000;

pub(crate) fn section() -> Outcome {
    let mut body = format!(
        "Up to {REPEATS} repeats of {SECONDS} s. A hog is taken to be throttled when it is off its CPU for more than 5 ms. Delays run from \
         the period timer's expiry (the grid of the earliest `hrtimer_expire_entry` of `sched_cfs_period_timer`, modulo the \
         period) to the hog's sched_switch. Overrun is CPU time used between two expiries less the quota; it is repaid, so \
         its mean is 0. Only hogs on CPU 0 are looked at: traces of this host lack every event that the idle task of CPU 1 \
         writes, among them all switches from idle.\n\n"
    );
    body.push_str(&page::spread_header("µs"));
    let one = [hog_command("spin")?.cpus(&[0])];
    let two = [
        hog_command("spin")?.cpus(&[0]),
        hog_command("spin")?.cpus(&[1]),
    ];
    let (mut lines, mut states) = (Vec::new(), String::new());
    for (what, hogs, quota_us) in [
        ("one hog, 30/100 ms", &one[..], 30_000u64),
        ("one hog, 13/100 ms", &one[..], 13_000),
        ("two hogs, 50/100 ms", &two[..], 50_000),
    ] {
        let repeats = quiet::repeat(REPEATS, quiet::Others::Matter, || observe(hogs, quota_us))?;
        let remark = repeats.remark();
        let seen = repeats.kept.into_iter().fold(Seen::default(), Seen::add);
        for (whose, delays) in [
            ("the timer's own", &seen.own_cpu_us),
            ("the timer on the other", &seen.other_cpu_us),
        ] {
            if !delays.is_empty() {
                writeln!(
                    body,
                    "| {what}: delay, {whose} CPU | {} |",
                    page::spread_cells(delays, 1)
                )?;
            }
        }
        writeln!(
            body,
            "| {what}: handler late | {} |",
            page::spread_cells(&seen.late_us, 1)
        )?;
        if hogs.len() == 1 {
            writeln!(
                body,
                "| {what}: overrun per period | {} |",
                page::spread_cells(&seen.overrun_us, 1)
            )?;
        }
        writeln!(
            states,
            "* {what}: prev_state when throttled {:?}, followed by {:?}; sched_waking of a throttled hog: {}.{remark}",
            seen.states, seen.followers, seen.wakings
        )?;
        lines.push(format!(
            "{what}, own CPU: {}",
            page::list(seen.own_cpu_us, 0)
        ));
        lines.push(format!(
            "{what}, other CPU: {}",
            page::list(seen.other_cpu_us, 0)
        ));
        lines.push(format!(
            "{what}, handler late: {}",
            page::list(seen.late_us, 0)
        ));
        // With two hogs only one is looked at, so what the group used is not known.
        if hogs.len() == 1 {
            lines.push(format!(
                "{what}, overrun: {}",
                page::list(seen.overrun_us, 0)
            ));
        }
    }
    body.push('\n');
    body.push_str(&states);
    body.push_str(&page::raw("every throttled time, µs", &lines));
    Ok(body)
}

#[derive(Default)]
struct Seen {
    states: BTreeMap<&'static str, usize>,
    followers: BTreeMap<&'static str, usize>,
    wakings: usize,
    own_cpu_us: Vec<f64>,
    other_cpu_us: Vec<f64>,
    late_us: Vec<f64>,
    overrun_us: Vec<f64>,
}

impl Seen {
    fn add(mut self, other: Self) -> Self {
        for (state, n) in other.states {
            *self.states.entry(state).or_default() += n;
        }
        for (follower, n) in other.followers {
            *self.followers.entry(follower).or_default() += n;
        }
        self.wakings += other.wakings;
        self.own_cpu_us.extend(other.own_cpu_us);
        self.other_cpu_us.extend(other.other_cpu_us);
        self.late_us.extend(other.late_us);
        self.overrun_us.extend(other.overrun_us);
        self
    }
}

fn observe(hogs: &[CommandSpec], quota_us: u64) -> Result<Seen, Box<dyn Error>> {
    let mut seen = Seen::default();
    let group = new_group()?;
    group.set_limits(&CpuLimits {
        quota_us: Some(quota_us),
        ..CpuLimits::default()
    })?;
    let (run, trace) = traced::record(|| Ok(run_in(&group, hogs, Duration::from_secs(SECONDS))?))?;
    let (phase_ns, timer_cpu) = trace
        .period_phase(PERIOD_NS)
        .ok_or("no period timer was seen")?;
    let late = |timer: &traced::PeriodTimer| ((timer.time_ns - phase_ns) % PERIOD_NS) as f64 / 1e3;
    seen.late_us.extend(trace.period_timers.iter().map(late));
    let grid = Grid {
        phase_ns,
        timer_cpu,
    };
    look_at(&trace, run.commands[0].pid, &grid, &mut seen, quota_us);
    Ok(seen)
}

const PERIOD_NS: u64 = 100_000_000;

/// Where the period timer expires.
struct Grid {
    phase_ns: u64,
    timer_cpu: u32,
}

impl Grid {
    /// Number of the period a time is in.
    fn period(&self, time_ns: u64) -> u64 {
        (time_ns - self.phase_ns) / PERIOD_NS
    }

    fn since_expiry_us(&self, time_ns: u64) -> f64 {
        ((time_ns - self.phase_ns) % PERIOD_NS) as f64 / 1e3
    }
}

/// Adds what the trace shows of one hog.
fn look_at(trace: &traced::Trace, pid: i32, grid: &Grid, seen: &mut Seen, quota_us: u64) {
    let stays = trace.stays(pid);
    let mut used_ns: BTreeMap<u64, u64> = BTreeMap::new();
    for stay in &stays {
        *used_ns.entry(grid.period(stay.from_ns)).or_default() += stay.to_ns - stay.from_ns;
    }
    // The first and last periods are cut by the start and the end of the run.
    let whole = used_ns.len().saturating_sub(2);
    let used = used_ns.into_values().skip(1).take(whole);
    seen.overrun_us
        .extend(used.map(|ns| ns as f64 / 1e3 - quota_us as f64));
    for pair in stays.windows(2) {
        let (out, back) = (&pair[0], &pair[1]);
        // Before its first run a hog is not throttled but being started.
        if back.from_ns - out.to_ns < THROTTLED_MIN_NS || !out.state.is_runnable() {
            continue;
        }
        *seen.states.entry(out.state.as_str()).or_default() += 1;
        let follower = if out.next == 0 {
            "idle"
        } else {
            "another task"
        };
        *seen.followers.entry(follower).or_default() += 1;
        let inside = |event: &&Event| (out.to_ns..=back.from_ns).contains(&event.time_ns);
        let wakes = |event: &&Event| matches!(event.kind, EventKind::Waking(w) if w.pid == pid);
        seen.wakings += trace.events.iter().filter(inside).filter(wakes).count();
        let delays = if grid.timer_cpu == back.cpu {
            &mut seen.own_cpu_us
        } else {
            &mut seen.other_cpu_us
        };
        delays.push(grid.since_expiry_us(back.from_ns));
    }
}
