//! Subjects: keys under which the figures of threads are kept.
//!
//! The name of a thread is not unique: two services of one node may both run `python3`. A subject
//! is a name that tells them apart. Three rules make it:
//!
//! * Threads of one name in one cgroup are one subject. Its name is theirs: `postgres`.
//! * Threads of one cgroup whose names differ in the number at their end only are a pool and one
//!   subject too. A star stands for the number: `worker-0` and `worker-1` are `worker-*`.
//! * A subject whose name occurs in several cgroups has its cgroup behind it: `python3@/web` and
//!   `python3@/batch`. The root cgroup is `python3@/`.
//!
//! A thread that is called `machine` or `cgroup:…`, which are subjects of their own, has `thread:`
//! before its name.
//!
//! Autogroups are no cgroups: their threads belong to the root. A recorder's threads have a subject
//! like all others; [`is_recorder`] tells them.
//!
//! # Worked example
//!
//! | cgroup | threads | subject |
//! |---|---|---|
//! | `/web` | `python3`, `python3`, `nginx` | `python3@/web`, `nginx` |
//! | `/batch` | `python3`, `worker-1`, `worker-2` | `python3@/batch`, `worker-*` |
//! | `/` | `worker-7`, `ksoftirqd/0`, `ksoftirqd/1` | `worker-7`, `ksoftirqd/*` |
//!
//! `worker-7` is the only thread of its kind in the root cgroup, so it is no pool, and its name is
//! its own. Had the root another `worker-8`, both pools would have to be told apart: `worker-*@/`
//! and `worker-*@/batch`.

use super::groups::{Group, GroupIndex};
use super::model::Thread;
use std::collections::{BTreeMap, BTreeSet};

/// Between the name and the cgroup of a subject.
const AT: &str = "@/";
/// Between a server and a kind of its clients in the subject of the figures of their requests.
const FROM: &str = " from ";
/// Characters that may stand before the number at the end of the name of a pool's thread.
const BEFORE_NUMBER: [char; 6] = ['-', '/', '_', '#', ':', ' '];
/// Programs that record. Their threads may have more behind it, as in `perf_6.1` and `perf-exec`.
const RECORDERS: [&str; 3] = ["schedcast", "perf", "trace-cmd"];

/// Whether threads of this name or subject record.
pub fn is_recorder(name: &str) -> bool {
    let rest = RECORDERS.iter().filter_map(|one| name.strip_prefix(one));
    rest.into_iter()
        .any(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// Subject of the requests of clients called `client` to `server`: `nginx from curl`.
pub(super) fn of_clients(server: &str, client: &str) -> String {
    format!("{server}{FROM}{client}")
}

/// Whether `subject` is that of the requests of one kind of clients, and of no threads.
pub fn is_of_clients(subject: &str) -> bool {
    subject.contains(FROM)
}

/// A subject's name and, where it has one, its cgroup: `python3@/web` is `python3` in `/web`.
pub fn split(subject: &str) -> (&str, Option<&str>) {
    match subject.rfind(AT) {
        Some(at) => (&subject[..at], Some(&subject[at + 1..])),
        None => (subject, None),
    }
}

/// Common part of the names of threads that may be one pool; the name itself where it has no
/// number.
fn stem(name: &str) -> &str {
    let stem = name.trim_end_matches(|last: char| last.is_ascii_digit());
    let counts = stem.len() < name.len() && stem.len() > 1 && stem.ends_with(BEFORE_NUMBER);
    if counts { stem } else { name }
}

/// The cgroup whose name tells a thread from others.
fn cgroup(groups: &[Group], group: GroupIndex) -> &str {
    let group = &groups[group.index()];
    if group.autogroup { "/" } else { &group.path }
}

/// Gives every thread its subject.
pub(super) fn assign(threads: &mut [Thread], groups: &[Group]) {
    let mut pools: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for thread in &*threads {
        let pool = (cgroup(groups, thread.group), stem(&thread.name));
        pools.entry(pool).or_default().insert(&thread.name);
    }
    let short = |thread: &Thread| {
        let stem = stem(&thread.name);
        let name = match pools[&(cgroup(groups, thread.group), stem)].len() {
            1 => thread.name.clone(),
            _ => format!("{stem}*"),
        };
        match name == "machine" || name.starts_with("cgroup:") {
            true => format!("thread:{name}"),
            false => name,
        }
    };
    let shorts: Vec<String> = threads.iter().map(short).collect();
    let mut found_in: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (thread, short) in threads.iter().zip(&shorts) {
        let cgroup = cgroup(groups, thread.group);
        found_in.entry(short).or_default().insert(cgroup);
    }
    let subjects: Vec<String> = threads
        .iter()
        .zip(&shorts)
        .map(|(thread, short)| match found_in[short.as_str()].len() {
            1 => short.clone(),
            _ => format!("{short}@{}", cgroup(groups, thread.group)),
        })
        .collect();
    for (thread, subject) in threads.iter_mut().zip(subjects) {
        thread.subject = subject;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_at_the_end_is_no_part_of_a_pools_name() {
        for (name, expected) in [
            ("worker-12", "worker-"),
            ("ksoftirqd/0", "ksoftirqd/"),
            ("asyncio_0", "asyncio_"),
            ("GC Thread#3", "GC Thread#"),
            ("kworker/0:1", "kworker/0:"),
            ("puma srv tp 001", "puma srv tp "),
            ("python3", "python3"),
            ("tokio-runtime-w", "tokio-runtime-w"),
            ("-7", "-7"),
            ("42", "42"),
        ] {
            assert_eq!(stem(name), expected, "{name}");
        }
    }

    #[test]
    fn recorders_are_known_by_name() {
        for name in "schedcast perf perf_6.1 perf-exec trace-cmd perf@/tools".split(' ') {
            assert!(is_recorder(name), "{name}");
        }
        assert!(!is_recorder("performance") && !is_recorder("nginx"));
    }

    #[test]
    fn a_subject_is_taken_apart() {
        assert_eq!(split("python3@/web/a"), ("python3", Some("/web/a")));
        assert_eq!(split("python3@/"), ("python3", Some("/")));
        assert_eq!(split("agetty@tty1"), ("agetty@tty1", None));
    }
}
