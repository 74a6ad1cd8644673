//! The table as a page.

use std::fmt::Write;

use schedcast_base::date::today;
use schedcast_base::quantile::{median, spread};
use schedcast_host::KernelInfo;

use crate::loads::Unit;
use crate::{Measured, Outcome, Row};

/// Smallest rate, median and largest.
fn rates(runs: &[Measured]) -> [f64; 3] {
    let rates = runs.iter().map(|run| run.count as f64 / run.seconds);
    spread(rates.collect::<Vec<f64>>()).unwrap_or([f64::NAN; 3])
}

fn rate_text([least, middle, most]: [f64; 3], unit: Unit) -> String {
    match unit {
        Unit::Variants => format!(
            "{:.3} s each ({:.3} – {:.3})",
            1.0 / middle,
            1.0 / most,
            1.0 / least
        ),
        Unit::Bytes => format!(
            "{:.0} MB/s ({:.0} – {:.0})",
            middle / 1e6,
            least / 1e6,
            most / 1e6
        ),
        Unit::Runs => format!("{middle:.1} runs/s ({least:.1} – {most:.1})"),
        _ => format!(
            "{:.2} M {}/s ({:.2} – {:.2})",
            middle / 1e6,
            unit.name(),
            least / 1e6,
            most / 1e6
        ),
    }
}

/// Median rate of a load, by the plain program.
fn rate_of(rows: &[Row], name: &str) -> f64 {
    let row = rows.iter().find(|row| row.load.name == name);
    row.map_or(f64::NAN, |row| rates(&row.plain)[1])
}

/// The whole page. `simso_s` = seconds SimSo needs for a second of W1.
pub(crate) fn render(rows: &[Row], simso_s: Option<f64>) -> Outcome<String> {
    let kernel = KernelInfo::read()?.release;
    let mut page = format!(
        "# Speed\n\nWritten by `make speed` on {}, Linux {kernel}, {}. One core but for the sweep of two workers, statistics on, kernel 6.18, HZ 250. A \
         dispatch is a switch of a CPU to another task that is not idle. W1, W2 and W3 are periodic tasks of 0.33 ms every \
         5 ms at random offsets (66 % load). Each load ran {} times, each time in a process of its own; given are the median, \
         (smallest – largest) and the largest size of a process. The program is the one that `cargo build --release` makes, and \
         one that is built as `make fast` does it, for this processor and laid out by what W1, W1 with the machine and W3 execute most; they took turns.\n\n\
         | | rate | with `make fast` | memory |\n|---|---|---|---|\n",
        today(),
        processor()?,
        rows.first().map_or(0, |row| row.plain.len()),
    );
    for Row { load, plain, fast } in rows {
        let memory = plain.iter().map(|run| run.memory_kib).max().unwrap_or(0);
        let rate = |runs| rate_text(rates(runs), load.unit);
        writeln!(
            page,
            "| {} | {} | {} | {} MB |",
            load.text,
            rate(plain),
            rate(fast),
            memory.div_ceil(1024)
        )?;
    }
    let ratio = |a: &str, b: &str| rate_of(rows, a) / rate_of(rows, b);
    writeln!(
        page,
        "\nW3 runs at {:.0} % of the rate of W1; four cgroup levels cost {:.2} times one; from 8 to 512 CPUs a dispatch becomes \
         {:.2} times as dear. Two workers sweep {:.2} times as fast as one.",
        100.0 * ratio("w3", "w1"),
        ratio("w1", "w1-depth"),
        ratio("cpus-8", "cpus-512"),
        ratio("sweep-2", "sweep-1"),
    )?;
    if let Some(simso_s) = simso_s {
        let own_s = own_seconds(rows);
        writeln!(
            page,
            "\nSimSo 0.8.5, which schedules the same tasks by partitioned EDF, needs {simso_s:.2} s for a simulated second of \
             W1, schedcast {:.1} ms: {:.0} times less, with far richer rules.",
            own_s * 1e3,
            simso_s / own_s
        )?;
    }
    Ok(page)
}

/// Seconds for a simulated second of W1: 20,000 dispatches and those of preempted tasks.
fn own_seconds(rows: &[Row]) -> f64 {
    let row = rows.iter().find(|row| row.load.name == "w1");
    let seconds = |row: &Row| {
        let each = row.plain.iter().map(|run| run.seconds / 100.0);
        median(each.collect::<Vec<f64>>())
    };
    row.and_then(seconds).unwrap_or(f64::NAN)
}

fn processor() -> Outcome<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    Ok(line
        .map_or("unknown CPU", |line| {
            line.trim_start_matches([' ', '\t', ':'])
        })
        .to_owned())
}
