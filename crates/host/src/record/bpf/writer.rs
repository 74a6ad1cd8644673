//! Pages like those of the kernel's own ring buffer, filled with records.
//!
//! A page has 4096 bytes: the time of its first event, the number of bytes that are filled, and
//! events, each with a word of type and length (5 bits) and time since the one before (27 bits);
//! larger steps have a word more. So everything that reads a recording of tracefs reads this one.
//!
//! Worked example. A `sched_wakeup` of 36 bytes, 7 ns behind the event before, is the word
//! `7 << 5 | 9` and nine words of data: a page has room for a hundred of them.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

const PAGE_BYTES: usize = 4096;
const HEAD_BYTES: usize = 16;
/// Behind the data there is room for the number of events that were lost before the page.
const ROOM_END: usize = PAGE_BYTES - 8;

/// The text that tells readers about these pages, as tracefs has it in `events/header_page`.
pub(super) const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

/// Bits of the number of filled bytes: events were lost before this page, and their number stands
/// behind the data.
const MISSED: u64 = 1 << 31 | 1 << 30;

/// Types of events up to this one are lengths in words.
const LONGEST_SHORT: usize = 28;
const TIME_EXTEND: u32 = 30;
const STEP_BITS: u32 = 27;

/// The file of one CPU while it is written.
#[derive(Debug)]
pub(super) struct PageWriter {
    file: File,
    /// The file, for errors.
    pub(super) path: PathBuf,
    page: Vec<u8>,
    last_ns: u64,
    /// Lost before the page that is being filled.
    missed: u64,
    /// Events so far.
    pub(super) events: u64,
    /// Bytes in the file so far.
    pub(super) bytes: u64,
}

impl PageWriter {
    /// Writes into `file`.
    pub(super) fn new(file: File, path: PathBuf) -> PageWriter {
        PageWriter {
            file,
            path,
            page: Vec::with_capacity(PAGE_BYTES),
            last_ns: 0,
            missed: 0,
            events: 0,
            bytes: 0,
        }
    }

    /// Appends a record, whose length is a multiple of four bytes. Times grow.
    pub(super) fn put(&mut self, time_ns: u64, record: &[u8]) -> io::Result<()> {
        let words = record.len() / 4;
        // Heads take up to four words.
        if self.page.len() + 16 + record.len() > ROOM_END {
            self.flush()?;
        }
        if self.page.is_empty() {
            self.page.extend(time_ns.to_le_bytes());
            self.page.extend([0; 8]);
            self.last_ns = time_ns;
        }
        let step = time_ns.saturating_sub(self.last_ns);
        self.last_ns += step;
        if step >> STEP_BITS != 0 {
            self.word((step as u32) << 5 | TIME_EXTEND);
            self.word((step >> STEP_BITS) as u32);
        }
        let step = match step >> STEP_BITS {
            0 => step as u32,
            _ => 0,
        };
        if words <= LONGEST_SHORT {
            self.word(step << 5 | words as u32);
        } else {
            self.word(step << 5);
            self.word(4 + record.len() as u32);
        }
        self.page.extend(record);
        self.events += 1;
        Ok(())
    }

    fn word(&mut self, word: u32) {
        self.page.extend(word.to_le_bytes());
    }

    /// Notes that events were lost behind what was written so far.
    pub(super) fn lose(&mut self, events: u64) -> io::Result<()> {
        self.flush()?;
        self.missed += events;
        Ok(())
    }

    /// Writes the page that is being filled, if there is something in it.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.page.is_empty() {
            return Ok(());
        }
        let mut filled = (self.page.len() - HEAD_BYTES) as u64;
        if self.missed > 0 {
            filled |= MISSED;
            self.page.extend(self.missed.to_le_bytes());
            self.missed = 0;
        }
        self.page[8..HEAD_BYTES].copy_from_slice(&filled.to_le_bytes());
        self.page.resize(PAGE_BYTES, 0);
        self.file.write_all(&self.page)?;
        self.bytes += PAGE_BYTES as u64;
        self.page.clear();
        Ok(())
    }

    /// Writes what is left and waits until it is on disk.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use schedcast_trace::Tracepoint;
    use schedcast_trace::{EventKind, Level, Recording};

    use super::super::formats::Layout;
    use super::*;

    /// A `sched_wakeup` of thread `pid` by thread 7, with these bits of `common_flags`.
    fn wakeup(pid: i32, flags: u8) -> Vec<u8> {
        let mut record = vec![Tracepoint::Wakeup.number() as u8, 0, flags, 0];
        record.extend(7i32.to_le_bytes());
        record.extend(b"server\0garbage..");
        for number in [pid, 120, 1] {
            record.extend(number.to_le_bytes());
        }
        assert_eq!(record.len(), Tracepoint::Wakeup.bytes());
        record
    }

    /// A trace of one CPU in a folder, with what `fill` writes.
    fn trace(folder: &Path, fill: impl FnOnce(&mut PageWriter)) -> Recording {
        super::super::describe(folder, Vec::new()).unwrap();
        let path = folder.join("per_cpu/cpu0/trace_pipe_raw");
        let file = super::super::pages::create(folder, "per_cpu/cpu0/trace_pipe_raw").unwrap();
        let mut writer = PageWriter::new(file, path);
        fill(&mut writer);
        writer.close().unwrap();
        Recording::open(folder).unwrap()
    }

    #[test]
    fn what_is_written_is_read_back_as_a_trace_of_tracefs() {
        let folder = tempfile::tempdir().unwrap();
        // 7 ns, a step of more than 27 bits, then enough for a second page.
        let mut times = vec![1_000, 1_007, 1_007 + (3 << STEP_BITS) + 5];
        let last = times[2];
        times.extend((1..=200).map(|number| last + number));
        let recording = trace(folder.path(), |writer| {
            for (number, time_ns) in times.iter().enumerate() {
                let flags = if number == 1 { 0x09 } else { 0x01 };
                writer.put(*time_ns, &wakeup(number as i32, flags)).unwrap();
            }
        });
        let read: Vec<u64> = recording.events.iter().map(|event| event.time_ns).collect();
        assert_eq!(read, times);
        assert!(recording.counts.lost.is_empty());
        let second = &recording.events[1];
        assert_eq!((second.cpu, second.task), (0, 7));
        assert_eq!(second.context.level(), Some(Level::HardIrq));
        assert!(second.context.irqs_off());
        let EventKind::Wakeup(woken) = second.kind else {
            panic!("{second:?}")
        };
        let task = woken.task;
        assert_eq!((task.pid, task.prio, woken.target_cpu), (1, 120, 1));
        assert_eq!(recording.comms.display(task.comm), "server");
    }

    #[test]
    fn a_loss_is_a_gap_with_its_number_at_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let recording = trace(folder.path(), |writer| {
            writer.put(1_000, &wakeup(1, 0)).unwrap();
            writer.lose(40).unwrap();
            writer.lose(2).unwrap();
            writer.put(9_000, &wakeup(2, 0)).unwrap();
        });
        assert_eq!(recording.events.len(), 2);
        let [gap] = recording.counts.lost.as_slice() else {
            panic!("{:?}", recording.counts.lost)
        };
        assert_eq!(
            (gap.cpu, gap.events, gap.after_ns),
            (0, Some(42), Some(1_000))
        );
    }

    #[test]
    fn every_format_is_one_that_readers_take() {
        let folder = tempfile::tempdir().unwrap();
        let recording = trace(folder.path(), |writer| {
            for (number, event) in Tracepoint::ALL.into_iter().enumerate() {
                let mut record = vec![0; event.bytes()];
                record[0] = event.number() as u8;
                writer.put(number as u64, &record).unwrap();
            }
        });
        let names: Vec<_> = recording
            .events
            .iter()
            .map(|event| event.kind.name())
            .collect();
        assert_eq!(names, Tracepoint::ALL.map(|event| Some(event.name())));
    }
}
