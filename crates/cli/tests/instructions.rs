//! How many instructions the shipped program needs: a slower hot loop fails here, on a busy machine
//! too.
//!
//! `make instructions` builds the release binary and runs this test with it, under valgrind's
//! callgrind. Counts repeat to the last digits, so a count may grow by [`GROWTH_MAX`] only. After a
//! change that is worth more, or that saves some, `make renew` writes the table anew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// By how much a count may grow. Compilers of one version give the same code; C libraries pick
/// other copy loops.
const GROWTH_MAX: f64 = 0.03;
/// (name, arguments)
const RUNS: [(&str, &str); 3] = [
    (
        "periodic",
        "run --seeds 1 --duration 1s -- cyclictest -t 50 -i 5000 -d 100",
    ),
    (
        "hackbench",
        "run --seeds 1 --duration 20ms -- hackbench -p -g 4 -l 1000",
    ),
    ("replay", "what-if recordings/postgres-quota --seeds 1"),
];

fn table() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/instructions.toml")
}

/// Instructions of one run; `None` without valgrind.
fn count(binary: &str, arguments: &str) -> Option<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", binary])
        .args(arguments.split(' '))
        .env("RAYON_NUM_THREADS", "1")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments}: {text}");
    let line = text
        .lines()
        .find_map(|line| line.split("Collected :").nth(1));
    let number = line.and_then(|number| number.trim().parse().ok());
    Some(number.unwrap_or_else(|| panic!("callgrind tells no count: {text}")))
}

#[test]
#[ignore = "needs a release binary: make instructions"]
fn instructions_do_not_grow() {
    let binary = std::env::var("SCHEDCAST").expect("SCHEDCAST names the binary");
    let mut counts = BTreeMap::new();
    for (name, arguments) in RUNS {
        let Some(count) = count(&binary, arguments) else {
            eprintln!("skipped: no valgrind");
            return;
        };
        counts.insert(name.to_owned(), count);
    }
    if std::env::var_os("RENEW").is_some() {
        let text = toml::to_string(&counts).unwrap();
        std::fs::write(table(), text).unwrap();
        return;
    }
    let text = std::fs::read_to_string(table()).unwrap();
    let known: BTreeMap<String, u64> = toml::from_str(&text).unwrap();
    for (name, count) in counts {
        let allowed = known[&name] as f64 * (1.0 + GROWTH_MAX);
        assert!(
            count as f64 <= allowed,
            "{name}: {count} instructions, {} are known",
            known[&name]
        );
    }
}
