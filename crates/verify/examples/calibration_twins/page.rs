//! The page: one row a case.

use std::fmt::Write as _;

use schedcast_base::quantile::spread;

use crate::measured_kernel;
use crate::{CASES, Case, Measured};

/// How far apart medians may be.
const TOLERANCE: f64 = 0.20;

fn passes(real: [f64; 3], predicted: [f64; 3]) -> bool {
    let ratio = predicted[1] / real[1];
    (ratio - 1.0).abs() <= TOLERANCE || (real[0] <= predicted[1] && predicted[1] <= real[2])
}

/// Renders everything.
pub(crate) fn render(measured: &Measured, predicted: &[Vec<f64>]) -> String {
    let mut rows = String::new();
    let mut good = 0;
    for ((case, real), predicted) in CASES.iter().zip(&measured.values).zip(predicted) {
        let [real, predicted] =
            [real, predicted].map(|values| spread(&values[..]).unwrap_or([f64::NAN; 3]));
        let pass = passes(real, predicted);
        good += usize::from(pass);
        let (what, digits) = match case {
            Case::PingPong(a, b) if a == b => {
                ("pipe round trip of two threads, one CPU, ns".to_owned(), 0)
            }
            Case::PingPong(..) => ("pipe round trip of two threads, two CPUs, ns".to_owned(), 0),
            Case::Hackbench(arguments) => (format!("`hackbench {arguments}`, s"), 3),
        };
        let cell = |[low, median, high]: [f64; 3]| {
            format!("{median:.digits$} ({low:.digits$} – {high:.digits$})")
        };
        let _ = writeln!(
            rows,
            "| {what} | {} | {} | {:.2} | {} |",
            cell(real),
            cell(predicted),
            predicted[1] / real[1],
            if pass { "" } else { "**misses**" }
        );
    }
    let simulated_kernel = measured_kernel::title();
    format!(
        "# A calibrated machine: what it predicts\n\n\
         Written by `cargo run --release -p schedcast-verify --example calibration_twins`. Calibrated and measured {}, 2 CPUs, \
         in one go; simulated: {simulated_kernel}, on the machine as calibrated.\n\n\
         The prices come from [`schedcast calibrate`](../commands/calibrate.md): wakeups through *futexes* on one CPU, single wakeups of \
         a CPU that idled for as long as the machine below has it, a ring of processes, a pipe used by one thread alone, and so on. The rows below \
         were not used to find them. Prices of sockets are those of the program models where the machine below has none. Median with (smallest – largest) of seven repeats and of seven seeds; a row passes within ±20 %, \
         or with the predicted median inside the real repeats.\n\n\
         **{good} of {} rows pass.**\n\n\
         | | real | predicted | ratio | |\n|---|---|---|---|---|\n{rows}\n\
         ## The machine\n\n```toml\n{}```\n",
        measured.when,
        CASES.len(),
        measured.machine
    )
}
