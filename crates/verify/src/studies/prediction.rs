//! Prediction that a predictor returns: answers to the questions, figures of the mechanism,
//! constants.

use serde::Serialize;

use super::published::{Calibration, Kernel, Question};

/// A constant of machine or workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Constant {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its unit; may be empty.
    pub unit: &'static str,
    /// The rows it was fitted to, or where else it comes from.
    pub from: String,
    /// Its value in `calibration.toml`, if that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documented: Option<f64>,
}

/// A figure of our own: of the mechanism, of a counterfactual, of a free prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Figure {
    /// Its name in `accept.toml`.
    pub name: String,
    /// Its value.
    pub value: f64,
}

/// Our value of a published figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Answer {
    /// Mean over the runs.
    pub value: f64,
    /// Standard deviation over the runs, where there are several.
    pub deviation: Option<f64>,
}

/// A line of a picture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    /// Name of the figure.
    pub name: String,
    /// Points in the order they are drawn.
    pub points: Vec<(f64, f64)>,
}

/// Everything a predictor says about a study.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction {
    pub(super) answers: Vec<Option<Answer>>,
    pub(super) figures: Vec<Figure>,
    pub(super) constants: Vec<Constant>,
    pub(super) axes: [String; 2],
    pub(super) series: Vec<Series>,
    pub(super) runs: u64,
}

impl Prediction {
    /// Nothing said yet.
    pub fn new() -> Prediction {
        Prediction::default()
    }

    /// Answers one question.
    pub(crate) fn answer(&mut self, question: &Question, value: f64, deviation: Option<f64>) {
        if self.answers.len() <= question.index {
            self.answers.resize(question.index + 1, None);
        }
        self.answers[question.index] = Some(Answer { value, deviation });
    }

    /// Answers the questions of a table: `place` finds the row of a point, and `values` has base
    /// and patched of each row in turn.
    pub(crate) fn answer_table(
        &mut self,
        (known, table): (&Calibration, &str),
        place: impl Fn(&str) -> Option<usize>,
        values: &[f64],
    ) {
        for question in known.of_table(table) {
            let column = usize::from(question.kernel == Kernel::Patched);
            if let Some(row) = place(&question.point) {
                self.answer(question, values[2 * row + column], None);
            }
        }
    }

    /// Says what a figure came out as. A value that is no number is not said.
    pub fn figure(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            self.figures.push(Figure {
                name: name.to_string(),
                value,
            });
        }
    }

    /// Says which constant was used.
    pub fn constant(&mut self, name: &str, value: f64, unit: &'static str, from: &str) {
        self.constants.push(Constant {
            name: name.to_string(),
            value,
            unit,
            from: from.to_string(),
            documented: None,
        });
    }

    /// Names what the study's picture shows along both axes, with units.
    pub(crate) fn axes(&mut self, x: &str, y: &str) {
        self.axes = [x.to_string(), y.to_string()];
    }

    /// Adds a line to the study's picture.
    pub fn series(&mut self, name: &str, points: Vec<(f64, f64)>) {
        self.series.push(Series {
            name: name.to_string(),
            points,
        });
    }

    /// Our answer to the question with this number.
    pub(super) fn answered(&self, index: usize) -> Option<Answer> {
        self.answers.get(index).copied().flatten()
    }

    pub(super) fn figure_named(&self, name: &str) -> Option<f64> {
        let found = self.figures.iter().find(|figure| figure.name == name);
        found.map(|figure| figure.value)
    }
}
