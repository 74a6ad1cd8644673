//! How a fair task stands at the moment: virtual runtime, lag, utilisation.
//!
//! Worked example: two tasks of weight 1024 are queued with vruntimes of 10 and 14 ms. V is 12 ms,
//! so the first has a lag of +2 ms (it is owed that much) and the second one of −2 ms.

use crate::ids::TaskId;
use crate::kernel::Kernel;
use crate::rules::FairClass;

/// How a task stands in its own queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Virtual runtime, ns; comparable within one queue only.
    pub vruntime_ns: i64,
    /// V − vruntime, ns, where the kernel has EEVDF and the task is queued; not bounded as the
    /// kernel bounds it when the task leaves.
    pub lag_ns: Option<i64>,
    /// `util_avg`, of 1024.
    pub util: u64,
}

impl Kernel {
    /// The standing of a task as of the last time the kernel accounted for it; nothing is brought
    /// up to date.
    pub fn standing(&self, task: TaskId) -> Standing {
        let entity = &self.entities[self.tasks[task].se];
        let queued = self.rules.fair == FairClass::Eevdf && entity.on_rq;
        let lag_ns = || {
            self.avg_vruntime(self.order_of(self.tasks[task].se))
                .wrapping_sub(entity.vruntime) as i64
        };
        Standing {
            vruntime_ns: entity.vruntime as i64,
            lag_ns: queued.then(lag_ns),
            util: entity.avg.util_avg,
        }
    }
}
