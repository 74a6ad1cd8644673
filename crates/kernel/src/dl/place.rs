//! Which CPU a waking deadline task goes to.
//!
//! It stays where it was unless somebody with an earlier deadline runs there, or one that may not
//! move. Then a CPU without any deadline task is taken, or if there is none the one whose earliest
//! deadline is the latest of all, if that is later than its own. Worked example: CPUs 0..2 run
//! deadlines 10, 40 and 30 ms. A task with 20 ms that was on CPU 0 goes to CPU 1; with 50 ms it
//! stays and waits.

use super::before;
use crate::cpuset::CpuSet;
use crate::ids::{Cpu, Ns, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Platform, Timer};
use crate::select::WakeKind;

/// A CPU and its earliest deadline.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub(crate) cpu: Cpu,
    pub(crate) deadline_ns: Ns,
}

/// CPUs with deadline tasks in a heap, the latest deadline first, and those without
/// (`struct cpudl`). Of equal ones the heap's order decides, so it is kept as the kernel keeps it.
#[derive(Clone, Debug, Default)]
pub(super) struct Latest {
    heap: Vec<Entry>,
    /// Place of each CPU in the heap.
    places: Vec<Option<usize>>,
    /// CPUs without (`free_cpus`).
    pub(crate) free: CpuSet,
    /// The first of an empty heap, as it was left.
    last: Entry,
}

impl Latest {
    /// None of `span`, of a machine with so many CPUs, has a deadline task.
    pub(super) fn new(cpus: usize, span: CpuSet) -> Self {
        Self {
            places: vec![None; cpus],
            free: span,
            ..Self::default()
        }
    }

    /// The CPU with the latest deadline (`cpudl_maximum`).
    pub(super) fn first(&self) -> Entry {
        self.heap.first().copied().unwrap_or(self.last)
    }

    /// `cpudl_set`.
    pub(super) fn set(&mut self, cpu: Cpu, deadline_ns: Ns) {
        let entry = Entry { cpu, deadline_ns };
        match self.places[cpu.index()] {
            Some(place) => {
                self.heap[place] = entry;
                self.settle(place);
            }
            None => {
                self.heap.push(entry);
                self.rise(self.heap.len() - 1);
                self.free.remove(cpu);
            }
        }
    }

    /// `cpudl_clear`.
    pub(super) fn clear(&mut self, cpu: Cpu) {
        self.free.insert(cpu);
        let Some(place) = self.places[cpu.index()].take() else {
            return;
        };
        self.last = self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.settle(place);
        }
    }

    /// `cpudl_heapify`.
    fn settle(&mut self, place: usize) {
        let own = self.heap[place].deadline_ns;
        if place > 0 && before(self.heap[(place - 1) / 2].deadline_ns, own) {
            self.rise(place);
        } else {
            self.sink(place);
        }
    }

    /// `cpudl_heapify_up`.
    fn rise(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 {
            let parent = self.heap[(place - 1) / 2];
            if before(entry.deadline_ns, parent.deadline_ns) {
                break;
            }
            self.put(place, parent);
            place = (place - 1) / 2;
        }
        self.put(place, entry);
    }

    /// `cpudl_heapify_down`.
    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let mut largest = (place, entry.deadline_ns);
            for child in [2 * place + 1, 2 * place + 2] {
                let later = |other: &&Entry| before(largest.1, other.deadline_ns);
                if let Some(other) = self.heap.get(child).filter(later) {
                    largest = (child, other.deadline_ns);
                }
            }
            if largest.0 == place {
                break;
            }
            self.put(place, self.heap[largest.0]);
            place = largest.0;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.places[entry.cpu.index()] = Some(place);
    }
}

impl Kernel {
    /// Whether a CPU is large enough for what a task has to do by its deadline
    /// (`dl_task_fits_capacity`).
    fn dl_fits(&self, task: TaskId, cpu: Cpu) -> bool {
        self.rqs[cpu].cpu_capacity_orig >= self.dl.of(task).density >> 10
    }

    /// Whether a task would be the first on a CPU (`dl_task_is_earliest_deadline`).
    pub(super) fn dl_would_lead(&self, task: TaskId, cpu: Cpu) -> bool {
        self.rqs[cpu].dl_nr_running == 0
            || before(
                self.dl.of(task).deadline_ns,
                self.dl.rqs[cpu.index()].earliest_ns,
            )
    }

    /// `select_task_rq_dl`: only wakeups look for a CPU.
    #[cold]
    #[inline(never)]
    pub(crate) fn select_task_rq_dl(&mut self, task: TaskId, kind: WakeKind) -> Cpu {
        let record = &self.tasks[task];
        let cpu = record.cpu;
        if kind != WakeKind::Wakeup {
            return cpu;
        }
        let curr = self.rqs[cpu].curr;
        let must_wait = self.runs_deadline_task(cpu)
            && (self.tasks[curr].nr_cpus_allowed < 2
                || !before(self.dl.of(task).deadline_ns, self.dl.of(curr).deadline_ns))
            && record.nr_cpus_allowed > 1;
        let too_small = self.domains.asym_active && !self.dl_fits(task, cpu);
        if !must_wait && !too_small {
            return cpu;
        }
        reached(Mark::DlPlace);
        match self.find_later_rq(task) {
            Some(target) if self.dl_would_lead(task, target) => target,
            _ => cpu,
        }
    }

    /// CPUs that would run the task at once (`cpudl_find`).
    fn cpudl_find(&self, task: TaskId) -> Option<CpuSet> {
        let record = &self.tasks[task];
        let latest = &self.dl.latest[self.topology.root_domain(record.cpu)];
        let free = latest.free.and(&record.affinity);
        if free.is_empty() {
            let best = latest.first();
            let later = record.affinity.contains(best.cpu)
                && before(self.dl.of(task).deadline_ns, best.deadline_ns);
            return later.then(|| CpuSet::of(best.cpu));
        }
        if !self.domains.asym_active {
            return Some(free);
        }
        let fit: CpuSet = free.iter().filter(|&cpu| self.dl_fits(task, cpu)).collect();
        if !fit.is_empty() {
            return Some(fit);
        }
        let mut largest: Option<(u64, Cpu)> = None;
        for cpu in free.iter() {
            let capacity = self.rqs[cpu].cpu_capacity_orig;
            let better = largest
                .is_none_or(|(most, _)| capacity > most || (cpu == record.cpu && capacity == most));
            if better {
                largest = Some((capacity, cpu));
            }
        }
        largest.map(|(_, cpu)| CpuSet::of(cpu))
    }

    /// The best of them: the task's own, the executing one, one near the task's (`find_later_rq`).
    pub(super) fn find_later_rq(&mut self, task: TaskId) -> Option<Cpu> {
        if self.tasks[task].nr_cpus_allowed == 1 {
            return None;
        }
        let later = self.cpudl_find(task)?;
        Some(self.nearest_of(self.tasks[task].cpu, &later))
    }

    /// A sleeper leaves for another CPU (`migrate_task_rq_dl`).
    pub(crate) fn migrate_task_rq_dl<P: Platform>(&mut self, p: &mut P, task: TaskId) {
        let cpu = self.tasks[task].cpu;
        let bw = self.dl.of(task).bw;
        if self.dl.of(task).non_contending {
            self.update_rq_clock(p, cpu);
            self.sub_running_bw(p, cpu, bw);
            let entity = self.dl.entity(task);
            (entity.non_contending, entity.inactive_timer_set) = (false, false);
            p.cancel(self.here, Timer::Inactive(task));
        }
        self.dl.rq(cpu).this_bw -= bw;
    }
}
