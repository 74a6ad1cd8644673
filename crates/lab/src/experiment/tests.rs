//! Whole experiment files: the documented example, merging, grids, timed changes, mistakes.

use super::cgroup::CgroupVersion;
use super::program::Action;
use super::*;
use schedcast_base::limits::CpuLimits;
use schedcast_base::{assert_contains, assert_starts, rows};

/// The experiment file of the user guide.
const EXAMPLE: &str = r#"title = "What a 100 ms burst buffer does to schbench under a one-CPU limit"

[machine]
preset = "generic-8"
cpus = 8

[kernel]
version = "5.14"
hz = 1000
patches = []
features = []
sched_cfs_bandwidth_slice_us = 5000

[cgroup."/test"]
"cpu.max" = "100000 100000"
"cpu.max.burst" = 0

[[program]]
run = "schbench-classic -m 1 -t 3 -r 20 -c 80000 -R 10"
cgroup = "/test"

[[variant]]
name = "no burst"

[[variant]]
name = "burst 100 ms"
[variant.cgroup."/test"]
"cpu.max.burst" = 100000

[run]
seeds = 10
duration = "20s"
"#;

fn read_with(text: &str, surroundings: &Surroundings) -> Result<Experiment> {
    read(
        &document::parse(&Source::new("exp.toml", text))?,
        surroundings,
    )
}

/// Settings of a command line over a file.
fn with_settings(settings: &[&str]) -> Surroundings {
    Surroundings {
        settings: settings.iter().copied().map(setting).collect(),
        ..Surroundings::default()
    }
}

pub(crate) fn read_text(text: &str) -> Result<Experiment> {
    read_with(text, &Surroundings::default())
}

fn refuse(text: &str) -> String {
    read_text(text).unwrap_err().to_string()
}

fn setting(argument: &str) -> Table {
    document::parse_setting(&Source::of_command_line("--set", argument), Some("/test")).unwrap()
}

fn names(experiment: &Experiment) -> Vec<&str> {
    let scenarios = experiment.scenarios.iter();
    scenarios.map(|scenario| scenario.name.as_str()).collect()
}

fn bursts(experiment: &Experiment) -> Vec<u64> {
    experiment
        .scenarios
        .iter()
        .map(|scenario| scenario.cgroups["/test"].limits.burst_us)
        .collect()
}

#[test]
fn the_documented_example_gives_two_scenarios() {
    let experiment = read_text(EXAMPLE).unwrap();
    assert!(experiment.title.starts_with("What a 100 ms burst"));
    assert_eq!(experiment.seeds, 10);
    assert_eq!(names(&experiment), ["no burst", "burst 100 ms"]);
    assert_eq!(bursts(&experiment), [0, 100_000]);
    let [first, second] = experiment.scenarios.as_slice() else {
        panic!("two scenarios")
    };
    assert_eq!(first.cgroups["/test"].limits.quota_us, Some(100_000));
    assert_eq!((first.machine.cpus(), first.kernel.hz), (8, 1000));
    assert_eq!(first.duration_ns, Some(20_000_000_000));
    assert_eq!(first.cgroup_version, CgroupVersion::V2);
    let program = &first.programs[0];
    assert_eq!(program.name, "schbench-classic");
    assert_eq!(program.cgroup, "/test");
    let Action::Run(words) = &program.action.value else {
        panic!("it runs")
    };
    assert_eq!(words.len(), 11);
    let mut same = second.clone();
    same.name = first.name.clone();
    same.cgroups = first.cgroups.clone();
    assert_eq!(&same, first, "nothing else differs");
}

#[test]
fn every_mistake_is_told() {
    for (around, cases) in rows::sections(include_str!("mistakes.txt")) {
        for case in cases {
            let [text, expected] = rows::cells(case);
            let text = around.replace('…', text).replace("\\n", "\n");
            assert_contains(refuse(&text), expected);
        }
    }
}

#[test]
fn an_unknown_key_is_shown_with_its_line() {
    let text = EXAMPLE.replace("hz = 1000", "hzz = 1000");
    insta::assert_snapshot!(read_text(&text).unwrap_err().render(), @r"
    error: unknown key `hzz` in [kernel]
      --> exp.toml:9:1
      |
    9 | hzz = 1000
      | ^^^
    hint: the nearest valid name is `hz`
    ");
}

#[test]
fn a_burst_beyond_the_quota_points_at_the_variant() {
    let text = EXAMPLE.replace("\"cpu.max.burst\" = 100000", "\"cpu.max.burst\" = 100001");
    insta::assert_snapshot!(read_text(&text).unwrap_err().render(), @r#"
    error: EINVAL: burst 100001 us is above the quota of 100000 us (when lowering both, lower the burst first)
       --> exp.toml:28:19
       |
    28 | "cpu.max.burst" = 100001
       |                   ^^^^^^
    "#);
}

#[test]
fn a_variant_may_change_any_key() {
    let text = "[[program]]\nrun = \"hackbench -g 1\"\n\
                [[variant]]\nname = \"a\"\n\
                [[variant]]\nname = \"b\"\nmachine.cpus = 4\nkernel.version = \"6.6\"\nrun.duration = \"5ms\"\n\
                [[variant.program]]\nname = \"hackbench\"\nrun = \"hackbench -g 2\"\n\
                [[variant.program]]\nrun = \"stress-ng --cpu 1\"\n";
    let experiment = read_text(text).unwrap();
    let second = &experiment.scenarios[1];
    assert_eq!(second.machine.cpus(), 4);
    assert_eq!(second.kernel.version.to_string(), "6.6");
    assert_eq!(second.duration_ns, Some(5_000_000));
    let programs = second.programs.iter();
    let programs: Vec<&str> = programs.map(|program| program.name.as_str()).collect();
    assert_eq!(programs, ["hackbench", "stress-ng"]);
    assert_eq!(experiment.scenarios[0].programs.len(), 1);
}

#[test]
fn a_file_without_variants_has_one_named_run() {
    let experiment = read_text("[[program]]\nrun = \"hackbench\"\n").unwrap();
    assert_eq!(names(&experiment), ["run"]);
    assert_eq!(experiment.seeds, DEFAULT_SEEDS);
    assert_eq!(experiment.scenarios[0].duration_ns, None);
}

#[test]
fn a_grid_multiplies_the_variants() {
    let grid =
        "[sweep]\n'cgroup.\"/test\".\"cpu.max.burst\"' = [0, 25000]\n\"kernel.hz\" = [250, 1000]\n";
    let text = EXAMPLE.replace("[run]", &format!("{grid}[run]"));
    let experiment = read_text(&text).unwrap();
    let points = ["0 hz=250", "0 hz=1000", "25000 hz=250", "25000 hz=1000"];
    let expected = points.map(|point| format!("no burst, cpu.max.burst={point}"));
    assert_eq!(names(&experiment)[..4], expected);
    let expected = [0, 0, 25_000, 25_000, 0, 0, 25_000, 25_000];
    assert_eq!(bursts(&experiment), expected);
    let axes = experiment.axes.iter();
    let keys: Vec<&str> = axes.map(|axis| axis.key.as_str()).collect();
    assert_eq!(keys, ["cgroup.\"/test\".\"cpu.max.burst\"", "kernel.hz"]);
    let cell = &experiment.cells[6];
    let values: Vec<String> = cell.values.iter().map(sweep::short).collect();
    assert_eq!(cell.variant, "burst 100 ms");
    assert_eq!(values, ["25000", "250"]);
    let single = format!("[cgroup.\"/test\"]\n\"cpu.max\" = 50000\n{grid}");
    let single = read_text(&single).unwrap();
    assert_eq!(names(&single)[3], "cpu.max.burst=25000 hz=1000");
}

#[test]
fn an_empty_list_in_a_grid_has_a_label() {
    let grid = "[sweep]\n\"kernel.patches\" = [[], [\"vcpu-pack\"]]\n";
    let experiment = read_text(grid).unwrap();
    assert_eq!(names(&experiment), ["patches=none", "patches=vcpu-pack"]);
}

#[test]
fn a_grid_has_at_most_100000_points() {
    let line = format!("[{}]", vec!["250"; 400].join(","));
    let large = format!("[sweep]\n\"kernel.hz\" = {line}\n\"machine.cpus\" = {line}\n");
    assert!(refuse(&large).contains("more than 100000 points"));
}

#[test]
fn settings_lie_over_every_variant_and_extra_variants_over_all() {
    let extra = |name: &str, layers: &[&str]| ExtraVariant {
        name: name.to_string(),
        layers: layers.iter().copied().map(setting).collect(),
    };
    let more = extra("more", &["cpu.max=60000 100000", "cpu.max.burst=50000"]);
    let surroundings = Surroundings {
        variants: vec![more],
        ..with_settings(&["kernel.hz=250", "run.seeds=3", "run.duration=1s"])
    };
    let experiment = read_with(EXAMPLE, &surroundings).unwrap();
    assert_eq!(names(&experiment), ["no burst", "burst 100 ms", "more"]);
    let mut scenarios = experiment.scenarios.iter();
    assert!(scenarios.all(|scenario| scenario.kernel.hz == 250));
    assert_eq!(experiment.seeds, 3);
    assert_eq!(experiment.scenarios[0].duration_ns, Some(1_000_000_000));
    let limits = experiment.scenarios[2].cgroups["/test"].limits;
    assert_eq!(limits.quota_us, Some(60_000));
    assert_eq!(bursts(&experiment), [0, 100_000, 50_000]);
    let surroundings = Surroundings {
        variants: vec![extra("no burst", &[])],
        ..Surroundings::default()
    };
    let clash = read_with(EXAMPLE, &surroundings).unwrap_err();
    assert_eq!(clash.exit_code(), 2);
}

fn setting_error(argument: &str) -> String {
    let refused =
        document::parse_setting(&Source::of_command_line("--set", argument), Some("/test"));
    refused.unwrap_err().to_string()
}

#[test]
fn a_wrong_setting_points_into_the_argument() {
    let with = |argument: &str| {
        let surroundings = with_settings(&[argument]);
        read_with(EXAMPLE, &surroundings).unwrap_err().to_string()
    };
    assert!(with("cpu.max=500").starts_with("--set:1:9: EINVAL: quota 500 us"));
    assert!(with("kernel.hz=fast").starts_with("--set:1:11: expected a timer frequency"));
    assert!(with("kernel.hs=250").starts_with("--set:1:1: unknown key `hs` in [kernel]"));
    assert!(with("kernal.hz=250").contains("nearest valid name is `kernel`"));
    assert!(with("program.hackbench.cgroup=/").contains("unknown program `hackbench`"));
    assert!(setting_error("CPUQuota=60%").contains("cpu.max=60% is CPUQuota=60%"));
    assert!(setting_error("resources.limits.cpu=600m").contains("cpu.max=500m"));
    assert!(setting_error("memory.max=1G").contains("no part in scheduling"));
    assert!(
        document::parse_setting(&Source::of_command_line("--set", "machine.cpus=4"), None).is_ok()
    );
    for slip in ["cpumax=5", "cpu_max=5", "CPU.MAX=5"] {
        assert_contains(setting_error(slip), "nearest valid name is `cpu.max`");
    }
    assert!(with("kernel.patches=nosuch-patch").contains("unknown patch `nosuch-patch`"));
    let parts = ["unknown key `frobnicate`", "cpu.max, cpu.max.burst"];
    assert_contains(setting_error("frobnicate=1"), parts);
}

#[test]
fn what_lies_below_is_the_state_the_document_writes_to() {
    let below = "[machine]\ncpus = 2\n[cgroup.\"/test\"]\n\"cpu.cfs_quota_us\" = \"50000\"\n\
                 \"cpu.cfs_period_us\" = \"20000\"\n[cgroup.\"/other\"]\n\"cpu.shares\" = \"512\"\n";
    let below = document::parse(&Source::new("recording", below)).unwrap();
    let surroundings = Surroundings {
        below: vec![below],
        ..Surroundings::default()
    };
    let text = "[cgroup.\"/test\"]\n\"cpu.max\" = \"30000\"\n";
    let experiment = read_with(text, &surroundings).unwrap();
    let scenario = &experiment.scenarios[0];
    assert_eq!(scenario.machine.cpus(), 2);
    let limits = scenario.cgroups["/test"].limits;
    assert_eq!(limits, CpuLimits::new(30_000, 20_000, 0));
    assert_eq!(scenario.cgroup_version, CgroupVersion::V1);
    assert!(scenario.cgroups.contains_key("/other"));
}

#[test]
fn limits_may_change_over_time() {
    let text = "[cgroup.\"/a\"]\n\"cpu.max\" = \"50000\"\n[cgroup.\"/b\"]\n\
                [[at]]\ntime = \"5s\"\ncgroup.\"/a\".\"cpu.max.burst\" = 20000\n\
                [[at]]\ntime = \"1s\"\ncgroup.\"/a\".\"cpu.max\" = \"90000 50000\"\n\
                kernel.features = [\"NEXT_BUDDY\"]\n";
    let scenario = &read_text(text).unwrap().scenarios[0];
    let [first, second] = scenario.changes.as_slice() else {
        panic!("two changes")
    };
    let times = (first.time_ns, second.time_ns);
    assert_eq!(times, (1_000_000_000, 5_000_000_000));
    let at = |change: &TimedChange| change.cgroups["/a"].limits;
    assert_eq!(at(first), CpuLimits::new(90_000, 50_000, 0));
    let on_top = CpuLimits::new(90_000, 50_000, 20_000);
    assert_eq!(at(second), on_top, "on top of the first");
    assert!(!second.cgroups.contains_key("/b"), "only what changes");
    let changed = first.kernel.as_ref().unwrap();
    assert_eq!(changed.features[0].value, "NEXT_BUDDY");
    assert_eq!(second.kernel, None);
    let start = scenario.cgroups["/a"].limits;
    assert_eq!(start.quota_us, Some(50_000), "the start is untouched");
}

#[test]
fn a_command_line_is_an_experiment_too() {
    let words: Vec<String> = ["schbench", "-m", "1 2"].map(String::from).to_vec();
    let surroundings = with_settings(&["cpu.max=50000"]);
    let experiment = read(&command_document(&words, Some("/test")), &surroundings).unwrap();
    let scenario = &experiment.scenarios[0];
    let program = &scenario.programs[0];
    assert_eq!(program.action.value, Action::Run(words.clone()));
    assert_eq!(program.cgroup, "/test");
    assert_eq!(scenario.cgroups["/test"].limits.quota_us, Some(50_000));
    let root = read(&command_document(&words, None), &Surroundings::default()).unwrap();
    assert!(root.scenarios[0].cgroups.is_empty());
}

#[test]
fn files_that_are_not_toml_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("exp.toml");
    let load = || load(&path, Surroundings::default()).unwrap_err();
    assert!(load().to_string().starts_with("cannot read "));
    std::fs::write(&path, b"title = \"\xff\"\n").unwrap();
    assert!(load().to_string().contains("byte 9 is not UTF-8"));
    std::fs::write(&path, "title = \n").unwrap();
    assert!(load().to_string().contains("exp.toml:1:"));
    assert_eq!(load().exit_code(), 3);
}

/// Whatever is done to a file, the answer is an experiment or an error with a place in it.
fn read_or_refuse(text: &str) {
    if let Err(error) = read_text(text) {
        let rendered = error.render();
        assert_starts(&rendered, "error: ");
        assert_contains(&rendered, " --> exp.toml:");
    }
}

proptest::proptest! {
    #[test]
    fn damaged_files_are_read_or_refused(
        start in 0..EXAMPLE.len(),
        length in 0..12_usize,
        insert in "[\\x00-\\x7fé\"\\[\\]=.#]{0,6}",
    ) {
        let end = (start + length).min(EXAMPLE.len());
        read_or_refuse(&format!("{}{insert}{}", &EXAMPLE[..start], &EXAMPLE[end..]));
    }

    #[test]
    fn any_setting_is_read_or_refused(argument in "\\PC{0,30}") {
        if let Ok(layer) = document::parse_setting(&Source::of_command_line("--set", argument.as_str()), Some("/test")) {
            let surroundings = Surroundings { settings: vec![layer], ..Surroundings::default() };
            let _ = read_with(EXAMPLE, &surroundings).map_err(|error| error.render());
        }
    }
}

#[test]
fn what_another_verb_takes_is_refused_with_that_verb() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("recording.json"), "{}").unwrap();
    let shown = directory.path().to_str().unwrap();
    for (path, verb) in [
        (shown, format!("what-if {shown}")),
        ("mp3.json", "run -- rt-app mp3.json".to_string()),
        ("hackbench", "run -- hackbench".to_string()),
    ] {
        let error = load(Path::new(path), Surroundings::default()).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let hint = format!("hint: type: schedcast {verb}\n");
        assert!(error.render().ends_with(&hint), "{}", error.render());
    }
}

/// Cut anywhere, with a bit or a number that is another: a place and a reason, or an experiment,
/// never a panic.
#[test]
fn damage_is_told() {
    let cuts = (0..EXAMPLE.len()).map(|at| EXAMPLE[..at].to_string());
    let flips = (0..EXAMPLE.len()).step_by(3).map(|at| {
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        bytes[at] ^= 1 << (at % 7);
        String::from_utf8(bytes).unwrap()
    });
    let digits = (0..EXAMPLE.len())
        .step_by(2)
        .filter(|at| EXAMPLE.as_bytes()[*at].is_ascii_digit());
    let numbers = digits.flat_map(|at| {
        ["-1", "0", "1e300", "nan", "9223372036854775807"]
            .map(|number| format!("{}{number}{}", &EXAMPLE[..at], &EXAMPLE[at + 1..]))
    });
    for text in cuts.chain(flips).chain(numbers) {
        read_or_refuse(&text);
    }
}

#[test]
fn a_unit_of_systemd_run_is_a_group_that_a_file_may_write_over() {
    let text = "[[program]]\nrun = \"systemd-run --scope -p CPUQuota=50% -p CPUWeight=50 hackbench -g 1\"\n";
    let path = "/system.slice/run-hackbench.scope";
    let scenario = |text: &str| read_text(text).unwrap().scenarios.remove(0);
    let one = scenario(text);
    let program = &one.programs[0];
    assert_eq!(program.name, "hackbench");
    assert_eq!(program.cgroup, path);
    assert_eq!(one.cgroups[path].limits.quota_us, Some(50_000));
    let over = format!("[cgroup.\"{path}\"]\n\"cpu.max\" = \"80%\"\n{text}");
    assert_eq!(scenario(&over).cgroups[path].limits.quota_us, Some(80_000));
    let both = format!("[cgroup.\"/a\"]\n{text}cgroup = \"/a\"\n");
    assert!(refuse(&both).contains("`systemd-run` starts its command in a group of its own"));
}

#[test]
fn a_release_takes_the_place_of_a_tree_below_it_and_the_other_way_round() {
    let folder = tempfile::tempdir().unwrap();
    let makefile = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 107\n";
    std::fs::write(folder.path().join("Makefile"), makefile).unwrap();
    let tree = folder.path().display();
    let text = format!(
        "[kernel]\ntree = \"{tree}\"\n[[variant]]\nname = \"a\"\n\
         [[variant]]\nname = \"b\"\nkernel.version = \"6.18\"\n\
         [[variant]]\nname = \"c\"\nkernel.version = \"6.18\"\nkernel.tree = \"{tree}\"\n"
    );
    let kernels = read_text(&text).unwrap().scenarios;
    let kernels = kernels.iter().map(|one| &one.kernel);
    let found: Vec<_> = kernels
        .map(|one| (one.version.to_string(), one.tree.is_some()))
        .collect();
    let expected = [("6.12.107", true), ("6.18", false), ("6.12.107", true)];
    let expected = expected.map(|(version, tree)| (version.to_owned(), tree));
    assert_eq!(found, expected);
}

/// Stars between columns were of the recorded kernel's patch, and of idle states.
#[test]
fn columns_beside_a_tree_have_what_the_tree_has() {
    let folder = tempfile::tempdir().unwrap();
    let makefile = "VERSION = 6\nPATCHLEVEL = 18\nSUBLEVEL = 15\n";
    std::fs::write(folder.path().join("Makefile"), makefile).unwrap();
    let tree = folder.path().display();
    let rules = "[machine]\npreset = \"hwp-desktop-8\"\n[kernel]\nversion = \"6.18.15\"\n\
                 recorded_patches = [\"vcpu-pack\"]\n[[variant]]\nname = \"a\"\n";
    let shown = |text: &str| {
        let first = read_text(text).unwrap().scenarios.remove(0);
        let machine = first.machine.machine;
        let patches = first.kernel.patches.into_iter().map(|one| one.value);
        (
            patches.collect::<Vec<_>>(),
            machine.idle.is_some(),
            machine.frequency.is_some(),
        )
    };
    assert_eq!(shown(rules), (vec!["vcpu-pack".to_owned()], true, true));
    let beside = format!("{rules}[[variant]]\nname = \"b\"\nkernel.tree = \"{tree}\"\n");
    assert_eq!(shown(&beside), (Vec::new(), false, false));
}
