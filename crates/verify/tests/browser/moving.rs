//! The timeline in a reader's hands, many CPUs, and the page on paper.

use serde_json::Value;

use super::{browser, console, left, open, page_of_node};
use schedcast_base::{assert_contains, assert_in, assert_starts};
use schedcast_lab::question::{Question, Subject};
use schedcast_lab::simulator::Simulator;
use schedcast_present::report;

const TIMELINE: &str = include_str!("timeline.js");

/// A machine with 64 CPUs and a limited service on it.
const LARGE: &str = r#"
title = "A large machine"
[machine]
preset = "icl-2x32x2"
cpus = 64
[kernel]
version = "6.12"
[cgroup."/test"]
"cpu.max" = "300000 100000"
[[program]]
run = "schbench-classic -m 1 -t 48 -r 1 -c 20000 -s 20000"
cgroup = "/test"
[run]
duration = "500ms"
seeds = 1
"#;

/// The page of an experiment in a file.
fn page_of(text: &str, directory: &std::path::Path) -> String {
    let path = directory.join("exp.toml");
    std::fs::write(&path, text).unwrap();
    let question = Question::of(Subject::File { path, only: None });
    let experiment = question.experiment().unwrap();
    let gathered = report::gather(&question, &experiment, &Simulator::new(), None, &|| {}).unwrap();
    let data = report::data::report(gathered, &experiment.scenarios);
    report::page(&data, None)
}

fn text<'a>(found: &'a Value, pointer: &str) -> &'a str {
    found.pointer(pointer).and_then(Value::as_str).unwrap()
}

#[test]
fn the_timeline_leads_from_wait_to_wait_and_from_run_to_run() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let window = "--window-size=1280,900";
    let page = page_of_node();
    let (found, said) = left(
        browser,
        (&page, TIMELINE, "timeline-found"),
        "",
        directory.path(),
        &[window],
    );
    assert_eq!(console(&said), Vec::<&str>::new());
    assert_starts(text(&found, "/first"), "Wait 1 of the 12 longest");
    assert_starts(text(&found, "/second"), "Wait 2 of the 12 longest");
    assert_contains(text(&found, "/first"), "checkout waited");
    // The charts of periods follow.
    assert_ne!(found["range"], found["moved"]);
    assert_eq!(found["back"], "hidden");
    // Near by, threads are counted one by one.
    assert!(text(&found, "/whole").contains('.'), "{found}");
    let near = text(&found, "/near/text");
    let counts = near
        .split("threads running ")
        .nth(1)
        .unwrap_or_else(|| panic!("{found}"));
    assert!(
        !counts.contains('.') && counts.contains(", waiting "),
        "{near}"
    );
    for side in ["/near/right", "/near/down"] {
        let away = found.pointer(side).and_then(Value::as_i64).unwrap();
        assert!((-200..40).contains(&away), "{side}: {found}");
    }
    assert!(text(&found, "/sought").contains("is bright"), "{found}");
    assert!(text(&found, "/run").contains(": run "), "{found}");
    assert_ne!(found["run"], found["next"]);
    assert_starts(text(&found, "/none"), "No thread is called");
    // The wheel alone moves the page.
    assert_eq!(found["scrolls"], true);
    assert_eq!(found["zooms"], true);
    assert_ne!(found["turned"], found["moved"]);
}

#[test]
fn sixty_four_cpus_are_shown_sixteen_at_a_time() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let page = page_of(LARGE, directory.path());
    let (found, said) = left(
        browser,
        (&page, TIMELINE, "timeline-found"),
        "",
        directory.path(),
        &[],
    );
    assert_eq!(console(&said), Vec::<&str>::new());
    let choices = ["0 to 15", "16 to 31", "32 to 47", "48 to 63", "all 64"];
    assert_eq!(found["choices"], serde_json::json!(choices));
    assert!(found["height"].as_f64() < Some(500.0), "{found}");
}

#[test]
fn a_report_is_printed_on_four_pages_at_most() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.html");
    std::fs::write(&path, page_of_node()).unwrap();
    let paper = directory.path().join("report.pdf");
    let print = format!("--print-to-pdf={}", paper.display());
    let url = format!("file://{}", path.display());
    // Drawings were made for the width of the window.
    for window in ["--window-size=500,900", "--window-size=1280,900"] {
        open(browser, &url, directory.path(), &[&print, window]);
        let bytes = std::fs::read(&paper).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert_in!(text.matches("/Type /Page\n").count(), 1..=4, "{window}");
    }
}
