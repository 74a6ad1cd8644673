//! Whether the machine was ours: repeats disturbed by other programs or by the hypervisor do not
//! count.

use std::error::Error;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use schedcast_base::disturbed::{OTHERS_MAX, STEAL_MAX};
use schedcast_host::{CpuTimes, sys};

/// Length of a tick of `/proc/stat`.
const TICK_NS: u64 = 10_000_000;
/// Waiting for the machine to fall quiet is given up after this time.
const WAIT_MAX: Duration = Duration::from_secs(4);
/// A section that has run for this long makes do with the repeats it has.
const SECTION_MAX_NS: u64 = 70_000_000_000;

/// Repeats that counted, and how many did not.
pub(crate) struct Repeats<T> {
    pub kept: Vec<T>,
    pub disturbed: usize,
}

impl<T> Repeats<T> {
    /// A remark for the page, when repeats were dropped.
    pub(crate) fn remark(&self) -> String {
        match self.disturbed {
            0 => String::new(),
            n => format!(
                " {n} further repeats lost more than 1 % of the machine to the hypervisor or 3 % to other programs and do not count."
            ),
        }
    }
}

/// Whether what other programs do on the machine touches a measurement.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Others {
    /// It does: idle CPUs, latencies, a busy neighbour.
    Matter,
    /// It does not: a ratio between tasks of a group that outweighs all others.
    DoNotMatter,
}

/// Repeats a measurement until `wanted` repeats were undisturbed, trying at most twice as often.
pub(crate) fn repeat<T>(
    wanted: usize,
    others: Others,
    mut measure: impl FnMut() -> Result<T, Box<dyn Error>>,
) -> Result<Repeats<T>, Box<dyn Error>> {
    started_ns();
    let mut repeats = Repeats {
        kept: Vec::new(),
        disturbed: 0,
    };
    for _ in 0..2 * wanted {
        if others == Others::Matter {
            wait_until_quiet()?;
        }
        let before = Used::read()?;
        let result = measure()?;
        if Used::read()?.is_disturbed_since(&before, others) {
            repeats.disturbed += 1;
        } else {
            repeats.kept.push(result);
        }
        let late = sys::monotonic_ns() > started_ns() + SECTION_MAX_NS;
        if repeats.kept.len() == wanted || (late && !repeats.kept.is_empty()) {
            break;
        }
    }
    if repeats.kept.is_empty() {
        return Err("every repeat was disturbed by other programs or the hypervisor".into());
    }
    Ok(repeats)
}

/// When this program began to measure.
fn started_ns() -> u64 {
    static STARTED_NS: OnceLock<u64> = OnceLock::new();
    *STARTED_NS.get_or_init(sys::monotonic_ns)
}

/// CPU time used on the machine so far.
struct Used {
    times: CpuTimes,
    /// CPU time of all tasks, ns.
    all_ns: u64,
    /// CPU time of this program and its ended children, ns.
    own_ns: u64,
}

impl Used {
    fn read() -> Result<Self, Box<dyn Error>> {
        let times = CpuTimes::read()?;
        Ok(Self {
            times,
            all_ns: CpuTimes::used_ns().unwrap_or(times.busy_ticks * TICK_NS),
            own_ns: sys::process_cpu_ns(),
        })
    }

    /// Two ticks either way prove nothing, since `/proc/stat` counts whole ones.
    fn is_disturbed_since(&self, before: &Self, others: Others) -> bool {
        let total_ticks = (self.times.total_ticks - before.times.total_ticks) as f64;
        let allowed = |share: f64| (total_ticks * share).max(2.0);
        let steal_ticks = (self.times.steal_ticks - before.times.steal_ticks) as f64;
        let others_ns = (self.all_ns - before.all_ns) as f64 - (self.own_ns - before.own_ns) as f64;
        let others_ticks = others_ns / TICK_NS as f64;
        let crowded = others == Others::Matter && others_ticks > allowed(OTHERS_MAX);
        let disturbed = steal_ticks > allowed(STEAL_MAX) || crowded;
        if disturbed {
            eprintln!(
                "disturbed: of {total_ticks} ticks {steal_ticks} stolen, {others_ticks:.1} used by others"
            );
        }
        disturbed
    }
}

/// Waits for other programs to end what they do, for a while.
fn wait_until_quiet() -> Result<(), Box<dyn Error>> {
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        let before = CpuTimes::read()?;
        sleep(Duration::from_millis(200));
        let after = CpuTimes::read()?;
        let used = after.busy_ticks + after.steal_ticks - before.busy_ticks - before.steal_ticks;
        if used <= 1 || Instant::now() > deadline {
            return Ok(());
        }
    }
}
