//! Services by hand, run in the simulator.

use super::*;
use schedcast_kernel::GroupId;
use schedcast_kernel::rules::{Rules, Version};
use schedcast_kernel::topology::Topology;
use schedcast_sim::{Machine, Workload, World};

const MS: u64 = 1_000_000;

fn service(threads: u32, work_ms: u64, gap_ms: u64) -> Service {
    Service {
        threads,
        arrivals: Arrivals::Open {
            mean_gap_ns: gap_ms * MS,
            gaps: Gaps::Even,
        },
        fan_out: 1,
        work_ns: vec![work_ms * MS],
        io: None,
        client: Some(Client {
            name: "client".to_owned(),
            work_ns: 0,
        }),
        nice: 0,
        kernel: false,
    }
}

/// A world of two CPUs where only work takes time, after a second.
fn ran(service: &Service) -> World {
    let mut workload = Workload::default();
    let placed = Placed {
        name: "worker".to_owned(),
        group: GroupId::ROOT,
        client_group: GroupId::ROOT,
    };
    service.compile(&placed, &mut workload).unwrap();
    assert_eq!(workload.check(2), Ok(()));
    let machine = Machine::preset("generic-8").unwrap();
    let machine = machine.free_of_charge().with_topology(Topology::flat(2));
    let rules = Rules::of(Version::new(6, 18), 2, 250);
    let mut world = World::new(machine, rules, workload, 1).unwrap();
    world.run_until(1000 * MS).unwrap();
    world
}

/// Count, smallest and largest request latency in ms, rounded.
fn latencies(world: &World) -> (u64, u64, u64) {
    let metrics = &world.probes().metrics;
    let metric = metrics
        .iter()
        .find(|one| one.name == "worker/request_latency");
    let values = &metric.unwrap().values;
    let ms = |ns: Option<u64>| (ns.unwrap() + MS / 2) / MS;
    (values.count(), ms(values.min()), ms(values.max()))
}

fn worked_ms(world: &World) -> u64 {
    let names = world.probes().names.iter();
    names
        .filter(|one| one.name == "worker")
        .map(|one| one.run_ns)
        .sum::<u64>()
        / MS
}

#[test]
fn requests_take_their_work_while_threads_are_free() {
    // Every 10 ms one of 4 ms: 99 of the 100 that are due are done.
    let world = ran(&service(2, 4, 10));
    assert_eq!(latencies(&world), (99, 4, 4));
    // The last one is due with the last nanosecond.
    assert!((396..=400).contains(&worked_ms(&world)));
}

#[test]
fn one_thread_makes_requests_wait() {
    // 12 ms of work every 10 ms for one thread: each waits 2 ms longer than the one before.
    let (count, least, most) = latencies(&ran(&service(1, 12, 10)));
    assert_eq!((count, least), (82, 12));
    assert!((172..=176).contains(&most), "{most}");
    let found = latencies(&ran(&service(2, 12, 10))).2;
    assert_eq!(found, 12, "two threads keep up");
}

#[test]
fn a_request_ends_with_its_last_piece() {
    let mut fan = service(2, 4, 20);
    fan.fan_out = 3;
    // Two pieces run at once, the third after one of them.
    let (count, least, most) = latencies(&ran(&fan));
    assert_eq!((count, least, most), (49, 8, 8));
}

#[test]
fn clients_ask_again_after_an_answer() {
    let mut closed = service(1, 4, 0);
    closed.arrivals = Arrivals::Closed {
        clients: 2,
        think_ns: vec![6 * MS],
    };
    // Two clients share one thread: it is busy for 8 of every 10 ms.
    let world = ran(&closed);
    let (count, least, most) = latencies(&world);
    assert!((190..=200).contains(&count), "{count}");
    assert!(least >= 4 && most <= 8, "{least} {most}");
}

#[test]
fn devices_add_their_time_and_no_work() {
    let mut waiting = service(1, 4, 20);
    waiting.io = Some(Io {
        per_million: 2 * MILLION,
        wait_ns: vec![3 * MS],
    });
    let world = ran(&waiting);
    assert_eq!(latencies(&world), (49, 10, 10));
    assert!((194..=200).contains(&worked_ms(&world)));
}

#[test]
fn wakeups_without_a_client_come_at_their_rate() {
    let mut timers = service(3, 1, 10);
    timers.client = None;
    let world = ran(&timers);
    assert!((98..=100).contains(&worked_ms(&world)));
    assert!(world.probes().metrics.is_empty(), "nobody waits");
}

#[test]
fn no_piece_of_a_request_is_lost_to_rounding() {
    let second = 1000 * MS;
    assert_eq!(distil::pace(second, 100, 100), (1, 10 * MS));
    assert_eq!(distil::pace(second, 300, 100), (3, 10 * MS));
    assert_eq!(distil::pace(second, 130, 100), (1, second / 130));
    assert_eq!(distil::pace(second, 160, 100), (2, second / 80));
}

#[test]
fn quantiles_keep_the_mean() {
    let values: Vec<u64> = (1..=1000)
        .map(|n| if n > 990 { 100 * n } else { n })
        .collect();
    let mean = values.iter().sum::<u64>() as f64 / 1000.0;
    let quantiles = distil::quantiles(values);
    assert!(quantiles.is_sorted() && quantiles.len() == 41);
    let drawn: u64 = quantiles.windows(2).map(|pair| pair[0] + pair[1]).sum();
    let drawn = drawn as f64 / 80.0;
    assert!((drawn / mean - 1.0).abs() < 0.01, "{drawn} of {mean}");
    assert_eq!(distil::quantiles(vec![7]), vec![7; 41]);
    assert_eq!(distil::quantiles(Vec::new()), [0]);
}
