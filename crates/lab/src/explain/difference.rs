//! The first decision in which two scenarios differ.
//!
//! Two kernels rarely do the same at the same nanosecond: a longer scan alone moves everything that
//! follows. So what is compared is not when, but what each CPU decides, one after the other: the
//! task picked, the CPU chosen, whether a wakeup preempts, what is throttled, what balance moves.
//!
//! Worked example: both kernels pick `a`, `b`, `a` on CPU 0; on CPU 1 the first places `c` on CPU 1
//! at 4.2 ms, the second on CPU 3 at 4.3 ms. CPU 0 has no difference, CPU 1 has one, at 4.2 ms.

use std::collections::VecDeque;

use schedcast_kernel::explain::Decision;
use schedcast_kernel::{Cpu, GroupId, Ns, TaskId};
use schedcast_sim::Explained;

use super::Told;
use super::events::parting;
use super::run::Decisions;
use crate::error::Result;
use crate::experiment::Scenario;
use crate::simulator::Simulator;

/// Both worlds advance by about this much before their decisions are compared.
const WINDOW_NS: Ns = 1_000_000;

/// Decision without the state behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Picked(TaskId),
    Preempts(TaskId, TaskId, bool),
    Placed(TaskId, Cpu),
    Throttled(GroupId),
    Moved(Cpu, Option<Cpu>, u32),
}

/// `None` for a balance pass that moved nothing: how often one looks is no decision.
fn answer(decision: &Decision) -> Option<Answer> {
    Some(match decision {
        Decision::Pick { task, .. } => Answer::Picked(*task),
        Decision::Preempt {
            wakee,
            curr,
            preempts,
            ..
        } => Answer::Preempts(*wakee, *curr, *preempts),
        Decision::Place { task, cpu, .. } => Answer::Placed(*task, *cpu),
        Decision::Throttle { group, .. } => Answer::Throttled(*group),
        Decision::Balance { moved: 0, .. } => return None,
        Decision::Balance {
            dst, src, moved, ..
        } => Answer::Moved(*dst, *src, *moved),
    })
}

/// A decision that waits for its counterpart.
struct Waiting {
    answer: Answer,
    explained: Explained,
}

/// One of the two runs.
struct Side<'a> {
    name: &'a str,
    decisions: Decisions,
    /// By CPU.
    waiting: Vec<VecDeque<Waiting>>,
    over: bool,
}

impl<'a> Side<'a> {
    fn start(simulator: &Simulator, scenario: &'a Scenario, seed: u64) -> Result<Self> {
        let decisions = Decisions::start(simulator, scenario, seed)?;
        let cpus = scenario.machine.cpus();
        Ok(Self {
            name: &scenario.name,
            decisions,
            waiting: (0..cpus).map(|_| VecDeque::new()).collect(),
            over: false,
        })
    }

    /// Advances to about `until`.
    fn advance(&mut self, until: Ns) -> Result<()> {
        while !self.over && self.decisions.world().now() < until {
            match self.decisions.next()? {
                Some(event) => event.iter().for_each(|one| self.keep(one)),
                None => self.over = true,
            }
        }
        Ok(())
    }

    fn keep(&mut self, one: &Explained) {
        if let Some(answer) = answer(&one.decision)
            && let Some(row) = self.waiting.get_mut(one.cpu.index())
        {
            row.push_back(Waiting {
                answer,
                explained: one.clone(),
            });
        }
    }

    fn front_time(&self, cpu: usize) -> Ns {
        let front = self.waiting[cpu].front();
        front.map_or(Ns::MAX, |one| one.explained.time_ns)
    }

    fn tell_front(&self, cpu: usize) -> Option<(String, Told)> {
        let front = self.waiting[cpu].front()?;
        let told = Told::of(self.decisions.world(), &front.explained);
        Some((self.name.to_owned(), told))
    }
}

/// Takes off what both sides decided alike and returns the CPU with the earliest difference.
fn compare(a: &mut Side<'_>, b: &mut Side<'_>) -> Option<usize> {
    let mut different = Vec::new();
    for cpu in 0..a.waiting.len().min(b.waiting.len()) {
        while let (Some(one), Some(other)) = (a.waiting[cpu].front(), b.waiting[cpu].front()) {
            if one.answer != other.answer {
                different.push(cpu);
                break;
            }
            a.waiting[cpu].pop_front();
            b.waiting[cpu].pop_front();
        }
    }
    different
        .into_iter()
        .min_by_key(|&cpu| a.front_time(cpu).min(b.front_time(cpu)))
}

/// Runs two scenarios under the same seed until a CPU decides differently, and describes both
/// decisions.
///
/// # Errors
/// A scenario that cannot be run.
pub fn first_difference(
    simulator: &Simulator,
    a: &Scenario,
    b: &Scenario,
    seed: u64,
) -> Result<String> {
    let found = difference(simulator, a, b, seed)?;
    Ok(difference_text(found.as_ref(), a, b, seed))
}

/// A difference for people, or that there is none.
pub fn difference_text(
    found: Option<&Difference>,
    a: &Scenario,
    b: &Scenario,
    seed: u64,
) -> String {
    match found {
        Some(found) => found.text([&a.name, &b.name]),
        None => format!(
            "`{}` and `{}` decide alike, in the same order on each CPU (seed {seed}).\n",
            a.name, b.name
        ),
    }
}

/// The CPU that decides differently first (with a kernel tree: that does something else), and both
/// decisions: variant and what it decided, `None` where it decides nothing more.
pub struct Difference {
    /// The CPU.
    pub cpu: usize,
    /// Both variants, in the order in which they were asked about.
    pub sides: [Option<(String, Told)>; 2],
}

impl Difference {
    fn text(&self, names: [&String; 2]) -> String {
        let [one, other] = [0, 1].map(|row| {
            let told = self.sides[row].as_ref();
            let text = told.map_or("", |(_, told)| told.text.as_str());
            format!("{}:\n{text}", names[row])
        });
        format!(
            "First difference between `{}` and `{}`: on CPU {}\n\n{one}\n{other}",
            names[0], names[1], self.cpu
        )
    }

    /// As an object.
    pub(crate) fn value(&self) -> serde_json::Value {
        let sides = self.sides.each_ref().map(|side| {
            let told = side.as_ref();
            told.map(|(name, told)| serde_json::json!({ "variant": name, "decision": told.value }))
        });
        serde_json::json!({ "cpu": self.cpu, "sides": sides })
    }
}

/// The same as [`first_difference`], in both forms; `None` when both decide alike to their ends.
///
/// # Errors
/// As [`first_difference`].
pub fn difference(
    simulator: &Simulator,
    a: &Scenario,
    b: &Scenario,
    seed: u64,
) -> Result<Option<Difference>> {
    if a.kernel.tree.is_some() || b.kernel.tree.is_some() {
        return parting(simulator, a, b, seed);
    }
    let mut a = Side::start(simulator, a, seed)?;
    let mut b = Side::start(simulator, b, seed)?;
    let mut until = 0;
    let mut seen = false;
    while !(a.over && b.over) {
        until += WINDOW_NS;
        a.advance(until)?;
        b.advance(until)?;
        // Once more after the first difference: an earlier one may still wait for its counterpart.
        if let Some(cpu) = compare(&mut a, &mut b)
            && std::mem::replace(&mut seen, true)
        {
            return Ok(Some(at(&a, &b, cpu)));
        }
    }
    Ok(compare(&mut a, &mut b).map(|cpu| at(&a, &b, cpu)))
}

fn at(a: &Side<'_>, b: &Side<'_>, cpu: usize) -> Difference {
    Difference {
        cpu,
        sides: [a.tell_front(cpu), b.tell_front(cpu)],
    }
}
