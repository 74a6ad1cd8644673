//! The book: every page is in its table of contents, every link leads somewhere, every verb has a
//! page, and every transcript is what the command prints.
//!
//! A transcript is a fenced block marked `console`. A line `$ schedcast …` is run and what follows
//! is compared with standard output (behind `; echo $?` also with standard error and the exit
//! code); `$ cat FILE` shows a file of the repository to the byte. A line `…` stands for any lines.
//! Numbers may be off by a quarter, and spreads (`±`) by anything: the text around them says what
//! is large and what is small, and that must stay true when the model of a detail gets better.
//! Behind the prompt `#` are commands for root on a live machine: they run where the cpu controller
//! of cgroup v1 can be written, any number will do, and notes that the hypervisor took time or that
//! tracefs hides a CPU's idle task are no part of them: whether it is so is of that machine.
//! `make renew` writes today's numbers into the pages, apart from those of root, and all lines of a
//! transcript that leaves none out.

mod pages;
mod transcript;

use std::path::Path;
use std::process::Command;

use pages::{pages, read, root};
use transcript::{Numbers, Shown, alike, matched, output, transcripts};

/// Where root's transcripts make their groups.
const LIVE: &str = "/sys/fs/cgroup/cpu";

/// Whether a group can be made here.
fn is_live() -> bool {
    let group = format!("{LIVE}/schedcast-book-{}", std::process::id());
    let made = std::fs::create_dir(&group).is_ok();
    let live = made && Path::new(&group).join("cpu.cfs_quota_us").exists();
    if made {
        std::fs::remove_dir(&group).unwrap();
    }
    live
}

/// A page's commands see the experiment files that lie beside it.
fn link_examples(folder: &Path, directory: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path().canonicalize().unwrap();
        let link = directory.join(path.file_name().unwrap());
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
            && !link.exists()
        {
            std::os::unix::fs::symlink(&path, &link).unwrap();
        }
    }
}

/// Notes of a recording about the machine that it is of.
const OF_THE_MACHINE: [&str; 2] = [
    "note: the hypervisor took ",
    "note: the trace has no switches out of idle",
];

/// Output of a live command without the notes about the machine.
fn without_machine(printed: &str) -> String {
    let lines = printed.split_inclusive('\n');
    lines
        .filter(|line| !OF_THE_MACHINE.iter().any(|note| line.starts_with(note)))
        .collect()
}

/// Runs one command; its lines as they are today, or what is wrong.
fn renewed(shown: &Shown, directory: &Path, write: bool) -> Result<Vec<String>, String> {
    let mut printed = output(&shown.command, directory);
    if shown.live {
        printed = without_machine(&printed);
    }
    if write && !shown.lines.iter().any(|line| line == "…") {
        return Ok(printed.trim_end().lines().map(str::to_string).collect());
    }
    let today = matched(&shown.lines, &printed)
        .map_err(|line| format!("{}: no {line} in\n{printed}", shown.command))?;
    let exact = shown.command.starts_with("cat ");
    let numbers = match shown.live {
        true => Numbers::Any,
        false => Numbers::Near,
    };
    for (line, today) in shown.lines.iter().zip(&today) {
        if !write && line != today && (exact || !alike(line, today, numbers)) {
            return Err(format!("{}\n- {line}\n+ {today}", shown.command));
        }
    }
    Ok(today)
}

#[test]
fn transcripts_are_what_the_command_prints() {
    let temporary = tempfile::tempdir().unwrap();
    for folder in ["examples", "recordings"] {
        let target = root().join(folder).canonicalize().unwrap();
        std::os::unix::fs::symlink(target, temporary.path().join(folder)).unwrap();
    }
    let write = std::env::var_os("RENEW").is_some();
    let only = std::env::var("SCHEDCAST_BOOK_PAGE").unwrap_or_default();
    let live = is_live();
    if !live {
        eprintln!("skipped: transcripts of root, as no group can be made in {LIVE}");
    }
    let docs = root().join("docs");
    let mut complaints = Vec::new();
    let mut commands = 0;
    let mut pages = pages(&docs);
    pages.insert("../README.md".to_string());
    for page in pages.iter().filter(|page| page.contains(&only)) {
        link_examples(docs.join(page).parent().unwrap(), temporary.path());
        let text = read(&docs.join(page));
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        let mut renewals = Vec::new();
        for shown in transcripts(&text) {
            commands += 1;
            if shown.live && (!live || write) {
                continue;
            }
            match renewed(&shown, temporary.path(), write) {
                Ok(today) => renewals.push((shown.range, today)),
                Err(complaint) => complaints.push(format!("{page}: {complaint}")),
            }
        }
        // From the last one up: a transcript that is longer today moves what follows it.
        for (range, today) in renewals.into_iter().rev() {
            lines.splice(range, today);
        }
        if write {
            std::fs::write(docs.join(page), lines.join("\n") + "\n").unwrap();
        }
    }
    assert!(
        commands >= 30 || !only.is_empty(),
        "only {commands} commands are shown"
    );
    let advice = "if the new lines are right and the text still holds: make renew";
    assert!(complaints.is_empty(), "{}\n{advice}", complaints.join("\n"));
}

#[test]
fn notes_about_the_machine_are_no_part_of_a_transcript() {
    let quiet = "lost events: CPU 0: 0\nnext: schedcast what-if rec\n";
    let stolen = "lost events: CPU 0: 0\nnote: the hypervisor took 1.4 % of the machine's time\n\
                  note: the trace has no switches out of idle on CPU 1: …\nnext: schedcast what-if rec\n";
    assert_eq!(without_machine(stolen), quiet);
    let other = "note: the trace lacks 2 context switches\n";
    assert_eq!(without_machine(other), other);
}

/// The verbs of `schedcast --help`.
fn verbs() -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedcast"));
    let help = String::from_utf8(command.arg("--help").output().unwrap().stdout).unwrap();
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let lines = commands.lines().take_while(|line| !line.is_empty());
    // The text of a verb may go on in further lines, which are indented more.
    let first = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    first
        .map(|line| line.split_whitespace().next().unwrap().to_string())
        .collect()
}

/// Verbs that measure the machine for minutes, alone: their transcripts are not run.
const MEASURING: [&str; 2] = ["calibrate", "validate"];

#[test]
fn every_verb_has_a_page_with_a_transcript() {
    let verbs = verbs();
    assert!(verbs.len() >= 12, "{verbs:?}");
    for verb in verbs {
        let page = root().join(format!("docs/commands/{verb}.md"));
        let text = read(&page);
        let shown = transcripts(&text);
        let command = format!("schedcast {verb}");
        assert!(
            shown.iter().any(|one| one.command.starts_with(&command))
                || MEASURING.contains(&verb.as_str()) && text.contains(&command),
            "docs/commands/{verb}.md has no transcript of `{command}`"
        );
    }
}
