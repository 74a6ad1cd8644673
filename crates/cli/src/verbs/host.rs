//! `record`, `apply` and `undo`: the live host.

use std::io::Write;
use std::time::Duration;

use schedcast_advise::{Recommendation, read_recommendation};
use schedcast_base::cpu_max::Quota;
use schedcast_base::groups::{NamedGroup, Wanted, owner};
use schedcast_base::limits::CpuLimits;
use schedcast_host::apply::{self, Journal, Wish};
use schedcast_host::record::{self as recorder, Request, Way};
use schedcast_host::{CpuCgroup, CpuFile, HostError, sys};
use schedcast_lab::error::{Error, Place, Result, Source, hint_for};
use schedcast_lab::experiment::units::{parse_duration_ns, quote_word};

use super::target;
use crate::arguments::LONGEST_S;
use crate::arguments::live::{ApplyArguments, RecordArguments, UndoArguments};
use crate::written;

/// Recorded without a command and without a time.
const DEFAULT: Duration = Duration::from_secs(30);

/// From this length of a recording on, the share of the machine that recording took says something.
const SHARE_FROM: Duration = Duration::from_millis(100);

/// `schedcast record`
pub(super) fn record(arguments: &RecordArguments, out: &mut impl Write) -> Result<u8> {
    let longest = match (longest(arguments)?, arguments.command.is_empty()) {
        (None, true) => Some(DEFAULT),
        (longest, _) => longest,
    };
    let group = target::on_host(&arguments.target)?;
    let request = Request {
        folder: arguments.output.clone(),
        cgroup: group.as_ref().map(|group| group.path.clone()),
        duration: longest,
        command: arguments.command.clone(),
        way: arguments.by.or(arguments.perf.then_some(Way::Perf)),
        gives_up_rights: true,
    };
    if arguments.unprivileged {
        return sample(arguments, (&request, group.as_ref()), out);
    }
    refuse_root(arguments, group.as_ref())?;
    let report = recorder::record(&request, sys::stop_flag())?;
    let seconds = report.duration.as_secs_f64();
    let mut text = format!(
        "{}: {:.1} s, {} events ({:.0}/s), {:.1} kB\n",
        arguments.output.display(),
        seconds,
        report.events,
        report.events as f64 / seconds.max(1e-9),
        report.trace_bytes as f64 / 1000.0
    );
    text += &format!(
        "overhead: {:.1} ms of CPU time for reading and writing",
        report.own_cpu_ns as f64 / 1e6
    );
    // Beginning and ending count, too: of a shorter recording they are most.
    text += &match report.duration >= SHARE_FROM {
        true => format!(", {:.2} % of the machine\n", report.own_share * 100.0),
        false => "\n".to_string(),
    };
    if report.events == 0 {
        text += "note: nothing was recorded: no event came in that time; record for longer\n";
    }
    let lost: Vec<String> = (0..report.lost.len())
        .map(|cpu| format!("CPU {cpu}: {}", report.lost[cpu]))
        .collect();
    let mut lost = match lost.is_empty() {
        true => "told when the trace is read".to_string(),
        false => lost.join(", "),
    };
    if report.lost_elsewhere > 0 {
        lost += &format!(", on a CPU that is not known: {}", report.lost_elsewhere);
    }
    text += &format!("lost events: {lost}\n");
    text += &format!("recorded by {}: {}\n", report.way.name(), report.why);
    if report.is_group_gone {
        text += "note: the group went away, which ended the recording\n";
    }
    // A command's own processes are gone by now.
    if let Some(group) = &group
        && arguments.command.is_empty()
        && !report.is_group_gone
        && CpuCgroup::open(&group.path).is_ok_and(|group| !group.is_populated())
    {
        text += &format!(
            "note: no process is in {}: nothing of it may be in the recording\n",
            group.path
        );
    }
    if report.steal_ratio >= 0.01 {
        let percent = report.steal_ratio * 100.0;
        text += &format!("note: the hypervisor took {percent:.1} % of the machine's time\n");
    }
    if let Some(note) = &report.hidden_idle {
        text += &format!("note: {note}\n");
    }
    if let Some(code) = report.exit_code.filter(|code| *code != 0) {
        text += &format!("note: the command ended with {code}\n");
    }
    // A recording keeps the names, so that a question is asked in the same words.
    let named = group.and_then(|group| group.names.flag());
    let named = named.map_or(String::new(), |flag| format!(" {flag}"));
    let folder = quote_word(&arguments.output.display().to_string());
    text += &format!("next: schedcast what-if {folder}{named}\n");
    written(out.write_all(text.as_bytes()))?;
    Ok(code_of(report.exit_code))
}

/// Refuses a process of the root group: the recording would be about no group that can be asked
/// about, and every group is in a recording that names none.
fn refuse_root(arguments: &RecordArguments, group: Option<&NamedGroup>) -> Result<()> {
    match (arguments.target.wanted(), group) {
        (Some(Wanted::Pid(pid)), Some(group)) if group.path == "/" && !is_limited(group) => {
            let message = format!("process {pid} is in the root group, which has no limit");
            Err(Error::general(message).hint("leave out --pid to record all groups"))
        }
        _ => Ok(()),
    }
}

/// Whether a group of this host has a limit. The root of a container's namespace may have one.
fn is_limited(group: &NamedGroup) -> bool {
    let limits = CpuCgroup::open(&group.path).and_then(|group| group.limits());
    limits.is_ok_and(|limits| limits.quota_us.is_some())
}

/// The exit code of `record` is that of the command.
fn code_of(command: Option<i32>) -> u8 {
    let code = command.unwrap_or(0);
    u8::try_from(code).unwrap_or(1)
}

fn longest(arguments: &RecordArguments) -> Result<Option<Duration>> {
    let Some(text) = arguments.length.time() else {
        return Ok(None);
    };
    let time = parse_duration_ns(&text).and_then(|ns| match Duration::from_nanos(ns) {
        time if time.is_zero() || time.as_secs_f64() > LONGEST_S => Err(format!(
            "expected more than 0 and at most {LONGEST_S} s, found `{text}`"
        )),
        time => Ok(time),
    });
    let source = Source::of_command_line("--duration", text.as_str());
    let place = Place::new(&source, 0..text.len());
    time.map(Some).map_err(|why| Error::input(&place, why))
}

/// `schedcast record --unprivileged`
fn sample(
    arguments: &RecordArguments,
    (request, group): (&Request, Option<&NamedGroup>),
    out: &mut impl Write,
) -> Result<u8> {
    let every = Duration::from_millis(arguments.every);
    let sampled = recorder::sample(request, every, sys::stop_flag())?;
    let folder = arguments.output.display();
    let mut text = format!(
        "{folder}: {:.1} s, {} samples of {}\noverhead: {:.1} ms of CPU time\n",
        sampled.duration.as_secs_f64(),
        sampled.samples,
        sampled.cgroup,
        sampled.own_cpu_ns as f64 / 1e6
    );
    if sampled.is_group_gone {
        text += "note: the group went away, which ended the recording\n";
    }
    if !sampled.is_used {
        text += "note: the group used no CPU time meanwhile\n";
    }
    if sampled.is_throttled {
        text += "note: the limit held the group back meanwhile: where it did so in more than 5 % of the periods ranges are wide, and samples under a looser one say more\n";
    }
    if let Some(code) = sampled.exit_code.filter(|code| *code != 0) {
        text += &format!("note: the command ended with {code}\n");
    }
    // The recording is about this group, and keeps the names that it was asked for by.
    let named = group.and_then(|group| group.names.flag());
    let named = named.map_or(String::new(), |flag| format!(" {flag}"));
    text += &format!(
        "next: schedcast counters {}{named} --set 'cpu.max=50000 100000'\n",
        quote_word(&folder.to_string())
    );
    written(out.write_all(text.as_bytes()))?;
    Ok(code_of(sampled.exit_code))
}

/// Adds one setting as typed: `cpu.max=60000 100000`.
fn add_setting(wish: &mut Wish, setting: &str) -> Result<()> {
    let Some((key, value)) = setting.split_once('=') else {
        return Err(Error::usage(format!("`{setting}` sets nothing"))
            .hint("such as --set 'cpu.max=60000 100000'"));
    };
    let source = Source::of_command_line("--set", setting);
    let refused = |error: HostError| match error {
        HostError::UnknownFile { name } => {
            let message = format!("no file of the cpu controller is named `{name}`");
            let error = Error::input(&Place::new(&source, 0..key.trim_end().len()), message);
            error.hint(match name.starts_with("cgroup.") {
                true => "it writes one group at a time: --cgroup PATH --set 'cpu.max=60000 100000'"
                    .to_string(),
                false => hint_for(&name, &CpuFile::ALL.map(CpuFile::name)),
            })
        }
        other => {
            let value = Place::new(&source, key.len() + 1..setting.len());
            Error::input(&value, other.to_string())
        }
    };
    wish.set(key.trim(), value.trim()).map_err(refused)
}

/// The group and what it should have, from an advice or from settings.
fn wanted(arguments: &ApplyArguments) -> Result<(String, Wish, Option<Recommendation>)> {
    let mut wish = Wish::default();
    let Some(file) = &arguments.advice else {
        if arguments.set.is_empty() {
            return Err(Error::usage("there is nothing to apply").hint(
                "name the file of an advice, or a group and a setting: --cgroup PATH --set 'cpu.max=60000 100000'",
            ));
        }
        refuse_twice(&arguments.set)?;
        for setting in &arguments.set {
            add_setting(&mut wish, setting)?;
        }
        return Ok((named(arguments)?.unwrap_or_default(), wish, None));
    };
    let advised = read_recommendation(file)?;
    let limit = advised.limit;
    wish.quota = Some(Quota::from(limit.quota_us));
    wish.period_us = Some(limit.period_us);
    wish.burst_us = Some(limit.burst_us);
    let target = named(arguments)?.unwrap_or_else(|| advised.target.clone());
    Ok((target, wish, Some(advised)))
}

/// Two values of one setting, also by its names of both versions: only the last would stay.
fn refuse_twice(settings: &[String]) -> Result<()> {
    let key = |setting: &String| setting.split('=').next().unwrap_or("").trim().to_string();
    let keys: Vec<String> = settings.iter().map(key).collect();
    let is_one = |one: &str, other: &str| {
        let files = CpuFile::named(one).zip(CpuFile::named(other));
        one == other || files.is_some_and(|(one, other)| one.has_same_effect(other))
    };
    for (place, later) in keys.iter().enumerate() {
        let Some(first) = keys[..place].iter().find(|first| is_one(first, later)) else {
            continue;
        };
        let message = match first == later {
            true => format!("--set has `{later}` twice"),
            false => format!("`{first}` and `{later}` are one setting"),
        };
        return Err(Error::usage(message).hint("a group has one value of it: leave one out"));
    }
    Ok(())
}

/// Refuses an advice for a limit that the group does not have any more: its forecast began there.
fn refuse_other_limit(group: &CpuCgroup, advised: &Recommendation) -> Result<()> {
    let now = group.limits()?;
    // Without a limit the period says nothing.
    let same = |one: CpuLimits| (now.quota_us.is_none() && one.quota_us.is_none()) || now == one;
    // Another group that was named, such as a new one, may have none yet.
    let is_new = group.path() != advised.target && now.quota_us.is_none();
    if is_new || same(advised.recorded) || same(advised.limit) {
        return Ok(());
    }
    let message = format!(
        "{} has {} now, and the advice was made when it had {}",
        group.path(),
        now.in_words(),
        advised.recorded.in_words()
    );
    Err(Error::general(message).hint(format!(
        "record it again and ask again, or write {} all the same with --force-limit",
        advised.limit.in_words()
    )))
}

fn named(arguments: &ApplyArguments) -> Result<Option<String>> {
    Ok(target::on_host(&arguments.target)?.map(|group| group.path))
}

fn refuse_owned(path: &str) -> Result<()> {
    let Some(owner) = owner(path) else {
        return Ok(());
    };
    let (name, instead) = (owner.name(), owner.instead());
    let message = format!("{path} belongs to {name}, which would write its own values again");
    Err(Error::general(message).hint(format!("{instead}, or write it anyway with --force-owner")))
}

fn lines(group: &CpuCgroup, writes: &[apply::Write]) -> String {
    let line = |write: &apply::Write| {
        let file = group.dir().join(write.file.name());
        format!("{} > {}\n", write.value, file.display())
    };
    writes.iter().map(line).collect()
}

/// The writes of `apply` with `then` behind them, or that none is needed.
fn applied(group: &CpuCgroup, writes: &[apply::Write], then: &str) -> String {
    match writes.is_empty() {
        true => format!("{} has these settings already\n", group.path()),
        false => format!("{}{then}\n", lines(group, writes)),
    }
}

/// `schedcast apply`
pub(super) fn apply(arguments: &ApplyArguments, out: &mut impl Write) -> Result<u8> {
    let (path, wish, advised) = wanted(arguments)?;
    if !arguments.force_owner {
        refuse_owned(&path)?;
    }
    let group = CpuCgroup::open(&path)?;
    let path = group.path();
    if let Some(advised) = advised.filter(|_| !arguments.force_limit) {
        refuse_other_limit(&group, &advised)?;
    }
    let writes =
        apply::rehearse(&group, &wish, &arguments.journal).map_err(|error| match error {
            HostError::NotPermitted { ref path, .. } if *path == arguments.journal => {
                Error::from(error)
                    .hint("run it as root, or keep the values of before with --journal DIR")
            }
            error => Error::from(error),
        })?;
    if arguments.dry_run {
        let text = applied(&group, &writes, "nothing was written");
        written(out.write_all(text.as_bytes()))?;
        return Ok(0);
    }
    let done = apply::apply(&group, &wish, &arguments.journal, &mut |_| {});
    let writes = done?;
    let undo = undo_command(path, arguments);
    let verified = format!("read back and verified; undo: {undo}");
    let text = applied(&group, &writes, &verified);
    written(out.write_all(text.as_bytes())).map_err(|error| {
        // Whoever sees an error would take the group for unchanged.
        let message = format!("{error}; {path} has the new settings all the same");
        Error::general(message).hint(format!("undo: {undo}"))
    })?;
    Ok(0)
}

fn undo_command(path: &str, arguments: &ApplyArguments) -> String {
    let journal = arguments.journal.display().to_string();
    let mut command = format!("schedcast undo --cgroup {}", quote_word(path));
    if journal != apply::JOURNALS {
        command += &format!(" --journal {}", quote_word(&journal));
    }
    command
}

/// Whether no group is at `path`. A look that fails does not show that.
fn is_gone(path: &str) -> bool {
    matches!(CpuCgroup::open(path), Err(HostError::UnknownCgroup { .. }))
}

/// The group that is meant where none is named: the only one with a journal that is still there.
fn only_changed(here: &[String], gone: &[String]) -> Result<String> {
    let told = || {
        let gone = gone.join(", ");
        format!("gone, and with them what was written: {gone}")
    };
    match here {
        [only] => Ok(only.clone()),
        [] if gone.is_empty() => Err(Error::general(
            "nothing was applied, so there is nothing to undo",
        )),
        [] => Err(
            Error::general(format!("the groups that were changed are {}", told()))
                .hint("`schedcast undo --cgroup PATH` forgets the journal of one"),
        ),
        several => {
            let error = Error::usage("several groups were changed");
            let names = several.join(", ");
            Err(error.hint(match gone.is_empty() {
                true => format!("name one with --cgroup: {names}"),
                false => format!("name one with --cgroup: {names}; others are {}", told()),
            }))
        }
    }
}

/// `schedcast undo`
pub(super) fn undo(arguments: &UndoArguments, out: &mut impl Write) -> Result<u8> {
    let changed = Journal::groups(&arguments.journal)?.into_iter();
    let (gone, here): (Vec<String>, Vec<String>) = changed.partition(|path| is_gone(path));
    let path = match target::on_host(&arguments.target)? {
        Some(group) => group.path,
        None => only_changed(&here, &gone)?,
    };
    let is_named = |gone: &&String| gone.trim_matches('/') == path.trim_matches('/');
    if let Some(gone) = gone.iter().find(is_named) {
        apply::forget(gone, &arguments.journal)?;
        let text =
            format!("{gone} is gone, and with it what was written; its journal is forgotten\n");
        written(out.write_all(text.as_bytes()))?;
        return Ok(0);
    }
    let group = CpuCgroup::open(&path)?;
    let undone = apply::undo(
        &group,
        &arguments.journal,
        arguments.force_limit,
        &mut |_| {},
    );
    let writes = undone.map_err(|error| {
        let is_foreign = matches!(error, HostError::SetByOther { .. });
        let error = Error::from(error);
        match is_foreign {
            true => error.hint("--force-limit takes it back all the same"),
            false => error,
        }
    })?;
    let mut text = lines(&group, &writes);
    text += &format!("{path} is as it was before the first apply\n");
    written(out.write_all(text.as_bytes()))?;
    Ok(0)
}
