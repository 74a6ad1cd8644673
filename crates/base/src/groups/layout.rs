//! Names in a cgroup's path: the layouts of systemd, kubelet and the container runtimes.
//!
//! | who | systemd driver | cgroupfs driver |
//! |---|---|---|
//! | kubelet, pod | `kubepods-burstable-pod3f_09.slice` | `kubepods/burstable/pod3f-09` |
//! | containerd | `cri-containerd-ID.scope` | `…/podUID/ID` |
//! | CRI-O | `crio-ID.scope` | `…/podUID/crio-ID` |
//! | docker | `system.slice/docker-ID.scope` | `docker/ID` |
//! | podman | `machine.slice/libpod-ID.scope` | `libpod_parent/libpod-ID` |
//! | nerdctl | `system.slice/nerdctl-ID.scope` | `default/ID` |
//!
//! systemd writes the hyphens of a pod's uid as `_`, because a hyphen separates the levels of
//! slices. A guaranteed pod has no class in its path. A node of kind is a docker container with a
//! kubelet in it, so that one path has two containers; the last component says what a group is.

use super::GroupNames;

/// Hexadecimal digits of a container id: those of a SHA-256.
const ID_DIGITS: usize = 64;

/// Runtimes by what stands before the id in the name of a scope or group.
const PREFIXES: [(&str, &str); 6] = [
    ("docker", "docker"),
    ("cri-containerd", "containerd"),
    ("nerdctl", "containerd"),
    ("crio", "cri-o"),
    ("libpod-payload", "podman"),
    ("libpod", "podman"),
];

/// Runtimes by the group that their containers are in, where the container's group is named by its
/// id alone.
const PARENTS: [(&str, &str); 3] = [
    ("docker", "docker"),
    ("libpod_parent", "podman"),
    ("default", "containerd"),
];

pub(super) fn of_path(path: &str) -> GroupNames {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let Some((last, above)) = parts.split_last() else {
        return GroupNames::default();
    };
    let mut names = container(last, above)
        .or_else(|| pod(last, above))
        .or_else(|| unit(last))
        .unwrap_or_default();
    if names.is_container() {
        // A container carries the identity of the pod around it.
        for (level, part) in parts.iter().enumerate().rev() {
            if let Some(around) = pod(part, &parts[..level]) {
                names.pod_uid = around.pod_uid;
                names.qos = around.qos;
                break;
            }
        }
    }
    names
}

fn is_id(text: &str) -> bool {
    text.len() == ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn container(last: &str, above: &[&str]) -> Option<GroupNames> {
    let made = |runtime: Option<&str>, id: &str| GroupNames {
        runtime: runtime.map(str::to_owned),
        container_id: Some(id.to_owned()),
        ..GroupNames::default()
    };
    let parent = above.last().copied().unwrap_or("");
    if let Some(name) = last.strip_prefix("lxc.payload.") {
        return Some(GroupNames {
            runtime: Some("lxc".to_owned()),
            container: Some(name.to_owned()),
            ..GroupNames::default()
        });
    }
    // kubelet with the systemd driver above a runtime with the cgroupfs driver:
    // `SLICE:cri-containerd:ID`.
    if let Some((front, id)) = last.rsplit_once(':')
        && is_id(id)
    {
        let prefix = front.rsplit(':').next().unwrap_or("");
        return Some(made(runtime_of(prefix), id));
    }
    let stem = last.strip_suffix(".scope").unwrap_or(last);
    if let Some((prefix, id)) = stem.rsplit_once('-')
        && is_id(id)
    {
        // The monitor of a container is no part of it.
        return (!prefix.ends_with("conmon")).then(|| made(runtime_of(prefix), id));
    }
    if is_id(last) {
        let known = PARENTS.iter().find(|(name, _)| *name == parent);
        return Some(made(known.map(|(_, runtime)| *runtime), last));
    }
    None
}

fn runtime_of(prefix: &str) -> Option<&'static str> {
    let known = PREFIXES.iter().find(|(name, _)| *name == prefix);
    known.map(|(_, runtime)| *runtime)
}

fn pod(part: &str, above: &[&str]) -> Option<GroupNames> {
    let made = |uid: String, qos: Option<&str>| GroupNames {
        pod_uid: Some(uid),
        qos: qos.map(str::to_owned),
        ..GroupNames::default()
    };
    // `kubepods-burstable-pod3f_09.slice`, in a node of kind `kubelet-kubepods-…`.
    let slice = part.split(':').next().unwrap_or(part);
    if let Some(stem) = slice.strip_suffix(".slice") {
        if let Some((_, id)) = stem.rsplit_once("libpod_pod_") {
            return Some(GroupNames {
                runtime: Some("podman".to_owned()),
                ..made(id.to_owned(), None)
            });
        }
        let (levels, uid) = stem.rsplit_once("-pod")?;
        let class = levels.rsplit('-').next()?;
        return match class {
            "burstable" | "besteffort" if levels.contains("kubepods-") => {
                Some(made(uid.replace('_', "-"), Some(class)))
            }
            "kubepods" => Some(made(uid.replace('_', "-"), Some("guaranteed"))),
            _ => None,
        };
    }
    let uid = part.strip_prefix("pod")?;
    let parent = above.last().copied()?;
    let class = match parent {
        "burstable" | "besteffort" => {
            let around = above.get(above.len().checked_sub(2)?)?;
            around.starts_with("kubepods").then_some(parent)?
        }
        _ if parent.starts_with("kubepods") => "guaranteed",
        _ => return None,
    };
    Some(made(uid.to_owned(), Some(class)))
}

fn unit(last: &str) -> Option<GroupNames> {
    let is_unit = [".service", ".scope", ".slice", ".socket", ".mount"]
        .iter()
        .any(|kind| last.ends_with(kind));
    is_unit.then(|| GroupNames {
        unit: Some(last.to_owned()),
        ..GroupNames::default()
    })
}
