//! Files of a patch that are not compiled.
//!
//! Worked example: a patch adds a line to `kernel/fork.c`. The scheduler is compiled without that
//! file, so two columns decide alike, and the note says in which file their trees differ.

use std::path::Path;

use schedcast_tree::trees;

/// Most files that a note names.
const NAMED: usize = 3;

/// A sentence about the files in which two trees differ that were compiled from the same sources.
pub(crate) fn note(one: &Path, other: &Path) -> Option<String> {
    told(one, other, &trees::differing(one, other))
}

fn told(one: &Path, other: &Path, files: &[String]) -> Option<String> {
    let named = files[..files.len().min(NAMED)].join(", ");
    let list = match files.len() {
        0 => return None,
        1 => format!("{named}, which is not compiled"),
        2..=NAMED => format!("{named}, which are not compiled"),
        all => format!("{named} and {} more, which are not compiled", all - NAMED),
    };
    Some(format!(
        "{} and {} differ in {list}",
        one.display(),
        other.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_the_first_files() {
        let files =
            ["init/main.c", "kernel/exit.c", "kernel/fork.c", "mm/mmap.c"].map(String::from);
        let note = |count| told(Path::new("a"), Path::new("b"), &files[..count]);
        assert_eq!(note(0), None);
        let one = "a and b differ in init/main.c, which is not compiled";
        assert_eq!(note(1).as_deref(), Some(one));
        let four = "a and b differ in init/main.c, kernel/exit.c, kernel/fork.c and 1 more, \
                    which are not compiled";
        assert_eq!(note(4).as_deref(), Some(four));
    }
}
