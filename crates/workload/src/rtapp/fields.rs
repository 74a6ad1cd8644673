//! Typed access to the members of one object, with the same words for every mismatch.
//!
//! rt-app ignores a key that it does not know, and json-c keeps one of two equal keys. Both turn a
//! slip of the finger into a different workload without a word, so here both are errors:
//!
//! ```text
//! w.json:4:9: unknown key "lop" in task "a"; nearest valid name: `loop`
//! w.json:5:9: "loop" is given twice in task "a" (first at 4:9)
//! w.json:6:18: "delay" of task "a": expected a whole number from 0 to 2147483647, found true
//! ```
//!
//! `null` is "not said", as in rt-app: json-c hands it over as an absent value.

use std::ops::RangeInclusive;

use super::ast::Located;
use super::error::{Fault, Span, quoted};
use super::json::{Kind, Member, Value};
use schedcast_base::names::suggestion;

/// rt-app keeps every number in an `int`.
pub(super) const INTEGER_MAX: i64 = i32::MAX as i64;

/// The members of an object that are not events, by key.
pub(super) struct Fields<'a> {
    owner: String,
    members: Vec<&'a Member>,
}

impl<'a> Fields<'a> {
    /// Refuses keys that are not `valid` and keys given twice. `owner` is named in every message:
    /// `task "a"`.
    pub(super) fn new(
        owner: &str,
        members: impl IntoIterator<Item = &'a Member>,
        valid: &[&str],
    ) -> Result<Self, Fault> {
        let mut fields = Self {
            owner: owner.to_owned(),
            members: Vec::new(),
        };
        for member in members {
            if !valid.contains(&member.key.as_str()) {
                return Err(unknown_key(member, owner, valid));
            }
            fields.refuse_duplicate(member)?;
            fields.members.push(member);
        }
        Ok(fields)
    }

    fn refuse_duplicate(&self, member: &Member) -> Result<(), Fault> {
        let Some(first) = self.members.iter().find(|other| other.key == member.key) else {
            return Ok(());
        };
        let message = format!(
            "{} is given twice in {} (first at {})",
            quoted(&member.key),
            self.owner,
            first.span
        );
        Err(Fault::new(member.span, message))
    }

    /// The member with this key, unless it is missing or `null`.
    pub(super) fn member(&self, key: &str) -> Option<&'a Member> {
        let member = self.members.iter().find(|member| member.key == key)?;
        (member.value.kind != Kind::Null).then_some(*member)
    }

    /// Where the key is, if it is said.
    pub(super) fn span(&self, key: &str) -> Option<Span> {
        self.member(key).map(|member| member.span)
    }

    /// A whole number within `range`.
    pub(super) fn integer(
        &self,
        key: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<Located<i64>>, Fault> {
        let Some(member) = self.member(key) else {
            return Ok(None);
        };
        let value = whole_number(&self.what(key), &member.value, "", range)?;
        Ok(Some(Located::new(value, member.value.span)))
    }

    /// A whole number from 0 up.
    pub(super) fn unsigned(&self, key: &str) -> Result<Option<Located<u32>>, Fault> {
        let Some(located) = self.integer(key, 0..=INTEGER_MAX)? else {
            return Ok(None);
        };
        // The range fits.
        let value = u32::try_from(located.value).unwrap_or(u32::MAX);
        Ok(Some(Located::new(value, located.span)))
    }

    /// `true` or `false`.
    pub(super) fn boolean(&self, key: &str) -> Result<Option<Located<bool>>, Fault> {
        let Some(member) = self.member(key) else {
            return Ok(None);
        };
        match member.value.kind {
            Kind::Bool(value) => Ok(Some(Located::new(value, member.value.span))),
            _ => Err(self.mismatch(key, &member.value, "`true` or `false`")),
        }
    }

    /// A string.
    pub(super) fn string(&self, key: &str) -> Result<Option<Located<&'a str>>, Fault> {
        let Some(member) = self.member(key) else {
            return Ok(None);
        };
        match &member.value.kind {
            Kind::String(value) => Ok(Some(Located::new(value, member.value.span))),
            _ => Err(self.mismatch(key, &member.value, "a string")),
        }
    }

    /// One of a list of strings, each standing for something.
    pub(super) fn choice<T: Copy>(
        &self,
        key: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<Located<T>>, Fault> {
        let Some(text) = self.string(key)? else {
            return Ok(None);
        };
        match choices.iter().find(|(name, _)| *name == text.value) {
            Some((_, value)) => Ok(Some(Located::new(*value, text.span))),
            None => Err(self.unknown_value(key, &text, choices)),
        }
    }

    /// The refusal of a string that is not one of the choices.
    pub(crate) fn unknown_value<T>(
        &self,
        key: &str,
        text: &Located<&str>,
        choices: &[(&str, T)],
    ) -> Fault {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let message = format!(
            "{}: unknown value {}; {}",
            self.what(key),
            quoted(text.value),
            suggestion(text.value, &names)
        );
        Fault::new(text.span, message)
    }

    /// An array of whole numbers from 0 up, with at least one in it.
    pub(super) fn numbers(&self, key: &str) -> Result<Option<Located<Vec<u32>>>, Fault> {
        let Some(member) = self.member(key) else {
            return Ok(None);
        };
        let expected = "an array of whole numbers";
        let Kind::Array(items) = &member.value.kind else {
            return Err(self.mismatch(key, &member.value, expected));
        };
        if items.is_empty() {
            let message = format!("{}: expected at least one number", self.what(key));
            return Err(Fault::new(member.value.span, message));
        }
        let mut numbers = Vec::with_capacity(items.len());
        for item in items {
            let number = whole_number(&self.what(key), item, "", 0..=INTEGER_MAX)?;
            numbers.push(u32::try_from(number).unwrap_or(u32::MAX));
        }
        Ok(Some(Located::new(numbers, member.value.span)))
    }

    /// The refusal of a value of the wrong kind.
    pub(super) fn mismatch(&self, key: &str, value: &Value, expected: &str) -> Fault {
        mismatch(&self.what(key), value, expected)
    }

    fn what(&self, key: &str) -> String {
        format!("{} of {}", quoted(key), self.owner)
    }
}

/// The members of a value that must be an object.
pub(super) fn object<'a>(what: &str, value: &'a Value) -> Result<&'a [Member], Fault> {
    match &value.kind {
        Kind::Object(members) => Ok(members),
        _ => Err(mismatch(what, value, "an object")),
    }
}

/// A value that must be a whole number within `range`; `unit` may be empty.
pub(super) fn whole_number(
    what: &str,
    value: &Value,
    unit: &str,
    range: RangeInclusive<i64>,
) -> Result<i64, Fault> {
    match value.kind {
        Kind::Integer(number) if range.contains(&number) => Ok(number),
        _ => {
            let of = if unit.is_empty() {
                String::new()
            } else {
                format!(" of {unit}")
            };
            let (low, high) = range.into_inner();
            let expected = format!("a whole number{of} from {low} to {high}");
            Err(mismatch(what, value, &expected))
        }
    }
}

/// The refusal of a value of the wrong kind.
pub(super) fn mismatch(what: &str, value: &Value, expected: &str) -> Fault {
    Fault::new(
        value.span,
        format!("{what}: expected {expected}, found {}", value.describe()),
    )
}

/// The refusal of a key that means nothing here.
pub(super) fn unknown_key(member: &Member, owner: &str, valid: &[&str]) -> Fault {
    let message = format!(
        "unknown key {} in {owner}; {}",
        quoted(&member.key),
        suggestion(stem(&member.key), valid)
    );
    Fault::new(member.span, message)
}

/// A key without the number at its end, because events are often numbered: `slep2` is near `sleep`.
fn stem(key: &str) -> &str {
    let stem = key.trim_end_matches(|character: char| character.is_ascii_digit());
    if stem.is_empty() { key } else { stem }
}
