//! Two weights and a limit under another kernel, booted for it, as predicted: the quick part of
//! `make validate`.
//!
//! `make validate-quick` runs it with the release binary. Without qemu, stress-ng or a kernel it
//! skips, saying so.

use std::path::Path;
use std::process::Command;

use schedcast_host::vm::{KERNELS, KernelImage};

const EXPERIMENT: &str = r#"
[machine]
preset = "dev-vm"
cpus = 1

[cgroup."/a"]
"cpu.weight" = 100
[cgroup."/b"]
"cpu.weight" = 300
[cgroup."/limited"]
"cpu.max" = "5000 50000"

[[program]]
name = "first"
run = "stress-ng --cpu 2 -t 9"
cgroup = "/a"
[[program]]
name = "second"
run = "stress-ng --cpu 1 -t 9"
cgroup = "/b"
[[program]]
name = "third"
run = "stress-ng --cpu 2 -t 9"
cgroup = "/limited"

[run]
seeds = 4
duration = "2s"
"#;

/// Of every figure. Two seconds have thirty periods in the part that counts, and one more or less
/// is 3 %.
const ERROR_MAX: f64 = 0.06;

fn is_here(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Why the test cannot be made under `series`.
fn missing(series: &str) -> Option<String> {
    let tools = ["qemu-system-x86_64", "stress-ng"];
    let tool = tools.into_iter().find(|tool| !is_here(tool));
    let kernel = KernelImage::find(series).err();
    tool.map(|tool| format!("no {tool}"))
        .or(kernel.map(|error| error.to_string()))
}

fn check(series: &str) {
    if let Some(why) = missing(series) {
        eprintln!("skipped: Linux {series} in a virtual machine: {why}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (experiment, results) = (folder.path().join("a.toml"), folder.path().join("a.json"));
    std::fs::write(&experiment, EXPERIMENT).unwrap();
    let built = env!("CARGO_BIN_EXE_schedcast").to_owned();
    let binary = std::env::var("SCHEDCAST").unwrap_or(built);
    let done = Command::new(binary)
        .args(format!("validate --on vm:{series} --repeats 1 --results").split(' '))
        .args([&results, &experiment])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let twins = schedcast_verify::validate::read_results(&results).unwrap();
    let [twin] = twins.as_slice() else {
        panic!("one scenario, found {}", twins.len());
    };
    assert!(twin.kernel.starts_with(&format!("{series}.")), "{twin:?}");
    let metrics: Vec<&str> = twin.rows.iter().map(|row| row.metric.as_str()).collect();
    for metric in ["a/usage_usec", "b/usage_usec", "limited/nr_throttled"] {
        let metric = format!("cgroup:/{metric}");
        assert!(metrics.contains(&metric.as_str()), "{metrics:?}");
    }
    for row in &twin.rows {
        assert!(row.error().abs() <= ERROR_MAX, "{row:?}");
    }
}

/// Kernels that `make kernels` fetched are found without being named.
fn find_fetched_kernels() {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kernels/boot");
    if std::env::var_os(KERNELS).is_none() && fetched.is_dir() {
        // SAFETY: this process has one test and no other thread that reads the environment.
        #[allow(unsafe_code)]
        unsafe {
            std::env::set_var(KERNELS, fetched);
        }
    }
}

#[test]
#[ignore = "boots two kernels: make validate-quick"]
fn other_kernels_share_and_throttle_as_predicted() {
    find_fetched_kernels();
    check("6.1");
    check("6.12");
}
