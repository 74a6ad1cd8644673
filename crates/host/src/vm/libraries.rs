//! Files that a program needs beside itself: its shared libraries and its loader.
//!
//! `ldd` says which, one a line: `libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x…)`, and the
//! loader without an arrow.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{HostError, Result};

/// Finds a program as a shell does.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        let path = std::path::absolute(program).ok()?;
        return path.is_file().then_some(path);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    // Root's tools, which some users do not have in their path.
    folders.extend(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from));
    let mut paths = folders.into_iter().map(|folder| folder.join(program));
    paths.find(|path| path.is_file())
}

/// Libraries and loader of `program`; none for a static one.
///
/// # Errors
/// No `ldd`, or a library that is missing here too.
pub(super) fn of(program: &Path) -> Result<Vec<PathBuf>> {
    let asked = Command::new("ldd").arg(program).output();
    let asked = asked.map_err(|error| {
        HostError::unavailable(
            "ldd",
            format!("{error}; on Debian it is in the package libc-bin"),
        )
    })?;
    // A static program is an error to ldd and needs nothing.
    parse(&String::from_utf8_lossy(&asked.stdout), program)
}

fn parse(text: &str, program: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for line in text.lines() {
        let (name, place) = line.split_once("=>").unwrap_or(("", line));
        let place = place.split(" (").next().unwrap_or_default().trim();
        if place == "not found" {
            return Err(HostError::unavailable(
                "a shared library",
                format!("{} needs {}", program.display(), name.trim()),
            ));
        }
        if place.starts_with('/') {
            found.push(PathBuf::from(place));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_loader_are_read() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                    \tlibm.so.6 => /lib/x/libm.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found = parse(text, Path::new("a")).unwrap();
        let expected = ["/lib/x/libm.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(found, expected.map(PathBuf::from));
        assert!(
            parse("\tstatically linked\n", Path::new("a"))
                .unwrap()
                .is_empty()
        );
        let error = parse("\tliba.so => not found\n", Path::new("/x")).unwrap_err();
        assert!(error.to_string().contains("/x needs liba.so"), "{error}");
    }

    #[test]
    fn a_shell_is_found_with_what_it_needs() {
        let shell = find("sh").unwrap();
        assert!(of(&shell).unwrap().iter().all(|library| library.is_file()));
        assert_eq!(find("schedcast-no-such-program"), None);
    }
}
