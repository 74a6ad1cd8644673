//! The search through a last level cache (`select_idle_cpu`, `select_idle_core`,
//! `select_idle_smt`).
//!
//! The kernel looks at one CPU after the other. Idle CPUs are kept as bit sets here, so the answer
//! is the first common bit; what is charged is the number of CPUs the kernel would have looked at.
//!
//! Worked example: LLC of CPUs 0–7, target 2, CPUs 1 and 6 idle, scan limit 5. The order is
//! 3 4 5 6: CPU 6 is found at the fourth look. With a limit of 3 the scan gives up after CPU 5.

use super::SchedIdleCpus;
use crate::cpuset::CpuSet;
use crate::ids::{Cpu, Ns, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::Platform;
use crate::rules::hooks::Scanning;

/// How a scan ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scan {
    Found(Cpu),
    /// Every CPU was looked at: the kernel forgets the last resort (5.4–5.6).
    Exhausted,
    /// The limit was reached; the last resort, if any.
    GaveUp(Option<Cpu>),
}

impl Kernel {
    /// CPUs a scan takes, and those it remembers as a last resort.
    fn idle_sets(&self) -> (CpuSet, CpuSet) {
        let domains = &self.domains;
        let idle = domains.idle.or(&domains.claims.unseen());
        match self.sched_idle_cpus() {
            SchedIdleCpus::Busy => (idle, CpuSet::EMPTY),
            SchedIdleCpus::LastResort => (idle, domains.sched_idle),
            SchedIdleCpus::Idle => (idle.or(&domains.sched_idle), CpuSet::EMPTY),
        }
    }

    /// The same of one CPU: whether a scan takes it.
    fn is_idle_for_scan(&self, cpu: Cpu) -> bool {
        let domains = &self.domains;
        let counts = self.sched_idle_cpus() == SchedIdleCpus::Idle;
        domains.idle.contains(cpu)
            || domains.claims.is_unseen(cpu)
            || (counts && domains.sched_idle.contains(cpu))
    }

    /// Whether a scan remembers it as a last resort.
    fn is_resort_for_scan(&self, cpu: Cpu) -> bool {
        let counts = self.sched_idle_cpus() == SchedIdleCpus::LastResort;
        counts && self.domains.sched_idle.contains(cpu)
    }

    /// Looks at `cpus` in order from `start`, at most `limit` of them. `counted` are the CPUs that
    /// count against the limit: `cpus`, or up to 5.5 the forbidden ones too.
    fn scan_cpus<P: Platform>(
        &mut self,
        p: &mut P,
        cpus: &CpuSet,
        counted: &CpuSet,
        start: usize,
        limit: Option<usize>,
    ) -> Scan {
        let (idle, resort) = self.idle_sets();
        if P::EXPLAIN {
            self.domains.why.scan_limit = limit.map(|limit| limit as u32);
        }
        let limit = limit.unwrap_or(usize::MAX);
        let place = |cpu: Cpu| counted.place_wrap(start, cpu);
        let hit = cpus
            .and(&idle)
            .first_wrap(start)
            .filter(|&cpu| place(cpu) <= limit);
        if let Some(cpu) = hit {
            self.look(p, place(cpu) as u32);
            self.because::<P>(Mark::ScanFound);
            return Scan::Found(cpu);
        }
        let count = counted.len();
        self.look(p, count.min(limit) as u32);
        let resort = cpus
            .and(&resort)
            .first_wrap(start)
            .filter(|&cpu| place(cpu) <= limit);
        if count <= limit {
            return Scan::Exhausted;
        }
        reached(Mark::ScanGaveUp);
        if resort.is_some() {
            self.because::<P>(Mark::ScanSchedIdle);
        }
        Scan::GaveUp(resort)
    }

    /// A fully idle core among `cpus`, by its first allowed thread in scan order.
    fn scan_cores<P: Platform>(&mut self, p: &mut P, cpus: &CpuSet, start: usize) -> Option<Cpu> {
        let hit = cpus.and(&self.domains.idle_cores).first_wrap(start)?;
        // Busy cores are given up at their first thread, the one found is looked at whole.
        let threads = self.domains.cpus[hit].smt.len();
        let looks = cpus.place_wrap(start, hit) + threads - 1;
        self.look(p, looks as u32);
        self.because::<P>(Mark::IdleCore);
        Some(hit)
    }

    /// No core is idle: the lowest idle thread of the first core, in scan order, that has one.
    fn scan_threads_of_cores<P: Platform>(
        &mut self,
        p: &mut P,
        cpus: &CpuSet,
        start: usize,
    ) -> Option<Cpu> {
        let (idle, resort) = self.idle_sets();
        self.look(p, cpus.len() as u32);
        let usable = cpus.and(&idle.or(&resort));
        if usable.is_empty() {
            return None;
        }
        let found = cpus
            .iter_wrap(Cpu::from(start))
            .find_map(|cpu| self.domains.cpus[cpu].smt.and(&usable).lowest());
        if found.is_some() {
            self.because::<P>(Mark::IdleThreadOfBusyCore);
        }
        found
    }

    /// From 5.12 (`select_idle_cpu` with all its preludes).
    pub(super) fn scan_one_pass<P: Platform>(
        &mut self,
        p: &mut P,
        this: Cpu,
        task: TaskId,
        prev: Cpu,
        target: Cpu,
    ) -> Option<Cpu> {
        let rules = &self.rules.placement;
        let (smt_of_prev, after_target) = (rules.scan_smt_of_prev, rules.scan_starts_after_target);
        let cores = self.test_idle_cores(p, target);
        let affinity = self.tasks[task].affinity;
        let mut cpus = self.llc_span(target).and(&affinity);
        let try_siblings = self.domains.smt_active && smt_of_prev && !cores;
        if try_siblings && self.domains.share_cache(prev, target) {
            let sibling = self.idle_smt(p, &cpus, prev);
            if sibling.is_some() {
                return sibling;
            }
        }
        let prop = self.rules.features.sis_prop && !cores;
        let mut limit = match prop {
            true => Some(self.sis_prop_limit(p, this, target)?),
            false => None,
        };
        if self.rules.features.sis_util {
            let scan = self.domains.llc_shared(target)?.nr_idle_scan as usize;
            if scan == 0 {
                reached(Mark::SisUtilNone);
                return None;
            }
            reached(Mark::SisUtilLimit);
            limit = Some(scan);
        }
        limit = self.own_scan_limit(task, target, limit);
        let started_ns = p.now(self.here);
        let start = target.index() + usize::from(after_target);
        let near_first = self.cluster_of(target).map(|group| cpus.and(&group));
        if let Some(near) = near_first {
            reached(Mark::ClusterFirst);
            if P::EXPLAIN {
                self.domains.why.near_first = near_first;
            }
            if cores {
                if let Some(cpu) = self.scan_cores(p, &near, start) {
                    return Some(cpu);
                }
            } else {
                match self.scan_cpus(p, &near, &near, start, limit) {
                    Scan::Found(cpu) => return Some(cpu),
                    Scan::GaveUp(resort) => return resort,
                    Scan::Exhausted => limit = limit.map(|limit| limit - near.len()),
                }
            }
            cpus = cpus.and_not(&near);
        }
        if cores {
            if let Some(cpu) = self.scan_cores(p, &cpus, start) {
                return Some(cpu);
            }
            let found = near_first.and_then(|near| self.scan_threads_of_cores(p, &near, start));
            let found = found.or_else(|| self.scan_threads_of_cores(p, &cpus, start));
            self.clear_idle_cores(p, target);
            return found;
        }
        let scan = self.scan_cpus(p, &cpus, &cpus, start, limit);
        if prop && !matches!(scan, Scan::GaveUp(_)) {
            self.note_scan_cost(p.now(self.here) - started_ns, this);
        }
        match scan {
            Scan::Found(cpu) => Some(cpu),
            Scan::Exhausted => None,
            Scan::GaveUp(resort) => resort,
        }
    }

    /// 4.9–5.11: a core, then a CPU, then a thread of the target's core.
    #[inline(never)]
    pub(super) fn scan_three_passes<P: Platform>(
        &mut self,
        p: &mut P,
        this: Cpu,
        task: TaskId,
        target: Cpu,
    ) -> Option<Cpu> {
        let affinity = self.tasks[task].affinity;
        let span = self.llc_span(target);
        let cpus = span.and(&affinity);
        if self.test_idle_cores(p, target) {
            if let Some(cpu) = self.scan_cores(p, &cpus, target.index()) {
                return Some(cpu);
            }
            self.look(p, cpus.len() as u32);
            self.clear_idle_cores(p, target);
        }
        let found = self.scan_with_average(p, this, (task, target), &span, &cpus);
        if found.is_some() || !self.domains.smt_active {
            return found;
        }
        self.idle_smt(p, &cpus, target)
    }

    /// The middle pass: bounded by what the CPU can afford of its average idle time.
    fn scan_with_average<P: Platform>(
        &mut self,
        p: &mut P,
        this: Cpu,
        (task, target): (TaskId, Cpu),
        span: &CpuSet,
        cpus: &CpuSet,
    ) -> Option<Cpu> {
        let rules = &self.rules.placement;
        let counts_forbidden = rules.scan_counts_forbidden;
        let by_feature = self.rules.features.sis_avg_cpu;
        // A waker on an isolated CPU searches nowhere.
        let llc = self.domains.cpus[this].llc?;
        if rules.scan_needs_idle_time || by_feature {
            let cost_ns = self.domains.domain(llc).avg_scan_cost_ns + u64::from(by_feature);
            if self.rqs[this].avg_idle / 512 < cost_ns {
                reached(Mark::ScanNoIdleTime);
                return None;
            }
        }
        let prop = self.rules.features.sis_prop;
        let limit = match prop {
            true => Some(self.sis_prop_limit(p, this, target)?),
            false => None,
        };
        let limit = self.own_scan_limit(task, target, limit);
        let counted = if counts_forbidden { span } else { cpus };
        let started_ns = p.now(self.here);
        let scan = self.scan_cpus(p, cpus, counted, target.index(), limit);
        if !matches!(scan, Scan::GaveUp(_)) {
            self.note_scan_cost(p.now(self.here) - started_ns, this);
        }
        match scan {
            Scan::Found(cpu) => Some(cpu),
            Scan::Exhausted => None,
            Scan::GaveUp(resort) => resort,
        }
    }

    /// Up to 4.8: a group all of whose CPUs are idle and which does not contain the target, in the
    /// LLC's domain first, then in those below.
    #[inline(never)]
    pub(super) fn scan_idle_groups<P: Platform>(
        &mut self,
        p: &mut P,
        task: TaskId,
        target: Cpu,
    ) -> Option<Cpu> {
        let affinity = self.tasks[task].affinity;
        let mut level = self.domains.cpus[target].llc;
        while let Some(row) = level {
            for n in 0..self.domains.domain(row).nr_groups {
                let group = self.domains.group_row(row, n) as usize;
                let span = self.domains.groups[group].span;
                let Some(cpu) = span.and(&affinity).lowest() else {
                    continue;
                };
                self.look(p, span.len() as u32);
                let span = &self.domains.groups[group].span;
                if !span.contains(target) && span.is_subset(&self.domains.idle) {
                    self.because::<P>(Mark::IdleGroup);
                    return Some(cpu);
                }
            }
            level = self.domains.domain(row).child;
        }
        None
    }

    /// The limit of a scan, unless a rule of one's own has another.
    fn own_scan_limit(&self, task: TaskId, target: Cpu, limit: Option<usize>) -> Option<usize> {
        let asked = || Scanning {
            task,
            target,
            limit: limit.map(|limit| limit as u32),
        };
        let own = self.rules.own.scan_limit(self, asked);
        own.map(|limit| limit as usize).or(limit)
    }

    /// An idle thread of a core (`select_idle_smt`).
    fn idle_smt<P: Platform>(&mut self, p: &mut P, cpus: &CpuSet, core_of: Cpu) -> Option<Cpu> {
        let threads = self.domains.cpus[core_of].smt.and(cpus);
        self.look(p, threads.len() as u32);
        let found = threads.iter().find(|&cpu| self.is_idle_for_scan(cpu));
        let found = found.or_else(|| threads.iter().find(|&cpu| self.is_resort_for_scan(cpu)));
        if found.is_some() {
            self.because::<P>(Mark::IdleThreadOfCore);
        }
        found
    }

    fn llc_span(&self, cpu: Cpu) -> CpuSet {
        match self.domains.cpus[cpu].llc {
            Some(row) => self.domains.domain(row).span,
            None => CpuSet::of(cpu),
        }
    }

    /// The cluster of a CPU, where clusters are scheduled (6.8).
    fn cluster_of(&self, cpu: Cpu) -> Option<CpuSet> {
        if !self.rules.placement.cluster_scan || !self.domains.cluster_active {
            return None;
        }
        let row = self.domains.cpus[cpu].llc?;
        let local = &self.domains.groups[self.domains.group_row(row, 0) as usize];
        local.flags.cluster.then_some(local.span)
    }

    /// SIS_PROP: looks the CPU can afford. Idle time is a 512th of `avg_idle` up to 5.13; later it
    /// ages while the CPU is busy. `None` on a CPU without a domain.
    fn sis_prop_limit<P: Platform>(&mut self, p: &P, this: Cpu, target: Cpu) -> Option<usize> {
        let llc = self.domains.cpus[this].llc?;
        let idle_ns = if self.rules.placement.sis_prop_ages {
            self.age_wake_avg_idle(p, this)
        } else {
            self.rqs[this].avg_idle / 512
        };
        reached(Mark::SisPropLimit);
        let cost_ns = self.domains.domain(llc).avg_scan_cost_ns + 1;
        let span = u64::from(self.domains.cpus[target].llc_size);
        Some(sis_prop_looks(idle_ns, cost_ns, span) as usize)
    }

    /// Halves the idle average once per jiffy without wakeup.
    fn age_wake_avg_idle<P: Platform>(&mut self, p: &P, cpu: Cpu) -> Ns {
        let jiffy = self.jiffies(p.now(self.here));
        let rq = &mut self.rqs[cpu];
        while rq.wake_stamp_jiffy < jiffy && rq.wake_avg_idle > 0 {
            rq.wake_stamp_jiffy += 1;
            rq.wake_avg_idle >>= 1;
        }
        rq.wake_avg_idle
    }

    /// Scans cost idle time, and their average cost follows by an eighth.
    fn note_scan_cost(&mut self, cost_ns: Ns, this: Cpu) {
        if self.rules.placement.sis_prop_ages {
            let rq = &mut self.rqs[this];
            rq.wake_avg_idle = rq.wake_avg_idle.saturating_sub(cost_ns);
        }
        if let Some(row) = self.domains.cpus[this].llc {
            let average = &mut self.domains.domain_mut(row).avg_scan_cost_ns;
            crate::core::wakeup::update_avg(average, cost_ns);
        }
    }
}

/// CPUs a scan may look at with SIS_PROP. The kernel counts down before each look, so it looks at
/// one fewer than the proportion of idle time to cost; at least 3.
pub(crate) const fn sis_prop_looks(idle_ns: Ns, cost_ns: Ns, llc_size: u64) -> u64 {
    let span = llc_size * idle_ns;
    let nr = if span > 4 * cost_ns {
        span / cost_ns
    } else {
        4
    };
    nr - 1
}
