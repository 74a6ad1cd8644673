//! Idle states: which one an idle CPU enters, and whether its tick stops.
//!
//! A driver advertises states, shallow to deep, each with the time it takes to leave and the time
//! one has to stay for it to pay off. A governor guesses how long the CPU will be idle. Worked
//! example with the states of Ivy Bridge-EP (POLL 0/0, C1 1/1, C1E 10/80, C3 59/156, C6 82/300,
//! exit latency / target residency in µs): the next timer is 5 ms away, but the last eight idle
//! periods took 100 µs each. `menu` believes the repetition, predicts 100 µs, and enters C1E, the
//! deepest state that pays off within it. 100 µs are less than a tick, so the tick goes on.
//!
//! | room | what |
//! |---|---|
//! | `menu` | the default: timer distance times a learned factor, or a typical interval |
//! | `teo` | counts per state how often timers were right and how often something came earlier |
//! | `haltpoll` | guests: poll for a while, then halt |
//! | `device` | what the idle loop remembers per CPU; [`crate::Kernel`] decides with it |
//!
//! All governors are plain state machines over integers: [`Governor::select`] before the CPU goes
//! to sleep, [`Governor::reflect`] after it woke.

pub mod device;
pub mod haltpoll;
mod intervals;
pub mod menu;
pub mod rules;
pub mod teo;

use crate::ids::Ns;
pub(crate) use device::Cpuidle;
pub use rules::PollLimit;
pub(crate) use rules::{IdleRules, MenuPolling};

/// The time to the next timer as seen when there is none: `NEXT_TIMER_MAX_DELTA` jiffies of 1 ms.
pub(crate) const FAR_AWAY_NS: Ns = ((1 << 30) - 1) * 1_000_000;

/// Below this a shallow state costs nothing worth looking for timers (`RESIDENCY_THRESHOLD_NS`).
pub(crate) const RESIDENCY_THRESHOLD_NS: Ns = 15_000;

/// An idle state as the driver advertises it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdleState {
    /// Worst time from an interrupt to the first instruction.
    pub exit_latency_ns: Ns,
    /// Shortest stay that pays off.
    pub target_residency_ns: Ns,
    /// The CPU spins on its flag word (POLL, snooze).
    pub polling: bool,
    /// The hardware watches the flag word (MWAIT), so a store wakes it without an interrupt.
    pub monitor: bool,
}

/// How long a CPU can sleep (`tick_nohz_get_sleep_length`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SleepLength {
    /// To the next timer if the tick is stopped.
    pub(crate) timer_ns: Ns,
    /// To the next timer or tick as things are.
    pub(crate) tick_ns: Ns,
}

/// Question to a governor.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// States, shallow to deep; at least two.
    pub(crate) states: &'a [IdleState],
    /// Largest exit latency that all requests allow (PM QoS).
    pub(crate) latency_limit_ns: Ns,
    /// How long the CPU can sleep.
    pub(crate) sleep: SleepLength,
    /// The tick is stopped already.
    pub(crate) tick_stopped: bool,
    /// Tasks in I/O wait that last ran here.
    pub(crate) nr_iowait: u32,
    /// Tick length.
    pub(crate) tick_period_ns: Ns,
    /// Rules of this kernel.
    pub(crate) rules: &'a IdleRules,
}

/// Answer of a governor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Row of the state.
    pub(crate) state: usize,
    /// The tick may be stopped.
    pub(crate) stop_tick: bool,
}

impl Choice {
    pub(crate) const fn new(state: usize, stop_tick: bool) -> Self {
        Self { state, stop_tick }
    }
}

/// How an idle period ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wake {
    /// Row of the state.
    pub(crate) state: usize,
    /// From entering to having left it.
    pub(crate) residency_ns: Ns,
    /// From the governor's decision to its being told.
    pub(crate) span_ns: Ns,
    /// The tick ended it.
    pub(crate) by_tick: bool,
    /// Polling reached its limit.
    pub(crate) poll_limit: bool,
}

/// Which governor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum GovernorKind {
    /// `menu`.
    Menu,
    /// `teo` (5.1; its second algorithm, of 5.14, on older kernels too, and without the threshold
    /// of utilisation that it had from 6.3 to 6.10).
    Teo,
    /// `haltpoll` (5.4).
    Haltpoll {
        /// `guest_halt_poll_ns`.
        most_ns: Ns,
    },
}

impl GovernorKind {
    /// All of them.
    pub const ALL: [GovernorKind; 3] = [
        GovernorKind::Menu,
        GovernorKind::Teo,
        GovernorKind::Haltpoll {
            most_ns: haltpoll::MOST_NS,
        },
    ];
}

/// State of one CPU in its governor.
#[derive(Clone, Debug)]
pub enum Governor {
    /// `menu`.
    Menu(menu::Menu),
    /// `teo`.
    Teo(teo::Teo),
    /// `haltpoll`.
    Haltpoll(haltpoll::Haltpoll),
}

impl Governor {
    /// Nothing remembered yet.
    pub(crate) fn new(kind: GovernorKind) -> Self {
        match kind {
            GovernorKind::Menu => Governor::Menu(menu::Menu::default()),
            GovernorKind::Teo => Governor::Teo(teo::Teo::default()),
            GovernorKind::Haltpoll { most_ns } => {
                Governor::Haltpoll(haltpoll::Haltpoll::new(most_ns))
            }
        }
    }

    /// Chooses a state (`cpuidle_select`).
    pub(crate) fn select(&mut self, question: &Question) -> Choice {
        match self {
            Governor::Menu(menu) => menu.select(question),
            Governor::Teo(teo) => teo.select(question),
            Governor::Haltpoll(haltpoll) => haltpoll.select(question),
        }
    }

    /// Learns how the last period ended (`cpuidle_reflect` and what the governors defer to their
    /// next selection).
    pub(crate) fn reflect(
        &mut self,
        states: &[IdleState],
        rules: &IdleRules,
        tick_period_ns: Ns,
        wake: Wake,
    ) {
        match self {
            Governor::Menu(menu) => menu.reflect(states, tick_period_ns, wake),
            Governor::Teo(teo) => teo.reflect(states, rules, tick_period_ns, wake),
            Governor::Haltpoll(haltpoll) => haltpoll.reflect(rules, wake),
        }
    }

    /// How long a polling state polls; `None` = until something happens (`cpuidle_poll_time`).
    pub(crate) fn poll_limit(
        &mut self,
        states: &[IdleState],
        rules: &IdleRules,
        tick_period_ns: Ns,
    ) -> Option<Ns> {
        let limit_ns = rules.poll_limit.limit_ns(states, tick_period_ns);
        match self {
            Governor::Haltpoll(haltpoll) => limit_ns.map(|ns| haltpoll.poll_time(ns)),
            _ => limit_ns,
        }
    }
}

/// The deepest state above `from` that pays off within `span_ns`, or the shallowest there is.
pub(crate) fn shallower(states: &[IdleState], from: usize, span_ns: Ns) -> usize {
    (0..from)
        .rev()
        .find(|&row| states[row].target_residency_ns <= span_ns)
        .unwrap_or(0)
}

#[cfg(test)]
pub(crate) mod test_states {
    use super::{IdleRules, IdleState, Ns, Question, SleepLength, Wake};

    pub(crate) const TICK_NS: Ns = 4_000_000;

    /// With a tick in 3 ms and the next timer in so many us.
    pub(crate) fn question<'a>(
        states: &'a [IdleState],
        rules: &'a IdleRules,
        timer_us: u64,
    ) -> Question<'a> {
        Question {
            states,
            latency_limit_ns: u64::MAX,
            sleep: SleepLength {
                timer_ns: timer_us * 1000,
                tick_ns: (timer_us * 1000).min(3_000_000),
            },
            tick_stopped: false,
            nr_iowait: 0,
            tick_period_ns: TICK_NS,
            rules,
        }
    }

    /// After so many us, by no tick.
    pub(crate) fn woken(state: usize, us: u64) -> Wake {
        Wake {
            state,
            residency_ns: us * 1000,
            span_ns: us * 1000,
            by_tick: false,
            poll_limit: false,
        }
    }

    const fn state(exit_us: u64, residency_us: u64, polling: bool) -> IdleState {
        IdleState {
            exit_latency_ns: exit_us * 1000,
            target_residency_ns: residency_us * 1000,
            polling,
            monitor: !polling,
        }
    }

    /// POLL and the states of Ivy Bridge-EP.
    pub(crate) const IVB: [IdleState; 5] = [
        state(0, 0, true),
        state(1, 1, false),
        state(10, 80, false),
        state(59, 156, false),
        state(82, 300, false),
    ];

    /// POLL and the states of Skylake-SP.
    pub(crate) const SKX: [IdleState; 4] = [
        state(0, 0, true),
        state(2, 2, false),
        state(10, 20, false),
        state(133, 600, false),
    ];
}
