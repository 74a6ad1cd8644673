//! Counters of a group that is throttled in every period.

use std::fmt::Write as _;
use std::time::Duration;

use schedcast_host::{CpuLimits, run_in};

use crate::{Outcome, hog_command, new_group, page, quiet};

const REPEATS: usize = 7;
const SECONDS: u64 = 4;

pub fn section() -> Outcome {
    let hogs = [
        hog_command("spin")?.cpus(&[0]),
        hog_command("spin")?.cpus(&[1]),
    ];
    let mut lines = vec![
        "nr_periods nr_throttled throttled_ms_per_period cpu_ms_per_period steal_%".to_owned(),
    ];
    let repeats = quiet::repeat(REPEATS, || {
        let group = new_group()?;
        group.set_limits(&CpuLimits {
            quota_us: Some(50_000),
            ..CpuLimits::default()
        })?;
        let run = run_in(&group, &hogs, Duration::from_secs(SECONDS))?;
        let stat = &run.groups[0].stat;
        let periods = stat.nr_periods as f64;
        let throttled_ms = stat.throttled_ns as f64 / 1e6 / periods;
        let cpu_ns: u64 = run
            .commands
            .iter()
            .map(|command| command.threads[0].cpu_ns)
            .sum();
        let cpu_ms = cpu_ns as f64 / 1e6 / periods;
        lines.push(format!(
            "{} {} {throttled_ms:.4} {cpu_ms:.4} {:.2}",
            stat.nr_periods,
            stat.nr_throttled,
            run.steal_ratio * 100.0
        ));
        Ok((stat.nr_throttled as f64 / periods, throttled_ms, cpu_ms))
    })?;
    let column =
        |pick: fn(&(f64, f64, f64)) -> f64| -> Vec<f64> { repeats.kept.iter().map(pick).collect() };
    let (ratios, times, used) = (column(|r| r.0), column(|r| r.1), column(|r| r.2));
    let mut body = format!(
        "{REPEATS} repeats of {SECONDS} s, one hog pinned to each CPU, a new group each time. Expected: throttled in every \
         period, 150 ms of throttled time (over both CPUs) and 50 ms of CPU time per period. The first and last \
         period of a repeat are cut.{}\n\n",
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
