//! Events that a file holds in no order of time, put in order with as little memory as the file
//! allows.
//!
//! perf writes the buffers of its CPUs one after the other and closes a *round* when it has emptied
//! them all; Perfetto's packets hold one CPU each. A [`Feed`] reads such a file piece by piece and
//! says up to which time nothing more can come. Events before that time are sorted and handed out;
//! events of equal time keep the order of the file.
//!
//! Worked example. A feed gives 30, 10, then "complete up to 20": 10 is handed out. It gives 25 and
//! ends: 25, 30 follow.

use std::collections::VecDeque;

use crate::error::ReadError;
use crate::event::Event;
use crate::names::{CommId, CommTable};
use crate::source::{Counts, EventSource, Item};

/// Result of a feed: an event, with its name if it is not decoded, or a gap at a time.
#[derive(Clone, Copy, Debug)]
enum Found {
    Event { event: Event, other: Option<CommId> },
    Lost { cpu: u32, events: Option<u64> },
}

/// Where a feed puts what it finds.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    entries: Vec<(u64, Found)>,
    /// Names of tasks.
    pub(crate) comms: CommTable,
    /// Names of events that are not decoded.
    others: CommTable,
    pub(crate) counts: Counts,
}

impl Pending {
    pub(crate) fn event(&mut self, event: Event) {
        self.entries
            .push((event.time_ns, Found::Event { event, other: None }));
    }

    /// An event that is not decoded.
    pub(crate) fn other(&mut self, event: Event, name: &[u8]) {
        let other = Some(self.others.intern(name));
        self.entries
            .push((event.time_ns, Found::Event { event, other }));
    }

    pub(crate) fn lost(&mut self, time_ns: u64, cpu: u32, events: Option<u64>) {
        self.entries.push((time_ns, Found::Lost { cpu, events }));
    }
}

/// How far a feed has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing earlier than this can come any more.
    CompleteTo(u64),
    End,
}

/// Reads a file in its own order.
pub(crate) trait Feed {
    /// Reads the next piece.
    fn feed(&mut self, pending: &mut Pending) -> Result<Progress, ReadError>;
}

/// Hands out what a feed gives by time.
pub(crate) struct OrderedReader<F> {
    feed: F,
    pending: Pending,
    ready: VecDeque<(u64, Found)>,
    previous_ns: Option<u64>,
    fed: bool,
    ended: bool,
}

impl<F: Feed> OrderedReader<F> {
    pub(crate) fn new(feed: F, counts: Counts) -> OrderedReader<F> {
        OrderedReader {
            feed,
            pending: Pending {
                counts,
                ..Pending::default()
            },
            ready: VecDeque::new(),
            previous_ns: None,
            fed: false,
            ended: false,
        }
    }

    fn step(&mut self) -> Result<Option<Item>, ReadError> {
        loop {
            if let Some((_, found)) = self.ready.pop_front() {
                return Ok(Some(self.hand_out(found)));
            }
            if self.fed {
                return Ok(None);
            }
            let progress = self.feed.feed(&mut self.pending)?;
            let entries = &mut self.pending.entries;
            entries.sort_by_key(|(time_ns, _)| *time_ns);
            let complete = match progress {
                Progress::CompleteTo(time) => entries.partition_point(|(at, _)| *at < time),
                Progress::End => {
                    self.fed = true;
                    entries.len()
                }
            };
            self.ready.extend(entries.drain(..complete));
        }
    }

    fn hand_out(&mut self, found: Found) -> Item {
        let counts = &mut self.pending.counts;
        match found {
            Found::Event { event, other } => {
                if let Some(name) = other.and_then(|name| self.pending.others.get(name)) {
                    counts.see_other(name, 0);
                }
                counts.see(&event, 0, self.previous_ns);
                self.previous_ns = Some(event.time_ns);
                Item::Event(event)
            }
            Found::Lost { cpu, events } => counts.lose(cpu, events, 0, self.previous_ns),
        }
    }
}

impl<F: Feed> EventSource for OrderedReader<F> {
    fn next_item(&mut self) -> Result<Option<Item>, ReadError> {
        if self.ended {
            return Ok(None);
        }
        let item = self.step();
        self.ended = !matches!(item, Ok(Some(_)));
        item
    }

    fn comms(&self) -> &CommTable {
        &self.pending.comms
    }

    fn counts(&self) -> &Counts {
        &self.pending.counts
    }

    fn finish(self: Box<Self>) -> (CommTable, Counts) {
        (self.pending.comms, self.pending.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Context, EventKind};

    struct Pieces(Vec<(Vec<u64>, Progress)>);

    impl Feed for Pieces {
        fn feed(&mut self, pending: &mut Pending) -> Result<Progress, ReadError> {
            let (times, progress) = self.0.remove(0);
            for time_ns in times {
                pending.event(Event {
                    time_ns,
                    cpu: 0,
                    task: 1,
                    context: Context::UNKNOWN,
                    kind: EventKind::Other,
                });
            }
            pending.lost(22, 3, Some(7));
            Ok(progress)
        }
    }

    #[test]
    fn what_is_complete_comes_out_in_order() {
        let pieces = vec![
            (vec![30, 10], Progress::CompleteTo(20)),
            (vec![25, 5], Progress::End),
        ];
        let mut reader = OrderedReader::new(Pieces(pieces), Counts::default());
        let mut times = Vec::new();
        while let Some(item) = reader.next_item().unwrap() {
            times.push(match item {
                Item::Event(event) => event.time_ns,
                Item::Lost(gap) => {
                    assert_eq!((gap.cpu, gap.events), (3, Some(7)));
                    0
                }
            });
        }
        assert_eq!(times, [10, 5, 0, 0, 25, 30]);
        assert_eq!(reader.counts().backwards.count, 1, "5 came too late");
        assert_eq!(reader.counts().lost_events(), Some(14));
    }
}
