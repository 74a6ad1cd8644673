//! Every key that a shipped machine's file has changes what a simulation does or reports, but for
//! those that are listed.

use std::collections::BTreeSet;

use schedcast_lab::experiment::{self, Scenario};
use schedcast_lab::outcome::Outcome;
use schedcast_lab::simulate::Simulate;
use schedcast_lab::simulator::Simulator;
use schedcast_sim::Machine;
use schedcast_sim::machine::PRESETS;
use toml::{Table, Value};

/// Keys that name something, without an effect on what runs.
const NAMES: [&str; 3] = ["schema", "title", "idle.state.name"];

/// Loads that between them use every price.
const LOADS: [&str; 9] = [
    "hackbench -p -g 2 -l 100",
    "taskset -c 0 hackbench -p -g 1 -l 50",
    "rt-app ../../examples/myths/job.json",
    "hackbench -g 1 -l 100",
    "schbench-classic -m 2 -t 4 -r 1 -s 1000 -c 1000",
    "netperf -t UDP_RR -l 1",
    "cyclictest -t 8 -i 1000 -D 1",
    "stress-ng --cpu 12 -t 1",
    "pgbench -c 8 -T 1",
];

/// Keys that no load here shows: they need a longer run, another kernel, or a change of several
/// keys at once.
const UNSEEN: [&str; 8] = [
    "cost.bandwidth_period_timer_ns",
    "cost.tlb_refill_ns",
    "cost.unthrottle_ns",
    "frequency.base_mhz",
    "frequency.table.cpus",
    "power.interval_ns",
    "program_cost.shared_files_ns",
    "topology.cpu.socket",
];

fn scenario(load: &str) -> Scenario {
    let text = format!(
        "
        [kernel]
        version = \"7.3\"
        [cgroup.\"/a/b\"]
        \"cpu.max\" = \"5000 10000\"
        [[program]]
        run = \"{load}\"
        cgroup = \"/a/b\"
        [[program]]
        name = \"apart\"
        run = \"{load}\"
        [run]
        duration = \"60ms\"
    "
    );
    let read = experiment::read_text("load.toml", text);
    read.unwrap_or_else(|e| panic!("{load}: {e}"))
        .scenarios
        .swap_remove(0)
}

/// Places of all values that are no table, each with the name of its key on the page.
fn leaves(value: &Value, path: &[String], name: &str, found: &mut Vec<(Vec<String>, String)>) {
    let mut inner = |step: &str, value: &Value, name: &str| {
        let path = [path, &[step.to_string()]].concat();
        leaves(value, &path, name, found);
    };
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                let name = if name.is_empty() {
                    key.clone()
                } else {
                    format!("{name}.{key}")
                };
                inner(key, value, &name);
            }
        }
        Value::Array(rows) if rows.iter().any(Value::is_table) => {
            for (row, value) in rows.iter().enumerate() {
                inner(&row.to_string(), value, name);
            }
        }
        _ => found.push((path.to_vec(), name.to_string())),
    }
}

fn at<'a>(table: &'a mut Value, path: &[String]) -> &'a mut Value {
    path.iter().fold(table, |value, step| match value {
        Value::Table(table) => &mut table[step],
        Value::Array(rows) => &mut rows[step.parse::<usize>().unwrap()],
        _ => unreachable!("{step} is in no table"),
    })
}

/// Other values for a key; some of them may be refused.
fn others(value: &Value) -> Vec<Value> {
    match value {
        Value::Boolean(is) => vec![Value::Boolean(!is)],
        Value::Integer(number) => [3 * number + 100_000, 3 * number, number / 2, number + 1]
            .map(Value::Integer)
            .to_vec(),
        Value::String(_) => WORDS.map(Value::from).to_vec(),
        Value::Array(rows) => {
            let each = |change: usize| {
                let rows = rows.iter().map(|row| others(row).swap_remove(change));
                Value::Array(rows.collect())
            };
            let mut reversed = rows.clone();
            reversed.reverse();
            vec![each(1), each(2), each(0), Value::Array(reversed)]
        }
        _ => Vec::new(),
    }
}

const WORDS: [&str; 20] = [
    "performance",
    "powersave",
    "schedutil",
    "ondemand",
    "conservative",
    "userspace",
    "core",
    "cluster",
    "package",
    "table",
    "intel_pstate",
    "intel_cpufreq",
    "acpi-cpufreq",
    "menu",
    "teo",
    "haltpoll",
    "polling",
    "monitor",
    "interrupt",
    "0",
];

#[test]
fn every_key_of_a_machine_has_an_effect() {
    let simulator = Simulator::new();
    let run = |load: &Scenario, machine: &Machine| -> Option<Outcome> {
        let mut scenario = load.clone();
        scenario.machine.machine = machine.clone();
        simulator.run(&scenario, 1).ok()
    };
    let loads = LOADS.map(scenario);
    let mut seen: BTreeSet<String> = NAMES.map(str::to_string).into();
    let mut effective = seen.clone();
    for (preset, text) in PRESETS {
        let table: Table = text.parse().unwrap();
        let machine = |table: Table| Machine::from_table(preset, table);
        let known = machine(table.clone()).unwrap_or_else(|e| panic!("{preset}: {e}"));
        let usual = loads.each_ref().map(|load| run(load, &known));
        let mut found = Vec::new();
        leaves(&Value::Table(table.clone()), &[], "", &mut found);
        for (path, name) in found {
            let is_new = seen.insert(name.clone());
            // Nothing is gained by trying those in vain on every machine.
            if effective.contains(&name) || (!is_new && UNSEEN.contains(&name.as_str())) {
                continue;
            }
            let mut changed = Value::Table(table.clone());
            let values = others(at(&mut changed, &path));
            let machines = values.into_iter().filter_map(|value| {
                let mut changed = changed.clone();
                *at(&mut changed, &path) = value;
                machine(changed.as_table().unwrap().clone()).ok()
            });
            let mut machines = machines.take(4);
            if machines.any(|machine| {
                let mut pairs = loads.iter().zip(&usual);
                pairs.any(|(load, usual)| run(load, &machine) != *usual)
            }) {
                effective.insert(name);
            }
        }
    }
    let idle: Vec<_> = seen.difference(&effective).collect();
    assert_eq!(idle, UNSEEN, "keys without an effect");
}
