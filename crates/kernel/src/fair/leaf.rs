//! The leaf list of a CPU: queues whose averages are not yet zero, children before parents.

use crate::ids::CfsRqId;
use crate::kernel::Kernel;

impl Kernel {
    /// Adds a queue before its parent (`list_add_leaf_cfs_rq`). `false` while a branch of the list
    /// has no listed parent yet, this queue's or another's.
    #[inline]
    pub(crate) fn list_add_leaf_cfs_rq(&mut self, q: CfsRqId) -> bool {
        if !self.cfs_rqs[q].on_leaf_list {
            self.insert_leaf(q);
        }
        self.rqs[self.cfs_rqs[q].cpu].leaf_branch.is_none()
    }

    #[inline(never)]
    fn insert_leaf(&mut self, q: CfsRqId) {
        let parent = self.parent_queue(q);
        self.cfs_rqs[q].on_leaf_list = true;
        let rq = &mut self.rqs[self.cfs_rqs[q].cpu];
        let place = |of: CfsRqId| rq.leaf_cfs_rqs.iter().position(|&other| other == of);
        let (at, branch) = match parent.map(place) {
            None => (rq.leaf_cfs_rqs.len(), None),
            Some(Some(at)) => (at, None),
            // A branch grows upwards from the head until it meets a listed parent.
            Some(None) => (
                rq.leaf_branch.and_then(place).map_or(0, |last| last + 1),
                Some(q),
            ),
        };
        rq.leaf_cfs_rqs.insert(at, q);
        rq.leaf_branch = branch;
    }

    /// Adds a queue and those above it until the list has no branch without a listed parent.
    pub(crate) fn add_leaf_branch(&mut self, q: CfsRqId) {
        let mut level = Some(q);
        while let Some(q) = level.filter(|&q| !self.list_add_leaf_cfs_rq(q)) {
            level = self.parent_queue(q);
        }
    }

    /// The queue that a group's queue stands for an entity of.
    pub(crate) fn parent_queue(&self, q: CfsRqId) -> Option<CfsRqId> {
        let se = self.cfs_rqs[q].se?;
        Some(self.entities[se].cfs_rq)
    }

    /// `list_del_leaf_cfs_rq`.
    pub(crate) fn list_del_leaf_cfs_rq(&mut self, q: CfsRqId) {
        let cfs_rq = &mut self.cfs_rqs[q];
        if !cfs_rq.on_leaf_list {
            return;
        }
        cfs_rq.on_leaf_list = false;
        let rq = &mut self.rqs[cfs_rq.cpu];
        if let Some(at) = rq.leaf_cfs_rqs.iter().position(|&other| other == q) {
            rq.leaf_cfs_rqs.remove(at);
            if rq.leaf_branch == Some(q) {
                rq.leaf_branch = at.checked_sub(1).map(|before| rq.leaf_cfs_rqs[before]);
            }
        }
    }

    /// Nothing left to decay (`cfs_rq_is_decayed`).
    pub(crate) fn cfs_rq_is_decayed(&self, q: CfsRqId) -> bool {
        let cfs_rq = &self.cfs_rqs[q];
        let avg = &cfs_rq.avg;
        cfs_rq.load.weight == 0
            && avg.load_sum == 0
            && avg.util_sum == 0
            && avg.runnable_sum == 0
            && !(self.rules.leaf_until_children && self.has_leaf_child(q))
            && (cfs_rq.tg_load_avg_contrib == 0 || !self.rules.leaf_until_group_knows)
    }

    /// Whether the queue before this one on the leaf list is one of a child
    /// (`child_cfs_rq_on_list`). One that is not listed would come behind the branch that grows. A
    /// child that stands further ahead is not found.
    fn has_leaf_child(&self, q: CfsRqId) -> bool {
        let cfs_rq = &self.cfs_rqs[q];
        let rq = &self.rqs[cfs_rq.cpu];
        let before = match rq.leaf_cfs_rqs.iter().position(|&other| other == q) {
            Some(0) => None,
            Some(at) => Some(rq.leaf_cfs_rqs[at - 1]),
            None => rq.leaf_branch,
        };
        before.is_some_and(|other| {
            let other = self.cfs_rqs[other].group;
            self.groups[other].parent == Some(cfs_rq.group)
        })
    }
}
