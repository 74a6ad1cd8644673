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
