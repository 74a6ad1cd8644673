//! Pages in a real browser. Where there is none (Debian: `apt-get install chromium`) these tests
//! say so and pass.
//!
//! Chromium prints the document as it is after the page's script has run; what its console says
//! goes to standard error.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use schedcast_base::assert_starts;
use schedcast_lab::experiment::Experiment;
use schedcast_lab::question::{Question, Subject};
use schedcast_lab::simulator::Simulator;
use schedcast_present::report;
use schedcast_present::serve::Server;

#[path = "browser/axe.rs"]
mod axe;
#[path = "browser/moving.rs"]
mod moving;
#[path = "browser/node.rs"]
mod node;

const EXPERIMENT: &str = include_str!("../../present/src/report/experiment.toml");
/// Script that audits the page.
const AUDIT: &str = include_str!("browser/audit.js");
/// Script that reports the texts and the reactions of the page.
const LOOK: &str = include_str!("browser/look.js");
/// Has the browser say that its user prefers dark pages.
const DARK: &str = "--blink-settings=preferredColorScheme=0";

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
    let question = Question::of(Subject::File { path, only: None });
    let experiment = question.experiment().unwrap();
    (question, experiment)
}

/// The document at `url` after its script, and what the browser had to say.
fn open(browser: &str, url: &str, directory: &Path, more: &[&str]) -> (String, String) {
    let profile = format!("--user-data-dir={}", directory.join("profile").display());
    let always = "--headless --no-sandbox --disable-gpu --enable-logging=stderr --log-level=0 \
                  --virtual-time-budget=20000 --timeout=60000 --dump-dom";
    let Output { stdout, stderr, .. } = Command::new(browser)
        .args(always.split(' '))
        .arg(profile)
        .args(more)
        .arg(url)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(stdout), text(stderr))
}

/// Messages of the page's own console.
fn console(said: &str) -> Vec<&str> {
    said.lines()
        .filter(|line| line.contains("CONSOLE"))
        .collect()
}

fn page(directory: &Path) -> PathBuf {
    let (question, experiment) = question(directory);
    let gathered = report::gather(&question, &experiment, &Simulator::new(), None, &|| {}).unwrap();
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
    for dark in [&[][..], &[DARK][..]] {
        let (document, said) = open(browser, &url, directory.path(), dark);
        assert_eq!(console(&said), Vec::<&str>::new());
        let sections = "periods table latency timeline waiting overheads hardware variants";
        for id in sections.split(' ') {
            let is_there = document.contains(&format!("<section id=\"{id}\""));
            assert!(is_there, "{id} is missing");
        }
        assert!(document.contains("Burst under a limit</h1>"));
        // Plots and timeline are drawn, and nobody serves the page: nothing can be set.
        assert!(document.matches("<canvas").count() >= 4);
        assert!(!document.contains("id=\"quota\""));
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

/// Findings of the audit on the page at `url`.
fn audit(browser: &str, url: &str, directory: &Path, more: &[&str]) -> serde_json::Value {
    let (document, said) = open(browser, url, directory, more);
    assert_eq!(console(&said), Vec::<&str>::new());
    let found = document.split("<pre id=\"audit\">").nth(1);
    let found = found.and_then(|rest| rest.split("</pre>").next());
    serde_json::from_str(found.expect("the audit ran")).unwrap()
}

fn assert_passes(found: &serde_json::Value, controls: u64) {
    let none = serde_json::json!([]);
    let faults = "/contrasts/faint /colours/faint /controls/unnamed /controls/unseen \
                  /pictures/unnamed";
    for row in faults.split(' ') {
        assert_eq!(found.pointer(row), Some(&none), "{row}: {found}");
    }
    let count = |row: &str| found.pointer(row).and_then(serde_json::Value::as_u64);
    assert!(count("/contrasts/texts") > Some(50), "{found}");
    assert!(count("/colours/checked") > Some(20), "{found}");
    assert!(count("/controls/controls") >= Some(controls), "{found}");
    assert!(count("/pictures/pictures") >= Some(4), "{found}");
    assert_eq!(found["wide"], false, "nothing lies beyond the edge");
}

/// Text has 4.5:1 against what is behind it (large text 3:1), lines and areas 3:1, every control a
/// name and a visible outline when it has the focus; in light and dark.
#[test]
fn pages_can_be_read_and_used_from_the_keyboard() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = page(directory.path());
    let text = std::fs::read_to_string(&path).unwrap();
    let watched = format!("<script>{AUDIT}</script></body>");
    std::fs::write(&path, text.replace("</body>", &watched)).unwrap();
    let url = format!("file://{}", path.display());
    for dark in [false, true] {
        let scheme = if dark { &[DARK][..] } else { &[] };
        for window in ["--window-size=1180,900", "--window-size=640,900"] {
            let more = [scheme, &[window]].concat();
            let found = audit(browser, &url, directory.path(), &more);
            assert_eq!(found["dark"], dark);
            assert_passes(&found, 5);
        }
    }
}

/// Answer of a server to a plain request.
fn get(address: std::net::SocketAddr) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let request = format!("GET / HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    body.to_string()
}

/// The committed page is the one that its sources build.
#[test]
fn the_built_page_is_that_of_its_sources() {
    let present = Path::new(env!("CARGO_MANIFEST_DIR")).join("../present");
    let sources = present.join("report");
    if !sources.join("node_modules/esbuild").exists() {
        eprintln!("skipped: no esbuild; `npm install` in crates/present/report brings it");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut build = Command::new("npm");
    build.args(["run", "build"]).current_dir(&sources);
    let built = build.env("OUT", directory.path()).output().unwrap();
    assert!(built.status.success(), "{built:?}");
    for name in ["report.js", "report.css"] {
        let fresh = std::fs::read(directory.path().join(name)).unwrap();
        let kept = std::fs::read(present.join("src/report/page").join(name)).unwrap();
        assert!(fresh == kept, "npm run build makes another {name}");
    }
}

/// The audit finds what is wrong with a page.
#[test]
fn the_audit_sees_faint_text_and_hidden_focus() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad.html");
    let bad =
        "<p style=\"color: #999\">faint</p><button style=\"outline: none\">dim</button><input>";
    let text = format!(
        "<body style=\"background: #fff\"><div id=\"page\">{bad}</div><script>{AUDIT}</script></body>"
    );
    std::fs::write(&path, text).unwrap();
    let url = format!("file://{}", path.display());
    let found = audit(browser, &url, directory.path(), &[]);
    assert_eq!(found["contrasts"]["faint"][0], "p 2.85");
    assert_eq!(found["controls"]["unnamed"][0], "input");
    let unseen = found["controls"]["unseen"][0].as_str().unwrap();
    assert!(unseen.starts_with("button"), "{found}");
}

#[test]
fn the_policy_of_a_page_forbids_the_network() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = page(directory.path());
    // A page that was tampered with: the browser itself refuses what it would load.
    let text = std::fs::read_to_string(&path).unwrap();
    let (begin, picture) = (
        "<div id=\"page\">",
        "<img src=\"http://127.0.0.1:9/x.png\">",
    );
    let tampered = text.replace(begin, &format!("{picture}{begin}"));
    assert_ne!(text, tampered);
    std::fs::write(&path, tampered).unwrap();
    let url = format!("file://{}", path.display());
    let (_, said) = open(browser, &url, directory.path(), &[]);
    let mut lines = console(&said).into_iter();
    let is_refused = lines.any(|line| line.contains("Content Security Policy"));
    assert!(is_refused, "{said}");
}

#[test]
fn controls_of_a_served_page_change_the_numbers() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (question, _) = question(directory.path());
    let server = Server::new(question, Simulator::new(), 0, 2, Vec::new()).unwrap();
    let stop = AtomicBool::new(false);
    let address = server.address();
    let (plain, set) = std::thread::scope(|scope| {
        let served = scope.spawn(|| server.serve(&stop));
        let see = |settings: &str| {
            let url = format!("http://{address}/{settings}");
            open(browser, &url, directory.path(), &[])
        };
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let text = get(address);
            let watched = format!("<script>{AUDIT}</script></body>");
            let path = directory.path().join("served.html");
            std::fs::write(&path, text.replace("</body>", &watched)).unwrap();
            let url = format!("file://{}", path.display());
            let found = audit(browser, &url, directory.path(), &[]);
            assert_passes(&found, 12);
            let pins = "&pin=quota_us%3D80000&pin=quota_us%3D90000%26burst_us%3D10000";
            let set = format!("#quota_us=100000&burst_us=50000{pins}");
            (see(""), see(&set))
        }));
        stop.store(true, Ordering::Relaxed);
        served.join().unwrap().unwrap();
        seen.unwrap()
    });
    for (document, said) in [&plain, &set] {
        assert_eq!(console(said), Vec::<&str>::new());
        for control in "quota period burst weight kernel cpus seeds".split(' ') {
            assert!(document.contains(&format!("id=\"{control}\"")), "{control}");
        }
    }
    // The panel names its column before anything is set.
    let simulated = "<h3>what you set</h3>";
    assert!(!plain.0.contains(simulated));
    assert!(set.0.contains(simulated), "{}", set.0.len());
    // Pinned settings are columns, and stand in the panel.
    for pinned in ["80 ms in 100 ms", "90 ms in 100 ms, burst 10 ms"] {
        let is_new = !plain.0.contains(pinned) && set.0.contains(pinned);
        assert!(is_new, "{pinned}");
    }
    assert_eq!(set.0.matches("aria-label=\"unpin ").count(), 2);
    let sentence = |document: &str| {
        let start = document.find("id=\"sentence\">").unwrap();
        document[start..].split("</p>").next().unwrap().to_string()
    };
    assert_ne!(sentence(&plain.0), sentence(&set.0));
}

/// The page of the node with ten neighbours.
fn page_of_node() -> String {
    let question = node::question(3);
    let experiment = question.experiment().unwrap();
    let simulator = Simulator::new();
    let mut gathered = report::gather(&question, &experiment, &simulator, None, &|| {}).unwrap();
    gathered
        .add_frontier(&question, &experiment, &simulator, &|| {})
        .unwrap();
    let data = report::data::report(gathered, &experiment.scenarios);
    report::page(&data, None)
}

/// Findings on the page with this text, opened with `hash` behind its address.
fn looked(
    browser: &str,
    text: &str,
    hash: &str,
    directory: &Path,
    more: &[&str],
) -> (serde_json::Value, String) {
    left(browser, (text, LOOK, "looked"), hash, directory, more)
}

/// Content that a script leaves in an element of the page with this text, and the messages of the
/// browser.
fn left(
    browser: &str,
    (page, script, element): (&str, &str, &str),
    hash: &str,
    directory: &Path,
    more: &[&str],
) -> (serde_json::Value, String) {
    let path = directory.join("looked.html");
    let watched = format!("<script>{script}</script></body>");
    std::fs::write(&path, page.replace("</body>", &watched)).unwrap();
    let url = format!("file://{}{hash}", path.display());
    let (document, said) = open(browser, &url, directory, more);
    let found = document.split(&format!("<pre id=\"{element}\">")).nth(1);
    let found = found.and_then(|rest| rest.split("</pre>").next());
    let found = found.unwrap_or_else(|| panic!("the page was looked at: {said}"));
    let found = found
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    (serde_json::from_str(&found).unwrap(), said)
}

fn text<'a>(found: &'a serde_json::Value, key: &str) -> &'a str {
    found[key].as_str().unwrap()
}

#[test]
fn the_first_screen_is_about_the_target_among_ten_neighbours() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let page = page_of_node();
    for window in ["390,844", "640,900", "1280,900", "1920,1080"] {
        let window = format!("--window-size={window}");
        let hash = "#promise=p95<400ms";
        let (found, said) = looked(browser, &page, hash, directory.path(), &[&window]);
        assert_eq!(console(&said), Vec::<&str>::new());
        let words = text(&found, "words");
        assert!(words.contains("/tenants/checkout"), "{window}: {words}");
        assert!(words.contains("checkout/activation_latency.p99"), "{words}");
        // A neighbour is told of only where it pays for a limit.
        let others = words.lines().filter(|line| !line.contains(" pays"));
        for line in others {
            let named = node::NEIGHBOURS.iter().find(|name| line.contains(**name));
            assert_eq!(named, None, "{window}: {line}");
        }
        assert_eq!(
            found["wide"], false,
            "{window}: nothing lies beyond the edge"
        );
        assert_eq!(found["loaded"], serde_json::json!([]));
        let saved = found["saved"].to_string();
        for file in ["frontier.svg blob:", "frontier.png data:image/png"] {
            assert!(saved.contains(file), "{saved}");
        }
        let frontier = &found["frontier"];
        assert!(frontier["lines"].as_u64() >= Some(3), "{found}");
        assert_eq!(frontier["bands"], 3, "{found}");
        if window.contains("1280") || window.contains("1920") {
            assert!(frontier["top"].as_u64() < Some(700), "{window}: {frontier}");
        }
        let answer = text(&found, "answer");
        assert_starts(answer, "The cheapest of these limits");
        let points: Vec<&str> = found["points"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|one| one.as_str())
            .collect();
        let is_named = points.iter().all(|point| point.contains("p95"));
        assert!(is_named, "{points:?}");
        assert_ne!(points[0], points[1]);
    }
}

/// A server that refuses, or that is gone: the numbers on the page are not those of what is set,
/// and the page says so.
#[test]
fn results_are_marked_out_of_date_after_an_error_and_the_panel_stays() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::new(node::question(2), Simulator::new(), 0, 2, Vec::new()).unwrap();
    let stop = AtomicBool::new(false);
    let address = server.address();
    let (page, refused, answered) = std::thread::scope(|scope| {
        let served = scope.spawn(|| server.serve(&stop));
        let see = |hash: &str| {
            open(
                browser,
                &format!("http://{address}/{hash}"),
                directory.path(),
                &[],
            )
            .0
        };
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // The kernel refuses a burst that is larger than the quota.
            (
                get(address),
                see("#quota_us=67000&burst_us=90000"),
                see("#quota_us=67000"),
            )
        }));
        stop.store(true, Ordering::Relaxed);
        served.join().unwrap().unwrap();
        seen.unwrap()
    });
    let banner = "role=\"alert\">Out of date: ";
    assert!(refused.contains(banner), "the kernel's reason is told");
    let classes = |document: &str| {
        let rest = document
            .split("<main id=\"results\" class=\"")
            .nth(1)
            .unwrap();
        rest.split('"').next().unwrap().to_string()
    };
    assert!(classes(&refused).contains("stale"));
    assert!(!classes(&answered).contains("stale"));
    assert!(!answered.contains(banner));
    assert!(answered.contains("<h3>what you set</h3>"));
    assert!(answered.contains("echo 67000 &gt; cpu.cfs_quota_us"));
    // A page opened from a file has no server that answers.
    let hash = "#quota_us=67000";
    let (found, _) = looked(
        browser,
        &page,
        hash,
        directory.path(),
        &["--window-size=1280,900"],
    );
    assert_eq!(found["stale"], true);
    let said = text(&found, "banner");
    assert!(said.contains("the server does not answer"), "{said}");
    let panel = found["panel"].as_array().unwrap();
    assert_eq!(panel[0], panel[1], "the panel stays where it is");
}
