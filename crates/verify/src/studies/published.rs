//! Rows of a published table, and the wall between those a predictor may see and those it may not.
//!
//! ```text
//! published.csv ──► Published ──► calibration() ──► Calibration: values of `calibrate` rows,
//!                       │                           questions without values for all rows
//!                       └──────────► judged against the prediction, after it was made
//! ```
//!
//! Worked example: of `burst`, the printed run's p50 and maximum are `calibrate`, its p90 is
//! `predict`. The predictor gets 19,872 and 22,727 µs, and a [`Question`] that names the p90 and
//! its unit but has no field for what was printed.

use schedcast_lab::error::{Error, Result};
use schedcast_lab::metrics::Better;

schedcast_base::named! {
    /// Role that a row may have.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Role {
        /// Constants may be fitted to it.
        Calibrate = "calibrate",
        /// It is scored, and nothing may be fitted to it.
        Predict = "predict",
        /// It is shown, and never scored.
        Context = "context",
    }
}

schedcast_base::named! {
    /// Which of the two kernels a row is of.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Kernel {
        /// Without the change.
        Base = "base",
        /// With the patch.
        Patched = "patched",
    }
}

/// A row without its value: what a predictor is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Place among the questions of its study, from 0.
    pub index: usize,
    /// Table of the study.
    pub table: String,
    /// Workload.
    pub workload: String,
    /// Point of the workload: clients, groups, which run.
    pub point: String,
    /// Measured metric.
    pub metric: String,
    /// Its unit; may be empty.
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
    /// Which kernel.
    pub kernel: Kernel,
}

impl Question {
    /// Whether both ask for the same figure, of either kernel.
    pub(crate) fn same_figure(&self, other: &Question) -> bool {
        (&self.table, &self.workload, &self.point, &self.metric)
            == (&other.table, &other.workload, &other.point, &other.metric)
    }
}

/// A published row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub question: Question,
    pub role: Role,
    pub value: f64,
    /// Published spread, in its own words.
    pub spread: String,
    pub note: String,
}

impl Row {
    /// The published spread in per cent of the value, where it is given so.
    pub(crate) fn spread_percent(&self) -> Option<f64> {
        self.spread.strip_suffix('%')?.trim().parse().ok()
    }

    /// Whether the publication itself calls the change noise.
    pub(crate) fn is_noise(&self) -> bool {
        self.note.starts_with("(noise)")
    }
}

/// A whole published study.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    pub(super) rows: Vec<Row>,
}

/// A row that constants may be fitted to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    /// Which.
    pub question: Question,
    /// Published value.
    pub value: f64,
}

/// Part of a study that a predictor may see.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    known: Vec<Known>,
    questions: Vec<Question>,
}

impl Calibration {
    /// The rows that constants may be fitted to.
    pub(crate) fn known(&self) -> &[Known] {
        &self.known
    }

    /// Everything that was published, without the values.
    pub(crate) fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// The questions of a table.
    pub(crate) fn of_table(&self, table: &str) -> impl Iterator<Item = &Question> {
        self.questions
            .iter()
            .filter(move |asked| asked.table == table)
    }

    /// The mean of the known values that `wanted` takes.
    ///
    /// # Errors
    /// No known row is taken.
    pub(crate) fn mean(&self, what: &str, wanted: impl Fn(&Question) -> bool) -> Result<f64> {
        let taken = self.known.iter().filter(|known| wanted(&known.question));
        let values: Vec<f64> = taken.map(|known| known.value).collect();
        match values.len() {
            0 => Err(Error::general(format!("no row to calibrate {what} with"))),
            count => Ok(values.iter().sum::<f64>() / count as f64),
        }
    }
}

const COLUMNS: [&str; 12] = [
    "study", "table", "workload", "point", "metric", "unit", "better", "variant", "role", "value",
    "spread", "note",
];

impl Published {
    /// Reads `published.csv`.
    ///
    /// # Errors
    /// A line that is no row, with its number.
    pub(crate) fn parse(file: &str, text: &str) -> Result<Published> {
        let mut lines = text.lines().enumerate();
        let header = lines.next().map_or("", |(_, line)| line);
        if header != COLUMNS.join(",") {
            let message = format!("{file}:1: expected the columns {}", COLUMNS.join(","));
            return Err(Error::general(message));
        }
        let mut rows = Vec::new();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            let row = read_row(line, rows.len());
            rows.push(row.map_err(|why| Error::general(format!("{file}:{}: {why}", number + 1)))?);
        }
        Ok(Published { rows })
    }

    /// Part of the study that a predictor may see.
    pub fn calibration(&self) -> Calibration {
        let known = self.rows.iter().filter(|row| row.role == Role::Calibrate);
        Calibration {
            known: known
                .map(|row| Known {
                    question: row.question.clone(),
                    value: row.value,
                })
                .collect(),
            questions: self.rows.iter().map(|row| row.question.clone()).collect(),
        }
    }

    /// The row of the unpatched kernel that belongs to a patched one: the same figure, or the only
    /// one of that metric where the point itself names the change (`burst 100000`).
    pub(super) fn base_of(&self, patched: &Row) -> Option<&Row> {
        let asked = &patched.question;
        let base = || {
            let rows = self.rows.iter();
            rows.filter(|row| row.question.kernel == Kernel::Base)
        };
        let same = base().find(|row| row.question.same_figure(asked));
        let mut alike = base().filter(|row| {
            let other = &row.question;
            (&other.table, &other.workload, &other.metric)
                == (&asked.table, &asked.workload, &asked.metric)
        });
        same.or_else(|| match (alike.next(), alike.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        })
    }

    /// Scored pairs: base and patched.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&Row, &Row)> {
        let patched = self
            .rows
            .iter()
            .filter(|row| row.role == Role::Predict && row.question.kernel == Kernel::Patched);
        patched.filter_map(|row| Some((self.base_of(row)?, row)))
    }
}

fn read_row(line: &str, index: usize) -> std::result::Result<Row, String> {
    let fields = split(line)?;
    let [
        _,
        table,
        workload,
        point,
        metric,
        unit,
        better,
        variant,
        role,
        value,
        spread,
        note,
    ] = <[String; 12]>::try_from(fields)
        .map_err(|fields| format!("expected 12 fields, found {}", fields.len()))?;
    let choose = |text: &str, what: &str| format!("`{text}` is no {what}");
    let question = Question {
        index,
        table,
        workload,
        point,
        metric,
        unit,
        better: match better.as_str() {
            "higher" => Better::Higher,
            "lower" => Better::Lower,
            "" => Better::None,
            other => return Err(choose(other, "direction: higher or lower")),
        },
        kernel: Kernel::named(&variant)
            .ok_or_else(|| choose(&variant, "variant: base or patched"))?,
    };
    Ok(Row {
        question,
        role: Role::named(&role)
            .ok_or_else(|| choose(&role, "role: calibrate, predict or context"))?,
        value: value.parse().map_err(|_| choose(&value, "number"))?,
        spread,
        note,
    })
}

/// Fields of a line; quoted ones may hold commas.
fn split(line: &str) -> std::result::Result<Vec<String>, String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for character in line.chars() {
        match (character, quoted) {
            ('"', _) => quoted = !quoted,
            (',', false) => fields.push(String::new()),
            _ => {
                let last = fields.len() - 1;
                fields[last].push(character);
            }
        }
    }
    match quoted {
        true => Err("a quote does not end".to_string()),
        false => Ok(fields),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two pairs, a calibration row of a patched kernel, and one that is shown only.
    pub(crate) const EXAMPLE: &str = "study,table,workload,point,metric,unit,better,variant,role,value,spread,note\n\
        s,t,w,1,time,s,lower,base,calibrate,40,,\n\
        s,t,w,1,time,s,lower,patched,predict,32,1.5%,\n\
        s,t,w,2,rate,1/s,higher,base,context,100,,\n\
        s,t,w,2,rate,1/s,higher,patched,predict,101,,\"(noise), it says\"\n\
        s,t,w,3,rate,1/s,higher,patched,calibrate,7,,\n";

    #[test]
    fn a_point_may_name_the_change() {
        let text = EXAMPLE.replace(",1,time,s,lower,patched", ",with it,time,s,lower,patched");
        let published = Published::parse("p.csv", &text).unwrap();
        assert_eq!(published.base_of(&published.rows[1]).unwrap().value, 40.0);
        assert_eq!(published.base_of(&published.rows[4]).unwrap().value, 100.0);
    }

    #[test]
    fn values_to_predict_stay_behind_the_wall() {
        let published = Published::parse("p.csv", EXAMPLE).unwrap();
        let calibration = published.calibration();
        let known: Vec<f64> = calibration
            .known()
            .iter()
            .map(|known| known.value)
            .collect();
        assert_eq!(known, [40.0, 7.0]);
        assert_eq!(calibration.questions().len(), 5);
        let shown = format!("{calibration:?}");
        assert!(!shown.contains("32") && !shown.contains("101") && !shown.contains("100"));
        assert_eq!(
            calibration.mean("x", |asked| asked.point == "3").unwrap(),
            7.0
        );
        let error = calibration
            .mean("x", |asked| asked.point == "2")
            .unwrap_err();
        assert_eq!(error.to_string(), "no row to calibrate x with");
    }

    #[test]
    fn pairs_are_joined_by_what_they_measure() {
        let published = Published::parse("p.csv", EXAMPLE).unwrap();
        let pairs: Vec<(f64, f64)> = published
            .pairs()
            .map(|(base, patched)| (base.value, patched.value))
            .collect();
        assert_eq!(pairs, [(40.0, 32.0), (100.0, 101.0)]);
        assert_eq!(published.rows[1].spread_percent(), Some(1.5));
        assert!(published.rows[3].is_noise());
    }

    #[test]
    fn mistakes_name_their_line() {
        let refuse = |line: &str| {
            let text = format!("{}\n{line}\n", COLUMNS.join(","));
            Published::parse("p.csv", &text).unwrap_err().to_string()
        };
        assert_eq!(refuse("a,b"), "p.csv:2: expected 12 fields, found 2");
        assert_eq!(
            refuse("s,t,w,1,m,s,lower,old,predict,1,,"),
            "p.csv:2: `old` is no variant: base or patched"
        );
        assert_eq!(refuse("s,t,\"w"), "p.csv:2: a quote does not end");
        assert!(Published::parse("p.csv", "a\n").is_err());
    }
}
