//! Samples of a group's own counters every few milliseconds: a recording that needs no permission
//! but to read them.
//!
//! Tracing needs root. A pod may still read its own `cpu.stat`, and mostly `cpu.pressure`. Read
//! every 10 ms they show how its CPU time came: 30 s are 3000 lines of 30 bytes.
//! `schedcast counters` answers from them with ranges.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use schedcast_base::cpu_stat::CpuStat;
use schedcast_base::fresh::Fresh;
use serde_json::Value;

use super::{
    Child, Description, Groups, Request, check_new, child, names_of, remove_begun, tree, write_json,
};
use crate::error::{Result, io_error, is_there, read_text, unexpected};
use crate::hierarchy::{CpuHierarchy, USAGE};
use crate::stat::CpuTimes;
use crate::sys;

const FILE: &str = "samples.csv";

/// Summary of the samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// The group.
    pub cgroup: String,
    /// From the first sample to the last.
    pub duration: Duration,
    /// How many there are.
    pub samples: u64,
    /// CPU time that the recorder used, ns.
    pub own_cpu_ns: u64,
    /// Whether the group was throttled meanwhile.
    pub is_throttled: bool,
    /// Whether it used CPU time at all.
    pub is_used: bool,
    /// Exit code of the command, where there was one that ended by itself.
    pub exit_code: Option<i32>,
    /// Whether the group went away, which ended the samples.
    pub is_group_gone: bool,
}

/// The files of a group that are sampled.
struct Counters {
    stat: PathBuf,
    /// Version 1 counts CPU time in a controller of its own.
    usage: Option<PathBuf>,
    pressure: Option<PathBuf>,
}

/// One look at them, in microseconds.
struct Sample {
    usage_us: u64,
    nr_throttled: u64,
    pressure_us: u64,
    /// `cpu.stat` and, on version 1, `cpuacct.usage` as they were read.
    texts: (String, Option<String>),
}

/// Time in which some task waited, from `some avg10=0.00 avg60=0.00 avg300=0.00 total=1200`.
fn waited_us(text: &str) -> Option<u64> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.rsplit_once("total=")?.1.trim().parse().ok()
}

impl Counters {
    fn of(hierarchy: &CpuHierarchy, path: &str, dir: &Path) -> Counters {
        let accounting = hierarchy.accounting();
        let pressure = dir.join("cpu.pressure");
        Counters {
            stat: dir.join("cpu.stat"),
            usage: accounting.and_then(|accounting| accounting.usage_file(path)),
            pressure: fs::read_to_string(&pressure)
                .is_ok_and(|text| waited_us(&text).is_some())
                .then_some(pressure),
        }
    }

    fn look(&self) -> Result<Sample> {
        let missing = |path: &Path, expected: &'static str, found: &str| {
            unexpected(path, 0, expected, found.lines().next().unwrap_or(""))
        };
        let text = read_text(&self.stat)?;
        let stat = CpuStat::known(&text);
        let mut usage_text = None;
        let usage_us = match &self.usage {
            None => {
                let usage_ns = stat.usage_ns;
                let expected =
                    "a line usage_usec, or a group in cpuacct (cpuacct.usage) with its processes";
                usage_ns.ok_or_else(|| missing(&self.stat, expected, &text))? / 1000
            }
            Some(file) => {
                let text = read_text(file)?;
                let used_ns: std::result::Result<u64, _> = text.trim().parse();
                let used_ns = used_ns.map_err(|_| missing(file, "CPU time in ns", &text))?;
                usage_text = Some(text);
                used_ns / 1000
            }
        };
        let pressure = match &self.pressure {
            Some(file) => waited_us(&read_text(file)?).unwrap_or(0),
            None => 0,
        };
        Ok(Sample {
            usage_us,
            nr_throttled: stat.nr_throttled.unwrap_or(0),
            pressure_us: pressure,
            texts: (text, usage_text),
        })
    }

    fn header(&self) -> &'static str {
        match self.pressure {
            Some(_) => "at_us,usage_us,nr_throttled,pressure_us\n",
            None => "at_us,usage_us,nr_throttled\n",
        }
    }

    fn line(&self, at_us: u64, sample: &Sample) -> String {
        let counted = format!("{at_us},{},{}", sample.usage_us, sample.nr_throttled);
        match self.pressure {
            Some(_) => format!("{counted},{}\n", sample.pressure_us),
            None => format!("{counted}\n"),
        }
    }
}

impl Sample {
    /// A group that had these counters when it was last there, with the settings of `group`.
    fn over(&self, group: &Value) -> Value {
        let (stat, usage) = &self.texts;
        let mut group = group.clone();
        group["cpu.stat"] = stat.trim_end().into();
        if let Some(usage) = usage {
            group[USAGE] = usage.trim_end().into();
        }
        group["tasks"] = Value::Array(Vec::new());
        group
    }
}

/// Samples the group of the request, or this process's own, until the command ends, the time is
/// over or `stop` is set.
///
/// # Errors
/// An existing recording in the folder, counters that cannot be read, a full disk. No recording is
/// left then. If the group goes away, the recording ends with the last look at it.
pub fn sample(request: &Request, every: Duration, stop: &AtomicBool) -> Result<Sampled> {
    child::refuse_missing(&request.command)?;
    let hierarchy = CpuHierarchy::detect()?;
    let cgroup = match &request.cgroup {
        Some(path) => path.clone(),
        None => hierarchy.own_group()?,
    };
    let dir = hierarchy.existing(&cgroup)?;
    let counters = Counters::of(&hierarchy, &cgroup, &dir);
    counters.look()?;
    let description = Description::read(&hierarchy)?;
    let is_folder_new = !is_there(&request.folder)?;
    let _own = check_new(&request.folder)?;
    let group = (&hierarchy, cgroup);
    let sampled = sample_described(request, every, stop, group, &counters, &description);
    sampled.inspect_err(|_| remove_begun(&request.folder, is_folder_new))
}

/// Samples into the folder, which is there.
fn sample_described(
    request: &Request,
    every: Duration,
    stop: &AtomicBool,
    (hierarchy, cgroup): (&CpuHierarchy, String),
    counters: &Counters,
    description: &Description,
) -> Result<Sampled> {
    let dir = hierarchy.existing(&cgroup)?;
    let file = request.folder.join(FILE);
    let writing = |error| io_error("writing", &file, error);
    let mut table = Fresh::create(&file).map_err(writing)?;
    let named = request.cgroup.as_ref();
    let folders = named.map(|_| hierarchy.folders_of(&dir));
    let mut child = Child::start_stopped(&request.command, &folders.unwrap_or_default())?;
    let before = tree::read(hierarchy, Some(&cgroup))?;
    let times = CpuTimes::read()?;
    let own_before_ns = sys::own_cpu_ns();
    if let Some(child) = &child {
        child.go_on();
    }
    let header = counters.header().as_bytes();
    table.write_all(header).map_err(writing)?;
    let (begin, start_ns) = (Instant::now(), sys::monotonic_ns());
    let first = counters.look()?;
    let (was_used, was_throttled) = (first.usage_us, first.nr_throttled);
    let (mut last, mut samples, mut exit_code) = (first, 0u64, None);
    let mut due = Duration::ZERO;
    let is_group_gone = loop {
        let at_us = begin.elapsed().as_micros() as u64;
        if samples > 0 {
            last = match counters.look() {
                Err(_) if !dir.exists() => break true,
                look => look?,
            };
        }
        let line = counters.line(at_us, &last);
        table.write_all(line.as_bytes()).map_err(writing)?;
        samples += 1;
        exit_code = exit_code.or(child.as_mut().and_then(Child::ended));
        let over = request
            .duration
            .is_some_and(|longest| begin.elapsed() >= longest);
        if exit_code.is_some() || over || stop.load(Ordering::Relaxed) {
            break false;
        }
        // A look that came late is not made up for.
        due = (due + every).max(begin.elapsed());
        std::thread::sleep(due.saturating_sub(begin.elapsed()));
    };
    let end_ns = sys::monotonic_ns();
    let mut after = tree::read(hierarchy, Some(&cgroup))?;
    // It may as well go away between the last look and this one.
    let is_group_gone = is_group_gone || !after.contains_key(&cgroup);
    if let Some(group) = before.get(&cgroup).filter(|_| is_group_gone) {
        after.insert(cgroup.clone(), last.over(group));
    }
    drop(child);
    table.keep().map_err(writing)?;
    let folder = &request.folder;
    let trees = serde_json::json!({"before": before, "after": after});
    write_json(&folder.join("cgroups.json"), &trees)?;
    let mut meta = description.of_host(&cgroup, (start_ns, end_ns));
    meta["cgroup"] = cgroup.as_str().into();
    meta["steal_ratio"] = CpuTimes::read()?.steal_ratio_since(&times).into();
    // Names are for root on some hosts; without them the path stays.
    if let Ok(groups) = Groups::read(hierarchy, Path::new("/")) {
        let names = names_of(&groups, &before);
        if !names.is_empty() {
            meta["names"] = names.into();
        }
    }
    // Last, because it is what makes the folder a recording.
    write_json(&folder.join("recording.json"), &meta)?;
    Ok(Sampled {
        cgroup,
        duration: Duration::from_nanos(end_ns - start_ns),
        samples,
        own_cpu_ns: sys::own_cpu_ns() - own_before_ns,
        is_throttled: last.nr_throttled > was_throttled,
        is_used: last.usage_us > was_used,
        exit_code,
        is_group_gone,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(10);

    /// Samples every 10 ms; `None`, saying so, where the time of the group is not counted: version
    /// 1 with the accounting of CPU time elsewhere.
    fn sampled(request: &Request) -> Option<Sampled> {
        match sample(request, EVERY, &AtomicBool::new(false)) {
            Err(error) if error.to_string().contains("cpuacct.usage") => {
                eprintln!("skipped: {error}");
                None
            }
            sampled => Some(sampled.unwrap()),
        }
    }

    #[test]
    fn counters_of_both_versions_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let stat = "usage_usec 1200\nuser_usec 900\nnr_periods 5\nnr_throttled 2\n";
        write("cpu.stat", stat);
        let waited = "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\nfull avg10=0.00 total=5\n";
        write("cpu.pressure", waited);
        let hierarchy = CpuHierarchy::at(crate::CgroupVersion::V2, folder.path());
        let v2 = Counters::of(&hierarchy, "/", folder.path());
        let sample = v2.look().unwrap();
        assert_eq!(v2.line(10, &sample), "10,1200,2,77\n");
        let group = serde_json::json!({"cpu.max": "50000 100000", "cpu.stat": "", "tasks": [1]});
        let gone = sample.over(&group);
        assert_eq!(gone["cpu.max"], "50000 100000");
        assert_eq!(gone["cpu.stat"], stat.trim_end());
        let of_v1 = "nr_periods 5\nnr_throttled 2\nthrottled_time 9\n";
        write("cpu.stat", of_v1);
        let refused = v2.look().err().unwrap().to_string();
        assert!(refused.contains("usage_usec"), "{refused}");
        write("cpuacct.usage", "1234567\n");
        let v1 = Counters {
            usage: Some(folder.path().join("cpuacct.usage")),
            ..v2
        };
        assert_eq!(v1.look().unwrap().usage_us, 1234);
    }

    /// A group that goes away ends the samples, and they are kept.
    #[test]
    fn the_samples_of_a_group_that_goes_away_are_kept() {
        let Ok(group) = crate::CpuCgroup::create("/", "schedcast-samples-gone") else {
            eprintln!("skipped: no group can be made here");
            return;
        };
        let path = group.path().to_owned();
        let folder = tempfile::tempdir().unwrap();
        let request = Request {
            folder: folder.path().join("r"),
            cgroup: Some(path.clone()),
            duration: Some(Duration::from_secs(20)),
            ..Request::default()
        };
        let end = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            drop(group);
        });
        let sampled = sampled(&request);
        end.join().unwrap();
        let Some(sampled) = sampled else {
            return;
        };
        assert!(sampled.is_group_gone && sampled.samples >= 3, "{sampled:?}");
        assert!(sampled.duration < Duration::from_secs(15), "{sampled:?}");
        let text = fs::read_to_string(request.folder.join("cgroups.json")).unwrap();
        let trees: Value = serde_json::from_str(&text).unwrap();
        assert!(trees["after"][&path]["cpu.stat"].is_string(), "{trees}");
    }

    /// Without a right beyond reading: this process samples its own group.
    #[test]
    fn the_own_group_is_sampled() {
        let own = CpuHierarchy::detect().and_then(|one| one.own_group());
        if own.is_err() {
            eprintln!("skipped: no cgroup with the cpu controller here");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let request = Request {
            folder: folder.path().join("r"),
            duration: Some(Duration::from_millis(200)),
            ..Request::default()
        };
        let Some(sampled) = sampled(&request) else {
            return;
        };
        assert!(sampled.samples >= 3, "{sampled:?}");
        let text = fs::read_to_string(request.folder.join(FILE)).unwrap();
        assert_eq!(text.lines().count() as u64, sampled.samples + 1);
        let text = fs::read_to_string(request.folder.join("recording.json")).unwrap();
        let meta: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(meta["cgroup"], sampled.cgroup.as_str());
        let again = sample(&request, EVERY, &AtomicBool::new(false));
        assert!(again.unwrap_err().to_string().contains("already"));
    }
}
