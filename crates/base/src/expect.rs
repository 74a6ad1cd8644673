//! Assertions that show what they found.

use std::fmt::Display;

/// One part of a text, or several.
pub trait Parts {
    /// Each of them.
    fn parts(&self) -> Vec<&str>;
}

impl<T: AsRef<str> + ?Sized> Parts for &T {
    fn parts(&self) -> Vec<&str> {
        vec![(*self).as_ref()]
    }
}

impl<const N: usize> Parts for [&str; N] {
    fn parts(&self) -> Vec<&str> {
        self.to_vec()
    }
}

/// Fails a test whose `text` lacks one of the parts, and shows the text.
///
/// # Panics
/// When a part is missing.
#[track_caller]
pub fn assert_contains(text: impl Display, parts: impl Parts) {
    let text = text.to_string();
    for part in parts.parts() {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

/// Fails a test whose `text` begins in another way, and shows the text.
///
/// # Panics
/// When it does.
#[track_caller]
pub fn assert_starts(text: impl Display, start: &str) {
    let text = text.to_string();
    assert!(text.starts_with(start), "no {start:?} in front of: {text}");
}

/// Fails a test whose `text` ends in another way, and shows the text.
///
/// # Panics
/// When it does.
#[track_caller]
pub fn assert_ends(text: impl Display, end: &str) {
    let text = text.to_string();
    assert!(text.ends_with(end), "no {end:?} at the end of: {text}");
}

/// Fails a test whose value lies outside a range, and shows both. What follows them is a format and
/// its arguments: the case.
#[macro_export]
macro_rules! assert_in {
    ($value:expr, $range:expr $(,)?) => {
        $crate::assert_in!($value, $range, "")
    };
    ($value:expr, $range:expr, $($case:tt)+) => {{
        let (value, range) = ($value, $range);
        assert!(
            range.contains(&value),
            "{value:?} is not in {range:?}; {}",
            format_args!($($case)+)
        );
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_passes() {
        assert_contains("cpu.max", "max");
        assert_contains("cpu.max", ["cpu", "max"]);
        assert_starts("cpu.max", "cpu");
        assert_ends("cpu.max", "max");
        crate::assert_in!(3, 1..=3);
    }

    #[test]
    fn what_fails_shows_what_it_found() {
        let cases: [(fn(), &str); 4] = [
            (|| assert_contains("a.b", ["a", "c"]), "no \"c\" in: a.b"),
            (|| assert_starts("a.b", "b"), "no \"b\" in front of: a.b"),
            (|| assert_ends("a.b", "a"), "no \"a\" at the end of: a.b"),
            (
                || crate::assert_in!(3, 1..3, "case {}", 7),
                "3 is not in 1..3; case 7",
            ),
        ];
        for (fails, told) in cases {
            let panic = std::panic::catch_unwind(fails).unwrap_err();
            assert_eq!(panic.downcast_ref::<String>().unwrap(), told);
        }
    }
}
