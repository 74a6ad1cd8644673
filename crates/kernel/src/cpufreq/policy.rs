//! The frequency state of all CPUs, and the calls that may change it.
//!
//! Worked example (4.5, HZ=250): the deferrable sampling timer of a CPU is due at jiffy 3, but the
//! CPU sleeps without a tick from jiffy 2 to 33.2. Its first tick comes at jiffy 34; the timer
//! runs, and the sample spans 33 jiffies, 132 ms.

use super::hwp::HwpCpu;
use super::load::IowaitLoad;
use super::ondemand::{self, OndemandCpu};
use super::pid::{self, PidRules, Sample};
use super::schedutil::{self, SugovCpu, SugovPolicy, Utilisation, Wanted};
use super::{Counters, FrequencyDriver, FrequencyGovernor, HwpRequest};
use crate::cpuset::CpuSet;
use crate::ids::{Cpu, Ns};
use crate::kernel::Kernel;
use crate::platform::Platform;

/// Which code decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Kind {
    #[default]
    Off,
    Pid,
    Load,
    Hwp,
    Schedutil,
    Ondemand,
    Fixed,
}

/// State of one CPU in cpufreq.
#[derive(Clone, Debug)]
struct FrequencyCpu {
    policy: usize,
    /// P-state asked for last.
    current: u32,
    /// Counters and time of the last sample.
    counted: Counters,
    sampled_ns: Ns,
    /// Jiffy at which the deferrable timer is due.
    timer_jiffy: u64,
    iowait: IowaitLoad,
    hwp: HwpCpu,
    sugov: SugovCpu,
    ondemand: OndemandCpu,
    /// Counters at the last tick, for frequency invariance.
    ticked: Counters,
}

/// State of the CPUs of one policy, whose frequency is decided together.
#[derive(Clone, Debug)]
struct Policy {
    cpus: CpuSet,
    sugov: SugovPolicy,
    sampled_ns: Ns,
}

/// The frequency driver of a machine and what it remembers; nothing when there is none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cpufreq {
    kind: Kind,
    driver: Option<FrequencyDriver>,
    cpus: Vec<FrequencyCpu>,
    policies: Vec<Policy>,
}

impl Cpufreq {
    /// The driver, if there is one.
    pub(crate) fn driver(&self) -> Option<&FrequencyDriver> {
        self.driver.as_ref()
    }

    fn new(driver: FrequencyDriver, pid: bool) -> Self {
        let pstates = driver.pstates;
        let (kind, first) = match driver.governor {
            FrequencyGovernor::IntelPstate if pid => (Kind::Pid, pstates.min),
            FrequencyGovernor::IntelPstate => (Kind::Load, pstates.min),
            FrequencyGovernor::Hwp { .. } => (Kind::Hwp, pstates.turbo),
            FrequencyGovernor::Schedutil => (Kind::Schedutil, pstates.min),
            FrequencyGovernor::Ondemand => (Kind::Ondemand, pstates.min),
            FrequencyGovernor::Performance => (Kind::Fixed, pstates.turbo),
            FrequencyGovernor::Powersave => (Kind::Fixed, pstates.min),
            FrequencyGovernor::Userspace(khz) => (Kind::Fixed, pstates.closest_khz(khz.into())),
        };
        let (preference, performance) = match driver.governor {
            FrequencyGovernor::Hwp {
                preference,
                performance,
                ..
            } => (preference, performance),
            _ => (0, false),
        };
        let mut numbers: Vec<u32> = driver.policy_of.clone();
        numbers.sort_unstable();
        numbers.dedup();
        let policies = numbers.iter().map(|number| Policy {
            cpus: (0..driver.policy_of.len())
                .filter(|&row| driver.policy_of[row] == *number)
                .map(Cpu::from)
                .collect(),
            sugov: SugovPolicy::default(),
            sampled_ns: 0,
        });
        let cpus = driver.policy_of.iter().map(|number| FrequencyCpu {
            policy: numbers.binary_search(number).unwrap_or(0),
            current: match driver.tables.get(*number as usize) {
                Some(table) if driver.governor == FrequencyGovernor::Performance => {
                    table.len().saturating_sub(1) as u32
                }
                Some(_) => 0,
                None => first,
            },
            counted: Counters::default(),
            sampled_ns: 0,
            timer_jiffy: 0,
            iowait: IowaitLoad::default(),
            hwp: HwpCpu::new(HwpRequest {
                min: if performance {
                    pstates.turbo
                } else {
                    pstates.min
                },
                max: pstates.turbo,
                preference,
            }),
            sugov: SugovCpu::default(),
            ondemand: OndemandCpu::default(),
            ticked: Counters::default(),
        });
        Self {
            kind,
            cpus: cpus.collect(),
            policies: policies.collect(),
            driver: Some(driver),
        }
    }
}

impl Kernel {
    /// Registers the frequency driver and makes its first requests. Call it before anything runs.
    pub fn register_frequency_driver<P: Platform>(&mut self, p: &mut P, driver: FrequencyDriver) {
        self.cpufreq = Cpufreq::new(driver, self.rules.frequency.pid);
        self.build_perf_domains();
        for cpu in (0..self.topology.cpus()).map(Cpu::from) {
            let state = &self.cpufreq.cpus[cpu.index()];
            if self.cpufreq.kind == Kind::Hwp {
                p.request_performance(cpu, state.hwp.limits);
            } else {
                let first = state.current;
                self.arch_set_freq_scale(cpu, first);
                p.request_pstate(cpu, first);
            }
        }
    }

    /// Gives the machine the energy model of a driver, with all CPUs at their highest frequency.
    pub fn hold_frequency(&mut self, driver: FrequencyDriver) {
        self.cpufreq = Cpufreq {
            kind: Kind::Off,
            ..Cpufreq::new(driver, false)
        };
        self.build_perf_domains();
    }

    /// P-state a CPU asked for last; `None` without a driver or when the hardware decides.
    pub fn requested_pstate(&self, cpu: Cpu) -> Option<u32> {
        let decides = !matches!(self.cpufreq.kind, Kind::Off | Kind::Hwp);
        decides.then(|| self.cpufreq.cpus[cpu.index()].current)
    }

    /// The utilisation of a CPU changed, or a task wakes on it from I/O (`cpufreq_update_util`).
    #[inline(always)]
    pub(crate) fn cpufreq_update_util<P: Platform>(&mut self, p: &mut P, cpu: Cpu, iowait: bool) {
        if matches!(self.cpufreq.kind, Kind::Off | Kind::Fixed) {
            return;
        }
        if self.rules.frequency.scheduler_hooks {
            self.cpufreq_hook(p, cpu, iowait);
        }
    }

    #[inline(never)]
    fn cpufreq_hook<P: Platform>(&mut self, p: &mut P, cpu: Cpu, iowait: bool) {
        let local = cpu == self.here;
        match self.cpufreq.kind {
            Kind::Pid if local => self.pstate_sample(p, cpu),
            Kind::Load if local => {
                let (now, tick_ns) = (self.rqs[cpu].clock, self.rules.tick_ns);
                let state = &mut self.cpufreq.cpus[cpu.index()];
                state.iowait.update(now, iowait, tick_ns);
                self.pstate_sample(p, cpu);
            }
            Kind::Hwp if local => self.hwp_update(p, cpu, iowait),
            Kind::Hwp if iowait => self.cpufreq.cpus[cpu.index()].hwp.note_io(),
            Kind::Schedutil => self.sugov_update(p, cpu, iowait),
            Kind::Ondemand => self.ondemand_update(p, cpu),
            _ => {}
        }
    }

    /// The frequency scale of load tracking, at the beginning of a tick (`arch_scale_freq_tick`).
    #[inline(always)]
    pub(crate) fn arch_scale_freq_tick<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        if self.cpufreq.kind != Kind::Off {
            self.frequency_scale_tick(p, cpu);
        }
    }

    /// Work of a tick for cpufreq: deferrable timers (up to 4.5).
    #[inline(always)]
    pub(crate) fn cpufreq_tick<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        if self.cpufreq.kind != Kind::Off && !self.rules.frequency.scheduler_hooks {
            self.deferrable_timer(p, cpu);
        }
    }

    fn frequency_scale_tick<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let Some(driver) = &self.cpufreq.driver else {
            return;
        };
        if !driver.aperf_mperf || !self.rules.frequency.x86_invariance {
            return;
        }
        let now = p.counters(cpu);
        let state = &mut self.cpufreq.cpus[cpu.index()];
        let counted = now.since(state.ticked);
        state.ticked = now;
        let pstates = driver.pstates;
        let most = u128::from(counted.mperf) * u128::from(pstates.turbo);
        if let Some(scale) =
            (u128::from(counted.aperf) * 1024 * u128::from(pstates.base)).checked_div(most)
        {
            self.rqs[cpu].freq_scale = scale.min(1024) as u64;
        }
    }

    /// A deferrable timer runs in the first tick after it is due, so never while the CPU is
    /// tickless.
    fn deferrable_timer<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let jiffies = self.jiffies(p.now(cpu));
        if jiffies < self.cpufreq.cpus[cpu.index()].timer_jiffy {
            return;
        }
        let delay_ns = match self.cpufreq.kind {
            Kind::Ondemand => self.ondemand_sampling_ns(),
            _ => pid::SAMPLE_NS,
        };
        let state = &mut self.cpufreq.cpus[cpu.index()];
        state.timer_jiffy = jiffies + delay_ns.div_ceil(self.rules.tick_ns);
        match self.cpufreq.kind {
            Kind::Pid => self.pstate_adjust(p, cpu),
            Kind::Ondemand => self.ondemand_decide(p, cpu),
            _ => {}
        }
    }

    /// `intel_pstate_update_util`: a sample, if the last one is old enough.
    fn pstate_sample<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let state = &self.cpufreq.cpus[cpu.index()];
        if p.now(cpu).saturating_sub(state.sampled_ns) >= pid::SAMPLE_NS {
            self.pstate_adjust(p, cpu);
        }
    }

    fn pstate_adjust<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let (now, counters) = (p.now(cpu), p.counters(cpu));
        let Some(driver) = &self.cpufreq.driver else {
            return;
        };
        let state = &mut self.cpufreq.cpus[cpu.index()];
        let counted = counters.since(state.counted);
        if counted.mperf == 0 || counted.tsc == 0 {
            return;
        }
        let first = state.sampled_ns == 0;
        let sample = Sample {
            counted,
            duration_ns: now - state.sampled_ns,
        };
        state.counted = counters;
        state.sampled_ns = now;
        if first {
            return;
        }
        let next = if self.cpufreq.kind == Kind::Pid {
            let rules = PidRules {
                holdoff_samples: self.rules.pstate_holdoff_samples,
                idle_below_1_percent: self.rules.frequency.pid_idle_below_1_percent,
            };
            pid::next_pstate(&driver.pstates, state.current, &sample, rules)
        } else {
            super::load::next_pstate(&driver.pstates, &sample, &state.iowait)
        };
        if next != state.current {
            state.current = next;
            p.request_pstate(cpu, next);
        }
    }

    fn hwp_update<P: Platform>(&mut self, p: &mut P, cpu: Cpu, iowait: bool) {
        let Some(driver) = &self.cpufreq.driver else {
            return;
        };
        let boost = matches!(
            driver.governor,
            FrequencyGovernor::Hwp {
                dynamic_boost: true,
                ..
            }
        );
        if !boost {
            return;
        }
        let (now, tick_ns) = (self.rqs[cpu].clock, self.rules.tick_ns);
        let hwp = &mut self.cpufreq.cpus[cpu.index()].hwp;
        if let Some(request) = hwp.update(&driver.pstates, now, iowait, tick_ns) {
            p.request_performance(cpu, request);
        }
    }

    fn sugov_update<P: Platform>(&mut self, p: &mut P, cpu: Cpu, iowait: bool) {
        let (now, tick_ns) = (self.rqs[cpu].clock, self.rules.tick_ns);
        let state = &mut self.cpufreq.cpus[cpu.index()];
        state
            .sugov
            .note(now, iowait, &self.rules.frequency, tick_ns);
        let policy = state.policy;
        let Some(driver) = &self.cpufreq.driver else {
            return;
        };
        let frequency = &self.rules.frequency;
        let members = self.cpufreq.policies[policy].cpus;
        let sugov = &self.cpufreq.policies[policy].sugov;
        if !members.contains(self.here) || !sugov.may_update(now, driver, frequency) {
            return;
        }
        let pstates = driver.pstates;
        let has_table = !driver.tables.is_empty();
        let invariant = has_table || (driver.aperf_mperf && frequency.x86_invariance);
        let mut most = (Wanted::default(), 1024);
        for member in members.iter() {
            let utilisation = self.utilisation(member);
            let capacity = utilisation.capacity;
            let state = &mut self.cpufreq.cpus[member.index()].sugov;
            let wanted = state.wanted(now, &utilisation, &self.rules.frequency, tick_ns);
            if wanted.utilisation * most.1 > capacity * most.0.utilisation {
                most = (wanted, capacity);
            }
        }
        let current = self.cpufreq.cpus[cpu.index()].current;
        let wanted = match self
            .cpufreq
            .driver
            .as_ref()
            .and_then(|driver| driver.tables.get(policy))
        {
            Some(table) => self.energy.wanted_state(policy, table, most, &self.rules),
            None => {
                schedutil::wanted_pstate(&pstates, current, most, invariant, &self.rules.frequency)
            }
        };
        let hold = members.len() == 1
            && self.rules.frequency.hold_while_busy
            && !self.uclamp_rq_is_capped(cpu)
            && self.cpufreq.cpus[cpu.index()]
                .sugov
                .is_busy(self.rqs[cpu].idle_calls);
        let decided = self.cpufreq.policies[policy]
            .sugov
            .decide(now, wanted, hold);
        if let Some(next) = decided {
            self.request_for(p, members, next);
        }
    }

    /// Utilisation of a CPU by all classes.
    pub(crate) fn utilisation(&self, cpu: Cpu) -> Utilisation {
        let rq = &self.rqs[cpu];
        let fair = &self.cfs_rqs[cpu];
        Utilisation {
            fair: fair.avg.util_avg,
            fair_runnable: fair.avg.runnable_avg,
            estimate: if self.rules.features.util_est {
                fair.util_est_enqueued
            } else {
                0
            },
            rt: rq.rt.avg.util_avg,
            irq: rq.avg_irq.util_avg,
            deadline: self.dl.rqs[cpu.index()].avg.util_avg,
            deadline_bandwidth: self.dl.rqs[cpu.index()].running_bw >> 10,
            rt_runnable: rq.rt.nr_running > 0,
            clamps: self.clamps_of_cpu(cpu),
            capacity: rq.cpu_capacity_orig,
        }
    }

    fn request_for<P: Platform>(&mut self, p: &mut P, members: CpuSet, pstate: u32) {
        for member in members.iter() {
            self.cpufreq.cpus[member.index()].current = pstate;
            self.arch_set_freq_scale(member, pstate);
            p.request_pstate(member, pstate);
        }
    }

    /// The frequency scale of load tracking follows requests where clocks have tables.
    fn arch_set_freq_scale(&mut self, cpu: Cpu, state: u32) {
        let policy = self.cpufreq.cpus[cpu.index()].policy;
        let table = self
            .cpufreq
            .driver()
            .and_then(|driver| driver.tables.get(policy));
        let points = table.and_then(|table| Some((table.get(state as usize)?, table.last()?)));
        if let Some((point, fastest)) = points {
            let scale = crate::energy::frequency_scale(point.khz, fastest.khz);
            self.rqs[cpu].freq_scale = scale;
        }
    }

    fn ondemand_sampling_ns(&self) -> Ns {
        let delay_ns = self.cpufreq.driver.as_ref().map_or(0, |driver| {
            let limit = self.rules.frequency.rate_limit;
            driver
                .transition_delay_ns
                .unwrap_or_else(|| limit.delay_ns(driver.transition_latency_ns))
        });
        ondemand::sampling_ns(self.rules.tick_ns, delay_ns)
    }

    fn ondemand_update<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let now = self.rqs[cpu].clock;
        let policy = &self.cpufreq.policies[self.cpufreq.cpus[cpu.index()].policy];
        let old_enough = now.saturating_sub(policy.sampled_ns) >= self.ondemand_sampling_ns();
        if old_enough && policy.cpus.contains(self.here) {
            self.ondemand_decide(p, cpu);
        }
    }

    fn ondemand_decide<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let now = p.now(cpu);
        let sampling_ns = self.ondemand_sampling_ns();
        let policy = self.cpufreq.cpus[cpu.index()].policy;
        self.cpufreq.policies[policy].sampled_ns = now;
        let members = self.cpufreq.policies[policy].cpus;
        let mut most = 0;
        for member in members.iter() {
            let idle_ns = self.cpu_idle_time(member, now);
            let state = &mut self.cpufreq.cpus[member.index()].ondemand;
            most = most.max(state.load(now, idle_ns, sampling_ns));
        }
        let Some(driver) = &self.cpufreq.driver else {
            return;
        };
        let next = ondemand::wanted_pstate(&driver.pstates, most);
        if next != self.cpufreq.cpus[cpu.index()].current {
            self.request_for(p, members, next);
        }
    }

    /// Idle time of a CPU so far, waiting for I/O not counted (`get_cpu_idle_time`, `io_is_busy`).
    pub(crate) fn cpu_idle_time(&self, cpu: Cpu, now: Ns) -> Ns {
        let rq = &self.rqs[cpu];
        let asleep = rq.idle_entry_ns.filter(|_| rq.nr_iowait == 0);
        rq.idle_time_ns + asleep.map_or(0, |entry_ns| now.saturating_sub(entry_ns))
    }

    /// The idle loop stops sleeping, before a handler wakes a task (`tick_nohz_stop_idle`).
    #[inline]
    pub(crate) fn count_idle_time(&mut self, cpu: Cpu, now: Ns) {
        let rq = &mut self.rqs[cpu];
        if let Some(entry_ns) = rq.idle_entry_ns.take()
            && rq.nr_iowait == 0
        {
            rq.idle_time_ns += now.saturating_sub(entry_ns);
        }
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
