//! Content that loads but cannot run: reported with its place, so that a file can be changed there.
//!
//! Loading and running are asked apart because a file is often read only to look at it, or to
//! change one task of it. Nothing here is a mistake of the file.

use super::ast::{Action, Body, Event, File, MemoryAccess, Policy, Scheduling, Task};
use super::attributes::{Attributed, Attributes};
use super::error::{Span, quoted};
use schedcast_kernel::uclamp::{LARGEST, Wish};

/// One thing that stops a file from running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Where the file asks for it.
    pub span: Span,
    /// Feature that it asks for.
    pub what: String,
    /// Why that does not run.
    pub why: &'static str,
}

impl Refusal {
    fn new(span: Span, what: impl Into<String>, why: &'static str) -> Self {
        let what = what.into();
        Self { span, what, why }
    }
}

const BAD_RESERVATION: &str = "the kernel refuses it: expected 2 us <= dl-runtime <= dl-deadline <= dl-period, \
                               and a period from 100 us to 4194304 us";
const NO_UCLAMP: &str = "this kernel is built without utilisation clamps; `uclamp = true` in [kernel] \
                         builds it with them";
const BAD_CLAMPS: &str = "the kernel refuses a least utilisation above the most; a real-time thread \
                          without `util_min` has 1024";
const NO_NUMA: &str = "memory has no place in the model, so that binding it would change nothing";
const NO_OBSOLETE: &str = "rt-app stopped reading this grammar in 2014; write the task with events";
const NO_TASKS: &str = "there is nothing to run; this looks like a piece for merge.py";
const NO_INHERITANCE: &str = "priority inheritance is not modelled";
const NO_CHASE: &str = "its cost is that of cache misses, which are not modelled";
const NO_DEVICE: &str = "only /dev/null and /dev/zero are modelled, which take everything at once";
const NO_SLICE_CHANGE: &str = "the slice of a fair task can only be given to a task that is not \
                               forked, from its start on";

/// Devices whose `write` returns at once.
const SINKS: [&str; 2] = ["/dev/null", "/dev/zero"];

impl File {
    /// Everything that stops this file from running on a kernel with or without utilisation
    /// clamps, in the order of the text.
    pub fn unsupported(&self, has_clamps: bool) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        if self.tasks.is_empty() {
            refusals.push(Refusal::new(
                self.tasks_span,
                "a file without tasks",
                NO_TASKS,
            ));
        }
        if self.global.pi_enabled.value && self.uses_locks() {
            refusals.push(Refusal::new(
                self.global.pi_enabled.span,
                "pi_enabled",
                NO_INHERITANCE,
            ));
        }
        for task in &self.tasks {
            self.refuse_task(task, &mut refusals);
            if !has_clamps {
                refuse_clamps(task, &mut refusals);
            }
        }
        refusals.sort_by_key(|refusal| refusal.span);
        refusals
    }

    fn refuse_task(&self, task: &Task, refusals: &mut Vec<Refusal>) {
        if let Body::Obsolete(key) = &task.body {
            let what = format!("`{}`", key.value);
            refusals.push(Refusal::new(key.span, what, NO_OBSOLETE));
        }
        let Attributed { start, phases } = task.attributes(self.global.default_policy);
        refuse(&task.scheduling, Some(start), task.span, refusals);
        refuse_contradiction(&task.scheduling, &start, refusals);
        if self.is_forked(task) {
            refuse_slice(&task.scheduling, Some(start), refusals);
        }
        for (phase, change) in task.phases().iter().zip(phases) {
            refuse(&phase.scheduling, change, phase.span, refusals);
            refuse_slice(&phase.scheduling, change, refusals);
        }
        for event in task.events() {
            self.refuse_event(event, refusals);
        }
    }

    fn refuse_event(&self, event: &Event, refusals: &mut Vec<Refusal>) {
        let why = match &event.action {
            Action::MemoryRun(run) if matches!(run.access, MemoryAccess::Chase { .. }) => NO_CHASE,
            Action::InputOutputRun(_) if !SINKS.contains(&self.global.io_device.as_str()) => {
                NO_DEVICE
            }
            _ => return,
        };
        let what = format!("event {}", quoted(&event.key));
        refusals.push(Refusal::new(event.span, what, why));
    }

    fn is_forked(&self, task: &Task) -> bool {
        let mut events = self.tasks.iter().flat_map(Task::events);
        events.any(|event| matches!(&event.action, Action::Fork(name) if *name == task.name))
    }

    fn uses_locks(&self) -> bool {
        let mut events = self.tasks.iter().flat_map(|task| task.events());
        events.any(|event| matches!(event.action, Action::Lock(_) | Action::Barrier(_)))
    }
}

/// Refuses what the keys of a task or a phase ask for; `change` is what they make of it.
fn refuse(said: &Scheduling, change: Option<Attributes>, span: Span, refusals: &mut Vec<Refusal>) {
    let reservation = change.and_then(|attributes| attributes.reservation());
    if let Some(asked) = reservation.filter(|asked| !asked.is_valid()) {
        let span = said.policy.as_ref().map_or(span, |policy| policy.span);
        let [runtime, deadline, period] =
            [asked.runtime_ns, asked.deadline_ns, asked.period_ns].map(|ns| ns / 1000);
        refusals.push(Refusal {
            span,
            what: format!(
                "SCHED_DEADLINE with a runtime of {runtime} us, a deadline of {deadline} us and a period of {period} us"
            ),
            why: BAD_RESERVATION,
        });
    }
    if let Some(nodes) = &said.nodes_membind {
        let what = String::from("nodes_membind");
        refusals.push(Refusal::new(nodes.span, what, NO_NUMA));
    }
}

/// Refuses the clamps of a task and its phases.
fn refuse_clamps(task: &Task, refusals: &mut Vec<Refusal>) {
    let phases = task.phases().iter().map(|phase| &phase.scheduling);
    for said in phases.chain([&task.scheduling]) {
        for (name, clamp) in [("util_min", &said.util_min), ("util_max", &said.util_max)] {
            // −1 is how a file says "no clamp".
            if let Some(clamp) = clamp.as_ref().filter(|clamp| clamp.value >= 0) {
                refusals.push(Refusal::new(clamp.span, name, NO_UCLAMP));
            }
        }
    }
}

/// Refuses clamps of a thread's start that the kernel would; later ones depend on what came before.
fn refuse_contradiction(said: &Scheduling, start: &Attributes, refusals: &mut Vec<Refusal>) {
    let value = |wish: Wish, without: u32| match wish {
        Wish::Set(value) => value,
        _ => without,
    };
    let real_time = start.policy.is_real_time() && start.clamps.min == Wish::Keep;
    let least = value(start.clamps.min, if real_time { LARGEST } else { 0 });
    let most = value(start.clamps.max, LARGEST);
    if least > most {
        // Nothing contradicts the default most.
        let Some(most_said) = &said.util_max else {
            return;
        };
        refusals.push(Refusal::new(
            most_said.span,
            format!("a utilisation of at least {least} and at most {most}"),
            BAD_CLAMPS,
        ));
    }
}

fn refuse_slice(said: &Scheduling, change: Option<Attributes>, refusals: &mut Vec<Refusal>) {
    let sets_slice = |attributes: Attributes| {
        let fair = matches!(attributes.policy, Policy::Other | Policy::Batch);
        fair && attributes.runtime_us > 0 && !attributes.only_clamps
    };
    if let (true, Some(runtime)) = (change.is_some_and(sets_slice), &said.dl_runtime_us) {
        let what = String::from("`dl-runtime`");
        refusals.push(Refusal::new(runtime.span, what, NO_SLICE_CHANGE));
    }
}
