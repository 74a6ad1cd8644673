//! Decisions as a user sees them, on scenarios small enough to be followed by hand.

use super::*;
use crate::experiment;
use schedcast_base::assert_contains;
use serde_json::Value;

/// The scenarios of an experiment file.
fn scenarios(text: &str) -> Vec<Scenario> {
    let experiment = experiment::read_text("t.toml", text).unwrap();
    experiment.scenarios
}

const ANY: Wanted = Wanted {
    at_ns: None,
    task: None,
    kind: None,
    count: 1,
    of_replay: false,
};

fn told(scenario: &Scenario, wanted: &Wanted) -> String {
    explain(&Simulator::new(), scenario, 0, wanted).unwrap()
}

fn refused(scenario: &Scenario, wanted: &Wanted) -> String {
    explain(&Simulator::new(), scenario, 0, wanted)
        .unwrap_err()
        .render()
}

/// Two workers of stress-ng on the CPUs of a machine, in a limited group.
fn crowd(cpus: u32, version: &str) -> Scenario {
    let text = format!(
        "[machine]\npreset = \"generic-8\"\ncpus = {cpus}\n[kernel]\nversion = \"{version}\"\nhz = 250\n\
         [cgroup.\"/test\"]\n\"cpu.max\" = \"30000 100000\"\n\
         [[program]]\nrun = \"stress-ng --cpu 2 -t 2\"\ncgroup = \"/test\"\n[run]\nduration = \"2s\"\n"
    );
    scenarios(&text).remove(0)
}

#[test]
fn a_throttled_queue_tells_what_it_had() {
    let wanted = Wanted {
        kind: Some(Kind::Throttle),
        at_ns: Some(500_000_000),
        ..ANY
    };
    let text = told(&crowd(1, "6.1"), &wanted);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("CPU 0  throttle: /test"), "{text}");
    assert!(lines[2].contains("throttle_cfs_rq (4.5 –), mark RuntimeUsedUp"));
    assert!(lines[3].contains("quota 30.000 ms, period 100.000 ms, burst 0.000 ms"));
    // Aligned timers: the refill is at a multiple of the period.
    assert_contains(lines[4], "pool 0.000 ms, tasks 2; refill at 0.600000000 s");
    // It ran beyond its runtime until the tick, and does so in every kernel.
    assert!(lines[4].contains("runtime_remaining -"), "{text}");
}

#[test]
fn a_pick_shows_every_queue_from_the_root_down() {
    let wanted = Wanted {
        kind: Some(Kind::Pick),
        at_ns: Some(520_000_000),
        ..ANY
    };
    let eevdf = told(&crowd(1, "6.12"), &wanted);
    assert_contains(&eevdf, "queue    /, ms, virtual times from V");
    assert_contains(&eevdf, "queue    /test, ms, virtual times from V");
    assert!(
        eevdf.contains("earliest eligible virtual deadline\n           pick_eevdf (6.6 –)"),
        "{eevdf}"
    );
    // The lags of two entities of equal weight are opposite.
    let lags: Vec<f64> = eevdf
        .lines()
        .filter(|line| line.contains("stress-ng") && line.contains("1024"))
        .map(|line| line.split_whitespace().rev().collect::<Vec<_>>())
        .filter_map(|words| {
            words
                .iter()
                .rev()
                .skip_while(|word| **word != "1024")
                .nth(2)?
                .parse()
                .ok()
        })
        .collect();
    assert_eq!(lags.len(), 2, "{eevdf}");
    assert!((lags[0] + lags[1]).abs() < 0.01, "{eevdf}");
    let cfs = told(&crowd(1, "6.1"), &wanted);
    assert!(cfs.contains("virtual times from min_vruntime"), "{cfs}");
    // Functions have the names of the kernel that is simulated.
    assert!(!cfs.contains("pick_eevdf"), "{cfs}");
    assert!(!cfs.contains("lag"), "{cfs}");
}

#[test]
fn forks_and_wakeups_name_the_cpus_that_were_idle() {
    let wanted = Wanted {
        kind: Some(Kind::Place),
        task: Some("stress-ng".to_string()),
        ..ANY
    };
    let text = told(&crowd(4, "6.12"), &wanted);
    assert!(text.contains("place: stress-ng:"), "{text}");
    assert!(text.contains("at fork"), "{text}");
    assert!(text.contains("the idlest CPU at fork"), "{text}");
    assert!(text.contains("idle CPUs "), "{text}");
}

/// The start of the first program is no decision of a recorded machine, unless it is asked for.
#[test]
fn tasks_that_are_there_at_the_start_of_a_replay_are_not_placed_by_it() {
    let placed = |of_replay: bool, at_ns: Option<Ns>| {
        let wanted = Wanted {
            kind: Some(Kind::Place),
            at_ns,
            of_replay,
            ..ANY
        };
        told(&crowd(4, "6.12"), &wanted)
    };
    assert_ne!(placed(true, None), placed(false, None));
    assert_eq!(placed(true, Some(0)), placed(false, None));
}

#[test]
fn explaining_changes_nothing() {
    let scenario = crowd(4, "6.18");
    let simulator = Simulator::new();
    let (mut plain, ..) = simulator.world(&scenario, 3).unwrap();
    plain.run_until(1_000_000_000).unwrap();
    let (mut explained, _) = simulator.explaining_world(&scenario, 3).unwrap();
    while !explained
        .run_to_decisions(1_000_000_000)
        .unwrap()
        .is_empty()
    {}
    assert_eq!(plain.event_hash(), explained.event_hash());
}

/// Three hogs on one CPU: at 6.5 they change every 8 ms or more, at 6.12 with every tick.
const TWO: &str = "[machine]\npreset = \"generic-8\"\ncpus = 1\n[kernel]\nversion = \"6.5\"\nhz = 250\n\
    [[program]]\nrun = \"stress-ng --cpu 3 -t 1\"\n[run]\nduration = \"1s\"\n\
    [[variant]]\nname = \"CFS\"\n\
    [[variant]]\nname = \"EEVDF\"\nkernel.version = \"6.12\"\n\
    [[variant]]\nname = \"same\"\n";

#[test]
fn the_first_difference_shows_both_sides() {
    let scenarios = scenarios(TWO);
    let simulator = Simulator::new();
    let compare =
        |a: usize, b: usize| first_difference(&simulator, &scenarios[a], &scenarios[b], 0).unwrap();
    let text = compare(0, 1);
    assert!(
        text.starts_with("First difference between `CFS` and `EEVDF`: on CPU 0"),
        "{text}"
    );
    assert_contains(&text, ["\nCFS:\n", "\nEEVDF:\n"]);
    assert_eq!(
        compare(0, 2),
        "`CFS` and `same` decide alike, in the same order on each CPU (seed 0).\n"
    );
}

#[test]
fn a_longer_slice_is_a_difference_though_the_same_tasks_are_picked() {
    let text = TWO
        .replace(
            "version = \"6.5\"\nhz = 250",
            "version = \"6.12\"\nhz = 1000",
        )
        .replace(
            "name = \"CFS\"",
            "name = \"short\"\nkernel.base_slice_ns = 700000",
        )
        .replace(
            "name = \"EEVDF\"\nkernel.version = \"6.12\"",
            "name = \"long\"\nkernel.base_slice_ns = 10000000",
        );
    let scenarios = scenarios(&text);
    let simulator = Simulator::new();
    let compared = Compared::Answers;
    let found = difference(&simulator, &scenarios[0], &scenarios[1], 0, compared).unwrap();
    let found = found.expect("a difference");
    let (name, values) = &found.inputs[0];
    assert_eq!(name, "ns_since_the_event_before_it");
    let [short, long] = [0, 1].map(|row| values[row].as_u64().unwrap());
    // The first request ends with the first tick after 0.7 ms, or after 10 ms.
    assert!((700_000..2_000_000).contains(&short), "{short}");
    assert!((10_000_000..12_000_000).contains(&long), "{long}");
}

#[test]
fn a_task_that_never_gives_way_is_a_difference() {
    // Two hogs: one kernel has requests of 1 s, as long as the run.
    let text = TWO
        .replace(
            "version = \"6.5\"\nhz = 250",
            "version = \"6.12\"\nhz = 1000",
        )
        .replace("--cpu 3", "--cpu 2")
        .replace("duration = \"1s\"", "duration = \"100ms\"")
        .replace(
            "name = \"CFS\"",
            "name = \"short\"\nkernel.base_slice_ns = 3000000",
        )
        .replace(
            "name = \"EEVDF\"\nkernel.version = \"6.12\"",
            "name = \"long\"\nkernel.base_slice_ns = 1000000000",
        );
    let scenarios = scenarios(&text);
    let compared = Compared::Answers;
    let simulator = Simulator::new();
    let found = difference(&simulator, &scenarios[0], &scenarios[1], 0, compared).unwrap();
    let [short, long] = found.expect("a difference").sides;
    assert!(short.is_some() && long.is_none());
}

#[test]
fn what_is_not_there_is_said() {
    let scenario = crowd(1, "6.12");
    let task = |name: &str| Wanted {
        task: Some(name.to_string()),
        ..ANY
    };
    let text = refused(&scenario, &task("stress-nx"));
    assert_contains(&text, ["no task is called `stress-nx`", "`stress-ng`"]);
    let late = Wanted {
        at_ns: Some(3_000_000_000),
        ..ANY
    };
    assert!(refused(&scenario, &late).contains("no such decision up to 2s"));
    for kind in [Kind::Throttle, Kind::Balance] {
        let throttled = Wanted {
            kind: Some(kind),
            ..task("stress-ng")
        };
        let text = refused(&scenario, &throttled);
        assert_contains(&text, [kind.name(), "is about a CPU, and about no task"]);
    }
}

#[test]
fn json_says_what_the_text_says() {
    let wanted = Wanted {
        kind: Some(Kind::Throttle),
        ..ANY
    };
    let told = decisions(&Simulator::new(), &crowd(2, "6.12"), 0, &wanted).unwrap();
    let value = &told[0].value;
    assert_eq!(value["kind"], "throttle");
    assert_eq!(value["group"], "/test");
    assert_eq!(value["rule"]["function"], "throttle_cfs_rq");
    assert_eq!(value["quota_ns"], 30_000_000);
    assert!(value["runtime_remaining_ns"].as_i64().unwrap() <= 0);
    let seconds = value["time_ns"].as_u64().unwrap() as f64 / 1e9;
    assert!(
        told[0]
            .text
            .starts_with(&format!("{seconds:.9} s  CPU {}", value["cpu"]))
    );
    let pick = Wanted {
        kind: Some(Kind::Pick),
        ..ANY
    };
    for (version, eevdf) in [("6.5", false), ("6.12", true)] {
        let told = decisions(&Simulator::new(), &crowd(1, version), 0, &pick).unwrap();
        let entity = &told[0].value["queues"][0]["entities"][0];
        assert!(entity["weight"].is_u64());
        assert_eq!(entity.get("lag_ns").is_some(), eevdf);
    }
}

#[test]
fn a_difference_names_both_sides() {
    let (one, other) = (crowd(2, "6.5"), crowd(2, "6.12"));
    let found = difference(&Simulator::new(), &one, &other, 0, Compared::Answers);
    let found = found.unwrap().unwrap();
    let value = found.value();
    assert_eq!(value["cpu"], found.cpu);
    for side in 0..2 {
        assert!(
            value["sides"][side]["decision"]["kind"].is_string(),
            "{value}"
        );
    }
}

#[test]
fn inputs_differ_before_answers_do() {
    let scenarios = scenarios(
        "[machine]\npreset = \"generic-8\"\ncpus = 1\nbackground = \"none\"\n\
         [cgroup.\"/test\"]\n\"cpu.weight\" = \"100\"\n\
         [[program]]\nrun = \"stress-ng --cpu 1 -t 1\"\ncgroup = \"/test\"\n[run]\nduration = \"250ms\"\n\
         [[variant]]\nname = \"light\"\n\
         [[variant]]\nname = \"heavy\"\ncgroup.\"/test\".\"cpu.weight\" = \"200\"\n",
    );
    let find = |compared| {
        difference(&Simulator::new(), &scenarios[0], &scenarios[1], 0, compared).unwrap()
    };
    // Nothing competes with the group, so that its weight changes no decision.
    assert!(find(Compared::Answers).is_none());
    let found = find(Compared::Inputs).unwrap();
    let name = "queues.0.entities.0.weight";
    let weights = found.inputs.iter().find(|(input, _)| input == name);
    assert_eq!(weights.unwrap().1, [Value::from(1024), Value::from(2048)]);
    let text = difference_text(Some(&found), &scenarios[0], &scenarios[1], 0);
    let line = "\n  queues.0.entities.0.weight  1024  2048\n";
    assert!(
        text.contains("\nwhat differs:\n") && text.contains(line),
        "{text}"
    );
    assert_eq!(found.value()["inputs"][name][1], 2048);
}

/// On a machine whose small cores share an L2 cache by fours, 6.8 looks at these first.
#[test]
fn a_difference_names_the_change_that_makes_it() {
    let scenarios = scenarios(
        "[machine]\npreset = \"hybrid-24\"\n[kernel]\nversion = \"6.6\"\n\
         [[program]]\nrun = \"schbench -m 2 -t 8 -r 1\"\n\
         [[variant]]\nname = \"old\"\n\
         [[variant]]\nname = \"new\"\nkernel.version = \"6.18\"\n\
         [[variant]]\nname = \"fast\"\nkernel.version = \"6.18\"\nkernel.hz = 1000\n",
    );
    let find = |a: usize, b: usize| {
        let compared = Compared::Answers;
        difference(&Simulator::new(), &scenarios[a], &scenarios[b], 0, compared).unwrap()
    };
    let found = find(0, 1).unwrap();
    let cause = found.cause.as_ref().unwrap();
    let patches = |cause: &Cause| -> Vec<String> {
        let changes = cause.changes.iter();
        changes.map(|link| link.patch.clone()).collect()
    };
    assert_eq!(patches(cause), ["cluster-scan", "cluster-flag"]);
    assert!(cause.alone);
    let text = difference_text(Some(&found), &scenarios[0], &scenarios[1], 0);
    let scan = "first: CPUs that share the L2 cache are looked at first";
    assert_eq!(text.matches(scan).count(), 1, "{text}");
    assert_contains(&text, "\n  6.8  cluster-scan  8881e1639f1f\n");
    assert_eq!(
        found.value()["cause"]["changes"][0]["patch"],
        "cluster-scan"
    );
    // From the other end the scan stays, and has nothing to look at first.
    let back = find(1, 0).unwrap().cause.unwrap();
    assert_eq!(patches(&back), ["-cluster-flag"]);
    // The tick is no row of the table.
    let tick = find(1, 2).unwrap().cause.unwrap();
    assert!(tick.changes.is_empty() && !tick.alone);
    let names: Vec<&str> = tick.given.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(names, ["hz"]);
}

/// A rule of one's own is none of the table, and a change that a variant takes away was merged.
#[test]
fn a_cause_names_what_was_set_and_the_release_of_what_was_taken_away() {
    let scenarios = scenarios(
        "[machine]\npreset = \"hwp-desktop-8\"\n[kernel]\nversion = \"6.12\"\n\
         [[program]]\nrun = \"perf bench sched pipe -l 200\"\n\
         [[program]]\nrun = \"hackbench -g 1 -f 4 -l 50\"\n\
         [[variant]]\nname = \"stock\"\n\
         [[variant]]\nname = \"mine\"\nkernel.patches = [\"waker-sibling\"]\n\
         [[variant]]\nname = \"without\"\nkernel.patches = [\"-delay-dequeue\"]\n",
    );
    let find = |row: usize| {
        let (stock, other) = (&scenarios[0], &scenarios[row]);
        let found = difference(&Simulator::new(), stock, other, 0, Compared::Answers).unwrap();
        difference_text(found.as_ref(), stock, other, 0)
    };
    let line =
        "cause, no change of a release but what was set:\n  patches  []  [\"waker-sibling\"]\n";
    assert_contains(find(1), line);
    assert_contains(find(2), "  merged in 6.12  -delay-dequeue  152e11f6df29\n");
}

/// The task that goes to sleep is compared with the one that its CPU pulls meanwhile.
#[test]
fn a_running_task_that_has_left_its_queue_is_told() {
    let scenario = scenarios(
        "[machine]\npreset = \"generic-8\"\ncpus = 2\n[kernel]\nversion = \"6.5\"\n\
         [cgroup.\"/test\"]\n[[program]]\nrun = \"stress-ng --cpu 3 -t 1\"\ncgroup = \"/test\"\n",
    )
    .remove(0);
    let wanted = Wanted {
        kind: Some(Kind::Preempt),
        count: 2,
        ..ANY
    };
    let told = decisions(&Simulator::new(), &scenario, 0, &wanted).unwrap();
    let text: String = told.iter().map(|one| one.text.as_str()).collect();
    assert_contains(&text, " 6.000  running, no longer queued\n");
    assert_contains(&text, "12.000  queued\n");
}

/// A hog's wakee and a third task: the pick that a wakeup asks for is shown, whoever it is.
#[test]
fn a_wakeup_that_does_not_preempt_shows_who_would_be_picked() {
    let scenario = scenarios(
        "[machine]\npreset = \"generic-8\"\ncpus = 1\n[kernel]\nversion = \"6.18\"\n\
         [[program]]\nrun = \"stress-ng --cpu 3 -t 1\"\n\
         [[program]]\nrun = \"cyclictest -i 1000 -D 1\"\n",
    )
    .remove(0);
    let wanted = Wanted {
        kind: Some(Kind::Preempt),
        count: 500,
        ..ANY
    };
    let told = decisions(&Simulator::new(), &scenario, 0, &wanted).unwrap();
    let is_third = |one: &&Told| {
        let compared = &one.value["compared"];
        let picked = &compared["would_be_picked"]["entity"];
        picked.is_string()
            && *picked != compared["running"]["entity"]
            && *picked != compared["wakee"]["entity"]
    };
    let third = told.iter().find(is_third).expect("a third one");
    let picked = third.value["compared"]["would_be_picked"]["entity"].as_str();
    let row = format!("  * {}", picked.unwrap());
    assert!(third.text.contains(&row), "{}", third.text);
}
