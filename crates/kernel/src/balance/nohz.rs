//! Balancing for CPUs whose tick is stopped (`nohz_balancer_kick`, `nohz_idle_balance`).
//!
//! A tickless idle CPU neither balances nor decays its averages. A busy CPU that notices, at its
//! tick, that idle ones might help kicks the first of them, which then does both for all.
//!
//! Worked example: CPU 0 runs two tasks, CPUs 1–3 are tickless. At CPU 0's tick, if the current
//! jiffy has reached `nohz.next_balance`, CPU 1 gets a kick; it balances for 2, for 3, and last for
//! itself, and CPU 2 gets the task, because it came first.

use super::{CpuIdle, Domain, Env};
use crate::ids::Cpu;
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Access, Ipi, Line, Op, Platform};

/// Balance for all idle CPUs.
const BALANCE: u8 = 1;
/// Update their blocked load.
const STATS: u8 = 2;
/// A CPU about to go idle updates blocked load.
const NEWILB: u8 = 4;
/// Recompute `nohz.next_balance`.
const NEXT: u8 = 8;
/// Flags that a kick can ask for.
const KICK_MASK: u8 = BALANCE | STATS | NEXT;
/// LOAD_AVG_PERIOD, ms: time between two updates of blocked load.
const BLOCKED_PERIOD_MS: u64 = 32;

/// State of tickless CPUs and of the root domain, for comparisons.
#[derive(Clone, Copy, Debug)]
pub struct Tickless {
    /// Earliest balance for all of them, jiffies (`nohz.next_balance`).
    pub next_balance: u64,
    /// Next update of their blocked load, jiffies (`nohz.next_blocked`).
    pub next_blocked: u64,
    /// Some of them has blocked load (`nohz.has_blocked`).
    pub has_blocked: bool,
    /// They ask for a new `next_balance` (`nohz.needs_update`).
    pub needs_update: bool,
    /// Bits of those with a number below 64 (`nohz.idle_cpus_mask`).
    pub idle_cpus: u64,
    /// Some CPU has two tasks (`rd->overloaded`).
    pub overloaded: bool,
}

impl Kernel {
    /// State of tickless CPUs and of the root domain.
    pub fn tickless(&self) -> Tickless {
        Tickless {
            next_balance: self.nohz.next_balance,
            next_blocked: self.nohz.next_blocked,
            has_blocked: self.nohz.has_blocked,
            needs_update: self.rules.balance.nohz_next_kick && self.domains.nohz_needs_update,
            idle_cpus: self
                .nohz
                .idle_cpus
                .iter()
                .filter(|cpu| cpu.0 < 64)
                .fold(0, |bits, cpu| bits | 1 << cpu.0),
            overloaded: self.domains.overloaded,
        }
    }

    /// Kicks that wait for a CPU (`nohz_flags`).
    pub fn nohz_flags(&self, cpu: Cpu) -> u8 {
        self.domains.cpus[cpu].nohz_flags
    }

    /// CPUs of the last level cache of a CPU that are not in tickless idle (`nr_busy_cpus`).
    pub fn nr_busy_cpus(&self, cpu: Cpu) -> Option<u32> {
        let row = self.domains.cpus[cpu].shared?;
        Some(self.domains.shared[row as usize].nr_busy_cpus)
    }

    /// A machine that was idle for long: all CPUs are tickless and nothing is left to decay.
    pub(crate) fn nohz_boot(&mut self) {
        for cpu in (0..self.cpus()).map(Cpu::from) {
            if self.domains.cpus[cpu].count > 0 {
                self.rqs[cpu].nohz_tick_stopped = true;
                self.nohz.idle_cpus.insert(cpu);
            }
        }
    }

    /// A CPU stopped its tick in idle (`nohz_balance_enter_idle`).
    pub(crate) fn nohz_balance_enter_idle<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let rq = &mut self.rqs[cpu];
        rq.has_blocked_load = true;
        if !rq.nohz_tick_stopped {
            if self.domains.cpus[cpu].count == 0 {
                // An isolated CPU is balanced by none.
                return;
            }
            rq.nohz_tick_stopped = true;
            self.nohz.idle_cpus.insert(cpu);
            self.set_cpu_sd_state(p, cpu, true);
            self.domains.nohz_needs_update = true;
            if self.rules.features.lb_bias {
                let load = self.weighted_cpuload(cpu);
                self.domains.cpus[cpu].cpu_load[0] = load;
            }
        }
        self.nohz.has_blocked = true;
    }

    /// First busy tick after that (`nohz_balance_exit_idle`).
    pub(crate) fn nohz_balance_exit_idle<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let rq = &mut self.rqs[cpu];
        if rq.nohz_tick_stopped {
            rq.nohz_tick_stopped = false;
            self.nohz.idle_cpus.remove(cpu);
            self.set_cpu_sd_state(p, cpu, false);
        }
    }

    /// Counts busy CPUs per LLC (`set_cpu_sd_state_idle`, `set_cpu_sd_state_busy`).
    fn set_cpu_sd_state<P: Platform>(&mut self, p: &mut P, cpu: Cpu, idle: bool) {
        let view = &mut self.domains.cpus[cpu];
        let Some(row) = view.shared.filter(|_| view.nohz_idle != idle) else {
            return;
        };
        view.nohz_idle = idle;
        let shared = &mut self.domains.shared[row as usize];
        if idle {
            shared.nr_busy_cpus -= 1;
        } else {
            shared.nr_busy_cpus += 1;
        }
        p.touch(self.here, Line::LlcIdleHints(shared.id), Access::Write);
    }

    /// At the tick of a busy CPU: would idle CPUs have something to do (`nohz_balancer_kick`)?
    pub(crate) fn nohz_balancer_kick<P: Platform>(&mut self, p: &mut P, cpu: Cpu, jiffy: u64) {
        if self.domains.cpus[cpu].idle_balance {
            return;
        }
        self.nohz_balance_exit_idle(p, cpu);
        if self.nohz.idle_cpus.is_empty() {
            return;
        }
        let blocked = self.rules.balance.nohz_blocked;
        let mut flags = 0;
        if blocked && self.nohz.has_blocked && jiffy > self.nohz.next_blocked {
            reached(Mark::NohzStats);
            flags = STATS;
        }
        if jiffy >= self.nohz.next_balance && self.idle_cpus_could_help(cpu) {
            flags = if blocked { STATS | BALANCE } else { BALANCE };
        }
        if self.rules.balance.nohz_next_kick && self.domains.nohz_needs_update {
            flags |= NEXT;
        }
        if flags != 0 {
            reached(Mark::NohzKick);
            self.kick_ilb(p, flags, jiffy);
        }
    }

    fn idle_cpus_could_help(&self, cpu: Cpu) -> bool {
        if let Some(kicks) = self.rules.own.nohz_kick(self, || cpu) {
            return kicks;
        }
        if self.rqs[cpu].nr_running >= 2 {
            return true;
        }
        let lowest = self.domains.of(cpu).first();
        let squeezed = |lowest: &Domain| self.check_cpu_capacity(cpu, lowest.imbalance_pct);
        if self.h_nr_running(cpu) >= 1 && lowest.is_some_and(squeezed) {
            return true;
        }
        let view = &self.domains.cpus[cpu];
        if view
            .packing
            .is_some_and(|row| self.preferred_cpu_idles(row, cpu))
        {
            return true;
        }
        // Where capacities are unequal, tasks need CPUs that are large enough rather than caches of
        // their own.
        if let Some(row) = view.asym {
            return self.check_misfit_status(cpu, self.domains.domain(row).imbalance_pct);
        }
        let llc_has_parent = view
            .llc
            .is_some_and(|llc| self.domains.domain(llc).parent.is_some());
        (self.rules.balance.nohz_counts_every_llc || llc_has_parent)
            && view
                .shared
                .is_some_and(|row| self.domains.shared[row as usize].nr_busy_cpus > 1)
    }

    /// CPU that balances for the tickless ones: the first of them that is idle; from 7.3 on the
    /// first whose whole core is, if there is such a core.
    fn find_new_ilb(&self) -> Option<Cpu> {
        let tickless = &self.nohz.idle_cpus;
        if self.rules.balance.nohz_kicks_first_only {
            return tickless
                .lowest()
                .filter(|&first| self.domains.idle.contains(first));
        }
        // `housekeeping_cpumask(HK_TYPE_KERNEL_NOISE)`, which came with this choice (5.2).
        let idle = tickless
            .and(&self.domains.idle)
            .and_not(&self.topology.nohz_full);
        if self.rules.balance.nohz_kicks_idle_core && self.domains.smt_active {
            let on_idle_core = idle.iter().find(|&cpu| self.domains.is_core_idle(cpu));
            return on_idle_core.or(idle.lowest());
        }
        // As long as newly idle balance kicks (up to 5.11), an idle CPU may choose itself.
        let itself = !self.rules.balance.nohz_newidle_late;
        idle.iter().find(|&cpu| itself || cpu != self.here)
    }

    /// Wakes an idle one of the tickless CPUs for the job (`kick_ilb`).
    fn kick_ilb<P: Platform>(&mut self, p: &mut P, flags: u8, jiffy: u64) {
        if !self.rules.balance.nohz_kick_sets_next {
            self.nohz.next_balance += 1;
        } else if flags & BALANCE != 0 {
            self.nohz.next_balance = jiffy + 1;
        }
        let Some(ilb) = self.find_new_ilb() else {
            return;
        };
        let view = &mut self.domains.cpus[ilb];
        let before = view.nohz_flags;
        view.nohz_flags |= flags;
        if before & KICK_MASK != 0 {
            return;
        }
        if ilb == self.here {
            // A call of itself takes place at once.
            self.rqs[ilb].nohz_kick = true;
            return self.nohz_kick_arrives(ilb);
        }
        let first = self.is_first_call(ilb, true);
        let rq = &mut self.rqs[ilb];
        rq.nohz_kick = true;
        if !first {
            return;
        }
        let by_call = self.rules.balance.nohz_kick_by_call;
        let polling = by_call && rq.polling;
        if polling {
            // The idle loop watches the flag for a reschedule (`set_nr_if_polling`).
            rq.need_resched = true;
        } else {
            p.spend(self.here, Op::IpiSend, 1);
        }
        let ipi = if by_call { Ipi::Call } else { Ipi::Resched };
        p.send_ipi(self.here, ilb, ipi, polling);
    }

    /// The kick arrives (`nohz_csd_func`): an idle CPU takes the job over and raises the softirq.
    /// One that was polling goes through `schedule` afterwards, and from 5.8 on, until that was
    /// mended, does not do the job: it takes the flag that woke it for work that came in the
    /// meantime.
    pub(crate) fn nohz_kick_arrives(&mut self, cpu: Cpu) {
        if !std::mem::take(&mut self.rqs[cpu].nohz_kick) {
            return;
        }
        let idle = self.available_idle_cpu(cpu);
        let gives_up = self.rules.balance.nohz_kick_gives_way && self.rqs[cpu].need_resched;
        let view = &mut self.domains.cpus[cpu];
        let flags = std::mem::take(&mut view.nohz_flags);
        view.idle_balance = idle;
        if idle && !gives_up {
            view.nohz_idle_balance = flags & KICK_MASK;
            self.rqs[cpu].balance_softirq = true;
        }
    }

    /// In the softirq: does the job asked for by a kick. `false` when there was none
    /// (`nohz_idle_balance`).
    pub(crate) fn nohz_idle_balance<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        idle: CpuIdle,
    ) -> bool {
        let view = &mut self.domains.cpus[cpu];
        let flags = std::mem::take(&mut view.nohz_idle_balance);
        if flags == 0 || idle != CpuIdle::Idle {
            return false;
        }
        self.nohz_balance_all(p, cpu, flags, CpuIdle::Idle);
        true
    }

    /// Blocked load and balance for all idle CPUs (`_nohz_idle_balance`). `false` when work arrived
    /// before the end.
    fn nohz_balance_all<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        flags: u8,
        idle: CpuIdle,
    ) -> bool {
        let jiffy = self.jiffies(p.now(self.here));
        reached(Mark::NohzBalance);
        let mut next_balance = jiffy + 60 * u64::from(self.rules.hz);
        let mut left = false;
        let wraps = self.rules.balance.nohz_wraps;
        if flags & STATS != 0 {
            self.nohz.has_blocked = false;
        }
        if flags & NEXT != 0 {
            self.domains.nohz_needs_update = false;
        }
        let set = self.nohz.idle_cpus;
        let start = if wraps { Cpu(cpu.0 + 1) } else { Cpu(0) };
        // Balance itself may find work for this CPU on the way.
        let gives_way = self.rules.balance.nohz_kick_gives_way;
        let mut served = false;
        for other in set.iter_wrap(start) {
            if !self.available_idle_cpu(other) || (!wraps && other == cpu) {
                continue;
            }
            if self.rqs[cpu].need_resched && (gives_way || !self.available_idle_cpu(cpu)) {
                self.nohz.has_blocked |= flags & STATS != 0;
                self.domains.nohz_needs_update |= flags & NEXT != 0;
                return false;
            }
            if flags & STATS != 0 {
                left |= self.update_nohz_stats(p, other, jiffy, !wraps);
            }
            if jiffy >= self.rqs[other].next_balance {
                self.balance_for(p, other, flags, jiffy);
            }
            next_balance = next_balance.min(self.rqs[other].next_balance);
            served = true;
        }
        if served {
            self.nohz.next_balance = next_balance;
        }
        if !wraps {
            left |= self.serve_itself(p, cpu, flags, idle);
        }
        if flags & STATS != 0 {
            self.nohz.next_blocked = jiffy + self.msecs_to_jiffies(BLOCKED_PERIOD_MS);
        }
        self.nohz.has_blocked |= left;
        true
    }

    fn balance_for<P: Platform>(&mut self, p: &mut P, cpu: Cpu, flags: u8, jiffy: u64) {
        self.update_rq_clock(p, cpu);
        if self.rules.features.lb_bias && self.weighted_cpuload(cpu) == 0 {
            self.cpu_load_update_nohz(cpu, jiffy, 0);
        }
        if flags & BALANCE != 0 {
            self.sched_balance_domains(p, cpu, CpuIdle::Idle);
        }
    }

    /// Up to 5.11 the balancer served itself apart, after the others.
    fn serve_itself<P: Platform>(&mut self, p: &mut P, cpu: Cpu, flags: u8, idle: CpuIdle) -> bool {
        // Before 4.17 the ordinary balance of the softirq follows.
        if !self.rules.balance.nohz_blocked {
            return false;
        }
        let mut left = false;
        if idle != CpuIdle::NewlyIdle {
            self.update_blocked_averages(p, cpu);
            left = self.rqs[cpu].has_blocked_load;
        }
        if flags & BALANCE != 0 {
            self.sched_balance_domains(p, cpu, CpuIdle::Idle);
        }
        left
    }

    /// Decays the load of a tickless CPU, at most once a jiffy unless forced. Returns whether some
    /// is left (`update_nohz_stats`).
    fn update_nohz_stats<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        jiffy: u64,
        force: bool,
    ) -> bool {
        let rq = &self.rqs[cpu];
        if !rq.has_blocked_load || !self.nohz.idle_cpus.contains(cpu) {
            return false;
        }
        if !force && jiffy <= rq.last_blocked_load_update_tick {
            return true;
        }
        self.update_blocked_averages(p, cpu);
        self.rqs[cpu].has_blocked_load
    }

    /// 4.17–5.11: newly idle balance decays idle CPUs' load as it gathers statistics.
    pub(crate) fn update_nohz_stats_for_newidle<P: Platform>(
        &mut self,
        p: &mut P,
        env: &mut Env,
        cpu: Cpu,
    ) {
        let jiffy = self.jiffies(p.now(self.here));
        env.nohz_again |= self.update_nohz_stats(p, cpu, jiffy, false);
    }

    /// … and puts the next update off when it saw all of them.
    pub(crate) fn nohz_stats_done(&mut self, env: &Env, jiffy: u64) {
        let span = &self.domains.domain(env.domain).span;
        if env.nohz_again && self.nohz.idle_cpus.is_subset(span) {
            self.nohz.next_blocked = jiffy + self.msecs_to_jiffies(BLOCKED_PERIOD_MS);
        }
    }

    /// A CPU about to go idle for long updates the others' blocked load, or notes to do so
    /// (`nohz_newidle_balance`).
    pub(crate) fn nohz_newidle_balance<P: Platform>(&mut self, p: &mut P, cpu: Cpu, jiffy: u64) {
        if !self.rules.balance.nohz_blocked
            || self.rqs[cpu].avg_idle < self.rules.migration_cost_ns
            || !self.nohz.has_blocked
            || jiffy < self.nohz.next_blocked
        {
            return;
        }
        if self.rules.balance.nohz_newidle_late {
            self.domains.cpus[cpu].nohz_flags |= NEWILB;
        } else if !self.nohz_balance_all(p, cpu, STATS, CpuIdle::NewlyIdle) {
            self.kick_ilb(p, STATS, jiffy);
        }
    }

    /// In the idle loop, before the CPU sleeps: what was noted above (`nohz_run_idle_balance`,
    /// 5.12).
    pub(crate) fn nohz_run_idle_balance<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let view = &mut self.domains.cpus[cpu];
        let flags = view.nohz_flags;
        view.nohz_flags &= !NEWILB;
        if flags == NEWILB && !self.rqs[cpu].need_resched {
            self.nohz_balance_all(p, cpu, STATS, CpuIdle::Idle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::world::{World, releases};
    use crate::topology::Topology;

    #[test]
    fn a_kick_of_a_polling_cpu_was_lost_between_5_8_and_6_13() {
        // Does CPU 1 balance, when it halts and when it polls? A polling one goes through
        // `schedule` as well.
        for (version, (does, reschedules)) in releases([
            ("5.7", ([true, true], false)),
            ("5.8 5.15.173 6.12", ([true, false], true)),
            ("5.15.174 6.12.5 6.13", ([true, true], true)),
        ]) {
            for (polling, expected) in [false, true].into_iter().zip(does) {
                let mut world = World::new(version, 2);
                let kernel = &mut world.kernel;
                kernel.here = Cpu(0);
                kernel.nohz.idle_cpus.remove(Cpu(0));
                kernel.rqs[1].polling = polling;
                kernel.kick_ilb(&mut world.bench, BALANCE | STATS, 10);
                assert_eq!(kernel.rqs[1].need_resched, polling && reschedules);
                kernel.nohz_kick_arrives(Cpu(1));
                assert_eq!(kernel.rqs[1].balance_softirq, expected, "{version}");
            }
        }
    }

    #[test]
    fn from_7_3_on_a_cpu_of_an_idle_core_is_kicked() {
        // Cores {0, 2} and {1, 3}.
        let on = |version: &str, busy: &[u32]| {
            let mut world = World::on(Topology::regular(1, 1, 2, 2), version, |_| {});
            for &cpu in busy {
                world.spawn(Cpu(cpu));
                world.kernel.nohz.idle_cpus.remove(Cpu(cpu));
            }
            world.kernel.here = Cpu(busy[0]);
            world.kernel.find_new_ilb()
        };
        // Core {1, 3} works with CPU 3: CPU 1 is idle beside it, core {0, 2} is all idle.
        assert_eq!(on("7.1", &[3]), Some(Cpu(0)));
        assert_eq!(on("7.3", &[3]), Some(Cpu(0)));
        // Core {0, 2} works with CPU 2: CPU 0 is the first idle one, CPU 1 that of an idle core.
        assert_eq!(on("7.1", &[2]), Some(Cpu(0)));
        assert_eq!(on("7.3", &[2]), Some(Cpu(1)));
        // No core is idle: the first idle CPU.
        assert_eq!(on("7.3", &[2, 3]), Some(Cpu(0)));
    }

    #[test]
    fn before_5_2_nobody_is_kicked_when_the_first_tickless_cpu_is_busy() {
        // CPU 1 works since its last tick, CPU 2 idles.
        for (version, expected) in [("5.1", None), ("5.1.6", Some(2)), ("5.2", Some(2))] {
            let mut world = World::new(version, 3);
            world.spawn(Cpu(1));
            world.kernel.here = Cpu(0);
            world.kernel.nohz.idle_cpus.remove(Cpu(0));
            let found = world.kernel.find_new_ilb();
            assert_eq!(found, expected.map(Cpu), "{version}");
        }
    }
}
