//! Helpers that several test files need.
#![allow(dead_code)] // each test file uses its own part

use std::path::{Path, PathBuf};

use schedcast_trace::{
    CommTable, Counts, Event, EventKind, EventSource, FtraceTextReader, Item, ReadError, Task,
    open_trace,
};

/// Everything a reader gave.
pub(crate) struct Read {
    pub items: Vec<Item>,
    pub comms: CommTable,
    pub counts: Counts,
}

impl Read {
    pub(crate) fn events(&self) -> Vec<Event> {
        let event = |item: &Item| match item {
            Item::Event(event) => Some(*event),
            Item::Lost(_) => None,
        };
        self.items.iter().filter_map(event).collect()
    }

    /// Text of each decoded event with its time: lines that are equal for equal events.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |event: &Event| {
            dump(event, &self.comms).map(|what| format!("{} {what}", event.time_ns))
        };
        self.events().iter().filter_map(line).collect()
    }

    /// How often each event occurs that is not decoded.
    pub(crate) fn others(&self) -> Vec<(String, u64)> {
        let others = self.counts.other.iter();
        others
            .map(|(name, other)| (name.clone(), other.count))
            .collect()
    }

    /// Each decoded event as one line of text, names resolved, in a spelling of our own.
    pub(crate) fn dump(&self) -> Vec<String> {
        self.events()
            .iter()
            .filter_map(|event| dump(event, &self.comms))
            .collect()
    }
}

/// One event without its time and context, names as escaped bytes; `None` for events that are not
/// decoded.
pub(crate) fn dump(event: &Event, comms: &CommTable) -> Option<String> {
    let name = |id| format!("\"{}\"", comms.get(id).unwrap().escape_ascii());
    let task = |task: Task| format!("{}:{}:{}", name(task.comm), task.pid, task.prio);
    let what = match event.kind {
        EventKind::Switch(switch) => {
            let (prev, next) = (task(switch.prev), task(switch.next));
            format!("{prev} {} -> {next}", switch.prev_state)
        }
        EventKind::Waking(w) | EventKind::Wakeup(w) | EventKind::WakeupNew(w) => {
            format!("{} on {}", task(w.task), w.target_cpu)
        }
        EventKind::Migrate(moves) => {
            let (from, to) = (moves.orig_cpu, moves.dest_cpu);
            format!("{} from {from} to {to}", task(moves.task))
        }
        EventKind::Fork(fork) => {
            let (parent, child) = (name(fork.parent_comm), name(fork.child_comm));
            format!(
                "{parent}:{} makes {child}:{}",
                fork.parent_pid, fork.child_pid
            )
        }
        EventKind::Exec(exec) => {
            format!(
                "{} was {} runs {}",
                exec.pid,
                exec.old_pid,
                name(exec.filename)
            )
        }
        EventKind::Exit(exits) => task(exits),
        EventKind::Runtime(charge) => {
            format!(
                "{}:{} ran {}",
                name(charge.comm),
                charge.pid,
                charge.runtime_ns
            )
        }
        EventKind::Socket { .. } | EventKind::Other => return None,
    };
    Some(format!(
        "cpu {} task {} {} {what}",
        event.cpu,
        event.task,
        event.kind.name().unwrap()
    ))
}

/// Reads text that lies in memory; messages call it `t`.
pub(crate) fn read_text(text: impl AsRef<[u8]>) -> Result<Read, ReadError> {
    drain(Box::new(FtraceTextReader::new(
        Path::new("t"),
        text.as_ref(),
    )))
}

/// Reads a file.
pub(crate) fn read_file(path: &Path) -> Result<Read, ReadError> {
    drain(open_trace(path)?)
}

fn drain(mut source: Box<dyn EventSource + '_>) -> Result<Read, ReadError> {
    let mut items = Vec::new();
    while let Some(item) = source.next_item()? {
        items.push(item);
    }
    let (comms, counts) = source.finish();
    Ok(Read {
        items,
        comms,
        counts,
    })
}

/// A file in `tests/fixtures`.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// A folder in the repository's `recordings`.
pub(crate) fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../recordings")
        .join(name)
}

/// The content of a fixture, unpacked.
pub(crate) fn bytes(name: &str) -> Vec<u8> {
    use std::io::Read;
    let file = std::fs::read(fixture(name)).unwrap();
    if !name.ends_with(".gz") {
        return file;
    }
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&file[..])
        .read_to_end(&mut unpacked)
        .unwrap();
    unpacked
}

/// Reads damaged bytes to the end, as a file of this name: an error names the file and says what
/// was expected.
pub(crate) fn survive(name: &str, bytes: &[u8]) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let outcome = read_file(&path);
    match outcome {
        Err(error) if !error.to_string().contains(name) || error.message.len() <= 10 => {
            Err(format!("an error without a place or words: {error}"))
        }
        _ => Ok(()),
    }
}
