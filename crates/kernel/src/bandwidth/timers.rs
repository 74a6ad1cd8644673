//! The period timer, the refill with burst, distribution to throttled queues, the slack timer.
//!
//! Worked example of burst: quota 50 ms, burst 25 ms. A period that used 30 ms leaves 20 in the
//! pool; the refill makes it 70, below the cap of 75. If the next period draws 65, "over" is
//! 70 − (5 + 50) = 15 ms: `nr_bursts` grows by one and `burst_time` by 15 ms.

use super::MIN_EXPIRATION_NS;
use crate::ids::{CfsRqId, Cpu, GroupId, Ns};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Ipi, Observation, Op, Platform, Timer};

/// How often the handler may find that it is late before it doubles the period.
const LOOPS_BEFORE_SCALING: u32 = 3;

impl Kernel {
    /// Starts the period timer on this CPU if it is not active (`start_cfs_bandwidth`). The phase
    /// stays: the stored expiry moves forward by whole periods.
    pub(crate) fn start_cfs_bandwidth<P: Platform>(&mut self, p: &mut P, group: GroupId) {
        let here = self.here;
        let bandwidth = &mut self.groups[group].bandwidth;
        if bandwidth.period_active {
            return;
        }
        reached(Mark::TimerStarts);
        bandwidth.period_active = true;
        bandwidth.timer_cpu = here;
        let period_ns = bandwidth.limit.period_ns;
        let overrun = forward(&mut bandwidth.expires_ns, period_ns, p.now(here));
        if self.rules.slice_expiry {
            bandwidth.runtime_expires_ns += (overrun + 1) * period_ns;
            bandwidth.expires_sequence += 1;
        }
        p.arm(here, Timer::BandwidthPeriod(group), bandwidth.expires_ns);
    }

    /// The period timer of a group fires on `cpu` (`sched_cfs_period_timer`).
    #[inline(never)]
    pub fn period_timer<P: Platform>(&mut self, p: &mut P, cpu: Cpu, group: GroupId) {
        self.here = cpu;
        p.spend(cpu, Op::BandwidthPeriodTimer, 1);
        let mut loops = 0;
        loop {
            let now = p.now(cpu);
            let bandwidth = &mut self.groups[group].bandwidth;
            let overrun = forward(&mut bandwidth.expires_ns, bandwidth.limit.period_ns, now);
            if overrun == 0 {
                p.arm(cpu, Timer::BandwidthPeriod(group), bandwidth.expires_ns);
                return;
            }
            if self.period_elapsed(p, group, overrun) {
                self.groups[group].bandwidth.period_active = false;
                return;
            }
            loops += 1;
            if loops > LOOPS_BEFORE_SCALING {
                self.scale_period(group);
                loops = 0;
            }
        }
    }

    /// The handler cannot keep up with the period: quota, period and burst double.
    pub(crate) fn scale_period(&mut self, group: GroupId) {
        let limit = &mut self.groups[group].bandwidth.limit;
        let doubled = limit.period_ns * 2;
        if doubled < super::MAX_PERIOD_NS {
            reached(Mark::PeriodDoubles);
            limit.period_ns = doubled;
            limit.quota_ns = limit.quota_ns.map(|quota| quota * 2);
            limit.burst_ns *= 2;
        }
    }

    /// One round of the period timer (`do_sched_cfs_period_timer`). Returns whether the timer
    /// stops.
    fn period_elapsed<P: Platform>(&mut self, p: &mut P, group: GroupId, overrun: u64) -> bool {
        let now = p.now(self.here);
        let bandwidth = &mut self.groups[group].bandwidth;
        if bandwidth.limit.quota_ns.is_none() {
            return true;
        }
        let throttled = !bandwidth.throttled.is_empty();
        bandwidth.stat.nr_periods += overrun;
        let pool_before_ns = bandwidth.runtime_ns as i64;
        let stops = bandwidth.idle && !throttled;
        // Older kernels find out first whether the timer goes on.
        if self.rules.refill_first || !stops {
            self.refill(group, now);
        }
        let bandwidth = &mut self.groups[group].bandwidth;
        p.observe(
            self.here,
            Observation::Period {
                group,
                pool_before_ns,
                pool_after_ns: bandwidth.runtime_ns as i64,
                overrun,
                throttled,
            },
        );
        if stops {
            reached(Mark::TimerStops);
            return true;
        }
        if !throttled {
            reached(Mark::TimerGoesIdle);
            bandwidth.idle = true;
            return false;
        }
        reached(Mark::PeriodThrottled);
        bandwidth.stat.nr_throttled += overrun;
        self.distribute_cfs_runtime(p, group);
        self.groups[group].bandwidth.idle = false;
        false
    }

    /// Adds a quota to the pool, capped at quota + burst (`__refill_cfs_bandwidth_runtime`).
    pub(crate) fn refill(&mut self, group: GroupId, now: Ns) {
        let bandwidth = &mut self.groups[group].bandwidth;
        let Some(quota_ns) = bandwidth.limit.quota_ns else {
            return;
        };
        if !self.rules.burst {
            reached(Mark::RefillReplaces);
            bandwidth.runtime_ns = quota_ns;
            bandwidth.expires_sequence += 1;
            bandwidth.runtime_expires_ns = now + bandwidth.limit.period_ns;
            return;
        }
        reached(Mark::RefillAdds);
        bandwidth.runtime_ns += quota_ns;
        let over = bandwidth
            .runtime_snap_ns
            .saturating_sub(bandwidth.runtime_ns);
        if over > 0 && self.rules.burst_statistics {
            reached(Mark::BurstCounted);
            bandwidth.stat.burst_time_ns += over;
            bandwidth.stat.nr_bursts += 1;
        }
        bandwidth.runtime_ns = bandwidth
            .runtime_ns
            .min(quota_ns + bandwidth.limit.burst_ns);
        bandwidth.runtime_snap_ns = bandwidth.runtime_ns;
    }

    /// Pays the debts of throttled queues in list order (`distribute_cfs_runtime`).
    fn distribute_cfs_runtime<P: Platform>(&mut self, p: &mut P, group: GroupId) {
        let mut queues = std::mem::take(&mut self.scratch_queues);
        queues.extend_from_slice(&self.groups[group].bandwidth.throttled);
        self.groups[group].bandwidth.distribute_running = true;
        let mut local: Option<CfsRqId> = None;
        for &q in &queues {
            if !self.cfs_rqs[q].throttled || self.waits_for_unthrottle(q) {
                continue;
            }
            if self.groups[group].bandwidth.runtime_ns == 0 {
                break;
            }
            let charged = self.rules.throttles_when_charged;
            if charged && self.cfs_rqs[q].h_curr.is_some() {
                let cpu = self.cfs_rqs[q].cpu;
                self.update_rq_clock(p, cpu);
                self.update_curr(p, q);
            }
            if !self.pay_debt(group, q) {
                reached(Mark::DebtNotPaid);
                if charged {
                    break;
                }
                continue;
            }
            reached(Mark::DebtPaid);
            if !self.rules.async_unthrottle {
                self.unthrottle_cfs_rq(p, q);
            } else if self.cfs_rqs[q].cpu == self.here {
                local = Some(q);
            } else {
                self.unthrottle_cfs_rq_async(p, q);
            }
        }
        if let Some(q) = local {
            self.unthrottle_cfs_rq(p, q);
        }
        self.groups[group].bandwidth.distribute_running = false;
        queues.clear();
        self.scratch_queues = queues;
    }

    /// Gives a throttled queue its debt and one nanosecond, as far as the pool reaches. Returns
    /// whether the queue may run.
    fn pay_debt(&mut self, group: GroupId, q: CfsRqId) -> bool {
        let bandwidth = &mut self.groups[group].bandwidth;
        let cfs_rq = &mut self.cfs_rqs[q];
        let debt = (1 - cfs_rq.runtime_remaining_ns).max(0) as u64;
        let grant = debt.min(bandwidth.runtime_ns);
        bandwidth.runtime_ns -= grant;
        cfs_rq.runtime_remaining_ns += grant as i64;
        if self.rules.slice_expiry {
            cfs_rq.runtime_expires_ns = bandwidth.runtime_expires_ns;
        } else {
            // Up to 4.17 the time of expiry alone tells refills apart.
            cfs_rq.expires_sequence = bandwidth.expires_sequence;
        }
        cfs_rq.runtime_remaining_ns > 0
    }

    fn waits_for_unthrottle(&self, q: CfsRqId) -> bool {
        self.rqs[self.cfs_rqs[q].cpu].unthrottle_list.contains(&q)
    }

    /// Asks the queue's CPU to unthrottle it (`__unthrottle_cfs_rq_async`): one interrupt for all.
    fn unthrottle_cfs_rq_async<P: Platform>(&mut self, p: &mut P, q: CfsRqId) {
        let cpu = self.cfs_rqs[q].cpu;
        reached(Mark::UnthrottleAsync);
        let first = self.is_first_call(cpu, self.rqs[cpu].unthrottle_list.is_empty());
        self.rqs[cpu].unthrottle_list.push(q);
        if first {
            self.send_call(p, cpu);
        }
    }

    /// Unthrottles what other CPUs asked for (`__cfsb_csd_unthrottle`).
    pub(crate) fn unthrottle_pending<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        if self.rqs[cpu].unthrottle_list.is_empty() {
            return;
        }
        self.update_rq_clock(p, cpu);
        let mut queues = std::mem::take(&mut self.rqs[cpu].unthrottle_list);
        let reads = !self.rules.unthrottles_at_one_clock;
        for &q in &queues {
            if self.cfs_rqs[q].throttled {
                self.unthrottle_one(p, q, reads);
            }
        }
        queues.clear();
        self.rqs[cpu].unthrottle_list = queues;
    }

    /// Interrupts a CPU for a function call.
    pub(crate) fn send_call<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let polling = self.rqs[cpu].polling;
        p.spend(self.here, Op::IpiSend, 1);
        p.send_ipi(self.here, cpu, Ipi::Call, polling);
    }

    /// The slack timer of a group fires (`do_sched_cfs_slack_timer`).
    #[inline(never)]
    pub fn slack_timer<P: Platform>(&mut self, p: &mut P, cpu: Cpu, group: GroupId) {
        self.here = cpu;
        let now = p.now(cpu);
        self.groups[group].bandwidth.slack_started = false;
        if self.refresh_is_near(group, now, MIN_EXPIRATION_NS) {
            return;
        }
        let bandwidth = &self.groups[group].bandwidth;
        let worth_it = bandwidth.limit.quota_ns.is_some()
            && bandwidth.runtime_ns > self.rules.bandwidth_slice_ns;
        if worth_it {
            reached(Mark::SlackDistributed);
            self.distribute_cfs_runtime(p, group);
        }
    }
}

/// Moves `expires` by whole periods past `now` (`hrtimer_forward`). Returns how many.
fn forward(expires_ns: &mut u64, period_ns: u64, now: u64) -> u64 {
    let Some(late) = now.checked_sub(*expires_ns) else {
        return 0;
    };
    let overrun = late / period_ns + 1;
    *expires_ns += overrun * period_ns;
    overrun
}

#[cfg(test)]
mod tests {
    use super::forward;

    #[test]
    fn forwarding_keeps_the_phase() {
        let mut expires = 30;
        assert_eq!(forward(&mut expires, 100, 29), 0);
        assert_eq!((forward(&mut expires, 100, 30), expires), (1, 130));
        assert_eq!((forward(&mut expires, 100, 435), expires), (4, 530));
    }
}
