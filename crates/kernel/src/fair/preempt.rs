//! Whether a task that wakes takes the CPU from the one that runs.

use crate::balance::Why;
use crate::cfs_rq::before;
use crate::explain::Decision;
use crate::ids::{CfsRqId, Cpu, EntityId, TaskId};
use crate::kernel::{Arrival, Kernel};
use crate::model::{Mark, reached};
use crate::platform::Platform;
use crate::rules::hooks::Preemption;
use crate::rules::{FairClass, Protection, ThrottleModel};
use crate::task::Policy;

/// Why the running task loses its protection.
pub(super) enum Unprotected {
    /// Others are due.
    Plain,
    /// This one asks for less.
    ByShorter(EntityId),
}

/// Outcome of a wakeup whose task may be the next buddy.
pub(super) enum Buddy {
    /// It preempts if a pick would choose it.
    AskPick,
    /// It preempts.
    Preempts,
    /// It waits until the running task sleeps or has run for long.
    Waits,
}

impl Kernel {
    /// Climbs until both entities are on the same queue (`find_matching_se`).
    pub(crate) fn find_matching_se(
        &self,
        mut a: EntityId,
        mut b: EntityId,
    ) -> (EntityId, EntityId) {
        let level = |mut se: EntityId| {
            let mut depth = 0;
            while let Some(parent) = self.entities[se].parent {
                se = parent;
                depth += 1;
            }
            depth
        };
        let parent = |se: EntityId| {
            self.entities[se]
                .parent
                .expect("deeper levels have parents")
        };
        let (mut depth_a, mut depth_b) = (level(a), level(b));
        while depth_a > depth_b {
            a = parent(a);
            depth_a -= 1;
        }
        while depth_b > depth_a {
            b = parent(b);
            depth_b -= 1;
        }
        while self.entities[a].cfs_rq != self.entities[b].cfs_rq {
            a = parent(a);
            b = parent(b);
        }
        (a, b)
    }

    /// `check_preempt_wakeup_fair`: both are fair tasks of this CPU. In 7.0 and 7.1 the one that
    /// runs may be of a higher class, if it has just blocked and the CPU pulls the other.
    #[inline(never)]
    pub(crate) fn check_preempt_wakeup_fair<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        wakee: TaskId,
        arrival: Arrival,
    ) {
        let curr = self.rqs[cpu].curr;
        if P::EXPLAIN {
            self.domains.why = Why::default();
        }
        let rule = self.preempt_by_rule(p, cpu, wakee, arrival);
        reached(rule);
        if P::EXPLAIN {
            let rq = &self.rqs[cpu];
            let preempts = rq.need_resched || rq.need_resched_lazy;
            let siblings = self.domains.why.siblings.take();
            p.explain(
                cpu,
                Decision::Preempt {
                    wakee,
                    curr,
                    preempts,
                    rule,
                    siblings,
                },
            );
        }
    }

    /// Applies the first rule that fits and names it.
    fn preempt_by_rule<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        wakee: TaskId,
        arrival: Arrival,
    ) -> Mark {
        let curr = self.rqs[cpu].curr;
        let mut se = self.tasks[curr].se;
        let mut pse = self.tasks[wakee].se;
        if se == pse {
            return Mark::WokeItself;
        }
        if self.wakee_is_throttled(wakee) {
            return Mark::WakeeThrottled;
        }
        if self.rules.flat_pick {
            return self.check_preempt_flat(p, cpu, wakee, arrival);
        }
        let cfs = self.rules.fair == FairClass::Cfs;
        let marked = self.rules.features.next_buddy
            && !self.rules.forks_do_not_preempt
            && arrival != Arrival::Fork
            && !self.entities[pse].sched_delayed
            && (!cfs || self.has_many_tasks(se));
        if marked {
            self.set_next_buddy(pse);
        }
        if self.rqs[cpu].need_resched {
            return Mark::ReschedPending;
        }
        let policy_idle = |task: TaskId| self.tasks[task].policy == Policy::Idle;
        if self.rules.idle_policy_gives_way && policy_idle(curr) && !policy_idle(wakee) {
            self.preempt_current(p, cpu, se);
            return Mark::IdlePolicyGivesWay;
        }
        if self.own_rule_decides(p, cpu, [wakee, curr]) {
            return Mark::OwnPreempt;
        }
        if !self.rules.features.wakeup_preemption {
            return Mark::NoWakeupPreemption;
        }
        if self.rules.idle_policy_gives_way && self.tasks[wakee].policy != Policy::Normal {
            return Mark::BatchDoesNotPreempt;
        }
        let of_current = self.entities[se].cfs_rq;
        (se, pse) = self.find_matching_se(se, pse);
        match (self.rules.fair, self.se_is_idle(se), self.se_is_idle(pse)) {
            (_, false, true) => Mark::IdleGroupDoesNotPreempt,
            (FairClass::Cfs, true, false) => {
                self.preempt_current(p, cpu, se);
                Mark::IdleGroupGivesWay
            }
            (FairClass::Cfs, ..) => self.check_preempt_cfs(p, cpu, se, pse, marked),
            (FairClass::Eevdf, true, false) => {
                if self.rules.idle_preemption_cancels_protection {
                    // Not the queue of the entity: a group that is the buddy there stays it.
                    self.end_protection(of_current, se);
                }
                self.resched_curr_lazy(p, cpu);
                Mark::IdleGroupGivesWay
            }
            (FairClass::Eevdf, ..) => self.check_preempt_eevdf(p, cpu, wakee, arrival, se, pse),
        }
    }

    /// A wakee in a throttled hierarchy does not preempt; from 6.18 only one that is parked does
    /// not.
    fn wakee_is_throttled(&self, wakee: TaskId) -> bool {
        let task = &self.tasks[wakee];
        match self.rules.throttle_model {
            ThrottleModel::Task => task.throttled,
            ThrottleModel::Queue => {
                let q = self.entities[task.se].cfs_rq;
                self.cfs_rqs[q].throttle_count > 0
            }
        }
    }

    /// Whether the queue of an entity holds as many as fit the latency (`sched_nr_latency`).
    fn has_many_tasks(&self, se: EntityId) -> bool {
        let q = self.entities[se].cfs_rq;
        let nr_latency = self
            .rules
            .latency_ns
            .div_ceil(self.rules.min_granularity_ns);
        u64::from(self.cfs_rqs[q].nr_queued) >= nr_latency
    }

    #[inline(never)]
    fn check_preempt_cfs<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        se: EntityId,
        pse: EntityId,
        marked: bool,
    ) -> Mark {
        self.update_curr(p, self.entities[se].cfs_rq);
        self.note_siblings::<P>(se, pse);
        if !self.wakee_leads_clearly(se, pse) {
            return Mark::WakeeDoesNotLead;
        }
        if !marked {
            self.set_next_buddy(pse);
        }
        self.preempt_current(p, cpu, se);
        Mark::WakeeLeads
    }

    /// Whether a rule of one's own decides if `wakee` preempts `curr`; if so, what it decides is
    /// done.
    #[inline]
    pub(super) fn own_rule_decides<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        [wakee, curr]: [TaskId; 2],
    ) -> bool {
        let asked = || Preemption { cpu, wakee, curr };
        let Some(preempts) = self.rules.own.wakeup_preempt(self, asked) else {
            return false;
        };
        if preempts {
            self.preempt_current(p, cpu, self.tasks[curr].se);
        }
        true
    }

    /// Reschedules; on CFS the preempted task is likely to want its cache back, unless it is alone
    /// with few.
    pub(super) fn preempt_current<P: Platform>(&mut self, p: &mut P, cpu: Cpu, se: EntityId) {
        self.resched_curr(p, cpu);
        if self.rules.features.last_buddy
            && self.entities[se].on_rq
            && self.entities[se].task().is_some()
            && self.has_many_tasks(se)
        {
            self.set_last_buddy(se);
        }
    }

    fn set_last_buddy(&mut self, se: EntityId) {
        self.set_buddy(se, Self::may_be_buddy, |cfs_rq| &mut cfs_rq.last);
    }

    fn check_preempt_eevdf<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        wakee: TaskId,
        arrival: Arrival,
        se: EntityId,
        pse: EntityId,
    ) -> Mark {
        if self.tasks[wakee].policy != Policy::Normal {
            return Mark::BatchDoesNotPreempt;
        }
        let q = self.entities[se].cfs_rq;
        self.update_curr(p, q);
        self.note_siblings::<P>(se, pse);
        let shorter =
            self.rules.features.preempt_short && self.entities[pse].slice < self.entities[se].slice;
        if self.rules.forks_do_not_preempt && !shorter {
            if arrival == Arrival::Fork || self.entities[pse].sched_delayed {
                return Mark::ForkDoesNotPreempt;
            }
            match self.set_preempt_buddy(q, pse, arrival) {
                Buddy::Waits => return Mark::SyncDoesNotPreempt,
                Buddy::Preempts => {
                    self.resched_curr_lazy(p, cpu);
                    return Mark::WakeeWouldBePicked;
                }
                Buddy::AskPick => {}
            }
        }
        if self.rules.protection == Protection::Vprot {
            if self.would_pick(p, q, pse, !shorter) {
                if shorter {
                    reached(Mark::ShortPreempts);
                    self.end_protection(q, se);
                }
                self.resched_curr_lazy(p, cpu);
                return Mark::WakeeWouldBePicked;
            }
            if (shorter || self.rules.wakeups_heed_buddies) && self.rules.features.run_to_parity {
                reached(Mark::ShortShrinksProtection);
                self.update_protect_slice(q, se);
            }
            return Mark::WakeeWouldNotBePicked;
        }
        if shorter && self.may_preempt_short(q, se, pse) {
            reached(Mark::ShortPreempts);
            self.cancel_protect_slice(se);
        }
        if self.is_picked::<P>(q, self.pick_eevdf(q, true), pse) {
            self.resched_curr_lazy(p, cpu);
            return Mark::WakeeWouldBePicked;
        }
        Mark::WakeeWouldNotBePicked
    }

    /// NEXT_BUDDY from 6.19 on: the woken task is the buddy unless there is one with an earlier
    /// deadline (`set_preempt_buddy`).
    #[inline(always)]
    pub(super) fn set_preempt_buddy(
        &mut self,
        q: CfsRqId,
        pse: EntityId,
        arrival: Arrival,
    ) -> Buddy {
        match self.rules.features.next_buddy {
            true => self.set_preempt_buddy_of(q, pse, arrival),
            false => Buddy::AskPick,
        }
    }

    /// A new buddy that is woken by one who is about to sleep preempts if its deadline is earlier
    /// and the other one was charged long ago (`preempt_sync`).
    #[inline(never)]
    fn set_preempt_buddy_of(&mut self, q: CfsRqId, pse: EntityId, arrival: Arrival) -> Buddy {
        let deadline = |se: EntityId| self.entities[se].deadline;
        let is_before = |a: EntityId, b: EntityId| before(deadline(a), deadline(b));
        let next = self.cfs_rqs[q].next;
        if next.is_some_and(|next| is_before(next, pse)) {
            return Buddy::AskPick;
        }
        let curr = self.cfs_rqs[q].curr;
        let leads = curr.is_some_and(|curr| is_before(pse, curr));
        self.set_next_buddy(pse);
        let (Arrival::Sync { selected }, Some(curr)) = (arrival, curr) else {
            return Buddy::AskPick;
        };
        // Where it could have gone to other CPUs, less is asked for.
        let least_ns = self.rules.migration_cost_ns >> if selected { 2 } else { 0 };
        let clock = self.rqs[self.cfs_rqs[q].cpu].clock_task;
        let ran_ns = clock.saturating_sub(self.entities[curr].exec_start);
        match leads && ran_ns >= least_ns {
            true => Buddy::Preempts,
            false => Buddy::Waits,
        }
    }

    /// Whether the next pick from a queue would be this entity.
    pub(super) fn would_pick<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        pse: EntityId,
        protect: bool,
    ) -> bool {
        if !self.rules.wakeup_asks_pick {
            let buddy = match self.rules.wakeups_heed_buddies {
                true => self.eligible_buddy(q, protect),
                false => None,
            };
            let picked = buddy.or_else(|| self.pick_eevdf(q, protect));
            return self.is_picked::<P>(q, picked, pse);
        }
        while self.nr_competing(q) > 0 {
            // No entity is picked when a delayed one was taken off instead.
            let picked = self.pick_next_entity(p, q, protect);
            if picked.is_some() {
                return self.is_picked::<P>(q, picked, pse);
            }
        }
        false
    }

    /// An entity loses its protection, and from 7.1 on what speaks for it as a buddy of a queue.
    fn end_protection(&mut self, q: CfsRqId, se: EntityId) {
        self.cancel_protect_slice(se);
        if self.rules.short_requests_pass_buddies && self.entities[se].cfs_rq == q {
            self.clear_buddies(q, se);
        }
    }

    /// 6.12–6.16: `do_preempt_short` after the comparison of slices.
    fn may_preempt_short(&self, q: CfsRqId, se: EntityId, pse: EntityId) -> bool {
        let earlier = before(self.entities[pse].deadline, self.entities[se].deadline);
        self.entity_eligible(q, pse) && (earlier || !self.entity_eligible(q, se))
    }
}
