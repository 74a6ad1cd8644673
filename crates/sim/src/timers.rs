//! High-resolution timers of every CPU (`hrtimer_cpu_base`).
//!
//! A timer has a soft expiry, from which on it may run, and a hard one, for which the hardware is
//! programmed. The difference is the slack. Worked example: a `nanosleep` of 100 µs with the
//! default slack is programmed for 150 µs; if another timer of the same CPU interrupts at 120 µs,
//! the sleeper is woken by that interrupt.
//!
//! Timers of one CPU hang in a list in the order of their hard expiry. A CPU has few, and what is
//! armed mostly expires as one of the last, so the place is looked for from the end.

use schedcast_kernel::table::Table;
use schedcast_kernel::{Cpu, Ns};

/// Number of a timer: fixed ones of groups first, then one per task row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TimerId(pub u32);

/// An armed timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Armed {
    /// Expiry the hardware is programmed for.
    pub hard: Ns,
    /// Earliest time it may run.
    pub soft: Ns,
    /// Which one.
    pub timer: TimerId,
}

/// A row of the lists: the end of a CPU's list, or a timer.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    hard: Ns,
    soft: Ns,
    next: u32,
    previous: u32,
    /// CPU it is armed on.
    cpu: u32,
    /// When it was armed, counted over all timers and ticks; it wraps.
    order: u32,
}

const NOT_ARMED: u32 = u32::MAX;

/// All timers of all CPUs, ticks excepted.
#[derive(Clone, Debug)]
pub(crate) struct Timers {
    /// Circular lists: row n is the end of the list of CPU n, expiring before all others; timers
    /// follow.
    rows: Table<Row>,
    cpus: u32,
    /// How many timers and ticks have been armed; it wraps.
    armed: u32,
}

impl Timers {
    /// No timers on `cpus` CPUs.
    pub(crate) fn new(cpus: usize) -> Self {
        let end = |cpu| Row {
            next: cpu,
            previous: cpu,
            cpu,
            ..Row::default()
        };
        Self {
            rows: (0..cpus as u32).map(end).collect(),
            cpus: cpus as u32,
            armed: 0,
        }
    }

    /// Makes timers `0..count` known.
    pub(crate) fn grow(&mut self, count: usize) {
        let row = Row {
            cpu: NOT_ARMED,
            ..Row::default()
        };
        self.rows.grow(self.cpus as usize + count, row);
    }

    /// Arms a timer that is not armed; among equal hard expiries it runs last.
    #[inline]
    pub(crate) fn arm(&mut self, cpu: Cpu, armed: Armed) {
        let mut next = cpu.0;
        let mut previous = self.rows[cpu.index()].previous;
        while self.rows[previous as usize].hard > armed.hard {
            next = previous;
            previous = self.rows[previous as usize].previous;
        }
        let row = self.cpus + armed.timer.0;
        self.rows[row as usize] = Row {
            hard: armed.hard,
            soft: armed.soft,
            next,
            previous,
            cpu: cpu.0,
            order: self.next_order(),
        };
        self.rows[previous as usize].next = row;
        self.rows[next as usize].previous = row;
    }

    /// The place of what is armed now in the order of arming.
    #[inline(always)]
    pub(crate) fn next_order(&mut self) -> u32 {
        self.armed = self.armed.wrapping_add(1);
        self.armed
    }

    /// Whether an armed timer runs before a tick that is due at `tick_at` and was armed as the
    /// `tick_order`th. Among equal expiries the one that was armed first does, the tick being a
    /// timer like others (`timerqueue_add`).
    #[inline(always)]
    pub(crate) fn runs_before_tick(&self, armed: &Armed, tick_at: Ns, tick_order: u32) -> bool {
        let order = self.rows[(self.cpus + armed.timer.0) as usize].order;
        let is_older = (order.wrapping_sub(tick_order) as i32) < 0;
        armed.hard < tick_at || armed.hard == tick_at && is_older
    }

    /// Disarms a timer. Returns the CPU it was armed on.
    #[inline]
    pub(crate) fn cancel(&mut self, timer: TimerId) -> Option<Cpu> {
        let row = &mut self.rows[(self.cpus + timer.0) as usize];
        if row.cpu == NOT_ARMED {
            return None;
        }
        let Row {
            next,
            previous,
            cpu,
            ..
        } = *row;
        row.cpu = NOT_ARMED;
        self.rows[previous as usize].next = next;
        self.rows[next as usize].previous = previous;
        Some(Cpu(cpu))
    }

    /// Whether a timer is armed.
    pub(crate) fn is_armed(&self, timer: TimerId) -> bool {
        let row = self.rows.get((self.cpus + timer.0) as usize);
        row.is_some_and(|row| row.cpu != NOT_ARMED)
    }

    /// The timer the hardware of `cpu` is programmed for.
    #[inline(always)]
    pub(crate) fn first(&self, cpu: Cpu) -> Option<Armed> {
        let first = self.rows[cpu.index()].next;
        let timer = TimerId(first.checked_sub(self.cpus)?);
        let Row { hard, soft, .. } = self.rows[first as usize];
        Some(Armed { hard, soft, timer })
    }

    /// Takes the first timer of `cpu` off.
    #[inline]
    pub(crate) fn take_first(&mut self, cpu: Cpu) -> Option<Armed> {
        let armed = self.first(cpu)?;
        self.cancel(armed.timer);
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
    fn of_a_timer_and_a_tick_due_together_the_one_armed_first_runs_first() {
        let mut timers = Timers::new(1);
        timers.grow(2);
        // A period of 100 ms was armed long before the tick, a sleep after it; all are due at
        // 100 ms.
        timers.arm(Cpu(0), armed(0, 100, 100));
        let tick = timers.next_order();
        timers.arm(Cpu(0), armed(1, 100, 100));
        let first =
            |timer, tick_at| timers.runs_before_tick(&armed(timer, 100, 100), tick_at, tick);
        assert_eq!((first(0, 100), first(1, 100)), (true, false));
        assert_eq!((first(0, 99), first(1, 101)), (false, true));
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
        assert_eq!(timers.first(Cpu(1)), Some(armed(2, 7, 7)));
        assert_eq!(timers.first(Cpu(0)), None);
    }
}
