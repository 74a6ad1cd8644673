//! From a world that has run to metrics by name.

use std::collections::BTreeSet;

use schedcast_kernel::platform::{Access, Op};
use schedcast_kernel::{Cpu, GroupId, Ns};
use schedcast_sim::hardware::{HardwareReport, LineKind};
use schedcast_sim::histogram::Histogram;
use schedcast_sim::probe::NameStatistics;
use schedcast_sim::workload::MetricId;
use schedcast_sim::{Core, Unfinished, World};
use schedcast_workload::programs::{PERCENTILES, Running};
use schedcast_workload::replay::background::{GROUP_PREFIX, NAME};

use crate::outcome::{MetricMap, Outcome};

/// Percentiles of times that the kernel tells; the lowest of [`PERCENTILES`] is one of schbench's
/// own.
const QUANTILES: &[(&str, u32)] = PERCENTILES.split_at(1).1;

const NS_PER_US: f64 = 1e3;
const NS_PER_S: f64 = 1e9;

/// Everything a world measured; its groups had counted `before` when statistics began, and so much
/// was `halfway` unfinished.
pub(super) fn outcome<K: Core>(
    world: &mut World<false, K>,
    programs: &[Running],
    before: &MetricMap,
    halfway: &Unfinished,
) -> Outcome {
    let mut metrics = MetricMap::new();
    if let Some(report) = world.hardware_report() {
        add_hardware(&report, &mut metrics);
    }
    let world = &*world;
    let under_way = UnderWay {
        now: world.unfinished(),
        halfway,
    };
    let mut at_least = BTreeSet::new();
    add_names(world, &under_way, &mut metrics, &mut at_least);
    add_program_metrics(world, programs, &under_way, &mut metrics, &mut at_least);
    add_jobs(world, &mut metrics, &mut at_least);
    add_groups(world, before, &mut metrics);
    add_machine(world, &mut metrics);
    Outcome {
        // The world prints what it computed as 16 digits, so this cannot fail.
        event_hash: u64::from_str_radix(&world.event_hash(), 16).unwrap_or_default(),
        metrics,
        at_least,
    }
}

/// Unfinished requests at the end and halfway to it.
struct UnderWay<'a> {
    now: Unfinished,
    halfway: &'a Unfinished,
}

/// The age of everything of one distribution that has not finished, and how much there was halfway.
#[derive(Clone, Copy)]
struct Ages<'a> {
    now: &'a [Ns],
    halfway: usize,
}

impl UnderWay<'_> {
    /// `None` where the workload does not say what is under way.
    fn activations(&self, name: &str) -> Option<Ages<'_>> {
        Some(Ages {
            now: self.now.activations.get(name)?,
            halfway: self.halfway.activations.get(name).map_or(0, Vec::len),
        })
    }

    /// The same of the metric in this row of the workload.
    fn of_metric(&self, row: usize) -> Option<Ages<'_>> {
        let row = row as u32;
        Some(Ages {
            now: self.now.metrics.get(&row)?,
            halfway: self.halfway.metrics.get(&row).map_or(0, Vec::len),
        })
    }
}

/// A distribution of times under `name`, in µs; nothing when there is no time in it. Unfinished
/// requests count with their age, so that starvation does not look good: a percentile that falls
/// among the unfinished is a lower bound. One that is younger than a percentile says nothing about
/// it: see [`quantile_of`].
///
/// Worked example: 60 requests took 10 ms, 40 wait since 1 s. The median is 10 ms; the 95th
/// percentile is at least 1 s. The largest and the mean are lower bounds too.
fn add_unfinished(
    metrics: &mut MetricMap,
    at_least: &mut BTreeSet<String>,
    name: &str,
    values: &Histogram,
    ages: Ages<'_>,
) {
    let finished = values.count();
    let mut all = values.clone();
    ages.now.iter().for_each(|&age| all.record(age));
    if all.count() == 0 {
        return;
    }
    add_distribution(metrics, name, &all);
    metrics.insert(format!("{name}.count"), finished as f64);
    metrics.insert(format!("{name}.unfinished"), ages.now.len() as f64);
    metrics.insert(format!("{name}.halfway"), ages.halfway as f64);
    if ages.now.is_empty() {
        return;
    }
    let mut oldest_first = ages.now.to_vec();
    oldest_first.sort_unstable_by(|left, right| right.cmp(left));
    for &(suffix, per_million) in QUANTILES {
        let metric = format!("{name}.{suffix}");
        match quantile_of(values, &oldest_first, per_million) {
            Some(ns) => drop(metrics.insert(metric, ns as f64 / NS_PER_US)),
            None => drop(at_least.insert(metric)),
        }
    }
    let largest = oldest_first.first() >= values.max().as_ref();
    let bounds = ["avg"].into_iter().chain(largest.then_some("max"));
    at_least.extend(bounds.map(|suffix| format!("{name}.{suffix}")));
}

/// The quantile of finished `values` and of those that are under way since `oldest_first`; `None`
/// if it falls among these.
///
/// One that is younger than the quantile may still end below it or above, as the finished ones did,
/// so it is left out; an older one is above it for certain. That is the reduced-sample estimate of
/// survival analysis.
///
/// Worked example: 57 requests took 1 to 5 ms and one has begun 3 ms before the end. With or
/// without it, the 99th percentile is the largest of all, 5 ms. Had it begun 7 ms before the end,
/// the percentile would be at least that.
fn quantile_of(values: &Histogram, oldest_first: &[Ns], per_million: u32) -> Option<Ns> {
    let older_than = |ns: Ns| oldest_first.partition_point(|&age| age > ns);
    // The more ages count as larger, the larger the quantile, and the fewer ages are.
    let (mut low, mut high) = (0, oldest_first.len());
    while low < high {
        let larger = (low + high) / 2;
        let value = values.quantile_below(per_million, larger as u64);
        match value.is_none_or(|value| older_than(value) <= larger) {
            true => high = larger,
            false => low = larger + 1,
        }
    }
    values.quantile_below(per_million, low as u64)
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
fn add_names<K: Core>(
    world: &World<false, K>,
    under_way: &UnderWay<'_>,
    metrics: &mut MetricMap,
    at_least: &mut BTreeSet<String>,
) {
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
        let (of, values) = (
            format!("{name}/activation_latency"),
            &threads.activation_latency,
        );
        match under_way.activations(name) {
            Some(ages) => add_unfinished(metrics, at_least, &of, values, ages),
            None => add_distribution(metrics, &of, values),
        }
        add_distribution(
            metrics,
            &format!("{name}/turn_latency"),
            threads.turn_latency(),
        );
    }
}

/// Adds the CPU time, the waiting times and the event counts of the threads of one name.
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

/// Adds the metrics that programs recorded themselves. They take precedence over a probe's metric
/// of the same name.
fn add_program_metrics<K: Core>(
    world: &World<false, K>,
    programs: &[Running],
    under_way: &UnderWay<'_>,
    metrics: &mut MetricMap,
    at_least: &mut BTreeSet<String>,
) {
    let of_nobody = |name: &str| !programs.iter().any(|program| program.records(name));
    let jobs = &world.workload().jobs;
    let of_job = |row: usize| jobs.iter().any(|job| job.metric.0 as usize == row);
    let all = world.probes().metrics.iter().enumerate();
    for (row, metric) in all.filter(|(row, metric)| of_nobody(&metric.name) && !of_job(*row)) {
        match under_way.of_metric(row) {
            Some(ages) => {
                add_unfinished(metrics, at_least, &metric.name, &metric.values, ages);
            }
            None => add_distribution(metrics, &metric.name, &metric.values),
        }
        if metric.count > 0 {
            metrics.insert(metric.name.clone(), metric.count as f64);
        }
    }
    let patients = world.workload().patients.iter();
    // Requests of one service share them.
    let failures: BTreeSet<MetricId> = patients
        .flat_map(|patient| [patient.failed, patient.retried])
        .collect();
    for metric in failures {
        let metric = &world.probes().metrics[metric.0 as usize];
        metrics.insert(metric.name.clone(), metric.count as f64);
    }
    for program in programs {
        metrics.extend(program.metrics(world.probes(), world.now()));
    }
}

/// Adds how long each job took; one that has not ended takes at least its age.
fn add_jobs<K: Core>(
    world: &World<false, K>,
    metrics: &mut MetricMap,
    at_least: &mut BTreeSet<String>,
) {
    for job in &world.workload().jobs {
        let time = &world.probes().metrics[job.metric.0 as usize];
        let ns = time.values.max().unwrap_or_else(|| {
            at_least.insert(time.name.clone());
            world.now().saturating_sub(job.begins_ns)
        });
        metrics.insert(time.name.clone(), ns as f64 / NS_PER_S);
    }
}

/// Adds the counters of the groups since `before`, their values when statistics began.
fn add_groups<K: Core>(world: &World<false, K>, before: &MetricMap, metrics: &mut MetricMap) {
    for (metric, value) in group_counters(world) {
        let earlier = before.get(&metric).copied().unwrap_or(0.0);
        metrics.insert(metric, value - earlier);
    }
    let groups = world.workload().groups.iter();
    for spec in groups.filter(|spec| is_told(&spec.path)) {
        let value = |file: &str| {
            metrics
                .get(&format!("cgroup:{}/{file}", spec.path))
                .copied()
        };
        let (throttled, periods) = (value("nr_throttled"), value("nr_periods"));
        let ratio = throttled.zip(periods).filter(|(_, periods)| *periods > 0.0);
        let ratio = ratio.map_or(0.0, |(throttled, periods)| throttled / periods);
        metrics.insert(format!("cgroup:{}/throttled_ratio", spec.path), ratio);
    }
}

/// Whether the counters of the group at `path` are told: those of the background's are not.
pub(super) fn is_told(path: &str) -> bool {
    !path.starts_with(GROUP_PREFIX)
}

/// `cpu.stat` of every group, in the units of cgroup v2.
pub(super) fn group_counters<K: Core>(world: &World<false, K>) -> MetricMap {
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

fn add_machine<K: Core>(world: &World<false, K>, metrics: &mut MetricMap) {
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

/// Adds turbostat's columns over the time that counts.
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
        ("model_watts", report.model),
    ];
    for (name, watts) in watts {
        if let Some(watts) = watts {
            put(name, watts.mean);
            put(&format!("{name}_max"), watts.max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(finished: &[Ns], unfinished: &[Ns]) -> (MetricMap, BTreeSet<String>) {
        let mut values = Histogram::default();
        finished.iter().for_each(|&value| values.record(value));
        let (mut metrics, mut at_least) = (MetricMap::new(), BTreeSet::new());
        let ages = Ages {
            now: unfinished,
            halfway: 0,
        };
        add_unfinished(&mut metrics, &mut at_least, "a", &values, ages);
        (metrics, at_least)
    }

    #[test]
    fn a_percentile_among_the_unfinished_is_a_lower_bound() {
        let (metrics, at_least) = told(&[1_000_000; 60], &[9_000_000; 40]);
        assert_eq!((metrics["a.count"], metrics["a.unfinished"]), (60.0, 40.0));
        assert!(metrics["a.p50"] < 1_001.0 && metrics["a.p95"] > 8_990.0);
        assert!(!at_least.contains("a.p50") && at_least.contains("a.p95"));
        assert!(at_least.contains("a.max") && at_least.contains("a.avg"));
        let starved = told(&[], &[5_000_000]);
        assert_eq!(starved.0["a.count"], 0.0);
        assert!(starved.1.contains("a.p50"), "{starved:?}");
    }

    #[test]
    fn one_that_is_under_way_at_the_end_moves_no_percentile_below_it() {
        let (_, at_least) = told(&[1_000_000; 1000], &[3]);
        let bounds: Vec<&str> = at_least.iter().map(String::as_str).collect();
        assert_eq!(bounds, ["a.avg"]);
        // The largest of few is a percentile, and one that is younger does not make it a bound; an
        // older one does.
        let few: Vec<Ns> = (1..=57).map(|place| place * 100_000).collect();
        assert!(!told(&few, &[3_000_000]).1.contains("a.p99"));
        assert!(told(&few, &[7_000_000]).1.contains("a.p99"));
        assert_eq!(told(&[1], &[]).1, BTreeSet::new());
        assert_eq!(told(&[], &[]), Default::default());
    }
}
