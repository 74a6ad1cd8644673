//! Faults at every system call: a command is killed before each, and each is made to fail in every
//! plausible way. What is left afterwards is the old state or the new one, or a journal leads back
//! to the old one; nothing hangs or panics.
//!
//! `make faults` runs all of it and writes the table of `docs/validity/faults.md`; `cargo test`
//! runs a sample.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

mod errors;
mod scenarios;
mod tracer;

use scenarios::{Room, Scenario, scenarios};
use tracer::{At, Call, Ending, Fault, Place, Run};

/// Time of the sample in `cargo test`; all verbs run side by side.
const SAMPLE: Duration = Duration::from_secs(6);
/// Runs of a verb that a sample has at least, however slow the machine.
const LEAST_RUNS: usize = 4;
const PAGE: &str = "docs/validity/faults.md";
/// Marks between which the page holds the table.
const MARKS: [&str; 2] = ["<!-- faults -->\n", "<!-- end -->\n"];

/// Results of the runs of one verb.
#[derive(Default)]
struct Row {
    calls: usize,
    runs: usize,
    findings: Vec<String>,
}

/// One run in order: the state before, the command with a fault, and what must hold then.
fn once(
    room: &Room,
    scenario: &Scenario,
    fault: Option<(Place, Fault)>,
) -> (Run, Result<(), String>) {
    (scenario.prepare)(room);
    let mut command = (scenario.command)(room);
    let run = tracer::run(&mut command, &room.folder, fault).unwrap();
    let judged = judge(&run, fault).and_then(|()| (scenario.check)(room, &run));
    (run, judged)
}

/// Checks that hold for every verb.
fn judge(run: &Run, fault: Option<(Place, Fault)>) -> Result<(), String> {
    let stderr = run.stderr.trim();
    if run.hung {
        return Err(format!("hung: {stderr}"));
    }
    if let Some(left) = run.left.first() {
        return Err(format!("left {left}"));
    }
    if stderr.contains("panicked") {
        return Err(format!("panicked: {stderr}"));
    }
    let struck = !run.calls.is_empty() && fault.is_some();
    match (run.ending, fault.filter(|_| struck)) {
        (Ending::Killed(signal), Some((_, Fault::Signal(sent)))) if signal == sent => Ok(()),
        (Ending::Killed(signal), _) => Err(format!("ended by signal {signal}: {stderr}")),
        (Ending::Exited(0), _) => Ok(()),
        (Ending::Exited(code), None) => Err(format!("ended with {code} without a fault: {stderr}")),
        (Ending::Exited(101), _) => Err(format!("ended with 101: {stderr}")),
        (Ending::Exited(code), Some((_, Fault::Fail(_) | Fault::Short))) => {
            let call = &run.calls[0];
            told(call, stderr).map_err(|why| format!("ended with {code} and {why}: {stderr:?}"))
        }
        (Ending::Exited(_), Some((_, Fault::Signal(_)))) => Ok(()),
    }
}

/// Whether the message is one and names what the call was about. A path in it may be a link, a
/// folder above, or told as it was typed.
fn told(call: &Call, stderr: &str) -> Result<(), &'static str> {
    // Of a terminal that is gone nothing can be told.
    if call.object.ends_with(tracer::STDERR) {
        return Ok(());
    }
    if !stderr.contains("error: ") && !stderr.contains("schedcast: ") {
        return Err("no message");
    }
    if call.object.ends_with(tracer::STDOUT) {
        return match stderr.contains("standard output") {
            true => Ok(()),
            false => Err("a message that does not name standard output"),
        };
    }
    let path = Path::new(&call.object);
    let named = path.ancestors().take(2).any(|part| {
        let name = part.file_name().unwrap_or(part.as_os_str());
        !name.is_empty() && stderr.contains(&*name.to_string_lossy())
    });
    // A file in the making takes the name of another.
    let making = call.object.contains("/.schedcast-");
    let own_program = stderr.contains("/proc/self/exe");
    let missing = ["no cgroup ", "cannot start "].map(|words| stderr.contains(words));
    match named || making || own_program || missing.contains(&true) || !call.object.starts_with('/')
    {
        true => Ok(()),
        false => Err("a message that does not name its object"),
    }
}

/// The faults that are tried: signals before each call that changes something and before the one
/// behind it, errors at each call. A signal between two calls that only look leaves what one before
/// the first of them does. Of the calls of one kind on objects that differ in digits only (`cpu0`,
/// `cpu1`) the first three fail.
fn plan(calls: &[Call], signals: &[i32]) -> Vec<(Place, Fault)> {
    let mut plan = Vec::new();
    let mut seen: HashMap<(usize, i64, String), usize> = HashMap::new();
    // Of the task before: whether it has changed something since it was last struck.
    let mut changed: HashMap<usize, bool> = HashMap::new();
    for call in calls {
        let changes = errors::changes(call.number, call.length);
        let behind = changed.insert(call.at.task, changes).unwrap_or(true);
        if changes || behind {
            let strike = |signal: &i32| (Place::At(call.at), Fault::Signal(*signal));
            plan.extend(signals.iter().map(strike));
        }
        let kind = call
            .object
            .replace(|letter: char| letter.is_ascii_digit(), "#");
        let times = seen.entry((call.at.task, call.number, kind)).or_default();
        *times += 1;
        if *times > 3 {
            continue;
        }
        let Some(known) = errors::known(call.number) else {
            continue;
        };
        // No file system has something left to do when a directory is closed, so that cannot fail.
        if call.closes_a_folder {
            continue;
        }
        let fail = |errno: &i32| (Place::At(call.at), Fault::Fail(*errno));
        plan.extend(known.errors.iter().map(fail));
        // A pipe takes so much whole or not at all (POSIX, `write`).
        let whole = call.object.starts_with("pipe:") && call.length <= libc::PIPE_BUF as u64;
        if call.number == libc::SYS_write && call.length > 1 && !whole {
            plan.push((Place::At(call.at), Fault::Short));
        }
    }
    plan
}

/// Where a fault struck, for the reader.
fn shown(scenario: &Scenario, fault: Fault, run: &Run) -> String {
    let fault = match fault {
        Fault::Signal(signal) => format!("signal {signal}"),
        Fault::Fail(errno) => errors::name(errno),
        Fault::Short => "half written".to_owned(),
    };
    let place = run.calls.first().map(|call| {
        let At { task, call: index } = call.at;
        format!("call {index} of task {task}, {}", call.shown())
    });
    let place = place.unwrap_or("a call that was not reached".to_owned());
    format!("{}: {fault} at {place}", scenario.verb)
}

/// The run without a fault; why there is none, where other groups have all real-time budget.
fn undisturbed(scenario: &Scenario, room: &Room) -> Result<Run, String> {
    let (run, judged) = once(room, scenario, None);
    let Err(why) = judged else {
        return Ok(run);
    };
    let verb = scenario.verb;
    let is_known = why.contains("cpu.rt_runtime_us");
    assert!(is_known, "{verb} without a fault: {why}");
    Err(why)
}

/// A sample takes every n-th fault, so that it is over in time.
fn torture(scenario: &Scenario, room: &Room, sample: Option<Duration>) -> Result<Row, String> {
    let began = Instant::now();
    let run = undisturbed(scenario, room)?;
    let one_run = began.elapsed();
    let plan = plan(&run.calls, &scenario.signals);
    let mut row = Row {
        calls: run.calls.len(),
        ..Row::default()
    };
    let step = sample.map_or(1, |time| {
        let affordable = time.as_millis() / one_run.as_millis().max(1);
        // Odd, so that it is not in step with the number of errors of a call.
        plan.len()
            .div_ceil(affordable.max(LEAST_RUNS as u128) as usize)
            | 1
    });
    for fault in plan.into_iter().step_by(step) {
        if row.runs >= LEAST_RUNS && sample.is_some_and(|time| began.elapsed() > time) {
            break;
        }
        let (run, mut judged) = once(room, scenario, Some(fault));
        row.runs += 1;
        if run.hung {
            // The machine may have been busy.
            judged = once(room, scenario, Some(fault)).1;
        }
        if let Err(why) = judged {
            let finding = format!("{}: {why}", shown(scenario, fault.1, &run));
            eprintln!("{finding}");
            row.findings.push(finding);
        }
    }
    Ok(row)
}

/// The result of `body` in a room of its own, on a thread in a mount namespace of its own; why not
/// otherwise.
fn in_a_room<T: Send>(
    scenario: &Scenario,
    body: impl FnOnce(&Room) -> T + Send,
) -> Result<T, String> {
    // `run --on host` takes all real-time budget there is, so only one can run at a time.
    static BUDGET: Mutex<()> = Mutex::new(());
    let takes_it = scenario.verb.contains("--on host");
    let _turn = takes_it.then(|| BUDGET.lock().unwrap_or_else(PoisonError::into_inner));
    let alone = || {
        tracer::own_mounts().map_err(|error| format!("no mount namespace of our own: {error}"))?;
        let room = Room::new(scenario.needs_group)?;
        Ok(body(&room))
    };
    std::thread::scope(|scope| scope.spawn(alone).join().unwrap())
}

/// All scenarios whose verb contains `FAULTS_ONLY`, side by side, without those that cannot run
/// here.
fn all(sample: Option<Duration>) -> Vec<(&'static str, Row)> {
    let only = std::env::var("FAULTS_ONLY").unwrap_or_default();
    let mut chosen = scenarios();
    chosen.retain(|scenario| scenario.verb.contains(&only));
    let one = |scenario: &Scenario| {
        let row = in_a_room(scenario, |room| torture(scenario, room, sample));
        match row.and_then(|row| row) {
            Ok(row) => {
                let (verb, calls, runs) = (scenario.verb, row.calls, row.runs);
                let findings = row.findings.len();
                eprintln!("{verb}: {calls} calls, {runs} runs, {findings} findings");
                Some((verb, row))
            }
            Err(why) => {
                eprintln!("skipped {}: {why}", scenario.verb);
                None
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = chosen.iter().map(|it| scope.spawn(|| one(it))).collect();
        let rows = threads
            .into_iter()
            .filter_map(|thread| thread.join().unwrap());
        rows.collect()
    })
}

fn refuse_findings(rows: &[(&str, Row)]) {
    let findings: Vec<&String> = rows.iter().flat_map(|(_, row)| &row.findings).collect();
    assert!(findings.is_empty(), "{findings:#?}");
}

/// A fault at each call of `verb` that is meant has no findings. At least one call must be.
fn strike(verb: &'static str, fault: Fault, is_meant: fn(&Call) -> bool) {
    let all = scenarios();
    let scenario = all.iter().find(|scenario| scenario.verb == verb).unwrap();
    let findings = in_a_room(scenario, |room| {
        let run = undisturbed(scenario, room)?;
        let meant = run.calls.iter().filter(|call| is_meant(call)).count();
        assert!(meant > 0, "{verb} makes no such call");
        let strikes = (0..meant).filter_map(|index| {
            let place = Place::Meant(is_meant, index);
            let (run, judged) = once(room, scenario, Some((place, fault)));
            let why = judged.err()?;
            Some(format!("{}: {why}", shown(scenario, fault, &run)))
        });
        Ok(strikes.collect::<Vec<_>>())
    });
    match findings.and_then(|found| found) {
        Ok(findings) => assert_eq!(findings, [""; 0]),
        Err(why) => eprintln!("skipped {verb}: {why}"),
    }
}

fn starts_a_thread(call: &Call) -> bool {
    matches!(call.number, libc::SYS_clone | libc::SYS_clone3)
}

#[test]
fn a_thread_that_cannot_be_started_is_a_message_and_no_panic() {
    for verb in "sweep|run --json --report --trace|run --on host|serve".split('|') {
        strike(verb, Fault::Fail(libc::EAGAIN), starts_a_thread);
    }
}

#[test]
fn a_recorder_killed_while_it_makes_its_trace_buffer_leaves_nothing() {
    strike("record", Fault::Signal(libc::SIGKILL), |call| {
        let is_instance = call.object.contains("instances/");
        call.number == libc::SYS_mkdir && is_instance || starts_a_thread(call)
    });
}

#[test]
fn a_command_killed_before_its_exec_is_an_error_and_no_hang() {
    strike("run --on host", Fault::Signal(libc::SIGKILL), |call| {
        call.number == libc::SYS_setpgid
    });
}

#[test]
fn buffers_that_cannot_be_listed_make_no_recording() {
    for error in [libc::EIO, libc::ENOENT] {
        strike("record", Fault::Fail(error), |call| {
            call.number == libc::SYS_getdents64 && call.object.ends_with("/per_cpu")
        });
    }
}

#[test]
fn a_period_that_is_gone_leaves_a_recording_that_can_be_read() {
    strike("record", Fault::Fail(libc::ENOENT), |call| {
        call.number == libc::SYS_openat && call.object.ends_with("/cpu.cfs_period_us")
    });
}

#[test]
fn a_file_in_the_making_goes_with_an_error_behind_its_making() {
    let verb = "run --json --report --trace";
    strike(verb, Fault::Fail(libc::EIO), |call| {
        call.number == libc::SYS_statx && call.object.contains("/.schedcast-")
    });
}

#[test]
fn an_apply_that_cannot_print_tells_how_to_undo_it() {
    strike("apply", Fault::Fail(libc::ENOSPC), |call| {
        call.number == libc::SYS_write && call.object.ends_with(tracer::STDOUT)
    });
}

#[test]
fn a_sample_of_faults_leaves_the_old_state_or_the_new() {
    refuse_findings(&all(Some(SAMPLE)));
}

#[test]
#[ignore = "minutes: make faults"]
fn every_fault_leaves_the_old_state_or_the_new() {
    let rows = all(None);
    if !rows.is_empty() {
        write_page(&rows);
    }
    refuse_findings(&rows);
}

/// Puts the rows into the table of the page; those of other commands stay.
fn write_page(rows: &[(&str, Row)]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = root.join(PAGE);
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(MARKS[0]).unwrap();
    let (old, after) = rest.split_once(MARKS[1]).unwrap();
    let line = |name: &str, of: [usize; 3]| {
        let [calls, runs, findings] = of;
        format!("| {name} | {calls} | {runs} | {findings} |\n")
    };
    let mut table =
        "\n| command | system calls | runs | findings |\n|---|---:|---:|---:|\n".to_owned();
    let mut sum = [0; 3];
    for scenario in scenarios() {
        let name = format!("`{}`", scenario.verb);
        let new = rows.iter().find(|(verb, _)| *verb == scenario.verb);
        let new = new.map(|(_, row)| [row.calls, row.runs, row.findings.len()]);
        let known = || {
            let line = old
                .lines()
                .find(|line| line.starts_with(&format!("| {name} |")))?;
            let mut cells = line.split('|').skip(2).map(|cell| cell.trim().parse().ok());
            Some([cells.next()??, cells.next()??, cells.next()??])
        };
        if let Some(of) = new.or_else(known) {
            table += &line(&name, of);
            sum = std::array::from_fn(|index| sum[index] + of[index]);
        }
    }
    table += &line("together", sum);
    let text = format!("{before}{}{table}\n{}{after}", MARKS[0], MARKS[1]);
    std::fs::write(page, text).unwrap();
}
