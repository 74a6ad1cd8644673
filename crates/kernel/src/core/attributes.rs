//! Changing what a task is while it may be running: nice, policy, affinity, group, slice.
//!
//! The kernel does all of them the same way: take the task off its queue, put it if it runs, change
//! it, queue it and set it again, and see whether another task should run now. Worked example: a
//! nice-0 hog (weight 1024) runs beside another; at nice 5 (weight 335) its lag and the distance to
//! its deadline are stretched by 1024 / 335 in virtual time, and the CPU is rescheduled because its
//! priority fell.

use crate::cpuset::CpuSet;
use crate::fair::{DequeueFlags, EnqueueFlags};
use crate::ids::{Cpu, GroupId, Ns, TaskId};
use crate::kernel::{Arrival, Context, Kernel, WakeFlags};
use crate::platform::Platform;
use crate::select::WakeKind;
use crate::task::{Policy, TaskState};
use crate::weight::LoadWeight;

/// Shortest and longest request that `sched_setattr` sets (6.12).
const CUSTOM_SLICE_NS: std::ops::RangeInclusive<Ns> = 100_000..=100_000_000;

/// How a task was found when its attributes were about to change.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    cpu: Cpu,
    queued: bool,
    running: bool,
    moved: bool,
}

impl Kernel {
    /// Kernel priority: smaller is more urgent. −1 deadline, 0..=98 real-time, 100..=139 fair.
    #[inline]
    pub(crate) fn prio(&self, task: TaskId) -> i32 {
        let record = &self.tasks[task];
        match record.policy {
            Policy::Stop | Policy::Deadline => -1,
            Policy::Fifo | Policy::RoundRobin => 99 - i32::from(record.rt_priority),
            Policy::Normal | Policy::Batch | Policy::Idle => 120 + record.nice,
        }
    }

    pub(crate) fn hold_task<P: Platform>(&mut self, p: &mut P, task: TaskId, moved: bool) -> Held {
        let cpu = self.tasks[task].cpu;
        let queued = self.tasks[task].on_rq;
        let running = self.rqs[cpu].curr == task;
        if queued {
            let flags = DequeueFlags::SAVE.with(DequeueFlags::MOVED, moved);
            self.dequeue_task(p, cpu, task, flags);
        }
        if running {
            self.put_prev_task(p, task);
        }
        Held {
            cpu,
            queued,
            running,
            moved,
        }
    }

    pub(crate) fn release_task<P: Platform>(
        &mut self,
        p: &mut P,
        task: TaskId,
        held: Held,
        head: bool,
    ) {
        if held.queued {
            let flags = EnqueueFlags::RESTORE
                .with(EnqueueFlags::MOVED, held.moved)
                .with(EnqueueFlags::HEAD, head);
            self.enqueue_task(p, held.cpu, task, flags);
        }
        if held.running {
            self.set_next_task(p, held.cpu, task, false);
        }
    }

    /// `set_load_weight`.
    fn set_load_weight<P: Platform>(&mut self, p: &mut P, task: TaskId, was_fair: bool) {
        let record = &self.tasks[task];
        let load = match record.policy {
            Policy::Idle => LoadWeight::idle_policy(),
            _ => LoadWeight::from_nice(record.nice),
        };
        let se = record.se;
        if was_fair && (record.policy != Policy::Idle || self.rules.idle_policy_reweights) {
            let q = self.entities[se].cfs_rq;
            self.reweight_entity(p, q, se, load);
        } else {
            let h_load = self.rules.virtual_weight(&load);
            let flat = self.rules.flat_pick;
            let entity = &mut self.entities[se];
            entity.load = load;
            // With the flat pick the next enqueue works the weight out and rescales the request.
            if !flat {
                entity.h_load = h_load;
            }
        }
    }

    /// Sets the nice value of a task, −20..=19, from `cpu` (`set_user_nice`). Real-time tasks only
    /// remember it.
    ///
    /// # Panics
    /// When `nice` is out of range.
    pub fn set_nice<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId, nice: i32) {
        assert!((-20..=19).contains(&nice), "nice {nice} is not in -20..=19");
        self.here = cpu;
        if self.tasks[task].nice == nice {
            return;
        }
        let fair = self.tasks[task].policy.is_fair();
        if fair || self.rules.changes_read_clock_first {
            self.update_rq_clock(p, self.tasks[task].cpu);
        }
        if !fair {
            self.tasks[task].nice = nice;
            return;
        }
        let old_prio = self.prio(task);
        let held = self.hold_task(p, task, false);
        self.tasks[task].nice = nice;
        self.set_load_weight(p, task, true);
        self.release_task(p, task, held, false);
        self.prio_changed_fair(p, held.cpu, task, old_prio);
    }

    /// Sets policy, nice value and real-time priority of a task (`__sched_setscheduler`). `nice` is
    /// for the fair policies; `rt_priority` is 1..=99 for FIFO and RR and 0 otherwise.
    ///
    /// # Panics
    /// When nice or priority do not fit the policy, or the policy is [`Policy::Stop`] or
    /// [`Policy::Deadline`].
    pub fn set_policy<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        policy: Policy,
        nice: i32,
        rt_priority: u8,
    ) {
        assert!(
            !matches!(policy, Policy::Stop | Policy::Deadline),
            "only migration threads are stop tasks, and deadline tasks need a reservation"
        );
        assert!((-20..=19).contains(&nice), "nice {nice} is not in -20..=19");
        assert!(
            policy.is_rt() == (1..=99).contains(&rt_priority) && rt_priority <= 99,
            "real-time priority {rt_priority} does not fit {policy:?}"
        );
        self.here = cpu;
        let record = &self.tasks[task];
        let unchanged = record.policy == policy
            && (!policy.is_fair() || record.nice == nice)
            && (!policy.is_rt() || record.rt_priority == rt_priority);
        // A base slice is none that was asked for, and so it counts as a change where slices can be
        // asked for.
        let asks_anew = self.rules.custom_slices
            && matches!(policy, Policy::Normal | Policy::Batch)
            && !self.entities[record.se].custom_slice;
        self.update_rq_clock(p, self.tasks[task].cpu);
        if unchanged && !asks_anew {
            return;
        }
        self.change_class(
            p,
            task,
            policy,
            policy.is_fair().then_some(nice),
            rt_priority,
            None,
        );
    }

    /// The part of `__sched_setscheduler` behind its checks.
    pub(crate) fn change_class<P: Platform>(
        &mut self,
        p: &mut P,
        task: TaskId,
        policy: Policy,
        nice: Option<i32>,
        rt_priority: u8,
        reservation: Option<crate::dl::Reservation>,
    ) {
        let (old_policy, old_prio) = (self.tasks[task].policy, self.prio(task));
        let class_changes = old_policy.rank() != policy.rank();
        if class_changes {
            self.finish_delayed_dequeue(p, task);
        }
        let new_prio = match (policy, nice) {
            (Policy::Deadline, _) => -1,
            (_, Some(nice)) => 120 + nice,
            _ => 99 - i32::from(rt_priority),
        };
        let moved =
            new_prio != old_prio || (policy == Policy::Deadline && self.rules.dl_moved_renews);
        let held = self.hold_task(p, task, moved);
        let leaves_first = class_changes && self.rules.class_change_detaches_first;
        if leaves_first && old_policy.is_fair() {
            self.detach_task_cfs_rq(p, task);
        }
        let record = &mut self.tasks[task];
        record.policy = policy;
        record.rt_priority = rt_priority;
        if let Some(nice) = nice {
            record.nice = nice;
        }
        let old_deadline_ns = self.dl.of(task).deadline_ns;
        if let Some(reservation) = reservation {
            self.dl_set_parameters(task, reservation);
        }
        self.set_load_weight(p, task, old_policy.is_fair());
        self.release_task(p, task, held, old_prio < new_prio);
        if policy == Policy::Deadline && !class_changes {
            self.prio_changed_dl(p, held.cpu, task, old_deadline_ns);
        } else {
            self.class_or_prio_changed(p, held.cpu, task, old_policy, old_prio);
        }
        let (rank, old_rank) = (policy.rank(), old_policy.rank());
        if class_changes && self.rules.changed_class_preempts {
            if held.queued {
                self.wakeup_preempt(p, held.cpu, task, Arrival::Other);
            }
        } else if held.running && rank > old_rank {
            self.rqs[held.cpu].next_rank = rank;
        }
        if held.running && rank < old_rank && self.rules.lower_class_reschedules {
            self.resched_curr(p, held.cpu);
        }
        self.balance_callbacks(p, held.cpu);
    }

    /// `check_class_changed`.
    fn class_or_prio_changed<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        old_policy: Policy,
        old_prio: i32,
    ) {
        let policy = self.tasks[task].policy;
        if old_policy.rank() != policy.rank() {
            if old_policy == Policy::Deadline {
                self.switched_from_dl(p, cpu, task);
            } else if old_policy.is_rt() {
                self.switched_from_rt(cpu, task);
            } else if !self.rules.class_change_detaches_first {
                self.detach_task_cfs_rq(p, task);
            }
            if policy == Policy::Deadline {
                self.switched_to_dl(p, cpu, task);
            } else if policy.is_rt() {
                self.switched_to_rt(p, cpu, task);
            } else {
                self.switched_to_fair(p, cpu, task);
            }
        } else if self.prio(task) == old_prio {
        } else if policy.is_fair() {
            self.prio_changed_fair(p, cpu, task, old_prio);
        } else {
            self.prio_changed_rt(p, cpu, task, old_prio);
        }
    }

    /// Sets the length of the requests of a fair task (`sched_setattr` with `sched_runtime`, 6.12
    /// on; older kernels ignore it). Clamped to 0.1..=100 ms; `None` returns to the base slice. A
    /// SCHED_IDLE task, or one that has this length, is left alone.
    pub fn set_custom_slice<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        slice_ns: Option<Ns>,
    ) {
        self.here = cpu;
        let record = &self.tasks[task];
        let asks = matches!(record.policy, Policy::Normal | Policy::Batch);
        let (se, on) = (record.se, record.cpu);
        if !self.rules.custom_slices {
            return;
        }
        self.update_rq_clock(p, on);
        if !asks || slice_ns == Some(self.entities[se].slice) {
            return;
        }
        if slice_ns.is_some() {
            self.expect_custom_slices();
        }
        let held = self.hold_task(p, task, false);
        let entity = &mut self.entities[se];
        entity.custom_slice = slice_ns.is_some();
        entity.slice = match slice_ns {
            Some(slice_ns) => slice_ns.clamp(*CUSTOM_SLICE_NS.start(), *CUSTOM_SLICE_NS.end()),
            None => self.rules.base_slice_ns,
        };
        self.set_load_weight(p, task, true);
        self.release_task(p, task, held, false);
    }

    /// Moves a task to another group (`sched_move_task`).
    pub fn set_group<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId, group: GroupId) {
        self.here = cpu;
        if self.tasks[task].group == group {
            return;
        }
        self.update_rq_clock(p, self.tasks[task].cpu);
        let held = self.hold_task(p, task, true);
        self.tasks[task].group = group;
        if self.tasks[task].policy.is_fair() {
            self.task_change_group_fair(p, task);
        } else {
            let se = self.tasks[task].se;
            self.set_task_rq(se, group, held.cpu);
        }
        self.release_task(p, task, held, false);
        if held.running {
            // The new group may be throttled.
            self.resched_curr(p, held.cpu);
        } else if held.queued && self.rules.moved_task_preempts {
            self.wakeup_preempt(p, held.cpu, task, Arrival::Other);
        }
    }

    /// Restricts a task to a set of CPUs (`__set_cpus_allowed_ptr`). A queued task that may no
    /// longer stay is moved at once, a running one by the migration thread of its CPU, a sleeper at
    /// its wakeup. The caller does not wait for the migration thread.
    ///
    /// # Panics
    /// When `affinity` is empty.
    pub fn set_affinity<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        affinity: CpuSet,
    ) {
        assert!(!affinity.is_empty(), "a task needs at least one CPU");
        self.here = cpu;
        let unchanged = self.tasks[task].affinity == affinity;
        if !unchanged || self.rules.changes_read_clock_first {
            self.update_rq_clock(p, self.tasks[task].cpu);
        }
        if unchanged {
            return;
        }
        let target = self.any_and_distribute(cpu, &affinity);
        let held = self.hold_task(p, task, false);
        if self.tasks[task].policy == Policy::Deadline {
            self.dl_leaves_domain(task, &affinity);
        }
        let record = &mut self.tasks[task];
        record.affinity = affinity;
        record.nr_cpus_allowed = affinity.len() as u32;
        self.release_task(p, task, held, false);
        self.affine_move_task(p, task, target);
    }

    /// `affine_move_task`.
    fn affine_move_task<P: Platform>(&mut self, p: &mut P, task: TaskId, target: Cpu) {
        let record = &mut self.tasks[task];
        let cpu = record.cpu;
        if record.affinity.contains(cpu) {
            return;
        }
        if record.on_cpu || record.state == TaskState::Waking {
            let pending = record.migration_pending.replace(target).is_some();
            if !pending {
                self.stop_one_cpu(p, cpu, crate::rq::StopWork::Affinity(task));
            }
        } else if record.on_rq {
            self.move_queued_task(p, task, target);
        }
    }

    /// Next CPU of a set after the one this CPU chose last (`cpumask_any_and_distribute`, 5.7);
    /// always the first before.
    pub(crate) fn any_and_distribute(&mut self, cpu: Cpu, affinity: &CpuSet) -> Cpu {
        let first = affinity.lowest().unwrap_or(cpu);
        if !self.rules.affinity_distributes {
            return first;
        }
        let previous = self.rqs[cpu].distribute_cpu_prev;
        let next = affinity
            .iter()
            .find(|&other| other > previous)
            .unwrap_or(first);
        self.rqs[cpu].distribute_cpu_prev = next;
        next
    }

    /// The current task of `cpu` executes a new program: a good moment to move it, its cache is of
    /// no use (`sched_exec`). [`Kernel::leave_kernel`] has to follow.
    pub fn exec<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        self.here = cpu;
        let task = self.rqs[cpu].curr;
        if !self.tasks[task].policy.is_fair() {
            return;
        }
        let flags = WakeFlags::new(false, Context::Task);
        // The class alone is asked, of a pinned task, too.
        let target = self.select_task_rq_fair(p, cpu, task, WakeKind::Exec, flags);
        if target != cpu {
            self.stop_one_cpu(p, cpu, crate::rq::StopWork::Migrate(task, target));
        }
    }
}
