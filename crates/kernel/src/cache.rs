//! Cache-aware scheduling (7.2, `CONFIG_SCHED_CACHE`): the threads of a process are drawn to one
//! last level cache (LLC).
//!
//! # Which cache a process prefers
//!
//! Each CPU counts what its fair tasks run, and apart from that what those of each process run on
//! it. Both sums are halved at the end of each epoch of `epoch_period` jiffies (`HZ / 100`), so a
//! sum approaches twice the runtime of an epoch. A process's *occupancy* of a CPU is its part of
//! that CPU's sum, 2²⁰ for all of it, and its occupancy of an LLC is the sum over the CPUs there.
//!
//! At its first tick of an epoch in which none of its threads had one yet, a thread is given work
//! for its way back to user mode (`task_cache_work`). The work adds the occupancies of all LLCs,
//! and if that of the largest is more than twice that of the cache preferred so far, the process
//! prefers the CPU with the largest occupancy there, that is its cache. It also counts the threads
//! that run at this moment and moves the average `nr_running_avg` by a half to an eighth of the
//! difference, rounded towards zero.
//!
//! Worked example, two LLCs of 4 CPUs, one thread a core, 1000 Hz: a process has three threads that
//! compute, two on the first LLC and one on the second, each alone on its CPU. The occupancies are
//! 2 · 2²⁰ and 2²⁰ (each CPU's less 1); nothing is preferred so far, 2 · 2²⁰ > 2 · 0, so the first
//! LLC is. One of the two moves over. Nothing else runs on the CPU that it left, so all of that
//! CPU's sum still is the process's, until halving has made it 0 after 24 epochs, 0.24 s: two
//! against two, and then two against one, which is not more than twice as much. The preference
//! stays. The last one moves over as well: three against the one that is remembered, and within an
//! epoch the second LLC is preferred. The average of running threads, with a divisor of 2 for an
//! LLC of up to 11 CPUs, went from 0 to 1 and 2 and stays there, as a half of 3 − 2 is 0.
//!
//! # When there is no preference
//!
//! * Only one LLC, or LLCs of single CPUs (`sd_in_multi_llcs`), or `llc_balancing/enabled` is 0.
//! * The process has one thread (`get_nr_threads`).
//! * Too many of its threads run: `nr_running_avg` · threads of a core has to be less than 80 % of
//!   the CPUs of the LLC times `aggr_tolerance` (`invalid_llc_nr`). With 8 cores of two threads,
//!   6 · 2 · 1.25 = 15 < 16 is few enough, and 7 · 2 · 1.25 = 17.5 is not.
//! * No work was given for more than `epoch_affinity_timeout` epochs (5, that is 50 ms).
//! * The memory it works on is larger than the LLC (`exceed_llc_capacity`). The kernel knows that
//!   only where NUMA balancing runs, from the faults that this causes. Here no process has a
//!   footprint, as on a kernel without NUMA balancing or on a machine with one node. For the same
//!   reason no task has a preferred node that would outdo its preferred cache.
//!
//! # Where it acts
//!
//! A thread takes the preference of its process over when it is charged for its runtime
//! (`account_mm_sched`). Every CPU counts its queued tasks by the cache they prefer, and of its
//! runnable tasks those that are where they want to be. Load balance reads these counts between
//! LLCs (`balance/llc.rs`); wakeups, forks and the limits of control groups do not. A throttled
//! task is queued nowhere and so draws nobody; what its process ran before is forgotten by halves.

use crate::capacity::fits_capacity;
use crate::ids::{Cpu, EntityId, Ns, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::Platform;
use crate::rules::{Rules, rules};
use crate::table::Table;
use crate::weight::NICE_0_LOAD;
use std::collections::HashMap;

rules! {
    /// Rules and numbers of cache-aware scheduling; the numbers are those of `sched/llc_balancing`
    /// in debugfs.
    #[derive(Copy)]
    pub(crate) struct CacheRules of (hz: u32);

    /// The kernel has it (7.2).
    pub(crate) aware: bool = false,
    /// A CPU that the platform prefers comes before a cache that a process prefers (7.3).
    pub(crate) yields_to_priority: bool = false,
    /// The running task stays in its cache if it would not fit the other CPU (7.3).
    pub(crate) running_must_fit: bool = false,
    /// `enabled`.
    pub(crate) enabled: bool = true,
    /// `aggr_tolerance`: running threads that a cache may be asked to hold, in times of its CPUs;
    /// 0 = none, from 100 on any number.
    pub(crate) aggr_tolerance: u32 = 1,
    /// `epoch_period`, jiffies.
    pub(crate) epoch_period: u32 = hz / 100,
    /// `epoch_affinity_timeout`, epochs.
    pub(crate) epoch_affinity_timeout: u32 = 5,
    /// `imb_pct`: how much more utilised one of two caches may be, percent.
    pub(crate) imb_pct: u32 = 20,
    /// `overaggr_pct`: utilisation up to which a cache is filled, percent of its capacity; half as
    /// much again where cores have one thread.
    pub(crate) overaggr_pct: u32 = 50,
}

impl CacheRules {
    /// Whether so many running threads are too many for an LLC of `llc_size` CPUs
    /// (`invalid_llc_nr`).
    fn too_many(&self, nr_running_avg: u64, smt_threads: u64, llc_size: u32) -> bool {
        self.aggr_tolerance < 100
            && !fits_capacity(
                nr_running_avg * smt_threads,
                u64::from(self.aggr_tolerance) * u64::from(llc_size),
            )
    }
}

/// Runtime of a process on a CPU (`struct sched_cache_time`).
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheTime {
    /// Sum of runtime, halved each epoch, ns.
    pub runtime_ns: Ns,
    /// Epoch of its CPU at the last update.
    pub epoch: u64,
}

/// A process with its preferred cache (`struct sched_cache_group`).
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Its live threads.
    pub(crate) nr_threads: u32,
    /// A CPU of the cache it prefers.
    pub cpu: Option<Cpu>,
    /// Epoch in which a thread was given work last.
    pub epoch: u64,
    /// Jiffy from which the next scan may run.
    pub next_scan: u64,
    /// Average of its running threads.
    pub nr_running_avg: u64,
    /// Runtime on each CPU.
    pub times: Vec<CacheTime>,
    /// Number of its address space.
    address_space: u32,
}

/// Runtime of the fair class on a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuEpoch {
    /// Sum of runtime, halved each epoch, ns.
    pub runtime_ns: Ns,
    /// Epochs so far.
    pub epoch: u64,
    /// Jiffy after which the next one begins.
    pub next_jiffy: u64,
}

/// Utilisation and capacity of an LLC, as periodic balance found them last.
#[derive(Clone, Copy, Debug, Default)]
pub struct LlcLoad {
    /// Utilisation of its CPUs.
    pub util: u64,
    /// Capacity that they have for the fair class.
    pub capacity: u64,
}

/// State of cache-aware scheduling. Its tables are empty on a machine or with rules that have none.
#[derive(Clone, Debug, Default)]
pub struct CacheAware {
    /// `sched_cache_active`.
    pub(crate) active: bool,
    /// `sched_cache_present`.
    present: bool,
    /// Most threads of a core (`cpu_smt_num_threads`).
    pub(crate) smt_threads: u32,
    /// LLC of each CPU, numbered from 0.
    pub(crate) llc_of: Table<u32>,
    /// Load of each LLC; `None` for that of a single CPU, which has no domain.
    pub(crate) loads: Table<Option<LlcLoad>>,
    /// Tasks of each CPU that prefer each LLC (`sd->llc_counts`): row CPU · LLCs + LLC.
    counts: Table<u32>,
    /// Runtime of each CPU.
    pub cpus: Table<CpuEpoch>,
    /// Processes with live threads, and rows to be used again.
    pub processes: Vec<Process>,
    free: Vec<u32>,
    /// Row of each address space.
    rows: HashMap<u32, u32>,
}

/// Part of a task in the preference of its process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskCache {
    /// Its process; `None` for kernel threads and the dead.
    pub process: Option<u32>,
    /// LLC that it prefers (`preferred_llc`).
    pub preferred_llc: Option<u32>,
    /// It is queued there (`pref_llc_queued`).
    pub queued_there: bool,
    /// Work of its way back to user mode.
    pub(crate) work: CacheWork,
}

/// Whether a task has a scan to do on its way back to user mode. Work that came last is done first,
/// but what comes later than the first of them is done has to wait for the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum CacheWork {
    /// None.
    #[default]
    None,
    /// It came after the throttle work, if there is any.
    Newest,
    /// Throttle work came after it.
    BehindThrottle,
    /// It came with throttle work that is done.
    Next,
}

impl CacheAware {
    /// State of a machine whose domains are built.
    pub(crate) fn new(domains: &crate::balance::Domains, rules: &Rules) -> Self {
        let views = &domains.cpus;
        let several = |cpu: usize| {
            let llc = views[cpu].llc.map(|row| domains.domain(row));
            llc.is_some_and(|llc| llc.span_weight > 1 && llc.parent.is_some())
        };
        if !rules.cache.aware || !(0..views.len()).any(several) {
            return Self::default();
        }
        let mut ids: Vec<Cpu> = views.iter().map(|view| view.llc_id).collect();
        ids.sort_unstable();
        ids.dedup();
        let llc_of = views
            .iter()
            .map(|view| ids.partition_point(|&id| id < view.llc_id) as u32);
        // As periodic balance found them on a machine that has been idle for long.
        let idle = |row| LlcLoad {
            util: 0,
            capacity: domains
                .domain(row)
                .span
                .iter()
                .map(|cpu| views[cpu.index()].capacity_orig)
                .sum(),
        };
        let loads = ids.iter().map(|id| views[id.index()].llc.map(idle));
        let threads = views.iter().map(|view| view.smt.len() as u32);
        Self {
            active: rules.cache.enabled,
            present: true,
            smt_threads: threads.max().unwrap_or(1),
            llc_of: llc_of.collect(),
            loads: loads.collect(),
            counts: vec![0; views.len() * ids.len()].into(),
            cpus: vec![CpuEpoch::default(); views.len()].into(),
            ..Self::default()
        }
    }

    /// Rules changed while the machine runs.
    pub(crate) fn set_rules(&mut self, rules: &Rules) {
        self.active = self.present && rules.cache.aware && rules.cache.enabled;
    }

    fn count_row(&self, cpu: Cpu, llc: u32) -> usize {
        cpu.index() * self.loads.len() + llc as usize
    }

    /// Number of LLCs.
    pub fn llcs(&self) -> u32 {
        self.loads.len() as u32
    }

    /// Load of the LLC of a CPU; `None` for a CPU alone in its LLC.
    pub fn load_of(&self, cpu: Cpu) -> Option<LlcLoad> {
        self.loads[self.llc_of[cpu] as usize]
    }

    /// Tasks queued on a CPU that prefer an LLC.
    pub fn count(&self, cpu: Cpu, llc: u32) -> u32 {
        self.counts[self.count_row(cpu, llc)]
    }

    /// Row of the process with an address space; a new one has run nothing yet (`mm_init_sched`).
    fn process_of(&mut self, address_space: u32, jiffy: u64) -> u32 {
        if let Some(&row) = self.rows.get(&address_space) {
            return row;
        }
        let row = self.free.pop().unwrap_or_else(|| {
            self.processes.push(Process::default());
            self.processes.len() as u32 - 1
        });
        let process = &mut self.processes[row as usize];
        process.times.clear();
        process.times.extend(self.cpus.iter().map(|cpu| CacheTime {
            runtime_ns: 0,
            epoch: cpu.epoch,
        }));
        *process = Process {
            epoch: self.cpus.last().map_or(0, |cpu| cpu.epoch),
            next_scan: jiffy,
            times: std::mem::take(&mut process.times),
            address_space,
            ..Process::default()
        };
        self.rows.insert(address_space, row);
        row
    }

    /// Ends the epochs of a CPU that have passed, and those of a process on it
    /// (`__update_mm_sched`).
    fn end_epochs(&mut self, process: u32, cpu: Cpu, jiffy: u64, period: u32) {
        let period = u64::from(period.max(1));
        let of_cpu = &mut self.cpus[cpu];
        if jiffy > of_cpu.next_jiffy {
            let ended = (jiffy - of_cpu.next_jiffy).div_ceil(period);
            of_cpu.epoch += ended;
            of_cpu.next_jiffy += ended * period;
            of_cpu.runtime_ns = halved(of_cpu.runtime_ns, ended);
        }
        let time = &mut self.processes[process as usize].times[cpu.index()];
        let ended = of_cpu.epoch - time.epoch;
        time.epoch = of_cpu.epoch;
        time.runtime_ns = halved(time.runtime_ns, ended);
    }

    /// Part of a CPU that a process has, 2²⁰ for all of it (`fraction_mm_sched`).
    fn occupancy(&mut self, process: u32, cpu: Cpu, jiffy: u64, period: u32) -> u64 {
        self.end_epochs(process, cpu, jiffy, period);
        let runtime_ns = self.processes[process as usize].times[cpu.index()].runtime_ns;
        NICE_0_LOAD.wrapping_mul(runtime_ns) / (self.cpus[cpu].runtime_ns + 1)
    }
}

/// A sum after `times` halvings (`__shr_u64`).
const fn halved(sum: u64, times: u64) -> u64 {
    if times >= 64 { 0 } else { sum >> times }
}

impl Kernel {
    /// A thread starts: it belongs to the process with its address space (`sched_cache_fork`).
    pub(crate) fn cache_join(&mut self, task: TaskId, jiffy: u64) {
        let record = &mut self.tasks[task];
        if let Some(address_space) = record.address_space.filter(|_| self.cache.present) {
            let row = self.cache.process_of(address_space, jiffy);
            self.cache.processes[row as usize].nr_threads += 1;
            record.cache.process = Some(row);
        }
    }

    /// A thread ends; what it runs from now on counts for nobody (`sched_cache_exit_mm`).
    pub(crate) fn cache_leave(&mut self, task: TaskId) {
        let record = &mut self.tasks[task];
        record.cache.work = CacheWork::None;
        if let Some(row) = record.cache.process.take() {
            let process = &mut self.cache.processes[row as usize];
            process.nr_threads -= 1;
            if process.nr_threads == 0 {
                let address_space = process.address_space;
                self.cache.rows.remove(&address_space);
                self.cache.free.push(row);
            }
        }
    }

    /// Whether a process cannot be held by one LLC as large as that of `cpu` (`invalid_llc_nr`).
    fn exceeds_llc(&self, process: u32, cpu: Cpu) -> bool {
        let process = &self.cache.processes[process as usize];
        process.nr_threads <= 1
            || self.rules.cache.too_many(
                process.nr_running_avg,
                u64::from(self.cache.smt_threads),
                self.domains.cpus[cpu].llc_size,
            )
    }

    /// The CPU whose cache a process prefers; forgotten where one as large as that of `cpu` could
    /// not hold it.
    pub(crate) fn preferred_cpu(&mut self, process: u32, cpu: Cpu) -> Option<Cpu> {
        self.cache.processes[process as usize].cpu?;
        if self.exceeds_llc(process, cpu) {
            reached(Mark::LlcForgotten);
            self.cache.processes[process as usize].cpu = None;
        }
        self.cache.processes[process as usize].cpu
    }

    /// A fair task ran for `delta_ns`: its process has a larger part of the CPU, and the task takes
    /// over what its process prefers (`account_mm_sched`).
    #[inline(never)]
    pub(crate) fn account_mm_sched<P: Platform>(
        &mut self,
        p: &P,
        cpu: Cpu,
        task: TaskId,
        delta_ns: Ns,
    ) {
        let record = &self.tasks[task];
        let Some(process) = record.cache.process.filter(|_| record.policy.is_fair()) else {
            return;
        };
        let jiffy = self.jiffies(p.now(self.here));
        let rules = self.rules.cache;
        self.cache
            .end_epochs(process, cpu, jiffy, rules.epoch_period);
        self.cache.cpus[cpu].runtime_ns += delta_ns;
        let row = &mut self.cache.processes[process as usize];
        row.times[cpu.index()].runtime_ns += delta_ns;
        let since = self.cache.cpus[cpu].epoch.wrapping_sub(row.epoch) as i64;
        if since > i64::from(rules.epoch_affinity_timeout) {
            row.cpu = None;
        }
        let preferred = self
            .preferred_cpu(process, cpu)
            .map(|cpu| self.cache.llc_of[cpu]);
        let record = &self.tasks[task];
        let attached = self.entities[record.se].avg.last_update_time != 0;
        let queued = record.cpu == cpu && attached && record.on_rq && !record.migrating;
        if queued && record.cache.preferred_llc != preferred {
            self.account_llc_dequeue(task);
            self.tasks[task].cache.preferred_llc = preferred;
            self.account_llc_enqueue(task);
        }
    }

    /// A task comes onto the queue of a CPU and is counted by the LLC it prefers.
    #[inline(never)]
    pub(crate) fn account_llc_enqueue(&mut self, task: TaskId) {
        let record = &mut self.tasks[task];
        let Some(preferred) = record.cache.preferred_llc else {
            return;
        };
        let (se, cpu) = (record.se, record.cpu);
        record.cache.queued_there = preferred == self.cache.llc_of[cpu];
        self.count_at_preferred(se, true);
        let row = self.cache.count_row(cpu, preferred);
        self.cache.counts[row] += 1;
    }

    /// The same of a task that leaves it.
    #[inline(never)]
    pub(crate) fn account_llc_dequeue(&mut self, task: TaskId) {
        let record = &self.tasks[task];
        let Some(preferred) = record.cache.preferred_llc else {
            return;
        };
        let (se, cpu) = (record.se, record.cpu);
        self.count_at_preferred(se, false);
        self.tasks[task].cache.queued_there = false;
        let row = self.cache.count_row(cpu, preferred);
        // A task that parks itself may be charged, and so counted anew, after it has left.
        self.cache.counts[row] = self.cache.counts[row].saturating_sub(1);
    }

    /// A runnable task that is where it wants to be comes to a CPU or leaves it
    /// (`pref_llc_running_inc`, `pref_llc_running_dec`).
    #[inline]
    pub(crate) fn count_at_preferred(&mut self, se: EntityId, comes: bool) {
        let entity = &self.entities[se];
        let Some(task) = entity.task().filter(|_| !entity.sched_delayed) else {
            return;
        };
        let record = &self.tasks[task];
        if record.cache.queued_there {
            let count = &mut self.rqs[record.cpu].nr_pref_llc_running;
            *count = count.wrapping_add(if comes { 1 } else { u32::MAX });
        }
    }

    /// The tick of a task: once an epoch a thread of each process has to look where it runs
    /// (`task_tick_cache`).
    #[inline]
    pub(crate) fn task_tick_cache(&mut self, cpu: Cpu, task: TaskId) {
        let record = &mut self.tasks[task];
        let Some(process) = record.cache.process.filter(|_| self.cache.active) else {
            return;
        };
        let epoch = self.cache.cpus[cpu].epoch;
        let process = &mut self.cache.processes[process as usize];
        if (epoch.wrapping_sub(process.epoch) as i64) > 0 && record.cache.work == CacheWork::None {
            record.cache.work = CacheWork::Newest;
            process.epoch = epoch;
        }
    }

    /// A thread looks where its process runs most, and how many of its threads do
    /// (`task_cache_work`).
    #[cold]
    #[inline(never)]
    pub(crate) fn task_cache_work<P: Platform>(&mut self, p: &P, task: TaskId) {
        let record = &mut self.tasks[task];
        record.cache.work = CacheWork::None;
        let (Some(row), here) = (record.cache.process, record.cpu) else {
            return;
        };
        let (jiffy, period) = (
            self.jiffies(p.now(self.here)),
            self.rules.cache.epoch_period,
        );
        let process = &mut self.cache.processes[row as usize];
        if jiffy < process.next_scan {
            return;
        }
        process.next_scan = jiffy + u64::from(period.max(1));
        if self.exceeds_llc(row, here) {
            self.cache.processes[row as usize].cpu = None;
            return;
        }
        reached(Mark::LlcScan);
        let preferred = self.cache.processes[row as usize].cpu;
        let preferred = preferred.map(|cpu| self.cache.llc_of[cpu]);
        let (mut most, mut most_at, mut at_preferred) = (0, None, 0);
        let mut nr_running = 0;
        for first in (0..self.cpus()).map(Cpu::from) {
            let view = &self.domains.cpus[first];
            let Some(domain) = view.llc.filter(|_| view.llc_id == first) else {
                continue;
            };
            let (mut sum, mut largest, mut largest_at) = (0, 0, None);
            let span = self.domains.domain(domain).span;
            for cpu in span.iter() {
                let occupancy = self.cache.occupancy(row, cpu, jiffy, period);
                sum += occupancy;
                if occupancy > largest {
                    (largest, largest_at) = (occupancy, Some(cpu));
                }
                let curr = &self.tasks[self.rqs[cpu].curr];
                nr_running += u64::from(curr.cache.process == Some(row));
            }
            if sum > most {
                (most, most_at) = (sum, largest_at);
            }
            if preferred == Some(self.cache.llc_of[first]) {
                at_preferred = sum;
            }
        }
        let llc_size = self.domains.cpus[here].llc_size;
        let process = &mut self.cache.processes[row as usize];
        if most > 2 * at_preferred {
            reached(Mark::LlcPreferred);
            process.cpu = most_at;
        }
        let divisor = i64::from(llc_size >> 2).clamp(2, 8);
        let diff = nr_running as i64 - process.nr_running_avg as i64;
        process.nr_running_avg = process.nr_running_avg.wrapping_add_signed(diff / divisor);
    }
}
