//! The tasks in a real group.

use std::path::Path;
use std::thread;
use std::time::Duration;

use schedcast_base::cpu_stat::CpuStat;
use schedcast_base::date::today;
use schedcast_host::{
    CgroupVersion, CommandSpec, CpuCgroup, CpuFile, CpuLimits, HostError, KernelInfo, Output,
    TaskTimes, run_in, sys,
};

use crate::cases::{BEAT_S, Case, Task, rt_app_file};
use crate::{FROM_MS, Measured, Outcome, Repeat, WINDOW_MS, quiet};

const REPEATS: usize = 7;
/// Length of a round of rt-app's work loop, about. The real length of a round is seen in its CPU
/// time.
const LOOP_NS: u64 = 8;

/// Where in a line of rt-app's log the end of an activation stands, µs of `CLOCK_MONOTONIC`.
const END_COLUMN: usize = 5;

/// Runs a case.
pub(crate) fn run(case: &Case) -> Outcome<Measured> {
    let repeats = quiet::repeat(REPEATS, quiet::Others::Matter, || once(case))?;
    Ok(Measured {
        case: case.name.to_owned(),
        date: today(),
        kernel: KernelInfo::read()?.release,
        disturbed: repeats.disturbed,
        repeats: repeats.kept,
    })
}

fn once(case: &Case) -> Outcome<Repeat> {
    let names = case.names();
    let named = || names.iter().zip(case.tasks);
    let folder = tempfile::tempdir()?;
    let commands = named()
        .map(|(name, task)| command(name, task, folder.path()))
        .collect::<Outcome<Vec<_>>>()?;
    let group = new_group()?;
    group.set_limits(&CpuLimits {
        quota_us: Some(case.quota_us),
        period_us: case.period_us,
        burst_us: case.burst_us,
    })?;
    let Window {
        start_ns,
        stat,
        tasks,
    } = watched(&group, &commands)?;
    group.close()?;
    let mut hogs = tasks.iter().filter(|task| task.hog).map(|task| task.cpu_ns);
    let mut cpu_ms: Vec<f64> = named()
        .map(|(name, task)| match task {
            Task::Hog(_) => hogs.next().unwrap_or(0),
            Task::Beat { .. } => cpu_of(&tasks, name),
        })
        .map(|ns| ns as f64 / 1e6)
        .collect();
    if case.alike() {
        cpu_ms.sort_by(f64::total_cmp);
    }
    let activations = named()
        .map(|(name, task)| match task {
            Task::Hog(_) => Ok(0.0),
            Task::Beat { .. } => activations_in(start_ns, name, folder.path()),
        })
        .collect::<Outcome<_>>()?;
    Ok(Repeat {
        periods: stat.nr_periods.unwrap_or(0) as f64,
        throttled: stat.nr_throttled.unwrap_or(0) as f64,
        throttled_ms: stat.throttled_ns.unwrap_or(0) as f64 / 1e6,
        bursts: stat.nr_bursts.unwrap_or(0) as f64,
        burst_ms: stat.burst_ns.unwrap_or(0) as f64 / 1e6,
        cpu_ms,
        activations,
    })
}

/// Activations of a thread of rt-app in the window that begins at `start_ns`, from its log.
fn activations_in(start_ns: u64, name: &str, folder: &Path) -> Outcome<f64> {
    let log = std::fs::read_to_string(folder.join(format!("rt-app-{name}-0.log")))?;
    let ends_us: Vec<f64> = log
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().nth(END_COLUMN)?.parse().ok())
        .collect();
    let (from_us, to_us) = (
        start_ns as f64 / 1e3,
        (start_ns + WINDOW_MS * 1_000_000) as f64 / 1e3,
    );
    if ends_us.last().is_none_or(|last| *last < to_us) {
        return Err(format!("{name}: its log ends before the window").into());
    }
    // Each fills the time from the end of the one before it to its own.
    let inside =
        |pair: &[f64]| (pair[1].min(to_us) - pair[0].max(from_us)).max(0.0) / (pair[1] - pair[0]);
    Ok(ends_us.windows(2).map(inside).sum())
}

/// CPU time of one task in the window.
struct Used {
    comm: String,
    hog: bool,
    cpu_ns: u64,
}

/// Threads of rt-app are called after their task, with a number behind.
fn cpu_of(tasks: &[Used], name: &str) -> u64 {
    let own = tasks.iter().filter(|task| task.comm.starts_with(name));
    own.map(|task| task.cpu_ns).sum()
}

/// Growth of counters and CPU times in the window.
struct Window {
    /// When it began, by `CLOCK_MONOTONIC`.
    start_ns: u64,
    stat: CpuStat,
    tasks: Vec<Used>,
}

/// Runs the commands and watches them.
fn watched(group: &CpuCgroup, commands: &[CommandSpec]) -> Outcome<Window> {
    let limit = Duration::from_millis(BEAT_S * 1000 + 500);
    let (run, window) = thread::scope(|scope| {
        let window = scope.spawn(|| watch(group));
        (run_in(group, commands, limit), window.join())
    });
    run?;
    Ok(window.map_err(|_| "the watcher panicked")??)
}

fn watch(group: &CpuCgroup) -> Result<Window, HostError> {
    let start_ns = sys::monotonic_ns() + FROM_MS * 1_000_000;
    let read = |at_ns| {
        sys::sleep_until_ns(at_ns);
        Ok::<_, HostError>((group.stat()?, group.tasks()?))
    };
    let (stat, tasks) = read(start_ns)?;
    let (later, tasks_later) = read(start_ns + WINDOW_MS * 1_000_000)?;
    let before = |tid| tasks.iter().find(|task: &&TaskTimes| task.tid == tid);
    let mut used: Vec<(i32, Used)> = tasks_later
        .into_iter()
        .map(|task| {
            let then_ns = before(task.tid).map_or(0, |task| task.cpu_ns);
            let hog = !["beat", "rt-app"]
                .iter()
                .any(|name| task.comm.starts_with(name));
            let cpu_ns = task.cpu_ns - then_ns;
            (
                task.tid,
                Used {
                    comm: task.comm,
                    hog,
                    cpu_ns,
                },
            )
        })
        .collect();
    // In the order in which they were started.
    used.sort_by_key(|(tid, _)| *tid);
    Ok(Window {
        start_ns,
        stat: later.since(&stat),
        tasks: used.into_iter().map(|(_, used)| used).collect(),
    })
}

fn command(name: &str, task: &Task, folder: &Path) -> Outcome<CommandSpec> {
    match *task {
        Task::Hog(cpus) => {
            let cpus: Vec<usize> = cpus.iter().map(|cpu| *cpu as usize).collect();
            Ok(CommandSpec::new(std::env::current_exe()?)
                .args(["hog", "spin"])
                .cpus(&cpus))
        }
        Task::Beat {
            run_us,
            period_us,
            cpu,
        } => {
            let file = folder.join(format!("{name}.json"));
            let text = rt_app_file(name, [run_us, period_us], cpu, LOOP_NS, folder);
            std::fs::write(&file, text)?;
            Ok(CommandSpec::new("rt-app")
                .arg(&file)
                .output(Output::Discard))
        }
    }
}

fn new_group() -> Outcome<CpuCgroup> {
    heavy_group(&format!("schedcast-twins-{}", std::process::id()))
}

/// Puts this process itself into a heavy group, so that it reads counters when it means to.
pub(crate) fn join_heavy_group() -> Outcome<CpuCgroup> {
    let group = heavy_group(&format!("schedcast-twins-{}-self", std::process::id()))?;
    std::fs::write(group.dir().join("cgroup.procs"), "0")?;
    Ok(group)
}

/// A group that outweighs every other on the host.
fn heavy_group(name: &str) -> Outcome<CpuCgroup> {
    let group = CpuCgroup::create("/", name)?;
    match group.version() {
        CgroupVersion::V1 => group.write(CpuFile::Shares, "262144")?,
        CgroupVersion::V2 => group.write(CpuFile::Weight, "10000")?,
    }
    Ok(group)
}
