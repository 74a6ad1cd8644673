//! Files that a command writes are complete or absent: on a full disk the file from before stays.

use schedcast_base::assert_contains;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const SCHEDCAST: &str = env!("CARGO_BIN_EXE_schedcast");
const OLD: &str = "what was there before";
const HACKBENCH: &str = "--cpus 2 --seeds 1 --duration 50ms -- hackbench -g 1 -f 2 -l 100";
const TRACE: &str = "\
          prog-12      [000] d..2. 1.000000: sched_switch: prev_comm=prog prev_pid=12 prev_prio=120 \
prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
        <idle>-0       [000] dNh4. 1.010000: sched_wakeup: comm=prog pid=12 prio=120 target_cpu=000
        <idle>-0       [000] d..2. 1.010100: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
prev_state=R ==> next_comm=prog next_pid=12 next_prio=120
";

/// Runs `schedcast WORDS` in `folder`, where no file may grow beyond `blocks` of 512 bytes.
fn on_a_small_disk(folder: &Path, blocks: u32, words: &str) -> Output {
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec {SCHEDCAST} {words}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(folder);
    shell.output().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_disk_that_is_full_leaves_the_file_of_before() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("in.txt"), TRACE.repeat(40)).unwrap();
    let commands = [
        ("run --json out", HACKBENCH),
        ("run --report out", HACKBENCH),
        ("run --trace out", HACKBENCH),
        ("convert --to perf-script in.txt out", ""),
        ("calibrate --figures no-such-file -o out", ""),
    ];
    for (verb, rest) in commands {
        fs::write(folder.join("out"), OLD).unwrap();
        let output = on_a_small_disk(folder, 1, &format!("{verb} {rest}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{verb}");
        if !verb.contains("no-such-file") {
            assert_contains(&said, "cannot write out: File too large");
        }
        assert_eq!(
            fs::read_to_string(folder.join("out")).unwrap(),
            OLD,
            "{verb}"
        );
        assert_eq!(names(folder), ["in.txt", "out"], "{verb}");
    }
}

#[test]
fn a_full_device_is_an_error_and_not_silence() {
    let folder = tempfile::tempdir().unwrap();
    let words = format!("run --json /dev/full {HACKBENCH}");
    let output = on_a_small_disk(folder.path(), 1 << 20, &words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_contains(&said, "cannot write /dev/full: No space left");
}

#[test]
fn a_folder_that_takes_no_files_is_told_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let words = "run --json /proc/sys/out.json -- hackbench -g 20 -l 1000000";
    let output = on_a_small_disk(folder.path(), 1 << 20, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot write /proc/sys/out.json"), "{said}");
}

/// Both go to one place, one after the other, as in a terminal.
#[test]
fn standard_output_by_its_name_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let words = format!("run --json /dev/stdout {HACKBENCH} > both");
    let output = on_a_small_disk(folder.path(), 1 << 20, &words);
    assert!(output.status.success(), "{output:?}");
    let both = fs::read_to_string(folder.path().join("both")).unwrap();
    let (table, json) = both.split_at(both.find("\n{\n").unwrap() + 1);
    assert!(serde_json::from_str::<serde_json::Value>(json).is_ok());
    assert!(table.contains("hackbench"), "{table}");
    assert_eq!(names(folder.path()), ["both"]);
}
