//! The table for people, in Markdown: the same rows and cells as [`super::text`].

use super::text::{RowKind, applied, contents, header, notes, provenance};
use super::{Context, rows};
use schedcast_base::harmless::{harmless, one_line};
use schedcast_lab::comparison::Comparison;

/// The whole answer: header, table, notes, commands in a code block.
pub(crate) fn render(comparison: &Comparison, context: &Context) -> String {
    let table = contents(comparison, context);
    let mut text = String::new();
    for line in header(comparison, context).lines() {
        // Two blanks at the end keep the line breaks of the header.
        text += &format!("{}  \n", escape(line));
    }
    text += if text.is_empty() { "| |" } else { "\n| |" };
    for variant in &comparison.variants {
        text += &format!(" {} |", cell(&variant.name));
    }
    text += "\n|---|";
    text += &"---:|".repeat(comparison.variants.len());
    text.push('\n');
    for row in &table.rows {
        if row.kind == RowKind::Heading {
            let empty = " |".repeat(comparison.variants.len());
            text += &format!("| **{}** |{empty}\n", cell(&row.row.label));
            continue;
        }
        text += &format!("| {} |", cell(row.row.label.trim_start()));
        for one in &row.row.cells {
            text += &format!(" {} |", cell(&one.plain()));
        }
        text.push('\n');
    }
    let notes = notes(comparison, &table, &context.style);
    if !notes.is_empty() {
        text += &format!("\n{}\n", escape(notes.trim_end()));
    }
    let applied = applied(context);
    if !applied.is_empty() {
        text += &block(&applied);
    }
    for sentence in rows::verdict(comparison, context) {
        text += &format!("\n{}\n", escape(sentence));
    }
    text + &block(&provenance(comparison, context))
}

/// Characters that Markdown would take for markup: of tables, emphasis, HTML, code, links, entities
/// and headings.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in harmless(text).chars() {
        if "|*_<>`\\[]&#~".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// The text of a cell, which is one line.
fn cell(text: &str) -> String {
    escape(&one_line(text))
}

/// The lines in a block of code that none of them ends.
fn block(lines: &str) -> String {
    let lines = harmless(lines);
    let mut fence = "```".to_owned();
    while lines.contains(&fence) {
        fence.push('`');
    }
    format!("\n{fence}\n{lines}{fence}\n")
}

#[cfg(test)]
mod tests {
    use super::super::text::words;
    use super::*;
    use schedcast_lab::samples::example;

    #[test]
    fn an_experiment() {
        let context = Context {
            source: "exp.toml".to_string(),
            machine: "8 CPUs".to_string(),
            reproduce: words("schedcast compare exp.toml --format markdown"),
            ..Context::default()
        };
        let mut comparison = example();
        comparison.variants[1].name = "burst | 100 ms".to_string();
        insta::assert_snapshot!(render(&comparison, &context));
    }

    #[test]
    fn names_are_no_markup() {
        assert_eq!(
            cell("[a](javascript:x) <b>\u{1b}[1m\n\u{202e}&lt;"),
            r"\[a\](javascript:x) \<b\>\\u001b\[1m\\n\\u202e\&lt;"
        );
        assert_eq!(block("a\n```\n<b>\n"), "\n````\na\n```\n<b>\n````\n");
    }
}
