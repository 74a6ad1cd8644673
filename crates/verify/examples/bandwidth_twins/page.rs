//! The page: one table a case, one row a counter, with what it allows.

use std::fmt::Write as _;

use schedcast_base::quantile::spread;

use crate::cases::{Case, Task};
use crate::measured_kernel;
use crate::simulated::work_us;
use crate::{Measured, Repeat, WINDOW_MS};

/// How far apart counts, throttled and burst times, and CPU times may be.
const COUNT_TOLERANCE: f64 = 0.03;
const TIME_TOLERANCE: f64 = 0.05;
const CPU_TOLERANCE: f64 = 0.02;

/// Renders all rows.
pub(crate) fn render(rows: &[(&Case, Measured, Vec<Repeat>)], machine: &str) -> String {
    let machine = machine.rsplit('/').next().unwrap_or(machine);
    let mut dates: Vec<&str> = rows.iter().map(|(_, real, _)| real.date.as_str()).collect();
    dates.sort();
    dates.dedup();
    let kernel = rows.first().map_or("", |(_, real, _)| real.kernel.as_str());
    let simulated_kernel = measured_kernel::title();
    let mut text = format!(
        "# CPU limits, real and simulated: Linux 6.18\n\n\
         Written by `make twins`. Real: {}, Linux {kernel}, 2 CPUs, HZ 250; simulated: {simulated_kernel}, machine \
         `{machine}`, random timer phases.\n\n\
         Each repeat is a new group. Counters of `cpu.stat` and CPU times of the tasks are those of {} s in the midst \
         of it; every figure is the median with (smallest – largest) of the repeats. *hog* computes without end, \
         *beat* is an rt-app thread; what its loops take drifts with the machine, so each repeat is simulated, under five \
         seeds, with the work its own activations took. Counts \
         pass within ±3 %, throttled and burst times within ±5 %, CPU times within ±2 %, or within the spread of the \
         real repeats. Repeats in which the hypervisor took more than 1 % of the machine or other programs more \
         than 3 % do not count.\n\n",
        dates.join(", "),
        WINDOW_MS / 1000
    );
    let mut passed = [0, 0];
    let mut tables = String::new();
    for (case, real, simulated) in rows {
        tables += &table(case, real, simulated, &mut passed);
    }
    let [good, all] = passed;
    let _ = write!(
        text,
        "**{good} of {all} figures pass.** Ticks of both CPUs are due at the same moment, and the one whose interrupt comes \
         first draws the last runtime of the pool: a race which either wins as often. How late interrupts are is a figure \
         of the machine, drawn for each, so the split of a group's CPU time varies as it really does.\n\n"
    );
    text + &tables
}

/// A row: its name, what it reads of a repeat, what it allows.
type Row = (String, Box<dyn Fn(&Repeat) -> f64>, f64);

fn quantities(case: &Case) -> Vec<Row> {
    let mut rows: Vec<Row> = vec![
        (
            "nr_periods".into(),
            Box::new(|r| r.periods),
            COUNT_TOLERANCE,
        ),
        (
            "nr_throttled".into(),
            Box::new(|r| r.throttled),
            COUNT_TOLERANCE,
        ),
        (
            "throttled_time, ms".into(),
            Box::new(|r| r.throttled_ms),
            TIME_TOLERANCE,
        ),
    ];
    if case.burst_us > 0 {
        rows.push(("nr_bursts".into(), Box::new(|r| r.bursts), COUNT_TOLERANCE));
        rows.push((
            "burst_time, ms".into(),
            Box::new(|r| r.burst_ms),
            TIME_TOLERANCE,
        ));
    }
    // The work of a beat is what was measured of it.
    let hogs = case.names().into_iter().enumerate();
    for (n, name) in hogs.filter(|(n, _)| matches!(case.tasks[*n], Task::Hog(_))) {
        let label = format!("CPU time of {name}, ms");
        rows.push((label, Box::new(move |r| r.cpu_ms[n]), CPU_TOLERANCE));
    }
    rows
}

fn table(case: &Case, real: &Measured, simulated: &[Repeat], passed: &mut [usize; 2]) -> String {
    let mut text = format!(
        "## {}\n\nQuota {} of {} ms, burst {} ms; {}. {} repeats, {} more disturbed.\n\n\
         | | real | simulated | ratio | |\n|---|---|---|---|---|\n",
        case.name,
        case.quota_us as f64 / 1e3,
        case.period_us as f64 / 1e3,
        case.burst_us as f64 / 1e3,
        tasks(case, &real.repeats),
        real.repeats.len(),
        real.disturbed
    );
    for (name, read, tolerance) in quantities(case) {
        let real = of(&real.repeats, &read);
        let simulated = of(simulated, &read);
        let inside = (real[0]..=real[2]).contains(&simulated[1]);
        let good = inside || (simulated[1] - real[1]).abs() <= tolerance * real[1];
        passed[0] += usize::from(good);
        passed[1] += 1;
        let ratio = match real[1] {
            0.0 => "–".to_owned(),
            median => format!("{:.3}", simulated[1] / median),
        };
        let verdict = if good { "" } else { "**misses**" };
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {ratio} | {verdict} |",
            show(real),
            show(simulated)
        );
    }
    text + "\n"
}

fn tasks(case: &Case, repeats: &[Repeat]) -> String {
    let one = |(n, task): (usize, &Task)| match task {
        Task::Hog([cpu]) => format!("hog on CPU {cpu}"),
        Task::Hog(_) => "hog on any CPU".to_owned(),
        Task::Beat { period_us, cpu, .. } => {
            let work = of(repeats, &|repeat| work_us(repeat)[n] as f64 / 1e3);
            format!(
                "beat of {} ms every {} ms on CPU {cpu}",
                show(work),
                period_us / 1000
            )
        }
    };
    let all: Vec<String> = case.tasks.iter().enumerate().map(one).collect();
    all.join(", ")
}

/// Smallest, middle and largest of the repeats.
fn of(repeats: &[Repeat], read: &dyn Fn(&Repeat) -> f64) -> [f64; 3] {
    let values: Vec<f64> = repeats.iter().map(read).collect();
    spread(values).unwrap_or([f64::NAN; 3])
}

fn show(values: [f64; 3]) -> String {
    let [least, median, most] = values.map(|value| match value {
        whole if whole.fract() == 0.0 => format!("{whole:.0}"),
        value => format!("{value:.1}"),
    });
    format!("{median} ({least} – {most})")
}
