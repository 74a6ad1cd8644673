//! The `[[program]]` sections: what runs, under which name, in which cgroup.
//!
//! `run` is a command as typed in a shell, without the shell: quotes work, pipes do not. `replay`
//! is a folder with a recording, `profile` are the numbers of a [`service`]. The name defaults to
//! the program's: `run = "/usr/bin/schbench -m 1"` is `schbench`, `perf bench sched messaging` is
//! `perf-bench-messaging`, `replay = "recordings/pg"` is `pg`. A command may `start` later than the
//! run, and `price` says what its pieces cost where that is known better than the defaults:
//! `price.stress_ng_permille = 2000` halves the speed of stress-ng's methods.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schedcast_workload::programs::command::CommandError;
use schedcast_workload::programs::{Prices, prefix};
use schedcast_workload::replay::{Adjust, ClientLoop, Patience};

use super::cgroup::CgroupTree;
use super::document::{Entry, Kind, Table, Value};
use super::keys::{self, Key, TIME, Takes, keys, names};
use super::scenario::read_time;
use super::service::{self, Profiled};
use super::unit;
use super::units::{quote_word, split_words};
use crate::error::{Error, Located, Place, Result, hint_for};

/// Keys of `[[program]]`.
pub(crate) const KEYS: [Key; 15] = keys! {
    "name" => Takes::Words("text without blanks and slashes"), "the program's",
        "Its name in metrics, unique in the experiment.";
    "run" => Takes::Words("a command as typed in a shell, or an array of words"), "",
        "Command to start, one of `schedcast list programs`. Quotes work, pipes do not.";
    "replay" => Takes::Words("the folder of a recording"), "", "A recording that runs again.";
    "profile" => Takes::Words("table"), "", "A stationary service.";
    "cgroup" => Takes::Words("path of a group"), "`/`",
        "Where it starts; recorded threads start in their own groups.";
    "start" => TIME, "`0s`", "When a command starts.";
    "env" => Takes::Words("table of texts or whole numbers"), "none",
        "Environment variables of a command: `GOMAXPROCS` and `GOGC` of `go-server`, `JAVA_TOOL_OPTIONS` of `java-server`.";
    "price" => Takes::Words("table of whole numbers, 0 or more"), "those of the machine",
        "Prices of the parts of a command, by name: `price.stress_ng_permille = 2000` halves the speed of the methods of stress-ng.";
    "window" => Takes::Words("array of two durations: `[\"5s\", \"20s\"]`"), "all of it",
        "The part of a recording that is replayed.";
    "rate" => Takes::Number(0.001, 1000.0, "times as often"), "1",
        "How often recorded requests arrive.";
    "threads" => Takes::Whole(1, 10_000, "threads"), "as recorded",
        "Workers that the recorded demand is split over.";
    "client" => Takes::Words("`\"open\"`, `\"closed\"` or `\"bounded\"`"), "as the recording shows",
        "Whether clients of recorded services keep a schedule, ask again when the last reply has come, or keep a schedule each with one request at a time.";
    "client_timeout" => TIME, "none",
        "How long clients of recorded services wait for an answer to a request before it has failed.";
    "client_retries" => Takes::Whole(0, 100, "times"), "0",
        "How often clients ask again after `client_timeout`, at once, before a request has failed.";
    "foreground" => Takes::Words("path of a group"), "all threads",
        "Only threads of this group and below are replayed as recorded; the others are a stationary background.";
};

/// Action of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A command line, split into words.
    Run(Vec<String>),
    /// A recording's folder, and how its replay differs from it.
    Replay(PathBuf, Adjust),
    /// A stationary service.
    Profile(Box<Profiled>),
}

/// One program of a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name in metrics, unique in the variant.
    pub name: String,
    /// Action of the program, and its place in the document.
    pub action: Located<Action>,
    /// The cgroup it starts in; recorded threads start in their own.
    pub cgroup: String,
    /// Time from the start of the run to the start of a command.
    pub start_ns: u64,
    /// Environment variables of a command.
    pub environment: BTreeMap<String, String>,
    /// Prices of the parts of a command.
    pub prices: Prices,
}

impl Program {
    /// Reads one section. Paths are relative to `directory`.
    ///
    /// # Errors
    /// Unknown keys, both or neither of `run` and `replay`, a command that needs a shell, an
    /// unknown cgroup.
    pub(crate) fn read(
        value: &Value,
        directory: &Path,
        cgroups: &CgroupTree,
        cpus: usize,
    ) -> Result<Program> {
        let table = value.table("a [[program]] section")?;
        table.refuse_unknown(&names(&KEYS), "[[program]]")?;
        let action = read_action(table, &value.place, directory)?;
        let unit = unit::of(value, cpus)?.map(|(path, _)| path);
        let cgroup = match table.entry("cgroup") {
            None => unit.unwrap_or_else(|| "/".to_string()),
            Some(entry) if unit.is_some() => {
                let message = "`systemd-run` starts its command in a group of its own";
                let hint = "leave `cgroup` or `systemd-run` out";
                return Err(Error::input(&entry.key_place, message).hint(hint));
            }
            Some(entry) => {
                let path = entry.value.text("a cgroup path")?;
                cgroups.refuse_unknown(path, &entry.value.place)?;
                if let Action::Replay(..) = action.value {
                    let message = "a recorded thread stays in the cgroup it was recorded in";
                    return Err(Error::input(&entry.key_place, message));
                }
                path.to_string()
            }
        };
        let name = name_of(value)?;
        let of_commands = ["start", "price", "env"]
            .iter()
            .find_map(|key| table.entry(key));
        let refused = match &action.value {
            Action::Run(_) => None,
            Action::Replay(..) => Some("a recording brings its own"),
            Action::Profile(_) => Some("a profile has no"),
        };
        if let (Some(why), Some(entry)) = (refused, of_commands) {
            return Err(Error::input(
                &entry.key_place,
                format!("{why} `{}`", entry.key),
            ));
        }
        let of_replays = ADJUSTS.iter().find_map(|key| table.entry(key));
        if let (Action::Run(_) | Action::Profile(_), Some(entry)) = (&action.value, of_replays) {
            let message = format!("`{}` is for recordings", entry.key);
            let hint = "a profile has its own inside [program.profile]";
            return Err(Error::input(&entry.key_place, message).hint(hint));
        }
        if let (Action::Profile(profiled), Some(value)) = (&action.value, table.get("profile")) {
            cgroups.refuse_unknown(&profiled.client_cgroup, &value.place)?;
        }
        Ok(Program {
            name: name.value,
            action,
            cgroup,
            start_ns: table.get("start").map_or(Ok(0), read_time)?,
            environment: table
                .get("env")
                .map_or(Ok(BTreeMap::new()), read_environment)?,
            prices: table
                .get("price")
                .map_or(Ok(Prices::default()), read_prices)?,
        })
    }
}

impl Program {
    /// The refusal of its command, at the word that is refused where that is known.
    pub fn refused(&self, error: &CommandError) -> Error {
        let place = match &self.action.value {
            Action::Run(words) => word_of(words, error.word, &self.action.place),
            _ => None,
        };
        Error::input(
            place.as_ref().unwrap_or(&self.action.place),
            error.to_string(),
        )
    }
}

/// Place of a word, counted from 1, of a command at `whole`; `None` where it stands there in other
/// spelling, and for the first word, which stands for all of them.
fn word_of(words: &[String], word: usize, whole: &Place) -> Option<Place> {
    let quoted: Vec<String> = words.iter().map(|word| quote_word(word)).collect();
    let written = whole.source.text.get(whole.span.clone())?;
    // A string of a file has quotes around it.
    let start = written
        .find(&quoted.join(" "))
        .filter(|start| *start <= 1)?;
    let refused = quoted.get(word.checked_sub(1)?).filter(|_| word > 1)?;
    let before: usize = quoted[..word - 1].iter().map(|word| word.len() + 1).sum();
    let start = whole.span.start + start + before;
    Some(Place::new(&whole.source, start..start + refused.len()))
}

fn read_environment(value: &Value) -> Result<BTreeMap<String, String>> {
    let table = value.table("environment variables of a command")?;
    let variable = |entry: &Entry| {
        let text = match entry.value.kind {
            Kind::Integer(number) => number.to_string(),
            _ => entry.value.text("a text or a whole number")?.to_string(),
        };
        Ok((entry.key.clone(), text))
    };
    table.entries.iter().map(variable).collect()
}

fn read_prices(value: &Value) -> Result<Prices> {
    let table = value.table("the prices of a command")?;
    let price = |entry: &Entry| {
        let price = entry.value.integer_in(0, i64::MAX, &entry.key)?;
        Ok((entry.key.clone(), price.unsigned_abs()))
    };
    let overrides: Result<BTreeMap<String, u64>> = table.entries.iter().map(price).collect();
    Prices::with(&overrides?).map_err(|why| Error::input(&value.place, why))
}

fn read_action(table: &Table, place: &Place, directory: &Path) -> Result<Located<Action>> {
    let sources = ["run", "replay", "profile"];
    let mut given = sources
        .iter()
        .filter_map(|key| Some((*key, table.get(key)?)));
    let Some((key, value)) = given.next() else {
        let message = "a program needs `run`, `replay` or `profile`";
        return Err(Error::input(place, message).hint("run = \"schbench -m 1 -t 3 -r 20\""));
    };
    if let Some((_, other)) = given.next() {
        return Err(Error::input(
            &other.place,
            "a program has one of `run`, `replay` and `profile`, not two",
        ));
    }
    let action = match key {
        "run" => Action::Run(command_words(value)?),
        "replay" => {
            let folder = directory.join(value.text("the folder of a recording")?);
            Action::Replay(folder, read_adjust(table)?)
        }
        _ => Action::Profile(Box::new(service::read(value)?)),
    };
    Ok(Located::new(action, value.place.clone()))
}

/// Keys that make a replay differ from its recording.
const ADJUSTS: [&str; 7] = [
    "window",
    "rate",
    "threads",
    "client",
    "client_timeout",
    "client_retries",
    "foreground",
];

/// How a replay differs from its recording: `window = ["5s", "20s"]`, `rate = 1.5`, `threads = 4`,
/// `foreground = "/pg"`.
fn read_adjust(table: &Table) -> Result<Adjust> {
    let mut adjust = Adjust::default();
    if let Some(value) = table.get("window") {
        let what = "a begin and an end: [\"5s\", \"20s\"]";
        let [from, to] = value.array(what)? else {
            return Err(value.expected(what));
        };
        adjust.window_ns = Some((read_time(from)?, read_time(to)?));
    }
    if let Some(value) = table.get("rate") {
        let rate = keys::number(&KEYS, "rate", value)?;
        adjust.rate_permille = (rate * 1000.0).round() as u64;
    }
    if let Some(value) = table.get("threads") {
        adjust.threads = u32::try_from(keys::whole(&KEYS, "threads", value)?).ok();
    }
    if let Some(value) = table.get("client") {
        let what = "\"open\", \"closed\" or \"bounded\"";
        let typed = value.text(what)?;
        let named = ClientLoop::NAMED.iter().find(|(name, _)| *name == typed);
        adjust.client_loop = named.ok_or_else(|| value.expected(what))?.1;
    }
    adjust.patience = read_patience(table)?;
    if let Some(value) = table.get("foreground") {
        adjust.foreground = Some(value.text("a cgroup path")?.to_string());
    }
    Ok(adjust)
}

/// How long clients wait for an answer, and how often they ask again.
fn read_patience(table: &Table) -> Result<Option<Patience>> {
    let Some(value) = table.get("client_timeout") else {
        return match table.entry("client_retries") {
            None => Ok(None),
            Some(entry) => {
                let message = "clients ask again when `client_timeout` is over, which is not set";
                Err(Error::input(&entry.key_place, message))
            }
        };
    };
    let timeout_ns = read_time(value)?;
    if timeout_ns == 0 {
        return Err(value.expected("a time longer than 0"));
    }
    let retries = table.get("client_retries");
    let retries = retries.map_or(Ok(0), |value| keys::whole(&KEYS, "client_retries", value))?;
    Ok(Some(Patience {
        timeout_ns,
        retries: retries as u32,
    }))
}

/// The words of `run`: a string is split as in a shell, an array is taken word by word.
pub(super) fn command_words(run: &Value) -> Result<Vec<String>> {
    let what = "a command as typed in a shell";
    let words = match &run.kind {
        Kind::Array(values) => {
            let words = values
                .iter()
                .map(|word| Ok(word.text("a word")?.to_string()));
            words.collect::<Result<Vec<_>>>()?
        }
        _ => split_words(run.text(what)?).map_err(|(offset, why)| {
            // One byte further for the opening quote of a TOML string; escapes would shift it more.
            let quoted = usize::from(matches!(run.kind, Kind::Text(_)));
            let start = run.place.span.start + quoted + offset;
            Error::input(&Place::new(&run.place.source, start..start + 1), why)
        })?,
    };
    if words.is_empty() {
        return Err(Error::input(&run.place, "the command is empty"));
    }
    Ok(words)
}

/// The name a program section goes by: `name`, or the default from `run` or `replay`.
///
/// # Errors
/// A name that could not stand in a metric, or a section with no source for one.
pub(crate) fn name_of(value: &Value) -> Result<Located<String>> {
    let table = value.table("a [[program]] section")?;
    if let Some(name) = table.get("name") {
        let text = name.text("a name")?;
        if text.is_empty() || text.contains('/') || text.contains(char::is_whitespace) {
            let message = format!("`{text}` cannot stand before the slash of a metric");
            return Err(Error::input(&name.place, message).hint("names have no blank and no slash"));
        }
        return Ok(Located::new(text.to_string(), name.place.clone()));
    }
    let action = read_action(table, &value.place, Path::new(""))?;
    let name = match &action.value {
        Action::Run(words) => command_name(words),
        Action::Replay(folder, _) => last_component(&folder.to_string_lossy()),
        Action::Profile(_) => "service".to_string(),
    };
    Ok(Located::new(name, action.place))
}

fn last_component(path: &str) -> String {
    let last = path
        .rsplit('/')
        .find(|part| !part.is_empty() && *part != ".");
    last.unwrap_or("program").replace(char::is_whitespace, "-")
}

fn command_name(words: &[String]) -> String {
    // The program gives the name, not what starts it.
    let words = &words[prefix::length(words)..];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["perf", "bench", "sched", bench, ..] => format!("perf-bench-{bench}"),
        [command, ..] => last_component(command),
        [] => "program".to_string(),
    }
}

/// Gives every `[[program]]` of a document its name as a key of its own and refuses duplicates.
///
/// # Errors
/// As [`name_of`], and for a name used twice.
pub(crate) fn name_all(programs: &mut [Value]) -> Result<()> {
    let mut seen: Vec<String> = Vec::new();
    for value in programs {
        let name = name_of(value)?;
        if seen.contains(&name.value) {
            let message = format!("two programs are named `{}`", name.value);
            return Err(Error::input(&name.place, message).hint("give one of them a `name`"));
        }
        seen.push(name.value.clone());
        set_name(value, name);
    }
    Ok(())
}

fn set_name(value: &mut Value, name: Located<String>) {
    if let Kind::Table(table) = &mut value.kind
        && table.get("name").is_none()
    {
        let written = Value::new(Kind::Text(name.value), name.place.clone());
        table.entries.push(Entry::new("name", name.place, written));
    }
}

/// Lays the programs of a variant over those of the document, each by its name. `over` is either
/// an array of sections or, from `program.NAME.KEY` settings, a table by name.
///
/// # Errors
/// An overlay for a program that does not exist and says neither `run` nor `replay`.
pub(crate) fn merge_programs(base: &mut Vec<Value>, over: &Value) -> Result<()> {
    match &over.kind {
        Kind::Array(sections) => {
            for section in sections {
                merge_one(base, section, &name_of_overlay(section)?)?;
            }
            Ok(())
        }
        Kind::Table(by_name) => by_name.entries.iter().try_for_each(|entry| {
            let name = Located::new(entry.key.clone(), entry.key_place.clone());
            merge_one(base, &entry.value, &name)
        }),
        _ => Err(over.expected("[[program]] sections")),
    }
}

fn name_of_overlay(section: &Value) -> Result<Located<String>> {
    let table = section.table("a [[program]] section")?;
    let named = ["name", "run", "replay", "profile"]
        .iter()
        .any(|key| table.get(key).is_some());
    if named {
        return name_of(section);
    }
    Err(
        Error::input(&section.place, "which program does this change?")
            .hint("add name = \"…\", the name of the program"),
    )
}

fn merge_one(base: &mut Vec<Value>, over: &Value, name: &Located<String>) -> Result<()> {
    let over_table = over.table("a [[program]] section")?;
    let mut names = Vec::new();
    for value in base.iter_mut() {
        let below = name_of(value)?.value;
        if below == name.value {
            if let Kind::Table(table) = &mut value.kind {
                merge_section(table, over_table);
            }
            return Ok(());
        }
        names.push(below);
    }
    let begins = ["run", "replay"]
        .iter()
        .any(|key| over_table.get(key).is_some());
    let has_profile = over_table.get("profile").is_some() && names_begin(over_table);
    if !begins && !has_profile {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let message = format!("unknown program `{}`", name.value);
        return Err(Error::input(&name.place, message).hint(hint_for(&name.value, &names)));
    }
    let mut added = over.clone();
    set_name(&mut added, name.clone());
    base.push(added);
    Ok(())
}

/// Whether a profile is a whole one, not a change of one that was meant to exist.
fn names_begin(over: &Table) -> bool {
    let profile = over.get("profile").and_then(|value| value.table("").ok());
    profile
        .is_some_and(|profile| profile.get("threads").is_some() && profile.get("work_us").is_some())
}

/// `run`, `replay` and `profile` exclude each other, so writing one takes the others away.
fn merge_section(table: &mut Table, over: &Table) {
    let sources = ["run", "replay", "profile"];
    if let Some(written) = sources.iter().find(|key| over.get(key).is_some()) {
        for other in sources.iter().filter(|other| *other != written) {
            if over.get(other).is_none() {
                table.take(other);
            }
        }
    }
    // The client and the rate are two ways that exclude each other, too.
    let inner = |table: &Table, key: &str| {
        let profile = table.get("profile").and_then(|value| value.table("").ok());
        profile.is_some_and(|profile| profile.get(key).is_some())
    };
    for (written, others) in [
        ("rate", ["clients", "think_us"]),
        ("clients", ["rate", "arrivals"]),
    ] {
        if inner(over, written)
            && let Some(entry) = table
                .entries
                .iter_mut()
                .find(|entry| entry.key == "profile")
            && let Kind::Table(profile) = &mut entry.value.kind
        {
            for other in others {
                profile.take(other);
            }
        }
    }
    table.merge(over);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Source;
    use crate::experiment::document::parse;
    use schedcast_base::assert_starts;

    fn programs(text: &str) -> Vec<Value> {
        let table = parse(&Source::new("p.toml", text)).unwrap();
        table.get("program").unwrap().array("").unwrap().to_vec()
    }

    fn read(text: &str) -> Result<Program> {
        let mut programs = programs(&format!("[[program]]\n{text}\n"));
        name_all(&mut programs)?;
        Program::read(&programs[0], Path::new("dir"), &CgroupTree::default(), 8)
    }

    #[test]
    fn names_default_to_the_programs() {
        let name = |text: &str| read(text).unwrap().name;
        assert_eq!(name("run = \"/usr/bin/schbench -m 1\""), "schbench");
        let messaging = name("run = \"perf bench sched messaging -g 4\"");
        assert_eq!(messaging, "perf-bench-messaging");
        assert_eq!(name("run = [\"hackbench\", \"-g\", \"1\"]"), "hackbench");
        assert_eq!(name("replay = \"recordings/pg/\""), "pg");
        assert_eq!(name("run = \"hackbench\"\nname = \"noise\""), "noise");
    }

    #[test]
    fn a_refused_word_is_shown_at_its_place() {
        let place = |program: &Program, word| {
            let refused = program.refused(&CommandError::new("stress-ng", word, "refused"));
            refused.to_string()
        };
        let words = ["stress-ng", "--cpu", "a b", "--switch", "2"].map(String::from);
        let document = crate::experiment::command_document(&words, None);
        let programs = document.get("program").unwrap().array("").unwrap();
        let cgroups = CgroupTree::default();
        let typed = Program::read(&programs[0], Path::new(""), &cgroups, 8).unwrap();
        // 'a b' has its quotes there.
        assert_starts(place(&typed, 4), "command:1:23: stress-ng, word 4");
        assert_starts(place(&typed, 1), "command:1:1: ");
        assert_starts(place(&typed, 9), "command:1:1: ");
        let of_file = read("run = \"stress-ng --cpu 2 --switch 2\"").unwrap();
        assert_starts(place(&of_file, 4), "p.toml:2:26: ");
        let other = read("run = [\"stress-ng\", \"--switch\"]").unwrap();
        assert_starts(place(&other, 2), "p.toml:2:7: ");
    }

    #[test]
    fn a_program_either_runs_or_replays() {
        let program = read("run = \"sh -c 'a b'\"").unwrap();
        let words = ["sh", "-c", "a b"].map(String::from).to_vec();
        assert_eq!(program.action.value, Action::Run(words));
        let replays = |text: &str, adjust| {
            let expected = Action::Replay("dir/pg".into(), adjust);
            assert_eq!(read(text).unwrap().action.value, expected);
        };
        replays("replay = \"pg\"", Adjust::default());
        let text = "replay = \"pg\"\nwindow = [\"5s\", \"20s\"]\nrate = 1.5\nthreads = 4\nclient = \"closed\"\nclient_timeout = \"200ms\"\nclient_retries = 2\nforeground = \"/pg\"";
        let adjusted = Adjust {
            client_loop: ClientLoop::Closed,
            patience: Some(Patience {
                timeout_ns: 200_000_000,
                retries: 2,
            }),
            window_ns: Some((5_000_000_000, 20_000_000_000)),
            rate_permille: 1500,
            work_permille: 1000,
            threads: Some(4),
            foreground: Some("/pg".into()),
            piece: None,
        };
        replays(text, adjusted);
    }

    #[test]
    fn commands_have_a_start_and_prices() {
        let program = read("run = \"a\"\nstart = \"37ms\"\nprice.poll_ns = 9").unwrap();
        assert_eq!((program.start_ns, program.prices.poll_ns), (37_000_000, 9));
        let plain = read("run = \"a\"").unwrap();
        assert_eq!((plain.start_ns, plain.prices), (0, Prices::default()));
    }

    #[test]
    fn a_variant_addresses_programs_by_name() {
        let base = "[[program]]\nrun = \"a -x\"\ncgroup = \"/g\"\n[[program]]\nreplay = \"r\"\n";
        let merged = |over: &str| -> Result<Vec<String>> {
            let mut programs_below = programs(base);
            name_all(&mut programs_below)?;
            let over = parse(&Source::new("v.toml", over)).unwrap();
            merge_programs(&mut programs_below, over.get("program").unwrap())?;
            let show = |value: &Value| {
                let table = value.table("").unwrap();
                let entries = table.entries.iter();
                let pairs =
                    entries.map(|entry| format!("{}={}", entry.key, entry.value.text("").unwrap()));
                pairs.collect::<Vec<_>>().join(" ")
            };
            Ok(programs_below.iter().map(show).collect())
        };
        for (over, first) in [
            ("[[program]]\nrun = \"a -y\"\n", "run=a -y cgroup=/g name=a"),
            (
                "[[program]]\nname = \"a\"\nrun = \"b\"\n",
                "run=b cgroup=/g name=a",
            ),
            (
                "[program.a]\ncgroup = \"/h\"\n",
                "run=a -x cgroup=/h name=a",
            ),
        ] {
            assert_eq!(merged(over).unwrap(), [first, "replay=r name=r"]);
        }
        let added = &merged("[[program]]\nrun = \"c\"\n").unwrap()[2];
        assert_eq!(added, "run=c name=c");
        let found = &merged("[program.r]\nrun = \"now\"\n").unwrap()[1];
        assert_eq!(found, "name=r run=now", "run takes replay away");
        let refuse = |over| merged(over).unwrap_err().to_string();
        let error = refuse("[[program]]\nname = \"aa\"\ncgroup = \"/g\"\n");
        let expected = "v.toml:2:8: unknown program `aa` (the nearest valid name is `a`)";
        assert_eq!(error, expected);
        let error = refuse("[[program]]\ncgroup = \"/g\"\n");
        assert!(error.contains("which program"), "{error}");
    }
}
