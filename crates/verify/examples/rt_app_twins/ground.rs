//! Machine, kernel and background of the simulations.

use std::path::Path;

use schedcast_sim::{Machine, Workload, World};
use schedcast_trace::Recording;
use schedcast_workload::replay::{Costs, InferOptions, Replay, infer};

use crate::{Outcome, measured_kernel};

const STEP_NS: u64 = 20_000_000;

/// Machine, kernel and background that everything is simulated on.
#[derive(Clone)]
pub(crate) struct Ground {
    pub machine: Machine,
    name: String,
    /// Background activity of the machine, and the name of its recording.
    background: Option<(Replay, String)>,
}

impl Ground {
    /// A machine file or a preset, and the folder of a recording if there is one.
    pub(crate) fn read(machine: &str, background: &[&str]) -> Outcome<Ground> {
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let description = match std::fs::read_to_string(machine) {
            Ok(text) => Machine::parse(machine, &text)?,
            Err(_) => Machine::preset(machine)?,
        };
        let background = match background.first() {
            Some(folder) => {
                let options = InferOptions {
                    costs: Costs::new(description.cost_ns, measured_kernel::HZ),
                    ..InferOptions::default()
                };
                let recording = Recording::open(Path::new(folder))?;
                Some((infer(&recording, &options)?, name(folder)))
            }
            None => None,
        };
        Ok(Ground {
            machine: description,
            name: name(machine),
            background,
        })
    }

    /// `machine` and background, as pages say it.
    pub(crate) fn title(&self) -> String {
        let background = self.background.as_ref();
        let background = background.map(|(_, name)| format!(", background `{name}`"));
        format!("`{}`{}", self.name, background.unwrap_or_default())
    }
}

/// A workload run until its tasks have ended or it is `until_ns`, its log kept.
pub(crate) fn world(
    ground: &Ground,
    mut workload: Workload,
    seed: u64,
    until_ns: u64,
) -> Outcome<World> {
    let machine = ground.machine.clone();
    let cpus = machine.topology.cpus();
    if let Some((replay, _)) = &ground.background {
        replay.add_background(&mut workload, cpus)?;
    }
    let rules = measured_kernel::rules(cpus);
    let mut world = World::new(machine, rules, workload, seed)?;
    world.probes_mut().log = Some(Vec::new());
    while world.now() < until_ns && (world.live_tasks() > 0 || world.now() < STEP_NS) {
        let until = until_ns.min(world.now() + STEP_NS);
        world.run_until(until)?;
    }
    Ok(world)
}
