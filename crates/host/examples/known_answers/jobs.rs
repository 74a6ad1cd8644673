//! A job longer than its group's quota, due at ever different places in the period.

use std::fmt::Write as _;
use std::time::Duration;

use schedcast_host::hog::Activation;
use schedcast_host::{CpuLimits, Output, run_in};

use crate::{Outcome, hog_command, new_group, page, quiet};

const WORK_MS: f64 = 30.0;
const QUOTA_MS: f64 = 13.0;
const PERIOD_MS: f64 = 100.0;
/// Thirteen more than a second, so that the eight jobs of a run cover the period.
const EVERY_MS: u64 = 1_013;
const JOBS: u64 = 8;
const RUNS: usize = 6;
/// A gap longer than this is a time of being throttled, not an interrupt.
const THROTTLED_MIN_NS: u64 = 5_000_000;
/// A start or an end of a throttled time that is off by more was not the kernel's doing alone.
const DISTURBED_NS: i64 = 300_000;

const RULE: &str = "204 − φ for φ ≤ 87";
const RULE_BURST: &str = "104 − φ for φ ≤ 74";
/// How often the continuously charged job asks for its CPU time.
const ASK_NS: u64 = 20_000;

pub(crate) fn without_burst() -> Outcome {
    section(0.0, RULE, None)
}

pub(crate) fn with_burst() -> Outcome {
    section(13.0, RULE_BURST, None)
}

pub(crate) fn asking_without_burst() -> Outcome {
    section(0.0, RULE, Some(ASK_NS))
}

pub(crate) fn asking_with_burst() -> Outcome {
    section(13.0, RULE_BURST, Some(ASK_NS))
}

fn section(burst_ms: f64, rule: &str, ask_ns: Option<u64>) -> Outcome {
    let group = new_group()?;
    group.set_limits(&CpuLimits {
        quota_us: Some(QUOTA_MS as u64 * 1_000),
        period_us: PERIOD_MS as u64 * 1_000,
        burst_us: burst_ms as u64 * 1_000,
    })?;
    let mut words =
        format!("job --cpu-ms {WORK_MS} --every-ms {EVERY_MS} --count {JOBS} --slack-ns 1");
    let mut how =
        "It never enters the kernel while it burns, so it is charged at ticks only.".to_owned();
    if let Some(ask_ns) = ask_ns {
        let _ = write!(words, " --ask-ns {ask_ns}");
        let every_us = ask_ns / 1_000;
        how = format!(
            "It asks for its CPU time every {every_us} µs by a system call, which makes the kernel charge it then."
        );
    }
    let job = hog_command(&words)?.cpus(&[1]).output(Output::Capture);
    let before = group.stat()?;
    let runs = quiet::repeat(RUNS, quiet::Others::Matter, || {
        let report = run_in(&group, std::slice::from_ref(&job), Duration::from_secs(20))?;
        let text = String::from_utf8(report.commands[0].stdout.clone())?;
        Ok(text
            .lines()
            .filter_map(Activation::parse)
            .collect::<Vec<_>>())
    })?;
    let stat = group.stat()?.since(&before);
    let jobs = runs.kept.concat();
    let ends = throttle_ends(&jobs);
    let phase_ns = earliest(&ends).ok_or("the job was never throttled")?;
    let mut body = format!(
        "{} runs of {JOBS} jobs in one group.{} The job burns {WORK_MS} ms of CPU time on CPU 1, due every {EVERY_MS} ms; φ is where in the bandwidth period \
         it is due. {how} Expected by arithmetic alone, without ticks or costs: {rule} ms. The period's phase is the \
         earliest end of a throttled time (n = {}, their spread p10–p90 {:.0} µs).\n\n",
        runs.kept.len(),
        runs.remark(),
        ends.len(),
        circular_spread_us(&ends, phase_ns),
    );
    let rows: Vec<Row> = jobs
        .iter()
        .map(|job| Row::new(job, phase_ns, burst_ms))
        .collect();
    body.push_str(&page::spread_header("ms"));
    let last_phi = PERIOD_MS - QUOTA_MS - burst_ms;
    let errors = |early: bool| -> Vec<f64> {
        rows.iter()
            .filter(|row| !row.disturbed && (row.phi_ms <= last_phi) == early)
            .map(Row::error_ms)
            .collect()
    };
    for (sign, early) in [("≤", true), (">", false)] {
        let cells = page::spread_cells(&errors(early), 3);
        writeln!(
            body,
            "| measured − expected, φ {sign} {last_phi} | {cells} |"
        )?;
    }
    let disturbed = rows.iter().filter(|row| row.disturbed).count();
    writeln!(
        body,
        "\nNot counted, marked `*` below: {disturbed} jobs that lost time to the hypervisor or to other programs (gaps of more than 0.3 ms \
         in total besides throttled times, a start more than 0.3 ms late, or a throttled time that ends more than 0.3 ms off the phase)."
    )?;
    writeln!(
        body,
        "\n`cpu.stat` over all runs: nr_periods {}, nr_throttled {}, throttled_time {} ns, nr_bursts {}, burst_time {} ns.",
        stat.nr_periods.unwrap_or(0),
        stat.nr_throttled.unwrap_or(0),
        stat.throttled_ns.unwrap_or(0),
        stat.nr_bursts.unwrap_or(0),
        stat.burst_ns.unwrap_or(0)
    )?;
    let mut lines = vec!["phi_ms response_ms expected_ms difference_ms start_late_us gaps(begin+length after due, ms)".to_owned()];
    let mut sorted = rows;
    sorted.sort_by(|a, b| a.phi_ms.total_cmp(&b.phi_ms));
    lines.extend(sorted.iter().map(Row::print));
    body.push_str(&page::raw("every job, by φ", &lines));
    Ok(body)
}

struct Row {
    phi_ms: f64,
    response_ms: f64,
    expected_ms: f64,
    late_us: f64,
    gaps: Vec<(f64, f64)>,
    disturbed: bool,
}

impl Row {
    fn new(job: &Activation, phase_ns: u64, burst_ms: f64) -> Self {
        let period_ns = PERIOD_MS as u64 * 1_000_000;
        let phi_ms = ((job.due_ns + period_ns - phase_ns) % period_ns) as f64 / 1e6;
        let begin = |(end_ns, length_ns): &(u64, u64)| {
            (
                (end_ns - length_ns - job.due_ns) as f64 / 1e6,
                *length_ns as f64 / 1e6,
            )
        };
        let late_ns = job.start_ns - job.due_ns;
        let is_throttle = |length_ns: u64| length_ns > THROTTLED_MIN_NS;
        let lost_ns: u64 = job
            .gaps
            .iter()
            .map(|gap| gap.1)
            .filter(|l| !is_throttle(*l))
            .sum();
        let ends_off = |(end_ns, length_ns): &(u64, u64)| {
            is_throttle(*length_ns) && around(*end_ns % period_ns, phase_ns).abs() > DISTURBED_NS
        };
        let disturbed = late_ns.max(lost_ns) as i64 > DISTURBED_NS || job.gaps.iter().any(ends_off);
        Self {
            disturbed,
            phi_ms,
            response_ms: job.response_ns() as f64 / 1e6,
            expected_ms: ideal_response_ms(phi_ms, burst_ms),
            late_us: late_ns as f64 / 1e3,
            gaps: job.gaps.iter().map(begin).collect(),
        }
    }

    fn error_ms(&self) -> f64 {
        self.response_ms - self.expected_ms
    }

    fn print(&self) -> String {
        let mut line = format!(
            "{}{:7.3} {:8.3} {:8.3} {:7.3} {:6.1} ",
            if self.disturbed { '*' } else { ' ' },
            self.phi_ms,
            self.response_ms,
            self.expected_ms,
            self.error_ms(),
            self.late_us
        );
        for (begin, length) in &self.gaps {
            let _ = write!(line, " {begin:.3}+{length:.3}");
        }
        line
    }
}

/// The answer of a fluid that gets exactly its quota: a full pool at arrival, refilled at each
/// boundary.
fn ideal_response_ms(phi_ms: f64, burst_ms: f64) -> f64 {
    let (mut now, mut left, mut pool) = (phi_ms, WORK_MS, QUOTA_MS + burst_ms);
    let mut boundary = PERIOD_MS;
    loop {
        let run = left.min(pool).min(boundary - now);
        (now, left, pool) = (now + run, left - run, pool - run);
        if left <= 0.0 {
            return now - phi_ms;
        }
        now = boundary;
        boundary += PERIOD_MS;
        pool = (pool + QUOTA_MS).min(QUOTA_MS + burst_ms);
    }
}

/// Ends of throttled times within the period, ns.
fn throttle_ends(jobs: &[Activation]) -> Vec<u64> {
    let gaps = jobs.iter().flat_map(|job| &job.gaps);
    gaps.filter(|(_, length_ns)| *length_ns > THROTTLED_MIN_NS)
        .map(|(end_ns, _)| end_ns % (PERIOD_MS as u64 * 1_000_000))
        .collect()
}

/// Offset from the first point around the circle of one period, −50 … 50 ms in ns.
fn around(point: u64, first: u64) -> i64 {
    let period = PERIOD_MS as i64 * 1_000_000;
    (point as i64 - first as i64 + period + period / 2) % period - period / 2
}

/// The phase: the earliest end of a throttled time. No end can come before the period timer, and
/// some come later: on a CPU that runs another program meanwhile, an unthrottled task waits for the
/// next tick.
fn earliest(points: &[u64]) -> Option<u64> {
    let first = *points.first()?;
    let offset = points.iter().map(|point| around(*point, first)).min()?;
    let period = PERIOD_MS as i64 * 1_000_000;
    Some((first as i64 + offset).rem_euclid(period) as u64)
}

fn circular_spread_us(points: &[u64], middle: u64) -> f64 {
    let offsets: Vec<f64> = points
        .iter()
        .map(|p| around(*p, middle) as f64 / 1e3)
        .collect();
    schedcast_host::measure::Spread::of(&offsets).map_or(0.0, |s| s.p90 - s.p10)
}
