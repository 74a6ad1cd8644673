//! The leaf list of a CPU: queues whose averages are not yet zero, children before parents.

use crate::ids::CfsRqId;
use crate::kernel::Kernel;

impl Kernel {
    /// Adds a queue before its parent (`list_add_leaf_cfs_rq`).
    #[inline]
    pub(crate) fn list_add_leaf_cfs_rq(&mut self, q: CfsRqId) {
        if !self.cfs_rqs[q.index()].on_leaf_list {
            self.insert_leaf(q);
        }
    }

    #[inline(never)]
    fn insert_leaf(&mut self, q: CfsRqId) {
        let cfs_rq = &self.cfs_rqs[q.index()];
        let cpu = cfs_rq.cpu;
        let leaves = &self.rqs[cpu.index()].leaf_cfs_rqs;
        let place = match cfs_rq.se.map(|se| self.entities[se.index()].cfs_rq) {
            None => leaves.len(),
            Some(parent) => leaves
                .iter()
                .position(|&other| other == parent)
                .unwrap_or_else(|| self.place_after_children(q)),
        };
        self.cfs_rqs[q.index()].on_leaf_list = true;
        self.rqs[cpu.index()].leaf_cfs_rqs.insert(place, q);
    }

    /// The head of the list, or behind the children that were put there: a branch grows upwards
    /// until it meets a listed parent (`tmp_alone_branch`).
    fn place_after_children(&self, q: CfsRqId) -> usize {
        let leaves = &self.rqs[self.cfs_rqs[q.index()].cpu.index()].leaf_cfs_rqs;
        let is_child = |other: &CfsRqId| {
            self.cfs_rqs[other.index()]
                .se
                .is_some_and(|se| self.entities[se.index()].cfs_rq == q)
        };
        leaves.iter().rposition(is_child).map_or(0, |last| last + 1)
    }

    /// Adds a queue and all above it.
    pub(crate) fn add_leaf_branch(&mut self, q: CfsRqId) {
        let mut level = Some(q);
        while let Some(q) = level {
            self.list_add_leaf_cfs_rq(q);
            level = self.parent_queue(q);
        }
    }

    /// The queue that a group's queue stands for an entity of.
    pub(crate) fn parent_queue(&self, q: CfsRqId) -> Option<CfsRqId> {
        let se = self.cfs_rqs[q.index()].se?;
        Some(self.entities[se.index()].cfs_rq)
    }

    /// `list_del_leaf_cfs_rq`.
    pub(crate) fn list_del_leaf_cfs_rq(&mut self, q: CfsRqId) {
        let cfs_rq = &mut self.cfs_rqs[q.index()];
        if cfs_rq.on_leaf_list {
            cfs_rq.on_leaf_list = false;
            self.rqs[cfs_rq.cpu.index()]
                .leaf_cfs_rqs
                .retain(|&other| other != q);
        }
    }

    /// Nothing left to decay (`cfs_rq_is_decayed`).
    pub(crate) fn cfs_rq_is_decayed(&self, q: CfsRqId) -> bool {
        let cfs_rq = &self.cfs_rqs[q.index()];
        let avg = &cfs_rq.avg;
        cfs_rq.load.weight == 0
            && avg.load_sum == 0
            && avg.util_sum == 0
            && avg.runnable_sum == 0
            && !(self.rules.leaf_until_children && self.has_leaf_child(q))
            && (cfs_rq.tg_load_avg_contrib == 0 || !self.rules.leaf_until_group_knows)
    }

    fn has_leaf_child(&self, q: CfsRqId) -> bool {
        let cfs_rq = &self.cfs_rqs[q.index()];
        self.groups[cfs_rq.group.index()]
            .children
            .iter()
            .any(|&child| self.cfs_rqs[self.cfs_rq_of(child, cfs_rq.cpu).index()].on_leaf_list)
    }
}
