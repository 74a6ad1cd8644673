//! Run time and scheduling delays by task.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schedcast_trace::{CommId, EventKind, Pid, PrevState, Recording};

use super::{Selection, Wakeups, came, milliseconds, name, seconds};

schedcast_base::named! {
    /// By what rows are ordered, largest first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Sort {
        /// Mean delay.
        Average = "avg",
        /// Largest delay.
        Max = "max",
        /// Number of delays.
        Switches = "switch",
        /// Time on CPUs.
        Runtime = "runtime",
    }
}

/// Delays of one task, or of all of one name.
#[derive(Clone, Debug, Default)]
struct Delays {
    tasks: u64,
    runtime_ns: u64,
    /// Times it came to a CPU, and all delays before that.
    switches: u64,
    delay_ns: u64,
    /// The largest delay, and when it began and ended.
    longest: (u64, u64, u64),
}

impl Delays {
    fn average_ns(&self) -> u64 {
        self.delay_ns / self.switches.max(1)
    }

    fn add(&mut self, other: &Delays) {
        self.tasks += other.tasks;
        self.runtime_ns += other.runtime_ns;
        self.switches += other.switches;
        self.delay_ns += other.delay_ns;
        self.longest = self.longest.max(other.longest);
    }
}

/// A task while the trace is read.
#[derive(Clone, Debug)]
struct Task {
    comm: CommId,
    ready_ns: Option<u64>,
    delays: Delays,
}

/// Prints delays; tasks of one name share a row unless `each` asks for one a task.
pub fn latency(recording: &Recording, selection: &Selection, sort: Sort, each: bool) -> String {
    let mut gaps = Gaps::default();
    let tasks = collect(recording, selection, &mut gaps);
    let mut rows: BTreeMap<(String, Pid), Delays> = BTreeMap::new();
    for (pid, task) in &tasks {
        if task.delays.switches == 0 {
            continue;
        }
        let key = (name(recording, task.comm), if each { *pid } else { 0 });
        let row = rows.entry(key).or_default();
        row.add(&task.delays);
    }
    // A name that one task has is shown with its number.
    let mut rows: Vec<(String, Delays)> = rows
        .into_iter()
        .map(|((name, pid), delays)| {
            let pid = match delays.tasks {
                _ if each => pid.to_string(),
                1 => only_of(recording, &tasks, &name),
                several => format!("({several})"),
            };
            (format!("{name}:{pid}"), delays)
        })
        .collect();
    rows.sort_by_key(|(_, delays)| {
        Reverse(match sort {
            Sort::Average => delays.average_ns(),
            Sort::Max => delays.longest.0,
            Sort::Switches => delays.switches,
            Sort::Runtime => delays.runtime_ns,
        })
    });
    table(&rows) + &gaps.line()
}

/// Switches whose task that leaves is not the one that came: a switch between them is missing.
#[derive(Clone, Copy, Debug, Default)]
struct Gaps {
    switches: u64,
    broken: u64,
}

impl Gaps {
    fn line(self) -> String {
        if self.broken == 0 {
            return String::new();
        }
        let (switches, broken) = (self.switches, self.broken);
        let share = 100.0 * broken as f64 / switches as f64;
        format!("  INFO: {share:.3}% context switch bugs ({broken} out of {switches})\n")
    }
}

fn only_of(recording: &Recording, tasks: &BTreeMap<Pid, Task>, wanted: &str) -> String {
    let found = tasks
        .iter()
        .find(|(_, task)| task.delays.switches > 0 && name(recording, task.comm) == wanted);
    found.map_or(String::new(), |(pid, _)| pid.to_string())
}

fn collect(recording: &Recording, selection: &Selection, gaps: &mut Gaps) -> BTreeMap<Pid, Task> {
    let wakeups = Wakeups::of(recording);
    let mut tasks: BTreeMap<Pid, Task> = BTreeMap::new();
    let mut present: BTreeMap<u32, (Pid, u64)> = BTreeMap::new();
    let mut state = |pid: Pid, comm: CommId, change: &mut dyn FnMut(&mut Task)| {
        let task = tasks.entry(pid).or_insert(Task {
            comm,
            ready_ns: None,
            delays: Delays {
                tasks: 1,
                ..Delays::default()
            },
        });
        task.comm = comm;
        change(task);
    };
    for event in &recording.events {
        let time_ns = event.time_ns;
        if let Some((pid, comm)) = wakeups.woken(&event.kind) {
            state(pid, comm, &mut |task| task.ready_ns = Some(time_ns));
        }
        let EventKind::Switch(switch) = event.kind else {
            continue;
        };
        let (prev, prev_state, next) = (switch.prev, switch.prev_state, switch.next);
        let came_before = present.get(&event.cpu);
        gaps.switches += 1;
        gaps.broken += u64::from(came_before.is_some_and(|(pid, _)| *pid != prev.pid));
        let came_ns = came(&mut present, (event.cpu, time_ns), prev.pid, next.pid);
        let shown = selection.has_time(time_ns) && selection.has_cpu(event.cpu);
        let is_shown = |pid, comm| shown && selection.has_task(pid, &name(recording, comm));
        if prev.pid != 0 {
            let counts = is_shown(prev.pid, prev.comm);
            state(prev.pid, prev.comm, &mut |task| {
                task.leaves(time_ns, came_ns.filter(|_| counts), prev_state);
            });
        }
        if next.pid != 0 {
            let counts = is_shown(next.pid, next.comm);
            state(next.pid, next.comm, &mut |task| task.comes(time_ns, counts));
        }
    }
    tasks
}

impl Task {
    fn leaves(&mut self, time_ns: u64, came_ns: Option<u64>, state: PrevState) {
        self.delays.runtime_ns += came_ns.map_or(0, |came| time_ns.saturating_sub(came));
        self.ready_ns = state.is_runnable().then_some(time_ns);
    }

    fn comes(&mut self, time_ns: u64, counts: bool) {
        let Some(ready_ns) = self.ready_ns.take().filter(|_| counts) else {
            return;
        };
        let delay_ns = time_ns.saturating_sub(ready_ns);
        self.delays.switches += 1;
        self.delays.delay_ns += delay_ns;
        if delay_ns >= self.delays.longest.0 {
            self.delays.longest = (delay_ns, ready_ns, time_ns);
        }
    }
}

fn table(rows: &[(String, Delays)]) -> String {
    let rule = format!(" {}\n", "-".repeat(139));
    let mut text = format!(
        "{rule}  Task                  |   Runtime ms  | Switches | Avg delay ms    | Max delay ms    | Max delay start           | Max delay end          |\n{rule}"
    );
    let (mut runtime_ns, mut switches) = (0, 0);
    for (task, delays) in rows {
        runtime_ns += delays.runtime_ns;
        switches += delays.switches;
        let (longest, start, end) = delays.longest;
        let [runtime, average, longest] =
            [delays.runtime_ns, delays.average_ns(), longest].map(milliseconds);
        let [start, end] = [start, end].map(seconds);
        let count = delays.switches;
        text += &format!(
            "  {task:<21} |{runtime:>11} ms |{count:>9} | avg:{average:>8} ms | max:{longest:>8} ms | max start: {start:>12} s | max end: {end:>12} s\n"
        );
    }
    text += &format!(
        " {}\n  TOTAL:                |{:>11} ms |{switches:>9} |\n {}\n",
        "-".repeat(113),
        milliseconds(runtime_ns),
        "-".repeat(51),
    );
    text
}
