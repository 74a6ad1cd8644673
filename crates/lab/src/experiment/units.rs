//! Durations and words, as text.
//!
//! `"20s"`, `"1.5ms"` and `"250us"` are 20,000,000,000, 1,500,000 and 250,000 ns; a duration
//! without a unit is refused, because kernel files mean microseconds and people mean seconds.

/// Nanoseconds per unit, longest suffix of each spelling first.
const DURATION_UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Nanoseconds of a duration such as `20s`, `1.5ms` or `250us`.
///
/// # Errors
/// Description of the mistake in the text, to be completed with its place by the caller.
///
/// ```
/// use schedcast_lab::experiment::units::parse_duration_ns;
/// assert_eq!(parse_duration_ns("1.5ms"), Ok(1_500_000));
/// assert!(parse_duration_ns("20").is_err());
/// ```
pub fn parse_duration_ns(text: &str) -> Result<u64, String> {
    let advice = "a duration is a number and one of ns, us, ms, s, min, h, such as \"20s\"";
    let unit_start = text.find(|character: char| character.is_alphabetic());
    let (number, unit) = text.split_at(unit_start.unwrap_or(text.len()));
    let Some((_, unit_ns)) = DURATION_UNITS.iter().find(|(name, _)| *name == unit.trim()) else {
        return Err(match unit.trim() {
            "" => format!("`{text}` has no unit of time: {advice}"),
            // Prometheus and Go write minutes so.
            "m" => format!("`m` is no unit of time: minutes are `{}min`", number.trim()),
            unit => format!("`{unit}` is no unit of time: {advice}"),
        });
    };
    let number = number.trim();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let written = !whole.is_empty() && (fraction.is_empty() != number.contains('.'));
    if !written || !digits(whole) || !digits(fraction) {
        return Err(format!("`{text}` is not a duration: {advice}"));
    }
    let too_long = || format!("`{text}` is longer than 64 bits of nanoseconds");
    let whole_ns = whole
        .parse::<u64>()
        .ok()
        .and_then(|count| count.checked_mul(*unit_ns));
    let fraction_ns = fraction_of(fraction, *unit_ns);
    let (Some(whole_ns), Some(fraction_ns)) = (whole_ns, fraction_ns) else {
        return Err(too_long());
    };
    whole_ns.checked_add(fraction_ns).ok_or_else(too_long)
}

/// 0.`digits` of `unit_ns`, in whole nanoseconds rounded down.
fn fraction_of(digits: &str, unit_ns: u64) -> Option<u64> {
    // Twelve digits are below a nanosecond even for hours.
    let digits = &digits[..digits.len().min(12)];
    if digits.is_empty() {
        return Some(0);
    }
    let scale = 10_u128.pow(u32::try_from(digits.len()).ok()?);
    let part = digits.parse::<u128>().ok()? * u128::from(unit_ns) / scale;
    u64::try_from(part).ok()
}

/// The shortest exact text of a duration: 1,500,000 ns is `1.5ms`.
pub fn format_duration_ns(duration_ns: u64) -> String {
    let units = [
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    for (name, unit_ns) in units {
        if duration_ns >= unit_ns || unit_ns == 1 {
            let fraction = format!("{:09}", duration_ns % unit_ns * (1_000_000_000 / unit_ns));
            let fraction = fraction.trim_end_matches('0');
            let point = if fraction.is_empty() { "" } else { "." };
            return format!("{}{point}{fraction}{name}", duration_ns / unit_ns);
        }
    }
    unreachable!("one nanosecond is the last unit")
}

/// Splits a command line into words as a shell does: blanks separate, quotes and backslashes keep.
///
/// # Errors
/// An unclosed quote, or something only a shell could do (`|`, `;`, `>`, `$`, …), with its byte
/// offset.
pub fn split_words(text: &str) -> Result<Vec<String>, (usize, String)> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.char_indices();
    while let Some((offset, character)) = characters.next() {
        match character {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        None => return Err((offset, "this quote is never closed".to_string())),
                        Some((_, next)) if next == character => break,
                        Some((_, '\\')) if character == '"' => {
                            word.extend(characters.next().map(|(_, next)| next));
                        }
                        Some((_, next)) => word.push(next),
                    }
                }
            }
            '\\' => word
                .get_or_insert_default()
                .extend(characters.next().map(|(_, next)| next)),
            '|' | '&' | ';' | '<' | '>' | '$' | '`' | '(' | ')' => {
                return Err((
                    offset,
                    format!("`{character}` needs a shell, and none runs here"),
                ));
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

/// One word, quoted for a shell if it needs to be.
pub fn quote_word(word: &str) -> String {
    let plain = |character: char| character.is_alphanumeric() || "-_./=:,+@%".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use schedcast_base::assert_contains;

    #[test]
    fn durations_are_exact() {
        let good = [
            ("20s", 20_000_000_000),
            ("5ms", 5_000_000),
            ("0.5us", 500),
            ("1 min", 60_000_000_000),
            ("0ns", 0),
            ("0.0000001h", 360_000),
            ("18446744073s", 18_446_744_073_000_000_000),
        ];
        for (text, nanoseconds) in good {
            assert_eq!(parse_duration_ns(text), Ok(nanoseconds), "{text}");
        }
        let bad = "20||s|-1s|1.s|.5s|1e3s|1.2.3s|5 parsecs|1_0s";
        for text in bad.split('|') {
            assert!(parse_duration_ns(text).is_err(), "{text}");
        }
        assert_contains(parse_duration_ns("18446744074s").unwrap_err(), "64 bits");
        assert_contains(parse_duration_ns("10m").unwrap_err(), "`10min`");
    }

    #[test]
    fn words_split_as_in_a_shell() {
        let words = |text| split_words(text).unwrap();
        assert_eq!(
            words("  schbench -m 1\t-t  3 "),
            ["schbench", "-m", "1", "-t", "3"]
        );
        assert_eq!(
            words(r#"a 'b c' "d \" e" f\ g '' h"i"j"#),
            ["a", "b c", "d \" e", "f g", "", "hij"]
        );
        assert_eq!(split_words("a 'b").unwrap_err().0, 2);
        assert_eq!(split_words("a | b").unwrap_err().0, 2);
    }

    proptest! {
        #[test]
        fn a_duration_survives_its_text(duration_ns in any::<u64>()) {
            let text = format_duration_ns(duration_ns);
            prop_assert_eq!(parse_duration_ns(&text), Ok(duration_ns));
        }

        #[test]
        fn quoted_words_split_back(words in prop::collection::vec("[ -~]{0,12}", 0..6)) {
            let line = words.iter().map(|word| quote_word(word)).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(split_words(&line), Ok(words));
        }
    }
}
