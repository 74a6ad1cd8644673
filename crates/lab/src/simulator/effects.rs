//! Settings that change nothing under the chosen kernel, machine or programs.
//!
//! Worked example: an rt-app file gives a fair thread a `dl-runtime` of 3 ms. From 6.12 on that is
//! its slice; under 6.6 `sched_setattr` takes the number and ignores it. The forecast for 6.6 is
//! right to ignore it, and its author should know.

use std::collections::BTreeSet;

use schedcast_kernel::energy::Off;
use schedcast_kernel::rules::{Preemption, Rules, Version};
use schedcast_kernel::topology::CpuPlace;
use schedcast_sim::machine::parts::Governor;
use schedcast_workload::programs;

use super::Simulator;
use super::build::build;
use super::chance::Chance;
use crate::error::{Located, Result};
use crate::experiment::kernel::feature_name;
use crate::experiment::program::{Action, Program};
use crate::experiment::{RECORDING, Scenario};
use schedcast_base::groups::is_within;

impl Simulator {
    /// Settings that have no effect in these scenarios, in one sentence.
    ///
    /// # Errors
    /// A program that cannot be built.
    pub fn without_effect(&self, scenarios: &[Scenario]) -> Result<Option<String>> {
        let mut told = BTreeSet::new();
        // A recording has the limits of all groups of its host, which nobody asked about.
        let recorded: Vec<String> = scenarios.iter().take(1).flat_map(recorded_bursts).collect();
        for scenario in scenarios {
            told.extend(capacities(scenario));
            told.extend(energy(scenario));
            told.extend(priorities(scenario));
            told.extend(nohz_full(scenario));
            told.extend(preemption(scenario));
            told.extend(features(scenario));
            told.extend(machine_keys(scenario));
            told.extend(tunables(scenario, self.reserves(scenario)?));
            told.extend(after_the_end(scenario));
            let bursts = bursts(scenario).into_iter();
            told.extend(bursts.filter(|burst| !recorded.contains(burst)));
            let mut actions = scenario.programs.iter().map(|one| &one.action.value);
            // A file may put its threads into groups of its own, and a recording has them.
            match actions.any(is_rt_app) {
                true => told.extend(self.slices(scenario)?),
                false if !replays(scenario) => told.extend(empty_groups(scenario)),
                false => {}
            }
        }
        let told: Vec<String> = told.into_iter().collect();
        Ok((!told.is_empty()).then(|| format!("without effect here: {}", told.join("; "))))
    }

    /// Notes on the files of programs: what their readers may not expect.
    ///
    /// # Errors
    /// A program that cannot be built.
    pub fn notes_of_files(&self, scenarios: &[Scenario]) -> Result<BTreeSet<String>> {
        let mut notes = BTreeSet::new();
        for scenario in scenarios {
            let mut actions = scenario.programs.iter().map(|one| &one.action.value);
            if actions.any(is_rt_app) {
                let built = build(self, scenario, Chance::NONE)?;
                notes.extend(built.programs.into_iter().flat_map(|one| one.notes));
            }
        }
        Ok(notes)
    }

    /// Whether tunables of real-time tasks decide what deadline tasks may reserve.
    fn reserves(&self, scenario: &Scenario) -> Result<bool> {
        let mut names = scenario.kernel.tunables.keys().copied();
        if !names.any(|name| OF_REAL_TIME.contains(&name)) {
            return Ok(false);
        }
        let built = build(self, scenario, Chance::NONE)?;
        let mut changes = built.workload.attributes.iter();
        Ok(changes.any(|change| change.deadline.is_some()))
    }

    fn slices(&self, scenario: &Scenario) -> Result<Option<String>> {
        if scenario.kernel.rules.custom_slices {
            return Ok(None);
        }
        let built = build(self, scenario, Chance::NONE)?;
        let mut tasks = built.workload.tasks.iter();
        let has_slice = tasks.any(|task| task.custom_slice_ns.is_some());
        Ok(has_slice.then(|| {
            let kernel = scenario.kernel.shown();
            format!("`dl-runtime` of a fair thread under kernel {kernel} (6.12 brought slices)")
        }))
    }
}

fn is_rt_app(action: &Action) -> bool {
    let Action::Run(words) = action else {
        return false;
    };
    programs::tool(words).is_ok_and(|tool| tool.name == programs::rt_app::TOOL.name)
}

/// Keys of the machine that the experiment writes and that nothing reads on this machine, with
/// their places.
fn machine_keys(scenario: &Scenario) -> Vec<String> {
    let machine = &scenario.machine.machine;
    let rules = &scenario.kernel.rules;
    let governor = machine
        .frequency
        .as_ref()
        .map(|frequency| frequency.governor);
    let idle = machine.idle.as_ref();
    let places = &machine.topology.places;
    let threads = machine.threads_per_core();
    let cores = |shared: fn(&CpuPlace) -> u32| machine.most_cores(shared);
    let why = |key: &str| -> Option<&'static str> {
        let section = key.split('.').next().unwrap_or(key);
        match (section, key) {
            (_, "frequency.userspace_mhz") if governor != Some(Governor::Userspace) => {
                Some("the governor is not `userspace`")
            }
            (_, "latency.idle_exit_ns") if idle.is_some() => {
                Some("the idle states have times of their own")
            }
            ("smt", _) if threads == 1 => Some("no core has several threads"),
            ("cluster", _) if cores(|place| place.cluster) == 1 => {
                Some("no level 2 cache has several cores")
            }
            ("llc", _) if cores(|place| place.llc) == 1 => {
                Some("no last level cache has several cores")
            }
            ("migration" | "lines", _) if places.len() == 1 => Some("there is one CPU"),
            ("history", _) if !rules.features.ni_random => {
                Some("the kernel has no NI_RANDOM (6.19 and stable kernels)")
            }
            (_, "topology.cores_per_cluster") if !rules.balance.cluster_level => {
                Some("the kernel has no clusters (5.16)")
            }
            _ => None,
        }
    };
    let keys = scenario.machine.written.iter();
    keys.filter_map(|key| {
        let why = why(&key.value)?;
        Some(format!(
            "machine.{} ({}), since {why}",
            key.value, key.place
        ))
    })
    .collect()
}

/// Tunables that limit real-time tasks up to 6.11, and the reservations of deadline tasks in every
/// release (`sched_dl_do_global`).
const OF_REAL_TIME: [&str; 2] = ["sched_rt_runtime_us", "sched_rt_period_us"];

/// Tunables that nothing asks for.
fn tunables(scenario: &Scenario, reserves: bool) -> Vec<String> {
    let kernel = &scenario.kernel;
    let between_cpus = ["migration_cost_ns", "nr_migrate"];
    let mut aware = kernel.rules.clone();
    aware.energy.aware = true;
    let energy = scenario.machine.machine.places_by_energy(&aware).err();
    let set = kernel.tunables.iter();
    set.filter_map(|(name, value)| {
        let why = match name {
            name if OF_REAL_TIME.contains(name) && !kernel.rules.rt_throttling && !reserves => {
                "the fair server has taken its place (6.12)".to_owned()
            }
            name if *name == "sched_energy_aware" => energy?.to_string(),
            name if between_cpus.contains(name) && scenario.machine.cpus() == 1 => {
                "there is one CPU".to_owned()
            }
            _ => return None,
        };
        Some(format!("kernel.{name} ({}), since {why}", value.place))
    })
    .collect()
}

/// Programs and changes that are due only after the end of the run.
fn after_the_end(scenario: &Scenario) -> Vec<String> {
    let Some(end_ns) = scenario.duration_ns else {
        return Vec::new();
    };
    let late = |time_ns: u64| time_ns >= end_ns;
    let programs = scenario.programs.iter().filter(|one| late(one.start_ns));
    let programs =
        programs.map(|one| format!("the program {}, which starts after the end", one.name));
    let changes = scenario
        .changes
        .iter()
        .filter(|change| late(change.time_ns));
    let changes = changes.map(|change| {
        let seconds = change.time_ns as f64 / 1e9;
        format!("the change at {seconds} s, which is after the end")
    });
    programs.chain(changes).collect()
}

/// Behaviour that the rules leave out where CPUs have different capacities.
fn capacities(scenario: &Scenario) -> Option<String> {
    let machine = &scenario.machine.machine;
    let capacities = &machine.topology.capacities;
    if capacities.windows(2).all(|pair| pair[0] == pair[1]) {
        return None;
    }
    if scenario.kernel.rules.version < Version::new(5, 10) {
        let kernel = scenario.kernel.shown();
        return Some(format!(
            "unequal capacities beyond speed under kernel {kernel} (misfit tasks are simulated from 5.10 on)"
        ));
    }
    None
}

/// An energy model that the kernel does not use, or one that the machine should have.
fn energy(scenario: &Scenario) -> Option<String> {
    let machine = &scenario.machine.machine;
    let tables = machine.frequency.iter().flat_map(|part| &part.table);
    let has_power = tables.clone().any(|table| !table.cpu_uw.is_empty());
    match machine.places_by_energy(&scenario.kernel.rules).err()? {
        // The experiment says so itself.
        Off::SwitchedOff => None,
        off if has_power => Some(format!(
            "`cpu_uw` of machine.frequency.table under kernel {}, since {off}: tasks are not placed by energy",
            scenario.kernel.shown()
        )),
        Off::NoPower => Some(
            "placement by energy, which `schedutil` switches on where capacities are unequal, since \
             the machine has no power for it (`cpu_uw` of machine.frequency.table)"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Priorities of CPUs under a kernel whose rules for them are not known.
fn priorities(scenario: &Scenario) -> Option<String> {
    let has_some = !scenario.machine.machine.topology.priorities.is_empty();
    (has_some && !scenario.kernel.rules.balance.preferred_cpus).then(|| {
        let kernel = scenario.kernel.shown();
        format!(
            "priorities of CPUs under kernel {kernel} (preferred CPUs are simulated from 6.6 on)"
        )
    })
}

/// CPUs without ticks under a kernel whose rules for them are not known.
fn nohz_full(scenario: &Scenario) -> Option<String> {
    let has_some = !scenario.machine.machine.topology.nohz_full.is_empty();
    (has_some && !scenario.kernel.rules.idle.nohz_full).then(|| {
        let kernel = scenario.kernel.shown();
        format!("`topology.nohz_full` under kernel {kernel} (simulated from 4.17 on)")
    })
}

/// Features that the kernel has and does not ask for.
fn features(scenario: &Scenario) -> Vec<String> {
    let kernel = &scenario.kernel;
    let words = kernel.features.iter();
    let shares = |word: &&Located<String>| {
        feature_name(&word.value) == "RT_RUNTIME_SHARE" && !kernel.rules.rt_throttling
    };
    words
        .filter(shares)
        .map(|word| {
            format!(
                "{} ({}), since the fair server has taken its place (6.12)",
                word.value, word.place
            )
        })
        .collect()
}

/// A preemption model that the kernel does not have, or that decides as the others.
fn preemption(scenario: &Scenario) -> Option<String> {
    let kernel = &scenario.kernel;
    let written = kernel.preempt_written.as_ref()?;
    // A recording and a profile of one say what was there; nobody asked what it does.
    let profiled = |program: &Program| matches!(program.action.value, Action::Profile(_));
    if written.place.source.name.ends_with("/recording.json")
        || scenario.programs.iter().any(profiled)
    {
        return None;
    }
    let key = format!("kernel.preempt ({})", written.place);
    let kernel_has_fewer = kernel.rules.preempts_at_least_lazily;
    match written.value {
        Preemption::Lazy => None,
        Preemption::Full if kernel_has_fewer => None,
        _ if kernel_has_fewer => Some(format!(
            "{key}, since kernels for x86 are `full` or `lazy` from 7.0 on: this one is `lazy`"
        )),
        // Balancing looks at how the kernel was built, up to 5.15 without PREEMPT_DYNAMIC.
        model => {
            let built_preemptible = model == Preemption::Full;
            let by_default = Rules::of(kernel.version, 1, kernel.hz).config_preemption;
            let by_default = kernel.preempt_dynamic.unwrap_or(by_default);
            (!built_preemptible || by_default).then(|| {
                format!(
                    "{key}, since `none`, `voluntary` and `full` differ within system calls only, \
                     in which no task is preempted here"
                )
            })
        }
    }
}

fn bursts(scenario: &Scenario) -> Vec<String> {
    let groups = scenario.cgroups.iter();
    let idle =
        groups.filter(|(_, group)| group.limits.burst_us > 0 && group.limits.quota_us.is_none());
    idle.map(|(path, _)| format!("the burst of {path}, which has no quota"))
        .collect()
}

/// Those of a recording's first variant. A file that replays it has the groups that it writes.
fn recorded_bursts(scenario: &Scenario) -> Vec<String> {
    let mut places = scenario.programs.iter().map(|one| &one.action.place);
    match places.any(|place| place.source.name == RECORDING) {
        true => bursts(scenario),
        false => Vec::new(),
    }
}

/// Whether a recording runs in a scenario.
fn replays(scenario: &Scenario) -> bool {
    let mut actions = scenario.programs.iter().map(|one| &one.action.value);
    actions.any(|action| matches!(action, Action::Replay(..)))
}

/// Limited groups in which nothing runs.
fn empty_groups(scenario: &Scenario) -> Vec<String> {
    let groups = scenario.cgroups.iter();
    let limited = groups.filter(|(_, group)| group.limits.quota_us.is_some());
    let used = |path: &str| {
        let mut programs = scenario.programs.iter();
        programs.any(|program| match &program.action.value {
            Action::Profile(profiled) => {
                is_within(&profiled.client_cgroup, path) || is_within(&program.cgroup, path)
            }
            _ => is_within(&program.cgroup, path),
        })
    };
    limited
        .filter(|(path, _)| !used(path))
        .map(|(path, _)| format!("the limit of {path}, in which nothing runs"))
        .collect()
}

#[cfg(test)]
mod tests {
    use schedcast_base::rows;

    use super::*;
    use crate::experiment;

    fn told(text: &str) -> Option<String> {
        let experiment = experiment::read_text("a.toml", text).unwrap();
        Simulator::new()
            .without_effect(&experiment.scenarios)
            .unwrap()
    }

    #[test]
    fn a_lock_of_a_file_that_nothing_unlocks_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bad.json");
        let notes = |events: &str| {
            let text = format!(r#"{{"tasks": {{"a": {{"loop": 3, {events}}}}}}}"#);
            std::fs::write(&file, text).unwrap();
            let text = format!("[[program]]\nrun = \"rt-app {}\"\n", file.display());
            let experiment = experiment::read_text("a.toml", text).unwrap();
            let notes = Simulator::new().notes_of_files(&experiment.scenarios);
            notes.unwrap().into_iter().collect::<Vec<String>>()
        };
        let told = notes(r#""run": 1000, "lock": "m""#);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].ends_with("bad.json:1:42: nothing unlocks \"m\""),
            "{told:?}"
        );
        let none: [String; 0] = [];
        assert_eq!(notes(r#""lock": "m", "run": 1000, "unlock": "m""#), none);
    }

    #[test]
    fn a_limit_of_reservations_is_not_told_where_a_deadline_task_reserves() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        let on = |policy: &str| {
            let tasks = format!(
                r#"{{"tasks": {{"a": {{"loop": 3, "run": 100, "policy": "{policy}", "dl-runtime": 3000, "dl-period": 10000}}}}}}"#
            );
            std::fs::write(&file, tasks).unwrap();
            told(&format!(
                "[kernel]\nversion = \"6.12\"\nsched_rt_runtime_us = 800000\n[[program]]\nrun = \"rt-app {}\"\n",
                file.display()
            ))
        };
        assert_eq!(on("SCHED_DEADLINE"), None);
        let fair = on("SCHED_OTHER").unwrap();
        assert!(fair.contains("kernel.sched_rt_runtime_us"), "{fair}");
    }

    #[test]
    fn a_slice_is_told_under_kernels_without_slices_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        let tasks = r#"{"tasks": {"a": {"loop": 3, "run": 100, "dl-runtime": 3000}}}"#;
        std::fs::write(&file, tasks).unwrap();
        let on = |version: &str| {
            let run = format!("rt-app {}", file.display());
            told(&format!(
                "[kernel]\nversion = \"{version}\"\n[[program]]\nrun = \"{run}\"\n"
            ))
        };
        assert!(
            on("6.6")
                .unwrap()
                .contains("`dl-runtime` of a fair thread under kernel 6.6")
        );
        assert_eq!(on("6.12"), None);
    }

    /// Every combination that is known to change nothing, and the words in which it is told.
    #[test]
    fn what_changes_nothing_is_told_with_its_place() {
        for case in rows::lines(include_str!("effects.txt")) {
            let [text, expected] = rows::cells(case);
            let text = text.replace("\\n", "\n");
            let found = told(&text).unwrap_or_default();
            assert!(found.contains(expected), "{text}\n{found}");
        }
        // The same keys where they matter are not told.
        for text in [
            "[kernel]\nversion = \"6.1\"\nsched_rt_runtime_us = 900000\nnr_migrate = 8\n",
            "[kernel]\nversion = \"6.12\"\n[machine.topology]\ncores_per_cluster = 2\n",
            "[machine.latency]\nidle_exit_ns = 5000\n",
        ] {
            assert_eq!(told(text), None, "{text}");
        }
    }

    #[test]
    fn a_preemption_model_that_decides_as_another_is_told() {
        let on = |version: &str, model: &str| {
            told(&format!(
                "[kernel]\nversion = \"{version}\"\npreempt = \"{model}\"\n"
            ))
        };
        for (version, model, expected) in [
            ("6.18", "none", Some("differ within system calls only")),
            ("6.12", "full", Some("differ within system calls only")),
            ("5.10", "none", Some("differ within system calls only")),
            ("7.3", "none", Some("this one is `lazy`")),
            ("5.10", "full", None),
            ("6.18", "lazy", None),
            ("7.3", "full", None),
        ] {
            let text = on(version, model);
            let found = text.is_some();
            assert_eq!(found, expected.is_some(), "{version} {model}: {text:?}");
            let text = text.unwrap_or_default();
            assert!(text.contains(expected.unwrap_or("")), "{text}");
        }
        let text = on("6.18", "none").unwrap();
        assert!(text.contains("kernel.preempt (a.toml:3:11)"), "{text}");
        assert_eq!(told("[kernel]\nversion = \"6.18\"\n"), None);
    }

    #[test]
    fn groups_without_programs_and_bursts_without_quotas_are_told_in_one_note() {
        let program = "[[program]]\nrun = \"stress-ng --cpu 1 -t 1\"\ncgroup = \"/a/b\"\n";
        let used = "[cgroup.\"/a\"]\n\"cpu.max\" = \"50%\"\n[cgroup.\"/a/b\"]\n";
        assert_eq!(told(&format!("{used}{program}")), None);
        let odd =
            "[cgroup.\"/c\"]\n\"cpu.max\" = \"50%\"\n[cgroup.\"/d\"]\n\"cpu.max.burst\" = 1000\n";
        assert_eq!(
            told(&format!("{used}{odd}{program}")).unwrap(),
            "without effect here: the burst of /d, which has no quota; the limit of /c, in which nothing runs"
        );
    }

    #[test]
    fn a_burst_that_a_file_writes_beside_a_recording_is_told() {
        let text = "[cgroup.\"/d\"]\n\"cpu.max.burst\" = 1000\n[[program]]\nreplay = \"r\"\n";
        let told = told(text).unwrap();
        assert!(told.contains("the burst of /d"), "{told}");
    }

    #[test]
    fn what_is_left_out_on_machines_of_unequal_cpus_is_told() {
        let machine = "[machine]\ncpus = 2\n[machine.topology]\ncapacities_1024ths = [512, 1024]\n";
        assert_eq!(told(machine), None);
        let old = format!("{machine}[kernel]\nversion = \"5.4\"\n");
        let text = told(&old).unwrap();
        assert!(text.contains("from 5.10 on"), "{text}");
        assert_eq!(told(&old.replace("512", "1024")), None);
        let energy = |cores: usize| {
            told(&format!(
                "[machine]\npreset = \"client-4\"\n[machine.topology]\n\
                 cores_per_llc = {cores}\nthreads_per_core = {}\n\
                 capacities_1024ths = [512, 512, 1024, 1024]\n[machine.smt]\n\
                 thread_speed_1000ths = {}\n[machine.frequency]\n\
                 governor = \"schedutil\"\ndriver = \"intel_cpufreq\"\n",
                4 / cores,
                if cores == 4 { "[1000]" } else { "[1000, 600]" },
            ))
        };
        let text = energy(4).unwrap();
        assert!(text.contains("placement by energy"), "{text}");
        // Linux places by no energy where cores have threads, so nothing is left out.
        let text = energy(2).unwrap_or_default();
        assert!(!text.contains("energy"), "{text}");
    }

    #[test]
    fn an_energy_model_that_the_kernel_does_not_use_is_told_with_the_reason() {
        let board = "[machine]\npreset = \"hikey960\"\n";
        assert_eq!(told(board), None);
        let off = "[kernel]\nversion = \"6.12\"\nsched_energy_aware = 0\n";
        assert_eq!(told(&format!("{board}{off}")), None);
        for (more, expected) in [
            (
                "[machine.frequency]\ngovernor = \"performance\"\n",
                "since the frequency governor is not schedutil",
            ),
            (
                "[kernel]\nversion = \"6.12\"\npatches = [\"-energy-aware\"]\n",
                "since placement by energy is simulated from 5.10 on",
            ),
        ] {
            let text = told(&format!("{board}{more}")).unwrap_or_default();
            assert!(text.contains(expected), "{more}: {text}");
        }
    }
}
