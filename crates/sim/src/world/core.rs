//! The one contract between a world and what decides in it.
//!
//! A world enters the kernel through these methods and reads its tables through [`Core::tables`].
//! The rules in Rust, [`Kernel`], are one implementation: each method is the one of its name there,
//! so the calls inline. The C of a kernel tree is another, which keeps the tables that a world
//! reads as its C says.

use super::{RunError, World};
use schedcast_base::limits::LimitError;
use schedcast_kernel::bandwidth::limits::Hierarchy;
use schedcast_kernel::cpufreq::FrequencyDriver;
use schedcast_kernel::cpuidle::{GovernorKind, IdleState};
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::dl::Reservation;
use schedcast_kernel::dl::change::Refused;
use schedcast_kernel::group::BandwidthLimit;
use schedcast_kernel::rules::Rules;
use schedcast_kernel::task::{Policy, TaskAttributes};
use schedcast_kernel::uclamp::{self, Clamps, Wish};
use schedcast_kernel::{Cpu, GroupId, Kernel, Ns, Platform, TaskId, WakeFlags};

macro_rules! core {
    (
        with a platform { $($name:ident ($($argument:ident: $kind:ty),*) -> $result:ty;)* }
        without { $($plain:ident ($($given:ident: $type:ty),*) -> $returned:ty;)* }
    ) => {
        /// Scheduler of a [`World`]: the methods of [`Kernel`] that a world calls, and how it reads
        /// the tables.
        pub trait Core: Sized + std::fmt::Debug {
            /// Tasks, groups and counters, as far as a world reads them.
            fn tables(&self) -> &Kernel;

            /// The same, for what a world notes in them.
            fn tables_mut(&mut self) -> &mut Kernel;

            /// Why it cannot go on, if it cannot; nothing it returned since then means anything.
            fn fault(&self) -> Option<String>;

            /// Brings the counters of [`Core::tables`] to the present.
            fn settle(&mut self);

            /// Lets a world of this core run until virtual time `until`, everything that happens at
            /// that time included. The loop is compiled where the core is, once.
            ///
            /// # Errors
            /// A program at fault; the world stays at the time of the fault.
            fn run(world: &mut World<false, Self>, until: Ns) -> Result<(), RunError>;

            /// Like [`Core::run`], but statistics stay where the last events brought them: the run
            /// is to go on.
            ///
            /// # Errors
            /// A program at fault.
            fn run_on(world: &mut World<false, Self>, until: Ns) -> Result<(), RunError>;

            /// First expiry of a group's period timer, before a limit starts it.
            fn set_period_phase(&mut self, group: GroupId, phase_ns: Ns);

            /// Lines that the kernel has printed: warnings among them.
            fn printed(&self) -> &[String] {
                &[]
            }

            /// Says the name of a task that has not started.
            #[inline(always)]
            fn name_task(&mut self, _: TaskId, _: &str) {}

            /// The run is about to begin: timers that are armed already are made known.
            fn begin<P: Platform>(&mut self, _: &mut P) {}

            #[doc = "As [`Kernel::irq_enter`]."]
            fn irq_enter<P: Platform>(&mut self, p: &P, cpu: Cpu);

            $(#[doc = concat!("As [`Kernel::", stringify!($name), "`].")]
            #[allow(clippy::missing_errors_doc, reason = "those of the kernel's method")]
            fn $name<P: Platform>(&mut self, p: &mut P $(, $argument: $kind)*) -> $result;)*

            $(#[doc = concat!("As [`Kernel::", stringify!($plain), "`].")]
            fn $plain(&mut self $(, $given: $type)*) -> $returned;)*
        }

        impl Core for Kernel {
            #[inline(always)]
            fn tables(&self) -> &Kernel {
                self
            }

            #[inline(always)]
            fn tables_mut(&mut self) -> &mut Kernel {
                self
            }

            #[inline(always)]
            fn fault(&self) -> Option<String> {
                None
            }

            #[inline(always)]
            fn settle(&mut self) {}

            fn run(world: &mut World, until: Ns) -> Result<(), RunError> {
                world.run_until(until)
            }

            fn run_on(world: &mut World, until: Ns) -> Result<(), RunError> {
                world.run_on(until)
            }

            fn set_period_phase(&mut self, group: GroupId, phase_ns: Ns) {
                self.groups[group].bandwidth.expires_ns = phase_ns;
            }

            #[inline(always)]
            fn irq_enter<P: Platform>(&mut self, p: &P, cpu: Cpu) {
                Kernel::irq_enter(self, p, cpu);
            }

            $(#[inline(always)]
            fn $name<P: Platform>(&mut self, p: &mut P $(, $argument: $kind)*) -> $result {
                Kernel::$name(self, p $(, $argument)*)
            })*

            $(#[inline(always)]
            fn $plain(&mut self $(, $given: $type)*) -> $returned {
                Kernel::$plain(self $(, $given)*)
            })*
        }
    };
}

core! {
    with a platform {
        tick(cpu: Cpu) -> ();
        ipi(cpu: Cpu) -> ();
        fair_server_timer(here: Cpu, cpu: Cpu) -> ();
        fair_server_inactive_timer(here: Cpu, cpu: Cpu) -> ();
        hrtick_timer(cpu: Cpu) -> ();
        dl_timer(cpu: Cpu, task: TaskId) -> ();
        dl_inactive_timer(cpu: Cpu, task: TaskId) -> ();
        rt_period_timer(cpu: Cpu) -> ();
        period_timer(cpu: Cpu, group: GroupId) -> ();
        slack_timer(cpu: Cpu, group: GroupId) -> ();
        wake(cpu: Cpu, task: TaskId, flags: WakeFlags) -> bool;
        wake_up_new_task(cpu: Cpu, task: TaskId) -> ();
        block(cpu: Cpu) -> ();
        yield_current(cpu: Cpu) -> ();
        exit(cpu: Cpu) -> ();
        leave_kernel(cpu: Cpu) -> TaskId;
        task_sched_runtime(cpu: Cpu) -> Ns;
        set_nice(cpu: Cpu, task: TaskId, nice: i32) -> ();
        set_policy(cpu: Cpu, task: TaskId, policy: Policy, nice: i32, rt_priority: u8) -> ();
        set_deadline(cpu: Cpu, task: TaskId, asked: Reservation) -> Result<(), Refused>;
        set_custom_slice(cpu: Cpu, task: TaskId, slice_ns: Option<Ns>) -> ();
        set_clamps(cpu: Cpu, task: TaskId, wish: Clamps<Wish>) -> Result<(), uclamp::Refused>;
        set_affinity(cpu: Cpu, task: TaskId, affinity: CpuSet) -> ();
        set_group(cpu: Cpu, task: TaskId, group: GroupId) -> ();
        set_latency_limit(cpu: Cpu, task: TaskId, limit_ns: Option<Ns>) -> ();
        group_create(parent: GroupId) -> GroupId;
        group_set_bandwidth(
            cpu: Cpu, group: GroupId, limit: BandwidthLimit, hierarchy: Hierarchy
        ) -> Result<(), LimitError>;
        group_set_shares(cpu: Cpu, group: GroupId, shares: u64) -> ();
        group_set_idle(cpu: Cpu, group: GroupId, idle: bool) -> ();
        group_set_clamps(cpu: Cpu, group: GroupId, asked: Clamps<u32>) -> ();
        register_frequency_driver(driver: FrequencyDriver) -> ();
    }
    without {
        task_create(attributes: TaskAttributes) -> TaskId;
        task_reap(task: TaskId) -> ();
        adopt_sleeper(cpu: Cpu, task: TaskId) -> ();
        ask_clamps(task: TaskId, asked: Clamps<Option<u32>>) -> ();
        inherit_wakees(parent: TaskId, child: TaskId) -> ();
        idle_woken(cpu: Cpu, at: Ns, poll_limit: bool) -> ();
        steal(cpu: Cpu, steal_ns: Ns) -> ();
        register_idle_states(states: Vec<IdleState>, kind: GovernorKind) -> ();
        set_rules(rules: Rules) -> ();
        set_wakeup_mark(mark_ns: Ns) -> ();
        set_newidle_ratio(ratio_1024ths: u32) -> ();
    }
}
