//! `accept.toml`: what a prediction has to show, and how its tables look.
//!
//! ```toml
//! [[accept]]
//! claim = "runs that are throttled at all"
//! figure = "runs_throttled"          # a figure the predictor computes …
//! low = 75
//! high = 92
//! unit = "%"
//!
//! [[accept]]
//! claim = "tail of the printed run"
//! metric = "request_latency.p90"     # … or published rows: each that matches is judged
//! kernel = "base"
//! within = 300
//! ```
//!
//! Tests of rows: `within` (absolute) and `within_percent` compare values with what was published;
//! `between = ["p5", "p95"]` wants the published value between two of our figures;
//! `ratio = [1.9, 4.4]`, `same_sign` and `change_rule` compare patched/base. The change rule: a row
//! noted as noise passes when our change is within the larger of twice the published spread and
//! 1 %, one whose published change is below 2 % passes within ±2 points, and any other needs the
//! published sign and a log-ratio within ±40 % of the published one. Worked example: published
//! 1.212×, so ln = 0.192 and 0.115 to 0.269 pass: 1.12× to 1.31×.

use schedcast_lab::error::{Error, Result};
use serde::Deserialize;

use super::prediction::Prediction;
use super::published::{Kernel, Published, Row};

/// Kind of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A published number.
    #[default]
    Published,
    /// The mechanism behind it.
    Mechanism,
    /// Claim about a change that was not made.
    Counterfactual,
    /// Claim that no published measurement covers.
    Free,
}

/// One `[[accept]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Accept {
    claim: String,
    #[serde(default)]
    kind: Kind,
    figure: Option<String>,
    table: Option<String>,
    workload: Option<String>,
    point: Option<String>,
    metric: Option<String>,
    kernel: Option<String>,
    low: Option<f64>,
    high: Option<f64>,
    #[serde(default)]
    unit: String,
    within: Option<f64>,
    within_percent: Option<f64>,
    ratio: Option<[f64; 2]>,
    /// Figures that the published value must lie between.
    between: Option<[String; 2]>,
    #[serde(default)]
    slack_percent: f64,
    #[serde(default)]
    same_sign: bool,
    #[serde(default)]
    change_rule: bool,
    /// Published value, where it is no row.
    published: Option<String>,
}

/// How a table of the publication looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Layout {
    /// mmtests' comparison: value and improvement, positive is better.
    Mmtests,
    /// schbench's percentiles.
    Schbench,
    /// lkp's comparison: base, raw change, patched.
    Lkp,
    /// Values and ratio.
    Plain,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableLayout {
    table: String,
    layout: Layout,
}

/// Scope and method of the comparison with the null predictors.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Score {
    /// Only these tables; all if empty.
    #[serde(default)]
    pub tables: Vec<String>,
    /// Values are counts, some of them 0: half a count is added to both sides of a ratio.
    #[serde(default)]
    pub counts: bool,
}

/// A whole `accept.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Acceptance {
    accept: Vec<Accept>,
    #[serde(default)]
    layout: Vec<TableLayout>,
    #[serde(default)]
    pub score: Score,
}

/// A judged claim.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Verdict {
    /// Text of the claim.
    pub claim: String,
    /// Kind of the claim.
    pub kind: Kind,
    /// Published value, as text; empty if there is none.
    pub published: String,
    /// Accepted values, as text.
    pub band: String,
    /// Predicted value, as text.
    pub ours: String,
    /// Our value; null if the predictor said nothing.
    pub value: Option<f64>,
    /// Whether it passes.
    pub pass: bool,
}

impl Acceptance {
    pub(super) fn parse(file: &str, text: &str) -> Result<Acceptance> {
        toml::from_str(text).map_err(|error| Error::general(format!("{file}: {error}")))
    }

    pub(super) fn layout(&self, table: &str) -> Layout {
        let found = self.layout.iter().find(|one| one.table == table);
        found.map_or(Layout::Plain, |one| one.layout)
    }

    /// Judges a prediction: one verdict for each figure and for each row that is matched.
    ///
    /// # Errors
    /// A claim that matches no row, or has no test.
    pub(super) fn judge(
        &self,
        published: &Published,
        prediction: &Prediction,
    ) -> Result<Vec<Verdict>> {
        let mut verdicts = Vec::new();
        for accept in &self.accept {
            match &accept.figure {
                Some(name) => verdicts.push(accept.judge_figure(prediction.figure_named(name))?),
                None => {
                    let rows: Vec<&Row> = accept.rows(published).collect();
                    if rows.is_empty() {
                        return Err(Error::general(format!("`{}` matches no row", accept.claim)));
                    }
                    for &row in &rows {
                        let several = rows.len() > 1;
                        verdicts.push(accept.judge_row(published, prediction, row, several)?);
                    }
                }
            }
        }
        Ok(verdicts)
    }
}

impl Accept {
    fn rows<'a>(&'a self, published: &'a Published) -> impl Iterator<Item = &'a Row> {
        let compares_kernels = self.ratio.is_some() || self.same_sign || self.change_rule;
        published.rows.iter().filter(move |row| {
            let asked = &row.question;
            let is = |wanted: &Option<String>, value: &str| {
                wanted.as_deref().is_none_or(|wanted| wanted == value)
            };
            row.role == super::published::Role::Predict
                && (asked.kernel == Kernel::Patched || !compares_kernels)
                && is(&self.table, &asked.table)
                && is(&self.workload, &asked.workload)
                && is(&self.point, &asked.point)
                && is(&self.metric, &asked.metric)
                && is(&self.kernel, asked.kernel.name())
        })
    }

    fn judge_figure(&self, value: Option<f64>) -> Result<Verdict> {
        let unit = &self.unit;
        let band = range(self.low, self.high, unit)
            .ok_or_else(|| Error::general(format!("`{}` needs `low` or `high`", self.claim)))?;
        let inside = |value: f64| {
            self.low.is_none_or(|low| value >= low) && self.high.is_none_or(|high| value <= high)
        };
        Ok(Verdict {
            claim: self.claim.clone(),
            kind: self.kind,
            published: self.published.clone().unwrap_or_default(),
            band,
            ours: value.map_or("none".into(), |value| with_unit(value, unit)),
            value,
            pass: value.is_some_and(inside),
        })
    }

    fn judge_row(
        &self,
        published: &Published,
        prediction: &Prediction,
        row: &Row,
        several: bool,
    ) -> Result<Verdict> {
        let asked = &row.question;
        let claim = match several {
            true => format!("{}: {} {}", self.claim, asked.point, asked.metric),
            false => self.claim.clone(),
        };
        let mut verdict = Verdict {
            claim,
            kind: self.kind,
            published: with_unit(row.value, &asked.unit),
            band: String::new(),
            ours: "none".to_string(),
            value: None,
            pass: false,
        };
        let ours = prediction.answered(asked.index).map(|answer| answer.value);
        if let Some([low, high]) = &self.between {
            let figures = [low, high].map(|name| prediction.figure_named(name));
            if let [Some(low), Some(high)] = figures {
                let slack = self.slack_percent / 100.0;
                let ends = (low * (1.0 - slack), high * (1.0 + slack));
                verdict.band = range(Some(ends.0), Some(ends.1), &asked.unit).unwrap_or_default();
                verdict.set(ours, |ours| with_unit(ours, &asked.unit), ends);
                // Here it is the published value that is judged.
                verdict.pass = row.value >= ends.0 && row.value <= ends.1;
            }
            return Ok(verdict);
        }
        if let Some(reach) = self.within.or(self
            .within_percent
            .map(|percent| row.value * percent / 100.0))
        {
            let ends = (row.value - reach, row.value + reach);
            verdict.band = range(Some(ends.0), Some(ends.1), &asked.unit).unwrap_or_default();
            verdict.set(ours, |ours| with_unit(ours, &asked.unit), ends);
            return Ok(verdict);
        }
        let base = published.base_of(row);
        let published_ratio = base.map(|base| row.value / base.value);
        let our_base = base.and_then(|base| prediction.answered(base.question.index));
        let our_ratio = our_base.zip(ours).map(|(base, ours)| ours / base.value);
        let ends = match (self.ratio, published_ratio) {
            (Some([low, high]), _) => (low, high),
            (None, Some(ratio)) if self.same_sign => match ratio < 1.0 {
                true => (0.0, 1.0 - f64::EPSILON),
                false => (1.0 + f64::EPSILON, f64::INFINITY),
            },
            (None, Some(ratio)) if self.change_rule => change_band(ratio, base, row),
            _ => {
                let message = format!("`{}` has no test, or no base row", self.claim);
                return Err(Error::general(message));
            }
        };
        verdict.published = published_ratio.map_or(String::new(), times);
        verdict.band = match (self.same_sign, ends.0 < 0.5) {
            (true, true) => "below 1×".to_string(),
            (true, false) => "above 1×".to_string(),
            _ => format!("{:.3}–{:.3}×", ends.0, ends.1),
        };
        verdict.set(our_ratio, times, ends);
        Ok(verdict)
    }
}

impl Verdict {
    fn set(&mut self, ours: Option<f64>, text: impl Fn(f64) -> String, ends: (f64, f64)) {
        self.value = ours;
        self.pass = ours.is_some_and(|ours| ours >= ends.0 && ours <= ends.1);
        if let Some(ours) = ours {
            self.ours = text(ours);
        }
    }
}

/// Ratios that pass under the change rule.
fn change_band(ratio: f64, base: Option<&Row>, row: &Row) -> (f64, f64) {
    if row.is_noise() {
        let spreads = [base.and_then(Row::spread_percent), row.spread_percent()];
        let spread = spreads.into_iter().flatten().fold(0.0, f64::max);
        let reach = (2.0 * spread).max(1.0) / 100.0;
        return (1.0 - reach, 1.0 + reach);
    }
    if (ratio - 1.0).abs() < 0.02 {
        return (ratio - 0.02, ratio + 0.02);
    }
    let log = ratio.ln();
    let (one, other) = ((0.6 * log).exp(), (1.4 * log).exp());
    (one.min(other), one.max(other))
}

/// About four significant digits.
pub(super) fn number(value: f64) -> String {
    let digits = match value.abs() {
        value if value >= 1000.0 || value == 0.0 => 0,
        value if value >= 100.0 => 1,
        value if value >= 10.0 => 2,
        _ => 3,
    };
    format!("{:.digits$}", value + 0.0)
}

fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "" => number(value),
        "%" | "×" => format!("{}{unit}", number(value)),
        _ => format!("{} {unit}", number(value)),
    }
}

fn times(ratio: f64) -> String {
    format!("{ratio:.3}×")
}

fn range(low: Option<f64>, high: Option<f64>, unit: &str) -> Option<String> {
    let short = |value: f64| match value == value.trunc() && value.abs() < 1e9 {
        true => format!("{value:.0}"),
        false => number(value),
    };
    let unit = match unit {
        "" | "%" | "×" => unit.to_string(),
        _ => format!(" {unit}"),
    };
    match (low, high) {
        (Some(low), Some(high)) if low == high => Some(format!("{}{unit}", short(low))),
        (Some(low), Some(high)) => Some(format!("{}–{}{unit}", short(low), short(high))),
        (Some(low), None) => Some(format!("≥ {}{unit}", short(low))),
        (None, Some(high)) => Some(format!("≤ {}{unit}", short(high))),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::published::tests::EXAMPLE;

    fn judge(accept: &str, fill: impl Fn(&Published, &mut Prediction)) -> Vec<Verdict> {
        let published = Published::parse("p.csv", EXAMPLE).unwrap();
        let mut prediction = Prediction::new();
        fill(&published, &mut prediction);
        let acceptance = Acceptance::parse("accept.toml", accept).unwrap();
        acceptance.judge(&published, &prediction).unwrap()
    }

    fn answers(values: [f64; 4]) -> impl Fn(&Published, &mut Prediction) {
        move |published, prediction| {
            for (row, value) in published.rows.iter().zip(values) {
                prediction.answer(&row.question, value, None);
            }
        }
    }

    #[test]
    fn figures_have_ends() {
        let text = "[[accept]]\nclaim = \"c\"\nfigure = \"f\"\nlow = 75\nhigh = 92\nunit = \"%\"\n";
        let with = |value: f64| judge(text, |_, prediction| prediction.figure("f", value));
        assert_eq!(with(84.0)[0].band, "75–92%");
        assert!(with(75.0)[0].pass && with(92.0)[0].pass);
        assert!(!with(74.9)[0].pass && !with(92.1)[0].pass);
        let nothing = judge(text, |_, _| {});
        assert!(!nothing[0].pass && nothing[0].ours == "none");
    }

    #[test]
    fn rows_are_compared_by_value_or_by_change() {
        let text = "[[accept]]\nclaim = \"c\"\nmetric = \"time\"\nwithin_percent = 10\n";
        assert!(judge(text, answers([40.0, 35.0, 1.0, 1.0]))[0].pass);
        assert!(!judge(text, answers([40.0, 35.3, 1.0, 1.0]))[0].pass);
        let rule = "[[accept]]\nclaim = \"c\"\nchange_rule = true\n";
        // 0.8: between 0.8^0.6 = 0.8747 and 0.8^1.4 = 0.7317. Noise: 1 %.
        let verdicts = judge(rule, answers([100.0, 87.0, 100.0, 100.9]));
        assert!(verdicts[0].pass && verdicts[1].pass, "{verdicts:?}");
        let verdicts = judge(rule, answers([100.0, 88.0, 100.0, 101.2]));
        assert!(!verdicts[0].pass && !verdicts[1].pass, "{verdicts:?}");
        let sign = "[[accept]]\nclaim = \"c\"\nmetric = \"time\"\nsame_sign = true\n";
        assert!(judge(sign, answers([10.0, 9.9, 1.0, 1.0]))[0].pass);
        assert!(!judge(sign, answers([10.0, 10.0, 1.0, 1.0]))[0].pass);
    }

    #[test]
    fn a_claim_about_nothing_is_refused() {
        let published = Published::parse("p.csv", EXAMPLE).unwrap();
        let text = "[[accept]]\nclaim = \"c\"\nmetric = \"tme\"\nwithin = 1\n";
        let acceptance = Acceptance::parse("a.toml", text).unwrap();
        let error = acceptance
            .judge(&published, &Prediction::new())
            .unwrap_err();
        assert_eq!(error.to_string(), "`c` matches no row");
        assert!(Acceptance::parse("a.toml", "[[accept]]\nclaim = 1\n").is_err());
    }
}
