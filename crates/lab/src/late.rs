//! Intervals that are resampled when somebody asks for them.
//!
//! A run has hundreds of metrics and a table shows twenty. Worked example: with five seeds the 737
//! metrics of `recordings/postgres-quota` in two variants took 35 % of what `what-if` executed.

use std::sync::{Arc, OnceLock};

use serde::ser::{Serialize, Serializer};

use crate::possible::cut;
use crate::statistics::{Bootstrap, Interval, MeanKind};

/// An interval, low end first, or that there is none.
#[derive(Clone, Debug, Default)]
pub struct LateInterval {
    /// As resampled, once it is.
    resampled: OnceLock<Option<[f64; 2]>>,
    source: Option<Source>,
    /// Ends of what is possible.
    bounds: Option<[f64; 2]>,
}

/// Samples of which an interval is made.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub bootstrap: Arc<Bootstrap>,
    pub kind: MeanKind,
    /// For a ratio, what it is relative to.
    pub baseline: Option<Vec<f64>>,
    pub samples: Vec<f64>,
}

impl Source {
    fn interval(&self) -> Option<Interval> {
        let (bootstrap, kind) = (&self.bootstrap, self.kind);
        match &self.baseline {
            Some(baseline) => bootstrap.of_ratio(kind, baseline, &self.samples),
            None => bootstrap.of_mean(kind, &self.samples),
        }
    }
}

impl LateInterval {
    /// No interval.
    pub fn none() -> LateInterval {
        LateInterval::default()
    }

    /// The interval of this source.
    pub(crate) fn of(source: Source) -> LateInterval {
        LateInterval {
            source: Some(source),
            ..LateInterval::default()
        }
    }

    /// An interval that is known.
    pub(crate) fn known(interval: Option<Interval>) -> LateInterval {
        LateInterval {
            resampled: OnceLock::from(interval.map(Interval::ends)),
            ..LateInterval::default()
        }
    }

    /// The interval, if there is one.
    pub fn get(&self) -> Option<[f64; 2]> {
        let ends = || {
            let interval = self.source.as_ref().and_then(Source::interval);
            interval.map(Interval::ends)
        };
        let resampled = (*self.resampled.get_or_init(ends))?;
        Some(cut(resampled, self.bounds.unwrap_or(resampled)))
    }

    /// Cuts it to what lies between the two.
    pub(crate) fn cut(&mut self, bounds: [f64; 2]) {
        self.bounds = Some(cut(self.bounds.unwrap_or(bounds), bounds));
    }
}

impl Serialize for LateInterval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_hold_before_and_after_somebody_asks() {
        let of = || {
            LateInterval::of(Source {
                bootstrap: Arc::new(Bootstrap::new(4)),
                kind: MeanKind::Arithmetic,
                baseline: None,
                samples: vec![1.5, 2.5, 9.0, 4.0],
            })
        };
        let [low, high] = of().get().unwrap();
        assert_eq!((low, high), (0.03202529852799785, 10.108298196488892));
        let mut cut = of();
        cut.cut([1.0, 20.0]);
        assert_eq!(cut.get(), Some([1.0, high]));
        cut.cut([0.0, 9.0]);
        assert_eq!(cut.get(), Some([1.0, 9.0]));
        assert_eq!(LateInterval::none().get(), None);
    }
}
