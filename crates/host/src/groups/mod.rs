//! The groups of this host by the names that operators use.
//!
//! ```no_run
//! use std::path::Path;
//! use schedcast_host::CpuHierarchy;
//! use schedcast_host::groups::{Groups, Wanted};
//!
//! let groups = Groups::read(&CpuHierarchy::detect()?, Path::new("/"))?;
//! let app = groups.find(&Wanted::Pod("shop/checkout/app".to_owned()))?;
//! println!("{}", app.path); // /kubepods.slice/kubepods-burstable.slice/…/cri-containerd-8d1a….scope
//! # Ok::<(), schedcast_host::HostError>(())
//! ```
//!
//! Paths tell units, container ids and uids of pods ([`schedcast_base::groups`]). Names of
//! containers and pods come from the files that runtimes and kubelet keep ([`metadata`]); no daemon
//! is asked and no API server.

use std::fs;
use std::path::{Path, PathBuf};

pub use schedcast_base::groups::{GroupNames, Miss, NamedGroup, Wanted, canonical, label_of};

use crate::error::{HostError, Result, io_error};
use crate::hierarchy::{CgroupVersion, CpuHierarchy, child_groups};

mod metadata;
#[cfg(test)]
mod tests;

/// Levels of groups below each other that are looked at; kubelet in a container in a container has
/// eight.
const DEEPEST: usize = 64;

/// Every group of a hierarchy with its names.
#[derive(Clone, Debug)]
pub struct Groups {
    hierarchy: CpuHierarchy,
    root: PathBuf,
    groups: Vec<NamedGroup>,
}

impl Groups {
    /// Reads the groups of `hierarchy`, and what the files below `root` say of their names: `/`,
    /// but for tests.
    ///
    /// # Errors
    /// The root of the hierarchy cannot be listed.
    pub fn read(hierarchy: &CpuHierarchy, root: &Path) -> Result<Groups> {
        let mut paths = vec!["/".to_owned()];
        let mount = hierarchy.mount();
        let listed = fs::read_dir(mount).map_err(|error| io_error("listing", mount, error))?;
        drop(listed);
        visit(mount, "", 0, &mut paths);
        let mut groups: Vec<NamedGroup> = paths
            .into_iter()
            .map(|path| NamedGroup {
                names: GroupNames::of_path(&path),
                path,
                tasks: Vec::new(),
            })
            .collect();
        metadata::describe(&mut groups, hierarchy, root);
        Ok(Groups {
            hierarchy: hierarchy.clone(),
            root: root.to_owned(),
            groups,
        })
    }

    /// All of them, parents before their children.
    pub fn all(&self) -> &[NamedGroup] {
        &self.groups
    }

    /// The group that is meant.
    ///
    /// # Errors
    /// No group is called so, or several are: the error says which names come into question.
    pub fn find(&self, wanted: &Wanted) -> Result<NamedGroup> {
        let found = match wanted {
            // An empty path is no other word for the root group.
            Wanted::Path(path) if path.is_empty() => {
                return self.hierarchy.existing(path).map(|_| NamedGroup::default());
            }
            Wanted::Path(path) => {
                let path = self.hierarchy.below_mount(path).unwrap_or(path);
                match self.find_named(&Wanted::Path(path.to_owned())) {
                    // The nearest path is a matter of its parts.
                    Err(Miss::Unknown { .. }) => {
                        return self.hierarchy.existing(path).map(|_| NamedGroup {
                            path: canonical(path),
                            ..NamedGroup::default()
                        });
                    }
                    found => found,
                }
            }
            Wanted::Pid(_) => {
                let with_tasks = |group: &NamedGroup| NamedGroup {
                    tasks: threads(&self.hierarchy, &group.path),
                    ..group.clone()
                };
                let groups: Vec<NamedGroup> = self.groups.iter().map(with_tasks).collect();
                schedcast_base::groups::find(wanted, &groups).cloned()
            }
            _ => self.find_named(wanted),
        };
        found.map_err(|miss| HostError::NoSuchGroup {
            hint: miss.hint(),
            miss,
        })
    }

    fn find_named(&self, wanted: &Wanted) -> std::result::Result<NamedGroup, Miss> {
        schedcast_base::groups::find(wanted, &self.groups).cloned()
    }

    /// The first process in the group at `path` or below it, by name.
    pub(crate) fn first_command(&self, path: &str) -> Option<String> {
        let inside = |group: &&NamedGroup| schedcast_base::groups::is_within(&group.path, path);
        let members = self.groups.iter().filter(inside);
        let mut pids = members
            .flat_map(|group| numbers(&self.hierarchy.dir(&group.path).join("cgroup.procs")));
        pids.find_map(|pid| {
            let comm = fs::read_to_string(self.root.join(format!("proc/{pid}/comm"))).ok()?;
            Some(comm.trim_end().to_owned())
        })
    }

    /// Names of the group at `path`, or of the group that it is a part of.
    pub(crate) fn label(&self, path: &str) -> Option<String> {
        label_of(path, &self.groups)
    }
}

/// Directories below `dir` that are groups. One that goes away meanwhile is left out.
fn visit(dir: &Path, path: &str, depth: usize, paths: &mut Vec<String>) {
    let Ok(children) = child_groups(dir) else {
        return;
    };
    for child in children {
        let below = dir.join(&child);
        if !below.join("cgroup.procs").is_file() {
            continue;
        }
        let path = format!("{path}/{child}");
        paths.push(path.clone());
        if depth < DEEPEST {
            visit(&below, &path, depth + 1, paths);
        }
    }
}

/// Threads in the group itself.
pub(crate) fn threads(hierarchy: &CpuHierarchy, path: &str) -> Vec<i32> {
    let file = match hierarchy.version() {
        CgroupVersion::V1 => "tasks",
        CgroupVersion::V2 => "cgroup.threads",
    };
    numbers(&hierarchy.dir(path).join(file))
}

fn numbers(file: &Path) -> Vec<i32> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}
