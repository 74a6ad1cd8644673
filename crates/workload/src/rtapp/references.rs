//! Names that events share: forked tasks, suspended and resumed names, barriers, timers, buffers,
//! locks, conditions and semaphores.
//!
//! rt-app creates whatever an event names, so that a misspelt name becomes a second lock and a
//! thread that waits forever. Names that cannot work are errors here; names that work but do
//! nothing (a barrier with one user, a semaphore that no thread posts) become [notes](super::Note).
//!
//! A barrier's users are counted from the text: each use counts once for every instance of its
//! task. Two instances of `"a"` with one `"barrier": "B"` and one instance of `"b"` with two are
//! four users, so no thread passes before the fourth arrival. (rt-app 1.0 counts each use once.)

use std::collections::BTreeMap;

use super::ast::{Action, Event, File, MemoryRun, Note, Task, TimerMode, TimerUse};
use super::error::{Fault, Span, quoted};
use schedcast_base::names::{nearest, suggestion};

impl File {
    /// Threads that must come to a barrier before it opens.
    pub fn barrier_users(&self, barrier: &str) -> u64 {
        let waits =
            |event: &&Event| matches!(&event.action, Action::Barrier(name) if name == barrier);
        let users = |task: &Task| {
            let uses = task.events().filter(waits).count() as u64;
            uses * u64::from(task.instances)
        };
        self.tasks.iter().map(users).sum()
    }

    /// The mode of a timer that `task` uses: absolute if any use of it says so. A timer whose name
    /// begins with `unique` is the thread's own, so only uses in the same task count.
    pub fn timer_mode(&self, task: &Task, timer: &TimerUse) -> TimerMode {
        let absolute = |other: &TimerUse| {
            other.timer == timer.timer && other.mode == Some(TimerMode::Absolute)
        };
        let any = if timer.unique {
            timers(task).any(|(other, _)| absolute(other))
        } else {
            self.tasks
                .iter()
                .flat_map(timers)
                .any(|(other, _)| absolute(other))
        };
        if any {
            TimerMode::Absolute
        } else {
            TimerMode::Relative
        }
    }
}

fn timers(task: &Task) -> impl Iterator<Item = (&TimerUse, Span)> {
    task.events().filter_map(|event| match &event.action {
        Action::Timer(timer) => Some((timer, event.span)),
        _ => None,
    })
}

/// Refuses references that cannot work and notes those that do nothing.
pub(super) fn check(file: &mut File) -> Result<(), Fault> {
    let names = Names::collect(&file.tasks);
    check_forks(file)?;
    check_resumes(file, &names)?;
    check_buffers(&file.tasks)?;
    let mut notes = Vec::new();
    note_timer_modes(file, &mut notes);
    note_barriers(file, &names, &mut notes);
    note_idle_tasks(&file.tasks, &mut notes);
    names.note_pairs(&mut notes);
    file.notes.append(&mut notes);
    Ok(())
}

/// How many names a misspelt one is compared with.
const NAMES_COMPARED_MAX: usize = 100;

/// Where each kind of name is used, first use first.
///
/// `suspend` and `wait` share their names: in rt-app both wait on the condition of that name, and a
/// `signal` wakes a suspended thread as a `resume` wakes a waiting one.
#[derive(Default)]
struct Names<'a> {
    resumed: BTreeMap<&'a str, Span>,
    waited: BTreeMap<&'a str, Span>,
    woken: BTreeMap<&'a str, Span>,
    locked: BTreeMap<&'a str, Span>,
    unlocked: BTreeMap<&'a str, Span>,
    posted: BTreeMap<&'a str, Span>,
    taken: BTreeMap<&'a str, Span>,
    barriers: BTreeMap<&'a str, Span>,
}

impl<'a> Names<'a> {
    fn collect(tasks: &'a [Task]) -> Self {
        let mut names = Self::default();
        for event in tasks.iter().flat_map(Task::events) {
            names.add(event);
        }
        names
    }

    fn add(&mut self, event: &'a Event) {
        let (map, name) = match &event.action {
            Action::Suspend(name) => (&mut self.waited, name),
            Action::Resume(name) => {
                self.resumed.entry(name).or_insert(event.span);
                (&mut self.woken, name)
            }
            Action::Wait(condition) => (&mut self.waited, &condition.condition),
            Action::Signal(name) | Action::Broadcast(name) => (&mut self.woken, name),
            Action::Lock(name) => (&mut self.locked, name),
            Action::Unlock(name) => (&mut self.unlocked, name),
            Action::SemaphorePost(name) => (&mut self.posted, name),
            Action::SemaphoreWait(name) => (&mut self.taken, name),
            Action::Barrier(name) => (&mut self.barriers, name),
            Action::Sync(condition) => {
                // Wakes others and waits itself, so it stands on both sides.
                self.woken.entry(&condition.condition).or_insert(event.span);
                (&mut self.waited, &condition.condition)
            }
            _ => return,
        };
        map.entry(name).or_insert(event.span);
    }

    /// Notes names that appear on one side only of things that take two sides.
    fn note_pairs(&self, notes: &mut Vec<Note>) {
        let pairs = [
            (&self.waited, &self.woken, "nothing wakes those who wait on"),
            (&self.woken, &self.waited, "nothing waits on"),
            (&self.locked, &self.unlocked, "nothing unlocks"),
            (&self.unlocked, &self.locked, "nothing locks"),
            (&self.posted, &self.taken, "nothing takes from semaphore"),
            (&self.taken, &self.posted, "nothing posts semaphore"),
        ];
        for (used, other, complaint) in pairs {
            for (name, span) in used.iter().filter(|(name, _)| !other.contains_key(*name)) {
                let mut message = format!("{complaint} {}", quoted(name));
                // Comparing with every name would take long in a file of many thousand names.
                let candidates = other.keys().copied().take(NAMES_COMPARED_MAX);
                if let Some(near) = nearest(name, candidates) {
                    message.push_str(&format!("; nearest name: {}", quoted(near)));
                }
                notes.push(Note::new(*span, message));
            }
        }
    }
}

fn check_forks(file: &File) -> Result<(), Fault> {
    let names: Vec<&str> = file.tasks.iter().map(|task| task.name.as_str()).collect();
    for event in file.tasks.iter().flat_map(Task::events) {
        let Action::Fork(target) = &event.action else {
            continue;
        };
        let Some(task) = file.tasks.iter().find(|task| task.name == *target) else {
            let message = format!(
                "event {} forks task {}, which does not exist; {}",
                quoted(&event.key),
                quoted(target),
                suggestion(target, &names)
            );
            return Err(Fault::new(event.span, message));
        };
        let barrier = task
            .events()
            .find(|event| matches!(event.action, Action::Barrier(_)));
        if let Some(barrier) = barrier {
            let message = format!(
                "task {} has a barrier and is forked at {}; the users of a barrier must be known \
                 from the start",
                quoted(&task.written_name),
                event.span
            );
            return Err(Fault::new(barrier.span, message));
        }
    }
    Ok(())
}

/// A thread resumes what another suspends on, by default the name of a task. Resuming a task that
/// never suspends is without effect but harmless; anything else is a misspelling.
fn check_resumes(file: &File, names: &Names<'_>) -> Result<(), Fault> {
    for (target, span) in &names.resumed {
        let is_task = file.tasks.iter().any(|task| task.written_name == **target);
        if is_task || names.waited.contains_key(target) {
            continue;
        }
        let mut valid: Vec<&str> = names.waited.keys().copied().collect();
        for task in &file.tasks {
            if !valid.contains(&task.written_name.as_str()) {
                valid.push(&task.written_name);
            }
        }
        let message = format!(
            "nothing suspends on {}; {}",
            quoted(target),
            suggestion(target, &valid)
        );
        return Err(Fault::new(*span, message));
    }
    Ok(())
}

/// Walks that share a buffer must agree on how it is laid out.
fn check_buffers(tasks: &[Task]) -> Result<(), Fault> {
    let mut buffers: BTreeMap<&str, (&MemoryRun, Span)> = BTreeMap::new();
    for event in tasks.iter().flat_map(Task::events) {
        let Action::MemoryRun(run) = &event.action else {
            continue;
        };
        let Some(name) = &run.shared else { continue };
        let (first, first_span) = *buffers.entry(name).or_insert((run, event.span));
        if first.size_bytes != run.size_bytes || first.access != run.access {
            let message = format!(
                "event {} shares buffer {} with the one at {first_span} but differs in type, size, \
                 stride or pattern",
                quoted(&event.key),
                quoted(name)
            );
            return Err(Fault::new(event.span, message));
        }
    }
    Ok(())
}

fn note_timer_modes(file: &File, notes: &mut Vec<Note>) {
    for task in &file.tasks {
        for (timer, span) in timers(task) {
            let mode = file.timer_mode(task, timer);
            if mode == TimerMode::Absolute && timer.mode != Some(TimerMode::Absolute) {
                let message = format!(
                    "timer {} is absolute here too, because another use of it says so",
                    quoted(&timer.timer)
                );
                notes.push(Note { span, message });
            }
        }
    }
}

fn note_barriers(file: &File, names: &Names<'_>, notes: &mut Vec<Note>) {
    for (name, span) in &names.barriers {
        if file.barrier_users(name) < 2 {
            let message = format!("barrier {} has one user and never waits", quoted(name));
            notes.push(Note::new(*span, message));
        }
    }
}

fn note_idle_tasks(tasks: &[Task], notes: &mut Vec<Note>) {
    for task in tasks.iter().filter(|task| task.instances == 0) {
        let forked = |event: &Event| event.action == Action::Fork(task.name.clone());
        if !tasks.iter().flat_map(Task::events).any(forked) {
            let message = format!(
                "task {} has no instance and is not forked",
                quoted(&task.written_name)
            );
            notes.push(Note::new(task.span, message));
        }
    }
}
