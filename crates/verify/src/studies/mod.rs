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
//! A [`Study`] never sees what it is judged by: [`Study::predict`] gets a [`Calibration`], whose
//! questions have no values, and a [`Bench`] to run experiments on. Worked example: the `burst`
//! predictor reads p50 and maximum of the one printed run, finds the phase of requests against the
//! period that gives them, and answers p75 to p99.9; the report then puts the printed p75 beside
//! its answer.
//!
//! To add a study, write its folder (`published.csv`, `accept.toml`, experiments, `README.md`), a
//! module with a type that implements [`Study`], and a line in [`STUDIES`].

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

use accept::Acceptance;
use published::Published;
use schedcast_lab::error::{Error, Result, hint_for};

/// A study's name and files.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    /// Name of its folder.
    pub name: &'static str,
    /// One line.
    pub title: &'static str,
    /// Text of the experiment, `NAME.toml`.
    pub experiment: &'static str,
    /// Text of `published.csv`.
    pub published: &'static str,
    /// Text of `accept.toml`.
    pub accept: &'static str,
    /// Text of `calibration.toml`.
    pub calibration: &'static str,
}

/// The text of a file in `studies/`.
macro_rules! study_file {
    ($path:expr) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../studies/",
            $path
        ))
    };
}
use study_file;

/// The files of the study in a folder, and what it is about.
macro_rules! study_files {
    ($name:literal, $title:literal) => {
        Files {
            name: $name,
            title: $title,
            experiment: study_file!(concat!($name, "/", $name, ".toml")),
            published: study_file!(concat!($name, "/published.csv")),
            accept: study_file!(concat!($name, "/accept.toml")),
            calibration: study_file!(concat!($name, "/calibration.toml")),
        }
    };
}
use study_files;

/// A published study that can be predicted.
pub trait Study: Sync {
    /// Its name and files.
    fn files(&self) -> Files;

    /// Fits constants to the known rows and answers the questions.
    ///
    /// # Errors
    /// An experiment that cannot be run, or a known row that is missing.
    fn predict(&self, known: &Calibration, bench: &Bench) -> Result<Prediction>;
}

/// Known rows and a bench for a predictor, and its answers so far.
struct Given<'a> {
    known: &'a Calibration,
    bench: &'a Bench<'a>,
    prediction: Prediction,
}

impl<'a> Given<'a> {
    fn new(known: &'a Calibration, bench: &'a Bench<'a>) -> Self {
        Self {
            known,
            bench,
            prediction: Prediction::new(),
        }
    }

    fn parts(&mut self) -> (&'a Calibration, &'a Bench<'a>, &mut Prediction) {
        (self.known, self.bench, &mut self.prediction)
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
pub(crate) static STUDIES: &[&dyn Study] = &[
    &burst::Burst,
    &timer_interleave::TimerInterleave,
    &recent_used_cpu::RecentUsedCpu,
    &pstate_holdoff::PstateHoldoff,
    &tg_load_ratelimit::TgLoadRatelimit,
    &cpu_limit::CpuLimit,
];

/// The studies of these names, or all.
///
/// # Errors
/// A name that no study has.
pub fn named(names: &[String]) -> Result<Vec<&'static dyn Study>> {
    if names.is_empty() {
        return Ok(STUDIES.to_vec());
    }
    let find = |name: &String| {
        let study = STUDIES.iter().find(|study| study.files().name == name);
        study.copied().ok_or_else(|| {
            let valid: Vec<&str> = STUDIES.iter().map(|study| study.files().name).collect();
            Error::usage(format!("no study is called `{name}`")).hint(hint_for(name, &valid))
        })
    };
    names.iter().map(find).collect()
}

/// Calibrates and predicts a study, then compares with what was published.
///
/// # Errors
/// As [`Study::predict`], and for mistakes in the study's files.
pub fn reproduce(study: &dyn Study, bench: &Bench) -> Result<StudyReport> {
    let files = study.files();
    let file = |name: &str| format!("studies/{}/{name}", files.name);
    let published = Published::parse(&file("published.csv"), files.published)?;
    let acceptance = Acceptance::parse(&file("accept.toml"), files.accept)?;
    let fitted = calibration::parse(&file("calibration.toml"), files.calibration)?;
    let before = bench.runs();
    let mut prediction = study.predict(&published.calibration(), bench)?;
    prediction.runs = bench.runs() - before;
    calibration::compare(&fitted, &mut prediction);
    StudyReport::new(&files, &published, &acceptance, &prediction, bench.quick())
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::assert_contains;

    #[test]
    fn studies_are_found_by_name() {
        assert_eq!(named(&[]).unwrap().len(), STUDIES.len());
        assert_eq!(named(&["burst".into()]).unwrap()[0].files().name, "burst");
        let error = named(&["brust".into()]).err().unwrap().to_string();
        assert_contains(&error, "the nearest valid name is `burst`");
    }

    #[test]
    fn the_files_of_every_study_can_be_read() {
        for study in STUDIES {
            let files = study.files();
            let published = Published::parse(files.name, files.published).unwrap();
            calibration::parse(files.name, files.calibration).unwrap();
            let acceptance = Acceptance::parse(files.name, files.accept).unwrap();
            let verdicts = acceptance.judge(&published, &Prediction::new()).unwrap();
            let passes = verdicts.iter().any(|verdict| verdict.pass);
            assert!(!passes, "{}", files.name);
        }
    }
}
