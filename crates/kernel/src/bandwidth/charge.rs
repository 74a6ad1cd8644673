//! Charging runtime, drawing slices from the pool, returning what is unused.
//!
//! Worked example: a queue with 2 ms of local runtime left runs 4 ms until the tick. It is charged
//! to −2 ms and asks for slice − (−2) = 7 ms: debt plus a full slice. With 3 ms left in the pool it
//! gets 3, has 1 ms and runs on; with nothing left it stays at −2 ms, is rescheduled and throttled.

use super::{MIN_EXPIRATION_NS, MIN_LOCAL_RUNTIME_NS, SLACK_PERIOD_NS};
use crate::ids::{CfsRqId, GroupId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Platform, Timer};

impl Kernel {
    /// Charges `delta_ns` of running to a queue (`account_cfs_rq_runtime`). Returns whether that
    /// left it throttled, where a charge throttles (7.2).
    #[inline(always)]
    pub(crate) fn account_cfs_rq_runtime<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        delta_ns: u64,
    ) -> bool {
        self.cfs_rqs[q].runtime_enabled && self.charge_limited_queue(p, q, delta_ns)
    }

    /// `__account_cfs_rq_runtime`.
    #[inline(never)]
    fn charge_limited_queue<P: Platform>(&mut self, p: &mut P, q: CfsRqId, delta_ns: u64) -> bool {
        // The running queue is charged before any runtime expires: it may have run in an earlier
        // period.
        reached(Mark::ChargeLocal);
        self.cfs_rqs[q].runtime_remaining_ns -= delta_ns as i64;
        if self.rules.slice_expiry {
            self.expire_cfs_rq_runtime(q);
        }
        let cfs_rq = &self.cfs_rqs[q];
        if self.rules.throttles_when_charged {
            let out = cfs_rq.runtime_remaining_ns <= 0;
            return out && (cfs_rq.throttled || self.throttle_cfs_rq(p, q));
        }
        if cfs_rq.runtime_remaining_ns > 0 || cfs_rq.throttled {
            return false;
        }
        let slice_ns = self.rules.bandwidth_slice_ns as i64;
        if !self.assign_cfs_rq_runtime(p, q, slice_ns) && self.cfs_rqs[q].curr.is_some() {
            // Throttling itself waits until the running task is put.
            let cpu = self.cfs_rqs[q].cpu;
            self.resched_curr(p, cpu);
        }
        false
    }

    /// Draws runtime so that the queue has `target_ns` (`__assign_cfs_rq_runtime`). Returns whether
    /// it may run.
    pub(crate) fn assign_cfs_rq_runtime<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        target_ns: i64,
    ) -> bool {
        let group = self.cfs_rqs[q].group;
        let want = target_ns - self.cfs_rqs[q].runtime_remaining_ns;
        let mut grant = want;
        if self.groups[group].bandwidth.limit.quota_ns.is_some() {
            self.start_cfs_bandwidth(p, group);
            let bandwidth = &mut self.groups[group].bandwidth;
            grant = 0;
            if bandwidth.runtime_ns > 0 {
                grant = want.min(bandwidth.runtime_ns as i64);
                reached(Mark::SliceGranted);
                bandwidth.runtime_ns -= grant as u64;
                bandwidth.idle = false;
            } else {
                reached(Mark::PoolEmpty);
            }
        }
        let bandwidth = &self.groups[group].bandwidth;
        let (sequence, expires_ns) = (bandwidth.expires_sequence, bandwidth.runtime_expires_ns);
        let cfs_rq = &mut self.cfs_rqs[q];
        cfs_rq.runtime_remaining_ns += grant;
        if cfs_rq.expires_sequence != sequence {
            cfs_rq.expires_sequence = sequence;
            cfs_rq.runtime_expires_ns = expires_ns;
        }
        cfs_rq.runtime_remaining_ns > 0
    }

    /// 4.18–5.3: local runtime of an earlier period is lost (`expire_cfs_rq_runtime`).
    fn expire_cfs_rq_runtime(&mut self, q: CfsRqId) {
        let cfs_rq = &mut self.cfs_rqs[q];
        let clock = self.rqs[cfs_rq.cpu].clock;
        if clock < cfs_rq.runtime_expires_ns || cfs_rq.runtime_remaining_ns < 0 {
            return;
        }
        if cfs_rq.expires_sequence == self.groups[cfs_rq.group].bandwidth.expires_sequence {
            // Same refill: only the clocks drifted apart.
            reached(Mark::LocalExtended);
            cfs_rq.runtime_expires_ns += self.rules.tick_ns;
        } else {
            reached(Mark::LocalExpires);
            cfs_rq.runtime_remaining_ns = 0;
        }
    }

    /// The first entity of a queue arrives: it must find runtime (`check_enqueue_throttle`).
    #[inline]
    pub(crate) fn check_enqueue_throttle<P: Platform>(&mut self, p: &mut P, q: CfsRqId) {
        let cfs_rq = &self.cfs_rqs[q];
        if !cfs_rq.runtime_enabled || cfs_rq.h_curr.is_some() || cfs_rq.throttled {
            return;
        }
        self.account_cfs_rq_runtime(p, q, 0);
        let throttles = !self.rules.throttles_when_charged;
        if throttles && self.cfs_rqs[q].runtime_remaining_ns <= 0 {
            reached(Mark::EnqueueThrottles);
            self.throttle_cfs_rq(p, q);
        }
    }

    /// Whether the queue is, or now becomes, throttled (`check_cfs_rq_runtime`).
    #[inline(always)]
    pub(crate) fn check_cfs_rq_runtime<P: Platform>(&mut self, p: &mut P, q: CfsRqId) -> bool {
        let cfs_rq = &self.cfs_rqs[q];
        let in_debt = cfs_rq.runtime_enabled && cfs_rq.runtime_remaining_ns <= 0;
        if !in_debt || self.rules.throttles_when_charged {
            return false;
        }
        cfs_rq.throttled || self.throttle_cfs_rq(p, q)
    }

    /// The last entity left: all but 1 ms goes back to the pool (`return_cfs_rq_runtime`).
    #[inline(always)]
    pub(crate) fn return_cfs_rq_runtime<P: Platform>(&mut self, p: &mut P, q: CfsRqId) {
        let cfs_rq = &self.cfs_rqs[q];
        if cfs_rq.runtime_enabled && cfs_rq.nr_queued == 0 {
            self.return_slack(p, q);
        }
    }

    #[inline(never)]
    fn return_slack<P: Platform>(&mut self, p: &mut P, q: CfsRqId) {
        let cfs_rq = &mut self.cfs_rqs[q];
        let slack = cfs_rq.runtime_remaining_ns - MIN_LOCAL_RUNTIME_NS;
        if slack <= 0 {
            return;
        }
        let group = cfs_rq.group;
        let bandwidth = &mut self.groups[group].bandwidth;
        let same_refill = !self.rules.returns_need_same_refill
            || cfs_rq.expires_sequence == bandwidth.expires_sequence;
        if bandwidth.limit.quota_ns.is_some() && same_refill {
            reached(Mark::SlackReturned);
            bandwidth.runtime_ns += slack as u64;
            let others_wait = !bandwidth.throttled.is_empty();
            if bandwidth.runtime_ns > self.rules.bandwidth_slice_ns && others_wait {
                self.start_cfs_slack_bandwidth(p, group);
            }
        }
        self.cfs_rqs[q].runtime_remaining_ns -= slack;
    }

    /// `start_cfs_slack_bandwidth`.
    pub(crate) fn start_cfs_slack_bandwidth<P: Platform>(&mut self, p: &mut P, group: GroupId) {
        let now = p.now(self.here);
        if self.refresh_is_near(group, now, SLACK_PERIOD_NS + MIN_EXPIRATION_NS) {
            reached(Mark::SlackTooNear);
            return;
        }
        let bandwidth = &mut self.groups[group].bandwidth;
        if !bandwidth.slack_started || self.rules.slack_timer_is_pushed {
            reached(Mark::SlackTimerArmed);
            bandwidth.slack_started = true;
            p.arm(
                self.here,
                Timer::BandwidthSlack(group),
                now + SLACK_PERIOD_NS,
            );
        }
    }

    /// `runtime_refresh_within`.
    pub(crate) fn refresh_is_near(&self, group: GroupId, now: u64, within_ns: u64) -> bool {
        let bandwidth = &self.groups[group].bandwidth;
        bandwidth.expires_ns < now + within_ns
    }
}
