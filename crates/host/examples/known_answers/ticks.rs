//! Where in the 4 ms the ticks of each CPU fall, and what they take from a spinning task.

use std::fmt::Write as _;

use schedcast_host::KernelInfo;
use schedcast_host::measure::{Spread, fit_ticks, spin_gaps_on};

use crate::{Outcome, page, quiet};

const REPEATS: usize = 7;
const DURATION_NS: u64 = 3_000_000_000;
/// Above the sub-microsecond jitter of a virtual machine and below any interrupt.
const THRESHOLD_NS: u64 = 2_000;

pub(crate) fn section() -> Outcome {
    let hz = KernelInfo::read()?
        .hz
        .ok_or("the kernel's HZ is not known")?;
    let tick_ns = 1_000_000_000 / u64::from(hz);
    let mut lines = vec![
        "cpu phase_us seen expected strangers strangers_total_us tick_median_ns tick_p90_ns"
            .to_owned(),
    ];
    let repeats = quiet::repeat(REPEATS, quiet::Others::Matter, || {
        let gaps = spin_gaps_on(&[0, 1], DURATION_NS, THRESHOLD_NS)?;
        let mut fits = Vec::new();
        for (cpu, gaps) in gaps.iter().enumerate() {
            let fit = fit_ticks(gaps, tick_ns).ok_or("no tick was seen")?;
            let spread = Spread::of(&fit.lengths_ns).ok_or("no tick was seen")?;
            let all_ns: u64 = gaps.iter().map(|gap| gap.length_ns).sum();
            let other_us = (all_ns as f64 - fit.lengths_ns.iter().sum::<f64>()) / 1e3;
            lines.push(format!(
                "{cpu} {:.1} {} {} {} {other_us:.0} {:.0} {:.0}",
                fit.phase_ns as f64 / 1e3,
                fit.lengths_ns.len(),
                fit.expected,
                fit.strangers,
                spread.median,
                spread.p90,
            ));
            fits.push(fit);
        }
        Ok(fits)
    })?;
    let lengths = [0, 1].map(|cpu: usize| -> Vec<f64> {
        repeats
            .kept
            .iter()
            .flat_map(|fits| fits[cpu].lengths_ns.clone())
            .collect()
    });
    let half = (tick_ns / 2) as f64;
    let apart = repeats.kept.iter().map(|fits| {
        let apart = fits[1].phase_ns as f64 - fits[0].phase_ns as f64;
        ((apart + 3.0 * half) % (2.0 * half) - half) / 1e3
    });
    let apart: Vec<f64> = apart.collect();
    let mut body = format!(
        "A spinning thread on each CPU notes every interruption above {THRESHOLD_NS} ns for {} s, {REPEATS} times. A tick is an \
         interruption that begins on the grid of {tick_ns} ns; phase is its begin on CLOCK_MONOTONIC modulo the tick.{}\n\n",
        DURATION_NS / 1_000_000_000,
        repeats.remark()
    );
    body.push_str(&page::spread_header("ns"));
    for (cpu, lengths) in lengths.iter().enumerate() {
        writeln!(
            body,
            "| tick on CPU {cpu} | {} |",
            page::spread_cells(lengths, 0)
        )?;
    }
    writeln!(
        body,
        "\nPhase of CPU 1 less phase of CPU 0, µs, each repeat: {}.",
        page::list(apart, 1)
    )?;
    body.push_str(&page::raw("every repeat", &lines));
    Ok(body)
}
