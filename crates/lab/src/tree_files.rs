//! Files of a patch that are not compiled.
//!
//! Worked example: a patch adds a line to `kernel/fork.c`. The scheduler is compiled without that
//! file, so two columns decide alike, and the note says in which file their trees differ.

use std::path::Path;

use schedcast_tree::{Builder, trees};

use crate::experiment::Scenario;
use crate::simulator::tree::configuration;

/// Most files that a note names.
const NAMED: usize = 3;

/// A sentence for each two trees of scenarios that were compiled from the same sources and differ
/// in others.
pub fn notes(scenarios: &[Scenario]) -> Vec<String> {
    let mut known: Vec<(&Path, String)> = Vec::new();
    let mut notes = Vec::new();
    for kernel in scenarios.iter().map(|one| &one.kernel) {
        let Some(tree) = kernel.tree.as_ref().map(|tree| tree.value.as_path()) else {
            continue;
        };
        let builder = Builder::new(tree, configuration(kernel)).ok();
        let Some(sources) = builder.and_then(|builder| builder.compiled_sources()) else {
            continue;
        };
        // Each pair once: what is in the list was compared when it came.
        if known.contains(&(tree, sources.clone())) {
            continue;
        }
        let same = known
            .iter()
            .find(|(other, its)| *other != tree && *its == sources);
        let note = same.and_then(|(other, _)| note(other, tree, &trees::differing(other, tree)));
        notes.extend(note);
        known.push((tree, sources));
    }
    notes
}

fn note(one: &Path, other: &Path, files: &[String]) -> Option<String> {
    let named = files[..files.len().min(NAMED)].join(", ");
    let told = match files.len() {
        0 => return None,
        1 => format!("{named}, which is not compiled"),
        2..=NAMED => format!("{named}, which are not compiled"),
        all => format!("{named} and {} more, which are not compiled", all - NAMED),
    };
    Some(format!(
        "{} and {} differ in {told}",
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
        let note = |count| note(Path::new("a"), Path::new("b"), &files[..count]);
        assert_eq!(note(0), None);
        let one = "a and b differ in init/main.c, which is not compiled";
        assert_eq!(note(1).as_deref(), Some(one));
        let four = "a and b differ in init/main.c, kernel/exit.c, kernel/fork.c and 1 more, \
                    which are not compiled";
        assert_eq!(note(4).as_deref(), Some(four));
    }
}
