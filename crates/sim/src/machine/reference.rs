//! The page `docs/formats/machine.md`: every key of a machine's file, from the types that read it.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::file::MachineFile;
use super::{Machine, PRESETS};

const INTRODUCTION: &str = "\
# A machine's file

*Which keys has a machine's file, in which units, with which defaults and bounds?*

The files in `machines/`, those that `schedcast calibrate` writes and the `[machine]` section of an
[experiment](experiment.md) have these keys. An unknown key is refused. A key with neither a default nor \"required\" may be
left out; its sentence says what that means. This page is written from the types that read the file.

The unit is the end of a key: `_ns` nanoseconds, `_mhz` megahertz, `_mw` milliwatts, `_uw` microwatts, `_percent` hundredths, `_1000ths` and
`_1024ths` parts.
";

/// Follows a reference into the definitions.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let some = schema.get("anyOf").and_then(|either| either.get(0));
    let schema = some.unwrap_or(schema);
    let path = schema.get("$ref").and_then(Value::as_str);
    let found = path.and_then(|path| root.pointer(path.trim_start_matches('#')));
    found.unwrap_or(schema)
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// A description on one line.
fn sentence(schema: &Value) -> String {
    let text = schema.get("description").and_then(Value::as_str);
    text.unwrap_or_default().replace('\n', " ")
}

/// The words that an enumeration allows, each with its sentence.
fn words(schema: &Value) -> Option<String> {
    if let Some(plain) = schema.get("enum").and_then(Value::as_array) {
        let plain = plain.iter().filter_map(Value::as_str);
        let plain: Vec<String> = plain.map(|word| format!("`\"{word}\"`")).collect();
        return Some(plain.join(", "));
    }
    let either = schema.get("oneOf")?.as_array()?;
    let mut all = Vec::new();
    for one in either {
        if let Some(word) = one.get("const").and_then(Value::as_str) {
            let about = sentence(one);
            all.push(format!("`\"{word}\"` {}", about.trim_end_matches('.')));
        } else {
            all.push(words(one)?);
        }
    }
    Some(all.join("; "))
}

fn kind_of(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds[0].as_str().unwrap_or_default(),
        Some(kind) => kind.as_str().unwrap_or_default(),
        None => "",
    }
}

/// Values that a key accepts, with their bounds.
fn takes(root: &Value, schema: &Value) -> String {
    let schema = resolved(root, schema);
    if let Some(words) = words(schema) {
        return words;
    }
    match kind_of(schema) {
        "integer" => match (schema.get("minimum"), schema.get("maximum")) {
            (Some(least), Some(most)) => format!("{least} to {most}"),
            (Some(least), None) => format!("{least} or more"),
            _ => "integer".to_owned(),
        },
        "string" => "text".to_owned(),
        "boolean" => "true or false".to_owned(),
        "array" => format!("array of: {}", takes(root, &schema["items"])),
        "object" => "table of: 0 or more".to_owned(),
        other => panic!("no word for {other}: {schema}"),
    }
}

fn default_of(name: &str, schema: &Value, parent: &Value) -> String {
    let required = parent.get("required").and_then(Value::as_array);
    if required.is_some_and(|names| names.iter().any(|one| one == name)) {
        return "required".to_owned();
    }
    match schema.get("default") {
        Some(Value::Null) | None => String::new(),
        Some(value) => format!("`{value}`"),
    }
}

/// The section of one table and those of the tables in it.
fn section(root: &Value, heading: (&str, &str), path: &str, schema: &Value, text: &mut String) {
    let Some(keys) = properties(schema) else {
        return;
    };
    let (heading, about) = heading;
    write!(
        text,
        "\n## {heading}\n\n{about}\n\n| key | value | default | meaning |\n|---|---|---|---|\n"
    )
    .unwrap();
    let mut inner = Vec::new();
    for (name, key) in keys {
        let below = format!("{path}{name}");
        let found = resolved(root, key);
        let items = found.get("items").map(|items| resolved(root, items));
        let value = match items.filter(|items| properties(items).is_some()) {
            _ if properties(found).is_some() => {
                inner.push((format!("`[{below}]`"), below, key, found));
                "table".to_owned()
            }
            Some(items) => {
                inner.push((format!("`[[{below}]]`"), below, key, items));
                "tables".to_owned()
            }
            None => takes(root, key),
        };
        let default = default_of(name, key, schema);
        let about = match sentence(key) {
            none if none.is_empty() => sentence(found),
            about => about,
        };
        writeln!(text, "| `{name}` | {value} | {default} | {about} |").unwrap();
    }
    for (heading, below, key, schema) in inner {
        let about = match sentence(schema) {
            none if none.is_empty() => sentence(key),
            about => about,
        };
        section(root, (&heading, &about), &format!("{below}."), schema, text);
    }
}

fn schema() -> Value {
    schemars::schema_for!(MachineFile).to_value()
}

fn page() -> String {
    let root = schema();
    let mut text = INTRODUCTION.to_owned();
    section(
        &root,
        ("At the top", &sentence(&root)),
        "",
        &root,
        &mut text,
    );
    text
}

/// `make renew` writes the page anew.
#[test]
fn the_page_is_that_of_the_types() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/machine.md");
    if std::env::var_os("RENEW").is_some() {
        std::fs::write(file, page()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file).unwrap_or_default(), page());
}

#[test]
fn every_key_has_a_sentence() {
    for line in page().lines().filter(|line| line.starts_with("| `")) {
        let about = line.trim_end_matches(" |").rsplit("| ").next().unwrap();
        assert!(about.len() > 5 && about.ends_with('.'), "{line}");
    }
}

/// Where a preset has the key, a value beyond its bound is refused.
#[test]
fn bounds_on_the_page_are_those_of_the_reader() {
    let root = schema();
    let mut tried = 0;
    for (name, text) in PRESETS {
        let table: toml::Table = toml::from_str(text).unwrap();
        for (part, key) in properties(&root).unwrap() {
            let Some(keys) = properties(resolved(&root, key)) else {
                continue;
            };
            if !table.contains_key(part) {
                continue;
            }
            for (key, schema) in keys {
                let schema = resolved(&root, schema);
                let bound = |which: &str| schema.get(which).and_then(Value::as_i64);
                let beyond = [
                    bound("minimum").map(|least| least - 1),
                    bound("maximum").map(|most| most + 1),
                ];
                for value in beyond.into_iter().flatten() {
                    let mut changed = table.clone();
                    let inside = changed[part].as_table_mut().unwrap();
                    if inside.insert(key.clone(), value.into()).is_none() && part == "topology" {
                        continue;
                    }
                    let read = Machine::from_table(name, changed);
                    assert!(read.is_err(), "{name}: {part}.{key} = {value}");
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 200, "{tried}");
}
