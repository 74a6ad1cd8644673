//! Help: the tools, and the flags of one.

use super::{Effect, Flag, Tool, Value};

/// One line a tool, as `schedcast list programs` prints them.
pub fn list(tools: &[&'static Tool]) -> String {
    let names: Vec<String> = tools.iter().map(|tool| tool.words.join(" ")).collect();
    let longest = names.iter().map(String::len).max();
    let width = longest.unwrap_or(0).max(22) + 2;
    let mut text = format!("{:<width$}{}\n", "PROGRAM", "WHAT IT DOES");
    for (name, tool) in names.iter().zip(tools) {
        text += &format!("{name:<width$}{}\n", tool.about);
    }
    text
}

/// Every flag of a tool: names, value, default, meaning, and what it does to scheduling.
pub fn describe(tool: &Tool) -> String {
    let command = tool.words.join(" ");
    let operands = match tool.operands {
        "" => String::new(),
        operands => format!(" {operands}"),
    };
    let mut text = format!("{command} [flags]{operands}\n  {}\n\n", tool.about);
    for flag in tool.flags() {
        text += &line(flag);
    }
    text
}

fn line(flag: &Flag) -> String {
    let mut names: Vec<String> = Vec::new();
    names.extend(flag.short.map(|short| format!("-{short}")));
    names.extend(flag.long.map(|long| format!("--{long}")));
    let value = match flag.value {
        Value::None => String::new(),
        Value::Required(name) => format!(" {name}"),
        Value::Optional(name) => format!(" [{name}]"),
    };
    let default = match flag.default {
        "" => String::new(),
        default => format!(" (default {default})"),
    };
    let left = format!("  {}{value}", names.join(", "));
    // A long name keeps a gap to its help.
    let mut text = format!("{left:<29} {}{default}\n", flag.help);
    let note = match flag.effect {
        Effect::Scheduling => return text,
        Effect::Output => "changes only what is printed".to_owned(),
        Effect::Nothing(why) => format!("no effect on scheduling: {why}"),
        Effect::Refused(why) => format!("refused: {why}"),
    };
    text += &format!("{:<32}{note}\n", "");
    text
}

#[cfg(test)]
mod tests {
    use super::super::super::TOOLS;
    use super::*;

    #[test]
    fn names_and_what_stands_beside_them_have_a_gap() {
        let text = list(&TOOLS);
        for tool in TOOLS {
            let row = format!("{}  ", tool.words.join(" "));
            let line = text.lines().find(|line| line.starts_with(&row));
            let line = line.unwrap_or_else(|| panic!("no line of {row:?} in {text}"));
            assert!(line.ends_with(&format!("  {}", tool.about)), "{line}");
        }
        for flag in TOOLS.iter().flat_map(|tool| tool.flags()) {
            let line = super::line(flag);
            assert!(line.contains(&format!(" {}", flag.help)), "{line}");
        }
    }
}
