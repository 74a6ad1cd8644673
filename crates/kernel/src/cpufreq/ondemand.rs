//! ondemand: the highest frequency above 95 % load, below it proportional to the load.
//!
//! Worked example: 800 to 4000 MHz, 50 % load: 800 + 50 · 3200 / 100 = 2400 MHz. After a long sleep
//! the load before it is used once more, so that a burst does not start at the bottom.

use super::PStates;
use crate::ids::Ns;

const UP_THRESHOLD_PERCENT: u64 = 95;

/// State of one CPU in ondemand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OndemandCpu {
    previous_ns: Ns,
    previous_idle_ns: Ns,
    previous_load: u64,
}

impl OndemandCpu {
    /// Load in percent since the last sample (`dbs_update`). `idle_ns` is all idle time so far.
    pub(crate) fn load(&mut self, now: Ns, idle_ns: Ns, sampling_ns: Ns) -> u64 {
        // The kernel counts in microseconds.
        let elapsed_us = now.saturating_sub(self.previous_ns) / 1000;
        let idle_us = idle_ns.saturating_sub(self.previous_idle_ns) / 1000;
        self.previous_ns = now;
        self.previous_idle_ns = idle_ns;
        if elapsed_us == 0 {
            return self.previous_load;
        }
        if idle_us > 2 * sampling_ns / 1000 && self.previous_load > 0 {
            return std::mem::take(&mut self.previous_load);
        }
        self.previous_load = 100 * elapsed_us.saturating_sub(idle_us) / elapsed_us;
        self.previous_load
    }
}

/// Sampling interval (`cpufreq_dbs_governor_init`).
pub(crate) fn sampling_ns(tick_ns: Ns, transition_delay_ns: Ns) -> Ns {
    (2 * tick_ns).max(transition_delay_ns)
}

/// P-state for a load in percent (`od_update`).
pub(crate) fn wanted_pstate(pstates: &PStates, load: u64) -> u32 {
    if load > UP_THRESHOLD_PERCENT {
        return pstates.turbo;
    }
    let (least, most) = (pstates.khz(pstates.min), pstates.khz(pstates.turbo));
    pstates.closest_khz(least + load * (most - least) / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PSTATES: PStates = PStates::new(8, 30, 40, 100_000);

    #[test]
    fn load_decides() {
        assert_eq!(wanted_pstate(&PSTATES, 50), 24);
        assert_eq!(wanted_pstate(&PSTATES, 95), 38);
        assert_eq!(wanted_pstate(&PSTATES, 96), 40);
        assert_eq!(wanted_pstate(&PSTATES, 0), 8);
    }

    #[test]
    fn a_long_sleep_reuses_the_load_before_once() {
        let ms = 1_000_000;
        let mut cpu = OndemandCpu::default();
        assert_eq!(cpu.load(8 * ms, 2 * ms, 8 * ms), 75);
        assert_eq!(cpu.load(108 * ms, 101 * ms, 8 * ms), 75);
        assert_eq!(cpu.load(208 * ms, 200 * ms, 8 * ms), 1);
    }
}
