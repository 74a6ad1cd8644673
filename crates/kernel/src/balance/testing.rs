//! Tasks that run and sleep by turns, for tests of balancing.

use std::collections::BTreeMap;

use crate::tests::world::*;

/// Runs `run_ns`, sleeps `sleep_ns`, again and again.
struct Program {
    run_ns: Ns,
    sleep_ns: Ns,
    /// Runtime at which it sleeps next.
    until_ns: Ns,
}

/// A world whose tasks have programs.
pub(crate) struct Programs {
    pub(crate) world: World,
    programs: BTreeMap<TaskId, Program>,
    wakeups: Vec<(Ns, TaskId)>,
}

impl Programs {
    /// World without programs on a machine of the given topology.
    pub(crate) fn on(topology: Topology, version: &str) -> Self {
        Self {
            world: World::on(topology, version, |_| {}),
            programs: BTreeMap::new(),
            wakeups: Vec::new(),
        }
    }

    /// Starts a task from CPU `cpu` that never sleeps.
    pub(crate) fn hog(&mut self, cpu: u32, affinity: CpuSet) -> TaskId {
        self.world.start(TaskAttributes {
            affinity,
            ..TaskAttributes::on(Cpu(cpu))
        })
    }

    /// Starts a task from CPU `cpu` that runs and sleeps.
    pub(crate) fn periodic(&mut self, cpu: u32, run_ns: Ns, sleep_ns: Ns) -> TaskId {
        let task = self.hog(cpu, CpuSet::first(self.world.kernel.cpus()));
        let program = Program {
            run_ns,
            sleep_ns,
            until_ns: run_ns,
        };
        self.programs.insert(task, program);
        task
    }

    /// CPU a task is on.
    pub(crate) fn cpu_of(&self, task: TaskId) -> u32 {
        self.world.kernel.tasks[task].cpu.0
    }

    /// When something happens next.
    fn next_event(&self) -> Ns {
        let world = &self.world;
        let timer = world.next_due().unwrap_or(Ns::MAX);
        let wakeup = self.wakeups.iter().map(|(at, _)| *at).min();
        let ends = self.cpus().filter_map(|cpu| {
            let task = world.current(cpu);
            let program = self.programs.get(&task)?;
            Some(world.bench.now + program.until_ns.saturating_sub(world.runtime(task)))
        });
        ends.chain(wakeup).fold(timer, Ns::min)
    }

    fn cpus(&self) -> impl Iterator<Item = Cpu> + use<> {
        (0..self.world.kernel.cpus()).map(Cpu::from)
    }

    /// Runs all programs until `end`.
    pub(crate) fn run_until(&mut self, end: Ns) {
        while let Some(at) = Some(self.next_event()).filter(|at| *at <= end) {
            self.world.advance_to(at);
            for cpu in self.cpus() {
                let task = self.world.current(cpu);
                let ran_ns = self.world.runtime(task);
                let program = self.programs.get_mut(&task);
                if let Some(program) = program.filter(|program| ran_ns >= program.until_ns) {
                    program.until_ns += program.run_ns;
                    self.wakeups.push((at + program.sleep_ns, task));
                    self.world.block(cpu);
                }
            }
            while let Some(row) = self.wakeups.iter().position(|(due, _)| *due <= at) {
                let (_, task) = self.wakeups.remove(row);
                let cpu = self.cpu_of(task);
                self.world.wake(Cpu(cpu), task);
            }
        }
        self.world.advance_to(end);
    }
}
