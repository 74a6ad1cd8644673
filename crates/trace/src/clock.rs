//! Clocks of ftrace: which ones count in nanoseconds, and what a trace tells of its own.
//!
//! A trace of `x86-tsc` at 2.6 GHz, read as nanoseconds, would show everything 2.6 times as long.
//! So a clock that does not count in time is refused by its name, and where trace-cmd gives none
//! (it writes the clock of the machine's own buffer beside that of an instance) by the kernel's
//! statistics, which print a point only behind seconds:
//!
//! ```text
//! trace_clock   local global counter uptime perf [mono] mono_raw boot tai x86-tsc
//! stats         oldest event ts: 48591.920989      nanoseconds, printed as seconds
//!               oldest event ts: 126150902627033   cycles
//! ```

use crate::error::unknown_name;

schedcast_base::named! {
    /// A clock of ftrace that counts in time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum TraceClock {
        /// Fast, and not in step between CPUs.
        Local = "local",
        /// In step, slower.
        Global = "global",
        /// The clock of perf events.
        Perf = "perf",
        /// `CLOCK_MONOTONIC`.
        Mono = "mono",
        /// `CLOCK_MONOTONIC_RAW`.
        MonoRaw = "mono_raw",
        /// `CLOCK_BOOTTIME`.
        Boot = "boot",
        /// `CLOCK_TAI`.
        Tai = "tai",
    }
}

impl TraceClock {
    /// The clock that the text of a `trace_clock` file has in brackets; `None` if none is.
    ///
    /// # Errors
    /// One that does not count in nanoseconds.
    pub(crate) fn chosen(text: &str) -> Result<Option<TraceClock>, String> {
        let inside = text
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'));
        let Some((name, _)) = inside else {
            return Ok(None);
        };
        let is_other = ["counter", "uptime", "x86-tsc", "tsc2nsec"].contains(&name);
        match Self::named(name) {
            Some(clock) => Ok(Some(clock)),
            None if is_other => Err(format!(
                "the trace's clock `{name}` does not count in nanoseconds; {MONO}"
            )),
            None => {
                let unknown = unknown_name("trace clock", name, &Self::ALL.map(Self::name));
                Err(format!("{unknown}; {MONO}"))
            }
        }
    }
}

const MONO: &str = "record with the clock `mono`";

/// Refuses a clock that counts something else than time, by the kernel's `stats` of a CPU's buffer.
///
/// # Errors
/// A time without a point.
pub(crate) fn check_stats(stats: &str) -> Result<(), String> {
    let times = stats.lines().filter_map(|line| {
        let (key, value) = line.trim().split_once(':')?;
        ["oldest event ts", "now ts"]
            .contains(&key)
            .then(|| value.trim())
    });
    for time in times {
        let is_whole = !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit());
        if is_whole {
            return Err(format!(
                "the trace's clock does not count in nanoseconds (the buffer's statistics say `{time}`, not seconds); {MONO}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_count_in_time_are_known() {
        let file = "local global counter uptime perf [mono] mono_raw boot tai x86-tsc\n";
        assert_eq!(TraceClock::chosen(file), Ok(Some(TraceClock::Mono)));
        assert_eq!(TraceClock::chosen("mono"), Ok(None));
        for clock in TraceClock::ALL {
            let text = format!("[{}]", clock.name());
            assert_eq!(TraceClock::chosen(&text), Ok(Some(clock)));
        }
        for name in ["counter", "uptime", "x86-tsc", "tsc2nsec"] {
            let error = TraceClock::chosen(&format!("local [{name}]")).unwrap_err();
            assert!(error.contains(name) && error.contains("`mono`"), "{error}");
        }
        let error = TraceClock::chosen("[ppc-tb]").unwrap_err();
        assert!(error.contains("unknown trace clock `ppc-tb`"), "{error}");
    }

    /// As the kernel prints them for `mono` and for `x86-tsc`.
    #[test]
    fn statistics_tell_cycles_from_seconds() {
        let stats = |oldest: &str, now: &str| {
            format!(
                "entries: 3\noverrun: 0\nbytes: 400\noldest event ts: {oldest}\nnow ts: {now}\nread events: 9\n"
            )
        };
        assert_eq!(check_stats(&stats("48591.920989", "48592.000001")), Ok(()));
        assert_eq!(check_stats(&stats("    0.000000", "48592.000001")), Ok(()));
        let error = check_stats(&stats("126150902627033", "126151000000000")).unwrap_err();
        assert!(error.contains("`126150902627033`"), "{error}");
        assert_eq!(check_stats(""), Ok(()));
    }
}
