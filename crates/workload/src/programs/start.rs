//! Where and how a program is started, and what its compiler shares with the others.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schedcast_kernel::GroupId;
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::rules::{DEFAULT, Version};
use schedcast_kernel::task::Policy;
use schedcast_kernel::uclamp::Clamps;
use schedcast_sim::workload::{AttributesSpec, ForkId, ForkSpec, MetricId, ProgramId, TaskSpec};
use schedcast_sim::{ProgramBuilder, Reg, Workload};

use super::command::CommandError;
use super::prices::Prices;
use schedcast_base::names::suggestion;

/// Where and how a program is started.
#[derive(Clone, Debug)]
pub struct Start {
    /// Its name in metrics.
    pub name: String,
    /// CPUs of the machine.
    pub cpus: usize,
    /// Speed of each, 1024 = nominal; empty = all nominal.
    pub capacities: Vec<u32>,
    /// Memory node of each CPU; empty = one for all.
    pub nodes: Vec<u32>,
    /// CPUs it may use; `None` = all.
    pub affinity: Option<CpuSet>,
    /// Policy and real-time priority.
    pub policy: (Policy, u8),
    /// Nice value.
    pub nice: i32,
    /// Group it is started in.
    pub group: GroupId,
    /// When.
    pub start_ns: u64,
    /// Kernel release, for what file systems do in which thread.
    pub kernel: Version,
    /// Whether that kernel is built with utilisation clamps.
    pub kernel_has_clamps: bool,
    /// Utilisation clamps that it asks for; `None` = what its policy has without.
    pub clamps: Clamps<Option<u32>>,
    /// Environment variables that are set for it; only runtimes read some.
    pub environment: BTreeMap<String, String>,
    /// Prices of the program's parts.
    pub prices: Prices,
    /// Folder that file names of the command line count from.
    pub directory: PathBuf,
    /// Channel of its log rows.
    pub log_channel: u16,
}

impl Start {
    /// A program of this name on its own on a machine of `cpus` CPUs.
    pub fn new(name: impl Into<String>, cpus: usize) -> Self {
        Self {
            name: name.into(),
            cpus,
            capacities: Vec::new(),
            nodes: Vec::new(),
            affinity: None,
            policy: (Policy::Normal, 0),
            nice: 0,
            group: GroupId::ROOT,
            start_ns: 0,
            kernel: DEFAULT,
            kernel_has_clamps: false,
            clamps: Clamps::default(),
            environment: BTreeMap::new(),
            prices: Prices::default(),
            directory: PathBuf::from("."),
            log_channel: 0,
        }
    }
}

/// Adds one benchmark to a workload.
pub(super) struct Compiler<'a> {
    /// Tool, for messages.
    pub tool: &'static str,
    /// Where and how it is started.
    pub start: &'a Start,
    /// Workload that it is added to.
    pub workload: &'a mut Workload,
}

impl Compiler<'_> {
    /// The metric `NAME/metric`.
    pub(super) fn metric(&mut self, metric: &str) -> MetricId {
        let name = metric_name(&self.start.name, metric);
        self.workload.add_metric(&name)
    }

    /// A finished program.
    ///
    /// # Errors
    /// Refusal by the builder: a program too large for it.
    pub(super) fn program(&mut self, builder: ProgramBuilder) -> Result<ProgramId, CommandError> {
        let message = |error| format!("cannot be compiled: {error}");
        let program = builder
            .finish()
            .map_err(|error| CommandError::new(self.tool, 1, message(error)))?;
        Ok(self.workload.add_program(program))
    }

    /// A kind of child, named after the program with `suffix` behind.
    pub(super) fn fork(&mut self, suffix: &str, program: ProgramId, process: bool) -> ForkId {
        self.workload.add_fork(ForkSpec::new(
            format!("{}{suffix}", self.start.name),
            program,
            process,
        ))
    }

    /// The task that the shell starts, of this program.
    ///
    /// # Errors
    /// As for [`Compiler::program`].
    pub(super) fn finish(&mut self, main: ProgramBuilder) -> Result<(), CommandError> {
        let main = self.program(main)?;
        self.main(main, Vec::new());
        Ok(())
    }

    /// The task that the shell starts.
    pub(super) fn main(&mut self, program: ProgramId, registers: Vec<(Reg, u64)>) {
        let start = self.start;
        let mut task = TaskSpec::new(start.name.clone(), program);
        task.registers = registers;
        task.affinity = start.affinity;
        (task.policy, task.rt_priority) = start.policy;
        task.nice = start.nice;
        task.clamps = start.clamps;
        task.group = start.group;
        task.start_ns = start.start_ns;
        task.address_space = Some(self.free_address_space());
        self.workload.add_task(task);
    }

    /// The group of the path and the word of a flag; the one that the tool starts in without it.
    ///
    /// # Errors
    /// A path that no group has, with the nearest one.
    pub(super) fn group(&self, given: &Option<(String, usize)>) -> Result<GroupId, CommandError> {
        let Some((path, word)) = given else {
            return Ok(self.start.group);
        };
        let paths = || self.workload.groups.iter().map(|group| group.path.as_str());
        if path == "/" {
            return Ok(GroupId::ROOT);
        }
        if let Some(row) = paths().position(|own| own == path) {
            return Ok(GroupId(row as u32 + 1));
        }
        let mut known = vec!["/"];
        known.extend(paths());
        let hint = suggestion(path, &known);
        let message = format!("unknown cgroup `{path}`; {hint}");
        Err(CommandError::new(self.tool, *word, message))
    }

    /// Puts a task on some CPUs, if any are named.
    pub(super) fn bind(&mut self, b: &mut ProgramBuilder, cpus: Option<CpuSet>) {
        if cpus.is_some() {
            let attributes = self.workload.add_attributes(AttributesSpec {
                affinity: cpus,
                ..AttributesSpec::default()
            });
            b.set_attributes(attributes);
        }
    }

    /// A number of an address space that no task has yet.
    pub(crate) fn free_address_space(&self) -> u32 {
        let used = self.workload.tasks.iter();
        used.filter_map(|task| task.address_space)
            .max()
            .map_or(0, |last| last + 1)
    }

    /// Words in a row; the first is returned.
    pub(super) fn words(&mut self, count: u64) -> u64 {
        let first = self.workload.words.len() as u64;
        let length = self.workload.words.len() + count as usize;
        self.workload.words.resize(length, 0);
        first
    }
}

/// `NAME/metric`.
pub(super) fn metric_name(name: &str, metric: &str) -> String {
    format!("{name}/{metric}")
}
