//! The whole loop with a database on the running kernel: record PostgreSQL under a tight quota, ask
//! for advice, apply it, measure, undo. Skips, saying why, where the host cannot do it.
//!
//! The service is that of `recordings/postgres-quota`: pgbench, outside the group, asks 40 times a
//! second for a sum over 60,000 rows, 5 to 10 ms of CPU time, of which the group has 30 ms in
//! every 100.

mod live;

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use live::{files, others_ratio};
use schedcast_advise::gate::{Gate, check};
use schedcast_advise::{Candidate, Demands, advise};
use schedcast_host::apply::{self, Wish};
use schedcast_host::record::{Request, record};
use schedcast_host::server::{Postgres, Server};
use schedcast_host::testing::has_groups;
use schedcast_host::{CpuCgroup, CpuTimes};
use schedcast_lab::question::{Question, Subject};
use schedcast_lab::recording::Recorded;
use schedcast_lab::simulator::Simulator;

const TIGHT: &str = "30000 100000";
const PROMISE: &str = "p95<60ms";
const PROMISE_US: f64 = 60_000.0;
/// Rows of scale 10, and those that a request sums.
const SCALE: &str = "10";
const REQUEST: &str = "\\set a random(1, 940000)\nSELECT sum(abalance) FROM pgbench_accounts \
                       WHERE aid BETWEEN :a AND :a + 60000;\n";
const SECONDS: u64 = 12;
const SEEDS: u32 = 6;
/// More than this of the machine taken by others, and what was measured says nothing about the
/// limit.
const OTHERS_MAX: f64 = 0.1;

/// A server in a group of its own, with its files; all of it goes when the value does, the server
/// first.
struct Service {
    _server: Server,
    files: Postgres,
    group: CpuCgroup,
}

impl Service {
    /// `None`, with the reason on standard error, where the host cannot do it.
    fn start() -> Option<Service> {
        if !has_groups() {
            return None;
        }
        if Postgres::binaries().is_none() {
            eprintln!("skipped: no PostgreSQL server (apt install postgresql)");
            return None;
        }
        let files = Postgres::prepare(&std::env::temp_dir(), &[]).unwrap();
        let group =
            CpuCgroup::create("/", &format!("schedcast-postgres-{}", std::process::id())).unwrap();
        let server = files.start(&group, None).unwrap();
        files.fill(SCALE).unwrap();
        Some(Service {
            _server: server,
            files,
            group,
        })
    }

    /// Records the service under load, and says how much of the machine others took meanwhile.
    fn record(&self, folder: &Path) -> f64 {
        let script = self.files.folder().join("request.sql");
        std::fs::write(&script, REQUEST).unwrap();
        let mut load = self
            .files
            .pgbench()
            .args(["-n", "-c", "8", "-j", "1", "-R", "40"])
            .args(["-T", &(SECONDS + 2).to_string()])
            .arg("-f")
            .arg(&script)
            .arg("postgres")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let request = Request {
            folder: folder.to_owned(),
            cgroup: Some(self.group.path().to_owned()),
            duration: Some(Duration::from_secs(SECONDS)),
            command: Vec::new(),
            ..Request::default()
        };
        let (times, used) = (CpuTimes::read().unwrap(), self.group.stat().unwrap());
        let report = record(&request, &AtomicBool::new(false)).unwrap();
        let own = self.group.stat().unwrap().since(&used);
        let others = others_ratio(&times, own.usage_ns.unwrap_or(0));
        assert!(load.wait().unwrap().success());
        assert_eq!(report.lost.iter().sum::<u64>(), 0);
        others
    }
}

fn question(folder: &Path, group: &CpuCgroup) -> Question {
    Question {
        cgroup: Some(group.path().to_owned()),
        seeds: Some(SEEDS),
        ..Question::of(Subject::Recording(Recorded::open(folder).unwrap()))
    }
}

/// Recorded value of the promised figure, us.
fn seen_us(gate: &Gate) -> f64 {
    let metric = "postgres/activation_latency.p95";
    let found = gate.context.fit.iter().find(|fit| fit.metric == metric);
    found.expect("the recording shows the figure").seen
}

fn wish(option: &Candidate) -> Wish {
    Wish {
        quota: Some(option.limit.quota_us.into()),
        period_us: Some(option.limit.period_us),
        burst_us: Some(option.limit.burst_us),
        ..Wish::default()
    }
}

#[test]
fn a_database_gets_what_it_needs() {
    let Some(service) = Service::start() else {
        return;
    };
    let group = &service.group;
    group.apply("cpu.max", TIGHT).unwrap();
    let before = files(group);
    let mut scratch = tempfile::tempdir().unwrap();
    scratch.disable_cleanup(std::env::var("KEEP").is_ok());
    let at = |name: &str| scratch.path().join(name);

    let others = service.record(&at("tight"));
    let demands = Demands {
        slos: vec![PROMISE.to_owned()],
        max_neighbour: None,
        force: false,
    };
    let simulator = Simulator::new();
    let tight = question(&at("tight"), group);
    let advice = match advise(&tight, &demands, &simulator, (&|_| {}, &|| {})) {
        Ok(advice) => advice,
        // Refused as it must be where neighbours were at work that the trace does not show, or took
        // so much that the service filled its limit all the time.
        Err(error)
            if ["misses the recording", "the limit stopped the group"]
                .iter()
                .any(|why| error.to_string().contains(why)) =>
        {
            eprintln!("skipped: this machine is not quiet enough: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let table = schedcast_present::tables::advice::render(&advice);
    if advice.options[0].suits {
        eprintln!("skipped: this machine is fast enough for the tight limit\n{table}");
        return;
    }
    let best = match advice.recommendation() {
        Some(best) => best,
        // Without a limit nothing is left but the machine.
        None if !advice.options.last().is_some_and(|option| option.suits) => {
            eprintln!("skipped: this machine is too slow for the load\n{table}");
            return;
        }
        None if others > OTHERS_MAX => {
            eprintln!("skipped: others took {others:.2} of the machine\n{table}");
            return;
        }
        None => panic!("no limit suits, and no limit at all would:\n{table}"),
    };

    apply::apply(group, &wish(best), &at("undo"), &mut |_| {}).unwrap();
    let others = service.record(&at("applied"));
    apply::undo(group, &at("undo"), false, &mut |_| {}).unwrap();
    assert_eq!(files(group), before, "every byte is back");

    let slos = [PROMISE.to_owned()];
    let gate = check(&question(&at("applied"), group), &slos, &simulator, &|| {}).unwrap();
    let measured_us = seen_us(&gate);
    let [low, high] = best.forecasts[0]
        .interval
        .expect("a recommendation has one");
    let inside = (low..=high).contains(&measured_us);
    eprintln!(
        "{}: {low:.0} to {high:.0} us predicted, {measured_us:.0} us measured, inside: {inside}",
        best.name
    );
    // One in twenty lies outside of a 95 % interval; a promise has to be kept.
    if measured_us < PROMISE_US {
        return;
    }
    match others > OTHERS_MAX {
        true => eprintln!("skipped: others took {others:.2} of the machine"),
        false => panic!(
            "{PROMISE}, {low:.0} to {high:.0} us predicted, {measured_us:.0} us measured\n{table}"
        ),
    }
}
