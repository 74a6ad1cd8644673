//! Help: the tools, and the flags of one.

use super::{Effect, Flag, Tool, Value};

/// One line a tool, as `schedcast list programs` prints them.
pub fn list(tools: &[&'static Tool]) -> String {
    let mut text = format!("{:<24}{}\n", "PROGRAM", "WHAT IT DOES");
    for tool in tools {
        text += &format!("{:<24}{}\n", tool.words.join(" "), tool.about);
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
    for flag in tool.flags {
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
    let mut text = format!("{left:<30}{}{default}\n", flag.help);
    let note = match flag.effect {
        Effect::Scheduling => return text,
        Effect::Output => "changes only what is printed".to_owned(),
        Effect::Nothing(why) => format!("no effect on scheduling: {why}"),
        Effect::Refused(why) => format!("refused: {why}"),
    };
    text += &format!("{:<32}{note}\n", "");
    text
}
