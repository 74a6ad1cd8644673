//! From a scheduler that has just booted to one of a machine that has been idle for long.
//!
//! Tasks that run while a kernel boots leave load behind, and CPUs that never ran a task have never
//! balanced. A simulated world begins without such traces. Worked example with two CPUs: each runs
//! a task for two ticks, then CPU 0 runs one for 1.5 s, in which its ticks let the load of CPU 1
//! decay; all of this twice. Loads and times left then are reset (`sc_forget_past`).

use crate::calls::comm;
use crate::world::{Call, Event, NewTask, World, WorldError};
use std::collections::VecDeque;

/// Averages of the C are aligned to multiples of this time (a PELT period of 1024 times 1024 ns),
/// and so are those of the rules, whose time begins with the world.
const PELT_PERIOD_NS: u64 = 1 << 20;

/// Longer than PELT takes to forget a load of 1024, at half of it in 32 ms.
const FORGETTING_NS: u64 = 1_500_000_000;

struct Driver<'a> {
    tree: &'a mut World,
    now: u64,
    tick_ns: u64,
    ticks: Vec<u64>,
    interrupts: VecDeque<(usize, Call)>,
}

/// Lets time pass in a booted tree; returns when it ends, with a tick.
///
/// # Errors
/// When the tree's scheduler stops.
pub(crate) fn warm_up(tree: &mut World, cpus: usize, tick_ns: u64) -> Result<u64, WorldError> {
    let mut driver = Driver {
        tree,
        now: 0,
        tick_ns,
        ticks: vec![u64::MAX; cpus],
        interrupts: VecDeque::new(),
    };
    // Some trees stop the ticks of idle CPUs after a first one.
    for cpu in 0..cpus {
        if driver.tree.tick_runs(cpu) {
            driver.run(cpu, Call::Tick, &[])?;
        }
    }
    let turns = (0..cpus).map(|cpu| (cpu, 2 * tick_ns));
    let turns = turns.chain([(0, FORGETTING_NS)]);
    for (cpu, span_ns) in turns.clone().chain(turns) {
        driver.advance(driver.now + tick_ns + tick_ns / 3)?;
        let task = driver.tree.task_new(&NewTask {
            group: 0,
            kthread: 0,
            policy: 0,
            nice: 0,
            priority: 0,
            slice_ns: 0,
            cpus: 1 << cpu,
            cpu: cpu as i32,
            now: driver.now,
            parent: -1,
            asleep: 0,
            process: 0,
            util_min: -1,
            util_max: -1,
            name: comm("warm-up"),
        });
        driver.run(cpu, Call::Start, &[i64::from(task)])?;
        driver.advance(driver.now + span_ns)?;
        driver.run(cpu, Call::Exit, &[])?;
    }
    let end =
        (driver.now + 50 * tick_ns).next_multiple_of(common_multiple(tick_ns, PELT_PERIOD_NS));
    driver.advance(end)?;
    driver.tree.forget_past(end);
    Ok(end)
}

/// Least common multiple.
fn common_multiple(a: u64, b: u64) -> u64 {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor * b
}

impl Driver<'_> {
    fn run(&mut self, cpu: usize, call: Call, arguments: &[i64]) -> Result<(), WorldError> {
        self.execute(cpu, call, arguments)?;
        while let Some((cpu, call)) = self.interrupts.pop_front() {
            self.execute(cpu, call, &[])?;
        }
        Ok(())
    }

    fn execute(&mut self, cpu: usize, call: Call, arguments: &[i64]) -> Result<(), WorldError> {
        self.tree.run(cpu, self.now, call, arguments)?;
        for event in self.tree.events() {
            match event {
                Event::Interrupt(cpu, call) if !self.interrupts.contains(&(cpu, call)) => {
                    self.interrupts.push_back((cpu, call));
                }
                Event::Tick(cpu, true) => {
                    self.ticks[cpu] = (self.now / self.tick_ns + 1) * self.tick_ns;
                }
                Event::Tick(cpu, false) => self.ticks[cpu] = u64::MAX,
                _ => {}
            }
        }
        Ok(())
    }

    fn advance(&mut self, end: u64) -> Result<(), WorldError> {
        loop {
            let devices = (0..self.ticks.len()).map(|cpu| (self.tree.timer(cpu), cpu, false));
            let ticks = self.ticks.iter().enumerate();
            let ticks = ticks.map(|(cpu, at)| (*at, cpu, true));
            let next = devices.chain(ticks).min();
            let Some((at, cpu, tick)) = next.filter(|(at, ..)| *at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            if tick {
                self.ticks[cpu] += self.tick_ns;
                self.run(cpu, Call::Tick, &[])?;
            } else {
                self.tree.timer_fired(cpu);
                self.run(cpu, Call::Timer, &[])?;
            }
        }
        self.now = end;
        Ok(())
    }
}
