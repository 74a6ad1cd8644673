//! Every program that can be typed gives a table: what it reports has a unit and a direction, and
//! whom it tells of is known before it runs.

use schedcast_lab::comparison::Comparison;
use schedcast_lab::experiment::{self, Surroundings};
use schedcast_lab::metrics::refuse_unknown_subject;
use schedcast_lab::simulate::Simulate;
use schedcast_lab::simulator::Simulator;
use schedcast_workload::programs::TOOLS;

/// A short run of each tool.
const COMMANDS: [&str; 17] = [
    "schbench -m 1 -t 1 -r 1",
    "schbench-classic -m 1 -t 1 -r 1",
    "hackbench -g 1 -l 1",
    "perf bench sched messaging -g 1 -l 1",
    "perf bench sched pipe -l 10",
    "stress-ng --cpu 1 -t 1",
    "cyclictest -D 1",
    "dbench -t 1 2",
    "iozone -e -s 64k -r 4k",
    "netperf -t UDP_RR -l 1",
    "pgbench -c 1 -T 1",
    "sysbench oltp_insert --threads=1 --time=1 run",
    "wrk -t 1 -c 1 -d 1s http://localhost/",
    "http-service --rate 100 --duration 1s",
    "go-server --alloc 500 --mark 1000 --duration 1s",
    "java-server --alloc 500 --collect 1000 --duration 1s",
    "rt-app ../../examples/myths/job.json",
];

#[test]
fn every_program_gives_a_table() {
    let simulator = Simulator::new();
    for (command, tool) in COMMANDS.iter().zip(TOOLS) {
        let words: Vec<String> = command.split(' ').map(str::to_string).collect();
        let document = experiment::command_document(&words, None);
        let experiment = experiment::read(&document, &Surroundings::default());
        let mut scenarios = experiment
            .unwrap_or_else(|e| panic!("{command}: {e}"))
            .scenarios;
        scenarios[0].duration_ns = Some(1_500_000_000);
        assert_eq!(scenarios[0].programs[0].name, tool.name, "{command}");
        let outcome = simulator.run(&scenarios[0], 0);
        let outcome = outcome.unwrap_or_else(|e| panic!("{command}: {e}"));
        for metric in outcome.metrics.keys() {
            let known = refuse_unknown_subject(metric, &scenarios, &simulator);
            known.unwrap_or_else(|e| panic!("{command}: {e}"));
        }
        let comparison = Comparison::new("", &scenarios, &[vec![outcome]]);
        comparison.unwrap_or_else(|e| panic!("{command}: {e}"));
    }
}
