//! Parser of text that a real tool printed, into metrics: the other direction of
//! [`super::Running::report`].
//!
//! Worked example: the line `T: 0 ( 2417) P:80 I:1000 C: 1500 Min: 14 Act: 16 Avg: 16 Max:
//! 97` of cyclictest is `cyclictest/latency.min` 14, `.avg` 16, `.max` 97 and `.count` 1500. Names
//! and units are those of the simulation, so both can stand in one table.

use super::MetricMap;
use super::start::metric_name;

/// Metrics in what a tool printed, under the program's name. `tool` is [`super::Tool::name`]; of a
/// tool that prints nothing to be compared the map is empty.
pub fn metrics(tool: &str, words: &[String], name: &str, text: &str) -> MetricMap {
    let mut map = MetricMap::new();
    let mut put = |metric: &str, value: Option<f64>| {
        map.extend(value.map(|value| (metric_name(name, metric), value)));
    };
    match tool {
        "hackbench" => put("time", last_after(text, "Time:")),
        "perf-bench-messaging" | "perf-bench-pipe" => put("time", last_after(text, "Total time:")),
        "dbench" => put("throughput", last_after(text, "Throughput")),
        "pgbench" => {
            put("tps", last_after(text, "tps ="));
            let ms = last_after(text, "latency average =");
            put("latency.avg", ms.map(|ms| ms * 1000.0));
            put("latency.count", last_after(text, "actually processed:"));
        }
        "sysbench" => {
            put("events_per_s", last_after(text, "events per second:"));
            let ms = last_after(text, "avg:");
            put("latency.avg", ms.map(|ms| ms * 1000.0));
            put("latency.count", last_after(text, "number of events:"));
        }
        "wrk" => wrk(text, &mut put),
        "cyclictest" => {
            let nanoseconds = words.iter().any(|word| word == "-N" || word == "--nsecs");
            cyclictest(text, if nanoseconds { 1000.0 } else { 1.0 }, &mut put);
        }
        "schbench" | "schbench-classic" => {
            // The old tool has one kind: of requests when it was told how many, of wakeups
            // otherwise.
            let asked = |word: &String| word.starts_with("-R") || word.starts_with("--rps");
            let only = match words.iter().any(asked) {
                true => "request_latency",
                false => "wakeup_latency",
            };
            schbench(text, only, &mut put);
        }
        _ => {}
    }
    map
}

/// The numbers behind each `word`.
fn all_after<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = f64> + 'a {
    text.match_indices(word)
        .filter_map(move |(at, _)| text[at + word.len()..].split_whitespace().next())
        .filter_map(|number| number.parse().ok())
}

fn last_after(text: &str, word: &str) -> Option<f64> {
    all_after(text, word).last()
}

/// The first row of its table is the latency; `--latency` adds quantiles.
fn wrk(text: &str, put: &mut impl FnMut(&str, Option<f64>)) {
    put("requests_per_s", last_after(text, "Requests/sec:"));
    let before = text
        .split_once(" requests in ")
        .map_or("", |(before, _)| before);
    let requests = before.rsplit(char::is_whitespace).next();
    put("requests", requests.and_then(|count| count.parse().ok()));
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(first), Some(value)) = (words.next(), words.next()) else {
            continue;
        };
        let metric = match first {
            "Latency" => "latency.avg",
            "50%" => "latency.p50",
            "75%" => "latency.p75",
            "90%" => "latency.p90",
            "99%" => "latency.p99",
            _ => continue,
        };
        // `Latency Distribution` is a title.
        if let Some(us) = microseconds(value) {
            put(metric, Some(us));
        }
    }
}

/// A time with its unit right behind it: `445.00us`, `14.40ms`, `1.20s`.
fn microseconds(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    let of = |(unit, us): &(&str, f64)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * us);
    units.iter().find_map(of)
}

/// One line a thread; the mean over all rounds of all threads.
fn cyclictest(text: &str, per_us: f64, put: &mut impl FnMut(&str, Option<f64>)) {
    let threads: Vec<[f64; 4]> = text
        .lines()
        .filter(|line| line.trim_start().starts_with("T:"))
        .filter_map(|line| {
            let of = |word: &str| last_after(line, word);
            Some([of("C:")?, of("Min:")?, of("Avg:")?, of("Max:")?])
        })
        .collect();
    let rounds: f64 = threads.iter().map(|thread| thread[0]).sum();
    if rounds <= 0.0 {
        return;
    }
    let sum: f64 = threads.iter().map(|thread| thread[0] * thread[2]).sum();
    let min = threads.iter().map(|thread| thread[1]).reduce(f64::min);
    let max = threads.iter().map(|thread| thread[3]).reduce(f64::max);
    put("latency.min", min.map(|min| min / per_us));
    put("latency.avg", Some(sum / rounds / per_us));
    put("latency.max", max.map(|max| max / per_us));
    put("latency.count", Some(rounds));
}

/// Blocks of percentiles, printed again and again; the last of each kind counts.
fn schbench(text: &str, only: &'static str, put: &mut impl FnMut(&str, Option<f64>)) {
    let mut metric = None;
    for line in text.lines() {
        if line.starts_with("Latency percentiles (") {
            metric = Some(only);
            continue;
        }
        if line.contains("percentiles (") {
            metric = match line {
                _ if line.starts_with("Wakeup") => Some("wakeup_latency"),
                _ if line.starts_with("Request") => Some("request_latency"),
                _ => None,
            };
            continue;
        }
        let row = line.trim_start_matches(['*', ' ', '\t']);
        if let (Some(metric), Some((percent, rest))) = (metric, row.split_once("th: ")) {
            let value = rest.split_whitespace().next();
            let Ok(percent) = percent.parse::<f64>() else {
                continue;
            };
            let value = value.and_then(|value| value.parse().ok());
            put(&format!("{metric}.p{percent}"), value);
        }
    }
    put("rps", last_after(text, "average rps:"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tool: &str, command: &str, text: &str) -> Vec<(String, f64)> {
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        metrics(tool, &words, "x", text).into_iter().collect()
    }

    #[test]
    fn times_and_rates() {
        let text = "Running in process mode …\nTime: 0.465\n";
        let time = vec![("x/time".to_owned(), 0.465)];
        assert_eq!(read("hackbench", "hackbench", text), time);
        let text = "     Total time: 0.465 [sec]\n\n  4.65 usecs/op\n";
        assert_eq!(read("perf-bench-pipe", "perf bench sched pipe", text), time);
        let text = "Throughput 993.2 MB/sec  4 clients  4 procs\n";
        let rate = vec![("x/throughput".to_owned(), 993.2)];
        assert_eq!(read("dbench", "dbench 4", text), rate);
        for (tool, text, metric) in [
            (
                "pgbench",
                "tps = 12.5 (without initial connection time)\n",
                "x/tps",
            ),
            (
                "sysbench",
                "    events per second:    12.5\n",
                "x/events_per_s",
            ),
            ("wrk", "Requests/sec:     12.5\n", "x/requests_per_s"),
        ] {
            assert_eq!(read(tool, tool, text), vec![(metric.to_owned(), 12.5)]);
        }
        assert_eq!(read("hackbench", "hackbench", "nothing of it"), []);
        assert_eq!(read("stress-ng", "stress-ng", "Time: 3"), []);
    }

    #[test]
    fn latencies_are_in_microseconds() {
        let text = "latency average = 1.250 ms\ntps = 800.0 (without initial connection time)\n";
        let expected = [("x/latency.avg", 1250.0), ("x/tps", 800.0)];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(read("pgbench", "pgbench", text), expected);
        let text = "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n\
                    \x20   Latency    14.40ms   31.1ms 120.00ms   90.0%\n\
                    \x20   Req/Sec     1.20k    301.00     2.00k    70.0%\n\
                    \x20 Latency Distribution\n     50%  445.00us\n     75%  500.00us\n\
                    \x20    90%   70.00ms\n     99%    1.20s \nRequests/sec:  22412.0\n";
        let expected = [
            ("x/latency.avg", 14_400.0),
            ("x/latency.p50", 445.0),
            ("x/latency.p75", 500.0),
            ("x/latency.p90", 70_000.0),
            ("x/latency.p99", 1_200_000.0),
            ("x/requests_per_s", 22_412.0),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(read("wrk", "wrk --latency", text), expected);
    }

    #[test]
    fn transactions_events_and_requests_are_counted() {
        for (tool, text, expected) in [
            (
                "pgbench",
                "number of transactions actually processed: 20\n",
                ("x/latency.count", 20.0),
            ),
            (
                "sysbench",
                "    total number of events:              20\n",
                ("x/latency.count", 20.0),
            ),
            (
                "sysbench",
                "Latency (ms):\n         avg:                    0.25\n",
                ("x/latency.avg", 250.0),
            ),
            (
                "wrk",
                "  20 requests in 1.10s, 3.70MB read\n",
                ("x/requests", 20.0),
            ),
        ] {
            let (metric, value) = expected;
            assert_eq!(read(tool, tool, text), [(metric.to_owned(), value)]);
        }
    }

    #[test]
    fn cyclictest_adds_its_threads_up() {
        let text = "# /dev/cpu_dma_latency set to 0us\n\
                    T: 0 ( 2417) P:80 I:1000 C:   300 Min:     14 Act:   16 Avg:   16 Max:      97\n\
                    T: 1 ( 2418) P:80 I:1500 C:   100 Min:     12 Act:   16 Avg:   20 Max:      40\n";
        let of = |names: [f64; 4]| {
            let metrics = ["avg", "count", "max", "min"].map(|name| format!("x/latency.{name}"));
            metrics.into_iter().zip(names).collect::<Vec<_>>()
        };
        let us = read("cyclictest", "cyclictest -t 2", text);
        assert_eq!(us, of([17.0, 400.0, 97.0, 12.0]));
        let ns = read("cyclictest", "cyclictest -N", text);
        assert_eq!(ns, of([0.017, 400.0, 0.097, 0.012]));
    }

    #[test]
    fn schbench_prints_its_last_percentiles_last() {
        let text = "Wakeup Latencies percentiles (usec) runtime 10 (s) (10 total samples)\n\
                    \t  50.0th: 9          (5 samples)\n\
                    Wakeup Latencies percentiles (usec) runtime 20 (s) (20 total samples)\n\
                    \t  50.0th: 7          (5 samples)\n\t* 99.0th: 31         (5 samples)\n\
                    \t  99.9th: 40         (5 samples)\n\
                    Request Latencies percentiles (usec) runtime 20 (s) (20 total samples)\n\
                    \t  50.0th: 5112       (5 samples)\n\
                    RPS percentiles (requests) runtime 20 (s) (2 total samples)\n\
                    \t  50.0th: 370        (1 samples)\naverage rps: 367.90\n";
        let read = read("schbench", "schbench", text);
        let value = |name: &str| {
            read.iter()
                .find(|(metric, _)| metric == name)
                .map(|row| row.1)
        };
        assert_eq!(value("x/wakeup_latency.p50"), Some(7.0));
        assert_eq!(value("x/wakeup_latency.p99"), Some(31.0));
        assert_eq!(value("x/wakeup_latency.p99.9"), Some(40.0));
        assert_eq!(value("x/request_latency.p50"), Some(5112.0));
        assert_eq!(value("x/rps"), Some(367.9));
        assert_eq!(read.len(), 5);
        let text = "Latency percentiles (usec)\n\t50.0000th: 80\n\t99.9000th: 95\n";
        let read = super::metrics("schbench-classic", &[], "x", text);
        assert_eq!(read.get("x/wakeup_latency.p50"), Some(&80.0));
        assert_eq!(read.get("x/wakeup_latency.p99.9"), Some(&95.0));
        let paced = ["schbench-classic", "-R", "10"].map(str::to_owned);
        let read = super::metrics("schbench-classic", &paced, "x", text);
        assert_eq!(read.get("x/request_latency.p50"), Some(&80.0));
    }
}
