//! High-resolution timers of every CPU (`hrtimer_cpu_base`).
//!
//! A timer has a soft expiry, from which on it may run, and a hard one, for which the hardware is
//! programmed. The difference is the slack. Worked example: a `nanosleep` of 100 µs with the default
//! slack is programmed for 150 µs; if another timer of the same CPU interrupts at 120 µs, the sleeper
//! is woken by that interrupt.
//!
//! Timers of one CPU are kept in the order of their hard expiry, the first at the end of a vector: a
//! CPU has few, so moving some entries is cheaper than a tree.

use schedcast_kernel::table::Table;
use schedcast_kernel::{Cpu, Ns};

/// Number of a timer: fixed ones of groups first, then one per task row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerId(pub u32);

/// An armed timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Armed {
    /// Expiry the hardware is programmed for.
    pub hard: Ns,
    /// Earliest time it may run.
    pub soft: Ns,
    /// Which one.
    pub timer: TimerId,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    cpu: u32,
    hard: Ns,
}

const NOT_ARMED: u32 = u32::MAX;

/// All timers of all CPUs, ticks excepted.
#[derive(Clone, Debug)]
pub struct Timers {
    bases: Table<Vec<Armed>>,
    places: Table<Place>,
}

impl Timers {
    /// No timers on `cpus` CPUs.
    pub fn new(cpus: usize) -> Self {
        Self {
            bases: vec![Vec::new(); cpus].into(),
            places: Table::new(),
        }
    }

    /// Makes timers `0..count` known.
    pub fn grow(&mut self, count: usize) {
        let place = Place {
            cpu: NOT_ARMED,
            hard: 0,
        };
        self.places.grow(count, place);
    }

    /// Arms a timer that is not armed; among equal hard expiries it runs last.
    #[inline]
    pub fn arm(&mut self, cpu: Cpu, armed: Armed) {
        self.places[armed.timer.0 as usize] = Place {
            cpu: cpu.0,
            hard: armed.hard,
        };
        let base = &mut self.bases[cpu.index()];
        let place = base.partition_point(|other| other.hard > armed.hard);
        base.insert(place, armed);
    }

    /// Disarms a timer. Returns the CPU it was armed on.
    #[inline]
    pub fn cancel(&mut self, timer: TimerId) -> Option<Cpu> {
        let place = &mut self.places[timer.0 as usize];
        if place.cpu == NOT_ARMED {
            return None;
        }
        let (cpu, hard) = (Cpu(place.cpu), place.hard);
        place.cpu = NOT_ARMED;
        let base = &mut self.bases[cpu.index()];
        let first = base.partition_point(|other| other.hard > hard);
        let offset = base[first..]
            .iter()
            .position(|other| other.timer == timer)
            .expect("an armed timer is in the base of its CPU");
        base.remove(first + offset);
        Some(cpu)
    }

    /// The timer the hardware of `cpu` is programmed for.
    #[inline(always)]
    pub fn first(&self, cpu: Cpu) -> Option<&Armed> {
        self.bases[cpu.index()].last()
    }

    /// Takes the first timer of `cpu` off.
    #[inline]
    pub fn take_first(&mut self, cpu: Cpu) -> Option<Armed> {
        let armed = self.bases[cpu.index()].pop()?;
        self.places[armed.timer.0 as usize].cpu = NOT_ARMED;
        Some(armed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn armed(timer: u32, soft: Ns, hard: Ns) -> Armed {
        Armed {
            hard,
            soft,
            timer: TimerId(timer),
        }
    }

    #[test]
    fn timers_leave_in_order_of_hard_expiry_then_of_arming() {
        let mut timers = Timers::new(1);
        timers.grow(4);
        for (timer, hard) in [(0, 30), (1, 10), (2, 30), (3, 20)] {
            timers.arm(Cpu(0), armed(timer, 5, hard));
        }
        let order: Vec<u32> = std::iter::from_fn(|| timers.take_first(Cpu(0)))
            .map(|armed| armed.timer.0)
            .collect();
        assert_eq!(order, [1, 3, 0, 2]);
    }

    #[test]
    fn cancelling_finds_the_right_one_among_equals() {
        let mut timers = Timers::new(2);
        timers.grow(3);
        for timer in 0..3 {
            timers.arm(Cpu(1), armed(timer, 7, 7));
        }
        assert_eq!(timers.cancel(TimerId(1)), Some(Cpu(1)));
        assert_eq!(timers.cancel(TimerId(1)), None);
        assert_eq!(timers.take_first(Cpu(1)), Some(armed(0, 7, 7)));
        assert_eq!(timers.first(Cpu(1)), Some(&armed(2, 7, 7)));
        assert_eq!(timers.first(Cpu(0)), None);
    }
}
