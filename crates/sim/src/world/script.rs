//! Operations that want contended lines, played in the order of time.
//!
//! The kernel executes an operation at once: its state changes when it starts, and its costs are
//! known then, except for one thing. How long it waits for a contended line depends on who else
//! asks before it gets there, and those operations may not have started yet. So from the first such
//! line on, what the operation does to the outside (interrupts, observations, further lines) is
//! written into the CPU's *script*, and played when its time comes; all waiting moves what follows.
//!
//! Worked example: at 1000 ns CPU 0 wakes a task: 500 ns of work, then the line of its group, then
//! 200 ns, then an interrupt to CPU 3. The script says: line at 1500, interrupt at 1700. At 1400
//! CPU 1 starts an operation that wants the line at 1450, takes 100 ns for its transfer, and is
//! granted it first. At 1500 CPU 0 asks, waits until 1550, has the line at 1650, 150 ns later than
//! expected; its interrupt leaves at 1850, and that is where CPU 0 goes on.

use super::engine::{Run, Stage};
use super::outside::{Outside, class, per_cpu};
use super::{Core, World};
use crate::wheel::Key;
use schedcast_kernel::platform::{Access, Ipi, Line, Observation};
use schedcast_kernel::{Cpu, Ns, TaskId};

/// Something an operation does to the outside.
#[derive(Clone, Copy, Debug)]
pub(super) enum SideEffect {
    /// Wants a line.
    Touch(Line, Access),
    /// Interrupts a CPU.
    Ipi(Cpu, Ipi, bool),
    /// Tells observers about a CPU.
    Observe(Cpu, Observation),
    /// Tells them that it is about to wake a task, and which task asked for that.
    Waking(TaskId, Option<TaskId>),
}

/// Remaining effects of one CPU's operation on the outside.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    /// Side effects and when they would happen without waiting.
    steps: Vec<(Ns, SideEffect)>,
    next: usize,
    /// Waiting so far.
    delay_ns: Ns,
    /// Where the CPU goes on; `None` when it does not wait for its script.
    resume: Option<Stage>,
}

impl Script {
    /// How long the operation under way has waited so far.
    pub(super) fn delay_ns(&self) -> Ns {
        self.delay_ns
    }
}

impl<const EXPLAIN: bool> Outside<EXPLAIN> {
    /// Whether side effects of the operation that `cpu` executes have to be written down.
    #[inline(always)]
    pub(super) fn is_recording(&self, cpu: Cpu) -> bool {
        self.lines.is_some() && !self.scripts[cpu].steps.is_empty()
    }

    /// Writes a side effect down.
    #[inline(never)]
    pub(super) fn record(&mut self, cpu: Cpu, effect: SideEffect) {
        self.write_down(cpu, effect);
    }

    #[inline(always)]
    fn write_down(&mut self, cpu: Cpu, effect: SideEffect) {
        let at = self.clock(cpu);
        self.scripts[cpu].steps.push((at, effect));
    }

    /// `touch` of the platform.
    #[inline]
    pub(super) fn want_line(&mut self, cpu: Cpu, line: Line, access: Access) {
        if self.lines.is_some() {
            self.want_modelled_line(cpu, line, access);
        }
    }

    #[inline(never)]
    fn want_modelled_line(&mut self, cpu: Cpu, line: Line, access: Access) {
        let Some(lines) = &mut self.lines else { return };
        if lines.expect(cpu, line, access) {
            self.record_touch(cpu, line, access);
        }
    }

    /// Apart, so that an access that finds its line at hand saves no registers.
    #[inline(never)]
    fn record_touch(&mut self, cpu: Cpu, line: Line, access: Access) {
        self.write_down(cpu, SideEffect::Touch(line, access));
    }

    /// A task wants a line. One that does so at the moment under way is the next in the order of
    /// time: it asks at once and needs no script. Returns whether it had to ask.
    #[inline]
    pub(super) fn take_line(&mut self, cpu: Cpu, line: Line, access: Access) -> bool {
        let Some(lines) = &mut self.lines else {
            return false;
        };
        let state = &mut self.cpus[cpu];
        if state.cursor > self.now || !self.scripts[cpu].steps.is_empty() {
            self.want_modelled_line(cpu, line, access);
            return self.is_recording(cpu);
        }
        if !lines.expect(cpu, line, access) {
            return false;
        }
        let delay_ns = lines.grant(cpu, line, access, self.now) - self.now;
        state.time.overhead_ns += delay_ns;
        state.cursor += delay_ns;
        true
    }

    /// Time of the next side effect of a CPU that waits for its script.
    #[inline(always)]
    pub(super) fn script_time(&self, cpu: Cpu) -> Option<Ns> {
        self.lines.as_ref()?;
        let script = &self.scripts[cpu];
        script.resume.as_ref()?;
        let (at, _) = script.steps.get(script.next)?;
        Some(at + script.delay_ns)
    }

    /// Plays the script of a CPU as far as possible. `false` when it has to wait for events of
    /// others; it goes on at `stage` then.
    #[inline(never)]
    pub(super) fn play(&mut self, cpu: Cpu, stage: Stage) -> bool {
        let row = cpu.index();
        let script = &mut self.scripts[row];
        let mut steps = std::mem::take(&mut script.steps);
        let (mut next, mut delay_ns) = (script.next, script.delay_ns);
        for (at, effect) in &steps[next..] {
            let at = at + delay_ns;
            let key = Key::new(at, class::SEGMENT);
            if at > self.now {
                // The previous task is accounted; no task runs before the script is over.
                self.cpus[row].running = None;
                if !self.advance_to(key) {
                    self.wheel.arm(<Outside>::slot(cpu, per_cpu::SEGMENT), key);
                    self.scripts[row] = Script {
                        steps,
                        next,
                        delay_ns,
                        resume: Some(stage),
                    };
                    return false;
                }
            }
            next += 1;
            delay_ns += self.perform(cpu, at, effect);
        }
        steps.clear();
        let script = &mut self.scripts[row];
        script.steps = steps;
        script.next = 0;
        script.delay_ns = 0;
        script.resume = None;
        let state = &mut self.cpus[row];
        state.cursor += delay_ns;
        true
    }

    /// Returns how long the CPU waits for it.
    #[inline(always)]
    fn perform(&mut self, cpu: Cpu, at: Ns, effect: &SideEffect) -> Ns {
        match *effect {
            SideEffect::Touch(line, access) => {
                let Some(lines) = &mut self.lines else {
                    return 0;
                };
                let delay_ns = lines.grant(cpu, line, access, at) - at;
                self.cpus[cpu].time.overhead_ns += delay_ns;
                return delay_ns;
            }
            SideEffect::Ipi(to, ipi, polling) => self.deliver_ipi(at, to, ipi, polling),
            SideEffect::Observe(about, observation) => self.probes.observe(at, about, observation),
            SideEffect::Waking(task, waker) => self.probes.waking(at, cpu, task, waker),
        }
        0
    }
}

impl<const EXPLAIN: bool, K: Core> World<EXPLAIN, K> {
    /// The time of the next side effect of a script has come.
    pub(super) fn script_goes_on(&mut self, cpu: Cpu) -> Run<()> {
        self.out.executing = cpu;
        match self.out.scripts[cpu].resume.take() {
            Some(stage) => self.resume(cpu, stage),
            None => Ok(()),
        }
    }
}
