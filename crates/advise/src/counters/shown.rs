//! The answer of the *counters* tier, for programs and for people.

use std::fmt::Write;

use super::{Bounds, Range};

impl Bounds {
    /// The answer for programs, `schedcast.counters/1`.
    pub fn json(&self) -> String {
        let range = |range: Range| serde_json::json!([range.low, range.high]);
        let known = &self.known;
        let outlooks = self.outlooks.iter().map(|outlook| {
            serde_json::json!({
                "name": outlook.name,
                "quota_us": outlook.limit.quota_ns.map(|ns| ns / 1000),
                "period_us": outlook.limit.period_ns / 1000,
                "burst_us": outlook.limit.burst_ns / 1000,
                "nr_throttled_ratio": range(outlook.throttled_ratio),
                "throttled_ms": range(outlook.throttled_ms),
            })
        });
        let value = serde_json::json!({
            "schema": "schedcast.counters/1",
            "tier": "counters",
            "cgroup": known.cgroup,
            "name": known.label,
            "recorded": {
                "nr_periods": known.nr_periods,
                "nr_throttled": known.nr_throttled,
                "throttled_ms": known.throttled_ns.map(|ns| ns as f64 / 1e6),
                "usage_ms": known.usage_ns.map(|ns| ns as f64 / 1e6),
                "restarts": known.restarts,
            },
            "demands": {
                "from": if self.are_samples { "samples" } else { "family" },
                "tried": self.tried,
                "matching": self.matching,
                "tolerance": self.tolerance,
            },
            "usage_ms": range(self.usage_ms),
            "limits": outlooks.collect::<Vec<_>>(),
        });
        format!("{value:#}\n")
    }

    /// The answer for people; `source` is what it was read from: `recording pg`.
    pub fn text(&self, source: &str) -> String {
        let known = &self.known;
        let seconds = known.window_ns as f64 / 1e9;
        let mut text = format!(
            "schedcast {} · {source}, {seconds:.1} s · {} CPUs · tier counters\n",
            env!("CARGO_PKG_VERSION"),
            known.cpus
        );
        let group = known.label.as_deref().unwrap_or(&known.cgroup);
        let used = format!(
            "they use {:.0} to {:.0} ms of CPU time",
            self.usage_ms.low, self.usage_ms.high
        );
        let _ = match self.are_samples {
            true => writeln!(
                text,
                "group {group}: its demand as it was sampled, in {} orders and numbers of CPUs; {used}\n",
                self.matching
            ),
            false => writeln!(
                text,
                "group {group}: {} of {} simulated demands give{} the recorded counters; {used}\n",
                self.matching,
                self.tried,
                if self.tolerance > 1.0 { " roughly" } else { "" },
            ),
        };
        let names = self
            .outlooks
            .iter()
            .map(|outlook| outlook.name.chars().count());
        let width = names.max().unwrap_or(0).max("recorded".len());
        text += &format!(
            "{:width$}  {:>24}  {:>20}\n",
            "", "throttled periods (%)", "throttled time (ms)"
        );
        let throttled_ms = known
            .throttled_ns
            .map(|ns| format!("{:.0}", ns as f64 / 1e6));
        text += &format!(
            "{:width$}  {:>24.1}  {:>20}\n",
            "recorded",
            100.0 * known.ratio(),
            throttled_ms.as_deref().unwrap_or("unknown")
        );
        for outlook in &self.outlooks {
            let percent = format!(
                "{:.1} … {:.1}",
                100.0 * outlook.throttled_ratio.low,
                100.0 * outlook.throttled_ratio.high
            );
            let (low, high) = (outlook.throttled_ms.low, outlook.throttled_ms.high);
            let time = format!("{low:.0} … {high:.0}");
            text += &format!("{:width$}  {percent:>24}  {time:>20}\n", outlook.name);
        }
        text.push('\n');
        if let Some((parent, cpus)) = &known.limited_parent {
            text += &format!(
                "{parent} around it is limited to {} CPU, which these ranges do not know: what it holds back comes on top.\n",
                (cpus * 1000.0).round() / 1000.0
            );
        }
        if known.restarts > 0 {
            let times = match known.restarts {
                1 => "once".to_owned(),
                many => format!("{many} times"),
            };
            text += &format!(
                "Counters fell {times}: the group began anew, and what it counted just before that is not known.\n"
            );
        }
        if known.usage_ns.is_none() {
            text +=
                "`usage_usec` (v1: cpuacct.usage) of the same window would narrow the ranges.\n";
        }
        if known.throttled_ns.is_none() {
            text += "Throttled time of the same window would narrow the ranges.\n";
        }
        if let (Some(samples), true) = (&known.samples, self.are_samples) {
            text += &samples.note(known);
        } else if known.samples.is_some() {
            text += "The limit throttled the group while it was sampled, so the samples show what it let through, not the demand: sample again under a looser limit.\n";
        }
        text += "A recording of scheduler events (`schedcast record`) would give values instead of ranges.\n";
        text
    }
}
