//! Tests of a kernel section: what it reads, and what it refuses with its place.

use super::*;
use crate::error::Source;
use crate::experiment::document::parse;
use schedcast_base::{assert_contains, assert_starts};
use schedcast_kernel::rules::NEWEST;

fn read(text: &str) -> Result<KernelSettings> {
    KernelSettings::read(
        Some(&parse(&Source::new("k.toml", text)).unwrap()),
        8,
        Path::new("."),
    )
}

#[test]
fn the_section_reads_in_kernel_words() {
    let kernel = read(
        "hz = 1000\nversion = \"5.14\"\npreempt = \"none\"\npreempt_dynamic = true\n\
         irq_time_accounting = true\nautogroup = false\n\
         patches = [\"tg-load-ratelimit\", \"-burst\"]\nfeatures = [\"NO_TTWU_QUEUE\"]\n\
         sched_cfs_bandwidth_slice_us = 3000\nsched_latency_ns = 6_000_000\n",
    );
    let kernel = kernel.unwrap();
    let json = serde_json::to_string(&kernel).unwrap();
    assert_eq!(
        json,
        r#"{"version":"5.14","hz":1000,"preempt":"none","preempt_dynamic":true,"irq_time_accounting":true,"autogroup":false,"patches":["tg-load-ratelimit","-burst"],"features":["NO_TTWU_QUEUE"],"latency_ns":6000000,"sched_cfs_bandwidth_slice_us":3000}"#
    );
    let rules = &kernel.rules;
    assert_eq!(
        (rules.hz, rules.burst, rules.latency_ns),
        (1000, false, 6_000_000)
    );
    assert!(rules.config_preemption && rules.irq_time_accounting);
    assert_eq!(
        (rules.bandwidth_slice_ns, rules.autogroup),
        (3_000_000, false)
    );
}

#[test]
fn the_hosts_features_are_those_it_changed() {
    let text = "PLACE_LAG NO_RUN_TO_PARITY TTWU_QUEUE NO_HRTICK NO_SUCH_THING NEXT_BUDDY\n";
    let changed = changed_features(text, "6.12".parse().unwrap());
    assert_eq!(changed, ["NO_RUN_TO_PARITY", "NEXT_BUDDY"]);
    assert!(changed_features("", DEFAULT).is_empty());
}

#[test]
fn the_hosts_kernel_is_the_running_one_and_keys_override_it() {
    let kernel = read("hz = 100\nversion = \"host\"\n");
    match kernel {
        Ok(kernel) => {
            let release = KernelInfo::read().unwrap().release;
            assert!(
                release.starts_with(&kernel.release().to_string()),
                "{release}"
            );
            assert_eq!(kernel.hz, 100);
        }
        // A kernel that is not known yet.
        Err(error) => assert!(error.to_string().contains("this host: "), "{error}"),
    }
}

#[test]
fn an_absent_section_is_the_newest_kernel() {
    let kernel = KernelSettings::read(None, 8, Path::new(".")).unwrap();
    assert_eq!((kernel.version, kernel.hz), (DEFAULT, 250));
    assert_eq!(
        kernel.rules.base_slice_ns, 2_800_000,
        "8 CPUs: four times 0.7 ms"
    );
}

#[test]
fn a_kernel_newer_than_all_known_has_the_rules_of_the_newest() {
    let newer = read("version = \"7.9.2-1-amd64\"\n").unwrap();
    let newest = read(&format!("version = \"{NEWEST}\"\n")).unwrap();
    assert_eq!((newer.version, &newer.rules), (NEWEST, &newest.rules));
    assert_eq!(newer.shown(), format!("7.9.2 (with the rules of {NEWEST})"));
    let json = serde_json::to_value(&newer).unwrap();
    assert_eq!(
        (&json["version"], &json["stands_for"]),
        (&NEWEST.to_string().into(), &"7.9.2".into())
    );
    let json = serde_json::to_value(&newest).unwrap();
    assert!(json.get("stands_for").is_none());
}

#[test]
fn only_features_and_tunables_change_in_a_running_kernel() {
    let kernel = read("version = \"6.12\"\nfeatures = [\"NEXT_BUDDY\"]\n").unwrap();
    let change = |text: &str| kernel.read_change(&parse(&Source::new("k.toml", text)).unwrap(), 8);
    let changed = change("base_slice_ns = 1000000\nfeatures = [\"NO_NEXT_BUDDY\"]\n").unwrap();
    assert_eq!(changed.rules.base_slice_ns, 1_000_000);
    let found = changed.features.len();
    assert_eq!(found, 2, "written after the first, as to the file");
    assert!(kernel.rules.features.next_buddy && !changed.rules.features.next_buddy);
    let error = change("version = \"6.13\"\n").unwrap_err().to_string();
    assert_eq!(
        error,
        "k.toml:1:1: a running kernel cannot change its version"
    );
    let error = change("base_slice_ns = 1\n").unwrap_err().to_string();
    assert_starts(&error, "k.toml:1:17: `base_slice_ns` must be");
}

#[test]
fn numbers_of_domains_stand_in_a_table_for_each_level() {
    let kernel = read("[domains.MC]\nbusy_factor = 4\n[domains.NUMA]\nimbalance_pct = 110\n");
    let kernel = kernel.unwrap();
    let tunable = |name: &str| kernel.tunables[name].value;
    assert_eq!(tunable("domains.MC.busy_factor"), 4);
    assert_eq!(tunable("domains.NUMA.imbalance_pct"), 110);
    let one_cache = Topology::regular(1, 1, 8, 1);
    assert_eq!(
        kernel.check_domains(&one_cache).unwrap_err().to_string(),
        "k.toml:4:17: `domains.NUMA.imbalance_pct`: this machine has no domains of the level NUMA (it has MC)"
    );
    kernel
        .check_domains(&Topology::regular(2, 1, 4, 1))
        .unwrap();
}

#[test]
fn one_feature_needs_no_array_and_modes_of_groups_have_names() {
    let kernel = read("version = \"6.12\"\nfeatures = \"NEXT_BUDDY\"\n").unwrap();
    assert!(kernel.rules.features.next_buddy);
    let mode = |value: &str| {
        let kernel = read(&format!("version = \"7.3\"\ncgroup_mode = {value}\n"));
        kernel.map(|kernel| kernel.rules.cgroup_mode)
    };
    for (name, number) in [("up", 0), ("concur", 2), ("tasks", 4)] {
        let by_name = mode(&format!("{name:?}")).unwrap();
        assert_eq!(by_name, mode(&number.to_string()).unwrap());
    }
}

/// A folder that says to be a kernel of a release and has these features.
fn tree(release: (u16, u16), features: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let makefile = format!("VERSION = {}\nPATCHLEVEL = {}\n", release.0, release.1);
    std::fs::write(folder.path().join("Makefile"), makefile).unwrap();
    std::fs::create_dir_all(folder.path().join("kernel/sched")).unwrap();
    std::fs::write(folder.path().join("kernel/sched/features.h"), features).unwrap();
    folder
}

#[test]
fn features_of_a_tree_are_those_of_its_header() {
    let header =
        "SCHED_FEAT(NEXT_BUDDY, false)\nSCHED_FEAT(LB_MIN, false)\nSCHED_FEAT(KDEV, true)\n";
    let folder = tree((6, 12), header);
    let with = |words: &str| {
        let tree = folder.path().display();
        read(&format!("tree = \"{tree}\"\nfeatures = [{words}]\n"))
    };
    let kernel = with("\"NO_KDEV\", \"LB_MIN\", \"NEXT_BUDDY\"").unwrap();
    assert_eq!(kernel.features.len(), 3);
    assert!(kernel.rules.features.next_buddy);
    let text = with("\"KDEW\"").unwrap_err().to_string();
    assert_contains(&text, ["has no feature `KDEW`", "k.toml:2:13"]);
    let error = with("\"WA_IDLE\"").unwrap_err().to_string();
    assert!(error.contains("has no feature `WA_IDLE`"), "{error}");
}

#[test]
fn nothing_of_a_tree_changes_during_a_run() {
    let folder = tree((6, 12), "SCHED_FEAT(NEXT_BUDDY, false)\n");
    let kernel = read(&format!("tree = \"{}\"\n", folder.path().display())).unwrap();
    for change in ["features = [\"NEXT_BUDDY\"]", "base_slice_ns = 1000000"] {
        let change = parse(&Source::new("at", change)).unwrap();
        let text = kernel.read_change(&change, 8).unwrap_err().to_string();
        assert_contains(&text, "of a kernel tree cannot change during a run");
    }
}
