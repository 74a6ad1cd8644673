//! The page: one row a case and quantity, with what it allows.

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
        let (Some(a), Some(b)) = (Range::of(&real), Range::of(&simulated)) else {
            continue;
        };
        text += &a.row(&b, &name, tolerance, passed);
    }
    text + "\n"
}

/// Smallest, middle and largest of the repeats.
pub(crate) struct Range {
    min: f64,
    median: f64,
    max: f64,
}

impl Range {
    /// Of the repeats; `None` without any.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            min: *sorted.first()?,
            median: sorted[sorted.len() / 2],
            max: *sorted.last()?,
        })
    }

    /// The row of a quantity that is `self` for real; counts it as passed if it is.
    pub(crate) fn row(
        &self,
        simulated: &Range,
        name: &str,
        tolerance: f64,
        passed: &mut [usize; 2],
    ) -> String {
        let ratio = simulated.median / self.median;
        let inside = (self.min..=self.max).contains(&simulated.median);
        let good = inside || (ratio - 1.0).abs() <= tolerance;
        passed[0] += usize::from(good);
        passed[1] += 1;
        let verdict = if good { "" } else { "**misses**" };
        format!(
            "| {name} | {} | {} | {ratio:.2} | {verdict} |\n",
            self.show(),
            simulated.show()
        )
    }

    fn show(&self) -> String {
        format!(
            "{} ({} – {})",
            digits(self.median),
            digits(self.min),
            digits(self.max)
        )
    }
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
