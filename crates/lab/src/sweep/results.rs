//! Results of a sweep: one row a point, as CSV, JSON and a table for a terminal.
//!
//! Worked example: the sweep of `kernel.hz` over 250 and 1000 is in CSV
//!
//! ```text
//! variant,kernel.hz,machine/wakeups,machine/wakeups ci95 low,machine/wakeups ci95 high
//! run,250,2418,2410.5,2425.5
//! run,1000,2977,2970,2984
//! ```
//!
//! The JSON form `schedcast.sweep/1` has the same numbers with units, one point a line.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use schedcast_base::fresh;
use schedcast_base::harmless::harmless;
use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};

use super::journal::sync_directory;
use crate::error::{Error, Result};
use crate::experiment::document::{Kind, Value};
use crate::experiment::sweep::short;
use crate::experiment::{Cell, Experiment};
use crate::metrics::scale::{full_name, scale_for};
use crate::metrics::{self, Better, Metric};
use schedcast_base::columns::{self, pad_left, pad_right, wrap};

/// Name and version of the JSON form.
pub(super) const SCHEMA: &str = "schedcast.sweep/1";

/// One metric of one point over all seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Brief {
    /// Mean over the seeds, in the metric's unit: harmonic for rates, arithmetic for the rest.
    pub mean: f64,
    /// The mean is a lower bound: see [`crate::comparison::Summary::at_least`].
    pub at_least: bool,
    /// 95 % interval of the mean; `None` with fewer than two samples.
    pub ci95: Option<[f64; 2]>,
}

/// One point.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Variant and values.
    pub cell: Cell,
    /// Hash over all events of all seeds, 16 hexadecimal digits.
    pub event_hash: String,
    /// Every metric the point has, in table order.
    pub metrics: Vec<(String, Brief)>,
}

impl Row {
    /// The metric `name`, if this point has it.
    pub fn get(&self, name: &str) -> Option<&Brief> {
        let found = self.metrics.iter().find(|(metric, _)| metric == name);
        found.map(|(_, brief)| brief)
    }
}

/// The results of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// Title of the experiment.
    pub title: String,
    /// Runs of each point.
    pub seeds: u32,
    /// Keys of the grid, as written.
    pub axes: Vec<String>,
    /// The parts of each key.
    pub paths: Vec<Vec<String>>,
    /// Every metric that any point has, in table order.
    pub metrics: Vec<String>,
    /// The points, variant by variant, the last axis running fastest.
    pub rows: Vec<Row>,
}

impl Results {
    pub(super) fn new(experiment: &Experiment, rows: Vec<Row>) -> Results {
        let names = rows.iter().flat_map(|row| &row.metrics);
        let names: BTreeSet<&str> = names.map(|(name, _)| name.as_str()).collect();
        let metrics = names
            .into_iter()
            .filter_map(|name| Some((metrics::parse(name)?, name)));
        let metrics = metrics::in_table_order(metrics);
        let metrics = metrics.into_iter().map(str::to_owned).collect();
        Results {
            title: experiment.title.clone(),
            seeds: experiment.seeds,
            axes: experiment
                .axes
                .iter()
                .map(|axis| axis.key.clone())
                .collect(),
            paths: experiment
                .axes
                .iter()
                .map(|axis| axis.path.clone())
                .collect(),
            metrics,
            rows,
        }
    }

    /// Comma-separated values with a header: variant, keys, then mean and interval of each metric.
    /// A value that does not exist is empty.
    pub fn to_csv(&self) -> String {
        let mut header = vec!["variant".to_string()];
        header.extend(self.axes.iter().cloned());
        for metric in &self.metrics {
            header.push(metric.clone());
            header.extend(["low", "high"].map(|end| format!("{metric} ci95 {end}")));
        }
        let mut text = csv_line(&header);
        for row in &self.rows {
            let mut fields = vec![row.cell.variant.clone()];
            fields.extend(row.cell.values.iter().map(short));
            for metric in &self.metrics {
                let brief = row.get(metric);
                let interval = brief.and_then(|brief| brief.ci95);
                let numbers = [
                    brief.map(|brief| brief.mean),
                    interval.map(|[low, _]| low),
                    interval.map(|[_, high]| high),
                ];
                fields.extend(numbers.map(|number| match number {
                    Some(number) => number.to_string(),
                    None => String::new(),
                }));
            }
            text += &csv_line(&fields);
        }
        text
    }

    /// The JSON object, one point a line.
    pub fn to_json(&self) -> String {
        let head = Head {
            schema: SCHEMA,
            title: &self.title,
            schedcast: env!("CARGO_PKG_VERSION"),
            seeds: self.seeds,
            axes: &self.axes,
        };
        let head = serde_json::to_string_pretty(&head).expect("strings and integers");
        let lines: Vec<String> = self
            .rows
            .iter()
            .map(|row| {
                let point = PointForm {
                    axes: &self.axes,
                    row,
                };
                serde_json::to_string(&point).expect("keys are strings and numbers are finite")
            })
            .collect();
        let points = lines.join(",\n    ");
        let head = head.trim_end_matches('}').trim_end();
        format!("{head},\n  \"points\": [\n    {points}\n  ]\n}}\n")
    }

    /// Writes `results.csv` and `results.json` into `folder`, each whole or not at all.
    ///
    /// # Errors
    /// A failed write.
    pub fn save(&self, folder: &Path) -> Result<()> {
        for (name, text) in [
            ("results.csv", self.to_csv()),
            ("results.json", self.to_json()),
        ] {
            let path = folder.join(name);
            let written = fresh::write(&path, text).and_then(|()| sync_directory(&path));
            written.map_err(|error| Error::file("write", path.display(), &error))?;
        }
        Ok(())
    }

    /// The usual metrics of all points; of distributions p99 alone, since a row is short.
    pub fn headline(&self) -> Vec<String> {
        let usual = |name: &&String| {
            let common = [".avg", ".p50", ".p95"]
                .iter()
                .any(|end| name.ends_with(end));
            !common && metrics::parse(name).is_some_and(|metric| metric.headline())
        };
        self.metrics.iter().filter(usual).cloned().collect()
    }

    /// A table of `metrics`, one row a point, as many columns as fit; the others are named below
    /// it.
    pub fn table(&self, metrics: &[String]) -> String {
        let mut columns = self.key_columns();
        let mut used: usize = columns.iter().map(Column::width).sum();
        let mut left_out = Vec::new();
        let parsed: Vec<Metric<'_>> = metrics
            .iter()
            .filter_map(|name| metrics::parse(name))
            .collect();
        let mut chosen: Vec<Option<Column>> = parsed.iter().map(|_| None).collect();
        // Results of programs have room before percentiles, and keep their place.
        for percentiles in [false, true] {
            for (metric, place) in parsed.iter().zip(&mut chosen) {
                if metric.suffix.is_empty() == percentiles {
                    continue;
                }
                let column = self.metric_column(metric);
                if used + column.width() <= columns::WIDTH {
                    used += column.width();
                    *place = Some(column);
                }
            }
        }
        for (metric, column) in parsed.iter().zip(chosen) {
            match column {
                Some(column) => columns.push(column),
                None => left_out.push(full_name(metric)),
            }
        }
        let height = self.rows.len() + 2;
        let line = |index: usize| {
            let cells = columns.iter().map(|column| column.cell(index));
            cells.collect::<String>().trim_end().to_string() + "\n"
        };
        let mut text: String = (0..height).map(line).collect();
        if let Some(last) = left_out.pop() {
            let mut names: Vec<String> = left_out.iter().map(|name| format!("{name},")).collect();
            names.push(last);
            text += &wrap("not shown:", &names, 2);
        }
        text + &self.alike()
    }

    /// A line for each set of points that decide alike, event by event.
    fn alike(&self) -> String {
        let mut sets: Vec<Vec<usize>> = Vec::new();
        // Sets by the hash of their events: hardly ever more than one.
        let mut by_hash: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, row) in self.rows.iter().enumerate() {
            let near = by_hash.entry(row.event_hash.as_str()).or_default();
            let metrics = |set: &&usize| &self.rows[sets[**set][0]].metrics;
            match near.iter().find(|set| *metrics(set) == row.metrics) {
                Some(&set) => sets[set].push(index),
                None => {
                    near.push(sets.len());
                    sets.push(vec![index]);
                }
            }
        }
        let keys = self.key_columns();
        let name = |&index: &usize| {
            // Two lines of the table are its head.
            let cells = keys.iter().map(|column| column.cells[index + 2].as_str());
            let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
            format!("\"{}\"", cells.join(" "))
        };
        let sentence = |set: &Vec<usize>| {
            let names: Vec<String> = set.iter().map(name).collect();
            let (last, others) = names
                .split_last()
                .filter(|(_, others)| !others.is_empty())?;
            let mut words: Vec<String> = others.iter().map(|name| format!("{name},")).collect();
            if let Some(before) = words.last_mut() {
                before.pop();
            }
            words.push(format!("and {last} decide alike here, event by event"));
            Some(wrap("points", &words, 2))
        };
        sets.iter().filter_map(sentence).collect()
    }

    fn key_columns(&self) -> Vec<Column> {
        let mut columns = Vec::new();
        let variant = |row: &Row| row.cell.variant.clone();
        let several = self
            .rows
            .windows(2)
            .any(|pair| variant(&pair[0]) != variant(&pair[1]));
        if several || self.axes.is_empty() {
            let cells = ["variant".to_string(), String::new()].into_iter();
            let cells = cells.chain(self.rows.iter().map(variant)).collect();
            columns.push(Column { cells, left: true });
        }
        for (index, path) in self.paths.iter().enumerate() {
            let (last, before) = match path.split_last() {
                Some((last, before)) => (last.clone(), before.join(".")),
                None => (String::new(), String::new()),
            };
            let values = self.rows.iter().map(|row| short(&row.cell.values[index]));
            let cells = [before, last].into_iter().chain(values).collect();
            columns.push(Column { cells, left: true });
        }
        columns
    }

    fn metric_column(&self, metric: &Metric<'_>) -> Column {
        let name = full_name(metric);
        let briefs: Vec<Option<&Brief>> = self.rows.iter().map(|row| row.get(&name)).collect();
        let means = briefs.iter().flatten().map(|brief| brief.mean.abs());
        let scale = scale_for(metric, means.fold(0.0, f64::max));
        let value = |brief: &Option<&Brief>| match brief {
            None => "-".to_string(),
            Some(brief) => {
                let value = scale.bound(brief.mean, brief.at_least);
                match brief.ci95 {
                    None => value,
                    // Of what is never negative, as in other tables.
                    Some([low, high]) if low <= 0.0 && brief.mean > 0.0 => {
                        format!("{value} ≤{}", scale.number(high))
                    }
                    Some([low, high]) => {
                        format!("{value} ±{}", scale.number((high - low) / 2.0))
                    }
                }
            }
        };
        let unit = match scale.unit {
            "" => String::new(),
            unit => format!(" ({unit})"),
        };
        let mut cells = vec![
            format!("{}/", metric.subject),
            format!("{}{unit}", metric.name),
        ];
        cells.extend(briefs.iter().map(value));
        Column { cells, left: false }
    }
}

struct Column {
    cells: Vec<String>,
    left: bool,
}

impl Column {
    /// With the two blanks that keep columns apart.
    fn width(&self) -> usize {
        let widths = self.cells.iter().map(|cell| columns::width(cell));
        widths.max().unwrap_or(0) + 2
    }

    fn cell(&self, index: usize) -> String {
        match self.left {
            true => pad_right(&self.cells[index], self.width()),
            false => pad_left(&self.cells[index], self.width()),
        }
    }
}

/// Fields with a comma, a quote or a line break are quoted, quotes doubled (RFC 4180). A name that
/// a spreadsheet would calculate (`=cmd|…`, `@SUM(…)`) gets an apostrophe in front, which makes it
/// text there. Of characters that a terminal obeys, the codes are written.
pub fn csv_line(fields: &[String]) -> String {
    let field = |field: &String| {
        let is_formula = field.starts_with(['=', '+', '-', '@', '\t', '\r']);
        let field = match is_formula && field.parse::<f64>().is_err() {
            true => format!("'{field}"),
            false => field.clone(),
        };
        let field = harmless(&field);
        match field.contains([',', '"', '\n']) {
            true => format!("\"{}\"", field.replace('"', "\"\"")),
            false => field,
        }
    };
    fields.iter().map(field).collect::<Vec<_>>().join(",") + "\n"
}

#[derive(Serialize)]
struct Head<'a> {
    schema: &'a str,
    title: &'a str,
    schedcast: &'a str,
    seeds: u32,
    axes: &'a [String],
}

/// A point in JSON.
struct PointForm<'a> {
    axes: &'a [String],
    row: &'a Row,
}

impl Serialize for PointForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let cell = &self.row.cell;
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("variant", &cell.variant)?;
        let values = cell.values.iter().map(ValueForm);
        map.serialize_entry("values", &Pairs(self.axes.iter().zip(values).collect()))?;
        map.serialize_entry("event_hash", &self.row.event_hash)?;
        let metrics = self.row.metrics.iter();
        let metrics = metrics.map(|(name, brief)| (name, MetricForm::of(name, brief)));
        map.serialize_entry("metrics", &Pairs(metrics.collect()))?;
        map.end()
    }
}

/// A map in the order of its pairs.
struct Pairs<'a, T>(Vec<(&'a String, T)>);

impl<T: Serialize> Serialize for Pairs<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

#[derive(Serialize)]
struct MetricForm {
    unit: &'static str,
    better: Better,
    mean: f64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    at_least: bool,
    ci95: Option<[f64; 2]>,
}

impl MetricForm {
    fn of(name: &str, brief: &Brief) -> MetricForm {
        let metric = metrics::parse(name);
        MetricForm {
            unit: metric.as_ref().map_or("", Metric::unit),
            better: metric.as_ref().map_or(Better::None, Metric::better),
            mean: brief.mean,
            at_least: brief.at_least,
            ci95: brief.ci95,
        }
    }
}

/// A value of a document in JSON.
struct ValueForm<'a>(&'a Value);

impl Serialize for ValueForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match &self.0.kind {
            Kind::Text(text) | Kind::Bare(text) => serializer.serialize_str(text),
            Kind::Integer(number) => serializer.serialize_i64(*number),
            Kind::Float(number) => serializer.serialize_f64(*number),
            Kind::Boolean(value) => serializer.serialize_bool(*value),
            Kind::Array(values) => {
                let mut sequence = serializer.serialize_seq(Some(values.len()))?;
                for value in values {
                    sequence.serialize_element(&ValueForm(value))?;
                }
                sequence.end()
            }
            Kind::Table(table) => {
                let mut map = serializer.serialize_map(Some(table.entries.len()))?;
                for entry in &table.entries {
                    map.serialize_entry(&entry.key, &ValueForm(&entry.value))?;
                }
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spreadsheet_calculates_nothing_from_names() {
        let fields = [
            "=1+2",
            "@SUM(A1)",
            "+cmd|' /C calc'!A0",
            "-x",
            "-5",
            "+1e3",
            "a=b",
            "a,\"b\"",
        ];
        assert_eq!(
            csv_line(&fields.map(str::to_owned)),
            "'=1+2,'@SUM(A1),'+cmd|' /C calc'!A0,'-x,-5,+1e3,a=b,\"a,\"\"b\"\"\"\n"
        );
    }
}
