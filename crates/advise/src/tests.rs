//! Tests of what an advice concludes and recommends.

use std::collections::BTreeMap;
use std::path::Path;

use schedcast_lab::clients::ClosedLoop;
use schedcast_lab::outcome::Outcome;
use schedcast_lab::question::Setting;

use super::*;

#[test]
fn an_advice_tells_the_target_and_who_pays_alone() {
    let names = [
        "web/activation_latency.p99",
        "cgroup:/a/web/nr_throttled",
        "cgroup:/a/nr_throttled",
        "cgroup:/b/nr_throttled",
        "batch/cpu_time",
        "other/cpu_time",
        "machine/busy_ratio",
    ];
    let rows = names.map(|name| (name.to_string(), [1.0; 4], [1.0; 4]));
    let mut comparison = schedcast_lab::samples::compared(&rows);
    let option = candidate(Some("batch"));
    keep_told(&mut comparison, "/a/web", &["web".to_string()], &[option]);
    let mut left = names.to_vec();
    left.retain(|name| !["cgroup:/b/nr_throttled", "other/cpu_time"].contains(name));
    let mut told = comparison.metric_names();
    told.sort_unstable();
    left.sort_unstable();
    assert_eq!(told, left);
}

/// The target is a group of the recording whose threads slept all the time.
#[test]
fn of_a_group_that_was_idle_nothing_is_promised() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../recordings/postgres-quota"
    );
    let mut recorded = Recorded::open(folder.as_ref()).unwrap();
    recorded.seen.members.insert("/pg".to_string(), Vec::new());
    let question = Question::of(Subject::Recording(recorded));
    let error = refuse_slips(&question, &["p99<80ms".to_string()]).unwrap_err();
    let expected = "no thread of `/pg` ran in the recording, so that nothing of it can be forecast";
    assert!(error.to_string().starts_with(expected), "{error}");
    assert!(!error.to_string().contains("nearest"), "{error}");
    let experiment = question.experiment().unwrap();
    let simulator = schedcast_lab::simulator::Simulator::new();
    let swept = frontier::of_recording(&question, &experiment, &[], &simulator, &|| {});
    assert_eq!(swept.unwrap_err().to_string(), error.to_string());
}

/// `postgres-quota` as if its threads had ended before the recording did. It has 0.5 CPU.
#[test]
fn a_job_needs_what_it_used_unless_its_time_is_promised() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../recordings/postgres-quota"
    );
    let recorded = Recorded::open(folder.as_ref()).unwrap();
    let used = recorded.seen.mean_cpus("/pg", recorded.length_ns);
    let length_ns = recorded.length_ns / 10 * 9;
    let recorded = schedcast_lab::samples::with_job(recorded, "/pg", "postgres", length_ns);
    let question = Question::of(Subject::Recording(recorded));
    let experiment = question.experiment().unwrap();
    let baseline = &experiment.scenarios[0];
    let need = |promise: &str| {
        let case = Case::of(&question, &[promise.to_string()], baseline).unwrap();
        case.need(&[], baseline.limits_of("/pg"), true).unwrap()
    };
    let promised = need("nr_throttled<1000");
    assert_eq!(promised.recorded, None);
    let in_its_time = (used / 0.9).min(0.5);
    assert!((promised.cpus - in_its_time).abs() < 1e-6 && promised.cpus > used);
    assert_eq!(need("p95<5s").cpus, promised.cpus);
    assert_eq!(need("time<60s").cpus, 0.0);
}

fn candidate(payer: Option<&str>) -> Candidate {
    Candidate {
        name: "burst 30ms".to_string(),
        limit: CpuLimits::new(50_000, 100_000, 30_000),
        suits: true,
        falls_behind: None,
        doubt: None,
        finished: 1168.0,
        forecasts: Vec::new(),
        price: payer.map(|threads| Price {
            threads: threads.to_string(),
            metric: "cpu_time".to_string(),
            recorded: 1.0,
            now: 0.5,
            growth: 1.0,
            growth_at_most: f64::INFINITY,
            certain: true,
        }),
        time_lost: 0.0,
        periods_throttled: 0.0,
        periods_throttled_at_most: 0.0,
    }
}

/// About the threads `a`.
fn promise(text: &str) -> Slo {
    let scope = Scope {
        threads: Some("a"),
        ..Scope::default()
    };
    Slo::parse(text, scope).unwrap()
}

/// A stranger was told of 23 ms in 100 ms where 30 ms were recorded, for a p95 of 99.7 ms on
/// average; measured were 187 ms.
#[test]
fn what_is_not_certain_names_no_tighter_limit_than_the_recorded_one() {
    let promises = [promise("p95<100ms")];
    let option = |limit: CpuLimits| Candidate {
        limit,
        suits: false,
        forecasts: vec![Forecast {
            metric: promises[0].metric.clone(),
            mean: Some(99.7e3),
            interval: Some([50e3, 190e3]),
            ..Forecast::default()
        }],
        ..candidate(None)
    };
    let quota = |quota_us: u64| CpuLimits::new(quota_us, 100_000, 0);
    let named = |options: &[CpuLimits]| {
        let options: Vec<Candidate> = options.iter().copied().map(option).collect();
        kept_on_average(&options, &promises, "/a").map(|option| option.limit)
    };
    assert_eq!(named(&[quota(30_000), quota(23_000)]), Some(quota(30_000)));
    let unlimited = CpuLimits {
        quota_us: None,
        ..quota(1_000)
    };
    assert_eq!(
        named(&[unlimited, quota(23_000)]),
        Some(quota(23_000)),
        "no quota was recorded"
    );
}

/// The burst was certain to keep 156 ms with 155.2 ms, and no limit was not with 158.5 ms.
#[test]
fn no_limit_is_certain_where_its_absence_is_not() {
    let option = |limit: CpuLimits, met: bool| Candidate {
        name: limit.cpu_max(),
        limit,
        suits: met,
        forecasts: vec![Forecast {
            met,
            mean: Some(140e3),
            ..Forecast::default()
        }],
        ..candidate(None)
    };
    let burst = CpuLimits::new(30_000, 100_000, 18_000);
    let none = CpuLimits {
        quota_us: None,
        ..burst
    };
    let promises = [promise("p95<156ms")];
    let suit = |is_kept_without: bool, mean_without: Option<f64>| {
        let mut options = [option(burst, true), option(none, is_kept_without)];
        // What no limit breaks on average is a promise of others.
        options[1].forecasts[0].mean = mean_without;
        doubt(&promises, &mut options);
        let [burst, _] = options;
        (burst.suits, burst.forecasts[0].met, burst.doubt)
    };
    assert_eq!(suit(true, Some(140e3)), (true, true, None));
    let doubted = (false, false, Some(Doubt::By(none.cpu_max())));
    assert_eq!(suit(false, Some(141e3)), doubted);
    assert_eq!(suit(false, Some(200e3)), (true, true, None));
}

/// Promised are 80 ms.
#[test]
fn not_for_certain_and_not_at_all_are_two_answers() {
    let promises = [promise("p95<80ms")];
    let without = |mean_us: f64, most_us: f64| Candidate {
        limit: CpuLimits::default(),
        suits: most_us < 80e3,
        forecasts: vec![Forecast {
            metric: promises[0].metric.clone(),
            unit: "us".to_string(),
            mean: Some(mean_us),
            interval: Some([0.95 * mean_us, most_us]),
            met: most_us < 80e3,
            ..Forecast::default()
        }],
        ..candidate(None)
    };
    let concluded = |option: Candidate| Conclusion::of(false, &[option], &promises, |_| true);
    assert_eq!(concluded(without(39.1e3, 104.3e3)), Conclusion::NotCertain);
    assert_eq!(concluded(without(84e3, 104.3e3)), Conclusion::NotKept);
    let of_others = Conclusion::of(false, &[without(84e3, 104.3e3)], &promises, |_| false);
    assert_eq!(of_others, Conclusion::NotCertain);
    let burst = Candidate {
        limit: CpuLimits::new(50_000, 100_000, 30_000),
        suits: false,
        ..without(78.15e3, 84e3)
    };
    let noise = [burst, without(82.35e3, 90e3)];
    let concluded_of = Conclusion::of(false, &noise, &promises, |_| true);
    assert_eq!(
        concluded_of,
        Conclusion::NotKept,
        "less than a burst breaks"
    );
    assert_eq!(
        concluded(without(39.1e3, 60e3)),
        Conclusion::OnlyWithoutLimit
    );
    let scheduled = Candidate {
        limit: CpuLimits::new(50_000, 100_000, 30_000),
        suits: false,
        doubt: Some(Doubt::Schedule),
        ..without(41e3, 90e3)
    };
    let both = [scheduled, without(39.1e3, 60e3)];
    let concluded_of = Conclusion::of(false, &both, &promises, |_| true);
    assert_eq!(concluded_of, Conclusion::NotCertain, "it may be kept");
    let behind = Candidate {
        falls_behind: Some("it waits".to_string()),
        ..without(39.1e3, 104.3e3)
    };
    assert_eq!(concluded(behind.clone()), Conclusion::NotKept);
    let decided = |option: Candidate| {
        let options = [option];
        let why = conclusion::behind_without_limit(&options, &promises);
        why.map(str::to_owned)
    };
    assert_eq!(decided(behind).as_deref(), Some("it waits"));
    assert_eq!(decided(without(84e3, 104.3e3)), None);
    let dear = Candidate {
        suits: false,
        ..without(39.1e3, 60e3)
    };
    assert_eq!(concluded(dear), Conclusion::TooDear);
}

/// A pod's owner cannot write the burst that keeps the promise on average for less.
#[test]
fn what_the_owner_can_write_is_named_first_where_nothing_is_certain() {
    let promises = [promise("p95<100ms")];
    let option = |limit: CpuLimits, mean: f64| Candidate {
        limit,
        suits: false,
        forecasts: vec![Forecast {
            metric: promises[0].metric.clone(),
            mean: Some(mean),
            ..Forecast::default()
        }],
        ..candidate(None)
    };
    let with = |quota_us, burst_us| CpuLimits::new(quota_us, 100_000, burst_us);
    let unlimited = CpuLimits {
        quota_us: None,
        ..with(30_000, 0)
    };
    let options = [
        option(with(30_000, 0), 120e3),
        option(with(33_000, 0), 99e3),
        option(with(30_000, 20_000), 98e3),
        option(unlimited, 90e3),
    ];
    let named = |target: &str| {
        let named = kept_on_average(&options, &promises, target);
        named.unwrap().limit
    };
    assert_eq!(named("/pg"), with(30_000, 20_000));
    assert_eq!(named("/kubepods/burstable/pod1/app"), with(33_000, 0));
}

/// A burst is cheaper than a quota, and neither a pod nor a unit has a setting for it.
#[test]
fn what_the_owner_can_write_is_recommended_first() {
    let recorded = CpuLimits::new(30_000, 100_000, 0);
    let with = |quota_us: u64, burst_us: u64| Candidate {
        limit: CpuLimits::new(quota_us, 100_000, burst_us),
        ..candidate(None)
    };
    let options = [with(48_000, 0), with(30_000, 18_000)];
    let best = |target: &str| {
        let options = options.iter();
        let best = options.min_by_key(|option| option.cost(target, recorded));
        best.unwrap().limit.burst_us
    };
    assert_eq!(best("/pg"), 18_000);
    assert_eq!(best("/system.slice/nginx.service"), 0);
    assert_eq!(best("/kubepods/burstable/pod1/app"), 0);
}

#[test]
fn an_advice_whose_neighbour_pays_without_bound_is_read() {
    let option = candidate(Some("batch"));
    let limit = option.limit;
    let json = serde_json::json!({
        "schema": SCHEMA,
        "target": "/pg",
        "recommended": option.name,
        "options": [option],
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), json.to_string()).unwrap();
    let read = read_recommendation(file.path()).unwrap();
    assert_eq!(
        (read.target.as_str(), read.limit, read.recorded),
        ("/pg", limit, limit)
    );
}

/// A service whose latency falls with its quota, and not with its burst.
struct BurstInVain;

impl Simulate for BurstInVain {
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        let quota_us = scenario.limits_of("/pg").quota_us.unwrap_or(1_000_000);
        let latency_us = 4e9 / quota_us as f64 + seed as f64;
        let metrics = ["p50", "p95", "p99"].map(|suffix| {
            let name = format!("postgres/request_latency.{suffix}");
            (name, latency_us)
        });
        Ok(Outcome {
            event_hash: seed,
            metrics: metrics.into(),
            ..Outcome::default()
        })
    }
}

#[test]
fn known_requests_of_a_closed_loop_tell_nothing_of_throttling_under_a_wider_limit() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/postgres-quota");
    let is_refused = |clients: ClosedLoop, promise: &str| {
        let mut recorded = Recorded::open(&path).unwrap();
        recorded.seen.closed_loops.insert("/pg".to_owned(), clients);
        let question = Question::of(Subject::Recording(recorded));
        let experiment = question.experiment().unwrap();
        let promises = [promise.to_owned()];
        let case = Case::of(&question, &promises, &experiment.scenarios[0]).unwrap();
        let fit = ["nr_periods", "nr_throttled"].map(|name| {
            let name = format!("cgroup:/pg/{name}");
            RefitFigure::new(name, 80.0, 80.0)
        });
        case.saturated(&fit).is_some()
    };
    let closed = ClosedLoop::Yes(schedcast_lab::clients::Asking {
        connections: 4,
        most_per_s: 50_000,
    });
    assert!(is_refused(closed, "throttled_ratio<5%"));
    assert!(!is_refused(closed, "p95<80ms"));
    assert!(!is_refused(ClosedLoop::No, "throttled_ratio<5%"));
}

#[test]
fn a_burst_that_helps_only_in_an_open_loop_does_not_suit() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/postgres-quota");
    let suits = |clients: ClosedLoop| {
        let mut recorded = Recorded::open(&path).unwrap();
        recorded.seen.closed_loops.insert("/pg".to_owned(), clients);
        let question = Question::of(Subject::Recording(recorded));
        let experiment = question.experiment().unwrap();
        let baseline = &experiment.scenarios[0];
        let mut case = Case::of(
            &question,
            &["request_latency.p99<70ms".to_owned()],
            baseline,
        )
        .unwrap();
        case.latency = Some(Latency::new("postgres", Latency::REQUEST));
        let drifting = Drifting {
            simulator: &BurstInVain,
            drift_permille: 0,
            rare: None,
            length_ns: 0,
            seeds: 3,
        };
        let bench = Bench::new(drifting, &|| {}, baseline, "/pg", &[]);
        let limits = [
            (50_000, 0, false),
            (50_000, 30_000, true),
            (80_000, 0, true),
        ];
        let option = |(quota_us, burst_us, suits)| Candidate {
            limit: CpuLimits::new(quota_us, 100_000, burst_us),
            suits,
            ..candidate(None)
        };
        let mut options = limits.map(option);
        let scenario = |option: &Candidate| baseline.with_limits("/pg", option.limit, "a");
        let scenarios: Vec<Scenario> = options.iter().map(scenario).collect();
        let told = doubt_schedules(&case, &bench, &scenarios, &mut options).unwrap();
        let needs_schedule = options.each_ref().map(Candidate::needs_schedule);
        assert_eq!(needs_schedule, [false, !told.is_empty(), false]);
        (options.map(|option| option.suits), told)
    };
    let (assumed, told) = suits(ClosedLoop::Unknown { coarse: false });
    assert_eq!(assumed, [false, false, true]);
    assert!(
        told[0].contains("only if clients keep a schedule"),
        "{told:?}"
    );
    assert_eq!(suits(ClosedLoop::No), ([false, true, true], Vec::new()));
}

/// A burst takes a third of the latency away where clients keep a schedule, and nothing elsewhere.
struct BurstForSchedules;

impl Simulate for BurstForSchedules {
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        let is_closed = format!("{:?}", scenario.programs).contains("client_loop: Closed");
        let helps = scenario.limits_of("/pg").burst_us > 0 && !is_closed;
        let share = if helps { 2.0 / 3.0 } else { 1.0 };
        // As recorded, so that the fit widens nothing.
        let recorded = [("p50", 10_400.0), ("p95", 113_300.0), ("p99", 180_400.0)];
        let latency = |subject: &str, (suffix, us): (&str, f64)| {
            let name = format!("{subject}/request_latency.{suffix}");
            (name, us * share + seed as f64)
        };
        let of = |subject: &str| recorded.map(|one| latency(subject, one));
        let subjects = ["postgres", "postgres from open", "postgres from closed"];
        let mut metrics: BTreeMap<String, f64> = subjects.iter().copied().flat_map(of).collect();
        metrics.insert("cgroup:/pg/nr_throttled".to_owned(), 102.0);
        Ok(Outcome {
            event_hash: seed,
            metrics,
            ..Outcome::default()
        })
    }
}

#[test]
fn a_gate_does_not_let_a_burst_pass_that_helps_only_in_an_open_loop() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/postgres-quota");
    let passes = |clients: ClosedLoop, promise: &str| {
        let recorded = Recorded::open(&path).unwrap();
        let mut recorded = schedcast_lab::samples::with_kinds(recorded, "/pg", "postgres");
        recorded.seen.closed_loops.insert("/pg".to_owned(), clients);
        let mut question = Question::of(Subject::Recording(recorded));
        let burst = Setting::Set("cpu.max.burst=30000".to_owned());
        question.columns.leading = vec![burst];
        question.seeds = Some(3);
        let slos = [promise.to_owned()];
        let gate = gate::check(&question, &slos, &BurstForSchedules, &|| {}).unwrap();
        let told = gate.comparison.warnings.join("\n");
        (
            gate.passes(),
            told.contains("only if clients keep a schedule"),
        )
    };
    let of_open = "postgres from open/request_latency.p99<150ms";
    for promise in ["request_latency.p99<150ms", of_open] {
        let unknown = ClosedLoop::Unknown { coarse: false };
        assert_eq!(passes(ClosedLoop::No, promise), (true, false), "{promise}");
        assert_eq!(passes(unknown, promise), (false, true), "{promise}");
    }
    let of_closed = "postgres from closed/request_latency.p99<150ms";
    let unknown = ClosedLoop::Unknown { coarse: false };
    assert_eq!(passes(unknown, of_closed), (true, false), "known to wait");
}
