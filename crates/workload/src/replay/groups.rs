//! Which cpu cgroup each thread belongs to, and what limits the groups had.
//!
//! Membership is by pid. A thread that existed before the recording is where `before` of
//! `cgroups.json` lists it, else where `after` does, else in the root group. A forked thread is
//! where `after` lists it, else in its parent's group. Kernel threads are in the root group unless
//! listed. So a service that starts while recording is in the group that it was moved to from its
//! fork on, and so are its threads: a service manager forks, moves the child and executes the
//! service within milliseconds.
//!
//! # Autogroups
//!
//! With autogroup on, fair user threads of the root group are scheduled in one group per session
//! (`setsid`), each with the weight of a cgroup. The session is not in a trace. The rule taken
//! here: a forked thread shares its parent's autogroup, all others share one with the threads whose
//! names begin with the same letters (`agentd` and `agentd-worker` together, `pgbench` apart). It
//! errs when one shell started two programs, or one program was started in two sessions.

use super::threads::{Origin, ThreadId};
use schedcast_base::cpu_stat::CpuStat;
use schedcast_kernel::Cpu;
use schedcast_kernel::cpuset::{CpuSet, MAX_CPUS};
use schedcast_kernel::group::BandwidthLimit;
use schedcast_kernel::task::Policy;
use schedcast_trace::{CgroupTree, Pid, Weight};
use std::collections::BTreeMap;

/// Index into [`super::Replay::groups`]; 0 is the root group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupIndex(pub u32);

impl GroupIndex {
    /// The root group.
    pub(crate) const ROOT: GroupIndex = GroupIndex(0);

    /// As a table index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A group as it was while recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Path; autogroups are called `/autogroup/NAME`.
    pub path: String,
    /// Parent; `None` for the root.
    pub parent: Option<GroupIndex>,
    /// `cpu.shares` (`cpu.weight` 100 is 1024).
    pub shares: u64,
    /// `cpu.idle`.
    pub idle: bool,
    /// CPUs that its cpuset left it at the end; `None` where that is not known.
    pub cpus: Option<CpuSet>,
    /// Limit in force while recording.
    pub limit: BandwidthLimit,
    /// Made by autogroup, no cgroup.
    pub autogroup: bool,
    /// Statistics at the start and at the end, where the recording has both.
    pub stat: Option<(CpuStat, CpuStat)>,
    /// Phase of the period timer, if the recording shows it.
    pub phase: Option<super::phase::Phase>,
}

impl Group {
    /// By how much its counters grew while recording, where the recording has them.
    pub(super) fn grown(&self) -> Option<CpuStat> {
        let (before, after) = self.stat?;
        Some(after.since(&before))
    }

    /// Whether its counters began anew while recording.
    pub(super) fn has_begun_anew(&self) -> bool {
        self.stat
            .is_some_and(|(before, after)| after.began_anew(&before))
    }

    fn root() -> Self {
        Self {
            path: String::from("/"),
            parent: None,
            shares: 1024,
            idle: false,
            cpus: None,
            limit: BandwidthLimit::UNLIMITED,
            autogroup: false,
            stat: None,
            phase: None,
        }
    }
}

/// Facts of a thread that decide its placement.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub pid: Pid,
    pub name: &'a str,
    pub origin: Origin,
    pub kernel: bool,
    pub policy: Policy,
}

/// The groups of a recording and every thread's place in them.
#[derive(Debug)]
pub(super) struct Placement {
    pub groups: Vec<Group>,
    /// Per thread.
    pub of_thread: Vec<GroupIndex>,
    /// Threads listed nowhere and not forked by a known thread.
    pub unlisted: u32,
    /// Threads whose group changed during the recording.
    pub moved: u32,
    /// Groups whose limit changed during the recording.
    pub relimited: Vec<String>,
}

/// Reads the groups and places the threads.
///
/// # Errors
/// If a file of a group does not hold what the kernel writes there; the message names it.
pub(super) fn place(
    before: Option<&CgroupTree>,
    after: Option<&CgroupTree>,
    autogroup: bool,
    members: &[Member<'_>],
) -> Result<Placement, String> {
    let mut groups = vec![Group::root()];
    let mut by_path = BTreeMap::from([(String::from("/"), GroupIndex::ROOT)]);
    for tree in [before, after].into_iter().flatten() {
        for (path, _) in tree.iter() {
            if path != "/" && !by_path.contains_key(path) {
                let index = GroupIndex(groups.len() as u32);
                groups.push(read(path, before, after, &by_path)?);
                by_path.insert(path.to_owned(), index);
            }
        }
    }
    let first = listed(before, &by_path);
    let last = listed(after, &by_path);
    let mut placement = Placement {
        groups,
        of_thread: Vec::with_capacity(members.len()),
        unlisted: 0,
        moved: 0,
        relimited: relimited(before, after)?,
    };
    for member in members {
        let group = placement.group_of(member, &first, &last);
        placement.of_thread.push(group);
    }
    if autogroup {
        placement.split_sessions(members);
    }
    Ok(placement)
}

impl Placement {
    fn group_of(
        &mut self,
        member: &Member<'_>,
        first: &BTreeMap<Pid, GroupIndex>,
        last: &BTreeMap<Pid, GroupIndex>,
    ) -> GroupIndex {
        let (before, after) = (first.get(&member.pid), last.get(&member.pid));
        let known = match member.origin {
            Origin::Before => {
                if let (Some(before), Some(after)) = (before, after) {
                    self.moved += u32::from(before != after);
                }
                before.or(after).copied()
            }
            Origin::Fork(parent) => after
                .or_else(|| self.of_thread.get(parent.index()))
                .copied(),
            Origin::UnknownFork => after.copied(),
        };
        known.unwrap_or_else(|| {
            self.unlisted += u32::from(!member.kernel);
            GroupIndex::ROOT
        })
    }

    fn split_sessions(&mut self, members: &[Member<'_>]) {
        let mut sessions: BTreeMap<String, GroupIndex> = BTreeMap::new();
        let mut of_thread: Vec<Option<GroupIndex>> = Vec::with_capacity(members.len());
        for (member, group) in members.iter().zip(&self.of_thread) {
            if *group != GroupIndex::ROOT || member.kernel || !member.policy.is_fair() {
                of_thread.push(None);
                continue;
            }
            let inherited = match member.origin {
                Origin::Fork(parent) => of_thread.get(parent.index()).copied().flatten(),
                _ => None,
            };
            let session = inherited.unwrap_or_else(|| {
                let next = GroupIndex((self.groups.len()) as u32);
                let name = session_name(member.name);
                *sessions.entry(name.to_owned()).or_insert_with(|| {
                    self.groups.push(Group {
                        path: format!("/autogroup/{name}"),
                        parent: Some(GroupIndex::ROOT),
                        autogroup: true,
                        ..Group::root()
                    });
                    next
                })
            });
            of_thread.push(Some(session));
        }
        for (group, session) in self.of_thread.iter_mut().zip(of_thread) {
            *group = session.unwrap_or(*group);
        }
    }
}

/// Groups from `group` up to, but without, the root.
pub(super) fn lineage(
    groups: &[Group],
    group: GroupIndex,
) -> impl Iterator<Item = GroupIndex> + '_ {
    std::iter::successors(Some(group), |group| groups[group.index()].parent)
        .take_while(|group| *group != GroupIndex::ROOT)
}

/// The letters at the beginning of a name, which threads of one program usually share.
fn session_name(name: &str) -> &str {
    let end = name
        .find(|c: char| !c.is_alphabetic())
        .unwrap_or(name.len());
    if end == 0 { name } else { &name[..end] }
}

fn listed(
    tree: Option<&CgroupTree>,
    by_path: &BTreeMap<String, GroupIndex>,
) -> BTreeMap<Pid, GroupIndex> {
    let mut listed = BTreeMap::new();
    for (path, group) in tree.into_iter().flat_map(CgroupTree::iter) {
        let index = by_path.get(path).copied().unwrap_or(GroupIndex::ROOT);
        listed.extend(group.tasks.iter().map(|pid| (*pid, index)));
    }
    listed
}

/// Groups that have another limit after than before.
fn relimited(
    before: Option<&CgroupTree>,
    after: Option<&CgroupTree>,
) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    for (path, group) in before.into_iter().flat_map(CgroupTree::iter) {
        let later = after.and_then(|tree| tree.get(path));
        if let Some(later) = later
            && later.bandwidth()? != group.bandwidth()?
        {
            paths.push(path.to_owned());
        }
    }
    Ok(paths)
}

fn read(
    path: &str,
    before: Option<&CgroupTree>,
    after: Option<&CgroupTree>,
    by_path: &BTreeMap<String, GroupIndex>,
) -> Result<Group, String> {
    let at = |tree: Option<&CgroupTree>| tree.and_then(|tree| tree.get(path)).cloned();
    let (before, after) = (at(before), at(after));
    let Some(files) = before.as_ref().or(after.as_ref()) else {
        return Err(format!("cgroup `{path}` is listed but has no files"));
    };
    let in_group = |message: String| format!("cgroup `{path}`: {message}");
    let bandwidth = files.bandwidth().map_err(in_group)?;
    let shares = match files.weight().map_err(in_group)? {
        Some(Weight::Shares(shares)) => shares.clamp(2, 1 << 18),
        Some(Weight::Weight(weight)) => shares_of_weight(weight),
        None => 1024,
    };
    let cpus = after.as_ref().unwrap_or(files).cpus().map_err(in_group)?;
    let up = path.rsplit_once('/').map_or("/", |(up, _)| up);
    let stat = |group: &Option<schedcast_trace::Cgroup>| match group {
        Some(group) => group.stat().map_err(in_group),
        None => Ok(None),
    };
    Ok(Group {
        path: path.to_owned(),
        parent: Some(by_path.get(up).copied().unwrap_or(GroupIndex::ROOT)),
        shares,
        cpus: cpus.map(|list| cpu_set(list.cpus())),
        idle: files.is_idle().map_err(in_group)?.unwrap_or(false),
        limit: bandwidth.unwrap_or_default().into(),
        autogroup: false,
        stat: stat(&before)?.zip(stat(&after)?),
        phase: None,
    })
}

/// These of the CPUs that a set can hold.
pub(super) fn cpu_set(cpus: &[u32]) -> CpuSet {
    let known = cpus
        .iter()
        .copied()
        .filter(|cpu| (*cpu as usize) < MAX_CPUS);
    known.map(Cpu).collect()
}

/// CPUs that the nearest cpuset leaves to `group`; `None` where that is not known.
pub(super) fn cpus_of(groups: &[Group], group: GroupIndex) -> Option<CpuSet> {
    lineage(groups, group).find_map(|group| groups[group.index()].cpus)
}

/// `cpu.weight` to `cpu.shares`: 1024 / 100, rounded to nearest (`CGROUP_WEIGHT_DFL`).
fn shares_of_weight(weight: u64) -> u64 {
    (weight.clamp(1, 10_000) * 1024 + 50) / 100
}

/// The threads of a group, its children's included, in order.
pub(super) fn members_of(
    groups: &[Group],
    of_thread: impl Iterator<Item = GroupIndex>,
    group: GroupIndex,
) -> Vec<ThreadId> {
    (0u32..)
        .map(ThreadId)
        .zip(of_thread)
        .filter(|(_, of)| group == GroupIndex::ROOT || lineage(groups, *of).any(|up| up == group))
        .map(|(thread, _)| thread)
        .collect()
}

/// Per thread of so many: whether it is one of `members`.
pub(super) fn inside(members: &[ThreadId], threads: usize) -> Vec<bool> {
    let mut inside = vec![false; threads];
    for member in members {
        inside[member.index()] = true;
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(pid: Pid, name: &str, origin: Origin) -> Member<'_> {
        Member {
            pid,
            name,
            origin,
            kernel: name.starts_with("kworker"),
            policy: Policy::Normal,
        }
    }

    #[test]
    fn sessions_go_by_name_and_by_fork() {
        let members = [
            member(10, "agentd", Origin::Before),
            member(11, "agentd-worker", Origin::Before),
            member(12, "pgbench", Origin::Before),
            member(13, "sh", Origin::Fork(ThreadId(2))),
            member(14, "kworker/0:1", Origin::Before),
        ];
        let placement = place(None, None, true, &members).unwrap();
        let [agent, worker, bench, child, kernel] = placement.of_thread[..] else {
            panic!("five threads");
        };
        assert_eq!(agent, worker);
        assert_ne!(agent, bench);
        assert_eq!(bench, child);
        assert_eq!(kernel, GroupIndex::ROOT);
        assert_eq!(
            placement.groups[bench.index()].path,
            "/autogroup/pgbench".to_owned()
        );
        assert_eq!(placement.unlisted, 3);
    }

    #[test]
    fn names_without_letters_stay_whole() {
        assert_eq!(session_name("python3"), "python");
        assert_eq!(session_name("damon-regions"), "damon");
        assert_eq!(session_name("42"), "42");
        assert_eq!(session_name(""), "");
    }

    #[test]
    fn weight_100_is_1024_shares() {
        assert_eq!(shares_of_weight(100), 1024);
        assert_eq!(shares_of_weight(1), 10);
        assert_eq!(shares_of_weight(10_000), 102_400);
    }
}
