//! Map of tasks and CPUs: a row a switch, a column a CPU, two letters a task.

use std::collections::BTreeMap;

use schedcast_trace::{CommId, EventKind, Pid, Recording};

use super::{Selection, name, seconds};

/// Two letters a task, in the order of appearance: A0 … Z0, A1 … Z9, then from the start again.
pub(super) fn letters(index: usize) -> String {
    let (letter, digit) = (index % 26, index / 26 % 10);
    format!("{}{digit}", char::from(b'A' + letter as u8))
}

/// Prints the map; a star marks the CPU that switches, a dot an idle CPU.
pub fn map(recording: &Recording, selection: &Selection) -> String {
    let seen = (0..recording.cpus()).chain(recording.counts.cpus_seen());
    let columns: std::collections::BTreeSet<u32> =
        seen.filter(|cpu| selection.has_cpu(*cpu)).collect();
    let mut names: BTreeMap<Pid, (String, CommId)> = BTreeMap::new();
    let mut current: BTreeMap<u32, String> = BTreeMap::new();
    let mut text = String::new();
    let mut given = 0;
    let mut idle_is_named = false;
    for event in &recording.events {
        let EventKind::Switch(switch) = event.kind else {
            continue;
        };
        let (next_pid, next_comm) = (switch.next.pid, switch.next.comm);
        if !columns.contains(&event.cpu) || !selection.has_time(event.time_ns) {
            continue;
        }
        let next_name = name(recording, next_comm);
        let mut legend = None;
        let short = if next_pid == 0 {
            if !idle_is_named {
                legend = Some(format!(".  => {}", name_of_idle(&next_name)));
                idle_is_named = true;
            }
            ".".to_owned()
        } else if !selection.has_task(next_pid, &next_name) {
            "-".to_owned()
        } else {
            let (short, known) = names.entry(next_pid).or_insert_with(|| {
                given += 1;
                (letters(given - 1), CommId(u32::MAX))
            });
            if *known != next_comm {
                *known = next_comm;
                legend = Some(format!("{short} => {next_name}:{next_pid}"));
            }
            short.clone()
        };
        current.insert(event.cpu, short);
        row(&mut text, &columns, &current, event.cpu);
        text += &format!("  {:>12} secs", seconds(event.time_ns));
        if let Some(legend) = legend {
            text += &format!(" {legend}");
        }
        text.push('\n');
    }
    text
}

/// The idle tasks of all CPUs share one entry: `swapper/3` is `swapper:0`.
fn name_of_idle(name: &str) -> String {
    format!("{}:0", name.split('/').next().unwrap_or(name))
}

fn row(
    text: &mut String,
    columns: &std::collections::BTreeSet<u32>,
    current: &BTreeMap<u32, String>,
    switching: u32,
) {
    text.push(' ');
    for cpu in columns {
        let star = if *cpu == switching { '*' } else { ' ' };
        let short = current.get(cpu).map_or("", String::as_str);
        *text += &format!("{star}{short:<2} ");
    }
}
