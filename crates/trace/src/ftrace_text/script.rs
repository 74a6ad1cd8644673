//! Lines of `perf script`, which say the same as ftrace's in another order.
//!
//! ```text
//!      postgres  8687 [000]  5371.836444:       sched:sched_waking: comm=pgbench pid=8679 prio=120 target_cpu=000
//!      postgres  8687/8687  [000]  5371.836444123:  1  sched:sched_waking: comm=pgbench …     -F +pid,+period --ns
//!          perf     0 [001]  5371.836450: PERF_RECORD_LOST lost 12                            --show-lost-events
//! ```
//!
//! A task's name may hold `[001]`, so each `[` is tried in turn; the first one with a task's number
//! before it and a CPU, a time and a colon behind it divides the line.

use super::cursor::{Cursor, Malformed};
use super::header::{self, Header};
use crate::event::Pid;

/// The line's header; `None` if it is no line of `perf script`.
pub(super) fn parse(line: &[u8]) -> Option<Result<Header, Malformed>> {
    memchr::memchr_iter(b'[', line).find_map(|bracket| at_bracket(line, bracket))
}

fn at_bracket(line: &[u8], bracket: usize) -> Option<Result<Header, Malformed>> {
    let (comm_end, task) = task_before(&line[..bracket])?;
    let mut cursor = Cursor::new(line, bracket + 1);
    let cpu = cursor.cpu().ok()?;
    if !cursor.take(b"]") || cursor.spaces() == 0 {
        return None;
    }
    if !cursor.peek()?.is_ascii_digit() {
        return None;
    }
    let time = header::time(&mut cursor);
    Some(time.map(|(time_ns, time_is_relative)| {
        cursor.spaces();
        skip_period(&mut cursor);
        Header {
            time_ns,
            time_is_relative,
            event_start: cursor.at,
            ..Header::of(task, cpu, comm_end)
        }
    }))
}

/// `NAME 8687 ` or `NAME 8686/8687 `: where the name ends, and the number of the thread.
fn task_before(text: &[u8]) -> Option<(usize, Pid)> {
    let text = text.strip_suffix(b" ")?.trim_ascii_end();
    let start = text.iter().rposition(|byte| *byte == b' ')? + 1;
    let number = &text[start..];
    let thread = match memchr::memrchr(b'/', number) {
        Some(slash) => {
            let process = &number[..slash];
            if process.is_empty() || !process.iter().all(|b| b.is_ascii_digit() || *b == b'-') {
                return None;
            }
            &number[slash + 1..]
        }
        None => number,
    };
    let mut cursor = Cursor::new(thread, 0);
    let task = cursor.fitting("a process id").ok()?;
    (cursor.rest().is_empty() && !thread.starts_with(b"0x")).then_some((start - 1, task))
}

/// Steps over the sampling period, a number of its own before the event.
fn skip_period(cursor: &mut Cursor) {
    let mut ahead = *cursor;
    if ahead.digits("a number").is_ok() && ahead.spaces() > 0 {
        *cursor = ahead;
    }
}

/// The event's name without its system, and where the colon behind it ends.
pub(super) fn event_name(text: &[u8]) -> Option<(&[u8], usize)> {
    let length = memchr::memchr(b' ', text).unwrap_or(text.len());
    let word = text[..length].strip_suffix(b":")?;
    let mut parts = word.split(|byte| *byte == b':');
    let first = parts.next()?;
    let name = parts.next().unwrap_or(first);
    (!name.is_empty()).then_some((name, length))
}

/// `PERF_RECORD_LOST lost 12`, in place of an event.
pub(super) fn lost(text: &[u8]) -> Option<u64> {
    let mut cursor = Cursor::new(text, 0);
    if !cursor.take(b"PERF_RECORD_LOST") {
        return None;
    }
    cursor.take(b"_SAMPLES");
    cursor.spaces();
    if !cursor.take(b"lost") {
        return None;
    }
    cursor.spaces();
    cursor.take(b"samples ");
    cursor.digits("a number").ok()
}

/// True for a caller in a call chain: spaces or tabs, then an address.
pub(super) fn is_caller(line: &[u8]) -> bool {
    let text = line.trim_ascii_start();
    let digits = text.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    text.len() < line.len() && digits >= 4 && text.get(digits).is_none_or(|byte| *byte == b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(line: &str) -> Header {
        parse(line.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn spellings_of_one_line() {
        for line in [
            "      a b  1395 [001] 14074.620115:  sched:sched_waking: comm=x",
            "      a b  1390/1395 [001] 14074.620115000:  sched:sched_waking: comm=x",
            "a b 1395 [001] 14074.620115:          1 sched:sched_waking: comm=x",
            " [0] 12 [ 1395 [001] 14074.620115: sched:sched_waking: comm=x",
        ] {
            let header = header(line);
            assert_eq!((header.task, header.cpu), (1395, 1), "{line}");
            assert_eq!(header.time_ns, 14_074_620_115_000, "{line}");
            let event = &line[header.event_start..];
            assert_eq!(event, "sched:sched_waking: comm=x");
            assert_eq!(
                event_name(event.as_bytes()),
                Some((&b"sched_waking"[..], 19))
            );
        }
    }

    #[test]
    fn a_task_that_has_gone_and_lines_of_ftrace() {
        assert_eq!(header(":-1    -1 [003] 1.000000: a:b: x").task, -1);
        for line in [
            "  a-7     [001] d..2. 1.000000: e: x",
            "  a-7 [001]   1.000000: e: x",
            "hello [1] world",
        ] {
            assert!(parse(line.as_bytes()).is_none(), "{line}");
        }
    }

    #[test]
    fn gaps_and_callers() {
        assert_eq!(lost(b"PERF_RECORD_LOST lost 12"), Some(12));
        assert_eq!(lost(b"PERF_RECORD_LOST_SAMPLES lost samples 3"), Some(3));
        assert_eq!(lost(b"PERF_RECORD_COMM: x"), None);
        assert!(is_caller(
            b"\tffffffff81a5b3c4 __schedule+0x2b4 ([kernel.kallsyms])"
        ));
        assert!(!is_caller(b"ffffffff81a5b3c4 __schedule"));
        assert!(!is_caller(b"  hello"));
    }
}
