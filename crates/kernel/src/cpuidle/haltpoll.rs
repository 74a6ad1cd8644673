//! `haltpoll`: a guest polls before it halts, because leaving a halt costs an exit to the host.
//!
//! The time it polls adapts: a halt that was over within 200 µs would have been worth polling for.
//! Worked example: polling is off, and a halt takes 60 µs. The limit becomes 50 µs, from then on
//! the CPU polls 50 µs before each halt. After another halt of 60 µs it becomes 100 µs; after one
//! of 300 µs, 50 µs; after a second of 300 µs, 25 µs, which is too little: off again. Up to 6.8
//! nothing is too little: 25 µs it is, then 12.5.
//!
//! A CPU that is allowed no latency polls whatever its limit is. If that is 0, the polling state
//! sets it to what it polls elsewhere, and leaves it there: after a `cyclictest` at HZ=250 a CPU
//! polls 250 µs before its halts, until halts of more than 200 µs have halved that to nothing
//! again.

use super::{Choice, IdleRules, Question, Wake};
use crate::ids::Ns;

/// `guest_halt_poll_ns` unless it is set.
pub const MOST_NS: Ns = 200_000;
const GROW_START_NS: Ns = 50_000;

/// State of one CPU in `haltpoll`.
#[derive(Clone, Debug)]
pub struct Haltpoll {
    /// `guest_halt_poll_ns`: the longest it polls; 0 = it never does.
    most_ns: Ns,
    /// How long to poll before a halt; 0 = not.
    pub(crate) poll_limit_ns: Ns,
    last: Option<Wake>,
}

impl Haltpoll {
    /// Nothing remembered yet, `guest_halt_poll_ns` at `most_ns`.
    pub(crate) fn new(most_ns: Ns) -> Self {
        Self {
            most_ns,
            poll_limit_ns: 0,
            last: None,
        }
    }

    /// How long the polling state polls (`cpuidle_poll_time`): the limit, which becomes
    /// `otherwise_ns` if there is none.
    pub(crate) fn poll_time(&mut self, otherwise_ns: Ns) -> Ns {
        if self.poll_limit_ns == 0 {
            self.poll_limit_ns = otherwise_ns;
        }
        self.poll_limit_ns
    }

    /// `haltpoll_select`.
    pub(crate) fn select(&mut self, question: &Question) -> Choice {
        let poll = Choice::new(0, false);
        let halt = Choice::new(1, true);
        if question.latency_limit_ns == 0 {
            return poll;
        }
        if self.poll_limit_ns == 0 {
            return halt;
        }
        match self.last {
            Some(wake) if wake.state == 0 && wake.poll_limit => halt,
            _ => poll,
        }
    }

    /// `haltpoll_reflect`.
    pub(crate) fn reflect(&mut self, rules: &IdleRules, wake: Wake) {
        self.last = Some(wake);
        if wake.state == 0 {
            return;
        }
        let halted_ns = wake.residency_ns;
        if halted_ns > self.most_ns {
            let half = self.poll_limit_ns / 2;
            let too_little = rules.haltpoll_stops_below_start && half < GROW_START_NS;
            self.poll_limit_ns = if too_little { 0 } else { half };
        } else if halted_ns > self.poll_limit_ns {
            self.poll_limit_ns = (self.poll_limit_ns * 2)
                .max(GROW_START_NS)
                .min(self.most_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_states::{SKX, question, woken};
    use super::*;
    use crate::rules::{Rules, Version};

    fn halted(us: u64) -> Wake {
        woken(1, us)
    }

    #[test]
    fn worked_example_of_the_module_docs() {
        let limits = |minor| -> Vec<u64> {
            let rules = Rules::of_one_cpu(Version::new(6, minor)).idle;
            let mut haltpoll = Haltpoll::new(MOST_NS);
            [60, 60, 300, 300, 300, 10]
                .into_iter()
                .map(|us| {
                    haltpoll.reflect(&rules, halted(us));
                    haltpoll.poll_limit_ns / 100
                })
                .collect()
        };
        assert_eq!(limits(9), [500, 1000, 500, 0, 0, 500]);
        // A halt of 10 us is shorter than 12.5 and changes nothing.
        assert_eq!(limits(8), [500, 1000, 500, 250, 125, 125]);
    }

    /// Choice of the governor a millisecond before the next timer.
    fn select(haltpoll: &mut Haltpoll, latency_limit_ns: Ns) -> Choice {
        let rules = Rules::of_one_cpu(Version::new(6, 1)).idle;
        haltpoll.select(&Question {
            latency_limit_ns,
            ..question(&[SKX[0]; 2], &rules, 1000)
        })
    }

    #[test]
    fn it_halts_only_after_polling_in_vain() {
        let rules = Rules::of_one_cpu(Version::new(6, 1)).idle;
        let mut haltpoll = Haltpoll::new(MOST_NS);
        assert_eq!(select(&mut haltpoll, u64::MAX).state, 1);
        haltpoll.reflect(&rules, halted(60));
        let first = select(&mut haltpoll, u64::MAX);
        assert_eq!((first.state, first.stop_tick), (0, false));
        let polled = Wake {
            poll_limit: true,
            ..woken(0, 50)
        };
        haltpoll.reflect(&rules, polled);
        let second = select(&mut haltpoll, u64::MAX);
        assert_eq!((second.state, second.stop_tick), (1, true));
        assert_eq!(select(&mut haltpoll, 0).state, 0);
    }

    #[test]
    fn polling_for_lack_of_latency_leaves_a_limit_behind() {
        let rules = Rules::of_one_cpu(Version::new(6, 18)).idle;
        let polled = Wake {
            poll_limit: true,
            ..woken(0, 250)
        };
        for most_ns in [0, MOST_NS] {
            let mut haltpoll = Haltpoll::new(most_ns);
            assert_eq!(select(&mut haltpoll, 0).state, 0);
            assert_eq!(haltpoll.poll_time(250_000), 250_000);
            haltpoll.reflect(&rules, polled);
            // Latency is allowed again: 250 us of polling are over.
            let limits: Vec<u64> = (0..4)
                .map(|_| {
                    assert_eq!(select(&mut haltpoll, u64::MAX).state, 1);
                    haltpoll.reflect(&rules, halted(300));
                    let limit_ns = haltpoll.poll_limit_ns;
                    if limit_ns > 0 {
                        assert_eq!(select(&mut haltpoll, u64::MAX).state, 0);
                        haltpoll.reflect(&rules, polled);
                    }
                    limit_ns / 100
                })
                .collect();
            assert_eq!(limits, [1250, 625, 0, 0]);
        }
    }

    #[test]
    fn a_guest_told_not_to_poll_halts_unless_no_latency_is_allowed() {
        let rules = Rules::of_one_cpu(Version::new(6, 1)).idle;
        let mut haltpoll = Haltpoll::new(0);
        for us in [10, 60, 300] {
            haltpoll.reflect(&rules, halted(us));
            assert_eq!(haltpoll.poll_limit_ns, 0);
        }
        assert_eq!(select(&mut haltpoll, u64::MAX).state, 1);
        assert_eq!(select(&mut haltpoll, 0).state, 0);
    }
}
