//! The whole loop on the running kernel: record a service under a tight quota, ask for advice, apply it,
//! measure, undo. Skips, saying why, where the host cannot do it.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use schedcast_host::apply::{self, Wish};
use schedcast_host::record::{Request, record};
use schedcast_host::{
    CgroupVersion, CommandSpec, CpuCgroup, CpuFile, CpuHierarchy, CpuTimes, Output, hog, run_in,
    sys,
};
use schedcast_lab::advise::{Demands, advise};
use schedcast_lab::question::{Columns, Question, Subject};
use schedcast_lab::recording::Recorded;
use schedcast_lab::simulator::Simulator;

/// The service: 30 ms of work every 150 ms, 20 times, as the module `hog` describes it.
const JOB: &str = "job --cpu-ms 30 --every-ms 150 --count 20";
/// What it promises. Under 20 ms in 100 ms a request takes 100 ms or more.
const PROMISE: &str = "p90<70ms";
const PROMISE_MS: f64 = 70.0;

/// Not a test of its own: the service, started in its group.
#[test]
#[ignore = "started by the_loop_is_closed"]
fn service() {
    let words: Vec<String> = JOB.split(' ').map(str::to_owned).collect();
    hog::main(&words).unwrap();
}

fn command() -> Vec<String> {
    let own = std::env::current_exe().unwrap().display().to_string();
    let words = [
        own.as_str(),
        "--exact",
        "--ignored",
        "--nocapture",
        "service",
    ];
    words.map(str::to_owned).to_vec()
}

/// Why what was measured since `before` says nothing about the limit, if so: other programs or the hypervisor
/// had more than a twentieth of the machine.
fn disturbed(before: &CpuTimes, own_cpu_ns: u64) -> Option<String> {
    let now = CpuTimes::read().unwrap();
    let own_ticks = own_cpu_ns / 10_000_000;
    let total = (now.total_ticks - before.total_ticks).max(1);
    let others = (now.busy_ticks - before.busy_ticks).saturating_sub(own_ticks);
    let taken = others + now.steal_ticks - before.steal_ticks;
    (taken * 20 > total).then(|| format!("others took {taken} of {total} ticks"))
}

/// Responses of the service in `group`, ms; or why they mean nothing.
fn measure(group: &CpuCgroup) -> Result<Vec<f64>, String> {
    let before = CpuTimes::read().unwrap();
    let words = command();
    let spec = CommandSpec::new(&words[0])
        .args(&words[1..])
        .output(Output::Capture);
    let report = run_in(group, &[spec], Duration::from_secs(15)).unwrap();
    let text = String::from_utf8_lossy(&report.commands[0].stdout).into_owned();
    // The harness of this test writes its own words in front of the first line.
    let lines = text
        .lines()
        .map(|line| line.trim_start_matches("test service ... "));
    let activations = lines.filter_map(hog::Activation::parse);
    let responses: Vec<f64> = activations
        .map(|one| one.response_ns() as f64 / 1e6)
        .collect();
    match disturbed(&before, report.commands[0].cpu_ns()) {
        None => Ok(responses),
        Some(why) => Err(why),
    }
}

fn files(group: &CpuCgroup) -> BTreeMap<&'static str, String> {
    let files = [
        CpuFile::CfsQuotaUs,
        CpuFile::CfsPeriodUs,
        CpuFile::CfsBurstUs,
        CpuFile::Shares,
    ];
    files
        .iter()
        .map(|file| (file.name(), group.read(*file).unwrap()))
        .collect()
}

#[test]
fn the_loop_is_closed() {
    let v1 = CpuHierarchy::detect().is_ok_and(|tree| tree.version() == CgroupVersion::V1);
    if !sys::is_root() || !v1 {
        eprintln!("skipped: not root, or no cgroup v1 cpu controller");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let name = format!("schedcast-loop-{}", std::process::id());
    let group = CpuCgroup::create("/", &name).unwrap();
    group.apply("cpu.max", "22000 100000").unwrap();
    let before = files(&group);

    let folder = directory.path().join("recording");
    let request = Request {
        folder: folder.clone(),
        cgroup: Some(group.path().to_owned()),
        duration: Some(Duration::from_secs(10)),
        // What the service prints is wanted below, not here.
        command: ["/bin/sh", "-c", "exec \"$0\" \"$@\" > /dev/null"]
            .map(str::to_owned)
            .into_iter()
            .chain(command())
            .collect(),
    };
    let times = CpuTimes::read().unwrap();
    let report = record(&request, &AtomicBool::new(false)).unwrap();
    if let Some(why) = disturbed(&times, 600_000_000) {
        eprintln!("skipped: {why} during the recording");
        return;
    }
    assert_eq!(
        (report.exit_code, report.lost.iter().sum::<u64>()),
        (Some(0), 0)
    );

    let question = Question {
        subject: Subject::Recording(Recorded::open(&folder).unwrap()),
        cgroup: Some(group.path().to_owned()),
        columns: Columns::default(),
        seeds: Some(4),
        duration: None,
        measured: false,
    };
    let demands = Demands {
        slos: vec![PROMISE.to_owned()],
        max_neighbour: None,
    };
    let advice = advise(&question, &demands, &Simulator::new(), &|| {}).unwrap();
    assert!(
        !advice.options[0].suits,
        "the recorded limit breaks the promise: {advice:?}"
    );
    let best = advice.recommendation().expect("some limit suits");

    let wish = Wish {
        quota_us: Some(best.quota_us),
        period_us: Some(best.period_us),
        burst_us: Some(best.burst_us),
        ..Wish::default()
    };
    let journals = directory.path().join("undo");
    apply::apply(&group, &wish, &journals, &mut |_| {}).unwrap();
    let after = measure(&group);
    apply::undo(&group, &journals, &mut |_| {}).unwrap();
    assert_eq!(files(&group), before, "every byte is back");

    let mut after = match after {
        Ok(after) => after,
        Err(why) => {
            eprintln!("skipped: {why} while it was measured");
            return;
        }
    };
    assert_eq!(after.len(), 20);
    after.sort_by(f64::total_cmp);
    let p90 = after[17];
    eprintln!(
        "{}: {:?} us predicted, {p90:.1} ms measured",
        best.name, best.forecasts[0].interval
    );
    assert!(
        p90 < PROMISE_MS,
        "promised {PROMISE_MS} ms under {}, took {after:?}",
        best.name
    );
}
