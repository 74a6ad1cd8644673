//! Trees of files that tests read in place of `/proc`, `/sys` and control groups.

use std::fs;
use std::path::Path;

/// Writes a file of such a tree, and the folders above it.
pub(crate) fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
