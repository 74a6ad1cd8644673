//! From a scenario to a workload: groups with their limits, programs, timed changes.
//!
//! Worked example: the groups `/a` and `/a/b` and one `rt-app` file in `/a/b` become groups 1 and 2
//! of the workload, with the file's threads in group 2. A replay brings groups of its own, with
//! what the recording says of them; the scenario's settings are laid over those.

use std::collections::BTreeMap;
use std::sync::Arc;

use schedcast_kernel::bandwidth::limits::Hierarchy;
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::platform::Op;
use schedcast_kernel::uclamp;
use schedcast_kernel::{Cpu, GroupId, Ns};
use schedcast_sim::Workload;
use schedcast_sim::workload::{GroupChange, GroupSetting, GroupSpec, TaskSpec};
use schedcast_workload::housekeeping;
use schedcast_workload::profile::Placed;
use schedcast_workload::programs::{self, Running, Start};
use schedcast_workload::replay::background::NAME;
use schedcast_workload::replay::{CompileOptions, Costs, GroupIndex, Replay};

use super::chance::Chance;
use super::{Simulator, bad_input};
use crate::error::{Error, Result};
use crate::experiment::Scenario;
use crate::experiment::cgroup::CgroupVersion;
use crate::experiment::program::{Action, Program};
use crate::experiment::service::Profiled;

/// A workload and how long it lasts by itself.
pub(super) struct Built {
    pub workload: Workload,
    /// `None`: until its programs end.
    pub duration_ns: Option<Ns>,
    /// Its benchmarks, which know their own metrics.
    pub programs: Vec<Running>,
}

/// Builds the workload of a scenario.
///
/// # Errors
/// An unknown program, a file that cannot be read, a recording that cannot be replayed.
pub(super) fn build(simulator: &Simulator, scenario: &Scenario, chance: Chance) -> Result<Built> {
    let mut builder = Builder {
        scenario,
        chance,
        workload: Workload {
            hierarchy: match scenario.cgroup_version {
                CgroupVersion::V1 => Hierarchy::V1,
                CgroupVersion::V2 => Hierarchy::V2,
            },
            ..Workload::default()
        },
        groups: BTreeMap::from([("/".to_string(), GroupId::ROOT)]),
        duration_ns: None,
        programs: Vec::new(),
    };
    // Recorded groups come first: what a recording says of them lies below the settings.
    for program in &scenario.programs {
        if let Action::Replay(folder, adjust) = &program.action.value {
            if !folder.exists() {
                let message = format!("there is no recording {}", folder.display());
                return Err(Error::input(&program.action.place, message));
            }
            let costs = Costs::new(scenario.machine.machine.cost_ns, scenario.kernel.hz);
            let replay = simulator.readings.replay(folder, &costs, adjust)?;
            builder.add_replay(simulator, &replay, program)?;
        }
    }
    builder.add_groups();
    for program in &scenario.programs {
        match &program.action.value {
            Action::Run(words) => builder.add_command(program, words)?,
            Action::Profile(profiled) => builder.add_service(program, profiled)?,
            Action::Replay(..) => {}
        }
    }
    builder.ends_with_rt_app();
    builder.restrict_to_cpusets();
    builder.add_changes();
    builder.refuse_endless()?;
    // Last: it follows no setting and is part of no program.
    if let Some(replay) = simulator.background(scenario)? {
        builder.add_background(&replay)?;
    }
    if builder.chance.is_drawn() && simulator.has_housekeeping(scenario) {
        builder.add_housekeeping()?;
    }
    Ok(Built {
        workload: builder.workload,
        duration_ns: builder.duration_ns,
        programs: builder.programs,
    })
}

struct Builder<'a> {
    scenario: &'a Scenario,
    chance: Chance,
    workload: Workload,
    /// Groups by path.
    groups: BTreeMap<String, GroupId>,
    duration_ns: Option<Ns>,
    programs: Vec<Running>,
}

/// Path of the group above.
fn parent_path(path: &str) -> &str {
    match path.rsplit_once('/') {
        None | Some(("", _)) => "/",
        Some((parent, _)) => parent,
    }
}

impl Builder<'_> {
    fn add_replay(
        &mut self,
        simulator: &Simulator,
        replay: &Arc<Replay>,
        program: &Program,
    ) -> Result<()> {
        let options = CompileOptions {
            cpus: self.scenario.machine.cpus() as u32,
            ..CompileOptions::default()
        };
        let is_first = self.workload.groups.is_empty() && self.workload.programs.is_empty();
        let compiled = match is_first {
            true => {
                let compiled = simulator.workloads.of(replay, options)?;
                self.workload = Workload {
                    hierarchy: self.workload.hierarchy,
                    ..compiled.workload.clone()
                };
                compiled.places.clone()
            }
            false => replay
                .compile(&mut self.workload, options)
                .map_err(bad_input)?,
        };
        for (index, &group) in compiled.groups.iter().enumerate().skip(1) {
            let path = &replay.groups[index].path;
            if self.groups.insert(path.clone(), group).is_some() {
                let message = format!("another program's recording has a cgroup `{path}` too");
                return Err(Error::input(&program.action.place, message));
            }
            // The phase belongs to the period in force, which the scenario may have changed.
            if let Some(settings) = self.scenario.cgroups.get(path) {
                let index = GroupIndex(index as u32);
                let recorded = || replay.period_phase_ns(index, settings.limits.period_us * 1000);
                let phase_ns = (!settings.any_phase).then(recorded).flatten();
                self.workload.groups[group.index() - 1].period_phase_ns = phase_ns;
            }
        }
        self.lasts(compiled.duration_ns);
        Ok(())
    }

    /// The machine's own life, which ends no run and begins none.
    fn add_background(&mut self, replay: &Replay) -> Result<()> {
        self.refuse_background_threads()?;
        let cpus = self.scenario.machine.cpus();
        replay
            .add_background(&mut self.workload, cpus)
            .map_err(bad_input)?;
        Ok(())
    }

    /// Adds the kernel's own housekeeping.
    fn add_housekeeping(&mut self) -> Result<()> {
        self.refuse_background_threads()?;
        let (cpus, chance) = (self.scenario.machine.cpus(), self.chance);
        let first_ns = |name: &str| chance.first_ns(name, &housekeeping::GAPS);
        housekeeping::add(&mut self.workload, cpus, first_ns).map_err(bad_input)
    }

    fn refuse_background_threads(&self) -> Result<()> {
        let named = |task: &TaskSpec| task.statistics.as_ref().unwrap_or(&task.name) == NAME;
        if self.workload.tasks.iter().any(named) {
            let message = format!("threads called `{NAME}` would be counted with the background");
            let error = Error::general(message);
            return Err(error.hint("give the program another `name`"));
        }
        Ok(())
    }

    fn lasts(&mut self, duration_ns: Ns) {
        self.duration_ns = Some(self.duration_ns.unwrap_or(0).max(duration_ns));
    }

    /// A run ends when its programs do, or at the duration of the scenario, of a recording or of an
    /// rt-app file.
    fn refuse_endless(&self) -> Result<()> {
        if self.scenario.duration_ns.or(self.duration_ns).is_some() {
            return Ok(());
        }
        for program in &self.scenario.programs {
            let mut running = self.programs.iter();
            let running = running.find(|running| running.name == program.name);
            if let Some(end) = running.and_then(|running| running.endless_without) {
                let message = format!("`{}` runs until it is stopped", program.name);
                let hint = format!("give it {end}, or all of the run a duration: --duration 20s");
                return Err(Error::input(&program.action.place, message).hint(hint));
            }
        }
        Ok(())
    }

    /// Adds the groups that no recording brought, and lays the settings over all of them. Paths
    /// sort parents before children.
    fn add_groups(&mut self) {
        for (path, settings) in &self.scenario.cgroups {
            let group = match self.groups.get(path) {
                Some(&group) => group,
                None => {
                    let above = self.groups.get(parent_path(path));
                    let parent = above.copied().unwrap_or(GroupId::ROOT);
                    self.workload
                        .add_group(GroupSpec::new(path.clone(), parent))
                }
            };
            self.groups.insert(path.clone(), group);
            let spec = &mut self.workload.groups[group.index() - 1];
            spec.limit = settings.limits.into();
            spec.period_phase_ns = settings.period_phase_ns.or(spec.period_phase_ns);
            spec.shares = settings.shares();
            spec.idle = settings.idle;
            spec.clamps = (settings.clamps != uclamp::NONE).then_some(settings.clamps);
        }
    }

    fn add_command(&mut self, program: &Program, words: &[String]) -> Result<()> {
        let mut start = Start::new(program.name.clone(), self.scenario.machine.cpus());
        let places = self.scenario.machine.machine.topology.places.iter();
        start.nodes = places.map(|place| place.node).collect();
        let topology = &self.scenario.machine.machine.topology;
        start.capacities.clone_from(&topology.capacities);
        start.affinity = (!topology.isolated.is_empty()).then(|| topology.housekeeping());
        start.group = self
            .groups
            .get(&program.cgroup)
            .copied()
            .unwrap_or(GroupId::ROOT);
        // Files of a command line count from where schedcast was started, as in a shell.
        start.directory = std::path::PathBuf::new();
        let fork_ns = self.scenario.machine.machine.price_ns(Op::Fork);
        start.start_ns = program.start_ns + self.chance.start_ns(&program.name, fork_ns);
        start.kernel = self.scenario.kernel.rules.version;
        start.kernel_has_clamps = self.scenario.kernel.rules.uclamp;
        start.environment = program.environment.clone();
        start.log_channel = self.programs.len() as u16;
        let machine = &self.scenario.machine.machine;
        start.prices = program
            .prices
            .on_machine(&machine.program_cost)
            .map_err(|message| bad_input(format!("machine.program_cost: {message}")))?;
        let before = (self.workload.tasks.len(), self.workload.attributes.len());
        let running = programs::compile(words, &start, &mut self.workload)
            .map_err(|error| program.refused(&error))?;
        self.refuse_outside_cpusets(program, before, start.affinity)?;
        if let Some(end_ns) = running.timeout_ns {
            self.ends_by_timeout(program, end_ns)?;
        }
        self.programs.push(running);
        Ok(())
    }

    /// A run of rt-app files only ends when the last of them does: none of their threads has to
    /// finish an event for that. Beside other programs a file's `duration` ends its own threads,
    /// and no others.
    fn ends_with_rt_app(&mut self) {
        let end_ns = |running: &Running| {
            let is_rt_app = running.tool.name == programs::rt_app::TOOL.name;
            running.end_ns.filter(|_| is_rt_app)
        };
        let ends: Option<Vec<Ns>> = self.programs.iter().map(end_ns).collect();
        if let Some(last_ns) = ends.and_then(|ends| ends.into_iter().max()) {
            self.lasts(last_ns);
        }
    }

    /// The simulator ends programs by ending the run, so a program under `timeout` has to be the
    /// only one, and the run as long as it.
    fn ends_by_timeout(&mut self, program: &Program, end_ns: Ns) -> Result<()> {
        let alone = self.scenario.programs.len() == 1;
        if alone && self.scenario.duration_ns.is_none_or(|ns| ns <= end_ns) {
            self.duration_ns = Some(end_ns);
            return Ok(());
        }
        let message = "`timeout` needs a run of its own program that is not longer";
        let hint = "leave `timeout` out and give the run a duration: --duration 20s";
        Err(Error::input(&program.action.place, message).hint(hint))
    }

    fn add_service(&mut self, program: &Program, profiled: &Profiled) -> Result<()> {
        let group = |path: &str| self.groups.get(path).copied().unwrap_or(GroupId::ROOT);
        let placed = Placed {
            name: program.name.clone(),
            group: group(&program.cgroup),
            client_group: group(&profiled.client_cgroup),
        };
        let compiled = profiled.service.compile(&placed, &mut self.workload);
        compiled.map_err(bad_input)
    }

    /// CPUs that the cpusets of a group and of those above it leave (`cpuset_cpus_allowed`).
    fn cpuset(&self, group: GroupId) -> CpuSet {
        let mut sets: Vec<CpuSet> = Vec::new();
        let row = group.index().checked_sub(1);
        let mut path = row.map_or("/", |row| self.workload.groups[row].path.as_str());
        while path != "/" {
            sets.extend(match self.scenario.cgroups.get(path) {
                Some(settings) => settings
                    .cpus
                    .as_ref()
                    .map(|list| list.cpus().iter().copied().map(Cpu).collect()),
                // A recording's group that the scenario does not set.
                None => self
                    .groups
                    .get(path)
                    .and_then(|group| self.workload.groups[group.index() - 1].cpus),
            });
            path = parent_path(path);
        }
        let mut allowed = CpuSet::first(self.scenario.machine.cpus());
        for set in sets.into_iter().rev() {
            let both = allowed.and(&set);
            // A cpuset of which the one above has no CPU has that one's (`cpuset.cpus.effective`).
            allowed = if both.is_empty() { allowed } else { both };
        }
        allowed
    }

    /// Refuses a program that asks for CPUs of which its cpuset has none, as the kernel does
    /// (`__sched_setaffinity`). `before` counts the tasks and attributes of the programs before it;
    /// what it has `inherited` it does not ask for.
    fn refuse_outside_cpusets(
        &self,
        program: &Program,
        before: (usize, usize),
        inherited: Option<CpuSet>,
    ) -> Result<()> {
        let tasks = &self.workload.tasks[before.0..];
        let attributes = &self.workload.attributes[before.1..];
        let asked = tasks.iter().map(|task| (task.group, task.affinity));
        let asked = asked.filter(|(_, affinity)| *affinity != inherited);
        let group = tasks.first().map_or(GroupId::ROOT, |task| task.group);
        let moves = tasks.iter().any(|task| task.group != group)
            || attributes.iter().any(|change| change.group.is_some());
        // Which of its tasks makes a change is known while it runs only.
        let changes = attributes.iter().filter(|_| !moves);
        let changes = changes.map(|change| (group, change.affinity));
        for (group, affinity) in asked.chain(changes) {
            let (Some(affinity), allowed) = (affinity, self.cpuset(group)) else {
                continue;
            };
            if affinity.and(&allowed).is_empty() {
                let list = |set: CpuSet| crate::explain::cpu_list(&set);
                let message = format!(
                    "EINVAL: `{}` asks for CPU {}, but the cpuset of `{}` has {}",
                    program.name,
                    list(affinity),
                    self.workload.groups[group.index() - 1].path,
                    list(allowed)
                );
                return Err(Error::input(&program.action.place, message)
                    .hint("sched_setaffinity takes CPUs of the cpuset only"));
            }
        }
        Ok(())
    }

    /// Tasks may use the CPUs of their group's cpuset and of those above it.
    fn restrict_to_cpusets(&mut self) {
        let cpus = self.scenario.machine.cpus();
        for row in 0..self.workload.groups.len() {
            let allowed = self.cpuset(GroupId::from(row + 1));
            self.workload.groups[row].cpus = (allowed.len() < cpus).then_some(allowed);
        }
        for task in &mut self.workload.tasks {
            let row = task.group.index().checked_sub(1);
            let Some(allowed) = row.and_then(|row| self.workload.groups[row].cpus) else {
                continue;
            };
            let own = task.affinity.unwrap_or(allowed);
            // A recorded thread whose own CPUs are all outside the cpuset gets the whole cpuset.
            let both = own.and(&allowed);
            task.affinity = Some(if both.is_empty() { allowed } else { both });
        }
    }

    /// Whether a group has other utilisation clamps than a new one at some time.
    fn clamps_are_written(&self, path: &str) -> bool {
        let changes = self.scenario.changes.iter().map(|change| &change.cgroups);
        let mut states = changes.chain([&self.scenario.cgroups]);
        states.any(|groups| {
            groups
                .get(path)
                .is_some_and(|group| group.clamps != uclamp::NONE)
        })
    }

    fn add_changes(&mut self) {
        for change in &self.scenario.changes {
            for (path, settings) in &change.cgroups {
                let Some(&group) = self.groups.get(path) else {
                    continue;
                };
                let clamps = GroupSetting::Clamps(settings.clamps);
                let settings = [
                    GroupSetting::Limit(settings.limits.into()),
                    GroupSetting::Idle(settings.idle),
                    GroupSetting::Shares(settings.shares()),
                ];
                let clamps = self.clamps_are_written(path).then_some(clamps);
                let changes = settings.into_iter().chain(clamps);
                self.workload
                    .changes
                    .extend(changes.map(|setting| GroupChange {
                        at_ns: change.time_ns,
                        group,
                        setting,
                    }));
            }
        }
    }
}
