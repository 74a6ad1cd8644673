//! One limit in the words of every tool that can set it.
//!
//! Worked example: 60 000 us in 100 000 us with 20 000 us of burst.
//!
//! | tool | what is written |
//! |---|---|
//! | cgroup v2 | `60000 100000` to `cpu.max`, then `20000` to `cpu.max.burst` |
//! | cgroup v1 | `60000` to `cpu.cfs_quota_us`, then `20000` to `cpu.cfs_burst_us` |
//! | systemd | nothing: it has no property for burst; without one `CPUQuota=60% CPUQuotaPeriodSec=100ms` |
//! | OCI | `quota`, `period` and `burst` of `linux.resources.cpu` |
//! | Kubernetes | nothing: a pod has no field for burst; without one `limits.cpu: 600m`, in the period of the kubelet |
//!
//! Weights differ more: Kubernetes requests become `cpu.shares`, and two formulas turn these into
//! `cpu.weight`. One CPU is 1024 shares, weight 39 by the linear formula (kubelet for pods, runc
//! before 1.3.2, crun before 1.23) and 100 by the quadratic one (later runc and crun, for
//! containers).

use schedcast_base::groups::{Owner, owner};
use serde::{Deserialize, Serialize};

use crate::experiment::cgroup::{CgroupVersion, limit_commands};
use schedcast_base::limits::CpuLimits;

/// The period that a kubelet uses unless told otherwise, µs.
const KUBELET_PERIOD_US: u64 = 100_000;
/// The kubelet's smallest quota, µs.
const KUBELET_QUOTA_MIN_US: u64 = 1_000;

/// Commands and settings to type, by tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patches {
    /// Shell commands in the group's directory, cgroup v1.
    pub cgroup_v1: Vec<String>,
    /// Shell commands in the group's directory, cgroup v2.
    pub cgroup_v2: Vec<String>,
    /// The command for a unit; null where systemd cannot say the limit.
    pub systemd: Option<String>,
    /// A fragment of an OCI `config.json`.
    pub oci: serde_json::Value,
    /// A strategic-merge patch of a pod; null where a pod cannot say the limit.
    pub kubernetes: Option<serde_json::Value>,
    /// The group's weight, which stays as it is.
    pub weight: WeightOf,
    /// Settings that these tools cannot express.
    pub notes: Vec<String>,
}

/// A weight in the files of both versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightOf {
    /// `cpu.shares`.
    pub shares: u64,
    /// `cpu.weight` that the linear formula makes of these shares.
    pub linear: u64,
    /// `cpu.weight` that the quadratic formula makes of them.
    pub quadratic: u64,
}

impl Patches {
    /// Each tool with what is typed for it.
    pub fn lines(&self) -> [(&'static str, String); 5] {
        let joined = |commands: &[String]| match commands {
            [] => "nothing to change".to_string(),
            commands => commands.join("; "),
        };
        [
            ("cgroup v1", joined(&self.cgroup_v1)),
            ("cgroup v2", joined(&self.cgroup_v2)),
            ("systemd", or_unsaid(self.systemd.clone())),
            ("OCI", self.oci.to_string()),
            (
                "Kubernetes",
                or_unsaid(self.kubernetes.as_ref().map(ToString::to_string)),
            ),
        ]
    }
}

fn or_unsaid(said: Option<String>) -> String {
    said.unwrap_or_else(|| "cannot say this limit: see the note".to_string())
}

/// Whether the owner of the group `target` can write `after` where it wrote `before`. Whoever owns
/// no group can write any limit; so can docker and podman, but for burst.
pub fn can_be_written(target: &str, before: CpuLimits, after: CpuLimits) -> bool {
    match owner(target) {
        None => true,
        Some(Owner::Kubelet) => unsaid_by_kubernetes(before, after).is_none(),
        Some(Owner::Systemd | Owner::Docker | Owner::Podman) => after.burst_us == 0,
    }
}

/// How `after` is reached from `before`, for the group `target` with `shares`.
pub fn patches(target: &str, before: CpuLimits, after: CpuLimits, shares: u64) -> Patches {
    let mut notes = Vec::new();
    Patches {
        cgroup_v1: limit_commands(CgroupVersion::V1, before, after),
        cgroup_v2: limit_commands(CgroupVersion::V2, before, after),
        systemd: systemd(target, after, &mut notes),
        oci: oci(after),
        kubernetes: kubernetes(before, after, &mut notes),
        weight: WeightOf {
            shares,
            linear: weight_linear(shares),
            quadratic: weight_quadratic(shares),
        },
        notes,
    }
}

/// The last part of the path where that is a unit.
fn unit(target: &str) -> &str {
    let last = target.rsplit('/').next().unwrap_or("");
    let kinds = [".service", ".scope", ".slice"];
    match kinds.iter().any(|kind| last.ends_with(kind)) {
        true => last,
        false => "UNIT",
    }
}

fn systemd(target: &str, limit: CpuLimits, notes: &mut Vec<String>) -> Option<String> {
    let unit = unit(target);
    if limit.burst_us > 0 {
        notes.push(
            "systemd: no property for burst; write the file after each daemon-reload".to_string(),
        );
        return None;
    }
    let Some(quota_us) = limit.quota_us else {
        return Some(format!("systemctl set-property --runtime {unit} CPUQuota="));
    };
    let percent = (quota_us * 100).div_ceil(limit.period_us);
    if !(quota_us * 100).is_multiple_of(limit.period_us) {
        notes.push("systemd: the quota is rounded up to whole per cent".to_string());
    }
    let period = crate::experiment::units::format_duration_ns(limit.period_us * 1000);
    Some(format!(
        "systemctl set-property --runtime {unit} CPUQuota={percent}% CPUQuotaPeriodSec={period}"
    ))
}

fn oci(limit: CpuLimits) -> serde_json::Value {
    let quota = limit.quota_us.map_or(-1, |quota_us| quota_us as i64);
    let mut cpu = serde_json::json!({"quota": quota, "period": limit.period_us});
    if limit.burst_us > 0 {
        cpu["burst"] = limit.burst_us.into();
    }
    serde_json::json!({"linux": {"resources": {"cpu": cpu}}})
}

/// Why the resources of a pod cannot say `after`. The period is one of the whole node: it can be
/// said only where it is that of the recording, or the kubelet's own where nothing was limited.
fn unsaid_by_kubernetes(before: CpuLimits, after: CpuLimits) -> Option<String> {
    if after.burst_us > 0 {
        return Some("no field for burst; the file of the container's group".to_string());
    }
    let period_us = match before.quota_us {
        Some(_) => before.period_us,
        None => KUBELET_PERIOD_US,
    };
    (after.quota_us.is_some() && after.period_us != period_us).then(|| {
        let period = crate::experiment::units::format_duration_ns(after.period_us * 1000);
        format!("the period is the kubelet's, for the whole node: cpuCFSQuotaPeriod: {period}")
    })
}

fn kubernetes(
    before: CpuLimits,
    after: CpuLimits,
    notes: &mut Vec<String>,
) -> Option<serde_json::Value> {
    if let Some(why) = unsaid_by_kubernetes(before, after) {
        notes.push(format!("Kubernetes: {why}"));
        return None;
    }
    let cpu = after.quota_us.map(|quota_us| {
        let milli = (quota_us * 1000).div_ceil(after.period_us);
        if milli * after.period_us / 1000 < KUBELET_QUOTA_MIN_US {
            notes.push("Kubernetes: the kubelet raises quotas below 1 ms to 1 ms".to_string());
        }
        format!("{milli}m")
    });
    let container = serde_json::json!({"name": "NAME", "resources": {"limits": {"cpu": cpu}}});
    Some(serde_json::json!({"spec": {"containers": [container]}}))
}

/// `cpu.weight` of `shares` by the linear formula: kubelet for pods; runc before 1.3.2, crun before
/// 1.23.
pub(crate) fn weight_linear(shares: u64) -> u64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9999 / 262_142
}

/// `cpu.weight` of `shares` by the quadratic formula: containers of runc 1.3.2, crun 1.23 and
/// later.
pub(crate) fn weight_quadratic(shares: u64) -> u64 {
    if shares <= 2 {
        return 1;
    }
    if shares >= 262_144 {
        return 10_000;
    }
    let doublings = (shares as f64).log2();
    let exponent = (doublings * doublings + 125.0 * doublings) / 612.0 - 7.0 / 34.0;
    10f64.powf(exponent).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::assert_ends;

    const RECORDED: CpuLimits = CpuLimits::new(50_000, 100_000, 0);

    #[test]
    fn one_limit_in_every_tongue() {
        let after = CpuLimits::new(60_000, 100_000, 20_000);
        let patches = patches("/system.slice/pg.service", RECORDED, after, 1024);
        let expected = "echo 60000 > cpu.cfs_quota_us; echo 20000 > cpu.cfs_burst_us";
        assert_eq!(patches.cgroup_v1.join("; "), expected);
        let expected = "echo \"60000 100000\" > cpu.max; echo 20000 > cpu.max.burst";
        assert_eq!(patches.cgroup_v2.join("; "), expected);
        assert_eq!((&patches.systemd, &patches.kubernetes), (&None, &None));
        assert_eq!(
            patches.oci.to_string(),
            r#"{"linux":{"resources":{"cpu":{"burst":20000,"period":100000,"quota":60000}}}}"#
        );
        assert_eq!(patches.notes.len(), 2, "{:?}", patches.notes);
        let after = CpuLimits::new(60_000, 100_000, 0);
        let said = super::patches("/system.slice/pg.service", RECORDED, after, 1024);
        assert_eq!(
            said.systemd.unwrap(),
            "systemctl set-property --runtime pg.service CPUQuota=60% CPUQuotaPeriodSec=100ms"
        );
        let kubernetes = said.kubernetes.unwrap().to_string();
        assert!(kubernetes.contains(r#""cpu":"600m""#), "{kubernetes}");
    }

    #[test]
    fn limits_that_tools_cannot_say_are_noted() {
        let after = CpuLimits::new(3_333, 10_000, 0);
        let shorter = patches("/pg", RECORDED, after, 1024);
        assert_ends(
            shorter.systemd.unwrap(),
            "UNIT CPUQuota=34% CPUQuotaPeriodSec=10ms",
        );
        assert_eq!(
            shorter.kubernetes, None,
            "334m of another period is another limit"
        );
        let node = patches(
            "/pg",
            CpuLimits {
                quota_us: Some(2_000),
                ..after
            },
            after,
            1024,
        );
        assert!(node.kubernetes.unwrap().to_string().contains("334m"));
        let notes = shorter.notes.join("\n");
        assert!(notes.contains("rounded up") && notes.contains("cpuCFSQuotaPeriod: 10ms"));
        let none = patches(
            "/pg",
            RECORDED,
            CpuLimits {
                quota_us: None,
                ..RECORDED
            },
            1024,
        );
        let kubernetes = none.kubernetes.unwrap().to_string();
        assert!(kubernetes.contains(r#""cpu":null"#), "{kubernetes}");
        assert_eq!(none.cgroup_v1, ["echo -1 > cpu.cfs_quota_us"]);
    }

    #[test]
    fn an_owner_writes_what_it_has_a_setting_for() {
        let with = CpuLimits::new;
        let (more, shorter) = (with(60_000, 100_000, 0), with(6_000, 10_000, 0));
        let burst = with(50_000, 100_000, 20_000);
        let pod = "/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope";
        let expected = [
            ("/pg", [true, true, true]),
            ("/system.slice/pg.service", [true, true, false]),
            (pod, [true, false, false]),
        ];
        for (target, can) in expected {
            let written =
                [more, shorter, burst].map(|after| can_be_written(target, RECORDED, after));
            assert_eq!(written, can, "{target}");
        }
    }

    /// Request, shares, linear, quadratic: the two formulas at the sizes people use.
    #[test]
    fn weights_by_both_formulas() {
        let rows = [
            (0, 2, 1, 1),
            (10, 10, 1, 4),
            (100, 102, 4, 17),
            (250, 256, 10, 35),
            (500, 512, 20, 59),
            (1000, 1024, 39, 100),
            (4000, 4096, 157, 303),
            (8000, 8192, 313, 532),
            (64000, 65536, 2500, 3023),
        ];
        for (milli, shares, linear, quadratic) in rows {
            assert_eq!(
                (weight_linear(shares), weight_quadratic(shares)),
                (linear, quadratic),
                "{milli}m"
            );
        }
        assert_eq!(
            (weight_linear(262_144), weight_quadratic(262_144)),
            (10_000, 10_000)
        );
    }
}
