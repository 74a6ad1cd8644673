//! Replays as workloads, each compiled once.
//!
//! Worked example: `advise` runs 14 limits under ten seeds, with drift and without. Each seed has a
//! replay of its own that drifted, and the runs without drift share one. The eleven workloads are
//! compiled for the first limit and found again for the other 13.

use std::sync::{Arc, Mutex, Weak};

use schedcast_sim::Workload;
use schedcast_workload::replay::{self, CompileOptions, Replay};

use super::{bad_input, lock};
use crate::error::Result;

/// So many instructions are kept. One has 16 bytes, so that they take 256 MB at the most, and what
/// else is in a workload takes less. Reading and simulating a recording with 2 million instructions
/// once takes 430 MB (PostgreSQL in a closed loop).
const KEPT_INSTRUCTIONS: usize = 16 << 20;

/// A replay as a workload, before any setting, and where things stand in it.
pub(super) struct Compiled {
    pub workload: Workload,
    pub places: replay::Compiled,
}

impl Compiled {
    fn of(replay: &Replay, options: CompileOptions) -> Result<Compiled> {
        let mut workload = Workload::default();
        let places = replay.compile(&mut workload, options).map_err(bad_input)?;
        Ok(Compiled { workload, places })
    }

    fn instructions(&self) -> usize {
        let programs = self.workload.programs.iter();
        programs.map(|program| program.instructions().len()).sum()
    }
}

/// Place of a workload. Who finds it empty compiles, and others who want the same wait for that.
type Place = Arc<Mutex<Option<Arc<Compiled>>>>;

/// A workload that is kept, or compiled just now.
struct Entry {
    /// The workload lives no longer than the replay.
    replay: Weak<Replay>,
    options: CompileOptions,
    place: Place,
    /// 0 until it is compiled.
    instructions: usize,
}

/// Workloads of replays, which variants and seeds share, the oldest first.
#[derive(Default)]
pub(super) struct Workloads(Mutex<Vec<Entry>>);

impl Workloads {
    /// The workload of a replay.
    ///
    /// # Errors
    /// A recording that breaks a limit of the simulator.
    pub(super) fn of(
        &self,
        replay: &Arc<Replay>,
        options: CompileOptions,
    ) -> Result<Arc<Compiled>> {
        let place = self.place(replay, options);
        let mut inside = lock(&place);
        if let Some(compiled) = &*inside {
            return Ok(Arc::clone(compiled));
        }
        let compiled = Arc::new(Compiled::of(replay, options)?);
        *inside = Some(Arc::clone(&compiled));
        drop(inside);
        make_room(
            &mut lock(&self.0),
            &place,
            compiled.instructions(),
            KEPT_INSTRUCTIONS,
        );
        Ok(compiled)
    }

    fn place(&self, replay: &Arc<Replay>, options: CompileOptions) -> Place {
        let mut entries = lock(&self.0);
        entries.retain(|entry| entry.replay.strong_count() > 0);
        let is_it = |entry: &&Entry| {
            entry.replay.as_ptr() == Arc::as_ptr(replay) && entry.options == options
        };
        if let Some(found) = entries.iter().find(is_it) {
            return Arc::clone(&found.place);
        }
        let place = Place::default();
        entries.push(Entry {
            replay: Arc::downgrade(replay),
            options,
            place: Arc::clone(&place),
            instructions: 0,
        });
        place
    }
}

/// Keeps at most so many instructions, those that are new at a place among them, and these in any
/// case. It forgets the newest before them: limits and seeds take turns, so that an older workload
/// is the next to be asked for.
fn make_room(entries: &mut Vec<Entry>, place: &Place, instructions: usize, most: usize) {
    let Some(row) = entries
        .iter()
        .position(|entry| Arc::ptr_eq(&entry.place, place))
    else {
        return;
    };
    let mut new = entries.remove(row);
    new.instructions = instructions;
    let mut all: usize = entries.iter().map(|entry| entry.instructions).sum();
    while all + instructions > most
        && let Some(newest) = entries.iter().rposition(|entry| entry.instructions > 0)
    {
        all -= entries.remove(newest).instructions;
    }
    entries.push(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instructions of what is kept when workloads of 1, 2, … instructions came, of which `most`
    /// are kept.
    fn kept(count: usize, most: usize) -> Vec<usize> {
        let mut entries = Vec::new();
        for instructions in 1..=count {
            let place = Place::default();
            entries.push(Entry {
                replay: Weak::new(),
                options: CompileOptions::default(),
                place: Arc::clone(&place),
                instructions: 0,
            });
            make_room(&mut entries, &place, instructions, most);
        }
        entries.iter().map(|entry| entry.instructions).collect()
    }

    #[test]
    fn a_new_workload_takes_the_place_of_the_newest() {
        assert_eq!(kept(3, 6), [1, 2, 3]);
        assert_eq!(kept(4, 6), [1, 4]);
        assert_eq!(kept(4, 3), [4], "one is always kept");
    }

    #[test]
    fn a_workload_goes_with_its_replay() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recordings/dev-vm-idle");
        let recording = schedcast_trace::Recording::open(folder.as_ref()).unwrap();
        let infer =
            || Arc::new(replay::infer(&recording, &replay::InferOptions::default()).unwrap());
        let (workloads, options) = (Workloads::default(), CompileOptions::default());
        let (first, second) = (infer(), infer());
        let compiled = workloads.of(&first, options).unwrap();
        let again = workloads.of(&first, options).unwrap();
        assert!(Arc::ptr_eq(&compiled, &again));
        drop(first);
        workloads.of(&second, options).unwrap();
        assert_eq!(lock(&workloads.0).len(), 1);
    }
}
