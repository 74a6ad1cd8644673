//! A decision as JSON: what the text says, with units in the names of the numbers.
//!
//! ```json
//! { "time_ns": 4000000, "cpu": 0, "kind": "throttle", "group": "/test",
//!   "rule": { "mark": "RuntimeUsedUp", "function": "throttle_cfs_rq", "versions": "4.5 –", "says": "…" },
//!   "quota_ns": 50000000, "period_ns": 100000000, "burst_ns": 0,
//!   "runtime_remaining_ns": -2154000, "pool_ns": 0, "refill_at_ns": 119338565, "tasks": 1 }
//! ```

use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::explain::{
    Balancing, Candidate, Decision, GroupState, PickLevel, Placement, Throttling,
};
use schedcast_kernel::model::Mark;
use schedcast_kernel::rules::FairClass;
use schedcast_sim::{Explained, World};
use serde_json::{Map, Value, json};

use super::describe::{Writer, kind_of, near_a_target, pulling_cpu, unit_of};
use super::{Difference, Kind, Told};
use crate::experiment::Scenario;

const SCHEMA: &str = "schedcast.explanation/1";

/// The decision as an object.
pub(super) fn value(world: &World<true>, one: &Explained) -> Value {
    let writer = Writer { world };
    let mut object = Map::new();
    object.insert("time_ns".into(), one.time_ns.into());
    object.insert("cpu".into(), one.cpu.0.into());
    object.insert("kind".into(), Kind::of(&one.decision).name().into());
    if let Value::Object(about) = writer.value(&one.decision) {
        object.extend(about);
    }
    Value::Object(object)
}

/// All decisions that were asked for, as a document.
pub fn decisions_json(told: &[Told], scenario: &Scenario, seed: u64) -> String {
    let decisions: Vec<&Value> = told.iter().map(|one| &one.value).collect();
    document(json!({
        "schema": SCHEMA,
        "seed": seed,
        "variant": scenario.name,
        "decisions": decisions,
    }))
}

/// First decision in which two scenarios differ, as a document; `null` when there is none.
pub fn difference_json(
    found: Option<&Difference>,
    a: &Scenario,
    b: &Scenario,
    seed: u64,
) -> String {
    document(json!({
        "schema": SCHEMA,
        "seed": seed,
        "variants": [a.name, b.name],
        "difference": found.map(Difference::value),
    }))
}

fn document(value: Value) -> String {
    format!("{value:#}\n")
}

fn cpus(set: &CpuSet) -> Vec<u32> {
    set.iter().map(|cpu| cpu.0).collect()
}

fn group_state(group: &GroupState) -> Value {
    json!({
        "cpus": cpus(&group.cpus),
        "type": group.kind,
        "running": group.nr_running,
        "idle_cpus": group.idle_cpus,
        "load": group.load,
        "util": group.util,
        "capacity": group.capacity,
    })
}

impl Writer<'_> {
    fn rule_value(&self, mark: Mark) -> Value {
        let about = mark.about();
        json!({
            "mark": about.name,
            "function": self.function(mark),
            "versions": about.versions(),
            "says": about.says,
        })
    }

    fn value(&self, decision: &Decision) -> Value {
        match decision {
            Decision::Pick { task, levels } => json!({
                "task": self.task(*task),
                "virtual_times_from": self.origin(),
                "queues": levels.iter().map(|level| self.level_value(level)).collect::<Vec<_>>(),
            }),
            Decision::Preempt {
                wakee,
                curr,
                preempts,
                rule: mark,
                siblings,
            } => json!({
                "wakee": self.task(*wakee),
                "running": self.task(*curr),
                "preempts": preempts,
                "rule": self.rule_value(*mark),
                "virtual_times_from": self.origin(),
                "compared": siblings.as_deref().map(|pair| json!({
                    "queue": self.group(pair.group),
                    "running": self.entity_value(&pair.curr),
                    "wakee": self.entity_value(&pair.wakee),
                    "would_be_picked": pair.picked.as_ref().map(|one| self.entity_value(one)),
                })),
            }),
            Decision::Place(one) => self.place_value(one),
            Decision::Throttle(one) => self.throttle_value(one),
            Decision::Balance(one) => self.balance_value(one),
        }
    }

    fn level_value(&self, level: &PickLevel) -> Value {
        let entities = level.candidates.iter();
        json!({
            "queue": self.group(level.group),
            "picked": self.owner(level.picked),
            "rule": self.rule_value(level.rule),
            "entities": entities.map(|one| self.entity_value(one)).collect::<Vec<_>>(),
        })
    }

    /// Lag, deadline and eligibility are EEVDF's.
    fn entity_value(&self, one: &Candidate) -> Value {
        let mut value = json!({
            "entity": self.owner(one.owner),
            "weight": one.weight,
            "vruntime_ns": one.vruntime_ns,
            "slice_ns": one.slice_ns,
            "running": one.running,
        });
        if !one.queued {
            value["queued"] = false.into();
        }
        if self.rules().fair == FairClass::Eevdf
            && let Value::Object(object) = &mut value
        {
            object.insert("lag_ns".into(), (-one.vruntime_ns).into());
            object.insert("deadline_ns".into(), one.deadline_ns.into());
            object.insert("eligible".into(), one.eligible.into());
            object.insert("protected".into(), one.protected.into());
            object.insert("delayed".into(), one.delayed.into());
        }
        value
    }

    fn place_value(&self, one: &Placement) -> Value {
        let near = near_a_target(one);
        let mut value = json!({
            "task": self.task(one.task),
            "at": kind_of(one.kind),
            "waker": self.task(one.waker),
            "waker_cpu": one.waker_cpu.0,
            "sync": one.sync,
            "previous_cpu": one.prev_cpu.0,
            "target_cpu": near.then_some(one.target.0),
            "target_rule": near.then(|| self.rule_value(one.target_rule)),
            "chosen_cpu": one.cpu.0,
            "rule": self.rule_value(one.rule),
            "cpus_looked_at_first": one.near_first.as_ref().map(cpus),
            "cpus_looked_at": one.examined,
            "scan_limit": one.scan_limit,
            "idle_cpus": cpus(&one.idle),
        });
        if one.rule.is_by_energy() {
            let energies = one.energies.iter();
            let energies = energies.map(|of| json!({ "cpu": of.cpu.0, "energy": of.energy }));
            value["energies"] = energies.collect();
        }
        value
    }

    fn balance_value(&self, one: &Balancing) -> Value {
        json!({
            "to_cpu": one.dst.0,
            "from_cpu": one.src.map(|cpu| cpu.0),
            "moved": one.moved,
            "pulling_cpu_is": pulling_cpu(one.idle),
            "domain": one.domain,
            "left_to_move": one.imbalance,
            "unit": unit_of(one.migration),
            "rule": self.rule_value(one.rule),
            "local": one.groups.as_ref().map(|(local, _)| group_state(local)),
            "busiest": one.groups.as_ref().map(|(_, busiest)| group_state(busiest)),
        })
    }

    fn throttle_value(&self, one: &Throttling) -> Value {
        json!({
            "group": self.group(one.group),
            "rule": self.rule_value(one.rule),
            "quota_ns": one.limit.quota_ns,
            "period_ns": one.limit.period_ns,
            "burst_ns": one.limit.burst_ns,
            "runtime_remaining_ns": one.runtime_remaining_ns,
            "pool_ns": one.pool_ns,
            "refill_at_ns": one.refill_at_ns,
            "tasks": one.tasks,
        })
    }
}
