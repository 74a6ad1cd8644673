//! Tables of a validation: text for the terminal, a dated page for the book.

use std::collections::BTreeMap;

use super::{Kind, Row, Twin, median_error};

/// A figure in the unit people read: seconds, milliseconds or a count.
fn figure(metric: &str, value: f64) -> String {
    match metric {
        _ if metric.ends_with("_usec") || metric.contains("latency.") => {
            format!("{:.1} ms", value / 1000.0)
        }
        _ if metric.ends_with("cpu_time") || metric.ends_with("/time") => format!("{value:.3} s"),
        _ => format!("{value:.0}"),
    }
}

fn error(row: &Row) -> String {
    match row.error() {
        error if error.is_finite() => format!("{:+.1} %", error * 100.0),
        _ => "none measured".to_string(),
    }
}

fn verdict(row: &Row) -> &'static str {
    match (row.error().abs() <= row.kind.target(), row.inside()) {
        (true, _) => "",
        (false, true) => "in the spread",
        (false, false) => "**misses**",
    }
}

/// The table of these scenarios for a terminal.
pub fn render_text(twins: &[Twin]) -> String {
    let mut text = String::new();
    for twin in twins {
        let [kept, dropped] = twin.repeats;
        text += &format!(
            "{} · {} · {kept} repeats, {dropped} disturbed · simulated: {}\n",
            twin.scenario, twin.kernel, twin.simulated
        );
        text += &format!(
            "{:<44} {:>11} {:>11} {:>13}\n",
            "", "measured", "predicted", "error"
        );
        for row in &twin.rows {
            text += &format!(
                "{:<44} {:>11} {:>11} {:>13} {}\n",
                row.metric,
                figure(&row.metric, row.measured),
                figure(&row.metric, row.predicted),
                error(row),
                verdict(row).trim_matches('*')
            );
        }
        text.push('\n');
    }
    text + &summary(twins, "", "")
}

/// A line for each kind: how far off the median figure is, and how many pass.
fn summary(twins: &[Twin], begin: &str, bold: &str) -> String {
    let mut text = String::new();
    for kind in Kind::ALL {
        let Some(median) = median_error(twins, kind) else {
            if kind == Kind::Placement {
                // Counted in guests of several CPUs only.
                continue;
            }
            let target = kind.target() * 100.0;
            text += &format!(
                "{begin}{}: none was compared, target {target:.0} %\n",
                kind.name()
            );
            continue;
        };
        let of_kind = |twin: &Twin| -> Vec<Row> {
            let rows = twin.rows.iter().filter(|row| row.kind == kind);
            rows.cloned().collect()
        };
        let rows: Vec<Row> = twins.iter().flat_map(of_kind).collect();
        let passing = rows.iter().filter(|row| row.passes()).count();
        let met = match median <= kind.target() {
            true => "met",
            false => "missed",
        };
        text += &format!(
            "{begin}{}: median absolute error {bold}{:.1} %{bold}, target {:.0} %: {met}; {passing} of {} figures pass\n",
            kind.name(),
            median * 100.0,
            kind.target() * 100.0,
            rows.len()
        );
    }
    text
}

/// Part of a kernel's name where a guest was emulated.
const EMULATED: &str = "(TCG)";
/// Consequence of emulation for the figures.
const EMULATION: &str = "\
The guest was emulated: one CPU, and a clock by which every instruction takes 1 ns, whatever the host does meanwhile \
([how](../commands/vm.md)). Figures are those of the last 3.5 of 4 seconds; latencies and speeds are not compared.\n\n";

/// Part of the name of a kernel whose guest had several CPUs.
const TRANSLATED: &str = "(MTTCG)";
/// Meaning of translated guests for the figures.
const TRANSLATION: &str = "\
The guest was translated, a thread of the host for each of its CPUs, by the host's clock ([how](../commands/vm.md)). Its machine was described by \
`schedcast calibrate --on vm:…`. Other work of the host slows it down and disturbs it, so shares and counts say more than rates. Nothing is recorded; wakeups and \
changes of CPU are counted in runs of their own.\n\n";

/// The page of all scenarios that were ever measured into one file; `reasons` say of scenarios why
/// figures are far off.
pub fn render_page(twins: &[Twin], reasons: &BTreeMap<String, String>) -> String {
    let kernels: std::collections::BTreeSet<&str> =
        twins.iter().map(|twin| twin.kernel.as_str()).collect();
    let kernels: Vec<&str> = kernels.into_iter().collect();
    let mut text = format!(
        "# Experiments for real and in simulation: Linux {}\n\nWritten by `make validate`. {} scenarios; every \
         figure is the median of the repeats and of the seeds. A figure passes within the target of its kind or \
         inside the spread of the real repeats; figures next to nothing on both sides are left out. Repeats of which \
         the hypervisor took more than 1 % do not count.\n\n",
        kernels.join(", "),
        twins.len()
    );
    for (part, meaning) in [(EMULATED, EMULATION), (TRANSLATED, TRANSLATION)] {
        if kernels.iter().any(|kernel| kernel.contains(part)) {
            text += meaning;
        }
    }
    text += &summary(twins, "* ", "**");
    text += &far_off(twins, reasons);
    for twin in twins {
        let [kept, dropped] = twin.repeats;
        text += &format!(
            "\n## {}\n\n{}, {} CPUs, {kept} repeats, {dropped} more disturbed, steal at most {:.2} %; simulated: {}.\n\n",
            twin.scenario,
            twin.date,
            twin.cpus,
            twin.steal * 100.0,
            twin.simulated
        );
        text += "| | measured | predicted | error | |\n|---|---|---|---|---|\n";
        for row in &twin.rows {
            let shown = |value| figure(&row.metric, value);
            text += &format!(
                "| {} | {} ({} – {}) | {} | {} | {} |\n",
                row.metric,
                shown(row.measured),
                shown(row.repeats[0]),
                shown(row.repeats[1]),
                shown(row.predicted),
                error(row),
                verdict(row)
            );
        }
    }
    text
}

/// The scenarios with figures that are off by more than 2×, and why they are.
fn far_off(twins: &[Twin], reasons: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for twin in twins {
        let far: Vec<String> = twin
            .rows
            .iter()
            .filter(|row| row.is_far_off())
            .map(|row| format!("{} ({})", row.metric, error(row)))
            .collect();
        if far.is_empty() {
            continue;
        }
        let reason = reasons.get(&twin.scenario);
        let reason = reason.map_or("**not explained**", String::as_str);
        text += &format!("* {}: {}. {reason}\n", twin.scenario, far.join(", "));
    }
    match text.is_empty() {
        true => "\nBeyond a factor of 2 without being inside the spread: none.\n".to_string(),
        false => format!("\nBeyond a factor of 2 without being inside the spread:\n\n{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::Kind;
    use schedcast_base::assert_contains;

    #[test]
    fn pages_say_what_misses() {
        let row = |metric: &str, kind, predicted, measured| Row {
            metric: metric.to_string(),
            kind,
            predicted,
            measured,
            repeats: [measured, measured],
        };
        let twin = Twin {
            scenario: "limits / half".to_string(),
            date: "2026-11-21".to_string(),
            kernel: "6.18.44".to_string(),
            cpus: 2,
            simulated: "kernel 6.18, 5 seeds".to_string(),
            repeats: [3, 1],
            steal: 0.002,
            rows: vec![
                row(
                    "cgroup:/a/usage_usec",
                    Kind::Usage,
                    2_020_000.0,
                    2_000_000.0,
                ),
                row("cgroup:/a/nr_throttled", Kind::Throttling, 90.0, 40.0),
            ],
        };
        let page = render_page(std::slice::from_ref(&twin), &BTreeMap::new());
        assert!(page.contains(
            "| cgroup:/a/usage_usec | 2000.0 ms (2000.0 ms – 2000.0 ms) | 2020.0 ms | +1.0 % |  |"
        ));
        assert!(page.contains("| 90 | +125.0 % | **misses** |"), "{page}");
        assert!(page.contains(
            "CPU time and rates: median absolute error **1.0 %**, target 3 %: met; 1 of 1"
        ));
        let far = "spread:\n\n* limits / half: cgroup:/a/nr_throttled (+125.0 %). ";
        assert_contains(&page, &format!("{far}**not explained**\n"));
        let reasons = BTreeMap::from([("limits / half".to_string(), "It rained.".to_string())]);
        let explained = render_page(std::slice::from_ref(&twin), &reasons);
        assert_contains(&explained, &format!("{far}It rained.\n"));
        assert!(page.contains("p99 of latencies beyond 1 ms: none was compared, target 20 %"));
        let text = render_text(&[twin]);
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        assert!(text.contains("+125.0 % misses"), "{text}");
    }
}
