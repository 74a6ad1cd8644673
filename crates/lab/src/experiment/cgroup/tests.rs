//! Every bound of the files, layers as writes, hierarchy and vocabulary.

use super::*;
use crate::error::Source;
use crate::experiment::document::parse;
use schedcast_base::{assert_ends, assert_starts};

fn kernel(text: &str) -> KernelSettings {
    KernelSettings::read(
        Some(&parse(&Source::new("k.toml", text)).unwrap()),
        8,
        std::path::Path::new("."),
    )
    .unwrap()
}

/// Writes the layers, each the body of a `[cgroup]` section, and checks the result.
fn tree_on(version: &str, layers: &[&str]) -> Result<CgroupTree> {
    let kernel = kernel(&format!("version = \"{version}\"\n"));
    let mut tree = CgroupTree::default();
    for layer in layers {
        tree.write(&parse(&Source::new("g.toml", *layer)).unwrap(), &kernel)?;
    }
    tree.check()?;
    Ok(tree)
}

/// The group `/a` after one layer of files.
fn group(files: &str) -> Result<CgroupSettings> {
    let tree = tree_on("6.12", &[&format!("[\"/a\"]\n{files}\n")])?;
    Ok(tree.settings()["/a"].clone())
}

fn limits(settings: &CgroupSettings) -> (Option<u64>, u64, u64) {
    let limits = settings.limits;
    (limits.quota_us, limits.period_us, limits.burst_us)
}

#[test]
fn cpu_max_reads_as_in_the_kernel() {
    let limits = |text: &str| limits(&group(&format!("\"cpu.max\" = {text}")).unwrap());
    assert_eq!(limits("\"50000 20000\""), (Some(50_000), 20_000, 0));
    assert_eq!(limits("\"50000\""), (Some(50_000), 100_000, 0));
    assert_eq!(limits("50000"), (Some(50_000), 100_000, 0));
    for half in ["\"50%\"", "\"500m\"", "\"0.5\"", "0.5", "\"50ms/100ms\""] {
        assert_eq!(limits(half), (Some(50_000), 100_000, 0), "{half}");
    }
    assert_eq!(limits("2.0"), (Some(200_000), 100_000, 0));
    assert_eq!(limits("\"max\""), (None, 100_000, 0));
    assert_eq!(limits("\" max   1000 \""), (None, 1_000, 0));
    let most = limits("\"17592186044415\"");
    assert_eq!(most, (Some(17_592_186_044_415), 100_000, 0));
}

#[test]
fn v1_files_read_as_in_the_kernel() {
    let v1 = |text: &str| limits(&group(text).unwrap());
    assert_eq!(v1("\"cpu.cfs_quota_us\" = -5"), (None, 100_000, 0));
    let all = v1(
        "\"cpu.cfs_quota_us\" = 30000\n\"cpu.cfs_period_us\" = \"50000\"\n\"cpu.cfs_burst_us\" = 1000",
    );
    assert_eq!(all, (Some(30_000), 50_000, 1_000));
}

#[test]
fn weights_are_clamped_to_the_bounds_of_shares() {
    let weight = |text: &str| group(text).unwrap().weight;
    assert_eq!(weight("\"cpu.weight\" = 1"), Weight::Weight(1));
    assert_eq!(weight("\"cpu.weight\" = \"10000\""), Weight::Weight(10_000));
    assert_eq!(weight("\"cpu.weight.nice\" = -20"), Weight::Nice(-20));
    let found = weight("\"cpu.shares\" = 0");
    assert_eq!(found, Weight::Shares(2), "clamped, not refused");
    assert_eq!(weight("\"cpu.shares\" = 300000"), Weight::Shares(262_144));
}

#[test]
fn shares_are_what_the_kernel_keeps() {
    let shares = |text: &str| group(text).unwrap().shares();
    assert_eq!(shares("\"cpu.weight\" = 1"), 10);
    assert_eq!(shares("\"cpu.weight\" = 10000"), 102_400);
    assert_eq!(shares("\"cpu.weight.nice\" = 5"), 335);
    assert_eq!(shares("\"cpu.shares\" = 1"), 2);
    assert_eq!(shares("\"cpu.idle\" = 1"), 3);
}

#[test]
fn burst_beyond_quota_is_refused_once_all_layers_are_written() {
    assert!(group("\"cpu.max\" = \"100000\"\n\"cpu.max.burst\" = 100000").is_ok());
    assert!(group("\"cpu.max\" = \"max\"\n\"cpu.max.burst\" = 999999").is_ok());
    let raised_later = [
        "[\"/a\"]\n\"cpu.max\" = 5000\n\"cpu.max.burst\" = 9000\n",
        "[\"/a\"]\n\"cpu.max\" = 9000\n",
    ];
    assert!(tree_on("6.12", &raised_later).is_ok());
}

#[test]
fn a_layer_is_a_write_to_what_the_layer_before_left() {
    let base = "[\"/a\"]\n\"cpu.cfs_quota_us\" = 50000\n\"cpu.cfs_period_us\" = 20000\n";
    let tree = tree_on("6.12", &[base, "[\"/a\"]\n\"cpu.max\" = \"30000\"\n"]).unwrap();
    let found = limits(&tree.settings()["/a"]);
    assert_eq!(found, (Some(30_000), 20_000, 0), "period kept");
    let version = tree.version();
    assert_eq!(version, CgroupVersion::V1, "the lowest layer decides");
    let idle = [
        "[\"/a\"]\n\"cpu.weight\" = 50\n\"cpu.idle\" = 0\n",
        "[\"/a\"]\n\"cpu.idle\" = 1\n",
        "[\"/a\"]\n\"cpu.idle\" = 0\n",
    ];
    let back = &tree_on("6.12", &idle).unwrap().settings()["/a"];
    assert_eq!(*back, CgroupSettings::default(), "shares of 1024");
}

#[test]
fn v1_children_must_fit_into_their_parents() {
    let tree = |version1: bool, child: &str| {
        let parent = match version1 {
            true => "\"cpu.cfs_quota_us\" = 50000\n\"cpu.cfs_period_us\" = 100000",
            false => "\"cpu.max\" = 50000",
        };
        let layer = format!("[\"/p\"]\n{parent}\n[\"/p/q/c\"]\n{child}\n");
        tree_on("6.12", &[&layer])
    };
    let fits = "\"cpu.cfs_quota_us\" = 100000\n\"cpu.cfs_period_us\" = 200000";
    let exceeds = "\"cpu.cfs_quota_us\" = 100001\n\"cpu.cfs_period_us\" = 200000";
    assert!(tree(true, fits).is_ok());
    let error = tree(true, exceeds).unwrap_err();
    let expected = "g.toml:5:22: EINVAL: `/p/q/c` may use a larger share";
    assert_starts(&error, expected);
    let v2 = tree(false, "\"cpu.max\" = \"90000\"");
    assert!(v2.is_ok(), "v2 takes the smaller");
    let fitting = tree(true, fits).unwrap();
    assert!(
        fitting.settings().contains_key("/p/q"),
        "ancestors are made"
    );
}

#[test]
fn files_exist_from_their_version_on() {
    let burst = |value: u64| format!("[\"/a\"]\n\"cpu.max\" = 5000\n\"cpu.max.burst\" = {value}\n");
    let error = tree_on("5.13", &[&burst(1)]).unwrap_err().to_string();
    let expected = "g.toml:3:1: ENOENT: kernel 5.13 has no `cpu.max.burst`: 5.14 brought it";
    assert_eq!(error, expected);
    let zero = tree_on("5.13", &[&burst(0)]);
    assert!(zero.is_ok(), "zero is what it does anyway");
    assert!(tree_on("5.14", &[&burst(1)]).is_ok());
    let without = kernel("version = \"6.12\"\npatches = [\"-burst\"]\n");
    let layer = parse(&Source::new("g.toml", burst(1))).unwrap();
    let error = CgroupTree::default().write(&layer, &without).unwrap_err();
    assert_eq!(
        error.to_string(),
        "g.toml:3:1: ENOENT: kernel 6.12 without its patch `burst` has no `cpu.max.burst`"
    );
    assert!(tree_on("5.14", &["[\"/a\"]\n\"cpu.idle\" = 1\n"]).is_err());
}

#[test]
fn unknown_groups_are_refused_with_the_nearest() {
    let tree = tree_on("6.12", &["[\"/test\"]\n"]).unwrap();
    let place = Place::new(&Source::new("x", "cgroup"), 0..6);
    let error = |path: &str| tree.refuse_unknown(path, &place).unwrap_err().to_string();
    for (path, hint) in [
        ("/tset", "nearest cgroup is"),
        ("/other/one", "cgroups are"),
    ] {
        let expected = format!("x:1:1: unknown cgroup `{path}` (the {hint} `/test`)");
        assert_eq!(error(path), expected);
    }
    assert!(tree.refuse_unknown("/", &place).is_ok());
}

#[test]
fn commands_keep_burst_below_quota_at_every_step() {
    let at = |quota_us, burst_us| CpuLimits {
        quota_us,
        burst_us,
        ..Default::default()
    };
    let v2 = |before: (Option<u64>, u64), after: (Option<u64>, u64)| {
        let (before, after) = (at(before.0, before.1), at(after.0, after.1));
        limit_commands(CgroupVersion::V2, before, after).join("; ")
    };
    assert_eq!(
        v2((Some(50_000), 0), (Some(100_000), 50_000)),
        "echo \"100000 100000\" > cpu.max; echo 50000 > cpu.max.burst"
    );
    assert_eq!(
        v2((Some(100_000), 100_000), (Some(50_000), 0)),
        "echo 0 > cpu.max.burst; echo \"50000 100000\" > cpu.max"
    );
    let lifted = v2((Some(50_000), 0), (None, 0));
    assert_eq!(lifted, "echo \"max 100000\" > cpu.max");
    assert_eq!(v2((Some(50_000), 0), (Some(50_000), 0)), "");
    let v1 = limit_commands(CgroupVersion::V1, at(Some(50_000), 0), at(None, 9)).join("; ");
    assert_eq!(v1, "echo -1 > cpu.cfs_quota_us; echo 9 > cpu.cfs_burst_us");
}

#[test]
fn a_hierarchy_has_at_most_100_levels_and_4096_bytes() {
    let group = |path: &str| tree_on("6.12", &[&format!("[\"{path}\"]\n\"cpu.max\" = 5000\n")]);
    assert_eq!(group(&"/a".repeat(100)).unwrap().settings().len(), 100);
    let refuse = |path: &str| group(path).unwrap_err().to_string();
    let bounds = "; at most 100 levels and 4096 bytes";
    let message = refuse(&"/a".repeat(100_000));
    assert_ends(&message, &format!("100000 levels and 200000 bytes{bounds}"));
    assert!(refuse(&"/a".repeat(101)).contains("101 levels and 202 bytes"));
    let long = format!("/{}", "a".repeat(4095));
    assert_eq!(group(&long).unwrap().settings().len(), 1);
    assert!(refuse(&format!("{long}a")).contains("1 levels and 4097 bytes"));
}

/// The group `/a` on a kernel with utilisation clamps.
fn clamped(files: &str) -> Result<CgroupSettings> {
    let kernel = kernel("version = \"6.12\"\nuclamp = true\n");
    let mut tree = CgroupTree::default();
    let layer = format!("[\"/a\"]\n{files}\n");
    tree.write(&parse(&Source::new("g.toml", &layer)).unwrap(), &kernel)?;
    Ok(tree.settings()["/a"].clone())
}

#[test]
fn clamps_are_percentages_of_the_fastest_cpu() {
    let min = |text: &str| {
        let group = clamped(&format!("\"cpu.uclamp.min\" = {text}")).unwrap();
        assert_eq!(group.clamps.max, 1024);
        group.clamps.min
    };
    // 20 % of 1024 is 204.8; 0.05 % is 0.512, 0.04 % 0.4096.
    for (text, clamp) in [
        ("20", 205),
        ("\"20.00\"", 205),
        ("12.5", 128),
        ("0.05", 1),
        ("0.04", 0),
        ("\"99.996\"", 1024),
        ("\"max\"", 1024),
        ("0", 0),
    ] {
        assert_eq!(min(text), clamp, "{text}");
    }
    let both = clamped("\"cpu.uclamp.min\" = 10\n\"cpu.uclamp.max\" = \"50.5\"").unwrap();
    assert_eq!((both.clamps.min, both.clamps.max), (102, 517));
    let files = both.clamp_files();
    assert_eq!(files[1], ("cpu.uclamp.max", "50.49".to_string()));
}

#[test]
fn a_kernel_without_clamps_has_no_such_files() {
    // What it does anyway.
    assert!(group("\"cpu.uclamp.min\" = 0\n\"cpu.uclamp.max\" = \"max\"").is_ok());
}
