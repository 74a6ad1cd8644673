//! Where trees of kernel sources are looked for, and where what is built of them is kept.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `SCHEDCAST_TREES` | folder with `linux-VERSION` trees | `trees` in the cache folder |
//! | `XDG_CACHE_HOME` | the cache folder is `schedcast` in it | `~/.cache` |

use std::collections::BTreeSet;
use std::fs::{self, DirEntry, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Folders that are compared. Drivers are three quarters of a tree, and of other architectures
/// nothing counts on x86.
const LOOKED_THROUGH: [&str; 17] = [
    "arch/x86",
    "block",
    "crypto",
    "drivers/base",
    "drivers/cpufreq",
    "drivers/cpuidle",
    "fs",
    "include",
    "init",
    "io_uring",
    "ipc",
    "kernel",
    "lib",
    "mm",
    "net",
    "security",
    "virt",
];

/// `$XDG_CACHE_HOME/schedcast` or `~/.cache/schedcast`.
pub(crate) fn cache_folder() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    std::env::var_os("XDG_CACHE_HOME")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
        .or_else(home)
        .unwrap_or_else(std::env::temp_dir)
        .join("schedcast")
}

/// Folder in which trees are looked for.
pub fn folder() -> PathBuf {
    std::env::var_os("SCHEDCAST_TREES")
        .filter(|folder| !folder.is_empty())
        .map_or_else(|| cache_folder().join("trees"), PathBuf::from)
}

/// The tree of a release, if it is there.
pub fn find(version: &str) -> Option<PathBuf> {
    let tree = folder().join(format!("linux-{version}"));
    tree.join("kernel/sched/core.c").is_file().then_some(tree)
}

/// The release that the makefile of a tree names, such as `6.12.107`.
pub fn version_of(tree: &Path) -> Option<String> {
    let makefile = std::fs::read_to_string(tree.join("Makefile")).ok()?;
    let value = |name: &str| {
        let line = makefile.lines().find(|line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.trim_start().starts_with('='))
        })?;
        Some(line.split_once('=')?.1.trim().to_string())
    };
    let (version, patch) = (value("VERSION")?, value("PATCHLEVEL")?);
    match value("SUBLEVEL").as_deref() {
        None | Some("" | "0") => Some(format!("{version}.{patch}")),
        Some(sub) => Some(format!("{version}.{patch}.{sub}")),
    }
}

/// Features that a tree has in `kernel/sched/features.h`, in its order.
pub fn features(tree: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(tree.join("kernel/sched/features.h")).unwrap_or_default();
    let mut names = Vec::new();
    for line in text.lines() {
        let name = line
            .strip_prefix("SCHED_FEAT(")
            .and_then(|rest| Some(rest.split_once(',')?.0.trim().to_string()));
        // Some have one line for each of two configurations.
        names.extend(name.filter(|name| !names.contains(name)));
    }
    names
}

/// Sources in which two trees differ, those that one of them lacks included. Files of one length
/// and one time of change are taken as equal.
pub fn differing(one: &Path, other: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for folder in LOOKED_THROUGH {
        compare(&[one, other], folder, &mut names);
    }
    names
}

fn compare(trees: &[&Path; 2], name: &str, differing: &mut Vec<String>) {
    let paths = trees.map(|tree| tree.join(name));
    let found = [0, 1].map(|one: usize| fs::metadata(&paths[one]).ok());
    let is_same =
        |one: &Metadata, other: &Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
    if let [Some(one), Some(other)] = &found
        && is_same(one, other)
    {
        return;
    }
    if found.iter().flatten().any(Metadata::is_dir) {
        let entries = paths.iter().filter_map(|path| fs::read_dir(path).ok());
        let entries = entries.flatten().flatten();
        let is_looked_at = |entry: &DirEntry, name: &str| {
            let is_folder = entry.file_type().is_ok_and(|kind| !kind.is_file());
            (is_folder && name != "generated") || is_source(name)
        };
        let names: BTreeSet<String> = entries
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry))
            .filter(|(name, entry)| is_looked_at(entry, name))
            .map(|(name, _)| name)
            .collect();
        for below in names {
            compare(trees, &format!("{name}/{below}"), differing);
        }
        return;
    }
    let about = found.each_ref().map(|one| {
        let one = one.as_ref()?;
        Some((one.len(), one.modified().ok()))
    });
    let lengths = about.map(|one| one.map(|(length, _)| length));
    let is_equal = || fs::read(&paths[0]).ok() == fs::read(&paths[1]).ok();
    if about[0] != about[1] && (lengths[0] != lengths[1] || !is_equal()) && is_source(name) {
        differing.push(name.to_owned());
    }
}

/// Whether a name is one of a source or of a list of options.
fn is_source(name: &str) -> bool {
    let ends = [".c", ".h", ".S"];
    let is_made = name.ends_with(".mod.c");
    let file = name.rsplit('/').next().unwrap_or(name);
    !is_made && (ends.iter().any(|end| name.ends_with(end)) || file.starts_with("Kconfig"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn trees_differ_in_sources_with_other_contents() {
        let folder = tempfile::tempdir().unwrap();
        let trees = ["a", "b"].map(|name| folder.path().join(name));
        let start = SystemTime::UNIX_EPOCH;
        for (name, texts, times) in [
            ("kernel/fork.c", ["a", "b"], [1, 2]),
            ("kernel/exit.c", ["a", "a"], [1, 2]),
            ("kernel/exit.o", ["a", "b"], [1, 2]),
            ("kernel/same_time.c", ["a", "b"], [1, 1]),
            ("include/linux/sched.h", ["a", "longer"], [1, 1]),
            ("include/generated/utsrelease.h", ["a", "b"], [1, 2]),
            ("net/ipv4/ipip.mod.c", ["a", "b"], [1, 2]),
            ("drivers/net/tun.c", ["a", "b"], [1, 2]),
            ("fs/Kconfig", ["a", "b"], [1, 2]),
            ("fs/pipe.c", ["a", "b"], [1, 2]),
            ("arch/arm64/kernel/smp.c", ["a", "b"], [1, 2]),
        ] {
            for ((tree, text), time) in trees.iter().zip(texts).zip(times) {
                let path = tree.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, text).unwrap();
                let file = fs::File::open(&path).unwrap();
                file.set_modified(start + Duration::from_secs(time))
                    .unwrap();
            }
        }
        fs::write(trees[1].join("kernel/new.c"), "").unwrap();
        let names = [
            "fs/Kconfig",
            "fs/pipe.c",
            "include/linux/sched.h",
            "kernel/fork.c",
            "kernel/new.c",
        ];
        assert_eq!(differing(&trees[0], &trees[1]), names);
        assert!(differing(&trees[0], &trees[0]).is_empty());
    }

    #[test]
    fn the_makefile_says_which_release_a_tree_is() {
        let folder = tempfile::tempdir().unwrap();
        let makefile = "# SPDX\nVERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 107\nEXTRAVERSION =\n";
        std::fs::write(folder.path().join("Makefile"), makefile).unwrap();
        assert_eq!(version_of(folder.path()).as_deref(), Some("6.12.107"));
        assert!(features(folder.path()).is_empty());
        std::fs::create_dir_all(folder.path().join("kernel/sched")).unwrap();
        let text = "/* SCHED_FEAT(A, true) */\nSCHED_FEAT(B, true)\n#else\nSCHED_FEAT(B, false)\nSCHED_FEAT( C , 1)\n";
        std::fs::write(folder.path().join("kernel/sched/features.h"), text).unwrap();
        assert_eq!(features(folder.path()), ["B", "C"]);
        std::fs::write(folder.path().join("Makefile"), "all:\n").unwrap();
        assert_eq!(version_of(folder.path()), None);
    }
}
