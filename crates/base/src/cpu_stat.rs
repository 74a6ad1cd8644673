//! The counters of a group's `cpu.stat`.
//!
//! A group of two hogs on two CPUs under 50/100 ms shows, after ten periods, `nr_periods 10`,
//! `nr_throttled 10` and `throttled_time 1500000000`: each period both CPUs are held for 75 ms, and
//! throttled time adds up over CPUs. Version 1 counts nanoseconds (`throttled_time`, `burst_time`),
//! version 2 microseconds (`throttled_usec`, `burst_usec`); here all is ns.

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

    /// Takes the counter `name` of a line of the file.
    ///
    /// # Errors
    /// A name that no kernel prints, and microseconds that are no nanoseconds in 64 bits.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), Refused> {
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

    fn of(lines: &[(&str, u64)]) -> CpuStat {
        let mut stat = CpuStat::default();
        for (name, value) in lines {
            stat.set(name, *value).unwrap();
        }
        stat
    }

    #[test]
    fn both_versions_count_in_nanoseconds() {
        let v1 = of(&[
            ("throttled_time", 1_500),
            ("burst_time", 7),
            ("wait_sum", 3),
        ]);
        assert_eq!((v1.throttled_ns, v1.burst_ns), (Some(1_500), Some(7)));
        let v2 = of(&[("usage_usec", 5), ("user_usec", 3), ("throttled_usec", 20)]);
        assert_eq!((v2.usage_ns, v2.throttled_ns), (Some(5_000), Some(20_000)));
        assert_eq!(v2.nr_periods, None);
        let mut stat = CpuStat::default();
        assert_eq!(stat.set("nr_perids", 1), Err(Refused::Unknown));
        assert_eq!(stat.set("usage_usec", u64::MAX), Err(Refused::TooLarge));
    }
}
