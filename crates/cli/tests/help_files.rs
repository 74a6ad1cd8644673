//! Man pages and completions.

use std::process::Command;

#[test]
fn every_verb_has_a_page_and_every_shell_its_completions() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedcast"));
    let done = command
        .arg("help-files")
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(done.success());
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(read("man1/schedcast.1").contains("Forecast what the Linux CPU scheduler will do"));
    let sweep = read("man1/schedcast-sweep.1");
    assert!(
        sweep.contains("\\-\\-workers") && sweep.contains("journal"),
        "{sweep}"
    );
    for name in ["schedcast.bash", "_schedcast", "schedcast.fish"] {
        let completions = read(&format!("completions/{name}"));
        assert!(completions.contains("what-if"), "{name}");
    }
}
