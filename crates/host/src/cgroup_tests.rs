//! Tests that need no live controller: names, write plans and file trees in a temporary directory.

use super::*;
use crate::fake::write;
use schedcast_base::{assert_contains, assert_starts};

fn group_with(version: CgroupVersion, files: &[(&str, &str)]) -> (tempfile::TempDir, CpuCgroup) {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("g");
    fs::create_dir(&dir).unwrap();
    for (name, text) in files.iter().chain(&[("cgroup.procs", "")]) {
        fs::write(dir.join(name), text).unwrap();
    }
    let group = CpuCgroup {
        hierarchy: CpuHierarchy::at(version, root.path()),
        path: "/g".into(),
        dir,
        owned: None,
    };
    (root, group)
}

const V2: [(&str, &str); 4] = [
    ("cpu.max", "max 100000\n"),
    ("cpu.max.burst", "0\n"),
    ("cpu.weight", "100\n"),
    ("cpu.idle", "0\n"),
];

#[test]
fn limits_are_read_from_v2_files() {
    let (_root, group) = group_with(CgroupVersion::V2, &V2);
    assert_eq!(group.limits().unwrap(), CpuLimits::default());
}

#[test]
fn limits_are_read_from_v1_files_with_and_without_burst() {
    let files = [
        ("cpu.cfs_quota_us", "-1\n"),
        ("cpu.cfs_period_us", "50000\n"),
    ];
    let (_root, group) = group_with(CgroupVersion::V1, &files);
    let limits = group.limits().unwrap();
    assert_eq!(
        (limits.quota_us, limits.period_us, limits.burst_us),
        (None, 50_000, 0)
    );
    fs::write(group.dir().join("cpu.cfs_burst_us"), "7\n").unwrap();
    assert_eq!(group.limits().unwrap().burst_us, 7);
}

#[test]
fn v2_sets_quota_and_period_in_one_write() {
    let (_root, group) = group_with(CgroupVersion::V2, &V2);
    group.apply("cpu.max", "50000 20000").unwrap();
    assert_eq!(group.read(CpuFile::Max).unwrap(), "50000 20000");
    group.apply("cpu.max.burst", "50000").unwrap();
    assert_eq!(group.read(CpuFile::MaxBurst).unwrap(), "50000");
}

#[test]
fn a_refused_limit_changes_no_file() {
    let (_root, group) = group_with(CgroupVersion::V2, &V2);
    let error = group.apply("cpu.max", "999 100000").unwrap_err();
    assert_contains(&error, "quota 999 us is below");
    assert_eq!(group.read(CpuFile::Max).unwrap(), "max 100000");
}

#[test]
fn v2_burst_shrinks_first_and_grows_last() {
    let limits = |(quota_us, burst_us)| CpuLimits {
        quota_us: Some(quota_us),
        period_us: 100_000,
        burst_us,
    };
    for (from, to, expected) in [
        (
            (50_000, 50_000),
            (20_000, 20_000),
            &["cpu.max.burst", "cpu.max"][..],
        ),
        ((20_000, 0), (50_000, 50_000), &["cpu.max", "cpu.max.burst"]),
        ((20_000, 0), (20_000, 0), &[]),
    ] {
        let writes = v2_writes(&limits(from), &limits(to));
        let names: Vec<&str> = writes.iter().map(|(file, _)| file.name()).collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn files_of_the_other_version_and_unknown_files_are_refused() {
    let (_root, group) = group_with(CgroupVersion::V2, &V2);
    let other = group.write(CpuFile::CfsQuotaUs, "1000").unwrap_err();
    assert_starts(&other, "cpu.cfs_quota_us is a cgroup v1 file, ");
    let unknown = group.apply("cpu.mx", "1000");
    assert!(matches!(unknown, Err(HostError::UnknownFile { .. })));
}

#[test]
fn names_that_are_no_single_directory_are_refused() {
    for bad in ["", "a/b", ".", "..", "cpu.max", "cgroup.procs"] {
        assert!(check_name(bad).is_err(), "{bad:?}");
    }
    assert!(check_name("trial-1").is_ok());
}

#[test]
fn the_largest_share_below_is_found_at_any_depth() {
    let root = tempfile::tempdir().unwrap();
    let group = |path: &str, quota: &str| {
        let write = |file: &str, text| write(root.path(), &format!("{path}/{file}"), text);
        write("cpu.cfs_quota_us", quota);
        write("cpu.cfs_period_us", "100000\n");
    };
    group("a", "-1\n");
    group("a/b", "25000\n");
    group("c", "20000\n");
    assert_eq!(
        largest_ratio_below(root.path()).unwrap(),
        Some(limits::bandwidth_ratio(25_000, 100_000))
    );
    assert_eq!(largest_ratio_below(&root.path().join("c")).unwrap(), None);
}
