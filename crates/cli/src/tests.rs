//! Whole command lines against a simulator whose answers are known.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use schedcast_base::{assert_contains, rows};
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::Scenario;
use schedcast_lab::experiment::program::Action;
use schedcast_lab::outcome::Outcome;
use schedcast_lab::simulate::Simulate;

/// A request takes 10 ms, and as many times longer as the quota of `/test` is below one CPU.
struct Toy;

impl Simulate for Toy {
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        let Some(program) = scenario.programs.first() else {
            return Err(Error::usage("nothing to run"));
        };
        if let Action::Run(words) = &program.action.value
            && words.iter().any(|word| word == "--unknown")
        {
            let place = &program.action.place;
            return Err(Error::input(place, "unknown flag `--unknown`"));
        }
        let group = scenario.cgroups.get("/test");
        let quota_us = group
            .and_then(|group| group.limits.quota_us)
            .unwrap_or(100_000);
        let latency_us = 10_000.0 * 100_000.0 / quota_us as f64 + 10.0 * seed as f64;
        let hz = u64::from(scenario.kernel.hz);
        let latency = match &program.action.value {
            Action::Run(_) | Action::Profile(_) => {
                (format!("{}/request_latency.p99", program.name), latency_us)
            }
            // About as recorded: a poor fit would refuse every advice.
            Action::Replay(..) => {
                let name = "postgres/activation_latency.p99".to_string();
                (name, 166_000.0 + 10.0 * seed as f64)
            }
        };
        let metrics = [latency, ("machine/wakeups".to_string(), hz as f64)];
        let mut metrics = schedcast_lab::outcome::MetricMap::from(metrics);
        if let Action::Replay(..) = &program.action.value {
            // The recording does not tell how this was, so nothing is allowed for.
            let quota_us = scenario.cgroups["/pg"].limits.quota_us.unwrap_or(200_000);
            let latency_us = 1e9 / quota_us as f64 + 10.0 * seed as f64;
            metrics.insert("postgres/reply_latency.p99.9".to_string(), latency_us);
        }
        Ok(Outcome {
            event_hash: hz * 1000 + seed,
            metrics,
            ..Outcome::default()
        })
    }
}

/// An experiment file of two variants, and the directory that holds it.
fn experiment() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("exp.toml");
    let text = "title = \"Half a CPU\"\n\
                [cgroup.\"/test\"]\n\"cpu.max\" = \"100000 100000\"\n\
                [[program]]\nrun = \"schbench-classic -m 1\"\ncgroup = \"/test\"\n\
                [[variant]]\nname = \"whole\"\n\
                [[variant]]\nname = \"half\"\n[variant.cgroup.\"/test\"]\n\"cpu.max\" = 50000\n\
                [run]\nseeds = 4\n";
    std::fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (directory, path)
}

/// Tests run in the directory of their crate; a relative path prints the same everywhere.
const POSTGRES: &str = "../../recordings/postgres-quota";

/// For command lines without an experiment file.
const NO_PATH: &str = "\0";

/// Words of a line as a shell takes them; quotes are around whole words.
fn typed(line: &str) -> Vec<String> {
    let words = |(number, part): (usize, &str)| match number % 2 {
        0 => part.split_whitespace().map(String::from).collect(),
        _ => vec![part.to_owned()],
    };
    line.split('\'').enumerate().flat_map(words).collect()
}

/// Exit code, standard output and standard error of `schedcast` with these words.
fn schedcast(words: &[impl AsRef<str>]) -> (u8, String, String) {
    let words = ["schedcast"]
        .into_iter()
        .chain(words.iter().map(AsRef::as_ref));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = crate::run(words.map(OsString::from), &Toy, &mut out, &mut err);
    let [out, err] = [out, err].map(|bytes| String::from_utf8(bytes).unwrap());
    (code, out, err)
}

/// Standard output of a command that must work, with the experiment's path as `exp.toml`.
fn output(words: &[impl AsRef<str>], path: &str) -> String {
    let (code, out, err) = schedcast(words);
    let complaints = err.lines().find(|line| !line.starts_with("note: "));
    assert_eq!((code, complaints), (0, None), "{out}");
    out.replace(path, "exp.toml")
}

/// Standard error of a command that must end with this code.
fn refused(code: u8, words: &[impl AsRef<str>]) -> String {
    let (found, _, err) = schedcast(words);
    assert_eq!(found, code, "{err}");
    err
}

/// Names of the columns of an answer in JSON; none where there is none.
fn column_names(json: &str) -> Vec<String> {
    let answer: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let columns = answer["variants"].as_array().into_iter().flatten();
    columns
        .map(|column| column["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn compare_prints_a_table() {
    let (_directory, path) = experiment();
    insta::assert_snapshot!(output(&["compare", &path], &path));
}

#[test]
fn every_format_prints() {
    let (_directory, path) = experiment();
    let with = |format: &str| output(&["compare", &path, "--format", format], &path);
    assert!(with("markdown").contains("| schbench-classic/request\\_latency.p99 (ms) |"));
    assert!(with("mmtests").contains("Amean     request_latency.p99-us"));
    assert!(with("lkp").contains("%stddev     %change"));
}

#[test]
fn settings_and_variants_keep_their_order() {
    let (_directory, path) = experiment();
    let words = typed(&format!(
        "compare {path} --cgroup /test --kernel 5.14 --variant third \
         --set cpu.max=25000 --hz 1000 --variant fourth --set cpu.max=20000 -v --seeds 2"
    ));
    insta::assert_snapshot!(output(&words, &path));
}

#[test]
fn several_values_of_one_key_are_a_column_each() {
    let (_directory, path) = experiment();
    let line = "--cgroup /test --set cpu.max=25000 --set cpu.max=20000 --json -";
    let out = output(&typed(&format!("compare {path} {line}")), NO_PATH);
    let expected = ["whole", "half", "cpu.max=25000", "cpu.max=20000"];
    assert_eq!(column_names(&out), expected);
}

#[test]
fn json_goes_where_it_is_told() {
    let (directory, path) = experiment();
    let file = directory.path().join("out.json").display().to_string();
    let table = output(&["compare", &path, "--json", &file], &path);
    assert!(table.contains("request_latency"));
    let json = std::fs::read_to_string(&file).unwrap();
    let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(parsed["schema"], "schedcast.comparison/1");
    assert_eq!(parsed["variants"][1]["name"], "half");
    let (code, out, _) = schedcast(&["compare", &path, "--json", "-"]);
    assert_eq!((code, &out), (0, &json), "JSON alone on standard output");
    let (code, out, _) = schedcast(&["compare", &path, "--format", "json"]);
    assert_eq!((code, out), (0, json), "the same by its other name");
}

#[test]
fn run_takes_a_command_without_a_file() {
    let words = typed(
        "run --cgroup /test --set 'cpu.max=50000 100000' --seeds 3 --cpus 4 -- \
         schbench-classic -m 1 -v --set",
    );
    insta::assert_snapshot!(output(&words, NO_PATH));
}

#[test]
fn a_build_of_a_release_says_what_is_simulated() {
    let said = |kernel: &str| {
        let words = typed(&format!("explain --kernel {kernel} -- hackbench -g 1 -l 5"));
        schedcast(&words).2
    };
    let note = "note: 6.18-foo is simulated as 6.18: what its builder changed is not known\n";
    assert!(said("6.18-foo").contains(note), "{}", said("6.18-foo"));
    assert!(!said("v6.18").contains("is simulated as"));
    let note = "nor is its stable level, which is not in the name: write 6.1.NNN";
    assert_contains(said("6.1.0-35-amd64"), note);
}

#[test]
fn a_column_of_a_file_that_a_kernel_asked_for_equals_is_shown_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.toml");
    let text = "[kernel]\nversion = \"6.12\"\n[[program]]\nrun = \"hackbench -g 1 -l 5\"\n";
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let columns = |kernels: &str| -> Vec<String> {
        let words = typed(&format!("compare {path} --seeds 1 {kernels} --format json"));
        let (code, out, err) = schedcast(&words);
        assert_eq!(code, 0, "{err}");
        column_names(&out)
    };
    assert_eq!(columns("--kernel 6.12 --kernel 7.3"), ["6.12", "7.3"]);
    let three = columns("--kernel 6.18 --kernel 7.3");
    assert_eq!(three, ["run", "6.18", "7.3"]);
}

#[test]
fn run_takes_one_variant_of_a_file() {
    let (_directory, path) = experiment();
    let words = ["run", &path, "--variant", "half", "--set", "kernel.hz=1000"];
    let out = output(&words, &path);
    assert!(out.contains("half") && !out.contains("whole"), "{out}");
}

#[test]
fn what_if_replays_a_recording_beside_what_was_recorded() {
    let path = POSTGRES;
    let words = typed(&format!(
        "what-if {path} --set 'cpu.max=60000 100000' --variant more --set \
         cpu.max=90000 --seeds 2"
    ));
    insta::assert_snapshot!(output(&words, NO_PATH));
}

#[test]
fn what_is_odd_about_a_recording_is_told() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join(POSTGRES);
    let directory = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(shipped).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), directory.path().join(file.file_name())).unwrap();
    }
    let meta = directory.path().join("recording.json");
    let text = std::fs::read_to_string(&meta).unwrap();
    std::fs::write(&meta, text.replace("17988", "20000")).unwrap();
    let path = directory.path().to_str().unwrap();
    let (code, out, err) = schedcast(&["what-if", path, "--set", "cpu.max=60000 100000"]);
    assert_eq!(code, 0, "{err}");
    let note = "note: `recording.json` tells of 20000 events, the trace has 17976\n";
    assert!(err.contains(note), "{err}");
    assert!(!out.contains("note"), "{out}");
}

#[test]
fn mistakes_in_files_and_settings_are_shown_at_their_place() {
    let (_directory, path) = experiment();
    let (code, out, err) = schedcast(&["compare", &path, "--set", "kernel.hz=500"]);
    assert_eq!((code, out.as_str()), (2, ""));
    insta::assert_snapshot!(err, @r"
    error: no kernel is built with HZ=500: 100, 250, 300 or 1000
      --> --set:1:11
      |
    1 | kernel.hz=500
      |           ^^^
    ");
    let err = refused(2, &["run", "--", "schbench", "--unknown"]);
    insta::assert_snapshot!(err, @r"
    error: unknown flag `--unknown`
      --> command:1:1
      |
    1 | schbench --unknown
      | ^^^^^^^^^^^^^^^^^^
    ");
}

#[test]
fn files_that_cannot_be_written_are_refused_before_anything_runs() {
    let (directory, path) = experiment();
    let folder = directory.path().display().to_string();
    let missing = format!("{folder}/none/answer");
    for flag in ["--json", "--report", "--trace"] {
        let (code, out, err) = schedcast(&["compare", &path, flag, &missing]);
        assert_eq!((code, out.as_str()), (3, ""), "{flag}");
        let expected = format!("error: cannot write {missing}: there is no folder {folder}/none\n");
        assert_eq!(err, expected, "{flag}");
        let (_, _, err) = schedcast(&["compare", &path, flag, &folder]);
        let expected = format!("error: cannot write {folder}: it is a folder\n");
        assert_eq!(err, expected);
    }
    let (_, out, err) = schedcast(&["compare", &path, "--export", &path]);
    let expected = format!("error: cannot write into {path}: it is a file\n");
    assert_eq!((out, err), (String::new(), expected));
}

#[test]
fn every_mistake_is_told() {
    let (_directory, path) = experiment();
    for case in rows::lines(include_str!("mistakes.txt")) {
        let [code, line, expected] = rows::cells(case);
        let words = line.replace("PG", POSTGRES).replace("EXP", &path);
        let words: Vec<&str> = words.split(' ').collect();
        let (found, out, err) = schedcast(&words);
        assert_eq!(
            (found.to_string().as_str(), out.as_str()),
            (code, ""),
            "{line}: {err}"
        );
        assert_contains(&err, expected);
    }
    assert_eq!(schedcast(&[""; 0]).0, 2);
    let (_, _, err) = schedcast(&["run", &path, "--groups", "1"]);
    assert!(!err.contains("COMMAND\n"), "{err}");
    for line in [
        "what-if a --slo p99<8ms",
        "compare a --client closed",
        "what-if a --quota 60000",
        "compare hackbench -g 4",
    ] {
        let (_, _, err) = schedcast(&typed(line));
        assert!(!err.contains("tip:"), "{err}");
    }
}

#[test]
fn help_fits_a_terminal_and_lists_show_names() {
    for line in ["--help", "compare --help", "run --help", "list --help"] {
        let (code, help, _) = schedcast(&typed(line));
        assert_eq!(code, 0);
        let widest = help.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(100), "{help}");
    }
    insta::assert_snapshot!("help", output(&["--help"], NO_PATH));
    insta::assert_snapshot!("help_compare", output(&["compare", "--help"], NO_PATH));
    assert_eq!(output(&["help"], NO_PATH), output(&["--help"], NO_PATH));
    let line = |line: &str| output(&typed(line), NO_PATH);
    assert_eq!(line("help compare"), line("compare --help"));
    assert_eq!(line("help -q run -- hackbench -g 1"), line("run --help"));
    assert!(line("list machines").contains("generic-8"));
    assert!(line("list patches").contains("timer-interleave"));
    assert!(line("list kernels").contains("\n6.18 "));
    assert!(line("list metrics").starts_with("METRIC"));
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(line("--version"), format!("schedcast {version}\n"));
}

#[test]
fn the_reproduce_line_is_the_command() {
    let (_directory, path) = experiment();
    let line = format!("compare {path} --cgroup /test --variant 'a b' --set 'cpu.max=5000 9000'");
    let words = typed(&line);
    let out = output(&words, &path);
    let (_, command) = out.split_once("reproduce: ").unwrap();
    assert_eq!(
        command,
        "schedcast compare exp.toml --cgroup /test --variant 'a b' \\\n           --set 'cpu.max=5000 9000'\n"
    );
    // A shell takes the lines for one command.
    let mut echo = Command::new("sh");
    echo.args(["-c", &command.replacen("schedcast", "printf '%s|'", 1)]);
    let pasted = String::from_utf8(echo.output().unwrap().stdout).unwrap();
    assert_eq!(pasted, words.join("|").replace(&path, "exp.toml") + "|");
    assert!(Path::new(&path).exists());
}

#[test]
fn advise_finds_the_smallest_limit_and_says_how_to_apply_it() {
    let path = POSTGRES;
    // Ten milliseconds over the quota's share of a CPU: 12.5 ms at 80 ms, and ten seeds add 45 us.
    let line = format!("advise {path} --slo 'reply_latency.p99.9<12.6ms' --seeds 10");
    let ticket = output(&typed(&line), NO_PATH);
    let (above, _) = ticket.split_once("\n\ncd ").unwrap();
    assert!(above.lines().count() <= 25, "{ticket}");
    // Text to be typed is not broken over lines.
    let fits = |line: &str| line.chars().count() <= 100 || line.starts_with("reproduce:");
    assert!(ticket.lines().all(fits), "{ticket}");
    insta::assert_snapshot!(ticket);
    let (code, out, _) = schedcast(&["advise", path, "--slo", "reply_latency.p99.9<900us"]);
    assert_eq!(code, 1, "half a second of quota takes 1 ms");
    assert!(
        out.contains("reply_latency.p99.9 is 5045 us without one,"),
        "{out}"
    );
}

#[test]
fn an_advice_is_written_as_json_and_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("advice.json");
    let name = file.display().to_string();
    let path = POSTGRES;
    let line = format!("advise {path} --slo 'reply_latency.p99.9<12.6ms' --json {name}");
    output(&typed(&line), NO_PATH);
    let json = std::fs::read_to_string(&file).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "schedcast.advice/1");
    assert_eq!(json["options"][0]["name"], "as recorded, simulated");
    assert_eq!(json["options"][0]["suits"], false);
    let read = schedcast_advise::read_recommendation(&file).unwrap();
    let (quota_us, period_us) = (read.limit.quota_us, read.limit.period_us);
    assert_eq!((quota_us, period_us), (Some(81_000), 100_000));
    assert_eq!(read.target, "/pg");
    assert_eq!(read.recorded.quota_us, Some(50_000));
    std::fs::write(&file, "{}").unwrap();
    let error = schedcast_advise::read_recommendation(&file).unwrap_err();
    assert_contains(&error, "advice.json: no advice: missing field");
}

#[test]
fn settings_for_a_real_group_are_refused_at_their_place() {
    let refuse = |setting: &str| refused(2, &["apply", "--cgroup", "/nosuch", "--set", setting]);
    assert_eq!(
        refuse("cpu.maxx=5000"),
        "error: no file of the cpu controller is named `cpu.maxx`\n  --> --set:1:1\n  |\n1 | cpu.maxx=5000\n  | ^^^^^^^^\n\
         hint: the nearest valid name is `cpu.max`\n"
    );
    let value = refuse("cpu.max=abc");
    assert_contains(&value, "1 | cpu.max=abc\n  |         ^^^\n");
}

#[test]
fn check_is_a_gate() {
    let path = POSTGRES;
    let (code, out, _) = schedcast(&["check", path, "--slo", "reply_latency.p99.9<15ms"]);
    assert_eq!(code, 1, "50 ms of quota take 20 ms");
    assert!(out.contains("broken") && out.contains("failed"), "{out}");
    let line = format!("check {path} --slo 'reply_latency.p99.9<15ms'");
    let words = typed(&format!("{line} --set cpu.max=90000"));
    insta::assert_snapshot!(output(&words, NO_PATH));
    let several = "--variant a --set cpu.max=90000 --variant b --set cpu.max=60000";
    let code = schedcast(&typed(&format!("{line} {several}"))).0;
    assert_eq!(code, 1, "every column must pass");
}

#[test]
fn validate_refuses_an_experiment_that_starts_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("exp.toml");
    std::fs::write(&path, "[run]\nduration = \"1s\"\n").unwrap();
    let err = refused(3, &["validate", &path.display().to_string()]);
    assert!(err.contains("`run` starts no program"), "{err}");
}

#[test]
fn a_length_is_a_duration_with_a_unit_or_a_number_of_seconds() {
    let run = |words: &[&str]| {
        let all = [&["run", "--seeds", "1"], words, &["--", "hackbench"]].concat();
        schedcast(&all)
    };
    #[derive(clap::Parser)]
    struct Only {
        #[command(flatten)]
        length: crate::arguments::Length,
    }
    for (words, time) in [
        (["--seconds", "0.5"], "0.5s"),
        (["--duration", "1ms"], "1ms"),
    ] {
        let parsed = <Only as clap::Parser>::parse_from([&["x"], &words[..]].concat());
        assert_eq!(parsed.length.time().as_deref(), Some(time));
        let (code, _, err) = run(&words);
        assert_eq!((code, err.as_str()), (0, ""));
    }
    for verb in ["run", "record", "serve", "explain"] {
        let (_, help, _) = schedcast(&[verb, "--help"]);
        assert!(help.contains("--duration <TIME>"), "{help}");
        assert!(!help.contains("--seconds"), "{help}");
    }
    let (_, help, _) = schedcast(&["profile", "--help"]);
    assert!(
        help.contains("--output <FILE>") && !help.contains("--out <"),
        "{help}"
    );
}

#[test]
fn explain_has_variants_without_settings_beside_others() {
    let words = "explain --cpus 1 --variant a --variant b --set kernel.hz=1000 --diff a b \
                 -- hackbench -g 1 -l 10";
    let words: Vec<&str> = words.split_whitespace().collect();
    let (code, out, err) = schedcast(&words);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("`a` and `b`"), "{out}");
}

#[test]
fn explain_takes_a_command_and_settings_for_a_variant_of_the_file() {
    let command = typed("explain --kind pick -- stress-ng --cpu 2 -t 1");
    let (code, out, err) = schedcast(&command);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("pick"), "{out}");
    let (_directory, path) = experiment();
    let settings = ["--variant", "half", "--set", "kernel.hz=1000"];
    let asked = |more: &[&str]| {
        let words = [&["explain", &path, "--seconds", "0.1"], &settings[..], more].concat();
        schedcast(&words)
    };
    let (code, _, err) = asked(&["--kind", "pick"]);
    assert_eq!(code, 0, "{err}");
}
