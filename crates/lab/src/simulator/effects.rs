//! Settings that change nothing under the chosen kernel, machine or programs.
//!
//! Worked example: an rt-app file gives a fair thread a `dl-runtime` of 3 ms. From 6.12 on that is its
//! slice; under 6.6 `sched_setattr` takes the number and nobody looks at it. The forecast for 6.6 is right
//! to ignore it, and whoever wrote it should know.

use std::collections::BTreeSet;

use schedcast_kernel::rules::Version;
use schedcast_sim::machine::parts::Governor;
use schedcast_workload::programs;

use super::Simulator;
use super::build::build;
use super::chance::Chance;
use crate::error::Result;
use crate::experiment::Scenario;
use crate::experiment::program::Action;
use crate::tables::rows::is_within;

impl Simulator {
    /// What has no effect in these scenarios, in one sentence.
    ///
    /// # Errors
    /// A program that cannot be built.
    pub fn without_effect(&self, scenarios: &[Scenario]) -> Result<Option<String>> {
        let mut told = BTreeSet::new();
        for scenario in scenarios {
            told.extend(capacities(scenario));
            told.extend(bursts(scenario));
            let replays = |action: &Action| matches!(action, Action::Replay(..));
            let actions = || scenario.programs.iter().map(|one| &one.action.value);
            // A file may put its threads into groups of its own, and a recording has them.
            match actions().any(is_rt_app) {
                true => told.extend(self.slices(scenario)?),
                false if !actions().any(replays) => told.extend(empty_groups(scenario)),
                false => {}
            }
        }
        let told: Vec<String> = told.into_iter().collect();
        Ok((!told.is_empty()).then(|| format!("without effect here: {}", told.join("; "))))
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

/// What the rules leave out where CPUs have different capacities.
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
    let frequency = machine.frequency.as_ref();
    let by_energy = frequency.is_some_and(|frequency| frequency.governor == Governor::Schedutil);
    by_energy.then(|| {
        "an energy model (placement by energy, which `schedutil` switches on where capacities are \
         unequal, is not simulated)"
            .to_string()
    })
}

fn bursts(scenario: &Scenario) -> Vec<String> {
    let groups = scenario.cgroups.iter();
    let idle = groups.filter(|(_, group)| group.burst_us > 0 && group.quota_us.is_none());
    idle.map(|(path, _)| format!("the burst of {path}, which has no quota"))
        .collect()
}

/// Limited groups in which nothing runs.
fn empty_groups(scenario: &Scenario) -> Vec<String> {
    let groups = scenario.cgroups.iter();
    let limited = groups.filter(|(_, group)| group.quota_us.is_some());
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
    use super::*;
    use crate::error::Source;
    use crate::experiment::{self, Surroundings, document};

    fn told(text: &str) -> Option<String> {
        let document = document::parse(&Source::new("a.toml", text)).unwrap();
        let experiment = experiment::read(&document, &Surroundings::default()).unwrap();
        Simulator::new()
            .without_effect(&experiment.scenarios)
            .unwrap()
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
    fn what_is_left_out_on_machines_of_unequal_cpus_is_told() {
        let machine = "[machine]\ncpus = 2\n[machine.topology]\ncapacities_1024ths = [512, 1024]\n";
        assert_eq!(told(machine), None);
        let old = format!("{machine}[kernel]\nversion = \"5.4\"\n");
        let text = told(&old).unwrap();
        assert!(text.contains("from 5.10 on"), "{text}");
        assert_eq!(told(&old.replace("512", "1024")), None);
        let energy = "[machine]\npreset = \"client-4\"\n[machine.topology]\n\
                      capacities_1024ths = [512, 512, 1024, 1024]\n\
                      [machine.frequency]\ngovernor = \"schedutil\"\ndriver = \"intel_cpufreq\"\n";
        let text = told(energy).unwrap();
        assert!(text.contains("placement by energy"), "{text}");
    }
}
