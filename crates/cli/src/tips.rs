//! Hints at what was meant by an argument that a verb does not have.
//!
//! The parser suggests the flag that is spelled most alike, however far that is: `--json` for
//! `--slo`. Such a suggestion is left out, and who typed the flag of another verb is told where it
//! belongs.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error};
use schedcast_base::names::nearest;

use crate::arguments::Cli;

/// Flags of other tools and verbs, and what stands for them in a question with `--set`.
const ELSEWHERE: [(&str, &str); 5] = [
    (
        "--slo",
        "`schedcast advise RECORDING --slo 'p99<80ms'` judges a promise",
    ),
    ("--client", "write --set program.recording.client=closed"),
    ("--quota", "write --set cpu.max=60000"),
    ("--burst", "write --set cpu.max.burst=20000"),
    ("--shares", "write --set cpu.weight=200"),
];

/// Verbs whose questions take `--set`.
const ASKING: [&str; 4] = ["what-if", "compare", "run", "explain"];

/// Takes out of `error` what misleads, and returns the hint that helps, if one is known. `words`
/// are those of the command line, program name first.
pub(crate) fn mend(error: &mut Error, words: &[OsString]) -> Option<String> {
    if error.kind() == ErrorKind::InvalidSubcommand {
        mend_verb(error);
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let text = |kind, error: &Error| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let unknown = text(ContextKind::InvalidArg, error)?;
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let verb = words.get(1).map_or("", |verb| verb);
    if has_json(verb) && ["-o", "--output"].contains(&unknown.as_str()) {
        error.remove(ContextKind::Suggested);
        return Some("--json FILE writes JSON, --json - to standard output".to_owned());
    }
    if let Some(hint) = bare_command(verb, &words) {
        error.remove(ContextKind::Suggested);
        error.remove(ContextKind::SuggestedArg);
        return Some(hint);
    }
    let suggested = text(ContextKind::SuggestedArg, error);
    let is_near = |one: &String| nearest(&unknown, [one.as_str()]).is_some();
    if suggested.is_some_and(|one| !is_near(&one)) {
        error.remove(ContextKind::SuggestedArg);
        // It is that of the command line with the suggested flag.
        error.remove(ContextKind::Usage);
    }
    elsewhere(verb, &unknown)
        .or_else(|| split_setting(&words, &unknown))
        .or_else(|| bare_promise(verb, &words))
}

/// Suggests `help`, which is read before the parser sees it, for what is nearer to it than to
/// `help-files`.
fn mend_verb(error: &mut Error) {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    if nearest(typed, ["help", "help-files"]) == Some("help") {
        let help = ContextValue::Strings(vec!["help".to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, help);
    }
}

/// Whether a verb has the flag `--json`.
fn has_json(verb: &str) -> bool {
    let cli = Cli::command();
    let verb = cli.find_subcommand(verb);
    verb.is_some_and(|verb| {
        verb.get_arguments()
            .any(|one| one.get_long() == Some("json"))
    })
}

/// A command was typed behind `run` or `compare` without the `--` that keeps its flags from being
/// schedcast's.
fn bare_command(verb: &str, words: &[impl AsRef<str>]) -> Option<String> {
    let first = words.get(2)?.as_ref();
    let is_command = !first.starts_with('-') && !first.ends_with(".toml");
    let has_flags = words[3..].iter().any(|word| word.as_ref().starts_with('-'));
    let is_whole = words.iter().all(|word| word.as_ref() != "--");
    let takes_commands = verb == "run" || verb == "compare" && has_flags && !first.contains('/');
    (is_command && is_whole && takes_commands)
        .then(|| format!("a command stands behind `--`: schedcast {verb} -- COMMAND"))
}

fn elsewhere(verb: &str, flag: &str) -> Option<String> {
    let known = ELSEWHERE.iter().find(|(known, _)| *known == flag);
    let (_, hint) = known.filter(|_| ASKING.contains(&verb))?;
    Some((*hint).to_owned())
}

/// `--set cpu.max 50000` lacks its `=`.
fn split_setting(words: &[impl AsRef<str>], value: &str) -> Option<String> {
    let pairs = words.windows(3).map(|three| {
        let [flag, key, word] = three else {
            unreachable!("windows of three");
        };
        [flag.as_ref(), key.as_ref(), word.as_ref()]
    });
    let mut split =
        pairs.filter(|[flag, key, word]| *flag == "--set" && !key.contains('=') && *word == value);
    let [_, key, _] = split.next()?;
    Some(format!("write --set {key}={value}"))
}

/// A promise without its flag takes the place of the recording.
fn bare_promise(verb: &str, words: &[impl AsRef<str>]) -> Option<String> {
    let mut pairs = words.windows(2);
    let promise = pairs.find_map(|pair| {
        let (before, word) = (pair[0].as_ref(), pair[1].as_ref());
        let is_bare = before != "--slo" && !word.starts_with('-') && word.contains(['<', '>']);
        is_bare.then_some(word)
    });
    let promise = promise.filter(|_| verb == "advise")?;
    Some(format!(
        "a promise stands behind its flag: --slo '{promise}'"
    ))
}
