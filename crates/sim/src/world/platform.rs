//! The outside as the kernel sees it.

use super::explain::Explained;
use super::outside::{Outside, class};
use super::script::SideEffect;
use crate::random;
use crate::timers::TimerId;
use crate::wheel::Key;
use schedcast_kernel::cpufreq::{Counters, HwpRequest};
use schedcast_kernel::explain::Decision;
use schedcast_kernel::platform::{Access, Draw, Ipi, Line, Observation, Op, Timer};
use schedcast_kernel::{Cpu, Ns, Platform, TaskId};

/// Number of a group's period timer; its slack timer is the next.
fn period_timer(group: schedcast_kernel::GroupId) -> TimerId {
    TimerId(group.0 * 2)
}

fn slack_timer(group: schedcast_kernel::GroupId) -> TimerId {
    TimerId(group.0 * 2 + 1)
}

/// The period timer of the real-time class: the root group, whose numbers these are, has no limit.
pub(super) const RT_PERIOD: TimerId = TimerId(0);

impl<const EXPLAIN: bool> Platform for Outside<EXPLAIN> {
    const EXPLAIN: bool = EXPLAIN;

    #[inline(always)]
    fn now(&self, cpu: Cpu) -> Ns {
        self.own_clock(cpu)
    }

    #[inline(always)]
    fn spend(&mut self, cpu: Cpu, op: Op, count: u32) {
        // Each is rounded by itself, so that it does not matter how many are charged at once.
        let each_ns = self.scaled(cpu, self.machine.price_ns(op));
        self.pay(cpu, op, each_ns * Ns::from(count), count);
    }

    #[inline(always)]
    fn spin_until(&mut self, cpu: Cpu, until: Ns) {
        let at = self.own_clock(cpu);
        if until > at {
            let state = &mut self.cpus[cpu];
            state.cursor = until;
            state.time.overhead_ns += until - at;
            // Waits for the lock of a queue, and for the end of a switch, are counted with the
            // interrupts that are sent under it.
            self.probes.machine.overhead_ns[Op::IpiSend as usize] += until - at;
        }
    }

    #[inline(always)]
    fn touch(&mut self, cpu: Cpu, line: Line, access: Access) {
        self.want_line(cpu, line, access);
    }

    #[inline(always)]
    fn arm(&mut self, cpu: Cpu, timer: Timer, at: Ns) {
        match timer {
            Timer::Tick(of) => {
                let state = &mut self.cpus[of];
                state.tick_at = at;
                state.tick_order = self.timers.next_order();
                self.program_device(of);
            }
            Timer::BandwidthPeriod(group) => self.arm_timer(cpu, period_timer(group), at, 0),
            Timer::BandwidthSlack(group) => self.arm_timer(cpu, slack_timer(group), at, 0),
            Timer::RtPeriod => self.arm_timer(cpu, RT_PERIOD, at, 0),
            Timer::FairServer(of) => self.arm_timer(cpu, self.fair_server_timer(of), at, 0),
            Timer::FairServerInactive(of) => {
                self.arm_timer(cpu, self.fair_server_inactive_timer(of), at, 0);
            }
            Timer::Hrtick(of) => self.move_lazily(of, self.hrtick_timer(of), Some(at)),
            Timer::Deadline(task) => self.arm_timer(cpu, self.deadline_timer(task, false), at, 0),
            Timer::Inactive(task) => self.arm_timer(cpu, self.deadline_timer(task, true), at, 0),
        }
    }

    /// Programs the device of another CPU anew, too; the kernel leaves that to its next interrupt
    /// (`remove_hrtimer`).
    #[inline(always)]
    fn cancel(&mut self, _: Cpu, timer: Timer) {
        match timer {
            Timer::Tick(of) => {
                self.cpus[of].tick_at = Ns::MAX;
                self.program_device(of);
            }
            Timer::BandwidthPeriod(group) => self.cancel_timer(period_timer(group)),
            Timer::BandwidthSlack(group) => self.cancel_timer(slack_timer(group)),
            Timer::RtPeriod => self.cancel_timer(RT_PERIOD),
            Timer::FairServer(of) => self.cancel_timer(self.fair_server_timer(of)),
            Timer::FairServerInactive(of) => {
                self.cancel_timer(self.fair_server_inactive_timer(of));
            }
            Timer::Hrtick(of) => self.move_lazily(of, self.hrtick_timer(of), None),
            Timer::Deadline(task) => self.cancel_timer(self.deadline_timer(task, false)),
            Timer::Inactive(task) => self.cancel_timer(self.deadline_timer(task, true)),
        }
    }

    #[inline]
    fn send_ipi(&mut self, from: Cpu, to: Cpu, ipi: Ipi, polling: bool) {
        if self.is_recording(from) {
            self.record(from, SideEffect::Ipi(to, ipi, polling));
        } else {
            self.deliver_ipi(self.clock(from), to, ipi, polling);
        }
    }

    fn random(&mut self, draw: Draw) -> u64 {
        match draw {
            Draw::BandwidthPhase(group) => {
                let entity = random::name_hash(self.group_path(group));
                random::draw(&mut random::stream(self.seed, entity, PHASE))
            }
            Draw::NewidleDice(cpu) => random::draw(&mut self.newidle_dice[cpu.index()]),
        }
    }

    #[inline]
    fn next_timer(&self, cpu: Cpu) -> Ns {
        self.timers.first(cpu).map_or(Ns::MAX, |armed| armed.hard)
    }

    fn next_expiry(&self, cpu: Cpu) -> Ns {
        Outside::next_expiry(self, cpu)
    }

    #[inline]
    fn enter_idle(&mut self, cpu: Cpu, state: usize, poll_limit_ns: Option<Ns>) {
        let cpu = &mut self.cpus[cpu];
        cpu.idle_row = state;
        cpu.poll_limit_ns = poll_limit_ns;
    }

    fn counters(&mut self, cpu: Cpu) -> Counters {
        self.hardware.counters(cpu, self.now)
    }

    fn request_pstate(&mut self, cpu: Cpu, pstate: u32) {
        self.ask_for_pstate(cpu, pstate);
    }

    fn request_performance(&mut self, cpu: Cpu, request: HwpRequest) {
        self.ask_for_performance(cpu, request);
    }

    #[inline]
    fn explain(&mut self, cpu: Cpu, decision: Decision) {
        if EXPLAIN {
            let time_ns = self.clock(self.executing);
            self.decisions.push(Explained {
                time_ns,
                cpu,
                decision,
            });
        }
    }

    #[inline(always)]
    fn observe(&mut self, cpu: Cpu, observation: Observation) {
        // It happens when the CPU that executes the operation gets there, whatever CPU it is about.
        let executing = self.executing;
        if self.is_recording(executing) {
            self.record(executing, SideEffect::Observe(cpu, observation));
        } else {
            self.probes.observe(self.clock(executing), cpu, observation);
        }
    }
}

impl<const EXPLAIN: bool> Outside<EXPLAIN> {
    /// The clock of a CPU that executes: where it was entered, its cursor caught up with the event
    /// being handled.
    #[inline(always)]
    fn own_clock(&self, cpu: Cpu) -> Ns {
        let cursor = self.cpus[cpu].cursor;
        debug_assert!(cursor >= self.now, "it was not entered");
        cursor
    }

    /// A CPU is busy for `price_ns` at nominal speed with so many operations of a kind.
    #[inline]
    pub(super) fn charge(&mut self, cpu: Cpu, op: Op, price_ns: Ns, count: u32) {
        self.pay(cpu, op, self.scaled(cpu, price_ns), count);
    }

    /// A price at the speed of a CPU.
    #[inline(always)]
    fn scaled(&self, cpu: Cpu, price_ns: Ns) -> Ns {
        (price_ns * self.cpus[cpu].price_scale) >> 16
    }

    #[inline(always)]
    fn pay(&mut self, cpu: Cpu, op: Op, price_ns: Ns, count: u32) {
        let at = self.own_clock(cpu);
        let state = &mut self.cpus[cpu];
        state.cursor = at + price_ns;
        state.time.overhead_ns += price_ns;
        let statistics = &mut self.probes.machine;
        statistics.overhead_ns[op as usize] += price_ns;
        statistics.operations[op as usize] += u64::from(count);
    }

    /// A task comes back from a call, if it is in one.
    #[inline(always)]
    pub(super) fn leave_call(&mut self, cpu: Cpu, task: TaskId) {
        if std::mem::take(&mut self.tasks.contexts[task].in_call) {
            self.charge(cpu, Op::Syscall, self.machine.syscall_exit_ns, 0);
        }
    }

    /// An interrupt has left at `at`. A CPU that runs a task stands still before it gets there;
    /// that time may have begun while the sender still sent.
    #[inline]
    pub(super) fn deliver_ipi(&mut self, at: Ns, to: Cpu, ipi: Ipi, polling: bool) {
        let state = &mut self.cpus[to];
        let arrival = if polling {
            state.poked = true;
            at + self.machine.polling_wakeup_ns
        } else if state.running.is_some() {
            let there = at + self.machine.ipi_delivery_ns;
            self.now
                .max(there.saturating_sub(self.machine.ipi_stall_ns))
        } else {
            at + self.machine.ipi_delivery_ns + self.machine.ipi_to_idle_ns
        };
        let key = Key::new(arrival, class::IPI);
        let slot = Self::ipi_slot(to, ipi);
        // One that is on its way already serves both.
        if self.wheel.armed(slot).is_none_or(|armed| armed > key) {
            self.wheel.arm(slot, key);
        }
    }
}

/// Purposes of kernel draws; tasks number theirs from 0.
pub(super) const PHASE: u64 = 1 << 32;
pub(super) const NEWIDLE: u64 = PHASE + 1;
pub(super) const ARRIVALS: u64 = PHASE + 2;
pub(super) const TIMER_LATENESS: u64 = PHASE + 3;
pub(super) const TIMER_OFFSET: u64 = PHASE + 4;
