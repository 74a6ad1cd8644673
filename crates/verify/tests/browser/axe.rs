//! axe-core on every kind of page. It is no part of the repository: `npm install` in
//! crates/present/report brings it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use schedcast_lab::simulator::Simulator;
use schedcast_present::serve::Server;
use schedcast_verify::studies;
use schedcast_verify::studies::bench::Bench;
use schedcast_verify::studies::report::Report;

use super::{DARK, browser, get, node, open, page_of_node};

const RUN: &str = include_str!("axe.js");

/// The checker as a script.
fn checker() -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../present/report/node_modules/axe-core/axe.min.js");
    let found = std::fs::read_to_string(path).ok();
    if found.is_none() {
        eprintln!("skipped: no axe-core; `npm install` in crates/present/report brings it");
    }
    found
}

/// The elements of a page that break one of axe's rules.
fn broken(
    browser: &str,
    page: &str,
    checker: &str,
    directory: &Path,
    more: &[&str],
) -> Vec<String> {
    let checker = checker.replace("</script", "<\\/script");
    let scripts = format!("<script>{checker}</script><script>{RUN}</script></body>");
    let path = directory.join("checked.html");
    std::fs::write(&path, page.replace("</body>", &scripts)).unwrap();
    let url = format!("file://{}", path.display());
    let (document, said) = open(browser, &url, directory, more);
    let found = document.split("<pre id=\"axe\">").nth(1);
    let found = found.and_then(|rest| rest.split("</pre>").next());
    let found = found.unwrap_or_else(|| panic!("axe ran: {said}"));
    let found: serde_json::Value = serde_json::from_str(&found.replace("&gt;", ">")).unwrap();
    assert!(found["passes"].as_u64() > Some(5), "{found}");
    let rows = found["broken"].as_array().unwrap().iter();
    rows.map(|row| row.as_str().unwrap().to_string()).collect()
}

/// Report, served page, a study and the list of studies, at the widths of a telephone and a laptop,
/// light and dark.
#[test]
fn axe_finds_nothing_on_any_page() {
    let (Some(browser), Some(checker)) = (browser(), checker()) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::new(node::question(2), Simulator::new(), 0, 2, Vec::new()).unwrap();
    let stop = AtomicBool::new(false);
    let served = std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve(&stop));
        let served = std::panic::catch_unwind(|| get(server.address()));
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        served.unwrap()
    });
    let finished = || ();
    let bench = Bench::new(true, &finished);
    let study = studies::named(&["burst".to_string()]).unwrap()[0];
    let report = Report::new(true, vec![studies::reproduce(study, &bench).unwrap()]);
    let pages = [
        ("report", page_of_node()),
        ("serve", served),
        ("study", report.studies[0].page()),
        ("studies", report.index_page()),
    ];
    for (name, page) in &pages {
        for window in ["--window-size=390,844", "--window-size=1280,900"] {
            for scheme in [&[window][..], &[window, DARK][..]] {
                let found = broken(browser, page, &checker, directory.path(), scheme);
                assert_eq!(found, Vec::<String>::new(), "{name}, {scheme:?}");
            }
        }
    }
}

#[test]
fn axe_sees_a_page_without_landmarks() {
    let (Some(browser), Some(checker)) = (browser(), checker()) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let page = "<html lang=\"en\"><title>t</title><body><h1>t</h1><input></body></html>";
    let found = broken(browser, page, &checker, directory.path(), &[]);
    let has = |rule: &str| found.iter().any(|one| one.starts_with(rule));
    assert!(has("landmark-one-main") && has("label: input"), "{found:?}");
}
