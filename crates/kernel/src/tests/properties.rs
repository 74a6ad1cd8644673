//! Random histories of tasks, groups and limits: after every step all counters must agree with what
//! they count, and no task may be lost.

use proptest::prelude::*;

use super::world::*;

/// Steps name CPUs below this; a world may have fewer.
const CPUS: usize = 4;
const GROUPS: u32 = 4;

/// One step. Numbers are reduced to what exists, so that every step can be taken at any time.
#[derive(Clone, Debug)]
enum Step {
    Spawn {
        group: u32,
        cpu: u32,
        nice: i32,
        policy: Policy,
        pinned: bool,
        kthread: bool,
    },
    Advance(Ns),
    Block(u32),
    Wake(u32, usize),
    Yield(u32),
    Exit(u32),
    Nice(usize, i32),
    Policy(usize, Policy, u8),
    Affinity(usize, u32),
    Group(usize, u32),
    Slice(usize, Option<Ns>),
    Exec(u32),
    Shares(u32, u64),
    Idle(u32, bool),
    Limit(u32, Option<u64>, u64),
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        6 => Just(Policy::Normal),
        1 => Just(Policy::Batch),
        1 => Just(Policy::Idle),
        1 => Just(Policy::Fifo),
        1 => Just(Policy::RoundRobin),
    ]
}

fn spawn() -> impl Strategy<Value = Step> {
    let cpu = 0..CPUS as u32;
    (
        0..GROUPS,
        cpu,
        -20..20,
        policy(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(group, cpu, nice, policy, pinned, kthread)| Step::Spawn {
            group,
            cpu,
            nice,
            policy,
            pinned,
            kthread,
        })
}

fn step() -> impl Strategy<Value = Step> {
    let cpu = 0..CPUS as u32;
    prop_oneof![
        4 => spawn(),
        10 => (1u64..20_000).prop_map(|us| Step::Advance(us * US)),
        8 => cpu.clone().prop_map(Step::Block),
        8 => (cpu.clone(), 0usize..16).prop_map(|(cpu, task)| Step::Wake(cpu, task)),
        1 => cpu.clone().prop_map(Step::Yield),
        1 => cpu.clone().prop_map(Step::Exit),
        1 => (0usize..16, -20..20).prop_map(|(task, nice)| Step::Nice(task, nice)),
        2 => (0usize..16, policy(), 1u8..100).prop_map(|(task, p, prio)| Step::Policy(task, p, prio)),
        2 => (0usize..16, 1u32..16).prop_map(|(task, mask)| Step::Affinity(task, mask)),
        2 => (0usize..16, 0..GROUPS).prop_map(|(task, group)| Step::Group(task, group)),
        1 => (0usize..16, prop::option::of(100_000u64..20_000_000))
            .prop_map(|(task, slice)| Step::Slice(task, slice)),
        1 => cpu.prop_map(Step::Exec),
        1 => (1..GROUPS, 2u64..5000).prop_map(|(group, shares)| Step::Shares(group, shares)),
        1 => (1..GROUPS, any::<bool>()).prop_map(|(group, idle)| Step::Idle(group, idle)),
        2 => (1..GROUPS, prop::option::weighted(0.8, 1u64..30), 10u64..40)
            .prop_map(|(group, quota, period)| Step::Limit(group, quota, period)),
    ]
}

/// The world with its list of living tasks.
struct History {
    world: World,
    tasks: Vec<TaskId>,
    cpus: u32,
}

impl History {
    fn new(version: &str, cpus: u32) -> Self {
        // From 6.7 on a CPU may read a clock of the past, and then the kernel does lose time.
        let mut world = World::with(version, cpus as usize, |rules| {
            rules.clock_skip_stays = false
        });
        // Root with children 1 and 2; 3 lies below 1.
        let first = world.group(GroupId::ROOT);
        world.group(GroupId::ROOT);
        world.group(first);
        Self {
            world,
            tasks: Vec::new(),
            cpus,
        }
    }

    /// The step with its CPUs reduced to those that exist.
    fn fitted(&self, step: &Step) -> Step {
        let mut step = step.clone();
        match &mut step {
            Step::Spawn { cpu, .. }
            | Step::Block(cpu)
            | Step::Wake(cpu, _)
            | Step::Yield(cpu)
            | Step::Exit(cpu)
            | Step::Exec(cpu) => *cpu %= self.cpus,
            _ => {}
        }
        step
    }

    /// Every nanosecond a CPU was not idle was charged to a task, but for what the kernel loses.
    fn time_is_conserved(&self) {
        let kernel = &self.world.kernel;
        let now = self.world.bench.now;
        let (mut busy, mut uncharged) = (0, 0);
        for cpu in (0..self.cpus).map(Cpu) {
            let mut switches = self.world.switches(cpu);
            switches.push((now, None));
            busy += switches
                .windows(2)
                .filter(|pair| pair[0].1.is_some())
                .map(|pair| pair[1].0 - pair[0].0)
                .sum::<Ns>();
            if !self.world.idle(cpu) {
                let rq = &kernel.rqs[cpu];
                let entity = self.world.entity(rq.curr);
                uncharged += rq.clock_task + (now - rq.clock) - entity.exec_start;
            }
        }
        let charged = kernel.group_usage_ns(GroupId::ROOT) + uncharged;
        let rules = &kernel.rules;
        if rules.fair_server && !rules.fair_server_waits_out_idle {
            // A task that a pick throttles while the CPU pulls another one is not charged since its
            // last charge: `dl_server_update_idle_time` (6.12.107) takes it for the idle task.
            assert!(charged <= busy, "{charged} ns of {busy} ns");
        } else {
            assert_eq!(charged, busy);
        }
    }

    fn task(&self, row: usize) -> Option<TaskId> {
        (!self.tasks.is_empty()).then(|| self.tasks[row % self.tasks.len()])
    }

    fn take(&mut self, step: &Step) {
        let step = self.fitted(step);
        let cpus = self.cpus as usize;
        let last = Cpu(self.cpus - 1);
        let world = &mut self.world;
        match step {
            Step::Spawn {
                group,
                cpu,
                nice,
                policy,
                pinned,
                kthread,
            } if self.tasks.len() < 12 => {
                let task = world.start(TaskAttributes {
                    policy,
                    nice,
                    rt_priority: if policy.is_rt() { 50 } else { 0 },
                    affinity: if pinned {
                        CpuSet::of(Cpu(cpu))
                    } else {
                        CpuSet::first(cpus)
                    },
                    group: GroupId(group),
                    address_space: (!kthread).then_some(7),
                    ..TaskAttributes::on(Cpu(cpu))
                });
                self.tasks.push(task);
            }
            Step::Spawn { .. } => {}
            Step::Advance(span) => world.advance(span),
            Step::Block(cpu) if !world.idle(Cpu(cpu)) => world.block(Cpu(cpu)),
            Step::Yield(cpu) if !world.idle(Cpu(cpu)) => world.yield_current(Cpu(cpu)),
            Step::Exit(cpu) if !world.idle(Cpu(cpu)) => {
                let task = world.current(Cpu(cpu));
                self.tasks.retain(|other| *other != task);
                world.exit(Cpu(cpu));
            }
            Step::Exec(cpu) if !world.idle(Cpu(cpu)) => {
                world.call(Cpu(cpu), |kernel, bench| kernel.exec(bench, Cpu(cpu)));
            }
            Step::Block(_) | Step::Yield(_) | Step::Exit(_) | Step::Exec(_) => {}
            Step::Shares(group, shares) => world.call(Cpu(0), |kernel, bench| {
                // The kernel refuses shares of idle groups.
                if !kernel.groups[group as usize].idle {
                    kernel.group_set_shares(bench, Cpu(0), GroupId(group), shares);
                }
            }),
            Step::Idle(group, idle) if world.kernel.rules.version.since(5, 15) => {
                world.set_idle(last, GroupId(group), idle);
            }
            Step::Idle(..) => {}
            Step::Limit(group, quota_ms, period_ms) => world.call(last, |kernel, bench| {
                let limit = BandwidthLimit {
                    quota_ns: quota_ms.map(|ms| ms * MS),
                    period_ns: period_ms * MS,
                    burst_ns: 0,
                };
                let group = GroupId(group);
                kernel
                    .group_set_bandwidth(bench, last, group, limit, Hierarchy::V2)
                    .unwrap();
            }),
            ref step => self.take_on_task(step),
        }
    }

    fn take_on_task(&mut self, step: &Step) {
        let (Step::Wake(_, row)
        | Step::Nice(row, _)
        | Step::Policy(row, ..)
        | Step::Affinity(row, _)
        | Step::Group(row, _)
        | Step::Slice(row, _)) = *step
        else {
            return;
        };
        let Some(task) = self.task(row) else { return };
        let cpus = self.cpus;
        let from = Cpu(row as u32 % self.cpus);
        match *step {
            Step::Wake(cpu, _) => {
                self.world.wake(Cpu(cpu), task);
            }
            Step::Nice(_, nice) => self.world.call(from, |kernel, bench| {
                kernel.set_nice(bench, from, task, nice);
            }),
            Step::Policy(_, policy, prio) => self.world.call(from, |kernel, bench| {
                let prio = if policy.is_rt() { prio } else { 0 };
                kernel.set_policy(bench, from, task, policy, 0, prio);
            }),
            Step::Affinity(_, mask) => self.world.call(from, |kernel, bench| {
                let cpus = (0..cpus).filter(|cpu| mask >> cpu & 1 == 1).map(Cpu);
                let affinity: CpuSet = cpus.collect();
                if !affinity.is_empty() {
                    kernel.set_affinity(bench, from, task, affinity);
                }
            }),
            Step::Group(_, group) => self.world.set_group(from, task, GroupId(group)),
            Step::Slice(_, slice) => self.world.call(from, |kernel, bench| {
                kernel.set_custom_slice(bench, from, task, slice);
            }),
            _ => {}
        }
    }

    /// All tasks are woken, have the same weight and no limit, and every CPU looks at its queue
    /// once: each task must get to run. Before 7.1 a task that was moved out of a throttled group
    /// to an idle CPU waits until then.
    fn nobody_is_lost(&mut self) {
        for group in 1..GROUPS {
            self.take(&Step::Limit(group, None, 100));
            self.take(&Step::Idle(group, false));
            self.take(&Step::Shares(group, 1024));
        }
        for &task in &self.tasks.clone() {
            self.world.set_policy(Cpu(0), task, Policy::Normal, 0, 0);
            self.world.wake(Cpu(0), task);
        }
        for cpu in (0..self.cpus).map(Cpu) {
            self.world
                .call(cpu, |kernel, bench| kernel.resched_curr(bench, cpu));
        }
        let before: Vec<Ns> = self
            .tasks
            .iter()
            .map(|task| self.world.runtime(*task))
            .collect();
        self.world.checked = false;
        self.world.advance(100_000 * MS);
        for (task, before) in self.tasks.iter().zip(before) {
            let state = self.world.kernel.tasks[task].state;
            assert_eq!(state, TaskState::Running);
            assert!(
                self.world.runtime(*task) > before,
                "{task:?} never ran again"
            );
        }
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 48,
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..ProptestConfig::default()
    }
}

macro_rules! histories {
    ($($name:ident $version:literal on $cpus:literal;)*) => {
        proptest! {
            #![proptest_config(config())]
            $(#[test]
            fn $name(steps in prop::collection::vec(step(), 1..150)) {
                let mut history = History::new($version, $cpus);
                for step in &steps {
                    history.take(step);
                }
                history.time_is_conserved();
            })*
        }
    };
}

histories! {
    counters_agree_in_4_15 "4.15" on 2;
    counters_agree_in_5_3 "5.3" on 4;
    counters_agree_in_5_10 "5.10" on 2;
    counters_agree_in_6_1 "6.1" on 4;
    counters_agree_in_6_6 "6.6" on 2;
    counters_agree_in_6_12 "6.12" on 4;
    counters_agree_in_6_12_117 "6.12.117" on 2;
    counters_agree_in_6_17 "6.17" on 2;
    counters_agree_in_6_18 "6.18" on 4;
    counters_agree_on_one_cpu "6.18" on 1;
    counters_agree_in_7_1 "7.1" on 3;
    counters_agree_in_7_3 "7.3" on 4;
    counters_agree_on_one_cpu_in_7_3 "7.3" on 1;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..config() })]
    #[test]
    fn nobody_is_lost_in_6_1(steps in prop::collection::vec(step(), 1..60)) {
        let mut history = History::new("6.1", 2);
        steps.iter().for_each(|step| history.take(step));
        history.nobody_is_lost();
    }

    #[test]
    fn nobody_is_lost_in_6_18(steps in prop::collection::vec(step(), 1..60)) {
        let mut history = History::new("6.18", 2);
        steps.iter().for_each(|step| history.take(step));
        history.nobody_is_lost();
    }

    /// When nothing happens any more, the balancer leaves no CPU idle beside one with two tasks
    /// that may run there.
    #[test]
    fn nobody_waits_beside_an_idle_cpu(
        steps in prop::collection::vec(step(), 1..80),
        version in prop::sample::select(vec!["4.5", "4.15", "5.4", "5.10", "6.1", "6.6", "6.12", "6.18"]),
    ) {
        let mut history = History::new(version, 4);
        for step in &steps {
            // Groups, limits and other classes have rules of their own about who may wait.
            match step {
                Step::Limit(..) | Step::Policy(..) | Step::Group(..) | Step::Shares(..) | Step::Idle(..) => {}
                Step::Spawn { cpu, nice, .. } => history.take(&Step::Spawn {
                    group: 0,
                    cpu: *cpu,
                    nice: nice / 4,
                    policy: Policy::Normal,
                    pinned: false,
                    kthread: false,
                }),
                Step::Nice(task, nice) => history.take(&Step::Nice(*task, nice / 4)),
                step => history.take(step),
            }
        }
        let all: Vec<TaskId> = history.tasks.clone();
        for &task in &all {
            history.world.set_affinity(Cpu(0), task, CpuSet::first(4));
        }
        history.world.advance(300 * MS);
        let kernel = &history.world.kernel;
        let idle = (0..4).filter(|cpu| history.world.idle(Cpu(*cpu))).count();
        let runnable = (0..4).map(|cpu| kernel.h_nr_running(Cpu(cpu))).max().unwrap_or(0);
        prop_assert!(idle == 0 || runnable <= 1, "{version}: {idle} idle, {runnable} on one CPU");
    }

    /// The lag of a hog in an EEVDF queue of hogs is at most what the kernel lets it keep when it
    /// leaves, two requests or a tick (`entity_lag`), plus the tick by which a request ends late.
    #[test]
    fn lag_of_hogs_is_bounded(
        nices in prop::collection::vec(-10..10i32, 2..6),
        version in prop::sample::select(vec!["6.6", "6.8", "6.12", "6.15", "6.17", "6.18"]),
        tick_us in prop::sample::select(vec![1000u64, 4000]),
    ) {
        let mut world = World::with(version, 8, |rules| rules.tick_ns = tick_us * US);
        let hogs: Vec<TaskId> = nices
            .iter()
            .map(|nice| world.spawn_in(GroupId::ROOT, Cpu(0), Policy::Normal, *nice))
            .collect();
        world.checked = false;
        let tick_ns = tick_us * US;
        let most = (tick_ns + tick_ns.max(2 * world.kernel.rules.base_slice_ns)) as i64;
        for _ in 0..500 {
            world.advance(tick_us * US);
            let average = world.kernel.avg_vruntime(crate::ids::CfsRqId(0));
            for &hog in &hogs {
                let entity = world.entity(hog);
                let lag = average.wrapping_sub(entity.vruntime) as i64;
                let service = lag * entity.load.unscaled() as i64 / 1024;
                prop_assert!(service.abs() <= most, "{version}: {service} of {most}");
            }
        }
    }

    /// No group uses more than quota and burst, one slice and one tick per CPU in a period.
    #[test]
    fn limits_hold_in_every_period(
        steps in prop::collection::vec(step(), 20..120),
        version in prop::sample::select(vec!["4.15", "5.3", "5.14", "6.1", "6.12", "6.18"]),
        (quota_ms, burst_ms) in (2u64..40).prop_flat_map(|quota| (Just(quota), 0..=quota)),
    ) {
        let mut history = History::new(version, 2);
        history.world.limit(GroupId(1), quota_ms * 1000, 20_000, burst_ms * 1000);
        let rules = &history.world.kernel.rules;
        let burst_ms = if rules.burst { burst_ms } else { 0 };
        let leftover = rules.bandwidth_slice_ns + rules.tick_ns;
        let most = (quota_ms + burst_ms) * MS + 2 * leftover;
        let mut used = vec![0];
        for step in &steps {
            // Kernel threads and changes of class, group or limit are not bound.
            match step {
                Step::Limit(..) | Step::Policy(..) | Step::Group(..) => continue,
                Step::Spawn { kthread: true, .. } => continue,
                Step::Spawn { policy, .. } if policy.is_rt() => continue,
                Step::Advance(span) => {
                    let end = history.world.bench.now + span;
                    let mut next = used.len() as u64 * 20 * MS;
                    while next <= end {
                        history.world.advance_to(next);
                        used.push(history.usage(GroupId(1)));
                        next += 20 * MS;
                    }
                    history.world.advance_to(end);
                }
                step => history.take(step),
            }
        }
        for pair in used.windows(2) {
            prop_assert!(pair[1] - pair[0] <= most, "{} of {most} in {version}", pair[1] - pair[0]);
        }
    }
}

impl History {
    /// CPU time of a group and those below, the part not yet charged included.
    fn usage(&self, group: GroupId) -> Ns {
        let kernel = &self.world.kernel;
        let below = |mut of: GroupId| loop {
            if of == group {
                return true;
            }
            match kernel.groups[of].parent {
                Some(parent) => of = parent,
                None => return false,
            }
        };
        let running = (0..self.cpus).map(Cpu).filter(|cpu| !self.world.idle(*cpu));
        let uncharged: Ns = running
            .filter(|cpu| below(kernel.tasks[self.world.current(*cpu)].group))
            .map(|cpu| {
                let rq = &kernel.rqs[cpu];
                let entity = self.world.entity(rq.curr);
                rq.clock_task + (self.world.bench.now - rq.clock) - entity.exec_start
            })
            .sum();
        kernel.group_usage_ns(group) + uncharged
    }
}
