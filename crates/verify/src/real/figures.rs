//! Figures of a real run, under the names that the simulation gives it.

use std::time::Duration;

use schedcast_base::groups::is_within;
use schedcast_host::CommandReport;
use schedcast_host::real::RealRun;
use schedcast_lab::experiment::cgroup::{CgroupSettings, Weight};
use schedcast_lab::experiment::program::{Action, Program};
use schedcast_lab::outcome::MetricMap;
use schedcast_lab::recording::Recorded;
use schedcast_workload::programs::printed;

use super::{Prepared, Purpose};

/// Fewer activations than this have no quantiles.
const COUNT_MIN: u64 = 20;

/// Texts that a real group must have in its files to be one with these settings.
pub(super) fn files(group: &CgroupSettings) -> Vec<(String, String)> {
    let (weight, value) = match group.weight {
        _ if group.idle => ("cpu.idle", 1),
        Weight::Weight(weight) => ("cpu.weight", weight),
        Weight::Shares(_) | Weight::Nice(_) => ("cpu.shares", group.shares()),
    };
    let mut files = vec![(weight.to_owned(), value.to_string())];
    let mut put = |file: &str, value: String| files.push((file.to_owned(), value));
    let limits = group.limits;
    if limits.quota_us.is_some() {
        put("cpu.max", limits.cpu_max());
    }
    if limits.burst_us > 0 {
        put("cpu.max.burst", limits.burst_us.to_string());
    }
    for (file, value) in group.clamp_files() {
        put(file, value);
    }
    files
}

impl Prepared<'_> {
    /// Figures of one run from tools and counters.
    pub(super) fn counters(&self, real: &RealRun) -> MetricMap {
        let is_shown = matches!(self.purpose, Purpose::Shown);
        let mut figures = MetricMap::new();
        let commands = self.commands.iter().zip(&real.report.commands);
        for ((known, command), served) in commands.zip(&real.servers) {
            let name = &known.program.name;
            if is_shown && self.setup.window.is_none() {
                figures.insert(format!("{name}/time"), command.wall_ns as f64 / 1e9);
            }
            // Ended programs have not told the usage of their children, and no program tells its
            // usage in a part of the time.
            if !real.report.timed_out && self.setup.window.is_none() {
                figures.extend(cpu_times(name, command, *served));
                if is_shown {
                    let usage = command.usage;
                    let switches = usage.voluntary_switches + usage.involuntary_switches;
                    figures.insert(format!("{name}/switches"), switches as f64);
                }
            }
            let text = String::from_utf8_lossy(&command.stdout);
            figures.extend(printed::metrics(known.tool, &known.words, name, &text));
        }
        for (group, stat) in self.setup.groups.iter().zip(&real.groups) {
            let path = &group.path;
            // Version 1 of cgroups counts it elsewhere.
            let of_programs =
                || (!is_shown && self.setup.window.is_none()).then(|| self.used_in(path, real));
            let us = |ns: u64| ns as f64 / 1e3;
            let counts = [
                ("nr_periods", stat.nr_periods.map(|count| count as f64)),
                ("nr_throttled", stat.nr_throttled.map(|count| count as f64)),
                ("throttled_usec", stat.throttled_ns.map(us)),
                ("nr_bursts", stat.nr_bursts.map(|count| count as f64)),
                ("burst_usec", stat.burst_ns.map(us)),
                ("usage_usec", stat.usage_ns.or_else(of_programs).map(us)),
            ];
            for (file, value) in counts {
                figures.extend(value.map(|value| (format!("cgroup:{path}/{file}"), value)));
            }
        }
        figures
    }

    /// CPU time of the programs and servers in a group and below it, ns.
    fn used_in(&self, group: &str, real: &RealRun) -> u64 {
        let inside = |path: &str| is_within(path, group);
        let mut used_ns = 0;
        let used = real.report.commands.iter().zip(&real.servers);
        for (program, (command, served)) in self.setup.programs.iter().zip(used) {
            if inside(&program.cgroup) {
                used_ns += command.cpu_ns();
            }
            if program.server_cgroup().is_some_and(inside) {
                used_ns += served.map_or(0, |served| served.as_nanos() as u64);
            }
        }
        used_ns
    }

    /// The latencies that a recording shows, under the names of the simulated threads.
    pub(super) fn latencies(&self, recorded: &Recorded) -> MetricMap {
        let mut figures = MetricMap::new();
        let seen = recorded.seen.figures.iter();
        for threads in seen.flat_map(|seen| &seen.threads) {
            let programs = self.scenario.programs.iter().zip(&self.setup.programs);
            let mut names = programs.filter_map(|(program, setup)| {
                let server = setup.server.as_ref();
                match server.is_some_and(|(client, _)| client.server_name() == threads.name) {
                    true => Some(format!("{}-server", program.name)),
                    false => (tool_of(program) == threads.name).then(|| program.name.clone()),
                }
            });
            let plain = || plain_name(&threads.name).to_owned();
            let name = names.next().unwrap_or_else(plain);
            for (kind, of) in [
                ("turn_latency", &threads.turn_latency),
                ("wakeup_latency", &threads.wakeup_latency),
            ] {
                if of.count >= COUNT_MIN {
                    figures.insert(format!("{name}/{kind}.p50"), of.p50_ns as f64 / 1000.0);
                    figures.insert(format!("{name}/{kind}.p99"), of.p99_ns as f64 / 1000.0);
                }
            }
        }
        figures
    }
}

/// CPU time of a program of this name, of which its server is a part, and of that server.
fn cpu_times(
    name: &str,
    command: &CommandReport,
    served: Option<Duration>,
) -> impl Iterator<Item = (String, f64)> {
    let served_s = served.map(|served| served.as_secs_f64());
    let all_s = command.cpu_ns() as f64 / 1e9 + served_s.unwrap_or(0.0);
    let of_server = served_s.map(|seconds| (format!("{name}-server/cpu_time"), seconds));
    [(format!("{name}/cpu_time"), all_s)]
        .into_iter()
        .chain(of_server)
}

/// Name of the program's executable, which is also that of most of its threads; empty for programs
/// that are no command.
fn tool_of(program: &Program) -> &str {
    let Action::Run(words) = &program.action.value else {
        return "";
    };
    let word = words.first().map_or("", String::as_str);
    word.rsplit('/').next().unwrap_or(word)
}

/// The name that an rt-app file gives a thread: rt-app itself adds `-0`, `-1`, ….
fn plain_name(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((plain, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => plain,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_simulation() {
        assert_eq!(plain_name("fast-0"), "fast");
        assert_eq!(plain_name("kworker/0:1-ev"), "kworker/0:1-ev");
    }
}
