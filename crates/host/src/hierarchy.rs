//! Where the cpu controller is mounted, and which cgroup version it is.
//!
//! A host has the controller in exactly one place. With `cgroup /sys/fs/cgroup/cpu … rw,cpu` in the
//! mount table it is version 1, even if a version 2 tree is mounted beside it. With only `cgroup2`
//! mounts it is version 2, if the root's `cgroup.controllers` lists `cpu`.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) use schedcast_base::groups::canonical;

use crate::error::{HostError, Result, io_error, read_text, unexpected};
use crate::groups::{self, Groups, Wanted};

const MOUNTS: &str = "/proc/self/mountinfo";

schedcast_base::named! {
    /// The two generations of cgroup files.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum CgroupVersion {
        /// `cpu.shares`, `cpu.cfs_quota_us`, …
        V1 = "v1",
        /// `cpu.weight`, `cpu.max`, …
        V2 = "v2",
    }
}

/// The mounted hierarchy with the cpu controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuHierarchy {
    version: CgroupVersion,
    mount: PathBuf,
}

/// CPU time that a group of version 1 used, in ns.
pub(crate) const USAGE: &str = "cpuacct.usage";

/// CPUs that were given to a cpuset of version 1.
const CPUSET: &str = "cpuset.cpus";

/// A controller of version 1 beside the cpu controller, which may have groups of its own: the
/// accounting, or the cpusets.
pub(crate) struct Beside {
    /// The directory of its root group.
    pub(crate) mount: PathBuf,
    /// That of the cpu controller: the same directory where both are mounted together.
    pub(crate) cpu: PathBuf,
}

impl Beside {
    /// The file of accounting that tells what the group used. `None` where there is no such group,
    /// or one of the same name without the processes of the cpu controller's group: what it counts
    /// would be somebody else's time.
    pub(crate) fn usage_file(&self, path: &str) -> Option<PathBuf> {
        self.file(path, USAGE)
    }

    /// The file `name` of the same group, where [it has its processes](Self::counts).
    pub(crate) fn file(&self, path: &str, name: &str) -> Option<PathBuf> {
        let file = self.mount.join(path.trim_matches('/')).join(name);
        (self.counts(path) && file.is_file()).then_some(file)
    }

    /// Whether its group of this name has the processes of the cpu controller's group. Groups below
    /// it are another question.
    pub(crate) fn counts(&self, path: &str) -> bool {
        let below = path.trim_matches('/');
        let processes = |mount: &Path| {
            std::fs::read_to_string(mount.join(below).join("cgroup.procs")).unwrap_or_default()
        };
        below.is_empty() || self.mount == self.cpu || {
            let counted = processes(&self.mount);
            let counted: BTreeSet<&str> = counted.lines().collect();
            let lives = |process: &str| Path::new("/proc").join(process).exists();
            processes(&self.cpu)
                .lines()
                .all(|process| counted.contains(process) || !lives(process))
        }
    }
}

impl CpuHierarchy {
    /// Finds the hierarchy of this host.
    pub fn detect() -> Result<Self> {
        let text = read_text(Path::new(MOUNTS))?;
        let found = Self::from_mounts(&text, |mount| {
            std::fs::read_to_string(mount.join("cgroup.controllers")).ok()
        })
        .ok_or_else(|| {
            HostError::Told(format!(
                "no cpu controller: neither a cgroup v1 mount with `cpu` nor a cgroup v2 mount \
                 that lists `cpu` in cgroup.controllers was found in {MOUNTS}"
            ))
        })?;
        match found.mount.join("cgroup.procs").is_file() {
            true => Ok(found),
            false => Err(HostError::Told(format!(
                "no cpu controller: {MOUNTS} has it at {}, where no group is to be seen; another \
                 file system may be mounted over it",
                found.mount.display()
            ))),
        }
    }

    /// A hierarchy known to be mounted at `mount`.
    pub(crate) fn at(version: CgroupVersion, mount: impl Into<PathBuf>) -> Self {
        Self {
            version,
            mount: mount.into(),
        }
    }

    fn from_mounts(text: &str, controllers: impl Fn(&Path) -> Option<String>) -> Option<Self> {
        let mounts: Vec<Mount> = text.lines().filter_map(parse_mount).collect();
        if let Some(found) = mounts.iter().find(|mount| mount.has("cpu")) {
            return Some(Self::at(CgroupVersion::V1, &found.point));
        }
        let lists_cpu = |m: &&Mount| {
            m.kind == "cgroup2"
                && controllers(&m.point)
                    .is_some_and(|list| list.split_whitespace().any(|name| name == "cpu"))
        };
        mounts
            .iter()
            .find(lists_cpu)
            .map(|found| Self::at(CgroupVersion::V2, &found.point))
    }

    /// Where version 1 counts CPU time used, which is a controller of its own; `None` with version
    /// 2 and where it is not mounted.
    pub(crate) fn accounting(&self) -> Option<Beside> {
        self.beside("cpuacct", USAGE)
    }

    /// Where version 1 keeps cpusets, as for [`Self::accounting`].
    pub(crate) fn cpusets(&self) -> Option<Beside> {
        self.beside("cpuset", CPUSET)
    }

    /// The controller of this name, whose groups have `file`.
    fn beside(&self, controller: &str, file: &str) -> Option<Beside> {
        let cpu = self.mount.clone();
        if self.mount.join(file).is_file() {
            let mount = cpu.clone();
            return Some(Beside { mount, cpu });
        }
        let text = std::fs::read_to_string(MOUNTS).ok()?;
        let mut mounts = text.lines().filter_map(parse_mount);
        let found = mounts.find(|mount| mount.has(controller));
        let mount = found.filter(|_| self.version == CgroupVersion::V1)?.point;
        Some(Beside { mount, cpu })
    }

    /// The folders that a process of the group at `dir` is to join: that one, and that of the same
    /// name where its CPU time is counted.
    pub(crate) fn folders_of(&self, dir: &Path) -> Vec<PathBuf> {
        let accounting = self.accounting();
        let counted = accounting.and_then(|accounting| {
            let below = dir.strip_prefix(&self.mount).ok()?;
            Some(accounting.mount.join(below)).filter(|folder| folder != dir && folder.is_dir())
        });
        [dir.to_owned()].into_iter().chain(counted).collect()
    }

    /// The generation of its files.
    pub fn version(&self) -> CgroupVersion {
        self.version
    }

    /// The directory of the root group.
    pub(crate) fn mount(&self) -> &Path {
        &self.mount
    }

    /// Path below this mount: `/sys/fs/cgroup/cpu/pg` in the file system is `/pg`.
    pub(crate) fn below_mount<'a>(&self, path: &'a str) -> Option<&'a str> {
        let below = path.strip_prefix(self.mount.to_str()?)?;
        match below {
            "" => Some("/"),
            _ => below.starts_with('/').then_some(below),
        }
    }

    /// The directory of a group named by its path below the root (`/`, `/pg`, `/kubepods/x`).
    pub(crate) fn dir(&self, path: &str) -> PathBuf {
        match path.trim_matches('/') {
            "" => self.mount.clone(),
            below => self.mount.join(below),
        }
    }

    /// The directory of an existing group, whose path may be one of the file system; an unknown one
    /// is an error that names the nearest.
    pub(crate) fn existing(&self, path: &str) -> Result<PathBuf> {
        if path.is_empty() {
            // An unset variable is more likely than the root group, which is `/`.
            return Err(HostError::UnknownCgroup {
                path: "of an empty path".to_owned(),
                nearest: Some("/".to_owned()),
            });
        }
        let path = self.below_mount(path).unwrap_or(path);
        let dir = self.dir(path);
        let upwards = path.split('/').any(|part| part == "..");
        let members = dir.join("cgroup.procs");
        match fs::metadata(&members) {
            Ok(there) if there.is_file() && !upwards => return Ok(dir),
            // A look that fails does not show that the group is missing.
            Err(error) if !says_missing(&error) => {
                return Err(io_error("looking for", &members, error));
            }
            _ => {}
        }
        Err(HostError::UnknownCgroup {
            path: path.to_owned(),
            nearest: self.nearest_existing(path),
        })
    }

    /// Follows the path as far as it exists and offers the sibling most like the first unknown
    /// part, or the deepest existing group.
    fn nearest_existing(&self, path: &str) -> Option<String> {
        let mut known = String::new();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let dir = self.dir(&known);
            if dir.join(part).join("cgroup.procs").is_file() {
                known = format!("{known}/{part}");
                continue;
            }
            let siblings = child_groups(&dir).ok()?;
            return match schedcast_base::names::nearest(part, siblings.iter().map(String::as_str)) {
                Some(sibling) => Some(format!("{known}/{sibling}")),
                None if known.is_empty() => None,
                None => Some(known),
            };
        }
        None
    }

    /// The group this process is in. The path in `/proc` begins at the root of this process's
    /// cgroup namespace, and the mount may begin elsewhere: the group that lists the process
    /// counts.
    pub(crate) fn own_group(&self) -> Result<String> {
        let path = Path::new("/proc/self/cgroup");
        let text = read_text(path)?;
        let told = own_group(&text, self.version).ok_or_else(|| {
            unexpected(
                path,
                0,
                "a line of the hierarchy with the cpu controller",
                text,
            )
        })?;
        let own = std::process::id() as i32;
        if groups::threads(self, &told).contains(&own) {
            return Ok(told);
        }
        let groups = Groups::read(self, Path::new("/"))?;
        groups.find(&Wanted::Pid(own)).map(|group| group.path)
    }
}

struct Mount {
    point: PathBuf,
    kind: String,
    options: String,
}

impl Mount {
    /// Whether it is one of version 1 with this controller.
    fn has(&self, controller: &str) -> bool {
        self.kind == "cgroup" && self.options.split(',').any(|option| option == controller)
    }
}

/// Whether an error says that there is no such file, not even its folder, or that there cannot be
/// one of that name.
fn says_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, InvalidInput, NotADirectory, NotFound};
    matches!(
        error.kind(),
        NotFound | NotADirectory | InvalidFilename | InvalidInput
    )
}

/// One line of mountinfo: id parent dev root POINT options `[optional]`… - KIND source
/// SUPER-OPTIONS.
fn parse_mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let point = left.split(' ').nth(4)?;
    let mut right = right.split(' ');
    let kind = right.next()?.to_owned();
    let options = right.nth(1)?.to_owned();
    Some(Mount {
        point: PathBuf::from(unescape_octal(point)),
        kind,
        options,
    })
}

/// The kernel writes blanks in paths as `\040`.
fn unescape_octal(text: &str) -> String {
    text.replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}

/// One line of `/proc/PID/cgroup` is ID:CONTROLLERS:PATH; version 2 is id 0 without controllers.
fn own_group(text: &str, version: CgroupVersion) -> Option<String> {
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let found = match version {
            CgroupVersion::V1 => controllers.split(',').any(|name| name == "cpu"),
            CgroupVersion::V2 => id == "0" && controllers.is_empty(),
        };
        found.then(|| path.to_owned())
    })
}

/// Whether an error at a file or folder of a group says that the group went away: a path that is
/// no longer there, or a file held open whose group is no longer there.
pub(crate) fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
}

/// Names of the groups right below the folder `dir` of a group, sorted.
///
/// # Errors
/// A folder that cannot be listed.
pub(crate) fn child_groups(dir: &Path) -> std::io::Result<Vec<String>> {
    let mut names: Vec<String> = std::fs::read_dir(dir)?
        .filter_map(|entry| entry.ok())
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
28 1 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
29 28 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
30 28 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
31 28 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
";
    const UNIFIED: &str = "31 28 0:28 / /mnt/my\\040cgroups rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn a_look_that_fails_is_an_error_and_not_a_missing_group() {
        let root = tempfile::tempdir().unwrap();
        let tree = CpuHierarchy::at(CgroupVersion::V1, root.path());
        std::fs::create_dir(root.path().join("g")).unwrap();
        let members = root.path().join("g/cgroup.procs");
        // A link to itself: ELOOP.
        std::os::unix::fs::symlink(&members, &members).unwrap();
        let error = tree.existing("/g").unwrap_err().to_string();
        assert!(error.starts_with("looking for"), "{error}");
        for missing in ["/h", "/h/i", &"/h".repeat(3_000), &"h".repeat(300)] {
            let error = tree.existing(missing).unwrap_err();
            assert!(matches!(error, HostError::UnknownCgroup { .. }), "{error}");
        }
    }

    #[test]
    fn a_v1_mount_with_cpu_wins() {
        let found = CpuHierarchy::from_mounts(HYBRID, |_| Some("memory".into())).unwrap();
        assert_eq!(found.version(), CgroupVersion::V1);
        assert_eq!(found.mount(), Path::new("/sys/fs/cgroup/cpu,cpuacct"));
    }

    #[test]
    fn v2_needs_the_controller_in_its_list() {
        let with = |list: &'static str| {
            CpuHierarchy::from_mounts(UNIFIED, move |mount| {
                assert_eq!(mount, Path::new("/mnt/my cgroups"));
                Some(list.to_owned())
            })
        };
        let found = with("cpuset cpu io\n").unwrap();
        assert_eq!(found.version(), CgroupVersion::V2);
        assert_eq!(with("cpuset io\n"), None);
        assert_eq!(CpuHierarchy::from_mounts("", |_| None), None);
    }

    #[test]
    fn own_group_follows_the_version() {
        let text = "3:cpuset:/\n1:cpu,cpuacct:/a/b\n0::/c:d\n";
        assert_eq!(own_group(text, CgroupVersion::V1).as_deref(), Some("/a/b"));
        assert_eq!(own_group(text, CgroupVersion::V2).as_deref(), Some("/c:d"));
        assert_eq!(own_group("0::/\n", CgroupVersion::V1), None);
    }

    #[test]
    fn an_unknown_group_is_refused_with_the_nearest() {
        let root = tempfile::tempdir().unwrap();
        for group in [".", "kubepods", "kubepods/burstable", "system"] {
            crate::fake::write(root.path(), &format!("{group}/cgroup.procs"), "");
        }
        let tree = CpuHierarchy::at(CgroupVersion::V1, root.path());
        assert!(tree.existing("/kubepods/burstable").is_ok());
        let empty = tree.existing("").unwrap_err().to_string();
        assert_eq!(
            empty,
            "no cgroup of an empty path; the nearest existing one is /"
        );
        let nearest = |path: &str| match tree.existing(path) {
            Err(HostError::UnknownCgroup { nearest, .. }) => nearest,
            other => panic!("{other:?}"),
        };
        assert_eq!(nearest("/kubepod").as_deref(), Some("/kubepods"));
        let near = nearest("/kubepods/burstible/x");
        assert_eq!(near.as_deref(), Some("/kubepods/burstable"));
        assert_eq!(nearest("/kubepods/zzzzzzzz").as_deref(), Some("/kubepods"));
        assert_eq!(nearest("/zzzzzzzzzzzz"), None);
        let pasted = |below: &str| format!("{}{below}", root.path().display());
        assert!(tree.existing(&pasted("/kubepods/burstable")).is_ok());
        assert_eq!(nearest(&pasted("/kubepod")).as_deref(), Some("/kubepods"));
    }
}
