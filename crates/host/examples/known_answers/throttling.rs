//! Counters of a group that is throttled in every period.

use std::fmt::Write as _;
use std::thread;
use std::time::Duration;

use schedcast_base::cpu_stat::CpuStat;
use schedcast_host::{CpuCgroup, CpuLimits, HostError, run_in, sys};

use crate::{Outcome, hog_command, new_group, page, quiet};

const REPEATS: usize = 7;
/// The run, and the part of it that is looked at: whole periods, away from both ends.
const LIMIT_MS: u64 = 3_800;
const FROM_MS: u64 = 500;
const WINDOW_MS: u64 = 3_000;

pub(crate) fn section() -> Outcome {
    let hogs = [
        hog_command("spin")?.cpus(&[0]),
        hog_command("spin")?.cpus(&[1]),
    ];
    let mut lines = vec![
        "nr_periods nr_throttled throttled_ms_per_period cpu_ms_per_period steal_%".to_owned(),
    ];
    let repeats = quiet::repeat(REPEATS, quiet::Others::Matter, || {
        let group = new_group()?;
        group.set_limits(&CpuLimits {
            quota_us: Some(50_000),
            ..CpuLimits::default()
        })?;
        let (run, window) = thread::scope(|scope| {
            let window = scope.spawn(|| watch(&group));
            (
                run_in(&group, &hogs, Duration::from_millis(LIMIT_MS)),
                window.join(),
            )
        });
        let (run, (stat, cpu_ns)) = (run?, window.map_err(|_| "the watcher panicked")??);
        let [nr_periods, nr_throttled, throttled_ns] =
            [stat.nr_periods, stat.nr_throttled, stat.throttled_ns].map(|count| count.unwrap_or(0));
        let periods = nr_periods as f64;
        let (throttled_ms, cpu_ms) = (
            throttled_ns as f64 / 1e6 / periods,
            cpu_ns as f64 / 1e6 / periods,
        );
        lines.push(format!(
            "{} {} {throttled_ms:.4} {cpu_ms:.4} {:.2}",
            nr_periods,
            nr_throttled,
            run.steal_ratio * 100.0
        ));
        Ok((nr_throttled as f64 / periods, throttled_ms, cpu_ms))
    })?;
    let column =
        |pick: fn(&(f64, f64, f64)) -> f64| -> Vec<f64> { repeats.kept.iter().map(pick).collect() };
    let (ratios, times, used) = (column(|r| r.0), column(|r| r.1), column(|r| r.2));
    let mut body = format!(
        "One hog pinned to each CPU, a new group each time, {} repeats. Counters are read twice, 3 s apart, in the midst \
         of each run. Expected: throttled in every period, 150 ms of throttled time (over both CPUs) and 50 ms of CPU time \
         per period.{}\n\n",
        repeats.kept.len(),
        repeats.remark()
    );
    body.push_str(&page::spread_header("per period"));
    writeln!(
        body,
        "| nr_throttled | {} |",
        page::spread_cells(&ratios, 4)
    )?;
    writeln!(
        body,
        "| throttled_time, ms | {} |",
        page::spread_cells(&times, 3)
    )?;
    writeln!(body, "| CPU time, ms | {} |", page::spread_cells(&used, 3))?;
    body.push_str(&page::raw("every repeat", &lines));
    Ok(body)
}

/// Growth of the group's counters and of its tasks' CPU time (ns) within the window.
fn watch(group: &CpuCgroup) -> Result<(CpuStat, u64), HostError> {
    let start_ns = sys::monotonic_ns() + FROM_MS * 1_000_000;
    let read = |at_ns| {
        sys::sleep_until_ns(at_ns);
        let stat = group.stat()?;
        let cpu_ns: u64 = group.tasks()?.iter().map(|task| task.cpu_ns).sum();
        Ok::<_, HostError>((stat, cpu_ns))
    };
    let (before, cpu_before_ns) = read(start_ns)?;
    let (after, cpu_after_ns) = read(start_ns + WINDOW_MS * 1_000_000)?;
    Ok((after.since(&before), cpu_after_ns - cpu_before_ns))
}
