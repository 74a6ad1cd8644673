//! Why the scheduler did what it did: single decisions with the state behind them, and the first
//! decision in which two kernels differ.
//!
//! ```text
//! Scenario ──► World that explains ──► decisions, event by event ──► filter ──► text
//!                  twice, two rule sets ──► compared CPU by CPU ──► first difference
//! ```
//!
//! Worked example: `--task worker --kind place` runs the scenario until a CPU is chosen for a
//! thread called `worker` and prints the chosen CPU, the rule, the CPUs that were idle and how many
//! were looked at. Nothing of this costs anything in other runs: a world that explains is a type of
//! its own.

mod cause;
mod describe;
mod difference;
mod events;
mod json;
mod run;
#[cfg(test)]
mod tests;

use schedcast_kernel::Ns;
use schedcast_kernel::explain::Decision;
use schedcast_kernel::select::WakeKind;
use schedcast_sim::{Explained, World};

use crate::error::{Error, Result, hint_for};
use crate::experiment::Scenario;
use crate::simulator::Simulator;

pub use cause::Cause;
pub(crate) use describe::cpu_list;
use describe::describe;
pub use difference::{Compared, Difference, difference, difference_text, first_difference};
pub use json::{decisions_json, difference_json};
use run::Decisions;

schedcast_base::named! {
    /// A kind of decision.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Kind {
        /// Which task runs next.
        Pick = "pick",
        /// Whether a task that woke takes the CPU.
        Preempt = "preempt",
        /// Which CPU a waking or starting task goes to.
        Place = "place",
        /// That a CPU's queue of a limited group has no runtime left.
        Throttle = "throttle",
        /// Whether tasks are moved between CPUs.
        Balance = "balance",
    }
}

impl Kind {
    /// The kind of a decision.
    pub fn of(decision: &Decision) -> Kind {
        match decision {
            Decision::Pick { .. } => Kind::Pick,
            Decision::Preempt { .. } => Kind::Preempt,
            Decision::Place { .. } => Kind::Place,
            Decision::Throttle { .. } => Kind::Throttle,
            Decision::Balance { .. } => Kind::Balance,
        }
    }
}

/// Which decisions are wanted; what is `None` does not matter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Not before this virtual time, ns.
    pub at_ns: Option<Ns>,
    /// About a task of this name.
    pub task: Option<String>,
    /// Kind of the decisions.
    pub kind: Option<Kind>,
    /// How many.
    pub count: usize,
    /// Whether the scenario replays a recording.
    pub of_replay: bool,
}

impl Wanted {
    fn wants(&self, world: &World<true>, one: &Explained) -> bool {
        // A thread that was there when the recording began has to be started in the replay: that
        // decision is none of the recorded machine's.
        let is_set_up = self.of_replay
            && matches!(&one.decision, Decision::Place(place)
                if place.kind == WakeKind::Fork && world.is_there_at_start(place.task));
        if is_set_up && self.at_ns.is_none() {
            return false;
        }
        let named = |name: &str| concerns(&one.decision, &|task| world.task_name(task) == name);
        self.at_ns.is_none_or(|at_ns| one.time_ns >= at_ns)
            && self.kind.is_none_or(|kind| Kind::of(&one.decision) == kind)
            && self.task.as_deref().is_none_or(named)
    }
}

/// Whether a decision is about a task for which `is` holds.
fn concerns(decision: &Decision, is: &dyn Fn(schedcast_kernel::TaskId) -> bool) -> bool {
    match decision {
        Decision::Pick { task, .. } => is(*task),
        Decision::Place(one) => is(one.task),
        Decision::Preempt { wakee, curr, .. } => is(*wakee) || is(*curr),
        Decision::Throttle { .. } | Decision::Balance { .. } => false,
    }
}

/// A decision in both forms.
#[derive(Clone, PartialEq, Debug)]
pub struct Told {
    /// For people: several lines, the last one ended.
    pub text: String,
    /// For programs: one object, units in its names.
    pub value: serde_json::Value,
}

impl Told {
    fn of(world: &World<true>, one: &Explained) -> Self {
        Self {
            text: describe(world, one),
            value: json::value(world, one),
        }
    }
}

/// Runs a scenario under a seed and describes the first decisions that are wanted.
///
/// # Errors
/// A scenario that cannot be run, a task that it does not have, and when no such decision is made.
pub fn explain(
    simulator: &Simulator,
    scenario: &Scenario,
    seed: u64,
    wanted: &Wanted,
) -> Result<String> {
    let told = decisions(simulator, scenario, seed, wanted)?;
    let texts: Vec<String> = told.into_iter().map(|one| one.text).collect();
    Ok(texts.join("\n"))
}

/// The same, decision by decision, as text and as JSON.
///
/// # Errors
/// As [`explain`].
pub fn decisions(
    simulator: &Simulator,
    scenario: &Scenario,
    seed: u64,
    wanted: &Wanted,
) -> Result<Vec<Told>> {
    let mut decisions = Decisions::start(simulator, scenario, seed)?;
    if let (Some(_), Some(kind @ (Kind::Throttle | Kind::Balance))) = (&wanted.task, wanted.kind) {
        let message = format!(
            "a decision of the kind `{}` is about a CPU, and about no task",
            kind.name()
        );
        return Err(Error::usage(message).hint("leave out --task or --kind"));
    }
    if let Some(name) = &wanted.task {
        refuse_unknown_task(decisions.world(), name)?;
    }
    let mut found = Vec::new();
    while found.len() < wanted.count {
        let Some(event) = decisions.next()? else {
            break;
        };
        let world = decisions.world();
        let fitting = event.iter().filter(|one| wanted.wants(world, one));
        found.extend(
            fitting
                .take(wanted.count - found.len())
                .map(|one| Told::of(world, one)),
        );
    }
    if found.is_empty() {
        let end = crate::experiment::units::format_duration_ns(decisions.world().now());
        let hint = match wanted.of_replay && scenario.duration_ns.is_none() {
            true => "the recording ends there: leave out --at, --task or --kind",
            false => "leave out --at, --task or --kind, or give a longer --duration",
        };
        return Err(Error::usage(format!("no such decision up to {end}")).hint(hint));
    }
    Ok(found)
}

fn refuse_unknown_task(world: &World<true>, name: &str) -> Result<()> {
    let workload = world.workload();
    let tasks = workload.tasks.iter().map(|task| task.name.as_str());
    let mut names: Vec<&str> = tasks
        .chain(workload.forks.iter().map(|fork| fork.name.as_str()))
        .collect();
    names.sort_unstable();
    names.dedup();
    if names.contains(&name) {
        return Ok(());
    }
    Err(Error::usage(format!("no task is called `{name}`")).hint(hint_for(name, &names)))
}
