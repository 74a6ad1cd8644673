use super::super::tests::{ended, run};
use schedcast_base::{assert_in, assert_starts};

#[test]
fn cyclictest_wakes_on_its_grid_and_ends_with_the_first() {
    let ran = ended("cyclictest -t 2 -p 80 -l 200 -q", 2, 5);
    let report = ran.report();
    let lines: Vec<&str> = report.lines().collect();
    assert_eq!(lines[0], "# /dev/cpu_dma_latency set to 0us");
    assert_starts(lines[1], "T: 0 (    2) P:80 I:1000 C:    200 Min:      ");
    // Main sees the end within 10 ms and the other's next wakeup is its last: 200 to 210 ms.
    let cycles: u64 = lines[2][24..34]
        .trim_start_matches(" C:")
        .trim()
        .parse()
        .unwrap();
    assert!((133..=142).contains(&cycles), "{report}");
    assert_eq!(ran.running.idle_latency_limit_us, Some(0));
    // Interrupt, wakeup and switch on an idle CPU of generic-8: some 5 µs.
    let average = ran.metric("cyclictest/latency.avg");
    assert!((2.0..10.0).contains(&average), "{average}");
    // Relative sleeps begin where the clock was looked at: what a round takes (300 ns) makes no
    // thread late.
    let relative = run("cyclictest -t 2 -p 80 -l 200 -q -r", 2, 5);
    assert_in!(
        relative.metric("cyclictest/latency.avg") - average,
        -0.25..0.25
    );
    let normal = run("cyclictest -l 200 -q", 2, 5);
    assert_in!(normal.metric("cyclictest/latency.avg"), 50.0..60.0);
}

#[test]
fn cyclictest_prints_a_histogram() {
    let report = ended("cyclictest -p 80 -D 1 -q -h 20", 1, 5).report();
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
    for name in "Min Latencies|Avg Latencies|Max Latencies|Histogram Overflows".split('|') {
        assert!(report.contains(&format!("# {name}: 0")), "{report}");
    }
}

#[test]
fn with_a_histogram_all_threads_have_one_interval() {
    let cycles = |more: &str| {
        let line = format!("cyclictest -t 3 -p 80 -i 1000 -d 500 -D 1 -q{more}");
        let ran = run(&line, 3, 5);
        ran.metric("cyclictest/latency.count")
    };
    let about = |found: f64, expected: f64| {
        assert!((found - expected).abs() <= 6.0, "{found}");
    };
    about(cycles(""), 1000.0 + 667.0 + 500.0);
    about(cycles(" -h 20"), 3000.0);
    about(cycles(" -H 20"), 3000.0);
}
