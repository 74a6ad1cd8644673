//! The power of a core with four and with eight busy threads, from the unpatched columns.
//!
//! Worked example, with an idle power of 45 W: one group takes 80.4 W over the whole time and runs
//! in half of it, so 2·80.4 − 45 = 115.9 W while it runs on four threads of each core; two aligned
//! groups take 91 W, so 137 W on eight.

use schedcast_lab::error::{Error, Result};

use super::Variants;
use crate::studies::Given;
use crate::studies::published::Kernel;

/// Share of the time a group with a quota of half of its threads' time runs.
const DUTY: f64 = 0.5;

/// Sets the power of the cores.
pub(super) fn fit(variants: &mut Variants, given: &mut Given) -> Result<()> {
    let (known, _, prediction) = given.parts();
    let mean_watts = |groups: &str| {
        known.mean("the power", |asked| {
            let base = asked.kernel == Kernel::Base;
            asked.metric == "socket_power" && asked.point.starts_with(groups) && base
        })
    };
    let (one, two) = (mean_watts("1CG")?, mean_watts("2CG")?);
    let machine = &variants.one_base.machine.machine;
    let (Some(power), Some(idle)) = (&machine.power, &machine.idle) else {
        return Err(Error::general("the machine has no power"));
    };
    let deepest = idle.state.last();
    let asleep = deepest.map_or((0, 0), |state| {
        let uncore_mw = state.uncore_mw.unwrap_or(power.uncore_mw);
        (state.core_mw.unwrap_or(0), uncore_mw)
    });
    let cores = 8.0;
    let idle_w = (asleep.1 as f64 + cores * asleep.0 as f64) / 1000.0;
    let uncore_w = power.uncore_mw as f64 / 1000.0;
    // Cores alone, while groups run on four and on eight threads of each.
    let busy = |mean_w: f64| (mean_w - (1.0 - DUTY) * idle_w) / DUTY - uncore_w;
    let (four, eight) = (busy(one) / cores, busy(two) / cores);
    let each_further = (eight - four) / 4.0;
    let first = four - 3.0 * each_further;
    let core_mw = (first * 1000.0).round() as u64;
    let percent = (100.0 * each_further / first).round() as u64;
    for scenario in variants.all() {
        if let Some(power) = &mut scenario.machine.machine.power {
            for point in &mut power.active {
                point.core_mw = core_mw;
            }
            power.further_thread_percent = percent;
        }
    }
    prediction.constant("idle power P0", idle_w, "W", "not published, taken");
    let from = "power of 1CG and 2CG, base";
    prediction.constant("core with one thread", core_mw as f64, "mW", from);
    prediction.constant("each further thread", percent as f64, "%", from);
    Ok(())
}
