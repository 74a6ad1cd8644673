//! Placement of one provider's virtual machines: work is kept on as few CPUs as hold it (patch
//! `vcpu-pack`).
//!
//! Not a rule of the published kernel. The kernel that the comparisons with 6.18 were made on was
//! started with `sched_vcpu_pack=15` and places tasks like this; its source is not public, the rule
//! was found by experiment (`docs/validity/measured-kernel.md`): a task that wakes or starts goes
//! to the CPU of its waker while that CPU has room, and the waker's CPU is no candidate when it has
//! none.
//!
//! Worked example: CPU 0 is used to 60 %, runs only the waker and has a capacity of 1024; the wakee
//! uses 5 %. Together 666, and 666 × 1280 = 852,480 is less than 85 % of 1024 × 1024, that is
//! 891,289: the wakee goes to CPU 0 although CPU 1, where it ran last, is idle. With 65 % they
//! would use 717 and it would stay on CPU 1.

use crate::ids::{Cpu, TaskId};
use crate::kernel::Kernel;

/// Share of its capacity a CPU may be used, in percent, before the margin of `fits_capacity`: 100
/// less the 15 of the boot parameter. In the experiment the change comes between 67 and 69 %; 85 %
/// × 1024 / 1280 is 68 %.
const PACKED_PERCENT: u64 = 100 - 15;
/// The margin of `fits_capacity`: utilisation may be 1024/1280 of capacity.
const FITS_MARGIN: u64 = 1280;

impl Kernel {
    /// Whether a CPU has room for a task beside its waker (`vcpu_pack_room`): no task waits there,
    /// and both fit.
    pub(super) fn vcpu_pack_room(&self, cpu: Cpu, task: TaskId) -> bool {
        // The waker is one; a second one would have to wait with the wakee. One whose dequeue is
        // delayed sleeps.
        if self.nr_undelayed(cpu) > 1 {
            return false;
        }
        let record = &self.tasks[task];
        // Where it ran last it counts still.
        let task_util = if record.cpu == cpu {
            0
        } else {
            self.entities[record.se].avg.util_avg
        };
        let util = self.cpu_util_with(cpu, task_util, self.task_util_est(task));
        util * FITS_MARGIN * 100 < self.capacity_of(cpu) * PACKED_PERCENT * 1024
    }
}
