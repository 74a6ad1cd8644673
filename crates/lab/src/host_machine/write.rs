//! Measured figures as a machine description with a comment on each.

use schedcast_host::Topology;
use schedcast_host::calibrate::{CalibrationRun, Figure, IDLE_RESTS_NS, WORKING_SET_KIB};
use schedcast_sim::Machine;

use super::{BASE, base, parse, parts};
use crate::error::{Error, Result};

/// The description of this machine with these figures. `when` says when, where and on what they
/// were measured.
///
/// # Errors
/// Figures that are no machine, for instance of a preset that lacks a key.
pub fn calibrated(
    topology: &Topology,
    measured: &CalibrationRun,
    figures: &[Figure],
    when: &str,
) -> Result<String> {
    let cpus = topology.cpus.len();
    let mut text = format!(
        "# Written by `schedcast calibrate`. {when}; steal {:.2} %.\n\
         # Behind each figure: the same from the 10 % and the 90 % quantile of what it comes from, and what that is.\n\
         schema = \"schedcast.machine/1\"\n\
         title = \"{cpus} CPUs, calibrated: {}\"\n\n",
        measured.steal_ratio * 100.0,
        when.replace(['"', '\\'], "")
    );
    let live = parts::live(topology)?;
    text += &toml::to_string(&live).map_err(|error| Error::general(error.to_string()))?;
    text.push('\n');
    let stand_in = parse(BASE, base())?;
    for name in ["cost", "latency"] {
        let keys = stand_in.get(name).and_then(toml::Value::as_table);
        text += &format!("[{name}]\n");
        for (key, value) in keys.into_iter().flatten() {
            match figure(figures, name, key) {
                Some(figure) => text += &line(key, figure),
                None => {
                    text += &format!("{key} = {value} # not measured, as {BASE}\n");
                }
            }
        }
        let told_apart = |key: &str| !keys.is_some_and(|keys| keys.contains_key(key));
        for figure in figures {
            if let Some((section, key)) = figure.key.split_once('.')
                && section == name
                && told_apart(key)
            {
                text += &line(key, figure);
            }
        }
        text.push('\n');
    }
    text += &section(figures, "program_cost", "");
    if !live.contains_key("idle") {
        text += &halt(topology, figures);
    }
    text += &section(
        figures,
        "migration",
        &format!("# Of {WORKING_SET_KIB} KiB.\n"),
    );
    text += &siblings(measured);
    text += &lateness(measured);
    // Whatever was measured, what is written can be read again.
    Machine::parse("calibration", &text).map_err(|error| Error::general(error.to_string()))?;
    Ok(text)
}

fn figure<'a>(figures: &'a [Figure], section: &str, key: &str) -> Option<&'a Figure> {
    let named = |figure: &&Figure| figure.key.split_once('.') == Some((section, key));
    figures.iter().find(named)
}

fn line(key: &str, figure: &Figure) -> String {
    let (low, high) = figure.spread;
    format!(
        "{key} = {} # {low} - {high}: {}\n",
        figure.value, figure.source
    )
}

/// Idling of a CPU whose idle driver does not say how long its states take to leave, as in virtual
/// machines: it halts at once, or polls where it may not sleep.
fn halt(topology: &Topology, figures: &[Figure]) -> String {
    let exits: Vec<&Figure> = figures
        .iter()
        .filter(|figure| figure.key.starts_with("idle."))
        .collect();
    if exits.len() != IDLE_RESTS_NS.len() {
        return String::new();
    }
    let points: Vec<String> = IDLE_RESTS_NS
        .iter()
        .zip(&exits)
        .map(|(stay_ns, exit)| format!("[{stay_ns}, {}]", exit.value))
        .collect();
    let spreads: Vec<String> = exits
        .iter()
        .map(|exit| format!("{} - {}", exit.spread.0, exit.spread.1))
        .collect();
    format!(
        "[idle]\ngovernor = \"haltpoll\"\nguest_halt_poll_ns = {}\n\n\
         [[idle.state]]\nname = \"POLL\"\nexit_latency_ns = 0\ntarget_residency_ns = 0\nwakes_by = \"polling\"\n\n\
         # Time idled, and from the end of a waking call to the wakee, less the same on a CPU kept busy; spreads {}.\n\
         [[idle.state]]\nname = \"halt\"\nexit_latency_ns = 1000\ntarget_residency_ns = 1000\n\
         exit_after_stay_ns = [{}]\nwakes_by = \"interrupt\"\n\n",
        topology.guest_halt_poll_ns(),
        spreads.join(", "),
        points.join(", ")
    )
}

/// A section that exists only when something of it was measured.
fn section(figures: &[Figure], name: &str, first: &str) -> String {
    let lines: String = figures
        .iter()
        .filter_map(|figure| {
            let (of, key) = figure.key.split_once('.')?;
            (of == name).then(|| line(key, figure))
        })
        .collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("[{name}]\n{first}{lines}\n"),
    }
}

fn siblings(measured: &CalibrationRun) -> String {
    if measured.smt.is_empty() {
        return String::new();
    }
    let speeds = measured.smt.iter();
    let speeds = speeds.map(|speed| (speed.median.round() as u32).clamp(1, 1000));
    let speeds: Vec<String> = std::iter::once(1000)
        .chain(speeds)
        .map(|speed| speed.to_string())
        .collect();
    format!(
        "# Multiplications and additions of a thread beside busy ones, to those alone.\n\
         [smt]\nthread_speed_1000ths = [{}]\n\n",
        speeds.join(", ")
    )
}

fn lateness(measured: &CalibrationRun) -> String {
    let Some(late) = &measured.lateness else {
        return String::new();
    };
    let quantiles: Vec<String> = late.quantiles_ns.iter().map(u64::to_string).collect();
    format!(
        "# hrtimer_expire_entry of the tick less when it was due, CPUs busy, {} ticks, median {:.0}, at most {:.0} ns.\n\
         [timer_interrupt]\nlate_quantiles_ns = [{}]\nlate_kept_percent = {}\n",
        late.spread.count,
        late.spread.median,
        late.spread.max,
        quantiles.join(", "),
        late.kept_percent
    )
}

#[cfg(test)]
#[path = "../../../host/src/calibrate/example.rs"]
mod example;
#[cfg(test)]
use schedcast_host::{
    calibrate::{Messages, Points},
    measure::Spread,
};

#[cfg(test)]
mod tests {
    use schedcast_base::assert_contains;
    use schedcast_host::calibrate::TimerLateness;
    use schedcast_host::calibrate::derive::figures;
    use schedcast_kernel::platform::Op;

    use super::*;
    use example::{example, spread};

    fn measured() -> CalibrationRun {
        CalibrationRun {
            pipe_alone: spread(560.0),
            messages: Messages {
                pipe: spread(500.0),
                pipe_one: spread(540.0),
                ..example().messages
            },
            lateness: Some(TimerLateness {
                quantiles_ns: vec![500, 700, 1900],
                kept_percent: 40,
                spread: spread(700.0),
            }),
            steal_ratio: 0.002,
            ..example()
        }
    }

    #[test]
    fn what_is_written_is_a_machine_with_these_figures() {
        let Ok(topology) = Topology::read() else {
            return;
        };
        let measured = measured();
        let text = calibrated(&topology, &measured, &figures(&measured), "2026-11-21").unwrap();
        let machine = Machine::parse("host.toml", &text).unwrap();
        assert_eq!(machine.price_ns(Op::Syscall), 150);
        assert_eq!(machine.price_ns(Op::IpiSend), 2550);
        assert_eq!(machine.price_ns(Op::WakeupEnd), 250);
        assert_eq!(machine.syscall_exit_ns, 90);
        assert_eq!(machine.price_ns(Op::BalanceCpu), 60);
        assert_eq!(machine.idle_exit_ns, 6480);
        // 11000 - 2300 - 513.
        assert_eq!(machine.ipi_stall_ns, 8187);
        let migration = machine.migration.unwrap();
        assert_eq!(migration.same_llc_refill_ns, 12_000);
        assert_eq!(migration.cold_speed_percent, 40);
        assert_eq!(machine.timer_interrupt.unwrap().late_kept_percent, 40);
        assert_eq!(machine.program_cost["pipe_read_ns"], 100);
        assert_contains(&text, "syscall_ns = 150 # 135 - 180: time of getppid");
        assert!(text.contains("balance_cpu_ns = 60 # not measured, as generic-8"));
    }

    #[test]
    fn threads_of_a_core_share_it() {
        let measured = CalibrationRun {
            smt: vec![spread(620.0)],
            ..measured()
        };
        assert!(siblings(&measured).contains("thread_speed_1000ths = [1000, 620]"));
    }
}
