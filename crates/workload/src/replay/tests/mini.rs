//! Recordings written by hand.

use schedcast_trace::{
    CommTable, Context, Counts, Event, EventKind, Exec, Fork, Level, Meta, Pid, PrevState,
    Recording, Switch, Task, Wakeup,
};
use std::path::PathBuf;

/// Makes a recording event by event; times in µs since its start, which is at 1000 s.
pub(super) struct Mini {
    events: Vec<Event>,
    comms: CommTable,
    pub meta: Meta,
    pub counts: Counts,
    groups: serde_json::Map<String, serde_json::Value>,
    /// Members at the end, where a test has them.
    tasks_after: Vec<(String, Vec<Pid>)>,
    /// Files that have another text at the end: path, name, text.
    files_after: Vec<[&'static str; 3]>,
    names: Vec<(Pid, &'static str)>,
}

const START_NS: u64 = 1_000_000_000_000;

pub(super) const TASK: Context = Context::TASK;
pub(super) const HARD: Context = Context::TASK.with_level(Level::HardIrq);
pub(super) const SOFT: Context = Context::TASK.with_level(Level::SoftIrq);

impl Mini {
    pub(super) fn new(names: &[(Pid, &'static str)]) -> Self {
        Self {
            events: Vec::new(),
            comms: CommTable::new(),
            meta: Meta::default(),
            counts: Counts::default(),
            groups: serde_json::Map::new(),
            tasks_after: Vec::new(),
            files_after: Vec::new(),
            names: names.to_vec(),
        }
    }

    fn comm(&mut self, pid: Pid) -> schedcast_trace::CommId {
        let known = self.names.iter().find(|(known, _)| *known == pid);
        let name = known.map_or("unnamed", |(_, name)| *name);
        self.comms.intern(name.as_bytes())
    }

    pub(super) fn push(&mut self, us: u64, cpu: u32, task: Pid, context: Context, kind: EventKind) {
        self.events.push(Event {
            time_ns: START_NS + us * 1000,
            cpu,
            task,
            context,
            kind,
        });
    }

    fn task(&mut self, pid: Pid) -> Task {
        Task {
            pid,
            comm: self.comm(pid),
            prio: 120,
        }
    }

    /// `prev` leaves in `state` (as printed), `next` comes.
    pub(super) fn switch(&mut self, us: u64, cpu: u32, prev: Pid, state: &str, next: Pid) {
        let kind = EventKind::Switch(Switch {
            prev: self.task(prev),
            prev_state: PrevState::from_text(state.as_bytes()).unwrap(),
            next: self.task(next),
        });
        self.push(us, cpu, prev, TASK, kind);
    }

    pub(super) fn wakeup(&mut self, pid: Pid, target_cpu: u32) -> Wakeup {
        Wakeup {
            task: self.task(pid),
            target_cpu,
        }
    }

    /// `current` (or the interrupt on top of it) wakes `pid`.
    pub(super) fn waking(&mut self, us: u64, cpu: u32, current: Pid, context: Context, pid: Pid) {
        let kind = EventKind::Waking(self.wakeup(pid, cpu));
        self.push(us, cpu, current, context, kind);
    }

    /// At the first time `from` (or the interrupt on top of it) wakes `to`, which takes its CPU at
    /// the second: `from` sleeps then, unless it is the idle task.
    pub(super) fn hands_over(
        &mut self,
        [waking, switch]: [u64; 2],
        cpu: u32,
        from: Pid,
        context: Context,
        to: Pid,
    ) {
        self.waking(waking, cpu, from, context, to);
        let state = if from == 0 { "R" } else { "S" };
        self.switch(switch, cpu, from, state, to);
    }

    /// The timer of thread 1 wakes it, and it wakes thread 2 by a message before it sleeps again.
    pub(super) fn sends(&mut self, at: u64) {
        self.hands_over([at, at + 2], 0, 0, HARD, 1);
        self.hands_over([at + 10, at + 20], 0, 1, SOFT, 2);
    }

    /// A timer wakes a thread, which sleeps again at once.
    pub(super) fn wakes_for_nothing(&mut self, at: u64, pid: Pid) {
        self.hands_over([at, at + 2], 0, 0, HARD, pid);
        self.switch(at + 6, 0, pid, "S", 0);
    }

    /// `pid` is on the run queue of `cpu`, says that CPU.
    pub(super) fn woken(&mut self, us: u64, cpu: u32, current: Pid, context: Context, pid: Pid) {
        self.woken_on(us, cpu, current, context, (pid, cpu));
    }

    /// The thread is on the run queue of the CPU behind it, says `cpu`.
    pub(super) fn woken_on(
        &mut self,
        us: u64,
        cpu: u32,
        current: Pid,
        context: Context,
        (pid, target): (Pid, u32),
    ) {
        let kind = EventKind::Wakeup(self.wakeup(pid, target));
        self.push(us, cpu, current, context, kind);
    }

    pub(super) fn fork(&mut self, us: u64, cpu: u32, parent: Pid, child: Pid) {
        let kind = EventKind::Fork(Fork {
            parent_pid: parent,
            parent_comm: self.comm(parent),
            child_pid: child,
            child_comm: self.comm(parent),
        });
        self.push(us, cpu, parent, TASK, kind);
        let kind = EventKind::WakeupNew(self.wakeup(child, cpu));
        self.push(us + 1, cpu, parent, TASK, kind);
    }

    /// `pid` calls `exec`.
    pub(super) fn exec(&mut self, us: u64, cpu: u32, pid: Pid) {
        let filename = self.comms.intern(b"/usr/bin/make");
        let kind = EventKind::Exec(Exec {
            pid,
            old_pid: pid,
            filename,
        });
        self.push(us, cpu, pid, TASK, kind);
    }

    /// Changes the kernel priority of whom event `index` wakes or switches to.
    pub(super) fn set_prio(&mut self, index: usize, to: i32) {
        match &mut self.events[index].kind {
            EventKind::Waking(wakeup) => wakeup.task.prio = to,
            EventKind::Switch(switch) => switch.next.prio = to,
            other => panic!("{other:?} has no such priority"),
        }
    }

    /// A cgroup with these files and members; the root comes by itself.
    pub(super) fn group(&mut self, path: &str, files: &[(&str, &str)], tasks: &[Pid]) {
        let mut group: serde_json::Map<_, _> = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), serde_json::Value::from(*text)))
            .collect();
        group.insert(String::from("tasks"), tasks.into());
        self.groups.insert(path.to_owned(), group.into());
    }

    /// Members of a cgroup at the end, where it was made before.
    pub(super) fn members_after(&mut self, path: &str, tasks: &[Pid]) {
        self.tasks_after.push((path.to_owned(), tasks.to_vec()));
    }

    /// A file of a cgroup that has this text at the end.
    pub(super) fn file_after(
        &mut self,
        path: &'static str,
        name: &'static str,
        text: &'static str,
    ) {
        self.files_after.push([path, name, text]);
    }

    pub(super) fn recording(mut self, end_us: u64) -> Recording {
        self.meta.start_ns = Some(START_NS);
        self.meta.end_ns = Some(START_NS + end_us * 1000);
        self.groups
            .entry("/")
            .or_insert_with(|| serde_json::json!({ "tasks": [] }));
        let mut after = self.groups.clone();
        for (path, tasks) in &self.tasks_after {
            after[path]["tasks"] = tasks.as_slice().into();
        }
        for [path, name, text] in &self.files_after {
            after[*path][*name] = (*text).into();
        }
        let has_after = !self.tasks_after.is_empty() || !self.files_after.is_empty();
        let cgroups = serde_json::from_value(self.groups.into()).unwrap();
        let after = has_after.then(|| serde_json::from_value(after.into()).unwrap());
        let cpus = self.events.iter().map(|event| event.cpu as usize + 1).max();
        self.counts.events_per_cpu = vec![1; cpus.unwrap_or(1)];
        Recording {
            trace: PathBuf::from("mini/trace.txt"),
            meta: self.meta,
            cgroups_before: Some(cgroups),
            cgroups_after: after,
            requests: None,
            measured: None,
            events: self.events,
            comms: self.comms,
            counts: self.counts,
        }
    }
}
