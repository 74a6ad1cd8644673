//! The published studies: other people's numbers, predicted from their unpatched columns.
//!
//! Each study is a folder `studies/NAME/` and a predictor here:
//!
//! ```text
//! published.csv ─► calibrate rows ─► predict: fit constants, run experiments ─► Prediction
//!       │                                                                        │
//!       └── predict rows ── joined afterwards ─► accept.toml ─► verdicts, scores ┴─► Report
//! ```
//!
//! A predictor never sees what it is judged by: it gets a [`Calibration`], whose questions have no
//! values, and a [`Bench`] to run experiments on. Worked example: the `burst`
//! predictor reads p50 and maximum of the one printed run, finds the phase of requests against the
//! period that gives them, and answers p75 to p99.9; the report then puts the printed p75 beside
//! its answer.
//!
//! To add a study, write its folder (`published.csv`, `accept.toml`, experiments, `README.md`), a
//! module with its predictor, and a row in [`STUDIES`].

pub mod accept;
pub mod bench;
mod burst;
mod calibration;
mod cpu_limit;
mod page;
mod picture;
pub mod prediction;
mod pstate_holdoff;
pub mod published;
mod recent_used_cpu;
pub mod report;
pub(crate) mod score;
mod tables;
mod tg_load_ratelimit;
mod timer_interleave;

pub use bench::Bench;
pub use prediction::Prediction;
pub use published::Calibration;
pub use report::{Report, StudyReport};

use std::sync::Arc;

use accept::Acceptance;
use published::Published;
use schedcast_lab::error::{Error, Result, Source, hint_for};
use schedcast_lab::experiment::{self, Scenario, Surroundings, document};

/// A published study that can be predicted.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    /// Name of its folder.
    pub name: &'static str,
    /// One line.
    title: &'static str,
    /// Text of the experiment, `NAME.toml`.
    experiment: &'static str,
    /// Text of `published.csv`.
    published: &'static str,
    /// Text of `accept.toml`.
    accept: &'static str,
    /// Text of `calibration.toml`.
    calibration: &'static str,
    /// Fits constants to the known rows and answers the questions; fails where an experiment cannot
    /// be run, or a known row is missing.
    predict: fn(&mut Given) -> Result<()>,
}

/// The study in a folder: its name, what it is about, and its predictor.
macro_rules! study {
    (@file $path:expr) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../studies/",
            $path
        ))
    };
    ($name:literal, $title:literal, $predict:expr) => {
        Study {
            name: $name,
            title: $title,
            experiment: study!(@file concat!($name, "/", $name, ".toml")),
            published: study!(@file concat!($name, "/published.csv")),
            accept: study!(@file concat!($name, "/accept.toml")),
            calibration: study!(@file concat!($name, "/calibration.toml")),
            predict: $predict,
        }
    };
}

/// Known rows, an experiment and a bench for a predictor, and its answers so far.
struct Given<'a> {
    known: &'a Calibration,
    bench: &'a Bench<'a>,
    experiment: Arc<Source>,
    prediction: Prediction,
}

impl<'a> Given<'a> {
    fn parts(&mut self) -> (&'a Calibration, &'a Bench<'a>, &mut Prediction) {
        (self.known, self.bench, &mut self.prediction)
    }

    /// The variants of the study's experiment, with a layer of constants (TOML) over it.
    ///
    /// # Errors
    /// Description of the mistake in either, at its place; another number of variants.
    fn variants<const N: usize>(&self, constants: &str) -> Result<[Scenario; N]> {
        let layer = Source::new("fitted constants", constants);
        let surroundings = Surroundings {
            settings: vec![document::parse(&layer)?],
            ..Surroundings::default()
        };
        let document = document::parse(&self.experiment)?;
        let scenarios = experiment::read(&document, &surroundings)?.scenarios;
        let wrong = |_| Error::general(format!("{} needs {N} variants", self.experiment.name));
        scenarios.try_into().map_err(wrong)
    }
}

/// The candidate with the smallest error.
///
/// # Errors
/// When there is none.
fn nearest<T: Copy>(candidates: &[T], misses: impl Iterator<Item = f64>) -> Result<T> {
    let pairs = candidates.iter().zip(misses);
    let best = pairs.min_by(|left, right| left.1.total_cmp(&right.1));
    let (best, _) = best.ok_or_else(|| Error::general("no constants were tried"))?;
    Ok(*best)
}

/// Every study.
static STUDIES: [Study; 6] = [
    study!(
        "burst",
        "unused quota may be carried over (Linux 5.14, f4183717b370)",
        burst::predict
    ),
    study!(
        "timer-interleave",
        "period timers expire at random offsets (Linux 6.4, 41abdba93747)",
        timer_interleave::predict
    ),
    study!(
        "recent-used-cpu",
        "a task may return to the CPU used before the last (Linux 4.16, 32e839dda3ba)",
        recent_used_cpu::predict
    ),
    study!(
        "pstate-holdoff",
        "a late sample counts as idleness after 12 instead of 3 sample times (4.5-rc2)",
        pstate_holdoff::predict
    ),
    study!(
        "tg-load-ratelimit",
        "tg->load_avg is written once a millisecond and queue (Linux 6.7, 1528c661c24b)",
        tg_load_ratelimit::predict
    ),
    study!(
        "cpu-limit",
        "a CPU limit of 500m on a service that uses 0.4 CPUs in parallel (minikube)",
        cpu_limit::predict
    ),
];

/// The studies of these names, or all.
///
/// # Errors
/// A name that no study has.
pub fn named(names: &[String]) -> Result<Vec<&'static Study>> {
    if names.is_empty() {
        return Ok(STUDIES.iter().collect());
    }
    let find = |name: &String| {
        let study = STUDIES.iter().find(|study| study.name == name);
        study.ok_or_else(|| {
            let valid: Vec<&str> = STUDIES.iter().map(|study| study.name).collect();
            Error::usage(format!("no study is called `{name}`")).hint(hint_for(name, &valid))
        })
    };
    names.iter().map(find).collect()
}

/// Calibrates and predicts a study, then compares with what was published.
///
/// # Errors
/// As [`Study::predict`], and for mistakes in the study's files.
pub fn reproduce(study: &Study, bench: &Bench) -> Result<StudyReport> {
    let file = |name: &str| format!("studies/{}/{name}", study.name);
    let published = Published::parse(&file("published.csv"), study.published)?;
    let acceptance = Acceptance::parse(&file("accept.toml"), study.accept)?;
    let fitted = calibration::parse(&file("calibration.toml"), study.calibration)?;
    let before = bench.runs();
    let mut given = Given {
        known: &published.calibration(),
        bench,
        experiment: Source::new(file(&format!("{}.toml", study.name)), study.experiment),
        prediction: Prediction::new(),
    };
    (study.predict)(&mut given)?;
    let mut prediction = given.prediction;
    prediction.runs = bench.runs() - before;
    calibration::compare(&fitted, &mut prediction);
    StudyReport::new(study, &published, &acceptance, &prediction, bench.quick())
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::assert_contains;

    #[test]
    fn studies_are_found_by_name() {
        assert_eq!(named(&[]).unwrap().len(), STUDIES.len());
        assert_eq!(named(&["burst".into()]).unwrap()[0].name, "burst");
        let error = named(&["brust".into()]).err().unwrap().to_string();
        assert_contains(&error, "the nearest valid name is `burst`");
    }

    #[test]
    fn the_files_of_every_study_can_be_read() {
        for study in &STUDIES {
            let published = Published::parse(study.name, study.published).unwrap();
            calibration::parse(study.name, study.calibration).unwrap();
            let acceptance = Acceptance::parse(study.name, study.accept).unwrap();
            let verdicts = acceptance.judge(&published, &Prediction::new()).unwrap();
            let passes = verdicts.iter().any(|verdict| verdict.pass);
            assert!(!passes, "{}", study.name);
        }
    }
}
