//! Rows of a text that is built in, for tables that are easier to read as text than as Rust.
//!
//! ```text
//! # a comment
//! [section]
//! first cell | second cell
//! ```

use std::collections::BTreeMap;

/// Text between two cells.
const BETWEEN: &str = " | ";

/// Lines that are neither empty nor comments.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Lines of each section. A line with several cells is a row, though it begins and ends as a head.
pub fn sections(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut sections = BTreeMap::<&str, Vec<&str>>::new();
    let mut name = "";
    for line in lines(text) {
        let head = line.strip_prefix('[');
        match head.and_then(|head| head.strip_suffix(']')) {
            Some(head) if !line.contains(BETWEEN) => name = head,
            _ => sections.entry(name).or_default().push(line),
        }
    }
    sections
}

/// Cells of a row; the last has the rest of it.
///
/// # Panics
/// The row has fewer cells.
pub fn cells<const N: usize>(line: &str) -> [&str; N] {
    let cells: Vec<&str> = line.splitn(N, BETWEEN).collect();
    cells
        .try_into()
        .unwrap_or_else(|_| panic!("not {N} cells: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_belongs_to_the_section_above_it() {
        let text = "# comment\n[one]\n[a | b]\n\n[two]\nc | d\ne | f | g\n";
        let sections = sections(text);
        assert_eq!(sections["one"], ["[a | b]"]);
        assert_eq!(sections["two"].len(), 2);
        assert_eq!(cells(sections["two"][1]), ["e", "f | g"]);
    }

    #[test]
    #[should_panic(expected = "not 2 cells: a |")]
    fn a_row_with_too_few_cells_is_refused() {
        cells::<2>("a |");
    }
}
