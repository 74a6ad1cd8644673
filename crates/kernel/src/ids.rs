//! Names of things: dense indices into the tables of [`crate::Kernel`].
//!
//! The kernel links its structures by pointers; here every link is an index, so that a
//! [`crate::Kernel`] can be cloned by copying tables, and so that a queue of CPU 3 in group 2 of an
//! 8-CPU machine is simply table row 2 · 8 + 3 = 19.

use std::num::NonZeroU32;

use crate::table::Row;

/// Virtual time or a span of it, in nanoseconds.
pub type Ns = u64;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// The row in the owning table.
            #[inline(always)]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl Row for $name {
            #[inline(always)]
            fn row(self) -> usize {
                self.index()
            }
        }

        impl From<usize> for $name {
            #[inline(always)]
            fn from(row: usize) -> Self {
                Self(row as u32)
            }
        }
    };
}

index! {
    /// A logical CPU, numbered from 0 as in `/proc/cpuinfo`.
    Cpu
}
index! {
    /// A task (thread). Rows `0..cpus` are the idle tasks ("swapper/N") of the CPUs, rows
    /// `cpus..2 · cpus` their migration threads ("migration/N").
    TaskId
}
index! {
    /// A task group (cpu cgroup or autogroup). Row 0 is the root group.
    GroupId
}
index! {
    /// The fair queue of one group on one CPU: row `group · cpus + cpu`.
    CfsRqId
}

/// A scheduling entity: a task's, or a group's on one CPU.
///
/// Queues and hierarchies are full of entities that may be missing. No entity has row 0, so that
/// `None` is 0 and an `Option` is compared, copied and passed on like a plain number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(NonZeroU32);

impl EntityId {
    /// The row in the owning table.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0.get() as usize
    }
}

impl Row for EntityId {
    #[inline(always)]
    fn row(self) -> usize {
        self.index()
    }
}

impl From<usize> for EntityId {
    /// # Panics
    /// When `row` is 0.
    #[inline(always)]
    fn from(row: usize) -> Self {
        Self(NonZeroU32::new(row as u32).expect("row 0 is nobody's"))
    }
}

impl std::fmt::Debug for EntityId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("EntityId").field(&self.index()).finish()
    }
}

impl GroupId {
    /// The root task group.
    pub const ROOT: GroupId = GroupId(0);
}
