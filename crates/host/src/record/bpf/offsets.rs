//! Where the running kernel keeps what the programs read, by its BTF.
//!
//! Worked example: x86 keeps the count of preemption in a variable of each CPU, which is found by
//! its distance from the CPU's run queue; aarch64 keeps it in the current task, and there it is a
//! member like `pid`.

use super::btf::Btf;
use super::formats::NAME_BYTES;

/// Fields of the count of preemption that moved when Linux 7.3 made room for a count of disabled
/// interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Levels {
    pub(super) hard: i32,
    pub(super) nmi: i32,
}

impl Levels {
    /// From 5.8 to 7.2.
    const BEFORE: Levels = Levels {
        hard: 0x000f_0000,
        nmi: 0x00f0_0000,
    };
    /// Since 7.3. An NMI within an NMI is not told, and has no scheduler events.
    const SINCE: Levels = Levels {
        hard: 0x0f00_0000,
        nmi: 0x1000_0000,
    };

    /// Told by the variable that came with that count.
    fn of(btf: &Btf) -> Levels {
        match btf.per_cpu_offset("local_interrupt_disable_state") {
            Some(_) => Levels::SINCE,
            None => Levels::BEFORE,
        }
    }
}

/// Where the running kernel keeps what the programs read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offsets {
    pub(super) comm: i16,
    pub(super) pid: i16,
    pub(super) prio: i16,
    pub(super) flags: i16,
    pub(super) cpu: i16,
    pub(super) state: i16,
    pub(super) exit_state: i16,
    pub(super) group: i16,
    pub(super) group_parent: i16,
    pub(super) group_cgroup: i16,
    pub(super) cgroup_node: i16,
    pub(super) node_id: i16,
    pub(super) exec_path: i16,
    pub(super) preempt_count: PreemptCount,
    pub(super) levels: Levels,
}

/// Where the count of preemption is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreemptCount {
    /// A variable of each CPU, this far behind the CPU's `struct rq`, which the task leads to by
    /// `se.cfs_rq` and `rq`.
    ///
    /// The symbol itself would be nearer, but only a kernel with `CONFIG_KALLSYMS_ALL` tells where
    /// it is.
    PerCpu { cfs_rq: i16, rq: i16, behind: i32 },
    /// In the current task.
    InTask(i16),
}

impl Offsets {
    /// Looks everything up. The error names what this kernel does not have.
    pub(super) fn of(btf: &Btf) -> Result<Offsets, String> {
        let place = |structure: &str, path: &str, bytes: u32| {
            let found = btf.place(structure, path)?;
            match i16::try_from(found.offset) {
                Ok(offset) if found.bytes == bytes => Ok(offset),
                _ => Err(format!(
                    "expected `{path}` in `struct {structure}` to have {bytes} bytes below byte 32768, found {} from byte {} on",
                    found.bytes, found.offset
                )),
            }
        };
        let task = |path: &str, bytes: u32| place("task_struct", path, bytes);
        Ok(Offsets {
            comm: task("comm", NAME_BYTES as u32)?,
            pid: task("pid", 4)?,
            prio: task("prio", 4)?,
            flags: task("flags", 4)?,
            // Linux 5.16 moved it.
            cpu: task("thread_info.cpu", 4).or_else(|_| task("cpu", 4))?,
            // Linux 5.14 renamed it, and before it had the length of a `long`; the states are in
            // its low half.
            state: task("__state", 4).or_else(|_| task("state", 8))?,
            exit_state: task("exit_state", 4)?,
            group: task("sched_task_group", 8)?,
            group_parent: place("task_group", "parent", 8)?,
            group_cgroup: place("task_group", "css.cgroup", 8)?,
            cgroup_node: place("cgroup", "kn", 8)?,
            node_id: place("kernfs_node", "id", 8)?,
            exec_path: place("linux_binprm", "filename", 8)?,
            preempt_count: PreemptCount::of(btf, place)?,
            levels: Levels::of(btf),
        })
    }
}

impl PreemptCount {
    /// x86 keeps it for each CPU, from 6.2 to 6.14 in `pcpu_hot`; other architectures in the task.
    fn of(
        btf: &Btf,
        place: impl Fn(&str, &str, u32) -> Result<i16, String>,
    ) -> Result<PreemptCount, String> {
        let hot = place("pcpu_hot", "preempt_count", 4);
        let count = btf.per_cpu_offset("__preempt_count").or_else(|| {
            btf.per_cpu_offset("pcpu_hot")?
                .checked_add(hot.ok()?.try_into().ok()?)
        });
        if let (Some(count), Some(queue)) = (count, btf.per_cpu_offset("runqueues")) {
            return Ok(PreemptCount::PerCpu {
                cfs_rq: place("task_struct", "se.cfs_rq", 8)?,
                rq: place("cfs_rq", "rq", 8)?,
                behind: count.wrapping_sub(queue) as i32,
            });
        }
        let in_task = |path| place("task_struct", path, 4);
        let offset = in_task("thread_info.preempt.count")
            .or_else(|_| in_task("thread_info.preempt_count"))?;
        Ok(PreemptCount::InTask(offset))
    }
}
