//! Report that `schedcast reproduce` prints.

use schedcast_lab::error::Result;
use serde::Serialize;

use super::Study;
use super::accept::{Acceptance, Kind, Verdict, number};
use super::prediction::{Constant, Figure, Prediction, Series};
use super::published::Published;
use super::score::{Scores, score};
use super::tables::{self, Table};

/// Name and version of the JSON form.
pub(crate) const SCHEMA: &str = "schedcast.reproduction/1";

/// Widest line.
const WIDTH: usize = 100;

/// Several studies.
#[derive(Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of this program.
    pub schedcast: &'static str,
    /// Whether it was a quick one, without verdicts.
    pub quick: bool,
    /// The studies.
    pub studies: Vec<StudyReport>,
}

/// One row with both values.
#[derive(Serialize)]
struct RowReport {
    table: String,
    workload: String,
    point: String,
    metric: String,
    unit: String,
    kernel: &'static str,
    role: &'static str,
    published: f64,
    ours: Option<f64>,
    deviation: Option<f64>,
}

/// One study, predicted and compared.
#[derive(Serialize)]
pub struct StudyReport {
    /// Name of its folder.
    pub name: &'static str,
    /// One line.
    pub title: &'static str,
    /// Simulated runs.
    pub runs: u64,
    constants: Vec<Constant>,
    rows: Vec<RowReport>,
    figures: Vec<Figure>,
    /// Judged claims; their `pass` means nothing in a quick run.
    pub verdicts: Vec<Verdict>,
    /// Ours and those of the null predictors.
    pub scores: Option<Scores>,
    #[serde(skip)]
    tables: Vec<Table>,
    #[serde(skip)]
    axes: [String; 2],
    #[serde(skip)]
    series: Vec<Series>,
    #[serde(skip)]
    pub(super) quick: bool,
}

impl Report {
    /// A report of these studies.
    pub fn new(quick: bool, studies: Vec<StudyReport>) -> Report {
        Report {
            schema: SCHEMA,
            schedcast: env!("CARGO_PKG_VERSION"),
            quick,
            studies,
        }
    }

    /// Whether every band is met and both null predictors are beaten in every study. A quick report
    /// judges nothing.
    pub fn passed(&self) -> bool {
        let passes = |study: &StudyReport| {
            study.beats_both() && study.verdicts.iter().all(|verdict| verdict.pass)
        };
        self.quick || self.studies.iter().all(passes)
    }

    /// The JSON form.
    ///
    /// # Errors
    /// None that can occur: all of it is numbers and text.
    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Everything, for people.
    pub fn to_text(&self) -> String {
        let studies: Vec<String> = self.studies.iter().map(StudyReport::to_text).collect();
        studies.join("\n") + &self.summary()
    }

    pub(super) fn summary(&self) -> String {
        if self.quick {
            return "\nquick: few runs, so no verdict\n".to_string();
        }
        let verdicts = || self.studies.iter().flat_map(|study| &study.verdicts);
        let passed = verdicts().filter(|verdict| verdict.pass).count();
        let beaten = self.studies.iter().filter(|study| study.beats_both());
        format!(
            "\n{passed} of {} bands met; both null predictors beaten in {} of {} studies\n",
            verdicts().count(),
            beaten.count(),
            self.studies.len()
        )
    }

    /// All verdicts as a page of the documentation.
    pub fn to_markdown(&self) -> String {
        let mut text = String::from(
            "# Published studies\n\n\
             Numbers that others measured on machines of their own, predicted from the unpatched columns \
             of their tables. This page is written by `schedcast reproduce --format markdown`; `--report DIR` writes a \
             page of each study with its tables, constants and picture.\n",
        );
        for study in &self.studies {
            text += &study.to_markdown();
        }
        text + &self.summary()
    }
}

impl StudyReport {
    pub(super) fn new(
        study: &Study,
        published: &Published,
        acceptance: &Acceptance,
        prediction: &Prediction,
        quick: bool,
    ) -> Result<StudyReport> {
        let table = |name: &&str| {
            let layout = acceptance.layout(name);
            tables::table(published, prediction, name, layout)
        };
        Ok(StudyReport {
            name: study.name,
            title: study.title,
            runs: prediction.runs,
            constants: prediction.constants.clone(),
            rows: rows(published, prediction),
            figures: prediction.figures.clone(),
            verdicts: acceptance.judge(published, prediction)?,
            scores: score(published, prediction, &acceptance.score),
            tables: tables::names(published).iter().map(table).collect(),
            axes: prediction.axes.clone(),
            series: prediction.series.clone(),
            quick,
        })
    }

    fn beats_both(&self) -> bool {
        self.scores.is_some_and(|scores| scores.beats_both())
    }

    /// The study's series as an SVG picture.
    pub fn picture(&self) -> String {
        super::picture::draw(self.title, &self.axes, &self.series)
    }

    fn to_text(&self) -> String {
        let mut text = format!("{} · {} · {} runs\n", self.name, self.title, self.runs);
        text += &self.constants_and_tables();
        text += &self.verdict_text();
        text + &self.score_text()
    }

    /// Text of the fitted constants, then the published tables beside ours.
    pub(super) fn constants_and_tables(&self) -> String {
        let mut text = String::new();
        for constant in &self.constants {
            let value = format!("{} {}", number(constant.value), constant.unit);
            text += &format!(
                "  {} = {} ({})\n",
                constant.name,
                value.trim(),
                constant.from
            );
            if let Some(other) = constant.documented {
                text += &format!("  but calibration.toml says {}\n", number(other));
            }
        }
        for table in &self.tables {
            text += &format!("\n{}\n", table.title);
            text += &columns(&table.heading, &table.lines);
            text += &format!("{}\n", table.note);
        }
        text
    }

    /// Claim, published, band, ours and verdict of every claim; its kind is told first.
    pub(super) fn verdict_lines(&self) -> Vec<Vec<String>> {
        let line = |verdict: &Verdict| {
            let mut cells = self.verdict_cells(verdict);
            let kind = match verdict.kind {
                Kind::Published => return cells,
                Kind::Mechanism => "mechanism",
                Kind::Counterfactual => "counterfactual",
                Kind::Free => "free prediction",
            };
            cells[0] = format!("{kind}: {}", cells[0]);
            cells
        };
        self.verdicts.iter().map(line).collect()
    }

    fn verdict_text(&self) -> String {
        let mut text = String::new();
        for (kind, name) in [
            (Kind::Published, "accepted"),
            (Kind::Mechanism, "mechanism"),
            (Kind::Counterfactual, "counterfactual"),
            (Kind::Free, "free prediction"),
        ] {
            let of_kind = || self.verdicts.iter().filter(move |one| one.kind == kind);
            if of_kind().next().is_none() {
                continue;
            }
            let mut heading: Vec<String> = [name, "published", "band", "ours"]
                .map(String::from)
                .to_vec();
            if !self.quick {
                heading.push("verdict".into());
            }
            let lines: Vec<Vec<String>> = of_kind().map(|one| self.verdict_cells(one)).collect();
            text += &format!("\n{}", columns(&heading, &lines));
        }
        text
    }

    fn verdict_cells(&self, verdict: &Verdict) -> Vec<String> {
        let mut cells = vec![
            verdict.claim.clone(),
            verdict.published.clone(),
            verdict.band.clone(),
            verdict.ours.clone(),
        ];
        if !self.quick {
            cells.push(if verdict.pass { "ok" } else { "MISSED" }.into());
        }
        cells
    }

    pub(super) fn score_text(&self) -> String {
        let Some(scores) = &self.scores else {
            return "\nno score: not every scored pair was predicted\n".to_string();
        };
        format!(
            "\nscore over {} pairs (0 is perfect): ours {:.3} · no change {:.3} · +5 % {:.3}{}\n",
            scores.pairs,
            scores.ours,
            scores.no_change,
            scores.plus_five_percent,
            match (self.quick, scores.beats_both()) {
                (true, _) => "",
                (false, true) => " · both beaten",
                (false, false) => " · NOT BEATEN",
            }
        )
    }

    fn to_markdown(&self) -> String {
        let escape = |text: &str| text.replace('|', "\\|");
        let mut text = format!(
            "\n## {}\n\n{} ({} runs; [page](../studies/{}/README.md))\n\n",
            self.name, self.title, self.runs, self.name
        );
        text += "| claim | published | band | ours | verdict |\n|---|---|---|---|---|\n";
        for verdict in &self.verdicts {
            let mut cells = self.verdict_cells(verdict);
            cells.resize(5, String::new());
            let kind = match verdict.kind {
                Kind::Published => "",
                Kind::Mechanism => "*mechanism:* ",
                Kind::Counterfactual => "*counterfactual:* ",
                Kind::Free => "*free prediction:* ",
            };
            cells[0] = format!("{kind}{}", cells[0]);
            let cells: Vec<String> = cells.iter().map(|cell| escape(cell)).collect();
            text += &format!("| {} |\n", cells.join(" | "));
        }
        text + &self.score_text()
    }
}

fn rows(published: &Published, prediction: &Prediction) -> Vec<RowReport> {
    let row = |row: &super::published::Row| {
        let asked = &row.question;
        let answer = prediction.answered(asked.index);
        RowReport {
            table: asked.table.clone(),
            workload: asked.workload.clone(),
            point: asked.point.clone(),
            metric: asked.metric.clone(),
            unit: asked.unit.clone(),
            kernel: asked.kernel.name(),
            role: row.role.name(),
            published: row.value,
            ours: answer.map(|answer| answer.value),
            deviation: answer.and_then(|answer| answer.deviation),
        }
    };
    published.rows.iter().map(row).collect()
}

/// Columns as wide as their longest cell; the first is left-aligned and gives way when lines get
/// too long.
fn columns(heading: &[String], lines: &[Vec<String>]) -> String {
    let width = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = heading.iter().map(|cell| width(cell)).collect();
    for line in lines {
        for (widest, cell) in widths.iter_mut().zip(line) {
            *widest = (*widest).max(width(cell));
        }
    }
    let others: usize = widths[1..].iter().map(|width| width + 2).sum();
    widths[0] = widths[0].min(WIDTH.saturating_sub(others).max(24));
    let mut text = String::new();
    for line in std::iter::once(heading).chain(lines.iter().map(Vec::as_slice)) {
        let (label, cells) = line.split_at(1);
        let mut label = label.first().cloned().unwrap_or_default();
        // A label that is too long has a line of its own.
        if width(&label) > widths[0] {
            text += &format!("{label}\n");
            label.clear();
        }
        let mut out = format!("{label}{}", " ".repeat(widths[0] - width(&label)));
        for (cell, &columns) in cells.iter().zip(&widths[1..]) {
            out += &format!(
                "  {}{cell}",
                " ".repeat(columns.saturating_sub(width(cell)))
            );
        }
        text += &format!("{}\n", out.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn long_labels_keep_their_numbers_in_line() {
        let line = |label: &str| vec![label.to_string(), "1".repeat(60)];
        let text = columns(&line("head"), &[line(&"x".repeat(50)), line("short")]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[1], "x".repeat(50));
        assert!(lines[2].starts_with(&" ".repeat(40)));
        assert!(lines.iter().all(|line| line.len() <= 100));
    }
}
