//! The counters of a group's `cpu.stat`.
//!
//! A group of two hogs on two CPUs under 50/100 ms shows, after ten periods, `nr_periods 10`,
//! `nr_throttled 10` and `throttled_time 1500000000`: each period both CPUs are held for 75 ms, and
//! throttled time adds up over CPUs. Version 1 counts nanoseconds (`throttled_time`, `burst_time`),
//! version 2 microseconds (`throttled_usec`, `burst_usec`); here all is ns.

use std::convert::Infallible;

/// Every line that some kernel prints.
pub const NAMES: [&str; 13] = [
    "usage_usec",
    "user_usec",
    "system_usec",
    "nice_usec",
    "core_sched.force_idle_usec",
    "nr_periods",
    "nr_throttled",
    "throttled_usec",
    "throttled_time",
    "nr_bursts",
    "burst_usec",
    "burst_time",
    "wait_sum",
];

/// Why a line is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is no name, a blank and a whole number.
    NoCounter,
    /// No kernel prints this name.
    Unknown,
    /// The microseconds are no nanoseconds in 64 bits.
    TooLarge,
}

/// `cpu.stat` in ns, whichever interface it came from. What the file does not have is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStat {
    /// CPU time used.
    pub usage_ns: Option<u64>,
    /// Periods in which the group was active.
    pub nr_periods: Option<u64>,
    /// Periods in which it was throttled.
    pub nr_throttled: Option<u64>,
    /// Time its run queues were throttled, summed over CPUs.
    pub throttled_ns: Option<u64>,
    /// Periods in which it used more than its quota.
    pub nr_bursts: Option<u64>,
    /// Time it used beyond its quota.
    pub burst_ns: Option<u64>,
}

impl CpuStat {
    /// How much was counted since `before`; what either lacks is `None`. Counters never fall: where
    /// one did, the group is another one of that name, as after a restart, and all it counted it
    /// counted since.
    pub fn since(&self, before: &CpuStat) -> CpuStat {
        let anew = self.began_anew(before);
        let (was, is) = (before.counters(), self.counters());
        let grown = |row: usize| {
            let (was, is) = was[row].zip(is[row])?;
            Some(if anew { is } else { is - was })
        };
        let [
            usage_ns,
            nr_periods,
            nr_throttled,
            throttled_ns,
            nr_bursts,
            burst_ns,
        ] = std::array::from_fn(grown);
        CpuStat {
            usage_ns,
            nr_periods,
            nr_throttled,
            throttled_ns,
            nr_bursts,
            burst_ns,
        }
    }

    /// Whether a counter is smaller than it was in `before`.
    pub fn began_anew(&self, before: &CpuStat) -> bool {
        let mut pairs = before.counters().into_iter().zip(self.counters());
        pairs.any(|(was, is)| was.zip(is).is_some_and(|(was, is)| is < was))
    }

    /// All of them, in the order of the fields.
    fn counters(&self) -> [Option<u64>; 6] {
        [
            self.usage_ns,
            self.nr_periods,
            self.nr_throttled,
            self.throttled_ns,
            self.nr_bursts,
            self.burst_ns,
        ]
    }

    /// Reads the text of the file. A line that is not taken is given to `refused` with its index;
    /// what that returns as an error ends the reading.
    ///
    /// ```
    /// use schedcast_base::cpu_stat::CpuStat;
    /// let text = "nr_periods 10\nof_tomorrow 1\nthrottled_usec 1500\n";
    /// let stat = CpuStat::read(text, |_, _, why| Err(why));
    /// assert!(stat.is_err());
    /// assert_eq!(CpuStat::known(text).throttled_ns, Some(1_500_000));
    /// ```
    ///
    /// # Errors
    /// Those of `refused`.
    pub fn read<E>(
        text: &str,
        mut refused: impl FnMut(usize, &str, Refused) -> Result<(), E>,
    ) -> Result<CpuStat, E> {
        let mut stat = CpuStat::default();
        for (index, line) in text.lines().enumerate() {
            if let Err(why) = stat.take(line) {
                refused(index, line, why)?;
            }
        }
        Ok(stat)
    }

    /// Reads what is known in the text of the file, and leaves out all else.
    pub fn known(text: &str) -> CpuStat {
        CpuStat::read(text, |_, _, _| Ok::<(), Infallible>(())).unwrap_or_default()
    }

    fn take(&mut self, line: &str) -> Result<(), Refused> {
        let (name, value) = line.split_once(' ').ok_or(Refused::NoCounter)?;
        let value: u64 = value.trim().parse().map_err(|_| Refused::NoCounter)?;
        let (counter, unit_ns) = match name {
            "usage_usec" => (&mut self.usage_ns, 1000),
            "nr_periods" => (&mut self.nr_periods, 1),
            "nr_throttled" => (&mut self.nr_throttled, 1),
            "throttled_time" => (&mut self.throttled_ns, 1),
            "throttled_usec" => (&mut self.throttled_ns, 1000),
            "nr_bursts" => (&mut self.nr_bursts, 1),
            "burst_time" => (&mut self.burst_ns, 1),
            "burst_usec" => (&mut self.burst_ns, 1000),
            _ if NAMES.contains(&name) => return Ok(()),
            _ => return Err(Refused::Unknown),
        };
        *counter = Some(value.checked_mul(unit_ns).ok_or(Refused::TooLarge)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_count_in_nanoseconds() {
        let read = |text| CpuStat::read(text, |index, _, why| Err((index, why)));
        let v1 = read("throttled_time 1500\nburst_time 7\nwait_sum 3\n").unwrap();
        assert_eq!((v1.throttled_ns, v1.burst_ns), (Some(1_500), Some(7)));
        let v2 = read("usage_usec 5\nuser_usec 3\nthrottled_usec 20\n").unwrap();
        assert_eq!((v2.usage_ns, v2.throttled_ns), (Some(5_000), Some(20_000)));
        assert_eq!(v2.nr_periods, None);
        assert_eq!(read("nr_bursts 0\nnr_perids 1"), Err((1, Refused::Unknown)));
        assert_eq!(read("nr_periods x"), Err((0, Refused::NoCounter)));
        let large = format!("usage_usec {}", u64::MAX);
        assert_eq!(read(&large), Err((0, Refused::TooLarge)));
        assert_eq!(CpuStat::known(&large), CpuStat::default());
    }
}
