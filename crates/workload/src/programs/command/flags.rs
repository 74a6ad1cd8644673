//! The tables of flags, of which `flags.txt` has a section for each tool.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schedcast_base::rows::sections;

use super::{Effect, Flag, Tool, Value};

/// A flag without a name, which stands for an operand.
pub(super) static OPERAND: Flag = Flag {
    short: None,
    long: None,
    value: Value::None,
    default: "",
    help: "",
    effect: Effect::Scheduling,
};

/// Lines of each section.
type Sections = BTreeMap<&'static str, Vec<&'static str>>;

impl Tool {
    /// The refusal of `word` if it names a part of the tool that is not modelled.
    pub(super) fn not_modelled(&self, word: &str) -> Option<String> {
        static NAMES: LazyLock<Sections> = LazyLock::new(|| sections(include_str!("flags.txt")));
        let key = format!("{}, not modelled", self.name);
        let (refusal, lines) = NAMES.get(key.as_str())?.split_first()?;
        let typed = word.split('=').next().unwrap_or(word);
        let is_typed = |name: &str, short: Option<&str>| match self.operands {
            "" => {
                typed.strip_prefix("--") == Some(name)
                    || short.is_some_and(|short| is_short(typed, short))
            }
            _ => typed == name,
        };
        let mut names = lines.iter().flat_map(|line| line.split(' '));
        let name = names.find_map(|name| {
            let (name, short) = match name.split_once('/') {
                Some((name, short)) => (name, Some(short)),
                None => (name, None),
            };
            is_typed(name, short).then_some(name)
        })?;
        Some(refusal.replace("{}", name))
    }

    /// Its flags.
    pub fn flags(&self) -> &'static [Flag] {
        static TABLES: LazyLock<BTreeMap<&str, Vec<Flag>>> = LazyLock::new(|| {
            let text = include_str!("flags.txt");
            #[cfg(test)]
            let text = [text, super::tests::FLAGS].concat().leak();
            let sections = sections(text);
            let table = |(name, lines): (&&'static str, &Vec<_>)| (*name, rows(&sections, lines));
            sections.iter().map(table).collect()
        });
        TABLES.get(self.name).map_or(&[], Vec::as_slice)
    }
}

/// Whether `typed` is the short flag alone or with its number: `-s`, `-s2`.
fn is_short(typed: &str, short: &str) -> bool {
    let rest = typed
        .strip_prefix('-')
        .and_then(|flag| flag.strip_prefix(short));
    rest.is_some_and(|rest| rest.chars().all(|one| one.is_ascii_digit()))
}

/// The flags of a section, those of the sections that it names among them. A section that is the
/// effect of flags has none.
fn rows(sections: &Sections, lines: &[&'static str]) -> Vec<Flag> {
    let mut flags = Vec::new();
    for line in lines {
        match line.strip_prefix('@') {
            Some(shared) => flags.extend(rows(sections, &sections[shared])),
            None if line.starts_with('-') => flags.push(row(sections, line)),
            None => {}
        }
    }
    flags
}

fn row(sections: &Sections, line: &'static str) -> Flag {
    let mut cells = line.split(" | ");
    let usage = cells.next().unwrap_or_default();
    let (usage, default) = usage.split_once(" = ").unwrap_or((usage, ""));
    let mut flag = Flag {
        default,
        help: cells.next().unwrap_or_default(),
        ..OPERAND
    };
    for word in usage.split(' ') {
        if let Some(long) = word.strip_prefix("--") {
            flag.long = Some(long);
        } else if let Some(short) = word.strip_prefix('-') {
            flag.short = short.chars().next();
        } else if let Some(optional) = word.strip_prefix('[') {
            flag.value = Value::Optional(optional.trim_end_matches(']'));
        } else {
            flag.value = Value::Required(word);
        }
    }
    let effect = cells.next().map(|cell| match cell.strip_prefix('@') {
        Some(shared) => sections[shared][0],
        None => cell,
    });
    flag.effect = match effect.map(|effect| effect.split_once(": ").unwrap_or((effect, ""))) {
        None => Effect::Scheduling,
        Some(("output", "")) => Effect::Output,
        Some(("nothing", why)) => Effect::Nothing(why),
        Some(("refused", why)) => Effect::Refused(why),
        Some(_) => panic!("flags.txt: no effect: {line}"),
    };
    flag
}
