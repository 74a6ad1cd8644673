//! Finds what in a workload cannot run, before anything runs.

use crate::program::{DistributionError, Instruction, ObjectId};
use crate::workload::{
    Arrival, ArrivalAction, ArrivalSource, AttributesSpec, DistributionId, ForkSpec, ProgramId,
    QueueId, SemaphoreId, TaskSpec, Workload,
};
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::task::Policy;
use schedcast_kernel::{Cpu, GroupId};
use thiserror::Error;

/// Why a workload cannot run.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum WorkloadError {
    /// A name for something that is not there.
    #[error("{place}: {kind} {number} does not exist, the workload has {count}")]
    UnknownObject {
        /// Place that names the object.
        place: String,
        /// Kind of the object.
        kind: &'static str,
        /// Its number.
        number: u32,
        /// How many there are.
        count: usize,
    },
    /// A CPU that the machine does not have.
    #[error("{place}: CPU {cpu} does not exist, the machine has CPUs 0 to {last}")]
    UnknownCpu {
        /// Place that names the object.
        place: String,
        /// CPU.
        cpu: u32,
        /// Highest CPU.
        last: usize,
    },
    /// The stop class is the kernel's own.
    #[error("{place}: only the kernel's migration threads have the stop policy")]
    StopPolicy {
        /// Where.
        place: String,
    },
    /// Deadline tasks have to reserve something.
    #[error("{place}: a task becomes a deadline task by what it reserves, not by its policy")]
    DeadlinePolicy {
        /// Where.
        place: String,
    },
    /// A value outside its range.
    #[error("{place}: {what} {value} is out of range, expected {expected}")]
    OutOfRange {
        /// Where.
        place: String,
        /// Name of the value.
        what: &'static str,
        /// The value.
        value: i64,
        /// Valid values.
        expected: &'static str,
    },
    /// A task that is asleep from the start, in something its program does not begin with.
    #[error(
        "{place}: asleep from the start, but its program does not begin by receiving from that queue"
    )]
    AsleepElsewhere {
        /// Place at fault.
        place: String,
    },
    /// A distribution that cannot be drawn from.
    #[error("distribution {number}: {problem}")]
    Distribution {
        /// Number.
        number: usize,
        /// Mistake in the distribution.
        problem: DistributionError,
    },
    /// A list that must ascend in time does not.
    #[error("{place}: times must not descend (entry {entry})")]
    Descending {
        /// Which list.
        place: String,
        /// First entry that is earlier than the one before.
        entry: usize,
    },
}

impl Workload {
    /// Whether everything that is named exists and every value is in its range, on a machine of
    /// `cpus` CPUs.
    ///
    /// # Errors
    /// The first problem, with its place.
    pub fn check(&self, cpus: usize) -> Result<(), WorkloadError> {
        self.check_distributions()?;
        self.check_groups()?;
        self.check_programs()?;
        for fork in &self.forks {
            self.check_fork(fork, cpus)?;
        }
        for (row, attributes) in self.attributes.iter().enumerate() {
            self.check_attributes(row, attributes, cpus)?;
        }
        for task in &self.tasks {
            self.check_task(task, cpus)?;
        }
        for (row, spec) in self.arrivals.iter().enumerate() {
            self.check_source(row, &spec.source, cpus)?;
        }
        self.check_changes()
    }

    fn count(&self, kind: &str) -> usize {
        match kind {
            "semaphore" => self.semaphores.len(),
            "queue" => self.queues.len(),
            "device" => self.devices.len(),
            "word" => self.words.len(),
            "mutex" => self.mutexes as usize,
            "condition" => self.conditions as usize,
            "barrier" => self.barriers.len(),
            "metric" => self.metrics.len(),
            "distribution" => self.distributions.len(),
            "program" => self.programs.len(),
            "fork" => self.forks.len(),
            "attributes" => self.attributes.len(),
            "group" => self.groups.len() + 1,
            other => unreachable!("no objects of kind {other}"),
        }
    }

    fn exists(
        &self,
        place: impl FnOnce() -> String,
        kind: &'static str,
        number: u32,
    ) -> Result<(), WorkloadError> {
        let count = self.count(kind);
        if (number as usize) < count {
            return Ok(());
        }
        Err(WorkloadError::UnknownObject {
            place: place(),
            kind,
            number,
            count,
        })
    }

    fn group_exists(
        &self,
        place: impl FnOnce() -> String,
        group: GroupId,
    ) -> Result<(), WorkloadError> {
        self.exists(place, "group", group.0)
    }

    fn check_distributions(&self) -> Result<(), WorkloadError> {
        for (number, distribution) in self.distributions.iter().enumerate() {
            distribution
                .check()
                .map_err(|problem| WorkloadError::Distribution { number, problem })?;
        }
        for (row, &count) in self.barriers.iter().enumerate() {
            in_range(
                || format!("barrier {row}"),
                "count",
                i64::from(count),
                1..=i64::MAX,
                "at least 1",
            )?;
        }
        Ok(())
    }

    fn check_groups(&self) -> Result<(), WorkloadError> {
        for (row, group) in self.groups.iter().enumerate() {
            let place = || format!("group {}", group.path);
            // A parent comes before its children, so that groups can be created in order.
            if group.parent.index() > row {
                return Err(WorkloadError::UnknownObject {
                    place: place(),
                    kind: "group",
                    number: group.parent.0,
                    count: row + 1,
                });
            }
            shares_in_range(place, group.shares)?;
        }
        Ok(())
    }

    fn check_programs(&self) -> Result<(), WorkloadError> {
        for program in &self.programs {
            for named in program.objects() {
                let place = || format!("program {}, instruction {}", program.name(), named.at);
                self.exists(place, named.kind, named.highest)?;
            }
        }
        Ok(())
    }

    fn check_attributes(
        &self,
        row: usize,
        attributes: &AttributesSpec,
        cpus: usize,
    ) -> Result<(), WorkloadError> {
        let place = || format!("attributes {row}");
        if let Some((policy, priority)) = attributes.policy {
            policy_in_range(place, policy, priority)?;
        }
        if let Some(nice) = attributes.nice {
            nice_in_range(place, nice)?;
        }
        if let Some(affinity) = &attributes.affinity {
            affinity_in_range(place, affinity, cpus)?;
        }
        if let Some(group) = attributes.group {
            self.group_exists(place, group)?;
        }
        Ok(())
    }

    fn check_fork(&self, fork: &ForkSpec, cpus: usize) -> Result<(), WorkloadError> {
        let place = || format!("fork {}", fork.name);
        self.exists(place, ProgramId::WORD, fork.program.0)?;
        if let Some(affinity) = &fork.affinity {
            affinity_in_range(place, affinity, cpus)?;
        }
        if let Some(group) = fork.group {
            self.group_exists(place, group)?;
        }
        Ok(())
    }

    fn check_task(&self, task: &TaskSpec, cpus: usize) -> Result<(), WorkloadError> {
        let place = || format!("task {}", task.name);
        self.exists(place, ProgramId::WORD, task.program.0)?;
        self.group_exists(place, task.group)?;
        policy_in_range(place, task.policy, task.rt_priority)?;
        nice_in_range(place, task.nice)?;
        if let Some(affinity) = &task.affinity {
            affinity_in_range(place, affinity, cpus)?;
        }
        if let Some(cpu) = task.start_cpu {
            cpu_in_range(place, cpu, cpus)?;
        }
        if let Some(queue) = task.asleep_in {
            self.exists(place, QueueId::WORD, queue.0)?;
            let program = &self.programs[task.program.0 as usize];
            let first = program.instructions().first().copied();
            let receives = matches!(first, Some(Instruction::Recv { queue: from, .. }) if from == queue.into());
            if !receives {
                return Err(WorkloadError::AsleepElsewhere { place: place() });
            }
        }
        for (reg, _) in &task.registers {
            in_range(
                place,
                "register",
                i64::from(reg.0),
                0..=crate::program::REGISTERS_MAX as i64 - 1,
                "0 to 63",
            )?;
        }
        Ok(())
    }

    fn check_source(
        &self,
        row: usize,
        source: &ArrivalSource,
        cpus: usize,
    ) -> Result<(), WorkloadError> {
        let place = || format!("arrival source {row}");
        match source {
            ArrivalSource::List(arrivals) => {
                ascending(place, arrivals.iter().map(|arrival| arrival.at_ns))?;
                arrivals
                    .iter()
                    .try_for_each(|arrival| self.check_arrival(place, arrival, cpus))
            }
            ArrivalSource::Stream { first, interval } => {
                self.exists(place, DistributionId::WORD, interval.0)?;
                self.check_arrival(place, first, cpus)
            }
            ArrivalSource::Rounds { arrivals, round_ns } => {
                let length = i64::try_from(*round_ns).unwrap_or(i64::MAX);
                in_range(
                    place,
                    "length of a round",
                    length,
                    1..=i64::MAX,
                    "at least 1",
                )?;
                let times = arrivals.iter().map(|arrival| arrival.at_ns);
                ascending(place, times.chain([round_ns.saturating_sub(1)]))?;
                arrivals
                    .iter()
                    .try_for_each(|arrival| self.check_arrival(place, arrival, cpus))
            }
        }
    }

    fn check_arrival(
        &self,
        place: impl Fn() -> String,
        arrival: &Arrival,
        cpus: usize,
    ) -> Result<(), WorkloadError> {
        cpu_in_range(&place, arrival.cpu, cpus)?;
        match arrival.action {
            ArrivalAction::Send { queue, .. } => self.exists(place, QueueId::WORD, queue.0),
            ArrivalAction::SemPost(semaphore) => self.exists(place, SemaphoreId::WORD, semaphore.0),
        }
    }

    pub(crate) fn check_changes(&self) -> Result<(), WorkloadError> {
        let place = || "timed changes".to_owned();
        ascending(place, self.changes.iter().map(|change| change.at_ns))?;
        for change in &self.changes {
            self.group_exists(place, change.group)?;
            if let crate::workload::GroupSetting::Shares(shares) = change.setting {
                shares_in_range(place, shares)?;
            }
        }
        Ok(())
    }
}

fn in_range(
    place: impl FnOnce() -> String,
    what: &'static str,
    value: i64,
    range: std::ops::RangeInclusive<i64>,
    expected: &'static str,
) -> Result<(), WorkloadError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(WorkloadError::OutOfRange {
        place: place(),
        what,
        value,
        expected,
    })
}

fn shares_in_range(place: impl FnOnce() -> String, shares: u64) -> Result<(), WorkloadError> {
    let shares = shares.min(i64::MAX as u64) as i64;
    in_range(place, "shares", shares, 2..=262_144, "2 to 262144")
}

fn nice_in_range(place: impl FnOnce() -> String, nice: i32) -> Result<(), WorkloadError> {
    in_range(place, "nice", i64::from(nice), -20..=19, "-20 to 19")
}

fn policy_in_range(
    place: impl FnOnce() -> String,
    policy: Policy,
    priority: u8,
) -> Result<(), WorkloadError> {
    let priority = i64::from(priority);
    if policy == Policy::Stop {
        return Err(WorkloadError::StopPolicy { place: place() });
    }
    if policy == Policy::Deadline {
        return Err(WorkloadError::DeadlinePolicy { place: place() });
    }
    if policy.is_rt() {
        in_range(place, "real-time priority", priority, 1..=99, "1 to 99")
    } else {
        let expected = "0 for a policy that is not real-time";
        in_range(place, "real-time priority", priority, 0..=0, expected)
    }
}

fn cpu_in_range(
    place: impl FnOnce() -> String,
    cpu: Cpu,
    cpus: usize,
) -> Result<(), WorkloadError> {
    if cpu.index() < cpus {
        return Ok(());
    }
    Err(WorkloadError::UnknownCpu {
        place: place(),
        cpu: cpu.0,
        last: cpus - 1,
    })
}

fn affinity_in_range(
    place: impl Fn() -> String,
    affinity: &CpuSet,
    cpus: usize,
) -> Result<(), WorkloadError> {
    in_range(
        &place,
        "number of CPUs in the affinity",
        affinity.len() as i64,
        1..=i64::MAX,
        "at least 1",
    )?;
    affinity
        .iter()
        .try_for_each(|cpu| cpu_in_range(&place, cpu, cpus))
}

fn ascending(
    place: impl FnOnce() -> String,
    times: impl Iterator<Item = u64>,
) -> Result<(), WorkloadError> {
    let mut last = 0;
    for (entry, time) in times.enumerate() {
        if time < last {
            return Err(WorkloadError::Descending {
                place: place(),
                entry,
            });
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
        assert_eq!(
            with_task(|task| task.program = ProgramId(3)),
            "task t: program 3 does not exist, the workload has 1"
        );
        assert_eq!(
            with_task(|task| task.group = GroupId(1)),
            "task t: group 1 does not exist, the workload has 1"
        );
        assert_eq!(
            with_task(|task| task.nice = 20),
            "task t: nice 20 is out of range, expected -20 to 19"
        );
        assert_eq!(
            with_task(|task| task.affinity = Some(CpuSet::first(5))),
            "task t: CPU 4 does not exist, the machine has CPUs 0 to 3"
        );
        assert_eq!(
            with_task(|task| task.affinity = Some(CpuSet::EMPTY)),
            "task t: number of CPUs in the affinity 0 is out of range, expected at least 1"
        );
        assert_eq!(
            with_task(|task| task.policy = Policy::Fifo),
            "task t: real-time priority 0 is out of range, expected 1 to 99"
        );
        assert_eq!(
            with_task(|task| task.registers = vec![(Reg(64), 1)]),
            "task t: register 64 is out of range, expected 0 to 63"
        );
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
