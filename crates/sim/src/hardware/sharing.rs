//! Cores that share a cache: the more of them execute, the slower each of them is.
//!
//! Worked example: `core_speed_1000ths = [1000, 900, 800]` of a cache with four cores. Two cores
//! execute, each at 0.9 of its speed alone; a third begins, and all three go on at 0.8, as four
//! would. A core counts once however many of its threads execute, and one that polls does not.

use schedcast_kernel::Cpu;
use schedcast_kernel::table::Table;

/// All caches of one level.
#[derive(Clone, Debug)]
pub(super) struct SharedCaches {
    /// Speed while 1, 2, … cores execute, in thousandths; the last number holds for more, too.
    speeds: Vec<u32>,
    /// The cache of each core.
    of_core: Table<usize>,
    caches: Table<Cache>,
}

#[derive(Clone, Debug, Default)]
struct Cache {
    cpus: Vec<usize>,
    executing: usize,
}

impl SharedCaches {
    /// `of_cpu` has the cache of each CPU, `cores` the core.
    pub(super) fn new(speeds: &[u32], of_cpu: &[usize], cores: &[usize]) -> Self {
        let mut of_core = vec![0; super::count(cores)];
        let mut caches = vec![Cache::default(); super::count(of_cpu)];
        for (cpu, (&cache, &core)) in of_cpu.iter().zip(cores).enumerate() {
            of_core[core] = cache;
            caches[cache].cpus.push(cpu);
        }
        Self {
            speeds: speeds.to_vec(),
            of_core: of_core.into(),
            caches: caches.into(),
        }
    }

    fn part(&self, cache: &Cache) -> u32 {
        self.speeds[cache.executing.clamp(1, self.speeds.len()) - 1]
    }

    /// Speed of a core's threads, of `speed` alone.
    pub(super) fn speed(&self, core: usize, speed: u64) -> u64 {
        let cache = &self.caches[self.of_core[core]];
        speed * u64::from(self.part(cache)) / 1000
    }

    /// A core begins to execute, or ends; where that changes speeds, those of all CPUs of the cache
    /// are `changed`.
    pub(super) fn note(&mut self, core: usize, executes: bool, changed: &mut Vec<Cpu>) {
        let row = self.of_core[core];
        let before = self.part(&self.caches[row]);
        let cache = &mut self.caches[row];
        cache.executing = match executes {
            true => cache.executing + 1,
            false => cache.executing - 1,
        };
        if before != self.part(&self.caches[row]) {
            changed.extend(self.caches[row].cpus.iter().map(|&cpu| Cpu::from(cpu)));
        }
    }
}
