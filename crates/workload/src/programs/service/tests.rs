use super::super::tests::{Ran, close, compiled, ended, rules, run, started, with_group};
use super::super::{Start, compile, split};
use schedcast_base::{assert_contains, assert_in, assert_starts};
use schedcast_kernel::GroupId;
use schedcast_kernel::group::BandwidthLimit;
use schedcast_sim::workload::GroupSpec;
use schedcast_sim::{Machine, Workload, World};

const SECOND: u64 = 1_000_000_000;

#[test]
fn a_service_that_keeps_up_answers_what_arrives() {
    let line = "http-service --rate 200 --work 500 --duration 5 --demand fixed --arrivals even";
    let ran = ended(line, 4, 6);
    let rate = ran.metric("http-service/requests_per_s");
    assert!(close(rate, 200.0, 0.01), "{rate}");
    // No other load: the work, the reply, and three wakeups on the way.
    assert_in!(ran.metric("http-service/latency.p50"), 500.0..560.0);
}

#[test]
fn the_wait_of_a_single_worker_is_that_of_a_queue() {
    // M/M/1 at 50 %: the mean time in the system is 1 / (1 − 0.5) services, half of it waiting.
    let line = "http-service --rate 500 --work 1000 --threads 1 --duration 60";
    let ran = run(line, 4, 61);
    let latency = ran.metric("http-service/latency.avg");
    assert!(close(latency, 2000.0, 0.1), "{latency}");
    let queue = ran.metric("http-service/queue.avg");
    assert!(close(queue, 1000.0, 0.15), "{queue}");
}

#[test]
fn a_lock_is_a_queue_of_one() {
    let worst = |lock: u64| {
        let line = format!(
            "http-service --rate 900 --work 1000 --lock {lock} --threads 32 --duration 5 --demand fixed"
        );
        let ran = run(&line, 8, 6);
        ran.metric("http-service/latency.avg")
    };
    // All of the work under the lock: 90 % of one worker. None of it: seven of eight CPUs are free.
    assert!(worst(1000) > 3.0 * worst(0), "{} {}", worst(1000), worst(0));
}

#[test]
fn pieces_are_computed_side_by_side() {
    let latency = |helpers: u64| {
        let line = format!(
            "http-service --rate 50 --work 100 --fan-out 4 --fan-work 1000 --helpers {helpers} \
             --duration 2 --demand fixed --arrivals even"
        );
        let ran = ended(&line, 8, 3);
        ran.metric("http-service/latency.p50")
    };
    assert!(close(latency(1), 4100.0, 0.05), "{}", latency(1));
    assert!(close(latency(4), 1100.0, 0.1), "{}", latency(4));
}

fn limited(line: &str, quota_ns: u64) -> Ran {
    let (workload, group) = with_group("/service", Some(quota_ns));
    let mut start = Start::new("http-service", 2);
    start.group = group;
    started(line, &start, workload, rules(6, 18, 2)).until(10)
}

#[test]
fn requests_pile_up_when_they_arrive_faster_than_the_limit_lets_answer() {
    // 0.8 CPUs asked for, 0.5 given: the last request waits for 3/8 of the time.
    let line = "http-service --rate 400 --work 2000 --duration 10 --demand fixed --arrivals even";
    let ran = limited(line, 50_000_000);
    let rate = ran.metric("http-service/requests_per_s");
    assert!(close(rate, 250.0, 0.03), "{rate}");
    let longest = ran.metric("http-service/latency.max");
    assert!(close(longest, 3_750_000.0, 0.05), "{longest}");
}

#[test]
fn the_summary_has_rates_and_latencies() {
    let text = run("http-service --duration 1", 2, 2).report();
    assert_starts(&text, "requests  ");
    assert_contains(&text, " a second answered (--rate 100)");
    assert!(text.lines().nth(1).unwrap().starts_with("latency   mean "));
    assert!(text.lines().nth(2).unwrap().starts_with("queue     mean "));
}

#[test]
fn what_is_wrong_is_named() {
    let (running, _) = compiled("http-service --duration 1m", 2);
    assert_eq!(running.end_ns, Some(60 * SECOND));
}

/// Median latency in ms, periods and throttled periods of the published service: four threads of
/// 20 ms for each of five requests a second on 8 CPUs.
fn parallel(flags: &str, limit: BandwidthLimit) -> (f64, u64, u64) {
    let mut workload = Workload::default();
    let mut group = GroupSpec::new("/pod", GroupId::ROOT);
    group.limit = limit;
    let mut start = Start::new("http-service", 8);
    start.group = workload.add_group(group);
    let line = format!(
        "http-service --rate 5 --arrivals even --threads 4 --work 0 --fan-out 4 --fan-work 20000 \
         --demand fixed --duration 51 {flags}"
    );
    let running = compile(&split(&line), &start, &mut workload).unwrap();
    let machine = Machine::preset("generic-8").unwrap();
    let world = World::new(machine, rules(6, 18, 8), workload, 1).unwrap();
    let ran = Ran { running, world }.until(51);
    let p50 = ran.metric("http-service/latency.p50") / 1000.0;
    let stat = ran.kernel().groups[1].bandwidth.stat;
    (p50, stat.nr_periods, stat.nr_throttled)
}

#[test]
fn pieces_that_end_by_the_clock_end_when_their_throttling_does() {
    let limit = |quota_ms: u64, burst_ms: u64| BandwidthLimit::of_ms(quota_ms, 100, burst_ms);
    // Without a limit 20 ms and the way there and back.
    let (free_ms, ..) = parallel("--by-clock", BandwidthLimit::UNLIMITED);
    assert!((20.0..21.0).contains(&free_ms), "{free_ms}");
    // 80 ms for 50: every other period is throttled after 12.5 ms, and the pieces are over when the
    // next one begins.
    let (clock_ms, periods, throttled) = parallel("--by-clock", limit(50, 0));
    let share = throttled as f64 / periods as f64;
    assert!((0.45..0.55).contains(&share), "{throttled} of {periods}");
    // Counted in CPU time, some of each piece is left then. The quota is handed out in slices of
    // 5 ms: two of the four CPUs get two of the ten and have 10 ms left, the other two get three
    // and have 5 ms left.
    let (cpu_ms, ..) = parallel("", limit(50, 0));
    assert_in!(cpu_ms - clock_ms, 5.0..10.5, "{cpu_ms} {clock_ms}");
    // 50 ms of burst hold the other 30.
    let (burst_ms, _, throttled) = parallel("--by-clock", limit(50, 50));
    assert_eq!(throttled, 0);
    assert!((20.0..21.0).contains(&burst_ms), "{burst_ms}");
}
