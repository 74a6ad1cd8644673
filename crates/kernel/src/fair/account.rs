//! Charging the time an entity ran.
//!
//! Worked example: a nice-5 task (weight 335) ran 1 ms on a queue with a 2.8 ms request. Its
//! vruntime grows by 3,056,716 ns; if that passes its deadline the next one lies 2.8 ms · 1024 /
//! 335 = 8.56 ms of virtual time ahead, and another task may be due.

use crate::cfs_rq::{CfsRq, before};
use crate::entity::Owner;
use crate::ids::{CfsRqId, Cpu, EntityId, GroupId, Ns};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::Platform;
use crate::rules::hooks::Queued;
use crate::rules::{FairClass, Protection};
use crate::weight::calc_delta_fair;

impl Kernel {
    /// Brings the clocks of a CPU's run queue to now (`update_rq_clock`). Time spent by other
    /// operations may already lie ahead; a clock never goes back.
    #[inline]
    pub(crate) fn update_rq_clock<P: Platform>(&mut self, p: &P, cpu: Cpu) {
        let now = p.now(self.here);
        let rq = &mut self.rqs[cpu];
        if now <= rq.clock {
            // Where going idle did not, the load-tracking clock catches up even if no time passed.
            if now == rq.clock && rq.curr_is_idle() && rq.clock_pelt != rq.clock_task {
                rq.sync_clock_pelt();
            }
            // Stolen time is looked at, too, and all of it is more than the clock advanced.
            if now == rq.clock && rq.stolen_ns > 0 {
                self.take_nontask_time(cpu, 0);
            }
            return;
        }
        let mut delta = now - rq.clock;
        rq.clock = now;
        if rq.nontask_ns > 0 {
            delta = self.take_nontask_time(cpu, delta);
        }
        let rq = &mut self.rqs[cpu];
        rq.clock_task += delta;
        rq.update_clock_pelt(delta);
    }

    /// Charges the running entity of a queue up to now (`update_curr`).
    #[inline(always)]
    pub(crate) fn update_curr<P: Platform>(&mut self, p: &mut P, q: CfsRqId) {
        let cfs_rq = &self.cfs_rqs[q];
        if let Some(curr) = cfs_rq.h_curr {
            // Half of all calls follow another one at the same instant.
            let now = self.rqs[cfs_rq.cpu].clock_task;
            if now > self.entities[curr].exec_start {
                self.charge_curr(p, q, cfs_rq.cpu, curr);
            }
        }
    }

    #[inline(never)]
    fn charge_curr<P: Platform>(&mut self, p: &mut P, q: CfsRqId, cpu: Cpu, curr: EntityId) {
        let now = self.rqs[cpu].clock_task;
        let entity = &mut self.entities[curr];
        let delta = now - entity.exec_start;
        reached(Mark::UpdateCurr);
        entity.exec_start = now;
        entity.sum_exec_runtime += delta;
        if self.cache.active
            && let Owner::Task(task) = entity.owner
        {
            self.account_mm_sched(p, cpu, task, delta);
        }
        if self.rules.flat_pick {
            return self.charge_flat(p, q, cpu, curr, delta);
        }
        let entity = &mut self.entities[curr];
        entity.vruntime = entity
            .vruntime
            .wrapping_add(calc_delta_fair(delta, &entity.h_load));
        let mut server_used_up = false;
        if let Owner::Task(task) = entity.owner {
            let group = self.tasks[task].group;
            self.groups[group].usage_ns += delta;
            server_used_up = self.fair_server_update(cpu, delta);
        }
        let expired = self.rules.fair == FairClass::Eevdf && self.update_deadline(q, curr);
        let cfs_rq = &self.cfs_rqs[q];
        // A task that runs alone and without a limit delays no other.
        let eevdf_alone = self.rules.fair == FairClass::Eevdf && cfs_rq.nr_queued == 1;
        if server_used_up {
            self.fair_server_used_up(p, q, curr, delta, expired);
        } else if cfs_rq.runtime_enabled || !eevdf_alone {
            self.mind_others(p, q, curr, delta, expired);
        }
    }

    /// The fair server has to do something, too.
    #[cold]
    #[inline(never)]
    fn fair_server_used_up<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        curr: EntityId,
        delta: Ns,
        expired: bool,
    ) {
        self.fair_server_spent(p, self.cfs_rqs[q].cpu);
        self.mind_others(p, q, curr, delta, expired);
    }

    /// Effects of a charge of `delta` ns on waiting entities; `expired` = it used the request up.
    #[inline(never)]
    fn mind_others<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        curr: EntityId,
        delta: Ns,
        expired: bool,
    ) {
        if self.rules.fair == FairClass::Cfs {
            self.update_min_vruntime(q);
        }
        self.account_cfs_rq_runtime(p, q, delta);
        if self.rules.fair == FairClass::Eevdf {
            self.end_of_request(p, q, curr, expired);
        }
    }

    /// A request that is used up is renewed (`update_deadline`). Returns whether it was.
    #[inline(always)]
    pub(super) fn update_deadline(&mut self, q: CfsRqId, se: EntityId) -> bool {
        let entity = &self.entities[se];
        if before(entity.vruntime, entity.deadline) {
            return false;
        }
        self.renew_slice(q, se);
        let entity = &mut self.entities[se];
        reached(Mark::RequestRenewed);
        let request = calc_delta_fair(entity.slice, &entity.h_load);
        entity.deadline = entity.vruntime.wrapping_add(request);
        self.avg_vruntime_as_origin(q);
        true
    }

    /// Gives an entity without a request of its own the length that all have.
    #[inline(always)]
    pub(super) fn renew_slice(&mut self, q: CfsRqId, se: EntityId) {
        if self.entities[se].custom_slice {
            return;
        }
        let asked = || Queued {
            queue: q,
            entity: se,
        };
        let own = self.rules.own.slice(self, asked);
        self.custom_slices |= own.is_some();
        self.entities[se].slice = own.unwrap_or(self.rules.base_slice_ns);
    }

    fn end_of_request<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        curr: EntityId,
        expired: bool,
    ) {
        if self.cfs_rqs[q].nr_queued == 1 {
            return;
        }
        let cpu = self.cfs_rqs[q].cpu;
        let over = match self.rules.protection {
            Protection::Vprot => expired || !self.protect_slice(curr),
            Protection::UntilDeadline => {
                let short = !expired && self.did_preempt_short(q, curr);
                if short {
                    reached(Mark::PreemptShortOver);
                }
                expired || short
            }
        };
        if over {
            reached(Mark::RequestOver);
            self.resched_curr_lazy(p, cpu);
            self.clear_buddies(q, curr);
        }
    }

    /// 6.12–6.16: an entity whose protection a shorter request cancelled gives way once it is not
    /// eligible (`did_preempt_short`).
    fn did_preempt_short(&self, q: CfsRqId, curr: EntityId) -> bool {
        let entity = &self.entities[curr];
        self.rules.features.preempt_short
            && entity.vprot != entity.deadline
            && !self.entity_eligible(q, curr)
    }

    /// Forgets hints about an entity along the hierarchy (`clear_buddies`).
    #[inline]
    pub(crate) fn clear_buddies(&mut self, q: CfsRqId, se: EntityId) {
        if self.cfs_rqs[q].has_buddies {
            self.clear_all_buddies(q, se);
        }
    }

    #[inline(never)]
    fn clear_all_buddies(&mut self, q: CfsRqId, se: EntityId) {
        if self.rules.flat_pick {
            let cfs_rq = &mut self.cfs_rqs[q];
            cfs_rq.next = cfs_rq.next.filter(|next| *next != se);
            cfs_rq.has_buddies = cfs_rq.next.is_some();
            return;
        }
        self.clear_buddy(se, |cfs_rq| &mut cfs_rq.next);
        self.clear_buddy(se, |cfs_rq| &mut cfs_rq.last);
        self.clear_buddy(se, |cfs_rq| &mut cfs_rq.skip);
        let cfs_rq = &mut self.cfs_rqs[q];
        cfs_rq.has_buddies =
            cfs_rq.next.is_some() || cfs_rq.last.is_some() || cfs_rq.skip.is_some();
    }

    /// Hints at an entity and at those above it (`set_next_buddy` and its like) while `stays` says
    /// so.
    pub(crate) fn set_buddy(
        &mut self,
        se: EntityId,
        stays: impl Fn(&Self, EntityId) -> bool,
        hint: impl Fn(&mut CfsRq) -> &mut Option<EntityId>,
    ) {
        let mut level = Some(se);
        while let Some(se) = level.filter(|&se| stays(self, se)) {
            let entity = &self.entities[se];
            let cfs_rq = &mut self.cfs_rqs[entity.cfs_rq];
            *hint(cfs_rq) = Some(se);
            cfs_rq.has_buddies = true;
            level = entity.parent;
        }
    }

    /// Whether an entity may be hinted at: queued, and not of an idle group or task.
    pub(crate) fn may_be_buddy(&self, se: EntityId) -> bool {
        self.entities[se].on_rq && !self.se_is_idle(se)
    }

    fn clear_buddy(&mut self, se: EntityId, hint: impl Fn(&mut CfsRq) -> &mut Option<EntityId>) {
        let mut level = Some(se);
        while let Some(se) = level {
            let entity = &self.entities[se];
            let hint = hint(&mut self.cfs_rqs[entity.cfs_rq]);
            if *hint != Some(se) {
                break;
            }
            *hint = None;
            level = entity.parent;
        }
    }

    /// CPU time used by the tasks of a group and of the groups below it.
    pub fn group_usage_ns(&self, group: GroupId) -> Ns {
        let group = &self.groups[group];
        group.usage_ns
            + group
                .children
                .iter()
                .map(|&child| self.group_usage_ns(child))
                .sum::<Ns>()
    }
}
