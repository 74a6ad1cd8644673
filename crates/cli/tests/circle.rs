//! From a recording to a limit that is applied and taken back, by tracefs and by BPF, under this
//! kernel and under others.
//!
//! Ignored: `make circle` runs it with the release binary and writes the table of
//! `docs/validity/circle.md`. What cannot run here is skipped, saying so. `CIRCLE_ONLY=6.12` takes
//! one kernel of a virtual machine, `CIRCLE_ONLY=host` this one; the page is left as it is then.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use schedcast_host::vm::{self, Accelerator, KernelImage, Order};
use schedcast_host::{CpuHierarchy, sys};
use serde_json::Value;

const ROUND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/circle/round.sh");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/validity/circle.md");
const GROUP: &str = "schedcast-circle";
/// Series of Debian's kernels.
const SERIES: [&str; 4] = ["6.1", "6.12", "6.18", "7.3"];
/// A translated guest simulates some twenty times as slowly as the host.
const PATIENCE: Duration = Duration::from_secs(900);
/// Programs that the round starts besides the shell.
const TOOLS: [&str; 6] = ["cat", "cp", "mkdir", "readlink", "rmdir", "sleep"];
/// Columns of the forecast.
const LIMITS: [&str; 2] = ["15 ms, as recorded", "40 ms"];

/// A forecast that both recordings must agree about.
struct Compared {
    metric: &'static str,
    /// Difference that the recordings themselves have, because they begin and end at most a period
    /// apart: one period, or the work of a burst of three requests.
    of_recordings: f64,
    name: &'static str,
    per_unit: f64,
}

const COMPARED: [Compared; 3] = [
    Compared {
        metric: "cgroup:/schedcast-circle/nr_throttled",
        of_recordings: 1.0,
        name: "throttled periods",
        per_unit: 1.0,
    },
    Compared {
        metric: "cgroup:/schedcast-circle/usage_usec",
        of_recordings: 60_000.0,
        name: "CPU time, ms",
        per_unit: 1000.0,
    },
    Compared {
        metric: "circle-server/activation_latency.avg",
        of_recordings: 0.0,
        name: "mean of a burst, ms",
        per_unit: 1000.0,
    },
];

/// Mean of a metric over the seeds, and where 95 % of single runs lie.
#[derive(Clone, Copy)]
struct Forecast {
    mean: f64,
    one_run: [f64; 2],
}

impl Forecast {
    fn of(answer: &Value, column: usize, metric: &str) -> Forecast {
        let found = &answer["variants"][column]["metrics"][metric];
        let all = || {
            let names = answer["variants"][column]["metrics"].as_object();
            let names = names.into_iter().flat_map(|metrics| metrics.keys());
            names.map(String::as_str).collect::<Vec<_>>().join(" ")
        };
        let number = |value: &Value| {
            let number = value.as_f64();
            number.unwrap_or_else(|| panic!("{metric}: {found} among {}", all()))
        };
        let bound = |side: usize| number(&found["one_run95"][side]);
        Forecast {
            mean: number(&found["mean"]),
            one_run: [bound(0), bound(1)],
        }
    }

    /// Whether both could be of the same load, seeds drawn differently.
    fn agrees_with(self, other: Forecast, of_recordings: f64) -> bool {
        let overlap = |side: usize| self.one_run[side].min(other.one_run[side]);
        let begin = self.one_run[0].max(other.one_run[0]);
        begin <= overlap(1) + of_recordings
    }

    fn print(self, per_unit: f64) -> String {
        let [low, high] = self.one_run.map(|bound| bound.max(0.0) / per_unit);
        format!("{:.1} ({low:.1} to {high:.1})", self.mean / per_unit)
    }
}

/// The round's printed text, as sections behind lines `== name`.
struct Round {
    kernel: String,
    printed: String,
}

impl Round {
    fn section(&self, name: &str) -> &str {
        let printed = &self.printed;
        let (_, rest) = printed
            .split_once(&format!("== {name}\n"))
            .unwrap_or_else(|| panic!("{}: no {name} in:\n{printed}", self.kernel));
        rest.split("== ").next().unwrap_or(rest).trim()
    }

    fn answer(&self, way: &str) -> Value {
        let text = self.section(way);
        serde_json::from_str(text).unwrap_or_else(|_| panic!("{} {way}: {text}", self.kernel))
    }

    /// Rows of the table; a difference beyond the seeds is a sentence in the second list.
    fn check(&self) -> (Vec<String>, Vec<String>) {
        let kernel = &self.kernel;
        assert_eq!(self.section("before"), self.section("undone"), "{kernel}");
        let applied = self.section("applied").split_whitespace();
        assert!(applied.eq(["40000", "100000"]), "{kernel}");
        let (tracefs, bpf) = (self.answer("tracefs"), self.answer("bpf"));
        let (mut rows, mut misses) = (Vec::new(), Vec::new());
        for (column, limit) in LIMITS.iter().enumerate() {
            for compared in &COMPARED {
                let of = |answer| Forecast::of(answer, column, compared.metric);
                let (one, other) = (of(&tracefs), of(&bpf));
                let [one_said, other_said] = [one, other].map(|f| f.print(compared.per_unit));
                let name = compared.name;
                let row = format!("| {kernel} | {limit} | {name} | {one_said} | {other_said} |");
                if !one.agrees_with(other, compared.of_recordings) {
                    misses.push(row.clone());
                }
                rows.push(row);
            }
        }
        let throttled = |column| Forecast::of(&tracefs, column, COMPARED[0].metric).mean;
        let (before, after) = (throttled(0), throttled(1));
        let counted = self.section("counted");
        let is_relieved = before >= 1.0 && after < before / 2.0;
        assert!(
            is_relieved,
            "{kernel}: {before} and {after} throttled periods\n{counted}"
        );
        (rows, misses)
    }
}

fn binary() -> PathBuf {
    let named = std::env::var_os("SCHEDCAST").map(PathBuf::from);
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_schedcast").into())
}

fn on_host() -> Result<Round, String> {
    if !sys::is_root() {
        return Err("not root".to_owned());
    }
    CpuHierarchy::detect().map_err(|error| error.to_string())?;
    let place = tempfile::tempdir().unwrap();
    let done = Command::new("sh")
        .arg(ROUND)
        .arg(binary())
        .args([GROUP.as_ref(), place.path().join("round").as_os_str()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    Ok(Round {
        kernel: format!("{}, host", release.trim()),
        printed: String::from_utf8(done.stdout).unwrap(),
    })
}

fn in_guest(series: &str) -> Result<Round, String> {
    let image = KernelImage::find(series).map_err(|error| error.to_string())?;
    let schedcast = binary().canonicalize().unwrap();
    let words = ["/bin/sh".as_ref(), ROUND.as_ref(), schedcast.as_os_str()];
    let mut words = words.map(OsString::from).to_vec();
    words.extend([GROUP, "/tmp/round"].map(OsString::from));
    let mut tools = TOOLS.map(str::to_owned).to_vec();
    tools.push(schedcast.display().to_string());
    let order = Order {
        words,
        tools,
        files: vec![ROUND.into()],
        cpus: 2,
        limit: PATIENCE,
    };
    let done = vm::run(&image, &order).map_err(|error| error.to_string())?;
    assert_eq!(done.code, 0, "{series}: {}\n{}", done.stderr, done.stdout);
    let accelerator = Accelerator::here();
    let cpus = match accelerator.cpus(2) {
        1 => "one CPU".to_owned(),
        cpus => format!("{cpus} CPUs"),
    };
    Ok(Round {
        kernel: format!("{}, {cpus} by {}", image.release, accelerator.name()),
        printed: done.stdout,
    })
}

/// The page with this table in place of the old one.
fn renew(rows: &[String]) {
    let text = std::fs::read_to_string(PAGE).unwrap();
    let (before, _) = text.split_once("\n| ").expect("the page has a table");
    let head =
        "| kernel | limit in 100 ms | forecast | by tracefs | by BPF |\n|---|---|---|---:|---:|";
    std::fs::write(PAGE, format!("{before}\n{head}\n{}\n", rows.join("\n"))).unwrap();
}

#[test]
#[ignore = "boots four kernels: make circle"]
fn a_limit_is_recorded_forecast_applied_and_taken_back_alike_by_tracefs_and_bpf() {
    let only = std::env::var("CIRCLE_ONLY").ok();
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let (mut rows, mut misses, mut skipped) = (Vec::new(), Vec::new(), 0);
    let places = ["host"].into_iter().chain(SERIES);
    for place in places.filter(|name| wanted(name)) {
        let round = match place {
            "host" => on_host(),
            series => in_guest(series),
        };
        match round {
            Ok(round) => {
                let (of_round, missed) = round.check();
                eprintln!("{}", of_round.join("\n"));
                rows.extend(of_round);
                misses.extend(missed);
            }
            Err(why) => {
                eprintln!("skipped: {place}: {why}");
                skipped += 1;
            }
        }
    }
    assert_eq!(misses, [""; 0], "beyond the noise of the seeds");
    if only.is_none() && skipped == 0 && Path::new(PAGE).is_file() {
        renew(&rows);
    }
}
