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

/// Programs with patterns of their threads' names, of which no two let the same names through, and
/// the names of the other programs.
pub(super) fn told_apart(programs: Vec<(String, String)>) -> (Vec<(String, String)>, Vec<String>) {
    let begin = |pattern: &str| pattern.trim_end_matches('*').to_owned();
    let meet = |one: &str, other: &str| {
        let (one, other) = (begin(one), begin(other));
        one.starts_with(&other) || other.starts_with(&one)
    };
    let is_alone = |(name, threads): &(String, String)| {
        let mut others = programs.iter().filter(|(other, _)| other != name);
        others.all(|(_, other)| !meet(threads, other))
    };
    let (told, alike): (Vec<_>, Vec<_>) = programs.iter().cloned().partition(is_alone);
    (told, alike.into_iter().map(|(name, _)| name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::assert_contains;

    #[test]
    fn programs_of_one_name_are_not_told_apart() {
        let named = |names: &[(&str, &str)]| -> Vec<(String, String)> {
            let name = |(name, threads): &(&str, &str)| (name.to_string(), threads.to_string());
            names.iter().map(name).collect()
        };
        let programs = [("a", "hackbench*"), ("b", "hackbench*"), ("c", "schbench*")];
        let (told, alike) = told_apart(named(&programs));
        assert_eq!(told, named(&[("c", "schbench*")]));
        assert_eq!(alike, ["a", "b"]);
        let (told, alike) = told_apart(named(&[("a", "sh*"), ("b", "short*"), ("c", "x*")]));
        assert_eq!(
            (told.len(), alike.len()),
            (1, 2),
            "`short` begins with `sh`"
        );
    }

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
        assert_contains(&message, "`schedcast-no-such-program` is not installed");
        let message = find("/nowhere/at/all").unwrap_err().render();
        assert!(message.contains("give its path"), "{message}");
    }
}
