//! Threads that look again and again whether others have done something:
//! `while (!done) usleep(…)`.
//!
//! A Java machine stops its threads for a collection in this way: its VM thread looks whether all
//! others have stopped, sleeps for up to 1 ms, and looks again. A limit that throttles one of the
//! others keeps it looking. Timers end these sleeps, but what ends the wait is the other thread.
//!
//! A *look in vain* is an activation that a timer begins at most [`SLEEP_MAX_NS`] after the one
//! before it, and that does nothing but sleep again. An activation that begins in the same way
//! behind at least [`LOOKS_MIN`] of them and does something *ends a wait*. In a group with a limit
//! it was a wait for another thread of the group if an activation of that thread
//!
//! * began more than [`SLEEP_MAX_NS`] before the last look in vain,
//! * waited for a CPU for more than [`HELD_BACK_NS`], and
//! * ended before the wait did, and no more than [`SLEEP_MAX_NS`] before the last look in vain.
//!
//! Where most waits of a thread were such waits, the replay lets the activation that ends one begin
//! when the last of these threads has come. The looks keep their times: they cost some CPU time,
//! and nothing follows from them.
//!
//! A request that came while the thread looked may be answered before it comes then, with a latency
//! of 0: services take what the thread wakes to begin no earlier than recorded. In a recording of
//! Tomcat these are six of 1,741 requests.
//!
//! # Worked example
//!
//! A VM thread looks at 0, 1, 2, … 30 ms. A worker is throttled from 0.5 to 29.2 ms and stops at
//! 29.3 ms. At 30 ms the VM thread collects and wakes the other workers. Without a limit the worker
//! stops at 0.6 ms in the replay, and the collection begins then. At its recorded time it would
//! keep all requests waiting for 30 ms.

use super::activity::{Draft, DraftStep};
use super::blocked::follows;
use super::groups::{self, Group, GroupIndex};
use super::model::{Activation, Thread, Trigger};
use super::threads::ThreadId;
use std::collections::BTreeMap;

/// A sleep between two looks is no longer than this, ns: those of a Java machine end after 1 ms
/// and a timer's delay.
const SLEEP_MAX_NS: u64 = 2_000_000;
/// Fewer looks in vain than this are no wait.
const LOOKS_MIN: usize = 2;
/// An activation that waited for a CPU for longer than this, ns, was held back.
const HELD_BACK_NS: u64 = 1_000_000;

/// Waits of a thread that looks.
#[derive(Default)]
struct Waits {
    all: usize,
    /// Those for threads that were held back: the draft that ends the wait, and the last one of
    /// these threads before it.
    held: Vec<(usize, usize)>,
}

/// Lets what ends a wait begin when the thread that was waited for has come there. Drafts of a
/// thread stand side by side, in order.
pub(super) fn tie(threads: &[Thread], groups: &[Group], drafts: &mut [Draft]) {
    let has_limit = |up: GroupIndex| groups[up.index()].limit.quota_ns.is_some();
    let is_limited = |thread: ThreadId| {
        let mut up = groups::lineage(groups, threads[thread.index()].group);
        up.any(has_limit)
    };
    let end_ns = |draft: &usize| drafts[*draft].activation.end_ns.unwrap_or(0);
    let mut by_end: Vec<usize> = (0..drafts.len())
        .filter(|draft| waited_ns(&drafts[*draft].activation) > HELD_BACK_NS)
        .collect();
    by_end.sort_by_key(end_ns);
    let mut waits: BTreeMap<ThreadId, Waits> = BTreeMap::new();
    let mut looks = 0;
    for index in 1..drafts.len() {
        let [before, one] = [&drafts[index - 1], &drafts[index]];
        let woken_ns = one.activation.woken_ns;
        let slept_ns = woken_ns.saturating_sub(end_ns(&(index - 1)));
        let goes_on = follows(before, one) && slept_ns <= SLEEP_MAX_NS;
        if goes_on && one.deeds.is_empty() {
            looks += 1;
            continue;
        }
        let thread = one.activation.thread;
        let looked = std::mem::take(&mut looks) >= LOOKS_MIN;
        if !looked || !goes_on || !is_limited(thread) {
            continue;
        }
        let group = threads[thread.index()].group;
        let since_ns = before.activation.woken_ns.saturating_sub(SLEEP_MAX_NS);
        let was_held = |other: &usize| {
            let other = &drafts[*other].activation;
            other.thread != thread
                && threads[other.thread.index()].group == group
                && other.woken_ns < since_ns
        };
        let until = by_end.partition_point(|other| end_ns(other) <= woken_ns);
        let ended = by_end[..until].iter().rev().copied();
        let last = ended
            .take_while(|other| end_ns(other) >= since_ns)
            .find(was_held);
        let of_thread = waits.entry(thread).or_default();
        of_thread.all += 1;
        of_thread.held.extend(last.map(|last| (index, last)));
    }
    let mostly = |waits: &Waits| waits.held.len() * 2 > waits.all;
    for (index, last) in waits.into_values().filter(mostly).flat_map(|one| one.held) {
        let Activation {
            thread: by,
            executed_ns,
            ..
        } = drafts[last].activation;
        drafts[last].insert(executed_ns, DraftStep::Sends(index));
        drafts[index].activation.trigger = Trigger::ThreadUnseen(by);
    }
}

/// For how long an activation waited for a CPU, ns.
fn waited_ns(activation: &Activation) -> u64 {
    let end_ns = activation.end_ns.unwrap_or(activation.woken_ns);
    end_ns.saturating_sub(activation.woken_ns + activation.executed_ns)
}
