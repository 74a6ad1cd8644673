//! Wait queues: tasks in order of arrival or as they are inserted, each in at most one queue, O(1)
//! to leave from anywhere.

use schedcast_kernel::TaskId;

const NONE: u32 = u32::MAX;

/// Number of a wait queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct QueueNumber(pub u32);

#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    previous: u32,
    /// Queue the task waits in.
    queue: u32,
}

/// All wait queues of a world.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    queues: Vec<Ends>,
    links: Vec<Link>,
}

impl Waiting {
    /// Adds `count` empty queues and returns the number of the first.
    pub(crate) fn add_queues(&mut self, count: usize) -> u32 {
        let first = self.queues.len();
        let empty = Ends {
            head: NONE,
            tail: NONE,
        };
        self.queues.resize(first + count, empty);
        first as u32
    }

    /// Makes task rows `0..count` known.
    pub(crate) fn grow(&mut self, count: usize) {
        let alone = Link {
            next: NONE,
            previous: NONE,
            queue: NONE,
        };
        if count > self.links.len() {
            self.links.resize(count, alone);
        }
    }

    /// Puts a task that waits nowhere at the end of a queue.
    #[inline]
    pub(crate) fn push(&mut self, queue: QueueNumber, task: TaskId) {
        let ends = &mut self.queues[queue.0 as usize];
        let tail = ends.tail;
        ends.tail = task.0;
        if tail == NONE {
            ends.head = task.0;
        } else {
            self.links[tail as usize].next = task.0;
        }
        self.links[task.index()] = Link {
            next: NONE,
            previous: tail,
            queue: queue.0,
        };
    }

    /// Puts a task that waits nowhere into a queue, in front of those at its end that shall wait
    /// behind it.
    pub(crate) fn insert(
        &mut self,
        queue: QueueNumber,
        task: TaskId,
        waits_behind: impl Fn(TaskId) -> bool,
    ) {
        let ends = &mut self.queues[queue.0 as usize];
        let (mut previous, mut next) = (ends.tail, NONE);
        while previous != NONE && waits_behind(TaskId(previous)) {
            next = previous;
            previous = self.links[previous as usize].previous;
        }
        match previous {
            NONE => ends.head = task.0,
            row => self.links[row as usize].next = task.0,
        }
        match next {
            NONE => ends.tail = task.0,
            row => self.links[row as usize].previous = task.0,
        }
        self.links[task.index()] = Link {
            next,
            previous,
            queue: queue.0,
        };
    }

    /// Whether a task is in a queue.
    pub(crate) fn holds(&self, task: TaskId) -> bool {
        let link = self.links.get(task.index());
        link.is_some_and(|link| link.queue != NONE)
    }

    /// First task of a queue.
    #[inline(always)]
    pub(crate) fn first(&self, queue: QueueNumber) -> Option<TaskId> {
        let head = self.queues[queue.0 as usize].head;
        (head != NONE).then_some(TaskId(head))
    }

    /// Takes the first task off a queue.
    #[inline]
    pub(crate) fn pop(&mut self, queue: QueueNumber) -> Option<TaskId> {
        let task = self.first(queue)?;
        self.remove(task);
        Some(task)
    }

    /// Takes a task off its queue. `false` when it waits nowhere.
    #[inline]
    pub(crate) fn remove(&mut self, task: TaskId) -> bool {
        let link = self.links[task.index()];
        if link.queue == NONE {
            return false;
        }
        self.links[task.index()].queue = NONE;
        let ends = &mut self.queues[link.queue as usize];
        match link.next {
            NONE => ends.tail = link.previous,
            next => self.links[next as usize].previous = link.previous,
        }
        match link.previous {
            NONE => ends.head = link.next,
            previous => self.links[previous as usize].next = link.next,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(waiting: &mut Waiting, queue: u32) -> Vec<u32> {
        std::iter::from_fn(|| waiting.pop(QueueNumber(queue)))
            .map(|task| task.0)
            .collect()
    }

    #[test]
    fn first_come_first_served_and_leaving_from_anywhere() {
        for leaver in 0..4 {
            let mut waiting = Waiting::default();
            waiting.grow(5);
            waiting.add_queues(2);
            for task in 0..4 {
                waiting.push(QueueNumber(1), TaskId(task));
            }
            waiting.push(QueueNumber(0), TaskId(4));
            assert!(waiting.remove(TaskId(leaver)));
            assert!(!waiting.remove(TaskId(leaver)));
            let expected: Vec<u32> = (0..4).filter(|&task| task != leaver).collect();
            assert_eq!(drain(&mut waiting, 1), expected);
            assert_eq!(drain(&mut waiting, 0), [4]);
        }
    }

    #[test]
    fn insertion_keeps_order_and_links() {
        // Tasks 0 and 3 are of rank 0, 1 and 4 of rank 1, 2 of rank 2.
        let rank = |task: TaskId| [0, 1, 2, 0, 1][task.index()];
        let mut waiting = Waiting::default();
        waiting.grow(5);
        waiting.add_queues(1);
        for task in 0..5 {
            let task = TaskId(task);
            waiting.insert(QueueNumber(0), task, |other| rank(other) < rank(task));
        }
        assert!(waiting.remove(TaskId(1)));
        assert_eq!(drain(&mut waiting, 0), [2, 4, 0, 3]);
    }
}
