//! How much of its parent a group may claim on one CPU.
//!
//! `cpu.shares` is a weight for the whole group; each CPU's group entity gets the part that
//! corresponds to the load the group has there. Worked example: a group with shares 1024 and load
//! 1024 on each of two CPUs has `tg->load_avg` 2048, so each entity weighs
//! 1024 · 1024 / 2048 = 512.

use super::load::{dequeue_load_avg, enqueue_load_avg};
use crate::entity::Entity;
use crate::ids::{CfsRqId, EntityId, GroupId, Ns};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Access, Line, Op, Platform};
use crate::rules::hooks::GroupQueue;
use crate::rules::{CgroupMode, FairClass, Protection, Reweight, ThrottleModel};
use crate::weight::LoadWeight;
use schedcast_base::limits::SHARES_MIN;

/// Signed `value · old / new`, truncated like the kernel's `div_s64`.
#[inline]
pub(super) fn rescale(value: i64, old: u64, new: u64) -> i64 {
    // An entity that was alone has no lag, and a product that is zero needs no division.
    if value == 0 {
        return 0;
    }
    // Nearly always 64 bits are enough, and a division of 128 is ten times slower.
    if let (Some(product), Ok(new)) = (value.checked_mul(old as i64), i64::try_from(new)) {
        return product / new;
    }
    rescale_wide(value, old, new)
}

#[cold]
#[inline(never)]
fn rescale_wide(value: i64, old: u64, new: u64) -> i64 {
    (i128::from(value) * i128::from(old) / i128::from(new)) as i64
}

impl Kernel {
    /// Adds this queue's change to `tg->load_avg` when it is worth a write
    /// (`update_tg_load_avg`).
    pub(crate) fn update_tg_load_avg<P: Platform>(&mut self, p: &mut P, q: CfsRqId) {
        let cfs_rq = &mut self.cfs_rqs[q];
        if cfs_rq.group == GroupId::ROOT {
            return;
        }
        let mut written = None;
        if self.rules.tg_load_avg_interval_ns > 0 {
            let now: Ns = match self.rules.tg_load_avg_by_queue_clock {
                true => self.rqs[cfs_rq.cpu].clock,
                false => p.now(self.here),
            };
            let last = cfs_rq.last_update_tg_load_avg_ns;
            if last
                .is_some_and(|last| now.saturating_sub(last) < self.rules.tg_load_avg_interval_ns)
            {
                reached(Mark::TgLoadRateLimit);
                return;
            }
            written = Some(now);
        }
        let delta = cfs_rq.avg.load_avg as i64 - cfs_rq.tg_load_avg_contrib as i64;
        let runnable = cfs_rq.avg.runnable_avg as i64 - cfs_rq.tg_runnable_avg_contrib as i64;
        let counts_runnable = self.rules.cgroup_mode != CgroupMode::Smp || self.rules.flat_pick;
        let worth_it = delta.unsigned_abs() > cfs_rq.tg_load_avg_contrib / 64
            || counts_runnable && runnable.unsigned_abs() > cfs_rq.tg_runnable_avg_contrib / 64;
        if worth_it {
            reached(Mark::TgLoadWritten);
            p.touch(self.here, Line::GroupLoadAvg(cfs_rq.group), Access::Write);
            let group = &mut self.groups[cfs_rq.group];
            group.load_avg = group.load_avg.saturating_add_signed(delta);
            group.load_avg_writes += 1;
            group.runnable_avg = group.runnable_avg.saturating_add_signed(runnable);
            cfs_rq.tg_runnable_avg_contrib = cfs_rq.avg.runnable_avg;
            cfs_rq.tg_load_avg_contrib = cfs_rq.avg.load_avg;
            cfs_rq.last_update_tg_load_avg_ns = written;
        } else {
            reached(Mark::TgLoadSmallChange);
        }
    }

    /// `calc_group_shares`: the scaled weight of a group entity.
    #[inline(always)]
    pub(crate) fn calc_group_shares(&self, q: CfsRqId) -> u64 {
        let cfs_rq = &self.cfs_rqs[q];
        let asked = || GroupQueue {
            group: cfs_rq.group,
            queue: q,
        };
        if let Some(weight) = self.rules.own.group_weight(self, asked) {
            return weight.max(SHARES_MIN);
        }
        let group = &self.groups[cfs_rq.group];
        if self.rules.cgroup_mode != CgroupMode::Smp {
            return self.shares_by_mode(q);
        }
        // With one CPU the group's load is that of its queue, if that is not empty.
        if self.rqs.len() == 1 && cfs_rq.load.weight > 0 {
            return group.shares;
        }
        let mut load = cfs_rq.load.unscaled();
        if self.rules.shares_from_load_avg {
            load = load.max(cfs_rq.avg.load_avg);
        }
        reached(Mark::GroupShares);
        let tg_weight = (group.load_avg + load).saturating_sub(cfs_rq.tg_load_avg_contrib);
        let shares = group.shares * load;
        shares
            .checked_div(tg_weight)
            .unwrap_or(shares)
            .clamp(SHARES_MIN, group.shares)
    }

    /// The same where groups may weigh more than their shares (7.3).
    #[inline(never)]
    fn shares_by_mode(&self, q: CfsRqId) -> u64 {
        const NICE_MINUS_20: u64 = 88_761 << 10;
        let group = &self.groups[self.cfs_rqs[q].group];
        let shares = group.shares;
        // Runnable averages are 1024 for each task.
        let tasks = (group.runnable_avg >> 10).max(1);
        let cpus = u64::from(group.nr_cpus.max(1));
        reached(Mark::GroupMode);
        let (sum, most) = match self.rules.cgroup_mode {
            CgroupMode::Up => return shares,
            CgroupMode::Smp => (shares, shares),
            CgroupMode::Concur => (shares * tasks.min(cpus), shares * tasks.min(cpus)),
            CgroupMode::Max => (shares * cpus, NICE_MINUS_20),
            CgroupMode::Tasks => (shares * tasks, shares * tasks),
        };
        let cfs_rq = &self.cfs_rqs[q];
        let load = cfs_rq.load.unscaled().max(cfs_rq.avg.load_avg);
        let all = (group.load_avg + load).saturating_sub(cfs_rq.tg_load_avg_contrib);
        let part = (sum * load).checked_div(all).unwrap_or(sum * load);
        part.clamp(SHARES_MIN, most)
    }

    /// Recomputes a group entity's weight (`update_cfs_group`).
    #[inline(always)]
    pub(crate) fn update_cfs_group<P: Platform>(&mut self, p: &mut P, se: EntityId) {
        if let Some(child) = self.entities[se].my_q() {
            self.update_group_entity(p, se, child);
        }
    }

    #[inline(always)]
    pub(crate) fn update_group_entity<P: Platform>(
        &mut self,
        p: &mut P,
        se: EntityId,
        child: CfsRqId,
    ) {
        let cfs_rq = &self.cfs_rqs[child];
        if self.rules.skip_empty_group_reweight && cfs_rq.load.weight == 0 {
            reached(Mark::EmptyGroupKeepsWeight);
            return;
        }
        if self.rules.throttle_model == ThrottleModel::Queue && cfs_rq.throttle_count > 0 {
            reached(Mark::ThrottledGroupKeepsWeight);
            return;
        }
        p.spend(self.here, Op::UpdateCfsGroup, 1);
        p.touch(self.here, Line::GroupLoadAvg(cfs_rq.group), Access::Read);
        let shares = self.calc_group_shares(child);
        let entity = &self.entities[se];
        if entity.load.weight != shares || !self.rules.reweight_only_on_change {
            let q = entity.cfs_rq;
            self.reweight_entity(p, q, se, LoadWeight::from_scaled(shares));
        }
    }

    /// Gives an entity a new weight wherever it is (`reweight_entity`).
    pub(crate) fn reweight_entity<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        se: EntityId,
        load: LoadWeight,
    ) {
        if self.rules.flat_pick {
            return self.reweight_load(q, se, load);
        }
        let is_curr = self.cfs_rqs[q].curr == Some(se);
        let on_rq = self.entities[se].on_rq;
        let eevdf = self.rules.fair == FairClass::Eevdf;
        let overwrites_protection = self.rules.reweight == Reweight::PlaceAgain
            && self.rules.protection == Protection::Vprot
            && !self.rules.reweight_scales_protection;
        let (mut average, mut lag, mut protected_for) = (0, 0, None);
        if on_rq {
            if is_curr || eevdf {
                // Time already run was run at the old weight.
                self.update_curr(p, q);
            }
            if eevdf {
                if matches!(self.rules.reweight, Reweight::ScaleLag | Reweight::Rescale) {
                    average = self.avg_vruntime_as_origin(q);
                    lag = self.entity_lag(q, se, average);
                }
                protected_for = self.protection_left(se, is_curr, average);
            }
            self.reweight_leave(q, se, is_curr);
        }
        let cfs_rq = &mut self.cfs_rqs[q];
        let entity = &mut self.entities[se];
        let old_weight = entity.load.weight;
        dequeue_load_avg(cfs_rq, entity);
        if eevdf {
            let reweight = self.rules.reweight;
            reweight_virtual_times(entity, reweight, average, lag, (old_weight, load.weight));
        }
        if on_rq && is_curr && overwrites_protection {
            // One place in memory for both.
            entity.vprot = entity.vlag as u64;
        }
        (entity.load, entity.h_load) = (load, self.rules.virtual_weight(&load));
        entity.avg.load_avg =
            entity.load.unscaled() * entity.avg.load_sum / u64::from(entity.avg.divider());
        enqueue_load_avg(cfs_rq, entity);
        if on_rq {
            self.reweight_return(q, se, is_curr);
        }
        if let Some(left) = protected_for {
            let entity = &mut self.entities[se];
            reached(Mark::ReweightScalesProtection);
            let left = rescale(left, old_weight, entity.load.weight);
            let from = match self.rules.reweight {
                Reweight::Rescale => average,
                _ => entity.vruntime,
            };
            entity.vprot = from.wrapping_add(left as u64);
        }
    }

    /// Virtual time for which the running entity still is protected, where a new weight rescales
    /// it: from its vruntime on, later from V = `average` on.
    #[inline(always)]
    fn protection_left(&self, se: EntityId, is_curr: bool, average: u64) -> Option<i64> {
        let entity = &self.entities[se];
        let from = match self.rules.reweight {
            Reweight::Rescale => average,
            _ => entity.vruntime,
        };
        (self.rules.reweight_scales_protection && is_curr && self.protect_slice(se))
            .then(|| entity.vprot.wrapping_sub(from) as i64)
    }

    #[inline(always)]
    fn reweight_leave(&mut self, q: CfsRqId, se: EntityId, is_curr: bool) {
        let places_again =
            self.rules.fair == FairClass::Eevdf && self.rules.reweight == Reweight::PlaceAgain;
        if places_again {
            self.update_entity_lag(q, se);
        }
        if self.rules.fair == FairClass::Eevdf && !is_curr {
            self.timeline_remove(q, se);
        }
        let cfs_rq = &mut self.cfs_rqs[q];
        let entity = &mut self.entities[se];
        if places_again {
            entity.deadline = entity.deadline.wrapping_sub(entity.vruntime);
            entity.rel_deadline = true;
            cfs_rq.nr_queued -= 1;
        }
        cfs_rq.load.sub(entity.load.weight);
    }

    #[inline(always)]
    fn reweight_return(&mut self, q: CfsRqId, se: EntityId, is_curr: bool) {
        let eevdf = self.rules.fair == FairClass::Eevdf;
        let places_again = eevdf && self.rules.reweight == Reweight::PlaceAgain;
        if places_again {
            self.place_entity(q, se, super::EnqueueFlags::NONE);
        }
        let cfs_rq = &mut self.cfs_rqs[q];
        let entity = &self.entities[se];
        cfs_rq.nr_queued += u32::from(places_again);
        cfs_rq.load.add(entity.load.weight);
        if eevdf && !is_curr {
            self.timeline_insert(q, se);
        }
    }
}

/// Lag, deadline and vruntime of an entity that gets a new weight: `weights` are the old and the
/// new one.
#[inline(always)]
fn reweight_virtual_times(
    entity: &mut Entity,
    reweight: Reweight,
    average: u64,
    lag: i64,
    (old, new): (u64, u64),
) {
    match reweight {
        Reweight::PlaceAgain => {
            // Lag is weight times virtual lag and must not change.
            reached(Mark::ReweightPlaceAgain);
            entity.vlag = rescale(entity.vlag, old, new);
            if entity.rel_deadline {
                entity.deadline = rescale(entity.deadline as i64, old, new) as u64;
            }
        }
        _ if !entity.on_rq => {
            entity.vlag = rescale(entity.vlag, old, new);
            if reweight == Reweight::Rescale && entity.rel_deadline {
                entity.deadline = rescale(entity.deadline as i64, old, new) as u64;
            }
        }
        Reweight::ScaleLag | Reweight::Rescale => {
            reached(Mark::ReweightScaleLag);
            let to_deadline = entity.deadline.wrapping_sub(average) as i64;
            let lag = rescale(lag, old, new);
            if reweight == Reweight::Rescale {
                entity.vlag = lag;
            }
            entity.vruntime = average.wrapping_sub(lag as u64);
            entity.deadline = average.wrapping_add(rescale(to_deadline, old, new) as u64);
        }
        Reweight::KeepVruntime => {
            reached(Mark::ReweightKeepVruntime);
            let to_deadline = entity.deadline.wrapping_sub(entity.vruntime) as i64;
            entity.deadline = entity
                .vruntime
                .wrapping_add(rescale(to_deadline, old, new) as u64);
        }
    }
}
