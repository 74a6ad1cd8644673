//! Reads the recommendation back from an advice in JSON, to apply it.
//!
//! Worked example: an advice whose options are the recorded 50 ms in 100 ms and 68 ms in 100 ms, of
//! which it recommends the latter, gives its target, the limit of 68 ms and the recorded one of
//! 50 ms.

use std::path::Path;

use schedcast_base::limits::CpuLimits;
use schedcast_lab::error::{Error, Result};
use serde::Deserialize;

use crate::SCHEMA;

/// The parts of an advice that are applied.
#[derive(Deserialize)]
struct AdviceFile {
    schema: String,
    target: String,
    recommended: Option<String>,
    options: Vec<LimitFile>,
}

/// An option as far as it is applied. Its price may be without a number: a neighbour that gets no
/// CPU time any more pays without bound.
#[derive(Deserialize)]
struct LimitFile {
    name: String,
    #[serde(flatten)]
    limit: CpuLimits,
}

/// Recommendation of an advice that was written with `--json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recommendation {
    /// The group.
    pub target: String,
    /// The limit that it should have.
    pub limit: CpuLimits,
    /// The limit that it had when it was recorded.
    pub recorded: CpuLimits,
}

const EXPECTED: &str = "expected what `schedcast advise --json FILE` wrote";

/// The recommendation in the file at `path`.
///
/// # Errors
/// A file that is no advice, or one that recommends nothing.
pub fn read_recommendation(path: &Path) -> Result<Recommendation> {
    let text = schedcast_base::whole::expected_text(path, EXPECTED)?;
    let file: AdviceFile = serde_json::from_str(&text)
        .map_err(|error| Error::general(format!("{}: no advice: {error}", path.display())))
        .map_err(|error| error.hint(EXPECTED))?;
    if file.schema != SCHEMA {
        let (found, path) = (&file.schema, path.display());
        return Err(
            Error::general(format!("{path}: expected {SCHEMA}, found {found}")).hint(EXPECTED),
        );
    }
    let best = file.recommended.and_then(|name| {
        let mut options = file.options.iter();
        options.find(|option| option.name == name)
    });
    // The recorded limit is the first option.
    match best.zip(file.options.first()) {
        Some((best, recorded)) => Ok(Recommendation {
            limit: best.limit,
            recorded: recorded.limit,
            target: file.target,
        }),
        None => Err(Error::general(format!(
            "{}: it recommends nothing",
            path.display()
        ))),
    }
}
