//! Finds what in a workload cannot run, before anything runs.

use crate::program::{Instruction, ObjectId, REGISTERS_MAX};
use crate::workload::{
    Arrival, ArrivalAction, ArrivalSource, AttributesSpec, DistributionId, ForkSpec, GroupSetting,
    GroupSpec, ProgramId, QueueId, SemaphoreId, TaskSpec, Workload,
};
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::task::Policy;
use schedcast_kernel::{Cpu, GroupId};
use std::ops::RangeInclusive;
use thiserror::Error;

/// Why a workload cannot run: something does not exist, has a value out of its range, or is refused
/// by the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{place}: {problem}")]
pub struct WorkloadError {
    pub(crate) place: String,
    pub(crate) problem: String,
}

/// Outcome of a check: nothing, or the fault, without its place.
type Checked = Result<(), String>;

/// The outcome of a check with the place that it was about.
fn at(place: impl FnOnce() -> String, checked: Checked) -> Result<(), WorkloadError> {
    checked.map_err(|problem| WorkloadError {
        place: place(),
        problem,
    })
}

impl Workload {
    /// Whether everything that is named exists and every value is in its range, on a machine of
    /// `cpus` CPUs.
    ///
    /// # Errors
    /// The first problem, with its place.
    pub fn check(&self, cpus: usize) -> Result<(), WorkloadError> {
        for (row, distribution) in self.distributions.iter().enumerate() {
            let checked = distribution.check().map_err(|error| error.to_string());
            at(|| format!("distribution {row}"), checked)?;
        }
        for (row, count) in self.barriers.iter().enumerate() {
            let checked = in_range("count", i64::from(*count), 1..=i64::MAX);
            at(|| format!("barrier {row}"), checked)?;
        }
        for (row, group) in self.groups.iter().enumerate() {
            at(|| format!("group {}", group.path), check_group(row, group))?;
        }
        for program in &self.programs {
            for named in program.objects() {
                let place = || format!("program {}, instruction {}", program.name(), named.at);
                at(place, self.exists(named.kind, named.highest))?;
            }
        }
        for fork in &self.forks {
            at(
                || format!("fork {}", fork.name),
                self.check_fork(fork, cpus),
            )?;
        }
        for (row, attributes) in self.attributes.iter().enumerate() {
            let checked = self.check_attributes(attributes, cpus);
            at(|| format!("attributes {row}"), checked)?;
        }
        for task in &self.tasks {
            at(
                || format!("task {}", task.name),
                self.check_task(task, cpus),
            )?;
        }
        for (row, spec) in self.arrivals.iter().enumerate() {
            let checked = self.check_source(&spec.source, cpus);
            at(|| format!("arrival source {row}"), checked)?;
        }
        self.check_changes()
    }

    pub(crate) fn check_changes(&self) -> Result<(), WorkloadError> {
        let checked = ascending(self.changes.iter().map(|change| change.at_ns)).and_then(|()| {
            self.changes.iter().try_for_each(|change| {
                self.exists("group", change.group.0)?;
                match change.setting {
                    GroupSetting::Shares(shares) => shares_in_range(shares),
                    _ => Ok(()),
                }
            })
        });
        at(|| "timed changes".to_owned(), checked)
    }

    fn exists(&self, kind: &str, number: u32) -> Checked {
        let count = match kind {
            "semaphore" => self.semaphores.len(),
            "queue" => self.queues.len(),
            "device" => self.devices.len(),
            "word" => self.words.len(),
            "mutex" => self.mutexes as usize,
            "condition" => self.conditions as usize,
            "barrier" => self.barriers.len(),
            "patient" => self.patients.len(),
            "metric" => self.metrics.len(),
            "distribution" => self.distributions.len(),
            "program" => self.programs.len(),
            "fork" => self.forks.len(),
            "attributes" => self.attributes.len(),
            "group" => self.groups.len() + 1,
            other => unreachable!("no objects of kind {other}"),
        };
        is_among(kind, number, count)
    }

    fn check_attributes(&self, attributes: &AttributesSpec, cpus: usize) -> Checked {
        if let Some((policy, priority)) = attributes.policy {
            policy_in_range(policy, priority)?;
        }
        nice_in_range(attributes.nice.unwrap_or_default())?;
        self.place_in_range(attributes.affinity.as_ref(), attributes.group, cpus)
    }

    fn check_fork(&self, fork: &ForkSpec, cpus: usize) -> Checked {
        self.exists(ProgramId::WORD, fork.program.0)?;
        self.place_in_range(fork.affinity.as_ref(), fork.group, cpus)
    }

    /// CPUs and group, where they are said.
    fn place_in_range(
        &self,
        affinity: Option<&CpuSet>,
        group: Option<GroupId>,
        cpus: usize,
    ) -> Checked {
        if let Some(affinity) = affinity {
            affinity_in_range(affinity, cpus)?;
        }
        group.map_or(Ok(()), |group| self.exists("group", group.0))
    }

    fn check_task(&self, task: &TaskSpec, cpus: usize) -> Checked {
        self.exists(ProgramId::WORD, task.program.0)?;
        self.exists("group", task.group.0)?;
        policy_in_range(task.policy, task.rt_priority)?;
        nice_in_range(task.nice)?;
        if let Some(affinity) = &task.affinity {
            affinity_in_range(affinity, cpus)?;
        }
        if let Some(cpu) = task.start_cpu {
            cpu_in_range(cpu, cpus)?;
        }
        if let Some(queue) = task.asleep_in {
            self.exists(QueueId::WORD, queue.0)?;
            let program = &self.programs[task.program.0 as usize];
            let first = program.instructions().first().copied();
            let receives = matches!(first, Some(Instruction::Recv { queue: from, .. }) if from == queue.into());
            if !receives {
                return Err(
                    "asleep from the start, but its program does not begin by receiving \
                            from that queue"
                        .to_owned(),
                );
            }
        }
        task.registers.iter().try_for_each(|(reg, _)| {
            in_range("register", i64::from(reg.0), 0..=REGISTERS_MAX as i64 - 1)
        })
    }

    fn check_source(&self, source: &ArrivalSource, cpus: usize) -> Checked {
        let check_each = |arrivals: &[Arrival]| {
            arrivals
                .iter()
                .try_for_each(|arrival| self.check_arrival(arrival, cpus))
        };
        match source {
            ArrivalSource::List(arrivals) => {
                ascending(arrivals.iter().map(|arrival| arrival.at_ns))?;
                check_each(arrivals)
            }
            ArrivalSource::Stream { first, interval } => {
                self.exists(DistributionId::WORD, interval.0)?;
                self.check_arrival(first, cpus)
            }
            ArrivalSource::Rounds { arrivals, round_ns } => {
                let length = i64::try_from(*round_ns).unwrap_or(i64::MAX);
                in_range("length of a round", length, 1..=i64::MAX)?;
                let times = arrivals.iter().map(|arrival| arrival.at_ns);
                ascending(times.chain([round_ns.saturating_sub(1)]))?;
                check_each(arrivals)
            }
        }
    }

    fn check_arrival(&self, arrival: &Arrival, cpus: usize) -> Checked {
        cpu_in_range(arrival.cpu, cpus)?;
        match arrival.action {
            ArrivalAction::Send { queue, .. } => self.exists(QueueId::WORD, queue.0),
            ArrivalAction::SemPost(semaphore) => self.exists(SemaphoreId::WORD, semaphore.0),
        }
    }
}

fn check_group(row: usize, group: &GroupSpec) -> Checked {
    // A parent comes before its children, so that groups can be created in order.
    is_among("group", group.parent.0, row + 1)?;
    shares_in_range(group.shares)
}

fn is_among(kind: &str, number: u32, count: usize) -> Checked {
    match (number as usize) < count {
        true => Ok(()),
        false => Err(format!(
            "{kind} {number} does not exist, the workload has {count}"
        )),
    }
}

fn in_range(what: &str, value: i64, range: RangeInclusive<i64>) -> Checked {
    if range.contains(&value) {
        return Ok(());
    }
    let expected = match range.into_inner() {
        (least, i64::MAX) => format!("at least {least}"),
        (least, most) => format!("{least} to {most}"),
    };
    Err(format!(
        "{what} {value} is out of range, expected {expected}"
    ))
}

fn shares_in_range(shares: u64) -> Checked {
    let shares = shares.min(i64::MAX as u64) as i64;
    in_range("shares", shares, 2..=262_144)
}

fn nice_in_range(nice: i32) -> Checked {
    in_range("nice", i64::from(nice), -20..=19)
}

fn policy_in_range(policy: Policy, priority: u8) -> Checked {
    let refused = match policy {
        Policy::Stop => "only the kernel's migration threads have the stop policy".to_owned(),
        Policy::Deadline => {
            "a task becomes a deadline task by what it reserves, not by its policy".to_owned()
        }
        _ if policy.is_rt() => return in_range("real-time priority", priority.into(), 1..=99),
        _ if priority == 0 => return Ok(()),
        _ => format!(
            "real-time priority {priority} is out of range, expected 0 for a policy that is not \
             real-time"
        ),
    };
    Err(refused)
}

fn cpu_in_range(cpu: Cpu, cpus: usize) -> Checked {
    match cpu.index() < cpus {
        true => Ok(()),
        false => Err(format!(
            "CPU {} does not exist, the machine has CPUs 0 to {}",
            cpu.0,
            cpus - 1
        )),
    }
}

fn affinity_in_range(affinity: &CpuSet, cpus: usize) -> Checked {
    let count = affinity.len() as i64;
    in_range("number of CPUs in the affinity", count, 1..=i64::MAX)?;
    affinity.iter().try_for_each(|cpu| cpu_in_range(cpu, cpus))
}

fn ascending(times: impl Iterator<Item = u64>) -> Checked {
    let mut last = 0;
    for (entry, time) in times.enumerate() {
        if time < last {
            return Err(format!("times must not descend (entry {entry})"));
        }
        last = time;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{ProgramBuilder, Reg};
    use crate::workload::GroupSpec;

    fn with_task(change: impl FnOnce(&mut TaskSpec)) -> String {
        let mut workload = Workload::default();
        let program = workload.add_program(ProgramBuilder::new("empty").finish().unwrap());
        let mut task = TaskSpec::new("t", program);
        change(&mut task);
        workload.add_task(task);
        match workload.check(4) {
            Ok(()) => "fine".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn who_is_asleep_from_the_start_begins_by_receiving() {
        let check = |sleeps_in: u32, rounds: Vec<u64>, round_ns| {
            let mut workload = Workload::default();
            let queues = [0, 1].map(|_| workload.add_queue(crate::workload::QueueSpec::UNBOUNDED));
            let mut builder = ProgramBuilder::new("waiting");
            builder.recv(queues[0], Reg(0));
            let program = workload.add_program(builder.finish().unwrap());
            let mut task = TaskSpec::new("t", program);
            task.asleep_in = Some(QueueId(sleeps_in));
            workload.add_task(task);
            let arrival = |at_ns| Arrival {
                at_ns,
                cpu: Cpu(0),
                context: crate::workload::ArrivalContext::HardIrq,
                sync: false,
                action: ArrivalAction::Send {
                    queue: queues[0],
                    bytes: 1,
                    value: 0,
                },
            };
            workload.add_arrivals(
                "outside",
                ArrivalSource::Rounds {
                    arrivals: rounds.into_iter().map(arrival).collect(),
                    round_ns,
                },
            );
            match workload.check(1) {
                Ok(()) => "fine".to_owned(),
                Err(error) => error.to_string(),
            }
        };
        assert_eq!(check(0, vec![1, 9], 10), "fine");
        assert!(check(1, vec![], 10).starts_with("task t: asleep from the start"));
        assert!(check(2, vec![], 10).contains("queue 2 does not exist"));
        assert!(check(0, vec![1, 10], 10).starts_with("arrival source 0: "));
        assert!(check(0, vec![], 0).contains("length of a round 0 is out of range"));
        assert!(check(0, vec![5, 1], 10).starts_with("arrival source 0: "));
    }

    #[test]
    fn tasks_are_checked() {
        assert_eq!(with_task(|_| ()), "fine");
        let found = [
            with_task(|task| task.program = ProgramId(3)),
            with_task(|task| task.group = GroupId(1)),
            with_task(|task| task.nice = 20),
            with_task(|task| task.affinity = Some(CpuSet::first(5))),
            with_task(|task| task.affinity = Some(CpuSet::EMPTY)),
            with_task(|task| task.policy = Policy::Fifo),
            with_task(|task| task.registers = vec![(Reg(64), 1)]),
        ];
        let expected = "\
task t: program 3 does not exist, the workload has 1
task t: group 1 does not exist, the workload has 1
task t: nice 20 is out of range, expected -20 to 19
task t: CPU 4 does not exist, the machine has CPUs 0 to 3
task t: number of CPUs in the affinity 0 is out of range, expected at least 1
task t: real-time priority 0 is out of range, expected 1 to 99
task t: register 64 is out of range, expected 0 to 63";
        assert_eq!(found.join("\n"), expected);
    }

    #[test]
    fn objects_of_instructions_must_exist() {
        let mut workload = Workload::default();
        workload.add_queue(crate::workload::QueueSpec::UNBOUNDED);
        let mut b = ProgramBuilder::new("p");
        b.work(1);
        b.recv(QueueId(0), Reg(0));
        b.recv(QueueId(1), Reg(0));
        workload.add_program(b.finish().unwrap());
        assert_eq!(
            workload.check(1).unwrap_err().to_string(),
            "program p, instruction 2: queue 1 does not exist, the workload has 1"
        );
    }

    #[test]
    fn groups_need_their_parents_first() {
        let mut workload = Workload::default();
        let a = workload.add_group(GroupSpec::new("/a", GroupId::ROOT));
        let b = workload.add_group(GroupSpec::new("/a/b", a));
        assert_eq!((a, b), (GroupId(1), GroupId(2)));
        assert_eq!(workload.check(1), Ok(()));
        workload.add_group(GroupSpec::new("/c", GroupId(3)));
        assert_eq!(
            workload.check(1).unwrap_err().to_string(),
            "group /c: group 3 does not exist, the workload has 3"
        );
    }

    #[test]
    fn arrivals_must_ascend() {
        let mut workload = Workload::default();
        let semaphore = workload.add_semaphore(0);
        let arrival = |at_ns| Arrival {
            at_ns,
            cpu: Cpu(0),
            context: crate::workload::ArrivalContext::HardIrq,
            sync: false,
            action: ArrivalAction::SemPost(semaphore),
        };
        workload.add_arrivals(
            "outside",
            ArrivalSource::List(vec![arrival(5), arrival(5), arrival(4)]),
        );
        assert_eq!(
            workload.check(1).unwrap_err().to_string(),
            "arrival source 0: times must not descend (entry 2)"
        );
    }
}
