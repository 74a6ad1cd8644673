//! The shortest history that still fails.
//!
//! Steps are taken away in halves, quarters, …, single ones, as long as the two sides still part
//! (delta debugging). A step that refers to a task or group that is no longer made does not apply
//! and is passed over. Then switches of `sched/features` are taken away, one at a time.

use super::History;

/// Limit of tries: the history left after so many is short enough to read.
const MOST_TRIES: u32 = 600;

/// Shrinks a history; `parts` says after which of its steps the two sides part, if they do.
pub fn shrink(mut history: History, mut parts: impl FnMut(&History) -> Option<usize>) -> History {
    let mut tries = 0;
    let mut keep_if_it_parts = |shorter: History, history: &mut History| {
        tries += 1;
        if tries > MOST_TRIES {
            return false;
        }
        let row = parts(&shorter);
        if let Some(row) = row {
            *history = shorter;
            history.steps.truncate(row + 1);
        }
        row.is_some()
    };
    keep_if_it_parts(history.clone(), &mut history);
    let mut chunk = history.steps.len() / 2;
    while chunk > 0 {
        let mut start = 0;
        while start < history.steps.len() {
            let mut shorter = history.clone();
            let end = (start + chunk).min(shorter.steps.len());
            shorter.steps.drain(start..end);
            if !keep_if_it_parts(shorter, &mut history) {
                start += chunk;
            }
        }
        chunk /= 2;
    }
    let mut switch = 0;
    while switch < history.features.len() {
        let mut shorter = history.clone();
        shorter.features.remove(switch);
        if !keep_if_it_parts(shorter, &mut history) {
            switch += 1;
        }
    }
    history
}
