//! When the period timer of a limited group fires.
//!
//! A trace has no event for it, but it shows what it causes: threads of the group that were
//! runnable and not running, beside an idle CPU, all start again at once, and no task woke them.
//! Only the refill (or, rarely, the slack timer) does that. All those instants lie at one phase of
//! the period.
//!
//! # Worked example
//!
//! A group of period 100 ms; threads resume from idle at 5372.621 903, 5376.021 952, 5378.322 010 s
//! … Modulo 100 ms that is 21.903, 21.952, 22.010 ms. They fall into one window of 0.5 ms; the
//! median is 21.952 ms, and leaving idle takes 28 µs on that machine, so the timer fires at
//! 21.924 ms (mod 100 ms) on the trace's clock. Resumptions at other phases (a slack timer, a
//! missing wakeup) count against the phase, which needs half of them inside the window.
//!
//! On a busy machine no CPU is idle when the timer fires, and resumed threads wait for others
//! first. There the recorder's samples of the group's `nr_periods` decide. If it still read 41
//! periods 20.95 ms after the start of the recording and 42 at 21.05 ms, the timer fires at
//! 21.00 ms (mod 100 ms).

use std::collections::BTreeMap;

use schedcast_trace::recording::PeriodEnd;

use super::groups::{Group, GroupIndex, lineage};
use super::timeline::{CpuTimeline, Leave, median};

/// The phase of a group's period timer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// Expiries lie at this time after the start of the recording, plus whole periods, ns.
    pub offset_ns: u64,
    /// Resumptions that agree; 0 where only the group's counter of periods shows the phase.
    pub agreeing: u32,
    /// Resumptions seen; 0 where only the group's counter of periods shows the phase.
    pub seen: u32,
}

/// Fewer agreeing resumptions than this prove nothing.
const AGREEING_MIN: u32 = 3;
/// The window is this part of the period.
const WINDOW_DIVISOR: u64 = 200;

/// Infers the phases of all limited groups.
pub(super) fn infer(
    timelines: &[CpuTimeline],
    groups: &mut [Group],
    of_thread: &[GroupIndex],
    start_ns: u64,
    idle_exit_ns: u64,
    ends: &BTreeMap<String, PeriodEnd>,
) {
    let resumed = resumptions(timelines, groups, of_thread);
    for (index, group) in (0u32..).map(GroupIndex).zip(groups.iter_mut()) {
        let period_ns = group.limit.period_ns;
        if group.limit.quota_ns.is_none() || period_ns == 0 {
            continue;
        }
        let mut phases: Vec<u64> = resumed
            .iter()
            .filter(|(of, _)| *of == index)
            .map(|(_, at_ns)| at_ns.saturating_sub(start_ns) % period_ns)
            .collect();
        let resumed = densest(&mut phases, period_ns).map(|phase| Phase {
            offset_ns: (phase.offset_ns + period_ns - idle_exit_ns % period_ns) % period_ns,
            ..phase
        });
        group.phase = match ends.get(&group.path) {
            Some(end) => Some(counted(*end, resumed, start_ns, period_ns)),
            None => resumed,
        };
    }
}

/// The phase by the group's counter of periods: that of the resumptions, which is more precise, if
/// it lies in the span, else the middle of the span.
fn counted(end: PeriodEnd, resumed: Option<Phase>, start_ns: u64, period_ns: u64) -> Phase {
    let width_ns = end.before_ns - end.after_ns;
    let middle_ns = end.after_ns + width_ns / 2;
    // A span may lie before the start, which is when the trace of all CPUs begins.
    let offset_ns = (middle_ns % period_ns + period_ns - start_ns % period_ns) % period_ns;
    let apart_ns = |phase: &Phase| {
        let ahead_ns = (phase.offset_ns + period_ns - offset_ns) % period_ns;
        ahead_ns.min(period_ns - ahead_ns)
    };
    let near_ns = width_ns / 2 + period_ns / WINDOW_DIVISOR;
    resumed
        .filter(|phase| apart_ns(phase) <= near_ns)
        .unwrap_or(Phase {
            offset_ns,
            agreeing: 0,
            seen: 0,
        })
}

/// Instants at which an idle CPU took up a thread of a limited group that no task had woken.
fn resumptions(
    timelines: &[CpuTimeline],
    groups: &[Group],
    of_thread: &[GroupIndex],
) -> Vec<(GroupIndex, u64)> {
    let mut left_runnable_ns: Vec<Option<u64>> = vec![None; of_thread.len()];
    let mut resumed = Vec::new();
    // In order of time over all CPUs: a thread may leave one CPU and come back on another.
    let mut order: Vec<(u64, usize, usize)> = Vec::new();
    for (cpu, timeline) in timelines.iter().enumerate() {
        order.extend((0..timeline.slots.len()).map(|slot| (timeline.slots[slot].to_ns, cpu, slot)));
    }
    order.sort_unstable();
    for (_, cpu, position) in order {
        let slots = &timelines[cpu].slots;
        let slot = &slots[position];
        let before = position.checked_sub(1).map(|p| &slots[p]);
        if let Some(left) = before.and_then(|before| before.thread) {
            left_runnable_ns[left.index()] =
                (slot.leave_before == Leave::Runnable).then_some(slot.from_ns);
        }
        let Some(thread) = slot.thread else { continue };
        let from_idle = before.is_some_and(|before| before.thread.is_none());
        let left_ns = left_runnable_ns[thread.index()].take();
        if !(from_idle && slot.is_seen()) {
            continue;
        }
        let unwoken = left_ns.is_some_and(|left_ns| slot.placed_ns.is_none_or(|at| at < left_ns));
        let limited = lineage(groups, of_thread[thread.index()])
            .find(|group| groups[group.index()].limit.quota_ns.is_some());
        if let (true, Some(group)) = (unwoken, limited) {
            resumed.push((group, slot.from_ns));
        }
    }
    resumed
}

/// The window of the circle that holds most phases, if that is enough of them.
fn densest(phases: &mut [u64], period_ns: u64) -> Option<Phase> {
    phases.sort_unstable();
    let count = phases.len();
    let window_ns = (period_ns / WINDOW_DIVISOR).max(1);
    // Walk the circle twice, so that a window may straddle its end.
    let at = |index: usize| phases[index % count] + period_ns * (index / count) as u64;
    let mut best = (0, 0);
    let mut end = 0;
    for begin in 0..count {
        end = end.max(begin);
        while end < begin + count && at(end) - at(begin) <= window_ns {
            end += 1;
        }
        if end - begin > best.1 {
            best = (begin, end - begin);
        }
    }
    let (begin, agreeing) = best;
    if (agreeing as u32) < AGREEING_MIN || agreeing * 2 < count {
        return None;
    }
    let mut inside: Vec<u64> = (begin..begin + agreeing).map(at).collect();
    Some(Phase {
        offset_ns: median(&mut inside)? % period_ns,
        agreeing: agreeing as u32,
        seen: count as u32,
    })
}

/// First end of a period at or after `from_ns`, of the group that may hold back threads of `group`;
/// `None` where no phase is known. Switches that the trace does not show are put back by it.
pub(super) fn boundary(
    groups: &[Group],
    group: GroupIndex,
    start_ns: u64,
    from_ns: u64,
) -> Option<u64> {
    let group = lineage(groups, group)
        .map(|group| &groups[group.index()])
        .find(|group| group.limit.quota_ns.is_some())?;
    let period_ns = group.limit.period_ns;
    let first_ns = start_ns + group.phase?.offset_ns;
    let periods = from_ns.saturating_sub(first_ns).div_ceil(period_ns);
    Some(first_ns + periods * period_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let mut phases = [21_952_000, 21_903_000, 22_010_000, 70_000_000];
        let phase = densest(&mut phases, 100_000_000).unwrap();
        assert_eq!(phase.offset_ns, 21_952_000);
        assert_eq!((phase.agreeing, phase.seen), (3, 4));
    }

    #[test]
    fn a_window_may_straddle_the_end_of_the_period() {
        let mut phases = [99_900_000, 50_000, 20_000, 99_950_000];
        let phase = densest(&mut phases, 100_000_000).unwrap();
        assert_eq!(phase.agreeing, 4);
        assert_eq!(phase.offset_ns, 99_950_000);
    }

    #[test]
    fn scattered_or_few_resumptions_prove_nothing() {
        assert_eq!(densest(&mut [], 100_000_000), None);
        assert_eq!(densest(&mut [5, 6], 100_000_000), None);
        let mut scattered: Vec<u64> = (0..20).map(|i| i * 5_000_000).collect();
        assert_eq!(densest(&mut scattered, 100_000_000), None);
    }

    #[test]
    fn the_counter_of_periods_decides_where_resumptions_say_nothing_or_something_else() {
        const MS: u64 = 1_000_000;
        let start_ns = 5_000 * MS;
        let end = PeriodEnd {
            after_ns: start_ns + 320 * MS + 950_000,
            before_ns: start_ns + 321 * MS + 50_000,
        };
        let of = |resumed| counted(end, resumed, start_ns, 100 * MS).offset_ns;
        let resumed = |offset_ns| {
            Some(Phase {
                offset_ns,
                agreeing: 9,
                seen: 9,
            })
        };
        assert_eq!(of(None), 21 * MS);
        assert_eq!(of(resumed(21 * MS + 400_000)), 21 * MS + 400_000);
        let found = of(resumed(30 * MS));
        assert_eq!(found, 21 * MS, "threads that waited for a CPU");
        // A span before the start: 80.0 ms before it is 20.0 ms into a period.
        let early = PeriodEnd {
            after_ns: start_ns - 80 * MS,
            before_ns: start_ns - 80 * MS,
        };
        assert_eq!(counted(early, None, start_ns, 100 * MS).offset_ns, 20 * MS);
    }
}
