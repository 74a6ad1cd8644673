//! Scenarios on the simulator: build a world, run it, read its instruments.
//!
//! ```text
//! Scenario ──► workload (build) ──► World ──► run ──► metrics (measure) ──► Outcome
//!    programs, groups, limits         seed
//! ```
//!
//! Worked example: the scenario "quota 60 ms" of a recording is the recorded threads compiled to
//! programs, `/pg` with 60 ms of every 100 ms and the recorded phase of its period timer, and 29.5
//! s of virtual time. Its metrics are named `postgres/activation_latency.p95`,
//! `cgroup:/pg/nr_throttled` and so on.

mod build;
mod chance;
mod compiled;
mod effects;
mod futures;
mod jobs;
mod measure;
mod readings;
#[cfg(test)]
mod tests;
pub mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use schedcast_base::whole;
use schedcast_kernel::rules::Rules;
use schedcast_kernel::{Kernel, Ns};
use schedcast_sim::events::TraceEvent;
use schedcast_sim::workload::{ForkSpec, TaskSpec};
use schedcast_sim::{Core, Machine, RunError, Unfinished, Watch, Workload, World};
use schedcast_workload::programs::Running;
use schedcast_workload::replay::{Adjust, Costs, Replay};

use chance::Chance;
use compiled::Workloads;
use readings::Readings;

use crate::error::{Error, Result};
use crate::experiment::Scenario;
use crate::experiment::program::{Action, Program};
use crate::metrics::CGROUP;
use crate::outcome::{MetricMap, Outcome};
use crate::recording::Recorded;
use crate::simulate::Simulate;

/// A run without a duration whose programs have not ended by then never will.
const LONGEST_RUN_NS: Ns = 24 * 3600 * 1_000_000_000;
/// How far a run without a duration goes before it looks whether its programs have ended.
pub(crate) const LOOK_EVERY_NS: Ns = 100_000_000;
/// How precisely the end of the last program is found.
const END_WITHIN_NS: Ns = 1_000_000;

/// Runs scenarios in virtual time. Recordings are read once, whatever the number of runs.
#[derive(Default)]
pub struct Simulator {
    readings: Readings,
    workloads: Workloads,
    trees: tree::Objects,
    /// Lines that trees printed, by variant and line, and how often.
    printed: Mutex<BTreeMap<(String, String), u64>>,
    /// Each seed draws what no two real runs have in common.
    draws: bool,
}

impl Simulator {
    /// A simulator that has read nothing yet.
    pub fn new() -> Simulator {
        Simulator::default()
    }

    /// Each seed draws what differs between two real runs of the same thing: where ticks and
    /// periods fall, when programs start, what operations cost. Otherwise every run begins with a
    /// tick and has the nominal prices.
    pub fn drawing(mut self) -> Simulator {
        self.draws = true;
        self
    }

    /// Whether each seed draws what differs between real runs.
    pub fn draws(&self) -> bool {
        self.draws
    }

    fn chance(&self, seed: u64) -> Chance {
        match self.draws {
            true => Chance::of(seed),
            false => Chance::NONE,
        }
    }

    /// Facts of the recording in `folder`, which is read anew. Runs of it need not read it again.
    ///
    /// # Errors
    /// As [`Recorded::open`].
    pub fn open(&self, folder: &Path) -> Result<Recorded> {
        self.readings.open(folder)
    }

    /// Actions of the threads in the background of a scenario's programs; `None` where it names no
    /// background.
    ///
    /// # Errors
    /// A folder that is no recording; a scenario that replays a recording, which has its own
    /// background.
    pub(crate) fn background(&self, scenario: &Scenario) -> Result<Option<Arc<Replay>>> {
        let Some(background) = &scenario.machine.background else {
            return Ok(None);
        };
        let replays = |program: &Program| matches!(program.action.value, Action::Replay(..));
        if let Some(program) = scenario.programs.iter().find(|program| replays(program)) {
            let message = format!(
                "`{}` is a recording, and what ran beside it is in it: it takes no other background",
                program.name
            );
            return Err(Error::input(&background.place, message));
        }
        let costs = Costs::new(scenario.machine.machine.cost_ns, scenario.kernel.hz);
        let replay = self
            .readings
            .replay(&background.value, &costs, &Adjust::default());
        replay.map(Some).map_err(|error| {
            Error::input(&background.place, format!("no background: {error}"))
                .hint("`schedcast record -o DIR --duration 60s` makes one on an idle machine")
        })
    }

    /// Whether the kernel's own threads run beside the programs of a scenario: where it says
    /// nothing about a background, and replays no recording, which has its own.
    pub(crate) fn has_housekeeping(&self, scenario: &Scenario) -> bool {
        let replays = |program: &Program| matches!(program.action.value, Action::Replay(..));
        self.draws && scenario.machine.housekeeping && !scenario.programs.iter().any(replays)
    }

    /// Notes that a reader needs about the backgrounds of scenarios, a sentence each.
    ///
    /// # Errors
    /// As [`Simulator::background`].
    pub fn background_notes(&self, scenarios: &[Scenario]) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        for scenario in scenarios {
            let (Some(replay), Some(folder)) =
                (self.background(scenario)?, &scenario.machine.background)
            else {
                continue;
            };
            let folder = folder.value.display();
            let cpus = scenario.machine.cpus();
            let left_out = replay.background(cpus).without_cpu;
            let mut note = |text: String| {
                let text = format!("background {folder}: {text}");
                if !notes.contains(&text) {
                    notes.push(text);
                }
            };
            for line in replay.report.notes() {
                note(line);
            }
            if !left_out.is_empty() {
                note(format!(
                    "{} left out, bound to CPUs that a machine of {cpus} does not have",
                    left_out.join(", ")
                ));
            }
            if cpus > replay.cpus as usize {
                note(format!(
                    "recorded on {} CPUs, so the other {} have no threads of their own",
                    replay.cpus,
                    cpus - replay.cpus as usize
                ));
            }
        }
        Ok(notes)
    }

    /// The world of a scenario, at its start, how long it is to run, and its benchmarks.
    ///
    /// # Errors
    /// Programs that cannot be built, limits that no kernel accepts.
    pub fn world(
        &self,
        scenario: &Scenario,
        seed: u64,
    ) -> Result<(World, Option<Ns>, Vec<Running>)> {
        self.world_with(scenario, seed, self.chance(seed))
    }

    fn world_with(
        &self,
        scenario: &Scenario,
        seed: u64,
        chance: Chance,
    ) -> Result<(World, Option<Ns>, Vec<Running>)> {
        tree::refuse(scenario)?;
        let mut built = build::build(self, scenario, chance)?;
        let (machine, rules) = ground(scenario, chance, &mut built.workload);
        let world = World::new(machine, rules, built.workload, seed).map_err(bad_input)?;
        let duration_ns = scenario.duration_ns.or(built.duration_ns);
        Ok((world, duration_ns, built.programs))
    }

    /// Programs, threads and groups that a run of the scenario tells of: what `SUBJECT` can be in
    /// `SUBJECT/wakeup_latency.p99` or, as `cgroup:PATH`, in `cgroup:PATH/nr_throttled`.
    ///
    /// # Errors
    /// Programs that cannot be built.
    pub(crate) fn reported_subjects(&self, scenario: &Scenario) -> Result<BTreeSet<String>> {
        let built = build::build(self, scenario, Chance::NONE)?;
        let workload = &built.workload;
        let task = |task: &TaskSpec| task.statistics.as_ref().unwrap_or(&task.name).clone();
        let mut names: BTreeSet<String> = workload.tasks.iter().map(task).collect();
        let fork = |child: &ForkSpec| child.statistics.as_ref().unwrap_or(&child.name).clone();
        names.extend(workload.forks.iter().map(fork));
        let groups = workload.groups.iter().map(|group| group.path.as_str());
        let told = groups.filter(|path| measure::is_told(path));
        names.extend(told.map(|path| format!("{CGROUP}{path}")));
        for program in built.programs {
            names.extend(program.statistics);
            names.insert(program.name);
        }
        let recorded = workload.metrics.iter();
        let recorded = recorded.filter_map(|metric| Some(metric.rsplit_once('/')?.0.to_string()));
        names.extend(recorded);
        Ok(names)
    }

    /// The same world, which tells what its scheduler decides.
    pub(crate) fn explaining_world(
        &self,
        scenario: &Scenario,
        seed: u64,
    ) -> Result<(World<true>, Option<Ns>)> {
        tree::refuse(scenario)?;
        let chance = self.chance(seed);
        let mut built = build::build(self, scenario, chance)?;
        let (machine, rules) = ground(scenario, chance, &mut built.workload);
        let mut world =
            World::explaining(machine, rules, built.workload, seed).map_err(bad_input)?;
        let duration_ns = scenario.duration_ns.or(built.duration_ns);
        if duration_ns.is_none() {
            world.end_with_programs();
        }
        Ok((world, duration_ns))
    }
}

/// Machine and kernel of a scenario as they are in one run of `workload`.
fn ground(scenario: &Scenario, chance: Chance, workload: &mut Workload) -> (Machine, Rules) {
    let mut machine = scenario.machine.machine.clone();
    let mut rules = scenario.kernel.rules.clone();
    chance.change_prices(&mut machine);
    chance.move_phases(&mut rules, workload);
    (machine, rules)
}

/// A world that has run, and its benchmarks.
pub struct Finished<K: Core = Kernel> {
    /// The world at its end.
    pub world: World<false, K>,
    /// The benchmarks, which know their own metrics and print as their tools do.
    pub programs: Vec<Running>,
    /// Counters of the groups when statistics began.
    before: MetricMap,
    /// Unfinished requests at half the time.
    halfway: Unfinished,
}

impl<K: Core> Finished<K> {
    /// Measured outcome of the run; counters of hardware are brought up to its end.
    pub fn outcome(&mut self) -> Outcome {
        measure::outcome(&mut self.world, &self.programs, &self.before, &self.halfway)
    }
}

impl Simulator {
    /// Runs a scenario to its end.
    ///
    /// # Errors
    /// Features that the scenario asks for and that cannot be had; programs at fault.
    pub fn finish(&self, scenario: &Scenario, seed: u64) -> Result<Finished> {
        self.go(scenario, seed, false, &mut |world, until| {
            world.run_until(until)
        })
    }

    /// The same to the moment at which the last program ends, at most `grace_ns` beyond the
    /// scenario's duration: what is measured of real programs, which end late where they are
    /// throttled. Nothing is drawn but what the scenario draws itself.
    ///
    /// # Errors
    /// As for [`Simulator::finish`].
    pub fn finish_with_programs(
        &self,
        scenario: &Scenario,
        seed: u64,
        grace_ns: Ns,
    ) -> Result<Finished> {
        let mut scenario = scenario.clone();
        scenario.duration_ns = scenario.duration_ns.map(|end_ns| end_ns + grace_ns);
        self.go_with(&scenario, seed, false, Chance::NONE, &mut |world, until| {
            while world.now() < until {
                let next = world.now() + END_WITHIN_NS;
                world.run_until(next.min(until))?;
                if !world.awaits_tasks() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// As [`Simulator::finish`], with a way of one's own to let the world run until a time.
    ///
    /// # Errors
    /// As for [`Simulator::finish`].
    pub fn finish_by(&self, scenario: &Scenario, seed: u64, run: Advance<'_>) -> Result<Finished> {
        self.go(scenario, seed, false, run)
    }

    /// As [`Simulator::finish`], with the phases and prices that the scenario has.
    ///
    /// # Errors
    /// As for [`Simulator::finish`].
    pub fn finish_as_given(&self, scenario: &Scenario, seed: u64) -> Result<Finished> {
        let run = &mut |world: &mut World, until| world.run_until(until);
        self.go_with(scenario, seed, false, Chance::NONE, run)
    }

    /// Same, showing everything that happens to `watch` in steps of `step_ns`. It changes nothing.
    ///
    /// # Errors
    /// As for [`Simulator::finish`].
    pub fn watch(
        &self,
        scenario: &Scenario,
        seed: u64,
        step_ns: Ns,
        watch: &mut dyn Watch,
    ) -> Result<Finished> {
        let course = Course::start(self, scenario, seed, self.chance(seed))?;
        let mut watch = CountsHalfway {
            watch,
            half_ns: course.half_ns(),
            halfway: Unfinished::default(),
        };
        let mut finished = course.finish(scenario, &mut |world, until| {
            world.run_watched(until, step_ns, &mut watch)
        })?;
        finished.halfway = watch.halfway;
        Ok(finished)
    }

    /// `logged` = with the log rows of its benchmarks, which take memory.
    fn go(
        &self,
        scenario: &Scenario,
        seed: u64,
        logged: bool,
        run: Advance<'_>,
    ) -> Result<Finished> {
        self.go_with(scenario, seed, logged, self.chance(seed), run)
    }

    fn go_with(
        &self,
        scenario: &Scenario,
        seed: u64,
        logged: bool,
        chance: Chance,
        run: Advance<'_>,
    ) -> Result<Finished> {
        let mut course = Course::start(self, scenario, seed, chance)?;
        course.world.probes_mut().log = logged.then(Vec::new);
        course.go_halfway(scenario)?;
        course.finish(scenario, run)
    }
}

/// Counts what is under way at half the time of a watched run, at the end of the watch's step.
struct CountsHalfway<'a> {
    watch: &'a mut dyn Watch,
    half_ns: Option<Ns>,
    halfway: Unfinished,
}

impl Watch for CountsHalfway<'_> {
    fn events(&mut self, world: &mut World, events: &[TraceEvent]) {
        let now = world.now();
        if self.half_ns.take_if(|half_ns| *half_ns <= now).is_some() {
            self.halfway = world.unfinished();
        }
        self.watch.events(world, events);
    }
}

/// A run under way.
#[derive(Clone)]
struct Course<K: Core = Kernel> {
    world: World<false, K>,
    duration_ns: Option<Ns>,
    programs: Vec<Running>,
    /// When statistics begin, if they have not yet.
    warmup_ns: Option<Ns>,
    /// Counters of the groups by then.
    before: MetricMap,
    /// Changes of the scenario that are made, or made by the world itself.
    changes: usize,
    /// Unfinished requests at half the time.
    halfway: Unfinished,
}

impl Course {
    fn start(
        simulator: &Simulator,
        scenario: &Scenario,
        seed: u64,
        chance: Chance,
    ) -> Result<Course> {
        let start = simulator.world_with(scenario, seed, chance)?;
        Ok(Course::of(scenario, start))
    }
}

impl<K: Core> Course<K> {
    fn of(
        scenario: &Scenario,
        (mut world, duration_ns, programs): (World<false, K>, Option<Ns>, Vec<Running>),
    ) -> Course<K> {
        if duration_ns.is_none() {
            world.end_with_programs();
        }
        Course {
            world,
            duration_ns,
            programs,
            warmup_ns: Some(scenario.warmup_ns).filter(|&warmup_ns| warmup_ns > 0),
            before: MetricMap::new(),
            changes: 0,
            halfway: Unfinished::default(),
        }
    }

    /// When half of the time is over, where something tells then what is under way.
    fn half_ns(&self) -> Option<Ns> {
        let workload = self.world.workload();
        let tells = !workload.messages.is_empty() || !workload.requests.is_empty();
        Some(self.duration_ns? / 2).filter(|_| tells)
    }

    /// Goes on to half of the time, if it is not beyond, and counts what is under way there.
    fn go_halfway(&mut self, scenario: &Scenario) -> Result<()> {
        let half_ns = self.half_ns().filter(|half_ns| self.world.now() < *half_ns);
        if let Some(half_ns) = half_ns {
            self.advance(scenario, half_ns)?;
            self.halfway = self.world.unfinished();
        }
        Ok(())
    }

    /// Goes on until `until_ns`, all that happens then included, from where it can still go on as
    /// if it had not stopped.
    fn advance(&mut self, scenario: &Scenario, until_ns: Ns) -> Result<()> {
        self.change_kernels(scenario, until_ns + 1, &mut K::run)?;
        self.warm_up(until_ns)?;
        K::run_on(&mut self.world, until_ns).map_err(bad_input)
    }

    /// Goes through the changes of the kernel before `end_ns`.
    fn change_kernels(
        &mut self,
        scenario: &Scenario,
        end_ns: Ns,
        run: Advance<'_, K>,
    ) -> Result<()> {
        while let Some(change) = scenario.changes.get(self.changes)
            && change.time_ns < end_ns
        {
            self.changes += 1;
            if let Some(kernel) = &change.kernel {
                self.warm_up(change.time_ns)?;
                run(&mut self.world, change.time_ns).map_err(bad_input)?;
                let mut rules = kernel.rules.clone();
                // A write to a tunable does not change the times of ticks.
                rules.tick_phase_ns = self.world.kernel().rules.tick_phase_ns;
                self.world.set_rules(rules);
            }
        }
        Ok(())
    }

    /// Begins statistics if that is due by `until_ns`; they begin with what the groups have counted
    /// by then.
    fn warm_up(&mut self, until_ns: Ns) -> Result<()> {
        if let Some(warmup_ns) = self.warmup_ns.take_if(|warmup_ns| *warmup_ns <= until_ns) {
            K::run(&mut self.world, warmup_ns).map_err(bad_input)?;
            self.world.reset_statistics();
            self.before = measure::group_counters(&self.world);
        }
        Ok(())
    }

    fn finish(mut self, scenario: &Scenario, run: Advance<'_, K>) -> Result<Finished<K>> {
        self.change_kernels(scenario, self.duration_ns.unwrap_or(Ns::MAX), run)?;
        self.warm_up(Ns::MAX)?;
        match self.duration_ns {
            Some(end_ns) => {
                run(&mut self.world, end_ns).map_err(bad_input)?;
                if let (Some(group), None) = (&scenario.awaits, scenario.duration_ns) {
                    jobs::finish(&mut self.world, group, end_ns, run).map_err(bad_input)?;
                }
            }
            None => run_to_the_end(&mut self.world, scenario, run)?,
        }
        Ok(Finished {
            world: self.world,
            programs: self.programs,
            before: self.before,
            halfway: self.halfway,
        })
    }
}

/// Lets a world run until a time.
pub(crate) type Advance<'a, K = Kernel> =
    &'a mut dyn FnMut(&mut World<false, K>, Ns) -> std::result::Result<(), RunError>;

impl Simulate for Simulator {
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        if scenario.kernel.tree.is_some() {
            let mut outcome = self.finish_tree(scenario, seed, false)?.outcome();
            // A tree does not tell of them.
            let is_told = |name: &str| !name.ends_with("/load_avg_writes");
            outcome.metrics.retain(|name, _| is_told(name));
            return Ok(outcome);
        }
        Ok(self.finish(scenario, seed)?.outcome())
    }

    fn run_family(&self, family: &[&Scenario], seed: u64) -> Vec<Result<Outcome>> {
        futures::run(self, family, seed)
    }

    fn simulator(&self) -> Option<&Simulator> {
        Some(self)
    }

    fn tool_output(&self, scenario: &Scenario, seed: u64) -> Result<String> {
        if scenario.kernel.tree.is_some() {
            return printed(&self.finish_tree(scenario, seed, true)?);
        }
        printed(&self.go(scenario, seed, true, &mut |world, until| {
            world.run_until(until)
        })?)
    }
}

/// Text that the benchmarks print at their end.
fn printed<K: Core>(finished: &Finished<K>) -> Result<String> {
    let (world, programs) = (&finished.world, &finished.programs);
    if programs.is_empty() {
        return Err(Error::usage("nothing here prints as a tool would")
            .hint("--format tool is for benchmarks and rt-app files, not for recordings"));
    }
    let reports = programs
        .iter()
        .map(|program| program.report(world.probes(), world.now()));
    Ok(reports.collect())
}

/// Runs until no task is left.
fn run_to_the_end<K: Core>(
    world: &mut World<false, K>,
    scenario: &Scenario,
    run: Advance<'_, K>,
) -> Result<()> {
    while world.awaits_tasks() || world.now() == 0 {
        if world.now() >= LONGEST_RUN_NS {
            let message = format!(
                "the programs of `{}` do not end by themselves",
                scenario.name
            );
            return Err(Error::general(message).hint("give a duration: --duration 20s"));
        }
        let until = world.now() + LOOK_EVERY_NS;
        run(world, until).map_err(bad_input)?;
    }
    Ok(())
}

/// An error of another crate, which says its place itself.
pub fn bad_input(error: impl std::fmt::Display) -> Error {
    let text = error.to_string();
    let is_missing = text.contains(NO_SUCH_FILE);
    let refused = Error::general(text);
    match is_missing {
        true => refused.hint(RECORDING),
        false => refused,
    }
}

/// The same about the recording in `folder`: one that lies near is named.
pub fn bad_recording(folder: &Path, error: impl std::fmt::Display) -> Error {
    let refused = bad_input(error);
    if !refused.to_string().contains(NO_SUCH_FILE) {
        return refused;
    }
    // Its trace was named instead of it.
    let above = folder
        .parent()
        .map(|above| match above.as_os_str().is_empty() {
            true => Path::new("."),
            false => above,
        });
    let above = above.filter(|above| above.join("recording.json").exists());
    match above {
        Some(above) => refused.hint(format!("the recording is `{}`", above.display())),
        None => refused.hint(whole::instead_of(folder, RECORDING)),
    }
}

const RECORDING: &str = "a recording is the folder that `schedcast record` writes";

/// How the standard library tells that a file is missing: ENOENT of errno(3).
const NO_SUCH_FILE: &str = "(os error 2)";

/// A cache stays usable when a run panicked: what is in it was complete before it was put there.
fn lock<T>(cache: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    cache
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
