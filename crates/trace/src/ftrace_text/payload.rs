//! The part of a line after the event's name: its fields.
//!
//! One event has up to five spellings:
//!
//! ```text
//! prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120    kernel
//! prev_comm=a prev_pid=0x1 (1) prev_prio=0x78 (120) prev_state=0x1 (1) next_comm=b …            option fields
//! prev_comm=a prev_pid=1 prev_prio=120 prev_state=1 next_comm=b next_pid=2 next_prio=120        trace-cmd -R
//! a:1 [120] S ==> b:2 [120]                                                                     trace-cmd
//! a:1 [120] S ==> b:2 [120] Latency: 93.920 usecs                                               trace-cmd -w
//! ```
//!
//! Names may contain spaces, `pid=7`, even ` ==> `. Every place where a name could end is tried
//! from the left, and the first one behind which the whole rest of the line fits is taken. A name
//! has at most 15 bytes, too few to hold a complete tail of its own, so the first fit is the right
//! one.

use super::cursor::{Cursor, Malformed};
use crate::event::{self, EventKind, Exec, Fork, Migrate, Pid, PrevState, Runtime, Switch};
use crate::tracepoint::Tracepoint;

/// A decoded event; names still point into the line.
pub(super) type Fields<'a> = EventKind<&'a [u8]>;
type Task<'a> = event::Task<&'a [u8]>;

/// Text that may follow the last field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// Nothing but fields that some kernels add and no reader needs.
    Known,
    /// Any further ` key=value`: a kernel newer than this code.
    Any,
}

type Parsed<T> = Result<T, Malformed>;

/// Decodes the fields that start at `at`. The flag is true if the line ends in fields this code
/// does not know.
pub(super) fn parse(known: Tracepoint, line: &[u8], at: usize) -> Parsed<(Fields<'_>, bool)> {
    let cursor = Cursor::new(line, at);
    let failure = match fields(known, cursor, Tail::Known) {
        Ok(fields) => return Ok((fields, false)),
        Err(failure) => failure,
    };
    if let Ok(fields) = plugin_fields(known, cursor) {
        return Ok((fields, false));
    }
    match fields(known, cursor, Tail::Any) {
        Ok(fields) => Ok((fields, true)),
        Err(_) => Err(failure),
    }
}

fn fields(known: Tracepoint, mut cursor: Cursor, tail: Tail) -> Parsed<Fields> {
    cursor.spaces();
    match known {
        Tracepoint::Switch => switch(cursor, tail),
        Tracepoint::Waking | Tracepoint::Wakeup | Tracepoint::WakeupNew => {
            wakeup(known, cursor, tail)
        }
        Tracepoint::Migrate => migrate(cursor, tail),
        Tracepoint::Fork => fork(cursor, tail),
        Tracepoint::Exec => exec(cursor, tail),
        Tracepoint::Exit => exit(cursor, tail),
        Tracepoint::Runtime => runtime(cursor, tail),
    }
}

/// Reads a name that ends where `separator` stands and `rest` fits behind it.
///
/// The error is that of the attempt which got furthest, or `missing` if the separator never comes.
fn name_then<'a, T>(
    cursor: Cursor<'a>,
    separator: &[u8],
    missing: &'static str,
    mut rest: impl FnMut(Cursor<'a>) -> Parsed<T>,
) -> Parsed<(&'a [u8], T)> {
    let mut worst = Malformed::new(cursor.at, missing);
    let mut from = cursor.at;
    while let Some(found) = memchr::memchr(separator[0], &cursor.text[from..]) {
        let end = from + found;
        from = end + 1;
        if !cursor.text[end..].starts_with(separator) {
            continue;
        }
        match rest(Cursor::new(cursor.text, end + separator.len())) {
            Ok(value) => return Ok((&cursor.text[cursor.at..end], value)),
            Err(failure) => worst = worst.deeper(failure),
        }
    }
    Err(worst)
}

/// ` prio=120`, then whatever follows a task.
fn pid_and_prio(cursor: &mut Cursor, prio_key: &[u8]) -> Parsed<(Pid, i32)> {
    let pid = cursor.fitting("a process id")?;
    cursor.expect(prio_key, "the task's priority, ` prio=`")?;
    Ok((pid, cursor.fitting("a priority")?))
}

fn switch(mut cursor: Cursor, tail: Tail) -> Parsed<Fields> {
    cursor.expect(b"prev_comm=", "`prev_comm=`")?;
    let missing = "the name of the task that leaves, then ` prev_pid=`";
    let (comm, (pid, prio, prev_state, next)) =
        name_then(cursor, b" prev_pid=", missing, |mut cursor| {
            let (pid, prio) = pid_and_prio(&mut cursor, b" prev_prio=")?;
            cursor.expect(b" prev_state=", "` prev_state=`")?;
            let state = prev_state(&mut cursor)?;
            cursor.take(b" ==>");
            cursor.expect(b" next_comm=", "` ==> next_comm=`")?;
            Ok((pid, prio, state, next_task(cursor, tail)?))
        })?;
    let prev = Task { comm, pid, prio };
    Ok(Fields::Switch(Switch {
        prev,
        prev_state,
        next,
    }))
}

fn next_task(cursor: Cursor, tail: Tail) -> Parsed<Task> {
    let missing = "the name of the task that comes, then ` next_pid=`";
    let (comm, (pid, prio)) = name_then(cursor, b" next_pid=", missing, |mut cursor| {
        let pid_prio = pid_and_prio(&mut cursor, b" next_prio=")?;
        end(cursor, tail)?;
        Ok(pid_prio)
    })?;
    Ok(Task { comm, pid, prio })
}

/// `S`, `R+`, `D|K`, or the number of a raw record.
fn prev_state(cursor: &mut Cursor) -> Parsed<PrevState> {
    let start = *cursor;
    let state = if cursor.peek().is_some_and(|byte| byte.is_ascii_digit()) {
        let bits = cursor.fitting("state bits")?;
        PrevState::from_bits(bits)
    } else {
        PrevState::from_text(cursor.word())
    };
    let expected = "a task state: R, R+, S, D, T, t, X, Z, P, I, or their bits up to 511 as kernels since 4.14 number them";
    state.map_or_else(|| start.fail(expected), Ok)
}

const MISSING_PID: &str = "the task's name, then ` pid=`";

fn wakeup(known: Tracepoint, mut cursor: Cursor, tail: Tail) -> Parsed<Fields> {
    cursor.expect(b"comm=", "`comm=`")?;
    let (comm, (pid, prio, target_cpu)) =
        name_then(cursor, b" pid=", MISSING_PID, |mut cursor| {
            let (pid, prio) = pid_and_prio(&mut cursor, b" prio=")?;
            // Old kernels tell whether the wakeup changed anything; newer ones write the event only
            // if it did.
            if cursor.take(b" success=") {
                cursor.number("0 or 1")?;
            }
            cursor.expect(b" target_cpu=", "` target_cpu=`")?;
            let target_cpu = cursor.cpu()?;
            end(cursor, tail)?;
            Ok((pid, prio, target_cpu))
        })?;
    Ok(known.woken(Task { comm, pid, prio }, target_cpu))
}

fn migrate(mut cursor: Cursor, tail: Tail) -> Parsed<Fields> {
    cursor.expect(b"comm=", "`comm=`")?;
    let (comm, (pid, prio, orig_cpu, dest_cpu)) =
        name_then(cursor, b" pid=", MISSING_PID, |mut cursor| {
            let (pid, prio) = pid_and_prio(&mut cursor, b" prio=")?;
            cursor.expect(b" orig_cpu=", "` orig_cpu=`")?;
            let orig_cpu = cursor.cpu()?;
            cursor.expect(b" dest_cpu=", "` dest_cpu=`")?;
            let dest_cpu = cursor.cpu()?;
            end(cursor, tail)?;
            Ok((pid, prio, orig_cpu, dest_cpu))
        })?;
    Ok(Fields::Migrate(Migrate {
        task: Task { comm, pid, prio },
        orig_cpu,
        dest_cpu,
    }))
}

fn fork(mut cursor: Cursor, tail: Tail) -> Parsed<Fields> {
    // Raw records name the fields as the kernel's structure does, the printed text shortens them.
    let separator: &[u8] = if cursor.take(b"parent_comm=") {
        b" parent_pid="
    } else {
        cursor.expect(b"comm=", "`comm=`")?;
        b" pid="
    };
    let (parent_comm, (parent_pid, (child_comm, child_pid))) =
        name_then(cursor, separator, MISSING_PID, |mut cursor| {
            let parent_pid = cursor.fitting("a process id")?;
            cursor.expect(b" child_comm=", "` child_comm=`")?;
            let missing = "the child's name, then ` child_pid=`";
            let child = name_then(cursor, b" child_pid=", missing, |mut cursor| {
                let child_pid = cursor.fitting("a process id")?;
                end(cursor, tail)?;
                Ok(child_pid)
            })?;
            Ok((parent_pid, child))
        })?;
    Ok(Fields::Fork(Fork {
        parent_comm,
        parent_pid,
        child_comm,
        child_pid,
    }))
}

fn exec(mut cursor: Cursor, tail: Tail) -> Parsed<Fields> {
    cursor.expect(b"filename=", "`filename=`")?;
    let missing = "the file's name, then ` pid=`";
    let (filename, (pid, old_pid)) = name_then(cursor, b" pid=", missing, |mut cursor| {
        let pid = cursor.fitting("a process id")?;
        cursor.expect(b" old_pid=", "` old_pid=`")?;
        let old_pid = cursor.fitting("a process id")?;
        end(cursor, tail)?;
        Ok((pid, old_pid))
    })?;
    Ok(Fields::Exec(Exec {
        filename,
        pid,
        old_pid,
    }))
}

fn exit(mut cursor: Cursor, tail: Tail) -> Parsed<Fields> {
    cursor.expect(b"comm=", "`comm=`")?;
    let (comm, (pid, prio)) = name_then(cursor, b" pid=", MISSING_PID, |mut cursor| {
        let pid_prio = pid_and_prio(&mut cursor, b" prio=")?;
        // Recent kernels say whether the whole process ends with this thread.
        if cursor.take(b" group_dead=") {
            cursor.word(); // `true`, `1`, `(1)` or `0x1 (1)`
            if cursor.rest().starts_with(b" (") {
                cursor.spaces();
                cursor.word();
            }
        }
        end(cursor, tail)?;
        Ok(pid_prio)
    })?;
    Ok(Fields::Exit(Task { comm, pid, prio }))
}

fn runtime(mut cursor: Cursor, tail: Tail) -> Parsed<Fields> {
    cursor.expect(b"comm=", "`comm=`")?;
    let (comm, (pid, runtime_ns)) = name_then(cursor, b" pid=", MISSING_PID, |mut cursor| {
        let pid = cursor.fitting("a process id")?;
        cursor.expect(b" runtime=", "` runtime=`")?;
        let runtime_ns: u64 = cursor.fitting("nanoseconds")?;
        cursor.take(b" [ns]");
        // Kernels before 6.8 add where the task stands.
        if cursor.take(b" vruntime=") {
            cursor.number("nanoseconds")?;
            cursor.take(b" [ns]");
        }
        end(cursor, tail)?;
        Ok((pid, runtime_ns))
    })?;
    Ok(Fields::Runtime(Runtime {
        comm,
        pid,
        runtime_ns: u32::try_from(runtime_ns).unwrap_or(u32::MAX),
    }))
}

/// The end of the line, or further ` key=value` fields where they are tolerated.
fn end(mut cursor: Cursor, tail: Tail) -> Parsed<()> {
    let mut ahead = cursor;
    ahead.spaces();
    if ahead.rest().is_empty() {
        return Ok(());
    }
    let extra = tail == Tail::Any && cursor.take(b" ") && {
        let key = cursor.word();
        let equals = memchr::memchr(b'=', key);
        equals.is_some_and(|at| {
            at > 0
                && key[..at]
                    .iter()
                    .all(|b| b.is_ascii_alphanumeric() || *b == b'_')
        })
    };
    if extra {
        Ok(())
    } else {
        ahead.fail("the end of the line")
    }
}

/// trace-cmd pads the event's name to this width before the fields of its plugins.
pub(super) const PLUGIN_COLUMN: usize = 22;

/// The spellings of trace-cmd's own `sched_switch` plugin, which also prints wakeups.
fn plugin_fields(known: Tracepoint, cursor: Cursor) -> Parsed<Fields> {
    match known {
        Tracepoint::Switch => plugin_switch(cursor),
        Tracepoint::Waking | Tracepoint::Wakeup | Tracepoint::WakeupNew => {
            plugin_wakeup(known, cursor)
        }
        _ => cursor.fail("`key=value` fields"),
    }
}

/// `a:1 [120] S ==> b:2 [120]`
fn plugin_switch(cursor: Cursor) -> Parsed<Fields> {
    let (comm, (pid, prio, prev_state, next)) =
        name_then(cursor, b":", "NAME:PID", |mut cursor| {
            let (pid, prio) = plugin_pid_and_prio(&mut cursor)?;
            cursor.expect(b" ", "a task state")?;
            let start = cursor;
            let state = PrevState::from_plugin_text(cursor.word())
                .map_or_else(|| start.fail("a task state"), Ok)?;
            cursor.expect(b" ==> ", "` ==> `")?;
            let (next_comm, (next_pid, next_prio)) =
                name_then(cursor, b":", "NAME:PID", |mut cursor| {
                    let pid_prio = plugin_pid_and_prio(&mut cursor)?;
                    if cursor.take(b" Latency: ") {
                        cursor.word();
                        cursor.expect(b" usecs", "` usecs`")?;
                    }
                    end(cursor, Tail::Known)?;
                    Ok(pid_prio)
                })?;
            let next = Task {
                comm: next_comm,
                pid: next_pid,
                prio: next_prio,
            };
            Ok((pid, prio, state, next))
        })?;
    Ok(Fields::Switch(Switch {
        prev: Task { comm, pid, prio },
        prev_state,
        next,
    }))
}

/// `a:1 [120] CPU:002`, or `a:1 [120] success=1 CPU:002` of old kernels.
fn plugin_wakeup(known: Tracepoint, cursor: Cursor) -> Parsed<Fields> {
    let (comm, (pid, prio, target_cpu)) = name_then(cursor, b":", "NAME:PID", |mut cursor| {
        let (pid, prio) = plugin_pid_and_prio(&mut cursor)?;
        if cursor.take(b" success=") {
            cursor.number("0 or 1")?;
        }
        cursor.expect(b" CPU:", "` CPU:`")?;
        let target_cpu = cursor.cpu()?;
        end(cursor, Tail::Known)?;
        Ok((pid, prio, target_cpu))
    })?;
    Ok(known.woken(Task { comm, pid, prio }, target_cpu))
}

fn plugin_pid_and_prio(cursor: &mut Cursor) -> Parsed<(Pid, i32)> {
    let pid = cursor.fitting("a process id")?;
    cursor.expect(b" [", "` [PRIO]`")?;
    let prio = cursor.fitting("a priority")?;
    cursor.expect(b"]", "`]`")?;
    Ok((pid, prio))
}

/// Decodes `ARRAY[61, 62, 00, …]`, the raw spelling of a name in some events; other names are given
/// back as they are.
pub(super) fn plain_name<'a>(name: &'a [u8], buffer: &'a mut [u8; 16]) -> &'a [u8] {
    match array_name(name, buffer) {
        Some(length) => &buffer[..length],
        None => name,
    }
}

fn array_name(name: &[u8], buffer: &mut [u8; 16]) -> Option<usize> {
    let list = name.strip_prefix(b"ARRAY[")?.strip_suffix(b"]")?;
    let mut length = 0;
    for item in list.split(|byte| *byte == b',') {
        let byte = u8::from_str_radix(std::str::from_utf8(item.trim_ascii()).ok()?, 16).ok()?;
        if byte == 0 {
            return Some(length);
        }
        *buffer.get_mut(length)? = byte;
        length += 1;
    }
    Some(length)
}

#[cfg(test)]
mod tests;
