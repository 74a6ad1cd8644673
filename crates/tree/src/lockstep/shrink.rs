//! The shortest history that still fails.
//!
//! Steps are taken away in halves, quarters, …, single ones, as long as the two sides still part
//! (delta debugging), with the time that passes before them or without it: the second keeps every
//! later tick and timer where it was. A step that refers to a task or group that is no longer made
//! does not apply and is passed over. Then switches of `sched/features` are taken away, one at a
//! time.

use super::History;
use schedcast_kernel::Ns;

/// Limit of tries: the history left after so many is short enough to read.
const MOST_TRIES: u32 = 2000;

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
            let end = (start + chunk).min(history.steps.len());
            let mut shorter = history.clone();
            let taken_ns: Ns = shorter
                .steps
                .drain(start..end)
                .map(|step| step.after_ns)
                .sum();
            let mut later = shorter.clone();
            if keep_if_it_parts(shorter, &mut history) {
                continue;
            }
            if let Some(next) = later.steps.get_mut(start) {
                next.after_ns += taken_ns;
                if keep_if_it_parts(later, &mut history) {
                    continue;
                }
            }
            start += chunk;
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

#[cfg(test)]
mod tests {
    use super::super::{Action, Shape, Step};
    use super::*;

    #[test]
    fn steps_are_taken_away_from_before_a_moment_that_counts() {
        // The sides part in the yield, as it comes 1 us after the start.
        let step = |action| Step {
            after_ns: 100,
            cpu: 0,
            action,
        };
        let mut steps = vec![step(Action::Rest); 9];
        steps.push(step(Action::Yield));
        let history = History {
            shape: Shape::ONE_CPU,
            seed: 0,
            processes: 1,
            features: Vec::new(),
            steps,
        };
        let small = shrink(history, |history| {
            let yields = |step: &Step| step.action == Action::Yield;
            let row = history.steps.iter().position(yields)?;
            let at: Ns = history.steps[..=row].iter().map(|step| step.after_ns).sum();
            (at == 1000).then_some(row)
        });
        let left = Step {
            after_ns: 1000,
            ..step(Action::Yield)
        };
        assert_eq!(small.steps, [left]);
    }
}
