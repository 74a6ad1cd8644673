//! Replay: from the scheduling events of a recording to programs that can run under other limits.
//!
//! A recording says when each thread ran, who woke it and when it slept. [`infer`] turns that into
//! what each thread *does*, which no longer depends on the limits in force while recording:
//!
//! * its work: the CPU time it executed between a wakeup and the next sleep. Waiting on a run queue
//!   and being throttled are not part of it;
//! * its effects: whom it wakes, and after how much of its own work;
//! * its causes: the wakeups it waits for. One that comes from another thread happens when that
//!   thread gets there; one that comes from outside (timer, device) keeps its time.
//!
//! [`Replay::compile`] makes programs, tasks, groups and arrivals of it for the simulator. Every
//! thread becomes a loop over its *inbox*: it takes the oldest message, does what the recording
//! shows for the activation that this message began, and takes the next one.
//!
//! # Worked example
//!
//! ```text
//!   µs  CPU  event                                              what it tells
//!    0   0   <idle>    hard irq  sched_waking pgbench           outside arrival, keeps time 0
//!   33   0   idle → pgbench                                     pgbench starts to execute
//!  103   0   pgbench             sched_waking postgres          after 70 µs of work it wakes postgres
//!  130   0   pgbench (S) → postgres                             it executed 97 µs and sleeps
//! 4000   0   postgres (R) → agentd → postgres at 4100           preempted: 100 µs that do not count
//! 9830   0   postgres            sched_waking pgbench           after 9600 µs of work: the reply
//! 9866   0   postgres (S) → pgbench
//! ```
//!
//! becomes: at 0 µs pgbench gets message A. For A it works 70 µs, sends postgres message B, works
//! 27 µs. For B postgres works 9600 µs, sends pgbench message C, works 36 µs. Under a limit that
//! stops postgres for 60 ms, C is sent 60 ms later, and so is everything that follows from it;
//! message A stays at 0 µs.
//!
//! # Words
//!
//! | word | means |
//! |---|---|
//! | waking | a `sched_waking` event: one thread, or an interrupt, wakes another thread |
//! | activation | what a thread does from a wakeup to the next sleep |
//! | draft | an activation under construction, whose effects still name wakings |
//! | deed | an effect in a draft, with the CPU time executed before it |
//! | message | what begins an activation; it waits in the thread's inbox while that is busy |
//! | subject | the key of a thread's figures: its name, where that tells threads apart |
//! | exchange | a client and servers that take one of its requests at a time |
//! | service | a group whose threads serve requests together; each request is known |
//! | due, sent, arrives, replied, read | the times of a request: its schedule, its sending, its coming to the service, the sending of its reply, and when its client has it |
//! | held back | runnable, and not running because of a limit |
//!
//! Each rule for a fact that cannot be seen stands with the module that applies it: `timeline`
//! (missing switches), `threads` (kernel threads, priorities), `groups` (cgroups and autogroups),
//! `subject` (threads of one name in several groups), `phase` (period timers), `activity`
//! (activations), `requests` (sleeps inside requests), `blocked` (such sleeps that a timer or
//! device ends), `paced` (threads that sleep for a fixed time), `sends` (messages over sockets),
//! `rare` (work that may not show), `service` (requests of event loops and pools), `unseen`
//! (messages without a wakeup), `steal` (time the hypervisor took), `exchange` (clients that wait
//! for answers), `costs` (charges of the simulator itself), `jobs` (groups whose threads all end),
//! `charged` (time that the kernel charges before a switch in).

mod activity;
mod adjust;
pub mod background;
mod blocked;
mod charged;
mod compile;
mod costs;
mod drift;
mod error;
mod exchange;
mod finish;
mod gather;
mod groups;
mod jobs;
mod measured;
mod model;
mod paced;
mod phase;
mod polls;
mod rare;
mod report;
mod requests;
mod sends;
mod service;
mod sockets;
mod steal;
pub mod subject;
mod threads;
mod timeline;
mod unseen;

#[cfg(test)]
mod tests;

pub use activity::Incomplete;
pub use adjust::{Adjust, Patience, Piece};
pub use compile::{CompileOptions, Compiled};
pub use costs::Costs;
pub use error::ReplayError;
pub use exchange::{Exchange, Exchanged};
pub use groups::{Group, GroupIndex};
pub use jobs::Job;
pub use measured::{MeasuredGroup, MeasuredJob, Quantiles, RecordedFigures};
pub use model::{Activation, ActivationId, HandoverId, Step, Thread, Trigger};
pub use phase::Phase;
pub use rare::Rare;
pub use report::Report;
pub use service::{Bound, ClientLoop, Dialogue, Follows, Kind, RequestId, Rounds, Served, Service};
pub use threads::{Origin, ThreadId};
pub use timeline::Repairs;
pub use unseen::Unseen;

use activity::{Begun, Draft, Folder};
use gather::Gathered;
use schedcast_kernel::cpuset::CpuSet;
use schedcast_trace::Recording;
use sockets::Messages;
use std::collections::BTreeMap;
use std::sync::Arc;

/// User's choices about a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InferOptions {
    /// Replay a trace with gaps all the same; the report says so.
    pub allow_lost_events: bool,
    /// Whether user threads of the root group are grouped by session; `None`: as the recording
    /// says, and if it does not, no.
    pub autogroup: Option<bool>,
    /// Costs that the simulated machine charges by itself.
    pub costs: Costs,
    /// How clients of services decide when to ask.
    pub client_loop: ClientLoop,
}

impl Default for InferOptions {
    fn default() -> Self {
        Self {
            allow_lost_events: false,
            autogroup: None,
            costs: Costs::FREE,
            client_loop: ClientLoop::AsRecorded,
        }
    }
}

/// Actions of the threads of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// Start of the recording on the trace's clock. All other times count from it.
    pub start_ns: u64,
    /// Length of the recording.
    pub duration_ns: u64,
    /// Number of CPUs.
    pub cpus: u32,
    /// Threads, in order of appearance.
    pub threads: Vec<Thread>,
    /// Groups; the first is the root, parents come before their children.
    pub groups: Vec<Group>,
    /// Activations, those of a thread side by side and in order of time.
    pub activations: Vec<Activation>,
    /// Steps of all activations.
    pub steps: Vec<Step>,
    /// Number of waits inside activations that other threads end.
    pub handovers: u32,
    /// Clients that wait for an answer before they ask again.
    pub exchanges: Vec<Exchange>,
    /// Groups whose threads serve requests together.
    pub services: Vec<Service>,
    /// Their requests.
    pub requests: Vec<Served>,
    /// How long their clients wait for an answer, if not for ever.
    pub patience: Option<Patience>,
    /// Groups whose threads all end.
    pub jobs: Vec<Job>,
    /// By thread of a service or its clients: its activations as recorded, before they were cut
    /// into requests. Their `steps` are not set. Nothing adjusts them, so that copies share them.
    pub uncut: Arc<BTreeMap<ThreadId, Vec<Activation>>>,
    /// Report on observations, inferences and omissions.
    pub report: Report,
}

/// Infers what the threads of a recording do.
///
/// # Errors
/// If events were lost (unless the options allow it), if the recording has no length, or if a
/// cgroup's file cannot be understood.
pub fn infer(recording: &Recording, options: &InferOptions) -> Result<Replay, ReplayError> {
    Ok(Unpriced::of(recording, options)?.replay(recording, &options.costs))
}

/// Actions of the threads of a recording before the simulator's own costs are taken off: the part
/// of [`infer`] that is the same for all costs.
#[derive(Clone)]
pub struct Unpriced {
    gathered: Gathered,
    folded: Folded,
    repairs: Repairs,
}

impl Unpriced {
    /// Those of this recording. The costs of the options do not matter.
    ///
    /// # Errors
    /// Those of [`infer`].
    pub fn of(recording: &Recording, options: &InferOptions) -> Result<Self, ReplayError> {
        check_lost(recording, options)?;
        let mut gathered = Gathered::of(recording);
        if gathered.end_ns <= gathered.start_ns {
            return Err(ReplayError::NoTime {
                trace: recording.trace.clone(),
                start_ns: gathered.start_ns,
            });
        }
        let autogroup = options.autogroup.or(recording.meta.autogroup);
        gathered
            .place(recording, autogroup.unwrap_or(false))
            .map_err(|message| ReplayError::Cgroup { message })?;
        let (runs, repairs) = gathered.runs();
        let machine_ns = (gathered.end_ns - gathered.start_ns) * u64::from(gathered.cpus);
        let messages = Messages::of(&gathered.socket_uses, gathered.start_ns);
        messages.claim(&mut gathered.wakings, gathered.start_ns);
        sends::claim(&mut gathered.wakings, &gathered.threads, &runs, machine_ns);
        let folded = Folded::of(&gathered, &runs, &messages, recording, options.client_loop);
        gathered.forget_events(&runs);
        Ok(Self {
            gathered,
            folded,
            repairs,
        })
    }

    /// The replay of `recording`, which these actions are from, where the simulator itself charges
    /// `costs`.
    pub fn replay(self, recording: &Recording, costs: &Costs) -> Replay {
        let mut replay = finish::finish(self.gathered, self.folded, costs, recording);
        replay.report.repairs = self.repairs;
        replay.report.lost_events_allowed =
            recording.counts.lost_events().is_none_or(|lost| lost > 0)
                || recording.counted_before_a_cut().is_some()
                || recording.meta.lost_events.is_some_and(|lost| lost > 0);
        replay.report.steal_ratio = recording.meta.steal_ratio;
        replay.report.trace_notes = recording.notes();
        replay
    }
}

fn check_lost(recording: &Recording, options: &InferOptions) -> Result<(), ReplayError> {
    if options.allow_lost_events {
        return Ok(());
    }
    if let Some(first) = recording.counts.lost.first() {
        return Err(ReplayError::LostEvents {
            trace: recording.trace.clone(),
            line: first.line,
            events: first.events,
            gaps: recording.counts.lost.len(),
        });
    }
    if let Some(told) = recording.counted_before_a_cut() {
        return Err(ReplayError::TraceCut {
            trace: recording.trace.clone(),
            told,
            read: recording.counts.events,
        });
    }
    match recording.meta.lost_events {
        Some(events) if events > 0 => Err(ReplayError::RecorderLostEvents {
            trace: recording.trace.clone(),
            events,
        }),
        _ => Ok(()),
    }
}

/// Drafts of all threads.
#[derive(Clone)]
struct Folded {
    drafts: Vec<Draft>,
    begun: Vec<Begun>,
    handovers: u32,
    incomplete: Incomplete,
    unseen: Unseen,
    found: service::Found,
    jobs: Vec<Job>,
}

impl Folded {
    fn of(
        gathered: &Gathered,
        runs: &[Vec<timeline::Run>],
        messages: &Messages,
        recording: &Recording,
        client_loop: ClientLoop,
    ) -> Self {
        let context = activity::Context {
            wakings: &gathered.wakings,
            threads: &gathered.threads,
            start_ns: gathered.start_ns,
        };
        let mut folded = Self {
            drafts: Vec::new(),
            begun: vec![Begun::Nothing; gathered.wakings.len()],
            handovers: 0,
            incomplete: Incomplete::default(),
            unseen: Unseen::default(),
            found: service::Found::default(),
            jobs: Vec::new(),
        };
        for (id, thread) in (0u32..).map(ThreadId).zip(&gathered.threads) {
            if thread.left_out {
                continue;
            }
            Folder::new(&context, id, thread.origin, &mut folded)
                .fold(&runs[id.index()], &gathered.deeds[id.index()]);
        }
        let kinds: Vec<_> = gathered
            .threads
            .iter()
            .map(|thread| (thread.name.as_str(), thread.group))
            .collect();
        let replies = messages.replies();
        let facts = requests::Facts {
            wakings: &gathered.wakings,
            kinds: &kinds,
            replies: &replies,
            start_ns: gathered.start_ns,
        };
        let (begun, handovers) = (&mut folded.begun, &mut folded.handovers);
        folded.drafts = requests::join(&facts, folded.drafts, begun, handovers);
        polls::tie(&gathered.threads, &gathered.groups, &mut folded.drafts);
        let facts = blocked::Facts {
            threads: &gathered.threads,
            groups: &gathered.groups,
            wakings: &gathered.wakings,
            replies: &replies,
            recorded: recording.meta.cgroup.as_deref(),
        };
        blocked::tie(&facts, messages, &mut folded.drafts);
        let evidence = service::Evidence {
            threads: &gathered.threads,
            groups: &gathered.groups,
            runs,
            wakings: &gathered.wakings,
            log: recording.requests.as_deref(),
            messages,
            client_loop,
            recorded: recording.meta.cgroup.as_deref(),
            start_ns: gathered.start_ns,
            end_ns: gathered.end_ns,
        };
        let handovers = &mut folded.handovers;
        folded.found = service::find(&evidence, &mut folded.drafts, &mut folded.begun, handovers);
        let found = &folded.found;
        let is_served = |thread| found.members.contains(&thread) || found.clients.contains(&thread);
        paced::tie(&gathered.threads, is_served, &mut folded.drafts);
        let facts = jobs::Facts {
            threads: &gathered.threads,
            groups: &gathered.groups,
            wakings: &gathered.wakings,
            execs_ns: &gathered.execs_ns(),
            recording,
        };
        folded.jobs = jobs::find(&facts, is_served, &mut folded.drafts);
        folded.unseen = unseen::find(
            &mut folded.drafts,
            &gathered.wakings,
            &folded.begun,
            &kinds,
            gathered.start_ns,
        );
        folded
    }
}

impl Replay {
    /// The requests of services, each by its last message.
    pub fn whole_requests(&self) -> impl Iterator<Item = &Served> {
        self.requests.iter().filter(|one| !one.goes_on)
    }

    /// The group of this path.
    ///
    /// # Errors
    /// If there is none; names the nearest.
    pub fn group(&self, path: &str) -> Result<GroupIndex, ReplayError> {
        let position = self.groups.iter().position(|group| group.path == path);
        let known = || {
            let paths = self.groups.iter().filter(|group| !group.autogroup);
            paths
                .map(|group| group.path.as_str())
                .collect::<Vec<&str>>()
        };
        position
            .map(|index| GroupIndex(index as u32))
            .ok_or_else(|| ReplayError::UnknownGroup {
                path: path.to_owned(),
                suggestion: schedcast_base::names::suggestion(path, &known()),
            })
    }

    /// The threads of this name, in order of appearance.
    ///
    /// # Errors
    /// If there is none; names the nearest.
    pub fn threads_named(&self, name: &str) -> Result<Vec<ThreadId>, ReplayError> {
        let found: Vec<ThreadId> = (0u32..)
            .map(ThreadId)
            .zip(&self.threads)
            .filter(|(_, thread)| thread.name == name)
            .map(|(id, _)| id)
            .collect();
        if found.is_empty() {
            let mut names: Vec<&str> = self.threads.iter().map(|t| t.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            return Err(ReplayError::UnknownThread {
                name: name.to_owned(),
                suggestion: schedcast_base::names::suggestion(name, &names),
            });
        }
        Ok(found)
    }

    /// The threads of a group and of the groups below it, in order of appearance.
    pub fn members(&self, group: GroupIndex) -> Vec<ThreadId> {
        let of_thread = self.threads.iter().map(|thread| thread.group);
        groups::members_of(&self.groups, of_thread, group)
    }

    /// CPUs that the nearest cpuset leaves to `group`; `None` where the recording does not tell.
    pub fn cpuset_of(&self, group: GroupIndex) -> Option<CpuSet> {
        groups::cpus_of(&self.groups, group)
    }

    /// The steps of an activation.
    pub fn steps_of(&self, activation: &Activation) -> &[Step] {
        let range = activation.steps.start as usize..activation.steps.end as usize;
        &self.steps[range]
    }

    /// The activations of a thread as recorded, before they were cut into requests.
    fn recorded_of(&self, thread: ThreadId) -> &[Activation] {
        let uncut = self.uncut.get(&thread).map(Vec::as_slice);
        uncut.unwrap_or_else(|| self.activations_of(thread))
    }

    /// The activations of a thread.
    pub fn activations_of(&self, thread: ThreadId) -> &[Activation] {
        let range = &self.threads[thread.index()].activations;
        &self.activations[range.start as usize..range.end as usize]
    }
}
