//! Costs that the simulator charges by itself, so that they are not charged twice.
//!
//! The time between a thread's switch in and its switch out is not all its own. It contains the
//! rest of the context switch, the wakeups it did for others, the tick interrupts that arrived
//! meanwhile. The simulator adds the same things again at the prices of its machine, so they are
//! taken off the recorded time first, at those very prices: what the recorded machine spent beyond
//! them stays with the thread as work.
//!
//! # Worked example
//!
//! An activation of 9694 µs that was switched in twice, woke one thread and, at 250 Hz, met
//! 9694/4000 = 2.4235 ticks on average. At 1.3 µs a switch, 0.7 µs a wakeup and 1.5 µs a tick the
//! simulator will add 2·1.3 + 0.7 + 2.4235·1.5 = 6.935 µs; 9687.065 µs of work remain. A thread
//! that ran for 2 µs keeps 0, never less. Had the woken thread gone to another CPU, the price of
//! sending an interrupt there would come off, too.

use schedcast_kernel::platform::Op;

/// Prices of the simulated machine, ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Price of each operation, indexed by `op as usize`.
    price_ns: [u64; Op::COUNT],
    /// Length of a tick; `None` when ticks are not to be taken off.
    tick_ns: Option<u64>,
}

/// Counts of chargeable events in a stretch of recorded time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Charged {
    pub switches: u32,
    pub interrupts: u32,
    pub wakes: u32,
    /// Of these, to other CPUs.
    pub remote_wakes: u32,
    pub forks: u32,
    pub exits: u32,
    /// Of these, those that preempted this thread: the wakee is charged with their end.
    pub preempting_wakes: u32,
    /// Wakeups of itself, from idle or preempting, from which on it is charged.
    pub own_wakes: u32,
    pub sleeps: u32,
    /// Levels of the group hierarchy below the root.
    pub depth: u32,
}

impl Costs {
    /// A machine on which everything is free.
    pub const FREE: Costs = Costs {
        price_ns: [0; Op::COUNT],
        tick_ns: None,
    };

    /// Takes the prices of a machine that ticks `hz` times a second.
    pub fn new(price_ns: [u64; Op::COUNT], hz: u32) -> Self {
        Self {
            price_ns,
            tick_ns: 1_000_000_000u64.checked_div(u64::from(hz)),
        }
    }

    fn price(&self, op: Op) -> u64 {
        self.price_ns[op as usize]
    }

    /// Time that the simulator will charge for this within `executed_ns` of recorded time, ns.
    pub(super) fn of(&self, charged: Charged, executed_ns: u64) -> u64 {
        let levels = u64::from(charged.depth) + 1;
        let enqueue = levels * self.price(Op::EnqueueLevel);
        let end = enqueue + self.price(Op::WakeupEnd);
        let wakeup = self.price(Op::Wakeup) + end;
        let tick = self.price(Op::TimerInterrupt)
            + self.price(Op::Tick)
            + levels * self.price(Op::TickLevel);
        let syscall = self.price(Op::Syscall);
        u64::from(charged.switches) * self.price(Op::ContextSwitch)
            + u64::from(charged.interrupts) * (self.price(Op::DeviceInterrupt) + wakeup)
            + u64::from(charged.wakes) * (syscall + wakeup)
            - u64::from(charged.preempting_wakes) * end
            + u64::from(charged.remote_wakes) * self.price(Op::IpiSend)
            + u64::from(charged.forks) * (self.price(Op::Fork) + enqueue)
            + u64::from(charged.exits) * self.price(Op::Exit)
            + u64::from(charged.own_wakes) * end
            + u64::from(charged.sleeps)
                * (syscall + self.price(Op::Block) + levels * self.price(Op::DequeueLevel))
            + self.tick_ns.map_or(0, |tick_ns| {
                (u128::from(executed_ns) * u128::from(tick) / u128::from(tick_ns)) as u64
            })
    }
}

/// Takes `remove_ns` off the lengths. Each length gives in proportion, rounded down, and the
/// remainder comes off the longest one. Returns the time that was taken off, which is less than
/// `remove_ns` only if the lengths are shorter in sum.
pub(super) fn take_off(lengths: &mut [u64], remove_ns: u64) -> u64 {
    let total: u64 = lengths.iter().sum();
    if remove_ns >= total {
        lengths.fill(0);
        return total;
    }
    let mut left = remove_ns;
    for length in lengths.iter_mut() {
        let part = (u128::from(*length) * u128::from(remove_ns) / u128::from(total)) as u64;
        *length -= part;
        left -= part;
    }
    while left > 0 {
        let Some(longest) = lengths.iter_mut().max() else {
            break;
        };
        let part = left.min(*longest);
        *longest -= part;
        left -= part;
    }
    remove_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices(pairs: &[(Op, u64)]) -> [u64; Op::COUNT] {
        let mut table = [0; Op::COUNT];
        for &(op, price) in pairs {
            table[op as usize] = price;
        }
        table
    }

    #[test]
    fn the_worked_example() {
        let table = prices(&[
            (Op::ContextSwitch, 1300),
            (Op::Wakeup, 700),
            (Op::Tick, 1500),
        ]);
        let costs = Costs::new(table, 250);
        let charged = Charged {
            switches: 2,
            wakes: 1,
            ..Charged::default()
        };
        assert_eq!(costs.of(charged, 9_694_000), 6_935);
        let mut lengths = [9_694_000];
        assert_eq!(take_off(&mut lengths, 6_935), 6_935);
        assert_eq!(lengths, [9_687_065]);
    }

    #[test]
    fn nothing_falls_below_zero() {
        let mut lengths = [1500, 500];
        assert_eq!(take_off(&mut lengths, 2_001), 2_000);
        assert_eq!(lengths, [0, 0]);
        assert_eq!(take_off(&mut lengths, 5), 0);
        assert_eq!(take_off(&mut [], 5), 0);
    }

    #[test]
    fn longer_stretches_give_more() {
        let mut lengths = [100, 300, 1];
        assert_eq!(take_off(&mut lengths, 41), 41);
        assert_eq!(lengths.iter().sum::<u64>(), 360);
        assert_eq!(lengths, [90, 269, 1]);
    }

    #[test]
    fn a_deeper_group_costs_more() {
        let costs = Costs::new(prices(&[(Op::EnqueueLevel, 10), (Op::Wakeup, 100)]), 0);
        let wake = |depth| Charged {
            wakes: 1,
            depth,
            ..Charged::default()
        };
        assert_eq!(costs.of(wake(0), 0), 110);
        assert_eq!(costs.of(wake(2), 0), 130);
    }
}
