//! The doors of the scheduler: switching, waking, ticking, starting and ending tasks.
//!
//! | room | doors |
//! |---|---|
//! | `schedule` | [`crate::Kernel::block`], [`crate::Kernel::yield_current`], [`crate::Kernel::leave_kernel`] |
//! | `wakeup` | [`crate::Kernel::wake`], [`crate::Kernel::ipi`] |
//! | `tick` | [`crate::Kernel::tick`], idle entry and exit |
//! | `life` | [`crate::Kernel::wake_up_new_task`], [`crate::Kernel::exit`] |

pub(crate) mod life;
pub(crate) mod schedule;
pub(crate) mod tick;
pub(crate) mod wakeup;
