//! Warnings of columns about which a recording does not tell enough.

use std::collections::BTreeMap;

use schedcast_base::groups::is_within;

use schedcast_kernel::Cpu;
use schedcast_kernel::cpuset::CpuSet;

use crate::experiment::Scenario;
use crate::experiment::units::format_duration_ns;
use crate::recording::Recorded;

/// Periods from which on one of 100 that is throttled is in the recording at all.
const ENOUGH_PERIODS: u64 = 100;

/// All of them; `target` is the group that is asked about.
pub(super) fn of(recorded: &Recorded, scenarios: &[Scenario], target: Option<&str>) -> Vec<String> {
    let mut warnings = unknown_cpusets(scenarios, &recorded.seen.bound);
    warnings.extend(more_cpus(scenarios));
    // A job is whole, however short.
    let has_no_job = |target: &&str| recorded.seen.jobs_of(target).is_empty();
    let now = scenarios.first().zip(target.filter(has_no_job));
    let limit = now.map(|(now, target)| now.limits_of(target));
    let period_us = limit.map(|limit| limit.period_us);
    warnings.extend(period_us.and_then(|period_us| short(recorded.length_ns, period_us)));
    warnings
}

/// Warning of a recording with too few periods for what is rare.
///
/// Worked example: 3 s are 30 periods of 100 ms. A garbage collection each 5 s is not in them, or
/// counts for more than it should.
fn short(length_ns: u64, period_us: u64) -> Option<String> {
    let periods = length_ns / (period_us * 1000).max(1);
    (periods < ENOUGH_PERIODS).then(|| {
        format!(
            "the recording is short, {} or {periods} periods of {}: work that comes once in many seconds is missing \
             or counts too much; record 30s or more",
            format_duration_ns(length_ns / 100_000_000 * 100_000_000),
            format_duration_ns(period_us * 1000)
        )
    })
}

/// Warnings of columns that give CPUs to groups whose threads stay where the recording has them,
/// for it does not tell whether they or their cpuset were bound there.
fn unknown_cpusets(scenarios: &[Scenario], bound: &BTreeMap<String, CpuSet>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (path, cpus) in bound {
        let is_wider = |scenario: &&Scenario| {
            let mut set = scenario
                .cgroups
                .iter()
                .filter(|(above, _)| is_within(path, above));
            set.any(|(_, settings)| {
                let given = settings.cpus.iter().flat_map(|list| list.cpus());
                let mut known = given.map(|cpu| cpus.contains(Cpu(*cpu)));
                // With none of theirs they get all of the cpuset's.
                known.clone().any(|known| known) && known.any(|known| !known)
            })
        };
        let columns: Vec<String> = scenarios
            .iter()
            .filter(is_wider)
            .map(|scenario| format!("`{}`", scenario.name))
            .collect();
        if !columns.is_empty() {
            warnings.push(format!(
                "{}: threads of {path} stay on CPU {}, where the recording has them: it does not tell whether their \
                 cpuset kept them there; record again, and the cpusets are recorded too",
                columns.join(", "),
                crate::explain::cpu_list(cpus)
            ));
        }
    }
    warnings
}

/// Warning of columns with more CPUs than the recorded machine, the first of `scenarios`, has.
fn more_cpus(scenarios: &[Scenario]) -> Option<String> {
    let had = scenarios.first()?.machine.cpus();
    let wider = scenarios.iter().filter(|one| one.machine.cpus() > had);
    let columns: Vec<String> = wider
        .map(|one| format!("`{}` has {}", one.name, one.machine.cpus()))
        .collect();
    let number = match had {
        1 => "1 CPU".to_string(),
        _ => format!("{had} CPUs"),
    };
    (!columns.is_empty()).then(|| {
        format!(
            "the recording is of {number} and {}: what more threads at a time cost each other, in caches, locks and \
             memory, is not in it, nor what a program does that counts its CPUs; a replay can tell of fewer CPUs",
            columns.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment;
    use schedcast_base::assert_contains;

    fn scenario(cpus: &str) -> Scenario {
        let text = format!(
            "[machine]\ncpus = 4\n[cgroup.\"/a\"]\n\"cpuset.cpus\" = \"{cpus}\"\n\
             [[program]]\nrun = \"hackbench\"\n"
        );
        let experiment = experiment::read_text("t", text).unwrap();
        experiment.scenarios.into_iter().next().unwrap()
    }

    #[test]
    fn a_recording_of_few_periods_is_told() {
        let told = short(3_040_000_000, 100_000);
        assert_contains(told.unwrap(), "short, 3s or 30 periods of 100ms: ");
        assert_eq!(short(3_040_000_000, 10_000), None);
        assert_eq!(short(12_000_000_000, 100_000), None);
    }

    #[test]
    fn more_cpus_than_recorded_are_told() {
        let with = |cpus: u32| {
            let text = format!("[machine]\ncpus = {cpus}\n[[program]]\nrun = \"hackbench\"\n");
            let experiment = experiment::read_text("t", text).unwrap();
            experiment.scenarios.into_iter().next().unwrap()
        };
        let told = |cpus: u32| more_cpus(&[with(2), with(cpus)]);
        assert_contains(told(64).unwrap(), "is of 2 CPUs and `");
        assert_contains(told(64).unwrap(), "has 64: ");
        assert_eq!((told(2), told(1)), (None, None));
    }

    #[test]
    fn a_wider_cpuset_that_moves_nobody_is_told() {
        let bound = [("/a/b".to_string(), CpuSet::of(Cpu(0)))].into();
        let told = |cpus: &str| unknown_cpusets(&[scenario(cpus)], &bound);
        let wider = told("0-1");
        assert_contains(&wider[0], "threads of /a/b stay on CPU 0");
        let none: [String; 0] = [];
        assert_eq!(told("0"), none);
        assert_eq!(told("1-2"), none, "they go there");
        assert_eq!(unknown_cpusets(&[scenario("0-1")], &BTreeMap::new()), none);
    }
}
