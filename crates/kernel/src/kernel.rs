//! The whole scheduler state, and the doors through which the world enters it.
//!
//! Everything is an index into a table, so a [`Kernel`] clones by copying vectors and two clones
//! fed with the same calls stay equal. The world enters through the methods of this crate's rooms:
//!
//! | door | when |
//! |---|---|
//! | [`Kernel::tick`] | the tick timer of a CPU fires |
//! | [`Kernel::ipi`] | an interprocessor interrupt arrives |
//! | [`Kernel::period_timer`], [`Kernel::slack_timer`] | a bandwidth timer fires |
//! | [`Kernel::rt_period_timer`], [`Kernel::fair_server_timer`], [`Kernel::fair_server_inactive_timer`] | a timer of the real-time class fires |
//! | [`Kernel::wake`] | a task or an interrupt wakes a task |
//! | [`Kernel::dl_timer`], [`Kernel::dl_inactive_timer`] | a timer of a deadline task fires |
//! | [`Kernel::block`], [`Kernel::exit`], [`Kernel::yield_current`] | the running task gives up its CPU |
//! | [`Kernel::leave_kernel`] | always last, on the way back to user mode or the idle loop |

use crate::cfs_rq::CfsRq;
use crate::divide::Divisor;
use crate::entity::{Entity, Owner};
use crate::fair::slice_tree::SliceTrees;
use crate::group::{Bandwidth, Group};
use crate::ids::{CfsRqId, Cpu, EntityId, GroupId, Ns, TaskId};
use crate::model::{Mark, reached};
use crate::platform::{Draw, Platform};
use crate::rq::{Nohz, Rq};
use crate::rules::Rules;
use crate::table::Table;
use crate::task::{Policy, Task, TaskAttributes, TaskState};
use crate::topology::Topology;
use crate::uclamp::Clamps;
use crate::weight::{LoadWeight, NICE_0_LOAD};

/// Where a wakeup comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Context {
    /// A task in a system call, or a kernel thread.
    Task,
    /// Hard interrupt (timer, device).
    HardIrq,
    /// Soft interrupt.
    SoftIrq,
}

/// How a wakeup is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakeFlags {
    /// `WF_SYNC`: the waker is about to sleep.
    pub sync: bool,
    /// Context of the waker.
    pub context: Context,
}

impl WakeFlags {
    /// A wakeup in sync or not, from this context.
    pub const fn new(sync: bool, context: Context) -> Self {
        Self { sync, context }
    }
}

/// How a task came to the queue where it may preempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// Started by a fork.
    Fork,
    /// Woken by one who is about to sleep; `selected` = a CPU was chosen for it (`WF_RQ_SELECTED`).
    Sync { selected: bool },
    /// Another wakeup, or moved.
    Other,
}

/// Scheduler state of one machine.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Rules of this kernel.
    pub rules: Rules,
    /// The machine as the scheduler sees it.
    pub(crate) topology: Topology,
    /// Tasks; rows `0..cpus` are the idle tasks, rows `cpus..2 · cpus` the migration threads.
    pub tasks: Table<Task>,
    /// Entities of tasks and groups; row 0 stands for none.
    pub entities: Table<Entity>,
    /// Fair queues, row `group · cpus + cpu`.
    pub cfs_rqs: Table<CfsRq>,
    /// Run queues, one per CPU.
    pub rqs: Table<Rq>,
    /// Groups; row 0 is the root group.
    pub groups: Table<Group>,
    /// Tickless idle bookkeeping.
    pub(crate) nohz: Nohz,
    /// Scheduling domains and what balancing remembers.
    pub domains: crate::balance::Domains,
    /// Caches that processes prefer.
    pub cache: crate::cache::CacheAware,
    /// The energy model.
    pub(crate) energy: crate::energy::Energy,
    /// CPU frequency.
    pub(crate) cpufreq: crate::cpufreq::Cpufreq,
    /// Idle states.
    pub(crate) cpuidle: crate::cpuidle::Cpuidle,
    /// Real-time state of the whole machine.
    pub(crate) rt_domain: crate::rt::RtDomain,
    /// The deadline class.
    pub dl: crate::dl::Deadlines,
    /// Tick length, to count jiffies with.
    pub(crate) tick: Divisor,
    /// CPU that executes the current kernel operation.
    pub here: Cpu,
    /// Jiffy of the search or pass under way.
    pub(crate) jiffy: u64,
    /// Some task asked for a slice of its own; until then every slice is the base slice.
    pub(crate) custom_slices: bool,
    /// From then on, where the kernel loses some of them.
    pub(crate) slice_trees: Option<Box<SliceTrees>>,
    /// Some task or group was given a utilisation clamp (`sched_uclamp_used`).
    pub(crate) clamps_used: bool,
    /// Room for walks over lists that change under the walk.
    pub(crate) scratch_queues: Vec<CfsRqId>,
    /// Rows of dead tasks that can be used again.
    free_tasks: Vec<TaskId>,
}

impl Kernel {
    /// How long a wakeup on another CPU takes from the choice of an idle CPU until others see it
    /// taken, ns.
    pub fn set_wakeup_mark(&mut self, mark_ns: crate::ids::Ns) {
        self.domains.claims.mark_ns = mark_ns;
    }

    /// How many of 1024 newly idle balances are tried at first (NI_RANDOM), in all domains.
    pub fn set_newidle_ratio(&mut self, ratio_1024ths: u32) {
        self.domains.set_newidle_ratio(ratio_1024ths);
    }

    /// All CPUs have been idle for longer than any period of a fair server.
    pub fn has_been_idle(&mut self) {
        const IDLE_NS: Ns = 10_000_000_000;
        for cpu in 0..self.cpus() {
            let idle = self.tasks[self.rqs[cpu].idle].se;
            self.entities[idle].exec_start = 0u64.wrapping_sub(IDLE_NS);
        }
    }

    /// Some task asks for a slice of its own, or will. Which of these slices the kernel loses
    /// depends on the history of its trees, so the result is exact only for queues that were empty
    /// before the first call.
    pub fn expect_custom_slices(&mut self) {
        self.custom_slices = true;
        let rules = &self.rules;
        if rules.custom_slices && rules.rotations_lose_slices && self.slice_trees.is_none() {
            let timelines = (0..self.cfs_rqs.len()).map(|q| &self.cfs_rqs[q].timeline);
            let trees = SliceTrees::of(timelines, &self.entities, rules.lag_limit_by_longest);
            self.slice_trees = Some(Box::new(trees));
        }
    }

    /// A machine at time 0: all CPUs idle, only the root group.
    pub fn new(topology: Topology, rules: Rules) -> Self {
        let cpus = topology.cpus();
        let domains = crate::balance::Domains::new(&topology, &rules);
        let mut kernel = Self {
            tasks: Table::new(),
            entities: Table::new(),
            cfs_rqs: Table::new(),
            rqs: Table::new(),
            groups: Table::new(),
            nohz: Nohz {
                has_full: rules.idle.nohz_full && !topology.nohz_full.is_empty(),
                ..Nohz::default()
            },
            cache: crate::cache::CacheAware::new(&domains, &rules),
            domains,
            energy: crate::energy::Energy::default(),
            cpufreq: crate::cpufreq::Cpufreq::default(),
            cpuidle: crate::cpuidle::Cpuidle::default(),
            rt_domain: crate::rt::RtDomain::default(),
            dl: crate::dl::Deadlines::new(&topology, &rules),
            tick: Divisor::new(rules.tick_ns),
            here: Cpu(0),
            jiffy: 0,
            custom_slices: false,
            slice_trees: None,
            clamps_used: false,
            scratch_queues: Vec::new(),
            free_tasks: Vec::new(),
            topology,
            rules,
        };
        kernel.entities.push(Entity::nobody());
        kernel.groups.push(Group {
            shares: NICE_0_LOAD,
            nr_cpus: cpus as u32,
            clamps_asked: crate::uclamp::ROOT,
            clamps: crate::uclamp::ROOT,
            bandwidth: Bandwidth::new(0),
            ..Group::default()
        });
        for cpu in (0..cpus).map(Cpu::from) {
            let mut cfs_rq = CfsRq::new(GroupId::ROOT, cpu, None);
            cfs_rq.sums = kernel.rules.queue_sums;
            kernel.cfs_rqs.push(cfs_rq);
            let idle = kernel.idle_task(cpu);
            let capacity = kernel
                .topology
                .capacities
                .get(cpu.index())
                .copied()
                .unwrap_or(1024);
            let rq = Rq::new(cpu, idle, u64::from(capacity), &kernel.rules);
            kernel.rqs.push(rq);
            kernel.rqs[cpu].cpu_capacity = kernel.domains.cpus[cpu].capacity_orig;
        }
        kernel.apply_clamp_tunables();
        kernel.nohz_boot();
        for cpu in (0..cpus).map(Cpu::from) {
            let stopper = kernel.task_create(Self::migration_thread_attributes(cpu));
            kernel.tasks[stopper].state = TaskState::Blocked;
        }
        kernel
    }

    fn idle_task(&mut self, cpu: Cpu) -> TaskId {
        let idle = self.task_create(TaskAttributes {
            affinity: crate::cpuset::CpuSet::of(cpu),
            cpu,
            ..TaskAttributes::default()
        });
        let task = &mut self.tasks[idle];
        task.state = TaskState::Running;
        task.on_cpu = true;
        idle
    }

    /// Number of CPUs.
    #[inline(always)]
    pub fn cpus(&self) -> usize {
        self.topology.places.len()
    }

    /// Fair queue of a group on a CPU.
    #[inline(always)]
    pub fn cfs_rq_of(&self, group: GroupId, cpu: Cpu) -> CfsRqId {
        CfsRqId(group.0 * self.topology.places.len() as u32 + cpu.0)
    }

    /// Root fair queue of a CPU.
    #[inline(always)]
    pub fn root_cfs_rq(&self, cpu: Cpu) -> &CfsRq {
        &self.cfs_rqs[cpu]
    }

    /// Task a CPU executes (maybe its idle task).
    #[inline(always)]
    pub fn current(&self, cpu: Cpu) -> TaskId {
        self.rqs[cpu].curr
    }

    /// Whether this is the idle task of some CPU.
    #[inline(always)]
    pub fn is_idle_task(&self, task: TaskId) -> bool {
        task.index() < self.cpus()
    }

    /// Rank of the class of a task; that of idle tasks is below all others.
    #[inline(always)]
    pub(crate) fn rank(&self, task: TaskId) -> u8 {
        match self.is_idle_task(task) {
            true => 0,
            false => self.tasks[task].policy.rank(),
        }
    }

    /// Creates a group below `parent` (`sched_create_group`): shares 1024, no limit. From 6.4 the
    /// phase of its period timer is drawn here.
    pub fn group_create<P: Platform>(&mut self, p: &mut P, parent: GroupId) -> GroupId {
        let group = GroupId::from(self.groups.len());
        let phase_ns = if self.rules.timer_interleave {
            reached(Mark::TimerRandomPhase);
            p.random(Draw::BandwidthPhase(group))
                % crate::group::BandwidthLimit::UNLIMITED.period_ns
        } else {
            reached(Mark::TimerAligned);
            0
        };
        self.groups.push(Group {
            parent: Some(parent),
            shares: NICE_0_LOAD,
            nr_cpus: self.cpus() as u32,
            clamps_asked: crate::uclamp::NONE,
            clamps: crate::uclamp::NONE,
            bandwidth: Bandwidth::new(phase_ns),
            ..Group::default()
        });
        self.groups[parent].children.push(group);
        self.update_group_clamps(group);
        for cpu in (0..self.cpus()).map(Cpu::from) {
            self.group_queue_create(p, group, parent, cpu);
        }
        group
    }

    fn group_queue_create<P: Platform>(
        &mut self,
        p: &mut P,
        group: GroupId,
        parent: GroupId,
        cpu: Cpu,
    ) {
        let queue = CfsRqId::from(self.cfs_rqs.len());
        let parent_queue = self.cfs_rq_of(parent, cpu);
        let entity = EntityId::from(self.entities.len());
        self.entities.push(Entity::new(
            Owner::Group(group, queue),
            parent_queue,
            self.cfs_rqs[parent_queue].se,
            LoadWeight::from_scaled(NICE_0_LOAD),
            self.rules.base_slice_ns,
        ));
        self.entities[entity].h_load = self
            .rules
            .virtual_weight(&LoadWeight::from_scaled(NICE_0_LOAD));
        let mut cfs_rq = CfsRq::new(group, cpu, Some(entity));
        cfs_rq.sums = self.rules.queue_sums;
        // A queue below a throttled one starts throttled, its clock stopped now (`sync_throttle`).
        self.update_rq_clock(p, cpu);
        cfs_rq.throttle_count = self.cfs_rqs[parent_queue].throttle_count;
        cfs_rq.pelt_clock_throttled = cfs_rq.throttle_count > 0;
        cfs_rq.throttled_clock_pelt_ns = self.rq_clock_pelt(cpu);
        self.cfs_rqs.push(cfs_rq);
        // Attached while it has no load (`online_fair_sched_group`): left to its first enqueue,
        // what its first task brings would count twice in the parent, as propagated and as
        // attached.
        self.attach_entity_cfs_rq(p, parent_queue, entity);
    }

    /// Creates a task that has not started yet; [`Kernel::wake_up_new_task`] starts it.
    pub fn task_create(&mut self, attributes: TaskAttributes) -> TaskId {
        let reused = self.free_tasks.pop();
        let task = reused.unwrap_or(TaskId::from(self.tasks.len()));
        let cfs_rq = self.cfs_rq_of(attributes.group, attributes.cpu);
        let parent = if attributes.group == GroupId::ROOT {
            None
        } else {
            self.cfs_rqs[cfs_rq].se
        };
        let load = match attributes.policy {
            Policy::Idle => LoadWeight::idle_policy(),
            _ => LoadWeight::from_nice(attributes.nice),
        };
        let mut entity = Entity::new(
            Owner::Task(task),
            cfs_rq,
            parent,
            load,
            self.rules.base_slice_ns,
        );
        entity.h_load = self.rules.virtual_weight(&load);
        // Kernels before 6.12 ignore it.
        let custom_slice_ns = attributes
            .custom_slice_ns
            .filter(|_| self.rules.custom_slices);
        if let Some(slice_ns) = custom_slice_ns {
            entity.slice = slice_ns;
            entity.custom_slice = true;
            self.expect_custom_slices();
        }
        let se = match reused {
            Some(old) => self.tasks[old].se,
            None => EntityId::from(self.entities.len()),
        };
        let record = Task {
            se,
            group: attributes.group,
            cpu: attributes.cpu,
            forked_on: attributes.cpu,
            state: TaskState::New,
            on_rq: false,
            migrating: false,
            wake_migrated: false,
            on_cpu: false,
            policy: attributes.policy,
            nice: attributes.nice,
            rt_priority: attributes.rt_priority,
            rr_ticks: self.rules.rr_timeslice_ticks,
            rt_on_rq: false,
            nr_cpus_allowed: attributes.affinity.len() as u32,
            affinity: attributes.affinity,
            migration_pending: None,
            address_space: attributes.address_space,
            recent_used_cpu: attributes.cpu,
            wakee_flips: 0,
            wakee_flip_decay_ns: 0,
            last_wakee: None,
            in_iowait: false,
            throttled: false,
            throttle_work: false,
            exiting: false,
            util_est: 0,
            util_est_ewma: 0,
            cache: crate::cache::TaskCache::default(),
            clamps_asked: Clamps::default(),
            clamps: Clamps::default(),
        };
        if reused.is_some() {
            self.entities[se] = entity;
            self.tasks[task] = record;
        } else {
            self.entities.push(entity);
            self.tasks.push(record);
        }
        task
    }

    /// Frees the row of a dead task for a later [`Kernel::task_create`].
    pub fn task_reap(&mut self, task: TaskId) {
        debug_assert_eq!(self.tasks[task].state, TaskState::Dead);
        if self.dl.reap(task) {
            self.free_tasks.push(task);
        }
    }

    /// Replaces the rules while the machine runs. Requests under way keep their size.
    pub fn set_rules(&mut self, rules: Rules) {
        // Slices of both sizes are queued for a while.
        self.custom_slices |= rules.base_slice_ns != self.rules.base_slice_ns;
        self.tick = Divisor::new(rules.tick_ns);
        self.dl.set_limit(&rules);
        self.cache.set_rules(&rules);
        self.domains.set_knobs(&rules.balance);
        let clamps = self.rules.clamps;
        self.rules = rules;
        self.build_perf_domains();
        if self.rules.clamps != clamps {
            self.apply_clamp_tunables();
        }
    }

    /// Jiffies at `now`.
    #[inline(always)]
    pub(crate) fn jiffies(&self, now: Ns) -> u64 {
        self.tick.quotient(now)
    }
}
