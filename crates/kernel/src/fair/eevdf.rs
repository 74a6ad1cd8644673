//! Earliest eligible virtual deadline first: V, lag, eligibility, protection and the pick (6.6 on).
//!
//! V is the weighted average vruntime of a queue, lag is V − v: what an entity is owed. An entity
//! is eligible while its lag is not negative; among the eligible ones the earliest deadline runs.
//!
//! Worked example: A (weight 1024, v = 10 ms, deadline 13 ms) and B (weight 1024, v = 14 ms,
//! deadline 12 ms). V = 12 ms, so A has lag +2 ms and is eligible, B has −2 ms and is not: A runs,
//! although B's deadline is earlier.

use crate::cfs_rq::{CfsRq, before};
use crate::entity::Entity;
use crate::ids::{CfsRqId, EntityId, Ns};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::rules::Protection;
use crate::table::Table;
use crate::weight::calc_delta_fair;

/// The running entity's part in Σ w·(v − v0) and Σ w, zero when it is not queued.
#[inline(always)]
fn with_curr(cfs_rq: &CfsRq, entities: &Table<Entity>) -> (i64, i64) {
    let mut sum = cfs_rq.avg_vruntime;
    let mut load = cfs_rq.avg_load as i64;
    if let Some(curr) = cfs_rq.curr {
        let curr = &entities[curr];
        if curr.on_rq {
            let weight = curr.h_load.in_sums();
            let key = curr.vruntime.wrapping_sub(cfs_rq.min_vruntime) as i64;
            sum = sum.wrapping_add(key.wrapping_mul(weight));
            load += weight;
        }
    }
    (sum, load)
}

/// Whether a key, the distance of a vruntime from the origin, is at or before V
/// (`vruntime_eligible`). With all bits of weights the product needs more than 64.
#[inline(always)]
fn is_eligible(sum: i64, key: i64, load: i64) -> bool {
    i128::from(sum) >= i128::from(key) * i128::from(load)
}

/// Moves the origin of Σ w·(v − v0). V does not depend on it; keeping it near V keeps the sum
/// small (`update_zero_vruntime`).
#[inline(always)]
pub(crate) fn update_zero_vruntime(cfs_rq: &mut CfsRq, origin: u64) {
    let delta = origin.wrapping_sub(cfs_rq.min_vruntime) as i64;
    let moved = delta.wrapping_mul(cfs_rq.avg_load as i64);
    cfs_rq.avg_vruntime = cfs_rq.avg_vruntime.wrapping_sub(moved);
    cfs_rq.min_vruntime = origin;
}

impl Kernel {
    /// V of a queue, rounded down (`avg_vruntime`).
    #[inline(always)]
    pub(crate) fn avg_vruntime(&self, q: CfsRqId) -> u64 {
        let cfs_rq = &self.cfs_rqs[q];
        let curr = cfs_rq.curr.map(|se| &self.entities[se]);
        let curr = curr.filter(|se| se.on_rq);
        // The average of one is that one.
        match (cfs_rq.timeline.nodes(), curr) {
            ([], None) => return cfs_rq.min_vruntime,
            ([], Some(only)) => return only.vruntime,
            ([only], None) => return only.vruntime,
            _ => {}
        }
        let (sum, load) = with_curr(cfs_rq, &self.entities);
        cfs_rq
            .min_vruntime
            .wrapping_add(sum.div_euclid(load) as u64)
    }

    /// Whether a vruntime is at or before V, without dividing (`vruntime_eligible`).
    #[inline]
    pub(crate) fn vruntime_eligible(&self, q: CfsRqId, vruntime: u64) -> bool {
        let cfs_rq = &self.cfs_rqs[q];
        let (sum, load) = with_curr(cfs_rq, &self.entities);
        let key = vruntime.wrapping_sub(cfs_rq.min_vruntime) as i64;
        is_eligible(sum, key, load)
    }

    /// `entity_eligible`.
    #[inline]
    pub(crate) fn entity_eligible(&self, q: CfsRqId, se: EntityId) -> bool {
        self.vruntime_eligible(q, self.entities[se].vruntime)
    }

    /// Virtual lag of an entity of a queue against V = `average`, bounded by two of its requests or
    /// a tick; in later stable kernels by the longest request queued and a tick (`entity_lag`).
    #[inline(always)]
    pub(crate) fn entity_lag(&self, q: CfsRqId, se: EntityId, average: u64) -> i64 {
        let entity = &self.entities[se];
        let lag = average.wrapping_sub(entity.vruntime) as i64;
        if lag == 0 {
            return 0;
        }
        let longest = if self.rules.lag_limit_by_longest {
            self.cfs_rq_max_slice(q) + self.rules.tick_ns
        } else {
            (2 * entity.slice).max(self.rules.tick_ns)
        };
        let limit = calc_delta_fair(longest, &entity.h_load) as i64;
        if lag.abs() > limit {
            reached(Mark::LagClamped);
        }
        lag.clamp(-limit, limit)
    }

    /// Number of entities that compete in a queue's virtual time, the running one included.
    #[inline(always)]
    pub(crate) fn nr_competing(&self, q: CfsRqId) -> u32 {
        let cfs_rq = &self.cfs_rqs[q];
        match self.rules.flat_pick {
            true => cfs_rq.h_nr_queued,
            false => cfs_rq.nr_queued,
        }
    }

    /// The queue in whose virtual time an entity competes: the one it is on, and with the flat pick
    /// the CPU's root queue.
    #[inline(always)]
    pub(crate) fn order_of(&self, se: EntityId) -> CfsRqId {
        let q = self.entities[se].cfs_rq;
        match self.rules.flat_pick {
            true => CfsRqId(self.cfs_rqs[q].cpu.0),
            false => q,
        }
    }

    /// V of a queue, which from 7.0 on becomes the origin (`avg_vruntime`).
    #[inline(always)]
    pub(crate) fn avg_vruntime_as_origin(&mut self, q: CfsRqId) -> u64 {
        let average = self.avg_vruntime(q);
        if self.rules.origin_follows_average {
            update_zero_vruntime(&mut self.cfs_rqs[q], average);
        }
        average
    }

    /// Saves the lag of an entity that is about to leave (`update_entity_lag`). Returns whether its
    /// vruntime now says something else: by a limit, or from 7.1 on because a delayed entity's lag
    /// has grown.
    #[inline(always)]
    pub(crate) fn update_entity_lag(&mut self, q: CfsRqId, se: EntityId) -> bool {
        let average = self.avg_vruntime_as_origin(q);
        let mut lag = self.entity_lag(q, se, average);
        let entity = &mut self.entities[se];
        if entity.sched_delayed && self.rules.delayed_lag_never_falls {
            reached(Mark::DelayedLagKept);
            lag = lag.max(entity.vlag);
            if self.rules.features.delay_zero {
                lag = lag.min(0);
            }
        }
        entity.vlag = lag;
        if self.rules.lag_overwrites_protection() {
            entity.vprot = lag as u64;
        }
        average.wrapping_sub(lag as u64) != entity.vruntime
    }

    /// Requests of the queued entities, the running one included.
    fn queued_slices(&self, q: CfsRqId) -> impl Iterator<Item = Ns> + '_ {
        let queued = self.cfs_rqs[q].timeline.nodes().iter();
        queued
            .map(|node| self.entities[node.entity].slice)
            .chain(self.running_slice(q))
    }

    /// Request of the running entity of a queue.
    fn running_slice(&self, q: CfsRqId) -> Option<Ns> {
        let running = self.cfs_rqs[q].curr?;
        let running = &self.entities[running];
        running.on_rq.then_some(running.slice)
    }

    /// Shortest request among the queued entities (`cfs_rq_min_slice`).
    #[inline(always)]
    pub(crate) fn cfs_rq_min_slice(&self, q: CfsRqId) -> Ns {
        if !self.custom_slices {
            return self.rules.base_slice_ns;
        }
        self.shortest_queued_slice(q)
    }

    #[inline(never)]
    fn shortest_queued_slice(&self, q: CfsRqId) -> Ns {
        match &self.slice_trees {
            Some(trees) => {
                let root = trees.root(q.index()).map(|root| root.0);
                self.running_slice(q).into_iter().chain(root).min()
            }
            None => self.queued_slices(q).min(),
        }
        .unwrap_or(Ns::MAX)
    }

    /// Longest request among the queued entities (`cfs_rq_max_slice`).
    #[inline(always)]
    fn cfs_rq_max_slice(&self, q: CfsRqId) -> Ns {
        if !self.custom_slices {
            return self.rules.base_slice_ns;
        }
        self.longest_queued_slice(q)
    }

    #[inline(never)]
    fn longest_queued_slice(&self, q: CfsRqId) -> Ns {
        match &self.slice_trees {
            Some(trees) => {
                let root = trees.root(q.index()).map(|root| root.1);
                self.running_slice(q).into_iter().chain(root).max()
            }
            None => self.queued_slices(q).max(),
        }
        .unwrap_or(0)
    }

    /// `protect_slice`: whether a running entity still has the protection it was picked with.
    #[inline]
    pub(crate) fn protect_slice(&self, se: EntityId) -> bool {
        let entity = &self.entities[se];
        match self.rules.protection {
            Protection::Vprot => before(entity.vruntime, entity.vprot),
            Protection::UntilDeadline => entity.vprot == entity.deadline,
        }
    }

    /// Whether picks honour that. Up to 6.16 it is RUN_TO_PARITY that they ask; later that feature
    /// bounds the protection itself.
    #[inline(always)]
    pub(crate) fn picks_honour_protection(&self) -> bool {
        self.rules.protection == Protection::Vprot || self.rules.features.run_to_parity
    }

    /// Whether an entity that runs still has its protection.
    pub fn is_protected(&self, se: EntityId) -> bool {
        self.protect_slice(se)
    }

    /// `set_protect_slice`: when an entity is picked.
    #[inline(always)]
    pub(crate) fn set_protect_slice(&mut self, q: CfsRqId, se: EntityId) {
        if self.rules.protection == Protection::UntilDeadline {
            let entity = &mut self.entities[se];
            entity.vprot = entity.deadline;
            return;
        }
        let mut slice = self.rules.normalized_base_slice_ns;
        if self.rules.features.run_to_parity {
            slice = self.cfs_rq_min_slice(q);
        }
        let until_ineligible =
            self.rules.protects_until_ineligible && self.rules.features.preempt_short;
        let ineligible = match until_ineligible {
            true => self.ineligible_vruntime(q),
            false => 0,
        };
        let entity = &mut self.entities[se];
        entity.vprot = entity.deadline;
        if slice < entity.slice {
            reached(Mark::VprotByShortest);
            let end = match until_ineligible {
                true => ineligible,
                false => protected_until(entity, slice),
            };
            entity.vprot = min_vruntime(entity.vprot, end);
        }
    }

    /// The first vruntime with which the running entity would not be eligible: V of the others, and
    /// one (`ineligible_vruntime`, 7.3).
    pub(crate) fn ineligible_vruntime(&self, q: CfsRqId) -> u64 {
        let cfs_rq = &self.cfs_rqs[q];
        let ahead = match cfs_rq.avg_load {
            0 => 0,
            load => cfs_rq.avg_vruntime.div_euclid(load as i64),
        };
        cfs_rq
            .min_vruntime
            .wrapping_add(ahead.wrapping_add(1) as u64)
    }

    /// A shorter request arrived but did not preempt: protection shrinks to its length
    /// (`update_protect_slice`, 6.17).
    pub(crate) fn update_protect_slice(&mut self, q: CfsRqId, se: EntityId) {
        if self.rules.protection == Protection::Vprot {
            let slice = self.cfs_rq_min_slice(q);
            let mut from = self.entities[se].vruntime;
            if self.rules.protects_until_ineligible {
                from = min_vruntime(from, self.avg_vruntime_as_origin(q));
            }
            let entity = &mut self.entities[se];
            let length = calc_delta_fair(slice, &entity.h_load);
            entity.vprot = min_vruntime(entity.vprot, from.wrapping_add(length));
            if self.rules.lag_overwrites_protection() {
                entity.vlag = entity.vprot as i64;
            }
        }
    }

    /// `cancel_protect_slice`.
    pub(crate) fn cancel_protect_slice(&mut self, se: EntityId) {
        if self.protect_slice(se) {
            let entity = &mut self.entities[se];
            entity.vprot = match self.rules.protection {
                Protection::Vprot => entity.vruntime,
                // Any value but the deadline ends the protection.
                Protection::UntilDeadline => entity.deadline.wrapping_add(1),
            };
            if self.rules.lag_overwrites_protection() {
                entity.vlag = entity.vprot as i64;
            }
        }
    }

    /// Earliest eligible deadline of a queue (`pick_eevdf`). `protect` = honour the running
    /// entity's protection. `None` only for an empty queue.
    #[inline(always)]
    pub(crate) fn pick_eevdf(&self, q: CfsRqId, protect: bool) -> Option<EntityId> {
        if let Some(own) = self.own_pick(q, protect) {
            return Some(own);
        }
        let cfs_rq = &self.cfs_rqs[q];
        let first = cfs_rq.timeline.first().map(|node| node.entity);
        let curr = cfs_rq.curr.filter(|se| self.entities[se].on_rq);
        if self.nr_competing(q) == 1 {
            reached(Mark::OnlyEntity);
            return curr.or(first);
        }
        let (sum, load) = with_curr(cfs_rq, &self.entities);
        let origin = cfs_rq.min_vruntime;
        let eligible = |vruntime: u64| is_eligible(sum, vruntime.wrapping_sub(origin) as i64, load);
        let curr = curr.filter(|se| eligible(self.entities[se].vruntime));
        if let Some(se) = curr
            && protect
            && self.picks_honour_protection()
            && self.protect_slice(se)
        {
            reached(Mark::ParityProtected);
            return curr;
        }
        let best = cfs_rq
            .timeline
            .nodes()
            .iter()
            .find(|node| eligible(node.vruntime));
        match (best, curr) {
            (Some(node), Some(se)) if before(self.entities[se].deadline, node.key) => {
                reached(Mark::CurrentEarlier);
                curr
            }
            (Some(node), _) => {
                reached(Mark::EarliestDeadline);
                Some(node.entity)
            }
            // Rounding can leave no entity eligible; then the first in line is as good as any.
            (None, _) => curr.or(first),
        }
    }
}

/// Virtual time at which `slice` of real time will have been run.
#[inline]
fn protected_until(entity: &Entity, slice: Ns) -> u64 {
    entity
        .vruntime
        .wrapping_add(calc_delta_fair(slice, &entity.h_load))
}

#[inline(always)]
fn min_vruntime(a: u64, b: u64) -> u64 {
    if before(a, b) { a } else { b }
}

#[cfg(test)]
mod tests {
    use crate::ids::CfsRqId;
    use crate::tests::world::World;

    #[test]
    fn a_queue_without_entities_has_no_longest_request() {
        let world = World::new("6.18", 1);
        assert_eq!(world.kernel.longest_queued_slice(CfsRqId(0)), 0);
    }
}
