//! Recordings and what their threads do, each read and inferred once.
//!
//! ```text
//! folder ──► Recording ──► Unpriced ──► Replay ──► workload
//!                          clients      prices, adjustments
//! ```
//!
//! Worked example: `what-if` asks what the recording shows of itself, where nothing is charged, and
//! then simulates it on a machine whose switches cost 1.2 µs. Both replays are from one reading of
//! the trace and one inference; only the prices are taken off twice.

use std::path::Path;
use std::sync::{Arc, Mutex};

use schedcast_trace::Recording;
use schedcast_workload::replay::{self, Adjust, ClientLoop, Costs, InferOptions, Replay, Unpriced};

use super::{bad_input, bad_recording, lock};
use crate::error::Result;
use crate::recording::Recorded;

/// So many recordings are kept when another is opened: a program that answers questions all day, as
/// `mcp` does, is asked about many, and each may have hundreds of megabytes.
const KEPT: usize = 2;

/// Actions of the threads of a whole recording, for all prices.
struct Observed {
    folder: String,
    client_loop: ClientLoop,
    unpriced: Arc<Unpriced>,
}

/// A replay and what it was inferred with.
struct Inferred {
    folder: String,
    costs: Costs,
    adjust: Adjust,
    replay: Arc<Replay>,
}

/// Recordings that were read so far, and what was inferred of them.
#[derive(Default)]
pub(super) struct Readings {
    recordings: Mutex<Vec<(String, Arc<Recording>)>>,
    observed: Mutex<Vec<Observed>>,
    replays: Mutex<Vec<Inferred>>,
}

impl Readings {
    /// Facts of the recording in `folder`, which is read anew.
    ///
    /// # Errors
    /// As [`Recorded::open`].
    pub(super) fn open(&self, folder: &Path) -> Result<Recorded> {
        let name = folder.display().to_string();
        self.forget(&name);
        let recording = self.recording(folder)?;
        Recorded::read(&recording, folder, || {
            let unpriced = self.unpriced(&name, &recording, ClientLoop::AsRecorded)?;
            Ok(Unpriced::clone(&unpriced).replay(&recording, &Costs::FREE))
        })
    }

    /// Forgets the recording that is called `name`, and the oldest of the others, so that there is
    /// room for one more.
    fn forget(&self, name: &str) {
        let mut recordings = lock(&self.recordings);
        recordings.retain(|(other, _)| other != name);
        let surplus = (recordings.len() + 1).saturating_sub(KEPT);
        recordings.drain(..surplus);
        let is_kept = |folder: &str| recordings.iter().any(|(other, _)| other == folder);
        lock(&self.replays).retain(|one| is_kept(&one.folder));
        lock(&self.observed).retain(|one| is_kept(&one.folder));
    }

    /// Actions of the threads of the whole recording that is called `name`.
    fn unpriced(
        &self,
        name: &str,
        recording: &Recording,
        client_loop: ClientLoop,
    ) -> Result<Arc<Unpriced>> {
        let mut known = lock(&self.observed);
        let is_it = |one: &&Observed| one.folder == name && one.client_loop == client_loop;
        if let Some(found) = known.iter().find(is_it) {
            return Ok(Arc::clone(&found.unpriced));
        }
        let options = InferOptions {
            client_loop,
            ..InferOptions::default()
        };
        let unpriced = Arc::new(Unpriced::of(recording, &options).map_err(bad_input)?);
        known.push(Observed {
            folder: name.to_string(),
            client_loop,
            unpriced: Arc::clone(&unpriced),
        });
        Ok(unpriced)
    }

    /// Actions of the threads of a recording, on a machine with these prices.
    ///
    /// # Errors
    /// A recording that cannot be read or replayed so.
    pub(super) fn replay(
        &self,
        folder: &Path,
        costs: &Costs,
        adjust: &Adjust,
    ) -> Result<Arc<Replay>> {
        let name = folder.display().to_string();
        let mut known = lock(&self.replays);
        let find = |known: &[Inferred], adjust: &Adjust| {
            let is_it = |one: &&Inferred| {
                one.folder == name && one.costs == *costs && one.adjust == *adjust
            };
            known
                .iter()
                .find(is_it)
                .map(|found| Arc::clone(&found.replay))
        };
        if let Some(found) = find(&known, adjust) {
            return Ok(found);
        }
        let recording = self.recording(folder)?;
        let mut replay = match adjust.window_ns {
            Some(_) => {
                let options = InferOptions {
                    costs: costs.clone(),
                    client_loop: adjust.client_loop,
                    ..InferOptions::default()
                };
                let cut = adjust.cut(&recording).map_err(bad_input)?;
                replay::infer(&cut, &options).map_err(bad_input)?
            }
            None => {
                let as_recorded = Adjust {
                    client_loop: adjust.client_loop,
                    ..Adjust::default()
                };
                match find(&known, &as_recorded) {
                    Some(replay) => Replay::clone(&replay),
                    None => {
                        let unpriced = self.unpriced(&name, &recording, adjust.client_loop)?;
                        Unpriced::clone(&unpriced).replay(&recording, costs)
                    }
                }
            }
        };
        adjust.apply(&mut replay).map_err(bad_input)?;
        let replay = Arc::new(replay);
        known.push(Inferred {
            folder: name,
            costs: costs.clone(),
            adjust: adjust.clone(),
            replay: Arc::clone(&replay),
        });
        Ok(replay)
    }

    fn recording(&self, folder: &Path) -> Result<Arc<Recording>> {
        let name = folder.display().to_string();
        let mut known = lock(&self.recordings);
        if let Some((_, recording)) = known.iter().find(|(other, _)| *other == name) {
            return Ok(Arc::clone(recording));
        }
        let recording =
            Arc::new(Recording::open(folder).map_err(|error| bad_recording(folder, error))?);
        known.push((name, Arc::clone(&recording)));
        Ok(recording)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_questions_keeps_the_last_two_recordings() {
        let readings = Readings::default();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings");
        let folders = [
            "dev-vm-idle",
            "ten-neighbours",
            "dev-vm-idle",
            "postgres-quota",
        ];
        for folder in folders {
            readings.open(&root.join(folder)).unwrap();
        }
        let recordings = lock(&readings.recordings);
        let kept: Vec<&str> = recordings.iter().map(|(name, _)| name.as_str()).collect();
        let ends = ["dev-vm-idle", "postgres-quota"];
        assert!(kept.iter().zip(ends).all(|(name, end)| name.ends_with(end)));
        let observed = lock(&readings.observed);
        assert!(
            observed
                .iter()
                .all(|one| kept.contains(&one.folder.as_str()))
        );
    }
}
