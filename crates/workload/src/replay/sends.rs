//! Messages over sockets: softirqs that wake on behalf of the thread they interrupt.
//!
//! A thread that writes to a local TCP or UDP socket takes its packet through the network stack
//! itself. The last part of that way, the receiver's, is a softirq (`NET_RX`), which runs at once, in
//! the thread's own context. So the trace shows a receiver that is woken by a softirq while the
//! *sender* is current; the same picture as a packet from a network card that happens to interrupt
//! that thread. A replay must tell them apart: a message is sent when the sender gets there, a packet
//! keeps its time.
//!
//! Interrupts do not choose whom they hit: packets for a thread come at the same rate whoever is
//! current, the idle task included. Messages come while their sender is current and at no other time.
//! So softirqs that wake threads of one subject while user threads of another are current are messages
//! if they come at least [`RATIO`] times as often in a second of that CPU time as in a second of idle
//! time. Fewer than [`LEAST`] prove nothing. Threads of the kernel send nothing, and receive nothing.
//!
//! # Worked example
//!
//! A recording of redis: its client runs for 0.2 s, and 4741 softirqs wake redis in that time, 23 700 a
//! second. In the 30 s in which a CPU idles, none does. They are messages of the client.

use super::activity::{Source, Waking};
use super::model::Thread;
use super::timeline::Run;
use std::collections::BTreeMap;

/// Fewer wakings of one kind than this prove nothing.
const LEAST: u64 = 20;
/// Messages come so many times as often as interrupts would.
const RATIO: u64 = 4;

/// Makes the threads on whose behalf softirqs wake the source of these wakings.
pub(super) fn claim(
    wakings: &mut [Waking],
    threads: &[Thread],
    runs: &[Vec<Run>],
    machine_ns: u64,
) {
    let subject = |thread: &super::ThreadId| threads[thread.index()].subject.as_str();
    let mut executed_ns: BTreeMap<&str, u64> = BTreeMap::new();
    for (thread, runs) in threads.iter().zip(runs) {
        *executed_ns.entry(&thread.subject).or_default() +=
            runs.iter().map(Run::length_ns).sum::<u64>();
    }
    let idle_ns = machine_ns.saturating_sub(executed_ns.values().sum());
    let mut during: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut while_idle: BTreeMap<&str, u64> = BTreeMap::new();
    for waking in wakings.iter() {
        if threads[waking.wakee.index()].kernel {
            continue;
        }
        let wakee = subject(&waking.wakee);
        match (waking.source, waking.under) {
            (Source::Outside { soft: true }, Some(under)) if !threads[under.index()].kernel => {
                *during.entry((subject(&under), wakee)).or_default() += 1;
            }
            (Source::Outside { soft: true }, None) => *while_idle.entry(wakee).or_default() += 1,
            _ => {}
        }
    }
    let is_message = |by: &str, wakee: &str| {
        let count = during.get(&(by, wakee)).copied().unwrap_or(0);
        let idle = while_idle.get(wakee).copied().unwrap_or(0);
        let [times, idle_times] = [(count, idle_ns), (idle * RATIO, executed_ns[by])]
            .map(|(count, ns)| u128::from(count) * u128::from(ns));
        count >= LEAST && times >= idle_times
    };
    for waking in wakings.iter_mut() {
        if let (Source::Outside { soft: true }, Some(under)) = (waking.source, waking.under)
            && !threads[under.index()].kernel
            && !threads[waking.wakee.index()].kernel
            && is_message(subject(&under), subject(&waking.wakee))
        {
            waking.source = Source::Thread(under);
        }
    }
}
