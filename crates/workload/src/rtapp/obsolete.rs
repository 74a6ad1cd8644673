//! Form that rt-app read before 2014: a period, an amount of work and a nested list of resources.
//!
//! ```text
//! "thread0": { "exec": 5000, "period": 20000, "lock_order": ["m0"],
//!              "resources": { "m0": { "duration": 1000 } } }
//! ```
//!
//! Three example files of Debian's package still have it, though its own rt-app makes nothing
//! sensible of them: it takes `lock_order` for a `lock` of the wrong type and runs an empty event.
//! Such a task loads, with its keys checked, and is refused when run.

use super::error::Fault;
use super::fields::{Fields, INTEGER_MAX, object};
use super::json::{Kind, Member, Value};

/// Keys that only the old grammar has, so that one of them gives it away.
const MARKS: [&str; 3] = ["exec", "lock_order", "resources"];

const TASK_KEYS: [&str; 14] = [
    "exec",
    "period",
    "deadline",
    "lock_order",
    "resources",
    "sleep",
    "loop",
    "policy",
    "priority",
    "cpus",
    "phases",
    "instance",
    "delay",
    "duration",
];

/// Types of the old `resources` object.
const RESOURCE_TYPES: [&str; 12] = [
    "mutex",
    "wait",
    "signal",
    "broadcast",
    "sync",
    "sleep",
    "run",
    "timer",
    "suspend",
    "resume",
    "mem",
    "iorun",
];

/// The first key of the old grammar in a task or in one of its phases.
pub(super) fn find(members: &[Member]) -> Option<&Member> {
    members.iter().find_map(|member| {
        if MARKS.contains(&member.key.as_str()) {
            return Some(member);
        }
        let Kind::Object(phases) = &member.value.kind else {
            return None;
        };
        if member.key != "phases" {
            return None;
        }
        phases.iter().find_map(|phase| match &phase.value.kind {
            Kind::Object(members) => members
                .iter()
                .find(|member| MARKS.contains(&member.key.as_str())),
            _ => None,
        })
    })
}

/// Checks keys and types of a task or phase in the old grammar.
pub(super) fn check_task(owner: &str, members: &[Member]) -> Result<(), Fault> {
    let fields = Fields::new(owner, members, &TASK_KEYS)?;
    for key in [
        "exec", "period", "deadline", "instance", "delay", "duration",
    ] {
        fields.unsigned(key)?;
    }
    for key in ["loop", "priority"] {
        fields.integer(key, -INTEGER_MAX..=INTEGER_MAX)?;
    }
    fields.boolean("sleep")?;
    fields.choice("policy", &super::ast::Policy::choices())?;
    fields.numbers("cpus")?;
    names(&fields, "lock_order")?;
    if let Some(member) = fields.member("resources") {
        check_uses(owner, &member.value)?;
    }
    if let Some(member) = fields.member("phases") {
        for phase in object(&format!("\"phases\" of {owner}"), &member.value)? {
            let what = format!("phase {} of {owner}", super::error::quoted(&phase.key));
            check_task(&what, object(&what, &phase.value)?)?;
        }
    }
    Ok(())
}

fn names(fields: &Fields<'_>, key: &str) -> Result<(), Fault> {
    let Some(member) = fields.member(key) else {
        return Ok(());
    };
    let is_name = |item: &Value| matches!(item.kind, Kind::String(_) | Kind::Integer(_));
    match &member.value.kind {
        Kind::Array(items) if items.iter().all(is_name) => Ok(()),
        _ => Err(fields.mismatch(key, &member.value, "an array of names")),
    }
}

fn check_uses(owner: &str, value: &Value) -> Result<(), Fault> {
    for member in object(&format!("\"resources\" of {owner}"), value)? {
        let what = format!("resource {} of {owner}", super::error::quoted(&member.key));
        let fields = Fields::new(
            &what,
            object(&what, &member.value)?,
            &["duration", "access"],
        )?;
        fields.unsigned("duration")?;
        names(&fields, "access")?;
    }
    Ok(())
}

/// Checks the `resources` object at the top, in which older files declare what events now create.
pub(super) fn check_resources(value: &Value) -> Result<(), Fault> {
    for member in object("`resources`", value)? {
        let what = format!("resource {}", super::error::quoted(&member.key));
        let fields = Fields::new(&what, object(&what, &member.value)?, &["type", "target"])?;
        fields.choice("type", &RESOURCE_TYPES.map(|name| (name, ())))?;
        fields.string("target")?;
    }
    Ok(())
}
