//! The doors of the scheduler: switching, waking, ticking, starting, ending and changing tasks.
//!
//! | room | doors |
//! |---|---|
//! | `schedule` | [`crate::Kernel::block`], [`crate::Kernel::yield_current`], [`crate::Kernel::leave_kernel`] |
//! | `wakeup` | [`crate::Kernel::wake`], [`crate::Kernel::ipi`] |
//! | `tick` | [`crate::Kernel::tick`], idle entry and exit |
//! | `nohz_full` | CPUs without a tick while one task runs |
//! | `irqtime` | [`crate::Kernel::irq_enter`], [`crate::Kernel::steal`] |
//! | `attributes` | [`crate::Kernel::set_nice`], [`crate::Kernel::set_policy`], [`crate::Kernel::set_affinity`], [`crate::Kernel::set_group`], [`crate::Kernel::set_custom_slice`], [`crate::Kernel::exec`] |
//! | `stop` | migration threads |
//! | `life` | [`crate::Kernel::wake_up_new_task`], [`crate::Kernel::exit`] |

pub(crate) mod attributes;
pub(crate) mod hrtick;
pub(crate) mod irqtime;
pub(crate) mod life;
pub(crate) mod nohz_full;
pub(crate) mod schedule;
pub(crate) mod stop;
pub(crate) mod tick;
pub(crate) mod wakeup;
