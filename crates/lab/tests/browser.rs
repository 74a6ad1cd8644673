//! Pages in a real browser. Where there is none (Debian: `apt-get install chromium`) these tests say so and pass.
//!
//! Chromium prints the document as it is after the page's script has run; what its console says goes to standard error.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use schedcast_lab::experiment::Experiment;
use schedcast_lab::question::{Columns, Question, Subject};
use schedcast_lab::report;
use schedcast_lab::serve::Server;
use schedcast_lab::simulator::Simulator;

const EXPERIMENT: &str = r#"
title = "Burst under a limit"
[machine]
preset = "hwp-desktop-8"
[kernel]
version = "6.12"
[cgroup."/test"]
"cpu.max" = "30000 100000"
[[program]]
run = "schbench-classic -m 1 -t 3 -r 4 -c 60000 -R 4"
cgroup = "/test"
[run]
duration = "4s"
seeds = 2
"#;

fn browser() -> Option<&'static str> {
    let found = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok());
    if found.is_none() {
        eprintln!("skipped: no Chromium on this machine");
    }
    found
}

fn question(directory: &Path) -> (Question, Experiment) {
    let path = directory.join("exp.toml");
    std::fs::write(&path, EXPERIMENT).unwrap();
    let question = Question {
        subject: Subject::File { path, only: None },
        cgroup: None,
        columns: Columns::default(),
        seeds: None,
        duration: None,
        measured: false,
    };
    let experiment = question.experiment().unwrap();
    (question, experiment)
}

/// The document at `url` after its script, and what the browser had to say.
fn open(browser: &str, url: &str, directory: &Path, more: &[&str]) -> (String, String) {
    let profile = format!("--user-data-dir={}", directory.join("profile").display());
    let always = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        "--log-level=0",
        "--virtual-time-budget=20000",
        "--timeout=60000",
        "--dump-dom",
    ];
    let Output { stdout, stderr, .. } = Command::new(browser)
        .args(always)
        .arg(profile)
        .args(more)
        .arg(url)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(stdout), text(stderr))
}

/// What the page's own console said.
fn console(said: &str) -> Vec<&str> {
    said.lines()
        .filter(|line| line.contains("CONSOLE"))
        .collect()
}

fn page(directory: &Path) -> PathBuf {
    let (question, experiment) = question(directory);
    let gathered = report::gather(&question, &experiment, &Simulator::new(), &|| {}).unwrap();
    let data = report::data::report(gathered, &experiment.scenarios);
    let path = directory.join("report.html");
    std::fs::write(&path, report::page(&data, None)).unwrap();
    path
}

#[test]
fn a_page_draws_itself_without_complaint_and_without_network() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let url = format!("file://{}", page(directory.path()).display());
    for dark in [&[][..], &["--force-dark-mode"][..]] {
        let (document, said) = open(browser, &url, directory.path(), dark);
        assert_eq!(console(&said), Vec::<&str>::new());
        for id in [
            "table",
            "latency",
            "periods",
            "timeline",
            "waiting",
            "overheads",
            "hardware",
            "variants",
        ] {
            assert!(
                document.contains(&format!("<section id=\"{id}\"")),
                "{id} is missing"
            );
        }
        assert!(document.contains("Burst under a limit</h1>"));
        assert!(
            document.matches("<canvas").count() >= 4,
            "plots and timeline are drawn"
        );
        assert!(
            !document.contains("id=\"quota\""),
            "nothing to set on a page that nobody serves"
        );
        for label in [
            "aria-labelledby=\"table-title\"",
            "role=\"img\"",
            "scope=\"col\"",
            "<html lang=\"en\"",
        ] {
            assert!(document.contains(label), "{label}");
        }
    }
}

#[test]
fn the_policy_of_a_page_forbids_the_network() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = page(directory.path());
    // A page that was tampered with: the browser itself refuses what it would load.
    let text = std::fs::read_to_string(&path).unwrap();
    let tampered = text.replace(
        "<div id=\"page\">",
        "<img src=\"http://127.0.0.1:9/x.png\"><div id=\"page\">",
    );
    assert_ne!(text, tampered);
    std::fs::write(&path, tampered).unwrap();
    let url = format!("file://{}", path.display());
    let (_, said) = open(browser, &url, directory.path(), &[]);
    assert!(
        console(&said)
            .iter()
            .any(|line| line.contains("Content Security Policy")),
        "{said}"
    );
}

#[test]
fn controls_of_a_served_page_change_the_numbers() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (question, _) = question(directory.path());
    let server = Server::new(question, Simulator::new(), 0, 2, String::new()).unwrap();
    let stop = AtomicBool::new(false);
    let address = server.address();
    let (plain, set) = std::thread::scope(|scope| {
        let served = scope.spawn(|| server.serve(&stop));
        let see = |settings: &str| {
            let url = format!("http://{address}/{settings}");
            open(browser, &url, directory.path(), &[])
        };
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (see(""), see("#quota_us=100000&burst_us=50000"))
        }));
        stop.store(true, Ordering::Relaxed);
        served.join().unwrap().unwrap();
        seen.unwrap()
    });
    for (document, said) in [&plain, &set] {
        assert_eq!(console(said), Vec::<&str>::new());
        for control in [
            "quota", "period", "burst", "weight", "kernel", "cpus", "seeds",
        ] {
            assert!(document.contains(&format!("id=\"{control}\"")), "{control}");
        }
    }
    assert!(!plain.0.contains("what you set"));
    assert!(set.0.contains("what you set"), "{}", set.0.len());
    let sentence = |document: &str| {
        let start = document.find("id=\"sentence\">").unwrap();
        document[start..].split("</p>").next().unwrap().to_string()
    };
    assert_ne!(sentence(&plain.0), sentence(&set.0));
}
