//! Hardware-managed P-states: the kernel sets limits, the hardware does the rest.
//!
//! With `hwp_dynamic_boost` (servers, 4.18) the lower limit rises step by step while tasks wake
//! from I/O: half way to the base, the base, the maximum; after 3 ms without it falls back. Worked
//! example: limits 8 to 39, base 24: I/O wakeups at 0, 2 and 4 ms (HZ=250) leave the minimum at 8,
//! then raise it to (8 + 24) / 2 = 16, then to 24.

use super::{HwpRequest, PStates};
use crate::ids::Ns;

const HOLD_NS: Ns = 3_000_000;

/// State of one CPU in the HWP driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HwpCpu {
    /// Limits without boost.
    pub(crate) limits: HwpRequest,
    boost_min: Option<u32>,
    last_update_ns: Ns,
    last_io_ns: Option<Ns>,
    /// Another CPU woke a task here from I/O since this one was last called.
    io_from_elsewhere: bool,
}

impl HwpCpu {
    /// A CPU with these limits.
    pub(crate) fn new(limits: HwpRequest) -> Self {
        Self {
            limits,
            boost_min: None,
            last_update_ns: 0,
            last_io_ns: None,
            io_from_elsewhere: false,
        }
    }

    /// Another CPU wakes a task here from I/O: this one acts on it when it is called itself
    /// (`sched_flags`).
    pub(crate) fn note_io(&mut self) {
        self.io_from_elsewhere = true;
    }

    /// One call of the scheduler on this CPU (`intel_pstate_update_util_hwp_local`). Returns the
    /// request to be written, if it changes.
    pub(crate) fn update(
        &mut self,
        pstates: &PStates,
        now: Ns,
        iowait: bool,
        tick_ns: Ns,
    ) -> Option<HwpRequest> {
        if !std::mem::take(&mut self.io_from_elsewhere) && !iowait {
            return self.fall_back(now);
        }
        let again = self
            .last_io_ns
            .is_some_and(|last_ns| now < last_ns + 2 * tick_ns);
        self.last_io_ns = Some(now);
        if again {
            self.raise(pstates, now)
        } else {
            None
        }
    }

    fn raise(&mut self, pstates: &PStates, now: Ns) -> Option<HwpRequest> {
        let HwpRequest { min, max, .. } = self.limits;
        let current = self.boost_min.unwrap_or(min);
        if min == max || current >= max {
            return None;
        }
        let half_way = (pstates.base + min) / 2;
        let next = match current {
            low if low < half_way => half_way,
            low if low < pstates.base => pstates.base,
            low if low == pstates.base => max,
            _ => return None,
        };
        self.boost_min = Some(next);
        self.last_update_ns = now;
        Some(HwpRequest {
            min: next.min(max),
            ..self.limits
        })
    }

    fn fall_back(&mut self, now: Ns) -> Option<HwpRequest> {
        let expired = self.boost_min.is_some() && now > self.last_update_ns + HOLD_NS;
        self.last_update_ns = now;
        if !expired {
            return None;
        }
        self.boost_min = None;
        Some(self.limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PSTATES: PStates = PStates::new(8, 24, 39, 100_000);
    const REQUEST: HwpRequest = HwpRequest {
        min: 8,
        max: 39,
        preference: 128,
    };

    #[test]
    fn io_raises_the_minimum_in_steps_and_3_ms_drop_it() {
        let mut cpu = HwpCpu::new(REQUEST);
        let ms = 1_000_000;
        let mut step = |at_us: u64, iowait| {
            let request = cpu.update(&PSTATES, at_us * 1000, iowait, 4 * ms);
            request.map(|request| request.min)
        };
        assert_eq!(step(0, true), None);
        assert_eq!(step(2000, true), Some(16));
        assert_eq!(step(4000, true), Some(24));
        assert_eq!(step(6000, true), Some(39));
        assert_eq!(step(6500, true), None);
        assert_eq!(step(9001, false), Some(8));
        assert_eq!(step(9002, false), None);
        // Two ticks later a single I/O wakeup does nothing.
        assert_eq!(step(20_000, true), None);
    }

    #[test]
    fn io_wakeups_by_other_cpus_count_at_the_next_call() {
        let mut cpu = HwpCpu::new(REQUEST);
        let ms = 1_000_000;
        let mut minima = Vec::new();
        for at in [1, 3] {
            cpu.note_io();
            let request = cpu.update(&PSTATES, at * ms, false, 4 * ms);
            minima.push(request.map(|request| request.min));
        }
        assert_eq!(minima, [None, Some(16)]);
        assert_eq!(cpu.update(&PSTATES, 4 * ms, false, 4 * ms), None);
    }
}
