//! Kernel trees on the command line. Tests that need a tree or a compiler skip, saying so, where
//! there is none.

mod command;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use command::{schedcast, text};
use schedcast_base::assert_contains;
use schedcast_tree::trees;
use schedcast_workload::programs::split as typed;

/// The tree of 6.12.107 where `validation/trees` puts it.
fn tree() -> Option<PathBuf> {
    let tree = trees::find("6.12.107");
    if tree.is_none() {
        let folder = trees::folder();
        eprintln!("skipped: no tree of 6.12.107 in {}", folder.display());
    }
    tree.filter(|_| cfg!(target_arch = "x86_64"))
}

/// A tree of links to another one in which `kernel/sched` has files of its own.
fn edited(tree: &Path, folder: &Path) {
    let link_all = |from: &Path, to: &Path, but: &str| {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().flatten() {
            if entry.file_name() != but {
                symlink(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    };
    link_all(tree, folder, "kernel");
    link_all(&tree.join("kernel"), &folder.join("kernel"), "sched");
    link_all(
        &tree.join("kernel/sched"),
        &folder.join("kernel/sched"),
        "fair.c",
    );
    let fair = fs::read_to_string(tree.join("kernel/sched/fair.c")).unwrap();
    fs::write(
        folder.join("kernel/sched/fair.c"),
        fair + "int broken(void) { return no_such_name; }\n",
    )
    .unwrap();
}

#[test]
fn a_folder_without_a_kernel_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for arguments in [
        &["tree", "build", path][..],
        &["run", "--tree", path, "--", "hackbench", "-g", "1"][..],
    ] {
        let output = schedcast(arguments);
        let said = text(&output.stderr);
        assert!(!output.status.success());
        assert_contains(said, ["is no kernel tree", "top Makefile"]);
    }
}

/// A makefile is enough of a tree to be refused.
#[test]
fn what_looks_into_the_rules_is_refused_beside_a_tree_before_anything_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| {
        let tree = folder.path().join(name);
        fs::create_dir(&tree).unwrap();
        fs::write(
            tree.join("Makefile"),
            "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 107\n",
        )
        .unwrap();
        tree.display().to_string()
    });
    for (line, expected) in [
        (
            format!("compare --tree {a} --tree {b} --bisect -- hackbench -g 1"),
            "--bisect and --check-determinism need the built-in rules",
        ),
        (
            format!("run --tree {a} --check-determinism -- hackbench -g 1"),
            "--bisect and --check-determinism need the built-in rules",
        ),
        (
            format!("run --tree {a} --kernel 6.18 -- hackbench -g 1"),
            "`run` runs one of these: a and 6.18",
        ),
        (
            format!("run --tree {a} --set kernel.version=6.18 -- hackbench -g 1"),
            "`run` runs one of these: a and kernel.version=6.18",
        ),
    ] {
        let output = schedcast(&typed(&line));
        assert!(!output.status.success());
        assert_contains(text(&output.stderr), expected);
    }
}

#[test]
fn what_belongs_to_the_rules_is_refused_at_its_place() {
    let Some(tree) = tree() else { return };
    let tree = tree.to_str().unwrap();
    for (setting, expected) in [
        ("kernel.patches=[\"-burst\"]", "a kernel tree decides"),
        ("kernel.base_slice_ns=1000000", "cannot be set yet"),
    ] {
        let output = schedcast(&["run", "--tree", tree, "--set", setting, "--", "hackbench"]);
        let said = text(&output.stderr);
        assert_contains(said, expected);
    }
}

#[test]
fn a_tree_that_does_not_build_shows_the_compilers_error_and_its_place() {
    let Some(tree) = tree() else { return };
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("linux-broken");
    edited(&tree, &broken);
    let output = Command::new(env!("CARGO_BIN_EXE_schedcast"))
        .args(["tree", "build", broken.to_str().unwrap(), "--hz", "1000"])
        .env("XDG_CACHE_HOME", folder.path().join("cache"))
        .output()
        .unwrap();
    let said = text(&output.stderr);
    if said.contains("needs `") {
        eprintln!("skipped: {said}");
        return;
    }
    assert!(!output.status.success());
    let fair = fs::read_to_string(broken.join("kernel/sched/fair.c")).unwrap();
    let place = format!("kernel/sched/fair.c:{}:", fair.lines().count());
    let errors: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("no_such_name"))
        .collect();
    assert!(
        matches!(errors[..], [only] if only.starts_with(&place)),
        "{said}"
    );
}

#[test]
fn two_trees_are_two_columns() {
    let Some(tree) = tree() else { return };
    let tree = tree.to_str().unwrap();
    let output = schedcast(&typed(&format!(
        "compare --tree {tree} --kernel 6.12.107 --hz 1000 \
         --cpus 2 --seeds 2 -- hackbench -g 1 -f 2 -l 50"
    )));
    let said = text(&output.stderr);
    if said.contains("needs `") {
        eprintln!("skipped: {said}");
        return;
    }
    let table = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert_contains(&table, ["linux-6.12.107", "hackbench/time"]);
    let header = table
        .lines()
        .find(|line| line.trim_end().ends_with("6.12.107"));
    let names: Vec<&str> = header.unwrap_or_default().split_whitespace().collect();
    assert_eq!(names, ["linux-6.12.107", "6.12.107"], "{table}");
    assert!(said.contains("note: "), "{said}");
}
