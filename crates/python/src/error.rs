//! Errors of the laboratory as exceptions, with the text of the command line.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use schedcast_lab::error;

create_exception!(
    schedcast,
    Error,
    PyException,
    "Refusal or failure of schedcast. `str()` is the message of the command line, with the place."
);
create_exception!(
    schedcast,
    UsageError,
    Error,
    "A question that makes no sense, such as a variant that does not exist (exit code 2)."
);
create_exception!(
    schedcast,
    InputError,
    Error,
    "A mistake in an experiment, a setting or a recording, with its place (exit code 3)."
);
create_exception!(
    schedcast,
    FileError,
    Error,
    "A file that cannot be read or written (exit code 3)."
);

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("UsageError", py.get_type::<UsageError>())?;
    module.add("InputError", py.get_type::<InputError>())?;
    module.add("FileError", py.get_type::<FileError>())
}

/// The exception for an error: the message as the command prints it, without the word `error:`.
pub(crate) fn raise(error: &error::Error) -> PyErr {
    let text = error.render();
    let text = text.trim_end();
    let text = text.strip_prefix("error: ").unwrap_or(text).to_string();
    match error {
        error::Error::Usage(_) => UsageError::new_err(text),
        error::Error::Input(_) => InputError::new_err(text),
        error::Error::File { .. } => FileError::new_err(text),
    }
}

/// A result of the laboratory as a result of Python.
pub(crate) fn raised<T>(result: error::Result<T>) -> PyResult<T> {
    result.map_err(|error| raise(&error))
}
