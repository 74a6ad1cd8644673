//! Objects of the trees that are at hand.

use schedcast_tree::{BuildError, Builder, config::Config, trees};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

fn skip<T>(why: &str) -> Option<T> {
    eprintln!("skipped: {why}");
    None
}

fn find(version: &str) -> Option<PathBuf> {
    let folder = trees::folder();
    let folder = folder.display();
    trees::find(version).or_else(|| {
        skip(&format!(
            "no tree of {version} in {folder} (SCHEDCAST_TREES)"
        ))
    })
}

/// The object of a tree built by a configuration, or why the test is skipped.
pub(crate) fn object(version: &str, config: Config) -> Option<PathBuf> {
    build(&find(version)?, config)
}

/// The object of a tree with more text at the end of files of `kernel/sched`. The patched tree has
/// a fixed place, so that its object is cached.
#[allow(dead_code, reason = "not every test patches")]
pub(crate) fn patched(
    version: &str,
    name: &str,
    patch: &[(&str, &str)],
    config: Config,
) -> Option<PathBuf> {
    let tree = find(version)?;
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("linux-{version}-{name}"));
    drop(fs::remove_dir_all(&copy));
    let mut from = tree.clone();
    let mut to = copy.clone();
    for below in ["kernel", "sched", ""] {
        fs::create_dir_all(&to).unwrap();
        for entry in fs::read_dir(&from).unwrap().flatten() {
            if entry.file_name() != below {
                symlink(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
        from.push(below);
        to.push(below);
    }
    for (file, more) in patch {
        let text = fs::read_to_string(from.join(file)).unwrap() + more;
        fs::remove_file(to.join(file)).unwrap();
        fs::write(to.join(file), text).unwrap();
    }
    build(&copy, config)
}

fn build(tree: &Path, config: Config) -> Option<PathBuf> {
    let built = Builder::new(tree, config).and_then(|builder| builder.object());
    match built {
        Ok(object) => Some(object),
        Err(error @ (BuildError::Machine(_) | BuildError::NoProgram(..))) => {
            skip(&error.to_string())
        }
        Err(error) => panic!("{error}"),
    }
}
