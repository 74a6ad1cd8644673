//! The *profile* tier: a recording distilled into an experiment file whose programs are stationary
//! services.
//!
//! Worked example: `recordings/postgres-quota` becomes its machine, its kernel, its cgroups and the
//! program `postgres` of eight threads in `/pg` that take 39.7 requests a second, each for 3.2 to
//! 28.6 ms of CPU time, plus the threads of the machine that use at least a thousandth of it.
//! `schedcast run`, `compare`, `sweep` and `what-if` take the file as it is.

use std::path::Path;

use schedcast_sim::Machine;
use schedcast_trace::Recording;
use schedcast_workload::profile::{Arrivals, Distilled, Gaps, Profile};
use schedcast_workload::replay::{self, Costs};

use crate::error::Result;
use crate::experiment::document::{Kind, Table};
use crate::experiment::units::format_duration_ns;
use crate::experiment::{self, Surroundings};
use crate::recording::Recorded;
use crate::simulator::{bad_input, bad_recording};

/// Text of the experiment file that `folder` is distilled into.
///
/// # Errors
/// A recording that cannot be read or replayed, or that shows nothing to distil.
pub fn distil(folder: &Path) -> Result<String> {
    let shown = folder.display().to_string();
    let recording = Recording::open(folder).map_err(|error| bad_recording(folder, error))?;
    let recorded = Recorded::of(&recording, &shown)?;
    let surroundings = Surroundings {
        below: vec![recorded.layer.clone()],
        ..Surroundings::default()
    };
    let experiment = experiment::read(&Table::default(), &surroundings)?;
    let machine: &Machine = &experiment.scenarios[0].machine.machine;
    let options = replay::InferOptions {
        costs: Costs::new(machine.cost_ns, experiment.scenarios[0].kernel.hz),
        ..replay::InferOptions::default()
    };
    let replay = replay::infer(&recording, &options).map_err(bad_input)?;
    let profile = Profile::distil(&replay);
    if profile.services.is_empty() {
        return Err(bad_input(format!(
            "{shown}: no threads have enough requests or wakeups to distil"
        )));
    }
    Ok(text(&profile, &recorded, &shown))
}

fn text(profile: &Profile, recorded: &Recorded, folder: &str) -> String {
    let mut text = format!(
        "# A stationary workload, distilled by schedcast {} from {folder}, {}.\n",
        env!("CARGO_PKG_VERSION"),
        format_duration_ns(profile.duration_ns)
    );
    text += &format!(
        "# Left out: {} threads with {:.1} ms of CPU time together.\n\n",
        profile.left_out,
        profile.left_out_ns as f64 / 1e6
    );
    text += &format!("title = {}\n", quoted(&format!("{folder}, distilled")));
    sections(&mut text, &mut Vec::new(), &recorded.layer);
    let duration = format_duration_ns(profile.duration_ns / 1_000_000 * 1_000_000);
    text += &format!("\n[run]\nduration = {}\n", quoted(&duration));
    let mut names: Vec<&str> = Vec::new();
    for service in &profile.services {
        let name = unique(&service.name, &names);
        program(&mut text, service, &name);
        names.push(service.name.as_str());
    }
    text
}

/// The name, with a number behind it if threads of another cgroup have it, too.
fn unique(name: &str, known: &[&str]) -> String {
    let plain = name.replace(['/', ' '], "-");
    match known.iter().filter(|other| **other == name).count() {
        0 => plain,
        count => format!("{plain}-{}", count + 1),
    }
}

fn program(text: &mut String, distilled: &Distilled, name: &str) {
    let service = &distilled.service;
    let seconds = distilled.work_ns as f64 / 1e9;
    let what = match service.client {
        Some(_) => "requests",
        None => "wakeups",
    };
    *text += &format!(
        "\n# {} {what} with {seconds:.3} s of CPU time.\n[[program]]\nname = {}\n",
        distilled.requests,
        quoted(name)
    );
    if distilled.cgroup != "/" {
        *text += &format!("cgroup = {}\n", quoted(&distilled.cgroup));
    }
    *text += &format!("[program.profile]\nthreads = {}\n", service.threads);
    match &service.arrivals {
        Arrivals::Open { mean_gap_ns, gaps } => {
            let rate = 1e9 / (*mean_gap_ns).max(1) as f64;
            *text += &format!("rate = {rate:.3}  # a second\n");
            match gaps {
                Gaps::Poisson => text.push_str("arrivals = \"poisson\"\n"),
                Gaps::Even => text.push_str("arrivals = \"even\"\n"),
                Gaps::Quantiles(quantiles) => list(text, "arrivals", quantiles, 1e6, 3),
            }
        }
        Arrivals::Closed { clients, think_ns } => {
            *text += &format!("clients = {clients}\n");
            list(text, "think_us", think_ns, 1e3, 0);
        }
    }
    if service.fan_out > 1 {
        *text += &format!("fan_out = {}\n", service.fan_out);
    }
    list(text, "work_us", &service.work_ns, 1e3, 1);
    if let Some(io) = &service.io {
        *text += &format!("io_waits = {:.6}\n", io.per_million as f64 / 1e6);
        list(text, "io_wait_us", &io.wait_ns, 1e3, 0);
    }
    if let Some(client) = &service.client {
        let work_us = client.work_ns as f64 / 1e3;
        *text += &format!("client = {}\n", quoted(&client.name));
        *text += &format!("client_work_us = {work_us:.1}\n");
        if distilled.client_cgroup != "/" {
            *text += &format!("client_cgroup = {}\n", quoted(&distilled.client_cgroup));
        }
    }
    if service.nice != 0 {
        *text += &format!("nice = {}\n", service.nice);
    }
    if service.kernel {
        text.push_str("kernel = true\n");
    }
}

/// `key = [ten numbers a line]`, each divided by `unit`.
fn list(text: &mut String, key: &str, values: &[u64], unit: f64, digits: usize) {
    *text += &format!("{key} = [\n");
    for row in values.chunks(10) {
        let row: Vec<String> = row
            .iter()
            .map(|value| format!("{:.digits$}", *value as f64 / unit))
            .collect();
        *text += &format!("    {},\n", row.join(", "));
    }
    text.push_str("]\n");
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}

/// A tree of settings as sections: the plain keys of a table, then its tables.
fn sections(text: &mut String, path: &mut Vec<String>, table: &Table) {
    let is_table = |kind: &Kind| matches!(kind, Kind::Table(_));
    let (tables, plain): (Vec<_>, Vec<_>) = table
        .entries
        .iter()
        .partition(|entry| is_table(&entry.value.kind));
    if !path.is_empty() && (!plain.is_empty() || tables.is_empty()) {
        *text += &format!("\n[{}]\n", path.join("."));
    }
    for entry in plain {
        let value = match &entry.value.kind {
            Kind::Integer(number) => number.to_string(),
            Kind::Float(number) => number.to_string(),
            Kind::Boolean(on) => on.to_string(),
            Kind::Text(word) | Kind::Bare(word) => quoted(word),
            // A recording says nothing in lists.
            Kind::Array(_) | Kind::Table(_) => continue,
        };
        *text += &format!("{} = {value}\n", key(&entry.key));
    }
    for entry in tables {
        if let Kind::Table(inner) = &entry.value.kind {
            path.push(key(&entry.key));
            sections(text, path, inner);
            path.pop();
        }
    }
}

fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !name.is_empty() && name.chars().all(bare) {
        true => name.to_string(),
        false => quoted(name),
    }
}
