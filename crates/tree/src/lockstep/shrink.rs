//! The shortest history that still fails.
//!
//! Steps are taken away in halves, quarters, …, single ones, as long as the two sides still part (delta debugging).
//! A step that refers to a task or group that is no longer made does not apply and is passed over.

use super::{History, Outcome};

/// Shrinks a history for which `parts` holds; `parts` says so for shorter ones.
pub fn shrink(mut history: History, mut fails: impl FnMut(&History) -> Option<Outcome>) -> History {
    if let Some(Outcome {
        parted: Some((row, _)),
        ..
    }) = fails(&history)
    {
        history.steps.truncate(row + 1);
    }
    let mut chunk = history.steps.len() / 2;
    while chunk > 0 {
        let mut start = 0;
        while start < history.steps.len() {
            let mut shorter = history.clone();
            let end = (start + chunk).min(shorter.steps.len());
            shorter.steps.drain(start..end);
            match fails(&shorter) {
                Some(Outcome {
                    parted: Some((row, _)),
                    ..
                }) => {
                    shorter.steps.truncate(row + 1);
                    history = shorter;
                }
                _ => start += chunk,
            }
        }
        chunk /= 2;
    }
    history
}
