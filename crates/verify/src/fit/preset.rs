//! The preset with fitted constants in place of its own; everything else stays as it was written.

use super::FittedConstant;

/// The text of `preset` (its name and its text) with every constant of `fitted`, each with its
/// spread and source.
pub(crate) fn rewritten((name, text): &(String, String), fitted: &[FittedConstant]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for one in fitted {
        put(&mut lines, one);
    }
    format!(
        "# {name} with {} constants fitted by `schedcast calibrate --figures`. Behind each: the same from the smallest and\n\
         # the largest repeat, and what it was fitted to.\n{}\n",
        fitted.len(),
        lines.join("\n")
    )
}

fn put(lines: &mut Vec<String>, fitted: &FittedConstant) {
    let (section, key) = fitted.constant.split_once('.').unwrap_or_default();
    let (low, high) = fitted.spread;
    let line = format!(
        "{key} = {} # {low} - {high}: {}",
        fitted.value, fitted.source
    );
    let header = format!("[{section}]");
    let Some(begin) = lines.iter().position(|line| line.trim() == header) else {
        lines.extend([String::new(), header, line]);
        return;
    };
    let body = &lines[begin + 1..];
    let end = begin
        + 1
        + body
            .iter()
            .position(|line| line.starts_with('['))
            .unwrap_or(body.len());
    let is_key = |line: &String| {
        let name = line.split('=').next().unwrap_or_default();
        name.trim() == key
    };
    match lines[begin + 1..end].iter().position(is_key) {
        Some(at) => lines[begin + 1 + at] = line,
        None => lines.insert(begin + 1, line),
    }
}
