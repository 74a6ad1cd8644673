//! The conclusion of an advice in one word.
//!
//! Worked example: a service without a limit keeps `p95<80ms` at 39 ms on average, and at 104 ms in
//! one run of twenty. No option suits for certain and one does on average, which is
//! [`Conclusion::NotCertain`]; so it is at 85 ms on average, if one run in forty has 78 ms. Where
//! all runs have more than 80 ms it is [`Conclusion::NotKept`].

use serde::Serialize;

use crate::slo::Slo;
use crate::{Candidate, judge};

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// A limit is recommended.
    Recommended,
    /// Limits that keep the promises cost the neighbours more than allowed.
    TooDear,
    /// The promises are kept without a limit, and under none.
    OnlyWithoutLimit,
    /// No limit, or its absence, keeps the promises for certain; some keep them on average, or in
    /// some runs.
    NotCertain,
    /// Not even without a limit of its own does the group keep the promises in any likely run.
    NotKept,
}

impl Conclusion {
    pub(crate) fn of(recommended: bool, options: &[Candidate], promises: &[Slo]) -> Conclusion {
        let keeps_up = || {
            options
                .iter()
                .filter(|option| option.falls_behind.is_none())
        };
        let met = |option: &Candidate| option.forecasts.iter().all(|forecast| forecast.met);
        let on_average =
            |option: &Candidate| judge::are_kept_on_average(promises, &option.forecasts);
        let maybe = |option: &Candidate| judge::may_be_kept(promises, &option.forecasts);
        if recommended {
            Conclusion::Recommended
        } else if keeps_up().any(|option| met(option) && !option.suits) {
            Conclusion::TooDear
        } else if options.iter().any(|option| option.suits) {
            Conclusion::OnlyWithoutLimit
        } else if keeps_up().any(|option| on_average(option) || maybe(option)) {
            Conclusion::NotCertain
        } else {
            Conclusion::NotKept
        }
    }
}
