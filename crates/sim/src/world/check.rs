//! Conditions that hold after every event of a run, checked in drawn worlds.
//!
//! A run that is checked does exactly what another one does, and the others pay nothing. Worked
//! example: CPU 1 has executed tasks for 300 µs and kernel operations for 20 µs and has idled for
//! 680 µs; it is in its idle loop, and up to 1000 µs that is accounted. 300 + 20 + 680 = 1000: no
//! time was lost, none was counted twice. A task that waits for a line for 3 µs, which are counted
//! as an operation, and is credited with them as work too, makes it 1003.

use super::tasks::Name;
use super::{RunError, World};
use schedcast_kernel::task::TaskState;
use schedcast_kernel::{Cpu, Ns, TaskId, invariants};

/// Where the clocks of a world stood.
struct Clocks {
    now: Ns,
    cpus: Vec<Ns>,
    /// By CPU, how far the time that statistics count lies behind its clock.
    uncounted: Vec<i128>,
}

impl World {
    /// Like [`World::run_until`], and looks after every event whether clocks go forward and all CPU
    /// time is counted once; after each `every`th event and at the end, whether the scheduler's
    /// tables agree with each other and whether every task that sleeps has something that will wake
    /// it.
    ///
    /// # Errors
    /// A program at fault; the world stays at the time of the fault.
    ///
    /// # Panics
    /// With the first thing that does not hold.
    pub fn run_checked(&mut self, until: Ns, every: u64) -> Result<(), RunError> {
        self.out.limit = until;
        let mut clocks = self.clocks();
        let mut events = 0;
        while self.step(until)? {
            events += 1;
            self.check_clocks(&mut clocks);
            if events % every.max(1) == 0 {
                self.check_tables();
            }
        }
        self.out.now = self.out.now.max(until);
        self.settle();
        self.check_clocks(&mut clocks);
        self.check_tables();
        Ok(())
    }

    fn clocks(&self) -> Clocks {
        let cpus = || (0..self.out.cpus.len()).map(Cpu::from);
        Clocks {
            now: self.out.now,
            cpus: cpus().map(|cpu| self.out.cpus[cpu].cursor).collect(),
            uncounted: cpus().map(|cpu| self.uncounted(cpu)).collect(),
        }
    }

    /// How much less a CPU's time adds up to than has passed on it.
    fn uncounted(&self, cpu: Cpu) -> i128 {
        let state = &self.out.cpus[cpu];
        let up_to = match state.running {
            _ if state.idle => state.idle_counted,
            Some(_) => state.cursor.max(state.started),
            None => state.cursor + self.out.scripts[cpu].delay_ns(),
        };
        let time = &state.time;
        i128::from(up_to) - i128::from(time.user_ns + time.overhead_ns + time.idle_ns)
    }

    fn check_clocks(&self, before: &mut Clocks) {
        let now = self.out.now;
        let earlier = before.now;
        assert!(now >= earlier, "time went back from {earlier} to {now} ns");
        before.now = now;
        for cpu in (0..self.out.cpus.len()).map(Cpu::from) {
            let cursor = self.out.cpus[cpu].cursor;
            let earlier = std::mem::replace(&mut before.cpus[cpu.index()], cursor);
            let row = cpu.0;
            assert!(
                cursor >= earlier,
                "at {now} ns the clock of CPU {row} went back from {earlier} to {cursor} ns"
            );
            let lost = self.uncounted(cpu) - before.uncounted[cpu.index()];
            assert!(
                lost == 0,
                "at {now} ns CPU {row} has counted {} ns too {}: {:?}",
                lost.abs(),
                if lost > 0 { "few" } else { "many" },
                self.out.cpus[cpu].time,
            );
        }
    }

    fn check_tables(&self) {
        invariants::check(&self.kernel);
        self.out.probes.check();
        for (row, queue) in self.out.tasks.queues.iter().enumerate() {
            let room: u64 = queue.messages.iter().map(|message| message.room).sum();
            let used = queue.used;
            assert_eq!(used, room, "queue {row}: what its messages take");
        }
        let rows = (0..self.out.tasks.contexts.len()).map(TaskId::from);
        for task in rows {
            let record = &self.kernel.tasks[task];
            let context = &self.out.tasks.contexts[task];
            let sleeps = record.state == TaskState::Blocked && context.name != Name::Kernel;
            assert!(
                !sleeps || self.will_be_woken(task),
                "at {} ns {} (row {}) sleeps for ever",
                self.out.now,
                self.task_name(task),
                task.0
            );
        }
    }

    /// Whether anything is under way that ends the sleep of a task.
    fn will_be_woken(&self, task: TaskId) -> bool {
        let out = &self.out;
        let context = &out.tasks.contexts[task];
        let has_io = |slot| out.wheel.armed(slot).is_some();
        out.tasks.waiting.holds(task)
            || out.timers.is_armed(out.task_timer(task))
            || context.joins_all
            || context.io.is_some_and(has_io)
    }
}
