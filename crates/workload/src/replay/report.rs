//! Report on observations, inferences and omissions.

use schedcast_base::disturbed::STEAL_MAX;

use super::Replay;
use super::activity::Incomplete;
use super::model::{Step, Trigger};
use super::timeline::Repairs;
use super::unseen::Unseen;

/// Basis of an inference.
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
    /// Facts that had to be guessed or are cut off by start and end.
    pub incomplete: Incomplete,
    /// User threads of unknown group, put into the root group.
    pub unlisted_threads: u32,
    /// Threads whose group changed while recording (the first one is used).
    pub moved_threads: u32,
    /// Groups whose limit changed while recording (the first one is used).
    pub relimited_groups: Vec<String>,
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
    /// Requests of a log beside the trace of which nothing is used.
    pub unused_log: u64,
    /// Requests of services that the replay has, by whatever they were told.
    pub shown_requests: u64,
    /// Requests of services whose clients gave up.
    pub given_up: u64,
    /// Notes of the trace's reader.
    pub trace_notes: Vec<String>,
}

/// Fewer than one in this many activations are not worth a note.
const FEW_OF: u64 = 100;

/// Fills in what can be counted at the end.
pub(super) fn count(replay: &mut Replay) {
    let requests = replay.whole_requests().count() as u64;
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
    // A load generator that is ended does not receive what is under way.
    if report.given_up * FEW_OF <= requests {
        report.given_up = 0;
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
    /// Notes that a reader needs before trusting an answer: one sentence each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.trace_notes.clone();
        if let Some(steal) = self.steal_ratio.filter(|steal| *steal > STEAL_MAX) {
            notes.push(format!(
                "the hypervisor took {:.1} % of the machine's time during the recording; {:.0} ms of it were found in \
                 requests and are not charged to them, the rest counts as their work",
                steal * 100.0,
                self.stolen_ns as f64 / 1e6
            ));
        }
        if self.lost_events_allowed {
            let text = "the trace lost events: causes and work near the gaps are guesses";
            notes.push(text.to_owned());
        }
        // `asked::from_log` has the rule.
        let mut unused = "requests of the log beside the trace are not used: of no service here do four in five of the \
                          answers fit what its threads did then"
            .to_owned();
        if self.shown_requests > 0 {
            unused += &format!(
                "; the {} requests that the trace shows are replayed",
                self.shown_requests
            );
        }
        let doubt_ms = self.repairs.doubt_ns as f64 / 1e6;
        let lacking = format!(
            "context switches, which were reconstructed; {doubt_ms:.0} ms of CPU time could belong to another thread"
        );
        for (number, begin, end) in [
            (
                self.events_before_start,
                "",
                "events before the first event of every CPU were left out",
            ),
            (
                self.events_after_end,
                "",
                "events after the end of the recording were left out",
            ),
            (self.repairs.switches, "the trace lacks ", lacking.as_str()),
            (self.unused_log, "", unused.as_str()),
            (
                self.given_up,
                "at least ",
                "requests were given up by their clients before the answer came; those that had none are missing \
                 (`program.recording.client_timeout` makes clients of other columns give up)",
            ),
            (
                u64::from(self.unlisted_threads),
                "",
                "threads are in no listed cgroup; they were put into the root group",
            ),
            (
                u64::from(self.moved_threads),
                "",
                "threads changed their cgroup during the recording; they stay in the first one",
            ),
        ] {
            if number > 0 {
                notes.push(format!("{begin}{number} {end}"));
            }
        }
        for path in &self.relimited_groups {
            notes.push(format!(
                "the limit of {path} changed during the recording: the replay has the first one, and figures of the \
                 recording are of both"
            ));
        }
        let incomplete = &self.incomplete;
        let activations = u64::from(self.from_threads) + u64::from(self.from_outside);
        for (what, number) in [
            (
                "have no recorded wakeup; they begin when their thread ran",
                incomplete.unseen_wakeups,
            ),
            (
                "have no recorded run; their work is assumed",
                incomplete.unseen_runs,
            ),
            (
                "came to a server that was still awake; its replies tell them apart",
                self.unseen.requests,
            ),
            (
                "were answered while the client was still awake; the reply was put where replies usually are",
                self.unseen.replies,
            ),
            (
                "were under way at the start; only the rest of their work is known",
                incomplete.at_start,
            ),
            (
                "were under way at the end; only the first part of their work is known",
                incomplete.at_end,
            ),
        ] {
            // Some activations are always cut by start and end: a few of thousands move no figure.
            if u64::from(number) * FEW_OF > activations {
                notes.push(format!("{number} of {activations} activations {what}"));
            }
        }
        notes
    }
}
