//! Every stay of a task on a CPU, a row each, and a summary by task.

use std::collections::BTreeMap;
use std::fmt::Write;

use schedcast_trace::{CommId, EventKind, Pid, PrevState, Recording};

use super::{Present, Selection, Wakeups, came, milliseconds, name, seconds};

/// Parts to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// The rows.
    Rows,
    /// The summary.
    Summary,
    /// Rows, then the summary.
    Both,
}

/// Further columns and rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Columns {
    /// The state in which the task leaves.
    pub state: bool,
    /// The task that comes.
    pub next: bool,
    /// Rows for wakeups.
    pub wakeups: bool,
    /// Rows for migrations.
    pub migrations: bool,
}

/// Idle tasks all have number 0: there is one for each CPU.
type Key = (Pid, u32);

/// Facts known of a task.
#[derive(Clone, Debug)]
struct Task {
    comm: CommId,
    parent: Option<Pid>,
    /// Since when it could run, if it can and does not.
    ready_ns: Option<u64>,
    left_ns: Option<u64>,
    exited: bool,
    migrations: u64,
    runs: Runs,
}

/// Statistics of stays, in ns.
#[derive(Clone, Copy, Debug, Default)]
struct Runs {
    count: u64,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
    squares: f64,
}

impl Runs {
    fn add(&mut self, run_ns: u64) {
        self.min_ns = if self.count == 0 {
            run_ns
        } else {
            self.min_ns.min(run_ns)
        };
        self.max_ns = self.max_ns.max(run_ns);
        self.count += 1;
        self.sum_ns += run_ns;
        self.squares += (run_ns as f64).powi(2);
    }

    fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.count.max(1) as f64
    }

    /// Standard error of the mean in percent of it, which perf prints as `stddev`.
    fn error_percent(&self) -> f64 {
        let (count, mean) = (self.count as f64, self.mean_ns());
        if self.count < 2 || mean == 0.0 {
            return 0.0;
        }
        let variance = ((self.squares - count * mean * mean) / (count - 1.0)).max(0.0);
        100.0 * (variance / count).sqrt() / mean
    }
}

struct History<'a> {
    recording: &'a Recording,
    selection: &'a Selection,
    columns: Columns,
    tasks: BTreeMap<Key, Task>,
    /// Last task that came to each CPU.
    present: BTreeMap<u32, Present>,
    switches: u64,
    /// First and last time inside the selection.
    span_ns: Option<(u64, u64)>,
    rows: String,
}

/// Prints the history of a trace.
pub fn timehist(
    recording: &Recording,
    selection: &Selection,
    columns: Columns,
    parts: Parts,
) -> String {
    let wakeups = Wakeups::of(recording);
    let mut history = History {
        recording,
        selection,
        columns,
        tasks: BTreeMap::new(),
        present: BTreeMap::new(),
        switches: 0,
        span_ns: None,
        rows: String::new(),
    };
    for event in &recording.events {
        history.take(event, wakeups);
    }
    let mut text = String::new();
    if parts != Parts::Summary {
        text += &heading(columns);
        text += &history.rows;
    }
    if parts == Parts::Both {
        text.push('\n');
    }
    if parts != Parts::Rows {
        text += &history.summary();
    }
    text
}

fn heading(columns: Columns) -> String {
    let (mut first, mut second) = (String::new(), String::new());
    let mut rule = format!(
        "{} {}  {}  {}  {}  {}",
        "-".repeat(15),
        "-".repeat(6),
        "-".repeat(30),
        "-".repeat(9),
        "-".repeat(9),
        "-".repeat(9)
    );
    let (time, cpu, task) = ("time", "cpu", "task name");
    let _ = write!(
        first,
        "{time:>15} {cpu:>6}  {task:<30}  wait time  sch delay   run time"
    );
    let _ = write!(
        second,
        "{:24}{:<30}  {:>9}  {:>9}  {:>9}",
        "", "[tid]", "(msec)", "(msec)", "(msec)"
    );
    if columns.state {
        first += "  state";
        rule += "  -----";
    }
    if columns.next {
        first += "  next task";
        rule += &format!("  {}", "-".repeat(20));
    }
    format!("{first}\n{second}\n{rule}\n")
}

impl History<'_> {
    fn take(&mut self, event: &schedcast_trace::Event, wakeups: Wakeups) {
        let (time_ns, cpu) = (event.time_ns, event.cpu);
        if self.selection.has_time(time_ns) {
            let (from, _) = self.span_ns.unwrap_or((time_ns, time_ns));
            self.span_ns = Some((from, time_ns));
        }
        if let Some((pid, comm)) = wakeups.woken(&event.kind) {
            let task = self.task((pid, 0), comm);
            task.ready_ns = Some(time_ns);
            if self.columns.wakeups {
                let what = format!("awakened: {}", self.label(pid, comm));
                self.side_row(event, pid, comm, &what);
            }
        }
        match event.kind {
            EventKind::Switch(switch) => {
                let [prev, next] = [switch.prev, switch.next].map(|task| (task.pid, task.comm));
                self.switch(time_ns, cpu, prev, switch.prev_state, next);
            }
            EventKind::Migrate(moves) => {
                let (pid, comm) = (moves.task.pid, moves.task.comm);
                let selected = self.selection.has_time(time_ns);
                self.task((pid, 0), comm).migrations += u64::from(selected);
                if self.columns.migrations {
                    let task = self.label(pid, comm);
                    let (from, to) = (moves.orig_cpu, moves.dest_cpu);
                    let what = format!("migrated: {task} cpu {from} => {to}");
                    self.side_row(event, pid, comm, &what);
                }
            }
            EventKind::Fork(fork) => {
                let child = self.task((fork.child_pid, 0), fork.child_comm);
                // Numbers are used again: whatever had this one before has gone.
                (child.ready_ns, child.left_ns, child.exited) = (None, None, false);
                child.parent = Some(fork.parent_pid);
            }
            _ => {}
        }
    }

    fn task(&mut self, key: Key, comm: CommId) -> &mut Task {
        let task = self.tasks.entry(key).or_insert(Task {
            comm,
            parent: None,
            ready_ns: None,
            left_ns: None,
            exited: false,
            migrations: 0,
            runs: Runs::default(),
        });
        task.comm = comm;
        task
    }

    fn label(&self, pid: Pid, comm: CommId) -> String {
        if pid == 0 {
            return "<idle>".to_owned();
        }
        format!("{}[{pid}]", name(self.recording, comm))
    }

    fn switch(
        &mut self,
        time_ns: u64,
        cpu: u32,
        (pid, comm): (Pid, CommId),
        state: PrevState,
        next: (Pid, CommId),
    ) {
        let came_ns = came(&mut self.present, (cpu, time_ns), pid, next.0);
        let key = (pid, if pid == 0 { cpu } else { 0 });
        let shown = self.selection.has_cpu(cpu)
            && self.selection.has_time(time_ns)
            && self.selection.has_task(pid, &name(self.recording, comm));
        let task = self.task(key, comm);
        let since = |from: Option<u64>| Some(came_ns?.saturating_sub(from?));
        let wait_ns = since(task.left_ns).unwrap_or(0);
        let delay_ns = since(task.ready_ns).unwrap_or(0);
        let run_ns = came_ns.map_or(0, |came| time_ns.saturating_sub(came));
        task.left_ns = Some(time_ns);
        task.ready_ns = (state.is_runnable() && pid != 0).then_some(time_ns);
        task.exited |= state.is_exit();
        if !shown {
            return;
        }
        if came_ns.is_some() {
            task.runs.add(run_ns);
        }
        self.switches += u64::from(pid != 0);
        let label = self.label(pid, comm);
        let [wait, delay, run] = [wait_ns, delay_ns, run_ns].map(milliseconds);
        let time = seconds(time_ns);
        self.rows +=
            &format!("{time:>15} [{cpu:04}]  {label:<30}  {wait:>9}  {delay:>9}  {run:>9}");
        if self.columns.state {
            self.rows += &format!("  {:>5}", state.name());
        }
        if self.columns.next {
            self.rows += &format!("  next: {}", self.label(next.0, next.1));
        }
        self.rows.push('\n');
    }

    /// A row for something that is no stay.
    fn side_row(&mut self, event: &schedcast_trace::Event, pid: Pid, comm: CommId, what: &str) {
        let selection = self.selection;
        if !selection.has_cpu(event.cpu)
            || !selection.has_time(event.time_ns)
            || !selection.has_task(pid, &name(self.recording, comm))
        {
            return;
        }
        let (time, cpu) = (seconds(event.time_ns), event.cpu);
        let by = match self.tasks.get(&(event.task, 0)) {
            Some(task) => self.label(event.task, task.comm),
            None if event.task == 0 => "<idle>".to_owned(),
            None => format!("[{}]", event.task),
        };
        self.rows += &format!("{time:>15} [{cpu:04}]  {by:<30}  {:31}  {what}\n", "");
    }

    fn summary(&self) -> String {
        let mut text = String::from(
            "Runtime summary\n                          comm  parent   sched-in     run-time    min-run     avg-run     max-run  stddev  migrations\n                                          (count)       (msec)     (msec)      (msec)      (msec)       %\n",
        );
        text += &"-".repeat(116);
        text.push('\n');
        let (mut unique, mut total_ns) = (0u64, 0u64);
        for exited in [false, true] {
            if exited && self.ran().any(|(_, task)| task.exited) {
                text += "\nTerminated tasks:\n";
            }
            for (pid, task) in self.ran().filter(|(_, task)| task.exited == exited) {
                unique += 1;
                total_ns += task.runs.sum_ns;
                text += &self.summary_row(pid, task);
            }
        }
        text += "\nIdle stats:\n";
        let (from_ns, to_ns) = self.span_ns.unwrap_or((0, 0));
        let span_ns = to_ns.saturating_sub(from_ns);
        for ((_, cpu), idle) in self.tasks.iter().filter(|((pid, _), _)| *pid == 0) {
            let share = 100.0 * idle.runs.sum_ns as f64 / span_ns.max(1) as f64;
            let idle_ms = milliseconds(idle.runs.sum_ns);
            text += &format!("    CPU {cpu:2} idle for {idle_ms:>10}  msec  ({share:6.2}%)\n");
        }
        let cpus = self.present.len();
        text += &format!(
            "\n    Total number of unique tasks: {unique}\nTotal number of context switches: {}\n           Total run time (msec): {}\n    Total scheduling time (msec): {}  (x {cpus})\n",
            self.switches,
            milliseconds(total_ns),
            milliseconds(span_ns),
        );
        text
    }

    /// Tasks that were seen on a CPU, idle ones aside.
    fn ran(&self) -> impl Iterator<Item = (Pid, &Task)> {
        let tasks = self.tasks.iter().map(|((pid, _), task)| (*pid, task));
        tasks.filter(|(pid, task)| *pid != 0 && task.runs.count > 0)
    }

    fn summary_row(&self, pid: Pid, task: &Task) -> String {
        let runs = &task.runs;
        let label = self.label(pid, task.comm);
        let [sum, min, mean, max] =
            [runs.sum_ns, runs.min_ns, runs.mean_ns() as u64, runs.max_ns].map(milliseconds);
        let (parent, count) = (task.parent.unwrap_or(-1), runs.count);
        let (error, migrations) = (runs.error_percent(), task.migrations);
        format!(
            "{label:>30}  {parent:>6}  {count:>9}  {sum:>11}  {min:>9}  {mean:>10}  {max:>10}  {error:>6.2}  {migrations:>6}\n"
        )
    }
}
