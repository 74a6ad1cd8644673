//! Two things that the wakeups of a recording tell about its machine and its kernel.
//!
//! A wakeup counts where the task slept on another CPU than its waker's, that CPU idled, and both
//! share a last-level cache:
//!
//! * *Placement.* Every published kernel sends the task back to that idle CPU
//!   (`select_idle_sibling`). One provider's kernel leaves it on the waker's CPU while that has
//!   room, which is the patch `vcpu-pack`.
//! * *The way to an idle CPU.* The idle CPU itself writes `sched_wakeup` when the interrupt has
//!   reached it. On a virtual machine the host has to run that CPU first.
//!
//! Worked example: in a recording of a Python server 2764 of 2980 such wakeups went to the waker's
//! CPU, and in the other 216 the idle CPU wrote `sched_wakeup` 23.2 us after `sched_waking`
//! (median). Its replay has the patch, and an idle CPU hears of a wakeup after 23.2 us. Simulated
//! without the patch, 0.8 % of these wakeups go to the waker's CPU: where the trace does not show
//! in time that the other CPU had something to do.

use std::collections::BTreeMap;

use schedcast_base::quantile::median;
use schedcast_kernel::Ns;
use schedcast_trace::{EventKind, Recording, Wakeup};

/// Wakeups under which nothing is said.
const FEWEST: usize = 20;
/// A kernel that sends fewer than one in so many to the waker's CPU may well be a published one.
const ONE_IN: usize = 20;
/// Priorities below are those of real-time tasks, which go by other rules.
const FIRST_FAIR_PRIO: i32 = 100;

/// Wakeups of tasks that slept on an idle CPU other than the waker's.
#[derive(Debug, Default)]
pub(super) struct RemoteWakeups {
    /// Those that went to the idle CPU where the task had slept.
    to_idle: usize,
    /// Those that went to the waker's CPU.
    to_waker: usize,
    /// From `sched_waking` to the `sched_wakeup` that the idle CPU wrote, ns.
    ways_ns: Vec<Ns>,
}

/// A `sched_waking` of a task that slept on an idle CPU.
struct Open {
    at_ns: Ns,
    waker_cpu: u32,
}

impl RemoteWakeups {
    /// Those that `recording` shows.
    pub(super) fn of(recording: &Recording) -> RemoteWakeups {
        let mut found = RemoteWakeups::default();
        // A CPU idles from the switch to its idle task until anything else is heard of it.
        let mut idles = vec![false; recording.cpus() as usize];
        let mut open: BTreeMap<i32, Open> = BTreeMap::new();
        for event in &recording.events {
            if event.task != 0 {
                set(&mut idles, event.cpu, false);
            }
            match &event.kind {
                EventKind::Switch(switch) => set(&mut idles, event.cpu, switch.next.pid == 0),
                EventKind::Waking(wakeup) => {
                    let slept_on = wakeup.target_cpu;
                    let counts = wakeup.task.prio >= FIRST_FAIR_PRIO
                        && slept_on != event.cpu
                        && idles.get(slept_on as usize) == Some(&true)
                        && recording.meta.share_cache(slept_on, event.cpu);
                    set(&mut idles, slept_on, false);
                    if counts {
                        let (at_ns, waker_cpu) = (event.time_ns, event.cpu);
                        open.insert(wakeup.task.pid, Open { at_ns, waker_cpu });
                    } else {
                        open.remove(&wakeup.task.pid);
                    }
                }
                EventKind::Wakeup(wakeup) => {
                    set(&mut idles, wakeup.target_cpu, false);
                    if let Some(waking) = open.remove(&wakeup.task.pid) {
                        found.add(&waking, wakeup, event.cpu, event.time_ns);
                    }
                }
                _ => {}
            }
        }
        found
    }

    fn add(&mut self, waking: &Open, wakeup: &Wakeup, written_by: u32, at_ns: Ns) {
        if wakeup.target_cpu == waking.waker_cpu {
            self.to_waker += 1;
            return;
        }
        self.to_idle += 1;
        if written_by == wakeup.target_cpu {
            self.ways_ns.push(at_ns.saturating_sub(waking.at_ns));
        }
    }

    /// Whether the kernel leaves tasks on their wakers' CPU as no published one does.
    pub(super) fn pack(&self) -> bool {
        self.to_waker >= FEWEST && self.to_waker * ONE_IN >= self.to_idle + self.to_waker
    }

    /// Median time from a wakeup to an idle CPU that hears of it, ns; `None` where too few show it.
    pub(super) fn way_ns(&self) -> Option<Ns> {
        let ways = self.ways_ns.iter().map(|way_ns| *way_ns as f64);
        let median_ns = median(ways.collect::<Vec<_>>())?;
        (self.ways_ns.len() >= FEWEST).then_some(median_ns as Ns)
    }

    /// A sentence for readers where the placement is not that of the release.
    pub(super) fn note(&self) -> Option<String> {
        let all = self.to_idle + self.to_waker;
        self.pack().then(|| {
            format!(
                "{} of {all} tasks that woke up from sleep on an idle CPU were put on their waker's CPU, which no \
                 published kernel does; the simulation does so too (patch `vcpu-pack`), except beside a kernel tree",
                self.to_waker
            )
        })
    }
}

fn set(idles: &mut [bool], cpu: u32, idle: bool) {
    if let Some(state) = idles.get_mut(cpu as usize) {
        *state = idle;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_trace::{Context, Event, PrevState, Switch, Task};

    const SERVER: i32 = 7;
    const CLIENT: i32 = 8;

    fn event(us: u64, cpu: u32, task: i32, kind: EventKind) -> Event {
        Event {
            time_ns: us * 1000,
            cpu,
            task,
            context: Context::default(),
            kind,
        }
    }

    /// A client on CPU 0 wakes a server that slept on CPU 1, which idles, every millisecond. The
    /// server goes to CPU 0 `to_waker` times, else the idle CPU hears of it after 20 us.
    fn wakeups(times: u64, to_waker: u64, llc: Option<Vec<Vec<u32>>>) -> RemoteWakeups {
        let mut recording = Recording::open(std::path::Path::new(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../recordings/dev-vm-idle"
        )))
        .unwrap();
        recording.meta.llc = llc;
        let comm = recording.comms.intern(b"server");
        let task = |pid| Task {
            pid,
            comm,
            prio: 120,
        };
        let wakeup = |target_cpu| Wakeup {
            task: task(SERVER),
            target_cpu,
        };
        let mut events = Vec::new();
        for time in 0..times {
            let us = time * 1000;
            let idle = EventKind::Switch(Switch {
                prev: task(SERVER),
                prev_state: PrevState::Interruptible,
                next: task(0),
            });
            events.push(event(us, 1, SERVER, idle));
            let waking = EventKind::Waking(wakeup(1));
            events.push(event(us + 100, 0, CLIENT, waking));
            let (at_us, cpu) = if time < to_waker { (101, 0) } else { (120, 1) };
            let woken = EventKind::Wakeup(wakeup(cpu));
            events.push(event(us + at_us, cpu, 0, woken));
        }
        recording.events = events;
        RemoteWakeups::of(&recording)
    }

    #[test]
    fn the_way_is_the_median_of_those_that_went_to_the_idle_cpu() {
        let found = wakeups(100, 60, None);
        assert_eq!((found.to_waker, found.to_idle), (60, 40));
        assert_eq!(found.way_ns(), Some(20_000));
        assert!(found.pack());
        assert!(found.note().unwrap().starts_with("60 of 100 tasks"));
        assert_eq!(wakeups(19, 0, None).way_ns(), None);
    }

    #[test]
    fn a_few_on_the_wakers_cpu_make_no_other_kernel() {
        assert!(!wakeups(1000, 19, None).pack());
        assert!(!wakeups(1000, 49, None).pack());
        assert!(wakeups(1000, 50, None).pack());
        assert_eq!(wakeups(1000, 49, None).note(), None);
    }

    #[test]
    fn cpus_with_caches_of_their_own_tell_nothing() {
        let found = wakeups(100, 60, Some(vec![vec![0], vec![1]]));
        assert_eq!((found.to_waker, found.to_idle), (0, 0));
        let found = wakeups(100, 60, Some(vec![vec![0, 1]]));
        assert_eq!((found.to_waker, found.to_idle), (60, 40));
    }
}
