use super::*;
use schedcast_kernel::GroupId;
use schedcast_kernel::rules::{Rules, Version};
use schedcast_sim::workload::GroupSpec;
use schedcast_sim::{Machine, World};

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

pub(super) fn run_under(rules: Rules, line: &str, cpus: usize, until_s: u64) -> (Running, World) {
    let (running, workload) = compiled(line, cpus);
    let mut world = world(rules, workload);
    run_to_end(&mut world, until_s);
    (running, world)
}

pub(super) fn run_to_end(world: &mut World, until_s: u64) {
    for step in 1..=until_s * 20 {
        world.run_until(step * SECOND / 20).unwrap();
        if world.live_tasks() == 0 {
            break;
        }
    }
}

/// A world of as many equal CPUs as the rules are for.
pub(super) fn world(rules: Rules, workload: Workload) -> World {
    let topology = schedcast_kernel::topology::Topology::flat(rules.cpus as usize);
    let machine = Machine::preset("generic-8")
        .unwrap()
        .with_topology(topology);
    World::new(machine, rules, workload, 1).unwrap()
}

/// A workload with a group that may use so much of every 100 ms.
pub(super) fn with_group(path: &str, quota_ns: Option<u64>) -> (Workload, GroupId) {
    let mut workload = Workload::default();
    let mut group = GroupSpec::new(path, GroupId::ROOT);
    group.limit.quota_ns = quota_ns;
    let group = workload.add_group(group);
    (workload, group)
}

pub(super) fn rules(major: u16, minor: u16, cpus: usize) -> Rules {
    Rules::of(Version::new(major, minor), cpus as u32, 250)
}

pub(super) fn close(value: f64, wanted: f64, tolerance: f64) -> bool {
    (value / wanted - 1.0).abs() <= tolerance
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

const RUNTIMES: &[Sample] = &[
    (
        "go-server",
        "go-server --alloc 100 --mark 1000 --go 1.25",
        &[
            ("rate", "7"),
            ("arrivals", "even"),
            ("duration", "3"),
            ("schedule", "../../recordings/postgres-quota/requests.csv"),
            ("work", "3"),
            ("demand", "fixed"),
            ("alloc", "3"),
            ("gomaxprocs", "3"),
            ("live", "3"),
            ("gogc", "3"),
            ("trigger", "80"),
            ("mark", "3"),
            ("stw", "3"),
        ],
    ),
    (
        "java-server",
        "java-server --alloc 100 --collect 1000",
        &[
            ("rate", "7"),
            ("arrivals", "even"),
            ("duration", "3"),
            ("schedule", "../../recordings/postgres-quota/requests.csv"),
            ("work", "3"),
            ("demand", "fixed"),
            ("alloc", "3"),
            ("processors", "3"),
            ("threads", "3"),
            ("collector", "serial"),
            ("young", "3"),
            ("survivors", "3"),
            ("collect", "3"),
        ],
    ),
];

/// Flags that need another one beside them, are of another test, or say what holds anyway.
const NOT_ALONE: [&str; 12] = [
    // Without a limit every release chooses all CPUs.
    "go",
    // There is no serial collector with more than one processor.
    "collect-serial",
    "iozone g",
    "iozone n",
    "iozone q",
    "iozone y",
    "e",
    "sched-prio",
    "process",
    "server-cgroup",
    "cpu-max-prime",
    "db-driver",
];

#[test]
fn every_flag_has_the_effect_its_table_says() {
    for (name, line, samples) in SAMPLES.iter().chain(RUNTIMES) {
        let tool = TOOLS.iter().find(|tool| tool.name == *name).unwrap();
        let (plain, without) = compiled(line, 4);
        for flag in tool.flags {
            let sample = samples.iter().find(|(key, _)| *key == flag.key());
            let typed = match flag.long {
                Some(long) => format!("--{long}"),
                None => format!("-{}", flag.short.unwrap()),
            };
            let line = match sample {
                Some((_, value)) => format!("{line} {typed} {value}"),
                None => format!("{line} {typed}"),
            };
            if let command::Effect::Refused(why) = flag.effect {
                let message = refuse(&format!("{line} 1"));
                assert!(message.contains(why), "{line}: {message}");
                continue;
            }
            let key = flag.key();
            if [key.clone(), format!("{name} {key}")]
                .iter()
                .any(|key| NOT_ALONE.contains(&key.as_str()))
            {
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
    let cases = cases! {
        "hackbnech -g 1"
            => "command, word 1: unknown program `hackbnech`; nearest valid name: `hackbench`";
        "perf bench sched pip"
            => "command, word 1: unknown program `perf bench sched pip`; nearest valid name: `perf bench sched pipe`";
        "schbench-classic -m 1 -t"
            => "schbench-classic, word 4: flag `-t` needs a value N: workers of each message thread";
        "stress-ng --cpu 2 --cpu-method matriprod"
            => "stress-ng, word 4: unknown method `matriprod`; nearest valid name: `matrixprod`";
        "stress-ng --cpu two"
            => "stress-ng, word 2: flag `--cpu` needs a whole number from 0 to 4096, found `two`";
        "stress-ng --io 2" => "stress-ng, word 2: unknown flag `--io`; valid names: `--cpu`, `-c`, `--cpu-load`, `-l`, \
             `--cpu-load-slice`, `--cpu-method`, `--cpu-ops`, `--timeout`, `-t`, `--taskset`, `--sched`, \
             `--sched-prio`, `--metrics`, `-M`, `--metrics-brief`, `--quiet`, `-q`, `--log-brief`";
        "cyclictest --policy ff"
            => "cyclictest, word 2: unknown policy `ff`; valid names: `other`, `normal`, `batch`, `idle`, `fifo`, `rr`";
        "cyclictest -a 9"
            => "cyclictest, word 2: flag `-a` needs CPUs of 0 to 3 such as `0-3,8`, found `9`";
        "schbench-classic -R 10 -t 1"
            => "schbench-classic, word 1: `-R` needs `-t 2` or more: two thirds of the workers get a request at a time";
        "rt-app" => "rt-app, word 1: needs a file: `rt-app FILE`";
        "hackbench 2 treads" => "hackbench, word 3: expected `process` or `thread`, found `treads`";
        "hackbench -g 20000"
            => "hackbench, word 1: 800000 tasks; Linux holds 32768 unless told otherwise";
    };
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
fn commands_without_an_end_say_what_would_end_them() {
    for (endless, end) in [
        ("schbench -r 0", "-r 20"),
        ("cyclictest", "-l 1000 or -D 20s"),
        ("cyclictest -l 0 -D 0", "-l 1000 or -D 20s"),
        ("stress-ng --cpu 2", "-t 20s or --cpu-ops 1000"),
    ] {
        assert_eq!(
            compiled(endless, 4).0.endless_without,
            Some(end),
            "{endless}"
        );
    }
    for ending in [
        "schbench -r 5",
        "cyclictest -l 9",
        "cyclictest -D 1s",
        "stress-ng --cpu 2 -t 1s",
        "stress-ng --cpu 2 --cpu-ops 9",
        "netperf",
    ] {
        assert_eq!(compiled(ending, 4).0.endless_without, None, "{ending}");
    }
    assert!(refuse("netperf -l 0").contains("such as `-l 20`"));
    assert!(refuse("wrk -d 0").contains("more than 0"));
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
    let mut world = world(rules(5, 14, 2), workload);
    world.run_until(5 * SECOND).unwrap();
    assert_eq!(world.live_tasks(), 0);
    assert!(metric(&a, &world, "first/wakeup_latency.count") > 0.0);
    assert!(metric(&b, &world, "second/time") > 0.0);
}
