use super::*;
use crate::rows;

/// Sixty-four hexadecimal digits that begin with these.
fn id(start: &str) -> String {
    format!("{start:0<64}")
}

fn group(path: &str) -> NamedGroup {
    NamedGroup {
        path: path.to_owned(),
        names: GroupNames::of_path(path),
        tasks: Vec::new(),
    }
}

fn container(path: &str, pod: &str, name: &str) -> NamedGroup {
    let mut group = group(path);
    group.names.pod = Some(pod.to_owned());
    group.names.container = (!name.is_empty()).then(|| name.to_owned());
    group
}

#[test]
fn every_layout_tells_runtime_id_pod_and_class() {
    let id = id("8d1a");
    let uid = "3f096c1e-0d1b-4c57-9a3f-5b1f0a6e2d11";
    let burstable = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{slice}.slice";
    for row in rows::lines(include_str!("layouts.txt")) {
        let [path, runtime, is_container, qos] = rows::cells(row);
        let path = path
            .replace("{burstable}", burstable)
            .replace("{slice}", &uid.replace('-', "_"))
            .replace("{uid}", uid)
            .replace("{id}", &id);
        let known = |name| Some(name).filter(|&name| name != "-");
        let names = GroupNames::of_path(&path);
        assert_eq!(names.runtime.as_deref(), known(runtime), "{path}");
        let has_id = names.container_id.as_deref() == Some(&id);
        assert_eq!(has_id, is_container == "true", "{path}");
        assert_eq!(names.qos.as_deref(), known(qos), "{path}");
        if qos != "-" {
            assert_eq!(names.pod_uid.as_deref(), Some(uid), "{path}");
        }
    }
}

#[test]
fn what_only_looks_like_a_container_or_a_pod_is_none() {
    let id = id("8d1a");
    for path in [
        "/".to_owned(),
        "/docker".to_owned(),
        "/kubepods/burstable".to_owned(),
        "/kubepods.slice/kubepods-burstable.slice".to_owned(),
        "/podinfo".to_owned(),
        "/system.slice/ipod-podcasts.slice".to_owned(),
        format!("/machine.slice/libpod-conmon-{id}.scope"),
        format!("/kubepods/burstable/pod1/crio-conmon-{id}"),
        format!("/docker/{}", &id[..63]),
    ] {
        let names = GroupNames::of_path(&path);
        assert!(
            !names.is_container() && names.pod_uid.is_none(),
            "{path}: {names:?}"
        );
    }
}

#[test]
fn a_unit_needs_no_ending_and_a_service_comes_first() {
    let groups = [
        "/system.slice/nginx.service",
        "/nginx.slice",
        "/system.slice/my\\x2dapp.service",
    ]
    .map(group);
    let unit = |name: &str| find(&Wanted::Unit(name.to_owned()), &groups).map(|group| &*group.path);
    assert_eq!(unit("nginx").unwrap(), "/system.slice/nginx.service");
    assert_eq!(unit("nginx.slice").unwrap(), "/nginx.slice");
    assert_eq!(unit("my-app").unwrap(), "/system.slice/my\\x2dapp.service");
    let miss = unit("ngnix").unwrap_err();
    assert_eq!(miss.to_string(), "there is no unit `ngnix`");
    assert_eq!(miss.hint(), "the nearest is `nginx`");
}

#[test]
fn two_units_of_one_name_are_listed_by_path() {
    let groups = [
        "/system.slice/web.service",
        "/user.slice/user-7.slice/user@7.service/app.slice/web.service",
    ]
    .map(group);
    let miss = find(&Wanted::Unit("web".to_owned()), &groups).unwrap_err();
    assert_eq!(miss.to_string(), "2 groups are called unit `web`");
    assert_eq!(
        miss.hint(),
        "name one of them: --cgroup /system.slice/web.service, or \
         --cgroup /user.slice/user-7.slice/user@7.service/app.slice/web.service"
    );
}

#[test]
fn containers_of_one_name_are_told_apart_by_their_pods() {
    let path = |pod: &str, id_start: &str| format!("/kubepods/pod{pod}/{}", id(id_start));
    let groups = [
        container("/kubepods/poda", "shop/checkout-6f-x1", ""),
        container(&path("a", "aaaa"), "shop/checkout-6f-x1", "app"),
        container("/kubepods/podb", "test/checkout-6f-x1", ""),
        container(&path("b", "bbbb"), "test/checkout-6f-x1", "app"),
    ];
    let found = |wanted: Wanted| find(&wanted, &groups).map(|group| group.path.clone());
    let pod = |name: &str| found(Wanted::Pod(name.to_owned()));
    assert_eq!(pod("shop/checkout-6f-x1").unwrap(), "/kubepods/poda");
    assert_eq!(
        pod("shop/checkout").unwrap(),
        "/kubepods/poda",
        "as its deployment"
    );
    assert_eq!(pod("test/checkout-6f-x1/app").unwrap(), path("b", "bbbb"));
    assert_eq!(pod("b").unwrap(), "/kubepods/podb", "by uid");
    assert_eq!(
        found(Wanted::Container("bbbb0".to_owned())).unwrap(),
        path("b", "bbbb")
    );
    let miss = found(Wanted::Container("app".to_owned())).unwrap_err();
    assert_eq!(
        miss.hint(),
        "name one of them: --pod shop/checkout-6f-x1/app, or --pod test/checkout-6f-x1/app"
    );
    let miss = pod("checkout").unwrap_err();
    assert_eq!(
        miss.hint(),
        "name one of them: --pod shop/checkout-6f-x1, or --pod test/checkout-6f-x1"
    );
    let miss = pod("shop/chekout-6f-x1/app").unwrap_err();
    assert_eq!(miss.hint(), "the nearest is `shop/checkout-6f-x1/app`");
    assert!(pod("shop/check").is_err(), "half a word is no name");
}

#[test]
fn a_path_may_be_pasted_from_the_file_system_or_shortened_to_its_end() {
    let groups = ["/", "/pg", "/a/pg", "/a/b/workers"].map(group);
    let path = |text: &str| find(&Wanted::Path(text.to_owned()), &groups).map(|group| &*group.path);
    assert_eq!(
        path("pg").unwrap(),
        "/pg",
        "the whole path comes before the end of another"
    );
    assert_eq!(path("/sys/fs/cgroup/cpu,cpuacct/pg/").unwrap(), "/pg");
    assert_eq!(path("/sys/fs/cgroup/a/pg").unwrap(), "/a/pg");
    assert_eq!(path("b/workers").unwrap(), "/a/b/workers");
    assert_eq!(path("workers").unwrap(), "/a/b/workers");
    assert_eq!(path("/sys/fs/cgroup/cpu").unwrap(), "/");
    assert!(path("orkers").is_err());
    assert_eq!(
        path("workres").unwrap_err().to_string(),
        "there is no cgroup `workres`"
    );
}

#[test]
fn a_process_is_in_the_group_that_lists_it() {
    let mut groups = ["/a", "/a/b"].map(group);
    groups[1].tasks = vec![7, 9];
    assert_eq!(find(&Wanted::Pid(9), &groups).unwrap().path, "/a/b");
    let miss = find(&Wanted::Pid(8), &groups).unwrap_err();
    assert_eq!(miss.to_string(), "there is no process `8`");
}

#[test]
fn a_group_within_a_container_is_called_by_what_it_is_in() {
    let id = id("8d1a");
    let path = format!("/machine.slice/libpod-{id}.scope/container");
    let mut groups = [group(&format!("/machine.slice/libpod-{id}.scope"))];
    assert_eq!(label_of(&path, &groups).unwrap(), "8d1a00000000/container");
    groups[0].names.container = Some("db".to_owned());
    assert_eq!(label_of(&path, &groups).unwrap(), "db/container");
    assert_eq!(label_of("/pg/workers", &groups), None);
}

#[test]
fn a_group_is_within_itself_and_those_above() {
    for (path, above, expected) in [
        ("/web", "/web", true),
        ("/web/a", "/web", true),
        ("/webb", "/web", false),
        ("/web", "/", true),
        ("/", "/web", false),
    ] {
        assert_eq!(is_within(path, above), expected, "{path} {above}");
    }
}
