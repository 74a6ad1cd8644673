//! Reading of the JSON files in a recording's folder, with errors that say where and what else
//! could have stood there.

use std::path::Path;

use schedcast_base::names::{nearest, unknown_in};
use serde::de::{DeserializeOwned, Deserializer, Error};

use crate::error::{ErrorKind, ReadError, unknown_name};

/// Reads a whole file.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, ReadError> {
    let text = schedcast_base::whole::read(path).map_err(|error| ReadError::io(path, &error))?;
    serde_json::from_slice(&text).map_err(|error| explain(path, &error))
}

fn explain(path: &Path, error: &serde_json::Error) -> ReadError {
    let full = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = full.strip_suffix(&place).unwrap_or(&full);
    let kind = if error.is_eof() {
        ErrorKind::Truncated
    } else if message.starts_with("unknown ") {
        ErrorKind::Unknown
    } else {
        ErrorKind::Malformed
    };
    ReadError::new(
        kind,
        path,
        unknown_field(message).unwrap_or_else(|| message.to_owned()),
    )
    .at_line(error.line() as u64)
    .at_column(error.column() as u64)
}

/// Words serde's list of all fields as the nearest one.
fn unknown_field(message: &str) -> Option<String> {
    let (name, known) = unknown_in(message).filter(|_| message.starts_with("unknown field"))?;
    nearest(name, known.iter().copied())?;
    Some(unknown_name("key", name, &known))
}

/// Reads a word that must be one of `known`.
pub(crate) fn word<'de, D, T, const N: usize>(
    deserializer: D,
    what: &str,
    known: &[(&str, T); N],
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Copy,
{
    let word: std::borrow::Cow<str> = serde::Deserialize::deserialize(deserializer)?;
    known
        .iter()
        .find(|(name, _)| *name == word)
        .map(|(_, value)| *value)
        .ok_or_else(|| {
            let names = known.each_ref().map(|(name, _)| *name);
            D::Error::custom(unknown_name(what, &word, &names))
        })
}
