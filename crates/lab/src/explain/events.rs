//! The first event at which two runs part: any event, where one of them decides by the C of a
//! kernel tree, whose reasons are not known; else a task that gives way earlier or later.
//!
//! Compared is what happens on each CPU, one event after the other, and not when: a longer scan
//! alone moves everything that follows. The exception is a switch away from a task that could go
//! on: the tick or a timer decided when, and that is the time since the event before on its CPU.
//!
//! Worked example: under both trees `a` is woken on CPU 1 at 4.2 ms. Under the first CPU 1 switches
//! to `a`, under the second it goes on with `b`, which sleeps at 5.1 ms. CPU 1 parts at that
//! switch, the other CPUs later.

use std::collections::VecDeque;

use schedcast_kernel::platform::{Observation, PrevState};
use schedcast_kernel::{Kernel, Ns, TaskId};
use schedcast_sim::events::{TraceEvent, TraceKind};
use schedcast_sim::{Core, World};
use schedcast_tree::TreeCore;
use serde_json::{Value, json};

use super::Told;
use super::difference::Difference;
use crate::error::{Error, Result};
use crate::experiment::Scenario;
use crate::simulator::{Simulator, bad_input};

/// Both worlds advance by so much before their events are compared.
const WINDOW_NS: Ns = 1_000_000;
/// Events of the CPU that are told from the one at which it parts.
const TOLD: usize = 4;
/// Events of the CPU that are told before it, which both runs have.
const COMMON: usize = 2;

/// Shortest request that a task can ask for (`__setparam_fair`): where a task gives way that much
/// earlier, the two runs have decided differently. Costs of scans are far below.
const GIVES_WAY_NS: Ns = 100_000;

/// Events that are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// All that two trees tell alike.
    OfTrees,
    /// All that trees and rules tell alike.
    All,
    /// Switches away from tasks that could go on.
    GivesWay,
}

/// A call that wakes several tasks is over within this time.
const CALL_NS: Ns = 50_000;

/// An event and the time since the one before on its CPU, where that is a decision.
#[derive(Clone, Copy)]
struct Timed {
    event: TraceEvent,
    since_ns: Option<Ns>,
}

impl Timed {
    fn parts_from(&self, other: &Timed) -> bool {
        let late = match (self.since_ns, other.since_ns) {
            (Some(one), Some(other)) => one.abs_diff(other) >= GIVES_WAY_NS,
            _ => false,
        };
        self.event.event != other.event.event || late
    }
}

/// A run whose events are looked at; whatever decides in it.
trait Run {
    /// Whether a task is the idle task of some CPU.
    fn is_idle(&self, task: TaskId) -> bool;
    fn advance(&mut self, until: Ns) -> Result<()>;
    fn now(&self) -> Ns;
    /// Events since the last call of this, and whether there will be more.
    fn take(&mut self) -> (Vec<TraceEvent>, bool);
    fn told(&self, event: &TraceEvent) -> (String, Value);
}

struct Traced<K: Core> {
    world: World<false, K>,
    /// `None`: until its programs end.
    end_ns: Option<Ns>,
}

impl<K: Core> Traced<K> {
    fn boxed(mut world: World<false, K>, end_ns: Option<Ns>) -> Box<dyn Run>
    where
        K: 'static,
    {
        world.probes_mut().trace = Some(Vec::new());
        if end_ns.is_none() {
            world.end_with_programs();
        }
        Box::new(Self { world, end_ns })
    }
}

impl<K: Core> Run for Traced<K> {
    fn advance(&mut self, until: Ns) -> Result<()> {
        let until = self.end_ns.map_or(until, |end_ns| end_ns.min(until));
        K::run_on(&mut self.world, until).map_err(bad_input)
    }

    fn now(&self) -> Ns {
        self.world.now()
    }

    fn take(&mut self) -> (Vec<TraceEvent>, bool) {
        let goes_on = match self.end_ns {
            Some(end_ns) => self.world.now() < end_ns,
            None => self.world.awaits_tasks(),
        };
        let events = self.world.probes_mut().trace.replace(Vec::new());
        (events.unwrap_or_default(), goes_on)
    }

    fn is_idle(&self, task: TaskId) -> bool {
        self.world.kernel().is_idle_task(task)
    }

    fn told(&self, event: &TraceEvent) -> (String, Value) {
        let name = |task: TaskId| format!("{}:{}", self.world.task_name(task), task.0);
        let groups = &self.world.workload().groups;
        let group = |group: schedcast_kernel::GroupId| {
            let row = group.index().checked_sub(1);
            row.map_or("/", |row| groups[row].path.as_str())
        };
        let (kind, text) = match event.event {
            TraceKind::Kernel(Observation::Switch { prev, state, next }) => {
                let state = match state {
                    PrevState::Runnable => "goes on later",
                    PrevState::Blocked => "sleeps",
                    PrevState::Throttled => "is throttled",
                    PrevState::Dead => "ends",
                };
                let (prev, next) = (name(prev), name(next));
                ("switch", format!("{prev} {state}, {next} runs"))
            }
            TraceKind::Kernel(Observation::Wakeup { task, cpu }) => (
                "wakeup",
                format!("{} is queued on CPU {}", name(task), cpu.0),
            ),
            TraceKind::Kernel(Observation::Place {
                task,
                waker,
                prev,
                cpu,
            }) => (
                "place",
                format!(
                    "{} on CPU {}; waker {}, previous CPU {}",
                    name(task),
                    cpu.0,
                    name(waker),
                    prev.0
                ),
            ),
            TraceKind::Kernel(Observation::Migrate { task, from, to }) => (
                "migrate",
                format!("{} from CPU {} to CPU {}", name(task), from.0, to.0),
            ),
            TraceKind::Kernel(Observation::Throttle { group: of, cpu }) => {
                ("throttle", format!("{} on CPU {}", group(of), cpu.0))
            }
            TraceKind::Kernel(Observation::Unthrottle { group: of, cpu }) => {
                ("unthrottle", format!("{} on CPU {}", group(of), cpu.0))
            }
            other => ("other", format!("{other:?}")),
        };
        let seconds = event.time as f64 / 1e9;
        let line = format!("{seconds:.9} s  CPU {}  {kind}: {text}\n", event.cpu.0);
        let value =
            json!({ "time_ns": event.time, "cpu": event.cpu.0, "kind": kind, "says": text });
        (line, value)
    }
}

/// One of the two runs.
struct Side<'a> {
    name: &'a str,
    run: Box<dyn Run>,
    which: Which,
    /// By CPU, time of the last event.
    last_ns: Vec<Ns>,
    /// By CPU, the task that runs.
    running: Vec<Option<TaskId>>,
    /// By CPU, what has no counterpart yet.
    waiting: Vec<VecDeque<Timed>>,
    /// By CPU, the last events that had one.
    common: Vec<VecDeque<Timed>>,
    goes_on: bool,
}

impl<'a> Side<'a> {
    fn start(
        simulator: &Simulator,
        scenario: &'a Scenario,
        seed: u64,
        which: Which,
    ) -> Result<Self> {
        let run = match &scenario.kernel.tree {
            Some(_) => {
                let (world, end_ns, _) = simulator.tree_world(scenario, seed)?;
                Traced::<TreeCore>::boxed(world, end_ns)
            }
            None => {
                let (world, end_ns, _) = simulator.world(scenario, seed)?;
                Traced::<Kernel>::boxed(world, end_ns)
            }
        };
        let cpus = scenario.machine.cpus();
        Ok(Self {
            name: &scenario.name,
            run,
            which,
            last_ns: vec![0; cpus],
            running: vec![None; cpus],
            waiting: vec![VecDeque::new(); cpus],
            common: vec![VecDeque::new(); cpus],
            goes_on: true,
        })
    }

    fn advance(&mut self, until: Ns) -> Result<()> {
        if !self.goes_on {
            return Ok(());
        }
        let within = |error: Error| error.within(&format!("`{}`", self.name));
        self.run.advance(until).map_err(within)?;
        let (events, goes_on) = self.run.take();
        self.goes_on = goes_on;
        let which = self.which;
        for event in events.iter().filter(|event| is_compared(event, which)) {
            let cpu = event.cpu.index();
            if cpu >= self.waiting.len() {
                continue;
            }
            // What happens on a CPU is told by the one that executes it, whose clock is its own.
            let last_ns = &mut self.last_ns[cpu];
            let since_ns = event.time.saturating_sub(*last_ns);
            *last_ns = event.time.max(*last_ns);
            let gives_way = match event.event {
                TraceKind::Kernel(Observation::Switch { prev, state, next }) => {
                    self.running[cpu] = Some(next);
                    state == PrevState::Runnable && !self.run.is_idle(prev)
                }
                _ => false,
            };
            if gives_way || self.which != Which::GivesWay {
                self.waiting[cpu].push_back(Timed {
                    event: *event,
                    since_ns: gives_way.then_some(since_ns),
                });
            }
        }
        Ok(())
    }

    fn pass(&mut self, cpu: usize) {
        let common = &mut self.common[cpu];
        common.extend(self.waiting[cpu].pop_front());
        if common.len() > COMMON {
            common.pop_front();
        }
    }

    fn tell(&self, cpu: usize) -> Option<(String, Told)> {
        self.waiting[cpu].front()?;
        let (mut text, mut values) = (String::new(), Vec::new());
        let events = self.waiting[cpu].iter().take(TOLD);
        for (mark, event) in (self.common[cpu].iter().map(|one| ("  ", one))).chain(
            events
                .enumerate()
                .map(|(row, one)| (["  ", "> "][usize::from(row == 0)], one)),
        ) {
            let (line, value) = self.run.told(&event.event);
            text += mark;
            text += &line;
            if mark == "> " {
                values.push(value);
            }
        }
        let value = values.pop().unwrap_or_default();
        Some((self.name.to_owned(), Told { text, value }))
    }
}

/// Trees do not tell when a wakeup begins in the way the rules do, nor when a period ends; the
/// rules tell of placements elsewhere.
fn is_compared(event: &TraceEvent, which: Which) -> bool {
    match event.event {
        TraceKind::Kernel(Observation::Period { .. }) => false,
        TraceKind::Kernel(Observation::Place { .. }) => which == Which::OfTrees,
        TraceKind::Kernel(_) => true,
        _ => false,
    }
}

/// Takes off what happened on both sides and returns the CPU that parts first.
fn compare(a: &mut Side<'_>, b: &mut Side<'_>) -> Option<(Ns, usize)> {
    let mut parted = Vec::new();
    for cpu in 0..a.waiting.len().min(b.waiting.len()) {
        while let (Some(one), Some(other)) = (a.waiting[cpu].front(), b.waiting[cpu].front()) {
            if one.parts_from(other) {
                parted.push((one.event.time.min(other.event.time), cpu));
                break;
            }
            a.pass(cpu);
            b.pass(cpu);
        }
    }
    let first = parted.iter().copied().min()?;
    let fronts = |cpu: usize| [&*a, &*b].map(|side| side.waiting[cpu].front());
    // A call that wakes several tasks has all of them queued before the later ones are placed.
    let made_first = |&(at_ns, cpu): &(Ns, usize)| {
        let mut at_first = fronts(first.1).into_iter().flatten();
        at_ns - first.0 <= CALL_NS
            && placed_apart(fronts(cpu))
                .is_some_and(|task| at_first.any(|one| is_about(&one.event, task)))
    };
    let placements = parted.into_iter().filter(made_first);
    placements.min().or(Some(first))
}

/// The task that both sides place at the same time, on different CPUs.
fn placed_apart(fronts: [Option<&Timed>; 2]) -> Option<TaskId> {
    let [one, other] = fronts.map(|front| match front?.event.event {
        TraceKind::Kernel(Observation::Place { task, cpu, .. }) => {
            Some((front?.event.time, task, cpu))
        }
        _ => None,
    });
    let ((at, task, cpu), (same_at, same, other)) = (one?, other?);
    ((at, task) == (same_at, same) && cpu != other).then_some(task)
}

fn is_about(event: &TraceEvent, task: TaskId) -> bool {
    match event.event {
        TraceKind::Kernel(Observation::Switch { prev, next, .. }) => [prev, next].contains(&task),
        TraceKind::Kernel(
            Observation::Wakeup { task: of, .. }
            | Observation::Migrate { task: of, .. }
            | Observation::Place { task: of, .. },
        ) => of == task,
        _ => false,
    }
}

/// Runs two scenarios under the same seed until a CPU does something else; `None` when none does
/// before `end_ns` and to their ends.
///
/// # Errors
/// A scenario that cannot be run.
pub(super) fn parting(
    simulator: &Simulator,
    [a, b]: [&Scenario; 2],
    seed: u64,
    which: Which,
    end_ns: Ns,
) -> Result<Option<Difference>> {
    let mut a = Side::start(simulator, a, seed, which)?;
    let mut b = Side::start(simulator, b, seed, which)?;
    let (mut until, mut seen) = (0, false);
    loop {
        until += WINDOW_NS;
        a.advance(until)?;
        b.advance(until)?;
        let mut parted = compare(&mut a, &mut b);
        let at_ends = !a.goes_on && !b.goes_on;
        if at_ends && parted.is_none() {
            parted = run_on(&a, &b).into_iter().chain(run_on(&b, &a)).min();
        }
        let over = at_ends || until > end_ns && !seen;
        // Once more after the first difference: an earlier one may still wait for its counterpart.
        if over || parted.is_some() && std::mem::replace(&mut seen, true) {
            let parted = parted.filter(|(at_ns, _)| *at_ns < end_ns);
            return Ok(parted.map(|(_, cpu)| Difference {
                cpu,
                inputs: waits(&a, &b, cpu),
                sides: [a.tell(cpu), b.tell(cpu)],
                cause: None,
                at_ns: [&a, &b].map(|side| side.waiting[cpu].front().map(|one| one.event.time)),
            }));
        }
    }
}

/// The first CPU of `a` on which a task gives way that runs on to the end of `b`.
fn run_on(a: &Side<'_>, b: &Side<'_>) -> Option<(Ns, usize)> {
    let cpus = 0..a.waiting.len().min(b.waiting.len());
    let found = cpus.filter_map(|cpu| {
        let one = a.waiting[cpu].front()?;
        let since_ns = one.since_ns.filter(|_| b.waiting[cpu].is_empty())?;
        let TraceKind::Kernel(Observation::Switch { prev, .. }) = one.event.event else {
            return None;
        };
        let ran_ns = b.run.now().saturating_sub(b.last_ns[cpu]);
        let longer = b.running[cpu] == Some(prev) && ran_ns >= since_ns + GIVES_WAY_NS;
        longer.then_some((one.event.time, cpu))
    });
    found.min()
}

/// Where the same task gives way on both sides, when.
fn waits(a: &Side<'_>, b: &Side<'_>, cpu: usize) -> Vec<(String, [Value; 2])> {
    let fronts = [a, b].map(|side| side.waiting[cpu].front());
    let [Some(one), Some(other)] = fronts else {
        return Vec::new();
    };
    match [one.since_ns, other.since_ns] {
        [Some(first), Some(second)] if one.event.event == other.event.event => {
            let values = [first, second].map(Value::from);
            vec![("ns_since_the_event_before_it".to_owned(), values)]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use schedcast_kernel::Cpu;

    use super::*;

    /// A run that is over.
    struct Over;

    impl Run for Over {
        fn is_idle(&self, _: TaskId) -> bool {
            false
        }
        fn advance(&mut self, _: Ns) -> Result<()> {
            Ok(())
        }
        fn now(&self) -> Ns {
            0
        }
        fn take(&mut self) -> (Vec<TraceEvent>, bool) {
            (Vec::new(), false)
        }
        fn told(&self, _: &TraceEvent) -> (String, Value) {
            (String::new(), Value::Null)
        }
    }

    fn side(events: &[(Ns, u32, Observation)]) -> Side<'static> {
        let mut waiting = vec![VecDeque::new(); 3];
        for &(time, cpu, observation) in events {
            let event = TraceEvent {
                time,
                cpu: Cpu(cpu),
                event: TraceKind::Kernel(observation),
            };
            waiting[cpu as usize].push_back(Timed {
                event,
                since_ns: None,
            });
        }
        Side {
            name: "",
            run: Box::new(Over),
            which: Which::OfTrees,
            last_ns: vec![0; 3],
            running: vec![None; 3],
            waiting,
            common: vec![VecDeque::new(); 3],
            goes_on: false,
        }
    }

    #[test]
    fn a_placement_is_named_before_the_queue_that_shows_it_earlier() {
        // CPU 0 wakes A and B by one call. B is placed at 9 us, on CPU 1 or CPU 2, and CPU 1 runs
        // it at 5 us; without it CPU 1 would run C.
        let [a, b, c, waker] = [10, 11, 12, 13].map(TaskId);
        let place = |task, cpu| Observation::Place {
            task,
            waker,
            prev: Cpu(0),
            cpu: Cpu(cpu),
        };
        let runs = |next| Observation::Switch {
            prev: waker,
            state: PrevState::Runnable,
            next,
        };
        let of = |on, next| {
            side(&[
                (2, 0, place(a, 1)),
                (5, 1, runs(next)),
                (9, 0, place(b, on)),
            ])
        };
        assert_eq!(compare(&mut of(1, b), &mut of(2, c)), Some((9, 0)));
        // What CPU 1 does is not about B: it parts first.
        assert_eq!(compare(&mut of(1, a), &mut of(2, c)), Some((5, 1)));
        assert_eq!(compare(&mut of(1, b), &mut of(1, c)), Some((5, 1)));
    }
}
