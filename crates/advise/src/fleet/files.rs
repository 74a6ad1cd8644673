//! The answer as text, JSON, CSV, rules for Prometheus and a dashboard for Grafana.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Fleet, Row, Verdict};
use crate::counters::{Range, selector};
use schedcast_base::columns::{pad_left, pad_right, width};
use schedcast_kernel::group::BandwidthLimit;
use schedcast_lab::sweep::csv_line;

const THROTTLED: &str = "container_cpu_cfs_throttled_periods_total";
const PERIODS: &str = "container_cpu_cfs_periods_total";
/// The time over which rules and panels look, of Prometheus.
const OVER: &str = "10m";

/// `850m`, as Kubernetes writes CPUs.
fn milli(limit: BandwidthLimit) -> String {
    match limit.quota_ns {
        Some(quota_ns) => format!("{}m", (quota_ns * 1000).div_ceil(limit.period_ns)),
        None => "none".to_owned(),
    }
}

fn cpus(limit: BandwidthLimit) -> Option<f64> {
    let quota_ns = limit.quota_ns?;
    Some(quota_ns as f64 / limit.period_ns as f64)
}

fn percent(ratio: f64) -> String {
    format!("{:.1} %", 100.0 * ratio)
}

/// Names of the columns that people see.
pub const HEADER: [&str; 9] = [
    "container",
    "limit",
    "used",
    "lost",
    "throttled",
    "answer",
    "enough",
    "throttled then",
    "budget",
];

/// The values of one column, a container each.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Words.
    Texts(Vec<String>),
    /// Whole numbers; `None` where one is not known.
    Counts(Vec<Option<u64>>),
    /// Numbers; `None` where one is not known.
    Numbers(Vec<Option<f64>>),
}

impl Column {
    fn cell(&self, row: usize) -> String {
        match self {
            Column::Texts(texts) => texts[row].clone(),
            Column::Counts(counts) => counts[row].map_or(String::new(), |one| one.to_string()),
            Column::Numbers(numbers) => numbers[row].map_or(String::new(), |one| one.to_string()),
        }
    }
}

/// In place of a limit that is larger than the one that was enough.
const AS_NOW: &str = "as now";

impl Fleet {
    /// The answer for people: `source` is what it was read from. At most `most` rows, if that is
    /// not none.
    pub fn text(&self, source: &str, most: Option<usize>) -> String {
        let mut text = format!(
            "schedcast {} · {source} · tier counters\n",
            env!("CARGO_PKG_VERSION")
        );
        text += &format!("{}\n\n", self.summary());
        let mut table = vec![HEADER.map(str::to_owned)];
        let shown = most.unwrap_or(usize::MAX);
        table.extend(self.rows.iter().take(shown).map(|row| self.cells(row)));
        // Columns without a value are left out.
        let kept: Vec<usize> = (0..table[0].len())
            .filter(|column| {
                table.len() == 1 || table[1..].iter().any(|row| !row[*column].is_empty())
            })
            .collect();
        let widths: Vec<usize> = kept
            .iter()
            .map(|column| {
                table
                    .iter()
                    .map(|row| width(&row[*column]))
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        for row in &table {
            let cells = kept
                .iter()
                .zip(&widths)
                .map(|(column, width)| match *column {
                    0 => pad_right(&row[0], *width),
                    column => pad_left(&row[column], *width),
                });
            let line = cells.collect::<Vec<_>>().join("  ");
            text += &format!("{}\n", line.trim_end());
        }
        let hidden = self.rows.len().saturating_sub(shown);
        if hidden > 0 {
            text += &format!(
                "{hidden} more containers; --all shows them, --csv and --json write them\n"
            );
        }
        text += "\n";
        for (name, why) in self.silent.iter().take(shown) {
            text += &format!("{name}: {why}\n");
        }
        text + &self.legend()
    }

    /// One sentence for each number that a reader asks for first.
    pub fn summary(&self) -> String {
        let limited = self.rows.len();
        let throttled = limited - self.count(Verdict::Fine);
        let below = percent(self.question.throttled_below);
        let mut text = format!(
            "{throttled} of {limited} limited containers are throttled in more than {below} of their periods"
        );
        if throttled > 0 {
            let (raise, record) = (self.count(Verdict::Raise), self.count(Verdict::Record));
            text += &format!(": {raise} can be raised now, {record} must be recorded first");
        }
        text.push('.');
        let mut others = Vec::new();
        for (number, what) in [
            (self.unlimited.len(), "without a limit"),
            (self.silent.len(), "whose counters allow no answer"),
            (self.sums, "sums over pods and slices left aside"),
        ] {
            if number > 0 {
                others.push(format!("{number} {what}"));
            }
        }
        if !others.is_empty() {
            text += &format!(" Beside them: {}.", others.join(", "));
        }
        if let Some(budget) = self.question.budget_cpus {
            let given = self.rows.iter().filter_map(|row| row.given);
            let (used, saved) = given.fold((0.0, 0.0), |(used, saved), given| {
                (used + given.cpus, saved + given.saved_cpus)
            });
            text += &format!(
                "\nOf a budget of {budget} CPUs {used:.2} are given; they save at least {saved:.2} CPUs of throttled time."
            );
        }
        text
    }

    /// Texts of the columns of a row.
    pub fn cells(&self, row: &Row) -> [String; 9] {
        let enough = row.enough;
        let then = enough.map(|enough| {
            let Range { low, high } = enough.throttled_ratio;
            format!("{:.1} … {:.1} %", 100.0 * low, 100.0 * high)
        });
        let number = |value: Option<f64>| {
            value.map_or(String::new(), |value| format!("{:.0}m", 1000.0 * value))
        };
        [
            row.name.clone(),
            milli(row.known.limit),
            number(row.used_cpus()),
            number(row.lost_cpus()),
            percent(row.throttled_ratio()),
            row.verdict.name().to_owned(),
            match (row.verdict, row.least, enough) {
                _ if row.is_enough_as_counted() => AS_NOW.to_owned(),
                (Verdict::Record, Some(least), None) => format!("{} … ?", milli(least)),
                (_, _, None) => "?".to_owned(),
                (Verdict::Record, Some(least), Some(enough)) => {
                    format!("{} … {}", milli(least), milli(enough.limit))
                }
                (_, _, Some(enough)) => milli(enough.limit),
            },
            then.filter(|_| !row.is_enough_as_counted() && row.verdict != Verdict::Record)
                .unwrap_or_default(),
            row.given.map_or(String::new(), |given| milli(given.limit)),
        ]
    }

    /// Explanation of the words in the table.
    pub fn legend(&self) -> String {
        let below = percent(self.question.throttled_below);
        let mut text = format!(
            "enough: the least limit under which every demand that gives these counters is throttled in at most {below} of its periods,\n\
             also if it takes 6 % more CPU time; lost: CPU time that throttling kept back; throttled then: the range under that limit\n"
        );
        if self.rows.iter().any(Row::is_enough_as_counted) {
            text += &format!(
                "{AS_NOW}: its limit was enough, though some demand that gives these counters needs more\n"
            );
        }
        if self.count(Verdict::Record) > 0 {
            text += "record: demands that give these counters need limits too far apart, from the easiest to the hardest;\n\
                     `schedcast record --pod …` gives a point\n";
        }
        if self.rows.iter().any(|row| row.enough.is_none()) {
            text += "?: no demand of the family gives these counters, or none is content with all CPUs\n";
        }
        text
    }

    /// The answer for programs, `schedcast.fleet/1`.
    pub fn json(&self) -> String {
        let value = json!({
            "schema": "schedcast.fleet/1",
            "tier": "counters",
            "throttled_below": self.question.throttled_below,
            "budget_cpus": self.question.budget_cpus,
            "unlimited": self.unlimited.len(),
            "sums": self.sums,
            "silent": self.silent.iter().map(|(name, why)| json!({"name": name, "why": why})).collect::<Vec<_>>(),
            "containers": self.rows.iter().map(json_row).collect::<Vec<_>>(),
        });
        format!("{value:#}\n")
    }

    /// Comma-separated values with a header, a line for each container; what is not known is empty.
    pub fn csv(&self) -> String {
        let columns = self.columns();
        let header: Vec<String> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let mut text = csv_line(&header);
        for row in 0..self.rows.len() + self.unlimited.len() + self.silent.len() {
            let cells: Vec<String> = columns.iter().map(|(_, column)| column.cell(row)).collect();
            text += &csv_line(&cells);
        }
        text
    }

    /// All containers as named columns, first the limited ones, then those without a limit and
    /// those without an answer: limits and use in CPUs, shares between 0 and 1, the period in
    /// microseconds.
    pub fn columns(&self) -> Vec<(&'static str, Column)> {
        let (rows, unlimited, silent) = (&self.rows, &self.unlimited, &self.silent);
        let others = unlimited.len() + silent.len();
        let numbers = |of: &dyn Fn(&Row) -> Option<f64>| {
            let none = std::iter::repeat_n(None, others);
            Column::Numbers(rows.iter().map(of).chain(none).collect())
        };
        let counts = |of: &dyn Fn(&Row) -> u64| {
            let none = std::iter::repeat_n(None, others);
            Column::Counts(rows.iter().map(|row| Some(of(row))).chain(none).collect())
        };
        let texts = |of: &dyn Fn(&Row) -> String,
                     of_unlimited: &dyn Fn(&str) -> String,
                     of_silent: &dyn Fn(&(String, String)) -> String| {
            let unlimited = unlimited.iter().map(|(name, _)| of_unlimited(name));
            let others = unlimited.chain(silent.iter().map(of_silent));
            Column::Texts(rows.iter().map(of).chain(others).collect())
        };
        let used = rows.iter().map(Row::used_cpus);
        let used = used.chain(unlimited.iter().map(|(_, used_cpus)| *used_cpus));
        let used = used.chain(silent.iter().map(|_| None)).collect();
        let throttled_then = |row: &Row| row.enough.map(|enough| enough.throttled_ratio);
        vec![
            (
                "container",
                texts(&|row| row.name.clone(), &str::to_owned, &|one| {
                    one.0.clone()
                }),
            ),
            ("limit_cpus", numbers(&|row| cpus(row.known.limit))),
            ("period_us", counts(&|row| row.known.limit.period_ns / 1000)),
            ("used_cpus", Column::Numbers(used)),
            ("lost_cpus", numbers(&Row::lost_cpus)),
            ("periods", counts(&|row| row.known.nr_periods)),
            (
                "throttled_ratio",
                numbers(&|row| Some(row.throttled_ratio())),
            ),
            (
                "answer",
                texts(
                    &|row| row.verdict.name().to_owned(),
                    &|_| "unlimited".to_owned(),
                    &|_| "unknown".to_owned(),
                ),
            ),
            ("least_cpus", numbers(&|row| row.least.and_then(cpus))),
            ("enough_cpus", numbers(&|row| cpus(row.enough?.limit))),
            (
                "enough_throttled_low",
                numbers(&|row| Some(throttled_then(row)?.low)),
            ),
            (
                "enough_throttled_high",
                numbers(&|row| Some(throttled_then(row)?.high)),
            ),
            ("budget_cpus", numbers(&|row| cpus(row.given?.limit))),
            (
                "why_unknown",
                texts(&|_| String::new(), &|_| String::new(), &|one| one.1.clone()),
            ),
        ]
    }

    /// Alerting rules for Prometheus, in JSON, which is YAML too: a container that is raised as
    /// told here and is still throttled more often than any matching demand contradicts its
    /// forecast.
    pub fn rules(&self) -> String {
        let raised = self.of_one_selector(|row| row.verdict == Verdict::Raise);
        let rules: Vec<Value> = raised
            .into_iter()
            .filter_map(|(of, rows)| {
                // Of containers that share a selector the one that needs most.
                let needs = |row: &&&Row| row.enough.and_then(|enough| enough.limit.quota_ns);
                let row = rows.iter().max_by_key(needs)?;
                let enough = row.enough?;
                let highs = rows.iter().filter_map(|row| Some(row.enough?.throttled_ratio.high));
                let high = highs.fold(self.question.throttled_below, f64::max);
                let below = cpus(enough.limit)?;
                let name = no_template(&row.name) + &others(&rows);
                Some(json!({
                    "alert": "ThrottledMoreThanForecast",
                    "expr": format!(
                        "sum(rate({THROTTLED}{of}[{OVER}])) / sum(rate({PERIODS}{of}[{OVER}])) > {high:.4}"
                    ),
                    "for": OVER,
                    "labels": {"severity": "info"},
                    "annotations": {
                        "summary": format!("{name} is throttled more often than forecast for {}", milli(enough.limit)),
                        "description": format!(
                            "With a limit of {below} CPUs at most {} of its periods were forecast to be throttled; record it with `schedcast record`.",
                            percent(high)
                        ),
                    },
                }))
            })
            .collect();
        let groups = json!({"groups": [{"name": "schedcast", "rules": rules}]});
        format!("{groups:#}\n")
    }

    /// Rows that are `wanted`, with those that share their selector: Prometheus shows the replicas
    /// of a workload as one, so that they have one rule and one panel. In the order of the first.
    fn of_one_selector(&self, wanted: impl Fn(&Row) -> bool) -> Vec<(String, Vec<&Row>)> {
        let mut shared: Vec<(String, Vec<&Row>)> = Vec::new();
        let mut places = BTreeMap::new();
        for row in self.rows.iter().filter(|row| wanted(row)) {
            let of = selector(&row.labels);
            let place = *places.entry(of.clone()).or_insert(shared.len());
            match shared.get_mut(place) {
                Some((_, rows)) => rows.push(row),
                None => shared.push((of, vec![row])),
            }
        }
        shared
    }

    /// A dashboard for Grafana: throttled share and CPUs used of the containers that are throttled
    /// too often.
    pub fn dashboard(&self) -> String {
        let throttled = self.of_one_selector(|row| row.verdict != Verdict::Fine);
        let mut panels = Vec::new();
        for (place, (of, rows)) in throttled.into_iter().enumerate() {
            // The one that is throttled most.
            let row = rows[0];
            let name = row.name.clone() + &others(&rows);
            let goal = row.enough.map(|enough| milli(enough.limit));
            let goal = goal.filter(|_| row.verdict == Verdict::Raise);
            let title = match goal {
                Some(goal) => format!("{name}: {} → {goal}", milli(row.known.limit)),
                None => format!("{name}: record it"),
            };
            panels.push(json!({
                "id": place + 1,
                "type": "timeseries",
                "title": title,
                "datasource": {"type": "prometheus", "uid": "${source}"},
                "gridPos": {"h": 8, "w": 12, "x": place % 2 * 12, "y": place / 2 * 8},
                "fieldConfig": {"defaults": {"unit": "percentunit", "min": 0}},
                "targets": [{
                    "refId": "A",
                    "legendFormat": "throttled periods",
                    "expr": format!("sum(rate({THROTTLED}{of}[{OVER}])) / sum(rate({PERIODS}{of}[{OVER}]))"),
                }, {
                    "refId": "B",
                    "legendFormat": "asked for",
                    "expr": format!("vector({})", self.question.throttled_below),
                }],
            }));
        }
        let dashboard = json!({
            "title": "schedcast: containers throttled too often",
            "schemaVersion": 39,
            "time": {"from": "now-6h", "to": "now"},
            "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}]},
            "panels": panels,
        });
        format!("{dashboard:#}\n")
    }
}

fn json_row(row: &Row) -> Value {
    let limit = |limit: BandwidthLimit| {
        json!({
            "cpus": cpus(limit),
            "quota_us": limit.quota_ns.map(|ns| ns / 1000),
            "period_us": limit.period_ns / 1000,
        })
    };
    let enough = row.enough.map(|enough| {
        let range = enough.throttled_ratio;
        json!({"limit": limit(enough.limit), "throttled_ratio": [range.low, range.high]})
    });
    let given = row.given.map(|given| {
        json!({"limit": limit(given.limit), "cpus": given.cpus, "saved_cpus": given.saved_cpus})
    });
    json!({
        "name": row.name,
        "labels": row.labels,
        "limit": limit(row.known.limit),
        "used_cpus": row.used_cpus(),
        "lost_cpus": row.lost_cpus(),
        "nr_periods": row.known.nr_periods,
        "nr_throttled": row.known.nr_throttled,
        "throttled_ratio": row.throttled_ratio(),
        "answer": row.verdict.name(),
        "least": row.least.map(limit),
        "enough": enough,
        "budget": given,
    })
}

/// Behind the name of a container: how many more have its selector.
fn others(rows: &[&Row]) -> String {
    match rows.len() {
        0 | 1 => String::new(),
        all => format!(" and {} more of its selector", all - 1),
    }
}

/// A name in an annotation, which Prometheus takes for a template of Go.
fn no_template(name: &str) -> String {
    name.replace("{{", "{{`{{`}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_an_annotation_is_no_template() {
        let shown = no_template("web {{ query \"up\" }}");
        assert_eq!(shown, "web {{`{{`}} query \"up\" }}");
    }
}
