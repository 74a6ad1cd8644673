//! Messages over sockets: softirqs that wake on behalf of the thread they interrupt.
//!
//! A thread that writes to a local TCP or UDP socket takes its packet through the network stack
//! itself. The last part of that path, the receiver's, is a softirq (`NET_RX`), which runs at once,
//! in the thread's own context. So the trace shows that a softirq wakes the receiver while the
//! *sender* is current, exactly as if a packet from a network card interrupted that thread. A
//! replay must distinguish them: a message is sent when the sender gets there, a packet keeps its
//! time.
//!
//! Interrupts hit any task: packets for a thread come at the same rate whichever task is current.
//! Messages come while their sender is current and at no other time. So softirqs that wake threads
//! of one subject while user threads of another are current are messages if they come at least
//! [`RATIO`] times as often in a second of that CPU time as in a second of the other CPU time,
//! which is the baseline: idle time and the time of all other subjects, threads of the kernel
//! included.
//!
//! * The baseline must be long enough: at the tested rate [`EXPECTED`] wakings must be due in it.
//! * The receiver's own time is no baseline, as a thread that runs cannot be woken, unless other
//!   threads of its subject were woken in it.
//! * Where several subjects send to one, the highest rate is tested first. The wakings and the time
//!   of a sender that was found are left out of the baseline of the others.
//! * At least [`LEAST`] wakings are needed. Threads of the kernel neither send nor receive.
//!
//! All other softirqs come from outside and keep their time. So do those of a machine on which only
//! a client and its server ever run, because there is no baseline.
//!
//! # Worked example
//!
//! A recording of redis: its client runs for 0.2 s, and 4741 softirqs wake redis in that time,
//! 23,700 a second. Redis itself runs for 5 s of the 40 s that two CPUs have. In the other 34.8 s
//! no softirq wakes it, where 825,000 were due at that rate. They are messages of the client.
//!
//! A busy machine: 200 softirqs wake a thread while a job of 10 s is current, 20 a second, and 180
//! while others are, in 9 s, and none in 0.1 s of idle time. At the rate of the job 182 were due in
//! these 9.1 s, and not four times 180. They are interrupts.

use super::activity::{Source, Waking};
use super::model::Thread;
use super::timeline::Run;
use std::collections::{BTreeMap, BTreeSet};

/// Fewer wakings of one kind than this prove nothing.
const LEAST: u64 = 20;
/// Messages come so many times as often as interrupts would.
const RATIO: u64 = 4;
/// Wakings that must be due in the baseline. Interrupts that come independently of each other stay
/// away from a time in which five are due with a probability of exp(-5), 0.7 %.
const EXPECTED: u64 = 5;

/// Makes the threads on whose behalf softirqs wake the source of these wakings.
pub(super) fn claim(
    wakings: &mut [Waking],
    threads: &[Thread],
    runs: &[Vec<Run>],
    machine_ns: u64,
) {
    let user = |thread: super::ThreadId| {
        let thread = &threads[thread.index()];
        (!thread.kernel).then_some(thread.subject.as_str())
    };
    let mut executed_ns: BTreeMap<&str, u64> = BTreeMap::new();
    for (thread, runs) in threads
        .iter()
        .zip(runs)
        .filter(|(thread, _)| !thread.kernel)
    {
        *executed_ns.entry(&thread.subject).or_default() +=
            runs.iter().map(Run::length_ns).sum::<u64>();
    }
    let mut woken: BTreeMap<&str, Woken<'_>> = BTreeMap::new();
    for waking in wakings.iter() {
        if let (Source::SOFTIRQ, Some(wakee)) = (waking.source, user(waking.wakee)) {
            woken
                .entry(wakee)
                .or_default()
                .add(waking.under.and_then(user));
        }
    }
    let senders: BTreeMap<&str, BTreeSet<&str>> = woken
        .iter()
        .map(|(wakee, woken)| (*wakee, woken.senders(wakee, &executed_ns, machine_ns)))
        .collect();
    for waking in wakings.iter_mut() {
        if let (Source::SOFTIRQ, Some(under)) = (waking.source, waking.under)
            && let (Some(by), Some(wakee)) = (user(under), user(waking.wakee))
            && senders[wakee].contains(by)
        {
            waking.source = Source::Thread(under);
        }
    }
}

/// Softirqs that wake threads of one subject.
#[derive(Default)]
pub(super) struct Woken<'a> {
    all: u64,
    /// Those that came while user threads of a subject were current.
    during: BTreeMap<&'a str, u64>,
}

impl<'a> Woken<'a> {
    /// One more, while a user thread of subject `under` was current, or none was.
    pub(super) fn add(&mut self, under: Option<&'a str>) {
        self.all += 1;
        if let Some(under) = under {
            *self.during.entry(under).or_default() += 1;
        }
    }

    /// The subjects that sent messages to `wakee`. `executed_ns` has the CPU time of each subject's
    /// user threads, `machine_ns` is the time of all CPUs, idle or not.
    pub(super) fn senders(
        &self,
        wakee: &str,
        executed_ns: &BTreeMap<&str, u64>,
        machine_ns: u64,
    ) -> BTreeSet<&'a str> {
        let of = |subject: &str| executed_ns.get(subject).copied().unwrap_or(0).max(1);
        let (mut others, mut others_ns) = (self.all, machine_ns);
        if !self.during.contains_key(wakee) {
            others_ns = others_ns.saturating_sub(of(wakee));
        }
        let enough = self.during.iter().filter(|(_, count)| **count >= LEAST);
        let mut untested: Vec<(&str, u64, u64)> = enough
            .map(|(subject, count)| (*subject, *count, of(subject)))
            .collect();
        untested.sort_by_key(|(_, count, ns)| {
            std::cmp::Reverse(product(*count, 1_000_000_000) / u128::from(*ns))
        });
        let mut senders = BTreeSet::new();
        // A sender that is found shortens the baseline of those that were tested before it, too.
        while let Some(position) = untested.iter().position(|(_, count, ns)| {
            let least_due = EXPECTED.max(RATIO * (others - count));
            product(*count, others_ns.saturating_sub(*ns)) >= product(least_due, *ns)
        }) {
            let (subject, count, ns) = untested.remove(position);
            others -= count;
            others_ns = others_ns.saturating_sub(ns);
            senders.insert(subject);
        }
        senders
    }
}

fn product(count: u64, ns: u64) -> u128 {
    u128::from(count) * u128::from(ns)
}
