//! cyclictest's summary and histogram.

use schedcast_sim::histogram::Histogram;

use super::{Options, thread_metric};
use crate::programs::model::Model;
use crate::programs::results::{MetricMap, Results};

/// Measurements of one thread, in the printed unit.
#[derive(Default)]
struct Row {
    cycles: u64,
    min: u64,
    last: u64,
    average: u64,
    max: u64,
}

impl Options {
    fn unit_ns(&self) -> u64 {
        if self.nanoseconds { 1 } else { 1000 }
    }

    fn row(&self, results: &Results, thread: u64) -> Row {
        let unit_ns = self.unit_ns();
        let last = results.values(&thread_metric("last", thread));
        let Some(values) = results.values(&thread_metric("latency", thread)) else {
            return Row::default();
        };
        let max = values.max().unwrap_or(0) / unit_ns;
        Row {
            cycles: values.count(),
            min: values.min().unwrap_or(0) / unit_ns,
            last: last.and_then(Histogram::max).map_or(max, |ns| ns / unit_ns),
            average: values.mean().unwrap_or(0.0) as u64 / unit_ns,
            max,
        }
    }

    fn histogram(&self, results: &Results, rows: u64) -> String {
        let unit_ns = self.unit_ns();
        let mut columns: Vec<Vec<u64>> = Vec::new();
        let mut overflows: Vec<u64> = Vec::new();
        for thread in 0..self.threads {
            let (column, overflow) = match results.values(&thread_metric("latency", thread)) {
                Some(values) => counts(values, rows, unit_ns),
                None => (vec![0; rows as usize], 0),
            };
            columns.push(column);
            overflows.push(overflow);
        }
        if self.histogram_of_all {
            let sum = |row: usize| columns.iter().map(|column| column[row]).sum();
            columns.push((0..rows as usize).map(sum).collect());
            overflows.push(overflows.iter().sum());
        }
        let mut text = String::from("# Histogram\n");
        for row in 0..rows as usize {
            let cells: Vec<String> = columns
                .iter()
                .map(|column| format!("{:06}", column[row]))
                .collect();
            text += &format!("{row:06} {}\n", cells.join("\t"));
        }
        let totals: Vec<u64> = columns.iter().map(|column| column.iter().sum()).collect();
        text += &line("Total", &totals, 9);
        let summaries: Vec<Row> = (0..self.threads)
            .map(|thread| self.row(results, thread))
            .collect();
        let each = |of: fn(&Row) -> u64| summaries.iter().map(of).collect::<Vec<u64>>();
        text += &line("Min Latencies", &each(|row| row.min), 5);
        text += &line("Avg Latencies", &each(|row| row.average), 5);
        let mut max = each(|row| row.max);
        if self.histogram_of_all {
            max.push(max.iter().copied().max().unwrap_or(0));
        }
        text += &line("Max Latencies", &max, 5);
        text += &line("Histogram Overflows", &overflows, 5);
        text += "# Histogram Overflow at cycle number:\n";
        for thread in 0..self.threads {
            text += &format!("# Thread {thread}:\n");
        }
        text + "\n"
    }
}

impl Model for Options {
    fn length_ns(&self) -> Option<u64> {
        self.duration_ns
    }

    fn endless_without(&self) -> Option<&'static str> {
        (self.loops == 0 && self.duration_ns.is_none()).then_some("-l 1000 or -D 20s")
    }

    fn idle_latency_limit_us(&self) -> Option<u32> {
        self.idle_latency_limit_us
    }

    fn metrics(&self, results: &Results, map: &mut MetricMap) {
        results.put_latency(map, "latency");
    }

    fn report(&self, results: &Results) -> String {
        let mut text = match self.idle_latency_limit_us {
            Some(limit_us) => format!("# /dev/cpu_dma_latency set to {limit_us}us\n"),
            None => String::new(),
        };
        if let Some(rows) = self.histogram_us {
            return text + &self.histogram(results, rows);
        }
        for thread in 0..self.threads {
            let row = self.row(results, thread);
            let wide = if self.nanoseconds { 8 } else { 5 };
            // The forecast has no thread numbers of the system; they begin at 2 here.
            text += &format!(
                "T:{thread:2} ({:5}) P:{:2} I:{} C:{:7} Min:{:7} Act:{:wide$} Avg:{:wide$} Max:{:8}\n",
                thread + 2,
                self.priority_of(thread),
                self.interval_us_of(thread),
                row.cycles,
                row.min,
                row.last,
                row.average,
                row.max
            );
        }
        text
    }
}

fn line(name: &str, values: &[u64], width: usize) -> String {
    let values: Vec<String> = values
        .iter()
        .map(|value| format!("{value:0width$}"))
        .collect();
    format!("# {name}: {}\n", values.join(" "))
}

/// Samples of each printed unit below `rows`, and how many were above.
fn counts(values: &Histogram, rows: u64, unit_ns: u64) -> (Vec<u64>, u64) {
    let mut column = vec![0; rows as usize];
    let mut overflow = 0;
    for (low, _, count) in values.iter() {
        match column.get_mut((low / unit_ns) as usize) {
            Some(cell) => *cell += count,
            None => overflow += count,
        }
    }
    (column, overflow)
}
