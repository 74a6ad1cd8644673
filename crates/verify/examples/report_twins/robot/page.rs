//! The page: one row a kernel, and what a change of the kernel does.

use super::{Report, Reported, Seen};

/// A reported kernel and its forecast.
pub(super) type Row<'a> = ((&'a Report, &'a Reported), Seen);

/// Renders everything.
pub(super) fn render(rows: &[Row]) -> String {
    let mut text = String::from(
        "# hackbench on 128 and 224 CPUs, reported and forecast\n\n\
         Written by `make robot`. Reported: by the [kernel test robot](https://lore.kernel.org/oe-lkp/), whose machines are two 32-core Ice Lakes \
         (`icl-2x32x2`) and two 56-core Sapphire Rapids (`spr-2x56x2`). Forecast: the same command on that preset, \
         the rules of the release that the reported commit is next to, built as the robot builds (no PREEMPT_DYNAMIC, \
         CONFIG_IRQ_TIME_ACCOUNTING), one seed, a quarter of the loops. Nothing was fitted to these figures: \
         structure (switches and migrations a message) is the scheduler's, while the prices of calls are those of a virtual machine, so a \
         rate tells how far that machine is from this one.\n\n\
         | `hackbench` | kernel | messages/s, millions | | switches a message | | migrations a message | |\n\
         |---|---|---|---|---|---|---|---|\n\
         | | | reported → forecast | ratio | reported → forecast | ratio | reported → forecast | ratio |\n",
    );
    for ((report, kernel), forecast) in rows {
        let real = kernel.seen();
        let millions = |seen: &Seen| Some(seen.messages_per_s / 1e6);
        text += &format!(
            "| `{}` on `{}` | {} | {} | {} | {} |\n",
            report.hackbench,
            report.machine,
            name(kernel),
            cells(millions(&real), millions(forecast), 1),
            cells(real.switches, forecast.switches, 4),
            cells(real.migrations, forecast.migrations, 4),
        );
    }
    text += "\n## What a change does\n\n| `hackbench` | change | messages/s | switches a message | migrations a message |\n\
             |---|---|---|---|---|\n| | | reported, forecast | reported, forecast | reported, forecast |\n";
    for pair in rows.windows(2) {
        let [((before_report, before), old), ((report, after), new)] = pair else {
            continue;
        };
        if before_report.url != report.url || before_report.hackbench != report.hackbench {
            continue;
        }
        let (was, is) = (before.seen(), after.seen());
        let of = |seen: &Seen| Some(seen.messages_per_s);
        text += &format!(
            "| `{}` | {} | {}, {} | {}, {} | {}, {} |\n",
            report.hackbench,
            after.commit,
            change(of(&was), of(&is)),
            change(of(old), of(new)),
            change(was.switches, is.switches),
            change(old.switches, new.switches),
            change(was.migrations, is.migrations),
            change(old.migrations, new.migrations),
        );
    }
    text += "\n## Reports\n\n";
    let mut known: Vec<&str> = Vec::new();
    for ((report, _), _) in rows {
        if !known.contains(&report.url.as_str()) {
            known.push(&report.url);
            text += &format!("* {}: <{}>\n", report.what, report.url);
        }
    }
    text
}

fn name(kernel: &Reported) -> String {
    let slice = kernel.base_slice_ns.map_or(String::new(), |slice_ns| {
        format!(", slice {} ms", slice_ns as f64 / 1e6)
    });
    format!("{}{slice}", kernel.version)
}

fn cells(real: Option<f64>, forecast: Option<f64>, digits: usize) -> String {
    let value =
        |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.digits$}"));
    let ratio = real
        .zip(forecast)
        .map_or(String::new(), |(real, forecast)| {
            format!("{:.2}", forecast / real)
        });
    format!("{} → {} | {ratio}", value(real), value(forecast))
}

fn change(before: Option<f64>, after: Option<f64>) -> String {
    before.zip(after).map_or("–".to_owned(), |(before, after)| {
        format!("{:+.1} %", 100.0 * (after / before - 1.0))
    })
}
