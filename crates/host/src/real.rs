//! An experiment run for real: its groups made, its programs started together, everything recorded
//! meanwhile.
//!
//! ```text
//! groups made, settings written ──► recorder on ──► programs go together … all ended ──► recorder off ──► groups gone
//! ```
//!
//! The groups get names of their own, so that an experiment's `/pg` never touches a group that is
//! in use: it becomes `/schedcast-4711-pg`, and `/pg/worker` becomes `/schedcast-4711-pg/worker`;
//! below a root of its own they are `/schedcast-4711/pg` and `/schedcast-4711/pg/worker`.
//! Worked example: two programs of 4 s with 2000 scheduling events a second leave a recording of
//! 8000 events and two rows of counters.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cgroup::{CpuCgroup, parent_of, siblings};
use crate::error::{HostError, Result};
use crate::record::{Report, Request, has_begun, record};
use crate::run::{CommandSpec, RunReport, run_placed};
use crate::server::{Client, Servers};
use crate::stat::{CpuTimes, cpu_ns_of};
use schedcast_base::cpu_stat::CpuStat;

/// A group and what is written to its files, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSetup {
    /// Its path in the experiment; parents stand before their children.
    pub path: String,
    /// File names of either cgroup version and their values.
    pub files: Vec<(String, String)>,
}

/// A program and where it starts.
#[derive(Debug)]
pub struct ProgramSetup {
    /// The command, its CPUs and where its output goes.
    pub command: CommandSpec,
    /// Path of its group in the experiment; `/` is the root group.
    pub cgroup: String,
    /// The server that it needs, and the CPUs of that; all without a list.
    pub server: Option<(Client, Option<Vec<usize>>)>,
}

impl ProgramSetup {
    /// Path of the server's group in the experiment.
    pub fn server_cgroup(&self) -> Option<&str> {
        let (client, _) = self.server.as_ref()?;
        Some(client.server_cgroup(&self.cgroup))
    }
}

/// Setup of a real run, which can be run again and again.
#[derive(Debug, Default)]
pub struct RealSetup {
    /// Whether the root group of the experiment is a new one, in which nothing else is. Without it
    /// the experiment's groups stand beside those of the host.
    pub has_own_root: bool,
    /// The groups.
    pub groups: Vec<GroupSetup>,
    /// The programs, started together.
    pub programs: Vec<ProgramSetup>,
    /// Programs that have not ended by then are killed.
    pub timeout: Duration,
    /// Counters are those between these two times; without them, from the first program's start to
    /// the last one's end.
    pub window: Option<(Duration, Duration)>,
}

/// Results of one real run.
#[derive(Debug)]
pub struct RealRun {
    /// Commands in the order of the programs; counters of the groups that programs started in.
    pub report: RunReport,
    /// Counters of every group of the setup, in its order.
    pub groups: Vec<CpuStat>,
    /// CPU time of the server of each program that has one, in the order of the programs.
    pub servers: Vec<Option<Duration>>,
    /// Share of the machine's time that programs of others took, 0 to 1; the recorder is none of
    /// them.
    pub others_ratio: f64,
    /// Recorder's own report, where there was a recorder.
    pub recorded: Option<Report>,
}

/// How long the recorder may take to begin.
const BEGIN_LIMIT: Duration = Duration::from_secs(10);
/// Settling time between the recorder's start and the programs'.
const SETTLE: Duration = Duration::from_millis(150);

impl RealSetup {
    /// Runs it once; the recording goes to `folder`, a new one. Without a folder nothing is
    /// recorded.
    ///
    /// # Errors
    /// Missing rights, a setting the kernel refuses, a program or server that does not start.
    pub fn run(&self, folder: Option<&Path>) -> Result<RealRun> {
        let groups = Groups::make(self)?;
        let group_of = |path: &str| {
            let place = self.groups.iter().position(|group| group.path == path);
            &groups.0[place.map_or(0, |place| place + 1)]
        };
        let programs = self.programs.iter();
        let placed: Vec<(&CpuCgroup, &CommandSpec)> = programs
            .map(|program| (group_of(&program.cgroup), &program.command))
            .collect();
        let servers = Servers::start(self.programs.iter().map(|program| {
            let (client, cpus) = program.server.as_ref()?;
            let path = client.server_cgroup(&program.cgroup);
            Some((client, group_of(path), cpus.as_deref()))
        }))?;
        let measure = || measure(&groups.0[1..], &placed, &servers, self);
        let (counted, recorded) = match folder {
            None => (measure()?, None),
            Some(folder) => {
                let (measured, report) = recorded(folder, measure)?;
                (measured, Some(report))
            }
        };
        drop(servers);
        let total_ns = counted.total_ns as f64;
        let recorder = recorded
            .as_ref()
            .map_or(0.0, |report| report.own_cpu_ns as f64 / total_ns);
        groups.close()?;
        Ok(RealRun {
            report: counted.run,
            groups: counted.groups,
            servers: counted.servers,
            others_ratio: (counted.others_ratio - recorder).max(0.0),
            recorded,
        })
    }
}

/// Results of the programs and their servers, counters of the groups, and the share of the machine
/// that others took.
struct Counted {
    run: RunReport,
    groups: Vec<CpuStat>,
    servers: Vec<Option<Duration>>,
    others_ratio: f64,
    /// Time of all CPUs meanwhile.
    total_ns: u64,
}

fn measure(
    groups: &[CpuCgroup],
    placed: &[(&CpuCgroup, &CommandSpec)],
    servers: &Servers,
    setup: &RealSetup,
) -> Result<Counted> {
    let before = counters(groups)?;
    let machine = Machine::read()?;
    let (run, in_window) = std::thread::scope(|scope| {
        let begin = Instant::now();
        let watcher = setup.window.map(|(from, to)| {
            scope.spawn(move || -> Result<_> {
                let at = |time| {
                    std::thread::sleep((begin + time).saturating_duration_since(Instant::now()));
                    counters(groups)
                };
                Ok((at(from)?, at(to)?))
            })
        });
        let run = run_placed(placed, setup.timeout);
        let watched = watcher.map(|watcher| {
            watcher
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        Ok((run?, watched.transpose()?))
    })?;
    let machine_after = Machine::read()?;
    let (before, after) = match in_window {
        Some(both) => both,
        None => (before, counters(groups)?),
    };
    let servers = servers.used();
    let served: Duration = servers.iter().flatten().sum();
    let others_ratio = machine_after.others_since(&machine, &run, served);
    let pairs = after.iter().zip(&before);
    let stats = pairs.map(|(after, before)| after.since(before));
    Ok(Counted {
        run,
        groups: stats.collect(),
        servers,
        others_ratio,
        total_ns: machine_after.total_ns_since(&machine),
    })
}

/// Result of `measure` while a recorder writes to `folder`, and the recorder's report.
fn recorded(folder: &Path, measure: impl FnOnce() -> Result<Counted>) -> Result<(Counted, Report)> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let request = Request {
            folder: folder.to_owned(),
            ..Request::default()
        };
        let recorder = scope.spawn({
            let stop = &stop;
            move || record(&request, stop)
        });
        let outcome = begun(folder, || recorder.is_finished()).and_then(|()| measure());
        stop.store(true, Ordering::Relaxed);
        let report = recorder
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // Why the recorder did not begin says more than that it did not.
        match (outcome, report) {
            (_, Err(error)) | (Err(error), _) => Err(error),
            (Ok(counted), Ok(report)) => Ok((counted, report)),
        }
    })
}

/// Nanoseconds of a tick of `/proc/stat`.
const TICK_NS: u64 = 10_000_000;

/// CPU time of all CPUs so far.
struct Machine {
    times: CpuTimes,
    /// CPU time of all programs; the kernel's own threads work for the senders of packets and the
    /// writers of files.
    used_ns: u64,
}

/// CPU time of the kernel's threads that live, ns.
fn kernel_threads_ns() -> u64 {
    let children = std::fs::read_to_string("/proc/2/task/2/children").unwrap_or_default();
    children.split_whitespace().filter_map(cpu_ns_of).sum()
}

impl Machine {
    fn read() -> Result<Machine> {
        let times = CpuTimes::read()?;
        let used_ns = CpuTimes::used_ns().unwrap_or(times.busy_ticks * TICK_NS);
        let used_ns = used_ns.saturating_sub(kernel_threads_ns());
        Ok(Machine { times, used_ns })
    }

    /// Share of the time since `before` that was busy and not spent by the commands of `run` or
    /// their servers, 0 to 1.
    fn others_since(&self, before: &Machine, run: &RunReport, served: Duration) -> f64 {
        let own_ns = run.cpu_ns() + served.as_nanos() as u64;
        let others_ns = self.used_ns.saturating_sub(before.used_ns + own_ns);
        others_ns as f64 / self.total_ns_since(before) as f64
    }

    /// Time of all CPUs since `before`, at least a tick.
    fn total_ns_since(&self, before: &Machine) -> u64 {
        let ticks = self.times.total_ticks - before.times.total_ticks;
        ticks.max(1) * TICK_NS
    }
}

fn counters(groups: &[CpuCgroup]) -> Result<Vec<CpuStat>> {
    groups.iter().map(CpuCgroup::stat).collect()
}

/// Waits until the recorder writes.
fn begun(folder: &Path, gave_up: impl Fn() -> bool) -> Result<()> {
    let deadline = Instant::now() + BEGIN_LIMIT;
    while !has_begun(folder) {
        if gave_up() || Instant::now() > deadline {
            return Err(HostError::unavailable(
                "recording",
                "the recorder did not begin",
            ));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(SETTLE);
    Ok(())
}

/// The root group of a run and its groups, parents before their children.
struct Groups(Vec<CpuCgroup>);

impl Groups {
    /// Makes them under names of their own and writes their settings.
    fn make(setup: &RealSetup) -> Result<Groups> {
        let own = format!("schedcast-{}", std::process::id());
        let mut made = Groups(Vec::new());
        made.0.push(match setup.has_own_root {
            true => CpuCgroup::create("/", &own)?,
            false => CpuCgroup::open("/")?,
        });
        if setup.has_own_root {
            made.0[0].allow_real_time(1)?;
        }
        for GroupSetup { path, files } in &setup.groups {
            let (parent, name) = parent_of(path);
            let known = &setup.groups[..made.0.len() - 1];
            let group = match known.iter().position(|other| other.path == parent) {
                Some(place) => made.0[place + 1].create_child(name)?,
                None if setup.has_own_root => made.0[0].create_child(name)?,
                None => made.0[0].create_child(&format!("{own}-{name}"))?,
            };
            let paths = setup.groups.iter().map(|group| group.path.as_str());
            group.allow_real_time(siblings(path, paths))?;
            for (file, value) in files {
                group.apply(file, value)?;
            }
            made.0.push(group);
        }
        Ok(made)
    }

    /// Removes all groups, children first.
    fn close(mut self) -> Result<()> {
        while let Some(group) = self.0.pop() {
            group.close()?;
        }
        Ok(())
    }
}

impl Drop for Groups {
    /// Children first here too: a list drops its first element first, and a parent with children
    /// is busy.
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// Real-time budgets of siblings have to share their parent's.
    #[test]
    fn groups_in_groups_are_made_and_gone_again() {
        if !testing::has_groups() {
            return;
        }
        let group = |path: &str| GroupSetup {
            path: path.to_owned(),
            files: vec![("cpu.shares".to_owned(), "512".to_owned())],
        };
        for has_own_root in [false, true] {
            let setup = RealSetup {
                has_own_root,
                groups: ["/a", "/a/x", "/a/y", "/b"].map(group).to_vec(),
                programs: vec![ProgramSetup {
                    command: CommandSpec::new("true"),
                    cgroup: "/a/y".to_owned(),
                    server: None,
                }],
                timeout: Duration::from_secs(5),
                window: None,
            };
            let real = setup.run(None).unwrap();
            assert_eq!(real.groups.len(), 4);
            assert_eq!(real.servers, [None]);
            let left = std::fs::read_dir("/sys/fs/cgroup/cpu").unwrap();
            let own = format!("schedcast-{}", std::process::id());
            let left = left.filter(|one| {
                one.as_ref()
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .starts_with(&own)
            });
            assert_eq!(left.count(), 0);
        }
    }
}
