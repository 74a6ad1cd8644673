//! The CPU that a woken task costs least energy on (`find_energy_efficient_cpu`).
//!
//! In each performance domain two CPUs are candidates: the previous one, and the other one with the
//! most capacity to spare. A candidate's price is the energy of its domain with the task less that
//! without it.
//!
//! Worked example (6.12): an idle machine, CPUs 0–3 of capacity 446 that draw 50 mW at 500 MHz and
//! 200 at 1000, CPUs 4–7 of 1024 that draw 400 mW at 1000 MHz and 2000 at 2000. A task with a
//! utilisation of 200 ran on CPU 4. With the margin it asks for 250: little CPUs have to run at
//! 1000 MHz, big ones need not run faster. It costs 200 · 10 · 200,000 / 446 = 896,800 on CPU 0
//! and 200 · 10 · 400,000 / 512 = 1,562,400 on CPU 4: it goes to CPU 0. With a utilisation of 357
//! it would not fit there, and no other big CPU has more to spare: it stays.

use crate::core::irqtime::scale_irq_capacity;
use crate::cpufreq::schedutil::Wanted;
use crate::explain::EnergyOf;
use crate::ids::{Cpu, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::Platform;
use crate::uclamp::{self, Clamps, Fit};

/// A CPU that the task may go to.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    cpu: Cpu,
    fit: Fit,
    /// Capacity that is left with the task.
    spare: u64,
}

/// The best that was found so far, or the previous CPU, with its price.
#[derive(Clone, Copy, Debug)]
struct Priced {
    cpu: Cpu,
    fit: Fit,
    energy: u64,
    /// Capacity of the CPU.
    capacity: u64,
}

impl Kernel {
    /// The CPU for a woken task by energy, `None` where the usual search decides.
    pub(super) fn find_energy_efficient_cpu<P: Platform>(
        &mut self,
        p: &mut P,
        waker_cpu: Cpu,
        prev: Cpu,
        task: TaskId,
    ) -> Option<Cpu> {
        // The lowest domain that has all capacities and both CPUs.
        let lowest = self.domains.cpus[waker_cpu].asym?;
        let above = self.domains.rows(waker_cpu).filter(|&row| row >= lowest);
        let spans_prev = |row: &u32| self.domains.domain(*row).span.contains(prev);
        let row = above.into_iter().find(spans_prev)?;
        self.sync_entity_load_avg(self.tasks[task].se);
        let clamps = match self.clamps_used {
            true => self.clamps_of(task),
            false => uclamp::NONE.map(u64::from),
        };
        if self.util_needed(task) == 0 && clamps.min == 0 {
            self.because::<P>(Mark::EnergyNoUtil);
            return Some(prev);
        }
        let cpu = match self.rules.energy.margin {
            true => self.saves_a_sixteenth(p, row, prev, task),
            false => self.cheapest(p, row, prev, task, clamps),
        };
        self.because::<P>(match cpu == prev {
            true => Mark::EnergyPrev,
            false => Mark::EnergyLess,
        });
        Some(cpu)
    }

    /// From 6.0 on: the cheapest candidate among those that fit best.
    fn cheapest<P: Platform>(
        &mut self,
        p: &mut P,
        row: u32,
        prev: Cpu,
        task: TaskId,
        clamps: Clamps<u64>,
    ) -> Cpu {
        let (mut of_prev, mut best): (Option<Priced>, Option<Priced>) = (None, None);
        let mut least = u64::MAX;
        for domain in (0..self.energy.domains.len()).rev() {
            let (prev_found, other) = self.candidates(p, row, domain, prev, task, clamps);
            if prev_found.is_none() && other.is_none() {
                continue;
            }
            let (base, capacity) = (
                self.compute_energy(domain, task, prev, None),
                self.energy.domains[domain].capacity,
            );
            let priced = |candidate: Candidate, energy: u64| Priced {
                cpu: candidate.cpu,
                fit: candidate.fit,
                energy,
                capacity,
            };
            if let Some(candidate) = prev_found {
                let Some(energy) = self.price::<P>(domain, task, prev, prev, base) else {
                    return prev;
                };
                of_prev = Some(priced(candidate, energy));
                least = least.min(energy);
            }
            let spare_of_prev = prev_found.map(|candidate| candidate.spare);
            let Some(candidate) = other.filter(|other| Some(other.spare) > spare_of_prev) else {
                continue;
            };
            let best_fit = best.map_or(Fit::AllButMin, |best| best.fit);
            if best.is_some() && candidate.fit < best_fit {
                continue;
            }
            let best_capacity = best.map_or(0, |best| best.capacity);
            if candidate.fit == Fit::AllButMin && capacity <= best_capacity {
                continue;
            }
            let Some(energy) = self.price::<P>(domain, task, prev, candidate.cpu, base) else {
                return prev;
            };
            let both_fit = candidate.fit == Fit::Yes && best_fit == Fit::Yes;
            if both_fit && energy >= least {
                continue;
            }
            least = energy;
            best = Some(priced(candidate, energy));
        }
        let Some(best) = best else { return prev };
        let (prev_fit, prev_energy, prev_capacity) = of_prev
            .map_or((Fit::AllButMin, u64::MAX, 0), |of_prev| {
                (of_prev.fit, of_prev.energy, of_prev.capacity)
            });
        let better = match best.fit {
            Fit::Yes => prev_fit < Fit::Yes || least < prev_energy,
            _ => best.fit > prev_fit || best.capacity > prev_capacity,
        };
        if better { best.cpu } else { prev }
    }

    /// Up to 5.19: the cheapest candidate if it saves 6 % of all energy over the previous CPU.
    fn saves_a_sixteenth<P: Platform>(
        &mut self,
        p: &mut P,
        row: u32,
        prev: Cpu,
        task: TaskId,
    ) -> Cpu {
        let apart = self.rules.energy.base_of_candidates;
        let (mut of_prev, mut least, mut best, mut all) = (None, u64::MAX, prev, 0);
        let clamps = uclamp::NONE.map(u64::from);
        for domain in (0..self.energy.domains.len()).rev() {
            let (prev_found, other) = self.candidates(p, row, domain, prev, task, clamps);
            let has_candidate = prev_found.is_some() || other.is_some();
            if !self.energy.domains[domain].is_balanced || (apart && !has_candidate) {
                continue;
            }
            let base = self.compute_energy(domain, task, prev, None);
            all += base;
            if prev_found.is_some() {
                let Some(energy) = self.price::<P>(domain, task, prev, prev, base) else {
                    return prev;
                };
                of_prev = Some(energy);
                least = least.min(energy);
            }
            // Before 5.14 the previous CPU was the only candidate of its domain if it had the most
            // to spare; of equal ones the first was taken.
            let beaten = |other: &Candidate| {
                let more = |of_prev: Candidate| {
                    of_prev.spare > other.spare
                        || (of_prev.spare == other.spare && of_prev.cpu.0 < other.cpu.0)
                };
                !apart && prev_found.is_some_and(more)
            };
            let Some(other) = other.filter(|other| !beaten(other)) else {
                continue;
            };
            let Some(energy) = self.price::<P>(domain, task, prev, other.cpu, base) else {
                return prev;
            };
            if energy < least {
                (least, best) = (energy, other.cpu);
            }
        }
        let saves = |of_prev: u64| of_prev.wrapping_sub(least) > of_prev.wrapping_add(all) >> 4;
        if of_prev.is_none_or(saves) {
            best
        } else {
            prev
        }
    }

    /// The candidates of a domain: the previous CPU and the one of the others that fits best, with
    /// the most to spare.
    fn candidates<P: Platform>(
        &mut self,
        p: &mut P,
        row: u32,
        domain: usize,
        prev: Cpu,
        task: TaskId,
        asked: Clamps<u64>,
    ) -> (Option<Candidate>, Option<Candidate>) {
        let allowed = self.tasks[task].affinity;
        let span = self.domains.domain(row).span.and(&allowed);
        let cpus = self.energy.domains[domain].cpus.and(&span);
        self.look(p, cpus.len() as u32);
        let (mut of_prev, mut best): (Option<Candidate>, Option<Candidate>) = (None, None);
        // Clamps of a CPU with tasks stay in force for the idle ones behind it.
        let mut clamps = asked;
        for cpu in cpus.iter() {
            let util = self.util_if(cpu, task, prev, Some(cpu), false);
            if self.clamps_used && !self.rqs[cpu].clamps.idle {
                let of_cpu = self.rqs[cpu].clamps.of.map(|clamp| u64::from(clamp.value));
                clamps = Clamps::new(of_cpu.min.max(asked.min), of_cpu.max.max(asked.max));
            }
            let fit = self.util_fits_cpu(util, clamps, cpu);
            if fit == Fit::No {
                continue;
            }
            let spare = self.capacity_of(cpu).saturating_sub(util);
            let found = Candidate { cpu, fit, spare };
            let beats = |best: Candidate| (fit, spare) > (best.fit, best.spare);
            if cpu == prev {
                of_prev = Some(found);
            } else if best.is_none_or(beats) {
                best = Some(found);
            }
        }
        (of_prev, best)
    }

    /// Price of a candidate whose domain costs `base` without the task; `None` if it costs less
    /// with it, as averages changed meanwhile. Before 5.14 that wrapped around.
    fn price<P: Platform>(
        &mut self,
        domain: usize,
        task: TaskId,
        prev: Cpu,
        cpu: Cpu,
        base: u64,
    ) -> Option<u64> {
        reached(Mark::EnergyCompared);
        let energy = self.compute_energy(domain, task, prev, Some(cpu));
        if energy < base && self.rules.energy.base_of_candidates {
            return None;
        }
        let energy = energy.wrapping_sub(base);
        if P::EXPLAIN {
            self.domains.why.energies.push(EnergyOf { cpu, energy });
        }
        Some(energy)
    }

    /// Cost of a domain with the task on a CPU of it, or without it (`compute_energy`).
    pub(crate) fn compute_energy(
        &self,
        domain: usize,
        task: TaskId,
        prev: Cpu,
        on: Option<Cpu>,
    ) -> u64 {
        let rules = &self.rules.energy;
        let domain = &self.energy.domains[domain];
        let whole = domain.capacity * domain.cpus.len() as u64;
        let (mut most, mut busy) = (Wanted::default(), 0);
        for cpu in domain.cpus.iter() {
            let counted_on = on.filter(|_| !rules.one_task_time);
            let mut used = self.utilisation(cpu);
            busy += match counted_on == Some(cpu) && rules.task_time_apart {
                true => {
                    used.busy(self.util_if(cpu, task, prev, None, false) + self.util_needed(task))
                }
                false => used.busy(self.util_if(cpu, task, prev, counted_on, false)),
            };
            if on == Some(cpu) && self.clamps_used {
                used.clamps = Some(self.clamps_with(cpu, task));
            }
            let boost = self.rules.frequency.runnable_boost;
            let fair = self.util_if(cpu, task, prev, on, boost);
            let wanted = used.wanted_for(fair, 0, &self.rules.frequency);
            if wanted.utilisation >= most.utilisation {
                most = wanted;
            }
        }
        if rules.one_task_time {
            let of_task = on.map_or(0, |_| self.task_busy_time(task, prev));
            busy = (busy.min(whole) + of_task).min(whole);
        }
        domain.energy(most, busy, &self.rules)
    }

    /// How much of a CPU the task uses, by what interrupts took on its last one
    /// (`eenv_task_busy_time`).
    fn task_busy_time(&self, task: TaskId, prev: Cpu) -> u64 {
        let (irq, capacity) = (self.rqs[prev].avg_irq.util_avg, self.capacity_orig_of(prev));
        match irq >= capacity {
            true => capacity,
            false => scale_irq_capacity(self.util_needed(task), irq, capacity),
        }
    }

    /// Clamps of a CPU with the task on it; that of its last task ends with it.
    fn clamps_with(&self, cpu: Cpu, task: TaskId) -> Clamps<u64> {
        let (asked, clamps) = (self.clamps_of(task), &self.rqs[cpu].clamps);
        let of_cpu = clamps.of.map(|clamp| u64::from(clamp.value));
        match clamps.idle {
            true => asked,
            false => Clamps::new(of_cpu.min.max(asked.min), of_cpu.max.max(asked.max)),
        }
    }

    /// Utilisation of a CPU if the task, which ran on `prev`, were on the CPU `on` or nowhere;
    /// with what waits if `boost` (`cpu_util`).
    fn util_if(&self, cpu: Cpu, task: TaskId, prev: Cpu, on: Option<Cpu>, boost: bool) -> u64 {
        let cfs_rq = &self.cfs_rqs[cpu];
        let of_task = &self.entities[self.tasks[task].se].avg;
        let there = on == Some(cpu);
        let with = |sum: u64, own: u64| match (cpu == prev, there) {
            (true, false) => sum.saturating_sub(own),
            (false, true) => sum + own,
            _ => sum,
        };
        let mut util = cfs_rq.avg.util_avg;
        if boost && !self.rules.energy.task_runnable_moves {
            util = util.max(cfs_rq.avg.runnable_avg);
        }
        util = with(util, of_task.util_avg);
        if boost && self.rules.energy.task_runnable_moves {
            util = util.max(with(cfs_rq.avg.runnable_avg, of_task.runnable_avg));
        }
        if self.rules.features.util_est {
            let own = if there { self.task_util_est(task) } else { 0 };
            util = util.max(cfs_rq.util_est_enqueued + own);
        }
        util.min(self.capacity_orig_of(cpu))
    }
}
