//! The fair queue of one group on one CPU (`struct cfs_rq`) and the order of its entities.
//!
//! The kernel keeps queued entities in a red-black tree augmented with the smallest vruntime below
//! each node. [`Timeline`] keeps the same order in a sorted vector: queues are short, so a binary
//! search and a small move beat pointer chasing, and the pick of EEVDF (first in deadline order
//! that is eligible) is a scan that nearly always ends at its first step.

use crate::ids::{Cpu, EntityId, GroupId, Ns, TaskId};
use crate::pelt::SchedAvg;
use crate::rules::QueueSums;
use crate::weight::LoadWeight;

/// One queued entity in key order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// Sort key: deadline (EEVDF) or vruntime (CFS).
    pub(crate) key: u64,
    /// Virtual runtime, for eligibility.
    pub(crate) vruntime: u64,
    /// The entity.
    pub(crate) entity: EntityId,
}

/// Queued entities, smallest key first, equal keys in order of arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    nodes: Vec<Node>,
}

/// Whether `a` comes before `b` on the wrapping virtual time line.
#[inline(always)]
pub(crate) const fn before(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

impl Timeline {
    /// Queues an entity behind those with equal keys.
    #[inline]
    pub(crate) fn insert(&mut self, node: Node) {
        // Most queues are short, and most of what comes goes last.
        if self
            .nodes
            .last()
            .is_none_or(|last| !before(node.key, last.key))
        {
            self.nodes.push(node);
            return;
        }
        // Number by number, in registers: a node in memory would have to be read back at once.
        self.insert_before_others(node.key, node.vruntime, node.entity);
    }

    #[inline(never)]
    fn insert_before_others(&mut self, key: u64, vruntime: u64, entity: EntityId) {
        let node = Node {
            key,
            vruntime,
            entity,
        };
        let place = self
            .nodes
            .partition_point(|other| !before(node.key, other.key));
        self.nodes.insert(place, node);
    }

    /// Takes an entity out.
    ///
    /// # Panics
    /// When it is not queued under `key`: the caller lost track of its own queue.
    #[inline]
    pub(crate) fn remove(&mut self, key: u64, entity: EntityId) {
        if self.nodes.last().is_some_and(|last| last.entity == entity) {
            self.nodes.pop();
            return;
        }
        self.remove_before_others(key, entity);
    }

    #[inline(never)]
    fn remove_before_others(&mut self, key: u64, entity: EntityId) {
        let first = self.nodes.partition_point(|other| before(other.key, key));
        let offset = self.nodes[first..]
            .iter()
            .position(|node| node.entity == entity)
            .expect("a queued entity is in the timeline under its key");
        self.nodes.remove(first + offset);
    }

    /// Entities in key order.
    #[inline(always)]
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The entity with the smallest key.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<&Node> {
        self.nodes.first()
    }

    /// Whether nothing is queued besides a running entity.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// Averages of entities that left for another CPU, to be subtracted at the next update.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemovedLoad {
    /// Entities in the sums.
    pub nr: u32,
    /// Σ load_avg.
    pub load_avg: u64,
    /// Σ util_avg.
    pub util_avg: u64,
    /// Σ runnable_avg.
    pub runnable_avg: u64,
}

/// Fair queue of one group on one CPU.
#[derive(Clone, Debug, Default)]
pub struct CfsRq {
    /// Group it belongs to.
    pub(crate) group: GroupId,
    /// CPU it belongs to.
    pub(crate) cpu: Cpu,
    /// Its group is a `cpu.idle` one.
    pub(crate) idle: bool,
    /// The entity that stands for this queue one level up; `None` for root queues.
    pub se: Option<EntityId>,

    /// Σ weights of queued entities, the running one included.
    pub load: LoadWeight,
    /// Entities queued here, the running one included.
    pub nr_queued: u32,
    /// Tasks queued below, delayed ones included.
    pub h_nr_queued: u32,
    /// Tasks queued below that want to run (without delayed ones).
    pub h_nr_runnable: u32,
    /// Tasks queued below with SCHED_IDLE policy or in a `cpu.idle` group.
    pub h_nr_idle: u32,

    /// Σ w·(v − zero_vruntime) of the entities in the timeline.
    pub avg_vruntime: i64,
    /// Σ w of the entities in the timeline, unscaled.
    pub avg_load: u64,
    /// CFS: `min_vruntime`. EEVDF: the origin of `avg_vruntime`.
    pub min_vruntime: u64,
    /// Queued entities without the running one.
    pub(crate) timeline: Timeline,
    /// The running entity, of those that compete in this queue's virtual time; with the flat pick
    /// the running task, on root queues only.
    pub curr: Option<EntityId>,
    /// The entity of this queue that the running task is or belongs to.
    pub(crate) h_curr: Option<EntityId>,
    /// Buddy to be picked next, when that is fair enough.
    pub(crate) next: Option<EntityId>,
    /// CFS: buddy that was preempted last.
    pub(crate) last: Option<EntityId>,
    /// CFS: entity that yielded.
    pub(crate) skip: Option<EntityId>,
    /// One of these three may be there.
    pub(crate) has_buddies: bool,
    /// A copy of [`Rules::queue_sums`](crate::rules::Rules), for those who have the queue at hand
    /// only.
    pub(crate) sums: QueueSums,

    /// Load tracking.
    pub avg: SchedAvg,
    /// Averages waiting to be subtracted.
    pub removed: RemovedLoad,
    /// Load that this queue last added to `tg->load_avg`.
    pub tg_load_avg_contrib: u64,
    /// Runnable average that this queue last added to `tg->runnable_avg` (7.3).
    pub(crate) tg_runnable_avg_contrib: u64,
    /// Time of that addition, ns (6.7); `None` before the first. The kernel has 0 then, which is
    /// long ago on a clock that began when the machine booted.
    pub(crate) last_update_tg_load_avg_ns: Option<Ns>,
    /// Whether a change has to be propagated to the parent.
    pub propagate: bool,
    /// Signed runnable sum to be propagated.
    pub prop_runnable_sum: i64,
    /// Σ max estimate of queued tasks (`util_est.enqueued`), root queues only.
    pub util_est_enqueued: u64,
    /// Hierarchical load, cached for `h_load_jiffy`.
    pub(crate) h_load: u64,
    /// Jiffy of the cached `h_load`.
    pub(crate) h_load_jiffy: u64,
    /// On the leaf list of its CPU.
    pub on_leaf_list: bool,

    /// A finite quota applies.
    pub runtime_enabled: bool,
    /// Local runtime left; negative after an overrun.
    pub runtime_remaining_ns: i64,
    /// ≤ 5.3: when local runtime expires, and the refill it came from.
    pub(crate) runtime_expires_ns: Ns,
    /// ≤ 5.3: sequence number of the refill.
    pub(crate) expires_sequence: u32,
    /// Out of runtime and on the throttled list.
    pub throttled: bool,
    /// Throttled queues from here to the root.
    pub throttle_count: u32,
    /// When throttled time started to count; 0 = it does not.
    pub(crate) throttled_clock_ns: Ns,
    /// Same, for `cpu.stat.local`.
    pub(crate) throttled_clock_self_ns: Ns,
    /// Time throttled by itself or an ancestor.
    pub(crate) throttled_self_time_ns: Ns,
    /// PELT clock is stopped: while the queue is throttled and, from 6.18, empty.
    pub(crate) pelt_clock_throttled: bool,
    /// PELT clock of the CPU when it stopped.
    pub(crate) throttled_clock_pelt_ns: Ns,
    /// How long it was stopped in all.
    pub throttled_clock_pelt_time_ns: Ns,
    /// The same when the queue was last seen empty; [`Ns::MAX`] = its clock was stopped then.
    pub(crate) throttled_pelt_idle_ns: Ns,
    /// Tasks parked at their return to user mode (6.18), the last parked first.
    pub(crate) limbo: Vec<TaskId>,
}

impl CfsRq {
    /// An empty queue.
    pub(crate) fn new(group: GroupId, cpu: Cpu, se: Option<EntityId>) -> Self {
        Self {
            group,
            cpu,
            se,
            // The kernel starts just below the wrap so that overflow bugs show at once.
            min_vruntime: (1u64 << 20).wrapping_neg(),
            h_load_jiffy: u64::MAX,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(key: u64, entity: u32) -> Node {
        Node {
            key,
            vruntime: 0,
            entity: EntityId::from(entity as usize),
        }
    }

    fn order(timeline: &Timeline) -> Vec<u32> {
        timeline
            .nodes()
            .iter()
            .map(|node| node.entity.index() as u32)
            .collect()
    }

    #[test]
    fn equal_keys_stay_in_order_of_arrival() {
        let mut timeline = Timeline::default();
        for (key, entity) in [(5, 1), (3, 2), (5, 3), (4, 4)] {
            timeline.insert(node(key, entity));
        }
        assert_eq!(order(&timeline), [2, 4, 1, 3]);
        timeline.remove(5, EntityId::from(3));
        timeline.remove(3, EntityId::from(2));
        assert_eq!(order(&timeline), [4, 1]);
    }

    #[test]
    fn keys_wrap() {
        let mut timeline = Timeline::default();
        timeline.insert(node(2, 1));
        timeline.insert(node(u64::MAX - 2, 2));
        assert_eq!(order(&timeline), [2, 1]);
    }
}
