//! `[sweep]`: a grid of values over dotted keys.
//!
//! Every key is an axis; the points are all combinations, the last axis running fastest. Worked
//! example:
//!
//! ```toml
//! [sweep]
//! 'cgroup."/test"."cpu.max.burst"' = [0, 50000]
//! "kernel.version" = ["6.6", "6.12"]
//! ```
//!
//! has the four points burst 0 on 6.6, burst 0 on 6.12, burst 50000 on 6.6, burst 50000 on 6.12.

use super::document::{Kind, Table, Value, nest, parse_key};
use crate::error::{Error, Place, Result, hint_for};

/// One key and the values it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The key as written, for labels.
    pub key: String,
    /// The key's parts.
    pub path: Vec<String>,
    /// Where the key was written.
    pub place: Place,
    /// The values, in file order.
    pub values: Vec<Value>,
}

/// One combination of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// `KEY=VALUE` for every axis, short: the last part of the key.
    pub label: String,
    /// The settings as a document layer.
    pub layer: Table,
    /// The value on every axis.
    pub values: Vec<Value>,
}

/// More points than this are refused as a mistake.
const MOST_POINTS: usize = 100_000;

/// Reads the axes.
///
/// # Errors
/// A key that is not dotted TOML or starts outside `roots`, an axis without values.
pub(crate) fn read(section: &Table, roots: &[&str]) -> Result<Vec<Axis>> {
    let mut axes = Vec::new();
    for entry in &section.entries {
        let place = &entry.key_place;
        let path = match parse_key(&entry.key, &place.source, place.span.start) {
            Ok(path) => path,
            Err(_) => {
                return Err(
                    Error::input(place, format!("`{}` is not a dotted key", entry.key))
                        .hint("for example 'cgroup.\"/test\".\"cpu.max.burst\"' = [0, 50000]"),
                );
            }
        };
        if !roots.contains(&path[0].as_str()) || path.len() < 2 {
            let message = format!("`{}` is not a setting that can vary", entry.key);
            return Err(Error::input(place, message).hint(hint_for(&path[0], roots)));
        }
        let values = entry
            .value
            .array("the array of values this key takes")?
            .to_vec();
        if values.is_empty() {
            return Err(Error::input(
                &entry.value.place,
                "an axis needs at least one value",
            ));
        }
        axes.push(Axis {
            key: entry.key.clone(),
            path,
            place: place.clone(),
            values,
        });
    }
    let points = axes.iter().try_fold(1_usize, |points, axis| {
        points.checked_mul(axis.values.len())
    });
    match (points, axes.last()) {
        (Some(points), _) if points <= MOST_POINTS => Ok(axes),
        (_, Some(axis)) => Err(Error::input(
            &axis.place,
            format!("the grid has more than {MOST_POINTS} points"),
        )),
        (_, None) => Ok(axes),
    }
}

/// All combinations, the last axis running fastest; one empty point without axes.
pub fn points(axes: &[Axis]) -> Vec<Point> {
    let mut points = vec![Point {
        label: String::new(),
        layer: Table::default(),
        values: Vec::new(),
    }];
    for axis in axes {
        points = points
            .iter()
            .flat_map(|point| extend(point, axis))
            .collect();
    }
    points
}

fn extend<'a>(point: &'a Point, axis: &'a Axis) -> impl Iterator<Item = Point> + 'a {
    axis.values.iter().map(move |value| {
        let mut layer = point.layer.clone();
        layer.merge(&nest(&axis.path, &axis.place, value.clone()));
        let name = axis.path.last().map_or(axis.key.as_str(), String::as_str);
        let separator = if point.label.is_empty() { "" } else { " " };
        let label = format!("{}{separator}{name}={}", point.label, short(value));
        let mut values = point.values.clone();
        values.push(value.clone());
        Point {
            label,
            layer,
            values,
        }
    })
}

/// Label of a list without anything in it, which would be an empty cell.
const EMPTY_LIST: &str = "none";

/// A value as a label.
pub fn short(value: &Value) -> String {
    match &value.kind {
        Kind::Text(text) | Kind::Bare(text) => text.clone(),
        Kind::Integer(number) => number.to_string(),
        Kind::Float(number) => number.to_string(),
        Kind::Boolean(value) => value.to_string(),
        Kind::Array(values) if values.is_empty() => EMPTY_LIST.to_owned(),
        Kind::Array(values) => values.iter().map(short).collect::<Vec<_>>().join("+"),
        Kind::Table(table) => {
            let entries = table.entries.iter();
            let pairs = entries.map(|entry| format!("{}={}", entry.key, short(&entry.value)));
            pairs.collect::<Vec<_>>().join(" ")
        }
    }
}
