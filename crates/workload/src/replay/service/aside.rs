//! Threads of a service that requests do not wait for.
//!
//! A compiler at run time or a thread that frees memory is woken now and then, works for longer
//! than many requests, and sleeps without waking another thread. Its work belongs to no request: in
//! the replay it begins when it began in the recording and competes with requests for CPU time, and
//! no request waits for its end.
//!
//! An activation *stands aside* if
//!
//! * it wakes no threads but by activations that stand aside themselves;
//! * the same holds for all but one in [`QUIET_OF`] activations of its thread. A single such
//!   activation proves little: a worker whose client is awake wakes no thread either;
//! * its thread answers no request and is woken by no client;
//! * its subject has fewer than half as many activations as there are requests.
//!
//! # Worked example
//!
//! The compiler of a Java server used 40 ms of CPU time in the first 100 ms of two seconds of
//! throttling, and 330 ms in all. If that work is divided among the requests of its time, the p95
//! is 24 ms in the simulation, and 174 ms was recorded.

use super::super::activity::{Begun, Draft, DraftStep};
use super::super::model::Thread;
use super::super::threads::ThreadId;
use super::take_part;
use std::collections::{BTreeMap, BTreeSet};

/// A thread stands aside if all but one in this many of its activations do.
const QUIET_OF: usize = 20;

/// Per draft: whether it stands aside. `inside` says per thread whether it is of the service, which
/// has so many `requests`; threads that are `serving` any of them never do.
pub(super) fn aside(
    threads: &[Thread],
    inside: &[bool],
    serving: &BTreeSet<ThreadId>,
    drafts: &[Draft],
    begun: &[Begun],
    requests: usize,
) -> Vec<bool> {
    let own = |draft: &&Draft| inside[draft.activation.thread.index()];
    let subject = |draft: &Draft| threads[draft.activation.thread.index()].subject.as_str();
    let mut activations: BTreeMap<&str, usize> = BTreeMap::new();
    for draft in drafts.iter().filter(own) {
        *activations.entry(subject(draft)).or_default() += 1;
    }
    let is_quiet =
        |(_, step): &(u64, DraftStep)| matches!(step, DraftStep::Wakes(_) | DraftStep::Io { .. });
    let may_stand = |draft: &Draft| {
        own(&draft)
            && !serving.contains(&draft.activation.thread)
            && !take_part(activations[subject(draft)], requests)
            && draft.deeds.iter().all(is_quiet)
    };
    let mut aside: Vec<bool> = drafts.iter().map(may_stand).collect();
    loop {
        let wakes_others = |draft: &Draft| {
            draft.wakes().any(|(_, waking)| match begun[waking] {
                Begun::Draft(other) => !aside[other],
                Begun::Handover(_) => true,
                Begun::Nothing => false,
            })
        };
        let mut of_thread = vec![(0usize, 0usize); threads.len()];
        let mut rest = aside.clone();
        for (draft, stays) in drafts.iter().zip(&mut rest) {
            *stays &= !wakes_others(draft);
            let (quiet, all) = &mut of_thread[draft.activation.thread.index()];
            *quiet += usize::from(*stays);
            *all += 1;
        }
        for (draft, stays) in drafts.iter().zip(&mut rest) {
            let (quiet, all) = of_thread[draft.activation.thread.index()];
            *stays &= (all - quiet) * QUIET_OF <= all;
        }
        if rest == aside {
            return aside;
        }
        aside = rest;
    }
}
