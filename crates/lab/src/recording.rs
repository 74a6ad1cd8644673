//! Facts that a recording holds about its machine, kernel and cgroups, as a document layer.
//!
//! A what-if writes its settings over this layer. Worked example: the recording of a group `/pg`
//! with `cpu.cfs_quota_us` 50000 on two CPUs and kernel 6.18.44 is the layer
//!
//! ```toml
//! [machine]
//! cpus = 2
//! [kernel]
//! version = "6.18.44"
//! [cgroup."/pg"]
//! "cpu.cfs_quota_us" = "50000"
//! ```
//!
//! and `--set 'cpu.max=60000'` on top changes the quota and keeps the period. Prices of operations
//! are not in a recording; they stay those of the preset.

mod latency;
mod layers;
mod order;
mod wakeups;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use schedcast_base::groups::is_within;
use schedcast_base::groups::{Miss, NamedGroup, Wanted, find, label_of};
use schedcast_base::names::nearest;
use schedcast_kernel::cpuset::CpuSet;
use schedcast_trace::{MeasuredSettings, Recording, Request};
pub use schedcast_workload::replay::subject::is_recorder;
use schedcast_workload::replay::{self, Bound, Dialogue, GroupIndex, Kind, Rare, Replay};

pub use self::latency::Latency;
pub(crate) use self::layers::refused_kernel;
pub use self::order::KeptOrder;
use self::wakeups::RemoteWakeups;
use crate::clients::{Asking, ClosedLoop};
use crate::comparison::Tier;
use crate::error::{Error, Result};
use crate::experiment::document::{Entry, Table};
use crate::experiment::kernel::names::note_of_recorded;
use crate::experiment::{self, Surroundings};
use crate::held_back::AskedAtAnyTime;
use crate::metrics;
use crate::simulator::{bad_input, bad_recording};

/// Facts that a recording holds about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The folder as typed.
    pub folder: String,
    /// Its machine, kernel and cgroups as a document layer.
    pub layer: Table,
    /// Length in nanoseconds.
    pub length_ns: u64,
    /// Basis of an answer from the recording.
    pub tier: Tier,
    /// Measurements under other settings, where the recording has them.
    pub measured: Option<MeasuredSettings>,
    /// Figures that the recording itself shows of its threads and groups.
    pub seen: Box<Seen>,
    /// Its groups with what they are called: units, containers, pods.
    pub named: Vec<NamedGroup>,
    /// The group that was named when it was made.
    pub asked: Option<String>,
    /// Notes that a reader needs before trusting an answer from it, a sentence each.
    pub notes: Vec<String>,
}

/// Figures of the recorded run, which a re-simulation of it must meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// By thread subject and by cgroup.
    pub figures: Option<replay::RecordedFigures>,
    /// Subjects of the threads of each cgroup and of those below it, the one with the most
    /// activations first.
    pub members: BTreeMap<String, Vec<String>>,
    /// How many threads there were, by subject.
    pub threads: BTreeMap<String, usize>,
    /// How much the CPU time of a request of each cgroup's main threads drifted, in thousandths.
    pub drift_permille: BTreeMap<String, u64>,
    /// Work of each cgroup that runs to come may have and the recording does not show.
    pub rare: BTreeMap<String, Rare>,
    /// By cgroup that serves requests: whether its clients ask again when the last reply has come.
    pub closed_loops: BTreeMap<String, ClosedLoop>,
    /// By cgroup that serves requests: whether its replies keep an order that a limit made.
    pub kept_order: BTreeMap<String, KeptOrder>,
    /// By cgroup that serves requests: what belongs to one.
    pub dialogues: BTreeMap<String, Dialogue>,
    /// By cgroup that serves several kinds of clients: these.
    pub kinds: BTreeMap<String, Vec<Kind>>,
    /// Cgroups of which the recording shows when their periods end.
    pub timed_periods: BTreeSet<String>,
    /// Cgroups of whose cpusets the recording has no file, with the CPUs that some of their threads
    /// were bound to.
    pub bound: BTreeMap<String, CpuSet>,
    /// Whether the machine shares its CPUs with other guests.
    pub is_virtual: bool,
    /// Requests of a log beside it of which nothing is used.
    pub unused_log: u64,
    /// Subjects whose threads all were there for less than half of the recording.
    pub brief: BTreeSet<String>,
    /// Cgroups in which threads were.
    pub peopled: BTreeSet<String>,
    /// Requests in the log beside the trace, whether they are of these threads or not.
    pub logged: usize,
}

/// Deviation of the CPU time that the same load costs in one run from what it costs in another, on
/// a virtual machine whose CPUs other guests share, in thousandths.
///
/// Runs of eight services under one load each deviate from their mean by 63 ‰ (69 degrees of
/// freedom; five of the bench's seen half by 39 ‰, three of the shared recordings by 81 ‰):
/// docs/validity/services-bench.md. The recorded run is one of them and the run to come is another:
/// √2 × 63.
const BETWEEN_RUNS_PERMILLE: u64 = 89;

/// Subjects whose threads all were there for less than half of the recording, such as the steps of
/// a build: from a thread's first wakeup to its last sleep.
fn brief(replay: &Replay, recording: &Recording) -> BTreeSet<String> {
    let (start_ns, end_ns) = recording.span_ns();
    let half_ns = end_ns.saturating_sub(start_ns) / 2;
    let mut longest_ns: BTreeMap<&str, u64> = BTreeMap::new();
    for thread in &replay.threads {
        let range = thread.activations.start as usize..thread.activations.end as usize;
        let activations = &replay.activations[range];
        let first_ns = activations.first().map_or(0, |one| one.woken_ns);
        let last = activations.last();
        let last_ns = last.map_or(0, |one| one.end_ns.unwrap_or(half_ns * 2));
        let longest = longest_ns.entry(&thread.subject).or_default();
        *longest = (*longest).max(last_ns.saturating_sub(first_ns));
    }
    let all = longest_ns.into_iter();
    all.filter(|(_, lived_ns)| *lived_ns < half_ns)
        .map(|(subject, _)| subject.to_string())
        .collect()
}

impl Seen {
    /// Figures that `replay` shows.
    fn of(replay: &Replay, recording: &Recording) -> Seen {
        let is_virtual = recording.meta.is_virtual == Some(true);
        let log = recording.requests.as_deref().unwrap_or(&[]);
        let tells_loop = !log.is_empty() && !Request::are_whole_milliseconds(log);
        let figures = replay.measured();
        let served = |name: &str| {
            let mut threads = figures.threads.iter();
            threads.any(|one| one.name == name && one.request_latency.count > 0)
        };
        let mut members = BTreeMap::new();
        let mut drift_permille = BTreeMap::new();
        let mut rare = BTreeMap::new();
        for (index, group) in replay.groups.iter().enumerate().skip(1) {
            let mut activations: BTreeMap<&str, usize> = BTreeMap::new();
            for thread in replay.members(GroupIndex(index as u32)) {
                let name = replay.threads[thread.index()].subject.as_str();
                *activations.entry(name).or_default() += replay.activations_of(thread).len();
            }
            let mut names: Vec<(&str, usize)> = activations.into_iter().collect();
            // Threads that are known to serve requests stand for the group, else the most active
            // ones.
            names.sort_by_key(|&(name, count)| {
                (!served(name), std::cmp::Reverse(count), name.to_string())
            });
            if let Some((main, _)) = names.first() {
                let drift = replay.drift_permille(GroupIndex(index as u32), main);
                drift_permille.insert(group.path.clone(), drift);
                let found = replay.rare(recording, GroupIndex(index as u32), main);
                rare.extend(found.map(|rare| (group.path.clone(), rare)));
            }
            let mut names: Vec<String> = names
                .into_iter()
                .map(|(name, _)| name.to_string())
                .collect();
            let services = replay.services.iter();
            let own = services
                .filter(|one| is_within(&replay.groups[one.group.index()].path, &group.path));
            let kinds = own
                .flat_map(|one| &one.kinds)
                .map(|kind| kind.subject.clone());
            let behind_main = names.len().min(1);
            names.splice(behind_main..behind_main, kinds);
            members.insert(group.path.clone(), names);
        }
        let served_in = |group: GroupIndex| {
            let mut threads = replay.members(group).into_iter();
            threads.any(|thread| served(&replay.threads[thread.index()].subject))
        };
        let services = replay.services.iter().enumerate();
        let told = |number: usize, one: &replay::Service| match one.bound {
            Bound::Connections(connections) => {
                ClosedLoop::Yes(Asking::of(replay, number, connections))
            }
            Bound::Clients(clients) => ClosedLoop::Bounded(clients),
            // A log that is not of these threads tells nothing of their clients.
            Bound::None if tells_loop && served_in(one.group) => ClosedLoop::No,
            Bound::None => ClosedLoop::Unknown {
                coarse: one.coarse_timers,
            },
        };
        let path = |group: GroupIndex| replay.groups[group.index()].path.clone();
        let timed = replay.groups.iter().filter(|group| group.phase.is_some());
        let dialogues = replay.services.iter();
        let dialogues = dialogues.map(|one| (path(one.group), one.dialogue));
        let kinds = replay.services.iter().filter(|one| !one.kinds.is_empty());
        let kinds = kinds.map(|one| (path(one.group), one.kinds.clone()));
        let closed_loops = services.map(|(number, one)| (path(one.group), told(number, one)));
        let closed_loops = closed_loops.collect();
        let bound = (0u32..).map(GroupIndex).zip(&replay.groups).skip(1);
        let bound = bound.filter(|(index, _)| replay.cpuset_of(*index).is_none());
        let bound = bound.filter_map(|(index, group)| {
            let members = replay.threads.iter().filter(|one| one.group == index);
            let cpus = members.filter_map(|one| one.cpus);
            let cpus = cpus.fold(CpuSet::EMPTY, |all, cpus| all.or(&cpus));
            (!cpus.is_empty()).then(|| (group.path.clone(), cpus))
        });
        let mut threads: BTreeMap<String, usize> = BTreeMap::new();
        for thread in &replay.threads {
            *threads.entry(thread.subject.clone()).or_default() += 1;
        }
        let peopled = replay.threads.iter().map(|thread| path(thread.group));
        Seen {
            bound: bound.collect(),
            figures: Some(figures),
            timed_periods: timed.map(|group| group.path.clone()).collect(),
            members,
            threads,
            drift_permille,
            rare,
            closed_loops,
            kept_order: KeptOrder::of_all(replay),
            dialogues: dialogues.collect(),
            kinds: kinds.collect(),
            is_virtual,
            unused_log: replay.report.unused_log,
            brief: brief(replay, recording),
            peopled: peopled.collect(),
            logged: log.len(),
        }
    }

    /// How much the CPU time of a request of `cgroup` may drift until another run, as deviation in
    /// thousandths: as much as it drifted in the recording, and on virtual machines at least as
    /// much as runs there differ.
    pub fn drift_of(&self, cgroup: &str) -> u64 {
        let recorded = self.drift_permille.get(cgroup).copied().unwrap_or(0);
        match self.is_virtual {
            true => recorded.max(BETWEEN_RUNS_PERMILLE),
            false => recorded,
        }
    }

    /// Work of `cgroup` that a run to come may have besides what was recorded: its path, and how
    /// much may come in one piece, ns.
    pub fn piece_of(&self, cgroup: &str) -> Option<(String, u64)> {
        let rare = self.rare.get(cgroup)?;
        Some((cgroup.to_string(), rare.piece_ns))
    }

    /// How long `cgroup` takes, of several jobs the longest, if its threads all end; else the
    /// [latency of its threads](Self::thread_latency).
    pub fn latency(&self, cgroup: &str) -> Option<Latency> {
        let jobs = self.jobs_of(cgroup).into_iter();
        match jobs.max_by_key(|job| job.length_ns) {
            Some(job) => Some(Latency::new(&job.name, Latency::JOB)),
            None => self.thread_latency(cgroup),
        }
    }

    /// Latency of the requests of `cgroup` as its clients see it, where the recording shows that
    /// for a service or for most of what its main threads do: from the time a request is due to its
    /// answer, else from the message to its reply. Where the recording shows neither: the
    /// activations of these threads.
    pub fn thread_latency(&self, cgroup: &str) -> Option<Latency> {
        let main = self.main_threads(cgroup)?;
        let figures = self.figures.as_ref();
        let threads = figures.and_then(|all| all.threads.iter().find(|one| one.name == main));
        let all = |one: &replay::Quantiles| one.count + one.unfinished;
        let shown = threads.and_then(|one| {
            let most =
                |latency| all(latency) > 0 && 2 * all(latency) >= all(&one.activation_latency);
            let known = [
                (Latency::REQUEST, &one.request_latency),
                (Latency::REPLY, &one.reply_latency),
            ];
            // A request of a service may be many activations of its threads, or a part of one.
            let known = known.into_iter();
            known
                .filter(|(_, latency)| all(latency) > 0)
                .find(|(name, latency)| {
                    let of_service = one.serves && *name == Latency::REQUEST;
                    of_service || most(latency)
                })
        });
        let name = shown.map_or(Latency::ACTIVATION, |(name, _)| name);
        Some(Latency::new(main, name))
    }

    /// The main threads of `cgroup`, if nothing but their activations is known of what clients wait
    /// for.
    pub fn asked_at_any_time(&self, cgroup: &str) -> Option<AskedAtAnyTime> {
        let latency = self.thread_latency(cgroup);
        let latency = latency.filter(|one| one.name == Latency::ACTIVATION)?;
        let threads = *self.threads.get(&latency.threads)?;
        Some(AskedAtAnyTime::new(&latency.threads, threads, cgroup))
    }

    /// The quantiles of `latency` that the recording itself shows.
    pub fn quantiles(&self, latency: &Latency) -> Option<&replay::Quantiles> {
        let mut all = self.figures.iter().flat_map(|figures| &figures.threads);
        let threads = all.find(|one| one.name == latency.threads)?;
        Some(match latency.name {
            Latency::REQUEST => &threads.request_latency,
            Latency::REPLY => &threads.reply_latency,
            Latency::JOB => return None,
            _ => &threads.activation_latency,
        })
    }

    /// Whether requests are inferred from wakeups, as no log of them is in use.
    pub(crate) fn requests_are_inferred(&self) -> bool {
        self.unused_log >= self.logged as u64
    }

    /// The jobs in `cgroup` and below it, if all its threads ended in the recording.
    pub(crate) fn jobs_of(&self, cgroup: &str) -> Vec<&replay::MeasuredJob> {
        let jobs = self.figures.iter().flat_map(|figures| &figures.jobs);
        let mut own: Vec<&replay::MeasuredJob> =
            jobs.filter(|job| is_within(&job.path, cgroup)).collect();
        let mut busy = self.peopled.iter().filter(|path| is_within(path, cgroup));
        if !busy.all(|path| own.iter().any(|job| job.path == *path)) {
            own.clear();
        }
        own
    }

    /// How many requests that `latency` times finished in the recording.
    pub fn finished(&self, latency: &Latency) -> Option<u64> {
        Some(self.quantiles(latency)?.count)
    }

    /// CPUs' worth of time that `cgroup` used on average over `length_ns`; 0 where that is not
    /// known.
    pub fn mean_cpus(&self, cgroup: &str, length_ns: u64) -> f64 {
        let groups = self.figures.iter().flat_map(|all| &all.groups);
        let used = groups.filter(|group| group.path == cgroup);
        let used_ns: u64 = used.map(|group| group.usage_ns).sum();
        used_ns as f64 / length_ns.max(1) as f64
    }

    /// Why nothing of a group of the recording can be forecast; `None` where its threads ran.
    pub fn idle(&self, cgroup: &str) -> Option<String> {
        let is_idle = self.members.get(cgroup).is_some_and(Vec::is_empty);
        is_idle.then(|| {
            format!(
                "no thread of `{cgroup}` ran in the recording, so that nothing of it can be forecast; record it while \
                 it has work to do"
            )
        })
    }

    /// The threads that do a group's work: those whose requests are known, else those of the
    /// subject with the most activations.
    pub fn main_threads(&self, cgroup: &str) -> Option<&str> {
        let names = self.members.get(cgroup)?;
        names.first().map(String::as_str)
    }

    /// Subjects of the threads of these groups and of those below them.
    pub(crate) fn members_of(&self, cgroups: &[String]) -> Vec<String> {
        let all = cgroups.iter().filter_map(|path| self.members.get(path));
        all.flatten().cloned().collect()
    }
}

impl Recorded {
    /// Reads the recording in `folder`.
    ///
    /// # Errors
    /// Anything that cannot be read or does not follow its format, with its place; a topology that
    /// is not regular; a trace with gaps.
    pub fn open(folder: &Path) -> Result<Recorded> {
        let recording = Recording::open(folder).map_err(|error| bad_recording(folder, error))?;
        let options = replay::InferOptions::default();
        Recorded::read(&recording, folder, || {
            replay::infer(&recording, &options).map_err(bad_input)
        })
    }

    /// The same of a recording that is read already, of which `infer` tells what its threads do
    /// where the simulator charges nothing.
    pub(crate) fn read(
        recording: &Recording,
        folder: &Path,
        infer: impl FnOnce() -> Result<Replay>,
    ) -> Result<Recorded> {
        let wakeups = RemoteWakeups::of(recording);
        let mut recorded = Recorded::with(recording, &folder.display().to_string(), &wakeups)?;
        let replay = infer()?;
        recorded.seen = Box::new(Seen::of(&replay, recording));
        recorded.notes = replay.report.notes();
        let kernel = recording.meta.kernel.as_deref();
        recorded.notes.extend(kernel.and_then(note_of_recorded));
        recorded.notes.extend(recorded.jobs_under_way());
        recorded.notes.extend(wakeups.note());
        Ok(recorded)
    }

    /// Notes of jobs whose beginning the recording does not show, of the group that was named when
    /// it was made, or of all.
    fn jobs_under_way(&self) -> Vec<String> {
        let jobs = self.seen.figures.iter().flat_map(|figures| &figures.jobs);
        let asked = self.asked.as_ref();
        let told = jobs
            .filter(|job| !job.is_whole && asked.is_none_or(|asked| is_within(&job.path, asked)));
        let told = told.map(|job| {
            let (name, path) = (&job.name, &job.path);
            format!(
                "`{name}` of {path} was running when the recording began: `{name}/{}` is its rest",
                metrics::TIME
            )
        });
        told.collect()
    }

    /// Facts that `recording`, read from `folder`, holds.
    ///
    /// # Errors
    /// A topology that is not regular.
    pub fn of(recording: &Recording, folder: &str) -> Result<Recorded> {
        Recorded::with(recording, folder, &RemoteWakeups::of(recording))
    }

    fn with(recording: &Recording, folder: &str, wakeups: &RemoteWakeups) -> Result<Recorded> {
        let mut layer = layers::machine(recording, folder)?;
        layer.merge(&layers::kernel(&recording.meta, folder));
        layer.merge(&layers::wakeups(wakeups, folder));
        if let Some(tree) = &recording.cgroups_before {
            layer.merge(&layers::cgroups(tree, folder));
        }
        let (start_ns, end_ns) = recording.span_ns();
        Ok(Recorded {
            folder: folder.to_string(),
            layer,
            length_ns: end_ns.saturating_sub(start_ns),
            tier: Tier::Trace,
            measured: recording.measured.clone(),
            seen: Box::default(),
            named: recording
                .cgroups_before
                .iter()
                .flat_map(|tree| recording.meta.named_groups(tree))
                .collect(),
            asked: recording.meta.cgroup.clone(),
            notes: recording
                .notes()
                .into_iter()
                .chain(wakeups.note())
                .collect(),
        })
    }

    /// Groups whose limit a question can be about: the one that was named when the recording was
    /// made, or those in it, if only they had a limit. Where none was named: those that had a
    /// limit, or the only group there is, if none had.
    ///
    /// # Errors
    /// Settings in the recording that no kernel accepts.
    pub(crate) fn groups_in_question(&self) -> Result<Vec<String>> {
        let mut layer = self.layer.clone();
        if refused_kernel(&layer).is_some() {
            // Another one will be named; which groups have limits is the same on all.
            layer.take("kernel");
        }
        let plain = Surroundings {
            below: vec![layer],
            ..Surroundings::default()
        };
        let limited = experiment::read(&Table::default(), &plain)?.limited_groups();
        let is_there = |asked: &&String| self.groups().any(|entry| entry.key == **asked);
        if let Some(asked) = self.asked.as_ref().filter(is_there) {
            let mut inside = limited;
            inside.retain(|path| is_within(path, asked));
            return Ok(match inside.is_empty() || inside.contains(asked) {
                true => vec![asked.clone()],
                false => inside,
            });
        }
        let mut groups = self.groups().map(|entry| entry.key.clone());
        Ok(match (groups.next(), groups.next()) {
            (Some(only), None) if limited.is_empty() => vec![only],
            _ => limited,
        })
    }
}

impl Recorded {
    /// The path of the group that is meant. A path that no group has is given back as it is:
    /// whoever uses it knows what to say about it.
    ///
    /// # Errors
    /// No group is called so, or several are.
    pub fn find(&self, wanted: &Wanted) -> Result<String> {
        found(wanted, &self.named)
    }

    /// Name of the group at `path`, if it has one other than its path.
    pub fn label(&self, path: &str) -> Option<String> {
        label_of(path, &self.named)
    }

    /// The recorded groups, the root left out.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Entry> {
        groups_of(&self.layer)
    }

    /// Refuses settings for groups that the recording does not have: nothing runs in them.
    ///
    /// # Errors
    /// The first such group, with the nearest one that exists.
    pub(crate) fn refuse_unknown_groups(&self, setting: &Table) -> Result<()> {
        let names: Vec<&str> = self.groups().map(|entry| entry.key.as_str()).collect();
        match groups_of(setting).find(|entry| !names.contains(&entry.key.as_str())) {
            None => Ok(()),
            Some(entry) => {
                let message = format!("the recording has no cgroup `{}`", entry.key);
                let hint = match nearest(&entry.key, names.iter().copied()) {
                    Some(name) => format!("the nearest cgroup is `{name}`"),
                    None if names.is_empty() => "it has none but the root".to_string(),
                    None => format!("it has {}", names.join(", ")),
                };
                Err(Error::input(&entry.key_place, message).hint(hint))
            }
        }
    }
}

/// The path of the group that is meant among those of a recording.
pub fn found(wanted: &Wanted, named: &[NamedGroup]) -> Result<String> {
    match (find(wanted, named), wanted) {
        (Ok(group), _) => Ok(group.path.clone()),
        (Err(Miss::Unknown { .. }), Wanted::Path(path)) => Ok(path.clone()),
        (Err(miss), _) => {
            let error = Error::general(format!("{miss} in the recording"));
            let hint = miss.hint();
            // The advice to look around is about this host.
            let hint = hint
                .split_once("; `schedcast top")
                .map_or(hint.as_str(), |(hint, _)| hint);
            Err(error.hint(hint))
        }
    }
}

/// The `[cgroup."…"]` tables of a document layer.
fn groups_of(layer: &Table) -> impl Iterator<Item = &Entry> {
    let section = layer.get("cgroup").and_then(|value| value.table("").ok());
    section.into_iter().flat_map(|table| &table.entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Scenario;
    use crate::experiment::cgroup::{CgroupVersion, Weight};
    use schedcast_base::assert_contains;
    use schedcast_base::limits::CpuLimits;
    use schedcast_kernel::rules::Preemption;

    fn shipped(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../recordings")
            .join(name)
    }

    fn plain(recorded: &Recorded) -> Result<Scenario> {
        let surroundings = Surroundings {
            below: vec![recorded.layer.clone()],
            ..Surroundings::default()
        };
        Ok(experiment::read(&Table::default(), &surroundings)?
            .scenarios
            .remove(0))
    }

    /// A recording of one switch with this `recording.json` and `cgroups.json`.
    fn made(meta: &str, cgroups: &str) -> Result<Recorded> {
        let directory = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        let switch = "          <idle>-0       [000] d..2.     5.000001: sched_switch: \
                      prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> \
                      next_comm=a next_pid=7 next_prio=120\n               \
                      a-7       [000] d..2.     5.000002: sched_switch: prev_comm=a prev_pid=7 \
                      prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120\n";
        write("trace.txt", switch);
        write(
            "recording.json",
            &format!("{{\"trace\": \"trace.txt\", {meta}}}"),
        );
        if !cgroups.is_empty() {
            write("cgroups.json", &format!("{{\"before\": {cgroups}}}"));
        }
        Recorded::open(directory.path())
    }

    #[test]
    fn the_shipped_recording_says_what_it_ran_on() {
        let recorded = Recorded::open(&shipped("postgres-quota")).unwrap();
        let scenario = plain(&recorded).unwrap();
        assert_eq!(scenario.machine.cpus(), 2);
        let kernel = &scenario.kernel;
        assert_eq!(
            (kernel.version.to_string().as_str(), kernel.hz),
            ("6.18.44", 250)
        );
        assert_eq!((kernel.preempt, kernel.autogroup), (Preemption::None, true));
        assert_eq!(scenario.cgroup_version, CgroupVersion::V1);
        let group = &scenario.cgroups["/pg"];
        assert_eq!(group.limits, CpuLimits::new(50_000, 100_000, 0));
        assert_eq!(group.weight, Weight::Shares(1024));
        assert_eq!(recorded.groups_in_question().unwrap(), ["/pg"]);
        assert_eq!(recorded.length_ns / 1_000_000, 29_500);
        assert_eq!(recorded.measured.unwrap().settings.len(), 7);
    }

    #[test]
    fn without_limits_the_only_group_is_in_question_and_of_two_neither() {
        let recorded = Recorded::open(&shipped("postgres-nolimit")).unwrap();
        assert_eq!(recorded.groups_in_question().unwrap(), ["/pg"]);
        let cgroups = r#"{"/": {"tasks": []}, "/a": {"cpu.max": "max 100000", "tasks": []},
            "/b": {"cpu.max": "max 100000", "tasks": []}}"#;
        let two = made(r#""kernel": "6.12", "cpus": 2"#, cgroups).unwrap();
        assert!(two.groups_in_question().unwrap().is_empty());
    }

    #[test]
    fn vendor_kernels_idle_groups_and_topologies_read() {
        let meta = r#""kernel": "6.1.0-13-amd64", "cpus": 8, "smt": 2, "sockets": 2, "llc": [[0,1,4,5],[2,3,6,7]]"#;
        let cgroups = r#"{"/": {"tasks": []}, "/idle": {"cpu.idle": "1", "cpu.weight": "1",
            "cpuset.cpus": "", "cpu.max": "max 100000", "tasks": []}}"#;
        let scenario = plain(&made(meta, cgroups).unwrap()).unwrap();
        assert_eq!(scenario.kernel.version.to_string(), "6.1");
        let topology = &scenario.machine.machine.topology;
        assert_eq!(
            (
                topology.cpus(),
                topology.places[7].socket,
                topology.places[7].llc
            ),
            (8, 1, 1)
        );
        let group = &scenario.cgroups["/idle"];
        assert!(group.idle && group.cpus.is_none() && group.limits.quota_us.is_none());
        assert_eq!(scenario.cgroup_version, CgroupVersion::V2);
    }

    #[test]
    fn recorded_clamps_need_a_kernel_with_them_and_default_ones_do_not() {
        let meta = r#""kernel": "6.12", "cpus": 2"#;
        let of = |min: &str| {
            let cgroups = format!(
                r#"{{"/": {{"tasks": []}}, "/a": {{"cpu.uclamp.min": "{min}",
                "cpu.uclamp.max": "max", "tasks": []}}}}"#
            );
            let scenario = plain(&made(meta, &cgroups).unwrap()).unwrap();
            (scenario.kernel.uclamp, scenario.cgroups["/a"].clamps.min)
        };
        assert_eq!(of("0.00"), (false, 0));
        assert_eq!(of("25.00"), (true, 256));
    }

    #[test]
    fn a_recording_of_a_newer_kernel_is_one_of_the_newest_known() {
        let newer = made(r#""kernel": "7.9.0-rc1+deb14-amd64", "cpus": 1"#, "");
        let kernel = plain(&newer.unwrap()).unwrap().kernel;
        assert_eq!(kernel.release().to_string(), "7.9");
        let notes = made(r#""kernel": "6.1.0-35-amd64", "cpus": 1"#, "")
            .unwrap()
            .notes;
        assert!(
            notes
                .iter()
                .any(|note| note.contains("6.1.0-35-amd64 is taken for 6.1"))
        );
    }

    #[test]
    fn what_no_machine_or_kernel_has_is_refused() {
        let error = made(r#""cpus": 3, "smt": 2"#, "").unwrap_err().to_string();
        assert!(error.contains("3 CPUs do not divide evenly"), "{error}");
        let error = plain(&made(r#""kernel": "4.4.1", "cpus": 1"#, "").unwrap()).unwrap_err();
        assert_contains(&error, "recording.json:1:18: kernel 4.4.1 is outside");
        let error = Recorded::open(Path::new("/nowhere")).unwrap_err();
        assert_eq!(error.exit_code(), 3);
    }
}
