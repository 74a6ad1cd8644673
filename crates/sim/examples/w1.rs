use schedcast_kernel::rules::{Rules, Version};
use schedcast_sim::{World, bench_workloads};
fn main() {
    let secs: u64 = std::env::args().nth(1).map_or(10, |s| s.parse().unwrap());
    let cpus: usize = std::env::args().nth(2).map_or(10, |s| s.parse().unwrap());
    let levels: usize = std::env::args().nth(3).map_or(1, |s| s.parse().unwrap());
    let rules = Rules::of(Version::new(6, 18), cpus as u32, 250);
    let mut world = World::new(
        bench_workloads::machine(cpus).unwrap(),
        rules,
        bench_workloads::periodic(cpus * 10, levels).unwrap(),
        1,
    )
    .unwrap();
    let start = std::time::Instant::now();
    world.run_until(secs * 1_000_000_000).unwrap();
    let elapsed = start.elapsed().as_secs_f64();
    let m = &world.probes().machine;
    let s = world.probes().of("periodic").unwrap();
    println!(
        "{} dispatches in {elapsed:.3}s = {:.3} M/s hash {}",
        m.dispatches,
        m.dispatches as f64 / elapsed / 1e6,
        world.event_hash()
    );
    println!(
        "switches {} wakeups {} migrations {} busy {:.3}",
        m.context_switches,
        m.wakeups,
        m.migrations,
        world.busy_ratio()
    );
    println!(
        "wakeup lat p50 {:?} p99 {:?} max {:?}; activation p50 {:?} p99 {:?}",
        s.wakeup_latency.quantile(500_000),
        s.wakeup_latency.quantile(990_000),
        s.wakeup_latency.max(),
        s.activation_latency.quantile(500_000),
        s.activation_latency.quantile(990_000)
    );
    println!(
        "run {:.3} contention {:.3}",
        s.run_ns as f64 / 1e9,
        s.wait_contention_ns as f64 / 1e9
    );
    for op in schedcast_kernel::platform::Op::ALL {
        println!(
            "  {:24} {:10} {:.4}%",
            op.name(),
            m.operations[op as usize],
            m.overhead_ns[op as usize] as f64 / (secs as f64 * 1e7 * cpus as f64)
        );
    }
}
