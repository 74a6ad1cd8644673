//! The fair server (6.12): a deadline reservation of 50 ms per second for the fair class.
//!
//! It replaces real-time throttling: real-time tasks may run all the time unless fair tasks would
//! starve. While fair tasks are queued a CPU's server waits for its zero-laxity instant, the last
//! one at which 50 ms still fit before the deadline. Time the fair class runs on its own counts,
//! and so does idle time; once 50 ms have passed that way the server starts a new period, so it
//! normally never acts.
//!
//! Worked example: a FIFO hog starts at t = 0 beside a fair task queued at the same time. The
//! server's deadline is 1000 ms, its zero-laxity instant 950 ms. Nothing fair ran until then, so at
//! 950 ms it becomes the most urgent thing on the CPU and runs the fair task for 50 ms, with a new
//! deadline at 1950 ms. From then on, while the hog goes on, it runs 50 ms from each deadline:
//! 1950–2000 ms, 2950–3000 ms, …
//!
//! ```text
//!  start ──► waiting ──zero laxity──► running ──50 ms used──► replenishing ──deadline──► running
//!              ▲  │ 50 ms ran anyway               │ nothing fair to run
//!              └──┘                                ▼
//!                                               stopped
//! ```
//!
//! Up to 6.16 it also stops when the last fair task falls asleep, and its timer with it. From 6.17
//! the timer goes on: at zero laxity the server begins a period, finds nothing to run and stops,
//! but a fair task that wakes later in that period is served at once, from 7.0 on with a twentieth
//! of what is left of it. Worked example: no fair task waits at 950 ms, zero laxity. One that wakes
//! at 980 beside a FIFO hog gets 48.5 ms from there on, a twentieth of the 970 to the deadline. In
//! 6.17 it gets 50, and a new period. Up to 6.16, and again in 6.19, it waits until 1930 ms, zero
//! laxity of a period that begins with its wakeup.

use crate::dl::{to_ratio, until_zero_lag};
use crate::ids::{Cpu, Ns, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Platform, Timer};
use crate::rules::{Rules, ServerOverflow};

/// A zero-laxity timer that fires this early waits again (`dl_server_min_res`).
const MIN_RESOLUTION_NS: Ns = 1_000_000;

/// A CPU's fair server (`rq->fair_server`).
#[derive(Clone, Debug, Default)]
pub struct FairServer {
    /// Started (`dl_server_active`).
    pub(crate) active: bool,
    /// Runtime left in this period.
    pub(crate) runtime_ns: i64,
    /// End of this period.
    pub(crate) deadline_ns: Ns,
    /// Waits for a timer (`dl_throttled`).
    pub(crate) throttled: bool,
    /// That timer is the zero-laxity one (`dl_defer_armed`).
    pub(crate) defer_armed: bool,
    /// It really runs in this period (`dl_defer_running`).
    pub(crate) defer_running: bool,
    /// Its last period went by in idle (`dl_defer_idle`, 7.1).
    pub(crate) defer_idle: bool,
    /// Its timer is set.
    timer_queued: bool,
    /// When it was last set for.
    timer_expires_ns: Ns,
    /// Its timer was set while it fired, and a timer that fires cannot be cancelled: it stays, and
    /// is not set anew.
    timer_stays: bool,
    /// Where it was set the last time.
    timer_cpu: Option<Cpu>,
    /// Stopped before its 0-lag time, for which a timer is set (`dl_non_contending`).
    non_contending: bool,
    /// Where that timer was set the last time.
    inactive_timer_cpu: Option<Cpu>,
}

impl FairServer {
    /// `replenish_dl_new_period`.
    fn replenish_new_period(&mut self, now: Ns, reserved: (Ns, Ns)) {
        self.deadline_ns = now + reserved.1;
        self.runtime_ns = reserved.0 as i64;
        if !self.defer_running {
            self.throttled = true;
            self.defer_armed = true;
        }
    }

    /// Whether the runtime left does not fit the time left at the reserved rate
    /// (`dl_entity_overflow`).
    fn overflows(&self, now: Ns, (runtime_ns, period_ns): (Ns, Ns)) -> bool {
        let left = (period_ns >> 10) as i64 * (self.runtime_ns >> 10);
        let right = (self.deadline_ns.wrapping_sub(now) as i64 >> 10) * (runtime_ns >> 10) as i64;
        right < left
    }

    /// When the timer is due (`start_dl_timer`).
    fn timer_due_ns(&self) -> Ns {
        if self.defer_armed {
            self.deadline_ns
                .saturating_sub(self.runtime_ns.max(0) as Ns)
        } else {
            self.deadline_ns
        }
    }
}

impl Rules {
    /// Runtime and period of the fair servers.
    fn fair_server_reserves(&self) -> (Ns, Ns) {
        (self.fair_server_runtime_ns, self.fair_server_period_ns)
    }
}

impl Kernel {
    /// The first fair task of a CPU was queued (`dl_server_start`).
    #[inline(always)]
    pub(crate) fn fair_server_start<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        if !self.rules.fair_server || self.rules.fair_server_runtime_ns == 0 {
            return;
        }
        self.rqs[cpu].fair_server.defer_idle = false;
        if !self.rqs[cpu].fair_server.active {
            self.charge_donor(p, cpu);
            self.fair_server_starts(p, cpu);
        }
    }

    /// Charges the running task up to now, where the server's rules need that
    /// (`rq->donor->sched_class->update_curr`, 7.1).
    fn charge_donor<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let curr = self.rqs[cpu].curr;
        if !self.rules.fair_server_waits_out_idle {
            return;
        }
        if self.is_idle_task(curr) {
            self.update_curr_idle(p, cpu);
        } else if self.tasks[curr].policy.is_fair() {
            self.update_curr_fair(p, cpu);
        } else {
            self.update_curr_above_fair(p, cpu);
        }
    }

    /// The idle task ran: the server's budget is used up by that, too (`update_curr_idle`, 7.1).
    pub(crate) fn update_curr_idle<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let rq = &mut self.rqs[cpu];
        let idle = &mut self.entities[self.tasks[rq.idle].se];
        let idle_ns = rq.clock_task.wrapping_sub(idle.exec_start) as i64;
        if !self.rules.fair_server_waits_out_idle || idle_ns <= 0 {
            return;
        }
        idle.exec_start = rq.clock_task;
        let stays_idle = rq.curr_is_idle() && rq.nr_running == 0 && !rq.ttwu_pending;
        let server = &mut rq.fair_server;
        if !server.active {
            return;
        }
        server.runtime_ns -= idle_ns;
        server.defer_idle &= stays_idle;
        if server.runtime_ns > 0 {
            return;
        }
        if server.throttled && server.defer_idle {
            // Two periods in a row: the timer of this one ends it.
            server.runtime_ns = 0;
            return;
        }
        server.defer_idle |= server.throttled && stays_idle;
        self.fair_server_spent(p, cpu);
    }

    #[inline(never)]
    fn fair_server_starts<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let now = self.rqs[cpu].clock;
        let reserved = self.rules.fair_server_reserves();
        self.fair_server_contends(p, cpu);
        let server = &mut self.rqs[cpu].fair_server;
        server.active = true;
        // `update_dl_entity`: a period that is over, or too full, starts anew.
        if server.deadline_ns == 0 || server.deadline_ns < now || server.overflows(now, reserved) {
            let keeps = match self.rules.server_overflow {
                ServerOverflow::NewPeriod => false,
                ServerOverflow::Revised => server.deadline_ns > 0,
                ServerOverflow::RevisedIfRunning => server.defer_running,
            };
            if keeps && server.deadline_ns >= now {
                server.runtime_ns = revised_runtime(reserved, server.deadline_ns - now);
            } else {
                server.defer_running &= self.rules.fair_server_starts_running;
                server.replenish_new_period(now, reserved);
            }
        } else if !server.defer_running {
            server.defer_armed = true;
            server.throttled = true;
        }
        self.fair_server_enqueue(p, cpu);
        self.fair_server_preempts(p, cpu);
    }

    /// Asks the running task to give way, unless it is a deadline task with an earlier deadline.
    fn fair_server_preempts<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let rq = &self.rqs[cpu];
        let deadline_ns = rq.fair_server.deadline_ns as i64;
        let other = self.dl.of(rq.curr).deadline_ns as i64;
        if !self.runs_deadline_task(cpu) || deadline_ns.wrapping_sub(other) < 0 {
            self.resched_curr(p, cpu);
        }
    }

    /// On the deadline queue, unless it has to wait for a timer (`enqueue_dl_entity`).
    fn fair_server_enqueue<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let server = &mut self.rqs[cpu].fair_server;
        if server.throttled && self.fair_server_arm(p, cpu) {
            return;
        }
        let server = &mut self.rqs[cpu].fair_server;
        server.throttled = false;
        server.defer_armed = false;
        let deadline_ns = server.deadline_ns;
        self.dl_put_on(cpu, None, deadline_ns);
    }

    /// Fair tasks ran for `delta`, on the server's behalf or not (`dl_server_update`). Returns
    /// whether its budget is used up.
    #[inline(always)]
    pub(crate) fn fair_server_update(&mut self, cpu: Cpu, delta: Ns) -> bool {
        let server = &mut self.rqs[cpu].fair_server;
        if !server.active {
            return false;
        }
        server.runtime_ns -= delta as i64;
        server.defer_idle = false;
        server.runtime_ns <= 0
    }

    /// The rest of `dl_server_update`.
    pub(crate) fn fair_server_spent<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let now = self.rqs[cpu].clock;
        let reserved = self.rules.fair_server_reserves();
        let server = &mut self.rqs[cpu].fair_server;
        if server.throttled {
            // The fair class had its share without help.
            server.defer_running = false;
            server.timer_stays = false;
            server.replenish_new_period(now, reserved);
            self.fair_server_arm(p, cpu);
            return;
        }
        server.throttled = true;
        self.dl_take_off(cpu, None);
        if !self.fair_server_arm(p, cpu) {
            if self.rules.late_server_renews {
                let server = &mut self.rqs[cpu].fair_server;
                server.replenish_new_period(now, reserved);
                self.fair_server_arm(p, cpu);
            } else {
                self.fair_server_replenish(p, cpu);
            }
        }
        self.resched_curr(p, cpu);
    }

    /// `replenish_dl_entity`, then back on the queue or to wait for zero laxity.
    fn fair_server_replenish<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let now = self.rqs[cpu].clock;
        let reserved = self.rules.fair_server_reserves();
        let server = &mut self.rqs[cpu].fair_server;
        if server.defer_armed && server.overflows(now, reserved) {
            server.deadline_ns = now + reserved.1;
            server.runtime_ns = reserved.0 as i64;
        }
        while server.runtime_ns <= 0 {
            server.deadline_ns += reserved.1;
            server.runtime_ns += reserved.0 as i64;
        }
        if server.deadline_ns < now {
            server.replenish_new_period(now, reserved);
        }
        server.throttled = false;
        if server.defer_armed {
            server.defer_armed = false;
        } else if !server.defer_running
            && now < server.deadline_ns.saturating_sub(server.runtime_ns as Ns)
        {
            server.defer_armed = true;
            server.throttled = true;
        }
        self.fair_server_enqueue(p, cpu);
    }

    /// The timer of a CPU's server fires on `here`: zero laxity, or a new period
    /// (`dl_server_timer`).
    #[cold]
    #[inline(never)]
    pub fn fair_server_timer<P: Platform>(&mut self, p: &mut P, here: Cpu, cpu: Cpu) {
        self.here = here;
        let server = &mut self.rqs[cpu].fair_server;
        (server.timer_queued, server.timer_stays) = (false, false);
        if !self.rqs[cpu].fair_server.throttled {
            return;
        }
        self.update_rq_clock(p, cpu);
        self.charge_donor(p, cpu);
        if self.rqs[cpu].fair_server.defer_idle {
            reached(Mark::FairServerIdles);
            self.fair_server_ends(p, cpu);
            let server = &mut self.rqs[cpu].fair_server;
            server.timer_stays = server.timer_queued;
            return;
        }
        let now = self.rqs[cpu].clock;
        let server = &mut self.rqs[cpu].fair_server;
        if server.defer_armed {
            let due = server.timer_due_ns();
            if now + MIN_RESOLUTION_NS < due {
                // The fair class ran a little meanwhile, so zero laxity is later now; the timer
                // goes on from when it was due (`hrtimer_forward_now`).
                server.timer_queued = true;
                server.timer_expires_ns += due - now;
                p.arm(here, Timer::FairServer(cpu), server.timer_expires_ns);
                return;
            }
            server.defer_running = true;
        }
        self.fair_server_replenish(p, cpu);
        self.fair_server_preempts(p, cpu);
        if self.dl.used {
            self.push_one_dl_task(p, cpu);
        }
    }

    /// Task that the server runs when it is due: the fair class's choice. Without one it stops
    /// (`__pick_task_dl`).
    pub(crate) fn fair_server_picks<P: Platform>(&mut self, p: &mut P, cpu: Cpu) -> Option<TaskId> {
        reached(Mark::FairServerRuns);
        let task = self.pick_task_fair(p, cpu);
        if task.is_none() {
            self.fair_server_stop(p, cpu);
        }
        task
    }

    /// `dl_server_stop`.
    fn fair_server_stop<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        self.fair_server_ends(p, cpu);
        let server = &mut self.rqs[cpu].fair_server;
        (server.timer_queued, server.timer_stays) = (false, false);
        p.cancel(self.here, Timer::FairServer(cpu));
    }

    /// The same without its timer.
    fn fair_server_ends<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        self.dl_take_off(cpu, None);
        if self.rqs[cpu].fair_server.active {
            self.fair_server_stops_contending(p, cpu);
        }
        let server = &mut self.rqs[cpu].fair_server;
        server.defer_armed = false;
        server.throttled = false;
        server.defer_idle = false;
        server.active = false;
    }

    /// The server starts: its bandwidth is active, unless it still is (`task_contending`).
    fn fair_server_contends<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        if std::mem::take(&mut self.rqs[cpu].fair_server.non_contending) {
            p.cancel(self.here, Timer::FairServerInactive(cpu));
        } else {
            self.add_running_bw(p, cpu, self.rules.fair_server_bw());
        }
    }

    /// It stops: its bandwidth is active up to its 0-lag time (`task_non_contending`).
    fn fair_server_stops_contending<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let reserved = self.rules.fair_server_reserves();
        let rq = &self.rqs[cpu];
        let left = (rq.fair_server.runtime_ns, rq.fair_server.deadline_ns);
        let zero_lag_ns = until_zero_lag(left, reserved, rq.clock);
        if zero_lag_ns < 0 {
            return self.sub_running_bw(p, cpu, self.rules.fair_server_bw());
        }
        let at = p.now(self.here) + zero_lag_ns as Ns;
        let last = rq.fair_server.inactive_timer_cpu;
        let on = self.arm_unpinned(p, Timer::FairServerInactive(cpu), at, last);
        let server = &mut self.rqs[cpu].fair_server;
        (server.non_contending, server.inactive_timer_cpu) = (true, on);
    }

    /// The 0-lag time of a CPU's server has come (`inactive_task_timer`), on `here`.
    #[cold]
    #[inline(never)]
    pub fn fair_server_inactive_timer<P: Platform>(&mut self, p: &mut P, here: Cpu, cpu: Cpu) {
        self.here = here;
        self.update_rq_clock(p, cpu);
        if std::mem::take(&mut self.rqs[cpu].fair_server.non_contending) {
            self.sub_running_bw(p, cpu, self.rules.fair_server_bw());
        }
    }

    /// Fair tasks left a CPU: without any the server stops, up to 6.16.
    #[inline(always)]
    pub(crate) fn fair_tasks_left<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let stops = self.rules.fair_server && self.rules.fair_server_stops_when_empty;
        if stops && self.cfs_rqs[cpu].h_nr_queued == 0 {
            self.fair_server_stop(p, cpu);
        }
    }

    /// Arms the server's timer; `false` when it would be due already (`start_dl_timer`).
    fn fair_server_arm<P: Platform>(&mut self, p: &mut P, cpu: Cpu) -> bool {
        let now = p.now(self.here);
        let rq = &mut self.rqs[cpu];
        // What has passed since the queue read its clock is added.
        let late = now.wrapping_sub(rq.clock);
        let due = rq.fair_server.timer_due_ns().wrapping_add(late);
        if due.wrapping_add(1000) <= now {
            return false;
        }
        let server = &mut rq.fair_server;
        if !server.timer_stays {
            server.timer_queued = true;
            server.timer_expires_ns = due;
            let last = server.timer_cpu;
            let on = self.arm_unpinned(p, Timer::FairServer(cpu), due, last);
            self.rqs[cpu].fair_server.timer_cpu = on;
        }
        true
    }

    /// A CPU leaves idle: the fair class could have run all the time
    /// (`dl_server_update_idle_time`). Where a pick throttled the queue of the task that ran and
    /// pulled another one, it is the time of that task since its last charge, which it is not
    /// charged for any more.
    #[inline]
    pub(crate) fn fair_server_update_idle(&mut self, cpu: Cpu) {
        let rq = &mut self.rqs[cpu];
        let elsewhere = self.rules.fair_server_waits_out_idle;
        if !self.rules.fair_server || elsewhere || rq.fair_server.runtime_ns < 0 {
            return;
        }
        let curr = self.tasks[rq.curr].se;
        let entity = &mut self.entities[curr];
        let idle_ns = rq.clock_task.wrapping_sub(entity.exec_start) as i64;
        if idle_ns < 0 {
            return;
        }
        entity.exec_start = rq.clock_task;
        rq.fair_server.runtime_ns -= idle_ns;
        if rq.fair_server.runtime_ns < 0 {
            rq.fair_server.defer_running = false;
            rq.fair_server.runtime_ns = 0;
        }
    }
}

/// Runtime that the time left to the deadline allows at the reserved rate, in 20-bit fixed point
/// (`update_dl_revised_wakeup`): 52428 / 2^20, a little less than a twentieth.
const fn revised_runtime((runtime_ns, period_ns): (Ns, Ns), laxity_ns: Ns) -> i64 {
    ((to_ratio(period_ns, runtime_ns) * laxity_ns) >> 20) as i64
}

#[cfg(test)]
mod tests {
    use super::{FairServer, revised_runtime};
    use crate::ids::Cpu;
    use crate::tests::world::{MS, World};

    #[test]
    fn the_reserved_rate_is_rounded_down_to_20_bits() {
        // 50 · 2^20 / 1000 = 52428.8. For 500 ms: 500,000,000 · 52428 / 1048576 = 24,999,618.5 ns.
        let reserved = (50_000_000, 1_000_000_000);
        assert_eq!(revised_runtime(reserved, 500_000_000), 24_999_618);
        assert_eq!(revised_runtime(reserved, 0), 0);
    }

    /// 50 ms fit into the second before the deadline, and not into 1 µs less.
    #[test]
    fn a_budget_overflows_what_is_left_of_its_period() {
        let reserved = (50 * MS, 1000 * MS);
        let server = FairServer {
            runtime_ns: 50 * MS as i64,
            deadline_ns: 1000 * MS,
            ..FairServer::default()
        };
        assert!(!server.overflows(0, reserved));
        assert!(server.overflows(1024, reserved));
    }

    #[test]
    fn a_timer_that_was_due_a_microsecond_ago_is_not_armed() {
        let armed = |now| {
            let mut world = World::new("6.12", 1);
            world.bench.now = now;
            world.kernel.rqs[0].clock = now;
            world.kernel.rqs[0].fair_server.deadline_ns = 5000;
            world.kernel.fair_server_arm(&mut world.bench, Cpu(0))
        };
        assert_eq!([5999, 6000].map(armed), [true, false]);
    }

    /// With 1 ns left the period goes on, with nothing left the next one begins. Either way a
    /// server that has not run yet waits for zero laxity.
    #[test]
    fn a_server_is_replenished_when_nothing_is_left_and_waits_for_zero_laxity() {
        for (left_ns, expected_ns, periods) in [(1, 1, 0), (0, 50 * MS as i64, 1)] {
            let mut world = World::new("6.12", 1);
            world.spawn(Cpu(0));
            world.advance_to(MS);
            let server = &mut world.kernel.rqs[0].fair_server;
            (server.runtime_ns, server.defer_armed) = (left_ns, false);
            let deadline_ns = server.deadline_ns + periods * 1000 * MS;
            let kernel = &mut world.kernel;
            kernel.fair_server_replenish(&mut world.bench, Cpu(0));
            let server = &world.kernel.rqs[0].fair_server;
            assert_eq!(
                (server.runtime_ns, server.deadline_ns),
                (expected_ns, deadline_ns)
            );
            assert!(server.defer_armed && server.throttled);
        }
    }

    /// The deadline passed at 0.9 s, and the budget is used up at 2 s. Up to 6.16 the server is
    /// queued anew; from 6.17 on it waits for zero laxity of a new period.
    #[test]
    fn a_server_that_is_late_begins_a_new_period_from_6_17() {
        for (version, waits) in [("6.16", false), ("6.17", true), ("7.3", true)] {
            let mut world = World::new(version, 1);
            world.spawn(Cpu(0));
            let now = 2000 * MS;
            world.bench.now = now;
            let rq = &mut world.kernel.rqs[0];
            rq.clock = now;
            let server = &mut rq.fair_server;
            (server.runtime_ns, server.deadline_ns) = (0, 900 * MS);
            (server.throttled, server.defer_armed) = (false, false);
            world.kernel.fair_server_spent(&mut world.bench, Cpu(0));
            let server = &world.kernel.rqs[0].fair_server;
            assert_eq!(server.deadline_ns, now + 1000 * MS, "{version}");
            assert_eq!(server.throttled, waits, "{version}");
            assert_eq!(server.defer_armed, waits, "{version}");
        }
    }
}
