//! The shipped program on a terminal, where a progress bar is drawn while threads simulate.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far more than the command takes on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The command on a terminal of its own; `None` where util-linux' `script`, which has one, is
/// missing.
fn on_terminal(command: &str) -> Option<Child> {
    let shell = format!("{} {command}", env!("CARGO_BIN_EXE_schedcast"));
    let child = Command::new("script")
        .args(["-qec", &shell, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    child.ok()
}

#[test]
fn progress_on_a_terminal_does_not_stop_the_threads_that_report_it() {
    let Some(mut child) = on_terminal("run --seeds 8 --duration 5s -- cyclictest -t 50 -q") else {
        eprintln!("skipped: no `script` here (util-linux, Debian's bsdutils)");
        return;
    };
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("still runs after {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut seen = String::new();
    child.stdout.unwrap().read_to_string(&mut seen).unwrap();
    assert!(status.success(), "{seen}");
    assert!(seen.contains("/8 runs"), "no progress bar: {seen}");
    assert!(seen.contains("cyclictest/latency"), "no table: {seen}");
}

/// Output for a recording on terminals of four widths. `make renew` writes it anew.
#[test]
fn answers_are_set_to_the_width_of_the_terminal() {
    for (name, words) in [
        (
            "advise",
            "advise recordings/postgres-quota --slo 'p99<80ms'",
        ),
        (
            "what-if",
            "what-if recordings/postgres-quota --variant 63ms --set 'cpu.max=63ms/100ms' --variant burst --set cpu.max.burst=50ms",
        ),
    ] {
        for columns in [60, 80, 100, 160] {
            let shell = format!(
                "stty cols {columns}; NO_COLOR=1 {} {words} --seeds 3 2>/dev/null",
                env!("CARGO_BIN_EXE_schedcast")
            );
            let output = Command::new("script")
                .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
                .args(["-qec", &shell, "/dev/null"])
                .env("TERM", "xterm")
                .stdin(Stdio::null())
                .output();
            let Ok(output) = output else {
                eprintln!("skipped: no `script` here (util-linux, Debian's bsdutils)");
                return;
            };
            let text = String::from_utf8(output.stdout).unwrap().replace('\r', "");
            assert!(output.status.success(), "{text}");
            // Text to be typed or pasted is not broken over lines.
            let read = text.split("\ncgroup v1 ").next().unwrap();
            for line in read.lines().filter(|line| !line.starts_with("reproduce:")) {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
            insta::assert_snapshot!(format!("{name}_{columns}"), text);
        }
    }
}

#[test]
fn names_from_files_reach_the_terminal_without_their_escapes() {
    let folder = tempfile::tempdir().unwrap();
    // Clears the screen, sets the title, turns the rest of the line around.
    let title = r"half \u001B[2J\u001B]0;owned\u0007 \u202E a CPU";
    let file = format!(
        "title = \"{title}\"\n[cgroup.\"/a\\u001B[31m\"]\n\"cpu.max\" = \"50000 100000\"\n\
         [[program]]\nrun = \"cyclictest -t 1\"\ncgroup = \"/a\\u001B[31m\"\n\
         [run]\nduration = \"50ms\"\nseeds = 1\n"
    );
    std::fs::write(folder.path().join("good.toml"), &file).unwrap();
    std::fs::write(folder.path().join("bad.toml"), "a\u{1b}[2J = 1\n").unwrap();
    std::fs::write(folder.path().join("worse.toml"), "\"a\\u001B[2J\" = 1\n").unwrap();
    for (words, code) in [
        (["compare", "good.toml"], 0),
        (["compare", "bad.toml"], 3),
        (["compare", "worse.toml"], 3),
        (["compare", "\u{1b}[2J.toml"], 3),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_schedcast"))
            .current_dir(folder.path())
            .args(words)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        for bytes in [output.stdout, output.stderr] {
            let text = String::from_utf8(bytes).unwrap();
            let is_fine = |one: char| one == '\n' || one == '\t' || !one.is_control();
            assert!(
                text.chars().all(|one| is_fine(one) && one != '\u{202e}'),
                "{text:?}"
            );
        }
    }
}

#[test]
fn an_empty_experiment_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for text in ["", "\n# nothing yet\n"] {
        std::fs::write(folder.path().join("empty.toml"), text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_schedcast"))
            .current_dir(folder.path())
            .args(["compare", "empty.toml"])
            .output()
            .unwrap();
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{complaint}");
        assert!(complaint.contains("empty.toml is empty"), "{complaint}");
    }
}
