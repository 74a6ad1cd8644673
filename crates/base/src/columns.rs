//! Text set in columns: padded, shortened and broken into lines.
//!
//! Worked example: [`wrap_to`] with 20 columns sets `not shown:` and the names `wakeups`,
//! `switches` as `not shown: wakeups` and, in a second line behind two blanks, `switches`.

/// Columns of a text that is not shown on a terminal.
pub const WIDTH: usize = 100;

/// Characters, which is columns for everything these tables print.
pub fn width(text: &str) -> usize {
    text.chars().count()
}

/// `text` at the right of so many columns.
pub fn pad_left(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// `text` at the left of so many columns.
pub fn pad_right(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// A number with at most so many decimals: those at its end that are 0 are left out.
pub fn decimals(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// `text` in at most `columns` characters, the rest replaced by `…`.
pub fn shorten(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_string();
    }
    let kept: String = text.chars().take(columns.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// Joins `pieces` with blanks, breaking lines at [`WIDTH`]; further lines start with `indent`
/// blanks. A piece longer than a line is not broken.
pub fn wrap(first: &str, pieces: &[String], indent: usize) -> String {
    wrap_to(WIDTH, first, pieces, indent)
}

/// As [`wrap`], in lines of `columns`.
pub fn wrap_to(columns: usize, first: &str, pieces: &[String], indent: usize) -> String {
    let mut text = String::new();
    let mut line = first.to_string();
    let mut fresh = true;
    for piece in pieces {
        if !fresh && width(&line) + 1 + width(piece) > columns {
            text += line.trim_end();
            text.push('\n');
            line = " ".repeat(indent);
            fresh = true;
        }
        if !fresh || (!line.is_empty() && !line.ends_with(' ')) {
            line.push(' ');
        }
        line += piece;
        fresh = false;
    }
    text + line.trim_end() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wrap_at_the_width() {
        let pieces: Vec<String> = (0..12)
            .map(|index| format!("piece-number-{index}"))
            .collect();
        let text = wrap("start:", &pieces, 7);
        assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
        assert!(text.starts_with("start: piece-number-0 piece-number-1"));
        assert_eq!(text.lines().count(), 2);
        assert!(
            text.lines()
                .nth(1)
                .unwrap()
                .starts_with("       piece-number-")
        );
    }

    #[test]
    fn long_names_are_shortened_visibly() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdef", 4), "abc…");
    }
}
