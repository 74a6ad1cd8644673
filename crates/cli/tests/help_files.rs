//! Man pages and completions.

mod command;

use command::{answer, schedcast, text};
use schedcast_base::assert_contains;

#[test]
fn every_verb_has_a_page_and_every_shell_its_completions() {
    let folder = tempfile::tempdir().unwrap();
    answer("help-files", &[folder.path().to_str().unwrap()]);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(read("man1/schedcast.1").contains("Forecast what the Linux CPU scheduler will do"));
    let sweep = read("man1/schedcast-sweep.1");
    assert_contains(&sweep, ["\\-\\-workers", "resumed"]);
    let explain = read("man1/schedcast-explain.1");
    let (_, notes) = explain.split_once(".SH NOTES\n.nf\n").unwrap();
    let lines: Vec<&str> = notes.lines().collect();
    assert_eq!(
        lines[1],
        "schedcast explain exp.toml \\-\\-task worker \\-\\-kind place"
    );
    assert!(!explain.contains("EXTRA"));
    for name in ["schedcast.bash", "_schedcast", "schedcast.fish"] {
        let completions = read(&format!("completions/{name}"));
        assert!(completions.contains("what-if"), "{name}");
    }
}

#[test]
fn a_full_disk_is_an_error_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("completions")).unwrap();
    let file = folder.path().join("completions/_schedcast");
    std::os::unix::fs::symlink("/dev/full", &file).unwrap();
    let output = schedcast(&["help-files", folder.path().to_str().unwrap()]);
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{complaint}");
    assert!(complaint.contains("No space left on device"), "{complaint}");
}
