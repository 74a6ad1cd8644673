use super::*;
use schedcast_kernel::rules::{Rules, Version};
use schedcast_sim::{Instruction, Machine, World};

const SECOND: u64 = 1_000_000_000;

pub(super) fn compiled(line: &str, cpus: usize) -> (Running, Workload) {
    let words = split(line);
    let name = tool(&words).expect("a tool").name;
    let mut workload = Workload::default();
    let running = compile(&words, &Start::new(name, cpus), &mut workload)
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    assert_eq!(workload.check(cpus), Ok(()), "{line}");
    (running, workload)
}

pub(super) fn refuse(line: &str) -> String {
    let mut workload = Workload::default();
    compile(&split(line), &Start::new("x", 4), &mut workload)
        .expect_err(line)
        .to_string()
}

/// Runs on `cpus` CPUs until nothing is left to do, or `until_s`.
pub(super) fn run(line: &str, cpus: usize, until_s: u64) -> (Running, World) {
    run_under(rules(6, 18, cpus), line, cpus, until_s)
}

fn run_under(rules: Rules, line: &str, cpus: usize, until_s: u64) -> (Running, World) {
    let (running, workload) = compiled(line, cpus);
    let topology = schedcast_kernel::topology::Topology::flat(cpus);
    let machine = Machine::preset("generic-8")
        .unwrap()
        .with_topology(topology);
    let mut world = World::new(machine, rules, workload, 1).unwrap();
    for step in 1..=until_s * 20 {
        world.run_until(step * SECOND / 20).unwrap();
        if world.live_tasks() == 0 {
            break;
        }
    }
    (running, world)
}

pub(super) fn rules(major: u16, minor: u16, cpus: usize) -> Rules {
    Rules::of(Version::new(major, minor), cpus as u32, 250)
}

pub(super) fn metric(running: &Running, world: &World, name: &str) -> f64 {
    let metrics = running.metrics(world.probes(), world.now());
    *metrics
        .get(name)
        .unwrap_or_else(|| panic!("no {name} in {metrics:?}"))
}

/// A tool, a command line of it, and its flags with values that are not the defaults.
type Sample = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

const SAMPLES: &[Sample] = &[
    (
        "schbench",
        "schbench -r 40",
        &[
            ("message-threads", "3"),
            ("threads", "5"),
            ("runtime", "41"),
            ("cache_footprint", "64"),
            ("operations", "2"),
            ("sleep_usec", "7"),
            ("rps", "300"),
            ("pipe", "4096"),
            ("warmuptime", "5"),
            ("zerotime", "9"),
            ("message-cpus", "1"),
            ("worker-cpus", "2"),
            ("intervaltime", "3"),
            ("json", "x"),
            ("jobname", "x"),
        ],
    ),
    (
        "schbench-classic",
        "schbench-classic",
        &[
            ("message-threads", "3"),
            ("threads", "5"),
            ("runtime", "41"),
            ("sleeptime", "7000"),
            ("cputime", "9"),
            ("rps", "300"),
            ("pipe", "4096"),
        ],
    ),
    (
        "hackbench",
        "hackbench",
        &[
            ("groups", "3"),
            ("fds", "5"),
            ("loops", "7"),
            ("datasize", "1000"),
        ],
    ),
    (
        "perf-bench-messaging",
        "perf bench sched messaging",
        &[("group", "3"), ("nr_loops", "7")],
    ),
    ("perf-bench-pipe", "perf bench sched pipe", &[("loop", "3")]),
    (
        "stress-ng",
        "stress-ng --cpu 3 --cpu-load 40",
        &[
            ("cpu", "2"),
            ("cpu-load", "41"),
            ("cpu-load-slice", "20"),
            ("cpu-method", "fft"),
            ("cpu-ops", "50"),
            ("timeout", "5"),
            ("taskset", "1"),
            ("sched", "batch"),
        ],
    ),
    (
        "cyclictest",
        "cyclictest -t 2 --policy fifo -l 9",
        &[
            ("threads", "3"),
            ("priority", "70"),
            ("policy", "rr"),
            ("interval", "900"),
            ("distance", "90"),
            ("loops", "11"),
            ("duration", "2"),
            ("affinity", "1"),
            ("mainaffinity", "1"),
            ("latency", "20"),
            ("histogram", "30"),
            ("histofall", "30"),
            ("clock", "1"),
            ("json", "x"),
            ("histfile", "x"),
        ],
    ),
    (
        "netperf",
        "netperf -t UDP_RR",
        &[
            ("t", "TCP_RR"),
            ("l", "3"),
            ("pairs", "4"),
            ("T", "1,2"),
            ("H", "::1"),
            ("p", "7"),
            ("P", "0"),
            ("v", "2"),
        ],
    ),
    (
        "iozone",
        "iozone -e",
        &[
            ("s", "3m"),
            ("r", "8"),
            ("i", "0"),
            ("t", "3"),
            ("filesystem", "xfs"),
            ("f", "x"),
        ],
    ),
    (
        "pgbench",
        "pgbench -c 4",
        &[
            ("client", "5"),
            ("jobs", "2"),
            ("transactions", "11"),
            ("time", "3"),
            ("builtin", "select-only"),
            ("protocol", "prepared"),
            ("rate", "100"),
            ("scale", "3"),
            ("filesystem", "tmpfs"),
            ("synchronous-commit", "off"),
            ("host", "/tmp"),
            ("port", "7"),
            ("username", "x"),
            ("progress", "1"),
            ("random-seed", "1"),
        ],
    ),
    (
        "sysbench",
        "sysbench oltp_read_write run",
        &[
            ("threads", "5"),
            ("events", "9"),
            ("time", "3"),
            ("tables", "3"),
            ("table-size", "3"),
            ("point-selects", "3"),
            ("simple-ranges", "3"),
            ("sum-ranges", "3"),
            ("order-ranges", "3"),
            ("distinct-ranges", "3"),
            ("range-size", "3"),
            ("range-selects", "off"),
            ("index-updates", "3"),
            ("non-index-updates", "3"),
            ("delete-inserts", "3"),
            ("filesystem", "tmpfs"),
            ("synchronous-commit", "off"),
            ("pgsql-host", "/tmp"),
            ("pgsql-port", "7"),
            ("pgsql-user", "x"),
            ("pgsql-password", "x"),
            ("pgsql-db", "x"),
            ("rand-type", "uniform"),
            ("rand-seed", "3"),
            ("auto-inc", "off"),
            ("percentile", "99"),
            ("verbosity", "0"),
            ("forced-shutdown", "3"),
            ("thread-stack-size", "3"),
        ],
    ),
    (
        "wrk",
        "wrk -c 8",
        &[
            ("threads", "3"),
            ("connections", "10"),
            ("duration", "3"),
            ("workers", "3"),
            ("timeout", "3"),
            ("header", "x"),
        ],
    ),
    (
        "http-service",
        "http-service --fan-out 2",
        &[
            ("rate", "7"),
            ("arrivals", "even"),
            ("duration", "3"),
            ("threads", "3"),
            ("work", "3"),
            ("demand", "fixed"),
            ("lock", "3"),
            ("fan-out", "3"),
            ("fan-work", "3"),
            ("helpers", "3"),
            ("interrupt-cpu", "1"),
        ],
    ),
];

/// Flags that need another one beside them, are of another test, or say what holds anyway.
const NOT_ALONE: [&str; 6] = [
    "e",
    "sched-prio",
    "process",
    "server-cgroup",
    "cpu-max-prime",
    "db-driver",
];

#[test]
fn every_flag_has_the_effect_its_table_says() {
    for (name, line, samples) in SAMPLES {
        let tool = TOOLS.iter().find(|tool| tool.name == *name).unwrap();
        let (plain, without) = compiled(line, 4);
        for flag in tool.flags {
            let sample = samples.iter().find(|(key, _)| *key == flag.key());
            let typed = flag.long.map_or(flag.typed(), |long| format!("--{long}"));
            let line = match sample {
                Some((_, value)) => format!("{line} {typed} {value}"),
                None => format!("{line} {typed}"),
            };
            if let command::Effect::Refused(why) = flag.effect {
                let message = refuse(&format!("{line} 1"));
                assert!(message.contains(why), "{line}: {message}");
                continue;
            }
            if NOT_ALONE.contains(&flag.key().as_str()) {
                continue;
            }
            let (running, with) = compiled(&line, 4);
            let same = with == without
                && running.idle_latency_limit_us == plain.idle_latency_limit_us
                && running.end_ns == plain.end_ns;
            let expected = flag.effect == command::Effect::Scheduling;
            assert_eq!(!same, expected, "{line}");
        }
    }
}

#[test]
fn what_is_wrong_is_said_with_its_word_and_the_nearest_name() {
    let cases = [
        (
            "hackbnech -g 1",
            "command, word 1: unknown program `hackbnech`; nearest valid name: `hackbench`",
        ),
        (
            "perf bench sched pip",
            "command, word 1: unknown program `perf bench sched pip`; nearest valid name: `perf bench sched pipe`",
        ),
        (
            "schbench-classic -m 1 -t",
            "schbench-classic, word 4: flag `-t` needs a value N: workers of each message thread",
        ),
        (
            "stress-ng --cpu 2 --cpu-method matriprod",
            "stress-ng, word 4: unknown method `matriprod`; nearest valid name: `matrixprod`",
        ),
        (
            "stress-ng --cpu two",
            "stress-ng, word 2: flag `--cpu` needs a whole number from 0 to 4096, found `two`",
        ),
        (
            "stress-ng --io 2",
            "stress-ng, word 2: unknown flag `--io`; valid names: `--cpu`, `-c`, `--cpu-load`, `-l`, \
             `--cpu-load-slice`, `--cpu-method`, `--cpu-ops`, `--timeout`, `-t`, `--taskset`, `--sched`, \
             `--sched-prio`, `--metrics`, `-M`, `--metrics-brief`, `--quiet`, `-q`, `--log-brief`",
        ),
        (
            "cyclictest --policy ff",
            "cyclictest, word 2: unknown policy `ff`; valid names: `other`, `normal`, `batch`, `idle`, `fifo`, `rr`",
        ),
        (
            "cyclictest -a 9",
            "cyclictest, word 2: flag `-a` needs CPUs of 0 to 3 such as `0-3,8`, found `9`",
        ),
        (
            "schbench-classic -R 10 -t 1",
            "schbench-classic, word 1: `-R` needs `-t 2` or more: two thirds of the workers get a request at a time",
        ),
        ("rt-app", "rt-app, word 1: needs a file: `rt-app FILE`"),
        (
            "hackbench 2 treads",
            "hackbench, word 3: expected `process` or `thread`, found `treads`",
        ),
        (
            "hackbench -g 20000",
            "hackbench, word 1: 800000 tasks; Linux holds 32768 unless told otherwise",
        ),
    ];
    for (line, message) in cases {
        assert_eq!(refuse(line), message);
    }
    let missing = refuse("rt-app no-such-file.json");
    assert!(
        missing.starts_with("rt-app, word 2: ./no-such-file.json: "),
        "{missing}"
    );
}

#[test]
fn no_words_at_all_are_refused() {
    let mut workload = Workload::default();
    assert!(compile(&[], &Start::new("x", 4), &mut workload).is_err());
}

#[test]
fn a_tool_may_be_given_by_its_path() {
    let (running, _) = compiled("/usr/bin/hackbench -g 1", 2);
    assert_eq!(running.tool.name, "hackbench");
}

#[test]
fn hackbench_has_a_queue_a_receiver_and_one_program_a_role() {
    let (_, workload) = compiled("hackbench -g 3 -f 5", 4);
    assert_eq!(workload.queues.len(), 1 + 3 * 5);
    assert_eq!(workload.programs.len(), 3);
    assert_eq!(workload.tasks.len(), 1);
    let sends = |program: usize| {
        let instructions = workload.programs[program].instructions().iter();
        instructions
            .filter(|step| matches!(step, Instruction::Send { sync: true, .. }))
            .count()
    };
    assert_eq!([sends(0), sends(1), sends(2)], [1, 2, 0]);
}

#[test]
fn hackbench_delivers_every_message() {
    for line in [
        "hackbench -g 2 -l 7",
        "hackbench -g 2 -l 7 -p -T",
        "hackbench -g 2 -l 7 -F",
        "perf bench sched messaging -g 2 -l 7",
    ] {
        let (running, mut world) = run(line, 4, 20);
        assert_eq!(world.live_tasks(), 0, "{line}");
        // 400 · loops · groups messages: every receiver counts its own before it exits.
        let own = world.probes().of(&running.name).unwrap().clone();
        assert!(own.wakeups > 0 && own.run_ns > 0);
        assert!(metric(&running, &world, &format!("{}/time", running.name)) > 0.0);
        world.reset_statistics();
    }
    let words = split("hackbench -g 2 -l 7");
    let read = messaging::HACKBENCH.parse(&words).unwrap();
    let options = messaging::Options::read(&read, &messaging::HACKBENCH).unwrap();
    assert_eq!(options.messages(), 400 * 7 * 2);
}

#[test]
fn a_pipe_round_trip_is_two_switches_on_one_cpu() {
    let (running, world) = run("perf bench sched pipe -l 1000", 1, 5);
    assert_eq!(world.live_tasks(), 0);
    let row = world.probes().of("perf-bench-pipe").unwrap();
    // Start and end add a few.
    let switches = world.probes().machine.context_switches;
    assert!((1990..=2020).contains(&switches), "{switches}");
    // Where the woken task preempts its waker, that one never sleeps: one wakeup a round, not two.
    // Linux 6.18 has 1.14, counted with `perf stat -e sched:sched_wakeup`.
    assert!((990..=2010).contains(&row.wakeups), "{}", row.wakeups);
    let report = running.report(world.probes(), world.now());
    assert!(report.contains("# Executed 1000 pipe operations between two processes\n"));
    assert!(report.contains(" usecs/op\n"), "{report}");
}

#[test]
fn classic_schbench_posts_two_requests_every_200_ms() {
    let (running, world) = run("schbench-classic -m 1 -t 3 -r 20 -c 80000 -R 10", 4, 25);
    assert_eq!(world.live_tasks(), 0);
    // One round every 200 ms and some 57 µs: 99 begin within 20 s, and one more is posted after
    // main has said stop, before the message thread looks.
    let count = metric(&running, &world, "schbench-classic/request_latency.count");
    assert!((198.0..=200.0).contains(&count), "{count}");
    // Nothing is in the way: woken within 20 µs.
    let p99 = metric(&running, &world, "schbench-classic/request_latency.p99");
    assert!((1.0..20.0).contains(&p99), "{p99}");
    let cpu_s = metric(&running, &world, "schbench-classic/cpu_time");
    assert!((cpu_s - count * 0.08).abs() < 0.1, "{cpu_s}");
    let report = running.report(world.probes(), world.now());
    assert!(report.starts_with("Latency percentiles (usec)\n\t50.0000th: "));
    assert!(
        report.contains("\t*99.0000th: ") && report.contains("\tmin=0, max="),
        "{report}"
    );
    assert!(
        report.contains("rps: 9.") && report.contains("p95/cputime 0.0"),
        "{report}"
    );
}

#[test]
fn classic_schbench_answers_messages_in_rounds() {
    let (running, world) = run("schbench-classic -m 2 -t 4 -r 3 -s 20000 -c 5000", 8, 10);
    assert_eq!(world.live_tasks(), 0);
    // A round is 20 to 25 ms asleep and 5 ms of spinning, which the sleep of the message thread
    // covers for all but the first arrival: some 110 rounds of 8 workers.
    let count = metric(&running, &world, "schbench-classic/wakeup_latency.count");
    assert!((700.0..1100.0).contains(&count), "{count}");
    let report = running.report(world.probes(), world.now());
    assert!(!report.contains("rps:"), "{report}");
}

#[test]
fn schbench_computes_under_the_lock_of_its_cpu() {
    let (running, world) = run("schbench -m 1 -t 4 -r 3", 4, 10);
    assert_eq!(world.live_tasks(), 0);
    // 104³ steps, 5 times, 0.8 ns each are 4.5 ms; with 150 µs of sleep 4.65 ms.
    let p50 = metric(&running, &world, "schbench/request_latency.p50");
    assert!((4600.0..4800.0).contains(&p50), "{p50}");
    let rps = metric(&running, &world, "schbench/rps");
    assert!((820.0..870.0).contains(&rps), "{rps}");
    let report = running.report(world.probes(), world.now());
    for part in [
        "Wakeup Latencies percentiles (usec) runtime 3 (s) (",
        "Request Latencies percentiles (usec) runtime 3 (s) (",
        "RPS percentiles (requests) runtime 3 (s) (4 total samples)",
        "\t* 99.0th: ",
        "\t* 50.0th: ",
        "average rps: ",
        "sched delay: message ",
    ] {
        assert!(report.contains(part), "{part} in {report}");
    }
}

#[test]
fn schbench_sends_its_requests_at_the_begin_of_each_second() {
    let (running, world) = run("schbench -m 2 -t 2 -r 4 -R 100 -n 1", 4, 10);
    assert_eq!(world.live_tasks(), 0);
    let count = metric(&running, &world, "schbench/requests");
    assert!((400.0..=500.0).contains(&count), "{count}");
}

#[test]
fn schbench_forgets_its_warm_up() {
    let count = |line: &str| {
        let (running, world) = run(line, 2, 40);
        metric(&running, &world, "schbench/request_latency.count")
    };
    let whole = count("schbench -t 2 -r 30 -n 20");
    let warm = count("schbench -t 2 -r 30 -n 20 -w 10");
    let zeroed = count("schbench -t 2 -r 30 -n 20 -z 20");
    assert!((warm / whole - 2.0 / 3.0).abs() < 0.02, "{warm} of {whole}");
    assert!(
        (zeroed / whole - 1.0 / 3.0).abs() < 0.02,
        "{zeroed} of {whole}"
    );
}

#[test]
fn stress_ng_does_its_operations_and_no_more() {
    let line = "stress-ng --cpu 2 --cpu-ops 400 --cpu-method fft --metrics-brief";
    let (running, world) = run(line, 2, 10);
    assert_eq!(world.live_tasks(), 0);
    // 200 operations of 365 µs a worker are 73 ms.
    let operations = metric(&running, &world, "stress-ng/operations");
    assert!((400.0..404.0).contains(&operations), "{operations}");
    let time = metric(&running, &world, "stress-ng/time");
    assert!((0.073..0.076).contains(&time), "{time}");
    let report = running.report(world.probes(), world.now());
    assert!(
        report.contains(
            "stress-ng: metrc: [1] cpu                 401      0.07      0.15      0.00"
        ),
        "{report}"
    );
    assert!(
        report.ends_with("successful run completed in 0.07s\n"),
        "{report}"
    );
}

#[test]
fn stress_ng_ends_on_time_and_keeps_its_load() {
    for (line, share) in [
        ("stress-ng --cpu 1 -t 5", 1.0),
        (
            "stress-ng --cpu 1 -t 5 --cpu-load 40 --cpu-method int64",
            0.4,
        ),
        (
            "stress-ng --cpu 1 -t 5 --cpu-load 25 --cpu-load-slice 10",
            0.25,
        ),
        (
            "stress-ng --cpu 1 -t 30 --cpu-load 50 --cpu-load-slice 0",
            0.5,
        ),
        ("stress-ng --cpu 1 -t 5 --cpu-load 0", 0.0),
    ] {
        let (running, world) = run(line, 2, 40);
        assert_eq!(world.live_tasks(), 0, "{line}");
        let time = metric(&running, &world, "stress-ng/time");
        let expected = if line.contains("30") { 30.0 } else { 5.0 };
        assert!((time - expected).abs() < 0.01, "{line}: {time}");
        let used = metric(&running, &world, "stress-ng/cpu_time") / time;
        let slack = if line.ends_with("slice 0") { 0.1 } else { 0.02 };
        assert!((used - share).abs() < slack, "{line}: {used}");
    }
}

#[test]
fn cyclictest_wakes_on_its_grid_and_ends_with_the_first() {
    let (running, world) = run("cyclictest -t 2 -p 80 -l 200 -q", 2, 5);
    assert_eq!(world.live_tasks(), 0);
    let report = running.report(world.probes(), world.now());
    let lines: Vec<&str> = report.lines().collect();
    assert_eq!(lines[0], "# /dev/cpu_dma_latency set to 0us");
    assert!(
        lines[1].starts_with("T: 0 (    2) P:80 I:1000 C:    200 Min:      "),
        "{report}"
    );
    // Main sees the end within 10 ms and the other's next wakeup is its last: 200 to 210 ms.
    let cycles: u64 = lines[2][24..34]
        .trim_start_matches(" C:")
        .trim()
        .parse()
        .unwrap();
    assert!((133..=142).contains(&cycles), "{report}");
    assert_eq!(running.idle_latency_limit_us, Some(0));
    // Interrupt, wakeup and switch on an idle CPU of generic-8: some 5 µs.
    let average = metric(&running, &world, "cyclictest/latency.avg");
    assert!((2.0..10.0).contains(&average), "{average}");
    let (normal, world) = run("cyclictest -l 200 -q", 2, 5);
    let slack = metric(&normal, &world, "cyclictest/latency.avg");
    assert!((50.0..60.0).contains(&slack), "{slack}");
}

#[test]
fn cyclictest_prints_a_histogram() {
    let (running, world) = run("cyclictest -p 80 -D 1 -q -h 20", 1, 5);
    assert_eq!(world.live_tasks(), 0);
    let report = running.report(world.probes(), world.now());
    let rows = report
        .lines()
        .filter(|line| line.starts_with("0000"))
        .count();
    assert_eq!(rows, 20, "{report}");
    let total = report
        .lines()
        .find(|line| line.starts_with("# Total: "))
        .unwrap();
    let total: u64 = total["# Total: ".len()..].parse().unwrap();
    assert!((998..=1001).contains(&total), "{report}");
    for name in [
        "Min Latencies",
        "Avg Latencies",
        "Max Latencies",
        "Histogram Overflows",
    ] {
        assert!(report.contains(&format!("# {name}: 0")), "{report}");
    }
}

#[test]
fn two_programs_share_a_workload() {
    let mut workload = Workload::default();
    let mut first = Start::new("first", 2);
    let a = compile(&split("schbench-classic -t 2 -r 1"), &first, &mut workload).unwrap();
    first.name = "second".into();
    let b = compile(&split("hackbench -g 1 -l 5"), &first, &mut workload).unwrap();
    assert_eq!(workload.check(2), Ok(()));
    assert_ne!(
        workload.tasks[0].address_space,
        workload.tasks[1].address_space
    );
    let topology = schedcast_kernel::topology::Topology::flat(2);
    let machine = Machine::preset("generic-8")
        .unwrap()
        .with_topology(topology);
    let rules = rules(5, 14, 2);
    let mut world = World::new(machine, rules, workload, 1).unwrap();
    world.run_until(5 * SECOND).unwrap();
    assert_eq!(world.live_tasks(), 0);
    assert!(metric(&a, &world, "first/wakeup_latency.count") > 0.0);
    assert!(metric(&b, &world, "second/time") > 0.0);
}

/// One pair on one CPU: every transaction is the same known sum of prices.
#[test]
fn netperf_transactions_take_their_prices() {
    // Without delayed dequeue: every sleeper leaves its queue.
    let (running, world) = run_under(rules(6, 5, 1), "netperf -t UDP_RR -l -1000 -T 0,0", 1, 5);
    assert_eq!(world.live_tasks(), 0);
    let rate = metric(&running, &world, "netperf/transactions_per_s");
    let prices = Prices::default();
    let own = 2 * (prices.udp_send(1) + prices.udp_receive(1) + prices.netperf_round_ns);
    // Twice: two system calls, a wakeup with an enqueue and a dequeue, a switch.
    let kernel = 2 * (2 * 200 + 500 + 200 + 200 + 1300);
    let expected = 1e9 / (own + kernel) as f64;
    assert!((rate / expected - 1.0).abs() < 0.03, "{rate} {expected}");
}

#[test]
fn netperf_pairs_are_alike_and_counted_one_by_one() {
    let rate = |line: &str, cpus| {
        let (running, world) = run(line, cpus, 5);
        metric(&running, &world, "netperf/transactions_per_s")
    };
    let one = rate("netperf -t UDP_RR -l 1", 8);
    let four = rate("netperf -t UDP_RR -l 1 --pairs 4", 16);
    assert!((four / one - 1.0).abs() < 0.05, "{one} {four}");
    // TCP costs more than UDP, and longer messages more than short ones.
    let tcp = rate("netperf -t TCP_RR -l 1", 8);
    let long = rate("netperf -t UDP_RR -l 1 -- -r 60000,60000", 8);
    assert!(tcp < one && long < one, "{one} {tcp} {long}");
}

#[test]
fn netperf_streams_lose_only_what_udp_has_no_room_for() {
    let (running, world) = run("netperf -t UDP_STREAM -l 1 -T 0,0 -- -m 1024", 1, 5);
    assert!(metric(&running, &world, "netperf/datagrams_lost") > 0.0);
    let (running, world) = run("netperf -t TCP_STREAM -l 1", 2, 5);
    assert_eq!(world.live_tasks(), 0);
    assert!(metric(&running, &world, "netperf/throughput") > 1000.0);
    let metrics = running.metrics(world.probes(), world.now());
    assert!(!metrics.contains_key("netperf/datagrams_lost"));
}

#[test]
fn netperf_refuses_by_name() {
    assert!(refuse("netperf -t UDP_R").contains("nearest valid name: `UDP_RR`"));
    assert!(refuse("netperf -t UDP_RR -c").contains("calibration run"));
    assert!(refuse("netperf -t TCP_STREAM -l -5").starts_with("netperf, word 4"));
    assert!(refuse("netperf -t UDP_RR -- -m 5").contains("`-m` is refused"));
    assert!(refuse("netperf -T 9,0").contains("whole number from 0 to 3"));
}
