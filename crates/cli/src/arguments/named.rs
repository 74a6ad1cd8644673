//! Flags whose values are those of a library's enumeration.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use schedcast_base::named::Named;

/// Parser of the names of an enumeration, which the help explains by its documentation.
pub(crate) fn one_of<T: Named + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let values = T::all()
        .iter()
        .map(|one| PossibleValue::new(one.name()).help(help_of(*one)));
    PossibleValuesParser::new(values).map(|name| {
        let mut all = T::all().iter().copied();
        all.find(|one| one.name() == name)
            .expect("a name that was offered")
    })
}

/// Help of a value: its documentation, without the full stop.
pub(crate) fn help_of(one: impl Named) -> &'static str {
    one.about().trim().trim_end_matches('.')
}
