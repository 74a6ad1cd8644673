//! Machine, kernel and cgroups of a recording as a document layer.

use schedcast_kernel::rules::Version;
use schedcast_trace::recording::Preempt;
use schedcast_trace::{CgroupTree, Meta, Recording};

use super::wakeups::RemoteWakeups;
use crate::error::{Error, Place, Result, Source};
use crate::experiment::document::{Entry, Kind, Table, Value, nest};

/// Files of a cgroup that are settings; the others are statistics or not modelled.
/// `cpu.weight.nice` repeats `cpu.weight`.
const SETTINGS: [&str; 10] = [
    "cpu.max",
    "cpu.max.burst",
    "cpu.weight",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpu.cfs_burst_us",
    "cpu.shares",
    "cpuset.cpus",
    "cpu.uclamp.min",
    "cpu.uclamp.max",
];

/// The patch of kernels that keep a task on its waker's CPU.
const VCPU_PACK: &str = "vcpu-pack";

/// Files that the kernel derives while `cpu.idle` is 1, and refuses to have written.
const FIXED_BY_IDLE: [&str; 2] = ["cpu.weight", "cpu.shares"];

/// One setting of the layer. Its place is the file and what stands there, in one line.
fn leaf(file: &str, path: &[&str], kind: Kind) -> Table {
    let shown = match &kind {
        Kind::Text(text) => text.clone(),
        Kind::Integer(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let text = format!("{} = {shown}", path.join(" "));
    let start = text.len() - shown.len();
    let source = Source::new(file, text);
    let key_place = Place::new(&source, 0..start - " = ".len());
    let value = Value::new(kind, Place::new(&source, start..source.text.len()));
    let path: Vec<String> = path.iter().map(|part| part.to_string()).collect();
    nest(&path, &key_place, value)
}

/// `[machine]` with the number of CPUs and what they share.
pub(super) fn machine(recording: &Recording, folder: &str) -> Result<Table> {
    let meta = &recording.meta;
    let cpus = recording.cpus();
    let (smt, sockets) = (
        meta.smt.unwrap_or(1).max(1),
        meta.sockets.unwrap_or(1).max(1),
    );
    let caches = meta
        .llc
        .as_ref()
        .map_or(sockets, |llc| llc.len() as u32)
        .max(1);
    let even = caches.is_multiple_of(sockets) && cpus.is_multiple_of(caches * smt);
    let equal = meta
        .llc
        .iter()
        .flatten()
        .all(|cache| cache.len() as u32 == cpus / caches);
    if !even || !equal {
        let message = format!(
            "{folder}: {cpus} CPUs do not divide evenly into {sockets} sockets, {caches} \
             last-level caches and cores of {smt} threads"
        );
        return Err(Error::general(message));
    }
    let counts = [
        ("sockets", sockets),
        ("llcs_per_socket", caches / sockets),
        ("threads_per_core", smt),
    ];
    let file = format!("{folder}/recording.json");
    let mut layer = leaf(&file, &["machine", "cpus"], Kind::Integer(i64::from(cpus)));
    for (key, count) in counts {
        let kind = Kind::Integer(i64::from(count));
        layer.merge(&leaf(&file, &["machine", "topology", key], kind));
    }
    for (key, cpus) in [("isolated", &meta.isolated), ("nohz_full", &meta.nohz_full)] {
        if !cpus.is_empty() {
            let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
            let kind = Kind::Text(cpus.join(","));
            layer.merge(&leaf(&file, &["machine", "topology", key], kind));
        }
    }
    Ok(layer)
}

/// `[kernel]`, as far as the recording tells it.
pub(super) fn kernel(meta: &Meta, folder: &str) -> Table {
    let file = format!("{folder}/recording.json");
    let preempt = meta.preempt.map(|model| match model {
        Preempt::None => "none",
        Preempt::Voluntary => "voluntary",
        Preempt::Full => "full",
        Preempt::Lazy => "lazy",
        Preempt::Rt => "rt",
    });
    let settings = [
        ("version", meta.kernel.clone().map(Kind::Text)),
        ("hz", meta.hz.map(|hz| Kind::Integer(i64::from(hz)))),
        ("preempt", preempt.map(|name| Kind::Text(name.to_string()))),
        ("autogroup", meta.autogroup.map(Kind::Boolean)),
    ];
    let mut layer = Table::default();
    for (key, kind) in settings {
        if let Some(kind) = kind {
            layer.merge(&leaf(&file, &["kernel", key], kind));
        }
    }
    layer
}

/// The refusal of the kernel in a recording's `layer`; `None` where its rules are known.
pub(crate) fn refused_kernel(layer: &Table) -> Option<Error> {
    let version = layer.get("kernel")?.table("a table").ok()?.get("version")?;
    let text = version.text("a kernel version").ok()?;
    let refused = Version::modelled(text).err()?;
    let file = &version.place.source.name;
    let error = Error::general(format!("{file}: recorded on kernel `{text}`: {refused}"));
    let near = refused.nearest();
    let near = near.map_or("V".to_string(), |near| near.to_string());
    Some(error.hint(format!(
        "`what-if` and `check` with `--kernel {near}` simulate the recording on that one instead"
    )))
}

/// The keys that wakeups tell; they yield to those of a user.
pub(super) fn wakeups(wakeups: &RemoteWakeups, folder: &str) -> Table {
    let file = format!("{folder}/recording.json");
    let mut layer = Table::default();
    if wakeups.pack() {
        let path = ["kernel".to_string(), "recorded_patches".to_string()];
        let place = Place::new(&Source::new(file.as_str(), VCPU_PACK), 0..VCPU_PACK.len());
        let patch = Value::new(Kind::Text(VCPU_PACK.to_string()), place.clone());
        let patches = Value::new(Kind::Array(vec![patch]), place.clone());
        layer.merge(&nest(&path, &place, patches));
    }
    if let Some(way_ns) = wakeups.way_ns() {
        let way = Kind::Integer(i64::try_from(way_ns).unwrap_or(i64::MAX));
        layer.merge(&leaf(&file, &["machine", "recorded_idle_wakeup_ns"], way));
    }
    layer
}

/// `[cgroup]` with the settings of every recorded group.
pub(super) fn cgroups(tree: &CgroupTree, folder: &str) -> Table {
    let mut groups = Table::default();
    // Files that a kernel built without clamps does not have.
    let mut clamped = false;
    for (path, group) in tree.iter().filter(|(path, _)| *path != "/") {
        let file = format!("{folder}/cgroups.json, {path}");
        let mut files = Table::default();
        let idle = group
            .files
            .get("cpu.idle")
            .is_some_and(|text| text.trim() == "1");
        if idle {
            files.merge(&leaf(&file, &["cpu.idle"], Kind::Text("1".to_string())));
        }
        for name in SETTINGS {
            let Some(text) = group.files.get(name) else {
                continue;
            };
            // An empty cpuset is that of the parent.
            let unset = match name {
                "cpuset.cpus" => text.trim().is_empty(),
                "cpu.uclamp.min" => ["0", "0.00"].contains(&text.trim()),
                "cpu.uclamp.max" => text.trim() == "max",
                _ => false,
            };
            clamped |= !unset && name.starts_with("cpu.uclamp.");
            let fixed = idle && FIXED_BY_IDLE.contains(&name);
            if !unset && !fixed {
                files.merge(&leaf(&file, &[name], Kind::Text(text.trim().to_string())));
            }
        }
        let place = Place::new(&Source::new(file, path), 0..path.len());
        groups.entries.push(Entry::new(
            path,
            place.clone(),
            Value::new(Kind::Table(files), place),
        ));
    }
    let place = Place::new(&Source::new(format!("{folder}/cgroups.json"), ""), 0..0);
    let value = Value::new(Kind::Table(groups), place.clone());
    let mut layer = Table {
        entries: vec![Entry::new("cgroup", place, value)],
    };
    if clamped {
        let file = format!("{folder}/cgroups.json");
        layer.merge(&leaf(&file, &["kernel", "uclamp"], Kind::Boolean(true)));
    }
    layer
}
