//! Loads of the past, up to 4.19 (`cpu_load[]`, LB_BIAS): a source of tasks is guessed low, a
//! destination high.
//!
//! `cpu_load[i]` follows the load at each tick by a 2⁻ⁱ share of the difference. Worked example:
//! `cpu_load[2]` of a CPU that gets a load of 1024 climbs 256, 448, 592 (rounding up).

use crate::ids::Cpu;
use crate::kernel::Kernel;

/// Ticks without load after which nothing is left, per index.
const ZERO_TICKS: [u64; 5] = [0, 8, 32, 64, 128];
/// (1 − 2⁻ⁱ) to the power of 2ʲ, in 128ths.
const DECAY: [[u64; 8]; 5] = [
    [0, 0, 0, 0, 0, 0, 0, 0],
    [64, 32, 8, 0, 0, 0, 0, 0],
    [96, 72, 40, 12, 1, 0, 0, 0],
    [112, 98, 75, 43, 15, 1, 0, 0],
    [120, 112, 98, 76, 45, 16, 2, 0],
];

/// Load after `missed` ticks without any (`decay_load_missed`).
fn decay_load_missed(mut load: u64, mut missed: u64, index: usize) -> u64 {
    if missed >= ZERO_TICKS[index] && missed > 0 {
        return 0;
    }
    if index == 1 {
        return load >> missed;
    }
    let mut power = 0;
    while missed > 0 {
        if missed % 2 == 1 {
            load = (load * DECAY[index][power]) >> 7;
        }
        missed >>= 1;
        power += 1;
    }
    load
}

/// `cpu_load_update`: `load` is the load now, `pending` the ticks since the last update.
pub(crate) fn update(loads: &mut [u64; 5], load: u64, pending: u64) {
    let tickless = loads[0];
    loads[0] = load;
    for (index, past) in loads.iter_mut().enumerate().skip(1) {
        let mut old = decay_load_missed(*past, pending - 1, index);
        if tickless > 0 {
            // While the tick was stopped the load was the one noted when it stopped.
            old = (old + tickless).saturating_sub(decay_load_missed(tickless, pending - 1, index));
        }
        let scale = 1u64 << index;
        let new = if load > old { load + scale - 1 } else { load };
        *past = (old * (scale - 1) + new) >> index;
    }
}

impl Kernel {
    /// Load of the queued entities of a CPU (`weighted_cpuload`, `cpu_runnable_load`): without what
    /// sleepers left behind.
    pub(crate) fn weighted_cpuload(&self, cpu: Cpu) -> u64 {
        let cfs_rq = &self.cfs_rqs[cpu];
        let running = cfs_rq.curr.filter(|&se| self.entities[se].on_rq);
        let queued = cfs_rq.timeline.nodes().iter().map(|node| node.entity);
        queued
            .chain(running)
            .map(|se| self.entities[se].avg.load_avg)
            .sum()
    }

    /// `target_load` for the local group and `source_load` for others.
    pub(crate) fn biased_load(&self, cpu: Cpu, index: u8, high: bool) -> u64 {
        let total = self.weighted_cpuload(cpu);
        if index == 0 || !self.rules.features.lb_bias {
            return total;
        }
        let past = self.domains.cpus[cpu].cpu_load[usize::from(index) - 1];
        if high {
            past.max(total)
        } else {
            past.min(total)
        }
    }

    /// `cpu_load_update_active`, at each tick.
    pub(crate) fn cpu_load_update_tick(&mut self, cpu: Cpu, jiffy: u64) {
        let load = self.weighted_cpuload(cpu);
        let view = &mut self.domains.cpus[cpu];
        update(&mut view.cpu_load, load, 1);
        view.cpu_load_jiffy = jiffy;
    }

    /// Accounts ticks that were left out (`cpu_load_update_nohz`).
    pub(crate) fn cpu_load_update_nohz(&mut self, cpu: Cpu, jiffy: u64, load: u64) {
        let view = &mut self.domains.cpus[cpu];
        let pending = jiffy.saturating_sub(view.cpu_load_jiffy);
        if pending > 0 {
            view.cpu_load_jiffy = jiffy;
            update(&mut view.cpu_load, load, pending);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_missed_ticks_leave_98_128ths_at_index_3() {
        // (7/8)^2 of 1280 is 980: 1280 * 98 / 128.
        assert_eq!(decay_load_missed(1280, 2, 3), 980);
    }

    #[test]
    fn loads_follow_by_a_power_of_two_share() {
        // Index 2: (0·3 + 1024 + 3) >> 2 = 256; (256·3 + 1027) >> 2 = 448; (448·3 + 1027) >>
        // 2 = 592.
        let mut loads = [0; 5];
        let mut second = Vec::new();
        for _ in 0..3 {
            update(&mut loads, 1024, 1);
            second.push(loads[2]);
        }
        assert_eq!(second, [256, 448, 592]);
        assert_eq!(loads[0], 1024);
        // Index 1 halves the difference: 512, 768, 896.
        assert_eq!(loads[1], 896);
    }

    #[test]
    fn missed_ticks_decay_without_load() {
        // Index 2 over 3 ticks, bits 0 and 1: 1000·96/128 = 750, 750·72/128 = 421.
        assert_eq!(decay_load_missed(1000, 3, 2), 421);
        assert_eq!(decay_load_missed(1000, 32, 2), 0);
        assert_eq!(decay_load_missed(1000, 3, 1), 125);
        assert_eq!(decay_load_missed(1000, 0, 4), 1000);
    }
}
