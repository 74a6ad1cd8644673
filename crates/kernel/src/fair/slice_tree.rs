//! The shortest and the longest request of a queue as the kernel knows them from 6.12 to 7.2.6.
//!
//! It keeps queued entities in a red-black tree, in the order of their deadlines, and at each node
//! the smallest vruntime, the shortest and the longest request below it (`min_vruntime_cb`). Where
//! the tree is rotated or an entity takes another's place, only the smallest vruntime goes along
//! (`RB_DECLARE_CALLBACKS`), and what a node says of requests is what it said where it was. So the
//! root may say 9.4 ms while 0.7 ms wait. From 7.2 on all three go along
//! (`RB_DECLARE_CALLBACKS_MULTI`).
//!
//! Worked example: A, B and C with deadlines 1, 2 and 3 and requests of 0.7, 2.8 and 2.8 ms come in
//! this order. B stands below A, C below B; then B is rotated to the top. It still says what it
//! said of itself and C: 2.8 ms.
//!
//! The result depends on the shape of the tree, so the tree follows the kernel's (`lib/rbtree.c`):
//! its order of recolouring and rotations is the textbook's. A tree is kept only in queues where a
//! task has a custom slice.

use crate::cfs_rq::{Timeline, before};
use crate::entity::Entity;
use crate::ids::{EntityId, Ns};
use crate::table::Table;

/// No node.
const NONE: u32 = u32::MAX;
const LEFT: usize = 0;
const RIGHT: usize = 1;

/// An entity's place in the tree of its queue, and what it says of those below it. The latter stays
/// when it leaves.
#[derive(Clone, Copy, Debug)]
struct SliceNode {
    child: [u32; 2],
    parent: u32,
    is_red: bool,
    min_vruntime: u64,
    min_slice: Ns,
    max_slice: Ns,
}

const NEW: SliceNode = SliceNode {
    child: [NONE; 2],
    parent: NONE,
    is_red: false,
    min_vruntime: 0,
    min_slice: 0,
    max_slice: 0,
};

/// The trees of all queues.
#[derive(Clone, Debug)]
pub(crate) struct SliceTrees {
    nodes: Vec<SliceNode>,
    roots: Vec<u32>,
    /// The longest request is kept, too (7.0 and 6.18.17).
    keeps_longest: bool,
}

impl SliceTrees {
    /// Trees of queues that hold what their timelines do.
    pub(crate) fn of<'a>(
        timelines: impl Iterator<Item = &'a Timeline>,
        entities: &Table<Entity>,
        keeps_longest: bool,
    ) -> Self {
        let mut trees = Self {
            nodes: Vec::new(),
            roots: Vec::new(),
            keeps_longest,
        };
        for (queue, timeline) in timelines.enumerate() {
            for node in timeline.nodes() {
                trees.insert(queue, node.entity, entities);
            }
        }
        trees
    }

    /// Shortest and longest request in the tree, from its root, ns; `None` if no entity waits.
    pub(crate) fn root(&self, queue: usize) -> Option<(Ns, Ns)> {
        let root = self
            .roots
            .get(queue)
            .copied()
            .filter(|&root| root != NONE)?;
        let node = &self.nodes[root as usize];
        Some((node.min_slice, node.max_slice))
    }

    /// `__enqueue_entity`.
    pub(crate) fn insert(&mut self, queue: usize, se: EntityId, entities: &Table<Entity>) {
        let at = se.index();
        if self.roots.len() <= queue {
            self.roots.resize(queue + 1, NONE);
        }
        if self.nodes.len() <= at {
            self.nodes.resize(at + 1, NEW);
        }
        let (mut parent, mut side) = (NONE, LEFT);
        let mut below = self.roots[queue];
        while below != NONE {
            let goes_left = before(entities[at].deadline, entities[below as usize].deadline);
            side = if goes_left { LEFT } else { RIGHT };
            parent = below;
            below = self.nodes[below as usize].child[side];
        }
        // The longest request is left as it was.
        let node = &mut self.nodes[at];
        (node.child, node.parent, node.is_red) = ([NONE; 2], parent, true);
        (node.min_vruntime, node.min_slice) = (entities[at].vruntime, entities[at].slice);
        self.set_child(queue, parent, side, at as u32);
        self.propagate(parent, NONE, entities);
        self.balance_inserted(queue, at as u32, entities);
    }

    /// An entity that waits has another request.
    pub(crate) fn changed(&mut self, se: EntityId, entities: &Table<Entity>) {
        self.propagate(se.index() as u32, NONE, entities);
    }

    /// Computes what a node says; `false` when it is what it said.
    fn compute(&mut self, at: u32, entities: &Table<Entity>) -> bool {
        let entity = &entities[at as usize];
        let node = self.nodes[at as usize];
        let (mut vruntime, mut shortest, mut longest) =
            (entity.vruntime, entity.slice, entity.slice);
        for child in [node.child[RIGHT], node.child[LEFT]] {
            if child == NONE {
                continue;
            }
            let child = &self.nodes[child as usize];
            if before(child.min_vruntime, vruntime) {
                vruntime = child.min_vruntime;
            }
            shortest = shortest.min(child.min_slice);
            longest = longest.max(child.max_slice);
        }
        let changed = (vruntime, shortest) != (node.min_vruntime, node.min_slice)
            || (self.keeps_longest && longest != node.max_slice);
        let node = &mut self.nodes[at as usize];
        (node.min_vruntime, node.min_slice, node.max_slice) = (vruntime, shortest, longest);
        changed
    }

    /// Upwards until nothing changes, or to `stop`.
    fn propagate(&mut self, mut at: u32, stop: u32, entities: &Table<Entity>) {
        while at != stop && at != NONE && self.compute(at, entities) {
            at = self.nodes[at as usize].parent;
        }
    }

    fn is_red(&self, at: u32) -> bool {
        at != NONE && self.nodes[at as usize].is_red
    }

    fn set_child(&mut self, queue: usize, parent: u32, side: usize, child: u32) {
        match parent {
            NONE => self.roots[queue] = child,
            _ => self.nodes[parent as usize].child[side] = child,
        }
        if child != NONE {
            self.nodes[child as usize].parent = parent;
        }
    }

    fn side_of(&self, at: u32) -> usize {
        let parent = self.nodes[at as usize].parent;
        usize::from(parent != NONE && self.nodes[parent as usize].child[RIGHT] == at)
    }

    /// Turns `top` down to `side`; its other child comes up. Only the smallest vruntime goes along.
    fn rotate(&mut self, queue: usize, top: u32, side: usize, entities: &Table<Entity>) {
        let up = self.nodes[top as usize].child[1 - side];
        let inner = self.nodes[up as usize].child[side];
        let (parent, place) = (self.nodes[top as usize].parent, self.side_of(top));
        self.set_child(queue, parent, place, up);
        self.set_child(queue, top, 1 - side, inner);
        self.set_child(queue, up, side, top);
        self.nodes[up as usize].min_vruntime = self.nodes[top as usize].min_vruntime;
        self.compute(top, entities);
    }

    fn balance_inserted(&mut self, queue: usize, mut at: u32, entities: &Table<Entity>) {
        loop {
            let parent = self.nodes[at as usize].parent;
            if parent == NONE {
                self.nodes[at as usize].is_red = false;
                return;
            }
            if !self.is_red(parent) {
                return;
            }
            let above = self.nodes[parent as usize].parent;
            let side = self.side_of(parent);
            let uncle = self.nodes[above as usize].child[1 - side];
            if self.is_red(uncle) {
                self.nodes[uncle as usize].is_red = false;
                self.nodes[parent as usize].is_red = false;
                self.nodes[above as usize].is_red = true;
                at = above;
                continue;
            }
            if self.side_of(at) != side {
                self.rotate(queue, parent, side, entities);
            }
            let up = self.nodes[above as usize].child[side];
            self.nodes[up as usize].is_red = false;
            self.nodes[above as usize].is_red = true;
            self.rotate(queue, above, 1 - side, entities);
            return;
        }
    }

    /// `__dequeue_entity`.
    pub(crate) fn remove(&mut self, queue: usize, se: EntityId, entities: &Table<Entity>) {
        let at = se.index() as u32;
        let node = self.nodes[at as usize];
        let (parent, side) = (node.parent, self.side_of(at));
        let [left, right] = node.child;
        // The parent of a place that lacks a black node now.
        let mut lacking = None;
        let from = match (left, right) {
            (NONE, only) | (only, NONE) => {
                self.set_child(queue, parent, side, only);
                if only != NONE {
                    self.nodes[only as usize].is_red = node.is_red;
                } else if !node.is_red {
                    lacking = Some(parent);
                }
                parent
            }
            _ => {
                let mut next = right;
                while self.nodes[next as usize].child[LEFT] != NONE {
                    next = self.nodes[next as usize].child[LEFT];
                }
                let beyond = self.nodes[next as usize].child[RIGHT];
                let mut hole = next;
                self.nodes[next as usize].min_vruntime = node.min_vruntime;
                if next != right {
                    hole = self.nodes[next as usize].parent;
                    self.set_child(queue, hole, LEFT, beyond);
                    self.set_child(queue, next, RIGHT, right);
                    self.propagate(hole, next, entities);
                }
                self.set_child(queue, next, LEFT, left);
                self.set_child(queue, parent, side, next);
                if beyond != NONE {
                    self.nodes[beyond as usize].is_red = false;
                } else if !self.nodes[next as usize].is_red {
                    lacking = Some(hole);
                }
                self.nodes[next as usize].is_red = node.is_red;
                next
            }
        };
        self.propagate(from, NONE, entities);
        if let Some(parent) = lacking.filter(|&parent| parent != NONE) {
            self.balance_removed(queue, parent, entities);
        }
    }

    fn balance_removed(&mut self, queue: usize, mut parent: u32, entities: &Table<Entity>) {
        let mut at = NONE;
        loop {
            let side = usize::from(self.nodes[parent as usize].child[LEFT] != at);
            let mut sibling = self.nodes[parent as usize].child[1 - side];
            if self.is_red(sibling) {
                self.nodes[sibling as usize].is_red = false;
                self.nodes[parent as usize].is_red = true;
                self.rotate(queue, parent, side, entities);
                sibling = self.nodes[parent as usize].child[1 - side];
            }
            let far = self.nodes[sibling as usize].child[1 - side];
            if !self.is_red(far) {
                let near = self.nodes[sibling as usize].child[side];
                if !self.is_red(near) {
                    self.nodes[sibling as usize].is_red = true;
                    if self.is_red(parent) {
                        self.nodes[parent as usize].is_red = false;
                        return;
                    }
                    at = parent;
                    parent = self.nodes[at as usize].parent;
                    if parent == NONE {
                        return;
                    }
                    continue;
                }
                self.rotate(queue, sibling, 1 - side, entities);
                sibling = near;
            }
            let far = self.nodes[sibling as usize].child[1 - side];
            self.nodes[far as usize].is_red = false;
            self.nodes[sibling as usize].is_red = self.nodes[parent as usize].is_red;
            self.nodes[parent as usize].is_red = false;
            self.rotate(queue, parent, side, entities);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entities(rows: &[(u64, Ns)]) -> Table<Entity> {
        let entity = |&(deadline, slice): &(u64, Ns)| {
            let mut entity = Entity::nobody();
            (entity.deadline, entity.vruntime, entity.slice) = (deadline, deadline, slice);
            entity
        };
        // Row 0 stands for no entity.
        [(0, 0)].iter().chain(rows).map(entity).collect()
    }

    fn id(row: usize) -> EntityId {
        EntityId::from(row + 1)
    }

    fn trees(entities: &Table<Entity>) -> SliceTrees {
        let mut trees = SliceTrees::of(std::iter::empty::<&Timeline>(), entities, true);
        for row in 0..entities.len() - 1 {
            trees.insert(0, id(row), entities);
        }
        trees
    }

    #[test]
    fn a_rotation_loses_the_shortest_request() {
        let all = entities(&[(1, 700), (2, 2800), (3, 2800)]);
        let mut trees = trees(&all);
        assert_eq!(trees.root(0).unwrap().0, 2800, "700 waits below the root");
        // C leaves: the root looks at what is below it again.
        trees.remove(0, id(2), &all);
        assert_eq!(trees.root(0).unwrap().0, 700);
        trees.remove(0, id(0), &all);
        assert_eq!(trees.root(0).unwrap().0, 2800);
        trees.remove(0, id(1), &all);
        assert_eq!(trees.root(0), None);
    }

    #[test]
    fn an_entity_that_takes_anothers_place_says_what_it_said() {
        // Four in order: 2 is at the top, 1 and 3 below it, 4 below 3 with the shortest request,
        // which both above know. 2 leaves, and 3 takes its place: what it said of itself and 4, and
        // then all is computed anew from there up.
        let all = entities(&[(1, 2800), (2, 2800), (3, 2800), (4, 700)]);
        let mut trees = trees(&all);
        assert_eq!(trees.root(0).unwrap().0, 700);
        trees.remove(0, id(1), &all);
        assert_eq!(trees.root(0).unwrap().0, 700);
    }

    /// Number of black nodes on each way down, if it is the same on all, and no red node is below a
    /// red one.
    fn black_height(trees: &SliceTrees, at: u32, parent_is_red: bool) -> u32 {
        if at == NONE {
            return 0;
        }
        let node = &trees.nodes[at as usize];
        assert!(!(parent_is_red && node.is_red));
        let [left, right] = node
            .child
            .map(|child| black_height(trees, child, node.is_red));
        assert_eq!(left, right);
        left + u32::from(!node.is_red)
    }

    #[test]
    fn drawn_trees_are_balanced_and_know_the_smallest_vruntime() {
        let mut drawn = 1_u64;
        let mut draw = |below: u64| {
            drawn = drawn
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (drawn >> 33) % below
        };
        let rows: Vec<(u64, Ns)> = (0..40).map(|_| (draw(30), 1 + draw(9))).collect();
        let all = entities(&rows);
        let mut trees = SliceTrees::of(std::iter::empty::<&Timeline>(), &all, true);
        let mut queued = std::collections::BTreeSet::new();
        for _ in 0..4000 {
            let row = draw(40) as usize;
            if queued.insert(row) {
                trees.insert(0, id(row), &all);
            } else {
                queued.remove(&row);
                trees.remove(0, id(row), &all);
            }
            let root = trees.roots[0];
            black_height(&trees, root, true);
            let smallest = queued.iter().map(|&row| all[row + 1].vruntime).min();
            let known = (root != NONE).then(|| trees.nodes[root as usize].min_vruntime);
            assert_eq!(known, smallest);
        }
    }
}
