//! Which package has a tool, and what its threads are called.

use std::path::Path;

use schedcast_lab::error::{Error, Result};

/// Programs and the Debian packages that have them.
const PACKAGES: [(&str, &str); 10] = [
    ("rt-app", "rt-app"),
    ("hackbench", "rt-tests"),
    ("cyclictest", "rt-tests"),
    ("perf", "linux-perf"),
    ("stress-ng", "stress-ng"),
    ("dbench", "dbench"),
    ("netperf", "netperf"),
    ("sysbench", "sysbench"),
    ("pgbench", "postgresql"),
    ("wrk", "wrk nginx-light"),
];

/// Names of threads that differ from the program's.
const THREADS: [(&str, &str); 2] = [
    ("perf-bench-messaging", "sched-messaging"),
    ("perf-bench-pipe", "sched-pipe"),
];

/// Longest name of a thread.
const COMM_BYTES: usize = 15;

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Whether a shell would find the program.
fn is_installed(program: &str) -> bool {
    if program.contains('/') {
        return is_executable(Path::new(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| is_executable(&folder.join(program)))
}

/// Refuses a program that is not here, and says what to install.
pub(super) fn find(program: &str) -> Result<()> {
    if is_installed(program) {
        return Ok(());
    }
    let error = Error::general(format!("`{program}` is not installed on this host"));
    let package = PACKAGES.iter().find(|(name, _)| *name == program);
    Err(match (package, program) {
        (Some((_, package)), _) => error.hint(format!("on Debian: apt install {package}")),
        (None, "schbench" | "schbench-classic") => error.hint(
            "no Debian package has it: build schbench, its versions before 2023 as schbench-classic",
        ),
        _ => Error::hint(error, "give its path, or put it into a folder of $PATH"),
    })
}

/// Beginning of the names of the program's threads, as a pattern of the kernel's event filters.
pub(super) fn threads(tool: &str, program: &str) -> String {
    let known = THREADS.iter().find(|(name, _)| *name == tool);
    let base = program.rsplit('/').next().unwrap_or(program);
    let name = known.map_or(base, |(_, threads)| threads);
    let end = name.len().min(COMM_BYTES);
    format!("{}*", name.get(..end).unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_named_as_the_kernel_names_them() {
        assert_eq!(threads("hackbench", "/usr/bin/hackbench"), "hackbench*");
        assert_eq!(threads("perf-bench-pipe", "perf"), "sched-pipe*");
        assert_eq!(threads("", "a-program-of-a-long-name"), "a-program-of-a-*");
    }

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        assert!(find("sh").is_ok());
        assert!(find("/bin/sh").is_ok());
        let message = find("schedcast-no-such-program").unwrap_err().render();
        assert!(
            message.contains("`schedcast-no-such-program` is not installed"),
            "{message}"
        );
        let message = find("/nowhere/at/all").unwrap_err().render();
        assert!(message.contains("give its path"), "{message}");
    }
}
