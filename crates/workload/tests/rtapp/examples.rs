//! The example files of Debian's rt-app package all load, and compile if they can run. Skipped
//! where the package is not installed.

use std::path::{Path, PathBuf};

use schedcast_sim::Workload;
use schedcast_workload::rtapp::compile::{RtAppOptions, compile};
use schedcast_workload::rtapp::load;

const INSTALLED: &str = "/usr/share/doc/rt-app";

fn json_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            json_files(&path, found);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            found.push(path);
        }
    }
}

#[test]
fn installed_examples_load_and_compile() {
    let mut files = Vec::new();
    json_files(Path::new(INSTALLED), &mut files);
    if files.is_empty() {
        eprintln!("skipped: no example files in {INSTALLED} (Debian package `rt-app`)");
        return;
    }
    files.sort();
    let mut refused = Vec::new();
    for path in &files {
        let file = load(path).unwrap_or_else(|error| panic!("{error}"));
        if file.unsupported(false).is_empty() {
            let mut workload = Workload::default();
            compile(&file, &RtAppOptions::new(8), &mut workload)
                .unwrap_or_else(|error| panic!("{error}"));
            workload
                .check(8)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        } else {
            refused.push(
                path.strip_prefix(INSTALLED)
                    .expect("inside")
                    .display()
                    .to_string(),
            );
        }
    }
    // Pieces for merge.py and the grammar of before 2014; everything else runs.
    let expected = [
        "examples/merge/global.json",
        "examples/merge/resources.json",
        "examples/merge/thread0.json",
        "examples/merge/thread1.json",
        "examples/merge/thread2.json",
        "examples/merge/thread3.json",
        "taskset.json",
    ];
    assert_eq!(refused, expected);
}

#[test]
fn a_missing_file_is_named() {
    let error = load(Path::new("/nonexistent/w.json")).expect_err("missing");
    assert_eq!(
        error.to_string(),
        "/nonexistent/w.json: No such file or directory (os error 2)"
    );
}
