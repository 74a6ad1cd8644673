//! How throttling looks in a trace of this kernel, and how soon after the period timer a task runs again.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use schedcast_host::{CommandSpec, CpuLimits, run_in};
use schedcast_trace::{Event, EventKind};

use crate::{Outcome, hog_command, new_group, page, quiet, traced};

const REPEATS: usize = 5;
const SECONDS: u64 = 2;
/// A hog that is off its CPU for longer was throttled.
const THROTTLED_MIN_NS: u64 = 5_000_000;

pub fn section() -> Outcome {
    let mut body = format!(
        "{REPEATS} repeats of {SECONDS} s. A hog is taken to be throttled when it is off its CPU for more than 5 ms. Delays run from \
         the entry of the period timer's handler (`hrtimer_expire_entry` of `sched_cfs_period_timer`) to the hog's \
         sched_switch; overrun is CPU time used in one throttled round less the quota.\n\n"
    );
    body.push_str(&page::spread_header("µs"));
    let one = [hog_command("spin")?.cpus(&[1])];
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
        let repeats = quiet::repeat(REPEATS, || observe(hogs, quota_us))?;
        let remark = repeats.remark();
        let seen = repeats.kept.into_iter().fold(Seen::default(), Seen::add);
        writeln!(
            body,
            "| {what}: delay, timer's own CPU | {} |",
            page::spread_cells(&seen.own_cpu_us, 1)
        )?;
        if !seen.other_cpu_us.is_empty() {
            writeln!(
                body,
                "| {what}: delay, other CPU | {} |",
                page::spread_cells(&seen.other_cpu_us, 1)
            )?;
        }
        writeln!(
            body,
            "| {what}: overrun per round | {} |",
            page::spread_cells(&seen.overrun_us, 1)
        )?;
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
            "{what}, overrun: {}",
            page::list(seen.overrun_us, 0)
        ));
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
    let mut rounds: BTreeMap<u64, u64> = BTreeMap::new();
    for command in &run.commands {
        look_at(&trace, command.pid, &mut seen, &mut rounds);
    }
    // The first and last rounds are cut by the start and the end of the run.
    let whole = rounds.len().saturating_sub(2);
    let used = rounds.into_values().skip(1).take(whole);
    seen.overrun_us
        .extend(used.map(|ns| ns as f64 / 1e3 - quota_us as f64));
    Ok(seen)
}

/// Adds what the trace shows of one hog; `rounds` collects CPU time by the timer firing it follows.
fn look_at(trace: &traced::Trace, pid: i32, seen: &mut Seen, rounds: &mut BTreeMap<u64, u64>) {
    let stays = trace.stays(pid);
    for stay in &stays {
        let fired = trace
            .period_timers
            .iter()
            .rev()
            .find(|timer| timer.time_ns <= stay.from_ns);
        if let Some(timer) = fired {
            *rounds.entry(timer.time_ns).or_default() += stay.to_ns - stay.from_ns;
        }
    }
    for pair in stays.windows(2) {
        let (out, back) = (&pair[0], &pair[1]);
        if back.from_ns - out.to_ns < THROTTLED_MIN_NS {
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
        let fired = trace
            .period_timers
            .iter()
            .rev()
            .find(|timer| timer.time_ns <= back.from_ns);
        if let Some(timer) = fired {
            let delay_us = (back.from_ns - timer.time_ns) as f64 / 1e3;
            if timer.cpu == back.cpu {
                seen.own_cpu_us.push(delay_us);
            } else {
                seen.other_cpu_us.push(delay_us);
            }
        }
    }
}
