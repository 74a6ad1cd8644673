//! Counters of the live kernel: `cpu.stat`, `schedstat` of a task, steal in `/proc/stat`.
//!
//! A group of two hogs on two CPUs under 50/100 ms shows, after ten periods,
//! `nr_periods 10`, `nr_throttled 10` and `throttled_time 1500000000`: each period both CPUs are held
//! for 75 ms, and throttled time adds up over CPUs. cgroup v1 counts nanoseconds
//! (`throttled_time`, `burst_time`), v2 microseconds (`throttled_usec`, `burst_usec`); here all is ns.

use std::path::Path;

use crate::error::{HostError, Result, read_text};

/// A group's `cpu.stat`, times in nanoseconds whatever the cgroup version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuStat {
    /// CPU time used by the group (v2 only; v1 keeps it in the cpuacct controller).
    pub usage_ns: Option<u64>,
    /// Part of it in user mode (v2 only).
    pub user_ns: Option<u64>,
    /// Part of it in the kernel (v2 only).
    pub system_ns: Option<u64>,
    /// Bandwidth periods that passed while the group was active.
    pub nr_periods: u64,
    /// Periods at whose end a CPU of the group was throttled.
    pub nr_throttled: u64,
    /// Time spent throttled, added up over CPUs.
    pub throttled_ns: u64,
    /// Periods that used burst (kernel 5.16 and later).
    pub nr_bursts: Option<u64>,
    /// Quota exceeded out of burst, added up (kernel 5.16 and later).
    pub burst_ns: Option<u64>,
    /// Keys that this crate has no field for, as the kernel printed them.
    pub other: Vec<(String, u64)>,
}

impl CpuStat {
    /// Reads the text of a `cpu.stat`, v1 or v2; `path` is for error messages.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let mut stat = Self::default();
        let mut has_bandwidth = false;
        for (index, line) in text.lines().enumerate() {
            let (key, value) = key_and_number(line).ok_or_else(|| HostError::Parse {
                path: path.to_owned(),
                line: index + 1,
                expected: "a counter's name and its value",
                found: line.to_owned(),
            })?;
            has_bandwidth |= key == "nr_periods";
            stat.set(key, value);
        }
        if !has_bandwidth {
            return Err(HostError::Parse {
                path: path.to_owned(),
                line: 0,
                expected: "a line nr_periods (is the cpu controller enabled for this group?)",
                found: text.lines().next().unwrap_or("").to_owned(),
            });
        }
        Ok(stat)
    }

    fn set(&mut self, key: &str, value: u64) {
        match key {
            "usage_usec" => self.usage_ns = Some(value * 1_000),
            "user_usec" => self.user_ns = Some(value * 1_000),
            "system_usec" => self.system_ns = Some(value * 1_000),
            "nr_periods" => self.nr_periods = value,
            "nr_throttled" => self.nr_throttled = value,
            "throttled_time" => self.throttled_ns = value,
            "throttled_usec" => self.throttled_ns = value * 1_000,
            "nr_bursts" => self.nr_bursts = Some(value),
            "burst_time" => self.burst_ns = Some(value),
            "burst_usec" => self.burst_ns = Some(value * 1_000),
            _ => self.other.push((key.to_owned(), value)),
        }
    }

    /// Counters since `earlier`. Counters that went backwards (a group made anew) count from 0.
    pub fn since(&self, earlier: &Self) -> Self {
        let option = |now: Option<u64>, then: Option<u64>| {
            now.map(|now| now.saturating_sub(then.unwrap_or(0)))
        };
        let then = |key: &str| {
            earlier
                .other
                .iter()
                .find(|(k, _)| k == key)
                .map(|(_, v)| *v)
        };
        Self {
            usage_ns: option(self.usage_ns, earlier.usage_ns),
            user_ns: option(self.user_ns, earlier.user_ns),
            system_ns: option(self.system_ns, earlier.system_ns),
            nr_periods: self.nr_periods.saturating_sub(earlier.nr_periods),
            nr_throttled: self.nr_throttled.saturating_sub(earlier.nr_throttled),
            throttled_ns: self.throttled_ns.saturating_sub(earlier.throttled_ns),
            nr_bursts: option(self.nr_bursts, earlier.nr_bursts),
            burst_ns: option(self.burst_ns, earlier.burst_ns),
            other: self
                .other
                .iter()
                .map(|(key, now)| (key.clone(), now.saturating_sub(then(key).unwrap_or(0))))
                .collect(),
        }
    }
}

fn key_and_number(line: &str) -> Option<(&str, u64)> {
    let (key, value) = line.split_once(' ')?;
    Some((key, value.trim().parse().ok()?))
}

/// CPU and waiting time of one task so far, from `/proc/PID/task/TID/schedstat` (in ns).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskTimes {
    /// Thread id.
    pub tid: i32,
    /// Its name.
    pub comm: String,
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// Time runnable but waiting for a CPU.
    pub wait_ns: u64,
    /// Times it was put on a CPU.
    pub timeslices: u64,
}

impl TaskTimes {
    /// Reads a live task's times; `None` when the task is gone.
    pub fn read(tid: i32) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
        let comm = std::fs::read_to_string(format!("/proc/{tid}/comm")).ok()?;
        let [cpu_ns, wait_ns, timeslices] = parse_schedstat(&text)?;
        Some(Self {
            tid,
            comm: comm.trim_end().to_owned(),
            cpu_ns,
            wait_ns,
            timeslices,
        })
    }
}

fn parse_schedstat(text: &str) -> Option<[u64; 3]> {
    let mut numbers = text.split_whitespace().map(|word| word.parse().ok());
    let triple = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(triple)
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
        Self::parse(&text).ok_or_else(|| HostError::Parse {
            path: path.to_owned(),
            line: 1,
            expected: "`cpu` and at least eight counters",
            found: text.lines().next().unwrap_or("").to_owned(),
        })
    }

    /// Reads the first line of `/proc/stat`: user nice system idle iowait irq softirq steal guest
    /// guest_nice. Guest time is part of user and nice already.
    pub fn parse(text: &str) -> Option<Self> {
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

    /// CPU time of all tasks, accounted exactly, ns: the counter of cgroup v1 for its root group. `/proc/stat` charges
    /// a whole tick to the task that runs at the time. Throttling and refills are in step with ticks, so two hogs with 15 ms
    /// in every 20 seemed to use a tenth more than they had. `None` without such a group.
    pub fn used_ns() -> Option<u64> {
        let text = std::fs::read_to_string("/sys/fs/cgroup/cpuacct/cpuacct.usage").ok()?;
        text.trim().parse().ok()
    }

    /// Share of the machine's time that was stolen since `earlier`, 0 … 1.
    pub fn steal_ratio_since(&self, earlier: &Self) -> f64 {
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

    fn parse(text: &str) -> Result<CpuStat> {
        CpuStat::parse(text, Path::new("cpu.stat"))
    }

    #[test]
    fn v1_counts_nanoseconds() {
        let stat = parse(
            "nr_periods 10\nnr_throttled 9\nthrottled_time 1500000000\nnr_bursts 2\nburst_time 7\n",
        )
        .unwrap();
        assert_eq!(stat.nr_periods, 10);
        assert_eq!(stat.nr_throttled, 9);
        assert_eq!(stat.throttled_ns, 1_500_000_000);
        assert_eq!(stat.nr_bursts, Some(2));
        assert_eq!(stat.burst_ns, Some(7));
        assert_eq!(stat.usage_ns, None);
    }

    #[test]
    fn v2_counts_microseconds_and_keeps_unknown_keys() {
        let stat = parse(
            "usage_usec 5\nuser_usec 3\nsystem_usec 2\nnice_usec 1\nnr_periods 4\n\
             nr_throttled 1\nthrottled_usec 20\nnr_bursts 0\nburst_usec 6\n",
        )
        .unwrap();
        assert_eq!(stat.usage_ns, Some(5_000));
        assert_eq!(stat.throttled_ns, 20_000);
        assert_eq!(stat.burst_ns, Some(6_000));
        assert_eq!(stat.other, [("nice_usec".to_owned(), 1)]);
    }

    #[test]
    fn kernels_before_burst_have_no_burst_counters() {
        let stat = parse("nr_periods 1\nnr_throttled 0\nthrottled_time 0\n").unwrap();
        assert_eq!(stat.nr_bursts, None);
    }

    #[test]
    fn bad_lines_are_refused_with_their_place() {
        let error = parse("nr_periods 1\nnr_throttled x\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cpu.stat:2: expected a counter's name and its value, found \"nr_throttled x\""
        );
        assert!(parse("usage_usec 1\n").is_err());
        assert!(parse("").is_err());
    }

    #[test]
    fn differences_are_per_counter() {
        let before = parse("nr_periods 3\nnr_throttled 1\nthrottled_time 10\nwait_sum 4\n");
        let after = parse("nr_periods 13\nnr_throttled 9\nthrottled_time 30\nwait_sum 9\n");
        let delta = after.unwrap().since(&before.unwrap());
        assert_eq!((delta.nr_periods, delta.nr_throttled), (10, 8));
        assert_eq!(delta.throttled_ns, 20);
        assert_eq!(delta.other, [("wait_sum".to_owned(), 5)]);
    }

    #[test]
    fn schedstat_is_three_numbers() {
        assert_eq!(
            parse_schedstat("1200688 92929 2\n"),
            Some([1_200_688, 92_929, 2])
        );
        assert_eq!(parse_schedstat("1 2\n"), None);
        assert_eq!(parse_schedstat("1 2 3 4\n"), None);
        assert_eq!(parse_schedstat("1 2 x\n"), None);
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
