//! Counters of the live kernel: `cpu.stat`, `schedstat` of a task, steal in `/proc/stat`.
//!
//! Worked example: `/proc/TID/schedstat` with `1200688 92929 2` is a task that ran for 1.2 ms in
//! two activations and waited 0.09 ms for them.

use std::fmt::Display;
use std::path::Path;

use schedcast_base::cpu_stat::{CpuStat, Refused};

use crate::error::{Result, read_text, unexpected};

/// Reads the text of a group's `cpu.stat`, of either version; `path` is for error messages. Lines
/// that no kernel known here prints are left out.
pub(crate) fn read_cpu_stat(text: &str, path: &Path) -> Result<CpuStat> {
    let stat = CpuStat::read(text, |index, line, why| match why {
        Refused::Unknown => Ok(()),
        Refused::NoCounter | Refused::TooLarge => Err(unexpected(
            path,
            index + 1,
            "a counter's name and its value",
            line,
        )),
    })?;
    if stat.nr_periods.is_none() {
        return Err(unexpected(
            path,
            0,
            "a line nr_periods (is the cpu controller enabled for this group?)",
            text.lines().next().unwrap_or(""),
        ));
    }
    Ok(stat)
}

/// CPU time of a task so far in ns, the first number of its `schedstat`; `None` when it is gone.
pub(crate) fn cpu_ns_of(tid: impl Display) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Name of a task; `None` when it is gone.
pub(crate) fn comm_of(tid: u64) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/comm")).ok()?;
    Some(text.trim_end().to_owned())
}

/// Time since the start of a thread, in s, from `/proc/TID/stat`; `uptime_s` is that of the
/// machine. `None` when the thread is gone.
pub(crate) fn age_s(tid: u64, uptime_s: f64) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
    Some((uptime_s - started_s(&stat)?).max(0.0))
}

/// Start of a thread since the boot of the machine, in s: field 22 of its `stat`, in ticks of
/// `USER_HZ`. The name in field 2 may have blanks and parentheses.
fn started_s(stat: &str) -> Option<f64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let ticks: f64 = behind_name.split_whitespace().nth(19)?.parse().ok()?;
    Some(ticks / 100.0)
}

/// Time since the boot of the machine, in s.
pub(crate) fn uptime_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Time of all CPUs by kind, from the first line of `/proc/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTimes {
    /// All time, in ticks of `USER_HZ` (1/100 s), over all CPUs.
    pub total_ticks: u64,
    /// Time spent running anything: user, nice, system, irq and softirq.
    pub busy_ticks: u64,
    /// Time the hypervisor ran something else while a CPU of this guest wanted to run.
    pub steal_ticks: u64,
}

impl CpuTimes {
    /// Reads the machine's counters.
    pub fn read() -> Result<Self> {
        let path = Path::new("/proc/stat");
        let text = read_text(path)?;
        Self::parse(&text).ok_or_else(|| {
            unexpected(
                path,
                1,
                "`cpu` and at least eight counters",
                text.lines().next().unwrap_or(""),
            )
        })
    }

    /// Reads the first line of `/proc/stat`: user nice system idle iowait irq softirq steal guest
    /// guest_nice. Guest time is part of user and nice already.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.lines().next()?.split_whitespace();
        if words.next()? != "cpu" {
            return None;
        }
        let ticks: Vec<u64> = words.map(|w| w.parse().ok()).collect::<Option<_>>()?;
        Some(Self {
            total_ticks: ticks.get(..8)?.iter().sum(),
            busy_ticks: ticks[..3].iter().chain(&ticks[5..7]).sum(),
            steal_ticks: ticks[7],
        })
    }

    /// CPU time of all tasks, accounted exactly, ns: the counter of cgroup v1 for its root group.
    /// `/proc/stat` charges a whole tick to the task that runs at the time. Throttling and refills
    /// are in step with ticks, so two hogs with 15 ms in every 20 seemed to use a tenth more than
    /// they had. `None` without such a group.
    pub fn used_ns() -> Option<u64> {
        let text = std::fs::read_to_string("/sys/fs/cgroup/cpuacct/cpuacct.usage").ok()?;
        text.trim().parse().ok()
    }

    /// Share of the machine's time that was stolen since `earlier`, 0 … 1.
    pub(crate) fn steal_ratio_since(&self, earlier: &Self) -> f64 {
        let total = self.total_ticks.saturating_sub(earlier.total_ticks);
        let steal = self.steal_ticks.saturating_sub(earlier.steal_ticks);
        if total == 0 {
            0.0
        } else {
            steal as f64 / total as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_lines_are_refused_with_their_place_and_unknown_ones_left_out() {
        let read = |text: &str| read_cpu_stat(text, Path::new("cpu.stat"));
        let error = read("nr_periods 1\nnr_throttled x\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cpu.stat:2: expected a counter's name and its value, found \"nr_throttled x\""
        );
        assert!(read("usage_usec 1\n").is_err());
        assert!(read("").is_err());
        let stat = read("nr_periods 4\nof_tomorrow 1\nthrottled_usec 20\n").unwrap();
        assert_eq!(
            (stat.nr_periods, stat.throttled_ns),
            (Some(4), Some(20_000))
        );
        assert_eq!(stat.nr_bursts, None, "kernels before burst");
    }

    #[test]
    fn the_start_of_a_thread_is_field_22_whatever_its_name() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194624 91 0 0 0 3 4 0 0 20 0 5 0 1250 0 0\n";
        assert_eq!(started_s(stat), Some(12.5));
        assert_eq!(started_s("7 (a) S 1"), None);
        let own = u64::from(std::process::id());
        let age_s = age_s(own, uptime_s().unwrap()).unwrap();
        assert!(age_s < uptime_s().unwrap() + 1.0, "{age_s}");
    }

    #[test]
    fn steal_is_the_eighth_counter() {
        let before = CpuTimes::parse("cpu  10 0 10 70 0 0 0 10 0 0\ncpu0 1 1\n").unwrap();
        let after = CpuTimes::parse("cpu  60 0 10 90 0 0 5 35 9 9\n").unwrap();
        assert_eq!(before.total_ticks, 100);
        assert_eq!(after.total_ticks, 200);
        assert_eq!(after.busy_ticks, 75);
        assert_eq!(after.steal_ratio_since(&before), 0.25);
        assert_eq!(after.steal_ratio_since(&after), 0.0);
        assert_eq!(CpuTimes::parse("cpu0 1 2 3 4 5 6 7 8\n"), None);
        assert_eq!(CpuTimes::parse("cpu 1 2 3\n"), None);
    }
}
