//! The recording whose counters and whose measured truth are both known.

use std::path::PathBuf;

use schedcast_trace::Recording;
use schedcast_trace::recording::Measured;

use super::*;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../recordings")
        .join(name)
}

/// The limits that were measured, with their names.
fn measured_limits(measured: &Measured) -> Vec<(String, Limit)> {
    let settings = measured.settings.iter();
    settings
        .filter(|setting| setting.name != "recorded")
        .map(|setting| {
            let limit = Limit {
                quota_ns: setting.quota_us.map(|us| us * 1000),
                period_ns: setting.period_us * 1000,
                burst_ns: setting.burst_us * 1000,
            };
            (setting.name.clone(), limit)
        })
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
    let limit = Limit {
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
    let limit = |quota_ms: u64| Limit {
        quota_ns: Some(quota_ms * ms),
        period_ns: 100 * ms,
        burst_ns: 0,
    };
    let known = Known {
        cgroup: "/hog".to_owned(),
        label: None,
        cpus: 2,
        window_ns: 30_000 * ms,
        limit: limit(50),
        nr_periods: 300,
        nr_throttled: 300,
        throttled_ns: Some(15_000 * ms),
        usage_ns: Some(15_000 * ms),
        restarts: 0,
        samples: None,
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
    let recorded = Limit {
        quota_ns: Some(50_000_000),
        period_ns: 100_000_000,
        burst_ns: 0,
    };
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
            ("burst", Some(60 * ms), 50 * ms, 20 * ms),
            ("none", None, 50 * ms, 0),
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
