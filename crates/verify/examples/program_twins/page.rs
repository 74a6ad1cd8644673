//! The page: one row a case and quantity, with what it allows.

use schedcast_base::quantile::spread;

use crate::Measured;
use crate::cases::{Case, Value};
use crate::measured_kernel;
use crate::simulated::SEEDS;

/// How far apart the two may be: times and rates, then counts.
pub(crate) const VALUE_TOLERANCE: f64 = 0.2;
pub(crate) const COUNT_TOLERANCE: f64 = 0.1;

/// Renders all rows.
pub(crate) fn render(rows: &[(&Case, Measured, Measured)], ground: &str) -> String {
    let mut dates: Vec<&str> = rows.iter().map(|(_, real, _)| real.date.as_str()).collect();
    dates.sort();
    dates.dedup();
    let kernel = rows.first().map_or("", |(_, real, _)| real.kernel.as_str());
    let simulated_kernel = measured_kernel::title();
    let mut text = format!(
        "# Benchmarks, real and simulated: Linux 6.18 on a small virtual machine\n\n\
         Written by `cargo run -p schedcast-verify --example program_twins`. Real: {}, Linux {kernel}, 2 CPUs; \
         simulated: {simulated_kernel}, machine {ground}, {SEEDS} seeds, tool prices as measured alone \
         (`Prices::default`).\n\n\
         Every figure is the median with (smallest – largest) of the repeats, of all sessions that were measured, as the \
         machine's speed drifts between them. CPU time is what the kernel charged, as `getrusage` tells it. Switches are those away from the \
         tool's tasks, as `getrusage` counts them; wakeups are `sched_waking` of its tasks, counted in a run of \
         their own. A time, rate or latency passes within ±20 % or the real spread, a count within ±10 % or \
         the real spread.\n\n",
        dates.join(", ")
    );
    let mut passed = [0, 0];
    let mut tables = String::new();
    for (case, real, simulated) in rows {
        tables += &table(case, real, simulated, &mut passed);
    }
    let [good, all] = passed;
    text += &format!("**{good} of {all} figures pass.**\n\n");
    text + &tables
}

/// Heading: the command, its CPUs and limit, and the head of its table.
pub(crate) fn heading(name: &str, command: &str, cpus: &[usize], limit: Option<&str>) -> String {
    let limit = match limit {
        Some(limit) => format!(", `cpu.max` \"{limit}\""),
        None => String::new(),
    };
    let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
    format!(
        "## {name}\n\n`{command}` on CPU {}{limit}\n\n| | real | simulated | ratio | |\n|---|---|---|---|---|\n",
        cpus.join(", ")
    )
}

fn table(case: &Case, real: &Measured, simulated: &Measured, passed: &mut [usize; 2]) -> String {
    let mut text = heading(case.name, case.command, case.cpus, case.limit);
    let value = match case.value {
        Value::SecondsAfter(_) | Value::Wall => "time, s",
        Value::Load => "CPUs used",
        Value::Latency => "mean latency, µs",
    };
    let per_unit =
        |values: &[f64]| -> Vec<f64> { values.iter().map(|value| value / case.units).collect() };
    let switches = format!("switches a {}", case.unit);
    let wakeups = format!("wakeups a {}", case.unit);
    let rows = [
        (
            value.to_owned(),
            real.values.clone(),
            simulated.values.clone(),
            VALUE_TOLERANCE,
        ),
        (
            "CPU time, s".to_owned(),
            real.cpu_s.clone(),
            simulated.cpu_s.clone(),
            VALUE_TOLERANCE,
        ),
        (
            switches,
            per_unit(&real.switches),
            per_unit(&simulated.switches),
            COUNT_TOLERANCE,
        ),
        (
            wakeups,
            per_unit(&real.wakeups),
            per_unit(&simulated.wakeups),
            COUNT_TOLERANCE,
        ),
    ];
    for (name, real, simulated, tolerance) in rows {
        text += &row(&real, &simulated, &name, tolerance, passed).unwrap_or_default();
    }
    text + "\n"
}

/// The row of a quantity; counts it as passed if it is. Nothing without values on both sides.
pub(crate) fn row(
    real: &[f64],
    simulated: &[f64],
    name: &str,
    tolerance: f64,
    passed: &mut [usize; 2],
) -> Option<String> {
    let (real, simulated) = (spread(real)?, spread(simulated)?);
    let ratio = simulated[1] / real[1];
    let inside = (real[0]..=real[2]).contains(&simulated[1]);
    let good = inside || (ratio - 1.0).abs() <= tolerance;
    passed[0] += usize::from(good);
    passed[1] += 1;
    let verdict = if good { "" } else { "**misses**" };
    let show = |values: [f64; 3]| {
        let [least, median, most] = values.map(digits);
        format!("{median} ({least} – {most})")
    };
    Some(format!(
        "| {name} | {} | {} | {ratio:.2} | {verdict} |\n",
        show(real),
        show(simulated)
    ))
}

/// Three to four figures.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
