//! The hardware in the event loop: waking and falling asleep, clocks, speeds.
//!
//! Worked example: CPU 3 finishes its last kernel operation at 5,200 ns and has nothing to run. It
//! falls asleep at 5,200, as an event of its own, so that its sibling speeds up then and not
//! earlier. An interrupt at 9,000 finds it in C6 with 85 µs to leave: it counts as executing from
//! 9,000 on, but its first instruction comes at 94,000.

use super::engine::{Flow, Run};
use super::outside::{Outside, Source, class, per_cpu};
use super::{Core, World};
use crate::events::TraceKind;
use crate::hardware::{ClockEvent, HardwareReport};
use crate::machine::Machine;
use crate::machine::parts::{Driver, Frequency, Governor, IdleGovernor, WakesBy};
use crate::segment::{SPEED_NOMINAL, Segment};
use crate::wheel::{Key, Slot};
use schedcast_kernel::cpufreq::{
    FrequencyDriver, FrequencyGovernor, HwpRequest, OperatingPoint, PStates,
};
use schedcast_kernel::cpuidle::{GovernorKind, IdleState, haltpoll};
use schedcast_kernel::energy::{self, Off};
use schedcast_kernel::rules::Rules;
use schedcast_kernel::{Cpu, Ns, TaskId};

/// Event slots of the hardware.
#[derive(Clone, Debug, Default)]
pub(super) struct HardwareSlots {
    transitions: Vec<Slot>,
    look: Option<Slot>,
    poll_limits: Vec<Slot>,
}

impl<const EXPLAIN: bool, K: Core> World<EXPLAIN, K> {
    /// Tells the kernel what the machine has, and prepares the hardware's events.
    pub(super) fn attach_hardware(&mut self) {
        let out = &mut self.out;
        if !out.hardware.on {
            return;
        }
        for clock in 0..out.hardware.clock_count() {
            let transition = out.add_source(Source::Transition(clock));
            out.hardware_slots.transitions.push(transition);
        }
        out.hardware_slots.look = Some(out.add_source(Source::Look));
        let machine = out.machine.clone();
        if let Some(idle) = &machine.idle {
            for cpu in (0..out.cpus.len()).map(Cpu::from) {
                let slot = out.add_source(Source::PollLimit(cpu));
                out.hardware_slots.poll_limits.push(slot);
                out.cpus[cpu].idle_row = idle.state.len() - 1;
            }
            let (states, kind) = idle_driver(&machine);
            self.kernel.register_idle_states(states, kind);
        }
        if let Some(part) = &machine.frequency {
            let driver = frequency_driver(part, &machine);
            self.kernel.register_frequency_driver(&mut self.out, driver);
        }
        for cpu in (0..self.out.cpus.len()).map(Cpu::from) {
            self.out.hardware.changed.push(cpu);
        }
        self.out.apply_hardware();
    }

    /// A CPU leaves its idle state because of an event that is being handled now.
    pub(super) fn leave_idle(&mut self, cpu: Cpu, class: u8) {
        let out = &mut self.out;
        let poked = out.cpus[cpu].poked;
        let mut exit_ns = if poked { 0 } else { out.machine.idle_exit_ns };
        if out.hardware.on {
            out.note_watched();
            let stay_ns = out.now.saturating_sub(out.cpus[cpu].idle_since);
            let percent = match class {
                class::DEVICE_TIMER => out.timer_exit_percent(cpu),
                _ => 100,
            };
            if let Some(of_state_ns) = out.hardware.wake(cpu, out.now, stay_ns) {
                exit_ns = of_state_ns * percent / 100;
            }
            if let Some(&slot) = out.hardware_slots.poll_limits.get(cpu.index()) {
                out.wheel.disarm(slot);
            }
            out.apply_hardware();
        }
        let state = &mut out.cpus[cpu];
        state.idle = false;
        state.time.idle_ns += out.now - state.idle_counted + exit_ns;
        state.cursor += exit_ns;
        state.awake_since = state.cursor;
        let at = state.cursor;
        self.kernel.idle_woken(cpu, at, false);
    }

    /// A CPU has nothing to run: it falls asleep once its last operation is over.
    pub(super) fn go_idle(&mut self, cpu: Cpu) {
        let out = &mut self.out;
        let state = &mut out.cpus[cpu];
        state.cursor = state.cursor.max(out.now);
        state.running = None;
        if !out.hardware.on {
            state.idle = true;
            state.idle_counted = state.cursor;
            return;
        }
        let key = Key::new(state.cursor, class::SEGMENT);
        if out.advance_to(key) {
            self.fall_asleep(cpu);
        } else {
            out.wheel.arm(<Outside>::slot(cpu, per_cpu::SEGMENT), key);
        }
    }

    /// The last operation is over.
    pub(super) fn fall_asleep(&mut self, cpu: Cpu) {
        let out = &mut self.out;
        let now = out.now;
        let state = &mut out.cpus[cpu];
        state.idle = true;
        state.idle_since = now;
        state.idle_counted = now;
        let row = state.idle_row;
        let limit = state.poll_limit_ns;
        out.note_watched();
        out.hardware.sleep(cpu, row, now);
        if out.machine.idle.is_some() {
            out.probes.show(now, cpu, TraceKind::Idle { state: row });
        }
        if let Some(limit_ns) = limit {
            let slot = out.hardware_slots.poll_limits[cpu.index()];
            out.wheel
                .arm(slot, Key::new(now + limit_ns, class::DEVICE_TIMER));
        }
        out.apply_hardware();
    }

    /// Polling reached its limit: once more round the idle loop.
    pub(super) fn poll_limit(&mut self, cpu: Cpu) -> Run<()> {
        let out = &mut self.out;
        let now = out.now;
        let state = &mut out.cpus[cpu];
        if !state.idle {
            return Ok(());
        }
        state.idle = false;
        state.time.idle_ns += now - state.idle_counted;
        state.cursor = now;
        out.executing = cpu;
        out.note_watched();
        out.hardware.wake(cpu, now, 0);
        out.apply_hardware();
        self.kernel.idle_woken(cpu, now, true);
        self.run(cpu, Flow::Entered)
    }

    /// Energy that all packages took so far, J; `None` when power is not modelled.
    pub fn package_joules(&mut self) -> Option<f64> {
        let out = &mut self.out;
        out.hardware.package_joules(out.now)
    }

    /// Report on the hardware since statistics count; everything is brought up to the present.
    pub fn hardware_report(&mut self) -> Option<HardwareReport> {
        let out = &mut self.out;
        if !out.hardware.on {
            return None;
        }
        out.hardware.settle(out.now);
        let states = out.machine.idle.iter().flat_map(|idle| &idle.state);
        let names: Vec<String> = states.map(|state| state.name.clone()).collect();
        let report = out.hardware.report(&out.hardware_baseline, &names, out.now);
        Some(report)
    }
}

impl<const EXPLAIN: bool> Outside<EXPLAIN> {
    /// How much of the time to leave its idle state a CPU takes that its own timer wakes now. One
    /// that is on its own way out does not execute yet.
    fn timer_exit_percent(&self, cpu: Cpu) -> u64 {
        let row = self.cpus[cpu].idle_row;
        let state = self
            .machine
            .idle
            .as_ref()
            .and_then(|idle| idle.state.get(row));
        let Some(percent) = state.and_then(|state| state.timer_exit_beside_busy_percent) else {
            return 100;
        };
        let others = self
            .cpus
            .iter()
            .enumerate()
            .filter(|(row, _)| *row != cpu.index());
        let busy = others
            .map(|(_, state)| state)
            .any(|state| !state.idle && state.awake_since <= self.now);
        if busy { u64::from(percent) } else { 100 }
    }

    /// Tells the hardware whether its clocks are shown.
    fn note_watched(&mut self) {
        self.hardware.watched = self.probes.trace.is_some();
    }

    /// Event slots of a hardware event.
    pub(super) fn hardware_event(&mut self, source: Source) {
        let now = self.now;
        match source {
            Source::Transition(clock) => self.hardware.transition_ends(clock, now),
            Source::Look => {
                let due = self.hardware.due_looks(now);
                for place in 0..due {
                    self.hardware.look_again(place, now);
                    self.apply_hardware();
                }
                self.hardware.end_looks(due);
            }
            _ => {}
        }
        self.apply_hardware();
    }

    /// Arms what the hardware wants armed and re-times what executes at another speed now.
    #[inline(always)]
    pub(super) fn apply_hardware(&mut self) {
        let hardware = &self.hardware;
        if !hardware.clock_events.is_empty() || !hardware.changed.is_empty() {
            self.apply_changes();
        }
    }

    fn apply_changes(&mut self) {
        while let Some(event) = self.hardware.clock_events.pop() {
            let (slot, at) = match event {
                ClockEvent::Transition(clock, at) => {
                    (Some(self.hardware_slots.transitions[clock]), at)
                }
                ClockEvent::Look(at) => (self.hardware_slots.look, at),
            };
            if let Some(slot) = slot {
                self.wheel.arm(slot, Key::new(at, class::CHANGE));
            }
        }
        while let Some(cpu) = self.hardware.changed.pop() {
            if let (Some(mhz), true) = (self.hardware.mhz(cpu), self.probes.trace.is_some()) {
                self.probes
                    .show(self.now, cpu, TraceKind::Frequency { mhz });
            }
            let speed = self.hardware.speed(cpu);
            if speed != self.cpus[cpu].warm_speed {
                self.set_speed(cpu, speed);
            }
        }
    }

    /// Changes how fast a CPU executes, in 65536ths of nominal speed; what it executes is re-timed.
    pub(super) fn set_speed(&mut self, cpu: Cpu, speed: u32) {
        self.execute(cpu);
        let state = &mut self.cpus[cpu];
        state.warm_speed = speed.max(1);
        state.price_scale = price_scale(state.warm_speed);
        self.retime(cpu);
    }

    /// Continues the accounted segment at the speed that clock and caches now allow.
    fn retime(&mut self, cpu: Cpu) {
        let at = self.clock(cpu);
        let state = &mut self.cpus[cpu];
        let percent = match &self.machine.migration {
            Some(part) if state.cold => u64::from(part.cold_speed_percent),
            _ => 100,
        };
        let speed = u64::from(state.warm_speed) * percent / 100;
        state.speed = u32::try_from(speed).unwrap_or(u32::MAX).max(1);
        let Some(task) = state.running else { return };
        // A segment that has not begun yet (the cursor is ahead) begins at the new speed.
        let begin = state.started.max(at);
        let slot = <Outside>::slot(cpu, per_cpu::SEGMENT);
        if self.wheel.armed(slot).is_some() {
            let end = begin + self.time_to_end(cpu, task, begin);
            self.wheel.arm(slot, Key::new(end, class::SEGMENT));
        }
    }

    /// Accounts what a CPU executed up to now.
    #[inline(always)]
    pub(super) fn execute(&mut self, cpu: Cpu) {
        let state = &mut self.cpus[cpu];
        let Some(task) = state.running else { return };
        let context = &mut self.tasks.contexts[task];
        if let Segment::Kernel { .. } = context.segment {
            return self.execute_in_kernel(cpu, task);
        }
        let elapsed = self.now.saturating_sub(state.started);
        state.started += elapsed;
        state.time.user_ns += elapsed;
        context.segment.advance(elapsed, state.speed);
        if state.cold {
            let worked = elapsed.saturating_mul(u64::from(state.speed));
            context.cold_left = context.cold_left.saturating_sub(worked);
        }
    }

    /// Work in kernel mode that has begun is not disturbed: the CPU is busy until it is over.
    #[inline(never)]
    fn execute_in_kernel(&mut self, cpu: Cpu, task: TaskId) {
        let slot = <Outside>::slot(cpu, per_cpu::SEGMENT);
        let state = &mut self.cpus[cpu];
        if self.now <= state.started || self.wheel.armed(slot).is_none() {
            return;
        }
        let work = std::mem::take(&mut self.tasks.contexts[task].segment);
        let wall_ns = work.time_to_end(state.started, state.speed);
        state.time.user_ns += wall_ns;
        state.started += wall_ns;
        state.cursor = state.started;
    }

    /// Time until the running task's segment ends, or its caches are warm.
    #[inline(always)]
    pub(super) fn time_to_end(&self, cpu: Cpu, task: TaskId, from: Ns) -> Ns {
        // Most often the next system call is due, warm caches or not.
        if self.tasks.contexts[task].segment == Segment::None {
            return 0;
        }
        self.time_to_execute(cpu, task, from)
    }

    fn time_to_execute(&self, cpu: Cpu, task: TaskId, from: Ns) -> Ns {
        let context = &self.tasks.contexts[task];
        let state = &self.cpus[cpu];
        let end = context.segment.time_to_end(from, state.speed);
        if state.cold && !context.segment.is_in_kernel() {
            end.min(context.cold_left.div_ceil(u64::from(state.speed)))
        } else {
            end
        }
    }

    /// A task begins to execute on a CPU: how cold are its caches there?
    pub(super) fn temper(&mut self, cpu: Cpu, task: TaskId) {
        let Some(part) = &self.machine.migration else {
            return;
        };
        let context = &mut self.tasks.contexts[task];
        let last = context.last_cpu.replace(cpu);
        if let Some(last) = last.filter(|&last| last != cpu) {
            let places = &self.machine.topology.places;
            let (from, to) = (&places[last.index()], &places[cpu.index()]);
            let refill_ns = if from.core == to.core {
                part.same_core_refill_ns
            } else if from.llc == to.llc {
                part.same_llc_refill_ns
            } else if from.node == to.node {
                part.other_llc_refill_ns
            } else {
                part.other_node_refill_ns
            };
            context.cold_left = part.cold_work_ns(refill_ns) * u64::from(SPEED_NOMINAL);
        }
        let cold = context.cold_left > 0;
        self.set_cold(cpu, cold);
    }

    /// Sets whether a CPU executes with cold caches.
    pub(super) fn set_cold(&mut self, cpu: Cpu, cold: bool) {
        if self.cpus[cpu].cold != cold {
            self.execute(cpu);
            self.cpus[cpu].cold = cold;
            self.retime(cpu);
        }
    }

    /// A segment with cold caches is due: `true` when it is over, otherwise the caches are warm.
    #[inline(always)]
    pub(super) fn cold_segment_ends(&mut self, cpu: Cpu, task: TaskId) -> bool {
        let context = &self.tasks.contexts[task];
        // A system call: no work was done since the last one.
        let unchanged = context.segment == Segment::None && context.cold_left > 0;
        unchanged || context.segment.is_in_kernel() || self.cold_work_ends(cpu, task)
    }

    #[inline(never)]
    fn cold_work_ends(&mut self, cpu: Cpu, task: TaskId) -> bool {
        self.execute(cpu);
        let now = self.now;
        let state = &mut self.cpus[cpu];
        state.cursor = state.cursor.max(now);
        let context = &self.tasks.contexts[task];
        let over = context.segment.time_to_end(now, state.speed) == 0;
        if context.cold_left == 0 {
            self.set_cold(cpu, false);
        }
        over
    }

    /// `request_pstate` of the platform.
    pub(super) fn ask_for_pstate(&mut self, cpu: Cpu, pstate: u32) {
        let event = self.hardware.request_pstate(cpu, pstate, self.now);
        self.hardware.clock_events.extend(event);
        self.apply_hardware();
    }

    /// `request_performance` of the platform.
    pub(super) fn ask_for_performance(&mut self, cpu: Cpu, request: HwpRequest) {
        self.hardware.request_performance(cpu, request);
    }
}

/// Factor of prices on a CPU of this speed, in 65536ths.
pub(super) fn price_scale(speed: u32) -> u64 {
    u64::from(SPEED_NOMINAL) * u64::from(SPEED_NOMINAL) / u64::from(speed)
}

impl Machine {
    /// Whether a kernel places tasks by energy on this machine, and the reason where it does not.
    ///
    /// # Errors
    /// The first condition of the kernel that does not hold.
    pub fn places_by_energy(&self, rules: &Rules) -> Result<(), Off> {
        let driver = self
            .frequency
            .as_ref()
            .map(|part| frequency_driver(part, self));
        energy::is_possible(rules, &self.topology, driver.as_ref())
    }
}

fn idle_driver(machine: &Machine) -> (Vec<IdleState>, GovernorKind) {
    let Some(idle) = &machine.idle else {
        return (Vec::new(), GovernorKind::Menu);
    };
    let states = idle.state.iter().map(|state| IdleState {
        exit_latency_ns: state.exit_latency_ns,
        target_residency_ns: state.target_residency_ns,
        polling: state.wakes_by == WakesBy::Polling,
        monitor: state.wakes_by == WakesBy::Monitor,
    });
    let kind = match idle.governor {
        IdleGovernor::Menu => GovernorKind::Menu,
        IdleGovernor::Teo => GovernorKind::Teo,
        IdleGovernor::Haltpoll => GovernorKind::Haltpoll {
            most_ns: idle.guest_halt_poll_ns.unwrap_or(haltpoll::MOST_NS),
        },
    };
    (states.collect(), kind)
}

fn frequency_driver(part: &Frequency, machine: &Machine) -> FrequencyDriver {
    let places = machine.topology.places.iter().enumerate();
    let policy_of = places.map(|(row, place)| match part.domain {
        _ if !part.policy_per_domain => row as u32,
        crate::machine::parts::ClockDomain::Table => part.table_of(row) as u32,
        crate::machine::parts::ClockDomain::Core => place.core,
        crate::machine::parts::ClockDomain::Cluster => place.cluster,
        crate::machine::parts::ClockDomain::Package => place.socket,
    });
    let tables = part.table.iter().map(|table| {
        let powers = table.cpu_uw.iter().copied().chain(std::iter::repeat(0));
        let points = table
            .mhz
            .iter()
            .zip(powers)
            .map(|(&mhz, uw)| OperatingPoint {
                khz: u64::from(mhz) * 1000,
                uw,
            });
        points.collect()
    });
    let pstate = |mhz: u32| mhz.checked_div(part.step_mhz).unwrap_or(0);
    FrequencyDriver {
        tables: tables.collect(),
        pstates: PStates {
            min: pstate(part.min_mhz),
            base: pstate(part.base_mhz),
            turbo: pstate(part.turbo_mhz),
            step_khz: part.step_mhz * 1000,
        },
        governor: frequency_governor(part),
        policy_of: policy_of.collect(),
        transition_latency_ns: part.announced_latency_ns,
        transition_delay_ns: part.transition_delay_ns,
        aperf_mperf: part.aperf_mperf,
    }
}

fn frequency_governor(part: &Frequency) -> FrequencyGovernor {
    if let Some(hwp) = &part.hwp {
        // Active mode with HWP: "performance" raises the minimum to the maximum by preference 0.
        let performance = part.governor == Governor::Performance;
        return FrequencyGovernor::Hwp {
            preference: if performance { 0 } else { hwp.preference },
            performance,
            dynamic_boost: hwp.dynamic_boost,
        };
    }
    match part.governor {
        Governor::Powersave if part.driver == Driver::IntelPstate => FrequencyGovernor::IntelPstate,
        Governor::Performance => FrequencyGovernor::Performance,
        Governor::Powersave => FrequencyGovernor::Powersave,
        Governor::Schedutil => FrequencyGovernor::Schedutil,
        Governor::Ondemand => FrequencyGovernor::Ondemand,
        Governor::Userspace => {
            FrequencyGovernor::Userspace(part.userspace_mhz.unwrap_or(part.min_mhz) * 1000)
        }
    }
}
