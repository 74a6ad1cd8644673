//! Errors on a live host, each worded so that the reader knows the remedy.

use std::io;
use std::path::{Path, PathBuf};

use schedcast_base::groups::Miss;
use thiserror::Error;

use schedcast_base::limits::LimitError;

/// Every error of this crate.
#[derive(Debug, Error)]
pub enum HostError {
    /// The kernel wants more rights than this process has.
    #[error("{action} {path} {}", rights_for(path))]
    NotPermitted {
        /// Action that failed: "creating", "writing", …
        action: &'static str,
        /// On what.
        path: PathBuf,
    },
    /// A cgroup that is not there.
    #[error("no cgroup {path}{}", .nearest.as_ref().map_or(String::new(), |near| format!("; the nearest existing one is {near}")))]
    UnknownCgroup {
        /// The path asked for, below the cpu hierarchy.
        path: String,
        /// The existing path that looks most like it.
        nearest: Option<String>,
    },
    /// A unit, container, pod, process or path that no group, or more than one, is called by.
    #[error("{miss}")]
    NoSuchGroup {
        /// Request, and why no group was chosen for it.
        miss: Miss,
        /// Advice that would help.
        hint: String,
    },
    /// A file name that is no cpu file.
    #[error("no cpu file `{name}`; {}", schedcast_base::names::suggestion(name, &crate::files::CpuFile::ALL.map(crate::files::CpuFile::name)))]
    UnknownFile {
        /// The name.
        name: String,
    },
    /// A value the kernel refused or would refuse.
    #[error("{path}: {}{}", refusal(value, rule), .parent.as_ref().map_or(String::new(), |parent| format!(", {parent}")))]
    Refused {
        /// The file written.
        path: PathBuf,
        /// The value.
        value: String,
        /// The rule it breaks.
        rule: LimitError,
        /// The group around it that the rule is about, where it is about one.
        parent: Option<Box<str>>,
    },
    /// An undo of a file that somebody else has set since.
    #[error(
        "{path}: expected `{}`, which apply wrote, or `{before}` from before it, found `{found}`: somebody else set it \
         since, and it stays as it is", written.as_deref().unwrap_or(before)
    )]
    SetByOther {
        /// The file.
        path: PathBuf,
        /// Its value.
        found: String,
        /// Its value before the first apply.
        before: String,
        /// The last value that an apply wrote, if one did.
        written: Option<String>,
    },
    /// A command that could not be started.
    #[error("cannot start {command:?}: {source}")]
    Start {
        /// The command as typed.
        command: String,
        /// Error of the system call.
        source: io::Error,
    },
    /// A kernel facility that this host lacks.
    #[error("{what} is not available here: {why}")]
    Unavailable {
        /// The facility.
        what: &'static str,
        /// Why, and what to do.
        why: String,
    },
    /// A refusal that nothing but its reader acts on.
    #[error("{0}")]
    Told(String),
    /// Any other input or output error.
    #[error("{action} {path}: {source}")]
    Io {
        /// Action that failed.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl HostError {
    pub(crate) fn start(command: String, source: io::Error) -> Self {
        Self::Start { command, source }
    }

    pub(crate) fn unavailable(what: &'static str, why: impl ToString) -> Self {
        let why = why.to_string();
        Self::Unavailable { what, why }
    }
}

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, HostError>;

/// The rights that would do: files of the kernel belong to root, but cgroups can be delegated.
fn rights_for(path: &Path) -> &'static str {
    if path.starts_with("/sys/fs/cgroup") {
        return "needs root, or a cgroup delegated to this user";
    }
    match ["/sys", "/proc", "/dev"]
        .iter()
        .any(|roots| path.starts_with(roots))
    {
        true => "needs root",
        false => "is not permitted to this user",
    }
}

/// Wraps an I/O error: missing rights get their own error, because the remedy differs.
pub(crate) fn io_error(action: &'static str, path: &Path, source: io::Error) -> HostError {
    let path = path.to_owned();
    if source.kind() == io::ErrorKind::PermissionDenied {
        return HostError::NotPermitted { action, path };
    }
    HostError::Io {
        action,
        path,
        source,
    }
}

/// A file of the kernel that does not look as expected; line 0 is the file as a whole.
pub(crate) fn unexpected(
    path: impl AsRef<Path>,
    line: usize,
    expected: &'static str,
    found: impl Into<String>,
) -> HostError {
    let (path, found) = (path.as_ref().display(), found.into());
    HostError::Told(format!(
        "{path}:{line}: expected {expected}, found {found:?}"
    ))
}

/// Whether there is such a file. A look that fails is no answer: what is there would be left out,
/// or written over.
pub(crate) fn is_there(path: &Path) -> Result<bool> {
    path.try_exists()
        .map_err(|source| io_error("looking for", path, source))
}

/// Reads a whole text file.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|source| io_error("reading", path, source))
}

impl From<HostError> for schedcast_base::error::Error {
    fn from(error: HostError) -> Self {
        let told = Self::general(error.to_string());
        match error {
            HostError::NoSuchGroup { hint, .. } => told.hint(hint),
            HostError::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull => told.hint(
                    "a recording takes some 50 bytes an event; name a folder on a disk with more room",
                ),
                io::ErrorKind::ReadOnlyFilesystem => told
                    .hint("name a folder that can be written, in a container one on a mounted volume"),
                _ => told,
            },
            _ => told,
        }
    }
}

/// The fault of a value. The kernel never sees one that says nothing.
fn refusal(value: &str, rule: &LimitError) -> String {
    match rule.is_unreadable() {
        true => rule.to_string(),
        false => format!("the kernel refuses {value:?} ({}): {rule}", rule.errno()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_value_names_file_value_errno_and_rule() {
        let told = |path: &str, value: &str, rule, parent: Option<&str>| {
            let (path, value, parent) = (path.into(), value.into(), parent.map(Box::from));
            let refused = HostError::Refused {
                path,
                value,
                rule,
                parent,
            };
            refused.to_string()
        };
        let small = LimitError::QuotaTooSmall(999);
        let (ratio, ceiling) = (524_288, 314_572);
        let above = LimitError::AboveParent { ratio, ceiling };
        assert_eq!(
            told("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "999", small, None),
            "/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us: the kernel refuses \"999\" (EINVAL): \
             quota 999 us is below the kernel's minimum of 1000 us \
             (a number without a unit is microseconds, `2.0` is two CPUs)"
        );
        assert_eq!(
            told("/a/b", "50000 100000", above, Some("/a")),
            "/a/b: the kernel refuses \"50000 100000\" (EINVAL): 0.5 CPU is above the 0.3 CPU of \
             the nearest limited parent, /a"
        );
        let unreadable = schedcast_base::cpu_max::CpuMax::parse("fast").unwrap_err();
        let told = told("cpu.max", "fast", unreadable, None);
        assert!(told.starts_with("cpu.max: cpu.max expects `max`"), "{told}");
    }

    #[test]
    fn a_refused_write_says_whose_rights_would_do() {
        let refused = |path: &str| {
            let denied = io::Error::from(io::ErrorKind::PermissionDenied);
            io_error("creating", Path::new(path), denied).to_string()
        };
        let delegated =
            "creating /sys/fs/cgroup/cpu/a needs root, or a cgroup delegated to this user";
        assert_eq!(refused("/sys/fs/cgroup/cpu/a"), delegated);
        let by_root = "creating /sys/kernel/tracing needs root";
        assert_eq!(refused("/sys/kernel/tracing"), by_root);
        assert_eq!(refused("pg"), "creating pg is not permitted to this user");
    }

    #[test]
    fn an_unknown_cgroup_names_its_neighbour() {
        let error = HostError::UnknownCgroup {
            path: "/pgg".into(),
            nearest: Some("/pg".into()),
        };
        let expected = "no cgroup /pgg; the nearest existing one is /pg";
        assert_eq!(error.to_string(), expected);
    }
}
