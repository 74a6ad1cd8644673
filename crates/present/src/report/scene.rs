//! Scene that a page shows of one run: drawn while the run goes on, in memory that does not grow
//! with it.
//!
//! Three layers: every run of a thread on a CPU (*slices*), from a chosen time until a budget is
//! used up; how busy CPUs and groups were in each of a fixed number of *buckets* over the whole
//! run, whose width doubles when there would be more; the *periods* of limited groups, of which two
//! become one when there would be more than fit.
//!
//! Worked example: 512 buckets of 1 ms hold 512 ms. At 512 ms they become 256 buckets of 2 ms, and
//! so on: after 30 s they are 64 ms wide, and there are 469 of them.

use std::collections::BTreeMap;

use schedcast_kernel::{Cpu, GroupId, Ns};
use schedcast_sim::World;
use serde::{Serialize, Serializer};

use super::demand::Demand;
use super::hardware::{Hardware, hardware};
use super::pack::{self, Packed};
use crate::watch::{Period, Picture, State, Thread};
use schedcast_base::groups::is_within;

/// Width of a bucket at first.
const FIRST_BUCKET_NS: Ns = 250_000;
/// Most periods of a group that are kept.
const PERIODS: usize = 1024;
/// Longest waits that a page leads to.
const WAITS: usize = 12;
/// Times in slices are multiples of this.
const TICK_NS: Ns = 1_000;

/// How much of a run is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget {
    /// Runs of threads on CPUs, and waits of the target's.
    pub slices: usize,
    /// Buckets of each CPU and group.
    pub buckets: usize,
    /// Runs that end before this are not kept.
    pub from_ns: Ns,
    /// Group whose longest waits are told, all below it included; `None`: of all threads.
    pub target: Option<String>,
}

/// Scene that a page shows of one run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Scene {
    /// Length of the run, ms.
    pub length_ms: f64,
    /// CPUs.
    pub cpus: usize,
    /// Paths of the groups; row 0 is the root.
    pub groups: Vec<String>,
    /// Names of threads; runs refer to rows.
    pub names: Vec<String>,
    /// Group of each of them.
    pub name_groups: Vec<usize>,
    /// Unit of the times in `slices`, ns.
    pub tick_ns: Ns,
    /// The part of the run that `slices` covers, ms.
    pub window_ms: [f64; 2],
    /// Whether `slices` has every run of the whole run.
    pub complete: bool,
    /// Per CPU: base64 of varints, for each run the gap before it and its length in ticks, and the
    /// row of its name.
    pub slices: Vec<String>,
    /// base64 of varints, for each wait of a thread of the target in the order of their ends: gap
    /// since the end before and length in ticks, and twice the row of its name, one more if it was
    /// throttled.
    pub held: String,
    /// Per group: base64 of varints, for each throttled span of one of its queues: CPU, gap since
    /// the begin of the span before, length.
    pub throttled: Vec<String>,
    /// Width of a bucket, ms.
    pub bucket_ms: f64,
    /// Per CPU: base64, busy share of each bucket in 255ths.
    pub busy: Vec<String>,
    /// Per group: mean number of threads that run, that wait for a CPU, that wait throttled, in
    /// each bucket. On the page each is base64 of varints in hundredths of a thread,
    /// [`pack::load`].
    #[serde(serialize_with = "packed_loads")]
    pub group_load: Vec<[Vec<f32>; 3]>,
    /// Periods of limited groups.
    pub periods: Vec<GroupPeriods>,
    /// Mean power of all packages in each bucket, W; empty where power is not modelled.
    pub watts: Vec<f32>,
    /// Mean clock of all CPUs, MHz, at the end of each bucket; empty where clocks are not modelled.
    pub mhz: Vec<f32>,
    /// Hardware over the run, where it is modelled.
    pub hardware: Option<Hardware>,
    /// Begin and length of the longest waits of the target's threads, ms, and whose they were; the
    /// longest first.
    pub waits: Vec<(f64, f64, String)>,
}

fn packed_loads<S: Serializer>(loads: &[[Vec<f32>; 3]], to: S) -> Result<S::Ok, S::Error> {
    let kinds = |load: &[Vec<f32>; 3]| load.each_ref().map(|kind| pack::load(kind).base64());
    to.collect_seq(loads.iter().map(kinds))
}

/// The periods of one group. Each row is the mean of `merged` periods.
#[derive(Clone, Debug, Serialize, Default)]
pub struct GroupPeriods {
    /// Row of the group.
    pub group: usize,
    /// Periods in a row.
    pub merged: usize,
    /// Ends of the rows, ms.
    pub at_ms: Vec<f64>,
    /// Runtime in the pool after the refill at the begin of the period, ms.
    pub granted_ms: Vec<f64>,
    /// CPU time used, ms.
    pub used_ms: Vec<f64>,
    /// CPU time its threads would have used had none of them ever waited, ms.
    pub wanted_ms: Vec<f64>,
    /// Throttled time summed over CPUs, ms.
    pub throttled_ms: Vec<f64>,
    /// Runtime left in the pool at the end of the period, ms: the burst balance.
    #[serde(skip)]
    pub left_ms: Vec<f64>,
}

/// Sums per bucket.
#[derive(Clone, Debug, Default)]
struct Buckets {
    width_ns: Ns,
    most: usize,
    /// Rows of sums, all of one length.
    sums: Vec<Vec<f64>>,
}

impl Buckets {
    fn new(rows: usize, most: usize) -> Self {
        Self {
            width_ns: FIRST_BUCKET_NS,
            most: most.max(2) & !1,
            sums: vec![Vec::new(); rows],
        }
    }

    fn halve(&mut self) {
        self.width_ns *= 2;
        for sums in &mut self.sums {
            *sums = sums.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
    }

    /// Spreads `weight` per nanosecond over the time from `from` to `to`.
    fn add(&mut self, row: usize, from: Ns, to: Ns, weight: f64) {
        if to <= from {
            return;
        }
        while (to - 1) / self.width_ns >= self.most as u64 {
            self.halve();
        }
        let last = ((to - 1) / self.width_ns) as usize;
        if self.sums[row].len() <= last {
            self.sums[row].resize(last + 1, 0.0);
        }
        for bucket in (from / self.width_ns) as usize..=last {
            let begin = bucket as u64 * self.width_ns;
            let part = to.min(begin + self.width_ns) - from.max(begin);
            self.sums[row][bucket] += part as f64 * weight;
        }
    }

    /// Means per bucket of a row, over a run of `length_ns`.
    fn means(&self, row: usize, length_ns: Ns) -> Vec<f32> {
        let count = length_ns.div_ceil(self.width_ns).min(self.most as u64) as usize;
        let mut sums = self.sums[row].clone();
        sums.resize(count, 0.0);
        let mean = |(bucket, sum): (usize, f64)| {
            let begin = bucket as u64 * self.width_ns;
            let width = length_ns.min(begin + self.width_ns).saturating_sub(begin);
            round(sum / width.max(1) as f64, 1000.0)
        };
        sums.into_iter().enumerate().map(mean).collect()
    }
}

fn round(value: f64, per_unit: f64) -> f32 {
    ((value * per_unit).round() / per_unit) as f32
}

fn milliseconds(ns: f64) -> f64 {
    (ns / 1e3).round() / 1e3
}

/// Collects a [`Scene`].
#[derive(Debug, Default)]
pub(crate) struct Sketch {
    budget: Budget,
    scene: Scene,
    rows: BTreeMap<(usize, String), usize>,
    slices: Vec<Packed>,
    slice_ends: Vec<u64>,
    held: Packed,
    held_end: u64,
    kept: usize,
    dropped: bool,
    window_end_ns: Ns,
    throttled: Vec<Packed>,
    throttled_begins: Vec<u64>,
    throttled_since: Vec<Option<Ns>>,
    parents: Vec<Option<GroupId>>,
    /// Which groups belong to the target.
    in_target: Vec<bool>,
    /// CPUs, then three rows a group, then power and clock.
    buckets: Buckets,
    /// Runtime in the pool of each group at the begin of its period, ns.
    granted_ns: Vec<Option<i64>>,
    /// Periods of each row of `scene.periods` that are not a row yet.
    pending: Vec<Vec<[f64; 5]>>,
    demands: Vec<Demand>,
    clocks_mhz: Vec<u32>,
    energy: Option<(Ns, f64)>,
    /// The longest first; of the same length the earlier one.
    waits: Vec<(Ns, Ns, String)>,
    sampled_ns: Ns,
}

impl Sketch {
    /// Nothing drawn yet.
    pub(crate) fn new(budget: Budget) -> Self {
        Self {
            budget,
            scene: Scene {
                tick_ns: TICK_NS,
                ..Scene::default()
            },
            window_end_ns: Ns::MAX,
            buckets: Buckets::new(0, 2),
            ..Self::default()
        }
    }

    fn name_row(&mut self, thread: &Thread) -> usize {
        let key = (thread.group.index(), thread.name.clone());
        let scene = &mut self.scene;
        *self.rows.entry(key).or_insert_with(|| {
            scene.names.push(thread.name.clone());
            scene.name_groups.push(thread.group.index());
            scene.names.len() - 1
        })
    }

    /// Whether something from `from` to `to` belongs to the window; the first that does not fit
    /// ends it.
    fn fits(&mut self, from: Ns, to: Ns) -> bool {
        if to < self.budget.from_ns || from >= self.window_end_ns {
            self.dropped = true;
            return false;
        }
        if self.kept >= self.budget.slices {
            self.window_end_ns = from;
            self.dropped = true;
            return false;
        }
        self.kept += 1;
        true
    }

    fn ran(&mut self, cpu: Cpu, thread: &Thread, to: Ns) {
        let from = thread.since_ns;
        self.buckets.add(cpu.index(), from, to, 1.0);
        if !self.fits(from, to) {
            return;
        }
        let name = self.name_row(thread) as u64;
        let row = cpu.index();
        let begin = (from / TICK_NS).max(self.slice_ends[row]);
        let end = (to / TICK_NS).max(begin);
        let packed = &mut self.slices[row];
        packed.put(begin - self.slice_ends[row]);
        packed.put(end - begin);
        packed.put(name);
        self.slice_ends[row] = end;
    }

    fn load(&mut self, thread: &Thread, to: Ns) {
        let kind = match thread.state {
            State::Asleep => return,
            State::Running(_) => 0,
            State::Waiting => 1,
            State::Throttled => 2,
        };
        let mut above = Some(thread.group);
        while let Some(group) = above {
            let row = self.scene.cpus + group.index() * 3 + kind;
            self.buckets.add(row, thread.since_ns, to, 1.0);
            above = self.parents[group.index()];
        }
        let waited = to - thread.since_ns;
        if kind == 0 || waited == 0 || !self.in_target[thread.group.index()] {
            return;
        }
        let row = self
            .waits
            .partition_point(|(_, length, _)| *length >= waited);
        if row < WAITS {
            let wait = (thread.since_ns, waited, thread.name.clone());
            self.waits.insert(row, wait);
            self.waits.truncate(WAITS);
        }
        self.wait(thread, to, kind == 2);
    }

    /// Keeps a wait, where it is as long as a tick and fits.
    fn wait(&mut self, thread: &Thread, to: Ns, is_throttled: bool) {
        // Waits on different CPUs are told in any order within a kernel operation: one that ends
        // before the wait told before it counts as ending with it.
        let end = (to / TICK_NS).max(self.held_end);
        let length = end - thread.since_ns / TICK_NS;
        let is_short = to / TICK_NS == thread.since_ns / TICK_NS;
        if is_short || !self.fits(thread.since_ns, to) {
            return;
        }
        let name = self.name_row(thread) as u64;
        self.held.put(end - self.held_end);
        self.held.put(length);
        self.held.put(2 * name + u64::from(is_throttled));
        self.held_end = end;
    }

    fn power_row(&self) -> usize {
        self.scene.cpus + self.scene.groups.len() * 3
    }

    /// The scene of a run that is over.
    pub(crate) fn finish(mut self, world: &mut World) -> Scene {
        let end = world.now();
        for row in 0..self.throttled_since.len() {
            if self.throttled_since[row].is_some() {
                let group = GroupId::from(row / self.scene.cpus);
                self.throttle(end, group, Cpu::from(row % self.scene.cpus), false);
            }
        }
        let power_row = self.power_row();
        let (buckets, cpus) = (&self.buckets, self.scene.cpus);
        let scene = &mut self.scene;
        scene.length_ms = milliseconds(end as f64);
        scene.complete = !self.dropped;
        let window = [self.budget.from_ns.min(end), self.window_end_ns.min(end)];
        scene.window_ms = window.map(|ns| milliseconds(ns as f64));
        scene.slices = self.slices.iter().map(Packed::base64).collect();
        scene.held = self.held.base64();
        scene.throttled = self.throttled.iter().map(Packed::base64).collect();
        scene.bucket_ms = buckets.width_ns as f64 / 1e6;
        let busy = (0..cpus).map(|cpu| {
            let means = buckets.means(cpu, end);
            let shares = means.iter().map(|mean| (mean * 255.0).round() as u8);
            Packed::of_bytes(shares.collect()).base64()
        });
        scene.busy = busy.collect();
        let load = |group: usize| [0, 1, 2].map(|kind| buckets.means(cpus + group * 3 + kind, end));
        scene.group_load = (0..scene.groups.len()).map(load).collect();
        leave_out_quiet(&mut scene.group_load);
        if self.energy.is_some() {
            scene.watts = buckets.means(power_row, end);
        }
        if self.clocks_mhz.iter().any(|mhz| *mhz > 0) {
            scene.mhz = buckets.means(power_row + 1, end);
        }
        for one in &mut scene.periods {
            let rows = self.demands[one.group].rows_ns().iter();
            let mean = |ns: &Ns| milliseconds(*ns as f64 / one.merged as f64);
            one.wanted_ms = rows.map(mean).collect();
        }
        // A page shows the first limited group.
        let (in_target, periods) = (&self.in_target, &mut scene.periods);
        periods.sort_by_key(|one| !in_target[one.group]);
        scene.hardware = hardware(world);
        let waits = self.waits.drain(..);
        let told = waits
            .map(|(at, length, who)| (milliseconds(at as f64), milliseconds(length as f64), who));
        scene.waits = told.collect();
        self.scene
    }
}

/// Groups that do next to nothing beside the others, and the root where there are others, are left
/// out.
fn leave_out_quiet(group_load: &mut [[Vec<f32>; 3]]) {
    let sum = |load: &[Vec<f32>; 3]| load.iter().flatten().map(|mean| f64::from(*mean)).sum();
    let sums: Vec<f64> = group_load.iter().map(sum).collect();
    let most = sums[1..].iter().copied().fold(0.0, f64::max);
    for (row, load) in group_load.iter_mut().enumerate() {
        let quiet = if row == 0 {
            most > 0.0
        } else {
            sums[row] < most / 200.0
        };
        if quiet {
            *load = Default::default();
        }
    }
}

impl GroupPeriods {
    fn new(group: usize) -> Self {
        Self {
            group,
            merged: 1,
            ..Self::default()
        }
    }

    fn series(&mut self) -> [&mut Vec<f64>; 4] {
        [
            &mut self.granted_ms,
            &mut self.used_ms,
            &mut self.throttled_ms,
            &mut self.left_ms,
        ]
    }

    /// Two rows become one.
    fn halve(&mut self) {
        self.merged *= 2;
        self.at_ms = self
            .at_ms
            .chunks(2)
            .map(|pair| pair[pair.len() - 1])
            .collect();
        for series in self.series() {
            let mean = |pair: &[f64]| pair.iter().sum::<f64>() / pair.len() as f64;
            *series = series.chunks(2).map(mean).collect();
        }
    }

    /// One period; `demand` is told where rows end.
    fn push(&mut self, pending: &mut Vec<[f64; 5]>, demand: &mut Demand, row: [f64; 5]) {
        pending.push(row);
        if pending.len() < self.merged {
            return;
        }
        let count = pending.len() as f64;
        let mean = |column: usize| {
            let sum: f64 = pending.iter().map(|row| row[column]).sum();
            milliseconds(sum / count * 1e6)
        };
        let means = [1, 2, 3, 4].map(mean);
        self.at_ms.push(row[0]);
        for (series, mean) in self.series().into_iter().zip(means) {
            series.push(mean);
        }
        pending.clear();
        demand.close((row[0] * 1e6) as Ns);
        if self.at_ms.len() >= PERIODS {
            self.halve();
            demand.halve();
        }
    }
}

impl Picture for Sketch {
    fn begins(&mut self, cpus: usize, paths: &[String], parents: &[Option<GroupId>]) {
        self.scene.cpus = cpus;
        self.scene.groups = paths.to_vec();
        self.parents = parents.to_vec();
        let target = self.budget.target.as_deref().unwrap_or("/");
        self.in_target = paths.iter().map(|path| is_within(path, target)).collect();
        self.slices = vec![Packed::default(); cpus];
        self.slice_ends = vec![0; cpus];
        self.throttled = vec![Packed::default(); paths.len()];
        self.throttled_begins = vec![0; paths.len()];
        self.throttled_since = vec![None; paths.len() * cpus];
        self.granted_ns = vec![None; paths.len()];
        self.demands = vec![Demand::default(); paths.len()];
        self.clocks_mhz = vec![0; cpus];
        self.buckets = Buckets::new(cpus + paths.len() * 3 + 2, self.budget.buckets);
    }

    fn changes(&mut self, at: Ns, thread: &Thread, _to: State) {
        if let State::Running(cpu) = thread.state {
            self.ran(cpu, thread, at);
        }
        self.load(thread, at);
    }

    fn activation(&mut self, at: Ns, thread: &Thread, done: bool) {
        let from = thread.active_since_ns;
        let to = if done {
            from + thread.active_used_ns
        } else {
            at
        };
        let mut above = Some(thread.group);
        while let Some(group) = above {
            self.demands[group.index()].add(from, to.min(at));
            above = self.parents[group.index()];
        }
    }

    fn throttle(&mut self, at: Ns, group: GroupId, cpu: Cpu, throttled: bool) {
        let row = group.index() * self.scene.cpus + cpu.index();
        if throttled {
            self.throttled_since[row] = Some(at);
            return;
        }
        let Some(since) = self.throttled_since[row].take() else {
            return;
        };
        if !self.fits(since, at) {
            return;
        }
        let row = group.index();
        // Spans of different CPUs end in any order; a begin before that of the span before counts
        // as its.
        let begin = (since / TICK_NS).max(self.throttled_begins[row]);
        let packed = &mut self.throttled[row];
        packed.put(cpu.index() as u64);
        packed.put(begin - self.throttled_begins[row]);
        packed.put((at / TICK_NS).saturating_sub(begin));
        self.throttled_begins[row] = begin;
    }

    fn period(&mut self, period: &Period) {
        let row = period.group.index();
        let granted = self.granted_ns[row].replace(period.pool_after_ns);
        let Some(granted) = granted else {
            self.demands[row].close(period.at_ns);
            return;
        };
        let known = self.scene.periods.iter().position(|one| one.group == row);
        let index = known.unwrap_or_else(|| {
            self.scene.periods.push(GroupPeriods::new(row));
            self.pending.push(Vec::new());
            self.scene.periods.len() - 1
        });
        let ms = |ns: f64| ns / 1e6;
        let values = [
            milliseconds(period.at_ns as f64),
            ms(granted as f64),
            ms(period.used_ns as f64),
            ms(period.throttled_ns as f64),
            ms(period.pool_before_ns as f64),
        ];
        let demand = &mut self.demands[row];
        self.scene.periods[index].push(&mut self.pending[index], demand, values);
    }

    fn frequency(&mut self, _at: Ns, cpu: Cpu, mhz: u32) {
        self.clocks_mhz[cpu.index()] = mhz;
    }

    fn step(&mut self, world: &mut World) {
        let now = world.now();
        let before = std::mem::replace(&mut self.sampled_ns, now);
        let power_row = self.power_row();
        if let Some(joules) = world.package_joules() {
            let (_, last) = self.energy.replace((now, joules)).unwrap_or((0, 0.0));
            let watts = (joules - last) / ((now - before).max(1) as f64 / 1e9);
            self.buckets.add(power_row, before, now, watts);
        }
        let known = self.clocks_mhz.iter().filter(|mhz| **mhz > 0);
        let (sum, count) = known.fold((0.0, 0), |(sum, count), mhz| {
            (sum + f64::from(*mhz), count + 1)
        });
        if count > 0 {
            let mean = sum / f64::from(count);
            self.buckets.add(power_row + 1, before, now, mean);
        }
    }
}
