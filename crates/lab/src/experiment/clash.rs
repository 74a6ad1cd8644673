//! Settings for all columns that a variant or an axis of `[sweep]` sets as well.
//!
//! Worked example: `--kernel 7.3` for an experiment whose variant `CFS` has
//! `kernel.version = "6.5"`. Either of the two would have to give way in silence, so the setting is
//! refused at the line of the variant.

use super::document::{Entry, Kind, Table, Value, nest};
use super::sweep::Axis;
use crate::error::{Error, Place, Result};

/// Refuses settings that a variant has as well.
///
/// # Errors
/// The first such setting, at the place in the variant.
pub(super) fn refuse_in_variants(
    settings: &[Table],
    variants: &[(String, Vec<Table>)],
) -> Result<()> {
    for (name, layers) in variants {
        for layer in layers {
            if let Some(found) = first(settings, layer) {
                let setting = &found.setting;
                let hint = format!(
                    "`--variant NAME {setting}` opens a column of its own; `run` and `explain` \
                     take `--variant '{name}' {setting}`, too"
                );
                return Err(found.refusal(&format!("the variant `{name}`")).hint(hint));
            }
        }
    }
    Ok(())
}

/// Refuses settings that are an axis.
///
/// # Errors
/// The first such setting, at the place of the axis.
pub(super) fn refuse_in_axes(settings: &[Table], axes: &[Axis]) -> Result<()> {
    for axis in axes {
        let layer = nest(&axis.path, &axis.place, axis.values[0].clone());
        if let Some(found) = first(settings, &layer) {
            return Err(found.refusal("[sweep]"));
        }
    }
    Ok(())
}

/// A setting for all columns and the key of a column that is about the same.
struct Clash {
    /// As typed.
    setting: String,
    /// Key in the column, with its section.
    key: String,
    place: Place,
}

impl Clash {
    fn refusal(&self, owner: &str) -> Error {
        let Clash {
            setting,
            key,
            place,
        } = self;
        let message = format!("`{setting}` is for all columns, and {owner} has its own `{key}`");
        Error::input(place, message)
    }
}

fn first(settings: &[Table], layer: &Table) -> Option<Clash> {
    let mut settings = settings.iter();
    settings.find_map(|setting| within(setting, layer, ""))
}

/// The first leaf of `setting` that `layer` has, too. A release and a tree are about the same.
fn within(setting: &Table, layer: &Table, above: &str) -> Option<Clash> {
    setting.entries.iter().find_map(|typed| {
        let names = match (above, typed.key.as_str()) {
            ("kernel.", "version") => ["version", "tree"],
            ("kernel.", "tree") => ["tree", "version"],
            (_, key) => [key, key],
        };
        let mut own = names.iter().filter_map(|name| layer.entry(name));
        own.find_map(|own| under(typed, own, above))
    })
}

fn under(typed: &Entry, own: &Entry, above: &str) -> Option<Clash> {
    let path = format!("{above}{}", own.key);
    if let Kind::Table(typed) = &typed.value.kind {
        return match &own.value.kind {
            Kind::Table(own) => within(typed, own, &format!("{path}.")),
            Kind::Array(own) if path == "program" => own.iter().find_map(|own| {
                let Kind::Table(own) = &own.kind else {
                    return None;
                };
                let name = own.get("name").and_then(|name| name.text("").ok())?;
                let Kind::Table(typed) = &typed.get(name)?.kind else {
                    return None;
                };
                within(typed, own, &format!("{path}.{name}."))
            }),
            _ => None,
        };
    }
    // A variant without a tree of the document has no release by that.
    let is_no_tree = |value: &Value| value.text("").is_ok_and(str::is_empty);
    if path == "kernel.tree" && typed.key == "version" && is_no_tree(&own.value) {
        return None;
    }
    let source = &typed.value.place.source;
    Some(Clash {
        setting: format!("{} {}", source.name, source.text),
        key: path,
        place: own.key_place.clone(),
    })
}
