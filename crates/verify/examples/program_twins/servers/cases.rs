//! Cases of the comparison.

use schedcast_host::server;
use schedcast_kernel::Cpu;
use schedcast_kernel::cpuset::CpuSet;

/// A command run both ways.
pub(super) struct Case {
    pub name: &'static str,
    /// Without what says where the server is.
    pub command: &'static str,
    /// CPUs of client and server.
    pub cpus: &'static [usize],
    /// `cpu.max` of the server's group.
    pub limit: Option<&'static str>,
    /// The model's metric of the rate.
    pub rate: &'static str,
    /// Word before the rate in the tool's output, and before the number of transactions (`<`:
    /// behind it).
    pub words: [&'static str; 2],
    /// Word before the mean latency, in milliseconds unless it has a unit.
    pub latency: &'static str,
}

impl Case {
    /// Whether it needs a server.
    pub(super) fn is_served(&self) -> bool {
        let words: Vec<String> = self.command.split(' ').map(str::to_owned).collect();
        server::is_client(&words)
    }

    pub(super) fn cpu_set(&self) -> CpuSet {
        self.cpus.iter().map(|cpu| Cpu(*cpu as u32)).collect()
    }
}

const BOTH: &[usize] = &[0, 1];
const ONE: &[usize] = &[1];

const fn pgbench(name: &'static str, command: &'static str) -> Case {
    Case {
        name,
        command,
        cpus: BOTH,
        limit: None,
        rate: "tps",
        words: ["tps =", "actually processed:"],
        latency: "latency average =",
    }
}

const fn sysbench(name: &'static str, command: &'static str) -> Case {
    Case {
        rate: "events_per_s",
        words: ["(", "total number of events:"],
        latency: "avg:",
        ..pgbench(name, command)
    }
}

const fn wrk(name: &'static str, command: &'static str) -> Case {
    Case {
        rate: "requests_per_s",
        words: ["Requests/sec:", "<requests in"],
        latency: "Latency",
        ..pgbench(name, command)
    }
}

const fn on_one(mut case: Case) -> Case {
    case.cpus = ONE;
    case
}

const fn limited(mut case: Case, limit: &'static str) -> Case {
    case.limit = Some(limit);
    case
}

const fn cpu(name: &'static str, command: &'static str) -> Case {
    Case {
        words: ["events per second:", "total number of events:"],
        ..sysbench(name, command)
    }
}

/// All cases.
pub(super) static CASES: [Case; 20] = [
    cpu("cpu", "sysbench cpu --time=1 run"),
    cpu("cpu-crowd", "sysbench cpu --threads=6 --time=1 run"),
    limited(
        cpu("cpu-quota", "sysbench cpu --threads=2 --time=1 run"),
        "100000 100000",
    ),
    on_one(pgbench("select-one-cpu", "pgbench -S -T 1")),
    pgbench("select", "pgbench -S -T 1"),
    pgbench("select-4", "pgbench -S -c 4 -T 1"),
    pgbench("select-8-threads", "pgbench -S -c 8 -j 4 -T 1"),
    limited(
        pgbench("select-quota", "pgbench -S -c 4 -j 2 -T 1"),
        "50000 100000",
    ),
    limited(
        pgbench("select-rate-quota", "pgbench -S -c 4 -R 5000 -T 1"),
        "20000 100000",
    ),
    on_one(pgbench("tpcb-one-cpu", "pgbench -T 1")),
    pgbench("tpcb-4", "pgbench -c 4 -j 2 -T 1"),
    pgbench("simple-update-4", "pgbench -N -c 4 -j 2 -T 1"),
    limited(
        pgbench("tpcb-quota", "pgbench -c 4 -j 2 -T 1"),
        "40000 100000",
    ),
    on_one(sysbench(
        "oltp-read-one-cpu",
        "sysbench oltp_read_only --time=1 run",
    )),
    sysbench(
        "oltp-read-write-4",
        "sysbench oltp_read_write --threads=4 --time=1 run",
    ),
    limited(
        sysbench(
            "oltp-read-quota",
            "sysbench oltp_read_only --threads=4 --time=1 run",
        ),
        "50000 100000",
    ),
    on_one(wrk("wrk-one-cpu", "wrk -t1 -c1 -d1")),
    wrk("wrk", "wrk -t1 -c1 -d1"),
    wrk("wrk-16", "wrk -t2 -c16 -d1"),
    limited(wrk("wrk-quota", "wrk -t2 -c16 -d1"), "30000 100000"),
];
