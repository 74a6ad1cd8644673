//! Two services of one program beside each other on the running kernel, each with clients that
//! measure: the recording tells each what its own clients saw, and the advice for each has the
//! right direction. Skips, saying why, where the host cannot do it.
//!
//! `web` may use 30 ms in every 100 ms and needs 50 ms for a request every 230 ms, so each request
//! is throttled. `batch` may use 80 ms and needs 5 ms every 70 ms. Servers and clients all call
//! themselves `python3`.

mod live;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use live::others_ratio;
use schedcast_advise::{Demands, advise};
use schedcast_base::quantile::percentile;
use schedcast_host::record::{Request, record};
use schedcast_host::testing::has_groups;
use schedcast_host::{CpuCgroup, CpuTimes};
use schedcast_lab::question::{Question, Subject};
use schedcast_lab::recording::Recorded;
use schedcast_lab::simulator::Simulator;

const PYTHON: &str = "/usr/bin/python3";
const SECONDS: u64 = 10;
/// Clients begin before the recording and go on behind it.
const AROUND: Duration = Duration::from_millis(700);
/// Of `docs/validity.md`: p50 and p95 of a recorded service.
const BANDS: [(f64, f64); 2] = [(50.0, 0.10), (95.0, 0.30)];
/// More than this of the machine taken by others, and what clients saw says nothing about the
/// limits.
const OTHERS_MAX: f64 = 0.1;

/// A service with its client; the processes end when the value does.
struct Service {
    group: CpuCgroup,
    server: Child,
    client: Child,
    quota_us: u64,
    promise: &'static str,
}

impl Drop for Service {
    fn drop(&mut self) {
        for child in [&mut self.client, &mut self.server] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Service {
    fn start(
        folder: &Path,
        name: &str,
        quota_us: u64,
        [work, gap]: [&str; 2],
        promise: &'static str,
    ) -> Service {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live");
        let own = format!("schedcast-same-{name}-{}", std::process::id());
        let group = CpuCgroup::create("/", &own).unwrap();
        group
            .apply("cpu.max", &format!("{quota_us} 100000"))
            .unwrap();
        let socket = folder.join(name);
        let python = |script: &str| {
            let mut command = Command::new(PYTHON);
            command.arg(scripts.join(script)).arg(&socket);
            command
        };
        let server = python("server.py").arg(work).spawn().unwrap();
        std::fs::write(group.dir().join("cgroup.procs"), server.id().to_string()).unwrap();
        let seconds = (SECONDS + 2).to_string();
        let client = python("client.py")
            .args([gap, &seconds])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Service {
            group,
            server,
            client,
            quota_us,
            promise,
        }
    }

    /// Latencies that its client saw between two times of the monotonic clock, ms, ascending.
    fn seen_ms(&mut self, [from, to]: [f64; 2]) -> Vec<f64> {
        let output = self.client.stdout.take().unwrap();
        let text = std::io::read_to_string(output).unwrap();
        let mut seen: Vec<f64> = text
            .lines()
            .filter_map(|line| {
                let (asked, took) = line.split_once(' ')?;
                let (asked, took): (f64, f64) = (asked.parse().ok()?, took.parse().ok()?);
                (from <= asked && asked + took <= to).then_some(took * 1e3)
            })
            .collect();
        seen.sort_by(f64::total_cmp);
        seen
    }
}

/// Seconds of the clock that Python calls monotonic.
fn monotonic_s() -> f64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn question(folder: &Path, group: &CpuCgroup) -> Question {
    Question {
        cgroup: Some(group.path().to_owned()),
        seeds: Some(4),
        ..Question::of(Subject::Recording(Recorded::open(folder).unwrap()))
    }
}

#[test]
fn each_of_two_services_of_one_program_is_told_what_its_own_clients_see() {
    if !has_groups() {
        return;
    }
    if !Path::new(PYTHON).exists() {
        eprintln!("skipped: no {PYTHON}");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let web = Service::start(scratch.path(), "web", 30_000, ["50", "230"], "p95<90ms");
    let batch = Service::start(scratch.path(), "batch", 80_000, ["5", "70"], "p95<40ms");
    std::thread::sleep(AROUND);
    let folder = scratch.path().join("recording");
    let request = Request {
        folder: folder.clone(),
        cgroup: None,
        duration: Some(Duration::from_secs(SECONDS)),
        command: Vec::new(),
        ..Request::default()
    };
    let begin = (monotonic_s(), Instant::now());
    let used_ns = || -> u64 {
        let stats = [&web, &batch].map(|one| one.group.stat().unwrap().usage_ns);
        stats.into_iter().flatten().sum()
    };
    let (times, before_ns) = (CpuTimes::read().unwrap(), used_ns());
    record(&request, &AtomicBool::new(false)).unwrap();
    let others = others_ratio(&times, used_ns() - before_ns);
    if others > OTHERS_MAX {
        eprintln!("skipped: others took {others:.2} of the machine");
        return;
    }
    let window = [begin.0, begin.0 + begin.1.elapsed().as_secs_f64()];

    let simulator = Simulator::new().drawing();
    let mut quotas = Vec::new();
    for mut service in [web, batch] {
        let seen_ms = service.seen_ms(window);
        let asked = question(&folder, &service.group);
        let answered = asked.answer(&simulator).unwrap();
        let about = answered.context.about.unwrap();
        let name = format!("python3@{}", service.group.path());
        assert_eq!(about.members, [name.as_str()]);
        for (percent, band) in BANDS {
            let client_ms = percentile(&seen_ms[..], percent).unwrap();
            let metric = format!("{name}/request_latency.p{percent}");
            let mut fit = answered.context.fit.iter();
            let fit = fit.find(|one| one.metric == metric).expect(&metric);
            eprintln!(
                "{metric}: clients {client_ms:.2} ms, recorded {:.2}, simulated {:.2}",
                fit.seen / 1e3,
                fit.predicted / 1e3
            );
            for told_us in [fit.seen, fit.predicted] {
                let error = (told_us / 1e3 / client_ms - 1.0).abs();
                assert!(
                    error <= band,
                    "{metric}: {told_us} us, clients saw {client_ms} ms"
                );
            }
        }
        let demands = Demands {
            slos: vec![service.promise.to_owned()],
            ..Demands::default()
        };
        let advice = advise(&asked, &demands, &simulator, (&|_| {}, &|| {})).unwrap();
        let told = schedcast_present::tables::advice::render(&advice);
        let best = advice.recommendation().unwrap_or_else(|| panic!("{told}"));
        quotas.push((
            service.quota_us,
            best.limit.quota_us.unwrap() + best.limit.burst_us,
            told,
        ));
    }
    let [
        (web_us, web_best_us, web_told),
        (batch_us, batch_best_us, batch_told),
    ] = &quotas[..]
    else {
        unreachable!("there are two services");
    };
    assert!(web_best_us > web_us, "{web_told}");
    assert!(batch_best_us < batch_us, "{batch_told}");
}
