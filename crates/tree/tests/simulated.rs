//! The same programs under the rules in Rust and under the C of a tree, on a machine on which the
//! kernel costs nothing: every event at the same time.

mod built;

use schedcast_base::assert_contains;
use schedcast_kernel::group::BandwidthLimit;
use schedcast_kernel::platform::Observation;
use schedcast_kernel::rules::Preemption;
use schedcast_kernel::topology::Topology;
use schedcast_sim::events::{TraceEvent, TraceKind};
use schedcast_sim::machine::parts::Smt;
use schedcast_sim::workload::GroupSpec;
use schedcast_sim::{Core, Machine, Workload, World};
use schedcast_tree::ground::{config_with, rules_as_built};
use schedcast_tree::{TreeCore, WorldError};
use schedcast_workload::programs::{Start, compile, split};
use std::path::Path;

const MS: u64 = 1_000_000;

/// A command, in a group below `levels - 1` others of which the uppermost has a limit.
struct Load {
    line: &'static str,
    levels: usize,
    limit: Option<BandwidthLimit>,
}

impl Load {
    fn of(line: &'static str, levels: usize, limit: Option<BandwidthLimit>) -> Self {
        Self {
            line,
            levels,
            limit,
        }
    }

    /// A command in no group.
    fn alone(line: &'static str) -> Self {
        Self::of(line, 0, None)
    }

    fn workload(&self, cpus: usize) -> Workload {
        let mut workload = Workload::default();
        let words = split(self.line);
        let mut start = Start::new("load", cpus);
        let mut path = String::new();
        for level in 0..self.levels {
            path += &format!("/level{level}");
            let limit = self.limit.filter(|_| level == 0);
            start.group = workload.add_group(GroupSpec {
                limit: limit.unwrap_or(BandwidthLimit::UNLIMITED),
                ..GroupSpec::new(path.clone(), start.group)
            });
        }
        compile(&words, &start, &mut workload).unwrap();
        workload
    }
}

fn run<K: Core>(mut world: World<false, K>, until: u64) -> (Vec<TraceEvent>, World<false, K>) {
    world.probes_mut().trace = Some(Vec::new());
    K::run(&mut world, until).unwrap();
    let mut trace = world.probes_mut().trace.take().unwrap();
    // The tree does not tell when a period ends, the rules do not tell of placements this way.
    let is_of_one_side = |event: &TraceEvent| {
        let TraceKind::Kernel(told) = event.event else {
            return false;
        };
        matches!(told, Observation::Period { .. } | Observation::Place { .. })
    };
    trace.retain(|event| !is_of_one_side(event));
    (trace, world)
}

/// Both, up to the first event at which they part.
fn is_equal(build: Build, topology: &Topology, load: &Load, until: u64) {
    let machine = Machine::preset("generic-8").unwrap();
    is_equal_on(machine.free_of_charge(), build, topology, load, until);
}

/// A release and its preemption model.
type Build = (&'static str, Preemption);

/// The overlay has voluntary preemption in every release.
const VOLUNTARY: [Build; 3] = [
    ("6.12.107", Preemption::Voluntary),
    ("6.18.15", Preemption::Voluntary),
    ("7.3.4", Preemption::Voluntary),
];

/// Builds of preemptible kernels, for behaviour that only they have.
const PREEMPTIBLE: [Build; 4] = [
    ("6.12.107", Preemption::Full),
    ("6.18.15", Preemption::Lazy),
    ("7.1.13", Preemption::Lazy),
    ("7.3.4", Preemption::Lazy),
];

/// The lazy builds from 7.1 on are those of x86 in this, too: HRTICK is on.
fn has_timers_of_slices((version, model): Build) -> bool {
    version.starts_with("7.") && !version.starts_with("7.0.") && model == Preemption::Lazy
}

fn is_equal_on(machine: Machine, build: Build, topology: &Topology, load: &Load, until: u64) {
    is_equal_at((1000, 0, false), machine, build, topology, load, until);
}

fn is_equal_at(
    (hz, tick_phase_ns, irq_time): (u32, u64, bool),
    machine: Machine,
    (version, model): Build,
    topology: &Topology,
    load: &Load,
    until: u64,
) {
    let mut config = config_with(model);
    config.set(&format!("HZ_{hz}"), "y");
    if irq_time {
        config.set("IRQ_TIME_ACCOUNTING", "y");
    }
    let Some(object) = built::object(version, config) else {
        return;
    };
    let cpus = topology.cpus();
    let machine = machine.with_topology(topology.clone());
    let mut rules = rules_as_built(version.parse().unwrap(), cpus, model, hz);
    rules.tick_phase_ns = tick_phase_ns;
    rules.irq_time_accounting = irq_time;
    // The timers of slices of a tree are its C's.
    let tree_rules = rules.clone();
    rules.features.hrtick = has_timers_of_slices((version, model));
    let features = [("HRTICK", true), ("HRTICK_DL", true)];
    let features = &features[..if rules.features.hrtick { 2 } else { 0 }];
    let tree = TreeCore::boot(&object, topology, tree_rules, features).unwrap();
    let tree = World::of_core(machine.clone(), tree, load.workload(cpus), 1).unwrap();
    let rust = World::new(machine, rules, load.workload(cpus), 1).unwrap();
    let (expected, rust) = run(rust, until);
    let (found, tree) = run(tree, until);
    if let Some(row) =
        (0..expected.len().max(found.len())).find(|&row| expected.get(row) != found.get(row))
    {
        let around = row.saturating_sub(6)..row + 4;
        let show = |events: &[TraceEvent]| {
            let rows = events.get(around.start..around.end.min(events.len()));
            let rows = rows.unwrap_or_default().iter();
            rows.map(|event| format!("{event:?}\n")).collect::<String>()
        };
        panic!(
            "{version}, {model:?}, {}: they part at event {row} of {}\nrules:\n{}tree:\n{}",
            load.line,
            expected.len(),
            show(&expected),
            show(&found)
        );
    }
    assert_eq!(rust.event_hash(), tree.event_hash());
    let counters = |kernel: &schedcast_kernel::Kernel| {
        let groups = kernel.groups.iter();
        groups
            .map(|group| (group.usage_ns, group.bandwidth.stat))
            .collect::<Vec<_>>()
    };
    assert_eq!(counters(rust.kernel()), counters(tree.kernel()));
}

const PLAIN: &str = "hackbench -g 1 -f 2 -l 50";
const TIMERS: &str = "cyclictest -t 5 -i 5000 -d 100";
const BENCH: &str = "schbench -m 1 -t 4 -r 1";

fn versions(topology: &Topology, load: &Load, until: u64) {
    for build in VOLUNTARY {
        is_equal(build, topology, load, until);
    }
}

#[test]
fn cyclictest_and_hackbench_on_one_and_four_cpus() {
    for (line, cpus) in [
        ("cyclictest -t 3 -i 5000 -d 100", 1),
        (PLAIN, 1),
        (PLAIN, 4),
    ] {
        versions(&Topology::flat(cpus), &Load::alone(line), 300 * MS);
    }
}

/// A patch: a timer that asks CPU 0 for a reschedule each 500 µs, armed by an initcall, and says
/// which thread it interrupts. With a feature of `sched/features` that has no effect of its own it
/// calls a function outside the scheduler.
const BOOT_TIMER: &str = r#"
static struct hrtimer boot_timer;
static noinline void boot_timer_needs_room(void)
{
	volatile char room[150000];

	room[0] = 1;
}
static enum hrtimer_restart boot_timer_fires(struct hrtimer *timer)
{
	struct rq_flags rf;

	if (sched_feat(LATENCY_WARN)) {
		printk("asked once\n");
		request_module_of_the_patch(current->comm);
	}
	if (sched_feat(RT_RUNTIME_SHARE))
		boot_timer_needs_room();
	rq_lock(this_rq(), &rf);
	if (this_rq()->cfs.h_nr_runnable > 1)
		resched_curr(this_rq());
	rq_unlock(this_rq(), &rf);
	if (current->mm)
		printk("%s of %d, %d, %d\n", current->comm, get_nr_threads(current),
		       same_thread_group(current, current->group_leader),
		       current->tgid == current->group_leader->pid &&
		       current->mm == current->group_leader->mm);
	hrtimer_forward_now(timer, ns_to_ktime(500000));
	return HRTIMER_RESTART;
}
static int boot_timer_arm(void)
{
	hrtimer_setup(&boot_timer, boot_timer_fires, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	hrtimer_start(&boot_timer, ns_to_ktime(500000), HRTIMER_MODE_REL_PINNED_HARD);
	return 0;
}
early_initcall(boot_timer_arm);
"#;

/// A patch: two initcalls in the wrong order, of which the first one to run turns a key on, and a
/// 33rd feature; the last says what it finds, and the last line names a function.
const INITCALLS: &str = r#"
static DEFINE_STATIC_KEY_FALSE(patch_key);
static int patch_reports(void)
{
	printk("key %d, feature %d\n", static_branch_unlikely(&patch_key) ? 1 : 0,
	       sched_feat(PATCH_4) ? 1 : 0);
	printk("in %pS\n", patch_reports);
	return 0;
}
late_initcall(patch_reports);
static int patch_turns_on(void)
{
	static_branch_enable(&patch_key);
	return 0;
}
subsys_initcall(patch_turns_on);
"#;

#[test]
fn initcalls_of_a_patch_run_in_their_order_and_a_33rd_feature_is_on() {
    let features: String = (0..6)
        .map(|row| format!("SCHED_FEAT(PATCH_{row}, true)\n"))
        .collect();
    let patch = [("fair.c", INITCALLS), ("features.h", &features)];
    let config = config_with(Preemption::Lazy);
    let Some(object) = built::patched("7.3.4", "initcalls", &patch, config) else {
        return;
    };
    let rules = rules_as_built("7.3.4".parse().unwrap(), 2, Preemption::Lazy, 1000);
    let tree = TreeCore::boot(&object, &Topology::flat(2), rules, &[]).unwrap();
    let lines = ["key 1, feature 1", "in patch_reports+0x0"];
    assert_eq!(tree.printed(), lines);
}

#[test]
fn slices_end_at_their_timers() {
    let build = ("7.3.4", Preemption::Lazy);
    let free = || Machine::preset("generic-8").unwrap().free_of_charge();
    let mut unequal = Topology::flat(8);
    unequal.capacities = vec![1024, 1024, 512, 512, 512, 512, 512, 512];
    let flat = Topology::flat(4);
    let many = "schbench -m 2 -t 4 -r 1";
    for (machine, topology, load) in [
        (free(), &unequal, Load::alone(PLAIN)),
        (free(), &unequal, Load::alone(many)),
        (free(), &flat, Load::of(BENCH, 1, Some(LIMIT))),
        (
            Machine::preset("generic-8").unwrap(),
            &flat,
            Load::alone("hackbench -g 4 -l 200"),
        ),
    ] {
        is_equal_at((250, 0, false), machine, build, topology, &load, 1000 * MS);
    }
}

#[test]
fn threads_of_a_core_at_speeds_that_divide_no_price() {
    let mut machine = Machine::preset("generic-8").unwrap();
    machine.smt = Some(Smt {
        thread_speed_1000ths: vec![1000, 600, 450, 350],
        polling_sibling_speed_percent: 100,
    });
    let build = ("6.12.107", Preemption::Voluntary);
    let load = Load::alone("schbench -m 2 -t 12 -r 1");
    is_equal_on(
        machine,
        build,
        &Topology::regular(1, 1, 4, 4),
        &load,
        300 * MS,
    );
}

#[test]
fn preferred_cpus_pull_running_tasks_at_the_prices_of_a_machine() {
    let mut topology = Topology::flat(8);
    topology.priorities = vec![10, 10, 20, 20, 30, 30, 40, 40];
    let machine = || Machine::preset("generic-8").unwrap();
    let load = Load::alone("hackbench -g 1 -l 400");
    // The first build needs what wakes a migration thread to wait until its last switch is over,
    // the second one not to give up a lock that it did not take.
    for build in [
        ("6.18.15", Preemption::Lazy),
        ("6.12.107", Preemption::Full),
    ] {
        is_equal_at(
            (250, 0, false),
            machine(),
            build,
            &topology,
            &load,
            1000 * MS,
        );
    }
}

#[test]
fn time_of_interrupts_is_no_task_s_as_under_the_rules() {
    for version in ["6.12.107", "6.18.15"] {
        let model = Preemption::Voluntary;
        for (cpus, line) in [(1, "stress-ng --cpu 2 -t 1"), (1, PLAIN), (4, PLAIN)] {
            let machine = Machine::preset("generic-8").unwrap();
            let (topology, load) = (Topology::flat(cpus), Load::alone(line));
            let build = (version, model);
            is_equal_at((1000, 0, true), machine, build, &topology, &load, 300 * MS);
        }
    }
}

#[test]
fn a_patch_has_its_own_timer_and_knows_programs_and_their_threads() {
    let config = || {
        let mut config = config_with(Preemption::Lazy);
        config.set("HZ_100", "y");
        config
    };
    let patch = format!("int request_module_of_the_patch(const char *name);\n{BOOT_TIMER}");
    let (stock, patched) = (
        built::object("6.18.15", config()),
        built::patched("6.18.15", "boot-timer", &[("fair.c", &patch)], config()),
    );
    let (Some(stock), Some(patched)) = (stock, patched) else {
        return;
    };
    let topology = Topology::flat(1);
    let machine = Machine::preset("generic-8").unwrap();
    let machine = machine.free_of_charge().with_topology(topology.clone());
    let rules = rules_as_built("6.18.15".parse().unwrap(), 1, Preemption::Lazy, 100);
    let world = |object: &Path, features: &[(&str, bool)]| {
        let tree = TreeCore::boot(object, &topology, rules.clone(), features)?;
        let load = Load::alone("sysbench --threads=3 cpu run").workload(1);
        Ok(World::of_core(machine.clone(), tree, load, 1).unwrap())
    };
    let [(before, _), (after, printed)] = [&stock, &patched].map(|object| {
        let world: Result<_, WorldError> = world(object, &[]);
        let (events, world) = run(world.unwrap(), 200 * MS);
        let is_switch = |event: &&TraceEvent| {
            matches!(event.event, TraceKind::Kernel(Observation::Switch { .. }))
        };
        (
            events.iter().filter(is_switch).count(),
            world.printed().to_vec(),
        )
    });
    // One at each tick of 10 ms, or at each second interrupt of the timer: a request of 0.7 ms is
    // protected from the first.
    assert!(
        before < 40 && after > 180,
        "{before} switches in 200 ms, {after} with the timer"
    );
    let last = printed.last().map(String::as_str);
    assert_eq!(last, Some("load of 4, 1, 1"));
    // The feature is turned behind the boot, and the first interrupt is in the warm-up.
    for (feature, expected) in [
        (
            "LATENCY_WARN",
            "asked once | `boot_timer_fires` calls `request_module_of_the_patch`",
        ),
        ("RT_RUNTIME_SHARE", "needs more stack than the 64 KiB"),
    ] {
        let stopped = world(&patched, &[(feature, true)]);
        let said = stopped.err().map(|error| error.to_string());
        assert_contains(said.unwrap_or_default(), expected);
    }
}

#[test]
fn programs_on_the_oldest_tree() {
    let oldest = ("5.10.223", Preemption::Voluntary);
    for (cpus, load, ms) in [
        (1, Load::of(TIMERS, 3, Some(LIMIT)), 500),
        (4, Load::alone(PLAIN), 300),
        (4, Load::of(PLAIN, 3, Some(LIMIT)), 500),
    ] {
        is_equal(oldest, &Topology::flat(cpus), &load, ms * MS);
    }
}

const LIMIT: BandwidthLimit = BandwidthLimit {
    quota_ns: Some(30 * MS),
    period_ns: 100 * MS,
    burst_ns: 10 * MS,
};

#[test]
fn nested_groups_with_a_limit_on_one_and_four_cpus() {
    for (line, cpus) in [(TIMERS, 1), ("stress-ng --cpu 3 -t 2", 1), (PLAIN, 4)] {
        let load = Load::of(line, 3, Some(LIMIT));
        versions(&Topology::flat(cpus), &load, 500 * MS);
    }
}

#[test]
fn hackbench_and_schbench_on_two_threads_a_core() {
    for line in [PLAIN, BENCH] {
        let load = Load::alone(line);
        versions(&Topology::regular(1, 1, 2, 2), &load, 500 * MS);
    }
}

#[test]
fn hackbench_on_four_threads_a_core() {
    let load = Load::alone(PLAIN);
    versions(&Topology::regular(1, 1, 2, 4), &load, 300 * MS);
}

#[test]
fn threads_prefer_a_cache_from_their_first_epoch_on() {
    let topology = Topology::regular(1, 2, 4, 1);
    for line in ["hackbench -T -g 1 -l 300", "schbench -m 1 -t 6 -r 1"] {
        for version in ["7.2.12", "7.3.4"] {
            let (build, load) = ((version, Preemption::Voluntary), Load::alone(line));
            is_equal(build, &topology, &load, 300 * MS);
            let machine = Machine::preset("generic-8").unwrap();
            is_equal_on(machine, build, &topology, &load, 300 * MS);
        }
    }
}

/// Their own timer never expires in one nanosecond with that of a reservation: the C would run
/// timers of one instant together.
#[test]
fn threads_that_overrun_their_reservations_take_turns() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("overrun.json");
    let text = r#"{"tasks": {"dl": {"instance": 3, "policy": "SCHED_DEADLINE", "dl-runtime": 2000,
        "dl-period": 8000, "run": 2500, "timer": {"ref": "unique", "period": 8010}}},
        "global": {"duration": 1, "calibration": 100}}"#;
    std::fs::write(&file, text).unwrap();
    let load = Load::alone(format!("rt-app {}", file.display()).leak());
    let machine = Machine::preset("generic-8").unwrap().free_of_charge();
    for build in VOLUNTARY {
        for ticks in [(250, 0, false), (250, 2_000_057, false), (1000, 0, false)] {
            let machine = machine.clone();
            is_equal_at(ticks, machine, build, &Topology::flat(1), &load, 1000 * MS);
        }
    }
}

#[test]
fn hackbench_on_two_nodes_of_one_cache() {
    let mut topology = Topology::regular(1, 1, 8, 1);
    for place in &mut topology.places {
        place.node = place.core / 4;
    }
    let load = Load::alone(PLAIN);
    versions(&topology, &load, 300 * MS);
}

#[test]
fn hackbench_on_nodes_at_the_reclaim_distance_of_amd() {
    for reclaim_distance in [30, 32] {
        let mut topology = Topology::regular(2, 1, 4, 1);
        topology.distances = vec![vec![10, 32], vec![32, 10]];
        topology.reclaim_distance = reclaim_distance;
        let load = Load::alone(PLAIN);
        versions(&topology, &load, 300 * MS);
    }
}

#[test]
fn hackbench_in_a_group_from_the_first_millisecond_on() {
    versions(&Topology::flat(4), &Load::of(PLAIN, 1, None), 300 * MS);
}

/// Both of every release, on CPUs on which the kernel takes its time.
fn take_time(lines: [&'static str; 2], cpus: usize) {
    for line in lines {
        for build in VOLUNTARY {
            let machine = Machine::preset("generic-8").unwrap();
            let load = Load::alone(line);
            is_equal_on(machine, build, &Topology::flat(cpus), &load, 300 * MS);
        }
    }
}

#[test]
fn hackbench_and_cyclictest_on_one_cpu_that_takes_time() {
    take_time([PLAIN, "cyclictest -t 3 -i 5000 -d 100"], 1);
}

#[test]
fn hackbench_in_a_group_on_one_cpu_that_takes_time() {
    for build in VOLUNTARY {
        let machine = Machine::preset("generic-8").unwrap();
        let load = Load::of(PLAIN, 1, None);
        is_equal_on(machine, build, &Topology::flat(1), &load, 300 * MS);
    }
}

#[test]
fn preemptible_kernels_on_one_and_four_cpus() {
    for build in PREEMPTIBLE {
        for (line, cpus) in [
            ("cyclictest -t 3 -i 5000 -d 100", 1),
            ("stress-ng --cpu 3 -t 2", 1),
            (PLAIN, 4),
        ] {
            for levels in [0, 3] {
                let limit = Some(LIMIT).filter(|_| levels > 0);
                let load = Load::of(line, levels, limit);
                is_equal(build, &Topology::flat(cpus), &load, 500 * MS);
            }
        }
    }
}

#[test]
fn hackbench_and_schbench_on_four_cpus_that_take_time() {
    // Locks of queues are waited for, and the ends of switches.
    take_time([PLAIN, BENCH], 4);
}
