//! From a world that has run to metrics by name.

use schedcast_kernel::platform::{Access, Op};
use schedcast_kernel::{Cpu, GroupId, Ns};
use schedcast_sim::World;
use schedcast_sim::hardware::{HardwareReport, LineKind};
use schedcast_sim::histogram::Histogram;
use schedcast_sim::probe::NameStatistics;
use schedcast_workload::programs::{PERCENTILES, Running};
use schedcast_workload::replay::background::{GROUP_PREFIX, NAME};

use crate::outcome::{MetricMap, Outcome};

/// Percentiles of times that the kernel tells; the lowest of [`PERCENTILES`] is one of schbench's own.
const QUANTILES: &[(&str, u32)] = PERCENTILES.split_at(1).1;

const NS_PER_US: f64 = 1e3;
const NS_PER_S: f64 = 1e9;

/// Everything a world measured; its groups had counted `before` when statistics began.
pub(super) fn outcome(world: &mut World, programs: &[Running], before: &MetricMap) -> Outcome {
    let mut metrics = MetricMap::new();
    if let Some(report) = world.hardware_report() {
        add_hardware(&report, &mut metrics);
    }
    let world = &*world;
    add_names(world, &mut metrics);
    add_program_metrics(world, programs, &mut metrics);
    add_groups(world, before, &mut metrics);
    add_machine(world, &mut metrics);
    Outcome {
        // The world prints what it computed as 16 digits, so this cannot fail.
        event_hash: u64::from_str_radix(&world.event_hash(), 16).unwrap_or_default(),
        metrics,
    }
}

/// A distribution of times under `name`, in µs. Nothing when it is empty.
fn add_distribution(metrics: &mut MetricMap, name: &str, values: &Histogram) {
    let mut put = |suffix: &str, ns: Option<f64>| {
        if let Some(ns) = ns {
            metrics.insert(format!("{name}.{suffix}"), ns / NS_PER_US);
        }
    };
    for &(suffix, per_million) in QUANTILES {
        put(suffix, values.quantile(per_million).map(|ns| ns as f64));
    }
    put("min", values.min().map(|ns| ns as f64));
    put("max", values.max().map(|ns| ns as f64));
    put("avg", values.mean());
    if values.count() > 0 {
        metrics.insert(format!("{name}.count"), values.count() as f64);
    }
}

/// Threads by name.
fn add_names(world: &World, metrics: &mut MetricMap) {
    for threads in &world.probes().names {
        let name = &threads.name;
        add_counters(threads, metrics);
        // Of the background only what it takes from the workload is of interest.
        if name == NAME {
            continue;
        }
        add_distribution(
            metrics,
            &format!("{name}/wakeup_latency"),
            &threads.wakeup_latency,
        );
        add_distribution(
            metrics,
            &format!("{name}/activation_latency"),
            &threads.activation_latency,
        );
        add_distribution(
            metrics,
            &format!("{name}/turn_latency"),
            threads.turn_latency(),
        );
    }
}

/// What threads of one name used and how often they came and went.
fn add_counters(threads: &NameStatistics, metrics: &mut MetricMap) {
    let name = &threads.name;
    let mut seconds = |metric: &str, ns: Ns| {
        metrics.insert(format!("{name}/{metric}"), ns as f64 / NS_PER_S);
    };
    seconds("cpu_time", threads.run_ns);
    seconds("charged_time", threads.all_charged_ns());
    seconds("wait.contention", threads.wait_contention_ns);
    seconds("wait.throttled", threads.wait_throttled_ns);
    let mut count = |metric: &str, count: u64| {
        metrics.insert(format!("{name}/{metric}"), count as f64);
    };
    count("switches", threads.switches);
    count("wakeups", threads.wakeups);
    count("migrations", threads.migrations);
}

/// What programs recorded themselves. A program that measures what a probe measures knows better.
fn add_program_metrics(world: &World, programs: &[Running], metrics: &mut MetricMap) {
    let of_nobody = |name: &str| !programs.iter().any(|program| program.records(name));
    let all = world.probes().metrics.iter();
    for metric in all.filter(|metric| of_nobody(&metric.name)) {
        add_distribution(metrics, &metric.name, &metric.values);
        if metric.count > 0 {
            metrics.insert(metric.name.clone(), metric.count as f64);
        }
    }
    for program in programs {
        metrics.extend(program.metrics(world.probes(), world.now()));
    }
}

/// What the groups counted since `before`, which is what they had counted when statistics began.
fn add_groups(world: &World, before: &MetricMap, metrics: &mut MetricMap) {
    for (metric, value) in group_counters(world) {
        let earlier = before.get(&metric).copied().unwrap_or(0.0);
        metrics.insert(metric, value - earlier);
    }
}

/// Whether the counters of the group at `path` are told: those of the background's are not.
pub(super) fn is_told(path: &str) -> bool {
    !path.starts_with(GROUP_PREFIX)
}

/// `cpu.stat` of every group, in the units of cgroup v2.
pub(super) fn group_counters(world: &World) -> MetricMap {
    let mut metrics = MetricMap::new();
    let kernel = world.kernel();
    let groups = world.workload().groups.iter().enumerate();
    for (row, spec) in groups.filter(|(_, spec)| is_told(&spec.path)) {
        let group = GroupId::from(row + 1);
        let stat = &kernel.groups[group.index()].bandwidth.stat;
        let mut put = |file: &str, value: f64| {
            metrics.insert(format!("cgroup:{}/{file}", spec.path), value);
        };
        put("nr_periods", stat.nr_periods as f64);
        put("nr_throttled", stat.nr_throttled as f64);
        put("throttled_usec", stat.throttled_time_ns as f64 / NS_PER_US);
        put("nr_bursts", stat.nr_bursts as f64);
        put("burst_usec", stat.burst_time_ns as f64 / NS_PER_US);
        put(
            "usage_usec",
            kernel.group_usage_ns(group) as f64 / NS_PER_US,
        );
        let writes = kernel.groups[group.index()].load_avg_writes;
        let before = world.group_baseline(group);
        put("load_avg_writes", (writes - before) as f64);
    }
    metrics
}

fn add_machine(world: &World, metrics: &mut MetricMap) {
    let machine = &world.probes().machine;
    let mut put = |metric: &str, value: f64| {
        metrics.insert(format!("machine/{metric}"), value);
    };
    put("busy_ratio", world.busy_ratio());
    put("context_switches", machine.context_switches as f64);
    put("dispatches", machine.dispatches as f64);
    put("wakeups", machine.wakeups as f64);
    put("migrations", machine.migrations as f64);
    let cpus = world.kernel().cpus();
    let whole_ns: Ns = (0..cpus)
        .map(|cpu| {
            let time = world.cpu_time(Cpu::from(cpu));
            time.idle_ns + time.user_ns + time.overhead_ns
        })
        .sum();
    let share = |ns: Ns| ns as f64 / whole_ns.max(1) as f64;
    for op in Op::ALL {
        if machine.operations[op as usize] > 0 {
            let name = format!("overhead.{}", op.name());
            put(&name, share(machine.overhead_ns[op as usize]));
        }
    }
    for (kind, access) in LineKind::ALL
        .iter()
        .flat_map(|&kind| [Access::Read, Access::Write].map(|access| (kind, access)))
    {
        let Some(line) = world.line_statistics(kind, access) else {
            continue;
        };
        if line.touches == 0 {
            continue;
        }
        let name = format!("{}.{}", kind.name(), access_name(access));
        put(&format!("overhead.line.{name}"), share(line.spent_ns));
        put(&format!("line_touches.{name}"), line.touches as f64);
        put(&format!("line_transfers.{name}"), line.transfers as f64);
    }
}

fn access_name(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
    }
}

/// What turbostat would have printed over the time that counts.
fn add_hardware(report: &HardwareReport, metrics: &mut MetricMap) {
    let mut put = |metric: &str, value: f64| {
        metrics.insert(format!("machine/{metric}"), value);
    };
    let cpus = report.cpus.len().max(1) as f64;
    let busy = report.cpus.iter().map(|cpu| cpu.mean.busy).sum::<f64>() / cpus;
    put("awake_ratio", busy);
    put("awake_ratio_max", report.max.busy);
    if let Some(mhz) = report.busy_mhz {
        put("frequency_mhz.mean", mhz);
        let most = report.cpus.iter().map(|cpu| cpu.mean.busy_mhz);
        put("frequency_mhz.max", most.fold(0.0, f64::max));
        put("frequency_mhz_max", report.max.busy_mhz);
    }
    for (row, name) in report.idle_states.iter().enumerate() {
        let residency = report
            .cpus
            .iter()
            .map(|cpu| cpu.mean.residency[row])
            .sum::<f64>();
        put(&format!("cstate.{name}"), residency / cpus);
        put(&format!("cstate_max.{name}"), report.max.residency[row]);
    }
    let watts = [
        ("package_watts", report.package),
        ("core_watts", report.cores),
    ];
    for (name, watts) in watts {
        if let Some(watts) = watts {
            put(name, watts.mean);
            put(&format!("{name}_max"), watts.max);
        }
    }
}
