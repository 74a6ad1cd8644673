use super::super::tests::{Ran, compiled};
use super::division_steps;
use schedcast_base::{assert_contains, assert_in};

const SECOND: u64 = 1_000_000_000;

fn run(line: &str, cpus: usize) -> Ran {
    super::super::tests::run(line, cpus, 12)
}

#[test]
fn divisions_are_those_of_the_loop() {
    // 3: none below its root. 4: by 2. 5, 7: by 2. 6, 8, 10: by 2. 9: by 2 and 3.
    assert_eq!(division_steps(3), 0);
    assert_eq!(division_steps(4), 1);
    assert_eq!(division_steps(10), 8);
    // Written out another way: every number by every candidate.
    let mut slow = 0;
    for number in 3u64..=1000 {
        for divisor in 2..number {
            if divisor * divisor > number {
                break;
            }
            slow += 1;
            if number % divisor == 0 {
                break;
            }
        }
    }
    assert_eq!(division_steps(1000), slow);
}

#[test]
fn threads_share_the_cpus_and_the_events() {
    let ran = run("sysbench cpu --threads=2 --time=1 run", 2);
    let rate = ran.metric("sysbench/events_per_s");
    let event_s = ran.metric("sysbench/latency.min") / 1e6;
    assert_in!(rate * event_s / 2.0, 0.98..1.02);
    let ran = run("sysbench --threads=4 cpu --events=1000 --time=0 run", 2);
    assert_eq!(ran.metric("sysbench/latency.count"), 1000.0);
    assert_eq!(ran.live_tasks(), 0);
    let text = ran.report();
    assert_contains(&text, "    total number of events:              1000\n");
    assert_contains(&text, "    events (avg/stddev):           250.0000/");
}

#[test]
fn a_transaction_has_as_many_round_trips_as_statements() {
    // Statements, messages of their replies, and sleeps for flushes, two each.
    for (test, statements, replies, sleeps) in [
        ("oltp_point_select", 1.0, 1.0, 0.0),
        // Three of the ranges are longer than 8 KB, 62 rows would be shorter.
        ("oltp_read_only", 16.0, 19.0, 0.0),
        ("oltp_read_only --range-size=62", 16.0, 16.0, 0.0),
        ("oltp_read_only --skip_trx=on", 14.0, 17.0, 0.0),
        ("oltp_read_only --range-selects=off", 12.0, 12.0, 0.0),
        ("oltp_read_write", 20.0, 23.0, 2.0),
        ("oltp_write_only", 6.0, 6.0, 2.0),
        // Four statements that commit themselves.
        ("oltp_write_only --skip-trx", 4.0, 4.0, 8.0),
    ] {
        let ran = run(&format!("sysbench {test} --events=200 run"), 2);
        let count = ran.metric("sysbench/latency.count");
        assert_eq!(count, 200.0, "{test}");
        let wakeups = |name: &str| ran.wakeups(name) / count;
        let (client, server) = (wakeups("sysbench"), wakeups("sysbench-server"));
        assert!((client - replies).abs() < 0.1, "{test}: {client}");
        let wanted = statements + sleeps;
        assert!((server - wanted).abs() < 0.15, "{test}: {server} {wanted}");
    }
}

#[test]
fn the_summary_is_that_of_the_tool() {
    let ran = run(
        "sysbench oltp_read_write --events=10 --db-driver=pgsql run",
        2,
    );
    let text = ran.report();
    for line in [
        "        read:                            140",
        "        write:                           40",
        "        other:                           20",
        "        total:                           200",
        "    total number of events:              10",
    ] {
        assert!(text.lines().any(|own| own == line), "{line}\n{text}");
    }
    assert_contains(&text, "    transactions:                        10     (");
}

#[test]
fn the_end_is_known() {
    let (running, _) = compiled("sysbench cpu --time=3 run", 2);
    assert_eq!(running.end_ns, Some(3 * SECOND));
    let (running, _) = compiled("sysbench cpu --time=0 --events=9 run", 2);
    assert_eq!(running.end_ns, None);
}
