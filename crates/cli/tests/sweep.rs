//! A sweep that is really killed, by the real command.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// 24 points of some milliseconds each.
const GRID: &str = r#"
[machine]
cpus = 4
[cgroup."/test"]
"cpu.max" = "50000 100000"
[[program]]
run = "schbench-classic -m 1 -t 3 -r 5 -c 20000 -R 30"
cgroup = "/test"
[sweep]
'cgroup."/test"."cpu.max"' = ["30000", "50000", "70000", "max"]
'cgroup."/test"."cpu.max.burst"' = [0, 10000, 20000]
"kernel.hz" = [250, 1000]
[run]
seeds = 3
duration = "5s"
"#;

fn schedcast(directory: &Path, workers: &str, folder: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedcast"));
    command.current_dir(directory);
    command.args(["sweep", "grid.toml", "--workers", workers, "-o", folder]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn results(directory: &Path, folder: &str) -> [String; 2] {
    ["results.csv", "results.json"].map(|name| {
        let path = directory.join(folder).join(name);
        std::fs::read_to_string(path).unwrap()
    })
}

/// Whole lines of the journal.
fn finished(directory: &Path, folder: &str) -> usize {
    let journal = std::fs::read(directory.join(folder).join("journal")).unwrap_or_default();
    journal.iter().filter(|&&byte| byte == b'\n').count()
}

/// Kills `child` once `lines` points are on disk, or lets it end first.
fn kill_after(mut child: Child, directory: &Path, lines: usize) {
    while child.try_wait().unwrap().is_none() {
        if finished(directory, "killed") >= lines {
            child.kill().unwrap(); // SIGKILL
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_killed_sweep_resumes_to_the_same_bytes() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path();
    std::fs::write(directory.join("grid.toml"), GRID).unwrap();
    let whole = schedcast(directory, "1", "whole").output().unwrap();
    assert!(whole.status.success(), "{whole:?}");
    assert_eq!(finished(directory, "whole"), 24);

    let mut before = 0;
    for _ in 0..3 {
        let child = schedcast(directory, "2", "killed").spawn().unwrap();
        kill_after(child, directory, before + 3);
        let after = finished(directory, "killed");
        assert!(after >= before + 3 || after == 24, "{before} {after}");
        before = after;
    }
    let resumed = schedcast(directory, "2", "killed").output().unwrap();
    assert!(resumed.status.success(), "{resumed:?}");
    let said = String::from_utf8(resumed.stderr).unwrap();
    assert_eq!(
        said,
        format!("resuming killed: {before} of 24 points are finished\n")
    );
    assert_eq!(finished(directory, "killed"), 24, "no point ran twice");
    assert_eq!(results(directory, "killed"), results(directory, "whole"));
}

#[test]
fn a_file_without_a_grid_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let text = "[[program]]\nrun = \"hackbench\"\n";
    std::fs::write(temporary.path().join("grid.toml"), text).unwrap();
    let output = schedcast(temporary.path(), "1", "x").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said.starts_with("error: the experiment has no [sweep]\n"),
        "{said}"
    );
    assert!(!temporary.path().join("x").exists());
}

#[test]
fn a_mistyped_metric_is_refused_before_anything_runs() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path();
    std::fs::write(directory.join("grid.toml"), GRID).unwrap();
    for (metric, near) in [
        (
            "schbench-classic/request_latncy.p99",
            "`request_latency.p99`",
        ),
        ("cgroup:/tets/nr_throttled", "`/test`"),
        ("schbenh-classic/rps", "`schbench-classic`"),
    ] {
        let mut command = schedcast(directory, "1", "never");
        command.args(["--metric", metric]);
        let refused = command.output().unwrap();
        let complaint = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains(near), "{complaint}");
        assert!(!directory.join("never").exists());
    }
}
