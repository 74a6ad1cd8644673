//! Delayed dequeue (6.12): an entity that blocks while it is owed less than nothing stays queued.
//!
//! Its debt (negative lag) is worked off in virtual time while it is on the queue; it is taken off
//! when it would be picked, or revived when it wakes before. Worked example: A and B of equal
//! weight; A has run 3 ms ahead and blocks with lag −1.5 ms. It stays, but does not count as
//! runnable. B runs; after 3 ms V has reached A's vruntime, A would be picked, and only then leaves
//! with lag 0.

use super::load::LoadUpdate;
use super::{DequeueFlags, EnqueueFlags};
use crate::ids::{CfsRqId, EntityId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::Platform;

impl Kernel {
    /// `set_delayed`.
    pub(super) fn set_delayed(&mut self, se: EntityId) {
        self.count_at_preferred(se, false);
        self.entities[se].sched_delayed = true;
        self.change_h_nr_runnable(se, false);
    }

    /// `clear_delayed`.
    pub(crate) fn clear_delayed(&mut self, se: EntityId) {
        self.entities[se].sched_delayed = false;
        self.count_at_preferred(se, true);
        self.change_h_nr_runnable(se, true);
    }

    /// A delayed task does not want to run: it does not count as runnable on any level. Up to
    /// 6.12.6 it did.
    fn change_h_nr_runnable(&mut self, se: EntityId, add: bool) {
        if self.entities[se].task().is_none() || self.rules.delayed_count_as_runnable {
            return;
        }
        let mut level = Some(se);
        while let Some(se) = level {
            let q = self.entities[se].cfs_rq;
            let count = &mut self.cfs_rqs[q].h_nr_runnable;
            if add {
                *count = count.wrapping_add(1);
            } else {
                *count -= 1;
            }
            if self.stops_at_throttled(q) {
                break;
            }
            level = self.entities[se].parent;
        }
    }

    /// `finish_delayed_dequeue_entity`: the counters already say that it sleeps.
    pub(super) fn finish_delayed_dequeue_entity(&mut self, se: EntityId) {
        self.clear_delayed(se);
        let entity = &mut self.entities[se];
        let zeroes = self.rules.features.delay_zero && !self.rules.delayed_lag_never_falls;
        if zeroes && entity.vlag > 0 {
            reached(Mark::DelayZero);
            entity.vlag = 0;
        }
    }

    /// The delayed dequeue of an entity takes place.
    #[inline(never)]
    pub(crate) fn dequeue_delayed_entity<P: Platform>(&mut self, p: &mut P, se: EntityId) {
        self.dequeue_entities(p, se, DequeueFlags::SLEEP | DequeueFlags::DELAYED);
    }

    /// Takes a delayed entity out of the order and places it by its lag.
    fn place_delayed_again(&mut self, q: CfsRqId, se: EntityId) {
        let is_curr = self.cfs_rqs[q].curr == Some(se);
        let counted = u32::from(!self.rules.flat_pick);
        self.cfs_rqs[q].nr_queued -= counted;
        if !is_curr {
            self.timeline_remove(q, se);
        }
        self.place_entity(q, se, EnqueueFlags::NONE);
        if !is_curr {
            self.timeline_insert(q, se);
        }
        self.cfs_rqs[q].nr_queued += counted;
    }

    /// A delayed entity is wanted again before it was taken off (`requeue_delayed_entity`).
    pub(crate) fn requeue_delayed_entity<P: Platform>(&mut self, p: &mut P, se: EntityId) {
        let q = self.order_of(se);
        reached(Mark::RequeueDelayed);
        if self.rules.requeue_charges_running {
            self.update_curr(p, q);
        }
        let placed_again = if self.rules.delayed_lag_never_falls {
            self.update_entity_lag(q, se)
        } else if self.rules.features.delay_zero {
            self.update_entity_lag(q, se);
            let entity = &mut self.entities[se];
            let ahead = entity.vlag > 0;
            entity.vlag = entity.vlag.min(0);
            ahead
        } else {
            false
        };
        if placed_again {
            self.place_delayed_again(q, se);
        }
        // With the flat pick the kernel ages the root queue here, by its clock, not the task's own
        // queue.
        self.update_load_avg(p, q, se, LoadUpdate::Age);
        self.clear_delayed(se);
    }
}
