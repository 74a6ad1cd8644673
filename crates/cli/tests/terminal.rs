//! The shipped program on a terminal, where a progress bar is drawn while threads simulate.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far more than the command takes on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The command on a terminal of its own; `None` where util-linux' `script`, which has one, is missing.
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
