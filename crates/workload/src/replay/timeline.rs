//! Which thread ran where and when, with reconstructed switches where the trace lacks them.
//!
//! A recording ought to contain every `sched_switch`. Some do not: on a guest that was restored
//! from a snapshot, for instance, a few tasks (the idle task of one CPU among them) write no event
//! of their own in task context any more, so each of their switches *out* is missing. It remains
//! visible that another task wrote the next event of the CPU. Such a switch lies somewhere between
//! the last event that shows the old task and the first one that shows the new task; `resolve`
//! decides where, with these rules in this order:
//!
//! 0. The first event that shows the new task is a `sched_stat_runtime`: it says how long it has
//!    run.
//! 1. The CPU was idle and the new task was woken or moved there in between: it starts the usual
//!    idle exit time after that (the median of the switches that are visible), but not later than
//!    halfway to the first event that shows it.
//! 2. The CPU was idle and the new task was not woken: its limited group held it back. It starts at
//!    the group's first period boundary in the gap, when the phase is known (see `phase`).
//! 3. The switch out of a task is missing: the task gets the run time that agrees with most of its
//!    runs whose end is missing.
//! 4. Otherwise the old task left right after the last event that shows it.
//!
//! # Whom the kernel charges
//!
//! A wakeup that preempts reads the clock of the run queue, and the switch that follows does not
//! (`wakeup_preempt` asks for `rq_clock_skip_update`). So the preempted thread is charged up to
//! that wakeup, and the next one from there on, though the trace shows the switch later: when the
//! system call that woke it has returned. Runs begin and end where the charges do. A wakeup
//! preempts if its event shows a pending reschedule, no later event of the CPU shows none (the
//! scheduler was called, and kept the thread), and the switch follows within [`SOON_NS`]. The event
//! of a wakeup that another CPU writes does not show that; such a wakeup is taken to preempt if its
//! thread is the next to run within that time. The other CPU reads the clock behind the event of
//! the waking and then interrupts this CPU, which in a virtual machine is a trap of 15 to 20 µs,
//! before it writes the event of the wakeup: the charge begins with the waking.
//!
//! The four workers of a `memcached` had run for 1193 ms in 8 s by their switches, but their group
//! was charged with 1307. In 30,300 cases a worker had preempted the client that woke it, 2.6 µs
//! before the switch in the median and 114 ms in all; in 11,700 cases a client preempted a worker,
//! 45 ms in all. By its charges the group ran for 1262 ms, and the rest lies before the switches
//! from idle (see `charged`).
//!
//! A `pgbouncer` beside compilers was charged with 574 ms by its group. Where the charge begins
//! with the event of the wakeup, it ran for 485 ms, and where it begins with that of the waking,
//! for 605. A thread that never sleeps, beside them, was charged with 4819 ms and ran for 4810;
//! while each reschedule of a tick that kept it cut its run, for 4181.
//!
//! # Worked example
//!
//! CPU 1 idles from 100 µs on. At 500 µs its timer interrupt wakes `pgbench`; the next event of CPU
//! 1 is a waking that `pgbench` itself writes at 590 µs. Visible idle exits of this machine take
//! 28 µs in the median, so `pgbench` runs from 528 µs on (rule 1): the gap of 490 µs shrinks to a
//! doubt of 90 µs, the time between its wakeup and the first event that shows it.

use super::threads::{ThreadId, Threads};
use schedcast_base::quantile::{MEDIAN, nearest_rank};
use schedcast_trace::{Event, EventKind, PrevState};

/// Why a thread left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// It went to sleep in this state.
    Blocked(PrevState),
    /// It stayed runnable: preempted, yielded, or held back by a limit.
    Runnable,
    /// It is gone.
    Exit,
    /// Its switch out is missing in the trace.
    Unseen,
    /// It was running when the recording ended.
    End,
}

/// A stretch of time that a thread ran on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// CPU.
    pub cpu: u32,
    /// Switch in, ns on the trace's clock.
    pub start_ns: u64,
    /// Switch out.
    pub end_ns: u64,
    /// Why it ended.
    pub leave: Leave,
    /// Time from the wakeup on this CPU, which idled, to the switch in, ns; 0 if it did not idle.
    pub approach_ns: u64,
    /// Its wakeup preempted the one before.
    pub preempts: bool,
    /// Index of the event that shows the start.
    pub start_event: usize,
    /// Index of the last event that belongs to the run.
    pub end_event: usize,
}

impl Run {
    /// Length of the run.
    pub(super) fn length_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// From some moment on a CPU runs this thread (`None`: it idles).
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub thread: Option<ThreadId>,
    /// The switch lies in `[from_ns, to_ns]`; both are equal when it is visible.
    pub from_ns: u64,
    pub to_ns: u64,
    /// When the thread was last woken for, or moved to, this CPU before `to_ns`.
    pub placed_ns: Option<u64>,
    /// The wakeup that preempted the one before, if one did: it is charged up to here.
    pub preempted_ns: Option<u64>,
    /// Why the one before left.
    pub leave_before: Leave,
    /// Last event that shows the one before.
    pub last_event_before: usize,
    /// First event that shows this one.
    pub first_event: usize,
}

impl Slot {
    pub(super) fn is_seen(&self) -> bool {
        self.from_ns == self.to_ns
    }
}

/// Slots of one CPU, in order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct CpuTimeline {
    pub slots: Vec<Slot>,
    last_ns: u64,
    last_event: usize,
    /// The waking that this CPU has begun last, until it ends with a wakeup.
    waking: Option<(ThreadId, u64)>,
    /// The last wakeup that made a reschedule pending, since the last switch.
    pending_ns: Option<u64>,
    /// The last wakeup of which the trace does not say whether it did, since the last switch.
    perhaps: Option<(ThreadId, u64)>,
}

/// Number of reconstructed switches, and the CPU time that could belong to another thread because
/// of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Switches that the trace does not show.
    pub switches: u64,
    /// Sum over them of the time in which each may have happened.
    pub doubt_ns: u64,
}

/// Follows the CPUs through the events.
#[derive(Debug)]
pub(super) struct Builder {
    start_ns: u64,
    cpus: Vec<CpuTimeline>,
    /// Per thread: when and where it was last woken or moved to.
    placed: Vec<Option<(u64, u32)>>,
    /// Per thread: the stretch of time that its latest charges cover without a gap.
    charged: Vec<Option<Charged>>,
}

/// A stretch of time for which the kernel has charged a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Charged {
    from_ns: u64,
    to_ns: u64,
}

/// A wakeup is taken to have preempted if the switch follows within this time. The switch could
/// also be that of a later tick which ends a slice, and ticks are at least one millisecond apart
/// (`CONFIG_HZ_1000`); a tick also reads the clock anew.
const SOON_NS: u64 = 1_000_000;

/// A server's CPU leaves idle within this time of a wakeup, ns: the exit latencies of its idle
/// states are below it (`drivers/idle/intel_idle.c`: 890 µs for the deepest of Skylake). A thread
/// that waits for longer beside an idle CPU is held back by a limit, and not charged meanwhile.
const LONGEST_APPROACH_NS: u64 = 1_000_000;

/// Charges less than this apart, ns, are of one run: interrupts between them are not charged.
const CHARGE_GAP_NS: u64 = 20_000;

impl Builder {
    pub(super) fn new(start_ns: u64) -> Self {
        Self {
            start_ns,
            cpus: Vec::new(),
            placed: Vec::new(),
            charged: Vec::new(),
        }
    }

    /// Takes the next event. `threads` already knows it.
    pub(super) fn see(&mut self, index: usize, event: &Event, threads: &Threads) {
        let now = self.clamp(event);
        if let EventKind::Runtime(charge) = event.kind {
            let thread = threads.current(charge.pid);
            self.charge(thread, now, u64::from(charge.runtime_ns));
        }
        let current = match event.kind {
            EventKind::Switch(switch) => switch.prev.pid,
            _ => event.task,
        };
        if current >= 0 {
            self.evidence(index, event.cpu, now, threads.current(current));
        }
        let is_switch = matches!(event.kind, EventKind::Switch(_));
        if !is_switch && event.context.level().is_some() && !event.context.need_resched() {
            // The scheduler was called meanwhile, and took the same task again.
            self.cpus[event.cpu as usize].pending_ns = None;
        }
        match event.kind {
            EventKind::Switch(switch) => {
                let prev_state = switch.prev_state;
                let leave = if switch.prev.pid == 0 || prev_state.is_runnable() {
                    Leave::Runnable
                } else if prev_state.is_exit() {
                    Leave::Exit
                } else {
                    Leave::Blocked(prev_state)
                };
                self.switch(
                    index,
                    event.cpu,
                    now,
                    threads.current(switch.next.pid),
                    leave,
                );
            }
            EventKind::Waking(waking) => {
                let wakee = threads.current(waking.task.pid);
                self.cpus[event.cpu as usize].waking = wakee.map(|wakee| (wakee, now));
            }
            EventKind::Wakeup(wakeup) | EventKind::WakeupNew(wakeup) => {
                let wakee = threads.current(wakeup.task.pid);
                self.place(wakee, now, wakeup.target_cpu);
                self.prompt(event, wakee, now, wakeup.target_cpu);
            }
            EventKind::Migrate(moves) => {
                self.place(threads.current(moves.task.pid), now, moves.dest_cpu);
            }
            _ => {}
        }
    }

    /// Time never goes back on a CPU.
    fn clamp(&mut self, event: &Event) -> u64 {
        let cpu = event.cpu as usize;
        if self.cpus.len() <= cpu {
            let fresh = CpuTimeline {
                last_ns: self.start_ns,
                ..CpuTimeline::default()
            };
            self.cpus.resize(cpu + 1, fresh);
        }
        event.time_ns.max(self.cpus[cpu].last_ns)
    }

    fn place(&mut self, thread: Option<ThreadId>, now: u64, cpu: u32) {
        let Some(thread) = thread else { return };
        if self.placed.len() <= thread.index() {
            self.placed.resize(thread.index() + 1, None);
        }
        self.placed[thread.index()] = Some((now, cpu));
    }

    /// Keeps since when a wakeup made, or may have made, a reschedule pending on its target.
    fn prompt(&mut self, event: &Event, wakee: Option<ThreadId>, now: u64, target: u32) {
        let waking = self.cpus[event.cpu as usize].waking.take();
        let Some(timeline) = self.cpus.get_mut(target as usize) else {
            return;
        };
        if event.cpu != target {
            let waking = waking.filter(|(woken, _)| Some(*woken) == wakee);
            timeline.perhaps = waking.or(wakee.map(|wakee| (wakee, now)));
        } else if event.context.level().is_none() {
            timeline.perhaps = wakee.map(|wakee| (wakee, now));
        } else if event.context.need_resched() {
            timeline.pending_ns = Some(now);
        }
    }

    fn charge(&mut self, thread: Option<ThreadId>, now: u64, runtime_ns: u64) {
        let Some(thread) = thread else { return };
        if self.charged.len() <= thread.index() {
            self.charged.resize(thread.index() + 1, None);
        }
        let begin_ns = now.saturating_sub(runtime_ns);
        let slot = &mut self.charged[thread.index()];
        let from_ns = match *slot {
            Some(before) if begin_ns <= before.to_ns.saturating_add(CHARGE_GAP_NS) => {
                before.from_ns.min(begin_ns)
            }
            _ => begin_ns,
        };
        *slot = Some(Charged {
            from_ns,
            to_ns: now,
        });
    }

    /// Since when `thread`, which is charged right now, has run.
    fn charged_since(&self, thread: Option<ThreadId>, now: u64) -> Option<u64> {
        let charged = self.charged.get(thread?.index()).copied().flatten()?;
        (charged.to_ns == now).then_some(charged.from_ns)
    }

    fn placed_on(&self, thread: Option<ThreadId>, cpu: u32, from_ns: u64) -> Option<u64> {
        let (at_ns, on) = self.placed.get(thread?.index()).copied().flatten()?;
        (on == cpu && at_ns >= from_ns).then_some(at_ns)
    }

    /// An event of `cpu` shows which thread is current there.
    fn evidence(&mut self, index: usize, cpu: u32, now: u64, current: Option<ThreadId>) {
        let timeline = &self.cpus[cpu as usize];
        let (from_ns, last_event) = match timeline.slots.last() {
            Some(slot) if slot.thread == current => {
                self.touch(index, cpu, now);
                return;
            }
            Some(_) => (timeline.last_ns, timeline.last_event),
            // The first event of a CPU shows what it has done since the recording started.
            None => (self.start_ns, index),
        };
        let first = timeline.slots.is_empty();
        // The unseen switch has served the reschedule that was pending.
        let timeline = &mut self.cpus[cpu as usize];
        (timeline.pending_ns, timeline.perhaps) = (None, None);
        let placed_ns = self.placed_on(current, cpu, from_ns);
        let (from_ns, to_ns) = match self.charged_since(current, now) {
            _ if first => (from_ns, from_ns),
            Some(since_ns) if since_ns > from_ns => (since_ns, since_ns),
            _ => (from_ns, now),
        };
        self.cpus[cpu as usize].slots.push(Slot {
            thread: current,
            from_ns,
            to_ns,
            placed_ns,
            preempted_ns: None,
            leave_before: Leave::Unseen,
            last_event_before: last_event,
            first_event: index,
        });
        self.touch(index, cpu, now);
    }

    fn switch(
        &mut self,
        index: usize,
        cpu: u32,
        now: u64,
        next: Option<ThreadId>,
        leave_before: Leave,
    ) {
        let from_ns = self.cpus[cpu as usize]
            .slots
            .last()
            .map_or(self.start_ns, |slot| slot.to_ns);
        let placed_ns = self.placed_on(next, cpu, from_ns);
        let timeline = &mut self.cpus[cpu as usize];
        let was_idle = timeline
            .slots
            .last()
            .is_none_or(|slot| slot.thread.is_none());
        let pending_ns = timeline.pending_ns.take();
        let perhaps = timeline.perhaps.take();
        let perhaps_ns = perhaps
            .filter(|&(wakee, _)| Some(wakee) == next)
            .map(|(_, at_ns)| at_ns);
        let preempted_ns = pending_ns
            .max(perhaps_ns)
            .filter(|at_ns| now.saturating_sub(*at_ns) < SOON_NS)
            .filter(|_| !was_idle && next.is_some() && leave_before == Leave::Runnable)
            .map(|at_ns| at_ns.clamp(from_ns, now));
        timeline.slots.push(Slot {
            thread: next,
            from_ns: now,
            to_ns: now,
            placed_ns,
            preempted_ns,
            leave_before,
            last_event_before: index,
            first_event: index,
        });
        self.touch(index, cpu, now);
    }

    fn touch(&mut self, index: usize, cpu: u32, now: u64) {
        let timeline = &mut self.cpus[cpu as usize];
        timeline.last_ns = now;
        timeline.last_event = index;
    }

    pub(super) fn finish(self) -> Vec<CpuTimeline> {
        self.cpus
    }
}

/// Decides when each unseen switch happened and lists the runs of every thread in order of time.
/// `boundary` is the first end of a period at or after a time, of the group that may hold a thread
/// back.
pub(super) fn resolve(
    timelines: &[CpuTimeline],
    threads: usize,
    end_ns: u64,
    boundary: &impl Fn(ThreadId, u64) -> Option<u64>,
) -> (Vec<Vec<Run>>, Repairs) {
    let idle_exit_ns = idle_exit_ns(timelines);
    let unseen_run_ns = unseen_run_ns(timelines, threads);
    let mut repairs = Repairs::default();
    let mut runs = vec![Vec::new(); threads];
    for (cpu, timeline) in (0u32..).zip(timelines) {
        let mut open: Option<(ThreadId, Run)> = None;
        let mut since_ns = 0;
        for (position, slot) in timeline.slots.iter().enumerate() {
            let before = position
                .checked_sub(1)
                .and_then(|p| timeline.slots[p].thread);
            let at_ns = if slot.is_seen() {
                slot.preempted_ns.unwrap_or(slot.from_ns).max(since_ns)
            } else {
                let (earliest_ns, likely_ns) = match before {
                    None => start_from_idle(slot, idle_exit_ns, boundary),
                    Some(before) => (slot.from_ns, since_ns + unseen_run_ns[before.index()]),
                };
                repairs.switches += 1;
                repairs.doubt_ns += slot.to_ns - earliest_ns.clamp(slot.from_ns, slot.to_ns);
                likely_ns.clamp(slot.from_ns, slot.to_ns)
            };
            if let Some((thread, run)) = open {
                runs[thread.index()].push(Run {
                    end_ns: at_ns,
                    leave: slot.leave_before,
                    end_event: slot.last_event_before,
                    ..run
                });
            }
            since_ns = at_ns;
            let begun = Run {
                cpu,
                start_ns: at_ns,
                end_ns: end_ns.max(at_ns),
                leave: Leave::End,
                approach_ns: approach_ns(&timeline.slots, position, at_ns),
                preempts: slot.preempted_ns.is_some(),
                start_event: slot.first_event,
                end_event: usize::MAX,
            };
            open = slot.thread.map(|thread| (thread, begun));
        }
        if let Some((thread, run)) = open {
            runs[thread.index()].push(run);
        }
    }
    for list in &mut runs {
        list.sort_by_key(|run: &Run| (run.start_event, run.end_event));
        one_cpu_at_a_time(list);
    }
    (runs, repairs)
}

/// Time from a wakeup on an idle CPU to the switch in at `at_ns`, which begins the slot at
/// `position`.
fn approach_ns(slots: &[Slot], position: usize, at_ns: u64) -> u64 {
    let Some(idle) = position.checked_sub(1).map(|before| &slots[before]) else {
        return 0;
    };
    let placed_ns = slots[position].placed_ns;
    placed_ns
        .filter(|placed_ns| idle.thread.is_none() && *placed_ns >= idle.to_ns)
        .map(|placed_ns| at_ns.saturating_sub(placed_ns))
        .filter(|approach_ns| *approach_ns <= LONGEST_APPROACH_NS)
        .unwrap_or(0)
}

/// A thread runs on one CPU at a time: a run that is said to last into the next one is cut.
fn one_cpu_at_a_time(runs: &mut [Run]) {
    for position in 1..runs.len() {
        let next_ns = runs[position].start_ns.max(runs[position - 1].start_ns);
        let run = &mut runs[position - 1];
        run.end_ns = run.end_ns.min(next_ns);
        let after_ns = run.end_ns;
        let next = &mut runs[position];
        next.start_ns = next.start_ns.max(after_ns);
        next.end_ns = next.end_ns.max(next.start_ns);
    }
}

/// Rules 1, 2 and 4 for a switch from idle: when it can have happened at the earliest, and when it
/// is taken to have happened.
fn start_from_idle(
    slot: &Slot,
    idle_exit_ns: u64,
    boundary: &impl Fn(ThreadId, u64) -> Option<u64>,
) -> (u64, u64) {
    let boundary = || {
        let thread = slot.thread?;
        let boundary_ns = boundary(thread, slot.from_ns)?;
        (boundary_ns <= slot.to_ns).then_some(boundary_ns)
    };
    match slot.placed_ns.or_else(boundary) {
        Some(cause_ns) => {
            let exit_ns = idle_exit_ns.min(slot.to_ns.saturating_sub(cause_ns) / 2);
            (cause_ns, cause_ns + exit_ns)
        }
        None => (slot.from_ns, slot.from_ns),
    }
}

/// Median time from a thread's placement on an idle CPU to its switch in, where both are visible.
pub(super) fn idle_exit_ns(timelines: &[CpuTimeline]) -> u64 {
    let mut seen = Vec::new();
    for timeline in timelines {
        for pair in timeline.slots.windows(2) {
            let (idle, slot) = (&pair[0], &pair[1]);
            if let (None, true, Some(placed_ns)) = (idle.thread, slot.is_seen(), slot.placed_ns) {
                // Something placed before the CPU went idle tells nothing about leaving idle, nor
                // does one that was placed once more when it ran already.
                if (idle.to_ns..=slot.from_ns).contains(&placed_ns) {
                    seen.push(slot.from_ns - placed_ns);
                }
            }
        }
    }
    median(&mut seen).unwrap_or(0)
}

/// Lower median.
pub(super) fn median(values: &mut [u64]) -> Option<u64> {
    values.sort_unstable();
    nearest_rank(values, MEDIAN)
}

/// Per thread: the run time that agrees with most of its runs whose end is unseen.
fn unseen_run_ns(timelines: &[CpuTimeline], threads: usize) -> Vec<u64> {
    let mut bounds: Vec<Vec<(u64, u64)>> = vec![Vec::new(); threads];
    for timeline in timelines {
        for pair in timeline.slots.windows(2) {
            let (run, after) = (&pair[0], &pair[1]);
            if let (Some(thread), false) = (run.thread, after.is_seen()) {
                let shortest = after.from_ns.saturating_sub(run.to_ns);
                let longest = after.to_ns.saturating_sub(run.from_ns);
                bounds[thread.index()].push((shortest, longest));
            }
        }
    }
    bounds
        .iter()
        .map(|bounds| most_agreed(bounds).unwrap_or(0))
        .collect()
}

/// The smallest value that lies in as many of the intervals as possible.
///
/// `[1, 9]`, `[3, 4]` and `[3, 20]` agree on 3. The best value is always the lower end of one of
/// the intervals, so only those are tried.
pub(super) fn most_agreed(bounds: &[(u64, u64)]) -> Option<u64> {
    let mut ends: Vec<(u64, i8)> = Vec::with_capacity(bounds.len() * 2);
    for &(low, high) in bounds {
        ends.push((low, -1)); // starts sort before ends at the same value: intervals are closed
        ends.push((high, 1));
    }
    ends.sort_unstable();
    let mut best: Option<(u32, u64)> = None;
    let mut covering = 0;
    for (value, kind) in ends {
        if kind > 0 {
            covering -= 1;
            continue;
        }
        covering += 1;
        if best.is_none_or(|(count, _)| covering > count) {
            best = Some((covering, value));
        }
    }
    best.map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_agree_on_the_smallest_common_value() {
        assert_eq!(most_agreed(&[]), None);
        assert_eq!(most_agreed(&[(1, 9), (3, 4), (3, 20)]), Some(3));
        assert_eq!(most_agreed(&[(0, 10), (4, 5), (7, 8), (4, 4)]), Some(4));
        assert_eq!(
            most_agreed(&[(0, 3), (3, 6)]),
            Some(3),
            "the ends belong to the interval"
        );
    }

    #[test]
    fn the_lower_median_of_an_even_count() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [5]), Some(5));
        assert_eq!(median(&mut [9, 1, 3, 7]), Some(3));
    }
}
