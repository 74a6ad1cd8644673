//! From values with places to a typed [`File`]: the objects `tasks`, a task, a phase.
//!
//! A task holds either `phases`, an object of phases in order, or the events themselves. The two
//! spellings differ in what `loop` means, a trap worth a table:
//!
//! | in the file                          | phases gone through  | events gone through |
//! |--------------------------------------|----------------------|---------------------|
//! | `phases`, no `loop`                  | forever              | as each phase says  |
//! | `phases`, `"loop": 3`                | 3 times              | as each phase says  |
//! | events in the task, no `loop`        | forever              | once                |
//! | events in the task, `"loop": 3`      | once                 | 3 times             |
//!
//! rt-app 1.0 differs in the last row: there the thread goes on forever, three loops at a time.

use super::ast::{Body, File, Located, Note, Phase, Policy, Repeat, Scheduling, Task};
use super::error::{Fault, Span, quoted};
use super::fields::{Fields, INTEGER_MAX, mismatch, object};
use super::json::{Kind, Member, Value};
use super::{attributes, events, global, obsolete, references};

const ROOT_KEYS: [&str; 4] = ["tasks", "global", "resources", "schedcast"];

const SCHEDULING_KEYS: [&str; 10] = [
    "policy",
    "priority",
    "dl-runtime",
    "dl-period",
    "dl-deadline",
    "util_min",
    "util_max",
    "cpus",
    "nodes_membind",
    "taskgroup",
];

const PHASE_KEYS: [&str; 1] = ["loop"];

/// `runtime` as a property is the old spelling of `dl-runtime`; see [`legacy_deadline`].
const TASK_KEYS: [&str; 6] = ["loop", "instance", "delay", "phases", "period", "deadline"];

/// Reads a whole file from its top value.
pub(super) fn read(name: &str, root: &Value) -> Result<File, Fault> {
    let Kind::Object(members) = &root.kind else {
        return Err(mismatch("an rt-app file", root, "an object with `tasks`"));
    };
    let fields = Fields::new("the file", members, &ROOT_KEYS)?;
    refuse_extensions(&fields)?;
    let mut notes = Vec::new();
    let global = match fields.member("global") {
        Some(member) => global::read(&member.value, &mut notes)?,
        None => global::absent(root.span),
    };
    let resources = fields.member("resources");
    if let Some(member) = resources {
        obsolete::check_resources(&member.value)?;
    }
    let (tasks, tasks_span) = match fields.member("tasks") {
        Some(member) => (
            read_tasks(&member.value, global.default_policy, &mut notes)?,
            member.span,
        ),
        // A piece for the script `merge.py`; loads, but cannot run alone.
        None if fields.member("global").or(resources).is_some() => (Vec::new(), root.span),
        None => {
            return Err(Fault::new(
                root.span,
                "an rt-app file needs an object `tasks`",
            ));
        }
    };
    let name = name.to_owned();
    let mut file = File {
        name,
        global,
        tasks,
        notes,
        tasks_span,
    };
    attributes::check(&mut file)?;
    references::check(&mut file)?;
    file.notes.sort_by_key(|note| note.span);
    Ok(file)
}

/// The one place where schedcast adds to the grammar; nothing is added yet.
fn refuse_extensions(fields: &Fields<'_>) -> Result<(), Fault> {
    let Some(member) = fields.member("schedcast") else {
        return Ok(());
    };
    match object("`schedcast`", &member.value)?.first() {
        None => Ok(()),
        Some(first) => {
            let message = format!("{} of `schedcast` is not supported yet", quoted(&first.key));
            Err(Fault::new(first.span, message))
        }
    }
}

fn read_tasks(
    value: &Value,
    default_policy: Policy,
    notes: &mut Vec<Note>,
) -> Result<Vec<Task>, Fault> {
    let members = object("`tasks`", value)?;
    let names = unique_names(members);
    let mut tasks = Vec::with_capacity(members.len());
    for (member, name) in members.iter().zip(names) {
        let mut reader = TaskReader {
            member,
            default_policy,
            notes,
        };
        tasks.push(reader.read(name)?);
    }
    Ok(tasks)
}

/// Gives equal task names a number, the way `workgen` does: `a`, `a`, `a` become `a`, `a1`, `a2`.
/// One counter serves the whole object and only moves on when its number is taken.
fn unique_names(members: &[Member]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(members.len());
    let mut taken = std::collections::BTreeSet::new();
    let mut number = 1_u64;
    for member in members {
        let mut name = member.key.clone();
        if taken.contains(&name) {
            while taken.contains(&format!("{}{number}", member.key)) {
                number += 1;
            }
            name = format!("{}{number}", member.key);
        }
        taken.insert(name.clone());
        names.push(name);
    }
    names
}

struct TaskReader<'a> {
    member: &'a Member,
    default_policy: Policy,
    notes: &'a mut Vec<Note>,
}

impl TaskReader<'_> {
    fn read(&mut self, name: String) -> Result<Task, Fault> {
        let owner = format!("task {}", quoted(&self.member.key));
        let members = object(&owner, &self.member.value)?;
        if let Some(found) = obsolete::find(members) {
            return self.obsolete(name, &owner, members, found);
        }
        let with_phases = members.iter().any(|member| member.key == "phases");
        let (event_members, properties) = split(members, with_phases);
        if let (true, Some(event)) = (with_phases, event_members.first()) {
            return Err(event_beside_phases(event, &owner));
        }
        let mut valid = [&TASK_KEYS[..], &SCHEDULING_KEYS[..]].concat();
        if with_phases {
            valid.push("runtime");
        } else {
            valid.extend(events::KINDS);
        }
        let fields = Fields::new(&owner, properties, &valid)?;
        let scheduling = self.task_scheduling(&fields, &event_members)?;
        let instances = fields.unsigned("instance")?.map_or(1, |count| count.value);
        let delay_us = fields.unsigned("delay")?.map_or(0, |delay| delay.value);
        let (repeat, phases) = match fields.member("phases") {
            Some(phases) => {
                let repeat = task_repeat(&fields)?.unwrap_or(Repeat::Forever);
                (repeat, self.phases(&owner, &phases.value)?)
            }
            None => {
                let phase_repeat = phase_repeat(&fields, self.notes)?;
                let repeat = if phase_repeat.is_some() {
                    Repeat::Times(1)
                } else {
                    Repeat::Forever
                };
                let phase = Phase {
                    name: None,
                    span: self.member.span,
                    repeat: phase_repeat.unwrap_or(Repeat::Times(1)),
                    scheduling: Scheduling::default(),
                    events: self.events(&owner, self.member.span, &event_members)?,
                };
                (repeat, vec![phase])
            }
        };
        let body = Body::Phases(phases);
        Ok(self.task(name, instances, delay_us, repeat, scheduling, body))
    }

    fn task(
        &self,
        name: String,
        instances: u32,
        delay_us: u32,
        repeat: Repeat,
        scheduling: Scheduling,
        body: Body,
    ) -> Task {
        let written_name = self.member.key.clone();
        let span = self.member.span;
        Task {
            name,
            written_name,
            span,
            instances,
            delay_us,
            repeat,
            scheduling,
            body,
        }
    }

    fn obsolete(
        &self,
        name: String,
        owner: &str,
        members: &[Member],
        found: &Member,
    ) -> Result<Task, Fault> {
        obsolete::check_task(owner, members)?;
        let body = Body::Obsolete(Located::new(found.key.clone(), found.span));
        Ok(self.task(name, 1, 0, Repeat::Forever, Scheduling::default(), body))
    }

    fn phases(&mut self, owner: &str, value: &Value) -> Result<Vec<Phase>, Fault> {
        let members = object(&format!("\"phases\" of {owner}"), value)?;
        if members.is_empty() {
            let message = format!("\"phases\" of {owner}: expected at least one phase");
            return Err(Fault::new(value.span, message));
        }
        members
            .iter()
            .map(|member| self.phase(owner, member))
            .collect()
    }

    fn phase(&mut self, task: &str, member: &Member) -> Result<Phase, Fault> {
        let owner = format!("phase {} of {task}", quoted(&member.key));
        let members = object(&owner, &member.value)?;
        let (event_members, properties) = split(members, false);
        let valid = [&PHASE_KEYS[..], &SCHEDULING_KEYS[..], &events::KINDS[..]].concat();
        for property in &properties {
            if ["instance", "delay", "phases"].contains(&property.key.as_str()) {
                let message = format!(
                    "{} is a key of a task, not of a phase; rt-app would ignore it in {owner}",
                    quoted(&property.key)
                );
                return Err(Fault::new(property.span, message));
            }
        }
        let fields = Fields::new(&owner, properties, &valid)?;
        Ok(Phase {
            name: Some(member.key.clone()),
            span: member.span,
            repeat: phase_repeat(&fields, self.notes)?.unwrap_or(Repeat::Times(1)),
            scheduling: scheduling(&fields)?,
            events: self.events(&owner, member.span, &event_members)?,
        })
    }

    fn events(
        &mut self,
        owner: &str,
        span: Span,
        members: &[&Member],
    ) -> Result<Vec<super::ast::Event>, Fault> {
        if members.is_empty() {
            return Err(Fault::new(span, format!("{owner} has no events")));
        }
        let mut list = Vec::with_capacity(members.len());
        for member in members {
            let kind = events::event_kind(&member.key).unwrap_or_default();
            list.push(events::read(
                member,
                kind,
                owner,
                &self.member.key,
                self.notes,
            )?);
        }
        Ok(list)
    }

    fn task_scheduling(
        &self,
        fields: &Fields<'_>,
        event_members: &[&Member],
    ) -> Result<Scheduling, Fault> {
        let mut scheduling = scheduling(fields)?;
        let policy = scheduling
            .policy
            .as_ref()
            .map_or(self.default_policy, |policy| policy.value);
        let runtime = match event_members.iter().find(|member| member.key == "runtime") {
            // An event of this name is a budget as well, but only where one is needed: under a
            // fair policy it would set a slice that was not asked for.
            Some(event) if policy == Policy::Deadline => {
                Fields::new("", [*event], &["runtime"])?.unsigned("runtime")?
            }
            Some(_) => None,
            None => fields.unsigned("runtime")?,
        };
        legacy_deadline(&mut scheduling.dl_runtime_us, runtime);
        legacy_deadline(&mut scheduling.dl_period_us, fields.unsigned("period")?);
        legacy_deadline(&mut scheduling.dl_deadline_us, fields.unsigned("deadline")?);
        Ok(scheduling)
    }
}

/// Old files spell the budget of a task without `dl-`; the new spelling wins unless it says 0.
fn legacy_deadline(target: &mut Option<Located<u32>>, legacy: Option<Located<u32>>) {
    if target.as_ref().is_none_or(|new| new.value == 0) && legacy.is_some() {
        *target = legacy;
    }
}

/// Separates events from properties. In a task with phases a plain `runtime` is a property.
fn split(members: &[Member], with_phases: bool) -> (Vec<&Member>, Vec<&Member>) {
    members.iter().partition(|member| {
        events::event_kind(&member.key).is_some() && !(with_phases && member.key == "runtime")
    })
}

fn event_beside_phases(event: &Member, owner: &str) -> Fault {
    let message = format!(
        "event {} stands beside \"phases\" in {owner}; rt-app would ignore it, so move it into a \
         phase",
        quoted(&event.key)
    );
    Fault::new(event.span, message)
}

fn task_repeat(fields: &Fields<'_>) -> Result<Option<Repeat>, Fault> {
    let times = fields.integer("loop", -1..=INTEGER_MAX)?;
    Ok(times.map(|times| u32::try_from(times.value).map_or(Repeat::Forever, Repeat::Times)))
}

/// A phase compares its count only after going through its events, so 0 never ends it.
fn phase_repeat(fields: &Fields<'_>, notes: &mut Vec<Note>) -> Result<Option<Repeat>, Fault> {
    let repeat = task_repeat(fields)?;
    if repeat != Some(Repeat::Times(0)) {
        return Ok(repeat);
    }
    if let Some(span) = fields.span("loop") {
        let message = String::from("`loop` 0 repeats the events forever, like -1");
        notes.push(Note { span, message });
    }
    Ok(Some(Repeat::Forever))
}

fn scheduling(fields: &Fields<'_>) -> Result<Scheduling, Fault> {
    let signed = |located: Located<i64>| {
        Located::new(
            i32::try_from(located.value).unwrap_or(i32::MAX),
            located.span,
        )
    };
    let priority_range = i64::from(i32::MIN)..=INTEGER_MAX;
    Ok(Scheduling {
        policy: fields.choice("policy", &Policy::choices())?,
        priority: fields.integer("priority", priority_range)?.map(signed),
        dl_runtime_us: fields.unsigned("dl-runtime")?,
        dl_period_us: fields.unsigned("dl-period")?,
        dl_deadline_us: fields.unsigned("dl-deadline")?,
        util_min: fields.integer("util_min", -1..=1024)?.map(signed),
        util_max: fields.integer("util_max", -1..=1024)?.map(signed),
        cpus: fields.numbers("cpus")?,
        nodes_membind: fields.numbers("nodes_membind")?,
        taskgroup: taskgroup(fields)?,
    })
}

fn taskgroup(fields: &Fields<'_>) -> Result<Option<Located<String>>, Fault> {
    let Some(name) = fields.string("taskgroup")? else {
        return Ok(None);
    };
    if name.value.is_empty() {
        return Ok(None);
    }
    if !name.value.starts_with('/') {
        let message = format!(
            "taskgroup {} must begin with `/`, as in \"/{}\"",
            quoted(name.value),
            name.value
        );
        return Err(Fault::new(name.span, message));
    }
    Ok(Some(Located::new(name.value.to_owned(), name.span)))
}
