//! A sweep that is really killed, by the real command.

use schedcast_base::assert_starts;
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
    assert_starts(&said, "error: the experiment has no [sweep]\n");
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

#[test]
fn parts_of_several_machines_merge_to_the_same_bytes() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path();
    std::fs::write(directory.join("grid.toml"), GRID).unwrap();
    let run = |folder: &str, more: &[&str]| {
        let done = schedcast(directory, "1", folder).args(more).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stderr).unwrap()
    };
    run("whole", &[]);
    for part in ["1/3", "2/3", "3/3"] {
        run("shared", &["--part", part]);
    }
    let parts = [1, 2, 3].map(|part| format!("shared/part-{part}-of-3"));
    assert_eq!(
        parts.each_ref().map(|part| finished(directory, part)),
        [8; 3]
    );
    let mut merge = vec!["--merge"];
    merge.extend(parts.iter().map(String::as_str));
    let said = run("shared", &merge);
    assert_eq!(said, "resuming shared: 24 of 24 points are finished\n");
    assert_eq!(results(directory, "shared"), results(directory, "whole"));
    let journal = directory.join("shared/part-2-of-3/journal");
    let mut bytes = std::fs::read(&journal).unwrap();
    bytes[30] ^= 1;
    std::fs::write(&journal, bytes).unwrap();
    let said = run("again", &merge);
    let damaged = "1 damaged line of shared/part-2-of-3/journal does not count\n";
    assert!(said.ends_with(damaged), "{said}");
    assert_eq!(results(directory, "again"), results(directory, "whole"));
}
