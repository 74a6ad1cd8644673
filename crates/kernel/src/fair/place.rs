//! Where an entity enters a queue.
//!
//! EEVDF gives an entity back the lag it left with. Inserting an entity with lag moves V towards
//! it, which would shrink that lag; so the placed lag is inflated first. Worked example: a queue
//! with weight W = 1024 and V = 100 ms; an entity of weight w = 1024 returns with lag 1 ms.
//! Inflated: 1 · (1024 + 1024) / 1024 = 2 ms, so v = 98 ms. Now V is (100 + 98) / 2 = 99 ms and the
//! lag 1 ms.

use super::EnqueueFlags;
use super::eevdf::update_zero_vruntime;
use crate::cfs_rq::{CfsRq, Node};
use crate::entity::Entity;
use crate::ids::{CfsRqId, EntityId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::rules::hooks::Queued;
use crate::rules::{FairClass, Reweight};
use crate::weight::calc_delta_fair;

/// `__enqueue_entity`.
#[inline(always)]
fn enqueue_in_order(cfs_rq: &mut CfsRq, entity: &Entity, se: EntityId, class: FairClass) {
    let key = match class {
        FairClass::Cfs => entity.vruntime,
        FairClass::Eevdf => {
            let weight = entity.h_load.in_sums();
            let key = entity.vruntime.wrapping_sub(cfs_rq.min_vruntime) as i64;
            // Like the kernel's, the sum of very light and very heavy entities may wrap from 7.1
            // on.
            cfs_rq.avg_vruntime = cfs_rq.avg_vruntime.wrapping_add(key.wrapping_mul(weight));
            cfs_rq.avg_load += weight as u64;
            entity.deadline
        }
    };
    cfs_rq.timeline.insert(Node {
        key,
        vruntime: entity.vruntime,
        entity: se,
    });
}

/// `__dequeue_entity`.
#[inline(always)]
fn dequeue_in_order(cfs_rq: &mut CfsRq, entity: &Entity, se: EntityId, class: FairClass) {
    let key = match class {
        FairClass::Cfs => entity.vruntime,
        FairClass::Eevdf => {
            let weight = entity.h_load.in_sums();
            let key = entity.vruntime.wrapping_sub(cfs_rq.min_vruntime) as i64;
            cfs_rq.avg_vruntime = cfs_rq.avg_vruntime.wrapping_sub(key.wrapping_mul(weight));
            cfs_rq.avg_load -= weight as u64;
            entity.deadline
        }
    };
    cfs_rq.timeline.remove(key, se);
}

impl Kernel {
    /// Puts a queued, not running entity into the order of its queue.
    #[inline(always)]
    pub(crate) fn timeline_insert(&mut self, q: CfsRqId, se: EntityId) {
        let cfs_rq = &mut self.cfs_rqs[q];
        enqueue_in_order(cfs_rq, &self.entities[se], se, self.rules.fair);
        self.slice_queued(q, se);
        self.order_changed(q);
    }

    /// An entity entered or left the order of its queue, which its origin follows in some releases.
    /// Where it is shows when the queue is empty; so it need not follow while many are in line.
    #[inline(always)]
    fn order_changed(&mut self, q: CfsRqId) {
        if self.rules.origin_follows_order && self.cfs_rqs[q].timeline.nodes().len() < 2 {
            let average = self.avg_vruntime(q);
            update_zero_vruntime(&mut self.cfs_rqs[q], average);
        }
    }

    /// The same in the tree that requests are looked up in.
    #[inline(always)]
    pub(super) fn slice_queued(&mut self, q: CfsRqId, se: EntityId) {
        if let Some(trees) = &mut self.slice_trees {
            trees.insert(q.index(), se, &self.entities);
        }
    }

    /// … and out of it.
    #[inline(always)]
    pub(super) fn slice_left(&mut self, q: CfsRqId, se: EntityId) {
        if let Some(trees) = &mut self.slice_trees {
            trees.remove(q.index(), se, &self.entities);
        }
    }

    /// Takes a queued, not running entity out of the order.
    #[inline(always)]
    pub(crate) fn timeline_remove(&mut self, q: CfsRqId, se: EntityId) {
        let cfs_rq = &mut self.cfs_rqs[q];
        dequeue_in_order(cfs_rq, &self.entities[se], se, self.rules.fair);
        self.slice_left(q, se);
        self.order_changed(q);
    }

    /// `place_entity`.
    #[inline(always)]
    pub(crate) fn place_entity(&mut self, q: CfsRqId, se: EntityId, flags: EnqueueFlags) {
        match self.rules.fair {
            FairClass::Cfs => {
                if flags.has(EnqueueFlags::WAKEUP) || flags.has(EnqueueFlags::INITIAL) {
                    self.place_entity_cfs(q, se, flags);
                }
            }
            FairClass::Eevdf => self.place_entity_eevdf(q, se, flags),
        }
    }

    #[inline(always)]
    fn place_entity_eevdf(&mut self, q: CfsRqId, se: EntityId, flags: EnqueueFlags) {
        let average = self.avg_vruntime_as_origin(q);
        let (mut lag, heavy) = self.inflated_lag(q, se);
        let asked = || Queued {
            queue: q,
            entity: se,
        };
        if let Some(own) = self.rules.own.place_entity(self, asked) {
            lag = own;
        }
        self.renew_slice(q, se);
        let features = &self.rules.features;
        let entity = &mut self.entities[se];
        entity.vruntime = average.wrapping_sub(lag as u64);
        if heavy && self.rules.origin_follows_average {
            // It will pull V to itself.
            let origin = entity.vruntime;
            update_zero_vruntime(&mut self.cfs_rqs[q], origin);
        }
        let entity = &mut self.entities[se];
        // From 6.13 what a new weight made relative is always placed so; the feature only says who
        // leaves that way.
        let keeps_rest = features.place_rel_deadline || self.rules.reweight == Reweight::PlaceAgain;
        if keeps_rest && entity.rel_deadline {
            entity.deadline = entity.deadline.wrapping_add(entity.vruntime);
            reached(Mark::PlaceRelDeadline);
            entity.rel_deadline = false;
            return;
        }
        let mut request = calc_delta_fair(entity.slice, &entity.h_load);
        let halved = features.place_deadline_initial && self.rules.first_request_halved;
        if halved && flags.has(EnqueueFlags::INITIAL) {
            reached(Mark::PlaceInitial);
            request /= 2;
        }
        entity.deadline = entity.vruntime.wrapping_add(request);
    }

    /// The lag to place an entity with, and whether it outweighs all others.
    #[inline(always)]
    fn inflated_lag(&self, q: CfsRqId, se: EntityId) -> (i64, bool) {
        let cfs_rq = &self.cfs_rqs[q];
        let entity = &self.entities[se];
        let alone = match self.rules.flat_pick {
            true => {
                let curr = cfs_rq.curr.map(|se| &self.entities[se]);
                cfs_rq.timeline.is_empty() && curr.is_none_or(|curr| !curr.on_rq)
            }
            false => cfs_rq.nr_queued == 0,
        };
        if !self.rules.features.place_lag || alone || entity.vlag == 0 {
            return (0, false);
        }
        let mut load = cfs_rq.avg_load as i64;
        if let Some(curr) = cfs_rq.curr {
            let curr = &self.entities[curr];
            if curr.on_rq {
                load += curr.h_load.in_sums();
            }
        }
        let own = entity.h_load.in_sums();
        reached(Mark::PlaceLag);
        // The same number as long as no product overflows, which those of light tasks do.
        let inflated = match self.rules.lag_inflated_in_parts {
            true => entity.vlag + entity.vlag.wrapping_mul(own) / load.max(1),
            false => entity.vlag.wrapping_mul(load + own) / load.max(1),
        };
        (inflated, own > load)
    }
}

#[cfg(test)]
mod tests {
    use crate::ids::{CfsRqId, Cpu, EntityId, GroupId};
    use crate::task::Policy;
    use crate::tests::world::World;

    /// Beside one task of nice 0 each lag is inflated by (1 + weight / 1024), and only a heavier
    /// task outweighs the other: nice −1 weighs 1277.
    #[test]
    fn an_equal_does_not_outweigh_the_one_that_runs() {
        for (nice, heavier) in [(0, false), (-1, true)] {
            let mut world = World::new("6.12", 1);
            world.spawn(Cpu(0));
            let task = world.spawn_in(GroupId::ROOT, Cpu(0), Policy::Normal, nice);
            let se = world.kernel.tasks[task].se;
            // As if it was about to come.
            world.kernel.cfs_rqs[0].avg_load = 0;
            world.kernel.entities[se].vlag = 1024;
            let (_, outweighs) = world.kernel.inflated_lag(CfsRqId(0), se);
            assert_eq!(outweighs, heavier, "{nice}");
        }
    }

    /// A task of nice 19 beside one of nice 0, with a lag of 2^46 ns: times all weights it is
    /// beyond 63 bits, times the light one's it is not.
    #[test]
    fn a_large_lag_is_inflated_in_parts_from_7_3_on() {
        for (version, exact) in [("7.2", false), ("7.3", true)] {
            let mut world = World::new(version, 1);
            let runs = world.spawn(Cpu(0));
            let task = world.spawn_in(GroupId::ROOT, Cpu(0), Policy::Normal, 19);
            let kernel = &mut world.kernel;
            let [runs, se] = [runs, task].map(|task| kernel.tasks[task].se);
            kernel.cfs_rqs[0].avg_load = 0;
            kernel.entities[se].vlag = 1 << 46;
            let weight = |se: EntityId| i128::from(kernel.entities[se].h_load.in_sums());
            let [load, own] = [runs, se].map(weight);
            let lag = (1 << 46) + (1 << 46) * own / load;
            let (inflated, _) = kernel.inflated_lag(CfsRqId(0), se);
            let found = i128::from(inflated) == lag;
            assert_eq!(found, exact, "{version}: {inflated} of {lag}");
        }
    }
}
