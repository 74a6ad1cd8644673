//! Differences between the frequency drivers and governors of kernel releases.

use crate::ids::Ns;
use crate::rules::rules;

/// How schedutil treats tasks that wake from I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum IowaitBoost {
    /// Up to 4.8: like any other.
    None,
    /// 4.9–4.12: the highest frequency at once, halved with each evaluation without I/O.
    AtOnce,
    /// From 4.13: an eighth, doubled with each further wakeup within a tick.
    Doubling,
}

/// Shortest time between two frequency changes when the driver does not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum RateLimit {
    /// Up to 6.8: 1000 transition latencies, at most 10 ms.
    ThousandLatencies,
    /// 6.9: 1000 transition latencies, at most 2 ms.
    ThousandLatenciesUpTo2Ms,
    /// From 6.10: one and a half transition latencies.
    OneAndAHalfLatencies,
}

impl RateLimit {
    /// `cpufreq_policy_transition_delay_us`, in ns.
    pub(crate) fn delay_ns(self, transition_latency_ns: Ns) -> Ns {
        match (transition_latency_ns / 1000, self) {
            (0, _) => 1_000_000,
            (us, RateLimit::ThousandLatencies) => (us * 1000).min(10_000) * 1000,
            (us, RateLimit::ThousandLatenciesUpTo2Ms) => (us * 1000).min(2_000) * 1000,
            (us, RateLimit::OneAndAHalfLatencies) => (us + us / 2) * 1000,
        }
    }
}

rules! {
    /// Frequency rules of one kernel.
    pub(crate) struct FrequencyRules of ();

    /// intel_pstate has its PID controller (up to 4.13).
    pub(crate) pid: bool = true,
    /// Samples are taken when the scheduler calls (4.6); before, by a deferrable timer.
    pub(crate) scheduler_hooks: bool = false,
    /// The PID controller takes a CPU that was awake for less than 1 % of a sample as idle (4.6).
    pub(crate) pid_idle_below_1_percent: bool = false,
    /// The scheduler tells when a task wakes from I/O (4.9).
    pub(crate) iowait_flag: bool = false,
    /// schedutil's reaction to it.
    pub(crate) iowait_boost: IowaitBoost = IowaitBoost::None,
    /// schedutil also counts runnable time (6.5).
    pub(crate) runnable_boost: bool = false,
    /// Without frequency invariance schedutil refers to 1.25 times the current frequency (6.8).
    pub(crate) margin_on_current: bool = false,
    /// schedutil adds its quarter to spare to the frequency (up to 5.13), later to the utilisation.
    pub(crate) margin_in_frequency: bool = true,
    /// schedutil holds the frequency of a CPU that was not idle since its last decision (4.12).
    pub(crate) hold_while_busy: bool = false,
    /// The bandwidth of deadline tasks is the least that is asked for (6.8); before, it was added
    /// to the utilisation.
    pub(crate) deadline_bandwidth_is_least: bool = false,
    /// Default rate limit.
    pub(crate) rate_limit: RateLimit = RateLimit::ThousandLatencies,
    /// x86 CPUs with APERF and MPERF make the scheduler frequency invariant (5.7).
    pub(crate) x86_invariance: bool = false,
}

#[cfg(test)]
mod tests {
    use crate::rules::{Rules, Version};

    #[test]
    fn rate_limits_by_version() {
        let limit = |minor| {
            Rules::of_one_cpu(Version::new(6, minor))
                .frequency
                .rate_limit
        };
        assert_eq!(limit(1).delay_ns(10_000), 10_000_000);
        assert_eq!(limit(1).delay_ns(2_000), 2_000_000);
        assert_eq!(limit(8).delay_ns(10_000), 10_000_000);
        assert_eq!(limit(9).delay_ns(10_000), 2_000_000);
        assert_eq!(limit(9).delay_ns(1_000), 1_000_000);
        assert_eq!(limit(12).delay_ns(10_000), 15_000);
        assert_eq!(limit(12).delay_ns(0), 1_000_000);
    }
}
