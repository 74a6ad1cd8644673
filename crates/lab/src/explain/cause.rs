//! Which change of the kernel makes the first difference between two variants.
//!
//! Two variants that differ in nothing but their kernels are the ends of a way of single changes
//! ([`bisect::points`]). The way is halved: a kernel on it that decides like one end up to and at
//! the difference lies before the change that is sought, one that does not lies behind it.
//!
//! Several changes of one release may be needed together: each without which both ends decide alike
//! is told.
//!
//! Worked example: 6.6 and 6.18 place a task on CPUs 20 and 16. Of the changes between them, all up
//! to 6.7 still give CPU 20, and those up to `cluster-flag` give CPU 16. 6.18 without
//! `cluster-scan` gives CPU 20, and so it does without `cluster-flag`, which tells the scan what a
//! cluster is: these two make the difference.

use std::collections::BTreeSet;

use schedcast_kernel::Ns;
use schedcast_kernel::rules::changes::Change;
use serde_json::{Value, json};

use super::difference::{Compared, Difference, changes_kernel, first};
use crate::bisect::{self, Link};
use crate::error::Result;
use crate::experiment::Scenario;
use crate::simulator::Simulator;

/// Changes that make a difference between two kernels.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The changes; none where it is what the kernels differ in beside the table of changes, such
    /// as the tick's frequency.
    pub changes: Vec<Link>,
    /// If there are none, the keys of `[kernel]` that the two variants do not have in common, with
    /// both values.
    pub given: Vec<(String, [Value; 2])>,
    /// Whether the two sides decide alike there without any one of them alone.
    pub alone: bool,
}

impl Cause {
    /// Lines below both sides.
    pub(super) fn text(&self, [a, b]: [&String; 2]) -> String {
        if self.changes.is_empty() && self.given.is_empty() {
            return "\ncause: no change that has a name\n".to_owned();
        }
        if self.changes.is_empty() {
            let shown = |value: &Value| match value {
                Value::Null => "default".to_owned(),
                value => value.to_string(),
            };
            let line = |(key, [one, other]): &(String, [Value; 2])| {
                format!("  {key}  {}  {}\n", shown(one), shown(other))
            };
            let lines: String = self.given.iter().map(line).collect();
            return format!("\ncause, no change of a release but what was set:\n{lines}");
        }
        let mut text = match self.alone {
            true => "\ncause (without it both decide alike up to here):\n".to_owned(),
            false => {
                format!("\ncause, on the way from `{a}` to `{b}` with all changes before it:\n")
            }
        };
        for link in &self.changes {
            text += &link.text("  ");
        }
        text
    }

    pub(super) fn value(&self) -> Value {
        let mut value = json!({ "changes": self.changes, "alone": self.alone });
        if !self.given.is_empty() {
            let given = self.given.iter().cloned();
            let given = given.map(|(key, values)| (key, Value::from(values.to_vec())));
            value["given"] = Value::Object(given.collect());
        }
        value
    }
}

/// The change that makes `found` between two variants; `None` where they differ in more than their
/// kernels.
///
/// # Errors
/// A scenario that cannot be run.
pub(super) fn of(
    simulator: &Simulator,
    [a, b]: [&Scenario; 2],
    how: (u64, Compared),
    found: &Difference,
) -> Result<Option<Cause>> {
    if !bisect::differ_in_kernels_only(a, b) || changes_kernel(a) {
        return Ok(None);
    }
    // One side may decide nothing more; the way begins at the one whose decision has a time.
    let backwards = found.at_ns[0].is_none();
    let (start, end) = if backwards { (b, a) } else { (a, b) };
    let Some(at_ns) = found.at_ns[usize::from(backwards)] else {
        return Ok(None);
    };
    let decides_like_start = |other: &Scenario| -> Result<bool> {
        let parts = first(simulator, [start, other], how, at_ns)?;
        let parts_ns = parts.map(|parts| parts.at_ns[0].unwrap_or(Ns::MAX));
        Ok(parts_ns.is_none_or(|parts_ns| parts_ns > at_ns))
    };
    let points = bisect::points(start, end);
    let (mut alike, mut parts) = (0, points.len() - 1);
    while parts - alike > 1 {
        let middle = alike.midpoint(parts);
        match decides_like_start(&points[middle].scenario)? {
            true => alike = middle,
            false => parts = middle,
        }
    }
    let Some(found) = &points[parts].link else {
        return Ok(Some(Cause {
            changes: Vec::new(),
            given: given([a, b]),
            alone: false,
        }));
    };
    let mut changes = Vec::new();
    let links = points.iter().filter_map(|point| point.link.as_ref());
    for link in links.filter(|link| link.release == found.release) {
        let mut without = end.clone();
        if let Some((change, on)) = change_of(link) {
            change.apply(&mut without.kernel.rules, !on);
            if decides_like_start(&without)? {
                changes.push(link);
            }
        }
    }
    let alone = !changes.is_empty();
    if !alone {
        changes.push(found);
    }
    let changes = changes.into_iter().map(|link| match backwards {
        true => reversed(link),
        false => link.clone(),
    });
    Ok(Some(Cause {
        changes: changes.collect(),
        given: Vec::new(),
        alone,
    }))
}

/// Keys of `[kernel]` besides the release in which two variants differ, with both values.
fn given(variants: [&Scenario; 2]) -> Vec<(String, [Value; 2])> {
    let [one, other] = variants.map(|variant| json!(variant.kernel));
    let empty = serde_json::Map::new();
    let [one, other] = [&one, &other].map(|kernel| kernel.as_object().unwrap_or(&empty));
    let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    keys.into_iter()
        .filter(|key| !["version", "stands_for"].contains(&key.as_str()))
        .map(|key| {
            let values = [one, other].map(|kernel| kernel.get(key).cloned().unwrap_or_default());
            (key.clone(), values)
        })
        .filter(|(_, [one, other])| one != other)
        .collect()
}

/// A change on the way, and whether the way makes it.
fn change_of(link: &Link) -> Option<(&'static Change, bool)> {
    match link.patch.strip_prefix('-') {
        Some(name) => Some((Change::named(name)?, false)),
        None => Some((Change::named(&link.patch)?, true)),
    }
}

/// The same change on the way back.
fn reversed(link: &Link) -> Link {
    let patch = match link.patch.strip_prefix('-') {
        Some(name) => name.to_owned(),
        None => format!("-{}", link.patch),
    };
    Link {
        patch,
        ..link.clone()
    }
}
