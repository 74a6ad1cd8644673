//! Groups as operators name them: a systemd unit, a container, a pod.
//!
//! Container runtimes, kubelet and systemd each lay their cgroups out in their own way. The path
//! alone tells who made a group and often what it is called:
//!
//! ```text
//! /system.slice/nginx.service                                                       unit nginx.service
//! /system.slice/docker-8d1a….scope                                                  docker container 8d1a…
//! /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod3f_09.slice        pod of uid 3f-09, burstable
//! /kubepods/burstable/pod3f-09/8d1a…                                                a container of that pod
//! ```
//!
//! [`GroupNames::of_path`] reads what the path tells. Other sources (a runtime's files, a
//! recording) fill in the rest, and [`find`] chooses the one group that is meant, or lists the
//! candidates.

use serde::{Deserialize, Serialize};

mod find;
mod layout;
mod owner;
#[cfg(test)]
mod tests;

pub use find::{Miss, Wanted, find, label_of};
pub use owner::{Owner, owner};

/// Characters of a container id that people are shown, as docker and crictl show them.
const ID_SHOWN: usize = 12;

/// Whether the group `path` is `above` or below it.
pub fn is_within(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Names of a cgroup, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupNames {
    /// The systemd unit that this group is: `nginx.service`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Runtime of the container: `docker`, `containerd`, `cri-o`, `podman`, `lxc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// The whole id of the container that this group is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_id: Option<String>,
    /// The name of the container that this group is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The pod that this group is, or that its container belongs to: `namespace/name`, or the name
    /// alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The uid of that pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// The pod's class: `guaranteed`, `burstable`, `besteffort`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
}

impl GroupNames {
    /// Names that the path of a group tells.
    pub fn of_path(path: &str) -> GroupNames {
        layout::of_path(path)
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == GroupNames::default()
    }

    /// Whether this group is a container (and not the pod around it).
    pub(crate) fn is_container(&self) -> bool {
        self.container_id.is_some() || self.container.is_some()
    }

    /// Short name of the group: `shop/checkout/app`, `web`, `nginx.service`. `None` for a group
    /// that has no name of its own.
    pub(crate) fn label(&self) -> Option<String> {
        let short = |id: &str| id.chars().take(ID_SHOWN).collect::<String>();
        let container = self
            .container
            .clone()
            .or(self.container_id.as_deref().map(short));
        let pod = self
            .pod
            .clone()
            .or(self.pod_uid.as_ref().map(|uid| format!("pod {uid}")));
        match (pod, container) {
            (Some(pod), Some(container)) => Some(format!("{pod}/{container}")),
            (Some(name), None) | (None, Some(name)) => Some(name),
            (None, None) => self.unit.clone(),
        }
    }

    /// How it is named on a command line, where a name is known: `--pod shop/checkout/app`.
    pub fn flag(&self) -> Option<String> {
        match (&self.pod, &self.container, &self.container_id, &self.unit) {
            (Some(pod), Some(container), ..) => Some(format!("--pod {pod}/{container}")),
            (_, Some(name), ..) => Some(format!("--container {name}")),
            (_, None, Some(id), _) => {
                Some(format!("--container {}", &id[..id.len().min(ID_SHOWN)]))
            }
            (Some(pod), None, None, _) => Some(format!("--pod {pod}")),
            (None, None, None, Some(unit)) => Some(format!("--unit {unit}")),
            (None, None, None, None) => None,
        }
    }
}

/// A group and its names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedGroup {
    /// Its path below the root of the cpu controller.
    pub path: String,
    /// Names of the group.
    pub names: GroupNames,
    /// Ids of processes or threads in it.
    pub tasks: Vec<i32>,
}

/// The one spelling of a group's path: `pg`, `/pg/` and `//pg` are `/pg`.
pub fn canonical(path: &str) -> String {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    let path: String = parts.map(|part| format!("/{part}")).collect();
    match path.is_empty() {
        true => "/".to_owned(),
        false => path,
    }
}
