//! Clocks: who shares one, what is asked of it, what it grants.
//!
//! Worked example: four cores on one clock, turbo limits 3700, 3600 MHz for one and more awake
//! cores. CPU 0 asks for 3700 and CPU 1 for 1600; CPU 1 sleeps and sleeping CPUs do not vote. The
//! clock goes to 3700 one transition time later. CPU 1 wakes: its vote is lower, but two cores are
//! awake now, so the clock falls to 3600 at once.

use super::Hardware;
use super::hwp::HwpDomain;
use crate::machine::parts::Frequency;
use schedcast_kernel::cpufreq::HwpRequest;
use schedcast_kernel::divide::Divisor;
use schedcast_kernel::table::Table;
use schedcast_kernel::{Cpu, Ns};

/// CPUs that share a clock.
#[derive(Clone, Debug)]
struct Domain {
    /// Frequency granted by the last transition, MHz.
    granted_mhz: u32,
    /// A transition under way: when it is over, and to what.
    pending: Option<(Ns, u32)>,
    /// The clock: what was granted, within the turbo limit.
    mhz: u32,
    /// Clock at which work is meant.
    nominal_mhz: Divisor,
    /// Its frequencies by P-state; empty = multiples of a step.
    table_mhz: Vec<u32>,
    hwp: Option<HwpDomain>,
}

/// All clocks of a machine.
#[derive(Clone, Debug)]
pub(super) struct Clocks {
    pub base_mhz: u32,
    step_mhz: u32,
    turbo_limits_mhz: Vec<u32>,
    transition_ns: Ns,
    sleeping_cpus_vote: bool,
    hwp_interval_ns: Ns,
    /// Clocks that hardware looks at again, and when, the earliest first.
    looks: Vec<(usize, Ns)>,
    domains: Table<Domain>,
    /// Last request of each CPU, MHz.
    requests_mhz: Vec<u32>,
    limits_mhz: Table<u32>,
}

/// An event of a clock that has to be armed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClockEvent {
    /// A transition is over.
    Transition(usize, Ns),
    /// Hardware that manages its P-states looks again, at every clock that is
    /// [due](Hardware::due_looks) by then.
    Look(Ns),
}

impl Clocks {
    pub(super) fn new(part: &Frequency, domains: &[Vec<usize>]) -> Self {
        let count = domains.len();
        let cpus = domains.iter().map(Vec::len).sum();
        let min_mhz = |domain: usize| match part.table.get(domain) {
            Some(table) => table.mhz[0],
            None => part.min_mhz,
        };
        let nominal_mhz = |domain: usize| match part.table.get(domain) {
            Some(table) => table.mhz[table.mhz.len() - 1],
            None => part.nominal_mhz,
        };
        let mut requests_mhz = vec![0; cpus];
        for (row, cpus) in domains.iter().enumerate() {
            for &cpu in cpus {
                requests_mhz[cpu] = min_mhz(row);
            }
        }
        let domains = domains.iter().enumerate().map(|(row, cpus)| Domain {
            granted_mhz: min_mhz(row),
            pending: None,
            mhz: min_mhz(row),
            nominal_mhz: Divisor::new(u64::from(nominal_mhz(row))),
            table_mhz: part
                .table
                .get(row)
                .map_or_else(Vec::new, |table| table.mhz.clone()),
            hwp: part
                .hwp
                .as_ref()
                .map(|hwp| HwpDomain::new(hwp, part, cpus.len())),
        });
        Self {
            base_mhz: part.base_mhz,
            step_mhz: part.step_mhz,
            turbo_limits_mhz: part.turbo_limits_mhz.clone(),
            transition_ns: part.transition_ns,
            sleeping_cpus_vote: part.sleeping_cpus_vote,
            hwp_interval_ns: part.hwp.as_ref().map_or(0, |hwp| hwp.interval_ns),
            looks: Vec::new(),
            domains: domains.collect(),
            requests_mhz,
            limits_mhz: vec![u32::MAX; count].into(),
        }
    }

    #[inline(always)]
    pub(super) fn mhz(&self, domain: usize) -> u32 {
        self.domains[domain].mhz
    }

    /// Clock at which work on the CPUs of a clock is meant.
    #[inline(always)]
    pub(super) fn nominal_mhz(&self, domain: usize) -> &Divisor {
        &self.domains[domain].nominal_mhz
    }

    /// Number of clocks.
    pub(super) fn count(&self) -> usize {
        self.domains.len()
    }
}

impl Hardware {
    /// Number of clocks.
    pub(crate) fn clock_count(&self) -> usize {
        self.clocks.as_ref().map_or(0, Clocks::count)
    }

    /// Software asks for a P-state of a CPU. Before anything runs, the clock is set at once.
    pub(crate) fn request_pstate(&mut self, cpu: Cpu, pstate: u32, now: Ns) -> Option<ClockEvent> {
        let row = cpu.index();
        let domain = self.threads[row].domain;
        let clocks = self.clocks.as_mut()?;
        let table = &clocks.domains[domain].table_mhz;
        clocks.requests_mhz[row] = match table.get(pstate as usize) {
            Some(&mhz) => mhz,
            None => pstate * clocks.step_mhz,
        };
        if now == 0 {
            let requests = &clocks.requests_mhz;
            let cpus = self.domain_cpus[domain].iter();
            let most = cpus.map(|&row| requests[row]).max()?;
            clocks.domains[domain].granted_mhz = most;
            self.apply_clock(domain, now);
            return None;
        }
        self.elect(domain, now)
    }

    /// Software sets the limits of hardware that manages its own P-states.
    pub(crate) fn request_performance(&mut self, cpu: Cpu, request: HwpRequest) {
        let row = cpu.index();
        let domain = self.threads[row].domain;
        let Some(clocks) = &mut self.clocks else {
            return;
        };
        let step = clocks.step_mhz;
        let state = &mut clocks.domains[domain];
        let cpus = &self.domain_cpus[domain];
        let place = cpus.iter().position(|&other| other == row);
        if let (Some(hwp), Some(place)) = (&mut state.hwp, place) {
            hwp.set_limits(place, request, step);
        }
    }

    /// The highest request wins; a change takes a transition.
    fn elect(&mut self, domain: usize, now: Ns) -> Option<ClockEvent> {
        let clocks = self.clocks.as_mut()?;
        let all = clocks.sleeping_cpus_vote;
        let state = &mut clocks.domains[domain];
        if state.hwp.is_some() {
            return None;
        }
        let voters = self.domain_cpus[domain]
            .iter()
            .filter(|&&row| all || self.threads[row].activity.is_awake());
        let wanted = voters.map(|&row| clocks.requests_mhz[row]).max()?;
        if let Some(pending) = &mut state.pending {
            // The transition under way goes to the new clock instead.
            pending.1 = wanted;
            return None;
        }
        if wanted == state.granted_mhz {
            return None;
        }
        let at = now + clocks.transition_ns;
        state.pending = Some((at, wanted));
        Some(ClockEvent::Transition(domain, at))
    }

    /// A transition is over.
    pub(crate) fn transition_ends(&mut self, domain: usize, now: Ns) {
        self.close_intervals(now);
        let Some(clocks) = &mut self.clocks else {
            return;
        };
        if let Some((_, mhz)) = clocks.domains[domain].pending.take() {
            clocks.domains[domain].granted_mhz = mhz;
            self.apply_clock(domain, now);
        }
    }

    /// A CPU of a domain woke or fell asleep. The votes of sleeping CPUs may not count, and
    /// hardware looks only at CPUs that are awake.
    #[inline(always)]
    pub(super) fn vote(&mut self, domain: usize, awake: bool, now: Ns) {
        let Some(clocks) = &self.clocks else { return };
        match &clocks.domains[domain].hwp {
            Some(hwp) => {
                if awake && !hwp.looking {
                    self.begin_to_look(domain, now);
                }
            }
            None => {
                if !clocks.sleeping_cpus_vote && self.domain_cpus[domain].len() > 1 {
                    self.vote_again(domain, now);
                }
            }
        }
    }

    #[inline(never)]
    fn vote_again(&mut self, domain: usize, now: Ns) {
        let event = self.elect(domain, now);
        self.clock_events.extend(event);
    }

    /// The number of awake cores of a package changed.
    #[inline(never)]
    pub(super) fn limit_turbo(&mut self, package: usize, now: Ns) {
        let awake = self.packages[package].awake_cores;
        let Some(clocks) = &self.clocks else { return };
        let limits = &clocks.turbo_limits_mhz;
        let Some(&limit) = limits.get(awake.saturating_sub(1)).or(limits.last()) else {
            return;
        };
        // Most limits hold for several numbers of cores.
        if self.packages[package].limit_mhz.replace(limit) == Some(limit) {
            return;
        }
        for place in 0..self.packages[package].domains.len() {
            let domain = self.packages[package].domains[place];
            let Some(clocks) = &mut self.clocks else {
                return;
            };
            if std::mem::replace(&mut clocks.limits_mhz[domain], limit) != limit {
                self.apply_clock(domain, now);
            }
        }
    }

    /// The clock of a domain is what was granted, within the limits.
    #[inline(always)]
    fn apply_clock(&mut self, domain: usize, now: Ns) {
        let Some(clocks) = &self.clocks else { return };
        let state = &clocks.domains[domain];
        let mhz = state.granted_mhz.min(clocks.limits_mhz[domain]);
        if mhz != state.mhz {
            self.change_clock(domain, mhz, now);
        }
    }

    #[inline(never)]
    fn change_clock(&mut self, domain: usize, mhz: u32, now: Ns) {
        for place in 0..self.domain_cpus[domain].len() {
            let row = self.domain_cpus[domain][place];
            self.account(row, now);
            self.changed.push(Cpu::from(row));
        }
        if let Some(clocks) = &mut self.clocks {
            clocks.domains[domain].mhz = mhz;
        }
        for place in 0..self.domain_cpus[domain].len() {
            self.note_clock(self.domain_cpus[domain][place]);
        }
        for place in 0..self.domain_cpus[domain].len() {
            let row = self.domain_cpus[domain][place];
            let core = self.threads[row].core;
            if self.cores[core].threads[0] == row {
                self.measure(core, now);
            }
        }
    }

    /// The first CPU of a domain wakes: hardware starts to look. All clocks are looked at at
    /// multiples of the interval, so one event does for all; they are looked at in the order in
    /// which they would have been armed.
    #[inline(never)]
    fn begin_to_look(&mut self, domain: usize, now: Ns) {
        self.look(domain, now);
        let Some(clocks) = &mut self.clocks else {
            return;
        };
        if let Some(hwp) = &mut clocks.domains[domain].hwp {
            hwp.looking = true;
        }
        let next = (now / clocks.hwp_interval_ns + 1) * clocks.hwp_interval_ns;
        if clocks.looks.is_empty() {
            self.clock_events.push(ClockEvent::Look(next));
        }
        clocks.looks.push((domain, next));
    }

    /// How many clocks, the first of those that are looked at, it is time to look at again.
    pub(crate) fn due_looks(&self, now: Ns) -> usize {
        let looks = self.clocks.iter().flat_map(|clocks| &clocks.looks);
        looks.take_while(|&&(_, at)| at <= now).count()
    }

    /// Looks at one that is due, by its place. Goes on while a CPU of the domain is awake.
    pub(crate) fn look_again(&mut self, place: usize, now: Ns) {
        self.close_intervals(now);
        let Some(clocks) = &self.clocks else { return };
        let (domain, _) = clocks.looks[place];
        self.look(domain, now);
        let Some(clocks) = &mut self.clocks else {
            return;
        };
        let threads = &self.threads;
        let cpus = &self.domain_cpus[domain];
        let awake = cpus.iter().any(|&row| threads[row].activity.is_awake());
        if let Some(hwp) = &mut clocks.domains[domain].hwp {
            hwp.looking = awake;
        }
        if awake {
            clocks.looks.push((domain, now + clocks.hwp_interval_ns));
        }
    }

    /// All that were due have been looked at.
    pub(crate) fn end_looks(&mut self, due: usize) {
        let Some(clocks) = &mut self.clocks else {
            return;
        };
        clocks.looks.drain(..due);
        if let Some(&(_, at)) = clocks.looks.first() {
            self.clock_events.push(ClockEvent::Look(at));
        }
    }

    #[inline(always)]
    fn look(&mut self, domain: usize, now: Ns) {
        let Some(clocks) = &mut self.clocks else {
            return;
        };
        let state = &mut clocks.domains[domain];
        let Some(hwp) = &mut state.hwp else { return };
        let (threads, cpus) = (&mut self.threads, &self.domain_cpus[domain]);
        let awake = cpus.iter().map(|&row| {
            threads[row].account(now);
            threads[row].awake_ns
        });
        let step = clocks.step_mhz;
        state.granted_mhz = hwp.look(awake, now) / step * step;
        self.apply_clock(domain, now);
    }
}
