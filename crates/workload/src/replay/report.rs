//! What was seen, guessed and left out.

use super::Replay;
use super::activity::Incomplete;
use super::model::{Step, Trigger};
use super::timeline::Repairs;
use super::unseen::Unseen;

/// What an inference rests on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Events used.
    pub events: u64,
    /// Events before all CPUs are known, not used.
    pub events_before_start: u64,
    /// Events after the recording's end, not used.
    pub events_after_end: u64,
    /// Events are missing, and the options allowed it.
    pub lost_events_allowed: bool,
    /// Activations that another thread began.
    pub from_threads: u32,
    /// Of these, by a message that no wakeup shows.
    pub unseen: Unseen,
    /// Activations that something outside began.
    pub from_outside: u32,
    /// Waits for a device inside activations.
    pub device_waits: u32,
    /// Waits for another thread inside activations.
    pub handovers: u32,
    /// Switches that the trace does not show.
    pub repairs: Repairs,
    /// What had to be guessed or is cut off by start and end.
    pub incomplete: Incomplete,
    /// User threads of unknown group, put into the root group.
    pub unlisted_threads: u32,
    /// Threads whose group changed while recording (the first one is used).
    pub moved_threads: u32,
    /// Whether the root group's user threads are grouped by session.
    pub autogroup: bool,
    /// CPU time the recording shows, ns.
    pub executed_ns: u64,
    /// Part of it that is not replayed: threads whose work the simulated kernel does itself, ns.
    pub left_out_ns: u64,
    /// Part of it that the simulator's own costs replace, ns.
    pub removed_ns: u64,
    /// CPU time assumed for activations whose runs the trace does not show, ns.
    pub assumed_ns: u64,
    /// Share of the machine's time that the hypervisor took.
    pub steal_ratio: Option<f64>,
    /// Part of that time that was found in requests and is not replayed as work, ns.
    pub stolen_ns: u64,
    /// What the reader of the trace noticed.
    pub trace_notes: Vec<String>,
}

/// More stolen time than this is worth a note.
const STEAL_NOTED: f64 = 0.01;

/// One of so many activations is not worth a note.
const FEW_OF: u64 = 100;

/// Fills in what can be counted at the end.
pub(super) fn count(replay: &mut Replay) {
    let report = &mut replay.report;
    for activation in &replay.activations {
        match activation.trigger {
            Trigger::Thread(_) | Trigger::ThreadUnseen(_) => report.from_threads += 1,
            Trigger::Outside { .. } => report.from_outside += 1,
            Trigger::Start | Trigger::Fork => {}
        }
        report.removed_ns += activation.removed_ns;
        report.assumed_ns += activation.assumed_ns;
    }
    for step in &replay.steps {
        report.device_waits += u32::from(matches!(step, Step::Io { .. }));
        report.handovers += u32::from(matches!(step, Step::Wait(_)));
    }
    for thread in &replay.threads {
        report.executed_ns += thread.executed_ns;
        if thread.left_out {
            report.left_out_ns += thread.executed_ns;
        }
    }
}

impl Report {
    /// What a person should know before trusting an answer: one plain sentence each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.trace_notes.clone();
        if let Some(steal) = self.steal_ratio.filter(|steal| *steal > STEAL_NOTED) {
            notes.push(format!(
                "the hypervisor took {:.1} % of the machine's time while recording; {:.0} ms of it show in \
                 requests and are not charged, the rest is counted as work",
                steal * 100.0,
                self.stolen_ns as f64 / 1e6
            ));
        }
        if self.lost_events_allowed {
            let text = "events are lost: causes and work near the gaps are guesses";
            notes.push(text.to_owned());
        }
        let mut note = |what: &str, number: u64, of: &str| {
            if number > 0 {
                notes.push(format!("{what}: {number}{of}"));
            }
        };
        note(
            "events before all CPUs were known, not used",
            self.events_before_start,
            "",
        );
        note(
            "events after the end of the recording, not used",
            self.events_after_end,
            "",
        );
        let doubt_ms = self.repairs.doubt_ns as f64 / 1e6;
        note(
            "context switches that the trace does not show, put back",
            self.repairs.switches,
            &format!("; {doubt_ms:.0} ms in doubt"),
        );
        note(
            "threads in no listed cgroup, put into the root group",
            u64::from(self.unlisted_threads),
            "",
        );
        note(
            "threads that changed their cgroup while recording, kept in the first one",
            u64::from(self.moved_threads),
            "",
        );
        let incomplete = &self.incomplete;
        let activations = u64::from(self.from_threads) + u64::from(self.from_outside);
        let of_all = format!(" of {activations} activations");
        for (what, number) in [
            (
                "begun without a visible wakeup, at the time they began",
                incomplete.unseen_wakeups,
            ),
            (
                "without a visible run, their work assumed",
                incomplete.unseen_runs,
            ),
            (
                "requests to a server that was still awake, told apart by its replies",
                self.unseen.requests,
            ),
            (
                "replies to a client that was still awake, put where replies usually are",
                self.unseen.replies,
            ),
            (
                "under way at the start, only the rest of their work known",
                incomplete.at_start,
            ),
            (
                "under way at the end, only the first part of their work known",
                incomplete.at_end,
            ),
        ] {
            // Every recording begins and ends somewhere: a few of thousands move no figure.
            if u64::from(number) * FEW_OF > activations {
                note(what, u64::from(number), &of_all);
            }
        }
        notes
    }
}
