//! Which policy and priority a thread has when, worked out from what task and phases say.
//!
//! A task always sets something at its start: its own keys, else `default_policy`, else the
//! policy's usual priority (nice 0, real-time priority 10). A phase changes only what it says, and
//! `priority` means what the policy in force makes of it:
//!
//! ```text
//! task   "policy": "SCHED_FIFO"           → FIFO, priority 10
//! phase  "priority": 20                   → FIFO, priority 20     the policy stays
//! phase  "run": 100                       → nothing changes
//! phase  "policy": "SCHED_OTHER"          → OTHER, nice 0         a named policy brings its default
//! phase  "dl-runtime": 3000               → nothing changes       rt-app skips it without either
//! phase  "util_min": 300                  → a clamp               policy and priority stay
//! ```
//!
//! rt-app resolves "the policy stays" once, when a thread first gets there, and keeps the answer
//! for later loops; so one walk through the phases in order is enough.

use super::ast::{File, Located, Note, Policy, Scheduling, Task};
use super::error::{Fault, Span, quoted};
use schedcast_kernel::dl::Reservation;
use schedcast_kernel::uclamp::{Clamps, Wish};

const REAL_TIME_PRIORITY_DEFAULT: i32 = 10;

/// cgroups that rt-app as Debian and upstream build it can hold.
const TASKGROUPS_MAX: usize = 32;

/// Scheduling attributes that a thread asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The policy.
    pub policy: Policy,
    /// Nice value or real-time priority; without meaning for `SCHED_IDLE` and `SCHED_DEADLINE`.
    pub priority: i32,
    /// `dl-runtime` in microseconds, 0 if not said: the budget of `SCHED_DEADLINE`, the length of
    /// the slice under a fair policy.
    pub runtime_us: u32,
    /// Period of `SCHED_DEADLINE` in microseconds.
    pub period_us: u32,
    /// Relative deadline of `SCHED_DEADLINE` in microseconds.
    pub deadline_us: u32,
    /// `util_min` and `util_max`, which rt-app sets under every policy but `SCHED_DEADLINE`.
    pub clamps: Clamps<Wish>,
    /// Only the clamps are set: policy and priority stay as they are.
    pub only_clamps: bool,
}

/// Attributes over a thread's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributed {
    /// Set before the first phase.
    pub start: Attributes,
    /// Set at the beginning of each phase; `None` leaves everything as it is.
    pub phases: Vec<Option<Attributes>>,
}

impl Attributes {
    /// Reservation of a `SCHED_DEADLINE` task; `None` under another policy.
    pub(crate) fn reservation(&self) -> Option<Reservation> {
        let ns = |us: u32| u64::from(us) * 1000;
        (self.policy == Policy::Deadline).then(|| Reservation {
            runtime_ns: ns(self.runtime_us),
            deadline_ns: ns(self.deadline_us),
            period_ns: ns(self.period_us),
            reclaims: false,
        })
    }
}

impl Task {
    /// Scheduling attributes that the task's threads ask for, at their start and phase by phase.
    pub fn attributes(&self, default_policy: Policy) -> Attributed {
        let policy = self
            .scheduling
            .policy
            .as_ref()
            .map_or(default_policy, |policy| policy.value);
        let priority = self
            .scheduling
            .priority
            .as_ref()
            .map(|priority| priority.value);
        let priority = priority.unwrap_or(default_priority(policy));
        let start = attributes(policy, priority, &self.scheduling);
        let mut in_force = start;
        let phases = self.phases().iter().map(|phase| {
            let change = change(&phase.scheduling, in_force);
            in_force = change.unwrap_or(in_force);
            change
        });
        let phases = phases.collect();
        Attributed { start, phases }
    }
}

fn default_priority(policy: Policy) -> i32 {
    if policy.is_real_time() {
        REAL_TIME_PRIORITY_DEFAULT
    } else {
        0
    }
}

/// Change of attributes by a phase; `None` if there is none. Without a policy or a priority only
/// `SCHED_DEADLINE` looks further.
fn change(said: &Scheduling, in_force: Attributes) -> Option<Attributes> {
    let policy = said
        .policy
        .as_ref()
        .map_or(in_force.policy, |policy| policy.value);
    let changes_deadline = policy == Policy::Deadline && says_deadline(said);
    if said.policy.is_none() && said.priority.is_none() && !changes_deadline {
        let clamps = clamps(policy, said);
        return (clamps != Clamps::default()).then_some(Attributes {
            clamps,
            only_clamps: true,
            ..in_force
        });
    }
    let priority = match (&said.priority, &said.policy) {
        (Some(priority), _) => priority.value,
        (None, Some(_)) => default_priority(policy),
        (None, None) => in_force.priority,
    };
    Some(attributes(policy, priority, said))
}

fn says_deadline(said: &Scheduling) -> bool {
    [
        &said.dl_runtime_us,
        &said.dl_period_us,
        &said.dl_deadline_us,
    ]
    .into_iter()
    .any(|number| number.as_ref().is_some_and(|number| number.value > 0))
}

fn attributes(policy: Policy, priority: i32, said: &Scheduling) -> Attributes {
    let runtime_us = said.dl_runtime_us.as_ref().map_or(0, |number| number.value);
    let period_us = said
        .dl_period_us
        .as_ref()
        .map_or(runtime_us, |number| number.value);
    let deadline_us = said
        .dl_deadline_us
        .as_ref()
        .map_or(period_us, |number| number.value);
    Attributes {
        policy,
        priority,
        runtime_us,
        period_us,
        deadline_us,
        clamps: clamps(policy, said),
        only_clamps: false,
    }
}

fn clamps(policy: Policy, said: &Scheduling) -> Clamps<Wish> {
    let wish = |clamp: &Option<Located<i32>>| match clamp.as_ref().map(|clamp| clamp.value) {
        None => Wish::Keep,
        Some(value) => u32::try_from(value).map_or(Wish::Reset, Wish::Set),
    };
    match policy {
        Policy::Deadline => Clamps::default(),
        _ => Clamps::new(wish(&said.util_min), wish(&said.util_max)),
    }
}

/// Refuses priorities out of the policy's range and taskgroups under a policy that has none.
pub(super) fn check(file: &mut File) -> Result<(), Fault> {
    let mut notes = Vec::new();
    for task in &file.tasks {
        let attributed = task.attributes(file.global.default_policy);
        let mut walk = Walk {
            policy: attributed.start.policy,
            group: None,
            notes: &mut notes,
        };
        let owner = format!("task {}", quoted(&task.written_name));
        walk.step(&owner, task.span, &task.scheduling, Some(attributed.start))?;
        for (phase, change) in task.phases().iter().zip(attributed.phases) {
            let owner = match &phase.name {
                Some(name) => format!("phase {} of {owner}", quoted(name)),
                None => owner.clone(),
            };
            walk.step(&owner, phase.span, &phase.scheduling, change)?;
        }
    }
    file.notes.append(&mut notes);
    count_taskgroups(file);
    Ok(())
}

struct Walk<'a> {
    policy: Policy,
    group: Option<(String, Span)>,
    notes: &'a mut Vec<Note>,
}

impl Walk<'_> {
    fn step(
        &mut self,
        owner: &str,
        span: Span,
        said: &Scheduling,
        change: Option<Attributes>,
    ) -> Result<(), Fault> {
        let sets_policy = change.filter(|attributes| !attributes.only_clamps);
        if let Some(attributes) = sets_policy {
            self.policy = attributes.policy;
            self.check_priority(owner, said)?;
        } else if let Some(runtime) = &said.dl_runtime_us {
            let message =
                format!("`dl-runtime` of {owner} has no effect without `policy` or `priority`");
            self.notes.push(Note::new(runtime.span, message));
        }
        for (name, clamp) in [("util_min", &said.util_min), ("util_max", &said.util_max)] {
            if let Some(clamp) = clamp.as_ref().filter(|_| self.policy == Policy::Deadline) {
                self.notes.push(Note::new(
                    clamp.span,
                    format!("`{name}` of {owner} has no effect under SCHED_DEADLINE"),
                ));
            }
        }
        if let Some(group) = &said.taskgroup {
            self.group = Some((group.value.clone(), group.span));
        }
        let Some((group, group_span)) = &self.group else {
            return Ok(());
        };
        if self.policy.is_fair() {
            return Ok(());
        }
        let here = said.policy.as_ref().map_or(span, |policy| policy.span);
        let message = format!(
            "{owner} is in taskgroup {} (given at {group_span}), which {} cannot have; only \
             SCHED_OTHER, SCHED_BATCH and SCHED_IDLE can",
            quoted(group),
            self.policy.name()
        );
        Err(Fault::new(here, message))
    }

    fn check_priority(&mut self, owner: &str, said: &Scheduling) -> Result<(), Fault> {
        let Some(priority) = &said.priority else {
            return Ok(());
        };
        let (range, meaning) = match self.policy {
            Policy::Other | Policy::Batch => (-20..=19, "a nice value"),
            Policy::RoundRobin | Policy::Fifo => (1..=99, "a real-time priority"),
            Policy::Idle | Policy::Deadline => {
                let message = format!(
                    "`priority` of {owner} has no effect under {}",
                    self.policy.name()
                );
                self.notes.push(Note::new(priority.span, message));
                return Ok(());
            }
        };
        if range.contains(&priority.value) {
            return Ok(());
        }
        let message = format!(
            "\"priority\" of {owner}: expected {meaning} from {} to {} under {}, found {}",
            range.start(),
            range.end(),
            self.policy.name(),
            priority.value
        );
        Err(Fault::new(priority.span, message))
    }
}

fn count_taskgroups(file: &mut File) {
    let phases = file
        .tasks
        .iter()
        .flat_map(|task| task.phases())
        .map(|phase| &phase.scheduling);
    let every = file.tasks.iter().map(|task| &task.scheduling).chain(phases);
    let groups = every.filter_map(|scheduling| scheduling.taskgroup.as_ref());
    let distinct: std::collections::BTreeSet<&str> =
        groups.map(|group| group.value.as_str()).collect();
    if distinct.len() > TASKGROUPS_MAX {
        let message = format!(
            "{} taskgroups; rt-app as it is usually built stops at {TASKGROUPS_MAX}",
            distinct.len()
        );
        file.notes.push(Note::new(file.tasks_span, message));
    }
}
