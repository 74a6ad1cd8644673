//! From runs and wakeups to activations and their steps.
//!
//! A thread's recording is turned into *marks* in the order of the trace: it is woken, it is
//! switched in, it wakes another thread, an interrupt hits it, it sleeps. Folding the marks gives
//! activations, each from one wakeup to the next sleep, and places every deed at the CPU time the
//! thread had executed by then. Queueing, preemption and throttling vanish in that step: they lie
//! between runs.
//!
//! The rules that are not obvious:
//!
//! * **A waking of a thread that runs.** `sched_waking` is written only for a thread that has set
//!   its state to sleeping. If it comes while the thread still runs, the thread has finished with
//!   its message: the work after it is for the new message, and the activation is split there. If
//!   it comes in the last microseconds before a switch out that nothing else ends, it ends that
//!   sleep (`end_sleeps`).
//! * **Two wakings without a run between them.** The first run is missing in the trace. It becomes
//!   an activation of its own, with assumed work.
//! * **A sleep in state `D`** does not end an activation. If an interrupt ends it, it takes as long
//!   as recorded. If a thread ends it, it waits for that thread. A kernel thread, or a thread of
//!   another group, may just have held a lock: unless it was woken or forked for this in the same
//!   activation, the sleep takes as long as recorded, too. Worked example: `kdamond` looks at the
//!   pages of a compiler that exits, and holds its memory lock for 7 ms, 8.6 s after the start. If
//!   the compiler waited for that look, no limit would let it end earlier.
//! * **A run without a wakeup.** Within [`QUEUED_AT_START_NS`] of the start of the recording the
//!   thread was on a run queue then. Later its wakeup is missing, and it keeps the time of its
//!   first run.

use super::Folded;
use super::model::{Activation, HandoverId, Thread, Trigger};
use super::service::RequestId;
use super::threads::{Origin, ThreadId};
use super::timeline::{Leave, Run};
use schedcast_sim::workload::ArrivalContext;
use schedcast_trace::PrevState;

/// A `sched_waking`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waking {
    pub time_ns: u64,
    pub cpu: u32,
    pub wakee: ThreadId,
    pub source: Source,
    /// Thread that was current when a softirq woke: on its own behalf, or just interrupted. See
    /// `sends`.
    pub under: Option<ThreadId>,
    /// The wakee went to another CPU than the waker's.
    pub remote: bool,
}

/// Where a waking comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A thread, on its own behalf.
    Thread(ThreadId),
    /// An interrupt (or the idle task).
    Outside { context: ArrivalContext },
}

impl Source {
    /// A softirq: whether a thread sent what it brings is decided later.
    pub(super) const SOFTIRQ: Source = Source::Outside {
        context: ArrivalContext::SoftIrq,
    };
}

/// Action of a thread, or an action on it, at some event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deed {
    pub event: usize,
    pub time_ns: u64,
    pub kind: DeedKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeedKind {
    /// It is woken, by this waking.
    Woken(usize),
    /// It is runnable on this CPU (`sched_wakeup`, `sched_wakeup_new`); tells something only
    /// without a waking.
    Appears { cpu: u32 },
    /// It wakes another thread, by this waking; or is interrupted by a softirq that does, see
    /// `sends`.
    Wakes(usize),
    /// It forks.
    Forks(ThreadId),
    /// A traced interrupt arrives while it is current.
    Interrupted,
}

/// Facts of the whole recording while the activations are made.
pub(super) struct Context<'a> {
    pub wakings: &'a [Waking],
    /// A thread that is left out of the replay wakes others at the recorded times.
    pub threads: &'a [Thread],
    pub start_ns: u64,
}

/// Beginning that a waking caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// Nothing that is replayed.
    Nothing,
    /// An activation: the one of this draft.
    Draft(usize),
    /// The end of a wait inside an activation.
    Handover(HandoverId),
}

/// An activation whose deeds still name wakings instead of what these began.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub activation: Activation,
    /// Deeds at the time executed since the activation began.
    pub deeds: Vec<(u64, DraftStep)>,
    /// Sleeps that did not end it.
    pub sleeps: u32,
    /// Time from its wakeup on an idle CPU to its switch in there; 0 if it began in another way.
    pub approach_ns: u64,
    /// Its wakeup preempted a thread, and it is charged from there on.
    pub preempts: bool,
}

impl Draft {
    /// Its wakings, each with how much was executed by then.
    pub(super) fn wakes(&self) -> impl DoubleEndedIterator<Item = (u64, usize)> {
        self.deeds.iter().filter_map(|(into_ns, step)| match step {
            DraftStep::Wakes(waking) => Some((*into_ns, *waking)),
            _ => None,
        })
    }

    /// Puts in a deed, behind what happens at the same time. Nothing follows an exit.
    pub(super) fn insert(&mut self, at_ns: u64, step: DraftStep) {
        let behind = self.deeds.partition_point(|(deed_ns, _)| *deed_ns <= at_ns);
        let exits = matches!(self.deeds.last(), Some((_, DraftStep::Exit)));
        let place = behind.min(self.deeds.len() - usize::from(exits));
        self.deeds.insert(place, (at_ns, step));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DraftStep {
    Wakes(usize),
    Forks(ThreadId),
    Io {
        delay_ns: u64,
    },
    Wait(HandoverId),
    Exit,
    /// Begins this draft by a message that no wakeup shows.
    Sends(usize),
    /// Wakes this draft's thread, as what was copied did; `remote`: one on another CPU.
    Rewakes {
        draft: usize,
        remote: bool,
    },
    /// Ends a wait, as what was copied did.
    Posts(HandoverId),
    /// Goes on when this request has arrived.
    Awaits(RequestId),
    /// Ends this request.
    Replies(RequestId),
    /// Begins this draft of its own thread after the sleep before that.
    Later(usize),
}

/// Counts of what had to be guessed or is incomplete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incomplete {
    /// Activations under way at the start.
    pub at_start: u32,
    /// Activations under way, or woken and not run, at the end.
    pub at_end: u32,
    /// Activations of which the trace shows no run.
    pub unseen_runs: u32,
    /// Activations whose wakeup the trace does not show.
    pub unseen_wakeups: u32,
    /// Activations that ended with the next message instead of asleep.
    pub merged: u32,
}

/// A thread without a wakeup that runs within this time of the start of the recording, ns, was on a
/// run queue then.
const QUEUED_AT_START_NS: u64 = 1_000_000_000;

/// Something in a thread's life.
#[derive(Clone, Copy, Debug)]
struct Mark {
    time_ns: u64,
    /// CPU time the thread had executed by then.
    at_ns: u64,
    kind: MarkKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkKind {
    Deed(DeedKind),
    In {
        cpu: u32,
        approach_ns: u64,
        preempts: bool,
    },
    Out(Leave),
}

/// Makes the activations of one thread. `folded` has those of all threads.
pub(super) struct Folder<'a> {
    context: &'a Context<'a>,
    thread: ThreadId,
    origin: Origin,
    folded: &'a mut Folded,
    state: State,
    /// Executed time at which the open activation began.
    base_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep,
    /// Awake in the draft at the end of `drafts`.
    Awake {
        ran: bool,
    },
    /// Awake, but an unseen switch out may have been a sleep.
    MaybeAsleep,
    /// Asleep inside the draft at the end of `drafts`, uninterruptibly.
    Waiting {
        since_ns: u64,
    },
}

impl<'a> Folder<'a> {
    pub(super) fn new(
        context: &'a Context<'a>,
        thread: ThreadId,
        origin: Origin,
        folded: &'a mut Folded,
    ) -> Self {
        Self {
            context,
            thread,
            origin,
            folded,
            state: State::Asleep,
            base_ns: 0,
        }
    }

    /// Folds runs and deeds (both in order of events) into drafts, which are appended.
    pub(super) fn fold(mut self, runs: &[Run], deeds: &[Deed]) {
        let mut executed_ns = 0;
        for mark in marks(runs, deeds) {
            let Mark { time_ns, at_ns, .. } = mark;
            executed_ns = at_ns;
            match mark.kind {
                MarkKind::In {
                    cpu,
                    approach_ns,
                    preempts,
                } => {
                    self.approached(approach_ns);
                    if preempts && self.state == (State::Awake { ran: false }) {
                        self.open().expect("it is awake").preempts = true;
                    }
                    self.switched_in(cpu, time_ns, at_ns);
                }
                MarkKind::Out(leave) => self.switched_out(leave, time_ns, at_ns),
                MarkKind::Deed(DeedKind::Woken(waking)) => self.woken(waking, at_ns),
                MarkKind::Deed(DeedKind::Appears { cpu }) => self.appears(cpu, time_ns, at_ns),
                MarkKind::Deed(DeedKind::Wakes(waking)) => self.wakes(waking, at_ns),
                MarkKind::Deed(DeedKind::Forks(child)) => {
                    self.deed(at_ns, DraftStep::Forks(child));
                }
                MarkKind::Deed(DeedKind::Interrupted) => self.interrupted(),
            }
        }
        if self.state != State::Asleep && self.state != State::MaybeAsleep {
            self.folded.incomplete.at_end += 1;
        }
        if self.state == State::MaybeAsleep {
            self.close(executed_ns, None, true);
        } else if self.state != State::Asleep {
            self.close(executed_ns, None, false);
        }
    }

    fn relative(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.context.start_ns)
    }

    /// The activation under way.
    fn open(&mut self) -> Option<&mut Draft> {
        match self.state {
            State::Asleep => None,
            _ => self.folded.drafts.last_mut(),
        }
    }

    fn begin(&mut self, trigger: Trigger, woken_ns: u64, at_ns: u64) {
        self.folded.drafts.push(Draft {
            activation: Activation::new(self.thread, trigger, woken_ns),
            deeds: Vec::new(),
            sleeps: 0,
            approach_ns: 0,
            preempts: false,
        });
        self.base_ns = at_ns;
        self.state = State::Awake { ran: false };
    }

    fn close(&mut self, at_ns: u64, end_ns: Option<u64>, slept: bool) {
        let base_ns = self.base_ns;
        let end_ns = end_ns.map(|end_ns| self.relative(end_ns));
        if let Some(draft) = self.open() {
            draft.activation.executed_ns = at_ns - base_ns;
            draft.activation.end_ns = end_ns;
            draft.activation.slept = slept;
        }
        self.base_ns = at_ns;
        self.state = State::Asleep;
    }

    fn deed(&mut self, at_ns: u64, step: DraftStep) {
        let offset_ns = at_ns - self.base_ns;
        if let Some(draft) = self.open() {
            draft.deeds.push((offset_ns, step));
        }
    }

    fn interrupted(&mut self) {
        if let Some(draft) = self.open() {
            draft.activation.interrupts += 1;
        }
    }

    fn wakes(&mut self, index: usize, at_ns: u64) {
        let waking = self.context.wakings[index];
        let now_ns = self.relative(waking.time_ns);
        if let Source::Outside { .. } = waking.source {
            self.interrupted();
            return;
        }
        if let Some(draft) = self.open()
            && draft.activation.trigger == Trigger::Thread(waking.wakee)
        {
            draft.activation.replied_ns = Some(now_ns);
        }
        self.deed(at_ns, DraftStep::Wakes(index));
    }

    fn woken(&mut self, index: usize, at_ns: u64) {
        let waking = self.context.wakings[index];
        let source = match waking.source {
            Source::Thread(by) if self.context.threads[by.index()].left_out => Source::Outside {
                context: ArrivalContext::HardIrq,
            },
            source => source,
        };
        if let State::Waiting { since_ns } = self.state {
            let step = match source {
                Source::Thread(by) if self.waits_for(by) => {
                    let handover = HandoverId(self.folded.handovers);
                    self.folded.handovers += 1;
                    self.folded.begun[index] = Begun::Handover(handover);
                    DraftStep::Wait(handover)
                }
                _ => DraftStep::Io {
                    delay_ns: waking.time_ns.saturating_sub(since_ns),
                },
            };
            self.deed(at_ns, step);
            self.state = State::Awake { ran: true };
            return;
        }
        match self.state {
            State::Awake { ran: true } => {
                self.folded.incomplete.merged += 1;
                self.close(at_ns, Some(waking.time_ns), false);
            }
            State::Awake { ran: false } => {
                self.folded.incomplete.unseen_runs += 1;
                self.close(at_ns, None, true);
            }
            State::MaybeAsleep => self.close(at_ns, None, true),
            State::Asleep | State::Waiting { .. } => {}
        }
        let woken_ns = self.relative(waking.time_ns);
        let trigger = match source {
            Source::Thread(by) => Trigger::Thread(by),
            Source::Outside { context } => Trigger::outside(woken_ns, waking.cpu, context),
        };
        if matches!(source, Source::Thread(_)) {
            self.folded.begun[index] = Begun::Draft(self.folded.drafts.len());
        }
        self.begin(trigger, woken_ns, at_ns);
    }

    /// Whether a sleep in state `D` that `by` ends lasts until `by` gets there.
    fn waits_for(&mut self, by: ThreadId) -> bool {
        let [one, own] = [by, self.thread].map(|id| &self.context.threads[id.index()]);
        let is_near = !one.kernel && one.group == own.group;
        let wakings = self.context.wakings;
        let is_asked = |(_, step): &(u64, DraftStep)| match step {
            DraftStep::Wakes(waking) => wakings[*waking].wakee == by,
            DraftStep::Forks(child) => *child == by,
            _ => false,
        };
        is_near
            || self
                .open()
                .is_some_and(|draft| draft.deeds.iter().any(is_asked))
    }

    /// A wakeup without a waking: of a forked thread, or of one whose waker is not traced.
    fn appears(&mut self, cpu: u32, time_ns: u64, at_ns: u64) {
        if matches!(self.state, State::Awake { .. }) {
            return;
        }
        if let State::Waiting { since_ns } = self.state {
            let delay_ns = time_ns.saturating_sub(since_ns);
            self.deed(at_ns, DraftStep::Io { delay_ns });
            self.state = State::Awake { ran: true };
            return;
        }
        if self.state == State::MaybeAsleep {
            self.close(at_ns, None, true);
        }
        let woken_ns = self.relative(time_ns);
        let trigger = self.unwoken(cpu, woken_ns, false);
        self.begin(trigger, woken_ns, at_ns);
    }

    /// The trigger of an activation that no waking began.
    fn unwoken(&mut self, cpu: u32, woken_ns: u64, running: bool) -> Trigger {
        let first = self
            .folded
            .drafts
            .last()
            .is_none_or(|draft| draft.activation.thread != self.thread);
        match self.origin {
            Origin::Fork(parent) if first && !self.context.threads[parent.index()].left_out => {
                Trigger::Fork
            }
            Origin::Before if first && running && woken_ns <= QUEUED_AT_START_NS => {
                self.folded.incomplete.at_start += 1;
                Trigger::Start
            }
            _ => {
                self.folded.incomplete.unseen_wakeups += 1;
                Trigger::outside(woken_ns, cpu, ArrivalContext::HardIrq)
            }
        }
    }

    /// Time from the wakeup on an idle CPU to the switch in there.
    fn approached(&mut self, approach_ns: u64) {
        if self.state == (State::Awake { ran: false })
            && let Some(draft) = self.open()
        {
            draft.approach_ns = approach_ns;
        }
    }

    fn switched_in(&mut self, cpu: u32, time_ns: u64, at_ns: u64) {
        let now_ns = self.relative(time_ns);
        match self.state {
            State::Asleep => {
                let trigger = self.unwoken(cpu, now_ns, true);
                let woken_ns = if trigger == Trigger::Start { 0 } else { now_ns };
                self.begin(trigger, woken_ns, at_ns);
            }
            State::Waiting { since_ns } => {
                let delay_ns = time_ns.saturating_sub(since_ns);
                self.deed(at_ns, DraftStep::Io { delay_ns });
            }
            State::Awake { .. } | State::MaybeAsleep => {}
        }
        self.state = State::Awake { ran: true };
        if let Some(draft) = self.open() {
            draft.activation.switches += 1;
            draft.activation.first_run_ns.get_or_insert(now_ns);
        }
    }

    fn switched_out(&mut self, leave: Leave, time_ns: u64, at_ns: u64) {
        match leave {
            Leave::Blocked(PrevState::Uninterruptible) => {
                if let Some(draft) = self.open() {
                    draft.sleeps += 1;
                    self.state = State::Waiting { since_ns: time_ns };
                }
            }
            Leave::Blocked(_) => {
                if let Some(draft) = self.open() {
                    draft.sleeps += 1;
                }
                self.close(at_ns, Some(time_ns), true);
            }
            Leave::Exit => {
                self.deed(at_ns, DraftStep::Exit);
                self.close(at_ns, Some(time_ns), true);
            }
            Leave::Unseen => self.state = State::MaybeAsleep,
            Leave::Runnable | Leave::End => {}
        }
    }
}

/// Runs and deeds as one list in the order of the trace.
///
/// At the same event a wakeup comes before the switch in it shows, that before what the thread
/// does, and a switch out last.
fn marks(runs: &[Run], deeds: &[Deed]) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::with_capacity(runs.len() * 2 + deeds.len());
    let mut before_ns = 0;
    let mut deeds = deeds.iter().peekable();
    for run in runs {
        let precedes = |deed: &&Deed| {
            let of_others = matches!(deed.kind, DeedKind::Woken(_) | DeedKind::Appears { .. });
            deed.event < run.start_event || (deed.event == run.start_event && of_others)
        };
        while let Some(deed) = deeds.next_if(precedes) {
            marks.push(Mark {
                time_ns: deed.time_ns,
                at_ns: before_ns,
                kind: MarkKind::Deed(deed.kind),
            });
        }
        marks.push(Mark {
            time_ns: run.start_ns,
            at_ns: before_ns,
            kind: MarkKind::In {
                cpu: run.cpu,
                approach_ns: run.approach_ns,
                preempts: run.preempts,
            },
        });
        let mut at_ns = before_ns;
        while let Some(deed) = deeds.next_if(|deed| deed.event <= run.end_event) {
            // Clocks of different CPUs may disagree by a little: executed time still only grows.
            let into_ns = deed.time_ns.clamp(run.start_ns, run.end_ns) - run.start_ns;
            at_ns = at_ns.max(before_ns + into_ns);
            marks.push(Mark {
                time_ns: deed.time_ns,
                at_ns,
                kind: MarkKind::Deed(deed.kind),
            });
        }
        before_ns += run.length_ns();
        marks.push(Mark {
            time_ns: run.end_ns,
            at_ns: before_ns,
            kind: MarkKind::Out(run.leave),
        });
    }
    marks.extend(deeds.map(|deed| Mark {
        time_ns: deed.time_ns,
        at_ns: before_ns,
        kind: MarkKind::Deed(deed.kind),
    }));
    end_sleeps(&mut marks);
    marks
}

/// Moves wakings that end a sleep behind the switch out with which it begins.
///
/// A waker that finds a thread dequeued but still on its CPU, on the way to the switch, waits until
/// the switch is done (`try_to_wake_up` spins on `on_cpu`). The trace has the waking up to some
/// microseconds before the switch out, and `sched_wakeup` after it. A thread that is still queued
/// just goes on instead: `sched_wakeup` follows at once.
fn end_sleeps(marks: &mut [Mark]) {
    // The waking of the run under way that no `sched_wakeup` has followed.
    let mut open = None;
    for place in 0..marks.len() {
        match marks[place].kind {
            MarkKind::In { .. } | MarkKind::Deed(DeedKind::Appears { .. }) => open = None,
            MarkKind::Deed(DeedKind::Woken(_)) => open = Some(place),
            MarkKind::Out(leave) => {
                if let (Some(waking), Leave::Blocked(_)) = (open.take(), leave)
                    && !is_woken_again(&marks[place + 1..])
                {
                    let out = marks[place];
                    marks[waking..=place].rotate_left(1);
                    marks[place].time_ns = out.time_ns;
                    marks[place].at_ns = out.at_ns;
                }
            }
            MarkKind::Deed(_) => {}
        }
    }
}

/// Whether a waking comes before the next run.
fn is_woken_again(marks: &[Mark]) -> bool {
    let mut asleep = marks.iter().map(|mark| mark.kind);
    let ends = |kind: &MarkKind| {
        matches!(
            kind,
            MarkKind::In { .. } | MarkKind::Deed(DeedKind::Woken(_))
        )
    };
    matches!(asleep.find(ends), Some(MarkKind::Deed(_)))
}
