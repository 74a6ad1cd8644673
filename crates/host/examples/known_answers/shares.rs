//! Two hogs on one CPU, told apart by group shares or by nice.

use std::fmt::Write as _;
use std::time::Duration;

use schedcast_host::{CpuFile, RunReport, run_in, run_placed};

use crate::{Outcome, hog_command, new_group, page, quiet};

const REPEATS: usize = 6;
const SECONDS: u64 = 6;

pub(crate) fn by_shares() -> Outcome {
    let parent = new_group()?;
    let (small, large) = (parent.create_child("small")?, parent.create_child("large")?);
    small.write(CpuFile::Shares, "100")?;
    large.write(CpuFile::Shares, "300")?;
    let hog = hog_command("spin")?.cpus(&[1]);
    report(100.0 / 400.0, || {
        let limit = Duration::from_secs(SECONDS);
        Ok(run_placed(&[(&small, &hog), (&large, &hog)], limit)?)
    })
}

pub(crate) fn by_nice() -> Outcome {
    let group = new_group()?;
    let hogs = [
        hog_command("spin")?.cpus(&[1]),
        hog_command("spin")?.cpus(&[1]).nice(5),
    ];
    report(1024.0 / (1024.0 + 335.0), || {
        Ok(run_in(&group, &hogs, Duration::from_secs(SECONDS))?)
    })
}

fn report(
    expected: f64,
    mut run: impl FnMut() -> Result<RunReport, Box<dyn std::error::Error>>,
) -> Outcome {
    let mut lines =
        vec!["share_% first_cpu_ns second_cpu_ns first_slices second_slices steal_%".to_owned()];
    let repeats = quiet::repeat(REPEATS, quiet::Others::DoNotMatter, || {
        let run = run()?;
        let [first, second] = [&run.commands[0].threads[0], &run.commands[1].threads[0]];
        let share = first.cpu_ns as f64 / (first.cpu_ns + second.cpu_ns) as f64 * 100.0;
        lines.push(format!(
            "{share:.4} {} {} {} {} {:.2}",
            first.cpu_ns,
            second.cpu_ns,
            first.timeslices,
            second.timeslices,
            run.steal_ratio * 100.0
        ));
        Ok(share)
    })?;
    let mut body = format!(
        "{} repeats of {SECONDS} s, both pinned to CPU 1. Share of the first hog in the CPU time of both; \
         expected {:.3} %.{}\n\n",
        repeats.kept.len(),
        expected * 100.0,
        repeats.remark()
    );
    body.push_str(&page::spread_header("%"));
    writeln!(
        body,
        "| share of the first | {} |",
        page::spread_cells(&repeats.kept, 4)
    )?;
    body.push_str(&page::raw("every repeat", &lines));
    Ok(body)
}
