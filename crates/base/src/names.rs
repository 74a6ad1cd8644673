//! The valid name that was most likely meant.
//!
//! Every refusal of an unknown name, in whatever file, flag or cgroup it stands, says which valid
//! one is nearest. Nearness is the number of single-character edits: insert, delete, replace, or
//! swap two neighbours. Capitals cost nothing.
//!
//! Worked example: `slep` → `sleep` is one edit and `piroirty` → `priority` two, of at most 5 / 3 =
//! 1 and 8 / 3 = 2. `foo` → `loop` is two as well, but that is half the word, so it gets no
//! suggestion: a far-fetched guess misleads more than a list of what is allowed. `spr` is three
//! letters or more that `spr-2x56x2` begins with, so that one is meant.

use strsim::damerau_levenshtein;

/// A longer word is no slip of the finger.
const LONGEST_CHARACTERS: usize = 64;
/// Fewer letters begin too many names.
const SHORTEST_BEGINNING: usize = 3;
/// More names than a reader takes in from one line.
const MOST_LISTED: usize = 20;

/// The name in `valid` nearest to `word`, unless even that one is too far to be what was meant.
///
/// Near is up to a third of the longer of the two, at least one character, or that one is how the
/// other begins. Of two names equally near, the first listed wins.
///
/// ```
/// use schedcast_base::names::nearest;
///
/// assert_eq!(nearest("vresion", ["version", "hz"]), Some("version"));
/// assert_eq!(nearest("spr", ["icl-2x32x2", "spr-2x56x2"]), Some("spr-2x56x2"));
/// assert_eq!(nearest("colour", ["version", "hz"]), None);
/// ```
pub fn nearest<'a>(word: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    if length > LONGEST_CHARACTERS {
        return None;
    }
    let word = word.to_lowercase();
    let near = |name: &'a str| {
        let lower = name.to_lowercase();
        let longer = length.max(lower.chars().count());
        let edits = damerau_levenshtein(&word, &lower);
        let is_slip = edits <= (longer / 3).max(1) && edits < longer;
        let begins = lower.starts_with(&word) || word.starts_with(&lower);
        let is_beginning = begins && longer - edits >= SHORTEST_BEGINNING;
        (is_slip || is_beginning).then_some((edits, name))
    };
    let near = valid.into_iter().filter_map(near);
    near.min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// The end of a refusal: the nearest valid name, or all of them if none is near and they are not
/// too many.
///
/// ```
/// use schedcast_base::names::suggestion;
///
/// assert_eq!(suggestion("lop", &["loop", "delay"]), "nearest valid name: `loop`");
/// assert_eq!(suggestion("colour", &["loop", "delay"]), "valid names: `loop`, `delay`");
/// ```
pub fn suggestion(word: &str, valid: &[&str]) -> String {
    match nearest(word, valid.iter().copied()) {
        Some(name) => format!("nearest valid name: `{name}`"),
        None if valid.is_empty() => String::from("there are no valid names"),
        None => {
            format!("valid names: {}", listed(valid))
        }
    }
}

/// Names for a sentence, each in backticks: all of them, or the first 20 and how many more there
/// are.
pub(crate) fn listed(names: &[&str]) -> String {
    let shown = names.iter().take(MOST_LISTED);
    let shown: Vec<String> = shown.map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(MOST_LISTED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A complaint of serde about an unknown field or variant, with the nearest valid name instead of
/// the list of all.
///
/// `None` for every other message.
///
/// ```
/// use schedcast_base::names::nearer;
///
/// let message = "unknown field `wakup_ns`, expected one of `tick_ns`, `wakeup_ns`, `fork_ns`";
/// assert_eq!(
///     nearer(message).as_deref(),
///     Some("unknown field `wakup_ns`; nearest valid name: `wakeup_ns`")
/// );
/// assert_eq!(nearer("missing field `tick_ns`"), None);
/// ```
pub fn nearer(message: &str) -> Option<String> {
    let (name, valid) = unknown_in(message)?;
    let (what, _) = message.split_once('`')?;
    Some(format!("{what}`{name}`; {}", suggestion(name, &valid)))
}

/// The unknown name in a complaint of serde, and those that are valid: it writes all of them
/// between backticks.
///
/// `None` for every other message.
pub fn unknown_in(message: &str) -> Option<(&str, Vec<&str>)> {
    if !message.starts_with("unknown field `") && !message.starts_with("unknown variant `") {
        return None;
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let name = quoted.next()?;
    Some((name, quoted.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_edit_counts_as_one() {
        for slip in ["slep", "sleeep", "sleop", "slepe", "SLEEP", "Sleop"] {
            assert_eq!(nearest(slip, ["sleep"]), Some("sleep"), "{slip}");
        }
        assert_eq!(nearest("seelp", ["sleep"]), None, "two of five");
    }

    #[test]
    fn only_what_is_near_is_suggested() {
        let names = ["run", "runtime", "sleep", "priority"];
        assert_eq!(nearest("rnu", names), Some("run"));
        assert_eq!(nearest("runtme", names), Some("runtime"));
        assert_eq!(nearest("piroirty", names), Some("priority"));
        assert_eq!(nearest("xyz", names), None);
        assert_eq!(nearest("a", ["b"]), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("a", []), None);
    }

    #[test]
    fn a_beginning_needs_three_letters() {
        assert_eq!(nearest("sent", ["sent_us"]), Some("sent_us"));
        assert_eq!(nearest("prio", ["run", "priority"]), Some("priority"));
        assert_eq!(
            nearest("throttled_usecs_all", ["throttled"]),
            Some("throttled")
        );
        assert_eq!(nearest("pr", ["priority"]), None);
    }

    #[test]
    fn a_list_ends_where_nobody_reads_on() {
        let names: Vec<String> = (10..40).map(|n| format!("price_{n}")).collect();
        let valid: Vec<&str> = names.iter().map(String::as_str).collect();
        let text = suggestion("colour", &valid);
        assert!(text.starts_with("valid names: `price_10`, "), "{text}");
        assert!(text.ends_with("`price_29` and 10 more"), "{text}");
        assert!(!suggestion("colour", &valid[..20]).contains("more"));
    }

    #[test]
    fn complaints_of_serde_name_what_is_near() {
        let message = "unknown variant `schedutl`, expected `schedutil` or `ondemand`";
        let near = "unknown variant `schedutl`; nearest valid name: `schedutil`";
        assert_eq!(nearer(message).as_deref(), Some(near));
        let message = "unknown field `foo`, there are no fields";
        let none = "unknown field `foo`; there are no valid names";
        assert_eq!(nearer(message).as_deref(), Some(none));
    }

    #[test]
    fn the_first_listed_wins_among_equals() {
        let names = ["util_min", "util_max"];
        assert_eq!(nearest("util_mix", names), Some("util_min"));
    }

    #[test]
    fn long_words_are_no_slips() {
        assert_eq!(nearest(&"x".repeat(65), [&*"x".repeat(64)]), None);
        assert_eq!(
            nearest(&"ä".repeat(64), [&*"ä".repeat(64)]).map(str::len),
            Some(128)
        );
    }

    #[test]
    fn a_huge_word_is_compared_in_bounded_time() {
        let huge = "x".repeat(1 << 20);
        assert_eq!(nearest(&huge, ["run"]), None);
    }
}
