//! `calibration.toml`: the constants a study was fitted with, for readers, and compared with each
//! fit.
//!
//! ```toml
//! [[constant]]
//! name = "start after a refill"
//! value = 97
//! unit = "ms"
//! rows = ["schbench, one printed run: request_latency.p50 and .max, base"]
//! how = "the start that gives both"
//! ```
//!
//! A constant without `rows` was not fitted; `how` says where it is from.

use schedcast_lab::error::{Error, Result};
use serde::Deserialize;

use super::prediction::Prediction;

/// A fit may differ from the file by this much before the report says so.
const SAME: f64 = 0.01;

/// One `[[constant]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CalibratedConstant {
    name: String,
    value: f64,
    #[serde(rename = "unit", default)]
    _unit: String,
    #[serde(rename = "rows", default)]
    _rows: Vec<String>,
    #[serde(rename = "how")]
    _how: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    constant: Vec<CalibratedConstant>,
}

/// Reads the file.
///
/// # Errors
/// Text that is no list of constants.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<CalibratedConstant>> {
    let read: File =
        toml::from_str(text).map_err(|error| Error::general(format!("{file}: {error}")))?;
    Ok(read.constant)
}

/// Notes at each constant of the prediction what the file has instead.
pub(super) fn compare(fitted: &[CalibratedConstant], prediction: &mut Prediction) {
    for constant in &mut prediction.constants {
        let known = fitted.iter().find(|known| known.name == constant.name);
        constant.documented = match known {
            None => Some(f64::NAN),
            Some(known) => {
                let reach = SAME * known.value.abs();
                let differs = (known.value - constant.value).abs() > reach;
                differs.then_some(known.value)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fit_that_differs_from_the_file_is_noted() {
        let text = "[[constant]]\nname = \"a\"\nvalue = 100\nhow = \"x\"\n";
        let fitted = parse("c.toml", text).unwrap();
        let noted = |name: &str, value: f64| {
            let mut prediction = Prediction::new();
            prediction.constant(name, value, "", "x");
            compare(&fitted, &mut prediction);
            prediction.constants[0].documented
        };
        assert_eq!(noted("a", 100.9), None);
        assert_eq!(noted("a", 101.1), Some(100.0));
        assert!(noted("b", 1.0).is_some_and(f64::is_nan));
        assert!(parse("c.toml", "[[constant]]\nname = \"a\"\n").is_err());
    }
}
