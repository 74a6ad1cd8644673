//! The experiment file as a tree of values that know where they were written.
//!
//! Three things become the same tree: a TOML file ([`parse`]), a `--set KEY=VALUE` argument
//! ([`parse_setting`]) and a point of a `[sweep]` grid. Trees are laid over one another with
//! [`Table::merge`]: tables merge, everything else replaces. Worked example: over
//!
//! ```toml
//! [kernel]
//! version = "5.14"
//! hz = 1000
//! ```
//!
//! the setting `kernel.version=6.12` gives `version = "6.12"`, `hz = 1000`; an error about the
//! version now points into the `--set` argument and one about `hz` still into the file.

use std::sync::Arc;

use toml::de::{DeInteger, DeTable, DeValue};

use crate::error::{Error, Place, Result, Source, hint_for};

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Value as written.
    pub kind: Kind,
    /// Where it was written.
    pub place: Place,
}

impl Value {
    pub(crate) fn new(kind: Kind, place: Place) -> Value {
        Value { kind, place }
    }
}

/// Value as written.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A quoted string.
    Text(String),
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// An unquoted command-line value: whatever type its key expects, so `kernel.version=6.10`
    /// stays `6.10`.
    Bare(String),
    /// `[…]`.
    Array(Vec<Value>),
    /// `{…}` or a `[table]`.
    Table(Table),
}

/// One `key = value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key, unquoted.
    pub key: String,
    /// Where the key was written.
    pub key_place: Place,
    /// Its value.
    pub value: Value,
}

impl Entry {
    pub(crate) fn new(key: impl Into<String>, key_place: Place, value: Value) -> Entry {
        let key = key.into();
        Entry {
            key,
            key_place,
            value,
        }
    }
}

/// Keys and values in the order they were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The entries; keys are unique.
    pub entries: Vec<Entry>,
}

impl Table {
    /// The entry of `key`.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// Removes and returns the entry of `key`.
    pub fn take(&mut self, key: &str) -> Option<Entry> {
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(index))
    }

    /// Refuses every key that is not in `valid`.
    ///
    /// # Errors
    /// The first unknown key, with its place and the nearest valid name.
    pub fn refuse_unknown(&self, valid: &[&str], inside: &str) -> Result<()> {
        match self
            .entries
            .iter()
            .find(|entry| !valid.contains(&entry.key.as_str()))
        {
            None => Ok(()),
            Some(entry) => Err(unknown_key(entry, valid, inside)),
        }
    }

    /// Lays `over` on this table: tables merge, everything else replaces.
    pub(crate) fn merge(&mut self, over: &Table) {
        for entry in &over.entries {
            let Some(below) = self.entries.iter_mut().find(|below| below.key == entry.key) else {
                self.entries.push(entry.clone());
                continue;
            };
            match (&mut below.value.kind, &entry.value.kind) {
                (Kind::Table(table), Kind::Table(over)) => table.merge(over),
                _ => *below = entry.clone(),
            }
        }
    }
}

/// Keys of systemd and Kubernetes, in small letters, and what says the same here.
const FOREIGN_KEYS: [(&str, &str); 10] = [
    ("cpuquota", "cpu.max=60% is CPUQuota=60%"),
    (
        "cpuquotaperiodsec",
        "cpu.max=60%/20ms has its period behind the slash",
    ),
    ("cpuweight", "cpu.weight takes the same numbers"),
    ("cpushares", "cpu.shares takes the same numbers"),
    ("allowedcpus", "cpuset.cpus takes the same list"),
    (
        "limits.cpu",
        "cpu.max takes the same values, such as cpu.max=500m",
    ),
    (
        "requests.cpu",
        "cpu.shares=614 is requests.cpu of 600m: 1024 a CPU",
    ),
    (
        "cpus",
        "cpu.max=0.6 is --cpus 0.6, and machine.cpus is the number of CPUs",
    ),
    (
        "quota",
        "cpu.max=60000 is a quota of 60 ms in the period that there is",
    ),
    ("period", "cpu.max=60%/20ms has its period behind the slash"),
];

/// Settings of a group that are typed without its path.
const OF_A_GROUP: [&str; 5] = [
    "cpu.max",
    "cpu.max.burst",
    "cpu.weight",
    "cpu.idle",
    "cpuset.cpus",
];

/// Controllers whose files have no part in scheduling.
const OTHER_CONTROLLERS: [&str; 3] = ["memory.", "io.", "pids."];

/// The setting of a group that `key` nearly is: `cpu.max` of `cpu_max` and `cpumax`.
fn nearest_of_group(key: &str) -> Option<&'static str> {
    let key = key.replace(['_', '-'], ".");
    schedcast_base::names::nearest(&key, OF_A_GROUP)
}

/// Refuses a key of `--set` that begins with `first`, which is no part of an experiment, unless
/// that is nearly one.
fn refuse_foreign(key: &str, first: &str, place: &Place) -> Result<()> {
    let small = key.trim().to_ascii_lowercase();
    // `resources.limits.cpu` is the same as `limits.cpu`.
    let is = |known: &str| small == known || small.ends_with(&format!(".{known}"));
    let roots: Vec<&str> = super::root_keys().collect();
    let is_near = schedcast_base::names::nearest(first, roots.iter().copied()).is_some();
    let hint = match FOREIGN_KEYS.iter().find(|(known, _)| is(known)) {
        Some((_, instead)) => (*instead).to_string(),
        None if OTHER_CONTROLLERS.iter().any(|one| small.starts_with(one)) => {
            "it has no part in scheduling; cpu.max, cpu.weight and cpuset.cpus have".to_string()
        }
        None if is_near => return Ok(()),
        None => match nearest_of_group(&small) {
            Some(near) => format!("the nearest valid name is `{near}`"),
            None => format!(
                "{} are settings of a group, and others begin with one of {}",
                OF_A_GROUP.join(", "),
                roots.join(", ")
            ),
        },
    };
    Err(Error::input(place, format!("unknown key `{key}`")).hint(hint))
}

/// The error for a key that does not exist here.
pub(crate) fn unknown_key(entry: &Entry, valid: &[&str], inside: &str) -> Error {
    Error::input(
        &entry.key_place,
        format!("unknown key `{}` in {inside}", entry.key),
    )
    .hint(hint_for(&entry.key, valid))
}

impl Value {
    /// The word for what this is, for messages.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            Kind::Text(text) => format!("the string \"{text}\""),
            Kind::Integer(number) => format!("the integer {number}"),
            Kind::Float(number) => format!("the number {number}"),
            Kind::Boolean(value) => format!("{value}"),
            Kind::Bare(text) => format!("`{text}`"),
            Kind::Array(_) => "an array".to_string(),
            Kind::Table(_) => "a table".to_string(),
        }
    }

    /// The error that something else was expected here.
    pub fn expected(&self, what: &str) -> Error {
        Error::input(
            &self.place,
            format!("expected {what}, found {}", self.describe()),
        )
    }

    /// The string, or the error that `what` was expected.
    pub fn text(&self, what: &str) -> Result<&str> {
        match &self.kind {
            Kind::Text(text) | Kind::Bare(text) => Ok(text),
            _ => Err(self.expected(what)),
        }
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&self, what: &str) -> Result<bool> {
        match &self.kind {
            Kind::Boolean(value) => Ok(*value),
            Kind::Bare(text) if text == "true" => Ok(true),
            Kind::Bare(text) if text == "false" => Ok(false),
            _ => Err(self.expected(what)),
        }
    }

    /// An integer of any size and sign.
    pub(crate) fn integer(&self, what: &str) -> Result<i64> {
        match &self.kind {
            Kind::Integer(number) => Ok(*number),
            Kind::Bare(text) => text
                .replace('_', "")
                .parse()
                .map_err(|_| self.expected(what)),
            _ => Err(self.expected(what)),
        }
    }

    /// An integer from `least` to `most`.
    pub(crate) fn integer_in(&self, least: i64, most: i64, what: &str) -> Result<i64> {
        let number = self.integer(&format!("{what}, a whole number from {least} to {most}"))?;
        if (least..=most).contains(&number) {
            return Ok(number);
        }
        Err(Error::input(
            &self.place,
            format!("{what} must be {least} to {most}, not {number}"),
        ))
    }

    /// The elements of an array.
    pub fn array(&self, what: &str) -> Result<&[Value]> {
        match &self.kind {
            Kind::Array(values) => Ok(values),
            _ => Err(self.expected(what)),
        }
    }

    /// The entries of a table.
    pub fn table(&self, what: &str) -> Result<&Table> {
        match &self.kind {
            Kind::Table(table) => Ok(table),
            _ => Err(self.expected(what)),
        }
    }
}

/// Reads a TOML text.
///
/// # Errors
/// The first syntax error, with its place.
pub fn parse(source: &Arc<Source>) -> Result<Table> {
    let document = DeTable::parse(&source.text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        Error::input(
            &Place::new(source, span),
            error.message().replace('\n', ", "),
        )
    })?;
    convert_table(document.get_ref(), source)
}

fn convert_table(table: &DeTable<'_>, source: &Arc<Source>) -> Result<Table> {
    let mut entries = Vec::new();
    for (key, value) in table {
        let kind = convert(value.get_ref(), &Place::new(source, value.span()))?;
        entries.push(Entry::new(
            key.get_ref().as_ref(),
            Place::new(source, key.span()),
            Value::new(kind, Place::new(source, value.span())),
        ));
    }
    // The parser keeps keys in alphabetical order; people wrote them in theirs.
    entries.sort_by_key(|entry| entry.key_place.span.start);
    Ok(Table { entries })
}

fn convert(value: &DeValue<'_>, place: &Place) -> Result<Kind> {
    Ok(match value {
        DeValue::String(text) => Kind::Text(text.to_string()),
        DeValue::Integer(number) => Kind::Integer(convert_integer(number, place)?),
        DeValue::Float(number) => {
            let parsed = number.as_str().replace('_', "").parse();
            Kind::Float(parsed.map_err(|_| Error::input(place, "not a number"))?)
        }
        DeValue::Boolean(value) => Kind::Boolean(*value),
        DeValue::Datetime(_) => {
            return Err(Error::input(place, "no key takes a date or a time of day")
                .hint("durations are strings, such as \"20s\""));
        }
        DeValue::Array(values) => {
            let mut array = Vec::new();
            for value in values.iter() {
                let place = Place::new(&place.source, value.span());
                array.push(Value::new(convert(value.get_ref(), &place)?, place));
            }
            Kind::Array(array)
        }
        DeValue::Table(table) => Kind::Table(convert_table(table, &place.source)?),
    })
}

fn convert_integer(number: &DeInteger<'_>, place: &Place) -> Result<i64> {
    i64::from_str_radix(&number.as_str().replace('_', ""), number.radix())
        .map_err(|_| Error::input(place, "integer does not fit 64 bits"))
}

/// Splits a dotted key as TOML does: `cgroup."/test"."cpu.max"` has three parts.
///
/// `text` must start at byte `offset` of the source, so that an error can point at it.
///
/// # Errors
/// A key that is not TOML's, with its place.
pub(crate) fn parse_key(text: &str, source: &Arc<Source>, offset: usize) -> Result<Vec<String>> {
    let place = Place::new(source, offset..offset + text.len());
    let wrong = || {
        Error::input(&place, format!("`{text}` is not a key"))
            .hint("keys are dotted, parts with dots or slashes quoted: cgroup.\"/a\".\"cpu.max\"")
    };
    // Text that would end the key and begin something else is not part of any key.
    if find_outside_quotes(text, &['=', '[', ']', '{', '}', '#', '\n', '\r']).is_some() {
        return Err(wrong());
    }
    let document = format!("{text}=0");
    let parsed = DeTable::parse(&document).map_err(|_| wrong())?;
    let mut parts = Vec::new();
    let mut table = parsed.get_ref();
    loop {
        let mut entries = table.iter();
        let (Some((key, value)), None) = (entries.next(), entries.next()) else {
            return Err(wrong());
        };
        parts.push(key.get_ref().to_string());
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => return Ok(parts),
        }
    }
}

/// The files of a cpu cgroup that `--set` may name without `cgroup."/path".` before them.
pub(crate) const CGROUP_FILE_PREFIXES: [&str; 2] = ["cpu.", "cpuset."];

/// Reads one `KEY=VALUE` argument into a tree with a single leaf.
///
/// The key is dotted as in TOML, or names a file of `cgroup`, such as `cpu.max`. A value that
/// starts like a TOML string, array or table is read as TOML; any other is taken as it stands.
///
/// # Errors
/// An input error at the argument: no `=`, no key, a value that breaks off, or a cgroup file
/// without a group to set it in.
pub fn parse_setting(source: &Arc<Source>, cgroup: Option<&str>) -> Result<Table> {
    let argument = source.text.as_str();
    let whole = Place::new(source, 0..argument.len());
    let Some(equals) = find_outside_quotes(argument, &['=']) else {
        return Err(Error::input(
            &whole,
            format!("`{argument}` is not KEY=VALUE"),
        ));
    };
    let key = argument[..equals].trim();
    let is_file = CGROUP_FILE_PREFIXES
        .iter()
        .any(|prefix| key.starts_with(prefix));
    let parts = if is_file {
        let Some(path) = cgroup else {
            return Err(
                Error::input(&Place::new(source, 0..equals), format!("whose `{key}`?")).hint(
                    format!(
                        "name the group with --cgroup /path, or write cgroup.\"/path\".\"{key}\"=…"
                    ),
                ),
            );
        };
        vec!["cgroup".to_string(), path.to_string(), key.to_string()]
    } else {
        let parts = parse_key(key, source, 0)?;
        if !super::is_root_key(&parts[0]) {
            refuse_foreign(key, &parts[0], &Place::new(source, 0..equals))?;
        }
        parts
    };
    let value = parse_setting_value(source, equals)?;
    Ok(nest(&parts, &Place::new(source, 0..equals), value))
}

/// The tree for a flag that is short for one setting: `--kernel 6.12` sets `kernel.version`.
pub fn flag_setting(flag: &str, path: [&str; 2], argument: &str) -> Table {
    let source = Source::of_command_line(flag, argument);
    let place = Place::new(&source, 0..argument.len());
    let value = Value::new(Kind::Bare(argument.to_string()), place.clone());
    nest(&path.map(str::to_string), &place, value)
}

/// The tree in which `value` is the only leaf, at the path `parts`.
pub(crate) fn nest(parts: &[String], key_place: &Place, value: Value) -> Table {
    let mut value = value;
    for (depth, key) in parts.iter().enumerate().rev() {
        let entry = Entry::new(key.clone(), key_place.clone(), value);
        let table = Table {
            entries: vec![entry],
        };
        if depth == 0 {
            return table;
        }
        value = Value::new(Kind::Table(table), key_place.clone());
    }
    Table::default()
}

/// Byte offset of the first of `wanted` that stands outside TOML quotes.
fn find_outside_quotes(text: &str, wanted: &[char]) -> Option<usize> {
    let mut quote = None;
    for (index, character) in text.char_indices() {
        match quote {
            Some(open) if character == open => quote = None,
            Some(_) => {}
            None if character == '"' || character == '\'' => quote = Some(character),
            None if wanted.contains(&character) => return Some(index),
            None => {}
        }
    }
    None
}

fn parse_setting_value(source: &Arc<Source>, equals: usize) -> Result<Value> {
    let raw = &source.text[equals + 1..];
    let trimmed = raw.trim();
    let start = equals + 1 + (raw.len() - raw.trim_start().len());
    let place = Place::new(source, start..start + trimmed.len());
    if !trimmed.starts_with(['"', '\'', '[', '{']) {
        return Ok(Value::new(Kind::Bare(trimmed.to_string()), place));
    }
    // The key is blanked out byte by byte, so that spans in the value need no shift.
    let document = format!("v{}={raw}", " ".repeat(equals.saturating_sub(1)));
    let parsed = DeTable::parse(&document).map_err(|error| {
        Error::input(
            &place,
            format!("not a TOML value: {}", error.message().replace('\n', ", ")),
        )
    })?;
    let value = parsed
        .get_ref()
        .get("v")
        .ok_or_else(|| Error::input(&place, "no value"))?;
    let place = Place::new(source, value.span());
    Ok(Value::new(convert(value.get_ref(), &place)?, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        parse(&Source::new("t.toml", text)).unwrap()
    }

    fn setting(argument: &str) -> Table {
        parse_setting(&Source::of_command_line("--set", argument), Some("/pg")).unwrap()
    }

    /// Values only, as `key=value` with nested tables in braces.
    fn show(table: &Table) -> String {
        let entries = table.entries.iter().map(|entry| match &entry.value.kind {
            Kind::Table(inner) => format!("{}={{{}}}", entry.key, show(inner)),
            _ => format!("{}={}", entry.key, entry.value.describe()),
        });
        entries.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn entries_keep_the_order_and_the_places_of_the_file() {
        let table = table("zoo = 1\n[kernel]\nhz = 1_000\nversion = \"5.14\"\n");
        assert_eq!(
            show(&table),
            "zoo=the integer 1, kernel={hz=the integer 1000, version=the string \"5.14\"}"
        );
        let kernel = table.get("kernel").unwrap().table("").unwrap();
        let entry = kernel.entry("version").unwrap();
        assert_eq!(entry.key_place.to_string(), "t.toml:4:1");
        assert_eq!(entry.value.place.to_string(), "t.toml:4:11");
    }

    #[test]
    fn syntax_errors_point_at_their_place() {
        let error = parse(&Source::new("t.toml", "a = 1\nb = [1,\n\nc = 2\n")).unwrap_err();
        assert!(error.to_string().starts_with("t.toml:4:"), "{error}");
        let error = parse(&Source::new("t.toml", "a = 1\na = 2\n")).unwrap_err();
        assert_eq!(error.to_string(), "t.toml:2:1: duplicate key");
    }

    #[test]
    fn tables_merge_and_scalars_and_arrays_replace() {
        let mut base = table("a = 1\nl = [1, 2]\n[t]\nx = 1\ny = 2\n[t.u]\nk = true\n");
        base.merge(&table("a = \"new\"\nl = [3]\n[t]\ny = 5\nz = 6\n"));
        assert_eq!(
            show(&base),
            "a=the string \"new\", l=an array, t={x=the integer 1, y=the integer 5, u={k=true}, z=the integer 6}"
        );
        assert_eq!(base.get("l").unwrap().array("").unwrap().len(), 1);
    }

    #[test]
    fn a_setting_is_a_tree_with_one_leaf() {
        let cases = r#"
kernel.version=6.10 | kernel={version=`6.10`}
cpu.max=60000 100000 | cgroup={/pg={cpu.max=`60000 100000`}}
cgroup."/a=b"."cpu.max.burst" = 50_000 | cgroup={/a=b={cpu.max.burst=`50_000`}}
kernel.preempt="full" | kernel={preempt=the string "full"}
"#;
        for case in schedcast_base::rows::lines(cases) {
            let [argument, tree] = schedcast_base::rows::cells(case);
            assert_eq!(show(&setting(argument)), tree);
        }
        let features = setting("kernel.features = [\"NO_SIS_UTIL\", 'X']");
        let kernel = features.get("kernel").unwrap().table("").unwrap();
        let second = &kernel.get("features").unwrap().array("").unwrap()[1];
        assert_eq!(second.place.to_string(), "--set:1:35");
    }

    #[test]
    fn settings_that_are_none_are_refused_with_their_place() {
        let refuse = |text| {
            parse_setting(&Source::of_command_line("--set", text), None)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(refuse("cpu.max"), "--set:1:1: `cpu.max` is not KEY=VALUE");
        assert!(refuse("cpu.max=1").starts_with("--set:1:1: whose `cpu.max`?"));
        assert!(refuse("a..b=1").starts_with("--set:1:1: `a..b` is not a key"));
        assert!(refuse("=1").starts_with("--set:1:1: `` is not a key"));
        assert!(refuse("a=[1, ").starts_with("--set:1:3: not a TOML value"));
    }

    #[test]
    fn keys_split_as_in_toml() {
        let split = |text: &str| parse_key(text, &Source::new("k", text), 0);
        assert_eq!(split("a.\"b.c\".'d'").unwrap(), ["a", "b.c", "d"]);
        assert!(split("a=1\nb").is_err());
        assert!(split("").is_err());
        assert!(split("[a]\nb").is_err());
    }

    #[test]
    fn types_are_checked_with_the_place() {
        let table = table("a = 5\nb = \"x\"\n");
        let wrong = table.get("b").unwrap().integer("an integer").unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "t.toml:2:5: expected an integer, found the string \"x\""
        );
        let five = table.get("a").unwrap();
        let range = five.integer_in(1, 4, "seeds").unwrap_err();
        assert_eq!(range.to_string(), "t.toml:1:5: seeds must be 1 to 4, not 5");
    }
}
