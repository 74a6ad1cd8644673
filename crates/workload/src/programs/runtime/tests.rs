use super::super::tests::{Ran, close, compiled, ended, refuse, rules, run, started, with_group};
use super::super::{Start, compile, split};
use schedcast_base::{assert_in, assert_starts};
use schedcast_sim::Workload;

const SECOND: u64 = 1_000_000_000;

/// Runs a command in a group with `permille` thousandths of a CPU, on two CPUs.
fn limited(line: &str, permille: u64, variables: &[(&str, &str)]) -> Ran {
    let (workload, group) = with_group("/server", Some(permille * 100_000));
    let mut start = Start::new("server", 2);
    start.group = group;
    let variable = |&(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    start.environment = variables.iter().map(variable).collect();
    started(line, &start, workload, rules(6, 18, 2)).until(30)
}

/// A client's log of requests that are due at these times in µs.
fn schedule(name: &str, times_us: impl Iterator<Item = u64>) -> std::path::PathBuf {
    let file = std::env::temp_dir().join(format!("runtime-{name}-{}.csv", std::process::id()));
    let rows: String = times_us
        .map(|time| format!("0,{time},{time},{time}\n"))
        .collect();
    std::fs::write(
        &file,
        format!("client,scheduled_us,sent_us,replied_us\n{rows}"),
    )
    .unwrap();
    file
}

#[test]
fn servers_that_keep_up_answer_what_arrives() {
    for name in ["go-server", "java-server"] {
        let line =
            format!("{name} --rate 200 --work 500 --duration 5 --demand fixed --arrivals even");
        let ran = ended(&line, 4, 6);
        let rate = ran.metric(&format!("{name}/requests_per_s"));
        assert!(close(rate, 200.0, 0.01), "{name} {rate}");
        let latency = ran.metric(&format!("{name}/latency.p50"));
        assert!((500.0..560.0).contains(&latency), "{name} {latency}");
    }
}

#[test]
fn a_collection_comes_whenever_the_heap_has_grown_enough() {
    // 0.95 of 10 MB are 9728 KB: with 100 KB each 98 requests of 1000 in 5 s, whatever their size.
    let line = "go-server --rate 200 --work 500 --duration 5 --demand fixed --arrivals even \
                --alloc 100 --live 10 --mark 5000";
    let ran = run(line, 4, 6);
    let collections = ran.metric("go-server/collections");
    assert!((9.0..=10.0).contains(&collections), "{collections}");
    // Marking is 5 ms of CPU time each.
    let with = ran.metric("go-server/cpu_time");
    let ran = run(&format!("{line} --gogc off"), 4, 6);
    assert_eq!(ran.metric("go-server/collections"), 0.0);
    let marking = with - ran.metric("go-server/cpu_time");
    assert!(close(marking, collections * 0.005, 0.1), "{marking}");
    // Eden of the serial collector: 8/10 of 10 MB, 8192 KB.
    let line = "java-server --rate 200 --work 500 --duration 5 --demand fixed --arrivals even \
                --alloc 100 --young 10 --collect 5000 --processors 1";
    let ran = run(line, 4, 6);
    assert_in!(ran.metric("java-server/collections"), 12.0..=13.0);
    let pause = ran.metric("java-server/pause.p50");
    assert!(close(pause, 5000.0, 0.05), "{pause}");
    // Four GC workers on four CPUs share it.
    let ran = run(&line.replace("--processors 1", "--processors 4"), 4, 6);
    assert_in!(ran.metric("java-server/pause.p50"), 1250.0..2000.0);
}

#[test]
fn servers_end_in_the_middle_of_a_collection() {
    // More than two CPUs can do, and collections most of the time.
    for rate in 340..380 {
        for name in [
            "go-server --mark 20000",
            "java-server --collect 20000 --processors 4",
        ] {
            let line = format!("{name} --rate {rate} --work 5000 --alloc 3000 --duration 1");
            ended(&line, 2, 9);
        }
    }
}

#[test]
fn workers_are_a_quarter_of_the_ps() {
    // Dedicated workers, and the share of each P for fractional ones in thousandths: `startCycle`.
    let cases = [
        (1, 0, 250),
        (2, 0, 250),
        (3, 0, 250),
        (4, 1, 0),
        (5, 1, 0),
        (6, 1, 83),
        (8, 2, 0),
    ];
    for (procs, dedicated, fractional) in cases {
        let found = super::go::workers(procs);
        assert_eq!(found, (dedicated, fractional), "{procs}");
    }
}

#[test]
fn more_processors_than_the_limit_are_throttled_more_often() {
    // Ten requests of 6 ms at a time, every 430 ms. On one CPU they take 60 ms, and the quota of
    // 50 ms is used up in one period if that begins before its middle or in its last tenth; on two
    // they take 30 ms, and the first 75 ms of a period are too early.
    let bursts = (0..600).map(|row| 7_000 + row / 10 * 430_000);
    let file = schedule("bursts", bursts);
    for (name, flag) in [
        ("go-server", "--gomaxprocs"),
        ("java-server", "--processors"),
    ] {
        let of = |processors: u64| {
            let line = format!(
                "{name} --schedule {} --work 6000 --demand fixed {flag} {processors}",
                file.display()
            );
            let ran = limited(&line, 500, &[]);
            ran.kernel().groups[1].bandwidth.stat.nr_throttled
        };
        let (one, eight) = (of(1), of(8));
        assert!(eight > one, "{name}: {eight} with 8 and {one} with 1");
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn runtimes_count_processors_by_the_limit() {
    let of = |line: &str, permille: u64, variables: &[(&str, &str)]| {
        let report = limited(&format!("{line} --duration 1"), permille, variables).report();
        let at = report.find(" processors").unwrap();
        report[..at].rsplit(' ').next().unwrap().to_string()
    };
    // Go never takes less than 2, and up to 1.24 all CPUs.
    assert_eq!(of("go-server", 500, &[]), "2");
    assert_eq!(of("go-server --go 1.24", 500, &[]), "2");
    assert_eq!(super::go::default_gomaxprocs(8, Some(2500), true), 3);
    assert_eq!(super::go::default_gomaxprocs(8, Some(500), true), 2);
    assert_eq!(super::go::default_gomaxprocs(8, Some(500), false), 8);
    assert_eq!(super::go::default_gomaxprocs(8, None, true), 8);
    assert_eq!(of("go-server", 500, &[("GOMAXPROCS", "5")]), "5");
    assert_eq!(of("java-server", 500, &[]), "1");
    assert_eq!(of("java-server", 1500, &[]), "2");
    let options = (
        "JAVA_TOOL_OPTIONS",
        "-XX:ActiveProcessorCount=4 -XX:+UseParallelGC",
    );
    assert_eq!(of("java-server", 500, &[options]), "4");
}

#[test]
fn a_schedule_is_a_log_of_requests_and_is_answered_to_its_end() {
    let file = schedule("even", (0..50).map(|row| 7_000 + row * 10_000));
    for name in ["go-server", "java-server"] {
        // 50 requests of 40 ms that come within half a second, for two processors.
        let line = format!(
            "{name} --schedule {} --work 40000 --demand fixed",
            file.display()
        );
        let ran = ended(&line, 2, 5);
        assert_eq!(ran.metric(&format!("{name}/latency.count")), 50.0);
        // The last ends after 1 s. Java answers them in their order; Go lets one that has run for
        // 10 ms wait behind the others.
        let longest = ran.metric(&format!("{name}/latency.max"));
        let expected = match name {
            "java-server" => 500_000.0..560_000.0,
            _ => 500_000.0..1_020_000.0,
        };
        assert!(expected.contains(&longest), "{name} {longest}");
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn what_is_wrong_is_named() {
    let missing = refuse("go-server --schedule no-such-file.csv");
    assert_starts(&missing, "go-server, word 2: ./no-such-file.csv");
    let refuse = |line: &str, name: &str, value: &str| {
        let mut start = Start::new("x", 4);
        start.environment = [(name.to_string(), value.to_string())].into();
        let error = compile(&split(line), &start, &mut Workload::default());
        error.expect_err(line).to_string()
    };
    let cases = "
GOGC | 50 | hackbench | word 1: no environment variable changes it, and `GOGC` is set
GOMAXPROC | 2 | go-server | word 1: unknown environment variable `GOMAXPROC`; nearest valid name: `GOMAXPROCS`
GOMAXPROCS | 3 | go-server --gomaxprocs 2 | word 2: `GOMAXPROCS` of the environment says another number
GOMAXPROCS | 0 | go-server | word 1: `GOMAXPROCS` needs a whole number from 1 to 1024, found `0`
";
    for case in schedcast_base::rows::lines(cases) {
        let [name, value, line, expected] = schedcast_base::rows::cells(case);
        let tool = line.split(' ').next().unwrap();
        assert_eq!(refuse(line, name, value), format!("{tool}, {expected}"));
    }
    let (running, _) = compiled("java-server --duration 1m", 2);
    assert_eq!(running.end_ns, Some(60 * SECOND));
}
