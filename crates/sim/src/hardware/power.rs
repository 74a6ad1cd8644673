//! Power and energy of packages, integrated exactly.
//!
//! Power is constant between two events, so energy is a sum of microwatts times nanoseconds, kept
//! as an integer. That sum is only touched when power changes: it is the present power since time 0
//! plus, for every change, the difference up to it. With 5 W until 2 ms and 0.5 W since, 0.5 · 10 +
//! (5 − 0.5) · 2 = 14 mJ after 10 ms.
//!
//! Worked example: a core executes for 2 ms at 5 W and sleeps for 8 ms at 0.5 W, the rest of the
//! package draws 3 W and 1 W meanwhile: 5 · 2 + 0.5 · 8 = 14 mJ of the core and 3 · 2 + 1 · 8 = 14
//! mJ of the rest; in 10 ms that is a mean of 2.8 W.
//!
//! A machine whose clocks have tables with an energy model has the power of that model: what an
//! executing CPU draws at its clock. A CPU that waits or sleeps draws nothing, as the model knows
//! neither static power nor the rest of the package.

use crate::machine::parts::{Frequency, Idle, Power};
use schedcast_kernel::Ns;
use schedcast_kernel::table::Table;

/// Energy of all packages, µW · ns = fJ.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Energy {
    pub cores: u128,
    pub uncore: u128,
}

impl Energy {
    pub(crate) fn package(self) -> u128 {
        self.cores + self.uncore
    }
}

/// Energy of what draws constant power between two changes.
#[derive(Clone, Copy, Debug, Default)]
struct Integral {
    uw: i64,
    /// Energy at time 0 if all along it had drawn what it draws now, fJ.
    at_zero: i128,
}

impl Integral {
    /// Power rises by so much, or falls.
    #[inline(always)]
    fn change(&mut self, by_uw: i64, now: Ns) {
        self.at_zero -= product(by_uw, now);
        self.uw += by_uw;
    }

    fn energy(self, now: Ns) -> u128 {
        (self.at_zero + product(self.uw, now)).unsigned_abs()
    }

    /// Energy counts from now on.
    fn reset(&mut self, now: Ns) {
        self.at_zero = -product(self.uw, now);
    }
}

/// fJ of so much power in so much time; one multiplication of the processor.
#[inline(always)]
fn product(uw: i64, ns: Ns) -> i128 {
    i128::from(uw) * i128::from(ns.cast_signed())
}

/// Cores of one package.
#[derive(Clone, Debug)]
struct PackageMeter {
    uncore_uw: u64,
    /// Cores that are awake, and in each idle state.
    depths: Vec<u32>,
}

/// Power of an executing core.
#[derive(Clone, Debug)]
enum Active {
    /// The same of all cores at a clock, beside packages that draw power too.
    Package(Power),
    /// The energy model's: each table's frequencies (MHz, slow to fast) with the power of a CPU,
    /// µW, and the table of each core.
    Model {
        tables: Vec<Vec<(u32, u64)>>,
        table_of: Table<usize>,
    },
}

/// The power of every package.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    source: Active,
    /// Length of the intervals of which the most counts.
    interval_ns: Ns,
    /// Power of a sleeping core by state, µW, or percent of an executing one.
    asleep: Vec<AsleepPower>,
    /// Power of the rest of a package by the state of its shallowest core.
    uncore_uw: Vec<u64>,
    cores: Table<CoreMeter>,
    packages: Table<PackageMeter>,
    /// Energy of all cores.
    cores_energy: Integral,
    /// The rest of all packages.
    uncore_energy: Integral,
    /// Clocks met lately and what a core executing at them draws: finding that takes a search and a
    /// division, and a change of the turbo limit asks for it once a core.
    active: [(u32, u64); ACTIVE_KEPT],
    /// Since when statistics count.
    since_ns: Ns,
    /// Energy at the beginning of the present interval.
    at_begin: Energy,
    /// The most in one interval, fJ.
    most_of_package: u128,
    most_of_cores: u128,
    /// Intervals that are over.
    complete: u64,
}

/// Power of one core.
#[derive(Clone, Copy, Debug)]
struct CoreMeter {
    package: usize,
    uw: u64,
    /// 0 = awake, otherwise row of the state + 1.
    depth: usize,
}

/// Clocks whose power is kept, each in the place its number of steps of 25 MHz falls to.
const ACTIVE_KEPT: usize = 64;

#[derive(Clone, Copy, Debug)]
enum AsleepPower {
    Uw(u64),
    PercentOfActive(u64),
}

impl Meter {
    pub(crate) fn new(power: &Power, idle: &Idle, package_of: &[usize]) -> Self {
        let asleep: Vec<AsleepPower> = idle
            .state
            .iter()
            .map(|state| match state.core_percent_of_active {
                Some(percent) => AsleepPower::PercentOfActive(percent),
                None => AsleepPower::Uw(state.core_mw.unwrap_or(0) * 1000),
            })
            .collect();
        let mut uncore_uw = vec![power.uncore_mw * 1000];
        for state in &idle.state {
            let shallower = uncore_uw[uncore_uw.len() - 1];
            uncore_uw.push(state.uncore_mw.map_or(shallower, |mw| mw * 1000));
        }
        let source = Active::Package(power.clone());
        Self::of_source(source, power.interval_ns, asleep, uncore_uw, package_of)
    }

    /// Of the energy model in tables of clocks, if they have one: `cpu_of` is a CPU of each core,
    /// and there are `states` idle states.
    pub(crate) fn of_model(
        frequency: &Frequency,
        states: usize,
        cpu_of: &[usize],
        interval_ns: Ns,
    ) -> Option<Self> {
        let tables: Vec<Vec<(u32, u64)>> = frequency
            .table
            .iter()
            .map(|table| {
                let powers = table.cpu_uw.iter().copied();
                table.mhz.iter().copied().zip(powers).collect()
            })
            .collect();
        let is_known = !tables.is_empty() && tables.iter().all(|table| !table.is_empty());
        let table_of = cpu_of.iter().map(|&cpu| frequency.table_of(cpu)).collect();
        is_known.then(|| {
            let source = Active::Model { tables, table_of };
            let asleep = vec![AsleepPower::Uw(0); states];
            let uncore_uw = vec![0; states + 1];
            Self::of_source(
                source,
                interval_ns,
                asleep,
                uncore_uw,
                &vec![0; cpu_of.len()],
            )
        })
    }

    fn of_source(
        source: Active,
        interval_ns: Ns,
        asleep: Vec<AsleepPower>,
        uncore_uw: Vec<u64>,
        package_of: &[usize],
    ) -> Self {
        let deepest = asleep.len();
        let packages = package_of.iter().max().map_or(0, |most| most + 1);
        // All cores sleep as deeply as they can.
        let quiet_uw = uncore_uw[deepest];
        let core = |&package: &usize| CoreMeter {
            package,
            uw: 0,
            depth: deepest,
        };
        let package = PackageMeter {
            uncore_uw: quiet_uw,
            depths: vec![0; deepest + 1],
        };
        let mut meter = Self {
            source,
            interval_ns,
            uncore_uw,
            cores: package_of.iter().map(core).collect(),
            packages: vec![package; packages].into(),
            cores_energy: Integral::default(),
            uncore_energy: Integral::default(),
            // No clock is so fast.
            active: [(u32::MAX, 0); ACTIVE_KEPT],
            since_ns: 0,
            at_begin: Energy::default(),
            most_of_package: 0,
            most_of_cores: 0,
            complete: 0,
            asleep,
        };
        for &package in package_of {
            meter.packages[package].depths[deepest] += 1;
        }
        let quiet = quiet_uw.cast_signed() * packages as i64;
        meter.uncore_energy.change(quiet, 0);
        for core in 0..package_of.len() {
            meter.set_core(core, 0, deepest.checked_sub(1), 0, 0);
        }
        meter
    }

    /// Whether the power is that of an energy model, which knows executing CPUs only.
    pub(crate) fn is_model(&self) -> bool {
        matches!(self.source, Active::Model { .. })
    }

    /// Sets the state of a core from now on: threads executing, or how deep it sleeps (`None` = it
    /// is awake), and its clock.
    #[inline(always)]
    pub(crate) fn set_core(
        &mut self,
        core: usize,
        executing: usize,
        depth: Option<usize>,
        mhz: u32,
        now: Ns,
    ) {
        let uw = self.core_uw(core, executing, depth, mhz);
        let core = &mut self.cores[core];
        let risen_uw = uw.cast_signed() - core.uw.cast_signed();
        core.uw = uw;
        self.cores_energy.change(risen_uw, now);
        let place = depth.map_or(0, |row| row + 1);
        let before = std::mem::replace(&mut core.depth, place);
        if before == place {
            return;
        }
        let package = &mut self.packages[core.package];
        package.depths[before] -= 1;
        package.depths[place] += 1;
        let shallowest = package.depths.iter().position(|&cores| cores > 0);
        let uw = self.uncore_uw[shallowest.unwrap_or(0)];
        let before_uw = std::mem::replace(&mut package.uncore_uw, uw);
        if uw != before_uw {
            let risen_uw = uw.cast_signed() - before_uw.cast_signed();
            self.uncore_energy.change(risen_uw, now);
        }
    }

    /// Power of a core in a state of [`Meter::set_core`], µW.
    #[inline(always)]
    fn core_uw(&mut self, core: usize, executing: usize, depth: Option<usize>, mhz: u32) -> u64 {
        let power = match &self.source {
            Active::Package(power) => power,
            Active::Model { tables, table_of } => {
                if executing == 0 {
                    return 0;
                }
                let table = &tables[table_of[core]];
                let at_least = table.partition_point(|&(clock, _)| clock < mhz);
                return table[at_least.min(table.len() - 1)].1;
            }
        };
        let kept = &mut self.active[(mhz / 25) as usize % ACTIVE_KEPT];
        if kept.0 != mhz {
            *kept = (mhz, power.active_uw(mhz));
        }
        let active_uw = kept.1;
        match (depth.map(|row| self.asleep[row]), executing) {
            (Some(AsleepPower::Uw(uw)), _) => uw,
            (Some(AsleepPower::PercentOfActive(percent)), _) => active_uw * percent / 100,
            (None, 0) => match self.asleep.first() {
                Some(&AsleepPower::PercentOfActive(percent)) => active_uw * percent / 100,
                _ => active_uw,
            },
            (None, 1) => active_uw,
            (None, threads) => {
                let more = (threads as u64 - 1) * power.further_thread_percent;
                active_uw * (100 + more) / 100
            }
        }
    }

    /// An interval is over.
    pub(crate) fn finish_interval(&mut self, end: Ns) {
        let total = self.total(end);
        let begin = std::mem::replace(&mut self.at_begin, total);
        let package = total.package() - begin.package();
        self.most_of_package = self.most_of_package.max(package);
        self.most_of_cores = self.most_of_cores.max(total.cores - begin.cores);
        self.complete += 1;
    }

    /// Energy of all packages.
    pub(crate) fn total(&self, now: Ns) -> Energy {
        Energy {
            cores: self.cores_energy.energy(now),
            uncore: self.uncore_energy.energy(now),
        }
    }

    /// Statistics count from now on.
    pub(crate) fn reset(&mut self, now: Ns) {
        self.cores_energy.reset(now);
        self.uncore_energy.reset(now);
        self.since_ns = now;
        self.at_begin = Energy::default();
        (self.most_of_package, self.most_of_cores, self.complete) = (0, 0, 0);
    }

    /// Mean power since the beginning and the highest of one interval, each its own (the mean, when
    /// none is complete), in watts: (package, cores).
    pub(crate) fn watts(&self, now: Ns) -> ([f64; 2], [f64; 2]) {
        let watts = |energy: u128, ns: Ns| energy as f64 / ns.max(1) as f64 / 1e6;
        let total = self.total(now);
        let elapsed = now - self.since_ns;
        let mean = [watts(total.package(), elapsed), watts(total.cores, elapsed)];
        if self.complete == 0 {
            return (mean, mean);
        }
        let most = [self.most_of_package, self.most_of_cores];
        (mean, most.map(|fj| watts(fj, self.interval_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::machine::parts::{ActivePower, IdleGovernor, IdleStatePart, WakesBy};

    const MS: Ns = 1_000_000;

    fn state(name: &str, core_mw: u64, uncore_mw: Option<u64>) -> IdleStatePart {
        IdleStatePart {
            name: name.to_owned(),
            exit_latency_ns: 0,
            target_residency_ns: 0,
            hardware_exit_ns: None,
            exit_after_stay_ns: Vec::new(),
            timer_exit_beside_busy_percent: None,
            wakes_by: WakesBy::Monitor,
            core_mw: Some(core_mw),
            core_percent_of_active: None,
            uncore_mw,
        }
    }

    fn meter(cores: usize) -> Meter {
        let power = Power {
            active: vec![ActivePower::new(1000, 2000), ActivePower::new(3000, 5000)],
            further_thread_percent: 10,
            uncore_mw: 3000,
            interval_ns: 10 * MS,
        };
        let idle = Idle {
            governor: IdleGovernor::Menu,
            guest_halt_poll_ns: None,
            state: vec![state("C1", 1000, None), state("C6", 500, Some(1000))],
        };
        Meter::new(&power, &idle, &vec![0; cores])
    }

    #[test]
    fn worked_example_of_the_module_docs() {
        const MILLIJOULE: u128 = 1_000_000_000_000;
        let mut core = Integral::default();
        core.change(5_000_000, 0);
        core.change(-4_500_000, 2 * MS);
        assert_eq!(core.energy(2 * MS), 10 * MILLIJOULE);
        assert_eq!(core.energy(10 * MS), 14 * MILLIJOULE);
        core.reset(10 * MS);
        assert_eq!(core.energy(12 * MS), MILLIJOULE);
    }

    #[test]
    fn energy_of_a_known_schedule_is_exact() {
        // Core 0: 2 ms at 3 GHz (5 W), 3 ms at 1.5 GHz (2.75 W), C1 for 5 ms (1 W), C6 from 10 ms
        // (0.5 W). Core 1: C6 all the time (0.5 W). The rest: 3 W while core 0 is awake or in C1,
        // then 1 W.
        let mut meter = meter(2);
        meter.set_core(0, 1, None, 3000, 0);
        meter.set_core(0, 1, None, 1500, 2 * MS);
        meter.set_core(0, 0, Some(0), 1500, 5 * MS);
        meter.finish_interval(10 * MS);
        meter.set_core(0, 0, Some(1), 1500, 10 * MS);
        meter.finish_interval(20 * MS);
        meter.finish_interval(30 * MS);
        // In mW · ms = µJ: 5000 · 2 + 2750 · 3 + 1000 · 5 + 500 · 20 + 500 · 30 = 48,250;
        // 3000 · 10 + 1000 · 20 = 50,000.
        let joule = |energy: u128| energy as f64 * 1e-15;
        let total = meter.total(30 * MS);
        assert!((joule(total.cores) - 0.048_250).abs() < 1e-9 * 0.048);
        assert!((joule(total.uncore) - 0.050_000).abs() < 1e-9 * 0.050);
        assert_eq!(total.cores, 48_250 * 1_000_000_000);
        let ([package, cores], [most, most_cores]) = meter.watts(30 * MS);
        assert!((package - 98.25 / 30.0).abs() < 1e-9);
        assert!((cores - 48.25 / 30.0).abs() < 1e-9);
        // The first interval of 10 ms had it all: 23.25 + 5 mJ and 30 mJ.
        assert!((most - 5.825).abs() < 1e-9 && (most_cores - 2.825).abs() < 1e-9);
    }

    #[test]
    fn cores_have_an_interval_of_their_own_with_the_most() {
        // First 10 ms: awake at 1 GHz, 2 + 3 W. Second: 5 ms each in C6 (0.5 + 1 W) and awake at
        // 3 GHz (5 + 3 W).
        let mut meter = meter(1);
        meter.set_core(0, 1, None, 1000, 0);
        meter.finish_interval(10 * MS);
        meter.set_core(0, 0, Some(1), 1000, 10 * MS);
        meter.set_core(0, 1, None, 3000, 15 * MS);
        meter.finish_interval(20 * MS);
        let (_, [package, cores]) = meter.watts(20 * MS);
        assert!((package - 5.0).abs() < 1e-9 && (cores - 2.75).abs() < 1e-9);
    }

    #[test]
    fn further_threads_add_their_part() {
        let mut meter = meter(1);
        meter.set_core(0, 2, None, 1000, 0);
        // 2 W · 1.1 for 10 ms.
        assert_eq!(meter.total(10 * MS).cores, 22_000 * 1_000_000_000);
    }

    #[test]
    fn energy_model_counts_executing_cpus_at_their_own_clock() {
        let machine = Machine::preset("hikey960").unwrap();
        let frequency = machine.frequency.as_ref().unwrap();
        let mut meter = Meter::of_model(frequency, 1, &[0, 4], 10 * MS).unwrap();
        // An A53 at 533 MHz draws 28,728 µW, an A73 at its highest clock 1,571,911 µW.
        meter.set_core(0, 1, None, 533, 0);
        meter.set_core(1, 1, None, 2362, 2 * MS);
        meter.set_core(0, 0, Some(0), 533, 5 * MS);
        meter.set_core(1, 0, None, 2362, 3 * MS);
        let total = meter.total(10 * MS);
        let ms = u128::from(MS);
        assert_eq!(total.cores, (5 * 28_728 + 1_571_911) * ms);
        assert_eq!((total.uncore, meter.is_model()), (0, true));
    }

    #[test]
    fn tables_without_power_have_no_energy_model() {
        let mut frequency = Machine::preset("hikey960").unwrap().frequency.unwrap();
        frequency.table[1].cpu_uw.clear();
        assert!(Meter::of_model(&frequency, 1, &[0, 4], 10 * MS).is_none());
    }

    #[test]
    fn a_reset_forgets_energy_but_not_power() {
        let mut meter = meter(1);
        meter.set_core(0, 1, None, 3000, 0);
        meter.reset(7 * MS);
        assert_eq!(meter.total(9 * MS).cores, 10_000 * 1_000_000_000);
        let ([package, _], [most, _]) = meter.watts(9 * MS);
        assert!((package - 8.0).abs() < 1e-9 && (most - 8.0).abs() < 1e-9);
    }
}
