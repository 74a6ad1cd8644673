//! Scenarios whose kernel is a tree of sources: its C decides in the world.
//!
//! Worked example: `[kernel] tree = "~/linux"` of 6.12.107 with `hz = 250`. The first run compiles
//! `kernel/sched` of the tree for 250 Hz, in half a minute; later ones find the object in the
//! cache. Every seed boots a copy of it.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use schedcast_kernel::Ns;
use schedcast_kernel::rules::{Preemption, Rules};
use schedcast_kernel::topology::Topology;
use schedcast_sim::{Core, World};
use schedcast_tree::config::Config;
use schedcast_tree::ground::preemption_option;
use schedcast_tree::{Builder, TreeCore};
use schedcast_workload::programs::Running;

use super::{Course, Finished, Simulator, bad_input, build, ground, lock};
use crate::error::{Error, Result, Source};
use crate::experiment::Scenario;
use crate::experiment::document::parse;
use crate::experiment::kernel::{KernelSettings, feature_name};
use crate::tree_files;

/// Parts that a world with a tree leaves out, for readers of a report.
pub const LEFT_OUT: &str =
    "beside a kernel tree no column has idle states, changing clocks or recorded patches";

/// Objects that were built, by tree and configuration.
#[derive(Default)]
pub(super) struct Objects(Mutex<Vec<(PathBuf, Config, PathBuf)>>);

impl Objects {
    fn get(&self, tree: &Path, config: Config) -> Result<PathBuf> {
        // Held while it builds: runs in parallel want the same object.
        let mut built = lock(&self.0);
        let known = built
            .iter()
            .find(|one| one.0 == tree && one.1 == config)
            .map(|one| one.2.clone());
        if let Some(object) = known {
            return Ok(object);
        }
        let builder = Builder::new(tree, config.clone()).map_err(bad_input)?;
        let object = builder.object().map_err(bad_input)?;
        built.push((tree.to_path_buf(), config, object.clone()));
        Ok(object)
    }
}

/// Configuration by which the tree of a kernel is built.
fn configuration(kernel: &KernelSettings) -> Config {
    let mut config = Config::default();
    config.set(&format!("HZ_{}", kernel.hz), "y");
    // A preemptible kernel whose model is chosen at boot (PREEMPT_DYNAMIC) has the code of a fully
    // preemptible one: nobody is preempted within a call here, so that the two differ in nothing
    // else.
    let model = match kernel.rules.preemption {
        Preemption::None | Preemption::Voluntary if kernel.rules.config_preemption => {
            Preemption::Full
        }
        model => model,
    };
    config.set(preemption_option(model), "y");
    if kernel.irq_time_accounting {
        config.set("IRQ_TIME_ACCOUNTING", "y");
    }
    // Recordings tell what a hypervisor took; without any this changes nothing.
    config.set("PARAVIRT_TIME_ACCOUNTING", "y");
    if kernel.uclamp {
        config.set("UCLAMP_TASK", "y");
    }
    config
}

/// Refuses a scenario with a tree where only the rules can be looked into.
pub(super) fn refuse(scenario: &Scenario) -> Result<()> {
    let Some(tree) = &scenario.kernel.tree else {
        return Ok(());
    };
    let message = "traces, pages, single decisions, --bisect and --check-determinism need the built-in rules; with a kernel tree there are metrics and `explain --diff`";
    Err(Error::input(&tree.place, message)
        .hint("`run`, `compare` and `explain --diff` take trees; `version` instead of `tree` gives the rules of its release"))
}

/// Refuses scenarios with a tree before anything runs, as [`refuse`] does each.
///
/// # Errors
/// The first scenario with a tree, at its place.
pub fn refuse_all(scenarios: &[Scenario]) -> Result<()> {
    scenarios.iter().try_for_each(refuse)
}

/// Builds the scheduler of one tree and boots it on four CPUs; says what came of it.
///
/// # Errors
/// No tree, one that does not build, or one whose scheduler does not boot.
pub fn build(tree: &Path, hz: u32, preempt: Option<&str>) -> Result<String> {
    let mut text = format!("tree = {:?}\nhz = {hz}\n", tree.display().to_string());
    if let Some(preempt) = preempt {
        text += &format!("preempt = {preempt:?}\n");
    }
    let section = parse(&Source::new("tree build", &text))?;
    let kernel = KernelSettings::read(Some(&section), 4, Path::new(""))?;
    let builder = Builder::new(tree, configuration(&kernel)).map_err(bad_input)?;
    let object = builder.object().map_err(bad_input)?;
    let mut rules = kernel.rules.clone();
    as_built(&mut rules);
    TreeCore::boot(&object, &Topology::flat(4), rules, &[]).map_err(bad_input)?;
    Ok(format!(
        "linux {}: compiled for {hz} Hz and booted on 4 CPUs\n{}",
        kernel.shown(),
        object.display()
    ))
}

impl Simulator {
    /// Builds the trees of scenarios, before anything runs. `before` is called with each that takes
    /// a while. Returns a sentence for each two trees that were compiled from the same sources,
    /// which decide alike, and then one for each two of them that differ in other files.
    ///
    /// # Errors
    /// A tree that does not build.
    pub fn build_trees(
        &self,
        scenarios: &[Scenario],
        before: &mut dyn FnMut(&Path),
    ) -> Result<Vec<String>> {
        let mut built: Vec<(&Path, Option<String>)> = Vec::new();
        let mut same: Vec<[&Path; 2]> = Vec::new();
        for scenario in scenarios {
            let Some(tree) = &scenario.kernel.tree else {
                continue;
            };
            let tree = tree.value.as_path();
            let config = configuration(&scenario.kernel);
            let builder = Builder::new(tree, config.clone()).map_err(bad_input)?;
            if !builder.is_built() {
                before(tree);
            }
            self.trees.get(tree, config)?;
            let one = (tree, builder.compiled_sources());
            if built.contains(&one) {
                continue;
            }
            let is_same = |(other, its): &&(&Path, _)| *other != tree && *its == one.1;
            same.extend(built.iter().find(is_same).map(|(other, _)| [*other, tree]));
            built.push(one);
        }
        let identical = same.iter().map(|[one, other]| {
            format!(
                "the compiled sources of {} and {} are identical",
                one.display(),
                other.display()
            )
        });
        let differing = same
            .iter()
            .filter_map(|[one, other]| tree_files::note(one, other));
        Ok(identical.chain(differing).collect())
    }

    /// The world of a scenario with a tree, at its start, how long it is to run, and its
    /// benchmarks.
    ///
    /// # Errors
    /// A tree that does not build or boot, programs that cannot be built.
    pub(crate) fn tree_world(
        &self,
        scenario: &Scenario,
        seed: u64,
    ) -> Result<(World<false, TreeCore>, Option<Ns>, Vec<Running>)> {
        let kernel = &scenario.kernel;
        let Some(tree) = &kernel.tree else {
            unreachable!("a scenario without a tree has rules");
        };
        let topology = &scenario.machine.machine.topology;
        let lists = [
            ("isolated", &topology.isolated),
            ("nohz_full", &topology.nohz_full),
        ];
        if let Some((key, _)) = lists.iter().find(|(_, cpus)| !cpus.is_empty()) {
            let message = format!("a kernel tree is booted without `topology.{key}`");
            return Err(Error::input(&tree.place, message)
                .hint("leave it out, or give a `version` instead of the tree"));
        }
        let object = self.trees.get(&tree.value, configuration(kernel))?;
        let chance = self.chance(seed);
        let mut built = build::build(self, scenario, chance)?;
        let (machine, mut rules) = ground(scenario, chance, &mut built.workload);
        let features = features_at_boot(kernel);
        as_built(&mut rules);
        let stopped =
            |error: schedcast_tree::WorldError| Error::input(&tree.place, error.to_string());
        let core = TreeCore::boot(&object, &machine.topology, rules, &features).map_err(stopped)?;
        let world = World::of_core(machine, core, built.workload, seed).map_err(bad_input)?;
        Ok((
            world,
            scenario.duration_ns.or(built.duration_ns),
            built.programs,
        ))
    }

    /// Runs a scenario with a tree to its end.
    pub(super) fn finish_tree(
        &self,
        scenario: &Scenario,
        seed: u64,
        logged: bool,
    ) -> Result<Finished<TreeCore>> {
        let mut course = Course::of(scenario, self.tree_world(scenario, seed)?);
        course.world.probes_mut().log = logged.then(Vec::new);
        let finished = course
            .go_halfway(scenario)
            .and_then(|()| course.finish(scenario, &mut TreeCore::run))
            .map_err(|error| error.within(&format!("`{}`, seed {seed}", scenario.name)))?;
        let mut printed = lock(&self.printed);
        for line in finished.world.printed() {
            *printed
                .entry((scenario.name.clone(), line.clone()))
                .or_default() += 1;
        }
        Ok(finished)
    }

    /// Lines that trees have printed in all runs so far, a sentence for each: warnings among them.
    /// `all`: however many.
    pub fn printed_by_trees(&self, all: bool) -> Vec<String> {
        let printed = lock(&self.printed);
        let mut lines: Vec<String> = printed
            .iter()
            .take(if all { usize::MAX } else { PRINTED_LINES })
            .map(|((name, line), count)| match count {
                1 => format!("`{name}` printed once: {line}"),
                _ => format!("`{name}` printed {count} times: {line}"),
            })
            .collect();
        let more = printed.len() - lines.len();
        if more > 0 {
            lines.push(format!("trees printed {more} other lines; -v shows them"));
        }
        lines
    }
}

/// Different lines of a tree that a reader is shown.
const PRINTED_LINES: usize = 20;

/// Features to switch at boot: those of an x86 kernel that the overlay's configuration has off, and
/// those that the experiment asks for.
///
/// The timer that ends requests is on where the timer hardware is programmed on the way out of the
/// kernel (HRTIMER_REARM_DEFERRED, 7.1), which x86 does and the overlay does not.
fn features_at_boot(kernel: &KernelSettings) -> Vec<(&str, bool)> {
    let features = &kernel.rules.features;
    let has_timer = kernel.version.since(7, 1);
    let timer = [("HRTICK", features.hrtick), ("HRTICK_DL", has_timer)];
    let asked = kernel.features.iter().map(|word| {
        let name = feature_name(&word.value);
        (name, name == word.value)
    });
    let timer = timer.into_iter().filter(|_| has_timer);
    timer.chain(asked).collect()
}

/// The world has no timer of its own that ends requests: that of a tree is one of its C.
fn as_built(rules: &mut Rules) {
    rules.features.hrtick = false;
}
