//! The part of a line before the event: task, CPU, flags, time.
//!
//! A task's name may hold anything but a zero byte, `-3 [001] ` included, so a line is not split at
//! its first dash. Each `-digits` is tried in turn, and the first one behind which CPU, flags and
//! time stand in their places is the pid. Names have at most 15 bytes, and the shortest run of all
//! these parts takes 16, so no name can imitate them.
//!
//! ```text
//! postgres-8687    [000] dNh2.  5371.828062: sched_waking: …    tracefs
//! postgres-8687    (  8687) [000] dNh2.  5371.828062: …         tracefs, option record-tgid
//! postgres-8687    [000]    5371.828062: …                      option irq-info off
//! pg: postgres-8687  [000]  5371.828061720: sched_waking:   …   trace-cmd report -t, of an instance `pg`
//! postgres-8687    0dNh2. 1230us+: sched_waking: …              option latency-format
//! ```

use super::cursor::{Cursor, Malformed};
use super::flags::{Layout, looks_like_flags};
use crate::event::{Context, Pid};

/// Header before the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) task: Pid,
    pub(super) cpu: u32,
    pub(super) context: Context,
    pub(super) time_ns: u64,
    /// True for `1230us`: counted from the first event.
    pub(super) time_is_relative: bool,
    /// Where the task's name ends, and where the event's name starts.
    pub(super) comm_end: usize,
    pub(super) event_start: usize,
}

const EXPECTED_TASK: &str = "an event line, `TASK-PID [CPU] FLAGS TIME: EVENT` (trace options raw, hex, bin and verbose must be off)";
const EXPECTED_TIME: &str = "a time in seconds with 6 to 9 decimals and a colon";
const EXPECTED_FLAGS: &str = "flags such as `d..2.`, or a time";
const EXPECTED_CLOCK: &str = "a time in seconds (clocks `counter`, `uptime` and `x86-tsc` do not count in time; record with `mono`)";

/// Splits a line. The error is that of the first dash which has a pid and a CPU behind it, if there
/// is one.
pub(super) fn parse(line: &[u8], layout: &Layout) -> Result<Header, Malformed> {
    let mut first_failure = None;
    for dash in memchr::memchr_iter(b'-', line) {
        match after_dash(line, dash, layout) {
            Some(Ok(header)) => return Ok(header),
            Some(Err(malformed)) => first_failure = first_failure.or(Some(malformed)),
            None => {}
        }
    }
    let text_start = line.iter().take_while(|byte| **byte == b' ').count();
    Err(first_failure.unwrap_or(Malformed::new(text_start, EXPECTED_TASK)))
}

/// Reads on behind one dash; `None` if this cannot be the dash before the pid.
fn after_dash(line: &[u8], dash: usize, layout: &Layout) -> Option<Result<Header, Malformed>> {
    let mut cursor = Cursor::new(line, dash + 1);
    let task: Pid = if cursor.take(b"-1 ") {
        cursor.at -= 1;
        -1
    } else {
        Pid::try_from(cursor.digits(EXPECTED_TASK).ok()?).ok()?
    };
    if cursor.spaces() == 0 {
        return None;
    }
    thread_group(&mut cursor);
    let cpu = if cursor.peek() == Some(b'[') {
        bracketed_cpu(&mut cursor)
    } else {
        Ok(bare_cpu(&mut cursor)?)
    };
    Some(cpu.and_then(|cpu| after_cpu(cursor, layout, Header::of(task, cpu, dash))))
}

impl Header {
    pub(super) fn of(task: Pid, cpu: u32, comm_end: usize) -> Header {
        let context = Context::UNKNOWN;
        Header {
            task,
            cpu,
            context,
            time_ns: 0,
            time_is_relative: false,
            comm_end,
            event_start: 0,
        }
    }
}

fn after_cpu(mut cursor: Cursor, layout: &Layout, header: Header) -> Result<Header, Malformed> {
    let context = context(&mut cursor, layout)?;
    let (time_ns, time_is_relative) = time(&mut cursor)?;
    cursor.spaces();
    Ok(Header {
        context,
        time_ns,
        time_is_relative,
        event_start: cursor.at,
        ..header
    })
}

/// Steps over `(  8687) ` or `(-------) `, if it stands here.
fn thread_group(cursor: &mut Cursor) {
    let mut ahead = *cursor;
    if !ahead.take(b"(") {
        return;
    }
    let length = ahead
        .rest()
        .iter()
        .take_while(|b| b.is_ascii_digit() || b" -".contains(b))
        .count();
    ahead.at += length;
    if length > 0 && ahead.take(b")") {
        ahead.spaces();
        *cursor = ahead;
    }
}

/// `[001] `, and the thread group behind it, where older kernels print it.
fn bracketed_cpu(cursor: &mut Cursor) -> Result<u32, Malformed> {
    cursor.expect(b"[", EXPECTED_TASK)?;
    let cpu = cursor.cpu()?;
    cursor.expect(b"]", "`]` behind the CPU number")?;
    if cursor.spaces() == 0 {
        return cursor.fail(EXPECTED_FLAGS);
    }
    thread_group(cursor);
    Ok(cpu)
}

/// The number of the latency format, which the flags follow at once; `None` if something else
/// stands here.
fn bare_cpu(cursor: &mut Cursor) -> Option<u32> {
    let cpu = cursor.cpu().ok()?;
    cursor.peek().filter(|byte| *byte != b' ').map(|_| cpu)
}

fn context(cursor: &mut Cursor, layout: &Layout) -> Result<Context, Malformed> {
    if cursor.peek().is_some_and(|byte| byte.is_ascii_digit()) {
        return Ok(Context::UNKNOWN);
    }
    let start = cursor.at;
    let flags = cursor.word();
    if !looks_like_flags(flags) {
        return Err(Malformed::new(start, EXPECTED_FLAGS));
    }
    let context = layout.decode(flags).map_err(|column| {
        Malformed::new(
            start + column,
            "a letter that ftrace has for this flag column",
        )
    })?;
    cursor.spaces();
    Ok(context)
}

/// `5371.828062:` or `1230us+:`, in ns.
pub(super) fn time(cursor: &mut Cursor) -> Result<(u64, bool), Malformed> {
    let start = *cursor;
    let whole = cursor.digits(EXPECTED_TIME)?;
    if cursor.take(b".") {
        let fraction_start = cursor.at;
        let fraction = cursor.digits(EXPECTED_TIME)?;
        let decimals = cursor.at - fraction_start;
        if !(6..=9).contains(&decimals) {
            return start.fail(EXPECTED_TIME);
        }
        cursor.expect(b":", EXPECTED_TIME)?;
        let fraction_ns = fraction * 10u64.pow(9 - decimals as u32);
        let time_ns = whole
            .checked_mul(1_000_000_000)
            .and_then(|ns| ns.checked_add(fraction_ns));
        return time_ns
            .map(|ns| (ns, false))
            .ok_or(Malformed::new(start.at, EXPECTED_TIME));
    }
    if cursor.take(b"us") {
        // One character marks a long delay to the next event, or is a space.
        cursor.at = (cursor.at + 1).min(cursor.text.len());
        cursor.expect(b":", "a colon behind the time")?;
        let time_ns = whole.checked_mul(1000);
        return time_ns
            .map(|ns| (ns, true))
            .ok_or(Malformed::new(start.at, EXPECTED_TIME));
    }
    start.fail(if cursor.peek() == Some(b':') {
        EXPECTED_CLOCK
    } else {
        EXPECTED_TIME
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Level;

    fn header(line: &str) -> Header {
        parse(line.as_bytes(), &Layout::default()).unwrap_or_else(|e| panic!("{line}: {e:?}"))
    }

    fn failure(line: &str) -> (usize, &'static str) {
        let malformed = parse(line.as_bytes(), &Layout::default()).unwrap_err();
        (malformed.offset, malformed.expected)
    }

    #[test]
    fn a_line_of_tracefs() {
        let line = "        postgres-8687    [000] dNh2.  5371.828062: sched_waking: comm=pgbench";
        let header = header(line);
        let found = (header.task, header.cpu, header.time_ns);
        assert_eq!(found, (8687, 0, 5_371_828_062_000));
        assert_eq!(header.context.level(), Some(Level::HardIrq));
        assert!(header.context.need_resched() && header.context.irqs_off());
        assert_eq!(&line[header.event_start..], "sched_waking: comm=pgbench");
        assert_eq!(line[..header.comm_end].trim_start(), "postgres");
    }

    #[test]
    fn spacing_and_columns_that_vary() {
        for line in [
            " a-7 [001] d..2 1.000000: e: x",
            "  a-7     (      9) [001] d..2. 1.000000: e: x",
            "  a-7     (-------) [001] d..2. 1.000000: e: x",
            "  a-7     [001] (-----) d..2. 1.000000: e: x",
            "  a-7     [001]     1.000000: e: x",
            "scfix:    a-7     [001]     1.000000000: e: x",
            "  a-7       1d..2. 1000000us : e: x",
            "  a-7       1d..2. 1000000us+: e: x",
            "  a-7       1d..2. 1.000000: e: x",
            "     <...>-7     [001] d...2.. 1.000000:    e: x",
            "  a-7 [001] d...2... 1.0000000: e: x",
        ] {
            let header = header(line);
            let found = (header.task, header.cpu, header.time_ns);
            assert_eq!(found, (7, 1, 1_000_000_000), "{line}");
            assert_eq!(&line[header.event_start..], "e: x");
        }
    }

    #[test]
    fn flags_are_known_only_where_they_stand() {
        assert!(!header(" a-7 [001]   1.000000: e: x").context.is_known());
        assert!(header(" a-7 [001] .... 1.000000: e: x").context.is_known());
        assert!(header(" a-7 1..... 1us : e: x").time_is_relative);
    }

    #[test]
    fn cpus_of_three_and_more_digits() {
        assert_eq!(header(" a-7 [1234] .... 1.000000: e: x").cpu, 1234);
        assert_eq!(header(" a-7 223d.h1. 1.000000: e: x").cpu, 223);
        assert_eq!(failure(" a-7 [99999] .... 1.000000: e: x").0, 6);
    }

    #[test]
    fn names_cannot_imitate_the_rest() {
        let comms = "a b|x-1 [002] |-3|a-1 [0] 1.0: e:|kworker/u8:0-x|a-2 (3) [0]||<...>";
        for comm in comms.split('|') {
            let line = format!("{comm:>16}-42      [003] d..2.   452.509344: e: x");
            assert_eq!((header(&line).task, header(&line).cpu), (42, 3), "{comm}");
        }
    }

    #[test]
    fn an_unknown_task_is_minus_one() {
        assert_eq!(header("  <...>--1     [000] d..2. 1.000000: e: x").task, -1);
    }

    #[test]
    fn the_largest_and_smallest_times() {
        assert_eq!(header(" a-7 [0] .... 0.000000: e: x").time_ns, 0);
        let largest = header(" a-7 [0] .... 18446744073.709551615: e: x");
        assert_eq!(largest.time_ns, u64::MAX);
        let larger = failure(" a-7 [0] .... 18446744073.709551616: e: x");
        assert_eq!(larger, (14, EXPECTED_TIME));
    }

    #[test]
    fn failures_point_at_the_place() {
        for (line, at, expected) in [
            ("", 0, EXPECTED_TASK),
            ("   hello", 3, EXPECTED_TASK),
            ("  a-7 [001] d..2. xyz", 18, EXPECTED_TIME),
            ("  a-7 [001] d..2. 1.5: e: x", 18, EXPECTED_TIME),
            ("  a-7 [001] d.!2. 1.000000: e: x", 12, EXPECTED_FLAGS),
            ("  a-7 [001] d..2. 66711: e: x", 18, EXPECTED_CLOCK),
        ] {
            assert_eq!(failure(line), (at, expected), "{line}");
        }
        assert_eq!(failure("  a-7 [001] d.q2. 1.000000: e: x").0, 14);
    }
}
