//! rt-app's log: one row for each round of a phase.
//!
//! ```text
//! #idx     perf      run   period           start             end          rel_st      slack c_duration   c_period     wu_lat
//!    0      833     9998   100061          100000          200061          100000      90002      10000     100000         61
//! ```
//!
//! A thread that runs 10 ms on a timer of 100 ms, second round: the timer's point was 90 002 µs
//! away when it was asked for (`slack`), and the thread ran again 61 µs after it (`wu_lat`), of
//! which `period` shows as much. `perf` counts thousands of loops. A row is written when its round
//! ends, so a round that the end of the run cuts short has none.

use std::fmt;

use super::ast::{Action, Phase};

/// Registers of a row, in this order: thread, thousands of loops, and in nanoseconds run time,
/// start, end, slack (two's complement), configured duration, configured period, wakeup latency.
pub(crate) const REGISTERS: u8 = 9;

/// The line that rt-app begins each log with.
pub const HEADER: &str = "#idx     perf      run   period           start             end          \
                          rel_st      slack c_duration   c_period     wu_lat";

/// A row of the log. Times are in microseconds, rounded as rt-app rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// `idx`: number of the thread.
    pub index: u64,
    /// `perf`: thousands of loops that its run events asked for.
    pub perf: u64,
    /// `run`: wall time spent in run and runtime events.
    pub run_us: u64,
    /// `period`: length of the round.
    pub period_us: u64,
    /// `start` of the round.
    pub start_us: u64,
    /// `end` of the round.
    pub end_us: u64,
    /// `rel_st`: start of the round after the start of the program.
    pub relative_start_us: u64,
    /// `slack`: time left when a timer was asked for; negative if it had passed.
    pub slack_us: i64,
    /// `c_duration`: sum of what run and runtime events say.
    pub configured_duration_us: u64,
    /// `c_period`: sum of what timers say.
    pub configured_period_us: u64,
    /// `wu_lat`: how late timers woke the thread.
    pub wakeup_latency_us: u64,
}

impl Row {
    /// Makes a row of the registers that a program hands to the log. `program_start_ns` is when the
    /// program was started. `None` unless there are [`REGISTERS`] of them.
    pub fn from_registers(registers: &[u64], program_start_ns: u64) -> Option<Self> {
        let [
            index,
            perf,
            run,
            start,
            end,
            slack,
            duration,
            period,
            latency,
        ] = *<&[u64; REGISTERS as usize]>::try_from(registers).ok()?;
        Some(Self {
            index,
            perf,
            run_us: microseconds(run),
            period_us: microseconds(end.saturating_sub(start)),
            start_us: microseconds(start),
            end_us: microseconds(end),
            relative_start_us: microseconds(start.saturating_sub(program_start_ns)),
            slack_us: signed_microseconds(slack.cast_signed()),
            configured_duration_us: microseconds(duration),
            configured_period_us: microseconds(period),
            wakeup_latency_us: microseconds(latency),
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:>4} {:>8} {:>8} {:>8} {:>15} {:>15} {:>15} {:>10} {:>10} {:>10} {:>10}",
            self.index,
            self.perf,
            self.run_us,
            self.period_us,
            self.start_us,
            self.end_us,
            self.relative_start_us,
            self.slack_us,
            self.configured_duration_us,
            self.configured_period_us,
            self.wakeup_latency_us
        )
    }
}

/// Columns that are known from the file alone.
pub(super) struct Configured {
    pub duration_us: u64,
    pub period_us: u64,
}

impl Configured {
    pub(super) fn of(phase: &Phase) -> Self {
        let mut configured = Self {
            duration_us: 0,
            period_us: 0,
        };
        for event in &phase.events {
            match &event.action {
                Action::Run(duration) | Action::Runtime(duration) => {
                    configured.duration_us += u64::from(*duration);
                }
                Action::Timer(timer) => configured.period_us += u64::from(timer.period_us),
                _ => {}
            }
        }
        configured
    }
}

fn microseconds(nanoseconds: u64) -> u64 {
    nanoseconds / 1000 + u64::from(nanoseconds % 1000 >= 500)
}

/// Halves are rounded away from zero.
fn signed_microseconds(nanoseconds: i64) -> i64 {
    let rounded = microseconds(nanoseconds.unsigned_abs()).cast_signed();
    if nanoseconds < 0 { -rounded } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_columns_of_rt_app() {
        let slack = (-1_500_i64).cast_unsigned();
        let registers = [
            7,
            833,
            9_998_400,
            100_000_000,
            200_061_000,
            slack,
            10_000_000,
            0,
            499,
        ];
        let row = Row::from_registers(&registers, 1_000_000).expect("nine registers");
        assert_eq!(
            row.to_string(),
            "   7      833     9998   100061          100000          200061           99000         \
             -2      10000          0          0"
        );
        assert_eq!(HEADER.len(), row.to_string().len());
        assert_eq!(Row::from_registers(&registers[1..], 0), None);
    }

    #[test]
    fn microseconds_are_rounded_half_away_from_zero() {
        assert_eq!([499, 500, 1499, 1500].map(microseconds), [0, 1, 1, 2]);
        assert_eq!(
            [-499, -500, -1500, 500].map(signed_microseconds),
            [0, -1, -2, 1]
        );
    }
}
