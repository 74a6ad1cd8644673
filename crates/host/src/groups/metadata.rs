//! Names of containers and pods, from the files that runtimes and kubelet keep.
//!
//! | file | what it tells |
//! |---|---|
//! | `/var/log/pods/NAMESPACE_POD_UID/` | a pod's name by its uid |
//! | `/var/log/containers/POD_NAMESPACE_CONTAINER-ID.log` | all names of a container of a pod |
//! | `/run/containerd/io.containerd.runtime.v2.task/*/ID/config.json` | annotations of containerd's and nerdctl's |
//! | `/run/containers/storage/overlay-containers/ID/userdata/config.json` | annotations of CRI-O's |
//! | `/var/lib/containers/storage/overlay-containers/containers.json` | names of podman's and CRI-O's |
//! | `/var/lib/docker/containers/ID/config.v2.json` | the name of docker's |
//! | `/proc/PID/environ` | `HOSTNAME`, which is a pod's name, where nothing else told it |
//!
//! Whatever is missing, unreadable or not as expected only leaves a name unknown.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::numbers;
use crate::groups::NamedGroup;
use crate::hierarchy::CpuHierarchy;
use schedcast_base::groups::is_within;

/// Larger files than this are not what they seem.
const LARGEST_BYTES: u64 = 16 << 20;
/// Container name of a pod's namespace holder (the pause container), as in cAdvisor's metrics.
const SANDBOX: &str = "POD";

/// Names of one container and its pod, as far as they are known.
#[derive(Clone, Debug, Default)]
struct Known {
    container: Option<String>,
    pod: Option<String>,
}

/// Fills in names that the paths of `groups` do not tell.
pub(super) fn describe(groups: &mut [NamedGroup], hierarchy: &CpuHierarchy, root: &Path) {
    let any = |test: fn(&NamedGroup) -> bool| groups.iter().any(test);
    if !any(|group| group.names.container_id.is_some() || group.names.pod_uid.is_some()) {
        return;
    }
    let mut pods = pods(root);
    let mut containers = logs(root);
    for (id, known) in storage(root) {
        containers.entry(id).or_insert(known);
    }
    for group in groups.iter_mut() {
        let Some(id) = &group.names.container_id else {
            continue;
        };
        let known = match containers.get(id) {
            Some(known) => known.clone(),
            None => bundle(root, id)
                .or_else(|| docker(root, id))
                .unwrap_or_default(),
        };
        if let (Some(uid), Some(pod)) = (&group.names.pod_uid, &known.pod) {
            pods.entry(uid.clone()).or_insert(pod.clone());
        }
        group.names.container = known.container;
        // A container that a pod's path does not hold, as docker's with kubelet's names.
        if group.names.pod_uid.is_none() {
            group.names.pod = known.pod;
        }
    }
    for index in 0..groups.len() {
        let Some(uid) = groups[index].names.pod_uid.clone() else {
            continue;
        };
        if !pods.contains_key(&uid)
            && let Some(name) = host_name(&groups[index].path, groups, hierarchy, root)
        {
            pods.insert(uid.clone(), name);
        }
        groups[index].names.pod = pods.get(&uid).cloned();
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect()
}

/// Names of pods by uid. Neither namespaces nor names of pods may have an underscore.
fn pods(root: &Path) -> HashMap<String, String> {
    let entry = |name: String| {
        let [namespace, pod, uid] = name.split('_').collect::<Vec<_>>()[..] else {
            return None;
        };
        Some((uid.to_owned(), format!("{namespace}/{pod}")))
    };
    let found = names_in(&root.join("var/log/pods")).into_iter();
    found.filter_map(entry).collect()
}

/// Containers by id, from the names of kubelet's links to their logs.
fn logs(root: &Path) -> HashMap<String, Known> {
    let entry = |name: String| {
        let [pod, namespace, rest] = name.split('_').collect::<Vec<_>>()[..] else {
            return None;
        };
        let (container, id) = rest.strip_suffix(".log")?.rsplit_once('-')?;
        let known = Known {
            container: Some(container.to_owned()),
            pod: Some(format!("{namespace}/{pod}")),
        };
        Some((id.to_owned(), known))
    };
    let found = names_in(&root.join("var/log/containers")).into_iter();
    found.filter_map(entry).collect()
}

/// Containers of podman and CRI-O, root's and those of users.
fn storage(root: &Path) -> Vec<(String, Known)> {
    let mut places = vec![root.join("var/lib/containers/storage")];
    let homes = names_in(&root.join("home")).into_iter();
    let homes = homes.map(|home| root.join("home").join(home));
    places.extend(homes.map(|home| home.join(".local/share/containers/storage")));
    let mut found = Vec::new();
    for place in places {
        let list = json(&place.join("overlay-containers/containers.json"));
        for one in list
            .as_ref()
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let name = one["names"][0].as_str();
            if let (Some(id), Some(name)) = (one["id"].as_str(), name) {
                found.push((id.to_owned(), of_name(name)));
            }
        }
    }
    found
}

/// The name of a container; kubelet has docker and CRI-O call one
/// `k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT`.
fn of_name(name: &str) -> Known {
    let name = name.trim_start_matches('/');
    match name.split('_').collect::<Vec<_>>()[..] {
        ["k8s", container, pod, namespace, ..] => Known {
            container: Some(container.to_owned()),
            pod: Some(format!("{namespace}/{pod}")),
        },
        _ => Known {
            container: Some(name.to_owned()),
            pod: None,
        },
    }
}

/// The annotations that containerd, nerdctl and CRI-O leave in a container's OCI configuration.
fn bundle(root: &Path, id: &str) -> Option<Known> {
    let tasks = ["run/containerd", "run/k3s/containerd"]
        .map(|run| root.join(run).join("io.containerd.runtime.v2.task"));
    let mut files: Vec<PathBuf> = Vec::new();
    for tasks in tasks {
        let namespaces = names_in(&tasks).into_iter();
        files.extend(namespaces.map(|name| tasks.join(name).join(id).join("config.json")));
    }
    for storage in ["run/containers/storage", "var/lib/containers/storage"] {
        let container = root.join(storage).join("overlay-containers").join(id);
        files.push(container.join("userdata/config.json"));
    }
    let config = files.iter().find_map(|file| json(file))?;
    let annotation = |keys: &[&str]| {
        let found = keys
            .iter()
            .find_map(|key| config["annotations"][*key].as_str());
        found.map(str::to_owned)
    };
    let is_sandbox = annotation(&[
        "io.kubernetes.cri.container-type",
        "io.kubernetes.cri-o.ContainerType",
    ]);
    let container = match is_sandbox.as_deref() {
        Some("sandbox") => Some(SANDBOX.to_owned()),
        _ => annotation(&[
            "io.kubernetes.cri.container-name",
            "io.kubernetes.container.name",
            "nerdctl/name",
        ]),
    };
    let namespace = annotation(&[
        "io.kubernetes.cri.sandbox-namespace",
        "io.kubernetes.pod.namespace",
    ]);
    let pod = annotation(&["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]);
    Some(Known {
        container,
        pod: namespace
            .zip(pod)
            .map(|(namespace, pod)| format!("{namespace}/{pod}")),
    })
}

fn docker(root: &Path, id: &str) -> Option<Known> {
    let containers = root.join("var/lib/docker/containers");
    let config = json(&containers.join(id).join("config.v2.json"))?;
    config["Name"].as_str().map(of_name)
}

fn json(file: &Path) -> Option<Value> {
    let mut text = Vec::new();
    let opened = fs::File::open(file).ok()?;
    opened.take(LARGEST_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The name that a pod's processes see as that of their host. It is the pod's name without its
/// namespace.
fn host_name(
    pod: &str,
    groups: &[NamedGroup],
    hierarchy: &CpuHierarchy,
    root: &Path,
) -> Option<String> {
    let members = groups.iter().filter(|group| is_within(&group.path, pod));
    let pids = members.flat_map(|group| numbers(&hierarchy.dir(&group.path).join("cgroup.procs")));
    pids.filter_map(|pid| {
        let environ = fs::read(root.join(format!("proc/{pid}/environ"))).ok()?;
        let mut variables = environ.split(|byte| *byte == 0);
        let name = variables.find_map(|variable| variable.strip_prefix(b"HOSTNAME="))?;
        let name = std::str::from_utf8(name).ok()?;
        let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.');
        (!name.is_empty() && name.chars().all(plain)).then(|| name.to_owned())
    })
    .next()
}
