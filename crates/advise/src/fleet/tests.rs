//! Small dumps whose answers are known.

use super::*;
use crate::counters::Dump;
use schedcast_base::assert_contains;

impl Row {
    /// A container of which nothing is known but its limit.
    pub(super) fn limited(limit: BandwidthLimit) -> Row {
        let known = Known {
            cgroup: "a".to_owned(),
            cpus: 4,
            window_ns: 60_000_000_000,
            limit,
            nr_periods: 600,
            ..Known::default()
        };
        Row {
            name: known.cgroup.clone(),
            labels: Labels::new(),
            known,
            least: None,
            enough: None,
            verdict: Verdict::Raise,
            given: None,
        }
    }
}

fn series(name: &str, labels: &str, values: &str) -> String {
    format!("{{\"metric\":{{\"__name__\":\"container_{name}\",{labels}}},\"values\":[{values}]}}")
}

/// Series of a container that counted over 60 s: CPU seconds, throttled periods and seconds, under
/// a quota in us in 100 ms.
fn container(name: &str, used: f64, throttled: u64, seconds: f64, quota_us: i64) -> Vec<String> {
    let labels = format!(
        "\"namespace\":\"shop\",\"pod\":\"{name}-0\",\"container\":\"{name}\",\"node\":\"n1\""
    );
    let grown = |by: f64| format!("[100,\"7\"],[160,\"{}\"]", 7.0 + by);
    let mut all = vec![
        series("cpu_usage_seconds_total", &labels, &grown(used)),
        series("spec_cpu_quota", &labels, &format!("[100,\"{quota_us}\"]")),
        series("spec_cpu_period", &labels, "[100,\"100000\"]"),
    ];
    if quota_us > 0 {
        all.push(series("cpu_cfs_periods_total", &labels, &grown(600.0)));
        let throttled = grown(throttled as f64);
        all.push(series(
            "cpu_cfs_throttled_periods_total",
            &labels,
            &throttled,
        ));
        all.push(series(
            "cpu_cfs_throttled_seconds_total",
            &labels,
            &grown(seconds),
        ));
    }
    all
}

fn dump(containers: &[Vec<String>]) -> Dump {
    let mut series = containers.concat();
    for node in ["n1", "n2"] {
        let cpus = if node == "n1" { 4 } else { 64 };
        series.push(format!(
            "{{\"metric\":{{\"__name__\":\"machine_cpu_cores\",\"node\":\"{node}\"}},\"values\":[[100,\"{cpus}\"]]}}"
        ));
    }
    let all = series.join(",");
    let text = format!(
        "{{\"status\":\"success\",\"data\":{{\"resultType\":\"matrix\",\"result\":[{all}]}}}}"
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("range.json");
    std::fs::write(&path, text).unwrap();
    Dump::open(&[path], None).unwrap()
}

const QUESTION: Question = Question {
    throttled_below: 0.05,
    budget_cpus: None,
};

/// Quota 0.5 CPUs. `idle` uses a fifth of it, `web` is throttled in a third of its periods, `hog`
/// in each.
fn three() -> [Vec<String>; 3] {
    [
        container("idle", 6.0, 0, 0.0, 50_000),
        container("web", 20.0, 206, 11.5, 50_000),
        container("hog", 30.0, 600, 60.0, 50_000),
    ]
}

#[test]
fn the_most_throttled_come_first_and_each_gets_an_answer() {
    let fleet = Fleet::new(&dump(&three()), QUESTION);
    let answers: Vec<_> = fleet
        .rows
        .iter()
        .map(|row| (row.name.as_str(), row.verdict))
        .collect();
    let expected = [
        // It may want two CPUs or four: no counter tells.
        ("shop/hog-0/hog", Verdict::Record),
        ("shop/web-0/web", Verdict::Raise),
        ("shop/idle-0/idle", Verdict::Fine),
    ];
    assert_eq!(answers, expected);
    let web = &fleet.rows[1];
    assert_eq!(web.known.cpus, 4, "those of its node");
    let quota = |limit: BandwidthLimit| limit.quota_ns.unwrap();
    let (least, enough) = (web.least.unwrap(), web.enough.unwrap());
    assert!(quota(web.known.limit) < quota(least) && quota(least) <= quota(enough.limit));
    assert!(enough.throttled_ratio.high <= 0.05, "{enough:?}");
    // A container that is rarely throttled is not told to have less than it uses.
    let idle = &fleet.rows[2];
    assert!(quota(idle.enough.unwrap().limit) >= 10_000_000, "{idle:?}");
}

#[test]
fn sums_and_containers_without_a_limit_are_told_apart() {
    let mut pod = container("web", 40.0, 0, 0.0, 50_000);
    for series in &mut pod {
        *series = series.replace("\"container\":\"web\",", "");
    }
    let pause = container("POD", 0.1, 0, 0.0, 50_000);
    let free = container("free", 40.0, 0, 0.0, -1);
    let silent: Vec<String> = container("silent", 1.0, 0, 0.0, 50_000)
        .into_iter()
        .filter(|series| !series.contains("cfs_throttled_periods"))
        .collect();
    let [idle, ..] = three();
    let fleet = Fleet::new(&dump(&[pod, pause, free, silent, idle]), QUESTION);
    let counted = (fleet.rows.len(), fleet.unlimited.len(), fleet.sums);
    assert_eq!(counted, (1, 1, 2));
    let [(name, why)] = &fleet.silent[..] else {
        panic!("{:?}", fleet.silent)
    };
    assert_eq!(name, "shop/silent-0/silent");
    assert!(why.contains("throttled_periods_total"), "{why}");
    let csv = fleet.csv();
    let lines: Vec<&str> = csv.lines().skip(1).collect();
    let [idle, free, silent] = lines[..] else {
        panic!("{csv}")
    };
    assert_contains(idle, "shop/idle-0/idle,0.5,100000,0.1,");
    assert_contains(free, ["shop/free-0/free,,,0.66", ",unlimited,"]);
    assert_contains(
        silent,
        [
            "shop/silent-0/silent,,,,",
            ",unknown,",
            "add it to the query",
        ],
    );
}

#[test]
fn what_is_wrong_with_one_container_is_said_and_the_others_are_answered() {
    let [idle, web, hog] = three();
    let mut wrong = container("wrong", 20.0, 206, 11.5, 50_000);
    wrong[0] = wrong[0].replace("\"27\"", "\"NaN\"");
    let mut twice = container("twice", 20.0, 206, 11.5, 50_000);
    twice.push(twice[0].clone());
    let too_much = container("liar", 60.0, 206, 11.5, 50_000);
    let fleet = Fleet::new(&dump(&[wrong, idle, twice, web, too_much, hog]), QUESTION);
    assert_eq!(fleet.rows.len(), 3);
    let silent: Vec<&str> = fleet.silent.iter().map(|(name, _)| &name[..]).collect();
    let names = [
        "shop/liar-0/liar",
        "shop/twice-0/twice",
        "shop/wrong-0/wrong",
    ];
    assert_eq!(silent, names);
    assert_contains(
        &fleet.silent[0].1,
        "used 1.00 CPUs, and its limit grants 0.50",
    );
    assert_contains(&fleet.silent[1].1, "two series of container=twice");
    assert_contains(&fleet.silent[2].1, "expected a number, found `NaN`");
}

#[test]
fn two_pods_of_one_name_are_told_apart_by_their_nodes() {
    let [idle, web, _] = three();
    let other: Vec<String> = web
        .iter()
        .map(|one| one.replace("\"n1\"", "\"n2\""))
        .collect();
    let containers = dump(&[idle, web, other]).containers;
    let names: Vec<&str> = containers.iter().map(|one| &one.name[..]).collect();
    let expected = [
        "shop/idle-0/idle",
        "shop/web-0/web (node=n1)",
        "shop/web-0/web (node=n2)",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_budget_goes_where_it_saves_most_and_no_further() {
    let question = |budget| Question {
        budget_cpus: Some(budget),
        ..QUESTION
    };
    let given = |budget: f64| -> Vec<Option<Given>> {
        let fleet = Fleet::new(&dump(&three()), question(budget));
        fleet.rows.iter().map(|row| row.given).collect()
    };
    let spent = |given: &[Option<Given>]| given.iter().flatten().map(|one| one.cpus).sum::<f64>();
    let plenty = given(100.0);
    // Nothing for who must be recorded first, and nothing for who has enough.
    assert!(plenty[0].is_none() && plenty[2].is_none(), "{plenty:?}");
    let web = plenty[1].unwrap();
    assert!(web.saved_cpus > 0.0 && web.cpus < 3.5, "{web:?}");
    // It was throttled for 11.5 s of its 60.
    assert!(web.saved_cpus <= 11.5 / 60.0, "{web:?}");
    let little = given(web.cpus / 2.0);
    assert!(spent(&little) <= web.cpus / 2.0, "{little:?}");
    assert!(given(0.001).iter().all(Option::is_none));
}

#[test]
fn files_name_each_container() {
    let fleet = Fleet::new(&dump(&three()), QUESTION);
    let rows = fleet.csv();
    assert_eq!(rows.lines().count(), 4, "{rows}");
    assert!(rows.contains("\nshop/web-0/web,0.5,100000,0.333"), "{rows}");
    let rules: serde_json::Value = serde_json::from_str(&fleet.rules()).unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    let found = rules.len();
    assert_eq!(found, 1, "only what is raised can contradict its forecast");
    let expression = rules[0]["expr"].as_str().unwrap();
    // The pod's name changes when it starts anew, and its owner's does not.
    let selector = "{container=\"web\",namespace=\"shop\",pod=~\"web-[0-9]+\"}";
    assert_contains(expression, selector);
    let board: serde_json::Value = serde_json::from_str(&fleet.dashboard()).unwrap();
    assert_eq!(board["panels"].as_array().unwrap().len(), 2);
    let text = fleet.text("range.json", Some(1));
    assert_contains(
        &text,
        ["2 of 3 limited containers", "2 more containers; --all"],
    );
    let text = fleet.text("range.json", None);
    assert!(!text.contains("more containers"), "{text}");
}

#[test]
fn columns_without_a_value_are_left_out_unless_there_are_no_rows() {
    let header = |fleet: &Fleet| {
        let text = fleet.text("range.json", None);
        let line = text.lines().find(|line| line.starts_with("container"));
        line.unwrap_or_default().split_whitespace().count()
    };
    let words = HEADER.join(" ").split_whitespace().count();
    let mut fleet = Fleet::new(&dump(&three()), QUESTION);
    assert_eq!(header(&fleet), words - 1, "no budget was given");
    fleet.rows.clear();
    assert_eq!(header(&fleet), words);
}

#[test]
fn panels_stand_two_in_a_row() {
    let mut fleet = Fleet::new(&dump(&three()), QUESTION);
    let hogs = ["x", "y", "z"].map(|pod| {
        let mut hog = fleet.rows[0].clone();
        hog.labels.insert("pod".to_owned(), pod.to_owned());
        hog
    });
    fleet.rows.splice(0..0, hogs);
    let board: serde_json::Value = serde_json::from_str(&fleet.dashboard()).unwrap();
    let at = |panel: &serde_json::Value| {
        let place = &panel["gridPos"];
        (place["x"].as_u64().unwrap(), place["y"].as_u64().unwrap())
    };
    let places: Vec<_> = board["panels"].as_array().unwrap().iter().map(at).collect();
    assert_eq!(places, [(0, 0), (12, 0), (0, 8), (12, 8), (0, 16)]);
}

/// Two replicas of `web` are one series for Prometheus: 500 pods gave 16 equal alerts and 415 equal
/// panels.
#[test]
fn replicas_have_one_rule_and_one_panel() {
    let mut fleet = Fleet::new(&dump(&three()), QUESTION);
    let mut second = fleet.rows[1].clone();
    second.labels.insert("pod".to_owned(), "web-1".to_owned());
    second.name = "shop/web-1/web".to_owned();
    second.enough.as_mut().unwrap().limit.quota_ns = Some(399_000_000);
    fleet.rows.push(second);
    let rules: serde_json::Value = serde_json::from_str(&fleet.rules()).unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), 1);
    let summary = &rules[0]["annotations"]["summary"];
    let told =
        "shop/web-1/web and 1 more of its selector is throttled more often than forecast for 3990m";
    assert_eq!(summary, told);
    let board: serde_json::Value = serde_json::from_str(&fleet.dashboard()).unwrap();
    let titles: Vec<_> = board["panels"].as_array().unwrap().iter().collect();
    assert_eq!(titles.len(), 2, "hog and web");
    let title = titles[1]["title"].as_str().unwrap();
    assert!(
        title.starts_with("shop/web-0/web and 1 more of its selector: 500m"),
        "{title}"
    );
}

#[test]
fn between_what_the_easiest_and_the_hardest_want_nothing_is_told() {
    let fleet = Fleet::new(&dump(&three()), QUESTION);
    let enough = |row: usize| fleet.cells(&fleet.rows[row])[6..8].to_vec();
    assert_eq!(fleet.rows[0].verdict, Verdict::Record);
    let hog = enough(0);
    assert!(hog[0].contains(" … ") && hog[1].is_empty(), "{hog:?}");
    let web = enough(1);
    assert!(!web[0].contains('…') && web[1].contains('…'), "{web:?}");
}

/// The order in which a server answers changes nothing, nor does the number of CPUs that work on
/// it.
#[test]
fn the_order_of_series_changes_nothing() {
    let [idle, web, hog] = three();
    let forward = Fleet::new(&dump(&[idle.clone(), web.clone(), hog.clone()]), QUESTION);
    let backward = Fleet::new(&dump(&[hog, web, idle]), QUESTION);
    assert_eq!(forward.json(), backward.json());
}
