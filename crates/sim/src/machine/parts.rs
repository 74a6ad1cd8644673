//! Parts of a machine that not every description has: what SMT siblings take from each other,
//! clocks, idle states, power, migration and contended cache lines. A part that is missing is not
//! modelled and costs nothing.
//!
//! Worked example: a CPU of a core with two threads, `thread_speed_1000ths = [1000, 620]`, clock at
//! 1600 of nominal 3300 MHz. Alone it executes work at 1600 / 3300 = 0.485 of nominal speed; when
//! its sibling wakes, at 0.485 · 0.62 = 0.301.

mod frequency;

pub use frequency::{ClockDomain, ClockTable, Driver, Frequency, Governor, Hwp};
use schedcast_kernel::Ns;
use serde::Deserialize;

/// Speed of hardware threads that share a core.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Smt {
    /// Speed of each thread when 1, 2, … threads of the core execute, in thousandths of one alone.
    pub thread_speed_1000ths: Vec<u32>,
    /// Speed of the others while a thread polls in its idle loop, in percent of without.
    #[serde(default = "hundred")]
    #[cfg_attr(test, schemars(range(min = 1, max = 100)))]
    pub polling_sibling_speed_percent: u32,
}

/// Speed of cores that share a cache.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SharedCache {
    /// Speed of each core when 1, 2, … cores that share the cache execute, in thousandths of one
    /// alone; the last number holds for more of them, too.
    pub core_speed_1000ths: Vec<u32>,
}

/// Time that a task loses when it continues on another CPU.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Migration {
    /// Speed while caches are refilled, in percent.
    #[cfg_attr(test, schemars(range(min = 1, max = 99)))]
    pub cold_speed_percent: u32,
    /// Time a task loses that moved between threads of a core, if it runs long enough.
    pub same_core_refill_ns: Ns,
    /// Between cores of one last level cache.
    pub same_llc_refill_ns: Ns,
    /// Between last level caches of one node.
    pub other_llc_refill_ns: Ns,
    /// Between nodes.
    pub other_node_refill_ns: Ns,
}

/// State of a kernel that has run for long, which a freshly booted one does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct History {
    /// `newidle_ratio` of all domains: how many of 1024 newly idle balances are tried (NI_RANDOM);
    /// 512 at boot.
    #[cfg_attr(test, schemars(range(min = 0, max = 1024)))]
    pub newidle_ratio: u32,
}

/// Events that wake a CPU from an idle state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WakesBy {
    /// It spins on its flag word.
    Polling,
    /// A store to its flag word (MWAIT), or an interrupt.
    Monitor,
    /// An interrupt.
    Interrupt,
}

/// An idle state.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct IdleStatePart {
    /// Name in sysfs.
    pub name: String,
    /// Exit latency in the driver's table.
    pub exit_latency_ns: Ns,
    /// Target residency in the driver's table.
    pub target_residency_ns: Ns,
    /// Time it really takes to leave; the table's when missing.
    pub hardware_exit_ns: Option<Ns>,
    /// Time it takes to leave after so long in it, `[stay_ns, exit_ns]`, ascending; straight lines
    /// in between. A host polls for a halted guest at first, then runs something else, and its own
    /// idle states get deeper. Instead of `hardware_exit_ns`.
    #[serde(default)]
    pub exit_after_stay_ns: Vec<[Ns; 2]>,
    /// Percentage of the exit time that remains when the CPU's own timer ends the stay while
    /// another CPU executes: less of what both share is asleep. 100 when missing. An interrupt from
    /// another CPU always comes beside one that executes, which is how `exit_after_stay_ns` is
    /// measured.
    pub timer_exit_beside_busy_percent: Option<u32>,
    /// Events that wake the CPU.
    pub wakes_by: WakesBy,
    /// Power of a core all of whose threads are at least this deep.
    pub core_mw: Option<u64>,
    /// The same in percent of the power of an executing core, for states that spin.
    pub core_percent_of_active: Option<u64>,
    /// Power of the rest of the package when all its cores are at least this deep; that of the next
    /// shallower state when missing.
    pub uncore_mw: Option<u64>,
}

/// Idle states of the CPUs.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Idle {
    /// cpuidle governor.
    pub governor: IdleGovernor,
    /// Longest that haltpoll polls before a halt (`guest_halt_poll_ns`); 200 µs when missing.
    pub guest_halt_poll_ns: Option<Ns>,
    /// States, shallow to deep.
    pub state: Vec<IdleStatePart>,
}

/// cpuidle governors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum IdleGovernor {
    /// menu.
    Menu,
    /// teo.
    Teo,
    /// haltpoll.
    Haltpoll,
}

/// Power of an executing core at a clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ActivePower {
    /// The clock.
    pub mhz: u32,
    /// The power with one thread executing.
    pub core_mw: u64,
}

#[cfg(test)]
impl ActivePower {
    pub(crate) fn new(mhz: u32, core_mw: u64) -> Self {
        Self { mhz, core_mw }
    }
}

/// Power of a package.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// By clock, ascending; straight lines in between.
    pub active: Vec<ActivePower>,
    /// Power that each further executing thread of a core adds, in percent of the first.
    pub further_thread_percent: u64,
    /// Everything but the cores while any core is awake.
    pub uncore_mw: u64,
    /// Length of the intervals of which the highest power is reported.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub interval_ns: Ns,
}

/// How timer hardware's signals become interrupts; where virtual machines differ from hardware.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TimerInterrupt {
    /// From a timer's expiry to the first instruction of its interrupt's handler: quantiles at
    /// equal steps of probability from 0 to 1. The CPU executes nothing meanwhile.
    pub late_quantiles_ns: Vec<Ns>,
    /// How often an interrupt is as late as the CPU's one before, in percent; else it is drawn
    /// anew.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(min = 0, max = 100)))]
    pub late_kept_percent: u32,
}

/// Cache lines that many CPUs write.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Lines {
    /// From thread to thread of a core.
    pub same_core_transfer_ns: Ns,
    /// Within a last level cache.
    pub same_llc_transfer_ns: Ns,
    /// Between last level caches of one node.
    pub other_llc_transfer_ns: Ns,
    /// Between nodes.
    pub other_node_transfer_ns: Ns,
    /// How long a read of a line of which there are copies keeps others from it, in percent of its
    /// transfer.
    #[cfg_attr(test, schemars(range(min = 0, max = 100)))]
    pub read_service_percent: u32,
    /// The same for a write, and for the first read after one. A request that has to wait has
    /// reached the line's home when its turn comes, so that under contention only a part of a
    /// transfer keeps others from the line.
    #[serde(default = "hundred")]
    #[cfg_attr(test, schemars(range(min = 1, max = 100)))]
    pub write_service_percent: u32,
    /// `tg->load_avg` of every group.
    pub tg_load_avg: bool,
    /// Run queue locks taken by other CPUs.
    pub rq_lock: bool,
    /// Idle hints of last level caches.
    pub llc_idle_hints: bool,
    /// Words that tasks add to, such as the generator of IP identifications.
    #[serde(default)]
    pub words: bool,
}

fn hundred() -> u32 {
    100
}

fn check(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

impl Smt {
    pub(super) fn check(&self, threads: usize) -> Result<(), String> {
        let speeds = &self.thread_speed_1000ths;
        check(
            speeds.len() == threads && speeds.iter().all(|speed| (1..=1000).contains(speed)),
            || format!("smt.thread_speed_1000ths must have {threads} numbers from 1 to 1000"),
        )?;
        check(
            (1..=100).contains(&self.polling_sibling_speed_percent),
            || "smt.polling_sibling_speed_percent must be 1 to 100".to_owned(),
        )
    }
}

impl SharedCache {
    /// `most` is the largest number of cores that share one, `name` that of the section.
    pub(super) fn check(&self, name: &str, most: usize) -> Result<(), String> {
        let speeds = &self.core_speed_1000ths;
        let count = (1..=most).contains(&speeds.len());
        check(
            count && speeds.iter().all(|speed| (1..=1000).contains(speed)),
            || format!("{name}.core_speed_1000ths must have 1 to {most} numbers from 1 to 1000"),
        )
    }
}

impl Migration {
    pub(super) fn check(&self) -> Result<(), String> {
        check((1..=99).contains(&self.cold_speed_percent), || {
            "migration.cold_speed_percent must be 1 to 99".to_owned()
        })
    }

    /// Work a task executes at the cold speed so that it loses `refill_ns`, ns at nominal speed.
    pub(crate) fn cold_work_ns(&self, refill_ns: Ns) -> Ns {
        let cold = Ns::from(self.cold_speed_percent);
        refill_ns * cold / (100 - cold)
    }
}

impl History {
    pub(super) fn check(&self) -> Result<(), String> {
        check(self.newidle_ratio <= 1024, || {
            "history.newidle_ratio must be 0 to 1024".to_owned()
        })
    }
}

impl Idle {
    pub(super) fn check(&self) -> Result<(), String> {
        let states = &self.state;
        check((2..=10).contains(&states.len()), || {
            "idle.state must have 2 to 10 states".to_owned()
        })?;
        let ascending = |key: fn(&IdleStatePart) -> Ns| states.iter().map(key).is_sorted();
        check(
            ascending(|state| state.exit_latency_ns)
                && ascending(|state| state.target_residency_ns),
            || "idle.state must be ordered by exit_latency_ns and target_residency_ns".to_owned(),
        )?;
        let polling = |state: &IdleStatePart| state.wakes_by == WakesBy::Polling;
        check(!states[1..].iter().any(polling), || {
            "only the first idle.state can poll".to_owned()
        })?;
        let haltpoll = self.governor == IdleGovernor::Haltpoll;
        check(haltpoll || self.guest_halt_poll_ns.is_none(), || {
            "idle.guest_halt_poll_ns needs idle.governor = \"haltpoll\"".to_owned()
        })?;
        states.iter().try_for_each(IdleStatePart::check)
    }
}

impl IdleStatePart {
    fn check(&self) -> Result<(), String> {
        let name = &self.name;
        let stays = &self.exit_after_stay_ns;
        check(stays.is_sorted_by(|a, b| a[0] < b[0]), || {
            format!("idle.state {name}: exit_after_stay_ns must be ordered by its first numbers")
        })?;
        check(stays.is_empty() || self.hardware_exit_ns.is_none(), || {
            format!("idle.state {name}: hardware_exit_ns and exit_after_stay_ns exclude each other")
        })
    }

    /// Time it takes to leave after `stay_ns` in it.
    pub fn exit_ns(&self, stay_ns: Ns) -> Ns {
        let stays = &self.exit_after_stay_ns;
        let after = stays.partition_point(|&[stay, _]| stay <= stay_ns);
        match (after.checked_sub(1).map(|row| stays[row]), stays.get(after)) {
            (None, None) => self.hardware_exit_ns.unwrap_or(self.exit_latency_ns),
            (None, Some(&[_, exit])) | (Some([_, exit]), None) => exit,
            (Some([from, low]), Some(&[to, high])) => {
                let (done, whole) = (stay_ns - from, to - from);
                let share = |distance: Ns| {
                    (u128::from(distance) * u128::from(done) / u128::from(whole)) as Ns
                };
                if high >= low {
                    low + share(high - low)
                } else {
                    low - share(low - high)
                }
            }
        }
    }
}

impl Power {
    pub(super) fn check(&self, idle: Option<&Idle>) -> Result<(), String> {
        let ascending = self.active.is_sorted_by(|a, b| a.mhz < b.mhz);
        check(!self.active.is_empty() && ascending, || {
            "power.active must have entries, by ascending mhz".to_owned()
        })?;
        check(self.interval_ns > 0, || {
            "power.interval_ns must be above 0".to_owned()
        })?;
        let Some(idle) = idle else {
            return Err("power needs idle states: [idle]".to_owned());
        };
        for state in &idle.state {
            check(
                state.core_mw.is_some() != state.core_percent_of_active.is_some(),
                || {
                    format!(
                        "idle.state {} needs one of core_mw and core_percent_of_active for [power]",
                        state.name
                    )
                },
            )?;
        }
        Ok(())
    }

    /// Power of an executing core at a clock, µW.
    pub(crate) fn active_uw(&self, mhz: u32) -> u64 {
        let after = self.active.partition_point(|point| point.mhz <= mhz);
        let uw = |point: &ActivePower| point.core_mw * 1000;
        if after == 0 {
            return uw(&self.active[0]);
        }
        let low = &self.active[after - 1];
        let Some(high) = self.active.get(after) else {
            return uw(low);
        };
        let (from, to) = (uw(low), uw(high));
        let done = u64::from(mhz - low.mhz);
        let whole = u64::from(high.mhz - low.mhz);
        if to >= from {
            from + (to - from) * done / whole
        } else {
            from - (from - to) * done / whole
        }
    }
}

impl TimerInterrupt {
    pub(super) fn check(&self) -> Result<(), String> {
        let quantiles = &self.late_quantiles_ns;
        check(!quantiles.is_empty() && quantiles.is_sorted(), || {
            "timer_interrupt.late_quantiles_ns must have values, ascending".to_owned()
        })?;
        check(self.late_kept_percent <= 100, || {
            "timer_interrupt.late_kept_percent must be 0 to 100".to_owned()
        })
    }
}

impl Lines {
    pub(super) fn check(&self) -> Result<(), String> {
        check(self.read_service_percent <= 100, || {
            "lines.read_service_percent must be 0 to 100".to_owned()
        })?;
        check((1..=100).contains(&self.write_service_percent), || {
            "lines.write_service_percent must be 1 to 100".to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_between_two_clocks_is_on_a_straight_line() {
        let power = Power {
            active: vec![ActivePower::new(1000, 2000), ActivePower::new(3000, 7000)],
            further_thread_percent: 0,
            uncore_mw: 0,
            interval_ns: 1,
        };
        let watts: Vec<u64> = [800, 1000, 2000, 2500, 3000, 4000]
            .map(|mhz| power.active_uw(mhz) / 1000)
            .to_vec();
        assert_eq!(watts, [2000, 2000, 4500, 5750, 7000, 7000]);
    }

    #[test]
    fn leaving_a_state_takes_longer_after_a_longer_stay() {
        let mut state = IdleStatePart {
            name: "halt".to_owned(),
            exit_latency_ns: 1000,
            target_residency_ns: 1000,
            hardware_exit_ns: None,
            exit_after_stay_ns: vec![[20_000, 4000], [220_000, 14_000], [320_000, 12_000]],
            timer_exit_beside_busy_percent: None,
            wakes_by: WakesBy::Interrupt,
            core_mw: None,
            core_percent_of_active: None,
            uncore_mw: None,
        };
        let exits = [0, 20_000, 120_000, 220_000, 270_000, 320_000, Ns::MAX]
            .map(|stay| state.exit_ns(stay));
        assert_eq!(exits, [4000, 4000, 9000, 14_000, 13_000, 12_000, 12_000]);
        state.hardware_exit_ns = Some(7);
        assert!(state.check().unwrap_err().contains("exclude each other"));
        state.exit_after_stay_ns.clear();
        assert_eq!(state.exit_ns(20_000), 7);
    }

    #[test]
    fn a_refill_is_lost_by_working_at_the_cold_speed() {
        let migration = Migration {
            cold_speed_percent: 80,
            same_core_refill_ns: 0,
            same_llc_refill_ns: 0,
            other_llc_refill_ns: 0,
            other_node_refill_ns: 0,
        };
        // 40 us of work take 50 us at 80 %: 10 us are lost.
        assert_eq!(migration.cold_work_ns(10_000), 40_000);
    }
}
