//! How far a prediction is off, beside two predictors that know nothing.
//!
//! The score is the mean of |ln(predicted ratio / published ratio)| over scored pairs of rows,
//! patched over base. "No change" predicts a ratio of 1 everywhere, "+5 %" a gain of a twentieth:
//! 1.05 where more is better, 1/1.05 where less is. Worked example: published 40 s → 32 s is a
//! ratio of 0.8; no change scores |ln(1 / 0.8)| = 0.223, +5 % scores 0.174, and a prediction of
//! 0.82 scores 0.025.

use schedcast_lab::metrics::Better;
use serde::Serialize;

use super::accept::Score;
use super::prediction::Prediction;
use super::published::Published;

/// Gain that the "+5 %" predictor predicts, as a factor.
const GAIN: f64 = 1.05;

/// Mean distances; 0 is perfect.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// Pairs that were scored.
    pub pairs: usize,
    /// Mean distance of the forecast.
    pub ours: f64,
    /// Mean distance of "no change".
    pub no_change: f64,
    /// Mean distance of "every patch gains 5 %".
    pub plus_five_percent: f64,
}

impl Scores {
    /// Whether both null predictors are worse.
    pub(crate) fn beats_both(&self) -> bool {
        self.ours < self.no_change && self.ours < self.plus_five_percent
    }
}

/// Scores a prediction. `None` when a pair is not answered, or there is none.
pub(super) fn score(
    published: &Published,
    prediction: &Prediction,
    score: &Score,
) -> Option<Scores> {
    let half = if score.counts { 0.5 } else { 0.0 };
    let mut sums = [0.0; 3];
    let mut pairs = 0;
    for (base, patched) in published.pairs() {
        let in_scope = score.tables.is_empty() || score.tables.contains(&base.question.table);
        let published_ratio = (patched.value + half) / (base.value + half);
        if !in_scope || !published_ratio.is_finite() || published_ratio <= 0.0 {
            continue;
        }
        let ours = |index| prediction.answered(index).map(|answer| answer.value + half);
        let ratio = ours(patched.question.index)? / ours(base.question.index)?;
        let gain = match patched.question.better {
            Better::Higher => GAIN,
            Better::Lower => 1.0 / GAIN,
            Better::None => 1.0,
        };
        for (sum, predicted) in sums.iter_mut().zip([ratio, 1.0, gain]) {
            *sum += (predicted / published_ratio).ln().abs();
        }
        pairs += 1;
    }
    let mean = |sum: f64| sum / pairs as f64;
    let [ours, no_change, plus_five_percent] = sums.map(mean);
    (pairs > 0 && ours.is_finite()).then_some(Scores {
        pairs,
        ours,
        no_change,
        plus_five_percent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::published::tests::EXAMPLE;

    #[test]
    fn the_nulls_score_as_worked_out() {
        let published = Published::parse("p.csv", EXAMPLE).unwrap();
        let mut prediction = Prediction::new();
        assert_eq!(score(&published, &prediction, &Score::default()), None);
        for (row, value) in published.rows.iter().zip([100.0, 82.0, 50.0, 50.5]) {
            prediction.answer(&row.question, value, None);
        }
        let scores = score(&published, &prediction, &Score::default()).unwrap();
        // Two pairs: 0.8 and 1.01.
        let near = |value: f64, expected: f64| (value - expected).abs() < 1e-4;
        assert!(near(scores.ours, 0.024_693 / 2.0), "{scores:?}");
        assert!(near(scores.no_change, (0.223_144 + 0.009_950) / 2.0));
        assert!(near(
            scores.plus_five_percent,
            (0.174_353 + 0.038_840) / 2.0
        ));
        assert!(scores.beats_both());
        let only = Score {
            tables: vec!["other".into()],
            counts: false,
        };
        assert_eq!(score(&published, &prediction, &only), None);
    }
}
