//! Published effects of upgrades and commits, beside their forecasts.
//!
//! Worked example: a report says 14.6 % less throughput, so `percent = -14.6` of a metric of which
//! more is better. A forecast of −9 % (−10 to −8) has the direction; one of −0.4 % that seeds alone
//! may make has not. Of a report of no change the same −0.4 % is right, and so is every forecast
//! below [`LEVEL_PERCENT`].

use std::collections::BTreeMap;

use schedcast_lab::comparison::{Change, Comparison};
use serde::Deserialize;

use crate::{Outcome, run};

/// Largest change that reports call "no change": the hackbench report of s390 calls 1.4 % level.
const LEVEL_PERCENT: f64 = 2.0;
/// A forecast below this is no effect, however sure: reports are of effects ten times as large.
const LEAST_PERCENT: f64 = 0.5;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reports {
    report: Vec<Report>,
}

/// Published effect on a load, and the load.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    name: String,
    source: String,
    published: String,
    taken: Option<String>,
    direction: Direction,
    percent: Option<f64>,
    metric: String,
    outside: Option<String>,
    experiment: Option<String>,
    kernel: Option<toml::Table>,
    before: Option<toml::Table>,
    after: Option<toml::Table>,
    seeds: Option<u32>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Direction {
    Slower,
    Faster,
    Same,
}

schedcast_base::named! {
    /// Verdict on a forecast.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Verdict {
        Right = "right",
        Wrong = "wrong",
        /// Seeds alone may make what is forecast where a change was published, or it is next to
        /// nothing.
        Unseen = "no effect forecast",
        Outside = "outside the model",
    }
}

/// A forecast of a report.
struct Forecast {
    change: Change,
    alike: bool,
}

impl Report {
    fn forecast(&self) -> Outcome<Option<Forecast>> {
        if self.outside.is_some() {
            return Ok(None);
        }
        let seen = run::every_seed(&self.name, self.text()?, self.seeds.unwrap_or(5))?;
        let comparison = Comparison::new(&self.name, &seen.scenarios, &seen.outcomes)?;
        let [before, after] = comparison.variants.as_slice() else {
            return Err(format!("`{}`: two columns were expected", self.name).into());
        };
        let summary = after.get(&self.metric);
        let change = summary.and_then(|summary| summary.vs_baseline.clone());
        let change = change.ok_or_else(|| format!("`{}` has no {}", self.name, self.metric))?;
        Ok(Some(Forecast {
            change,
            alike: before.event_hash == after.event_hash,
        }))
    }

    /// The experiment with the two kernels as its columns.
    fn text(&self) -> Outcome<String> {
        let missing = |what: &str| format!("`{}` has neither `outside` nor `{what}`", self.name);
        let mut text = self.experiment.clone().ok_or(missing("experiment"))?;
        for (name, own) in [("before", &self.before), ("after", &self.after)] {
            let own = own.as_ref().ok_or(missing(name))?;
            let mut kernel = self.kernel.clone().unwrap_or_default();
            kernel.extend(own.clone());
            let column = toml::Table::from_iter([
                ("name".to_owned(), toml::Value::from(name)),
                ("kernel".to_owned(), toml::Value::from(kernel)),
            ]);
            let columns = toml::Value::Array(vec![toml::Value::Table(column)]);
            let variant = toml::Table::from_iter([("variant".to_owned(), columns)]);
            text += "\n";
            text += &toml::to_string(&variant)?;
        }
        Ok(text)
    }

    fn verdict(&self, forecast: Option<&Forecast>) -> Verdict {
        let Some(Forecast { change, .. }) = forecast else {
            return Verdict::Outside;
        };
        let percent = percent(change.ratio);
        match self.percent {
            _ if self.direction == Direction::Same => {
                match change.significant && percent.abs() >= LEVEL_PERCENT {
                    true => Verdict::Wrong,
                    false => Verdict::Right,
                }
            }
            _ if !change.significant || percent.abs() < LEAST_PERCENT => Verdict::Unseen,
            Some(published) if published.signum() == percent.signum() => Verdict::Right,
            _ => Verdict::Wrong,
        }
    }
}

/// Simulates every report of a file; the page. `reasons` are sentences by the names of reports.
pub(crate) fn page(file: &str, reasons: &str) -> Outcome<String> {
    let reports: Reports = toml::from_str(file)?;
    let reasons: BTreeMap<String, String> = toml::from_str(reasons)?;
    let names: Vec<&str> = reports.report.iter().map(|one| one.name.as_str()).collect();
    if let Some(stray) = reasons.keys().find(|name| !names.contains(&name.as_str())) {
        return Err(format!("a reason is given for `{stray}`, which is no report").into());
    }
    let forecasts = reports
        .report
        .iter()
        .map(|report| {
            let forecast = report.forecast()?;
            let shown = forecast.as_ref().map_or("–".to_owned(), said);
            eprintln!(
                "{}: {} published, {shown} forecast",
                report.name,
                published(report)
            );
            Ok(forecast)
        })
        .collect::<Outcome<Vec<_>>>()?;
    let rows: Vec<_> = reports.report.iter().zip(&forecasts).collect();
    let verdicts = rows
        .iter()
        .map(|(report, forecast)| report.verdict(forecast.as_ref()));
    let verdicts: Vec<Verdict> = verdicts.collect();
    Ok(render(&rows, &verdicts, &reasons))
}

fn render(
    rows: &[(&Report, &Option<Forecast>)],
    verdicts: &[Verdict],
    reasons: &BTreeMap<String, String>,
) -> String {
    let counted = Verdict::ALL.map(|verdict| {
        let count = verdicts.iter().filter(|one| **one == verdict).count();
        format!("{}: {count}", verdict.name())
    });
    let mut text = format!(
        "# Upgrades and commits, published and forecast\n\n\
         Written by `make upgrades` from `validation/upgrades.toml`, which was committed before any of these loads was simulated: sources, machines, \
         commits, commands, and the published direction and size. Forecast is the same command between the release before a \
         commit and that release with the commit. What is judged is the direction: a forecast has it if it is beyond what seeds make, at least \
         {LEAST_PERCENT} %, and has the published sign; of a report of no change, if it stays below {LEVEL_PERCENT} % or within what seeds make. Sizes are those of machines \
         that nobody measured for schedcast, and are not judged.\n\n\
         Of {} measurements: {}.\n\n\
         | report | metric | published | forecast | direction |\n|---|---|---|---|---|\n",
        rows.len(),
        counted.join(", "),
    );
    for ((report, forecast), verdict) in rows.iter().zip(verdicts) {
        text += &format!(
            "| [{}](#{}) | `{}` | {} | {} | {} |\n",
            report.name,
            report.name.replace('.', ""),
            report.metric,
            published(report),
            forecast.as_ref().map_or("–".to_owned(), said),
            verdict.name(),
        );
    }
    for ((report, forecast), verdict) in rows.iter().zip(verdicts) {
        text += &format!(
            "\n## {}\n\n{}.\n\n",
            report.name,
            capital(&report.published)
        );
        let (address, note) = match report.source.split_once(' ') {
            Some((address, note)) => (address, format!(" {note}")),
            None => (report.source.as_str(), String::new()),
        };
        text += &format!("Source: <{address}>{note}\n");
        if let Some(taken) = &report.taken {
            text += &format!("\nTaken for what it leaves open: {taken}.\n");
        }
        if let Some(outside) = &report.outside {
            text += &format!("\nOutside the model: {outside}.\n");
        }
        if forecast.as_ref().is_some_and(|forecast| forecast.alike) {
            text += "\nThe two kernels decide alike here, event by event. What their code costs is not modelled.\n";
        }
        if let Some(reason) = reasons.get(&report.name) {
            text += &format!("\n{reason}\n");
        } else if matches!(verdict, Verdict::Wrong | Verdict::Unseen) {
            text += "\nWhy is not known.\n";
        }
    }
    text
}

fn published(report: &Report) -> String {
    match (report.percent, report.direction) {
        (Some(percent), _) => format!("{percent:+.1} %").replace('-', "\u{2212}"),
        (None, Direction::Same) => "level".to_owned(),
        (None, Direction::Faster) => "faster".to_owned(),
        (None, Direction::Slower) => "slower".to_owned(),
    }
}

fn said(forecast: &Forecast) -> String {
    let change = &forecast.change;
    let mut text = format!("{:+.1} %", percent(change.ratio));
    if let Some([low, high]) = change.ci95.get() {
        let (low, high) = (percent(Some(low)), percent(Some(high)));
        text += &format!(" ({low:+.1} to {high:+.1})");
    }
    text.replace('-', "\u{2212}")
}

fn percent(ratio: Option<f64>) -> f64 {
    ratio.map_or(f64::NAN, |ratio| (ratio - 1.0) * 100.0)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}
