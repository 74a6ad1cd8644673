//! Which CPUs share what, as the scheduler sees it.

use crate::cpuset::CpuSet;
use crate::ids::Cpu;

/// Default of [`Topology::reclaim_distance`] (`RECLAIM_DISTANCE` in `linux/topology.h`).
pub const RECLAIM_DISTANCE: u32 = 30;

/// Where a CPU sits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuPlace {
    /// Core: CPUs with the same number are SMT siblings.
    pub core: u32,
    /// Cluster (CPUs sharing an L2 cache across cores); equal to `core` when there are none.
    pub cluster: u32,
    /// Last level cache.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
    /// Package.
    pub socket: u32,
}

/// All CPUs of a machine. Numbers in [`CpuPlace`] are unique machine-wide.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    /// One entry per CPU.
    pub places: Vec<CpuPlace>,
    /// NUMA distances (10 = local), one row per node; empty = 10 within and 20 between nodes.
    pub distances: Vec<Vec<u32>>,
    /// Nodes farther apart take no fork, exec or affine wakeups of each other.
    pub reclaim_distance: u32,
    /// Capacity of each CPU at full speed, 1024 = the fastest; empty = all 1024.
    pub capacities: Vec<u32>,
    /// Priority of each CPU for the platform (ITMT), larger ones are preferred; empty = none is.
    pub priorities: Vec<u32>,
    /// CPUs that no domain has (`isolcpus`): nothing is balanced to or from them, and tasks go
    /// there only if their affinity says so.
    pub isolated: CpuSet,
    /// CPUs without a tick while they run one task (`nohz_full`).
    pub nohz_full: CpuSet,
}

impl Topology {
    /// `cpus` single-thread cores on one LLC, node and socket.
    pub fn flat(cpus: usize) -> Self {
        Self::regular(1, 1, cpus, 1)
    }

    /// `sockets` × `llcs` per socket × `cores` per LLC × `smt`. CPUs are numbered the way Linux on
    /// x86 usually does: first thread of every core, then the second ones.
    pub fn regular(sockets: usize, llcs: usize, cores: usize, smt: usize) -> Self {
        let cores_total = sockets * llcs * cores;
        let places = (0..cores_total * smt)
            .map(|cpu| {
                let core = cpu % cores_total;
                let llc = core / cores;
                let socket = llc / llcs;
                CpuPlace {
                    core: core as u32,
                    cluster: core as u32,
                    llc: llc as u32,
                    node: socket as u32,
                    socket: socket as u32,
                }
            })
            .collect();
        Self::of(places)
    }

    /// CPUs at these places, all alike.
    pub fn of(places: Vec<CpuPlace>) -> Self {
        Self {
            places,
            distances: Vec::new(),
            reclaim_distance: RECLAIM_DISTANCE,
            capacities: Vec::new(),
            priorities: Vec::new(),
            isolated: CpuSet::EMPTY,
            nohz_full: CpuSet::EMPTY,
        }
    }

    /// Number of CPUs.
    pub fn cpus(&self) -> usize {
        self.places.len()
    }

    /// CPUs on which tasks are by default (`housekeeping_cpumask(HK_TYPE_DOMAIN)`).
    pub fn housekeeping(&self) -> CpuSet {
        CpuSet::first(self.cpus()).and_not(&self.isolated)
    }

    /// Root domain of a CPU: 0, and 1 for isolated CPUs, which share the one that machines begin
    /// with (`def_root_domain`).
    #[inline]
    pub(crate) fn root_domain(&self, cpu: Cpu) -> usize {
        usize::from(self.isolated.contains(cpu))
    }

    /// CPUs of each root domain (`rd->span`).
    pub(crate) fn root_spans(&self) -> [CpuSet; 2] {
        [self.housekeeping(), self.isolated]
    }

    /// CPUs of the root domain of a CPU.
    pub(crate) fn root_span(&self, cpu: Cpu) -> CpuSet {
        self.root_spans()[self.root_domain(cpu)]
    }

    /// CPUs for which `same` holds with `cpu`.
    pub(crate) fn sharing(&self, cpu: Cpu, same: impl Fn(&CpuPlace, &CpuPlace) -> bool) -> CpuSet {
        let here = &self.places[cpu.index()];
        (0..self.cpus())
            .filter(|&row| same(here, &self.places[row]))
            .map(Cpu::from)
            .collect()
    }

    /// SMT siblings of `cpu`, itself included.
    pub fn siblings(&self, cpu: Cpu) -> CpuSet {
        self.sharing(cpu, |a, b| a.core == b.core)
    }

    /// Distance between two nodes.
    pub(crate) fn distance(&self, a: u32, b: u32) -> u32 {
        match self
            .distances
            .get(a as usize)
            .and_then(|row| row.get(b as usize))
        {
            Some(&distance) => distance,
            None if a == b => 10,
            None => 20,
        }
    }
}
