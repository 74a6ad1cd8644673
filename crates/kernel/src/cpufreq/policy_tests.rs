//! Frequency governors on a kernel with one CPU.

use super::*;
use crate::TaskId;
use crate::cpufreq::PStates;
use crate::platform::{Access, Draw, Ipi, Line, Observation, Op, Timer};
use crate::rules::{Rules, Version};
use crate::task::TaskAttributes;
use crate::topology::Topology;

const MS: Ns = 1_000_000;
const CLIENT: PStates = PStates::new(16, 33, 37, 100_000);

/// One CPU that executes at what it asked for, and a tick timer.
struct OneCpu {
    now: Ns,
    tick_at: Option<Ns>,
    pstate: u32,
    counters: Counters,
    requests: Vec<(Ns, u32)>,
}

impl OneCpu {
    fn pass(&mut self, until: Ns, awake: bool) {
        let us = (until - self.now) / 1000;
        self.now = until;
        self.counters.tsc += us * 3300;
        if awake {
            self.counters.mperf += us * 3300;
            self.counters.aperf += us * u64::from(self.pstate) * 100;
        }
    }
}

impl Platform for OneCpu {
    fn now(&self, _: Cpu) -> Ns {
        self.now
    }
    fn spend(&mut self, _: Cpu, _: Op, _: u32) {}
    fn touch(&mut self, _: Cpu, _: Line, _: Access) {}
    fn arm(&mut self, _: Cpu, _: Timer, at: Ns) {
        self.tick_at = Some(at);
    }
    fn cancel(&mut self, _: Cpu, _: Timer) {
        self.tick_at = None;
    }
    fn send_ipi(&mut self, _: Cpu, _: Cpu, _: Ipi, _: bool) {}
    fn random(&mut self, _: Draw) -> u64 {
        0
    }
    fn next_timer(&self, _: Cpu) -> Ns {
        Ns::MAX
    }
    fn observe(&mut self, _: Cpu, _: Observation) {}
    fn counters(&mut self, _: Cpu) -> Counters {
        self.counters
    }
    fn request_pstate(&mut self, _: Cpu, pstate: u32) {
        self.pstate = pstate;
        self.requests.push((self.now, pstate));
    }
}

fn world(
    version: Version,
    governor: FrequencyGovernor,
    change: impl FnOnce(&mut Rules),
) -> (Kernel, OneCpu, TaskId) {
    let mut rules = Rules::of(version, 1, 250);
    change(&mut rules);
    let mut kernel = Kernel::new(Topology::flat(1), rules);
    let mut p = OneCpu {
        now: 0,
        tick_at: None,
        pstate: 0,
        counters: Counters::default(),
        requests: Vec::new(),
    };
    let driver = FrequencyDriver {
        pstates: CLIENT,
        governor,
        policy_of: vec![0],
        tables: Vec::new(),
        transition_latency_ns: 10_000,
        transition_delay_ns: None,
        aperf_mperf: true,
    };
    kernel.register_frequency_driver(&mut p, driver);
    let task = kernel.task_create(TaskAttributes::on(Cpu(0)));
    kernel.wake_up_new_task(&mut p, Cpu(0), task);
    kernel.leave_kernel(&mut p, Cpu(0));
    (kernel, p, task)
}

/// Lets the task run, with ticks, until `until`.
fn run_until(kernel: &mut Kernel, p: &mut OneCpu, until: Ns) {
    while let Some(at) = p.tick_at.filter(|&at| at <= until) {
        p.pass(at, true);
        kernel.tick(p, Cpu(0));
        kernel.leave_kernel(p, Cpu(0));
    }
    p.pass(until, true);
}

/// Blocks the task and wakes it `span` later.
fn sleep(kernel: &mut Kernel, p: &mut OneCpu, task: TaskId, span: Ns) {
    kernel.block(p, Cpu(0));
    kernel.leave_kernel(p, Cpu(0));
    let until = p.now + span;
    p.pass(until, false);
    kernel.idle_woken(Cpu(0), until, false);
    let flags = crate::WakeFlags::new(false, crate::Context::HardIrq);
    kernel.wake(p, Cpu(0), task, flags);
    kernel.leave_kernel(p, Cpu(0));
}

#[test]
fn the_deferrable_timer_of_4_5_waits_for_a_tick() {
    let lowest_after_sleep = |holdoff| {
        let (mut kernel, mut p, task) = world(
            Version::new(4, 5),
            FrequencyGovernor::IntelPstate,
            |rules| {
                rules.pstate_holdoff_samples = holdoff;
            },
        );
        // Sampled every third tick (10 ms are 2.5 jiffies), one step each, the first at 4 ms.
        run_until(&mut kernel, &mut p, 300 * MS);
        let climb: Vec<(Ns, u32)> = p.requests[1..4]
            .iter()
            .map(|&(at, pstate)| (at / MS, pstate))
            .collect();
        assert_eq!(climb, [(16, 17), (28, 18), (40, 19)]);
        assert_eq!(p.pstate, 37);
        sleep(&mut kernel, &mut p, task, 31 * MS);
        let woken = p.now;
        run_until(&mut kernel, &mut p, woken + 8 * MS);
        p.pstate
    };
    // The sample spans from 292 to 332 ms: 40 ms, ratio 64/256.
    // aperf/mperf is 37/33; 25563 · 64/256 = 6390; (24832 − 6390) · 51/256 = 3673; 14.
    assert_eq!(lowest_after_sleep(3), 37 - 14);
    assert_eq!(lowest_after_sleep(12), 37);
}

#[test]
fn schedutil_ramps_from_idle_to_the_maximum() {
    let (mut kernel, mut p, _) = world(Version::new(6, 1), FrequencyGovernor::Schedutil, |_| {});
    run_until(&mut kernel, &mut p, 400 * MS);
    // A new task is given half of what is free, 512: 1.25 · 37 · ½ = 23.1, so 24 at once. Then the
    // load tracking clock runs at 24/37 (the first tick measures that before it moves the clock
    // on), every third tick is 10 ms after the last change, and utilisation closes in on 1024 by
    // 2 % each of its milliseconds: after 12 · 24/37 = 7.8 ms it is 1024 − 512 · ½^(7.8/32) = 591,
    // hence 27.
    let steps: Vec<(Ns, u32)> = p
        .requests
        .iter()
        .map(|&(at, pstate)| (at / MS, pstate))
        .collect();
    let expected = [
        (0, 16),
        (0, 24),
        (12, 27),
        (24, 30),
        (36, 33),
        (48, 36),
        (60, 37),
    ];
    assert_eq!(steps, expected);
}

#[test]
fn what_a_sleeper_leaves_behind_lowers_the_clock_when_it_is_aged() {
    let (mut kernel, mut p, _) = world(Version::new(6, 1), FrequencyGovernor::Schedutil, |_| {});
    run_until(&mut kernel, &mut p, 400 * MS);
    kernel.block(&mut p, Cpu(0));
    kernel.leave_kernel(&mut p, Cpu(0));
    assert_eq!(p.pstate, 37);
    p.pass(464 * MS, false);
    // Two half-lives: 1024 / 4 = 256, 1.25 · 37 · ¼ = 11.6, below the lowest.
    kernel.update_blocked_averages(&mut p, Cpu(0));
    assert_eq!(p.requests.last(), Some(&(464 * MS, 16)));
}

#[test]
fn fixed_governors_ask_once() {
    for (governor, pstate) in [
        (FrequencyGovernor::Performance, 37),
        (FrequencyGovernor::Powersave, 16),
        (FrequencyGovernor::Userspace(2_000_000), 20),
    ] {
        let (mut kernel, mut p, _) = world(Version::new(6, 1), governor, |_| {});
        run_until(&mut kernel, &mut p, 100 * MS);
        assert_eq!(p.requests, [(0, pstate)]);
    }
}

#[test]
fn ondemand_jumps_to_the_maximum_and_falls_with_the_load() {
    let (mut kernel, mut p, task) = world(Version::new(6, 1), FrequencyGovernor::Ondemand, |_| {});
    run_until(&mut kernel, &mut p, 50 * MS);
    assert_eq!(p.pstate, 37);
    // 2 ms of work, 2 ms of sleep: about half of the range, 16 + 21/2.
    for _ in 0..50 {
        sleep(&mut kernel, &mut p, task, 2 * MS);
        let until = p.now + 2 * MS;
        run_until(&mut kernel, &mut p, until);
    }
    assert!((20..=33).contains(&p.pstate), "{}", p.pstate);
}

#[test]
fn idle_time_without_io_is_counted() {
    let (mut kernel, mut p, task) = world(Version::new(6, 1), FrequencyGovernor::Ondemand, |_| {});
    run_until(&mut kernel, &mut p, 10 * MS);
    sleep(&mut kernel, &mut p, task, 7 * MS);
    assert_eq!(kernel.cpu_idle_time(Cpu(0), p.now), 7 * MS);
    kernel.tasks[task].in_iowait = true;
    sleep(&mut kernel, &mut p, task, 5 * MS);
    kernel.tasks[task].in_iowait = false;
    assert_eq!(kernel.cpu_idle_time(Cpu(0), p.now), 7 * MS);
}
