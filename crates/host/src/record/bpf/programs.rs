//! The programs that run in the kernel at each tracepoint, written for the kernel that runs.
//!
//! Each of them does the same: decide whether the event is wanted, take room in the ring of its
//! CPU, fill in the time and the fields, hand it over. Where no room is left it counts a lost event
//! of that CPU. The record behind the eight bytes of time is laid out as
//! [`formats`](super::formats) says, so that whoever reads it copies and does not convert.
//!
//! # What is wanted
//!
//! Without a group: every event. With one, a *member* is a thread whose `sched_task_group` is the
//! group or below it, and a *partner* is a thread of user mode that a member or a partner has
//! woken, or that has woken one, other than from a hard interrupt. Wanted are
//!
//! * every `sched_switch`: whoever holds a CPU keeps the group off it;
//! * wakeups, migrations and long runs of members and partners, and what they wake;
//! * every fork, exec and exit: they tell whom a later thread belongs to.
//!
//! Left out are the wakeups and migrations of threads that have nothing to do with the
//! group. A replay lets such a thread run at the times at which it was switched in.
//!
//! Worked example. A node has 50,000 switches a second, each with a `sched_waking` and a
//! `sched_wakeup`; the group is an nginx with 1000 requests a second. Of 150,000 events 50,000
//! switches and the 2000 or so wakeups of nginx and its clients stay.

use schedcast_trace::Tracepoint;

use super::asm::{Assembler, Label, Op, Reg, When, Width};
use super::btf::{Argument, Btf};
use super::formats::{self, Layout, PATH_BYTES, at};
use super::offsets::{Levels, Offsets, PreemptCount};

use Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};

/// The helpers of the kernel that are called, by their number in `enum bpf_func_id`.
mod helper {
    pub(super) const MAP_LOOKUP: i32 = 1;
    pub(super) const MAP_UPDATE: i32 = 2;
    pub(super) const TIME_NS: i32 = 5;
    pub(super) const CPU: i32 = 8;
    pub(super) const READ: i32 = 113;
    pub(super) const READ_TEXT: i32 = 115;
    pub(super) const RING_RESERVE: i32 = 131;
    pub(super) const RING_SUBMIT: i32 = 132;
    pub(super) const CURRENT_TASK: i32 = 158;
}

/// `BPF_RB_NO_WAKEUP`: the recorder looks by itself.
const NO_WAKEUP: i32 = 1;

// Fields of the kernel's count of preemption (`include/linux/preempt.h`) that all kernels have at
// the same bits.
const IN_SOFT_INTERRUPT: i32 = 0x0000_0100;
const BH_OFF: i32 = 0x0000_fe00;
/// The count of x86 has this bit while no reschedule is pending (`PREEMPT_NEED_RESCHED`).
const NO_RESCHEDULE: i32 = i32::MIN;

// Bits of `common_flags` (`enum trace_flag_type`).
const FLAG_IRQS_OFF: i32 = 0x01;
const FLAG_NEED_RESCHED: i32 = 0x04;
const FLAG_HARD: i32 = 0x08;
const FLAG_SOFT: i32 = 0x10;
const FLAG_NMI: i32 = 0x40;
const FLAG_BH_OFF: i32 = 0x80;

// States of tasks (`include/linux/sched.h`) that the kernel reports as another one than their
// highest bit.
const STATE_REPORTED: i32 = 0x7f;
const STATE_UNINTERRUPTIBLE: i32 = 0x02;
/// `TASK_NOLOAD`, with `TASK_UNINTERRUPTIBLE` the state of an idle kernel thread.
const STATE_NO_LOAD: i32 = 0x400;
/// Waiting for a lock of a real-time kernel, or frozen.
const STATE_SLEEPS_UNSEEN: i32 = 0x9000;
/// `TASK_REPORT_IDLE`
const REPORT_IDLE: i32 = 0x80;
/// `TASK_REPORT_MAX`: left while runnable.
const REPORT_PREEMPTED: i32 = 0x100;

/// `PF_KTHREAD`
const KERNEL_THREAD: i32 = 0x0020_0000;
/// Levels of groups above a thread's own in which the wanted one is looked for. Containers in
/// containers have eight.
const LEVELS: usize = 16;

// Places on the stack.
const STACK_CPU: i16 = -4;
const STACK_PID: i16 = -8;
const STACK_MARK: i16 = -12;
const STACK_COUNT: i16 = -16;

/// File descriptors of the maps that programs use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maps {
    /// The ring of each CPU.
    pub rings: i32,
    /// Lost events of each CPU.
    pub lost: i32,
    /// Partners of the group, by thread.
    pub partners: i32,
}

/// Properties of the kernel and the recording for which programs are written.
#[derive(Clone, Debug)]
pub(super) struct Setting<'a> {
    pub btf: &'a Btf,
    pub offsets: &'a Offsets,
    pub maps: Maps,
    /// Only what has to do with the group whose folder has this number (inode).
    pub group: Option<u64>,
    /// A long run is one of more ns than this.
    pub long_run_ns: i32,
}

/// A program, and the number of its tracepoint in BTF.
#[derive(Debug)]
pub(super) struct Program {
    pub tracepoint: u32,
    pub code: Vec<[u8; 8]>,
}

impl Setting<'_> {
    /// The program for an event.
    pub(super) fn program(&self, event: Tracepoint) -> Result<Program, String> {
        let (tracepoint, arguments) = self.btf.tracepoint(event.name())?;
        let mut writer = Writer::new(self);
        writer.code.op_reg(Op::Move, R6, R1);
        writer.event(event, &arguments)?;
        Ok(Program {
            tracepoint,
            code: writer.finish(),
        })
    }
}

/// One program while it is written. `R6` has the arguments, `R7` the event's task, `R8` another
/// one, `R9` the record.
struct Writer<'a> {
    code: Assembler,
    setting: &'a Setting<'a>,
    offsets: &'a Offsets,
    /// Leaves the program.
    out: Label,
}

/// The arguments of this kind, by place.
fn structures<'a>(arguments: &'a [Argument], name: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_one = move |one: &Argument| matches!(one, Argument::Structure(found) if found == name);
    (0..arguments.len()).filter(move |at| is_one(&arguments[*at]))
}

impl<'a> Writer<'a> {
    fn new(setting: &'a Setting<'a>) -> Writer<'a> {
        let mut code = Assembler::default();
        let out = code.label();
        Writer {
            code,
            setting,
            offsets: setting.offsets,
            out,
        }
    }

    fn finish(mut self) -> Vec<[u8; 8]> {
        self.code.set(self.out);
        self.code.op(Op::Move, R0, 0);
        self.code.exit();
        self.code.finish()
    }

    fn event(&mut self, event: Tracepoint, arguments: &[Argument]) -> Result<(), String> {
        let name = event.name();
        let mut tasks = structures(arguments, "task_struct");
        let without = || format!("this kernel's tracepoint `{name}` does not hand over its task");
        let mut task = || tasks.next().ok_or_else(without);
        let first = task()?;
        // Values that are no addresses, by place among them.
        let value = |number: usize| {
            let mut values = (0..arguments.len()).filter(|at| arguments[*at] == Argument::Value);
            let found = values.nth(number);
            found.ok_or_else(|| format!("this kernel's tracepoint `{name}` hands over too little"))
        };
        match event {
            Tracepoint::Switch => {
                let next = task()?;
                self.argument(R7, first);
                self.argument(R8, next);
                self.begin(event, R7);
                // Before 5.18 the state is that of the task, which has not changed yet.
                self.switch(value(0)?, value(1).ok());
            }
            Tracepoint::Waking => {
                self.argument(R7, first);
                self.current(R8);
                self.only_wakings_of_interest();
                self.begin(event, R8);
                self.woken();
            }
            Tracepoint::Wakeup | Tracepoint::WakeupNew => {
                self.argument(R7, first);
                self.only_related(R7);
                self.current(R8);
                self.begin(event, R8);
                self.woken();
            }
            Tracepoint::Migrate => {
                self.argument(R7, first);
                self.only_related(R7);
                self.current(R8);
                self.begin(event, R8);
                self.woken();
                self.argument(R1, value(0)?);
                self.code.store(Width::Four, R9, at::DEST_CPU, R1);
            }
            Tracepoint::Runtime => {
                self.argument(R1, value(0)?);
                let (long, out) = (self.setting.long_run_ns, self.out);
                self.code.jump_if(When::AtMost, R1, long, out);
                self.argument(R7, first);
                self.only_related(R7);
                self.current(R8);
                self.begin(event, R8);
                self.named(R7, at::COMM, at::PID);
                self.argument(R1, value(0)?);
                self.code.store(Width::Eight, R9, at::RUNTIME, R1);
            }
            Tracepoint::Fork => {
                let child = task()?;
                self.argument(R7, first);
                self.argument(R8, child);
                self.begin(event, R7);
                self.named(R7, at::COMM, at::PID);
                self.named(R8, at::CHILD_COMM, at::CHILD_PID);
            }
            Tracepoint::Exec => {
                let program = structures(arguments, "linux_binprm").next();
                let program = program
                    .ok_or_else(|| format!("this kernel's tracepoint `{name}` tells no program"))?;
                self.argument(R7, first);
                self.begin(event, R7);
                self.executed(program);
                self.argument(R1, value(0)?);
                self.code.store(Width::Four, R9, at::OLD_PID, R1);
                self.field(R7, self.offsets.pid, at::EXEC_PID);
            }
            Tracepoint::Exit => {
                self.argument(R7, first);
                self.begin(event, R7);
                self.named(R7, at::COMM, at::PID);
                self.field(R7, self.offsets.prio, at::PRIO);
            }
        }
        self.code.op_reg(Op::Move, R1, R9);
        self.code.op(Op::Move, R2, NO_WAKEUP);
        self.code.call(helper::RING_SUBMIT);
        Ok(())
    }

    /// Loads the argument at this place.
    fn argument(&mut self, target: Reg, place: usize) {
        self.code.load(Width::Eight, target, R6, 8 * place as i16);
    }

    /// The task that runs.
    fn current(&mut self, target: Reg) {
        self.code.call(helper::CURRENT_TASK);
        self.code.op_reg(Op::Move, target, R0);
    }

    /// The count of preemption, in `R0`.
    fn preempt_count(&mut self) {
        match self.offsets.preempt_count {
            PreemptCount::PerCpu { cfs_rq, rq, behind } => {
                let code = &mut self.code;
                code.call(helper::CURRENT_TASK);
                code.load(Width::Eight, R3, R0, cfs_rq);
                code.load(Width::Eight, R3, R3, rq);
                code.op(Op::Add, R3, behind);
                code.op_reg(Op::Move, R1, R10);
                code.op(Op::Add, R1, STACK_COUNT.into());
                code.op(Op::Move, R2, 4);
                code.call(helper::READ);
                code.load(Width::Four, R0, R10, STACK_COUNT);
            }
            PreemptCount::InTask(offset) => {
                self.code.call(helper::CURRENT_TASK);
                self.code.load(Width::Four, R0, R0, offset);
            }
        }
    }

    /// Takes room for a record into `R9`, and fills in the time and the fields that all events
    /// have. `current` is the task that runs, in a register that calls leave alone.
    fn begin(&mut self, event: Tracepoint, current: Reg) {
        let (lost, room) = (self.code.label(), self.code.label());
        let (maps, out) = (self.setting.maps, self.out);
        let code = &mut self.code;
        code.call(helper::CPU);
        code.store(Width::Four, R10, STACK_CPU, R0);
        code.map(R1, maps.rings);
        code.op_reg(Op::Move, R2, R10);
        code.op(Op::Add, R2, STACK_CPU.into());
        code.call(helper::MAP_LOOKUP);
        // A CPU that came after the recorder has no ring.
        code.jump_if(When::Equal, R0, 0, lost);
        code.op_reg(Op::Move, R1, R0);
        let bytes = formats::TIME_BYTES as i32 + event.bytes() as i32;
        code.op(Op::Move, R2, bytes);
        code.op(Op::Move, R3, 0);
        code.call(helper::RING_RESERVE);
        code.jump_if(When::NotEqual, R0, 0, room);
        code.set(lost);
        code.map(R1, maps.lost);
        code.op_reg(Op::Move, R2, R10);
        code.op(Op::Add, R2, STACK_CPU.into());
        code.call(helper::MAP_LOOKUP);
        code.jump_if(When::Equal, R0, 0, out);
        code.op(Op::Move, R1, 1);
        code.add_in_memory(R0, 0, R1);
        code.jump(out);
        code.set(room);
        code.op_reg(Op::Move, R9, R0);
        code.call(helper::TIME_NS);
        code.store(Width::Eight, R9, 0, R0);
        self.context(event);
        self.field(current, self.offsets.pid, at::COMMON_PID);
    }

    /// Writes `common_type`, and in `common_flags` from which context the event comes.
    fn context(&mut self, event: Tracepoint) {
        let base = match event.has_irqs_off() {
            true => FLAG_IRQS_OFF,
            false => 0,
        };
        let plain = i32::from(event.number()) | base << 16;
        // The kernel calls a switch in any other context a bug (`schedule_debug`).
        if event == Tracepoint::Switch {
            self.code.store_value(Width::Four, R9, at::TYPE, plain);
            return;
        }
        self.preempt_count();
        let code = &mut self.code;
        code.op(Op::Move, R1, plain);
        if let PreemptCount::PerCpu { .. } = self.offsets.preempt_count {
            let none = code.label();
            code.jump_if(When::AnyBit, R0, NO_RESCHEDULE, none);
            code.op(Op::Or, R1, FLAG_NEED_RESCHED << 16);
            code.set(none);
        }
        let done = code.label();
        let special = code.label();
        let Levels { hard, nmi } = self.offsets.levels;
        let any = nmi | hard | IN_SOFT_INTERRUPT | BH_OFF;
        code.jump_if(When::AnyBit, R0, any, special);
        code.jump(done);
        code.set(special);
        for (bits, flag) in [
            (nmi, FLAG_NMI),
            (hard, FLAG_HARD),
            (IN_SOFT_INTERRUPT, FLAG_SOFT),
            (BH_OFF, FLAG_BH_OFF),
        ] {
            let over = code.label();
            code.op_reg(Op::Move, R2, R0);
            code.op(Op::And, R2, bits);
            code.jump_if(When::Equal, R2, 0, over);
            code.op(Op::Or, R1, flag << 16);
            code.set(over);
        }
        code.set(done);
        code.store(Width::Four, R9, at::TYPE, R1);
    }

    /// Copies four bytes of a task into the record.
    fn field(&mut self, task: Reg, offset: i16, to: i16) {
        self.code.load(Width::Four, R1, task, offset);
        self.code.store(Width::Four, R9, to, R1);
    }

    /// Copies a task's name and number.
    fn named(&mut self, task: Reg, comm: i16, pid: i16) {
        for part in [0, 8] {
            let from = self.offsets.comm + part;
            self.code.load(Width::Eight, R1, task, from);
            self.code.store(Width::Eight, R9, comm + part, R1);
        }
        self.field(task, self.offsets.pid, pid);
    }

    /// The fields of a wakeup, of which a migration has the same.
    fn woken(&mut self) {
        self.named(R7, at::COMM, at::PID);
        self.field(R7, self.offsets.prio, at::PRIO);
        self.field(R7, self.offsets.cpu, at::CPU);
    }

    /// The fields of a switch, from the places of "was it preempted" and of the state that was
    /// left.
    fn switch(&mut self, preempted: usize, state: Option<usize>) {
        self.named(R7, at::COMM, at::PID);
        self.field(R7, self.offsets.prio, at::PRIO);
        self.named(R8, at::NEXT_COMM, at::NEXT_PID);
        self.field(R8, self.offsets.prio, at::NEXT_PRIO);
        match state {
            Some(place) => self.argument(R1, place),
            None => self.code.load(Width::Four, R1, R7, self.offsets.state),
        }
        self.argument(R2, preempted);
        let code = &mut self.code;
        let done = code.label();
        // As `__trace_sched_switch_state` and `__task_state_index` have it.
        code.op(Op::Move, R3, REPORT_PREEMPTED);
        code.op(Op::And, R2, 1);
        code.jump_if(When::NotEqual, R2, 0, done);
        let not_idle = code.label();
        code.op_reg(Op::Move, R4, R1);
        let idle = STATE_NO_LOAD | STATE_UNINTERRUPTIBLE;
        code.op(Op::And, R4, idle);
        code.op(Op::Move, R3, REPORT_IDLE);
        code.jump_if(When::NotEqual, R4, idle, not_idle);
        code.jump(done);
        code.set(not_idle);
        code.op(Op::Move, R3, STATE_UNINTERRUPTIBLE);
        code.jump_if(When::AnyBit, R1, STATE_SLEEPS_UNSEEN, done);
        code.load(Width::Four, R2, R7, self.offsets.exit_state);
        code.op_reg(Op::Or, R1, R2);
        code.op(Op::And, R1, STATE_REPORTED);
        code.op(Op::Move, R3, 0);
        code.jump_if(When::Equal, R1, 0, done);
        // The highest bit.
        for bit in (0..7).rev() {
            code.op(Op::Move, R3, 1 << bit);
            code.jump_if(When::AnyBit, R1, 1 << bit, done);
        }
        code.set(done);
        code.store(Width::Eight, R9, at::PREV_STATE, R3);
    }

    /// The path of the file that is executed, cut to its room.
    fn executed(&mut self, program: usize) {
        for part in (0..PATH_BYTES).step_by(8) {
            let to = at::PATH + part as i16;
            self.code.store_value(Width::Eight, R9, to, 0);
        }
        self.argument(R3, program);
        self.code.load(Width::Eight, R3, R3, self.offsets.exec_path);
        self.code.op_reg(Op::Move, R1, R9);
        self.code.op(Op::Add, R1, at::PATH.into());
        self.code.op(Op::Move, R2, PATH_BYTES as i32);
        self.code.call(helper::READ_TEXT);
    }

    /// Goes on at `yes` if the task is in the group or below it, else right behind.
    fn if_member(&mut self, task: Reg, group: u64, yes: Label) {
        let no = self.code.label();
        let offsets = self.offsets;
        let code = &mut self.code;
        code.number(R2, group);
        code.load(Width::Eight, R1, task, offsets.group);
        for _ in 0..LEVELS {
            code.jump_if(When::Equal, R1, 0, no);
            code.load(Width::Eight, R3, R1, offsets.group_cgroup);
            code.load(Width::Eight, R3, R3, offsets.cgroup_node);
            code.load(Width::Eight, R3, R3, offsets.node_id);
            code.jump_if_reg(When::Equal, R3, R2, yes);
            code.load(Width::Eight, R1, R1, offsets.group_parent);
        }
        code.set(no);
    }

    /// Puts the number of a task where maps look for their key, in `R2`.
    fn key(&mut self, task: Reg) {
        self.code.load(Width::Four, R3, task, self.offsets.pid);
        self.code.store(Width::Four, R10, STACK_PID, R3);
        self.code.map(R1, self.setting.maps.partners);
        self.code.op_reg(Op::Move, R2, R10);
        self.code.op(Op::Add, R2, STACK_PID.into());
    }

    /// Goes on at `yes` if the task is a member or a partner, else right behind.
    fn if_related(&mut self, task: Reg, group: u64, yes: Label) {
        self.if_member(task, group, yes);
        self.key(task);
        self.code.call(helper::MAP_LOOKUP);
        self.code.jump_if(When::NotEqual, R0, 0, yes);
    }

    /// Ends the program unless the task is a member or a partner.
    fn only_related(&mut self, task: Reg) {
        let Some(group) = self.setting.group else {
            return;
        };
        let yes = self.code.label();
        self.if_related(task, group, yes);
        self.code.jump(self.out);
        self.code.set(yes);
    }

    /// Makes a thread of user mode a partner, if it is not one yet.
    fn mark(&mut self, task: Reg, group: u64) {
        let done = self.code.label();
        self.code.load(Width::Four, R1, task, self.offsets.flags);
        self.code.jump_if(When::AnyBit, R1, KERNEL_THREAD, done);
        self.if_related(task, group, done);
        self.code.store_value(Width::Four, R10, STACK_MARK, 1);
        self.key(task);
        self.code.op_reg(Op::Move, R3, R10);
        self.code.op(Op::Add, R3, STACK_MARK.into());
        self.code.op(Op::Move, R4, 0);
        self.code.call(helper::MAP_UPDATE);
        self.code.set(done);
    }

    /// Ends the program unless `R7`, which is woken, or `R8`, which wakes it, is a member or a
    /// partner; both are then.
    fn only_wakings_of_interest(&mut self) {
        let Some(group) = self.setting.group else {
            return;
        };
        let Levels { hard, nmi } = self.offsets.levels;
        let in_hard_interrupt = nmi | hard;
        let [wakee, waker, wanted] = [(); 3].map(|()| self.code.label());
        self.if_related(R7, group, wakee);
        self.preempt_count();
        self.code
            .jump_if(When::AnyBit, R0, in_hard_interrupt, self.out);
        self.if_related(R8, group, waker);
        self.code.jump(self.out);
        self.code.set(wakee);
        self.preempt_count();
        self.code
            .jump_if(When::AnyBit, R0, in_hard_interrupt, wanted);
        self.mark(R8, group);
        self.code.jump(wanted);
        self.code.set(waker);
        self.mark(R7, group);
        self.code.set(wanted);
    }
}
