//! Requests that a replay answers behind later ones because the recording did.
//!
//! A limit that holds a service back piles requests up, and the thread that replies answers them in
//! any order. The replay keeps that order where it does not know which work each reply needs. Then
//! a request waits for the arrival of a later one under every limit, which a real service under a
//! wider limit would not do.
//!
//! Worked example: four workers of Node.js serve ten clients that ask every 333 ms, under 12 ms in
//! 100. The event loop answered request 41, of 1204 ms, behind request 39, of 1537 ms, so that it
//! takes 333 ms in a replay without a limit, where 17 ms are the median.

use std::collections::BTreeMap;

use schedcast_workload::replay::Replay;

use crate::experiment::units::format_duration_ns;

/// A request that waits for less than this, ns, may as well have waited for the CPU.
const BEHIND_NS: u64 = 10_000_000;
/// Fewer than one request in this many do not move a p95.
const TELLS_OF: usize = 20;

/// Requests of one service that are answered behind later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptOrder {
    /// All requests.
    requests: usize,
    /// Those that wait for a later one.
    behind: usize,
    /// The median of how long these wait at least, ns.
    median_ns: u64,
}

impl KeptOrder {
    /// Effect on forecasts in a few words, beside a warning that [says it all](Self::told).
    pub const IN_SHORT: &str =
        "the replay keeps an order of replies that the recorded limit made (see the warning)";

    /// By group: the order that decides about forecasts of its requests.
    pub(super) fn of_all(replay: &Replay) -> BTreeMap<String, KeptOrder> {
        let mut waits_ns: Vec<Vec<u64>> = vec![Vec::new(); replay.services.len()];
        for served in &replay.requests {
            waits_ns[served.service as usize].push(served.behind_ns);
        }
        let services = replay.services.iter().zip(waits_ns);
        let told = services.filter_map(|(service, waits_ns)| {
            let path = replay.groups[service.group.index()].path.clone();
            Some((path, KeptOrder::of(waits_ns)?))
        });
        told.collect()
    }

    fn of(mut waits_ns: Vec<u64>) -> Option<KeptOrder> {
        let requests = waits_ns.len();
        waits_ns.retain(|ns| *ns >= BEHIND_NS);
        waits_ns.sort_unstable();
        let median_ns = *waits_ns.get(waits_ns.len() / 2)?;
        let behind = waits_ns.len();
        (behind * TELLS_OF >= requests).then_some(KeptOrder {
            requests,
            behind,
            median_ns,
        })
    }

    /// A sentence on what it does to forecasts.
    pub fn told(&self) -> String {
        let Self {
            requests, behind, ..
        } = self;
        let median = format_duration_ns(self.median_ns / 1_000_000 * 1_000_000);
        format!(
            "{behind} of {requests} requests are answered behind later ones, as in the recording, half of them {median} or \
             more after they came: a wider limit would change that order, and the replay keeps it; record under such a limit"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_told_if_it_moves_a_p95() {
        let ms = |waits: &[(u64, usize)]| {
            let waits = waits
                .iter()
                .flat_map(|(ms, times)| vec![ms * 1_000_000; *times]);
            KeptOrder::of(waits.collect())
        };
        let found = ms(&[(0, 190), (12, 4), (333, 6)]).unwrap();
        assert_eq!((found.requests, found.behind), (200, 10));
        assert!(found.told().starts_with("10 of 200 requests"));
        assert!(found.told().contains("half of them 333ms or more"));
        assert_eq!(ms(&[(0, 191), (333, 9)]), None, "4.5 %");
        assert_eq!(ms(&[(9, 200)]), None, "they may wait for the CPU");
        assert_eq!(ms(&[]), None);
    }
}
