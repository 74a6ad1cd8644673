//! Mirror of the C for a simulated world: tables that follow what the C reports, and a platform
//! that hears it.

use crate::world::{Call, Chance, Event, Left, Lock, Told};
use schedcast_kernel::platform::{Draw, Ipi, Observation, Op, Platform, PrevState, Timer};
use schedcast_kernel::task::TaskState;
use schedcast_kernel::{Cpu, GroupId, Kernel, Ns, TaskId};

/// Mirror of the C's reports while it executes, in the form of the world.
#[derive(Debug)]
pub(crate) struct Mirror {
    pub tables: Kernel,
    /// Task of each number of the C.
    pub tasks: Vec<TaskId>,
    /// Interrupts on their way to each CPU.
    pub pending: Vec<Vec<Call>>,
    /// First expiry of the period timer of the group being made.
    pub phase_ns: Ns,
    /// Time of the C at the beginning of the world.
    pub uptime_ns: Ns,
    /// The tick of the CPU that executes is back and not armed yet.
    pub tick_to_restart: bool,
}

impl Mirror {
    pub(crate) fn hear<P: Platform>(&mut self, p: &mut P, here: Cpu, told: Told) -> u64 {
        match told {
            Told::Event(event) => self.note(p, here, event),
            Told::Timer(cpu, at, hrtick) => {
                let cpu = Cpu::from(cpu);
                let mut timers = [Timer::FairServer(cpu), Timer::Hrtick(cpu)];
                timers.rotate_left(usize::from(hrtick));
                // The one that is next first, so that the other is seen to be none of the first.
                match at {
                    Ns::MAX => p.cancel(here, timers[0]),
                    _ => p.arm(cpu, timers[0], at.saturating_sub(self.uptime_ns)),
                }
                p.cancel(here, timers[1]);
            }
            Told::Random(Chance::Period) => return self.phase_ns,
            Told::Random(Chance::Dice) => return p.random(Draw::NewidleDice(here)),
            Told::Random(Chance::Other) => return 0,
            Told::Spend(op, count) => p.spend(here, op, count),
            Told::Lock(what, cpu, task) => {
                let cpu = Cpu::from(cpu);
                self.tables.here = here;
                match what {
                    Lock::Take => self.tables.rq_lock(p, cpu),
                    Lock::GiveUp => self.tables.rq_unlock(p, cpu),
                    Lock::Retake => self.tables.rq_relock(p, cpu),
                    Lock::IsLeaving => {
                        let task = self.task(task);
                        return u64::from(self.tables.still_switched_away_from(p, task, cpu));
                    }
                    Lock::Await => {
                        if self
                            .tables
                            .still_switched_away_from(p, self.task(task), cpu)
                        {
                            p.spin_until(here, self.tables.rqs[cpu.index()].switched_at_ns);
                        }
                    }
                }
            }
        }
        p.now(here) + self.uptime_ns
    }

    /// The tick of a CPU is back. The rules restart it behind the switch from idle, when its price
    /// is charged.
    pub(crate) fn restart_tick<P: Platform>(&mut self, p: &mut P, here: Cpu) {
        if std::mem::take(&mut self.tick_to_restart) {
            p.spend(here, Op::TickReprogram, 1);
            let next = self.tables.next_tick(p.now(here));
            p.arm(here, Timer::Tick(here), next);
        }
    }

    fn note<P: Platform>(&mut self, p: &mut P, here: Cpu, event: Event) {
        match event {
            Event::Interrupt(to, call) => {
                let pending = &mut self.pending[to];
                if !pending.contains(&call) {
                    pending.push(call);
                }
                let to = Cpu::from(to);
                if to != here {
                    let kind = match call {
                        Call::Resched => Ipi::Resched,
                        _ => Ipi::Call,
                    };
                    p.spend(here, Op::IpiSend, 1);
                    if call == Call::Resched {
                        // Sent under the lock of the other queue.
                        self.tables.here = here;
                        self.tables.rq_unlock(p, to);
                    }
                    p.send_ipi(here, to, kind, false);
                }
            }
            Event::Tick(cpu, runs) => {
                let cpu = Cpu::from(cpu);
                self.tables.rqs[cpu.index()].tick_running = runs;
                if runs {
                    self.tick_to_restart = true;
                } else {
                    self.restart_tick(p, here);
                    p.cancel(cpu, Timer::Tick(cpu));
                    p.spend(here, Op::TickReprogram, 1);
                }
            }
            Event::Switch(cpu, from, to, left) => {
                let (prev, next) = (self.task(from), self.task(to));
                let tables = &mut self.tables;
                tables.rqs[cpu].curr = next;
                tables.tasks[prev.index()].on_cpu = false;
                tables.tasks[next.index()].on_cpu = true;
                tables.tasks[next.index()].cpu = Cpu::from(cpu);
                let state = match left {
                    Left::Runnable => PrevState::Runnable,
                    Left::Asleep => PrevState::Blocked,
                    Left::Dead => PrevState::Dead,
                    Left::Throttled => PrevState::Throttled,
                };
                let spaces = [prev, next].map(|task| tables.tasks[task.index()].address_space);
                p.observe(Cpu::from(cpu), Observation::Switch { prev, state, next });
                // Kernel threads borrow the address space of the previous task.
                let same = spaces[1].is_none() || spaces[0] == spaces[1];
                let switch = match same {
                    true => Op::ContextSwitchThread,
                    false => Op::ContextSwitch,
                };
                p.spend(here, switch, 1);
                let rq = &mut self.tables.rqs[cpu];
                rq.switched_from = prev;
                rq.switched_at_ns = p.now(here);
                self.tables.here = here;
                self.tables.rq_unlock(p, Cpu::from(cpu));
                self.restart_tick(p, here);
            }
            Event::Woken(task, cpu) => {
                let (task, cpu) = (self.task(task), Cpu::from(cpu));
                self.tables.tasks[task.index()].cpu = cpu;
                self.tables.tasks[task.index()].state = TaskState::Running;
                p.observe(cpu, Observation::Wakeup { task, cpu });
            }
            Event::Migrated(task, from, to) => {
                let (task, from, to) = (self.task(task), Cpu::from(from), Cpu::from(to));
                self.tables.tasks[task.index()].cpu = to;
                p.observe(here, Observation::Migrate { task, from, to });
            }
            Event::Placed(task, from, to) => p.observe(
                here,
                Observation::Place {
                    task: self.task(task),
                    waker: self.tables.current(here),
                    prev: Cpu::from(from),
                    cpu: Cpu::from(to),
                },
            ),
            Event::Throttled(group, cpu, on) => {
                let (group, cpu) = (GroupId(group as u32), Cpu::from(cpu));
                p.observe(
                    cpu,
                    match on {
                        true => Observation::Throttle { group, cpu },
                        false => Observation::Unthrottle { group, cpu },
                    },
                );
            }
        }
    }

    fn task(&self, pid: i32) -> TaskId {
        self.tasks[pid as usize]
    }
}
