//! The recording whose counters and whose measured truth are both known.

use std::path::PathBuf;

use schedcast_base::assert_contains;
use schedcast_trace::Recording;
use schedcast_trace::recording::MeasuredSettings;

use super::*;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../recordings")
        .join(name)
}

/// The limits that were measured, with their names.
fn measured_limits(measured: &MeasuredSettings) -> Vec<(String, BandwidthLimit)> {
    let settings = measured.settings.iter();
    settings
        .filter(|setting| setting.name != "recorded")
        .map(|setting| (setting.name.clone(), setting.limits.into()))
        .collect()
}

#[test]
fn what_was_measured_lies_inside_a_range_that_says_something() {
    let folder = folder("postgres-quota");
    let known = Known::open(&folder, None).unwrap();
    assert_eq!((known.cgroup.as_str(), known.cpus), ("/pg", 2));
    assert_eq!((known.nr_periods, known.nr_throttled), (295, 102));
    let measured = Recording::open(&folder).unwrap().measured.unwrap();
    let bounds = bounds(&known, &measured_limits(&measured)).unwrap();
    assert!(bounds.matching >= 100, "{}", bounds.matching);
    // For 2 CPUs there are 8 sizes, 3 kinds, 3 bunches and 2 numbers of workers. Of the 24 pairs of
    // size and bunch 4 are drawn once, 6 three times and 14 six times: 106 draws, for each of 24
    // levels.
    assert_eq!((bounds.tried, bounds.tolerance), (106 * 3 * 2 * 24, 1.0));
    assert_eq!(bounds.outlooks.len(), 6);
    for outlook in &bounds.outlooks {
        let named = measured
            .settings
            .iter()
            .find(|one| one.name == outlook.name);
        let figures = &named.unwrap().figures;
        let median = |name: &str| figures[name].median;
        let name = &outlook.name;
        let inside = |range: Range, truth: f64| range.low <= truth && truth <= range.high;
        let (ratio, time) = (outlook.throttled_ratio, outlook.throttled_ms);
        assert!(
            inside(ratio, median("nr_throttled_ratio")),
            "{name}: {ratio:?}"
        );
        assert!(inside(time, median("throttled_ms")), "{name}: {time:?}");
        // Without usage another run may want more than the limit grants, unless the limit is a
        // larger one.
        let is_larger = outlook.limit.quota_ns > known.limit.quota_ns;
        assert!(!is_larger || ratio.high < 0.45, "{name}: {ratio:?}");
    }
}

#[test]
fn usage_narrows_the_range() {
    let known = Known::open(&folder("postgres-quota"), None).unwrap();
    let limit = BandwidthLimit {
        quota_ns: Some(80_000_000),
        ..known.limit
    };
    let limits = [("80 ms".to_owned(), limit)];
    let wide = bounds(&known, &limits).unwrap();
    // The sum of the events of the same recording.
    let known = Known {
        usage_ns: Some(9_870_000_000),
        ..known
    };
    let narrow = bounds(&known, &limits).unwrap();
    let width = |bounds: &Bounds| {
        let ratio = bounds.outlooks[0].throttled_ratio;
        ratio.high - ratio.low
    };
    assert!(width(&narrow) < width(&wide), "{narrow:?}");
    assert!(wide.text("recording x").contains("usage_usec"));
    assert!(!narrow.text("recording x").contains("usage_usec"));
}

/// One thread that computes and never waits, in 50 of every 100 ms: in 75 it is throttled in each
/// period, in 100 in none. It wants 30 s, twice what it used.
#[test]
fn who_is_always_throttled_may_want_any_amount() {
    let ms = 1_000_000;
    let limit = |quota_ms: u64| BandwidthLimit::of_ms(quota_ms, 100, 0);
    let known = Known {
        cgroup: "/hog".to_owned(),
        cpus: 2,
        window_ns: 30_000 * ms,
        limit: limit(50),
        nr_periods: 300,
        nr_throttled: 300,
        throttled_ns: Some(15_000 * ms),
        usage_ns: Some(15_000 * ms),
        ..Known::default()
    };
    let limits = [75, 100].map(|quota_ms| (quota_ms.to_string(), limit(quota_ms)));
    let bounds = bounds(&known, &limits).unwrap();
    let [narrow, whole] = &bounds.outlooks[..] else {
        panic!("two limits")
    };
    let high = (narrow.throttled_ratio.high, narrow.throttled_ms.high);
    assert!(high.0 > 0.99 && high.1 >= 7400.0, "{narrow:?}");
    assert_eq!(whole.throttled_ratio.low, 0.0, "{whole:?}");
    // No group that is throttled in a third of its periods demands so much.
    let known = Known {
        nr_throttled: 100,
        ..known
    };
    let highest = known.levels_permille(1.0, 2).into_iter().max();
    assert_eq!(
        highest,
        Some(1110),
        "5 % of tolerance and a margin of 8, in steps of 4"
    );
}

fn path(path: &str) -> Wanted {
    Wanted::Path(path.to_owned())
}

#[test]
fn counters_that_say_nothing_are_refused() {
    let error = Known::open(&folder("postgres-nolimit"), Some(&path("/pg"))).unwrap_err();
    assert!(error.render().contains("usage_usec"), "{}", error.render());
    let error = Known::open(&folder("postgres-quota"), Some(&path("/pq"))).unwrap_err();
    assert!(error.render().contains("/pg"), "{}", error.render());
}

#[test]
fn settings_become_limits() {
    use schedcast_lab::question::{Columns, Setting};
    let recorded = BandwidthLimit::of_ms(50, 100, 0);
    let set = |text: &str| Setting::Set(text.to_owned());
    let ask = |columns: Columns| limits(recorded, &columns).map_err(|error| error.render());
    let columns = Columns {
        leading: vec![set("cpu.max=60000 50000")],
        variants: vec![
            ("burst".to_owned(), vec![set("cpu.max.burst=20000")]),
            ("none".to_owned(), vec![set("cpu.max=max")]),
        ],
    };
    let asked = ask(columns).unwrap();
    let numbers: Vec<_> = asked
        .iter()
        .map(|(name, limit)| {
            (
                name.as_str(),
                limit.quota_ns,
                limit.period_ns,
                limit.burst_ns,
            )
        })
        .collect();
    let ms = 1_000_000;
    assert_eq!(
        numbers,
        [
            ("cpu.max=60000 50000", Some(60 * ms), 50 * ms, 0),
            ("burst", Some(50 * ms), 100 * ms, 20 * ms),
            ("none", None, 100 * ms, 0),
        ]
    );
    for (text, says) in [
        ("cpu.maxx=1", "cpu.max"),
        ("cpu.max", "KEY=VALUE"),
        ("cpu.max=fast", "fast"),
        ("cpu.max=10", "1000"),
        ("cpu.max.burst=90000", "quota"),
    ] {
        let columns = Columns {
            leading: vec![set(text)],
            variants: Vec::new(),
        };
        let error = ask(columns).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
    assert!(ask(Columns::default()).unwrap_err().contains("--set"));
}

const MS: u64 = 1_000_000;

fn limit(quota_ms: u64) -> BandwidthLimit {
    BandwidthLimit::of_ms(quota_ms, 100, 0)
}

/// A group with 50 ms in each of 200 periods, one of which was throttled for 50 ms.
fn counted_once() -> Known {
    Known {
        cgroup: "/a".to_owned(),
        cpus: 2,
        window_ns: 20_000 * MS,
        limit: limit(50),
        nr_periods: 200,
        nr_throttled: 1,
        throttled_ns: Some(50 * MS),
        ..Known::default()
    }
}

/// One job of 5 s, which 50 ms a period serve in 100 periods, the last of them not throttled. Where
/// the work drifts by 6 %, 4.7 s take 94 periods and 5.3 s take 106: 93 and 105 are throttled, for
/// 50 ms each. A thousandth more work would take one period more.
#[test]
fn another_run_takes_six_per_cent_more_or_less() {
    let known = counted_once();
    let matching = Matching {
        known: &known,
        demands: vec![Demand {
            jobs: vec![Job {
                at_ns: 0,
                work_ns: 5000 * MS,
            }],
            workers: 1,
            window_ns: known.window_ns,
            counted: Counted::default(),
        }],
        tried: 1,
        tolerance: 1.0,
        are_samples: false,
    };
    let told = matching.outlook("50 ms", limit(50));
    let ratio = (told.throttled_ratio.low, told.throttled_ratio.high);
    assert_eq!(ratio, (93.0 / 200.0, 105.0 / 200.0));
    assert_eq!(
        (told.throttled_ms.low, told.throttled_ms.high),
        (4650.0, 5250.0)
    );
    assert!(matching.all_below(limit(50), 105.0 / 200.0));
    assert!(!matching.all_below(limit(50), 104.0 / 200.0));
    assert!(matching.any_below(limit(50), 93.0 / 200.0));
    assert!(!matching.any_below(limit(50), 92.0 / 200.0));
}

#[test]
fn the_only_period_was_throttled_or_not() {
    let known = Known {
        window_ns: 100 * MS,
        nr_periods: 1,
        ..counted_once()
    };
    assert_eq!(known.ratio(), 1.0);
    let counted = Counted {
        nr_periods: 1,
        nr_throttled: 1,
        ..Counted::default()
    };
    assert_eq!(known.per_active(&counted), 1.0);
}

/// 10 of 200 periods were throttled, for 50 ms each. A demand that counts as many matches if they
/// last 40 to 60 ms, a fifth less or more; where none was throttled, no time is compared.
#[test]
fn throttled_periods_must_last_as_long_as_the_counted_ones() {
    let known = Known {
        nr_throttled: 10,
        throttled_ns: Some(500 * MS),
        ..counted_once()
    };
    let matches = |known: &Known, each_ms: u64| {
        let counted = Counted {
            nr_periods: 200,
            nr_throttled: known.nr_throttled,
            throttled_ns: known.nr_throttled * each_ms * MS,
            usage_ns: 0,
        };
        known.matches(&counted, known.window_ns, 1.0)
    };
    let found = [39, 40, 60, 61].map(|each_ms| matches(&known, each_ms));
    assert_eq!(found, [false, true, true, false]);
    let calm = Known {
        nr_throttled: 0,
        throttled_ns: Some(30 * MS),
        ..known
    };
    assert!(matches(&calm, 0), "its time is that of an earlier window");
}

/// 50 ms of demand a period are 50 jobs of 1 ms, so that 80 periods hold 4000 jobs, and 100 are the
/// least; 16 jobs of 3 ms, so that 250 periods do; one job of 50 ms, so that 600 are the most.
#[test]
fn a_window_is_cut_where_many_jobs_come_in_it() {
    let periods = |mean_work_ms: u64, recorded: u64| {
        let known = Known {
            window_ns: recorded * 100 * MS,
            ..counted_once()
        };
        let shape = Shape {
            mean_work_ns: mean_work_ms * MS,
            has_tail: false,
            is_regular: false,
            bunch: 1,
            workers: 1,
        };
        known.window_ns_of(&shape, 1000) / (100 * MS)
    };
    let cut = [(1, 1000), (3, 1000), (50, 1000), (50, 300)];
    let found = cut.map(|(mean_work_ms, recorded)| periods(mean_work_ms, recorded));
    assert_eq!(found, [100, 250, 600, 300]);
}

#[test]
fn limits_are_told_to_programs_in_microseconds() {
    let known = counted_once();
    let range = Range {
        low: 0.0,
        high: 1.0,
    };
    let told = Bounds {
        outlooks: vec![Outlook {
            name: "wide".to_owned(),
            limit: BandwidthLimit {
                burst_ns: 20 * MS,
                ..limit(60)
            },
            throttled_ratio: range,
            throttled_ms: range,
        }],
        known,
        tried: 1,
        matching: 1,
        tolerance: 1.0,
        are_samples: false,
        usage_ms: range,
    };
    let value: serde_json::Value = serde_json::from_str(&told.json()).unwrap();
    let limit = &value["limits"][0];
    let us = ["quota_us", "period_us", "burst_us"].map(|key| limit[key].as_u64());
    assert_eq!(us, [Some(60_000), Some(100_000), Some(20_000)]);
}

/// `cpu.stat` of a group without a limit tells no periods.
#[test]
fn a_group_whose_periods_are_not_counted_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let group = |usage_us: u64| {
        let stat = format!("usage_usec {usage_us}\nuser_usec 0\nsystem_usec 0");
        serde_json::json!({
            "/": {"tasks": []},
            "/a": {"cpu.max": "max 100000", "cpu.stat": stat, "tasks": []},
        })
    };
    let cgroups = serde_json::json!({"before": group(0), "after": group(1_500_000)});
    let meta = serde_json::json!({"cpus": 2, "start_s": 10.0, "end_s": 13.0});
    for (name, value) in [("cgroups.json", cgroups), ("recording.json", meta)] {
        std::fs::write(folder.path().join(name), value.to_string()).unwrap();
    }
    let known = Known::open(folder.path(), Some(&path("/a"))).unwrap();
    assert_eq!((known.nr_periods, known.nr_throttled), (0, 0));
    assert_eq!(
        (known.window_ns, known.usage_ns),
        (3_000 * MS, Some(1_500 * MS))
    );
}

/// Two groups are limited, and the recording was made for one of them, for a group without a limit,
/// and for the group around both.
#[test]
fn the_group_that_a_recording_was_made_for_is_meant() {
    let groups = |seconds: u64| {
        let periods = 10 * seconds;
        let stat = format!(
            "usage_usec {}\nnr_periods {periods}\nnr_throttled 0",
            seconds * 100_000
        );
        let group =
            |limit: &str| serde_json::json!({"cpu.max": limit, "cpu.stat": stat, "tasks": []});
        let (free, limited) = (group("max 100000"), group("50000 100000"));
        serde_json::json!({
            "/": {"tasks": []}, "/a": free, "/a/b": limited, "/a/c": limited, "/d": free,
            "/e": limited,
        })
    };
    let open = |asked: Option<&str>| {
        let folder = tempfile::tempdir().unwrap();
        let cgroups = serde_json::json!({"before": groups(0), "after": groups(3)});
        let mut meta = serde_json::json!({"cpus": 2, "start_s": 10.0, "end_s": 13.0});
        if let Some(asked) = asked {
            meta["cgroup"] = asked.into();
        }
        for (name, value) in [("cgroups.json", &cgroups), ("recording.json", &meta)] {
            std::fs::write(folder.path().join(name), value.to_string()).unwrap();
        }
        Known::open(folder.path(), None)
            .map(|known| known.cgroup)
            .map_err(|error| error.to_string())
    };
    assert_eq!(open(Some("/a/b")).as_deref(), Ok("/a/b"));
    assert_eq!(open(Some("/d")).as_deref(), Ok("/d"));
    let several = "the recording has 2 groups with a limit";
    assert!(open(Some("/a")).unwrap_err().contains(several));
    let unnamed = "has 3 groups with a limit (name one: --cgroup /a/b, --cgroup /a/c, --cgroup /e)";
    assert_contains(open(None).unwrap_err(), unnamed);
}

/// The slice of a pod has the name of the pod, and its container that of both.
#[test]
fn groups_are_named_as_on_a_command_line() {
    let group = |path: &str, container: Option<&str>| NamedGroup {
        path: path.to_owned(),
        names: schedcast_base::groups::GroupNames {
            pod: Some("shop/cart-7d-x1".to_owned()),
            container: container.map(str::to_owned),
            ..Default::default()
        },
        ..NamedGroup::default()
    };
    let named = [
        group("/p", None),
        group("/p/1", Some("app")),
        group("/p/2", Some("app")),
    ];
    let told = flags(&["/p", "/p/1", "/d"], &named);
    assert_eq!(
        told,
        "--pod shop/cart-7d-x1, --pod shop/cart-7d-x1/app, --cgroup /d"
    );
    let twice = flags(&["/p/1", "/p/2"], &named);
    assert_eq!(twice, "--cgroup /p/1, --cgroup /p/2");
}
