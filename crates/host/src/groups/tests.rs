//! Layouts as directories: what systemd, kubelet and the runtimes leave below `/sys/fs/cgroup`,
//! `/run` and `/var`.

use std::fs;

use super::*;
use schedcast_base::assert_contains;

const UID: &str = "3f096c1e-0d1b-4c57-9a3f-5b1f0a6e2d11";
const OTHER_UID: &str = "90c2d7aa-53a8-4e5e-8f7c-000000000002";

/// Sixty-four hexadecimal digits that begin with these.
fn id(start: &str) -> String {
    format!("{start:0<64}")
}

/// A host in a folder: its cgroup file system and the files of its runtimes.
struct Host {
    root: tempfile::TempDir,
    version: CgroupVersion,
}

impl Host {
    fn new(version: CgroupVersion) -> Host {
        let host = Host {
            root: tempfile::tempdir().unwrap(),
            version,
        };
        host.group("", &[]);
        host
    }

    /// A group, those above it, and the processes in it.
    fn group(&self, path: &str, pids: &[i32]) {
        let mount = self.root.path().join("cgroup");
        let mut dir = mount.clone();
        for part in std::iter::once("").chain(path.split('/')) {
            dir = if part.is_empty() { dir } else { dir.join(part) };
            fs::create_dir_all(&dir).unwrap();
            for file in ["cgroup.procs", "tasks", "cgroup.threads"] {
                if !dir.join(file).exists() {
                    fs::write(dir.join(file), "").unwrap();
                }
            }
        }
        let text: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
        fs::write(dir.join("cgroup.procs"), &text).unwrap();
        let threads = match self.version {
            CgroupVersion::V1 => "tasks",
            CgroupVersion::V2 => "cgroup.threads",
        };
        fs::write(dir.join(threads), text).unwrap();
    }

    fn file(&self, path: &str, text: &str) {
        crate::fake::write(self.root.path(), path, text);
    }

    fn groups(&self) -> Groups {
        let hierarchy = CpuHierarchy::at(self.version, self.root.path().join("cgroup"));
        Groups::read(&hierarchy, self.root.path()).unwrap()
    }

    fn find(&self, wanted: Wanted) -> Result<String> {
        self.groups().find(&wanted).map(|group| group.path)
    }

    fn pod(&self, name: &str) -> String {
        self.find(Wanted::Pod(name.to_owned())).unwrap()
    }

    fn container(&self, name: &str) -> String {
        self.find(Wanted::Container(name.to_owned())).unwrap()
    }
}

/// The path of a burstable pod by the driver of its kubelet.
fn burstable(systemd: bool, uid: &str) -> String {
    match systemd {
        false => format!("/kubepods/burstable/pod{uid}"),
        true => format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice",
            uid.replace('-', "_")
        ),
    }
}

#[test]
fn kubelet_with_either_driver_on_either_version_names_pods_and_containers() {
    for version in [CgroupVersion::V1, CgroupVersion::V2] {
        for (systemd, scope) in [
            (true, "cri-containerd-ID.scope"),
            (false, "ID"),
            (true, "crio-ID.scope"),
        ] {
            let host = Host::new(version);
            let at = |pod: &str, start: &str| format!("{pod}/{}", scope.replace("ID", &id(start)));
            let (shop, test) = (burstable(systemd, UID), burstable(systemd, OTHER_UID));
            host.group(&at(&shop, "aaaa"), &[11]);
            host.group(&at(&shop, "a0a0"), &[10]);
            host.group(&at(&test, "bbbb"), &[21]);
            for (namespace, uid, start) in [("shop", UID, "aaaa"), ("test", OTHER_UID, "bbbb")] {
                host.file(
                    &format!("var/log/pods/{namespace}_checkout-6f-x1_{uid}/app/0.log"),
                    "",
                );
                let log = format!("checkout-6f-x1_{namespace}_app-{}.log", id(start));
                host.file(&format!("var/log/containers/{log}"), "");
            }
            assert_eq!(host.pod("shop/checkout-6f-x1"), shop);
            assert_eq!(host.pod("test/checkout"), test);
            assert_eq!(host.pod("shop/checkout/app"), at(&shop, "aaaa"));
            assert_eq!(host.pod(UID), shop);
            assert_eq!(host.container("bbbb0"), at(&test, "bbbb"));
            assert_eq!(host.find(Wanted::Pid(21)).unwrap(), at(&test, "bbbb"));
            let groups = host.groups();
            let label = groups.label(&at(&test, "bbbb")).unwrap();
            assert_eq!(label, "test/checkout-6f-x1/app");
            let sandbox = groups.label(&at(&shop, "a0a0")).unwrap();
            assert_eq!(sandbox, "shop/checkout-6f-x1/a0a000000000");
            let error = host.find(Wanted::Container("app".to_owned())).unwrap_err();
            let HostError::NoSuchGroup { hint, .. } = error else {
                panic!("{error}");
            };
            assert!(hint.contains("--pod shop/checkout-6f-x1/app"), "{hint}");
            assert!(hint.contains("--pod test/checkout-6f-x1/app"), "{hint}");
        }
    }
}

#[test]
fn annotations_of_containerd_and_cri_o_name_what_kubelets_logs_do_not() {
    let places = [
        (
            format!(
                "run/containerd/io.containerd.runtime.v2.task/k8s.io/{}/config.json",
                id("aaaa")
            ),
            r#"{"annotations": {"io.kubernetes.cri.container-type": "container",
                "io.kubernetes.cri.container-name": "app", "io.kubernetes.cri.sandbox-name": "web-0",
                "io.kubernetes.cri.sandbox-namespace": "shop"}}"#,
        ),
        (
            format!(
                "run/containers/storage/overlay-containers/{}/userdata/config.json",
                id("aaaa")
            ),
            r#"{"annotations": {"io.kubernetes.container.name": "app",
                "io.kubernetes.pod.name": "web-0", "io.kubernetes.pod.namespace": "shop",
                "io.kubernetes.cri-o.ContainerType": "container"}}"#,
        ),
    ];
    for (file, text) in places {
        let host = Host::new(CgroupVersion::V2);
        let pod = burstable(true, UID);
        let container = format!("{pod}/cri-containerd-{}.scope", id("aaaa"));
        host.group(&container, &[]);
        host.file(&file, text);
        assert_eq!(host.pod("shop/web-0"), pod);
        assert_eq!(host.pod("shop/web-0/app"), container);
    }
}

#[test]
fn a_node_of_kind_is_a_container_with_pods_in_it() {
    let host = Host::new(CgroupVersion::V2);
    let node = format!("/system.slice/docker-{}.scope", id("eeee"));
    let pod = format!(
        "{node}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/\
         kubelet-kubepods-burstable-pod{}.slice",
        UID.replace('-', "_")
    );
    host.group(&format!("{pod}/cri-containerd-{}.scope", id("aaaa")), &[]);
    host.file(
        &format!("var/lib/docker/containers/{}/config.v2.json", id("eeee")),
        r#"{"Name": "/kind-worker"}"#,
    );
    assert_eq!(host.container("kind-worker"), node);
    assert_eq!(host.pod(UID), pod);
    assert_eq!(
        host.groups().label(&format!("{node}/init")).unwrap(),
        "kind-worker/init"
    );
}

#[test]
fn docker_podman_and_nerdctl_name_their_containers() {
    let host = Host::new(CgroupVersion::V1);
    let rows = [
        (format!("/docker/{}", id("d0c1")), "web"),
        (format!("/system.slice/docker-{}.scope", id("d0c2")), "db"),
        (
            format!("/machine.slice/libpod-{}.scope", id("9001")),
            "cache",
        ),
        (format!("/libpod_parent/libpod-{}", id("9002")), "queue"),
        (
            format!(
                "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{}.scope",
                id("9003")
            ),
            "mine",
        ),
        (
            format!("/system.slice/nerdctl-{}.scope", id("cd01")),
            "proxy",
        ),
    ];
    for (path, _) in &rows {
        host.group(path, &[]);
    }
    host.group(&format!("{}/container", rows[2].0), &[77]);
    for (start, name) in [("d0c1", "/web"), ("d0c2", "/db")] {
        let file = format!("var/lib/docker/containers/{}/config.v2.json", id(start));
        host.file(&file, &format!("{{\"Name\": \"{name}\"}}"));
    }
    host.file(
        "var/lib/containers/storage/overlay-containers/containers.json",
        &format!(
            r#"[{{"id": "{}", "names": ["cache"]}}, {{"id": "{}", "names": ["queue"]}}]"#,
            id("9001"),
            id("9002")
        ),
    );
    host.file(
        "home/ann/.local/share/containers/storage/overlay-containers/containers.json",
        &format!(r#"[{{"id": "{}", "names": ["mine"]}}]"#, id("9003")),
    );
    host.file(
        &format!(
            "run/containerd/io.containerd.runtime.v2.task/default/{}/config.json",
            id("cd01")
        ),
        r#"{"annotations": {"nerdctl/name": "proxy"}}"#,
    );
    for (path, name) in &rows {
        assert_eq!(host.container(name), *path, "{name}");
    }
    assert_eq!(host.container("d0c2"), rows[1].0);
    let inside = format!("{}/container", rows[2].0);
    assert_eq!(host.find(Wanted::Pid(77)).unwrap(), inside);
    assert_eq!(host.groups().label(&inside).unwrap(), "cache/container");
    let error = host.find(Wanted::Container("wbe".to_owned())).unwrap_err();
    let HostError::NoSuchGroup { hint, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(hint, "the nearest is `web`");
}

#[test]
fn a_pod_that_no_file_names_is_called_by_its_host_name() {
    let host = Host::new(CgroupVersion::V2);
    let pod = burstable(false, UID);
    host.group(&format!("{pod}/{}", id("aaaa")), &[31]);
    host.file("proc/31/environ", "PATH=/bin\0HOSTNAME=web-0\0");
    assert_eq!(host.pod("web-0"), pod);
    assert_eq!(host.pod("any/web-0"), pod, "its namespace is not known");
}

#[test]
fn units_nested_and_delegated_are_found_and_paths_may_be_pasted_or_cut() {
    let host = Host::new(CgroupVersion::V2);
    for path in [
        "/system.slice/nginx.service",
        "/system.slice/pg.service/workers/1",
        "/user.slice/user-7.slice/user@7.service/app.slice/nginx.service",
    ] {
        host.group(path, &[]);
    }
    let unit = |name: &str| host.find(Wanted::Unit(name.to_owned()));
    assert_eq!(unit("pg").unwrap(), "/system.slice/pg.service");
    let hint = match unit("nginx").unwrap_err() {
        HostError::NoSuchGroup { hint, .. } => hint,
        other => panic!("{other}"),
    };
    assert_contains(&hint, "--cgroup /system.slice/nginx.service");
    let path = |text: &str| host.find(Wanted::Path(text.to_owned()));
    assert_eq!(
        path("workers/1").unwrap(),
        "/system.slice/pg.service/workers/1"
    );
    let pasted = host.root.path().join("cgroup/system.slice/pg.service");
    assert_eq!(
        path(pasted.to_str().unwrap()).unwrap(),
        "/system.slice/pg.service"
    );
    assert!(path("/system.slice/../pg").is_err());
}

#[test]
fn damaged_files_of_runtimes_leave_names_unknown() {
    let host = Host::new(CgroupVersion::V1);
    let path = format!("/docker/{}", id("d0c1"));
    host.group(&path, &[]);
    for text in ["", "{", "[]", "{\"Name\": 7}"] {
        host.file(
            &format!("var/lib/docker/containers/{}/config.v2.json", id("d0c1")),
            text,
        );
        host.file(
            "var/lib/containers/storage/overlay-containers/containers.json",
            text,
        );
        host.file("var/log/pods/only_two/x", text);
        assert_eq!(host.groups().label(&path).unwrap(), "d0c100000000");
    }
}
