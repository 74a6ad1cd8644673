//! The hardware between the scheduler and the clock on the wall: who is awake, how fast it
//! executes, what it draws.
//!
//! Everything here changes at the time of an event, so counters, residencies and energy are exact
//! sums of integers. Worked example: a core of two threads, `thread_speed_1000ths = [1000, 600]`,
//! 2 GHz of nominal 2 GHz. At 10 ms thread 0 executes alone: speed 1. At 14 ms thread 1 wakes: both
//! go on at 0.6, and a segment of thread 0 that would have ended at 20 ms ends at 24 ms. At 24 ms
//! its counters show 14 ms · 2000 MHz = 28 million cycles, whatever work they did.

mod clocks;
mod hwp;
mod intervals;
pub(crate) mod lateness;
pub(crate) mod lines;
pub(crate) mod power;
mod report;
mod sharing;
pub(crate) mod translations;

pub(crate) use clocks::ClockEvent;
pub use lines::{LineKind, LineStatistics};
pub(crate) use report::Baseline;
pub use report::{Columns, CpuReport, HardwareReport, Watts};

use crate::machine::Machine;
use crate::machine::parts::{ClockDomain, Frequency, IdleStatePart, Smt, WakesBy};
use crate::segment::SPEED_NOMINAL;
use clocks::Clocks;
use intervals::Intervals;
use power::Meter;
use schedcast_kernel::cpufreq::Counters;
use schedcast_kernel::table::Table;
use schedcast_kernel::topology::CpuPlace;
use schedcast_kernel::{Cpu, Ns};
use sharing::SharedCaches;

/// Activity of a hardware thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Activity {
    /// Executes instructions.
    Executing,
    /// Spins in its idle loop.
    Polling,
    /// In the idle state of this row.
    Asleep(u32),
}

impl Activity {
    #[inline(always)]
    fn is_awake(self) -> bool {
        !matches!(self, Activity::Asleep(_))
    }

    /// Row of the idle state it is in.
    #[inline(always)]
    fn idle_row(self) -> Option<usize> {
        match self {
            Activity::Asleep(row) => Some(row as usize),
            Activity::Polling | Activity::Executing => None,
        }
    }
}

/// A hardware thread.
#[derive(Clone, Debug)]
struct Thread {
    core: usize,
    package: usize,
    domain: usize,
    activity: Activity,
    /// Up to when its counters are brought.
    counted_ns: Ns,
    /// Time awake.
    awake_ns: Ns,
    /// Cycles awake, in MHz · ns.
    cycles: u64,
    /// Time in each idle state.
    residency_ns: Vec<Ns>,
    capacity: u32,
    /// Its clock, MHz; 1000 when clocks are not modelled.
    mhz: u32,
    /// Speed at this clock with the core for itself, [`SPEED_NOMINAL`] = nominal.
    clock_speed: u64,
}

impl Thread {
    /// Brings its counters to `now`.
    #[inline(always)]
    fn account(&mut self, now: Ns) {
        let elapsed = now.saturating_sub(self.counted_ns);
        self.counted_ns += elapsed;
        match self.activity {
            Activity::Asleep(state) => self.residency_ns[state as usize] += elapsed,
            Activity::Polling | Activity::Executing => {
                self.awake_ns += elapsed;
                let cycles = elapsed * u64::from(self.mhz);
                self.cycles = self.cycles.wrapping_add(cycles);
            }
        }
    }
}

/// Threads that share execution units.
#[derive(Clone, Debug, Default)]
struct Core {
    threads: Vec<usize>,
    /// Threads that execute or poll.
    awake: usize,
    polling: usize,
    /// The most executing threads that its speed tells apart; 0 = it does not matter how many do.
    told_apart: usize,
    /// [`Core::find_sharing`] of what its threads do now.
    sharing: usize,
}

impl Core {
    #[inline(always)]
    fn executing(&self) -> usize {
        self.awake - self.polling
    }

    /// Key of the speed of the core's threads: twice the threads that execute, at least one, and
    /// one more when any polls.
    fn find_sharing(&self) -> usize {
        if self.told_apart == 0 {
            return 0;
        }
        2 * self.executing().max(1).min(self.told_apart) + usize::from(self.polling > 0)
    }

    /// One of its threads does something else.
    #[inline(always)]
    fn count(&mut self, before: Activity, after: Activity) {
        self.awake = self.awake + usize::from(after.is_awake()) - usize::from(before.is_awake());
        let polls = |activity: Activity| usize::from(activity == Activity::Polling);
        self.polling = self.polling + polls(after) - polls(before);
    }
}

/// Cores that share a power supply.
#[derive(Clone, Debug, Default)]
struct Package {
    awake_cores: usize,
    domains: Vec<usize>,
    /// Turbo limit that holds for all its clocks, MHz; `None` before the first core woke.
    limit_mhz: Option<u32>,
}

/// All hardware threads of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Hardware {
    /// Whether anything here is modelled at all.
    pub on: bool,
    threads: Table<Thread>,
    cores: Table<Core>,
    packages: Table<Package>,
    /// CPUs of each clock.
    domain_cpus: Table<Vec<usize>>,
    smt: Option<Smt>,
    /// Levels of caches whose cores slow each other down.
    shared: Vec<SharedCaches>,
    clocks: Option<Clocks>,
    /// Clocks depend on how many cores are awake.
    turbo_is_limited: bool,
    meter: Option<Meter>,
    intervals: Intervals,
    /// Idle states, shallow to deep.
    states: Vec<IdleStatePart>,
    /// Rows of states that poll.
    polls: Vec<bool>,
    /// The first state that does not.
    halted: usize,
    /// CPUs whose speed may have changed since they were last taken.
    pub changed: Vec<Cpu>,
    /// True if the clocks are observed: threads then report theirs whenever one of their core
    /// changes its activity.
    pub watched: bool,
    /// Events to arm since they were last taken.
    pub clock_events: Vec<ClockEvent>,
}

/// Numbers `places` by `key`, from 0 in order of appearance.
fn dense(places: &[CpuPlace], key: impl Fn(&CpuPlace) -> u32) -> Vec<usize> {
    let mut seen: Vec<u32> = Vec::new();
    places
        .iter()
        .map(|place| {
            let number = key(place);
            seen.iter()
                .position(|&other| other == number)
                .unwrap_or_else(|| {
                    seen.push(number);
                    seen.len() - 1
                })
        })
        .collect()
}

fn count(rows: &[usize]) -> usize {
    rows.iter().max().map_or(0, |most| most + 1)
}

impl Hardware {
    /// All threads asleep in the deepest state.
    pub(crate) fn new(machine: &Machine) -> Self {
        let places = &machine.topology.places;
        let cores = dense(places, |place| place.core);
        let packages = dense(places, |place| place.socket);
        let domains = match machine.frequency.as_ref().map(|part| part.domain) {
            Some(ClockDomain::Package) => packages.clone(),
            Some(ClockDomain::Cluster) => dense(places, |place| place.cluster),
            Some(ClockDomain::Table) => {
                let tables = machine.frequency.iter();
                let of =
                    |part: &Frequency| (0..places.len()).map(|row| part.table_of(row)).collect();
                tables.flat_map(|part| -> Vec<usize> { of(part) }).collect()
            }
            _ => cores.clone(),
        };
        let mut domain_cpus = vec![Vec::new(); count(&domains)];
        for (row, &domain) in domains.iter().enumerate() {
            domain_cpus[domain].push(row);
        }
        let states = machine.idle.as_ref().map_or(&[][..], |idle| &idle.state);
        let deepest = states.len().saturating_sub(1);
        let threads: Table<Thread> = (0..places.len())
            .map(|row| Thread {
                core: cores[row],
                package: packages[row],
                domain: domains[row],
                activity: Activity::Asleep(deepest as u32),
                counted_ns: 0,
                awake_ns: 0,
                cycles: 0,
                residency_ns: vec![0; states.len().max(1)],
                capacity: machine.speed(row),
                mhz: 1000,
                clock_speed: 0,
            })
            .collect();
        let levels = [
            (&machine.cluster, dense(places, |place| place.cluster)),
            (&machine.llc, dense(places, |place| place.llc)),
        ];
        let shared = levels.iter().filter_map(|(part, caches)| {
            let speeds = &part.as_ref()?.core_speed_1000ths;
            Some(SharedCaches::new(speeds, caches, &cores))
        });
        let shared: Vec<_> = shared.collect();
        let smt_speeds = machine.smt.as_ref().map(|smt| &smt.thread_speed_1000ths);
        let core = Core {
            told_apart: smt_speeds.map_or(0, Vec::len),
            ..Core::default()
        };
        let mut hardware = Self {
            on: machine.smt.is_some()
                || !shared.is_empty()
                || machine.frequency.is_some()
                || machine.idle.is_some(),
            cores: vec![core; count(&cores)].into(),
            packages: vec![Package::default(); count(&packages)].into(),
            smt: machine.smt.clone(),
            shared,
            clocks: machine
                .frequency
                .as_ref()
                .map(|part| Clocks::new(part, &domain_cpus)),
            domain_cpus: domain_cpus.into(),
            turbo_is_limited: machine
                .frequency
                .as_ref()
                .is_some_and(|part| !part.turbo_limits_mhz.is_empty()),
            meter: None,
            intervals: Intervals::new(machine),
            states: states.to_vec(),
            halted: states
                .iter()
                .position(|state| state.wakes_by != WakesBy::Polling)
                .unwrap_or(0),
            polls: states
                .iter()
                .map(|state| state.wakes_by == WakesBy::Polling)
                .collect(),
            changed: Vec::new(),
            watched: false,
            clock_events: Vec::new(),
            threads,
        };
        for row in 0..places.len() {
            hardware.note_clock(row);
            hardware.cores[cores[row]].threads.push(row);
            let of_package = &mut hardware.packages[packages[row]].domains;
            if !of_package.contains(&domains[row]) {
                of_package.push(domains[row]);
            }
        }
        for core in &mut hardware.cores {
            core.told_apart = core.told_apart.min(core.threads.len());
            core.sharing = core.find_sharing();
        }
        hardware.meter = hardware.meter_of(machine);
        hardware.intervals.reset(hardware.counted(), 0);
        hardware
    }

    /// The meter of power, if the machine's file or its energy model says it.
    fn meter_of(&self, machine: &Machine) -> Option<Meter> {
        let cpu_of: Vec<usize> = self.cores.iter().map(|core| core.threads[0]).collect();
        let idle = machine.idle.as_ref();
        if let (Some(power), Some(idle)) = (&machine.power, idle) {
            let package_of = cpu_of.iter().map(|&cpu| self.threads[cpu].package);
            return Some(Meter::new(power, idle, &package_of.collect::<Vec<_>>()));
        }
        // Without idle states CPUs sleep in one that has no name.
        let states = idle.map_or(1, |idle| idle.state.len());
        let interval_ns = intervals::TURBOSTAT_INTERVAL_NS;
        let frequency = machine.frequency.as_ref()?;
        Meter::of_model(frequency, states, &cpu_of, interval_ns)
    }

    /// Brings the counters of a thread to `now`.
    #[inline(always)]
    fn account(&mut self, row: usize, now: Ns) {
        self.threads[row].account(now);
    }

    /// The clock of a thread is another one from now on; it is accounted up to here.
    fn note_clock(&mut self, row: usize) {
        let thread = &mut self.threads[row];
        thread.clock_speed = u64::from(thread.capacity) * u64::from(SPEED_NOMINAL) / 1024;
        if let Some(clocks) = &self.clocks {
            thread.mhz = clocks.mhz(thread.domain);
            let cycles = thread.clock_speed * u64::from(thread.mhz);
            thread.clock_speed = clocks.nominal_mhz(thread.domain).quotient(cycles);
        }
    }

    /// A thread does something else from now on. Inlined where it wakes and where it falls asleep,
    /// which each know half of it.
    #[inline(always)]
    fn set_activity(&mut self, row: usize, activity: Activity, now: Ns) {
        let before = self.threads[row].activity;
        if before == activity {
            return;
        }
        self.close_intervals(now);
        let thread = &mut self.threads[row];
        thread.account(now);
        thread.activity = activity;
        let (core_row, package, domain) = (thread.core, thread.package, thread.domain);
        let core = &mut self.cores[core_row];
        let (was_awake, executed) = (core.awake > 0, core.executing() > 0);
        core.count(before, activity);
        let (awake, executes) = (core.awake > 0, core.executing() > 0);
        let alone = core.threads.len() == 1;
        if executed != executes {
            for caches in &mut self.shared {
                caches.note(core_row, executes, &mut self.changed);
            }
        }
        // The number of executing threads does not matter on a core of one thread.
        let polling = before == Activity::Polling || activity == Activity::Polling;
        if !alone || polling || self.watched {
            self.note_sharing(core_row);
        }
        if was_awake != awake {
            let cores = &mut self.packages[package].awake_cores;
            *cores = if awake { *cores + 1 } else { *cores - 1 };
            if self.turbo_is_limited {
                self.limit_turbo(package, now);
            }
        }
        if before.is_awake() != activity.is_awake() {
            self.vote(domain, activity.is_awake(), now);
        }
        if !alone {
            self.measure(core_row, now);
        } else if let Some(meter) = &mut self.meter {
            let executing = usize::from(activity == Activity::Executing);
            let mhz = self.threads[row].mhz;
            meter.set_core(core_row, executing, activity.idle_row(), mhz, now);
        }
    }

    /// Threads of a core do something else: their speed may be another one.
    #[inline(never)]
    fn note_sharing(&mut self, core_row: usize) {
        let core = &mut self.cores[core_row];
        let sharing = core.find_sharing();
        let before = std::mem::replace(&mut core.sharing, sharing);
        if before != sharing || (self.watched && core.told_apart > 0) {
            let siblings = core.threads.iter().map(|&row| Cpu::from(row));
            self.changed.extend(siblings);
        }
    }

    /// An idle thread is woken after `stay_ns`. Returns how long it takes until it executes;
    /// `None` = as without a model of idle states.
    #[inline(never)]
    pub(crate) fn wake(&mut self, cpu: Cpu, now: Ns, stay_ns: Ns) -> Option<Ns> {
        let row = cpu.index();
        let exit_ns = match self.threads[row].activity {
            Activity::Asleep(state) => {
                let state = self.states.get(self.core_state(row, state as usize));
                state.map(|state| state.exit_ns(stay_ns))
            }
            Activity::Polling | Activity::Executing => Some(0),
        };
        self.set_activity(row, Activity::Executing, now);
        exit_ns
    }

    /// The state a sleeping thread really is in: a core goes no deeper than its shallowest thread,
    /// and beside one that is awake a sleeper only has its thread halted, as in the first state
    /// that does not poll. With states POLL, C1 and C6 and one thread executing, C6 of the other is
    /// as quick to leave as C1.
    #[inline(always)]
    fn core_state(&self, row: usize, state: usize) -> usize {
        let threads = &self.cores[self.threads[row].core].threads;
        if threads.len() == 1 {
            return state;
        }
        let states = threads
            .iter()
            .map(|&thread| match self.threads[thread].activity {
                Activity::Asleep(state) => state as usize,
                Activity::Polling | Activity::Executing => self.halted,
            });
        states.min().unwrap_or(self.halted)
    }

    /// A thread enters the idle state of a row.
    #[inline(never)]
    pub(crate) fn sleep(&mut self, cpu: Cpu, state: usize, now: Ns) {
        let polls = self.polls.get(state).copied().unwrap_or(false);
        let activity = if polls {
            Activity::Polling
        } else {
            Activity::Asleep(state as u32)
        };
        // Time it polls is no residency of the state, it is time awake.
        self.set_activity(cpu.index(), activity, now);
    }

    /// Speed of a thread with warm caches, [`SPEED_NOMINAL`] = nominal.
    #[inline(always)]
    pub(crate) fn speed(&self, cpu: Cpu) -> u32 {
        let thread = &self.threads[cpu];
        let mut speed = thread.clock_speed;
        if let Some(smt) = &self.smt {
            let core = &self.cores[thread.core];
            let busy = core.executing().clamp(1, smt.thread_speed_1000ths.len());
            speed = speed * u64::from(smt.thread_speed_1000ths[busy - 1]) / 1000;
            if core.polling > 0 {
                speed = speed * u64::from(smt.polling_sibling_speed_percent) / 100;
            }
        }
        for caches in &self.shared {
            speed = caches.speed(thread.core, speed);
        }
        u32::try_from(speed).unwrap_or(u32::MAX)
    }

    /// The clock of a thread, MHz; `None` when clocks are not modelled.
    pub(crate) fn mhz(&self, cpu: Cpu) -> Option<u32> {
        let modelled = self.clocks.is_some();
        modelled.then(|| self.threads[cpu].mhz)
    }

    /// Energy of all packages since statistics count, J.
    pub(crate) fn package_joules(&self, now: Ns) -> Option<f64> {
        let energy_fj = self.meter.as_ref()?.total(now).package();
        Some(energy_fj as f64 / 1e15)
    }

    /// The counters software reads.
    pub(crate) fn counters(&mut self, cpu: Cpu, now: Ns) -> Counters {
        self.close_intervals(now);
        self.account(cpu.index(), now);
        let thread = &self.threads[cpu];
        let base_mhz = self.clocks.as_ref().map_or(1000, |clocks| clocks.base_mhz);
        let cycles = |ns: Ns| ns.wrapping_mul(u64::from(base_mhz)) / 1000;
        Counters::new(
            thread.cycles / 1000,
            cycles(thread.awake_ns),
            cycles(thread.counted_ns),
        )
    }

    /// The power of a core changed, if power is measured.
    #[inline(never)]
    fn measure(&mut self, row: usize, now: Ns) {
        let Some(meter) = &mut self.meter else { return };
        let core = &self.cores[row];
        let depth = if core.awake > 0 {
            None
        } else {
            let rows = core.threads.iter();
            let depths = rows.map(|&row| self.threads[row].activity.idle_row().unwrap_or(0));
            depths.min()
        };
        let mhz = self.threads[core.threads[0]].mhz;
        meter.set_core(row, core.executing(), depth, mhz, now);
    }

    /// Brings all statistics to `now`.
    pub(crate) fn settle(&mut self, now: Ns) {
        self.close_intervals(now);
        for row in 0..self.threads.len() {
            self.account(row, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_without_idle_states_draws_what_its_energy_model_says() {
        let mut hardware = Hardware::new(&Machine::preset("hikey960").unwrap());
        let baseline = hardware.reset(0);
        let cpu = Cpu(0);
        hardware.wake(cpu, 0, 0);
        let mhz = hardware.mhz(cpu).unwrap();
        hardware.sleep(cpu, 0, 2_000_000);
        hardware.settle(10_000_000);
        let report = hardware.report(&baseline, &[], 10_000_000);
        // 28,728 µW for 2 ms of 10.
        assert_eq!((mhz, report.model.unwrap().mean), (533, 0.005_745_6));
        assert!(report.package.is_none() && report.cores.is_none());
    }

    #[test]
    fn a_core_sleeps_no_deeper_than_its_shallowest_thread() {
        let machine = Machine::preset("spr-2x56x2").unwrap();
        let (c1, c6) = (1, 3);
        let (cpu, sibling) = (Cpu(0), Cpu(112));
        let exit_ns = |of_sibling: Option<usize>| {
            let mut hardware = Hardware::new(&machine);
            hardware.wake(sibling, 10, 10);
            if let Some(state) = of_sibling {
                hardware.sleep(sibling, state, 20);
            }
            hardware.wake(cpu, 30, 30)
        };
        assert_eq!(exit_ns(Some(c6)), Some(290_000));
        assert_eq!(exit_ns(Some(c1)), Some(1000));
        assert_eq!(exit_ns(None), Some(1000));
    }
}
