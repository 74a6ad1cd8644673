//! Questions: what each makes of a file, a command and a recording.

use super::*;
use crate::comparison::Tier;
use crate::error::Source;
use schedcast_base::assert_contains;
use schedcast_workload::replay::ClientLoop;

fn set(argument: &str) -> Setting {
    Setting::Set(argument.to_string())
}

fn question(subject: Subject) -> Question {
    Question::of(subject)
}

fn recorded(text: &str) -> Subject {
    Subject::Recording(Recorded {
        folder: "recordings/pg".to_string(),
        layer: document::parse(&Source::new("cgroups.json", text)).unwrap(),
        length_ns: 29_500_000_000,
        tier: Tier::Trace,
        measured: None,
        seen: Box::default(),
        named: Vec::new(),
        asked: None,
        notes: Vec::new(),
    })
}

const ONE_LIMITED: &str = "[machine]\ncpus = 2\n[kernel]\nversion = \"6.18.44\"\n\
    [cgroup.\"/pg\"]\n\"cpu.cfs_quota_us\" = \"50000\"\n[cgroup.\"/free\"]\n\"cpu.shares\" = \"1024\"\n";

#[test]
fn what_if_columns_start_with_what_was_recorded() {
    let mut question = question(recorded(ONE_LIMITED));
    question.columns = Columns {
        leading: vec![
            set("cpu.max=60000 100000"),
            Setting::Flag {
                flag: "--kernel",
                key: ["kernel", "version"],
                argument: "6.12".into(),
            },
        ],
        variants: vec![("more".to_string(), vec![set("cpu.max.burst=50000")])],
    };
    question.duration = Some("5s".to_string());
    let experiment = question.experiment().unwrap();
    let columns: Vec<_> = experiment
        .scenarios
        .iter()
        .map(|scenario| {
            let group = &scenario.cgroups["/pg"];
            let version = scenario.kernel.version.to_string();
            (
                scenario.name.as_str(),
                version,
                group.limits.quota_us.unwrap(),
                group.limits.burst_us,
            )
        })
        .collect();
    assert_eq!(
        columns,
        [
            (AS_RECORDED, "6.18.44".to_string(), 50_000, 0),
            (
                "cpu.max=60000 100000 version=6.12",
                "6.12".to_string(),
                60_000,
                0
            ),
            ("more", "6.18.44".to_string(), 50_000, 50_000),
        ]
    );
    assert!(
        experiment
            .scenarios
            .iter()
            .all(|scenario| scenario.duration_ns == Some(5_000_000_000))
    );
    assert_eq!(question.target().unwrap().as_deref(), Some("/pg"));
}

#[test]
fn how_clients_ask_holds_for_every_column() {
    let mut question = question(recorded(ONE_LIMITED));
    let client = |how: &str| set(&format!("{CLIENTS}={how}"));
    question.columns.leading = vec![client("closed"), set("cpu.max=60000 100000")];
    let experiment = question.experiment().unwrap();
    let columns: Vec<_> = experiment
        .scenarios
        .iter()
        .map(|one| (one.name.as_str(), one.adjusts().next().unwrap().client_loop))
        .collect();
    let closed = ClientLoop::Closed;
    assert_eq!(
        columns,
        [(AS_RECORDED, closed), ("cpu.max=60000 100000", closed)]
    );
}

#[test]
fn a_replay_lasts_no_longer_than_its_recording() {
    let lasts = |duration: &str| {
        let mut question = question(recorded(ONE_LIMITED));
        question.duration = Some(duration.to_string());
        question.experiment().unwrap().scenarios[0].duration_ns
    };
    assert_eq!(lasts("29s"), Some(29_000_000_000));
    assert_eq!(lasts("500s"), None, "all of its 29.5 s");
}

#[test]
fn of_several_limited_groups_one_must_be_named() {
    let text = format!("{ONE_LIMITED}[cgroup.\"/b\"]\n\"cpu.cfs_quota_us\" = 70000\n");
    let mut question = question(recorded(&text));
    let found = question.experiment().unwrap().scenarios.len();
    assert_eq!(found, 1, "nobody asked for one");
    question.columns.leading = vec![set("cpu.max=60000")];
    let error = question.experiment().unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("--cgroup: /b, /pg"), "{error}");
    question.cgroup = Some("/b".to_string());
    assert_eq!(
        question.experiment().unwrap().scenarios[1].cgroups["/b"]
            .limits
            .quota_us,
        Some(60_000)
    );
}

#[test]
fn the_group_that_was_named_when_recording_is_meant() {
    let meant = |asked: &str| {
        let mut subject = recorded(ONE_LIMITED);
        if let Subject::Recording(recorded) = &mut subject {
            recorded.asked = Some(asked.to_string());
        }
        question(subject).target().unwrap()
    };
    assert_eq!(meant("/free").as_deref(), Some("/free"), "without a limit");
    assert_eq!(meant("/pg").as_deref(), Some("/pg"));
    assert_eq!(meant("/gone").as_deref(), Some("/pg"), "the limited one");
}

#[test]
fn groups_that_were_not_recorded_are_refused() {
    let mut question = question(recorded(ONE_LIMITED));
    question.columns.leading = vec![set("cgroup.\"/pq\".\"cpu.max\"=60000")];
    let error = question.experiment().unwrap_err();
    assert_eq!(
        error.to_string(),
        "--set:1:1: the recording has no cgroup `/pq` (the nearest cgroup is `/pg`)"
    );
    question.columns.leading = vec![set("cpu.max=60000")];
    question.cgroup = Some("/other/group".to_string());
    let error = question.experiment().unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert_eq!(
        error.to_string(),
        "--cgroup:1:1: the recording has no cgroup `/other/group` (valid names are `/free`, `/pg`)"
    );
    question.columns.leading.clear();
    assert!(question.experiment().is_err(), "without a setting too");
}

#[test]
fn groups_that_the_file_does_not_have_are_refused() {
    let text = "[cgroup.\"/web\"]\n\"cpu.max\" = \"50000 100000\"\n";
    let mut question = question(Subject::text("exp.toml", text, ""));
    question.columns.leading = vec![set("cpu.max=60000")];
    question.cgroup = Some("/wbe".to_string());
    assert_eq!(
        question.experiment().unwrap_err().to_string(),
        "--cgroup:1:1: the experiment has no cgroup `/wbe` (the nearest valid name is `/web`)"
    );
    question.cgroup = Some("/web".to_string());
    assert!(question.experiment().is_ok());
}

#[test]
fn settings_of_a_command_hold_for_every_column() {
    let words = ["stress-ng", "--cpu", "2"].map(String::from).to_vec();
    let mut question = question(Subject::Command(words));
    question.cgroup = Some("/test".to_string());
    question.columns = Columns {
        leading: vec![set("cpu.max=50000")],
        variants: vec![("burst".to_string(), vec![set("cpu.max.burst=10000")])],
    };
    question.seeds = Some(3);
    let experiment = question.experiment().unwrap();
    assert_eq!(experiment.seeds, 3);
    let names: Vec<&str> = experiment
        .scenarios
        .iter()
        .map(|scenario| scenario.name.as_str())
        .collect();
    assert_eq!(names, ["run", "burst"]);
    let kernel = |name: &str| {
        let setting = Setting::Flag {
            flag: "--kernel",
            key: ["kernel", "version"],
            argument: name.to_string(),
        };
        (name.to_string(), vec![setting])
    };
    let mut of_kernels = question.clone();
    of_kernels.columns.variants = vec![kernel("6.1"), kernel("6.12")];
    let scenarios = of_kernels.experiment().unwrap().scenarios;
    let names: Vec<&str> = scenarios.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(
        names,
        ["6.1", "6.12"],
        "the default kernel is not asked for"
    );
    // `--kernel 6.1 --variant x --kernel 6.12`
    let (_, first) = of_kernels.columns.variants.remove(0);
    of_kernels.columns.leading.extend(first);
    let scenarios = of_kernels.experiment().unwrap().scenarios;
    let versions = scenarios.iter().map(|one| one.kernel.version.to_string());
    assert_eq!(versions.collect::<Vec<_>>(), ["6.1", "6.12"]);
    let limits: Vec<_> = experiment
        .scenarios
        .iter()
        .map(|scenario| {
            let limits = scenario.cgroups["/test"].limits;
            (limits.quota_us, limits.burst_us)
        })
        .collect();
    assert_eq!(limits, [(Some(50_000), 0), (Some(50_000), 10_000)]);
}

#[test]
fn a_recording_of_an_unknown_kernel_is_simulated_on_the_one_that_is_named() {
    let old = ONE_LIMITED.replace("6.18.44", "3.10.0-1160.el7");
    let mut question = question(recorded(&old));
    let error = question.experiment().unwrap_err();
    assert_contains(&error, "recorded on kernel `3.10.0-1160.el7`");
    let flag = Setting::Flag {
        flag: "--kernel",
        key: ["kernel", "version"],
        argument: "5.10".to_string(),
    };
    question.columns.leading = vec![set("cpu.max=60000"), flag];
    let scenarios = question.experiment().unwrap().scenarios;
    let column = |one: &Scenario| (one.name.clone(), one.kernel.version.to_string());
    let columns: Vec<(String, String)> = scenarios.iter().map(column).collect();
    let names = [AS_RECORDED, "cpu.max=60000"].map(|name| (name.to_string(), "5.10".into()));
    assert_eq!(columns, names);
}

#[test]
fn an_experiment_is_no_profile() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("exp.toml");
    std::fs::write(&path, "[[program]]\nrun = \"hackbench -g 1\"\n").unwrap();
    let error = question(Subject::Profile(path)).experiment().unwrap_err();
    assert!(error.to_string().contains("not a profile"), "{error}");
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn one_variant_of_a_file_can_be_chosen() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("exp.toml");
    std::fs::write(
        &path,
        "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n",
    )
    .unwrap();
    let ask = |only: &str| {
        let only = Some(only.to_string());
        question(Subject::File {
            path: path.clone(),
            only,
        })
        .experiment()
    };
    assert_eq!(ask("b").unwrap().scenarios[0].name, "b");
    let error = ask("c").unwrap_err();
    assert_eq!(
        (error.exit_code(), error.to_string()),
        (
            2,
            "the experiment has no variant `c` (valid names are `a`, `b`)".to_string()
        )
    );
}

/// Two variants of which the second names its release, in line 6.
fn two_releases(only: Option<&str>) -> Question {
    let text = "[[program]]\nrun = \"hackbench -g 1\"\n[[variant]]\nname = \"a\"\n\
                [[variant]]\nkernel.version = \"6.5\"\nname = \"b\"\nrun.duration = \"2s\"\n";
    question(Subject::Text {
        name: "two.toml".to_owned(),
        text: text.to_owned(),
        directory: PathBuf::new(),
        only: only.map(str::to_owned),
    })
}

#[test]
fn a_setting_for_all_columns_that_a_variant_has_as_well_is_refused_at_its_line() {
    for (setting, shown) in [
        ("kernel.version=7.3", "`--set kernel.version=7.3`"),
        ("kernel.tree=/nowhere", "`--set kernel.tree=/nowhere`"),
    ] {
        let mut question = two_releases(None);
        question.columns.leading = vec![set(setting)];
        let text = question.experiment().unwrap_err().render();
        assert_contains(&text, "two.toml:6:8");
        let expected = format!("{shown} is for all columns, and the variant `b` has its own");
        assert_contains(&text, expected.as_str());
        assert_contains(
            &text,
            format!("--variant NAME {}", &shown[1..shown.len() - 1]).as_str(),
        );
    }
    let mut question = two_releases(None);
    question.columns.leading = vec![set("kernel.hz=1000")];
    question.columns.variants = vec![("c".to_owned(), vec![set("kernel.hz=100")])];
    let scenarios = question.experiment().unwrap().scenarios;
    let found: Vec<u32> = scenarios.iter().map(|one| one.kernel.hz).collect();
    assert_eq!(found, [1000, 1000, 100]);
}

#[test]
fn a_setting_for_one_variant_takes_the_place_of_its_own() {
    let mut question = two_releases(Some("b"));
    question.columns.leading = vec![set("kernel.version=6.18")];
    question.duration = Some("1s".to_owned());
    let scenarios = question.experiment().unwrap().scenarios;
    assert_eq!(scenarios.len(), 1);
    assert_eq!(scenarios[0].kernel.version.to_string(), "6.18");
    assert_eq!(scenarios[0].duration_ns, Some(1_000_000_000));
}

#[test]
fn a_setting_that_is_an_axis_is_refused() {
    let text = "[[program]]\nrun = \"hackbench -g 1\"\n[sweep]\n\"kernel.version\" = [\"6.5\"]\n";
    let mut question = question(Subject::Text {
        name: "grid.toml".to_owned(),
        text: text.to_owned(),
        directory: PathBuf::new(),
        only: None,
    });
    question.columns.leading = vec![set("kernel.version=7.3")];
    let text = question.experiment().unwrap_err().render();
    assert_contains(&text, "grid.toml:4:1");
    assert_contains(
        &text,
        "is for all columns, and [sweep] has its own `kernel.version`",
    );
}
