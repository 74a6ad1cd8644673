//! The valid name that a reader most likely meant.
//!
//! Every refusal of an unknown name says which valid one is nearest. Nearness is the number of
//! single-character edits: insert, delete, replace, or swap two neighbours. Capitals cost nothing.
//! `slep` → `sleep` is one edit and `piroirty` → `priority` two. `foo` → `loop` is two as well, but
//! that is half the word, so it gets no suggestion: a far-fetched guess misleads more than a list
//! of what is allowed.

/// Longest part of a word that is compared; a name longer than this is not a slip of the finger.
const COMPARED_CHARACTERS_MAX: usize = 64;

/// Edits between two words, ignoring case (optimal string alignment distance).
pub fn edit_distance(left: &str, right: &str) -> usize {
    let left = comparable(left);
    let right = comparable(right);
    // Three rows of the usual table: a swap of neighbours looks two rows back.
    let mut before_previous = vec![0; right.len() + 1];
    let mut previous: Vec<usize> = (0..=right.len()).collect();
    let mut current = vec![0; right.len() + 1];
    for row in 1..=left.len() {
        current[0] = row;
        for column in 1..=right.len() {
            let replaced = usize::from(left[row - 1] != right[column - 1]);
            let mut best = (previous[column - 1] + replaced)
                .min(previous[column] + 1)
                .min(current[column - 1] + 1);
            let swapped = row > 1
                && column > 1
                && left[row - 1] == right[column - 2]
                && left[row - 2] == right[column - 1];
            if swapped {
                best = best.min(before_previous[column - 2] + 1);
            }
            current[column] = best;
        }
        std::mem::swap(&mut before_previous, &mut previous);
        std::mem::swap(&mut previous, &mut current);
    }
    previous[right.len()]
}

/// The valid name nearest to `word`, unless even that one is too far to be what was meant.
///
/// "Too far" is more than a third of the longer of the two words, so `run` can be off by one
/// character and `priority` by two. Of two names equally near, the first listed wins.
pub fn nearest<'a>(word: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    valid
        .into_iter()
        .map(|name| (edit_distance(word, name), name))
        .filter(|(distance, name)| {
            let longer = comparable(word).len().max(comparable(name).len());
            *distance <= (longer / 3).max(1) && *distance < longer
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The end of a refusal: the nearest valid name, or all of them if none is near.
///
/// ```
/// use schedcast_workload::nearest::suggestion;
///
/// assert_eq!(suggestion("lop", &["loop", "delay"]), "nearest valid name: `loop`");
/// assert_eq!(suggestion("colour", &["loop", "delay"]), "valid names: `loop`, `delay`");
/// ```
pub fn suggestion(word: &str, valid: &[&str]) -> String {
    match nearest(word, valid.iter().copied()) {
        Some(name) => format!("nearest valid name: `{name}`"),
        None if valid.is_empty() => String::from("there are no valid names"),
        None => {
            let names: Vec<String> = valid.iter().map(|name| format!("`{name}`")).collect();
            format!("valid names: {}", names.join(", "))
        }
    }
}

fn comparable(word: &str) -> Vec<char> {
    word.chars()
        .flat_map(char::to_lowercase)
        .take(COMPARED_CHARACTERS_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_each_kind_of_edit_as_one() {
        assert_eq!(edit_distance("sleep", "sleep"), 0);
        assert_eq!(edit_distance("slep", "sleep"), 1);
        assert_eq!(edit_distance("sleeep", "sleep"), 1);
        assert_eq!(edit_distance("sleop", "sleep"), 1);
        assert_eq!(edit_distance("seelp", "sleep"), 2);
        assert_eq!(edit_distance("slepe", "sleep"), 1);
        assert_eq!(edit_distance("SLEEP", "sleep"), 0);
        assert_eq!(edit_distance("", "run"), 3);
    }

    #[test]
    fn suggests_only_what_is_near() {
        let names = ["run", "runtime", "sleep", "priority"];
        assert_eq!(nearest("rnu", names), Some("run"));
        assert_eq!(nearest("runtme", names), Some("runtime"));
        assert_eq!(nearest("piroirty", names), Some("priority"));
        assert_eq!(nearest("Loop", ["loop"]), Some("loop"));
        assert_eq!(nearest("xyz", names), None);
        assert_eq!(nearest("a", ["b"]), None);
        assert_eq!(nearest("a", []), None);
    }

    #[test]
    fn first_listed_wins_among_equals() {
        assert_eq!(
            nearest("util_mix", ["util_min", "util_max"]),
            Some("util_min")
        );
    }

    #[test]
    fn a_huge_word_is_compared_in_bounded_time() {
        let huge = "x".repeat(1 << 20);
        assert_eq!(nearest(&huge, ["run"]), None);
    }
}
