//! `--format tool`: existing parsers of a tool's output read a forecast.

mod command;

use command::{schedcast, text};
use schedcast_base::assert_contains;

fn tool(command: &str) -> String {
    let mut words = vec!["run", "--format", "tool", "--machine", "generic-8", "--"];
    words.extend(command.split_whitespace());
    let output = schedcast(&words);
    let complaint = text(&output.stderr);
    assert_eq!((output.status.code(), complaint.as_str()), (Some(0), ""));
    text(&output.stdout)
}

#[test]
fn benchmarks_print_as_they_do() {
    let time = tool("hackbench -g 1 -l 20");
    let last = time.lines().last().unwrap();
    let seconds = last.strip_prefix("Time: ").map(str::parse::<f64>);
    assert!(
        matches!(seconds, Some(Ok(seconds)) if seconds > 0.0),
        "{time}"
    );
    let total = tool("perf bench sched pipe -l 100");
    assert_contains(&total, ["Total time:", "usecs/op"]);
    let percentiles = tool("schbench-classic -m 1 -t 2 -r 1");
    assert!(percentiles.contains("*99.0000th:"), "{percentiles}");
    let cyclic = tool("cyclictest -l 100 -i 1000 -q");
    assert_contains(&cyclic, ["C:    100", "Avg:"]);
}

#[test]
fn rt_app_prints_its_logs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("beat.json");
    let text = r#"{ "tasks": { "beat": { "loop": 3, "run": 1000, "timer": { "ref": "t", "period": 5000 } } },
                    "global": { "duration": 1, "logdir": "." } }"#;
    std::fs::write(&file, text).unwrap();
    let log = tool(&format!("rt-app {}", file.display()));
    assert!(log.starts_with("==> rt-app-beat-0.log <==\n#idx"), "{log}");
    let periods: Vec<u64> = log
        .lines()
        .skip(2)
        .map(|line| line.split_whitespace().nth(3).unwrap().parse().unwrap())
        .collect();
    assert_eq!(periods.len(), 3);
    // The first round waits for the first point; then the timer beats every 5 ms.
    assert!(
        periods
            .iter()
            .all(|period| (4_900..=5_100).contains(period)),
        "{periods:?}"
    );
}
