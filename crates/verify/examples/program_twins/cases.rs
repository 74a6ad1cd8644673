//! Cases of the comparison.

/// Figure that the tool reports of itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    /// Seconds, as the tool prints them behind this word.
    SecondsAfter(&'static str),
    /// Seconds from start to end.
    Wall,
    /// Mean of the microseconds behind `Avg:`.
    Latency,
    /// CPU seconds per second.
    Load,
}

/// A benchmark run both ways.
pub(crate) struct Case {
    pub name: &'static str,
    pub command: &'static str,
    /// CPUs it may use.
    pub cpus: &'static [usize],
    /// `cpu.max` of its group.
    pub limit: Option<&'static str>,
    pub value: Value,
    /// Divisor of the counts: messages, round trips, rounds, seconds.
    pub units: f64,
    pub unit: &'static str,
    /// Thread names of the tool, for the wakeup filter.
    pub threads: &'static str,
}

const BOTH: &[usize] = &[0, 1];
const ONE: &[usize] = &[1];
const QUOTA: Option<&str> = Some("100000 100000");

const fn case(name: &'static str, command: &'static str) -> Case {
    Case {
        name,
        command,
        cpus: BOTH,
        limit: None,
        value: Value::SecondsAfter("Time:"),
        units: 400_000.0,
        unit: "message",
        threads: "hackbench*",
    }
}

const fn pipe(name: &'static str, command: &'static str, units: f64) -> Case {
    Case {
        value: Value::SecondsAfter("Total time:"),
        units,
        unit: "round trip",
        threads: "sched-pipe*",
        ..case(name, command)
    }
}

const fn stress(name: &'static str, command: &'static str) -> Case {
    Case {
        value: Value::Wall,
        units: 1.0,
        unit: "run",
        threads: "stress-ng*",
        ..case(name, command)
    }
}

const fn cyclic(name: &'static str, command: &'static str, rounds: f64) -> Case {
    Case {
        value: Value::Latency,
        units: rounds,
        unit: "round",
        threads: "cyclictest*",
        ..case(name, command)
    }
}

/// All cases.
pub(crate) static CASES: [Case; 16] = [
    case("hackbench-socket", "hackbench -g 1 -l 1000"),
    case("hackbench-pipe", "hackbench -p -g 1 -l 1000"),
    case("hackbench-threads", "hackbench -p -T -g 2 -l 500"),
    case("hackbench-groups", "hackbench -p -g 4 -l 250"),
    Case {
        limit: QUOTA,
        ..case("hackbench-quota", "hackbench -p -g 1 -l 1000")
    },
    Case {
        value: Value::SecondsAfter("Total time:"),
        threads: "sched-messaging*",
        ..case("perf-messaging", "perf bench sched messaging -g 2 -l 500")
    },
    Case {
        cpus: ONE,
        ..pipe("pipe-one-cpu", "perf bench sched pipe -l 100000", 100_000.0)
    },
    Case {
        cpus: ONE,
        ..pipe(
            "pipe-threads-one-cpu",
            "perf bench sched pipe -T -l 100000",
            100_000.0,
        )
    },
    pipe("pipe-two-cpus", "perf bench sched pipe -l 20000", 20_000.0),
    stress("stress-all", "stress-ng --cpu 2 --cpu-ops 3000"),
    stress(
        "stress-crowd",
        "stress-ng --cpu 6 --cpu-method matrixprod --cpu-ops 2000",
    ),
    Case {
        limit: QUOTA,
        ..stress("stress-quota", "stress-ng --cpu 2 --cpu-ops 2000")
    },
    Case {
        value: Value::Load,
        units: 2.0,
        unit: "second",
        ..stress("stress-load", "stress-ng --cpu 2 --cpu-load 40 -t 2")
    },
    cyclic(
        "cyclictest-fifo",
        "cyclictest -p 80 -i 1000 -l 1500 -q",
        1500.0,
    ),
    cyclic("cyclictest-other", "cyclictest -i 1000 -l 1500 -q", 1500.0),
    cyclic(
        "cyclictest-two",
        "cyclictest -t 2 -d 0 -p 80 -i 2000 -l 750 -q",
        1500.0,
    ),
];
