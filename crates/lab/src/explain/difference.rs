//! The first decision in which two scenarios differ.
//!
//! Two kernels rarely do the same at the same nanosecond: a longer scan alone moves everything that
//! follows. So what is compared is not when, but what each CPU decides, one after the other: the
//! task picked, the CPU chosen, whether a wakeup preempts, what is throttled, what balance moves,
//! and how long a task runs that has to give way to another (`events`).
//!
//! Worked example: both kernels pick `a`, `b`, `a` on CPU 0; on CPU 1 the first places `c` on CPU 1
//! at 4.2 ms, the second on CPU 3 at 4.3 ms. CPU 0 has no difference, CPU 1 has one, at 4.2 ms.
//!
//! A decision follows from inputs, and these differ before it does: CPU 1 may have placed three
//! tasks alike before, while the second kernel would have looked at four CPUs instead of eight.
//! Compared by [`Compared::Inputs`], the first of these placements is the difference.

use std::collections::VecDeque;

use schedcast_kernel::explain::Decision;
use schedcast_kernel::{Cpu, GroupId, Ns, TaskId};
use schedcast_sim::Explained;
use serde_json::Value;

use super::Told;
use super::cause::{self, Cause};
use super::events::{Which, parting};
use super::run::Decisions;
use crate::error::{Error, Result};
use crate::experiment::Scenario;
use crate::simulator::Simulator;

/// Both worlds advance by about this much before their decisions are compared.
const WINDOW_NS: Ns = 1_000_000;

/// The part of two decisions in which they differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compared {
    /// The answers.
    Answers,
    /// The answers and everything they were made from: looks, limits, types of groups, averages,
    /// and passes of balancing that move nothing. Times of decisions do not count.
    Inputs,
}

/// Part of a decision that is compared.
#[derive(Clone, PartialEq, Debug)]
enum Part {
    Answer(Answer),
    Whole(Value),
}

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
        Decision::Place(one) => Answer::Placed(one.task, one.cpu),
        Decision::Throttle(one) => Answer::Throttled(one.group),
        Decision::Balance(one) if one.moved == 0 => return None,
        Decision::Balance(one) => Answer::Moved(one.dst, one.src, one.moved),
    })
}

/// A decision that waits for its counterpart.
struct Waiting {
    part: Part,
    explained: Explained,
}

/// One of the two runs.
struct Side<'a> {
    name: &'a str,
    decisions: Decisions,
    compared: Compared,
    /// By CPU.
    waiting: Vec<VecDeque<Waiting>>,
    over: bool,
}

impl<'a> Side<'a> {
    fn start(
        simulator: &Simulator,
        scenario: &'a Scenario,
        seed: u64,
        compared: Compared,
    ) -> Result<Self> {
        let decisions = Decisions::start(simulator, scenario, seed)?;
        let cpus = scenario.machine.cpus();
        Ok(Self {
            name: &scenario.name,
            decisions,
            compared,
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
        let part = match self.compared {
            Compared::Answers => answer(&one.decision).map(Part::Answer),
            Compared::Inputs => Some(Part::Whole(self.inputs(one))),
        };
        if let Some(part) = part
            && let Some(row) = self.waiting.get_mut(one.cpu.index())
        {
            row.push_back(Waiting {
                part,
                explained: one.clone(),
            });
        }
    }

    /// The decision with its state, without its time.
    fn inputs(&self, one: &Explained) -> Value {
        let mut value = super::json::value(self.decisions.world(), one);
        if let Value::Object(object) = &mut value {
            object.remove("time_ns");
        }
        only_marks(&mut value);
        value
    }

    fn front_time(&self, cpu: usize) -> Option<Ns> {
        let front = self.waiting[cpu].front();
        front.map(|one| one.explained.time_ns)
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
            if one.part != other.part {
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
    let found = difference(simulator, a, b, seed, Compared::Answers)?;
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
    /// Where inputs were compared: those that differ, by their names in the JSON, with the value on
    /// each side.
    pub inputs: Vec<(String, [Value; 2])>,
    /// The change of the kernel that makes it, where the two variants differ in nothing else.
    pub cause: Option<Cause>,
    /// When each side decides so.
    pub(super) at_ns: [Option<Ns>; 2],
}

/// Leaves of rules their marks: two releases may have other names for one function.
fn only_marks(value: &mut Value) {
    match value {
        Value::Object(object) => match object.remove("mark") {
            Some(mark) => *value = mark,
            None => object.values_mut().for_each(only_marks),
        },
        Value::Array(values) => values.iter_mut().for_each(only_marks),
        _ => {}
    }
}

/// Inputs of a difference that are printed.
const SHOWN: usize = 12;

/// Leaves of two values that differ.
fn differing(path: &str, a: &Value, b: &Value, found: &mut Vec<(String, [Value; 2])>) {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match (a, b) {
        (Value::Object(one), Value::Object(other)) => {
            for (name, value) in one {
                let counterpart = other.get(name).unwrap_or(&Value::Null);
                differing(&below(name), value, counterpart, found);
            }
            for (name, value) in other.iter().filter(|(name, _)| !one.contains_key(*name)) {
                differing(&below(name), &Value::Null, value, found);
            }
        }
        (Value::Array(one), Value::Array(other))
            if one.len() == other.len() && one.iter().all(Value::is_object) =>
        {
            for (at, (value, counterpart)) in one.iter().zip(other).enumerate() {
                differing(&below(&at.to_string()), value, counterpart, found);
            }
        }
        _ if a != b => found.push((path.to_owned(), [a.clone(), b.clone()])),
        _ => {}
    }
}

impl Difference {
    /// When the first of the two sides decides so.
    fn first_ns(&self) -> Ns {
        let times = self.at_ns.iter().flatten();
        times.min().copied().unwrap_or(Ns::MAX)
    }

    fn text(&self, names: [&String; 2]) -> String {
        let [one, other] = [0, 1].map(|row| {
            let told = self.sides[row].as_ref();
            let text = told.map_or("", |(_, told)| told.text.as_str());
            format!("{}:\n{text}", names[row])
        });
        let mut text = format!(
            "First difference between `{}` and `{}`: on CPU {}\n\n{one}\n{other}",
            names[0], names[1], self.cpu
        );
        if !self.inputs.is_empty() {
            text += "\nwhat differs:\n";
        }
        for (name, [one, other]) in self.inputs.iter().take(SHOWN) {
            text += &format!("  {name}  {one}  {other}\n");
        }
        if self.inputs.len() > SHOWN {
            text += &format!(
                "  and {} more (--json has all)\n",
                self.inputs.len() - SHOWN
            );
        }
        if let Some(cause) = &self.cause {
            text += &cause.text(names);
        }
        text
    }

    /// The difference as a JSON object.
    pub(crate) fn value(&self) -> serde_json::Value {
        let sides = self.sides.each_ref().map(|side| {
            let told = side.as_ref();
            told.map(|(name, told)| serde_json::json!({ "variant": name, "decision": told.value }))
        });
        let mut value = serde_json::json!({ "cpu": self.cpu, "sides": sides });
        if !self.inputs.is_empty() {
            let inputs = self.inputs.iter().cloned();
            let inputs = inputs.map(|(name, values)| (name, Value::from(values.to_vec())));
            value["inputs"] = Value::Object(inputs.collect());
        }
        if let Some(cause) = &self.cause {
            value["cause"] = cause.value();
        }
        value
    }
}

/// The same as [`first_difference`], in both forms; `None` when both decide alike to their ends.
///
/// # Errors
/// As [`first_difference`], and inputs of a kernel tree, which are not known.
pub fn difference(
    simulator: &Simulator,
    a: &Scenario,
    b: &Scenario,
    seed: u64,
    compared: Compared,
) -> Result<Option<Difference>> {
    if a.kernel.tree.is_some() || b.kernel.tree.is_some() {
        if compared == Compared::Inputs {
            let message = "what the C of a kernel tree decides from is not known";
            return Err(Error::general(message).hint("leave out --inputs: events are compared"));
        }
        let which = match a.kernel.tree.is_some() && b.kernel.tree.is_some() {
            true => Which::OfTrees,
            false => Which::All,
        };
        return parting(simulator, [a, b], seed, which, Ns::MAX);
    }
    let mut found = first(simulator, [a, b], (seed, compared), Ns::MAX)?;
    if let Some(found) = &mut found {
        found.cause = cause::of(simulator, [a, b], (seed, compared), found)?;
    }
    Ok(found)
}

/// Whether a variant changes its kernel while it runs.
pub(super) fn changes_kernel(scenario: &Scenario) -> bool {
    let mut changes = scenario.changes.iter();
    changes.any(|change| change.kernel.is_some())
}

/// The first difference of two variants without a tree, up to about `end_ns`.
pub(super) fn first(
    simulator: &Simulator,
    [a, b]: [&Scenario; 2],
    (seed, compared): (u64, Compared),
    end_ns: Ns,
) -> Result<Option<Difference>> {
    let found = decided(simulator, [a, b], (seed, compared), end_ns)?;
    if compared == Compared::Inputs || changes_kernel(a) || changes_kernel(b) {
        return Ok(found);
    }
    // A tick that lets a task run on is no decision above, and one that ends its request is.
    let end_ns = found.as_ref().map_or(end_ns, Difference::first_ns);
    let earlier = parting(simulator, [a, b], seed, Which::GivesWay, end_ns)?;
    Ok(earlier.or(found))
}

/// The first decision that differs, up to about `end_ns`.
fn decided(
    simulator: &Simulator,
    [a, b]: [&Scenario; 2],
    (seed, compared): (u64, Compared),
    end_ns: Ns,
) -> Result<Option<Difference>> {
    let mut a = Side::start(simulator, a, seed, compared)?;
    let mut b = Side::start(simulator, b, seed, compared)?;
    let mut until = 0;
    let mut seen = false;
    while !(a.over && b.over) && (until <= end_ns || seen) {
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
    let mut inputs = Vec::new();
    if let (Some(one), Some(other)) = (a.waiting[cpu].front(), b.waiting[cpu].front())
        && let (Part::Whole(one), Part::Whole(other)) = (&one.part, &other.part)
    {
        differing("", one, other, &mut inputs);
    }
    Difference {
        cpu,
        inputs,
        sides: [a.tell_front(cpu), b.tell_front(cpu)],
        cause: None,
        at_ns: [a, b].map(|side| side.front_time(cpu)),
    }
}
