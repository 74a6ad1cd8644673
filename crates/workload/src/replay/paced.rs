//! Threads that work, sleep for a fixed time and go on: `sleep 0.01` in a loop, a poller, a loader.
//!
//! A timer ends such a sleep. A timer also wakes a thread that keeps a schedule. Under another
//! limit they differ: a schedule keeps its times, while a fixed sleep begins when the work before
//! it has ended. A trace does not show which timer was set. It shows which of two times varies
//! less: that of the sleeps, or that from one wakeup to the next.
//!
//! Threads of one name in one group are *paced* if
//!
//! * at least four in five of their activations, not counting each thread's first, follow a sleep
//!   that a timer ended, so that no messages make them work;
//! * there are at least [`SLEEPS_MIN`] such sleeps, and the middle eight tenths of them differ by
//!   no more than [`SLACK_NS`] and a twentieth of their median;
//! * the time from wakeup to wakeup varies at least [`TIMES_MORE`] times as much, or each thread
//!   has only its first sleep: a thread that was forked in the recording has no schedule yet.
//!
//! In the replay an activation of a paced thread begins as long after the end of the one before as
//! it did in the recording.
//!
//! # Worked example
//!
//! A loader uses the CPU for 15 ms and sleeps for 2 ms, twenty times. A limit of 30 ms in 100 ms
//! holds every second activation back for 70 ms, so that its wakeups are 17 or 87 ms apart, and
//! each sleep takes 2.06 ms. It is paced: without the limit its wakeups are 17 ms apart. At their
//! recorded times they would still be up to 87 ms apart.

use super::activity::Draft;
use super::blocked::{follows, tie_to};
use super::groups::GroupIndex;
use super::model::{Thread, Trigger};
use super::threads::ThreadId;
use schedcast_base::quantile::nearest_rank;
use std::collections::BTreeMap;

/// Fewer sleeps than this do not show how long they take.
const SLEEPS_MIN: usize = 20;
/// By how much a timer may end a sleep late, ns: twice the default `timer_slack_ns` of 50 µs.
const SLACK_NS: u64 = 100_000;
/// The time between wakeups varies at least so many times as much as that of the sleeps.
const TIMES_MORE: u64 = 2;

/// Sleeps of the threads of one name in one group.
#[derive(Default)]
struct Seen {
    /// Activations that were not the first of their thread.
    activations: usize,
    slept_ns: Vec<u64>,
    /// From one wakeup by a timer to the next one.
    apart_ns: Vec<u64>,
}

impl Seen {
    fn is_paced(&mut self) -> bool {
        let sleeps = self.slept_ns.len();
        if sleeps < SLEEPS_MIN || sleeps * 5 < self.activations * 4 {
            return false;
        }
        let varies_ns = spread_ns(&mut self.slept_ns);
        let median_ns = self.slept_ns[sleeps / 2];
        let apart_ns = spread_ns(&mut self.apart_ns);
        varies_ns <= SLACK_NS + median_ns / 20
            && (self.apart_ns.is_empty() || apart_ns >= TIMES_MORE * varies_ns.max(1))
    }
}

/// From the tenth to the ninetieth percentile; sorts.
fn spread_ns(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    let at = |millionths: u32| nearest_rank(values, millionths).unwrap_or(0);
    at(900_000) - at(100_000)
}

/// Lets each activation of a paced thread begin as long after the one before as recorded. Drafts of
/// a thread stand side by side, in order. `is_served` are threads that requests make work.
pub(super) fn tie(threads: &[Thread], is_served: impl Fn(ThreadId) -> bool, drafts: &mut [Draft]) {
    let kind = |thread: ThreadId| {
        let thread = &threads[thread.index()];
        (thread.subject.as_str(), thread.group)
    };
    let mut seen: BTreeMap<(&str, GroupIndex), Seen> = BTreeMap::new();
    for pair in drafts.windows(2) {
        let [before, draft] = [&pair[0], &pair[1]];
        let thread = draft.activation.thread;
        if before.activation.thread != thread || is_served(thread) {
            continue;
        }
        let seen = seen.entry(kind(thread)).or_default();
        seen.activations += 1;
        if !follows(before, draft) {
            continue;
        }
        let [last, next] = [before, draft].map(|one| &one.activation);
        let end_ns = last.end_ns.unwrap_or(next.woken_ns);
        seen.slept_ns.push(next.woken_ns - end_ns);
        if matches!(last.trigger, Trigger::Outside { .. }) {
            seen.apart_ns
                .extend(next.woken_ns.checked_sub(last.woken_ns));
        }
    }
    seen.retain(|_, seen| seen.is_paced());
    for place in 1..drafts.len() {
        let thread = drafts[place].activation.thread;
        if seen.contains_key(&kind(thread))
            && !is_served(thread)
            && drafts[place].activation.slept_before_ns.is_none()
            && follows(&drafts[place - 1], &drafts[place])
        {
            tie_to(drafts, place - 1, place);
        }
    }
}
