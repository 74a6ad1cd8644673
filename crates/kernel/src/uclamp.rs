//! Clamps of utilisation: how large a task is to be taken for, at least and at most (`uclamp`).
//!
//! A task asks with `sched_setattr`, its group bounds what it may ask for (`cpu.uclamp.min`,
//! `cpu.uclamp.max`), and a run queue has the largest clamps of its runnable tasks. `schedutil`
//! asks for a frequency within them, and where CPUs have different capacities a task is placed as
//! if it had that size.
//!
//! Each clamp of a run queue is kept in five buckets of 205 (`CONFIG_UCLAMP_BUCKETS_COUNT`), each
//! of which remembers how many tasks are in it and the largest clamp of them since it was empty.
//!
//! Worked example: tasks with a least utilisation of 300 and 350 run on a CPU. Both are in bucket 1
//! (205 to 409), which has the value 350; that is the CPU's. When the second one sleeps, the value
//! stays 350 until the first one sleeps, too: then the bucket is empty and the CPU's clamp is 0.
//! The most is different: a CPU without tasks keeps that of its last one, so that what it used does
//! not ask for more now.

use crate::fair::EnqueueFlags;
use crate::ids::{Cpu, GroupId, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::Platform;
use crate::rules::Version;
use crate::task::{Policy, TaskState};

/// The largest clamp, which is none to the most: all of the fastest CPU.
pub const LARGEST: u32 = 1024;
/// The oldest release whose rules of clamps are known.
pub const OLDEST: Version = Version::new(6, 1);
/// `CONFIG_UCLAMP_BUCKETS_COUNT`, by default.
const BUCKETS: usize = 5;
/// Width of a bucket, 1024 in five parts, rounded.
const BUCKET_WIDTH: u32 = (LARGEST + BUCKETS as u32 / 2) / BUCKETS as u32;

/// Least and most, in units of capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Clamps<T> {
    /// `util_min`.
    pub min: T,
    /// `util_max`.
    pub max: T,
}

impl<T> Clamps<T> {
    /// The least and the most.
    pub const fn new(min: T, max: T) -> Self {
        Self { min, max }
    }

    /// Both as something else.
    pub fn map<U>(self, change: impl Fn(T) -> U) -> Clamps<U> {
        Clamps::new(change(self.min), change(self.max))
    }
}

/// Clamps that bound nothing.
pub const NONE: Clamps<u32> = Clamps::new(0, LARGEST);
/// Clamps of the root group, which allow any.
pub(crate) const ROOT: Clamps<u32> = Clamps::new(LARGEST, LARGEST);

/// Clamps that the administrator sets for all (`kernel.sched_util_clamp_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClampTunables {
    /// The most that any task's clamps may be.
    pub(crate) most: Clamps<u32>,
    /// Least utilisation of a real-time task that asks for none.
    pub(crate) rt_min: u32,
}

impl Default for ClampTunables {
    fn default() -> Self {
        Self {
            most: ROOT,
            rt_min: LARGEST,
        }
    }
}

/// Wish of `sched_setattr` for a clamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wish {
    /// Nothing: it stays.
    #[default]
    Keep,
    /// −1: what a task of its policy has without asking.
    Reset,
    /// 0..=1024.
    Set(u32),
}

impl Wish {
    /// The request that comes of it.
    fn on(self, before: Option<u32>) -> Option<u32> {
        match self {
            Self::Keep => before,
            Self::Reset => None,
            Self::Set(value) => Some(value),
        }
    }
}

/// Clamps that the kernel does not accept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// The kernel has none (EOPNOTSUPP).
    #[error("this kernel is built without utilisation clamps")]
    NotBuilt,
    /// The least is above the most, or one above 1024 (EINVAL).
    #[error(
        "a utilisation clamp of {} to {} is refused: expected 0 <= util_min <= util_max <= {most} \
         (a real-time task that says nothing has a util_min of {most})",
        .0.min, .0.max, most = LARGEST
    )]
    Range(Clamps<u32>),
}

/// A clamp of a task (`struct uclamp_se`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TaskClamp {
    /// Its effective value when the task was counted last.
    pub(crate) value: u32,
    /// Counted in a bucket of its run queue.
    pub(crate) active: bool,
}

/// Tasks of a run queue with similar clamps (`struct uclamp_bucket`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Bucket {
    /// Number of the tasks.
    pub(crate) tasks: u32,
    /// Largest clamp since there was none.
    pub(crate) value: u32,
}

/// A clamp of a run queue (`struct uclamp_rq`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RqClamp {
    /// In force.
    pub value: u32,
    /// By size.
    pub(crate) buckets: [Bucket; BUCKETS],
}

/// Both clamps of a run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RqClamps {
    /// They.
    pub of: Clamps<RqClamp>,
    /// No task is runnable since the most was kept (`UCLAMP_FLAG_IDLE`).
    pub idle: bool,
}

impl Default for RqClamps {
    fn default() -> Self {
        let clamp = |value| RqClamp {
            value,
            buckets: [Bucket::default(); BUCKETS],
        };
        Self {
            of: NONE.map(clamp),
            idle: true,
        }
    }
}

/// How utilisation fits a CPU (`util_fits_cpu`), worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fit {
    /// It does not.
    No,
    /// It does, and the least that was asked for does not.
    AllButMin,
    /// It does.
    Yes,
}

fn bucket(value: u32) -> usize {
    ((value / BUCKET_WIDTH) as usize).min(BUCKETS - 1)
}

impl RqClamp {
    /// `uclamp_rq_inc_id`.
    fn count(&mut self, value: u32, idle: bool) {
        let bucket = &mut self.buckets[bucket(value)];
        bucket.tasks += 1;
        if idle {
            self.value = value;
        }
        if bucket.tasks == 1 || value > bucket.value {
            bucket.value = value;
        }
        self.value = self.value.max(value);
    }

    /// `uclamp_rq_dec_id`: whether no task is left and the clamp was theirs.
    fn uncount(&mut self, value: u32, without_tasks: u32) -> bool {
        let bucket = &mut self.buckets[bucket(value)];
        bucket.tasks -= 1;
        if bucket.tasks > 0 || bucket.value < self.value {
            return false;
        }
        let left = self.buckets.iter().rev().find(|bucket| bucket.tasks > 0);
        self.value = left.map_or(without_tasks, |bucket| bucket.value);
        left.is_none()
    }
}

/// Utilisation within clamps that may contradict each other (`uclamp_rq_util_with`).
pub(crate) fn clamped(util: u64, clamps: Clamps<u64>) -> u64 {
    if clamps.min >= clamps.max {
        return clamps.min;
    }
    util.clamp(clamps.min, clamps.max)
}

impl Kernel {
    /// Clamps that a task asks for: its own, or those that its policy has without a wish.
    pub(crate) fn clamps_asked(&self, task: TaskId) -> Clamps<u32> {
        let record = &self.tasks[task];
        let least = match record.policy.is_rt() {
            true => self.rules.clamps.rt_min,
            false => NONE.min,
        };
        Clamps::new(
            record.clamps_asked.min.unwrap_or(least),
            record.clamps_asked.max.unwrap_or(NONE.max),
        )
    }

    /// The part of them that its group and the administrator leave (`uclamp_tg_restrict`,
    /// `uclamp_eff_get`).
    fn clamps_allowed(&self, task: TaskId) -> Clamps<u32> {
        let mut asked = self.clamps_asked(task);
        let group = self.tasks[task].group;
        if group != GroupId::ROOT {
            let bounds = self.groups[group].clamps;
            asked = asked.map(|asked| asked.clamp(bounds.min, bounds.max));
        }
        let most = self.rules.clamps.most;
        Clamps::new(asked.min.min(most.min), asked.max.min(most.max))
    }

    /// The administrator's bounds are in the rules (`sysctl_sched_uclamp_handler`). What is queued
    /// keeps its clamps until it is queued again, unless its group's are other ones.
    pub(crate) fn apply_clamp_tunables(&mut self) {
        let bounds = self.rules.clamps;
        if bounds == ClampTunables::default() && !self.clamps_used {
            return;
        }
        self.clamps_used = true;
        self.groups[GroupId::ROOT].clamps_asked = bounds.most;
        self.update_group_clamps(GroupId::ROOT);
    }

    /// Clamps in force of a task (`uclamp_eff_value`).
    pub fn clamps_of(&self, task: TaskId) -> Clamps<u64> {
        let counted = self.tasks[task].clamps;
        if counted.min.active {
            return counted.map(|clamp| u64::from(clamp.value));
        }
        self.clamps_allowed(task).map(u64::from)
    }

    fn has_clamps(&self, task: TaskId) -> bool {
        let policy = self.tasks[task].policy;
        policy.is_fair() || policy.is_rt()
    }

    /// A task is about to be queued.
    #[inline(always)]
    pub(crate) fn clamps_before_enqueue(&mut self, cpu: Cpu, task: TaskId, flags: EnqueueFlags) {
        if self.clamps_used && !self.rules.clamps_counted_late {
            self.uclamp_rq_inc(cpu, task, flags);
        }
    }

    /// A task was queued. One whose delayed dequeue is called off is no longer delayed then.
    #[inline(always)]
    pub(crate) fn clamps_after_enqueue(&mut self, cpu: Cpu, task: TaskId) {
        if self.clamps_used && self.rules.clamps_counted_late {
            self.uclamp_rq_inc(cpu, task, EnqueueFlags::NONE);
        }
    }

    /// A task counts on a run queue (`uclamp_rq_inc`).
    #[cold]
    #[inline(never)]
    pub(crate) fn uclamp_rq_inc(&mut self, cpu: Cpu, task: TaskId, flags: EnqueueFlags) {
        let se = self.tasks[task].se;
        let wants_to_run = !self.entities[se].sched_delayed || flags.has(EnqueueFlags::DELAYED);
        if self.has_clamps(task) && wants_to_run {
            self.count_clamps(cpu, task);
            self.rqs[cpu].clamps.idle = false;
        }
    }

    fn count_clamps(&mut self, cpu: Cpu, task: TaskId) {
        let allowed = self.clamps_allowed(task);
        self.tasks[task].clamps = allowed.map(|value| TaskClamp {
            value,
            active: true,
        });
        let clamps = &mut self.rqs[cpu].clamps;
        clamps.of.min.count(allowed.min, clamps.idle);
        clamps.of.max.count(allowed.max, clamps.idle);
    }

    /// A task no longer counts on a run queue (`uclamp_rq_dec`). One whose dequeue is delayed has
    /// left already.
    #[cold]
    #[inline(never)]
    pub(crate) fn uclamp_rq_dec(&mut self, cpu: Cpu, task: TaskId) {
        let se = self.tasks[task].se;
        if self.has_clamps(task) && !self.entities[se].sched_delayed {
            self.uncount_clamps(cpu, task);
        }
    }

    fn uncount_clamps(&mut self, cpu: Cpu, task: TaskId) {
        let counted = &mut self.tasks[task].clamps;
        // It was queued before any clamp was set.
        if !counted.min.active {
            return;
        }
        (counted.min.active, counted.max.active) = (false, false);
        let (min, max) = (counted.min.value, counted.max.value);
        let clamps = &mut self.rqs[cpu].clamps;
        clamps.of.min.uncount(min, NONE.min);
        if clamps.of.max.uncount(max, max) {
            clamps.idle = true;
        }
    }

    /// Sets the wishes of a task that has not started, which it has from its parent.
    pub fn ask_clamps(&mut self, task: TaskId, asked: Clamps<Option<u32>>) {
        debug_assert_eq!(self.tasks[task].state, TaskState::New);
        self.tasks[task].clamps_asked = asked;
        self.clamps_used |= self.rules.uclamp && asked != Clamps::default();
    }

    /// Sets clamps of a task from `cpu` (`sched_setattr` with `SCHED_FLAG_KEEP_ALL`). A deadline
    /// task remembers them only.
    ///
    /// # Errors
    /// Clamps that contradict each other, or a kernel without them.
    pub fn set_clamps<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        wish: Clamps<Wish>,
    ) -> Result<(), Refused> {
        self.here = cpu;
        if wish == Clamps::default() {
            return Ok(());
        }
        let asked = self.check_clamps(task, wish)?;
        self.clamps_used = true;
        if self.tasks[task].policy == Policy::Deadline {
            self.tasks[task].clamps_asked = asked;
            return Ok(());
        }
        self.update_rq_clock(p, self.tasks[task].cpu);
        let held = self.hold_task(p, task, false);
        self.tasks[task].clamps_asked = asked;
        self.release_task(p, task, held, false);
        let cpu = self.tasks[task].cpu;
        self.balance_callbacks(p, cpu);
        Ok(())
    }

    /// Wishes of a task after another one, if the kernel accepts it (`uclamp_validate`).
    ///
    /// # Errors
    /// Clamps that contradict each other, or a kernel without them.
    pub fn check_clamps(
        &self,
        task: TaskId,
        wish: Clamps<Wish>,
    ) -> Result<Clamps<Option<u32>>, Refused> {
        if !self.rules.uclamp {
            return Err(Refused::NotBuilt);
        }
        let before = self.tasks[task].clamps_asked;
        let asked = Clamps::new(wish.min.on(before.min), wish.max.on(before.max));
        let now = self.clamps_asked(task);
        // Neither is checked against what a reset leads to.
        let checked = |wish: Wish, now: u32| match wish {
            Wish::Keep => Some(now),
            Wish::Reset => None,
            Wish::Set(value) => Some(value),
        };
        let (min, max) = (checked(wish.min, now.min), checked(wish.max, now.max));
        let (least, most) = (min.unwrap_or(NONE.min), max.unwrap_or(NONE.max));
        if least > most || most > LARGEST {
            return Err(Refused::Range(Clamps::new(least, most)));
        }
        Ok(asked)
    }

    /// Sets `cpu.uclamp.min` and `cpu.uclamp.max` of a group (`cpu_uclamp_write`). Nothing happens
    /// in the root group, which has no such files, and in a kernel without clamps.
    pub fn group_set_clamps<P: Platform>(
        &mut self,
        _: &mut P,
        cpu: Cpu,
        group: GroupId,
        asked: Clamps<u32>,
    ) {
        self.here = cpu;
        if group == GroupId::ROOT || !self.rules.uclamp {
            return;
        }
        self.clamps_used = true;
        self.groups[group].clamps_asked = asked.map(|clamp| clamp.min(LARGEST));
        self.update_group_clamps(group);
    }

    /// `cpu_util_update_eff`: what groups may have follows what those above them may.
    pub(crate) fn update_group_clamps(&mut self, group: GroupId) {
        let record = &self.groups[group];
        let above = record
            .parent
            .map_or(ROOT, |parent| self.groups[parent].clamps);
        let max = record.clamps_asked.max.min(above.max);
        let min = record.clamps_asked.min.min(above.min).min(max);
        let allowed = Clamps { min, max };
        if allowed == record.clamps {
            return;
        }
        self.groups[group].clamps = allowed;
        for row in 0..self.tasks.len() {
            let record = &self.tasks[row];
            if record.group == group && record.clamps.min.active {
                self.recount_clamps(record.cpu, TaskId::from(row));
            }
        }
        for row in 0..self.groups[group].children.len() {
            self.update_group_clamps(self.groups[group].children[row]);
        }
    }

    /// `uclamp_update_active`.
    fn recount_clamps(&mut self, cpu: Cpu, task: TaskId) {
        self.uncount_clamps(cpu, task);
        self.count_clamps(cpu, task);
        self.rqs[cpu].clamps.idle = false;
    }

    /// Clamps in force of a CPU, where some are used.
    pub(crate) fn clamps_of_cpu(&self, cpu: Cpu) -> Option<Clamps<u64>> {
        let clamps = &self.rqs[cpu].clamps;
        let values = || clamps.of.map(|clamp| u64::from(clamp.value));
        self.clamps_used.then(values)
    }

    /// `util_fits_cpu`: utilisation between its clamps on a CPU.
    pub(crate) fn util_fits_cpu(&self, util: u64, clamps: Clamps<u64>, cpu: Cpu) -> Fit {
        let fits = crate::capacity::fits_capacity(util, self.capacity_of(cpu));
        if !self.clamps_used {
            return if fits { Fit::Yes } else { Fit::No };
        }
        let whole = self.capacity_orig_of(cpu);
        let largest = u64::from(LARGEST);
        // Nothing is capped at the capacity of the fastest CPU.
        let capped = clamps.max <= whole && !(whole == largest && clamps.max == largest);
        let least = clamps.min.min(clamps.max);
        match fits || capped {
            false => Fit::No,
            true if util < least && least > whole => {
                reached(Mark::ClampMisses);
                Fit::AllButMin
            }
            true => Fit::Yes,
        }
    }

    /// Whether a CPU is large enough for what a real-time task asks for at least
    /// (`rt_task_fits_capacity`).
    pub(crate) fn rt_task_fits_capacity(&self, task: TaskId, cpu: Cpu) -> bool {
        if !self.domains.asym_active || !self.rules.uclamp {
            return true;
        }
        let clamps = self.clamps_of(task);
        self.capacity_orig_of(cpu) >= clamps.min.min(clamps.max)
    }

    /// Whether the most of a CPU holds its utilisation down (`uclamp_rq_is_capped`).
    pub(crate) fn uclamp_rq_is_capped(&self, cpu: Cpu) -> bool {
        self.clamps_of_cpu(cpu).is_some_and(|clamps| {
            let rt = self.rqs[cpu].rt.avg.util_avg;
            clamps.max != u64::from(LARGEST) && self.cpu_util(cpu) + rt >= clamps.max
        })
    }
}
