//! Owners of a group's settings: the program that writes them and may overwrite others.
//!
//! kubelet writes everything below a group named `kubepods…`, systemd the group of every unit.
//! Values of other writers are overwritten there sooner or later: at the next sync of the pod, at
//! the next `daemon-reload`. A group *inside* a service is the service's own.

crate::named! {
    /// A program that keeps the settings of groups.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Owner {
        /// Pods and containers.
        Kubelet = "kubelet",
        /// Units: slices, services, scopes.
        Systemd = "systemd",
        /// Containers in a scope of their own: systemd keeps the scope, docker the limit.
        Docker = "docker",
        /// Containers of podman.
        Podman = "podman",
    }
}

impl Owner {
    /// How to make the change through it.
    pub fn instead(self) -> &'static str {
        match self {
            Owner::Kubelet => "change the pod's resources",
            Owner::Systemd => "use systemctl set-property",
            Owner::Docker => "use docker update",
            Owner::Podman => "use podman update",
        }
    }
}

/// Owner of the settings of the group at `path`; `None` if no owner is known.
pub fn owner(path: &str) -> Option<Owner> {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    if parts.any(|part| part.starts_with("kubepods")) {
        return Some(Owner::Kubelet);
    }
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or("");
    // The name of the program and the id of the container: `docker-3f09….scope`.
    let container = last
        .strip_suffix(".scope")
        .and_then(|name| name.split_once('-'));
    let is_id = |id: &str| id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    match container.filter(|(_, id)| is_id(id)) {
        Some(("docker", _)) => return Some(Owner::Docker),
        Some(("libpod", _)) => return Some(Owner::Podman),
        _ => {}
    }
    let unit = [".slice", ".service", ".scope"]
        .iter()
        .any(|kind| last.ends_with(kind));
    unit.then_some(Owner::Systemd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_kubelets_and_units_are_systemds() {
        let expected = [
            ("/kubepods/burstable/pod1/abc", Some(Owner::Kubelet)),
            (
                "/kubepods.slice/kubepods-pod1.slice/cri-abc.scope",
                Some(Owner::Kubelet),
            ),
            ("/system.slice/pg.service", Some(Owner::Systemd)),
            ("/system.slice/", Some(Owner::Systemd)),
            ("/system.slice/docker-1.scope", Some(Owner::Systemd)),
            (
                "/user.slice/user-0.slice/session-2.scope",
                Some(Owner::Systemd),
            ),
            ("/system.slice/pg.service/workers", None),
            ("/pg", None),
            ("/", None),
        ];
        for (path, who) in expected {
            assert_eq!(owner(path), who, "{path}");
        }
        let scope = |program: &str| {
            let id = "3f09".repeat(16);
            owner(&format!("/system.slice/{program}-{id}.scope"))
        };
        assert_eq!(scope("docker"), Some(Owner::Docker));
        assert_eq!(scope("libpod"), Some(Owner::Podman));
        assert_eq!(scope("run"), Some(Owner::Systemd));
    }
}
