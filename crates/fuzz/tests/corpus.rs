//! Committed inputs of every target, and variations of them, end without a panic and in bounded
//! time.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use schedcast_fuzz::{TARGETS, Target, mutate};

/// Variations of each input of text.
const VARIATIONS: u64 = 400;
/// As `make fuzz` has it; tests run without optimisation, and the machine may be busy.
const LONGEST: Duration = Duration::from_secs(30);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn inputs(target: &Target) -> Vec<PathBuf> {
    let folder = root().join(target.name);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn tortured(target: &Target, bytes: &[u8], told: &str) {
    let begin = Instant::now();
    let run = std::panic::AssertUnwindSafe(|| (target.run)(bytes));
    let ended = std::panic::catch_unwind(run);
    assert!(ended.is_ok(), "{told}: a panic");
    assert!(begin.elapsed() < LONGEST, "{told}: {:?}", begin.elapsed());
}

#[test]
fn every_input_and_its_variations_end_without_a_panic() {
    for target in TARGETS {
        let paths = inputs(target);
        assert!(!paths.is_empty(), "{} has no input", target.name);
        for path in paths {
            let bytes = std::fs::read(&path).unwrap();
            let told = path.display().to_string();
            tortured(target, &bytes, &told);
            let seeds = if target.text { 0..VARIATIONS } else { 0..0 };
            for seed in seeds {
                let told = format!("{told}, variation {seed}");
                tortured(target, &mutate(&bytes, seed), &told);
            }
        }
    }
}

#[test]
fn no_folder_of_inputs_is_without_a_target() {
    for entry in std::fs::read_dir(root()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(schedcast_fuzz::target(&name).is_some(), "{name}");
    }
}
